/* Bodies that see what a device holds.
 *
 *   shard_map   x f32[8,4]@(x,y)  -->  [x=4, y=2, 2, 2]   each axis that the spec names in front
 *               mapped over y, then over x: the body sees [2, 2]
 *               results [x, y, ..] --> [4*2, ..]          by out_specs
 *
 * So per-device code is mapping whose fronts lie along the mesh's axes; the partitioner splits it
 * and names what moves, as of any program. Axes that are not manual have no level: the planner cuts
 * along them as it likes.
 *
 * Invariant: fronts stand in the order of the mesh's axes, whatever order a spec names them in, so
 * levels, which take the first dim each, meet theirs. */
#include <stdio.h>

#include "tessera/shape.h"
#include "transform/mapped.h"

typedef tsr__mapped mapped;

/* A dim that its axes do not divide, one of a list in the scope's arena. */
typedef struct uneven {
  struct uneven *next;
  unsigned axes; /* by which it is cut, */
  int64_t size;  /* and how long it is */
} uneven;

/* A call of shard_map: one function a manual axis, the first of the mesh outermost. */
typedef struct sharded {
  tsr_scope *scope;
  const tsr_mesh *mesh;
  tsr_shard_map_args *args;
  unsigned manual; /* axes of the mesh */
  mapped *level;   /* by mesh axis */
  uneven *uneven;  /* in the order of arguments, each pair of axes and size once */
  const char *site;
} sharded;

static tsr_array *inert_of(const sharded *s)
{
  return tsr__make_inert(s->scope, s->site);
}

/* Which dim of a spec an axis cuts; -1: none. */
static int dim_of_axis(const tsr_sharding *at, int axis)
{
  for (int d = 0; d < at->rank; d++)
    if (tsr__dim_axes(at, d) >> axis & 1) return d;
  return -1;
}

/* The front as the mesh lies: its axes that a spec names, one a dim. Dim k of the front is cut by
 * its k-th axis alone; dims behind have none. */
static tsr_sharding front_of(const sharded *s, const tsr_sharding *at)
{
  tsr_sharding out = { .mesh = s->mesh };
  for (int a = 0; a < s->mesh->axis_count; a++) {
    if (dim_of_axis(at, a) < 0) continue;
    out.axis[out.rank] = (uint8_t)a;
    out.rank++;
    out.first[out.rank] = out.rank;
  }
  for (int d = out.rank; d < TSR_MAX_RANK; d++) out.first[d + 1] = out.rank;
  return out;
}

/* Where some axes are not manual, the planner may cut along them what is not cut here. Where all
 * are manual nothing is left to say. */
static tsr_sharding left_open(const sharded *s, tsr_sharding at, int rank)
{
  if (s->manual == (1u << s->mesh->axis_count) - 1) return at;
  for (int d = at.rank; d < TSR_MAX_RANK; d++) at.first[d + 1] = at.first[at.rank];
  at.rank = (uint8_t)(at.rank > rank ? at.rank : rank);
  for (int d = 0; d < rank; d++)
    if (at.first[d] == at.first[d + 1]) at.open |= (uint16_t)(1u << d);
  return at;
}

static tsr_array *constrain(const sharded *s, tsr_array *a, tsr_sharding at, tsr__why why)
{
  if (a->inert) return a;
  at = left_open(s, at, a->shape.rank);
  /* A constraint that names no axis and leaves dims open would ask for nothing. */
  return at.open && !at.first[at.rank] ? a : tsr__constrain_for(a, at, why, s->site);
}

/* Dims as axes and what is left of each: [x, y, 2, 2] of [8, 4]. `order`: where each comes from
 * when the front stands before all that is left.
 *
 *   [8, 4] by (y, x) of x=2,y=4      apart [4, 2, 2, 2]: y, 8/4, x, 4/2
 *                                    front [2, 4, 2, 2]: x, y, then what is left; order 2 0 1 3
 */
typedef struct division {
  tsr_shape apart, front; /* in the order of dims; with the front first */
  int order[2 * TSR_MAX_RANK];
} division;

/* Of the shape of a whole array, or, with `local`, of the shards that make it. False: too many.
 * Counted while it is written: axes and dims together must fit the rank of an array. */
