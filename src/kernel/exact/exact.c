/* The superaccumulator: a fixed-point number as long as the range of f64.
 *
 *     word[0]        word[1]        ...                    word[67]
 *     2^-1074 ...    2^-1042 ...                           2^1070 ... and the sign
 *     |<- 32 bits of value, and room above them for carries ->|
 *
 * An f64 is m * 2^(position - 1074) with m < 2^53: shifted to its place it covers three words.
 * Adding touches only those three; carries are moved up every 2^29 additions. Invariant: the
 * value is the sum of word[i] * 2^(32 i + base), and |word[i]| <= adds * 2^32. */
#include "kernel/exact/exact.h"

#include <string.h>

#define NORMALISE_AFTER ((uint32_t)1 << 29)
#define LOW32 ((int64_t)0xffffffff)

/* Moves carries up. Afterwards every word but the top one lies in [0, 2^32), and the top one,
 * which keeps the sign, is smaller than 2^32 in size: one addition's worth each. The right
 * shift of a negative number is arithmetic in every compiler we build with. */
static void carry_words(int64_t *word, int count)
{
  int64_t up = 0;
  for (int i = 0; i < count - 1; i++) {
    int64_t now = word[i] + up;
    word[i] = now & LOW32;
    up = now >> 32;
  }
  word[count - 1] += up;
}

/* Adds (or subtracts) mantissa * 2^position, position counted from the accumulator's base.
 *    mantissa       |<-- up to 64 bits -->|
 *    placed         ...| word 2 | word 1 | word 0 |      shifted by position % 32: 95 bits at most
 *    at             word[position / 32 + 2, 1, 0]
 * Subtracting is adding the complement of each word and one, without a branch: signs of data are
 * as random as its values. */
static void add_at(int64_t *word, uint64_t mantissa, int position, bool negative)
{
  int64_t *at = word + (position >> 5);
  tsr__u128 placed = (tsr__u128)mantissa << (position & 31);
  int64_t sign = -(int64_t)negative;
  at[0] += (((int64_t)placed & LOW32) ^ sign) - sign;
  at[1] += (((int64_t)(placed >> 32) & LOW32) ^ sign) - sign;
  at[2] += ((int64_t)(placed >> 64) ^ sign) - sign;
}

typedef struct parts {
  uint64_t mantissa;
  int position; /* place of the mantissa's lowest bit above 2^-1074 */
  bool negative;
} parts;

/* Takes a finite value apart; other values return the flag that stands for them. */
static uint32_t take_apart(double value, parts *out)
{
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
  int exponent = (int)(bits >> 52) & 0x7ff;
  out->negative = bits >> 63;
  out->mantissa = exponent ? fraction | (uint64_t)1 << 52 : fraction;
  /* A denormal has no hidden bit and the exponent of the smallest normal number. */
  out->position = exponent ? exponent - 1 : 0;
  if (exponent == 0x7ff) {
    out->mantissa = 0;
    out->position = 0;
    /* Specials become flags. No part of a special is added, so the finite sum stays exact beside
     * them. */
    if (fraction) return TSR__SAW_NAN | TSR__SAW_OTHER;
    return (out->negative ? TSR__SAW_NINF : TSR__SAW_PINF) | TSR__SAW_OTHER;
  }
  return bits == (uint64_t)1 << 63 ? TSR__SAW_NEG_ZERO : TSR__SAW_OTHER;
}

/* After carrying each word is below 2^32 again: this counts as one addition. */
static void count_add(int64_t *word, int count, uint32_t *adds)
{
  if (++*adds < NORMALISE_AFTER) return;
  carry_words(word, count);
  *adds = 1;
}

void tsr__acc2_zero(tsr__acc2 *acc)
{
  memset(acc, 0, sizeof *acc);
}

void tsr__acc_add(tsr__acc *acc, double value)
{
  parts p;
  acc->flags |= take_apart(value, &p);
  add_at(acc->word, p.mantissa, p.position, p.negative);
  count_add(acc->word, TSR__ACC_WORDS, &acc->adds);
}

void tsr__acc2_add(tsr__acc2 *acc, double value)
{
  parts p;
  acc->flags |= take_apart(value, &p);
  /* The lowest bit of a product of two f64 weighs 2^-2148: single values begin 1,074 bits up. */
  add_at(acc->word, p.mantissa, p.position + TSR__ACC_BASE - TSR__ACC2_BASE, p.negative);
  count_add(acc->word, TSR__ACC2_WORDS, &acc->adds);
}

void tsr__acc2_add_product(tsr__acc2 *acc, double x, double y)
{
  parts p, q, whole;
  /* The product of a special is special in a way that depends on both (0 times infinity is NaN):
   * the machine's own product says which. Signs of zero products are not kept, hence OTHER. */
  uint32_t saw = take_apart(x, &p) | take_apart(y, &q),
           special = TSR__SAW_NAN | TSR__SAW_PINF | TSR__SAW_NINF;
  acc->flags |= saw & special ? take_apart(x * y, &whole) : TSR__SAW_OTHER;
  if (saw & special) return;
  tsr__u128 product = (tsr__u128)p.mantissa * q.mantissa;
  int position = p.position + q.position;
  bool negative = p.negative != q.negative;
  add_at(acc->word, (uint64_t)product, position, negative);
  add_at(acc->word, (uint64_t)(product >> 64), position + 64, negative);
  /* Two halves are two additions to the words they share. */
  acc->adds++;
  count_add(acc->word, TSR__ACC2_WORDS, &acc->adds);
}

