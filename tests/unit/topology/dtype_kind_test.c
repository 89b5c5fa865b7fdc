/* A dtype of a kind that arrays do not have, as a new row of dtypes.def is at first: each call that
 * is given one refuses it by one message. This program has a dtype table of its own
 * (TESSERA_TEST_KIND), with such a row. */
#include <string.h>

#include "harness.h"
#include "tessera.h"
#include "topology/topology.h"

#define TYPE ((tsr_dtype)15) /* the row of dtypes.def */

/* Arguments for the calls. */
typedef struct world {
  tsr_scope *s;
  tsr_array *x;       /* f64[2,2] */
  tsr_source *source; /* fields "x" of i64 and "image" of u8[8] */
} world;

static const double numbers[4] = { 1, 2, 3, 4 };

static tsr_status fill_part(const tsr_box *box, void *out, void *user)
{
  (void)box;
  (void)out;
  (void)user;
  return TSR_OK;
}

static void release_nothing(void *data, void *user)
{
  (void)data;
  (void)user;
}

static tsr_status make_record(int64_t at, void *const *out, void *user)
{
  (void)at;
  (void)out;
  (void)user;
  return TSR_OK;
}

static tsr_status next_record(void *const *out, bool *ended, void *user)
{
  (void)out;
  (void)user;
  *ended = true;
  return TSR_OK;
}

static tsr_status turn_record(const tsr_record *record, void *user)
{
  (void)record;
  (void)user;
  return TSR_OK;
}

static tsr_status turn_part(const tsr_record *record, int64_t part, void *user)
{
  (void)part;
  return turn_record(record, user);
}

static int64_t count_parts(const tsr_record *record, void *user)
{
  (void)record;
  (void)user;
  return 0;
}

#define FIELDS                \
  {                           \
    {                         \
      "y", TYPE, TSR_SHAPE(2) \
    }                         \
  }
#define OPTIONS(type, ...) (&(type){ .size = sizeof(type), __VA_ARGS__ })
#define DRAW OPTIONS(tsr_random_args, .key = 1, .dtype = TYPE, .shape = TSR_SHAPE(2, 2))
#define PRODUCT OPTIONS(tsr_product_args, .a = w->x, .b = w->x, .dtype = TYPE)
#define REDUCED OPTIONS(tsr_reduce_args, .x = w->x, .dtype = TYPE)
#define NOWHERE ((tsr_sharding){ 0 })

