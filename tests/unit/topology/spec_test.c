/* Specs: reading, writing, what is wrong with bad ones, canonical forms. */
#include <stdio.h>
#include <stdlib.h>

#include "support/topology_fixture.h"

/* Reads `spec` on a mesh and writes it for `rank` dims. */
static const char *round_trip(const tsr_mesh *mesh, const char *spec, int rank, char out[512])
{
  tsr_sharding sharding = tsr_on(mesh, spec);
  tsr_shape shape = { .rank = rank };
  tsr__error error = { .status = TSR_OK };

  if (tsr__sharding_check(&sharding, &shape, &error)) FAIL("%s", error.text);
  int length = tsr_sharding_text(&sharding, rank, out, 512);
  CHECK_I64(length, (int64_t)strlen(out));
  return out;
}

TEST(specs_are_read_and_written)
{
  static const struct {
    const char *spec;
    int rank;
    const char *written;
  } rows[] = {
    { "x,y", 2, "(x,y)" },
    { "x", 2, "(x,-)" },
    { "x,-", 2, "(x,-)" },
    { "-,x", 2, "(-,x)" },
    { "-,x+y", 2, "(-,x+y)" },
    { "y+x", 1, "(y+x)" },
    { "x+y+z", 3, "(x+y+z,-,-)" },
    { "", 0, "()" },
    { "", 3, "(-,-,-)" },
    { "-", 0, "()" },
    { "-", 2, "(-,-)" },
    { "-,-", 2, "(-,-)" },
    { "-,-,-,-,-,-,-,x", 8, "(-,-,-,-,-,-,-,x)" },
    { "z,y,x", 3, "(z,y,x)" },
    { " x , y ", 2, "(x,y)" },
    { "\tx\t+ y,z", 2, "(x+y,z)" },
    { "(x,y)", 2, "(x,y)" },
    { "( x , - )", 2, "(x,-)" },
    { "()", 2, "(-,-)" },
    { "  ", 1, "(-)" },
    { "(-)", 1, "(-)" },
    { "(x+y,-,z)", 3, "(x+y,-,z)" },
    { " ( ) ", 0, "()" },
    { "x:p1", 1, "(x:p1)" },
    { "x:p0,y:p3", 2, "(x,y:p3)" },
    { "(x + y : p2 , - , z:p1)", 3, "(x+y:p2,-,z:p1)" },
    { "-,-,-,x:p1,y:p2,-,-,z:p3", 8, "(-,-,-,x:p1,y:p2,-,-,z:p3)" },
  };
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2,z=2");
  char out[512];

  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    CHECK_STR(round_trip(mesh, rows[i].spec, rows[i].rank, out), rows[i].written);
  CHECK_STR(round_trip(mesh, NULL, 2, out), "(-,-)");
  tsr_runtime_close(rt);
}

TEST(axes_are_kept_major_first)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_sharding sharding = tsr_on(tsr_mesh_make(rt, "x=2,y=2,z=2"), "-,z+x,y");
  static const unsigned axes[] = { 0, 5, 2, 0, 0, 0, 0, 0 };
  static const int parts[] = { 1, 4, 2, 1, 1, 1, 1, 1 };

  CHECK_I64(sharding.rank, 3);
  for (int d = 0; d < 8; d++) {
    CHECK_I64(tsr__dim_axes(&sharding, d), axes[d]);
    CHECK_I64(tsr__dim_parts(&sharding, d), parts[d]);
  }
  CHECK_I64(tsr__used_axes(&sharding), 7);
  CHECK_I64(sharding.axis[0], 2);
  CHECK_I64(sharding.axis[1], 0);
  CHECK_I64(sharding.axis[2], 1);
  tsr_runtime_close(rt);
}

