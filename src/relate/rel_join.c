/* Joins of tables on devices.
 *
 *   right side whole on each device     |L0|R   |L1|R        nothing moves
 *   right side small                    R -> every device, then as above
 *   both large                          keys meet at owners (join_exchange.c)
 *
 * Invariant: a left row's results lie where it lies, in order of the left rows and then of the
 * right ones over all devices; a left column never travels. What is chosen depends on numbers of
 * rows and types only, never on timings or values. */
#include "relate/join_inner.h"

enum { WHOLE, BROADCAST, EXCHANGE };

/* Descriptions live as long as the join does: nobody frees them one by one, not even on
 * failure. */
void *tsr__join_small(tsr__join_work *join, size_t size)
{
  void *room = tsr__arena_new(&join->arena, size ? size : 1);
  if (!room)
    tsr__error_set(join->error, TSR_ENOMEM, "no memory to describe a join; free some frames");
  return room;
}

tsr_status tsr__join_room(tsr__join_work *join, int device, int64_t bytes)
{
  tsr__need need = { join->rt, "join", join->stats };
  return tsr__need_check(&need, device, bytes, join->error);
}

/* ---- keys ---- */

/* The key columns of a slice: those of the right side come first in the narrowed table. The right
 * table was narrowed to keys and taken columns, in this order, so key k is column k. */
static tsr__colparts *key_columns(tsr__join_work *join, const tsr__view *view, bool right)
{
  const tsr__rel_join_ask *ask = join->ask;
  tsr__colparts *out = tsr__join_small(join, (size_t)ask->key_count * sizeof *out);
  for (int k = 0; out && k < ask->key_count; k++)
    out[k] = view->columns[right ? k : ask->left_keys[k].column];
  return out;
}

/* Keys of both sides have one range and one width; only their texts' maps differ. A range seen on
 * one side is widened by the other, so it is handed over, and back once both are in. A map stays:
 * codes of a text mean something else in each dictionary. */
static void take_ranges(tsr__key *to, const tsr__key *from, int count)
{
  for (int k = 0; k < count; k++) {
    tsr__key own = to[k];
    to[k] = from[k];
    to[k].map = own.map;
    to[k].map_count = own.map_count;
  }
}

static tsr_status widen(tsr__join_work *join, const tsr__view *view, bool right)
{
  tsr__key *keys = right ? join->right_keys : join->left_keys;
  tsr__colparts *columns = key_columns(join, view, right);
  if (!columns) return join->error->status;
  tsr__range_ask ask = { &view->parts, columns, keys, join->ask->key_count };
  return tsr__on_rows(join->rt)->keys_range(join->rt, &ask, join->error);
}

/* Slices hold equal rows, so the first of each side tells the ranges. left -> l widened by the
 * left -> r -> widened by the right and settled -> l. Then the words of both sides are
 * comparable. */
static tsr_status range_keys(tsr__join_work *join, const tsr__view *left, const tsr__view *right)
{
  const tsr__rel_join_ask *ask = join->ask;
  int count = ask->key_count;
  tsr__key *l = tsr__join_small(join, 2 * (size_t)count * sizeof *l), *r = l + count;
  if (!l) return join->error->status;
  for (int k = 0; k < count; k++) {
    const tsr__rel_key *of_left = &ask->left_keys[k], *of_right = &ask->right_keys[k];
    l[k] = (tsr__key){ .map = of_left->map, .map_count = of_left->map_count };
    r[k] = (tsr__key){ .map = of_right->map, .map_count = of_right->map_count };
  }
  join->left_keys = l;
  join->right_keys = r;
  if (widen(join, left, false)) return join->error->status;
  take_ranges(r, l, count);
  if (widen(join, right, true)) return join->error->status;
  if (tsr__agree_keys(join->rt, left->apart, r, count, join->error)) return join->error->status;
  join->words = tsr__keys_settle(r, count, NULL);
  take_ranges(l, r, count);
  for (int k = 0; k < count; k++) join->nulls = join->nulls || r[k].nullable;
  return TSR_OK;
}

