/* See kernel_fixture.h: a minimal stand-in for what runs plans. */
#include "support/kernel_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "topology/topology.h"

void kernel_open(kernel_fixture *k, int devices, const char *isa, int threads)
{
  char text[32] = "cpu:1";
  memset(k, 0, sizeof *k);
  text[4] = (char)('0' + devices);
  tsr_runtime_opts opts = { .size = sizeof opts, .isa = isa, .threads = threads };
  k->rt = tsr__runtime_new(&opts);
  CHECK_STATUS(tsr__topology_install(k->rt, text), TSR_OK, NULL);
  CHECK_STATUS(tsr__devices_install(k->rt), TSR_OK, NULL);
  k->positions = devices;
  if (devices > 1) k->mesh = tsr_mesh_default(k->rt, "x");
  tsr__program_init(&k->program, &k->rt->heap);
}

void kernel_close(kernel_fixture *k)
{
  tsr__schedule_free(&k->schedule);
  for (int n = 0; n < k->program.node_count; n++)
    for (int p = 0; p < k->positions; p++) tsr__buffer_release(k->buffer[n][p]);
  tsr__program_free(&k->program);
  tsr_runtime_close(k->rt);
}

bool kernel_has(const char *isa)
{
  tsr_runtime_opts opts = { .size = sizeof opts, .isa = isa };
  tsr_runtime *rt = tsr__runtime_new(&opts);
  CHECK_STATUS(tsr__topology_install(rt, "cpu:1"), TSR_OK, NULL);
  bool has = tsr__devices_install(rt) == TSR_OK;
  tsr_runtime_close(rt);
  return has;
}

/* ---- nodes ---- */

static tsr_sharding sharding_at(kernel_fixture *k, bool sharded)
{
  if (!k->mesh) return (tsr_sharding){ .mesh = NULL };
  tsr_sharding asked = tsr_on(k->mesh, sharded ? "x" : "-");
  return tsr__sharding_canon(&asked);
}

static void part_box(kernel_fixture *k, int node, int position, tsr_box *box)
{
  tsr_shape shape = tsr__gnode_shape(&k->program.nodes[node]);
  tsr__box(&k->program.shardings[k->program.nodes[node].sharding], &shape, position, box);
}

static int64_t box_count(const tsr_box *box, int rank)
{
  int64_t count = 1;
  for (int d = 0; d < rank; d++) count *= box->size[d];
  return count;
}

/* As test_guarded, but given back with the buffer: a test makes thousands. */
typedef struct guard {
  void *pages;
  size_t bytes;
} guard;

static void drop_guard(void *data, void *user)
{
  guard *g = user;
  (void)data;
  munmap(g->pages, g->bytes);
  free(g);
}

static tsr__buffer *guarded_buffer(tsr_runtime *rt, int device, size_t bytes, bool before)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
  guard *g = malloc(sizeof *g);
  CHECK(g);
  g->bytes = room + page;
  g->pages = mmap(NULL, g->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(g->pages != MAP_FAILED);
  char *start = (char *)g->pages + (before ? page : 0);
  CHECK(!mprotect((char *)g->pages + (before ? 0 : room), page, PROT_NONE));
  void *data = before ? start : start + room - bytes;
  memset(data, 0xA5, bytes);
  return tsr__devices_of(rt)->ops->adopt(rt, device, &(tsr__foreign){ data, bytes, drop_guard, g });
}

static void make_buffers(kernel_fixture *k, int node)
{
  const tsr__gnode *g = &k->program.nodes[node];
  for (int p = 0; p < k->positions; p++) {
    tsr_box box;
    part_box(k, node, p, &box);
    size_t bytes = tsr__device_bytes((tsr_dtype)g->dtype, box_count(&box, g->rank));
    k->buffer[node][p] = guarded_buffer(k->rt, p, bytes, (node + p) % 2);
  }
}

