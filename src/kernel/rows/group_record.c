/* Reading rows into the records of their groups, block by block.
 *
 *   column   values -> i64 or f64, nulls taken out -> block -> each tally of the column
 *
 * Floats in units: x = mantissa * 2^(exponent - low) units, added as a 128-bit number. All sums fit
 * because of the span of exponents: a sample of rows proposes the span, and each value that is
 * added is checked against the span. */
#include "kernel/rows/group_record.h"

#include "kernel/rows/pieces.h"
#include "kernel/tile/interp_tile.h"
#include "topology/half.h"

enum { BLOCK = 512 };

#define MANTISSA ((UINT64_C(1) << 52) - 1)

/* Rows of a block that count, with one column's values. 512 rows: values and groups, 6 KiB, stay
 * in the nearest cache from tally to tally of a column. */
typedef struct block {
  int n;
  const uint32_t *group;
  const int64_t *whole; /* integers and bools */
  bool natural;         /* `whole` are bits of u64 */
  const double *real;
  int64_t values[BLOCK]; /* room for either */
  uint32_t groups[BLOCK];
} block;

/* ---- blocks ---------------------------------------------------------------------------------- */

/* With and without a list of rows; the loop without one is a conversion that vectors do. A list
 * is of a cluster's rows, which lie anywhere. */
#define TAKE(name, T, U, OF)                                         \
  static void name(U *to, const T *from, const uint32_t *row, int n) \
  {                                                                  \
    if (row)                                                         \
      for (int i = 0; i < n; i++) to[i] = (U)OF(from[row[i]]);       \
    else                                                             \
      for (int i = 0; i < n; i++) to[i] = (U)OF(from[i]);            \
  }

TAKE(take_i8, int8_t, int64_t, )
TAKE(take_i16, int16_t, int64_t, )
TAKE(take_i32, int32_t, int64_t, )
TAKE(take_i64, int64_t, int64_t, )
TAKE(take_u8, uint8_t, int64_t, )
TAKE(take_u16, uint16_t, int64_t, )
TAKE(take_u32, uint32_t, int64_t, )
TAKE(take_f16, uint16_t, double, tsr__f32_of_f16)
TAKE(take_bf16, uint16_t, double, tsr__f32_of_bf16)
TAKE(take_f32, float, double, )
TAKE(take_f64, double, double, )

static void take_bits(int64_t *to, const uint64_t *from, const uint32_t *row, int64_t start, int n)
{
  for (int i = 0; i < n; i++) {
    int64_t at = row ? row[i] : start + i;
    to[i] = (int64_t)(from[at / 64] >> (at % 64) & 1);
  }
}

/* Takes the values of a block that begins at row `at`, in the column's own memory where no change
 * is needed. Types are widened to i64 or f64 once a block, so that adding knows two types, not
 * thirteen. */
static void take_block_values(const tsr__colparts *column, const tsr__group_record_rows *rows,
                              int64_t at, block *b)
{
  const void *data = tsr__cpu_data(column->values[rows->part]);
  const uint32_t *row = rows->row ? rows->row + at : NULL;
  int64_t start = row ? 0 : rows->start + at;
  void *room = b->values;
  b->natural = column->dtype == TSR_U64;
  b->whole = b->values;
  b->real = room;
  switch (column->dtype) {
  case TSR_BOOL: take_bits(room, data, row, start, b->n); break;
  case TSR_I8: take_i8(room, (const int8_t *)data + start, row, b->n); break;
  case TSR_I16: take_i16(room, (const int16_t *)data + start, row, b->n); break;
  case TSR_I32: take_i32(room, (const int32_t *)data + start, row, b->n); break;
  case TSR_U8: take_u8(room, (const uint8_t *)data + start, row, b->n); break;
  case TSR_U16: take_u16(room, (const uint16_t *)data + start, row, b->n); break;
  case TSR_U32: take_u32(room, (const uint32_t *)data + start, row, b->n); break;
  case TSR_F16: take_f16(room, (const uint16_t *)data + start, row, b->n); break;
  case TSR_BF16: take_bf16(room, (const uint16_t *)data + start, row, b->n); break;
  case TSR_F32: take_f32(room, (const float *)data + start, row, b->n); break;
  case TSR_I64:
  case TSR_U64:
    if (row) take_i64(room, data, row, b->n);
    else b->whole = (const int64_t *)data + start;
    break;
  default:
    if (row) take_f64(room, data, row, b->n);
    else b->real = (const double *)data + start;
  }
}

