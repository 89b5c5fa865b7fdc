/* How the host looks at values: copies, counts, places and elements against plain arrays, from the
 * replicas that are here, and refused where a part is in other processes only. Guards the devices.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "execute/execute.h"
#include "kernel/device/staging.h"
#include "support/topology_fixture.h"
#include "tessera.h"

enum { MOST = 700 };

/* Process `index` of `processes` that hold `devices` each. */
static tsr_runtime *open_process(int devices, int processes, int index)
{
  char text[16];
  setenv("TEST_GUARD", "1", 1);
  snprintf(text, sizeof text, "cpu:%d", devices);
  tsr_runtime *rt = fixture_devices(text);
  if (processes > 1) CHECK(tsr__topology_spread(rt, processes, index));
  CHECK_STATUS(tsr__devices_install(rt), TSR_OK, NULL);
  return rt;
}

static tsr__value *value_on(tsr_runtime *rt, tsr_sharding sharding, tsr_dtype dtype, int64_t rows)
{
  tsr__error error = { 0 };
  tsr_shape shape = { 1, { rows } };
  tsr_sharding canon = tsr__sharding_canon(&sharding);
  tsr__value *value = tsr__value_new(rt, &(tsr__layout){ dtype, &shape, &canon, NULL }, &error);
  CHECK_STATUS(error.status, TSR_OK, NULL);
  return value;
}

static void check_bits(const tsr__value *value, const uint8_t *bits, int64_t rows)
{
  tsr__error error = { 0 };
  uint8_t *got = test_guarded((size_t)rows);
  int64_t count = 0, seen[2] = { 0, 0 };
  CHECK_I64(tsr__value_fetch(value, got, "look", &error), TSR_OK);
  CHECK_BYTES(got, bits, (size_t)rows);
  for (int64_t i = 0; i < rows; i++) {
    int64_t found = -1;
    uint8_t one = 2;
    tsr__value_place place = { bits[i], seen[bits[i]]++ };
    CHECK_I64(tsr__value_find(value, place, &found, "look", &error), TSR_OK);
    CHECK_I64(found, i);
    CHECK_I64(tsr__value_at(value, i, &one, "look", &error), TSR_OK);
    CHECK_I64(one, bits[i]);
  }
  CHECK_I64(tsr__value_count(value, &count, "look", &error), TSR_OK);
  CHECK_I64(count, seen[1]);
  for (int bit = 0; bit < 2; bit++) {
    int64_t found = -1;
    tsr__value_place beyond = { bit, seen[bit] };
    CHECK_I64(tsr__value_find(value, beyond, &found, "look", &error), TSR_OK);
    CHECK_I64(found, rows);
  }
}

TEST(bits_are_counted_and_found_on_any_mesh)
{
  static const char *const specs[] = { "x", "y", "y+x", "x+y", "" };
  static const int64_t sizes[] = { 0, 1, 3, 64, 65, 511, MOST };
  test_rng rng = test_seeded(61);
  tsr_runtime *rt = open_process(8, 1, 0);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  uint8_t bits[MOST];
  for (size_t s = 0; s < sizeof specs / sizeof *specs; s++)
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
      tsr_sharding on = *specs[s] ? tsr_on(mesh, specs[s]) : tsr_on_dims(mesh, 0, NULL);
      tsr__value *value = value_on(rt, on, TSR_BOOL, sizes[n]);
      int64_t rare = test_range(&rng, 1, 9);
      for (int64_t i = 0; i < sizes[n]; i++) bits[i] = test_range(&rng, 0, rare) == 0;
      CHECK(tsr__value_from_host(value, bits));
      check_bits(value, bits, sizes[n]);
      tsr__value_release(value);
    }
  tsr_runtime_close(rt);
}

