/* Names of fields: lists of them, what files call them, and what is said of one that is not there.
 *
 *   "image, \"a,b\"=pair"      image; a,b as pair */
#include "pipeline/records.h"

#include <stdio.h>

void tsr__name_clean(char *name)
{
  for (; name && *name; name++)
    if (!tsr__name_char(*name)) *name = '_';
}

static char small(char c)
{
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_meant(const char *name, const char *own, bool any_case)
{
  for (; *name && *own; name++, own++) {
    char clean = tsr__name_char(*own) ? *own : '_';
    if (*own != *name && clean != *name && !(any_case && small(*own) == small(*name))) return false;
  }
  return *name == *own;
}

bool tsr__name_meant(const char *name, const char *own)
{
  return is_meant(name, own, false);
}

bool tsr__name_meant_any_case(const char *name, const char *own)
{
  return is_meant(name, own, true);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
  return c == ' ' || c == '\t' || c == '\n';
}

/* A name in quotes, written over itself without them; NULL: they are not closed. */
static char *take_quoted(char **at)
{
  char *name = ++*at, *to = name;
  for (;; ++*at) {
    if (!**at) return NULL;
    if (**at == '"' && *++*at != '"') break;
    *to++ = **at;
  }
  *to = 0;
  return name;
}

/* A name up to one of `ends`, behind which *at is afterwards, or up to the end of the list; NULL:
 * its quotes are wrong. */
static char *take_name(char **at, const char *ends, char *ended_by)
{
  char *name, *end;
  while (is_blank(**at)) ++*at;
  if (**at == '"') {
    name = take_quoted(at);
    while (name && is_blank(**at)) ++*at;
    if (!name || !strchr(ends, **at)) return NULL;
    *ended_by = **at;
  } else {
    name = *at;
    end = *at += strcspn(*at, ends);
    *ended_by = *end;
    while (end > name && is_blank(end[-1])) end--;
    *end = 0;
  }
  if (*ended_by) ++*at;
  return name;
}

/* The next of a list; NULL *at: it was the last. False: its quotes are wrong. */
static bool take_entry(char **at, bool renames, tsr__name_list *out)
{
  char ended_by = 0, *as = NULL, *name = take_name(at, renames ? "=," : ",", &ended_by);
  bool named = name && ended_by == '=';
  if (named) as = take_name(at, ",", &ended_by);
  if (!name || (named && !as)) return false;
  if (ended_by != ',') *at = NULL;
  out->name[out->count] = name;
  out->as[out->count++] = as;
  return true;
}

tsr_status tsr__name_list_read(tsr__arena *arena, const char *list, bool renames,
                               tsr__name_list *out, tsr__error *error)
{
  char *at = tsr__arena_text(arena, list, strlen(list));
  out->count = 0;
  if (!at) return tsr__error_set(error, TSR_ENOMEM, "no memory for names");
  while (at) {
    if (out->count == TSR__MAX_COLUMNS)
      return tsr__error_set(error, TSR_EARG, "more than %d fields", TSR__MAX_COLUMNS);
    if (!take_entry(&at, renames, out))
      return tsr__error_set(error, TSR_EARG,
                            "the list '%.80s' has a name whose double quotes are not closed, or "
                            "close before the name ends",
                            list);
  }
  return TSR_OK;
}

int tsr__name_list_find(const tsr__name_list *names, const char *name)
{
  for (int i = 0; i < names->count; i++)
    if (!strcmp(names->name[i], name)) return i;
  return -1;
}

/* ---- hints ----------------------------------------------------------------------------------- */

void tsr__known_add(tsr__known *known, const char *name, size_t length)
{
  char own[TSR__KNOWN_NAME] = { 0 };
  memcpy(own, name, length < sizeof own ? length : sizeof own - 1);
  for (int i = 0; i < known->count; i++)
    if (!strcmp(known->name[i], own)) return;
  known->more = known->count == TSR__KNOWN;
  if (*own && !known->more) memcpy(known->name[known->count++], own, sizeof own);
}

const char *tsr__known_hint(const tsr__known *known, const char *name, char out[TSR__HINT])
{
  const char *names[TSR__KNOWN];
  int used = 0;
  for (int i = 0; i < known->count; i++) names[i] = known->name[i];
  int near = tsr__text_nearest(name, names, known->count);
  out[0] = 0;
  if (near >= 0) {
    snprintf(out, TSR__HINT, "; did you mean '%s'?", names[near]);
    return out;
  }
  for (int i = 0; i < known->count && used < TSR__HINT / 2; i++)
    used += snprintf(out + used, TSR__HINT - (size_t)used, "%s%s", i ? ", " : "; the names are ",
                     names[i]);
  return out;
}

/* ---- arrays of files ------------------------------------------------------------------------- */

tsr_status tsr__chosen_open(tsr__chosen *chosen, tsr__arena *arena, const char *names,
                            tsr__error *error)
{
  *chosen = (tsr__chosen){ .arena = arena };
  return names ? tsr__name_list_read(arena, names, true, &chosen->list, error) : TSR_OK;
}

const char *tsr__chosen_name(tsr__chosen *chosen, const char *name, size_t length)
{
  const tsr__name_list *list = &chosen->list;
  char *own = tsr__arena_text(chosen->arena, name, length);
  if (!own) return NULL;
  tsr__known_add(&chosen->known, own, strlen(own));
  for (int i = 0; i < list->count; i++) {
    if (!tsr__name_meant(list->name[i], own)) continue;
    chosen->met[i] = true;
    return list->as[i] ? list->as[i] : list->name[i];
  }
  if (list->count) return "";
  tsr__name_clean(own);
  return own;
}

tsr_status tsr__chosen_check(const tsr__chosen *chosen, tsr__error *error)
{
  char hint[TSR__HINT];
  for (int i = 0; i < chosen->list.count; i++)
    if (!chosen->met[i])
      return tsr__error_set(error, TSR_EPARSE, "there is no array '%.80s'%s", chosen->list.name[i],
                            tsr__known_hint(&chosen->known, chosen->list.name[i], hint));
  return TSR_OK;
}
