/* Devices and meshes: reading, checking, keeping one object for equal meshes. */
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "support/topology_fixture.h"
#include "tessera/process_data.h"

/* ---- devices ------------------------------------------------------------------------------- */

TEST(devices_are_read)
{
  static const struct {
    const char *text;
    int count;
  } rows[] = {
    { "cpu", 1 }, { "cpu:1", 1 }, { "cpu:8", 8 }, { "cpu:008", 8 }, { "cpu:4096", 4096 }
  };

  for (int i = 0; i < 5; i++) {
    tsr__error error = { .status = TSR_OK };
    tsr__topology topology;
    CHECK_STATUS(tsr__topology_parse(rows[i].text, &topology, &error), TSR_OK, NULL);
    CHECK_I64(topology.kind_count, 1);
    CHECK_STR(topology.kinds[0].name, "cpu");
    CHECK_I64(topology.device_count, rows[i].count);
    CHECK_I64(topology.per_process, rows[i].count);
    CHECK_I64(topology.process_count, 1);
    CHECK_I64(topology.process_index, 0);
  }
}

TEST(bad_devices_say_what_is_wrong)
{
  static const struct {
    const char *text, *message;
    tsr_status status;
  } rows[] = {
    { NULL, "the devices are NULL; write \"cpu:8\" for 8 virtual devices", TSR_EARG },
    { "",
      "devices \"\": there is no device kind '', only cpu; write \"cpu:8\" for 8 virtual devices",
      TSR_EPARSE },
    { "gpu:2",
      "devices \"gpu:2\": there is no device kind 'gpu', only cpu; write \"cpu:8\" for 8 virtual "
      "devices",
      TSR_EPARSE },
    { "cpu:",
      "devices \"cpu:\": '' is not a device count; write a number from 1 to 4096 after \"cpu:\"",
      TSR_EPARSE },
    { "cpu:0",
      "devices \"cpu:0\": '0' is not a device count; write a number from 1 to 4096 after \"cpu:\"",
      TSR_EPARSE },
    { "cpu:4,cpu:2",
      "devices \"cpu:4,cpu:2\": the kind cpu is named twice; write it once, with the count of all "
      "its devices",
      TSR_EPARSE },
    { "cpu:4,",
      "devices \"cpu:4,\": there is no device kind '', only cpu; write \"cpu:8\" for 8 virtual "
      "devices",
      TSR_EPARSE },
    { "cpu:4097",
      "devices \"cpu:4097\": '4097' is not a device count; write a number from 1 to 4096 after "
      "\"cpu:\"",
      TSR_EPARSE },
  };

  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr__error error = { .status = TSR_OK };
    tsr__topology topology = { .device_count = 77 };
    CHECK_STATUS(tsr__topology_parse(rows[i].text, &topology, &error), rows[i].status, NULL);
    CHECK_STR(error.text, rows[i].message);
    CHECK_I64(topology.device_count, 77);
  }
}

TEST(malformed_devices_are_errors)
{
  static const char *const texts[] = {
    ":",       "8",           "CPU:8",    "cpu:-1",
    "cpu:+1",  "cpu: 8",      "cpu:8 ",   " cpu:8",
    "cpu:8:8", "cpu:8,cpu:8", "cpux:8",   "cp:8",
    "cpu;8",   "cpu:1e3",     "cpu:0x8",  "cpu:99999999999999999999999999",
    "cpu:8.0", "\xff\xfe",    "cpu:\xff", "cpu::8",
    "cpu8",    "cpu:eight",   "\n",       "cpu:8\n",
    ",",       ",cpu:8",      "cpu:8,",   "cpu,,",
  };

  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    tsr__error error = { .status = TSR_OK };
    tsr__topology topology;
    CHECK_STATUS(tsr__topology_parse(texts[i], &topology, &error), TSR_EPARSE, NULL);
    CHECK(error.text[0]);
  }
}

TEST(a_runtime_is_told_of_bad_devices)
{
  tsr_runtime *rt = tsr__runtime_new(NULL);

  CHECK_STATUS(tsr__topology_install(rt, "tpu"), TSR_EPARSE, NULL);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_EPARSE, NULL);
  CHECK_STR(tsr_runtime_message(rt), "tsr_runtime_open: devices \"tpu\": there is no device kind "
                                     "'tpu', only cpu; write \"cpu:8\" for 8 virtual devices");
  CHECK(tsr__topology_of(rt) == NULL);
  CHECK_I64(fixture_count(rt), 0);
  /* A runtime that failed stays as it is. */
  CHECK_STATUS(tsr__topology_install(rt, "cpu:2"), TSR_EPARSE, NULL);
  CHECK_STATUS(tsr_mesh_status(tsr_mesh_make(rt, "x=1")), TSR_ESTATE, NULL);
  CHECK_STR(
      tsr_mesh_message(tsr_mesh_default(rt, "x")),
      "the runtime has no devices, as it could not be opened; tsr_runtime_message has the reason");
  tsr_runtime_close(rt);
}

