/* Views whose elements lie on other devices: the pieces that each device copies, their sources, and
 * the bytes that cross.
 *
 *   y = x[1:]   x is cut in 3:   [a b c][d e f][g h]
 *               y is cut in 3:   [b c d][e f g][h]
 *   pieces of y's second part:   e f of the own device, g of the next one
 *
 * An element that a device wants and does not hold crosses once; of several holders the lowest
 * gives it. A reshape moves ranges of folds (graph.h), any other view the elements that an affine
 * map shows, or, of picks, one map for each stretch of them. The planner counts bytes and the
 * executor copies by this one rule. */
#include "partition/flow.h"

/* A range of indices; empty where end <= start. */
typedef struct range {
  int64_t start, end;
} range;

static range intersect_ranges(range a, range b)
{
  return (range){ a.start > b.start ? a.start : b.start, a.end < b.end ? a.end : b.end };
}

static range range_of_span(tsr__span span)
{
  return (range){ span.start, span.start + span.length };
}

/* a / b rounded up, b > 0. Division rounds towards zero, so the quotient of a negative `a` is
 * rounded up already. */
static int64_t up(int64_t a, int64_t b)
{
  return a / b + (a % b > 0);
}

/* The indices i for which start + step * i lies in a range.
 *
 *   y = x[8:0:-2]   start 8, step -2     of x in [3, 7):  8 - 2 i  is 6 or 4:  i in [1, 3) */
static range indices_shown(const tsr__viewdim *dim, range in)
{
  if (dim->step > 0)
    return (range){ up(in.start - dim->start, dim->step), up(in.end - dim->start, dim->step) };
  return (range){ up(dim->start - in.end + 1, -dim->step),
                  up(dim->start - in.start + 1, -dim->step) };
}

/* One operand as a position reads it; the dims of a reshape are its folds. */
typedef struct look {
  const tsr__viewed *v;
  const tsr__gnode *in;
  const tsr_sharding *from;
  tsr__viewing view;
  int operand, rank;
  tsr__fold folds[TSR_MAX_RANK];
  range own[TSR_MAX_RANK];  /* the range of the result that the position holds */
  range want[TSR_MAX_RANK]; /* the part of `own` that this operand shows */
  int64_t next;             /* the next stretch of picks may begin there */
} look;

/* The range of dim or fold k that `position` of the operand's place holds. */
static range held_range(const look *l, int k, int position)
{
  const tsr__fold *fold = &l->folds[k];
  if (!l->view.linear) return range_of_span(tsr__dim_span(l->from, k, l->in->dims[k], position));
  return range_of_span(tsr__fold_span(l->from, &fold->from, fold->size, position));
}

static void start_look(look *l, const tsr__viewed *v, int i)
{
  l->v = v;
  l->operand = i;
  l->in = &v->program->nodes[tsr__in(v->program, v->node, i)];
  l->from = v->from[i];
  l->view = tsr__view_of(v->program, v->node, i);
  l->rank = v->node->rank;
  if (!l->view.linear) return;
  l->rank = tsr__folds_of(l->in, v->node, l->folds);
  for (int k = 0; k < l->rank; k++) l->view.dims[k] = (tsr__viewdim){ .dim = k, .step = 1 };
}

/* Whether the position wants elements of the operand. Each operand of a concat or pad shows a
 * stretch of the result only, low to high. */
static bool look_from(look *l, int position)
{
  const tsr__viewed *v = l->v;
  bool any = true;
  for (int d = 0; d < l->rank; d++) {
    const tsr__fold *fold = &l->folds[d];
    tsr__span span = l->view.linear ? tsr__fold_span(v->to, &fold->to, fold->size, position)
                                    : tsr__dim_span(v->to, d, v->node->dims[d], position);
    l->own[d] = range_of_span(span);
    l->want[d] = l->own[d];
    if (!l->view.linear)
      l->want[d] = intersect_ranges(l->own[d], (range){ l->view.low[d], l->view.high[d] });
    any = any && l->want[d].start < l->want[d].end;
  }
  l->next = l->view.picks ? l->own[l->view.picked].start : 0;
  return any;
}

