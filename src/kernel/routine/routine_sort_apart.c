/* Sorting a line that is cut over devices: a sample sort.
 *
 *   device 0   5 1 9 5      splitters   1 2 3 | 5 5 9      each sorts   1 2 3
 *   device 1   2 5 3        elements and their places go   what came    5 5 9
 *
 *   results    1 2 3 5      at the borders of the result: what came to one device and belongs to
 *              5 5 9        the next goes on
 *
 * Splitters name a row, so that equal elements are shared out, too (rows/sort_split.c); rows come
 * in order of device and place, so a stable sort of the received rows is stable over all. The
 * places are those in the whole line. Each of several keys is an element of its row. If only the
 * first few of a line are wanted, each device sends no more of its own. The elements decide the
 * traffic, which is counted.
 *
 * If devices are in several processes, each process does this for its own members: others have no
 * rows in its lists. Splitters come from all samples, and rows for another process go by the
 * exchange of tsr__call_peers, at the borders of results, too. Processes without members take
 * part. */
#include "kernel/device/cpu.h"
#include "kernel/routine/sort_line.h"

/* A line of a group. All lists have one entry a member; those of keys [key * members + m]. */
typedef struct apart {
  const tsr__call *call;
  const int *part; /* the call's parts */
  int members, keys;
  int64_t number;         /* number of the line */
  int64_t few;            /* the first that are wanted; 0: all */
  tsr__parts here, there; /* elements as they leave, and as they came */
  int64_t *start, *goal;  /* begins of members' parts in the whole line, and in the results; one
                           * more: the end */
  int64_t *came;          /* begins, in the results, of the rows that came */
  int64_t *counts, *next; /* [from * members + to]: rows that go, and the next element's
                            * place: for each key, then for places */
  uint64_t **word;        /* words of leaving elements, the last key's first */
  tsr__line *lines;       /* [key * members + m]: the elements' lines now */
  tsr__buffer **words, **places, **came_places;
  tsr__buffer **elements, **came_elements; /* elements of keys */
  /* With peers: rows that came here but belong to other processes' results, by column and member,
   * as they go and as they come; and their numbers, by member. */
  tsr__buffer **border, **brought;
  int64_t *border_rows, *brought_rows;
  tsr__colparts *columns;
  tsr__sort_split split;
  tsr__line_sort sort;
  tsr__error *error;
  _Atomic int64_t moved;  /* to members of this process */
  tsr__progress progress; /* the current step's */
  bool want[2];           /* elements, places */
} apart;

static tsr_runtime *runtime_of(const apart *a)
{
  return a->call->rt;
}

static tsr__line line_of_member(const apart *a, int key, int member)
{
  return tsr__line_of(a->call, &a->call->parts[a->part[member]], key, a->number);
}

static int64_t size_of_key(const apart *a, int key)
{
  return (int64_t)tsr_dtype_size(tsr__call_dtype(a->call, key));
}

/* Whether a member is done in this process. */
static bool member_is_here(const apart *a, int member)
{
  return tsr__call_here(a->call, a->part[member]);
}

/* A task that asks by itself whether to stop asks a->progress: unfinished work is seen here. */
static bool each(apart *a, int64_t count, tsr__task_fn fn)
{
  a->progress = (tsr__progress){ .rt = runtime_of(a), .what = TSR__PROGRAM };
  if (tsr__parallel_progress(&a->progress, count, fn, a)) return true;
  tsr__cancelled(a->error, TSR__PROGRAM);
  return false;
}

/* ---- lists and buffers ----------------------------------------------------------------------- */

/* One list holds all buffers, so that all that remain are dropped at once.
 *
 *   words | places | elements | came_elements | came_places | empty | border | brought | empty
 *
 * An exchange takes lists by column, and after them as many places that stay empty. */
static int buffers_of(const apart *a)
{
  return (10 + 3 * a->keys) * a->members;
}

