/* Data of several processes: JAX's cases, and that what goes in comes out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/among.h"
#include "tessera.h"

enum { DEVICES = 8 };

/* A program over devices of all processes. */
typedef struct world {
  tsr_runtime *rt;
  tsr_scope *s;
  int me, count;
} world;

static world open_world(void)
{
  world w = { .me = test_process(), .count = test_process_count() };
  w.rt = among_open(DEVICES / w.count);
  w.s = tsr_scope_open(w.rt);
  return w;
}

static void close_world(world *w)
{
  CHECK_STATUS(tsr_scope_status(w->s), TSR_OK, w->s);
  tsr_scope_close(w->s);
  tsr_runtime_close(w->rt);
}

static tsr_array *give(world *w, const float *data, tsr_shape shape, tsr_sharding on,
                       tsr_shape whole)
{
  return tsr_from_process_data(w->s, data, .dtype = TSR_F32, .shape = shape, .on = on,
                               .whole = whole);
}

/* What was wrong in the scope, which goes on. */
static void expect(world *w, tsr_status status, const char *part)
{
  CHECK_STATUS(tsr_scope_status(w->s), status, w->s);
  CHECK_STR_HAS(tsr_message(w->s), part);
  tsr_scope_clear(w->s);
}

/* ---- shapes of the whole --------------------------------------------------------------------- */

static void shapes_are_found(void)
{
  world w = open_world();
  const int64_t rows = w.count == 1 ? 4 : w.count == 2 ? 8 : 16, columns = w.count == 8 ? 8 : 4;
  float ones[16];
  for (int i = 0; i < 16; i++) ones[i] = 1;
  tsr_sharding on = tsr_on(tsr_mesh_make(w.rt, "a=2,b=2,c=2"), "a+b,c");
  const int64_t wholes[][2] = { { 0, 0 }, { rows, 4 }, { 4, columns }, { 4, 4 } };
  for (int i = 0; i < 4; i++) {
    tsr_shape whole = { .rank = i ? 2 : 0, .dims = { wholes[i][0], wholes[i][1] } };
    tsr_array *a = give(&w, ones, TSR_SHAPE(4, 4), on, whole);
    tsr_shape found = tsr_shape_of(a);
    CHECK_STATUS(tsr_scope_status(w.s), TSR_OK, w.s);
    CHECK_I64(found.rank, 2);
    CHECK_I64(found.dims[0], i ? wholes[i][0] : rows);
    CHECK_I64(found.dims[1], i ? wholes[i][1] : columns);
    double sum = 0;
    CHECK_STATUS(tsr_read_scalar(tsr_sum(a), &sum), TSR_OK, w.s);
    CHECK(sum == (double)(found.dims[0] * found.dims[1]));
  }
  CHECK(tsr_is_inert(give(&w, ones, TSR_SHAPE(4, 4), on, TSR_SHAPE(4, -1))));
  expect(&w, TSR_ESHAPE, "tsr_from_process_data");
  close_world(&w);
}

AMONG_2_AND_4(shapes_are_found, shapes_are_found)
TEST_PROCESSES(shapes_are_found_of_1, 1)
{
  shapes_are_found();
}
TEST_PROCESSES(shapes_are_found_of_8, 8)
{
  shapes_are_found();
}

/* Along the axes of the hosts rows differ, and the sorted ones are known. */
static void rows_are_where_they_belong(void)
{
  static const char *const specs[] = { "a+b+c", "a+b,c", "a+b", "a", "b", "c", "-" };
  world w = open_world();
  tsr_mesh *mesh = tsr_mesh_make(w.rt, "a=2,b=2,c=2");
  for (int i = 0; i < 14; i++) {
    tsr_sharding on = tsr_on(mesh, specs[i / 2]);
    tsr_process_part part;
    float data[8 * 4], all[8][4];
    CHECK_STATUS(tsr_process_part_of(&on, TSR_SHAPE(8, 4), w.me, &part), TSR_OK, NULL);
    int64_t rows = part.shape.dims[0];
    for (int64_t k = 0; k < rows * 4; k++) data[k] = (float)(k % 4 + 4 * part.index[0]);
    bool said = i % 2 || part.shape.dims[1] < 4;
    tsr_array *a =
        give(&w, data, TSR_SHAPE(rows, 4), on, said ? TSR_SHAPE(8, 4) : (tsr_shape){ .rank = 0 });
    CHECK_STATUS(tsr_read(a, all, sizeof all), TSR_OK, w.s);
    int seen[8] = { 0 };
    for (int r = 0; r < 8; r++)
      for (int c = 0; c < 4; c++) {
        CHECK(all[r][c] == all[r][0] + (float)c);
        seen[(int)all[r][0] / 4] += c == 0;
      }
    for (int b = 0; b < part.count[0]; b++) CHECK_I64(seen[b], 8 / part.count[0]);
  }
  close_world(&w);
}

AMONG_2_AND_4(rows_are_where_they_belong, rows_are_where_they_belong)

/* ---- in and out ------------------------------------------------------------------------------ */

/* Blocks that were cut out of an array, given by each process, are that array; read by each, they
 * are the blocks. */
