/* Arrays that come from somewhere: host memory, numbers, indices.
 *
 *   put          copied from one buffer        adopt        used as it lies, released later
 *   from_shards  a buffer for each device      callback     asked for part by part
 *
 * What lies on the host is in C order, bools as bytes; a value is made first and becomes a leaf,
 * which takes it over. */
#include "array/array_room.h"

typedef tsr_status check_fn(const tsr_scope *scope, const tsr_sharding *sharding, tsr_dtype dtype,
                            const tsr_shape *shape, tsr__error *error);

/* What is to lie somewhere, and by which call. */
typedef struct placed {
  const char *what;
  tsr_dtype dtype;
  const tsr_shape *shape;
  const tsr_sharding *sharding;
} placed;

static tsr_status check(tsr_scope *scope, const placed *p, check_fn *place, const char *site)
{
  tsr__error error;
  error.status = TSR_OK;
  tsr_status status = tsr__scope_usable(scope, p->what, site);
  if (status) return status;
  if (tsr__dtype_check(p->dtype, &error) || tsr__shape_check(p->shape, &error) ||
      place(scope, p->sharding, p->dtype, p->shape, &error))
    return tsr__fail(scope, site, error.status, "%s: %s", p->what, error.text);
  return TSR_OK;
}

tsr_status tsr__check_placement(tsr_scope *scope, const char *what, tsr_dtype dtype,
                                const tsr_shape *shape, const tsr_sharding *sharding,
                                const char *site)
{
  return check(scope, &(placed){ what, dtype, shape, sharding }, tsr__check_place, site);
}

tsr_status tsr__check_planned(tsr_scope *scope, const char *what, tsr_dtype dtype,
                              const tsr_shape *shape, const tsr_sharding *sharding,
                              const char *site)
{
  return check(scope, &(placed){ what, dtype, shape, sharding }, tsr__check_plan, site);
}

/* ---- from host memory ---- */

/* What is put, by which call. */
typedef struct put_args {
  const char *what;
  const void *data;
  tsr_dtype dtype;
  const tsr_shape *shape;
  const tsr_sharding *sharding;
} put_args;

tsr_array *tsr__leaf_of(tsr_scope *scope, tsr__value *value, const tsr__error *error,
                        const char *what, const char *site)
{
  if (!value) {
    tsr__fail(scope, site, error->status, "%s: %s", what, error->text);
    return tsr__make_inert(scope, site);
  }
  return tsr__make_leaf(scope, (tsr_dtype)value->dtype, &value->shape, &value->sharding, value,
                        site);
}

/* Inert where there is no value; other processes may have one of it. */
static tsr_array *settle(tsr_scope *scope, tsr__value *value, const tsr__error *error,
                         const put_args *put, const char *site)
{
  if (value) return tsr__leaf_of(scope, value, error, put->what, site);
  tsr__fail(scope, site, error->status, "%s: %s", put->what, error->text);
  return tsr__make_inert_on(scope, put->sharding, site);
}

static tsr_status check_source(tsr_scope *scope, const put_args *put, const char *site)
{
  tsr_status status =
      tsr__check_placement(scope, put->what, put->dtype, put->shape, put->sharding, site);
  if (status) return status;
  if (!put->data && tsr__shape_count(put->shape) > 0)
    return tsr__fail(scope, site, TSR_EARG, "%s: data is NULL, expected %lld elements", put->what,
                     (long long)tsr__shape_count(put->shape));
  return TSR_OK;
}

tsr_array *tsr_put_at(tsr_scope *scope, const void *data, tsr_dtype dtype, tsr_shape shape,
                      tsr_sharding sharding, const char *site)
{
  /* The layout is checked as if all of a sum were here; whether parts of one may be put so is asked
   * next. `unreduced` are the axes along which parts are still to be summed. */
  tsr_sharding whole = sharding;
  whole.unreduced = 0;
  put_args put = { "tsr_put", data, dtype, &shape, &whole };
  if (check_source(scope, &put, site)) return tsr__make_inert_on(scope, &sharding, site);
  tsr__error error = { 0 };
  if (tsr__check_sum(&sharding, dtype, &error)) return settle(scope, NULL, &error, &put, site);
  tsr_sharding canon = tsr__sharding_canon(&sharding);
  tsr__layout layout = { dtype, &shape, &canon, NULL };
  tsr__value *value = tsr__value_new(scope->rt, &layout, &error);
  /* False: cancelled by the progress callback while it copied. */
  if (value && !tsr__value_from_host(value, data)) {
    tsr__cancelled(&error, "tsr_put");
    tsr__value_release(value);
    value = NULL;
  }
  return settle(scope, value, &error, &put, site);
}

/* Calls that make nodes fail without a word, so the caller cannot know whether to free: what is
 * adopted is released exactly once, whatever happens. */
static tsr_array *give_back(tsr_array *array, const tsr_adopt_args *args)
{
  if (args->release) args->release(args->data, args->user);
  return array;
}