/* Puts the rows that are not null side by side. Written always, counted if valid: no branch on
 * data. */
static void drop_nulls(const uint64_t *valid, const tsr__group_record_rows *rows, int64_t at,
                       bool real, block *b)
{
  const uint32_t *group = b->group;
  const void *from = real ? (const void *)b->real : (const void *)b->whole;
  const int64_t *bits = from;
  int count = 0;
  for (int i = 0; i < b->n; i++) {
    int64_t row = rows->row ? rows->row[at + i] : rows->start + at + i;
    b->groups[count] = group[i];
    if (bits) memcpy(&b->values[count], bits + i, sizeof *b->values);
    count += (int)(valid[row / 64] >> (row % 64) & 1);
  }
  void *room = b->values;
  b->n = count;
  b->group = b->groups;
  b->whole = b->values;
  b->real = room;
}

/* Prefetches the values of the block from row `at` on: adding alone leaves memory idle in between.
 * Used only where rows lie one after the other; rows of a list lie anywhere. */
static void fetch_next(const tsr__colparts *from, const tsr__group_record_rows *rows, int64_t at)
{
  size_t size = tsr_dtype_size(from->dtype);
  const char *data = tsr__cpu_data(from->values[rows->part]);
  data += (size_t)(rows->start + at) * size;
  if (from->dtype == TSR_BOOL) return;
  for (size_t k = 0; k < BLOCK * size; k += 64) __builtin_prefetch(data + k);
}

static void load_rows_of_block(const tsr__tallies *plan, int column,
                               const tsr__group_record_rows *rows, int64_t at, block *b)
{
  b->n = rows->count - at < BLOCK ? (int)(rows->count - at) : BLOCK;
  b->group = rows->group + at;
  /* A cluster's records begin at its first group. */
  if (rows->base) {
    for (int i = 0; i < b->n; i++) b->groups[i] = rows->group[at + i] - rows->base;
    b->group = b->groups;
  }
  if (column < 0) return;
  const tsr__colparts *from = &plan->columns[column];
  take_block_values(from, rows, at, b);
  if (!rows->row && rows->count - at >= 2 * BLOCK) fetch_next(from, rows, at + BLOCK);
  const tsr__buffer *valid = from->valid ? from->valid[rows->part] : NULL;
  if (valid)
    drop_nulls(tsr__cpu_data(valid), rows, at, tsr__dtype_is_real((tsr_dtype)from->dtype), b);
}

/* ---- adding ---------------------------------------------------------------------------------- */

/* The words of one tally: that of group 0, and the bytes to the next group's. */
typedef struct place {
  char *at;
  size_t stride;
} place;

static inline uint64_t *group_word(place to, uint32_t group)
{
  return (uint64_t *)(void *)(to.at + group * to.stride);
}

/* Signed and unsigned sums are the same bits; the reader of a sum knows its sign. */
static inline void add_128(uint64_t *word, tsr__u128 value)
{
  tsr__u128 sum = ((tsr__u128)word[1] << 64 | word[0]) + value;
  word[0] = (uint64_t)sum;
  word[1] = (uint64_t)(sum >> 64);
}

static inline void add_192(uint64_t *word, tsr__u128 low, uint64_t high)
{
  tsr__u128 sum;
  /* `high` is the sign of a negative value, all ones: two's complement over 192 bits. */
  bool carry = __builtin_add_overflow((tsr__u128)word[1] << 64 | word[0], low, &sum);
  word[0] = (uint64_t)sum;
  word[1] = (uint64_t)(sum >> 64);
  word[2] += high + carry;
}

