/* What must hold of any partitioned program, checked from the boxes of every device; and who must
 * send what to whom in a reshard, element by element. Neither uses the planner's own helpers. */
#ifndef TESTS_SUPPORT_PARTITION_CHECK_H
#define TESTS_SUPPORT_PARTITION_CHECK_H

#include <stdlib.h>

#include "partition/partition.h"
#include "support/leaf_fixture.h"

static inline const tsr_sharding *check_place(const tsr__program *p, int n)
{
  return &p->shardings[p->nodes[n].sharding];
}

/* Where a node is computed: a scattered reduction's result is cut further, by what its partials
 * meet over. */
static inline tsr_sharding check_computed_place(const tsr__program *p, int n)
{
  const tsr_sharding *at = check_place(p, n);
  tsr_sharding out = *at;
  int used = 0;
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    for (int i = at->first[d]; i < at->first[d + 1]; i++)
      if (!(p->nodes[n].reduce_axes >> at->axis[i] & 1)) out.axis[used++] = at->axis[i];
    out.first[d + 1] = (uint8_t)used;
  }
  return out;
}

/* The part of dim `d` of node `n`, if it had `size` elements, at a position. */
static inline void check_part(const tsr__program *p, int n, int d, int64_t size, int position,
                              int64_t part[2])
{
  tsr__dim_part(check_place(p, n), d, size, position, &part[0], &part[1]);
}

/* Operands lie at the same positions on the same devices as the result (or, for reductions, as
 * operand 0), cut alike along every dim they share; dims that broadcast are whole. */
static inline void check_alignment(const tsr__program *p, int n)
{
  const tsr__gnode *g = &p->nodes[n];
  tsr__factors factors;
  if (g->op == TSR__OP_RESHARD || tsr__ops[g->op].most == 0) return;
  tsr__factors_of(p, n, &factors);
  int8_t first_map[TSR_MAX_RANK], map[TSR_MAX_RANK];
  tsr__factors_in(&factors, 0, first_map);
  for (int i = 0; i < g->in_count; i++) {
    int in = tsr__in(p, g, i);
    tsr__factors_in(&factors, i, map);
    if (in < 0 || p->nodes[in].op == TSR__OP_CONST) continue;
    int positions = tsr__positions(check_place(p, n));
    CHECK_I64(tsr__positions(check_place(p, in)), positions);
    for (int position = 0; position < positions; position++) {
      CHECK_I64(tsr__position_device(check_place(p, in), position),
                tsr__position_device(check_place(p, n), position));
      for (int d = 0; d < p->nodes[in].rank; d++) {
        int f = map[d], at = -1, first = -1;
        bool apart = false; /* cut in the result after another dim, if at all */
        for (int k = 0; k < g->rank && f >= 0; k++) apart |= factors.further[k].factor == f;
        apart |= !i && factors.further_in[d].factor >= 0;
        if (apart) continue;
        if (f >= 0 && factors.kind[f] == TSR__FACTOR_MEET) {
          unsigned cut = p->nodes[in].dims[d] ? tsr__dim_axes(check_place(p, in), d) : 0;
          CHECK(!(cut & ~(unsigned)g->reduce_axes));
          continue;
        }
        for (int k = 0; k < g->rank && f >= 0; k++)
          if (factors.out[k] == f) at = k;
        for (int k = 0; k < p->nodes[tsr__in(p, g, 0)].rank && f >= 0; k++)
          if (first_map[k] == f) first = k;
        /* Of rows whose number is not known any number shows how they are cut. */
        int64_t size = p->nodes[in].dims[d] < 0 ? 1000 : p->nodes[in].dims[d];
        int64_t mine[2], other[2] = { 0, size };
        check_part(p, in, d, size, position, mine);
        tsr_sharding computed = check_computed_place(p, n);
        if (at >= 0) tsr__dim_part(&computed, at, size, position, &other[0], &other[1]);
        else if (f >= 0 && factors.kind[f] == TSR__FACTOR_REDUCE)
          check_part(p, tsr__in(p, g, 0), first, size, position, other);
        CHECK_I64(mine[0], other[0]);
        CHECK_I64(mine[1], other[1]);
      }
    }
  }
}

/* Whether a node is accumulators that meet. */
static inline bool check_meets(const tsr__program *p, int n)
{
  int in = tsr__in(p, &p->nodes[n], 0);
  return p->nodes[n].op == TSR__OP_SUM && p->nodes[in].flags & TSR__KEPT;
}

/* Positions whose partials meet, or are kept, cover the reduced dims exactly once: counted in
 * elements. */
