/* Keys of any columns as unsigned numbers whose order is the rows' order.
 *
 *   value           ordinal (i64, order kept)     code, `bits` wide          a row's key
 *   -2, 7, null     -2, 7                         0, 9, 10 (nulls last)      |origin|day|.| 64 bits
 *   1.5, NaN        0x3FF8.. ^ sign, above inf    ordinal - least            first key on top
 *
 * Invariant: every row's code fits the bits that tsr__keys_settle gave its key, so fields never
 * touch each other. Null rows may hold any bits, which are never read as a value.
 *
 * A code of 65 bits (all of i64, and nulls) has its top bit in a field of its own. */
#include "kernel/device/cpu.h"
#include "kernel/rows/pieces.h"
#include "kernel/tile/interp_tile.h"
#include "topology/half.h"

enum { BLOCK = 1024 };

/* ---- ordinals -------------------------------------------------------------------------------- */

/* Some rows of a key column: their ordinals, and which of them are values at all. */
typedef struct block {
  int64_t ordinal[BLOCK];
  uint64_t live[BLOCK / 64];
  bool all; /* every row is a value; `live` is not filled */
} block;

/* NaN of any payload becomes one number just above infinity, -0 becomes 0. Negative floats grow
 * downwards as bits: all but the sign are turned. */
static inline int64_t ordinal_f64(uint64_t bits)
{
  const uint64_t sign = UINT64_C(1) << 63, infinity = UINT64_C(0x7FF) << 52;
  if ((bits & ~sign) > infinity) bits = infinity + 1;
  if (bits == sign) bits = 0;
  return (int64_t)(bits & sign ? bits ^ ~sign : bits);
}

static inline int64_t ordinal_f32(uint32_t bits)
{
  const uint32_t sign = UINT32_C(1) << 31, infinity = UINT32_C(0xFF) << 23;
  if ((bits & ~sign) > infinity) bits = infinity + 1;
  if (bits == sign) bits = 0;
  return (int32_t)(bits & sign ? bits ^ ~sign : bits);
}

static inline bool is_live(const block *b, int i)
{
  return b->all || (b->live[i / 64] >> (i % 64) & 1);
}

/* A block without nulls has no bits yet; texts that stand for nothing make some. */
static void make_live(block *b, int n)
{
  if (b->all) memset(b->live, 0xFF, (size_t)(n + 63) / 64 * sizeof *b->live);
  b->all = false;
}

/* Text by its map: codes that stand for nothing are no values. */
static void map_block(const tsr__key *key, const int32_t *code, int n, block *b)
{
  for (int i = 0; i < n; i++) {
    bool known = code[i] >= 0 && code[i] < key->map_count;
    int32_t to = known ? key->map[code[i]] : -1;
    b->ordinal[i] = to;
    if (to >= 0) continue;
    make_live(b, n);
    b->live[i / 64] &= ~(UINT64_C(1) << (i % 64));
  }
}

#define LOAD(T, ORDINAL)                                 \
  do {                                                   \
    const T *data = (const T *)all + at;                 \
    for (int i = 0; i < n; i++) b->ordinal[i] = ORDINAL; \
  } while (0)

/* Integers as they are, u64 less 2^63, floats in the order of their values. */
static void load_plain_values(const tsr__colparts *column, const tsr__piece *rows, block *b)
{
  const void *all = tsr__cpu_data(column->values[rows->part]);
  int64_t at = rows->start;
  int n = (int)rows->count;
  switch (column->dtype) {
  case TSR_BOOL:
    for (int i = 0; i < n; i++)
      b->ordinal[i] = ((const uint64_t *)all)[(at + i) / 64] >> ((at + i) % 64) & 1;
    break;
  case TSR_I8: LOAD(int8_t, data[i]); break;
  case TSR_I16: LOAD(int16_t, data[i]); break;
  case TSR_I32: LOAD(int32_t, data[i]); break;
  case TSR_U8: LOAD(uint8_t, data[i]); break;
  case TSR_U16: LOAD(uint16_t, data[i]); break;
  case TSR_U32: LOAD(uint32_t, data[i]); break;
  case TSR_I64: memcpy(b->ordinal, (const int64_t *)all + at, (size_t)n * 8); break;
  case TSR_U64: LOAD(uint64_t, (int64_t)(data[i] ^ UINT64_C(1) << 63)); break;
  case TSR_F16: LOAD(uint16_t, ordinal_f32(tsr__bits_of_f32(tsr__f32_of_f16(data[i])))); break;
  case TSR_BF16: LOAD(uint16_t, ordinal_f32((uint32_t)data[i] << 16)); break;
  case TSR_F32: LOAD(uint32_t, ordinal_f32(data[i])); break;
  case TSR_F64: LOAD(uint64_t, ordinal_f64(data[i])); break;
  }
}

