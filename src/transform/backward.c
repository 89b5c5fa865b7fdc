/* Going back through a region, and the table of rules: the column GRADIENT of ops.def.
 *
 * Invariant: a node's rule runs once, after all of its users' rules, and only where something is
 * due to it and an argument that is wanted leads to it. */
#include "transform/backward.h"

#include <stdio.h>

#include "tessera/shape.h"

/* ---- the table ------------------------------------------------------------------------------- */

/* What is gone through to go back:
 *
 *   forward   x ---- exp ----> y ---- mul ----> z        nodes made again, in order (replay.c)
 *   wanted    yes              yes              yes      x is differentiated by: a path of floats
 *   due       <-- due * y      <-- due * w      <-- 1    from the last node to the first
 *
 * `due` of a node is the gradient of the one number by that node: the sum of what its users give.
 * Users stand behind their operands, so when a node's turn comes all of them have given. What
 * goes back is nodes like any others: planned with what goes forward, with gradients themselves. */
typedef struct rule {
  tsr__grad_fn *pull;
  const char *none; /* why there is none */
} rule;

#define GRADIENT(rule) .pull = tsr__grad_##rule,
#define NO_GRADIENT(reason) .none = reason,
#define OP(id, text, kernel, ...) [TSR__OP_##id] = { __VA_ARGS__ },
static const rule rules[TSR__OPS] = {
#include "graph/ops.def"
};

/* For the tables in docs and the test that counts what has no gradient yet. */
const char *tsr__gradient_kind(int op)
{
  if (rules[op].none) return rules[op].none;
  if (!rules[op].pull) return NULL;
  return rules[op].pull == tsr__grad_zero ? "zero" : "rule";
}

/* The result does not change where the operand does, or by jumps: rounding, signs, comparisons.
 * It is a rule and gives nothing, where no rule is an error. */
void tsr__grad_zero(const tsr__pull *p)
{
  (void)p;
}

/* ---- what is wanted -------------------------------------------------------------------------- */

/* What is wanted ends there: nothing before such a node gets a share through it. */
static bool is_zero(int op)
{
  return rules[op].pull == tsr__grad_zero;
}

/* All of it lies in the arena of `scope`, the scope of the body that asks: nothing is freed on its
 * own. */
bool tsr__backward_open(tsr__backward *back, tsr_scope *scope, const tsr__traced *traced,
                        tsr_array *const *leaves, const char *site)
{
  *back = (tsr__backward){ .traced = traced };
  if (!tsr__replay_open(&back->replay, scope, traced, leaves, site)) return false;
  size_t nodes = (size_t)back->replay.program->node_count + 1;
  back->due = tsr__arena_new(&scope->arena, nodes * sizeof *back->due);
  back->wanted = tsr__arena_new(&scope->arena, nodes);
  return back->due && back->wanted;
}

void tsr__backward_for(tsr__backward *back, const tsr__backward *outer)
{
  back->at_zeros = outer->at_zeros;
  back->call = outer->call;
}

void tsr__backward_want(tsr__backward *back, int leaf)
{
  const tsr__program *program = back->replay.program;
  /* An argument that the body never looks at has no node, and then there is nothing to be
   * wanted. */
  for (int n = 0; n < program->node_count; n++)
    if (program->nodes[n].op == TSR__OP_ARG && tsr__index_of(program, &program->nodes[n]) == leaf)
      back->wanted[n] = true;
}

/* A kept value stands for the node that it was made of, too: rules then read the value, and nothing
 * is computed again for them. */
static void stand_for(const tsr__replay *replay, int n)
{
  const tsr__gnode *nodes = replay->program->nodes;
  for (int o = n; tsr__is_label(nodes[o].op);) {
    o = tsr__in(replay->program, &nodes[o], 0);
    replay->at[o] = replay->at[n];
  }
}

/* A node with regions that is gone back through keeps residuals. One that nobody goes back through
 * is made as it is, and its carries are not stacked. */
static tsr_array *make_node(const tsr__replay *replay, int n, tsr__operands in, void *user)
{
  const tsr__backward *back = user;
  const tsr__gnode *node = &replay->program->nodes[n];
  if (node->region_count && back->wanted[n]) return tsr__replay_keeping(replay, n, in);
  replay->at[n] = tsr__replay_make(replay, n, in);
  if (tsr__is_label(node->op) && node->in_count > 1) stand_for(replay, n);
  return replay->at[n];
}

