/* Functions of many made of functions of one.
 *
 *   vmap   trace f on arguments without the mapped dim, replay with the dim in front (batch.c)
 *   pmap   vmap whose elements lie on a device each
 *   xmap   a vmap for each name, the first name outermost
 *
 * What varies has the front: that a result is the same for all is that it has none. */
#include "transform/mapped.h"

#include <stdio.h>

#include "tessera/shape.h"

typedef tsr__mapped mapped;

/* Elements lie along the axis of the mesh, if it has one; the planner cuts the other dims. */
/* What is mapped over and where it lies:
 *
 *   vmap  .axis not on a mesh     the front is a dim like others: the planner cuts it or not
 *   xmap  mesh with such an axis  elements lie along it
 *   pmap  a mesh of its own       one element a device
 *
 *   first  0 1 1 1 ..    dim 0 has the axis, no other dim has any; open: all but dim 0
 */
tsr_array *tsr__batch_lay(const tsr__batch *b, tsr_array *a, tsr__why why, const char *site)
{
  int axis = b->mesh && b->axis ? b->mesh->axis_count - 1 : -1;
  while (axis >= 0 && strcmp(b->mesh->names[axis], b->axis)) axis--;
  if (axis < 0 || a->inert) return a;
  tsr_sharding at = { .mesh = b->mesh, .rank = (uint8_t)a->shape.rank, .axis = { (uint8_t)axis } };
  for (int d = 0; d < TSR_MAX_RANK; d++) at.first[d + 1] = 1;
  at.open = (uint16_t)(((1u << a->shape.rank) - 1) & ~1u);
  return tsr__constrain_for(a, at, why, site);
}

static tsr_array *on_axis(const mapped *m, tsr_array *a, const char *site)
{
  tsr__batch b = { .axis = m->axis, .mesh = m->mesh };
  return tsr__batch_lay(&b, a, m->most ? TSR__WHY_PMAP : TSR__WHY_XMAP, site);
}

/* The devices of a pmap: the first ones, as many as there are elements. Of a size that was checked;
 * meshes of equal content are one object, so calls make no more of them. */
static const tsr_mesh *devices_of(tsr_scope *scope, const mapped *m, int64_t size)
{
  tsr__text text;
  tsr__text_init(&text, &scope->rt->heap);
  tsr__text_add(&text, "%s=%lld", m->axis, (long long)size);
  const tsr_mesh *mesh = tsr_mesh_make(scope->rt, tsr__text_get(&text));
  tsr__text_free(&text);
  return mesh;
}

static tsr_array *fail_map(tsr_scope *scope, const mapped *m, const char *why)
{
  tsr__fail(scope, scope->site, TSR_EARG, "%s: %s", m->call, why);
  return tsr__make_inert(scope, scope->site);
}

static tsr_array *fail_devices(tsr_scope *scope, const mapped *m, int64_t size)
{
  tsr__fail(scope, scope->site, TSR_EARG,
            "%s: %lld elements need as many devices, but there are only %lld; use tsr_vmap, or map "
            "over fewer elements",
            m->call, (long long)size, (long long)m->most);
  return tsr__make_inert(scope, scope->site);
}

/* A leaf as the body sees one element of it. */
/* The body is traced on these: types without elements, of which the front is no
 * part. */
static tsr_array *one_of(tsr_scope *scope, const tsr_array *a, int dim, const char *site)
{
  tsr_shape shape = a->shape;
  for (int d = dim; dim >= 0 && d + 1 < a->shape.rank; d++) shape.dims[d] = a->shape.dims[d + 1];
  if (dim >= 0) shape.dims[--shape.rank] = 0;
  return tsr__stand_in(scope, (tsr_dtype)a->dtype, &shape, site);
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
  tsr__operands given = { &argument, 1 };
  if (!tsr__leaves_of(&scope->arena, argument, &e->all)) return false;
  int count = e->all.count - first;
  tsr_array **ones = tsr__arena_new(&scope->arena, ((size_t)count + 1) * sizeof *ones);
  for (int k = 0; ones && k < count; k++) {
    tsr_array *a = e->all.at[first + k];
    /* An argument that is a tree is mapped along the same dim of each of its leaves; from the
     * end, that is another dim of each. */
    int dim = asked == TSR_UNMAPPED ? -1 : asked < 0 ? asked + a->shape.rank : asked;
    if (asked != TSR_UNMAPPED && (dim < 0 || dim >= a->shape.rank)) {
      tsr__fail(scope, site, TSR_EARG,
                "%s: dim %d of argument %s is not there: the argument is %s; %s", m->call, asked,
                tsr__argument_path(scope, given, i, k), tsr_type_of(a),
                tsr__dims_text(a->shape.rank).text);
      return false;
    }
    e->varies[first + k] = dim >= 0;
    ones[k] = one_of(scope, a, dim, site);
    if (dim < 0) continue;
    if (e->size >= 0 && e->size != a->shape.dims[dim]) {
      tsr__fail(scope, site, TSR_ESHAPE,
                "%s: there are %lld elements along dim %d of argument %s, which is %s, but %lld "
                "along the mapped dims before; map over dims of one size",
                m->call, (long long)a->shape.dims[dim], dim, tsr__argument_path(scope, given, i, k),
                tsr_type_of(a), (long long)e->size);
      return false;
    }
    /* -1 until the first that is mapped over, 0 is a size like others. */
    e->size = a->shape.dims[dim];
    /* Rules of batch.c know the front at dim 0 only; as a view this costs what reading otherwise
     * does. */
    if (dim) e->all.at[first + k] = tsr_moveaxis_at(a, dim, 0, site);
  }
  if (!ones) return false;
  e->in[i] = tsr__like(argument, ones, count, site);
  return tsr__leaves_of(&scope->arena, e->in[i], &e->one.leaves);
}

