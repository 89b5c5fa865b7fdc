/* The progress line of long work, and signals that end a command early.
 *
 *   sort       [###########                   ]   4.2 s
 *
 * Invariant: the line is wiped before anything else is printed, and is not drawn afterwards. */
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

/* The work that the bar shows. The number of later tasks is unknown, so each task takes a third of
 * the rest of the bar: the bar moves forwards only, and never becomes full. */
static struct {
  double begun, drawn; /* seconds */
  char what[32];
  int64_t done, total;
  double from, at; /* shares of the bar: at the start of this task, now */
} line;

static volatile sig_atomic_t terminal;             /* stderr is a terminal */
static volatile sig_atomic_t drawing, shown;       /* the line may be drawn; it is drawn */
static volatile sig_atomic_t guarded, interrupted; /* a file is written; the signal, or 0 */

/* ---- the line ---- */

static double seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Moves the bar to `done` of `total` of a task. */
static void advance(const char *what, int64_t done, int64_t total)
{
  /* A task of unknown size does not move the bar. */
  if (total <= 0) return;
  /* Another name, another size or a step back means a new task. */
  if (strncmp(what, line.what, sizeof line.what - 1) != 0 || total != line.total ||
      done < line.done) {
    snprintf(line.what, sizeof line.what, "%s", what);
    line.from = line.at;
  }
  line.done = done;
  line.total = total;
  /* A task takes a third of the rest at its start. */
  line.at = line.from + (1 - line.from) / 3 * (double)done / (double)total;
}

/* The name of a task for users; NULL: the output of the result. */
static const char *task_name(const char *what)
{
  static const char *const rows[][2] = { { "csv", "read" },        { "npy", "read" },
                                         { "npz", "read" },        { "tsr_frame_read", "read" },
                                         { "tsr_frame_write", 0 }, { "program", "compute" } };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strncmp(what, rows[i][0], strlen(rows[i][0]))) return rows[i][1];
  return what;
}

/* Draws the line for work of more than two seconds. */
bool tool_progress(const char *what, int64_t done, int64_t total, void *unused)
{
  (void)unused;
  double now = seconds();
  const char *name = task_name(what);
  /* false cancels: the library returns an error. */
  if (interrupted) return false;
  /* The line must not be drawn into a result on the terminal. */
  if (!name && !guarded) tool_progress_end();
  if (!drawing) return true;
  advance(what, done, total);
  /* Short work shows nothing; longer work draws at most ten times a second. */
  if (now - line.begun < 2 || now - line.drawn < 0.1) return true;
  line.drawn = now;
  int filled = (int)(BAR * line.at);
  shown = 1;
  fprintf(stderr, "\r%-10.10s [%.*s%*s] %5.1f s", name ? name : "write", filled,
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

static void write_stderr(const char *text)
{
  /* write, not printf: a signal may arrive inside printf. */
  ssize_t unused = write(STDERR_FILENO, text, strlen(text));
  (void)unused;
}

/* Ends the tool by a signal, with the line wiped. */
static void end_by_signal(int number)
{
  if (shown || (terminal && number == SIGINT)) write_stderr(WIPE); /* the terminal echoed ^C */
  drawing = shown = 0;
  if (number == SIGINT) write_stderr("tessera: interrupted\n");
  /* With the default action the shell sees the signal that ended the tool. */
  signal(number, SIG_DFL);
  raise(number);
}

/* A command that writes a file must remove its temporary file first; a closed stdout does not
 * matter to it. */
static void on_signal(int number)
{
  /* The interrupted code may be about to read errno. */
  int code = errno;
  /* A second signal ends the tool at once. */
  if (!guarded || (interrupted && number != SIGPIPE)) end_by_signal(number);
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
    /* Signals that the parent ignores (nohup) stay ignored. */
    bool ours = !sigaction(ends[i], NULL, &before) && before.sa_handler == SIG_DFL;
    /* SIGPIPE is caught even if it was ignored: a listing must stop when its pipe closes. */
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
  if (interrupted) end_by_signal(interrupted);
}
