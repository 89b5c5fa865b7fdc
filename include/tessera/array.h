/* Arrays: immutable nodes over global data, owned by a scope.
 *
 * Calls that make nodes return an array and never NULL. After an error the array is inert, every
 * array computed from it is inert too, and the scope keeps the first error with the source line
 * that caused it. A result belongs to the newest scope that the calling thread opened inside its
 * operands' scopes (base.h says more); comments call that "owned as results are". Terminals
 * (tsr_read, tsr_eval, ...) compute values and return a status.
 *
 * In C use the macros (tsr_add(x, 2)): they fill in file and line and allow one of two operands to
 * be a number: tsr_sub(1, x) is 1 - x. A number, also one of tsr_num, has no dtype of its own: it
 * takes the dtype of the other operand (docs/NUMERICS.md). C11's true and false are ints: beside a
 * bool array 0 and 1 count as bools, elsewhere write (bool)true. From C++ and other languages call
 * the functions ending in _at. Structs of arguments and options begin with their size, which the
 * macros set; a size of 0 means all fields that the library knows. */
#ifndef TESSERA_ARRAY_H
#define TESSERA_ARRAY_H

#include "base.h"
#include "scalar.h"
#include "topology.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_array tsr_array;

/* ---- making arrays --------------------------------------------------------------------- */

/* Copies `data` (C order, dense, `shape` elements, bool as bytes) to the devices of `sharding`.
 * With partial sums (";sum(x)") the first devices along those axes get the data and the others
 * zeros. Errors: TSR_ESHAPE, TSR_EDTYPE, TSR_EAXIS, TSR_ENOMEM. Returns an array owned by the
 * scope. Collective, same arguments. */
TSR_API tsr_array *tsr_put_at(tsr_scope *scope, const void *data, tsr_dtype dtype, tsr_shape shape,
                              tsr_sharding sharding, const char *site);

/* Called when the library no longer needs an adopted buffer. */
typedef void (*tsr_release_fn)(void *data, void *user);

/* Arguments of tsr_adopt: the memory, its dtype, shape and sharding, and how to release it. The
 * fields of this struct and of the next two may be given in their order, as the arguments of
 * tsr_put are. */
typedef struct tsr_adopt_args {
  size_t size;
  void *data;
  tsr_dtype dtype;
  tsr_shape shape;
  tsr_sharding on; /* where it lies: tsr_on(mesh, "x,y"); zero = unplaced */
  tsr_release_fn release;
  void *user;
} tsr_adopt_args;

/* Makes an array of the caller's memory, which is borrowed until `release` is called (maybe from
 * tsr_scope_close, maybe later). No copy is made where one device holds the whole array and `data`
 * is 64-byte aligned; otherwise the data is copied and released at once. `release` is called
 * exactly once, after an error too; it may be NULL, and may use the library in scopes that it opens
 * itself. Errors as tsr_put. Returns an array owned by the scope. Collective, same
 * arguments. */
TSR_API tsr_array *tsr_adopt_at(tsr_scope *scope, const tsr_adopt_args *args, const char *site);

/* Arguments of tsr_from_shards: one buffer a device, in order of the sharding's mesh positions,
 * borrowed for the call. */
typedef struct tsr_shards_args {
  size_t size;
  /* each in C order, of the size that tsr_shard_box gives; bool as bytes */
  const void *const *shards;
  int count; /* must be the number of addressable devices */
  tsr_dtype dtype;
  tsr_shape shape; /* of the whole */
  tsr_sharding on; /* where it lies: tsr_on(mesh, "x,y"); zero = unplaced */
} tsr_shards_args;

/* Makes a global array of its shards, which are copied. Errors as tsr_put, and TSR_EARG for a wrong
 * count. Returns an array owned by the scope. Collective. */
TSR_API tsr_array *tsr_from_shards_at(tsr_scope *scope, const tsr_shards_args *args,
                                      const char *site);

/* Fills one shard of a global array: `box` gives its place, `out` is dense, in C order, bool as
 * bytes. Returns TSR_OK, or the status with which making the array fails. */
typedef tsr_status (*tsr_part_fn)(const tsr_box *box, void *out, void *user);

