/* Loops: nodes that run their regions; each region is a program with a plan of its own.
 *
 *   %2:2 = scan(%0, %1)            operands   constrained to their places in the program before the
 *       %0 = arg 1                            node; slices whole along the steps
 *       ...                        regions    arguments are leaves with these places; results of a
 *       return %3, %4       -->               step are constrained to the places of the next step
 *   %3 = %2#0
 *   %4 = %2#1                      results    at the places where the region leaves them
 *
 * A carry keeps its first place. A carry without a place at first, a number or an unplaced value,
 * gets the place where the first step would leave it.
 *
 * Slices whose dim 0 is cut, as micro-batches are that a reshape makes, lie whole, and each device
 * makes all steps; or their axes cut another dim, and the devices share each step:
 *
 *   x f32[8,32,16]@(x,-,-)   (-,-,-)    an all-gather before the loop, all work on each device
 *                            (-,x,-)    an all-to-all, and the moves of the steps */
#include "partition/flow.h"

typedef struct opener {
  const tsr__program *in;
  tsr__program *out;
  int32_t *place; /* by node of `in` */
  tsr__partitioned *parts;
  tsr__sharing *sharing; /* NULL: slices lie whole */
  tsr__arena *arena;
  tsr__error *error;
} opener;

/* A loop being planned: places by operand, as the loop takes it (`at`) and as it lies before
 * (`lies`), and by result (`made`). */
typedef struct opened {
  const tsr__gnode *node;
  const tsr__loop_attr *attr;
  int n, result_count;
  tsr_sharding *at, *lies, *made;
} opened;

/* A loop is planned inside out. The plans of its regions decide the places of carries, and these
 * places decide the plans, so planning goes in rounds:
 *
 *   find_operands       the operands' places in the program before the node, by propagation as of
 *                       now
 *   share_slices        slices whose dim 0 is cut: whole, or cut along another dim, as is cheaper
 *                       with the plans of the regions that follow
 *   find_result_places  plan the regions with these places; a carry that was unplaced and comes to
 *                       lie somewhere is placed there from the next round on. Each round settles
 *                       one more carry, or is the last
 *   plan_regions        plan them for good: a step's results are constrained to the next step's
 *                       places
 *   add_loop            the node in the program around it, with operands constrained likewise
 *
 * Regions have regions: plan_region goes down by tsr__partition. */
bool tsr__has_loops(const tsr__program *program)
{
  for (int n = 0; n < program->node_count; n++)
    if (tsr__ops[program->nodes[n].op].loops) return true;
  return false;
}

/* ---- places ---- */

/* The same place without dim 0 (`by` 1), with dim 0 whole (0), or with a whole dim in front (-1).
 * Unreduced axes are dropped: sums are made. */
static tsr_sharding shifted(const tsr_sharding *at, int by)
{
  tsr_sharding out;
  uint8_t used = 0;
  memset(&out, 0, sizeof out);
  if (!at->mesh) return out;
  out.mesh = at->mesh;
  out.rank = TSR_MAX_RANK;
  /*   at (x | y)      by 1: (y)        a step's slice of what lies so
   *                   by 0: (- | y)    the same, whole along the steps: each device has all of them
   *                   by -1: (- | x | y)   the stack of what steps leave so */
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    int from = d + by;
    bool cut = from >= 0 && from < TSR_MAX_RANK && (by || d);
    for (int i = cut ? at->first[from] : 0; cut && i < at->first[from + 1]; i++)
      out.axis[used++] = at->axis[i];
    out.first[d + 1] = used;
  }
  return out;
}

/* The place with sums reduced: an unreduced sum cannot be a carry, since the next step would add to
 * it. */
static tsr_sharding without_sums(const tsr_sharding *at)
{
  tsr_sharding none;
  memset(&none, 0, sizeof none);
  return at->mesh ? tsr__partial_place(at, 0) : none;
}

static bool is_slice(const opened *o, int operand)
{
  return operand >= o->attr->carries && operand < o->attr->carries + o->attr->slices;
}

/* ---- a region as a program ---- */

/* A copy of a region's program in the making. */
typedef struct closing {
  const opened *of;
  const tsr__region *region;
  tsr__program program;
  tsr__inner *inner;
  int32_t *place; /* by node of the region */
  tsr__arena *arena;
} closing;