static size_t sort_list_bytes(const apart *a)
{
  size_t n = (size_t)a->members, keys = (size_t)a->keys;
  return (size_t)buffers_of(a) * sizeof(tsr__buffer *) + n * keys * sizeof(tsr__line) +
         (keys + 1) * sizeof(tsr__colparts) + n * sizeof(uint64_t *) +
         (4 * n + 3 * (n + 1) + (keys + 2) * n * n) * sizeof(int64_t) + n * sizeof(int);
}

static tsr_status new_sort_lists(apart *a)
{
  int n = a->members, keys = a->keys;
  a->words = tsr__new(&runtime_of(a)->heap, sort_list_bytes(a));
  if (!a->words)
    return tsr__error_set(a->error, TSR_ENOMEM, "tsr_sort: no memory left; free some arrays");
  /* One allocation, cut in the order that sort_list_bytes counts: pointers first, then lines, words
   * of 8 bytes, and last the ints. */
  a->places = a->words + n;
  a->elements = a->places + n;
  a->came_elements = a->elements + keys * n;
  a->came_places = a->came_elements + keys * n;
  a->border = a->came_places + n + (keys + 1) * n;
  a->brought = a->border + 2 * n;
  a->lines = (tsr__line *)(a->words + buffers_of(a));
  a->columns = (tsr__colparts *)(a->lines + keys * n);
  a->word = (uint64_t **)(a->columns + keys + 1);
  int64_t *rows = (int64_t *)(a->word + n), *came = rows + n;
  a->border_rows = came + n;
  a->brought_rows = a->border_rows + n;
  a->start = a->brought_rows + n;
  a->goal = a->start + n + 1;
  a->came = a->goal + n + 1;
  a->counts = a->came + n + 1;
  a->next = a->counts + n * n;
  int *device = (int *)(a->next + (keys + 1) * n * n);
  int dim = tsr__call_dim(a->call);
  for (int m = 0; m < n; m++) {
    const tsr__call_part *part = &a->call->parts[a->part[m]];
    device[m] = part->device;
    a->start[m + 1] = a->start[m] + part->in[0].box.size[dim];
    a->goal[m + 1] = a->goal[m] + part->out[0].box.size[dim];
  }
  a->here = (tsr__parts){ n, device, rows };
  a->there = (tsr__parts){ n, device, came };
  return TSR_OK;
}

static void drop_sort_buffers(tsr__buffer **list, int count)
{
  for (int i = 0; i < count; i++) {
    tsr__buffer_release(list[i]);
    list[i] = NULL;
  }
}

/* A buffer a member, of `size` bytes for each of its rows. One row more, since a member without
 * rows has a buffer, too. */
static bool new_member_buffers(apart *a, const tsr__parts *parts, int64_t size, tsr__buffer **out)
{
  for (int m = 0; m < a->members; m++) {
    size_t bytes = (size_t)((parts->rows[m] + 1) * size);
    out[m] = tsr__cpu_take(runtime_of(a), parts->device[m], bytes, a->error);
    if (!out[m]) return false;
  }
  return true;
}

/* Buffers of elements and, where they are wanted, of their places. */
static bool new_columns(apart *a, const tsr__parts *parts, tsr__buffer **elements,
                        tsr__buffer **places)
{
  bool fits = !a->want[1] || new_member_buffers(a, parts, sizeof(uint32_t), places);
  for (int key = 0; key < a->keys && fits; key++)
    fits = new_member_buffers(a, parts, size_of_key(a, key), elements + key * a->members);
  return fits;
}

/* Points each line at the buffer of its key and member, where elements lie one after the other. */
static void set_lines(apart *a, const tsr__parts *parts, tsr__buffer *const *elements)
{
  for (int key = 0; key < a->keys; key++)
    for (int m = 0; m < a->members; m++) {
      tsr__line *l = &a->lines[key * a->members + m];
      *l = line_of_member(a, key, m);
      l->from = tsr__cpu_data(elements[key * a->members + m]);
      l->at = 0;
      l->step = 1;
      l->n = parts->rows[m];
    }
}

/* ---- what leaves ----------------------------------------------------------------------------- */

