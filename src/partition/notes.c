/* Notes: one for each communication of a partitioned program, with its bytes, its cause and a
 * cheaper way if one is known.
 *
 * Reductions that meet in the same stage over the same axes of the same mesh travel together: one
 * note. The bytes: in each group of p devices, p - 1 partials go to the leader and p - 1 copies of
 * the results come back; in a reduce-scatter each piece has its leader, and copies go to the
 * replicas of the piece. Moves have a note each; trips.c says which are one collective. */
#include "partition/flow.h"
#include "tessera/indexing.h"

#include <stdio.h>

/* The moves weighed last: moves of one type between two placements have the same bytes. */
typedef struct weighed {
  uint16_t from, to;
  uint8_t dtype, rank, move, axes;
  int64_t dims[TSR_MAX_RANK];
  tsr__crossed crossed;
} weighed;

enum { WEIGHED = 32 };

typedef struct maker {
  tsr__partitioned *out;
  tsr__error *error;
  size_t capacity;
  int *stage;          /* by node */
  int *meets;          /* by node: tsr__meeting_stages */
  int *users;          /* by node: the number of nodes that read it */
  int32_t *first_user; /* by node; -1: none */
  int32_t *first_note; /* by stage where they meet: the last all-reduce noted, + 1; 0: none */
  int32_t *next_note;  /* by node that began an all-reduce: the one before it of the stage */
  int32_t *last;       /* by such a node: the last reduction that travels with it, + 1 */
  tsr__arena *arena;
  tsr__accum *accums;
  int *of_node;
  int accum_count;
  weighed weighed[WEIGHED]; /* by hash; from == to: free */
} maker;

static const tsr_sharding *node_sharding(const maker *m, int node)
{
  return &m->out->program.shardings[m->out->program.nodes[node].sharding];
}

/* ---- reshards ---- */

static bool has_unknown_size(const tsr__gnode *node)
{
  for (int d = 0; d < node->rank; d++)
    if (node->dims[d] < 0) return true;
  return false;
}

/* The one operand of an elementwise node that is not a number, if it has the node's shape; else
 * -1. */
static int only_operand(const tsr__program *program, int node)
{
  const tsr__gnode *g = &program->nodes[node];
  int found = -1;
  if (!tsr__is_elementwise(g->op)) return -1;
  TSR_FOR_OPERANDS (program, g, i, o) {
    if (program->nodes[o].op == TSR__OP_CONST) continue;
    if (found >= 0) return -1;
    found = o;
  }
  if (found < 0 || program->nodes[found].rank != g->rank) return -1;
  return memcmp(program->nodes[found].dims, g->dims, sizeof g->dims) ? -1 : found;
}

/* The put from which elementwise steps alone lead to a node, if no other node needs a value on the
 * way; else -1. */
/*   x = put(..) @(-)     y = x * 2     z = reshard(y)  @(a)       put x so, and nothing moves
 *                        w = x + 1                                but not if w needs it as it is
 */
static int put_behind(const maker *m, int node)
{
  while (node >= 0 && m->users[node] == 1) {
    if (m->out->program.nodes[node].op == TSR__OP_LEAF) return node;
    node = only_operand(&m->out->program, node);
  }
  return -1;
}

/* Suggests to put data at the place where it is needed, if no other node needs it elsewhere. */
static void suggest_put(const maker *m, int node, const tsr_sharding *want, tsr__note *note)
{
  char spec[64];
  int put = put_behind(m, node);
  if (put < 0 || note->bytes <= 0) return;
  /* A spec that is too long to type is no help. */
  int length = tsr_sharding_text(want, m->out->program.nodes[put].rank, spec, sizeof spec);
  if (length >= (int)sizeof spec || length < 2) return;
  spec[length - 1] = '\0'; /* without the parentheses: as it is typed */
  note->cheaper_bytes = 0;
  snprintf(note->cheaper, sizeof note->cheaper, "put %%%d with spec %s", m->out->number[put],
           length > 2 ? spec + 1 : "-");
}

