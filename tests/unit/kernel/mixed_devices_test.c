/* Devices of two kinds in one runtime: how they are named, that results are those of CPU devices
 * bit for bit wherever arrays lie, and which bytes go between the kinds. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/fallback/fallback.h"
#include "support/empty_devices.h"
#include "support/late_devices.h"
#include "tessera.h"

/* The kinds of this test, in the place of the library's. */
static const char *const names[] = { "cpu", "late", "empty", NULL };

const char *const *tsr__kind_names(void)
{
  return names;
}

tsr_status tsr__kind_open(tsr_runtime *rt, const char *kind, int first, int count)
{
  if (strcmp(kind, "late") == 0) return late_open(rt, first, count);
  return strcmp(kind, "empty") == 0 ? empty_open(rt, first, count) : TSR_OK;
}

/* ---- names ----------------------------------------------------------------------------------- */

TEST(kinds_have_their_devices_in_the_order_of_the_text)
{
  static const struct {
    const char *text, *kinds; /* a letter a device */
  } rows[] = {
    { "cpu:4,late:2", "ccccll" }, { "late:2,cpu:3", "llccc" }, { "late", "l" },
    { "empty:4", "eeee" },        { "cpu,late", "cl" },        { "empty,cpu:2", "ecc" }
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_runtime *rt = tsr_runtime_open(rows[i].text);
    CHECK_STATUS(tsr_runtime_status(rt), TSR_OK, NULL);
    CHECK_I64(tsr_device_count(rt), (int64_t)strlen(rows[i].kinds));
    for (int d = 0; d < tsr_device_count(rt); d++)
      CHECK_I64(tsr_device_kind(rt, d)[0], rows[i].kinds[d]);
    CHECK_STR(tsr_device_kind(rt, tsr_device_count(rt)), "");
    CHECK_STR(tsr_device_kind(rt, -1), "");
    tsr_runtime_close(rt);
  }
  CHECK_STR(tsr_device_kind(NULL, 0), "");
}

TEST(bad_kinds_say_what_is_wrong)
{
  static const struct {
    const char *text, *message;
  } rows[] = {
    { "cpu:4,gpu:2",
      "tsr_runtime_open: devices \"cpu:4,gpu:2\": there is no device kind 'gpu', only "
      "cpu, late, empty; write \"cpu:8\" for 8 virtual devices" },
    { "cpu:4,late:0",
      "tsr_runtime_open: devices \"cpu:4,late:0\": '0' is not a device count; write a "
      "number from 1 to 4096 after \"late:\"" },
    { "late:2,cpu:4,late:1",
      "tsr_runtime_open: devices \"late:2,cpu:4,late:1\": the kind late is named "
      "twice; write it once, with the count of all its devices" },
    { "cpu:4096,late:1", "tsr_runtime_open: devices \"cpu:4096,late:1\": these are more than 4096 "
                         "devices of 4 kinds, the most that a runtime has; name fewer" },
    { "cpu:1,late:1,empty:1",
      "tsr_runtime_open: the devices are of 2 kinds beside cpu, expected one "
      "kind beside cpu; open a runtime for each" },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_runtime *rt = tsr_runtime_open(rows[i].text);
    CHECK(tsr_runtime_status(rt) != TSR_OK);
    CHECK_STR(tsr_runtime_message(rt), rows[i].message);
    tsr_runtime_close(rt);
  }
}

/* The number of devices by another way of reading; 0: the text is bad. */
static int read_otherwise(char *text)
{
  int all = 0, seen[3] = { 0 };
  for (char *part = text, *end = text; end; part = end + 1) {
    int kind = 0;
    end = strchr(part, ',');
    if (end) *end = '\0';
    char *colon = strchr(part, ':');
    if (colon) *colon = '\0';
    while (kind < 3 && strcmp(names[kind], part) != 0) kind++;
    if (kind == 3 || seen[kind]++) return 0;
    if (colon && (!colon[1] || strspn(colon + 1, "0123456789") != strlen(colon + 1))) return 0;
    double count = colon ? strtod(colon + 1, NULL) : 1;
    if (count < 1 || count > 4096 - all) return 0;
    all += (int)count;
  }
  return all;
}

