/* Programs without regions: what a CALL's region computes stands where the call stood.
 *
 *   %1 = %0 * 2                         %1 = %0 * 2
 *   %2:2 = call(%0, %1)                 %2 = %1 + %0         the region's nodes, on its operands
 *       return (arg 1 + arg 0), arg 0
 *   %3 = %2#0                    -->    %3 = sqrt(%2)        results are read where they are made
 *   %4 = sqrt(%3)
 *
 * Invariant: every node computes what it did. Numbers stay those of the whole program: a region's
 * are its node's, counted on. What is passed in or out as a number is held by an array of rank 0,
 * since an argument is an array. */
#include "graph/graph.h"

typedef struct inliner {
  tsr__program *out;
  tsr__arena *arena; /* for what is found on the way */
  bool rules;        /* nodes that have a rule of their own stay, and labels */
} inliner;

/* A program that is put into another. */
typedef struct frame {
  const tsr__program *program;
  const int32_t *args; /* of a region: its node's operands, in `out` */
  int32_t param;       /* where its numbers begin */
  bool inside;         /* it is a region's */
  const char *site;    /* of the node that has the region */
  int32_t *place;      /* by node: where it is in `out`; a CALL is nowhere */
  int32_t **results;   /* by node: of a CALL where its results are */
} frame;

/* Whether its region stands in its place; those behind the first are rules. */
static bool is_inlined(const inliner *in, const tsr__gnode *node)
{
  return tsr__is_call(node->op) && !(in->rules && node->region_count > 1);
}

static const char *site_of(const frame *f, int n)
{
  const char *own = f->program->sites ? f->program->sites[n] : NULL;
  return own ? own : f->site;
}

/* The node itself, or of a number an array that holds it. An argument that is a number would be
 * one that its region's nodes are not made for: they were traced with an array. */
static int32_t held(inliner *in, int32_t at, const char *site)
{
  if (at < 0 || in->out->nodes[at].op != TSR__OP_CONST) return at;
  tsr__gnode full = { .op = TSR__OP_FULL, .dtype = in->out->nodes[at].dtype, .param = -1 };
  return tsr__program_add(in->out, &full, TSR__LINKS(at), site);
}

static bool open_frame(inliner *in, frame *f, const tsr__program *program)
{
  size_t nodes = (size_t)program->node_count + 1;
  f->program = program;
  f->place = tsr__arena_new(in->arena, nodes * sizeof *f->place);
  f->results = tsr__arena_new(in->arena, nodes * sizeof *f->results);
  return f->place && f->results;
}

/* Where a node's operands are in `out`, with room for its regions; NULL out of memory. */
static int32_t *operands_of(inliner *in, const frame *f, int n)
{
  const tsr__gnode *node = &f->program->nodes[n];
  size_t room = (size_t)node->in_count + node->region_count + 1;
  int32_t *links = tsr__arena_new(in->arena, room * sizeof *links);
  for (int i = 0; links && i < node->in_count; i++) {
    int o = tsr__in(f->program, node, i);
    links[i] = o < 0 ? -1 : f->place[o];
  }
  return links;
}

/* A copy on the operands as they are now. */
static bool copy_node(inliner *in, frame *f, int n)
{
  const tsr__program *program = f->program;
  tsr__gnode node = program->nodes[n];
  int32_t *links = operands_of(in, f, n);
  if (!links) return false;
  /* All indices are of the program it comes from, and are looked up in the new one, where equal
   * things are one again. */
  if (node.attr_bytes)
    node.attr = tsr__program_attr(in->out, program->attrs + node.attr, node.attr_bytes);
  if (node.sharding)
    node.sharding = (uint16_t)tsr__program_sharding(in->out, &program->shardings[node.sharding]);
  if (node.result_count)
    node.first_result =
        tsr__program_results(in->out, &program->results[node.first_result], node.result_count);
  /* A region's numbers begin at 0; the node's own say where they are in the whole program. */
  if (node.param >= 0) node.param += f->param;
  /* Roots are what the terminal asked for; a body's results are the call's. */
  if (f->inside) node.flags &= (uint8_t) ~(TSR__ROOT | TSR__KEEP);
  for (int i = 0; i < node.region_count; i++) {
    int region = tsr__program_region(in->out, tsr__region_in(program, &program->nodes[n], i));
    if (region < 0) return false;
    links[node.in_count + i] = region;
  }
  f->place[n] =
      tsr__program_add(in->out, &node, (tsr__links){ links, node.in_count + node.region_count },
                       site_of(f, n));
  return f->place[n] >= 0;
}

static bool put_program(inliner *in, frame *f);

static bool put_region(inliner *in, frame *f, int n)
{
  const tsr__gnode *node = &f->program->nodes[n];
  const tsr__region *region = tsr__region_in(f->program, node, 0);
  const char *site = site_of(f, n);
  int32_t *args = operands_of(in, f, n);
  int32_t *results =
      tsr__arena_new(in->arena, ((size_t)region->result_count + 1) * sizeof *results);
  frame inside = { .args = args,
                   .param = f->param + (node->param < 0 ? 0 : node->param),
                   .inside = true,
                   .site = site };
  if (!args || !results || !open_frame(in, &inside, &region->program)) return false;
  /* Before the body is put in, so that all of its uses share one array. */
  for (int i = 0; i < node->in_count; i++) args[i] = held(in, args[i], site);
  if (!put_program(in, &inside)) return false;
  for (int i = 0; i < region->result_count; i++)
    results[i] = held(in, inside.place[region->results[i]], site);
  f->results[n] = results;
  /* The call itself has no node: RESULT nodes are looked up in `results`. */
  f->place[n] = -1;
  return true;
}

