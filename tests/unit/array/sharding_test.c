/* What may be asked of shardings and meshes: values of JAX's own tests, and what JAX has not. */
#include <stdio.h>
#include <stdlib.h>

#include "support/topology_fixture.h"

/* Devices in order, on four by two. */
static tsr_mesh *four_by_two(tsr_runtime *rt)
{
  return tsr_mesh_make(rt, "x=4,y=2");
}

/* ---- index maps ---- */

/* A spec, the shape of its parts, the start of each device's part and the number of its copies
 * before it. */
typedef struct index_row {
  const char *spec;
  int64_t part[2];
  int64_t starts[8][2];
  int replicas[8];
} index_row;

static const index_row rows_8x2[] = {
  { "x,y",
    { 2, 1 },
    { { 0, 0 }, { 0, 1 }, { 2, 0 }, { 2, 1 }, { 4, 0 }, { 4, 1 }, { 6, 0 }, { 6, 1 } },
    { 0 } },
  { "x",
    { 2, 2 },
    { { 0 }, { 0 }, { 2 }, { 2 }, { 4 }, { 4 }, { 6 }, { 6 } },
    { 0, 1, 0, 1, 0, 1, 0, 1 } },
  { "y",
    { 4, 2 },
    { { 0 }, { 4 }, { 0 }, { 4 }, { 0 }, { 4 }, { 0 }, { 4 } },
    { 0, 0, 1, 1, 2, 2, 3, 3 } },
  { "-,y",
    { 8, 1 },
    { { 0, 0 }, { 0, 1 }, { 0, 0 }, { 0, 1 }, { 0, 0 }, { 0, 1 }, { 0, 0 }, { 0, 1 } },
    { 0, 0, 1, 1, 2, 2, 3, 3 } },
  { "x+y", { 1, 2 }, { { 0 }, { 1 }, { 2 }, { 3 }, { 4 }, { 5 }, { 6 }, { 7 } }, { 0 } },
  { "", { 8, 2 }, { { 0 } }, { 0, 1, 2, 3, 4, 5, 6, 7 } },
};

TEST(index_maps_are_those_of_jax)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  for (size_t i = 0; i < sizeof rows_8x2 / sizeof *rows_8x2; i++) {
    const index_row *row = &rows_8x2[i];
    tsr_sharding on = tsr_on(four_by_two(rt), row->spec);
    tsr_box boxes[8], one;
    CHECK_STATUS(tsr_shard_boxes(&on, TSR_SHAPE(8, 2), boxes, 8), TSR_OK, NULL);
    for (int p = 0; p < 8; p++) {
      for (int d = 0; d < 2; d++) {
        CHECK_I64(boxes[p].start[d], row->starts[p][d]);
        CHECK_I64(boxes[p].size[d], row->part[d]);
      }
      CHECK_STATUS(tsr_shard_box(&on, TSR_SHAPE(8, 2), p, &one), TSR_OK, NULL);
      CHECK_BYTES(&one, &boxes[p], sizeof one);
      CHECK_I64(tsr_shard_replica(&on, p), row->replicas[p]);
    }
    CHECK(tsr_sharding_replicated(&on) == !*row->spec);
    CHECK(tsr_sharding_addressable(&on));
    CHECK_STATUS(tsr_shard_boxes(&on, TSR_SHAPE(8, 2), boxes, 7), TSR_EARG, NULL);
    CHECK_I64(tsr_shard_replica(&on, 8), -1);
    CHECK_I64(tsr_shard_replica(&on, -1), -1);
  }
  tsr_runtime_close(rt);
}

TEST(parts_have_the_shapes_of_jax)
{
  static const struct {
    const char *spec;
    int64_t dims[2];
  } rows[] = { { "x,y", { 2, 2 } }, { "x", { 2, 4 } },   { "y", { 4, 4 } }, { "-,y", { 8, 2 } },
               { "-,x", { 8, 1 } }, { "x+y", { 1, 4 } }, { "", { 8, 4 } } };
  tsr_runtime *rt = fixture_devices("cpu:8");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_sharding on = tsr_on(four_by_two(rt), rows[i].spec);
    tsr_shape part;
    CHECK_STATUS(tsr_shard_shape(&on, TSR_SHAPE(8, 4), &part), TSR_OK, NULL);
    CHECK_I64(part.rank, 2);
    CHECK_BYTES(part.dims, rows[i].dims, sizeof rows[i].dims);
  }
  tsr_runtime_close(rt);
}

