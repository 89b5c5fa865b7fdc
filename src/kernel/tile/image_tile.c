/* Images: rows added, then pixels of a row. */
#include "kernel/tile/image.h"

#include "kernel/tile/tile_inner.h"

enum { WIDE = 16 };

typedef uint8_t bytes_wide __attribute__((vector_size(WIDE), aligned(1), may_alias));
typedef float floats_wide __attribute__((vector_size(WIDE * sizeof(float)), aligned(4), may_alias));
typedef float pixel __attribute__((vector_size(4 * sizeof(float)), aligned(4), may_alias));

/* The last vector may reach beyond n: rows and sums have room behind them (TSR__IMAGE_PAD). */
static void down(float *sum, const unsigned char *const *row, const float *weight, int rows,
                 int64_t n)
{
  for (int64_t i = 0; i < n; i += WIDE) {
    floats_wide all =
        weight[0] * __builtin_convertvector(*(const bytes_wide *)(row[0] + i), floats_wide);
    for (int r = 1; r < rows; r++)
      all += weight[r] * __builtin_convertvector(*(const bytes_wide *)(row[r] + i), floats_wide);
    *(floats_wide *)(sum + i) = all;
  }
}

/* Of one lane: a weighted sum of neighbours for each place. */
static void across_one(float *out, const tsr__across *job)
{
  const tsr__taps *taps = job->taps;
  for (int k = 0; k < taps->count; k++) {
    int list = job->reversed ? taps->count - 1 - k : k;
    const float *weight = taps->weight + (size_t)list * (size_t)taps->most;
    const float *from = job->sum + taps->first[list];
    float all = weight[0] * from[0];
    for (int t = 1; t < taps->length[list]; t++) all += weight[t] * from[t];
    out[k] = all * job->scale[0] + job->bias[0];
  }
}

/* Packed pixels are written whole, the fourth lane where the next one comes; but not the last. */
static void across(float *out, const tsr__across *job)
{
  const tsr__taps *taps = job->taps;
  const pixel scale = *(const pixel *)job->scale, bias = *(const pixel *)job->bias;
  if (job->lanes == 1) {
    across_one(out, job);
    return;
  }
  for (int k = 0; k < taps->count; k++) {
    int list = job->reversed ? taps->count - 1 - k : k;
    const float *weight = taps->weight + (size_t)list * (size_t)taps->most;
    const pixel *at = (const pixel *)job->sum + taps->first[list];
    pixel all = weight[0] * at[0];
    for (int t = 1; t < taps->length[list]; t++) all += weight[t] * at[t];
    all = all * scale + bias;
    if (!job->packed) ((pixel *)out)[k] = all;
    else if (k + 1 < taps->count) *(pixel *)(out + (size_t)k * 3) = all;
    else memcpy(out + (size_t)k * 3, &all, 3 * sizeof *out);
  }
}

const tsr__image_tiles TSR__ISA_NAME(tsr__image_tiles) = { down, across };