/* The elements of a piece of a member's line. */
static void leave_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const apart *a = user;
  tsr__piece p = tsr__piece_of(&a->here, TSR__PIECE_ROWS, task);
  for (int key = 0; key < a->keys; key++) {
    tsr__line some = line_of_member(a, key, p.part);
    some.at += p.start * some.step;
    some.n = p.count;
    tsr__line_gather(&some, (char *)tsr__cpu_data(a->elements[key * a->members + p.part]) +
                                p.start * size_of_key(a, key));
  }
  if (!a->want[1]) return;
  uint32_t *place = (uint32_t *)tsr__cpu_data(a->places[p.part]) + p.start;
  /* A line has fewer than 2^32 - 1 elements (routine_sort.c). */
  for (int64_t i = 0; i < p.count; i++) place[i] = (uint32_t)(a->start[p.part] + p.start + i);
}

/* Gathers elements that may be among the first few of all: the first of the member's own order. */
static void leave_few_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const apart *a = user;
  int m = (int)task;
  /* Places are taken as the sorter writes them, 64 bits each, and kept as 32: block by block, on
   * the stack. */
  int64_t n = a->here.rows[m], rows[1024];
  tsr__line to = { .step = 1, .n = n, .kept = n };
  to.dtype = a->lines[m].dtype;
  to.order = a->lines[m].order;
  tsr__line_sort_take(&a->sort, &(tsr__piece){ m, 0, n }, &to, 0,
                      (void *[2]){ tsr__cpu_data(a->elements[m]), NULL });
  if (!a->want[1]) return;
  uint32_t *place = tsr__cpu_data(a->places[m]);
  for (int64_t at = 0; at < n; at += 1024) {
    int64_t some = n - at < 1024 ? n - at : 1024;
    to.n = to.kept = some;
    tsr__line_sort_take(&a->sort, &(tsr__piece){ m, at, some }, &to, 0, (void *[2]){ NULL, rows });
    for (int64_t i = 0; i < some; i++) place[at + i] = (uint32_t)(a->start[m] + rows[i]);
  }
}

static tsr_status leave_few(apart *a)
{
  int64_t *rows = (int64_t *)a->here.rows;
  for (int m = 0; m < a->members; m++) a->lines[m] = line_of_member(a, 0, m);
  a->sort = (tsr__line_sort){ .rt = runtime_of(a),
                              .parts = &a->here,
                              .lines = a->lines,
                              .keys = 1,
                              .want = { true, a->want[1] } };
  tsr_status status = tsr__line_sort_run(&a->sort, a->error);
  /* A member's first few are all of its own that can be among the first few of all. */
  for (int m = 0; m < a->members; m++) rows[m] = rows[m] < a->few ? rows[m] : a->few;
  if (!status &&
      (!new_columns(a, &a->here, a->elements, a->places) || !each(a, a->members, leave_few_task)))
    status = a->error->status;
  tsr__line_sort_end(&a->sort);
  return status;
}

static tsr_status gather_leaving_rows(apart *a)
{
  int64_t *rows = (int64_t *)a->here.rows;
  for (int m = 0; m < a->members; m++)
    rows[m] = member_is_here(a, m) ? a->start[m + 1] - a->start[m] : 0;
  if (a->few) return leave_few(a);
  if (!new_columns(a, &a->here, a->elements, a->places) ||
      !each(a, tsr__piece_count(&a->here, TSR__PIECE_ROWS), leave_task))
    return a->error->status;
  return TSR_OK;
}

/* ---- to the devices where elements fall ------------------------------------------------------ */

static void make_words_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const apart *a = user;
  tsr__piece p = tsr__piece_of(&a->here, TSR__PIECE_ROWS, task);
  for (int key = 0; key < a->keys; key++) {
    tsr__line some = a->lines[key * a->members + p.part];
    /* The last key is the first to decide, so its words stand first. */
    int64_t before = (a->keys - 1 - key) * some.n;
    some.at = p.start;
    some.n = p.count;
    tsr__line_words(&some, a->word[p.part] + before + p.start);
  }
}