TEST(axis_names_are_whole_words)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "da=1,data=2,data_2=2,2=2,_=1");
  char out[512];

  CHECK_STR(round_trip(mesh, "data,da", 2, out), "(data,da)");
  CHECK_STR(round_trip(mesh, "data_2+2,_", 2, out), "(data_2+2,_)");
  CHECK(fixture_bad_spec(tsr_on(mesh, "dat")));
  CHECK(fixture_bad_spec(tsr_on(mesh, "data_")));
  CHECK(fixture_bad_spec(tsr_on(mesh, "Data")));
  tsr_runtime_close(rt);
}

TEST(typed_specs_are_the_same_as_text)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2,z=2");
  static const char *const axes[] = { "x+z", NULL, "y" }, *const loose[] = { " x + z ", "", "y " },
                           *const dashes[] = { "x+z", "-", "y" };
  tsr_sharding text = tsr_on(mesh, "x+z,-,y"), none = tsr_on(mesh, "-,-");
  tsr_sharding typed = tsr_on_dims(mesh, 3, axes), blanks = tsr_on_dims(mesh, 3, loose);
  tsr_sharding dashed = tsr_on_dims(mesh, 3, dashes), nothing = tsr_on_dims(mesh, 2, NULL);

  CHECK_BYTES(&typed, &text, sizeof text);
  CHECK_BYTES(&blanks, &text, sizeof text);
  CHECK_BYTES(&dashed, &text, sizeof text);
  CHECK_BYTES(&nothing, &none, sizeof none);
  CHECK_I64(tsr_on_dims(mesh, 0, NULL).rank, 0);
  CHECK(!fixture_bad_spec(tsr_on_dims(mesh, 0, NULL)));
  CHECK(fixture_bad_spec(tsr_on_dims(mesh, TSR_MAX_RANK + 1, NULL)));
  CHECK(fixture_bad_spec(tsr_on_dims(mesh, -1, NULL)));
  tsr_runtime_close(rt);
}

TEST(spec_text_is_cut_to_its_buffer)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_sharding sharding = tsr_on(tsr_mesh_make(rt, "data=4,model=2"), "data,model");
  char out[8] = "xxxxxxx";

  CHECK_I64(tsr_sharding_text(&sharding, 2, out, 6), 12);
  CHECK_STR(out, "(data");
  CHECK_I64(out[6], 'x');
  CHECK_I64(tsr_sharding_text(&sharding, 2, NULL, 0), 12);
  CHECK_I64(tsr_sharding_text(&sharding, 2, out, 0), 12);
  CHECK_I64(tsr_sharding_text(&sharding, 2, NULL, 10), 12);
  CHECK_STR(out, "(data");
  tsr_runtime_close(rt);
}

TEST(unplaced_and_bad_specs_have_a_text)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_sharding unplaced = { .mesh = NULL }, bad = tsr_on(tsr_mesh_make(rt, "x=2"), "y");
  char out[64];

  tsr_sharding_text(&unplaced, 2, out, sizeof out);
  CHECK_STR(out, "unplaced");
  tsr_sharding_text(NULL, 2, out, sizeof out);
  CHECK_STR(out, "unplaced");
  tsr_sharding_text(&bad, 2, out, sizeof out);
  CHECK_STR(out, "(?)");
  tsr_runtime_close(rt);
}

TEST(without_a_mesh_a_spec_names_nothing)
{
  tsr__error error = { .status = TSR_OK };
  tsr_sharding none = tsr_on(NULL, "-,-"), empty = tsr_on(NULL, ""), null = tsr_on(NULL, NULL);
  tsr_sharding bad = tsr_on(NULL, "-,data"), dims = tsr_on_dims(NULL, 1, &(const char *){ "x" });

  CHECK(!fixture_bad_spec(none) && !fixture_bad_spec(empty) && !fixture_bad_spec(null));
  CHECK_I64(tsr__positions(&none), 1);
  CHECK_STATUS(tsr__sharding_check(&none, &TSR_SHAPE(3, 3), &error), TSR_OK, NULL);
  CHECK(fixture_bad_spec(dims));
  CHECK_STATUS(tsr__sharding_check(&bad, &TSR_SHAPE(3, 3), &error), TSR_EAXIS, NULL);
  CHECK_STR(error.text,
            "a spec names axes, but there is no mesh (NULL); make one with tsr_mesh_make");
}

