/* Dictionaries of text columns.
 *
 *   stripe 0: EWR JFK LGA    0 1 2
 *   stripe 1: LGA EWR BOS    2 0 3     unified: EWR JFK LGA BOS
 *
 * Invariant: stripes follow each other in the file and entries in a stripe follow the first
 * appearance, so going through stripes in order gives the order of first appearance in the
 * file, however the file was cut. Hash values decide nothing but where to look. */
#include "io/dict.h"

void tsr__dict_local_init(tsr__dict_local *local, tsr__heap *heap)
{
  *local = (tsr__dict_local){ .heap = heap };
  tsr__arena_init(&local->arena, heap);
}

void tsr__dict_local_free(tsr__dict_local *local)
{
  if (!local->heap) return;
  tsr__arena_free(&local->arena);
  tsr__del(local->heap, local->entries, local->capacity * sizeof *local->entries);
  tsr__del(local->heap, local->slots, local->slot_count * sizeof *local->slots);
  tsr__del(local->heap, local->scratch, local->scratch_size);
  *local = (tsr__dict_local){ 0 };
}

/* ---- hashing short texts ------------------------------------------------------------------ */

__extension__ typedef unsigned __int128 wide;

static inline uint64_t load(const char *at, size_t count)
{
  uint64_t x = 0;
  memcpy(&x, at, count);
  return x;
}

