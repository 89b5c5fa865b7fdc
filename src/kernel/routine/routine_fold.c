/* Dim 0 added up as a tree: the partial sums of devices, in their order.
 *
 *   0   1   2   3   4   5        neighbours meet, and so do their sums; what has no neighbour
 *   '-+-'   '-+-'   '-+-'        goes up as it is. So a part that stands for 2^n leaves of a larger
 *     '---+---'       |          tree is a node of that: how many parts there are does not show
 *         '-----+-----'
 *
 * Each sum is rounded, f16 and bf16 at the end only; integers wrap. */
#include "kernel/routine/routine.h"

#include "topology/half.h"

enum { CHUNK = 256, TOGETHER = 8, LEVELS = 16 }; /* more parts than a mesh has devices */

/* The partial sums of devices, a list a device:
 *
 *   all of dim 0 here      parts[] are `after` elements from each other in its own buffer
 *   an element a device    parts[] are in other devices' buffers, at its piece */
typedef struct fold_job {
  const tsr__call *call;
  const char **parts;
  int64_t part_count;
  int64_t chunks; /* chunks of the largest part */
  tsr__progress progress;
} fold_job;

/* A run of elements of all parts. */
typedef struct run {
  const char *const *from;
  void *out;
  int64_t parts, at, count;
} run;

/* The level of the largest node that begins at part p, up to eight parts. */
static int level_of_node(int64_t p, int64_t parts)
{
  int k = 0;
  while (1 << k < TOGETHER && !(p >> k & 1) && p + (INT64_C(2) << k) <= parts) k++;
  return k;
}

/* Adds up to eight neighbours at once: their tree is in registers. Loops of a known length are made
 * of vectors; most runs are a whole CHUNK. */
#define INLINE static inline __attribute__((always_inline))
#define TWO(T, p) (T)(x[p][i] + x[(p) + 1][i])
#define FOUR(T, p) (T)(TWO(T, p) + TWO(T, (p) + 2))
#define NODE(T, name)                                                                           \
  INLINE void name##_some(const T *const x[], int parts, int64_t n, T *restrict out)            \
  {                                                                                             \
    if (parts == 8)                                                                             \
      for (int64_t i = 0; i < n; i++) out[i] = (T)(FOUR(T, 0) + FOUR(T, 4));                    \
    else if (parts == 4)                                                                        \
      for (int64_t i = 0; i < n; i++) out[i] = FOUR(T, 0);                                      \
    else if (parts == 2)                                                                        \
      for (int64_t i = 0; i < n; i++) out[i] = TWO(T, 0);                                       \
    else memcpy(out, x[0], (size_t)n * sizeof *out);                                            \
  }                                                                                             \
  static void name##_node(const run *r, int64_t first, int parts, T *restrict out)              \
  {                                                                                             \
    const T *x[TOGETHER] = { 0 };                                                               \
    for (int p = 0; p < parts; p++) x[p] = (const T *)(const void *)r->from[first + p] + r->at; \
    if (r->count == CHUNK) name##_some(x, parts, CHUNK, out);                                   \
    else name##_some(x, parts, r->count, out);                                                  \
  }

/* level[k] is the sum of 2^k parts, if bit k of the count of added parts is set. Bit k of a count
 * rises by a carry: so each sum of 2^k is added to its neighbour as soon as the neighbour is there,
 * and at most LEVELS sums wait. At the last part all waiting sums are added, the smallest first. A
 * node that was added at once is a sum of 2^k parts already: it begins at level k. */
