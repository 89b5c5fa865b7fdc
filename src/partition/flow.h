/* Inside partition/: how shardings flow through a program, and what each node asks of its
 * operands. */
#ifndef TSR_PARTITION_FLOW_H
#define TSR_PARTITION_FLOW_H

#include "partition/partition.h"

/* The axes of one factor, major first. */
typedef struct tsr__axes {
  uint8_t count;
  uint8_t axis[TSR_MAX_AXES];
} tsr__axes;

/* What a node does with its factors: the mesh, and over which axes each factor is cut. */
typedef struct tsr__choice {
  tsr__factors factors;
  const tsr_mesh *mesh; /* NULL: unplaced */
  tsr__axes axes[TSR__MAX_FACTORS];
} tsr__choice;

/* By node of the traced program. */
typedef struct tsr__flow {
  const tsr__program *program;
  tsr_sharding *at; /* where it lies; no mesh: not known, or unplaced */
  uint8_t *free;    /* computed from numbers alone, so it can be made anywhere */
  uint8_t *ragged;  /* its rows lie as a filter left them */
} tsr__flow;

tsr_status tsr__flow_run(const tsr__program *program, tsr__arena *arena, tsr__flow *out,
                         tsr__error *error);
/* How node `n` cuts its factors: along its result where that is known, then along its operands,
 * the largest first. */
void tsr__flow_choose(const tsr__flow *flow, int n, tsr__choice *out);
/* Where operand `i` must lie for that choice, and where the result then lies. */
tsr_sharding tsr__choice_operand(const tsr__choice *choice, int i, int rank);
tsr_sharding tsr__choice_result(const tsr__choice *choice, int rank);
/* The mesh axes over which the choice combines partials. */
unsigned tsr__choice_reduced(const tsr__choice *choice);

bool tsr__same_devices(const tsr_mesh *a, const tsr_mesh *b);

/* Fills out->notes from the finished program. */
tsr_status tsr__notes_make(tsr__heap *heap, tsr__partitioned *out, tsr__error *error);

#endif
