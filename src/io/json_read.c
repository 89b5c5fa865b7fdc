/* Rows of JSON lines to values.
 *
 *   part 0 |stripe 0|stripe 1|   part 1 |stripe 2|     a stripe begins at a multiple of 64 rows of its
 *                                                       part, so that no two share a word of bits
 *
 * Invariant: a stripe writes all of its rows: what a line does not name is null, and a null is 0. Each
 * stripe has dictionaries of its own; unified in order they give codes by first appearance. */
#include "io/json_inner.h"

enum { STRIPE = 16384 };

typedef struct stripe {
  int part;
  int64_t from, to; /* rows of the part */
  bool no_memory;
} stripe;

typedef struct job {
  tsr__json *json;
  tsr__csv_read *read;
  int *target_of; /* by column; -1: not read */
  stripe *stripes;
  int64_t count;
  tsr__dict_local *dicts; /* [stripe * targets + target]; text targets */
  _Atomic int64_t *nulls; /* [target] */
} job;

static tsr__coltype type_of(const job *j, int target)
{
  return j->json->columns[j->read->targets[target].column].type;
}

static size_t element_size(tsr__coltype type)
{
  return type == TSR__COL_DATE || type == TSR__COL_TEXT ? 4 : 8;
}

/* ---- where rows begin -------------------------------------------------------------------------- */

/* Walks over rows from one of them on. */
typedef struct walk {
  const tsr__json *json;
  int64_t block;
  const char *at;
  size_t bad; /* the next of the block's bad lines */
} walk;

static void enter_block(walk *w, int64_t block)
{
  w->block = block;
  w->at = w->json->blocks[block].from;
  w->bad = 0;
}

/* The next row's line. There is one. */
static void next_row(walk *w, tsr__json_line *line)
{
  for (;;) {
    const tsr__json_block *block = &w->json->blocks[w->block];
    const tsr__loaded *file = &w->json->files[block->file];
    if (!tsr__json_line_at(w->at, block->to, file->data + file->size, line)) {
      enter_block(w, w->block + 1);
      continue;
    }
    w->at = line->next;
    bool bad = w->bad < block->bad_count && block->bad[w->bad] == line->at;
    w->bad += bad;
    if (!bad || w->json->opts.bad_rows == TSR__JSON_NULL) return;
  }
}

static walk walk_from(const tsr__json *json, int64_t row)
{
  int64_t low = 0, high = json->block_count - 1;
  while (low < high) { /* the last block that begins at or before the row and has rows */
    int64_t middle = low + (high - low + 1) / 2;
    if (json->blocks[middle].row <= row) low = middle;
    else high = middle - 1;
  }
  walk w = { .json = json };
  enter_block(&w, low);
  tsr__json_line line;
  for (int64_t skip = row - json->blocks[low].row; skip > 0; skip--) next_row(&w, &line);
  return w;
}

/* ---- values ------------------------------------------------------------------------------------ */

/* The code of a value's text: a text's own, of other values as they stand. */
static int32_t code_of(tsr__dict_local *dict, const tsr__json_token *value)
{
  bool added;
  if (!value->escaped) return tsr__dict_code(dict, value->at, value->length, false, &added);
  if (!tsr__grow(dict->heap, (void **)&dict->scratch, &dict->scratch_size, value->length, 1)) {
    dict->failed = true;
    return -1;
  }
  size_t length = tsr__json_unescape(value, dict->scratch);
  return tsr__dict_code(dict, dict->scratch, length, true, &added);
}

static void set_bit(void *words, int64_t at)
{
  ((uint64_t *)words)[at / 64] |= UINT64_C(1) << (at % 64);
}

