/* Lists of texts, which columns have codes of, and building them in parallel: each worker collects
 * its own, then they are unified in the order of the rows in which texts were found, so that codes
 * follow the first appearance.
 *
 *   each text once (codes)     "EWR" "JFK"            codes 0 1 0 0 1    equal texts, equal codes
 *   as they come (views)       "k7" "k2" "k7" "k9"    codes 0 1 2 3      a code is a place, no more
 *
 * Which of them a list is stands in it (tsr__dict.repeats). What asks a text something reads
 * either; what asks whether texts are equal has it made distinct first (tsr__dict_distinct). */
#ifndef TSR_IO_DICT_H
#define TSR_IO_DICT_H

#include "base/base.h"

/* A list of texts in order of appearance in the FILE (rows, not threads), so what becomes of it is
 * the same however the file was split. Refcounted, shared by columns. */
typedef struct tsr__dict {
  tsr__heap *heap;
  _Atomic int refs;
  bool repeats; /* a text may stand in it more than once; else equal texts have equal codes */
  int32_t count;
  int64_t came; /* texts it was collected of; TSR__TEXTS_MADE, TSR__TEXTS_TOLD: not by choice */
  _Atomic(struct tsr__dict_once *) once; /* its texts once each, when someone asked for that */
  int64_t *offsets;                      /* count + 1 */
  char *bytes;
  size_t offsets_size, bytes_size; /* allocated sizes, for release */
} tsr__dict;

/* Why a list is a dictionary where nobody chose: it was made as one; processes told each other each
 * text once. */
enum { TSR__TEXTS_MADE = 0, TSR__TEXTS_TOLD = -1 };

/* A text, which is the dictionary's. */
static inline const char *tsr__dict_get(const tsr__dict *dict, int64_t code, int64_t *length)
{
  *length = dict->offsets[code + 1] - dict->offsets[code];
  return dict->bytes + dict->offsets[code];
}

/* A dictionary with room for texts that its maker fills in before others see it: offsets[0] and the
 * last one are set. One reference, owned by the caller; NULL out of memory. */
tsr__dict *tsr__dict_new(tsr__heap *heap, int32_t count, int64_t bytes);
/* One more reference. */
tsr__dict *tsr__dict_hold(const tsr__dict *dict);
void tsr__dict_release(tsr__dict *dict);

/* The same texts each once, in the order of their first places, and the code there of each code of
 * the list. */
typedef struct tsr__dict_once {
  tsr__dict *dict; /* NULL: no text stood there twice, and the list is its own */
  int32_t *map;    /* by code; NULL with `dict` */
} tsr__dict_once;

/* Makes it once a list, on all workers, and keeps it there: borrowed from `dict`, whose `repeats`
 * is set. NULL: out of memory, or cancelled as `progress` says. Not from within a task. */
const tsr__dict_once *tsr__dict_distinct(const tsr__dict *dict, tsr__progress *progress);

/* For each code of `from` the code of the same text in `to`, which has no repeats, or -1: `map` has
 * as many places. False as above. */
bool tsr__dict_map(const tsr__dict *from, const tsr__dict *to, int32_t *map,
                   tsr__progress *progress);

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

/* How texts of a column are collected. $TSR_TEXTS says "codes", "views" or "mixed", which changes
 * every hundred texts or so; else it is chosen: codes while they save something. */
typedef enum tsr__text_layout {
  TSR__TEXTS_CODES, /* what is no column: names, keys */
  TSR__TEXTS_CHOSEN,
  TSR__TEXTS_VIEWS,
  TSR__TEXTS_MIXED
} tsr__text_layout;
tsr__text_layout tsr__text_layout_asked(void);

/* Texts that are looked up before it is chosen. */
enum { TSR__TEXTS_TRIAL = 1 << 17 };

