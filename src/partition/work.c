/* Work that several devices make alike, and the estimated time of a plan.
 *
 *   x=8     %3 = dot(%1, %2)  f32[32,512]@(-,-)     each device makes all of it: 8 times the work
 *                             f32[32,512]@(x,-)     each makes an eighth
 *
 * Work is counted in products, as the rest is small beside them. Devices also wait: where a dim has
 * fewer elements than parts, those without an element wait for the others. The time of all devices
 * together is compared: so bytes, each of which crosses once, and flops, some of which are made
 * several times, have one measure.
 *
 *   8 devices of 128 Gflop/s, 1 GB/s        a device    all together
 *   all-gather of 0.5 MB cut in 8           0.46 ms     3.7 ms     each lacks 7 of 8 parts
 *   all-to-all of it                        0.06 ms     0.5 ms     each lacks 7 of 64
 *   128 Mflop, each an eighth               0.13 ms     0          no flop is made twice
 *   128 Mflop, each all of them             1 ms        7 ms       7 of 8 are made for nothing
 *
 * The flops that have to be made are the same in all plans and do not count. */
#include "partition/flow.h"

/* Bytes per second of a mesh that names no speeds: only the ratio to its flops shows. */
static const double PLAIN_SPEED = 1e9;

/* Fewer flops than a device makes while it starts a kernel are not worth a word. */
static const double LEAST_FLOPS = 1 << 20;

/* ---- time ---- */

double tsr__crossed_seconds(const tsr__crossed *crossed)
{
  const tsr_mesh *mesh = crossed->mesh;
  double seconds = 0;
  if (!tsr__mesh_has_speeds(mesh)) return (double)crossed->bytes / PLAIN_SPEED;
  for (int a = 0; a < mesh->axis_count; a++)
    seconds += (double)crossed->along[a] / (double)mesh->bytes_per_s[a];
  return seconds;
}

static double note_seconds(const tsr__partitioned *parts, int i)
{
  const tsr__note *note = &parts->notes[i];
  tsr__crossed crossed = { .mesh = note->mesh, .bytes = note->bytes };
  memcpy(crossed.along, note->along, sizeof crossed.along);
  bool starts = tsr__mesh_has_speeds(note->mesh) && note->lead == i && note->bytes;
  return tsr__crossed_seconds(&crossed) +
         (starts ? (double)note->mesh->device_count / TSR__STEPS_PER_S : 0);
}

static double flops_seconds(const tsr_mesh *mesh, double flops)
{
  bool speeds = tsr__mesh_has_speeds(mesh);
  double speed =
      speeds ? (double)mesh->bytes_per_s[mesh->slowest[mesh->axis_count - 1]] : PLAIN_SPEED;
  return flops / (tsr__mesh_flops_per_byte(mesh) * speed);
}

static const tsr_sharding *lying_at(const tsr__program *program, int n)
{
  return &program->shardings[program->nodes[n].sharding];
}

/* Whether a node is a product on a mesh; sizes of the run are not known here. */
static bool is_placed_product(const tsr__program *program, int n)
{
  const tsr__gnode *node = &program->nodes[n];
  bool known = tsr__ops[node->op].contracts && lying_at(program, n)->mesh;
  for (int d = 0; d < node->rank && known; d++) known = node->dims[d] >= 0;
  return known;
}

/* The steps of a region, where the plan knows them. The number of turns of a while is not known
 * before the run, and that of a loop without slices and stacks is a number of the run, on which no
 * plan depends: both count one. */
static double region_steps(const tsr__partitioned *parts, const tsr__inner *inner)
{
  const tsr__loop_attr *attr = tsr__attr_of(&parts->program, &parts->program.nodes[inner->node]);
  return attr->kind == TSR__LOOP_SCAN && attr->count != TSR__COUNTED ? (double)attr->count : 1;
}

double tsr__plan_seconds(const tsr__partitioned *parts)
{
  const tsr__program *program = &parts->program;
  double seconds = 0;
  for (int i = 0; i < parts->note_count; i++) seconds += note_seconds(parts, i);
  for (int n = 0; n < program->node_count; n++) {
    if (!is_placed_product(program, n)) continue;
    const tsr_mesh *mesh = lying_at(program, n)->mesh;
    double all = tsr__flops_dot(program, n, true) * mesh->device_count;
    seconds += flops_seconds(mesh, all - tsr__flops_dot(program, n, false));
  }
  for (int i = 0; i < parts->inner_count; i++)
    seconds += tsr__plan_seconds(&parts->inner[i].parts) * region_steps(parts, &parts->inner[i]);
  return seconds;
}

