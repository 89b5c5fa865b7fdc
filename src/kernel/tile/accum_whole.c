/* Accumulators of integers and bools.
 *
 *   SUM, SPREAD            128 bits; 128 and 192 bits (tsr__int_spread)
 *   PROD, ANY, ALL, COUNT  a word
 *
 * Invariant: nothing is lost before it is read. Sums are wider than any number of elements needs,
 * words wrap modulo 2^64, which any order does alike. A sum that its result cannot hold is cut when
 * it is read, or refused if a frame asked for that (`checked`). */
#include "kernel/tile/accum.h"

/* ---- sums ------------------------------------------------------------------------------------ */

/* Apart from i64, whose vectors would take the upper half of u64 for negative numbers. */
static void sum_u64(tsr__i128 *sum, const tsr__feed *f)
{
  const uint64_t *x = f->x;
  tsr__u128 all = 0;
  for (int64_t i = 0; i < f->n; i++) all += tsr__taken(f->mask, i) ? x[i] : 0;
  *sum += (tsr__i128)all;
}

/* Adds the run by its operand's type, since the accumulator takes bits, i32, i64 and u64 as they
 * come (accums.def). Bools are counted by words, and narrower integers were widened when they were
 * loaded. */
static void across_whole_sum(const tsr__feed *f)
{
  tsr__i128 *sum = (tsr__i128 *)f->to->data + f->element;
  if (f->dtype == TSR_BOOL) *sum += tsr__count_true(f);
  else if (f->dtype == TSR_I32) f->tiles->exact->sum_i32(sum, f->x, (int)f->n, f->mask);
  else if (f->dtype == TSR_U64) sum_u64(sum, f);
  else f->tiles->exact->sum_i64(sum, f->x, (int)f->n, f->mask);
}

/* u64 apart: it does not fit the i64 of tsr__whole_at. */
static void add_whole_value(const tsr__feed *f, int64_t element, int64_t i)
{
  ((tsr__i128 *)f->to->data)[element] +=
      f->dtype == TSR_U64 ? (tsr__i128)((const uint64_t *)f->x)[i] : tsr__whole_at(f, i);
}

TSR__ACCUM_LOOPS(sum, add_whole_value)

/* The usual case without a call for each element. */
static void scatter_i64(const tsr__feed *f, const int32_t *codes)
{
  tsr__i128 *sum = f->to->data;
  const int64_t *x = f->x;
  for (int64_t i = 0; i < f->n; i++)
    if (codes[i] >= 0) sum[codes[i]] += x[i];
}

static void scatter_any_sum(const tsr__feed *f, const int32_t *codes)
{
  if (f->dtype == TSR_I64) scatter_i64(f, codes);
  else scatter_sum(f, codes);
}

/* Wrapping is how arrays' totals are defined; 128 bits hold any sum of 2^63 elements of 64 bits
 * anyway. Unsigned, as a signed sum may not wrap in C. */
static void merge_sums(const tsr__partial *p, void *into, const void *from)
{
  tsr__i128 *to = into;
  const tsr__i128 *of = from;
  for (int64_t i = 0; i < p->count; i++) to[i] = (tsr__i128)((tsr__u128)to[i] + (tsr__u128)of[i]);
}

static void pack_whole_sum(const tsr__partial *p, int64_t i, unsigned char *wire, size_t size)
{
  memcpy(wire, (const tsr__i128 *)p->data + i, size);
}

static void unpack_whole_sum(const tsr__partial *p, const unsigned char *wire, size_t size,
                             void *memory)
{
  (void)p;
  memcpy(memory, wire, size);
}

/* Whether a sum leaves the range of its dtype, which is i64 or u64. An accumulator of 128 bits
 * tells; a sum that wrapped at 64 would have forgotten. */
static bool leaves_range(const tsr__final *f, tsr__i128 sum)
{
  if (f->node->dtype == TSR_U64) return sum > UINT64_MAX || sum < 0;
  return sum > INT64_MAX || sum < INT64_MIN;
}

static tsr_status read_whole_sums(const tsr__final *f, tsr__error *error)
{
  const tsr__i128 *sum = f->main->data;
  tsr_dtype to = (tsr_dtype)f->node->dtype;
  for (int64_t i = 0; i < f->elements; i++) {
    if (tsr__final_is_mean(f)) {
      tsr__final_put_real(f, i, tsr__mean_i128(sum[i], tsr__final_count(f, i), to));
    } else if (f->attr->checked && leaves_range(f, sum[i])) {
      /* A frame's sum: the message gives the number as a float, as it does not fit the
       * type that integers are printed with. */
      char text[32];
      tsr__text_f64(text, tsr__i128_f64(sum[i]));
      return tsr__error_set(error, TSR_EVALUE,
                            "a sum of integers is %s, which does not fit %s; "
                            "cast the column to f64 first",
                            text, tsr_dtype_name(to));
    } else {
      /* The low bits: cutting the total is the same as wrapping at each step. */
      tsr__final_put_whole(f, i, (int64_t)(uint64_t)(tsr__u128)sum[i]);
    }
  }
  return TSR_OK;
}