/* Arguments of tsr_from_callback: the callback, its `user`, and the type of the array. */
typedef struct tsr_callback_args {
  size_t size;
  tsr_part_fn fill;
  void *user;
  tsr_dtype dtype;
  tsr_shape shape; /* of the whole */
  tsr_sharding on; /* where it lies: tsr_on(mesh, "x,y"); zero = unplaced */
} tsr_callback_args;

/* Makes a global array whose shards a callback fills: one call per addressable device, in order of
 * mesh positions, on this thread; a single call where the array is replicated. Errors as tsr_put,
 * and the status that the callback returns. Returns an array owned by the scope. Collective. */
TSR_API tsr_array *tsr_from_callback_at(tsr_scope *scope, const tsr_callback_args *args,
                                        const char *site);

/* An operand of arithmetic: an array, or a number where `array` is NULL. */
typedef struct tsr_operand {
  tsr_array *array;
  tsr_scalar number;
} tsr_operand;

/* Returns an operand that borrows an array; the macros call this and the next functions. Local. */
TSR_API tsr_operand tsr_operand_array(tsr_array *array);
/* Returns an operand that is a bool. Local. */
TSR_API tsr_operand tsr_operand_bool(bool value);
/* Returns an operand that is an integer. Local. */
TSR_API tsr_operand tsr_operand_int(long long value);
/* Returns an operand that is an unsigned integer, which keeps its bits. Local. */
TSR_API tsr_operand tsr_operand_uint(unsigned long long value);
/* Returns an operand that is a float. Local. */
TSR_API tsr_operand tsr_operand_float(double value);

/* The type of a call of two operands, such as tsr_add_at. */
typedef tsr_array *tsr_binary_fn(tsr_array *a, tsr_operand b, const char *site);
/* Returns the result of a call of two operands whose left one may be a number: the number takes its
 * dtype from the right operand. The macros of such calls use it. Errors: TSR_EARG for two numbers,
 * and those of the call. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_binary_at(tsr_binary_fn *call, tsr_operand a, tsr_operand b,
                                 const char *site);

/* Returns a rank-0 array of a number: i64, u64 where i64 does not hold it, f64 or bool. Beside
 * other arrays it counts as the number. Owned by the scope. Error: TSR_EDTYPE for a text. Local. */
TSR_API tsr_array *tsr_num_at(tsr_scope *scope, tsr_scalar value, const char *site);

/* Returns an array full of one number, cast to `dtype`. Owned by the scope. Local. */
TSR_API tsr_array *tsr_full_at(tsr_scope *scope, tsr_operand value, tsr_dtype dtype,
                               tsr_shape shape, tsr_sharding sharding, const char *site);

/* Returns an array full of one number, with the dtype and shape of `like`, and with its sharding
 * where that is settled. Owned as results are. Errors: as tsr_full. Local. */
TSR_API tsr_array *tsr_full_like_at(tsr_array *like, tsr_operand value, const char *site);

/* Returns an array whose elements are their index along `dim`. Owned by the scope. Errors: TSR_EARG
 * for a dim out of range, TSR_EDTYPE for bool. Local. */
TSR_API tsr_array *tsr_iota_at(tsr_scope *scope, tsr_dtype dtype, tsr_shape shape, int dim,
                               tsr_sharding sharding, const char *site);

/* ---- elements -------------------------------------------------------------------------- */

/* operations.h, included below, has arithmetic, comparisons, functions and reductions. */

/* Returns `a` converted to another dtype: a float becomes an integer by truncation and saturates
 * (NaN gives 0), a wide integer wraps to a narrow one, and a bool is != 0. Local. */
TSR_API tsr_array *tsr_cast_at(tsr_array *a, tsr_dtype dtype, const char *site);

/* Returns the elements of `a` where the bool `condition` is true, else those of `b`; all three
 * broadcast. Local. */
TSR_API tsr_array *tsr_where_at(tsr_array *condition, tsr_operand a, tsr_operand b,
                                const char *site);

/* ---- views ----------------------------------------------------------------------------- */

/* Views show elements of their operands and copy none: a computation on a chain of views reads the
 * operand in place. A view that is evaluated is a copy and does not hold its operand. */

/* A range along a dim: TSR_RANGE(2, 5), TSR_STEPS(9, TSR_END, -2), TSR_ALL. */
typedef struct tsr_range {
  int64_t start, stop, step; /* a step of 0 is 1 */
} tsr_range;

