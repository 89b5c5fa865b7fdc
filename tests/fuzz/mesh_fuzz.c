/* Any bytes as devices and meshes over them, one a line: never a crash; what is refused has a
 * message and is inert in every call; what is taken says its axes, reads back from its own text, is
 * the same object as the typed form of it, and its shards cover every array once. The first byte
 * chooses the order of the devices in the typed form. */
#include "fuzz.h"
#include "topology/topology.h"

enum { MOST_COVERED = 256 };

static char *next_line(const char **text, const char *end)
{
  const char *line = *text, *stop = memchr(line, '\n', (size_t)(end - line));
  size_t length = (size_t)((stop ? stop : end) - line);
  *text = stop ? stop + 1 : end;
  return fuzz_text(line, length);
}

/* With one dim over all axes: the parts of the leaders are the whole, one behind the other. */
static void check_cover(const tsr_mesh *mesh, int64_t size)
{
  char spec[TSR_MAX_AXES * 33 + 8] = "";
  for (int i = 0; i < tsr_mesh_axis_count(mesh); i++)
    sprintf(spec + strlen(spec), "%s%s", i ? "+" : "", tsr_mesh_axis_name(mesh, i));
  tsr_sharding sharding = tsr_on_with(mesh, spec, NULL);
  tsr_shape shape = { .rank = 1, .dims = { size } };
  tsr_box box;
  int64_t at = 0;
  if (tsr_mesh_status(sharding.mesh)) return; /* too long for a spec */
  for (int p = 0; p < tsr__positions(&sharding); p++) {
    REQUIRE(tsr_shard_box(&sharding, shape, p, &box) == TSR_OK);
    REQUIRE(box.start[0] == at && box.size[0] >= 0);
    at += box.size[0];
  }
  REQUIRE(at == size);
}

static void check_good(tsr_runtime *rt, const tsr_mesh *mesh, uint8_t order)
{
  tsr_mesh_opts opts = { .size = sizeof opts, .axis_count = tsr_mesh_axis_count(mesh) };
  int64_t count = 1;
  for (int i = 0; i < opts.axis_count; i++) {
    opts.names[i] = tsr_mesh_axis_name(mesh, i);
    opts.sizes[i] = tsr_mesh_axis_size(mesh, opts.names[i]);
    opts.axis_bytes_per_s[i] = (double)mesh->bytes_per_s[i];
    opts.flops_per_s = (double)mesh->flops_per_s;
    REQUIRE(opts.sizes[i] >= 1);
    count *= opts.sizes[i];
  }
  REQUIRE(count == tsr_mesh_device_count(mesh) && count <= tsr_device_count(rt));
  REQUIRE(tsr_mesh_make_with(rt, &opts) == mesh);
  REQUIRE(tsr_mesh_make(rt, tsr_mesh_text(mesh)) == mesh);
  int *devices = malloc((size_t)count * sizeof *devices);
  for (int i = 0; i < count; i++) {
    REQUIRE(tsr_mesh_device(mesh, i) == i);
    devices[i] = (int)((i + order) % count) - (order == 255) + (order == 254);
  }
  opts.devices = devices;
  tsr_mesh *turned = tsr_mesh_make_with(rt, &opts);
  bool good = order != 255 && (order != 254 || count < tsr_device_count(rt));
  if (good) REQUIRE(!tsr_mesh_status(turned) && tsr_mesh_device(turned, 0) == devices[0]);
  else fuzz_message(tsr_mesh_message(turned), 1000);
  free(devices);
  if (count <= MOST_COVERED) check_cover(mesh, 1000);
  if (count <= MOST_COVERED) check_cover(mesh, order);
}

static void check_inert(const tsr_mesh *mesh)
{
  tsr_sharding sharding = tsr_on_with(mesh, "x", NULL);
  tsr_box box;
  fuzz_message(tsr_mesh_message(mesh), 1000);
  REQUIRE(tsr_mesh_axis_count(mesh) == 0 && tsr_mesh_device_count(mesh) == 0);
  REQUIRE(tsr_shard_box(&sharding, (tsr_shape){ .rank = 1, .dims = { 3 } }, 0, &box) != TSR_OK);
  REQUIRE(tsr_mesh_device(mesh, 0) == -1 && !tsr_mesh_axis_name(mesh, 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (!size || size > 1 << 16) return 0;
  const char *text = (const char *)data + 1, *end = (const char *)data + size;
  char *devices = next_line(&text, end);
  tsr__error error = { .status = TSR_OK };
  tsr__topology topology;
  tsr_runtime *rt =
      tsr__runtime_new(&(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts), .threads = 1 });
  bool good = tsr__topology_parse(devices, &topology, &error) == TSR_OK;
  if (!good) fuzz_message(error.text, sizeof error.text);
  REQUIRE(tsr__topology_install(rt, good ? devices : "cpu:24") == TSR_OK);
  while (text < end) {
    char *line = next_line(&text, end);
    tsr_mesh *mesh = tsr_mesh_make(rt, line);
    REQUIRE(mesh && tsr_mesh_make(rt, line) == mesh);
    if (tsr_mesh_status(mesh)) check_inert(mesh);
    else check_good(rt, mesh, data[0]);
    free(line);
  }
  tsr_mesh *all = tsr_mesh_default(rt, devices);
  REQUIRE(tsr_mesh_status(all) || tsr_mesh_device_count(all) == tsr_device_count(rt));
  free(devices);
  tsr_runtime_close(rt);
  return 0;
}
