/* Records of several sources by turns: `cycle` of them are open at once, each gives `block` records
 * when it is its turn, and the next source takes the place of one that ended.
 *
 *   cycle 2, block 2, of aaaaa bbb cc      a a b b | a a b | a | c c
 *
 * While every open source has a block left, rounds are alike: so the order is a list of runs of
 * rounds, at most two for each source, and a position is found by arithmetic in its run. It is the
 * order of tf.data's interleave, one source read at a time. */
#include "pipeline/stage.h"
#include "pipeline/stage_many.h"

enum { MOST_CYCLE = 256 };

/* What one source gives in each round of a run, from its record `at` on. */
typedef struct lane {
  int source;
  int64_t at, take, before; /* before: records of earlier lanes of the round */
} lane;

typedef struct run {
  int64_t start, each; /* its first position; records in a round */
  size_t first, lanes;
} run;

typedef struct interleave_source {
  tsr__many many;
  run *runs;
  lane *lanes;
  size_t run_count, run_room, lane_count, lane_room;
  int cycle;
  int64_t block;
} interleave_source;

static int find_turn(const tsr__many *many, int64_t at, int64_t *inside)
{
  const interleave_source *t = (const interleave_source *)many;
  size_t low = 0, high = t->run_count - 1;
  while (low < high) {
    size_t middle = low + (high - low + 1) / 2;
    if (t->runs[middle].start <= at) low = middle;
    else high = middle - 1;
  }
  const run *r = &t->runs[low];
  int64_t round = (at - r->start) / r->each, rest = (at - r->start) % r->each;
  const lane *lanes = t->lanes + r->first;
  for (low = 0, high = r->lanes - 1; low < high;) {
    size_t middle = low + (high - low + 1) / 2;
    if (lanes[middle].before <= rest) low = middle;
    else high = middle - 1;
  }
  *inside = lanes[low].at + round * lanes[low].take + rest - lanes[low].before;
  return lanes[low].source;
}

static void about_interleave(const tsr_source *source, tsr__text *out)
{
  const interleave_source *t = (const interleave_source *)source;
  tsr__text_add(out, "cycle=%d, block=%lld", t->cycle, (long long)t->block);
}

static void release_interleave(tsr_source *source)
{
  interleave_source *t = (interleave_source *)source;
  tsr__heap *heap = &source->node.scope->rt->heap;
  tsr__del(heap, t->runs, t->run_room * sizeof *t->runs);
  tsr__del(heap, t->lanes, t->lane_room * sizeof *t->lanes);
}

static const tsr__records_ops interleave_ops = { "interleave",       tsr__many_read,
                                                 tsr__many_ids,      about_interleave,
                                                 release_interleave, NULL,
                                                 tsr__many_where };

/* A place of the cycle. */
typedef struct slot {
  int source; /* -1: none */
  int64_t at, left;
} slot;

/* Adds `rounds` alike, in which each open source gives what it has, `block` at most. */
static tsr_status add_run(interleave_source *t, slot *slots, int64_t rounds, int64_t *position,
                          tsr__error *error)
{
  tsr__heap *heap = &t->many.source.node.scope->rt->heap;
  run next = { *position, 0, t->lane_count, 0 };
  if (!tsr__grow(heap, (void **)&t->runs, &t->run_room, t->run_count + 1, sizeof *t->runs) ||
      !tsr__grow(heap, (void **)&t->lanes, &t->lane_room, t->lane_count + (size_t)t->cycle,
                 sizeof *t->lanes))
    return tsr__error_set(error, TSR_ENOMEM, "no memory for the order of %d sources",
                          t->many.source.child_count);
  for (int k = 0; k < t->cycle; k++) {
    slot *s = &slots[k];
    if (s->source < 0) continue;
    int64_t take = s->left < t->block ? s->left : t->block;
    if (take) t->lanes[t->lane_count++] = (lane){ s->source, s->at, take, next.each };
    next.each += take;
    s->at += rounds * take;
    s->left -= rounds * take;
    if (take < t->block) s->source = -1; /* its end was met */
  }
  next.lanes = t->lane_count - next.first;
  *position += rounds * next.each;
  /* Sources without records open and end within a round of nothing, which no position lies in. */
  if (next.each) t->runs[t->run_count++] = next;
  return TSR_OK;
}

/* Plays the rounds, those that are alike at once. */
static tsr_status play(interleave_source *t, slot *slots, tsr__error *error)
{
  /* At most two runs are added for each source that ends, so this ends after as many turns. */
  int next = 0, open = 0;
  int64_t position = 0;
  for (int k = 0; k < t->cycle; k++) slots[k].source = -1;
  do {
    int64_t rounds = INT64_MAX;
    open = 0;
    for (int k = 0; k < t->cycle; k++) {
      if (slots[k].source < 0 && next < t->many.source.child_count) {
        slots[k] = (slot){ next, 0, t->many.source.children[next]->count };
        next++;
      }
      if (slots[k].source < 0) continue;
      open++;
      if (slots[k].left / t->block < rounds) rounds = slots[k].left / t->block;
    }
    /* The rounds in which all give whole blocks, then the one in which somebody's end is met; with
     * it the places of the cycle change. */
    if (open && rounds) add_run(t, slots, rounds, &position, error);
    if (open && !error->status) add_run(t, slots, 1, &position, error);
  } while (open && !error->status);
  return error->status;
}

tsr_source *tsr_source_interleave_with(tsr_source *const *sources, int count,
                                       const tsr_interleave_args *given, const char *site)
{
  const char *call = "tsr_source_interleave";
  tsr_interleave_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  int64_t all = 0;
  slot slots[MOST_CYCLE];
  if (!tsr__many_check(sources, count, &error))
    return tsr__many_refused(sources, count, call, NULL, site);
  if (!error.status && !tsr__take_opts(call, given, &args, sizeof args, &error)) {
    if (args.cycle < 0 || args.cycle > MOST_CYCLE || args.block < 0)
      tsr__error_set(
          &error, TSR_EARG,
          ".cycle is %d and .block is %lld, expected 1 to %d and 1 or more, or 0 for the default",
          args.cycle, (long long)args.block, MOST_CYCLE);
    else all = tsr__many_count(sources, count, &error);
  }
  if (error.status) return tsr__many_refused(sources, count, call, &error, site);
  tsr__records_make make = { call,
                             site,
                             &interleave_ops,
                             sizeof(interleave_source),
                             all,
                             sources[0]->columns,
                             sources[0]->column_count,
                             sources,
                             count };
  interleave_source *t = (interleave_source *)tsr__many_of(sources, &make);
  if (t->many.source.inert) return &t->many.source;
  t->many.find = find_turn;
  /* Of more sources than can be open at once the others wait, as they would for any cycle. */
  t->cycle = args.cycle ? args.cycle : count < MOST_CYCLE ? count : MOST_CYCLE;
  t->block = args.block ? args.block : 1;
  if (!play(t, slots, &error)) return &t->many.source;
  return tsr__many_refused(sources, count, call, &error, site);
}