/* `want_null` for both sides as soon as one has nulls: null keys match nothing, and the kernel
 * that matches looks at both bitmaps or at none. */
tsr_status tsr__join_pack(tsr__join_work *join, const tsr__view *left, const tsr__view *right,
                          tsr__packed_keys packed[2])
{
  for (int side = 0; side < 2; side++) {
    const tsr__view *view = side ? right : left;
    tsr__pack_ask ask = { .parts = &view->parts,
                          .columns = key_columns(join, view, side),
                          .keys = side ? join->right_keys : join->left_keys,
                          .count = join->ask->key_count,
                          .want_null = join->nulls };
    tsr_status status =
        ask.columns ? tsr__on_rows(join->rt)->pack_keys(join->rt, &ask, &packed[side], join->error)
                    : join->error->status;
    if (status && side) tsr__packed_free(join->rt, &packed[0]);
    if (status) return status;
  }
  return TSR_OK;
}

/* ---- the result's rows ---- */

/* Whether the results of a slice have room beside what is there. Known only now that matches are
 * counted: a key that is frequent on both sides multiplies. 2 * 32 bits are the two row indices
 * that results are gathered by. */
static tsr_status check_results(tsr__join_work *join, const tsr__view *left, const tsr__matched *m,
                                const tsr__join_from *right)
{
  const tsr__rel_join_ask *ask = join->ask;
  int64_t bits = tsr__view_bits(left, ask->left->count) + 2 * 32;
  for (int c = 0; join->pairs && c < ask->take_count; c++)
    bits += tsr__row_bits(&right->columns[c], right->parts->count) + 1;
  for (int p = 0; p < m->parts; p++)
    if (tsr__join_room(join, left->parts.device[p], m->rows[p] * bits / 8))
      return join->error->status;
  return TSR_OK;
}

/* One column is gathered by an index made once for all of its side. */
typedef struct gathering {
  const tsr__view *left;
  const tsr__index *index;
  const tsr__parts *parts; /* of `index` */
  bool may_miss;
  bool keep; /* where the rows stay as they are, so does the buffer */
} gathering;

/* Gathers one column of a slice to column `to` of the result. */
static tsr_status gather(tsr__join_work *join, const gathering *g, const tsr__colparts *from,
                         int to)
{
  int count = g->parts->count;
  tsr__buffer **values = tsr__join_small(join, 2 * (size_t)count * sizeof *values);
  int64_t *rows = tsr__join_small(join, (size_t)count * sizeof *rows);
  if (!values || !rows) return join->error->status;
  tsr__buffer **valid = values + count;
  tsr__index index = *g->index;
  index.rows = rows;
  /* An index without rows for a part says "as they are". The kernel is told to gather nothing
   * there, and the buffer itself becomes the result's below. */
  for (int i = 0; i < count; i++) rows[i] = g->keep && !g->index->at[i] ? 0 : g->index->rows[i];
  tsr__gather ask = { g->parts, &index, from, g->may_miss };
  tsr_status status =
      tsr__on_rows(join->rt)->gather_column(join->rt, &ask, values, valid, join->error);
  if (status) return status;
  for (int i = 0; i < count; i++) {
    if (!g->keep || g->index->at[i]) continue;
    tsr__buffer_release(values[i]);
    tsr__buffer_release(valid[i]);
    values[i] = from->values[i];
    valid[i] = from->valid ? from->valid[i] : NULL;
    tsr__buffer_hold(values[i]);
    if (valid[i]) tsr__buffer_hold(valid[i]);
  }
  tsr__draft_put(&join->draft, to, g->left, values, valid);
  return TSR_OK;
}

/* Plain values of rows that stay or go are moved together without an index. Bits and validity do
 * not start at whole bytes when rows go: those columns take the index. */