/* ---- axes without work of their own ---- */

unsigned tsr__flow_idle_axes(const tsr__flow *flow, int n, const tsr__way *way)
{
  const tsr_sharding *at = &flow->places[way->at];
  unsigned idle = tsr__free_axes(at) & ~(unsigned)(way->meet | at->unreduced);
  TSR_FOR_OPERANDS (flow->program, &flow->program->nodes[n], i, o)
    idle &= ~tsr__used_axes(&flow->places[way->need[i]]);
  return idle;
}

/* The axes that cut a dim into more parts than it has elements: some devices have none. */
static unsigned empty_axes(const tsr__gnode *node, const tsr_sharding *at)
{
  unsigned axes = 0;
  for (int d = 0; d < node->rank; d++) {
    int64_t parts = 1;
    for (int i = at->first[d]; i < at->first[d + 1]; i++) {
      parts *= at->mesh->sizes[at->axis[i]];
      if (parts > node->dims[d]) axes |= 1u << at->axis[i];
    }
  }
  return axes;
}

/* ---- words ---- */

/* The axes along which a node does not differ. */
static unsigned alike_axes(const tsr__program *program, int n)
{
  const tsr_sharding *at = lying_at(program, n);
  unsigned idle = tsr__free_axes(at) & ~(unsigned)at->unreduced;
  TSR_FOR_OPERANDS (program, &program->nodes[n], i, o)
    idle &= ~tsr__used_axes(lying_at(program, o));
  return idle;
}

/* The flops with which each device makes products of a region that are alike along axes of a mesh,
 * in one step. */
static double alike_flops(const tsr__partitioned *parts, const tsr_mesh *mesh, unsigned axes)
{
  const tsr__program *program = &parts->program;
  double flops = 0;
  for (int n = 0; n < program->node_count; n++)
    if (is_placed_product(program, n) && lying_at(program, n)->mesh == mesh &&
        (alike_axes(program, n) & axes) == axes)
      flops += tsr__flops_dot(program, n, true);
  for (int i = 0; i < parts->inner_count; i++)
    flops +=
        alike_flops(&parts->inner[i].parts, mesh, axes) * region_steps(parts, &parts->inner[i]);
  return flops;
}

typedef struct finder {
  tsr__partitioned *out;
  tsr__error *error;
  uint8_t *cut; /* by node: axes that cut it or something that it is computed of */
  size_t room;
} finder;

/* The entry of a product of the same line, type and spec, as layers and unrolled loops have them:
 * one of the last few, so that the search stays linear. NULL: none. */
static tsr__repeated *entry_like(const tsr__partitioned *parts, const tsr__repeated *entry)
{
  enum { NEAR = 8 };
  const tsr__program *program = &parts->program;
  const tsr__gnode *node = &program->nodes[entry->of];
  int last = parts->repeated_count - 1;
  for (int i = last; i >= 0 && i > last - NEAR; i--) {
    tsr__repeated *other = &parts->repeated[i];
    const tsr__gnode *g = &program->nodes[other->of];
    bool like = other->node == other->of && entry->node == entry->of && g->dtype == node->dtype &&
                g->sharding == node->sharding && !memcmp(g->dims, node->dims, sizeof g->dims);
    bool line = program->sites && program->sites[other->of] == program->sites[entry->of];
    if (like && line && other->axes == entry->axes && !strcmp(other->spec, entry->spec))
      return other;
  }
  return NULL;
}

/* Adds an entry with its spec as it is typed, or adds it to one like it. An entry whose spec is too
 * long to type is no help. */
static tsr_status list_repeated(finder *f, tsr__repeated entry, const tsr_sharding *at, int rank)
{
  tsr__partitioned *out = f->out;
  int length = tsr_sharding_text(at, rank, entry.spec, sizeof entry.spec);
  if (length < 2 || length >= (int)sizeof entry.spec) return TSR_OK;
  memmove(entry.spec, entry.spec + 1, (size_t)length);
  entry.spec[length - 2] = '\0';
  tsr__repeated *like = entry_like(out, &entry);
  if (like) {
    like->count++;
    like->flops += entry.flops;
    return TSR_OK;
  }
  if (!tsr__grow(out->program.heap, (void **)&out->repeated, &f->room,
                 (size_t)out->repeated_count + 1, sizeof entry))
    return tsr__plan_no_memory(f->error);
  out->repeated[out->repeated_count++] = entry;
  return TSR_OK;
}

