/* Making nodes: every call of the array and frame rooms comes down to tsr__make.
 *
 *   operands -> usable? -> bools as logic -> types and shape -> casts -> the node
 *
 * Invariants of a node that is not inert: its operands are neither NULL nor inert where the table
 * asks for them, they have exactly the dtypes that the operation computes with (CAST nodes stand
 * between where they differ), and its shape and dtype are those of the table's rules. It belongs
 * to the innermost of its operands' scopes, so no operand dies before it.
 *
 * A node that cannot be had is inert: it carries no type, and whatever is made of it is inert too.
 * Where not even that can be allocated it is one of two constants in read-only memory, so whoever
 * writes to a node must look at `inert` first. */
#include "graph/graph.h"

#include <math.h>
#include <stdio.h>

/* Why the constants are inert stands in `param`. */
static const tsr_array no_memory_array = { .inert = 1, .param = { { .i = TSR_ENOMEM } } };
static const tsr_array no_scope_array = { .inert = 1, .param = { { .i = TSR_EARG } } };

static void drop_value(tsr_array *array)
{
  if (array->value) tsr__value_release(array->value);
  array->value = NULL;
}

void tsr__array_use(tsr_array *a)
{
  atomic_fetch_add(&a->users, 1);
}

void tsr__array_let_go(tsr_array *a)
{
  if (atomic_fetch_sub(&a->users, 1) == 1 && a->deleted) drop_value(a);
}

void tsr__array_drop_operands(tsr_array *a)
{
  for (int i = 0; i < a->in_count; i++) {
    if (a->in[i]) tsr__array_let_go(a->in[i]);
    a->in[i] = NULL;
  }
  a->in_count = 0;
}

void tsr__array_delete(tsr_array *a)
{
  a->deleted = 1;
  if (atomic_load(&a->users) == 0) drop_value(a);
}

/* Scopes close from the inside and from the newest node, so operands are still there. */
static void release_node(tsr__node *node)
{
  tsr_array *array = (tsr_array *)node;
  tsr__array_drop_operands(array);
  drop_value(array);
}

/* Nodes can be made where there is a runtime to run them. */
static bool alive(const tsr_scope *scope)
{
  return scope && !scope->inert && scope->rt->error.status == TSR_OK;
}

static tsr_array *inert_constant(const tsr_scope *scope)
{
  bool misuse = !scope || scope->status == TSR_EARG;
  return (tsr_array *)(misuse ? &no_scope_array : &no_memory_array);
}

tsr_array *tsr__make_inert(tsr_scope *scope, const char *site)
{
  if (!scope || scope->inert) return inert_constant(scope);
  tsr_array *array = tsr__node_new(scope, sizeof *array, site, release_node);
  if (!array) return (tsr_array *)&no_memory_array;
  array->inert = 1;
  return array;
}

tsr_array *tsr__make_leaf(tsr_scope *scope, tsr_dtype dtype, const tsr_shape *shape,
                          const tsr_sharding *sharding, tsr__value *value, const char *site)
{
  tsr_array *array = NULL;
  if (alive(scope)) array = tsr__node_new(scope, sizeof *array, site, release_node);
  if (!array) {
    if (value) tsr__value_release(value);
    return inert_constant(scope);
  }
  array->op = TSR__OP_LEAF;
  array->dtype = (uint8_t)dtype;
  array->shape = *shape;
  array->value = value;
  if (sharding) array->sharding = tsr__sharding_canon(sharding);
  array->placed = sharding && sharding->mesh;
  return array;
}

tsr_array *tsr__make_const(tsr_scope *scope, tsr_dtype dtype, tsr__num value, const char *site)
{
  tsr_array *array = NULL;
  if (alive(scope)) array = tsr__node_new(scope, sizeof *array, site, release_node);
  if (!array) return alive(scope) ? inert_constant(scope) : tsr__make_inert(scope, site);
  array->op = TSR__OP_CONST;
  array->dtype = (uint8_t)dtype;
  array->attr.param_count = 1;
  array->param[0] = value;
  return array;
}

/* ---- converting operands ---- */

static int64_t saturate(double value, tsr_dtype dtype)
{
  double least = dtype == TSR_I32 ? INT32_MIN : -0x1p63;
  double most = dtype == TSR_I32 ? INT32_MAX : 0x1p63;
  if (isnan(value)) return 0;
  if (value <= least) return dtype == TSR_I32 ? INT32_MIN : INT64_MIN;
  if (value >= most) return dtype == TSR_I32 ? INT32_MAX : INT64_MAX;
  return (int64_t)value;
}

