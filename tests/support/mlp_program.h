/* A network of two layers that learns pictures like digits, as a C program: what other languages'
 * faces are compared with. */
#ifndef TEST_SUPPORT_MLP_PROGRAM_H
#define TEST_SUPPORT_MLP_PROGRAM_H

#include <stdint.h>

#include "tessera.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  MLP_IMAGES = 240,
  MLP_PIXELS = 64,
  MLP_HIDDEN = 32,
  MLP_CLASSES = 10,
  MLP_STEPS = 40,
  MLP_WEIGHTS = MLP_PIXELS * MLP_HIDDEN + MLP_HIDDEN + MLP_HIDDEN * MLP_CLASSES + MLP_CLASSES
};

/* Pictures that are a pattern for each digit with noise over it. */
typedef struct mlp_pictures {
  float pixels[MLP_IMAGES * MLP_PIXELS];
  int32_t digits[MLP_IMAGES];
} mlp_pictures;

void mlp_draw(mlp_pictures *out);

/* What came of it: the loss before each step, and w and b of both layers at the end. */
typedef struct mlp_trained {
  float loss[MLP_STEPS];
  float weights[MLP_WEIGHTS];
} mlp_trained;

/* Trains on a mesh with an axis "data". */
tsr_status mlp_train(tsr_runtime *rt, const tsr_mesh *mesh, mlp_trained *out);

#ifdef __cplusplus
}
#endif

#endif