static void add_crossed(tsr__note *note, tsr__crossed crossed)
{
  note->bytes += crossed.bytes;
  for (int a = 0; a < TSR_MAX_AXES; a++) note->along[a] += crossed.along[a];
}

/* A move whose bytes are counted piece by piece, as the run counts them. */
static tsr__crossed exact_move(const tsr__reshard *move, tsr_dtype dtype)
{
  const tsr_mesh *mesh = move->to->mesh ? move->to->mesh : move->from->mesh;
  tsr__crossed crossed = { .mesh = mesh };
  if (tsr__mesh_has_speeds(mesh)) crossed = tsr__move_crosses(move, dtype);
  crossed.bytes = tsr__move_bytes(move, dtype);
  return crossed;
}

static weighed weigh_reshard(maker *m, int n)
{
  const tsr__program *program = &m->out->program;
  const tsr__gnode *node = &program->nodes[n], *in = &program->nodes[tsr__in(program, node, 0)];
  const tsr_sharding *from = &program->shardings[in->sharding], *to = node_sharding(m, n);
  /* The table has one entry a hash, and the last move stays: notes of one kind mostly follow each
   * other. All of the key is compared. */
  weighed *known = &m->weighed[(in->sharding * 7u + node->sharding + node->dtype) % WEIGHED];
  weighed key = { in->sharding, node->sharding, node->dtype, node->rank, .axes = 0 };
  memcpy(key.dims, node->dims, sizeof key.dims);
  if (known->from == key.from && known->to == key.to && known->dtype == key.dtype &&
      known->rank == key.rank && !memcmp(known->dims, key.dims, sizeof key.dims))
    return *known;
  tsr_shape shape = tsr__gnode_shape(node);
  unsigned axes;
  key.move = (uint8_t)tsr__reshard_move(from, to, &shape, &axes);
  key.axes = (uint8_t)axes;
  if (!has_unknown_size(node))
    key.crossed = exact_move(&(tsr__reshard){ from, to, &shape, NULL, 0 }, (tsr_dtype)node->dtype);
  return *known = key;
}

/* Whether a node is a move that the planner added, which another move takes further. */
static bool is_stop(const maker *m, int n)
{
  const tsr__gnode *nodes = m->out->program.nodes;
  int user = m->first_user[n];
  return nodes[n].op == TSR__OP_RESHARD && m->out->origin[n] < 0 && user >= 0 &&
         nodes[user].op == TSR__OP_RESHARD;
}

static void note_move(maker *m, int n, tsr__note *note)
{
  const tsr__program *program = &m->out->program;
  const tsr__gnode *node = &program->nodes[n];
  int in = tsr__in(program, node, 0);
  const tsr_sharding *from = node_sharding(m, in), *to = node_sharding(m, n);
  weighed move = weigh_reshard(m, n);
  note->move = move.move;
  note->axes = move.axes;
  note->cause = node->cause;
  bool parts = tsr__ops[program->nodes[in].op].contracts;
  /* Parts of products go to the devices that sum them: an all-to-all, which together with the sum
   * is a reduce-scatter. */
  if (note->cause == TSR__CAUSE_PARTS && parts && move.move == TSR__MOVE_ALL_TO_ALL)
    note->move = TSR__MOVE_REDUCE_SCATTER;
  note->mesh = to->mesh ? to->mesh : from->mesh;
  note->node = n;
  note->step = is_stop(m, n) ? 1 : is_stop(m, in) ? 2 : 0;
  int last = note->step == 1 ? m->first_user[n] : n;
  bool asked = note->step == 1 && m->out->origin[last] >= 0;
  note->user = asked ? last : m->first_user[last];
  note->cheaper_bytes = -1;
  if (has_unknown_size(node)) return;
  add_crossed(note, move.crossed);
  if (note->step != 1 || m->users[n] == 1) suggest_put(m, in, node_sharding(m, last), note);
}

/* Even borders after a filter: the bytes depend on the number of rows left. */
/* Bytes stay 0 until the run counts them. */
static void note_rows(const maker *m, int n, tsr__note *note)
{
  const tsr_sharding *at = node_sharding(m, n);
  note->move = TSR__MOVE_ROWS;
  note->cause = TSR__CAUSE_ROWS;
  note->axes = (uint8_t)tsr__dim_axes(at, 0);
  note->mesh = at->mesh;
  note->node = n;
  note->user = m->first_user[n];
  note->cheaper_bytes = -1;
}

