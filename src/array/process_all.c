/* What each process has, brought to all: gathered, of one of them, compared.
 *
 *    process p has f32[4]       f32[P,4]@(process) on process=P, its part p
 *    all read that              f32[P,4], each process's own
 *
 * So nothing here moves bytes: an array is made on a mesh of one device a process, and is read as
 * any array is.
 *
 * A leaf of a call goes the same way in each process:
 *
 *   bring      enters the meeting, tells dtype and shape, reads all of them and compares
 *   joined     the value that all have a part of; may fail in one process alone
 *   end        leaves with a status: what failed in one is inert in all */
#include "array/process_meeting.h"

#include "graph/leaves.h"
#include "tessera/process_data.h"

#include <stdio.h>

/* ---- trees ----------------------------------------------------------------------------------- */

/* A call on a tree, by what it makes of one leaf. `tiled` is the gathering's, `root` the
 * broadcast's. */
typedef struct each {
  tsr_array *(*fn)(struct each *each, tsr_array *a);
  const char *what, *site;
  tsr_scope *scope;
  bool tiled;
  int root;
} each;

/* What is made of each array of a tree, in its place. Leaf after leaf in order, the same in each
 * process, as each leaf is a meeting. An inert one does not end the walk: the others come to the
 * meetings of the rest. */
static tsr_array *of_all(each *e, tsr_array *a)
{
  if (!tsr__is_tree(a)) return e->fn(e, a);
  tsr_array **made = tsr__arena_new(&e->scope->arena, ((size_t)a->in_count + 1) * sizeof *made);
  tsr_array *bad = NULL;
  for (int i = 0; made && i < a->in_count; i++) {
    made[i] = of_all(e, a->in[i]);
    if (!bad && made[i]->inert) bad = made[i];
  }
  if (made && !bad)
    return tsr__make_tree(e->scope, (tsr__operands){ made, a->in_count }, a->extras->names,
                          e->site);
  if (!made) tsr__fail(e->scope, e->site, TSR_ENOMEM, "%s: no memory for a tree", e->what);
  return bad ? bad : tsr__make_inert(e->scope, e->site);
}

/* Evaluates an array or a tree as one program. In one run and not leaf after leaf, and before the
 * first meeting: each leaf then has a value, and its meeting is about that alone. */
static tsr_status all_ready(tsr_array *a, const char *what, const char *site)
{
  TSR__CALL(tsr__home(a), what + strlen("tsr_"));
  return tsr_eval_at(&a, 1, site);
}

/* ---- what processes bring -------------------------------------------------------------------- */

/* Sent and compared as bytes, so it is cleared before it is filled. */
typedef struct told {
  int64_t dtype, rank, dims[TSR_MAX_RANK];
} told;

/* A meeting over an array that each process has of its own, and what was told of it. */
typedef struct bringing {
  tsr__together meet;
  tsr_array *a;
  told *all; /* [process] */
} bringing;

/* All compare with process 0, and in order, so that all find the same first difference. */
static tsr_status compare(bringing *b, bool tiled)
{
  const told *first = &b->all[0];
  for (int p = 1; p < b->meet.count; p++) {
    told *of = &b->all[p], like = *of;
    if (of->dtype != first->dtype)
      return tsr__error_set(
          &b->meet.error, TSR_EDTYPE,
          "process %d has %s, process 0 has %s; give the same dtype on all processes", p,
          tsr_dtype_name((tsr_dtype)of->dtype), tsr_dtype_name((tsr_dtype)first->dtype));
    if (tiled) like.dims[0] = first->dims[0];
    if (!memcmp(&like, first, sizeof like)) continue;
    tsr_shape there = { .rank = (int)of->rank }, here = { .rank = (int)first->rank };
    memcpy(there.dims, of->dims, sizeof there.dims);
    memcpy(here.dims, first->dims, sizeof here.dims);
    char found[128], expected[128];
    tsr_type_text((tsr_dtype)of->dtype, there, NULL, found, sizeof found);
    tsr_type_text((tsr_dtype)first->dtype, here, NULL, expected, sizeof expected);
    return tsr__error_set(
        &b->meet.error, TSR_ESHAPE,
        "process %d has %s, process 0 has %s; give the same shape on all processes%s", p, found,
        expected, tiled ? ", but for dim 0" : "");
  }
  return TSR_OK;
}

