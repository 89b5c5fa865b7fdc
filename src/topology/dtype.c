/* Element types: dtypes.def as data, and how two of them meet.
 *
 *   i32 -> i64 -> f16, bf16 -> f32 -> f64     INTO_I64: the set { i64, f16, bf16, f32, f64 }
 *
 * Invariant: INTO_x is x and all that lies above it, so the least type of a set that two types
 * share is the one whose own set is just that.
 *
 *   INTO_I32: 1 << i32 | INTO_I64      INTO_I64: 1 << i64 | INTO_F16 | INTO_BF16      ...
 */
#include "topology/half.h"
#include "topology/topology.h"

#ifdef TESSERA_TEST_KIND
#define TSR_TEST ((tsr_dtype)15)
#endif

/* Each row names those just above it, which are defined by then: rows go from the top down, so
 * that the sets close of themselves. */
enum {
#define DTYPE(id, text, width, what, significant, least, register_, npy_text, arrow_text, code, \
              above)                                                                            \
  INTO_##id = 1 << TSR_##id | (above),
#include "topology/dtypes.def"
};

/* Columns of kinds by the names that dtypes.def has for them. */
enum {
  BITS = TSR__DTYPE_BITS,
  HAS_NAN = TSR__DTYPE_HAS_NAN,
  ROUNDS = TSR__DTYPE_ROUNDS,
  GRADIENT = TSR__DTYPE_GRADIENT
};
enum {
#define KIND(id, text, how, what) NUMBERS_##id = TSR__NUMBERS_##how, TRAITS_##id = (what),
#include "topology/dtypes.def"
};

static const char *const kind_names[] = {
#define KIND(id, text, how, what) [TSR__DTYPE_##id] = text,
#include "topology/dtypes.def"
};

typedef struct dtype_row {
  tsr__dtype_info info;
  unsigned into;
} dtype_row;

static const dtype_row rows[TSR__DTYPES] = {
  /* Whoever asks for a dtype that is none gets this row, and need not look whether it is there. */
  [0] = { .info = { .name = "?", .npy = "", .arrow = "" } },
#define DTYPE(id, text, width, what, significant, least, register_, npy_text, arrow_text, code, \
              above)                                                                            \
  [TSR_##id] = { .info = { .name = text,                                                        \
                           .bits = width,                                                       \
                           .kind = TSR__DTYPE_##what,                                           \
                           .numbers = NUMBERS_##what,                                           \
                           .traits = TRAITS_##what,                                             \
                           .precision = significant,                                            \
                           .lowest = least,                                                     \
                           .computes = TSR_##register_,                                         \
                           .npy = npy_text,                                                     \
                           .arrow = arrow_text,                                                 \
                           .dlpack = code },                                                    \
                 .into = INTO_##id },
#include "topology/dtypes.def"
};

static const dtype_row *row_of(tsr_dtype dtype)
{
  unsigned index = (unsigned)dtype;
  /* As unsigned, so that negative numbers are beyond the end, too; gaps between the rows have no
   * name. */
  return index < TSR__DTYPES && rows[index].info.name ? &rows[index] : &rows[0];
}

const tsr__dtype_info *tsr__dtype_info_of(tsr_dtype dtype)
{
  return &row_of(dtype)->info;
}

tsr_dtype tsr__promote(tsr_dtype a, tsr_dtype b)
{
  if (a == b || !b) return a;
  if (!a) return b;
  /*   i32 and u32:  { i32 i64 f16 ... } and { u32 u64 i64 f16 ... }  ->  { i64 f16 ... } = INTO_I64
   *   i64 and u64:  { f16 bf16 f32 f64 }, which is the set of no type: f64 */
  unsigned both = row_of(a)->into & row_of(b)->into;
  for (int dtype = 1; dtype < TSR__DTYPES; dtype++)
    if (both >> dtype & 1 && rows[dtype].into == both) return (tsr_dtype)dtype;
  /* Two integers that no integer holds meet where f16 and bf16 part: in the default float. */
  return TSR_F64;
}

int64_t tsr__elements_bytes(tsr_dtype dtype, int64_t count)
{
  return dtype == TSR_BOOL ? (count + 7) / 8 : count * (int64_t)tsr_dtype_size(dtype);
}

tsr_status tsr__dtype_check(tsr_dtype dtype, tsr__error *error)
{
  static const char use[] = "use TSR_BOOL, TSR_I8 ... TSR_I64, TSR_U8 ... TSR_U64, TSR_F16, "
                            "TSR_BF16, TSR_F32 or TSR_F64";
  const tsr__dtype_info *info = tsr__dtype_info_of(dtype);
  if (info->numbers) return TSR_OK;
  if (!info->kind)
    return tsr__error_set(error, TSR_EDTYPE, "%d is not a dtype; %s", (int)dtype, use);
  return tsr__error_set(error, TSR_EDTYPE, "no array has the dtype %s, of the kind %s; %s",
                        info->name, kind_names[info->kind], use);
}