TEST(random_texts_are_read_or_refused)
{
  static const char *const words[] = { "cpu", "late", "empty", ":", ",", "0",
                                       "1",   "7",    "4095",  " ", "-", "99999999999999999999" };
  test_rng rng = test_seeded(7);
  int good = 0;
  for (int i = 0; i < 20000; i++) {
    char text[256] = "", copy[256];
    for (int n = (int)test_range(&rng, 0, 7); n > 0; n--)
      strcat(text, words[test_range(&rng, 0, 11)]);
    strcpy(copy, text);
    int count = read_otherwise(copy);
    tsr__topology topology;
    tsr__error error = { .status = TSR_OK };
    tsr_status status = tsr__topology_parse(text, &topology, &error);
    if ((status == TSR_OK) != (count > 0)) FAIL("\"%s\": %s", text, error.text);
    if (count) CHECK_I64(topology.device_count, count);
    good += count > 0;
  }
  CHECK(good > 100);
}

/* ---- worlds ---------------------------------------------------------------------------------- */

enum { ROWS = 12, COLUMNS = 10, N = ROWS * COLUMNS };

typedef struct world {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_mesh *mesh;
} world;

/* Which devices a mesh is over: a text of their numbers. */
static world open_world(const char *devices, const char *axes, const char *over)
{
  world w = { .rt = tsr_runtime_open(devices) };
  tsr_mesh_opts opts = { .size = sizeof opts };
  int list[16];
  CHECK_STATUS(tsr_runtime_status(w.rt), TSR_OK, NULL);
  w.s = tsr_scope_open(w.rt);
  for (size_t i = 0; i < strlen(over); i++) list[i] = over[i] - '0';
  opts.devices = list;
  for (const char *at = axes; *at; at += 3, opts.axis_count++) {
    static const char *const axis[] = { "x", "y" };
    opts.names[opts.axis_count] = axis[opts.axis_count];
    opts.sizes[opts.axis_count] = at[2] - '0';
    if (!at[3]) break;
    at++;
  }
  opts.axis_count++;
  w.mesh = tsr_mesh_make_with(w.rt, &opts);
  CHECK_STATUS(tsr_mesh_status(w.mesh), TSR_OK, NULL);
  return w;
}

static void close_world(world *w)
{
  tsr_scope_close(w->s);
  tsr_runtime_close(w->rt);
}

/* Which devices of both kinds the meshes of most tests are over. */
static const struct {
  const char *devices, *axes, *over;
} places[] = {
  { "cpu:4,late:2", "x=6", "012345" },
  { "cpu:4,late:2", "x=3,y=2", "504213" },
  { "cpu:4,late:2", "x=4", "0123" },
  { "cpu:4,late:2", "x=2", "45" },
  { "cpu:4,late:2", "x=2,y=2", "3405" },
  { "late:2,cpu:4", "x=6", "012345" },
  { "cpu:3,empty:3", "x=2,y=3", "012345" },
  { "empty:1,cpu:1", "x=2", "10" },
  { "late:6", "x=6", "012345" },
  { "cpu:1,late:5", "x=3,y=2", "531420" },
};
enum { PLACES = sizeof places / sizeof *places };

static const float *numbers(void)
{
  static float all[N];
  for (int i = 0; i < N; i++) all[i] = (float)((i * 7919) % 127 - 60) / 8;
  return all;
}

static tsr_array *put_numbers(const world *w, const char *spec)
{
  return tsr_put(w->s, numbers(), TSR_F32, TSR_SHAPE(ROWS, COLUMNS), tsr_on(w->mesh, spec));
}

static bool has_y(const world *w)
{
  return tsr_mesh_axis_count(w->mesh) == 2;
}

