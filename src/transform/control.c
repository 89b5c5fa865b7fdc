/* Loops and choices: bodies traced into the regions of one node.
 *
 *   arguments   carries, slices or the step's number, the rest   --trace-->   regions
 *   captured    of all bodies, one after the other, behind the arguments
 *   node        SCAN, WHILE or SWITCH on carries, slices, rest, captured
 *
 * What the regions give must be what they take; that is found here, where leaves have names.
 *
 *   kind     arguments of its regions, by number          argument i is operand
 *   scan     the step's number, carries, slices, rest     i - 1
 *   while    carries, rest                                i
 *   switch   rest                                         i + 1, behind the number that chooses
 *
 * An argument that a body does not look at, as the step's number mostly, leaves no node in the
 * region. */
#include "tessera/control.h"

#include <stdio.h>

#include "transform/transform.h"

/* A call under way. Lives for one call; what it points to is in the arena of `scope`. */
typedef struct control {
  tsr_scope *scope;
  const char *call, *site;
  tsr__op op;
  tsr__loop_attr attr;
  tsr__leaves in; /* operands, in order */
  int region_count;
  const tsr__traced *traced[TSR__MAX_REGIONS];
} control;

/* Where a body failed the scope has its error; otherwise memory was short and that is recorded. */
static tsr_array *inert_of(const control *c)
{
  return tsr__or_no_memory(c->scope, tsr__make_inert(c->scope, c->site), c->call, c->site);
}

static tsr_array *fail_control(const control *c, tsr_status status, const char *why)
{
  tsr__fail(c->scope, c->site, status, "%s: %s", c->call, why);
  return tsr__make_inert(c->scope, c->site);
}

/* The scope in which a result of the given arrays belongs; NULL entries are skipped, and NULL comes
 * back where no array is given. *inert: the first inert array, or NULL. */
static tsr_scope *scope_of(tsr_array *const *given, int count, tsr_array **inert)
{
  tsr_array *there[TSR_MAX_ARGS + 2];
  int some = 0;
  *inert = NULL;
  for (int i = 0; i < count; i++) {
    if (!given[i]) continue;
    if (given[i]->inert && !*inert) *inert = given[i];
    there[some++] = given[i];
  }
  return some ? tsr__scope_here(tsr__home_of((tsr__operands){ there, some })) : NULL;
}

/* ---- tracing --------------------------------------------------------------------------------- */

/* An argument of a step: of a leaf's type without its first dim, or a number. */
static tsr_array *stand_in(const control *c, const tsr_array *stack)
{
  tsr_dtype dtype = stack ? (tsr_dtype)stack->dtype : TSR_I64;
  tsr_shape shape = { .rank = stack ? stack->shape.rank - 1 : 0 };
  for (int d = 0; d < shape.rank; d++) shape.dims[d] = stack->shape.dims[d + 1];
  return tsr__stand_in(c->scope, dtype, &shape, c->site);
}

/* The arrays of a step in the place of their stacks. NULL out of memory. */
static tsr_array *step_of(const control *c, tsr_array *xs, const tsr__leaves *leaves)
{
  tsr_array **ones = tsr__arena_new(&c->scope->arena, ((size_t)leaves->count + 1) * sizeof *ones);
  for (int i = 0; ones && i < leaves->count; i++) ones[i] = stand_in(c, leaves->at[i]);
  return ones ? tsr__like(xs, ones, leaves->count, c->site) : NULL;
}

static int captured_count(const control *c)
{
  int count = 0;
  for (int r = 0; r < c->region_count; r++) count += c->traced[r]->captured_count;
  return count;
}

/* Traces a body for arguments as the next region; false: the error is told. The function is made
 * for this call alone: `user` may be on the caller's stack, as nobody runs the body again after its
 * trace. */
