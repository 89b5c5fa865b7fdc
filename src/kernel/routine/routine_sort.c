/* Sorting along a dim, stable, every line by itself, by one key or several.
 *
 *   elements   2.5  nan  -0  1  0       words in the same order: -0 is 0, NaN beyond all
 *   places     2 4 3 0 1                the first result takes elements by them, the second is them
 *
 * Lines of a leaf's size (rows/sort.h) are sorted inside the cache, side by side. Each device does
 * longer lines one at a time, together by all workers. */
#include "kernel/routine/sort_line.h"
#include "kernel/rows/sort.h"

enum { WIDTH = 8 };

static int key_count(const tsr__call *call)
{
  return tsr__call_node(call)->in_count;
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
    tsr__line l = tsr__line_of(s->call, s->part, key, number);
    tsr__sort_leaf leaf = { r->word, NULL, s->along, r->next };
    tsr__line_words(&l, r->word);
    for (int64_t i = 0; key && i < s->along; i++) r->taken[i] = r->word[r->place[i]];
    /*   keys a, b, of which b decides first:   by a -> place;   by b in that order -> place */
    if (key) leaf.word = r->taken, leaf.at = r->place;
    tsr__sort_leaf_rows(r->sorter, &leaf);
    /* Two lists of places take turns: the list that was read is written next. */
    r->next = r->place;
    r->place = leaf.out;
  }
}

static tsr_status sort_strip(const tsr__strip *s)
{
  leaf_room room = leaf_room_of(s);
  void *results[2];
  tsr__line_results(s->call, s->part, results);
  for (int64_t j = 0; j < s->count; j++) {
    int64_t number = s->at / (s->along * s->after) * s->after + s->at % s->after + j;
    tsr__line l = tsr__line_of(s->call, s->part, 0, number);
    if (s->along > TSR__PIECE_ROWS / WIDTH && tsr__progress_stops(s->progress, s->worker)) break;
    sort_leaf(s, number, &room);
    tsr__line_take(&l, room.place, &l, 0, results);
  }
  return TSR_OK;
}

/* ---- longer ones ----------------------------------------------------------------------------- */

/* One line of each device: `lines` have as many as `parts` have rows. */
typedef struct turn {
  const tsr__call *call;
  tsr__parts parts;
  tsr__line *lines; /* [key * parts + part] */
  tsr__line_sort sort;
} turn;

static void write_sorted_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const turn *r = user;
  tsr__piece piece = tsr__piece_of(&r->parts, TSR__PIECE_ROWS, task);
  void *results[2];
  tsr__line_results(r->call, &r->call->parts[piece.part], results);
  tsr__line to = r->lines[piece.part];
  to.n = piece.count;
  /* Whole pieces may lie after the last element that top_k wants. */
  if (piece.start < to.kept) tsr__line_sort_take(&r->sort, &piece, &to, piece.start, results);
}

static tsr_status sort_turn(turn *r, tsr__error *error)
{
  tsr_runtime *rt = r->call->rt;
  const tsr__call_part *first = &r->call->parts[0];
  void *results[2];
  tsr__line_results(r->call, first, results);
  r->sort = (tsr__line_sort){ .rt = rt,
                              .parts = &r->parts,
                              .lines = r->lines,
                              .keys = key_count(r->call),
                              .want = { results[0] != NULL, results[1] != NULL } };
  tsr_status status = tsr__line_sort_run(&r->sort, error);
  if (!status && !tsr__parallel_long(rt, TSR__PROGRAM, tsr__piece_count(&r->parts, TSR__PIECE_ROWS),
                                     write_sorted_task, r))
    status = tsr__cancelled(error, TSR__PROGRAM);
  tsr__line_sort_end(&r->sort);
  return status;
}

/* The line number `number` of each device; devices that have no more sit out. False: none has. */
static bool next_lines(turn *r, int64_t number, int64_t *rows)
{
  int rank = tsr__call_rank(r->call), dim = tsr__call_dim(r->call), parts = r->call->part_count;
  bool any = false;
  for (int p = 0; p < parts; p++) {
    tsr__sides sides = tsr__sides_of(&r->call->parts[p].in[0], rank, dim);
    rows[p] = number < sides.before * sides.after ? sides.along : 0;
    any = any || rows[p];
    for (int key = 0; key < key_count(r->call); key++)
      r->lines[key * parts + p] = rows[p] ? tsr__line_of(r->call, &r->call->parts[p], key, number)
                                          : (tsr__line){ .dtype = tsr__call_dtype(r->call, key) };
  }
  return any;
}

