/* See dict_flow.h. Lists lie in address space that is reserved for as many texts as there can be,
 * so that they never move while workers write to them. */
#include "io/text/dict_flow.h"

#include "io/text/dict_inner.h"

/* Beyond that the system may not have as many ranges of addresses. */
enum { MOST_FLOWS = 256 };

/* What a stripe added to a column. */
typedef struct tally {
  int32_t entries, runs; /* of the local, behind it */
  int64_t texts, bytes;  /* how many; with a place: where they go */
  int64_t sum;           /* bytes of them */
  bool unseen, flows;
} tally;

struct tsr__dict_stripe {
  tsr__dict_stripe *next; /* of the same worker */
  bool placed;
  tally tally[];
};

static size_t stripe_size(const tsr__dict_flows *f)
{
  return sizeof(tsr__dict_stripe) + (size_t)f->column_count * sizeof(tally);
}

static bool open_columns(tsr__dict_flows *f, const tsr__dict_flows_ask *ask)
{
  int flows = 0;
  for (int c = 0; c < f->column_count; c++) {
    tsr__dict_flow *flow = &f->flow[c];
    if (!ask->flowing[c] || flows == MOST_FLOWS) continue;
    flow->open =
        tsr__reserve_open(&flow->bytes, f->heap, (size_t)ask->bytes + 1) &&
        tsr__reserve_open(&flow->offsets, f->heap, ((size_t)ask->texts + 1) * sizeof(int64_t));
    flows += flow->open;
  }
  return flows > 0;
}

bool tsr__dict_flows_open(tsr__dict_flows *f, tsr__heap *heap, const tsr__dict_flows_ask *ask)
{
  size_t columns = (size_t)ask->columns, workers = (size_t)ask->workers;
  *f = (tsr__dict_flows){ .heap = heap,
                          .stripe_count = ask->stripes,
                          .worker_count = ask->workers,
                          .column_count = ask->columns };
  f->flow = tsr__new(heap, (columns + 1) * sizeof *f->flow);
  f->local = tsr__new(heap, (columns * workers + 1) * sizeof *f->local);
  f->stripe = tsr__new(heap, ((size_t)ask->stripes + 1) * sizeof *f->stripe);
  f->waiting = tsr__new(heap, workers * sizeof *f->waiting);
  if (!f->flow || !f->local || !f->stripe || !f->waiting) return false;
  /* Without one there is nothing to count for. */
  if (!open_columns(f, ask)) tsr__dict_flows_close(f);
  return true;
}

void tsr__dict_flows_close(tsr__dict_flows *f)
{
  if (!f->heap) return;
  size_t columns = (size_t)f->column_count, workers = (size_t)f->worker_count;
  for (size_t c = 0; f->flow && c < columns; c++) {
    tsr__reserve_close(&f->flow[c].bytes);
    tsr__reserve_close(&f->flow[c].offsets);
  }
  for (int s = 0; f->stripe && s < f->stripe_count; s++)
    tsr__del(f->heap, f->stripe[s], stripe_size(f));
  tsr__del(f->heap, f->flow, (columns + 1) * sizeof *f->flow);
  tsr__del(f->heap, f->local, (columns * workers + 1) * sizeof *f->local);
  tsr__del(f->heap, f->stripe, ((size_t)f->stripe_count + 1) * sizeof *f->stripe);
  tsr__del(f->heap, f->waiting, workers * sizeof *f->waiting);
  *f = (tsr__dict_flows){ 0 };
}

static void count(tsr__dict_local *local, tally *out)
{
  int64_t texts = (int64_t)local->count + local->run_texts;
  *out = (tally){ .entries = local->count,
                  .runs = local->run_count,
                  .texts = texts - local->told_texts,
                  .sum = local->bytes - local->told_bytes,
                  .unseen = local->run_count > local->told_runs };
  local->told_texts = texts;
  local->told_bytes = local->bytes;
  local->told_runs = local->run_count;
}

/* In the order of stripes, under the latch. */
static void place(tsr__dict_flow *flow, tally *t)
{
  int64_t texts = t->texts;
  if (flow->open && t->unseen && !flow->flows) {
    flow->flows = true;
    flow->head = flow->texts;
    flow->heads = flow->sum;
  }
  t->flows = flow->flows;
  t->texts = flow->texts;
  t->bytes = flow->sum;
  flow->texts += texts;
  flow->sum += t->sum;
}

static void take_places(tsr__dict_flows *f)
{
  for (; f->next < f->stripe_count && f->stripe[f->next]; f->next++) {
    tsr__dict_stripe *stripe = f->stripe[f->next];
    for (int c = 0; c < f->column_count; c++) place(&f->flow[c], &stripe->tally[c]);
    stripe->placed = true;
  }
}

static void put_entry(tsr__filling *filling, tsr__dict_entry *entry)
{
  entry->code = (int32_t)filling->count;
  tsr__filling_put_entry(filling, entry);
}