/* Looks at the next stretch of the wanted ranges that one affine map shows; false: no more. A view
 * without picks has one.
 *
 *   picks   5 6 - 0       stretches   0..1 at index + 5,  3 at index - 3 */
static bool look_on(look *l)
{
  int d = l->view.picked;
  const int32_t *picks = l->view.picks;
  if (!picks) return !l->next++;
  int64_t at = l->next, end = l->own[d].end;
  while (at < end && picks[at] < 0) at++;
  if (at == end) return false;
  for (l->next = at + 1; l->next < end && picks[l->next] == picks[l->next - 1] + 1;) l->next++;
  l->view.dims[d].start = picks[at] - at;
  l->want[d] = (range){ at, l->next };
  return true;
}

/* Whether the first operand, which overwrites the others, shows all that the position holds. Then a
 * later operand would be hidden: it does not move. */
static bool lies_under(const look *l)
{
  tsr__viewing over = tsr__view_of(l->v->program, l->v->node, 0);
  if (!l->operand) return false;
  for (int d = 0; d < l->rank; d++)
    if (l->own[d].start < over.low[d] || l->own[d].end > over.high[d]) return false;
  const range *picked = &l->own[over.picked];
  for (int64_t i = picked->start; over.picks && i < picked->end; i++)
    if (over.picks[i] < 0) return false;
  return true;
}

/* The wanted ranges that a position of the operand's place holds; false: an empty range. Every
 * position has repeated dims (step 0) whole. */
static bool position_has_range(const look *l, int position, range out[TSR_MAX_RANK])
{
  int rank = l->view.linear ? l->rank : l->in->rank;
  memcpy(out, l->want, sizeof l->want);
  for (int k = 0; k < rank; k++) {
    const tsr__viewdim *dim = &l->view.dims[k];
    if (!dim->step) continue;
    range *part = &out[dim->dim];
    *part = intersect_ranges(*part, indices_shown(dim, held_range(l, k, position)));
    if (part->start >= part->end) return false;
  }
  return true;
}

static int64_t count_range_elements(const range *part, int rank)
{
  int64_t count = 1;
  for (int d = 0; d < rank; d++) count *= part[d].end - part[d].start;
  return count;
}

/* Gives one piece, in coordinates of the two shards, not of the arrays: the copy knows neither
 * place. A dim of the result that the operand lacks keeps a size of 1 and a step of 0. */
static void give_shift_piece(const look *l, int position, const range *part,
                             const tsr__shift_take *take)
{
  tsr__shift_piece piece = { .operand = l->operand, .from_position = position, .rank = l->rank };
  int rank = l->view.linear ? l->rank : l->in->rank;
  for (int d = 0; d < l->rank; d++) {
    piece.from_dims[d] = 1;
    piece.to_dims[d] = l->own[d].end - l->own[d].start;
    piece.to_start[d] = part[d].start - l->own[d].start;
    piece.size[d] = part[d].end - part[d].start;
  }
  for (int k = 0; k < rank; k++) {
    const tsr__viewdim *dim = &l->view.dims[k];
    if (!dim->step) continue;
    int d = dim->dim;
    range have = held_range(l, k, position);
    /* Two neighbours that are read along one dim are one: all steps in the first are rows of the
     * second. */
    int64_t row = dim->again ? have.end - have.start : 0;
    piece.from_dims[d] = row ? piece.from_dims[d] * row : have.end - have.start;
    piece.from_start[d] =
        piece.from_start[d] * row + dim->start + dim->step * part[d].start - have.start;
    piece.from_step[d] = piece.from_step[d] * row + dim->step;
  }
  take->fn(take->user, &piece);
}

/* Parts first .. last of a walked dim of the operand. */
typedef struct part_range {
  int64_t first, last;
} part_range;

/* The parts of an operand along walked dim k: those of a dim, or of a fold, whose parts along its
 * next dim follow each other within each part of the major one. */
static int64_t next_parts(const look *l, int k)
{
  int next = l->view.linear ? l->folds[k].from.next : -1;
  return next < 0 ? 1 : tsr__dim_parts(l->from, next);
}

static int64_t count_walked_parts(const look *l, int k)
{
  int d = l->view.linear ? l->folds[k].from.dim : k;
  return tsr__dim_parts(l->from, d) * next_parts(l, k);
}

