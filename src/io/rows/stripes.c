/* Stripes of rows.
 *
 *   rows    |0          40000|40000           80000|      parts: a device each
 *   stripes |0  |16384|32768 |0  |16384|32768      |      a task each; counted in their part
 *
 * A stripe has a dictionary of its own for each column of texts, so that no task waits for another:
 * codes are those of the stripe until all are read. Then a column's dictionaries become one, and
 * each stripe's codes are rewritten once (tsr__stripes_finish).
 *
 * Invariant: a stripe's rows are all written: cleared first, then what there is. Words of bits
 * belong to one stripe. */
#include "io/rows/stripes.h"
#include "io/rows/rows_together.h"

enum { STRIPE = 16384 }; /* rows, a multiple of 64: whole words of bits */

static int64_t cut(const tsr__read_ask *read, int64_t size, tsr__stripe *out)
{
  /* Twice by the caller: counted first, then written. Stripes do not go over a part's end, since
   * each part's rows lie in buffers of its own. */
  int64_t count = 0;
  for (int p = 0; p < read->parts; p++) {
    int64_t rows = read->rows[p + 1] - read->rows[p];
    if (read->here && !read->here[p]) continue;
    for (int64_t from = 0; from < rows; from += size, count++)
      if (out) out[count] = (tsr__stripe){ p, from, from + size < rows ? from + size : rows };
  }
  return count;
}

bool tsr__stripes_open(tsr__stripes *s, tsr_runtime *rt, tsr__read_ask *read,
                       const tsr__read_column *columns, int64_t rows)
{
  tsr__heap *heap = &rt->heap;
  size_t targets = (size_t)read->target_count;
  if (rows <= 0) rows = STRIPE;
  *s = (tsr__stripes){ .rt = rt, .read = read, .columns = columns, .count = cut(read, rows, NULL) };
  s->sizes[0] = (size_t)(s->count + 1) * sizeof *s->stripe;
  s->sizes[1] = ((size_t)s->count * targets + 1) * sizeof *s->dicts;
  s->sizes[2] = (targets + 1) * sizeof *s->nulls;
  s->stripe = tsr__new(heap, s->sizes[0]);
  s->dicts = tsr__new(heap, s->sizes[1]);
  s->nulls = tsr__new(heap, s->sizes[2]);
  if (!s->stripe || !s->dicts || !s->nulls) return false;
  cut(read, rows, s->stripe);
  for (int64_t d = 0; d < s->count * read->target_count; d++) {
    const tsr__stripe *st = &s->stripe[d / read->target_count];
    tsr__dict_local_init(&s->dicts[d], heap);
    /* What processes tell each other of texts is each once. */
    if (!read->here) s->dicts[d].layout = tsr__text_layout_asked();
    s->dicts[d].now = read->rows[st->part] + st->from;
  }
  read->retyped = 0;
  return true;
}

void tsr__stripes_close(tsr__stripes *s)
{
  tsr__heap *heap = &s->rt->heap;
  for (int64_t d = 0; s->dicts && d < s->count * s->read->target_count; d++)
    tsr__dict_local_free(&s->dicts[d]);
  tsr__del(heap, s->stripe, s->sizes[0]);
  tsr__del(heap, s->dicts, s->sizes[1]);
  tsr__del(heap, (void *)s->nulls, s->sizes[2]);
}

static size_t element_size(tsr_coltype type)
{
  if (tsr__dtype_known((tsr_dtype)type)) return tsr_dtype_size((tsr_dtype)type);
  return type == TSR_COL_TIME ? 8 : 4;
}

static void clear_target(tsr__stripes *s, const tsr__stripe *st, int target)
{
  const tsr__read_target *t = &s->read->targets[target];
  tsr_coltype type = tsr__stripes_type(s, target);
  /* `from` is a multiple of 64, so whole words are cleared that no other stripe writes to. */
  size_t rows = (size_t)(st->to - st->from), words = (rows + 63) / 64 * 8;
  char *values = t->values[st->part];
  memset(t->validity[st->part] + st->from / 64, 0, words);
  if (type == TSR_COL_BOOL) memset(values + st->from / 8, 0, words);
  else memset(values + (size_t)st->from * element_size(type), 0, rows * element_size(type));
}

void tsr__stripe_clear(tsr__stripes *s, int64_t stripe)
{
  const tsr__stripe *st = &s->stripe[stripe];
  for (int t = 0; t < s->read->target_count; t++)
    if (tsr__stripes_reads(s, t)) clear_target(s, st, t);
  if (s->read->predicate_count)
    memset(s->read->kept[st->part] + st->from / 64, 0, (size_t)(st->to - st->from + 63) / 64 * 8);
}

