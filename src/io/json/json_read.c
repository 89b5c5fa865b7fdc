/* Rows of JSON lines to values, a stripe of rows at a time (stripes.h).
 *
 * Invariant: what a line does not name is null, and a null is 0.
 *
 * What is kept:
 *   stripe   rows from .. to - 1 of a part; its first line is found from the block's beginning
 *   target   a column's values and validity of each part, cleared before lines are read
 *
 * Lines are parsed a second time here, with all members but only the columns that are asked for
 * converted: what opening found is a list of names and classes, and no index of values. */
#include "io/json/json_inner.h"
#include "io/rows/stripes.h"

typedef struct job {
  tsr__json *json;
  tsr__stripes stripes;
  int *target_of; /* by column; -1: not read */
  _Atomic bool no_memory;
} job;

/* ---- where rows begin ------------------------------------------------------------------------ */

/* Walks over rows from one of them on; `at` is a row's line, or where a block begins. */
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

/* The next row's line. There is one. Rows were counted by the same walk over lines when the file
 * was opened. */
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
    /* Bad lines are listed in order, so the next of them is all that a walk has to compare with. */
    bool bad = w->bad < block->bad_count && block->bad[w->bad] == line->at;
    w->bad += bad;
    if (!bad || w->json->opts.bad_rows == TSR__JSON_NULL) return;
  }
}

/* The block of a row: the last that begins at or before it, which has rows. */
static int64_t block_of(const tsr__json *json, int64_t row)
{
  int64_t low = 0, high = json->block_count - 1;
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    if (json->blocks[middle].row <= row) low = middle;
    else high = middle - 1;
  }
  return low;
}