/* The number of the part that has an index along walked dim k. */
static int64_t part_with(const look *l, int k, int64_t index)
{
  const tsr__fold *fold = &l->folds[k];
  const tsr__fold_side *side = &fold->from;
  if (!l->view.linear) return tsr__part_with(l->from, k, l->in->dims[k], index);
  int64_t part = tsr__part_with(l->from, side->dim, fold->size / side->inner, index / side->inner);
  if (next_parts(l, k) == 1) return part;
  return part * next_parts(l, k) + tsr__part_with(l->from, side->next,
                                                  side->inner / side->next_inner,
                                                  index % side->inner / side->next_inner);
}

/* The offset of the position of a part. */
static int part_offset(const look *l, int k, int64_t part)
{
  int64_t parts = next_parts(l, k);
  if (!l->view.linear) return tsr__part_offset(l->from, k, part);
  int offset = tsr__part_offset(l->from, l->folds[k].from.dim, part / parts);
  if (parts == 1) return offset;
  return offset + tsr__part_offset(l->from, l->folds[k].from.next, part % parts);
}

/* The parts of walked dim k that may show wanted elements: those with the first and the last index
 * shown, and all between; of a repeated dim, all parts. */
static part_range parts_shown(const look *l, int k)
{
  const tsr__viewdim *dim = &l->view.dims[k];
  int64_t size = l->view.linear ? l->folds[k].size : l->in->dims[k];
  if (!dim->step) return (part_range){ 0, count_walked_parts(l, k) - 1 };
  int64_t one = dim->start + dim->step * l->want[dim->dim].start;
  int64_t other = dim->start + dim->step * (l->want[dim->dim].end - 1);
  int64_t low = one < other ? one : other, high = one < other ? other : one;
  TSR_INVARIANT(low >= 0 && high < size); /* an operand is wanted where it shows something */
  return (part_range){ part_with(l, k, low), part_with(l, k, high) };
}

/* Gives the pieces of the parts in a range of each walked dim. A leader is the sum of the offsets
 * of its parts: no other dim moves a position, and along free axes the leader is the first. */
static void give_parts(const look *l, const part_range *parts, int own, const tsr__shift_take *take)
{
  int rank = l->view.linear ? l->rank : l->in->rank, leader = tsr__replica_leader(l->from, own);
  int64_t at[TSR_MAX_RANK];
  range part[TSR_MAX_RANK];
  for (int k = 0; k < rank; k++) at[k] = parts[k].first;
  for (int k = 0; k >= 0;) {
    int p = 0;
    for (k = 0; k < rank; k++) p += part_offset(l, k, at[k]);
    if (position_has_range(l, p, part)) give_shift_piece(l, p == leader ? own : p, part, take);
    for (k = rank - 1; k >= 0 && ++at[k] > parts[k].last; k--) at[k] = parts[k].first;
  }
}

/* Gives all pieces of an operand for a position, from the own device if that holds them all. An
 * operand without a mesh has one position, 0, which stands for the first device of each process. */
static void give_all(const look *l, int to_position, const tsr__shift_take *take)
{
  range part[TSR_MAX_RANK];
  part_range parts[TSR_MAX_RANK];
  int rank = l->view.linear ? l->rank : l->in->rank;
  int own = to_position < tsr__positions(l->from) ? to_position : 0;
  if (position_has_range(l, own, part) &&
      count_range_elements(part, l->rank) == count_range_elements(l->want, l->rank)) {
    give_shift_piece(l, own, part, take);
    return;
  }
  for (int k = 0; k < rank; k++) parts[k] = parts_shown(l, k);
  give_parts(l, parts, own, take);
}

void tsr__shift_pieces(const tsr__viewed *viewed, int to_position, const tsr__shift_take *take)
{
  look l;
  if (!tsr__holds(viewed->to, to_position)) return; /* zeros need no copy */
  for (int i = viewed->node->in_count - 1; i >= 0; i--) {
    start_look(&l, viewed, i);
    if (!look_from(&l, to_position) || lies_under(&l)) continue;
    while (look_on(&l)) give_all(&l, to_position, take);
  }
}

/* ---- bytes ----------------------------------------------------------------------------------- */