/* Rows that leave a member, of whatever process. */
static int64_t leaving_of(const apart *a, int member)
{
  int64_t rows = a->start[member + 1] - a->start[member];
  return a->few && a->few < rows ? a->few : rows;
}

/* Replaces this process's sample by those of all processes: from the same rows all choose the same
 * splitters. */
static tsr_status join_samples(apart *a, tsr__sort_sample *sample)
{
  const tsr__call_peers *peers = a->call->peers;
  size_t record = tsr__sort_sample_bytes(sample->words), at = 0;
  tsr__sort_sample all = { .words = sample->words };
  const tsr__call_note *note =
      peers->gather(peers->user, sample->place, (size_t)sample->count * record, a->error);
  if (!note) return a->error->status;
  for (int p = 0; p < peers->count; p++) all.bytes += note[p].size;
  all.place = tsr__new_raw(&runtime_of(a)->heap, all.bytes);
  if (!all.place)
    return tsr__error_set(a->error, TSR_ENOMEM, "tsr_sort: no memory left; free some arrays");
  for (int p = 0; p < peers->count; at += note[p++].size)
    if (note[p].size) memcpy((char *)all.place + at, note[p].data, note[p].size);
  all.count = (int64_t)(all.bytes / record);
  tsr__sort_sample_free(runtime_of(a), sample);
  *sample = all;
  return TSR_OK;
}

/* Which device each row goes to, and how many go where. */
static tsr_status route_line_rows(apart *a)
{
  tsr__packed_keys keys = { .parts = a->members, .words = a->keys, .bits = 64, .word = a->word };
  tsr__routes routes = { &a->here, NULL, NULL, a->counts };
  if (!new_member_buffers(a, &a->here, a->keys * (int64_t)sizeof(uint64_t), a->words))
    return a->error->status;
  for (int m = 0; m < a->members; m++) a->word[m] = tsr__cpu_data(a->words[m]);
  set_lines(a, &a->here, a->elements);
  if (!each(a, tsr__piece_count(&a->here, TSR__PIECE_ROWS), make_words_task))
    return a->error->status;
  tsr__sort_sample sample;
  tsr__sample_ask ask = { &a->here, &keys, 0 };
  for (int m = 0; m < a->members; m++) ask.total += leaving_of(a, m);
  tsr_status status = tsr__sort_sample_rows(runtime_of(a), &ask, &sample, a->error);
  if (!status && a->call->peers) status = join_samples(a, &sample);
  tsr__split_ask rows = { &a->here, &keys, &sample };
  if (!status) status = tsr__sort_split_rows(runtime_of(a), &rows, &a->split, a->error);
  tsr__sort_sample_free(runtime_of(a), &sample);
  routes.dest = a->split.dest;
  if (!status) status = tsr__route_rows(runtime_of(a), &routes, a->error);
  /* The words served to find destinations; the sort of the received rows makes its own words. */
  drop_sort_buffers(a->words, a->members);
  return status;
}

/* Finds on each device where the rows of each sender begin, and how many rows come.
 *
 *   counts     to 0  to 1        next[from][to], where rows of `from` begin at `to`
 *   from 0      3     1          0  0
 *   from 1      2     4          3  1
 *
 * Rows lie in order of senders, so that rows keep their order: this makes the sort stable. */
static void number_rows(apart *a)
{
  int n = a->members;
  int64_t *rows = (int64_t *)a->there.rows;
  memset(rows, 0, (size_t)n * sizeof *rows);
  for (int from = 0; from < n; from++)
    for (int to = 0; to < n; to++) {
      for (int column = 0; column <= a->keys; column++)
        /* Each column has its own, since sending counts them up. */
        a->next[(column * n + from) * n + to] = rows[to];
      rows[to] += a->counts[from * n + to];
    }
  for (int m = 0; m < n; m++) a->came[m + 1] = a->came[m] + rows[m];
}

