/* Keys as arrays, words of bits and ranges of uniform draws, against Philox by the book. Runs at
 * each ISA. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/naive_program.h"
#include "tessera.h"

typedef struct world {
  tsr_runtime *rt;
  tsr_scope *s;
  const tsr_mesh *mesh;
} world;

static world opened(void)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:6", .threads = 2);
  return (world){ rt, tsr_scope_open(rt), tsr_mesh_make(rt, "x=2,y=3") };
}

static void closed(world *w)
{
  tsr_scope_close(w->s);
  tsr_runtime_close(w->rt);
}

static int64_t count_of(tsr_array *a)
{
  int64_t count = 1;
  for (int d = 0; d < tsr_shape_of(a).rank; d++) count *= tsr_shape_of(a).dims[d];
  return count;
}

/* Its elements as they are, malloced. */
static void *read_all(world *w, tsr_array *a)
{
  size_t bytes = (size_t)count_of(a) * tsr_dtype_size(tsr_dtype_of(a));
  void *out = malloc(bytes + 8);
  CHECK_STATUS(tsr_read(a, out, bytes), TSR_OK, w->s);
  return out;
}

/* Equal in every bit, wherever they lie. */
static void same(world *w, tsr_array *a, tsr_array *b)
{
  CHECK(tsr_dtype_of(a) == tsr_dtype_of(b));
  CHECK_I64(count_of(a), count_of(b));
  void *x = read_all(w, a), *y = read_all(w, b);
  CHECK_BYTES(x, y, (size_t)count_of(a) * tsr_dtype_size(tsr_dtype_of(a)));
  free(x);
  free(y);
}

/* ---- words ---- */

static void check_words(world *w, tsr_dtype dtype, uint64_t key, uint64_t stream)
{
  tsr_random_args args = {
    .key = key, .keyed = true, .stream = stream, .dtype = dtype, .shape = TSR_SHAPE(7, 300)
  };
  tsr_array *a = naive_is_real((int)dtype) ? tsr_uniform_at(w->s, &args, TSR_HERE)
                                           : tsr_random_bits_at(w->s, &args, TSR_HERE);
  void *found = read_all(w, a);
  for (int64_t i = 0; i < 2100; i++)
    naive_check("word", i, (int)dtype, naive_get(found, (int)dtype, i),
                naive_draw((int)dtype, naive_philox(key, (uint64_t)i, stream)));
  free(found);
}

TEST(words_are_those_of_philox)
{
  static const tsr_dtype dtypes[] = { TSR_I8,  TSR_I16, TSR_I32, TSR_I64,  TSR_U8,  TSR_U16,
                                      TSR_U32, TSR_U64, TSR_F16, TSR_BF16, TSR_F32, TSR_F64 };
  world w = opened();
  for (int i = 0; i < 12; i++) {
    check_words(&w, dtypes[i], 0, 0);
    check_words(&w, dtypes[i], UINT64_C(0xfedcba9876543210), UINT32_MAX);
  }
  CHECK(tsr_dtype_of(tsr_random_bits(w.s, .shape = TSR_SHAPE(2), .key = 1)) == TSR_U64);
  closed(&w);
}

/* ---- a key as a number, as a scalar, in a batch ---- */

static tsr_array *draw(world *w, int kind, tsr_random_args args)
{
  args.size = sizeof args;
  static const tsr_dtype floats[] = { TSR_F64, TSR_F32, TSR_F16, TSR_BF16 };
  if (kind < 12) args.dtype = floats[kind % 4];
  if (kind < 4) return tsr_uniform_at(w->s, &args, TSR_HERE);
  if (kind < 8) return tsr_normal_at(w->s, &args, TSR_HERE);
  if (kind < 12) return tsr_exponential_at(w->s, 2, &args, TSR_HERE);
  args.dtype = kind % 2 ? TSR_I16 : TSR_U64;
  if (kind < 14) return tsr_poisson_at(w->s, tsr_operand_int(4), &args, TSR_HERE);
  return tsr_random_bits_at(w->s, &args, TSR_HERE);
}

