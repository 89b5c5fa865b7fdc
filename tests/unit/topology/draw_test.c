/* Shardings as drawings: JAX's, and what JAX does not draw. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera.h"
#include "topology/topology.h"

/* ---- JAX's drawings ---- */

/* A line of drawings.txt: "--- name shape mesh spec ids options kind". */
typedef struct golden {
  char name[32], shape[32], mesh[32], spec[32], ids[128], options[32], kind[8];
} golden;

static tsr_shape shape_of(const char *text)
{
  tsr_shape shape = { 0 };
  for (char *end; *text; text = *end ? end + 1 : end)
    shape.dims[shape.rank++] = strtoll(text, &end, 10);
  return shape;
}

/* A mesh of these devices, also of numbers that no runtime here has: drawings ask nothing else. */
static tsr_mesh *mesh_of(tsr_runtime *rt, const golden *g)
{
  tsr_mesh *mesh = tsr_mesh_make(rt, g->mesh);
  const char *at = g->ids;
  CHECK_STATUS(tsr_mesh_status(mesh), TSR_OK, NULL);
  for (int p = 0; p < mesh->device_count; p++) {
    char *end;
    mesh->devices[p] = (int)strtol(at, &end, 10);
    at = *end ? end + 1 : end;
  }
  return mesh;
}

static void check_golden(const golden *g, const char *expected)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:32");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_draw_opts opts = { .size = sizeof opts };
  if (sscanf(g->options, "scale=%lf", &opts.scale) +
          sscanf(g->options, "min_width=%d", &opts.min_width) +
          sscanf(g->options, "max_width=%d", &opts.max_width) ==
      0)
    CHECK_STR(g->options, "-");
  strcpy(tsr__topology_of(rt)->kinds[0].name, g->kind);
  tsr_sharding sharding = tsr_on(mesh_of(rt, g), g->spec);
  const char *text = tsr_visualize_sharding_with(s, sharding, shape_of(g->shape), &opts, TSR_HERE);
  if (strcmp(text, expected) != 0) printf("# %s\n", g->name);
  CHECK_STR(text, expected);
  tsr_runtime_close(rt);
}

TEST(drawings_are_those_of_jax)
{
  char *file = test_read(test_file("golden/drawings.txt"), NULL), *at = file;
  int count = 0;
  while (at && *at) {
    golden g;
    CHECK_I64(sscanf(at, "--- %31s %31s %31s %31s %127s %31s %7s", g.name, g.shape, g.mesh, g.spec,
                     g.ids, g.options, g.kind),
              7);
    char *text = strchr(at, '\n') + 1, *next = strstr(text, "\n--- ");
    if (next) *next++ = '\0';
    char *expected = malloc(strlen(text) + 2);
    sprintf(expected, next ? "%s\n" : "%s", text);
    check_golden(&g, expected);
    free(expected);
    at = next;
    count++;
  }
  CHECK_I64(count, 25);
  free(file);
}

/* ---- what JAX does not draw ---- */

typedef struct drawn {
  const char *mesh, *spec;
  tsr_shape shape;
  tsr_draw_opts opts;
  const char *text;
} drawn;

static void check_drawn(const drawn *rows, int count)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  for (int i = 0; i < count; i++)
    CHECK_STR(tsr_visualize_sharding_with(s, tsr_on(tsr_mesh_make(rt, rows[i].mesh), rows[i].spec),
                                          rows[i].shape, &rows[i].opts, TSR_HERE),
              rows[i].text);
  tsr_runtime_close(rt);
}

