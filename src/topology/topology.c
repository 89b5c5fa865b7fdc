/* What devices there are, and the runtime's slot that remembers it.
 *
 * Device ids run over the processes in order, so that a device's process is known without
 * asking anyone:
 *
 *     process      0               1
 *     devices   0 1 2 3         4 5 6 7        2 processes of "cpu:4"
 *
 * The topology owns the meshes, good and inert ones alike: a table by hash. */
#include "topology/topology.h"

#include "base/utf8.h"

#include <stdio.h>

/* ---- user text in messages --------------------------------------------------------------- */

/* Bytes of the character at `text` where it can be shown as it is, or 0: no UTF-8, or it
 * controls. */
static size_t shown(const char *text, size_t length)
{
  uint32_t c = 0;
  /* Control characters of a user's text could drive a terminal that shows the message: C0, DEL
   * and C1. */
  size_t size = tsr__utf8_read(text, length, &c);
  return c < 0x20 || (c >= 0x7f && c < 0xa0) ? 0 : size;
}

/* Fixed room, so that messages need no memory to say what was wrong. */
const char *tsr__quote(const char *text, size_t length, char out[TSR__QUOTE])
{
  const size_t room = TSR__QUOTE - 1 - 3; /* the end of line and "..." */
  size_t n = 0, i = 0;

  while (i < length) {
    size_t bytes = shown(text + i, length - i);
    /* A byte that is no character is skipped alone, so that what follows is found again. */
    size_t add = bytes ? bytes : 1;
    /* Characters are not cut: either all bytes of one fit before the dots or none. */
    if (n + add > room) {
      memcpy(out + n, "...", 3);
      n += 3;
      break;
    }
    if (bytes) memcpy(out + n, text + i, bytes);
    else out[n] = '?';
    n += add;
    i += add;
  }
  out[n] = '\0';
  return out;
}

/* ---- devices ----------------------------------------------------------------------------- */

/* Reads a whole text as a count from 1 to TSR__MOST_DEVICES; 0: the text is not such a count. */
static int device_number(const char *text, size_t length)
{
  int value = 0;

  for (size_t i = 0; i < length; i++) {
    if (text[i] < '0' || text[i] > '9') return 0;
    value = value * 10 + (text[i] - '0');
    /* In each round, so that no text is long enough to overflow. */
    if (value > TSR__MOST_DEVICES) return 0;
  }
  return value;
}

/* The name of a kind as the list has it, which stays; NULL: no kind is named so. */
static const char *known_kind(const char *name, size_t length)
{
  const char *const *known = tsr__kind_names();

  while (*known && (strlen(*known) != length || memcmp(*known, name, length) != 0)) known++;
  return *known;
}

/* A part of the text between commas. */
typedef struct device_part {
  const char *all; /* the whole text */
  const char *kind, *count;
  size_t kind_length, count_length;
} device_part;

/* Names the kinds that there are. */
static tsr_status refuse_kind(const device_part *part, tsr__error *error)
{
  char quote[TSR__QUOTE], kind[TSR__QUOTE], known[TSR__QUOTE] = "";

  for (const char *const *name = tsr__kind_names(); *name; name++) {
    size_t n = strlen(known);
    snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", *name);
  }
  return tsr__error_set(error, TSR_EPARSE,
                        "devices \"%s\": there is no device kind '%s', only %s; write \"cpu:8\" "
                        "for 8 virtual devices",
                        tsr__quote(part->all, strlen(part->all), quote),
                        tsr__quote(part->kind, part->kind_length, kind), known);
}

/* Names the kind, so that the reader finds the part of a longer text. */
static tsr_status refuse_count(const device_part *part, const char *kind, tsr__error *error)
{
  char quote[TSR__QUOTE], count[TSR__QUOTE];

  return tsr__error_set(
      error, TSR_EPARSE,
      "devices \"%s\": '%s' is not a device count; write a number from 1 to %d after \"%s:\"",
      tsr__quote(part->all, strlen(part->all), quote),
      tsr__quote(part->count, part->count_length, count), (int)TSR__MOST_DEVICES, kind);
}

/* Tells both limits, since the text shows which one it passes. */
static tsr_status refuse_more_devices(const device_part *part, tsr__error *error)
{
  char quote[TSR__QUOTE];

  return tsr__error_set(error, TSR_EPARSE,
                        "devices \"%s\": these are more than %d devices of %d kinds, the most that "
                        "a runtime has; name fewer",
                        tsr__quote(part->all, strlen(part->all), quote), (int)TSR__MOST_DEVICES,
                        (int)TSR__MOST_KINDS);
}

/* Adds the devices of a part. */
static tsr_status add_devices(const device_part *part, tsr__topology *out, tsr__error *error)
{
  char quote[TSR__QUOTE];
  const char *kind = known_kind(part->kind, part->kind_length);
  int count = part->count ? device_number(part->count, part->count_length) : 1;

  if (!kind) return refuse_kind(part, error);
  if (!count) return refuse_count(part, kind, error);
  /* Devices of a kind follow each other, so that a range of ids is a kind. */
  for (int k = 0; k < out->kind_count; k++)
    if (strcmp(out->kinds[k].name, kind) == 0)
      return tsr__error_set(error, TSR_EPARSE,
                            "devices \"%s\": the kind %s is named twice; write it once, with the "
                            "count of all its devices",
                            tsr__quote(part->all, strlen(part->all), quote), kind);
  if (out->kind_count == TSR__MOST_KINDS || count > TSR__MOST_DEVICES - out->per_process)
    return refuse_more_devices(part, error);
  snprintf(out->kinds[out->kind_count].name, TSR__KIND_NAME, "%s", kind);
  out->kinds[out->kind_count++].first = out->per_process;
  out->device_count = out->per_process += count;
  return TSR_OK;
}

