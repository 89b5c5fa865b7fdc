/* The step of a device routine: whole shards in, whole shards out.
 *
 *   values of the operands --> shards of each local device --> the device's routine --> results
 *
 * A single result is the node's value. Each of several is the value of the RESULT nodes that take
 * it out; a result that no node takes has no buffers, and the routine need not make it.
 *
 * If devices of several processes work together, each process serves its own devices. They meet
 * as the routine asks (tsr__call_peers), or read the others' parts of a table; from another host
 * only the requested elements (tsr__call_reads). */
#include "execute/engine.h"
#include "execute/exchange.h"

/* A result's type, and its value; NULL where nobody reads it.
 *
 * A routine of one result fills results[0], of several one each: fill_routine_part sees no
 * difference. */
typedef struct made {
  tsr_dtype dtype;
  tsr_shape shape;
  const tsr_sharding *sharding;
  tsr__value *value;
} made;

static tsr_status make_result_value(tsr__exec *exec, made *result)
{
  tsr__layout layout = { result->dtype, &result->shape, result->sharding, NULL };
  result->value = tsr__value_new(exec->rt, &layout, exec->error);
  return result->value ? TSR_OK : exec->error->status;
}

/* Several results: each reader of one holds it. */
static tsr_status make_several(tsr__exec *exec, int node, made *results)
{
  const tsr__program *program = exec->program;
  const tsr__gnode *g = &program->nodes[node];
  for (int i = 0; i < g->result_count; i++) {
    const tsr__result *r = &program->results[g->first_result + i];
    results[i] = (made){ .dtype = (tsr_dtype)r->dtype,
                         .shape = { .rank = r->rank },
                         .sharding = &program->shardings[r->sharding] };
    memcpy(results[i].shape.dims, r->dims, sizeof r->dims);
  }
  /* RESULT nodes follow their node. Those that take the same result share one value. */
  for (int n = node + 1; n < program->node_count; n++) {
    if (!tsr__is_part(program, n, node)) continue;
    made *result = &results[tsr__index_of(program, &program->nodes[n])];
    if (result->value) tsr__value_hold(result->value);
    else if (make_result_value(exec, result)) return exec->error->status;
    exec->values[n] = result->value;
  }
  return TSR_OK;
}

static tsr_status make_results(tsr__exec *exec, int node, made *results)
{
  const tsr__gnode *g = &exec->program->nodes[node];
  if (g->result_count) return make_several(exec, node, results);
  results[0] = (made){ .dtype = (tsr_dtype)g->dtype,
                       .shape = tsr__gnode_shape(g),
                       .sharding = tsr__sharding_of(exec, node) };
  if (make_result_value(exec, &results[0])) return exec->error->status;
  exec->values[node] = results[0].value;
  return TSR_OK;
}

/* A routine at work. */
typedef struct calling {
  tsr__exec *exec;
  int node, outs;
  made *results;
  bool apart;              /* together with devices of other processes, */
  int way;                 /* then, a tsr__call_apart */
  const tsr__value **from; /* by operand; with all parts where it reads others', */
  tsr__sight *sight;       /* through this */
  tsr__peers_note *told;   /* by process, where they meet */
  tsr__call_note *notes;
  bool *wanted; /* by result */
} calling;

/* Lists the shards that one device reads and makes. The plan made dims whole that the routine
 * needs whole. An operand that is whole on each device may have its replica here while the
 * position is another process's. */
static tsr_status fill_routine_part(calling *c, tsr__call_part *part)
{
  tsr__exec *exec = c->exec;
  int node = c->node;
  const made *results = c->results;
  const tsr__gnode *g = &exec->program->nodes[node];
  int outs = c->outs, position = part->position;
  tsr__shard *in = tsr__arena_new(exec->scratch, (size_t)(g->in_count + outs) * sizeof *in);
  if (!in) return tsr__no_memory_to_run(exec);
  tsr__shard *out = in + g->in_count;
  bool elsewhere = c->apart && part->process != tsr__topology_of(exec->rt)->process_index;
  bool blind = elsewhere && c->way == TSR__CALL_MEETS;
  for (int i = 0; i < g->in_count; i++) {
    const tsr__value *value = c->from[i];
    in[i].buffer = blind ? NULL : value->parts[tsr__value_near(value, position)];
    tsr__value_box(value, position, &in[i].box);
  }
  for (int i = 0; i < outs; i++) {
    out[i].buffer = results[i].value ? results[i].value->parts[position] : NULL;
    tsr__box(results[i].sharding, &results[i].shape, position, &out[i].box);
  }
  part->in = in;
  part->out = out;
  return TSR_OK;
}

/* Whether devices that work together are several processes': by how the node lies alone. Routines
 * whose devices do not talk have nothing to do for others' positions. */
static bool routine_crosses_processes(const tsr__exec *exec, int node, const tsr_sharding *sharding)
{
  unsigned axes = tsr__devices_of(exec->rt)->ops->call_axes(exec->program, node);
  return tsr__groups_are_apart(exec->rt, sharding->mesh, axes);
}

static const tsr__call_note *gather_call_notes(void *user, const void *mine, size_t size,
                                               tsr__error *error)
{
  const calling *c = user;
  tsr__peers *peers = tsr__peers_of(c->exec->rt);
  if (tsr__peers_gather(peers, mine, size, c->told, error)) return NULL;
  for (int p = 0; p < tsr__peers_count(peers); p++)
    c->notes[p] = (tsr__call_note){ c->told[p].data, c->told[p].size };
  return c->notes;
}