#define TSR_END INT64_MAX /* past the last element, or past the first where the step is negative */

/* Returns the elements of `a` from start to before stop, `step` apart, along each of `count` dims;
 * later dims are whole. As in Python's slices, negative bounds count from the end, bounds out of
 * range are clipped, and a negative step goes backwards. Errors: TSR_EARG for too many ranges,
 * TSR_EUNSUPPORTED along rows whose number is known only at run time. Returns an array owned as
 * results are. Local. */
TSR_API tsr_array *tsr_slice_at(tsr_array *a, const tsr_range *ranges, int count, const char *site);
/* Returns `a` with its dims in another order: dim d of the result is dim dims[d] of `a`; a `count`
 * of 0 reverses all dims. Negative dims count from the end. Error: TSR_EARG unless `dims` has each
 * dim of `a` once. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_transpose_at(tsr_array *a, const int *dims, int count, const char *site);

/* A set of dims to reduce or to flip: TSR_DIMS(0, 2). Zeros mean all dims, TSR_NO_DIMS means no
 * dim. Naming a dim twice is TSR_EARG, also as 0 and -2 of two dims. */
typedef struct tsr_dims {
  uint32_t bits;     /* bit d = dim d */
  uint32_t negative; /* bit d = dim rank - 1 - d */
  bool invalid;      /* a dim out of range was named */
  bool twice;        /* a dim was named twice */
  bool none;         /* the empty set; zeros alone mean all dims */
} tsr_dims;

/* Returns the set of `count` dims, the empty set for a count of 0; the macro TSR_DIMS calls it.
 * Local. */
TSR_API tsr_dims tsr_dims_of(const int *dims, int count);

/* Returns `a` with the order of its elements reversed along `dims` (zeros: all dims). Error:
 * TSR_EARG. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_flip_at(tsr_array *a, tsr_dims dims, const char *site);

/* Returns `a` broadcast to the given shape: repeated along dims of size 1 and along new leading
 * dims, as in NumPy. Errors: TSR_ESHAPE; TSR_EUNSUPPORTED for rows whose number is known only at
 * run time. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_broadcast_to_at(tsr_array *a, tsr_shape shape, const char *site);

/* Arguments of tsr_pad: the borders of an array and their value. */
typedef struct tsr_pad_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  /* Elements added before and after each dim; a negative number removes as many. */
  int64_t low[TSR_MAX_RANK], high[TSR_MAX_RANK];
  tsr_operand value;              /* TSR_OPERAND(1.5) or an array of rank 0; by default 0 */
  int64_t interior[TSR_MAX_RANK]; /* elements between neighbours of a dim, added first */
} tsr_pad_args;

/* Returns an array with a value before and after it along each dim, and between its elements:
 * tsr_pad(x, .low = { 1 }). Errors: TSR_EARG for borders that remove more elements than there are,
 * or a negative interior, TSR_EDTYPE for a number that x's dtype cannot hold, TSR_EUNSUPPORTED
 * along rows whose number is known only at run time. Returns an array owned as results are.
 * Local. */
TSR_API tsr_array *tsr_pad_at(const tsr_pad_args *args, const char *site);
/* Returns arrays one after the other along `dim` (negative: from the end); dtypes promote as in
 * arithmetic. Errors: TSR_ESHAPE where other dims differ, TSR_EARG, TSR_EUNSUPPORTED along rows
 * whose number is known only at run time. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_concat_at(tsr_array *const *arrays, int count, int dim, const char *site);

/* ---- reductions ------------------------------------------------------------------------ */

/* Arguments of a reduction; `x` is the array, so that tsr_sum(x, .dims = ...) works. */
typedef struct tsr_reduce_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  tsr_dims dims;       /* left out: all; TSR_NO_DIMS: no dim */
  bool keep_dims;      /* reduced dims stay with size 1 */
  tsr_array *where;    /* bool, broadcast to x: only true elements count; NULL = all */
  int64_t ddof;        /* var, std: divisor is count - ddof; default 0 as in NumPy and JAX */
  bool skip_nan;       /* NaN does not count, as if `where` were false there (NumPy's nansum ...) */
  tsr_dtype dtype;     /* sum, prod, mean, var, std: x is converted to it, and the result has it */
  tsr_operand initial; /* sum, prod, min, max: TSR_OPERAND(1.5), joined to the result by one more
                        * operation; the min and max of no elements are `initial` */
} tsr_reduce_args;