static void blocks_go_in_and_out(void)
{
  static const char *const specs[] = { "x,y", "y,x", "x+y", "y+x", "-,x", "-", "y,-", "-,y+x" };
  world w = open_world();
  tsr_mesh *meshes[] = { tsr_mesh_make(w.rt, "x=4,y=2"), tsr_mesh_make(w.rt, "x=2,y=4") };
  float all[12 * 13], block[12 * 13], found[12 * 13];
  for (int i = 0; i < 12 * 13; i++) all[i] = (float)i;
  for (int i = 0; i < 32; i++) {
    tsr_shape shape = i < 16 ? TSR_SHAPE(8, 8) : TSR_SHAPE(11, 13);
    tsr_sharding on = tsr_on(meshes[i / 8 % 2], specs[i % 8]);
    tsr_array *whole = tsr_put(w.s, all, TSR_F32, shape, on);
    tsr_process_part part;
    CHECK_STATUS(tsr_process_part_of(&on, shape, w.me, &part), TSR_OK, NULL);
    size_t bytes = (size_t)(part.shape.dims[0] * part.shape.dims[1]) * sizeof(float);
    memset(block, 0, sizeof block);
    if (!part.whole) continue;
    CHECK_STATUS(tsr_read_process(whole, block, bytes), TSR_OK, w.s);
    /* Each element is where its device's part says. */
    for (int k = 0; k < tsr_local_shard_count(&on); k++) {
      tsr_shard shard;
      CHECK_STATUS(tsr_shard_view(whole, tsr_local_shard(&on, k), &shard), TSR_OK, w.s);
      bool is_there = shard.box.size[0] * shard.box.size[1] == 0;
      for (int64_t e = 0; e < part.shape.dims[0] * part.shape.dims[1]; e++)
        is_there |= block[e] == (float)(shard.box.start[0] * shape.dims[1] + shard.box.start[1]);
      CHECK(is_there);
    }
    tsr_array *again = give(&w, block, part.shape, on, i % 2 ? shape : (tsr_shape){ .rank = 0 });
    CHECK_STATUS(tsr_read(again, found, (size_t)(shape.dims[0] * shape.dims[1]) * 4), TSR_OK, w.s);
    CHECK_BYTES(found, all, (size_t)(shape.dims[0] * shape.dims[1]) * 4);
  }
  close_world(&w);
}

AMONG_2_AND_4(blocks_go_in_and_out, blocks_go_in_and_out)

/* The whole array in one dim, the block in the other; bools; no elements; a scalar. */
static void other_forms(void)
{
  world w = open_world();
  tsr_mesh *mesh = tsr_mesh_make(w.rt, "x=8");
  bool flags[24], found[24];
  for (int i = 0; i < 24; i++) flags[i] = i % 3 == 0;
  tsr_array *a = tsr_from_process_data(w.s, flags, .dtype = TSR_BOOL, .shape = TSR_SHAPE(24),
                                       .whole = TSR_SHAPE(24), .on = tsr_on(mesh, "x"));
  CHECK_STATUS(tsr_read(a, found, sizeof found), TSR_OK, w.s);
  CHECK_BYTES(found, flags, sizeof flags);
  int mine = 24 / w.count;
  CHECK_STATUS(tsr_read_process(a, found, (size_t)mine), TSR_OK, w.s);
  CHECK_BYTES(found, flags + mine * w.me, (size_t)mine);
  tsr_array *none = give(&w, NULL, TSR_SHAPE(0, 3), tsr_on(mesh, "x,-"), (tsr_shape){ .rank = 0 });
  CHECK_I64(tsr_shape_of(none).dims[0], 0);
  CHECK_STATUS(tsr_read_process(none, NULL, 0), TSR_OK, w.s);
  const float pi = 3.25f;
  double number = 0;
  tsr_array *one = give(&w, &pi, TSR_SCALAR, tsr_on(mesh, "-"), (tsr_shape){ .rank = 0 });
  CHECK_STATUS(tsr_read_scalar(one, &number), TSR_OK, w.s);
  CHECK(number == 3.25);
  /* Without a mesh each has its own. */
  const float own = (float)w.me;
  one = give(&w, &own, TSR_SCALAR, (tsr_sharding){ 0 }, (tsr_shape){ .rank = 0 });
  CHECK_STATUS(tsr_read_scalar(one, &number), TSR_OK, w.s);
  CHECK(number == w.me);
  /* Of a mesh of one process's devices the others have nothing, and give nothing. */
  tsr_sharding first = tsr_on(tsr_mesh_make(w.rt, "x=2"), "x");
  const float two[] = { 5, 6 };
  float back[2] = { 0 };
  a = give(&w, w.me ? NULL : two, TSR_SHAPE(w.me ? 0 : 2), first, (tsr_shape){ .rank = 0 });
  CHECK_STATUS(tsr_read_process(a, w.me ? NULL : back, w.me ? 0 : 8), TSR_OK, w.s);
  CHECK(w.me || back[1] == 6);
  CHECK_STATUS(tsr_read(a, back, 8), TSR_OK, w.s);
  CHECK_BYTES(back, two, 8);
  close_world(&w);
}

