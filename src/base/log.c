/* Log lines by area and level. Silent unless the user gave a function or set TSR_LOG.
 *
 *   TSR_LOG = entry { "," entry }      entry = level | area [ ":" level ]
 *   level   = off error warn info debug trace          a bare area means debug
 *
 * Invariant: the table is written once, at open, so any thread may read it without a lock; the
 * user's function is called outside of all locks. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

#define AREAS 24
#define AREA_SIZE 24

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

static const char *const level_names[] = { "off", "error", "warn", "info", "debug", "trace" };
#define LEVELS ((int)(sizeof level_names / sizeof *level_names))

/* Rooms by name, to tell a misspelt area; base/ knows nothing else of them. */
static const char *const area_names[] = { "base", "topology", "comm", "graph", "kernel",
                                          "partition", "execute", "array", "transform", "io",
                                          "frame", "checkpoint", "inspect", "pipeline" };
#define AREA_NAMES ((int)(sizeof area_names / sizeof *area_names))

static void to_stderr(tsr_log_level level, const char *area, const char *line, void *user)
{
  (void)level;
  (void)user;
  fprintf(stderr, "tsr %s: %s\n", area, line);
}

static int find_name(const char *word, size_t length, const char *const *names, int count)
{
  for (int i = 0; i < count; i++)
    if (strlen(names[i]) == length && !memcmp(names[i], word, length)) return i;
  return -1;
}

static void complain(tsr_runtime *rt, const char *what, const char *word, size_t length,
                     const char *const *names, int count)
{
  char copy[AREA_SIZE];
  snprintf(copy, sizeof copy, "%.*s", (int)(length < AREA_SIZE ? length : AREA_SIZE), word);
  int near = tsr__text_nearest(copy, names, count);
  logger *log = rt->log;
  char line[160];
  snprintf(line, sizeof line, "TSR_LOG: no %s '%s'%s%s%s", what, copy,
           near >= 0 ? "; did you mean '" : "", near >= 0 ? names[near] : "",
           near >= 0 ? "'?" : "");
  log->fn(TSR_LOG_WARN, "base", line, log->user);
}
