/* Plans, their cache, and the way from a terminal's nodes to their values.
 *
 *   nodes --trace--> program --hash--> plan? --yes--------------------------> run --> values
 *                                       | no: partition, fuse, liveness -> cache
 *
 * The cache is bounded: the plan unused for longest goes first. Programs are compared by their
 * bytes, so a hash collision costs a comparison and nothing else. */
#include "execute/engine.h"

static void engine_free(tsr_runtime *rt, void *slot)
{
  tsr__engine *engine = slot;
  for (int b = 0; b < TSR__PLAN_BUCKETS; b++)
    for (tsr__plan *plan = engine->buckets[b], *next; plan; plan = next) {
      next = plan->next;
      tsr__plan_free(rt, plan);
    }
  tsr__program_free(&engine->trace);
  tsr__arena_free(&engine->scratch);
  pthread_mutex_destroy(&engine->lock);
  tsr__del(&rt->heap, engine, sizeof *engine);
}

tsr_status tsr__engine_install(tsr_runtime *rt)
{
  tsr__engine *engine = tsr__new(&rt->heap, sizeof *engine);
  if (!engine) return tsr__runtime_fail(rt, TSR_ENOMEM, "no memory for the plan cache");
  pthread_mutex_init(&engine->lock, NULL);
  tsr__program_init(&engine->trace, &rt->heap);
  tsr__arena_init(&engine->scratch, &rt->heap);
  engine->plan_limit = rt->opts.plan_cache > 0 ? rt->opts.plan_cache : 256;
  rt->slots[TSR__SLOT_PLANS] = engine;
  rt->slot_free[TSR__SLOT_PLANS] = engine_free;
  return TSR_OK;
}

tsr__engine *tsr__engine_of(const tsr_runtime *rt)
{
  return rt->slots[TSR__SLOT_PLANS];
}

/* ---- making a plan ---- */

void tsr__plan_free(tsr_runtime *rt, tsr__plan *plan)
{
  if (!plan) return;
  tsr__schedule_free(&plan->schedule);
  size_t nodes = (size_t)plan->parts.program.node_count * sizeof(int);
  if (plan->last_use) tsr__del(&rt->heap, plan->last_use, nodes);
  if (plan->next_gone) tsr__del(&rt->heap, plan->next_gone, nodes);
  if (plan->first_gone)
    tsr__del(&rt->heap, plan->first_gone, ((size_t)plan->gone_steps + 1) * sizeof(int));
  tsr__partitioned_free(&plan->parts, &rt->heap);
  tsr__program_free(&plan->key);
  tsr__del(&rt->heap, plan, sizeof *plan);
}

/* A leaf that is bound to a value, not to a number. */
static bool holds_value(const tsr__gnode *node)
{
  return tsr__ops[node->op].lowering == TSR__LOW_LEAF && node->param_count == 0;
}

static void use_nodes(tsr__plan *plan, const int *nodes, int count, int step)
{
  for (int i = 0; i < count; i++) plan->last_use[nodes[i]] = step;
}

/* The nodes by the step after which they go, so that a run looks at each of them once. */
static void list_gone(tsr__plan *plan)
{
  for (int s = 0; s < plan->gone_steps; s++) plan->first_gone[s] = -1;
  for (int n = plan->parts.program.node_count - 1; n >= 0; n--) {
    int step = plan->last_use[n];
    if (step < 0) continue;
    plan->next_gone[n] = plan->first_gone[step];
    plan->first_gone[step] = n;
  }
}

/* When each value is read for the last time. Leaves and roots stay (-1): leaves belong to their
 * nodes, roots to the caller. A value nobody reads goes after the step that made it. */