/* ---- placing --------------------------------------------------------------------------- */

/* Returns an array in another sharding (same devices, or from unplaced); values do not change.
 * Unreduced partial sums (";sum(x)", not of bools) stay on the first device along x, and so do
 * views of them and products with numbers; any other operation reduces them first. Returns an array
 * owned as results are. Local. */
TSR_API tsr_array *tsr_reshard_at(tsr_array *a, tsr_sharding sharding, const char *site);
/* Returns `a` with a stated sharding at this point of the program; the planner may use the same
 * sharding for the nodes before it. Dims that the spec leaves open ("?") keep the sharding they
 * have, over axes that the other dims do not use. Local. */
TSR_API tsr_array *tsr_constrain_at(tsr_array *a, tsr_sharding sharding, const char *site);

/* ---- terminals ------------------------------------------------------------------------- */

/* Errors of terminals name the terminal's source line, `site`, or where that is NULL the
 * array's. */

/* Evaluates `count` arrays as one program: subexpressions that they share are computed once.
 * Returns the status; the scope has the message. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_eval_at(tsr_array *const *arrays, int count, const char *site);
/* Starts evaluating as tsr_eval does, and returns once the program is queued: a thread of the
 * runtime runs queued programs in order; tsr_wait, a read and any other use of a value waits for
 * it. Returns errors of the program itself; errors of its run are returned by the call that waits.
 * An array computed from a running one starts when that is done. The runtime's thread also calls
 * the progress callback. With several processes, any other collective work waits for all programs
 * started before it. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_start_at(tsr_array *const *arrays, int count, const char *site);
/* Evaluates and copies all elements in C order to `out` (bool as bytes), which holds `bytes` bytes:
 * exactly elements times tsr_dtype_size. `out` is untouched on failure. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_read_at(tsr_array *a, void *out, size_t bytes,
                                            const char *site);
/* Evaluates and reads a one-element array as a double (i64 beyond 2^53 is rounded). Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_read_scalar_at(tsr_array *a, double *out, const char *site);
/* Evaluates and reads a one-element integer or bool array as i64; TSR_EDTYPE for floats.
 * Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_read_i64_at(tsr_array *a, int64_t *out, const char *site);
/* Evaluates an array and moves its value to an outer scope. Returns a leaf owned by `outer`, or the
 * array itself if it is there already; inert on error, which both scopes record. Collective. */
TSR_API tsr_array *tsr_keep_at(tsr_scope *outer, tsr_array *a, const char *site);
/* Evaluates an array and returns when its value is computed. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_wait_at(tsr_array *a, const char *site);
/* Frees an array's value now, or the values of a tree: later uses are TSR_ESTATE, but nodes already
 * made from it keep their values. A tree that names the array does not hold it. Local. */
TSR_API void tsr_delete(tsr_array *a);
/* Donates an array's memory to the nodes made from it: the next program that reads the array takes
 * over its memory, frees it after the last step that reads it, and where sizes fit writes a result
 * there. Later uses are TSR_ESTATE and name this line; so is a program that leaves some operations
 * on the array for later. The value is gone when the program ends, after an error too. Views of its
 * shards end here. Errors: TSR_ESTATE if the value is gone already, TSR_EARG for NULL. Local. */
TSR_API tsr_status tsr_donate_at(tsr_array *a, const char *site);

/* One device's shard of an evaluated array. */
typedef struct tsr_shard {
  int device;       /* device id */
  tsr_box box;      /* the shard's place in the global array */
  int replica;      /* number of earlier devices that hold the same shard */
  const void *data; /* dense, C order; bool: one bit an element, LSB first */
} tsr_shard;

/* Evaluates and writes a view of one addressable shard, by mesh position, to `out`; the view is
 * borrowed and lives as long as the array. Errors: TSR_EARG. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_shard_view_at(tsr_array *a, int position, tsr_shard *out,
                                                  const char *site);

/* ---- asking ---------------------------------------------------------------------------- */

