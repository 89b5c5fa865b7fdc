/* Associative scans of a user's: the prefixes of trees of arrays, joined by a callback, whose
 * results are looked at each time. */
#include "tessera/control.h"
#include "tessera/shape.h"
#include "transform/transform.h"

/* A scan that is asked for; `of.user` is this struct. */
typedef struct asked {
  tsr__prefixes of;
  tsr_scope *scope;
  tsr_body_fn *combine;
  void *user;
  tsr_array *like; /* the tree whose form all have */
  int count;       /* its leaves */
  int64_t size;    /* elements */
  const char *site;
} asked;

static tsr_array *fail_scan(const asked *p, tsr_status status, const char *why)
{
  tsr__fail(p->scope, p->site, status, "tsr_associative_scan: %s", why);
  return tsr__make_inert(p->scope, p->site);
}

/* ---- combining ------------------------------------------------------------------------------- */

/* What the callback gave is of the type of what it took. */
static bool check_leaf(const asked *p, const tsr_array *want, tsr_array *got, int i)
{
  bool same = got->shape.rank == want->shape.rank && got->dtype == want->dtype;
  for (int d = 0; same && d < want->shape.rank; d++)
    same = got->shape.dims[d] == want->shape.dims[d];
  if (same) return true;
  char expected[160];
  tsr_type_text((tsr_dtype)want->dtype, want->shape, NULL, expected, sizeof expected);
  tsr__fail(p->scope, p->site, got->dtype == want->dtype ? TSR_ESHAPE : TSR_EDTYPE,
            "tsr_associative_scan: array %s of the result of combine is %s, but its operands are "
            "%s; combine must return the type of its operands: cast or reshape the result",
            tsr__leaf_path(p->scope, p->like, i), tsr_type_of(got), expected);
  return false;
}

/* Two trees of elements, as many in each, combined one by one. NULL: the error is told. The order
 * is kept: `before` stands before `after` in the row, as combine need not commute. */
static tsr_array **combine(const void *user, tsr_array **before, tsr_array **after)
{
  const asked *p = user;
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

/* ---- the call -------------------------------------------------------------------------------- */

/* Along which dim each array's elements are; all have as many. False: the error is told. A dim
 * counted from the end is another one in arrays of other ranks. */
static bool find_dims(asked *p, tsr_array *const *all, int dim)
{
  tsr__error error = { .status = TSR_OK };
  int *dims = tsr__arena_new(&p->scope->arena, ((size_t)p->count + 1) * sizeof *dims);
  for (int i = 0; dims && i < p->count && !error.status; i++) {
    dims[i] = dim;
    if (tsr__find_dim(all[i], &dims[i], "tsr_associative_scan", &error)) break;
    int64_t size = all[i]->shape.dims[dims[i]];
    if (i && size != p->size)
      tsr__error_set(&error, TSR_ESHAPE,
                     "tsr_associative_scan: array %d is %s, with %lld elements along dim %d, but "
                     "the arrays before have %lld; give arrays of equal size there",
                     i, tsr_type_of(all[i]), (long long)size, dims[i], (long long)p->size);
    p->size = size;
  }
  if (error.status) tsr__fail_error(p->scope, p->site, &error);
  p->of = (tsr__prefixes){ p->scope, combine, p, p->count, dims, p->site };
  return dims && !error.status;
}

/* The arrays with their elements the other way around, if that is asked for. From the end on is a
 * scan of the flipped row, flipped again. */
static void turn(const asked *p, tsr_array **all, bool reverse)
{
  for (int i = 0; reverse && i < p->count; i++)
    all[i] = tsr_flip_at(all[i], tsr_dims_of(&p->of.dim[i], 1), p->site);
}

tsr_array *tsr_associative_scan_at(tsr_body_fn *body, void *user, const tsr_prefix_args *given,
                                   const char *site)
{
  tsr_prefix_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_array *x = given ? given->x : NULL;
  tsr__take_opts("tsr_associative_scan", given, &args, sizeof args, &error);
  if (!tsr__usable(x)) return x ? x : tsr__make_of_null("tsr_associative_scan", "array", site);
  asked p = {
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
  tsr_array **out = good ? tsr__prefixes_of(&p.of, all.at, p.size) : NULL;
  if (out) turn(&p, out, args.reverse);
  tsr_array *made = out ? tsr__like(x, out, p.count, site) : NULL;
  return tsr__or_no_memory(p.scope, made, "tsr_associative_scan", site);
}