static tsr_status find_last_uses(tsr_runtime *rt, tsr__plan *plan, tsr__error *error)
{
  const tsr__program *program = &plan->parts.program;
  size_t nodes = (size_t)program->node_count * sizeof(int);
  plan->gone_steps = plan->schedule.step_count;
  plan->last_use = tsr__new(&rt->heap, nodes);
  plan->next_gone = tsr__new(&rt->heap, nodes);
  plan->first_gone = tsr__new(&rt->heap, ((size_t)plan->gone_steps + 1) * sizeof(int));
  if (!plan->last_use || !plan->next_gone || !plan->first_gone)
    return tsr__error_set(error, TSR_ENOMEM, "no memory for a plan");
  for (int n = 0; n < program->node_count; n++) plan->last_use[n] = -1;
  for (int s = 0; s < plan->schedule.step_count; s++) {
    const tsr__step *step = &plan->schedule.steps[s];
    if (step->kind == TSR__STEP_KERNEL) {
      const tsr__kernel_io *io = tsr__kernel_io_of(step->kernel);
      use_nodes(plan, io->inputs, io->input_count, s);
      use_nodes(plan, io->outputs, io->output_count, s);
      plan->kernels++;
    } else if (step->kind != TSR__STEP_COMBINE) {
      TSR_FOR_OPERANDS (program, &program->nodes[step->node], i, o) plan->last_use[o] = s;
      plan->last_use[step->node] = s;
    } else {
      for (int n = 0; n < program->node_count; n++) {
        int main = plan->schedule.final_main[n];
        if (main >= step->first && main < step->first + step->count) plan->last_use[n] = s;
      }
    }
  }
  for (int n = 0; n < program->node_count; n++)
    if (holds_value(&program->nodes[n]) || program->nodes[n].flags & TSR__ROOT)
      plan->last_use[n] = -1;
  list_gone(plan);
  return TSR_OK;
}

/* At level trace, the whole plan: the program of each device and its kernels' instructions. */
static void log_plan(tsr_runtime *rt, const tsr__plan *plan)
{
  static const char *const kinds[] = { "kernel",  "combine", "reshard",
                                       "compact", "firstn",  "rebalance" };
  if (!tsr__log_on(rt, TSR_LOG_TRACE, "execute")) return;
  tsr__text text;
  tsr__text_init(&text, &rt->heap);
  tsr__program_print(&plan->parts.program, &text);
  for (int s = 0; s < plan->schedule.step_count; s++) {
    const tsr__step *step = &plan->schedule.steps[s];
    tsr__text_add(&text, "step %d: %s", s, kinds[step->kind]);
    if (step->kind == TSR__STEP_COMBINE)
      tsr__text_add(&text, " of accumulators %d to %d\n", step->first,
                    step->first + step->count - 1);
    else if (step->kind != TSR__STEP_KERNEL) tsr__text_add(&text, " %%%d\n", step->node);
    else tsr__text_add(&text, "\n");
    if (step->kind == TSR__STEP_KERNEL) tsr__kernel_print(step->kernel, &text);
  }
  tsr__log(rt, TSR_LOG_TRACE, "execute", "new plan:\n%s", tsr__text_get(&text));
  tsr__text_free(&text);
}

static tsr_status make_plan(tsr_runtime *rt, const tsr__program *trace, tsr__plan **out,
                            tsr__error *error)
{
  tsr__plan *plan = tsr__new(&rt->heap, sizeof *plan);
  if (!plan) return tsr__error_set(error, TSR_ENOMEM, "no memory for a plan");
  tsr_status status = tsr__program_copy(&plan->key, trace, &rt->heap);
  if (status) tsr__error_set(error, status, "no memory for a plan's key");
  if (!status) status = tsr__partition(trace, &rt->heap, &plan->parts, error);
  if (!status) status = tsr__fuse(&plan->parts.program, &rt->heap, &plan->schedule, error);
  if (!status) status = find_last_uses(rt, plan, error);
  if (status) {
    tsr__plan_free(rt, plan);
    return status;
  }
  for (int i = 0; i < plan->parts.note_count; i++) {
    plan->explained += plan->parts.notes[i].bytes;
    plan->collectives += plan->parts.notes[i].bytes > 0;
  }
  *out = plan;
  return TSR_OK;
}

static void evict_oldest(tsr_runtime *rt, tsr__engine *engine)
{
  tsr__plan **oldest = NULL;
  for (int b = 0; b < TSR__PLAN_BUCKETS; b++)
    for (tsr__plan **at = &engine->buckets[b]; *at; at = &(*at)->next)
      if (!oldest || (*at)->used < (*oldest)->used) oldest = at;
  if (!oldest) return;
  tsr__plan *gone = *oldest;
  *oldest = gone->next;
  engine->plan_count--;
  tsr__plan_free(rt, gone);
}

