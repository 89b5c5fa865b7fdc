/* Processes that open one pipeline: all of them do, or none, and it is the same one.
 *
 *   process 0   fine, "npz(a.npz: 1797 of ...) > batch(64, all) > epochs(2) > from(0)"
 *   process 1   "a.npz: cannot open: ..."           all: process 1: a.npz: cannot open: ...
 *
 * They meet once, at the coordinator. Afterwards batches are arithmetic: equal texts are equal
 * numbers of batches of equal records, so nobody waits for another's batch in vain. */
#include "comm/comm.h"
#include "pipeline/pipeline_room.h"

/* Who takes part: processes with devices of the meshes. */
typedef struct party {
  int *processes; /* in order */
  size_t room;    /* of it, in bytes */
  int count;
  bool own; /* this one does */
} party;

static void add_mesh(const tsr__topology *topology, const tsr_mesh *mesh, int *there)
{
  for (int i = 0; mesh && mesh->devices && i < mesh->device_count; i++)
    there[tsr__device_process(topology, mesh->devices[i])] = 1;
}

static bool find_party(tsr_runtime *rt, const tsr_pipeline_args *args, party *out)
{
  const tsr__topology *topology = tsr__topology_of(rt);
  *out = (party){ .room = (size_t)topology->process_count * sizeof *out->processes };
  out->processes = tsr__new(&rt->heap, out->room);
  if (!out->processes) return false;
  add_mesh(topology, args->on.mesh, out->processes);
  for (int i = 0; i < TSR_MAX_FIELDS && args->fields[i].name; i++)
    add_mesh(topology, args->fields[i].on.mesh, out->processes);
  out->own = out->processes[topology->process_index];
  for (int p = 0; p < topology->process_count; p++)
    if (out->processes[p]) out->processes[out->count++] = p;
  return true;
}

static bool is_others(const tsr__topology *topology, const tsr_mesh *mesh)
{
  bool others = false;
  for (int i = 0; mesh && mesh->devices && i < mesh->device_count; i++)
    others = others || !tsr__device_local(topology, mesh->devices[i]);
  return others;
}

bool tsr__is_apart(const tsr_runtime *rt, const tsr_pipeline_args *args)
{
  const tsr__topology *topology = tsr__topology_of(rt);
  bool apart = is_others(topology, args->on.mesh);
  for (int i = 0; i < TSR_MAX_FIELDS && args->fields[i].name; i++)
    apart = apart || is_others(topology, args->fields[i].on.mesh);
  return apart;
}

/* The next record: how it went there, and what was opened. False: it is no record. */
static bool take_record(tsr__fields *fields, tsr__error *told, tsr__text *text)
{
  tsr__blob record = tsr__take_bytes(fields);
  tsr__fields own = { record.data, (const uint8_t *)record.data + record.length, false };
  *told = (tsr__error){ .status = (tsr_status)tsr__take_u32(&own) };
  tsr__take_text(&own, told->text, sizeof told->text - 1);
  tsr__blob words = tsr__take_bytes(&own);
  tsr__text_put(text, words.data, words.length);
  return tsr__fields_done(&own) && !text->failed;
}

/* The first that failed decides what all say; then the first that opened another one. */
static tsr_status judge(const party *all, const tsr__text *records, tsr__error *error)
{
  tsr__fields fields = { (const uint8_t *)records->data,
                         (const uint8_t *)records->data + records->length, false };
  tsr__text first, other;
  tsr__text_init(&first, records->heap);
  tsr__text_init(&other, records->heap);
  tsr__error apart = { 0 };
  for (int i = 0; i < all->count && !error->status; i++) {
    tsr__error told;
    tsr__text *text = i ? &other : &first;
    other.length = 0;
    if (!take_record(&fields, &told, text)) {
      tsr__error_set(error, TSR_EPEER,
                     "process %d sent a record that belongs to no pipeline; run the same version "
                     "in all processes",
                     all->processes[i]);
    } else if (told.status) {
      tsr__error_set(error, told.status, "process %d: %.900s", all->processes[i], told.text);
      /* Kept, not told yet: a process that failed behind this one is the better explanation. */
    } else if (i && !apart.status && strcmp(tsr__text_get(&first), tsr__text_get(&other)) != 0) {
      tsr__stage_pair pair;
      tsr__stages_differ(tsr__text_get(&first), tsr__text_get(&other), &pair);
      tsr__error_set(&apart, TSR_ESTATE,
                     "process %d opens another pipeline than process %d: its stage %d is '%.*s', "
                     "but '%.*s' in process %d; open the same pipeline in all processes",
                     all->processes[i], all->processes[0], pair.stage, pair.length[1], pair.text[1],
                     pair.length[0], pair.text[0], all->processes[0]);
    }
  }
  if (!error->status) *error = apart;
  tsr__text_free(&first);
  tsr__text_free(&other);
  return error->status;
}

/* This process's record. */
static void put_record(const tsr_pipeline *p, const tsr__error *error, tsr__text *out)
{
  tsr__text text;
  tsr__text_init(&text, out->heap);
  if (p && !error->status) tsr__fingerprint(p, &text, true);
  tsr__write_u32(out, error->status);
  tsr__write_bytes(out, error->text, error->status ? strlen(error->text) : 0);
  tsr__write_bytes(out, tsr__text_get(&text), text.length);
  if (text.failed) out->failed = true;
  tsr__text_free(&text);
}

tsr_status tsr__agree_open(tsr_runtime *rt, const tsr_pipeline_args *args, const tsr_pipeline *p,
                           tsr__error *error)
{
  tsr__comm *comm = tsr__comm_of(rt);
  party all;
  tsr__text record, told;
  tsr__error met = { 0 };
  if (!comm || tsr__comm_count(comm) == 1) return error->status;
  if (!find_party(rt, args, &all))
    return tsr__error_set(error, TSR_ENOMEM, "no memory for a list of processes");
  tsr__text_init(&record, &rt->heap);
  tsr__text_init(&told, &rt->heap);
  put_record(p, error, &record);
  tsr__comm_meeting meeting = { .name = "tsr pipeline open",
                                .seconds = tsr__comm_role(comm)->wait_seconds,
                                .processes = all.processes,
                                .count = all.count,
                                .record = { record.data, record.length } };
  /* Who cannot open meets the others all the same, or they would wait for it until their time is
   * over. */
  if (record.failed) /* what there is of it is no record, which the others see */
    tsr__error_set(error, TSR_ENOMEM, "no memory for the messages between processes");
  if (all.own && all.count > 1) {
    tsr_status own = error->status;
    /* This process's own trouble comes first: that the others were lost is what came of it. */
    if (tsr__comm_meet(comm, &meeting, &told, &met)) *error = own ? *error : met;
    else if (!own) judge(&all, &told, error);
  }
  tsr__text_free(&told);
  tsr__text_free(&record);
  tsr__del(&rt->heap, all.processes, all.room);
  return error->status;
}
