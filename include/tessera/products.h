/* Products of arrays: matrices, tensor contractions, einsum.
 *
 * Each element is a chain of fused multiply-adds over the contracted dims, of f16 and bf16 in f32
 * and rounded once at the end; integers wrap (docs/NUMERICS.md). The product of bools is whether
 * any pair is true. Transposed operands are read in place. */
#ifndef TESSERA_PRODUCTS_H
#define TESSERA_PRODUCTS_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arguments of products: two operands and options; tsr_matmul(a, b, .dtype = TSR_I32). */
typedef struct tsr_product_args {
  size_t size;
  tsr_array *a, *b TSR_REST_BY_NAME;
  tsr_dtype dtype;   /* operands are converted to it; 0: the dtype that both promote to */
  bool reproducible; /* floats: the same bits on any mesh, also where the contracted dim is
                      * sharded */
} tsr_product_args;

/* Returns the matrix product as NumPy's matmul: [..., m, k] times [..., k, n] is [..., m, n];
 * leading dims broadcast. A vector is a row on the left and a column on the right, and the result
 * lacks that dim. Errors: TSR_ESHAPE, TSR_EDTYPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_matmul_at(const tsr_product_args *args, const char *site);

/* Returns NumPy's dot: the last dim of `a` is contracted with the last but one of `b`, or its only
 * one; the result has the other dims of `a`, then those of `b`. With a scalar it is an elementwise
 * product. Errors: TSR_ESHAPE, TSR_EDTYPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_dot_at(const tsr_product_args *args, const char *site);

/* Returns the inner product: the last dims of both are contracted; with a scalar it is an
 * elementwise product. Errors: TSR_ESHAPE, TSR_EDTYPE. Returns an array owned as results are.
 * Local. */
TSR_API tsr_array *tsr_inner_at(const tsr_product_args *args, const char *site);

/* Returns the outer product, [elements of a, elements of b]: all products of an element of `a` with
 * one of `b`. As in NumPy, operands of more dims are vectors in C order (tsr_tensordot(a, b, 0)
 * keeps all dims). Error: TSR_EDTYPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_outer_at(const tsr_product_args *args, const char *site);

/* Returns the scalar product of two operands with as many elements, in C order. For floats it is
 * the exact sum of exact products, rounded once, on any mesh. Errors: TSR_ESHAPE, TSR_EDTYPE.
 * Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_vdot_at(const tsr_product_args *args, const char *site);

/* Returns the Kronecker product: each element of `a` is replaced by itself times `b`; an operand of
 * fewer dims gets leading dims of size 1. Errors: TSR_ESHAPE (more than 4 dims), TSR_EDTYPE.
 * Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_kron_at(const tsr_product_args *args, const char *site);

/* Arguments of tsr_tensordot: as tsr_product_args, and the dims to contract with each other, pair
 * by pair; without lists, the last `count` dims of `a` with the first `count` of `b`. */
typedef struct tsr_tensordot_args {
  size_t size;
  tsr_array *a, *b;
  int count;                                   /* number of contracted dims; 0: outer product */
  const int *a_dims, *b_dims TSR_REST_BY_NAME; /* `count` each, or NULL */
  tsr_dtype dtype;
  bool reproducible; /* as in tsr_product_args */
} tsr_tensordot_args;

/* Contracts dims of `a` with dims of `b`; the result has the other dims of `a`, then those of `b`.
 * Errors: TSR_ESHAPE, TSR_EARG, TSR_EDTYPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_tensordot_at(const tsr_tensordot_args *args, const char *site);

/* Arguments of tsr_einsum: its text, its operands and options. */
typedef struct tsr_einsum_args {
  size_t size;
  const char *text; /* "ij,jk->ik" */
  tsr_array *const *arrays;
  int count TSR_REST_BY_NAME;
  tsr_dtype dtype;   /* operands are converted to it; 0: the dtype that all promote to */
  bool reproducible; /* as in tsr_product_args */
} tsr_einsum_args;

