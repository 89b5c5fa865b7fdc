/* The first rows of a table in order of keys, without sorting all of it.
 *
 *   part 0   5 1 9 5  -->  1 .         few rows of each part, in    -->   sorted as any table,
 *   part 1   2 5 3    -->  2 3         their order, all columns           then cut to the count
 *
 * Invariant: the rows kept are the first of the whole table's order and keep the order they
 * had, so the stable sort puts them as the sort of all would. Where keys are so alike that most
 * rows would be kept, or many are asked for, all are sorted. */
#include "relate/relate_inner.h"

/* Below these a sort of everything is as fast, and simpler to explain. */
enum { WORTH = 8, LEAST = 4096 }; /* times the rows asked for; rows that are sorted at once */

typedef struct topping {
  const tsr__rel_sort_ask *ask;
  tsr_runtime *rt;
  tsr__error *error;
  int64_t count;
  tsr__key *keys;
  tsr__colparts *columns; /* of the keys */
  tsr__buffer **gathered; /* one column: values, validity */
  int parts;
  size_t size;
} topping;

static tsr_status topping_new(topping *t, int parts)
{
  size_t keys = (size_t)t->ask->key_count;
  t->parts = parts;
  t->size = keys * (sizeof *t->keys + sizeof *t->columns) + 2 * (size_t)parts * sizeof *t->gathered;
  t->keys = tsr__new(&t->rt->heap, t->size);
  if (!t->keys)
    return tsr__error_set(t->error, TSR_ENOMEM,
                          "sort: no memory for the description of %d keys; free some arrays",
                          t->ask->key_count);
  t->columns = (tsr__colparts *)(t->keys + keys);
  t->gathered = (tsr__buffer **)(t->columns + keys);
  return TSR_OK;
}

/* Packed keys of one slice at a time, and rows that hardly count beside them. Rows that are kept
 * are at most half of the table and mostly a few thousand: they are not counted. */
static tsr_status check_need(const topping *t, const tsr__view *view, int words,
                             tsr__rel_stats *stats)
{
  tsr__need need = { t->rt, "sort", stats };
  for (int p = 0; p < t->parts; p++) {
    int64_t bytes = view->parts.rows[p] * 8 * words;
    tsr_status status = tsr__need_check(&need, view->parts.device[p], bytes, t->error);
    if (status) return status;
  }
  return TSR_OK;
}

/* Keeps the rows of a slice that matter; `*few` says whether that was worth it. `top_rows` may
 * refuse: where more than half of the rows would be kept, it gives an index without rows, and the
 * sort takes them all. */
static tsr_status keep_slice(topping *t, const tsr__view *view, tsr__draft *draft, bool *few)
{
  tsr__packed_keys packed = { 0 };
  tsr__index index = { 0 };
  for (int k = 0; k < t->ask->key_count; k++) t->columns[k] = view->columns[t->ask->keys[k].column];
  tsr__pack_ask pack = { &view->parts, t->columns, t->keys, t->ask->key_count, false };
  tsr_status status = tsr__on_rows(t->rt)->pack_keys(t->rt, &pack, &packed, t->error);
  tsr__top_ask top = { &view->parts, &packed, t->count, t->ask->in->total / 2 };
  if (!status) status = tsr__on_rows(t->rt)->top_rows(t->rt, &top, &index, t->error);
  tsr__packed_free(t->rt, &packed);
  /* Slices hold equal rows, so either all of them find it worth the while or none. Each process
   * keeps the first of its own rows, among which are those of all rows that it has. */
  bool many = !index.rows;
  if (!status) status = tsr__agree_any(t->rt, view->apart, &many, t->error);
  *few = !status && !many;
  if (!*few) {
    tsr__index_free(t->rt, &index);
    return status;
  }
  tsr__parts parts = { t->parts, view->parts.device, index.rows };
  for (int c = 0; c < t->ask->in->count && !status; c++) {
    tsr__gather gather = { &parts, &index, &view->columns[c], false };
    tsr__buffer **valid = t->gathered + t->parts;
    status = tsr__on_rows(t->rt)->gather_column(t->rt, &gather, t->gathered, valid, t->error);
    if (!status) tsr__draft_put(draft, c, view, t->gathered, valid);
  }
  for (int p = 0; p < t->parts; p++) draft->rows[view->position[p]] = index.rows[p];
  tsr__index_free(t->rt, &index);
  return status;
}

