/* Any bytes as devices, a mesh and a spec, one a line: never a crash; what is taken can be
 * written and read again; what is refused has a message. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "topology/topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)     \
  do {                         \
    if (!(condition)) abort(); \
  } while (0)

/* Cuts the next line out of `text`; an exact copy, so that a byte read past it is noticed. */
static char *next_line(const char **text, const char *end)
{
  const char *line = *text, *stop = memchr(line, '\n', (size_t)(end - line));
  size_t length = (size_t)((stop ? stop : end) - line);
  char *out = malloc(length + 1);

  REQUIRE(out);
  memcpy(out, line, length);
  out[length] = '\0';
  *text = stop ? stop + 1 : end;
  return out;
}

static void check_message(const char *message)
{
  REQUIRE(message[0] && strlen(message) < sizeof(((tsr__error *)0)->text));
  for (; *message; message++) REQUIRE((unsigned char)*message >= 0x20 && *message != 0x7f);
}

static void check_good(const tsr_mesh *mesh, const tsr_sharding *sharding)
{
  tsr_shape shape = { .rank = 8, .dims = { 7, 5, 3, 2, 1, 0, 9, 11 } };
  char text[1024];
  tsr_box box;

  int length = tsr_sharding_text(sharding, sharding->rank, text, sizeof text);
  REQUIRE(length == (int)strlen(text));
  if (mesh) { /* "unplaced" is no spec */
    tsr_sharding again = tsr_on_with(mesh, text, NULL);
    REQUIRE(memcmp(&again, sharding, sizeof again) == 0);
  }
  for (int p = 0; p < tsr__positions(sharding); p += 1 + p / 7) {
    REQUIRE(tsr_shard_box(sharding, shape, p, &box) == TSR_OK);
    for (int d = 0; d < 8; d++)
      REQUIRE(box.start[d] >= 0 && box.size[d] >= 0 && box.start[d] + box.size[d] <= shape.dims[d]);
    REQUIRE(tsr__replica_leader(sharding, p) <= p);
  }
}

static void check_spec(const tsr_mesh *mesh, const char *spec)
{
  tsr_shape shape = { .rank = 8, .dims = { 7, 5, 3, 2, 1, 0, 9, 11 } };
  tsr_sharding sharding = tsr_on_with(mesh, spec, NULL);
  tsr_sharding dims = tsr_on_dims(mesh, 1, &spec);
  tsr__error error = { .status = TSR_OK };

  REQUIRE(dims.error || dims.rank == 1);
  if (tsr__sharding_check(&sharding, &shape, &error)) {
    check_message(error.text);
    REQUIRE(tsr__used_axes(&sharding) == 0);
  } else {
    check_good(mesh, &sharding);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const char *text = (const char *)data, *end = text + size;
  char *devices = next_line(&text, end), *axes = next_line(&text, end);
  tsr__error error = { .status = TSR_OK };
  tsr__topology topology;
  tsr_runtime *rt = tsr__runtime_new(NULL);

  bool good = tsr__topology_parse(devices, &topology, &error) == TSR_OK;
  if (!good) check_message(error.text);
  REQUIRE(tsr__topology_install(rt, good ? devices : "cpu:64") == TSR_OK);
  tsr_mesh *mesh = tsr_mesh_make(rt, axes);
  if (tsr_mesh_status(mesh)) check_message(tsr_mesh_message(mesh));
  else REQUIRE(tsr_mesh_make(rt, tsr_mesh_text(mesh)) == mesh);
  while (text < end) {
    char *spec = next_line(&text, end);
    check_spec(mesh, spec);
    check_spec(NULL, spec);
    free(spec);
  }
  free(devices);
  free(axes);
  tsr_runtime_close(rt);
  return 0;
}
