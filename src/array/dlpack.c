/* Tensors of DLPack, taken and given.
 *
 * Taken:  struct --check--> dense, aligned, one device?  --yes--> adopted, released by its deleter
 *                                                        --no---> copied, released at once
 * Given:  a block with the struct, its shape and strides, which holds the array's value until its
 *         deleter is called.
 *
 * Whoever gives a tensor may be wrong about it: nothing of it is used before it was looked at, and
 * the deleter is called once whatever happens. */
#include "tessera/dlpack.h"

#include "array/array_room.h"

_Static_assert(sizeof(tsr_dl_tensor) == 48 && offsetof(tsr_dl_tensor, shape) == 24, "DLTensor");
_Static_assert(sizeof(tsr_dl_managed) == 64, "DLManagedTensor");
_Static_assert(offsetof(tsr_dl_versioned, tensor) == 32, "DLManagedTensorVersioned");

/* Kinds of devices are numbers of DLPack: kDLCPU, kDLCUDAHost. Alignment is what it asks of
 * data. */
enum { HOST = 1, PINNED_HOST = 3, ALIGNED = 64 };

/* A tensor on its way in, and how it is given back. */
typedef struct taking {
  const char *what;
  const tsr_dl_tensor *tensor;
  tsr_release_fn release;
  void *owner;
  tsr_dtype dtype;
  tsr_shape shape;
  int64_t strides[TSR_MAX_RANK]; /* in bytes */
  const char *data;
  bool dense;
} taking;

/* ---- checking ---------------------------------------------------------------------------- */

static tsr_status check_dtype(taking *t, tsr__error *error)
{
  const tsr_dl_tensor *from = t->tensor;
  TSR__FOR_DTYPES(dtype)
  {
    const tsr__dtype_info *info = tsr__dtype_info_of((tsr_dtype)dtype);
    if (info->dlpack == from->code && info->bits == from->bits) t->dtype = (tsr_dtype)dtype;
  }
  /* Lanes are vectors as elements, which nobody here has. */
  if (t->dtype && from->lanes == 1) return TSR_OK;
  return tsr__error_set(error, TSR_EDTYPE,
                        "a type of code %d, %d bits and %d lanes, expected bool, or integers or "
                        "floats of 8 to 64 bits, of 1 lane",
                        from->code, from->bits, from->lanes);
}

static tsr_status check_shape(taking *t, tsr__error *error)
{
  const tsr_dl_tensor *from = t->tensor;
  if (from->ndim < 0 || from->ndim > TSR_MAX_RANK)
    return tsr__error_set(error, TSR_ESHAPE, "%d dims, expected 0 to %d", from->ndim, TSR_MAX_RANK);
  if (from->ndim && !from->shape)
    return tsr__error_set(error, TSR_EARG, "the shape of the tensor's %d dims is NULL", from->ndim);
  t->shape.rank = from->ndim;
  /* Sizes are looked at before anything is multiplied with them. */
  for (int d = 0; d < from->ndim; d++) t->shape.dims[d] = from->shape[d];
  return tsr__shape_check(&t->shape, error);
}

/* Strides in bytes, 0 of dims that have no second element: those may say anything. Negative strides
 * are read like any: `data` is at the first element, wherever in memory that is.
 *
 *   f32[2,3], C order        12, 4      usual
 *   the same transposed       4, 12     gathered
 *   rows turned round       -12, 4      gathered */
static tsr_status check_strides(taking *t, tsr__error *error)
{
  int64_t size = (int64_t)tsr_dtype_size(t->dtype), usual = size, most = 0;
  bool overflow = false;
  t->dense = true;
  for (int d = t->shape.rank - 1; d >= 0; d--) {
    int64_t dim = t->shape.dims[d], reach = 0;
    /* No strides at all mean dense ones, in C order. */
    t->strides[d] = dim > 1 ? usual : 0;
    if (dim > 1 && t->tensor->strides)
      overflow |= __builtin_mul_overflow(t->tensor->strides[d], size, &t->strides[d]);
    /* How far the last element is from the first; summed over dims this must be a distance in
     * memory. */
    overflow |= __builtin_mul_overflow(t->strides[d], dim - 1, &reach) || reach == INT64_MIN ||
                __builtin_add_overflow(most, reach < 0 ? -reach : reach, &most);
    t->dense &= dim <= 1 || t->strides[d] == usual;
    /* Only compared with strides: where it is beyond 64 bits no stride can equal it. */
    if (dim > 0 && __builtin_mul_overflow(usual, dim, &usual)) usual = INT64_MAX;
  }
  if (!overflow || tsr__shape_count(&t->shape) == 0) return TSR_OK;
  return tsr__error_set(error, TSR_EARG,
                        "the tensor's strides reach further than 63 bits can count");
}