TEST(devices_are_installed_once)
{
  tsr_runtime *rt = fixture_devices("cpu:3");

  CHECK_I64(fixture_count(rt), 3);
  CHECK_STATUS(tsr__topology_install(rt, "cpu:4"), TSR_ESTATE, NULL);
  CHECK_I64(fixture_count(rt), 3);
  CHECK_STATUS(tsr__topology_install(NULL, "cpu:4"), TSR_EARG, NULL);
  tsr_runtime_close(rt);
}

/* ---- meshes -------------------------------------------------------------------------------- */

TEST(a_mesh_is_read)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=4,model=2");

  CHECK_STATUS(tsr_mesh_status(mesh), TSR_OK, NULL);
  CHECK_STR(tsr_mesh_message(mesh), "");
  CHECK_STR(tsr_mesh_text(mesh), "data=4,model=2");
  CHECK_I64(tsr_mesh_axis_count(mesh), 2);
  CHECK_STR(tsr_mesh_axis_name(mesh, 0), "data");
  CHECK_STR(tsr_mesh_axis_name(mesh, 1), "model");
  CHECK_STR(tsr_mesh_axis_name(mesh, 2), NULL);
  CHECK_STR(tsr_mesh_axis_name(mesh, -1), NULL);
  CHECK_I64(tsr_mesh_axis_size(mesh, "data"), 4);
  CHECK_I64(tsr_mesh_axis_size(mesh, "model"), 2);
  CHECK_I64(tsr_mesh_axis_size(mesh, "mod"), 0);
  CHECK_I64(tsr_mesh_axis_size(mesh, ""), 0);
  CHECK_I64(tsr_mesh_device_count(mesh), 8);
  for (int p = 0; p < 8; p++) CHECK_I64(tsr_mesh_device(mesh, p), p);
  CHECK_I64(tsr_mesh_device(mesh, 8), -1);
  CHECK_I64(tsr_mesh_device(mesh, -1), -1);
  tsr_runtime_close(rt);
}

TEST(positions_are_row_major)
{
  tsr_runtime *rt = fixture_devices("cpu:24");
  tsr_mesh *mesh = tsr_mesh_make(rt, "a=2,b=3,c=4");

  for (int p = 0; p < 24; p++) {
    CHECK_I64(tsr__mesh_coord(mesh, p, 0), p / 12);
    CHECK_I64(tsr__mesh_coord(mesh, p, 1), p / 4 % 3);
    CHECK_I64(tsr__mesh_coord(mesh, p, 2), p % 4);
  }
  tsr_runtime_close(rt);
}

TEST(equal_meshes_are_one_object)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  static const int same[] = { 0, 1, 2, 3 }, other[] = { 3, 2, 1, 0 };
  tsr_mesh_opts opts = {
    .size = sizeof opts, .axis_count = 2, .names = { "x", "y" }, .sizes = { 2, 2 }
  };
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");

  CHECK_I64(mesh->id, 1);
  CHECK(tsr_mesh_make(rt, "x=2,y=2") == mesh);
  CHECK(tsr_mesh_make(rt, " x = 2 ,\ty=02 ") == mesh);
  CHECK(tsr_mesh_make_with(rt, &opts) == mesh);
  opts.devices = same;
  CHECK(tsr_mesh_make_with(rt, &opts) == mesh);
  opts.devices = other;
  tsr_mesh *turned = tsr_mesh_make_with(rt, &opts);
  CHECK(turned != mesh);
  CHECK_I64(turned->id, 2);
  CHECK_I64(tsr_mesh_device(turned, 0), 3);
  CHECK_I64(tsr_mesh_device(turned, 3), 0);
  CHECK(tsr_mesh_make(rt, "y=2,x=2") != mesh);
  CHECK(tsr_mesh_make(rt, "x=4") != mesh);
  CHECK(tsr_mesh_make(rt, "x=2,z=2") != mesh);
  CHECK_I64(tsr__topology_of(rt)->mesh_count, 5);
  tsr_runtime_close(rt);
}

