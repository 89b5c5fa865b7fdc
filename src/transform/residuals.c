/* A gradient keeps values of the way forward: the carries that the steps of a scan took, and those
 * that checkpoints name.
 *
 *   forward    %2:1 = f(x)    -->  %2:2 = f(x)        one result more: h, which has a name in f
 *   backward   named(h)       -->  named(h, kept)     rules read `kept`; the cotangent of it
 *                                                     goes to h, and on to the operands of h
 *
 * Both are the node made anew, with a region that is replayed: once the kept values are among its
 * results, once among its arguments. So scans stack the values that their steps keep and take a
 * slice of them in each step back, and bodies of a switch that were not taken keep zeros. A region
 * made so says nothing any more of the names, and is gone back through like any other: loops and
 * checkpoints in checkpoints are no cases of their own.
 *
 * Invariant: the kept values of regions are in the order of their nodes, all the way down. Code
 * that lists, collects or gives them goes by that order alone. */
#include "tessera/gradient.h"
#include "transform/backward.h"

/* By which names values are kept. */
typedef struct names {
  const tsr__name_attr *at; /* NULL: by those that each checkpoint has */
  int count;
  bool all; /* by any */
} names;

/* A value that is kept. */
typedef struct kept {
  tsr__result type; /* stacked, if a scan in the region makes it */
  const char *name;
} kept;

/* All that the regions of a node keep: that of region r from end[r - 1] to end[r]. */
typedef struct list {
  kept *at;
  int count, room;
  int end[TSR__MAX_REGIONS];
} list;

static const char *line_of(const tsr__replay *replay, int n)
{
  const char *site = replay->program->sites[n];
  return site ? site : replay->site;
}

static tsr_array *nothing_kept(tsr_scope *scope, const char *site)
{
  return tsr__or_no_memory(scope, tsr__make_inert(scope, site), "tsr_grad", site);
}

static bool any_inert(tsr_array *const *at, int count)
{
  for (int i = 0; i < count; i++)
    if (at[i] && at[i]->inert) return true;
  return false;
}

/* ---- named values ---------------------------------------------------------------------------- */

/* Whether a node is a value of one of the names. */
static bool is_kept(const tsr__program *program, const tsr__gnode *node, const names *by)
{
  if (!tsr__is_label(node->op)) return false;
  const tsr__name_attr *name = tsr__attr_of(program, node);
  bool found = by->all;
  for (int i = 0; i < by->count && !found; i++) found = !strcmp(by->at[i].text, name->text);
  return found;
}

static const tsr__loop_attr *loop_of(const tsr__program *program, const tsr__gnode *node)
{
  return tsr__ops[node->op].loops ? tsr__attr_of(program, node) : NULL;
}

/* Steps of a scan keep values in stacks, those of a choice do not. */
static bool is_scan(const tsr__program *program, const tsr__gnode *node)
{
  const tsr__loop_attr *loop = loop_of(program, node);
  return loop && loop->kind == TSR__LOOP_SCAN;
}

/* How many regions of a node may keep something, and by which names. A checkpoint in another one is
 * computed again with that, so the outer one says which values are kept until then. Nothing goes
 * back through a while, and the rule of a call reads only its arguments and results. */
static int keeping_regions(const tsr__program *program, const tsr__gnode *node, names *by)
{
  const tsr__loop_attr *loop = loop_of(program, node);
  if (loop) return loop->kind == TSR__LOOP_WHILE ? 0 : node->region_count;
  if (tsr__ops[node->op].attr != TSR__ATTR_CUSTOM) return 0;
  const tsr__custom_attr *custom = tsr__attr_of(program, node);
  if (!by->at && !by->all) *by = (names){ custom->keep, tsr__keep_count(node), false };
  return custom->again && (by->count || by->all);
}

static bool add_kept(tsr__arena *arena, list *out, const tsr__program *program,
                     const tsr__gnode *node)
{
  const tsr__name_attr *name = tsr__attr_of(program, node);
  if (!tsr__arena_grow(arena, (void **)&out->at, &out->room, out->count, sizeof *out->at))
    return false;
  kept *one = &out->at[out->count++];
  one->name = name->text;
  one->type = (tsr__result){ .dtype = node->dtype, .rank = node->rank };
  memcpy(one->type.dims, node->dims, sizeof one->type.dims);
  return true;
}

