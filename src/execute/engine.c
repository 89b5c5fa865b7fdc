/* Plans, their cache, and the way from a terminal's nodes to their values.
 *
 *   nodes --trace--> program --hash--> plan? --yes--------------------------> run --> values
 *                                       | no: partition, fuse, liveness -> cache
 *   |------------- under the engine's lock: one thread ------------------|  side by side
 *
 * A plan is looked for in three places: the plan that last made an array of the root's source line,
 * with whose program the nodes are compared one by one; the plan used last, by bytes; the cache, by
 * hash.
 *
 * Marks that tracing leaves on nodes are valid under the lock only: another thread may trace the
 * same leaves.
 *
 * The cache is bounded: the plan unused for longest goes first. Programs are compared by their
 * bytes, so a hash collision costs a comparison and nothing else. */
#include "execute/engine.h"
#include "kernel/fallback/fallback.h"

/* ---- rooms ---- */

/* Rooms are kept from run to run, as many as ever ran at once: a small program then allocates
 * nothing but its results. 16 KiB stand in the room itself. */
static tsr__run_room *take_run_room(tsr_runtime *rt, tsr__engine *engine)
{
  tsr__run_room *room = atomic_exchange(&engine->near, NULL);
  if (!room) {
    pthread_mutex_lock(&engine->room_lock);
    room = engine->rooms;
    if (room) engine->rooms = room->next;
    pthread_mutex_unlock(&engine->room_lock);
  }
  if (!room) {
    room = tsr__new_raw(&rt->heap, sizeof *room);
    if (!room) return NULL;
    tsr__arena_init(&room->arena, &rt->heap);
  }
  tsr__arena_reset(&room->arena, room->first, sizeof room->first);
  return room;
}

/* The room that was near goes to the list: the new one is warmer in the caches. */
static void give_run_room(tsr__engine *engine, tsr__run_room *room)
{
  if (room) room = atomic_exchange(&engine->near, room);
  if (!room) return;
  pthread_mutex_lock(&engine->room_lock);
  room->next = engine->rooms;
  engine->rooms = room;
  pthread_mutex_unlock(&engine->room_lock);
}

/* The starter's thread runs plans, so it is stopped first. Runs use rooms and are over by then. */
static void engine_free(tsr_runtime *rt, void *slot)
{
  tsr__engine *engine = slot;
  tsr__starter_free(engine->starter);
  tsr__sights_drop(engine->held);
  for (tsr__plan *plan = engine->oldest, *newer; plan; plan = newer) {
    newer = plan->newer;
    tsr__plan_free(rt, plan);
  }
  tsr__del(&rt->heap, engine->buckets, engine->bucket_count * sizeof *engine->buckets);
  tsr__run_room *near = atomic_exchange(&engine->near, NULL);
  if (near) near->next = engine->rooms;
  for (tsr__run_room *room = near ? near : engine->rooms, *next; room; room = next) {
    next = room->next;
    tsr__arena_free(&room->arena);
    tsr__del(&rt->heap, room, sizeof *room);
  }
  tsr__program_free(&engine->trace);
  tsr__del(&rt->heap, engine->scratch, engine->scratch_size);
  pthread_mutex_destroy(&engine->room_lock);
  pthread_mutex_destroy(&engine->lock);
  tsr__del(&rt->heap, engine, sizeof *engine);
}

tsr_status tsr__engine_install(tsr_runtime *rt)
{
  tsr__engine *engine = tsr__new(&rt->heap, sizeof *engine);
  if (!engine) return tsr__runtime_fail(rt, TSR_ENOMEM, "no memory for the plan cache");
  pthread_mutex_init(&engine->lock, NULL);
  pthread_mutex_init(&engine->room_lock, NULL);
  tsr__program_init(&engine->trace, &rt->heap);
  engine->plan_limit = rt->opts.plan_cache > 0 ? rt->opts.plan_cache : 256;
  rt->slots[TSR__SLOT_PLANS] = engine;
  rt->slot_free[TSR__SLOT_PLANS] = engine_free;
  return TSR_OK;
}

static tsr__engine *engine_of(const tsr_runtime *rt)
{
  return rt->slots[TSR__SLOT_PLANS];
}

/* ---- errors ---- */

tsr_status tsr__no_memory_to_run(const tsr__exec *exec)
{
  return tsr__error_set(exec->error, TSR_ENOMEM, "no memory to run a program; free some arrays");
}

tsr_status tsr__no_memory_to_combine(const tsr__exec *exec)
{
  return tsr__error_set(exec->error, TSR_ENOMEM,
                        "no memory to combine the results of several processes; free some arrays");
}

/* ---- making a plan ---- */

/* The count is one more than the accumulators, as no allocation may be of 0 bytes. */
static size_t guess_bytes(const tsr__plan *plan)
{
  return ((size_t)plan->schedule.accum_count + 1) * sizeof(tsr__guess);
}