static bool divide_dims(const sharded *s, const tsr_sharding *at, const tsr_shape *shape,
                        bool local, division *out)
{
  int place[TSR_MAX_AXES] = { 0 }, left[TSR_MAX_RANK], rank = 0, front = 0;
  *out = (division){ .apart = { .rank = 0 } };
  for (int d = 0; d < shape->rank; d++) {
    int64_t parts = 1;
    for (int i = at->first[d]; d < at->rank && i < at->first[d + 1]; i++) {
      if (rank == TSR_MAX_RANK) return false;
      int64_t size = s->mesh->sizes[at->axis[i]];
      place[at->axis[i]] = rank;
      out->apart.dims[rank++] = size;
      parts *= size;
    }
    if (rank == TSR_MAX_RANK) return false;
    left[d] = rank;
    out->apart.dims[rank++] = local ? shape->dims[d] : shape->dims[d] / parts;
  }
  out->apart.rank = out->front.rank = rank;
  for (int a = 0; a < s->mesh->axis_count; a++)
    if (dim_of_axis(at, a) >= 0) out->order[front++] = place[a];
  for (int d = 0; d < shape->rank; d++) out->order[front++] = left[d];
  for (int d = 0; d < rank; d++) out->front.dims[d] = out->apart.dims[out->order[d]];
  return true;
}

static tsr_array *fail_spec(const sharded *s, tsr_status status, const char *what, int i,
                            const char *why)
{
  tsr__fail(s->scope, s->site, status, "tsr_shard_map: %s %d %s", what, i, why);
  return inert_of(s);
}

/* ---- uneven shards ---------------------------------------------------------------------------
 *
 *   10 rows on 4 devices   0 1 2 | 3 4 5 | 6 7 | 8 9     as arrays are cut
 *   as the body sees them  0 1 2 | 3 4 5 | 6 7 0 | 8 9 0 */

static tsr_array *part_of(const sharded *s, tsr_array *a, int dim, int64_t from, int64_t to)
{
  return a->inert ? a : tsr__part(a, dim, (tsr_range){ from, to, 1 }, s->site);
}

/* The last shards have a row fewer: they get one, or lose it.
 *
 *   10 over 4: most 3, full 2, few 2     first 0..5 as it is; last 6 7 8 9 as [2,2] -> [2,3] -> [6]
 *
 * The same steps serve both ways: a row is added to each of the last shards, or cut off. */
static tsr_array *level_rows(const sharded *s, tsr_array *a, int dim, int64_t parts, int64_t size)
{
  int64_t most = (size + parts - 1) / parts, full = size % parts, few = parts - full;
  bool more = !a->inert && a->shape.dims[dim] == size; /* true shards are made even ones */
  if (a->inert || !full) return a;
  tsr_array *first = part_of(s, a, dim, 0, full * most);
  tsr_array *last = part_of(s, a, dim, full * most, a->shape.dims[dim]);
  last = tsr__split_dim(last, dim, few, s->site);
  tsr_pad_args pad = { .size = sizeof pad, .x = last };
  pad.high[dim + 1] = 1;
  last = more ? tsr_pad_at(&pad, s->site) : part_of(s, last, dim + 1, 0, most - 1);
  return tsr_concat_at((tsr_array *[]){ first, tsr__join_dims(last, dim, s->site) }, 2, dim,
                       s->site);
}

/* False: out of memory. */
static bool remember(sharded *s, unsigned axes, int64_t size)
{
  uneven **at = &s->uneven;
  for (; *at; at = &(*at)->next)
    if ((*at)->axes == axes && (*at)->size == size) return true;
  *at = tsr__arena_new(&s->scope->arena, sizeof **at);
  if (*at) **at = (uneven){ NULL, axes, size };
  return *at != NULL;
}

/* A dim of an argument, if it is uneven, with as many rows everywhere. */
static tsr_array *even_size(sharded *s, tsr_array *a, const tsr_sharding *at, int dim)
{
  int64_t parts = tsr__dim_parts(at, dim), size = a->inert ? 0 : a->shape.dims[dim];
  if (a->inert || size % parts == 0) return a;
  if (!remember(s, tsr__dim_axes(at, dim), size))
    return tsr__or_no_memory(s->scope, NULL, "tsr_shard_map", s->site);
  return level_rows(s, a, dim, parts, size);
}

/* A dim of a result without the rows that no shard has. A result is taken for one of an uneven dim
 * if it has its padded size and lies by the same axes. */