const tsr__accum_ops tsr__accum_SUM_WHOLE = { .bytes = sizeof(tsr__i128),
                                              .none = tsr__accum_zeros,
                                              .across = across_whole_sum,
                                              .along = along_sum,
                                              .scatter = scatter_any_sum,
                                              .merge = merge_sums,
                                              .pack = pack_whole_sum,
                                              .unpack = unpack_whole_sum,
                                              .read = read_whole_sums };

/* ---- spreads --------------------------------------------------------------------------------- */

/* A square of i64 has at most 127 bits, so 2^63 of them have at most 190: 192 bits hold any sum of
 * squares. */
static void across_whole_spread(const tsr__feed *f)
{
  tsr__int_spread *to = (tsr__int_spread *)f->to->data + f->element;
  if (f->dtype == TSR_I32) f->tiles->exact->spread_i32(to, f->x, (int)f->n, f->mask);
  else f->tiles->exact->spread_i64(to, f->x, (int)f->n, f->mask);
}

static void add_both(const tsr__feed *f, int64_t element, int64_t i)
{
  tsr__int_spread *spread = (tsr__int_spread *)f->to->data + element;
  int64_t whole = tsr__whole_at(f, i);
  spread->sum += whole;
  tsr__isq_add(&spread->squares, whole);
}

TSR__ACCUM_LOOPS(spread, add_both)

/* Sums wrap as those of SUM do; squares have room for all and do not. */
static void merge_spreads(const tsr__partial *p, void *into, const void *from)
{
  tsr__int_spread *to = into;
  const tsr__int_spread *of = from;
  for (int64_t i = 0; i < p->count; i++) {
    to[i].sum = (tsr__i128)((tsr__u128)to[i].sum + (tsr__u128)of[i].sum);
    tsr__isq_merge(&to[i].squares, &of[i].squares);
  }
}

static void pack_whole_spread(const tsr__partial *p, int64_t i, unsigned char *wire, size_t size)
{
  (void)size;
  const tsr__int_spread *spread = (const tsr__int_spread *)p->data + i;
  /*   wire   sum, 16 bytes | squares, 24 bytes      little-endian, as all that travels */
  memcpy(wire, &spread->sum, 16);
  memcpy(wire + 16, &spread->squares, 24);
}

static void unpack_whole_spread(const tsr__partial *p, const unsigned char *wire, size_t size,
                                void *memory)
{
  (void)p, (void)size;
  tsr__int_spread *spread = memory;
  memcpy(&spread->sum, wire, 16);
  memcpy(&spread->squares, wire + 16, 24);
}

/* Never fails: a spread is a float, whatever the integers are. */
static tsr_status read_whole_spreads(const tsr__final *f, tsr__error *error)
{
  (void)error;
  const tsr__int_spread *s = f->main->data;
  tsr_dtype to = (tsr_dtype)f->node->dtype;
  for (int64_t i = 0; i < f->elements; i++) {
    int64_t n = tsr__final_count(f, i), ddof = f->attr->ddof;
    double value = tsr__final_is_root(f) ? tsr__std_i128(s[i].sum, &s[i].squares, n, ddof, to)
                                         : tsr__var_i128(s[i].sum, &s[i].squares, n, ddof, to);
    tsr__final_put_real(f, i, value);
  }
  return TSR_OK;
}

const tsr__accum_ops tsr__accum_SPREAD_WHOLE = { .bytes = sizeof(tsr__int_spread),
                                                 .none = tsr__accum_zeros,
                                                 .across = across_whole_spread,
                                                 .along = along_spread,
                                                 .scatter = scatter_spread,
                                                 .merge = merge_spreads,
                                                 .pack = pack_whole_spread,
                                                 .unpack = unpack_whole_spread,
                                                 .read = read_whole_spreads };

/* ---- words ----------------------------------------------------------------------------------- */

/* The product or the `all` of no value. An `all` begins as true. */
static void fill_whole_ones(const tsr__partial *p, size_t from, size_t to)
{
  tsr__accum_fill(p, from, to, 1);
}

void tsr__pack_word(const tsr__partial *p, int64_t i, unsigned char *wire, size_t size)
{
  tsr__put_bytes(wire, ((const uint64_t *)p->data)[i], size);
}