AMONG_2_AND_4(other_forms, other_forms)

/* What is wrong on one process or between them is wrong on all, who then go on. */
static void errors_are_told_to_all(void)
{
  world w = open_world();
  tsr_sharding on = tsr_on(tsr_mesh_make(w.rt, "x=8"), "x,-");
  const tsr_shape no_whole = { .rank = 0 };
  float data[64] = { 0 };
  int last = w.me == w.count - 1, rows = 8 / w.count;
  CHECK(tsr_is_inert(give(&w, data, TSR_SHAPE(rows + 1 + last, 2), on, no_whole)));
  expect(&w, TSR_ESHAPE, "elements; of f32[");
  CHECK(tsr_is_inert(give(&w, last ? NULL : data, TSR_SHAPE(rows, 2), on, no_whole)));
  expect(&w, TSR_EARG, last ? "the data is NULL" : "process ");
  CHECK(tsr_is_inert(give(&w, data, TSR_SHAPE(rows, 2 + last), on, no_whole)));
  expect(&w, TSR_ESHAPE, "with the same portion gives 2; give equally many, or .whole");
  CHECK(tsr_is_inert(tsr_from_process_data(w.s, data, .dtype = last ? TSR_F64 : TSR_F32,
                                           .shape = TSR_SHAPE(rows, 2), .on = on)));
  expect(&w, TSR_EDTYPE, "gives f64, process 0 gives f32; give the same dtype on all");
  CHECK(tsr_is_inert(
      give(&w, data, TSR_SHAPE(rows, 2), last ? tsr_on(on.mesh, "-,x") : on, no_whole)));
  expect(&w, TSR_EARG, "place the array differently");
  CHECK(tsr_is_inert(give(&w, data, TSR_SHAPE(rows, 2), on, last ? TSR_SHAPE(8, 2) : no_whole)));
  expect(&w, TSR_EARG, "give different shapes of the whole array");
  CHECK(tsr_is_inert(
      give(&w, data, TSR_SHAPE(8, 2), last ? tsr_on(on.mesh, "y,-") : on, TSR_SHAPE(8, 2))));
  expect(&w, TSR_EAXIS, last ? "no axis 'y'" : "process ");
  CHECK_I64(tsr_shape_of(give(&w, data, TSR_SHAPE(rows, 2), on, no_whole)).dims[0], 8);
  close_world(&w);
}

AMONG_2_AND_4(errors_are_told_to_all, errors_are_told_to_all)

/* ---- parts, readings ------------------------------------------------------------------------- */

/* Which part and which replica each device has, written by hand for f32[8,2] on (4,2). */
static void parts_are_of_devices(void)
{
  static const struct row {
    const char *spec;
    int64_t box[8][4]; /* start and size of both dims */
    int replica[8];
  } rows[] = {
    { "x,y",
      { { 0, 0, 2, 1 },
        { 0, 1, 2, 1 },
        { 2, 0, 2, 1 },
        { 2, 1, 2, 1 },
        { 4, 0, 2, 1 },
        { 4, 1, 2, 1 },
        { 6, 0, 2, 1 },
        { 6, 1, 2, 1 } },
      { 0, 0, 0, 0, 0, 0, 0, 0 } },
    { "x",
      { { 0, 0, 2, 2 },
        { 0, 0, 2, 2 },
        { 2, 0, 2, 2 },
        { 2, 0, 2, 2 },
        { 4, 0, 2, 2 },
        { 4, 0, 2, 2 },
        { 6, 0, 2, 2 },
        { 6, 0, 2, 2 } },
      { 0, 1, 0, 1, 0, 1, 0, 1 } },
    { "y",
      { { 0, 0, 4, 2 },
        { 4, 0, 4, 2 },
        { 0, 0, 4, 2 },
        { 4, 0, 4, 2 },
        { 0, 0, 4, 2 },
        { 4, 0, 4, 2 },
        { 0, 0, 4, 2 },
        { 4, 0, 4, 2 } },
      { 0, 0, 1, 1, 2, 2, 3, 3 } },
    { "x+y",
      { { 0, 0, 1, 2 },
        { 1, 0, 1, 2 },
        { 2, 0, 1, 2 },
        { 3, 0, 1, 2 },
        { 4, 0, 1, 2 },
        { 5, 0, 1, 2 },
        { 6, 0, 1, 2 },
        { 7, 0, 1, 2 } },
      { 0, 0, 0, 0, 0, 0, 0, 0 } },
    { "-",
      { { 0, 0, 8, 2 },
        { 0, 0, 8, 2 },
        { 0, 0, 8, 2 },
        { 0, 0, 8, 2 },
        { 0, 0, 8, 2 },
        { 0, 0, 8, 2 },
        { 0, 0, 8, 2 },
        { 0, 0, 8, 2 } },
      { 0, 1, 2, 3, 4, 5, 6, 7 } },
  };
  world w = open_world();
  tsr_mesh *mesh = tsr_mesh_make(w.rt, "x=4,y=2");
  float data[16], found[16];
  for (int i = 0; i < 16; i++) data[i] = (float)i;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_sharding on = tsr_on(mesh, rows[i].spec);
    tsr_array *a = tsr_put(w.s, data, TSR_F32, TSR_SHAPE(8, 2), on);
    CHECK_I64(tsr_local_shard_count(&on), DEVICES / w.count);
    CHECK(!tsr_sharding_addressable(&on));
    for (int k = 0; k < DEVICES / w.count; k++) {
      tsr_shard shard;
      int p = tsr_local_shard(&on, k);
      const int64_t *box = rows[i].box[p];
      CHECK_STATUS(tsr_shard_view(a, p, &shard), TSR_OK, w.s);
      CHECK_I64(shard.device, p);
      CHECK_I64(shard.replica, rows[i].replica[p]);
      CHECK_I64(shard.box.start[0], box[0]);
      CHECK_I64(shard.box.start[1], box[1]);
      CHECK_I64(shard.box.size[0], box[2]);
      CHECK_I64(shard.box.size[1], box[3]);
      for (int64_t r = 0; r < box[2]; r++)
        for (int64_t c = 0; c < box[3]; c++)
          CHECK(((const float *)shard.data)[r * box[3] + c] == data[(box[0] + r) * 2 + box[1] + c]);
    }
    tsr_shard none;
    CHECK_STATUS(tsr_shard_view(a, w.me ? 0 : 7, &none), TSR_EARG, NULL);
    expect(&w, TSR_EARG, "use the positions that tsr_local_shard gives");
    /* JAX refuses to read what is not here; here all read together. */
    CHECK_STATUS(tsr_read(a, found, sizeof found), TSR_OK, w.s);
    CHECK_BYTES(found, data, sizeof data);
    CHECK_STATUS(tsr_read(tsr_slice(a, TSR_RANGE(0, 2)), found, 16), TSR_OK, w.s);
    CHECK_BYTES(found, data, 16);
  }
  close_world(&w);
}

