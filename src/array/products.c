/* Calls of products: which dims of two operands run together.
 *
 *   matmul [.., m, k] [.., k, n]      each dim gets an index, as einsum's letters; a dim of size 1
 *             1 2 3      1 3 4        against a larger one gets none, and so repeats
 *                  -> 1 2 4
 *
 * All products are one node, DOT, with an index for each dim of both operands and of the result:
 *
 *   in both, not in the result    contracted        in both and in the result    a batch
 *   in one and in the result      kept              0                            size 1, repeats */
#include "array/products_room.h"

#include <stdio.h>

#include "tessera/products.h"
#include "tessera/shape.h"

/* ---- one product ----------------------------------------------------------------------------- */

/* A transposed operand is read where it lies: its dims get the indices in their own order. A
 * transpose that nobody evaluated is only another numbering of the same dims. Windows count by the
 * places of dims, which must stay. */
static tsr_array *seen_through(tsr_array *x, uint8_t indices[TSR_MAX_RANK], bool windows)
{
  while (!windows && tsr__ops[x->op].permutes && !x->value && !x->inert && !x->deleted) {
    /* The transpose has no value, so it costs nothing to look behind it; one that was evaluated is
     * there in order and is taken as it is. */
    const tsr__order_attr *order = x->attr;
    uint8_t now[TSR_MAX_RANK] = { 0 };
    for (int d = 0; d < x->shape.rank; d++) now[order->dims[d]] = indices[d];
    memcpy(indices, now, sizeof now);
    /* A transpose of a transpose is seen through as well. */
    x = x->in[0];
  }
  return x;
}

/* Whether products of `in` may be taken as they are for a result of `out`: packing widens. The
 * result's dtype is then the one that sums are made in, and operands stay narrow in memory. */
static bool widens(tsr_dtype in, tsr_dtype out)
{
  bool real = tsr__dtype_is_real(in);
  if (in == out) return true;
  return in != TSR_BOOL && real == tsr__dtype_is_real(out) &&
         tsr_dtype_size(in) < tsr_dtype_size(out);
}

/* How many dims have an index. */
static int times(const uint8_t *indices, int index)
{
  int count = 0;
  for (int d = 0; d < TSR_MAX_RANK; d++) count += indices[d] == index;
  return count;
}

/* The longest dim that is contracted is the one whose sums are trees of leaves. */
static void cut_leaves(const tsr__contraction *c, tsr__dot_attr *attr)
{
  for (int d = 0; d < c->b->shape.rank; d++) {
    int index = c->at.right[d];
    /* Only an index of one dim on each side, that the result lacks, can be cut into leaves. */
    bool sums = index && times(c->at.left, index) == 1 && times(c->at.right, index) == 1 &&
                !times(c->at.out, index);
    if (!sums || (attr->leaf && c->b->shape.dims[d] <= attr->length)) continue;
    attr->leaf = index;
    attr->length = c->b->shape.dims[d];
  }
}

static tsr_array *make_dot(const tsr__contraction *c, tsr_dtype in, tsr_dtype out, const char *site)
{
  /* Where products must be exact they are made otherwise (products_exact.c). */
  tsr_array *exact = tsr__exact_product(c, in, out, site);
  tsr__dot_attr attr = c->at;
  if (exact) return exact;
  /* Reproducible sums of floats: leaves of one length are summed alike on every mesh. */
  if (c->reproducible && tsr__dtype_rounds(out)) cut_leaves(c, &attr);
  tsr_scope *home = tsr__home_of(TSR__IN(c->a, c->b));
  bool windows = false;
  for (int d = 0; d < TSR_MAX_RANK; d++) windows |= attr.window[d] != 0;
  tsr_array *a = tsr_cast_at(seen_through(c->a, attr.left, windows), in, site);
  tsr_array *b = tsr_cast_at(seen_through(c->b, attr.right, false), in, site);
  tsr__ask ask = { .dtype = out, .attr = &attr, .attr_bytes = sizeof attr };
  return tsr__make(home, TSR__OP_DOT, TSR__IN(a, b), &ask, site);
}

