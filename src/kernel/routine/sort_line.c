/* A line of a shard: its elements as words that order as they do, and its results. */
#include "kernel/routine/sort_line.h"

/* ---- elements to words, places to results ---------------------------------------------------- */

/* Words of floats of `width` bits: their own bits made to ascend, -0 those of 0, NaN all ones, and
 * no branch, since signs follow no rule. `odd`: -0 or NaN was among them.
 *
 *   x >= 0    0 bits    ->  1 bits       above all negative ones, in their order
 *   x < 0     1 bits    ->  0 ~bits      the further from 0, the lower
 *   -0        1 0...0   ->  0 1...1 + 1  that of 0
 *
 * Words are computed in W, wider than a 16-bit element: `all` cuts the bits above. */
#define FLOATS(W, T, width, infinity)                                         \
  {                                                                           \
    const W sign = (W)1 << (width - 1), all = (W)(sign - 1 + sign);           \
    for (int64_t i = 0; i < l->n; i++) {                                      \
      W x = ((const T *)l->from)[l->at + i * l->step];                        \
      W below = (W)(0 - (x >> (width - 1)));                                  \
      W zero = x == sign, nan = (x & (W)~sign) > (W)(infinity);               \
      word[i] = ((((x ^ (below | sign)) & all) + zero) | (W)(0 - nan)) & all; \
      odd |= (zero | nan) != 0;                                               \
    }                                                                         \
  }                                                                           \
  break

#define WHOLES(W, T, flip)                                           \
  for (int64_t i = 0; i < l->n; i++)                                 \
    word[i] = (W)((const T *)l->from)[l->at + i * l->step] ^ (flip); \
  break

/* The word of an element where the order is not the ascending one; NaN stay last in descending
 * order, and first in order of the largest. Descending is the ascending order of turned bits, so
 * one stable sort serves all orders; equal elements stay in the order they had. */
#define TURN(all)                                                                  \
  if (l->order != TSR__ORDER_ASCENDING) {                                          \
    bool last = l->order == TSR__ORDER_DESCENDING && tsr__dtype_has_nan(l->dtype); \
    for (int64_t i = 0; i < l->n; i++)                                             \
      word[i] = last && word[i] == (all) ? (all) : (all) ^ word[i];                \
  }

/* The ones of a word that stands for an element. */
static uint32_t all_word_bits(const tsr__line *l)
{
  return UINT32_MAX >> (32 - 8 * tsr_dtype_size(l->dtype));
}

/* Words have as many bits as elements, so that few digits tell them apart. */
bool tsr__line_words32(const tsr__line *l, uint32_t *word)
{
  bool odd = false;
  switch (l->dtype) {
  case TSR_I8: WHOLES(uint32_t, uint8_t, 0x80u);
  case TSR_I16: WHOLES(uint32_t, uint16_t, 0x8000u);
  case TSR_I32: WHOLES(uint32_t, uint32_t, UINT32_C(0x80000000));
  case TSR_U8: WHOLES(uint32_t, uint8_t, 0u);
  case TSR_U16: WHOLES(uint32_t, uint16_t, 0u);
  case TSR_U32: WHOLES(uint32_t, uint32_t, 0u);
  case TSR_F16: FLOATS(uint32_t, uint16_t, 16, 0x7c00);
  case TSR_BF16: FLOATS(uint32_t, uint16_t, 16, 0x7f80);
  default: FLOATS(uint32_t, uint32_t, 32, 0x7f800000);
  }
  TURN(all_word_bits(l))
  return odd;
}

bool tsr__line_words64(const tsr__line *l, uint64_t *word)
{
  bool odd = false;
  switch (l->dtype) {
  case TSR_I64: WHOLES(uint64_t, uint64_t, UINT64_C(1) << 63);
  case TSR_U64: WHOLES(uint64_t, uint64_t, UINT64_C(0));
  default: FLOATS(uint64_t, uint64_t, 64, UINT64_C(0x7ff) << 52);
  }
  TURN(UINT64_MAX)
  return odd;
}

void tsr__line_words(const tsr__line *l, uint64_t *word)
{
  uint32_t narrow[TSR__LINE_BLOCK];
  if (!tsr__line_narrow(l)) {
    tsr__line_words64(l, word);
    return;
  }
  /* Narrow words by way of a block on the stack, then widened: one loop a width is enough. */
  tsr__line some = *l;
  for (int64_t at = 0; at < l->n; at += TSR__LINE_BLOCK) {
    some.at = l->at + at * l->step;
    some.n = l->n - at < TSR__LINE_BLOCK ? l->n - at : TSR__LINE_BLOCK;
    tsr__line_words32(&some, narrow);
    for (int64_t i = 0; i < some.n; i++) word[at + i] = narrow[i];
  }
}

/* ---- words to elements ----------------------------------------------------------------------- */