enum { KINDS = 16 };

TEST(a_number_and_a_scalar_draw_the_same)
{
  static const uint64_t seeds[] = { 0, 7, UINT64_MAX };
  world w = opened();
  for (int kind = 0; kind < KINDS; kind++)
    for (int i = 0; i < 3; i++) {
      tsr_random_args args = {
        .key = seeds[i], .keyed = true, .stream = 3, .shape = TSR_SHAPE(5, 4, 31)
      };
      tsr_array *by_number = draw(&w, kind, args);
      args.key = 0;
      args.keys = tsr_random_key(w.s, seeds[i]);
      same(&w, draw(&w, kind, args), by_number);
      /* a key that is computed, and one that lies on a mesh */
      uint64_t half = seeds[i] / 2, rest = seeds[i] - half;
      args.keys = tsr_add(tsr_random_key(w.s, half), (unsigned long long)rest);
      args.on = tsr_on(w.mesh, "-,x,y");
      same(&w, draw(&w, kind, args), by_number);
      args.keys = tsr_put(w.s, &seeds[i], TSR_U64, TSR_SCALAR, tsr_on(w.mesh, ""));
      same(&w, draw(&w, kind, args), by_number);
    }
  closed(&w);
}

TEST(a_batch_of_keys_is_as_many_draws)
{
  static const uint64_t seeds[6] = { 1, 2, 0, UINT64_MAX, 5, 1 };
  world w = opened();
  const tsr_shape shapes[] = { TSR_SCALAR, TSR_SHAPE(9), TSR_SHAPE(4, 5) };
  for (int kind = 0; kind < KINDS; kind++)
    for (int i = 0; i < 3; i++) {
      tsr_array *keys = tsr_put(w.s, seeds, TSR_U64, TSR_SHAPE(3, 2), (tsr_sharding){ 0 });
      tsr_array *all = draw(&w, kind, (tsr_random_args){ .keys = keys, .shape = shapes[i] });
      CHECK_I64(tsr_shape_of(all).rank, 2 + shapes[i].rank);
      size_t size = tsr_dtype_size(tsr_dtype_of(all));
      char *found = read_all(&w, all);
      for (int k = 0; k < 6; k++) {
        tsr_array *one =
            draw(&w, kind, (tsr_random_args){ .key = seeds[k], .keyed = true, .shape = shapes[i] });
        size_t bytes = (size_t)count_of(one) * size;
        void *expected = read_all(&w, one);
        CHECK_BYTES(found + (size_t)k * bytes, expected, bytes);
        free(expected);
      }
      free(found);
    }
  closed(&w);
}

TEST(keys_lie_like_data)
{
  uint64_t seeds[12];
  for (int i = 0; i < 12; i++) seeds[i] = (uint64_t)i;
  world w = opened();
  tsr_array *keys = tsr_put(w.s, seeds, TSR_U64, TSR_SHAPE(12), tsr_on(w.mesh, "x+y"));
  tsr_array *more = tsr_random_fold_in(tsr_random_split(keys, 4), 9);
  tsr_array *all = tsr_uniform(w.s, .keys = more, .shape = TSR_SHAPE(50), .dtype = TSR_F32);
  CHECK_STATUS(tsr_eval(&all, 1), TSR_OK, w.s);
  CHECK_I64(tsr_last_run(w.s).bytes_counted, 0);
  CHECK_STR(tsr_type_of(all), "f32[12,4,50]@(x+y,-,-)");
  tsr_array *here = tsr_put(w.s, seeds, TSR_U64, TSR_SHAPE(12), (tsr_sharding){ 0 });
  here = tsr_random_fold_in(tsr_random_split(here, 4), 9);
  tsr_array *plain = tsr_uniform(w.s, .keys = here, .shape = TSR_SHAPE(50), .dtype = TSR_F32);
  void *x = read_all(&w, all), *y = read_all(&w, plain);
  CHECK_BYTES(x, y, 12 * 4 * 50 * 4);
  free(x);
  free(y);
  /* asked for elsewhere: keys are what moves, if anything does */
  tsr_array *cut =
      tsr_uniform(w.s, .keys = keys, .shape = TSR_SHAPE(600), .on = tsr_on(w.mesh, "-,x+y"));
  CHECK_STATUS(tsr_eval(&cut, 1), TSR_OK, w.s);
  CHECK_STR(tsr_type_of(cut), "f64[12,600]@(-,x+y)");
  CHECK(tsr_last_run(w.s).bytes_counted <= 6 * 12 * 8);
  closed(&w);
}

