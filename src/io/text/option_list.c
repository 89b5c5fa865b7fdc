/* Lists given as text.
 *
 *   a, "odd, ""name""" i64 , b      ->  a | odd, "name" + i64 | b
 *
 * Invariant: the item's text and word lie in one copy of the list, which shrinks as quotes go. */
#include "io/text/option_list.h"

static bool is_blank(char c)
{
  return c == ' ' || c == '\t' || c == '\n';
}

static char *skip_blanks(char *at)
{
  while (is_blank(*at)) at++;
  return at;
}

/* Ends a text before the blanks that end it. */
static void trim_end(char *from, char *end)
{
  while (end > from && is_blank(end[-1])) end--;
  *end = 0;
}

/* Reads the quoted text at `*at` in place and moves behind its quotes. */
static bool take_quoted(char **at, size_t *length)
{
  char *first = *at, *to = first;
  /* `to` runs behind `from`: two quotes became one, so there is always room. */
  for (char *from = first + 1;; from++) {
    if (!*from) return false;
    if (*from == '"' && *++from != '"') {
      *to = 0;
      *length = (size_t)(to - first);
      *at = from;
      return true;
    }
    *to++ = *from;
  }
}

/* Reads one item and moves behind the comma that follows it. */
static bool take_item(char **at, bool words, tsr__option_item *out, bool *more)
{
  /* A text ends at its comma, or before its word; between quotes it may hold commas and blanks. */
  char *from = skip_blanks(*at), *rest = from;
  bool quoted = *from == '"';
  if (quoted && !take_quoted(&rest, &out->length)) return false;
  char *comma = rest + strcspn(rest, ",");
  *more = *comma == ',';
  *at = comma + *more;
  trim_end(rest, comma);
  out->text = from;
  if (quoted) {
    out->word = skip_blanks(rest);
    return words ? *out->word != 0 : *out->word == 0;
  }
  char *word = comma;
  /* Backwards from the comma to the last blank: what stands behind it is the word. */
  while (words && word > from && (*word == 0 || !is_blank(*word))) word--;
  out->word = words && is_blank(*word) ? word + 1 : "";
  if (words) trim_end(from, word);
  out->length = strlen(from);
  return out->length > 0 && (!words || *out->word);
}

tsr_status tsr__option_list_read(tsr__arena *arena, const tsr__option_list_ask *ask,
                                 tsr__option_list *out, tsr__error *error)
{
  const char *what = ask->what, *text = ask->text;
  bool words = ask->words;
  *out = (tsr__option_list){ 0 };
  if (!text) return TSR_OK;
  size_t most = 1, length = strlen(text);
  /* As many commas as there may be items, and one more; those inside quotes make it too many, never
   * too few. */
  for (size_t i = 0; i < length; i++) most += text[i] == ',';
  char *copy = tsr__arena_text(arena, text, length), *at = copy;
  out->item = tsr__arena_new(arena, most * sizeof *out->item);
  if (!copy || !out->item)
    return tsr__error_set(error, TSR_ENOMEM, "no memory for the list of %s", what);
  for (bool more = true; more; out->count++) {
    const char *from = text + (at - copy);
    if (!take_item(&at, words, &out->item[out->count], &more))
      return tsr__error_set(error, TSR_EARG,
                            "the list of %s is wrong at \"%.60s\"; write the list as %s, with "
                            "double quotes around items that hold a comma",
                            what, from, words ? "name type, name type" : "a, b, c");
  }
  return TSR_OK;
}
