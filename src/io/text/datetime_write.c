/* Writing dates and times, in the proleptic Gregorian calendar and UTC; datetime.c reads them.
 *
 * Days are counted from 1970-01-01. The arithmetic works in eras of 400 years (146,097 days) that
 * begin in March, so that the leap day comes last and month lengths follow a line (the method is
 * Howard Hinnant's, "chrono-compatible low-level date algorithms"). */
#include "io/text/datetime.h"

#include <stdio.h>
#include <stdlib.h>

#define DAY_MICROS INT64_C(86400000000)

int tsr__date_write(int64_t days, char *out)
{
  int64_t z = days + 719468;
  int64_t era = (z >= 0 ? z : z - 146096) / 146097;
  int64_t of_era = z - era * 146097;
  int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
  int64_t m = (5 * of_year + 2) / 153;
  int64_t day = of_year - (153 * m + 2) / 5 + 1, month = m < 10 ? m + 3 : m - 9;
  year += era * 400 + (month <= 2);
  return snprintf(out, 40, "%s%04lld-%02d-%02d", year < 0 ? "-" : "", llabs((long long)year),
                  (int)month, (int)day);
}

int tsr__time_write(int64_t micros, char *out)
{
  int64_t days = micros / DAY_MICROS, rest = micros % DAY_MICROS;
  if (rest < 0) {
    rest += DAY_MICROS;
    days--;
  }
  int length = tsr__date_write(days, out);
  int second = (int)(rest / 1000000), part = (int)(rest % 1000000);
  length += snprintf(out + length, 40 - (size_t)length, "T%02d:%02d:%02d", second / 3600,
                     second / 60 % 60, second % 60);
  if (part) length += snprintf(out + length, 40 - (size_t)length, ".%06d", part);
  if (length < 39) out[length++] = 'Z';
  out[length] = 0;
  return length;
}