/* Frees a plan, also one that is only half made. */
void tsr__plan_free(tsr_runtime *rt, tsr__plan *plan)
{
  if (!plan) return;
  if (plan->guesses) tsr__del(&rt->heap, plan->guesses, guess_bytes(plan));
  tsr__schedule_free(&plan->schedule);
  if (plan->alike) tsr__del(&rt->heap, plan->alike, (size_t)plan->parts.program.node_count + 1);
  if (plan->last_use) tsr__del(&rt->heap, plan->last_use, tsr__plan_use_bytes(plan));
  if (plan->shows)
    tsr__del(&rt->heap, plan->shows, (size_t)plan->parts.program.node_count * sizeof(int));
  tsr__arena_free(&plan->geometry);
  int inner = plan->parts.inner_count;
  for (int i = 0; plan->inner && i < inner; i++) tsr__plan_free(rt, plan->inner[i]);
  if (plan->inner) tsr__del(&rt->heap, plan->inner, (size_t)inner * sizeof(tsr__plan *));
  if (!plan->borrows) tsr__partitioned_free(&plan->parts, &rt->heap);
  tsr__program_free(&plan->key);
  tsr__del(&rt->heap, plan, sizeof *plan);
}

/* The program of each device, its kernels' instructions, and the same of loops' regions. */
static void add_plan(const tsr__plan *plan, tsr__text *out)
{
  static const char *const kinds[] = { "kernel",  "combine", "reshard", "exchange",
                                       "kept",    "compact", "firstn",  "rebalance",
                                       "routine", "tap",     "loop" };
  tsr__program_print(&plan->parts.program, out);
  for (int s = 0; s < plan->schedule.step_count; s++) {
    const tsr__step *step = &plan->schedule.steps[s];
    tsr__text_add(out, "step %d: %s", s, kinds[step->kind]);
    if (step->kind == TSR__STEP_ALL_REDUCE)
      tsr__text_add(out, " of accumulators %d to %d\n", step->first, step->first + step->count - 1);
    else if (step->kind != TSR__STEP_KERNEL) tsr__text_add(out, " %%%d\n", step->node);
    else tsr__text_add(out, "\n");
    if (step->kind == TSR__STEP_KERNEL) tsr__kernel_print(step->kernel, out);
  }
  for (int i = 0; i < plan->parts.inner_count; i++) {
    tsr__text_add(out, "region %d of %%%d:\n", plan->parts.inner[i].region,
                  plan->parts.inner[i].node);
    add_plan(plan->inner[i], out);
  }
}

/* At level trace, the whole plan. */
static void log_plan(tsr_runtime *rt, const tsr__plan *plan)
{
  if (!tsr__log_on(rt, TSR_LOG_TRACE, "execute")) return;
  tsr__text text;
  tsr__text_init(&text, &rt->heap);
  add_plan(plan, &text);
  tsr__log(rt, TSR_LOG_TRACE, "execute", "new plan:\n%s", tsr__text_get(&text));
  tsr__text_free(&text);
}

static tsr_status finish_plan(tsr_runtime *rt, tsr__engine *engine, tsr__plan *plan,
                              tsr__error *error);

/* The plans of loops' regions. Their partitioned programs are those in parts.inner, copied as
 * structs: `borrows` says who frees them. They are in no cache, as only their loop runs them. */
static tsr_status plan_inner(tsr_runtime *rt, tsr__engine *engine, tsr__plan *plan,
                             tsr__error *error)
{
  const tsr__partitioned *parts = &plan->parts;
  if (!parts->inner_count) return TSR_OK;
  plan->inner = tsr__new(&rt->heap, (size_t)parts->inner_count * sizeof *plan->inner);
  for (int i = 0; i < parts->inner_count; i++) {
    tsr__plan *inner = plan->inner ? tsr__new(&rt->heap, sizeof *inner) : NULL;
    if (!inner) return tsr__error_set(error, TSR_ENOMEM, "no memory for a plan");
    plan->inner[i] = inner;
    inner->borrows = true;
    inner->parts = parts->inner[i].parts;
    if (finish_plan(rt, engine, inner, error)) return error->status;
  }
  return TSR_OK;
}

/* Whether all processes take part in a program's runs. They do as soon as a node lies on a mesh
 * of all processes, even one without a device here, since all make the same calls and may read
 * its values. The answer must be the same in all processes. A node without a mesh, or on a
 * process's own mesh, is computed by each process for itself. */
static bool program_meets(const tsr_runtime *rt, const tsr__program *program)
{
  if (!tsr__peers_of(rt)) return false;
  for (int i = 1; i < program->sharding_count; i++)
    if (tsr__lies_with_all(&program->shardings[i])) return true;
  return false;
}

/* The step whose meeting may be the last of a run: a move, or a reduction over several
 * processes, if the steps after it are kernels that only show existing memory. -1: there is no
 * such step. */
static int closing_step(const tsr__plan *plan)
{
  const tsr__schedule *schedule = &plan->schedule;
  for (int s = schedule->step_count - 1; s >= 0; s--) {
    const tsr__step *step = &schedule->steps[s];
    if (step->kind == TSR__STEP_RESHARD) return s;
    if (step->kind == TSR__STEP_ALL_REDUCE) return plan->apart[s] ? s : -1;
    if (step->kind != TSR__STEP_KERNEL) return -1;
    const tsr__kernel_io *io = tsr__kernel_io_of(step->kernel);
    if (io->accum_count) return -1;
    for (int i = 0; i < io->output_count; i++)
      if (plan->shows[io->outputs[i]] < 0) return -1;
  }
  return -1;
}

/* Memory in which plans of so many nodes can be made. It is kept for later plans up to MOST
 * bytes, but not where the heap has a limit: programs need all of that. Without it arenas
 * allocate their own. */