/* A column of a member: the elements of a key, or their places. */
static void send_column_task(void *user, int64_t task, int worker)
{
  apart *a = user;
  tsr__traffic traffic = { 0 };
  int n = a->members, m = (int)(task % n), column = (int)(task / n);
  bool places = column == a->keys;
  tsr__disperse job = { .dtype = places ? TSR_U32 : tsr__call_dtype(a->call, column),
                        .parts = n,
                        .dest = a->split.dest[m],
                        .next = a->next + (column * n + m) * n,
                        .counts = a->counts + m * n,
                        .progress = &a->progress,
                        .worker = worker };
  if (places) tsr__cpu_disperse(&job, a->places[m], a->came_places, &traffic);
  else tsr__cpu_disperse(&job, a->elements[task], a->came_elements + column * n, &traffic);
  atomic_fetch_add(&a->moved, traffic.bytes);
}

/* The same over the borders of processes, which tell each other how many rows go where. */
static tsr_status exchange_elements(apart *a)
{
  const tsr__call_peers *peers = a->call->peers;
  int64_t *rows = (int64_t *)a->there.rows, bytes = 0;
  for (int key = 0; key < a->keys; key++)
    a->columns[key] = (tsr__colparts){ .dtype = tsr__call_dtype(a->call, key),
                                       .values = a->elements + key * a->members };
  a->columns[a->keys] = (tsr__colparts){ .dtype = TSR_U32, .values = a->places };
  const tsr__call_exchange ask = { .parts = &a->here,
                                   .counts = a->counts,
                                   .dest = a->split.dest,
                                   .column_count = a->keys + a->want[1],
                                   .columns = a->columns,
                                   .values = a->came_elements,
                                   .rows = rows,
                                   .bytes = &bytes };
  tsr_status status = peers->exchange(peers->user, &ask, a->error);
  atomic_fetch_add(&a->moved, bytes);
  number_rows(a);
  for (int m = 0; m < a->members; m++) rows[m] = member_is_here(a, m) ? rows[m] : 0;
  return status;
}

static tsr_status send_elements(apart *a)
{
  tsr_status status = route_line_rows(a);
  if (!status && a->call->peers) status = exchange_elements(a);
  if (status) return status;
  if (!a->call->peers) number_rows(a);
  if (!a->call->peers && (!new_columns(a, &a->there, a->came_elements, a->came_places) ||
                          !each(a, (a->keys + a->want[1]) * a->members, send_column_task)))
    return a->error->status;
  tsr__sort_split_free(runtime_of(a), &a->split);
  drop_sort_buffers(a->elements, a->keys * a->members);
  drop_sort_buffers(a->places, a->members);
  return TSR_OK;
}

/* ---- rows in order, to the members that own them
 * ---------------------------------------------- */

/* Rows of the whole order that came to one member and are another's result. */
typedef struct stretch {
  int64_t first, count;
} stretch;

static stretch meeting_of(const apart *a, int from, int to)
{
  int64_t first = a->came[from] > a->goal[to] ? a->came[from] : a->goal[to];
  int64_t end = a->came[from + 1] < a->goal[to + 1] ? a->came[from + 1] : a->goal[to + 1];
  return (stretch){ first, end > first ? end - first : 0 };
}

/* The bytes of a row of the results' columns, as traffic counts them. */
static int64_t row_bytes(const apart *a)
{
  return (a->want[0] ? size_of_key(a, 0) : 0) + (a->want[1] ? (int64_t)sizeof(uint32_t) : 0);
}

/* Writes rows that go to other processes, after those for members before the owner. */
static void write_border(const apart *a, const tsr__piece *p, int64_t first, int owner)
{
  int64_t at = first - meeting_of(a, p->part, owner).first;
  void *columns[2];
  tsr__line to = { .dtype = tsr__call_dtype(a->call, 0), .step = 1, .n = p->count };
  to.order = line_of_member(a, 0, owner).order;
  to.kept = a->border_rows[p->part];
  for (int m = 0; m < owner; m++)
    if (!member_is_here(a, m)) at += meeting_of(a, p->part, m).count;
  for (int i = 0; i < 2; i++)
    columns[i] = a->want[i] ? tsr__cpu_data(a->border[i * a->members + p->part]) : NULL;
  tsr__line_sort_take(&a->sort, p, &to, at, columns);
}

