/* Tracing: what a body makes of arguments of one signature, as a region.
 *
 *   signature   forms of the arguments, type and sharding of each leaf, bytes at `user`
 *   body        runs on ARG nodes, in a scope that is closed when the region is made
 *   region      what the results need; arrays with values become arguments behind the others
 *
 * Traces of a function lie in a list under its lock. The body runs without it, so that it may call
 * other functions and other threads may call this one: two that meet the same signature for the
 * first time both trace it, and both traces are kept. */
#include <stdio.h>

#include "base/events.h"
#include "transform/transform.h"

/* Deep enough for programs, and their frames fit a small stack. */
enum { MOST_BODIES = 64 };

/* In any state: of one whose body failed only the key may be there. */
void tsr__traced_free(tsr__heap *heap, tsr__traced *t)
{
  if (!t) return;
  for (int i = 0; i < t->captured_count; i++) tsr__value_release(t->captured[i].value);
  if (t->region) tsr__region_release(t->region);
  if (t->captured) tsr__del(heap, t->captured, (size_t)t->captured_count * sizeof *t->captured);
  if (t->form) tsr__del(heap, t->form, strlen(t->form) + 1);
  if (t->key) tsr__del(heap, t->key, t->key_bytes);
  tsr__del(heap, t, sizeof *t);
}

/* The leaf takes a hold of its own, so that a call that is not run yet outlives its function. */
tsr_array *tsr__captured(tsr_scope *scope, const tsr__traced *t, int i, const char *site)
{
  const tsr__capture *c = &t->captured[i];
  tsr__value_hold(c->value);
  return tsr__make_leaf(scope, (tsr_dtype)c->value->dtype, &c->value->shape, &c->place, c->value,
                        c->site ? c->site : site);
}

/* ---- signatures ------------------------------------------------------------------------------ */

/* One leaf of a signature; its padding is zero. */
typedef struct leaf_key {
  int64_t dims[TSR_MAX_RANK];
  tsr_sharding sharding;
  uint8_t dtype, rank;
} leaf_key;

/* The key of a trace, as bytes:
 *
 *   (w: *, b: *);*;  | leaf_key | leaf_key | leaf_key | axes \0 | what lies at .user
 *   forms            ^ first_leaf
 *
 * Meshes are pointers in it: equal ones are one object. Values are no part of it, so a function is
 * traced once for all numbers and arrays of a kind. */
typedef struct signature {
  tsr__text text;
  size_t first_leaf;
  uint64_t hash;
} signature;

/* Field by field into zeros: keys are compared as bytes. Dims behind the rank, and the sharding of
 * what lies nowhere, stay zero: what they hold elsewhere is left to chance. */
static void fill_key(leaf_key *key, const tsr_array *a)
{
  memset(key, 0, sizeof *key);
  key->dtype = a->dtype;
  key->rank = (uint8_t)a->shape.rank;
  memcpy(key->dims, a->shape.dims, (size_t)a->shape.rank * sizeof *key->dims);
  if (a->sharding.mesh) memcpy(&key->sharding, &a->sharding, sizeof key->sharding);
}

static void add_leaf(tsr__text *out, const tsr_array *a)
{
  leaf_key key;
  fill_key(&key, a);
  tsr__text_put(out, (const char *)&key, sizeof key);
}

/* Forms are texts without zeros; what stands behind them begins at traced->first_leaf. */
/* For messages of compiled functions, which take one signature only. Where all that both have are
 * alike, the first that only one of them has. */
int tsr__first_unlike(const tsr__traced *t, const tsr__arguments *a)
{
  for (int i = 0; i < a->leaves.count && i < t->argument_count; i++) {
    leaf_key key;
    fill_key(&key, a->leaves.at[i]);
    if (memcmp(t->key + t->first_leaf + (size_t)i * sizeof key, &key, sizeof key)) return i;
  }
  return a->leaves.count == t->argument_count  ? -1
         : a->leaves.count < t->argument_count ? a->leaves.count
                                               : t->argument_count;
}