const char *tsr_dtype_name(tsr_dtype dtype)
{
  return row_of(dtype)->info.name;
}

size_t tsr_dtype_size(tsr_dtype dtype)
{
  return row_of(dtype)->info.bits / 8u;
}

/* ---- elements ---- */

void tsr__dtype_put_real(tsr_dtype dtype, void *to, int64_t i, double value)
{
  switch (dtype) {
  case TSR_F64: ((double *)to)[i] = value; break;
  case TSR_F32: ((float *)to)[i] = (float)value; break;
  /* Through f32 cut to odd, so that the second rounding sees what the first left off: together
   * they round once. */
  case TSR_F16: ((uint16_t *)to)[i] = tsr__f16_of(tsr__odd_of_f64(value)); break;
  default: ((uint16_t *)to)[i] = tsr__bf16_of(tsr__odd_of_f64(value));
  }
}

/* The low bytes come first, so a copy of as many as there are cuts the value. */
void tsr__dtype_put_whole(tsr_dtype dtype, void *to, int64_t i, int64_t value)
{
  size_t size = tsr_dtype_size(dtype);
  memcpy((char *)to + (size_t)i * size, &value, size); /* little-endian */
}

double tsr__dtype_get_real(tsr_dtype dtype, const void *from, int64_t i)
{
  switch (dtype) {
  case TSR_F64: return ((const double *)from)[i];
  case TSR_F32: return (double)((const float *)from)[i];
  case TSR_F16: return (double)tsr__f32_of_f16(((const uint16_t *)from)[i]);
  default: return (double)tsr__f32_of_bf16(((const uint16_t *)from)[i]);
  }
}

/* There and back, so that nothing rounds but the one function that does. */
double tsr__dtype_round(tsr_dtype dtype, double value)
{
  /* 8 bytes hold an element of any dtype of floats. */
  double room;
  tsr__dtype_put_real(dtype, &room, 0, value);
  return tsr__dtype_get_real(dtype, &room, 0);
}

double tsr__dtype_real_of(tsr_dtype dtype, int64_t value, bool natural)
{
  if (dtype == TSR_F64) return natural ? (double)(uint64_t)value : (double)value;
  /* Directly: by way of f64 a 64-bit integer would be rounded twice. */
  if (dtype == TSR_F32) return (double)(natural ? (float)(uint64_t)value : (float)value);
  return tsr__dtype_round(dtype, (double)(natural ? tsr__odd_of_u64((uint64_t)value)
                                                  : tsr__odd_of_i64(value)));
}

int64_t tsr__dtype_get_whole(tsr_dtype dtype, const void *from, int64_t i)
{
  switch (dtype) {
  case TSR_BOOL:
  case TSR_U8: return ((const uint8_t *)from)[i];
  case TSR_I8: return ((const int8_t *)from)[i];
  case TSR_I16: return ((const int16_t *)from)[i];
  case TSR_U16: return ((const uint16_t *)from)[i];
  case TSR_I32: return ((const int32_t *)from)[i];
  case TSR_U32: return ((const uint32_t *)from)[i];
  default: return ((const int64_t *)from)[i];
  }
}

int64_t tsr__dtype_least(tsr_dtype dtype)
{
  const tsr__dtype_info *info = tsr__dtype_info_of(dtype);
  /* Shifts of 63 and 64 bits less the precision: of i64 and u64 they are 0, so none is as wide
   * as its operand. */
  return info->kind == TSR__DTYPE_INT ? -(INT64_MAX >> (63 - info->precision)) - 1 : 0;
}

/* 0 of no dtype: its precision of 0 would shift by 64. An array that lacked memory has no dtype. */
uint64_t tsr__dtype_most(tsr_dtype dtype)
{
  int precision = tsr__dtype_info_of(dtype)->precision;
  return precision ? UINT64_MAX >> (64 - precision) : 0;
}

bool tsr__dtype_holds(tsr_dtype dtype, int64_t value)
{
  return value < 0 ? value >= tsr__dtype_least(dtype) : (uint64_t)value <= tsr__dtype_most(dtype);
}

int tsr__dtype_text(tsr_dtype dtype, const void *from, int64_t i, char *out)
{
  const uint16_t *half = from;
  switch (dtype) {
  case TSR_F64: return tsr__text_f64(out, ((const double *)from)[i]);
  case TSR_F32: return tsr__text_f32(out, ((const float *)from)[i]);
  case TSR_F16: return tsr__text_f16(out, half[i], tsr__dtype_get_real(dtype, from, i));
  case TSR_BF16: return tsr__text_bf16(out, half[i], tsr__dtype_get_real(dtype, from, i));
  case TSR_U64: return tsr__text_u64(out, ((const uint64_t *)from)[i]);
  default: return tsr__text_i64(out, tsr__dtype_get_whole(dtype, from, i));
  }
}
