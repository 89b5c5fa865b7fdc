/* See predicate.h. Values were mostly just parsed and still lie in cache.
 *
 *   temp > 80     values  81 79 - 90     validity  1 1 0 1     passes  1 0 0 1
 *
 * Texts are judged by code, of which each worker asks once, or, where nothing is kept of them, as
 * they lie in the file.
 *
 * Invariant: a null passes TSR__PREDICATE_NULL only. */
#include "io/rows/predicate.h"

enum { UNASKED, FAILS, PASSES };

#define EACH(condition) \
  for (int i = 0; i < count; i++) bits |= (uint64_t)(condition) << i

/* Which of up to 64 values compare so with a constant of their type. */
#define COMPARE(name, type)                                                    \
  static uint64_t name(tsr__predicate_op op, const type *v, int count, type c) \
  {                                                                            \
    uint64_t bits = 0;                                                         \
    switch (op) {                                                              \
    case TSR__PREDICATE_EQ: EACH(v[i] == c); break;                            \
    case TSR__PREDICATE_NE: EACH(v[i] != c); break;                            \
    case TSR__PREDICATE_LT: EACH(v[i] < c); break;                             \
    case TSR__PREDICATE_LE: EACH(v[i] <= c); break;                            \
    case TSR__PREDICATE_GT: EACH(v[i] > c); break;                             \
    default: EACH(v[i] >= c);                                                  \
    }                                                                          \
    return bits;                                                               \
  }

COMPARE(compare_whole, int64_t)
COMPARE(compare_real, double)

/* The elements as numbers of 64 bits: as they lie, or widened into `out`. */
static const int64_t *whole_values(const tsr__judge *j, int64_t at, int count, int64_t *out)
{
  if (j->type == TSR_COL_I64 || j->type == TSR_COL_TIME) return (const int64_t *)j->values + at;
  /* i32 and dates. */
  const int32_t *narrow = (const int32_t *)j->values + at;
  for (int i = 0; i < count; i++) out[i] = narrow[i];
  return out;
}

static const double *real_values(const tsr__judge *j, int64_t at, int count, double *out)
{
  int64_t wide[64];
  if (j->type == TSR_COL_F64) return (const double *)j->values + at;
  const int64_t *whole = whole_values(j, at, count, wide);
  /* Whole numbers against a constant with a fraction. */
  for (int i = 0; i < count; i++) out[i] = (double)whole[i];
  return out;
}

static uint64_t judge_numbers(const tsr__judge *j, int64_t at, int count)
{
  const tsr__predicate *predicate = j->predicate;
  bool list = predicate->op == TSR__PREDICATE_IN || predicate->op == TSR__PREDICATE_NOT_IN;
  /* A list is joined by `or` of equals, and turned round for `not in`. */
  tsr__predicate_op op = list ? TSR__PREDICATE_EQ : predicate->op;
  int64_t wide[64];
  double reals[64];
  uint64_t bits = 0;
  if (predicate->real) {
    const double *v = real_values(j, at, count, reals);
    /* Loops over 64 values without a branch, which compilers turn into vectors. */
    for (int c = 0; c < predicate->count; c++)
      bits |= compare_real(op, v, count, predicate->reals[c]);
  } else {
    const int64_t *v = whole_values(j, at, count, wide);
    for (int c = 0; c < predicate->count; c++)
      bits |= compare_whole(op, v, count, predicate->whole[c]);
  }
  /* Bits of nulls come out true of NaN and of `not in`: the caller takes them away. */
  return predicate->op == TSR__PREDICATE_NOT_IN ? ~bits : bits;
}

static uint64_t judge_codes(const tsr__judge *j, int64_t at, uint64_t valid)
{
  const tsr__dict_local *dict = j->dict;
  const int32_t *codes = (const int32_t *)j->values + at;
  tsr__judged *judged = j->judged;
  uint64_t bits = 0;
  /* One byte a distinct text; new texts find a 0, UNASKED. */
  if (!tsr__grow(dict->heap, (void **)&judged->text, &judged->room, (size_t)dict->count, 1)) {
    *j->no_memory = true;
    return 0;
  }
  for (uint64_t rest = valid; rest; rest &= rest - 1) {
    int i = __builtin_ctzll(rest);
    /* One that was added unseen may never come again: nothing is kept of it. */
    uint8_t once = UNASKED, *said = codes[i] < 0 ? &once : &judged->text[codes[i]];
    if (*said == UNASKED) {
      *said = tsr__judge_text(j, tsr__dict_local_text(dict, codes[i])) ? PASSES : FAILS;
    }
    bits |= (uint64_t)(*said == PASSES) << i;
  }
  return bits;
}

bool tsr__judge_text(const tsr__judge *j, tsr__text_span text)
{
  tsr__text *made = j->judged->made;
  bool passes = j->predicate->passes(j->predicate->user, text, made);
  *j->no_memory |= made[0].failed || made[1].failed;
  return passes;
}

uint64_t tsr__judge_texts(const tsr__judge *j, const tsr__text_span *texts, uint64_t valid)
{
  uint64_t bits = 0;
  if (j->predicate->op == TSR__PREDICATE_NOT_NULL) return valid;
  for (uint64_t rest = valid; rest; rest &= rest - 1) {
    int i = __builtin_ctzll(rest);
    bits |= (uint64_t)tsr__judge_text(j, texts[i]) << i;
  }
  return bits;
}

uint64_t tsr__judge_word(const tsr__judge *j, int64_t at, int count)
{
  uint64_t all = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
  /* Validity was written before: columns with predicates are read first. */
  uint64_t valid = j->validity ? j->validity[at / 64] >> (at % 64) & all : all, bits;
  switch (j->predicate->op) {
  case TSR__PREDICATE_NULL: return ~valid & all;
  case TSR__PREDICATE_NOT_NULL: return valid;
  case TSR__PREDICATE_TRUE:
  case TSR__PREDICATE_FALSE:
    /* Bits behind the count are of rows to come; `valid` has none of them. */
    bits = ((const uint64_t *)j->values)[at / 64] >> (at % 64);
    return (j->predicate->op == TSR__PREDICATE_TRUE ? bits : ~bits) & valid;
  case TSR__PREDICATE_TEXT: return judge_codes(j, at, valid);
  default: return judge_numbers(j, at, count) & valid;
  }
}

void tsr__judged_open(tsr__judged *judged, tsr__heap *heap)
{
  *judged = (tsr__judged){ 0 };
  tsr__text_init(&judged->made[0], heap);
  tsr__text_init(&judged->made[1], heap);
}

void tsr__judged_close(tsr__judged *judged, tsr__heap *heap)
{
  tsr__del(heap, judged->text, judged->room);
  tsr__text_free(&judged->made[0]);
  tsr__text_free(&judged->made[1]);
}
