/* The law of draws: of any distribution, dtype and shape, by a number, a key or a batch of keys,
 * over any mesh, the bits are those drawn with no mesh at all; those of bits and uniform draws are
 * Philox's by the book. Runs at each ISA. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"
#include "support/naive_program.h"
#include "support/topology_fixture.h"
#include "tessera.h"

typedef struct trial {
  test_rng rng;
  tsr_scope *s;
  const tsr_mesh *mesh;
  int kind;
  double parameter;
  int64_t count; /* of what is chosen from */
  tsr_shape by;  /* of the array that is drawn by */
  tsr_sharding from;
  tsr_random_args args;
  uint64_t seeds[32]; /* of the keys */
} trial;

enum {
  BITS,
  UNIFORM,
  NORMAL,
  EXPONENTIAL,
  POISSON,
  TRUNCATED,
  GAMMA,
  RANDINT,
  RANGE,
  BERNOULLI,
  COINS_BY,
  GAMMA_BY,
  POISSON_BY,
  PERMUTATION,
  CATEGORICAL,
  CHOICE,
  KINDS
};

static bool counts(int kind)
{
  return kind == BITS || kind == POISSON || kind == POISSON_BY || kind == RANDINT ||
         kind == PERMUTATION || kind == CATEGORICAL || kind == CHOICE;
}

/* Something to choose from, at a place: the same numbers, not all of them 0. */
static tsr_array *weights(const trial *t, tsr_shape shape)
{
  tsr_array *x = tsr_full(t->s, 0, TSR_F64, shape, (tsr_sharding){ 0 });
  for (int d = 0; d < shape.rank; d++)
    x = tsr_add(x, tsr_iota(t->s, TSR_F64, shape, d, d ? (tsr_sharding){ 0 } : t->from));
  return tsr_abs(tsr_cos(x));
}

static tsr_array *choose(const trial *t, const tsr_random_args *args)
{
  tsr_array *x = weights(t, TSR_SHAPE(t->count, 3));
  tsr_choice_args choice = { .size = sizeof choice, .x = x, .by = *args };
  choice.replace = (int)t->parameter % 2;
  choice.count = choice.replace ? t->count * 2 : t->count / 2;
  if ((int)t->parameter % 3) choice.weights = weights(t, TSR_SHAPE(t->count));
  return tsr_choice_at(&choice, TSR_HERE);
}

/* By an array of numbers that are not negative, at a place. */
static tsr_array *draw_by(const trial *t, const tsr_random_args *args)
{
  double most = t->kind == COINS_BY ? 1 : t->parameter;
  tsr_operand by = tsr_operand_array(tsr_mul(weights(t, t->by), most));
  if (t->kind == COINS_BY) return tsr_bernoulli_at(t->s, by, args, TSR_HERE);
  if (t->kind == GAMMA_BY) return tsr_gamma_at(t->s, by, args, TSR_HERE);
  return tsr_poisson_at(t->s, by, args, TSR_HERE);
}

/* The last of some dims, some of them 1. */
static tsr_shape some_behind(test_rng *rng, tsr_shape shape)
{
  tsr_shape some = { .rank = (int)test_range(rng, 0, shape.rank) };
  for (int d = 0; d < some.rank; d++)
    some.dims[d] = test_range(rng, 0, 2) ? shape.dims[shape.rank - some.rank + d] : 1;
  return some;
}

static tsr_array *draw(const trial *t, const tsr_random_args *args)
{
  switch (t->kind) {
  case BITS: return tsr_random_bits_at(t->s, args, TSR_HERE);
  case UNIFORM: return tsr_uniform_at(t->s, args, TSR_HERE);
  case NORMAL: return tsr_normal_at(t->s, args, TSR_HERE);
  case EXPONENTIAL: return tsr_exponential_at(t->s, t->parameter, args, TSR_HERE);
  case POISSON: return tsr_poisson_at(t->s, tsr_operand_float(t->parameter), args, TSR_HERE);
  case TRUNCATED: return tsr_truncated_normal_at(t->s, -1, t->parameter, args, TSR_HERE);
  case GAMMA: return tsr_gamma_at(t->s, tsr_operand_float(t->parameter / 2), args, TSR_HERE);
  case RANDINT: return tsr_randint_at(t->s, 3, 4 + (int)t->parameter, args, TSR_HERE);
  case BERNOULLI:
    return tsr_bernoulli_at(t->s, tsr_operand_float(t->parameter / 40), args, TSR_HERE);
  case COINS_BY:
  case GAMMA_BY:
  case POISSON_BY: return draw_by(t, args);
  case PERMUTATION: return tsr_permutation_at(t->s, t->count, args, TSR_HERE);
  case CATEGORICAL: {
    tsr_array *x = weights(t, TSR_SHAPE(t->count, 4));
    return tsr_categorical_at(x, (int)t->parameter % 2, args, TSR_HERE);
  }
  case CHOICE: return choose(t, args);
  default: return tsr_uniform_at(t->s, args, TSR_HERE);
  }
}