/* The mesh axes along which a view's elements come to lie elsewhere. */
static unsigned shifted_axes(const tsr__program *program, int n, const tsr__viewed *viewed)
{
  tsr__factors factors;
  unsigned axes = 0;
  int8_t map[TSR_MAX_RANK];
  tsr__factors_of(program, n, &factors);
  TSR_FOR_OPERANDS (program, &program->nodes[n], i, o) {
    tsr__factors_in(&factors, i, map);
    for (int d = 0; d < program->nodes[o].rank; d++)
      if (map[d] >= 0 && factors.kind[map[d]] == TSR__FACTOR_PERMUTE)
        axes |= tsr__dim_axes(viewed->from[i], d);
  }
  return axes;
}

/* The user stays -1: a view moves on no other node's account. */
static tsr_status note_shift(maker *m, int n, tsr__note *note)
{
  tsr__viewed viewed;
  if (!tsr__shift_of(&m->out->program, n, m->arena, &viewed))
    return tsr__error_set(m->error, TSR_ENOMEM, "no memory to explain a program");
  note->move = TSR__MOVE_EXCHANGE;
  note->cause = TSR__CAUSE_VIEW;
  note->axes = (uint8_t)shifted_axes(&m->out->program, n, &viewed);
  note->mesh = viewed.to->mesh;
  note->node = n;
  note->user = -1;
  note->cheaper_bytes = -1;
  tsr__crossed crossed = { .mesh = note->mesh };
  if (tsr__mesh_has_speeds(note->mesh)) crossed = tsr__shift_crosses(&viewed);
  crossed.bytes = tsr__shift_bytes(&viewed);
  add_crossed(note, crossed);
  return TSR_OK;
}

/* Devices take blocks with borders of their own. */
static void note_blocks(const maker *m, int n, tsr__note *note)
{
  const tsr__program *program = &m->out->program;
  tsr_shape shape;
  tsr__reshard move = tsr__reshard_of(program, n, &shape);
  note->move = TSR__MOVE_EXCHANGE;
  note->cause = program->nodes[n].cause;
  for (int d = 0; d < shape.rank; d++)
    if (move.blocks->parts[d]) note->axes |= (uint8_t)tsr__dim_axes(move.to, d);
  note->mesh = move.to->mesh;
  note->node = n;
  note->user = m->first_user[n];
  note->cheaper_bytes = -1;
  add_crossed(note, exact_move(&move, (tsr_dtype)program->nodes[n].dtype));
}

/* ---- reductions ---- */

static int64_t count_local_elements(const tsr__meeting *m, const tsr_sharding *at, int position)
{
  int64_t count = 1, start, size;
  for (int d = 0; d < m->node->rank; d++) {
    int64_t dim = m->node->dims[d] < 0 ? 0 : m->node->dims[d];
    tsr__dim_part(at, d, dim, position, &start, &size);
    count *= size;
  }
  return count;
}

/* Whether a position is the first of those that differ from it along the combined axes only. */
/* Bytes of a meeting, counted once a group of those that differ along the axes alone:
 *
 *   2x4, over y       (0,0) (0,1) (0,2) (0,3)   leads: (0,0)     3 partials go there, and
 *                     (1,0) (1,1) (1,2) (1,3)   leads: (1,0)     3 results come back
 *
 * Each piece of a scattered result has its own leader, so partials cross in pieces, of as many
 * bytes together, and copies go only along axes that do not cut it. */
static bool leads_meeting(const tsr_mesh *mesh, unsigned axes, int position)
{
  for (int a = 0; a < mesh->axis_count; a++)
    if (axes >> a & 1 && tsr__mesh_coord(mesh, position, a) != 0) return false;
  return true;
}

static int64_t members_of(const tsr_mesh *mesh, unsigned axes)
{
  int64_t members = 1;
  for (int a = 0; a < mesh->axis_count; a++)
    if (axes >> a & 1) members *= mesh->sizes[a];
  return members;
}

