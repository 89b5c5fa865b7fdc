/* Prefix sums along a dim: element i is the sum of elements 0 .. i, that one included.
 *
 *   sums of a strip     one exact sum a line (exact_rows.h); each step adds a run to them and
 *                       rounds every one once
 *
 * Integers wrap. */
#include "kernel/routine/routine.h"

enum { WIDTH = 64 };

/* What of a step's sums fits two doubles is read at once; the rest by the book. */
static void read_sums(const tsr__rows *sums, tsr_dtype dtype, void *to)
{
  if (dtype == TSR_F64 && !sums->slot) {
    double *out = to;
    for (int64_t j = 0; j < sums->count; j++) {
      double a = sums->part[0][j], b = sums->part[1][j];
      bool plain = fabs(a) < TSR__ROWS_PART_LIMIT && a != 0 && sums->part[2][j] == 0;
      if (plain) {
        out[j] = a + b;
        continue;
      }
      tsr__rows one = tsr__rows_slice(sums, j, 1);
      tsr__rows_sum(&one, &(tsr__rows_read){ .to = dtype }, out + j);
    }
    return;
  }
  tsr__rows_sum(sums, &(tsr__rows_read){ .to = dtype }, to);
}

static tsr_status real_strip(const tsr__strip *s)
{
  tsr_dtype dtype = tsr__call_dtype(s->call, 0);
  bool reverse = tsr__call_reverse(s->call);
  const void *from = s->part->in[0].buffer->data;
  char *to = s->part->out[0].buffer->data;
  double *x = (double *)(void *)s->room;
  tsr__rows sums;
  int64_t left = 0, size = (int64_t)tsr_dtype_size(dtype);
  tsr__rows_init(&sums, &s->call->rt->heap, x + WIDTH, s->count);
  for (int64_t t = 0; t < s->along && tsr__strip_goes_on(s, &left); t++) {
    int64_t at = tsr__strip_at(s, t, reverse);
    tsr__load_reals(dtype, from, at, s->count, x);
    for (int64_t j = 0; j < s->count; j++) tsr__rows_add(&sums, j, x[j]);
    read_sums(&sums, dtype, to + at * size);
  }
  tsr_status status = sums.failed ? TSR_ENOMEM : TSR_OK;
  tsr__rows_free(&sums);
  return status;
}

/* i64 and u64 alike. */
static tsr_status whole_strip(const tsr__strip *s)
{
  bool reverse = tsr__call_reverse(s->call);
  const uint64_t *from = s->part->in[0].buffer->data;
  uint64_t *to = s->part->out[0].buffer->data, *sum = (uint64_t *)(void *)s->room;
  int64_t left = 0;
  memset(sum, 0, (size_t)s->count * sizeof *sum);
  for (int64_t t = 0; t < s->along && tsr__strip_goes_on(s, &left); t++) {
    int64_t at = tsr__strip_at(s, t, reverse);
    for (int64_t j = 0; j < s->count; j++) to[at + j] = sum[j] += from[at + j];
  }
  return TSR_OK;
}

tsr_status tsr__routine_cumsum(const tsr__call *call, tsr__error *error)
{
  bool real = tsr__dtype_float(tsr__call_dtype(call, 0));
  tsr__line_work work = { .width = WIDTH,
                          .room = WIDTH * sizeof(double) + tsr__rows_bytes(WIDTH),
                          .fn = real ? real_strip : whole_strip };
  return tsr__each_line(call, &work, error);
}