static tsr_array *true_size(const sharded *s, tsr_array *a, const tsr_sharding *at, int dim)
{
  int64_t parts = tsr__dim_parts(at, dim);
  for (const uneven *u = s->uneven; u && !a->inert; u = u->next) {
    int64_t most = (u->size + parts - 1) / parts;
    if (u->axes == tsr__dim_axes(at, dim) && a->shape.dims[dim] == most * parts)
      return level_rows(s, a, dim, parts, u->size);
  }
  return a;
}

/* ---- arguments and results ------------------------------------------------------------------- */

/* Leaf `leaf` of argument `i`. */
static tsr_array *fail_leaf(const sharded *s, int i, int leaf, const char *why)
{
  tsr__operands in = { &s->args->in[i], 1 };
  tsr__fail(s->scope, s->site, TSR_ESHAPE, "tsr_shard_map: argument %s %s",
            tsr__argument_path(s->scope, in, i, leaf), why);
  return inert_of(s);
}

/* One array as the body's levels take it: its axes in front, where they lie. */
static tsr_array *divide_leaf(sharded *s, tsr_array *a, const tsr_sharding *at, int i, int leaf)
{
  division d;
  if (a->inert) return a;
  for (int k = 0; k < at->rank; k++) {
    int64_t parts = tsr__dim_parts(at, k);
    bool there = k < a->shape.rank;
    if (parts == 1 || (there && (s->args->uneven || a->shape.dims[k] % parts == 0))) continue;
    char why[200];
    snprintf(why, sizeof why, "is %s, and its dim %d is sharded into %lld by \"%s\"; give a %s",
             tsr_type_of(a), k, (long long)parts, s->args->in_specs[i],
             there ? "size that divides, or set .uneven" : "spec without dims beyond the array's");
    return fail_leaf(s, i, leaf, why);
  }
  a = constrain(s, a, *at, TSR__WHY_CUT);
  for (int k = 0; k < at->rank && k < a->shape.rank; k++) a = even_size(s, a, at, k);
  if (a->inert) return a;
  if (!divide_dims(s, at, &a->shape, false, &d))
    return fail_leaf(s, i, leaf,
                     "has too many dims: the array and the axes of its spec need more dims "
                     "together than an array can have");
  tsr_array *out = tsr_reshape_at(a, d.apart, s->site);
  out = tsr_transpose_at(out, d.order, d.apart.rank, s->site);
  return constrain(s, out, front_of(s, at), TSR__WHY_CUT);
}

/* False: the spec is none of the mesh; the error is told. The check is for a form alone: a shape of
 * zeros of as many dims, of any dtype. */
static bool read_spec(const sharded *s, const char *what, int i, const char *spec,
                      tsr_sharding *out)
{
  tsr__error error = { .status = TSR_OK };
  *out = tsr_on(s->mesh, spec);
  tsr_shape any = { .rank = out->rank };
  /* On sizes without devices a program can be planned. */
  bool sizes = tsr_mesh_is_abstract(out->mesh) && out->mesh->rt == s->scope->rt;
  bool none = sizes ? tsr__sharding_check_form(out, &any, &error)
                    : tsr__check_place(s->scope, out, TSR_F32, &any, &error);
  unsigned named = 0;
  for (int d = 0; d < out->rank && !none; d++) named |= tsr__dim_axes(out, d);
  if (!none && !(named & ~s->manual)) return true;
  if (!none)
    tsr__error_set(&error, TSR_EAXIS,
                   "its spec \"%s\" names axis %s, which is not manual; name it in .axes, or leave "
                   "it to the planner",
                   spec, s->mesh->names[__builtin_ctz(named & ~s->manual)]);
  tsr__fail(s->scope, s->site, error.status, "tsr_shard_map: %s %d: %s", what, i, error.text);
  return false;
}

static tsr_array *divide_argument(sharded *s, int i)
{
  tsr_array *in = s->args->in[i];
  const char *spec = s->args->in_specs[i];
  tsr__leaves all = { 0 };
  if (in->inert || !spec) return in;
  tsr_sharding at;
  if (!read_spec(s, "argument", i, spec, &at)) return inert_of(s);
  for (int a = 0; a < s->mesh->axis_count; a++)
    s->level[a].in_dims[i] = dim_of_axis(&at, a) < 0 ? TSR_UNMAPPED : 0;
  if (!tsr__leaves_of(&s->scope->arena, in, &all)) return inert_of(s);
  for (int k = 0; k < all.count; k++) all.at[k] = divide_leaf(s, all.at[k], &at, i, k);
  return tsr__like(in, all.at, all.count, s->site);
}