/* ---- keys of keys ---- */

TEST(split_and_fold_in_are_words_no_draw_has)
{
  static const uint64_t seeds[3] = { 3, UINT64_C(1) << 40, 3 };
  static const int32_t data[2] = { 5, -1 };
  const uint64_t apart = UINT64_C(1) << 63;
  world w = opened();
  tsr_array *keys = tsr_put(w.s, seeds, TSR_U64, TSR_SHAPE(3), (tsr_sharding){ 0 });
  uint64_t *found = read_all(&w, tsr_random_split(keys, 50));
  for (uint64_t i = 0; i < 150; i++)
    CHECK_U64(found[i], naive_philox(seeds[i / 50], i % 50, apart));
  free(found);
  tsr_array *folds = tsr_put(w.s, data, TSR_I32, TSR_SHAPE(2, 1), (tsr_sharding){ 0 });
  tsr_array *folded = tsr_random_fold_in(keys, folds);
  CHECK_STR(tsr_type_of(folded), "u64[2,3]");
  found = read_all(&w, folded);
  for (uint64_t i = 0; i < 6; i++)
    CHECK_U64(found[i], naive_philox(seeds[i % 3], (uint64_t)data[i / 3], apart + 1));
  free(found);
  same(&w, tsr_random_fold_in(keys, 7), tsr_random_fold_in(keys, tsr_num(w.s, 7)));
  same(&w, tsr_slice(tsr_random_split(tsr_random_key(w.s, 8), 9), TSR_RANGE(0, 4)),
       tsr_random_split(tsr_random_key(w.s, 8), 4));
  CHECK_I64(count_of(tsr_random_split(keys, 0)), 0);
  closed(&w);
}