AMONG_2_AND_4(parts_are_of_devices, parts_are_of_devices)

/* A mesh that half of the processes have no device of. */
static void some_have_no_device(void)
{
  world w = open_world();
  tsr_sharding on = tsr_on(tsr_mesh_make(w.rt, "x=4"), "x");
  float data[8], found[8];
  double sum = 0;
  for (int i = 0; i < 8; i++) data[i] = (float)i;
  tsr_array *a = tsr_put(w.s, data, TSR_F32, TSR_SHAPE(8), on);
  CHECK_STATUS(tsr_read(a, found, sizeof found), TSR_OK, w.s);
  CHECK_BYTES(found, data, sizeof data);
  CHECK_STATUS(tsr_read_scalar(tsr_sum(a), &sum), TSR_OK, w.s);
  CHECK(sum == 28);
  CHECK_I64(tsr_local_shard_count(&on) > 0, 2 * w.me < w.count);
  CHECK(tsr_text_of(a) && strstr(tsr_text_of(a), "7"));
  close_world(&w);
}

AMONG_2_AND_4(some_have_no_device, some_have_no_device)

static void one_process_reads(void)
{
  world w = open_world();
  float data[24], found[24];
  for (int i = 0; i < 24; i++) data[i] = sinf((float)i);
  tsr_array *a =
      tsr_put(w.s, data, TSR_F32, TSR_SHAPE(8, 3), tsr_on(tsr_mesh_make(w.rt, "x=8"), "x"));
  tsr_array *loose = tsr_put(w.s, data, TSR_F32, TSR_SHAPE(24), (tsr_sharding){ 0 });
  for (int root = 0; root < w.count; root++) {
    bool mine = root == w.me;
    memset(found, 0, sizeof found);
    CHECK_STATUS(tsr_read_root(a, root, mine ? found : NULL, mine ? sizeof found : 0), TSR_OK, w.s);
    if (mine) CHECK_BYTES(found, data, sizeof data);
    CHECK_STATUS(tsr_read_root(tsr_mul(loose, 1), root, found, sizeof found), TSR_OK, w.s);
    CHECK(mine ? !memcmp(found, data, sizeof data) : found[1] == 0);
  }
  /* The root's mistake is told to all. */
  CHECK_STATUS(tsr_read_root(a, 1, found, 7), TSR_EARG, NULL);
  expect(&w, TSR_EARG,
         w.me == 1 ? "7 bytes for f32[8,3]@(x,-), expected exactly 96" : "process 1: ");
  CHECK_STATUS(tsr_read_root(a, w.count, found, sizeof found), TSR_EARG, NULL);
  expect(&w, TSR_EARG, "there is no process");
  CHECK_STATUS(tsr_read(a, found, sizeof found), TSR_OK, w.s);
  close_world(&w);
}

AMONG_2_AND_4(one_process_reads, one_process_reads)

/* ---- all together ---------------------------------------------------------------------------- */

