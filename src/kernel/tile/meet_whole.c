/* Sums of which each device brings one element for each of the result: no accumulator is kept.
 *
 *   members   x x x x x x x x     read where they lie, a block of each at a time
 *             y y y y y y y y
 *   block     s s s s s s ? s     an exact sum that is rounded once, or left to an accumulator
 *   results   written for the first that gets the piece, and copied to others from the cache
 *
 * Blocks are dealt out to all workers. A member's reads of other devices and the copies of results
 * count as if they had travelled. */
#include "kernel/device/put_line.h"
#include "kernel/tile/meeting.h"
#include "topology/half.h"

enum {
  BLOCK = 512,     /* elements, a multiple of 64 */
  NARROW = 64,     /* 16-bit elements, which are made wider first */
  LEAST = 1 << 11, /* elements of a task */
  MOST = 1 << 14,
  EACH = 2, /* tasks of a worker, unless tasks get too many elements */

  FEW_BYTES = 1 << 16, /* less is done sooner than others are woken */
  STREAM_BYTES = 1 << 24
};

/* A result, and who finishes a piece of it. */
typedef struct share {
  int final, member;
  bool brings; /* the first result that reads its elements, which travel once */
  tsr__piece_runs piece;
  int64_t from, end; /* range of the piece's elements */
  int64_t first;     /* number of the first task */
} share;

typedef struct whole_job {
  const tsr__meeting_now *m;
  share *shares;
  int share_count;
  int64_t task, tasks; /* elements of one, and how many there are */
  bool streams;
  _Atomic int64_t bytes;
  _Atomic int failed; /* 1: taken; the error is written */
} whole_job;

/* The state of a task. */
typedef struct whole {
  whole_job *job;
  const share *at;
  const tsr__accum *accum;
  const tsr__gnode *node;
  const void *x[TSR__MOST_WHOLE]; /* each member's elements at hand */
  int64_t population;
  tsr__error error;
} whole;

static int accum_at(const tsr__all_reduce *c, int final)
{
  int accum = c->schedule->final_main[c->finals[final]], a = 0;
  while (c->accums[a] != accum) a++;
  return a;
}

/* ---- through an accumulator ------------------------------------------------------------------ */

/* An element of narrow floats as accumulators take it. */
static double real_at(int dtype, const void *x, int64_t i)
{
  switch (dtype) {
  case TSR_F64: return ((const double *)x)[i];
  case TSR_F32: return (double)((const float *)x)[i];
  case TSR_F16: return (double)tsr__f32_of_f16(((const uint16_t *)x)[i]);
  default: return (double)tsr__f32_of_bf16(((const uint16_t *)x)[i]);
  }
}

/* Adds up elements i .. i + n - 1 as a kernel would, and reads the results. `memory` has room for
 * the three doubles an element of SUM_ROWS, which is more than SUM_WHOLE takes; others are not met
 * whole. */
static tsr_status add_slowly(whole *w, int64_t i, int n, void *out)
{
  double values[BLOCK];
  double memory[3 * BLOCK];
  const tsr__all_reduce *c = w->job->m->c;
  bool real = tsr__dtype_is_real((tsr_dtype)w->accum->dtype);
  tsr__partial sums = { .rt = c->rt, .device = -1 };
  tsr__grid grid = { 0 };
  tsr__feed feed = {
    .to = &sums, .tiles = w->job->m->tiles, .grid = &grid, .dtype = real ? TSR_F64 : TSR_I64, .n = n
  };
  tsr__partial_plan(&sums, w->accum->row, w->accum->dtype, n);
  sums.data = memory;
  tsr__partial_start(&sums, &c->rt->heap);
  for (int k = 0; k < c->member_count; k++) {
    const void *x = w->x[k];
    for (int e = 0; e < n && real; e++) values[e] = real_at(w->accum->dtype, x, i + e);
    feed.x = real ? values : (const void *)((const int64_t *)x + i);
    sums.ops->along(&feed);
  }
  tsr__final f = { .node = w->node,
                   .attr = tsr__reduce_of(c->program, w->node),
                   .main = &sums,
                   .population = w->population,
                   .elements = n,
                   .out = out };
  tsr_status status = sums.ops->read(&f, &w->error);
  if (sums.rows[0].failed)
    status = tsr__error_set(&w->error, TSR_ENOMEM,
                            "no memory left for sums that do not fit three doubles");
  tsr__partial_stop(&sums);
  return status;
}

/* ---- at once --------------------------------------------------------------------------------- */

/* Elements i .. i + n - 1 of all members. */
typedef struct block {
  const whole *w;
  int64_t i;
  int n;
  double scale;
  void *out;
  uint64_t left[BLOCK / 64]; /* a bit for each that takes an accumulator */
} block;

/* The factor of a sum: a mean of 2^k members has a power of two, so that nothing is rounded; 0: it
 * takes an accumulator. 1 / n is exact then, and the sum was rounded once: the mean is as if it had
 * been divided by n in the long number. */
