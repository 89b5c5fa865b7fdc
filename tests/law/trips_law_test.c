/* The law of company: programs whose movements travel together take as many bytes and never more
 * steps or collectives than the same with each alone, and have the same bits; whatever a step needs
 * was made by a step before it. Reductions that wait meet in one with others, and no two meetings
 * of a kind could have been one. */
#include <stdio.h>
#include <stdlib.h>

#include "execute/engine.h"
#include "support/law_fixture.h"
#include "support/law_world.h"

static tsr_array *any_of(law_world *w)
{
  return w->made[law_draw(w, w->count > 6 ? w->count - 6 : 0, w->count - 1)];
}

static void give(law_world *w, tsr_array *a)
{
  if (a->inert) FAIL("seed %llu: %s", (unsigned long long)w->seed, tsr_message(w->s));
  w->made[w->count++] = a;
}

static void add_one(law_world *w)
{
  tsr_array *a = any_of(w), *b = any_of(w);
  int rank = a->shape.rank;
  switch (law_draw(w, 0, 11)) {
  case 0: give(w, tsr_neg(a)); break;
  case 1: give(w, tsr_add(a, b)); break;
  case 2: give(w, tsr_sum(a, .dims = TSR_DIMS(0), .keep_dims = true)); break;
  case 3: give(w, tsr_add(a, tsr_sum(b))); break;
  case 4: give(w, tsr_sort(a, (int)law_draw(w, 0, rank - 1))); break;
  case 5: give(w, tsr_roll(a, law_draw(w, -3, 3), (int)law_draw(w, 0, rank - 1))); break;
  case 6: give(w, tsr_cumsum(a, (int)law_draw(w, 0, rank - 1))); break;
  default: give(w, tsr_reshard(a, law_sharding(&w->rng, w->mesh, rank))); break;
  }
}

/* ---- schedules ----------------------------------------------------------------------------- */

typedef struct counts {
  int steps, moves;
} counts;

/* A part is there with the node of which it is one result. */
static void need(const law_world *w, const tsr__program *p, int n, const bool *there)
{
  if (tsr__ops[p->nodes[n].op].lowering == TSR__LOW_PART) n = tsr__in(p, &p->nodes[n], 0);
  if (!there[n])
    FAIL("seed %llu: %%%d is needed before it is made", (unsigned long long)w->seed, n);
}

/* Marks what a step makes, after a look at what it needs. */
static void run_node(const law_world *w, const tsr__program *p, int n, bool *there)
{
  TSR_FOR_OPERANDS (p, &p->nodes[n], i, o) need(w, p, o, there);
  there[n] = true;
}

/* Accumulators are filled by then, or are elements or sums that are kept. */
static void combine(const law_world *w, const tsr__program *p, const tsr__schedule *schedule,
                    const tsr__step *step, bool *there)
{
  const bool *filled = there + p->node_count;
  for (int a = step->first; a < step->first + step->count; a++) {
    const tsr__accum *accum = &schedule->accums[a];
    if (accum->whole || accum->kept) need(w, p, accum->operand, there);
    else if (!filled[a]) FAIL("seed %llu: a sum meets too soon", (unsigned long long)w->seed);
  }
  for (int a = step->first; a < step->first + step->count; a++)
    for (int n = schedule->first_final[a]; n >= 0; n = schedule->next_final[n]) there[n] = true;
}

static counts walk(const law_world *w, const tsr__program *p, const tsr__schedule *schedule)
{
  counts c = { schedule->step_count, 0 };
  bool *there = calloc((size_t)(p->node_count + schedule->accum_count) + 1, sizeof *there);
  for (int n = 0; n < p->node_count; n++)
    there[n] = tsr__ops[p->nodes[n].op].lowering == TSR__LOW_LEAF;
  for (int s = 0; s < schedule->step_count; s++) {
    const tsr__step *step = &schedule->steps[s];
    const tsr__kernel_io *io = step->kernel ? tsr__kernel_io_of(step->kernel) : NULL;
    for (int i = 0; io && i < io->input_count; i++) need(w, p, io->inputs[i], there);
    for (int i = 0; io && i < io->output_count; i++) there[io->outputs[i]] = true;
    for (int i = 0; io && i < io->accum_count; i++) there[p->node_count + io->accums[i]] = true;
    if (step->kind == TSR__STEP_ALL_REDUCE) combine(w, p, schedule, step, there);
    bool moves = step->kind == TSR__STEP_RESHARD || step->kind == TSR__STEP_SHIFT;
    c.moves += moves;
    for (int n = moves ? step->node : -1; n >= 0; n = tsr__fellow(p, step->node, n))
      run_node(w, p, n, there);
    if (step->kind == TSR__STEP_ROUTINE) run_node(w, p, step->node, there);
  }
  free(there);
  return c;
}

static counts scheduled(const law_world *w, const tsr__program *program)
{
  tsr__schedule schedule;
  tsr__error error = { .status = TSR_OK };
  if (tsr__fuse(program, program->heap, &schedule, &error)) FAIL("%s", error.text);
  counts c = walk(w, program, &schedule);
  tsr__schedule_free(&schedule);
  return c;
}