/* Options structs that are not there. */
static tsr_array *no_args(tsr_scope *scope, const char *what, const char *site)
{
  tsr__fail(scope, site, TSR_EARG, "%s: its arguments are NULL; give them", what);
  return tsr__make_inert(scope, site);
}

/* Copies arguments that begin with their size; records an error. */
static tsr_status take_args(tsr_scope *scope, const char *what, const void *given, void *own,
                            size_t known, const char *site)
{
  tsr__error error = { 0 };
  tsr__take_opts(what, given, own, known, &error);
  return tsr__fail_error(scope, site, &error);
}

tsr_array *tsr_adopt_at(tsr_scope *scope, const tsr_adopt_args *given, const char *site)
{
  tsr_adopt_args all = { .size = sizeof all }, *args = &all;
  if (!given) return no_args(scope, "tsr_adopt", site);
  if (take_args(scope, "tsr_adopt", given, &all, sizeof all, site))
    return give_back(tsr__make_inert(scope, site), given);
  put_args put = { "tsr_adopt", args->data, args->dtype, &args->shape, &args->on };
  if (check_source(scope, &put, site))
    return give_back(tsr__make_inert_on(scope, &args->on, site), args);
  tsr__error error = { 0 };
  tsr_sharding canon = tsr__sharding_canon(&args->on);
  /* Adopted where a device of this process wants just this memory: one device, no bools (bits
   * there), cache lines. */
  int device = tsr__home_device(scope->rt, &canon, 0);
  bool whole = tsr__positions(&canon) == 1 &&
               tsr__device_local(tsr__topology_of(scope->rt), device) && args->dtype != TSR_BOOL &&
               ((uintptr_t)args->data & 63) == 0;
  /* Copied otherwise, as far as it lies here, and given back at once: the caller's release is
   * called before this returns. */
  if (!whole)
    return give_back(tsr_put_at(scope, args->data, args->dtype, args->shape, args->on, site), args);
  tsr__value *value =
      tsr__value_frame(scope->rt, &(tsr__layout){ args->dtype, &args->shape, &canon, NULL },
                       &error);
  if (value) {
    size_t bytes = tsr_dtype_size(args->dtype) * (size_t)tsr__shape_count(&args->shape);
    /* The buffer releases the memory once it has it; until then give_back() must. */
    tsr__foreign memory = { args->data, bytes, args->release, args->user };
    value->parts[0] = tsr__devices_of(scope->rt)->ops->adopt(scope->rt, device, &memory);
    if (!value->parts[0]) {
      tsr__value_release(value);
      value = NULL;
      tsr__error_set(&error, TSR_ENOMEM, "no memory for the description of a buffer");
    }
  }
  if (!value) return give_back(settle(scope, NULL, &error, &put, site), args);
  return settle(scope, value, &error, &put, site);
}

/* Copies what lies in host memory to a position, or where `whole` to all from it on. */
static void spread_part(tsr__value *value, int first, bool whole, const void *data)
{
  /* A position, or all of them with the same box. */
  for (int p = first; p < (whole ? value->part_count : first + 1); p++) {
    if (!value->parts[p]) continue;
    tsr_box box;
    tsr__value_box(value, p, &box);
    tsr__box_copy copy = tsr__part_copy(value, &box);
    tsr__devices_of(value->rt)->ops->from_host(&copy, data, value->parts[p]);
  }
}

/* Copies one caller's buffer a position into a fresh value. */
static void fill_shards(tsr__value *value, const void *const *shards)
{
  /* Shards are counted over the positions that are here, in order. */
  int next = 0;
  for (int p = 0; p < value->part_count; p++)
    if (value->parts[p]) spread_part(value, p, false, shards[next++]);
}

tsr_array *tsr_from_shards_at(tsr_scope *scope, const tsr_shards_args *given, const char *site)
{
  tsr_shards_args all = { .size = sizeof all }, *args = &all;
  if (!given) return no_args(scope, "tsr_from_shards", site);
  if (take_args(scope, "tsr_from_shards", given, &all, sizeof all, site))
    return tsr__make_inert(scope, site);
  put_args put = { "tsr_from_shards", args->shards, args->dtype, &args->shape, &args->on };
  if (check_source(scope, &put, site)) return tsr__make_inert_on(scope, &args->on, site);
  tsr__error error = { 0 };
  tsr_sharding canon = tsr__sharding_canon(&args->on);
  tsr__layout layout = { args->dtype, &args->shape, &canon, NULL };
  tsr__value *value = tsr__value_new(scope->rt, &layout, &error);
  if (!value) return settle(scope, NULL, &error, &put, site);
  /* How many shards there are to be depends on which devices this process reaches. */
  int expected = 0, missing = -1;
  for (int p = 0; p < value->part_count; p++) expected += value->parts[p] != NULL;
  /* Each one must be there, too: none is read before all were looked at. */
  for (int i = 0; i < args->count && i < expected; i++)
    if (!args->shards[i]) missing = i;
  if (args->count != expected || missing >= 0) {
    tsr__value_release(value);
    if (args->count != expected)
      tsr__fail(scope, site, TSR_EARG,
                "tsr_from_shards: %d shards, expected %d: one for each "
                "addressable device of the sharding",
                args->count, expected);
    else
      tsr__fail(scope, site, TSR_EARG,
                "tsr_from_shards: shard %d is NULL; give one for each device", missing);
    return tsr__make_inert_on(scope, &canon, site);
  }
  fill_shards(value, args->shards);
  return settle(scope, value, &error, &put, site);
}

