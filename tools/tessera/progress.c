/* The progress line of long work, and what ends a command early.
 *
 *   sort       [###########                   ]   4.2 s
 *
 * Invariant: the line is wiped before anything else is printed, and never drawn after that. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"

#define WIPE "\r                                                            \r"

enum { BAR = 30 };

/* The work that the bar tells of. Nobody knows how many pieces of work are to come, so each takes a
 * third of what is left of the bar: it only moves forwards, and is full at no time. */
static struct {
  double begun, drawn; /* seconds */
  char what[32];
  int64_t done, total;
  double from, at; /* shares of the bar: where this piece of work began, where it stands */
} line;

static volatile sig_atomic_t terminal;       /* stderr is one */
static volatile sig_atomic_t drawing, shown; /* whether the line may be there; whether it is */
static volatile sig_atomic_t guarded, interrupted; /* by this signal */

/* ---- the line ---- */

static double seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void advance(const char *what, int64_t done, int64_t total)
{
  /* Work whose size nobody knows moves nothing. */
  if (total <= 0) return;
  /* Another kind, another size, or a step back: new work has begun. */
  if (strncmp(what, line.what, sizeof line.what - 1) != 0 || total != line.total ||
      done < line.done) {
    snprintf(line.what, sizeof line.what, "%s", what);
    line.from = line.at;
  }
  line.done = done;
  line.total = total;
  /* A third of what was left when it began. */
  line.at = line.from + (1 - line.from) / 3 * (double)done / (double)total;
}

/* Work in the words of people; NULL: of a result on its way out. */
static const char *words_of(const char *what)
{
  static const char *const rows[][2] = { { "csv", "read" },        { "npy", "read" },
                                         { "npz", "read" },        { "tsr_frame_read", "read" },
                                         { "tsr_frame_write", 0 }, { "program", "compute" } };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strncmp(what, rows[i][0], strlen(rows[i][0]))) return rows[i][1];
  return what;
}

/* Work that takes longer than two seconds says where it stands. */
bool tool_progress(const char *what, int64_t done, int64_t total, void *unused)
{
  (void)unused;
  double now = seconds();
  const char *words = words_of(what);
  /* false cancels: the library comes back with an error. */
  if (interrupted) return false;
  /* A result that goes to the terminal must not have the line drawn into it. */
  if (!words && !guarded) tool_progress_end();
  if (!drawing) return true;
  advance(what, done, total);
  /* Two seconds for nothing to be seen of short work; ten times a second at most. */
  if (now - line.begun < 2 || now - line.drawn < 0.1) return true;
  line.drawn = now;
  int filled = (int)(BAR * line.at);
  shown = 1;
  fprintf(stderr, "\r%-10.10s [%.*s%*s] %5.1f s", words ? words : "write", filled,
          "##############################", BAR - filled, "", now - line.begun);
  fflush(stderr);
  return true;
}

void tool_progress_end(void)
{
  drawing = 0;
  if (shown) fputs(WIPE, stderr);
  shown = 0;
}

/* ---- signals ---- */

static void say(const char *text)
{
  /* write, not printf: a signal may come in the middle of one. */
  ssize_t unused = write(STDERR_FILENO, text, strlen(text));
  (void)unused;
}

static void end_by(int number)
{
  if (shown || (terminal && number == SIGINT)) say(WIPE); /* the terminal echoed ^C */
  drawing = shown = 0;
  if (number == SIGINT) say("tessera: interrupted\n");
  /* As if nobody had caught it: the shell sees which signal ended us. */
  signal(number, SIG_DFL);
  raise(number);
}

/* A command that writes a file has that to tidy up and no stdout that anybody waits for. */
static void on_signal(int number)
{
  /* fprintf and others may be at work: errno must be theirs when we are gone. */
  int code = errno;
  /* The second signal ends at once, for who does not want to wait. */
  if (!guarded || (interrupted && number != SIGPIPE)) end_by(number);
  else if (number != SIGPIPE) interrupted = number;
  errno = code;
}

void tool_progress_open(void)
{
  static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
  struct sigaction action = { .sa_handler = on_signal }, before;
  line.begun = seconds();
  drawing = terminal = isatty(STDERR_FILENO);
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < 4; i++) {
    /* Signals that whoever started us ignores (nohup) stay so. */
    bool ours = !sigaction(ends[i], NULL, &before) && before.sa_handler == SIG_DFL;
    /* A pipe that closes is told by SIGPIPE even where it was ignored: a listing must stop
     * there. */
    if (ours || ends[i] == SIGPIPE) sigaction(ends[i], &action, NULL);
  }
}

void tool_guard(void)
{
  guarded = 1;
}

bool tool_interrupted(void)
{
  return interrupted;
}

void tool_interrupted_end(void)
{
  if (interrupted) end_by(interrupted);
}
