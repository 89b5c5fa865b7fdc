/* Sorting along a dim, stable, every line by itself, by one key or several.
 *
 *   elements   2.5  nan  -0  1  0       words in the same order: -0 is 0, NaN beyond all
 *   places     2 4 3 0 1                the first result takes elements by them, the second is them
 *
 * Lines of a leaf's size (rows/sort.h) are sorted inside the cache, side by side. Of longer ones
 * each device does one at a time, all together by all workers. */
#include "kernel/routine/routine.h"
#include "kernel/rows/pieces.h"
#include "kernel/rows/sort.h"

enum { WIDTH = 8 };

/* ---- elements to words, places to results ---------------------------------------------------- */

/* A word of a float of `width` bits: its own bits made to ascend, -0 those of 0, NaN all ones. */
static inline uint64_t word_of_bits(uint64_t bits, int width, uint64_t infinity)
{
  uint64_t sign = UINT64_C(1) << (width - 1), all = sign - 1 + sign;
  if (bits == sign) bits = 0;
  if ((bits & ~sign) > infinity) return all;
  return bits & sign ? ~bits & all : bits | sign;
}

/* Elements at, at + step, ...: n of them. */
typedef struct line {
  tsr_dtype dtype;
  const void *from;
  int64_t at, step, n;
  int64_t to, kept; /* where the results' line begins, and how many of them it takes */
  int64_t order;    /* tsr__sort_order */
} line;

#define WORDS(T, WORD)                               \
  for (int64_t i = 0; i < l->n; i++) {               \
    T x = ((const T *)l->from)[l->at + i * l->step]; \
    word[i] = (WORD);                                \
  }                                                  \
  break

/* Words have as many bits as elements, so that few digits tell them apart. */
static void ascending_words(const line *l, uint64_t *word)
{
  switch (l->dtype) {
  case TSR_I8: WORDS(uint8_t, (uint8_t)(x ^ 0x80u));
  case TSR_I16: WORDS(uint16_t, (uint16_t)(x ^ 0x8000u));
  case TSR_I32: WORDS(uint32_t, x ^ UINT32_C(0x80000000));
  case TSR_I64: WORDS(uint64_t, x ^ UINT64_C(1) << 63);
  case TSR_U8: WORDS(uint8_t, x);
  case TSR_U16: WORDS(uint16_t, x);
  case TSR_U32: WORDS(uint32_t, x);
  case TSR_U64: WORDS(uint64_t, x);
  case TSR_F16: WORDS(uint16_t, word_of_bits(x, 16, 0x7c00));
  case TSR_BF16: WORDS(uint16_t, word_of_bits(x, 16, 0x7f80));
  case TSR_F32: WORDS(uint32_t, word_of_bits(x, 32, 0x7f800000));
  default: WORDS(uint64_t, word_of_bits(x, 64, UINT64_C(0x7ff) << 52));
  }
}

static void find_words(const line *l, uint64_t *word)
{
  uint64_t all = UINT64_MAX >> (64 - 8 * tsr_dtype_size(l->dtype));
  ascending_words(l, word);
  if (l->order == TSR__ORDER_ASCENDING) return;
  bool last = l->order == TSR__ORDER_DESCENDING && tsr__dtype_float(l->dtype);
  for (int64_t i = 0; i < l->n; i++) word[i] = last && word[i] == all ? all : all ^ word[i];
}

#define TAKE(T)                   \
  for (int64_t i = 0; i < n; i++) \
  ((T *)to)[at + i * l->step] = ((const T *)l->from)[l->at + (int64_t)place[i] * l->step]

/* Element i of the line in order becomes element `first` + i of the results' line; NULL: nobody
 * wants that result. */
static void write_line(const line *l, const uint32_t *place, int64_t first, int64_t n,
                       void *const results[2])
{
  void *to = results[0];
  int64_t *places = results[1], at = l->to + first * l->step;
  if (n > l->kept - first) n = l->kept - first;
  for (int64_t i = 0; places && i < n; i++) places[at + i * l->step] = place[i];
  if (!to) return;
  switch (tsr_dtype_size(l->dtype)) {
  case 1: TAKE(uint8_t); break;
  case 2: TAKE(uint16_t); break;
  case 4: TAKE(uint32_t); break;
  default: TAKE(uint64_t);
  }
}