/* Values of a step, from `first` on, as the stacks of them. False: there is no room, which is
 * told. */
static bool stack(const tsr__replay *replay, int n, list *out, int first)
{
  const tsr__gnode *node = &replay->program->nodes[n];
  int64_t steps = tsr__loop_steps(loop_of(replay->program, node), node, replay->params);
  for (int i = first; i < out->count; i++) {
    tsr__result *type = &out->at[i].type;
    if (type->rank == TSR_MAX_RANK) {
      tsr__fail(
          replay->scope, line_of(replay, n), TSR_ESHAPE,
          "tsr_checkpoint: each step keeps a value named \"%s\" of %d dims, the most an array "
          "can have, and a stack of them has one more; join two of its dims with tsr_reshape",
          out->at[i].name, TSR_MAX_RANK);
      return false;
    }
    memmove(type->dims + 1, type->dims, type->rank * sizeof *type->dims);
    type->dims[0] = steps;
    type->rank++;
  }
  return true;
}

static bool find_kept(const tsr__replay *replay, int n, names by, list *out, int *end);

/* Lists the kept values of a region. False: out of memory, or an error is told. */
static bool find_named(const tsr__replay *replay, const names *by, list *out)
{
  const tsr__program *program = replay->program;
  for (int n = 0; n < program->node_count; n++) {
    const tsr__gnode *node = &program->nodes[n];
    int first = out->count;
    if (is_kept(program, node, by)) {
      if (!add_kept(&replay->scope->arena, out, program, node)) return false;
      continue;
    }
    int inner[TSR__MAX_REGIONS];
    if (!find_kept(replay, n, *by, out, inner)) return false;
    if (is_scan(program, node) && !stack(replay, n, out, first)) return false;
  }
  return true;
}

/* Lists the kept values of a node's regions, and where the list of each ends. Nodes are only looked
 * at, so a region is opened without arguments. */
static bool find_kept(const tsr__replay *replay, int n, names by, list *out, int *end)
{
  const tsr__gnode *node = &replay->program->nodes[n];
  int regions = keeping_regions(replay->program, node, &by);
  size_t room = (size_t)node->in_count + 2;
  tsr_array **none = regions ? tsr__arena_new(&replay->scope->arena, room * sizeof *none) : NULL;
  for (int r = 0; r < regions; r++) {
    tsr__traced traced = tsr__region_trace(replay, n, r);
    tsr__replay inner;
    if (!none || !tsr__replay_open(&inner, replay->scope, &traced, none, replay->site))
      return false;
    inner.params = tsr__region_numbers(replay, n, r);
    if (!find_named(&inner, &by, out)) return false;
    end[r] = out->count;
  }
  return true;
}

/* ---- a region anew --------------------------------------------------------------------------- */

/* A node made anew. On the stack of who makes it, as its regions are traced at once. */
typedef struct anew {
  const tsr__replay *replay;
  int node, region;
  names by;
  const list *all;
  bool gives;  /* kept values are given; else they are among the results */
  int carries; /* of a scan that is gone back through: they are kept, too */
} anew;

/* A replay of the region: the values that were collected so far, or are to be given. */
typedef struct walk {
  const names *by;
  bool gives;
  tsr_array **at;
  int count;
} walk;

static tsr_array *make_anew(const anew *a, tsr__operands in, tsr_array *const *given);

/* A node in whose regions something is kept: made anew with that, or as it is where nothing is. */
static tsr_array *walk_inner(const tsr__replay *replay, int n, tsr__operands in, walk *w)
{
  const tsr__gnode *node = &replay->program->nodes[n];
  list all = { 0 };
  anew a = { .replay = replay, .node = n, .by = *w->by, .all = &all, .gives = w->gives };
  if (!find_kept(replay, n, a.by, &all, all.end)) return nothing_kept(replay->scope, replay->site);
  if (!all.count) return tsr__replay_make(replay, n, in);
  tsr_array **at = w->at + w->count;
  w->count += all.count;
  tsr_array *made = make_anew(&a, in, at);
  for (int i = 0; i < all.count && !w->gives; i++)
    at[i] = tsr__result_of(replay->scope, made, node->result_count + i, line_of(replay, n));
  return made;
}