/* A number as the cast of docs/NUMERICS.md gives it. */
static tsr__num convert(tsr__num from, tsr_dtype dtype, tsr_dtype to)
{
  tsr__num out;
  bool real = dtype == TSR_F32 || dtype == TSR_F64;
  double f = dtype == TSR_F32 ? (double)(float)from.f : from.f;
  if (to == TSR_F64) out.f = real ? f : (double)from.i;
  else if (to == TSR_F32) out.f = real ? (double)(float)f : (double)(float)from.i;
  else if (to == TSR_BOOL) out.i = real ? f != 0 : from.i != 0;
  else if (real) out.i = saturate(f, to);
  else out.i = to == TSR_I32 ? (int64_t)(int32_t)(uint32_t)(uint64_t)from.i : from.i;
  return out;
}

static tsr_array *cast_to(tsr_array *a, tsr_dtype dtype, const char *site)
{
  if (a->op == TSR__OP_CONST && !a->value)
    return tsr__make_const(a->node.scope, dtype, convert(a->param[0], (tsr_dtype)a->dtype, dtype),
                           site);
  return tsr__make(a->node.scope, TSR__OP_CAST, (tsr_array *[3]){ a },
                   &(tsr__ask){ .dtype = dtype }, site);
}

/* A reduction runs over something: a number becomes an array of rank 0. */
static tsr_array *hold_const(tsr_array *a, const char *site)
{
  if (!a || a->op != TSR__OP_CONST || a->value) return a;
  return tsr__make(a->node.scope, TSR__OP_FULL, (tsr_array *[3]){ a },
                   &(tsr__ask){ .dtype = (tsr_dtype)a->dtype }, site);
}

/* A mask that broadcasts to its operand, spread to exactly its shape (nothing is stored: it fuses). */
static tsr_array *spread_mask(tsr_array *mask, const tsr_array *x, const char *site)
{
  int skip = x->shape.rank - mask->shape.rank;
  bool same = skip == 0;
  if (mask->dtype != TSR_BOOL || skip < 0) return mask;
  for (int d = 0; d < mask->shape.rank; d++) {
    if (mask->shape.dims[d] == x->shape.dims[d + skip]) continue;
    if (mask->shape.dims[d] != 1) return mask;
    same = false;
  }
  for (int d = 0; d < x->shape.rank; d++)
    if (x->shape.dims[d] < 0) return mask;
  if (same) return mask;
  tsr_scope *scope = tsr__scope_inner(mask->node.scope, x->node.scope);
  tsr_array *yes = tsr__make_const(scope, TSR_BOOL, (tsr__num){ .i = 1 }, site);
  tsr_array *full = tsr__make(scope, TSR__OP_FULL, (tsr_array *[3]){ yes },
                              &(tsr__ask){ .dtype = TSR_BOOL, .shape = x->shape }, site);
  return tsr__make(scope, TSR__OP_AND, (tsr_array *[3]){ mask, full }, &(tsr__ask){ 0 }, site);
}

/* ---- arithmetic of bools ---- */

/* What an operation on numbers is on bools (JAX agrees where it has them): one operation of logic,
 * with one side or the result negated. */
static const struct logic {
  uint8_t op, as;
  enum { AS_IS, NOT_LEFT, NOT_RIGHT, NOT_RESULT } negated;
} logic[] = {
  { TSR__OP_ADD, TSR__OP_OR, AS_IS },     { TSR__OP_MUL, TSR__OP_AND, AS_IS },
  { TSR__OP_MAXIMUM, TSR__OP_OR, AS_IS }, { TSR__OP_MINIMUM, TSR__OP_AND, AS_IS },
  { TSR__OP_NE, TSR__OP_XOR, AS_IS },     { TSR__OP_EQ, TSR__OP_XOR, NOT_RESULT },
  { TSR__OP_LT, TSR__OP_AND, NOT_LEFT },  { TSR__OP_LE, TSR__OP_OR, NOT_LEFT },
  { TSR__OP_GT, TSR__OP_AND, NOT_RIGHT }, { TSR__OP_GE, TSR__OP_OR, NOT_RIGHT },
  { TSR__OP_MIN, TSR__OP_ALL, AS_IS },    { TSR__OP_MAX, TSR__OP_ANY, AS_IS },
};