/* `local` is the result's shape as a body has it. */
static tsr_array *fail_rank(const sharded *s, int i, const char *spec, const tsr_array *a,
                            const tsr_shape *local)
{
  tsr__text type;
  tsr__text_init(&type, &s->scope->rt->heap);
  tsr__type_add(&type, (tsr_dtype)a->dtype, local, NULL);
  tsr__fail(s->scope, s->site, TSR_ESHAPE,
            "tsr_shard_map: result %d is %s on each device, fewer dims than its spec \"%s\", "
            "or too many; give a spec of at most %d dims, and an array of at most %d dims together "
            "with the axes",
            i, tsr__text_get(&type), spec, local->rank, TSR_MAX_RANK);
  tsr__text_free(&type);
  return inert_of(s);
}

/* A result with a front for each axis that its spec names, and no other.
 *
 *   a [x, 2, 3] with the fronts it varies along; spec (x+y, -)      ones [x, 1, 2, 3], broadcast
 *   [x, y, 2, 3] by order back to [x, y, 2 | 3] -> [x*y*2, 3]
 *
 * A result that does not vary along an axis that its spec names is the same there, and repeated. */
static tsr_array *join_leaf(const sharded *s, tsr_array *a, int i)
{
  const char *spec = i < TSR_MAX_ARGS && s->args->out_specs[i] ? s->args->out_specs[i] : "";
  tsr_sharding at;
  tsr_shape local = { .rank = a->shape.rank }, fronts = { .rank = 0 }, ones;
  int own = 0;
  if (a->inert) return a;
  if (!read_spec(s, "result", i, spec, &at)) return inert_of(s);
  for (int x = 0; x < s->mesh->axis_count; x++) {
    if (!(s->manual >> x & 1)) continue;
    bool named = dim_of_axis(&at, x) >= 0, varies = s->level[x].varies[i];
    own += varies;
    if (named) fronts.dims[fronts.rank++] = varies ? s->mesh->sizes[x] : 1;
    if (named || !varies) continue;
    tsr__fail(s->scope, s->site, TSR_EAXIS,
              "tsr_shard_map: result %d may differ along axis %s, but its spec \"%s\" does not "
              "name the axis, which promises replicas: name the axis, or join the result with "
              "tsr_psum, tsr_pmean, tsr_pmax or tsr_all_gather",
              i, s->mesh->names[x], spec);
    return inert_of(s);
  }
  local.rank -= own;
  for (int d = 0; d < local.rank; d++) local.dims[d] = a->shape.dims[own + d];
  if (at.rank > local.rank || fronts.rank + local.rank > TSR_MAX_RANK)
    return fail_rank(s, i, spec, a, &local);
  division d;
  if (!divide_dims(s, &at, &local, true, &d))
    return fail_spec(s, TSR_ESHAPE, "result", i, "has too many dims");
  ones = d.front;
  for (int k = 0; k < fronts.rank; k++) ones.dims[k] = fronts.dims[k];
  a = tsr_broadcast_to_at(tsr_reshape_at(a, ones, s->site), d.front, s->site);
  int back[TSR_MAX_RANK];
  for (int k = 0; k < d.front.rank; k++) back[d.order[k]] = k;
  for (int k = 0; k < local.rank; k++) local.dims[k] *= k < at.rank ? tsr__dim_parts(&at, k) : 1;
  a = constrain(s, a, front_of(s, &at), TSR__WHY_JOINED);
  a = tsr_transpose_at(a, back, d.front.rank, s->site);
  a = tsr_reshape_at(a, local, s->site);
  for (int k = 0; k < at.rank; k++) a = true_size(s, a, &at, k);
  return constrain(s, a, at, TSR__WHY_JOINED);
}