/* ---- messages ------------------------------------------------------------------------------ */

struct golden {
  const char *spec;
  tsr_shape shape;
  bool strict;
  tsr_status status;
  const char *message;
};

static void check_golden(const tsr_mesh *mesh, const struct golden *row)
{
  tsr_sharding sharding = tsr_on(mesh, row->spec, .strict = row->strict);
  tsr__error error = { .status = TSR_OK };
  tsr_box box;

  tsr_status st = tsr__sharding_check_type(&sharding, TSR_F32, &row->shape, &error);
  CHECK_STR(error.text, row->message);
  CHECK_STATUS(st, row->status, NULL);
  CHECK_STATUS(tsr_shard_box(&sharding, row->shape, 0, &box), row->status, NULL);
}

TEST(bad_specs_say_what_is_wrong)
{
  static const struct golden rows[] = {
    { "x,z", { 2, { 8, 8 } }, false, TSR_EAXIS, "spec \"x,z\": no axis 'z'; the mesh has x=2,y=4" },
    { "x,y,x",
      { 3, { 8, 8, 8 } },
      false,
      TSR_EAXIS,
      "spec \"x,y,x\": axis 'x' is used twice; each axis of mesh x=2,y=4 shards one dim, once" },
    { "x+x",
      { 1, { 8 } },
      false,
      TSR_EAXIS,
      "spec \"x+x\": axis 'x' is used twice; each axis of mesh x=2,y=4 shards one dim, once" },
    { "x,,y",
      { 3, { 8, 8, 8 } },
      false,
      TSR_EAXIS,
      "spec \"x,,y\": an axis name is missing before ','; write '-' for a dim that is not sharded "
      "(mesh x=2,y=4)" },
    { "x,",
      { 2, { 8, 8 } },
      false,
      TSR_EAXIS,
      "spec \"x,\": an axis name is missing at the end; write '-' for a dim that is not sharded "
      "(mesh x=2,y=4)" },
    { "x+",
      { 1, { 8 } },
      false,
      TSR_EAXIS,
      "spec \"x+\": an axis name is missing at the end; write '-' for a dim that is not sharded "
      "(mesh x=2,y=4)" },
    { "x;y",
      { 2, { 8, 8 } },
      false,
      TSR_EAXIS,
      "spec \"x;y\": found 'y' after ';', expected the axes of partial sums, such as 'sum(x)', or "
      "a kind of memory: device, pinned_host or unpinned_host (mesh x=2,y=4)" },
    { "x;sum(y);sum(y)",
      { 2, { 8, 8 } },
      false,
      TSR_EAXIS,
      "spec \"x;sum(y);sum(y)\": found 'sum' after ';', expected the axes of partial sums, such as "
      "'sum(x)', or a kind of memory: device, pinned_host or unpinned_host (mesh x=2,y=4)" },
    { "x;pinned",
      { 2, { 8, 8 } },
      false,
      TSR_EAXIS,
      "spec \"x;pinned\": found 'pinned' after ';', expected the axes of partial sums, such as "
      "'sum(x)', or a kind of memory: device, pinned_host or unpinned_host (mesh x=2,y=4)" },
    { "x;",
      { 2, { 8, 8 } },
      false,
      TSR_EAXIS,
      "spec \"x;\": found the end after ';', expected the axes of partial sums, such as 'sum(x)', "
      "or a kind of memory: device, pinned_host or unpinned_host (mesh x=2,y=4)" },
    { "x;pinned_host y",
      { 2, { 8, 8 } },
      false,
      TSR_EAXIS,
      "spec \"x;pinned_host y\": found 'y', expected dims such as '-', 'x' or 'x+y' with ',' "
      "between them (mesh x=2,y=4)" },
    { "x y",
      { 2, { 8, 8 } },
      false,
      TSR_EAXIS,
      "spec \"x y\": found 'y', expected dims such as '-', 'x' or 'x+y' with ',' between them "
      "(mesh x=2,y=4)" },
    { "(x,y",
      { 2, { 8, 8 } },
      false,
      TSR_EAXIS,
      "spec \"(x,y\": found the end, expected dims such as '-', 'x' or 'x+y' with ',' between them "
      "(mesh x=2,y=4)" },
    { "x\xc3\xa4",
      { 1, { 8 } },
      false,
      TSR_EAXIS,
      "spec \"x\xc3\xa4\": found '?', expected dims such as '-', 'x' or 'x+y' with ',' between "
      "them "
      "(mesh x=2,y=4)" },
    { "-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,x",
      { 1, { 8 } },
      false,
      TSR_EAXIS,
      "spec \"-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,x\": more dims than the 16 an array can have (mesh "
      "x=2,y=4)" },
    { "x,y",
      { 1, { 8 } },
      false,
      TSR_ESHAPE,
      "spec (x,y) names 2 dims, but f32[8] has 1; leave out the last 1 (mesh x=2,y=4)" },
    { "-,-,x",
      { 0, { 0 } },
      false,
      TSR_ESHAPE,
      "spec (-,-,x) names 3 dims, but f32[] has 0; leave out the last 3 (mesh x=2,y=4)" },
  };
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");

  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check_golden(mesh, &rows[i]);
  tsr_runtime_close(rt);
}