/* The order of tiles: y major, x minor. */
TEST(tiles_follow_the_axes_of_a_spec)
{
  static const int tiles[8] = { 0, 2, 4, 6, 1, 3, 5, 7 };
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_sharding on = tsr_on(four_by_two(rt), "y,x");
  CHECK_I64(tsr__dim_parts(&on, 0), 2);
  CHECK_I64(tsr__dim_parts(&on, 1), 4);
  for (int tile = 0; tile < 8; tile++) {
    tsr_box box;
    int position = tiles[tile];
    CHECK_I64(tsr__dim_index(&on, 0, position) * 4 + tsr__dim_index(&on, 1, position), tile);
    CHECK_STATUS(tsr_shard_box(&on, TSR_SHAPE(8, 4), position, &box), TSR_OK, NULL);
    CHECK_I64(box.start[0], tile / 4 * 4);
    CHECK_I64(box.start[1], tile % 4);
  }
  tsr_runtime_close(rt);
}

/* JAX refuses what does not divide; here that is legal, and an error where strictness is asked. */
TEST(uneven_shapes_are_legal_unless_strict)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_sharding loose = tsr_on(four_by_two(rt), "x,y");
  tsr_sharding strict = tsr_on(four_by_two(rt), "x,y", .strict = true);
  tsr_sharding square = tsr_on(tsr_mesh_make(rt, "x=2,y=2"), "x,y", .strict = true);
  tsr_shape shape = TSR_SHAPE(8, 3), part = { 0 };
  tsr_box boxes[8];
  CHECK_STATUS(tsr_shard_shape(&loose, shape, &part), TSR_OK, NULL);
  CHECK_I64(part.dims[0], 2);
  CHECK_I64(part.dims[1], 2);
  CHECK_STATUS(tsr_shard_shape(&strict, shape, &part), TSR_ESHAPE, NULL);
  CHECK_STATUS(tsr_shard_boxes(&square, TSR_SHAPE(1, 2), boxes, 4), TSR_ESHAPE, NULL);
  tsr__error error = { 0 };
  CHECK_STATUS(tsr__sharding_check(&square, &TSR_SHAPE(1, 2), &error), TSR_ESHAPE, NULL);
  CHECK_STR(error.text, "dim 0 of [1,2]@(x,y) is 1, not a multiple of axis x = 2 of mesh x=2,y=2; "
                        "the nearest size that divides is 2, or leave strict out");
  tsr_runtime_close(rt);
}

TEST(more_dims_than_the_array_has_are_an_error)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_sharding on = tsr_on(tsr_mesh_make(rt, "a=1,b=1,mdl=2"), "-,mdl,-,-");
  tsr__error error = { 0 };
  tsr_shape out;
  CHECK_STATUS(tsr_shard_shape(&on, TSR_SHAPE(8, 2), &out), TSR_ESHAPE, NULL);
  CHECK_STATUS(tsr__sharding_check(&on, &TSR_SHAPE(8, 2), &error), TSR_ESHAPE, NULL);
  CHECK_STR(error.text,
            "spec (-,mdl,-,-) names 4 dims, but [8,2] has 2; leave out the last 2 (mesh "
            "a=1,b=1,mdl=2)");
  tsr_sharding x = tsr_on(tsr_mesh_make(rt, "x=2"), "x");
  CHECK_STATUS(tsr_shard_shape(&x, TSR_SCALAR, &out), TSR_ESHAPE, NULL);
  tsr_runtime_close(rt);
}

