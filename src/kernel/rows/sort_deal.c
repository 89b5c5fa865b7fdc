/* Scattering rows to hundreds of buckets without reading the overwritten lines.
 *
 *   bucket b      .... |################|################|###.....        lines of 16 rows
 *   collected                                              ^ 3 rows wait in the cache for 13 more
 *
 * A line is written at once and past the caches, so memory sees each row once. A piece shares the
 * lines at both ends with its neighbours: only its own rows are written there.
 *
 * Invariant: lines start at multiples of 16 rows of the buffer, whose memory is 64-byte aligned. */
#include "kernel/device/put_line.h"
#include "kernel/rows/sort.h"

enum { LINE = TSR__CUT_LINE };

/* The rows of the line that ends before `end`, from the piece's own first on. */
static void flush_bucket_line(const tsr__sort_room *room, const tsr__sort_deal *job, int b,
                              int64_t end)
{
  int64_t line = (end - 1) / LINE * LINE, first = room->first[b] > line ? room->first[b] : line;
  if (first == line && end == line + LINE) {
    tsr__put_line(job->to_word + line, room->word[b], LINE * 8);
    tsr__put_line(job->to_at + line, room->at[b], LINE * 4);
    return;
  }
  size_t rows = (size_t)(end - first);
  memcpy(job->to_word + first, room->word[b] + first % LINE, rows * 8);
  memcpy(job->to_at + first, room->at[b] + first % LINE, rows * 4);
}

void tsr__sort_deal_rows(tsr__sort_room *room, const tsr__sort_deal *job)
{
  for (int b = 0; b < job->buckets; b++)
    room->first[b] = room->next[b] = job->start + (int64_t)job->next[b];
  for (int64_t i = 0; i < job->count; i++) {
    int b = job->bucket[i];
    int64_t to = room->next[b]++;
    room->word[b][to % LINE] = job->word[i];
    room->at[b][to % LINE] = job->at ? job->at[i] : job->first_row + (uint32_t)i;
    if (to % LINE == LINE - 1) flush_bucket_line(room, job, b, to + 1);
  }
  for (int b = 0; b < job->buckets; b++)
    if (room->next[b] % LINE && room->next[b] > room->first[b])
      flush_bucket_line(room, job, b, room->next[b]);
  tsr__put_done();
}