static int by_value(const void *a, const void *b)
{
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* First draws of many split keys, of keys folded with 0, 1, 2 ..., and of a chain of splits, are as
 * uniform as draws of one key: the distance of Kolmogorov and Smirnov, one in 10^4 being larger. */
TEST(keys_of_keys_draw_apart)
{
  enum { N = 20000 };
  world w = opened();
  tsr_array *key = tsr_random_key(w.s, 1), *counts = tsr_arange(w.s, .stop = N);
  tsr_array *sets[3] = { tsr_random_split(key, N),
                         tsr_random_fold_in(key, tsr_cast(counts, TSR_I64)),
                         tsr_random_split(tsr_random_split(tsr_random_split(key, 10), 20), 100) };
  for (int k = 0; k < 3; k++) {
    double *x = read_all(&w, tsr_uniform(w.s, .keys = sets[k], .shape = TSR_SCALAR)), far = 0;
    qsort(x, N, sizeof *x, by_value);
    for (int i = 0; i < N; i++) {
      CHECK(i == 0 || x[i] > x[i - 1]);
      far = fmax(far, fmax(x[i] - i / (double)N, (i + 1) / (double)N - x[i]));
    }
    CHECK(far < 2.23 / sqrt(N));
    free(x);
  }
  closed(&w);
}

/* ---- ranges ---- */

static void check_range(world *w, tsr_dtype dtype, double low, double high)
{
  tsr_array *a = tsr_uniform(w->s, .key = 5, .dtype = dtype, .shape = TSR_SHAPE(20000), .low = low,
                             .high = high);
  double *x = read_all(w, tsr_cast(a, TSR_F64)), least = INFINITY, most = -INFINITY;
  for (int i = 0; i < 20000; i++) {
    CHECK(x[i] >= low && x[i] < high);
    least = fmin(least, x[i]);
    most = fmax(most, x[i]);
  }
  CHECK(least <= low + (high - low) / 100 && most >= high - (high - low) / 100 - high * 0x1p-7);
  free(x);
}

TEST(ranges_are_filled_and_never_left)
{
  static const tsr_dtype floats[] = { TSR_F64, TSR_F32, TSR_F16, TSR_BF16 };
  world w = opened();
  for (int i = 0; i < 4; i++) {
    check_range(&w, floats[i], -1, 1);
    check_range(&w, floats[i], 0, 3);
    check_range(&w, floats[i], -5, 0);
    check_range(&w, floats[i], 128, 130);
    check_range(&w, floats[i], 0x1p-10, 0x1p-9);
  }
  check_range(&w, TSR_F64, -DBL_MAX / 2, DBL_MAX / 2);
  /* two numbers beside each other: the lower one */
  double x[200];
  tsr_array *a =
      tsr_uniform(w.s, .shape = TSR_SHAPE(200), .low = 1, .high = 1 + DBL_EPSILON, .key = 1);
  CHECK_STATUS(tsr_read(a, x, sizeof x), TSR_OK, w.s);
  for (int i = 0; i < 200; i++) CHECK_F64_BITS(x[i], 1);
  same(&w, tsr_uniform(w.s, .shape = TSR_SHAPE(90), .high = 1, .key = 1),
       tsr_uniform(w.s, .shape = TSR_SHAPE(90), .key = 1));
  closed(&w);
}

/* ---- what is wrong ---- */

static void says(world *w, tsr_array *a, const char *part)
{
  CHECK(tsr_is_inert(a));
  CHECK_STR_HAS(tsr_message(w->s), part);
  tsr_scope_clear(w->s);
}

#define KEYS(...) \
  tsr_put(w.s, (uint64_t[]){ __VA_ARGS__ }, TSR_U64, TSR_SHAPE(2), (tsr_sharding){ 0 })

TEST(what_is_no_key_is_told)
{
  const tsr_shape four = TSR_SHAPE(4),
                  deep = { .rank = TSR_MAX_RANK,
                           .dims = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 } };
  world w = opened();
  says(&w, tsr_random_split(tsr_num(w.s, 3), 2),
       "TSR_EDTYPE: tsr_random_split: keys are i64[], expected u64; make them with tsr_random_key");
  says(&w, tsr_random_split(KEYS(1, 2), -1), "TSR_EARG: tsr_random_split: -1 new keys per key");
  says(&w, tsr_random_split(tsr_full(w.s, 1, TSR_U64, deep, (tsr_sharding){ 0 }), 2),
       "TSR_ESHAPE: tsr_random_split: keys are u64[1,1,");
  says(&w, tsr_random_fold_in(tsr_num(w.s, 3.5), 2),
       "tsr_random_fold_in: keys are f64[], expected");
  says(&w, tsr_random_fold_in(KEYS(1, 2), 2.5),
       "TSR_EDTYPE: tsr_random_fold_in: the data to fold in is f64[], expected integers; cast it "
       "first");
  says(&w,
       tsr_random_fold_in(KEYS(1, 2), tsr_iota(w.s, TSR_I32, TSR_SHAPE(3), 0, (tsr_sharding){ 0 })),
       "TSR_ESHAPE");
  says(&w, tsr_uniform(w.s, .keys = tsr_num(w.s, 3), .shape = four),
       "TSR_EDTYPE: tsr_uniform: keys are i64[], expected u64");
  says(&w, tsr_uniform(w.s, .key = 1, .keys = KEYS(1, 2), .shape = four),
       "TSR_EARG: tsr_uniform: both .key and .keys are given; give one of them");
  says(&w, tsr_normal(w.s, .stream = UINT64_C(1) << 32, .shape = four, .key = 1),
       "TSR_EARG: tsr_normal: .stream is 4294967296, expected less than 2^32");
  says(&w, tsr_normal(w.s, .keys = KEYS(1, 2), .shape = deep),
       "TSR_ESHAPE: tsr_normal: keys of rank 1 and draws of rank 16, expected 16 dims together at "
       "most");
  says(&w, tsr_random_bits(w.s, .dtype = TSR_F32, .shape = four, .key = 1),
       "TSR_EDTYPE: tsr_random_bits: .dtype is f32, expected an integer");
  says(&w, tsr_random_bits(w.s, .dtype = TSR_BOOL, .shape = four, .key = 1),
       "bool, expected an integer");
  says(&w, tsr_normal(w.s, .dtype = TSR_I32, .shape = four, .key = 1), "i32, expected a float");
  says(&w, tsr_normal(w.s, .dtype = (tsr_dtype)77, .shape = four, .key = 1),
       "tsr_normal: 77 is not a dtype;");
  says(&w, tsr_random_bits(w.s, .shape = TSR_SHAPE(-4), .key = 1),
       "tsr_random_bits: dim 0 of shape [-4] is -4");
  says(&w, tsr_random_bits(w.s, .shape = four, .on = tsr_on(w.mesh, "x,y"), .key = 1),
       "tsr_random_bits: ");
  says(&w, tsr_uniform(w.s, .keys = KEYS(1, 2), .shape = four, .on = tsr_on(w.mesh, "x,y,-")),
       "tsr_uniform: ");
  CHECK(tsr_is_inert(tsr_random_split(NULL, 2)) &&
        tsr_is_inert(tsr_random_fold_in_at(NULL, tsr_operand_int(1), NULL)));
  CHECK(tsr_is_inert(tsr_random_key(NULL, 2)));
  CHECK(tsr_is_inert(tsr_random_fold_in_at(KEYS(1, 2), (tsr_operand){ 0 }, NULL)));
  closed(&w);
}