/* Texts that were added unseen, in the order of their rows: dict_runs.c. */
typedef struct tsr__text_run {
  int64_t first; /* tsr__dict_local.now at the first of them */
  int32_t at;    /* its number among all the local's texts that were added unseen */
  int32_t count;
  int32_t code;   /* after unify: of its first text */
  uint32_t *ends; /* of text i at ends[-i]: where it ends in the bytes */
  char *bytes;
  char *block; /* of the last run in a block: it, to be freed; else NULL */
  size_t block_size;
} tsr__text_run;

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
  int64_t now;             /* set by the user: where in the file it is; never falls */
  bool copies;             /* set by the user: texts are copied, for their bytes go before unify */
  tsr__text_layout layout; /* set by the user */
  bool unseen;             /* texts are added to runs from here on, whatever is there already */
  bool broken;             /* rows of others came between: the next text begins a run */
  int64_t came;            /* texts, where it is chosen how they are collected */
  int64_t asked;           /* texts since that was last decided, */
  int32_t had;             /* and the entries that there were then */
  int64_t latest;          /* `now` of the last text of a run */
  tsr__text_run *runs;
  size_t run_room;
  int32_t run_count, run_texts;
  int64_t bytes; /* of all that were added, entries and texts of runs */
  /* What of it is in a list that is being filled, or has its place there: dict_flow.c. */
  int32_t flown_entries, flown_runs, head_entries, told_runs;
  int64_t told_texts, told_bytes;
  char *block; /* that runs are added to: bytes from its front, ends from its back */
  size_t block_size, block_used, block_ends;
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

/* A text by the code that tsr__dict_code gave; of a text of a run until the next is added. */
tsr__text_span tsr__dict_local_text(const tsr__dict_local *local, int32_t code);

/* What tsr__dict_code and tsr__dict_codes do where texts are added unseen: codes of such are
 * negative, below -1. Whether they are is decided before `count` of them come. */
bool tsr__dict_decide(tsr__dict_local *local, int count);
int32_t tsr__dict_append(tsr__dict_local *local, const char *text, size_t length);
void tsr__dict_append_all(tsr__dict_local *local, const tsr__text_span *texts, int count,
                          int32_t *codes);
/* Frees the runs. */
void tsr__dict_runs_free(tsr__dict_local *local);
/* One list of the texts of `all`, which are in order, and of the runs of the locals, whose buffers
 * are freed; `place[e]` is the code of entry e of `all`. NULL as of unify. */
tsr__dict *tsr__dict_join(const tsr__dict_local *all, tsr__dict_local **locals, int count,
                          int32_t *place);
/* The code of a text of a run, which is number `text` of all; `*run` is where it is looked for
 * first, 0 at the beginning. */
int32_t tsr__dict_run_code(const tsr__dict_local *local, int32_t text, int32_t *run);

/* After unify: the dictionary's code of one that the local gave; `*run` as above. */
static inline int32_t tsr__dict_final(const tsr__dict_local *local, int32_t code, int32_t *run)
{
  return code >= 0 ? local->entries[code].code : tsr__dict_run_code(local, code & INT32_MAX, run);
}

/* Unifies `count` local dictionaries by where their entries were found first, equal places in the
 * order of the locals; fills their entries' codes. NULL: out of memory, or more than 2^31 - 1
 * texts, or cancelled, as the first one's progress says. Returns a dictionary with one reference,
 * owned by the caller, which repeats where some local has runs, or where it is chosen and entries
 * of several locals are mostly different. */
tsr__dict *tsr__dict_unify(tsr__heap *heap, tsr__dict_local **locals, int count);

/* What of a list is still to be filled in, where its texts do not repeat: those of the locals
 * `from` .. `count - 1`, each of which goes to a place of its own, on any worker. */
typedef struct tsr__dict_rest {
  tsr__dict *dict;
  tsr__dict_local **locals;
  int from, count;
  struct tsr__dict_place {
    int64_t texts, bytes; /* before it in the list */
  } * place;              /* by local; the caller's room for `count` */
} tsr__dict_rest;

/* As tsr__dict_unify, of locals whose rows follow each other: in `rest`, whose locals, count and
 * places are the caller's. Some are left only where texts turned out to be new; the list is
 * complete once tsr__dict_rest_fill was called of each of them. False as of NULL there. */
bool tsr__dict_unify_rows(tsr__heap *heap, tsr__dict_rest *rest);
void tsr__dict_rest_fill(const tsr__dict_rest *rest, int local);

bool tsr__utf8_valid(const char *text, size_t length);

#endif