typedef struct tally {
  const tsr__viewed *v;
  int device;
  int64_t bytes;
} tally;

static void add_piece_bytes(void *user, const tsr__shift_piece *piece)
{
  tally *t = user;
  tsr_box box = { .start = { 0 } };
  memcpy(box.size, piece->size, sizeof box.size);
  const tsr_sharding *from = t->v->from[piece->operand];
  int device = from->mesh ? tsr__position_device(from, piece->from_position)
                          : tsr__first_beside(t->v->to->mesh, t->device);
  if (device != t->device)
    t->bytes += tsr__piece_bytes((tsr_dtype)t->v->node->dtype, piece->rank, &box);
}

int64_t tsr__shift_bytes(const tsr__viewed *viewed)
{
  tally t = { .v = viewed };
  for (int p = 0; p < tsr__positions(viewed->to); p++) {
    t.device = tsr__position_device(viewed->to, p);
    tsr__shift_pieces(viewed, p, &(tsr__shift_take){ add_piece_bytes, &t });
  }
  return t.bytes;
}

/* Elements of an operand that a position wants and does not hold. */
static int64_t count_lacking_elements(look *l, int position)
{
  range part[TSR_MAX_RANK];
  int64_t count = 0;
  if (!look_from(l, position) || lies_under(l)) return 0;
  while (look_on(l)) {
    count += count_range_elements(l->want, l->rank);
    if (position_has_range(l, position, part)) count -= count_range_elements(part, l->rank);
  }
  return count;
}

/* A position whose pieces are counted along the axes that they cross. */
typedef struct arriving {
  const tsr__viewed *v;
  tsr__crossed *crossed;
  int device;
  int64_t times;
} arriving;

/* A piece names the lowest position that holds it; tsr__crossed_add finds the nearest replica. */
static void add_piece_along(void *user, const tsr__shift_piece *piece)
{
  arriving *a = user;
  tsr_box box = { .start = { 0 } };
  memcpy(box.size, piece->size, sizeof box.size);
  int64_t bytes = tsr__piece_bytes((tsr_dtype)a->v->node->dtype, piece->rank, &box) * a->times;
  tsr__crossed_add(a->crossed, &(tsr__sent){ a->v->from[piece->operand], piece->from_position,
                                             a->device, bytes });
}

/* Counts at most 64 positions, evenly spaced, each of which stands for its neighbours: all
 * positions want about as much, except those at the ends. */
tsr__crossed tsr__shift_crosses(const tsr__viewed *viewed)
{
  enum { LOOKED_AT = 64 };
  int positions = tsr__positions(viewed->to), step = (positions + LOOKED_AT - 1) / LOOKED_AT;
  tsr__crossed crossed = { .mesh = viewed->to->mesh };
  look l;
  if (!tsr__view_moves(viewed)) return crossed;
  TSR_FOR_OPERANDS (viewed->program, viewed->node, i, o) {
    if (!viewed->program->nodes[o].rank) continue; /* a number is everywhere */
    start_look(&l, viewed, i);
    for (int p = 0; p < positions; p += step) {
      if (!tsr__holds(viewed->to, p)) continue;
      crossed.bytes +=
          tsr__elements_bytes((tsr_dtype)viewed->node->dtype, count_lacking_elements(&l, p));
    }
  }
  for (int p = 0; p < positions && tsr__mesh_has_speeds(crossed.mesh); p += step) {
    arriving at = { viewed, &crossed, tsr__position_device(viewed->to, p), step };
    tsr__shift_pieces(viewed, p, &(tsr__shift_take){ add_piece_along, &at });
  }
  crossed.bytes *= step;
  return crossed;
}

/* ---- nodes of a program
 * ---------------------------------------------------------------------------- */

bool tsr__shift_of(const tsr__program *program, int node, tsr__arena *arena, tsr__viewed *out)
{
  const tsr__gnode *g = &program->nodes[node];
  const tsr_sharding **from = tsr__arena_new(arena, ((size_t)g->in_count + 1) * sizeof *from);
  if (!from) return false;
  TSR_FOR_OPERANDS (program, g, i, o) from[i] = &program->shardings[program->nodes[o].sharding];
  *out = (tsr__viewed){ program, g, &program->shardings[g->sharding], from };
  return true;
}