/* Blocks know their first row; within one, lines are counted. */
static walk walk_from(const tsr__json *json, int64_t block, int64_t row)
{
  walk w = { .json = json };
  enter_block(&w, block);
  tsr__json_line line;
  /* A stripe begins anywhere in a block: its lines before are found again, but not parsed. */
  for (int64_t skip = row - json->blocks[block].row; skip > 0; skip--) next_row(&w, &line);
  return w;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The code of a value's text: a text's own, of other values as they stand. One that was unescaped
 * lies in scratch that is used again, so the dictionary copies it. */
static int32_t code_of(tsr__dict_local *dict, const tsr__json_token *value)
{
  bool added;
  /* An escaped text is at most as long as it stands there. */
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
  /* Without atomics: stripes begin at multiples of 64 rows, so a word has one writer. */
  ((uint64_t *)words)[at / 64] |= UINT64_C(1) << (at % 64);
}

/* A number that is to be of a dtype. */
typedef struct number {
  tsr_dtype dtype;
  const tsr__json_token *token;
  const tsr__read_value *value;
} number;

/* Narrow floats are rounded from the digits, not from the f64 that was read: once. Classes have
 * seen to it that an integer fits. */
static void put_number(const job *j, const number *n, void *out, int64_t at)
{
  if (!tsr__dtype_is_real(n->dtype)) tsr__dtype_put_whole(n->dtype, out, at, n->value->integer);
  else
    tsr__dtype_put_real(n->dtype, out, at,
                        tsr__decimal_round(j->json->decimal, n->dtype, n->token->at,
                                           n->token->length, n->value->real));
}

/* What was found of a value goes to a column that is none of texts; false: it is null there. Where
 * it does not fit a forced type its row was found bad before. */
static bool put_found(const job *j, tsr_coltype type, const tsr__json_found *found, void *out,
                      int64_t at)
{
  int64_t integer = found->value->integer;
  if (found->class == TSR__CLASS_NULL || !tsr__json_fits(type, found->class, found->value))
    return false;
  switch (type) {
  case TSR_COL_BOOL:
    if (integer) set_bit(out, at);
    break;
  case TSR_COL_F64: ((double *)out)[at] = found->value->real; break;
  case TSR_COL_I64: ((int64_t *)out)[at] = integer; break;
  case TSR_COL_DATE: ((int32_t *)out)[at] = (int32_t)integer; break;
  case TSR_COL_TIME:
    /* A date is a time at midnight, in microseconds. */
    if (found->class == TSR__CLASS_DATE) integer *= INT64_C(86400000000);
    ((int64_t *)out)[at] = integer;
    break;
  default: put_number(j, &(number){ (tsr_dtype)type, found->token, found->value }, out, at);
  }
  return true;
}

/* Puts a value; false: out of memory. What is not put is null, as the stripe was cleared. */
static bool put_value(job *j, int64_t s, int target, int64_t at, const tsr__json_token *token)
{
  tsr__read_target *t = &j->stripes.read->targets[target];
  int part = j->stripes.stripe[s].part;
  tsr_coltype type = tsr__stripes_type(&j->stripes, target);
  tsr__read_value value;
  if (!tsr__stripes_reads(&j->stripes, target)) return true;
  /* A text, of any value: codes of the stripe's own dictionary, joined at the end. */
  if (type == TSR_COL_TEXT) {
    if (token->kind == TSR__JSON_IS_NULL) return true;
    tsr__dict_local *dict = tsr__stripe_dict(&j->stripes, s, target);
    if (tsr__stripe_wants(tsr__stripe_kept(&j->stripes, s, target), at))
      ((int32_t *)t->values[part])[at] = code_of(dict, token);
    if (dict->failed) return false;
  } else {
    unsigned class = tsr__json_classify(j->json->decimal, token, &value);
    if (!put_found(j, type, &(tsr__json_found){ class, &value, token }, t->values[part], at))
      return true;
  }
  /* Only now: whatever was put is valid. */
  set_bit(t->validity[part], at);
  return true;
}

/* Rows of a block, from its row `from` on, which go to a stripe's rows from `at` on. */
typedef struct span {
  const tsr__json_block *block;
  int64_t stripe, from, at, count;
} span;

/* What reading a stripe holds. Where there are predicates the values of the line at hand wait until
 * it was judged. */
typedef struct stripe_work {
  job *j;
  int64_t stripe;
  tsr__json_keys keys;
  tsr__dict_local names; /* nothing is added; only the scratch is its own */
  tsr__stripe_asks asks;
  bool unwrapped;         /* lines of a file that was an array */
  const span *span;       /* of which rows texts are asked; NULL: of the line */
  tsr__json_token *token; /* of the line, by target; NULL: there are no predicates */
  bool *named;            /* by target: the line has it */
} work;

/* Puts the values of one line, or lets them wait, as far as it can be read: up to where opening
 * found the fault. False: out of memory. */
static bool take_line(work *w, int64_t at, const tsr__json_line *line)
{
  job *j = w->j;
  /* Opening found the line bad there, before its first member. */
  if (!tsr__utf8_valid(line->at, (size_t)(line->end - line->at))) return true;
  tsr__json_cursor cursor = { .at = line->at, .end = line->end, .unwrapped = w->unwrapped };
  tsr__json_token key, value;
  for (int64_t member = 0; tsr__json_next_of(&cursor, &w->keys, member, &key, &value) > 0;
       member++) {
    /* Rows number the lines, from one on. */
    int32_t code = tsr__json_key(&w->keys, &key, member, at + 1);
    /* A name twice: what stood before it counts, as when the file was opened. */
    if (code == -2) break;
    if (code < 0) return false;
    int column = j->json->column_of[code];
    int target = column < 0 ? -1 : j->target_of[column];
    /* A column that nobody reads costs its parsing and nothing else. */
    if (target < 0) continue;
    if (w->token) w->token[target] = value, w->named[target] = true;
    else if (!put_value(j, w->stripe, target, at, &value)) return false;
  }
  return true;
}

/* The waiting values of targets that must be there before the line is judged, or of the others. */
static bool put_waiting(work *w, int64_t at, bool judged)
{
  for (int t = 0; t < w->j->stripes.read->target_count; t++)
    if (w->named[t] && tsr__stripes_judged(&w->j->stripes, t) == judged &&
        !put_value(w->j, w->stripe, t, at, &w->token[t]))
      return false;
  return true;
}

static bool put_line(work *w, int64_t at, const tsr__json_line *line)
{
  if (!w->token) return take_line(w, at, line);
  memset(w->named, 0, (size_t)w->j->stripes.read->target_count * sizeof *w->named);
  w->span = NULL;
  if (!take_line(w, at, line) || !put_waiting(w, at, true)) return false;
  tsr__stripe_judge(&w->j->stripes, w->stripe, at, 1, &w->asks);
  return !w->asks.no_memory && put_waiting(w, at, false);
}

/* ---- rows that were kept --------------------------------------------------------------------- */

/* Where a column's texts of a part go. */
typedef struct text_sink {
  tsr__dict_local *dict;
  int32_t *out;
  uint64_t *valid;
  const uint64_t *kept; /* which are wanted; NULL: all */
} text_sink;

/* Texts of rows from one on, several looked up at a time, as far as they have no escapes; returns
 * how many rows these were, -1 out of memory. */
static int64_t put_texts(const span *p, int64_t row, int64_t end, const tsr__json_kept *kept,
                         const text_sink *sink)
{
  tsr__text_span text[64];
  int32_t code[64];
  int64_t at[64], i = row;
  int n = 0;
  for (; i < end && n < 64; i++) {
    if (kept->class[i] != TSR__CLASS_TEXT) continue;
    tsr__json_token token = tsr__json_kept_text(p->block, kept->value[i]);
    if (token.escaped) break;
    at[n] = p->at + i - p->from;
    text[n] = (tsr__text_span){ token.at, token.length };
    if (tsr__stripe_wants(sink->kept, at[n])) n++;
    else set_bit(sink->valid, at[n]);
  }
  if (n) tsr__dict_codes(sink->dict, text, n, code);
  if (sink->dict->failed) return -1;
  for (int k = 0; k < n; k++) {
    sink->out[at[k]] = code[k];
    set_bit(sink->valid, at[k]);
  }
  return i - row;
}

static bool put_kept(job *j, const span *p, int target, const tsr__json_kept *kept)
{
  tsr__read_target *t = &j->stripes.read->targets[target];
  int part = j->stripes.stripe[p->stripe].part;
  tsr_coltype type = tsr__stripes_type(&j->stripes, target);
  tsr__dict_local *dict = tsr__stripe_dict(&j->stripes, p->stripe, target);
  void *out = t->values[part];
  int64_t end = p->from + p->count;
  /* Rows behind the last that named it. */
  if (end > (int64_t)kept->class_room) end = (int64_t)kept->class_room;
  text_sink sink = { dict, out, t->validity[part],
                     tsr__stripe_kept(&j->stripes, p->stripe, target) };
  for (int64_t i = p->from; i < end; i++) {
    int64_t texts = type == TSR_COL_TEXT ? put_texts(p, i, end, kept, &sink) : 0;
    if (texts < 0) return false;
    i += texts;
    if (i == end) break;
    int64_t at = p->at + i - p->from;
    unsigned class = kept->class[i];
    bool there = class != 0 && class != TSR__CLASS_NULL;
    if (there && type == TSR_COL_TEXT) {
      tsr__json_token text = tsr__json_kept_text(p->block, kept->value[i]);
      if (tsr__stripe_wants(sink.kept, at)) ((int32_t *)out)[at] = code_of(dict, &text);
      if (dict->failed) return false;
    } else if (there) {
      tsr__read_value value = tsr__json_kept_value(class, kept->value[i]);
      there = put_found(j, type, &(tsr__json_found){ class, &value, NULL }, out, at);
    }
    if (there) set_bit(t->validity[part], at);
  }
  return true;
}

static const tsr__json_kept *kept_of(const job *j, const tsr__json_block *block, int target)
{
  return tsr__json_kept_of(block, j->json->name_of[j->stripes.read->targets[target].column]);
}

/* Whether all targets can be read from what a block keeps. */
static bool serves(const job *j, const tsr__json_block *block)
{
  for (int i = 0; !block->unkept && i < j->stripes.read->target_count; i++)
    if (!tsr__json_kept_serves(kept_of(j, block, i), tsr__stripes_type(&j->stripes, i)))
      return false;
  return !block->unkept;
}

/* The token of a text that predicates are asked of; false: there is none. */
static bool find_text(const work *w, const tsr__json_kept *kept, int64_t row, tsr__json_token *out)
{
  const span *p = w->span;
  int64_t at = p ? p->from + row - p->at : 0;
  if (at >= (int64_t)kept->class_room || kept->class[at] != TSR__CLASS_TEXT) return false;
  *out = tsr__json_kept_text(p->block, kept->value[at]);
  return true;
}

/* Without its escapes, for as long as nothing else is asked; false: out of memory. */
static bool read_text(work *w, const tsr__json_token *token, tsr__text_span *out)
{
  tsr__dict_local *names = &w->names;
  *out = (tsr__text_span){ token->at, token->length };
  if (!token->escaped) return true;
  if (!tsr__grow(names->heap, (void **)&names->scratch, &names->scratch_size, token->length, 1)) {
    w->asks.no_memory = true;
    return false;
  }
  *out = (tsr__text_span){ names->scratch, tsr__json_unescape(token, names->scratch) };
  return true;
}

static uint64_t ask_texts(void *user, int target, tsr__stripe_word rows, uint64_t ask,
                          const tsr__judge *judge)
{
  work *w = user;
  const tsr__json_kept *kept = w->span ? kept_of(w->j, w->span->block, target) : NULL;
  uint64_t bits = 0;
  for (uint64_t rest = ask; rest; rest &= rest - 1) {
    int i = __builtin_ctzll(rest);
    tsr__json_token token = kept ? (tsr__json_token){ 0 } : w->token[target];
    bool there = kept ? find_text(w, kept, rows.from + i, &token)
                      : w->named[target] && token.kind != TSR__JSON_IS_NULL;
    tsr__text_span text;
    if (there && judge) there = read_text(w, &token, &text) && tsr__judge_text(judge, text);
    bits |= (uint64_t)there << i;
  }
  return bits;
}

/* The targets that must be there before rows are judged, or the others. False: out of memory. */
static bool put_targets(work *w, const span *p, bool judged)
{
  const tsr__stripes *s = &w->j->stripes;
  for (int i = 0; i < s->read->target_count; i++)
    if (tsr__stripes_reads(s, i) && tsr__stripes_judged(s, i) == judged &&
        !put_kept(w->j, p, i, kept_of(w->j, p->block, i)))
      return false;
  return true;
}

static bool put_span(work *w, const span *p)
{
  if (!w->token) return put_targets(w, p, false);
  w->span = p;
  if (!put_targets(w, p, true)) return false;
  tsr__stripe_judge(&w->j->stripes, p->stripe, p->at, p->count, &w->asks);
  return !w->asks.no_memory && put_targets(w, p, false);
}

/* ---- stripes --------------------------------------------------------------------------------- */

/* The same from lines, which are parsed again. */
static bool put_lines(work *w, walk from, const span *p)
{
  tsr__json_line line;
  w->unwrapped = w->j->json->arrays[p->block->file];
  for (int64_t i = 0; i < p->count; i++) {
    next_row(&from, &line);
    if (!put_line(w, p->at + i, &line)) return false;
  }
  return true;
}

static bool put_rows(work *w, const tsr__stripe *st)
{
  const job *j = w->j;
  for (int64_t row = st->from, end; row < st->to && !j->no_memory; row = end) {
    int64_t first = j->stripes.read->rows[st->part] + row, b = block_of(j->json, first);
    const tsr__json_block *block = &j->json->blocks[b];
    span p = { block, w->stripe, first - block->row, row, block->row + block->rows - first };
    if (p.count > st->to - row) p.count = st->to - row;
    end = row + p.count;
    bool fine = serves(j, block) ? put_span(w, &p) : put_lines(w, walk_from(j->json, b, first), &p);
    if (!fine) return false;
  }
  return true;
}

static void read_stripe(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  tsr__json *json = j->json;
  size_t targets = (size_t)j->stripes.read->target_count;
  /* All names are known since the file was opened, so stripes share the table and read side by
   * side. */
  work w = { .j = j, .stripe = task, .names = json->names };
  w.names.scratch = NULL;
  w.names.scratch_size = 0;
  w.keys.names = &w.names;
  w.asks.texts = ask_texts;
  w.asks.user = &w;
  tsr__judged_open(&w.asks.judged, json->heap);
  size_t size = targets * (sizeof *w.token + sizeof *w.named);
  if (j->stripes.read->predicate_count) w.token = tsr__new(json->heap, size);
  w.named = (bool *)(w.token ? w.token + targets : NULL);
  /* Nulls are what is there before a value is put. */
  tsr__stripe_clear(&j->stripes, task);
  if ((j->stripes.read->predicate_count && !w.token) || !put_rows(&w, &j->stripes.stripe[task]))
    j->no_memory = true;
  tsr__stripe_count(&j->stripes, task);
  tsr__del(json->heap, w.token, size);
  tsr__judged_close(&w.asks.judged, json->heap);
  tsr__json_keys_free(&w.keys);
  tsr__del(json->heap, w.names.scratch, w.names.scratch_size);
}

/* What was kept of columns that are read now is seldom asked for again, unless it was of some rows
 * only. */
static void let_go(job *j)
{
  for (int64_t b = 0; b < j->json->block_count; b++)
    for (int i = 0; i < j->stripes.read->target_count; i++) {
      const tsr__read_target *t = &j->stripes.read->targets[i];
      if (!t->told && !t->sparse)
        tsr__json_kept_drop(j->json->heap, &j->json->blocks[b], j->json->name_of[t->column]);
    }
}

tsr_status tsr__json_read_parts(tsr__json *json, tsr__read_ask *read, tsr__error *error)
{
  static const char what[] = "tsr_frame_read_json";
  tsr__heap *heap = json->heap;
  job j = { .json = json };
  size_t size = (size_t)json->column_count * sizeof *j.target_of;
  bool fine = tsr__stripes_open(&j.stripes, json->rt, read, json->columns, json->opts.stripe);
  j.target_of = tsr__new(heap, size);
  j.stripes.peers = json->peers;
  fine = fine && j.target_of;
  if (fine) {
    for (int i = 0; i < json->column_count; i++) j.target_of[i] = -1;
    for (int i = 0; i < read->target_count; i++) j.target_of[read->targets[i].column] = i;
    if (!tsr__parallel_long(json->rt, what, j.stripes.count, read_stripe, &j))
      tsr__cancelled(error, what);
    else if (!j.no_memory) tsr__stripes_finish(&j.stripes, what, error);
    fine = !j.no_memory;
  }
  if (!fine) tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", json->path);
  if (!error->status) let_go(&j);
  tsr__stripes_close(&j.stripes);
  tsr__del(heap, j.target_of, size);
  return error->status;
}