TEST(what_is_no_range_is_told)
{
  world w = opened();
  const tsr_shape four = TSR_SHAPE(4);
  says(&w, tsr_uniform(w.s, .shape = four, .low = 1, .key = 1),
       "TSR_EARG: tsr_uniform: the range is -1 long; give a low end below the high end");
  says(&w, tsr_uniform(w.s, .shape = four, .low = 2, .high = 2, .key = 1),
       "the range is 0 long; give a low");
  says(&w, tsr_uniform(w.s, .shape = four, .low = NAN, .high = 2, .key = 1),
       "the range is nan long;");
  says(&w, tsr_uniform(w.s, .shape = four, .low = -INFINITY, .high = 2, .key = 1),
       "tsr_uniform: the range is inf long, expected a finite range; draw from a smaller range and "
       "scale the result");
  says(&w, tsr_uniform(w.s, .shape = four, .low = -DBL_MAX, .high = DBL_MAX, .key = 1),
       "expected a finite range");
  says(&w,
       tsr_uniform(w.s, .dtype = TSR_F16, .shape = four, .low = -40000, .high = 40000, .key = 1),
       "TSR_EARG: tsr_uniform: the range is 80000 long, expected a finite range");
  says(&w, tsr_uniform(w.s, .dtype = TSR_F32, .shape = four, .low = 1, .high = 1 + 1e-9, .key = 1),
       "TSR_EARG: tsr_uniform: the range is ");
  closed(&w);
}

/* ---- without a key ---- */

