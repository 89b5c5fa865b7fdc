/* Functions of many made of functions of one, and bodies that see what a device holds.
 *
 *   vmap        trace f on arguments without the mapped dim, replay with the dim in front (batch.c)
 *   shard_map   x f32[8,4]@(x,y)  -->  [x=4, y=2, 2, 2]   each axis that the spec names in front
 *               mapped over y, then over x: the body sees [2, 2]
 *               results [x, y, ..] --> [4*2, ..]          by out_specs
 *
 * So per-device code is mapping whose fronts lie along the mesh's axes; the partitioner splits it
 * and names what moves, as of any program. What varies along an axis has its front: that a result
 * is the same everywhere is that it has none. */
#include "tessera/mapping.h"

#include <stdio.h>

#include "tessera/shape.h"
#include "transform/batch.h"

/* ---- vmap ------------------------------------------------------------------------------------ */

typedef struct mapped {
  tsr_function *f;
  int in_dims[TSR_MAX_ARGS], out_dims[TSR_MAX_ARGS];
  const char *axis; /* NULL: none */
  int64_t size;     /* of a mesh's axis: results that do not vary stay without the front, */
  bool varies[TSR_MAX_ARGS]; /* and here stands which do; 0: as large as arguments say */
} mapped;

static tsr_array *fail_map(tsr_scope *scope, const char *site, tsr_status status, const char *why)
{
  tsr__fail(scope, site, status, "tsr_vmap: %s", why);
  return tsr__make_inert(scope, site);
}

/* A leaf as the body sees one element of it: an argument that is no one's. */
static tsr_array *one_of(tsr_scope *scope, const tsr_array *a, int dim, const char *site)
{
  tsr__ask ask = { .dtype = (tsr_dtype)a->dtype, .shape = a->shape };
  ask.attr = &(tsr__index_attr){ .index = 0 };
  ask.attr_bytes = sizeof(tsr__index_attr);
  for (int d = dim; dim >= 0 && d + 1 < a->shape.rank; d++)
    ask.shape.dims[d] = a->shape.dims[d + 1];
  if (dim >= 0) ask.shape.dims[--ask.shape.rank] = 0;
  return tsr__make(scope, TSR__OP_ARG, TSR__IN_NONE, &ask, site);
}

/* The leaves of a call: as they are with the mapped dim in front, one element of each, and which
 * are mapped. */
typedef struct elements {
  tsr__arguments one;
  tsr_array **in; /* the arguments that `one` holds */
  tsr__leaves all;
  bool *varies;
  int64_t size;
} elements;

static bool take_argument(tsr_scope *scope, const mapped *m, tsr_array *argument, int i,
                          elements *e)
{
  const char *site = scope->site;
  int first = e->all.count, asked = m->in_dims[i];
  if (!tsr__leaves_of(&scope->arena, argument, &e->all)) return false;
  int count = e->all.count - first;
  tsr_array **ones = tsr__arena_new(&scope->arena, ((size_t)count + 1) * sizeof *ones);
  for (int k = 0; ones && k < count; k++) {
    tsr_array *a = e->all.at[first + k];
    int dim = asked == TSR_UNMAPPED ? -1 : asked < 0 ? asked + a->shape.rank : asked;
    if (asked != TSR_UNMAPPED && (dim < 0 || dim >= a->shape.rank)) {
      tsr__fail(scope, site, TSR_EARG, "tsr_vmap: dim %d of argument %d, which is %s; %s", asked, i,
                tsr_type_of(a), tsr__dims_text(a->shape.rank).text);
      return false;
    }
    e->varies[first + k] = dim >= 0;
    ones[k] = one_of(scope, a, dim, site);
    if (dim < 0) continue;
    if (e->size >= 0 && e->size != a->shape.dims[dim]) {
      tsr__fail(scope, site, TSR_ESHAPE,
                "tsr_vmap: %lld elements along dim %d of argument %d, which is %s, but %lld along "
                "those before; map over dims of one size",
                (long long)a->shape.dims[dim], dim, i, tsr_type_of(a), (long long)e->size);
      return false;
    }
    e->size = a->shape.dims[dim];
    if (dim) e->all.at[first + k] = tsr_moveaxis_at(a, dim, 0, site);
  }
  if (!ones) return false;
  e->in[i] = tsr__like(argument, ones, count, site);
  return tsr__leaves_of(&scope->arena, e->in[i], &e->one.leaves);
}

/* A result with the front where it is wanted; one that does not vary is repeated. */
static tsr_array *place_result(const tsr__batch *b, const mapped *m, tsr_array *a, bool varies,
                               int i)
{
  const char *site = b->replay.site;
  int to = i < TSR_MAX_ARGS ? m->out_dims[i] : 0;
  if (!varies) a = tsr__batch_repeat(b, a, site);
  if (to < 0) to += a->shape.rank;
  return to && !a->inert ? tsr_moveaxis_at(a, 0, to, site) : a;
}