static tsr_array *broadcast_one(each *e, tsr_array *a);

/* Comes to the meeting, and finds out what all have brought. */
static tsr_status bring(bringing *b, const each *e, bool tiled)
{
  tsr_array *a = b->a;
  char how[40] = "";
  if (e->fn == broadcast_one) snprintf(how, sizeof how, " of process %d", e->root);
  if (e->tiled) snprintf(how, sizeof how, " with .tiled");
  tsr_status status = tsr__together_begin_as(&b->meet, e->scope->rt, e->what, how, e->site);
  told mine;
  memset(&mine, 0, sizeof mine);
  mine.dtype = a->dtype;
  mine.rank = a->shape.rank;
  for (int d = 0; d < a->shape.rank; d++) mine.dims[d] = a->shape.dims[d];
  if (!status) b->all = tsr__arena_new(&e->scope->arena, (size_t)b->meet.count * sizeof *b->all);
  if (!status && !b->all)
    status = tsr__error_set(&b->meet.error, TSR_ENOMEM,
                            "no memory for a round with the other processes");
  if (!status) status = tsr__together_tell(&b->meet, &mine, sizeof mine);
  for (int p = 0; p < b->meet.count && !status; p++)
    memcpy(&b->all[p], b->meet.notes[p].data, sizeof mine);
  return status ? status : compare(b, tiled);
}

/* Host memory for the elements of a shape. */
typedef struct host_memory {
  tsr__heap *heap;
  void *data;
  size_t bytes;
} host_memory;

/* A byte more than is asked for, so that no elements are no failed allocation. */
static bool take_memory(host_memory *memory, tsr_runtime *rt, tsr_dtype dtype,
                        const tsr_shape *shape, tsr__error *error)
{
  memory->heap = &rt->heap;
  memory->bytes = (size_t)tsr__shape_count(shape) * tsr_dtype_size(dtype) + 1;
  memory->data = tsr__new_raw(memory->heap, memory->bytes);
  if (!memory->data)
    tsr__error_set(error, TSR_ENOMEM, "no memory for %zu bytes", memory->bytes - 1);
  return memory->data;
}

static void give_memory(host_memory *memory)
{
  if (memory->data) tsr__del(memory->heap, memory->data, memory->bytes);
}

/* A value of this process alone, of what another one's holds; both may be the same elements. The
 * new one is unplaced: each process has it on the first of its devices. By way of host memory,
 * since the two lie on different meshes. */
static tsr__value *read_whole(const tsr__value *from, const char *what, tsr__error *error)
{
  const tsr_sharding unplaced = { .mesh = NULL };
  tsr__layout layout = { (tsr_dtype)from->dtype, &from->shape, &unplaced, NULL };
  host_memory memory;
  tsr__value *out = NULL;
  if (take_memory(&memory, from->rt, layout.dtype, &from->shape, error) &&
      !tsr__value_fetch(from, memory.data, what, error))
    out = tsr__value_new(from->rt, &layout, error);
  if (out && !tsr__value_from_host(out, memory.data)) {
    tsr__cancelled(error, what);
    tsr__value_release(out);
    out = NULL;
  }
  give_memory(&memory);
  return out;
}

/* Copies an array of this process to its part of a value that all have a part of, if it has one.
 * The part has the elements of the array in the same order, though untiled it has a dim of size 1
 * more in front. */
static tsr_status fill_own(tsr__value *value, const tsr_array *a, const char *what,
                           tsr__error *error)
{
  tsr_sharding on = value->sharding;
  int own = tsr_local_shard(&on, 0);
  host_memory memory;
  tsr_box box;
  if (own < 0) return TSR_OK;
  tsr__value_box(value, own, &box);
  tsr__box_copy copy = tsr__part_copy(value, &box);
  if (take_memory(&memory, value->rt, (tsr_dtype)a->dtype, &a->shape, error) &&
      !tsr__value_fetch(a->value, memory.data, what, error))
    tsr__devices_of(value->rt)->ops->from_host(&copy, memory.data, value->parts[own]);
  give_memory(&memory);
  return error->status;
}