/* ---- results --------------------------------------------------------------------------------- */

typedef tsr_array *make_fn(const world *w);

static tsr_array *make_formula(const world *w)
{
  tsr_array *x = put_numbers(w, "x");
  return tsr_add(tsr_mul(tsr_exp(x), x), put_numbers(w, has_y(w) ? "y,x" : "-,x"));
}

static tsr_array *make_sums(const world *w)
{
  tsr_array *x = put_numbers(w, has_y(w) ? "x,y" : "x");
  return tsr_add(tsr_sum(x, .dims = TSR_DIMS(0)), tsr_mean(tsr_exp(x), .dims = TSR_DIMS(0)));
}

static tsr_array *make_product(const world *w)
{
  return tsr_matmul(put_numbers(w, "x"), tsr_transpose(put_numbers(w, "-,x")));
}

static tsr_array *make_order(const world *w)
{
  return tsr_sort(put_numbers(w, "x"), 0);
}

static tsr_array *make_prefixes(const world *w)
{
  return tsr_cumsum(put_numbers(w, "x"), 0);
}

static tsr_array *make_mask(const world *w)
{
  tsr_array *mask = tsr_gt(put_numbers(w, "x"), 0.5);
  return tsr_reshard(mask, tsr_on(w->mesh, "-,x"));
}

static tsr_array *make_rolled(const world *w)
{
  tsr_array *x = put_numbers(w, "x");
  return tsr_add(tsr_roll(x, 3, 0), tsr_flip(x, TSR_DIMS(0)));
}

static tsr_array *make_looked_up(const world *w)
{
  static const int64_t at[] = { 11, 0, 5, 5, 2, 7 };
  tsr_array *where = tsr_put(w->s, at, TSR_I64, TSR_SHAPE(6), tsr_on(w->mesh, "x"));
  return tsr_take(put_numbers(w, "-,-"), where, 0);
}

static tsr_array *make_donated(const world *w)
{
  tsr_array *x = put_numbers(w, "x");
  tsr_array *neg = tsr_neg(x);
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, w->s);
  CHECK_STATUS(tsr_donate(x), TSR_OK, w->s);
  return tsr_reshard(neg, tsr_on(w->mesh, has_y(w) ? "y" : "-"));
}

static make_fn *const makers[] = { make_formula, make_sums,      make_product,
                                   make_order,   make_prefixes,  make_mask,
                                   make_rolled,  make_looked_up, make_donated };
enum { MAKERS = sizeof makers / sizeof *makers };

static size_t read_bytes(const world *w, make_fn *make, unsigned char *out)
{
  tsr_array *a = make(w);
  int64_t count = 1;
  for (int d = 0; d < tsr_shape_of(a).rank; d++) count *= tsr_shape_of(a).dims[d];
  size_t bytes = (size_t)count * tsr_dtype_size(tsr_dtype_of(a));
  CHECK_STATUS(tsr_read(a, out, bytes), TSR_OK, w->s);
  tsr_run_stats stats = tsr_last_run(w->s);
  CHECK_I64(stats.bytes_counted, stats.bytes_explained + stats.bytes_escaped);
  CHECK(stats.bytes_between_kinds <= stats.bytes_counted);
  return bytes;
}

TEST(results_are_those_of_cpu_devices)
{
  static unsigned char found[8 * N * N], expected[8 * N * N];
  for (int p = 0; p < PLACES; p++)
    for (int m = 0; m < MAKERS; m++) {
      world cpu = open_world("cpu:6", places[p].axes, places[p].over);
      world w = open_world(places[p].devices, places[p].axes, places[p].over);
      size_t bytes = read_bytes(&cpu, makers[m], expected);
      CHECK_I64((int64_t)read_bytes(&w, makers[m], found), (int64_t)bytes);
      if (memcmp(found, expected, bytes) != 0)
        FAIL("maker %d over %s of %s", m, places[p].over, places[p].devices);
      close_world(&w);
      close_world(&cpu);
    }
}