static double scale_of_sum(const whole *w)
{
  int64_t n = w->population;
  if (!tsr__dtype_rounds((tsr_dtype)w->accum->dtype) || w->node->dtype != w->accum->dtype) return 0;
  if (tsr__ops[w->node->op].finish == TSR__FINISH_VALUE) return 1;
  return n > 0 && !(n & (n - 1)) ? 1 / (double)n : 0;
}

/* `left` marks the elements that an accumulator has to do again. */
static void add_f64(block *b, const tsr__few *few)
{
  double *out = b->out;
  b->w->job->m->tiles->exact->few_f64(out, b->left, few);
  /* A quotient below the normal numbers would be rounded twice. */
  for (int e = 0; e < b->n && b->scale < 1; e++)
    if (out[e] < 0x1p-960 && out[e] > -0x1p-960 && out[e] != 0)
      b->left[e / 64] |= UINT64_C(1) << e % 64;
    else out[e] *= b->scale;
}

/* Elements of 16 bits, made f32. Sums are rounded to odd in f32 first, then to 16 bits: the
 * result is as if the sum had been rounded to these at once. */
static void add_narrow(block *b, const void **x)
{
  float wide[TSR__MOST_WHOLE][NARROW];
  double sums[NARROW];
  int dtype = b->w->accum->dtype, members = b->w->job->m->c->member_count;
  uint16_t *out = b->out;
  for (int at = 0; at < b->n; at += NARROW, out += NARROW) {
    tsr__few few = { x, members, b->n - at < NARROW ? b->n - at : NARROW };
    for (int k = 0; k < members; k++) {
      x[k] = wide[k];
      for (int e = 0; e < few.n; e++) wide[k][e] = (float)real_at(dtype, b->w->x[k], b->i + at + e);
    }
    b->w->job->m->tiles->exact->few_f32(sums, b->left + at / 64, &few);
    for (int e = 0; e < few.n; e++) {
      float odd = tsr__odd_of_f64(sums[e] * b->scale);
      out[e] = dtype == TSR_F16 ? tsr__f16_of(odd) : tsr__bf16_of(odd);
    }
  }
}