int kernel_leaf(kernel_fixture *k, tsr_dtype dtype, tsr_shape shape, bool sharded, const void *host)
{
  tsr_sharding at = sharding_at(k, sharded);
  tsr__gnode g = {
    .op = TSR__OP_LEAF, .dtype = (uint8_t)dtype, .rank = (uint8_t)shape.rank, .param = -1
  };
  for (int d = 0; d < shape.rank; d++) g.dims[d] = shape.dims[d];
  g.sharding = (uint16_t)tsr__program_sharding(&k->program, &at);
  int node = tsr__program_add(&k->program, &g, TSR__LINKS_NONE, NULL);
  CHECK(node < FIXTURE_NODES);
  make_buffers(k, node);
  for (int p = 0; p < k->positions; p++) {
    tsr_box box;
    int64_t zero[TSR_MAX_RANK] = { 0 };
    part_box(k, node, p, &box);
    tsr__box_copy copy = { dtype,    shape.rank, shape.dims, box.start, box.size, zero,
                           box.size, NULL,       0,          NULL,      false };
    tsr__devices_of(k->rt)->ops->from_host(&copy, host, k->buffer[node][p]);
  }
  return node;
}

static int number(kernel_fixture *k, tsr_dtype dtype, tsr__num value)
{
  CHECK(tsr__grow(k->program.heap, (void **)&k->program.params, &k->program.param_capacity,
                  (size_t)k->program.param_count + 1, sizeof value));
  k->program.params[k->program.param_count] = value;
  tsr__gnode g = { .op = TSR__OP_CONST,
                   .dtype = (uint8_t)dtype,
                   .param = k->program.param_count++,
                   .param_count = 1 };
  return tsr__program_add(&k->program, &g, TSR__LINKS_NONE, NULL);
}

int kernel_number(kernel_fixture *k, tsr_dtype dtype, double value)
{
  return number(k, dtype, (tsr__num){ .f = value });
}

int kernel_integer(kernel_fixture *k, tsr_dtype dtype, int64_t value)
{
  return number(k, dtype, (tsr__num){ .i = value });
}

int kernel_node(kernel_fixture *k, tsr__op op, tsr__links in, const tsr__ask *ask, bool sharded)
{
  enum { MOST = 8 };
  tsr__type type[MOST] = { { .dtype = 0 } };
  uint8_t want[MOST];
  tsr__inferred found = { .operand = want };
  tsr__error error = { .status = TSR_OK };
  const tsr__attr_info *family = &tsr__attrs[tsr__ops[op].attr];
  tsr__gnode g = { .op = (uint16_t)op, .param = -1, .attr_bytes = family->bytes };
  CHECK(!ask->attr || ask->attr_bytes == family->bytes);
  g.attr = tsr__program_attr(&k->program, ask->attr ? ask->attr : family->zero, family->bytes);
  while (in.count && in.at[in.count - 1] < 0) in.count--;
  CHECK(in.count <= MOST);
  for (int i = 0; i < in.count; i++)
    if (in.at[i] >= 0) type[i] = tsr__gnode_type(&k->program.nodes[in.at[i]]);
  if (tsr__infer(op, (tsr__types){ type, in.count }, ask, &found, &error)) FAIL("%s", error.text);
  for (int i = 0; i < in.count; i++) CHECK_I64(want[i], type[i].dtype); /* casts are by hand */
  for (int i = 0; i < ask->number_count; i++) {
    int node = number(k, TSR_I64, ask->numbers[i]);
    if (!i) g.param = k->program.nodes[node].param;
    g.param_count = ask->number_count;
  }
  g.dtype = (uint8_t)found.dtype;
  g.rank = (uint8_t)found.shape.rank;
  for (int d = 0; d < g.rank; d++) g.dims[d] = found.shape.dims[d];
  bool reduces = tsr__ops[op].lowering == TSR__LOW_REDUCE;
  bool crosses = k->mesh && reduces && (tsr__reduce_of(&k->program, &g)->dims & 1) &&
                 tsr__dim_axes(&k->program.shardings[k->program.nodes[in.at[0]].sharding], 0);
  tsr_sharding at = sharding_at(k, sharded && !crosses && g.rank > 0);
  g.sharding = (uint16_t)tsr__program_sharding(&k->program, &at);
  g.reduce_axes = crosses;
  int node = tsr__program_add(&k->program, &g, in, NULL);
  CHECK(node < FIXTURE_NODES);
  return node;
}