/* The number of a step is a number of the run, after those of the region. */
/*   numbers of a run   | those of the region's formulas | the step |
 *
 * The step is one element everywhere, written before each run of the region's plan. */
static int32_t add_step_number(closing *c, const char *site)
{
  tsr__gnode number = {
    .op = TSR__OP_CONST, .dtype = TSR_I64, .param_count = 1, .param = c->region->program.param_count
  };
  tsr__gnode full = { .op = TSR__OP_FULL, .dtype = TSR_I64, .param = -1 };
  int32_t at = tsr__program_add(&c->program, &number, TSR__LINKS_NONE, site);
  return at < 0 ? at : tsr__program_add(&c->program, &full, TSR__LINKS(at), site);
}

static int32_t add_argument(closing *c, int n, const char *site)
{
  tsr__gnode node = c->region->program.nodes[n];
  int i = tsr__index_of(&c->region->program, &node), operand = tsr__loop_operand(c->of->attr, i);
  if (operand < 0) return add_step_number(c, site);
  tsr_sharding at = c->of->at[operand];
  /* The region reads one step of the slice. */
  if (is_slice(c->of, operand)) at = shifted(&at, 1);
  /* In the region's plan an argument is a leaf: it is bound when the plan runs. */
  node.op = TSR__OP_LEAF;
  node.attr = node.attr_bytes = 0;
  node.sharding = (uint16_t)tsr__program_sharding(&c->program, &at);
  node.flags = node.sharding ? TSR__PLACED : 0;
  int32_t index = tsr__program_add(&c->program, &node, TSR__LINKS_NONE, site);
  c->inner->operands[c->inner->argument_count] = operand;
  c->inner->arguments[c->inner->argument_count++] = index;
  return index;
}

static int32_t add_copy(closing *c, int n, const char *site)
{
  const tsr__program *from = &c->region->program;
  tsr__gnode node = from->nodes[n];
  int links = node.in_count + node.region_count;
  int32_t *in = tsr__arena_new(c->arena, ((size_t)links + 1) * sizeof *in);
  if (!in) return -1;
  for (int i = 0; i < links; i++) {
    int32_t o = from->operands[node.first_in + i];
    in[i] = i < node.in_count && o >= 0 ? c->place[o] : o;
  }
  if (node.sharding)
    node.sharding = (uint16_t)tsr__program_sharding(&c->program, &from->shardings[node.sharding]);
  /* Roots are the region's results, in its own order (add_result). */
  node.flags &= (uint8_t)~TSR__ROOT;
  return tsr__program_add(&c->program, &node, (tsr__links){ in, links }, site);
}

/* A place that the planner asks for, with the site and reason of its explanation. */
typedef struct wish {
  const tsr_sharding *to;
  const char *site;
  tsr__why why;
} wish;

/* Node `at` constrained to the wanted place, or `at` itself if the wish has no mesh. */
static int32_t constrain_node(tsr__program *p, int32_t at, wish w)
{
  const tsr_sharding *to = w.to;
  if (!to->mesh) return at;
  tsr__gnode node = p->nodes[at];
  tsr__gnode place = { .op = TSR__OP_CONSTRAIN,
                       .dtype = node.dtype,
                       .rank = node.rank,
                       .flags = TSR__PLACED,
                       .sharding = (uint16_t)tsr__program_sharding(p, to),
                       .attr_bytes = sizeof(tsr__place_attr),
                       .param = -1 };
  const tsr__place_attr attr = { .why = w.why };
  memcpy(place.dims, node.dims, sizeof place.dims);
  place.attr = tsr__program_attr(p, &attr, sizeof attr);
  return tsr__program_add(p, &place, TSR__LINKS(at), w.site);
}

static int32_t add_result(closing *c, int i, const tsr_sharding *want)
{
  tsr__program *p = &c->program;
  int32_t at = c->place[c->region->results[i]];
  bool chosen = c->of->attr->kind == TSR__LOOP_SWITCH;
  wish w = { want, tsr__site_at(p, at), chosen ? TSR__WHY_LEFT : TSR__WHY_NEXT };
  if (want) at = constrain_node(p, at, w);
  if (at >= 0) p->nodes[at].flags |= TSR__ROOT;
  return at;
}