tsr__result tsr__traced_leaf(const tsr__traced *t, int leaf, tsr_sharding *place)
{
  leaf_key key;
  memcpy(&key, t->key + t->first_leaf + (size_t)leaf * sizeof key, sizeof key);
  tsr__result type = { .dtype = key.dtype, .rank = key.rank };
  memcpy(type.dims, key.dims, sizeof key.dims);
  *place = key.sharding;
  return type;
}

void tsr__traced_type(const tsr__traced *t, int leaf, tsr__text *out)
{
  tsr_sharding place;
  tsr__result type = tsr__traced_leaf(t, leaf, &place);
  tsr_shape shape = { .rank = type.rank };
  memcpy(shape.dims, type.dims, sizeof type.dims);
  tsr__type_add(out, (tsr_dtype)type.dtype, &shape, &place);
}

/* A form as it is read. */
typedef struct reading {
  const char *at, *end;
} reading;

static bool take(reading *r, const char *text)
{
  size_t length = strlen(text);
  if ((size_t)(r->end - r->at) < length || memcmp(r->at, text, length)) return false;
  r->at += length;
  return true;
}

/* Whether a tree is what comes next, as tsr__form_of writes it. Read along the tree instead of
 * written and compared: calls of compiled functions come by here, and take no memory. */
static bool has_form(const tsr_array *tree, reading *r)
{
  if (!tsr__is_tree(tree)) return take(r, "*");
  bool same = take(r, "(");
  for (int i = 0; i < tree->in_count && same; i++) {
    const char *name = tsr_item_name(tree, i);
    if (i) same = take(r, ", ");
    if (name) same = same && take(r, name) && take(r, ": ");
    same = same && has_form(tree->in[i], r);
  }
  return same && take(r, ")");
}

bool tsr__same_forms(const tsr__traced *t, const tsr__operands *in)
{
  reading r = { t->key, t->key + t->first_leaf };
  for (int i = 0; i < in->count; i++)
    if (!has_form(in->at[i], &r) || !take(&r, ";")) return false;
  return r.at == r.end;
}

/* The caller frees the text. */
static void write_signature(const tsr_scope *scope, const tsr_function *f, const tsr__arguments *a,
                            signature *out)
{
  tsr__text_init(&out->text, &f->node.scope->rt->heap);
  for (int i = 0; i < a->in.count; i++) {
    tsr__form_of(a->in.at[i], &out->text);
    tsr__text_add(&out->text, ";");
  }
  out->first_leaf = out->text.length;
  for (int i = 0; i < a->leaves.count; i++) add_leaf(&out->text, a->leaves.at[i]);
  tsr__axes_text(scope, &out->text);
  /* A zero ends the axes: what lies at .user may be any bytes, or none. */
  tsr__text_put(&out->text, "", 1);
  /* A gradient of a function reads what that has at .user, so their bytes are part of its key as
   * well. */
  for (const tsr_function *of = f; of; of = of->of)
    if (of->user_bytes) tsr__text_put(&out->text, of->user, of->user_bytes);
  /* Only to skip most comparisons; what is found is compared byte by byte. */
  out->hash = tsr__hash(out->text.data, out->text.length, out->text.length);
}

static bool has_signature(const tsr__traced *t, const signature *s)
{
  return t->hash == s->hash && t->key_bytes == s->text.length &&
         !memcmp(t->key, s->text.data, t->key_bytes);
}

/* Whether a leaf is what a key says, without a key made of it. */
static bool is_leaf_of(const leaf_key *key, const tsr_array *a)
{
  static const tsr_sharding unplaced;
  const tsr_sharding *at = a->sharding.mesh ? &a->sharding : &unplaced;
  return key->dtype == a->dtype && key->rank == a->shape.rank &&
         !memcmp(key->dims, a->shape.dims, key->rank * sizeof *key->dims) &&
         !memcmp(&key->sharding, at, sizeof *at);
}