int kernel_op(kernel_fixture *k, tsr__op op, int a, int b, int c)
{
  bool sharded = false;
  tsr__links in = TSR__LINKS(a, b, c);
  tsr__ask ask = { .dtype = op == TSR__OP_SEARCH || op == TSR__OP_COUNT ? TSR_I64 : 0 };
  tsr__reduce_attr all = { .dims = a < 0 ? 0 : (1u << k->program.nodes[a].rank) - 1 };
  for (int i = op == TSR__OP_TAKE || op == TSR__OP_SEARCH; i < in.count && in.at[i] >= 0; i++)
    if (tsr__dim_axes(&k->program.shardings[k->program.nodes[in.at[i]].sharding], 0))
      sharded = true;
  if (tsr__ops[op].lowering == TSR__LOW_REDUCE) {
    ask.attr = &all;
    ask.attr_bytes = sizeof all;
  }
  return kernel_node(k, op, in, &ask, sharded);
}

void kernel_root(kernel_fixture *k, int node)
{
  k->program.nodes[node].flags |= TSR__ROOT;
}

/* ---- running ---- */

static tsr_status run_kernel(kernel_fixture *k, const tsr__step *step, tsr__partial ***partials)
{
  const tsr__kernel_io *io = tsr__kernel_io_of(step->kernel);
  const tsr__device_ops *ops = tsr__devices_of(k->rt)->ops;
  tsr__run_part parts[FIXTURE_DEVICES];
  tsr__buffer *buffers[FIXTURE_DEVICES][FIXTURE_NODES];
  tsr__partial *accums[FIXTURE_DEVICES][FIXTURE_NODES];
  int outputs = io->input_count;
  for (int i = 0; i < io->output_count; i++) make_buffers(k, io->outputs[i]);
  for (int p = 0; p < k->positions; p++) {
    parts[p] = (tsr__run_part){ .device = p,
                                .position = p,
                                .inputs = buffers[p],
                                .outputs = buffers[p] + outputs,
                                .partials = accums[p] };
    part_box(k, io->domain, p, &parts[p].box);
    for (int i = 0; i < io->input_count; i++) buffers[p][i] = k->buffer[io->inputs[i]][p];
    for (int i = 0; i < io->output_count; i++)
      buffers[p][outputs + i] = k->buffer[io->outputs[i]][p];
    for (int i = 0; i < io->accum_count; i++) {
      const tsr__accum *accum = &k->schedule.accums[io->accums[i]];
      tsr_box box;
      part_box(k, accum->node, p, &box);
      int64_t count = box_count(&box, k->program.nodes[accum->node].rank);
      tsr__partial_ask ask = { p, &k->program, accum, count };
      accums[p][i] = ops->partial(k->rt, &ask, &k->error);
      CHECK(accums[p][i]);
      partials[io->accums[i]][p] = accums[p][i];
    }
  }
  tsr__guess guesses[FIXTURE_NODES] = { 0 };
  tsr__run run = { .rt = k->rt,
                   .program = &k->program,
                   .schedule = &k->schedule,
                   .kernel = step->kernel,
                   .part_count = k->positions,
                   .parts = parts,
                   .guesses = guesses };
  k->kernels++;
  return ops->run(&run, &k->error);
}

