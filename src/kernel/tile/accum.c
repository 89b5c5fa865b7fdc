/* The table of accumulators, and the functions that its rows share.
 *
 *   accums.def   ACCUM(SUM_LONE, ...)   -->   TSR__ACCUM_SUM_LONE, tsr__accum_SUM_LONE
 *   data         element 0 | element 1 | ...    ops->bytes each, in words of 8 bytes */
#include "kernel/tile/accum.h"

const tsr__accum_ops *const tsr__accum_table[TSR__ACCUMS] = {
#define ACCUM(id, ...) [TSR__ACCUM_##id] = &tsr__accum_##id,
#define CLASS(...)
#include "graph/accums.def"
};

/* ---- memory ---- */

/* Rows whose elements have several words fill in other ways, by themselves. */
void tsr__accum_fill(const tsr__partial *p, size_t from, size_t to, int64_t word)
{
  int64_t *data = p->data;
  for (size_t i = from; i < to; i++) data[i] = word;
}

void tsr__accum_zeros(const tsr__partial *p, size_t from, size_t to)
{
  tsr__accum_fill(p, from, to, 0);
}

/* Byte by byte and little-endian, whatever the machine is: the wire form is the same everywhere. An
 * element takes a few bytes. */
void tsr__put_bytes(unsigned char *to, uint64_t value, size_t size)
{
  for (size_t i = 0; i < size; i++) to[i] = (unsigned char)(value >> (8 * i));
}

/* Reads a number that tsr__put_bytes wrote; bytes that did not travel are 0. */
uint64_t tsr__get_bytes(const unsigned char *from, size_t size)
{
  uint64_t value = 0;
  for (size_t i = 0; i < size; i++) value |= (uint64_t)from[i] << (8 * i);
  return value;
}

/* ---- runs ---- */

/* Three cases of a COUNT: all, those of the mask, those of both. */
int64_t tsr__count_true(const tsr__feed *f)
{
  if (!f->x) return f->mask ? f->tiles->count(f->mask, NULL, f->n) : f->n;
  return f->tiles->count(f->x, f->mask, f->n);
}

/* ---- results ---- */

int64_t tsr__final_count(const tsr__final *f, int64_t i)
{
  /* The divisor of a mean: counted where a mask or groups choose, else known from shapes. */
  return f->count ? ((const int64_t *)f->count->data)[i] : f->population;
}

bool tsr__final_is_mean(const tsr__final *f)
{
  return tsr__ops[f->node->op].finish == TSR__FINISH_MEAN;
}

bool tsr__final_is_root(const tsr__final *f)
{
  return tsr__ops[f->node->op].finish == TSR__FINISH_STD;
}

/* Results are written as devices have them: bools as bits. */
void tsr__final_put_whole(const tsr__final *f, int64_t i, int64_t value)
{
  if (f->node->dtype == TSR_BOOL) tsr__bits_put(f->out, i, 1, (uint64_t)(value != 0));
  else tsr__dtype_put_whole((tsr_dtype)f->node->dtype, f->out, i, value);
}

void tsr__final_put_real(const tsr__final *f, int64_t i, double value)
{
  tsr__dtype_put_real((tsr_dtype)f->node->dtype, f->out, i, value);
}