/* Groups and joined rows. */
static tsr_frame *make_frame(const world *w)
{
  static int64_t keys[N], other[8];
  static float values[8];
  tsr_sharding at = tsr_on(w->mesh, "x");
  for (int i = 0; i < N; i++) keys[i] = i * 31 % 11;
  for (int i = 0; i < 8; i++) other[i] = 3 * i, values[i] = (float)i / 4;
  tsr_frame *df =
      tsr_frame_new(w->s, { "k", tsr_put(w->s, keys, TSR_I64, TSR_SHAPE(N), at) },
                    { "v", tsr_reshard(tsr_reshape(put_numbers(w, "-,-"), TSR_SHAPE(N)), at) });
  tsr_frame *right = tsr_frame_new(w->s, { "k", tsr_put(w->s, other, TSR_I64, TSR_SHAPE(8), at) },
                                   { "u", tsr_put(w->s, values, TSR_F32, TSR_SHAPE(8), at) });
  tsr_frame *sums = tsr_frame_group_agg(df, "k", "s = sum(v), n = count()");
  return tsr_frame_sort(tsr_frame_join(sums, right, "k"), "k");
}

TEST(rows_are_those_of_cpu_devices)
{
  for (int p = 0; p < PLACES; p++) {
    world cpu = open_world("cpu:6", places[p].axes, places[p].over);
    world w = open_world(places[p].devices, places[p].axes, places[p].over);
    const char *expected = tsr_frame_text(make_frame(&cpu));
    CHECK_STR_HAS(expected, "k");
    CHECK_STR(tsr_frame_text(make_frame(&w)), expected);
    CHECK_STATUS(tsr_scope_status(w.s), TSR_OK, w.s);
    close_world(&w);
    close_world(&cpu);
  }
}

/* ---- bytes between kinds --------------------------------------------------------------------- */

static int64_t common_elements(const tsr_box *a, const tsr_box *b, int rank)
{
  int64_t count = 1;
  for (int d = 0; d < rank; d++) {
    int64_t from = a->start[d] > b->start[d] ? a->start[d] : b->start[d];
    int64_t a_end = a->start[d] + a->size[d], b_end = b->start[d] + b->size[d];
    int64_t to = a_end < b_end ? a_end : b_end;
    count *= to > from ? to - from : 0;
  }
  return count;
}

/* The devices of the sharding have a part each, so that every piece has one place. */
static int64_t bytes_between(const world *w, tsr_sharding from, tsr_sharding to)
{
  const tsr_shape shape = TSR_SHAPE(ROWS, COLUMNS);
  int64_t elements = 0;
  for (int q = 0; q < tsr_mesh_device_count(w->mesh); q++)
    for (int p = 0; p < tsr_mesh_device_count(w->mesh); p++) {
      const char *a = tsr_device_kind(w->rt, tsr_mesh_device(w->mesh, q));
      const char *b = tsr_device_kind(w->rt, tsr_mesh_device(w->mesh, p));
      tsr_box sent, taken;
      CHECK_STATUS(tsr_shard_box(&from, shape, q, &sent), TSR_OK, NULL);
      CHECK_STATUS(tsr_shard_box(&to, shape, p, &taken), TSR_OK, NULL);
      if (strcmp(a, b) != 0) elements += common_elements(&sent, &taken, 2);
    }
  return 4 * elements;
}

/* An explanation without the breaks of its lines. */
static const char *explain_flat(tsr_array *a)
{
  static char flat[4096];
  size_t n = 0;
  for (const char *at = tsr_explain(&a, 1); *at && n < sizeof flat - 1; at++)
    if ((*at != ' ' && *at != '\n') || (n && flat[n - 1] != ' '))
      flat[n++] = *at == '\n' ? ' ' : *at;
  flat[n] = '\0';
  return flat;
}

