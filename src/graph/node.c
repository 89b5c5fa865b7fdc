/* Making nodes: every call of the array and frame rooms comes down to tsr__make.
 *
 *   operands -> usable? -> bools as logic -> types and shape -> casts -> the node
 *
 * Invariants of a node that is not inert: its operands are neither NULL nor inert where the table
 * asks for them, they have exactly the dtypes that the operation computes with (CAST nodes stand
 * between where they differ), and its shape and dtype are those of the table's rules. Its scope is
 * in all of its operands' scopes, so no operand dies before it, and what is made on the way to it
 * (casts, masks) is there too: operands may be read by other threads as well.
 *
 * A node that cannot be had is inert: it carries no type, and whatever is made of it is inert too.
 * Where not even that can be allocated it is one of two constants in read-only memory, so whoever
 * writes to a node must look at `inert` first. */
#include "graph/graph.h"

#include <math.h>
#include <stdio.h>

/* Why the constants are inert stands in their number. */
static const tsr__num why_memory = { .i = TSR_ENOMEM }, why_scope = { .i = TSR_EARG };
static const tsr_array no_memory_array = { .inert = 1, .number_count = 1, .numbers = &why_memory };
static const tsr_array no_scope_array = { .inert = 1, .number_count = 1, .numbers = &why_scope };

static void drop_value(tsr_array *array)
{
  if (array->value) tsr__value_release(array->value);
  array->value = NULL;
}

#define GONE ((uint32_t)1 << 31)

void tsr__array_use(tsr_array *a)
{
  /* Users of any thread count here: a program on another thread may be made of an array that its
   * owner deletes meanwhile. That it is deleted stands in the count itself: so one of those who let
   * go and who deletes it, and only one, finds that nobody is left, and drops the value. */
  atomic_fetch_add(&a->users, 1);
}

void tsr__array_let_go(tsr_array *a)
{
  if (atomic_fetch_sub(&a->users, 1) == (GONE | 1)) drop_value(a);
}

void tsr__array_drop_operands(tsr_array *a)
{
  /* Each use was counted one by one, so an operand that stands there twice is let go twice. A tree
   * counted none: it only names arrays, and reads them no more than a variable does. */
  for (int i = 0; i < a->in_count; i++) {
    if (a->in[i] && a->op != TSR__OP_TREE) tsr__array_let_go(a->in[i]);
    a->in[i] = NULL;
  }
  a->in_count = 0;
}

void tsr__array_delete(tsr_array *a)
{
  a->deleted = TSR__DELETED;
  if (atomic_fetch_or(&a->users, GONE) == 0) drop_value(a);
}

void tsr__array_donate(tsr_array *a, const char *site)
{
  tsr__array_delete(a);
  /* After deleting, whose mark it replaces: the two differ in what is said of them, and in that
   * the next run may write over the value. */
  a->deleted = TSR__GIVEN_UP;
  a->given_up = site ? site : "an unknown line";
}

/* It is a leaf without a value, whatever made it, so that nobody looks for its operands. */
void tsr__array_taken_over(tsr_array *a)
{
  drop_value(a);
  a->op = TSR__OP_LEAF;
}

const char *tsr__gone_text(const tsr_array *a, tsr__error *room)
{
  if (a->deleted == TSR__DELETED) return "deleted; use it before tsr_delete";
  *room = (tsr__error){ .status = TSR_OK };
  if (a->deleted == TSR__GIVEN_UP)
    tsr__error_set(room, TSR_ESTATE, "donated by tsr_donate at %s; use it before", a->given_up);
  else
    tsr__error_set(room, TSR_ESTATE,
                   "computed in %s, which has returned; return the array from the body",
                   a->given_up);
  return room->text;
}

/* Scopes close from the inside and from the newest node, so operands are still there. */
static void release_node(tsr__node *node)
{
  tsr_array *array = (tsr_array *)node;
  const tsr__extras *extras = array->extras;
  /* A run under way holds what it reads by reference; it must only not hang its value on a node
   * that is gone. */
  if (array->pending) array->pending->forget(array->pending, array);
  tsr__array_drop_operands(array);
  for (int i = 0; extras && i < extras->region_count; i++) tsr__region_release(extras->regions[i]);
  drop_value(array);
}

void tsr__arrays_end(tsr_scope *scope, const char *body)
{
  for (tsr__node *node = scope->nodes; node; node = node->next) {
    tsr_array *a = (tsr_array *)node;
    if (node->release != release_node) continue;
    a->deleted = TSR__ENDED;
    a->given_up = body;
  }
}

/* Nodes can be made where there is a runtime to run them. */
static bool alive(const tsr_scope *scope)
{
  return scope && !scope->inert && scope->rt->error.status == TSR_OK;
}

tsr_array *tsr__inert_why(tsr_status why)
{
  return (tsr_array *)(why == TSR_ENOMEM ? &no_memory_array : &no_scope_array);
}

/* There are two, since a trace must tell lack of memory (which passes) from a scope that never
 * was. */
static tsr_array *inert_constant(const tsr_scope *scope)
{
  bool misuse = !scope || scope->status == TSR_EARG;
  return tsr__inert_why(misuse ? TSR_EARG : TSR_ENOMEM);
}

/* A node of an operation with what lies behind it: operands, and the numbers and the attribute
 * asked for; zeros where none are.
 *   tsr_array | in[0] in[1] ... | number 0, number 1 ... | attribute |
 *
 * One allocation of the scope's arena; every part is a multiple of 8 bytes long but for the
 * last, so all of them are aligned. */