static void grow_scratch(tsr_runtime *rt, tsr__engine *engine, int nodes)
{
  enum { OF_NODE = 512, LEAST = 1 << 15, MOST = 1 << 23 };
  size_t wanted = (size_t)nodes * OF_NODE + LEAST;
  if (wanted > MOST) wanted = MOST;
  if (rt->heap.limit || wanted <= engine->scratch_size) return;
  tsr__del(&rt->heap, engine->scratch, engine->scratch_size);
  engine->scratch = tsr__new_raw(&rt->heap, wanted);
  engine->scratch_size = engine->scratch ? wanted : 0;
}

/* An arena over that memory; only one may be open at a time. */
static void open_scratch(tsr_runtime *rt, tsr__engine *engine, tsr__arena *out)
{
  tsr__arena_init(out, &rt->heap);
  tsr__arena_reset(out, engine->scratch, engine->scratch_size);
}

/* Finishes a plan that has its partitioned program. Runs later write only its marks of use, its
 * closing bytes and its guesses, which are the sizes that accumulators had last time. Regions
 * come last: they are planned in the same scratch memory, which is free again by then. */
static tsr_status finish_plan(tsr_runtime *rt, tsr__engine *engine, tsr__plan *plan,
                              tsr__error *error)
{
  tsr__arena arena;
  tsr__check_mark(rt, &plan->parts.program);
  open_scratch(rt, engine, &arena);
  tsr_status status = tsr__fuse_in(&plan->parts.program, &arena, &plan->schedule, error);
  tsr__arena_free(&arena);
  if (!status) status = tsr__plan_last_uses(rt, plan, error);
  if (!status) status = tsr__plan_shows(rt, plan, error);
  if (!status) status = tsr__plan_overlaps(rt, plan, error);
  if (!status) plan->guesses = tsr__new(&rt->heap, guess_bytes(plan));
  if (!status && !plan->guesses) status = tsr__error_set(error, TSR_ENOMEM, "no memory for a plan");
  if (status) return status;
  for (int i = 0; i < plan->parts.note_count; i++) {
    /* A note without bytes explains why no collective is needed. */
    const tsr__note *note = &plan->parts.notes[i];
    plan->explained += note->bytes;
    /* One of the notes that travel together leads: they are one collective. */
    plan->collectives += note->bytes > 0 && note->lead == i;
  }
  plan->meets = program_meets(rt, &plan->parts.program);
  plan->closes = plan->meets ? closing_step(plan) : -1;
  if (plan->meets && tsr__plan_alike(rt, plan, error)) return error->status;
  atomic_init(&plan->closing_bytes, TSR__UNKNOWN_BYTES);
  return plan_inner(rt, engine, plan, error);
}

static tsr_status partition(tsr_runtime *rt, tsr__engine *engine, tsr__plan *plan,
                            tsr__error *error)
{
  tsr__arena arena;
  grow_scratch(rt, engine, engine->trace.node_count);
  open_scratch(rt, engine, &arena);
  tsr_status status = tsr__partition_in(&engine->trace, &arena, &plan->parts, error);
  tsr__arena_free(&arena);
  return status;
}

/* The key is a copy of the trace, since the trace is built anew by the next terminal. */
static tsr_status make_plan_of_trace(tsr_runtime *rt, tsr__engine *engine, tsr__plan **out,
                                     tsr__error *error)
{
  tsr__plan *plan = tsr__new(&rt->heap, sizeof *plan);
  if (!plan) return tsr__error_set(error, TSR_ENOMEM, "no memory for a plan");
  tsr_status status = tsr__program_copy(&plan->key, &engine->trace, &rt->heap);
  if (status) tsr__error_set(error, status, "no memory for a plan's key");
  plan->roots = tsr__program_followable(&engine->trace);
  plan->sums = tsr__leaves_sums(&engine->trace);
  if (!status) status = partition(rt, engine, plan, error);
  if (!status) status = finish_plan(rt, engine, plan, error);
  if (status) tsr__plan_free(rt, plan);
  else *out = plan;
  return status;
}

/* ---- the cache ---- */

/* Both halves of the hash take part, as buckets are few. */
static tsr__plan **plan_bucket(const tsr__engine *engine, uint64_t hash)
{
  return &engine->buckets[(hash ^ hash >> 32) & (engine->bucket_count - 1)];
}

/* Doubles the buckets once there are as many plans. Without memory chains grow longer; only the
 * first buckets are required. Each plan's `next` is written anew, so the old chains are not
 * walked. */
static bool grow_buckets(tsr_runtime *rt, tsr__engine *engine)
{
  size_t before = engine->bucket_count, count = before ? 2 * before : 64;
  if ((size_t)engine->plan_count < before) return true;
  tsr__plan **buckets = tsr__new(&rt->heap, count * sizeof *buckets);
  if (!buckets) return before > 0;
  tsr__del(&rt->heap, engine->buckets, before * sizeof *engine->buckets);
  engine->buckets = buckets;
  engine->bucket_count = count;
  for (tsr__plan *plan = engine->oldest; plan; plan = plan->newer) {
    tsr__plan **bucket = plan_bucket(engine, plan->hash);
    plan->next = *bucket;
    *bucket = plan;
  }
  return true;
}

/* Takes a plan out of the list by last use. Age is an order of uses: no clock is read, and all
 * processes evict alike. */
static void unlink_plan(tsr__engine *engine, tsr__plan *plan)
{
  *(plan->older ? &plan->older->newer : &engine->oldest) = plan->newer;
  *(plan->newer ? &plan->newer->older : &engine->newest) = plan->older;
}

