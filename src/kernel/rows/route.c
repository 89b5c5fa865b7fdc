/* Rows ordered by where they go.
 *
 *   dest   1 0 1 0     order 1 3 0 2     rows for 0, then for 1, each in their own order
 *
 * Invariant: a stable partition, whatever pieces the rows are cut into. */
#include "kernel/device/cpu.h"
#include "kernel/rows/columns.h"

enum { ORDER_ROWS = 1 << 17 };

typedef struct order_job {
  const tsr__routes *routes;
  int64_t *tally; /* [piece * parts + to]: rows, then where the piece's first row for `to` goes */
} order_job;

/* The part of a piece, and the piece's number within it. */
static int part_of_piece(const tsr__parts *parts, int64_t *piece)
{
  int p = 0;
  for (int64_t here; *piece >= (here = (parts->rows[p] + ORDER_ROWS - 1) / ORDER_ROWS); p++)
    *piece -= here;
  return p;
}

/* How many rows of a piece go to each part. */
static void count_destinations_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const order_job *job = user;
  const tsr__parts *parts = job->routes->parts;
  int64_t *tally = job->tally + task * parts->count, piece = task;
  int p = part_of_piece(parts, &piece);
  int64_t first = piece * ORDER_ROWS, end = first + ORDER_ROWS;
  if (end > parts->rows[p]) end = parts->rows[p];
  const uint16_t *dest = tsr__cpu_data(job->routes->dest[p]);
  for (int64_t r = first; r < end; r++) tally[dest[r]]++;
}

/* The same walk again, now with a place for each row. */
static void place_rows_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const order_job *job = user;
  const tsr__parts *parts = job->routes->parts;
  int64_t *next = job->tally + task * parts->count, piece = task;
  int p = part_of_piece(parts, &piece);
  int64_t first = piece * ORDER_ROWS, end = first + ORDER_ROWS;
  if (end > parts->rows[p]) end = parts->rows[p];
  const uint16_t *dest = tsr__cpu_data(job->routes->dest[p]);
  uint32_t *order = job->routes->order->at[p];
  for (int64_t r = first; r < end; r++) order[next[dest[r]]++] = (uint32_t)r;
}

/* From rows a piece to places: destinations in order, and the pieces of a part within each. The
 * matrix of tallies is read by destination: all pieces' rows for part 0, then those for part 1,
 * so that the order is stable. */
static void number_destinations(const order_job *job)
{
  const tsr__parts *parts = job->routes->parts;
  int count = parts->count;
  int64_t *tally = job->tally;
  for (int p = 0; p < count; p++) {
    int64_t pieces = (parts->rows[p] + ORDER_ROWS - 1) / ORDER_ROWS, at = 0;
    for (int to = 0; to < count; to++) {
      int64_t first = at;
      for (int64_t i = 0; i < pieces; i++) {
        int64_t rows = tally[i * count + to];
        tally[i * count + to] = at;
        at += rows;
      }
      job->routes->counts[p * count + to] = at - first;
    }
    tally += pieces * count;
  }
}

tsr_status tsr__route_rows(tsr_runtime *rt, const tsr__routes *routes, tsr__error *error)
{
  const tsr__parts *parts = routes->parts;
  /* Without `order` only counts are asked for. */
  tsr_status status = TSR_OK;
  if (routes->order) status = tsr__index_new(rt, parts, routes->order, error);
  if (status) return status;
  int64_t pieces = 0;
  for (int p = 0; p < parts->count; p++) pieces += (parts->rows[p] + ORDER_ROWS - 1) / ORDER_ROWS;
  size_t size = (size_t)(pieces * parts->count + 1) * sizeof(int64_t);
  order_job job = { routes, tsr__new(&rt->heap, size) };
  if (!job.tally)
    status = tsr__error_set(error, TSR_ENOMEM,
                            "exchange: no memory for the counts of %lld pieces of rows for %d "
                            "devices; free some arrays",
                            (long long)pieces, parts->count);
  if (!status && !tsr__parallel_long(rt, "exchange", pieces, count_destinations_task, &job))
    status = tsr__cancelled(error, "exchange");
  if (!status) number_destinations(&job);
  if (!status && routes->order &&
      !tsr__parallel_long(rt, "exchange", pieces, place_rows_task, &job))
    status = tsr__cancelled(error, "exchange");
  tsr__del(&rt->heap, job.tally, size);
  if (status && routes->order) tsr__index_free(rt, routes->order);
  return status;
}
