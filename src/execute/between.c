/* The bytes that a program moves between devices of different kinds: an explanation has a line for
 * each move that does.
 *
 *   move to f32[8]@(x): 16 bytes go from cpu to late, 8 bytes go from late to cpu
 *
 * The pieces are those that the run copies, so that tsr_last_run counts the same bytes. */
#include "execute/engine.h"

typedef struct between {
  const tsr_runtime *rt;
  const tsr__topology *topology;
  const tsr__program *program;
  int node;
  const tsr_sharding *const *from;                 /* by operand */
  int to;                                          /* the kind of the device that receives */
  int64_t bytes[TSR__MOST_KINDS][TSR__MOST_KINDS]; /* from a kind, to a kind */
} between;

static int kind_at(const between *b, const tsr_sharding *sharding, int position)
{
  return tsr__device_kind_of(b->topology, tsr__home_device(b->rt, sharding, position));
}

static void add_piece_between(between *b, const tsr_sharding *from, int position,
                              const tsr_box *box)
{
  const tsr__gnode *g = &b->program->nodes[b->node];
  b->bytes[kind_at(b, from, position)][b->to] +=
      tsr__piece_bytes((tsr_dtype)g->dtype, tsr__rank_of(b->program, g), box);
}

static void add_moved_box(void *user, const tsr__moved_box *piece)
{
  between *b = user;
  add_piece_between(b, b->from[0], piece->position, piece->box);
}

static void add_shifted_box(void *user, const tsr__shift_piece *piece)
{
  between *b = user;
  tsr_box box = { .start = { 0 } };
  memcpy(box.size, piece->size, sizeof box.size);
  add_piece_between(b, b->from[piece->operand], piece->from_position, &box);
}

static void add_crossing_line(const between *b, tsr__text *out)
{
  const tsr__gnode *g = &b->program->nodes[b->node];
  tsr_shape shape = tsr__gnode_shape(g);
  int pairs = 0;
  for (int from = 0; from < b->topology->kind_count; from++)
    for (int to = 0; to < b->topology->kind_count; to++) {
      if (from == to || !b->bytes[from][to]) continue;
      if (!pairs) tsr__text_add(out, "move to ");
      if (!pairs)
        tsr__type_add(out, (tsr_dtype)g->dtype, &shape, &b->program->shardings[g->sharding]);
      tsr__text_add(out, "%s %lld bytes go from %s to %s", pairs++ ? "," : ":",
                    (long long)b->bytes[from][to], b->topology->kinds[from].name,
                    b->topology->kinds[to].name);
    }
  if (pairs) tsr__text_add(out, "\n");
}

static void explain_reshard(between *b, tsr__text *out)
{
  tsr_shape shape;
  const tsr__reshard move = tsr__reshard_of(b->program, b->node, &shape);
  b->from = &move.from;
  for (int p = 0; p < tsr__positions(move.to); p++) {
    b->to = kind_at(b, move.to, p);
    if (tsr__holds(move.to, p)) tsr__reshard_pieces(&move, p, add_moved_box, b);
  }
  add_crossing_line(b, out);
}

/* Without memory for the view there is no line. */
static void explain_shift(between *b, tsr__arena *scratch, tsr__text *out)
{
  tsr__viewed viewed;
  if (!tsr__shift_of(b->program, b->node, scratch, &viewed)) return;
  b->from = viewed.from;
  for (int p = 0; p < tsr__positions(viewed.to); p++) {
    b->to = kind_at(b, viewed.to, p);
    tsr__shift_pieces(&viewed, p, &(tsr__shift_take){ add_shifted_box, b });
  }
  add_crossing_line(b, out);
}

void tsr__explain_between(tsr_scope *scope, const tsr__plan *plan, tsr__text *out)
{
  const tsr__topology *topology = tsr__topology_of(scope->rt);
  const tsr__program *program = &plan->parts.program;
  if (topology->kind_count == 1) return;
  for (int s = 0; s < plan->schedule.step_count; s++) {
    const tsr__step *step = &plan->schedule.steps[s];
    between b = { .rt = scope->rt, .topology = topology, .program = program, .node = step->node };
    if (step->kind == TSR__STEP_SHIFT) explain_shift(&b, &scope->arena, out);
    if (step->kind != TSR__STEP_RESHARD) continue;
    for (int n = step->node; n >= 0; n = tsr__fellow(program, step->node, n)) {
      between one = { .rt = scope->rt, .topology = topology, .program = program, .node = n };
      explain_reshard(&one, out);
    }
  }
}
