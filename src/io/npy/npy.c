/* Arrays from and to .npy files: each device reads its part.
 *
 *   file     header | data, in C order         part of a device: stretches of the data, read by
 *                                              many threads at once (pread)
 *
 * A write goes through the host: all elements in one block of memory, then the file. */
#include "array/array_room.h"
#include "io/npy/npyfile.h"
#include "tessera/io.h"

/* What reads a file into the parts of an array: the first error of any thread is kept. */
struct source {
  tsr__npy_file file;
  int64_t bytes; /* of an element */
  _Atomic bool failed;
  tsr__error error;
};

static bool read_elements(void *user, int64_t at, int64_t count, void *out)
{
  struct source *source = user;
  tsr__error error = { 0 };
  /* What a thread is not told by a status it is told by the source. */
  if (!tsr__npy_read(&source->file, out, at * source->bytes, count * source->bytes, &error))
    return true;
  /* Many threads read at once: the first that fails tells why. */
  if (!atomic_exchange(&source->failed, true)) source->error = error;
  return false;
}

/* The elements on the devices of a sharding, as a leaf; NULL with the error recorded. */
static tsr_array *read_array(tsr_scope *scope, struct source *source, const tsr__npy *npy,
                             const tsr_sharding *sharding, const char *site)
{
  if (tsr__check_placement(scope, "tsr_load_npy", npy->dtype, &npy->shape, sharding, site))
    return NULL;
  tsr__error error = { 0 };
  tsr_sharding canon = tsr__sharding_canon(sharding);
  tsr__layout layout = { npy->dtype, &npy->shape, &canon, NULL };
  /* The size of an element turns places into bytes. */
  source->bytes = (int64_t)tsr_dtype_size(npy->dtype);
  tsr__value *value = tsr__value_new(scope->rt, &layout, &error);
  tsr_status status = value ? tsr__value_from_reading(value, read_elements, source) : error.status;
  if (!status) return tsr__make_leaf(scope, npy->dtype, &npy->shape, &canon, value, site);
  /* Cancelled by the caller, failed by the file, or out of memory: one of the three. */
  if (status == TSR_ECANCELLED) tsr__cancelled(&error, source->file.path);
  else if (source->failed) error = source->error;
  else if (value)
    tsr__error_set(&error, status, "%s: no memory to read the file", source->file.path);
  if (value) tsr__value_release(value);
  tsr__fail(scope, site, error.status, "tsr_load_npy: %s", error.text);
  return NULL;
}

tsr_array *tsr_load_npy_at(tsr_scope *scope, const char *path, tsr_sharding sharding,
                           const char *site)
{
  struct source source = { 0 };
  tsr__npy npy;
  tsr__error error = { 0 };
  if (tsr__scope_usable(scope, "tsr_load_npy", site)) return tsr__make_inert(scope, site);
  if (!path) {
    tsr__fail(scope, site, TSR_EARG, "tsr_load_npy: the path is NULL; give the path of a file");
    return tsr__make_inert_on(scope, &sharding, site);
  }
  if (tsr__npy_open(path, &source.file, &npy, &error)) {
    tsr__fail(scope, site, error.status, "tsr_load_npy: %s", error.text);
    return tsr__make_inert_on(scope, &sharding, site);
  }
  tsr_array *array = read_array(scope, &source, &npy, &sharding, site);
  tsr__npy_close(&source.file);
  return array ? array : tsr__make_inert_on(scope, &sharding, site);
}

/* ---- saving ---------------------------------------------------------------------------------- */

static bool is_all(const tsr_array *array)
{
  const tsr_mesh *mesh = array->value->sharding.mesh;
  return mesh && !mesh->own;
}

