/* Functions with a rule of their own for going back.
 *
 *   %3:1 = custom_vjp(%0, %1)     computes what its first region does, and stands so in plans
 *       rule (x, y, due) -> (d, ...)   its second one: arguments, results, what is due to these
 *
 * A gradient goes back by the rule instead of through the function. Of a rule that goes forward
 * that is its transpose. A checkpoint has no rule: where a gradient is asked for, the function is
 * gone back through then. Its residuals are computed again, from arguments that wait for the
 * cotangents, so that only named values are kept until then (residuals.c). Calls and jvps may
 * therefore have nodes in it that no gradient goes back through.
 *
 *   operands of the node      | arguments | captured by region 0 | captured by the rule |
 *                             0           own                    behind                 in_count
 *   arguments of region 1     | arguments | results | due to them | captured by the rule |
 *
 * Who calls without going back never looks at the rule: plans have region 0 in the node's place. */
#include "tessera/gradient.h"
#include "tessera/shape.h"
#include "transform/backward.h"
#include "transform/batch.h"

typedef tsr_array array;

/* In the arena of the scope that `of` belongs to, which the function made of it shares. */
typedef struct custom {
  tsr_function *of, *rule;    /* of a checkpoint both are one */
  const char *call;           /* "tsr_custom_vjp" */
  const tsr__name_attr *keep; /* of a checkpoint */
  int keep_count;
} custom;

/* A call of it: the traces of both, and their arrays. */
typedef struct calling {
  const custom *c;
  tsr_scope *scope;
  tsr__arguments given, carried;
  const tsr__traced *forward, *backward;
  const char *site;
} calling;

/* ---- the call -------------------------------------------------------------------------------- */

/* What is like a result of a body. Rules are traced before anything was computed, on types
 * alone. */
static array *typed(const calling *c, const tsr__gnode *like)
{
  tsr_shape shape = tsr__gnode_shape(like);
  return tsr__stand_in(c->scope, (tsr_dtype)like->dtype, &shape, c->site);
}

/* What the rule is called with: the arguments, and twice what is like the result. Once for the
 * results, once for what is due to them: both are of the same types. */
static bool make_carried(calling *c)
{
  const tsr__region *region = c->forward->region;
  int count = region->result_count, arguments = c->given.in.count;
  array **leaf = tsr__arena_new(&c->scope->arena, ((size_t)count + 1) * sizeof *leaf);
  array **in = tsr__arena_new(&c->scope->arena, ((size_t)arguments + 2) * sizeof *in);
  if (!leaf || !in) return false;
  for (int i = 0; i < count; i++) leaf[i] = typed(c, &region->program.nodes[region->results[i]]);
  array *like = tsr__form_fill(c->scope, c->forward->form, leaf, c->site);
  memcpy(in, c->given.in.at, (size_t)arguments * sizeof *in);
  in[arguments] = in[arguments + 1] = like;
  c->carried.in = (tsr__operands){ in, arguments + 2 };
  return tsr__take_leaves(c->scope, c->c->rule, &c->carried, c->site);
}

/* Whether the rule gives an array like each of `want`, which are those of the `whose`; what it
 * gives integers is left. At the call, so that a wrong rule is told where it was given and not
 * where somebody differentiates. */
static bool check_rule(tsr_scope *scope, const custom *c, const tsr__traced *traced,
                       const tsr__leaves *want, const char *whose)
{
  const tsr__region *rule = traced->region;
  const char *site = c->of->node.site;
  if (rule->result_count != want->count) {
    tsr__fail(scope, site, TSR_EARG,
              "%s: the rule of %s returns %d arrays, expected %d, one for each array of its %s; "
              "return the arrays as a tsr_tuple, in that order",
              c->call, c->of->name, rule->result_count, want->count, whose);
    return false;
  }
  for (int i = 0; i < want->count; i++) {
    array *like = want->at[i];
    const tsr__gnode *node = &rule->program.nodes[rule->results[i]];
    tsr_shape shape = tsr__gnode_shape(node);
    bool same = node->dtype == like->dtype && tsr__shape_same(&shape, &like->shape);
    if (!tsr__has_gradient(like) || same) continue;
    array *got = tsr__stand_in(scope, (tsr_dtype)node->dtype, &shape, site);
    tsr__fail(scope, site, node->dtype == like->dtype ? TSR_ESHAPE : TSR_EDTYPE,
              "%s: the rule of %s returns %s for array %d of its %s, expected %s like that array",
              c->call, c->of->name, tsr_type_of(got), i, whose, tsr_type_of(like));
    return false;
  }
  return true;
}