/* A result with the front where it is wanted; one that does not vary is repeated. Results beyond
 * TSR_MAX_ARGS, leaves of large trees, have the front at dim 0. */
static tsr_array *place_result(const tsr__batch *b, const mapped *m, tsr_array *a, bool varies,
                               int i)
{
  const char *site = b->replay.site;
  int to = i < TSR_MAX_ARGS ? m->out_dims[i] : 0;
  /* Proved and not looked at: it has no front because nothing that it is made of has one. */
  if (to == TSR_UNMAPPED && !varies) return a;
  if (to == TSR_UNMAPPED) {
    tsr__fail(b->replay.scope, site, TSR_EAXIS,
              "%s: result %d may differ along %s, but .out_dims gives it no dim: give it one, or "
              "make it equal everywhere with tsr_psum, tsr_pmean, tsr_pmax or tsr_all_gather",
              m->call, i, m->axis ? m->axis : "the mapped dim");
    return tsr__make_inert(b->replay.scope, site);
  }
  if (!varies) a = tsr__batch_repeat(b, a, site);
  if (a->inert) return a;
  int at = to < 0 ? to + a->shape.rank : to;
  if (at < 0 || at >= a->shape.rank) {
    tsr__fail(b->replay.scope, site, TSR_EARG,
              "%s: dim %d of result %d is not there: the result is %s; %s", m->call, to, i,
              tsr_type_of(a), tsr__dims_text(a->shape.rank).text);
    return tsr__make_inert(b->replay.scope, site);
  }
  a = on_axis(m, a, site);
  return at ? tsr_moveaxis_at(a, 0, at, site) : a;
}

/*   in         x [3,b]  w [4]           in_dims 1, UNMAPPED
 *   e.all      x [b,3]  w [4]           what the replay computes with
 *   e.one      x [3]    w [4]           what the function is traced for
 *
 * The traced function is kept by `m->f` and serves any number of elements: the region knows nothing
 * of the front. */
tsr_array *tsr__map_body(tsr_scope *scope, tsr_array *const *in, void *user)
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
    return fail_map(
        scope, m,
        "no argument is mapped over; name the batch dim of at least one argument in .in_dims");
  if (m->most && e.size > m->most) return fail_devices(scope, m, e.size);
  /* `m` belongs to the function and serves all its calls; the mesh is this call's. */
  mapped here = *m;
  if (m->most && e.size) here.mesh = devices_of(scope, m, e.size);
  for (int k = 0; k < leaves; k++)
    if (e.varies[k] && !m->size) e.all.at[k] = on_axis(&here, e.all.at[k], scope->site);
  /* Bound before the trace, so that the body may name it. */
  if (m->axis && !tsr__axis_bind(scope, m->axis, e.size, m->size > 0)) return NULL;
  e.one.in = (tsr__operands){ e.in, arity };
  const tsr__traced *t = tsr__trace(scope, m->f, &e.one, scope->site);
  tsr__batch b = { .axis = m->axis, .mesh = here.mesh, .size = e.size, .of_mesh = m->size > 0 };
  if (!t || !tsr__replay_open(&b.replay, scope, t, e.all.at, scope->site)) return NULL;
  size_t room = (size_t)(t->argument_count + t->captured_count + 1);
  bool *varies = tsr__arena_new(&scope->arena, room);
  if (!varies) return NULL;
  /* What the body captured is the same for all elements, and stays false. */
  memcpy(varies, e.varies, (size_t)t->argument_count);
  if (!tsr__batch_through(&b, varies)) return NULL;
  const tsr__region *region = t->region;
  size_t many = (size_t)region->result_count + 1;
  /* In the arena of the function, which outlives that of its body. */
  if (m->size && !(m->varies = tsr__arena_new(&m->f->node.scope->arena, many))) return NULL;
  tsr_array **results = tsr__arena_new(&scope->arena, many * sizeof *results);
  for (int i = 0; results && i < region->result_count; i++) {
    int r = b.replay.results[i];
    results[i] = b.replay.at[r];
    if (m->varies) m->varies[i] = b.varies[r];
    /* With a size given (shards.c) results stay as they are: who asked places them. */
    if (!m->size && !results[i]->inert)
      results[i] = place_result(&b, &here, results[i], b.varies[r], i);
  }
  return results ? tsr__form_fill(scope, t->form, results, scope->site) : NULL;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* The name of an axis, copied; the error is told where it is none. NULL in, NULL out, without an
 * error; whoever needs one gives its own. */