static inline uint64_t fold(uint64_t a, uint64_t b)
{
  wide product = (wide)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Inlined here because most texts of a table are shorter than a call: two overlapping loads
 * cover 8 to 16 bytes. */
static inline uint64_t hash_text(const char *at, size_t length)
{
  const uint64_t k1 = UINT64_C(0x9e3779b97f4a7c15), k2 = UINT64_C(0xd6e8feb86659fd93);
  uint64_t seed = length * k2;
  while (length > 16) {
    seed = fold(load(at, 8) ^ k1 ^ seed, load(at + 8, 8) ^ k2);
    at += 16;
    length -= 16;
  }
  uint64_t a, b = 0;
  if (length >= 8) a = load(at, 8), b = load(at + length - 8, 8);
  else if (length >= 4) a = load(at, 4), b = load(at + length - 4, 4);
  else a = length ? load(at, 1) | load(at + length / 2, 1) << 8 | load(at + length - 1, 1) << 16 : 0;
  return fold(a ^ k1 ^ seed, b ^ k2);
}

/* ---- local dictionaries ------------------------------------------------------------------- */

static bool rehash(tsr__dict_local *local, size_t slot_count)
{
  tsr__dict_slot *slots = tsr__new_raw(local->heap, slot_count * sizeof *slots);
  if (!slots) return false;
  for (size_t i = 0; i < slot_count; i++) slots[i].entry = -1;
  for (int32_t e = 0; e < local->count; e++) {
    size_t at = local->entries[e].hash & (slot_count - 1);
    while (slots[at].entry >= 0) at = (at + 1) & (slot_count - 1);
    slots[at] = (tsr__dict_slot){ (uint32_t)(local->entries[e].hash >> 32), e };
  }
  tsr__del(local->heap, local->slots, local->slot_count * sizeof *local->slots);
  local->slots = slots;
  local->slot_count = slot_count;
  return true;
}

static int32_t fail(tsr__dict_local *local)
{
  local->failed = true;
  return -1;
}

/* Adds an entry whose slot is not there yet. */
static int32_t add(tsr__dict_local *local, const char *text, size_t length, uint64_t hash)
{
  if (local->count == INT32_MAX || length > UINT32_MAX) return fail(local);
  size_t need = (size_t)local->count + 1;
  if (need * 2 > local->slot_count) {
    size_t slots = local->slot_count ? local->slot_count * 2 : 64;
    if (!rehash(local, slots)) return fail(local);
  }
  if (!tsr__grow(local->heap, (void **)&local->entries, &local->capacity, need,
                 sizeof *local->entries))
    return fail(local);
  size_t at = hash & (local->slot_count - 1);
  while (local->slots[at].entry >= 0) at = (at + 1) & (local->slot_count - 1);
  local->slots[at] = (tsr__dict_slot){ (uint32_t)(hash >> 32), local->count };
  local->entries[local->count] =
      (tsr__dict_entry){ .text = text, .hash = hash, .length = (uint32_t)length, .code = -1 };
  return local->count++;
}

static inline int32_t find(const tsr__dict_local *local, const char *text, size_t length,
                           uint64_t hash)
{
  if (!local->slot_count) return -1;
  size_t mask = local->slot_count - 1;
  for (size_t at = hash & mask; local->slots[at].entry >= 0; at = (at + 1) & mask) {
    if (local->slots[at].tag != (uint32_t)(hash >> 32)) continue;
    const tsr__dict_entry *entry = &local->entries[local->slots[at].entry];
    if (entry->length == length && memcmp(entry->text, text, length) == 0)
      return local->slots[at].entry;
  }
  return -1;
}

int32_t tsr__dict_code(tsr__dict_local *local, const char *text, size_t length, bool copy,
                       bool *added)
{
  uint64_t hash = hash_text(text, length);
  int32_t code = find(local, text, length, hash);
  *added = code < 0;
  if (code >= 0) return code;
  if (copy && !(text = tsr__arena_text(&local->arena, text, length))) return fail(local);
  return add(local, text, length, hash);
}

/* ---- unifying ------------------------------------------------------------------------------ */

void tsr__dict_release(tsr__dict *dict)
{
  if (!dict || atomic_fetch_sub(&dict->refs, 1) > 1) return;
  tsr__del(dict->heap, dict->offsets, dict->offsets_size);
  tsr__del(dict->heap, dict->bytes, dict->bytes_size);
  tsr__del(dict->heap, dict, sizeof *dict);
}

/* Copies the entries of a local dictionary into one of its own. */
static tsr__dict *freeze(tsr__heap *heap, const tsr__dict_local *all)
{
  size_t bytes = 0;
  for (int32_t e = 0; e < all->count; e++) bytes += all->entries[e].length;
  tsr__dict *dict = tsr__new(heap, sizeof *dict);
  if (!dict) return NULL;
  dict->heap = heap;
  atomic_init(&dict->refs, 1);
  dict->count = all->count;
  dict->offsets_size = ((size_t)all->count + 1) * sizeof *dict->offsets;
  dict->bytes_size = bytes + 1;
  dict->offsets = tsr__new_raw(heap, dict->offsets_size);
  dict->bytes = tsr__new_raw(heap, dict->bytes_size);
  if (!dict->offsets || !dict->bytes) {
    tsr__dict_release(dict);
    return NULL;
  }
  int64_t at = 0;
  for (int32_t e = 0; e < all->count; e++) {
    dict->offsets[e] = at;
    memcpy(dict->bytes + at, all->entries[e].text, all->entries[e].length);
    at += all->entries[e].length;
  }
  dict->offsets[all->count] = at;
  dict->bytes[at] = 0;
  return dict;
}

tsr__dict *tsr__dict_unify(tsr__heap *heap, tsr__dict_local **locals, int count)
{
  tsr__dict_local all;
  tsr__dict_local_init(&all, heap);
  for (int l = 0; l < count; l++)
    for (int32_t e = 0; e < locals[l]->count; e++) {
      tsr__dict_entry *entry = &locals[l]->entries[e];
      entry->code = find(&all, entry->text, entry->length, entry->hash);
      if (entry->code < 0) entry->code = add(&all, entry->text, entry->length, entry->hash);
      if (entry->code < 0) {
        tsr__dict_local_free(&all);
        return NULL;
      }
    }
  tsr__dict *dict = freeze(heap, &all);
  tsr__dict_local_free(&all);
  return dict;
}

/* ---- UTF-8 --------------------------------------------------------------------------------- */

/* Bytes of the character at `at`, 0 if it is none: the shortest form, no surrogates, at most
 * U+10FFFF. */
static size_t utf8_step(const unsigned char *at, size_t left)
{
  unsigned char c = at[0];
  size_t count = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
  if (count == 0 || count > left) return 0;
  for (size_t i = 1; i < count; i++)
    if ((at[i] & 0xc0) != 0x80) return 0;
  if (c == 0xe0 && at[1] < 0xa0) return 0;
  if (c == 0xed && at[1] >= 0xa0) return 0;
  if (c == 0xf0 && at[1] < 0x90) return 0;
  if (c == 0xf4 && at[1] >= 0x90) return 0;
  return count;
}

bool tsr__utf8_valid(const char *text, size_t length)
{
  size_t at = 0;
  while (at < length) {
    if (length - at >= 8 && !(load(text + at, 8) & UINT64_C(0x8080808080808080))) {
      at += 8;
      continue;
    }
    size_t step = utf8_step((const unsigned char *)text + at, length - at);
    if (step == 0) return false;
    at += step;
  }
  return true;
}
