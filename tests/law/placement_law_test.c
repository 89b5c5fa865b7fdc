/* Where nodes are put, weighed: random programs of up to five nodes on a mesh of 2x2, against every
 * way to put them.
 *
 * A way gives each mesh axis to one of a node's factors or to none; what the node's operands and
 * its result are cut by follows. Only axes that cut what it is computed of, what is computed of it,
 * or what meets it there are given: what lies whole along an axis stays so. A node of unplaced
 * operands alone may also stay on one device. The bytes of a way are counted here, from the boxes
 * of every device: what a device needs of an operand and does not hold, once for all users that
 * need it so, what partials and results of reductions weigh on their way to and from the leader of
 * each group, and what is looked up in a table that is cut: each element by all but one of those
 * that have the table together.
 *
 * The law: the planner's notes come to the least in 95 programs of 100 in which anything moves, and
 * never to more than twice the least. The rest are listed. Sizes are such that partials weigh less
 * than what is all summed: few numbers are not gathered for that.
 *
 * The same law holds of times where the axes have speeds: each byte counts as often as the slowest
 * axis that it crosses is slower than the fastest, from the nearest device that has it.
 *
 * Another law: none of these programs ever moves more than it once did, by golden/placements.txt,
 * where the bytes of each stand. PLACEMENT_WRITE=1 writes them anew, after a change for the better.
 * Computes on no device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/partition_check.h"

enum { DEVICES = 4, DIMS = 3, NODES = 5, FACTORS = 6, WAYS = 64, UNPLACED = 32, PLACES = 33 };

/* ---- placements by number ---- */

/* The dims that x and y cut (-1: none), and whether y is the major one where both cut one dim. */
static int place_number(int x, int y, bool turned)
{
  return (x + 1) * 8 + (y + 1) * 2 + (turned && x == y && x >= 0);
}

static int place_of(const tsr_sharding *at)
{
  int dim[2] = { -1, -1 };
  bool turned = false;
  if (!at->mesh) return UNPLACED;
  for (int d = 0; d < DIMS; d++)
    for (int i = at->first[d]; i < at->first[d + 1]; i++) {
      dim[at->axis[i]] = d;
      turned |= i > at->first[d] && at->axis[i] == 0;
    }
  return place_number(dim[0], dim[1], turned);
}

static tsr_sharding sharding_of(const tsr_mesh *mesh, int place, int rank)
{
  static const char *const both[] = { "x+y", "y+x" };
  int x = place / 8 - 1, y = place / 2 % 4 - 1;
  char spec[16] = "";
  if (place == UNPLACED) return (tsr_sharding){ .mesh = NULL };
  for (int d = 0; d < rank; d++) {
    const char *dim = x == d ? "x" : y == d ? "y" : "-";
    if (d) strcat(spec, ",");
    strcat(spec, x == d && y == d ? both[place & 1] : dim);
  }
  return tsr_on(mesh, spec);
}

/* ---- what a node shares with its operands ---- */

typedef struct terms {
  int count, rank, in_rank[3];
  int8_t in[3][DIMS], out[DIMS]; /* factors of the dims; -1: broadcast, or gone */
  bool whole[FACTORS], summed[FACTORS], looked[FACTORS];
} terms;

static void take_terms(const tsr__program *p, const tsr__gnode *g, terms *t)
{
  int dim = tsr__dim_of(p, g), at = 0;
  for (int d = 0; d < t->in_rank[0]; d++) {
    t->looked[t->count] = d == dim;
    t->in[0][d] = (int8_t)t->count++;
  }
  for (int d = 0; d < t->in_rank[1]; d++) t->in[1][d] = (int8_t)t->count++;
  for (int d = 0; d < t->in_rank[0]; d++) {
    if (d != dim) t->out[at++] = t->in[0][d];
    for (int e = 0; d == dim && e < t->in_rank[1]; e++) t->out[at++] = t->in[1][e];
  }
}

static void reduction_terms(const tsr__program *p, const tsr__gnode *g, terms *t)
{
  const tsr__reduce_attr *attr = tsr__reduce_of(p, g);
  t->count = t->in_rank[0];
  for (int d = 0, at = 0; d < t->count; d++) {
    for (int i = 0; i < g->in_count; i++) t->in[i][d] = (int8_t)d;
    t->summed[d] = attr->dims >> d & 1;
    if (!t->summed[d]) t->out[at++] = (int8_t)d;
    else if (attr->keep) t->out[at++] = -1;
  }
}

