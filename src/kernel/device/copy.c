/* Copies of boxes between dense arrays: host and device, device and device.
 *
 * A box is copied run by run: a run lies without gaps in both arrays. Bools are bytes on the host
 * and bits on devices, so their runs start and end anywhere in a word; words at the ends are read,
 * changed and written back, hence one copy at a time into a buffer of bools. */
#include "kernel/device/cpu.h"
#include "kernel/device/put_line.h"
#include "kernel/device/spaced.h"

/* Elements copied between two looks at the callback: some milliseconds. */
#define ASK_AFTER ((int64_t)1 << 20)

typedef struct runs {
  int rank; /* outer dims, which are walked */
  int64_t size[TSR_MAX_RANK], from_step[TSR_MAX_RANK], to_step[TSR_MAX_RANK];
  int64_t length, from, to; /* elements of a run; places where the first starts */
  int64_t step;             /* between neighbours of a run, where they are copied from */
} runs;

static int64_t box_step(const tsr__box_copy *copy, int d)
{
  return copy->from_step ? copy->from_step[d] : 1;
}

/* Joins the inner dims that are whole in both arrays into one run. False: nothing to copy. */
static bool plan_box_runs(const tsr__box_copy *copy, runs *out)
{
  int64_t from_step = 1, to_step = 1;
  *out = (runs){ .length = 1, .step = copy->rank ? box_step(copy, copy->rank - 1) : 1 };
  bool joined = true;
  int64_t from_steps[TSR_MAX_RANK], to_steps[TSR_MAX_RANK];
  for (int d = copy->rank - 1; d >= 0; d--) {
    /* Callers cut boxes against each other, so a size below 0 is a box that misses: nothing,
     * too. */
    if (copy->size[d] <= 0) return false;
    from_steps[d] = from_step * box_step(copy, d);
    to_steps[d] = to_step;
    out->from += copy->from_start[d] * from_step;
    out->to += copy->to_start[d] * to_step;
    from_step *= copy->from_dims[d];
    to_step *= copy->to_dims[d];
  }
  /*   from [4, 6, 5], to [2, 6, 5], a box [2, 6, 5]:    dims 1 and 2 are whole on both sides
   *                                                     one run of 2 * 6 * 5
   *   a box [2, 3, 5] of the same:                      two runs of 3 * 5
   *
   * The dim at which it ends is part of the run still; those around it are walked. */
  int d = copy->rank - 1;
  for (; d >= 0 && joined; d--) {
    out->length *= copy->size[d];
    joined = copy->size[d] == copy->from_dims[d] && copy->size[d] == copy->to_dims[d] &&
             box_step(copy, d) == 1 && (!d || box_step(copy, d - 1) == 1);
  }
  out->rank = d + 1;
  for (int k = 0; k < out->rank; k++) {
    out->size[k] = copy->size[k];
    out->from_step[k] = from_steps[k];
    out->to_step[k] = to_steps[k];
  }
  return true;
}

/* One run: its start in both arrays, its elements, the distance between them, the bytes of one. */
typedef struct run {
  void *to;
  const void *from;
  int64_t to_at, from_at, n, step;
  size_t size;
} run;

typedef void run_fn(const run *r);

static void run_spaced(const run *r)
{
  const char *from = (const char *)r->from + r->from_at * (int64_t)r->size;
  tsr__put_spaced((char *)r->to + r->to_at * (int64_t)r->size, from, r->n, r->step, r->size);
}

/* Bits that are not neighbours are collected one by one, and put as a word. */
static void run_spaced_bits(const run *r)
{
  for (int64_t i = 0; i < r->n; i += 64) {
    int some = r->n - i < 64 ? (int)(r->n - i) : 64;
    uint64_t bits = 0;
    for (int k = 0; k < some; k++)
      bits |= tsr__bits_get(r->from, r->from_at + (i + k) * r->step, 1) << k;
    tsr__bits_put(r->to, r->to_at + i, some, bits);
  }
}

static void run_plain(const run *r)
{
  memcpy((char *)r->to + (size_t)r->to_at * r->size,
         (const char *)r->from + (size_t)r->from_at * r->size, (size_t)r->n * r->size);
}

/* Lines of the target are not read first, and do not evict lines that are read again. */
static void run_streaming(const run *r)
{
  char *to = (char *)r->to + (size_t)r->to_at * r->size;
  const char *from = (const char *)r->from + (size_t)r->from_at * r->size;
  tsr__put_run(to, from, (size_t)r->n * r->size);
}

static void run_bits(const run *r)
{
  tsr__bits_copy(r->to, r->to_at, r->from, r->from_at, r->n);
}

/* Any byte but 0 is true, whatever a program wrote into it. */
static void run_bytes_to_bits(const run *r)
{
  const unsigned char *byte = (const unsigned char *)r->from + r->from_at;
  for (int64_t i = 0; i < r->n; i += 64) {
    int some = r->n - i < 64 ? (int)(r->n - i) : 64;
    uint64_t bits = 0;
    for (int k = 0; k < some; k++) bits |= (uint64_t)(byte[i + k] != 0) << k;
    tsr__bits_put(r->to, r->to_at + i, some, bits);
  }
}

