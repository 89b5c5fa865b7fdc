/* Packing: lines of an operand of a matrix product, wherever they lie, become a panel. If
 * neighbours of a panel are neighbours in memory, whole pieces are taken at once; lines that lie
 * whole are turned in registers. Transposes that are read turn lines likewise. */
#include "kernel/tile/squares.h"

#include "topology/half.h"

/* Looked at once a panel, so that its steps may copy lines as one piece. */
INLINE bool are_neighbours(const int64_t *at, int64_t n)
{
  for (int64_t i = 1; i < n; i++)
    if (at[i] != at[0] + i) return false;
  return true;
}

/* ---- turning --------------------------------------------------------------------------------- */

#define TURN_SQUARE(size, T)                                                                      \
  INLINE void turn_##size(const T *from, const int64_t *line, T *to, int high)                    \
  {                                                                                               \
    lanes_##size turned[SQUARE_##size];                                                           \
    square_##size(from, line, turned);                                                            \
    for (int i = 0; i < SQUARE_##size; i++) *(lanes_##size *)(void *)(to + i * high) = turned[i]; \
  }
TURN_SQUARE(4, uint32_t)
TURN_SQUARE(8, uint64_t)

/* n steps of all lines, a cache line of each at a time. The last lines that are turned together may
 * be some that were turned before. Returns how many steps it did. */
enum { AHEAD = 8 }; /* cache lines that come to the second cache */
#define TURN(size, T)                                                                     \
  INLINE int64_t turn_run_##size(const void *from, const int64_t *line, int64_t n, T *to, \
                                 int high)                                                \
  {                                                                                       \
    enum { PIECE = 64 / size, SQUARE = SQUARE_##size, LINES = SQUARE * LANES };           \
    const int64_t whole = n / SQUARE * SQUARE;                                            \
    for (int64_t k = 0, end; k < whole; k = end) {                                        \
      end = k + PIECE < whole ? k + PIECE : whole;                                        \
      for (int i = 0; i < high; i += LINES) {                                             \
        const int first = i + LINES <= high ? i : high - LINES;                           \
        int64_t on[LINES];                                                                \
        for (int l = 0; l < LINES; l++) {                                                 \
          on[l] = line[first + l];                                                        \
          __builtin_prefetch((const T *)from + on[l] + k + AHEAD * PIECE, 0, 2);          \
        }                                                                                 \
        for (int64_t at = k; at < end; at += SQUARE)                                      \
          turn_##size((const T *)from + at, on, to + at * high + first, high);            \
      }                                                                                   \
    }                                                                                     \
    return whole;                                                                         \
  }
TURN(4, uint32_t)
TURN(8, uint64_t)

#define TURN_0(from, line, n, to, high) 0
#define TURN_4(from, line, n, to, high) turn_run_4(from, line, n, (uint32_t *)(void *)(to), high)
#define TURN_8(from, line, n, to, high) turn_run_8(from, line, n, (uint64_t *)(void *)(to), high)

#define TURN_LINES(size, T)                                                                  \
  INLINE int64_t turn_lines_##size(const tsr__turning *job)                                  \
  {                                                                                          \
    enum { SQUARE = SQUARE_##size, LINES = SQUARE * LANES };                                 \
    const int64_t step = job->step, pitch = job->pitch;                                      \
    int64_t line[LINES], c = 0;                                                              \
    for (int l = 0; l < LINES; l++) line[l] = l * step;                                      \
    for (; c + LINES <= job->lines; c += LINES)                                              \
      for (int r = 0; r < 64 / size; r += SQUARE)                                            \
        turn_##size((const T *)job->from + c * step + r, line, (T *)job->to + r * pitch + c, \
                    (int)pitch);                                                             \
    return c;                                                                                \
  }
TURN_LINES(4, uint32_t)
TURN_LINES(8, uint64_t)

int64_t TSR__ISA_NAME(tsr__turn)(const tsr__turning *job, int64_t size)
{
  return size == 4 ? turn_lines_4(job) : size == 8 ? turn_lines_8(job) : 0;
}

/* ---- packing --------------------------------------------------------------------------------- */

enum {
  PIECE = 16, /* steps that stay in the cache while all lines of them are converted */
  FAR = 16,   /* steps whose neighbours come to the second cache: each of them is of another page */
  SIDE = 512  /* bytes of a step that go to panels side by side, before the next step's page */
};

/* Prefetches so many bytes of the step that is FAR ahead. */
INLINE void ask_far(const tsr__packing *p, int64_t k, int64_t bytes, size_t size)
{
  const int64_t far = p->line[0] + p->step[k + FAR < p->depth ? k + FAR : p->depth - 1];
  const char *first = (const char *)p->from + far * (int64_t)size;
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(first + at, 0, 2);
  __builtin_prefetch(first + bytes - 1, 0, 2);
}

/* How many whole panels, the first of them there, have lines that are all neighbours. */
INLINE int side_by_side(const tsr__packing *p, size_t size)
{
  int n = 1;
  int64_t most = SIDE / ((int64_t)size * p->high), lines = p->high;
  while (n < most && (n + 1) * lines <= p->lines && p->line[n * lines] == p->line[0] + n * lines &&
         are_neighbours(p->line + n * lines, lines))
    n++;
  return n;
}

/* SIZE of elements that are turned as they are; 0: they are converted, by loops for any width:
 * loops of each width for so many types would be a tenth of a megabyte. If neither the depth nor
 * all lines lie side by side, as in rows of windows, some lines do: pieces. */
#define PACK(name, T, R, VALUE, SIZE)                                                        \
  INLINE void name##_across(const tsr__packing *p, int high, int panels)                     \
  {                                                                                          \
    for (int64_t k = 0; k < p->depth; k++) {                                                 \
      const T *x = (const T *)p->from + p->line[0] + p->step[k];                             \
      R *to = (R *)p->to + k * high;                                                         \
      if (SIZE) ask_far(p, k, (int64_t)sizeof(T) * high * panels, sizeof(T));                \
      for (int n = 0; n < panels; n++, x += high, to += p->depth * high)                     \
        if (SIZE) memcpy(to, x, (size_t)high * sizeof *to);                                  \
        else                                                                                 \
          for (int i = 0; i < high; i++) to[i] = VALUE(x[i]);                                \
    }                                                                                        \
  }                                                                                          \
  INLINE void name##_some(const tsr__packing *p)                                             \
  {                                                                                          \
    R *to = p->to;                                                                           \
    for (int64_t k = 0; k < p->depth; k++, to += p->high) {                                  \
      const T *x = (const T *)p->from + p->line[0] + p->step[k];                             \
      for (int i = 0; i < p->lines; i++) to[i] = VALUE(x[i]);                                \
      for (int i = (int)p->lines; i < p->high; i++) to[i] = to[0];                           \
    }                                                                                        \
  }                                                                                          \
  INLINE void name##_along(const tsr__packing *p, int high)                                  \
  {                                                                                          \
    R *to = p->to;                                                                           \
    for (int64_t k = 0; k < p->depth; to += p->run[k] * high, k += p->run[k]) {              \
      const T *from = (const T *)p->from + p->step[k];                                       \
      const int64_t n = p->run[k];                                                           \
      for (int64_t at = TURN_##SIZE(from, p->line, n, to, high), end; at < n; at = end) {    \
        end = at + PIECE < n ? at + PIECE : n;                                               \
        for (int i = 0; i < high; i++)                                                       \
          for (int64_t j = at; j < end; j++) to[j * high + i] = VALUE(from[p->line[i] + j]); \
      }                                                                                      \
    }                                                                                        \
  }                                                                                          \
  INLINE void name##_pieces(const tsr__packing *p)                                           \
  {                                                                                          \
    const int high = p->high;                                                                \
    for (int i = 0, n; i < high; i += n) {                                                   \
      for (n = 1; i + n < high && p->line[i + n] == p->line[i] + n;) n++;                    \
      const T *from = (const T *)p->from + p->line[i];                                       \
      R *to = (R *)p->to + i;                                                                \
      for (int64_t k = 0; k < p->depth; k++, to += high)                                     \
        for (int j = 0; j < n; j++) to[j] = VALUE(from[p->step[k] + j]);                     \
    }                                                                                        \
  }                                                                                          \
  INLINE int name##_panels(const tsr__packing *p)                                            \
  {                                                                                          \
    const int wide = 2 * PRODUCT_BYTES / (int)sizeof(R);                                     \
    const int64_t lines = p->lines < p->high ? p->lines : p->high;                           \
    const int panels = are_neighbours(p->line, lines) ? side_by_side(p, sizeof(T)) : 0;      \
    if (!panels && p->run[0] == 1) name##_pieces(p);                                         \
    else if (lines < p->high && panels) name##_some(p);                                      \
    else if (!SIZE) panels ? name##_across(p, p->high, panels) : name##_along(p, p->high);   \
    else if (!panels && p->high == wide) name##_along(p, wide);                              \
    else if (!panels) name##_along(p, PRODUCT_HIGH);                                         \
    else if (p->high == 1) name##_across(p, 1, panels);                                      \
    else if (p->high == wide) name##_across(p, wide, panels);                                \
    else name##_across(p, PRODUCT_HIGH, panels);                                             \
    return panels ? panels : 1;                                                              \
  }                                                                                          \
  void TSR__ISA_NAME(tsr__##name)(const tsr__packing *p)                                     \
  {                                                                                          \
    tsr__packing left = *p;                                                                  \
    while (left.lines > 0) {                                                                 \
      const int64_t lines = (int64_t)name##_panels(&left) * p->high;                         \
      left.line += lines;                                                                    \
      left.lines -= lines;                                                                   \
      left.to = (R *)left.to + lines * p->depth;                                             \
    }                                                                                        \
  }

#define AS_f32(v) ((float)(v))
#define AS_f64(v) ((double)(v))
#define AS_u32(v) ((uint32_t)(v))
#define AS_u64(v) ((uint64_t)(v))
#define F16_f32(v) tsr__f32_of_f16(v)
#define BF16_f32(v) tsr__f32_of_bf16(v)
#define F16_f64(v) ((double)tsr__f32_of_f16(v))
#define BF16_f64(v) ((double)tsr__f32_of_bf16(v))

PACK(pack_F32_f32, float, float, AS_f32, 4)
PACK(pack_F16_f32, uint16_t, float, F16_f32, 0)
PACK(pack_BF16_f32, uint16_t, float, BF16_f32, 0)
PACK(pack_F64_f64, double, double, AS_f64, 8)
PACK(pack_F32_f64, float, double, AS_f64, 0)
PACK(pack_F16_f64, uint16_t, double, F16_f64, 0)
PACK(pack_BF16_f64, uint16_t, double, BF16_f64, 0)

/* Integers are widened with their sign and computed modulo 2^bits. */
#define WHOLE(kind, R, signed_R, SAME)                   \
  PACK(pack_I8_##kind, int8_t, R, (R)(signed_R), 0)      \
  PACK(pack_I16_##kind, int16_t, R, (R)(signed_R), 0)    \
  PACK(pack_I32_##kind, int32_t, R, (R)(signed_R), SAME) \
  PACK(pack_U8_##kind, uint8_t, R, (R), 0)               \
  PACK(pack_U16_##kind, uint16_t, R, (R), 0)             \
  PACK(pack_U32_##kind, uint32_t, R, (R), SAME)
WHOLE(u32, uint32_t, int32_t, 4)
WHOLE(u64, uint64_t, int64_t, 0)
PACK(pack_I64_u64, int64_t, uint64_t, AS_u64, 8)
PACK(pack_U64_u64, uint64_t, uint64_t, AS_u64, 8)
