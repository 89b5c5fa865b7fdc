/* Single values as arguments: numbers beside arrays and frames, values for the `?` of expressions.
 *
 * The macros choose by C type and list every type that they take. Other types, such as long double
 * and _Float16, do not compile: convert explicitly, tsr_add(x, (double)y). */
#ifndef TESSERA_SCALAR_H
#define TESSERA_SCALAR_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which member of a tsr_scalar holds its value. */
typedef enum tsr_scalar_kind {
  TSR_SCALAR_NONE = 0, /* no value */
  TSR_SCALAR_BOOL,     /* i, 0 or 1 */
  TSR_SCALAR_INT,      /* i */
  TSR_SCALAR_UINT,     /* u */
  TSR_SCALAR_FLOAT,    /* f */
  TSR_SCALAR_TEXT      /* text, borrowed for the call; NULL is a null */
} tsr_scalar_kind;

/* One value with its kind, so that large integers keep their bits. */
typedef struct tsr_scalar {
  tsr_scalar_kind kind;
  union {
    int64_t i;
    uint64_t u;
    double f;
    const char *text;
  };
} tsr_scalar;

/* Returns a bool as a value; the macro TSR_VALUE chooses among this and the next functions.
 * Local. */
TSR_API tsr_scalar tsr_scalar_bool(bool value);
/* Returns an integer as a value. Local. */
TSR_API tsr_scalar tsr_scalar_int(long long value);
/* Returns an unsigned integer as a value; it keeps its bits. Local. */
TSR_API tsr_scalar tsr_scalar_uint(unsigned long long value);
/* Returns a float as a value. Local. */
TSR_API tsr_scalar tsr_scalar_float(double value);
/* Returns a text as a value; the text is borrowed, NULL is a null. Local. */
TSR_API tsr_scalar tsr_scalar_text(const char *value);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* clang-format off */
/* The number types of a _Generic selection: the function for signed integers (and for unsigned ones
 * that fit them), the one for unsigned integers, and the one for floats. */
#define TSR_NUMBERS_(signed_, unsigned_, float_)                                      \
      char: signed_, signed char: signed_, unsigned char: signed_,                    \
      short: signed_, unsigned short: signed_, int: signed_, unsigned: unsigned_,     \
      long: signed_, long long: signed_,                                              \
      unsigned long: unsigned_, unsigned long long: unsigned_,                        \
      float: float_, double: float_
/* TSR_VALUE(3), TSR_VALUE("x"): a tsr_scalar of a number, a bool or a text. */
#define TSR_VALUE(x)                                                                  \
  _Generic((x),                                                                       \
      char *: tsr_scalar_text, const char *: tsr_scalar_text,                         \
      bool: tsr_scalar_bool,                                                          \
      TSR_NUMBERS_(tsr_scalar_int, tsr_scalar_uint, tsr_scalar_float))(x)
/* clang-format on */
#endif

#endif