void tsr__npy_begin(tsr__npy_saving *saving, tsr_array *const *arrays, int count,
                    const tsr__peers_work *work)
{
  tsr__error error = { .status = TSR_OK };
  *saving = (tsr__npy_saving){ .writes = true };
  for (int i = 0; i < count && !saving->peers; i++)
    if (is_all(arrays[i])) saving->peers = tsr__peers_of(arrays[i]->value->rt);
  if (!saving->peers) return;
  saving->writes = tsr__peers_index(saving->peers) == 0;
  if (tsr__peers_enter(saving->peers, work, &error)) saving->peers = NULL;
}

tsr_status tsr__npy_end(const tsr__npy_saving *saving, tsr_status status, tsr__error *error)
{
  return saving->peers ? tsr__peers_leave(saving->peers, status, error) : status;
}

/* What each process has of its own is saved as process 0 has it. */
static tsr_status fetch(const tsr__npy_saving *saving, const tsr_array *array, void *out,
                        const char *what, tsr__error *error)
{
  if (saving->peers && is_all(array)) return tsr__fetch_at(array->value, out, error);
  return out ? tsr__value_fetch(array->value, out, what, error) : TSR_OK;
}

tsr_status tsr__npy_fetch(const tsr__npy_saving *saving, const tsr_array *array, void *out,
                          const char *what, tsr__error *error)
{
  /* bf16 has no name in NumPy: it is saved as the f32 that holds it. */
  tsr_dtype own = (tsr_dtype)array->dtype, dtype = tsr__npy_dtype(own);
  if (own == dtype || !out) return fetch(saving, array, out, what, error);
  /* At the end of the memory, from where each is read before its place is written. */
  int64_t count = tsr__shape_count(&array->shape);
  size_t extra = tsr_dtype_size(dtype) - tsr_dtype_size(own);
  void *narrow = (char *)out + (size_t)count * extra;
  if (fetch(saving, array, narrow, what, error)) return error->status;
  for (int64_t i = 0; i < count; i++)
    tsr__dtype_put_real(dtype, out, i, tsr__dtype_get_real(own, narrow, i));
  return TSR_OK;
}

/* Writes what the processes have to a file, if this one does. */
static tsr_status save(const tsr__npy_saving *saving, tsr_array *array, const char *path,
                       tsr__error *error)
{
  tsr_runtime *rt = array->value->rt;
  tsr__npy file = { .dtype = tsr__npy_dtype((tsr_dtype)array->dtype), .shape = array->shape };
  tsr__progress progress = { .rt = rt, .what = "npy" };
  size_t bytes = (size_t)tsr__shape_count(&array->shape) * tsr_dtype_size(file.dtype);
  if (!path || !*path)
    return tsr__error_set(error, TSR_EARG, "the path is %s; give the path of a file",
                          path ? "empty" : "NULL");
  if (!saving->writes) return tsr__npy_fetch(saving, array, NULL, path, error);
  /* One byte more, so that nothing to save is no failed allocation. */
  void *data = tsr__new_raw(&rt->heap, bytes + 1);
  if (!data) return tsr__error_set(error, TSR_ENOMEM, "no memory for %zu bytes", bytes);
  file.data = data;
  tsr_status status = tsr__npy_fetch(saving, array, data, path, error);
  if (!status) status = tsr__npy_write(&rt->heap, path, &file, &progress, error);
  tsr__del(&rt->heap, data, bytes + 1);
  return status;
}

tsr_status tsr_save_npy_at(tsr_array *array, const char *path, const char *site)
{
  tsr__npy_saving saving;
  tsr__error error = { 0 };
  tsr_status status = tsr__array_ready(array, "tsr_save_npy", site);
  if (status) return status;
  if (!site) site = array->node.site;
  const tsr__peers_work work = { .fingerprint = tsr__hash("tsr_save_npy", 12, 0),
                                 .what = "tsr_save_npy",
                                 .site = site };
  tsr__npy_begin(&saving, &array, 1, &work);
  status = tsr__npy_end(&saving, save(&saving, array, path, &error), &error);
  return status ? tsr__fail(tsr__home(array), site, status, "tsr_save_npy: %s", error.text)
                : TSR_OK;
}
