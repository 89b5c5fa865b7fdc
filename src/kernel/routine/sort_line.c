/* A line of a shard: its elements as words that order as they do, and its results. */
#include "kernel/routine/sort_line.h"

/* ---- elements to words, places to results ---------------------------------------------------- */

/* A word of a float of `width` bits: its own bits made to ascend, -0 those of 0, NaN all ones. */
static inline uint64_t word_of_bits(uint64_t bits, int width, uint64_t infinity)
{
  uint64_t sign = UINT64_C(1) << (width - 1), all = sign - 1 + sign;
  if (bits == sign) bits = 0;
  if ((bits & ~sign) > infinity) return all;
  return bits & sign ? ~bits & all : bits | sign;
}

#define WORDS(T, WORD)                               \
  for (int64_t i = 0; i < l->n; i++) {               \
    T x = ((const T *)l->from)[l->at + i * l->step]; \
    word[i] = (WORD);                                \
  }                                                  \
  break

/* Words have as many bits as elements, so that few digits tell them apart. */
static void ascending_words(const tsr__line *l, uint64_t *word)
{
  switch (l->dtype) {
  case TSR_I8: WORDS(uint8_t, (uint8_t)(x ^ 0x80u));
  case TSR_I16: WORDS(uint16_t, (uint16_t)(x ^ 0x8000u));
  case TSR_I32: WORDS(uint32_t, x ^ UINT32_C(0x80000000));
  case TSR_I64: WORDS(uint64_t, x ^ UINT64_C(1) << 63);
  case TSR_U8: WORDS(uint8_t, x);
  case TSR_U16: WORDS(uint16_t, x);
  case TSR_U32: WORDS(uint32_t, x);
  case TSR_U64: WORDS(uint64_t, x);
  case TSR_F16: WORDS(uint16_t, word_of_bits(x, 16, 0x7c00));
  case TSR_BF16: WORDS(uint16_t, word_of_bits(x, 16, 0x7f80));
  case TSR_F32: WORDS(uint32_t, word_of_bits(x, 32, 0x7f800000));
  default: WORDS(uint64_t, word_of_bits(x, 64, UINT64_C(0x7ff) << 52));
  }
}

void tsr__line_words(const tsr__line *l, uint64_t *word)
{
  uint64_t all = UINT64_MAX >> (64 - 8 * tsr_dtype_size(l->dtype));
  ascending_words(l, word);
  if (l->order == TSR__ORDER_ASCENDING) return;
  bool last = l->order == TSR__ORDER_DESCENDING && tsr__dtype_float(l->dtype);
  for (int64_t i = 0; i < l->n; i++) word[i] = last && word[i] == all ? all : all ^ word[i];
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

/* Line number `number` of a part's shard of operand `key`. */
tsr__line tsr__line_of(const tsr__call *call, const tsr__call_part *part, int key, int64_t number)
{
  const tsr__gnode *node = tsr__call_node(call);
  const tsr__sort_attr *attr = tsr__attr_of(call->program, node);
  int dim = (int)attr->dim;
  tsr__sides s = tsr__sides_of(&part->in[key], tsr__call_rank(call), dim);
  int64_t before = number / s.after, behind = number % s.after, kept = part->out[0].box.size[dim];
  return (tsr__line){ .dtype = tsr__call_dtype(call, key),
                      .from = part->in[key].buffer->data,
                      .at = before * s.along * s.after + behind,
                      .step = s.after,
                      .n = s.along,
                      .to = before * kept * s.after + behind,
                      .kept = kept,
                      .order = attr->order };
}

static void *data_of(const tsr__shard *shard)
{
  return shard->buffer ? shard->buffer->data : NULL;
}

/* Elements and places; where there are several keys, places alone. */
void tsr__line_results(const tsr__call *call, const tsr__call_part *part, void *results[2])
{
  bool both = tsr__call_node(call)->result_count;
  results[0] = both ? data_of(&part->out[0]) : NULL;
  results[1] = data_of(&part->out[both]);
}