TEST(fully_replicated_is_what_no_axis_cuts)
{
  static const struct {
    const char *mesh, *spec;
    bool whole;
  } rows[] = {
    { "x=1,y=1", "x,y", true },       { "x=2,y=1", "", true },
    { "x=2,y=1", "-", true },         { "x=2,y=1", "-,-", true },
    { "x=1,y=2,z=4", "x,-,-", true }, { "x=1,y=1,z=4", "x,y,-", true },
    { "x=1,y=1,z=4", "x+y,-", true }, { "x=4,y=2", "x,y", false },
    { "x=2,y=1", "x,-", false },      { "x=2,y=1", "x+y,-", false },
    { "x=2,y=1", "x,-,-,-", false },  { "x=2,y=1", "-;sum(x)", false },
    { "x=2,y=1", "-;sum(y)", true },  { "x=2,y=1", "-,?", false },
  };
  tsr_runtime *rt = fixture_devices("cpu:8");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_sharding on = tsr_on(tsr_mesh_make(rt, rows[i].mesh), rows[i].spec);
    CHECK_I64(tsr_sharding_replicated(&on), rows[i].whole);
  }
  CHECK(tsr_sharding_replicated(NULL));
  tsr_sharding bad = tsr_on(four_by_two(rt), "q");
  CHECK(!tsr_sharding_replicated(&bad));
  CHECK(!tsr_sharding_addressable(&bad));
  tsr_runtime_close(rt);
}

TEST(equivalent_shardings_put_the_same_there)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *two = tsr_mesh_make(rt, "x=2,y=1"), *flat = tsr_mesh_make(rt, "p=2");
  tsr_mesh *one = tsr_mesh_make(rt, "x=1"), *all = tsr_mesh_make(rt, "x=8");
  tsr_mesh *turned =
      tsr_mesh_make_with(rt, &(tsr_mesh_opts){ .size = sizeof(tsr_mesh_opts),
                                               .axis_count = 1,
                                               .names = { "x" },
                                               .sizes = { 8 },
                                               .devices = (int[]){ 7, 6, 5, 4, 3, 2, 1, 0 } });
  const struct {
    tsr_sharding a, b;
    bool same;
  } rows[] = {
    { tsr_on(one, "x"), tsr_on_device(rt, 0), true },
    { tsr_on(one, "x"), tsr_on_device(rt, 1), false },
    { tsr_on(two, "x,y"), tsr_on(flat, "p,-"), true },
    { tsr_on(two, "y"), tsr_on(flat, ""), true },
    { tsr_on(two, "x"), tsr_on(two, "x+y"), true },
    { tsr_on(two, "x"), tsr_on(two, "x,-"), true },
    { tsr_on(two, "x,y"), tsr_on_device(rt, 0), false },
    { tsr_on_device(rt, 0), tsr_on(all, ""), false },
    { tsr_on(all, ""), tsr_on(turned, ""), true },
    { tsr_on(all, "x"), tsr_on(turned, "x"), false },
    { tsr_on(two, "-;sum(x)"), tsr_on(two, ""), false },
    { tsr_on(two, "-;sum(y)"), tsr_on(two, ""), true },
    { tsr_on(two, "-;sum(x)"), tsr_on(two, "-,-;sum(x)"), true },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    CHECK_I64(tsr_sharding_same(&rows[i].a, &rows[i].b, TSR_SHAPE(8, 8)), rows[i].same);
    CHECK_I64(tsr_sharding_same(&rows[i].b, &rows[i].a, TSR_SHAPE(8, 8)), rows[i].same);
  }
  tsr_runtime_close(rt);
}

/* ---- specs ---- */

