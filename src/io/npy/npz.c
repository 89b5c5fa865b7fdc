/* Arrays from and to .npz archives: members of a zip file that are .npy files.
 *
 *   x.npz:  a.npy  b.npy        names are the members' without ".npy"; others are left out
 *
 * The directory is read when it is opened, members when they are asked for; the file stays open
 * until the scope of the archive closes. */
#include "array/array_room.h"
#include "io/npy/npyfile.h"
#include "io/npy/zip.h"
#include "tessera/io.h"

struct tsr_npz {
  tsr__node node;
  bool inert;
  tsr__zip zip;
  int count;
  int *member;       /* by array */
  const char **name; /* by array */
};

/* Never written to: calls look at `inert` before anything else. */
static const tsr_npz no_memory_npz = { .inert = true };

static void release_npz(tsr__node *node)
{
  tsr__zip_close(&((tsr_npz *)node)->zip);
}

static bool is_npy(const char *name, size_t *stem)
{
  size_t length = strlen(name);
  *stem = length - 4;
  /* A member called ".npy" has no name left. */
  return length > 4 && memcmp(name + *stem, ".npy", 4) == 0;
}

/* The members that are arrays. */
static tsr_status list_arrays(tsr_npz *npz, tsr__error *error)
{
  tsr__arena *arena = &npz->node.scope->arena;
  /* Each list has a place more, so that no members are no failed allocation. */
  size_t room = (size_t)npz->zip.count + 1, stem;
  npz->member = tsr__arena_new(arena, room * sizeof *npz->member);
  npz->name = tsr__arena_new(arena, room * sizeof *npz->name);
  for (int i = 0; npz->member && npz->name && i < npz->zip.count; i++) {
    const char *name = npz->zip.member[i].name;
    if (!is_npy(name, &stem)) continue;
    npz->member[npz->count] = i;
    npz->name[npz->count] = tsr__arena_text(arena, name, stem);
    /* Ends the loop and is told as a lack of memory below. */
    if (!npz->name[npz->count++]) npz->name = NULL;
  }
  if (npz->member && npz->name) return TSR_OK;
  return tsr__error_set(error, TSR_ENOMEM, "out of memory");
}

tsr_npz *tsr_load_npz_at(tsr_scope *scope, const char *path, const char *site)
{
  tsr__error error = { 0 };
  tsr__scope_usable(scope, "tsr_load_npz", site);
  if (!scope || scope->inert) return (tsr_npz *)&no_memory_npz;
  tsr_npz *npz = tsr__node_new(scope, sizeof *npz, site, release_npz);
  if (!npz) return (tsr_npz *)&no_memory_npz;
  if (!path) tsr__error_set(&error, TSR_EARG, "the path is NULL; give the path of a file");
  else if (!tsr__zip_open(&scope->rt->heap, path, &npz->zip, &error)) list_arrays(npz, &error);
  if (!error.status) return npz;
  tsr__fail(scope, site, error.status, "tsr_load_npz: %s", error.text);
  npz->inert = true;
  /* An archive that failed has no arrays and says so, as arrays do. */
  npz->count = 0;
  return npz;
}

int tsr_npz_count(const tsr_npz *npz)
{
  return npz ? npz->count : 0;
}

const char *tsr_npz_name(const tsr_npz *npz, int index)
{
  return npz && index >= 0 && index < npz->count ? npz->name[index] : NULL;
}

static tsr_array *no_array(tsr_scope *scope, tsr_npz *npz, const char *name, const char *site)
{
  /* A name that is nearly one of them is offered. */
  int near = tsr__text_nearest(name ? name : "", npz->name, npz->count);
  if (!name)
    tsr__fail(scope, site, TSR_EARG,
              "tsr_npz_array: the name is NULL; tsr_npz_name gives the names");
  else
    tsr__fail(scope, site, TSR_EARG, "tsr_npz_array: %s holds no array '%.80s'%s%.80s%s",
              npz->zip.path, name,
              near >= 0 ? "; did you mean '" : "; tsr_npz_name gives the names",
              near >= 0 ? npz->name[near] : "", near >= 0 ? "'?" : "");
  return tsr__make_inert(scope, site);
}