/* Returns NumPy's einsum: a letter names a dim, letters that the result lacks are summed, a letter
 * twice in an operand takes its diagonal, "..." stands for dims that broadcast, and without "->"
 * the result has "..." and the letters that occur once, in alphabetical order. Operands are
 * contracted two by two from the left; sums over a single operand are exact. Errors point into the
 * text: TSR_EARG, TSR_ESHAPE, TSR_EDTYPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_einsum_at(const tsr_einsum_args *args, const char *site);

/* Arguments of tsr_trace: the dims and the diagonal; `x` is the array. */
typedef struct tsr_trace_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  int64_t offset; /* distance to the right of the main diagonal; negative: below */
  int dims[2];    /* 0, 0: the first two */
} tsr_trace_args;

/* Returns the sum of a diagonal of two dims, exact as all sums; integers as in tsr_sum. Errors:
 * TSR_ESHAPE, TSR_EARG. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_trace_at(const tsr_trace_args *args, const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#define TSR_PRODUCT_(a_, b_, ...) \
  (&(tsr_product_args){ .size = sizeof(tsr_product_args), .a = (a_), .b = (b_), __VA_ARGS__ })
#define tsr_matmul(...) \
  tsr_matmul_at(TSR_NEEDS_2_("tsr_matmul(a, b)", TSR_PRODUCT_, __VA_ARGS__), TSR_HERE)
#define tsr_dot(...) tsr_dot_at(TSR_NEEDS_2_("tsr_dot(a, b)", TSR_PRODUCT_, __VA_ARGS__), TSR_HERE)
#define tsr_inner(...) \
  tsr_inner_at(TSR_NEEDS_2_("tsr_inner(a, b)", TSR_PRODUCT_, __VA_ARGS__), TSR_HERE)
#define tsr_outer(...) \
  tsr_outer_at(TSR_NEEDS_2_("tsr_outer(a, b)", TSR_PRODUCT_, __VA_ARGS__), TSR_HERE)
#define tsr_vdot(...) \
  tsr_vdot_at(TSR_NEEDS_2_("tsr_vdot(a, b)", TSR_PRODUCT_, __VA_ARGS__), TSR_HERE)
#define tsr_kron(...) \
  tsr_kron_at(TSR_NEEDS_2_("tsr_kron(a, b)", TSR_PRODUCT_, __VA_ARGS__), TSR_HERE)
/* tsr_tensordot(a, b, 2), tsr_tensordot(a, b, 1, (int[]){ 0 }, (int[]){ 2 }) */
#define TSR_TENSORDOT_(a_, b_, ...) \
  (&(tsr_tensordot_args){ .size = sizeof(tsr_tensordot_args), .a = (a_), .b = (b_), __VA_ARGS__ })
#define tsr_tensordot(...) \
  tsr_tensordot_at(TSR_NEEDS_2_("tsr_tensordot(a, b)", TSR_TENSORDOT_, __VA_ARGS__), TSR_HERE)
#define TSR_ARRAYS(...)                \
  (tsr_array *const[]){ __VA_ARGS__ }, \
      (int)(sizeof(tsr_array *const[]){ __VA_ARGS__ } / sizeof(tsr_array *))
#define TSR_EINSUM_(text_, ...) \
  (&(tsr_einsum_args){ .size = sizeof(tsr_einsum_args), .text = (text_), .arrays = __VA_ARGS__ })
/* tsr_einsum("ij,jk->ik", a, b) */
#define tsr_einsum(text_, ...) \
  tsr_einsum_at(TSR_EINSUM_((text_), TSR_ARRAYS(__VA_ARGS__)), TSR_HERE)
/* tsr_einsum_with("ij,jk->ik", TSR_ARRAYS(a, b), .dtype = TSR_I32) */
#define tsr_einsum_with(text_, ...) tsr_einsum_at(TSR_EINSUM_((text_), __VA_ARGS__), TSR_HERE)
#define TSR_TRACE_(array, ...) \
  (&(tsr_trace_args){ .size = sizeof(tsr_trace_args), .x = (array), __VA_ARGS__ })
#define tsr_trace(...) tsr_trace_at(TSR_TRACE_(__VA_ARGS__, ), TSR_HERE)
#endif

#endif
