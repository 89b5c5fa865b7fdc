/* A place that a call is given binds: the result lies there, says so before it is evaluated, and
 * stays there whatever it is used with. Over all calls of the headers that take one: one that is
 * not in the table below fails. */
#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/mesh_fixture.h"
#include "support/told.h"
#include "tessera.h"

enum { SIDE = 16 }; /* of matrices, and the length of lines */

static double numbers[SIDE * SIDE];

static tsr_array *unplaced(fixture *f)
{
  return tsr_put(f->s, numbers, TSR_F64, TSR_SHAPE(SIDE, SIDE), (tsr_sharding){ 0 });
}

/* ---- the calls ------------------------------------------------------------------------------- */

#define CALL(name, formula)                           \
  static tsr_array *name(fixture *f, tsr_sharding on) \
  {                                                   \
    tsr_shape shape = TSR_SHAPE(SIDE, SIDE);          \
    (void)f, (void)on, (void)shape;                   \
    return formula;                                   \
  }
#define DRAW .key = 1, .shape = shape, .on = on

CALL(by_put, tsr_put(f->s, numbers, TSR_F64, shape, on))
CALL(by_adopt, tsr_adopt(f->s, numbers, .dtype = TSR_F64, .shape = shape, .on = on))
CALL(by_full, tsr_full(f->s, 2, TSR_F64, shape, on))
CALL(by_iota, tsr_iota(f->s, TSR_F64, shape, 1, on))
CALL(by_abstract, tsr_abstract(f->s, TSR_F64, shape, on))
CALL(by_reshard, tsr_reshard(unplaced(f), on))
CALL(by_constrain, tsr_constrain(tsr_exp(unplaced(f)), on))
CALL(by_eye, tsr_eye(f->s, TSR_F64, shape, 1, on))
CALL(by_arange, tsr_arange(f->s, .stop = SIDE, .on = on))
CALL(by_linspace, tsr_linspace(f->s, 0, 1, SIDE, .on = on))
CALL(by_bits, tsr_random_bits(f->s, DRAW))
CALL(by_uniform, tsr_uniform(f->s, DRAW))
CALL(by_range, tsr_uniform(f->s, DRAW, .low = 2, .high = 3))
CALL(by_randint, tsr_randint(f->s, 0, 9, DRAW))
CALL(by_normal, tsr_normal(f->s, DRAW))
CALL(by_truncated, tsr_truncated_normal(f->s, -1, 1, DRAW))
CALL(by_exponential, tsr_exponential(f->s, 2, DRAW))
CALL(by_poisson, tsr_poisson(f->s, 3, DRAW))
CALL(by_rates, tsr_poisson(f->s, tsr_abs(unplaced(f)), .key = 1, .on = on))
CALL(by_gamma, tsr_gamma(f->s, 2, DRAW))
CALL(by_gamma_below, tsr_gamma(f->s, 0.5, DRAW))
CALL(by_bernoulli, tsr_bernoulli(f->s, 0.5, DRAW))
CALL(by_permutation, tsr_permutation(f->s, SIDE, .key = 1, .on = on))
CALL(by_shuffle, tsr_shuffle(unplaced(f), 0, .key = 1, .on = on))
CALL(by_initial_uniform, tsr_initial(f->s, TSR_HE, TSR_INITIAL_UNIFORM, DRAW))
CALL(by_initial_normal, tsr_initial(f->s, TSR_GLOROT, TSR_INITIAL_NORMAL, DRAW))
CALL(by_initial_truncated, tsr_initial(f->s, TSR_LECUN, TSR_INITIAL_TRUNCATED, DRAW))
CALL(by_global, tsr_to_global(unplaced(f), on))
CALL(by_process_data, tsr_from_process_data(f->s, numbers, .dtype = TSR_F64, .shape = shape,
                                            .on = on, .whole = shape))

static tsr_array *by_categorical(fixture *f, tsr_sharding on)
{
  return tsr_categorical(tsr_reshape(tsr_exp(unplaced(f)), TSR_SHAPE(SIDE, SIDE, 1)), 2, .key = 1,
                         .on = on);
}

static tsr_array *by_choice(fixture *f, tsr_sharding on)
{
  tsr_random_args by = { .size = sizeof by, .key = 1, .on = on };
  return tsr_choice(unplaced(f), SIDE, .by = by);
}