static bool plain(const tsr__matched *m, const tsr__colparts *column)
{
  bool nulls = false;
  for (int p = 0; column->valid && p < m->parts; p++) nulls = nulls || column->valid[p];
  return tsr__match_keeps(m) && !nulls && column->dtype != TSR_BOOL;
}

static tsr_status keep_left(tsr__join_work *join, const tsr__view *left, const tsr__matched *m,
                            int c)
{
  tsr__buffer **values = tsr__join_small(join, (size_t)m->parts * sizeof *values);
  if (!values) return join->error->status;
  tsr_status status = tsr__on_rows(join->rt)->match_keep(m, &left->columns[c], values, join->error);
  if (!status) tsr__draft_put(&join->draft, c, left, values, NULL);
  return status;
}

static tsr_status emit_left(tsr__join_work *join, const tsr__view *left, tsr__matched *m)
{
  tsr__index index = { .rows = NULL };
  tsr_status status = TSR_OK;
  gathering g = { .left = left, .index = &index, .parts = &left->parts, .keep = true };
  for (int c = 0; c < join->ask->left->count && !status; c++) {
    if (plain(m, &left->columns[c])) {
      status = keep_left(join, left, m, c);
      continue;
    }
    /* Made when the first column needs it: a join that keeps plain columns only never does. */
    if (!index.rows) status = tsr__on_rows(join->rt)->match_left(m, &index, join->error);
    if (!status) status = gather(join, &g, &left->columns[c], c);
  }
  tsr__index_free(join->rt, &index);
  return status;
}

/* The left side first: its buffers may be shared with the input, so it needs little room while
 * the right side is gathered. Semi and anti joins end there. */
tsr_status tsr__join_emit(tsr__join_work *join, const tsr__view *left, tsr__matched *m,
                          const tsr__join_from *right)
{
  const tsr__rel_join_ask *ask = join->ask;
  join->repeats = join->repeats || m->repeats;
  for (int i = 0; i < m->parts; i++) join->draft.rows[left->position[i]] = m->rows[i];
  tsr_status status = check_results(join, left, m, right);
  if (!status) status = emit_left(join, left, m);
  if (status || !join->pairs || !ask->take_count) return status;
  tsr__index index;
  status = tsr__on_rows(join->rt)->match_right(m, &index, join->error);
  if (status) return status;
  gathering g = { .left = left, .index = &index, .parts = right->parts };
  /* Only a left join keeps rows without a match; their right columns are null. */
  g.may_miss = m->misses && m->how == TSR__MATCH_LEFT;
  for (int c = 0; c < ask->take_count && !status; c++)
    status = gather(join, &g, &right->columns[c], ask->left->count + c);
  tsr__index_free(join->rt, &index);
  return status;
}

/* ---- where the right side is whole ---- */

/* What packed keys and the least that matching takes need, a device. 4 bytes a left row are its
 * match, 12 a right row the table and its chains. */
static tsr_status check_keys(tsr__join_work *join, const tsr__view *left, const tsr__view *right)
{
  for (int p = 0; p < left->parts.count; p++) {
    int64_t l = left->parts.rows[p], r = right->parts.rows[p];
    int64_t need = (l + r) * join->words * 8 + (join->nulls ? (l + r) / 8 : 0) + l * 4 + r * 12;
    if (tsr__join_room(join, left->parts.device[p], need)) return join->error->status;
  }
  return TSR_OK;
}

static tsr_status join_whole(tsr__join_work *join, const tsr__view *left, const tsr__view *right)
{
  tsr__packed_keys packed[2];
  tsr__matched m;
  if (check_keys(join, left, right)) return join->error->status;
  tsr_status status = tsr__join_pack(join, left, right, packed);
  if (status) return status;
  tsr__match_ask ask = { &left->parts, &right->parts, &packed[0], &packed[1], join->ask->how };
  status = tsr__on_rows(join->rt)->match_find(join->rt, &ask, &m, join->error);
  /* Matches are row numbers: keys are done with before results take memory. */
  tsr__packed_free(join->rt, &packed[0]);
  tsr__packed_free(join->rt, &packed[1]);
  if (status) return status;
  join->hashed = join->hashed || !m.direct;
  tsr__join_from from = { &right->parts, right->columns + join->ask->key_count };
  status = tsr__join_emit(join, left, &m, &from);
  tsr__match_free(&m);
  return status;
}