/* Copies what a stripe added to where it goes; false: out of memory. */
static bool fill(tsr__dict_flow *flow, tsr__dict_local *local, const tally *t, int64_t texts)
{
  tsr__filling filling = { flow->bytes.at, (int64_t *)(void *)flow->offsets.at, t->texts,
                           t->bytes };
  bool fits = t->texts + texts < INT32_MAX && (size_t)(t->bytes + t->sum) < flow->bytes.most &&
              (size_t)(t->texts + texts + 1) * sizeof(int64_t) <= flow->offsets.most;
  if (!fits || !tsr__reserve_take(&flow->bytes, (size_t)(t->bytes + t->sum)) ||
      !tsr__reserve_take(&flow->offsets, (size_t)(t->texts + texts + 1) * sizeof(int64_t)))
    return false;
  int32_t e = local->flown_entries;
  for (int32_t r = local->flown_runs; r < t->runs; r++) {
    tsr__text_run *run = &local->runs[r];
    for (; e < t->entries && local->entries[e].first <= run->first; e++)
      put_entry(&filling, &local->entries[e]);
    tsr__filling_put_run(&filling, run);
    tsr__text_run_drop(local->heap, run);
  }
  for (; e < t->entries; e++) put_entry(&filling, &local->entries[e]);
  local->flown_entries = e;
  local->flown_runs = t->runs;
  local->recoded = true;
  if (t->runs == local->run_count) tsr__dict_use_again(local);
  return true;
}

/* A column's part of a stripe that has its place. */
static bool flow_on(tsr__dict_flow *flow, tsr__dict_local *local, const tally *t)
{
  if (!t->flows) {
    local->flown_entries = local->head_entries = t->entries;
    return true;
  }
  int64_t texts = t->entries - local->flown_entries;
  for (int32_t r = local->flown_runs; r < t->runs; r++) texts += local->runs[r].count;
  return fill(flow, local, t, texts);
}

/* The worker's stripes that have their places by now. */
static bool flow_waiting(tsr__dict_flows *f, int worker)
{
  tsr__dict_local **local = f->local + (size_t)worker * (size_t)f->column_count;
  bool fine = true;
  while (fine && f->waiting[worker]) {
    tsr__dict_stripe *stripe = f->waiting[worker];
    tsr__latch_close(&f->latch);
    bool placed = stripe->placed;
    tsr__latch_open(&f->latch);
    if (!placed) break;
    for (int c = 0; c < f->column_count && fine; c++)
      if (f->flow[c].open) fine = flow_on(&f->flow[c], local[c], &stripe->tally[c]);
    f->waiting[worker] = stripe->next;
  }
  return fine;
}

bool tsr__dict_flows_stripe(tsr__dict_flows *f, int number, int worker)
{
  if (!f->flow) return true;
  tsr__dict_stripe *stripe = tsr__new_raw(f->heap, stripe_size(f));
  tsr__dict_local **local = f->local + (size_t)worker * (size_t)f->column_count;
  if (!stripe) return false;
  *stripe = (tsr__dict_stripe){ .placed = false };
  for (int c = 0; c < f->column_count; c++) count(local[c], &stripe->tally[c]);
  tsr__dict_stripe **last = &f->waiting[worker];
  while (*last) last = &(*last)->next;
  *last = stripe;
  tsr__latch_close(&f->latch);
  f->stripe[number] = stripe;
  take_places(f);
  tsr__latch_open(&f->latch);
  return flow_waiting(f, worker);
}

bool tsr__dict_flows_rest(tsr__dict_flows *f, int worker)
{
  return !f->flow || flow_waiting(f, worker);
}

/* Entries of the stripes before it began, of all workers, in the order of their rows. */
static bool put_heads(tsr__dict_flows *f, tsr__dict_flow *flow, int column)
{
  tsr__filling filling = { .bytes = flow->bytes.at,
                           .offsets = (int64_t *)(void *)flow->offsets.at };
  size_t size = (size_t)f->worker_count * sizeof(int32_t);
  int32_t *next = tsr__new(f->heap, size);
  if (!next || !tsr__reserve_take(&flow->bytes, (size_t)flow->heads) ||
      !tsr__reserve_take(&flow->offsets, (size_t)(flow->head + 1) * sizeof(int64_t))) {
    tsr__del(f->heap, next, size);
    return false;
  }
  filling.offsets[0] = 0;
  while (filling.count < flow->head) {
    tsr__dict_local *least = NULL;
    int64_t row = INT64_MAX, until = INT64_MAX;
    int from = 0;
    /* A worker's go on until another has something earlier: some sixty-four at a time. */
    for (int w = 0; w < f->worker_count; w++) {
      tsr__dict_local *local = f->local[(size_t)w * (size_t)f->column_count + (size_t)column];
      if (next[w] == local->head_entries) continue;
      int64_t first = local->entries[next[w]].first;
      if (!least || first < row) until = row, row = first, least = local, from = w;
      else if (first < until) until = first;
    }
    TSR_INVARIANT(least);
    do put_entry(&filling, &least->entries[next[from]++]);
    while (next[from] < least->head_entries && least->entries[next[from]].first < until);
    least->recoded = true;
  }
  tsr__del(f->heap, next, size);
  return true;
}

tsr__dict *tsr__dict_flows_end(tsr__dict_flows *f, int column)
{
  tsr__dict_flow *flow = &f->flow[column];
  if (flow->texts > INT32_MAX || !put_heads(f, flow, column)) return NULL;
  flow->bytes.at[flow->sum] = 0;
  return tsr__dict_of(f->heap, (int32_t)flow->texts, &flow->offsets, &flow->bytes);
}