/* The node of both traces; `attr` says which operands are whose. */
static tsr__calling node_of(const calling *c, const tsr__custom_attr *attr, uint32_t attr_bytes)
{
  return (tsr__calling){ .scope = c->scope,
                         .site = c->site,
                         .op = TSR__OP_CUSTOM,
                         .attr = attr,
                         .attr_bytes = attr_bytes,
                         .traced = { c->forward, c->backward },
                         .count = 2 };
}

/* Whether a checkpoint's function has values of all the names that are to be kept. */
static bool check_kept_names(const calling *c)
{
  tsr__replay replay;
  tsr__error error = { .status = TSR_OK };
  if (!c->c->keep_count) return true;
  bool known = tsr__replay_open(&replay, c->scope, c->forward, c->given.leaves.at, c->site) &&
               tsr__names_known(&replay, c->c->keep, c->c->keep_count, &error);
  if (error.status)
    tsr__fail(c->scope, c->site, error.status, "%s: in %s %s", c->c->call, c->c->of->name,
              error.text);
  return known;
}

/* False: the error is recorded. A checkpoint's second trace is its first. */
static bool trace_rule(calling *c)
{
  c->backward = c->forward;
  if (c->c->rule == c->c->of) return check_kept_names(c);
  if (!make_carried(c)) return false;
  c->backward = tsr__trace(c->scope, c->c->rule, &c->carried, c->site);
  return c->backward && check_rule(c->scope, c->c, c->backward, &c->given.leaves, "arguments");
}

/* Both functions are traced for each signature: which gradients will be asked for nobody knows
 * yet. */
static array *custom_body(tsr_scope *scope, array *const *in, void *user)
{
  const custom *d = user;
  calling c = { .c = d, .scope = scope, .site = d->of->node.site };
  c.given.in = (tsr__operands){ in, tsr__count_arguments(in) };
  if (!tsr__take_leaves(scope, d->of, &c.given, c.site)) return NULL;
  c.forward = tsr__trace(scope, d->of, &c.given, c.site);
  if (!c.forward || !trace_rule(&c)) return tsr__make_inert(scope, c.site);
  size_t names = (size_t)d->keep_count * sizeof *d->keep;
  tsr__custom_attr *attr = tsr__arena_new(&scope->arena, sizeof *attr + names);
  if (!attr) return NULL;
  *attr = (tsr__custom_attr){ .arguments = c.given.leaves.count,
                              .captured = c.forward->captured_count,
                              .again = d->rule == d->of };
  if (names) memcpy(attr->keep, d->keep, names);
  tsr__calling node = node_of(&c, attr, (uint32_t)(sizeof *attr + names));
  return tsr__call_traces(&node, 0, &c.given.leaves);
}

/* ---- going back ------------------------------------------------------------------------------ */

/* The results of the node into `out`, and what is due to them behind, zeros where nothing came.
 * False: out of memory. A result that the forward program did not take out of the node is taken out
 * now, for the rule reads all of them. */
static bool add_results(const tsr__pull *p, array **out)
{
  int count = p->node->result_count;
  tsr__results of;
  if (!tsr__pull_results(p, &of)) return false;
  for (int i = 0; i < count; i++) {
    array *one = of.out[i] ? of.out[i] : tsr__result_of(NULL, p->out, i, p->site);
    out[i] = one;
    out[count + i] = of.due[i]
                         ? tsr__axis_as(of.due[i], one, p->site)
                         : tsr__zeros_as(p->back->replay.scope, one, (tsr_sharding){ 0 }, p->site);
  }
  return true;
}

