/* Sorting a line that is cut over devices: a sample sort.
 *
 *   device 0   5 1 9 5      splitters   1 2 3 | 5 5 9      each sorts   1 2 3
 *   device 1   2 5 3        elements and their places go   what came    5 5 9
 *
 *   results    1 2 3 5      at the borders of the result: what came to one device and belongs to
 *              5 5 9        the next goes on
 *
 * Splitters name a row, so that equal elements are shared out, too (rows/sort_split.c); rows come
 * in order of device and place, so a stable sort of what came is stable over all. The places are
 * those in the whole line. How much moves the elements decide; it is counted. */
#include "kernel/device/cpu.h"
#include "kernel/routine/sort_line.h"
#include "kernel/rows/pieces.h"

/* A line of a group. All lists have one entry a member. */
typedef struct apart {
  const tsr__call *call;
  const int *part; /* of the call */
  int members;
  int64_t number;         /* of the line */
  tsr__parts here, there; /* elements as they lie, and as they came */
  int64_t *start, *came;  /* where in the whole line both begin, and one more: its end */
  int64_t *counts, *next; /* [from * members + to]: how many go, and where the next element comes
                            * to; behind those the same for places */
  uint64_t **word;        /* of the elements at hand */
  tsr__buffer **words, **elements, **places; /* as they lie */
  tsr__buffer **came_elements, **came_places;
  tsr__sort_split split;
  tsr__index order;
  tsr__error *error;
  _Atomic int64_t moved;
  tsr__progress progress; /* of the step at hand */
  bool want[2];           /* elements, places */
} apart;

enum { BUFFERS = 5 };

static tsr_runtime *runtime_of(const apart *a)
{
  return a->call->rt;
}

static tsr__line line_of(const apart *a, int member)
{
  return tsr__line_of(a->call, &a->call->parts[a->part[member]], 0, a->number);
}

/* A task that asks by itself whether it is to stop asks a->progress: what it leaves undone is seen
 * here. */
static bool each(apart *a, int64_t count, tsr__task_fn fn)
{
  a->progress = (tsr__progress){ .rt = runtime_of(a), .what = TSR__PROGRAM };
  if (tsr__parallel_progress(&a->progress, count, fn, a)) return true;
  tsr__cancelled(a->error, TSR__PROGRAM);
  return false;
}

/* ---- lists and buffers ----------------------------------------------------------------------- */

static size_t list_bytes(int members)
{
  size_t n = (size_t)members;
  return n * (BUFFERS * sizeof(tsr__buffer *) + sizeof(uint64_t *) + sizeof(int)) +
         (2 * n + 2 * (n + 1) + 3 * n * n) * sizeof(int64_t);
}

static tsr_status new_lists(apart *a)
{
  int n = a->members;
  a->words = tsr__new(&runtime_of(a)->heap, list_bytes(n));
  if (!a->words)
    return tsr__error_set(a->error, TSR_ENOMEM, "tsr_sort: no memory left; free some arrays");
  a->elements = a->words + n;
  a->places = a->elements + n;
  a->came_elements = a->places + n;
  a->came_places = a->came_elements + n;
  a->word = (uint64_t **)(a->came_places + n);
  int64_t *rows = (int64_t *)(a->word + n), *came = rows + n;
  a->start = came + n;
  a->came = a->start + n + 1;
  a->counts = a->came + n + 1;
  a->next = a->counts + n * n;
  int *device = (int *)(a->next + 2 * n * n);
  for (int m = 0; m < n; m++) {
    const tsr__call_part *part = &a->call->parts[a->part[m]];
    device[m] = part->device;
    rows[m] = part->in[0].box.size[tsr__call_dim(a->call)];
    a->start[m + 1] = a->start[m] + rows[m];
  }
  a->here = (tsr__parts){ n, device, rows };
  a->there = (tsr__parts){ n, device, came };
  return TSR_OK;
}

static void drop(tsr__buffer **list, int count)
{
  for (int i = 0; i < count; i++) {
    tsr__buffer_release(list[i]);
    list[i] = NULL;
  }
}

