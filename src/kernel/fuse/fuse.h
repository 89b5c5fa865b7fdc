/* Inside kernel/: the decisions of fuse.c, which emit.c carries out. */
#ifndef TSR_KERNEL_FUSE_H
#define TSR_KERNEL_FUSE_H

#include "kernel/fuse/kir.h"

/* Facts about each node of the program being fused. */
typedef struct tsr__fact {
  int stage;    /* see tsr__stages */
  int meets;    /* see tsr__meeting_stages */
  int level;    /* order of kernels within a stage; -1: not computed in a kernel */
  int domain;   /* number of the domain its kernel would loop over */
  int kernel;   /* which kernel computes it; -1 = none */
  int origin;   /* nodes with dynamic rows: representative of those with the same rows */
  bool tile;    /* a pure function of elements, computed in kernels */
  bool view;    /* a view that kernels read through: never stored for a kernel */
  bool through; /* read through by the kernel being emitted */
  int views;    /* how many views are read through to read this one, with it */
  bool uniform; /* one value for all elements: recomputed wherever it is needed */
  bool store;   /* its elements are needed in memory */
  bool needed;  /* the kernel being emitted needs it */
  bool step;    /* a step of its own */
  bool done;    /* this step is in the schedule */
} tsr__fact;

typedef struct tsr__fusion {
  const tsr__program *program;
  tsr__heap *heap;     /* holds the schedule */
  tsr__arena *scratch; /* holds lists that fusion needs meanwhile */
  tsr__schedule *out;
  tsr__fact *fact; /* [node] */
  int *domains;    /* a node of each domain */
  int *movers;     /* filters and rebalances, one of those with equal masks */
  int mover_count;
  int domain_count;
  int *kernel_stage;  /* [kernel] */
  int *kernel_nodes;  /* the nodes of kernel 0, of kernel 1, ... */
  int *kernel_first;  /* [kernel + 1]: index in kernel_nodes of its first node; the last, the end */
  int *numbers;       /* [node]: its number in a printed program */
  bool *kernel_works; /* [kernel]: it stores or reduces something */
  int *node_accum;    /* [node]: the first accum of `out` that is the node's; -1 = none */
  int *next_accum;    /* [accum]: the next accum of the same node; -1 = none */
  tsr__kval *value;   /* [node], while a kernel is written; slot -1 between kernels */
  uint64_t *marks;    /* a bit a node: the kernel being written has to do with it; else 0 */
  int stages;
  int *of_stage;  /* [stage + 1]: the first item of the stage's list; -1 = none */
  int *next_step; /* [node that is a step]: the next step of its stage */
  tsr__error *error;
} tsr__fusion;

/* How operand `i` of a node reaches the kernel of the node. */
enum tsr__reach {
  TSR__REACH_NONE,    /* no such operand */
  TSR__REACH_ELEMENT, /* element by element, in the same kernel if it is computed in the stage */
  TSR__REACH_MEMORY,  /* from memory: other shapes, tables */
  TSR__REACH_VIEW,    /* a view: its operand is read from memory */
  TSR__REACH_UNIFORM
};
int tsr__reach(const tsr__fusion *fusion, int node, int i);

/* Whether a node is a view of the other shape that its operand has in memory: read through, but
 * through to memory. */
bool tsr__reads_lines(const tsr__program *program, int node);

/* The tsr__step_kind of an operation that is a step. */
int tsr__step_of(int op);

/* How an operand of shape `o` lies under a domain if it is aligned at the last dim (loads.c). */
tsr__loadinfo tsr__load_aligned(const tsr__gnode *domain, const tsr__gnode *o);
/* The map from a domain to operand `i` of a view, given the map from the domain to the view. False:
 * the view shows no element of the operand there. */
bool tsr__load_through(const tsr__program *program, const tsr__gnode *view, int i,
                       const tsr__loadinfo *from, tsr__loadinfo *out);
/* Whether a load is the operand's elements in order, one for each of a domain of `rank`. */
bool tsr__load_plain(const tsr__loadinfo *load, int rank);

/* Writes kernel number `kernel`. */
tsr_status tsr__emit(const tsr__fusion *fusion, int kernel, tsr__kernel **out);

#endif
