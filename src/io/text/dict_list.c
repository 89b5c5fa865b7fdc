/* One list of what the locals of a column collected, once all is there.
 *
 *   local 0   entries "b" row 0          runs of rows 64.., 192..
 *   local 1   entries "a" row 70         runs of rows 128..
 *   list      "b" | run of 64 | "a" | run of 128 | run of 192
 *
 * Invariant: texts stand in the order of their first rows, so codes do not tell who read what. */
#include "io/text/dict_inner.h"

#include <stdlib.h>

static int by_row(const void *left, const void *right)
{
  const tsr__text_run *a = *(tsr__text_run *const *)left, *b = *(tsr__text_run *const *)right;
  /* Within a row, and in what has one number for many rows, by when they were begun. */
  if (a->first == b->first) return a->at < b->at ? -1 : a->at > b->at;
  return a->first < b->first ? -1 : 1;
}

static void put(tsr__filling *f, const char *text, size_t length)
{
  if (length) memcpy(f->bytes + f->sum, text, length);
  f->sum += (int64_t)length;
  f->offsets[++f->count] = f->sum;
}

void tsr__filling_put_entry(tsr__filling *f, const tsr__dict_entry *entry)
{
  size_t length = entry->key.length;
  put(f, length <= 16 ? (const char *)&entry->key : entry->text, length);
}

void tsr__filling_put_run(tsr__filling *f, tsr__text_run *run)
{
  size_t bytes = tsr__text_run_bytes(run);
  if (bytes) memcpy(f->bytes + f->sum, run->bytes, bytes);
  run->code = (int32_t)f->count;
  for (int32_t i = 0; i < run->count; i++) f->offsets[f->count + 1 + i] = f->sum + run->ends[-i];
  f->count += run->count;
  f->sum += (int64_t)bytes;
}

/* Entries that were first met before a row, or in it. */
static int32_t put_entries(tsr__filling *f, const tsr__dict_local *all, int32_t entry, int64_t row,
                           int32_t *place)
{
  for (; entry < all->count && all->entries[entry].first <= row; entry++) {
    place[entry] = (int32_t)f->count;
    tsr__filling_put_entry(f, &all->entries[entry]);
  }
  return entry;
}

/* The runs of all locals in the order of their rows; each row is of one local. */
static tsr__text_run **sort_runs(tsr__heap *heap, tsr__dict_local **locals, int count, size_t *runs)
{
  size_t at = 0;
  *runs = 0;
  for (int l = 0; l < count; l++) *runs += (size_t)locals[l]->run_count;
  tsr__text_run **run = tsr__new_raw(heap, (*runs + 1) * sizeof *run);
  for (int l = 0; run && l < count; l++) tsr__dict_leave_block(locals[l]);
  for (int l = 0; run && l < count; l++)
    for (int32_t r = 0; r < locals[l]->run_count; r++) run[at++] = &locals[l]->runs[r];
  if (run && count > 1) qsort(run, *runs, sizeof *run, by_row);
  return run;
}

/* A list with room for all; NULL: too many, or out of memory. */
static tsr__dict *room_for_all(const tsr__dict_local *all, tsr__text_run *const *run, size_t runs)
{
  int64_t texts = all->count, bytes = 0;
  for (int32_t e = 0; e < all->count; e++) bytes += all->entries[e].key.length;
  for (size_t r = 0; r < runs; r++) {
    texts += run[r]->count;
    bytes += (int64_t)tsr__text_run_bytes(run[r]);
  }
  if (texts > INT32_MAX) return NULL;
  return tsr__dict_new(all->heap, (int32_t)texts, bytes);
}

tsr__dict *tsr__dict_join(const tsr__dict_local *all, tsr__dict_local **locals, int count,
                          int32_t *place)
{
  tsr__heap *heap = all->heap;
  size_t runs = 0;
  tsr__text_run **run = sort_runs(heap, locals, count, &runs);
  if (!run) return NULL;
  tsr__dict *dict = room_for_all(all, run, runs);
  tsr__filling f = { .bytes = dict ? dict->bytes : NULL, .offsets = dict ? dict->offsets : NULL };
  int32_t entry = 0;
  if (dict) dict->repeats = true;
  for (size_t r = 0; dict && r < runs; r++) {
    if (all->progress && tsr__progress_stops(all->progress, all->worker)) {
      tsr__dict_release(dict);
      dict = NULL;
      break;
    }
    entry = put_entries(&f, all, entry, run[r]->first, place);
    tsr__filling_put_run(&f, run[r]);
    /* At once, so that the texts do not lie twice in memory when the last are copied. */
    tsr__text_run_drop(heap, run[r]);
  }
  if (dict) put_entries(&f, all, entry, INT64_MAX, place);
  tsr__del(heap, run, (runs + 1) * sizeof *run);
  return dict;
}

/* Entries before the runs that begin in their row or behind it, as all lists have them. */
void tsr__dict_rest_fill(const tsr__dict_rest *rest, int l)
{
  tsr__dict_local *local = rest->locals[l];
  tsr__filling filling = { rest->dict->bytes, rest->dict->offsets, rest->place[l].texts,
                           rest->place[l].bytes };
  int32_t e = 0;
  tsr__dict_leave_block(local);
  for (int32_t r = 0; r <= local->run_count; r++) {
    int64_t row = r < local->run_count ? local->runs[r].first : INT64_MAX;
    for (; e < local->count && local->entries[e].first <= row; e++) {
      local->entries[e].code = (int32_t)filling.count;
      tsr__filling_put_entry(&filling, &local->entries[e]);
    }
    if (r == local->run_count) break;
    tsr__filling_put_run(&filling, &local->runs[r]);
    tsr__text_run_drop(local->heap, &local->runs[r]);
  }
  local->recoded = true;
}

tsr__dict *tsr__dict_of(tsr__heap *heap, int32_t count, tsr__reserve *offsets, tsr__reserve *bytes)
{
  tsr__dict *dict = tsr__new(heap, sizeof *dict);
  if (!dict) return NULL;
  dict->heap = heap;
  atomic_init(&dict->refs, 1);
  dict->repeats = true;
  dict->count = count;
  dict->offsets_size = ((size_t)count + 1) * sizeof *dict->offsets;
  dict->bytes_size = (size_t)((int64_t *)(void *)offsets->at)[count] + 1;
  dict->offsets = tsr__reserve_keep(offsets, &dict->offsets_size);
  dict->bytes = tsr__reserve_keep(bytes, &dict->bytes_size);
  if (dict->offsets && dict->bytes) return dict;
  tsr__dict_release(dict);
  return NULL;
}