static void append_plan(tsr__engine *engine, tsr__plan *plan)
{
  plan->older = engine->newest;
  plan->newer = NULL;
  *(engine->newest ? &engine->newest->newer : &engine->oldest) = plan;
  engine->newest = plan;
}

/* The plan becomes the last one to be evicted. */
static void use_plan(tsr__engine *engine, tsr__plan *plan)
{
  if (!plan->newer) return;
  unlink_plan(engine, plan);
  append_plan(engine, plan);
}

/* Makes room for one more plan where the cache is full: the plan unused for longest is evicted.
 * Plans that are running stay, if need be beyond the limit. */
static bool evict_oldest(tsr_runtime *rt, tsr__engine *engine)
{
  tsr__plan *plan = engine->oldest;
  while (plan && atomic_load(&plan->runs)) plan = plan->newer;
  if (!plan) return false;
  tsr__plan **at = plan_bucket(engine, plan->hash);
  while (*at != plan) at = &(*at)->next;
  *at = plan->next;
  for (int i = 0; i < TSR__LINES; i++)
    if (engine->last[i] == plan) engine->last[i] = NULL;
  unlink_plan(engine, plan);
  engine->plan_count--;
  tsr__plan_free(rt, plan);
  return true;
}

/* The slot that remembers the plan which last made an array of the root's source line. */
static tsr__plan **last_plan_of_line(tsr__engine *engine, const tsr_array *root)
{
  /* Texts of lines are constants, so their addresses identify them. */
  uint64_t mixed = (uint64_t)(uintptr_t)root->node.site * UINT64_C(0x9E3779B97F4A7C15);
  return &engine->last[(mixed >> 32) % TSR__LINES];
}

/* The plan of the line, if it is that of the roots again, or NULL. */
static tsr__plan *follow_last(tsr__engine *engine, tsr__operands roots, const tsr__exec *exec)
{
  tsr__plan *plan = roots.at[0] ? *last_plan_of_line(engine, roots.at[0]) : NULL;
  if (!plan || !plan->roots) return NULL;
  const tsr__followed known = { &plan->key, plan->roots, exec->keeps && plan->sums };
  if (!tsr__program_follow(&engine->trace, &known, roots, exec->error)) return NULL;
  use_plan(engine, plan);
  return plan;
}

/* Programs of one hash are compared whole. The plan that ran last is compared first: it is
 * mostly the right one, and then nothing is hashed. */
static tsr__plan *find_plan(tsr__engine *engine, uint64_t *hash)
{
  if (engine->newest && tsr__program_same(&engine->newest->key, &engine->trace))
    return engine->newest;
  *hash = tsr__program_hash(&engine->trace);
  tsr__plan *plan = engine->buckets ? *plan_bucket(engine, *hash) : NULL;
  while (plan && (plan->hash != *hash || !tsr__program_same(&plan->key, &engine->trace)))
    plan = plan->next;
  return plan;
}

/* Puts the plan in the cache, which owns it from now on; on failure the plan is freed. */
static tsr_status keep_plan(tsr_runtime *rt, tsr__engine *engine, tsr__plan *plan,
                            tsr__error *error)
{
  while (engine->plan_count >= engine->plan_limit && evict_oldest(rt, engine)) continue;
  if (!grow_buckets(rt, engine)) {
    tsr__plan_free(rt, plan);
    return tsr__error_set(error, TSR_ENOMEM, "no memory for the plan cache");
  }
  tsr__plan **bucket = plan_bucket(engine, plan->hash);
  plan->next = *bucket;
  *bucket = plan;
  append_plan(engine, plan);
  engine->plan_count++;
  return TSR_OK;
}

/* Finds or makes the plan of engine->trace; the cache owns it. */
static tsr_status plan_get(tsr_runtime *rt, tsr__engine *engine, tsr__plan **out, bool *cached,
                           tsr__error *error)
{
  uint64_t hash = 0;
  tsr__plan *plan = find_plan(engine, &hash);
  *cached = plan != NULL;
  if (!plan) {
    tsr_status status = make_plan_of_trace(rt, engine, &plan, error);
    if (status) return status;
    plan->hash = hash;
    plan->untold = true;
    if (keep_plan(rt, engine, plan, error)) return error->status;
    tsr__log(rt, TSR_LOG_DEBUG, "execute",
             "new plan: %d nodes, %d kernels, %lld bytes between devices",
             plan->parts.program.node_count, plan->kernels,
             (long long)tsr__plan_explained(plan, engine->trace.params));
    log_plan(rt, plan);
  } else {
    use_plan(engine, plan);
  }
  *out = plan;
  return TSR_OK;
}

/* ---- a terminal ---- */

/* The plan's program with the numbers of this run, in the run's own memory. The plan's program is
 * shared by all runs; only its parameters are this run's, so a copy of the struct with other
 * params will do. Its lists are the plan's and stay as they are. */
static bool bind_program_numbers(tsr__exec *exec, const tsr__program *trace)
{
  size_t bytes = (size_t)trace->param_count * sizeof(tsr__num);
  tsr__program *own = tsr__arena_raw(exec->scratch, sizeof *own + bytes);
  if (!own) return false;
  *own = exec->plan->parts.program;
  own->params = (tsr__num *)(own + 1);
  if (bytes) memcpy(own->params, trace->params, bytes);
  own->param_count = trace->param_count;
  exec->program = own;
  return true;
}

/* The run becomes the only owner of values of donated arrays; these arrays are leaves without a
 * value afterwards. */
