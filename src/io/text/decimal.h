/* Decimal text to double, correctly rounded (to nearest, ties to even) whatever its length.
 *
 * Numbers with few digits go through exact double arithmetic; the others through a product
 * with a 128-bit power of five whose error is known, so that the result is either certain or
 * known to be hard; hard ones go to the C library. Results never depend on the locale. */
#ifndef TSR_IO_DECIMAL_H
#define TSR_IO_DECIMAL_H

#include "topology/topology.h"

typedef struct tsr__decimal tsr__decimal;

/* NULL: out of memory. */
tsr__decimal *tsr__decimal_open(tsr__heap *heap);
void tsr__decimal_close(tsr__decimal *decimal);
/* Sets the byte between whole and fraction; it is '.' until then. */
void tsr__decimal_set_point(tsr__decimal *decimal, char point);

typedef enum tsr__number {
  TSR__NUMBER_NONE, /* no number */
  TSR__NUMBER_INT,  /* digits only, fits i64 */
  TSR__NUMBER_BIG,  /* digits only, does not fit i64 */
  TSR__NUMBER_FLOAT /* has a point or an exponent, or is inf or nan */
} tsr__number;

/* Reads all of at[0..length) as a number: [+-] digits [. digits] [e [+-] digits] with a digit on
 * at least one side of the point, or [+-] inf, infinity or nan in any case. No spaces. Writes
 * `*real` always (overflow gives an infinity, underflow a zero of the right sign) and
 * `*integer` for TSR__NUMBER_INT; for TSR__NUMBER_NONE both are untouched. */
tsr__number tsr__decimal_read(const tsr__decimal *decimal, const char *at, size_t length,
                              int64_t *integer, double *real);

/* The number that a text says as a float, rounded once; `real` is what tsr__decimal_read made of
 * the text. */
float tsr__decimal_narrow(const tsr__decimal *decimal, const char *at, size_t length, double real);
/* The same for any dtype of floats. */
double tsr__decimal_round(const tsr__decimal *decimal, tsr_dtype dtype, const char *at,
                          size_t length, double real);
/* Reads digits that i64 does not hold (TSR__NUMBER_BIG); false: u64 does not either. */
bool tsr__decimal_natural(const char *at, size_t length, uint64_t *out);

#endif
