/* Dim 0 added up as a tree: what devices have of a sum each, in their order.
 *
 *   0   1   2   3   4   5        neighbours meet, and so do their sums; what has no neighbour
 *   '-+-'   '-+-'   '-+-'        goes up as it is. So a part that stands for 2^n leaves of a larger
 *     '---+---'       |          tree is a node of that: how many parts there are does not show
 *         '-----+-----'
 *
 * Each sum is rounded, f16 and bf16 at the end only; integers wrap. */
#include "kernel/routine/routine.h"

#include "topology/half.h"

enum { CHUNK = 256, LEVELS = 16 }; /* of more parts than any mesh has devices */

typedef struct fold_job {
  const tsr__call *call;
  int64_t chunks; /* of the largest part */
  tsr__progress progress;
} fold_job;

/* A run of elements of all parts. */
typedef struct run {
  const void *from;
  void *out;
  int64_t parts, step, at, count; /* step: from a part to the next */
} run;

/* level[k] is the sum of 2^k parts, if bit k of how many were met is set. Bit k of a count rises
 * by a carry: so each sum of 2^k is added to its neighbour as soon as that is there, and at most
 * LEVELS of them wait. At the last part all that wait are added, the smallest first. */
#define FOLD(T, name)                                                                            \
  static void name(const run *r, T *out)                                                         \
  {                                                                                              \
    T level[LEVELS][CHUNK];                                                                      \
    const T *from = (const T *)r->from + r->at;                                                  \
    for (int64_t p = 0; p < r->parts; p++, from += r->step) {                                    \
      bool last = p + 1 == r->parts;                                                             \
      int k = 0;                                                                                 \
      memcpy(out, from, (size_t)r->count * sizeof *out);                                         \
      for (; p >> k; k++) {                                                                      \
        if (!(p >> k & 1) && !last) break;                                                       \
        for (int64_t i = 0; i < r->count && p >> k & 1; i++) out[i] = (T)(level[k][i] + out[i]); \
      }                                                                                          \
      if (!last) memcpy(level[k], out, (size_t)r->count * sizeof *out);                          \
    }                                                                                            \
  }

FOLD(float, fold_f32)
FOLD(double, fold_f64)
FOLD(uint8_t, fold_u8)
FOLD(uint16_t, fold_u16)
FOLD(uint32_t, fold_u32)
FOLD(uint64_t, fold_u64)

static void fold_halves(const run *r, tsr_dtype to)
{
  float sum[CHUNK];
  uint16_t *out = (uint16_t *)r->out + r->at;
  /* In f32 to the end, and rounded to 16 bits once. */
  fold_f32(r, sum);
  for (int64_t i = 0; i < r->count; i++)
    out[i] = to == TSR_F16 ? tsr__f16_of(sum[i]) : tsr__bf16_of(sum[i]);
}

static void fold_run(const run *r, tsr_dtype from, tsr_dtype to)
{
  if (from != to) {
    fold_halves(r, to);
    return;
  }
  switch (tsr_dtype_size(from) + (tsr__dtype_float(from) ? 16 : 0)) {
  case 16 + 4: fold_f32(r, (float *)r->out + r->at); break;
  case 16 + 8: fold_f64(r, (double *)r->out + r->at); break;
  case 1: fold_u8(r, (uint8_t *)r->out + r->at); break;
  case 2: fold_u16(r, (uint16_t *)r->out + r->at); break;
  case 4: fold_u32(r, (uint32_t *)r->out + r->at); break;
  default: fold_u64(r, (uint64_t *)r->out + r->at);
  }
}

static int64_t count_of(const tsr__call *call, int part)
{
  tsr__sides sides = tsr__sides_of(&call->parts[part].in[0], tsr__call_rank(call), 0);
  return sides.after;
}

static void fold_task(void *user, int64_t task, int worker)
{
  fold_job *job = user;
  /* Chunks of all parts are numbered as if each had as many; those that are not there return at
   * once. */
  int part = (int)(task / job->chunks);
  const tsr__call_part *of = &job->call->parts[part];
  int64_t at = task % job->chunks * CHUNK, left = count_of(job->call, part) - at;
  tsr__sides sides = tsr__sides_of(&of->in[0], tsr__call_rank(job->call), 0);
  if (left <= 0 || tsr__progress_stops(&job->progress, worker)) return;
  run r = { of->in[0].buffer->data,     of->out[0].buffer->data, sides.along, sides.after, at,
            left < CHUNK ? left : CHUNK };
  fold_run(&r, tsr__call_dtype(job->call, 0), (tsr_dtype)tsr__call_node(job->call)->dtype);
}

tsr_status tsr__routine_fold(const tsr__call *call, tsr__error *error)
{
  enum { FEW = 16 };
  fold_job job = { .call = call, .progress = { .rt = call->rt, .what = TSR__PROGRAM } };
  for (int p = 0; p < call->part_count; p++) {
    int64_t chunks = (count_of(call, p) + CHUNK - 1) / CHUNK;
    if (chunks > job.chunks) job.chunks = chunks;
  }
  int64_t tasks = job.chunks * call->part_count;
  if (tasks <= FEW)
    for (int64_t t = 0; t < tasks; t++) fold_task(&job, t, 0);
  else tsr__parallel_progress(&job.progress, tasks, fold_task, &job);
  return atomic_load(&job.progress.stop) ? tsr__cancelled(error, TSR__PROGRAM) : TSR_OK;
}