/* Rows that count are those that are left in the block. */
static void add_count(place to, const block *b)
{
  for (int i = 0; i < b->n; i++) ++*group_word(to, b->group[i]);
}

/* Does add_whole's work for values of u64, which may not fit 63 bits. Products of two u64 fit 128
 * bits, without a sign that could fill the upper 64. The sums themselves may not overflow either:
 * 2^32 rows of a part and as many parts as there are add some 44 bits to 128. */
static void add_natural(place to, const block *b, const int64_t *y, int kind)
{
  for (int i = 0; i < b->n; i++) {
    uint64_t x = (uint64_t)b->whole[i];
    if (kind == TSR__RECORD_I128) add_128(group_word(to, b->group[i]), x);
    else add_192(group_word(to, b->group[i]), (tsr__u128)x * (uint64_t)y[i], 0);
  }
}

/* Values, or their products with those of another column. */
static void add_whole(place to, const block *b, const int64_t *y, int kind)
{
  const int64_t *x = b->whole;
  if (kind == TSR__RECORD_I64 && !y) {
    for (int i = 0; i < b->n; i++) *group_word(to, b->group[i]) += (uint64_t)x[i];
  } else if (kind == TSR__RECORD_I64) {
    for (int i = 0; i < b->n; i++) *group_word(to, b->group[i]) += (uint64_t)x[i] * (uint64_t)y[i];
  } else if (b->natural) {
    add_natural(to, b, y, kind);
  } else if (kind == TSR__RECORD_I128) {
    for (int i = 0; i < b->n; i++) add_128(group_word(to, b->group[i]), (tsr__u128)(tsr__i128)x[i]);
  } else {
    for (int i = 0; i < b->n; i++) {
      tsr__i128 product = (tsr__i128)x[i] * y[i];
      add_192(group_word(to, b->group[i]), (tsr__u128)product, product < 0 ? UINT64_MAX : 0);
    }
  }
}