/* Collects a value that is kept, or gives it, so that it is not computed again. */
static tsr_array *walk_node(const tsr__replay *replay, int n, tsr__operands in, void *user)
{
  walk *w = user;
  const tsr__gnode *node = &replay->program->nodes[n];
  if (!is_kept(replay->program, node, w->by)) return walk_inner(replay, n, in, w);
  tsr_array **at = &w->at[w->count++];
  if (w->gives) return tsr__replay_make(replay, n, TSR__IN(in.at[0], *at));
  return *at = tsr__replay_make(replay, n, in);
}

int tsr__kept_carry(const tsr__region *region, int carries, int i)
{
  for (int r = carries; r < region->result_count; r++) {
    const tsr__gnode *node = &region->program.nodes[region->results[r]];
    if (node->op == TSR__OP_ARG && tsr__index_of(&region->program, node) == 1 + i) return r;
  }
  return -1;
}

/* In the place of a value that another body of a switch keeps. */
static tsr_array *untaken(tsr_scope *s, const tsr__result *type)
{
  tsr_shape shape = { .rank = type->rank };
  memcpy(shape.dims, type->dims, sizeof shape.dims);
  return tsr_full_at(s, tsr_operand_int(0), (tsr_dtype)type->dtype, shape, (tsr_sharding){ 0 },
                     s->site);
}

/* in: the region's arguments by number, the given values, the arguments that follow these. Returns
 * the region's results, carries that are not among them, and the kept values.
 *
 *   collects   out   | results | carries | zeros | own, as nodes are met | zeros |
 *   gives      in[1] | of other regions  | own, as nodes are met         | of other regions | */
static tsr_array *region_anew(tsr_scope *s, tsr_array *const *in, void *user)
{
  const anew *a = user;
  tsr__traced traced = tsr__region_trace(a->replay, a->node, a->region);
  int results = traced.region->result_count, count = 0;
  int first = a->region ? a->all->end[a->region - 1] : 0, end = a->all->end[a->region];
  size_t room = (size_t)results + (size_t)a->carries + (size_t)a->all->count + 1;
  tsr_array **out = tsr__arena_new(&s->arena, room * sizeof *out);
  tsr__leaves args = { 0 }, given = { 0 };
  tsr__replay replay;
  names by = a->by;
  keeping_regions(a->replay->program, &a->replay->program->nodes[a->node], &by);
  if (!out || !tsr__leaves_of(&s->arena, in[0], &args) ||
      !tsr__leaves_of(&s->arena, in[2], &args) || !tsr__leaves_of(&s->arena, in[1], &given) ||
      !tsr__replay_open(&replay, s, &traced, args.at, s->site))
    return nothing_kept(s, s->site);
  replay.params = tsr__region_numbers(a->replay, a->node, a->region);
  tsr_array **own = a->gives ? given.at + first : out + room - 1 - a->all->count + first;
  walk w = { &by, a->gives, own, 0 };
  tsr__replay_by(&replay, walk_node, &w);
  for (; count < results; count++) out[count] = replay.at[replay.results[count]];
  for (int i = 0; i < a->carries; i++)
    if (tsr__kept_carry(traced.region, a->carries, i) < 0) out[count++] = args.at[1 + i];
  for (int i = 0; i < a->all->count && !a->gives; i++, count++)
    out[count] = i >= first && i < end ? own[i - first] : untaken(s, &a->all->at[i].type);
  return tsr_tuple_at(s, out, count, s->site);
}

/* Arguments are one tuple each, since a node may have more operands than a function arguments. */
static const tsr__traced *trace_anew(anew *a, tsr_scope *s, tsr_array *const parts[3])
{
  tsr__arguments given = { .in = { parts, 3 } };
  if (any_inert(parts, 3)) return NULL;
  tsr_function *f = tsr__function_new(s, region_anew, a, "the loop", line_of(a->replay, a->node));
  bool taken = f && tsr__take_leaves(s, f, &given, f->node.site);
  return taken ? tsr__trace(s, f, &given, f->node.site) : NULL;
}