static void take_over(tsr__exec *exec, const tsr__program *trace)
{
  for (int n = 0; n < exec->program->node_count; n++) {
    /* The run's own reference is the last one, which is what lets a kernel write over the memory
     * (can_replace). */
    tsr_array *leaf = exec->values[n] ? trace->arrays[exec->plan->parts.origin[n]] : NULL;
    if (!leaf || leaf->deleted != TSR__GIVEN_UP) continue;
    if (tsr__lies_with_all(&leaf->sharding)) {
      exec->given_up = tsr__hash(&n, sizeof n, exec->given_up);
      if (!exec->given_up_count++) exec->given_up_at = leaf->given_up;
    }
    tsr__array_taken_over(leaf);
  }
}

/* A leaf that is bound to a value, not to a number. A number in a program is a leaf with a
 * parameter and never becomes a buffer. A run binds values at these leaves and holds nothing
 * else of the trace. */
static bool holds_value(const tsr__gnode *node)
{
  return tsr__is_leaf(node->op) && node->param_count == 0;
}

/* Holds the values that a run reads, each until its last read; called under the lock. `runs`
 * keeps the plan from being evicted and is raised under the lock, so that no plan is evicted
 * between being found and being used. The nodes that have the roots' values are copied too, as
 * another thread may change the roots' marks once the lock is free. */
static tsr_status bind(tsr__engine *engine, tsr__plan *plan, tsr__operands roots, tsr__exec *exec)
{
  size_t accums = (size_t)plan->schedule.accum_count + 1;
  size_t nodes = (size_t)plan->parts.program.node_count;
  /* These come first, so that tsr__unbind undoes all that was bound before a failure. */
  exec->plan = plan;
  exec->room = take_run_room(exec->rt, engine);
  atomic_fetch_add(&plan->runs, 1);
  if (!exec->room) goto no_memory;
  exec->scratch = &exec->room->arena;
  if (!bind_program_numbers(exec, &engine->trace)) goto no_memory;
  const tsr__program *program = exec->program;
  /*   values[node] | extents[accum] | partials[accum] | homes[root] */
  exec->values =
      tsr__arena_new(exec->scratch, nodes * sizeof(tsr__value *) +
                                        accums * (sizeof(tsr__extent) + sizeof(tsr__partial **)) +
                                        (size_t)roots.count * sizeof(int));
  if (!exec->values) goto no_memory;
  exec->extents = (tsr__extent *)(exec->values + nodes);
  exec->partials = (tsr__partial ***)(exec->extents + accums);
  exec->homes = (int *)(exec->partials + accums);
  for (int i = 0; i < roots.count; i++) exec->homes[i] = plan->parts.home[roots.at[i]->mark - 1];
  for (int n = 0; n < program->node_count; n++) {
    if (!holds_value(&program->nodes[n])) continue;
    /* Leaves are the trace's, not the plan's: equal programs of other data share a plan, and
     * `origin` says which leaf of the trace a node of the plan is. */
    exec->values[n] = engine->trace.arrays[plan->parts.origin[n]]->value;
    tsr__value_hold(exec->values[n]);
  }
  return TSR_OK;
no_memory:
  return tsr__no_memory_to_run(exec);
}

/* Undoes bind(), however far it came. */
void tsr__unbind(tsr__engine *engine, tsr__exec *exec)
{
  if (!exec->plan) return;
  tsr__exec_free(exec);
  give_run_room(engine, exec->room);
  atomic_fetch_sub(&((tsr__plan *)exec->plan)->runs, 1);
}

/* The first node of the program that a run under way makes, or NULL; `given_up` says whether
 * some array was donated, which is rare. A node that is being made has no value yet and is no
 * leaf: planned now, it would be computed twice. */
static tsr_array *first_pending(const tsr__program *trace, bool *given_up)
{
  *given_up = false;
  for (int n = 0; n < trace->node_count; n++) {
    tsr_array *a = trace->arrays[n];
    if (a && a->pending) return a;
    *given_up |= a && a->deleted == TSR__GIVEN_UP;
  }
  return NULL;
}

/* Checks that donated arrays have no readers but those of this program. Their values are freed
 * with this run, and a reader in another program would find no value. */
static tsr_status check_given_up(const tsr__program *trace, tsr__error *error)
{
  for (int n = 0; n < trace->node_count; n++) {
    const tsr_array *a = trace->arrays[n];
    int reads;
    if (!a || a->deleted != TSR__GIVEN_UP || !a->value) continue;
    if (tsr__program_reads_all(trace, a, &reads)) continue;
    return tsr__error_set(error, TSR_ESTATE,
                          "the array made at %s and donated by tsr_donate at %s is read by %u "
                          "waiting operations, but this program computes only %d of them; evaluate "
                          "all of them in one call, or use tsr_delete",
                          a->node.site ? a->node.site : "an unknown line", a->given_up,
                          (unsigned)tsr__array_users(a), reads);
  }
  return TSR_OK;
}

/* An abstract mesh allows planning a program, not running it. The check is made on the plan and
 * not on the roots: such a mesh may stand at an operand alone. */