/* What a rule gives an argument. Rules of this room have had parts of what is the same along a
 * mesh's axis meet, and those of users may have: the part itself, made of dues that differ where
 * results do, says whether it is left to do. */
static void give(const tsr__pull *p, int i, array *part)
{
  tsr__pull own = *p;
  own.out = part;
  tsr__give(&own, i, part);
}

/* An argument that is there when what is due is: of that nothing is read but that it has as many
 * elements as none.
 *
 *   due [3,2] -- slice [0:0] -- sum --> 0 == 0: true      where(true, a, 0): a, but behind `due`
 *
 * A plan orders steps by operands alone, so this is what keeps the second forward pass behind the
 * first one's way back; the numbers are those of `a`. An argument that is the same along
 * a mesh's axis stays so: where what is due is not, it does not wait. */
static array *wait_for(array *a, array *due, const char *site)
{
  tsr_shape line = { .rank = 1, .dims = { 1 } };
  if (a->inert || due->inert) return a;
  if (!due->shape.rank) due = tsr_reshape_at(due, line, site);
  array *nothing = tsr__part(due, 0, (tsr_range){ 0, 0, 1 }, site);
  tsr_reduce_args sum = { .size = sizeof sum };
  sum.x = tsr__axis_meet(nothing, due, a, NULL, site);
  array *ready = tsr_eq_at(tsr_sum_at(&sum, site), tsr_operand_int(0), site);
  tsr_operand other = a->dtype == TSR_BOOL ? tsr_operand_bool(false) : tsr_operand_int(0);
  array *waiting = tsr_where_at(ready, tsr_operand_array(a), other, site);
  /* It lies as the argument: copies that were gathered are freed, and gathered again. */
  return tsr__place_as(waiting, a, NULL, site);
}

/* Back through a checkpoint's own region, by what is wanted alone: what has no way back is refused
 * only where one is asked for. Where all that goes back is 0 (forward.c) nothing waits: what is
 * computed then goes forward and is the first pass itself. Waiting would make what is due part of
 * the way forward, which a jvp of that is not to go back through. */
static void give_again(const tsr__pull *p, int own)
{
  tsr_scope *scope = p->back->replay.scope;
  int count = p->node->result_count, operands = p->node->in_count;
  tsr__results of;
  tsr__operands kept;
  tsr__backward again;
  if (!tsr__pull_results(p, &of) || !tsr__pull_kept(p, &kept)) return;
  size_t room = (size_t)operands + (size_t)kept.count + 1;
  array **in = tsr__arena_new(&scope->arena, room * sizeof *in), *due = NULL;
  if (!in) return;
  memcpy(in, p->in, (size_t)operands * sizeof *in);
  memcpy(in + operands, kept.at, (size_t)kept.count * sizeof *in);
  for (int i = 0; i < count && !p->back->at_zeros; i++)
    if (!due) due = of.due[i];
  for (int i = 0; i < operands + kept.count && due; i++)
    if (i < own || i >= operands) in[i] = wait_for(in[i], due, p->site);
  tsr__into into = { p, 0, { in, operands }, { in + operands, kept.count } };
  if (!tsr__backward_into(&again, &into, scope)) return;
  for (int i = 0; i < own; i++)
    if (tsr__wants(p, i)) tsr__backward_want(&again, i);
  tsr__backward_forward(&again);
  for (int i = 0; i < count; i++)
    if (of.due[i]) tsr__backward_seed(&again, i, tsr__axis_as(of.due[i], of.out[i], p->site));
  if (!tsr__backward_run(&again)) return;
  for (int i = 0; i < own; i++)
    if (tsr__wants(p, i)) give(p, i, tsr__backward_take(&again, i, p->in[i]));
}

/* As if all operands of the rule were arguments: what it captured is among the node's operands, so
 * that nothing of a trace is needed: a loaded function has none of its rule. */