static tsr_status sort_long(const tsr__call *call, tsr__error *error)
{
  tsr__heap *heap = &call->rt->heap;
  size_t count = (size_t)call->part_count, keys = (size_t)key_count(call);
  size_t bytes = count * (keys * sizeof(tsr__line) + sizeof(int64_t) + sizeof(int));
  turn r = { .call = call, .lines = tsr__new(heap, bytes) };
  if (!r.lines)
    return tsr__error_set(error, TSR_ENOMEM, "tsr_sort: no memory left; free some arrays");
  int64_t *rows = (int64_t *)(r.lines + keys * count);
  int *device = (int *)(rows + count);
  for (size_t p = 0; p < count; p++) device[p] = call->parts[p].device;
  r.parts = (tsr__parts){ call->part_count, device, rows };
  tsr_status status = TSR_OK;
  for (int64_t number = 0; !status && next_lines(&r, number, rows); number++)
    status = sort_turn(&r, error);
  tsr__del(heap, r.lines, bytes);
  return status;
}

/* Scratch bytes for sharded lines: the columns of a line as they leave and as they come, and the
 * words that send rows to their device, two bytes each; or the received rows and the memory that
 * sorts them. */
static int64_t apart_room(const tsr__call *call, int64_t leaving, int64_t coming, bool places)
{
  int64_t column = places ? (int64_t)sizeof(uint32_t) : 0, keys = key_count(call);
  for (int key = 0; key < keys; key++)
    column += (int64_t)tsr_dtype_size(tsr__call_dtype(call, key));
  int64_t sorts = tsr__line_sort_room(tsr__call_dtype(call, 0), (int)keys, places);
  int64_t finds = leaving * (column + 2 + keys * (int64_t)sizeof(uint64_t));
  int64_t goes = leaving * (column + 2) + coming * column, stays = coming * (column + sorts);
  int64_t most = finds > goes ? finds : goes;
  return most > stays ? most : stays;
}

int64_t tsr__room_of_sort(const tsr__call *call, const bool *wanted)
{
  const tsr__gnode *node = tsr__call_node(call);
  const tsr__gnode *x = &call->program->nodes[tsr__in(call->program, node, 0)];
  const tsr__sort_attr *attr = tsr__attr_of(call->program, node);
  int dim = tsr__call_dim(call);
  int64_t all = x->dims[dim], rows = call->parts[0].in[0].box.size[dim];
  bool places = wanted[1], few = attr->order == TSR__ORDER_LARGEST && attr->count < rows;
  int64_t one = tsr__line_sort_room(tsr__call_dtype(call, 0), key_count(call), places) * rows;
  if (rows == all) return all > TSR__SORT_LEAF_ROWS ? one : 0;
  int64_t leaving = few ? attr->count : rows;
  int64_t apart = apart_room(call, leaving, leaving, places);
  return few && one > apart ? one : apart;
}

tsr_status tsr__routine_sort(const tsr__call *call, tsr__error *error)
{
  const tsr__gnode *node = tsr__call_node(call);
  const tsr__gnode *x = &call->program->nodes[tsr__in(call->program, node, 0)];
  int64_t along = x->dims[tsr__dim_of(call->program, node)];
  if (along >= UINT32_MAX)
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "tsr_%s: a dim has %lld elements, expected at most %lld",
                          tsr__ops[node->op].name, (long long)along, (long long)UINT32_MAX - 1);
  tsr__line_groups groups;
  tsr__line_work work = { .width = WIDTH, .room = leaf_bytes(along), .fn = sort_strip };
  tsr_status status = tsr__line_groups_find(call, &groups, error);
  if (!status && groups.members > 1) status = tsr__sort_apart(call, &groups, error);
  else if (!status && along > TSR__SORT_LEAF_ROWS) status = sort_long(call, error);
  else if (!status) status = tsr__each_line(call, &work, error);
  tsr__line_groups_free(call, &groups);
  return status;
}