static void element_terms(const tsr__program *p, const tsr__gnode *g, terms *t)
{
  t->count = t->rank;
  for (int d = 0; d < t->rank; d++) {
    t->out[d] = (int8_t)d;
    t->whole[d] = g->dims[d] == 1;
    for (int i = 0; i < g->in_count; i++) {
      int back = d - t->rank + t->in_rank[i];
      if (back < 0) continue;
      bool spread = p->nodes[tsr__in(p, g, i)].dims[back] != g->dims[d];
      t->in[i][back] = (int8_t)(spread ? -1 : d);
    }
  }
}

static void terms_of(const tsr__program *p, int n, terms *t)
{
  const tsr__gnode *g = &p->nodes[n];
  memset(t, 0, sizeof *t);
  memset(t->in, -1, sizeof t->in);
  memset(t->out, -1, sizeof t->out);
  t->rank = g->rank;
  for (int i = 0; i < g->in_count; i++) t->in_rank[i] = p->nodes[tsr__in(p, g, i)].rank;
  if (g->op == TSR__OP_TAKE) take_terms(p, g, t);
  else if (tsr__ops[g->op].lowering == TSR__LOW_REDUCE) reduction_terms(p, g, t);
  else element_terms(p, g, t);
}

/* ---- every way to put a node ---- */

typedef struct way {
  int at, need[3];
  unsigned axes; /* over which partials meet */
} way;

typedef struct search {
  const tsr__program *p;
  const tsr_mesh *mesh;
  way ways[NODES][WAYS];
  int way_count[NODES];
  bool joins[NODES];   /* some of what it is computed of is placed */
  unsigned may[NODES]; /* axes that may cut it */
  int64_t moved[NODES][PLACES][PLACES];
  uint64_t needed[NODES]; /* on the path that is tried: places of which a copy is there */
  int chosen[NODES];
  int64_t least;
  int64_t weight[2]; /* of a byte along x and y */
  bool steps;        /* a move may have two steps */
  int64_t step;      /* the weight of the second one */
} search;

static int place_of_map(const int8_t *map, int rank, const int8_t axis[2], bool turned)
{
  int dim[2] = { -1, -1 };
  for (int d = 0; d < rank; d++)
    for (int a = 0; a < 2; a++)
      if (map[d] >= 0 && map[d] == axis[a]) dim[a] = d;
  return place_number(dim[0], dim[1], turned);
}

static void add_way(search *s, int n, const terms *t, const int8_t axis[2], bool turned)
{
  const tsr__gnode *g = &s->p->nodes[n];
  way *w = &s->ways[n][s->way_count[n]++];
  CHECK(s->way_count[n] <= WAYS);
  memset(w, 0, sizeof *w);
  for (int i = 0; i < g->in_count; i++)
    w->need[i] = place_of_map(t->in[i], t->in_rank[i], axis, turned);
  w->at = place_of_map(t->out, t->rank, axis, turned);
  for (int a = 0; a < 2; a++)
    if (axis[a] >= 0 && (t->summed[axis[a]] || t->looked[axis[a]])) w->axes |= 1u << a;
}

/* What lies whole along an axis stays so: a node is cut by the axes of what it is computed of, of
 * what is computed of it, and of what meets it there. */
static void allow_axes(search *s)
{
  for (int n = 0; n < s->p->node_count; n++) {
    const tsr__gnode *g = &s->p->nodes[n];
    if (g->flags & TSR__PLACED) s->may[n] = tsr__used_axes(&s->p->shardings[g->sharding]);
    TSR_FOR_OPERANDS (s->p, g, i, o) s->may[n] |= s->may[o];
  }
  for (int n = s->p->node_count - 1; n >= 0; n--)
    TSR_FOR_OPERANDS (s->p, &s->p->nodes[n], i, o) s->may[o] |= s->may[n];
}

static void list_ways(search *s, int n)
{
  const tsr__gnode *g = &s->p->nodes[n];
  terms t;
  TSR_FOR_OPERANDS (s->p, g, i, o) s->joins[n] |= s->joins[o];
  if (g->flags & TSR__PLACED) {
    int at = place_of(&s->p->shardings[g->sharding]);
    s->ways[n][s->way_count[n]++] = (way){ .at = at, .need = { at } };
    s->joins[n] = at != UNPLACED;
    return;
  }
  if (!s->joins[n])
    s->ways[n][s->way_count[n]++] = (way){ UNPLACED, { UNPLACED, UNPLACED, UNPLACED }, 0 };
  if (g->op == TSR__OP_LEAF) return;
  terms_of(s->p, n, &t);
  for (int8_t x = -1; x < t.count; x++)
    for (int8_t y = -1; y < t.count; y++) {
      if ((x >= 0 && t.whole[x]) || (y >= 0 && t.whole[y])) continue;
      if ((x >= 0 && !(s->may[n] & 1)) || (y >= 0 && !(s->may[n] & 2))) continue;
      add_way(s, n, &t, (int8_t[]){ x, y }, false);
      if (x == y && x >= 0) add_way(s, n, &t, (int8_t[]){ x, y }, true);
    }
}

