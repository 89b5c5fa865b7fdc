/* Structs of options and arguments: they begin with their size, so that a caller built with another
 * version's headers is understood or told. */
#include "base/base.h"

bool tsr__opts_beyond(const void *opts, size_t size, size_t known)
{
  const unsigned char *bytes = opts;
  for (size_t i = known; i < size; i++)
    if (bytes[i]) return true;
  return false;
}

/*   caller's older   size | a | b                own  size | a | b | 0
 *   caller's newer   size | a | b | c | d        c and d must be 0: what they ask for is not known
 *
 * Fields are only ever added at the end, and zero is the default of each. */
tsr_status tsr__take_opts(const char *what, const void *opts, void *own, size_t known,
                          tsr__error *error)
{
  size_t size = 0;
  if (!opts) return TSR_OK;
  memcpy(&size, opts, sizeof size);
  if (tsr__opts_beyond(opts, size, known))
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s: an option is set that version %s does not know; load the library "
                          "that the program was compiled for",
                          what, tsr_version());
  /* A size of 0 is of a caller who filled the struct in by hand: it is taken for ours. What an
   * older header lacks stays as it was, zero. */
  memcpy(own, opts, size && size < known ? size : known);
  return TSR_OK;
}

/* ".key = 7" names key, ".keys = k" and "of.key == 7" do not. */
static bool is_set(const char *name, const char *field)
{
  size_t length = strlen(field);
  if (strncmp(name, field, length)) return false;
  const char *next = name + length;
  next += strspn(next, " \t\n");
  return next[0] == '=' && next[1] != '=';
}

bool tsr_argument_is_named(const char *arguments, const char *field)
{
  for (const char *at = arguments; at && field && (at = strchr(at, '.'));)
    if (is_set(++at, field)) return true;
  return false;
}