/* Puts a value; where it does not fit a forced type its row was found bad before, and it is null. */
static bool put_value(job *j, int64_t s, int target, int64_t at, const tsr__json_token *token)
{
  tsr__csv_target *t = &j->read->targets[target];
  tsr__coltype type = type_of(j, target);
  tsr__csv_value value;
  void *out = t->values[j->stripes[s].part];
  if (type == TSR__COL_TEXT) {
    if (token->kind == TSR__JSON_IS_NULL) return true;
    int32_t code = code_of(&j->dicts[s * j->read->target_count + target], token);
    if (code < 0) return false;
    ((int32_t *)out)[at] = code;
  } else {
    unsigned class = tsr__json_classify(j->json->decimal, token, &value);
    if (class == TSR__CLASS_NULL || !tsr__json_fits(type, class)) return true;
    switch (type) {
    case TSR__COL_BOOL:
      if (value.integer) set_bit(out, at);
      break;
    case TSR__COL_F64: ((double *)out)[at] = value.real; break;
    case TSR__COL_DATE: ((int32_t *)out)[at] = (int32_t)value.integer; break;
    case TSR__COL_TIME:
      if (class == TSR__CLASS_DATE) value.integer *= INT64_C(86400000000);
      ((int64_t *)out)[at] = value.integer;
      break;
    default: ((int64_t *)out)[at] = value.integer; break;
    }
  }
  set_bit(t->validity[j->stripes[s].part], at);
  return true;
}

/* The values of one line, as far as it can be read: up to where opening found the fault. */
static bool put_line(job *j, int64_t s, int64_t at, const tsr__json_line *line,
                     tsr__json_keys *keys)
{
  if (!tsr__utf8_valid(line->at, (size_t)(line->end - line->at))) return true;
  tsr__json_cursor cursor = { .at = line->at, .end = line->end };
  tsr__json_token key, value;
  for (int64_t member = 0; tsr__json_next(&cursor, &key, &value) > 0; member++) {
    int32_t code = tsr__json_key(keys, &key, member, at + 1);
    if (code == -2) break;
    if (code < 0) return false;
    int column = j->json->column_of[code];
    int target = column < 0 ? -1 : j->target_of[column];
    if (target >= 0 && !put_value(j, s, target, at, &value)) return false;
  }
  return true;
}

/* ---- stripes ----------------------------------------------------------------------------------- */

static void clear(job *j, const stripe *st)
{
  int64_t rows = st->to - st->from, words = (rows + 63) / 64;
  for (int i = 0; i < j->read->target_count; i++) {
    tsr__csv_target *t = &j->read->targets[i];
    tsr__coltype type = type_of(j, i);
    char *values = t->values[st->part];
    memset(t->validity[st->part] + st->from / 64, 0, (size_t)words * 8);
    if (type == TSR__COL_BOOL) memset(values + st->from / 8, 0, (size_t)words * 8);
    else
      memset(values + (size_t)st->from * element_size(type), 0, (size_t)rows * element_size(type));
  }
}

static void count_nulls(job *j, const stripe *st)
{
  for (int i = 0; i < j->read->target_count; i++) {
    const uint64_t *valid = j->read->targets[i].validity[st->part];
    int64_t nulls = st->to - st->from;
    for (int64_t w = st->from / 64; w * 64 < st->to; w++) nulls -= __builtin_popcountll(valid[w]);
    atomic_fetch_add(&j->nulls[i], nulls);
  }
}

static void read_stripe(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  tsr__json *json = j->json;
  stripe *st = &j->stripes[task];
  tsr__dict_local names = json->names; /* nothing is added; only the scratch is its own */
  names.scratch = NULL;
  names.scratch_size = 0;
  tsr__json_keys keys = { .names = &names };
  for (int i = 0; i < j->read->target_count; i++)
    if (type_of(j, i) == TSR__COL_TEXT)
      tsr__dict_local_init(&j->dicts[task * j->read->target_count + i], json->heap);
  clear(j, st);
  walk w = walk_from(json, j->read->rows[st->part] + st->from);
  for (int64_t row = st->from; row < st->to && !st->no_memory; row++) {
    tsr__json_line line;
    next_row(&w, &line);
    st->no_memory = !put_line(j, task, row, &line, &keys);
  }
  count_nulls(j, st);
  tsr__json_keys_free(&keys);
  tsr__del(json->heap, names.scratch, names.scratch_size);
}

/* ---- dictionaries ------------------------------------------------------------------------------ */