static const struct logic *logic_of(tsr__op op, tsr_array *const in[3])
{
  bool pair = tsr__ops[op].lowering != TSR__LOW_REDUCE;
  if (!in[0] || in[0]->dtype != TSR_BOOL) return NULL;
  if (pair && (!in[1] || in[1]->dtype != TSR_BOOL)) return NULL;
  for (size_t i = 0; i < sizeof logic / sizeof *logic; i++)
    if (logic[i].op == op) return &logic[i];
  return NULL;
}

static tsr_array *negate(tsr_array *a, const char *site)
{
  return tsr__make(a->node.scope, TSR__OP_NOT, (tsr_array *[3]){ a }, &(tsr__ask){ 0 }, site);
}

static tsr_array *make_logic(tsr_scope *scope, const struct logic *rule, tsr_array *const in[3],
                             const tsr__ask *ask, const char *site)
{
  tsr_array *use[3] = { in[0], in[1], in[2] };
  if (rule->negated == NOT_LEFT) use[0] = negate(in[0], site);
  if (rule->negated == NOT_RIGHT) use[1] = negate(in[1], site);
  tsr_array *out = tsr__make(scope, (tsr__op)rule->as, use, ask, site);
  return rule->negated == NOT_RESULT ? negate(out, site) : out;
}

/* ---- checks ---- */

/* The first inert operand: what is made of it is it, so that its scope tells why. */
static tsr_array *inert_among(tsr_array *const in[3])
{
  for (int i = 0; i < 3; i++)
    if (in[i] && in[i]->inert) return in[i];
  return NULL;
}

/* The scope of the result, and whether the operands can be used at all. */
static bool usable(tsr_scope **scope, tsr__op op, tsr_array *const in[3], const char *site)
{
  const char *name = tsr__ops[op].name;
  for (int i = 0; i < 3; i++)
    if (in[i]) *scope = tsr__scope_inner(*scope, in[i]->node.scope);
  for (int i = 0; i < 3; i++) {
    if (!in[i]) {
      if (i >= tsr__ops[op].least) continue;
      tsr__fail(*scope, site, TSR_EARG, "tsr_%s: operand %d is NULL; give an array", name, i + 1);
      return false;
    }
    if (in[i]->deleted) {
      tsr__fail(*scope, site, TSR_ESTATE,
                "tsr_%s: operand %d, made at %s, was deleted; use it before tsr_delete", name,
                i + 1, in[i]->node.site ? in[i]->node.site : "an unknown line");
      return false;
    }
    if (in[i]->node.scope->rt != (*scope)->rt) {
      tsr__fail(*scope, site, TSR_EARG,
                "tsr_%s: operand %d belongs to another runtime; read it there and put it here",
                name, i + 1);
      return false;
    }
    if (!tsr__scope_encloses(in[i]->node.scope, *scope)) {
      tsr__fail(*scope, site, TSR_EARG,
                "tsr_%s: operand %d belongs to a scope that may close before this one; move it to "
                "a scope around both with tsr_keep",
                name, i + 1);
      return false;
    }
  }
  return alive(*scope);
}

static void say_where(tsr__error *error, tsr__op op, tsr_array *const in[3])
{
  static const char *const labels[4][3] = {
    { "operand", "", "" },
    { "left ", "right", "" },
    { "condition", "first    ", "second   " },
    { "operand", "mask   ", "codes  " },
  };
  int kind = tsr__ops[op].lowering == TSR__LOW_REDUCE ? 3 : tsr__ops[op].most - 1;
  for (int i = 0; i < 3; i++) {
    size_t used = strlen(error->text);
    if (in[i] && in[i]->node.site && kind >= 0)
      snprintf(error->text + used, sizeof error->text - used, "\n    %s made at %s",
               labels[kind][i], in[i]->node.site);
  }
}

static tsr_status check_sharding(tsr_scope *scope, const tsr_sharding *sharding, tsr__op op,
                                 const tsr__inferred *type, tsr__error *error)
{
  tsr_shape shape = type->shape;
  tsr_sharding asked = *sharding;
  tsr__error inner = { .status = TSR_OK };
  for (int d = 0; d < shape.rank; d++)
    if (shape.dims[d] < 0) shape.dims[d] = 0;
  /* The canonical form names all dims that there can be. */
  if (asked.rank == TSR_MAX_RANK)
    while (asked.rank > shape.rank && !tsr__dim_axes(&asked, asked.rank - 1)) asked.rank--;
  if (tsr__sharding_check_type(&asked, type->dtype, &shape, &inner))
    return tsr__error_set(error, inner.status, "tsr_%s: %s", tsr__ops[op].name, inner.text);
  if (sharding->mesh && sharding->mesh->rt != scope->rt)
    return tsr__error_set(error, TSR_EARG, "tsr_%s: mesh (%s) belongs to another runtime",
                          tsr__ops[op].name, tsr_mesh_text(sharding->mesh));
  return TSR_OK;
}