/* A buffer a member, of `size` bytes for each of its rows. */
static bool new_buffers(apart *a, const tsr__parts *parts, size_t size, tsr__buffer **out)
{
  for (int m = 0; m < a->members; m++) {
    size_t bytes = ((size_t)parts->rows[m] + 1) * size;
    out[m] = tsr__cpu_buffer(runtime_of(a), parts->device[m], bytes, a->error);
    if (!out[m]) return false;
  }
  return true;
}

static bool new_words(apart *a, const tsr__parts *parts)
{
  drop(a->words, a->members);
  if (!new_buffers(a, parts, sizeof(uint64_t), a->words)) return false;
  for (int m = 0; m < a->members; m++) a->word[m] = a->words[m]->data;
  return true;
}

/* ---- to the devices where elements fall ------------------------------------------------------ */

static void leave_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const apart *a = user;
  tsr__piece p = tsr__piece_of(&a->here, TSR__PIECE_ROWS, task);
  tsr__line some = line_of(a, p.part);
  uint32_t *place = (uint32_t *)a->places[p.part]->data + p.start;
  int64_t size = (int64_t)tsr_dtype_size(some.dtype);
  some.at += p.start * some.step;
  some.n = p.count;
  tsr__line_words(&some, a->word[p.part] + p.start);
  tsr__line_gather(&some, (char *)a->elements[p.part]->data + p.start * size);
  for (int64_t i = 0; a->want[1] && i < p.count; i++)
    place[i] = (uint32_t)(a->start[p.part] + p.start + i);
}

/* Where on each device the rows of each begin, and how many come to it. */
static void number_rows(apart *a)
{
  int n = a->members;
  int64_t *rows = (int64_t *)a->there.rows;
  memset(rows, 0, (size_t)n * sizeof *rows);
  for (int from = 0; from < n; from++)
    for (int to = 0; to < n; to++) {
      a->next[from * n + to] = a->next[(n + from) * n + to] = rows[to];
      rows[to] += a->counts[from * n + to];
    }
  for (int m = 0; m < n; m++) a->came[m + 1] = a->came[m] + rows[m];
}

static void send_task(void *user, int64_t task, int worker)
{
  apart *a = user;
  tsr__traffic traffic = { 0 };
  int n = a->members, m = (int)(task / 2);
  bool places = task % 2;
  tsr__disperse job = { .dtype = places ? TSR_U32 : line_of(a, m).dtype,
                        .parts = n,
                        .dest = a->split.dest[m],
                        .next = a->next + (places ? n + m : m) * n,
                        .counts = a->counts + m * n,
                        .progress = &a->progress,
                        .worker = worker };
  if (places && !a->want[1]) return;
  tsr__cpu_disperse(&job, places ? a->places[m] : a->elements[m],
                    places ? a->came_places : a->came_elements, &traffic);
  atomic_fetch_add(&a->moved, traffic.bytes);
}

static tsr_status send_elements(apart *a, size_t size)
{
  tsr_runtime *rt = runtime_of(a);
  tsr__packed_keys keys = { .parts = a->members, .words = 1, .bits = 64, .word = a->word };
  tsr__routes routes = { &a->here, NULL, NULL, a->counts };
  bool fits = new_words(a, &a->here) && new_buffers(a, &a->here, size, a->elements) &&
              new_buffers(a, &a->here, sizeof(uint32_t), a->places);
  if (!fits || !each(a, tsr__piece_count(&a->here, TSR__PIECE_ROWS), leave_task))
    return a->error->status;
  tsr_status status = tsr__sort_split_rows(rt, &a->here, &keys, &a->split, a->error);
  routes.dest = a->split.dest;
  if (!status) status = tsr__route_rows(rt, &routes, a->error);
  if (status) return status;
  number_rows(a);
  fits = new_buffers(a, &a->there, size, a->came_elements) &&
         new_buffers(a, &a->there, sizeof(uint32_t), a->came_places);
  if (!fits || !each(a, 2 * a->members, send_task)) return a->error->status;
  tsr__sort_split_free(rt, &a->split);
  drop(a->elements, a->members);
  drop(a->places, a->members);
  return TSR_OK;
}

/* ---- what came, in order, to where it belongs ------------------------------------------------ */