static tsr_status check_plan_devices(const tsr_runtime *rt, const tsr__plan *plan,
                                     tsr__error *error)
{
  const tsr__program *program = &plan->parts.program;
  for (int i = 1; i < program->sharding_count; i++) {
    const tsr_mesh *mesh = program->shardings[i].mesh;
    if (!mesh || !tsr_mesh_is_abstract(mesh)) continue;
    if (mesh->missing)
      return tsr__error_set(
          error, TSR_EAXIS,
          "the program is placed on mesh %s of %d devices, the mesh of a loaded function, but the "
          "runtime has %d; open the runtime with %d or more, or ask tsr_explain or tsr_compile",
          tsr_mesh_text(mesh), tsr_mesh_device_count(mesh), tsr_device_count(rt),
          tsr_mesh_device_count(mesh));
    return tsr__error_set(
        error, TSR_EAXIS,
        "the program is placed on mesh %s, which is abstract: sizes without devices; make the mesh "
        "with tsr_mesh_make, or ask tsr_explain or tsr_compile",
        tsr_mesh_text(mesh));
  }
  return TSR_OK;
}

/* Marks roots whose elements nobody reads yet. A program without unreduced sums is left
 * unmarked, so that it shares a plan with tsr__execute's. */
static void may_keep(tsr__program *trace, tsr_array *const *roots, int count)
{
  bool some = tsr__leaves_sums(trace);
  for (int i = 0; i < count && some; i++) trace->nodes[roots[i]->mark - 1].flags |= TSR__KEEP;
}

/* The program of the roots. It is followed along a known plan, which is returned in `out`, or
 * traced. */
static tsr_status trace(tsr__engine *engine, tsr__operands roots, tsr__exec *exec, tsr__plan **out)
{
  *out = follow_last(engine, roots, exec);
  if (*out) return TSR_OK;
  tsr__program_clear(&engine->trace);
  tsr_status status = tsr__program_trace(&engine->trace, roots.at, roots.count, exec->error);
  if (!status && exec->keeps) may_keep(&engine->trace, roots.at, roots.count);
  return status;
}

/* Traces and plans the program of roots and binds it to a run. Tracing, planning and binding
 * happen only here, under the lock; running, which is slow, comes after. A caller may be
 * cancelled while it waits for the lock. If a run under way makes one of the nodes, this waits
 * for that run and leaves exec->plan NULL: the caller then tries again. */
static tsr_status prepare_once(tsr__engine *engine, tsr_array *const *roots, int count,
                               tsr__exec *exec, bool *cached)
{
  tsr_runtime *rt = exec->rt;
  tsr__plan *plan = NULL;
  tsr__progress progress = { .rt = rt, .what = TSR__PROGRAM };
  if (!tsr__lock_long(&engine->lock, &progress)) return tsr__cancelled(exec->error, progress.what);
  tsr_status status = trace(engine, (tsr__operands){ roots, count }, exec, &plan);
  /* The wait is outside the lock: the run under way may need the lock to end. */
  bool given_up = false;
  tsr_array *pending = status ? NULL : first_pending(&engine->trace, &given_up);
  if (!status && !pending && given_up) status = check_given_up(&engine->trace, exec->error);
  *cached = plan != NULL;
  if (!status && !pending && !plan) status = plan_get(rt, engine, &plan, cached, exec->error);
  if (!status && !pending) *last_plan_of_line(engine, roots[0]) = plan;
  if (!status && !pending) status = check_plan_devices(exec->rt, plan, exec->error);
  if (!status && !pending) status = bind(engine, plan, (tsr__operands){ roots, count }, exec);
  if (!status && !pending && given_up) take_over(exec, &engine->trace);
  pthread_mutex_unlock(&engine->lock);
  if (!status && !pending) tsr__tap_plan(plan);
  return pending ? tsr__pending_wait(pending, exec->error) : status;
}

/* Tries again after each wait: by then the pending node is a leaf. */
tsr_status tsr__prepare(tsr__engine *engine, tsr_array *const *roots, int count, tsr__exec *exec,
                        bool *cached)
{
  tsr_status status = TSR_OK;
  tsr__event event = { .kind = "plan", .device = -1, .start = tsr__events_begin(exec->rt) };
  while (!status && !exec->plan) status = prepare_once(engine, roots, count, exec, cached);
  event.name = *cached ? "find the plan" : "plan";
  tsr__events_add(exec->rt, &event);
  return status;
}

/* Replaces an array's accumulators by elements. Another thread may do the same: the first value
 * stays. The new value holds the accumulators (follows), as other threads may still read the old
 * value. */
static void look_up_elements(tsr_array *root, tsr__value *value)
{
  tsr__engine *engine = engine_of(value->rt);
  pthread_mutex_lock(&engine->lock);
  if (root->value->kept) {
    tsr__value_hold(value);
    value->follows = root->value;
    root->value = value;
  }
  pthread_mutex_unlock(&engine->lock);
}

/* Hangs a root's value on its node. Its operands are dropped: the node is a leaf from now on,
 * and the operands are freed unless somebody else holds them. A root that was ready before, or
 * is given twice, has its value already. */
void tsr__exec_settle(tsr__exec *exec, tsr_array *root, int node)
{
  tsr__value *value = exec->values[node];
  if (root->value && root->value->kept && !value->kept) look_up_elements(root, value);
  if (root->value) return;
  tsr__value_hold(value);
  root->value = value;
  root->shape = value->shape;
  root->sharding = value->sharding;
  tsr__array_drop_operands(root);
}

/* Counted and explained bytes stand side by side, so that users can compare an explanation with
 * the run. */