tsr_array *tsr_npz_array_at(tsr_npz *npz, const char *name, tsr_sharding sharding, const char *site)
{
  tsr_scope *scope = npz ? tsr__scope_here(npz->node.scope) : NULL;
  tsr__error error = { 0 };
  tsr__npy file;
  char *data;
  int at = 0;
  if (!npz) return tsr__make_of_null("tsr_npz_array", "archive", site);
  if (npz->inert) {
    tsr__fail_inert(scope, npz->node.scope, site, "tsr_npz_array", "archive");
    return tsr__make_inert(scope, site);
  }
  /* Few, and asked for one by one: no index. */
  while (name && at < npz->count && strcmp(npz->name[at], name) != 0) at++;
  if (!name || at == npz->count) return no_array(scope, npz, name, site);
  TSR__CALL(scope, "npz_array");
  int member = npz->member[at];
  /* Unpacked whole into memory, from where it is put on the devices. */
  int64_t size = npz->zip.member[member].size;
  tsr_array *array = NULL;
  /* A member may be large: reading it can be cancelled. */
  tsr__progress progress = { .rt = scope->rt, .what = "npz" };
  npz->zip.progress = &progress;
  tsr_status status = tsr__zip_read(&npz->zip, member, &data, &error);
  npz->zip.progress = NULL;
  if (!status) {
    if (!tsr__npy_in(npz->zip.member[member].name, data, size, &file, &error))
      array = tsr_put_at(scope, file.data, file.dtype, file.shape, sharding, site);
    else tsr__fail(scope, site, error.status, "%s: %s", npz->zip.path, error.text);
    tsr__del(&scope->rt->heap, data, (size_t)size + 1);
  } else {
    tsr__fail_error(scope, site, &error);
  }
  return array ? array : tsr__make_inert_on(scope, &sharding, site);
}

/* ---- saving ---------------------------------------------------------------------------------- */

static tsr_status check_items(tsr_scope *scope, const char *path, const tsr_npz_item *items,
                              int count, tsr__error *error)
{
  if (!path) return tsr__error_set(error, TSR_EARG, "the path is NULL; give the path of a file");
  if (count < 0 || (count && !items))
    return tsr__error_set(error, TSR_EARG, "%d items, expected a list", count);
  /* Names are looked up by hash: the list may be long. */
  tsr__dict_local names;
  tsr__dict_local_init(&names, &scope->rt->heap);
  for (int i = 0; i < count && !error->status; i++) {
    const char *name = items[i].name;
    size_t length = name ? strlen(name) : 0;
    bool added;
    /* The zip format counts a name in 16 bits, and ".npy" comes behind it. */
    if (!length || length > 60000 || !tsr__utf8_valid(name, length))
      tsr__error_set(error, TSR_EARG, "the name of item %d is missing, too long or not UTF-8", i);
    else if (!items[i].array)
      tsr__error_set(error, TSR_EARG, "the array of '%.80s' is NULL; give an array", name);
    else if (tsr__dict_code(&names, name, length, false, &added) < 0)
      tsr__error_set(error, TSR_ENOMEM, "out of memory");
    else if (!added)
      tsr__error_set(error, TSR_EARG, "two items are named '%.80s'; give each a name of its own",
                     name);
  }
  tsr__dict_local_free(&names);
  return error->status;
}

/* An archive that is being written; the writer is idle in processes that only take part. */
typedef struct saving {
  tsr__npy_saving by;
  tsr__zip_writer writer;
  const char *path;
  tsr__progress *progress;
} saving;