static inline uint64_t bits_of_double(double value)
{
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* The mantissa of a normal number; 0 for zeros, infinities and NaN. Denormals give 0 too: a column
 * with denormals is not kept in units. */
static inline uint64_t mantissa_of(uint64_t bits, int field)
{
  return (unsigned)(field - 1) < 2046u ? (bits & MANTISSA) | (MANTISSA + 1) : 0;
}

/* Adds values in units; false: some value does not fit the units.
 *
 *   x = m * 2^e      shifted left by e - low: a whole number of units 2^(low - 1075), in 128 bits
 *
 * The vector function tells whether all values fit; the sums are discarded if one does not. */
static bool add_units(place to, const block *b, const tsr__tallies *plan, const tsr__unit *unit)
{
  uint64_t low[BLOCK], high[BLOCK];
  bool held = plan->tiles->units(low, high, b->real, b->n, unit);
  for (int i = 0; i < b->n; i++)
    add_128(group_word(to, b->group[i]), (tsr__u128)high[i] << 64 | low[i]);
  return held;
}

typedef struct lows {
  int x, y;
} lows;

/* Adds a product, shifted up by less than 64; `minus`: all ones where it is taken off. */
static inline void add_shifted(uint64_t *word, tsr__u128 product, int shift, uint64_t minus)
{
  /* Negated by turning all bits and adding one, without a branch: signs follow no rule. */
  tsr__u128 down = product << shift, sign = (tsr__u128)minus << 64 | minus;
  /* The bits that the shift pushed beyond 128; two steps, as a shift by 64 is not defined. */
  uint64_t up = (uint64_t)((product >> 64) >> 1 >> (63 - shift));
  add_192(word, (down ^ sign) - sign, (up ^ minus) + (down ? 0 : minus & 1));
}

static void add_unit_products(place to, const block *b, const double *y, lows low)
{
  for (int i = 0; i < b->n; i++) {
    uint64_t left = bits_of_double(b->real[i]), right = bits_of_double(y[i]);
    int field = (int)(left >> 52 & 0x7ff), other = (int)(right >> 52 & 0x7ff);
    /* Exponents in units add up; `& 63` keeps the shift defined for values that are not in the
     * span, whose column is found out by its own sum. */
    int shift = (field - low.x + other - low.y) & 63;
    tsr__u128 product = (tsr__u128)mantissa_of(left, field) * mantissa_of(right, other);
    add_shifted(group_word(to, b->group[i]), product, shift,
                (uint64_t)((int64_t)(left ^ right) >> 63));
  }
}

/* The size of an integer and, all ones or none, its sign. */
static inline uint64_t size_and_sign_of(const block *b, int i, uint64_t *minus)
{
  uint64_t value = (uint64_t)b->whole[i];
  *minus = b->natural ? 0 : (uint64_t)((int64_t)value >> 63);
  return (value ^ *minus) - *minus;
}

/* Products of floats in units with integers. */
static void add_mixed_units(place to, const block *b, const block *whole, int low)
{
  for (int i = 0; i < b->n; i++) {
    uint64_t bits = bits_of_double(b->real[i]), minus;
    tsr__u128 size = size_and_sign_of(whole, i, &minus);
    int field = (int)(bits >> 52 & 0x7ff);
    add_shifted(group_word(to, b->group[i]), size * mantissa_of(bits, field), (field - low) & 63,
                minus ^ (uint64_t)((int64_t)bits >> 63));
  }
}

/* Products with floats of any size: 64 bits are two f64, whose products are added as they are. */
static void add_mixed_rows(tsr__rows *rows, const block *b, const block *whole)
{
  for (int i = 0; i < b->n; i++) {
    uint64_t minus, size = size_and_sign_of(whole, i, &minus);
    double sign = minus ? -1 : 1, x = b->real[i] * sign;
    tsr__rows_add_product(rows, b->group[i], x, (double)(size >> 32) * 0x1p32);
    tsr__rows_add_product(rows, b->group[i], x, (double)(uint32_t)size);
  }
}

/* The same flags as an exact sum's, or-ed a group. */
static void add_saw(place to, const block *b)
{
  for (int i = 0; i < b->n; i++) {
    double x = b->real[i];
    /* Some value that is not -0 was there: only sums of -0 alone are -0. */
    uint64_t saw = TSR__SAW_OTHER;
    if (x != x) saw |= TSR__SAW_NAN;
    else if (isinf(x)) saw |= x > 0 ? TSR__SAW_PINF : TSR__SAW_NINF;
    else if (x == 0 && signbit(x)) saw = TSR__SAW_NEG_ZERO;
    *group_word(to, b->group[i]) |= saw;
  }
}

static inline void keep_largest(uint64_t *word, uint64_t key)
{
  *word = key > *word ? key : *word;
}

#define SIGN (UINT64_C(1) << 63)

/*    text    rank of the text (upper 32) | code (lower 32)     the code is read back
 *    float   order key, NaN largest
 *    min     the key turned around, so that one function keeps the largest */
static void add_order_keys(place to, const block *b, const tsr__group_record *t, bool real)
{
  uint64_t flip = t->inverted ? ~UINT64_C(0) : 0;
  if (t->map) {
    for (int i = 0; i < b->n; i++) {
      int64_t code = b->whole[i], rank = code >= 0 && code < t->map_count ? t->map[code] : -1;
      uint64_t key = (uint64_t)(uint32_t)rank << 32 | (uint32_t)code;
      keep_largest(group_word(to, b->group[i]), key ^ flip << 32);
    }
  } else if (real) {
    for (int i = 0; i < b->n; i++) {
      double x = b->real[i];
      int64_t key = x != x ? INT64_MAX : tsr__key_of_f64(x);
      keep_largest(group_word(to, b->group[i]), (uint64_t)key ^ SIGN ^ flip);
    }
  } else {
    uint64_t change = b->natural ? flip : SIGN ^ flip;
    for (int i = 0; i < b->n; i++)
      keep_largest(group_word(to, b->group[i]), (uint64_t)b->whole[i] ^ change);
  }
}

static void add_true(place to, const block *b, bool inverted, bool real)
{
  for (int i = 0; i < b->n; i++) {
    /* "all" is "no value is false": one bit a group either way, and zero at the start for both. */
    bool is = real ? b->real[i] != 0 : b->whole[i] != 0;
    *group_word(to, b->group[i]) |= is != inverted;
  }
}

/* The largest number of a row: tasks may come in any order. */
static void add_last(place to, const block *b, const tsr__group_record_rows *rows, int64_t at)
{
  for (int i = 0; i < b->n; i++)
    keep_largest(group_word(to, b->group[i]),
                 rows->row ? rows->row[at + i] : (uint64_t)(rows->start + at + i));
}

static void add_double_rows(tsr__rows *rows, const block *b, const double *y)
{
  for (int i = 0; i < b->n; i++) {
    if (y) tsr__rows_add_product(rows, b->group[i], b->real[i], y[i]);
    else tsr__rows_add(rows, b->group[i], b->real[i]);
  }
}

/* Whether no value is larger than `most`, a power of two less one; no u64 may have a bit above it.
 * A sum in 64 bits is right as long as no value exceeds the bound that the sampled rows gave. */
static bool values_within(const tsr__tallies *plan, const block *b, int64_t most)
{
  if (!b->natural) return plan->tiles->within(b->whole, b->n, most);
  uint64_t seen = 0;
  for (int i = 0; i < b->n; i++) seen |= (uint64_t)b->whole[i];
  return seen <= (uint64_t)most;
}

/* Rows of one column, and of another one where products are kept. */
typedef struct pair {
  const block *x, *y;
} pair;

/* Whether products are of a column of floats and one of integers. */
static bool is_mixed(const tsr__tallies *plan, const tsr__group_record *t)
{
  return t->other >= 0 && tsr__dtype_is_real(plan->columns[t->column].dtype) !=
                              tsr__dtype_is_real(plan->columns[t->other].dtype);
}

/* False: some value lies outside the span of its column, which its sum finds out. */
static bool add_tally_block(const tsr__tallies *plan, const tsr__group_record *t,
                            tsr__group_record_state *state, const pair *b)
{
  tsr_dtype dtype = t->column < 0 ? TSR_I64 : plan->columns[t->column].dtype;
  bool real = tsr__dtype_is_real((tsr_dtype)dtype);
  place to = { state->record + t->offset, plan->stride };
  const block *x = b->x, *y = b->y;
  switch (t->kind) {
  case TSR__RECORD_COUNT: add_count(to, x); break;
  case TSR__RECORD_FIX: return add_units(to, x, plan, &plan->span[t->column].unit);
  case TSR__RECORD_FIX2:
    if (is_mixed(plan, t)) {
      add_mixed_units(to, x, y, plan->span[t->column].unit.low);
      break;
    }
    add_unit_products(to, x, y->real,
                      (lows){ plan->span[t->column].unit.low, plan->span[t->other].unit.low });
    break;
  case TSR__RECORD_SAW: add_saw(to, x); break;
  case TSR__RECORD_KEY: add_order_keys(to, x, t, real); break;
  case TSR__RECORD_TRUE: add_true(to, x, t->inverted, real); break;
  case TSR__RECORD_ROWS:
  case TSR__RECORD_ROWS2:
    if (is_mixed(plan, t)) add_mixed_rows(&state->rows[t->offset], x, y);
    else add_double_rows(&state->rows[t->offset], x, y ? y->real : NULL);
    break;
  default: add_whole(to, x, y ? y->whole : NULL, t->kind);
  }
  return t->kind != TSR__RECORD_I64 || y || values_within(plan, x, plan->span[t->column].most);
}

bool tsr__group_record_add(const tsr__tallies *plan, tsr__group_record_state *state,
                           const tsr__group_record_rows *rows)
{
  block b, second;
  bool held = true;
  for (int64_t at = 0; at < rows->count; at += BLOCK) {
    for (int k = 0; k < plan->count; k++) {
      const tsr__group_record *t = &plan->item[k];
      /* Values are loaded once for tallies of one column that follow one another. */
      if (!k || t->column != plan->item[k - 1].column)
        load_rows_of_block(plan, t->column, rows, at, &b);
      if (t->kind == TSR__RECORD_LAST)
        add_last((place){ state->record + t->offset, plan->stride }, &b, rows, at);
      else {
        /* A column times itself is loaded once. */
        pair both = { &b, t->other < 0 ? NULL : t->other == t->column ? &b : &second };
        if (both.y == &second) load_rows_of_block(plan, t->other, rows, at, &second);
        held = add_tally_block(plan, t, state, &both) && held;
      }
    }
  }
  return held;
}

/* ---- joining --------------------------------------------------------------------------------- */

static void merge_one(const tsr__group_record *t, uint64_t *to, const uint64_t *from)
{
  switch (t->kind) {
  case TSR__RECORD_COUNT:
  case TSR__RECORD_I64: *to += *from; break;
  case TSR__RECORD_I128:
  case TSR__RECORD_FIX: add_128(to, (tsr__u128)from[1] << 64 | from[0]); break;
  case TSR__RECORD_I192:
  case TSR__RECORD_FIX2: add_192(to, (tsr__u128)from[1] << 64 | from[0], from[2]); break;
  case TSR__RECORD_SAW:
  case TSR__RECORD_TRUE: *to |= *from; break;
  default: keep_largest(to, *from);
  }
}

void tsr__group_record_merge(const tsr__tallies *plan, tsr__group_record_state *into,
                             const tsr__group_record_state *from, int64_t first, int64_t count)
{
  for (int k = 0; k < plan->count; k++) {
    const tsr__group_record *t = &plan->item[k];
    /* Rows of doubles lie beside the records and join by their own function. */
    if (t->kind == TSR__RECORD_ROWS || t->kind == TSR__RECORD_ROWS2) continue;
    place to = { into->record + t->offset, plan->stride };
    place of = { from->record + t->offset, plan->stride };
    for (int64_t g = first; g < first + count; g++)
      merge_one(t, group_word(to, (uint32_t)g), group_word(of, (uint32_t)g));
  }
}

/* ---- spans of columns ------------------------------------------------------------------------ */

/* A worker's finds of one column: which signs and exponents occur, or smallest and largest. */
typedef struct finds {
  uint8_t seen[4096];
  bool denormal;
  int64_t least, most;
  uint64_t natural; /* the largest, of u64 */
  int64_t rows;     /* in the sampled parts */
} finds;

typedef struct scan {
  const tsr__group_record_look *look;
  const tsr__tallies *plan;
  const int *columns; /* the summed ones */
  int count;
  finds *finds; /* [worker * count + i] */
} scan;

static void look_f64(finds *f, const double *x, int64_t n)
{
  bool denormal = false;
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = bits_of_double(x[i]);
    /* Sign and exponent are 12 bits: a table of them is filled without a branch, and read when
     * all is done. */
    f->seen[bits >> 52] = 1;
    /* Without its sign a denormal is 1 to MANTISSA; 0 wraps to the largest value and is no
     * denormal. */
    denormal |= (bits << 1) - 1 < 2 * MANTISSA + 1;
  }
  f->denormal = f->denormal || denormal;
}

