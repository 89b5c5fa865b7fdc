/* Named axes, and the collectives that are made of them.
 *
 *   body, at each of n places      mapped
 *   x          [d]                 [n, d]          what varies has the axis in front
 *   axis_all x [n, d]              [n, d]          the same at all places: an array like any other
 *   axis_own y of [n, d] -> [d]    [n, d]          and back
 *
 * psum is a sum over the first dim of axis_all, which varies no more; a scatter is axis_own of
 * what was summed. So mapping has two rows to know, and the partitioner sees reductions and
 * moves of arrays that lie along the axis. Several axes are one, the first the major one. */
#include "tessera/collectives.h"

#include <stdio.h>

#include "tessera/indexing.h"
#include "tessera/shape.h"
#include "transform/transform.h"

/* An axis that a body is mapped over, as the scopes of its trace know it. */
typedef struct tsr__axis {
  tsr__axis_attr attr;
  const struct tsr__axis *next; /* of the same scope */
} tsr__axis;

/* A list a scope: bodies are mapped over by several names at once, and scopes in scopes see
 * those around them. An inner one of a name hides an outer one. */
bool tsr__axis_bind(tsr_scope *scope, const char *name, int64_t size, bool of_mesh)
{
  tsr__axis *axis = tsr__arena_new(&scope->arena, sizeof *axis);
  if (!axis) return false;
  snprintf(axis->attr.name, sizeof axis->attr.name, "%s", name);
  axis->attr.size = size;
  axis->attr.of_mesh = of_mesh;
  axis->next = scope->axes;
  scope->axes = axis;
  return true;
}

/* This text is part of a signature, too: a body mapped over other axes is another trace. */
void tsr__axes_text(const tsr_scope *scope, tsr__text *out)
{
  const char *between = "";
  for (; scope; scope = scope->outer)
    for (const tsr__axis *a = scope->axes; a; a = a->next) {
      tsr__text_add(out, "%s%s=%lld%s", between, a->attr.name, (long long)a->attr.size,
                    a->attr.of_mesh ? " of the mesh" : "");
      between = ", ";
    }
}

/* From the inside out, the newest of a scope first. */
static const tsr__axis_attr *find_axis(const tsr_scope *scope, const char *name, size_t length)
{
  for (; scope; scope = scope->outer)
    for (const tsr__axis *a = scope->axes; a; a = a->next)
      if (strlen(a->attr.name) == length && !strncmp(a->attr.name, name, length)) return &a->attr;
  return NULL;
}

bool tsr__axis_manual(const tsr_scope *scope, const char *name)
{
  const tsr__axis_attr *axis = find_axis(scope, name, strlen(name));
  return axis && axis->of_mesh;
}

/* The axes of a text, "x" or "x,y". */
typedef struct axes {
  const tsr__axis_attr *at[TSR_MAX_AXES];
  int count;
  int64_t size; /* of all */
} axes;

/* A collective in the making. */
typedef struct collective {
  const char *name;
  tsr_scope *scope;
  axes over;
  const char *line, *site; /* the caller's; for nodes, with the name after it */
} collective;

static tsr_array *refuse(const collective *c, const tsr__error *error)
{
  tsr__fail_error(c->scope, c->line, error);
  return tsr__make_inert(c->scope, c->line);
}

/* Blanks, commas and '+' part names alike: specs write "x+y" where lists write "x,y". */
static bool read_axes(collective *c, const char *text, tsr__error *error)
{
  c->over.size = 1;
  /* An empty text goes in once, to be told what is known. */
  for (const char *at = text ? text : ""; *at || !c->over.count;) {
    at += strspn(at, " ,+");
    size_t length = strcspn(at, " ,+");
    const tsr__axis_attr *axis = length ? find_axis(c->scope, at, length) : NULL;
    if (!axis || c->over.count == TSR_MAX_AXES) {
      tsr__text known;
      tsr__text_init(&known, &c->scope->rt->heap);
      tsr__axes_text(c->scope, &known);
      tsr__error_set(error, TSR_EAXIS,
                     "%s: no axis \"%.*s\" is mapped over here%s%s; make the call in the body of "
                     "tsr_shard_map or of a tsr_vmap with that .axis",
                     c->name, (int)length, at, known.length ? ", but " : "", tsr__text_get(&known));
      tsr__text_free(&known);
      return false;
    }
    for (int i = 0; i < c->over.count; i++) {
      if (c->over.at[i] != axis) continue;
      tsr__error_set(error, TSR_EAXIS, "%s: axis %s is named twice in \"%s\"; name each axis once",
                     c->name, axis->name, text);
      return false;
    }
    c->over.at[c->over.count++] = axis;
    c->over.size *= axis->size;
    at += length;
    at += strspn(at, " ,+");
  }
  return true;
}

