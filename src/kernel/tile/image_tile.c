/* Images: rows added, then pixels of a row; and bytes to floats. */
#include "kernel/tile/image.h"

#include "kernel/tile/tile_inner.h"

enum { WIDE = 16 };

typedef float floats_wide __attribute__((vector_size(WIDE * sizeof(float)), aligned(4), may_alias));

/* GCC 12 converts vectors of bytes to floats one by one; loops over them it does at once. */
INLINE void load_pixel_bytes(floats_wide *to, const unsigned char *from)
{
#if defined(TILE_AVX512)
  __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)from);
  *to = (floats_wide)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
#elif defined(TILE_AVX2)
  float x[WIDE];
  for (int i = 0; i < WIDE; i += 8) {
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)(from + i));
    _mm256_storeu_ps(x + i, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)));
  }
  memcpy(to, x, sizeof *to);
#else
  float x[WIDE];
  ANY_ORDER for (int i = 0; i < WIDE; i++) x[i] = (float)from[i];
  memcpy(to, x, sizeof *to);
#endif
}

/* The four pixels of a vector, `step` floats from one to the next. */
INLINE void spread_pixels(float *to, ptrdiff_t step, const floats_wide *from)
{
#if defined(TILE_AVX512)
  __m512 all = (__m512)*from;
  _mm_storeu_ps(to, _mm512_castps512_ps128(all));
  _mm_storeu_ps(to + step, _mm512_extractf32x4_ps(all, 1));
  _mm_storeu_ps(to + 2 * step, _mm512_extractf32x4_ps(all, 2));
  _mm_storeu_ps(to + 3 * step, _mm512_extractf32x4_ps(all, 3));
#else
  for (int i = 0; i < 4; i++) memcpy(to + i * step, (const float *)from + 4 * i, 16);
#endif
}

/* The last vector may reach beyond n: rows and sums have padding after them (TSR__IMAGE_PAD). */
static void down(float *sum, const tsr__down *job)
{
  const float *weight = job->weight;
  for (int64_t i = 0; i < job->n; i += WIDE) {
    floats_wide all, x;
    load_pixel_bytes(&x, job->row[0] + i);
    all = weight[0] * x;
    for (int r = 1; r < job->rows; r++) {
      load_pixel_bytes(&x, job->row[r] + i);
      all += weight[r] * x;
    }
    if (job->place < 0) *(floats_wide *)(sum + i) = all;
    else spread_pixels(sum + 4 * i + (ptrdiff_t)4 * job->place, WIDE, &all);
  }
}

/* One lane: a weighted sum of neighbours for each place. */
static void across_one(float *out, const tsr__across *job, const float *sum)
{
  const tsr__taps *taps = job->taps;
  for (int k = 0; k < taps->count; k++) {
    int list = job->reversed ? taps->count - 1 - k : k;
    const float *weight = taps->weight + (size_t)list * (size_t)taps->most;
    const float *from = sum + taps->first[list];
    float all = weight[0] * from[0];
    for (int t = 1; t < taps->length[list]; t++) all += weight[t] * from[t];
    out[k] = all * job->scale[0] + job->bias[0];
  }
}

/* Packed pixels are written whole, the fourth lane where the next one comes; but not the last. */
static void across_pixels(float *out, const tsr__across *job)
{
  const tsr__taps *taps = job->taps;
  floats_wide scale, bias;
  int pace = job->packed ? 3 : 4, whole = job->packed ? taps->count - 1 : taps->count;
  for (int r = 0; r < job->rows && job->lanes == 1; r++)
    across_one(out + r * job->step, job, job->sum + r * job->line);
  if (job->lanes == 1) return;
  for (int i = 0; i < WIDE; i++) scale[i] = job->scale[i % 4], bias[i] = job->bias[i % 4];
  for (int k = 0; k < taps->count; k++) {
    int list = job->reversed ? taps->count - 1 - k : k;
    const float *weight = taps->weight + (size_t)list * (size_t)taps->most;
    const floats_wide *at = (const floats_wide *)job->sum + taps->first[list];
    floats_wide all = weight[0] * at[0];
    for (int t = 1; t < taps->length[list]; t++) all += weight[t] * at[t];
    all = all * scale + bias;
    float *to = out + (ptrdiff_t)k * pace;
    if (k < whole && job->rows == TSR__IMAGE_ROWS) {
      spread_pixels(to, job->step, &all);
      continue;
    }
    for (int r = 0; r < job->rows; r++)
      memcpy(to + r * job->step, (const float *)&all + 4 * r, (k < whole ? 4 : 3) * sizeof *to);
  }
}

static void scaled_bytes(float *out, const unsigned char *from, int64_t n,
                         const tsr__scaling *scaling)
{
  int64_t i = 0;
  for (; i + TSR__SCALED <= n; i += TSR__SCALED)
    for (int k = 0; k < TSR__SCALED; k += WIDE) {
      floats_wide x;
      load_pixel_bytes(&x, from + i + k);
      x *= *(const floats_wide *)(scaling->by + k);
      *(floats_wide *)(out + i + k) = x + *(const floats_wide *)(scaling->plus + k);
    }
  for (int k = 0; i < n; i++, k++) out[i] = (float)from[i] * scaling->by[k] + scaling->plus[k];
}

const tsr__image_tiles TSR__ISA_NAME(tsr__image_tiles) = { down, across_pixels, scaled_bytes };
