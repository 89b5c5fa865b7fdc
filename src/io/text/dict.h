/* Dictionaries of texts, and building them in parallel: each worker collects its own, then they are
 * unified in the order of the rows in which texts were found, so that codes follow the first
 * appearance. */
#ifndef TSR_IO_DICT_H
#define TSR_IO_DICT_H

#include "base/base.h"

/* A dictionary: distinct texts in order of first appearance in the FILE (rows, not threads),
 * so codes are the same however the file was split. Refcounted, shared by columns. */
typedef struct tsr__dict {
  tsr__heap *heap;
  _Atomic int refs;
  int32_t count;
  int64_t *offsets; /* count + 1 */
  char *bytes;
  size_t offsets_size, bytes_size; /* allocated sizes, for release */
} tsr__dict;

/* A dictionary with room for texts that its maker fills in before others see it: offsets[0] and the
 * last one are set. One reference, owned by the caller; NULL out of memory. */
tsr__dict *tsr__dict_new(tsr__heap *heap, int32_t count, int64_t bytes);
/* One more reference. */
tsr__dict *tsr__dict_hold(const tsr__dict *dict);
void tsr__dict_release(tsr__dict *dict);

/* A run of bytes in a file's text. */
typedef struct tsr__text_span {
  const char *at;
  size_t length;
} tsr__text_span;

/* What texts are compared by: up to 16 bytes themselves, padded with zeros; of longer ones two
 * hashes, and then the bytes. */
typedef struct tsr__dict_key {
  uint64_t a, b, hash;
  uint32_t length;
} tsr__dict_key;

typedef struct tsr__dict_entry {
  tsr__dict_key key;
  int32_t code;     /* after tsr__dict_unify: the code in the dictionary */
  int64_t first;    /* tsr__dict_local.now when it was added */
  const char *text; /* in the file's bytes, or in the arena */
} tsr__dict_entry;

/* Half a cache line, so that a look-up in a large dictionary misses once. */
typedef struct tsr__dict_slot {
  uint64_t a, b, hash;
  uint32_t length;
  int32_t entry; /* -1: free */
} tsr__dict_slot;

typedef struct tsr__dict_local {
  tsr__heap *heap;
  tsr__arena arena;
  uint64_t secret[2]; /* of the heap's seed: hashes nobody can foresee */
  int64_t steps;      /* that look-ups took beyond the slots where keys belong */
  tsr__dict_entry *entries;
  size_t capacity;
  int32_t count;
  tsr__dict_slot *slots;
  size_t slot_count; /* a power of two, or 0 */
  char *scratch;     /* for text without its doubled quotes */
  size_t scratch_size;
  int64_t now; /* set by the user: where in the file it is; never falls */
  bool copies; /* set by the user: texts are copied, for their bytes go before unify */
  /* Set by the user, NULL: nobody asks. A large table grows and is unified for long: it asks then,
   * as `worker`, and fails where progress->stop says so. */
  tsr__progress *progress;
  int worker;
  bool recoded; /* after tsr__dict_unify: some code differs from the entry's place */
  bool failed;  /* out of memory, or 2^31 entries, or cancelled */
} tsr__dict_local;

void tsr__dict_local_init(tsr__dict_local *local, tsr__heap *heap);
void tsr__dict_local_free(tsr__dict_local *local);

/* The code of a text, added if new; `*added` says so. The bytes are borrowed until unify unless
 * `copy`. Returns -1 and sets `failed` out of memory. */
int32_t tsr__dict_code(tsr__dict_local *local, const char *text, size_t length, bool copy,
                       bool *added);

/* The codes of up to 64 texts in their order; bit i of the result: text i was added. The bytes are
 * borrowed until unify, and 16 bytes behind each text must be readable. */
uint64_t tsr__dict_codes(tsr__dict_local *local, const tsr__text_span *texts, int count,
                         int32_t *codes);

/* Unifies `count` local dictionaries by where their entries were found first, equal places in the
 * order of the locals; fills their entries' codes. NULL: out of memory, or more than 2^31 - 1
 * texts, or cancelled, as the first one's progress says. Returns a dictionary with one reference,
 * owned by the caller. */
tsr__dict *tsr__dict_unify(tsr__heap *heap, tsr__dict_local **locals, int count);

bool tsr__utf8_valid(const char *text, size_t length);

#endif