static void look_i64(finds *f, const int64_t *x, int64_t n)
{
  int64_t least = f->least, most = f->most;
  for (int64_t i = 0; i < n; i++) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  f->least = least;
  f->most = most;
}

static void look_u64(finds *f, const int64_t *x, int64_t n)
{
  for (int64_t i = 0; i < n; i++)
    f->natural = (uint64_t)x[i] > f->natural ? (uint64_t)x[i] : f->natural;
}

/* Bytes under nulls are arbitrary: 0 changes no find of a column. */
static void hide_nulls(const tsr__colparts *column, const tsr__group_record_rows *rows, int64_t at,
                       block *b)
{
  const tsr__buffer *valid = column->valid ? column->valid[rows->part] : NULL;
  if (!valid) return;
  const uint64_t *bits = tsr__cpu_data(valid);
  bool real = tsr__dtype_is_real((tsr_dtype)column->dtype);
  const void *from = real ? (const void *)b->real : (const void *)b->whole;
  const int64_t *x = from;
  for (int i = 0; i < b->n; i++) {
    int64_t row = rows->start + at + i;
    b->values[i] = x[i] & -(int64_t)(bits[row / 64] >> (row % 64) & 1);
  }
  void *room = b->values;
  b->whole = b->values;
  b->real = room;
}