static int64_t rows_at(const tsr__rel *rel, int position)
{
  tsr_box box;
  tsr__value_box(rel->column[0].values, position, &box);
  return box.size[0];
}

/* The right table's position on a device that holds all rows; -1 if there is none. Also where it
 * is not replicated by its sharding: a table of one part on the very device is whole there, and
 * so is one whose other parts happen to be empty. */
static int whole_on(const tsr__rel *right, int device)
{
  for (int p = 0; p < tsr__positions(&right->sharding); p++)
    if (tsr__position_device(&right->sharding, p) == device && rows_at(right, p) == right->total)
      return p;
  return -1;
}

/* The whole right table beside each part of a slice of the left one. A view as any other, but of
 * the same rows for each part: then joining whole tables and joining by owners share what
 * follows. */
static tsr_status beside(tsr__join_work *join, const tsr__view *left, tsr__view *out)
{
  const tsr__rel *right = &join->right;
  int count = left->parts.count;
  size_t parts = (size_t)count, columns = (size_t)right->count;
  int *position = tsr__join_small(join, parts * sizeof *position);
  int64_t *rows = tsr__join_small(join, parts * sizeof *rows);
  tsr__buffer **buffers = tsr__join_small(join, 2 * columns * parts * sizeof *buffers);
  *out = (tsr__view){
    { count, left->parts.device, rows }, position, left->here, left->apart, left->none, NULL
  };
  out->columns = tsr__join_small(join, columns * sizeof *out->columns);
  if (!position || !rows || !buffers || !out->columns) return join->error->status;
  for (int p = 0; p < count; p++) {
    /* By the devices that all processes name alike, as choose() does: what has no mesh each has on
     * its own first one. */
    position[p] =
        whole_on(right, tsr__position_device(&join->ask->left->sharding, left->position[p]));
    rows[p] = left->here[p] ? right->total : 0;
  }
  for (int c = 0; c < right->count; c++, buffers += 2 * count) {
    const tsr__rel_column *column = &right->column[c];
    for (int p = 0; p < count; p++) {
      /* Of another process's part nothing is joined here. */
      if (!left->here[p]) {
        buffers[p] = left->none;
        if (column->valid) buffers[count + p] = left->none;
        continue;
      }
      buffers[p] = column->values->parts[position[p]];
      if (column->valid) buffers[count + p] = column->valid->parts[position[p]];
    }
    out->columns[c] = (tsr__colparts){ (tsr_dtype)column->values->dtype, buffers,
                                       column->valid ? buffers + count : NULL };
  }
  return TSR_OK;
}

/* ---- choosing ---- */

static int64_t row_bits(const tsr__rel *rel, int first, int count)
{
  int64_t bits = 0;
  for (int c = first; c < count; c++) {
    tsr_dtype dtype = (tsr_dtype)rel->column[c].values->dtype;
    bits += dtype == TSR_BOOL ? 1 : 8 * (int64_t)tsr_dtype_size(dtype);
    bits += rel->column[c].valid != NULL;
  }
  return bits;
}

/* By what goes to other devices: the right side to all, or keys to their owners, right rows with
 * them, and a match back for each left row. Estimated by rows and bits alone, so equal tables are
 * joined in equal ways on every run, and what explain says before the run is what happens. */