static tsr_status exchange_call_rows(void *user, const tsr__call_exchange *ask, tsr__error *error)
{
  const calling *c = user;
  tsr__moved moved = { 0 };
  const tsr__exchange rows = { .rt = c->exec->rt,
                               .from = ask->parts,
                               .apart = true,
                               .counts = ask->counts,
                               .dest = ask->dest,
                               .column_count = ask->column_count,
                               .columns = ask->columns,
                               .values = ask->values,
                               .valid = ask->values + ask->column_count * ask->parts->count,
                               .rows = ask->rows,
                               .moved = &moved };
  tsr_status status = tsr__exchange_rows(&rows, error);
  *ask->bytes += moved.bytes;
  return status;
}

static void want_call_part(void *user, const tsr__call_part *part, int64_t first, int64_t count)
{
  const calling *c = user;
  const tsr__value *value = c->from[0];
  int64_t all = tsr__box_count(&part->in[0].box, value->shape.rank);
  const tsr__box_copy copy = { .dtype = (tsr_dtype)value->dtype,
                               .rank = 1,
                               .from_dims = &all,
                               .from_start = &first,
                               .size = &count };
  tsr__sight_want_box(part->in[0].buffer, &copy);
}

static tsr_status await_call_parts(void *user, tsr__error *error)
{
  const calling *c = user;
  return tsr__sight_come(c->sight, error);
}

static tsr_status run_parts(calling *c, const tsr_sharding *sharding)
{
  tsr__exec *exec = c->exec;
  const tsr__topology *topology = tsr__topology_of(exec->rt);
  int positions = tsr__positions(sharding), count = 0;
  tsr__call_part *parts = tsr__arena_new(exec->scratch, (size_t)positions * sizeof *parts);
  if (!parts) return tsr__no_memory_to_run(exec);
  for (int p = 0; p < positions; p++) {
    int device = tsr__home_device(exec->rt, sharding, p);
    if (!tsr__device_local(topology, device) && !c->apart) continue;
    parts[count] = (tsr__call_part){ .device = device,
                                     .position = p,
                                     .process = tsr__device_process(topology, device) };
    if (fill_routine_part(c, &parts[count++])) return exec->error->status;
  }
  if (!count) return TSR_OK; /* all of it is other processes' */
  const tsr__call_peers peers = { .user = c,
                                  .index = topology->process_index,
                                  .count = topology->process_count,
                                  .wanted = c->wanted,
                                  .gather = gather_call_notes,
                                  .exchange = exchange_call_rows };
  tsr__call call = {
    .rt = exec->rt,
    .program = exec->program,
    .node = c->node,
    .part_count = count,
    .parts = parts,
    .peers = c->apart && c->way == TSR__CALL_MEETS ? &peers : NULL,
    .traffic = &exec->traffic,
  };
  const tsr__call_reads reads = { c, want_call_part, await_call_parts };
  if (c->apart && c->way == TSR__CALL_LOOKS && tsr__sight_is_far(c->sight)) call.reads = &reads;
  return tsr__devices_of(exec->rt)->ops->call(&call, exec->error);
}

/* Prepares a routine over several processes. */
static tsr_status open_apart(calling *c)
{
  tsr__exec *exec = c->exec;
  size_t processes = (size_t)tsr__topology_of(exec->rt)->process_count;
  c->way = tsr__devices_of(exec->rt)->ops->call_apart(exec->program, c->node);
  if (c->way == TSR__CALL_MEETS) {
    c->told = tsr__arena_new(exec->scratch, processes * sizeof *c->told);
    c->notes = tsr__arena_new(exec->scratch, processes * sizeof *c->notes);
    c->wanted = tsr__arena_new(exec->scratch, (size_t)c->outs * sizeof *c->wanted);
    if (!c->told || !c->notes || !c->wanted) return tsr__no_memory_to_run(exec);
    for (int i = 0; i < c->outs; i++) c->wanted[i] = c->results[i].value != NULL;
    return TSR_OK;
  }
  int count = exec->program->nodes[c->node].in_count;
  tsr_status status = tsr__see_pieces(exec->rt, c->from, count, c->sight, exec->error);
  for (int i = 1; i < count && !status; i++) tsr__sight_want_all(c->sight, i);
  if (status) return status;
  status = tsr__sight_come(c->sight, exec->error);
  return status ? tsr__unsee(c->sight, status, exec->error) : TSR_OK;
}

/* Results are in exec->values before the routine runs; where it fails, the run lets go of them. */
tsr_status tsr__exec_routine(tsr__exec *exec, int node)
{
  const tsr__gnode *g = &exec->program->nodes[node];
  calling c = { .exec = exec, .node = node, .outs = g->result_count ? g->result_count : 1 };
  c.results = tsr__arena_new(exec->scratch, (size_t)c.outs * sizeof *c.results);
  c.from = tsr__arena_new(exec->scratch, ((size_t)g->in_count + 1) * sizeof *c.from);
  if (!c.results || !c.from) return tsr__no_memory_to_run(exec);
  if (make_results(exec, node, c.results)) return exec->error->status;
  const tsr_sharding *sharding = c.results[0].sharding; /* all lie alike */
  for (int i = 0; i < g->in_count; i++) c.from[i] = tsr__value_in(exec, node, i);
  tsr__sight sight = { .rt = exec->rt };
  c.sight = &sight;
  c.apart = routine_crosses_processes(exec, node, sharding);
  if (c.apart && open_apart(&c)) return exec->error->status;
  tsr_status status = run_parts(&c, sharding);
  return tsr__unsee(&sight, status, exec->error);
}