static tsr_array *allot(tsr_scope *scope, tsr__op op, tsr__operands in, const tsr__ask *ask,
                        const char *site)
{
  const tsr__attr_info *attrs = &tsr__attrs[tsr__ops[op].attr];
  uint32_t attr_bytes = attrs->each && ask->attr ? ask->attr_bytes : attrs->bytes;
  bool many = tsr__ops[op].numbers == TSR__MANY;
  size_t links = (size_t)in.count,
         numbers = many ? (size_t)ask->number_count : tsr__ops[op].numbers;
  TSR_INVARIANT(!ask->attr || ask->attr_bytes == attr_bytes);
  bool some = tsr__ops[op].regions == TSR__MANY && ask->region_count > 0;
  TSR_INVARIANT(some || ask->region_count == tsr__ops[op].regions);
  TSR_INVARIANT(!ask->numbers || (size_t)ask->number_count == numbers);
  size_t behind = links * sizeof(tsr_array *) + numbers * sizeof(tsr__num) + attr_bytes;
  tsr_array *array = tsr__node_new(scope, sizeof *array + behind, site, release_node);
  if (!array) return NULL;
  array->op = (uint16_t)op;
  array->in = (tsr_array **)(array + 1);
  array->in_count = in.count;
  for (size_t i = 0; i < links; i++) array->in[i] = in.at[i];
  tsr__num *number = (tsr__num *)(array->in + links);
  for (size_t i = 0; ask->numbers && i < numbers; i++) number[i] = ask->numbers[i];
  array->numbers = number;
  array->number_count = (int32_t)numbers;
  if (ask->attr) memcpy(number + numbers, ask->attr, attr_bytes);
  array->attr = number + numbers;
  array->attr_bytes = attr_bytes;
  return array;
}

tsr_array *tsr__make_inert(tsr_scope *scope, const char *site)
{
  if (!scope || scope->inert) return inert_constant(scope);
  tsr_array *array = tsr__node_new(scope, sizeof *array, site, release_node);
  if (!array) return (tsr_array *)&no_memory_array;
  array->inert = 1;
  return array;
}

tsr_array *tsr__make_of_null(const char *call, const char *what, const char *site)
{
  tsr__fail_null(call, what, site);
  return tsr__make_inert(NULL, site);
}

/* On a mesh that all processes know of. */
static bool lies_shared(const tsr_sharding *sharding)
{
  return sharding && sharding->mesh && !sharding->mesh->own && !sharding->mesh->abstract;
}

static bool some_shared(tsr__operands in)
{
  for (int i = 0; i < in.count; i++)
    if (in.at[i] && tsr__is_shared(in.at[i])) return true;
  return false;
}

/* Others may read an inert array meanwhile; constants, which have no scope, are not written to. */
static void share(tsr_array *array, bool shared)
{
  if (shared && array->node.scope)
    atomic_store_explicit(&array->shared, true, memory_order_relaxed);
}

tsr_array *tsr__make_inert_on(tsr_scope *scope, const tsr_sharding *sharding, const char *site)
{
  tsr_array *array = tsr__make_inert(scope, site);
  share(array, lies_shared(sharding));
  return array;
}

tsr_array *tsr__make_leaf(tsr_scope *scope, tsr_dtype dtype, const tsr_shape *shape,
                          const tsr_sharding *sharding, tsr__value *value, const char *site)
{
  tsr_array *array = NULL;
  if (alive(scope)) array = tsr__node_new(scope, sizeof *array, site, release_node);
  if (!array) {
    /* Takes the value over, also where it fails: the caller has nothing to undo. */
    if (value) tsr__value_release(value);
    return inert_constant(scope);
  }
  array->op = TSR__OP_LEAF;
  array->dtype = (uint8_t)dtype;
  array->shape = *shape;
  array->value = value;
  if (sharding) array->sharding = tsr__sharding_canon(sharding);
  array->placed = sharding && sharding->mesh;
  share(array, lies_shared(sharding));
  return array;
}

tsr_array *tsr__make_const(tsr_scope *scope, tsr_dtype dtype, tsr__num value, const char *site)
{
  tsr_array *array = NULL;
  tsr__ask ask = { .numbers = &value, .number_count = 1 };
  if (alive(scope)) array = allot(scope, TSR__OP_CONST, TSR__IN_NONE, &ask, site);
  if (!array) return alive(scope) ? inert_constant(scope) : tsr__make_inert(scope, site);
  array->dtype = (uint8_t)dtype;
  return array;
}

/* The caller's names may be on its stack. Without any there is nothing to copy, and count is not
 * 0. */
static bool name_tree(tsr__extras *extras, tsr_scope *scope, const char *const *names, int count)
{
  const char **own = tsr__arena_new(&scope->arena, (size_t)count * sizeof *own);
  for (int i = 0; own && i < count; i++) {
    own[i] = tsr__arena_text(&scope->arena, names[i], strlen(names[i]));
    if (!own[i]) return false;
  }
  extras->names = own;
  return own;
}

tsr_array *tsr__make_tree(tsr_scope *scope, tsr__operands in, const char *const *names,
                          const char *site)
{
  tsr_array *array = NULL;
  size_t results = ((size_t)in.count + 1) * sizeof(tsr__result);
  if (alive(scope)) array = allot(scope, TSR__OP_TREE, in, &(tsr__ask){ 0 }, site);
  if (!array) return alive(scope) ? inert_constant(scope) : tsr__make_inert(scope, site);
  tsr__extras *extras = tsr__arena_new(&scope->arena, sizeof *extras + results);
  if (!extras || (names && in.count && !name_tree(extras, scope, names, in.count))) {
    array->inert = 1;
    tsr__fail(scope, site, TSR_ENOMEM,
              "no memory for a tree; close scopes that are no longer needed");
    return array;
  }
  extras->results = (tsr__result *)(extras + 1);
  extras->result_count = in.count;
  array->extras = extras;
  share(array, some_shared(in));
  return array;
}