void tsr__grad_custom(const tsr__pull *p)
{
  const tsr__custom_attr *attr = p->attr;
  if (attr->again) {
    give_again(p, (int)attr->arguments);
    return;
  }
  tsr__replay *replay = &p->back->replay, again;
  tsr__region *forward = tsr__region_in(replay->program, p->node, 0);
  int own = (int)attr->arguments, results = forward->result_count;
  int behind = own + (int)attr->captured, count = p->node->in_count - behind + own + 2 * results;
  tsr__traced rule = { .region = tsr__region_in(replay->program, p->node, 1),
                       .argument_count = count };
  array **in = tsr__arena_new(&replay->scope->arena, ((size_t)count + 1) * sizeof *in);
  if (!in || !add_results(p, in + own)) return;
  for (int i = 0; i < own; i++) in[i] = p->in[i];
  for (int i = behind; i < p->node->in_count; i++) in[own + 2 * results + i - behind] = p->in[i];
  if (!tsr__replay_open(&again, replay->scope, &rule, in, p->site)) return;
  /* The node has the numbers of both regions, the rule's behind. */
  if (p->node->param >= 0)
    again.params = replay->params + p->node->param + forward->program.param_count;
  tsr__replay_through(&again);
  for (int i = 0; i < own; i++) give(p, i, again.at[again.results[i]]);
}

/* ---- mapping over it -------------------------------------------------------------------------
 *
 * Arguments, results and what is due to them have the front each as they vary:
 *
 *   region 0   x [b,3]  w [3]                        y [b,3]   z, which all share
 *   rule       x, w, y, z, due to y [b], to z        to x [b,3]   to w: the sum of what elements
 *   give
 */

/* A region that is mapped over. Copied into the arena for each trace, as `varies` and the region
 * differ between the two. */
typedef struct mapped {
  const tsr__batch *outer;
  tsr__region *region;
  const tsr__num *params;
  bool *varies;     /* by argument: it has the front */
  bool *gives;      /* region 0: by result, the same; its trace fills it in */
  int own, results; /* of the rule: how many arguments and results the node has */
} mapped;

/* Replays the region for all elements. */
static bool through(const mapped *m, tsr_scope *scope, array *const *in, tsr__batch *out)
{
  tsr__traced traced = { .region = m->region, .argument_count = tsr__count_arguments(in) };
  *out = (tsr__batch){ .axis = m->outer->axis,
                       .mesh = m->outer->mesh,
                       .size = m->outer->size,
                       .of_mesh = m->outer->of_mesh };
  if (!tsr__replay_open(&out->replay, scope, &traced, in, m->outer->replay.site)) return false;
  out->replay.params = m->params;
  return tsr__batch_through(out, m->varies);
}

static array *mapped_body(tsr_scope *scope, array *const *in, void *user)
{
  const mapped *m = user;
  tsr__batch b;
  int count = m->region->result_count;
  array **out = tsr__arena_new(&scope->arena, ((size_t)count + 1) * sizeof *out);
  if (!out || !through(m, scope, in, &b)) return NULL;
  for (int i = 0; i < count; i++) {
    int n = b.replay.results[i];
    out[i] = b.replay.at[n];
    m->gives[i] = b.varies[n];
  }
  return tsr_tuple_at(scope, out, count, b.replay.site);
}

/* What is due to a result that all elements of a vmap share, as dues to each: the first one has it,
 * and all of them together have what there is. */
static array *due_to_first(const tsr__batch *b, tsr_scope *scope, array *due)
{
  const char *site = b->replay.site;
  tsr_shape line = { .rank = 1, .dims = { b->size } }, all = tsr__batch_shape(b, due->shape);
  if (due->inert) return due;
  array *first = tsr_iota_at(scope, TSR_I64, line, 0, (tsr_sharding){ 0 }, site);
  first = tsr_eq_at(first, tsr_operand_int(0), site);
  for (; line.rank < all.rank && line.rank < TSR_MAX_RANK; line.rank++) line.dims[line.rank] = 1;
  return tsr_where_at(tsr_reshape_at(first, line, site), tsr_operand_array(due), tsr_operand_int(0),
                      site);
}

/* What the rule gives argument `i`, as that has the front. An argument that all share gets what all
 * elements give it. Along a mesh's axis a part that is one at all places is that already: the rule
 * has had its parts meet, or nothing that is due differs. */