static bool trace_body(control *c, tsr_body_fn *body, void *user, tsr__operands in)
{
  tsr__arguments a = { .in = in };
  tsr_function *f = tsr__function_new(c->scope, body, user, "the loop", c->site);
  if (!f) return false;
  f->asked = true;
  f->call = c->call;
  /*   operands   | carries slices rest | captured by region 0 | captured by region 1 |
   *
   * Region 1 numbers what it captured behind what region 0 did. */
  f->skip = captured_count(c);
  for (int i = 0; i < in.count; i++)
    if (!in.at[i] || !tsr__leaves_of(&c->scope->arena, in.at[i], &a.leaves)) return false;
  const tsr__traced *t = tsr__trace(c->scope, f, &a, c->site);
  if (t) c->traced[c->region_count++] = t;
  return t;
}

/* ---- what bodies give ------------------------------------------------------------------------ */

static const tsr__gnode *result_node(const tsr__traced *t, int i)
{
  return &t->region->program.nodes[t->region->results[i]];
}

typedef struct words {
  char text[160];
} words;

static words type_words(int dtype, const tsr_shape *shape, const tsr_sharding *at)
{
  words out;
  tsr_type_text((tsr_dtype)dtype, *shape, at, out.text, sizeof out.text);
  return out;
}

static bool fail_carry(const control *c, tsr_array *carry, int leaf, const tsr__gnode *got,
                       const tsr_sharding *at)
{
  const tsr_array *want = c->in.at[leaf];
  tsr_shape shape = tsr__gnode_shape(got);
  tsr__text path;
  tsr__text_init(&path, &c->scope->rt->heap);
  tsr__path_add(carry, leaf, &path);
  bool type = got->dtype != want->dtype;
  tsr__fail(c->scope, c->site,
            type ? TSR_EDTYPE
            : at ? TSR_EAXIS
                 : TSR_ESHAPE,
            "%s: the carry%s%s begins as %s, but the body returns %s; a carry keeps its type: "
            "begin with the returned type, or %s the body's result",
            c->call, path.length ? " " : "", tsr__text_get(&path),
            type_words(want->dtype, &want->shape, at ? &want->sharding : NULL).text,
            type_words(got->dtype, &shape, at).text,
            type ? "cast"
            : at ? "constrain"
                 : "reshape");
  tsr__text_free(&path);
  return false;
}

/* Nodes name all dims that there may be. What leaves dims to the planner goes with anything: a step
 * is planned to leave its carry where it took it. */
static bool lies_same(const tsr_sharding *a, const tsr_sharding *b, const tsr_shape *shape)
{
  if (a->open | b->open) return true;
  tsr_sharding one = *a, other = *b;
  one.rank = other.rank = (uint8_t)shape->rank;
  return tsr_sharding_same(&one, &other, *shape);
}

/* Each carry as it began. A difference of shardings counts only where both were asked for: what the
 * planner chose for the start of a carry it may choose anew inside. */
static bool check_carry(const control *c, const tsr__traced *t, tsr_array *carry)
{
  const tsr__program *program = &t->region->program;
  for (int i = 0; i < c->attr.carries; i++) {
    const tsr_array *want = c->in.at[i];
    const tsr__gnode *got = result_node(t, i);
    tsr_shape shape = tsr__gnode_shape(got);
    const tsr_sharding *at = &program->shardings[got->sharding];
    bool asked = got->flags & TSR__PLACED && at->mesh && want->sharding.mesh && want->placed;
    if (got->dtype != want->dtype || !tsr__shape_same(&shape, &want->shape))
      return fail_carry(c, carry, i, got, NULL);
    if (asked && !lies_same(at, &want->sharding, &shape)) return fail_carry(c, carry, i, got, at);
  }
  return true;
}

static bool fail_form(const control *c, const tsr__traced *t, const char *expected)
{
  tsr__fail(c->scope, c->site, TSR_EARG,
            "%s: the body returned %s, expected %s, where * is an array; return a tree of the same "
            "form",
            c->call, t->form, expected);
  return false;
}