/* The calls, with the arguments of each. */
#define CALLS(CALL)                                                                                \
  CALL(tsr_put_at, w->s, numbers, TYPE, TSR_SHAPE(2), NOWHERE)                                     \
  CALL(tsr_adopt_at, w->s,                                                                         \
       OPTIONS(tsr_adopt_args, .data = (double[8]){ 0 }, .dtype = TYPE, .shape = TSR_SHAPE(2),     \
               .release = release_nothing))                                                        \
  CALL(tsr_from_shards_at, w->s,                                                                   \
       OPTIONS(tsr_shards_args, .shards = (const void *[]){ numbers }, .count = 1, .dtype = TYPE,  \
               .shape = TSR_SHAPE(2)))                                                             \
  CALL(tsr_from_callback_at, w->s,                                                                 \
       OPTIONS(tsr_callback_args, .fill = fill_part, .dtype = TYPE, .shape = TSR_SHAPE(2)))        \
  CALL(tsr_from_process_data_at, w->s,                                                             \
       OPTIONS(tsr_process_data_args, .data = numbers, .dtype = TYPE, .shape = TSR_SHAPE(2)))      \
  CALL(tsr_full_at, w->s, TSR_OPERAND(1), TYPE, TSR_SHAPE(2), NOWHERE)                             \
  CALL(tsr_iota_at, w->s, TYPE, TSR_SHAPE(2), 0, NOWHERE)                                          \
  CALL(tsr_eye_at, w->s, TYPE, TSR_SHAPE(2, 2), 0, NOWHERE)                                        \
  CALL(tsr_abstract_at, w->s, TYPE, TSR_SHAPE(2), NOWHERE)                                         \
  CALL(tsr_arange_at, w->s, OPTIONS(tsr_steps_args, .stop = 4, .dtype = TYPE))                     \
  CALL(tsr_linspace_at, w->s, OPTIONS(tsr_steps_args, .stop = 4, .count = 3, .dtype = TYPE))       \
  CALL(tsr_cast_at, w->x, TYPE)                                                                    \
  CALL(tsr_one_hot_at, tsr_cast(w->x, TSR_I64), 3, TYPE)                                           \
  CALL(tsr_min_at, REDUCED)                                                                        \
  CALL(tsr_max_at, REDUCED)                                                                        \
  CALL(tsr_argmin_at, REDUCED)                                                                     \
  CALL(tsr_argmax_at, REDUCED)                                                                     \
  CALL(tsr_any_at, REDUCED)                                                                        \
  CALL(tsr_all_at, REDUCED)                                                                        \
  CALL(tsr_count_at, REDUCED)                                                                      \
  CALL(tsr_norm_at, REDUCED)                                                                       \
  CALL(tsr_ptp_at, REDUCED)                                                                        \
  CALL(tsr_logsumexp_at, REDUCED)                                                                  \
  CALL(tsr_sum_at, REDUCED)                                                                        \
  CALL(tsr_prod_at, REDUCED)                                                                       \
  CALL(tsr_mean_at, REDUCED)                                                                       \
  CALL(tsr_var_at, REDUCED)                                                                        \
  CALL(tsr_std_at, REDUCED)                                                                        \
  CALL(tsr_matmul_at, PRODUCT)                                                                     \
  CALL(tsr_dot_at, PRODUCT)                                                                        \
  CALL(tsr_inner_at, PRODUCT)                                                                      \
  CALL(tsr_outer_at, PRODUCT)                                                                      \
  CALL(tsr_vdot_at, PRODUCT)                                                                       \
  CALL(tsr_kron_at, PRODUCT)                                                                       \
  CALL(tsr_tensordot_at, OPTIONS(tsr_tensordot_args, .a = w->x, .b = w->x, .dtype = TYPE))         \
  CALL(tsr_einsum_at, OPTIONS(tsr_einsum_args, .text = "ij,jk->ik",                                \
                              .arrays = (tsr_array *[]){ w->x, w->x }, .count = 2, .dtype = TYPE)) \
  CALL(tsr_conv_at, OPTIONS(tsr_conv_args, .x = tsr_reshape(w->x, TSR_SHAPE(1, 4, 1)),             \
                            .kernel = tsr_reshape(w->x, TSR_SHAPE(2, 1, 2)), .dtype = TYPE))       \
  CALL(tsr_random_bits_at, w->s, DRAW)                                                             \
  CALL(tsr_uniform_at, w->s, DRAW)                                                                 \
  CALL(tsr_randint_at, w->s, 0, 9, DRAW)                                                           \
  CALL(tsr_normal_at, w->s, DRAW)                                                                  \
  CALL(tsr_truncated_normal_at, w->s, -1, 1, DRAW)                                                 \
  CALL(tsr_exponential_at, w->s, 1, DRAW)                                                          \
  CALL(tsr_poisson_at, w->s, TSR_OPERAND(2), DRAW)                                                 \
  CALL(tsr_gamma_at, w->s, TSR_OPERAND(2), DRAW)                                                   \
  CALL(tsr_bernoulli_at, w->s, TSR_OPERAND(0.5), DRAW)                                             \
  CALL(tsr_categorical_at, w->x, 0, DRAW)                                                          \
  CALL(tsr_permutation_at, w->s, 4, DRAW)                                                          \
  CALL(tsr_shuffle_at, w->x, 0, DRAW)                                                              \
  CALL(tsr_choice_at, OPTIONS(tsr_choice_args, .x = w->x, .count = 1,                              \
                              .by = { .size = sizeof(tsr_random_args), .key = 1, .dtype = TYPE })) \
  CALL(tsr_initial_at, w->s, TSR_HE, TSR_INITIAL_NORMAL, DRAW)                                     \
  CALL(tsr_source_memory_at, w->s, 2, &(tsr_source_field){ "y", TYPE, TSR_SCALAR, numbers }, 1)    \
  CALL(tsr_source_ragged_at, w->s, 1,                                                              \
       &(tsr_ragged_field){ "y", TYPE, TSR_SCALAR, numbers, (int64_t[]){ 0, 2 } }, 1)              \
  CALL(tsr_source_binary_with, w->s, "no.bin", OPTIONS(tsr_binary_args, .fields = FIELDS))         \
  CALL(tsr_source_json_with, w->s, "no.json", OPTIONS(tsr_json_args, .fields = FIELDS))            \
  CALL(tsr_source_tar_with, w->s, "no.tar", OPTIONS(tsr_tar_args, .fields = FIELDS))               \
  CALL(tsr_source_tfrecord_with, w->s, "no.tfrecord",                                              \
       OPTIONS(tsr_tfrecord_args, .fields = FIELDS))                                               \
  CALL(tsr_source_callback_with, w->s,                                                             \
       OPTIONS(tsr_source_callback_args, .count = 1, .fn = make_record, .fields = FIELDS))         \
  CALL(tsr_source_stream_with, w->s,                                                               \
       OPTIONS(tsr_stream_args, .fn = next_record, .fields = FIELDS))                              \
  CALL(tsr_source_map_with,                                                                        \
       OPTIONS(tsr_map_args, .source = w->source, .fn = turn_record, .fields = FIELDS))            \
  CALL(tsr_source_flat_map_with, OPTIONS(tsr_flat_map_args, .source = w->source, .fn = turn_part,  \
                                         .count = count_parts, .fields = FIELDS))                  \
  CALL(tsr_source_one_hot_with,                                                                    \
       OPTIONS(tsr_one_hot_args, .source = w->source, .field = "x", .classes = 3, .dtype = TYPE))  \
  CALL(tsr_source_cast_with,                                                                       \
       OPTIONS(tsr_field_cast_args, .source = w->source, .field = "x", .dtype = TYPE))             \
  CALL(tsr_source_images_with,                                                                     \
       OPTIONS(tsr_image_args, .source = w->source, .height = 2, .width = 2, .dtype = TYPE))