TEST(any_rank_is_drawn)
{
  static const drawn rows[] = {
    { "x=2",
      "",
      { .rank = 0 },
      { 0 },
      "┌───────────────────────┐\n"
      "│        CPU 0,1        │\n"
      "└───────────────────────┘\n" },
    { "x=2,y=2",
      "x,-,y",
      { 3, { 5, 4, 4 } },
      { .scale = 0.5 },
      "[0:3, :, :]\n"
      "┌───────┬───────┐\n"
      "│       │       │\n"
      "│ CPU 0 │ CPU 1 │\n"
      "│       │       │\n"
      "│       │       │\n"
      "└───────┴───────┘\n"
      "[3:5, :, :]\n"
      "┌───────┬───────┐\n"
      "│       │       │\n"
      "│ CPU 2 │ CPU 3 │\n"
      "│       │       │\n"
      "│       │       │\n"
      "└───────┴───────┘\n" },
  };
  check_drawn(rows, 2);
}

TEST(uneven_parts_are_drawn_by_their_size)
{
  static const drawn rows[] = {
    { "x=4",
      "x",
      { 2, { 10, 10 } },
      { 0 },
      "┌───────────────────────┐\n"
      "│         CPU 0         │\n"
      "│                       │\n"
      "├───────────────────────┤\n"
      "│         CPU 1         │\n"
      "│                       │\n"
      "├───────────────────────┤\n"
      "│         CPU 2         │\n"
      "├───────────────────────┤\n"
      "│         CPU 3         │\n"
      "└───────────────────────┘\n" },
    { "x=4",
      "x",
      { 1, { 2 } },
      { .scale = 4 },
      "┌───────────────────────┬───────────────────────┬───────┬───────┐\n"
      "│         CPU 0         │         CPU 1         │ CPU 2 │ CPU 3 │\n"
      "└───────────────────────┴───────────────────────┴───────┴───────┘\n" },
  };
  check_drawn(rows, 2);
}

/* Labels wrap at their commas, and columns that no line holds go into bands. */
TEST(what_is_too_wide_wraps)
{
  static const drawn rows[] = {
    { "x=8",
      "",
      { 1, { 8 } },
      { .width = 12 },
      "┌──────────┐\n"
      "│CPU 0,1,2,│\n"
      "│3,4,5,6,7 │\n"
      "└──────────┘\n" },
    { "x=4",
      "x",
      { 1, { 8 } },
      { .width = 13 },
      "[0:4]\n"
      "┌─────┬─────┐\n"
      "│CPU 0│CPU 1│\n"
      "└─────┴─────┘\n"
      "[4:8]\n"
      "┌─────┬─────┐\n"
      "│CPU 2│CPU 3│\n"
      "└─────┴─────┘\n" },
    { "x=2",
      "x",
      { 1, { 8 } },
      { .width = 1 },
      "[0:4]\n"
      "┌─────┐\n"
      "│CPU 0│\n"
      "└─────┘\n"
      "[4:8]\n"
      "┌─────┐\n"
      "│CPU 1│\n"
      "└─────┘\n" },
  };
  check_drawn(rows, 3);
}

TEST(colours_need_no_box)
{
  static const drawn rows[] = { { "x=2",
                                  "x",
                                  { 1, { 8 } },
                                  { .colour = true },
                                  "\033[48;5;25m\033[38;5;15m         \033[0m"
                                  "\033[48;5;208m\033[38;5;0m         \033[0m\n"
                                  "\033[48;5;25m\033[38;5;15m  CPU 0  \033[0m"
                                  "\033[48;5;208m\033[38;5;0m  CPU 1  \033[0m\n"
                                  "\033[48;5;25m\033[38;5;15m         \033[0m"
                                  "\033[48;5;208m\033[38;5;0m         \033[0m\n" } };
  check_drawn(rows, 1);
}

#define SVG_HEAD(width, height)                                                                 \
  "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"" width "\" height=\"" height \
  "\" viewBox=\"0 0 " width " " height                                                          \
  "\" font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13\" "                  \
  "text-anchor=\"middle\">\n"
#define SVG_STYLE                                                                  \
  "<style>.ink{fill:#24292f}.empty{fill:none;stroke:#808080;stroke-dasharray:4 3}" \
  "@media(prefers-color-scheme:dark){.ink{fill:#e6edf3}}</style>\n"

