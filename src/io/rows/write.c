/* Rows to text in parallel, in order to the file.
 *
 *   worker 0   block 0  block 2  write 0 1 2     whoever finds the next block ready writes
 *   worker 1     block 1   block 3   block 4
 *
 * Invariant: a block is written when all before it were. A worker that is far ahead waits for the
 * one that is writing, so that a slow disk does not fill memory. */
#include "io/rows/write.h"

#include "io/text/datetime.h"
#include "topology/topology.h"

#include <math.h>

enum {
  CELLS = 16384,    /* values a block */
  AHEAD = 64,       /* blocks ready before a worker waits for the one that writes */
  WRITE_AT_ONCE = 8 /* blocks written in one task: tasks are short */
};

/* ---- text ---------------------------------------------------------------------------------- */

bool tsr__bytes_reserve(tsr__bytes *bytes, size_t more)
{
  if (bytes->failed) return false;
  if (bytes->size - bytes->used >= more) return true;
  if (tsr__grow(bytes->heap, (void **)&bytes->at, &bytes->size, bytes->used + more, 1)) return true;
  bytes->failed = true;
  return false;
}

void tsr__bytes_free(tsr__bytes *bytes)
{
  tsr__del(bytes->heap, bytes->at, bytes->size);
  *bytes = (tsr__bytes){ .heap = bytes->heap };
}

void tsr__bytes_put(tsr__bytes *bytes, const char *text, size_t length)
{
  if (!tsr__bytes_reserve(bytes, length)) return;
  if (length) memcpy(bytes->at + bytes->used, text, length);
  bytes->used += length;
}

static int mark_float(char *to, int length, tsr__floats floats)
{
  /* "1" is an integer to who reads it again; a float of whole value gets ".0". inf and nan hold an
   * n. */
  if (floats == TSR__FLOATS_SHORT) return length;
  for (int i = 0; i < length; i++)
    if (to[i] == '.' || to[i] == 'e' || to[i] == 'n') return length;
  to[length++] = '.';
  to[length++] = '0';
  return length;
}

static int put_bool(char *to, bool value)
{
  memcpy(to, value ? "true" : "false", 5);
  return value ? 4 : 5;
}

void tsr__bytes_value(tsr__bytes *bytes, const tsr__out_column *column, int64_t row,
                      tsr__floats floats)
{
  /* The longest value of any type, with a date or an exponent, is shorter. */
  if (!tsr__bytes_reserve(bytes, 48)) return;
  char *to = bytes->at + bytes->used;
  int length = 0;
  switch (column->type) {
  case TSR_COL_BOOL: length = put_bool(to, ((const uint8_t *)column->values)[row]); break;
  case TSR_COL_I64: length = tsr__text_i64(to, ((const int64_t *)column->values)[row]); break;
  case TSR_COL_F64:
    length = mark_float(to, tsr__text_f64(to, ((const double *)column->values)[row]), floats);
    break;
  case TSR_COL_DATE: length = tsr__date_write(((const int32_t *)column->values)[row], to); break;
  case TSR_COL_TIME: length = tsr__time_write(((const int64_t *)column->values)[row], to); break;
  default:
    length = tsr__dtype_text((tsr_dtype)column->type, column->values, row, to);
    if (tsr__dtype_is_real((tsr_dtype)column->type)) length = mark_float(to, length, floats);
  }
  bytes->used += (size_t)length;
}

/* ---- blocks -------------------------------------------------------------------------------- */

typedef struct job {
  const tsr__write_ask *ask;
  tsr__rows_fn fn;
  const void *user;
  tsr__outfile *out;
  int64_t block_rows, blocks;
  tsr__bytes *block;      /* [blocks] */
  _Atomic uint8_t *ready; /* [blocks] */
  _Atomic int64_t made, written;
  _Atomic size_t guess; /* what a block takes, by one before */
  _Atomic bool failed;
  bool cancelled;
  pthread_mutex_t lock; /* held by the one that writes; guards `out` and `error` */
  tsr__error error;
} job;