/* The dim of a product's result to cut: one of the operand that was cut before, if it is long
 * enough, else the longest; -1: none. */
static int dim_to_cut(const finder *f, int n, unsigned idle)
{
  const tsr__program *program = &f->out->program;
  const tsr__gnode *node = &program->nodes[n];
  const tsr_sharding *at = lying_at(program, n);
  int64_t parts = tsr__mesh_group_size(at->mesh, idle);
  tsr__factors factors;
  int8_t map[TSR_MAX_RANK];
  tsr__factors_of(program, n, &factors);
  TSR_FOR_OPERANDS (program, node, i, o) {
    tsr__factors_in(&factors, i, map);
    for (int d = 0; d < node->rank && f->cut[o] & idle; d++)
      for (int k = 0; k < program->nodes[o].rank; k++)
        if (map[k] >= 0 && map[k] == factors.out[d] &&
            node->dims[d] >= parts * tsr__dim_parts(at, d))
          return d;
  }
  return tsr__longest_dim(node, at);
}

/* A product that is whole along axes that cut something before it. */
static tsr_status find_product(finder *f, int n)
{
  const tsr__program *program = &f->out->program;
  unsigned idle = alike_axes(program, n) & f->cut[n];
  tsr__repeated entry = { .node = n, .of = n, .count = 1, .axes = (uint8_t)idle, .bytes = -1 };
  uint8_t axis[TSR_MAX_AXES];
  int count = 0, dim = idle ? dim_to_cut(f, n, idle) : -1;
  entry.flops = tsr__flops_dot(program, n, true);
  if (dim < 0 || entry.flops < LEAST_FLOPS) return TSR_OK;
  for (int a = 0; a < TSR_MAX_AXES; a++)
    if (idle >> a & 1) axis[count++] = (uint8_t)a;
  tsr_sharding place = tsr__cut_further(lying_at(program, n), dim, axis, count);
  return list_repeated(f, entry, &place, program->nodes[n].rank);
}

/* The array that a loop slices, before the planner moved it. */
static int before_moves(const tsr__program *program, int n)
{
  while (program->nodes[n].op == TSR__OP_RESHARD) n = tsr__in(program, &program->nodes[n], 0);
  return n;
}

/* A loop with slices that were cut along dim 0 and lie whole for it. One entry names the first of
 * them that could be cut elsewhere: products of a step that differ along none of the lost axes.
 *
 *   %1 @(x,-,-)     %2 = reshard(%1) @(-,-,-)     scan(%2)     x is lost; of: %1, spec -,x,- */
static tsr_status find_loop(finder *f, const tsr__inner *inner)
{
  const tsr__program *program = &f->out->program;
  const tsr__gnode *node = &program->nodes[inner->node];
  const tsr__loop_attr *attr = tsr__attr_of(program, node);
  for (int64_t i = attr->carries; i < attr->carries + attr->slices; i++) {
    int to = tsr__in(program, node, (int)i), of = before_moves(program, to), dim = 1;
    const tsr_sharding *lies = lying_at(program, of), *at = lying_at(program, to);
    unsigned lost = tsr__dim_axes(lies, 0) & ~tsr__used_axes(at);
    tsr_shape shape = tsr__gnode_shape(&program->nodes[of]);
    tsr_sharding other;
    while (dim < shape.rank && !tsr__cut_instead(lies, &shape, dim, &other)) dim++;
    if (!lost || lies->mesh != at->mesh || dim == shape.rank) continue;
    tsr__repeated entry = { .node = inner->node, .of = of, .count = 1, .axes = (uint8_t)lost };
    entry.flops = alike_flops(&inner->parts, lies->mesh, lost) * region_steps(f->out, inner);
    entry.bytes = tsr__reshard_bytes(lies, &other, (tsr_dtype)program->nodes[of].dtype, &shape);
    return entry.flops < LEAST_FLOPS ? TSR_OK : list_repeated(f, entry, &other, shape.rank);
  }
  return TSR_OK;
}

/* Entries of a program without those of its regions. */
static tsr_status find_repeated(finder *f, tsr__arena *arena)
{
  const tsr__program *program = &f->out->program;
  f->cut = tsr__arena_new(arena, (size_t)program->node_count + 1);
  if (!f->cut) return tsr__plan_no_memory(f->error);
  for (int n = 0; n < program->node_count; n++) {
    f->cut[n] = (uint8_t)tsr__used_axes(lying_at(program, n));
    TSR_FOR_OPERANDS (program, &program->nodes[n], i, o) f->cut[n] |= f->cut[o];
    if (is_placed_product(program, n) && find_product(f, n)) return f->error->status;
  }
  for (int i = 0; i < f->out->inner_count; i++)
    if (find_loop(f, &f->out->inner[i])) return f->error->status;
  return TSR_OK;
}