/* What is made of a meeting: a leaf, or an inert array with the error said. Called whatever `bring`
 * said. A value that this process could make goes where another one failed: nobody may have an
 * array that others have not. */
static tsr_array *end_bringing(bringing *b, const each *e, tsr__value *value)
{
  tsr_status status = b->meet.error.status;
  status = tsr__together_end(&b->meet, status);
  if (status && value) tsr__value_release(value);
  return tsr__leaf_of(e->scope, status ? NULL : value, &b->meet.error, e->what, e->site);
}

/* ---- gathering ------------------------------------------------------------------------------- */

/* One device a process. All processes have as many devices, so that those of process p begin at p
 * times that. */
static tsr_mesh *mesh_of_processes(tsr_runtime *rt, int count, tsr__error *error)
{
  tsr_mesh_opts opts = { .size = sizeof opts, .axis_count = 1, .names = { "process" } };
  size_t bytes = (size_t)count * sizeof(int);
  int *devices = tsr__new(&rt->heap, bytes);
  if (!devices) {
    tsr__error_set(error, TSR_ENOMEM, "no memory for the mesh of processes");
    return NULL;
  }
  for (int p = 0; p < count; p++) devices[p] = p * tsr_local_device_count(rt);
  opts.sizes[0] = count;
  opts.devices = devices;
  tsr_mesh *mesh = tsr_mesh_make_with(rt, &opts);
  tsr__del(&rt->heap, devices, bytes);
  if (!mesh->error) return mesh;
  *error = *mesh->error;
  return NULL;
}

/* The value of all together: along a new dim, or one after the other. Untiled there is a row for
 * each process, so a mesh of one device a process cuts it evenly; tiled, rows are as ragged as the
 * processes have them. */
static tsr__value *joined(bringing *b, bool tiled)
{
  tsr_runtime *rt = b->meet.rt;
  tsr__error *error = &b->meet.error;
  tsr_shape shape = b->a->shape;
  tsr_mesh *mesh = mesh_of_processes(rt, b->meet.count, error);
  /* Rows a process has, in their order; the layout borrows them, and the arena has them long
   * enough. */
  int64_t *rows = tsr__arena_new(&tsr__home(b->a)->arena, (size_t)b->meet.count * sizeof *rows);
  if (!rows) tsr__error_set(error, TSR_ENOMEM, "no memory for a round with the other processes");
  if (error->status) return NULL;
  /* Untiled, each dim moves one up and leaves room for the new one in front. */
  for (int d = tiled ? 0 : shape.rank++; d > 0; d--) shape.dims[d] = shape.dims[d - 1];
  shape.dims[0] = 0;
  for (int p = 0; p < b->meet.count; p++) {
    rows[p] = tiled ? b->all[p].dims[0] : 1;
    /* A size beyond 64 bits is refused as too large by the check of the place. */
    if (__builtin_add_overflow(shape.dims[0], rows[p], &shape.dims[0])) shape.dims[0] = INT64_MAX;
  }
  tsr_sharding on = tsr_on_with(mesh, "process", NULL);
  if (tsr__check_place(tsr__home(b->a), &on, (tsr_dtype)b->a->dtype, &shape, error)) return NULL;
  on = tsr__sharding_canon(&on);
  tsr__layout layout = { (tsr_dtype)b->a->dtype, &shape, &on, rows };
  tsr__value *value = tsr__value_new(rt, &layout, error);
  if (!value || !fill_own(value, b->a, b->meet.what, error)) return value;
  tsr__value_release(value);
  return NULL;
}

/* Whatever is wrong here is only put down in the meeting's error: this process goes through to its
 * end, and the others learn of it there. */