/* Asks for each part in turn, into memory for the largest of them. In order of positions and on
 * this thread: a callback need not be ready for several at once. */
static tsr_status fill_parts(tsr__value *value, const tsr_callback_args *args, tsr__error *error)
{
  tsr_box box;
  /* The first part is as large as any: uneven dims leave less to the last ones. */
  tsr__value_box(value, 0, &box);
  tsr_shape largest = { .rank = value->shape.rank };
  memcpy(largest.dims, box.size, sizeof largest.dims);
  /* A byte more, so that no elements are no failed allocation. */
  size_t bytes = (size_t)tsr__shape_count(&largest) * tsr_dtype_size(args->dtype) + 1;
  void *data = tsr__new_raw(&value->rt->heap, bytes);
  if (!data) return tsr__error_set(error, TSR_ENOMEM, "no memory for %zu bytes of a part", bytes);
  /* One part for all: asked once, put on each. */
  bool whole = tsr_sharding_replicated(&value->sharding), done = false;
  for (int p = 0; p < value->part_count && !error->status && !done; p++) {
    if (!value->parts[p]) continue;
    tsr__value_box(value, p, &box);
    tsr_status status = args->fill(&box, data, args->user);
    if (status)
      tsr__error_set(error, status, "the callback failed for the part of device %d (%s)",
                     tsr__position_device(&value->sharding, p), tsr_status_text(status));
    else spread_part(value, p, whole, data);
    /* Replicated: the one part was put on all. */
    done = whole;
  }
  tsr__del(&value->rt->heap, data, bytes);
  return error->status;
}

tsr_array *tsr_from_callback_at(tsr_scope *scope, const tsr_callback_args *given, const char *site)
{
  tsr_callback_args args = { .size = sizeof args };
  const char *what = "tsr_from_callback";
  if (!given) return no_args(scope, what, site);
  if (take_args(scope, what, given, &args, sizeof args, site)) return tsr__make_inert(scope, site);
  if (tsr__check_placement(scope, what, args.dtype, &args.shape, &args.on, site))
    return tsr__make_inert_on(scope, &args.on, site);
  tsr__error error = { 0 };
  tsr_sharding canon = tsr__sharding_canon(&args.on);
  tsr__layout layout = { args.dtype, &args.shape, &canon, NULL };
  /* Options first, then memory: nobody is asked for parts of what cannot be made. */
  if (!args.fill) tsr__error_set(&error, TSR_EARG, "the callback is NULL; give one");
  tsr__value *value = error.status ? NULL : tsr__value_new(scope->rt, &layout, &error);
  if (value && fill_parts(value, &args, &error)) {
    tsr__value_release(value);
    value = NULL;
  }
  const put_args put = { .what = what, .sharding = &canon };
  return settle(scope, value, &error, &put, site);
}

/* ---- from numbers ---- */

tsr_array *tsr_full_at(tsr_scope *scope, tsr_operand value, tsr_dtype dtype, tsr_shape shape,
                       tsr_sharding sharding, const char *site)
{
  /* A number takes the dtype asked for at once, and is refused if that does not hold it. */
  tsr_array *number = value.array;
  if (!number && value.number.kind != TSR_SCALAR_NONE)
    number = tsr__number_node(scope, value.number, dtype, "tsr_full", site);
  return tsr__make(scope, TSR__OP_FULL, TSR__IN(number),
                   &(tsr__ask){ .dtype = dtype, .shape = shape, .sharding = &sharding }, site);
}

tsr_array *tsr_full_like_at(tsr_array *like, tsr_operand value, const char *site)
{
  tsr_scope *scope = tsr__scope_here(tsr__home(like));
  TSR__CALL(scope, "full_like");
  bool tells = !tsr__usable(like) || !like->dtype; /* abs what is wrong with it: a tree, too */
  if (tells) return tsr_abs_at(like, site);
  return tsr_full_at(scope, value, (tsr_dtype)like->dtype, like->shape, like->sharding, site);
}

tsr_array *tsr_iota_at(tsr_scope *scope, tsr_dtype dtype, tsr_shape shape, int dim,
                       tsr_sharding sharding, const char *site)
{
  tsr__ask ask = {
    .dtype = dtype, .shape = shape, TSR__ATTR(tsr__dim_attr, .dim = dim), .sharding = &sharding
  };
  return tsr__make(scope, TSR__OP_IOTA, TSR__IN_NONE, &ask, site);
}