TEST(axes_have_speeds)
{
  static const struct {
    const char *text, *canonical;
  } rows[] = {
    { "x=2@25e9,y=4@900e9", "x=2@25e9,y=4@900e9" },
    { " x = 2 @ 25e9 , y=4@ 900e9", "x=2@25e9,y=4@900e9" },
    { "x=2@25000000000,y=4@0.9e12", "x=2@25e9,y=4@900e9" },
    { "x=2@12.5e9,y=4@1234567890", "x=2@12.5e9,y=4@1.23456789e9" },
    { "x=2@1,y=4@1e15", "x=2@1,y=4@1e15" },
    { "x=2@999,y=4@1000", "x=2@999,y=4@1e3" },
    { "x=2@25e9,y=4@900e9;flops=312e12", "x=2@25e9,y=4@900e9;flops=312e12" },
    { "x=8@1 ; flops = 1", "x=8@1;flops=1" },
    { "x=8@1e9;flops=8999999999999999", "x=8@1e9;flops=8.999999999999999e15" },
    { "x=2@1.50e1,y=4@1.00", "x=2@15,y=4@1" },
    { "x=2@1000000000000000,y=4@00012e00", "x=2@1e15,y=4@12" },
    { "x=2@1001,y=4@999999999999999", "x=2@1.001e3,y=4@999.999999999999e12" },
  };
  tsr_runtime *rt = fixture_devices("cpu:8");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_mesh *mesh = tsr_mesh_make(rt, rows[i].text);
    CHECK_STR(tsr_mesh_message(mesh), "");
    CHECK_STR(tsr_mesh_text(mesh), rows[i].canonical);
    CHECK(tsr_mesh_make(rt, tsr_mesh_text(mesh)) == mesh);
  }
  CHECK_STR(tsr_mesh_text(tsr_mesh_abstract(rt, "x=64@2e9")), "x=64@2e9");
  tsr_runtime_close(rt);
}

/* A mesh with other speeds is another mesh, and parts of a mesh keep its speeds. */
TEST(speeds_belong_to_the_mesh)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh_opts opts = { .size = sizeof opts,
                         .axis_count = 2,
                         .names = { "x", "y" },
                         .sizes = { 2, 4 },
                         .axis_bytes_per_s = { 25e9, 900e9 } };
  tsr_mesh *plain = tsr_mesh_make(rt, "x=2,y=4"), *mesh = tsr_mesh_make_with(rt, &opts);
  CHECK(mesh != plain && mesh->id == 2);
  CHECK_STR(tsr_mesh_text(mesh), "x=2@25e9,y=4@900e9");
  CHECK(tsr_mesh_make(rt, "x=2@25e9,y=4@900e9") == mesh);
  CHECK(tsr_mesh_make(rt, "x=2@25e9,y=4@901e9") != mesh);
  CHECK_I64(mesh->slowest[0], 0);
  CHECK_I64(tsr_mesh_make(rt, "x=2@9,y=2@3,z=2@3")->slowest[0], 1);
  CHECK_STR(tsr_mesh_text(tsr_mesh_sub(mesh, "y", 1, 2)), "x=2@25e9,y=2@900e9");
  CHECK_STR(tsr_mesh_text(tsr_mesh_sub(tsr_mesh_abstract(rt, "x=9@7"), "x", 3, 2)), "x=2@7");
  /* Flops are part of it. */
  opts.flops_per_s = 312e12;
  tsr_mesh *fast = tsr_mesh_make_with(rt, &opts);
  CHECK(fast != mesh && fast == tsr_mesh_make(rt, "x=2@25e9,y=4@900e9;flops=312e12"));
  CHECK_STR(tsr_mesh_text(tsr_mesh_sub(fast, "y", 1, 2)), "x=2@25e9,y=2@900e9;flops=312e12");
  CHECK(tsr__mesh_flops_per_byte(fast) == 312e12 / 900e9);
  CHECK(tsr__mesh_flops_per_byte(mesh) == 128 && tsr__mesh_flops_per_byte(plain) == 128);
  static const double wrong[] = { -1, 0.5, 1e16, NAN, INFINITY };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    opts.flops_per_s = wrong[i];
    CHECK_STR(tsr_mesh_message(tsr_mesh_make_with(rt, &opts)),
              "mesh \"x=2,y=4\": the flops of a device are out of range; they are 1 to 9e15 per "
              "second");
  }
  opts.flops_per_s = 0;
  /* An older caller's struct ends before the speeds. */
  opts.size = offsetof(tsr_mesh_opts, axis_bytes_per_s);
  CHECK(tsr_mesh_make_with(rt, &opts) == plain);
  opts.size = sizeof opts;
  opts.axis_bytes_per_s[0] = 0;
  CHECK_STR(tsr_mesh_message(tsr_mesh_make_with(rt, &opts)),
            "mesh \"x=2,y=4\": axis 'x' has no speed, but axis 'y' has one; give a speed to each "
            "axis or to none");
  static const double bad[] = { -1, 0.5, 1.1e15, NAN, INFINITY, -INFINITY };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    opts.axis_bytes_per_s[0] = bad[i];
    CHECK_STR(tsr_mesh_message(tsr_mesh_make_with(rt, &opts)),
              "mesh \"x=2,y=4\": the speed of axis 'x' is out of range; speeds are 1 to 1e15 bytes "
              "per second");
  }
  tsr_runtime_close(rt);
}