/* One group of all devices, or one a device. */
static tsr_status combine_group(kernel_fixture *k, const tsr__step *step, tsr__partial ***partials,
                                int first, int members, bool crossing)
{
  int accums[FIXTURE_NODES], finals[FIXTURE_NODES], devices[FIXTURE_DEVICES];
  int accum_count = 0, final_count = 0;
  int64_t counts[FIXTURE_NODES], populations[FIXTURE_NODES];
  tsr__partial *mine[FIXTURE_DEVICES][FIXTURE_NODES], *const *partial_list[FIXTURE_DEVICES];
  tsr__buffer *outs[FIXTURE_DEVICES][FIXTURE_NODES], *const *out_list[FIXTURE_DEVICES];
  tsr__buffer *whole[FIXTURE_DEVICES][FIXTURE_NODES], *const *whole_list[FIXTURE_DEVICES];
  for (int a = step->first; a < step->first + step->count; a++)
    if ((k->schedule.accums[a].axes != 0) == crossing) accums[accum_count++] = a;
  for (int n = 0; n < k->program.node_count; n++) {
    int main = k->schedule.final_main[n];
    const tsr__gnode *g = &k->program.nodes[n];
    if (main < step->first || main >= step->first + step->count) continue;
    if ((g->reduce_axes != 0) != crossing) continue;
    if (!k->buffer[n][first]) make_buffers(k, n);
    tsr_box box;
    part_box(k, n, first, &box);
    counts[final_count] = box_count(&box, g->rank);
    populations[final_count] = 1;
    const tsr__gnode *x = &k->program.nodes[tsr__in(&k->program, g, 0)];
    for (int d = 0; d < x->rank; d++)
      if (tsr__reduce_of(&k->program, g)->dims >> d & 1) populations[final_count] *= x->dims[d];
    finals[final_count++] = n;
  }
  for (int m = 0; m < members; m++) {
    devices[m] = first + m;
    partial_list[m] = mine[m];
    out_list[m] = outs[m];
    whole_list[m] = whole[m];
    for (int a = 0; a < accum_count; a++) {
      const tsr__accum *accum = &k->schedule.accums[accums[a]];
      mine[m][a] = partials[accums[a]][first + m];
      whole[m][a] = accum->whole ? k->buffer[accum->operand][first + m] : NULL;
    }
    for (int f = 0; f < final_count; f++) outs[m][f] = k->buffer[finals[f]][first + m];
  }
  tsr__all_reduce combine = { .rt = k->rt,
                              .program = &k->program,
                              .schedule = &k->schedule,
                              .member_count = members,
                              .devices = devices,
                              .accum_count = accum_count,
                              .accums = accums,
                              .partials = partial_list,
                              .elements = whole_list,
                              .final_count = final_count,
                              .finals = finals,
                              .outputs = out_list,
                              .out_counts = counts,
                              .populations = populations };
  return tsr__devices_of(k->rt)->ops->all_reduce(&combine, &k->traffic, &k->error);
}

static tsr_status run_combine(kernel_fixture *k, const tsr__step *step, tsr__partial ***partials)
{
  tsr_status status = TSR_OK;
  if (k->positions > 1) status = combine_group(k, step, partials, 0, k->positions, true);
  for (int p = 0; p < k->positions && !status; p++)
    status = combine_group(k, step, partials, p, 1, false);
  for (int a = step->first; a < step->first + step->count; a++)
    for (int p = 0; p < k->positions; p++)
      tsr__devices_of(k->rt)->ops->partial_free(partials[a][p]);
  return status;
}

tsr_status kernel_run(kernel_fixture *k)
{
  tsr__partial *room[FIXTURE_NODES][FIXTURE_DEVICES] = { 0 }, **partials[FIXTURE_NODES];
  for (int i = 0; i < FIXTURE_NODES; i++) partials[i] = room[i];
  if (tsr__fuse(&k->program, &k->rt->heap, &k->schedule, &k->error)) return k->error.status;
  tsr_status status = TSR_OK;
  for (int i = 0; i < k->schedule.step_count && !status; i++) {
    const tsr__step *step = &k->schedule.steps[i];
    if (step->kind == TSR__STEP_KERNEL) status = run_kernel(k, step, partials);
    else if (step->kind == TSR__STEP_ALL_REDUCE) status = run_combine(k, step, partials);
    else FAIL("step kind %d", step->kind);
  }
  return status;
}

void kernel_read(kernel_fixture *k, int node, void *out)
{
  const tsr__gnode *g = &k->program.nodes[node];
  for (int p = 0; p < k->positions; p++) {
    tsr_box box;
    int64_t zero[TSR_MAX_RANK] = { 0 };
    part_box(k, node, p, &box);
    tsr__box_copy copy = { (tsr_dtype)g->dtype,
                           g->rank,
                           box.size,
                           zero,
                           g->dims,
                           box.start,
                           box.size,
                           NULL,
                           0,
                           NULL,
                           false };
    CHECK(k->buffer[node][p]);
    tsr__devices_of(k->rt)->ops->to_host(&copy, k->buffer[node][p], out);
  }
}