/* Of several results a node has no dtype of its own: RESULT nodes say. */
void tsr__backward_forward(tsr__backward *back)
{
  const tsr__program *program = back->replay.program;
  for (int n = 0; n < program->node_count; n++) {
    const tsr__gnode *node = &program->nodes[n];
    bool real = node->result_count || tsr__dtype_has_gradient((tsr_dtype)node->dtype);
    /* Operands stand before their users, so one walk finds all paths. Integers and bools end
     * them: what is counted or chosen has no slope. */
    TSR_FOR_OPERANDS (program, node, i, o)
      back->wanted[n] |= real && !is_zero(node->op) && back->wanted[o];
  }
  tsr__replay_by(&back->replay, make_node, back);
}

tsr_array *tsr__backward_result(const tsr__backward *back, int i)
{
  return back->replay.at[back->replay.results[i]];
}

/* ---- adding up ------------------------------------------------------------------------------- */

/* Whether an array shows its operand's elements under another shape. */
static bool is_reshape(const tsr_array *a)
{
  return !a->inert && tsr__ops[a->op].reshapes;
}

/* What lies under one other shape is added there: elements that pools left out are between those of
 * a window in it, which its kernel reads through, and the sum is under that of the operand as it
 * lies. */
static tsr_array *sum_of(tsr_array *a, tsr_array *b, const char *site)
{
  bool under = is_reshape(a) && is_reshape(b) && a->dtype == b->dtype &&
               tsr__shape_same(&a->in[0]->shape, &b->in[0]->shape) &&
               tsr__shape_same(&a->shape, &b->shape);
  if (!under) return tsr_add_at(a, tsr_operand_array(b), site);
  return tsr_reshape_at(tsr_add_at(a->in[0], tsr_operand_array(b->in[0]), site), a->shape, site);
}

/* In the order in which users are met, from the last to the first: the same sum whatever the
 * mesh. */
static void add_due(tsr__backward *back, int n, tsr_array *part, const char *site)
{
  /* Not one sum of all at the end: how many users there are is known only when the last was met,
   * and a chain of additions is one kernel all the same. */
  tsr_array *so_far = back->due[n];
  back->due[n] = so_far ? sum_of(so_far, part, site) : part;
}

void tsr__backward_seed(tsr__backward *back, int i, tsr_array *due)
{
  int n = back->replay.results[i];
  tsr_array *result = back->replay.at[n];
  /* A result that is wanted by nobody costs nothing: what leads to it alone is not gone through. */
  if (!back->wanted[n]) return;
  /* In a body along a mesh's axis a result that is one at all places gets the sum of what is due to
   * it at each. */
  add_due(back, n, tsr__axis_meet(due, result, result, NULL, back->replay.site), back->replay.site);
}

/* Sums over dims that an operand of `shape` has not, or has with size 1.
 *
 *   operand [3]      due [2,3]      sum over dim 0 -> [1,3] -> [3]
 *
 * Dims are kept in the sum, so that one reshape brings any rank down. */
static tsr_array *summed_to(tsr_array *a, const tsr_shape *shape, const char *site)
{
  if (a->inert) return a;
  int before = a->shape.rank - shape->rank;
  tsr_reduce_args sum = { .size = sizeof sum, .x = a, .keep_dims = true };
  for (int d = 0; d < a->shape.rank; d++)
    if (d < before || (shape->dims[d - before] == 1 && a->shape.dims[d] != 1))
      sum.dims.bits |= 1u << d;
  /* Broadcasting read an element many times, so its gradient is the sum over where it was read. */
  if (sum.dims.bits) a = tsr_sum_at(&sum, site);
  return before ? tsr_reshape_at(a, *shape, site) : a;
}

static int operand_of(const tsr__pull *p, int i)
{
  return tsr__in(p->back->replay.program, p->node, i);
}

bool tsr__wants(const tsr__pull *p, int i)
{
  int o = operand_of(p, i);
  return o >= 0 && p->back->wanted[o];
}

/* A node of several results has neither a shape nor a dtype of its own, so its part is added as it
 * is. */
void tsr__give_of_all(const tsr__pull *p, int i, tsr_array *part, const tsr__axis_attr *axis)
{
  if (!tsr__wants(p, i)) return;
  int o = operand_of(p, i);
  tsr_array *operand = p->back->replay.at[o];
  if (!operand->extras || !operand->extras->result_count) { /* else that of its first result */
    /* In this order: what travels between devices is what is left after summing, in the dtype of
     * the operand. */
    part = summed_to(part, &operand->shape, p->site);
    part = tsr_cast_at(part, (tsr_dtype)operand->dtype, p->site);
    /* Several results of one routine differ along an axis alike. */
    tsr_array *out = p->out;
    if (out->extras && out->extras->result_count) out = tsr__result_of(NULL, out, 0, p->site);
    part = tsr__axis_meet(part, out, operand, axis, p->site);
  }
  add_due(p->back, o, part, p->site);
}