/* "file.c:12 (of ppermute)": explanations name a row of the table, and the call that it is part of
 * after the line. */
static const char *site_within(const collective *c)
{
  char text[256];
  if (!c->line) return NULL;
  snprintf(text, sizeof text, "%s (of %s)", c->line, c->name + strlen("tsr_"));
  const char *kept = tsr_runtime_site(c->scope->rt, text);
  return kept ? kept : c->line;
}

/* False: closed() gives what is to be returned; the error is told, or x had one. */
static bool open_collective(collective *c, const char *name, tsr_array *x, const char *axis,
                            const char *site)
{
  tsr__error error = { .status = TSR_OK };
  *c = (collective){ .name = name, .scope = tsr__home(x), .line = site, .site = site };
  if (!x) tsr__fail_null(name, "array", site);
  if (!tsr__usable(x)) return false;
  c->site = site_within(c);
  if (read_axes(c, axis, &error)) return true;
  refuse(c, &error);
  return false;
}

static tsr_array *closed(const collective *c, tsr_array *x)
{
  return x && x->inert ? x : tsr__make_inert(c->scope, c->site);
}

/* ---- out and in ------------------------------------------------------------------------------ */

static tsr_array *make_axis(tsr__op op, tsr_array *x, const tsr__axis_attr *axis, const char *site)
{
  tsr__ask ask = { .attr = axis, .attr_bytes = sizeof *axis };
  return tsr__make(tsr__home(x), op, TSR__IN(x), &ask, site);
}

/*   over "x,y" of 2 and 3:   x [d] -> all of y [3,d] -> all of x [2,3,d] -> joined [6,d]
 *
 * x is the major one, as in specs (x+y) and as positions are numbered. */
/* What all places have, along dim 0: of several axes the last first. */
static tsr_array *all_of(const collective *c, tsr_array *x)
{
  for (int i = c->over.count - 1; i >= 0; i--) {
    x = make_axis(TSR__OP_AXIS_ALL, x, c->over.at[i], c->site);
    if (i < c->over.count - 1) x = tsr__join_dims(x, 0, c->site);
  }
  return x;
}

tsr_array *tsr__axis_meet(tsr_array *part, tsr_array *out, tsr_array *operand,
                          const tsr__axis_attr *except, const char *site)
{
  for (const tsr_scope *scope = part->node.scope; scope && !part->inert; scope = scope->outer)
    for (const tsr__axis *a = scope->axes; a; a = a->next) {
      /* Gradients inside of bodies. What is the same at all places was read by each, so what is
       * due to it is the sum of what each place gives. Whether it is the same is known only when
       * the body is mapped (batch.c), so a node says so until then. */
      if (!a->attr.of_mesh || (except && !strcmp(except->name, a->attr.name))) continue;
      tsr__ask ask = { .attr = &a->attr, .attr_bytes = sizeof a->attr };
      part = tsr__make(NULL, TSR__OP_AXIS_MEET, TSR__IN(part, out, operand), &ask, site);
    }
  return part;
}

tsr_array *tsr__axis_as(tsr_array *due, tsr_array *out, const char *site)
{
  for (const tsr_scope *scope = due->node.scope; scope && !due->inert; scope = scope->outer)
    for (const tsr__axis *a = scope->axes; a; a = a->next)
      if (a->attr.of_mesh)
        return tsr_where_at(tsr__strong_number(tsr__home(due), tsr_scalar_bool(true), site),
                            tsr_operand_array(due), tsr_operand_array(out), site);
  return due;
}

tsr_array *tsr__zeros_as(tsr_scope *scope, tsr_array *like, tsr_sharding on, const char *site)
{
  tsr_array *all =
      tsr_full_at(scope, tsr_operand_int(0), (tsr_dtype)like->dtype, like->shape, on, site);
  return tsr__axis_as(all, like, site);
}