static tsr_array *map_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  mapped *m = user;
  elements e = { .size = m->size ? m->size : -1 };
  int leaves = 0, arity = tsr__count_arguments(in);
  for (int i = 0; i < arity; i++) leaves += tsr_leaf_count(in[i]);
  e.in = tsr__arena_new(&scope->arena, ((size_t)arity + 1) * sizeof *e.in);
  e.varies = tsr__arena_new(&scope->arena, (size_t)leaves + 1);
  if (!e.in || !e.varies) return NULL;
  for (int i = 0; i < arity; i++)
    if (!take_argument(scope, m, in[i], i, &e)) return tsr__make_inert(scope, scope->site);
  if (e.size < 0)
    return fail_map(scope, scope->site, TSR_EARG,
                    "no argument is mapped over; give one of .in_dims");
  if (m->axis && !tsr__axis_bind(scope, m->axis, e.size, m->size > 0)) return NULL;
  e.one.in = (tsr__operands){ e.in, arity };
  const tsr__traced *t = tsr__trace(scope, m->f, &e.one, scope->site);
  tsr__batch b = { .axis = m->axis, .size = e.size };
  if (!t || !tsr__replay_open(&b.replay, scope, t, e.all.at, scope->site)) return NULL;
  size_t room = (size_t)(t->argument_count + t->captured_count + 1);
  bool *varies = tsr__arena_new(&scope->arena, room);
  if (!varies) return NULL;
  memcpy(varies, e.varies, (size_t)t->argument_count);
  if (!tsr__batch_through(&b, varies)) return NULL;
  const tsr__region *region = t->region;
  tsr_array **results =
      tsr__arena_new(&scope->arena, ((size_t)region->result_count + 1) * sizeof *results);
  for (int i = 0; results && i < region->result_count; i++) {
    int r = b.replay.results[i];
    results[i] = b.replay.at[r];
    if (i < TSR_MAX_ARGS) m->varies[i] = b.varies[r];
    if (!m->size && !results[i]->inert)
      results[i] = place_result(&b, m, results[i], b.varies[r], i);
  }
  return results ? tsr__form_fill(scope, t->form, results, scope->site) : NULL;
}

tsr_function *tsr_vmap_at(const tsr_vmap_args *given, const char *site)
{
  tsr_vmap_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr__take_opts("tsr_vmap", given, &args, sizeof args, &error);
  tsr_function *f = args.function;
  if (!f || f->inert) return f;
  tsr_scope *scope = f->node.scope;
  mapped *m = tsr__arena_new(&scope->arena, sizeof *m);
  tsr_function *out = m ? tsr__function_new(scope, map_body, m, f->name, site) : NULL;
  if (!out) {
    tsr__or_no_memory(scope, NULL, "tsr_vmap", site);
    return NULL;
  }
  m->f = f;
  memcpy(m->in_dims, args.in_dims, sizeof m->in_dims);
  memcpy(m->out_dims, args.out_dims, sizeof m->out_dims);
  if (args.axis) m->axis = tsr__arena_text(&scope->arena, args.axis, strlen(args.axis));
  out->of = f;
  if (!error.status && args.axis && (!*args.axis || strlen(args.axis) >= TSR__AXIS_NAME))
    tsr__error_set(&error, TSR_EARG, "tsr_vmap: an axis named \"%s\", expected 1 to %d bytes",
                   args.axis, TSR__AXIS_NAME - 1);
  out->inert = error.status != TSR_OK;
  if (out->inert) tsr__fail_error(scope, site, &error);
  return out;
}

/* ---- shard_map ------------------------------------------------------------------------------- */

/* A call of shard_map: one function a mesh axis, the first of the mesh outermost. */
typedef struct sharded {
  tsr_scope *scope;
  const tsr_mesh *mesh;
  const tsr_shard_map_args *args;
  mapped *level; /* one a mesh axis */
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

/* The front as the mesh lies: its axes that a spec names, one a dim. */
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

/* Dims as axes and what is left of each: [x, y, 2, 2] of [8, 4]. `order`: where each comes from
 * when the front stands before all that is left. */
typedef struct division {
  tsr_shape apart, front; /* in the order of dims; with the front first */
  int order[2 * TSR_MAX_RANK];
} division;

/* Of the shape of a whole array, or, with `local`, of the shards that make it. False: too many. */
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

/* One array as the body's levels take it: its axes in front, where they lie. */
static tsr_array *divide_leaf(const sharded *s, tsr_array *a, const tsr_sharding *at, int i)
{
  division d;
  if (a->inert) return a;
  for (int k = 0; k < at->rank; k++) {
    int64_t parts = tsr__dim_parts(at, k);
    if (parts == 1 || (k < a->shape.rank && a->shape.dims[k] % parts == 0)) continue;
    char why[160];
    snprintf(why, sizeof why, "is %s, of which dim %d is cut into %lld by \"%s\"; give a multiple",
             tsr_type_of(a), k, (long long)parts, s->args->in_specs[i]);
    return fail_spec(s, TSR_ESHAPE, "argument", i, why);
  }
  if (!divide_dims(s, at, &a->shape, false, &d))
    return fail_spec(s, TSR_ESHAPE, "argument", i, "has too many dims to be cut so");
  tsr_array *out = tsr_reshape_at(tsr_constrain_at(a, *at, s->site), d.apart, s->site);
  out = tsr_transpose_at(out, d.order, d.apart.rank, s->site);
  return out->inert ? out : tsr_constrain_at(out, front_of(s, at), s->site);
}

/* False: the spec is none of the mesh; the error is told. */
static bool read_spec(const sharded *s, const char *what, int i, const char *spec,
                      tsr_sharding *out)
{
  tsr__error error = { .status = TSR_OK };
  *out = tsr_on(s->mesh, spec);
  if (!tsr__check_place(s->scope, out, TSR_F32, &(tsr_shape){ .rank = out->rank }, &error))
    return true;
  tsr__fail(s->scope, s->site, error.status, "tsr_shard_map: %s %d: %s", what, i, error.text);
  return false;
}

static tsr_array *divide_argument(const sharded *s, int i)
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
  for (int k = 0; k < all.count; k++) all.at[k] = divide_leaf(s, all.at[k], &at, i);
  return tsr__like(in, all.at, all.count, s->site);
}