TEST(specs_have_a_canonical_text)
{
  static const struct {
    const char *given;
    int rank;
    const char *text;
  } rows[] = {
    { "x,-;sum(y)", 2, "(x,-;sum(y))" },
    { "( x , - ; sum ( y ) )", 2, "(x,-;sum(y))" },
    { "x;sum(y)", 3, "(x,-,-;sum(y))" },
    { ";sum(y+x)", 0, "(;sum(x+y))" },
    { "(;sum(x))", 2, "(-,-;sum(x))" },
    { "-;sum(y+x)", 1, "(-;sum(x+y))" },
    { "?", 1, "(?)" },
    { "?,x", 2, "(?,x)" },
    { "x+y,?", 2, "(x+y,?)" },
    { "(-,?)", 3, "(-,?,-)" },
    { "?,-,?;sum(x)", 3, "(?,-,?;sum(x))" },
    { "y+x", 1, "(y+x)" },
    { "x;device", 2, "(x,-)" },
    { "x,y;pinned_host", 2, "(x,y;pinned_host)" },
    { "( x , - ; sum ( y ) ; unpinned_host )", 2, "(x,-;sum(y);unpinned_host)" },
    { ";pinned_host", 0, "(;pinned_host)" },
    { "?;unpinned_host", 1, "(?;unpinned_host)" },
  };
  tsr_runtime *rt = fixture_devices("cpu:8");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[128], again[128];
    tsr_sharding on = tsr_on(four_by_two(rt), rows[i].given);
    CHECK_I64(tsr_sharding_text(&on, rows[i].rank, text, sizeof text),
              (int64_t)strlen(rows[i].text));
    CHECK_STR(text, rows[i].text);
    tsr_sharding back = tsr_on(four_by_two(rt), text);
    tsr_sharding_text(&back, rows[i].rank, again, sizeof again);
    CHECK_STR(again, text);
    CHECK(tsr__sharding_equal(&on, &back));
  }
  tsr_runtime_close(rt);
}

TEST(axes_of_size_1_cut_and_add_nothing)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,one=1");
  tsr_sharding a = tsr_on(mesh, "x+one;sum()"), b = tsr_on(mesh, "x;sum(one)"),
               c = tsr_on(mesh, "x");
  CHECK(fixture_bad_spec(a));
  CHECK(tsr__sharding_equal(&b, &c));
  tsr_runtime_close(rt);
}

/* Without a mesh there is nobody to cut a dim. */
TEST(open_dims_need_a_mesh)
{
  tsr_sharding open = tsr_on_with(NULL, "-,?", NULL), sum = tsr_on_with(NULL, "-;sum(x)", NULL);
  CHECK(fixture_bad_spec(open) && fixture_bad_spec(sum));
  CHECK_STR(tsr_mesh_message(open.mesh),
            "a spec names axes, but there is no mesh (NULL); make one with tsr_mesh_make");
}

/* Data lies nowhere while dims are open, and is whole: what asks for a place says so. */
TEST(open_dims_and_sums_are_no_place_for_data)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  const struct {
    tsr_sharding on;
    const char *text;
  } rows[] = {
    { tsr_on(four_by_two(rt), "x,?"), "spec (x,?) leaves dim 1 to the planner ('?'), but data "
                                      "needs a sharding; write '-' or an axis of mesh x=4,y=2" },
    { tsr_on(four_by_two(rt), "x;sum(y)"),
      "spec (x,-;sum(y)) asks for partial sums, but the given data are the values themselves; "
      "leave ';sum' out (mesh x=4,y=2)" },
    { tsr_on(four_by_two(rt), "x;pinned_host"),
      "spec (x,-;pinned_host) asks for memory of kind 'pinned_host', but data lies only in "
      "'device', the default; leave ';pinned_host' out (mesh x=4,y=2)" },
    { tsr_on(tsr_mesh_abstract(rt, "x=4,y=2"), "x"),
      "mesh x=4,y=2 is abstract: sizes without devices, which hold no data; make the mesh with "
      "tsr_mesh_make" },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr__error error = { 0 };
    CHECK(tsr__sharding_check(&rows[i].on, &TSR_SHAPE(8, 8), &error) != TSR_OK);
    CHECK_STR(error.text, rows[i].text);
  }
  tsr_runtime_close(rt);
}

/* ---- memory ---- */

TEST(kinds_of_memory_compare_as_in_jax)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  char *text = test_read(test_file("golden/memory.txt"), NULL), *rest = NULL;
  int lines = 0;
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    char one[64], other[64];
    int rank, same;
    if (*line == '#') continue;
    CHECK_I64(sscanf(line, "%63s %63s %d %d", one, other, &rank, &same), 4);
    tsr_sharding a = tsr_on(four_by_two(rt), one), b = tsr_on(four_by_two(rt), other);
    tsr_shape shape = { rank, { 8, 8 } };
    if (tsr_sharding_same(&a, &b, shape) != (bool)same) FAIL("%s", line);
    if (tsr__same_places(&a, &b, &shape) != (bool)same) FAIL("places of %s", line);
    lines++;
  }
  CHECK_I64(lines, 256);
  tsr_runtime_close(rt);
  free(text);
}