/* ---- bytes ---- */

static tsr_box box_at(const search *s, int n, int place, int device)
{
  tsr_shape shape = tsr__gnode_shape(&s->p->nodes[n]);
  tsr_sharding at = sharding_of(s->mesh, place, shape.rank);
  tsr_box box = { .start = { 0 } };
  if (place == UNPLACED && device) return box; /* of no elements: sizes are 0 */
  CHECK_I64(tsr_shard_box(&at, shape, place == UNPLACED ? 0 : device, &box), TSR_OK);
  return box;
}

/* Of no dims: one element, but where an unplaced one is not. */
static int64_t elements(const search *s, int n, const tsr_box *box, bool here)
{
  int64_t count = here;
  for (int d = 0; d < s->p->nodes[n].rank; d++) count *= box->size[d];
  return count;
}

static int64_t common(const search *s, int n, const tsr_box *a, const tsr_box *b)
{
  int64_t count = 1;
  for (int d = 0; d < s->p->nodes[n].rank; d++) {
    int64_t end_a = a->start[d] + a->size[d], end_b = b->start[d] + b->size[d];
    int64_t start = a->start[d] > b->start[d] ? a->start[d] : b->start[d];
    int64_t size = (end_a < end_b ? end_a : end_b) - start;
    count *= size > 0 ? size : 0;
  }
  return count;
}

static int64_t bytes_of(int dtype, int64_t count)
{
  return dtype == TSR_BOOL ? (count + 7) / 8 : count * (int64_t)tsr_dtype_size((tsr_dtype)dtype);
}

/* The weight of a byte from one device to another: that of the slower axis of those they differ
 * along. */
static int64_t weight_between(const search *s, int p, int q)
{
  int64_t x = p / 2 != q / 2 ? s->weight[0] : 0, y = p % 2 != q % 2 ? s->weight[1] : 0;
  return x > y ? x : y;
}

/* The weight of a byte of a part that device `p` holds, from the nearest device with that part. */
static int64_t weight_of_part(const search *s, int n, int from, int p, int q)
{
  tsr_box part = box_at(s, n, from, p);
  int64_t least = weight_between(s, p, q);
  for (int k = 0; k < DEVICES && from != UNPLACED; k++) {
    tsr_box other = box_at(s, n, from, k);
    int64_t weight = weight_between(s, k, q);
    if (!memcmp(&other, &part, sizeof part) && weight < least) least = weight;
  }
  return least;
}

/* What crosses from one placement to another: to each device the elements that it lacks, in one
 * piece of each different part that they are in. */
static int64_t count_move(const search *s, int n, int from, int to)
{
  int64_t bytes = 0;
  for (int q = 0; q < (to == UNPLACED ? 1 : DEVICES); q++) {
    tsr_box want = box_at(s, n, to, q), own = box_at(s, n, from, q);
    bool has = from != UNPLACED || q == 0;
    if (has && common(s, n, &want, &own) == elements(s, n, &want, true)) continue;
    for (int p = 0; p < (from == UNPLACED ? 1 : DEVICES); p++) {
      tsr_box part = box_at(s, n, from, p);
      bool again = has && !memcmp(&part, &own, sizeof part);
      for (int k = 0; k < p && !again; k++) {
        tsr_box before = box_at(s, n, from, k);
        again = !memcmp(&before, &part, sizeof part);
      }
      if (!again)
        bytes += bytes_of(s->p->nodes[n].dtype, common(s, n, &want, &part)) *
                 weight_of_part(s, n, from, p, q);
    }
  }
  return bytes;
}

/* One more collective takes 10 us on each device: as many bytes along the fastest axis, which has a
 * million times the larger weight in bytes a second. */
static int64_t step_weight(const int64_t weight[2])
{
  return DEVICES * 10 * (weight[0] > weight[1] ? weight[0] : weight[1]);
}

static int64_t count_once(search *s, int n, int from, int to)
{
  int64_t *known = &s->moved[n][from][to];
  if (*known < 0) *known = from == to ? 0 : count_move(s, n, from, to);
  return *known;
}