/* Whether a trace is of the signature that would be written, where no axes are mapped over. */
static bool is_trace_of(const tsr_function *f, const tsr__traced *t, const tsr__arguments *a)
{
  const char *at = t->key + t->first_leaf, *end = t->key + t->key_bytes;
  if (t->argument_count != a->leaves.count || !tsr__same_forms(t, &a->in)) return false;
  for (int i = 0; i < a->leaves.count; i++, at += sizeof(leaf_key)) {
    leaf_key key;
    memcpy(&key, at, sizeof key);
    if (!is_leaf_of(&key, a->leaves.at[i])) return false;
  }
  /* The zero that ends the axes stands first where there are none. */
  if (*at++) return false;
  for (const tsr_function *of = f; of; of = of->of) {
    if (!of->user_bytes) continue;
    if ((size_t)(end - at) < of->user_bytes || memcmp(at, of->user, of->user_bytes)) return false;
    at += of->user_bytes;
  }
  return at == end;
}

/* The finished trace of a signature that is not written at all: nearly all calls end here. NULL:
 * there is none, or axes are mapped over, of which signatures tell. */
static const tsr__traced *known_trace(const tsr_scope *scope, tsr_function *f,
                                      const tsr__arguments *a)
{
  for (; scope; scope = scope->outer)
    if (scope->axes) return NULL;
  const tsr__traced *found = NULL, *last = atomic_load_explicit(&f->last, memory_order_acquire);
  if (last && is_trace_of(f, last, a)) return last;
  pthread_mutex_lock(&f->lock);
  for (const tsr__traced *t = f->traced; t && !found; t = t->next)
    if (t->region && is_trace_of(f, t, a)) found = t;
  pthread_mutex_unlock(&f->lock);
  if (found) atomic_store_explicit(&f->last, found, memory_order_release);
  return found;
}

/* The finished trace of a signature; NULL: none yet. *recursive: this thread is at it. */
/* A trace in the making is in the list without a region. That of another thread is passed by,
 * and the body traced twice; waiting for it could wait for this one. A list and no table: a
 * function has few traces. */
static const tsr__traced *find_trace(tsr_function *f, const signature *s, bool *recursive)
{
  const tsr__traced *found = NULL;
  uintptr_t self = tsr__thread_id(f->node.scope->rt);
  *recursive = false;
  pthread_mutex_lock(&f->lock);
  for (const tsr__traced *t = f->traced; t && !found; t = t->next) {
    if (!has_signature(t, s)) continue;
    if (t->region) found = t;
    else if (t->thread == self) *recursive = true;
  }
  pthread_mutex_unlock(&f->lock);
  return found;
}

/* ---- the body -------------------------------------------------------------------------------- */

/* A trace in the making: the scope of the body's nodes, and where errors are told. */
typedef struct tracing {
  tsr_function *f;
  tsr_scope *scope, *caller;
  tsr__traced *traced;
  const char *site;
} tracing;

static tsr_status fail_trace(const tracing *t, tsr_status status, const char *why)
{
  return tsr__fail(t->caller, t->site, status, "%s: the body of %s, made at %s, %s", t->f->call,
                   t->f->name, t->f->node.site ? t->f->node.site : "an unknown line", why);
}

/* An argument: a node of a leaf's type, that says where it lies. */
static tsr_array *make_argument(const tracing *t, const tsr_array *leaf, int index)
{
  tsr__ask ask = { .dtype = (tsr_dtype)leaf->dtype,
                   .shape = leaf->shape,
                   TSR__ATTR(tsr__index_attr, .index = index) };
  tsr_array *arg = tsr__make(t->scope, TSR__OP_ARG, TSR__IN_NONE, &ask, leaf->node.site);
  /* No PLACED flag: where it lies is the caller's, whose plan the region becomes part of. */
  if (!arg->inert) arg->sharding = leaf->sharding; /* to be asked for; not a constraint */
  return arg;
}

/* Its index says nothing: it is never traced, only looked at. */
tsr_array *tsr__stand_in(tsr_scope *scope, tsr_dtype dtype, const tsr_shape *shape,
                         const char *site)
{
  tsr__ask ask = { .dtype = dtype, .shape = *shape, TSR__ATTR(tsr__index_attr, .index = 0) };
  return tsr__make(scope, TSR__OP_ARG, TSR__IN_NONE, &ask, site);
}

int tsr__count_arguments(tsr_array *const *in)
{
  int count = 0;
  while (in[count]) count++;
  return count;
}