void tsr__stripe_count(tsr__stripes *s, int64_t stripe)
{
  const tsr__stripe *st = &s->stripe[stripe];
  for (int t = 0; t < s->read->target_count; t++) {
    if (!tsr__stripes_reads(s, t)) continue;
    const uint64_t *valid = s->read->targets[t].validity[st->part];
    int64_t nulls = st->to - st->from;
    /* Bits behind the last row are 0, as they were cleared. */
    for (int64_t w = st->from / 64; w * 64 < st->to; w++) nulls -= __builtin_popcountll(valid[w]);
    atomic_fetch_add(&s->nulls[t], nulls);
  }
}

/* ---- predicates ------------------------------------------------------------------------------ */

bool tsr__stripes_judged(const tsr__stripes *s, int target)
{
  if (tsr__stripes_type(s, target) == TSR_COL_TEXT) return false;
  for (int p = 0; p < s->read->predicate_count; p++)
    if (s->read->predicates[p].target == target) return true;
  return false;
}

const uint64_t *tsr__stripe_kept(const tsr__stripes *s, int64_t stripe, int target)
{
  const tsr__read_ask *read = s->read;
  return read->targets[target].sparse && read->kept ? read->kept[s->stripe[stripe].part] : NULL;
}

static uint64_t judge_texts(const tsr__judge *judge, tsr__stripe_asks *asks, tsr__stripe_word rows,
                            uint64_t ask)
{
  int target = judge->predicate->target;
  switch (judge->predicate->op) {
  case TSR__PREDICATE_NULL: return ask & ~asks->texts(asks->user, target, rows, ask, NULL);
  case TSR__PREDICATE_NOT_NULL: return asks->texts(asks->user, target, rows, ask, NULL);
  default: return asks->texts(asks->user, target, rows, ask, judge);
  }
}

static uint64_t judge_word(const tsr__stripes *s, tsr__stripe_word rows, tsr__stripe_asks *asks)
{
  int part = s->stripe[rows.stripe].part;
  uint64_t bits = rows.count == 64 ? UINT64_MAX : (UINT64_C(1) << rows.count) - 1;
  for (int p = 0; p < s->read->predicate_count && bits; p++) {
    const tsr__predicate *predicate = &s->read->predicates[p];
    const tsr__read_target *t = &s->read->targets[predicate->target];
    tsr__judge judge = { .predicate = predicate,
                         .type = tsr__stripes_type(s, predicate->target),
                         .judged = &asks->judged,
                         .no_memory = &asks->no_memory };
    if (judge.type == TSR_COL_TEXT) {
      bits &= judge_texts(&judge, asks, rows, bits);
      continue;
    }
    judge.values = t->there ? t->there : t->values[part];
    judge.validity = t->there ? NULL : t->validity[part];
    bits &= tsr__judge_word(&judge, rows.from, rows.count);
  }
  return bits;
}

void tsr__stripe_judge(const tsr__stripes *s, int64_t stripe, int64_t from, int64_t count,
                       tsr__stripe_asks *asks)
{
  int64_t end = from + count;
  uint64_t *kept = s->read->kept[s->stripe[stripe].part];
  for (tsr__stripe_word w = { stripe, from, 0 }; w.from < end; w.from += w.count) {
    int left = 64 - (int)(w.from % 64);
    w.count = end - w.from < left ? (int)(end - w.from) : left;
    kept[w.from / 64] |= judge_word(s, w, asks) << (w.from % 64);
  }
}

/* ---- one dictionary of a stripe's ------------------------------------------------------------ */

/* Whether a target gets codes of texts. */
static bool has_texts(const tsr__stripes *s, int64_t target)
{
  return tsr__stripes_type(s, (int)target) == TSR_COL_TEXT && tsr__stripes_reads(s, (int)target);
}

static void recode(void *user, int64_t task, int worker)
{
  (void)worker;
  tsr__stripes *s = user;
  const tsr__stripe *st = &s->stripe[task];
  /* What is null or dropped has no code, and its 0 stays. */
  for (int i = 0; i < s->read->target_count; i++) {
    const tsr__dict_local *dict = tsr__stripe_dict(s, task, i);
    int32_t run = 0;
    if (!has_texts(s, i) || !(dict->count + dict->run_count)) continue;
    const uint64_t *valid = s->read->targets[i].validity[st->part];
    const uint64_t *kept = tsr__stripe_kept(s, task, i);
    int32_t *codes = s->read->targets[i].values[st->part];
    for (int64_t row = st->from; row < st->to; row++)
      if ((valid[row / 64] & (kept ? kept[row / 64] : UINT64_MAX)) >> (row % 64) & 1)
        codes[row] = tsr__dict_final(dict, codes[row], &run);
  }
}

/* What unifying the columns' dictionaries needs. */
typedef struct unifying {
  tsr__stripes *stripes;
  tsr__progress progress;
  tsr__dict_rest *rest; /* by target; of those that have no texts zero */
  _Atomic bool no_memory;
} unifying;