tsr__crossed tsr__meeting_crosses(const tsr__meeting *m, const tsr__accum *accum)
{
  const tsr_mesh *mesh = m->at->mesh;
  tsr__crossed crossed = { .mesh = mesh };
  int64_t bytes = 0;
  tsr_sharding at = tsr__partial_place(m->at, m->axes);
  unsigned copied = m->axes & ~(tsr__used_axes(m->at) | m->at->unreduced);
  for (int p = 0; p < mesh->device_count; p++) {
    if (!leads_meeting(mesh, m->axes, p)) continue;
    int64_t count = count_local_elements(m, &at, p);
    tsr_box box = { .size = { count } };
    bytes += accum ? tsr__accum_bytes(accum, count)
                   : tsr__piece_bytes((tsr_dtype)m->node->dtype, 1, &box);
  }
  tsr__crossed_in_groups(&crossed, accum ? m->axes : copied, bytes);
  return crossed;
}

/* Bytes of a scatter's partial: its elements, and for each place the number of the last update. */
static int64_t scattered_bytes(const tsr__meeting *m, int position, int64_t count)
{
  const tsr__scatter_attr *attr = tsr__attr_of(m->program, m->node);
  tsr_dtype dtype = (tsr_dtype)m->node->dtype;
  /* If updates set, the last in row order wins, across devices as well, so the number of the update
   * travels with its element. Sums of floats travel as accumulators. */
  int64_t places = count ? 1 : 0, start, size;
  if (tsr__ops[m->node->op].attr != TSR__ATTR_SCATTER) return 0;
  if (attr->how == TSR_SCATTER_ADD && tsr__dtype_rounds(dtype))
    return tsr__wire_bytes(TSR__ACCUM_SUM_ROWS, (int)dtype, count);
  for (int64_t d = 0; d <= attr->dim + attr->more; d++) {
    if (d >= attr->batch && d < attr->dim) continue; /* the same updates, one after the other */
    tsr__dim_part(m->at, (int)d, m->node->dims[d], position, &start, &size);
    places *= size;
  }
  return count * (int64_t)tsr_dtype_size(dtype) + (attr->how == TSR_SCATTER_SET ? 8 * places : 0);
}

tsr__crossed tsr__joining_crosses(const tsr__meeting *m)
{
  tsr__crossed crossed = { .mesh = m->at->mesh };
  int64_t bytes = 0;
  for (int p = 0; p < m->at->mesh->device_count; p++) {
    if (!leads_meeting(m->at->mesh, m->axes, p)) continue;
    int64_t count = count_local_elements(m, m->at, p);
    bytes +=
        scattered_bytes(m, p, count) + count * (int64_t)tsr_dtype_size((tsr_dtype)m->node->dtype);
  }
  tsr__crossed_in_groups(&crossed, m->axes, bytes);
  return crossed;
}

tsr__crossed tsr__passing_crosses(const tsr__meeting *m)
{
  const uint8_t *each = tsr__ops[m->node->op].prefix;
  tsr__crossed crossed = { .mesh = m->at->mesh };
  int64_t bytes = 0;
  if (!each[0] || !m->at->mesh) return crossed;
  int dim = tsr__dim_of(m->program, m->node);
  int64_t parts = tsr__dim_parts(m->at, dim), along = m->node->dims[dim];
  if (parts == 1 || !along) return crossed;
  for (int p = 0; p < m->at->mesh->device_count; p++) {
    int64_t lines = 1, start, size;
    for (int d = 0; d < m->node->rank; d++) {
      if (d == dim) continue;
      tsr__dim_part(m->at, d, m->node->dims[d], p, &start, &size);
      lines *= size;
    }
    /* Lines are counted at their first part: each part but the last sends its prefix to the
     * next. */
    if (!tsr__dim_index(m->at, dim, p))
      bytes += lines * each[!tsr__dtype_rounds((tsr_dtype)m->node->dtype)];
  }
  tsr__crossed_in_line(&crossed, m->at, dim, bytes);
  return crossed;
}