/* Writes one array, through the host. */
static tsr_status put_array(saving *to, const tsr_npz_item *item, tsr__error *error)
{
  tsr__zip_writer *writer = &to->writer;
  char header[TSR__NPY_HEADER], *name;
  tsr__npy_sizes sizes;
  tsr_array *array = item->array;
  tsr__npy npy = { .dtype = tsr__npy_dtype((tsr_dtype)array->dtype), .shape = array->shape };
  if (!to->by.writes) return tsr__npy_fetch(&to->by, array, NULL, to->path, error);
  /* The name and ".npy" behind it, which NumPy takes off again. */
  size_t stem = strlen(item->name);
  if (tsr__npy_header(to->path, &npy, header, &sizes, error)) return error->status;
  /* Bytes and a place more, so that no elements are no failed allocation. */
  char *data = tsr__new_raw(writer->heap, sizes.data + 1);
  name = tsr__new(writer->heap, stem + 5);
  if (data && name) {
    memcpy(name, item->name, stem);
    memcpy(name + stem, ".npy", 4);
    /* A member's checksum stands before its bytes, so all of it must be here first. */
    uint32_t crc = tsr__zip_crc(0, header, sizes.header, NULL);
    bool read = !tsr__npy_fetch(&to->by, array, data, to->path, error);
    if (read) crc = tsr__zip_crc(crc, data, sizes.data, to->progress);
    if (read && tsr__progress_stops(to->progress, 0)) tsr__cancelled(error, to->path);
    else if (read &&
             !tsr__zip_add(writer, name, (int64_t)(sizes.header + sizes.data), crc, error) &&
             !tsr__out_put(writer->out, header, sizes.header, error))
      tsr__out_put(writer->out, data, sizes.data, error);
  } else {
    tsr__error_set(error, TSR_ENOMEM, "no memory for %zu bytes", sizes.data);
  }
  tsr__del(writer->heap, data, sizes.data + 1);
  tsr__del(writer->heap, name, stem + 5);
  return error->status;
}

/* The arrays of items, in the scope; NULL without memory. */
static tsr_array **arrays_of(tsr_scope *scope, const tsr_npz_item *items, int count)
{
  tsr_array **out = tsr__arena_new(&scope->arena, ((size_t)count + 1) * sizeof *out);
  for (int i = 0; out && i < count; i++) out[i] = items[i].array;
  return out;
}

static tsr_status save(saving *to, tsr_scope *scope, const tsr_npz_item *items, int count,
                       tsr__error *error)
{
  tsr__out_opts opts = { .progress = to->progress };
  tsr_status status = TSR_OK;
  if (to->by.writes) status = tsr__zip_begin(&scope->rt->heap, to->path, &opts, &to->writer, error);
  for (int i = 0; i < count && !status; i++) status = put_array(to, &items[i], error);
  tsr_status ended = to->by.writes ? tsr__zip_end(&to->writer, !status, error) : TSR_OK;
  return status ? status : ended;
}

/* What is wrong in this process alone is told where the others wait. */
static void refuse(const tsr_npz_item *items, int count, const tsr__error *error, const char *site)
{
  const tsr__refusal refusal = {
    .status = error->status, .looks = true, .fetches = true, .message = error->text, .site = site
  };
  for (int i = 0; i < count && items; i++) {
    if (!items[i].array) continue;
    tsr__refuse_all((tsr__operands){ &items[i].array, 1 }, &refusal);
    return;
  }
}

tsr_status tsr_save_npz_with(tsr_scope *scope, const char *path, const tsr_npz_item *items,
                             int count, const char *site)
{
  tsr__error error = { 0 };
  tsr_status status = tsr__scope_usable(scope, "tsr_save_npz", site);
  if (status) return status;
  tsr__progress progress = { .rt = scope->rt, .what = "npz" };
  saving to = { .path = path, .progress = &progress };
  status = check_items(scope, path, items, count, &error);
  for (int i = 0; i < count && !status; i++)
    /* Before the file is begun: arrays that fail leave nothing behind, and have recorded why. */
    if ((status = tsr__array_ready(items[i].array, "tsr_save_npz", site))) return status;
  tsr_array **arrays = status ? NULL : arrays_of(scope, items, count);
  if (!status && !arrays) status = tsr__error_set(&error, TSR_ENOMEM, "no memory for a list");
  if (status) {
    refuse(items, count, &error, site);
    return tsr__fail(scope, site, status, "tsr_save_npz: %s", error.text);
  }
  const tsr__peers_work work = { .fingerprint = tsr__hash("tsr_save_npz", 12, (uint64_t)count),
                                 .what = "tsr_save_npz",
                                 .site = site };
  tsr__npy_begin(&to.by, arrays, count, &work);
  status = tsr__npy_end(&to.by, save(&to, scope, items, count, &error), &error);
  return status ? tsr__fail(scope, site, status, "tsr_save_npz: %s", error.text) : TSR_OK;
}