/* A move in one step, or in two where axes have speeds. */
static int64_t move_bytes(search *s, int n, int from, int to)
{
  int64_t least = count_once(s, n, from, to);
  int rank = s->p->nodes[n].rank;
  for (int stop = 0; stop < UNPLACED && s->steps && least; stop++) {
    int x = stop / 8 - 1, y = stop / 2 % 4 - 1;
    if (x >= rank || y >= rank || (stop & 1 && (x < 0 || x != y))) continue;
    int64_t cost = count_once(s, n, from, stop) + s->step;
    if (cost < least) cost += count_once(s, n, stop, to);
    if (cost < least) least = cost;
  }
  return least;
}

/* Bytes of one element's partial, and of a scalar's. */
static int64_t partial_bytes(const tsr__program *p, const tsr__gnode *g, bool scalar)
{
  int dtype = p->nodes[tsr__in(p, g, 0)].dtype;
  bool real = dtype == TSR_F32 || dtype == TSR_F64;
  switch (g->op) {
  case TSR__OP_SUM:
  case TSR__OP_MEAN: return !real ? 16 : scalar ? 276 : 24;
  case TSR__OP_COUNT: return 8;
  case TSR__OP_ANY: return 1;
  default: return (int64_t)tsr_dtype_size((tsr_dtype)dtype);
  }
}

/* Whether an earlier reduction already sends these partials; it has the same dims and operands. */
static bool sent(const search *s, int n, const way *w)
{
  const tsr__gnode *g = &s->p->nodes[n];
  for (int m = 0; m < n; m++) {
    const tsr__gnode *other = &s->p->nodes[m];
    const way *v = &s->ways[m][s->chosen[m]];
    bool sums = (g->op == TSR__OP_SUM && other->op == TSR__OP_MEAN) ||
                (g->op == TSR__OP_MEAN && other->op == TSR__OP_SUM);
    bool alike = tsr__ops[g->op].lowering == TSR__LOW_REDUCE && (sums || other->op == g->op) &&
                 g->in_count == other->in_count && tsr__in(s->p, g, 0) == tsr__in(s->p, other, 0) &&
                 tsr__in(s->p, g, 1) == tsr__in(s->p, other, 1);
    if (alike && tsr__reduce_of(s->p, g)->dims == tsr__reduce_of(s->p, other)->dims &&
        !memcmp(v->need, w->need, sizeof v->need))
      return true;
  }
  return false;
}

static int64_t meet_bytes(const search *s, int n, const way *w)
{
  const tsr__gnode *g = &s->p->nodes[n];
  int64_t bytes = 0, weight = 0;
  bool scalar = true;
  if (!w->axes) return 0;
  for (int d = 0; d < g->rank; d++) scalar &= g->dims[d] == 1;
  bool looks = g->op == TSR__OP_TAKE;
  int64_t partial = looks || sent(s, n, w) ? 0 : partial_bytes(s->p, g, scalar);
  for (int q = 0; q < DEVICES; q++) {
    bool leads = !((w->axes & 1 && q / 2) || (w->axes & 2 && q % 2));
    tsr_box box = box_at(s, n, w->at, q);
    int64_t count = elements(s, n, &box, true);
    int64_t result =
        looks ? count * (int64_t)tsr_dtype_size((tsr_dtype)g->dtype) : bytes_of(g->dtype, count);
    if (leads) bytes += partial * count + result;
  }
  for (int q = 1; q < DEVICES; q++)
    if (!(q / 2 && !(w->axes & 1)) && !(q % 2 && !(w->axes & 2))) weight += weight_between(s, 0, q);
  return weight * bytes;
}

/* ---- the least ---- */

static void try_node(search *s, int n, int64_t bytes);

static void try_way(search *s, int n, const way *w, int64_t bytes)
{
  const tsr__gnode *g = &s->p->nodes[n];
  uint64_t before[3];
  bytes += meet_bytes(s, n, w);
  TSR_FOR_OPERANDS (s->p, g, i, o) {
    before[i] = s->needed[o];
    if (s->p->nodes[o].op == TSR__OP_CONST) continue;
    if (!(s->needed[o] >> w->need[i] & 1))
      bytes += move_bytes(s, o, s->ways[o][s->chosen[o]].at, w->need[i]);
    s->needed[o] |= 1ull << w->need[i];
  }
  if (bytes < s->least) try_node(s, n + 1, bytes);
  for (int i = g->in_count - 1; i >= 0; i--) s->needed[tsr__in(s->p, g, i)] = before[i];
}