/* The rows that matter as a table; none where all do. Rows of equal keys at the border are all
 * kept. Which of them are first is for the stable sort to say, since here they are still in
 * several parts. */
static tsr_status keep_few(topping *t, const tsr__views *views, tsr__rel *out,
                           tsr__rel_stats *stats)
{
  const tsr__rel *in = t->ask->in;
  const tsr__view *first = &views->view[0];
  tsr__draft draft = { 0 };
  bool few = true;
  tsr__view_keys(first, t->ask->keys, t->ask->key_count, t->keys, t->columns);
  tsr__range_ask range = { &first->parts, t->columns, t->keys, t->ask->key_count };
  tsr_status status = tsr__on_rows(t->rt)->keys_range(t->rt, &range, t->error);
  if (!status) status = tsr__agree_keys(t->rt, first->apart, t->keys, t->ask->key_count, t->error);
  int words = tsr__keys_settle(t->keys, t->ask->key_count, NULL);
  if (!status) status = check_need(t, first, words, stats);
  if (!status) status = tsr__draft_new(in->rt, &in->sharding, in->count, &draft, t->error);
  for (int c = 0; c < in->count && !status; c++)
    draft.dtype[c] = (tsr_dtype)in->column[c].values->dtype;
  for (int v = 0; v < views->slices && !status && few; v++)
    status = keep_slice(t, &views->view[v], &draft, &few);
  if (!status && few) status = tsr__draft_finish(&draft, out, t->error);
  tsr__draft_free(&draft);
  return status;
}

static tsr_status find_few(const tsr__rel_sort_ask *ask, int64_t count, tsr__rel *out,
                           tsr__rel_stats *stats, tsr__error *error)
{
  topping t = { .ask = ask, .rt = ask->in->rt, .error = error, .count = count };
  tsr__views views;
  tsr_status status = tsr__views_new(ask->in, &views, error);
  /* Each process would keep the first of what it has of a slice; of another slice it may have other
   * parts, and replicas would differ: then all are sorted. */
  bool alike = status || views.slices == 1 || !views.view[0].apart;
  if (!status && alike) status = topping_new(&t, views.parts);
  if (!status && alike) status = keep_few(&t, &views, out, stats);
  tsr__del(&t.rt->heap, t.keys, t.keys ? t.size : 0);
  tsr__views_free(&views);
  return status;
}

static tsr_status top(const tsr__rel_sort_ask *ask, int64_t count, tsr__rel *out,
                      tsr__rel_stats *stats, tsr__error *error)
{
  tsr__rel few = { 0 }, sorted = { 0 };
  tsr__rel_sort_ask rest = *ask;
  tsr_status status = TSR_OK;
  if (ask->in->total > LEAST && count < ask->in->total / WORTH)
    status = find_few(ask, count, &few, stats, error);
  if (few.column) rest.in = &few;
  if (!status) status = tsr__sort_table(&rest, &sorted, stats, error);
  if (!status) status = tsr__first_of_table(&sorted, count, out, error);
  if (!status && stats && few.column) stats->method = "first rows by tally, then sorted";
  tsr__rel_free(&sorted);
  tsr__rel_free(&few);
  return status;
}

tsr_status tsr__rel_top(const tsr__rel_sort_ask *ask, int64_t count, tsr__rel *out,
                        tsr__rel_stats *stats, tsr__error *error)
{
  tsr__rel_meeting meeting = { .rt = ask->in->rt, .error = error, .stats = stats };
  tsr_status status = tsr__rel_enter(&meeting, "sort", ask->in, NULL);
  if (status) return status;
  return tsr__rel_leave(&meeting, top(ask, count, out, stats, error), out);
}
