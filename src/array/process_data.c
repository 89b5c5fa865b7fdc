/* Arrays of what each process gives, and what each has of an array.
 *
 *   told by each      dtype | shape of its block | shape of the whole, if it says one | where
 *   found by all      the whole: along each dim the different blocks together
 *
 * All processes look at what all have told, in the same order, so that they find the same or the
 * same error. */
#include "array/process_meeting.h"

#include "tessera/process_data.h"
#include "topology/portions.h"

/* Compared and sent as bytes: made zeroed, without holes that matter. */
typedef struct told {
  uint64_t place; /* a hash of where the array is to lie */
  int64_t dtype, rank, whole_rank;
  int64_t dims[TSR_MAX_RANK], whole[TSR_MAX_RANK];
} told;

/* What from_process_data is given, with the name of the call that was made. */
typedef struct given_data {
  const char *what;
  const void *data;
  tsr_dtype dtype;
  tsr_shape shape, whole;
  tsr_sharding on;
  tsr__error error; /* what is wrong with it already */
} given_data;

typedef struct giving {
  tsr__together meet;
  const given_data *given;
  const tsr_sharding *on; /* canonical */
  told *all;              /* [process] */
  tsr_shape whole;
  unsigned as_whole; /* dims of which this process gives all elements */
} giving;

/* 0 without a mesh, where nothing is cut and no portions are asked for. */
static int own_process(const giving *g)
{
  return g->on->mesh ? tsr__topology_of(g->on->mesh->rt)->process_index : 0;
}

/* Axes and devices, by their numbers: meshes have other addresses in each process. */
static uint64_t hash_place(const tsr_sharding *on)
{
  tsr_sharding form = *on;
  form.mesh = NULL;
  uint64_t hash = tsr__hash(&form, sizeof form, 0);
  if (!on->mesh || on->mesh->own) return hash;
  hash = tsr__hash(on->mesh->text, strlen(on->mesh->text), hash);
  return tsr__hash(on->mesh->devices, (size_t)on->mesh->device_count * sizeof(int), hash);
}

static tsr_status no_memory(giving *g)
{
  return tsr__error_set(&g->meet.error, TSR_ENOMEM,
                        "no memory for a round with the other processes");
}

/* ---- what all have told ---------------------------------------------------------------------- */

/* Notes are not asked for their sizes: whoever is in this call has told a struct of this size. */
static tsr_status tell(giving *g)
{
  const given_data *given = g->given;
  told mine;
  memset(&mine, 0, sizeof mine);
  mine.place = hash_place(g->on);
  mine.dtype = (int64_t)given->dtype;
  mine.rank = given->shape.rank;
  mine.whole_rank = given->whole.rank;
  for (int d = 0; d < given->shape.rank; d++) mine.dims[d] = given->shape.dims[d];
  for (int d = 0; d < given->whole.rank; d++) mine.whole[d] = given->whole.dims[d];
  tsr_status status = tsr__together_tell(&g->meet, &mine, sizeof mine);
  for (int p = 0; p < g->meet.count && !status; p++)
    memcpy(&g->all[p], g->meet.notes[p].data, sizeof mine);
  return status;
}

/* A process that only pretends to be one of several is all of them. */
static const told *told_by(const giving *g, int process)
{
  return &g->all[g->meet.count > 1 ? process : 0];
}

/* All want the same of what is each other's; the first that differs is named. Shapes are not among
 * it: blocks may differ in size, and find_whole says which must not. */