/* The sum of the numbers before "bytes go from". */
static int64_t bytes_told(const char *text)
{
  int64_t all = 0;
  for (const char *at = text; (at = strstr(at, " bytes go from")); at++) {
    const char *digit = at;
    while (digit[-1] >= '0' && digit[-1] <= '9') digit--;
    all += strtoll(digit, NULL, 10);
  }
  return all;
}

TEST(bytes_between_kinds_are_counted_and_told)
{
  int64_t all = 0;
  for (int p = 0; p < PLACES; p++) {
    world w = open_world(places[p].devices, places[p].axes, places[p].over);
    static const char *const of_x[] = { "-", "-,x", "x", "-,-" };
    static const char *const of_both[] = { "y,x", "x+y", "-,y", "y+x", "-,x+y", "x", "-" };
    const char *begin = has_y(&w) ? "x,y" : "x";
    for (int i = 0; i < (has_y(&w) ? 7 : 4); i++) {
      const char *spec = has_y(&w) ? of_both[i] : of_x[i];
      float out[N];
      tsr_array *x = put_numbers(&w, begin);
      CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, w.s);
      tsr_array *to = tsr_reshard(x, tsr_on(w.mesh, spec));
      int64_t expected = bytes_between(&w, tsr_on(w.mesh, begin), tsr_on(w.mesh, spec));
      CHECK_I64(bytes_told(explain_flat(to)), expected);
      CHECK_STATUS(tsr_eval(&to, 1), TSR_OK, w.s);
      CHECK_I64(tsr_last_run(w.s).bytes_between_kinds, expected);
      CHECK_I64(tsr_last_run(w.s).bytes_counted, tsr_last_run(w.s).bytes_explained);
      CHECK_STATUS(tsr_read(to, out, sizeof out), TSR_OK, w.s);
      CHECK_BYTES(out, numbers(), sizeof out);
      all += expected;
    }
    close_world(&w);
  }
  CHECK(all > 10000);
}

TEST(explanations_say_which_kinds_work)
{
  world w = open_world("cpu:4,late:2", "x=6", "012345");
  tsr_array *x = put_numbers(&w, "x");
  tsr_array *formula = tsr_mul(tsr_exp(x), x), *moved = tsr_reshard(x, tsr_on(w.mesh, "-"));
  tsr_array *order = tsr_sort(x, 0);
  CHECK_STR_HAS(explain_flat(formula),
                "1 kernel runs on devices of kinds cpu and late, each part by its own kind");
  CHECK_STR_HAS(explain_flat(moved), "move to f32[12,10]@(-,-): 640 bytes go from cpu to late, 640 "
                                     "bytes go from late to cpu");
  CHECK_STR_HAS(explain_flat(order), "the host does 1 routine over devices of kinds cpu and late");
  close_world(&w);
}

/* Work of CPU devices alone is theirs in a runtime of both kinds: nothing is copied or told. */
TEST(cpu_devices_beside_others_copy_nothing)
{
  static unsigned char out[8 * N * N];
  world w = open_world("cpu:4,late:2", "x=4", "0123");
  for (int m = 0; m < MAKERS; m++) {
    tsr_array *a = makers[m](&w);
    CHECK(!strstr(tsr_explain(&a, 1), "late"));
    read_bytes(&w, makers[m], out);
    CHECK_I64(tsr_last_run(w.s).bytes_through_host, 0);
    CHECK_I64(tsr_last_run(w.s).bytes_between_kinds, 0);
  }
  CHECK_I64(late_waits(w.rt), 0);
  close_world(&w);
}

TEST(a_runtime_of_cpu_devices_has_their_table)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  CHECK(!tsr__devices_of(rt)->own);
  CHECK_STR(tsr__devices_of(rt)->ops->kind, "cpu");
  CHECK(tsr__devices_of(rt) == rt->slots[TSR__SLOT_HOST]);
  tsr_runtime_close(rt);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* An index out of range on devices of both kinds, by turns the first on either. */