tsr_status tsr__plan_get(tsr_runtime *rt, tsr__engine *engine, tsr__plan **out, bool *cached,
                         tsr__error *error)
{
  uint64_t hash = tsr__program_hash(&engine->trace);
  tsr__plan **bucket = &engine->buckets[hash % TSR__PLAN_BUCKETS];
  for (tsr__plan *plan = *bucket; plan; plan = plan->next) {
    if (plan->hash != hash || !tsr__program_same(&plan->key, &engine->trace)) continue;
    plan->used = ++engine->clock;
    *cached = true;
    *out = plan;
    return TSR_OK;
  }
  tsr__plan *plan = NULL;
  tsr_status status = make_plan(rt, &engine->trace, &plan, error);
  if (status) return status;
  if (engine->plan_count >= engine->plan_limit) evict_oldest(rt, engine);
  plan->hash = hash;
  plan->used = ++engine->clock;
  plan->next = *bucket;
  *bucket = plan;
  engine->plan_count++;
  *cached = false;
  *out = plan;
  tsr__log(rt, TSR_LOG_DEBUG, "execute",
           "new plan: %d nodes, %d kernels, %lld bytes between devices",
           plan->parts.program.node_count, plan->kernels, (long long)plan->explained);
  log_plan(rt, plan);
  return TSR_OK;
}

/* ---- a terminal ---- */

static tsr_status bind(tsr_runtime *rt, tsr__engine *engine, tsr__plan *plan, tsr__exec *exec,
                       tsr__error *error)
{
  tsr__program *program = &plan->parts.program;
  tsr__arena_reset(&engine->scratch, engine->scratch_room, sizeof engine->scratch_room);
  *exec = (tsr__exec){
    .rt = rt, .plan = plan, .program = program, .scratch = &engine->scratch, .error = error
  };
  program->params = engine->trace.params;
  program->param_count = engine->trace.param_count;
  exec->values = tsr__arena_new(exec->scratch, (size_t)program->node_count * sizeof(tsr__value *));
  exec->partials = tsr__arena_new(exec->scratch, (size_t)(plan->schedule.accum_count + 1) *
                                                     sizeof(tsr__partial **));
  exec->extents =
      tsr__arena_new(exec->scratch, (size_t)(plan->schedule.accum_count + 1) * sizeof(tsr__extent));
  if (!exec->values || !exec->partials || !exec->extents)
    return tsr__error_set(error, TSR_ENOMEM, "no memory to run a program; free some arrays");
  for (int n = 0; n < program->node_count; n++) {
    if (!holds_value(&program->nodes[n])) continue;
    exec->values[n] = engine->trace.arrays[plan->parts.origin[n]]->value;
    tsr__value_hold(exec->values[n]);
  }
  return TSR_OK;
}

/* Hangs a root's value on its node. */
static void settle(tsr__exec *exec, tsr_array *root)
{
  if (root->value) return;
  tsr__value *value = exec->values[exec->plan->parts.home[root->mark - 1]];
  tsr__value_hold(value);
  root->value = value;
  root->shape = value->shape;
  root->sharding = value->sharding;
  tsr__array_drop_operands(root);
}

static void note_stats(tsr_scope *scope, const tsr__plan *plan, const tsr__traffic *traffic,
                       bool cached)
{
  if (!scope->run_stats) scope->run_stats = tsr__arena_new(&scope->arena, sizeof(tsr_run_stats));
  if (!scope->run_stats) return;
  *(tsr_run_stats *)scope->run_stats = (tsr_run_stats){
    .programs = 1,
    .kernels = plan->kernels,
    .collectives = plan->collectives,
    .bytes_explained = plan->explained,
    .bytes_counted = traffic->bytes,
    .bytes_escaped = traffic->escapes,
    .cached = cached,
  };
}

/* Every node that is not yet evaluated makes work; with none there is nothing to do. */
static bool all_ready(tsr_array *const *roots, int count)
{
  for (int i = 0; i < count; i++)
    if (!roots[i]->value || roots[i]->deleted || roots[i]->inert) return false;
  return true;
}