/* Parts of a shape are the same in any memory; a type says which. */
TEST(kinds_of_memory_have_index_maps)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding pinned = tsr_on(four_by_two(rt), "x;pinned_host"),
               plain = tsr_on(four_by_two(rt), "x");
  tsr_box a, b;
  CHECK_STATUS(tsr_shard_box(&pinned, TSR_SHAPE(8, 8), 3, &a), TSR_OK, NULL);
  CHECK_STATUS(tsr_shard_box(&plain, TSR_SHAPE(8, 8), 3, &b), TSR_OK, NULL);
  CHECK_BYTES(&a, &b, sizeof a);
  tsr_type type;
  char text[64];
  CHECK_STATUS(tsr_type_parse(s, four_by_two(rt), "f32[8,8]@(x,-;pinned_host)", &type), TSR_OK, s);
  tsr_type_text(type.dtype, type.shape, &type.on, text, sizeof text);
  CHECK_STR(text, "f32[8,8]@(x,-;pinned_host)");
  CHECK(!tsr__sharding_equal(&type.on, &plain) && tsr__sharding_equal(&type.on, &pinned));
  tsr_sharding nowhere = tsr_on_with(NULL, "-;pinned_host", NULL);
  CHECK(fixture_bad_spec(nowhere) && !fixture_bad_spec(tsr_on_with(NULL, "-;device", NULL)));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- meshes ---- */

TEST(abstract_meshes_have_shardings_and_no_devices)
{
  tsr_runtime *rt = fixture_devices("cpu:2");
  tsr_mesh *mesh = tsr_mesh_abstract(rt, "data=1024,model=64");
  CHECK_STATUS(tsr_mesh_status(mesh), TSR_OK, NULL);
  CHECK(tsr_mesh_is_abstract(mesh) && !tsr_mesh_is_abstract(tsr_mesh_make(rt, "x=2")));
  CHECK_STR(tsr_mesh_text(mesh), "data=1024,model=64");
  CHECK_I64(tsr_mesh_axis_size(mesh, "data"), 1024);
  CHECK_I64(tsr_mesh_device_count(mesh), 65536);
  CHECK_I64(tsr_mesh_device(mesh, 0), -1);
  CHECK(tsr_mesh_abstract(rt, " data=1024, model=64") == mesh);
  CHECK(tsr_mesh_abstract(rt, "x=2") != tsr_mesh_make(rt, "x=2"));
  tsr_sharding on = tsr_on(mesh, "model,data");
  tsr_box box;
  CHECK_STATUS(tsr_shard_box(&on, TSR_SHAPE(128, 4096), 65535, &box), TSR_OK, NULL);
  CHECK_I64(box.start[0], 126);
  CHECK_I64(box.start[1], 4092);
  CHECK(!tsr_sharding_addressable(&on));
  CHECK_I64(tsr_shard_replica(&on, 9), 0);
  CHECK_STR(tsr_mesh_message(tsr_mesh_abstract(rt, "x=1048577")),
            "mesh \"x=1048577\" has 1048577 devices; an abstract mesh has at most 1048576");
  tsr_mesh *both = tsr_mesh_make_with(rt, &(tsr_mesh_opts){ .size = sizeof(tsr_mesh_opts),
                                                            .axis_count = 1,
                                                            .names = { "x" },
                                                            .sizes = { 2 },
                                                            .devices = (int[]){ 0, 1 },
                                                            .abstract = true });
  CHECK_STR(tsr_mesh_message(both), "an abstract mesh has no devices, but a list of devices was "
                                    "given; leave the list or .abstract out");
  tsr_runtime_close(rt);
}