/* The form that a body gives: of a scan a pair, else that of the carry. */
static bool check_form(const control *c, const tsr__traced *t, tsr_array *carry, bool pair)
{
  tsr__text form;
  tsr__text_init(&form, &c->scope->rt->heap);
  if (pair) tsr__text_add(&form, "(");
  tsr__form_of(carry, &form);
  if (pair) tsr__text_add(&form, ", ");
  const char *want = tsr__text_get(&form);
  bool good = pair ? !strncmp(t->form, want, form.length) : !strcmp(t->form, want);
  /* What was compared begins with the outer bracket, so at depth 0 here a comma parts another
   * result; the last bracket goes below it. */
  if (pair && good) { /* one part more, and no name */
    int depth = 0, parts = 1;
    for (const char *p = t->form + form.length; *p; p++) {
      depth += (*p == '(') - (*p == ')');
      parts += depth == 0 && *p == ',';
    }
    good = parts == 1;
  }
  if (pair) tsr__text_add(&form, "...)");
  good = good && !form.failed;
  if (form.failed) (void)tsr__or_no_memory(c->scope, NULL, c->call, c->site);
  else if (!good) fail_form(c, t, tsr__text_get(&form));
  tsr__text_free(&form);
  return good;
}

/* Makes the node and returns its results in the form of the last body's. The number of steps is a
 * number of the node where no type depends on it: then loops of any length share a plan. */
static tsr_array *finish_control(const control *c)
{
  tsr__loop_attr attr = c->attr;
  tsr__calling node = { .scope = c->scope,
                        .site = c->site,
                        .op = c->op,
                        .attr = &attr,
                        .attr_bytes = sizeof attr,
                        .steps = attr.count,
                        .count = c->region_count };
  bool stacks = c->traced[0]->region->result_count > attr.carries;
  /* Slices and stacks have the number of steps as a dim, so it is part of their types. */
  node.counted = attr.kind == TSR__LOOP_SCAN && !attr.slices && !stacks;
  if (node.counted) attr.count = TSR__COUNTED;
  for (int r = 0; r < c->region_count; r++) node.traced[r] = c->traced[r];
  tsr_array *made = tsr__call_traces(&node, c->region_count - 1, &c->in);
  return tsr__or_no_memory(c->scope, made, c->call, c->site);
}

/* ---- scan and fori --------------------------------------------------------------------------- */

/* A user's body behind one that has the arguments in the order of a scan's. */
typedef struct ordered {
  tsr_body_fn *body;
  void *user;
  int64_t lower;     /* fori: its first number */
  bool counts, sees; /* it is fori's; there are slices */
} ordered;

/* (number, carry, slices if there are, with) to (carry, x, with), and of fori (number, carry,
 * with). in[0] is the number, in[1] the carry, then the slices if any, then .with if given. A list
 * of arguments ends with NULL, which the zeros of `out` are where nothing was given. */
static tsr_array *scan_body(tsr_scope *s, tsr_array *const *in, void *user)
{
  const ordered *o = user;
  tsr_array *number = in[0], *const *rest = in + 2;
  if (o->counts && o->lower)
    number = tsr_add_at(number, (tsr_operand){ .number = tsr_scalar_int(o->lower) }, s->site);
  tsr_array *x = o->sees ? *rest++ : number;
  tsr_array *out[4] = { o->counts ? number : in[1], o->counts ? in[1] : x, *rest };
  return o->body(s, out, o->user);
}

/* What a loop takes, as it was given. */
typedef struct given {
  tsr_array *carry, *xs, *with;
} given;

/* Begins a call on what it takes: its scope and its operands. False: it is to return c->scope's
 * inert array, or *inert. The operands in the order that the node has them; their counts are its
 * attribute. */
static bool begin(control *c, const given *g, tsr_array **inert)
{
  c->scope = scope_of((tsr_array *const[]){ g->carry, g->xs, g->with }, 3, inert);
  if (*inert) return false;
  *inert = tsr__make_inert(c->scope, c->site);
  if (!g->carry) {
    tsr__fail(c->scope, c->site, TSR_EARG, "%s: the carry is NULL; give an array or a tree",
              c->call);
    return false;
  }
  tsr__arena *arena = &c->scope->arena;
  bool good = tsr__leaves_of(arena, g->carry, &c->in);
  c->attr.carries = c->in.count;
  if (good && g->xs) good = tsr__leaves_of(arena, g->xs, &c->in);
  c->attr.slices = c->in.count - c->attr.carries;
  if (good && g->with) good = tsr__leaves_of(arena, g->with, &c->in);
  if (!good) *inert = inert_of(c);
  return good;
}