/* ---- converting operands ---- */

/* Towards zero, to the nearest end of the dtype's range; NaN gives 0. u64 in its bits. */
static int64_t saturate(double value, tsr_dtype dtype)
{
  const tsr__dtype_info *info = tsr__dtype_info_of(dtype);
  double end = ldexp(1, info->precision), least = info->kind == TSR__DTYPE_INT ? -end : 0;
  int64_t most = (int64_t)(UINT64_MAX >> (64 - info->precision));
  if (isnan(value)) return 0;
  if (value <= least) return info->kind == TSR__DTYPE_INT ? -most - 1 : 0;
  if (value >= end) return most;
  /* Of u64 the upper half would not fit an int64_t: it goes through uint64_t and keeps its bits. */
  return info->precision == 64 ? (int64_t)(uint64_t)value : (int64_t)value;
}

/* A number as the cast of docs/NUMERICS.md gives it. */
static tsr__num convert(tsr__num from, tsr_dtype dtype, tsr_dtype to)
{
  tsr__num out = { .i = 0 };
  bool real = tsr__dtype_is_real(dtype);
  /* A number of f32 lies in a double that may have more digits than it: it is rounded to its own
   * type first, as it would be when used. */
  double f = real ? tsr__dtype_round(dtype, from.f) : 0;
  if (tsr__dtype_is_real(to))
    out.f = real ? tsr__dtype_round(to, f) : tsr__dtype_real_of(to, from.i, dtype == TSR_U64);
  else if (to == TSR_BOOL) out.i = real ? f != 0 : from.i != 0;
  else if (real) out.i = saturate(f, to);
  else out.i = tsr__dtype_get_whole(to, &from.i, 0); /* the low bits */
  return out;
}

static tsr_array *cast_to(tsr_scope *scope, tsr_array *a, tsr_dtype dtype, const char *site)
{
  /* A cast of a number is a number: it stays a parameter of the run, and no node stands between. */
  if (a->op == TSR__OP_CONST && !a->value)
    return tsr__make_const(scope, dtype, convert(a->numbers[0], (tsr_dtype)a->dtype, dtype), site);
  return tsr__make(scope, TSR__OP_CAST, TSR__IN(a), &(tsr__ask){ .dtype = dtype }, site);
}

/* What reduces or is a routine runs over something: a number becomes an array of rank 0. */
static tsr_array *hold_const(tsr_scope *scope, tsr_array *a, const char *site)
{
  if (!a || a->op != TSR__OP_CONST || a->value) return a;
  return tsr__make(scope, TSR__OP_FULL, TSR__IN(a), &(tsr__ask){ .dtype = (tsr_dtype)a->dtype },
                   site);
}

/* A mask that broadcasts to its operand, spread to exactly its shape (nothing is stored: it
 * fuses). */
static tsr_array *spread_mask(tsr_scope *scope, tsr_array *mask, const tsr_array *x,
                              const char *site)
{
  int skip = x->shape.rank - mask->shape.rank;
  bool same = skip == 0;
  /* What is wrong with it is for inference to say: it knows how to word it, and sees the mask as
   * it is. */
  if (mask->dtype != TSR_BOOL || skip < 0) return mask;
  for (int d = 0; d < mask->shape.rank; d++) {
    if (mask->shape.dims[d] == x->shape.dims[d + skip]) continue;
    if (mask->shape.dims[d] != 1) return mask;
    same = false;
  }
  for (int d = 0; d < x->shape.rank; d++)
    /* A full array needs sizes. Rows known at run time take a mask of their own rows only. */
    if (x->shape.dims[d] < 0) return mask;
  if (same) return mask;
  tsr_array *yes = tsr__make_const(scope, TSR_BOOL, (tsr__num){ .i = 1 }, site);
  tsr_array *full = tsr__make(scope, TSR__OP_FULL, TSR__IN(yes),
                              &(tsr__ask){ .dtype = TSR_BOOL, .shape = x->shape }, site);
  /* "and" with all true: broadcasting does the rest, and fusion computes the constant side away. */
  return tsr__make(scope, TSR__OP_AND, TSR__IN(mask, full), &(tsr__ask){ 0 }, site);
}

/* ---- arithmetic of bools ---- */

/* Whether an operation on numbers is meant that has an operation of logic for bools. + of bools
 * is "or", * is "and": as in NumPy, and without a cast to numbers and back. */
static bool on_bools(tsr__op op, tsr__operands in)
{
  bool pair = !tsr__is_reduction((int)op);
  if (!tsr__ops[op].on_bools || !in.count || in.at[0]->dtype != TSR_BOOL) return false;
  return !pair || (in.count > 1 && in.at[1]->dtype == TSR_BOOL);
}

static tsr_array *negate(tsr_scope *scope, tsr_array *a, const char *site)
{
  return tsr__make(scope, TSR__OP_NOT, TSR__IN(a), &(tsr__ask){ 0 }, site);
}

/* The row says which operation, and which side is to be negated: a <= b of bools is (not a) or
 * b. */
