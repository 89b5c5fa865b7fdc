/* Statuses as text, errors carried without a scope, and the end of a broken promise. Names, values
 * and texts stand once, in TSR_STATUS_MAP. */
#include "base/base.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

const char *tsr_status_name(tsr_status status)
{
  switch (status) {
#define STATUS_NAME(name, value, text) \
  case TSR_##name: return "TSR_" #name;
    TSR_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
  }
  return "TSR_EUNKNOWN";
}

const char *tsr_status_text(tsr_status status)
{
  switch (status) {
#define STATUS_TEXT(name, value, text) \
  case TSR_##name: return text;
    TSR_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
  }
  return "a status this library does not know";
}

/* Without memory for a locale something is said all the same. */
const char *tsr__sys_text(int code, char *buffer, size_t size)
{
  /* The user's locale would translate the message; strerror is not for threads. */
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  snprintf(buffer, size, "%s", plain ? strerror_l(code, plain) : "an error of the system");
  if (plain) freelocale(plain);
  return buffer;
}

#define DOTTED(a, b, c) TSR_STRINGIZE(a) "." TSR_STRINGIZE(b) "." TSR_STRINGIZE(c)

const char *tsr_version(void)
{
  return DOTTED(TSR_VERSION_MAJOR, TSR_VERSION_MINOR, TSR_VERSION_PATCH);
}

/* Ends a text that did not fit with "...", never in the middle of a UTF-8 character. The NUL and
 * three dots take the last four bytes. */
static void mark_cut(char *text, size_t size)
{
  size_t at = size - 4;
  while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80) at--;
  memcpy(text + at, "...", 4);
}

/* The text is cut to the room that an error has, and made safe to print. */
tsr_status tsr__error_vset(tsr__error *error, tsr_status status, const char *format, va_list args)
{
  /* The first error stays: it is the cause of what comes after it. */
  if (!error || error->status != TSR_OK || status == TSR_OK) return status;
  error->status = status;
  int length = vsnprintf(error->text, sizeof error->text, format, args);
  if (length < 0) error->text[0] = '\0';
  if (length >= (int)sizeof error->text) mark_cut(error->text, sizeof error->text);
  /* It quotes what users wrote and files contain. */
  tsr__text_tame(error->text);
  return status;
}

tsr_status tsr__error_set(tsr__error *error, tsr_status status, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  tsr__error_vset(error, status, format, args);
  va_end(args);
  return status;
}

/* The one place that prints and ends the process: a promise of ours is broken, and whatever went
 * on could give wrong numbers. */
_Noreturn void tsr__invariant_broken(const char *what, const char *file, int line)
{
  fprintf(stderr, "tessera: %s:%d: a promise of the library is broken: %s\n", file, line, what);
  abort();
}