/* Rows of a part, at most BLOCK of them, from a multiple of 64 on. A buffer of validity may say
 * nothing: then the quick loops for blocks without nulls are taken. */
static void load_block(const tsr__colparts *column, const tsr__key *key, const tsr__piece *rows,
                       block *b)
{
  int n = (int)rows->count;
  const tsr__buffer *valid = column->valid ? column->valid[rows->part] : NULL;
  b->all = true;
  if (valid) {
    const uint64_t *bits = (const uint64_t *)tsr__cpu_data(valid) + rows->start / 64;
    b->all = tsr__bits_count(bits, n) == n;
    if (!b->all) memcpy(b->live, bits, (size_t)(n + 63) / 64 * sizeof *bits);
  }
  if (key->map)
    map_block(key, (const int32_t *)tsr__cpu_data(column->values[rows->part]) + rows->start, n, b);
  else load_plain_values(column, rows, b);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

typedef struct range {
  int64_t least, most;
  bool seen, nullable;
} range;

typedef struct range_job {
  const tsr__range_ask *ask;
  range *found; /* [worker * count + key] */
  const tsr__tiles *tiles;
} range_job;

/* Two loops: without nulls the compiler makes vectors of it. */
static void widen_key_range(range *r, const block *b, int n)
{
  int64_t least = r->seen ? r->least : INT64_MAX, most = r->seen ? r->most : INT64_MIN;
  if (b->all) {
    for (int i = 0; i < n; i++) {
      int64_t v = b->ordinal[i];
      least = v < least ? v : least;
      most = v > most ? v : most;
    }
    r->seen = r->seen || n > 0;
  } else {
    for (int i = 0; i < n; i++) {
      if (!is_live(b, i)) {
        r->nullable = true;
        continue;
      }
      int64_t v = b->ordinal[i];
      least = v < least ? v : least;
      most = v > most ? v : most;
      r->seen = true;
    }
  }
  /* Only nulls: there is no least, and the key takes no room but for them. */
  if (!r->seen) return;
  r->least = least;
  r->most = most;
}

/* A column that is its own ordinals, without nulls in these rows. Such columns are the usual
 * keys: reading them by vectors, without a copy, is as quick as memory. */
static bool widen_plain(const tsr__tiles *tiles, const tsr__colparts *column,
                        const tsr__piece *rows, range *r)
{
  if (column->dtype != TSR_I64 || (column->valid && column->valid[rows->part])) return false;
  const int64_t *x = (const int64_t *)tsr__cpu_data(column->values[rows->part]) + rows->start;
  /* The extreme functions go on from the extremes so far. */
  if (!r->seen) r->least = r->most = x[0];
  tiles->extreme[TSR_I64]((tsr__extreme){ &r->least, true, false }, x, rows->count, NULL);
  tiles->extreme[TSR_I64]((tsr__extreme){ &r->most, true, true }, x, rows->count, NULL);
  r->seen = true;
  return true;
}

/* A range a worker and key, joined when all are done: no two workers write to one. */
static void range_task(void *user, int64_t task, int worker)
{
  const range_job *job = user;
  const tsr__range_ask *ask = job->ask;
  tsr__piece piece = tsr__piece_of(ask->parts, TSR__PIECE_ROWS, task);
  block b;
  for (int k = 0; k < ask->count; k++) {
    range *found = &job->found[worker * ask->count + k];
    for (int64_t at = 0; at < piece.count; at += BLOCK) {
      tsr__piece rows = { piece.part, piece.start + at, piece.count - at };
      if (rows.count > BLOCK) rows.count = BLOCK;
      if (!ask->keys[k].map && widen_plain(job->tiles, &ask->columns[k], &rows, found)) continue;
      load_block(&ask->columns[k], &ask->keys[k], &rows, &b);
      widen_key_range(found, &b, (int)rows.count);
    }
  }
}

static tsr_status no_key_memory(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM,
                        "keys: no memory for the description of packed keys; free some arrays");
}

