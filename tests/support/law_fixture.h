/* What laws share: trials by seed, runtimes and meshes at random, and tables compared. */
#ifndef TESTS_SUPPORT_LAW_FIXTURE_H
#define TESTS_SUPPORT_LAW_FIXTURE_H

#include "harness.h"
#include "tessera.h"

/* Runs a trial for each of `count` seeds from `first` on, or for the one that LAW_SEED names.
 * Of those this run's share (test_share). */
void law_each_seed(uint64_t first, int count, void (*trial)(uint64_t seed));
/* The same on one runtime of 8 devices; more than the share of trials must have given rows. */
void law_each_seed_on_8(uint64_t first, int count, double share,
                        bool (*trial)(tsr_runtime *rt, uint64_t seed));

typedef struct law_mesh {
  tsr_runtime *rt;
  const tsr_mesh *mesh;
  bool flat; /* one axis, x; else x and y */
} law_mesh;

/* 1 to 8 devices, 1 or 2 threads. */
law_mesh law_open(test_rng *rng);

/* What a mesh of arrays may be, on 8 devices: one text in LAW_MESHES. */
enum { LAW_MESHES = 8 };
extern const char *const law_meshes[LAW_MESHES];
/* A random spec for a rank: every axis goes to some dim or to none; at times no place at all. */
tsr_sharding law_sharding(test_rng *rng, const tsr_mesh *mesh, int rank);
/* The same, and never no place. */
tsr_sharding law_placed(test_rng *rng, const tsr_mesh *mesh, int rank);

/* Of up to 70,000 elements, which a kernel cuts into tasks. Of several dims one has 0 to 3, so that
 * devices hold nothing of it where it is cut. `least` >= 1. */
tsr_shape law_large(test_rng *rng, int least, int most);

/* At times a shape with more dims of size 1 and up to three of size 2 between its own, up to
 * `most`. */
tsr_shape law_deep(test_rng *rng, tsr_shape shape, int most);

/* What is different in names, types, nulls or bits of values; NULL: nothing. In a static buffer. */
const char *law_differs(const tsr_table *found, const tsr_table *expected);

#endif