/* `at` ends at a comma or with the text. */
static device_part device_part_at(const char *all, const char *at)
{
  size_t length = strcspn(at, ",");
  const char *colon = memchr(at, ':', length);
  device_part part = { .all = all, .kind = at, .kind_length = length };

  if (!colon) return part;
  part.kind_length = (size_t)(colon - at);
  part.count = colon + 1;
  part.count_length = length - part.kind_length - 1;
  return part;
}

tsr_status tsr__topology_parse(const char *text, tsr__topology *out, tsr__error *error)
{
  /* One process: others are for tsr__topology_spread, until there are some. */
  tsr__topology read = { .process_count = 1 };

  if (!text)
    return tsr__error_set(error, TSR_EARG,
                          "the devices are NULL; write \"cpu:8\" for 8 virtual devices");
  for (const char *at = text;; at++) {
    device_part part = device_part_at(text, at);
    if (add_devices(&part, &read, error)) return error->status;
    at += strcspn(at, ",");
    if (!*at) break;
  }
  *out = read;
  return TSR_OK;
}

int tsr__device_kind_of(const tsr__topology *topology, int device)
{
  int own = device % topology->per_process, kind = topology->kind_count - 1;

  while (topology->kinds[kind].first > own) kind--;
  return kind;
}

void tsr__mesh_free(tsr__heap *heap, tsr_mesh *mesh)
{
  size_t ints = (size_t)mesh->device_count + (size_t)mesh->place_count;
  if (mesh->devices) tsr__del(heap, mesh->devices, ints * sizeof(int));
  if (mesh->text) tsr__del(heap, mesh->text, strlen(mesh->text) + 1);
  if (mesh->error) tsr__del(heap, mesh->error, sizeof *mesh->error);
  tsr__del(heap, mesh, sizeof *mesh);
}

/* With all meshes: what points to one must be gone, as scopes are when slots are freed. */
static void topology_free(tsr_runtime *rt, void *slot)
{
  tsr__topology *topology = slot;

  for (tsr__branch *at = topology->meshes.newest, *older; at; at = older) {
    older = at->older;
    tsr__mesh_free(&rt->heap, (tsr_mesh *)at);
  }
  tsr__del(&rt->heap, topology, sizeof *topology);
}

tsr_status tsr__topology_install(tsr_runtime *rt, const char *devices)
{
  tsr__error error = { .status = TSR_OK };
  tsr__topology parsed;

  if (!rt) return TSR_EARG;
  if (rt->error.status) return rt->error.status; /* inert: nothing may be hung on it */
  if (rt->slots[TSR__SLOT_TOPOLOGY])
    return tsr__runtime_fail(rt, TSR_ESTATE, "tsr_runtime_open: the runtime has devices already");
  if (tsr__topology_parse(devices, &parsed, &error))
    return tsr__runtime_fail(rt, error.status, "tsr_runtime_open: %s", error.text);
  tsr__topology *topology = tsr__new(&rt->heap, sizeof *topology);
  if (!topology)
    return tsr__runtime_fail(rt, TSR_ENOMEM,
                             "tsr_runtime_open: out of memory for the list of "
                             "devices");
  *topology = parsed;
  /* The slot is filled last: who finds one finds it whole. The runtime calls slot_free when it
   * closes. */
  rt->slots[TSR__SLOT_TOPOLOGY] = topology;
  rt->slot_free[TSR__SLOT_TOPOLOGY] = topology_free;
  return TSR_OK;
}

bool tsr__topology_spread(tsr_runtime *rt, int count, int index)
{
  tsr__topology *topology = tsr__topology_of(rt);

  /* A mesh that is there was checked against fewer devices. */
  if (!topology || topology->meshes.top || index < 0 || index >= count) return false;
  if (count > TSR__MOST_DEVICES / topology->per_process) return false;
  topology->process_count = count;
  topology->process_index = index;
  topology->device_count = count * topology->per_process;
  return true;
}

int tsr__first_beside(const tsr_mesh *mesh, int device)
{
  const tsr__topology *topology = mesh && !mesh->abstract ? tsr__topology_of(mesh->rt) : NULL;

  return topology ? device / topology->per_process * topology->per_process : 0;
}

/* Put back where spreading is refused. */
bool tsr__topology_split(tsr_runtime *rt, int count, int index)
{
  tsr__topology *topology = tsr__topology_of(rt);
  int all = topology ? topology->device_count : 0;

  if (!topology || count < 1 || all % count || topology->process_count > 1) return false;
  topology->per_process = all / count;
  if (tsr__topology_spread(rt, count, index)) return true;
  topology->per_process = all;
  return false;
}

int tsr__device_process(const tsr__topology *topology, int device)
{
  if (!topology || device < 0 || device >= topology->device_count) return -1;
  return device / topology->per_process;
}