tsr_status tsr__keys_range(tsr_runtime *rt, const tsr__range_ask *ask, tsr__error *error)
{
  int workers = tsr__worker_count(rt);
  size_t size = (size_t)(workers * ask->count + 1) * sizeof(range);
  range_job job = { ask, tsr__new(&rt->heap, size), tsr__cpu_of(rt)->tiles };
  if (!job.found) return no_key_memory(error);
  bool done = tsr__parallel_long(rt, "keys", tsr__piece_count(ask->parts, TSR__PIECE_ROWS),
                                 range_task, &job);
  for (int i = 0; done && i < workers * ask->count; i++) {
    tsr__key *key = &ask->keys[i % ask->count];
    const range *r = &job.found[i];
    /* Keys may come in with a range of another table's: it is widened, not set. */
    key->nullable = key->nullable || r->nullable;
    if (!r->seen) continue;
    if (!key->seen || r->least < key->least) key->least = r->least;
    if (!key->seen || r->most > key->most) key->most = r->most;
    key->seen = true;
  }
  tsr__del(&rt->heap, job.found, size);
  return done ? TSR_OK : tsr__cancelled(error, "keys");
}

/*    least = 3, most = 10, nulls     codes 0 .. 7, null 8      4 bits
 *    all of i64, no nulls            64 bits
 *    all of i64, and nulls           2^64 + 1 codes            65 bits */
int tsr__keys_settle(tsr__key *keys, int count, int *bits)
{
  int total = 0;
  for (int k = 0; k < count; k++) {
    uint64_t span = keys[k].seen ? (uint64_t)keys[k].most - (uint64_t)keys[k].least : 0;
    uint64_t last = span + (keys[k].seen && keys[k].nullable); /* the highest code */
    /* One code more than 64 bits have. */
    if (last < span) keys[k].bits = 65;
    else keys[k].bits = (uint8_t)tsr__used_bits(last);
    total += keys[k].bits;
  }
  if (bits) *bits = total;
  return total > 64 ? (total + 63) / 64 : 1;
}

/* ---- packing --------------------------------------------------------------------------------- */

typedef struct pack_job {
  const tsr__pack_ask *ask;
  tsr__packed_keys *out;
} pack_job;

/* The codes of a block in place of its ordinals; `high` (of keys of 65 bits) gets the top bits.
 * Descending is counting down from the most. With nulls first all codes move up by one; a wide key
 * separates nulls by the top bit instead, which is set for the last in order. */
static void encode_block(const tsr__key *key, int n, block *b, uint64_t *high)
{
  bool wide = key->bits == 65;
  uint64_t base = key->seen && key->nullable && key->nulls_first && !wide;
  uint64_t span = key->seen ? (uint64_t)key->most - (uint64_t)key->least : 0;
  uint64_t null_code = key->nulls_first || !key->seen || wide ? 0 : span + 1;
  uint64_t least = (uint64_t)key->least, most = (uint64_t)key->most;
  uint64_t *code = (uint64_t *)b->ordinal;
  if (key->descending)
    for (int i = 0; i < n; i++) code[i] = most - code[i] + base;
  else
    for (int i = 0; i < n; i++) code[i] = code[i] - least + base;
  if (wide)
    for (int i = 0; i < n; i++) high[i] = is_live(b, i) == key->nulls_first;
  if (b->all) return;
  for (int i = 0; i < n; i++)
    if (!is_live(b, i)) code[i] = null_code;
}

/* The target of a block's rows: the words of their keys, most significant first. */
typedef struct target {
  uint64_t *word;
  int64_t stride;
  int words, n;
} target;

/* Puts a field `at` bits above the lowest; it may reach into the next higher word. The lowest field
 * is the first to come to its word. Fields are put in from the last key, which takes the lowest
 * bits, to the first: at `at` 0 a word is written as a whole, which also clears its old bits. */
static void put_key_field(const target *to, int at, int bits, const uint64_t *code)
{
  int shift = at % 64;
  uint64_t *low = to->word + (to->words - 1 - at / 64) * to->stride;
  if (!at) {
    memcpy(low, code, (size_t)to->n * sizeof *low);
    return;
  }
  if (!bits) return;
  for (int i = 0; i < to->n; i++) low[i] |= code[i] << shift;
  if (shift + bits <= 64) return;
  uint64_t *next = low - to->stride;
  for (int i = 0; i < to->n; i++) next[i] |= code[i] >> (64 - shift);
}