/* The number of steps, as slices say or the call. False: the error is told. A length beside slices
 * is checked against them: it says nothing new but what the caller believes. */
static bool find_length(control *c, const tsr_array *tree, int64_t asked)
{
  tsr_array *const *xs = c->in.at + c->attr.carries;
  if (asked < 0 || (!asked && !c->attr.slices)) {
    fail_control(c, TSR_EARG,
                 "the number of steps is unknown; give .length, or .xs with one slice per step");
    return false;
  }
  if (!asked && xs[0]->shape.rank) asked = xs[0]->shape.dims[0];
  for (int i = 0; i < c->attr.slices; i++) {
    if (xs[i]->shape.rank && xs[i]->shape.dims[0] == asked) continue;
    tsr__fail(c->scope, c->site, TSR_ESHAPE,
              "%s: array %s of .xs is %s, expected %lld steps along its first dim, as many as "
              ".length or the other arrays have",
              c->call, tsr__leaf_path(c->scope, tree, i), tsr_type_of(xs[i]), (long long)asked);
    return false;
  }
  c->attr.count = asked;
  return true;
}

/* Traces the body of a scan on what it sees of a step. Carries and .with are traced as they are, of
 * slices what a step sees of them. */
static bool trace_steps(control *c, ordered *o, const given *g)
{
  tsr_array *in[TSR_MAX_ARGS] = { stand_in(c, NULL), g->carry };
  int count = 2;
  if (g->xs) {
    tsr__leaves xs = { .at = c->in.at + c->attr.carries, .count = (int)c->attr.slices };
    in[count++] = step_of(c, g->xs, &xs);
  }
  if (g->with) in[count++] = g->with;
  o->sees = g->xs;
  return trace_body(c, scan_body, o, (tsr__operands){ in, count });
}

/* The form that a scan's body gives is (carry, y); fori's has the carry alone. */
static tsr_array *run_steps(control *c, ordered *o, const given *g)
{
  if (!trace_steps(c, o, g)) return inert_of(c);
  const tsr__traced *t = c->traced[0];
  bool good = check_form(c, t, g->carry, !o->counts) && check_carry(c, t, g->carry);
  return good ? finish_control(c) : tsr__make_inert(c->scope, c->site);
}

tsr_array *tsr_scan_at(tsr_body_fn *body, void *user, const tsr_loop_args *asked, const char *site)
{
  tsr_loop_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr__take_opts("tsr_scan", asked, &args, sizeof args, &error);
  control c = { .call = "tsr_scan", .site = site, .op = TSR__OP_SCAN };
  given g = { args.carry, args.xs, args.with };
  if (error.status) g.carry = asked->carry; /* whose scope is told */
  ordered o = { .body = body, .user = user };
  tsr_array *inert;
  if (!begin(&c, &g, &inert)) return inert;
  if (error.status) tsr__fail_error(c.scope, site, &error);
  if (error.status) return inert;
  if (!body) return fail_control(&c, TSR_EARG, "the body is NULL; give a callback");
  c.attr.reverse = args.reverse;
  if (!find_length(&c, args.xs, args.length)) return inert;
  return run_steps(&c, &o, &g);
}

tsr_array *tsr_fori_at(tsr_body_fn *body, void *user, const tsr_fori_args *asked, const char *site)
{
  tsr_fori_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr__take_opts("tsr_fori", asked, &args, sizeof args, &error);
  control c = { .call = "tsr_fori", .site = site, .op = TSR__OP_SCAN };
  given g = { args.carry, NULL, args.with };
  if (error.status) g.carry = asked->carry;
  ordered o = { .body = body, .user = user, .lower = args.lower, .counts = true };
  tsr_array *inert;
  if (!begin(&c, &g, &inert)) return inert;
  /* An empty range leaves the count at zero: the carry comes out as it went in. */
  if (!error.status && args.upper > args.lower &&
      __builtin_sub_overflow(args.upper, args.lower, &c.attr.count))
    tsr__error_set(
        &error, TSR_EARG,
        "tsr_fori: from %lld to %lld there are more steps than 63 bits can count; nest two loops",
        (long long)args.lower, (long long)args.upper);
  if (error.status) tsr__fail_error(c.scope, site, &error);
  if (error.status) return inert;
  if (!body) return fail_control(&c, TSR_EARG, "the body is NULL; give a callback");
  return run_steps(&c, &o, &g);
}

