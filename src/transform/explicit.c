/* Explicit shardings: how each array of a body lies follows from its operands alone.
 *
 *   f32[8@x,2] . f32[2,8@y]   -->  f32[8@x,8@y]
 *   f32[8@x,2@y] . f32[2@y,8] -->  error: whoever wrote it must choose
 *
 * The places of a traced program are found in one walk, operands first, along the factors of the
 * table: dims that share a factor are cut alike, or one of them is whole. What the rules leave open
 * is an error with the choices. What a user asked for, tsr_reshard and tsr_constrain, is taken.
 *
 * What a body calls stands in the place of the call. A loop's body is walked as a step sees it:
 *
 *   scan    carries (x), slices (-,x) of each step (x)     -->  carries (x) again, stacks (-,x)
 *
 * Invariant: when a node's turn comes its operands have their places, so no place is ever changed
 * afterwards. */
#include "transform/transform.h"

/* How one array lies: by dim its axes, the major one first. */
typedef struct place {
  uint8_t count[TSR_MAX_RANK], axis[TSR_MAX_RANK][TSR_MAX_AXES];
} place;

/* All on one mesh: cuts are numbers of its axes and could not be compared otherwise. */
typedef struct walk {
  const tsr__program *program;
  const tsr_mesh *mesh; /* of all that is placed; NULL: nothing is yet */
  place *places;
  place **results;             /* by node: of a loop those of its results */
  const place *args;           /* of a loop's body */
  const tsr_sharding **leaves; /* by node, how leaves lie; NULL where they lie nowhere */
  tsr__arena *arena;
  tsr__error *error;
} walk;

/* The same axes in the same order: x+y and y+x are other parts. */
static bool same_cut(const place *a, int dim, const place *b, int of_b)
{
  return a->count[dim] == b->count[of_b] && !memcmp(a->axis[dim], b->axis[of_b], a->count[dim]);
}

static void take_cut(place *to, int dim, const place *from, int of_from)
{
  to->count[dim] = from->count[of_from];
  memcpy(to->axis[dim], from->axis[of_from], from->count[of_from]);
}

static place read_place(const tsr_sharding *at, int rank)
{
  place out = { 0 };
  for (int d = 0; d < rank && at->mesh; d++)
    for (int i = at->first[d]; i < at->first[d + 1]; i++) out.axis[d][out.count[d]++] = at->axis[i];
  return out;
}

static tsr_sharding write_place(const walk *w, const place *from, int rank)
{
  tsr_sharding out = { .mesh = w->mesh, .rank = (uint8_t)rank };
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    out.first[d + 1] = out.first[d];
    for (int i = 0; d < rank && i < from->count[d]; i++)
      out.axis[out.first[d + 1]++] = from->axis[d][i];
  }
  return out;
}