TEST(a_process_has_its_part_of_the_speeds)
{
  tsr_runtime *rt = fixture_devices("cpu:4");
  CHECK(tsr__topology_spread(rt, 2, 1));
  CHECK_STR(tsr_mesh_text(tsr_mesh_local(tsr_mesh_make(rt, "x=2@1e9,y=4@30e9"))),
            "x=1@1e9,y=4@30e9");
  CHECK_STR(tsr_mesh_text(tsr_mesh_local(tsr_mesh_make(rt, "x=2@1e9,y=4@30e9;flops=1e12"))),
            "x=1@1e9,y=4@30e9;flops=1e12");
  tsr_runtime_close(rt);
}

TEST(mesh_numbers_count_good_meshes_in_order)
{
  tsr_runtime *rt = fixture_devices("cpu:4");

  CHECK_I64(tsr_mesh_make(rt, "x=4")->id, 1);
  CHECK_I64(tsr_mesh_make(rt, "x=5")->id, 0);
  CHECK_I64(tsr_mesh_make(rt, "x=2")->id, 2);
  CHECK_I64(tsr_mesh_make(rt, "x=4")->id, 1);
  CHECK_I64(tsr_on_device(rt, 3).mesh->id, 3);
  CHECK_I64(tsr_mesh_default(rt, NULL)->id, 4);
  tsr_runtime_close(rt);
}

TEST(the_default_mesh_has_all_devices)
{
  tsr_runtime *rt = fixture_devices("cpu:6");

  CHECK_STR(tsr_mesh_text(tsr_mesh_default(rt, NULL)), "data=6");
  CHECK_STR(tsr_mesh_text(tsr_mesh_default(rt, "rows")), "rows=6");
  CHECK_STATUS(tsr_mesh_status(tsr_mesh_default(rt, "no good")), TSR_EARG, NULL);
  tsr_runtime_close(rt);
}

TEST(one_device_shardings)
{
  tsr_runtime *rt = fixture_devices("cpu:4");
  tsr_sharding three = tsr_on_device(rt, 3), again = tsr_on_device(rt, 3);
  tsr_box box;

  CHECK(three.mesh == again.mesh);
  CHECK_STR(tsr_mesh_text(three.mesh), "device=1");
  CHECK_I64(tsr__positions(&three), 1);
  CHECK_I64(tsr__position_device(&three, 0), 3);
  CHECK_STATUS(tsr_shard_box(&three, TSR_SHAPE(5, 6), 0, &box), TSR_OK, NULL);
  CHECK_I64(box.size[0] * box.size[1], 30);
  CHECK(tsr_on_device(rt, 2).mesh != three.mesh);
  tsr_runtime_close(rt);
}

TEST(no_such_device)
{
  tsr_runtime *rt = fixture_devices("cpu:4");
  static const int strangers[] = { 4, -1, INT32_MAX, INT32_MIN };
  tsr__error error = { .status = TSR_OK };
  tsr_box box;

  for (int i = 0; i < 4; i++) {
    tsr_sharding sharding = tsr_on_device(rt, strangers[i]);
    CHECK_STATUS(tsr_shard_box(&sharding, TSR_SHAPE(5), 0, &box), TSR_EARG, NULL);
  }
  tsr_sharding sharding = tsr_on_device(rt, 4);
  CHECK_STATUS(tsr__sharding_check(&sharding, &TSR_SHAPE(5), &error), TSR_EARG, NULL);
  CHECK_STR(error.text, "there is no device 4; the runtime's devices are 0 to 3");
  tsr_runtime_close(rt);
}

/* ---- bad meshes ---------------------------------------------------------------------------- */