/* ---- a node anew ----------------------------------------------------------------------------- */

/* After how many operands the given values come. */
static int operands_before(const tsr__program *program, const tsr__gnode *node)
{
  const tsr__loop_attr *loop = loop_of(program, node);
  const tsr__custom_attr *custom = tsr__attr_of(program, node);
  if (!loop) return (int)custom->arguments;
  return loop->kind == TSR__LOOP_SCAN ? (int)(loop->carries + loop->slices) : node->in_count;
}

/* The part of a stack that a step sees, as a type. */
static tsr_array *seen_slice(const anew *a, const tsr_array *all)
{
  tsr_shape shape = { .rank = all->shape.rank - 1 };
  for (int d = 0; d < shape.rank; d++) shape.dims[d] = all->shape.dims[d + 1];
  return tsr__stand_in(a->replay->scope, (tsr_dtype)all->dtype, &shape,
                       line_of(a->replay, a->node));
}

/* Traces the regions on operands, from `first` to `end` of which are given. Of arguments only types
 * are looked at.
 *
 *   scan     operands    carries  slices  given  rest      arguments   number and the same
 *   switch               index  rest  given                            rest  given
 *   call                 arguments  given  captured                    the same
 */
static bool trace_regions(const anew *a, tsr_array *const *in, const int range[3],
                          const tsr__traced **traced)
{
  tsr_scope *s = a->replay->scope;
  const tsr__program *program = a->replay->program;
  const tsr__gnode *node = &program->nodes[a->node];
  const tsr__loop_attr *loop = loop_of(program, node);
  bool scan = is_scan(program, node);
  int first = range[0], end = range[1], count = range[2], skip = loop && !scan;
  tsr_array **args = tsr__arena_new(&s->arena, ((size_t)count + 2) * sizeof *args);
  if (!args) return false;
  for (int i = skip; i < count; i++)
    args[i + scan - skip] = scan && i >= loop->carries && i < end ? seen_slice(a, in[i]) : in[i];
  if (scan) args[0] = tsr__stand_in(s, TSR_I64, &(tsr_shape){ .rank = 0 }, s->site);
  int at[4] = { 0, first + scan - skip, end + scan - skip, count + scan - skip };
  tsr_array *parts[3];
  for (int i = 0; i < 3; i++) parts[i] = tsr_tuple_at(s, args + at[i], at[i + 1] - at[i], s->site);
  for (int r = 0; r < (loop ? node->region_count : 1); r++) {
    anew own = *a;
    own.region = r;
    traced[r] = trace_anew(&own, s, parts);
    if (!traced[r]) return false;
  }
  if (!loop) traced[1] = traced[0];
  return true;
}

/* The attribute of a node with `more` operands that are given. */
static void *anew_attr(const anew *a, int more)
{
  const tsr__program *program = a->replay->program;
  const tsr__gnode *node = &program->nodes[a->node];
  void *attr = tsr__arena_new(&a->replay->scope->arena, node->attr_bytes);
  if (!attr) return NULL;
  memcpy(attr, tsr__attr_of(program, node), node->attr_bytes);
  if (is_scan(program, node)) {
    tsr__loop_attr *loop = attr;
    /* The stacks have the number of steps as a dim, so it is no number of the run any more. */
    loop->count = tsr__loop_steps(loop, node, a->replay->params);
    loop->slices += more;
  } else if (!tsr__ops[node->op].loops) {
    ((tsr__custom_attr *)attr)->arguments += more;
  }
  return attr;
}

/* The node on its operands and, where the regions take them, on the values that are given. An inert
 * operand is returned itself, as tsr__make does. */