static void scan_task(void *user, int64_t task, int worker)
{
  const scan *s = user;
  int64_t pieces = tsr__piece_count(s->look->parts, TSR__PIECE_ROWS);
  int k = (int)(task / pieces);
  const tsr__colparts *column = &s->plan->columns[s->columns[k]];
  tsr__piece piece = tsr__piece_of(s->look->parts, TSR__PIECE_ROWS, task % pieces);
  finds *f = &s->finds[(int64_t)worker * s->count + k];
  /* A block of each piece: some rows of everywhere, as columns are often sorted. */
  if (!s->look->all && piece.count > BLOCK) piece.count = BLOCK;
  tsr__group_record_rows rows = { .part = piece.part, .start = piece.start, .count = piece.count };
  for (int64_t at = 0; at < piece.count; at += BLOCK) {
    block b;
    b.n = piece.count - at < BLOCK ? (int)(piece.count - at) : BLOCK;
    take_block_values(column, &rows, at, &b);
    hide_nulls(column, &rows, at, &b);
    if (tsr__dtype_is_real((tsr_dtype)column->dtype)) look_f64(f, b.real, b.n);
    else if (b.natural) look_u64(f, b.whole, b.n);
    else look_i64(f, b.whole, b.n);
  }
}

/* Units of 2^(low - 1075): within these exponents nothing that is read from sums or squares comes
 * near the ends of f64, so that scaling by the unit is exact. */