TEST(bad_meshes_say_what_is_wrong)
{
  static const struct {
    const char *text, *message;
    tsr_status status;
  } rows[] = {
    { NULL, "the text of a mesh is NULL; write axes as \"data=4,model=2\"", TSR_EARG },
    { "", "mesh \"\": there are no axes; write axes as \"data=4,model=2\"", TSR_EPARSE },
    { "x", "mesh \"x\": expected '=' and a size at the end; write axes as \"data=4,model=2\"",
      TSR_EPARSE },
    { "x=", "mesh \"x=\": expected a size at the end; write axes as \"data=4,model=2\"",
      TSR_EPARSE },
    { "x=2,", "mesh \"x=2,\": expected an axis name at the end; write axes as \"data=4,model=2\"",
      TSR_EPARSE },
    { "x=2;y=2",
      "mesh \"x=2;y=2\": expected ',' or the end, found ';y=2'; write axes as "
      "\"data=4,model=2\"",
      TSR_EPARSE },
    { "x=-2", "mesh \"x=-2\": expected a size, found '-2'; write axes as \"data=4,model=2\"",
      TSR_EPARSE },
    { "x=0", "mesh \"x=0\": axis 'x' has size 0; sizes are 1 or more", TSR_EARG },
    { "x=2@",
      "mesh \"x=2@\": expected a speed in whole bytes per second, such as 25e9 at the end; "
      "write axes as \"data=4,model=2\"",
      TSR_EPARSE },
    { "x=2@0.5",
      "mesh \"x=2@0.5\": expected a speed in whole bytes per second, such as 25e9, found '0.5'; "
      "write axes as \"data=4,model=2\"",
      TSR_EPARSE },
    { "x=2@5e",
      "mesh \"x=2@5e\": expected a speed in whole bytes per second, such as 25e9, found '5e'; "
      "write axes as \"data=4,model=2\"",
      TSR_EPARSE },
    { "x=2@5 GB",
      "mesh \"x=2@5 GB\": expected ',' or the end, found 'GB'; write axes as "
      "\"data=4,model=2\"",
      TSR_EPARSE },
    { "x=2@0",
      "mesh \"x=2@0\": the speed of axis 'x' is out of range; speeds are 1 to 1e15 bytes per "
      "second",
      TSR_EARG },
    { "x=2@99999999999999999999e999999999999999999999",
      "mesh \"x=2@99999999999999999999e999999999999999999999\": the speed of axis 'x' is out of "
      "range; speeds are 1 to 1e15 bytes per second",
      TSR_EARG },
    { "x=2@5,y=2",
      "mesh \"x=2@5,y=2\": axis 'y' has no speed, but axis 'x' has one; give a speed to each axis "
      "or to none",
      TSR_EARG },
    { "x=2;flops=1e12",
      "mesh \"x=2;flops=1e12\": devices have flops per second, but axes have no speed; give a "
      "speed to each axis as well",
      TSR_EARG },
    { "x=2@5;flops=0",
      "mesh \"x=2@5;flops=0\": the flops of a device are out of range; they are 1 to 9e15 per "
      "second",
      TSR_EARG },
    { "x=2@5;flops=1e16",
      "mesh \"x=2@5;flops=1e16\": the flops of a device are out of range; they are 1 to 9e15 per "
      "second",
      TSR_EARG },
    { "x=2@5;flops 3",
      "mesh \"x=2@5;flops 3\": expected '=' and a speed, found '3'; write axes as "
      "\"data=4,model=2\"",
      TSR_EPARSE },
    { "x=2@5;flops=fast",
      "mesh \"x=2@5;flops=fast\": expected a speed in whole flops per second, such as 312e12, "
      "found "
      "'fast'; write axes as \"data=4,model=2\"",
      TSR_EPARSE },
    { "x=2@5;flops=3,y=2@5",
      "mesh \"x=2@5;flops=3,y=2@5\": expected the end, found ',y=2@5'; write axes as "
      "\"data=4,model=2\"",
      TSR_EPARSE },
    { "x=2,x=2", "mesh \"x=2,x=2\": two axes are called 'x'; give each its own name", TSR_EARG },
    { "x=4,y=4",
      "mesh \"x=4,y=4\" needs 16 devices; the runtime has 8: make the mesh smaller or "
      "open the runtime with more",
      TSR_EARG },
    { "x=9223372036854775807,y=2",
      "mesh \"x=9223372036854775807,y=2\" has more devices than 63 "
      "bits can count; the runtime has 8",
      TSR_EARG },
    { "x=99999999999999999999999",
      "mesh \"x=99999999999999999999999\" has more devices than 63 "
      "bits can count; the runtime has 8",
      TSR_EARG },
    { "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1",
      "mesh \"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1\": more "
      "than 8 axes; a mesh has 1 to 8",
      TSR_EARG },
    { "abcdefghijklmnopqrstuvwxyz_01234=2",
      "mesh \"abcdefghijklmnopqrstuvwxyz_01234=2\": axis name "
      "'abcdefghijklmnopqrstuvwxyz_01234' has 32 characters; at most 31 fit",
      TSR_EARG },
    { "größe=2",
      "mesh \"größe=2\": expected '=' and a size, found 'öße=2'; write axes as "
      "\"data=4,model=2\"",
      TSR_EPARSE },
    { "x\xff=2\n",
      "mesh \"x?=2?\": expected '=' and a size, found '?=2?'; write axes as "
      "\"data=4,model=2\"",
      TSR_EPARSE },
  };
  tsr_runtime *rt = fixture_devices("cpu:8");

  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_mesh *mesh = tsr_mesh_make(rt, rows[i].text);
    CHECK_STR(tsr_mesh_message(mesh), rows[i].message);
    CHECK_STATUS(tsr_mesh_status(mesh), rows[i].status, NULL);
    CHECK_I64(tsr_mesh_axis_count(mesh), 0);
    CHECK_I64(tsr_mesh_device_count(mesh), 0);
    CHECK_STR(tsr_mesh_text(mesh), "");
    /* Whoever uses it gets its error. */
    tsr_sharding sharding = tsr_on(mesh, "x");
    tsr__error error = { .status = TSR_OK };
    CHECK_STATUS(tsr__sharding_check(&sharding, &TSR_SHAPE(4), &error), rows[i].status, NULL);
    CHECK_STR(error.text, rows[i].message);
  }
  CHECK_I64(tsr__topology_of(rt)->mesh_count, 0);
  tsr_runtime_close(rt);
}