static tsr_array *make_logic(tsr_scope *scope, tsr__op op, tsr__operands in, const tsr__ask *ask,
                             const char *site)
{
  tsr_array *left = in.at[0], *right = in.count > 1 ? in.at[1] : NULL;
  int negated = tsr__ops[op].negated;
  if (negated == TSR__NOT_LEFT) left = negate(scope, left, site);
  if (negated == TSR__NOT_RIGHT) right = negate(scope, right, site);
  tsr__operands pair = TSR__IN(left, right);
  /* A reduction keeps its mask and codes, of which `pair` would lose the codes. */
  bool as_given = left == in.at[0] && negated != TSR__NOT_RIGHT;
  tsr_array *out =
      tsr__make(scope, (tsr__op)tsr__ops[op].on_bools, as_given ? in : pair, ask, site);
  return negated == TSR__NOT_RESULT ? negate(scope, out, site) : out;
}

/* Whether operand 1 is the number 2 and lends operand 0 no other dtype. A power of 2 is a
 * product, rounded once. Where the 2 would change the dtype (an i32 and 2.0) the power stays. */
static bool is_square(tsr__operands in)
{
  const tsr_array *x = in.at[0], *two = in.count > 1 ? in.at[1] : NULL;
  if (!x || !two || two->op != TSR__OP_CONST || two->value) return false;
  if (tsr__promote((tsr_dtype)x->dtype, (tsr_dtype)two->dtype) != (tsr_dtype)x->dtype) return false;
  return tsr__dtype_is_real((tsr_dtype)two->dtype) ? two->numbers[0].f == 2
                                                   : two->numbers[0].i == 2;
}

/* ---- numbers beside arrays ---- */

/* The dtype that a number of one dtype takes beside arrays of another: integers follow every number
 * dtype; a float makes integers f64; a bool follows everything. */
static tsr_dtype weak_dtype(tsr_dtype number, tsr_dtype beside)
{
  if (!beside || number == TSR_BOOL) return beside ? beside : number;
  if (tsr__dtype_is_real(number)) return tsr__dtype_of_functions(beside);
  return beside == TSR_BOOL ? number : beside;
}

static tsr_dtype strong_meet(tsr__operands in)
{
  tsr_dtype meet = 0;
  for (int i = 0; i < in.count; i++)
    if (in.at[i] && !in.at[i]->weak) meet = tsr__promote(meet, (tsr_dtype)in.at[i]->dtype);
  return meet;
}

tsr_dtype tsr__meet_of(tsr__operands in)
{
  tsr_dtype arrays = strong_meet(in), meet = arrays;
  for (int i = 0; i < in.count; i++)
    if (in.at[i] && in.at[i]->weak)
      meet = tsr__promote(meet, weak_dtype((tsr_dtype)in.at[i]->dtype, arrays));
  return meet;
}

/* The first of the operands that meet in one dtype, which those from it on do, `apart` from each
 * other; none: beyond them all. */
static int first_that_meets(tsr__op op, int *apart)
{
  *apart = 1;
  if (tsr__is_reduction((int)op)) return TSR__MANY;
  switch (tsr__ops[op].wants) {
  case TSR__WANT_ALIKE:
  case TSR__WANT_COMMON:
  case TSR__WANT_NUMBER:
  case TSR__WANT_ROUNDED:
  case TSR__WANT_FLOAT:
  case TSR__WANT_INTEGER:
  case TSR__WANT_BITS: return 0;
  case TSR__WANT_CHOICE: return 1;
  case TSR__WANT_SCATTER: *apart = 2; return 0;
  default: return TSR__MANY;
  }
}

/* A number of the user's as what stands beside it wants it. Beside bools 0 and 1 are meant as bools
 * where the operation is one of truth: C11's false and true are ints. */
static tsr_array *settled(tsr_scope *scope, tsr__op op, tsr_array *number, tsr_dtype beside,
                          const char *site)
{
  tsr_dtype dtype = weak_dtype((tsr_dtype)number->dtype, beside);
  int64_t whole = number->numbers[0].i;
  bool logic = tsr__ops[op].dtype_rule == TSR__DT_BOOL || tsr__ops[op].wants == TSR__WANT_BITS;
  bool integer = tsr__dtype_integer((tsr_dtype)number->dtype);
  if (logic && beside == TSR_BOOL && integer && (whole == 0 || whole == 1)) dtype = TSR_BOOL;
  bool large = number->dtype == TSR_U64;
  if (!integer || !tsr__dtype_integer(dtype) ||
      (large ? dtype == TSR_U64 : tsr__dtype_holds(dtype, whole)))
    return cast_to(scope, number, dtype, site);
  char text[32];
  snprintf(text, sizeof text, large ? "%llu" : "%lld", (long long)whole);
  tsr__fail(
      scope, site, TSR_EDTYPE,
      "tsr_%s: the integer %s does not fit %s; give a number that fits, or cast the array first",
      tsr__ops[op].name, text, tsr_dtype_name(dtype));
  return tsr__make_inert(scope, site);
}

/* Whether numbers stand beside arrays which they have to follow; their dtype. */
static tsr_dtype leading_dtype(tsr__op op, tsr__operands in)
{
  int apart, first = first_that_meets(op, &apart);
  bool weak = false;
  tsr_dtype meet = 0;
  for (int i = first; i >= 0 && i < in.count; i += apart) {
    if (in.at[i] && in.at[i]->weak) weak = true;
    else if (in.at[i]) meet = tsr__promote(meet, (tsr_dtype)in.at[i]->dtype);
  }
  return weak ? meet : 0;
}