static void pack_block(const pack_job *job, const tsr__piece *rows)
{
  const tsr__pack_ask *ask = job->ask;
  const tsr__packed_keys *out = job->out;
  int n = (int)rows->count, at = 0;
  int64_t stride = ask->parts->rows[rows->part];
  target to = { out->word[rows->part] + rows->start, stride, out->words, n };
  uint64_t *null = ask->want_null ? out->null[rows->part] + rows->start / 64 : NULL;
  block b;
  uint64_t high[BLOCK];
  /* All words but the lowest are cleared: fields are or-ed in. */
  for (int w = 0; w < out->words - (ask->count > 0); w++)
    memset(to.word + w * stride, 0, (size_t)n * 8);
  if (null) memset(null, 0, (size_t)(n + 63) / 64 * 8);
  for (int k = ask->count - 1; k >= 0; k--) {
    /* Each key's codes are made for the block and put before the next: one block of ordinals is
     * enough. */
    const tsr__key *key = &ask->keys[k];
    load_block(&ask->columns[k], key, rows, &b);
    if (null && !b.all)
      for (int i = 0; i < (n + 63) / 64; i++) null[i] |= ~b.live[i];
    encode_block(key, n, &b, high);
    put_key_field(&to, at, key->bits < 64 ? key->bits : 64, (const uint64_t *)b.ordinal);
    if (key->bits == 65) put_key_field(&to, at + 64, 1, high);
    at += key->bits;
  }
}

static void pack_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const pack_job *job = user;
  tsr__piece piece = tsr__piece_of(job->ask->parts, TSR__PIECE_ROWS, task);
  for (int64_t at = 0; at < piece.count; at += BLOCK) {
    int64_t some = piece.count - at < BLOCK ? piece.count - at : BLOCK;
    pack_block(job, &(tsr__piece){ piece.part, piece.start + at, some });
  }
}

static size_t packed_size(int parts)
{
  return (size_t)parts * (2 * sizeof(uint64_t *) + 2 * sizeof(tsr__buffer *));
}

void tsr__packed_free(tsr_runtime *rt, tsr__packed_keys *packed)
{
  if (packed->buffers)
    for (int i = 0; i < 2 * packed->parts; i++) tsr__buffer_release(packed->buffers[i]);
  tsr__del(&rt->heap, packed->buffers, packed_size(packed->parts));
  *packed = (tsr__packed_keys){ 0 };
}

static tsr_status packed_new(tsr_runtime *rt, const tsr__pack_ask *ask, tsr__packed_keys *out,
                             tsr__error *error)
{
  const tsr__parts *parts = ask->parts;
  out->parts = parts->count;
  out->buffers = tsr__new(&rt->heap, packed_size(parts->count));
  if (!out->buffers) return no_key_memory(error);
  /*   buffers: words, nulls of part 0 | of part 1 | ... | word by part | null by part */
  out->word = (uint64_t **)(out->buffers + 2 * parts->count);
  out->null = out->word + parts->count;
  for (int k = 0; k < ask->count; k++) out->bits += ask->keys[k].bits;
  out->words = out->bits > 64 ? (out->bits + 63) / 64 : 1;
  for (int p = 0; p < parts->count; p++) {
    /* Rows of a part are numbered by 32 bits, and one of the numbers means "none". */
    if (parts->rows[p] >= TSR__NO_ROW)
      return tsr__error_set(error, TSR_EUNSUPPORTED,
                            "keys: device %d holds %lld rows, expected fewer than %lld; use more "
                            "devices",
                            parts->device[p], (long long)parts->rows[p], (long long)TSR__NO_ROW);
    for (int n = 0; n < 1 + ask->want_null; n++) {
      size_t bytes = n ? tsr__device_bytes(TSR_BOOL, parts->rows[p])
                       : (size_t)parts->rows[p] * (size_t)out->words * sizeof(uint64_t);
      tsr__buffer *b = tsr__cpu_take(rt, parts->device[p], bytes, error);
      if (!b) return error->status;
      out->buffers[2 * p + n] = b;
      (n ? out->null : out->word)[p] = tsr__cpu_data(b);
    }
  }
  return TSR_OK;
}

tsr_status tsr__pack_keys(tsr_runtime *rt, const tsr__pack_ask *ask, tsr__packed_keys *out,
                          tsr__error *error)
{
  *out = (tsr__packed_keys){ 0 };
  tsr_status status = packed_new(rt, ask, out, error);
  pack_job job = { ask, out };
  if (!status && !tsr__parallel_long(rt, "keys", tsr__piece_count(ask->parts, TSR__PIECE_ROWS),
                                     pack_task, &job))
    status = tsr__cancelled(error, "keys");
  if (status) tsr__packed_free(rt, out);
  return status;
}