void tsr__give(const tsr__pull *p, int i, tsr_array *part)
{
  tsr__give_of_all(p, i, part, NULL);
}

/* ---- where it comes from --------------------------------------------------------------------- */

/* As users know them: they write collectives and not the rows that those are made of, and of a
 * place that they did not ask for the call that has it so. */
static const char *name_of(const tsr__backward *back, const tsr__gnode *node)
{
  if (rules[node->op].pull == tsr__grad_axis_all) return "all-gather";
  if (rules[node->op].pull == tsr__grad_axis_own) return "scatter";
  if (rules[node->op].pull != tsr__grad_place) return tsr__ops[node->op].name;
  return tsr__whys[tsr__why_of(back->replay.program, node)].who;
}

/* The line of what goes forward, and what it is that goes back from there: explanations show both,
 * and know by it which collectives are transposes. A gradient's gradient keeps the first. */
static const char *site_back(const tsr__backward *back, const char *site, const tsr__gnode *node)
{
  char text[256];
  /* A text is kept once a runtime, not once a node: loops of training make the same ones each
   * step. */
  if (strstr(site, TSR__BACK_FROM)) return site;
  snprintf(text, sizeof text, "%s%s%s)", site, TSR__BACK_FROM, name_of(back, node));
  const char *kept = tsr_runtime_site(back->replay.scope->rt, text);
  return kept ? kept : site;
}

/* ---- where gradients lie --------------------------------------------------------------------- */

tsr_array *tsr__place_as(tsr_array *a, tsr_array *like, const tsr_sharding *stated,
                         const char *site)
{
  const tsr__ask ask = { TSR__ATTR(tsr__place_attr, .why = TSR__WHY_BACK), .sharding = stated,
                         .opens = true };
  if (a->inert || like->inert) return a;
  return tsr__make(NULL, TSR__OP_LIKE, TSR__IN(a, like), &ask, site);
}

/* ---- going back ------------------------------------------------------------------------------ */

static bool refuse(tsr__backward *back, const tsr__gnode *node, const char *site)
{
  const char *why = rules[node->op].none;
  tsr__fail(back->replay.scope, site, TSR_EUNSUPPORTED,
            "%s: %s has no gradient: %s; the operation must not depend on the arguments of .wrt: "
            "use tsr_stop_gradient, or a rule of your own with tsr_custom_vjp",
            back->call ? back->call : "tsr_grad", tsr__ops[node->op].name,
            why ? why : "the operation has no rule");
  back->failed = true;
  return false;
}

/* False where memory is out or a rule is missing. A rule itself has no result: what fails in it
 * makes inert parts, whose error the scope has. */
static bool pull(tsr__backward *back, int n)
{
  const tsr__replay *replay = &back->replay;
  const tsr__gnode *node = &replay->program->nodes[n];
  tsr__pull p = { .back = back,
                  .node = node,
                  .out = replay->at[n],
                  .due = back->due[n],
                  .attr = tsr__attr_of(replay->program, node),
                  .site = replay->program->sites[n] ? replay->program->sites[n] : replay->site };
  /* Rules look at operands as arrays of the way forward, which are there already. */
  tsr_array **in = tsr__arena_new(&replay->scope->arena, ((size_t)node->in_count + 1) * sizeof *in);
  bool any = false;
  for (int i = 0; in && i < node->in_count; i++) {
    int o = tsr__in(replay->program, node, i);
    in[i] = o < 0 ? NULL : replay->at[o];
    any |= o >= 0 && back->wanted[o];
  }
  p.in = in;
  /* Before the look for a rule: what has none is no error where none of its operands is
   * differentiated by. */
  if (!in || !any) return in != NULL;
  tsr__grad_fn *apply = rules[node->op].pull;
  const tsr__loop_attr *loop = tsr__ops[node->op].loops ? p.attr : NULL;
  if (loop && loop->kind == TSR__LOOP_WHILE && back->at_zeros) apply = tsr__forward_while;
  if (!apply) return refuse(back, node, p.site);
  if (p.site) p.site = site_back(back, p.site, node);
  apply(&p);
  return true;
}