static tsr_status compare(giving *g)
{
  const told *first = &g->all[0];
  tsr__error *error = &g->meet.error;
  for (int p = 1; p < g->meet.count; p++) {
    const told *of = &g->all[p];
    if (of->dtype != first->dtype)
      return tsr__error_set(
          error, TSR_EDTYPE,
          "process %d gives %s, process 0 gives %s; give the same dtype on all processes", p,
          tsr_dtype_name((tsr_dtype)of->dtype), tsr_dtype_name((tsr_dtype)first->dtype));
    if (of->place != first->place)
      return tsr__error_set(error, TSR_EARG,
                            "process %d and process 0 place the array differently; give the same "
                            ".on on all processes",
                            p);
    if (of->rank != first->rank)
      return tsr__error_set(
          error, TSR_ESHAPE,
          "process %d gives %lld dims, process 0 gives %lld; give equally many on all processes", p,
          (long long)of->rank, (long long)first->rank);
    if (of->whole_rank != first->whole_rank || memcmp(of->whole, first->whole, sizeof of->whole))
      return tsr__error_set(error, TSR_EARG,
                            "process %d and process 0 give different shapes of the whole array; "
                            "give the same .whole on all processes",
                            p);
  }
  return TSR_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* A dim is as long as the different blocks along it together, of which processes that have the same
 * one must say the same. Of a block that several have, the process with its first piece counts.
 *
 *   pieces 0 1 2 3    process 0 has 0 and 2, process 1 has 1 and 3: sizes of both are added
 *   pieces 0 1        processes 0 and 1 have 0, process 2 has 1: of 0 and 1 only one counts */
static tsr_status add_blocks(giving *g, const tsr__portions *pieces)
{
  int index, dim = pieces->dim, count = tsr__portions_number(pieces, 0, &index);
  int64_t total = 0;
  if (!count)
    return tsr__error_set(&g->meet.error, TSR_EARG,
                          "the portions of the processes overlap along dim %d, so that the shape "
                          "of the whole array cannot be computed; give .whole",
                          dim);
  for (int p = 0; p < pieces->processes; p++) {
    int64_t first = tsr__portions_first(pieces, p);
    if (first < 0) continue;
    int owner = 0;
    /* It ends at p at the latest, which has the piece. */
    while (!tsr__portions_has(pieces, owner, first)) owner++;
    int64_t mine = told_by(g, p)->dims[dim], theirs = told_by(g, owner)->dims[dim];
    if (owner == p && __builtin_add_overflow(total, mine, &total)) total = INT64_MAX;
    if (mine != theirs)
      return tsr__error_set(&g->meet.error, TSR_ESHAPE,
                            "along dim %d process %d gives %lld elements, but process %d with the "
                            "same portion gives %lld; give equally many, or .whole",
                            dim, p, (long long)mine, owner, (long long)theirs);
  }
  g->whole.dims[dim] = total;
  return TSR_OK;
}

/* With .whole nothing is added up, and blocks may overlap: the sizes are checked against it in
 * check_blocks. */
static tsr_status find_whole(giving *g)
{
  const given_data *given = g->given;
  tsr_status status = TSR_OK;
  bool said = given->whole.rank > 0;
  g->whole = said ? given->whole : given->shape;
  if (said && given->whole.rank != given->shape.rank)
    return tsr__error_set(&g->meet.error, TSR_ESHAPE,
                          "the data has %d dims, but .whole has %d; give equally many",
                          given->shape.rank, given->whole.rank);
  /* A mesh of this process's own, and no mesh, make the block the whole: nothing is to be added
   * up. */
  for (int d = 0; d < g->whole.rank && g->on->mesh && !g->on->mesh->own && !said && !status; d++) {
    tsr__portions pieces;
    if (!tsr__portions_open(g->on, d, &pieces)) return no_memory(g);
    status = add_blocks(g, &pieces);
    tsr__portions_close(&pieces);
  }
  return status;
}

/* Along a dim each process gives its block or all of it. Which of the two it is is looked at dim by
 * dim: a matrix may come with all rows of a process's columns. A block as long as the dim is a
 * block. */
static tsr_status check_dim(giving *g, const tsr__portions *pieces)
{
  int64_t size = g->whole.dims[pieces->dim];
  for (int p = 0; p < pieces->processes; p++) {
    int64_t gives = told_by(g, p)->dims[pieces->dim];
    int64_t block = tsr__portions_before(pieces, size, p, pieces->parts);
    if (tsr__portions_first(pieces, p) < 0) continue;
    if (p == own_process(g) && gives != block) g->as_whole |= 1u << pieces->dim;
    if (gives == block || gives == size) continue;
    char type[160];
    tsr_type_text(g->given->dtype, g->whole, g->on, type, sizeof type);
    return tsr__error_set(&g->meet.error, TSR_ESHAPE,
                          "along dim %d process %d gives %lld elements; of %s the devices of the "
                          "process hold %lld of %lld elements: give these, or all",
                          pieces->dim, p, (long long)gives, type, (long long)block,
                          (long long)size);
  }
  return TSR_OK;
}

static tsr_status check_blocks(giving *g)
{
  tsr_status status = TSR_OK;
  for (int d = 0; d < g->whole.rank && g->on->mesh && !g->on->mesh->own && !status; d++) {
    tsr__portions pieces;
    if (!tsr__portions_open(g->on, d, &pieces)) return no_memory(g);
    status = check_dim(g, &pieces);
    tsr__portions_close(&pieces);
  }
  /* Where nobody else has a part, what is given is the array. */
  if (!tsr__lies_shared(g->on) && !tsr__shape_same(&g->whole, &g->given->shape))
    return tsr__error_set(&g->meet.error, TSR_ESHAPE,
                          "the data does not have the shape .whole; leave .whole out");
  return status;
}

/* ---- the array ------------------------------------------------------------------------------- */

/* A process without devices on the mesh gives nothing, and its data may be NULL; it still makes the
 * value, which has no parts here. */
static tsr__value *make_value(giving *g, tsr_scope *scope)
{
  const given_data *given = g->given;
  tsr__error *error = &g->meet.error;
  if (tsr__check_place(scope, &given->on, given->dtype, &g->whole, error)) return NULL;
  tsr__layout layout = { given->dtype, &g->whole, g->on, NULL };
  tsr__value *value = tsr__value_new(scope->rt, &layout, error);
  if (!value) return NULL;
  bool some = false;
  for (int p = 0; p < value->part_count; p++) some |= value->parts[p] != NULL;
  int64_t count = some ? tsr__shape_count(&given->shape) : 0;
  if (count && !given->data)
    tsr__error_set(error, TSR_EARG, "the data is NULL, expected %lld elements", (long long)count);
  tsr__host_block block = { value, (void *)(uintptr_t)given->data, &given->shape, g->as_whole };
  if (count && !error->status) tsr__block_to_value(&block, error);
  if (!error->status) return value;
  tsr__value_release(value);
  return NULL;
}

/* Each step looks at the same bytes in each process and so ends in the same way; only making the
 * value may fail in one alone, and the end of the meeting tells the others. */
static tsr__value *give(giving *g, tsr_scope *scope)
{
  tsr__heap *heap = &scope->rt->heap;
  size_t bytes = (size_t)g->meet.count * sizeof *g->all;
  tsr__value *value = NULL;
  g->all = tsr__new(heap, bytes);
  tsr_status status = g->all ? tell(g) : no_memory(g);
  if (!status) status = compare(g);
  if (!status) status = find_whole(g);
  if (!status) status = check_blocks(g);
  if (!status) value = make_value(g, scope);
  if (g->all) tsr__del(heap, g->all, bytes);
  return value;
}

/* Arguments that are wrong in this process alone end in the meeting, too, so that nobody waits. */
static tsr_array *from_given(tsr_scope *scope, const given_data *given, const char *site)
{
  giving g = { .given = given };
  tsr_sharding canon = { 0 };
  tsr_status status = tsr__scope_usable(scope, given->what, site);
  if (status) return tsr__make_inert(scope, site);
  status = tsr__together_begin(&g.meet, scope->rt, given->what, site);
  tsr_sharding loose = given->on;
  loose.strict = false; /* of the whole, not of a block */
  if (!status && given->error.status) g.meet.error = given->error;
  else if (!status && !tsr__dtype_check(given->dtype, &g.meet.error) &&
           !tsr__shape_check(&given->shape, &g.meet.error) &&
           !tsr__check_place(scope, &loose, given->dtype, &given->shape, &g.meet.error)) {
    canon = tsr__sharding_canon(&given->on);
    g.on = &canon;
  }
  tsr__value *value = g.on ? give(&g, scope) : NULL;
  status = tsr__together_end(&g.meet, g.meet.error.status);
  if (status && value) tsr__value_release(value);
  return tsr__leaf_of(scope, status ? NULL : value, &g.meet.error, given->what, site);
}

tsr_array *tsr_from_process_data_at(tsr_scope *scope, const tsr_process_data_args *args,
                                    const char *site)
{
  tsr_process_data_args own = { .size = sizeof own };
  given_data given = { .what = "tsr_from_process_data" };
  if (!args) tsr__error_set(&given.error, TSR_EARG, "its arguments are NULL; give them");
  else if (tsr__take_opts(given.what, args, &own, sizeof own, &given.error))
    tsr__unname(&given.error, given.what);
  given.data = own.data;
  given.dtype = own.dtype;
  given.shape = own.shape;
  given.whole = own.whole;
  given.on = own.on;
  return from_given(scope, &given, site);
}

/* ---- to each process ------------------------------------------------------------------------- */

/* Elements of this process's block along a dim, by the sizes of the value's own boxes, and in how
 * many pieces they lie. */
static int64_t own_size(const tsr__value *value, const tsr__portions *portions, int64_t *pieces)
{
  int64_t size = 0;
  for (int64_t i = *pieces = 0; i < portions->parts; i++) {
    tsr_box box;
    if (!tsr__portions_has(portions, tsr__topology_of(value->rt)->process_index, i)) continue;
    tsr__value_box(value, portions->holder[i], &box);
    size += box.size[portions->dim];
    ++*pieces;
  }
  return size;
}

/* A process may have less than its block:
 *
 *    cut 2 x 2      X .      two pieces along each dim, but two parts and not four:
 *                   . X      no block to be copied as one */
static tsr_status own_block(const tsr__value *value, tsr_shape *out, tsr__error *error)
{
  const tsr_sharding *on = &value->sharding;
  int64_t all = 1, pieces;
  *out = value->shape;
  if (!tsr__lies_shared(on)) return TSR_OK;
  for (int d = 0; d < value->shape.rank; d++) {
    tsr__portions portions;
    if (!tsr__portions_open(on, d, &portions))
      return tsr__error_set(error, TSR_ENOMEM, "no memory to find the portion of this process");
    out->dims[d] = own_size(value, &portions, &pieces);
    all *= pieces;
    tsr__portions_close(&portions);
  }
  int own = tsr__topology_of(value->rt)->process_index;
  if (!tsr_local_shard_count(on) || tsr__has_all(on, own, all)) return TSR_OK;
  return tsr__error_set(error, TSR_EUNSUPPORTED,
                        "the shards of process %d do not fill one block of the array; read the "
                        "array with tsr_read, or each shard with tsr_shard_view",
                        own);
}

/* Once the array is evaluated, all that is read lies here: nobody is met, and an error is this
 * process's alone. */
tsr_status tsr_read_process_at(tsr_array *a, void *out, size_t bytes, const char *site)
{
  const char *what = "tsr_read_process";
  tsr__error error = { .status = TSR_OK };
  tsr_shape shape;
  tsr_status status = tsr__array_ready(a, what, site);
  if (status) return status;
  if (!site) site = a->node.site;
  status = own_block(a->value, &shape, &error);
  /* Of no devices there is nothing, though a scalar's block would have an element. */
  bool some = !tsr__lies_shared(&a->value->sharding) || tsr_local_shard_count(&a->value->sharding);
  size_t size = tsr_dtype_size((tsr_dtype)a->dtype);
  size_t need = status || !some ? 0 : (size_t)tsr__shape_count(&shape) * size;
  if (!status && (bytes != need || (!out && need))) {
    char type[160];
    tsr_type_text((tsr_dtype)a->dtype, shape, NULL, type, sizeof type);
    status =
        tsr__error_set(&error, TSR_EARG,
                       "%s%zu bytes for %s, of which this process holds %s, expected exactly %zu",
                       out ? "" : "NULL of ", bytes, tsr_type_of(a), type, need);
  }
  tsr__host_block block = { a->value, out, &shape, 0 };
  if (!status && need) status = tsr__block_from_value(&block, &error);
  return status ? tsr__fail(tsr__home(a), site, status, "%s: %s", what, error.text) : TSR_OK;
}

/* ---- between a process's own mesh and all ---------------------------------------------------- */

/* An error of this process does not end the call: it is brought to the meeting (given.error), where
 * the others wait. */
tsr_array *tsr_to_global_at(tsr_array *a, tsr_sharding on, const char *site)
{
  given_data given = { .what = "tsr_to_global", .on = on };
  tsr_scope *scope = tsr__home(a);
  if (!a) return tsr__make_of_null(given.what, "array", site);
  tsr_status status = tsr__array_ready(a, given.what, site);
  if (!status && tsr__lies_shared(&a->value->sharding)) return a;
  /* What was to lie on all was told of as it was refused. */
  if (status && tsr__is_shared(a)) return tsr__make_inert(scope, site);
  given.dtype = (tsr_dtype)a->dtype;
  given.shape = a->shape;
  size_t bytes = status ? 0 : (size_t)tsr__shape_count(&a->shape) * tsr_dtype_size(given.dtype);
  void *data = status ? NULL : tsr__new_raw(&scope->rt->heap, bytes + 1);
  if (status) tsr__error_set(&given.error, status, "%s", tsr_message(scope));
  else if (!data) tsr__error_set(&given.error, TSR_ENOMEM, "no memory for %zu bytes", bytes);
  else tsr__value_fetch(a->value, data, given.what, &given.error);
  given.data = data;
  tsr_array *out = from_given(scope, &given, site);
  if (data) tsr__del(&scope->rt->heap, data, bytes + 1);
  return out;
}

/* The shape that this process's part has on a mesh of its own; the borders there must be those that
 * lie here. A local mesh cuts what is here by the usual rule, the longer parts first; the pieces
 * that lie here may stand in another order. */
static tsr_status own_shape(const tsr__value *value, const tsr_sharding *own, tsr_shape *shape,
                            tsr__error *error)
{
  if (own_block(value, shape, error)) return error->status;
  for (int p = 0, i = 0; p < value->part_count; p++) {
    tsr_box here, there;
    if (!value->parts[p]) continue;
    tsr__value_box(value, p, &here);
    tsr__box(own, shape, i++, &there);
    if (memcmp(here.size, there.size, (size_t)shape->rank * sizeof *here.size))
      return tsr__error_set(error, TSR_EUNSUPPORTED,
                            "the shard of device %d would have another size on %s; reshard the "
                            "array so that its sharded dims divide evenly, or use tsr_read_process",
                            tsr__position_device(&value->sharding, p), own->mesh->text);
  }
  return TSR_OK;
}

/* Buffers are held and not copied: both arrays show the same memory, which never changes. */
static tsr__value *own_value(const tsr__value *value, tsr__error *error)
{
  tsr_sharding own = value->sharding;
  tsr_shape shape;
  own.mesh = tsr_mesh_local(value->sharding.mesh);
  if (own.mesh->error) {
    *error = *own.mesh->error;
    return NULL;
  }
  own = tsr__sharding_canon(&own);
  if (value->rows || own.unreduced) {
    tsr__error_set(error, TSR_EUNSUPPORTED, "the array %s; %s first",
                   value->rows ? "has uneven rows after a filter"
                               : "is unreduced: partial sums before their all-reduce",
                   value->rows ? "rebalance its rows by tsr_reshard" : "reshard the array");
    return NULL;
  }
  if (own_shape(value, &own, &shape, error)) return NULL;
  tsr__layout layout = { (tsr_dtype)value->dtype, &shape, &own, NULL };
  tsr__value *out = tsr__value_frame(value->rt, &layout, error);
  for (int p = 0, i = 0; out && p < value->part_count; p++) {
    if (!value->parts[p]) continue;
    tsr__buffer_hold(value->parts[p]);
    out->parts[i++] = value->parts[p];
  }
  return out;
}

/* Each process makes its own array of the parts that it has, so there is no meeting here either. */
tsr_array *tsr_to_local_at(tsr_array *a, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  tsr_scope *scope = tsr__home(a);
  if (!a) return tsr__make_of_null("tsr_to_local", "array", site);
  tsr_status status = tsr__array_ready(a, "tsr_to_local", site);
  if (status) return a->inert ? a : tsr__make_inert(scope, site);
  if (!tsr__lies_shared(&a->value->sharding)) return a;
  return tsr__leaf_of(scope, own_value(a->value, &error), &error, "tsr_to_local", site);
}