TEST(strict_specs_name_the_sizes_that_divide)
{
  static const struct golden rows[] = {
    { "x",
      { 2, { 7, 8 } },
      true,
      TSR_ESHAPE,
      "dim 0 of f32[7,8]@(x,-) is 7, not a multiple of axis x = 2 of mesh x=2,y=4; nearest sizes "
      "that divide are 6 and 8, or leave strict out" },
    { "-,x+y",
      { 2, { 7, 12 } },
      true,
      TSR_ESHAPE,
      "dim 1 of f32[7,12]@(-,x+y) is 12, not a multiple of axes x+y = 8 of mesh x=2,y=4; nearest "
      "sizes that divide are 8 and 16, or leave strict out" },
    { "y,x",
      { 2, { 3, 8 } },
      true,
      TSR_ESHAPE,
      "dim 0 of f32[3,8]@(y,x) is 3, not a multiple of axis y = 4 of mesh x=2,y=4; the nearest "
      "size that divides is 4, or leave strict out" },
    { "y",
      { 1, { INT64_MAX } },
      true,
      TSR_ESHAPE,
      "dim 0 of f32[9223372036854775807]@(y) is 9223372036854775807, not a multiple of axis y = 4 "
      "of mesh x=2,y=4; the nearest size that divides is 9223372036854775804, or leave strict "
      "out" },
    { "x,y", { 2, { 6, 8 } }, true, TSR_OK, "" },
    { "x,y", { 2, { 0, 0 } }, true, TSR_OK, "" },
    { "x,y", { 2, { 7, 9 } }, false, TSR_OK, "" },
    { "-,-", { 2, { 7, 9 } }, true, TSR_OK, "" },
  };
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");

  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check_golden(mesh, &rows[i]);
  tsr_runtime_close(rt);
}

TEST(a_near_axis_name_is_suggested)
{
  static const struct golden row = {
    "dat,-",
    { 2, { 8, 8 } },
    false,
    TSR_EAXIS,
    "spec \"dat,-\": no axis 'dat'; the mesh has data=4,model=2; did you mean 'data'?"
  };
  tsr_runtime *rt = fixture_devices("cpu:8");

  check_golden(tsr_mesh_make(rt, "data=4,model=2"), &row);
  tsr_runtime_close(rt);
}