/* Returns the shape; rank 0 for an inert array. Local. */
TSR_API tsr_shape tsr_shape_of(const tsr_array *a);
/* Returns the dtype; 0 for an inert array. Local. */
TSR_API tsr_dtype tsr_dtype_of(const tsr_array *a);
/* Returns the sharding of a placed or evaluated array, else the unplaced sharding. Local. */
TSR_API tsr_sharding tsr_sharding_of(const tsr_array *a);
/* Returns whether a failed call made the array. Local. */
TSR_API bool tsr_is_inert(const tsr_array *a);
/* Returns the type as text, "f32[8,8]@(x,y)", owned as results are. Local. */
TSR_API const char *tsr_type_of(tsr_array *a);
/* Evaluates and returns the values as text, as NumPy prints them (at most 1,000 elements in full,
 * else the ends), owned as results are; on error returns the message. Collective. */
TSR_API const char *tsr_text_of(tsr_array *a);
/* Evaluates and writes the text of tsr_text_of to `out`, which is untouched on failure; returns the
 * status. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_text_into_at(tsr_array *a, const char **out, const char *site);
/* Evaluates and returns one line per device: id, index range, shape, bytes; owned as results are;
 * on error returns the message. Collective. */
TSR_API const char *tsr_devices_of(tsr_array *a);
/* Evaluates and writes the text of tsr_devices_of to `out`, which is untouched on failure; returns
 * the status. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_devices_into_at(tsr_array *a, const char **out,
                                                    const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* clang-format off */
#define TSR_OPERAND(x)                                                        \
  _Generic((x),                                                               \
      tsr_array *: tsr_operand_array,                                         \
      bool: tsr_operand_bool,                                                 \
      TSR_NUMBERS_(tsr_operand_int, tsr_operand_uint, tsr_operand_float))(x)
/* The left operand may be NULL, which is an error. */
#define TSR_LEFT_(x)                                                          \
  _Generic((x),                                                               \
      tsr_array *: tsr_operand_array,                                         \
      void *: tsr_operand_array,                                              \
      bool: tsr_operand_bool,                                                 \
      TSR_NUMBERS_(tsr_operand_int, tsr_operand_uint, tsr_operand_float))(x)
/* clang-format on */
#define TSR_BINARY_(call, a, b) tsr_binary_at((call), TSR_LEFT_(a), TSR_OPERAND(b), TSR_HERE)
#define TSR_NO_DIMS ((tsr_dims){ .none = true })
#define TSR_DIMS(...) \
  tsr_dims_of((int[]){ __VA_ARGS__ }, (int)(sizeof((int[]){ __VA_ARGS__ }) / sizeof(int)))

/* The last arguments are taken together, so that data may be a compound literal. */
#define tsr_put(scope, ...) tsr_put_at((scope), __VA_ARGS__, TSR_HERE)
#define TSR_ADOPT_(scope, ...)                                                                    \
  tsr_adopt_at((scope), &(tsr_adopt_args){ .size = sizeof(tsr_adopt_args), .data = __VA_ARGS__ }, \
               TSR_HERE)
#define tsr_adopt(...) TSR_NEEDS_2_("tsr_adopt(scope, data)", TSR_ADOPT_, __VA_ARGS__)
#define TSR_FROM_SHARDS_(scope, ...)                                                               \
  tsr_from_shards_at((scope),                                                                      \
                     &(tsr_shards_args){ .size = sizeof(tsr_shards_args), .shards = __VA_ARGS__ }, \
                     TSR_HERE)
#define tsr_from_shards(...) \
  TSR_NEEDS_2_("tsr_from_shards(scope, shards)", TSR_FROM_SHARDS_, __VA_ARGS__)
/* tsr_from_callback(s, fill, .user = file, .dtype = TSR_F32, .shape = ..., .on = ...) */
#define TSR_FROM_CALLBACK_(scope, ...)                                                         \
  tsr_from_callback_at(                                                                        \
      (scope), &(tsr_callback_args){ .size = sizeof(tsr_callback_args), .fill = __VA_ARGS__ }, \
      TSR_HERE)
#define tsr_from_callback(...) \
  TSR_NEEDS_2_("tsr_from_callback(scope, fill)", TSR_FROM_CALLBACK_, __VA_ARGS__)
