/* Sorting a table.
 *
 *   keys of all parts packed -> splitters -> rows to the parts they fall to -> each part sorted
 *
 *   part 0   5 1 9 5        part 0   1 2 3 5        one part: packed, sorted, gathered
 *   part 1   2 5 3          part 1   5 5 9
 *
 * Splitters name rows, so rows of one frequent key are shared out too, and equal keys arrive in
 * order of part and row: a stable sort of each part is stable over all.
 *
 * Invariant: keys are packed again from the columns that arrived, not sent, by the ranges found
 * at the start; so they are the same words at both ends. */
#include "relate/relate_inner.h"

typedef struct sorting {
  const tsr__rel_sort_ask *ask;
  tsr_runtime *rt;
  tsr__error *error;
  tsr__rel_stats *stats;
  tsr__key *keys;
  tsr__colparts *columns; /* of the keys */
  tsr__buffer **buffers;  /* [column * parts + part]: values that arrived, validity */
  tsr__buffer **gathered; /* one column */
  tsr__colparts *arrived; /* all columns */
  int64_t *counts, *rows; /* of the exchange */
  size_t size;            /* of the block that holds them */
  int parts, words;
} sorting;

static tsr_status sorting_new(sorting *s, const tsr__views *views)
{
  size_t parts = (size_t)views->parts, count = (size_t)s->ask->in->count;
  size_t keys = (size_t)s->ask->key_count;
  s->parts = views->parts;
  s->size = keys * (sizeof *s->keys + sizeof *s->columns) + count * sizeof *s->arrived +
            2 * (count + 1) * parts * sizeof *s->buffers + (parts + 1) * parts * sizeof *s->rows;
  s->keys = tsr__new(&s->rt->heap, s->size + 1);
  if (!s->keys)
    return tsr__error_set(s->error, TSR_ENOMEM,
                          "sort: no memory for the description of %d columns; free some arrays",
                          s->ask->in->count);
  s->columns = (tsr__colparts *)(s->keys + keys);
  s->arrived = s->columns + keys;
  s->buffers = (tsr__buffer **)(s->arrived + count);
  s->gathered = s->buffers + 2 * count * parts;
  s->counts = (int64_t *)(s->gathered + 2 * parts);
  s->rows = s->counts + parts * parts;
  return TSR_OK;
}

static void sorting_free(sorting *s)
{
  if (s->keys) tsr__drop_buffers(s->buffers, 2 * (int64_t)s->ask->in->count * s->parts);
  if (s->keys) tsr__del(&s->rt->heap, s->keys, s->size + 1);
}