/* Replicas get what the first position has, and the copies are counted. */
TEST(replicas_are_filled_by_counted_copies)
{
  tsr_runtime *rt = open_process(8, 1, 0);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  tsr__value *value = value_on(rt, tsr_on(mesh, "y"), TSR_I32, 10);
  tsr__traffic traffic = { 0 };
  int32_t got[10];
  tsr__error error = { 0 };
  for (int p = 0; p < 4; p++) { /* positions 4 .. 7 are their replicas */
    tsr_box box;
    tsr__value_box(value, p, &box);
    tsr__staging staging;
    CHECK_I64(tsr__staging_open(value->parts[p], &staging, &error), TSR_OK);
    int32_t *data = staging.memory;
    for (int64_t i = 0; i < box.size[0]; i++) data[i] = (int32_t)(100 + box.start[0] + i);
    tsr__staging_give(&staging);
  }
  tsr__value_replicate(value, &traffic);
  CHECK_I64(traffic.bytes, 10 * 4);
  for (int p = 0; p < 8; p++) {
    tsr_box box;
    tsr__value_box(value, p, &box);
    const int32_t *data = tsr__value_map(value, p);
    for (int64_t i = 0; i < box.size[0]; i++) CHECK_I64(data[i], 100 + box.start[0] + i);
    tsr__value_unmap(value, p);
  }
  CHECK_I64(tsr__value_fetch(value, got, "look", &error), TSR_OK);
  for (int i = 0; i < 10; i++) CHECK_I64(got[i], 100 + i);
  tsr__value_release(value);
  tsr_runtime_close(rt);
}

/* Every look at what another process alone holds is refused, and changes nothing. */
TEST(parts_elsewhere_are_not_taken_for_empty)
{
  for (int index = 0; index < 2; index++) {
    tsr_runtime *rt = open_process(4, 2, index);
    tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
    tsr__value *value = value_on(rt, tsr_on(mesh, "x+y"), TSR_BOOL, 100);
    uint8_t out[100], one = 7;
    int64_t number = -5;
    tsr__value_place first = { true, 0 };
    memset(out, 9, sizeof out);
    tsr__error errors[4] = { { 0 } };
    CHECK_I64(tsr__value_fetch(value, out, "read", &errors[0]), TSR_EUNSUPPORTED);
    CHECK_I64(tsr__value_count(value, &number, "read", &errors[1]), TSR_EUNSUPPORTED);
    CHECK_I64(tsr__value_find(value, first, &number, "read", &errors[2]), TSR_EUNSUPPORTED);
    CHECK_I64(tsr__value_at(value, 3, &one, "read", &errors[3]), TSR_EUNSUPPORTED);
    for (int i = 0; i < 4; i++)
      CHECK(strstr(errors[i].text, index
                                       ? "read: elements cannot yet be read from other processes: "
                                         "device 0 belongs to another process"
                                       : "device 4 belongs to another process"));
    CHECK_I64(number, -5);
    CHECK_I64(one, 7);
    for (int i = 0; i < 100; i++) CHECK_I64(out[i], 9);
    tsr__value_release(value);
    tsr_runtime_close(rt);
  }
}

/* What every process has is read at home, also where the first position is another's. */
TEST(a_replica_that_is_here_will_do)
{
  for (int index = 0; index < 2; index++) {
    tsr_runtime *rt = open_process(4, 2, index);
    tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
    tsr__value *value = value_on(rt, tsr_on(mesh, "y"), TSR_BOOL, 100);
    uint8_t bits[100];
    for (int i = 0; i < 100; i++) bits[i] = i % 7 == 3;
    CHECK(tsr__value_from_host(value, bits));
    check_bits(value, bits, 100);
    tsr__value_release(value);
    tsr_runtime_close(rt);
  }
}

/* Nor do programs: what would move such a part, or count its rows, is refused. */
TEST(programs_refuse_what_is_elsewhere)
{
  setenv("TEST_GUARD", "1", 1);
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  CHECK(tsr__topology_spread(rt, 2, 0));
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  int64_t data[100];
  for (int i = 0; i < 100; i++) data[i] = i;
  for (int way = 0; way < 4; way++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *x = tsr_put_at(s, data, TSR_I64, TSR_SHAPE(100), tsr_on(mesh, "x+y"), "here:1");
    tsr_frame *df = tsr_frame_filter(tsr_frame_new(s, { "k", x }), "k > 3");
    tsr_table *table = NULL;
    tsr_status status = TSR_OK;
    if (way == 0) status = tsr_read(x, data, sizeof data);
    tsr_array *whole = tsr_reshard(x, tsr_on_dims(mesh, 0, NULL));
    if (way == 1) status = tsr_read(whole, data, sizeof data);
    if (way == 2) status = tsr_frame_collect(tsr_frame_head(df, 5), &table);
    if (way == 3) status = tsr_frame_collect(df, &table);
    CHECK_STATUS(status, TSR_EUNSUPPORTED, NULL);
    CHECK_STR_HAS(tsr_message(s),
                  "cannot yet be read from other processes: device 4 belongs to another process");
    tsr_scope_close(s);
  }
  for (int i = 0; i < 100; i++) CHECK_I64(data[i], i);
  tsr_runtime_close(rt);
}
