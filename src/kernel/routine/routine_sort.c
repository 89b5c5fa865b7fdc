/* Sorting along a dim, stable, every line by itself: all of it ascending, or the largest few
 * descending.
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

static uint64_t word_of_real(double value)
{
  uint64_t bits, sign = UINT64_C(1) << 63;
  value += 0.0; /* -0 becomes 0 */
  memcpy(&bits, &value, sizeof bits);
  if (value != value) return UINT64_MAX;
  return bits & sign ? ~bits : bits | sign;
}

/* Elements at, at + step, ...: n of them. */
typedef struct line {
  tsr_dtype dtype;
  const void *from;
  int64_t at, step, n;
  int64_t to, kept; /* where the results' line begins, and how many of them it takes */
  bool largest;     /* first */
} line;

#define WORDS(T, WORD)                               \
  for (int64_t i = 0; i < l->n; i++) {               \
    T x = ((const T *)l->from)[l->at + i * l->step]; \
    word[i] = (WORD);                                \
  }                                                  \
  break

#define SIGNED(x) ((uint64_t)(int64_t)(x) ^ UINT64_C(1) << 63)

static void ascending_words(const line *l, uint64_t *word)
{
  switch (l->dtype) {
  case TSR_I8: WORDS(int8_t, SIGNED(x));
  case TSR_I16: WORDS(int16_t, SIGNED(x));
  case TSR_I32: WORDS(int32_t, SIGNED(x));
  case TSR_I64: WORDS(int64_t, SIGNED(x));
  case TSR_U8: WORDS(uint8_t, x);
  case TSR_U16: WORDS(uint16_t, x);
  case TSR_U32: WORDS(uint32_t, x);
  case TSR_U64: WORDS(uint64_t, x);
  case TSR_F32: WORDS(float, word_of_real((double)x));
  case TSR_F64: WORDS(double, word_of_real(x));
  default:
    for (int64_t i = 0; i < l->n; i++)
      word[i] = word_of_real(tsr__dtype_get_real(l->dtype, l->from, l->at + i * l->step));
  }
}

static void find_words(const line *l, uint64_t *word)
{
  ascending_words(l, word);
  for (int64_t i = 0; l->largest && i < l->n; i++) word[i] = ~word[i];
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

/* Line number `number` of a part's shard. */
static line line_of(const tsr__call *call, const tsr__call_part *part, int64_t number)
{
  const tsr__gnode *node = tsr__call_node(call);
  int dim = tsr__dim_of(call->program, node);
  tsr__sides s = tsr__sides_of(&part->in[0], tsr__rank_of(call->program, node), dim);
  int64_t before = number / s.after, behind = number % s.after, kept = part->out[0].box.size[dim];
  return (line){ .dtype = tsr__call_dtype(call, 0),
                 .from = part->in[0].buffer->data,
                 .at = before * s.along * s.after + behind,
                 .step = s.after,
                 .n = s.along,
                 .to = before * kept * s.after + behind,
                 .kept = kept,
                 .largest = tsr__ops[node->op].shape_rule == TSR__SH_TOP };
}

static void find_results(const tsr__call_part *part, void *results[2])
{
  for (int i = 0; i < 2; i++) results[i] = part->out[i].buffer ? part->out[i].buffer->data : NULL;
}

/* ---- lines of a leaf's size ------------------------------------------------------------------ */

static tsr_status sort_strip(const tsr__strip *s)
{
  tsr__sort_room *room = (void *)s->room;
  uint64_t *word = (uint64_t *)(void *)(room + 1);
  uint32_t *place = (uint32_t *)(void *)(word + s->along);
  void *results[2];
  find_results(s->part, results);
  for (int64_t j = 0; j < s->count; j++) {
    int64_t before = s->at / (s->along * s->after), behind = s->at % s->after;
    line l = line_of(s->call, s->part, before * s->after + behind + j);
    if (s->along > TSR__PIECE_ROWS / WIDTH && tsr__progress_stops(s->progress, s->worker)) break;
    find_words(&l, word);
    tsr__sort_leaf_rows(room, &(tsr__sort_leaf){ word, NULL, s->along, place });
    write_line(&l, place, 0, s->along, results);
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
  line *lines;
  tsr__index order;
} turn;

static void words_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const turn *r = user;
  tsr__piece piece = tsr__piece_of(&r->parts, TSR__PIECE_ROWS, task);
  line some = r->lines[piece.part];
  some.at += piece.start * some.step;
  some.n = piece.count;
  find_words(&some, r->word[piece.part] + piece.start);
}

static void write_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const turn *r = user;
  tsr__piece piece = tsr__piece_of(&r->parts, TSR__PIECE_ROWS, task);
  void *results[2];
  find_results(&r->call->parts[piece.part], results);
  write_line(&r->lines[piece.part], r->order.at[piece.part] + piece.start, piece.start, piece.count,
             results);
}

static tsr_status sort_turn(turn *r, tsr__error *error)
{
  tsr_runtime *rt = r->call->rt;
  int64_t pieces = tsr__piece_count(&r->parts, TSR__PIECE_ROWS);
  tsr__packed_keys keys = { .parts = r->parts.count, .words = 1, .bits = 64, .word = r->word };
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
  const tsr__gnode *node = tsr__call_node(r->call);
  bool any = false;
  for (int p = 0; p < r->call->part_count; p++) {
    const tsr__call_part *part = &r->call->parts[p];
    int dim = tsr__dim_of(r->call->program, node);
    tsr__sides sides = tsr__sides_of(&part->in[0], tsr__rank_of(r->call->program, node), dim);
    rows[p] = number < sides.before * sides.after ? sides.along : 0;
    any = any || rows[p];
    if (!rows[p]) continue;
    r->lines[p] = line_of(r->call, part, number);
  }
  return any;
}

static tsr_status new_words(turn *r, int64_t along, tsr__error *error)
{
  for (int p = 0; p < r->parts.count; p++) {
    if (!r->parts.rows[p]) continue; /* it has no lines at all */
    r->buffers[p] = tsr__cpu_buffer(r->call->rt, r->parts.device[p], (size_t)along * 8, error);
    if (!r->buffers[p]) return error->status;
    r->word[p] = r->buffers[p]->data;
  }
  return TSR_OK;
}

static tsr_status sort_long(const tsr__call *call, int64_t along, tsr__error *error)
{
  tsr__heap *heap = &call->rt->heap;
  size_t count = (size_t)call->part_count;
  size_t bytes = count * (sizeof(tsr__buffer *) + sizeof(uint64_t *) + sizeof(line) +
                          sizeof(int64_t) + sizeof(int));
  turn r = { .call = call, .buffers = tsr__new(heap, bytes) };
  if (!r.buffers) return tsr__error_set(error, TSR_ENOMEM, "no memory left for tsr_sort");
  r.word = (uint64_t **)(r.buffers + count);
  r.lines = (line *)(r.word + count);
  int64_t *rows = (int64_t *)(r.lines + count);
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
  size_t room = sizeof(tsr__sort_room) + (size_t)along * (sizeof(uint64_t) + sizeof(uint32_t));
  tsr__line_work work = { .width = WIDTH, .room = room, .fn = sort_strip };
  return tsr__each_line(call, &work, error);
}
