/* Records of several sources, drawn or dealt position by position.
 *
 *   weights 3 : 1    | a a b a | a a a b | a ...      a byte a position
 *   had              (0,0)     (3,1)     (6,2)        by source, at the start of each block
 *
 * Invariant: position i of block b takes of its source the record that as many positions of the
 * source stand before, had[b] and those of the block; modulo its length where sources begin
 * again. */
#include "pipeline/permute.h"
#include "pipeline/stage.h"
#include "pipeline/stage_many.h"

__extension__ typedef unsigned __int128 wide;

enum { RUN = 64, MOST_WEIGHT = 65536 };

typedef struct sample_source {
  tsr__many many;
  uint64_t seed;
  tsr_sample_end end;
  bool exact;
  int64_t weight[TSR_MAX_SAMPLED];
  uint8_t *chosen; /* by position */
  int64_t *had;    /* [blocks][children] */
  size_t chosen_room, had_room;
} sample_source;

/* The record is as many of its source as were chosen before: a sum of the block's start and of
 * less than RUN bytes. */
static int find_drawn(const tsr__many *many, int64_t at, int64_t *inside)
{
  const sample_source *p = (const sample_source *)many;
  int child = p->chosen[at], children = many->source.child_count;
  int64_t first = at / RUN * RUN, had = p->had[at / RUN * children + child];
  /* A byte a record and eight a block and source, instead of eight a record. */
  for (int64_t i = first; i < at; i++) had += p->chosen[i] == child;
  *inside = p->end == TSR_SAMPLE_RESTART ? had % many->source.children[child]->count : had;
  return child;
}

static void about_sample(const tsr_source *source, tsr__text *out)
{
  static const char *const ends[] = { "", ", all", ", restart" };
  const sample_source *p = (const sample_source *)source;
  for (int i = 0; i < source->child_count; i++)
    tsr__text_add(out, "%s%lld", i ? ":" : "", (long long)p->weight[i]);
  tsr__text_add(out, "%s", ends[p->end]);
  if (p->exact) tsr__text_add(out, ", exact");
  else tsr__text_add(out, ", seed=%llu", (unsigned long long)p->seed);
}

static void release_sample(tsr_source *source)
{
  sample_source *p = (sample_source *)source;
  tsr__heap *heap = &source->node.scope->rt->heap;
  tsr__del(heap, p->chosen, p->chosen_room * sizeof *p->chosen);
  tsr__del(heap, p->had, p->had_room * sizeof *p->had);
}

static const tsr__records_ops sample_ops = { "sample",       tsr__many_read, tsr__many_ids,
                                             about_sample,   release_sample, NULL,
                                             tsr__many_where };

/* Whose turn a position is, of the weights that are left. */
static int draw_source(const sample_source *p, const int64_t *weight, int64_t at)
{
  int64_t total = 0, below = 0;
  int children = p->many.source.child_count, k = 0;
  for (int i = 0; i < children; i++) total += weight[i];
  /* The upper half of a product, as a remainder would prefer small numbers and cost a division. */
  int64_t of = (int64_t)((wide)tsr__mix(p->seed, (uint64_t)at) * (uint64_t)total >> 64);
  while ((below += weight[k]) <= of) k++;
  return k;
}

/* What was dealt in this period, which ends when each source had its weight: sums and products of
 * weights and these stay small, whatever the number of records. */
typedef struct dealt {
  int64_t total, had[TSR_MAX_SAMPLED];
} dealt;

/* The quota method, as mixtures deal (stage_many.c), of the weights that are left. */
static int deal_source(const sample_source *p, const int64_t *weight, dealt *d)
{
  int64_t total = 0;
  int children = p->many.source.child_count, next = -1;
  for (int k = 0; k < children; k++) total += weight[k];
  if (d->total == total) *d = (dealt){ 0 };
  for (int k = 0; k < children; k++) {
    if (d->had[k] * total >= (d->total + 1) * weight[k]) continue; /* ahead of its share, or gone */
    if (next < 0 || (d->had[k] + 1) * weight[next] < (d->had[next] + 1) * weight[k]) next = k;
  }
  d->had[next]++;
  d->total++;
  return next;
}

static bool make_room(sample_source *p, int64_t at)
{
  tsr__heap *heap = &p->many.source.node.scope->rt->heap;
  size_t children = (size_t)p->many.source.child_count, blocks = (size_t)(at / RUN) + 1;
  return tsr__grow(heap, (void **)&p->chosen, &p->chosen_room, (size_t)at + 1, 1) &&
         tsr__grow(heap, (void **)&p->had, &p->had_room, blocks * children, sizeof *p->had);
}