static array *part_of(const mapped *m, const tsr__batch *b, int i)
{
  int n = b->replay.results[i];
  array *part = b->replay.at[n];
  if (part->inert || m->varies[i] == b->varies[n]) {
    bool each = !m->varies[i] && !m->outer->of_mesh && tsr__has_gradient(part);
    return each && !part->inert ? tsr_mul_at(part, TSR_OPERAND(b->size), b->replay.site) : part;
  }
  if (m->varies[i]) return tsr__batch_repeat(b, part, b->replay.site);
  tsr_reduce_args sum = { .size = sizeof sum, .x = part, .dims = { .bits = 1 } };
  return tsr__has_gradient(part) ? tsr_sum_at(&sum, b->replay.site) : part;
}

static array *mapped_rule(tsr_scope *scope, array *const *in, void *user)
{
  const mapped *m = user;
  tsr__batch b;
  int count = tsr__count_arguments(in);
  array **all = tsr__arena_new(&scope->arena, ((size_t)count + 1) * sizeof *all);
  array **out = tsr__arena_new(&scope->arena, ((size_t)m->own + 1) * sizeof *out);
  if (!all || !out) return NULL;
  memcpy(all, in, (size_t)count * sizeof *all);
  for (int i = m->own + m->results; i < m->own + 2 * m->results; i++) {
    if (m->varies[i] || m->outer->of_mesh) continue;
    all[i] = due_to_first(m->outer, scope, all[i]);
    m->varies[i] = true;
  }
  if (!through(m, scope, all, &b)) return NULL;
  for (int i = 0; i < m->own; i++) out[i] = part_of(m, &b, i);
  return tsr_tuple_at(scope, out, m->own, b.replay.site);
}

static const tsr__traced *map_region(const mapped *m, array **in, int count)
{
  const char *site = m->outer->replay.site;
  tsr_scope *scope = m->outer->replay.scope;
  mapped *own = tsr__arena_new(&scope->arena, sizeof *own);
  tsr__arguments given = { .in = { in, count } };
  if (!own) return NULL;
  *own = *m;
  tsr_function *f =
      tsr__function_new(scope, m->gives ? mapped_body : mapped_rule, own, "a mapped rule", site);
  if (!f || !tsr__take_leaves(scope, f, &given, site)) return NULL;
  return tsr__trace(scope, f, &given, site);
}

/* The rule of a node, mapped: its operands, of which some have the front, and the trace of its
 * first region, of whose results those of `gives` have it. */
static const tsr__traced *map_rule(const tsr__batched *x, const calling *c, const bool *gives)
{
  const tsr__program *program = x->batch->replay.program;
  const tsr__custom_attr *attr = tsr__batch_attr(x);
  const tsr__region *forward = c->forward->region;
  int own = (int)attr->arguments, behind = own + (int)attr->captured;
  int results = forward->result_count, count = own + 2 * results + x->count - behind;
  array **all = tsr__arena_new(&c->scope->arena, ((size_t)count + 1) * sizeof *all);
  bool *which = tsr__arena_new(&c->scope->arena, (size_t)count + 1);
  if (!all || !which) return NULL;
  for (int i = 0; i < count; i++) {
    bool operand = i < own || i >= own + 2 * results;
    int from = i < own ? i : i - own - 2 * results + behind, r = (i - own) % results;
    which[i] = operand ? x->varies[from] : gives[r];
    all[i] = operand ? x->in[from] : typed(c, &forward->program.nodes[forward->results[r]]);
  }
  mapped m = { x->batch,
               tsr__region_in(program, x->g, 1),
               tsr__region_numbers(&x->batch->replay, x->n, 1),
               which,
               NULL,
               own,
               results };
  return map_region(&m, all, count);
}

/* A node like a loop's, a tuple of its results: what varies follows from what its first region
 * makes. */
