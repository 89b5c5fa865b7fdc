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

/* Figures of what the last terminal of a scope ran: for arrays one program; for frames all that it
 * took, summed: the programs between the steps that make rows, and the rows these steps
 * exchanged. */
typedef struct tsr_run_stats {
  int programs;            /* programs run */
  int kernels;             /* fused kernels run */
  int collectives;         /* communications that crossed devices */
  int64_t bytes_explained; /* what tsr_explain says: the fixed part */
  int64_t bytes_counted;   /* what the copy routine counted between devices' pools */
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
 * product two. What is known at run time only (rows that a filter leaves) counts nothing. */
typedef struct tsr_figures {
  double flops, device_flops;
  int64_t device_bytes; /* read and written in memory by kernels, routines and moves */
  int64_t bytes_moved;  /* between devices, as tsr_explain has it */
  int collectives, kernels;
  int kind_count;
  tsr_kind_figures kinds[TSR_MAX_KINDS];
  /* Of a device: arguments and results; the most that lies there at once, accumulators and a
   * routine's own room left out. */
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
#define tsr_visualize(...) TSR_VISUALIZE_(__VA_ARGS__, .size = sizeof(tsr_draw_opts))
#define TSR_VISUALIZE_(array, ...) \
  tsr_visualize_with((array), &(tsr_draw_opts){ __VA_ARGS__ }, TSR_HERE)
#define tsr_dump_into(array, out) tsr_dump_into_at((array), (out), TSR_HERE)
/* Arguments are taken together, so that arrays may be a compound literal. */
#define tsr_explain_into(...) tsr_explain_into_at(__VA_ARGS__, TSR_HERE)
#endif

#endif