/* A reduction of put data along a sharded dim would move no bytes if a kept dim were sharded
 * instead. */
static void suggest_kept_dim(const maker *m, int n, tsr__note *note)
{
  const tsr__program *program = &m->out->program;
  const tsr__gnode *node = &program->nodes[n];
  int in = tsr__in(program, node, 0);
  const tsr__gnode *x = &program->nodes[in];
  const tsr_sharding *at = node_sharding(m, in);
  uint32_t dims = tsr__reduce_of(program, node)->dims;
  int kept = -1;
  /* Several reductions may each want another dim. */
  if (note->accums != 1 || x->flags & TSR__KEPT) return;
  /* The first kept dim with at least one element for each device. */
  for (int d = x->rank - 1; d >= 0; d--)
    if (!(dims >> d & 1) && x->dims[d] >= members_of(note->mesh, note->axes)) kept = d;
  if (kept < 0) return;
  tsr_sharding want;
  memset(&want, 0, sizeof want);
  want.mesh = at->mesh;
  want.rank = TSR_MAX_RANK;
  uint8_t used = 0;
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    for (int i = at->first[d]; i < at->first[d + 1]; i++)
      if (!(note->axes >> at->axis[i] & 1)) want.axis[used++] = at->axis[i];
    for (int a = 0; d == kept && a < TSR_MAX_AXES; a++)
      if (note->axes >> a & 1) want.axis[used++] = (uint8_t)a;
    want.first[d + 1] = used;
  }
  suggest_put(m, in, &want, note);
}

/* Whether two reductions travel together. Scattered reductions do if they are scattered alike, as
 * their pieces have the same leaders. */
static bool together(const maker *m, int a, int b)
{
  return m->meets[a] == m->meets[b] &&
         m->out->program.nodes[a].reduce_axes == m->out->program.nodes[b].reduce_axes &&
         node_sharding(m, a)->mesh == node_sharding(m, b)->mesh &&
         tsr__scattered_alike(&m->out->program, &m->out->program.nodes[a],
                              &m->out->program.nodes[b]);
}

/* The note of a reduction's partials, if it was made already. */
/* Few kinds of reductions meet in a stage, so a walk over its list is enough. */
static tsr__note *all_reduce_note(const maker *m, int n)
{
  for (int i = m->first_note[m->meets[n]]; i; i = m->next_note[m->out->notes[i - 1].node])
    if (together(m, m->out->notes[i - 1].node, n)) return &m->out->notes[i - 1];
  return NULL;
}

static void start_all_reduce(const maker *m, int n, tsr__note *note)
{
  m->next_note[n] = m->first_note[m->meets[n]];
  m->first_note[m->meets[n]] = m->out->note_count;
  bool scattered = tsr__is_scattered(&m->out->program, &m->out->program.nodes[n]);
  note->move = scattered ? TSR__MOVE_REDUCE_SCATTER : TSR__MOVE_ALL_REDUCE;
  note->cause = TSR__CAUSE_REDUCED;
  note->axes = m->out->program.nodes[n].reduce_axes;
  note->mesh = node_sharding(m, n)->mesh;
  note->node = n;
  note->user = m->first_user[n];
  note->cheaper_bytes = -1;
}

/* Adds the bytes of reduction `n`: accumulators of which it is the first user, and its result. */
static void add_reduction(const maker *m, int n, tsr__note *note)
{
  const tsr__program *program = &m->out->program;
  tsr__meeting meeting = { program, &program->nodes[n], node_sharding(m, n), note->axes };
  for (int k = 0; k < 2; k++) {
    int accum = m->of_node[2 * n + k];
    /* Shared accumulators travel once: a mean and a sum of one operand. */
    if (accum < 0 || m->accums[accum].node != n) continue;
    note->accums++;
    add_crossed(note, tsr__meeting_crosses(&meeting, &m->accums[accum]));
  }
  add_crossed(note, tsr__meeting_crosses(&meeting, NULL));
  /* Reductions of a note form a circle in order of nodes: `with` (+ 1) of each is the next node,
   * `with` of the last is the first.
   *
   *   %3.with -> %7   %7.with -> %9   %9.with -> %3        last[3] = 9
   */
  if (note->node != n) {
    tsr__gnode *nodes = m->out->program.nodes;
    int32_t *last = &m->last[note->node];
    nodes[*last ? *last - 1 : note->node].with = n + 1;
    nodes[n].with = note->node + 1;
    *last = n + 1;
  }
}