/* The arguments as the body sees them, and NULL behind them. NULL out of memory. */
static tsr_array **make_arguments(const tracing *t, const tsr__arguments *a)
{
  size_t room = (size_t)(a->leaves.count + a->in.count + 1);
  tsr_array **leaf = tsr__arena_new(&t->scope->arena, room * sizeof *leaf);
  if (!leaf) return NULL;
  tsr_array **in = leaf + a->leaves.count;
  for (int i = 0; i < a->leaves.count; i++) leaf[i] = make_argument(t, a->leaves.at[i], i);
  for (int i = 0, at = 0; i < a->in.count; i++) {
    int count = tsr_leaf_count(a->in.at[i]);
    in[i] = tsr__like(a->in.at[i], leaf + at, count, t->site);
    at += count;
  }
  return in;
}

/* A body that failed; of functions in functions the innermost says it. The text is searched rather
 * than carried as a list of causes: scopes keep one message each, and the words ": the body of "
 * are those of fail_trace alone. */
static void fail_body(const tracing *t)
{
  /* "a.c:7: tsr_call: the body of f, made at a.c:3, failed: .." of the innermost alone; each
   * caller around it would say the same again, longer. */
  const char *said = tsr_message(t->scope), *inner = strstr(said, ": the body of ");
  tsr_status status = tsr_scope_status(t->scope);
  tsr__text text;
  tsr__text_init(&text, &t->scope->rt->heap);
  while (inner && inner > said && inner[-1] != ' ' && inner[-1] != '\n') inner--; /* to the call */
  tsr__text_add(&text, "failed: %s", said);
  if (inner) tsr__fail(t->caller, t->site, status, "%s", inner);
  else fail_trace(t, status, tsr__text_get(&text));
  tsr__text_free(&text);
}

/* Whether what the body returned can be a result; the error is told. */
/* In this order: an error of the body explains a NULL or an inert result. Bodies of this room
 * return NULL or an inert array without a word where memory is short; of a user's that is a mistake
 * of theirs. */
static bool check_result(const tracing *t, const tsr_array *result)
{
  const tsr_scope *s = t->scope;
  if (tsr_scope_status(s)) {
    fail_body(t);
  } else if (!t->f->asked && (!result || result->inert)) {
    fail_trace(t, TSR_ENOMEM, "has no memory for its program; close scopes that are done");
  } else if (!result) {
    fail_trace(t, TSR_EARG, "returned NULL; return an array, or tsr_tuple of several");
  } else if (result->inert) {
    fail_trace(t, TSR_EARG, "returned the result of a failed call of another scope");
  } else if (result->node.scope->rt != s->rt) {
    fail_trace(t, TSR_EARG, "returned an array of another runtime");
  } else if (!tsr__scope_encloses(result->node.scope, (tsr_scope *)s)) {
    fail_trace(t, TSR_EARG,
               "returned an array of a scope that is not around it and may be closed; make it in "
               "the scope that the body is given");
  } else {
    return true;
  }
  return false;
}

/* ---- the region ------------------------------------------------------------------------------ */

/* Makes an argument of each leaf with a value. Counted first: the list never grows, and where there
 * is no memory for it nothing was changed. */
static bool capture(const tracing *t, tsr__program *program)
{
  tsr__traced *traced = t->traced;
  tsr__heap *heap = program->heap;
  int count = 0;
  for (int n = 0; n < program->node_count; n++) count += program->nodes[n].op == TSR__OP_LEAF;
  /* A leaf has a value, which is held by the trace from now on: the array may be deleted, and calls
   * of later go on with what it had.
   *
   *   %2 = leaf [value]   -->   %2 = arg 3        captured[0] = value, for 3 arguments
   */
  if (!count) return true;
  traced->captured = tsr__new(heap, (size_t)count * sizeof *traced->captured);
  if (!traced->captured) return false;
  for (int n = 0; n < program->node_count; n++) {
    tsr__gnode *node = &program->nodes[n];
    if (node->op != TSR__OP_LEAF) continue;
    /* `skip`: what bodies before this one captured stands in front among the operands of a loop's
     * node. */
    int32_t before = traced->argument_count + t->f->skip;
    tsr__index_attr attr = { .index = before + traced->captured_count };
    tsr__value *value = program->arrays[n]->value;
    tsr__value_hold(value);
    const tsr_sharding *own = &program->arrays[n]->sharding;
    if (!tsr_mesh_is_abstract(own->mesh)) own = &value->sharding;
    traced->captured[traced->captured_count++] = (tsr__capture){ value, *own, program->sites[n] };
    node->op = TSR__OP_ARG;
    /* Where a captured array lies is the value's, which a call hands in like any argument. */
    node->flags &= TSR__ROOT;
    node->sharding = 0;
    node->attr_bytes = sizeof attr;
    node->attr = tsr__program_attr(program, &attr, sizeof attr);
  }
  return !program->failed;
}