TEST(a_check_without_type_leaves_it_out)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_sharding strict = tsr_on(tsr_mesh_make(rt, "x=2,y=4"), "x", .strict = true);
  tsr__error error = { .status = TSR_OK };

  CHECK_STATUS(tsr__sharding_check(&strict, &TSR_SHAPE(7), &error), TSR_ESHAPE, NULL);
  CHECK_STR(error.text, "dim 0 of [7]@(x) is 7, not a multiple of axis x = 2 of mesh x=2,y=4; "
                        "nearest sizes that divide are 6 and 8, or leave strict out");
  tsr_runtime_close(rt);
}

/* A long spec is shown around its offence. */
TEST(long_specs_are_shown_where_they_are_wrong)
{
  tsr_runtime *rt = fixture_devices("cpu:1");
  tsr_mesh *mesh = tsr_mesh_make(rt, "a_rather_long_axis_name=1,b_rather_long_axis_name=1");
  static const struct {
    const char *spec, *shown, *word;
  } rows[] = {
    { "a_rather_long_axis_name,nope,b_rather_long_axis_name,-,-",
      "\"a_rather_long_axis_name,nope,b_rather_long_...\"", "'nope'" },
    { "a_rather_long_axis_name,b_rather_long_axis_name,-,nope",
      "\"...ng_axis_name,b_rather_long_axis_name,-,nope\"", "'nope'" },
    { "-,-,an_axis_whose_name_alone_is_longer_than_all_that_fits_here,-,-,-,-",
      "\"...an_axis_whose_name_alone_is_longer_than_all...\"",
      "'an_axis_whose_name_alone_is_longer_than_all'" },
  };

  for (int i = 0; i < 3; i++) {
    tsr_sharding sharding = tsr_on(mesh, rows[i].spec);
    tsr__error error = { .status = TSR_OK };
    tsr__sharding_check(&sharding, &TSR_SHAPE(1, 1, 1, 1, 1, 1, 1), &error);
    CHECK_STR_HAS(error.text, rows[i].shown);
    CHECK_STR_HAS(error.text, rows[i].word);
  }
  tsr_runtime_close(rt);
}

/* ---- bad input ------------------------------------------------------------------------------ */

/* What a bad spec must be: an error with a message, and harmless to whoever forgets to check. */
static void check_bad(tsr_sharding sharding, const char *spec)
{
  tsr_shape shape = TSR_SHAPE(8, 8);
  tsr__error error = { .status = TSR_OK };
  tsr_box box;

  if (!fixture_bad_spec(sharding)) FAIL("spec \"%s\" was taken", spec);
  CHECK_STATUS(tsr__sharding_check(&sharding, &shape, &error), TSR_EAXIS, NULL);
  CHECK(strlen(error.text) > 20 && strlen(error.text) < sizeof error.text - 1);
  for (const char *p = error.text; *p; p++) CHECK((unsigned char)*p >= 0x20 && *p != 0x7f);
  CHECK_I64(tsr__used_axes(&sharding), 0);
  CHECK(tsr__replica_leader(&sharding, 5) <= 5);
  tsr__box(&sharding, &shape, 5, &box);
  CHECK_I64(box.size[0] * box.size[1], 64);
}