/* Line number `number` of a part's shard of operand `key`. */
static line line_of(const tsr__call *call, const tsr__call_part *part, int key, int64_t number)
{
  const tsr__gnode *node = tsr__call_node(call);
  const tsr__sort_attr *attr = tsr__attr_of(call->program, node);
  int dim = (int)attr->dim;
  tsr__sides s = tsr__sides_of(&part->in[key], tsr__call_rank(call), dim);
  int64_t before = number / s.after, behind = number % s.after, kept = part->out[0].box.size[dim];
  return (line){ .dtype = tsr__call_dtype(call, key),
                 .from = part->in[key].buffer->data,
                 .at = before * s.along * s.after + behind,
                 .step = s.after,
                 .n = s.along,
                 .to = before * kept * s.after + behind,
                 .kept = kept,
                 .order = attr->order };
}

static int key_count(const tsr__call *call)
{
  return tsr__call_node(call)->in_count;
}

static void *data_of(const tsr__shard *shard)
{
  return shard->buffer ? shard->buffer->data : NULL;
}

/* Elements and places; where there are several keys, places alone. */
static void find_results(const tsr__call *call, const tsr__call_part *part, void *results[2])
{
  bool both = tsr__call_node(call)->result_count;
  results[0] = both ? data_of(&part->out[0]) : NULL;
  results[1] = data_of(&part->out[both]);
}

/* ---- lines of a leaf's size ------------------------------------------------------------------ */

/* Behind the sorter's own: words of a key, the same in the order found so far, that order and the
 * next. */
typedef struct leaf_room {
  tsr__sort_room *sorter;
  uint64_t *word, *taken;
  uint32_t *place, *next;
} leaf_room;

static size_t leaf_bytes(int64_t along)
{
  return sizeof(tsr__sort_room) + (size_t)along * 2 * (sizeof(uint64_t) + sizeof(uint32_t));
}

static leaf_room leaf_room_of(const tsr__strip *s)
{
  leaf_room r = { .sorter = (void *)s->room };
  r.word = (uint64_t *)(void *)(r.sorter + 1);
  r.taken = r.word + s->along;
  r.place = (uint32_t *)(void *)(r.taken + s->along);
  r.next = r.place + s->along;
  return r;
}

/* The first key, then each further one in the order found so far, which is stable. */
static void sort_leaf(const tsr__strip *s, int64_t number, leaf_room *r)
{
  for (int key = 0; key < key_count(s->call); key++) {
    line l = line_of(s->call, s->part, key, number);
    tsr__sort_leaf leaf = { r->word, NULL, s->along, r->next };
    find_words(&l, r->word);
    for (int64_t i = 0; key && i < s->along; i++) r->taken[i] = r->word[r->place[i]];
    if (key) leaf.word = r->taken, leaf.at = r->place;
    tsr__sort_leaf_rows(r->sorter, &leaf);
    r->next = r->place;
    r->place = leaf.out;
  }
}

static tsr_status sort_strip(const tsr__strip *s)
{
  leaf_room room = leaf_room_of(s);
  void *results[2];
  find_results(s->call, s->part, results);
  for (int64_t j = 0; j < s->count; j++) {
    int64_t number = s->at / (s->along * s->after) * s->after + s->at % s->after + j;
    line l = line_of(s->call, s->part, 0, number);
    if (s->along > TSR__PIECE_ROWS / WIDTH && tsr__progress_stops(s->progress, s->worker)) break;
    sort_leaf(s, number, &room);
    write_line(&l, room.place, 0, s->along, results);
  }
  return TSR_OK;
}

/* ---- longer ones ----------------------------------------------------------------------------- */

/* One line of each device: `lines` have as many as `parts` have rows. */
typedef struct turn {
  const tsr__call *call;
  tsr__parts parts;
  tsr__buffer **buffers; /* of the words */
  uint64_t **word;
  int64_t number;
  tsr__index order;
} turn;

/* The last key decides first: its words stand before the others'. */
static void words_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const turn *r = user;
  tsr__piece piece = tsr__piece_of(&r->parts, TSR__PIECE_ROWS, task);
  int keys = key_count(r->call);
  for (int key = 0; key < keys; key++) {
    line some = line_of(r->call, &r->call->parts[piece.part], key, r->number);
    uint64_t *word = r->word[piece.part] + (keys - 1 - key) * some.n;
    some.at += piece.start * some.step;
    some.n = piece.count;
    find_words(&some, word + piece.start);
  }
}