static void try_node(search *s, int n, int64_t bytes)
{
  if (n == s->p->node_count) {
    s->least = bytes;
    return;
  }
  for (int k = 0; k < s->way_count[n]; k++) {
    s->chosen[n] = k;
    try_way(s, n, &s->ways[n][k], bytes);
  }
}

static int64_t least_cost(const tsr__program *p, const tsr_mesh *mesh, const int64_t weight[2])
{
  search *s = calloc(1, sizeof *s);
  CHECK(s && p->node_count <= NODES);
  s->p = p;
  s->mesh = mesh;
  s->least = INT64_MAX;
  memcpy(s->weight, weight, sizeof s->weight);
  s->steps = weight[0] != weight[1];
  s->step = step_weight(weight);
  memset(s->moved, -1, sizeof s->moved);
  allow_axes(s);
  for (int n = 0; n < p->node_count; n++) list_ways(s, n);
  try_node(s, 0, 0);
  int64_t least = s->least;
  free(s);
  return least;
}

/* ---- random programs ---- */

typedef struct maker {
  test_rng *rng;
  tsr_scope *s;
  tsr_mesh *mesh;
  int64_t sizes[2]; /* of which dims are */
  tsr_array *made[2 * NODES];
  bool used[2 * NODES];
  int count;
} maker;

/* Of two that are there one that nobody uses yet. */
static int pick(maker *m)
{
  int i = (int)test_range(m->rng, 0, m->count - 1);
  if (m->used[i]) i = (int)test_range(m->rng, 0, m->count - 1);
  m->used[i] = true;
  return i;
}

static tsr_sharding random_place(maker *m, const tsr_array *a)
{
  int dim[2];
  for (int k = 0; k < 2; k++) {
    dim[k] = (int)test_range(m->rng, -1, a->shape.rank - 1);
    if (dim[k] >= 0 && a->shape.dims[dim[k]] == 1) dim[k] = -1;
  }
  int place = place_number(dim[0], dim[1], test_range(m->rng, 0, 1));
  return sharding_of(m->mesh, place, a->shape.rank);
}

static tsr_array *random_leaf(maker *m)
{
  static const tsr_dtype dtypes[] = { TSR_BOOL, TSR_I64, TSR_F32, TSR_F64, TSR_F64, TSR_F64 };
  tsr_array like = { .shape = { .rank = (int)test_range(m->rng, 1, 2) } };
  for (int d = 0; d < like.shape.rank; d++) {
    bool last = d == like.shape.rank - 1;
    like.shape.dims[d] = m->sizes[last ? 0 : 1];
    if (!last && test_range(m->rng, 0, 5) == 0) like.shape.dims[d] = 1;
  }
  tsr_sharding at = random_place(m, &like);
  char spec[32];
  tsr_mesh *mesh = test_range(m->rng, 0, 5) ? m->mesh : NULL;
  int length = tsr_sharding_text(&at, like.shape.rank, spec, sizeof spec);
  spec[length - 1] = '\0';
  return fixture_leaf(m->s, dtypes[test_range(m->rng, 0, 5)], like.shape, mesh, spec + 1);
}

static tsr_array *random_element(maker *m)
{
  static const tsr__op pairs[] = { TSR__OP_ADD, TSR__OP_MUL, TSR__OP_LT, TSR__OP_MAXIMUM };
  tsr_array *a = m->made[pick(m)];
  tsr__ask to = { .dtype = a->dtype == TSR_F64 ? TSR_F32 : TSR_F64 };
  switch (test_range(m->rng, 0, 4)) {
  case 0: return tsr__make(m->s, TSR__OP_CAST, TSR__IN(a), &to, NULL);
  case 1: return fixture_make(TSR__OP_ISNAN, a, NULL, NULL, NULL);
  default: break;
  }
  for (int k = 0; k < 9; k++) {
    int i = (int)test_range(m->rng, 0, m->count - 1);
    tsr_array *b = m->made[i];
    bool fits = b->dtype == a->dtype && b != a;
    for (int back = 1; back <= a->shape.rank && back <= b->shape.rank; back++) {
      int64_t x = a->shape.dims[a->shape.rank - back], y = b->shape.dims[b->shape.rank - back];
      fits &= x == y || x == 1 || y == 1;
    }
    if (!fits) continue;
    m->used[i] = true;
    if (a->dtype == TSR_BOOL) return fixture_make(TSR__OP_AND, a, b, NULL, NULL);
    return fixture_make(pairs[test_range(m->rng, 0, 3)], a, b, NULL, NULL);
  }
  if (a->dtype == TSR_BOOL) return fixture_make(TSR__OP_NOT, a, NULL, NULL, NULL);
  return fixture_make(TSR__OP_MUL, a, fixture_number(m->s, (tsr_dtype)a->dtype, 3), NULL, NULL);
}