/* Lists of a target's stripes and places, in one block. */
static size_t rest_size(const tsr__stripes *s)
{
  return (size_t)(s->count + 1) * (sizeof(tsr__dict_local *) + sizeof(struct tsr__dict_place));
}

static bool open_rest(tsr__stripes *s, tsr__dict_rest *rest)
{
  rest->place = tsr__new(&s->rt->heap, rest_size(s));
  rest->count = (int)s->count;
  rest->locals = (tsr__dict_local **)(rest->place + s->count + 1);
  return rest->place != NULL;
}

static void close_rests(unifying *u)
{
  tsr__stripes *s = u->stripes;
  tsr__heap *heap = &s->rt->heap;
  size_t targets = (size_t)s->read->target_count;
  for (size_t t = 0; u->rest && t < targets; t++) tsr__del(heap, u->rest[t].place, rest_size(s));
  tsr__del(heap, u->rest, (targets + 1) * sizeof *u->rest);
}

static void unify(void *user, int64_t task, int worker)
{
  unifying *u = user;
  tsr__stripes *s = u->stripes;
  tsr__dict_rest *rest = &u->rest[task];
  if (!has_texts(s, task)) return;
  bool fine = open_rest(s, rest);
  /* In the order of stripes, which is that of rows: codes do not depend on who read what. */
  for (int64_t st = 0; fine && st < s->count; st++) {
    rest->locals[st] = tsr__stripe_dict(s, st, (int)task);
    rest->locals[st]->progress = &u->progress;
    rest->locals[st]->worker = worker;
  }
  fine = fine && tsr__dict_unify_rows(&s->rt->heap, rest);
  s->read->targets[task].dict = rest->dict;
  if (!fine) atomic_store(&u->no_memory, true);
}

/* The stripes of a target whose texts do not repeat, each to its place. */
static void fill_stripe(void *user, int64_t task, int worker)
{
  const tsr__dict_rest *rest = user;
  (void)worker;
  tsr__dict_rest_fill(rest, rest->from + (int)task);
}

/* False: cancelled. */
static bool fill_rests(unifying *u)
{
  bool whole = true;
  for (int t = 0; t < u->stripes->read->target_count && whole; t++) {
    tsr__dict_rest *rest = &u->rest[t];
    int left = rest->dict ? rest->count - rest->from : 0;
    if (left) whole = tsr__parallel_progress(&u->progress, left, fill_stripe, rest);
  }
  return whole;
}

/* Column by column, as what processes tell each other is one column's. */
static tsr_status unify_together(tsr__stripes *s, tsr__error *error)
{
  tsr__heap *heap = &s->rt->heap;
  size_t size = (size_t)(s->count + 1) * sizeof(tsr__dict_local *);
  tsr__dict_local **locals = tsr__new(heap, size);
  if (!locals) return tsr__error_set(error, TSR_ENOMEM, "no memory for the texts of a file");
  tsr_status status = TSR_OK;
  for (int t = 0; t < s->read->target_count && !status; t++) {
    s->read->targets[t].nulls = s->nulls[t];
    if (!has_texts(s, t)) continue;
    for (int64_t st = 0; st < s->count; st++) locals[st] = tsr__stripe_dict(s, st, t);
    s->read->targets[t].dict = tsr__dict_together(s->peers, heap, locals, (int)s->count, error);
    if (!s->read->targets[t].dict) status = error->status;
  }
  if (!status) status = tsr__nulls_together(s->peers, heap, s->read, error);
  tsr__del(heap, locals, size);
  return status;
}

tsr_status tsr__stripes_finish(tsr__stripes *s, const char *what, tsr__error *error)
{
  unifying u = { .stripes = s, .progress = { .rt = s->rt, .what = what } };
  if (s->peers) {
    tsr_status status = unify_together(s, error);
    if (status) return status;
    return tsr__parallel_long(s->rt, what, s->count, recode, s) ? TSR_OK
                                                                : tsr__cancelled(error, what);
  }
  u.rest = tsr__new(&s->rt->heap, ((size_t)s->read->target_count + 1) * sizeof *u.rest);
  bool whole = !u.rest || tsr__parallel_progress(&u.progress, s->read->target_count, unify, &u);
  bool fine = whole && u.rest && !u.no_memory;
  whole = whole && (!fine || fill_rests(&u));
  fine = fine && whole;
  close_rests(&u);
  /* A column without its one dictionary has nothing to rewrite by. */
  whole = whole && (!fine || tsr__parallel_long(s->rt, what, s->count, recode, s));
  if (u.progress.stop || !whole) return tsr__cancelled(error, what);
  if (!fine) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", what);
  for (int i = 0; i < s->read->target_count; i++) s->read->targets[i].nulls = s->nulls[i];
  return TSR_OK;
}