TEST(malformed_specs_are_errors)
{
  static const char *const specs[] = {
    ",",
    ",,",
    "x,",
    ",x",
    "x,,y",
    "x,y,",
    ",x,y",
    "+",
    "++",
    "x+",
    "+x",
    "x++y",
    "x+y+",
    "+x+y",
    "x+,y",
    "x,+y",
    "x,y+",
    "-,",
    ",-",
    "--",
    "-x",
    "x-",
    "-+x",
    "x+-",
    "-+-",
    "- -",
    "-,-,",
    "x -",
    "- x",
    "x y",
    "x  y",
    "x\ty",
    "x\ny",
    "x\n",
    "\nx",
    "x\r",
    "x:",
    ":p1",
    "-:p1",
    "?:p1",
    "x:p",
    "x:p4",
    "x:p11",
    "x:1",
    "x:P1",
    "x:y",
    "x:p1+y",
    "x:p1:p1",
    "x:p1 y",
    "x;sum(y):p1",
    "x;sum(y:p1)",
    "z",
    "xy",
    "xx",
    "X",
    "Y",
    "x1",
    "1x",
    "1",
    "0",
    "_",
    "x_",
    "_x",
    "x,z",
    "z,x",
    "x+z",
    "z+x",
    "x,x",
    "x+x",
    "x,y,x",
    "x+y,x",
    "y,x+y",
    "x,-,x",
    "x;y",
    "x/y",
    "x|y",
    "x&y",
    "x*y",
    "x.y",
    "x:y",
    "x=y",
    "x=2",
    "x=2,y=4",
    "x!",
    "!x",
    "#x",
    "x#",
    "$x",
    "%x",
    "%s",
    "%n",
    "%s%s%s%s%n",
    "x@y",
    "~x",
    "x~",
    "`x`",
    "'x'",
    "\"x\"",
    "\"x\",\"y\"",
    "[x]",
    "[x,y]",
    "{x}",
    "<x>",
    "(x",
    "x)",
    "(x))",
    "((x))",
    "((x)",
    "(x)(y)",
    "(x),y",
    "x,(y)",
    "(x,y)z",
    "(x,y),",
    "(,)",
    "(x,)",
    "(,x)",
    "(-",
    "-)",
    ")",
    "(",
    ")(",
    "()()",
    "() x",
    "x ()",
    "None",
    "None,x",
    "null",
    "x,None",
    "P(x)",
    "P('x')",
    "*",
    "x,*",
    "??",
    "?x",
    "x?",
    "x+?",
    "(?",
    "x;",
    "x;y",
    "x;sum",
    "x;sum(",
    "x;sum()",
    "x;sum(y",
    "x;sum(y)z",
    "x;sum(y);sum(y)",
    "x;sum(y+)",
    "x;sum(-)",
    "x;sum(?)",
    "x;sum(x)",
    "x;sum(y+y)",
    "x;max(y)",
    "sum(y)",
    "(x);sum(y)",
    "...",
    "x,...",
    "x\001",
    "\001",
    "x\177",
    "\177x",
    "\x80",
    "x\x80",
    "\xff",
    "\xff\xfe\xfd",
    "\xc3\xa4",
    "x\xc3",
    "\xc3,x",
    "x,\xe2\x82\xac",
    "\xef\xbb\xbfx",
    "x\xc2\xa0,y",
    "x\xef\xbc\x8cy",
    "\xe2\x88\x92",
    "x\xe2\x80\x8b",
    "x\vy",
    "\fx",
    "x\\",
    "\\x",
    "x\\,y",
    "data",
    "data,-",
    "x+y+z",
    "x+y,z",
    "x,y,z",
    "-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-",
    "-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,x",
    "-,-,-,-,-,-,-,-,x,y,-,-,-,-,-,-,-",
    "-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,",
    "-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-)",
    "x,y,x,y,x,y,x,y",
    "x+y+x+y+x+y+x+y+x",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "x,aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "-,-,-,-,-,-,-,                                                                       z",
    "                                                                                     z",
    "x                                                                                    y",
    "x,                                                                                    ",
    "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    "x,\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
  };
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");

  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
    check_bad(tsr_on(mesh, specs[i], .strict = true), specs[i]);
  tsr_runtime_close(rt);
}