static tsr_array *random_reduction(maker *m)
{
  static const tsr__op ops[] = { TSR__OP_SUM, TSR__OP_MEAN, TSR__OP_MAX };
  tsr_array *a = m->made[pick(m)];
  tsr__op op = ops[test_range(m->rng, 0, 2)];
  uint32_t dims = a->shape.rank ? (uint32_t)test_range(m->rng, 1, (1 << a->shape.rank) - 1) : 0;
  if (a->dtype == TSR_BOOL) op = test_range(m->rng, 0, 1) ? TSR__OP_ANY : TSR__OP_COUNT;
  tsr__ask ask = { TSR__ATTR(tsr__reduce_attr, .dims = dims,
                             .keep = (uint16_t)test_range(m->rng, 0, 1)) };
  return tsr__make(m->s, op, TSR__IN(a), &ask, NULL);
}

static tsr_array *random_take(maker *m)
{
  for (int k = 0; k < 4; k++) {
    int i = (int)test_range(m->rng, 0, m->count - 1);
    tsr_array *index = m->made[i], *table = m->made[test_range(m->rng, 0, m->count - 1)];
    if (index->dtype != TSR_I64 || !table->shape.rank || index->shape.rank != 1) continue;
    tsr__ask ask = { TSR__ATTR(tsr__span_attr,
                               .dim = test_range(m->rng, 0, table->shape.rank - 1)) };
    m->used[i] = true;
    for (int j = 0; j < m->count; j++) m->used[j] |= m->made[j] == table;
    return tsr__make(m->s, TSR__OP_TAKE, TSR__IN(table, index), &ask, NULL);
  }
  return random_element(m);
}

static tsr_array *random_asked(maker *m)
{
  tsr_array *a = m->made[pick(m)];
  tsr_sharding at = random_place(m, a);
  tsr__op op = test_range(m->rng, 0, 3) ? TSR__OP_CONSTRAIN : TSR__OP_RESHARD;
  return tsr__make(m->s, op, TSR__IN(a), &(tsr__ask){ .sharding = &at }, NULL);
}

static tsr_array *random_source(maker *m)
{
  tsr__ask ask = { .dtype = TSR_F64, .shape = m->made[m->count - 1]->shape };
  return tsr__make(m->s, TSR__OP_UNIFORM, TSR__IN_NONE, &ask, NULL);
}

static void add_random(maker *m)
{
  tsr_array *a;
  switch (m->count ? test_range(m->rng, m->count > NODES / 2 ? 2 : 0, 11) : 0) {
  case 0:
  case 1:
  case 2: a = random_leaf(m); break;
  case 3: a = random_source(m); break;
  case 4:
  case 5: a = random_reduction(m); break;
  case 6:
  case 7: a = random_asked(m); break;
  case 8: a = random_take(m); break;
  default: a = random_element(m); break;
  }
  if (a->inert) FAIL("%s", tsr_message(m->s));
  m->made[m->count++] = a;
}

/* A program of at most five nodes, numbers not counted, whose roots are what nobody uses. */
static void random_program(test_rng *rng, tsr_runtime *rt, tsr_mesh *mesh, tsr__program *p)
{
  static const int64_t rows[] = { 6, 32, 33, 64, 100, 129, 250 };
  static const int64_t columns[] = { 2304, 2500, 3001,
                                     4099 }; /* worth partials when all is summed */
  tsr__error error = { .status = TSR_OK };
  for (;;) {
    maker m = { .rng = rng, .s = tsr_scope_open(rt), .mesh = mesh };
    tsr_array *roots[NODES];
    int root_count = 0;
    m.sizes[0] = columns[test_range(rng, 0, 3)];
    m.sizes[1] = rows[test_range(rng, 0, 6)];
    int64_t nodes = test_range(rng, 2, NODES);
    while (m.count < nodes) add_random(&m);
    for (int i = 0; i < m.count; i++)
      if (!m.used[i]) roots[root_count++] = m.made[i];
    tsr__program_clear(p);
    if (tsr__program_trace(p, roots, root_count, &error)) FAIL("%s", error.text);
    bool fits = p->node_count <= NODES;
    for (int n = 0; n < p->node_count; n++) fits &= p->nodes[n].rank <= DIMS;
    if (fits) return;
  }
}