void tsr__unpack_word(const tsr__partial *p, const unsigned char *wire, size_t size, void *memory)
{
  (void)p;
  *(uint64_t *)memory = tsr__get_bytes(wire, size);
}

static tsr_status read_words(const tsr__final *f, tsr__error *error)
{
  (void)error;
  for (int64_t i = 0; i < f->elements; i++)
    tsr__final_put_whole(f, i, ((const int64_t *)f->main->data)[i]);
  return TSR_OK;
}

/* A row whose elements are words: `meet` joins two of them, `nothing` is a word without a value.
 * Products, "any", "all" and counts: all meet in any order, so tasks and devices may be joined as
 * they come. */
#define WORDS(id, name, nothing, meet)                                          \
  static void merge_##name(const tsr__partial *p, void *into, const void *from) \
  {                                                                             \
    uint64_t *to = into;                                                        \
    const uint64_t *of = from;                                                  \
    for (int64_t i = 0; i < p->count; i++) to[i] = to[i] meet of[i];            \
  }                                                                             \
  const tsr__accum_ops tsr__accum_##id = { .bytes = sizeof(int64_t),            \
                                           .none = nothing,                     \
                                           .across = across_##name,             \
                                           .along = along_##name,               \
                                           .scatter = scatter_##name,           \
                                           .merge = merge_##name,               \
                                           .pack = tsr__pack_word,              \
                                           .unpack = tsr__unpack_word,          \
                                           .read = read_words };

/* Signed and unsigned words lie alike; only reading the result tells them apart. */
static uint64_t *word_at_element(const tsr__feed *f, int64_t element)
{
  return (uint64_t *)f->to->data + element;
}

/* Modulo 2^64, to the same bits in any order of the factors. */
static void across_whole_product(const tsr__feed *f)
{
  uint64_t product = *word_at_element(f, f->element);
  for (int64_t i = 0; i < f->n; i++)
    if (tsr__taken(f->mask, i)) product *= ((const uint64_t *)f->x)[i];
  *word_at_element(f, f->element) = product;
}

/* The low 64 bits of a product do not depend on signs, so u64 needs no way of its own. */
static void multiply_whole(const tsr__feed *f, int64_t element, int64_t i)
{
  *word_at_element(f, element) *= (uint64_t)tsr__whole_at(f, i);
}

TSR__ACCUM_LOOPS(whole_product, multiply_whole)
WORDS(PROD_WHOLE, whole_product, fill_whole_ones, *)

static void across_any(const tsr__feed *f)
{
  *word_at_element(f, f->element) |= tsr__count_true(f) > 0;
}

/* Bools are met one by one along a kept dim and by groups; across they are counted. */
static void set_any(const tsr__feed *f, int64_t element, int64_t i)
{
  *word_at_element(f, element) |= (uint64_t)tsr__whole_at(f, i);
}

TSR__ACCUM_LOOPS(any, set_any)
WORDS(ANY, any, tsr__accum_zeros, |)

static void across_all(const tsr__feed *f)
{
  /* Elements that the mask leaves out are neither true nor false: all that is taken must be
   * true. */
  int64_t taken = f->mask ? f->tiles->count(f->mask, NULL, f->n) : f->n;
  *word_at_element(f, f->element) &= tsr__count_true(f) == taken;
}

static void set_all(const tsr__feed *f, int64_t element, int64_t i)
{
  *word_at_element(f, element) &= (uint64_t)tsr__whole_at(f, i);
}

TSR__ACCUM_LOOPS(all, set_all)
WORDS(ALL, all, fill_whole_ones, &)

static void across_count(const tsr__feed *f)
{
  *word_at_element(f, f->element) += (uint64_t)tsr__count_true(f);
}

static void count_one(const tsr__feed *f, int64_t element, int64_t i)
{
  *word_at_element(f, element) += f->x ? (uint64_t)tsr__whole_at(f, i) : 1;
}

TSR__ACCUM_LOOPS(count_each, count_one)

/* WORDS looks for this name: counts have a way of their own only in scatter. */
static void along_count(const tsr__feed *f)
{
  along_count_each(f);
}

/* Without an operand the code alone says whether an element counts: those left out have -1. */
static void scatter_taken_words(const tsr__feed *f, const int32_t *codes)
{
  int64_t *count = f->to->data;
  for (int64_t i = 0; i < f->n; i++)
    if (codes[i] >= 0) count[codes[i]]++;
}

static void scatter_count(const tsr__feed *f, const int32_t *codes)
{
  if (f->x) scatter_count_each(f, codes);
  else scatter_taken_words(f, codes);
}

WORDS(COUNT, count, tsr__accum_zeros, +)