TEST(the_first_error_by_position_is_told)
{
  for (int p = 0; p < PLACES; p++)
    for (int first = 0; first < 6; first++) {
      char expected[256];
      for (int pass = 0; pass < 2; pass++) {
        world w = open_world(pass ? places[p].devices : "cpu:6", places[p].axes, places[p].over);
        int64_t at[6] = { 0 };
        float out[6 * COLUMNS];
        for (int i = first; i < 6; i++) at[i] = 100 + i;
        tsr_array *where = tsr_put(w.s, at, TSR_I64, TSR_SHAPE(6), tsr_on(w.mesh, "x"));
        tsr_array *taken = tsr_take(put_numbers(&w, "-,-"), where, 0);
        CHECK_STATUS(tsr_read(taken, out, sizeof out), TSR_EVALUE, NULL);
        if (pass) CHECK_STR(strstr(tsr_message(w.s), "index"), expected);
        else snprintf(expected, sizeof expected, "%s", strstr(tsr_message(w.s), "index"));
        close_world(&w);
      }
    }
}

TEST(each_device_has_its_own_memory_and_limit)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1,late:1", .memory_limit = 1 << 20);
  tsr_scope *s = tsr_scope_open(rt);
  static char bytes[1 << 19];
  for (int d = 0; d < 2; d++) {
    int64_t before = tsr_device_memory(rt, 1 - d).now;
    tsr_array *a = tsr_put(s, bytes, TSR_U8, TSR_SHAPE(sizeof bytes), tsr_on_device(rt, d));
    CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, s);
    CHECK(tsr_device_memory(rt, d).now >= (int64_t)sizeof bytes);
    CHECK_I64(tsr_device_memory(rt, d).limit, 1 << 20);
    CHECK_I64(tsr_device_memory(rt, 1 - d).now, before);
  }
  tsr_array *more = tsr_full(s, 1, TSR_U8, TSR_SHAPE(1 << 20), tsr_on_device(rt, 1));
  CHECK_STATUS(tsr_eval(&more, 1), TSR_ENOMEM, NULL);
  CHECK_STR_HAS(tsr_message(s), "device 1 ");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Whatever allocation fails: the error is told, or the result is right, and no block stays. */
TEST(a_failed_allocation_never_shows_in_a_result)
{
  bool failed = true;
  for (int64_t k = 1; failed; k++) {
    struct test_alloc state = { 0 };
    tsr_allocator allocator = test_allocator(&state);
    tsr_runtime *rt = tsr_runtime_open("cpu:1,empty:1", .allocator = &allocator, .threads = 1);
    world w = { rt, tsr_scope_open(rt), tsr_mesh_make(rt, "x=2") };
    float out[N];
    tsr_array *x = put_numbers(&w, "x");
    tsr_array *moved = tsr_reshard(tsr_neg(x), tsr_on(w.mesh, "-,x"));
    state.fail_at = atomic_load(&state.count) + k;
    tsr_status status = tsr_read(moved, out, sizeof out);
    failed = atomic_load(&state.count) >= state.fail_at;
    CHECK(status == TSR_OK || (failed && status == TSR_ENOMEM));
    for (int i = 0; i < N && !status; i++) CHECK_F32_BITS(out[i], -numbers()[i]);
    close_world(&w);
    CHECK_I64(atomic_load(&state.live), 0);
  }
}

/* ---- closing --------------------------------------------------------------------------------- */

TEST(scopes_and_runtimes_close_over_queued_work)
{
  for (int turn = 0; turn < 20; turn++) {
    world w = open_world("cpu:2,late:2", "x=4", "0213");
    late_hold(w.rt, turn % 2);
    tsr_scope *inner = tsr_scope_open(w.s);
    world in = { w.rt, inner, w.mesh };
    tsr_array *a = make_formula(&in), *b = make_order(&in);
    CHECK_STATUS(tsr_start(&a, 1), TSR_OK, inner);
    CHECK_STATUS(tsr_start(&b, 1), TSR_OK, inner);
    tsr_scope_close(inner);
    close_world(&w);
  }
}
