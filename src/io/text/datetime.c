/* Dates and time stamps as text. */
#include "io/text/datetime.h"

/* `count` digits as a number; -1 if one of them is none. */
static int digits(const char *at, int count)
{
  int value = 0;
  for (int i = 0; i < count; i++) {
    unsigned digit = (unsigned char)(at[i] - '0');
    if (digit > 9) return -1;
    value = value * 10 + (int)digit;
  }
  return value;
}

static bool leap(int year)
{
  return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Days before January 1 of a year, from January 1 of year 0. */
static int32_t days_before_year(int year)
{
  /* Leap years are those divisible by 4, less hundreds, plus four hundreds; year 0 is one of
   * them. */
  return 365 * year + (year + 3) / 4 - (year + 99) / 100 + (year + 399) / 400;
}

bool tsr__date_read(const char *at, size_t length, int32_t *out)
{
  static const int16_t before[13] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365 };
  /* The short way out: in a column of texts nothing else is looked at. */
  if (length != 10 || at[4] != '-' || at[7] != '-') return false;
  int year = digits(at, 4), month = digits(at + 5, 2), day = digits(at + 8, 2);
  if (year < 0 || month < 1 || month > 12 || day < 1) return false;
  int in_month = before[month] - before[month - 1] + (month == 2 && leap(year));
  if (day > in_month) return false;
  int32_t in_year = before[month - 1] + (month > 2 && leap(year)) + day - 1;
  *out = days_before_year(year) + in_year - 719528;
  return true;
}

/* .f to .fffffffff as microseconds; moves `at` on; -1 if it is none. */
static int fraction(const char **at, const char *end)
{
  const char *c = *at + 1;
  int value = 0, count = 0;
  for (; c < end && (unsigned char)(*c - '0') < 10; c++, count++) {
    if (count < 6) value = value * 10 + (*c - '0');
    else if (*c != '0') return -1;
  }
  if (count == 0 || count > 9) return -1;
  for (; count < 6; count++) value *= 10;
  *at = c;
  return value;
}

/* Nothing, Z or +hh:mm up to the end; minutes east of UTC. */
static bool offset(const char *at, const char *end, int *minutes)
{
  *minutes = 0;
  if (at == end) return true;
  if (*at == 'Z') return at + 1 == end;
  if ((*at != '+' && *at != '-') || end - at != 6 || at[3] != ':') return false;
  int hour = digits(at + 1, 2), minute = digits(at + 4, 2);
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59) return false;
  *minutes = (*at == '-' ? -1 : 1) * (hour * 60 + minute);
  return true;
}

bool tsr__time_read(const char *at, size_t length, int64_t *out)
{
  int32_t days;
  if (length < 16 || !tsr__date_read(at, 10, &days)) return false;
  if ((at[10] != 'T' && at[10] != ' ') || at[13] != ':') return false;
  int hour = digits(at + 11, 2), minute = digits(at + 14, 2), second = 0, micro = 0, east;
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59) return false;
  const char *end = at + length;
  at += 16;
  if (end - at >= 3 && *at == ':') {
    second = digits(at + 1, 2);
    if (second < 0 || second > 59) return false;
    at += 3;
    if (at < end && *at == '.') micro = fraction(&at, end);
    if (micro < 0) return false;
  }
  if (!offset(at, end, &east)) return false;
  int64_t seconds = (int64_t)days * 86400 + hour * 3600 + minute * 60 + second - east * 60;
  *out = seconds * 1000000 + micro;
  return true;
}