static tsr_status check_data(taking *t, tsr__error *error)
{
  const tsr_dl_tensor *from = t->tensor;
  uintptr_t at = (uintptr_t)from->data;
  if (from->device_type != HOST && from->device_type != PINNED_HOST)
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "the tensor lies on a device of kind %d, expected the host (1, or 3 "
                          "where its memory is pinned); copy the tensor to the host first",
                          from->device_type);
  /* An empty tensor may have any data, NULL too. */
  if (tsr__shape_count(&t->shape) == 0) return TSR_OK;
  if (!at) return tsr__error_set(error, TSR_EARG, "the tensor's data is NULL");
  /* A C pointer that wraps is no pointer; the sum is looked at before it is made. */
  if (from->byte_offset > UINTPTR_MAX - at)
    return tsr__error_set(error, TSR_EARG, "the tensor's offset of %llu bytes is beyond all memory",
                          (unsigned long long)from->byte_offset);
  t->data = (const char *)from->data + from->byte_offset;
  return TSR_OK;
}

static tsr_status check(taking *t, tsr__error *error)
{
  if (!check_dtype(t, error) && !check_shape(t, error) && !check_strides(t, error))
    check_data(t, error);
  return error->status;
}

/* ---- taking ------------------------------------------------------------------------------ */

/* Copies the elements of a strided tensor to dense memory, in C order. An odometer: the last index
 * turns fastest, and takes back what it went when it starts anew. */
static void gather(const taking *t, char *out)
{
  int64_t count = tsr__shape_count(&t->shape), index[TSR_MAX_RANK] = { 0 };
  size_t size = tsr_dtype_size(t->dtype);
  const char *at = t->data;
  for (int64_t i = 0; i < count; i++, out += size) {
    memcpy(out, at, size);
    for (int d = t->shape.rank - 1; d >= 0; d--) {
      at += t->strides[d];
      if (++index[d] < t->shape.dims[d]) break;
      at -= t->strides[d] * t->shape.dims[d];
      index[d] = 0;
    }
  }
}

/* A copy of what is not dense, through dense memory. */
static tsr_array *put_strided(tsr_scope *scope, const taking *t, const tsr_sharding *on,
                              const char *site)
{
  tsr__heap *heap = &scope->rt->heap;
  size_t bytes = (size_t)tsr__shape_count(&t->shape) * tsr_dtype_size(t->dtype);
  /* A byte more, so that no elements are no failed allocation. */
  char *dense = tsr__new_raw(heap, bytes + 1);
  if (!dense) {
    tsr__fail(scope, site, TSR_ENOMEM, "%s: no memory for %zu bytes", t->what, bytes);
    return tsr__make_inert(scope, site);
  }
  gather(t, dense);
  tsr_array *out = tsr_put_at(scope, dense, t->dtype, t->shape, *on, site);
  tsr__del(heap, dense, bytes + 1);
  return out;
}

/* The deleter is called here, so that whoever gave the tensor need not know what came of it. */
static tsr_array *refuse(tsr_scope *scope, const taking *t, const tsr__error *error,
                         const char *site)
{
  if (error->status) tsr__fail(scope, site, error->status, "%s: %s", t->what, error->text);
  if (t->release) t->release(NULL, t->owner);
  return tsr__make_inert(scope, site);
}

/* From here on the deleter is somebody's: refuse calls it, adopting takes it over whatever comes of
 * that, and copying calls it at the end. */