#define tsr_num(scope, value) tsr_num_at((scope), TSR_VALUE(value), TSR_HERE)
#define tsr_full(scope, value, dtype, shape, sharding) \
  tsr_full_at((scope), TSR_OPERAND(value), (dtype), (shape), (sharding), TSR_HERE)
#define tsr_full_like(like, value) tsr_full_like_at((like), TSR_OPERAND(value), TSR_HERE)
#define tsr_iota(scope, dtype, shape, dim, sharding) \
  tsr_iota_at((scope), (dtype), (shape), (dim), (sharding), TSR_HERE)

#define tsr_cast(a, dtype) tsr_cast_at((a), (dtype), TSR_HERE)
#define tsr_where(condition, a, b) \
  tsr_where_at((condition), TSR_OPERAND(a), TSR_OPERAND(b), TSR_HERE)

#define TSR_RANGE(start, stop) ((tsr_range){ (start), (stop), 1 })
#define TSR_STEPS(start, stop, step) ((tsr_range){ (start), (stop), (step) })
#define TSR_ALL ((tsr_range){ 0, TSR_END, 1 })
/* tsr_slice(a, TSR_RANGE(2, 5), TSR_ALL) */
#define tsr_slice(a, ...)                               \
  tsr_slice_at((a), (const tsr_range[]){ __VA_ARGS__ }, \
               (int)(sizeof((const tsr_range[]){ __VA_ARGS__ }) / sizeof(tsr_range)), TSR_HERE)
/* tsr_transpose(a), tsr_transpose(a, 2, 0, 1); the last number is not a dim and is dropped. */
#define tsr_transpose(...) TSR_TRANSPOSE_(__VA_ARGS__, 0)
#define TSR_TRANSPOSE_(a, ...)                        \
  tsr_transpose_at((a), (const int[]){ __VA_ARGS__ }, \
                   (int)(sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)) - 1, TSR_HERE)
#define tsr_broadcast_to(a, shape) tsr_broadcast_to_at((a), (shape), TSR_HERE)
#define TSR_PAD_(array, ...) \
  (&(tsr_pad_args){ .size = sizeof(tsr_pad_args), .x = (array), __VA_ARGS__ })
#define tsr_pad(...) tsr_pad_at(TSR_PAD_(__VA_ARGS__, ), TSR_HERE)
/* Arguments are taken together, so that arrays may be compound literals. */
#define tsr_concat(...) tsr_concat_at(__VA_ARGS__, TSR_HERE)
#define tsr_flip(a, dims) tsr_flip_at((a), (dims), TSR_HERE)

#define TSR_REDUCE_(...) TSR_REDUCED_(__VA_ARGS__, )
#define TSR_REDUCED_(array, ...) \
  (&(tsr_reduce_args){ .size = sizeof(tsr_reduce_args), .x = (array), __VA_ARGS__ })
#define tsr_reshard(a, sharding) tsr_reshard_at((a), (sharding), TSR_HERE)
#define tsr_constrain(a, sharding) tsr_constrain_at((a), (sharding), TSR_HERE)
/* Arguments are taken together, so that arrays may be compound literals. */
#define tsr_eval(...) tsr_eval_at(__VA_ARGS__, TSR_HERE)
#define tsr_start(...) tsr_start_at(__VA_ARGS__, TSR_HERE)
#define tsr_read(...) tsr_read_at(__VA_ARGS__, TSR_HERE)
#define tsr_read_scalar(...) tsr_read_scalar_at(__VA_ARGS__, TSR_HERE)
#define tsr_read_i64(...) tsr_read_i64_at(__VA_ARGS__, TSR_HERE)
#define tsr_wait(...) tsr_wait_at(__VA_ARGS__, TSR_HERE)
#define tsr_shard_view(...) tsr_shard_view_at(__VA_ARGS__, TSR_HERE)
#define tsr_donate(a) tsr_donate_at((a), TSR_HERE)
#define tsr_keep(outer, a) tsr_keep_at((outer), (a), TSR_HERE)
#define tsr_text_into(a, out) tsr_text_into_at((a), (out), TSR_HERE)
#define tsr_devices_into(a, out) tsr_devices_into_at((a), (out), TSR_HERE)
#endif

#include "operations.h"

#endif
