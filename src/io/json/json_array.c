/* A file that is one array of objects, made lines in place: what separates its elements ends a
 * line, and ends of lines within them become blanks.
 *
 *   [{"a": 1,\n  "b": 2},\n {"a": 3}]\n     ->      {"a": 1,\r  "b": 2}\n\r {"a": 3}\n\r
 *
 * Invariant: nothing moves, so that places in the text are those of the file; what ended a line of
 * it is a carriage return, by which lines are counted for messages. */
#include "io/json/json_inner.h"

enum { PIECE = 4 << 20 }; /* bytes between two questions whether to go on */

/* Where a walk over an array is. */
typedef struct walk {
  char *at, *end;
  int64_t depth;      /* brackets that are open within the element */
  bool text, escaped; /* inside a text; behind a backslash */
  bool some, gap;     /* an element stands before; a comma behind it */
  bool closed;
  const char *why; /* what is wrong at `at`; NULL: nothing */
} walk;

/* A byte between elements, or of one that is no object. */
static void outside(walk *w, char c)
{
  if (c == ' ' || c == '\t') return;
  if (w->closed) {
    w->why = "text follows the array";
  } else if (c == ',') {
    if (!w->some || w->gap) w->why = "a value is missing before ','";
    w->gap = true;
    *w->at = '\n';
  } else if (c == ']') {
    if (w->gap) w->why = "a value is missing after the last ','";
    w->closed = true;
    *w->at = '\n';
  } else {
    w->some = true;
    w->gap = false;
    w->text = c == '"';
    w->depth = c == '{' || c == '[';
  }
}

static void take_byte(walk *w, char c)
{
  if (c == '\n') *w->at = '\r';
  if (w->text) {
    if (c == '"' && !w->escaped) w->text = false;
    w->escaped = c == '\\' && !w->escaped;
  } else if (c == '\r') {
    *w->at = ' ';
  } else if (c != '\n' && !w->depth) {
    outside(w, c);
  } else {
    w->text = c == '"';
    w->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
  }
}

static void walk_step(void *user, int64_t task, int worker)
{
  (void)task;
  (void)worker;
  walk *w = user;
  const char *stop = w->end - w->at > PIECE ? w->at + PIECE : w->end;
  for (; w->at < stop; w->at++) {
    take_byte(w, *w->at);
    if (w->why) return;
  }
}

int64_t tsr__json_line_of(const tsr__json *json, int file, const char *at, int64_t *column)
{
  const char *from = json->files[file].data, *found;
  char end = json->arrays[file] ? '\r' : '\n';
  int64_t line = 1;
  for (; (found = memchr(from, end, (size_t)(at - from))); from = found + 1) line++;
  *column = at - from + 1;
  return line;
}

/* What is wrong is kept: a row before it may be wrong, too, and is the cause then. */
static tsr_status unwrap(tsr__json *json, int file, char *open, tsr__error *error)
{
  walk w = { .at = open + 1, .end = json->files[file].data + json->files[file].size };
  json->arrays[file] = true;
  *open = ' ';
  while (w.at < w.end && !w.why)
    if (!tsr__parallel_long(json->rt, "tsr_frame_read_json", 1, walk_step, &w))
      return tsr__cancelled(error, "tsr_frame_read_json");
  if (!w.why && !w.closed) w.why = "the array does not end: a ']' is missing";
  if (w.why && !json->broken.why) json->broken = (tsr__json_broken){ file, w.at, w.why };
  return TSR_OK;
}

tsr_status tsr__json_unwrap(tsr__json *json, tsr__error *error)
{
  for (int f = 0; f < json->paths.count; f++) {
    char *at = json->files[f].data, *end = at + json->files[f].size;
    /* Behind a UTF-8 mark, which some programs put in front of a text. */
    if (end - at >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) at += 3;
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
    if (at == end || *at != '[') continue;
    for (char *before = json->files[f].data; before < at; before++)
      if (*before == '\n' || *before == '\r') *before = *before == '\n' ? '\r' : ' ';
    if (unwrap(json, f, at, error)) return error->status;
  }
  return TSR_OK;
}