static tsr_array *make_anew(const anew *a, tsr__operands in, tsr_array *const *given)
{
  tsr_scope *s = a->replay->scope;
  const tsr__gnode *node = &a->replay->program->nodes[a->node];
  int before = operands_before(a->replay->program, node), more = a->gives ? a->all->count : 0;
  int count = in.count + more;
  tsr_array **all = tsr__arena_new(&s->arena, ((size_t)count + 1) * sizeof *all);
  tsr__calling c = { .scope = s,
                     .site = line_of(a->replay, a->node),
                     .op = (tsr__op)node->op,
                     .attr = anew_attr(a, more),
                     .attr_bytes = node->attr_bytes,
                     .count = node->region_count };
  if (!all || !c.attr) return nothing_kept(s, c.site);
  for (int i = 0; i < count; i++) {
    bool own = i < before || i >= before + more;
    all[i] = own ? in.at[i < before ? i : i - more] : given[i - before];
    if (all[i]->inert) return all[i];
  }
  if (!trace_regions(a, all, (int[]){ before, before + more, count }, c.traced))
    return nothing_kept(s, c.site);
  return tsr__call_node(&c, (tsr__operands){ all, count });
}

/* ---- forward, and back ----------------------------------------------------------------------- */

/* How many carries of a scan are not among its results already. */
static int missing_carries(const tsr__program *program, const tsr__gnode *node)
{
  int missing = 0;
  if (!is_scan(program, node)) return 0;
  int carries = (int)loop_of(program, node)->carries;
  for (int i = 0; i < carries; i++)
    missing += tsr__kept_carry(tsr__region_in(program, node, 0), carries, i) < 0;
  return missing;
}

/* Carries and named values in one: the region is traced once for both. A node that has nothing to
 * keep, or has all of it among its results already, is made as it is. */
tsr_array *tsr__replay_keeping(const tsr__replay *replay, int n, tsr__operands in)
{
  const tsr__gnode *node = &replay->program->nodes[n];
  list all = { 0 };
  anew a = { .replay = replay, .node = n, .all = &all };
  bool scan = is_scan(replay->program, node);
  if (!find_kept(replay, n, a.by, &all, all.end) || (scan && !stack(replay, n, &all, 0)))
    return nothing_kept(replay->scope, line_of(replay, n));
  if (!all.count && !missing_carries(replay->program, node)) return tsr__replay_make(replay, n, in);
  if (scan) a.carries = (int)loop_of(replay->program, node)->carries;
  return make_anew(&a, in, NULL);
}

/* Results after the node's own, in the order of region_anew: missing carries, then these. Those
 * that the way back does not read are not computed. */
bool tsr__pull_kept(const tsr__pull *p, tsr__operands *out)
{
  tsr_scope *s = p->back->replay.scope;
  int first = p->node->result_count + missing_carries(p->back->replay.program, p->node);
  int count = p->out->extras->result_count - first;
  tsr_array **all = tsr__arena_new(&s->arena, ((size_t)count + 1) * sizeof *all);
  for (int i = 0; all && i < count; i++) all[i] = tsr__result_of(s, p->out, first + i, p->site);
  *out = (tsr__operands){ all, count };
  return all;
}

/*   region      %3 = tanh(%2)   %4 = named(%3, "h")            kept: none   as it stands
 *   traced      %3 = tanh(%2)   %9 = arg   %4 = named(%3, %9)  kept: h      a region of its own
 *
 * The values follow the arguments, whose numbers so stay those of the region. */
bool tsr__backward_into(tsr__backward *back, const tsr__into *into, tsr_scope *s)
{
  const tsr__pull *p = into->pull;
  const tsr__replay *replay = &p->back->replay;
  int n = (int)(p->node - replay->program->nodes), count = into->in.count;
  const tsr__num *params = tsr__region_numbers(replay, n, into->region);
  tsr__traced *own = tsr__arena_new(&s->arena, sizeof *own);
  const tsr__traced *traced = own;
  tsr_array *const *in = into->in.at;
  if (!own) return false;
  *own = tsr__region_trace(replay, n, into->region);
  if (into->kept.count) {
    list all = { 0 };
    anew a = { .replay = replay, .node = n, .region = into->region, .all = &all, .gives = true };
    size_t room = (size_t)count + (size_t)into->kept.count + 1;
    tsr_array **both = tsr__arena_new(&s->arena, room * sizeof *both);
    tsr_array *const parts[3] = { tsr_tuple_at(s, in, count, s->site),
                                  tsr_tuple_at(s, into->kept.at, into->kept.count, s->site),
                                  tsr_tuple_at(s, NULL, 0, s->site) };
    if (!both || !find_kept(replay, n, a.by, &all, all.end)) return false;
    traced = trace_anew(&a, s, parts);
    if (!traced) return false;
    memcpy(both, in, (size_t)count * sizeof *both);
    memcpy(both + count, into->kept.at, (size_t)into->kept.count * sizeof *both);
    params = traced->region->program.params;
    in = both;
  }
  if (!tsr__backward_open(back, s, traced, in, s->site)) return false;
  back->replay.params = params;
  tsr__backward_for(back, p->back);
  return true;
}