#define PUT(T, VALUE)                                            \
  for (int64_t i = 0, at = to->to; i < n; i++, at += to->step) { \
    x = word[i] ^ turn;                                          \
    ((T *)out)[at] = (T)(VALUE);                                 \
  }                                                              \
  break

/* The bits that a word was made of: -0 and NaN do not come back, so a line that was odd is not
 * written from its words. The top bit of a word says the sign: 1 was positive and loses it, 0
 * was negative and all bits are turned back. */
#define BITS(width, one) x ^ (((x >> (width - 1)) - 1) | (one) << (width - 1))

void tsr__line_put32(const tsr__line *to, const uint32_t *word, int64_t n, void *out)
{
  uint32_t turn = to->order == TSR__ORDER_ASCENDING ? 0 : all_word_bits(to), x;
  switch (to->dtype) {
  case TSR_I8: PUT(uint8_t, x ^ 0x80u);
  case TSR_I16: PUT(uint16_t, x ^ 0x8000u);
  case TSR_I32: PUT(uint32_t, x ^ UINT32_C(0x80000000));
  case TSR_U8: PUT(uint8_t, x);
  case TSR_U16: PUT(uint16_t, x);
  case TSR_U32: PUT(uint32_t, x);
  case TSR_F16:
  case TSR_BF16: PUT(uint16_t, BITS(16, UINT32_C(1)));
  default: PUT(uint32_t, BITS(32, UINT32_C(1)));
  }
}

void tsr__line_put64(const tsr__line *to, const uint64_t *word, int64_t n, void *out)
{
  uint64_t turn = to->order == TSR__ORDER_ASCENDING ? 0 : UINT64_MAX, x;
  switch (to->dtype) {
  case TSR_I64: PUT(uint64_t, x ^ UINT64_C(1) << 63);
  case TSR_U64: PUT(uint64_t, x);
  default: PUT(uint64_t, BITS(64, UINT64_C(1)));
  }
}

#define COPY(T) \
  for (int64_t i = 0; i < l->n; i++) ((T *)to)[i] = ((const T *)l->from)[l->at + i * l->step]

void tsr__line_gather(const tsr__line *l, void *to)
{
  size_t size = tsr_dtype_size(l->dtype);
  if (l->step == 1) {
    memcpy(to, (const char *)l->from + (size_t)l->at * size, (size_t)l->n * size);
    return;
  }
  switch (size) {
  case 1: COPY(uint8_t); break;
  case 2: COPY(uint16_t); break;
  case 4: COPY(uint32_t); break;
  default: COPY(uint64_t);
  }
}

#define TAKE(T)                   \
  for (int64_t i = 0; i < n; i++) \
  ((T *)out)[at + i * to->step] = ((const T *)from->from)[from->at + (int64_t)row[i] * from->step]

void tsr__line_take(const tsr__line *from, const uint32_t *row, const tsr__line *to, int64_t first,
                    void *const results[2])
{
  void *out = results[0];
  int64_t *places = results[1], at = to->to + first * to->step, n = to->n;
  /* The line of a top_k is longer than the result. */
  if (n > to->kept - first) n = to->kept - first;
  for (int64_t i = 0; places && i < n; i++)
    places[at + i * to->step] = from->places ? from->places[row[i]] : row[i];
  if (!out) return;
  switch (tsr_dtype_size(from->dtype)) {
  case 1: TAKE(uint8_t); break;
  case 2: TAKE(uint16_t); break;
  case 4: TAKE(uint32_t); break;
  default: TAKE(uint64_t);
  }
}

static void *data_of(const tsr__shard *shard)
{
  return shard->buffer ? tsr__cpu_data(shard->buffer) : NULL;
}

/* Line number `number` of a part's shard of operand `key`; a line of another process has no
 * elements.
 *
 *   shard   [before, along, after]      before = number / after, behind = number % after
 *                                      first at before * along * after + behind, step after */
tsr__line tsr__line_of(const tsr__call *call, const tsr__call_part *part, int key, int64_t number)
{
  const tsr__gnode *node = tsr__call_node(call);
  const tsr__sort_attr *attr = tsr__attr_of(call->program, node);
  int dim = (int)attr->dim;
  tsr__sides s = tsr__sides_of(&part->in[key], tsr__call_rank(call), dim);
  int64_t before = number / s.after, behind = number % s.after, kept = part->out[0].box.size[dim];
  return (tsr__line){ .dtype = tsr__call_dtype(call, key),
                      .from = data_of(&part->in[key]),
                      .at = before * s.along * s.after + behind,
                      .step = s.after,
                      .n = s.along,
                      .to = before * kept * s.after + behind,
                      .kept = kept,
                      .order = attr->order };
}

/* Finds the results' memory: elements and places; with several keys, places alone. */
void tsr__line_results(const tsr__call *call, const tsr__call_part *part, void *results[2])
{
  bool both = tsr__call_node(call)->result_count;
  results[0] = both ? data_of(&part->out[0]) : NULL;
  results[1] = data_of(&part->out[both]);
}