/* By numbers of nodes, which are an order in which operands stand first; nothing is sorted. */
bool tsr__backward_run(tsr__backward *back)
{
  for (int n = back->replay.program->node_count - 1; n >= 0; n--) {
    /* Nobody gave it anything: it leads to no result, or only through zeros. */
    if (!back->due[n] || !back->wanted[n]) continue;
    if (back->replay.at[n]->inert || !pull(back, n)) return false;
  }
  return true;
}

tsr_array *tsr__backward_take(tsr__backward *back, int leaf, tsr_array *like)
{
  const tsr__program *program = back->replay.program;
  const char *site = back->replay.site;
  tsr_array *due = NULL;
  for (int n = 0; n < program->node_count && !due; n++)
    if (program->nodes[n].op == TSR__OP_ARG && tsr__index_of(program, &program->nodes[n]) == leaf)
      due = back->due[n];
  /* An argument that the result does not depend on has a gradient, which is zero. */
  if (!due)
    due = tsr_full_at(back->replay.scope, tsr_operand_int(0), (tsr_dtype)like->dtype, like->shape,
                      (tsr_sharding){ 0 }, site);
  return tsr__place_as(due, like, NULL, site);
}

/* ---- rules that are gradients ---------------------------------------------------------------- */

/* A rule as a function that computes the same in simpler operations: that is traced, and gone
 * back through in the place of the node. Rows that are compositions of others need no rule of
 * their own then. The function is made anew for each node and not kept: `user` lies on the stack of
 * the rule. By the first operand only, as all that come here have one. */
void tsr__give_through(const tsr__pull *p, tsr_body_fn *body, void *user)
{
  tsr_scope *scope = p->back->replay.scope;
  tsr__leaves leaves = { .at = (tsr_array **)p->in, .count = 1 };
  tsr__arguments given = { .in = { p->in, 1 }, .leaves = leaves };
  tsr_function *f = tsr__function_new(scope, body, user, "a rule", p->site);
  const tsr__traced *traced = f ? tsr__trace(scope, f, &given, p->site) : NULL;
  tsr__backward back;
  if (!traced || !tsr__backward_open(&back, scope, traced, p->in, p->site)) {
    tsr__or_no_memory(scope, NULL, "tsr_grad", p->site);
    return;
  }
  tsr__backward_for(&back, p->back);
  tsr__backward_want(&back, 0);
  tsr__backward_forward(&back);
  tsr__backward_seed(&back, 0, p->due);
  if (tsr__backward_run(&back)) tsr__give(p, 0, tsr__backward_take(&back, 0, p->in[0]));
}

/* ---- rules of what only stands between ------------------------------------------------------- */

void tsr__grad_cast(const tsr__pull *p)
{
  tsr__give(p, 0, p->due);
}

void tsr__grad_full(const tsr__pull *p)
{
  tsr__give(p, 0, p->due);
}

/* Both lists in one block; zeros of the arena are NULL. */
bool tsr__pull_results(const tsr__pull *p, tsr__results *results)
{
  const tsr__replay *replay = &p->back->replay;
  const tsr__program *program = replay->program;
  size_t count = (size_t)p->node->result_count;
  int own = (int)(p->node - program->nodes);
  results->out = tsr__arena_new(&replay->scope->arena, (2 * count + 1) * sizeof *results->out);
  if (!results->out) return false;
  results->due = results->out + count;
  /* Parts stand behind their node, but not always right behind it; one that nobody reads is not
   * there, and stays NULL. */
  for (int n = own + 1; n < program->node_count; n++) {
    if (!tsr__is_part(program, n, own)) continue;
    int i = tsr__index_of(program, &program->nodes[n]);
    results->out[i] = replay->at[n];
    results->due[i] = p->back->due[n];
  }
  return true;
}

/* Of several results of a routine the first alone is of floats. What has regions looks at what is
 * due to each of its results itself: here it is told that something is. */
void tsr__grad_result(const tsr__pull *p)
{
  const tsr__index_attr *attr = p->attr;
  int o = operand_of(p, 0);
  if (p->back->replay.program->nodes[o].region_count) p->back->due[o] = p->due;
  else if (attr->index == 0) tsr__give(p, 0, p->due);
}

/* The sharding stated for a value holds for its gradient. If the value was gathered, its gradient
 * goes to the sharding of the operand at once. */
void tsr__grad_place(const tsr__pull *p)
{
  tsr__give(p, 0, tsr__place_as(p->due, p->in[0], &p->out->sharding, p->site));
}