/* The node of operands among which numbers are made what the arrays want. */
static tsr_array *make_settled(tsr_scope *scope, tsr__op op, tsr__operands in, const tsr__ask *ask,
                               const char *site)
{
  int apart, first = first_that_meets(op, &apart);
  tsr_dtype beside = leading_dtype(op, in);
  size_t bytes = (size_t)in.count * sizeof(tsr_array *);
  tsr_array **use = tsr__new_raw(&scope->rt->heap, bytes);
  if (!use) {
    tsr__fail(scope, site, TSR_ENOMEM, "no memory for a node of %d operands", in.count);
    return tsr__make_inert(scope, site);
  }
  memcpy(use, in.at, bytes);
  for (int i = first; i < in.count; i += apart)
    if (use[i] && use[i]->weak) use[i] = settled(scope, op, use[i], beside, site);
  tsr_array *array = tsr__make(scope, op, (tsr__operands){ use, in.count }, ask, site);
  tsr__del(&scope->rt->heap, use, bytes);
  return array;
}

/* ---- checks ---- */

/* The first inert operand: what is made of it is it, so that its scope tells why. No second
 * error is recorded: the first one is the cause. */
static tsr_array *inert_among(tsr__operands in)
{
  for (int i = 0; i < in.count; i++)
    if (in.at[i] && in.at[i]->inert) return in.at[i];
  return NULL;
}

tsr_scope *tsr__home_of(tsr__operands in)
{
  tsr_scope *scope = NULL;
  for (int i = 0; i < in.count; i++)
    if (in.at[i]) scope = tsr__scope_inner(scope, in.at[i]->node.scope);
  return tsr__scope_here(scope);
}

/* What is made of an inert array that no scope has, as calls of NULL alone give: the scope of what
 * stands beside it is told, so that somebody is. */
static tsr_array *of_nowhere(tsr_scope *scope, const char *name, tsr__operands in, tsr_array *inert,
                             const char *site)
{
  if (!scope) scope = tsr__home_of(in);
  if (!alive(scope)) return inert;
  tsr_status why = (tsr_status)inert->numbers[0].i;
  tsr__fail(
      scope, site, why,
      why == TSR_ENOMEM
          ? "tsr_%s: there was no memory for an operand; close scopes that are no longer needed"
          : "tsr_%s: an operand is the result of a call with NULL; give arrays",
      name);
  return tsr__make_inert(scope, site);
}

/* Whether one operand can be used in a scope. `tsr__scope_encloses` keeps lives in order: a node
 * may only use what lives at least as long as it. */
static bool usable_there(tsr_scope *scope, tsr__op op, const char *name, const tsr_array *a,
                         int number, const char *site)
{
  bool tree = a->op == TSR__OP_TREE && op != TSR__OP_TREE;
  bool good = !tree && !a->deleted && a->node.scope->rt == scope->rt &&
              tsr__scope_encloses(a->node.scope, scope);
  if (good) return true;
  char which[24] = "an operand"; /* of calls that are made of others numbers say nothing */
  if (!scope->call) snprintf(which, sizeof which, "operand %d", number);
  tsr__error gone;
  if (tree)
    tsr__fail(scope, site, TSR_EARG,
              "tsr_%s: %s is a tree of %d parts; take one part with tsr_item or tsr_field, or use "
              "tsr_tree_map",
              name, which, a->in_count);
  else if (a->deleted)
    tsr__fail(scope, site, TSR_ESTATE, "tsr_%s: %s, made at %s, was %s", name, which,
              a->node.site ? a->node.site : "an unknown line", tsr__gone_text(a, &gone));
  else if (a->node.scope->rt != scope->rt)
    tsr__fail(scope, site, TSR_EARG,
              "tsr_%s: %s belongs to another runtime; read the array there and place it here with "
              "tsr_put",
              name, which);
  else
    tsr__fail(scope, site, TSR_EARG,
              "tsr_%s: %s belongs to a scope that may close before this one; move the array to a "
              "scope around both with tsr_keep",
              name, which);
  return false;
}

/* The scope of the result, and whether the operands can be used at all. */
static bool usable(tsr_scope **scope, tsr__op op, const char *name, tsr__operands in,
                   const char *site)
{
  const tsr__opinfo *row = &tsr__ops[op];
  if (!*scope) *scope = tsr__home_of(in);
  for (int i = 0; i < in.count; i++)
    if (in.at[i]) *scope = tsr__scope_inner(*scope, in.at[i]->node.scope);
  /* Over what was given and over what the row needs, whichever is more: missing ones are found
   * as NULL ones are. */
  for (int i = 0; i < in.count || i < row->least; i++) {
    const tsr_array *a = i < in.count ? in.at[i] : NULL;
    if (!a && i < row->least) {
      tsr__fail(*scope, site, TSR_EARG, "tsr_%s: operand %d is NULL; give an array", name, i + 1);
      return false;
    }
    if (a && !usable_there(*scope, op, name, a, i + 1, site)) return false;
  }
  if (!*scope)
    tsr__fail(NULL, site, TSR_EARG, "tsr_%s: the scope is NULL; open one with tsr_scope_open",
              name);
  if (row->most == TSR__MANY || in.count <= row->most) return alive(*scope);
  tsr__fail(*scope, site, TSR_EARG, "tsr_%s: %d operands, expected %d at most", name, in.count,
            row->most);
  return false;
}