static tsr_array *by_keys(fixture *f, tsr_sharding on)
{
  tsr_array *keys = tsr_random_split(tsr_random_key(f->s, 1), SIDE);
  return tsr_normal(f->s, .keys = keys, .shape = TSR_SHAPE(SIDE), .on = on);
}

static tsr_array *by_shards(fixture *f, tsr_sharding on)
{
  const void *shards[8];
  for (int i = 0; i < 8; i++) shards[i] = numbers;
  return tsr_from_shards(f->s, shards, .count = 8, .dtype = TSR_F64, .shape = TSR_SHAPE(SIDE, SIDE),
                         .on = on);
}

static tsr_status zeros(const tsr_box *box, void *out, void *user)
{
  (void)user;
  memset(out, 0, (size_t)(box->size[0] * box->size[1]) * sizeof(double));
  return TSR_OK;
}

static tsr_array *by_callback(fixture *f, tsr_sharding on)
{
  return tsr_from_callback(f->s, zeros, .dtype = TSR_F64, .shape = TSR_SHAPE(SIDE, SIDE), .on = on);
}

static tsr_array *by_dlpack(fixture *f, tsr_sharding on)
{
  tsr_dl_managed *tensor = NULL;
  CHECK_STATUS(tsr_to_dlpack(unplaced(f), 0, &tensor), TSR_OK, f->s);
  return tsr_from_dlpack(f->s, tensor, .on = on);
}

static tsr_array *by_dlpack_versioned(fixture *f, tsr_sharding on)
{
  tsr_dl_versioned *tensor = NULL;
  CHECK_STATUS(tsr_to_dlpack_versioned(unplaced(f), 0, &tensor), TSR_OK, f->s);
  return tsr_from_dlpack_versioned(f->s, tensor, .on = on);
}

static tsr_array *by_npy(fixture *f, tsr_sharding on)
{
  CHECK_STATUS(tsr_save_npy(unplaced(f), test_tmp("on.npy")), TSR_OK, f->s);
  return tsr_load_npy(f->s, test_tmp("on.npy"), on);
}

static tsr_array *by_npz(fixture *f, tsr_sharding on)
{
  CHECK_STATUS(tsr_save_npz(f->s, test_tmp("on.npz"), { "x", unplaced(f) }), TSR_OK, f->s);
  return tsr_npz_array(tsr_load_npz(f->s, test_tmp("on.npz")), "x", on);
}

static tsr_array *by_pipeline(fixture *f, tsr_sharding on)
{
  CHECK_STATUS(tsr_save_npz(f->s, test_tmp("on.npz"), { "x", unplaced(f) }), TSR_OK, f->s);
  tsr_source *rows = tsr_source_npz(f->s, test_tmp("on.npz"));
  tsr_pipeline *p = tsr_pipeline_open(rows, .batch_size = SIDE,
                                      .fields = { { .name = "x", .on = on } }, .threads = -1);
  return tsr_batch_field(tsr_pipeline_next(p), "x");
}

typedef struct call {
  const char *name;
  int rank;
  tsr_array *(*make)(fixture *f, tsr_sharding on);
  const char *elsewhere; /* what has no array as its result, and where it is looked at */
} call;