/* Every macro that takes the arguments of a draw, given some: none that is a key, and key 0. */
#define DRAWS(W, X)                                                                           \
  tsr_random_bits((W)->s, X), tsr_uniform((W)->s, X), tsr_normal((W)->s, X),                  \
      tsr_exponential((W)->s, 2, X), tsr_poisson((W)->s, 3, X), tsr_randint((W)->s, 0, 9, X), \
      tsr_truncated_normal((W)->s, -1, 1, X), tsr_gamma((W)->s, 2, X),                        \
      tsr_bernoulli((W)->s, 0.5, X),                                                          \
      tsr_categorical(tsr_full((W)->s, 1, TSR_F64, TSR_SHAPE(5), (tsr_sharding){ 0 }), 0, X), \
      tsr_permutation((W)->s, 5, X), tsr_shuffle(tsr_arange((W)->s, .stop = 5), 0, X),        \
      tsr_initial((W)->s, TSR_HE, TSR_INITIAL_NORMAL, .shape = TSR_SHAPE(2, 2), X)

/* How many macros of a header fill in the arguments of a draw. */
static int draws_in(const char *header)
{
  FILE *file = fopen(test_file(header), "r");
  char line[256];
  int count = 0;
  CHECK(file);
  while (fgets(line, sizeof line, file)) count += strstr(line, "TSR_RANDOM_(#") != NULL;
  fclose(file);
  return count;
}

TEST(a_draw_without_a_key_is_an_error)
{
  world w = opened();
  tsr_array *const keyless[] = { DRAWS(&w, .stream = 1) };
  int count = (int)(sizeof keyless / sizeof *keyless);
  CHECK_I64(count,
            draws_in("../include/tessera/random.h") + draws_in("../include/tessera/train.h"));
  for (int i = 0; i < count; i++) CHECK(tsr_is_inert(keyless[i]));
  CHECK_STR_HAS(tsr_message(w.s), "TSR_EARG: tsr_random_bits: there is no key");
  CHECK_STR_HAS(tsr_message(w.s), "give .key = 7, or .keys of tsr_random_key");
  tsr_scope_clear(w.s);
  tsr_array *x = tsr_arange(w.s, .stop = 5);
  says(&w, tsr_choice(x, 3), "tsr_choice: there is no key");
  says(&w, tsr_choice(x, 3, .by = { .stream = 1 }), "tsr_choice: there is no key");
  says(&w, tsr_uniform(w.s, .shape = TSR_SHAPE(2)), "tsr_uniform: there is no key");
  says(&w, tsr_permutation(w.s, 5, .on = { 0 }), "tsr_permutation: there is no key");
  tsr_random_args none = { .size = sizeof none, .shape = TSR_SHAPE(2) };
  says(&w, tsr_normal_at(w.s, &none, TSR_HERE), "tsr_normal: there is no key");
  /* 0 is a key as others are, where it is given. */
  tsr_array *const zero[] = { DRAWS(&w, .key = 0), tsr_choice(x, 3, .by = { .key = 0 }) };
  tsr_array *const made[] = { DRAWS(&w, .keys = tsr_random_key(w.s, 0)),
                              tsr_choice(x, 3, .by = { .keys = tsr_random_key(w.s, 0) }) };
  for (int i = 0; i <= count; i++) same(&w, zero[i], made[i]);
  closed(&w);
}

TEST(named_arguments_are_found_in_their_text)
{
  CHECK(tsr_argument_is_named(".key = 0", "key") && tsr_argument_is_named(".a = 1, .key=0", "key"));
  CHECK(tsr_argument_is_named(".shape = s,\n  .key\t= 0,", "key"));
  CHECK(!tsr_argument_is_named(".keys = k", "key") && !tsr_argument_is_named("", "key"));
  CHECK(!tsr_argument_is_named(".stream = of.key == 3", "key"));
  CHECK(!tsr_argument_is_named(".a_key = 0", "key") && !tsr_argument_is_named(NULL, "key"));
}