/* Writes some rows in order, from element `first` of the results' line on, to the member that
 * owns them. */
static void write_run(apart *a, const tsr__piece *p, int64_t first, int owner)
{
  const tsr__call_part *part = &a->call->parts[a->part[owner]];
  tsr__line to = line_of_member(a, 0, owner);
  void *results[2];
  tsr__line_results(a->call, part, results);
  to.n = p->count;
  tsr__line_sort_take(&a->sort, p, &to, first - a->goal[owner], results);
  /* The others' memory is written directly, as in any collective inside a process; the traffic is
   * counted. */
  if (owner != p->part) atomic_fetch_add(&a->moved, p->count * row_bytes(a));
}

/* Rows after the last element of a result belong to nobody. */
static void write_stretch_task(void *user, int64_t task, int worker)
{
  (void)worker;
  apart *a = user;
  tsr__piece p = tsr__piece_of(&a->there, TSR__PIECE_ROWS, task);
  int64_t first = a->came[p.part] + p.start, end = first + p.count;
  /* The rows that came to a device are a stretch of the whole order, and belong to the few members
   * whose parts the stretch meets. */
  for (int owner = 0; owner < a->members && first < end; owner++) {
    int64_t stop = a->goal[owner + 1] < end ? a->goal[owner + 1] : end;
    if (first >= stop) continue;
    tsr__piece run = { p.part, first - a->came[p.part], stop - first };
    if (member_is_here(a, owner)) write_run(a, &run, first, owner);
    else write_border(a, &run, first, owner);
    first = stop;
  }
}

/* Whether any rows came to a process that are another's: all say the same. */
static bool border_rows_came(const apart *a)
{
  for (int from = 0; from < a->members; from++)
    for (int to = 0; to < a->members; to++)
      if (a->call->parts[a->part[from]].process != a->call->parts[a->part[to]].process &&
          meeting_of(a, from, to).count)
        return true;
  return false;
}

/* Counts the rows that go to other processes, and makes buffers for them. */
static bool open_borders(apart *a)
{
  const tsr__parts parts = { a->members, a->here.device, a->border_rows };
  size_t pairs = (size_t)a->members * (size_t)a->members;
  memset(a->counts, 0, pairs * sizeof *a->counts);
  for (int from = 0; from < a->members; from++) {
    a->border_rows[from] = 0;
    for (int to = 0; to < a->members && member_is_here(a, from); to++) {
      int64_t count = member_is_here(a, to) ? 0 : meeting_of(a, from, to).count;
      a->counts[from * a->members + to] = count;
      a->border_rows[from] += count;
    }
  }
  return (!a->want[0] || new_member_buffers(a, &parts, size_of_key(a, 0), a->border)) &&
         (!a->want[1] || new_member_buffers(a, &parts, sizeof(int64_t), a->border + a->members));
}

/* Copies the elements of a column that other processes sent, in order of sender, to a member's
 * result. */
static void put_brought(apart *a, const tsr__buffer *from, int member, int result)
{
  void *results[2];
  const tsr__line to = line_of_member(a, 0, member);
  size_t size = result ? sizeof(int64_t) : (size_t)size_of_key(a, 0);
  const char *next = tsr__cpu_data(from);
  tsr__line_results(a->call, &a->call->parts[a->part[member]], results);
  for (int m = 0; m < a->members; m++) {
    stretch s = meeting_of(a, m, member);
    if (member_is_here(a, m)) continue;
    int64_t at = to.to + (s.first - a->goal[member]) * to.step;
    for (int64_t i = 0; i < s.count; i++, next += size, at += to.step)
      memcpy((char *)results[result] + (size_t)at * size, next, size);
  }
}