enum { LOWEST = 1075 - 400, HIGHEST = 1075 + 400 };

/* Units with room for values larger and smaller than those seen, but no more for small ones than
 * are likely: means of smaller sums are read faster. */
static void judge_floats(tsr__column_span *span, const finds *f, int64_t rows, bool squared)
{
  int low = 0, high = 0, count = tsr__used_bits((uint64_t)rows);
  /* Exponent 0 marks zeros and denormals, 2047 infinities and NaN: neither bounds the units. */
  for (int e = 1; e < 2047; e++) {
    if (!f->seen[e] && !f->seen[2048 + e]) continue;
    low = low ? low : e;
    high = e;
  }
  /* Nothing but zeros (or no numbers): any unit will do. */
  if (!low) low = high = 1075;
  /*   128 bits    sign | count: bits that `rows` sums add | 53 of a mantissa | exponents' spread
   *
   * The shift by the spread must stay below 64, too. */
  int most = 126 - 53 - count < 63 ? 126 - 53 - count : 63;
  int most_squares = (191 - count) / 2 - 53 < 31 ? (191 - count) / 2 - 53 : 31;
  bool near_one = low >= LOWEST && high <= HIGHEST && !f->denormal;
  span->narrow = near_one && high - low <= most;
  span->narrow_squares = near_one && squared && high - low <= most_squares;
  if (span->narrow_squares) most = most_squares;
  /* Three quarters of the spare bits lie below the smallest exponent seen, but at most twelve. */
  int room = most - (high - low), below = 3 * room / 4 < 12 ? 3 * room / 4 : 12;
  span->unit.low = low - below > LOWEST ? low - below : LOWEST;
  span->unit.width = HIGHEST - span->unit.low < most ? HIGHEST - span->unit.low : most;
  /* Infinities and NaN of either sign, and -0. */
  span->unit.special = f->seen[2047] || f->seen[4095] || f->seen[2048];
}

/* The largest power of two, less one, such that `rows` values of that size (or their squares) sum
 * to less than 2^63. */
static int64_t most_whole(int64_t rows, bool squares)
{
  int bits = 63 - tsr__used_bits((uint64_t)rows);
  return (int64_t)((UINT64_C(1) << (squares ? bits / 2 : bits)) - 1);
}