static tsr_shape any_shape(test_rng *rng, int most_rank)
{
  tsr_shape shape = { .rank = (int)test_range(rng, 0, most_rank) };
  for (int d = 0; d < shape.rank; d++)
    shape.dims[d] = test_range(rng, 0, 9) ? test_range(rng, 1, shape.rank > 1 ? 20 : 900) : 0;
  return shape;
}

static int64_t count_of(tsr_shape shape)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  return count;
}

/* A number, or keys of some rank, up to 24 of them. */
static tsr_shape draw_keys(trial *t)
{
  tsr_shape shape = { .rank = (int)test_range(&t->rng, -1, 2) };
  for (int i = 0; i < 32; i++) t->seeds[i] = i % 5 ? test_random(&t->rng) : (uint64_t)i;
  if (shape.rank < 0) {
    t->args.key = t->seeds[0] = test_random(&t->rng);
    return TSR_SCALAR;
  }
  for (int d = 0; d < shape.rank; d++) shape.dims[d] = test_range(&t->rng, 0, 4);
  t->args.keys = tsr_put(t->s, t->seeds, TSR_U64, shape, (tsr_sharding){ 0 });
  return shape;
}

static tsr_dtype any_dtype(trial *t)
{
  if (t->kind == BERNOULLI || t->kind == COINS_BY) return TSR_BOOL;
  for (;;) {
    tsr_dtype dtype = fixture_dtype(test_range(&t->rng, 0, 12));
    if (dtype != TSR_BOOL && naive_is_real((int)dtype) != counts(t->kind)) return dtype;
  }
}

static void check_words(const trial *t, const void *found, int64_t keys, int64_t each)
{
  int dtype = (int)t->args.dtype;
  for (int64_t i = 0; i < keys * each; i++) {
    uint64_t bits = naive_philox(t->seeds[i / each], (uint64_t)(i % each), t->args.stream);
    naive_check("draw", i, dtype, naive_get(found, dtype, i), naive_draw(dtype, bits));
  }
}

static void *read_all(const trial *t, tsr_array *a, size_t *bytes)
{
  *bytes = (size_t)count_of(tsr_shape_of(a)) * tsr_dtype_size(tsr_dtype_of(a));
  void *out = malloc(*bytes + 8);
  CHECK_STATUS(tsr_read(a, out, *bytes), TSR_OK, t->s);
  return out;
}

static bool one_trial(tsr_runtime *rt, uint64_t seed)
{
  trial t = { .rng = test_seeded(seed), .s = tsr_scope_open(rt) };
  t.mesh = tsr_mesh_make(rt, law_meshes[test_range(&t.rng, 0, LAW_MESHES - 1)]);
  t.kind = (int)test_range(&t.rng, 0, KINDS - 1);
  t.parameter = (double)test_range(&t.rng, 1, 40) / 2;
  t.count = test_range(&t.rng, 1, 6) * test_range(&t.rng, 1, 20);
  tsr_shape keys = draw_keys(&t);
  if (t.kind == RANGE) t.args.low = -2, t.args.high = t.parameter;
  t.args.size = sizeof t.args;
  t.args.stream = (uint64_t)test_corner(&t.rng, 0, UINT32_MAX);
  t.args.dtype = any_dtype(&t);
  t.args.shape = any_shape(&t.rng, t.kind < PERMUTATION ? 3 : 1);
  t.by = some_behind(&t.rng, t.args.shape);
  size_t bytes, same;
  void *expected = read_all(&t, draw(&t, &t.args), &bytes);
  if (t.kind <= UNIFORM) check_words(&t, expected, count_of(keys), count_of(t.args.shape));
  tsr_random_args placed = t.args;
  if (placed.keys)
    placed.keys = tsr_put(t.s, t.seeds, TSR_U64, keys, law_sharding(&t.rng, t.mesh, keys.rank));
  t.from = law_sharding(&t.rng, t.mesh, 1);
  placed.on = law_sharding(&t.rng, t.mesh, keys.rank + t.args.shape.rank + (t.kind == PERMUTATION));
  tsr_array *a = draw(&t, &placed);
  void *found = read_all(&t, a, &same);
  CHECK_U64(same, bytes);
  CHECK_BYTES(found, expected, bytes);
  free(found);
  free(expected);
  tsr_scope_close(t.s);
  return bytes > 0;
}

TEST_TIMEOUT(no_mesh_shows_in_draws, 600)
{
  law_each_seed_on_8(1, test_quick() ? 300 : 3000, 0.5, one_trial);
}