void tsr__note_stats(tsr_scope *scope, const tsr__exec *exec, bool cached)
{
  const tsr__plan *plan = exec->plan;
  /* The numbers lie in the scope's arena, and each terminal overwrites them. Without memory
   * there are no numbers, which is no failure of the run. */
  if (!scope->run_stats) scope->run_stats = tsr__arena_new(&scope->arena, sizeof(tsr_run_stats));
  if (!scope->run_stats) return;
  *(tsr_run_stats *)scope->run_stats = (tsr_run_stats){
    .programs = 1,
    .kernels = exec->kernels,
    .collectives = exec->collectives,
    .bytes_explained = tsr__plan_explained(plan, exec->program->params),
    .bytes_counted = exec->traffic.bytes,
    .bytes_escaped = exec->traffic.escapes,
    .cached = cached,
    .bytes_through_host = exec->traffic.host,
    .bytes_between_kinds = exec->traffic.kinds,
  };
}

/* Whether all roots have values, so that there is nothing to do. Deleted and inert roots count
 * as not ready: tracing refuses them with a message. */
static bool roots_are_ready(tsr_array *const *roots, int count, bool keeps)
{
  for (int i = 0; i < count; i++) {
    const tsr__value *value = roots[i]->value;
    if (!value || roots[i]->deleted || roots[i]->inert || (value->kept && !keeps)) return false;
  }
  return true;
}

tsr_status tsr__refuse_run(tsr__operands roots, bool keeps, const tsr__error *error)
{
  const tsr__refusal refusal = { .status = error->status, .looks = !keeps, .message = error->text };
  tsr__refuse_all(roots, &refusal);
  return error->status;
}

static tsr_status execute(tsr_scope *scope, tsr__operands roots, bool keeps, tsr__error *error)
{
  int count = roots.count;
  if (roots_are_ready(roots.at, count, keeps)) return TSR_OK;
  tsr__engine *engine = engine_of(scope->rt);
  tsr__exec exec = { .rt = scope->rt, .keeps = keeps, .error = error };
  bool cached = false;
  tsr_status status = TSR_OK;
  for (int i = 0; i < count && !status; i++)
    if (roots.at[i]->pending) status = tsr__pending_wait(roots.at[i], error);
  /* The runs that were waited for may have made all roots. */
  if (status) return tsr__refuse_run(roots, keeps, error);
  if (roots_are_ready(roots.at, count, keeps)) return TSR_OK;
  status = tsr__prepare(engine, roots.at, count, &exec, &cached);
  if (status) tsr__refuse_run(roots, keeps, error);
  else status = tsr__run_told(&exec);
  for (int i = 0; i < count && !status; i++) tsr__exec_settle(&exec, roots.at[i], exec.homes[i]);
  if (!status) tsr__note_stats(scope, &exec, cached);
  tsr__unbind(engine, &exec);
  return status;
}

/* The caller reads elements: sums that were left unreduced are reduced. */
tsr_status tsr__execute(tsr_scope *scope, tsr_array *const *roots, int count, tsr__error *error)
{
  return execute(scope, (tsr__operands){ roots, count }, false, error);
}

/* The caller wants values only: sums among them may stay accumulators. */
tsr_status tsr__evaluate(tsr_scope *scope, tsr_array *const *roots, int count, tsr__error *error)
{
  return execute(scope, (tsr__operands){ roots, count }, true, error);
}

/* ---- asking about a plan ---- */

/* Traces the roots for inspection, under the lock; the next user of engine->trace clears it.
 * Types without elements (tsr_abstract) may stand in the program, as nothing runs. */
static tsr_status trace_to_inspect(tsr__engine *engine, tsr_array *const *roots, int count,
                                   bool open, tsr__error *error)
{
  tsr__program_clear(&engine->trace);
  engine->trace.looks = true;
  engine->trace.open = open;
  return tsr__program_trace(&engine->trace, roots, count, error);
}

/* Plans as a terminal does, into the same cache: the explained plan is the plan that runs, and a
 * later run finds it. Types may stand for arrays, since a leaf's value is no part of a plan. */
static tsr_status plan_to_inspect(tsr_scope *scope, tsr_array *const *roots, int count,
                                  tsr__plan **out, tsr__error *error)
{
  tsr__engine *engine = engine_of(scope->rt);
  bool cached;
  tsr_status status = trace_to_inspect(engine, roots, count, false, error);
  if (!status) may_keep(&engine->trace, roots, count);
  if (!status) status = plan_get(scope->rt, engine, out, &cached, error);
  if (!status) atomic_fetch_add(&(*out)->runs, 1);
  return status;
}

/* Ends the inspection of a plan, which could not be evicted until now; NULL: there is no plan. */
static void release_inspected_plan(tsr__engine *engine, tsr__plan *plan)
{
  pthread_mutex_unlock(&engine->lock);
  if (!plan) return;
  tsr__tap_plan(plan);
  atomic_fetch_sub(&plan->runs, 1);
}

/* Whether an array is computed in a body: then some leaf of its program is an argument. */
bool tsr__in_body(tsr_array *a, tsr__error *error)
{
  tsr__engine *engine = engine_of(a->node.scope->rt);
  bool found = false;
  pthread_mutex_lock(&engine->lock);
  const tsr__program *trace = &engine->trace;
  if (!trace_to_inspect(engine, &a, 1, true, error))
    for (int n = 0; n < trace->node_count && !found; n++)
      found =
          tsr__is_leaf(trace->nodes[n].op) && tsr__ops[trace->nodes[n].op].attr == TSR__ATTR_INDEX;
  pthread_mutex_unlock(&engine->lock);
  return found;
}