/* Four kinds of node are not copied: a call becomes its body, an argument the array that is passed,
 * a result of a call the node of the body that made it, and a label its operand. Other nodes are
 * copied on their operands as these are now. */
static bool put_node(inliner *in, frame *f, int n)
{
  const tsr__gnode *node = &f->program->nodes[n];
  int o = tsr__in(f->program, node, 0);
  if (is_inlined(in, node)) return put_region(in, f, n);
  if (node->op == TSR__OP_ARG && f->inside) f->place[n] = f->args[tsr__index_of(f->program, node)];
  else if (o >= 0 && is_inlined(in, &f->program->nodes[o]))
    f->place[n] = f->results[o][tsr__index_of(f->program, node)];
  else if (tsr__is_label(node->op) && !in->rules)
    f->place[n] = held(in, f->place[tsr__in(f->program, node, node->in_count - 1)], site_of(f, n));
  else return copy_node(in, f, n);
  /* Two roots may be one node here: it keeps what either has. */
  if (f->place[n] >= 0 && !f->inside)
    in->out->nodes[f->place[n]].flags |= node->flags & (TSR__ROOT | TSR__KEEP);
  return f->place[n] >= 0;
}

static bool put_program(inliner *in, frame *f)
{
  for (int n = 0; n < f->program->node_count; n++)
    if (!put_node(in, f, n)) return false;
  return !in->out->failed;
}

bool tsr__program_inline(const tsr__program *program, bool rules, tsr__arena *arena,
                         tsr__program *out, int32_t **place)
{
  inliner in = { .out = out, .arena = arena, .rules = rules };
  frame whole = { .param = 0 };
  tsr__program_init(out, program->heap);
  /* Numbers stay with the run's program, of which this is a view: only their count is taken
   * over. */
  out->param_count = program->param_count;
  if (!open_frame(&in, &whole, program) || !put_program(&in, &whole)) return false;
  *place = whole.place;
  return true;
}

/* Whether a node is shown to a callback, or one in its regions: it runs though nobody reads it. */
static bool is_shown(const tsr__program *program, const tsr__gnode *node)
{
  bool shown = tsr__ops[node->op].attr == TSR__ATTR_TAP;
  for (int r = 0; r < node->region_count && !shown; r++) {
    const tsr__program *inner = &tsr__region_in(program, node, r)->program;
    for (int n = 0; n < inner->node_count && !shown; n++) shown = is_shown(inner, &inner->nodes[n]);
  }
  return shown;
}

/* Marks the roots and the nodes that they need. Leaves stay, as the run binds them. Returns how
 * many nodes are left over.
 *
 *   %1 = named(%0, %9)    users read %9: %0 and the nodes before it are left over, unless others
 *                         read them */
static int find_needed(const tsr__program *program, bool *needed)
{
  int others = 0;
  for (int n = program->node_count - 1; n >= 0; n--) {
    const tsr__gnode *node = &program->nodes[n];
    needed[n] |= node->flags & TSR__ROOT || tsr__is_leaf(node->op) || is_shown(program, node);
    others += !needed[n];
    TSR_FOR_OPERANDS (program, node, i, o) needed[o] |= needed[n];
  }
  return others;
}

bool tsr__program_drop_others(tsr__program *all, tsr__arena *arena, int32_t *place, int count)
{
  tsr__program out;
  size_t nodes = (size_t)all->node_count + 1, links = (size_t)all->operand_count + 1;
  bool *needed = tsr__arena_new(arena, nodes);
  int32_t *at = tsr__arena_new(arena, nodes * sizeof *at);
  int32_t *in = tsr__arena_new(arena, links * sizeof *in);
  if (!needed || !at || !in) return false;
  if (!find_needed(all, needed)) return true;
  tsr__program_init(&out, all->heap);
  out.param_count = all->param_count;
  bool good = tsr__program_share(&out, all);
  for (int i = 1; i < all->sharding_count; i++) tsr__program_sharding(&out, &all->shardings[i]);
  for (int n = 0; n < all->node_count && good; n++) {
    const tsr__gnode *node = &all->nodes[n];
    int operands = node->in_count + node->region_count;
    at[n] = -1;
    if (!needed[n]) continue;
    memcpy(in, all->operands + node->first_in, (size_t)operands * sizeof *in);
    TSR_FOR_OPERANDS (all, node, i, o) in[i] = at[o];
    const char *site = all->sites ? all->sites[n] : NULL;
    at[n] = tsr__program_add(&out, node, (tsr__links){ in, operands }, site);
    good = at[n] >= 0;
  }
  for (int n = 0; n < count && good; n++)
    if (place[n] >= 0) place[n] = at[place[n]];
  good = good && !out.failed;
  tsr__program_free(all);
  *all = out;
  return good;
}