static tsr_array *gather_one(each *e, tsr_array *a)
{
  bringing b = { .a = a };
  bool shared = tsr__lies_shared(&a->value->sharding);
  bool tiled = e->tiled && a->shape.rank > 0;
  tsr_status status = bring(&b, e, tiled);
  if (!status && !e->tiled && shared)
    tsr__error_set(&b.meet.error, TSR_EARG,
                   "%s lies on a mesh of all processes; gather the array with .tiled = true",
                   tsr_type_of(a));
  /* What lies on a mesh of all has the same elements in all processes: tiled it is the whole
   * already, and only this process's own copy is made. */
  tsr__value *all = NULL, *out = NULL;
  if (!b.meet.error.status && shared) tsr__value_hold(all = a->value);
  else if (!b.meet.error.status && a->shape.rank == TSR_MAX_RANK && !tiled)
    tsr__error_set(
        &b.meet.error, TSR_ESHAPE,
        "%s has %d dims already, the most an array can have; gather the array with .tiled = true",
        tsr_type_of(a), TSR_MAX_RANK);
  else if (!b.meet.error.status) all = joined(&b, tiled);
  if (all && !b.meet.error.status) out = read_whole(all, e->what, &b.meet.error);
  tsr_array *made = end_bringing(&b, e, out);
  if (all) tsr__value_release(all);
  return made;
}

/* Opens a call on an array or a tree: false, with what is to be returned, where it cannot be
 * made. */
static bool open_each(each *e, tsr_array *a, const tsr__error *error, tsr_array **out)
{
  e->scope = tsr__home(a);
  *out = a;
  if (!a) *out = tsr__make_of_null(e->what, "array", e->site);
  if (!a || (a->inert && !a->node.scope)) return false;
  tsr_status status = TSR_OK;
  if (error->status) status = tsr__fail_error(e->scope, e->site, error);
  else status = all_ready(a, e->what, e->site);
  /* A new one, of no place: what comes of the call is this process's own, and nobody else would
   * wait for it as for an inert array that was to lie on all. */
  if (status) *out = tsr__make_inert(e->scope, e->site);
  return !status || tsr__together_refuse(a, status, e->site) == TSR_OK;
}

tsr_array *tsr_process_gather_with(tsr_array *a, const tsr_process_gather_opts *opts,
                                   const char *site)
{
  each e = { .fn = gather_one, .what = "tsr_process_gather", .site = site };
  tsr_process_gather_opts own = { .size = sizeof own };
  tsr__error error = { .status = TSR_OK };
  tsr_array *out;
  tsr__take_opts(e.what, opts, &own, sizeof own, &error);
  e.tiled = own.tiled;
  return open_each(&e, a, &error, &out) ? of_all(&e, a) : out;
}

/* ---- of one process -------------------------------------------------------------------------- */

static tsr_status check_root(int root, int count, tsr__error *error)
{
  if (root >= 0 && root < count) return TSR_OK;
  return tsr__error_set(error, TSR_EARG, "there is no process %d; the processes are 0 to %d", root,
                        count - 1);
}

/* Only the root's device has a part; other processes make the same value without one, and read the
 * root's. All bring an array, though only the root's is read: of its dtype and shape the value is
 * made in each. */
static tsr_array *broadcast_one(each *e, tsr_array *a)
{
  bringing b = { .a = a };
  tsr__error *error = &b.meet.error;
  tsr_status status = bring(&b, e, false);
  if (!status) status = check_root(e->root, b.meet.count, error);
  if (!status && tsr__lies_shared(&a->value->sharding))
    tsr__error_set(error, TSR_EUNSUPPORTED,
                   "%s lies on a mesh of all processes, so each can read it; call tsr_read instead",
                   tsr_type_of(a));
  tsr__value *at_root = NULL, *out = NULL;
  if (!error->status) {
    tsr_runtime *rt = b.meet.rt;
    tsr_sharding on = tsr_on_device(rt, e->root * tsr_local_device_count(rt));
    bool lies = !tsr__check_place(e->scope, &on, (tsr_dtype)a->dtype, &a->shape, error);
    if (lies) on = tsr__sharding_canon(&on);
    tsr__layout layout = { (tsr_dtype)a->dtype, &a->shape, &on, NULL };
    at_root = lies ? tsr__value_new(rt, &layout, error) : NULL;
    if (at_root && !fill_own(at_root, a, e->what, error)) out = read_whole(at_root, e->what, error);
  }
  tsr_array *made = end_bringing(&b, e, out);
  if (at_root) tsr__value_release(at_root);
  return made;
}