/* An argument of another function's body, which has no value here.
 *
 *   outer(x) { inner() { return x + 1; } }    x is an ARG of outer's scope, met in tracing inner
 *
 * A value could be captured; an argument has none until it is called, and its number means another
 * operand here. */
static bool has_foreign(const tracing *t, const tsr__program *program)
{
  for (int n = 0; n < program->node_count; n++) {
    const tsr_array *a = program->arrays[n];
    if (program->nodes[n].op != TSR__OP_ARG || a->node.scope == t->scope) continue;
    fail_trace(t, TSR_EARG,
               "uses an argument of the function around it; pass it as an argument of its own");
    return true;
  }
  return false;
}

static bool make_region(const tracing *t, tsr__program *program, tsr__links results)
{
  if (!capture(t, program)) return false;
  /* Arrays of the body go with its scope; a region stands for itself. */
  for (int n = 0; n < program->node_count; n++) program->arrays[n] = NULL;
  tsr__region *region = tsr__region_make(program, results);
  /* From here on other threads use the trace, which is whole. */
  pthread_mutex_lock(&t->f->lock);
  t->traced->region = region;
  if (region) t->f->trace_count++;
  pthread_mutex_unlock(&t->f->lock);
  return region != NULL;
}

/* The arrays of the result, each where the function's specs say, and room for the node of each. By
 * leaf, where arguments go by argument: results have no other number than that. */
static bool take_results(const tracing *t, tsr_array *result, tsr__leaves *out, int32_t **nodes)
{
  if (!tsr__leaves_of(&t->scope->arena, result, out)) return false;
  *nodes = tsr__arena_new(&t->scope->arena, ((size_t)out->count + 1) * sizeof **nodes);
  if (!*nodes) return false;
  for (int i = 0; i < TSR_MAX_ARGS; i++) {
    if (!t->f->out[i].mesh) continue;
    if (i < out->count)
      out->at[i] = tsr__constrain_for(out->at[i], t->f->out[i], TSR__WHY_OUT_SPECS, t->site);
    else
      tsr__fail(t->scope, t->site, TSR_EARG,
                "tsr_call: .out_specs has a spec for result %d, but the body returns %d; leave it "
                "out",
                i, out->count);
  }
  return true;
}

static char *own_form(tsr__heap *heap, const tsr_array *result)
{
  tsr__text text;
  tsr__text_init(&text, heap);
  tsr__form_of(result, &text);
  const char *form = tsr__text_get(&text);
  char *own = text.failed ? NULL : tsr__new_raw(heap, strlen(form) + 1);
  if (own) memcpy(own, form, strlen(form) + 1);
  tsr__text_free(&text);
  return own;
}

static tsr_status trace_results(const tracing *t, tsr__program *program, const tsr__leaves *results,
                                int32_t *nodes, tsr__error *error)
{
  tsr__operands roots = { results->at, results->count };
  return tsr__trace_roots(t->scope->rt, program, roots, nodes, error);
}

/* Puts the results where explicit shardings say, and traces the program with that. The program is
 * traced a second time then; explicit shardings are asked for rarely, and tracing costs a walk. */
