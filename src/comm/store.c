/* The key-value store: an array of pairs in the order of their keys.
 *
 * Keys are paths: "a", "a/b". What lies below a key stands right behind it, but for keys such as
 * "a-b" between "a" and "a/b"; so a folder is two ranges at most, the key itself and "a/"...
 *
 * Invariant: keys are normal, different and in order; `bytes` is bounded, so that no process can
 * make the coordinator's take all memory.
 *
 *   a | a-b | a/b | a/c/d | ab     '-' is below '/', and '0' is the first above it
 *   ^         ^---------^          the folder "a": the key, and all from "a/" to before "a0" */
#include "comm/store.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#define BYTES_MOST ((size_t)1 << 30)

bool tsr__key_normal(char *key)
{
  char *to = key;
  for (const char *at = key; *at; at++)
    if (*at != '/' || (to != key && to[-1] != '/')) *to++ = *at;
  if (to != key && to[-1] == '/') to--;
  *to = '\0';
  return to != key;
}

/* The first entry whose key is not below `key` in the order of bytes. */
static size_t lower_bound(const tsr__store *store, const char *key)
{
  size_t first = 0, end = store->count;
  while (first < end) {
    size_t middle = first + (end - first) / 2;
    if (strcmp(store->pairs[middle].key, key) < 0) first = middle + 1;
    else end = middle;
  }
  return first;
}

static bool is_at(const tsr__store *store, size_t at, const char *key)
{
  return at < store->count && !strcmp(store->pairs[at].key, key);
}

const tsr__pair *tsr__store_find(const tsr__store *store, const char *key)
{
  size_t at = lower_bound(store, key);
  return is_at(store, at, key) ? &store->pairs[at] : NULL;
}

static char *copy(tsr__heap *heap, const void *data, size_t length)
{
  char *text = tsr__new_raw(heap, length + 1);
  if (!text) return NULL;
  if (length) memcpy(text, data, length);
  text[length] = '\0';
  return text;
}

static tsr_status no_memory(const char *key, tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "process 0 has no memory for key '%s'", key);
}

/* The value changes hands only where this succeeds. Pairs behind it move up: they are three
 * words each, and the store is for small things. */
static tsr_status insert(tsr__store *store, size_t at, const char *key, char *value, size_t length)
{
  size_t long_key = strlen(key);
  char *own = copy(store->heap, key, long_key);
  if (!own || !tsr__grow(store->heap, (void **)&store->pairs, &store->capacity, store->count + 1,
                         sizeof *store->pairs)) {
    tsr__del(store->heap, own, long_key + 1);
    return TSR_ENOMEM;
  }
  memmove(store->pairs + at + 1, store->pairs + at, (store->count - at) * sizeof *store->pairs);
  store->pairs[at] = (tsr__pair){ own, value, length };
  store->count++;
  store->bytes += long_key + length;
  return TSR_OK;
}

/* The new value is there before the old one goes, so a key keeps its value where there is no
 * memory for the next. */
tsr_status tsr__store_set(tsr__store *store, const char *key, tsr__blob value, bool overwrite,
                          tsr__error *error)
{
  size_t at = lower_bound(store, key);
  bool there = is_at(store, at, key);
  if (there && !overwrite)
    return tsr__error_set(error, TSR_ESTATE,
                          "key '%s' already exists; choose another key, or set .overwrite", key);
  if (store->bytes + value.length + strlen(key) > BYTES_MOST)
    return tsr__error_set(error, TSR_ENOMEM,
                          "key '%s': the store holds %zu bytes, at most 1 GiB; delete keys that "
                          "are no longer needed, and send large data as arrays",
                          key, store->bytes);
  char *own = copy(store->heap, value.data, value.length);
  if (!own) return no_memory(key, error);
  if (!there) {
    if (!insert(store, at, key, own, value.length)) return TSR_OK;
    tsr__del(store->heap, own, value.length + 1);
    return no_memory(key, error);
  }
  tsr__pair *entry = &store->pairs[at];
  store->bytes += value.length - entry->length;
  tsr__del(store->heap, entry->value, entry->length + 1);
  entry->value = own;
  entry->length = value.length;
  return TSR_OK;
}

/* ---- folders --------------------------------------------------------------------------------- */

size_t tsr__store_range(const tsr__store *store, const char *key, size_t *first)
{
  char below[TSR__KEY_MOST + 2], behind[TSR__KEY_MOST + 2];
  *first = 0;
  if (!*key) return store->count;
  snprintf(below, sizeof below, "%s/", key);
  snprintf(behind, sizeof behind, "%s%c", key, '/' + 1);
  *first = lower_bound(store, below);
  return lower_bound(store, behind) - *first;
}

/* A range at once: one move, whatever the number. */
static void remove_some(tsr__store *store, size_t first, size_t count)
{
  for (size_t i = first; i < first + count; i++) {
    tsr__pair *entry = &store->pairs[i];
    size_t length = strlen(entry->key);
    store->bytes -= length + entry->length;
    tsr__del(store->heap, entry->key, length + 1);
    tsr__del(store->heap, entry->value, entry->length + 1);
  }
  memmove(store->pairs + first, store->pairs + first + count,
          (store->count - first - count) * sizeof *store->pairs);
  store->count -= count;
}

/* The key itself lies before its folder, perhaps with others in between; so it is looked for
 * anew. */
size_t tsr__store_delete(tsr__store *store, const char *key)
{
  size_t first, removed = tsr__store_range(store, key, &first);
  if (removed) remove_some(store, first, removed);
  size_t at = lower_bound(store, key);
  if (!is_at(store, at, key)) return removed;
  remove_some(store, at, 1);
  return removed + 1;
}

void tsr__store_free(tsr__store *store)
{
  tsr__store_delete(store, "");
  tsr__del(store->heap, store->pairs, store->capacity * sizeof *store->pairs);
  store->pairs = NULL;
  store->capacity = 0;
}

/* ---- counting -------------------------------------------------------------------------------- */

/* A whole number in decimal, and nothing else. */
static bool read_number(const tsr__pair *entry, int64_t *out)
{
  bool minus = entry->value[0] == '-';
  int64_t value = 0;
  if (entry->length <= minus || entry->length > 20) return false;
  for (size_t i = minus; i < entry->length; i++) {
    int digit = entry->value[i] - '0';
    if (digit < 0 || digit > 9) return false;
    /* Downwards, where there is one more. */
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, digit, &value))
      return false;
  }
  if (!minus && value == INT64_MIN) return false;
  *out = minus ? value : -value;
  return true;
}

/* Kept as text, so that GET, SET and ADD of one key understand each other. */
tsr_status tsr__store_add(tsr__store *store, const char *key, int64_t delta, int64_t *out,
                          tsr__error *error)
{
  const tsr__pair *entry = tsr__store_find(store, key);
  int64_t value = 0;
  char text[24];
  if (entry && !read_number(entry, &value))
    return tsr__error_set(error, TSR_EVALUE,
                          "key '%s' holds '%.40s', expected a whole number to add to", key,
                          entry->value);
  if (__builtin_add_overflow(value, delta, &value))
    return tsr__error_set(error, TSR_EVALUE, "key '%s': the sum is beyond 64 bits", key);
  tsr__blob digits = { text, (size_t)tsr__text_i64(text, value) };
  tsr_status status = tsr__store_set(store, key, digits, true, error);
  if (!status) *out = value;
  return status;
}