/* Options of a caller with a newer header: zeros are defaults, anything else is unknown. */
TEST(options_of_later_versions)
{
  struct {
    tsr_on_opts opts;
    int64_t later;
  } on = { .opts = { .size = sizeof on, .strict = true } };
  struct {
    tsr_mesh_opts opts;
    int64_t later;
  } mesh = { .opts = { .size = sizeof mesh, .axis_count = 1, .names = { "x" }, .sizes = { 2 } } };
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *good = tsr_mesh_make_with(rt, &mesh.opts);
  tsr__error error = { .status = TSR_OK };

  CHECK_STATUS(tsr_mesh_status(good), TSR_OK, NULL);
  CHECK(!fixture_bad_spec(tsr_on_with(good, "x", &on.opts)));
  mesh.later = on.later = 1;
  CHECK_STATUS(tsr_mesh_status(tsr_mesh_make_with(rt, &mesh.opts)), TSR_EUNSUPPORTED, NULL);
  tsr_sharding sharding = tsr_on_with(good, "x", &on.opts);
  CHECK_STATUS(tsr__sharding_check(&sharding, &TSR_SHAPE(2), &error), TSR_EUNSUPPORTED, NULL);
  CHECK_STR_HAS(error.text, "tsr_on: an option is set that version");
  tsr_runtime_close(rt);
}

TEST(malformed_typed_specs_are_errors)
{
  static const char *const dims[] = { "x,y", "x,", "z",  "x+",  "+x",   "x x", "(x)", ")",
                                      "x)",  ",",  "--", "x+x", "\xff", "x+z", "x;",  "x\n" };
  static const char *const twice[] = { "x", "y", "x" };
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");

  for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
    check_bad(tsr_on_dims(mesh, 2, (const char *[]){ NULL, dims[i] }), dims[i]);
  check_bad(tsr_on_dims(mesh, 3, twice), "twice");
  check_bad(tsr_on_dims(mesh, TSR_MAX_RANK + 1, NULL), "too high a rank");
  check_bad(tsr_on_dims(mesh, -1, NULL), "rank -1");
  check_bad(tsr_on_dims(mesh, INT32_MAX, twice), "rank INT32_MAX");
  tsr_runtime_close(rt);
}

/* Cuts a spec into words and signs, a letter each: a name that is not x or y is '?'. */
static void cut_up(const char *spec, char *out)
{
  while (*spec) {
    size_t letters = strspn(spec, "xyz"), blanks = strspn(spec, " ");
    if (letters) *out++ = letters == 1 && *spec != 'z' ? *spec : '?';
    if (!letters && !blanks) *out++ = *spec;
    spec += letters + blanks + (!letters && !blanks);
  }
  *out = '\0';
}

/* A second reader of short specs over axes x and y, by cutting instead of scanning. */
static bool naive_reader(const char *spec)
{
  char t[64];
  int seen[128] = { 0 };

  cut_up(spec, t);
  for (int i = 0; t[i]; i++) {
    bool word = i % 2 == 0;
    if (!strchr(word ? "xy-" : ",+", t[i])) return false;
    if ((t[i] == 'x' || t[i] == 'y') && seen[(int)t[i]]++) return false;
    if (t[i] == '+' && (t[i - 1] == '-' || t[i + 1] == '-')) return false;
    if (!word && !t[i + 1]) return false;
  }
  return true;
}

TEST(random_specs_agree_with_a_second_reader)
{
  static const char letters[] = "xy-,+ xy,z-,+";
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  test_rng rng = test_seeded(7);
  int good = 0;

  for (int i = 0; i < 200000; i++) {
    char spec[32];
    int length = (int)test_range(&rng, 0, 12);
    for (int k = 0; k < length; k++) spec[k] = letters[test_range(&rng, 0, 12)];
    spec[length] = '\0';
    bool expected = naive_reader(spec), found = !fixture_bad_spec(tsr_on(mesh, spec));
    if (found != expected) FAIL("spec \"%s\" should be %s", spec, expected ? "good" : "bad");
    good += expected;
  }
  CHECK(good > 1000);
  tsr_runtime_close(rt);
}