static void run_bits_to_bytes(const run *r)
{
  unsigned char *byte = (unsigned char *)r->to + r->to_at;
  for (int64_t i = 0; i < r->n; i += 64) {
    int some = r->n - i < 64 ? (int)(r->n - i) : 64;
    uint64_t bits = tsr__bits_get(r->from, r->from_at + i, some);
    for (int k = 0; k < some; k++) byte[i + k] = bits >> k & 1;
  }
}

/* A run in pieces of whole words of bits, asking between them. `left`: elements until the next
 * time. False: cancelled. */
static bool copy_run_slices(const tsr__box_copy *copy, const run *whole, run_fn *fn, int64_t *left)
{
  run r = *whole;
  for (int64_t done = 0; done < whole->n; done += r.n) {
    r.to_at = whole->to_at + done;
    r.from_at = whole->from_at + done * whole->step;
    /* ASK_AFTER is a multiple of 64, so that pieces of bits begin where words do if the run
     * does. */
    r.n = whole->n - done < ASK_AFTER ? whole->n - done : ASK_AFTER;
    fn(&r);
    *left -= r.n;
    if (*left > 0) continue;
    *left = ASK_AFTER;
    if (copy->progress && tsr__progress_stops(copy->progress, copy->worker)) return false;
  }
  return true;
}

/* One dim, and over before anybody would be asked: a slice of a loop's step is such a box, and of
 * few elements planning it costs more than copying it. */
static bool is_short_run(const tsr__box_copy *copy)
{
  return copy->rank == 1 && !copy->from_step && copy->size[0] > 0 && copy->size[0] < ASK_AFTER;
}

/* Returns the number of elements copied: fewer where it was cancelled. `total` counts runs that are
 * over, so of a cancelled copy no byte is told that was not moved. */
static int64_t copy_box_by_runs(const tsr__box_copy *copy, const void *from, void *to, run_fn *fn)
{
  runs r;
  if (!copy->rank) {
    fn(&(run){ to, from, 0, 0, 1, 1, tsr_dtype_size(copy->dtype) });
    return 1;
  }
  if (is_short_run(copy)) {
    fn(&(run){ to, from, copy->to_start[0], copy->from_start[0], copy->size[0], 1,
               tsr_dtype_size(copy->dtype) });
    return copy->size[0];
  }
  if (!plan_box_runs(copy, &r)) return 0;
  size_t size = tsr_dtype_size(copy->dtype);
  if (r.step != 1) fn = copy->dtype == TSR_BOOL ? run_spaced_bits : run_spaced;
  int64_t at[TSR_MAX_RANK] = { 0 }, total = 0, left = ASK_AFTER;
  /* An odometer over the outer dims: the last goes on, and where it is through it returns to its
   * start and the next one goes on. */
  for (;;) {
    if (!copy_run_slices(copy, &(run){ to, from, r.to, r.from, r.length, r.step, size }, fn, &left))
      return total;
    total += r.length;
    int d = r.rank - 1;
    for (; d >= 0; d--) {
      r.from += r.from_step[d];
      r.to += r.to_step[d];
      if (++at[d] < r.size[d]) break;
      r.from -= r.size[d] * r.from_step[d];
      r.to -= r.size[d] * r.to_step[d];
      at[d] = 0;
    }
    if (d < 0) return total;
  }
}

void tsr__cpu_from_host(const tsr__box_copy *copy, const void *host, tsr__buffer *to)
{
  copy_box_by_runs(copy, host, tsr__cpu_data(to),
                   copy->dtype == TSR_BOOL ? run_bytes_to_bits : run_plain);
}

void tsr__cpu_to_host(const tsr__box_copy *copy, const tsr__buffer *from, void *host)
{
  copy_box_by_runs(copy, tsr__cpu_data(from), host,
                   copy->dtype == TSR_BOOL ? run_bits_to_bytes : run_plain);
}

/* Bools count as the bytes of their bits, rounded up. */
void tsr__cpu_copy(const tsr__box_copy *copy, const tsr__buffer *from, tsr__buffer *to,
                   tsr__traffic *traffic)
{
  bool bits = copy->dtype == TSR_BOOL;
  run_fn *plain = copy->streams ? run_streaming : run_plain;
  int64_t count =
      copy_box_by_runs(copy, tsr__cpu_data(from), tsr__cpu_data(to), bits ? run_bits : plain);
  if (copy->streams) tsr__put_done();
  if (from->device == to->device || !traffic) return;
  traffic->bytes += tsr__elements_bytes(copy->dtype, count);
}

/* The one place that counts bytes between devices for transfers that are not boxes: records,
 * partials, words. */
void tsr__cpu_move(const tsr__transfer *carry, tsr__traffic *traffic)
{
  if (carry->streams) tsr__put_run(carry->to, carry->from, carry->bytes);
  else memcpy(carry->to, carry->from, carry->bytes);
  if (carry->to_device != carry->from_device && traffic) traffic->bytes += (int64_t)carry->bytes;
}