TEST(bad_typed_meshes_say_what_is_wrong)
{
  static const int twice[] = { 1, 0, 2, 0 }, far[] = { 0, 1, 2, 8 }, below[] = { 0, -1, 2, 3 };
  static const struct {
    tsr_mesh_opts opts;
    const char *message;
  } rows[] = {
    { { .axis_count = 0 }, "a mesh has 1 to 8 axes, not 0" },
    { { .axis_count = 9 }, "a mesh has 1 to 8 axes, not 9" },
    { { .axis_count = -1 }, "a mesh has 1 to 8 axes, not -1" },
    { { .axis_count = 2, .names = { "x" }, .sizes = { 2, 2 } },
      "axis 1 of 2 of a mesh has no name (NULL)" },
    { { .axis_count = 1, .names = { "" }, .sizes = { 2 } },
      "mesh \"=2\": axis 0 has an empty name" },
    { { .axis_count = 1, .names = { "a-b" }, .sizes = { 2 } },
      "mesh \"a-b=2\": axis name 'a-b' has other characters than letters, digits and '_'" },
    { { .axis_count = 2, .names = { "x", "y" }, .sizes = { 2, -3 } },
      "mesh \"x=2,y=-3\": axis 'y' has size -3; sizes are 1 or more" },
    { { .axis_count = 2, .names = { "x", "y" }, .sizes = { 2, 2 }, .devices = twice },
      "mesh \"x=2,y=2\": device 0 stands at positions 1 and 3, expected one position per device" },
    { { .axis_count = 2, .names = { "x", "y" }, .sizes = { 2, 2 }, .devices = far },
      "mesh \"x=2,y=2\": there is no device 8 for position 3; the runtime's devices are 0 to 7" },
    { { .axis_count = 2, .names = { "x", "y" }, .sizes = { 2, 2 }, .devices = below },
      "mesh \"x=2,y=2\": there is no device -1 for position 1; the runtime's devices are "
      "0 to 7" },
  };
  tsr_runtime *rt = fixture_devices("cpu:8");

  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_mesh *mesh = tsr_mesh_make_with(rt, &rows[i].opts);
    CHECK_STR(tsr_mesh_message(mesh), rows[i].message);
    CHECK_STATUS(tsr_mesh_status(mesh), TSR_EARG, NULL);
  }
  CHECK_STR(tsr_mesh_message(tsr_mesh_make_with(rt, NULL)),
            "a mesh needs its axes, but the options are NULL");
  tsr_runtime_close(rt);
}

TEST(equal_errors_are_kept_once)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *first = tsr_mesh_make(rt, "x=9");
  int64_t live = rt->heap.live;

  for (int i = 0; i < 1000; i++) CHECK(tsr_mesh_make(rt, "x=9") == first);
  CHECK_I64(rt->heap.live, live);
  CHECK(tsr_mesh_make(rt, "x=10") != first);
  tsr_runtime_close(rt);
}

/* Made in a loop, good ones and bad ones: each is found or made in the same time, and of bad ones
 * few stay. */
TEST(many_meshes_cost_little)
{
  enum { MANY = 40000 };
  char text[64];
  struct test_alloc memory = { 0 };
  tsr_allocator allocator = test_allocator(&memory);
  tsr_runtime *rt = tsr__runtime_new(
      &(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts), .allocator = &allocator });
  CHECK_STATUS(tsr__topology_install(rt, "cpu:2"), TSR_OK, NULL);
  struct timespec start, end;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
  for (int i = 0; i < MANY; i++) {
    snprintf(text, sizeof text, "a%d=2", i);
    CHECK_STATUS(tsr_mesh_status(tsr_mesh_make(rt, text)), TSR_OK, NULL);
  }
  int64_t good = memory.live;
  for (int i = 0; i < MANY; i++) {
    snprintf(text, sizeof text, "a%d=%d", i, i + 3);
    const tsr_mesh *mesh = tsr_mesh_make(rt, text);
    CHECK(tsr_mesh_status(mesh) != TSR_OK && *tsr_mesh_message(mesh));
    if (i == 100) CHECK_STR_HAS(tsr_mesh_message(mesh), "a100=103");
  }
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  double took = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
  printf("# %d good and as many bad meshes: %.3f s\n", MANY, took);
  CHECK(memory.live < good + 1000);
  CHECK(took < 2); /* a list of them took many seconds */
  CHECK(tsr_mesh_make(rt, "a7=2") == tsr_mesh_make(rt, "a7=2"));
  tsr_runtime_close(rt);
  CHECK_I64(memory.live, 0);
}