tsr_array *tsr_process_broadcast_with(tsr_array *a, const tsr_process_broadcast_opts *opts,
                                      const char *site)
{
  each e = { .fn = broadcast_one, .what = "tsr_process_broadcast", .site = site };
  tsr_process_broadcast_opts own = { .size = sizeof own };
  tsr__error error = { .status = TSR_OK };
  tsr_array *out;
  tsr__take_opts(e.what, opts, &own, sizeof own, &error);
  e.root = own.root;
  return open_each(&e, a, &error, &out) ? of_all(&e, a) : out;
}

/* The root alone copies; the others say where their parts lie, and wait. A size that is wrong is
 * found by the root, as the others pass none of their own, and they learn of it at the end. */
tsr_status tsr_read_root_at(tsr_array *a, int root, void *out, size_t bytes, const char *site)
{
  const char *what = "tsr_read_root";
  tsr_status status = tsr__array_ready(a, what, site);
  tsr__together meet;
  if (status) return a ? tsr__together_refuse(a, status, site) : status;
  tsr_scope *scope = tsr__home(a);
  tsr_runtime *rt = scope->rt;
  if (!site) site = a->node.site;
  char how[40];
  snprintf(how, sizeof how, " of process %d", root);
  status = tsr__together_begin_as(&meet, rt, what, how, site);
  if (!status) status = check_root(root, meet.count, &meet.error);
  size_t need = (size_t)tsr__shape_count(&a->shape) * tsr_dtype_size((tsr_dtype)a->dtype);
  if (!status && root == meet.own && (bytes != need || (!out && need)))
    status = tsr__error_set(&meet.error, TSR_EARG, "%s%zu bytes for %s, expected exactly %zu",
                            out ? "" : "NULL of ", bytes, tsr_type_of(a), need);
  bool mine = root == meet.own && need;
  if (!status) status = tsr__fetch_at(a->value, mine ? out : NULL, &meet.error);
  status = tsr__together_end(&meet, status);
  if (!status) return TSR_OK;
  tsr__unname(&meet.error, what);
  return tsr__fail(scope, site, status, "%s: %s", what, meet.error.text);
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Dims and dtype are part of it, so arrays of equal bytes and other shapes differ. A hash is sent
 * in the place of elements: chance makes different arrays equal once in 2^64. */
static tsr_status hash_of(const tsr_array *a, uint64_t *out, tsr__error *error)
{
  host_memory memory;
  uint64_t hash = tsr__hash(&a->shape.dims, (size_t)a->shape.rank * sizeof(int64_t), a->dtype);
  if (take_memory(&memory, a->value->rt, (tsr_dtype)a->dtype, &a->shape, error) &&
      !tsr__value_fetch(a->value, memory.data, "tsr_process_equal", error))
    /* The byte more that take_memory asks for is no element. */
    *out = tsr__hash(memory.data, memory.bytes - 1, hash);
  give_memory(&memory);
  return error->status;
}

/* The way to the leaf `number` of a tree: "layer1.w", "0.1". In the order in which
 * tsr__leaves_of lists them, which is depth first. */
static void add_path(tsr__text *out, const tsr_array *a, int number)
{
  for (int i = 0; tsr__is_tree(a) && i < a->in_count; i++) {
    int leaves = tsr__leaf_count(a->in[i]);
    if (number >= leaves) {
      number -= leaves;
      continue;
    }
    const char *name = a->extras->names ? a->extras->names[i] : NULL;
    if (name) tsr__text_add(out, "%s", name);
    else tsr__text_add(out, "%d", i);
    if (tsr__is_tree(a->in[i])) tsr__text_add(out, ".");
    add_path(out, a->in[i], number);
    return;
  }
}

typedef struct comparing {
  tsr__together meet;
  tsr_array *a;
  const char *name;
  tsr__leaves leaves;
} comparing;

static tsr_status differs(comparing *c, int process, int leaf)
{
  tsr__text path;
  tsr__text_init(&path, &c->meet.rt->heap);
  add_path(&path, c->a, leaf);
  const char *way = tsr__text_get(&path);
  tsr__error_set(&c->meet.error, TSR_EVALUE,
                 "process %d has other elements than process 0 in %s%s%s, which is %s", process,
                 c->name, *way ? " at " : "", way, tsr_type_of(c->leaves.at[leaf]));
  tsr__text_free(&path);
  return c->meet.error.status;
}

/* The first process that has something else than process 0. Numbers of arrays come before elements:
 * where they are the same in all, the array that differs is one of this process too. */
static tsr_status compare_hashes(comparing *c)
{
  const tsr__peers_note *first = &c->meet.notes[0], *of = first;
  for (int p = 1; p < c->meet.count; p++) {
    of = &c->meet.notes[p];
    if (of->size != first->size)
      return tsr__error_set(&c->meet.error, TSR_EVALUE,
                            "process %d has %zu arrays in %s, process 0 has %zu", p,
                            of->size / sizeof(uint64_t), c->name, first->size / sizeof(uint64_t));
  }
  for (int p = 1; p < c->meet.count; p++) {
    of = &c->meet.notes[p];
    for (size_t i = 0; i < of->size; i += sizeof(uint64_t))
      if (memcmp((const char *)of->data + i, (const char *)first->data + i, sizeof(uint64_t)))
        return differs(c, p, (int)(i / sizeof(uint64_t)));
  }
  return TSR_OK;
}

/* In the meeting, as memory may end in one process alone. */
static tsr_status list_leaves(comparing *c)
{
  c->leaves = (tsr__leaves){ &c->a, 1, 0 };
  if (!tsr__is_tree(c->a)) return TSR_OK;
  c->leaves = (tsr__leaves){ .at = NULL };
  if (tsr__leaves_of(&tsr__home(c->a)->arena, c->a, &c->leaves)) return TSR_OK;
  return tsr__error_set(
      &c->meet.error, TSR_ENOMEM,
      "no memory to list the arrays of a tree; close scopes that are no longer needed");
}

/* How many hashes there are is seen by the size of what a process told, so one with another tree
 * needs no case of its own. */
static tsr_status hash_all(comparing *c)
{
  if (list_leaves(c)) return c->meet.error.status;
  size_t bytes = ((size_t)c->leaves.count + 1) * sizeof(uint64_t);
  tsr__heap *heap = &c->meet.rt->heap;
  uint64_t *hashes = tsr__new(heap, bytes);
  if (!hashes)
    return tsr__error_set(&c->meet.error, TSR_ENOMEM, "no memory to compare %d arrays",
                          c->leaves.count);
  tsr_status status = TSR_OK;
  for (int i = 0; i < c->leaves.count && !status; i++)
    status = hash_of(c->leaves.at[i], &hashes[i], &c->meet.error);
  if (!status) status = tsr__together_tell(&c->meet, hashes, bytes - sizeof *hashes);
  if (!status) status = compare_hashes(c);
  tsr__del(heap, hashes, bytes);
  return status;
}

tsr_status tsr_process_equal_at(tsr_array *a, const char *what, const char *site)
{
  const char *call = "tsr_process_equal";
  comparing c = { .a = a, .name = what ? what : "the array" };
  if (!a) return tsr__fail_null(call, "array", site);
  tsr_status status = all_ready(a, call, site);
  if (status) return tsr__together_refuse(a, status, site);
  tsr_scope *scope = tsr__home(a);
  if (!site) site = a->node.site;
  status = tsr__together_begin(&c.meet, scope->rt, call, site);
  if (!status) status = hash_all(&c);
  status = tsr__together_end(&c.meet, status);
  return status ? tsr__fail(scope, site, status, "%s: %s", call, c.meet.error.text) : TSR_OK;
}

/* ---- meeting --------------------------------------------------------------------------------- */

tsr_status tsr_process_meet_at(tsr_scope *scope, const char *name, const char *site)
{
  /* The name is part of what is entered with: meetings of other names are other calls, and it is
   * tamed as it comes to be shown by all. */
  char what[128];
  tsr__together meet;
  tsr_status status = tsr__scope_usable(scope, "tsr_process_meet", site);
  if (status) return status;
  what[0] = 0;
  if (name) snprintf(what, sizeof what, "tsr_process_meet '%.90s'", name);
  tsr__text_tame(what);
  status = tsr__together_begin(&meet, scope->rt, what, site);
  if (!status && !name)
    status = tsr__error_set(&meet.error, TSR_EARG, "the name of the round is NULL; give a name");
  status = tsr__together_end(&meet, status);
  return status ? tsr__fail(scope, site, status, "tsr_process_meet: %s", meet.error.text) : TSR_OK;
}