/* A result with a front for each axis that its spec names, and no other. */
static tsr_array *join_leaf(const sharded *s, tsr_array *a, int i)
{
  const char *spec = i < TSR_MAX_ARGS && s->args->out_specs[i] ? s->args->out_specs[i] : "";
  tsr_sharding at;
  tsr_shape local = { .rank = a->shape.rank }, fronts = { .rank = 0 }, ones;
  int own = 0;
  if (a->inert) return a;
  if (!read_spec(s, "result", i, spec, &at)) return inert_of(s);
  for (int x = 0; x < s->mesh->axis_count; x++) {
    bool named = dim_of_axis(&at, x) >= 0, varies = s->level[x].varies[i];
    own += varies;
    if (named) fronts.dims[fronts.rank++] = varies ? s->mesh->sizes[x] : 1;
    if (named || !varies) continue;
    tsr__fail(s->scope, s->site, TSR_EAXIS,
              "tsr_shard_map: result %d may differ along axis %s, which its spec \"%s\" does not "
              "name, so that it must be the same at all of it: name the axis, or join what differs "
              "with tsr_psum, tsr_pmean, tsr_pmax or tsr_all_gather",
              i, s->mesh->names[x], spec);
    return inert_of(s);
  }
  local.rank -= own;
  for (int d = 0; d < local.rank; d++) local.dims[d] = a->shape.dims[own + d];
  if (at.rank > local.rank || fronts.rank + local.rank > TSR_MAX_RANK)
    return fail_spec(s, TSR_ESHAPE, "result", i, "has fewer dims than its spec, or too many");
  division d;
  if (!divide_dims(s, &at, &local, true, &d))
    return fail_spec(s, TSR_ESHAPE, "result", i, "has too many dims");
  ones = d.front;
  for (int k = 0; k < fronts.rank; k++) ones.dims[k] = fronts.dims[k];
  a = tsr_broadcast_to_at(tsr_reshape_at(a, ones, s->site), d.front, s->site);
  int back[TSR_MAX_RANK];
  for (int k = 0; k < d.front.rank; k++) back[d.order[k]] = k;
  for (int k = 0; k < local.rank; k++) local.dims[k] *= k < at.rank ? tsr__dim_parts(&at, k) : 1;
  a = tsr_transpose_at(tsr_constrain_at(a, front_of(s, &at), s->site), back, d.front.rank, s->site);
  return tsr_constrain_at(tsr_reshape_at(a, local, s->site), at, s->site);
}

static tsr_array *join_results(const sharded *s, tsr_array *result)
{
  tsr__leaves all = { 0 };
  if (result->inert || !tsr__leaves_of(&s->scope->arena, result, &all)) return result;
  for (int i = 0; i < all.count; i++) all.at[i] = join_leaf(s, all.at[i], i);
  return tsr__like(result, all.at, all.count, s->site);
}

tsr_array *tsr_shard_map_at(const tsr_mesh *mesh, tsr_body_fn *body, void *user,
                            const tsr_shard_map_args *given, const char *site)
{
  tsr_shard_map_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr__take_opts("tsr_shard_map", given, &args, sizeof args, &error);
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
  s.level = tsr__arena_new(&s.scope->arena, (size_t)mesh->axis_count * sizeof *s.level);
  tsr_function *f = tsr__function_new(s.scope, body, user, "shard_map", site);
  if (f) f->asked = true;
  for (int a = mesh->axis_count - 1; s.level && f && a >= 0; a--) {
    s.level[a] = (mapped){ .f = f, .axis = mesh->names[a], .size = mesh->sizes[a] };
    for (int i = 0; i < TSR_MAX_ARGS; i++) s.level[a].in_dims[i] = TSR_UNMAPPED;
    f = tsr__function_new(s.scope, map_body, &s.level[a], "shard_map", site);
  }
  if (!s.level || !f) return tsr__or_no_memory(s.scope, NULL, "tsr_shard_map", site);
  for (int i = 0; i < count; i++) args.in[i] = divide_argument(&s, i);
  tsr_array *made = join_results(&s, tsr_call_at(f, args.in, count, site));
  return tsr__or_no_memory(s.scope, made, "tsr_shard_map", site);
}
