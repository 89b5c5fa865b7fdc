/* Orders of devices from how they are wired, beside those of JAX. */
#include "support/topology_fixture.h"

#include <stdio.h>
#include <stdlib.h>

/* "4x4x8" as sizes; how many. */
static int sizes_of(const char *text, int64_t *out)
{
  int count = 0;
  for (char *end; *text; text = *end ? end + 1 : end) out[count++] = strtoll(text, &end, 10);
  return count;
}

static tsr_mesh_opts opts_of(const char *grid, const char *mesh)
{
  static const char *const names[] = { "a", "b", "c", "d", "e" };
  tsr_mesh_opts opts = { .size = sizeof opts };
  opts.grid_rank = sizes_of(grid, opts.grid);
  opts.axis_count = sizes_of(mesh, opts.sizes);
  memcpy(opts.names, names, (size_t)opts.axis_count * sizeof *names);
  return opts;
}

TEST(orders_on_a_torus_are_those_of_jax)
{
  char *file = test_read(test_file("golden/orders.txt"), NULL), *at = file;
  int rows = 0;
  for (char *next; at && *at; at = next) {
    char grid[32], mesh[32], how[8];
    int used;
    if ((next = strchr(at, '\n'))) *next++ = '\0';
    CHECK_I64(sscanf(at, "%31s %31s %7s %n", grid, mesh, how, &used), 3);
    tsr_mesh_opts opts = opts_of(grid, mesh);
    opts.split = !strcmp(how, "split");
    tsr_runtime *rt = fixture_devices("cpu:1024");
    tsr_mesh *made = tsr_mesh_make_with(rt, &opts);
    if (tsr_mesh_status(made)) FAIL("%s %s: %s", grid, mesh, tsr_mesh_message(made));
    at += used;
    for (int p = 0; p < tsr_mesh_device_count(made); p++)
      if (tsr_mesh_device(made, p) != (int)strtol(at, &at, 10) || (*at && *at++ != ','))
        FAIL("%s on %s: position %d", mesh, grid, p);
    tsr_runtime_close(rt);
    rows++;
  }
  CHECK(rows > 25);
  free(file);
}

/* ---- rings ---- */

/* Whether two devices of a grid are neighbours, its ends joined or not. */
static bool neighbours(const tsr_mesh_opts *opts, int x, int y, bool joined)
{
  int steps = 0;
  for (int p = opts->grid_rank - 1; p >= 0; p--) {
    int size = (int)opts->grid[p], apart = abs(x % size - y % size);
    if (joined && size - apart < apart) apart = size - apart;
    steps += apart;
    x /= size;
    y /= size;
  }
  return steps == 1;
}

TEST(rings_go_from_neighbour_to_neighbour)
{
  static const struct {
    const char *grid, *mesh;
    bool closed; /* it comes home, even where the grid's ends are not joined */
  } rows[] = {
    { "2x4", "8", true },     { "4x2", "8", true },        { "4x4", "4x4", true },
    { "2x2", "4", true },     { "6x5", "30", true },       { "3x3", "9", false },
    { "1x8", "8", false },    { "8", "8", false },         { "2x2x2", "8", false },
    { "4x3x5", "60", false }, { "2x2x2x2", "4x4", false },
  };
  tsr_runtime *rt = fixture_devices("cpu:64");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_mesh_opts opts = opts_of(rows[i].grid, rows[i].mesh);
    opts.ring = true;
    tsr_mesh *mesh = tsr_mesh_make_with(rt, &opts);
    CHECK_STR(tsr_mesh_message(mesh), "");
    int count = tsr_mesh_device_count(mesh);
    bool seen[64] = { false };
    for (int p = 0; p < count; p++) {
      CHECK(!seen[tsr_mesh_device(mesh, p)]);
      seen[tsr_mesh_device(mesh, p)] = true;
      if (p)
        CHECK(neighbours(&opts, tsr_mesh_device(mesh, p - 1), tsr_mesh_device(mesh, p), false));
    }
    CHECK(neighbours(&opts, tsr_mesh_device(mesh, count - 1), 0, !rows[i].closed) || count == 9);
  }
  tsr_mesh_opts tray = opts_of("2x4", "8");
  tray.ring = true;
  static const int expected[8] = { 0, 1, 2, 3, 7, 6, 5, 4 };
  tsr_mesh *mesh = tsr_mesh_make_with(rt, &tray);
  for (int p = 0; p < 8; p++) CHECK_I64(tsr_mesh_device(mesh, p), expected[p]);
  tsr_runtime_close(rt);
}