tsr_array *tsr__contract(const tsr__contraction *c, const char *site)
{
  TSR__CALL(tsr__home_of(TSR__IN(c->a, c->b)), c->name + strlen("tsr_"));
  tsr_array *a = c->a, *b = c->b;
  tsr__error error = { .status = TSR_OK };
  /* Inference says what is wrong with an operand that is not there. */
  if (!a || !b || a->inert || b->inert) {
    tsr__ask ask = { .attr = &c->at, .attr_bytes = sizeof c->at };
    return tsr__make(NULL, TSR__OP_DOT, TSR__IN(a, b), &ask, site);
  }
  tsr__error unknown = { .status = TSR_OK };
  if (c->dtype && tsr__dtype_check(c->dtype, &unknown)) {
    tsr__error_set(&error, unknown.status, "%s: %s", c->name, unknown.text);
    return tsr__refused_of(TSR__IN(a, b), &error, site);
  }
  tsr_dtype meet = tsr__meet_of(TSR__IN(a, b));
  tsr_dtype out = c->dtype ? c->dtype : meet;
  if (out != TSR_BOOL) return make_dot(c, widens(meet, out) ? meet : out, out, site);
  /* Bools: a product is `and`, their sum `or`. Counted in u64, which no number of elements
   * overflows, and asked whether it is 0. As u8 they are 0 and 1, whose products need no more. */
  tsr__contraction bits = *c;
  bits.a = tsr_cast_at(tsr_cast_at(a, TSR_BOOL, site), TSR_U8, site);
  bits.b = tsr_cast_at(tsr_cast_at(b, TSR_BOOL, site), TSR_U8, site);
  return tsr_cast_at(make_dot(&bits, TSR_U8, TSR_U64, site), TSR_BOOL, site);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Numbers of tsr_num as what they are beside the other operand. */
static bool settle(tsr__contraction *c, const char *site)
{
  TSR__CALL(tsr__home_of(TSR__IN(c->a, c->b)), c->name + strlen("tsr_"));
  c->a = tsr__settled(c->a, c->b, site);
  c->b = tsr__settled(c->b, c->a, site);
  return !c->a->inert && !c->b->inert;
}

/* The arguments of a call, checked as far as they say nothing of shapes; false: `out` is made. */
static bool take_args(const char *name, const tsr_product_args *given, tsr__contraction *c,
                      const char *site, tsr_array **out)
{
  tsr_product_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts(name, given, &args, sizeof args, &error);
  if (status && given) args.a = given->a, args.b = given->b;
  *c = (tsr__contraction){
    .name = name, .a = args.a, .b = args.b, .dtype = args.dtype, .reproducible = args.reproducible
  };
  if (!c->a || !c->b || c->a->inert || c->b->inert) *out = tsr__contract(c, site);
  else if (status) *out = tsr__refused_of(TSR__IN(c->a, c->b), &error, site);
  else if (!settle(c, site)) *out = c->a->inert ? c->a : c->b;
  else return true;
  return false;
}

/* What was found in words of types, what was expected in words of the call. */
static tsr_array *misfit(const tsr__contraction *c, const char *expected, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  char left[160], right[160];
  tsr_type_text((tsr_dtype)c->a->dtype, c->a->shape, NULL, left, sizeof left);
  tsr_type_text((tsr_dtype)c->b->dtype, c->b->shape, NULL, right, sizeof right);
  tsr__error_set(&error, TSR_ESHAPE, "%s: %s times %s: expected %s", c->name, left, right,
                 expected);
  return tsr__refused_of(TSR__IN(c->a, c->b), &error, site);
}

/* Elements of two operands that broadcast, in the dtype that is asked for. */
static tsr_array *by_elements(const tsr__contraction *c, const char *site)
{
  TSR__CALL(tsr__home_of(TSR__IN(c->a, c->b)), c->name + strlen("tsr_"));
  tsr_dtype out = c->dtype ? c->dtype : tsr__meet_of(TSR__IN(c->a, c->b));
  tsr_array *a = tsr_cast_at(c->a, out, site), *b = tsr_cast_at(c->b, out, site);
  return tsr_mul_at(a, tsr_operand_array(b), site);
}

/* The dims before the matrices, aligned at the last of them; false: two do not meet. */
static bool meet_batches(tsr__contraction *c, int left, int right, uint8_t *next)
{
  int rank = left > right ? left : right;
  for (int d = 0; d < rank; d++) {
    int l = d - (rank - left), r = d - (rank - right);
    /* A dim that one operand lacks counts as of size 1. */
    int64_t a = l < 0 ? 1 : c->a->shape.dims[l], b = r < 0 ? 1 : c->b->shape.dims[r];
    uint8_t index = ++*next;
    /* A dim of size 1 beside a larger one gets no index, and repeats. */
    if (a != b && a != 1 && b != 1) return false;
    if (l >= 0 && (a != 1 || b == 1)) c->at.left[l] = index;
    if (r >= 0 && (b != 1 || a == 1)) c->at.right[r] = index;
    c->at.out[d] = index;
  }
  return true;
}

tsr_array *tsr_matmul_at(const tsr_product_args *args, const char *site)
{
  static const char expected[] =
      "[..., m, k] times [..., k, n] where the leading dims are equal or 1, or a vector [k]";
  tsr__contraction c;
  tsr_array *out;
  if (!take_args("tsr_matmul", args, &c, site, &out)) return out;
  int left = c.a->shape.rank, right = c.b->shape.rank;
  if (!left || !right || left > TSR_MAX_RANK || right > TSR_MAX_RANK)
    return misfit(&c, expected, site);
  /* Dims before the matrices, of each. */
  int before[2] = { left > 2 ? left - 2 : 0, right > 2 ? right - 2 : 0 };
  int rank = before[0] > before[1] ? before[0] : before[1];
  uint8_t next = 0;
  if (!meet_batches(&c, before[0], before[1], &next)) return misfit(&c, expected, site);
  /* A vector on the right contracts its only dim, a matrix its last but one. */
  int inner = right > 1 ? right - 2 : 0;
  if (c.a->shape.dims[left - 1] != c.b->shape.dims[inner]) return misfit(&c, expected, site);
  /* The rows of the left matrix, then the columns of the right one; a vector has neither. */
  if (left > 1) c.at.out[rank++] = c.at.left[left - 2] = ++next;
  if (right > 1) c.at.out[rank++] = c.at.right[right - 1] = ++next;
  c.at.left[left - 1] = c.at.right[inner] = ++next;
  return tsr__contract(&c, site);
}

/* Contracts pairs of dims, by bits of those taken; the others stay in order. Indices are from 1 on:
 * first the contracted pairs, then what is left of a, then of b, which is the order of the
 * result. */
static tsr_array *contract_dims(tsr__contraction *c, const int *left, const int *right, int count,
                                const char *site)
{
  int a = c->a->shape.rank, b = c->b->shape.rank, rank = 0;
  uint8_t next = 0;
  if (a + b - 2 * count > TSR_MAX_RANK) {
    char expected[64];
    snprintf(expected, sizeof expected, "at most %d dims in the result", TSR_MAX_RANK);
    return misfit(c, expected, site);
  }
  for (int i = 0; i < count; i++) {
    if (c->a->shape.dims[left[i]] != c->b->shape.dims[right[i]])
      return misfit(c, "dims of one size to contract", site);
    c->at.left[left[i]] = c->at.right[right[i]] = ++next;
  }
  for (int d = 0; d < a; d++)
    if (!c->at.left[d]) c->at.out[rank++] = c->at.left[d] = ++next;
  for (int d = 0; d < b; d++)
    if (!c->at.right[d]) c->at.out[rank++] = c->at.right[d] = ++next;
  return tsr__contract(c, site);
}

/* The last dim of the left one with `right` of the other; a number multiplies, as in NumPy. */
static tsr_array *last_with(tsr__contraction *c, int right, const char *site)
{
  if (!c->a->shape.rank || !c->b->shape.rank) return by_elements(c, site);
  int left = c->a->shape.rank - 1;
  return contract_dims(c, &left, &right, 1, site);
}

tsr_array *tsr_dot_at(const tsr_product_args *args, const char *site)
{
  tsr__contraction c;
  tsr_array *out;
  if (!take_args("tsr_dot", args, &c, site, &out)) return out;
  return last_with(&c, c.b->shape.rank > 1 ? c.b->shape.rank - 2 : 0, site);
}

tsr_array *tsr_inner_at(const tsr_product_args *args, const char *site)
{
  tsr__contraction c;
  tsr_array *out;
  if (!take_args("tsr_inner", args, &c, site, &out)) return out;
  return last_with(&c, c.b->shape.rank - 1, site);
}

tsr_array *tsr_outer_at(const tsr_product_args *args, const char *site)
{
  tsr__contraction c;
  tsr_array *out;
  if (!take_args("tsr_outer", args, &c, site, &out)) return out;
  /* Nothing is contracted: each element with each. */
  c.a = tsr_ravel_at(c.a, site);
  c.b = tsr_ravel_at(c.b, site);
  if (c.a->inert || c.b->inert) return tsr__contract(&c, site);
  return contract_dims(&c, NULL, NULL, 0, site);
}

tsr_array *tsr_vdot_at(const tsr_product_args *args, const char *site)
{
  tsr__contraction c;
  tsr_array *out;
  if (!take_args("tsr_vdot", args, &c, site, &out)) return out;
  /* By number of elements, not shape: both are read in C order. */
  if (tsr__shape_count(&c.a->shape) != tsr__shape_count(&c.b->shape))
    return misfit(&c, "equally many elements in both", site);
  /* Arrays of one shape keep their dims, so that what is cut stays cut. */
  bool alike = tsr__shape_same(&c.a->shape, &c.b->shape) && c.a->shape.rank < TSR_MAX_RANK;
  if (!alike || !c.a->shape.rank) {
    c.a = tsr_ravel_at(c.a, site);
    c.b = tsr_ravel_at(c.b, site);
    if (c.a->inert || c.b->inert) return tsr__contract(&c, site);
  }
  int dims[TSR_MAX_RANK], rank = c.a->shape.rank;
  for (int d = 0; d < rank; d++) dims[d] = d;
  return contract_dims(&c, dims, dims, rank, site);
}

/* Each element of `a` becomes a block, itself times `b`: of both, every dim gets a neighbour. */
tsr_array *tsr_kron_at(const tsr_product_args *args, const char *site)
{
  tsr__contraction c;
  tsr_array *out;
  if (!take_args("tsr_kron", args, &c, site, &out)) return out;
  int a = c.a->shape.rank, b = c.b->shape.rank, rank = a > b ? a : b;
  /* The product needs two dims for each one. */
  if (2 * rank > TSR_MAX_RANK) return misfit(&c, "at most 8 dims", site);
  tsr_shape left = { .rank = 2 * rank }, right = left, whole = { .rank = rank };
  /* Dims of both in turn, x0 1 x1 1 and 1 y0 1 y1: their product is the block matrix, read in
   * order. */
  for (int d = 0; d < rank; d++) {
    int l = d - (rank - a), r = d - (rank - b);
    int64_t x = l < 0 ? 1 : c.a->shape.dims[l], y = r < 0 ? 1 : c.b->shape.dims[r];
    left.dims[2 * d] = x, left.dims[2 * d + 1] = 1;
    right.dims[2 * d] = 1, right.dims[2 * d + 1] = y;
    whole.dims[d] = x * y;
  }
  c.a = tsr_reshape_at(c.a, left, site);
  c.b = tsr_reshape_at(c.b, right, site);
  if (c.a->inert || c.b->inert) return tsr__contract(&c, site);
  return tsr_reshape_at(by_elements(&c, site), whole, site);
}

/* The dims that a call names, counted from 0; false: one is no dim, or twice. */
static bool take_dims(const int *dims, int count, int rank, int first, int out[TSR_MAX_RANK])
{
  /* A bit for each dim that was named. */
  unsigned seen = 0;
  for (int i = 0; i < count; i++) {
    /* As NumPy: without names the last of a and the first of b. */
    int d = !dims ? first + i : dims[i] < 0 ? dims[i] + rank : dims[i];
    if (d < 0 || d >= rank || seen >> d & 1) return false;
    seen |= 1u << d;
    out[i] = d;
  }
  return true;
}

/* Dims meet by pairs, the first that is named of a with the first of b. */
tsr_array *tsr_tensordot_at(const tsr_tensordot_args *given, const char *site)
{
  tsr_tensordot_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts("tsr_tensordot", given, &args, sizeof args, &error);
  if (status && given) args.a = given->a, args.b = given->b;
  tsr__contraction c = { .name = "tsr_tensordot",
                         .a = args.a,
                         .b = args.b,
                         .dtype = args.dtype,
                         .reproducible = args.reproducible };
  int left[TSR_MAX_RANK], right[TSR_MAX_RANK], n = args.count;
  if (!c.a || !c.b || c.a->inert || c.b->inert) return tsr__contract(&c, site);
  int a = c.a->shape.rank, b = c.b->shape.rank;
  if (!status && (n < 0 || n > a || n > b || !take_dims(args.a_dims, n, a, a - n, left) ||
                  !take_dims(args.b_dims, n, b, 0, right)))
    status = tsr__error_set(&error, TSR_EARG,
                            "tsr_tensordot: %d dims to contract of operands of rank %d and %d; "
                            "name as many dims of both, each once",
                            n, a, b);
  if (status) return tsr__refused_of(TSR__IN(c.a, c.b), &error, site);
  return contract_dims(&c, left, right, n, site);
}

tsr_array *tsr_trace_at(const tsr_trace_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "trace");
  tsr_trace_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts("tsr_trace", given, &args, sizeof args, &error);
  tsr_array *x = given ? given->x : NULL;
  if (!x || x->inert)
    return tsr_sum_at(&(tsr_reduce_args){ .size = sizeof(tsr_reduce_args), .x = x }, site);
  int rank = x->shape.rank, dims[TSR_MAX_RANK];
  /* Two zeroes mean that none was named. */
  if (!args.dims[0] && !args.dims[1]) args.dims[1] = 1;
  if (!status && !take_dims(args.dims, 2, rank, 0, dims))
    status =
        tsr__error_set(&error, TSR_EARG,
                       "tsr_trace: dims %d and %d of %s; give two different dims of the array: %s",
                       args.dims[0], args.dims[1], tsr_type_of(x), tsr__dims_text(rank).text);
  if (status) return tsr__refused(x, &error, site);
  /* The diagonal alone is read, and the sum is exact as any. The other dims stay in their order, as
   * in a sum over both. */
  x = tsr__move_dim(x, dims[0], 0, site);
  x = tsr__move_dim(x, dims[1] < dims[0] ? dims[1] + 1 : dims[1], 1, site);
  tsr_reduce_args sum = { .size = sizeof sum, .dims = { .bits = 1 } };
  sum.x = tsr__diagonal(x, 0, args.offset, site);
  return tsr_sum_at(&sum, site);
}
