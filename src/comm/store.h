/* Inside comm/: the key-value store of a coordinator, of its thread alone. */
#ifndef TSR_COMM_STORE_H
#define TSR_COMM_STORE_H

#include "comm/wire.h"

typedef struct tsr__pair {
  char *key;
  char *value; /* with a NUL behind it */
  size_t length;
} tsr__pair;

typedef struct tsr__store {
  tsr__heap *heap;
  tsr__pair *pairs; /* in the order of their keys' bytes */
  size_t count, capacity;
  size_t bytes; /* of keys and values */
} tsr__store;

void tsr__store_free(tsr__store *store);
/* Puts a key in its one form: no slash at the ends, none twice. False: it is empty. In place. */
bool tsr__key_normal(char *key);
/* NULL: there is none. Valid until the next change. */
const tsr__pair *tsr__store_find(const tsr__store *store, const char *key);
tsr_status tsr__store_set(tsr__store *store, const char *key, tsr__blob value, bool overwrite,
                          tsr__error *error);
/* The entry and all below it, "key/..."; how many there were. "": all. */
size_t tsr__store_delete(tsr__store *store, const char *key);
/* The same pairs: the first of them, and how many. */
size_t tsr__store_range(const tsr__store *store, const char *key, size_t *first);
/* Adds to a whole number written in decimal; one that is missing is 0. */
tsr_status tsr__store_add(tsr__store *store, const char *key, int64_t delta, int64_t *out,
                          tsr__error *error);

#endif