/* Whether a node is an argument: leaves of a region that are numbers are not. */
static bool is_argument(const tsr__gnode *node)
{
  return tsr__is_leaf(node->op) && tsr__ops[node->op].attr == TSR__ATTR_INDEX;
}

static bool close_region(closing *c, const tsr_sharding *want)
{
  const tsr__program *from = &c->region->program;
  c->place = tsr__arena_new(c->arena, ((size_t)from->node_count + 1) * sizeof *c->place);
  if (!c->place || !tsr__program_share(&c->program, from)) return false;
  /* One more number: that of the step. */
  c->program.param_count = from->param_count + 1;
  for (int n = 0; n < from->node_count; n++) {
    const char *site = tsr__site_at(from, n);
    bool argument = is_argument(&from->nodes[n]);
    c->place[n] = argument ? add_argument(c, n, site) : add_copy(c, n, site);
    if (c->place[n] < 0) return false;
  }
  for (int i = 0; i < c->region->result_count; i++) {
    c->inner->results[i] = add_result(c, i, want ? &want[i] : NULL);
    if (c->inner->results[i] < 0) return false;
  }
  return !c->program.failed;
}

/* ---- its plan ---- */

const tsr__num *tsr__inner_numbers(const tsr__partitioned *partitioned, int inner,
                                   const tsr__num *params)
{
  const tsr__inner *of = &partitioned->inner[inner];
  /* Numbers of a node are those of its regions one after the other; so are its entries in
   * `inner`. */
  int at = partitioned->program.nodes[of->node].param;
  for (int r = 1; r <= of->region; r++) at += partitioned->inner[inner - r].number;
  return params && at > 0 ? params + at : params;
}

void tsr__inner_free(tsr__inner *inner, tsr__heap *heap)
{
  tsr__partitioned_free(&inner->parts, heap);
  if (inner->block) tsr__del(heap, inner->block, inner->block_bytes);
  memset(inner, 0, sizeof *inner);
}

static bool open_inner(tsr__inner *inner, const tsr__region *region, tsr__heap *heap)
{
  size_t nodes = (size_t)region->program.node_count, results = (size_t)region->result_count;
  memset(inner, 0, sizeof *inner);
  inner->block_bytes = (2 * nodes + results + 1) * sizeof(int32_t);
  inner->block = tsr__new(heap, inner->block_bytes);
  inner->arguments = inner->block;
  inner->operands = inner->arguments + nodes;
  inner->results = inner->operands + nodes;
  inner->result_count = region->result_count;
  inner->number = region->program.param_count;
  return inner->block;
}

/* Plans region `r` of a node; `want`: the places of its results, or NULL. */
static tsr_status plan_region(const opener *p, const opened *o, int r, const tsr_sharding *want,
                              tsr__inner *inner)
{
  tsr__heap *heap = p->out->heap;
  closing c = {
    .of = o, .region = tsr__region_in(p->in, o->node, r), .inner = inner, .arena = p->arena
  };
  tsr__program_init(&c.program, heap);
  bool good = open_inner(inner, c.region, heap) && close_region(&c, want);
  tsr_status status =
      good ? tsr__partition_region(&c.program, heap, p->sharing, &inner->parts, p->error)
           : tsr__plan_no_memory(p->error);
  tsr__program_free(&c.program);
  if (status) {
    tsr__inner_free(inner, heap);
    return status;
  }
  /* Arguments and results were nodes of the closed program until here; the plan that runs has the
   * nodes of the partitioned one. */
  const int32_t *home = inner->parts.home;
  for (int i = 0; i < inner->argument_count; i++) inner->arguments[i] = home[inner->arguments[i]];
  for (int i = 0; i < inner->result_count; i++) inner->results[i] = home[inner->results[i]];
  return TSR_OK;
}

static tsr_sharding result_place(const tsr__inner *inner, int i)
{
  const tsr__program *program = &inner->parts.program;
  return without_sums(&program->shardings[program->nodes[inner->results[i]].sharding]);
}

/* Finds the places of a loop's results if none are asked for; each result takes the place of the
 * first region that places it. *moved: a carry has a place now that had none. */