/* ---- the law ---- */

/* The bytes of all notes, or the weights of their bytes along both axes. */
static int64_t cost_of_notes(const tsr__partitioned *parts, const int64_t *weight)
{
  int64_t cost = 0;
  for (int i = 0; i < parts->note_count; i++) {
    const tsr__note *note = &parts->notes[i];
    cost += weight ? note->along[0] * weight[0] + note->along[1] * weight[1] : note->bytes;
    if (weight && note->step == 2) cost += step_weight(weight);
  }
  return cost;
}

static int64_t planned_cost(const tsr__program *p, tsr__heap *heap, const int64_t *weight,
                            bool show)
{
  tsr__partitioned parts;
  tsr__error error = { .status = TSR_OK };
  int64_t bytes = 0;
  if (tsr__partition(p, heap, &parts, &error)) FAIL("%s", error.text);
  check_partitioned(p, &parts);
  bytes = cost_of_notes(&parts, weight);
  if (show) {
    tsr__text text;
    tsr__text_init(&text, heap);
    tsr__program_print(p, &text);
    tsr__text_add(&text, "  becomes\n");
    tsr__program_print(&parts.program, &text);
    printf("%s", tsr__text_get(&text));
    tsr__text_free(&text);
  }
  tsr__partitioned_free(&parts, heap);
  return bytes;
}

static int64_t planned_bytes(const tsr__program *p, tsr__heap *heap, bool show)
{
  return planned_cost(p, heap, NULL, show);
}

/* Gives each dim that is cut a priority: `same`, or any where that is -1. */
static void rank_dims(test_rng *rng, tsr__program *p, int same)
{
  for (int i = 1; i < p->sharding_count; i++)
    for (int d = 0; d < DIMS; d++)
      if (tsr__dim_axes(&p->shardings[i], d))
        tsr__dim_set_priority(&p->shardings[i], d, same < 0 ? (int)test_range(rng, 0, 3) : same);
}

/* Whatever the priorities, plans keep the invariants of all plans; where all are the same they are
 * what they are without. */
TEST(priorities_that_are_equal_change_nothing)
{
  int cases = test_quick() ? 200 : 2000;
  tsr_runtime *rt = fixture_devices("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");
  tsr__program p;
  tsr__program_init(&p, &rt->heap);
  for (int i = 0, more = 0; i < cases || !more; i++) {
    test_rng rng = test_seeded(9000 + (uint64_t)i);
    random_program(&rng, rt, mesh, &p);
    int64_t bytes = planned_bytes(&p, &rt->heap, false);
    rank_dims(&rng, &p, i % 4);
    CHECK_I64(planned_bytes(&p, &rt->heap, false), bytes);
    rank_dims(&rng, &p, -1);
    more += planned_bytes(&p, &rt->heap, false) > bytes;
  }
  tsr__program_free(&p);
}

/* What each program moved once, in order; -1 beyond those written. */
static int64_t next_before(char **rest)
{
  char *end;
  if (!*rest) return -1;
  int64_t bytes = strtoll(*rest, &end, 10);
  if (end == *rest) return -1;
  *rest = end;
  return bytes;
}

static void write_bytes(const int64_t *bytes, int count)
{
  char *text;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  for (int i = 0; i < count; i++)
    fprintf(out, "%lld%c", (long long)bytes[i], i % 16 == 15 || i == count - 1 ? '\n' : ' ');
  fclose(out);
  test_write(test_file("golden/placements.txt"), text, size);
  free(text);
}

TEST(no_program_moves_more_than_it_did)
{
  enum { PROGRAMS = 2000 };
  static int64_t bytes[PROGRAMS];
  bool writes = getenv("PLACEMENT_WRITE");
  char *text = writes ? NULL : test_read(test_file("golden/placements.txt"), NULL), *rest = text;
  tsr_runtime *rt = fixture_devices("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");
  tsr__program p;
  tsr__program_init(&p, &rt->heap);
  int64_t all = 0, all_before = 0;
  for (int i = 0; i < PROGRAMS; i++) {
    test_rng rng = test_seeded(7000 + (uint64_t)i);
    random_program(&rng, rt, mesh, &p);
    bytes[i] = planned_bytes(&p, &rt->heap, false);
    int64_t before = writes ? bytes[i] : next_before(&rest);
    all += bytes[i];
    all_before += before;
    if (bytes[i] <= before) continue;
    planned_bytes(&p, &rt->heap, true);
    FAIL("program %d: %lld bytes, once %lld", i, (long long)bytes[i], (long long)before);
  }
  printf("# %lld bytes in all, once %lld\n", (long long)all, (long long)all_before);
  if (writes) write_bytes(bytes, PROGRAMS);
  free(text);
  tsr__program_free(&p);
}