TEST(malformed_meshes_are_errors)
{
  static const char *const texts[] = {
    " ",
    "\t",
    "\n",
    ",",
    ",,",
    "=",
    "==",
    "=2",
    "2",
    "x y",
    "x y=2",
    "x=y",
    "x=2 2",
    "x=2,,y=2",
    ",x=2",
    "x=2,y",
    "x=2,y=",
    "x=2,=2",
    "x=2,y=2,",
    "x==2",
    "x=2=2",
    "x=+2",
    "x=2.0",
    "x=2e0",
    "x=0x2",
    "x=2u",
    "x=two",
    "x:2",
    "x:2,y:2",
    "x=2/y=2",
    "x=2+y=2",
    "x=2|y=2",
    "x=2&y=2",
    "x=2 y=2",
    "x=2\ny=2",
    "x=2\r\n",
    "x=2\n",
    "x =2,y= 2;",
    "(x=2)",
    "{x=2}",
    "[x=2]",
    "'x'=2",
    "\"x\"=2",
    "x=(2)",
    "x=\"2\"",
    "x-y=2",
    "-x=2",
    "-=2",
    "+=2",
    "x+y=4",
    "x.y=2",
    "x/y=2",
    "x*=2",
    "*=2",
    "x?=2",
    "x#=2",
    "x$=2",
    "x%=2",
    "x@=2",
    "x!=2",
    "x~=2",
    "x`=2",
    "x^=2",
    "x\\=2",
    "x|=2",
    "x<=2",
    "x>=2",
    "<x>=2",
    "x=\0012",
    "\001x=2",
    "x=2\177",
    "\177",
    "\xff",
    "\xff=2",
    "x\xc3=2",
    "\xc3\xa4=2",
    "x=\xc2\xb2",
    "\xe2\x82\xac=2",
    "\xef\xbb\xbfx=2",
    "x=\xd9\xa2",
    "x=2\xc2\xa0",
    "x=0",
    "x=00",
    "x=0,y=0",
    "x=8,y=0",
    "x=0,y=8",
    "x=9",
    "x=2,y=5",
    "x=4097",
    "x=-1",
    "x=-0",
    "x=8,x=1",
    "x=1,y=1,x=1",
    "x=2147483648",
    "x=4294967296",
    "x=4294967297",
    "x=4294967296,y=2",
    "x=9223372036854775807",
    "x=9223372036854775808",
    "x=18446744073709551615",
    "x=18446744073709551617",
    "x=3037000500,y=3037000500",
    "x=4611686018427387904,y=4",
    "a=2,b=2,c=2,d=2",
    "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=",
    "cpu:8",
    "data,-",
    "data=4;model=2",
    "x=1e1",
    "x=1 000",
    "x=1_000",
    "x=1,000",
    "x = = 2",
    "x\v=2",
    "x\f=2",
    "None",
    "null=null",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=1",
    "x={2}",
    "%s=%s",
    "%n",
    "%s%s%s%n=2",
    "x=%d",
  };
  tsr_runtime *rt = fixture_devices("cpu:8");

  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    tsr_mesh *mesh = tsr_mesh_make(rt, texts[i]);
    if (tsr_mesh_status(mesh) == TSR_OK) FAIL("mesh \"%s\" was taken", texts[i]);
    CHECK(tsr_mesh_message(mesh)[0]);
  }
  tsr_runtime_close(rt);
}

TEST(a_huge_text_is_one_short_error)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  size_t length = 1 << 20;
  char *text = malloc(length + 1);

  memset(text, 'x', length);
  text[length] = '\0';
  CHECK_STR(tsr_mesh_message(tsr_mesh_make(rt, text)),
            "mesh \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\": "
            "expected '=' and a size at the end; write axes as \"data=4,model=2\"");
  for (size_t i = 1; i < length; i += 2) text[i] = ',';
  CHECK(strlen(tsr_mesh_message(tsr_mesh_make(rt, text))) < 400);
  for (size_t i = 0; i < length; i++) text[i] = '9';
  text[0] = 'x';
  text[1] = '=';
  CHECK_STATUS(tsr_mesh_status(tsr_mesh_make(rt, text)), TSR_EARG, NULL);
  free(text);
  tsr_runtime_close(rt);
}