/* tests/python/drawings_test.py checks random drawings. */
TEST(svg_documents_stand_alone)
{
  static const drawn rows[] = {
    { "x=2,y=2",
      "x",
      { 1, { 1 } },
      { .svg = true, .width = 24 },
      SVG_HEAD("192", "40") "<title>[1]@(x) on mesh x=2,y=2</title>\n" SVG_STYLE
                            "<g><title>[0:1]</title><rect x=\"1\" y=\"1\" width=\"106\" "
                            "height=\"38\" rx=\"3\" fill=\"#005faf\"/>"
                            "<text x=\"54\" y=\"25\" fill=\"#fff\">CPU 0,1</text></g>\n"
                            "<g><title>[1:1]</title><rect x=\"109\" y=\"1\" width=\"82\" "
                            "height=\"38\" rx=\"3\" class=\"empty\"/>"
                            "<text x=\"150\" y=\"25\" class=\"ink\">CPU 2,3</text></g>\n</svg>\n" },
  };
  check_drawn(rows, 1);
}

/* An array without a mesh lies on one device. The drawing of an array is the drawing of its
 * sharding. */
TEST(svg_of_arrays)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STR_HAS(tsr_visualize(tsr_num(s, 1), .svg = true), "<title>[] on one device</title>");
  tsr_sharding on = tsr_on(tsr_mesh_make(rt, "x=2,y=2"), "y,x");
  tsr_array *a = tsr_full(s, 1, TSR_F32, TSR_SHAPE(4, 5), on);
  const char *text = tsr_visualize(a, .svg = true, .scale = 2);
  CHECK_STR(text, tsr_visualize_sharding(s, on, TSR_SHAPE(4, 5), .svg = true, .scale = 2));
  CHECK_STR_HAS(text, "height=\"400\"");
  /* The option .colour of terminals changes no SVG. */
  CHECK_STR(text, tsr_visualize(a, .svg = true, .scale = 2, .colour = true));
  tsr_runtime_close(rt);
}

/* Names of axes are the only text of users in a document. Nothing in it is escaped, since no name
 * has a byte that XML reads as markup. */
TEST(svg_has_no_name_that_is_markup)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  int accepted = 0;
  for (int byte = 1; byte < 256; byte++) {
    tsr_scope *s = tsr_scope_open(rt);
    const char name[] = { 'a', (char)byte, 0 };
    tsr_mesh_opts opts = {
      .size = sizeof opts, .axis_count = 1, .names = { name }, .sizes = { 2 }
    };
    tsr_mesh *mesh = tsr_mesh_make_with(rt, &opts);
    const char *text = tsr_visualize_sharding(s, tsr_on(mesh, name), TSR_SHAPE(2), .svg = true);
    bool plain = byte < 128 && !strchr("<>&\"'", byte) && byte > ' ';
    if (tsr_mesh_status(mesh)) CHECK_STR(text, tsr_message(s));
    else if (!plain) FAIL("a name may have the byte %d", byte);
    else CHECK_STR_HAS(text, name);
    accepted += !tsr_mesh_status(mesh);
    tsr_scope_close(s);
  }
  CHECK_I64(accepted, 2 * 26 + 10 + 1);
  tsr_runtime_close(rt);
}

/* Every device stands once in a drawing, whatever is drawn. */
static void check_devices_once(const char *text, int count)
{
  int seen[64] = { 0 };
  for (const char *at = text; *at; at++) {
    if (*at == '[') at = strchr(at, ']');
    if (*at < '0' || *at > '9') continue;
    char *end;
    long id = strtol(at, &end, 10);
    CHECK(id < count);
    seen[id]++;
    at = end - 1;
  }
  for (int d = 0; d < count; d++) CHECK_I64(seen[d], 1);
}

