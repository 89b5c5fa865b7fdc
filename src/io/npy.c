/* Arrays from and to .npy files: the file room's mapping, put on devices. */
#include "array/array_room.h"
#include "io/npyfile.h"
#include "tessera/io.h"

tsr_array *tsr_read_npy_at(tsr_scope *scope, const char *path, tsr_sharding sharding,
                           const char *site)
{
  tsr__npy file;
  tsr__error error = { 0 };
  if (!path) {
    tsr__fail(scope, site, TSR_EARG, "tsr_read_npy: the path is NULL");
    return tsr__make_inert(scope, site);
  }
  if (tsr__npy_map(path, &file, &error)) {
    tsr__fail(scope, site, error.status, "tsr_read_npy: %s", error.text);
    return tsr__make_inert(scope, site);
  }
  tsr_array *array = tsr_put_at(scope, file.data, file.dtype, file.shape, sharding, site);
  tsr__npy_unmap(&file);
  return array;
}

tsr_status tsr_save_npy(tsr_array *array, const char *path)
{
  tsr_status status = tsr__array_ready(array);
  if (status) return status;
  tsr_scope *scope = array->node.scope;
  if (!path) return tsr__fail(scope, array->node.site, TSR_EARG, "tsr_save_npy: the path is NULL");
  tsr__heap *heap = &scope->rt->heap;
  size_t bytes = (size_t)tsr__shape_count(&array->shape) * tsr_dtype_size((tsr_dtype)array->dtype);
  void *data = tsr__new_raw(heap, bytes + 1);
  if (!data)
    return tsr__fail(scope, array->node.site, TSR_ENOMEM, "tsr_save_npy: no memory for %zu bytes",
                     bytes);
  tsr__error error = { 0 };
  tsr__npy file = { .dtype = (tsr_dtype)array->dtype, .shape = array->shape, .data = data };
  tsr__progress progress = { .rt = scope->rt, .what = "npy" };
  if (!tsr__value_to_host(array->value, data)) status = tsr__cancelled(&error, path);
  else status = tsr__npy_write(heap, path, &file, &progress, &error);
  if (status) tsr__fail(scope, array->node.site, status, "tsr_save_npy: %s", error.text);
  tsr__del(heap, data, bytes + 1);
  return status;
}