static const char *name_of(tsr_scope *scope, const char *call, const char *axis, tsr__error *error)
{
  if (!axis) return NULL;
  size_t length = strlen(axis);
  if (!length || length >= TSR__AXIS_NAME)
    tsr__error_set(error, TSR_EARG, "%s: the name of the axis is \"%s\", expected 1 to %d bytes",
                   call, axis, TSR__AXIS_NAME - 1);
  return tsr__arena_text(&scope->arena, axis, length);
}

/* A function of `m`, which is copied. */
static tsr_function *make(const mapped *m, const tsr__error *error, const char *site)
{
  tsr_scope *scope = m->f->node.scope;
  mapped *own = tsr__arena_new(&scope->arena, sizeof *own);
  tsr_function *out = own ? tsr__function_new(scope, tsr__map_body, own, m->f->name, site) : NULL;
  if (!out) {
    tsr__or_no_memory(scope, NULL, m->call, site);
    return NULL;
  }
  *own = *m;
  out->of = m->f;
  out->inert = error->status != TSR_OK;
  if (out->inert) tsr__fail_error(scope, site, error);
  return out;
}

tsr_function *tsr_vmap_at(const tsr_vmap_args *given, const char *site)
{
  tsr_vmap_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr__take_opts("tsr_vmap", given, &args, sizeof args, &error);
  tsr_function *f = given ? given->function : NULL;
  if (!f) return tsr__no_function("tsr_vmap", site);
  if (f->inert) return f;
  mapped m = { .f = f, .call = "tsr_vmap" };
  memcpy(m.in_dims, args.in_dims, sizeof m.in_dims);
  memcpy(m.out_dims, args.out_dims, sizeof m.out_dims);
  m.axis = name_of(f->node.scope, m.call, args.axis, &error);
  return make(&m, &error, site);
}

tsr_function *tsr_pmap_at(const tsr_pmap_args *given, const char *site)
{
  tsr_pmap_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr__take_opts("tsr_pmap", given, &args, sizeof args, &error);
  tsr_function *f = given ? given->function : NULL;
  if (!f) return tsr__no_function("tsr_pmap", site);
  if (f->inert) return f;
  mapped m = { .f = f, .call = "tsr_pmap", .most = tsr_device_count(f->node.scope->rt) };
  memcpy(m.in_dims, args.in_dims, sizeof m.in_dims);
  memcpy(m.out_dims, args.out_dims, sizeof m.out_dims);
  m.axis = name_of(f->node.scope, m.call, args.axis ? args.axis : "devices", &error);
  return make(&m, &error, site);
}

/* ---- xmap ------------------------------------------------------------------------------------ */

/* The entries of "batch,-": names of dims. */
typedef struct entries {
  const char *at[TSR_MAX_RANK];
  size_t length[TSR_MAX_RANK];
  int count;
} entries;

/* Borrowed from the text: entries do not outlive the call that reads them. */
static bool read_entries(const char *text, const char *what, int i, entries *out, tsr__error *error)
{
  *out = (entries){ .count = 0 };
  for (const char *at = text ? text : ""; *at;) {
    at += strspn(at, " ,");
    size_t length = strcspn(at, " ,");
    if (!length) break;
    if (out->count == TSR_MAX_RANK || length >= TSR__AXIS_NAME) {
      tsr__error_set(
          error, TSR_EARG,
          "tsr_xmap: %s %d has the dims \"%s\", expected at most %d names of 1 to %d bytes", what,
          i, text, TSR_MAX_RANK, TSR__AXIS_NAME - 1);
      return false;
    }
    out->at[out->count] = at;
    out->length[out->count++] = length;
    at += length;
  }
  return true;
}