static const char *label_of(tsr__op op, int i)
{
  static const char *const labels[4][3] = {
    { "operand", "", "" },
    { "left ", "right", "" },
    { "condition", "first    ", "second   " },
    { "operand", "mask   ", "codes  " },
  };
  if (tsr__is_routine((int)op) || tsr__is_view((int)op)) return "operand";
  int kind = tsr__is_reduction((int)op) ? 3 : tsr__ops[op].most - 1;
  /* Padded to one width, so that the lines below each other align. */
  return kind >= 0 && kind <= 3 && i <= 2 ? labels[kind][i] : "operand";
}

/* Where operands were made; of a call that is made of others only those that it did not make. */
static void say_where(tsr__error *error, const tsr_scope *scope, tsr__op op, tsr__operands in,
                      const char *site)
{
  for (int i = 0; i < in.count; i++) {
    size_t used = strlen(error->text);
    const char *made = in.at[i] ? in.at[i]->node.site : NULL;
    /* A call that is composed makes nodes at the user's line: to name that line again would tell
     * nothing. */
    if (!made || (scope->call && made == site)) continue;
    snprintf(error->text + used, sizeof error->text - used, "\n    %s made at %s",
             scope->call ? "operand" : label_of(op, i), made);
  }
}

/* `data`: it has devices, so that elements can lie there; what is planned only needs none. */
static tsr_status check_place(const tsr_scope *scope, const tsr_sharding *sharding,
                              const tsr__inferred *type, bool data, tsr__error *error)
{
  tsr_sharding asked = *sharding;
  tsr_shape known = type->shape;
  for (int d = 0; d < known.rank; d++)
    /* A size of the run is taken for 0, which any spec divides. */
    if (known.dims[d] < 0) known.dims[d] = 0;
  /* The canonical form names all dims that there can be. Else a spec that was made canonical
   * before would seem to name dims too many. */
  if (asked.rank == TSR_MAX_RANK)
    while (asked.rank > known.rank && !tsr__dim_axes(&asked, asked.rank - 1)) asked.rank--;
  bool form = !data && tsr_mesh_is_abstract(asked.mesh);
  if (form ? tsr__sharding_check_form(&asked, &known, error)
           : tsr__sharding_check_type(&asked, type->dtype, &known, error))
    return error->status;
  if (!sharding->mesh || sharding->mesh->rt == scope->rt) return TSR_OK;
  return tsr__error_set(
      error, TSR_EAXIS,
      "the mesh %s belongs to another runtime; make the mesh with the runtime of the scope",
      tsr_mesh_text(sharding->mesh));
}

tsr_status tsr__check_place(const tsr_scope *scope, const tsr_sharding *sharding, tsr_dtype dtype,
                            const tsr_shape *shape, tsr__error *error)
{
  return check_place(scope, sharding, &(tsr__inferred){ .dtype = dtype, .shape = *shape }, true,
                     error);
}

tsr_status tsr__check_plan(const tsr_scope *scope, const tsr_sharding *sharding, tsr_dtype dtype,
                           const tsr_shape *shape, tsr__error *error)
{
  return check_place(scope, sharding, &(tsr__inferred){ .dtype = dtype, .shape = *shape },
                     sharding->unreduced != 0, error);
}

tsr_status tsr__check_sum(const tsr_sharding *sharding, tsr_dtype dtype, tsr__error *error)
{
  char spec[64];
  if (!sharding->unreduced || dtype != TSR_BOOL) return TSR_OK;
  tsr_sharding_text(sharding, sharding->rank, spec, sizeof spec);
  return tsr__error_set(error, TSR_EDTYPE,
                        "spec %s asks for partial sums, but bools have no sums; leave ';sum' out, "
                        "or cast to a number",
                        spec);
}

static tsr_status check_sharding(tsr_scope *scope, const tsr__ask *ask, tsr__op op,
                                 const tsr__inferred *type, tsr__error *error)
{
  tsr__error inner = { .status = TSR_OK };
  tsr_sharding asked = *ask->sharding;
  bool places = tsr__is_step((int)op);
  /* '?' and sums are no places for data, but may be asked of a constraint: they are taken out
   * for the check of the rest. */
  if (ask->opens) asked.open = 0;
  if (places) asked.unreduced = 0;
  if (places) tsr__check_sum(ask->sharding, type->dtype, &inner);
  if (!inner.status && !check_place(scope, &asked, type, asked.unreduced != 0, &inner))
    return TSR_OK;
  return tsr__error_set(error, inner.status, "tsr_%s: %s", tsr__ops[op].name, inner.text);
}

/* ---- the node ---- */

/* A node in the making: its operands as it will have them, with their types and the dtypes that it
 * wants. Those of nearly all nodes lie on the stack. No zeroing: `few_` are written before they
 * are read, for as many operands as there are. */
enum { FEW = 4 };

typedef struct making {
  tsr__operands in;
  tsr_array **use;
  tsr__type *type;
  uint8_t *want;
  void *block; /* not NULL: holds the three above */
  size_t bytes;
  tsr_array *few_use[FEW];
  tsr__type few_type[FEW];
  uint8_t few_want[FEW];
} making;

static bool open_making(making *m, tsr_scope *scope, tsr__operands in, const char *site)
{
  m->in = in;
  m->use = m->few_use;
  m->type = m->few_type;
  m->want = m->few_want;
  m->block = NULL;
  if (in.count > FEW) {
    m->bytes = (size_t)in.count * (sizeof *m->use + sizeof *m->type + sizeof *m->want);
    m->block = tsr__new_raw(&scope->rt->heap, m->bytes);
    if (!m->block) {
      tsr__fail(scope, site, TSR_ENOMEM, "no memory for a node of %d operands", in.count);
      return false;
    }
    m->use = m->block;
    m->type = (tsr__type *)(m->use + in.count);
    m->want = (uint8_t *)(m->type + in.count);
  }
  for (int i = 0; i < in.count; i++) m->use[i] = in.at[i];
  return true;
}

