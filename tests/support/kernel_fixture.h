/* Small programs run by the kernel room alone: nodes by hand, operands and results against
 * unmapped pages, every device's part in memory of its own. */
#ifndef TESTS_SUPPORT_KERNEL_FIXTURE_H
#define TESTS_SUPPORT_KERNEL_FIXTURE_H

#include "kernel/device/cpu.h"
#include "kernel/device/device.h"
#include "kernel/fuse/schedule.h"
#include "support/topology_fixture.h"

enum { FIXTURE_NODES = 512, FIXTURE_DEVICES = 8 };

typedef struct kernel_fixture {
  tsr_runtime *rt;
  tsr_mesh *mesh; /* NULL: one device, everything unplaced */
  int positions;
  tsr__program program;
  tsr__schedule schedule;
  tsr__buffer *buffer[FIXTURE_NODES][FIXTURE_DEVICES];
  tsr__traffic traffic;
  tsr__error error;
  int kernels; /* of the last run */
} kernel_fixture;

/* `devices` > 1: a mesh "x=devices". Instruction set NULL: the best, or $TSR_ISA. */
void kernel_open(kernel_fixture *k, int devices, const char *isa, int threads);
void kernel_close(kernel_fixture *k);
/* Whether this machine has an instruction set. */
bool kernel_has(const char *isa);

/* Nodes; each returns its number. On a mesh, dim 0 is sharded over x if `sharded`. */
int kernel_leaf(kernel_fixture *k, tsr_dtype dtype, tsr_shape shape, bool sharded,
                const void *host);
int kernel_number(kernel_fixture *k, tsr_dtype dtype, double value);
int kernel_integer(kernel_fixture *k, tsr_dtype dtype, int64_t value);
int kernel_op(kernel_fixture *k, tsr__op op, int a, int b, int c);
/* With a dtype (cast, iota, uniform), a shape (sources) and attributes. `sharded` as kernel_leaf.
 * Operands -1 at the end are none. */
int kernel_node(kernel_fixture *k, tsr__op op, tsr__links in, const tsr__ask *ask, bool sharded);
void kernel_root(kernel_fixture *k, int node);

/* Fuses and runs everything; the status of the first step that failed. */
tsr_status kernel_run(kernel_fixture *k);
/* Copies a node's elements to `out` (bool as bytes). */
void kernel_read(kernel_fixture *k, int node, void *out);

#endif