/* ---- all ---- */

static tsr__note *new_note(maker *m)
{
  tsr__partitioned *out = m->out;
  if (!tsr__grow(out->program.heap, (void **)&out->notes, &m->capacity, (size_t)out->note_count + 1,
                 sizeof *out->notes)) {
    tsr__error_set(m->error, TSR_ENOMEM, "no memory to explain a program");
    return NULL;
  }
  tsr__note *note = &out->notes[out->note_count++];
  *note = (tsr__note){ .lead = out->note_count - 1, .next = -1 };
  return note;
}

/* Adds the note of a routine along a sharded dim. */
static tsr_status note_along(maker *m, int n)
{
  const tsr__program *program = &m->out->program;
  const tsr__gnode *node = &program->nodes[n];
  int place = node->result_count ? program->results[node->first_result].sharding : node->sharding;
  const tsr_sharding *at = &program->shardings[place];
  int dim = tsr__dim_of(program, node);
  if (tsr__dim_parts(at, dim) == 1) return TSR_OK;
  tsr__note *note = new_note(m);
  if (!note) return m->error->status;
  const tsr__opinfo *row = &tsr__ops[node->op];
  note->move = row->fetches ? TSR__MOVE_FETCH : TSR__MOVE_SORT;
  if (row->prefix[0]) note->move = TSR__MOVE_PREFIX;
  note->cause = TSR__CAUSE_ALONG;
  note->axes = (uint8_t)tsr__dim_axes(at, dim);
  note->mesh = at->mesh;
  note->node = n;
  note->user = m->first_user[n];
  note->cheaper_bytes = -1;
  add_crossed(note, tsr__passing_crosses(&(tsr__meeting){ program, node, at, 0 }));
  return TSR_OK;
}

/* Adds the note of a sharded table or scatter. */
static tsr_status note_join(maker *m, int n)
{
  const tsr__gnode *node = &m->out->program.nodes[n];
  const tsr_sharding *at = node_sharding(m, n);
  tsr__note *note = new_note(m);
  if (!note) return m->error->status;
  note->move = tsr__ops[node->op].looks_up ? TSR__MOVE_LOOK : TSR__MOVE_ALL_REDUCE;
  note->cause = TSR__CAUSE_JOINED;
  note->axes = node->reduce_axes;
  note->mesh = at->mesh;
  note->node = n;
  note->user = m->first_user[n];
  note->cheaper_bytes = -1;
  add_crossed(note,
              tsr__joining_crosses(&(tsr__meeting){ &m->out->program, node, at, note->axes }));
  return TSR_OK;
}

/* The order of the questions matters: a scatter has reduce_axes and no accumulators, a routine
 * along a dim may have no reduce_axes, and only then do reductions differ from moves. Only a
 * reduction may find that its note exists. */
static tsr_status note_node(maker *m, int n)
{
  const tsr__gnode *node = &m->out->program.nodes[n];
  if (node->reduce_axes && tsr__ops[node->op].acc == TSR__ACC_NONE) return note_join(m, n);
  if (tsr__ops[node->op].prefix[0] || tsr__ops[node->op].least_cut) return note_along(m, n);
  bool reduces = node->reduce_axes != 0;
  tsr__note *note = reduces ? all_reduce_note(m, n) : NULL;
  bool evens = tsr__ops[node->op].even;
  bool shifts = tsr__node_moves(&m->out->program, n);
  bool moves = tsr__ops[node->op].moves;
  if (!evens && !reduces && !shifts && !moves) return TSR_OK;
  if (evens && !node_sharding(m, n)->mesh) return TSR_OK;
  if (!note) {
    note = new_note(m);
    if (!note) return m->error->status;
    if (reduces) start_all_reduce(m, n, note);
  }
  if (shifts) return note_shift(m, n, note);
  if (reduces) add_reduction(m, n, note);
  else if (node->op == TSR__OP_RESHARD) note_move(m, n, note);
  else if (moves) note_blocks(m, n, note);
  else note_rows(m, n, note);
  return TSR_OK;
}

