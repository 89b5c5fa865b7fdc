/* The step of a device routine: whole shards in, whole shards out.
 *
 *   values of the operands --> shards of each local device --> the device's routine --> results
 *
 * One result is the node's value. Of several each is the value of the RESULT nodes that take it
 * out; one that nobody takes has no buffers, and the routine need not make it. */
#include "execute/engine.h"

static tsr_status out_of_scratch(tsr__exec *exec)
{
  return tsr__error_set(exec->error, TSR_ENOMEM, "no memory to run a program; free some arrays");
}

/* A result: what it is, and the value that takes it; NULL where nobody reads it.
 *
 * A routine of one result fills results[0], of several one each: fill_part sees no difference. */
typedef struct made {
  tsr_dtype dtype;
  tsr_shape shape;
  const tsr_sharding *sharding;
  tsr__value *value;
} made;

static tsr_status make_value(tsr__exec *exec, made *result)
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
  /* RESULT nodes stand behind their node. Where several take the same result out they share one
   * value. */
  for (int n = node + 1; n < program->node_count; n++) {
    if (!tsr__is_part(program, n, node)) continue;
    made *result = &results[tsr__index_of(program, &program->nodes[n])];
    if (result->value) tsr__value_hold(result->value);
    else if (make_value(exec, result)) return exec->error->status;
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
  if (make_value(exec, &results[0])) return exec->error->status;
  exec->values[node] = results[0].value;
  return TSR_OK;
}

/* What one device reads and makes. Shards as they lie: the plan saw to it that dims which the
 * routine needs whole are whole here. */
static tsr_status fill_part(tsr__exec *exec, int node, const made *results, tsr__call_part *part)
{
  const tsr__gnode *g = &exec->program->nodes[node];
  int outs = g->result_count ? g->result_count : 1, position = part->position;
  tsr__shard *in = tsr__arena_new(exec->scratch, (size_t)(g->in_count + outs) * sizeof *in);
  if (!in) return out_of_scratch(exec);
  tsr__shard *out = in + g->in_count;
  for (int i = 0; i < g->in_count; i++) {
    const tsr__value *value = tsr__value_in(exec, node, i);
    in[i].buffer = value->parts[position];
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

tsr_status tsr__exec_routine(tsr__exec *exec, int node)
{
  const tsr__gnode *g = &exec->program->nodes[node];
  int outs = g->result_count ? g->result_count : 1, count = 0;
  made *results = tsr__arena_new(exec->scratch, (size_t)outs * sizeof *results);
  if (!results) return out_of_scratch(exec);
  if (make_results(exec, node, results)) return exec->error->status;
  const tsr_sharding *sharding = results[0].sharding; /* all lie alike */
  int positions = tsr__positions(sharding);
  tsr__call_part *parts = tsr__arena_new(exec->scratch, (size_t)positions * sizeof *parts);
  if (!parts) return out_of_scratch(exec);
  for (int p = 0; p < positions; p++) {
    int device = tsr__position_device(sharding, p);
    if (!tsr__device_local(tsr__topology_of(exec->rt), device)) continue;
    parts[count] = (tsr__call_part){ .device = device, .position = p };
    if (fill_part(exec, node, results, &parts[count++])) return exec->error->status;
  }
  tsr__call call = {
    .rt = exec->rt,
    .program = exec->program,
    .node = node,
    .part_count = count,
    .parts = parts,
    .traffic = &exec->traffic,
  };
  return tsr__devices_of(exec->rt)->ops->call(&call, exec->error);
}