static tsr_status find_result_places(const opener *p, opened *o, bool *moved)
{
  /* Bodies of a switch have the same results, so the first body that places a result decides. The
   * last region of a loop is its body; a while has its condition before it. */
  int first = o->attr->kind == TSR__LOOP_SWITCH ? 0 : o->node->region_count - 1;
  *moved = false;
  for (int r = first; r < o->node->region_count; r++) {
    tsr__inner inner;
    if (plan_region(p, o, r, NULL, &inner)) return p->error->status;
    for (int i = 0; i < o->result_count; i++) {
      tsr_sharding place = result_place(&inner, i);
      bool carry = i < o->attr->carries;
      if (carry && !o->at[i].mesh && place.mesh) {
        o->at[i] = place;
        *moved = true;
      }
      /* A carry returns to its own place; a stacked result lies where the step leaves it. */
      if (r == first || !o->made[i].mesh) o->made[i] = carry ? o->at[i] : place;
    }
    tsr__inner_free(&inner, p->out->heap);
  }
  return TSR_OK;
}

static bool keep_inner(const opener *p, const tsr__inner *inner)
{
  tsr__partitioned *parts = p->parts;
  if (!tsr__grow(p->out->heap, (void **)&parts->inner, &parts->inner_room,
                 (size_t)parts->inner_count + 1, sizeof *inner))
    return false;
  parts->inner[parts->inner_count++] = *inner;
  return true;
}

/* At most carries + 1 rounds: each but the last settles a carry for good. */
static tsr_status settle_places(const opener *p, opened *o)
{
  bool moved = true;
  for (int round = 0; moved && round <= o->attr->carries; round++)
    if (find_result_places(p, o, &moved)) return p->error->status;
  return TSR_OK;
}

/* The places that results of a region have to come to. The condition gives a bool, which is no
 * carry. */
static const tsr_sharding *wanted_places(const opened *o, int r)
{
  return o->attr->kind == TSR__LOOP_WHILE && r == 0 ? NULL : o->made;
}

static tsr_status plan_regions(const opener *p, opened *o)
{
  if (settle_places(p, o)) return p->error->status;
  for (int r = 0; r < o->node->region_count; r++) {
    tsr__inner inner;
    if (plan_region(p, o, r, wanted_places(o, r), &inner)) return p->error->status;
    inner.node = o->n;
    inner.region = r;
    if (keep_inner(p, &inner)) continue;
    tsr__inner_free(&inner, p->out->heap);
    return tsr__plan_no_memory(p->error);
  }
  return TSR_OK;
}

/* ---- slices that share the work of a step ---- */

bool tsr__cut_instead(const tsr_sharding *lies, const tsr_shape *shape, int dim, tsr_sharding *out)
{
  int count = lies->first[1];
  if (!lies->mesh || !count || dim < 1 || dim >= shape->rank) return false;
  tsr_sharding place = shifted(lies, 0);
  place = tsr__cut_further(&place, dim, lies->axis, count);
  if (shape->dims[dim] < tsr__dim_parts(&place, dim)) return false;
  *out = place;
  return true;
}

static tsr_shape slice_shape(const opener *p, const opened *o, int i)
{
  return tsr__gnode_shape(&p->in->nodes[tsr__in(p->in, o->node, i)]);
}

/* Cuts a dim of slices by the axes that cut their dim 0; false: no slice has that dim. */
static bool cut_slices(const opener *p, const opened *o, int dim)
{
  bool any = false;
  for (int i = (int)o->attr->carries; is_slice(o, i); i++) {
    tsr_shape shape = slice_shape(p, o, i);
    any |= tsr__cut_instead(&o->lies[i], &shape, dim, &o->at[i]);
  }
  return any;
}

/* The estimated seconds of a loop: its slices come to lie as it takes them, and its steps run. */
static tsr_status weigh_loop(const opener *p, opened *o, double *seconds)
{
  *seconds = 0;
  for (int i = (int)o->attr->carries; is_slice(o, i); i++) {
    const tsr__gnode *slice = &p->in->nodes[tsr__in(p->in, o->node, i)];
    tsr_shape shape = slice_shape(p, o, i);
    if (!o->lies[i].mesh) continue;
    tsr__crossed crossed =
        tsr__move_crosses(&(tsr__reshard){ &o->lies[i], &o->at[i], &shape, NULL, 0 },
                          (tsr_dtype)slice->dtype);
    *seconds += tsr__crossed_seconds(&crossed);
  }
  if (settle_places(p, o)) return p->error->status;
  for (int r = 0; r < o->node->region_count; r++) {
    tsr__inner inner;
    if (plan_region(p, o, r, wanted_places(o, r), &inner)) return p->error->status;
    *seconds += tsr__plan_seconds(&inner.parts) * (double)o->attr->count;
    tsr__inner_free(&inner, p->out->heap);
  }
  return TSR_OK;
}

