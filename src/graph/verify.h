/* Checking nodes one by one, for who makes a program of what strangers wrote. */
#ifndef TSR_GRAPH_VERIFY_H
#define TSR_GRAPH_VERIFY_H

#include "graph/graph.h"

/* As tsr__program_verify for node `n` of a region's program, of which all before it were checked
 * and its own regions are good. */
tsr_status tsr__program_verify_node(const tsr__program *program, int n, tsr__error *error);

#endif