static tsr_status add_whole_block(whole *w, int64_t i, int n, void *out)
{
  const void *x[TSR__MOST_WHOLE];
  block b = { .w = w, .i = i, .n = n, .scale = scale_of_sum(w), .out = out };
  int members = w->job->m->c->member_count, dtype = w->accum->dtype;
  size_t size = tsr_dtype_size((tsr_dtype)w->node->dtype);
  tsr__few few = { x, members, n };
  tsr_status status = TSR_OK;
  if (b.scale == 0) return add_slowly(w, i, n, out);
  /* Elements have the type of the result. */
  for (int k = 0; k < members; k++) x[k] = (const char *)w->x[k] + (size_t)i * size;
  if (dtype == TSR_F64) add_f64(&b, &few);
  else if (dtype != TSR_F32) add_narrow(&b, x);
  else w->job->m->tiles->exact->few_to_f32(out, b.left, &few, b.scale);
  for (int word = 0; word < (n + 63) / 64; word++)
    for (uint64_t bits = b.left[word]; bits && !status; bits &= bits - 1) {
      int e = 64 * word + __builtin_ctzll(bits);
      status = add_slowly(w, i + e, 1, (char *)out + (size_t)e * size);
    }
  return status;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* A part of a run: a block's results are sent while they are in the cache. */
static tsr_status add_stretch(whole *w, const tsr__piece_run *all)
{
  const tsr__all_reduce *c = w->job->m->c;
  tsr__traffic traffic = { 0 };
  tsr__meeting_now mine = *w->job->m;
  tsr_status status = TSR_OK;
  size_t size = tsr_dtype_size((tsr_dtype)w->node->dtype);
  char *out = tsr__cpu_data(c->outputs[w->at->member][w->at->final]);
  mine.traffic = &traffic;
  mine.streams = w->job->streams;
  for (int64_t done = 0; done < all->count && !status; done += BLOCK) {
    int64_t left = all->count - done;
    tsr__piece_run r = { all->first + done, left < BLOCK ? left : BLOCK, all->at + done };
    status = add_whole_block(w, r.first, (int)r.count, out + (size_t)r.at * size);
    if (!status) tsr__send_results(&mine, w->at->member, w->at->final, &r);
  }
  for (int k = 0; k < c->member_count && w->at->brings; k++)
    if (c->devices[k] != c->devices[w->at->member])
      traffic.bytes += all->count * (int64_t)tsr_dtype_size((tsr_dtype)w->accum->dtype);
  if (mine.streams) tsr__put_done();
  atomic_fetch_add_explicit(&w->job->bytes, traffic.bytes, memory_order_relaxed);
  return status;
}

static int64_t elements_of_share(const share *s)
{
  return s->end - s->from;
}

/* Elements task * job->task .. from a piece, across its runs. */
static void whole_task(void *user, int64_t task, int worker)
{
  whole_job *job = user;
  const tsr__all_reduce *c = job->m->c;
  int s = job->share_count - 1;
  /* Shares are listed by their first task. */
  while (job->shares[s].first > task) s--;
  const share *at = &job->shares[s];
  int a = accum_at(c, at->final);
  whole w;
  w.job = job;
  w.at = at;
  w.accum = &c->schedule->accums[c->accums[a]];
  w.node = &c->program->nodes[c->finals[at->final]];
  w.population = c->populations[at->final];
  w.error.status = TSR_OK; /* its text costs more to clear than a small sum to make */
  tsr_status status = TSR_OK;
  for (int k = 0; k < c->member_count; k++) w.x[k] = tsr__cpu_data(c->elements[k][a]);
  int64_t from = at->from + (task - at->first) * job->task, end = at->end;
  int64_t length = at->piece.length;
  if (end > from + job->task) end = from + job->task;
  while (from < end && !status && !tsr__progress_stops(job->m->progress, worker)) {
    tsr__piece_run r = tsr__piece_run_at(&at->piece, from / length);
    int64_t into = from % length, count = length - into < end - from ? length - into : end - from;
    /* A task may begin and end within a run. */
    r = (tsr__piece_run){ r.first + into, count, r.at + into };
    status = add_stretch(&w, &r);
    from += count;
  }
  int none = 0;
  if (status && atomic_compare_exchange_strong(&job->failed, &none, 1)) *job->m->error = w.error;
}

/* Whether no result before it reads the same elements. */
static bool is_first(const tsr__all_reduce *c, int final)
{
  for (int k = 0; k < final; k++)
    if (accum_at(c, k) == accum_at(c, final)) return false;
  return true;
}

/* Several tasks a worker, so that one that comes late finds some left. A task is a multiple of
 * BLOCK, so that only ends of runs are short. */
static void cut_tasks(whole_job *job)
{
  int64_t elements = 0, workers = tsr__worker_count(job->m->c->rt);
  for (int s = 0; s < job->share_count; s++) elements += elements_of_share(&job->shares[s]);
  int64_t each = (elements / (EACH * workers) + BLOCK - 1) / BLOCK * BLOCK;
  job->task = each < LEAST ? LEAST : each > MOST ? MOST : each;
  for (int s = 0; s < job->share_count; s++) {
    job->shares[s].first = job->tasks;
    job->tasks += (elements_of_share(&job->shares[s]) + job->task - 1) / job->task;
  }
}

/* The results of whole elements, a share for each piece that somebody finishes. */
static int64_t list_whole_shares(whole_job *job)
{
  const tsr__all_reduce *c = job->m->c;
  int64_t bytes = 0;
  for (int k = 0; k < c->final_count; k++) {
    const tsr__accum *accum = &c->schedule->accums[c->accums[accum_at(c, k)]];
    if (!accum->whole) continue;
    for (int member = tsr__next_leader(c, 0); member < c->member_count;
         member = tsr__next_leader(c, member + 1)) {
      share *s = &job->shares[job->share_count];
      bool brings = !c->share.again && is_first(c, k);
      *s = (share){ k, member, brings, tsr__runs_of(c, member, c->out_counts[k]), 0, 0, 0 };
      int64_t all = s->piece.runs * s->piece.length;
      s->from = c->pieces ? 0 : tsr__share_first(all, c->share.index, c->share.count);
      s->end = c->pieces ? all : tsr__share_first(all, c->share.index + 1, c->share.count);
      int64_t elements = elements_of_share(s);
      /* The next share is written over it. */
      if (!elements) continue;
      job->share_count++;
      bytes += elements * c->member_count * (int64_t)tsr_dtype_size((tsr_dtype)accum->dtype);
    }
  }
  return bytes;
}

static bool brings_elements(const tsr__all_reduce *c)
{
  for (int a = 0; a < c->accum_count; a++)
    if (c->schedule->accums[c->accums[a]].whole) return true;
  return false;
}

tsr_status tsr__meet_whole(const tsr__meeting_now *m)
{
  share few[TSR__FEW_RESULTS];
  const tsr__all_reduce *c = m->c;
  whole_job job = { .m = m, .shares = few };
  size_t shares = (size_t)c->final_count * (size_t)c->member_count, room = shares * sizeof *few;
  if (!brings_elements(c)) return TSR_OK;
  if (shares > TSR__FEW_RESULTS) job.shares = tsr__new(&c->rt->heap, room);
  if (!job.shares)
    return tsr__error_set(m->error, TSR_ENOMEM,
                          "no memory to combine the sums of %d devices; free arrays",
                          c->member_count);
  int64_t bytes = list_whole_shares(&job);
  cut_tasks(&job);
  /* Processes that share a result share the caches, too: they read the operands together, and write
   * as much again. */
  job.streams = bytes * (c->pieces ? 1 : c->share.count) >= STREAM_BYTES;
  if (bytes > FEW_BYTES) tsr__parallel_progress(m->progress, job.tasks, whole_task, &job);
  else
    for (int64_t t = 0; t < job.tasks; t++) whole_task(&job, t, 0);
  if (job.shares != few) tsr__del(&c->rt->heap, job.shares, room);
  m->traffic->bytes += job.bytes;
  if (job.failed) return m->error->status;
  return m->progress->stop ? tsr__cancelled(m->error, TSR__PROGRAM) : TSR_OK;
}