static tsr_status prepare_maker(maker *m, tsr__arena *arena)
{
  const tsr__program *program = &m->out->program;
  m->arena = arena;
  size_t nodes = (size_t)program->node_count + 1;
  m->stage = tsr__arena_new(arena, nodes * sizeof *m->stage);
  m->meets = tsr__arena_new(arena, nodes * sizeof *m->meets);
  m->users = tsr__arena_new(arena, nodes * sizeof *m->users);
  m->of_node = tsr__arena_new(arena, 2 * nodes * sizeof *m->of_node);
  m->first_user = tsr__arena_new(arena, 4 * nodes * sizeof *m->first_user);
  /* Two accumulators a reduction at most: those of var are a sum and a sum of squares. */
  int most = 0;
  for (int n = 0; n < program->node_count; n++)
    most += tsr__ops[program->nodes[n].op].acc == TSR__ACC_NONE ? 0 : 2;
  m->accums = tsr__arena_new(arena, ((size_t)most + 1) * sizeof *m->accums);
  if (!m->stage || !m->meets || !m->users || !m->of_node || !m->first_user || !m->accums)
    return tsr__error_set(m->error, TSR_ENOMEM, "no memory to explain a program");
  tsr__stages(program, m->stage);
  tsr__meeting_stages(program, m->stage, m->meets);
  m->accum_count = tsr__accums(program, m->stage, m->accums, m->of_node);
  m->first_note = m->first_user + nodes;
  m->next_note = m->first_note + nodes;
  m->last = m->next_note + nodes;
  memset(m->first_user, -1, nodes * sizeof *m->first_user);
  for (int n = 0; n < program->node_count; n++)
    TSR_FOR_OPERANDS (program, &program->nodes[n], i, o)
      if (!m->users[o]++) m->first_user[o] = n;
  return TSR_OK;
}

static tsr_status trim_notes(maker *m)
{
  tsr__partitioned *out = m->out;
  if (tsr__trim(out->program.heap, (void **)&out->notes, m->capacity, (size_t)out->note_count,
                sizeof *out->notes))
    return TSR_OK;
  out->note_count = 0;
  return tsr__error_set(m->error, TSR_ENOMEM, "no memory to explain a program");
}

/* Whether no node of a program has a place: then no data moves. The only sharding of such a program
 * is the unplaced one. */
static bool is_unplaced(const tsr__program *program)
{
  return program->sharding_count <= 1 && !(program->sharding_count && program->shardings[0].mesh);
}

static void travel_alone(tsr__gnode *node)
{
  node->with = 0;
  node->flags &= (uint8_t)~TSR__LATE;
}

tsr_status tsr__notes_make(tsr__arena *arena, tsr__partitioned *out, tsr__error *error)
{
  maker m = { .out = out, .error = error };
  if (is_unplaced(&out->program)) {
    for (int n = 0; n < out->program.node_count; n++) travel_alone(&out->program.nodes[n]);
    return TSR_OK;
  }
  tsr_status status = prepare_maker(&m, arena);
  for (int n = 0; n < out->program.node_count && !status; n++) {
    travel_alone(&out->program.nodes[n]);
    status = note_node(&m, n);
  }
  /* Only now is it known which reductions travel alone: these get a suggestion. */
  for (int i = 0; i < out->note_count && !status; i++)
    if (out->notes[i].move == TSR__MOVE_ALL_REDUCE && out->notes[i].cause == TSR__CAUSE_REDUCED)
      suggest_kept_dim(&m, out->notes[i].node, &out->notes[i]);
  if (!status && !tsr__trips(out, m.stage, m.meets, arena))
    status = tsr__error_set(error, TSR_ENOMEM, "no memory to explain a program");
  tsr_status trimmed = trim_notes(&m);
  return status ? status : trimmed;
}
