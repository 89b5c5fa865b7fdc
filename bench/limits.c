/* The machine's limits, by hand: loops that move the bytes a figure names and do nothing else. They
 * fetch 1 KB ahead, the best of 0, 1, 2, 4, 8 and 16 KB where this was tried (11.5, 15.1, 14.0,
 * 12.4, 11.1, 11.2 GB/s for one thread). */
#include "bench.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef double v8d __attribute__((vector_size(64), aligned(8)));
typedef float v16f __attribute__((vector_size(64), aligned(4)));
typedef int64_t v8i __attribute__((vector_size(64), aligned(8)));

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FAST __attribute__((target_clones("avx512f", "avx2", "default"), noinline))
#else
#define FAST __attribute__((noinline))
#endif

FAST static int64_t read_words(const int64_t *p, int64_t count)
{
  v8i a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    __builtin_prefetch(p + i + 128);
    __builtin_prefetch(p + i + 136);
    __builtin_prefetch(p + i + 144);
    __builtin_prefetch(p + i + 152);
    a += *(const v8i *)(p + i);
    b += *(const v8i *)(p + i + 8);
    c += *(const v8i *)(p + i + 16);
    d += *(const v8i *)(p + i + 24);
  }
  a += b + c + d;
  int64_t sum = 0;
  for (int k = 0; k < 8; k++) sum += a[k];
  return sum;
}

FAST static double sum_f64(const double *p, int64_t count)
{
  v8d a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
  for (int64_t i = 0; i + 32 <= count; i += 32) {
    __builtin_prefetch(p + i + 128);
    __builtin_prefetch(p + i + 136);
    __builtin_prefetch(p + i + 144);
    __builtin_prefetch(p + i + 152);
    a += *(const v8d *)(p + i);
    b += *(const v8d *)(p + i + 8);
    c += *(const v8d *)(p + i + 16);
    d += *(const v8d *)(p + i + 24);
  }
  a += b + c + d;
  double sum = 0;
  for (int k = 0; k < 8; k++) sum += a[k];
  return sum;
}

FAST static double sum_f32(const float *p, int64_t count)
{
  v16f a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
  for (int64_t i = 0; i + 64 <= count; i += 64) {
    __builtin_prefetch(p + i + 256);
    __builtin_prefetch(p + i + 272);
    __builtin_prefetch(p + i + 288);
    __builtin_prefetch(p + i + 304);
    a += *(const v16f *)(p + i);
    b += *(const v16f *)(p + i + 16);
    c += *(const v16f *)(p + i + 32);
    d += *(const v16f *)(p + i + 48);
  }
  a += b + c + d;
  float sum = 0;
  for (int k = 0; k < 16; k++) sum += a[k];
  return (double)sum;
}

enum { MOST_THREADS = 64 };

typedef struct job {
  int kind; /* 0 read, 1 f64, 2 f32 */
  const bench_span *spans;
  int span_count, index, threads;
  double sum;
  int64_t words;
} job;

static void *work(void *user)
{
  job *j = user;
  for (int s = 0; s < j->span_count; s++) {
    int64_t blocks = j->spans[s].bytes / 4096, first = blocks * j->index / j->threads;
    int64_t last = blocks * (j->index + 1) / j->threads;
    const char *p = (const char *)j->spans[s].data + first * 4096;
    int64_t bytes = (last - first) * 4096;
    if (j->kind == 0) j->words += read_words((const int64_t *)(const void *)p, bytes / 8);
    if (j->kind == 1) j->sum += sum_f64((const double *)(const void *)p, bytes / 8);
    if (j->kind == 2) j->sum += sum_f32((const float *)(const void *)p, bytes / 4);
  }
  return NULL;
}

static double timed(int kind, const bench_span *spans, int count, int threads, double *out)
{
  job jobs[MOST_THREADS];
  pthread_t handles[MOST_THREADS];
  if (threads > MOST_THREADS) threads = MOST_THREADS;
  double start = bench_now();
  for (int t = 0; t < threads; t++) {
    jobs[t] =
        (job){ .kind = kind, .spans = spans, .span_count = count, .index = t, .threads = threads };
    pthread_create(&handles[t], NULL, work, &jobs[t]);
  }
  double sum = 0;
  volatile int64_t sink = 0;
  for (int t = 0; t < threads; t++) {
    pthread_join(handles[t], NULL);
    sum += jobs[t].sum;
    sink += jobs[t].words;
  }
  (void)sink;
  if (out) *out = sum;
  return bench_now() - start;
}

void *bench_written(int64_t bytes)
{
  void *room = malloc((size_t)bytes);
  if (room) memset(room, 1, (size_t)bytes);
  return room;
}

enum { LARGE = 256 << 20, TRIES = 5 };

/* The most bytes a second that these threads read of written memory that no cache holds. */
static double machine_speed(int threads)
{
  double best = 0;
  bench_span span = { bench_written(LARGE), LARGE };
  for (int i = 0; i < TRIES && span.data; i++) {
    double speed = LARGE / timed(0, &span, 1, threads, NULL);
    if (speed > best) best = speed;
  }
  free((void *)span.data);
  return best;
}

double bench_read_spans(const bench_span *spans, int count, int threads)
{
  double seconds = timed(0, spans, count, threads, NULL), bytes = 0;
  for (int i = 0; i < count; i++) bytes += (double)spans[i].bytes;
  /* Below this a cache may hold the spans, or memory may be that fast. */
  if (bytes < LARGE / 2 || bytes / seconds < 2e10 * threads) return seconds;
  double most = machine_speed(threads);
  if (most == 0 || bytes / seconds <= 1.3 * most) return seconds;
  fprintf(stderr,
          "a limit reads %.1f GB/s where the machine reads %.1f: its memory was not written\n",
          bytes / seconds / 1e9, most / 1e9);
  exit(1);
}

typedef struct part_copy {
  char *to;
  const char *from;
  size_t bytes;
} part_copy;

static void *copy_part(void *user)
{
  const part_copy *part = user;
  memcpy(part->to, part->from, part->bytes);
  return NULL;
}

double bench_copy(int64_t bytes, int threads)
{
  enum { MOST = 64 };
  size_t each = (size_t)bytes / (size_t)threads;
  char *from = malloc((size_t)bytes), *to = malloc((size_t)bytes);
  pthread_t thread[MOST];
  part_copy part[MOST];
  double start = -1;
  if (from && to && threads <= MOST) {
    memset(from, 1, (size_t)bytes);
    memset(to, 2, (size_t)bytes);
    start = bench_now();
    for (int t = 0; t < threads; t++) {
      part[t] = (part_copy){ to + (size_t)t * each, from + (size_t)t * each, each };
      pthread_create(&thread[t], NULL, copy_part, &part[t]);
    }
    for (int t = 0; t < threads; t++) pthread_join(thread[t], NULL);
    start = bench_now() - start;
  }
  free(from);
  free(to);
  return start;
}

double bench_plain_sum_f64(const double *data, int64_t count, int threads, double *out)
{
  bench_span span = { data, count * 8 };
  return timed(1, &span, 1, threads, out);
}

double bench_plain_sum_f32(const float *data, int64_t count, int threads, double *out)
{
  bench_span span = { data, count * 4 };
  return timed(2, &span, 1, threads, out);
}