#define FOLD(T, name)                                                                            \
  NODE(T, name)                                                                                  \
  static void name(const run *r, T *out)                                                         \
  {                                                                                              \
    T level[LEVELS][CHUNK];                                                                      \
    for (int64_t p = 0, node; p < r->parts; p += node) {                                         \
      int k = level_of_node(p, r->parts);                                                        \
      node = INT64_C(1) << k;                                                                    \
      bool last = p + node == r->parts;                                                          \
      name##_node(r, p, (int)node, out);                                                         \
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
  switch (tsr_dtype_size(from) + (tsr__dtype_is_real(from) ? 16 : 0)) {
  case 16 + 4: fold_f32(r, (float *)r->out + r->at); break;
  case 16 + 8: fold_f64(r, (double *)r->out + r->at); break;
  case 1: fold_u8(r, (uint8_t *)r->out + r->at); break;
  case 2: fold_u16(r, (uint16_t *)r->out + r->at); break;
  case 4: fold_u32(r, (uint32_t *)r->out + r->at); break;
  default: fold_u64(r, (uint64_t *)r->out + r->at);
  }
}

/* Elements of a device's piece of the result. */
static int64_t count_piece_elements(const tsr__call *call, int part)
{
  return tsr__box_count(&call->parts[part].out[0].box, tsr__call_node(call)->rank);
}

static void fold_chunk_task(void *user, int64_t task, int worker)
{
  fold_job *job = user;
  /* Chunks of all parts are numbered as if each had as many; those that are not there return at
   * once. */
  int part = (int)(task / job->chunks);
  const tsr__call_part *of = &job->call->parts[part];
  int64_t at = task % job->chunks * CHUNK, left = count_piece_elements(job->call, part) - at;
  if (left <= 0 || tsr__progress_stops(&job->progress, worker)) return;
  run r = { job->parts + part * job->part_count, tsr__cpu_data(of->out[0].buffer), job->part_count,
            at, left < CHUNK ? left : CHUNK };
  fold_run(&r, tsr__call_dtype(job->call, 0), (tsr_dtype)tsr__call_node(job->call)->dtype);
}

/* The begin of element `p` of dim 0 for a device: in its own memory, or, in the memory of the part
 * that has the element, its own piece, which is one run. */
static const char *part_at(const tsr__call *call, int part, int64_t p)
{
  const tsr__call_part *of = &call->parts[part];
  int rank = tsr__call_node(call)->rank;
  int64_t size = (int64_t)tsr_dtype_size(tsr__call_dtype(call, 0)), at = 0;
  const tsr__shard *from = &of->in[0];
  if (from->box.start[0] <= p && p < from->box.start[0] + from->box.size[0] &&
      tsr__box_count(&from->box, rank + 1) == from->box.size[0] * count_piece_elements(call, part))
    return (const char *)tsr__cpu_data(from->buffer) +
           (p - from->box.start[0]) * count_piece_elements(call, part) * size;
  for (int o = 0; from->box.start[0] != p && o < call->part_count; o++)
    from = &call->parts[o].in[0];
  for (int d = 0; d < rank; d++)
    at = at * from->box.size[d + 1] + of->out[0].box.start[d] - from->box.start[d + 1];
  return (const char *)tsr__cpu_data(from->buffer) + at * size;
}

tsr_status tsr__routine_fold(const tsr__call *call, tsr__error *error)
{
  enum { FEW = 16 };
  fold_job job = { .call = call, .progress = { .rt = call->rt, .what = TSR__PROGRAM } };
  job.part_count = call->program->nodes[tsr__in(call->program, tsr__call_node(call), 0)].dims[0];
  size_t parts = (size_t)(call->part_count * job.part_count);
  tsr__scratch *room = tsr__scratch_take(call->rt, parts * sizeof *job.parts + 64);
  if (!room)
    return tsr__error_set(
        error, TSR_ENOMEM,
        "no memory to add up the partial sums of %d devices; free arrays or raise .memory_limit",
        call->part_count);
  job.parts = (void *)room->memory;
  for (int p = 0; p < call->part_count; p++) {
    int64_t chunks = (count_piece_elements(call, p) + CHUNK - 1) / CHUNK;
    if (chunks > job.chunks) job.chunks = chunks;
    for (int64_t k = 0; k < job.part_count; k++)
      job.parts[p * job.part_count + k] = part_at(call, p, k);
  }
  int64_t tasks = job.chunks * call->part_count;
  if (tasks <= FEW)
    for (int64_t t = 0; t < tasks; t++) fold_chunk_task(&job, t, 0);
  else tsr__parallel_progress(&job.progress, tasks, fold_chunk_task, &job);
  tsr__scratch_give(call->rt, room);
  return atomic_load(&job.progress.stop) ? tsr__cancelled(error, TSR__PROGRAM) : TSR_OK;
}