static void close_making(making *m, tsr_scope *scope)
{
  if (m->block) tsr__del(&scope->rt->heap, m->block, m->bytes);
}

static tsr__type type_of(const tsr_array *a)
{
  if (!a) return (tsr__type){ .dtype = 0 };
  return (tsr__type){
    .dtype = a->dtype,
    .rank = (uint8_t)a->shape.rank,
    /* Asked of the value, not of the shape: a filter's result that was evaluated knows its
     * count, but its rows lie where they fell. */
    .ragged = a->value && a->shape.rank > 0 && tsr__value_ragged(a->value),
    .dims = a->shape.dims,
    .sharding = a->placed || a->value ? &a->sharding : NULL,
    .results = a->extras ? a->extras->results : NULL,
    .result_count = a->extras ? a->extras->result_count : 0,
  };
}

/* Regions and results of the few nodes that have any, behind each other. False: out of memory. */
static bool add_extras(tsr_array *array, tsr__op op, const tsr__ask *ask)
{
  if (!tsr__ops[op].results && !ask->region_count) return true;
  tsr__type first = type_of(array->in_count ? array->in[0] : NULL);
  int count = tsr__infer_results(op, ask);
  size_t results = (size_t)count * sizeof(tsr__result);
  size_t regions = (size_t)ask->region_count * sizeof(tsr__region *);
  tsr__extras *extras =
      tsr__arena_new(&array->node.scope->arena, sizeof *extras + results + regions);
  if (!extras) return false;
  extras->results = (tsr__result *)(extras + 1);
  extras->regions = (tsr__region **)(extras->results + count);
  extras->result_count = count;
  for (int i = 0; i < count; i++)
    extras->results[i] = tsr__infer_result(op, (tsr__types){ &first, 1 }, ask, i);
  extras->region_count = ask->region_count;
  /* Held until the node is released: regions are shared by nodes, programs and plans. */
  for (int i = 0; i < ask->region_count; i++) {
    extras->regions[i] = ask->regions[i];
    tsr__region_hold(ask->regions[i]);
  }
  array->extras = extras;
  return true;
}

/* Whether something in a body lies so. */
static bool shared_regions(const tsr__ask *ask)
{
  for (int r = 0; r < ask->region_count; r++) {
    const tsr__program *program = &ask->regions[r]->program;
    for (int i = 1; i < program->sharding_count; i++)
      if (lies_shared(&program->shardings[i])) return true;
  }
  return false;
}

static tsr_array *new_node(tsr_scope *scope, tsr__op op, tsr__operands in, const tsr__ask *ask,
                           const char *site)
{
  /* Without memory for it the scope has recorded the error. */
  tsr_array *array = allot(scope, op, in, ask, site);
  if (!array) return (tsr_array *)&no_memory_array;
  if (!add_extras(array, op, ask)) {
    array->in_count = 0; /* they are not counted yet */
    array->inert = 1;
    tsr__fail(scope, site, TSR_ENOMEM,
              "no memory for a node; close scopes that are no longer needed");
    return array;
  }
  for (int i = 0; i < in.count; i++)
    /* Relaxed is enough to count up: the operand is held by its scope meanwhile; counting down
     * orders. */
    if (in.at[i]) atomic_fetch_add_explicit(&in.at[i]->users, 1, memory_order_relaxed);
  if (ask->sharding && ask->sharding->mesh) {
    array->sharding = tsr__sharding_canon(ask->sharding);
    array->placed = 1;
  }
  share(array, some_shared(in) || lies_shared(ask->sharding) || shared_regions(ask));
  return array;
}

/* Puts the name of the call that was made in the place of the row's. A call that is composed
 * (argsort, of sort) then fails under the name that the user wrote. */
static void say_call(tsr__error *error, tsr__op op, const char *call)
{
  tsr__error found = *error;
  size_t length = strlen("tsr_") + strlen(tsr__ops[op].name);
  bool named =
      !strncmp(found.text, "tsr_", 4) && !strncmp(found.text + 4, tsr__ops[op].name, length - 4);
  error->status = TSR_OK;
  if (!named || found.text[length] != ':') *error = found;
  else tsr__error_set(error, found.status, "tsr_%s%s", call, found.text + length);
}

static tsr_array *fail_node(tsr_scope *scope, tsr__op op, tsr__operands in, tsr__error *error,
                            const char *site)
{
  say_where(error, scope, op, in, site);
  tsr__fail_error(scope, site, error);
  return tsr__make_inert(scope, site);
}

/* No dims named means all of them; groups reduce all. Filled in before the node is made, so that
 * sum(x) and sum over all dims are equal nodes. */
static tsr__reduce_attr with_all_dims(const tsr__ask *ask, const tsr_array *x)
{
  tsr__reduce_attr out = { 0 };
  if (ask->attr) out = *(const tsr__reduce_attr *)ask->attr;
  if (!out.dims || out.groups > 0) out.dims = (1u << x->shape.rank) - 1;
  if (out.groups > 0) out.keep = 0;
  return out;
}

