/* The inputs of the blocks: integer formulas, so that every language makes the same bits.
 *
 *   r(i) = (i * 7919) mod 1009       0 .. 1008
 *   S(i) = (r(i) - 504) / 1024       below 1/2 in size: sums of products of a few are exact
 *   N(i) = (r(i) - 504) / 256        about -2 .. 2, stands for a normal draw */
#ifndef EXAMPLES_INPUTS_H
#define EXAMPLES_INPUTS_H

#include <stdlib.h>

#include <tessera.h>

static inline int64_t input_r(int64_t i)
{
  return i * 7919 % 1009;
}

static inline double input_n(int64_t i)
{
  return (double)(input_r(i) - 504) / 256;
}

/* Puts the values of f(0), f(1), ... on the devices of `rows`. */
static inline tsr_array *input_f64(tsr_scope *s, int64_t count, double (*f)(int64_t),
                                   tsr_sharding rows)
{
  double *data = malloc((size_t)count * sizeof *data + 1);
  for (int64_t i = 0; data && i < count; i++) data[i] = f(i);
  tsr_array *a = tsr_put(s, data, TSR_F64, TSR_SHAPE(count), rows);
  free(data);
  return a;
}

/* As input_f64 for integers. */
static inline tsr_array *input_i64(tsr_scope *s, int64_t count, int64_t (*f)(int64_t),
                                   tsr_sharding rows)
{
  int64_t *data = malloc((size_t)count * sizeof *data + 1);
  for (int64_t i = 0; data && i < count; i++) data[i] = f(i);
  tsr_array *a = tsr_put(s, data, TSR_I64, TSR_SHAPE(count), rows);
  free(data);
  return a;
}

static inline int64_t input_index(int64_t i)
{
  return i;
}

/* f32 of a shape, where it is told: scale * S(i). */
static inline tsr_array *input_s(tsr_scope *s, tsr_shape shape, double scale, tsr_sharding on)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  float *data = malloc((size_t)count * sizeof *data + 1);
  for (int64_t i = 0; data && i < count; i++)
    data[i] = (float)(scale * (double)(input_r(i) - 504) / 1024);
  tsr_array *a = tsr_put(s, data, TSR_F32, shape, on);
  free(data);
  return a;
}

/* The frame a[i] = i, b[i] = N(i). */
static inline tsr_frame *input_ab(tsr_scope *s, int64_t count, tsr_sharding rows)
{
  return tsr_frame_new(s, { "a", input_i64(s, count, input_index, rows) },
                       { "b", input_f64(s, count, input_n, rows) });
}

/* The frame x[i] = y[i] = i of 100 rows. */
static inline tsr_frame *input_xy(tsr_scope *s, tsr_sharding rows)
{
  return tsr_frame_new(s, { "x", input_i64(s, 100, input_index, rows) },
                       { "y", input_i64(s, 100, input_index, rows) });
}

/* Images f32[count, dims...] of U(i) = r(i) / 1024 and labels i32[count] of r(n) mod 10, as records
 * in the program's memory, which lives as long as the program. */
static inline tsr_source *input_images(tsr_scope *s, int64_t count, tsr_shape shape)
{
  int64_t each = 1;
  for (int d = 0; d < shape.rank; d++) each *= shape.dims[d];
  static float *image;
  static int32_t *label;
  free(image), free(label);
  image = malloc((size_t)(count * each) * sizeof *image + 1);
  label = malloc((size_t)count * sizeof *label + 1);
  for (int64_t i = 0; image && i < count * each; i++) image[i] = (float)input_r(i) / 1024;
  for (int64_t n = 0; label && n < count; n++) label[n] = (int32_t)(input_r(n) % 10);
  return tsr_source_memory(s, count, { "image", TSR_F32, shape, image },
                           { "label", TSR_I32, { 0 }, label });
}

#endif