static bool place_results(const tracing *t, tsr__program *program, tsr__leaves *results,
                          int32_t *nodes, tsr__error *error)
{
  tsr__arena *arena = &t->scope->arena;
  tsr_sharding *at = tsr__arena_new(arena, ((size_t)results->count + 1) * sizeof *at);
  tsr__explicit ask = { arena, { nodes, results->count } };
  if (!at) tsr__error_set(error, TSR_ENOMEM, "has no memory; close scopes that are done");
  if (!at || !tsr__explicit_places(program, &ask, at, error)) return false;
  for (int i = 0; i < results->count; i++)
    if (at[i].mesh)
      results->at[i] = tsr__constrain_for(results->at[i], at[i], TSR__WHY_EXPLICIT, t->site);
  /* Constraints were added behind the results, so the program is another one. */
  tsr__program_clear(program);
  program->open = true;
  return !trace_results(t, program, results, nodes, error);
}

/* Sets the region if all went well; otherwise tells in the caller's scope why there is none. The
 * order matters: an error of placing results is one of the body's scope and is told as the body's,
 * before the program, which would be inert, is looked at. */
static void finish(const tracing *t, tsr_array *result)
{
  tsr__program program;
  tsr__leaves results = { 0 };
  int32_t *nodes = NULL;
  tsr__error error = { .status = TSR_OK };
  if (!check_result(t, result)) return;
  tsr__program_init(&program, &t->scope->rt->heap);
  program.open = true;
  t->traced->form = own_form(program.heap, result);
  bool made = t->traced->form && take_results(t, result, &results, &nodes);
  /* Placing results may fail as the body does. */
  if (made && tsr_scope_status(t->scope)) {
    check_result(t, result);
  } else if (made && trace_results(t, &program, &results, nodes, &error)) {
    fail_trace(t, error.status, error.text);
  } else if (made && t->f->explicit_places &&
             !place_results(t, &program, &results, nodes, &error)) {
    fail_trace(t, error.status, error.text);
  } else if (!made || (!has_foreign(t, &program) &&
                       !make_region(t, &program, (tsr__links){ nodes, results.count }))) {
    fail_trace(t, TSR_ENOMEM, "has no memory for its program; close scopes that are done");
  }
  tsr__program_free(&program);
}

/* A trace that is begun, first of the function's list; NULL out of memory. */
/* Seen by others from here on, which is what tells a body that calls itself. The text is the
 * builder's and goes; the key is a copy of just its length. */
static tsr__traced *begin(tsr_function *f, const signature *s, int argument_count)
{
  tsr__heap *heap = &f->node.scope->rt->heap;
  tsr__traced *t = tsr__new(heap, sizeof *t);
  char *key = tsr__new_raw(heap, s->text.length);
  if (!t || !key) {
    if (t) tsr__del(heap, t, sizeof *t);
    if (key) tsr__del(heap, key, s->text.length);
    return NULL;
  }
  memcpy(key, s->text.data, s->text.length);
  t->key = key;
  t->key_bytes = s->text.length;
  t->first_leaf = s->first_leaf;
  t->hash = s->hash;
  t->thread = tsr__thread_id(f->node.scope->rt);
  t->argument_count = argument_count;
  pthread_mutex_lock(&f->lock);
  t->next = f->traced;
  f->traced = t;
  pthread_mutex_unlock(&f->lock);
  return t;
}

/* Takes a trace that came to nothing out of the list. Nobody else has it: others pass by what has
 * no region, and only its own thread gives it one. */
static void drop(tsr_function *f, tsr__traced *t)
{
  pthread_mutex_lock(&f->lock);
  tsr__traced **link = &f->traced;
  while (*link != t) link = &(*link)->next;
  *link = t->next;
  pthread_mutex_unlock(&f->lock);
  tsr__traced_free(&f->node.scope->rt->heap, t);
}

/* ---- telling what was traced anew ------------------------------------------------------------ */

/* How many bytes at the end of a key are those at `user`. */
static size_t user_bytes(const tsr_function *f)
{
  size_t bytes = 0;
  for (; f; f = f->of) bytes += f->user_bytes;
  return bytes;
}

/* What the second leaf has another than the first: "dtype", "shape" or "sharding". Both keys have
 * that leaf: add_change has looked. */
