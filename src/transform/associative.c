/* Associative scans: all prefixes of a row of elements in a logarithm of steps.
 *
 *   elements      a   b   c   d   e            level 0
 *   pairs           ab      cd                 level 1: a scan of half as many
 *   odd ones        ab      abcd               what that comes to
 *   even ones   a       abc     abcde          each a pair before it and one element
 *
 * The callback combines arrays of many elements at once, and all it is given are slices: so what
 * devices, gradients and mapping make of a scan is what they make of slices and concats. */
#include "tessera/control.h"
#include "tessera/shape.h"
#include "transform/transform.h"

typedef struct prefixes {
  tsr_scope *scope;
  tsr_body_fn *combine;
  void *user;
  tsr_array *like; /* the tree whose form all have */
  int count, *dim; /* by leaf: along which dim its elements are */
  int64_t size;    /* elements */
  const char *site;
} prefixes;

static tsr_array *fail_scan(const prefixes *p, tsr_status status, const char *why)
{
  tsr__fail(p->scope, p->site, status, "tsr_associative_scan: %s", why);
  return tsr__make_inert(p->scope, p->site);
}

static tsr_array **new_leaves(const prefixes *p)
{
  return tsr__arena_new(&p->scope->arena, ((size_t)p->count + 1) * sizeof(tsr_array *));
}

/* ---- combining ------------------------------------------------------------------------------- */

/* What the callback gave is of the type of what it took. */
static bool check_leaf(const prefixes *p, const tsr_array *want, tsr_array *got, int i)
{
  bool same = got->shape.rank == want->shape.rank && got->dtype == want->dtype;
  for (int d = 0; same && d < want->shape.rank; d++)
    same = got->shape.dims[d] == want->shape.dims[d];
  if (same) return true;
  char expected[160];
  tsr_type_text((tsr_dtype)want->dtype, want->shape, NULL, expected, sizeof expected);
  tsr__fail(p->scope, p->site, got->dtype == want->dtype ? TSR_ESHAPE : TSR_EDTYPE,
            "tsr_associative_scan: array %d of what is combined is %s, of two of %s; combine gives "
            "what it takes: cast or reshape it",
            i, tsr_type_of(got), expected);
  return false;
}

/* Two trees of elements, as many in each, combined one by one. NULL: the error is told. The order
 * is kept: `before` stands before `after` in the row, as combine need not commute. */
static tsr_array **combine(const prefixes *p, tsr_array **before, tsr_array **after)
{
  tsr__leaves out = { 0 };
  tsr_array *both[3] = { tsr__like(p->like, before, p->count, p->site),
                         tsr__like(p->like, after, p->count, p->site), NULL };
  if (both[0]->inert || both[1]->inert) return NULL;
  tsr_array *made = p->combine(p->scope, both, p->user);
  if (!made)
    return fail_scan(p, TSR_EARG, "combine returned NULL; return an array or a tree"), NULL;
  if (made->inert) return NULL;
  const char *want = tsr_tree_text(p->like), *got = tsr_tree_text(made);
  if (!want || !got || !tsr__leaves_of(&p->scope->arena, made, &out)) return NULL;
  if (strcmp(want, got) != 0) {
    tsr__fail(p->scope, p->site, TSR_EARG,
              "tsr_associative_scan: combine returned %s, expected %s, where * is an array; return "
              "a tree of the form of its arguments",
              got, want);
    return NULL;
  }
  for (int i = 0; i < p->count; i++)
    if (!check_leaf(p, before[i], out.at[i], i)) return NULL;
  return out.at;
}

/* ---- taking apart and together --------------------------------------------------------------- */

/* Each array's elements of a range. NULL out of memory. */
static tsr_array **part_of(const prefixes *p, tsr_array **all, tsr_range range)
{
  tsr_array **out = new_leaves(p);
  for (int i = 0; out && i < p->count; i++) out[i] = tsr__part(all[i], p->dim[i], range, p->site);
  return out;
}

/* e0 o0 e1 o1 ..: as many of both, or one even one more. Two dims for one need a dim to spare, so
 * arrays of all dims have two others joined meanwhile. A last even one without a partner is put
 * behind what was stacked. */
static tsr_array *interleave(const prefixes *p, tsr_array *even, tsr_array *odd, int dim)
{
  if (even->inert || odd->inert) return even->inert ? even : odd;
  const char *site = p->site;
  tsr_shape shape = odd->shape;
  int64_t pairs = shape.dims[dim], more = even->shape.dims[dim] - pairs;
  int joined = shape.rank < TSR_MAX_RANK ? -1 : dim < 2 ? 2 : 0;
  int at = joined == 0 ? dim - 1 : dim;
  tsr_array *first = more ? tsr__part(even, dim, (tsr_range){ 0, pairs, 1 }, site) : even;
  tsr_array *both[2] = { first, odd };
  for (int i = 0; i < 2 && joined >= 0; i++) both[i] = tsr__join_dims(both[i], joined, site);
  tsr_array *out = tsr_stack_at(both, 2, at + 1, site);
  shape.dims[dim] = 2 * pairs;
  if (!out->inert) out = tsr_reshape_at(out, shape, site);
  if (!more) return out;
  both[0] = out;
  both[1] = tsr__part(even, dim, (tsr_range){ pairs, pairs + 1, 1 }, site);
  return tsr_concat_at(both, 2, dim, site);
}