TEST(random_bytes_never_harm)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  test_rng rng = test_seeded(11);
  char *end = (char *)test_guarded(128) + 128; /* a byte past it crashes */

  for (int i = 0; i < (test_quick() ? 5000 : 50000); i++) {
    int length = (int)test_range(&rng, 0, 120);
    char *text = end - length - 1;
    for (int k = 0; k < length; k++) text[k] = (char)test_range(&rng, 1, 255);
    text[length] = '\0';
    tsr_sharding sharding = tsr_on(mesh, text);
    if (fixture_bad_spec(sharding)) check_bad(sharding, text);
    if (i % 100 == 0) CHECK(tsr_mesh_make(rt, text) != NULL);
  }
  tsr_runtime_close(rt);
}

/* ---- priorities ------------------------------------------------------------------------------ */

TEST(priorities_are_what_follows_a_colon)
{
  static const struct {
    const char *spec, *message;
  } rows[] = {
    { "x:", "spec \"x:\": found the end after ':', expected the dim's priority in propagation: p0 "
            "(first), p1, p2 or p3 (mesh x=2,y=4)" },
    { "x:p4,y", "spec \"x:p4,y\": found 'p4' after ':', expected the dim's priority in "
                "propagation: p0 (first), p1, p2 or p3 (mesh x=2,y=4)" },
    { ":p1", "spec \":p1\": an axis name is missing before ':'; write '-' for a dim that is not "
             "sharded (mesh x=2,y=4)" },
    { "-:p1", "spec \"-:p1\": found ':', expected dims such as '-', 'x' or 'x+y' with ',' between "
              "them (mesh x=2,y=4)" },
  };
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    CHECK_STR(tsr_mesh_message(tsr_on(mesh, rows[i].spec).mesh), rows[i].message);
  tsr_sharding on = tsr_on(mesh, "x:p1,y:p3");
  CHECK_I64(tsr__dim_priority(&on, 0), 1);
  CHECK_I64(tsr__dim_priority(&on, 1), 3);
  CHECK_I64(tsr__dim_priority(&on, 2), 0);
  on = tsr_on_dims(mesh, 2, (const char *[]){ NULL, "y:p2" });
  CHECK_I64(tsr__dim_priority(&on, 1), 2);
}

/* They place nothing: what differs in them alone lies alike. An axis of size 1 cuts nothing. */
TEST(priorities_place_nothing)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,one=1,y=4");
  tsr_sharding a = tsr_on(mesh, "x:p1,one:p2,y"), b = tsr_on(mesh, "x,-,y:p3"), canon;
  CHECK(tsr__sharding_equal(&a, &b));
  CHECK(tsr_sharding_same(&a, &b, TSR_SHAPE(8, 8, 8)));
  canon = tsr__sharding_canon(&a);
  CHECK_I64(tsr__dim_priority(&canon, 0), 1);
  CHECK_I64(tsr__dim_priority(&canon, 1), 0);
}

/* ---- canonical form -------------------------------------------------------------------------- */

TEST(canon_forgets_what_places_nothing)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,one=1,y=4,uno=1");
  static const struct {
    const char *left, *right;
    bool equal;
  } rows[] = {
    { "x", "x,-", true },
    { "x", "x,-,-,-", true },
    { "x", "x+one", true },
    { "x", "one+x", true },
    { "x+y", "x+one+y+uno", true },
    { "one", "", true },
    { "one,uno", "-,-", true },
    { "one,x", "-,x", true },
    { "x+y", "y+x", false },
    { "x,y", "y,x", false },
    { "x", "y", false },
    { "x", "-,x", false },
    { "x", "", false },
    { "x+y", "x,y", false },
  };

  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_sharding a = tsr_on(mesh, rows[i].left, .strict = true), b = tsr_on(mesh, rows[i].right);
    tsr_sharding left = tsr__sharding_canon(&a), right = tsr__sharding_canon(&b);
    CHECK_I64(memcmp(&left, &right, sizeof left) == 0, rows[i].equal);
    CHECK_I64(tsr__sharding_equal(&a, &b), rows[i].equal);
    CHECK_I64(left.rank, TSR_MAX_RANK);
    CHECK_I64(left.strict, false);
  }
  tsr_runtime_close(rt);
}