static bool copy_places(const opener *p, const opened *o, opened *out)
{
  size_t operands = (size_t)o->node->in_count + 1, results = (size_t)o->result_count + 1;
  *out = *o;
  out->at = tsr__arena_new(p->arena, operands * sizeof *out->at);
  out->made = tsr__arena_new(p->arena, results * sizeof *out->made);
  if (!out->at || !out->made) return false;
  memcpy(out->at, o->at, operands * sizeof *out->at);
  return true;
}

/* Takes the places of slices with which the loop takes the least time; equal times leave them
 * whole. All slices are tried along the same dim, as arrays of one batch have it in common:
 *
 *   x f32[8,32,512]@(x,-,-)  y i32[8,32]@(x,-)     dim 0: x (-,-,-)   y (-,-)
 *                                                  dim 1: x (-,x,-)   y (-,x)
 *                                                  dim 2: x (-,-,x)   y (-,-) */
static tsr_status share_slices(const opener *p, opened *o)
{
  opened best = { .node = NULL };
  double least = 0;
  for (int dim = 0; dim < TSR_MAX_RANK; dim++) {
    opened some;
    double seconds;
    if (!copy_places(p, o, &some)) return tsr__plan_no_memory(p->error);
    if (dim && !cut_slices(p, &some, dim)) continue;
    if (weigh_loop(p, &some, &seconds)) return p->error->status;
    if (!dim || seconds < least) best = some;
    if (!dim || seconds < least) least = seconds;
  }
  p->sharing->found = true;
  memcpy(o->at, best.at, (size_t)o->node->in_count * sizeof *o->at);
  return TSR_OK;
}

/* Whether a loop has slices whose dim 0 is cut and could be cut elsewhere. */
static bool may_share_slices(const opener *p, const opened *o)
{
  tsr_sharding unused;
  for (int i = (int)o->attr->carries; p->sharing && is_slice(o, i); i++) {
    tsr_shape shape = slice_shape(p, o, i);
    for (int dim = 1; dim < shape.rank; dim++)
      if (tsr__cut_instead(&o->lies[i], &shape, dim, &unused)) return true;
  }
  return false;
}

/* ---- the program around it ---- */

/* Finds the places of a loop's operands in the program so far. */
static tsr_status find_operands(const opener *p, opened *o)
{
  tsr__flow flow;
  /* This walks all nodes before the loop, once a loop; programs have few loops. */
  tsr__flow_opts opts = { .sharing = p->sharing };
  if (tsr__flow_run(p->out, opts, p->arena, &flow, p->error)) return p->error->status;
  for (int i = 0; i < o->node->in_count; i++) {
    const tsr_sharding *at = tsr__flow_at(&flow, p->place[tsr__in(p->in, o->node, i)]);
    o->lies[i] = *at;
    o->at[i] = is_slice(o, i) ? shifted(at, 0) : without_sums(at);
  }
  return TSR_OK;
}

static tsr__why why_of_slice(const opened *o, int i)
{
  tsr_sharding whole = shifted(&o->lies[i], 0);
  return memcmp(&whole, &o->at[i], sizeof whole) ? TSR__WHY_SHARED : TSR__WHY_STEPS;
}