static void write_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const turn *r = user;
  tsr__piece piece = tsr__piece_of(&r->parts, TSR__PIECE_ROWS, task);
  const tsr__call_part *part = &r->call->parts[piece.part];
  line l = line_of(r->call, part, 0, r->number);
  void *results[2];
  find_results(r->call, part, results);
  write_line(&l, r->order.at[piece.part] + piece.start, piece.start, piece.count, results);
}

static tsr_status sort_turn(turn *r, tsr__error *error)
{
  tsr_runtime *rt = r->call->rt;
  int64_t pieces = tsr__piece_count(&r->parts, TSR__PIECE_ROWS);
  tsr__packed_keys keys = {
    .parts = r->parts.count, .words = key_count(r->call), .bits = 64, .word = r->word
  };
  if (!tsr__parallel_long(rt, TSR__PROGRAM, pieces, words_task, r))
    return tsr__cancelled(error, TSR__PROGRAM);
  tsr_status status = tsr__sort_rows(rt, &r->parts, &keys, &r->order, error);
  if (status) return status;
  bool done = tsr__parallel_long(rt, TSR__PROGRAM, pieces, write_task, r);
  tsr__index_free(rt, &r->order);
  return done ? TSR_OK : tsr__cancelled(error, TSR__PROGRAM);
}

/* The line number `number` of each device; devices that have no more sit out. False: none has. */
static bool next_lines(turn *r, int64_t number, int64_t *rows)
{
  int rank = tsr__call_rank(r->call), dim = tsr__call_dim(r->call);
  bool any = false;
  r->number = number;
  for (int p = 0; p < r->call->part_count; p++) {
    tsr__sides sides = tsr__sides_of(&r->call->parts[p].in[0], rank, dim);
    rows[p] = number < sides.before * sides.after ? sides.along : 0;
    any = any || rows[p];
  }
  return any;
}

static tsr_status new_words(turn *r, int64_t along, tsr__error *error)
{
  size_t bytes = (size_t)along * (size_t)key_count(r->call) * sizeof(uint64_t);
  for (int p = 0; p < r->parts.count; p++) {
    if (!r->parts.rows[p]) continue; /* it has no lines at all */
    r->buffers[p] = tsr__cpu_buffer(r->call->rt, r->parts.device[p], bytes, error);
    if (!r->buffers[p]) return error->status;
    r->word[p] = r->buffers[p]->data;
  }
  return TSR_OK;
}

static tsr_status sort_long(const tsr__call *call, int64_t along, tsr__error *error)
{
  tsr__heap *heap = &call->rt->heap;
  size_t count = (size_t)call->part_count;
  size_t bytes =
      count * (sizeof(tsr__buffer *) + sizeof(uint64_t *) + sizeof(int64_t) + sizeof(int));
  turn r = { .call = call, .buffers = tsr__new(heap, bytes) };
  if (!r.buffers)
    return tsr__error_set(error, TSR_ENOMEM, "tsr_sort: no memory left; free some arrays");
  r.word = (uint64_t **)(r.buffers + count);
  int64_t *rows = (int64_t *)(r.word + count);
  int *device = (int *)(rows + count);
  for (size_t p = 0; p < count; p++) device[p] = call->parts[p].device;
  r.parts = (tsr__parts){ call->part_count, device, rows };
  tsr_status status = TSR_OK;
  for (int64_t number = 0; !status && next_lines(&r, number, rows); number++) {
    if (!number) status = new_words(&r, along, error);
    if (!status) status = sort_turn(&r, error);
  }
  for (size_t p = 0; p < count; p++) tsr__buffer_release(r.buffers[p]);
  tsr__del(heap, r.buffers, bytes);
  return status;
}

tsr_status tsr__routine_sort(const tsr__call *call, tsr__error *error)
{
  const tsr__gnode *node = tsr__call_node(call);
  const tsr__gnode *x = &call->program->nodes[tsr__in(call->program, node, 0)];
  int64_t along = x->dims[tsr__dim_of(call->program, node)];
  if (along >= UINT32_MAX)
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "tsr_%s: %lld elements along a dim; the most is %lld",
                          tsr__ops[node->op].name, (long long)along, (long long)UINT32_MAX - 1);
  if (along > TSR__SORT_LEAF_ROWS) return sort_long(call, along, error);
  tsr__line_work work = { .width = WIDTH, .room = leaf_bytes(along), .fn = sort_strip };
  return tsr__each_line(call, &work, error);
}
