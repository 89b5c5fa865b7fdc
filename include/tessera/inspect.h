/* Looking inside: what a program is, what it will move between devices and why. */
#ifndef TESSERA_INSPECT_H
#define TESSERA_INSPECT_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the program that evaluating `array` would run: one line a node with its type, its
 * sharding where one was asked for, and the line that made it; what has a value already is a `put`.
 * Owned by the array's scope; on error the message. Local. */
TSR_API const char *tsr_dump(tsr_array *array);
/* As tsr_dump, and tells whether it is the program: writes it to `out`, which is untouched on
 * failure. Local. */
TSR_API TSR_MUST_USE tsr_status tsr_dump_into_at(tsr_array *array, const char **out,
                                                 const char *site);

/* Returns what evaluating `count` arrays as one program moves between devices: each collective with
 * its cause, mesh axes, bytes, and a cheaper alternative where one is known; then the kernels and
 * what they read. Nothing is run. Owned by the first array's scope; on error the message. Local. */
TSR_API const char *tsr_explain(tsr_array *const *arrays, int count);
/* As tsr_explain in the form of tsr_dump_into. Local. */
TSR_API TSR_MUST_USE tsr_status tsr_explain_into_at(tsr_array *const *arrays, int count,
                                                    const char **out, const char *site);

/* Evaluates and draws which devices hold which part of the array, as tsr_visualize_sharding does.
 * Owned as results are; on error the message. Collective. */
TSR_API const char *tsr_visualize_with(tsr_array *array, const tsr_draw_opts *opts,
                                       const char *site);

/* Told how an array lies. It must not call what computes. */
typedef void tsr_sharding_fn(tsr_sharding sharding, tsr_dtype dtype, tsr_shape shape, void *user);

/* Tells `fn` how an array lies: at once of one with a value, or that can have one; in the body of a
 * function when a call is planned, with the sharding that the planner chose, and not again where
 * the plan is found. `user` must live as long as the function. Returns the array, to be used in its
 * place: of what nobody reads nothing is told. Errors: TSR_EARG, those of evaluating. Local. */
TSR_API tsr_array *tsr_inspect_sharding_at(tsr_array *array, tsr_sharding_fn *fn, void *user,
                                           const char *site);

/* What a callback is shown: borrowed for the call. */
typedef struct tsr_seen {
  const void *data; /* dense, C order; bool: one byte an element */
  tsr_dtype dtype;
  tsr_shape shape;       /* of what is shown */
  tsr_sharding sharding; /* of the whole array */
  tsr_box box;           /* which part of the whole it is */
  int device;            /* whose part it is; -1: it is the whole */
} tsr_seen;

/* Shown an array; another status than TSR_OK fails the program. It must not call what computes. */
typedef tsr_status tsr_seen_fn(const tsr_seen *seen, void *user);
/* Takes a line of tsr_print, which ends in a newline. */
typedef void tsr_line_fn(const char *line, void *user);

typedef struct tsr_tap_args {
  size_t size;
  tsr_array *array;
  tsr_seen_fn *fn TSR_REST_BY_NAME;    /* tsr_callback */
  const char *format TSR_REST_BY_NAME; /* tsr_print */
  tsr_line_fn *write;                  /* tsr_print: NULL writes to the standard output */
  void *user;  /* of fn and write; lives as long as the function whose body it is in */
  bool shards; /* for each device with its part, in the order of the mesh */
} tsr_tap_args;

/* Shows an array to a callback whenever it is computed, in bodies of functions too, in the thread
 * of the terminal. One that is to come after another takes what that one returned. In a body that
 * is mapped over an axis all of them are seen at once, along a dim in front. Returns the array, to
 * be used in its place: what nobody reads is not shown. Its gradient is passed through. Errors:
 * TSR_EARG; at the terminal what the callback returned, with the line. Local. */
TSR_API tsr_array *tsr_callback_at(const tsr_tap_args *args, const char *site);
/* As tsr_callback, writes a line: in `format` {} stands for the elements, {type} for the type,
 * {device} for whose part it is ("all" of the whole), {process} for the process that shows it: each
 * of several shows what it has. {{ and }} are braces. Errors: TSR_EARG for other braces. Local. */
TSR_API tsr_array *tsr_print_at(const tsr_tap_args *args, const char *site);

/* Gives `log` a line whenever a body is traced anew: for what, and what is other than in the trace
 * before - dtype, shape, sharding or form of an argument, bytes at .user. NULL: no more. Local. */
TSR_API void tsr_log_compiles(tsr_runtime *rt, tsr_log_fn log, void *user);

/* Figures of what the last terminal of a scope ran: for arrays one program; for frames all that it
 * took, summed: the programs between the steps that make rows, and the rows these steps
 * exchanged. */
typedef struct tsr_run_stats {
  int programs;    /* programs run */
  int kernels;     /* fused kernels run */
  int collectives; /* communications that crossed devices */
  /* What tsr_explain says: the fixed part. Of a loop that of all steps; of a tsr_while, whose steps
   * nobody knows before, of one; of a choice that of the body that moves most. */
  int64_t bytes_explained;
  int64_t bytes_counted; /* what the copy routine counted between devices' pools */
  int64_t bytes_escaped; /* of them: what the elements decide; parts of exact sums that did not fit
                            * their fixed size, elements that a sort sends to other devices */
  bool cached;           /* every plan came from the cache */
} tsr_run_stats;

enum { TSR_MAX_KINDS = 16 };

/* Collectives of one kind. */
typedef struct tsr_kind_figures {
  const char *kind; /* as tsr_explain calls it, "all-gather"; static */
  int count;
  int64_t bytes; /* that cross between devices, all of them together */
} tsr_kind_figures;

/* What running a program takes, by its plan. Of a device: of the one that holds most. An operation
 * on elements counts one flop an element, a reduction and a routine one an element that it reads, a
 * product two. What is known at run time only (rows that a filter leaves) counts nothing. A loop's
 * body counts once a step; that of a tsr_while, whose steps nobody knows, once; of a choice the
 * most that any of its bodies takes. */
typedef struct tsr_figures {
  double flops, device_flops;
  int64_t device_bytes; /* read and written in memory by kernels, routines and moves */
  int64_t bytes_moved;  /* between devices, as tsr_explain has it */
  int collectives, kernels;
  int kind_count;
  tsr_kind_figures kinds[TSR_MAX_KINDS];
  /* Of a device: arguments and results; the most that lies there at once, with accumulators and
   * what routines work in there. What threads work in is no device's. */
  int64_t argument_bytes, result_bytes, peak_bytes;
} tsr_figures;

/* Returns the figures of the last terminal of this scope that ran something; zeros if none.
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