static const char *other_part(const tsr__traced *a, const tsr__traced *b, int leaf)
{
  leaf_key x, y;
  memcpy(&x, a->key + a->first_leaf + (size_t)leaf * sizeof x, sizeof x);
  memcpy(&y, b->key + b->first_leaf + (size_t)leaf * sizeof y, sizeof y);
  if (x.dtype != y.dtype) return "dtype";
  /* The first that differs is told: of another dtype the rest mostly differs, too. */
  return x.rank != y.rank || memcmp(x.dims, y.dims, sizeof x.dims) ? "shape" : "sharding";
}

/* What is other in a trace than in the one before. */
static void add_change(const tsr_function *f, const tsr__traced *before, const tsr__traced *t,
                       tsr__text *out)
{
  size_t size = sizeof(leaf_key), at = 0, end = size * (size_t)t->argument_count;
  if (before->first_leaf != t->first_leaf || before->argument_count != t->argument_count ||
      memcmp(before->key, t->key, t->first_leaf)) {
    tsr__text_add(out, "the arguments are %.*s, were %.*s", (int)t->first_leaf, t->key,
                  (int)before->first_leaf, before->key);
    return;
  }
  const char *old = before->key + t->first_leaf, *new = t->key + t->first_leaf;
  while (at < end && !memcmp(old + at, new + at, size)) at += size;
  if (at < end) {
    int leaf = (int)(at / size);
    tsr__text_add(out, "the %s of array %d changed: ", other_part(before, t, leaf), leaf);
    tsr__traced_type(t, leaf, out);
    tsr__text_add(out, ", was ");
    tsr__traced_type(before, leaf, out);
    return;
  }
  /*   key   forms | leaves | axes \0 | user       compared up to where `user` begins
   *
   * All else was alike, so either the axes or the bytes behind them differ. */
  at = t->key_bytes - user_bytes(f);
  bool same = t->key_bytes == before->key_bytes && !memcmp(t->key, before->key, at);
  tsr__text_add(out, same ? "the bytes at .user changed" : "it is mapped over other axes");
}

/* Tells who asked by tsr_log_compiles. After the trace is in the list, hence "before" is what
 * stands behind it. The callback runs under no lock. */
static void tell_trace(const tsr_function *f, const tsr__traced *t, const char *site)
{
  tsr_runtime *rt = f->node.scope->rt;
  tsr__text line;
  if (!rt->compile_log) return;
  tsr__text_init(&line, &rt->heap);
  tsr__text_add(&line, "traced %s for ", f->name);
  for (int i = 0; i < t->argument_count; i++) {
    if (i) tsr__text_add(&line, ", ");
    tsr__traced_type(t, i, &line);
  }
  tsr__text_add(&line, " at %s: ", site ? tsr__site_file(site) : "an unknown line");
  pthread_mutex_lock((pthread_mutex_t *)&f->lock);
  /* The newest finished one: traces are put in front. */
  const tsr__traced *before = t->next;
  while (before && !before->region) before = before->next;
  if (before) add_change(f, before, t, &line);
  else tsr__text_add(&line, "its first call");
  pthread_mutex_unlock((pthread_mutex_t *)&f->lock);
  rt->compile_log(TSR_LOG_INFO, "transform", tsr__text_get(&line), rt->compile_user);
  tsr__text_free(&line);
}

void tsr_log_compiles(tsr_runtime *rt, tsr_log_fn log, void *user)
{
  if (!rt || rt->error.status) return; /* the inert one is read-only */
  rt->compile_log = log;
  rt->compile_user = user;
}

/* Closes the scope of a body. A user's may have kept arrays and functions of it, which are told
 * from then on. A trace that failed, and bodies of this room, which keep nothing: there closing is
 * enough. */
static void end_body(const tracing *t)
{
  const tsr_function *f = t->f;
  char text[256];
  if (!t->traced->region || !f->asked || t->scope->inert) {
    tsr__scope_close(t->scope);
    return;
  }
  int length = snprintf(text, sizeof text, "the body of %.80s, made at %s", f->name,
                        f->node.site ? f->node.site : "an unknown line");
  size_t most = sizeof text - 1, own = (size_t)length < most ? (size_t)length : most;
  const char *body = tsr__arena_text(&t->scope->arena, text, own);
  /* The scope is retired rather than closed: pointers that a callback kept must be told apart
   * from memory that is another's by now. */
  tsr__arrays_end(t->scope, body ? body : "a body");
  tsr__functions_end(t->scope, body ? body : "a body");
  tsr__scope_retire(t->scope, f->node.scope);
}