tsr_status tsr__execute(tsr_scope *scope, tsr_array *const *roots, int count, tsr__error *error)
{
  if (all_ready(roots, count)) return TSR_OK;
  tsr_runtime *rt = scope->rt;
  tsr__engine *engine = tsr__engine_of(rt);
  tsr__plan *plan = NULL;
  tsr__exec exec = { 0 };
  bool cached = false;
  pthread_mutex_lock(&engine->lock);
  tsr__program_clear(&engine->trace);
  tsr_status status = tsr__program_trace(&engine->trace, roots, count, error);
  if (!status) status = tsr__plan_get(rt, engine, &plan, &cached, error);
  if (!status) {
    status = bind(rt, engine, plan, &exec, error);
    if (!status) status = tsr__exec_run(&exec);
    for (int i = 0; i < count && !status; i++) settle(&exec, roots[i]);
    if (!status) note_stats(scope, plan, &exec.traffic, cached);
    tsr__exec_free(&exec);
    plan->parts.program.params = NULL;
    plan->parts.program.param_count = 0;
  }
  pthread_mutex_unlock(&engine->lock);
  return status;
}

/* ---- asking about a plan ---- */

static tsr_status plan_of(tsr_scope *scope, tsr_array *const *roots, int count, tsr__plan **out,
                          tsr__error *error)
{
  tsr__engine *engine = tsr__engine_of(scope->rt);
  bool cached;
  tsr__program_clear(&engine->trace);
  tsr_status status = tsr__program_trace(&engine->trace, roots, count, error);
  return status ? status : tsr__plan_get(scope->rt, engine, out, &cached, error);
}

tsr_status tsr__plan_shape_of(tsr_scope *scope, tsr_array *const *roots, int count,
                              tsr__plan_shape *out, tsr__error *error)
{
  tsr__engine *engine = tsr__engine_of(scope->rt);
  tsr__plan *plan = NULL;
  pthread_mutex_lock(&engine->lock);
  tsr_status status = plan_of(scope, roots, count, &plan, error);
  tsr__plan_shape shape = { 0 };
  for (int s = 0; !status && s < plan->schedule.step_count; s++) {
    int kind = plan->schedule.steps[s].kind;
    shape.kernels += kind == TSR__STEP_KERNEL;
    shape.combines += kind == TSR__STEP_COMBINE;
    shape.reshards += kind == TSR__STEP_RESHARD;
    shape.operators += kind >= TSR__STEP_COMPACT;
  }
  pthread_mutex_unlock(&engine->lock);
  if (!status) *out = shape;
  return status;
}

/* One line a kernel: what it runs over, what it reads, stores and reduces. */
static void add_kernel(const tsr__plan *plan, const tsr__step *step, int number, tsr__text *out)
{
  const tsr__program *program = &plan->parts.program;
  const tsr__kernel_io *io = tsr__kernel_io_of(step->kernel);
  const tsr__gnode *g = &program->nodes[io->domain];
  tsr_shape shape = tsr__gnode_shape(g);
  int64_t bytes = 0;
  bool known = true;
  for (int i = 0; i < io->input_count; i++) {
    tsr_shape in = tsr__gnode_shape(&program->nodes[io->inputs[i]]);
    int64_t count = tsr__shape_count(&in);
    known = known && count >= 0;
    if (count > 0) bytes += (int64_t)tsr__device_bytes(program->nodes[io->inputs[i]].dtype, count);
  }
  tsr__text_add(out, "kernel %d over ", number);
  tsr__type_add(out, (tsr_dtype)g->dtype, &shape, &program->shardings[g->sharding]);
  tsr__text_add(out, ": reads %d array%s ", io->input_count, io->input_count == 1 ? "" : "s");
  if (known) tsr__text_add(out, "(%lld bytes)", (long long)bytes);
  else tsr__text_add(out, "(bytes known after the run)");
  tsr__text_add(out, ", stores %d, reduces %d, in one pass\n", io->output_count, io->accum_count);
}

tsr_status tsr__explain(tsr_scope *scope, tsr_array *const *roots, int count, tsr__text *out,
                        tsr__error *error)
{
  tsr__engine *engine = tsr__engine_of(scope->rt);
  tsr__plan *plan = NULL;
  pthread_mutex_lock(&engine->lock);
  tsr_status status = plan_of(scope, roots, count, &plan, error);
  if (!status) {
    tsr__explain_print(&plan->parts, NULL, out);
    for (int s = 0, number = 1; s < plan->schedule.step_count; s++)
      if (plan->schedule.steps[s].kind == TSR__STEP_KERNEL)
        add_kernel(plan, &plan->schedule.steps[s], number++, out);
  }
  pthread_mutex_unlock(&engine->lock);
  return status;
}