/* ---- the node ---- */

static tsr__type type_of(const tsr_array *a)
{
  tsr__type type = { .dtype = 0 };
  if (!a) return type;
  type.dtype = (tsr_dtype)a->dtype;
  type.shape = a->shape;
  if (a->placed || a->value) type.sharding = &a->sharding;
  if (a->value && a->shape.rank > 0 && tsr__value_ragged(a->value))
    type.shape.dims[0] = TSR__DYNAMIC;
  return type;
}

static tsr_array *new_node(tsr_scope *scope, tsr__op op, tsr_array *const in[3],
                           const tsr__ask *ask, const char *site)
{
  tsr_array *array = tsr__node_new(scope, sizeof *array, site, release_node);
  if (!array) return (tsr_array *)&no_memory_array;
  array->op = (uint8_t)op;
  for (int i = 0; i < 3; i++) {
    array->in[i] = in[i];
    if (!in[i]) continue;
    array->in_count = (uint8_t)(i + 1);
    atomic_fetch_add_explicit(&in[i]->users, 1, memory_order_relaxed);
  }
  array->attr = ask->attr;
  array->attr.pad = 0;
  array->attr.param_count = tsr__ops[op].numbers;
  for (int i = 0; i < tsr__ops[op].numbers; i++) array->param[i] = ask->param[i];
  if (ask->sharding && ask->sharding->mesh) {
    array->sharding = tsr__sharding_canon(ask->sharding);
    array->placed = 1;
  }
  return array;
}

static tsr_array *fail_node(tsr_scope *scope, tsr__op op, tsr_array *const in[3], tsr__error *error,
                            const char *site)
{
  say_where(error, op, in);
  tsr__fail_error(scope, site, error);
  return tsr__make_inert(scope, site);
}

/* No dims named means all of them; groups reduce all. */
static tsr__ask with_all_dims(tsr__op op, const tsr__ask *ask, const tsr_array *x)
{
  tsr__ask out = *ask;
  if (tsr__ops[op].lowering != TSR__LOW_REDUCE || !x) return out;
  if (!out.attr.dims || out.attr.groups > 0) out.attr.dims = (1u << x->shape.rank) - 1;
  if (out.attr.groups > 0) out.attr.keep = 0;
  return out;
}

tsr_array *tsr__make(tsr_scope *scope, tsr__op op, tsr_array *const in[3], const tsr__ask *ask,
                     const char *site)
{
  tsr_array *inert = inert_among(in);
  if (inert) return inert;
  if (!usable(&scope, op, in, site)) return tsr__make_inert(scope, site);
  const struct logic *rule = logic_of(op, in);
  if (rule) return make_logic(scope, rule, in, ask, site);
  /* An integer is its own rounding. */
  if ((op == TSR__OP_RINT || op == TSR__OP_FLOOR) &&
      (in[0]->dtype == TSR_I32 || in[0]->dtype == TSR_I64))
    return in[0];
  tsr_array *use[3] = { in[0], in[1], in[2] };
  bool reduce = tsr__ops[op].lowering == TSR__LOW_REDUCE;
  if (reduce && use[1]) use[1] = spread_mask(use[1], use[0], site);
  for (int i = 0; i < 3; i++) {
    if (reduce) use[i] = hold_const(use[i], site);
    if (use[i] && use[i]->inert) return tsr__make_inert(scope, site);
  }
  const tsr__type types[3] = { type_of(use[0]), type_of(use[1]), type_of(use[2]) };
  tsr__ask asked = with_all_dims(op, ask, in[0]);
  tsr__inferred type;
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__infer(op, types, &asked, &type, &error);
  if (!status && ask->sharding) status = check_sharding(scope, ask->sharding, op, &type, &error);
  if (status) return fail_node(scope, op, in, &error, site);
  for (int i = 0; i < 3; i++) {
    if (!use[i] || use[i]->dtype == type.operand[i]) continue;
    use[i] = cast_to(use[i], type.operand[i], site);
    if (use[i]->inert) return tsr__make_inert(scope, site);
  }
  tsr_array *array = new_node(scope, op, use, &asked, site);
  if (array->inert) return array;
  array->dtype = (uint8_t)type.dtype;
  array->shape = type.shape;
  return array;
}