static tsr_array *take(tsr_scope *scope, taking *t, const tsr_dlpack_opts *given, const char *site)
{
  tsr_dlpack_opts opts = { .size = sizeof opts };
  tsr__error error = { .status = TSR_OK };
  if (given) tsr__take_opts(t->what, given, &opts, sizeof opts, &error);
  if (!error.status) check(t, &error);
  if (error.status || tsr__check_placement(scope, t->what, t->dtype, &t->shape, &opts.on, site))
    return refuse(scope, t, &error, site);
  /* Adopting looks at alignment and placement, and copies where these do not fit. */
  if (t->dense)
    return tsr_adopt_at(scope,
                        &(tsr_adopt_args){ .size = sizeof(tsr_adopt_args),
                                           .data = (void *)t->data,
                                           .dtype = t->dtype,
                                           .shape = t->shape,
                                           .on = opts.on,
                                           .release = t->release,
                                           .user = t->owner },
                        site);
  tsr_array *out = put_strided(scope, t, &opts.on, site);
  if (t->release) t->release(NULL, t->owner);
  return out;
}

static void release_managed(void *data, void *user)
{
  tsr_dl_managed *tensor = user;
  (void)data;
  if (tensor->deleter) tensor->deleter(tensor);
}

static void release_versioned(void *data, void *user)
{
  tsr_dl_versioned *tensor = user;
  (void)data;
  if (tensor->deleter) tensor->deleter(tensor);
}

tsr_array *tsr_from_dlpack_with(tsr_scope *scope, tsr_dl_managed *tensor,
                                const tsr_dlpack_opts *opts, const char *site)
{
  taking t = { .what = "tsr_from_dlpack", .release = release_managed, .owner = tensor };
  tsr__error error = { .status = TSR_OK };
  /* Without a tensor there is nobody whose deleter could be called. */
  if (tensor) {
    t.tensor = &tensor->tensor;
    return take(scope, &t, opts, site);
  }
  t.release = NULL;
  tsr__error_set(&error, TSR_EARG, "the tensor is NULL; give one");
  return refuse(scope, &t, &error, site);
}

tsr_array *tsr_from_dlpack_versioned_with(tsr_scope *scope, tsr_dl_versioned *tensor,
                                          const tsr_dlpack_opts *opts, const char *site)
{
  taking t = { .what = "tsr_from_dlpack_versioned", .owner = tensor };
  tsr__error error = { .status = TSR_OK };
  if (!tensor) {
    tsr__error_set(&error, TSR_EARG, "the tensor is NULL; give one");
    return refuse(scope, &t, &error, site);
  }
  t.release = release_versioned;
  t.tensor = &tensor->tensor;
  /* Of another major version nothing but the deleter may be used: what else the struct has may have
   * moved. That one stands in the same place in all. */
  if (tensor->major == TSR_DL_MAJOR) return take(scope, &t, opts, site);
  tsr__error_set(
      &error, TSR_EUNSUPPORTED,
      "the tensor has version %u.%u of DLPack, expected %d; ask its producer for that version",
      tensor->major, tensor->minor, TSR_DL_MAJOR);
  return refuse(scope, &t, &error, site);
}

/* ---- giving ------------------------------------------------------------------------------ */

/* What a tensor that was given away holds. Both forms have a place and one of them is used. */
typedef struct gift {
  tsr_dl_managed managed;
  tsr_dl_versioned versioned;
  tsr__value *value;
  int position;
  void *copy; /* bools, as bytes; NULL: the device's memory */
  size_t bytes;
  int64_t shape[TSR_MAX_RANK], strides[TSR_MAX_RANK];
} gift;

/* Memory of a device stays mapped as long as the tensor lives, hence the unmapping here. */
static void gift_free(gift *g)
{
  tsr_runtime *rt = g->value->rt;
  tsr__value *value = g->value;
  if (g->copy) tsr__del(&rt->heap, g->copy, g->bytes);
  else tsr__value_unmap(value, g->position);
  tsr__del(&rt->heap, g, sizeof *g);
  tsr__value_release(value);
  /* The last thing: it may have been closed long ago, and ends here. */
  tsr__runtime_let_go(rt);
}

static void delete_managed(tsr_dl_managed *self)
{
  if (self) gift_free(self->manager_ctx);
}

static void delete_versioned(tsr_dl_versioned *self)
{
  if (self) gift_free(self->manager_ctx);
}

