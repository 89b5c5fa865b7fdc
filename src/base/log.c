/* Log lines by area and level. Silent unless the user gave a function or set TSR_LOG, but for what
 * is lost if nobody hears it: tsr__log_last.
 *
 *   TSR_LOG = entry { "," entry }      entry = level | area [ ":" level ]
 *   level   = off error warn info debug trace          a bare area means debug
 *
 * Invariant: the table is written once, at open, so any thread may read it without a lock; the
 * user's function is called outside of all locks. */
#include "base/base.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define AREAS 24
#define AREA_SIZE 24

/* The level of which TSR_LOG says nothing: as off, but nobody asked for silence. */
enum { UNSAID = -1 };

typedef struct tsr__log {
  tsr_log_fn fn;
  void *user;
  int most; /* the highest level any area has: one comparison settles the usual case */
  int level;
  int count;
  struct {
    char name[AREA_SIZE];
    int level;
  } area[AREAS];
} logger;

/* Words that may stand in TSR_LOG. */
typedef struct vocabulary {
  const char *what;
  int count;
  const char *names[17];
} vocabulary;

static const vocabulary levels = {
  "level",
  6,
  { "off", "error", "warn", "info", "debug", "trace" },
};

/* Rooms by name, to tell a misspelt area; base/ knows nothing else of them. */
static const vocabulary areas = {
  "area",
  17,
  { "base", "topology", "comm", "graph", "kernel", "partition", "execute", "array", "relate",
    "transform", "io", "frame", "inspect", "train", "checkpoint", "pipeline", "process" },
};

/* Only where the user asked by TSR_LOG and gave no function, and by tsr__log_last: otherwise the
 * library prints nothing. */
static void to_stderr(tsr_log_level level, const char *area, const char *line, void *user)
{
  (void)level;
  (void)user;
  fprintf(stderr, "tsr %s: %s\n", area, line);
}

/* -1: none of them. Words need no NUL behind them. Of levels the place in the list is the level. */
static int find_word(const vocabulary *words, const char *word, size_t length)
{
  for (int i = 0; i < words->count; i++)
    if (strlen(words->names[i]) == length && !memcmp(words->names[i], word, length)) return i;
  return -1;
}

/* Told and passed over: a misspelt word is no reason not to run. */
static void complain(tsr_runtime *rt, const vocabulary *words, const char *word, size_t length)
{
  char copy[AREA_SIZE], line[160];
  snprintf(copy, sizeof copy, "%.*s", (int)(length < AREA_SIZE ? length : AREA_SIZE), word);
  int near = tsr__text_nearest(copy, words->names, words->count);
  int used = snprintf(line, sizeof line, "TSR_LOG: no %s '%s'", words->what, copy);
  if (near >= 0)
    snprintf(line + used, sizeof line - (size_t)used, "; did you mean '%s'?", words->names[near]);
  /* Directly: the table is still being read, so nothing of it decides yet. */
  rt->log->fn(TSR_LOG_WARN, "base", line, rt->log->user);
}

/* Reads one "area[:level]" or "level". */
static void read_entry(tsr_runtime *rt, const char *entry, size_t length)
{
  logger *log = rt->log;
  /* A bare level is that of all areas without an entry of their own. */
  int level = find_word(&levels, entry, length);
  if (level >= 0) {
    log->level = level;
    return;
  }
  const char *colon = memchr(entry, ':', length);
  size_t name = colon ? (size_t)(colon - entry) : length;
  level = TSR_LOG_DEBUG;
  if (colon) {
    size_t rest = length - name - 1;
    level = find_word(&levels, colon + 1, rest);
    if (level < 0) {
      complain(rt, &levels, colon + 1, rest);
      return;
    }
  }
  if (find_word(&areas, entry, name) < 0) {
    complain(rt, &areas, entry, name);
    return;
  }
  /* More entries than areas can only be repeats. */
  if (log->count == AREAS) return;
  memcpy(log->area[log->count].name, entry, name); /* known areas fit, the rest is zero */
  log->area[log->count++].level = level;
}