/* ---- while ----------------------------------------------------------------------------------- */

/* One bool: a while over arrays has to say whether any or all are to go on. */
static bool check_question(const control *c, const tsr__traced *t)
{
  const tsr__gnode *got = t->region->result_count == 1 ? result_node(t, 0) : NULL;
  if (got && got->dtype == TSR_BOOL && !got->rank) return true;
  tsr_shape shape = got ? tsr__gnode_shape(got) : (tsr_shape){ 0 };
  tsr__fail(c->scope, c->site, TSR_EARG,
            "%s: the condition returned %s, expected bool[]; return a comparison of numbers or "
            "tsr_any of an array",
            c->call, got ? type_words(got->dtype, &shape, NULL).text : t->form);
  return false;
}

tsr_array *tsr_while_at(tsr_body_fn *goes_on, tsr_body_fn *body, void *user,
                        const tsr_while_args *asked, const char *site)
{
  tsr_while_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr__take_opts("tsr_while", asked, &args, sizeof args, &error);
  control c = { .call = "tsr_while", .site = site, .op = TSR__OP_WHILE };
  c.attr.kind = TSR__LOOP_WHILE;
  given g = { args.carry, NULL, args.with };
  if (error.status) g.carry = asked->carry;
  tsr_array *inert;
  if (!begin(&c, &g, &inert)) return inert;
  if (error.status) tsr__fail_error(c.scope, site, &error);
  if (error.status) return inert;
  if (!goes_on || !body)
    return fail_control(&c, TSR_EARG,
                        "the condition or the body is NULL; give a condition to go on, and a body "
                        "that makes the next carry");
  tsr__operands in = { (tsr_array *const[]){ g.carry, g.with }, g.with ? 2 : 1 };
  /* The question is region 0, the step region 1, which the node runs alternately. */
  if (!trace_body(&c, goes_on, user, in)) return inert_of(&c);
  if (!check_question(&c, c.traced[0])) return inert;
  if (!trace_body(&c, body, user, in)) return inert_of(&c);
  bool good = check_form(&c, c.traced[1], g.carry, false) && check_carry(&c, c.traced[1], g.carry);
  return good ? finish_control(&c) : inert;
}

/* ---- cond and switch ------------------------------------------------------------------------- */

/* Each body gives what the first does. */
static bool check_branch(const control *c, int r)
{
  const tsr__traced *first = c->traced[0], *t = c->traced[r];
  if (strcmp(first->form, t->form)) return fail_form(c, t, first->form);
  for (int i = 0; i < t->region->result_count; i++) {
    const tsr__gnode *want = result_node(first, i), *got = result_node(t, i);
    tsr_shape shape = tsr__gnode_shape(got), other = tsr__gnode_shape(want);
    if (got->dtype == want->dtype && tsr__shape_same(&shape, &other)) continue;
    tsr__fail(c->scope, c->site, got->dtype == want->dtype ? TSR_ESHAPE : TSR_EDTYPE,
              "%s: result %d of body %d is %s, but of body 0 it is %s; make all bodies return the "
              "same types",
              c->call, i, r, type_words(got->dtype, &shape, NULL).text,
              type_words(want->dtype, &other, NULL).text);
    return false;
  }
  return true;
}

/* The number that chooses, and behind it what bodies are given. */
static bool take_choice(control *c, tsr_array *index, tsr__operands in)
{
  bool good = tsr__leaves_of(&c->scope->arena, index, &c->in);
  for (int i = 0; i < in.count && good; i++)
    good = tsr__leaves_of(&c->scope->arena, in.at[i], &c->in);
  return good;
}