static int choose(const tsr__join_work *join)
{
  const tsr__rel *left = join->ask->left, *right = &join->right;
  const tsr_sharding *sharding = &left->sharding;
  int positions = tsr__positions(sharding);
  int64_t parts = tsr__dim_parts(sharding, 0), slices = positions / parts, at_hand = 0;
  /* What has no mesh each process has, but not what it may lie beside in one of them. */
  bool whole = sharding->mesh || !tsr__rel_apart(join->rt, &right->sharding);
  for (int p = 0; p < positions; p++) {
    int device = tsr__position_device(sharding, p);
    whole = whole && whole_on(right, device) >= 0;
    for (int q = 0; q < tsr__positions(&right->sharding); q++)
      if (tsr__position_device(&right->sharding, q) == device) at_hand += rows_at(right, q);
  }
  if (whole) return WHOLE;
  if (parts == 1) return BROADCAST;
  double row = (double)row_bits(right, 0, right->count);
  /*    broadcast   right.total x (positions - 1) x row, less what is at hand
   *    exchange    left:  keys there, a match and the taken columns back
   *                right: keys and taken columns there
   *                of which (parts - 1) / parts cross a border, in each slice */
  double payload = (double)row_bits(right, join->ask->key_count, right->count);
  double key = 64.0 * join->ask->key_count, away = (double)(parts - 1) / (double)parts;
  double all = (double)(right->total * positions - at_hand) * row;
  double meet = (double)left->total * (key + payload + 1) + (double)right->total * (key + payload);
  double exchanged = meet * away * (double)slices;
  if (!tsr__sharding_equal(sharding, &right->sharding))
    exchanged += (double)right->total * row * (double)slices;
  return all <= exchanged ? BROADCAST : EXCHANGE;
}

/* ---- the right side ---- */

/* The right table's columns that the join needs. Columns are shared with the caller's table, held
 * once more: nothing is copied until rows move. */
static tsr_status narrow(tsr__join_work *join)
{
  const tsr__rel_join_ask *ask = join->ask;
  int count = ask->key_count + (join->pairs ? ask->take_count : 0);
  if (tsr__rel_new(join->rt, &ask->right->sharding, count, &join->right, join->error))
    return join->error->status;
  join->right.total = ask->right->total;
  for (int c = 0; c < count; c++) {
    int from = c < ask->key_count ? ask->right_keys[c].column : ask->take[c - ask->key_count];
    join->right.column[c] = ask->right->column[from];
    tsr__value_hold(join->right.column[c].values);
    tsr__value_hold(join->right.column[c].valid);
  }
  return TSR_OK;
}

/* Whether the right side has room beside each of the left's parts, with the keys of both. */
static tsr_status check_broadcast(tsr__join_work *join)
{
  const tsr__rel *left = join->ask->left;
  int64_t total = join->right.total, bits = row_bits(&join->right, 0, join->right.count);
  for (int p = 0; p < tsr__positions(&left->sharding); p++) {
    int64_t l = rows_at(left, p), need = total * bits / 8 + (l + total) * 8 + l * 4 + total * 12;
    if (tsr__join_room(join, tsr__position_device(&left->sharding, p), need))
      return join->error->status;
  }
  return TSR_OK;
}

/* Brings the right side to the left's devices: whole, or cut as the left is. For the exchange too
 * the right side is first cut as the left is, since both sides send from the same devices. What
 * that moved is told apart from the join's own movements. */
static tsr_status place_right(tsr__join_work *join, bool whole)
{
  const tsr_sharding *left = &join->ask->left->sharding;
  tsr_sharding to = *left;
  if (whole) to = (tsr_sharding){ .mesh = left->mesh };
  to = tsr__sharding_canon(&to);
  if (!whole && tsr__sharding_equal(&to, &join->right.sharding)) return TSR_OK;
  tsr__rel placed;
  tsr__rel_stats stats = { .method = NULL };
  if (tsr__place_table(&join->right, &to, &placed, &stats, join->error)) return join->error->status;
  tsr__rel_free(&join->right);
  join->right = placed;
  for (int i = 0; i < stats.move_count; i++)
    tsr__stats_add(join->stats, whole ? "right rows to all" : "right rows beside the left",
                   &(tsr__moved){ stats.move[i].rows, stats.move[i].bytes });
  return TSR_OK;
}