static tsr_status add_loop(const opener *p, const opened *o)
{
  tsr__gnode node = *o->node;
  int links = node.in_count + node.region_count;
  int32_t *in = tsr__arena_new(p->arena, ((size_t)links + 1) * sizeof *in);
  if (!in) return tsr__plan_no_memory(p->error);
  wish w = { .site = tsr__site_at(p->in, o->n) };
  for (int i = 0; i < node.in_count; i++) {
    w.to = &o->at[i];
    w.why = is_slice(o, i) ? why_of_slice(o, i) : TSR__WHY_CARRIED;
    in[i] = constrain_node(p->out, p->place[tsr__in(p->in, &node, i)], w);
    if (in[i] < 0) return tsr__plan_no_memory(p->error);
  }
  /* The regions stay those of the given program, which shares them. */
  for (int i = node.in_count; i < links; i++) in[i] = p->in->operands[node.first_in + i];
  for (int i = 0; i < node.result_count; i++) {
    bool stack = o->attr->kind == TSR__LOOP_SCAN && i >= o->attr->carries;
    tsr_sharding at = stack ? shifted(&o->made[i], -1) : o->made[i];
    p->out->results[node.first_result + i].sharding = (uint16_t)tsr__program_sharding(p->out, &at);
  }
  p->place[o->n] =
      tsr__program_add(p->out, &node, (tsr__links){ in, links }, tsr__site_at(p->in, o->n));
  return p->place[o->n] < 0 ? tsr__plan_no_memory(p->error) : TSR_OK;
}

static tsr_status plan_loop_node(const opener *p, int n)
{
  const tsr__gnode *node = &p->in->nodes[n];
  opened o = {
    .node = node, .attr = tsr__attr_of(p->in, node), .n = n, .result_count = node->result_count
  };
  o.at = tsr__arena_new(p->arena, ((size_t)node->in_count + 1) * sizeof *o.at);
  o.lies = tsr__arena_new(p->arena, ((size_t)node->in_count + 1) * sizeof *o.lies);
  o.made = tsr__arena_new(p->arena, ((size_t)node->result_count + 1) * sizeof *o.made);
  if (!o.at || !o.lies || !o.made) return tsr__plan_no_memory(p->error);
  tsr_status status = find_operands(p, &o);
  if (!status && may_share_slices(p, &o)) status = share_slices(p, &o);
  if (!status) status = plan_regions(p, &o);
  return status ? status : add_loop(p, &o);
}

/* A result of a loop lies where the loop leaves it. */
/* The node that takes the result is marked as placed by a user, so that propagation does not
 * choose. */
static void place_loop_result(const opener *p, const tsr__gnode *loop, tsr__gnode *node)
{
  int i = tsr__index_of(p->in, node);
  node->sharding = p->out->results[loop->first_result + i].sharding;
  if (node->sharding) node->flags |= TSR__PLACED;
}

static tsr_status copy_plain_node(const opener *p, int n)
{
  tsr__gnode node = p->in->nodes[n];
  int32_t *in = tsr__arena_new(p->arena, ((size_t)node.in_count + 1) * sizeof *in);
  if (!in) return tsr__plan_no_memory(p->error);
  for (int i = 0; i < node.in_count; i++) {
    int o = tsr__in(p->in, &node, i);
    in[i] = o < 0 ? -1 : p->place[o];
    bool part = o >= 0 && tsr__takes_result(node.op);
    if (part && tsr__ops[p->in->nodes[o].op].loops)
      place_loop_result(p, &p->out->nodes[in[i]], &node);
  }
  p->place[n] =
      tsr__program_add(p->out, &node, (tsr__links){ in, node.in_count }, tsr__site_at(p->in, n));
  return p->place[n] < 0 ? tsr__plan_no_memory(p->error) : TSR_OK;
}

tsr_status tsr__loops_open(tsr__flat *flat, tsr__arena *arena, tsr__sharing *sharing,
                           tsr__partitioned *parts, tsr__error *error)
{
  const tsr__program *program = flat->of;
  tsr__program *out = &flat->program;
  tsr__program_init(out, parts->program.heap);
  flat->place = tsr__arena_new(arena, ((size_t)program->node_count + 1) * sizeof *flat->place);
  if (!flat->place || !tsr__program_share(out, program)) return tsr__plan_no_memory(error);
  opener p = { program, out, flat->place, parts, sharing, arena, error };
  out->param_count = program->param_count;
  for (int i = 1; i < program->sharding_count; i++)
    tsr__program_sharding(out, &program->shardings[i]);
  for (int n = 0; n < program->node_count; n++)
    if (tsr__ops[program->nodes[n].op].loops ? plan_loop_node(&p, n) : copy_plain_node(&p, n))
      return error->status;
  return out->failed ? tsr__plan_no_memory(error) : TSR_OK;
}