/* Writes up to `most` blocks that are ready, in order. */
static void write_ready(job *j, int64_t most)
{
  /* Only who holds the lock writes `written`; others read it to see how far ahead they are. */
  for (int64_t next = j->written; most > 0 && next < j->blocks; most--, next++) {
    if (!atomic_load(&j->ready[next])) break;
    tsr__bytes *block = &j->block[next];
    /* Blocks before it are in the file by now, or the whole is thrown away. */
    if (block->failed) tsr__error_set(&j->error, TSR_ENOMEM, "out of memory");
    else if (!j->failed) tsr__out_put(j->out, block->at, block->used, &j->error);
    tsr__bytes_free(block);
    if (j->error.status) j->failed = true;
    j->written = next + 1;
  }
}

static void make_block(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  /* Nothing that is made now would be written. */
  if (j->failed) return;
  tsr__bytes *block = &j->block[task];
  int64_t from = task * j->block_rows, to = from + j->block_rows;
  block->heap = &j->ask->rt->heap;
  /* At once as large as it will be: nothing moves while it is filled. */
  tsr__bytes_reserve(block, atomic_load(&j->guess));
  j->fn(j->user, block, from, to < j->ask->rows ? to : j->ask->rows);
  atomic_store(&j->guess, block->used + block->used / 16);
  atomic_store(&j->ready[task], 1);
  int64_t made = atomic_fetch_add(&j->made, 1) + 1;
  /* Too far ahead: wait for the writer, and then write oneself. Otherwise a writer at work is left
   * alone. */
  if (made - j->written > AHEAD) pthread_mutex_lock(&j->lock);
  else if (pthread_mutex_trylock(&j->lock)) return;
  /* A few at a time, so that one worker does not write for all while its share of the rows
   * waits. */
  write_ready(j, WRITE_AT_ONCE);
  pthread_mutex_unlock(&j->lock);
}

static void run(job *j)
{
  const tsr__write_ask *ask = j->ask;
  tsr__heap *heap = &ask->rt->heap;
  size_t blocks = (size_t)(j->blocks ? j->blocks : 1);
  j->block = tsr__new(heap, blocks * sizeof *j->block);
  j->ready = tsr__new(heap, blocks);
  if (j->block && j->ready) {
    j->cancelled = !tsr__parallel_long(ask->rt, ask->what, j->blocks, make_block, j);
    tsr__progress progress = { .rt = ask->rt, .what = ask->what, .total = j->blocks };
    /* What is left when the last task ended: the others may have found the lock taken. */
    while (!j->cancelled && !j->failed && j->written < j->blocks) {
      write_ready(j, 1);
      atomic_store(&progress.done, j->written);
      j->cancelled = tsr__progress_stops(&progress, 0);
    }
    /* After a failure. */
    for (int64_t b = j->written; b < j->blocks; b++)
      if (j->block[b].heap) tsr__bytes_free(&j->block[b]);
  } else {
    tsr__error_set(&j->error, TSR_ENOMEM, "out of memory");
  }
  tsr__del(heap, j->block, blocks * sizeof *j->block);
  tsr__del(heap, (void *)j->ready, blocks);
}

tsr_status tsr__write_rows(const tsr__write_ask *ask, const tsr__bytes *head, tsr__rows_fn fn,
                           const void *user, tsr__error *error)
{
  /* By values, so that blocks of few columns and of many weigh about the same. */
  int64_t rows = CELLS / (ask->count ? ask->count : 1);
  if (rows < 1) rows = 1;
  job j = { .ask = ask, .fn = fn, .user = user, .block_rows = rows };
  tsr__progress begin = { .rt = ask->rt, .what = ask->what };
  j.blocks = ask->rows / rows + (ask->rows % rows != 0);
  if (head->failed) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", ask->what);
  /* Asked before the file is made, so that who cancels at once leaves nothing. */
  if (tsr__progress_stops(&begin, 0)) return tsr__cancelled(error, ask->what);
  j.out = tsr__out_open(&ask->rt->heap, ask->path, ask->opts, &j.error);
  if (j.out && !tsr__out_put(j.out, head->at, head->used, &j.error)) {
    pthread_mutex_init(&j.lock, NULL);
    run(&j);
    pthread_mutex_destroy(&j.lock);
  }
  /* Kept only whole: otherwise the file that was there stays. */
  tsr__out_close(j.out, !j.error.status && !j.cancelled, &j.error);
  if (j.cancelled) return tsr__cancelled(error, ask->what);
  if (!j.error.status) return TSR_OK;
  return tsr__error_set(error, j.error.status, "%s: %s", ask->what, j.error.text);
}