/* Each is compared with the first as soon as it is traced, so that the error names the first body
 * that differs. */
static tsr_array *choose(control *c, tsr_array *index, void *user, const tsr_switch_args *args)
{
  tsr__operands in = { args->in, 0 };
  int bodies = 0;
  while (in.count < TSR_MAX_ARGS && args->in[in.count]) in.count++;
  while (bodies < TSR_MAX_BRANCHES && args->bodies[bodies]) bodies++;
  if (!bodies) return fail_control(c, TSR_EARG, "there are no bodies; give .bodies");
  if (!take_choice(c, tsr_cast_at(index, TSR_I64, c->site), in)) return inert_of(c);
  for (int r = 0; r < bodies; r++) {
    if (!trace_body(c, args->bodies[r], user, in)) return inert_of(c);
    if (!check_branch(c, r)) return tsr__make_inert(c->scope, c->site);
  }
  return finish_control(c);
}

/* What a choice is called on; the inert array to return, or NULL. */
static tsr_array *begin_choice(control *c, tsr_array *index, const tsr_switch_args *asked,
                               tsr_switch_args *args)
{
  tsr__error error = { .status = TSR_OK };
  tsr_array *all[TSR_MAX_ARGS + 1] = { index }, *inert;
  tsr__take_opts(c->call, asked, args, sizeof *args, &error);
  memcpy(all + 1, error.status ? asked->in : args->in, sizeof args->in);
  c->attr.kind = TSR__LOOP_SWITCH;
  c->op = TSR__OP_SWITCH;
  c->scope = scope_of(all, TSR_MAX_ARGS + 1, &inert);
  if (inert) return inert;
  if (error.status) tsr__fail_error(c->scope, c->site, &error);
  if (error.status) return tsr__make_inert(c->scope, c->site);
  if (!index)
    return fail_control(c, TSR_EARG, "the predicate or index is NULL; give an array of rank 0");
  if (tsr_is_tree(index) || index->shape.rank) {
    tsr__fail(
        c->scope, c->site, TSR_ESHAPE,
        "%s: the predicate or index is %s, expected rank 0; tsr_where chooses element by element",
        c->call, tsr_type_of(index));
    return tsr__make_inert(c->scope, c->site);
  }
  return NULL;
}

tsr_array *tsr_switch_at(tsr_array *index, void *user, const tsr_switch_args *asked,
                         const char *site)
{
  tsr_switch_args args = { .size = sizeof args };
  control c = { .call = "tsr_switch", .site = site };
  tsr_array *refused = begin_choice(&c, index, asked, &args);
  if (refused) return refused;
  if (!tsr__dtype_integer((tsr_dtype)index->dtype)) {
    tsr__fail(c.scope, site, TSR_EDTYPE,
              "tsr_switch: the index is %s, expected an integer; cast the index, or use tsr_cond",
              tsr_type_of(index));
    return tsr__make_inert(c.scope, site);
  }
  return choose(&c, index, user, &args);
}

tsr_array *tsr_cond_at(tsr_array *predicate, void *user, const tsr_switch_args *asked,
                       const char *site)
{
  tsr_switch_args args = { .size = sizeof args };
  control c = { .call = "tsr_cond", .site = site };
  tsr_array *refused = begin_choice(&c, predicate, asked, &args);
  if (refused) return refused;
  if (predicate->dtype != TSR_BOOL) {
    tsr__fail(c.scope, site, TSR_EDTYPE,
              "tsr_cond: the predicate is %s, expected bool[]; compare the array with a number",
              tsr_type_of(predicate));
    return tsr__make_inert(c.scope, site);
  }
  if (!args.bodies[0] || !args.bodies[1] || args.bodies[2])
    return fail_control(&c, TSR_EARG,
                        "a body is NULL; give two bodies, one for true and one for false");
  tsr_body_fn *yes = args.bodies[0];
  args.bodies[0] = args.bodies[1];
  args.bodies[1] = yes;
  return choose(&c, predicate, user, &args);
}