#define CALL(name, ...)             \
  static void call_##name(world *w) \
  {                                 \
    name(__VA_ARGS__, TSR_HERE);    \
  }
CALLS(CALL)
#undef CALL

typedef struct call {
  const char *name;
  void (*make)(world *w);
} call;

static const call calls[] = {
#define CALL(name, ...) { #name, call_##name },
  CALLS(CALL)
#undef CALL
};

enum { COUNT = sizeof calls / sizeof *calls };

static void open_world(world *w, tsr_runtime *rt)
{
  static const unsigned char image[8] = { 0 };
  static const int64_t whole[1] = { 1 };
  w->s = tsr_scope_open(rt);
  w->x = tsr_put(w->s, numbers, TSR_F64, TSR_SHAPE(2, 2), NOWHERE);
  w->source = tsr_source_memory(w->s, 1, { "x", TSR_I64, TSR_SCALAR, whole },
                                { "image", TSR_U8, TSR_SHAPE(8), image });
  CHECK_STATUS(tsr_scope_status(w->s), TSR_OK, w->s);
}

/* A call refuses the dtype by the one message, or says that it takes no dtype. */
TEST(each_call_refuses_a_dtype_of_a_new_kind)
{
  tsr__error error = { .status = TSR_OK };
  CHECK_I64(tsr__dtype_check(TYPE, &error), TSR_EDTYPE);
  CHECK(strstr(error.text, "no array has the dtype test8, of the kind test"));
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  int refused = 0;
  for (int i = 0; i < COUNT; i++) {
    world w;
    open_world(&w, rt);
    calls[i].make(&w);
    if (!tsr_scope_status(w.s)) FAIL("%s takes the dtype", calls[i].name);
    const char *said = tsr_message(w.s);
    bool one = strstr(said, error.text) && tsr_scope_status(w.s) == TSR_EDTYPE;
    if (!one && !strstr(said, "takes no .dtype")) FAIL("%s: %s", calls[i].name, said);
    refused += one;
    tsr_scope_close(w.s);
  }
  CHECK(refused > COUNT / 2);
  tsr_runtime_close(rt);
}

/* Calls that name a dtype and make nothing of it. */
static bool names_it(const char *name)
{
  return !strcmp(name, "tsr_dtype_name") || !strcmp(name, "tsr_dtype_size") ||
         !strcmp(name, "tsr_type_text");
}

/* Public functions that take a dtype, by themselves or in a struct of arguments, as the headers
 * have them. */
TEST(each_call_that_takes_a_dtype_is_made)
{
  static const char *const takers[] = {
#include "dtype_calls.inc"
  };
  for (size_t k = 0; k < sizeof takers / sizeof *takers; k++) {
    bool made = names_it(takers[k]);
    for (int i = 0; i < COUNT; i++) made = made || !strcmp(calls[i].name, takers[k]);
    if (!made) FAIL("no call of %s", takers[k]);
  }
}

TEST(only_its_row_has_the_kind)
{
  CHECK_STR(tsr_dtype_name(TYPE), "test8");
  CHECK(!tsr__dtype_known(TYPE));
  CHECK(!tsr__dtype_is_real(TYPE) && !tsr__dtype_integer(TYPE) && !tsr__dtype_has_bits(TYPE));
  TSR__FOR_DTYPES(dtype)
  CHECK(dtype != (int)TYPE);
}
