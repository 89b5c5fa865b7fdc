/* The limit that a pass over columns is held against: a loop that reads the same bytes of the same
 * buffers with as many threads as there are cores, and does nothing else. */
#ifndef EXAMPLES_READLIMIT_H
#define EXAMPLES_READLIMIT_H

#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include "progress.h"

typedef struct read_span {
  const void *data;
  int64_t bytes;
} read_span;

enum { READ_MOST_THREADS = 64 };

typedef struct read_job {
  const read_span *spans;
  int span_count, index, threads;
  uint64_t sum;
} read_job;

typedef uint64_t read_vector __attribute__((vector_size(64), aligned(8)));

/* The race checker is not up yet when the loader picks a clone. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define READ_FAST __attribute__((target_clones("avx512f", "avx2", "default"), noinline))
#else
#define READ_FAST __attribute__((noinline))
#endif

READ_FAST static uint64_t read_words(const uint64_t *p, int64_t count)
{
  read_vector a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
  for (int64_t i = 0; i + 32 <= count; i += 32) {
    for (int k = 0; k < 4; k++) __builtin_prefetch(p + i + 128 + 8 * k);
    a += *(const read_vector *)(p + i);
    b += *(const read_vector *)(p + i + 8);
    c += *(const read_vector *)(p + i + 16);
    d += *(const read_vector *)(p + i + 24);
  }
  a += b + c + d;
  uint64_t sum = 0;
  for (int k = 0; k < 8; k++) sum += a[k];
  return sum;
}

static inline void *read_work(void *user)
{
  read_job *job = user;
  for (int s = 0; s < job->span_count; s++) {
    int64_t words = job->spans[s].bytes / 8;
    int64_t first = words * job->index / job->threads;
    int64_t last = words * (job->index + 1) / job->threads;
    job->sum += read_words((const uint64_t *)job->spans[s].data + first, last - first);
  }
  return NULL;
}

static inline int read_cores(void)
{
  cpu_set_t set;
  int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return count < READ_MOST_THREADS ? count : READ_MOST_THREADS;
}

/* Reads every byte once and returns the seconds it took. */
static inline double read_all(const read_span *spans, int count)
{
  read_job jobs[READ_MOST_THREADS];
  pthread_t threads[READ_MOST_THREADS];
  int cores = read_cores(), started = 0;
  volatile uint64_t sum = 0; /* keeps the loop from being left out */
  double start = seconds_now();
  for (int t = 0; t < cores; t++)
    jobs[t] = (read_job){ .spans = spans, .span_count = count, .index = t, .threads = cores };
  while (started < cores - 1 &&
         pthread_create(&threads[started], NULL, read_work, &jobs[started]) == 0)
    started++;
  for (int t = started; t < cores; t++) read_work(&jobs[t]);
  for (int t = 0; t < started; t++) pthread_join(threads[t], NULL);
  for (int t = 0; t < cores; t++) sum = sum + jobs[t].sum;
  return seconds_now() - start;
}

#endif
