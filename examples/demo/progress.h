/* A progress bar for work that fills memory: how much of it has been written is what the system
 * says is resident, so nothing needs to report to the bar. Drawn on a terminal only. */
#ifndef EXAMPLES_PROGRESS_H
#define EXAMPLES_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

typedef struct progress {
  const char *label;
  int64_t total, before; /* bytes to be written; bytes resident at the start */
  atomic_bool done;
  bool shown;
  pthread_t thread;
} progress;

static inline double seconds_now(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline int64_t progress_resident(void)
{
  long long all, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file && fscanf(file, "%lld %lld", &all, &resident) != 2) resident = 0;
  if (file) fclose(file);
  return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

static inline void progress_draw(const progress *p, int64_t written)
{
  enum { WIDTH = 36 };
  char bar[WIDTH + 1];
  if (written < 0) written = 0;
  if (written > p->total) written = p->total;
  int filled = (int)((double)written / (double)p->total * WIDTH);
  for (int i = 0; i < WIDTH; i++) bar[i] = i < filled ? '#' : '.';
  bar[WIDTH] = 0;
  fprintf(stderr, "\r%s [%s] %5.2f of %.2f GB ", p->label, bar, (double)written / 1e9,
          (double)p->total / 1e9);
  fflush(stderr);
}

static inline void *progress_watch(void *user)
{
  progress *p = user;
  while (!atomic_load(&p->done)) {
    progress_draw(p, progress_resident() - p->before);
    nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
  }
  return NULL;
}

/* Begins to draw, if stderr is a terminal. */
static inline void progress_begin(progress *p, const char *label, int64_t total)
{
  p->label = label;
  p->total = total > 0 ? total : 1;
  p->before = progress_resident();
  atomic_init(&p->done, false);
  p->shown = isatty(STDERR_FILENO) && pthread_create(&p->thread, NULL, progress_watch, p) == 0;
}

/* Takes the bar away. */
static inline void progress_end(progress *p)
{
  if (!p->shown) return;
  atomic_store(&p->done, true);
  pthread_join(p->thread, NULL);
  fprintf(stderr, "\r%78s\r", "");
}

#endif