/* ---- slices at work ---- */

static tsr_status run_slices(tsr__join_work *join, int how)
{
  tsr__views left, right = { .slices = 0 };
  tsr_status status = tsr__views_new(join->ask->left, &left, join->error);
  if (status) return status;
  if (how == EXCHANGE) status = tsr__views_new(&join->right, &right, join->error);
  for (int s = 0; s < left.slices && !status; s++) {
    tsr__view whole, *other = how == EXCHANGE ? &right.view[s] : &whole;
    if (how != EXCHANGE) status = beside(join, &left.view[s], &whole);
    /* Before the first slice, for all: they hold equal rows. */
    if (!status && s == 0) status = range_keys(join, &left.view[s], other);
    if (status) break;
    status = how == EXCHANGE ? tsr__join_exchange(join, &left.view[s], other)
                             : join_whole(join, &left.view[s], other);
  }
  tsr__views_free(&right);
  tsr__views_free(&left);
  return status;
}

static tsr_status run(tsr__join_work *join, tsr__rel *out)
{
  const tsr__rel_join_ask *ask = join->ask;
  if (narrow(join)) return join->error->status;
  int columns = ask->left->count + (join->pairs ? ask->take_count : 0);
  if (tsr__draft_new(join->rt, &ask->left->sharding, columns, &join->draft, join->error))
    return join->error->status;
  for (int c = 0; c < columns; c++) {
    const tsr__rel_column *from = c < ask->left->count
                                      ? &ask->left->column[c]
                                      : &join->right.column[ask->key_count + c - ask->left->count];
    join->draft.dtype[c] = (tsr_dtype)from->values->dtype;
  }
  int how = choose(join);
  tsr_status status = how == BROADCAST ? check_broadcast(join) : TSR_OK;
  if (!status && how != WHOLE) status = place_right(join, how == BROADCAST);
  if (!status) status = run_slices(join, how);
  bool flags[2] = { join->hashed, join->repeats };
  bool apart = tsr__rel_apart(join->rt, &ask->left->sharding);
  for (int i = 0; i < 2 && !status; i++)
    status = tsr__agree_any(join->rt, apart, &flags[i], join->error);
  join->hashed = flags[0];
  join->repeats = flags[1];
  if (status) return status;
  join->stats->method = join->hashed ? "hash table" : "direct table";
  if (how != WHOLE) join->stats->method = how == BROADCAST ? "broadcast" : "keys exchanged";
  return tsr__draft_finish(&join->draft, out, join->error);
}

tsr_status tsr__rel_join(const tsr__rel_join_ask *ask, tsr__rel *out, bool *repeats,
                         tsr__rel_stats *stats, tsr__error *error)
{
  tsr__rel_stats unused;
  tsr__join_work join = { .ask = ask,
                          .rt = ask->left->rt,
                          .error = error,
                          .stats = stats ? stats : &unused,
                          .pairs = ask->how == TSR__MATCH_INNER || ask->how == TSR__MATCH_LEFT };
  *join.stats = (tsr__rel_stats){ .method = NULL };
  *out = (tsr__rel){ .rt = NULL };
  tsr__rel_meeting meeting = { .rt = join.rt, .error = error, .stats = join.stats };
  bool apart = tsr__rel_apart(join.rt, &ask->left->sharding);
  tsr_status status = tsr__rel_enter(&meeting, "join", apart ? ask->left : ask->right, NULL);
  if (status) return status;
  tsr__arena_init(&join.arena, &join.rt->heap);
  status = run(&join, out);
  tsr__draft_free(&join.draft);
  tsr__rel_free(&join.right);
  tsr__arena_free(&join.arena);
  status = tsr__rel_leave(&meeting, status, out);
  if (!status && repeats) *repeats = join.repeats;
  return status;
}
