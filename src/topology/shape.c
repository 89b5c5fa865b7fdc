/* Shapes: element counts and the one notation for types, "f32[1024,32]@(data,-)". */
#include <stdio.h>

#include "topology/topology.h"

/* -1 also stands for what cannot be counted before a run. */
int64_t tsr__shape_count(const tsr_shape *shape)
{
  int64_t count = 1;
  bool empty = false, overflow = false;

  /* Empty dims do not excuse the others: strides and parts of the shape are products of them. */
  for (int d = 0; d < shape->rank; d++) {
    int64_t dim = shape->dims[d];
    if (dim < 0) return -1;
    empty |= dim == 0;
    overflow |= __builtin_mul_overflow(count, dim ? dim : 1, &count);
  }
  return overflow ? -1 : empty ? 0 : count;
}

bool tsr__shape_same(const tsr_shape *a, const tsr_shape *b)
{
  return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

enum { SHAPE_ROOM = 256 }; /* 8 sizes of 20 characters fit */

/* Writes "[1024,32]"; a size known only at run time is "?". */
static size_t shape_write(const tsr_shape *shape, char out[SHAPE_ROOM])
{
  /* Shapes in messages may be the ones that are refused: a rank out of range must not lead
   * beyond the dims. */
  int rank = shape->rank < 0 ? 0 : shape->rank > TSR_MAX_RANK ? TSR_MAX_RANK : shape->rank;
  size_t n = 0;

  out[n++] = '[';
  for (int d = 0; d < rank; d++) {
    if (d) out[n++] = ',';
    if (shape->dims[d] == -1) out[n++] = '?';
    else n += (size_t)snprintf(out + n, SHAPE_ROOM - n, "%lld", (long long)shape->dims[d]);
  }
  out[n++] = ']';
  out[n] = '\0';
  return n;
}

tsr_status tsr__shape_check(const tsr_shape *shape, tsr__error *error)
{
  char text[SHAPE_ROOM];

  if (shape->rank < 0 || shape->rank > TSR_MAX_RANK)
    return tsr__error_set(error, TSR_ESHAPE, "a shape has 0 to %d dims, not %d", TSR_MAX_RANK,
                          shape->rank);
  /* The text is made before anything is known to be wrong: it is cheap beside what a shape is
   * asked for. */
  shape_write(shape, text);
  for (int d = 0; d < shape->rank; d++)
    if (shape->dims[d] < 0)
      return tsr__error_set(error, TSR_ESHAPE, "dim %d of shape %s is %lld; sizes are 0 or more", d,
                            text, (long long)shape->dims[d]);
  /* A rank, then each dim, then their product: the first of them that is wrong is the one that
   * is told. */
  int64_t count = tsr__shape_count(shape);
  if (count < 0 || count > INT64_MAX / 16) /* bytes are counted, too */
    return tsr__error_set(error, TSR_ESHAPE,
                          "shape %s has more elements than 63 bits can count; give smaller sizes",
                          text);
  return TSR_OK;
}

/* Writes a whole type; 8 axis names of 31 bytes and 8 sizes of 20 digits fit `out`. */
enum { TYPE_ROOM = 1024 };

/* Room was counted for the longest there can be, so nothing is cut here. */
static size_t type_write(tsr_dtype dtype, const tsr_shape *shape, const tsr_sharding *sharding,
                         char out[TYPE_ROOM])
{
  size_t n = 0;

  if (dtype) n = (size_t)snprintf(out, TYPE_ROOM, "%s", tsr_dtype_name(dtype));
  n += shape_write(shape, out + n);
  /* Unplaced arrays show no place, so that programs without meshes are not full of it. */
  if (sharding && sharding->mesh) {
    out[n++] = '@';
    n += (size_t)tsr_sharding_text(sharding, shape->rank, out + n, TYPE_ROOM - n);
  }
  return n;
}

void tsr__type_add(tsr__text *text, tsr_dtype dtype, const tsr_shape *shape,
                   const tsr_sharding *sharding)
{
  char type[TYPE_ROOM];

  tsr__text_put(text, type, type_write(dtype, shape, sharding, type));
}

int tsr_type_text(tsr_dtype dtype, tsr_shape shape, const tsr_sharding *sharding, char *out,
                  size_t capacity)
{
  char type[TYPE_ROOM];
  size_t n = type_write(dtype, &shape, sharding, type);

  /* A type without dtype is "?[8]" in texts for users, and the bare shape in our messages. */
  if (!dtype) {
    memmove(type + 1, type, n + 1);
    type[0] = '?';
    n++;
  }
  if (out && capacity) {
    /* As snprintf: cut to the room there is, and the whole length is returned. */
    size_t copy = n < capacity ? n : capacity - 1;
    memcpy(out, type, copy);
    out[copy] = '\0';
  }
  return (int)n;
}