array *tsr__batch_custom(const tsr__batched *x)
{
  const tsr__custom_attr *attr = tsr__batch_attr(x);
  tsr_scope *scope = x->batch->replay.scope;
  int behind = (int)(attr->arguments + attr->captured), count = x->g->result_count;
  calling c = { .scope = scope, .site = x->site };
  bool *gives = tsr__arena_new(&scope->arena, (size_t)count + 1);
  array **out = tsr__arena_new(&scope->arena, ((size_t)count + 1) * sizeof *out);
  if (!gives || !out) return tsr__make_inert(scope, c.site);
  mapped m = { .outer = x->batch,
               .region = tsr__region_in(x->batch->replay.program, x->g, 0),
               .params = tsr__region_numbers(&x->batch->replay, x->n, 0),
               .varies = x->varies,
               .gives = gives };
  x->batch->parts[x->n] = gives;
  c.forward = map_region(&m, x->in, behind);
  if (!c.forward) return tsr__make_inert(scope, c.site);
  c.backward = attr->again ? c.forward : map_rule(x, &c, gives);
  if (!c.backward) return tsr__make_inert(scope, c.site);
  tsr__calling both = node_of(&c, attr, x->g->attr_bytes);
  array *node = tsr__call_node(&both, (tsr__operands){ x->in, x->count });
  for (int i = 0; i < count; i++) out[i] = tsr__result_of(scope, node, i, c.site);
  return tsr_tuple_at(scope, out, count, c.site);
}

/* ---- rules that go forward ------------------------------------------------------------------- */

/* A trace to go back through: its arguments, from which of them on they are asked for. */
typedef struct returning {
  const tsr__traced *traced;
  const tsr__leaves *leaf, *due;
  int first;
  const char *site;
} returning;

/* What comes to these arguments, as a tuple. Nothing is due to integers. */
static array *go_back(tsr_scope *scope, const returning *r)
{
  tsr__backward back;
  int count = r->leaf->count - r->first;
  array **leaf = r->leaf->at,
        **all = tsr__arena_new(&scope->arena, ((size_t)count + 1) * sizeof *all);
  if (!all || !r->traced || !tsr__backward_open(&back, scope, r->traced, leaf, r->site))
    return tsr__make_inert(scope, r->site);
  for (int i = r->first; i < r->leaf->count; i++)
    if (tsr__has_gradient(leaf[i])) tsr__backward_want(&back, i);
  tsr__backward_forward(&back);
  for (int i = 0; i < r->due->count; i++)
    if (tsr__has_gradient(r->due->at[i])) tsr__backward_seed(&back, i, r->due->at[i]);
  if (!tsr__backward_run(&back)) return tsr__make_inert(scope, r->site);
  for (int i = 0; i < count; i++)
    all[i] = tsr__backward_take(&back, r->first + i, leaf[r->first + i]);
  return tsr_tuple_at(scope, all, count, r->site);
}

/* A direction of an argument. */
static array *zeros(tsr_scope *scope, array *const *leaves, void *user)
{
  const custom *c = user;
  return tsr__zeros_as(scope, leaves[0], (tsr_sharding){ 0 }, c->of->node.site);
}

/* A rule that goes forward, as one that goes back.
 *
 *   rule        x, y, dx         -->  dy        linear in dx
 *   transpose   x, y, dx = 0, due to y  -->  due to x         back through the rule by dx
 *
 * A jvp goes back through that by what is due, which is the rule again. So plans, maps and texts
 * know one kind of rules. */
static array *transposed_body(tsr_scope *scope, array *const *in, void *user)
{
  custom *c = user;
  const char *site = c->of->node.site;
  int own = tsr__count_arguments(in) - 2, first = 0;
  array **all = tsr__arena_new(&scope->arena, (2 * (size_t)own + 2) * sizeof *all);
  tsr__leaves due = { 0 };
  if (!all || !tsr__leaves_of(&scope->arena, in[own + 1], &due)) return NULL;
  for (int i = 0; i <= own; i++) first += tsr_leaf_count(all[i] = in[i]);
  for (int i = 0; i < own; i++) all[own + 1 + i] = tsr_tree_map_at(zeros, c, &in[i], 1, site);
  tsr__arguments given = { .in = { all, 2 * own + 1 } };
  if (!tsr__take_leaves(scope, c->rule, &given, site)) return NULL;
  const tsr__traced *traced = tsr__trace(scope, c->rule, &given, site);
  if (!traced || !check_rule(scope, c, traced, &due, "result")) return tsr__make_inert(scope, site);
  return go_back(scope, &(returning){ traced, &given.leaves, &due, first, site });
}

