/* Processes that read a source together: each counts and parses a share of its rows, and tells the
 * others what it found.
 *
 *   process 0   rows 0 .. 499     i64, no nulls    texts  EWR JFK     |  one type, one dictionary,
 *   process 1   rows 500 .. 999   f64, some nulls  texts  JFK LGA     |  or one error for all
 *
 * Invariant: what is joined does not depend on who read which rows: types follow from the set of
 * all values, codes from the rows where texts were first met, and errors are those of the earliest
 * row. */
#include "comm/peers.h"
#include "io/csv/csv_inner.h"

static tsr_status no_memory(const tsr__csv *csv, tsr__error *error)
{
  return tsr__csv_no_memory(csv, error);
}

/* What each process tells, in the order of the processes; *all is freed by notes_free. */
static tsr_status tell(const tsr__csv *csv, const void *mine, size_t size, tsr__peers_note **all,
                       tsr__error *error)
{
  size_t count = (size_t)tsr__peers_count(csv->peers);
  *all = tsr__new(csv->heap, count * sizeof **all);
  if (!*all) return no_memory(csv, error);
  return tsr__peers_gather(csv->peers, mine, size, *all, error);
}

static void notes_free(const tsr__csv *csv, tsr__peers_note *all)
{
  if (all) tsr__del(csv->heap, all, (size_t)tsr__peers_count(csv->peers) * sizeof *all);
}

/* ---- errors ---------------------------------------------------------------------------------- */

typedef struct told_error {
  int64_t row;
  tsr__error error;
} told_error;

tsr_status tsr__csv_agree_error(const tsr__csv *csv, int64_t row, tsr__error *error)
{
  told_error mine = { row, *error }, each;
  tsr__peers_note *all;
  if (row < 0) mine.error.status = TSR_OK;
  tsr__error failed = { .status = TSR_OK };
  tsr_status status = tell(csv, &mine, sizeof mine, &all, &failed);
  int64_t first = -1;
  for (int p = 0; p < tsr__peers_count(csv->peers) && !status; p++) {
    if (all[p].size != sizeof each) continue;
    memcpy(&each, all[p].data, sizeof each);
    if (each.row < 0 || (first >= 0 && each.row >= first)) continue;
    first = each.row;
    *error = each.error;
  }
  notes_free(csv, all);
  if (status) *error = failed;
  /* Who fails is known to have failed from then on, also to who has yet to read what was told. */
  else if (first >= 0) (void)tsr__peers_part(csv->peers, &failed);
  return error->status;
}

/* ---- types ----------------------------------------------------------------------------------- */

static void join_found(tsr__csv_found_in *to, const tsr__csv_found_in *from)
{
  to->seen |= from->seen;
  to->nulls += from->nulls;
  if (from->contrary_row < 0) return;
  if (to->contrary_row >= 0 && to->contrary_row <= from->contrary_row) return;
  to->contrary_row = from->contrary_row;
  memcpy(to->contrary, from->contrary, sizeof to->contrary);
}

tsr_status tsr__csv_agree_types(const tsr__csv *csv, tsr__csv_found_in *found, int count,
                                tsr__error *error)
{
  size_t size = (size_t)count * sizeof *found;
  tsr__peers_note *all;
  tsr_status status = tell(csv, found, size, &all, error);
  for (int p = 0; p < tsr__peers_count(csv->peers) && !status; p++) {
    if (p == tsr__peers_index(csv->peers) || all[p].size != size) continue;
    for (int t = 0; t < count; t++) {
      tsr__csv_found_in each;
      memcpy(&each, (const char *)all[p].data + (size_t)t * sizeof each, sizeof each);
      join_found(&found[t], &each);
    }
  }
  notes_free(csv, all);
  return status;
}

/* ---- counts ---------------------------------------------------------------------------------- */

tsr_status tsr__csv_agree_counts(const tsr__csv *csv, const tsr__csv_counted *counted,
                                 tsr__error *error)
{
  tsr__csv_file *file = counted->file;
  size_t each = sizeof *file->granules, head = 2 * sizeof(int64_t);
  size_t size = head + (size_t)(counted->last - counted->first) * each;
  tsr__peers_note *all = NULL;
  char *mine = tsr__new_raw(csv->heap, size);
  if (!mine) return no_memory(csv, error);
  const int64_t range[2] = { counted->first, counted->last };
  memcpy(mine, range, head);
  memcpy(mine + head, file->granules + counted->first, size - head);
  tsr_status status = tell(csv, mine, size, &all, error);
  for (int p = 0; p < tsr__peers_count(csv->peers) && !status; p++) {
    int64_t of[2];
    memcpy(of, all[p].data, head);
    if (p == tsr__peers_index(csv->peers) || of[0] < 0 || of[1] > file->granule_count) continue;
    memcpy(file->granules + of[0], (const char *)all[p].data + head,
           (size_t)(of[1] - of[0]) * each);
  }
  notes_free(csv, all);
  tsr__del(csv->heap, mine, size);
  return status;
}