/* The nodes are copied out, as another thread may change the marks once the lock is free. */
tsr_status tsr__trace_roots(tsr_runtime *rt, tsr__program *program, tsr__operands roots,
                            int32_t *nodes, tsr__error *error)
{
  tsr__engine *engine = engine_of(rt);
  pthread_mutex_lock(&engine->lock);
  tsr_status status = tsr__program_trace(program, roots.at, roots.count, error);
  for (int i = 0; i < roots.count && !status; i++) nodes[i] = (int32_t)roots.at[i]->mark - 1;
  pthread_mutex_unlock(&engine->lock);
  return status;
}

/* Prints the trace before planning. */
tsr_status tsr__dump(tsr_array *a, tsr__text *out, tsr__error *error)
{
  tsr__engine *engine = engine_of(a->node.scope->rt);
  pthread_mutex_lock(&engine->lock);
  tsr_status status = trace_to_inspect(engine, &a, 1, false, error);
  if (!status) tsr__program_print(&engine->trace, out);
  pthread_mutex_unlock(&engine->lock);
  return status;
}

/* Figures of the plan that a terminal would run. */
tsr_status tsr__figures(tsr_scope *scope, tsr_array *const *roots, int count, tsr__costs *out,
                        tsr__error *error)
{
  tsr__engine *engine = engine_of(scope->rt);
  tsr__plan *plan = NULL;
  pthread_mutex_lock(&engine->lock);
  tsr_status status = plan_to_inspect(scope, roots, count, &plan, error);
  const tsr__num *params = engine->trace.params;
  if (!status) status = tsr__plan_figures(scope, plan, params, out, error);
  release_inspected_plan(engine, plan);
  return status;
}

tsr_status tsr__plan_shape_of(tsr_scope *scope, tsr_array *const *roots, int count,
                              tsr__plan_shape *out, tsr__error *error)
{
  tsr__engine *engine = engine_of(scope->rt);
  tsr__plan *plan = NULL;
  pthread_mutex_lock(&engine->lock);
  tsr_status status = plan_to_inspect(scope, roots, count, &plan, error);
  tsr__plan_shape shape = { 0 };
  for (int s = 0; !status && s < plan->schedule.step_count; s++) {
    int kind = plan->schedule.steps[s].kind;
    shape.kernels += kind == TSR__STEP_KERNEL;
    shape.combines += kind == TSR__STEP_ALL_REDUCE;
    shape.reshards += kind == TSR__STEP_RESHARD || kind == TSR__STEP_SHIFT;
    /* Steps from COMPACT on are neither kernels nor collectives: their sizes are known at run
     * time, or they are routines. */
    shape.operators += kind >= TSR__STEP_COMPACT;
  }
  release_inspected_plan(engine, plan);
  if (!status) *out = shape;
  return status;
}

/* One line for a kernel: its domain, and how many arrays it reads, stores and reduces. Bytes are
 * those of all devices, by the program. Row counts that only the run knows give no bytes yet,
 * and the line says so. */
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

/* One line for a routine: its first operand, and how many results are read. */
static void add_routine(const tsr__plan *plan, int node, tsr__text *out)
{
  const tsr__program *program = &plan->parts.program;
  const tsr__gnode *g = &program->nodes[node], *x = &program->nodes[tsr__in(program, g, 0)];
  tsr_shape shape = tsr__gnode_shape(x);
  int64_t bytes = 0;
  int made = g->result_count == 0;
  TSR_FOR_OPERANDS (program, g, i, o) {
    tsr_shape in = tsr__gnode_shape(&program->nodes[o]);
    bytes += (int64_t)tsr__device_bytes((tsr_dtype)program->nodes[o].dtype, tsr__shape_count(&in));
  }
  for (int n = node + 1; n < program->node_count; n++) made += tsr__is_part(program, n, node);
  tsr__text_add(out, "%s over ", tsr__ops[g->op].name);
  tsr__type_add(out, (tsr_dtype)x->dtype, &shape, &program->shardings[x->sharding]);
  tsr__text_add(out, ": reads %d array%s (%lld bytes), stores %d\n", g->in_count,
                g->in_count == 1 ? "" : "s", (long long)bytes, made);
}

/* The steps that compute, in their order. Kernels are numbered; routines are named. */
static void add_steps(const tsr__plan *plan, tsr__text *out)
{
  for (int s = 0, number = 1; s < plan->schedule.step_count; s++) {
    const tsr__step *step = &plan->schedule.steps[s];
    if (step->kind == TSR__STEP_KERNEL) add_kernel(plan, step, number++, out);
    if (step->kind == TSR__STEP_ROUTINE) add_routine(plan, step->node, out);
  }
}

/* Makes the plan as for running and prints it; a later run finds the explained plan in the
 * cache. */
tsr_status tsr__explain(tsr_scope *scope, tsr_array *const *roots, int count, tsr__text *out,
                        tsr__error *error)
{
  tsr__engine *engine = engine_of(scope->rt);
  tsr__plan *plan = NULL;
  pthread_mutex_lock(&engine->lock);
  tsr_status status = plan_to_inspect(scope, roots, count, &plan, error);
  if (!status) {
    tsr__explain_print(&plan->parts, NULL, engine->trace.params, out);
    add_steps(plan, out);
    tsr__explain_between(scope, plan, out);
    tsr__host_explain(scope->rt, &plan->parts.program, &plan->schedule, out);
  }
  release_inspected_plan(engine, plan);
  return status;
}