static int64_t larger(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

/* Bytes a part takes beyond its input at the worst moment: `here` rows before they are sent,
 * `share` rows once they have arrived. Two moments are compared: keys and destinations while rows
 * leave, and then what arrived beside the sort of its keys or the widest column in its new order.
 * One part has no first moment. */
static int64_t part_need(const sorting *s, const tsr__view *view, int64_t here, int64_t share)
{
  int64_t all = tsr__view_bits(view, s->ask->in->count) / 8 + 1, widest = 0, key = 8 * s->words;
  for (int c = 0; c < s->ask->in->count; c++)
    widest = larger(widest, tsr__row_bits(&view->columns[c], s->parts) / 8 + 1);
  int64_t sort = share * key + tsr__sort_need(share, s->words);
  if (s->parts == 1) return larger(sort, share * (4 + all));
  int64_t leaving = here * (key + 2 + 4), moving = here * 4;
  return larger(leaving, share * all + larger(moving, larger(sort, share * (4 + widest))));
}

static tsr_status check_need(const sorting *s, const tsr__views *views)
{
  tsr__need need = { s->rt, "sort", s->stats };
  int64_t share = s->ask->in->total / s->parts;
  /* The splitters are taken from a sample; rows of one key are dealt out too, so no part gets
   * much more than its share, whatever the keys are. */
  if (s->parts > 1) share += share / 8 + 1; /* shares are nearly even */
  for (int v = 0; v < views->slices; v++) {
    const tsr__view *view = &views->view[v];
    for (int p = 0; p < s->parts; p++) {
      int64_t bytes = part_need(s, view, view->parts.rows[p], share);
      tsr_status status = tsr__need_check(&need, view->parts.device[p], bytes, s->error);
      if (status) return status;
    }
  }
  return TSR_OK;
}

/* As soon as a column is gathered in its new order the one that arrived is not needed: at most
 * one column is there twice. */
static void drop_arrived(sorting *s, int c)
{
  tsr__drop_buffers(s->buffers + c * s->parts, s->parts);
  tsr__drop_buffers(s->buffers + (s->ask->in->count + c) * s->parts, s->parts);
}

/* The order of rows lying as `parts` say, and each column in it, which the draft takes. */
static tsr_status sort_parts(sorting *s, const tsr__view *view, const tsr__parts *parts,
                             const tsr__colparts *columns, tsr__draft *draft)
{
  const tsr__rel_sort_ask *ask = s->ask;
  tsr__packed_keys packed = { 0 };
  tsr__index order = { 0 };
  /* The same ranges as before, but other buffers: keys of rows that moved are packed where they
   * are now. */
  for (int k = 0; k < ask->key_count; k++) s->columns[k] = columns[ask->keys[k].column];
  tsr__pack_ask pack = { parts, s->columns, s->keys, ask->key_count, false };
  tsr_status status = tsr__on_rows(s->rt)->pack_keys(s->rt, &pack, &packed, s->error);
  if (!status) status = tsr__on_rows(s->rt)->sort_rows(s->rt, parts, &packed, &order, s->error);
  tsr__packed_free(s->rt, &packed);
  for (int c = 0; c < ask->in->count && !status; c++) {
    tsr__buffer **valid = s->gathered + s->parts;
    tsr__gather gather = { parts, &order, &columns[c], false };
    status = tsr__on_rows(s->rt)->gather_column(s->rt, &gather, s->gathered, valid, s->error);
    if (!status) tsr__draft_put(draft, c, view, s->gathered, valid);
    if (columns == s->arrived) drop_arrived(s, c);
  }
  tsr__index_free(s->rt, &order);
  for (int p = 0; p < s->parts; p++) draft->rows[view->position[p]] = parts->rows[p];
  return status;
}

/* Sends rows to the parts they fall to; `split` is not needed afterwards and freed. Rows keep the
 * order they had among those that go to the same part: the exchange is stable, and so is the sort
 * that follows. */
static tsr_status send_rows(sorting *s, const tsr__view *view, tsr__sort_split *split)
{
  tsr__moved moved = { 0 };
  int count = s->ask->in->count;
  tsr__routes routes = { &view->parts, split->dest, NULL, s->counts };
  tsr_status status = tsr__on_rows(s->rt)->route_rows(s->rt, &routes, s->error);
  tsr__buffer **valid = s->buffers + count * s->parts;
  tsr__exchange ask = { .rt = s->rt,
                        .from = &view->parts,
                        .apart = view->apart,
                        .counts = s->counts,
                        .dest = split->dest,
                        .column_count = count,
                        .columns = view->columns,
                        .values = s->buffers,
                        .valid = valid,
                        .rows = s->rows,
                        .moved = &moved };
  if (!status) status = tsr__exchange_rows(&ask, s->error);
  /* Destinations are two bytes a row: gone before what arrived is sorted, as the need assumes. */
  tsr__sort_split_free(s->rt, split);
  for (int c = 0; c < count; c++)
    s->arrived[c] =
        (tsr__colparts){ view->columns[c].dtype, s->buffers + c * s->parts, valid + c * s->parts };
  tsr__stats_add(s->stats, "rows by key", &moved);
  return status;
}

/* By splitters that are the same wherever rows lie: of a sample of all parts. */
static tsr_status split_rows(sorting *s, const tsr__view *view, const tsr__packed_keys *packed,
                             tsr__sort_split *split)
{
  tsr__sort_sample sample = { 0 };
  tsr__sample_ask ask = { &view->parts, packed, s->ask->in->total };
  tsr_status status = tsr__on_rows(s->rt)->sort_sample_rows(s->rt, &ask, &sample, s->error);
  if (!status) status = tsr__agree_sample(s->rt, view->apart, &sample, s->error);
  tsr__split_ask rows = { &view->parts, packed, &sample };
  if (!status) status = tsr__on_rows(s->rt)->sort_split_rows(s->rt, &rows, split, s->error);
  tsr__sort_sample_free(s->rt, &sample);
  return status;
}

static tsr_status sort_slice(sorting *s, const tsr__view *view, tsr__draft *draft)
{
  const tsr__rel_sort_ask *ask = s->ask;
  if (s->parts == 1) return sort_parts(s, view, &view->parts, view->columns, draft);
  tsr__packed_keys packed;
  tsr__sort_split split = { 0 };
  for (int k = 0; k < ask->key_count; k++) s->columns[k] = view->columns[ask->keys[k].column];
  tsr__pack_ask pack = { &view->parts, s->columns, s->keys, ask->key_count, false };
  tsr_status status = tsr__on_rows(s->rt)->pack_keys(s->rt, &pack, &packed, s->error);
  if (!status) status = split_rows(s, view, &packed, &split);
  tsr__packed_free(s->rt, &packed);
  if (!status) status = send_rows(s, view, &split);
  tsr__parts parts = { s->parts, view->parts.device, s->rows };
  if (!status) status = sort_parts(s, view, &parts, s->arrived, draft);
  tsr__drop_buffers(s->buffers, 2 * (int64_t)ask->in->count * s->parts);
  return status;
}

/* The ranges of the keys, which are the same on all slices, and so the words a key takes. Slices
 * hold the same rows, so the first one speaks for all. Over all parts, so that a key is the same
 * word on every device. */
static tsr_status find_ranges(sorting *s, const tsr__view *view)
{
  const tsr__rel_sort_ask *ask = s->ask;
  tsr__view_keys(view, ask->keys, ask->key_count, s->keys, s->columns);
  tsr__range_ask range = { &view->parts, s->columns, s->keys, ask->key_count };
  tsr_status status = tsr__on_rows(s->rt)->keys_range(s->rt, &range, s->error);
  if (!status) status = tsr__agree_keys(s->rt, view->apart, s->keys, ask->key_count, s->error);
  s->words = tsr__keys_settle(s->keys, ask->key_count, NULL);
  return status;
}

tsr_status tsr__sort_table(const tsr__rel_sort_ask *ask, tsr__rel *out, tsr__rel_stats *stats,
                           tsr__error *error)
{
  const tsr__rel *in = ask->in;
  tsr__views views;
  tsr__draft draft = { 0 };
  sorting s = { .ask = ask, .rt = in->rt, .error = error, .stats = stats };
  tsr_status status = tsr__views_new(in, &views, error);
  if (!status) status = sorting_new(&s, &views);
  if (!status) status = find_ranges(&s, &views.view[0]);
  /* Nothing but descriptions has been allocated up to here. */
  if (!status) status = check_need(&s, &views);
  if (!status) status = tsr__draft_new(in->rt, &in->sharding, in->count, &draft, error);
  for (int c = 0; c < in->count && !status; c++)
    draft.dtype[c] = (tsr_dtype)in->column[c].values->dtype;
  for (int v = 0; v < views.slices && !status; v++) status = sort_slice(&s, &views.view[v], &draft);
  if (!status) status = tsr__draft_finish(&draft, out, error);
  if (!status && stats) stats->method = s.parts > 1 ? "sample sort, then radix" : "radix sort";
  tsr__draft_free(&draft);
  sorting_free(&s);
  tsr__views_free(&views);
  return status;
}

tsr_status tsr__rel_sort(const tsr__rel_sort_ask *ask, tsr__rel *out, tsr__rel_stats *stats,
                         tsr__error *error)
{
  tsr__rel_meeting meeting = { .rt = ask->in->rt, .error = error, .stats = stats };
  tsr_status status = tsr__rel_enter(&meeting, "sort", ask->in, NULL);
  if (status) return status;
  return tsr__rel_leave(&meeting, tsr__sort_table(ask, out, stats, error), out);
}