static tsr_status trim_repeated(finder *f)
{
  tsr__partitioned *out = f->out;
  if (tsr__trim(out->program.heap, (void **)&out->repeated, f->room, (size_t)out->repeated_count,
                sizeof *out->repeated))
    return TSR_OK;
  out->repeated_count = 0;
  return tsr__plan_no_memory(f->error);
}

tsr_status tsr__repeated_make(tsr__arena *arena, tsr__partitioned *out, tsr__error *error)
{
  finder f = { .out = out, .error = error };
  tsr_status status = find_repeated(&f, arena), trimmed = trim_repeated(&f);
  if (!status) status = trimmed;
  for (int i = 0; i < out->inner_count && !status; i++)
    status = tsr__repeated_make(arena, &out->inner[i].parts, error);
  return status;
}

/* ---- ways that share work ---- */

static int count_ways(const tsr__way *way)
{
  int count = 0;
  for (; way; way = way->next) count++;
  return count;
}

/* A product that devices would make alike may cut a kept dim by the axes that they differ along, if
 * these cut something that it is computed of; so may one of which some devices would have no part:
 *
 *   x f32[64,16]@(x,-)
 *   %1 = reshape(x)  f32[8,8,16]@(x,-,-)
 *   %2 = %1[k]       f32[8,16]@(-,-)        the cut dim is gone
 *   %2 w             f32[8,32]@(-,-)        all devices make it, or with x cut again each its part
 *   %1 v             f32[8,8,4]@(x,-,-)     of 16 devices 8 have a part
 *
 * Axes that cut nothing before stay idle: their user left all work along them whole. */
static void add_shared_ways(tsr__flow *flow, int n)
{
  const tsr__gnode *node = &flow->program->nodes[n];
  unsigned cut = 0;
  if (!flow->places[flow->ways[n]->at].mesh) return;
  TSR_FOR_OPERANDS (flow->program, node, i, o) cut |= flow->was_cut[o];
  tsr_sharding place = flow->places[flow->ways[n]->at];
  unsigned empty = empty_axes(node, &place);
  unsigned idle = (tsr__flow_idle_axes(flow, n, flow->ways[n]) & cut) | empty;
  const tsr__terms *terms = idle ? tsr__memo_terms(flow, n) : NULL;
  place = tsr__partial_place(&place, empty);
  for (int d = 0; terms && d < node->rank && !flow->failed; d++)
    if (terms->kind[terms->out[d]] == TSR__FACTOR_PASS && node->dims[d] > 1)
      tsr__flow_add_cut_way(flow, n, place, d, idle);
}

/* Cut dims of a reshape's operand that are minor in their fold become whole; or their axes cut the
 * fold's major dim, to which as few elements move as to any place:
 *
 *   f32[8,32,16]@(-,x,-) -> f32[256,16]@(-,-)    an all-gather
 *                                      @(x,-)    an all-to-all to (x,-,-) */
static void add_fold_ways(tsr__flow *flow, int n)
{
  const tsr__gnode *node = &flow->program->nodes[n];
  const tsr__gnode *in = &flow->program->nodes[tsr__in(flow->program, node, 0)];
  const tsr_sharding *from = tsr__flow_at(flow, tsr__in(flow->program, node, 0));
  tsr__fold folds[TSR_MAX_RANK];
  if (!from->mesh || from->mesh != tsr__flow_at(flow, n)->mesh) return;
  int count = tsr__folds_of(in, node, folds);
  for (int k = 0; k < count && !flow->failed; k++) {
    int end = k + 1 < count ? folds[k + 1].from.dim : in->rank;
    unsigned minor = 0;
    for (int d = folds[k].from.dim + 1; d < end; d++) minor |= tsr__dim_axes(from, d);
    if (minor) tsr__flow_add_cut_way(flow, n, *tsr__flow_at(flow, n), folds[k].to.dim, minor);
  }
}

void tsr__work_add_ways(tsr__flow *flow, int n)
{
  const tsr__opinfo *row = &tsr__ops[flow->program->nodes[n].op];
  int before = count_ways(flow->ways[n]);
  if (row->contracts) add_shared_ways(flow, n);
  if (row->reshapes) add_fold_ways(flow, n);
  flow->sharing->found |= count_ways(flow->ways[n]) > before;
}
