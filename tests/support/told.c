#include "support/told.h"

#include <ctype.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

char *told_unfold(const char *text)
{
  char *out = malloc(strlen(text) + 1), *to = out;
  CHECK(out);
  for (const char *at = text; *at; at++) {
    bool gap = isspace((unsigned char)*at);
    if (!gap) *to++ = *at;
    else if (to > out && to[-1] != ' ') *to++ = ' ';
  }
  *to = 0;
  return out;
}

/* The source of that name, "on_test.c"; NULL: no file of the tests is called so. */
static char *source_of(const char *name, size_t length)
{
  static const char *const folders[] = { "unit/*", "law", "torture", "support" };
  char *out = NULL;
  for (size_t i = 0; i < sizeof folders / sizeof *folders && !out; i++) {
    char path[300];
    glob_t found = { 0 };
    snprintf(path, sizeof path, "%s/%.*s", folders[i], (int)length, name);
    if (!glob(test_file(path), 0, NULL, &found)) out = test_read(found.gl_pathv[0], NULL);
    globfree(&found);
  }
  return out;
}

/* The lines from - 3 .. from + 12: a call of several lines is known by one of them. */
static bool places_near(const char *source, long line)
{
  static const char *const words[] = { "tsr_reshard", "tsr_constrain", "on)",  "on,",
                                       "on }",        "r->at",         ".on ", "tsr_on(" };
  const char *from = source;
  for (long n = 1; *from && n < line - 3; n++) from += strcspn(from, "\n"), from += *from != 0;
  const char *end = from;
  for (int n = 0; n < 16 && *end; n++) end += strcspn(end, "\n"), end += *end != 0;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    const char *found = strstr(from, words[i]);
    if (found && found < end) return true;
  }
  return false;
}

/* "... because reshard at a.c:3 (back from ...) was asked for": the line that the words end in. */
static void check_asked(const char *text, const char *asked, const char *name)
{
  const char *because = asked;
  while (because > text && strncmp(because, "because ", 8)) because--;
  const char *colon = strstr(because, ".c:");
  if (!colon || colon > asked) return;
  const char *from = colon;
  while (from > text && !strchr(" (/,", from[-1])) from--;
  char *source = source_of(from, (size_t)(colon + 2 - from));
  if (!source || !places_near(source, strtol(colon + 3, NULL, 10)))
    FAIL("%s: nobody asked there: %.*s", name, (int)(asked + 13 - because), because);
  free(source);
}

void told_check(const char *text, const char *name)
{
  char *flat = told_unfold(text);
  for (const char *at = flat; (at = strstr(at, ".c:")); at += 3) {
    const char *from = at;
    while (from > flat && !strchr(" (/,", from[-1])) from--;
    char *source = source_of(from, (size_t)(at + 2 - from));
    if (!source) FAIL("%s names %.*s:\n%s", name, (int)(at + 8 - from), from, text);
    free(source);
  }
  for (const char *at = flat; (at = strstr(at, "asks for this sharding")); at++)
    check_asked(flat, at, name);
  free(flat);
}

const char *told_of(tsr_array *a, const char *name)
{
  tsr_array *leaves[64];
  const char *text = NULL;
  int count = tsr_is_inert(a) ? 0 : tsr_tree_leaves(a, leaves, 64);
  if (!count || count > 64 || tsr_explain_into(leaves, count, &text)) return NULL;
  told_check(text, name);
  return text;
}