/* How many moved together at all: a law that looks at none shows nothing. */
static int64_t saved, waited;

static bool one_kind(const tsr__program *p, const tsr__gnode *a, const tsr__gnode *b)
{
  bool reduce = tsr__ops[a->op].lowering == TSR__LOW_REDUCE && a->reduce_axes &&
                tsr__ops[b->op].lowering == TSR__LOW_REDUCE;
  return reduce && a->reduce_axes == b->reduce_axes && tsr__scattered_alike(p, a, b) &&
         p->shardings[a->sharding].mesh == p->shardings[b->sharding].mesh;
}

/* The last stage in which a reduction can meet: kernels read what met before, steps what met by
 * then. */
static int last_stage(const tsr__program *p, const int *stage, int n)
{
  int last = 1 << 30;
  for (int u = 0; u < p->node_count; u++) {
    bool step = !tsr__in_kernel(p, u) && tsr__ops[p->nodes[u].op].lowering != TSR__LOW_REDUCE;
    TSR_FOR_OPERANDS (p, &p->nodes[u], i, o)
      if (o == n && stage[u] - !step < last) last = stage[u] - !step;
  }
  return last;
}

/* Pairs of a kind whose meetings are apart: some reduction that meets with the first cannot wait
 * for the second. One note for each meeting. */
static void check_meetings(const law_world *w, const tsr__partitioned *parts)
{
  const tsr__program *p = &parts->program;
  int *stage = calloc(2 * (size_t)p->node_count + 1, sizeof *stage), *meets = stage + p->node_count;
  int meetings = 0, notes = 0;
  tsr__stages(p, stage);
  tsr__meeting_stages(p, stage, meets);
  for (int a = 0; a < p->node_count; a++) {
    bool first = p->nodes[a].reduce_axes && tsr__ops[p->nodes[a].op].lowering == TSR__LOW_REDUCE;
    if (!first) continue;
    if (meets[a] > last_stage(p, stage, a) || meets[a] < stage[a])
      FAIL("seed %llu: %%%d meets at a wrong time", (unsigned long long)w->seed, a);
    waited += meets[a] > stage[a];
    for (int b = 0; b < p->node_count; b++) {
      if (!one_kind(p, &p->nodes[a], &p->nodes[b])) continue;
      first = first && (b >= a || meets[a] != meets[b]);
      if (meets[a] >= meets[b]) continue;
      bool bound = false;
      for (int c = 0; c < p->node_count && !bound; c++)
        bound = one_kind(p, &p->nodes[a], &p->nodes[c]) && meets[c] == meets[a] &&
                last_stage(p, stage, c) < meets[b];
      if (!bound) FAIL("seed %llu: %%%d could wait", (unsigned long long)w->seed, a);
    }
    meetings += first;
  }
  for (int i = 0; i < parts->note_count; i++) notes += parts->notes[i].cause == TSR__CAUSE_REDUCED;
  CHECK_I64(notes, meetings);
  free(stage);
}

static void check_counts(law_world *w)
{
  tsr__program traced;
  tsr__partitioned parts;
  tsr__error error = { .status = TSR_OK };
  tsr__program_init(&traced, &w->s->rt->heap);
  if (tsr__program_trace(&traced, w->made, w->count, &error)) FAIL("%s", error.text);
  if (tsr__partition(&traced, &w->s->rt->heap, &parts, &error)) FAIL("%s", error.text);
  counts together = scheduled(w, &parts.program);
  check_meetings(w, &parts);
  for (int i = 0; i < parts.note_count; i++) {
    const tsr__note *note = &parts.notes[i], *lead = &parts.notes[note->lead];
    CHECK(note->lead <= i && lead->lead == note->lead && (note->next < 0 || note->next > i));
    CHECK(lead->move == note->move && lead->axes == note->axes && lead->mesh == note->mesh);
  }
  for (int n = 0; n < parts.program.node_count; n++) parts.program.nodes[n].with = 0;
  counts alone = scheduled(w, &parts.program);
  CHECK(together.steps <= alone.steps && together.moves <= alone.moves);
  CHECK_I64(alone.steps - together.steps, alone.moves - together.moves);
  saved += alone.moves - together.moves;
  tsr__partitioned_free(&parts, &w->s->rt->heap);
  tsr__program_free(&traced);
}

static void trial(uint64_t seed)
{
  law_world w = { .rng = test_seeded(seed), .seed = seed };
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  w.s = tsr_scope_open(rt);
  w.mesh = tsr_mesh_make(rt, law_meshes[law_draw(&w, 0, LAW_MESHES - 1)]);
  tsr_shape shape = law_shape(&w, 1, 3);
  for (int i = 0; i < 4; i++) give(&w, law_leaf(&w, TSR_I64, shape, 50));
  int64_t count = law_draw(&w, 8, 40);
  while (w.count < count) add_one(&w);
  check_counts(&w);
  law_check(&w);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(company_costs_nothing, 300)
{
  law_each_seed(1, test_quick() ? 500 : 5000, trial);
  if ((saved <= 100 || waited <= 5) && !getenv("LAW_SEED"))
    FAIL("%lld steps saved, %lld reductions waited", (long long)saved, (long long)waited);
}