void tsr__acc2_add_square(tsr__acc2 *acc, double value)
{
  tsr__acc2_add_product(acc, value, value);
}

/* Two accumulators are two blocks of memory, so that several words are added at once. */
static void merge(int64_t *restrict into, const int64_t *restrict from, int count)
{
  for (int i = 0; i < count; i++) into[i] += from[i];
}

void tsr__acc_merge(tsr__acc *into, const tsr__acc *from)
{
  merge(into->word, from->word, TSR__ACC_WORDS);
  into->flags |= from->flags;
  into->adds += from->adds;
  count_add(into->word, TSR__ACC_WORDS, &into->adds);
}

void tsr__acc2_merge(tsr__acc2 *into, const tsr__acc2 *from)
{
  merge(into->word, from->word, TSR__ACC2_WORDS);
  into->flags |= from->flags;
  into->adds += from->adds;
  count_add(into->word, TSR__ACC2_WORDS, &into->adds);
}

/* The size of INT64_MIN does not fit i64, but it does fit u64, and so does its square 128 bits. */
void tsr__isq_add(tsr__isq *acc, int64_t value)
{
  uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
  tsr__u128 square = (tsr__u128)size * size;
  tsr__isq one = { { (uint64_t)square, (uint64_t)(square >> 64), 0 } };
  tsr__isq_merge(acc, &one);
}

void tsr__isq_merge(tsr__isq *into, const tsr__isq *from)
{
  tsr__u128 sum = 0;
  for (int i = 0; i < 3; i++) {
    sum += (tsr__u128)into->word[i] + from->word[i];
    into->word[i] = (uint64_t)sum;
    sum >>= 64;
  }
}

static void put32(unsigned char *at, uint32_t value)
{
  at[0] = (unsigned char)value; /* spelled out: compilers make one store of it */
  at[1] = (unsigned char)(value >> 8);
  at[2] = (unsigned char)(value >> 16);
  at[3] = (unsigned char)(value >> 24);
}

static uint32_t get32(const unsigned char *at)
{
  return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Eight at a time, as nearly all are zero. */
static bool eight_zeros(const int64_t *word)
{
  return !(word[0] | word[1] | word[2] | word[3] | word[4] | word[5] | word[6] | word[7]);
}

tsr__words_used tsr__words_in_use(const int64_t *word, int count)
{
  int first = 0, end = count;
  while (first + 8 <= end && eight_zeros(word + first)) first += 8;
  while (first < end && !word[first]) first++;
  while (end >= first + 8 && eight_zeros(word + end - 8)) end -= 8;
  while (end > first && !word[end - 1]) end--;
  return (tsr__words_used){ first, end };
}

/* Carries go up on the way out and the accumulator stays as it is, for others may be reading it.
 * Equal totals have equal bytes, however they came to be: every word is below 2^32 but for the
 * sign, which the top one's two's complement keeps.
 *
 *   word    0 0 0 | a b c | 0 0 0 0 0     carried: above the words that are used stand at most one
 *   wire    0 0 0 | a b c   d s s s s     more and the sign, 0 or -1, whose bytes are alike */
static void pack_words(const int64_t *word, int count, uint32_t flags, unsigned char *wire)
{
  const tsr__words_used used = tsr__words_in_use(word, count);
  int i = used.first;
  int64_t up = 0;
  memset(wire, 0, 4 * (size_t)i);
  for (; i < count && (i < used.end || (up && up != -1)); i++) {
    int64_t now = word[i] + up;
    put32(wire + 4 * i, (uint32_t)(now & LOW32));
    up = now >> 32;
  }
  memset(wire + 4 * i, (int)(up & 0xff), 4 * (size_t)(count - i));
  put32(wire + 4 * count, flags);
}

/* Two words at a time, as nearly all are zero; their number is even. */
static uint32_t unpack_words(int64_t *restrict word, int count, const unsigned char *restrict wire)
{
  memset(word, 0, (size_t)count * sizeof *word);
  for (int i = 0; i < count; i += 2) {
    uint64_t both;
    memcpy(&both, wire + 4 * i, sizeof both);
    if (!both) continue;
    word[i] = get32(wire + 4 * i);
    word[i + 1] = get32(wire + 4 * i + 4);
  }
  if (word[count - 1] >> 31) word[count - 1] -= (int64_t)1 << 32; /* two's complement */
  return get32(wire + 4 * count);
}

void tsr__acc_pack(const tsr__acc *acc, void *wire)
{
  pack_words(acc->word, TSR__ACC_WORDS, acc->flags, wire);
}

void tsr__acc_unpack(tsr__acc *acc, const void *wire)
{
  acc->flags = unpack_words(acc->word, TSR__ACC_WORDS, wire);
  /* Words that came are below 2^32 each. */
  acc->adds = 1;
}

void tsr__acc2_pack(const tsr__acc2 *acc, void *wire)
{
  pack_words(acc->word, TSR__ACC2_WORDS, acc->flags, wire);
}

void tsr__acc2_unpack(tsr__acc2 *acc, const void *wire)
{
  acc->flags = unpack_words(acc->word, TSR__ACC2_WORDS, wire);
  acc->adds = 1;
}