/* A mesh on which a byte costs these weights; of two weights one is 1. */
static tsr_mesh *weighted_mesh(tsr_runtime *rt, const int64_t weight[2])
{
  char text[64];
  snprintf(text, sizeof text, "x=2@%llde6,y=2@%llde6", (long long)weight[1], (long long)weight[0]);
  return tsr_mesh_make(rt, text);
}

/* Random programs, and how many of them the planner puts at the least; `most` is the largest weight
 * of an axis, 0: no speeds. PLACEMENT_SHOW=1 prints the programs that miss the least. */
static void check_near_the_least(int64_t most)
{
  int cases = test_quick() ? 200 : 1000, moving = 0, equal = 0, above = 0;
  tsr_runtime *rt = fixture_devices("cpu:4");
  tsr__program p;
  tsr__program_init(&p, &rt->heap);
  for (int i = 0; moving < cases; i++) {
    test_rng rng = test_seeded(7000 + (uint64_t)i), other = test_seeded(500 + (uint64_t)i);
    int64_t weight[2] = { 1, 1 };
    if (most) weight[test_range(&other, 0, 1)] = test_range(&other, 1, most);
    tsr_mesh *mesh = most ? weighted_mesh(rt, weight) : tsr_mesh_make(rt, "x=2,y=2");
    random_program(&rng, rt, mesh, &p);
    int64_t ours = planned_cost(&p, &rt->heap, most ? weight : NULL, false);
    int64_t least = least_cost(&p, mesh, weight);
    moving += ours > 0; /* where nothing moves there is nothing to weigh */
    if (!ours) continue;
    equal += ours <= least;
    above += ours > 2 * least;
    if (ours <= least) continue;
    printf("# program %d on %s: %lld, the least %lld\n", i, tsr_mesh_text(mesh), (long long)ours,
           (long long)least);
    if (getenv("PLACEMENT_SHOW")) planned_cost(&p, &rt->heap, weight, true);
  }
  printf("# %d of %d programs at the least, %d above twice\n", equal, moving, above);
  CHECK_I64(above, 0);
  CHECK(100 * equal >= 95 * moving);
  tsr__program_free(&p);
}

TEST_TIMEOUT(plans_come_near_the_least_bytes, 300)
{
  check_near_the_least(0);
}

TEST_TIMEOUT(plans_come_near_the_least_time, 300)
{
  check_near_the_least(100);
}

/* A mesh whose axes have one speed is planned like one without speeds. */
TEST(equal_speeds_change_nothing)
{
  int cases = test_quick() ? 200 : 2000;
  tsr_runtime *rt = fixture_devices("cpu:4");
  tsr_mesh *plain = tsr_mesh_make(rt, "x=2,y=2"), *equal = tsr_mesh_make(rt, "x=2@7e9,y=2@7e9");
  tsr__program p, q;
  tsr__program_init(&p, &rt->heap);
  tsr__program_init(&q, &rt->heap);
  for (int i = 0; i < cases; i++) {
    tsr__partitioned parts, others;
    tsr__error error = { .status = TSR_OK };
    test_rng rng = test_seeded(11000 + (uint64_t)i), again = rng;
    random_program(&rng, rt, plain, &p);
    random_program(&again, rt, equal, &q);
    if (tsr__partition(&p, &rt->heap, &parts, &error)) FAIL("%s", error.text);
    if (tsr__partition(&q, &rt->heap, &others, &error)) FAIL("%s", error.text);
    CHECK_I64(others.program.node_count, parts.program.node_count);
    CHECK_I64(others.note_count, parts.note_count);
    for (int k = 0; k < parts.note_count; k++) {
      CHECK_I64(others.notes[k].move, parts.notes[k].move);
      CHECK_I64(others.notes[k].node, parts.notes[k].node);
      CHECK_I64(others.notes[k].axes, parts.notes[k].axes);
      CHECK_I64(others.notes[k].bytes, parts.notes[k].bytes);
    }
    tsr__partitioned_free(&parts, &rt->heap);
    tsr__partitioned_free(&others, &rt->heap);
  }
  tsr__program_free(&p);
  tsr__program_free(&q);
}