static tsr_status exchange_borders(apart *a)
{
  const tsr__call_peers *peers = a->call->peers;
  const tsr__parts parts = { a->members, a->here.device, a->border_rows };
  int64_t uncounted = 0; /* places go as they lie in results, and count as they are sent */
  int columns = 0;
  for (int i = 0; i < 2; i++)
    if (a->want[i])
      a->columns[columns++] = (tsr__colparts){ i ? TSR_I64 : tsr__call_dtype(a->call, 0),
                                               a->border + i * a->members, NULL };
  const tsr__call_exchange ask = { .parts = &parts,
                                   .counts = a->counts,
                                   .column_count = columns,
                                   .columns = a->columns,
                                   .values = a->brought,
                                   .rows = a->brought_rows,
                                   .bytes = &uncounted };
  tsr_status status = peers->exchange(peers->user, &ask, a->error);
  for (int m = 0; m < a->members && !status; m++) {
    if (!member_is_here(a, m)) continue;
    atomic_fetch_add(&a->moved, a->brought_rows[m] * row_bytes(a));
    for (int i = 0, c = 0; i < 2; i++)
      if (a->want[i]) put_brought(a, a->brought[c++ * a->members + m], m, i);
  }
  return status;
}

static tsr_status place_elements(apart *a)
{
  bool borders = a->call->peers && border_rows_came(a);
  set_lines(a, &a->there, a->came_elements);
  for (int m = 0; m < a->members && a->want[1]; m++)
    a->lines[m].places = tsr__cpu_data(a->came_places[m]);
  a->sort = (tsr__line_sort){ .rt = runtime_of(a),
                              .parts = &a->there,
                              .lines = a->lines,
                              .keys = a->keys,
                              .want = { a->want[0], a->want[1] } };
  tsr_status status = tsr__line_sort_run(&a->sort, a->error);
  if (!status && ((borders && !open_borders(a)) ||
                  !each(a, tsr__piece_count(&a->there, TSR__PIECE_ROWS), write_stretch_task)))
    status = a->error->status;
  tsr__line_sort_end(&a->sort);
  return status || !borders ? status : exchange_borders(a);
}

/* ---- all lines ------------------------------------------------------------------------------- */

static tsr_status sort_group(apart *a)
{
  const tsr__call_part *first = &a->call->parts[a->part[0]];
  tsr__sides sides = tsr__sides_of(&first->in[0], tsr__call_rank(a->call), tsr__call_dim(a->call));
  tsr_status status = new_sort_lists(a);
  for (a->number = 0; a->number < sides.before * sides.after && !status; a->number++) {
    status = gather_leaving_rows(a);
    if (!status) status = send_elements(a);
    if (!status) status = place_elements(a);
    tsr__sort_split_free(runtime_of(a), &a->split);
    drop_sort_buffers(a->words, buffers_of(a));
  }
  tsr__del(&runtime_of(a)->heap, a->words, sort_list_bytes(a));
  return status;
}

tsr_status tsr__sort_apart(const tsr__call *call, const tsr__line_groups *groups, tsr__error *error)
{
  const tsr__gnode *node = tsr__call_node(call);
  const tsr__sort_attr *attr = tsr__attr_of(call->program, node);
  tsr_status status = TSR_OK;
  apart a = { .call = call, .members = groups->members, .keys = node->in_count, .error = error };
  void *results[2];
  tsr__line_results(call, &call->parts[0], results);
  for (int i = 0; i < 2; i++) a.want[i] = results[i] != NULL;
  if (call->peers) {
    a.want[0] = node->result_count && call->peers->wanted[0];
    a.want[1] = call->peers->wanted[node->result_count ? 1 : 0];
  }
  if (attr->order == TSR__ORDER_LARGEST) a.few = attr->count;
  for (int g = 0; g < groups->count && !status; g++) {
    a.part = groups->part + g * groups->members;
    status = sort_group(&a);
  }
  /* Elements decide how many move, so none of it could be explained before: all counts as
   * escapes. */
  call->traffic->bytes += a.moved;
  call->traffic->escapes += a.moved;
  return status;
}