/* ---- making ---------------------------------------------------------------------------------- */

static tsr_function *make(tsr_function *of, tsr_function *rule, const char *call, const char *name,
                          const char *site)
{
  tsr_scope *scope = of->node.scope;
  custom *c = tsr__arena_new(&scope->arena, sizeof *c);
  tsr_function *f = c && rule ? tsr__function_new(scope, custom_body, c, name, site) : NULL;
  if (!f) {
    tsr__or_no_memory(scope, NULL, call, site);
    return NULL;
  }
  *c = (custom){ .of = of, .rule = rule, .call = call };
  f->of = of;
  f->inert = of->inert;
  return f;
}

/* A rule of the user's: its body is theirs, so that what it returns is told as theirs. With
 * `turned` it goes forward, and the function gets what goes back in its place. */
static tsr_function *make_ruled(const tsr_custom_args *given, bool turned, const char *site)
{
  const char *call = turned ? "tsr_custom_jvp" : "tsr_custom_vjp";
  tsr_custom_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr__take_opts(call, given, &args, sizeof args, &error);
  tsr_function *of = given ? given->function : NULL;
  if (!of) return tsr__no_function(call, site);
  tsr_scope *scope = of->node.scope;
  tsr_body_fn *body = turned ? args.forward : args.backward;
  tsr_function *rule = tsr__function_new(scope, body, args.user, of->name, site), *back = rule;
  custom *t = turned && rule ? tsr__arena_new(&scope->arena, sizeof *t) : NULL;
  if (t) *t = (custom){ .of = of, .rule = rule, .call = call };
  if (turned) back = t ? tsr__function_new(scope, transposed_body, t, of->name, site) : NULL;
  tsr_function *f = make(of, back, call, of->name, site);
  if (!f) return NULL;
  rule->asked = true;
  if (!error.status && !body)
    tsr__error_set(&error, TSR_EARG, "%s: the rule is NULL; give %s", call,
                   turned ? ".forward" : ".backward");
  if (error.status) tsr__fail_error(scope, site, &error);
  f->inert |= error.status != TSR_OK;
  return f;
}

tsr_function *tsr_custom_vjp_at(const tsr_custom_args *args, const char *site)
{
  return make_ruled(args, false, site);
}

tsr_function *tsr_custom_jvp_at(const tsr_custom_args *args, const char *site)
{
  return make_ruled(args, true, site);
}

/* The names up to the first NULL. */
static void read_keep(custom *c, const char *const *names, tsr__error *error)
{
  tsr_scope *scope = c->of->node.scope;
  int count = 0;
  while (count <= TSR_MAX_KEPT && names[count]) count++;
  if (count > TSR_MAX_KEPT)
    tsr__error_set(error, TSR_EARG,
                   "%s: .keep has more than %d names; give several values one name", c->call,
                   TSR_MAX_KEPT);
  tsr__name_attr *keep = tsr__arena_new(&scope->arena, ((size_t)count + 1) * sizeof *keep);
  if (!keep) tsr__error_set(error, TSR_ENOMEM, "%s: no memory for the names of .keep", c->call);
  for (int i = 0; i < count && !error->status; i++)
    tsr__name_read(c->call, names[i], &keep[i], error);
  c->keep = keep;
  c->keep_count = count;
}

tsr_function *tsr_checkpoint_at(const tsr_checkpoint_args *given, const char *site)
{
  tsr_checkpoint_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr__take_opts("tsr_checkpoint", given, &args, sizeof args, &error);
  tsr_function *of = given ? given->function : NULL;
  if (!of) return tsr__no_function("tsr_checkpoint", site);
  tsr_function *f = make(of, of, "tsr_checkpoint", of->name, site);
  if (!f) return NULL;
  if (!error.status) read_keep(f->user, args.keep, &error);
  if (error.status) tsr__fail_error(of->node.scope, site, &error);
  f->inert |= error.status != TSR_OK;
  return f;
}
