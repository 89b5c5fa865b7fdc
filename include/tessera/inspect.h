/* Inspection: the nodes of a program, its traffic between devices and the reasons for it. */
#ifndef TESSERA_INSPECT_H
#define TESSERA_INSPECT_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the program that evaluating `array` would run: one line per node with its type, its
 * sharding where one was asked for, and its source location; a node that has a value already is a
 * `put`. Owned by the array's scope; on error the message. Local. */
TSR_API const char *tsr_dump(tsr_array *array);
/* Writes the text of tsr_dump to `out`, which is untouched on failure; returns the status.
 * Local. */
TSR_API TSR_MUST_USE tsr_status tsr_dump_into_at(tsr_array *array, const char **out,
                                                 const char *site);

/* Returns the traffic of evaluating `count` arrays as one program: each collective with its cause,
 * mesh axes, bytes, and a cheaper alternative where one is known; then the kernels and the bytes
 * that they read. Runs nothing. Owned by the first array's scope; on error the message. Local. */
TSR_API const char *tsr_explain(tsr_array *const *arrays, int count);
/* Writes the text of tsr_explain to `out`, which is untouched on failure; returns the status.
 * Local. */
TSR_API TSR_MUST_USE tsr_status tsr_explain_into_at(tsr_array *const *arrays, int count,
                                                    const char **out, const char *site);

/* Evaluates and draws which devices hold which shard of the array, as tsr_visualize_sharding does.
 * Owned as results are; on error the message. Collective. */
TSR_API const char *tsr_visualize_with(tsr_array *array, const tsr_draw_opts *opts,
                                       const char *site);

/* Called with an array's sharding and type; must not call a terminal. */
typedef void tsr_sharding_fn(tsr_sharding sharding, tsr_dtype dtype, tsr_shape shape, void *user);

/* Calls `fn` with an array's sharding: at once for an array with a value, or that can have one; in
 * the body of a function when a call is planned, with the sharding that the planner chose, and not
 * again where a cached plan is found. `user` must live as long as the function. Returns the array,
 * to be used in its place: an array that nothing reads is not reported. Errors: TSR_EARG, those of
 * evaluating. Local. */
TSR_API tsr_array *tsr_inspect_sharding_at(tsr_array *array, tsr_sharding_fn *fn, void *user,
                                           const char *site);

/* The values that a callback gets, borrowed for the call. */
typedef struct tsr_seen {
  const void *data; /* dense, C order; bool: one byte an element */
  tsr_dtype dtype;
  tsr_shape shape;       /* shape of `data` */
  tsr_sharding sharding; /* sharding of the whole array */
  tsr_box box;           /* place of `data` in the whole array */
  int device;            /* device of the shard; -1: the whole array */
} tsr_seen;

/* Called with an array's values; a status other than TSR_OK fails the program. The callback must
 * not call a terminal. */
typedef tsr_status tsr_seen_fn(const tsr_seen *seen, void *user);
/* Called with a line of tsr_print, which ends in a newline. */
typedef void tsr_line_fn(const char *line, void *user);

typedef struct tsr_tap_args {
  size_t size;
  tsr_array *array;
  tsr_seen_fn *fn TSR_REST_BY_NAME;    /* tsr_callback */
  const char *format TSR_REST_BY_NAME; /* tsr_print */
  tsr_line_fn *write;                  /* tsr_print: NULL writes to the standard output */
  void *user;  /* user data of fn and write; must live as long as the function whose body has the
                * call */
  bool shards; /* one call per device with its shard, in the order of the mesh */
} tsr_tap_args;

/* Calls `fn` with an array's values whenever it is computed, also in bodies of functions, on the
 * thread of the terminal. To order two callbacks, give the second the array that the first
 * returned. In a mapped body the callback gets all elements at once, along a leading dim. Returns
 * the array, to be used in its place: an array that nothing reads is not shown. Gradients pass
 * through. Errors: TSR_EARG; at the terminal the status of the callback, with the source line.
 * Local. */
TSR_API tsr_array *tsr_callback_at(const tsr_tap_args *args, const char *site);
/* Writes a line whenever an array is computed, as tsr_callback calls its function. In `format`, {}
 * stands for the elements, {type} for the type, {device} for the shard's device ("all" for the
 * whole array), {process} for the process that writes the line: each process writes its own shards.
 * {{ and }} are braces. Errors: TSR_EARG for other braces. Local. */
TSR_API tsr_array *tsr_print_at(const tsr_tap_args *args, const char *site);

/* Gives `log` a line whenever a body is traced again: for which function, and the difference from
 * the trace before - dtype, shape, sharding or form of an argument, bytes at .user. NULL ends this.
 * Local. */
TSR_API void tsr_log_compiles(tsr_runtime *rt, tsr_log_fn log, void *user);

/* Figures of the last terminal of a scope: for arrays of its one program; for frames the sum over
 * all programs between breakers and the rows that the breakers exchanged. */