/* What is taken beside arrays as they are: of a reduction masks that broadcast, and numbers. */
static void hold_operands(tsr_scope *scope, tsr__op op, making *m, const char *site)
{
  int count = m->in.count;
  bool reduces = tsr__is_reduction((int)op);
  bool arrays = tsr__is_routine((int)op) || tsr__is_view((int)op) || tsr__ops[op].loops ||
                tsr__ops[op].attr == TSR__ATTR_TAP;
  if (!reduces && !arrays) return;
  if (reduces && count > 1 && m->use[1]) m->use[1] = spread_mask(scope, m->use[1], m->use[0], site);
  for (int i = 0; i < count; i++) m->use[i] = hold_const(scope, m->use[i], site);
}

/* Casts the operands to what the node wants. False: one could not be had. */
static bool cast_operands(tsr_scope *scope, making *m, const char *site)
{
  for (int i = 0; i < m->in.count; i++) {
    if (!m->use[i] || m->use[i]->dtype == m->want[i]) continue;
    m->use[i] = cast_to(scope, m->use[i], (tsr_dtype)m->want[i], site);
    if (m->use[i]->inert) return false;
  }
  return true;
}

static tsr_array *make_node(tsr_scope *scope, tsr__op op, making *m, const tsr__ask *ask,
                            const char *site)
{
  int count = m->in.count;
  tsr__inferred type = { .operand = m->want };
  tsr__error error;
  error.status = TSR_OK; /* its text costs more to clear than most nodes to make */
  hold_operands(scope, op, m, site);
  for (int i = 0; i < count; i++) {
    if (m->use[i] && m->use[i]->inert) return tsr__make_inert(scope, site);
    m->type[i] = type_of(m->use[i]);
  }
  tsr_status status = tsr__infer(op, (tsr__types){ m->type, count }, ask, &type, &error);
  if (!status && ask->sharding) status = check_sharding(scope, ask, op, &type, &error);
  if (status && ask->call) say_call(&error, op, ask->call);
  if (status) return fail_node(scope, op, m->in, &error, site);
  if (!cast_operands(scope, m, site)) return tsr__make_inert(scope, site);
  tsr_array *array = new_node(scope, op, (tsr__operands){ m->use, count }, ask, site);
  if (array->inert) return array;
  array->dtype = (uint8_t)type.dtype;
  array->shape = type.shape;
  return array;
}

tsr_array *tsr__make(tsr_scope *scope, tsr__op op, tsr__operands in, const tsr__ask *ask,
                     const char *site)
{
  /* What is left out at the end is not there at all: a list is as long as its last operand, and
   * equal calls make equal nodes. */
  while (in.count > tsr__ops[op].least && !in.at[in.count - 1]) in.count--;
  const char *name = ask->call ? ask->call : tsr__ops[op].name;
  tsr_array *inert = inert_among(in);
  if (inert && !inert->node.scope) inert = of_nowhere(scope, name, in, inert, site);
  if (inert) {
    share(inert, some_shared(in)); /* others, where it is none, wait for what is made of it */
    return inert;
  }
  if (!usable(&scope, op, name, in, site)) return tsr__make_inert(scope, site);
  if (leading_dtype(op, in)) return make_settled(scope, op, in, ask, site);
  if (on_bools(op, in)) return make_logic(scope, op, in, ask, site);
  if (tsr__ops[op].square && is_square(in))
    return tsr__make(scope, (tsr__op)tsr__ops[op].square, TSR__IN(in.at[0], in.at[0]), ask, site);
  /* floor, ceil and their like of an integer are the integer. */
  if (tsr__ops[op].wants == TSR__WANT_ROUNDED && tsr__dtype_integer((tsr_dtype)in.at[0]->dtype))
    return in.at[0];
  making m;
  tsr__reduce_attr reduce;
  tsr__ask asked;
  if (tsr__ops[op].attr == TSR__ATTR_REDUCE) {
    reduce = with_all_dims(ask, in.at[0]);
    asked = *ask;
    asked.attr = &reduce;
    asked.attr_bytes = sizeof reduce;
    ask = &asked;
  }
  if (!open_making(&m, scope, in, site)) return tsr__make_inert(scope, site);
  tsr_array *array = make_node(scope, op, &m, ask, site);
  close_making(&m, scope);
  if (array->inert) share(array, some_shared(in) || lies_shared(ask->sharding));
  return array;
}

tsr_array *tsr__make_call(tsr_scope *scope, tsr__op op, tsr__operands in, const tsr__ask *ask,
                          const char *site)
{
  tsr_array *inert = inert_among(in);
  if (inert) {
    share(inert, some_shared(in));
    return inert;
  }
  bool good = usable(&scope, op, tsr__ops[op].name, in, site);
  return good ? new_node(scope, op, in, ask, site) : tsr__make_inert(scope, site);
}

tsr_array *tsr__make_result(tsr_scope *scope, tsr_array *node, int index, const char *site)
{
  tsr__operands in = TSR__IN(node);
  if (node->inert) return node;
  if (!usable(&scope, TSR__OP_RESULT, tsr__ops[TSR__OP_RESULT].name, in, site))
    return tsr__make_inert(scope, site);
  TSR_INVARIANT(node->extras && index >= 0 && index < node->extras->result_count);
  const tsr__result *type = &node->extras->results[index];
  tsr__ask ask = { TSR__ATTR(tsr__index_attr, .index = index) };
  tsr_array *array = new_node(scope, TSR__OP_RESULT, in, &ask, site);
  if (array->inert) return array;
  array->dtype = type->dtype;
  array->shape.rank = type->rank;
  memcpy(array->shape.dims, type->dims, sizeof type->dims);
  return array;
}