/* ---- names ----------------------------------------------------------------------------------- */

tsr_status tsr__name_read(const char *call, const char *name, tsr__name_attr *out,
                          tsr__error *error)
{
  size_t length = name ? strlen(name) : 0;
  if (!length)
    return tsr__error_set(error, TSR_EARG, "%s: the name is %s; give a name", call,
                          name ? "empty" : "NULL");
  if (length >= TSR__NAME)
    return tsr__error_set(error, TSR_EARG,
                          "%s: the name has %zu bytes, expected at most %d; give a shorter name",
                          call, length, TSR__NAME - 1);
  memset(out, 0, sizeof *out);
  memcpy(out->text, name, length);
  return TSR_OK;
}

/* The names of a list, each once, as the end of a sentence. */
static void add_names(const list *all, tsr__text *out)
{
  for (int i = 0; i < all->count; i++) {
    bool again = false;
    for (int k = 0; k < i && !again; k++) again = !strcmp(all->at[i].name, all->at[k].name);
    if (!again) tsr__text_add(out, "%s\"%s\"", i ? ", " : "", all->at[i].name);
  }
}

bool tsr__names_known(const tsr__replay *replay, const tsr__name_attr *keep, int count,
                      tsr__error *error)
{
  list all = { 0 };
  if (!find_named(replay, &(names){ .all = true }, &all)) return false;
  for (int i = 0; i < count && !error->status; i++) {
    bool found = false;
    for (int k = 0; k < all.count && !found; k++) found = !strcmp(keep[i].text, all.at[k].name);
    if (found) continue;
    tsr__text there;
    tsr__text_init(&there, &replay->scope->rt->heap);
    add_names(&all, &there);
    tsr__error_set(error, TSR_EARG, "no value has the name \"%s\" of .keep; %s%s", keep[i].text,
                   all.count ? "the names there are " : "give a value one with tsr_named",
                   tsr__text_get(&there));
    tsr__text_free(&there);
  }
  return !error->status;
}

/* A number that takes its dtype from the arrays beside it is computed nowhere, and stays that. */
static tsr_array *name_leaf(tsr_array *a, const tsr__name_attr *name, const char *site)
{
  const tsr__ask ask = { .attr = name, .attr_bytes = sizeof *name };
  return a->weak ? a : tsr__make(NULL, TSR__OP_NAME, TSR__IN(a), &ask, site);
}

/* A node of its own, and no mark on x: an array that others read under no name stays as it is.
 * Trees are taken apart, as no program holds one. */
tsr_array *tsr_named_at(tsr_array *x, const char *name, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  tsr__name_attr attr;
  tsr__leaves all = { 0 };
  if (!x) return tsr__make_of_null("tsr_named", "array", site);
  if (x->inert) return x;
  if (tsr__name_read("tsr_named", name, &attr, &error)) return tsr__refused(x, &error, site);
  if (!tsr_is_tree(x)) return name_leaf(x, &attr, site);
  if (!tsr__leaves_of(&tsr__home(x)->arena, x, &all))
    return tsr__or_no_memory(tsr__home(x), NULL, "tsr_named", site);
  for (int i = 0; i < all.count; i++) all.at[i] = name_leaf(all.at[i], &attr, site);
  return tsr__like(x, all.at, all.count, site);
}