static inline void check_reduction(const tsr__program *p, int n)
{
  const tsr__gnode *g = &p->nodes[n];
  const tsr_sharding *at = check_place(p, n);
  if (tsr__ops[g->op].lowering != TSR__LOW_REDUCE) return;
  int in = tsr__in(p, g, 0);
  const tsr__gnode *x = &p->nodes[in];
  unsigned axes = g->flags & TSR__KEPT ? at->unreduced : g->reduce_axes;
  if (check_meets(p, n)) {
    CHECK_I64(g->reduce_axes, check_place(p, in)->unreduced);
    return;
  }
  uint32_t dims = tsr__reduce_of(p, g)->dims;
  int64_t expected = 1, found = 0, share[2];
  for (int d = 0; d < x->rank; d++) {
    if (x->dims[d] < 0) return;
    if (dims >> d & 1) expected *= x->dims[d];
  }
  for (int q = 0; q < tsr__positions(at); q++) {
    bool with_first = true;
    for (int a = 0; at->mesh && a < at->mesh->axis_count; a++)
      with_first &= axes >> a & 1 || tsr__mesh_coord(at->mesh, q, a) == 0;
    if (!with_first) continue;
    int64_t count = 1;
    for (int d = 0; d < x->rank; d++) {
      if (!(dims >> d & 1)) continue;
      check_part(p, in, d, x->dims[d], q, share);
      count *= share[1];
    }
    found += count;
  }
  CHECK_I64(found, expected);
}

static inline void check_partitioned(const tsr__program *traced, const tsr__partitioned *parts)
{
  const tsr__program *p = &parts->program;
  tsr__error error = { .status = TSR_OK };
  if (tsr__program_verify(p, &error)) FAIL("verify: %s", error.text);
  CHECK_I64(parts->home_count, traced->node_count);
  for (int n = 0; n < p->node_count; n++) {
    check_alignment(p, n);
    check_reduction(p, n);
    int origin = parts->origin[n];
    CHECK(origin < traced->node_count);
    bool scales = tsr__ops[p->nodes[n].op].scales;
    if (origin < 0) CHECK(p->nodes[n].op == TSR__OP_RESHARD || check_meets(p, n) || scales);
    CHECK(p->nodes[n].op != TSR__OP_CONSTRAIN && !tsr__ops[p->nodes[n].op].follows);
  }
  for (int n = 0; n < traced->node_count; n++) {
    int home = parts->home[n];
    CHECK(home < p->node_count);
    /* It is only followed, and by nobody read. */
    if (home < 0) CHECK(!(traced->nodes[n].flags & TSR__ROOT));
    if (home < 0) continue;
    CHECK_I64(p->nodes[home].dtype, traced->nodes[n].dtype);
    CHECK_BYTES(p->nodes[home].dims, traced->nodes[n].dims, sizeof p->nodes[home].dims);
    if (traced->nodes[n].flags & TSR__ROOT) CHECK(p->nodes[home].flags & TSR__ROOT);
  }
}

/* ---- reshards, element by element ---- */

typedef struct piece_map {
  const tsr_shape *shape;
  int64_t *source; /* by element: position it comes from, -1 = not covered, -2 = twice */
  int calls;
} piece_map;

static inline int64_t check_element(const tsr_shape *shape, const int64_t at[TSR_MAX_RANK])
{
  int64_t index = 0;
  for (int d = 0; d < shape->rank; d++) index = index * shape->dims[d] + at[d];
  return index;
}

static inline bool check_inside(const tsr_box *box, int rank, const int64_t at[TSR_MAX_RANK])
{
  for (int d = 0; d < rank; d++)
    if (at[d] < box->start[d] || at[d] >= box->start[d] + box->size[d]) return false;
  return true;
}

/* Steps `at` through a box in C order; false past the end. */
static inline bool check_next(const tsr_box *box, int rank, int64_t at[TSR_MAX_RANK])
{
  for (int d = rank - 1; d >= 0; d--) {
    if (++at[d] < box->start[d] + box->size[d]) return true;
    at[d] = box->start[d];
  }
  return false;
}

static inline void check_piece(void *user, const tsr__moved_box *piece)
{
  const tsr_box *box = piece->box;
  piece_map *map = user;
  int64_t at[TSR_MAX_RANK];
  memcpy(at, box->start, sizeof at);
  map->calls++;
  do {
    int64_t *source = &map->source[check_element(map->shape, at)];
    *source = *source == -1 ? piece->position : -2;
  } while (check_next(box, map->shape->rank, at));
}

/* A position's box by the public function, which does not take the canonical rank. */
static inline tsr_box check_box(const tsr_sharding *sharding, const tsr_shape *shape, int position)
{
  tsr_sharding fitting = *sharding;
  tsr_box box;
  fitting.rank = (uint8_t)shape->rank;
  CHECK_I64(tsr_shard_box(&fitting, *shape, position, &box), TSR_OK);
  return box;
}