TEST(quoted_text_is_always_printable)
{
  static const struct {
    const char *text, *quoted;
  } rows[] = {
    { "", "" },
    { "plain", "plain" },
    { "\xc3\xa9t\xc3\xa9", "\xc3\xa9t\xc3\xa9" },
    { "\xe2\x82\xac\xf0\x9f\x98\x80", "\xe2\x82\xac\xf0\x9f\x98\x80" },
    { "a\tb\nc\177", "a?b?c?" },
    { "\xc0\xaf", "??" },
    { "\xe0\x80\xaf", "???" },
    { "\xed\xa0\x80", "???" },
    { "\xf0\x80\x80\x80", "????" },
    { "\xf4\x90\x80\x80", "????" },
    { "\xf8\x88", "??" },
    { "\xe2\x82", "??" },
    { "\xc3", "?" },
    { "\xc2\x9b", "??" },
    { "\x1b[31m", "?[31m" },
  };
  char out[TSR__QUOTE];

  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    CHECK_STR(tsr__quote(rows[i].text, strlen(rows[i].text), out), rows[i].quoted);
}

TEST(null_is_tolerated_by_meshes)
{
  CHECK(tsr_mesh_make(NULL, "x=1") == NULL);
  CHECK(tsr_mesh_make(NULL, NULL) == NULL);
  CHECK(tsr_mesh_make_with(NULL, NULL) == NULL);
  CHECK(tsr_mesh_default(NULL, NULL) == NULL);
  CHECK_STATUS(tsr_mesh_status(NULL), TSR_EARG, NULL);
  CHECK_STR(tsr_mesh_message(NULL), "the mesh is NULL; make one with tsr_mesh_make");
  CHECK_STR(tsr_mesh_text(NULL), "");
  CHECK_I64(tsr_mesh_axis_count(NULL), 0);
  CHECK_STR(tsr_mesh_axis_name(NULL, 0), NULL);
  CHECK_I64(tsr_mesh_axis_size(NULL, "x"), 0);
  CHECK_I64(tsr_mesh_device_count(NULL), 0);
  CHECK_I64(tsr_mesh_device(NULL, 0), -1);
  CHECK(tsr__topology_of(NULL) == NULL);
  CHECK(fixture_bad_spec(tsr_on_device(NULL, 0)));
  tsr_runtime *rt = fixture_devices("cpu:2");
  CHECK_I64(tsr_mesh_axis_size(tsr_mesh_make(rt, "x=2"), NULL), 0);
  tsr_runtime_close(rt);
}

/* ---- threads and memory -------------------------------------------------------------------- */

static void *make_many(void *user)
{
  tsr_runtime *rt = user;
  char text[32];

  for (int i = 0; i < 200; i++) {
    snprintf(text, sizeof text, "axis%d=%d", i % 20, i % 7 + 1);
    tsr_mesh_make(rt, text);
    tsr_on_device(rt, i % 6);
  }
  return NULL;
}

TEST(threads_share_meshes)
{
  tsr_runtime *rt = fixture_devices("cpu:6");
  pthread_t threads[4];

  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, make_many, rt);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  /* 20 names by 7 sizes, of which size 7 is too large; and 6 devices. */
  CHECK_I64(tsr__topology_of(rt)->mesh_count, 20 * 6 + 6);
  CHECK_I64(tsr__topology_of(rt)->bad_count, 20);
  tsr_runtime_close(rt);
}

TEST(meshes_survive_refused_memory)
{
  struct test_alloc state = { .fail_at = 0 };
  tsr_allocator allocator = test_allocator(&state);
  tsr_runtime_opts opts = { .size = sizeof opts, .allocator = &allocator };

  for (int64_t nth = 1; nth < 40; nth++) {
    state = (struct test_alloc){ .fail_at = nth };
    tsr_runtime *rt = tsr__runtime_new(&opts);
    bool failed = tsr__topology_install(rt, "cpu:4") != TSR_OK;
    tsr_mesh *meshes[] = { tsr_mesh_make(rt, "x=4"), tsr_mesh_make(rt, "x=5"),
                           tsr_mesh_default(rt, NULL) };
    for (int i = 0; i < 3; i++) {
      tsr_status st = tsr_mesh_status(meshes[i]);
      failed |= st == TSR_ENOMEM;
      if (st == TSR_ENOMEM) CHECK_STR(tsr_mesh_message(meshes[i]), "out of memory for a mesh");
      if (st == TSR_OK) CHECK_I64(tsr_mesh_device_count(meshes[i]), 4);
    }
    tsr_runtime_close(rt);
    CHECK_I64(state.live, 0);
    CHECK_I64(failed, state.count >= nth);
    if (!failed) return;
  }
  FAIL("the allocations do not end");
}
