/* Runs of whole programs: several processes run one together, and devices may be at work after the
 * calls.
 *
 *   tsr__run_begin     queues   | step 0 | step 1 | step 2 |
 *   devices            work     | step 0     | step 1     | step 2     |
 *   tsr__run_end       waits                                           and tells errors and traffic
 *
 * Two threads may call the two. On devices without queues tsr__run_begin ends the run. */
#include "execute/engine.h"
#include "kernel/fallback/fallback.h"

/* All processes run the same plan with the same numbers, and agree on the outcome. The
 * fingerprint is the hash of both: processes that run different programs find out when they
 * first meet, and the error names the line of each. */
static tsr_status run_together(tsr__exec *exec)
{
  tsr__peers *peers = tsr__peers_of(exec->rt);
  const tsr__plan *plan = exec->plan;
  /* A run may overwrite donated buffers: a child of fork first makes the memory its own. */
  if (peers) tsr__peers_own(peers);
  if (!plan->meets) return tsr__exec_run(exec);
  const tsr__program *program = exec->program;
  const char *site =
      program->sites && program->node_count ? program->sites[program->node_count - 1] : NULL;
  const tsr__peers_work work = {
    tsr__exec_print(exec), "a program", site, { tsr__exec_lines, exec }
  };
  tsr_status status = tsr__peers_enter(peers, &work, exec->error);
  if (status) return status;
  exec->outer = true;
  status = tsr__exec_run(exec);
  /* The traffic is the sum over all processes: each counted the bytes that came to its own
   * devices. */
  int64_t moved[TSR__PEERS_NUMBERS] = { exec->traffic.bytes, exec->traffic.escapes };
  status = tsr__peers_leave_with(peers, status, moved, exec->error);
  exec->traffic = (tsr__traffic){ .bytes = moved[0], .escapes = moved[1] };
  return status;
}

/* ---- steps that are queued ------------------------------------------------------------------- */

/* Without memory for the list the callback hears of steps that are queued. */
static void follow_queued_steps(tsr__exec *exec)
{
  size_t bytes = ((size_t)exec->plan->schedule.step_count + 1) * sizeof *exec->ends;
  if (exec->rt->opts.progress && tsr__queues_exist(tsr__devices_of(exec->rt)))
    exec->ends = tsr__arena_new(exec->scratch, bytes);
}

/* How many steps are over of those that were begun. */
static int count_steps_over(tsr__exec *exec, int begun)
{
  const tsr__devices *devices = tsr__devices_of(exec->rt);
  if (!exec->ends) return begun;
  while (exec->over < begun && tsr__queues_over(devices, exec->ends[exec->over])) exec->over++;
  return exec->over;
}

bool tsr__run_stops(tsr__exec *exec, tsr__progress *progress, int begun)
{
  int over = count_steps_over(exec, begun);
  atomic_store_explicit(&progress->done, over, memory_order_relaxed);
  return tsr__progress_stops(progress, 0);
}

/* Waits for one step after the other. Queued work cannot be taken back: a run that is stopped waits
 * for the rest all the same (tsr__queues_end_run). */
static tsr_status await_steps(tsr__exec *exec)
{
  int count = exec->plan->schedule.step_count;
  tsr__progress progress = { .rt = exec->rt, .what = TSR__PROGRAM, .total = count };
  while (exec->ends && count_steps_over(exec, count) < count) {
    if (tsr__run_stops(exec, &progress, count)) return tsr__cancelled(exec->error, progress.what);
    if (exec->over < count) tsr__queues_await(tsr__devices_of(exec->rt), exec->ends[exec->over]);
  }
  return TSR_OK;
}

/* The last number of work that came before the run's failure: a user who stops a run was told of
 * the steps that were over, and the other steps come after. */
static uint64_t place_of_failure(const tsr__exec *exec)
{
  if (exec->status != TSR_ECANCELLED || !exec->ends) return UINT64_MAX;
  return exec->over ? exec->ends[exec->over - 1] : exec->first;
}

/* Ends a run on devices beside the CPU's: no work of it is queued any more, and the bytes that went
 * through the host and between kinds are counted. */
static void settle_run(tsr__exec *exec)
{
  const tsr__devices *devices = tsr__devices_of(exec->rt);
  if (!exec->status) exec->status = await_steps(exec);
  exec->status =
      tsr__queues_end_run(devices, &(tsr__queued_run){ .status = exec->status,
                                                       .error = exec->error,
                                                       .traffic = &exec->traffic,
                                                       .last = exec->last,
                                                       .failed = place_of_failure(exec) });
  exec->traffic.host = tsr__host_bytes(exec->rt) - exec->before.host;
  exec->traffic.kinds = tsr__kind_bytes(exec->rt) - exec->before.kinds;
  if (!exec->status) exec->status = tsr__devices_check(exec->rt, exec->error);
}

/* ---- begin and end --------------------------------------------------------------------------- */

void tsr__run_begin(tsr__exec *exec)
{
  const tsr__devices *devices = tsr__devices_of(exec->rt);
  bool queued = tsr__queues_exist(devices);
  exec->under_way = true;
  exec->before =
      (tsr__traffic){ .host = tsr__host_bytes(exec->rt), .kinds = tsr__kind_bytes(exec->rt) };
  exec->begun = tsr__events_begin(exec->rt);
  if (queued) exec->first = tsr__queues_clock(devices);
  follow_queued_steps(exec);
  exec->status = run_together(exec);
  if (queued) exec->last = tsr__queues_mark(devices, exec->first);
  else tsr__run_end(exec);
}

tsr_status tsr__run_end(tsr__exec *exec)
{
  tsr__event event = { .name = "run", .kind = "program", .device = -1, .start = exec->begun };
  if (!exec->under_way) return exec->status;
  exec->under_way = false;
  if (tsr__devices_of(exec->rt)->own) settle_run(exec);
  event.bytes = exec->traffic.bytes;
  tsr__events_add(exec->rt, &event);
  return exec->status;
}

tsr_status tsr__run_told(tsr__exec *exec)
{
  tsr__run_begin(exec);
  return tsr__run_end(exec);
}