/* The position that a piece grid reads an element of the array from, whose place in the target part
 * is `place`; -1: no piece has it. `part` is where it lies in the part that is read. */
static inline int check_grid(const tsr__piece_grid *grid, const int64_t place[TSR_MAX_RANK],
                             int64_t part[TSR_MAX_RANK])
{
  int position = 0;
  for (int d = 0; d < grid->rank; d++) {
    int met = 0;
    for (int i = 0; i < grid->counts[d]; i++) {
      const tsr__overlap *o = &grid->overlaps[d][i];
      if (place[d] < o->to_start || place[d] >= o->to_start + o->size) continue;
      CHECK(!met++);
      position += o->offset;
      part[d] = o->from_start + place[d] - o->to_start;
      CHECK(part[d] >= 0 && part[d] < o->part_size);
    }
    if (!met) return -1;
  }
  return position == grid->leader ? grid->own : position;
}

/* The position of `from` that an element of a target position should come from: that of its own
 * device, else the lowest; -1: no position has it. */
static inline int check_source(const tsr_sharding *from, const tsr_shape *shape, int device,
                               const int64_t at[TSR_MAX_RANK])
{
  int found = -1;
  for (int p = tsr__positions(from) - 1; p >= 0; p--) {
    tsr_box part = check_box(from, shape, p);
    if (!tsr__holds(from, p) || !check_inside(&part, shape->rank, at)) continue;
    if (tsr__position_device(from, p) == device) return p;
    found = p;
  }
  return found;
}

/* Where an element lies in the part of the position that it comes from, by the lists dim by dim. */
static inline void check_listed(const tsr__reshard *move, const tsr__piece_grid *grid,
                                const tsr_box *want, const int64_t at[TSR_MAX_RANK], int source)
{
  int64_t place[TSR_MAX_RANK], part[TSR_MAX_RANK];
  for (int d = 0; d < move->shape->rank; d++) place[d] = at[d] - want->start[d];
  CHECK_I64(check_grid(grid, place, part), source);
  tsr_box box = check_box(move->from, move->shape, source);
  for (int d = 0; d < move->shape->rank; d++) {
    CHECK_I64(box.start[d] + part[d], at[d]);
    for (int i = 0; i < grid->counts[d]; i++) {
      const tsr__overlap *o = &grid->overlaps[d][i];
      bool here = place[d] >= o->to_start && place[d] < o->to_start + o->size;
      if (here) CHECK_I64(o->part_size, box.size[d]);
    }
  }
}

/* Checks the pieces that a position takes, and counts the elements that come from other devices. */
static inline int64_t check_taken(const tsr__reshard *move, const tsr__overlaps *lists, int q,
                                  int64_t *source)
{
  const tsr_shape *shape = move->shape;
  int64_t count = tsr__shape_count(shape), crossing = 0, at[TSR_MAX_RANK] = { 0 };
  tsr_box want = check_box(move->to, shape, q);
  int device = tsr__position_device(move->to, q);
  tsr__piece_grid grid;
  bool takes = tsr__overlaps_at(move, lists, q, &grid);
  CHECK_I64(takes, tsr__holds(move->to, q));
  for (int64_t e = 0; e < count; e++) source[e] = -1;
  tsr__reshard_pieces(move, q, check_piece, &(piece_map){ shape, source, 0 });
  for (int64_t e = 0; e < count; e++) {
    int64_t rest = e;
    for (int d = shape->rank - 1; d >= 0; d--) {
      at[d] = rest % shape->dims[d];
      rest /= shape->dims[d];
    }
    bool wanted = takes && check_inside(&want, shape->rank, at);
    int expected = wanted ? check_source(move->from, shape, device, at) : -1;
    CHECK_I64(source[e], expected);
    if (!wanted) continue;
    check_listed(move, &grid, &want, at, expected);
    crossing += tsr__position_device(move->from, expected) != device;
  }
  return crossing;
}

/* Checks the pieces of a reshard and returns how many elements cross devices. */
static inline int64_t check_reshard(const tsr_sharding *from, const tsr_sharding *to,
                                    const tsr_shape *shape)
{
  tsr__reshard move = { from, to, shape, NULL, 0 };
  int64_t crossing = 0;
  int64_t *source = malloc(((size_t)tsr__shape_count(shape) + 1) * sizeof *source);
  tsr__overlaps lists;
  tsr__heap heap;
  tsr__arena arena;
  CHECK(source);
  tsr__heap_init(&heap, NULL);
  tsr__arena_init(&arena, &heap);
  CHECK(tsr__overlaps_make(&move, &arena, &lists));
  for (int q = 0; q < tsr__positions(to); q++) crossing += check_taken(&move, &lists, q, source);
  tsr__arena_free(&arena);
  free(source);
  return crossing;
}

#endif