static int64_t parts_of(const walk *w, const place *p, int dim)
{
  int64_t parts = 1;
  for (int i = 0; i < p->count[dim]; i++) parts *= w->mesh->sizes[p->axis[dim][i]];
  return parts;
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* "matmul at a.c:12 of f32[8,2]@(x,y) and f32[2,8]@(y,-)", why, and what to do. */
static bool refuse(walk *w, int node, const char *why)
{
  const tsr__gnode *g = &w->program->nodes[node];
  const char *site = w->program->sites[node];
  tsr__text text;
  int count = 0;
  tsr__text_init(&text, w->program->heap);
  tsr__text_add(&text, "%s at %s of", tsr__ops[g->op].name, site ? site : "an unknown line");
  TSR_FOR_OPERANDS (w->program, g, i, o) {
    const tsr__gnode *in = &w->program->nodes[o];
    tsr_shape shape = tsr__gnode_shape(in);
    tsr_sharding at = write_place(w, &w->places[o], in->rank);
    tsr__text_add(&text, count++ ? " and " : " ");
    tsr__type_add(&text, (tsr_dtype)in->dtype, &shape, &at);
  }
  tsr__error_set(w->error, TSR_EAXIS, "is ambiguous where shardings are explicit: %s: %s",
                 tsr__text_get(&text), why);
  tsr__text_free(&text);
  return false;
}

/* An axis may cut one dim of a result. */
static bool check_once(walk *w, int node)
{
  const place *p = &w->places[node];
  unsigned used = 0;
  for (int d = 0; d < TSR_MAX_RANK; d++)
    for (int i = 0; i < p->count[d]; i++) {
      if (used >> p->axis[d][i] & 1)
        return refuse(
            w, node,
            "two dims of the result would be sharded by one axis; choose the operand that keeps "
            "the axis, and tsr_reshard the other to '-' there or to another axis");
      used |= 1u << p->axis[d][i];
    }
  return true;
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* A node's factors, and what the operands seen so far cut them by. */
typedef struct joining {
  tsr__factors f;
  place cuts[2]; /* so many factors as two ranks */
} joining;

_Static_assert(TSR__MAX_FACTORS == 2 * TSR_MAX_RANK, "two places hold all factors");

/* Whether a node goes back: nobody wrote it, and nobody could choose. */
static bool goes_back(const walk *w, int node)
{
  const char *site = w->program->sites[node];
  return site && strstr(site, TSR__BACK_FROM);
}

/* Why a cut of a factor does not go with the cut of a dim of an operand; NULL: it does. An empty
 * text: a second operand has something to say of that factor, and it depends on whether it says the
 * same. */
static const char *why_not(const walk *w, int node, const joining *j, int factor)
{
  bool dot = tsr__ops[w->program->nodes[node].op].contracts;
  int kind = j->f.kind[factor];
  if (kind == TSR__FACTOR_REPLICATE || kind == TSR__FACTOR_PERMUTE || kind == TSR__FACTOR_MEET)
    return "the operation runs along a sharded dim; tsr_reshard the operand to '-' there, or shard "
           "another dim";
  if (!j->cuts[factor / TSR_MAX_RANK].count[factor % TSR_MAX_RANK]) return NULL;
  /* A gradient's product is summed: so its result lies as what it is the gradient of. */
  if (dot && kind == TSR__FACTOR_REDUCE && !goes_back(w, node))
    return "the contracted dims are sharded in both operands; choose: tsr_reshard one operand to "
           "'-' there (an all-gather), or both; the other dims then give the result's sharding";
  return "";
}

/* What cuts the dims of an operand joins what others say of their factors. */
static bool join_operand(walk *w, int node, joining *j, int operand)
{
  int8_t map[TSR_MAX_RANK];
  int o = tsr__in(w->program, &w->program->nodes[node], operand);
  const place *in = &w->places[o];
  tsr__factors_in(&j->f, operand, map);
  for (int d = 0; d < w->program->nodes[o].rank; d++) {
    if (map[d] < 0 || !in->count[d]) continue;
    place *cuts = &j->cuts[map[d] / TSR_MAX_RANK];
    int at = map[d] % TSR_MAX_RANK;
    const char *why = why_not(w, node, j, map[d]);
    if (why && *why) return refuse(w, node, why);
    if (why && !same_cut(cuts, at, in, d))
      return refuse(w, node,
                    "the operands are sharded differently along one dim; choose one of the "
                    "shardings and tsr_reshard the other operand to it");
    take_cut(cuts, at, in, d);
  }
  return true;
}

/* A factor of no operand, as of a source, leaves its dim whole. */
static bool by_factors(walk *w, int node)
{
  const tsr__gnode *g = &w->program->nodes[node];
  joining j;
  memset(j.cuts, 0, sizeof j.cuts);
  tsr__factors_of(w->program, node, &j.f);
  TSR_FOR_OPERANDS (w->program, g, i, o)
    if (!join_operand(w, node, &j, i)) return false;
  for (int d = 0; d < tsr__rank_of(w->program, g); d++) {
    int factor = j.f.out[d];
    if (factor >= 0)
      take_cut(&w->places[node], d, &j.cuts[factor / TSR_MAX_RANK], factor % TSR_MAX_RANK);
  }
  return true;
}

/* A dim that a view changes stays cut if its size divides before and after. */
static bool divides(const walk *w, int node, int operand, int dim, int to)
{
  int64_t parts = parts_of(w, &w->places[operand], dim);
  return w->program->nodes[operand].dims[dim] % parts == 0 &&
         w->program->nodes[node].dims[to] % parts == 0;
}

/* The dim of a reshape's result that has what a dim of its operand had; -1: none that divides. */
static int reshaped_dim(const walk *w, int node, int operand, int dim)
{
  tsr__fold folds[TSR_MAX_RANK];
  const tsr__gnode *from = &w->program->nodes[operand], *to = &w->program->nodes[node];
  int count = tsr__folds_of(from, to, folds);
  for (int k = 0; k < count; k++)
    if (folds[k].from.dim == dim && divides(w, node, operand, dim, folds[k].to.dim))
      return folds[k].to.dim;
  return -1;
}

/* Operands of a view are parts of one array (concat), so they lie as the first does. */
static bool by_view(walk *w, int node)
{
  const tsr__gnode *g = &w->program->nodes[node];
  TSR_FOR_OPERANDS (w->program, g, i, o) {
    tsr__viewing view = tsr__view_of(w->program, g, i);
    const tsr__gnode *in = &w->program->nodes[o];
    if (i && in->rank &&
        memcmp(&w->places[o], &w->places[tsr__in(w->program, g, 0)], sizeof(place)))
      return refuse(w, node,
                    "the operands have different shardings; choose one of them and tsr_reshard the "
                    "other operands to it");
    for (int d = 0; d < in->rank; d++) {
      if (!w->places[o].count[d] || (!view.linear && !view.dims[d].step)) continue;
      int to = view.linear ? reshaped_dim(w, node, o, d) : view.dims[d].dim;
      if (to >= 0 && !view.linear && !view.dims[d].same && !divides(w, node, o, d, to)) to = -1;
      if (to < 0)
        return refuse(w, node,
                      "the operation changes the size of a sharded dim to one that its axes do not "
                      "divide; tsr_reshard the operand to '-' there first");
      take_cut(&w->places[node], to, &w->places[o], d);
    }
  }
  return true;
}

/* ---- loops ----------------------------------------------------------------------------------- */

static bool walk_through(walk *outer, const tsr__program *program, tsr__links results,
                         const place *args, place *out);

/* The same with `by` uncut dims in front, or that many fewer. */
static place moved(const place *from, int by)
{
  place out = { 0 };
  for (int d = 0; d < TSR_MAX_RANK; d++)
    if (d + by >= 0 && d + by < TSR_MAX_RANK) take_cut(&out, d + by, from, d);
  return out;
}

static bool is_uncut(const place *p)
{
  static const uint8_t none[TSR_MAX_RANK];
  return !memcmp(p->count, none, sizeof none);
}

static bool same_place(const place *a, const place *b)
{
  for (int d = 0; d < TSR_MAX_RANK; d++)
    if (!same_cut(a, d, b, d)) return false;
  return true;
}

/* How the arguments of a loop's bodies lie, given its operands. */
static bool loop_arguments(walk *w, int node, const tsr__loop_attr *attr, place *args, int count)
{
  const tsr__gnode *g = &w->program->nodes[node];
  for (int i = 0; i < count; i++) {
    int operand = tsr__loop_operand(attr, i);
    int o = operand < 0 ? -1 : tsr__in(w->program, g, operand);
    if (o < 0) continue;
    args[i] = w->places[o];
    if (operand < attr->carries || operand >= attr->carries + attr->slices) continue;
    if (args[i].count[0])
      return refuse(w, node,
                    "the loop steps along a sharded dim; tsr_reshard the operand to '-' there, or "
                    "shard another dim");
    args[i] = moved(&args[i], -1);
  }
  return true;
}

/* Whether what a step gives lies as what it takes. A carry that is whole at first comes to lie
 * where the first step leaves it: then *again. */
static bool check_carries(walk *w, int node, place *args, const place *out, bool *again)
{
  const tsr__loop_attr *attr = tsr__attr_of(w->program, &w->program->nodes[node]);
  for (int i = 0; i < attr->carries; i++, args++) {
    if (same_place(args, &out[i])) continue;
    if (!is_uncut(args))
      return refuse(w, node,
                    "a step changes the sharding of a carry; tsr_reshard the carry in the body, or "
                    "before the loop");
    *args = out[i];
    *again = true;
  }
  return true;
}

/* Each round settles one more carry, or is the last. */
static bool place_loop(walk *w, int node)
{
  const tsr__gnode *g = &w->program->nodes[node];
  const tsr__loop_attr *attr = tsr__attr_of(w->program, g);
  bool scan = attr->kind == TSR__LOOP_SCAN, choice = attr->kind == TSR__LOOP_SWITCH, again = true;
  int count = g->in_count + scan - choice, results = g->result_count;
  place *args = tsr__arena_new(w->arena, ((size_t)count + 1) * sizeof *args);
  place *out = tsr__arena_new(w->arena, (2 * (size_t)results + 1) * sizeof *out);
  if (!args || !out) return false;
  if (!loop_arguments(w, node, attr, args, count)) return false;
  while (again) {
    again = false;
    for (int r = 0; r < g->region_count; r++) {
      const tsr__region *region = tsr__region_in(w->program, g, r);
      /* Of a while the first only says whether to go on. */
      bool asks = attr->kind == TSR__LOOP_WHILE && !r, other = choice && r;
      place *own = asks || other ? out + results : out;
      tsr__links gives = { region->results, region->result_count };
      if (!walk_through(w, &region->program, gives, args, own) ||
          (!asks && !check_carries(w, node, args + scan, own, &again)))
        return false;
      for (int i = 0; i < results && other; i++)
        if (!same_place(&own[i], &out[i]))
          return refuse(
              w, node,
              "the bodies shard a result differently; tsr_reshard the result in one of them");
    }
  }
  for (int i = (int)attr->carries; i < results && scan; i++) out[i] = moved(&out[i], 1);
  w->results[node] = out;
  return true;
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* A place that was asked for is taken whatever its operands say: it is how a user chooses. */
static bool take_place(walk *w, int node, const tsr_sharding *at)
{
  if (at->mesh && w->mesh && at->mesh != w->mesh) {
    tsr__error_set(w->error, TSR_EAXIS,
                   "has arrays on two meshes, %s and %s, where shardings are explicit; put all on "
                   "one with tsr_reshard",
                   tsr_mesh_text(w->mesh), tsr_mesh_text(at->mesh));
    return false;
  }
  if (at->mesh) w->mesh = at->mesh;
  w->places[node] = read_place(at, w->program->nodes[node].rank);
  return true;
}

/* Whether each dim is cut by the axes that cut it in another place, and perhaps by more. */
static bool cuts_further(const place *p, const place *than)
{
  bool further = true;
  for (int d = 0; d < TSR_MAX_RANK && further; d++)
    further = p->count[d] >= than->count[d] && !memcmp(p->axis[d], than->axis[d], than->count[d]);
  return further;
}

/* A node that follows another array takes its place, unless the node states a sharding that this
 * place does not cut further. */
static bool place_as(walk *w, int node)
{
  const tsr__gnode *g = &w->program->nodes[node];
  const place *like = &w->places[tsr__in(w->program, g, 1)];
  if (g->sharding && !take_place(w, node, &w->program->shardings[g->sharding])) return false;
  if (cuts_further(like, &w->places[node])) w->places[node] = *like;
  return true;
}

static bool place_node(walk *w, int node)
{
  const tsr__gnode *g = &w->program->nodes[node];
  if (tsr__ops[g->op].follows) return place_as(w, node);
  if (g->sharding) return take_place(w, node, &w->program->shardings[g->sharding]);
  if (tsr__is_leaf(g->op)) {
    if (w->args && g->op == TSR__OP_ARG) w->places[node] = w->args[tsr__index_of(w->program, g)];
    return !w->leaves[node] || take_place(w, node, w->leaves[node]);
  }
  if (tsr__takes_result(g->op)) {
    int o = tsr__in(w->program, g, 0);
    const place *of_loop = w->results[o];
    w->places[node] = of_loop ? of_loop[tsr__index_of(w->program, g)] : w->places[o];
    return true;
  }
  if (tsr__ops[g->op].loops) return place_loop(w, node);
  return (tsr__is_view(g->op) ? by_view(w, node) : by_factors(w, node)) && check_once(w, node);
}

/* Room by node, and the leaves where the given program has arrays. */
static bool open_walk(walk *w, const tsr__program *given, const int32_t *at)
{
  size_t nodes = (size_t)w->program->node_count + 1;
  w->places = tsr__arena_new(w->arena, nodes * sizeof *w->places);
  w->results = tsr__arena_new(w->arena, nodes * sizeof *w->results);
  w->leaves = tsr__arena_new(w->arena, nodes * sizeof *w->leaves);
  if (!w->places || !w->results || !w->leaves) return false;
  for (int n = 0; n < given->node_count; n++)
    if (given->arrays && given->arrays[n] && at[n] >= 0)
      w->leaves[at[n]] = &given->arrays[n]->sharding;
  return true;
}

/* How results of a program lie, into `out`. False: the error is set, or memory is out. */
static bool walk_through(walk *outer, const tsr__program *program, tsr__links results,
                         const place *args, place *out)
{
  tsr__program flat;
  int32_t *at;
  walk w = *outer;
  w.program = &flat;
  w.args = args;
  bool good =
      tsr__program_inline(program, false, w.arena, &flat, &at) && open_walk(&w, program, at);
  for (int n = 0; n < flat.node_count && good; n++) good = place_node(&w, n);
  for (int i = 0; i < results.count && good; i++) out[i] = w.places[at[results.at[i]]];
  outer->mesh = w.mesh;
  tsr__program_free(&flat);
  return good;
}

bool tsr__explicit_places(const tsr__program *program, const tsr__explicit *ask, tsr_sharding *out,
                          tsr__error *error)
{
  walk w = { .arena = ask->arena, .error = error };
  int count = ask->results.count;
  place *places = tsr__arena_new(ask->arena, ((size_t)count + 1) * sizeof *places);
  if (!places || !walk_through(&w, program, ask->results, NULL, places)) {
    if (!error->status)
      tsr__error_set(error, TSR_ENOMEM,
                     "has no memory for its shardings; close scopes that are no longer needed");
    return false;
  }
  for (int i = 0; i < count; i++) {
    const tsr__gnode *node = &program->nodes[ask->results.at[i]];
    out[i] = (tsr_sharding){ 0 };
    if (w.mesh) out[i] = write_place(&w, &places[i], node->rank);
    if (node->sharding) out[i] = program->shardings[node->sharding];
  }
  return true;
}
