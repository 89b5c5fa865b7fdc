/* Dates and time stamps as text: YYYY-MM-DD and YYYY-MM-DD[T ]HH:MM[:SS[.f...]][Z|+hh:mm]. */
#ifndef TSR_IO_DATETIME_H
#define TSR_IO_DATETIME_H

#include "base/base.h"

/* Days since 1970-01-01 of a date of the Gregorian calendar, years 0000 to 9999. Both return false
 * for text that is none, such as 2013-02-29; `out` is untouched then. */
bool tsr__date_read(const char *at, size_t length, int32_t *out);

/* Microseconds since 1970-01-01T00:00Z; without Z or an offset the time is UTC. One to nine digits
 * of a second's fraction; those past the sixth must be zeros, since nothing is cut off. */
bool tsr__time_read(const char *at, size_t length, int64_t *out);

/* Write days and microseconds since 1970-01-01 UTC as 2013-01-31 and 2013-01-31T06:00:00Z (with a
 * fraction where there is one); `out` holds 40 bytes. Return the length. */
int tsr__date_write(int64_t days, char *out);
int tsr__time_write(int64_t micros, char *out);

#endif