/* The prefixes of `size` elements. NULL: the error is told, or memory is out. As deep as the
 * logarithm of the size; the callback runs twice a level at most, on half of the elements each
 * time, so it is about twice as much work as one after the other. */
static tsr_array **scan(const prefixes *p, tsr_array **all, int64_t size)
{
  if (size < 2) return all;
  tsr_array **left = part_of(p, all, (tsr_range){ 0, size / 2 * 2, 2 });
  tsr_array **right = part_of(p, all, (tsr_range){ 1, size, 2 });
  tsr_array **odd = left && right ? combine(p, left, right) : NULL;
  odd = odd ? scan(p, odd, size / 2) : NULL;
  tsr_array **first = odd ? part_of(p, all, (tsr_range){ 0, 1, 1 }) : NULL;
  if (!first) return NULL;
  if (size > 2) {
    int64_t evens = (size - 1) / 2;
    tsr_array **before = part_of(p, odd, (tsr_range){ 0, evens, 1 });
    tsr_array **own = part_of(p, all, (tsr_range){ 2, size, 2 });
    tsr_array **even = before && own ? combine(p, before, own) : NULL;
    for (int i = 0; even && i < p->count; i++)
      first[i] = tsr_concat_at((tsr_array *[]){ first[i], even[i] }, 2, p->dim[i], p->site);
    if (!even) return NULL;
  }
  for (int i = 0; i < p->count; i++) first[i] = interleave(p, first[i], odd[i], p->dim[i]);
  return first;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Along which dim each array's elements are; all have as many. False: the error is told. A dim
 * counted from the end is another one in arrays of other ranks. */
static bool find_dims(prefixes *p, tsr_array *const *all, int dim)
{
  tsr__error error = { .status = TSR_OK };
  p->dim = tsr__arena_new(&p->scope->arena, ((size_t)p->count + 1) * sizeof *p->dim);
  for (int i = 0; p->dim && i < p->count && !error.status; i++) {
    p->dim[i] = dim;
    if (tsr__find_dim(all[i], &p->dim[i], "tsr_associative_scan", &error)) break;
    int64_t size = all[i]->shape.dims[p->dim[i]];
    if (i && size != p->size)
      tsr__error_set(&error, TSR_ESHAPE,
                     "tsr_associative_scan: array %d is %s, of %lld elements along dim %d, but "
                     "those before have %lld; give arrays of as many",
                     i, tsr_type_of(all[i]), (long long)size, p->dim[i], (long long)p->size);
    p->size = size;
  }
  if (error.status) tsr__fail_error(p->scope, p->site, &error);
  return p->dim && !error.status;
}

/* The arrays with their elements the other way around, if that is asked for. From the end on is a
 * scan of the flipped row, flipped again. */
static void turn(const prefixes *p, tsr_array **all, bool reverse)
{
  for (int i = 0; reverse && i < p->count; i++)
    all[i] = tsr_flip_at(all[i], tsr_dims_of(&p->dim[i], 1), p->site);
}

tsr_array *tsr_associative_scan_at(tsr_body_fn *body, void *user, const tsr_prefix_args *asked,
                                   const char *site)
{
  tsr_prefix_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_array *x = asked ? asked->x : NULL;
  tsr__take_opts("tsr_associative_scan", asked, &args, sizeof args, &error);
  if (!tsr__usable(x)) return x ? x : tsr__make_inert(NULL, site);
  prefixes p = {
    .scope = tsr__scope_here(tsr__home(x)), .combine = body, .user = user, .like = x, .site = site
  };
  tsr__leaves all = { 0 };
  if (error.status) tsr__fail_error(p.scope, site, &error);
  if (error.status) return tsr__make_inert(p.scope, site);
  if (!body) return fail_scan(&p, TSR_EARG, "combine is NULL; give a callback");
  bool good = tsr__leaves_of(&p.scope->arena, x, &all);
  p.count = all.count;
  if (good && find_dims(&p, all.at, args.dim)) turn(&p, all.at, args.reverse);
  else good = false;
  tsr_array **out = good ? scan(&p, all.at, p.size) : NULL;
  if (out) turn(&p, out, args.reverse);
  tsr_array *made = out ? tsr__like(x, out, p.count, site) : NULL;
  return tsr__or_no_memory(p.scope, made, "tsr_associative_scan", site);
}