static const call calls[] = {
  { "tsr_put_at", 2, by_put, NULL },
  { "tsr_adopt_at", 2, by_adopt, NULL },
  { "tsr_from_shards_at", 2, by_shards, NULL },
  { "tsr_from_callback_at", 2, by_callback, NULL },
  { "tsr_full_at", 2, by_full, NULL },
  { "tsr_iota_at", 2, by_iota, NULL },
  { "tsr_abstract_at", 2, by_abstract, NULL },
  { "tsr_reshard_at", 2, by_reshard, NULL },
  { "tsr_constrain_at", 2, by_constrain, NULL },
  { "tsr_eye_at", 2, by_eye, NULL },
  { "tsr_arange_at", 1, by_arange, NULL },
  { "tsr_linspace_at", 1, by_linspace, NULL },
  { "tsr_random_bits_at", 2, by_bits, NULL },
  { "tsr_uniform_at", 2, by_uniform, NULL },
  { "tsr_uniform_at", 2, by_range, NULL },
  { "tsr_randint_at", 2, by_randint, NULL },
  { "tsr_normal_at", 2, by_normal, NULL },
  { "tsr_normal_at", 2, by_keys, NULL },
  { "tsr_truncated_normal_at", 2, by_truncated, NULL },
  { "tsr_exponential_at", 2, by_exponential, NULL },
  { "tsr_poisson_at", 2, by_poisson, NULL },
  { "tsr_poisson_at", 2, by_rates, NULL },
  { "tsr_gamma_at", 2, by_gamma, NULL },
  { "tsr_gamma_at", 2, by_gamma_below, NULL },
  { "tsr_bernoulli_at", 2, by_bernoulli, NULL },
  { "tsr_categorical_at", 2, by_categorical, NULL },
  { "tsr_permutation_at", 1, by_permutation, NULL },
  { "tsr_shuffle_at", 2, by_shuffle, NULL },
  { "tsr_choice_at", 2, by_choice, NULL },
  { "tsr_initial_at", 2, by_initial_uniform, NULL },
  { "tsr_initial_at", 2, by_initial_normal, NULL },
  { "tsr_initial_at", 2, by_initial_truncated, NULL },
  { "tsr_to_global_at", 2, by_global, NULL },
  { "tsr_from_process_data_at", 2, by_process_data, NULL },
  { "tsr_from_dlpack_with", 2, by_dlpack, NULL },
  { "tsr_from_dlpack_versioned_with", 2, by_dlpack_versioned, NULL },
  { "tsr_load_npy_at", 2, by_npy, NULL },
  { "tsr_npz_array_at", 2, by_npz, NULL },
  { "tsr_pipeline_open_with", 2, by_pipeline, NULL },
  { "tsr_checkpoint_frame_at", 0, NULL, "a frame: checkpoint_test" },
  { "tsr_frame_read_csv_with", 0, NULL, "a frame: csv_test" },
  { "tsr_frame_read_json_with", 0, NULL, "a frame: json_test" },
  { "tsr_frame_from_arrow_with", 0, NULL, "a frame: arrow_test" },
  { "tsr_frame_scatter_at", 0, NULL, "a frame: frame_rows_test" },
  { "tsr_visualize_sharding_with", 0, NULL, "a drawing" },
  { "tsr_visualize_with", 0, NULL, "a drawing" },
};
enum { CALLS = sizeof calls / sizeof *calls };

/* ---- none is missing ------------------------------------------------------------------------- */

/* All headers in one text. */
static char *read_headers(void)
{
  glob_t found;
  char *all = strdup("");
  CHECK(!glob(test_file("../include/tessera/*.h"), 0, NULL, &found));
  for (size_t i = 0; i < found.gl_pathc; i++) {
    char *text = test_read(found.gl_pathv[i], NULL);
    all = realloc(all, strlen(all) + strlen(text) + 1);
    CHECK(all);
    strcat(all, text);
    free(text);
  }
  globfree(&found);
  return all;
}

/* Whether a struct of options has a place in it, or has such a struct in it. */
static bool has_place(const char *headers, const char *type, size_t length)
{
  char begin[128];
  snprintf(begin, sizeof begin, "typedef struct %.*s {", (int)length, type);
  const char *body = strstr(headers, begin), *end = body ? strstr(body, "\n} ") : NULL;
  if (!end) return false;
  char *text = strndup(body + strlen(begin), (size_t)(end - body) - strlen(begin));
  bool has = strstr(text, "\n  tsr_sharding ") != NULL;
  for (const char *at = text; !has && (at = strstr(at, "\n  tsr_")); at++) {
    size_t name = strcspn(at + 3, " ;");
    if (at[3 + name] == ' ') has = has_place(headers, at + 3, name);
  }
  free(text);
  return has;
}

/* Whether one of the parameters is a place, or a struct that has one. */
static bool takes_place(const char *headers, const char *parameters)
{
  if (strstr(parameters, "(tsr_sharding ") || strstr(parameters, " tsr_sharding ")) {
    const char *at = strstr(parameters, "tsr_sharding ");
    return at[strlen("tsr_sharding ")] != '*';
  }
  for (const char *at = parameters; (at = strstr(at, "const tsr_")); at++) {
    const char *type = at + strlen("const ");
    size_t length = strcspn(type, " ");
    if (strncmp(type, "tsr_sharding", length) && has_place(headers, type, length)) return true;
  }
  return false;
}