TEST(sub_meshes_keep_axes_and_devices)
{
  static const int order[8] = { 6, 7, 4, 5, 2, 3, 0, 1 };
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make_with(rt, &(tsr_mesh_opts){ .size = sizeof(tsr_mesh_opts),
                                                            .axis_count = 2,
                                                            .names = { "x", "y" },
                                                            .sizes = { 4, 2 },
                                                            .devices = order });
  tsr_mesh *rows = tsr_mesh_sub(mesh, "x", 1, 2), *column = tsr_mesh_sub(mesh, "y", 1, 1);
  CHECK_STR(tsr_mesh_text(rows), "x=2,y=2");
  for (int p = 0; p < 4; p++) CHECK_I64(tsr_mesh_device(rows, p), order[2 + p]);
  CHECK_STR(tsr_mesh_text(column), "x=4,y=1");
  for (int p = 0; p < 4; p++) CHECK_I64(tsr_mesh_device(column, p), order[2 * p + 1]);
  CHECK(tsr_mesh_sub(mesh, "x", 0, 4) == mesh);
  CHECK_STR(tsr_mesh_text(tsr_mesh_sub(tsr_mesh_abstract(rt, "a=99,b=2"), "a", 9, 3)), "a=3,b=2");
  static const struct {
    const char *axis;
    int64_t start, count;
    const char *text;
  } bad[] = {
    { "z", 0, 1, "tsr_mesh_sub: no axis 'z'; the mesh has x=4,y=2" },
    { NULL, 0, 1, "tsr_mesh_sub: no axis ''; the mesh has x=4,y=2" },
    { "x", 4, 1,
      "tsr_mesh_sub: 1 positions from 4 on along axis 'x', expected at least one, all within its 4 "
      "(mesh x=4,y=2)" },
    { "x", 0, 0,
      "tsr_mesh_sub: 0 positions from 0 on along axis 'x', expected at least one, all within its 4 "
      "(mesh x=4,y=2)" },
    { "x", 1, INT64_MAX,
      "tsr_mesh_sub: 9223372036854775807 positions from 1 on along axis 'x', expected at least "
      "one, all within its 4 (mesh x=4,y=2)" },
    { "x", -1, 2,
      "tsr_mesh_sub: 2 positions from -1 on along axis 'x', expected at least one, all within its "
      "4 (mesh x=4,y=2)" },
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CHECK_STR(tsr_mesh_message(tsr_mesh_sub(mesh, bad[i].axis, bad[i].start, bad[i].count)),
              bad[i].text);
  CHECK(!tsr_mesh_sub(NULL, "x", 0, 1));
  tsr_runtime_close(rt);
}

TEST(scopes_have_a_default_mesh)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_scope *s = tsr_scope_open(rt), *inner = tsr_scope_open(s);
  tsr_mesh *mesh = four_by_two(rt), *other = tsr_mesh_make(rt, "x=8");
  tsr_sharding none = tsr_on(inner, "x"), plain = tsr_on(inner, "-");
  CHECK_STR(tsr_mesh_message(none.mesh),
            "a spec names axes, but no scope around has a default mesh; give one to "
            "tsr_scope_use_mesh, or the mesh itself to tsr_on");
  CHECK(!plain.mesh && !tsr_scope_mesh(inner) && !tsr_scope_mesh(NULL));
  tsr_scope_use_mesh(s, mesh);
  CHECK(tsr_scope_mesh(inner) == mesh);
  tsr_sharding on = tsr_on(inner, "x,y", .strict = true),
               same = tsr_on(mesh, "x,y", .strict = true);
  CHECK_BYTES(&on, &same, sizeof on);
  tsr_scope_use_mesh(inner, other);
  CHECK(tsr_on(inner, "x").mesh == other && tsr_on(s, "x").mesh == mesh);
  tsr_scope_use_mesh(inner, NULL);
  CHECK(tsr_on(inner, "x").mesh == mesh);
  tsr_scope_use_mesh(NULL, mesh);
  tsr_scope_use_mesh(inner, other);
  tsr_scope_close(s);
  for (int i = 0; i < 2; i++) CHECK(!tsr_scope_mesh(tsr_scope_open(rt)));
  tsr_runtime_close(rt);
}