static tsr_array *join_results(const sharded *s, tsr_array *result)
{
  tsr__leaves all = { 0 };
  if (result->inert || !tsr__leaves_of(&s->scope->arena, result, &all)) return result;
  for (int i = all.count; i < TSR_MAX_ARGS; i++)
    if (s->args->out_specs[i])
      return fail_spec(s, TSR_EARG, "result", i,
                       "has a spec, but does not exist; leave the spec out");
  for (int i = 0; i < all.count; i++) all.at[i] = join_leaf(s, all.at[i], i);
  return tsr__like(result, all.at, all.count, s->site);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Which axes are manual: those of .axes, or all that are not yet. False: the error is told. */
static bool read_axes(sharded *s)
{
  const char *text = s->args->axes;
  tsr__error error = { .status = TSR_OK };
  for (int a = 0; a < s->mesh->axis_count && !text; a++)
    if (!tsr__axis_manual(s->scope, s->mesh->names[a])) s->manual |= 1u << a;
  for (const char *at = text ? text : ""; !error.status && *(at += strspn(at, " ,+"));) {
    size_t length = strcspn(at, " ,+");
    int a = s->mesh->axis_count - 1;
    while (a >= 0 && (s->mesh->lengths[a] != length || memcmp(s->mesh->names[a], at, length))) a--;
    if (a < 0)
      tsr__error_set(&error, TSR_EAXIS, "tsr_shard_map: no axis \"%.*s\" in mesh %s", (int)length,
                     at, tsr_mesh_text(s->mesh));
    else if (tsr__axis_manual(s->scope, s->mesh->names[a]))
      tsr__error_set(&error, TSR_EAXIS,
                     "tsr_shard_map: axis %s is manual already, as the body around runs along it; "
                     "leave the axis out of .axes",
                     s->mesh->names[a]);
    else s->manual |= 1u << a;
    at += length;
  }
  if (!error.status && !s->manual)
    tsr__error_set(&error, TSR_EAXIS,
                   "tsr_shard_map: no axis of mesh %s is left to be manual; the body around runs "
                   "along all of them already",
                   tsr_mesh_text(s->mesh));
  if (error.status) tsr__fail_error(s->scope, s->site, &error);
  return !error.status;
}

/* The body behind a level for each manual axis; NULL out of memory. From the last axis outwards:
 * the outermost level takes the first front. Axes that are not manual have an entry in the list and
 * no function. */
static tsr_function *levels(sharded *s, tsr_body_fn *body, void *user)
{
  tsr_function *f = tsr__function_new(s->scope, body, user, "shard_map", s->site);
  s->level = tsr__arena_new(&s->scope->arena, (size_t)s->mesh->axis_count * sizeof *s->level);
  if (f) f->asked = true;
  for (int a = s->mesh->axis_count - 1; s->level && f && a >= 0; a--) {
    mapped *level = &s->level[a];
    *level =
        (mapped){ .f = f, .call = "tsr_shard_map", .axis = s->mesh->names[a], .mesh = s->mesh };
    level->size = s->mesh->sizes[a];
    for (int i = 0; i < TSR_MAX_ARGS; i++) level->in_dims[i] = TSR_UNMAPPED;
    if (s->manual >> a & 1)
      f = tsr__function_new(s->scope, tsr__map_body, level, "shard_map", s->site);
  }
  return s->level ? f : NULL;
}

/* The function lives for this call: its levels know of its results what varied (m->varies), which
 * the joining of results reads. */
tsr_array *tsr_shard_map_at(const tsr_mesh *mesh, tsr_body_fn *body, void *user,
                            const tsr_shard_map_args *given, const char *site)
{
  tsr_shard_map_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  if (tsr__take_opts("tsr_shard_map", given, &args, sizeof args, &error))
    memcpy(args.in, given->in, sizeof args.in); /* whose scope is told */
  int count = 0;
  for (; count < TSR_MAX_ARGS && args.in[count]; count++)
    if (args.in[count]->inert) return args.in[count];
  tsr__operands in = { args.in, count };
  sharded s = { .scope = tsr__home_of(in), .mesh = mesh, .args = &args, .site = site };
  if (!s.scope || !mesh || !body || error.status) {
    tsr__error_set(&error, TSR_EARG,
                   "tsr_shard_map: %s is missing; give a mesh, a body and at least one array",
                   !mesh   ? "the mesh"
                   : !body ? "the body"
                           : "an array");
    tsr__fail_error(s.scope, site, &error);
    return inert_of(&s);
  }
  for (int i = count; i < TSR_MAX_ARGS; i++)
    if (args.in_specs[i])
      return fail_spec(&s, TSR_EARG, "argument", i,
                       "has a spec, but does not exist; leave the spec out");
  if (!read_axes(&s)) return inert_of(&s);
  tsr_function *f = levels(&s, body, user);
  if (!f) return tsr__or_no_memory(s.scope, NULL, "tsr_shard_map", site);
  for (int i = 0; i < count; i++) args.in[i] = divide_argument(&s, i);
  tsr_array *made = join_results(&s, tsr_call_at(f, args.in, count, site));
  return tsr__or_no_memory(s.scope, made, "tsr_shard_map", site);
}