/* Plays positions until it ends, once: where a source ended decides about all that come behind. */
static tsr_status draw_all(sample_source *p, tsr__error *error)
{
  tsr_source *source = &p->many.source;
  int64_t had[TSR_MAX_SAMPLED] = { 0 }, weight[TSR_MAX_SAMPLED], at = 0;
  int children = source->child_count, left = 0;
  dealt period = { 0 };
  tsr__progress progress = { .rt = source->node.scope->rt, .what = "sample" };
  memcpy(weight, p->weight, sizeof weight);
  for (int k = 0; k < children; k++) {
    left += source->children[k]->count > 0;
    if (!source->children[k]->count) weight[k] = 0;
  }
  bool over = p->end == TSR_SAMPLE_ALL ? !left : left < children;
  for (; !over; at++) {
    if (!make_room(p, at))
      return tsr__error_set(error, TSR_ENOMEM, "no memory for the order of %lld records",
                            (long long)at);
    int k = p->exact ? deal_source(p, weight, &period) : draw_source(p, weight, at);
    if (at % RUN == 0) memcpy(p->had + at / RUN * children, had, (size_t)children * sizeof *had);
    p->chosen[at] = (uint8_t)k;
    /* The position that a source was drawn for and cannot fill is the first that is not there. */
    if (p->end == TSR_SAMPLE_FIRST && had[k] == source->children[k]->count) break;
    if (++had[k] == source->children[k]->count) left--;
    if (p->end == TSR_SAMPLE_ALL && had[k] == source->children[k]->count) {
      weight[k] = 0;
      period = (dealt){ 0 }; /* shares are of those that are left, from here on */
    }
    over = p->end != TSR_SAMPLE_FIRST && !left;
    if (at % 65536 == 0 && tsr__progress_stops(&progress, 0))
      return tsr__cancelled(error, "tsr_source_sample");
  }
  source->count = at;
  return TSR_OK;
}

/* How many parts there are, with the error set where that is none. */
static int check_parts(const tsr_sample_args *a, tsr_source **sources, int64_t *weight,
                       tsr__error *error)
{
  int count = 0;
  for (; count < TSR_MAX_SAMPLED && a->parts[count].source; count++) {
    sources[count] = a->parts[count].source;
    weight[count] = a->parts[count].weight;
    if (weight[count] < 1 || weight[count] > MOST_WEIGHT)
      tsr__error_set(error, TSR_EARG, "a weight is %lld, expected 1 to %d",
                     (long long)weight[count], MOST_WEIGHT);
  }
  if (!error->status && (unsigned)a->end > TSR_SAMPLE_RESTART)
    tsr__error_set(error, TSR_EARG, ".end is %d, expected a value of tsr_sample_end", (int)a->end);
  return count;
}

tsr_source *tsr_source_sample_with(const tsr_sample_args *given, const char *site)
{
  const char *call = "tsr_source_sample";
  tsr_sample_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr_source *sources[TSR_MAX_SAMPLED];
  int64_t weight[TSR_MAX_SAMPLED] = { 0 };
  if (!given || !given->parts[0].source) return tsr__records_refused(NULL, site, call, NULL);
  tsr_source *first = given->parts[0].source;
  if (tsr__take_opts(call, given, &args, sizeof args, &error))
    return tsr__stage_refused(first, call, &error, site);
  int count = check_parts(&args, sources, weight, &error);
  if (!tsr__many_check(sources, count, &error))
    return tsr__many_refused(sources, count, call, NULL, site);
  if (!error.status) tsr__many_count(sources, count, &error);
  if (error.status) return tsr__many_refused(sources, count, call, &error, site);
  tsr__records_make make = { call, site,           &sample_ops,         sizeof(sample_source),
                             0,    first->columns, first->column_count, sources,
                             count };
  sample_source *p = (sample_source *)tsr__many_of(sources, &make);
  if (p->many.source.inert) return &p->many.source;
  p->many.find = find_drawn;
  p->seed = args.seed;
  p->end = args.end;
  p->exact = args.exact;
  memcpy(p->weight, weight, sizeof weight);
  if (!draw_all(p, &error)) return &p->many.source;
  return tsr__many_refused(sources, count, call, &error, site);
}