/* Of what lies along dim 0 that of each place. */
static tsr_array *own_of(const collective *c, tsr_array *x)
{
  for (int i = 0; i < c->over.count; i++) {
    if (i < c->over.count - 1) x = tsr__split_dim(x, 0, c->over.at[i]->size, c->site);
    x = make_axis(TSR__OP_AXIS_OWN, x, c->over.at[i], c->site);
  }
  return x;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Places of groups in the order they are listed, in the arena of the collective's scope. */
typedef struct grouping {
  int64_t each;          /* places in a group */
  const int *listed;     /* NULL: all places are one group, in order */
  int32_t *back, *picks; /* where place i is listed; room for `each` numbers for each place */
} grouping;

static bool read_groups(const collective *c, const tsr_collective_args *args, grouping *g,
                        tsr__error *error)
{
  int64_t size = c->over.size, count = args->group_count;
  *g = (grouping){ .each = size };
  if (!count) return true;
  if (count < 0 || !args->groups || size % count) {
    tsr__error_set(error, TSR_EARG,
                   "%s: %lld groups for %lld positions, expected groups of one size", c->name,
                   (long long)count, (long long)size);
    return false;
  }
  g->each = size / count;
  g->back = tsr__arena_new(&c->scope->arena, (size_t)(size + size * g->each) * sizeof *g->back);
  if (!g->back) {
    tsr__error_set(error, TSR_ENOMEM, "%s: no memory for groups", c->name);
    return false;
  }
  g->picks = g->back + size;
  g->listed = args->groups;
  for (int64_t i = 0; i < size; i++) g->back[i] = -1;
  for (int64_t i = 0; i < size; i++) {
    int place = args->groups[i];
    if (place < 0 || place >= size || g->back[place] >= 0) {
      tsr__error_set(error, TSR_EARG, "%s: position %d in .groups, expected each of 0..%lld once",
                     c->name, place, (long long)size - 1);
      return false;
    }
    g->back[place] = (int32_t)i;
  }
  return true;
}

/* Exchanges within groups are picks along the places: a row of the table for each place, of as many
 * numbers as its group has places.
 *
 *   groups  { 0 2 } { 1 3 }     gather  0 2   1 3   0 2   1 3    which place's each of them gets
 *                               deal    0.0 2.0   1.0 3.0   0.1 2.1   1.1 3.1    and which piece
 *
 * Row i of the table names the elements that place i is sent. */
static tsr_array *pick_in_groups(const collective *c, const grouping *g, tsr_array *x, bool pieces)
{
  int64_t count = c->over.size * g->each;
  for (int64_t i = 0; i < count; i++) {
    int64_t at = g->back[i / g->each], first = at - at % g->each;
    int32_t from = g->listed[first + i % g->each];
    g->picks[i] = pieces ? (int32_t)(from * g->each + at % g->each) : from;
  }
  if (pieces) x = tsr__join_dims(x, 0, c->site);
  return tsr__split_dim(tsr__pick_dim(x, 0, g->picks, count, c->site), 0, c->over.size, c->site);
}

/* [places, ..] as the arrays that each place gets of its group: [places, places in a group, ..]. */
static tsr_array *gather_groups(const collective *c, const grouping *g, tsr_array *x)
{
  return pick_in_groups(c, g, x, false);
}

/* [from, to, ..] as [to, from, ..]: both are places of a group, the first in all groups. */
static tsr_array *deal(const collective *c, const grouping *g, tsr_array *x)
{
  if (x->inert) return x;
  return g->listed ? pick_in_groups(c, g, x, true) : tsr_moveaxis_at(x, 1, 0, c->site);
}

/* ---- collectives ----------------------------------------------------------------------------- */

typedef tsr_array *reduce_fn(const tsr_reduce_args *args, const char *site);

static tsr_array *reduce_dim(const collective *c, reduce_fn *how, tsr_array *x, int dim)
{
  tsr_reduce_args args = { .size = sizeof args, .x = x, .dims = { .bits = 1u << dim } };
  return how(&args, c->site);
}

/* The dim of x that the places of a group may share out between them; -1: none divides. */
static int shared_dim(const grouping *g, const tsr_array *x)
{
  for (int d = 1; d < x->shape.rank; d++)
    if (x->shape.dims[d] && x->shape.dims[d] % g->each == 0) return d;
  return -1;
}

/* The dims of a place as one, with zeros up to a multiple of the places of a group. */
static tsr_array *pad_flat(const collective *c, const grouping *g, tsr_array *x, int64_t count)
{
  tsr_pad_args pad = { .size = sizeof pad, .high = { 0, (g->each - count % g->each) % g->each } };
  tsr_shape flat = { .rank = 2, .dims = { c->over.size, count } };
  pad.x = tsr_reshape_at(x, flat, c->site);
  return pad.high[1] ? tsr_pad_at(&pad, c->site) : pad.x;
}

/* Each place of a group reduces a piece of x, and all gather the pieces.
 *
 *   x [8, 6] of groups of 4     flat [8, 8] -> pieces [8, 4, 2] -> dealt -> reduced [8, 2]
 *                               -> gathered [8, 4, 2] -> [8, 8] -> [8, 6] */
static tsr_array *reduce_pieces(const collective *c, const grouping *g, reduce_fn *how,
                                tsr_array *x)
{
  tsr_shape shape = x->shape;
  int64_t count = tsr__shape_count(&shape) / c->over.size;
  int dim = shared_dim(g, x);
  if (dim < 0) x = pad_flat(c, g, x, count);
  int at = dim < 0 ? 1 : dim;
  x = tsr__split_dim(x, at, g->each, c->site);
  x = tsr__move_dim(x, at, 1, c->site);
  x = reduce_dim(c, how, deal(c, g, x), 1);
  if (!x->inert) x = gather_groups(c, g, x);
  x = tsr__move_dim(x, 1, at, c->site);
  x = tsr__join_dims(x, at, c->site);
  if (dim >= 0 || x->inert) return x;
  return tsr_reshape_at(tsr__part(x, 1, (tsr_range){ 0, count, 1 }, c->site), shape, c->site);
}

/* All places of a group gather all of few elements. */
static tsr_array *reduce_in_groups(const collective *c, const grouping *g, reduce_fn *how,
                                   tsr_array *x)
{
  int64_t count = tsr__shape_count(&x->shape) / c->over.size;
  /* A place is sent each - 1 pieces, and as many again; else each - 1 times all, at once. */
  bool few = count < g->each || count < 2 * ((count + g->each - 1) / g->each);
  return few ? reduce_dim(c, how, gather_groups(c, g, x), 1) : reduce_pieces(c, g, how, x);
}

/* The partitioner makes of the sum over a dim that lies along the axis what it makes of any:
 * partial sums and an all-reduce. */
static tsr_array *reduce(const char *name, reduce_fn *how, const tsr_collective_args *given,
                         const char *site)
{
  collective c;
  grouping g;
  tsr_collective_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr__take_opts(name, given, &args, sizeof args, &error);
  if (!open_collective(&c, name, args.x, args.axis, site)) return closed(&c, args.x);
  if (error.status || !read_groups(&c, &args, &g, &error)) return refuse(&c, &error);
  tsr_array *all = all_of(&c, args.x);
  if (all->inert) return all;
  /* The same everywhere then: no front, and nothing is dealt out. */
  if (!g.listed) return reduce_dim(&c, how, all, 0);
  return own_of(&c, reduce_in_groups(&c, &g, how, all));
}

tsr_array *tsr_psum_at(const tsr_collective_args *args, const char *site)
{
  return reduce("tsr_psum", tsr_sum_at, args, site);
}

tsr_array *tsr_pmean_at(const tsr_collective_args *args, const char *site)
{
  return reduce("tsr_pmean", tsr_mean_at, args, site);
}

tsr_array *tsr_pmax_at(const tsr_collective_args *args, const char *site)
{
  return reduce("tsr_pmax", tsr_max_at, args, site);
}

tsr_array *tsr_pmin_at(const tsr_collective_args *args, const char *site)
{
  return reduce("tsr_pmin", tsr_min_at, args, site);
}

/* Opens one of the collectives that move. */
static bool open_moving(collective *c, grouping *g, const char *name,
                        const tsr_collective_args *given, tsr_collective_args *args)
{
  tsr__error error = { .status = TSR_OK };
  tsr__take_opts(name, given, args, sizeof *args, &error);
  if (!open_collective(c, name, args->x, args->axis, c->line)) return false;
  if (!error.status && read_groups(c, args, g, &error)) return true;
  refuse(c, &error);
  return false;
}

/* A dim of an array, counted from the end if negative; -1 with the error told. `more`: one behind
 * the last dim is one, too. */
static int dim_of(const collective *c, const tsr_array *x, int dim, int more)
{
  int rank = x->shape.rank + more, at = dim < 0 ? dim + rank : dim;
  if (at >= 0 && at < rank) return at;
  tsr__fail(c->scope, c->line, TSR_EARG, "%s: dim %d of %s; %s", c->name, dim,
            tsr_type_of((tsr_array *)(uintptr_t)x), tsr__dims_text(rank).text);
  return -1;
}

/* Dim `at` as `parts` pieces behind each other. `at` counts with the dim of places in front, which
 * the message leaves out. */
static tsr_array *divide(const collective *c, tsr_array *x, int at, int64_t parts)
{
  if (x->inert || x->shape.dims[at] % parts == 0) return tsr__split_dim(x, at, parts, c->site);
  tsr__fail(c->scope, c->line, TSR_ESHAPE,
            "%s: dim %d has %lld elements, expected a multiple of %lld", c->name, at - 1,
            (long long)x->shape.dims[at], (long long)parts);
  return tsr__make_inert(c->scope, c->site);
}

/* Whether each place of a group gets an element along a dim; tiled it gets a piece. */
/*   4 places, x [8]     tiled: each gets 2 elements, [2]       else: an error
 *             x [4]     each gets one, and the dim is gone
 */
static bool deals_out(const collective *c, const grouping *g, const tsr_collective_args *args,
                      int dim)
{
  if (args->tiled || args->x->shape.dims[dim] == g->each) return true;
  tsr__fail(c->scope, c->line, TSR_ESHAPE,
            "%s: dim %d of %s is split over %lld positions, expected one element for each; set "
            ".tiled to give each a slice",
            c->name, dim, tsr_type_of(args->x), (long long)g->each);
  return false;
}

tsr_array *tsr_all_gather_at(const tsr_collective_args *given, const char *site)
{
  collective c = { .line = site };
  grouping g;
  tsr_collective_args args = { .size = sizeof args };
  if (!open_moving(&c, &g, "tsr_all_gather", given, &args)) return closed(&c, args.x);
  int dim = dim_of(&c, args.x, args.dim, !args.tiled);
  if (dim < 0) return tsr__make_inert(c.scope, site);
  tsr_array *x = all_of(&c, args.x);
  int first = g.listed != NULL; /* which dim is along the axis: of groups, places stand before */
  if (first && !x->inert) x = gather_groups(&c, &g, x);
  x = tsr__move_dim(x, first, first + dim, c.site);
  if (args.tiled) x = tsr__join_dims(x, first + dim, c.site);
  return first ? own_of(&c, x) : x;
}

/* Arrays of places, [from, ..], as pieces for the places of a group, [from, to, ..]; a piece has
 * the dim that was split only if it is tiled. */
static tsr_array *pieces_of(const collective *c, const grouping *g, const tsr_collective_args *args,
                            int split, tsr_array *x)
{
  if (x->inert) return x;
  if (!deals_out(c, g, args, split)) return tsr__make_inert(c->scope, c->site);
  if (args->tiled) x = divide(c, x, split + 1, g->each);
  return tsr__move_dim(x, split + 1, 1, c->site);
}

/*   x [8] at 4 places, tiled     all [4, 8] -> sum [1, 8] -> pieces [1, 4, 2] -> own [2]
 *   in groups of 2               all [4, 8] -> pieces [4, 2, 4] -> dealt, sum [4, 4] -> own [4] */
tsr_array *tsr_psum_scatter_at(const tsr_collective_args *given, const char *site)
{
  collective c = { .line = site };
  grouping g;
  tsr_collective_args args = { .size = sizeof args };
  if (!open_moving(&c, &g, "tsr_psum_scatter", given, &args)) return closed(&c, args.x);
  int dim = dim_of(&c, args.x, args.dim, 0);
  if (dim < 0) return tsr__make_inert(c.scope, site);
  tsr_reduce_args sum = { .size = sizeof sum, .dims = { .bits = 1 }, .keep_dims = true };
  tsr_array *x = all_of(&c, args.x);
  if (g.listed) {
    x = deal(&c, &g, pieces_of(&c, &g, &args, dim, x));
    return x->inert ? x : own_of(&c, reduce_dim(&c, tsr_sum_at, x, 1));
  }
  sum.x = x;
  x = pieces_of(&c, &g, &args, dim, x->inert ? x : tsr_sum_at(&sum, c.site));
  return x->inert ? x : own_of(&c, tsr__join_dims(x, 0, c.site));
}

/* `swaps`: what is dealt out and put together is one dim. */
static tsr_array *all_to_all(const char *name, const tsr_collective_args *given, bool swaps,
                             const char *site)
{
  collective c = { .line = site };
  grouping g;
  tsr_collective_args args = { .size = sizeof args };
  if (!open_moving(&c, &g, name, given, &args)) return closed(&c, args.x);
  if (swaps) args.split = args.dim;
  int split = dim_of(&c, args.x, args.split, 0), dim = dim_of(&c, args.x, args.dim, 0);
  if (split < 0 || dim < 0) return tsr__make_inert(c.scope, site);
  tsr_array *x = deal(&c, &g, pieces_of(&c, &g, &args, split, all_of(&c, args.x)));
  if (x->inert) return x;
  x = tsr_moveaxis_at(x, 1, dim + 1, c.site);
  if (args.tiled) x = tsr__join_dims(x, dim + 1, c.site);
  return own_of(&c, x);
}

tsr_array *tsr_all_to_all_at(const tsr_collective_args *args, const char *site)
{
  return all_to_all("tsr_all_to_all", args, false, site);
}

tsr_array *tsr_pswapaxes_at(const tsr_collective_args *args, const char *site)
{
  return all_to_all("tsr_pswapaxes", args, true, site);
}

/* ---- ragged ---------------------------------------------------------------------------------- */

/* Whether what goes where fits together. */
static bool check_ragged(const collective *c, const tsr_ragged_args *a)
{
  const tsr_array *lists[] = { a->starts, a->sizes, a->places };
  const tsr_shape *x = &a->x->shape, *to = &a->to->shape;
  bool fits = x->rank > 0 && x->rank == to->rank && a->x->dtype == a->to->dtype;
  for (int d = 1; fits && d < x->rank; d++) fits = x->dims[d] == to->dims[d];
  for (int i = 0; i < 3 && fits; i++)
    fits = tsr__dtype_integer((tsr_dtype)lists[i]->dtype) && lists[i]->shape.rank == 1 &&
           lists[i]->shape.dims[0] == c->over.size;
  if (fits) return true;
  tsr__fail(c->scope, c->line, TSR_ESHAPE,
            "%s: x is %s, .to is %s, and .starts, .sizes and .places are %s, %s and %s; rows of x "
            "and .to must be alike, and the lists must have one integer for each of %lld positions",
            c->name, tsr_type_of(a->x), tsr_type_of(a->to), tsr_type_of(a->starts),
            tsr_type_of(a->sizes), tsr_type_of(a->places), (long long)c->over.size);
  return false;
}

/* The lists of all places: [places, places, 3], a row for each sender. The three lists travel as
 * one array. */
static tsr_array *all_said(const collective *c, const tsr_ragged_args *a)
{
  tsr_array *lists[] = { a->starts, a->sizes, a->places };
  for (int i = 0; i < 3; i++) lists[i] = tsr_cast_at(lists[i], TSR_I64, c->site);
  return all_of(c, tsr_stack_at(lists, 3, 1, c->site));
}

/* A place computes with the lists that are sent to it alone, so these move before they are made
 * larger. */
tsr_array *tsr__said_back(tsr_array *said, int dim, const char *site)
{
  const tsr__ask ask = { TSR__ATTR(tsr__place_attr, .why = TSR__WHY_SAID), .opens = true };
  tsr_array *turned = tsr_swapaxes_at(said, dim, dim + 1, site);
  return turned->inert ? turned : tsr__make(NULL, TSR__OP_LIKE, TSR__IN(turned, said), &ask, site);
}

/* The numbers of all places for this one in a list: [places, 1].
 *
 *   all     row p: what place p says to each         turned: column to row
 *   own     the numbers of each place for this one, [places, 3]
 */
static tsr_array *said_of(const collective *c, tsr_array *all, int list)
{
  if (all->inert) return all;
  tsr_array *own = own_of(c, tsr__said_back(all, 0, c->site));
  return tsr__part(own, 1, (tsr_range){ list, list + 1, 1 }, c->site);
}

/* What places say, which fails the run where it is not from 0 on and below `size`. */
static tsr_array *within(const collective *c, tsr_array *said, int64_t size, int whom)
{
  tsr__ask ask = { TSR__ATTR(tsr__within_attr, .size = size, .whom = whom) };
  tsr_array *below = tsr_sub_at(said, TSR_OPERAND(size), c->site);
  tsr_array *none = tsr_lt_at(said, TSR_OPERAND(0), c->site);
  said = tsr_where_at(none, TSR_OPERAND(below), TSR_OPERAND(said), c->site);
  return tsr__make(NULL, TSR__OP_WITHIN, TSR__IN(said), &ask, c->site);
}

/* How many rows lie from `first` to `last`, both of which are to be below `size`: none where none
 * are sent, whose row is looked at by nobody. */
static tsr_array *rows_within(const collective *c, tsr_array **first, tsr_array *count,
                              int64_t size, int whom)
{
  const char *site = c->site;
  tsr_operand zero = tsr_operand_int(0);
  tsr_array *some = tsr_gt_at(count, zero, site);
  tsr_array *last = tsr_sub_at(tsr_add_at(*first, TSR_OPERAND(count), site), TSR_OPERAND(1), site);
  *first = within(c, tsr_where_at(some, TSR_OPERAND(*first), zero, site), size, whom);
  last = within(c, tsr_where_at(some, TSR_OPERAND(last), zero, site), size, whom);
  tsr_array *more = tsr_add_at(tsr_sub_at(last, TSR_OPERAND(*first), site), TSR_OPERAND(1), site);
  return tsr_where_at(some, TSR_OPERAND(more), zero, site);
}

/* Which row of all places' comes to each row here; -1: none. */
static tsr_array *ragged_rows(const collective *c, const tsr_ragged_args *a, tsr_array *said)
{
  const char *site = c->site;
  /* Which row comes where is computed for all rows of the result against all places, as a mask
   * of [places, rows here]. Sizes differ by place, so no box could say it:
   *
   *   place p sends .sizes rows from .starts to .places of this one
   *   row r here is theirs if  0 <= r - place_p < size_p;  of all places' rows it is
   *   p * rows + start_p + r - place_p,  the largest of them, -1 where nobody sends */
  int64_t rows = a->x->shape.dims[0];
  tsr_shape line = { .rank = 2, .dims = { 1, a->to->shape.dims[0] } };
  tsr_shape places = { .rank = 2, .dims = { c->over.size, 1 } };
  tsr_sharding any = { .mesh = NULL };
  tsr_array *start = said_of(c, said, 0), *count = said_of(c, said, 1);
  tsr_array *first = said_of(c, said, 2);
  count = within(c, count, INT64_C(1) << 62, TSR__WITHIN_SIZES);
  count = rows_within(c, &start, count, rows, TSR__WITHIN_SENT);
  count = rows_within(c, &first, count, a->to->shape.dims[0], TSR__WITHIN_PUT);
  tsr_array *at = tsr_iota_at(c->scope, TSR_I64, line, 1, any, site);
  tsr_array *from = tsr_iota_at(c->scope, TSR_I64, places, 0, any, site);
  at = tsr_sub_at(at, TSR_OPERAND(first), site); /* [places, rows here] */
  tsr_array *row = tsr_add_at(start, TSR_OPERAND(at), site);
  row = tsr_add_at(row, TSR_OPERAND(tsr_mul_at(from, TSR_OPERAND(rows), site)), site);
  tsr_array *sent = tsr_and_at(tsr_ge_at(at, TSR_OPERAND(0), site),
                               TSR_OPERAND(tsr_lt_at(at, TSR_OPERAND(count), site)), site);
  tsr_reduce_args most = { .size = sizeof most, .dims = { .bits = 1 } };
  most.x = tsr_where_at(sent, TSR_OPERAND(row), TSR_OPERAND(-1), site);
  return tsr_max_at(&most, site);
}

tsr_array *tsr_ragged_all_to_all_at(const tsr_ragged_args *given, const char *site)
{
  collective c;
  tsr_ragged_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr__take_opts("tsr_ragged_all_to_all", given, &args, sizeof args, &error);
  tsr_array *const all[] = { args.x, args.to, args.starts, args.sizes, args.places };
  if (!open_collective(&c, "tsr_ragged_all_to_all", args.x, args.axis, site))
    return closed(&c, args.x);
  for (int i = 1; i < 5 && !error.status; i++) {
    if (!all[i])
      tsr__error_set(&error, TSR_EARG,
                     "tsr_ragged_all_to_all: an array is missing; give x, .to, .starts, .sizes and "
                     ".places");
    else if (!tsr__usable(all[i])) return closed(&c, all[i]);
  }
  if (error.status) return refuse(&c, &error);
  if (!check_ragged(&c, &args)) return tsr__make_inert(c.scope, site);
  if (!args.x->shape.dims[0] || !args.to->shape.dims[0]) return args.to;
  site = c.site;
  tsr_array *said = all_said(&c, &args), *row = ragged_rows(&c, &args, said);
  tsr_array *there = tsr_ge_at(row, TSR_OPERAND(0), site);
  tsr_array *own = own_of(&c, tsr_iota_at(c.scope, TSR_I64, (tsr_shape){ 1, { c.over.size } }, 0,
                                          (tsr_sharding){ 0 }, site));
  own = tsr_mul_at(own, TSR_OPERAND(args.x->shape.dims[0]), site);
  row = all_of(&c, tsr_where_at(there, TSR_OPERAND(row), TSR_OPERAND(own), site));
  tsr__ask ask = { TSR__ATTR(tsr__span_attr, .more = 1) };
  tsr_array *x = all_of(&c, args.x);
  tsr_array *rows = own_of(&c, tsr__make(NULL, TSR__OP_FETCH, TSR__IN(x, row, said), &ask, site));
  for (int d = 1; d < args.to->shape.rank; d++)
    there = tsr_expand_dims_at(there, tsr_dims_of(&d, 1), site);
  return tsr_where_at(there, TSR_OPERAND(rows), TSR_OPERAND(args.to), site);
}

/* ---- permutations ---------------------------------------------------------------------------- */

/* Place i gets row source[i] of all, and zeros where that is -1. */
static tsr_array *permute(const collective *c, tsr_array *x, const int32_t *source)
{
  /* A turn by so many places is a roll, which moves from neighbour to neighbour and knows no
   * list. */
  int64_t size = c->over.size, shift = source[0] < 0 ? 0 : (size - source[0]) % size;
  bool turns = true;
  for (int64_t i = 0; i < size; i++) turns &= source[i] == (i + size - shift) % size;
  tsr_array *all = all_of(c, x);
  if (all->inert) return all;
  return own_of(c, turns ? tsr_roll_at(all, &shift, (int[]){ 0 }, 1, c->site)
                         : tsr__pick_dim(all, 0, source, size, c->site));
}

tsr_array *tsr_ppermute_at(const tsr_permute_args *given, const char *site)
{
  collective c;
  tsr_permute_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr__take_opts("tsr_ppermute", given, &args, sizeof args, &error);
  if (!open_collective(&c, "tsr_ppermute", args.x, args.axis, site)) return closed(&c, args.x);
  int64_t size = c.over.size;
  int32_t *source = tsr__arena_new(&c.scope->arena, 2 * (size_t)size * sizeof *source);
  if (!source) return tsr__or_no_memory(c.scope, NULL, c.name, site);
  int32_t *sends = source + size;
  for (int64_t i = 0; i < size; i++) source[i] = -1;
  for (int i = 0; i < args.count && !error.status; i++) {
    int from = args.pairs[i].from, to = args.pairs[i].to;
    bool there = from >= 0 && from < size && to >= 0 && to < size;
    if (!there || source[to] >= 0 || sends[from]++)
      tsr__error_set(&error, TSR_EARG,
                     "tsr_ppermute: pair %d sends from %d to %d, expected each of 0..%lld at most "
                     "once as a source and once as a destination",
                     i, from, to, (long long)size - 1);
    else source[to] = from;
  }
  return error.status ? refuse(&c, &error) : permute(&c, args.x, source);
}

tsr_array *tsr_pshuffle_at(tsr_array *x, const char *axis, const int *sources, int count,
                           const char *site)
{
  collective c;
  tsr__error error = { .status = TSR_OK };
  if (!open_collective(&c, "tsr_pshuffle", x, axis, site)) return closed(&c, x);
  int64_t size = c.over.size;
  int32_t *source = tsr__arena_new(&c.scope->arena, 2 * (size_t)size * sizeof *source);
  if (!source) return tsr__or_no_memory(c.scope, NULL, c.name, site);
  if (count != size)
    tsr__error_set(&error, TSR_EARG,
                   "tsr_pshuffle: %d sources for %lld positions, expected one for each", count,
                   (long long)size);
  for (int i = 0; i < count && !error.status; i++) {
    bool there = sources[i] >= 0 && sources[i] < size;
    if (!there || source[size + sources[i]]++)
      tsr__error_set(
          &error, TSR_EARG,
          "tsr_pshuffle: position %d receives from %d, expected each of 0..%lld once as a source",
          i, sources[i], (long long)size - 1);
    source[i] = sources[i];
  }
  return error.status ? refuse(&c, &error) : permute(&c, x, source);
}

/* One row of what all have, which is then the same for all: no place owns it. */
tsr_array *tsr_pbroadcast_at(tsr_array *x, const char *axis, int source, const char *site)
{
  collective c;
  tsr__error error = { .status = TSR_OK };
  if (!open_collective(&c, "tsr_pbroadcast", x, axis, site)) return closed(&c, x);
  if (source < 0 || source >= c.over.size) {
    tsr__error_set(&error, TSR_EARG, "tsr_pbroadcast: position %d of axis %s, expected 0..%lld",
                   source, axis, (long long)c.over.size - 1);
    return refuse(&c, &error);
  }
  tsr_array *all = all_of(&c, x);
  if (all->inert) return all;
  tsr_array *one = tsr__part(all, 0, (tsr_range){ source, source + 1, 1 }, c.site);
  return tsr_reshape_at(one, x->shape, c.site);
}

/* What is the same at all places, as what each of them has for itself. */
tsr_array *tsr_pvary_at(tsr_array *x, const char *axis, const char *site)
{
  collective c;
  if (!open_collective(&c, "tsr_pvary", x, axis, site)) return closed(&c, x);
  tsr_array *all = all_of(&c, x);
  return all->inert ? all : own_of(&c, all);
}

/* 0 where there is no such axis, and the error is told. */
int64_t tsr_axis_size_at(tsr_scope *scope, const char *axis, const char *site)
{
  collective c = { .name = "tsr_axis_size", .scope = scope, .line = site, .site = site };
  tsr__error error = { .status = TSR_OK };
  if (!scope || scope->inert) return 0;
  if (read_axes(&c, axis, &error)) return c.over.size;
  refuse(&c, &error);
  return 0;
}

tsr_array *tsr_axis_index_at(tsr_scope *scope, const char *axis, const char *site)
{
  collective c = { .name = "tsr_axis_index", .scope = scope, .line = site, .site = site };
  tsr__error error = { .status = TSR_OK };
  if (tsr__scope_usable(scope, c.name, site)) return tsr__make_inert(scope, site);
  if (!read_axes(&c, axis, &error)) return refuse(&c, &error);
  tsr_shape shape = { .rank = 1, .dims = { c.over.size } };
  return own_of(&c, tsr_iota_at(scope, TSR_I64, shape, 0, (tsr_sharding){ 0 }, site));
}