TEST(each_device_is_drawn_once)
{
  static const char *const meshes[] = { "a=2,b=2,c=2", "a=8", "a=1,b=4,c=2", "a=3,b=2" };
  static const char *const specs[] = { "a", "-,a", "-,-,a", "-,-,-,a", "-;sum(a)" };
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  test_rng rng = test_seeded(3);
  for (int round = 0; round < 300; round++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_mesh *mesh = tsr_mesh_make(rt, meshes[round % 4]);
    tsr_shape shape = { .rank = 1 + (int)test_range(&rng, 0, 3) };
    for (int d = 0; d < shape.rank; d++) shape.dims[d] = test_range(&rng, 0, 19);
    tsr_sharding on = tsr_on(mesh, specs[test_range(&rng, 0, 4)]);
    if (on.rank > shape.rank) on = tsr_on(mesh, "a");
    const char *text =
        tsr_visualize_sharding(s, on, shape, .width = 20 + (int)test_range(&rng, 0, 79),
                               .scale = 0.3);
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    check_devices_once(text, tsr_mesh_device_count(mesh));
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(arrays_draw_themselves)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");
  tsr_array *a = tsr_full(s, 1, TSR_F32, TSR_SHAPE(4, 4), tsr_on(mesh, "x,y"));
  CHECK_STR(tsr_visualize(a, .scale = 0.3), "┌───────┬───────┐\n"
                                            "│ CPU 0 │ CPU 1 │\n"
                                            "├───────┼───────┤\n"
                                            "│ CPU 2 │ CPU 3 │\n"
                                            "└───────┴───────┘\n");
  CHECK_STR_HAS(tsr_visualize(tsr_num(s, 1)), "│         CPU 0         │\n");
  tsr_runtime_close(rt);
}

TEST(bad_drawings_say_why)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4"), *other = tsr_runtime_open("cpu:2");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  const struct {
    tsr_sharding on;
    tsr_shape shape;
    tsr_draw_opts opts;
    const char *text;
  } rows[] = {
    { tsr_on(mesh, "y"),
      { 1, { 8 } },
      { 0 },
      "TSR_EAXIS: tsr_visualize_sharding: spec \"y\": no axis 'y'" },
    { tsr_on(mesh, "-,x"),
      { 1, { 8 } },
      { 0 },
      "TSR_ESHAPE: tsr_visualize_sharding: spec (-,x) names 2 dims, but [8] has 1" },
    { tsr_on(mesh, "?"), { 1, { 8 } }, { 0 }, "spec (?) leaves dim 0 to the planner ('?')" },
    { tsr_on(mesh, "x"), { 1, { -8 } }, { 0 }, "TSR_ESHAPE: tsr_visualize_sharding: " },
    { tsr_on(mesh, "x"), { 1, { 8 } }, { .scale = -1 }, ".scale is -1, expected 0" },
    { tsr_on(mesh, "x"), { 1, { 8 } }, { .width = -3 }, ".width is -3 characters, expected 0" },
    { tsr_on(mesh, "x"), { 1, { 8 } }, { .max_width = 20000 }, ".width is 20000 characters" },
    { tsr_on(tsr_mesh_make(other, "x=2"), "x"),
      { 1, { 8 } },
      { 0 },
      "the mesh x=2 belongs to another runtime" },
    { tsr_on(tsr_mesh_abstract(rt, "x=20000"), "x"),
      { 1, { 8 } },
      { 0 },
      "mesh x=20000 has 20000 devices, expected at most 16384 for a drawing" },
  };
  for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_draw_opts opts = rows[i / 2].opts;
    opts.svg = i % 2;
    const char *text =
        tsr_visualize_sharding_with(s, rows[i / 2].on, rows[i / 2].shape, &opts, TSR_HERE);
    CHECK_STR_HAS(text, rows[i / 2].text);
    CHECK_STR(text, tsr_message(s));
    tsr_scope_close(s);
  }
  tsr_runtime_close(other);
  tsr_runtime_close(rt);
}