/* A mesh whose devices are another process's in part is not addressable here. */
TEST(addressable_is_what_this_process_has)
{
  tsr_runtime *rt = fixture_devices("cpu:4");
  CHECK(tsr__topology_spread(rt, 2, 1));
  tsr_sharding all = tsr_on(tsr_mesh_make(rt, "x=8"), "x");
  tsr_mesh *mine = tsr_mesh_sub(all.mesh, "x", 4, 4);
  tsr_sharding own = tsr_on(mine, "x"), theirs = tsr_on(tsr_mesh_sub(all.mesh, "x", 0, 4), "x");
  CHECK(!tsr_sharding_addressable(&all));
  CHECK(tsr_sharding_addressable(&own));
  CHECK(!tsr_sharding_addressable(&theirs));
  CHECK(tsr_sharding_addressable(NULL));
  tsr_runtime_close(rt);
}

/* ---- types ---- */

TEST(types_are_read_as_they_are_written)
{
  static const char *const rows[] = {
    "f32[8,8]@(x,y)",   "bool[]@()",      "i64[0]@(-)",          "bf16[4,2,3]@(-,x+y,-)",
    "u8[7]@(x;sum(y))", "f64[7,7]@(?,y)", "f16[1000000007]@(x)",
  };
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[128];
    tsr_type type;
    CHECK_STATUS(tsr_type_parse(s, four_by_two(rt), rows[i], &type), TSR_OK, s);
    tsr_type_text(type.dtype, type.shape, &type.on, text, sizeof text);
    CHECK_STR(text, rows[i]);
  }
  tsr_type type;
  CHECK_STATUS(tsr_type_parse(s, NULL, " i8 [ 3 , 4 ] ", &type), TSR_OK, s);
  CHECK(type.dtype == TSR_I8 && type.shape.rank == 2 && type.shape.dims[1] == 4 && !type.on.mesh);
  tsr_runtime_close(rt);
}

TEST(bad_types_say_what_is_wrong)
{
  static const struct {
    const char *text;
    tsr_status status;
    const char *message;
  } rows[] = {
    { "", TSR_EPARSE, "type \"\": expected an element type, found the end" },
    { "f33[8]", TSR_EDTYPE, "type \"f33[8]\": there is no element type 'f33'; there are bool" },
    { "f32", TSR_EPARSE, "expected '[' and sizes, found the end" },
    { "f32[8", TSR_EPARSE, "expected ',' or ']', found the end" },
    { "f32[8,]", TSR_EPARSE, "expected a size, found ']'" },
    { "f32[-1]", TSR_EPARSE, "expected a size, found '-1]'" },
    { "f32[99999999999999999999]", TSR_ESHAPE, "a size is beyond 63 bits" },
    { "f32[9223372036854775807,2]", TSR_ESHAPE, "" },
    { "f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", TSR_ESHAPE,
      "more dims than the 16 an array can have" },
    { "f32[8]x", TSR_EPARSE, "expected '@' or the end, found 'x'" },
    { "f32[8]@x", TSR_EPARSE, "expected a spec in parentheses, found 'x'" },
    { "f32[8]@(q)", TSR_EAXIS, "spec \"(q)\": no axis 'q'; the mesh has x=4,y=2" },
    { "f32[8]@(x,y)", TSR_ESHAPE, "spec (x,y) names 2 dims, but [8] has 1" },
    { "f32[8]@(x", TSR_EAXIS, "found the end" },
  };
  tsr_runtime *rt = fixture_devices("cpu:8");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_type type = { .dtype = TSR_U16 };
    CHECK_STATUS(tsr_type_parse(s, four_by_two(rt), rows[i].text, &type), rows[i].status, s);
    CHECK_STR_HAS(tsr_message(s), rows[i].message);
    CHECK(type.dtype == TSR_U16);
    tsr_scope_close(s);
  }
  tsr_scope *s = tsr_scope_open(rt);
  tsr_type type;
  CHECK_STATUS(tsr_type_parse(s, NULL, NULL, &type), TSR_EARG, s);
  CHECK_STATUS(tsr_type_parse(s, NULL, "f32[]", NULL), TSR_EARG, s);
  tsr_runtime_close(rt);
}

/* Closed scopes are used again: nothing of what they were is left. */
TEST(a_scope_that_is_used_again_has_no_mesh)
{
  tsr_runtime *rt = fixture_devices("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  for (int i = 0; i < 3; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    CHECK(!tsr_scope_mesh(s));
    tsr_scope_use_mesh(s, mesh);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}