typedef struct tsr_run_stats {
  int programs;    /* programs run */
  int kernels;     /* fused kernels run */
  int collectives; /* collectives that moved bytes between devices */
  /* Bytes that tsr_explain states: the fixed part of the traffic. A loop counts all its steps; a
   * tsr_while, whose number of steps is not known before, counts one; a choice counts the body that
   * moves most. */
  int64_t bytes_explained;
  int64_t bytes_counted; /* bytes that the copy routine counted between devices' pools */
  int64_t bytes_escaped; /* those of bytes_counted that depend on values: parts of exact sums beyond
                          * their fixed size, elements that a sort sends to other devices */
  bool cached;           /* every plan came from the cache */
  /* Bytes between devices and host memory for work that the host did because the devices' kind
   * lacks it; 0 on CPU devices. Runs that are under way at once count each other's. */
  int64_t bytes_through_host;
  /* Those of bytes_counted that were copied between devices of different kinds, counted likewise.
   * Partial results and routines over several kinds meet on the host: bytes_through_host. */
  int64_t bytes_between_kinds;
} tsr_run_stats;

enum { TSR_MAX_KINDS = 16 };

/* Collectives of one kind. */
typedef struct tsr_kind_figures {
  const char *kind; /* its name in tsr_explain, "all-gather"; static */
  int count;
  int64_t bytes; /* bytes between devices, all collectives of the kind together */
} tsr_kind_figures;

/* The cost of running a program, by its plan. Figures of a device are those of the device with the
 * most. An elementwise operation counts one flop per element, a reduction and a routine one per
 * element that they read, a product two. Sizes known only at run time (rows that a filter leaves)
 * count nothing. A loop's body counts once per step; that of a tsr_while, whose number of steps is
 * not known, once; a choice counts the body with the most. */
typedef struct tsr_figures {
  double flops, device_flops;
  int64_t device_bytes; /* bytes that kernels, routines and moves read and write in memory */
  int64_t bytes_moved;  /* bytes between devices, as in tsr_explain */
  int collectives, kernels;
  int kind_count;
  tsr_kind_figures kinds[TSR_MAX_KINDS];
  /* Memory of a device: arguments and results; the most bytes in use at once, with accumulators and
   * scratch memory of routines on the device. Scratch memory of threads is not included. */
  int64_t argument_bytes, result_bytes, peak_bytes;
} tsr_figures;

/* An array that a device holds at the peak of a plan: its bytes there, its role, its type as
 * tsr_type_of writes it, the operation that made it, and the line of the call, or NULL. Roles are
 * "argument", "value", "sum" (the accumulators of a reduction), "scratch" (memory in which an
 * operation works), "carry" and "slice" (of a loop's step before, and of the step). */
typedef struct tsr_peak_array {
  int64_t bytes;
  const char *role, *type, *operation, *site;
} tsr_peak_array;

/* Returns the figures of the last terminal of this scope that ran something; zeros without one.
 * Local. */
TSR_API tsr_run_stats tsr_last_run(const tsr_scope *scope);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* tsr_visualize(x), tsr_visualize(x, .colour = true) */
#define tsr_visualize(...) TSR_VISUALIZE_(__VA_ARGS__, )
#define TSR_VISUALIZE_(array, ...)                                                            \
  tsr_visualize_with((array), &(tsr_draw_opts){ .size = sizeof(tsr_draw_opts), __VA_ARGS__ }, \
                     TSR_HERE)
/* tsr_inspect_sharding(x, fn, user), tsr_callback(x, fn, .shards = true), tsr_print(x, "x = {}") */
#define tsr_inspect_sharding(array, fn, user) \
  tsr_inspect_sharding_at((array), (fn), (user), TSR_HERE)
#define TSR_CALLBACK_(x_, fn_, ...) \
  (&(tsr_tap_args){ .size = sizeof(tsr_tap_args), .array = (x_), .fn = (fn_), __VA_ARGS__ })
#define tsr_callback(...) \
  tsr_callback_at(TSR_NEEDS_2_("tsr_callback(x, fn)", TSR_CALLBACK_, __VA_ARGS__), TSR_HERE)
#define TSR_PRINT_(x_, format_, ...) \
  (&(tsr_tap_args){ .size = sizeof(tsr_tap_args), .array = (x_), .format = (format_), __VA_ARGS__ })
#define tsr_print(...) \
  tsr_print_at(TSR_NEEDS_2_("tsr_print(x, format)", TSR_PRINT_, __VA_ARGS__), TSR_HERE)
#define tsr_dump_into(array, out) tsr_dump_into_at((array), (out), TSR_HERE)
/* Arguments are taken together, so that arrays may be a compound literal. */
#define tsr_explain_into(...) tsr_explain_into_at(__VA_ARGS__, TSR_HERE)
#endif

#endif