/* Where a name is among entries; -1: it is not. */
static int place_of(const entries *e, const char *name, size_t length)
{
  for (int i = 0; i < e->count; i++)
    if (e->length[i] == length && !memcmp(e->at[i], name, length)) return i;
  return -1;
}

/* All names of the arguments, in the order in which they are first named. */
static bool all_names(const entries *in, entries *names, tsr__error *error)
{
  *names = (entries){ .count = 0 };
  for (int i = 0; i < TSR_MAX_ARGS; i++)
    for (int k = 0; k < in[i].count; k++) {
      bool none = in[i].length[k] == 1 && *in[i].at[k] == '-';
      if (none || place_of(names, in[i].at[k], in[i].length[k]) >= 0) continue;
      if (names->count == TSR_MAX_RANK) {
        tsr__error_set(error, TSR_EARG, "tsr_xmap: more than %d names of dims; map over fewer",
                       TSR_MAX_RANK);
        return false;
      }
      names->at[names->count] = in[i].at[k];
      names->length[names->count++] = in[i].length[k];
    }
  if (!names->count)
    tsr__error_set(error, TSR_EARG, "tsr_xmap: .in_axes names no dim; name at least one");
  return names->count > 0;
}

/* How many entries before `at` have no name, or that of a level from `level` on. */
/*   "batch,-,head" with names batch (level 0) and head (level 1)
 *
 *   level 0 maps dim 0 of [batch, x, head]      before it: none
 *   level 1 maps dim 1 of        [x, head]      before it: x; batch is gone already
 */
static int before(const entries *e, int at, const entries *names, int level)
{
  int count = 0;
  for (int i = 0; i < at; i++) {
    int of = place_of(names, e->at[i], e->length[i]);
    count += of < 0 || of >= level;
  }
  return count;
}

/* The level of one name: outer ones have taken their dims away, inner ones given theirs back. An
 * argument that lacks the name is the same at all of its places. */
static mapped level_of(const entries *in, const entries *out, const entries *names, int level)
{
  mapped m = { .call = "tsr_xmap" };
  for (int i = 0; i < TSR_MAX_ARGS; i++) {
    int from = place_of(&in[i], names->at[level], names->length[level]);
    int to = place_of(&out[i], names->at[level], names->length[level]);
    m.in_dims[i] = from < 0 ? TSR_UNMAPPED : before(&in[i], from, names, level);
    m.out_dims[i] = to < 0 ? TSR_UNMAPPED : before(&out[i], to, names, level);
  }
  return m;
}

/* A name of a result that no argument has. */
static bool check_names(const entries *out, const entries *names, tsr__error *error)
{
  for (int i = 0; i < TSR_MAX_ARGS; i++)
    for (int k = 0; k < out[i].count; k++) {
      bool none = out[i].length[k] == 1 && *out[i].at[k] == '-';
      if (none || place_of(names, out[i].at[k], out[i].length[k]) >= 0) continue;
      tsr__error_set(error, TSR_EAXIS,
                     "tsr_xmap: result %d has a dim %.*s, but no argument has that dim; use a name "
                     "of .in_axes",
                     i, (int)out[i].length[k], out[i].at[k]);
      return false;
    }
  return true;
}

tsr_function *tsr_xmap_at(const tsr_xmap_args *given, const char *site)
{
  tsr_xmap_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  entries in[TSR_MAX_ARGS], out[TSR_MAX_ARGS], names = { .count = 0 };
  tsr__take_opts("tsr_xmap", given, &args, sizeof args, &error);
  tsr_function *f = given ? given->function : NULL;
  if (!f) return tsr__no_function("tsr_xmap", site);
  if (f->inert) return f;
  bool read = !error.status;
  for (int i = 0; i < TSR_MAX_ARGS && read; i++)
    read = read_entries(args.in_axes[i], "argument", i, &in[i], &error) &&
           read_entries(args.out_axes[i], "result", i, &out[i], &error);
  read = read && all_names(in, &names, &error) && check_names(out, &names, &error);
  if (!read) return make(&(mapped){ .f = f, .call = "tsr_xmap" }, &error, site);
  /* From the inside out: the function of the last name is mapped over the one before it. */
  for (int level = names.count - 1; level >= 0 && f; level--) {
    mapped m = level_of(in, out, &names, level);
    m.f = f;
    m.mesh = args.mesh;
    m.axis = tsr__arena_text(&f->node.scope->arena, names.at[level], names.length[level]);
    f = make(&m, &error, site);
  }
  return f;
}