/* What came to a member as a line of its own. */
static tsr__line came_line(const apart *a, int member)
{
  tsr__line l = line_of(a, member);
  l.from = a->came_elements[member]->data;
  l.at = 0;
  l.step = 1;
  l.n = a->there.rows[member];
  return l;
}

static void words_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const apart *a = user;
  tsr__piece p = tsr__piece_of(&a->there, TSR__PIECE_ROWS, task);
  tsr__line some = came_line(a, p.part);
  some.at = p.start;
  some.n = p.count;
  tsr__line_words(&some, a->word[p.part] + p.start);
}

/* Some rows in order, of `first` .. of the whole line, to the member whose part they are. */
static void write_run(apart *a, const tsr__piece *p, int64_t first, int owner)
{
  const tsr__call_part *part = &a->call->parts[a->part[owner]];
  const uint32_t *row = a->order.at[p->part] + p->start;
  tsr__line from = came_line(a, p->part), to = line_of(a, owner);
  void *results[2];
  tsr__line_results(a->call, part, results);
  from.places = a->came_places[p->part]->data;
  to.n = p->count;
  tsr__line_take(&from, row, &to, first - a->start[owner], results);
  if (owner == p->part) return;
  int64_t size = (a->want[0] ? (int64_t)tsr_dtype_size(from.dtype) : 0) +
                 (a->want[1] ? (int64_t)sizeof(uint32_t) : 0);
  atomic_fetch_add(&a->moved, p->count * size);
}

static void write_task(void *user, int64_t task, int worker)
{
  (void)worker;
  apart *a = user;
  tsr__piece p = tsr__piece_of(&a->there, TSR__PIECE_ROWS, task);
  int64_t first = a->came[p.part] + p.start, end = first + p.count;
  for (int owner = 0; owner < a->members && first < end; owner++) {
    int64_t stop = a->start[owner + 1] < end ? a->start[owner + 1] : end;
    if (first >= stop) continue;
    tsr__piece run = { p.part, first - a->came[p.part], stop - first };
    write_run(a, &run, first, owner);
    first = stop;
  }
}

static tsr_status place_elements(apart *a)
{
  tsr_runtime *rt = runtime_of(a);
  tsr__packed_keys keys = { .parts = a->members, .words = 1, .bits = 64, .word = a->word };
  int64_t pieces = tsr__piece_count(&a->there, TSR__PIECE_ROWS);
  if (!new_words(a, &a->there) || !each(a, pieces, words_task)) return a->error->status;
  tsr_status status = tsr__sort_rows(rt, &a->there, &keys, &a->order, a->error);
  if (!status && !each(a, pieces, write_task)) status = a->error->status;
  tsr__index_free(rt, &a->order);
  return status;
}

/* ---- all lines ------------------------------------------------------------------------------- */

static tsr_status sort_group(apart *a)
{
  const tsr__call_part *first = &a->call->parts[a->part[0]];
  tsr__sides sides = tsr__sides_of(&first->in[0], tsr__call_rank(a->call), tsr__call_dim(a->call));
  size_t size = tsr_dtype_size(tsr__call_dtype(a->call, 0));
  tsr_status status = new_lists(a);
  for (a->number = 0; a->number < sides.before * sides.after && !status; a->number++) {
    status = send_elements(a, size);
    if (!status) status = place_elements(a);
    tsr__sort_split_free(runtime_of(a), &a->split);
    drop(a->words, BUFFERS * a->members);
  }
  tsr__del(&runtime_of(a)->heap, a->words, list_bytes(a->members));
  return status;
}

tsr_status tsr__sort_apart(const tsr__call *call, const tsr__line_groups *groups, tsr__error *error)
{
  tsr_status status = TSR_OK;
  apart a = { .call = call, .members = groups->members, .error = error };
  for (int i = 0; i < 2; i++) a.want[i] = call->parts[0].out[i].buffer != NULL;
  for (int g = 0; g < groups->count && !status; g++) {
    a.part = groups->part + g * groups->members;
    status = sort_group(&a);
  }
  call->traffic->bytes += a.moved;
  call->traffic->escapes += a.moved;
  return status;
}
