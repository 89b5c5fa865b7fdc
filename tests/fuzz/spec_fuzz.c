/* Any bytes as devices, a mesh and specs, one a line: never a crash; what is taken can be written
 * and read again, puts every element of an array of any shape on some device, once for each group
 * of replicas, and says the same of canonical and dim-by-dim forms; what is refused has a message.
 * The first four bytes choose the shape. */
#include "fuzz.h"
#include "topology/topology.h"

enum { CHOICES = 4 };

/* Cuts the next line out of `text`; an exact copy, so that a byte read past it is noticed. */
static char *next_line(const char **text, const char *end)
{
  const char *line = *text, *stop = memchr(line, '\n', (size_t)(end - line));
  size_t length = (size_t)((stop ? stop : end) - line);
  *text = stop ? stop + 1 : end;
  return fuzz_text(line, length);
}

static tsr_shape shape_of(const uint8_t *choice)
{
  static const int64_t sizes[] = { 7, 0, 1, 2, 64, 5, 1000003, 3 };
  tsr_shape shape = { .rank = choice[0] % (TSR_MAX_RANK + 1) };
  if (!choice[0]) shape.rank = TSR_MAX_RANK;
  unsigned bits = choice[1] | (unsigned)choice[2] << 8 | (unsigned)choice[3] << 16;
  /* Eight choices, and the next sizes for the dims behind them. */
  for (int d = 0; d < shape.rank; d++)
    shape.dims[d] = sizes[((bits >> 3 * (d % 8)) + (unsigned)d / 8) & 7];
  return shape;
}

static int64_t volume(const tsr_box *box, int rank)
{
  int64_t all = 1;
  for (int d = 0; d < rank; d++) all *= box->size[d];
  return all;
}

static void check_boxes(const tsr_sharding *sharding, tsr_shape shape)
{
  int64_t count = tsr__shape_count(&shape), held = 0;
  REQUIRE(count >= 0);
  tsr_box box, first;
  for (int p = 0; p < tsr__positions(sharding); p++) {
    REQUIRE(tsr_shard_box(sharding, shape, p, &box) == TSR_OK);
    for (int d = 0; d < shape.rank; d++)
      REQUIRE(box.start[d] >= 0 && box.size[d] >= 0 && box.start[d] + box.size[d] <= shape.dims[d]);
    int leader = tsr__replica_leader(sharding, p);
    REQUIRE(leader <= p && tsr_shard_box(sharding, shape, leader, &first) == TSR_OK);
    REQUIRE(memcmp(&first, &box, sizeof box) == 0);
    if (leader == p) held += volume(&box, shape.rank);
  }
  REQUIRE(held == count);
}

static void check_texts(const tsr_mesh *mesh, const tsr_sharding *sharding, tsr_shape shape)
{
  char text[1024], cut[8], type[2048];
  int length = tsr_sharding_text(sharding, sharding->rank, text, sizeof text);
  REQUIRE(length == (int)strlen(text));
  REQUIRE(tsr_sharding_text(sharding, sharding->rank, cut, sizeof cut) == length);
  REQUIRE(strncmp(cut, text, sizeof cut - 1) == 0 && strlen(cut) < sizeof cut);
  length = tsr_type_text(TSR_F32, shape, sharding, type, sizeof type);
  REQUIRE(length == (int)strlen(type) && strncmp(type, "f32[", 4) == 0);
  if (!mesh) return; /* "unplaced" is no spec */
  tsr_sharding again =
      tsr_on_with(mesh, text,
                  &(tsr_on_opts){ .size = sizeof(tsr_on_opts), .strict = sharding->strict });
  REQUIRE(memcmp(&again, sharding, sizeof again) == 0);
}

static void check_good(const tsr_mesh *mesh, const tsr_sharding *sharding, tsr_shape shape)
{
  tsr_sharding canon = tsr__sharding_canon(sharding);
  check_texts(mesh, sharding, shape);
  check_boxes(sharding, shape);
  REQUIRE(tsr__sharding_equal(&canon, sharding) && tsr_sharding_same(sharding, sharding, shape));
}

static void check_spec(const tsr_mesh *mesh, const char *spec, tsr_shape shape, bool strict)
{
  tsr_sharding sharding =
      tsr_on_with(mesh, spec, &(tsr_on_opts){ .size = sizeof(tsr_on_opts), .strict = strict });
  tsr_sharding dims = tsr_on_dims(mesh, 1, &spec);
  tsr__error error = { .status = TSR_OK };
  REQUIRE(dims.rank == 1 || tsr_mesh_status(dims.mesh) != TSR_OK);
  tsr_box box;
  if (tsr__shape_check(&shape, NULL)) {
    REQUIRE(tsr_shard_box(&sharding, shape, 0, &box) != TSR_OK);
  } else if (tsr__sharding_check_form(&sharding, &shape, &error)) {
    fuzz_message(error.text, sizeof error.text);
    REQUIRE(tsr_shard_box(&sharding, shape, 0, &box) == error.status);
    REQUIRE(!tsr_mesh_status(sharding.mesh) || tsr__used_axes(&sharding) == 0);
  } else {
    check_good(mesh, &sharding, shape);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size < CHOICES || size > 1 << 14) return 0;
  const char *text = (const char *)data + CHOICES, *end = (const char *)data + size;
  char *devices = next_line(&text, end), *axes = next_line(&text, end);
  tsr_shape shape = shape_of(data);
  tsr__error error = { .status = TSR_OK };
  tsr__topology topology;
  tsr_runtime *rt =
      tsr__runtime_new(&(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts), .threads = 1 });
  bool good = tsr__topology_parse(devices, &topology, &error) == TSR_OK;
  good = good && topology.device_count <= 256;
  if (error.status) fuzz_message(error.text, sizeof error.text);
  REQUIRE(tsr__topology_install(rt, good ? devices : "cpu:64") == TSR_OK);
  tsr_mesh *mesh = tsr_mesh_make(rt, axes);
  if (tsr_mesh_status(mesh)) fuzz_message(tsr_mesh_message(mesh), sizeof error.text);
  while (text < end) {
    char *spec = next_line(&text, end);
    check_spec(mesh, spec, shape, false);
    check_spec(mesh, spec, shape, true);
    check_spec(NULL, spec, shape, false);
    free(spec);
  }
  free(devices);
  free(axes);
  tsr_runtime_close(rt);
  return 0;
}