/* Bools as bytes; false out of memory. */
static bool copy_bools(gift *g, int64_t count)
{
  const uint8_t *bits = tsr__value_map(g->value, g->position);
  /* Bits on devices, bytes to everybody else; one more, so that no elements are no failed
   * allocation. */
  g->bytes = (size_t)count + 1;
  uint8_t *out = g->copy = tsr__new_raw(&g->value->rt->heap, g->bytes);
  for (int64_t i = 0; out && i < count; i++) out[i] = bits[i >> 3] >> (i & 7) & 1;
  tsr__value_unmap(g->value, g->position);
  return out != NULL;
}

static tsr_dl_tensor tensor_of(gift *g)
{
  const tsr__dtype_info *info = tsr__dtype_info_of((tsr_dtype)g->value->dtype);
  const void *data = g->copy ? g->copy : tsr__value_map(g->value, g->position);
  /* DLPack has no pointer to const; its flag and our header say that nobody writes there. */
  return (tsr_dl_tensor){ .data = (void *)(uintptr_t)data,
                          .device_type = HOST,
                          .ndim = g->value->shape.rank,
                          .code = info->dlpack,
                          .bits = (uint8_t)(8 * tsr_dtype_size((tsr_dtype)g->value->dtype)),
                          .lanes = 1,
                          .shape = g->shape,
                          .strides = g->strides };
}

/* The shape and the dense strides of a part; how many elements it has. Strides in elements, as
 * DLPack has them. */
static int64_t measure(gift *g)
{
  tsr_box box;
  int64_t count = 1;
  tsr__value_box(g->value, g->position, &box);
  for (int d = g->value->shape.rank - 1; d >= 0; d--) {
    g->shape[d] = box.size[d];
    g->strides[d] = count;
    count *= box.size[d];
  }
  return count;
}

static tsr_status give(tsr_array *a, int position, gift **out, const char *what, const char *site)
{
  tsr_status status = tsr__array_ready(a, what, site);
  if (status) return status;
  tsr_scope *home = tsr__home(a);
  if (!site) site = a->node.site;
  if (position < 0 || position >= a->value->part_count || !a->value->parts[position])
    return tsr__no_part(a, position, what, site);
  gift *g = tsr__new(&a->value->rt->heap, sizeof *g);
  if (g) {
    *g = (gift){ .value = a->value, .position = position };
    int64_t count = measure(g);
    /* The array may be deleted as soon as this returns; the tensor keeps the value. */
    if (a->dtype != TSR_BOOL || copy_bools(g, count)) {
      tsr__value_hold(g->value);
      tsr__runtime_hold(g->value->rt);
      *out = g;
      return TSR_OK;
    }
    tsr__del(&a->value->rt->heap, g, sizeof *g);
  }
  return tsr__fail(home, site, TSR_ENOMEM, "%s: no memory for a tensor", what);
}

/* The caller must have a place for the pointer. */
static tsr_status no_out(tsr_array *a, const char *what, const char *site)
{
  /* An array that is bad, too, is said first. */
  if (!a || a->inert) return tsr__array_ready(a, what, site);
  return tsr__fail(tsr__home(a), site ? site : a->node.site, TSR_EARG,
                   "%s: the pointer for the tensor is NULL; give the address of one", what);
}

tsr_status tsr_to_dlpack_at(tsr_array *a, int position, tsr_dl_managed **out, const char *site)
{
  gift *g;
  if (!out) return no_out(a, "tsr_to_dlpack", site);
  tsr_status status = give(a, position, &g, "tsr_to_dlpack", site);
  if (status) return status;
  g->managed = (tsr_dl_managed){ tensor_of(g), g, delete_managed };
  *out = &g->managed;
  return TSR_OK;
}

tsr_status tsr_to_dlpack_versioned_at(tsr_array *a, int position, tsr_dl_versioned **out,
                                      const char *site)
{
  gift *g;
  if (!out) return no_out(a, "tsr_to_dlpack_versioned", site);
  tsr_status status = give(a, position, &g, "tsr_to_dlpack_versioned", site);
  if (status) return status;
  g->versioned = (tsr_dl_versioned){ .major = TSR_DL_MAJOR,
                                     .minor = TSR_DL_MINOR,
                                     .manager_ctx = g,
                                     .deleter = delete_versioned,
                                     /* Memory that is shared with an array must not be written to:
                                      * arrays do not change. */
                                     .flags = g->copy ? TSR_DL_IS_COPIED : TSR_DL_READ_ONLY,
                                     .tensor = tensor_of(g) };
  *out = &g->versioned;
  return TSR_OK;
}