/* Entries in their order: of two for one area the later one counts. */
static void read_entries(tsr_runtime *rt, const char *text)
{
  while (*text) {
    while (*text == ' ' || *text == ',') text++;
    size_t length = strcspn(text, " ,");
    if (length) read_entry(rt, text, length);
    text += length;
  }
}

void tsr__log_open(tsr_runtime *rt)
{
  const char *wanted = getenv("TSR_LOG");
  if (wanted && !*wanted) wanted = NULL;
  if (!rt->opts.log && !wanted) return;
  logger *log = tsr__new(&rt->heap, sizeof *log);
  /* Without memory for a log there is none; that is no reason to refuse a runtime. */
  if (!log) return;
  rt->log = log;
  log->fn = rt->opts.log ? rt->opts.log : to_stderr;
  log->user = rt->opts.log_user;
  /* Who gives a function wants to hear something without TSR_LOG; who sets TSR_LOG alone hears
   * what it says. */
  log->level = rt->opts.log ? TSR_LOG_INFO : UNSAID;
  /* Reading may already log what is misspelt. */
  if (wanted) read_entries(rt, wanted);
  log->most = log->level;
  for (int i = 0; i < log->count; i++)
    if (log->area[i].level > log->most) log->most = log->area[i].level;
}

void tsr__log_close(tsr_runtime *rt)
{
  tsr__del(&rt->heap, rt->log, sizeof *rt->log);
  rt->log = NULL;
}

static int level_of(const logger *log, const char *area)
{
  for (int i = log->count - 1; i >= 0; i--) /* the last entry of an area wins */
    if (!strcmp(log->area[i].name, area)) return log->area[i].level;
  return log->level;
}

/* Called before a line is made, so that a silent log costs one comparison. */
bool tsr__log_on(const tsr_runtime *rt, tsr_log_level level, const char *area)
{
  if (!rt || !rt->log || (int)level > rt->log->most) return false;
  return (int)level <= level_of(rt->log, area);
}

/* Hands out a text line by line, so that one call of the user's function is one line. An empty text
 * is a line, too; an end of line at the end of a text adds none. */
static void emit(const logger *log, tsr_log_level level, const char *area, char *text)
{
  while (text) {
    char *end = strchr(text, '\n');
    if (end) *end = '\0';
    if (!end || end[1] || text != end) log->fn(level, area, text, log->user);
    text = end && end[1] ? end + 1 : NULL;
  }
}

/* Under no lock: the user's function may take its time, or come back. */
void tsr__log(tsr_runtime *rt, tsr_log_level level, const char *area, const char *format, ...)
{
  if (!tsr__log_on(rt, level, area)) return;
  /* Most lines fit; others are formatted again in memory of their own, and cut if there is none. */
  char brief[512];
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int length = vsnprintf(brief, sizeof brief, format, args);
  va_end(args);
  size_t size = length < 0 ? 0 : (size_t)length + 1;
  char *whole = size > sizeof brief ? tsr__new_raw(&rt->heap, size) : NULL;
  if (whole) vsnprintf(whole, size, format, again);
  va_end(again);
  if (size) emit(rt->log, level, area, whole ? whole : brief);
  tsr__del(&rt->heap, whole, size);
}

/* `tessera run` looks for this file when all processes have ended. One write, so that lines of
 * several stay whole. */
static void tell_launcher(const char *line)
{
  char path[400], text[1200];
  const char *report = getenv("TSR_REPORT");
  if (!report || !*report) return;
  snprintf(path, sizeof path, "%.300s.lost", report);
  int length = snprintf(text, sizeof text, "%ld %.1100s\n", (long)getpid(), line);
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  /* Where it cannot be written the log has it still. */
  if (write(fd, text, (size_t)length) != length) unlink(path);
  close(fd);
}

/* Where TSR_LOG says "off" there is silence, too. */
void tsr__log_last(tsr_runtime *rt, const char *area, const char *format, ...)
{
  char line[1100];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  int level = rt->log ? level_of(rt->log, area) : UNSAID;
  if (level >= TSR_LOG_ERROR) tsr__log(rt, TSR_LOG_ERROR, area, "%s", line);
  else if (level == UNSAID) to_stderr(TSR_LOG_ERROR, area, line, NULL);
  tell_launcher(line);
}