/* How many bodies are being traced around a scope. Through the scopes, as the bodies themselves are
 * on the stack in between and know nothing of it. */
static int bodies_around(const tsr_scope *scope)
{
  int count = 0;
  for (; scope; scope = scope->outer) count += scope->body;
  return count;
}

/* Whether each spec has its argument. */
static bool check_specs(const tracing *t, int arguments)
{
  for (int i = arguments; i < TSR_MAX_ARGS; i++) {
    if (!t->f->in[i].mesh) continue;
    tsr__fail(
        t->caller, t->site, TSR_EARG,
        "tsr_call: .in_specs of %s, made at %s, has a spec for argument %d, but there are %d; "
        "give the argument, or leave the spec out",
        t->f->name, t->f->node.site ? t->f->node.site : "an unknown line", i, arguments);
    return false;
  }
  return true;
}

/* The body's scope is nested in the caller's, so what it uses from around is of an outer scope and
 * can be told apart: with a value it is captured, without one it is computed in the region or
 * refused. */
static const tsr__traced *trace_new(tsr_function *f, tsr_scope *caller, const signature *s,
                                    const tsr__arguments *a, const char *site)
{
  tracing t = { .f = f, .caller = caller, .site = site };
  /* A loop is a function anew at each call, so that types do not tell that its body calls it. */
  if (bodies_around(caller) >= MOST_BODIES) {
    fail_trace(&t, TSR_ESTATE, "is inside of 64 others; one that calls itself would never end");
    return NULL;
  }
  if (!check_specs(&t, a->in.count)) return NULL;
  t.traced = begin(f, s, a->leaves.count);
  if (!t.traced) {
    fail_trace(&t, TSR_ENOMEM, "has no memory to be traced; close scopes that are done");
    return NULL;
  }
  tsr__event event = { .kind = "trace", .site = site, .device = -1 };
  event.start = tsr__events_begin(f->node.scope->rt);
  t.scope = tsr_scope_nest_at(caller, site);
  if (!t.scope->inert) t.scope->body = true;
  tsr_array **in = make_arguments(&t, a);
  /* No body sees arguments that memory lacked: those of this room take tuples apart by count. */
  if (in) finish(&t, tsr_scope_status(t.scope) ? NULL : f->body(t.scope, in, f->user));
  end_body(&t);
  /* The function may be gone when the event is read. */
  if (event.start) event.name = tsr_runtime_site(f->node.scope->rt, f->name);
  if (event.name) tsr__events_add(f->node.scope->rt, &event);
  if (!t.traced->region) {
    drop(f, t.traced);
    return NULL;
  }
  tell_trace(f, t.traced, site);
  return t.traced;
}

/* The trace is the function's and stays as long as that; it is not held for the caller. */
const tsr__traced *tsr__trace(tsr_scope *scope, tsr_function *f, const tsr__arguments *a,
                              const char *site)
{
  signature s;
  bool recursive;
  if (tsr__function_ended(scope, f, "tsr_call", site)) return NULL;
  const tsr__traced *found = known_trace(scope, f, a);
  if (found) return found;
  write_signature(scope, f, a, &s);
  found = s.text.failed ? NULL : find_trace(f, &s, &recursive);
  if (s.text.failed) tsr__or_no_memory(scope, NULL, "tsr_call", site);
  else if (recursive)
    tsr__fail(scope, site, TSR_ESTATE,
              "tsr_call: the body of %s, made at %s, calls it on arguments of the types that it is "
              "being traced for, and so would never end; write a loop instead",
              f->name, f->node.site ? f->node.site : "an unknown line");
  else if (!found) found = trace_new(f, scope, &s, a, site);
  tsr__text_free(&s.text);
  return found;
}