static void judge_whole(tsr__column_span *span, const finds *f, int64_t rows, bool squared)
{
  /* Unsigned: the size of INT64_MIN is no i64. */
  uint64_t down = f->least < 0 ? 0 - (uint64_t)f->least : 0,
           up = f->most > 0 ? (uint64_t)f->most : 0;
  uint64_t size = down > up ? down : up;
  size = f->natural > size ? f->natural : size;
  span->narrow_squares = squared && size <= (uint64_t)most_whole(rows, true);
  /* One bound serves both sums: values must be smaller if squares are to fit. */
  span->most = most_whole(rows, span->narrow_squares);
  span->narrow = size <= (uint64_t)span->most;
}

static void join_finds(finds *to, const finds *from)
{
  for (int e = 0; e < 4096; e++) to->seen[e] |= from->seen[e];
  to->denormal = to->denormal || from->denormal;
  to->least = from->least < to->least ? from->least : to->least;
  to->most = from->most > to->most ? from->most : to->most;
  to->natural = from->natural > to->natural ? from->natural : to->natural;
  to->rows += from->rows;
}

static void join_all_finds(void *into, const void *other, size_t size)
{
  finds *to = into;
  const finds *from = other;
  for (size_t k = 0; k < size / sizeof *to; k++) join_finds(&to[k], &from[k]);
}

/* Joins the finds of all workers and of all processes that share the rows. Records of all parts may
 * be joined, so all have one layout, made for all rows. */
static tsr_status bring_together(const scan *s, int workers, tsr__error *error)
{
  const tsr__agreeing *agree = s->look->agree;
  const tsr__parts *parts = s->look->parts;
  for (int k = 0; k < s->count; k++) {
    for (int w = 1; w < workers; w++)
      join_finds(&s->finds[k], &s->finds[(int64_t)w * s->count + k]);
    for (int p = 0; p < parts->count; p++) s->finds[k].rows += parts->rows[p];
  }
  if (!agree) return TSR_OK;
  return agree->meet(agree->user, s->finds, (size_t)s->count * sizeof *s->finds, join_all_finds,
                     error);
}

static void judge_columns(const scan *s)
{
  for (int k = 0; k < s->count; k++) {
    int64_t rows = s->finds[k].rows;
    tsr_dtype dtype = s->plan->columns[s->columns[k]].dtype;
    tsr__column_span *span = &s->plan->span[s->columns[k]];
    bool squared = s->look->summed[s->columns[k]] == TSR__SQUARED;
    if (tsr__dtype_is_real((tsr_dtype)dtype)) judge_floats(span, &s->finds[k], rows, squared);
    else judge_whole(span, &s->finds[k], rows, squared);
  }
}

tsr_status tsr__group_record_scan(tsr_runtime *rt, const tsr__group_record_look *look,
                                  tsr__tallies *plan, tsr__error *error)
{
  int workers = tsr__worker_count(rt), columns = plan->column_count;
  int *list = tsr__new(&rt->heap, (size_t)(columns + 1) * sizeof *list);
  scan s = { .look = look, .plan = plan, .columns = list };
  for (int c = 0; list && c < columns; c++)
    if (look->summed[c]) list[s.count++] = c;
  size_t bytes = (size_t)workers * (size_t)(s.count + 1) * sizeof *s.finds;
  s.finds = list ? tsr__new(&rt->heap, bytes) : NULL;
  tsr_status status = TSR_OK;
  if (s.finds) {
    int64_t tasks = tsr__piece_count(look->parts, TSR__PIECE_ROWS) * s.count;
    if (!tsr__parallel_long(rt, "group by", tasks, scan_task, &s))
      status = tsr__cancelled(error, "group by");
    if (!status) status = bring_together(&s, workers, error);
    if (!status) judge_columns(&s);
  } else {
    status = tsr__error_set(error, TSR_ENOMEM, "group by: no memory to look at columns");
  }
  tsr__del(&rt->heap, s.finds, bytes);
  tsr__del(&rt->heap, list, (size_t)(columns + 1) * sizeof *list);
  return status;
}