/* The program of JAX's page on processes: the same number everywhere. */
TEST_PROCESSES(a_sum_of_sines_is_the_same_everywhere, 4)
{
  world w = open_world();
  float data[8];
  double sum = 0, sums[4];
  for (int i = 0; i < 8; i++) data[i] = (float)(8 * w.me + i);
  tsr_array *a = give(&w, data, TSR_SHAPE(8), tsr_on(tsr_mesh_make(w.rt, "data=8"), "data"),
                      (tsr_shape){ .rank = 0 });
  CHECK_I64(tsr_shape_of(a).dims[0], 32);
  CHECK_STATUS(tsr_read_scalar(tsr_sum(tsr_sin(a)), &sum), TSR_OK, w.s);
  CHECK(fabs(sum - -0.12398731708526611) < 1e-6);
  tsr_array *mine = tsr_put(w.s, &sum, TSR_F64, TSR_SCALAR, (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_read(tsr_process_gather(mine), sums, sizeof sums), TSR_OK, w.s);
  for (int p = 0; p < 4; p++) CHECK_F64_BITS(sums[p], sum);
  CHECK_STATUS(tsr_process_equal(mine, "the sum"), TSR_OK, w.s);
  close_world(&w);
}

static tsr_array *own(world *w, const void *data, tsr_dtype dtype, tsr_shape shape)
{
  return tsr_put(w->s, data, dtype, shape, (tsr_sharding){ 0 });
}

static void what_each_has_is_gathered(void)
{
  world w = open_world();
  int32_t four[4], found[16], number = 4 * w.me;
  float ones[4] = { 1, 1, 1, 1 }, all[16];
  for (int i = 0; i < 4; i++) four[i] = i + 4 * w.me;
  tsr_array *x = own(&w, four, TSR_I32, TSR_SHAPE(4));
  for (int tiled = 0; tiled < 2; tiled++) {
    tsr_array *a = tsr_process_gather(x, .tiled = tiled);
    tsr_shape shape = tsr_shape_of(a);
    CHECK_I64(shape.rank, tiled ? 1 : 2);
    CHECK_I64(shape.dims[0], tiled ? 4 * w.count : w.count);
    CHECK_STATUS(tsr_read(a, found, (size_t)w.count * 16), TSR_OK, w.s);
    for (int i = 0; i < 4 * w.count; i++) CHECK_I64(found[i], i);
    a = tsr_process_gather(own(&w, &number, TSR_I32, TSR_SCALAR), .tiled = tiled);
    CHECK_I64(tsr_shape_of(a).rank, 1);
    CHECK_STATUS(tsr_read(a, found, (size_t)w.count * 4), TSR_OK, w.s);
    for (int i = 0; i < w.count; i++) CHECK_I64(found[i], 4 * i);
    a = tsr_process_gather(own(&w, ones, TSR_F32, TSR_SHAPE(2, 2)), .tiled = tiled);
    shape = tsr_shape_of(a);
    CHECK_I64(shape.rank, tiled ? 2 : 3);
    CHECK_I64(shape.dims[0], tiled ? 2 * w.count : w.count);
    CHECK_STATUS(tsr_read(a, all, (size_t)w.count * 16), TSR_OK, w.s);
  }
  /* Different numbers of rows; a process may have none. */
  tsr_array *rows = tsr_process_gather(own(&w, four, TSR_I32, TSR_SHAPE(w.me)), .tiled = true);
  int64_t total = w.count * (w.count - 1) / 2;
  CHECK_I64(tsr_shape_of(rows).dims[0], total);
  CHECK_STATUS(tsr_read(rows, found, (size_t)total * 4), TSR_OK, w.s);
  for (int p = 0, at = 0; p < w.count; p++)
    for (int i = 0; i < p; i++) CHECK_I64(found[at++], 4 * p + i);
  /* What all have already. */
  tsr_array *shared =
      tsr_put(w.s, all, TSR_F32, TSR_SHAPE(8), tsr_on(tsr_mesh_make(w.rt, "x=8"), "x"));
  CHECK(tsr_is_inert(tsr_process_gather(shared)));
  expect(&w, TSR_EARG, "gather the array with .tiled = true");
  CHECK_I64(tsr_shape_of(tsr_process_gather(shared, .tiled = true)).dims[0], 8);
  /* Trees, by their arrays. */
  tsr_array *tree = tsr_process_gather(tsr_tree(w.s, { "a", x }, { "b", tsr_tuple(w.s, x, x) }));
  CHECK_STR(tsr_tree_text(tree), "(a: *, b: (*, *))");
  CHECK_I64(tsr_shape_of(tsr_field(tree, "b.1")).dims[0], w.count);
  /* Shapes that differ. */
  CHECK(tsr_is_inert(tsr_process_gather(own(&w, four, TSR_I32, TSR_SHAPE(1 + (w.me > 0))))));
  expect(&w, TSR_ESHAPE,
         "process 1 has i32[2], process 0 has i32[1]; give the same shape on all processes");
  close_world(&w);
}

AMONG_2_AND_4(what_each_has_is_gathered, what_each_has_is_gathered)

static void what_one_has_is_given_to_all(void)
{
  world w = open_world();
  int32_t four[4], found[4];
  uint8_t bytes[4], got[4];
  for (int i = 0; i < 4; i++) bytes[i] = (uint8_t)(four[i] = i + 4 * w.me);
  for (int root = 0; root < w.count; root++) {
    tsr_array *a = tsr_process_broadcast(own(&w, four, TSR_I32, TSR_SHAPE(4)), .root = root);
    CHECK_STATUS(tsr_read(a, found, sizeof found), TSR_OK, w.s);
    for (int i = 0; i < 4; i++) CHECK_I64(found[i], i + 4 * root);
  }
  tsr_array *a = tsr_process_broadcast(own(&w, bytes, TSR_U8, TSR_SHAPE(4)));
  CHECK_I64(tsr_dtype_of(a), TSR_U8);
  CHECK_STATUS(tsr_read(a, got, sizeof got), TSR_OK, w.s);
  for (int i = 0; i < 4; i++) CHECK_I64(got[i], i);
  CHECK(tsr_is_inert(tsr_process_broadcast(own(&w, four, TSR_I32, TSR_SHAPE(4)), .root = -1)));
  expect(&w, TSR_EARG, "there is no process -1");
  CHECK(tsr_is_inert(tsr_process_broadcast(own(&w, four, w.me ? TSR_I32 : TSR_U32, TSR_SHAPE(4)))));
  expect(&w, TSR_EDTYPE, "process 1 has i32, process 0 has u32");
  close_world(&w);
}

AMONG_2_AND_4(what_one_has_is_given_to_all, what_one_has_is_given_to_all)

static void what_differs_is_found(void)
{
  world w = open_world();
  float data[6] = { 1, 2, 3, 4, 5, 6 };
  tsr_array *a = own(&w, data, TSR_F32, TSR_SHAPE(2, 3)), *b = own(&w, data, TSR_F32, TSR_SHAPE(6));
  CHECK_STATUS(tsr_process_equal(tsr_tree(w.s, { "w", a }, { "b", b }), NULL), TSR_OK, w.s);
  if (w.me == 1) data[4] = nextafterf(data[4], 6);
  tsr_array *c = own(&w, data, TSR_F32, TSR_SHAPE(6));
  tsr_array *tree = tsr_tree(w.s, { "w", a }, { "layer", tsr_tree(w.s, { "b", b }, { "c", c }) });
  CHECK_STATUS(tsr_process_equal(tree, "the model"), TSR_EVALUE, NULL);
  expect(&w, TSR_EVALUE,
         "process 1 has other elements than process 0 in the model at layer.c, which is f32[6]");
  CHECK_STATUS(tsr_process_equal(c, NULL), TSR_EVALUE, NULL);
  expect(&w, TSR_EVALUE, "in the array, which is f32[6]");
  CHECK_STATUS(tsr_process_equal(w.me ? a : tree, NULL), TSR_EVALUE, NULL);
  expect(&w, TSR_EVALUE, "process 1 has 1 arrays in the array, process 0 has 3");
  CHECK_STATUS(tsr_process_equal(w.me ? b : a, NULL), TSR_EVALUE, NULL);
  tsr_scope_clear(w.s);
  CHECK_STATUS(tsr_process_equal(a, NULL), TSR_OK, w.s);
  close_world(&w);
}

AMONG_2_AND_4(what_differs_is_found, what_differs_is_found)

/* Where one of them has another number of arrays, that is told: no process says where elements
 * differ that it has no array for. */
TEST_PROCESSES(a_tree_of_other_size_is_told_first, 3)
{
  tsr_runtime *rt = among_open(1);
  tsr_scope *s = tsr_scope_open(rt);
  float data[2] = { 1, (float)test_process() };
  tsr_array *a = tsr_put(s, data, TSR_F32, TSR_SHAPE(1), (tsr_sharding){ 0 });
  tsr_array *b = tsr_put(s, data, TSR_F32, TSR_SHAPE(2), (tsr_sharding){ 0 });
  tsr_array *tree = tsr_tree(s, { "a", a }, { "b", a }, { "c", b });
  CHECK_STATUS(tsr_process_equal(test_process() == 2 ? a : tree, "the model"), TSR_EVALUE, NULL);
  CHECK_STR_HAS(tsr_message(s), "process 2 has 1 arrays in the model, process 0 has 3");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static void all_come_to_one_place(void)
{
  world w = open_world();
  CHECK_STATUS(tsr_process_meet(w.s, "epoch"), TSR_OK, w.s);
  CHECK_STATUS(tsr_process_meet(w.s, w.me ? "a" : "b"), TSR_EPEER, NULL);
  expect(&w, TSR_EPEER, "processes run different programs");
  CHECK_STATUS(tsr_process_meet(w.s, "again"), TSR_OK, w.s);
  close_world(&w);
}

AMONG_2_AND_4(all_come_to_one_place, all_come_to_one_place)

/* ---- between a process's own mesh and all ---------------------------------------------------- */

static void own_and_global(void)
{
  static const char *const specs[] = { "x,y", "y,x", "x+y", "-,x", "-", "y" };
  world w = open_world();
  tsr_mesh *mesh = tsr_mesh_make(w.rt, "x=4,y=2"), *local = tsr_mesh_local(mesh);
  float data[64], found[64];
  for (int i = 0; i < 64; i++) data[i] = (float)i;
  for (int i = 0; i < 6; i++) {
    tsr_sharding on = tsr_on(mesh, specs[i]);
    tsr_array *a = tsr_put(w.s, data, TSR_F32, TSR_SHAPE(8, 8), on);
    tsr_array *mine = tsr_to_local(a);
    CHECK(tsr_sharding_of(mine).mesh == local);
    tsr_process_part part;
    CHECK_STATUS(tsr_process_part_of(&on, TSR_SHAPE(8, 8), w.me, &part), TSR_OK, NULL);
    CHECK_I64(tsr_shape_of(mine).dims[0], part.shape.dims[0]);
    CHECK_I64(tsr_shape_of(mine).dims[1], part.shape.dims[1]);
    /* Its own matter: a process computes with it while the others do not. */
    double sum = 0;
    if (w.me == 1) CHECK_STATUS(tsr_read_scalar(tsr_sum(tsr_mul(mine, 2)), &sum), TSR_OK, w.s);
    tsr_array *again = tsr_to_global(mine, on);
    CHECK_STATUS(tsr_read(again, found, sizeof found), TSR_OK, w.s);
    CHECK_BYTES(found, data, sizeof data);
    CHECK(tsr_to_global(a, on) == a);
    CHECK(tsr_to_local(mine) == mine);
  }
  /* Replicated by every process: of the same data one array. */
  tsr_array *same = tsr_to_global(own(&w, data, TSR_F32, TSR_SHAPE(4, 4)), tsr_on(mesh, "-"));
  CHECK_I64(tsr_shape_of(same).dims[0], 4);
  tsr_array *rows = tsr_to_global(own(&w, data, TSR_F32, TSR_SHAPE(4, 4)), tsr_on(mesh, "x"));
  CHECK_I64(tsr_shape_of(rows).dims[0], 4 * w.count);
  tsr_mesh *bad = tsr_mesh_make(w.rt, "x=9");
  CHECK(tsr_is_inert(tsr_to_global(own(&w, data, TSR_F32, TSR_SHAPE(4)), tsr_on(bad, "x"))));
  expect(&w, TSR_EARG, "tsr_to_global");
  close_world(&w);
}

AMONG_2_AND_4(own_and_global, own_and_global)

/* ---- files ---------------------------------------------------------------------------------- */

/* Written once, by process 0; what goes wrong there is told to all. */
static void files_are_written_once(void)
{
  world w = open_world();
  float data[44], found[44];
  for (int i = 0; i < 44; i++) data[i] = (float)i;
  tsr_sharding on = tsr_on(tsr_mesh_make(w.rt, "x=4,y=2"), "x,y");
  tsr_array *a = tsr_put(w.s, data, TSR_F32, TSR_SHAPE(11, 4), on);
  char npy[300], npz[300], one[300], nowhere[400];
  snprintf(npy, sizeof npy, "%s", test_tmp("a.npy"));
  snprintf(npz, sizeof npz, "%s", test_tmp("a.npz"));
  snprintf(nowhere, sizeof nowhere, "%s/none/a.npy", npy);
  snprintf(one, sizeof one, "%s", w.me ? "/nowhere/to/be/written/by/others.npy" : npy);
  /* The others' paths are not looked at: they write nothing. */
  CHECK_STATUS(tsr_save_npy(a, one), TSR_OK, w.s);
  CHECK_STATUS(tsr_save_npz(w.s, npz, { "a", a }, { "b", tsr_cast(a, TSR_BF16) }), TSR_OK, w.s);
  CHECK_STATUS(tsr_read(tsr_load_npy(w.s, npy, on), found, sizeof found), TSR_OK, w.s);
  CHECK_BYTES(found, data, sizeof data);
  tsr_npz *all = tsr_load_npz(w.s, npz);
  CHECK_STATUS(tsr_read(tsr_npz_array(all, "a", on), found, sizeof found), TSR_OK, w.s);
  CHECK_BYTES(found, data, sizeof data);
  CHECK_STATUS(tsr_read(tsr_npz_array(all, "b", on), found, sizeof found), TSR_OK, w.s);
  CHECK_BYTES(found, data, sizeof data);
  CHECK_STATUS(tsr_save_npy(a, nowhere), TSR_EIO, NULL);
  expect(&w, TSR_EIO, w.me ? "process 0: " : "a.npy/none");
  CHECK_STATUS(tsr_save_npz(w.s, nowhere, { "a", a }), TSR_EIO, NULL);
  expect(&w, TSR_EIO, w.me ? "process 0: " : "a.npy/none");
  /* A file that one process does not find. */
  a = tsr_load_npy(w.s, w.me == 1 ? nowhere : npy, on);
  CHECK_STATUS(tsr_read(a, found, sizeof found), TSR_EIO, NULL);
  expect(&w, TSR_EIO, w.me == 1 ? "a.npy/none" : "process 1: ");
  close_world(&w);
}

AMONG_2_AND_4(files_are_written_once, files_are_written_once)

/* ---- memory that is adopted ------------------------------------------------------------------ */

typedef struct lent {
  double *data;
  int released;
} lent;

static void take_back(void *data, void *user)
{
  lent *l = user;
  CHECK(data == l->data);
  l->released++;
}

/* Memory on the one device of any process, on all of them and on some: all read the same, and who
 * has no device for it has it back at once. */
static void adopted_for_devices_of_others(void)
{
  static const int sizes[] = { 0, 1, 7, 31, 33, 300, 5000, 40000 };
  world w = open_world();
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int device = -3; device < DEVICES; device++) {
      int n = sizes[i];
      tsr_sharding on = device == -3   ? tsr_on(tsr_mesh_default(w.rt, "x"), "x")
                        : device == -2 ? tsr_on(tsr_mesh_default(w.rt, "x"), "-")
                        : device == -1 ? (tsr_sharding){ 0 }
                                       : tsr_on_device(w.rt, device);
      double *data = aligned_alloc(64, ((size_t)n * 8 + 64) / 64 * 64), *found;
      found = malloc((size_t)n * 8 + 8);
      CHECK(data && found);
      for (int k = 0; k < n; k++) data[k] = k;
      lent l = { data, 0 };
      tsr_scope *s = tsr_scope_open(w.s);
      tsr_array *a = tsr_adopt(s, data, .dtype = TSR_F64, .shape = TSR_SHAPE(n), .on = on,
                               .release = take_back, .user = &l);
      double sum = -1;
      CHECK_STATUS(tsr_read(tsr_mul(a, 3), found, (size_t)n * 8), TSR_OK, s);
      for (int k = 0; k < n; k++) CHECK_F64_BITS(found[k], 3.0 * k);
      CHECK_STATUS(tsr_read_scalar(tsr_sum(a), &sum), TSR_OK, s);
      CHECK(sum == n * (n - 1.0) / 2);
      bool here = device < 0 || device / (DEVICES / w.count) == w.me;
      if (!here) CHECK_I64(l.released, 1);
      tsr_scope_close(s);
      CHECK_I64(l.released, 1);
      free(found);
      free(data);
    }
  close_world(&w);
}

AMONG_2_AND_4(adopted_for_devices_of_others, adopted_for_devices_of_others)

static void tensor_taken_back(tsr_dl_managed *tensor)
{
  (*(int *)tensor->manager_ctx)++;
}

/* The same of a tensor of another library, which is adopted where its elements are dense, and else
 * copied. */
static void tensors_for_devices_of_others(void)
{
  world w = open_world();
  for (int device = 0; device < DEVICES; device++)
    for (int strided = 0; strided < 2; strided++) {
      static _Alignas(64) float data[2400];
      float found[600];
      int released = 0, rows = 600, step = strided ? 4 : 1;
      int64_t shape[] = { rows }, strides[] = { step };
      for (int k = 0; k < 2400; k++) data[k] = (float)k;
      tsr_dl_managed tensor = { .tensor = { .data = data,
                                            .device_type = 1,
                                            .ndim = 1,
                                            .code = 2,
                                            .bits = 32,
                                            .lanes = 1,
                                            .shape = shape,
                                            .strides = strides },
                                .manager_ctx = &released,
                                .deleter = tensor_taken_back };
      tsr_scope *s = tsr_scope_open(w.s);
      tsr_array *a = tsr_from_dlpack(s, &tensor, .on = tsr_on_device(w.rt, device));
      CHECK_STATUS(tsr_read(a, found, (size_t)rows * 4), TSR_OK, s);
      for (int k = 0; k < rows; k++) CHECK_F32_BITS(found[k], (float)(k * step));
      tsr_scope_close(s);
      CHECK_I64(released, 1);
    }
  close_world(&w);
}

AMONG_2_AND_4(tensors_for_devices_of_others, tensors_for_devices_of_others)

/* What was given away is the segment's memory, which the other processes read: it stays while the
 * runtime, the meetings and the others go. */
static void tensors_outlive_their_job(void)
{
  enum { COUNT = 100000 };
  tsr_runtime *rt = among_open(2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_array *cut = tsr_iota(s, TSR_F64, TSR_SHAPE(COUNT), 0, tsr_on(mesh, "x"));
  int first = 2 * tsr_process_index(rt), devices = 2 * tsr_process_count(rt);
  int64_t rows = (COUNT + devices - 1) / devices;
  tsr_dl_managed *kept, *spare;
  CHECK_STATUS(tsr_to_dlpack(cut, first, &kept), TSR_OK, s);
  CHECK_STATUS(tsr_to_dlpack(tsr_add(cut, 1), first + 1, &spare), TSR_OK, s);
  tsr_runtime_close(rt);
  const double *values = kept->tensor.data;
  CHECK_I64(kept->tensor.shape[0], rows);
  for (int64_t k = 0; k < rows; k++) CHECK_F64_BITS(values[k], (double)(first * rows + k));
  spare->deleter(spare);
  CHECK_F64_BITS(values[rows - 1], (double)(first * rows + rows - 1));
  kept->deleter(kept);
}

AMONG_2_AND_4(tensors_outlive_their_job, tensors_outlive_their_job)