static bool is_known(const char *name, size_t length)
{
  for (int i = 0; i < CALLS; i++)
    if (strlen(calls[i].name) == length && !strncmp(calls[i].name, name, length)) return true;
  return false;
}

TEST(no_call_is_missing)
{
  char *headers = read_headers();
  int met = 0;
  for (char *at = headers; (at = strstr(at, "\nTSR_API ")); at++) {
    char *open = strchr(at, '('), *end = strchr(at, ';');
    char *name = open;
    while (isalnum((unsigned char)name[-1]) || name[-1] == '_') name--;
    char *parameters = strndup(open, (size_t)(end - open));
    if (takes_place(headers, parameters)) {
      if (!is_known(name, (size_t)(open - name)))
        FAIL("%.*s takes a place and is not in the table", (int)(open - name), name);
      met++;
    }
    free(parameters);
  }
  CHECK(met >= 35);
  free(headers);
}

/* ---- it binds -------------------------------------------------------------------------------- */

static void check_type(const call *c, tsr_array *a, tsr_sharding on, const char *when)
{
  char spec[64];
  tsr_sharding_text(&on, c->rank, spec, sizeof spec);
  const char *type = tsr_type_of(a), *at = type ? strchr(type, '@') : NULL;
  if (!at || strcmp(at + 1, spec) != 0)
    FAIL("%s on %s is %s %s", c->name, spec, type ? type : "inert", when);
}

static void check_call(fixture *f, const call *c, const char *spec, const char *beside)
{
  tsr_scope *outer = f->s;
  f->s = tsr_scope_open(outer);
  tsr_sharding on = tsr_on(f->mesh, spec);
  tsr_array *a = c->make(f, on);
  CHECK_STATUS(tsr_scope_status(f->s), TSR_OK, f->s);
  check_type(c, a, on, "before it is evaluated");
  told_of(a, c->name);
  if (c->make != by_abstract) {
    /* A user that would rather have it elsewhere. */
    tsr_shape shape = tsr_shape_of(a);
    tsr_array *other = tsr_full(f->s, 1, TSR_F64, shape, tsr_on(f->mesh, beside));
    tsr_array *both[] = { tsr_add(tsr_cast(a, TSR_F64), other), a };
    CHECK_STATUS(tsr_eval(both, 2), TSR_OK, f->s);
    check_type(c, a, on, "afterwards");
  }
  tsr_scope_close(f->s);
  f->s = outer;
}

TEST(places_bind)
{
  static const char *const specs[3][6] = { { NULL },
                                           { "", "x", "y", "x+y", "y+x" },
                                           { "", "x", "-,x", "y,x", "-,x+y", "y" } };
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  for (int i = 0; i < CALLS; i++)
    for (int k = 0; k < 6 && calls[i].make && specs[calls[i].rank][k]; k++)
      check_call(&f, &calls[i], specs[calls[i].rank][k], specs[calls[i].rank][(k + 2) % 5]);
  close_fixture(&f);
}

/* All that a step of training moves of weights that are whole on every device is the sum of their
 * gradients: to the devices that add them up, and to all. */
static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mean(tsr_square(tsr_matmul(in[1], in[0])));
}

TEST(weights_that_are_whole_stay_so)
{
  fixture f = open_fixture("cpu:8", "x=8");
  tsr_array *w = tsr_initial(f.s, TSR_HE, TSR_INITIAL_NORMAL, .key = 1, .dtype = TSR_F32,
                             .shape = TSR_SHAPE(64, 128), .on = tsr_on(f.mesh, ""));
  tsr_array *x = tsr_normal(f.s, .key = 2, .dtype = TSR_F32, .shape = TSR_SHAPE(800, 64),
                            .on = tsr_on(f.mesh, "x"));
  tsr_array *slope = tsr_call(tsr_grad(tsr_function_make(f.s, loss)), w, x);
  tsr_array *next = tsr_item(tsr_sgd(w, slope, tsr_sgd_state(w), .rate = TSR_OPERAND(0.1)), 0);
  CHECK_STATUS(tsr_eval(&next, 1), TSR_OK, f.s);
  CHECK_I64(tsr_last_run(f.s).bytes_counted, 2 * 7 * 64 * 128 * 4);
  CHECK_STR(tsr_type_of(next), "f32[64,128]@(-,-)");
  close_fixture(&f);
}