/* ---- several processes ---- */

/* Each process has a block of the mesh, in the order that it has by itself. */
TEST(hybrid_meshes_are_blocks_of_processes)
{
  static const int by_rows[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
  static const int by_columns[8] = { 0, 1, 4, 5, 2, 3, 6, 7 };
  tsr_runtime *rt = fixture_devices("cpu:4");
  CHECK(tsr__topology_spread(rt, 2, 0));
  tsr_mesh_opts rows = opts_of("", "4x2"), columns = opts_of("", "2x4");
  rows.outer[0] = 2;
  columns.outer[1] = 2;
  for (int p = 0; p < 8; p++) {
    CHECK_I64(tsr_mesh_device(tsr_mesh_make_with(rt, &rows), p), by_rows[p]);
    CHECK_I64(tsr_mesh_device(tsr_mesh_make_with(rt, &columns), p), by_columns[p]);
  }
  tsr_runtime_close(rt);
}

TEST(hybrid_meshes_wire_each_process_alike)
{
  static const struct {
    const char *mesh, *inner, *text;
    int axis; /* along which there are two processes */
  } rows[] = { { "2x16x4", "1x16x4", "a=2,b=16,c=4", 0 },
               { "1x8x16", "1x4x16", "a=1,b=8,c=16", 1 } };
  tsr_runtime *rt = fixture_devices("cpu:64"), *alone = fixture_devices("cpu:64");
  CHECK(tsr__topology_spread(rt, 2, 1));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_mesh_opts both = opts_of("4x4x4", rows[i].mesh), one = opts_of("4x4x4", rows[i].inner);
    both.outer[rows[i].axis] = 2;
    tsr_mesh *mesh = tsr_mesh_make_with(rt, &both), *inner = tsr_mesh_make_with(alone, &one);
    CHECK_STR(tsr_mesh_message(mesh), "");
    CHECK_STR(tsr_mesh_text(mesh), rows[i].text);
    for (int p = 0; p < 128; p++)
      CHECK_I64(tsr_mesh_device(mesh, p), p / 64 * 64 + tsr_mesh_device(inner, p % 64));
  }
  tsr_runtime_close(alone);
  tsr_runtime_close(rt);
}

TEST(bad_wires_say_what_is_wrong)
{
  static const struct {
    const char *grid, *mesh;
    int outer;
    bool split;
    const char *text;
  } rows[] = {
    { "4x4", "8x2", 0, false,
      "mesh: axes of 8x2 do not fit whole axes of a grid of 4x4; set .split to allow parts of grid "
      "dims" },
    { "3x4", "2x6", 0, true, "" },
    { "9x4", "2x18", 0, true, "" },
    { "4x4", "8", 0, false, "mesh: the grid has 4x4 devices, expected as many as the axes 8" },
    { "4x0", "8", 0, false, "mesh: the grid has 4x0 devices, expected as many as the axes 8" },
    { "4x-1", "8", 0, false, "mesh: the grid has 4x-1 devices, expected as many as the axes 8" },
    { "8", "8", 3, false, "mesh: .outer is 3 along axis 0, expected a divisor of its size 8" },
    { "8", "8", -1, false, "mesh: .outer is -1 along axis 0, expected a divisor of its size 8" },
    { "8", "8", 2, false, "mesh: the grid has 8 devices, expected as many as the axes 4" },
  };
  tsr_runtime *rt = fixture_devices("cpu:64");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_mesh_opts opts = opts_of(rows[i].grid, rows[i].mesh);
    opts.outer[0] = rows[i].outer;
    opts.split = rows[i].split;
    CHECK_STR(tsr_mesh_message(tsr_mesh_make_with(rt, &opts)), rows[i].text);
  }
  tsr_mesh_opts opts = opts_of("8", "8");
  opts.devices = (int[8]){ 0, 1, 2, 3, 4, 5, 6, 7 };
  CHECK_STR(tsr_mesh_message(tsr_mesh_make_with(rt, &opts)),
            "mesh \"a=8\": .grid or .outer gives the order of the devices; leave out the list of "
            "devices, and .abstract");
  opts = opts_of("8", "8");
  opts.grid_rank = 9;
  CHECK_STR(tsr_mesh_message(tsr_mesh_make_with(rt, &opts)),
            "mesh: the grid has 9 dims, expected 1 to 8");
  tsr_runtime_close(rt);
}