static void recode_stripe(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  const stripe *st = &j->stripes[task];
  for (int i = 0; i < j->read->target_count; i++) {
    const tsr__dict_local *dict = &j->dicts[task * j->read->target_count + i];
    if (type_of(j, i) != TSR__COL_TEXT || !dict->count) continue;
    const uint64_t *valid = j->read->targets[i].validity[st->part];
    int32_t *codes = j->read->targets[i].values[st->part];
    for (int64_t row = st->from; row < st->to; row++)
      if (valid[row / 64] >> (row % 64) & 1) codes[row] = dict->entries[codes[row]].code;
  }
}

static bool unify(job *j)
{
  size_t size = (size_t)(j->count + 1) * sizeof(tsr__dict_local *);
  int targets = j->read->target_count;
  tsr__dict_local **locals = tsr__new(j->json->heap, size);
  bool fine = locals != NULL;
  for (int i = 0; fine && i < targets; i++) {
    if (type_of(j, i) != TSR__COL_TEXT) continue;
    for (int64_t s = 0; s < j->count; s++) locals[s] = &j->dicts[s * targets + i];
    j->read->targets[i].dict = tsr__dict_unify(j->json->heap, locals, (int)j->count);
    fine = j->read->targets[i].dict != NULL;
  }
  tsr__del(j->json->heap, locals, size);
  return fine;
}

/* ---- the whole --------------------------------------------------------------------------------- */

static int64_t cut_stripes(job *j, stripe *out)
{
  int64_t size = j->json->opts.stripe > 0 ? j->json->opts.stripe : STRIPE, count = 0;
  for (int p = 0; p < j->read->parts; p++) {
    int64_t rows = j->read->rows[p + 1] - j->read->rows[p];
    for (int64_t from = 0; from < rows; from += size, count++)
      if (out) out[count] = (stripe){ p, from, from + size < rows ? from + size : rows, false };
  }
  return count;
}

static tsr_status run(job *j, tsr__error *error)
{
  static const char what[] = "tsr_frame_read_json";
  tsr_runtime *rt = j->json->rt;
  bool memory = true;
  if (!tsr__parallel_long(rt, what, j->count, read_stripe, j)) return tsr__cancelled(error, what);
  for (int64_t s = 0; s < j->count; s++) memory &= !j->stripes[s].no_memory;
  if (!memory || !unify(j))
    return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", j->json->path);
  tsr__parallel(rt, j->count, recode_stripe, j);
  for (int i = 0; i < j->read->target_count; i++) j->read->targets[i].nulls = j->nulls[i];
  return TSR_OK;
}

tsr_status tsr__json_read_parts(tsr__json *json, tsr__csv_read *read, tsr__error *error)
{
  tsr__heap *heap = json->heap;
  job j = { .json = json, .read = read };
  size_t targets = (size_t)read->target_count;
  j.count = cut_stripes(&j, NULL);
  size_t sizes[4] = { (size_t)json->column_count * sizeof *j.target_of,
                      (size_t)(j.count + 1) * sizeof *j.stripes,
                      ((size_t)j.count * targets + 1) * sizeof *j.dicts,
                      (targets + 1) * sizeof *j.nulls };
  read->retyped = 0;
  j.target_of = tsr__new(heap, sizes[0]);
  j.stripes = tsr__new(heap, sizes[1]);
  j.dicts = tsr__new(heap, sizes[2]);
  j.nulls = tsr__new(heap, sizes[3]);
  tsr_status status = TSR_OK;
  if (j.target_of && j.stripes && j.dicts && j.nulls) {
    for (int i = 0; i < json->column_count; i++) j.target_of[i] = -1;
    for (int i = 0; i < read->target_count; i++) j.target_of[read->targets[i].column] = i;
    cut_stripes(&j, j.stripes);
    status = run(&j, error);
    for (size_t d = 0; d < (size_t)j.count * targets; d++) tsr__dict_local_free(&j.dicts[d]);
  } else {
    status = tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", json->path);
  }
  tsr__del(heap, j.target_of, sizes[0]);
  tsr__del(heap, j.stripes, sizes[1]);
  tsr__del(heap, j.dicts, sizes[2]);
  tsr__del(heap, (void *)j.nulls, sizes[3]);
  return status;
}
