/* Inside execute/: plans, their cache, and one run. */
#ifndef TSR_EXECUTE_ENGINE_H
#define TSR_EXECUTE_ENGINE_H

#include "base/events.h"
#include "execute/execute.h"

enum { TSR__UNKNOWN_BYTES = -1, TSR__NO_BYTES = -2 };

/* A plan: everything about a program that is known before it runs. It is immutable except for
 * the marks of its use and the memory at `guesses`; several threads may run one plan at once. */
typedef struct tsr__plan {
  uint64_t hash;
  struct tsr__plan *older, *newer; /* in the cache, by their last use */
  struct tsr__plan *next;          /* the next plan of the same bucket */
  _Atomic int runs;                /* runs under way: the plan stays in the cache */
  tsr__program key;
  tsr__partitioned parts;
  tsr__schedule schedule;
  /* the plans of parts.inner; they borrow its partitioned programs */
  struct tsr__plan **inner;
  bool borrows;    /* this plan is a region's and borrows its program */
  int *last_use;   /* by node of parts.program: the last step that reads it; -1 */
  int *next_gone;  /* by node: the next one with the same last use; -1 */
  int *first_gone; /* by step (`gone_steps`): the first node whose last use it is; -1 */
  /* by step: whether the operands of its reductions lie in several processes */
  int *apart;
  int gone_steps;
  /* the last step in which processes meet, if later ones only show its values; else -1 */
  int closes;
  /* the bytes that this step moves to this process's devices; TSR__UNKNOWN_BYTES, or
   * TSR__NO_BYTES: they differ from run to run */
  _Atomic int64_t closing_bytes;
  /* by node: its numbers must be the same in all processes; NULL: not all processes run this
   * plan (run_alike.c) */
  bool *alike;
  tsr__arena geometry; /* the memory of `overlaps` */
  /* by node: the overlaps of a reshard of known sizes, else NULL; NULL: there is no reshard
   * (overlaps.c) */
  tsr__overlaps **overlaps;
  /* by node: the input that a kernel only shows in another shape; -1 (shows.c) */
  int *shows;
  bool meets;               /* all processes take part in its runs */
  int roots;                /* how many the key has, if a terminal can follow it; else 0 */
  bool sums;                /* the key has sums that are left unreduced */
  _Atomic bool untold;      /* callbacks that take shardings were not called yet */
  int64_t explained;        /* bytes of all notes */
  int kernels, collectives; /* for tsr_run_stats */
  tsr__guess *guesses;      /* by accumulator; runs write them */
} tsr__plan;

/* The small arrays of one run; kept for the next. */
typedef struct tsr__run_room {
  struct tsr__run_room *next;
  tsr__arena arena;
  char first[16384];
} tsr__run_room;

/* The slot TSR__SLOT_PLANS. The lock is held while a program is traced and planned, not while it
 * runs: terminals of several threads run side by side, and a run that releases values may call
 * users' functions. */
typedef struct tsr__starter tsr__starter;

enum { TSR__LINES = 64 };

typedef struct tsr__engine {
  pthread_mutex_t lock;
  tsr__program trace; /* reused from run to run */
  /* the memory that plans are made in; reused, so that no page of it is new */
  char *scratch;
  size_t scratch_size;
  pthread_mutex_t room_lock;
  /* the idle room that was given back last, taken without the lock */
  _Atomic(tsr__run_room *) near;
  tsr__run_room *rooms; /* the other idle rooms */
  /* The cache: a list by last use, and the same plans in buckets by the hash of their programs.
   *
   *   oldest -> p <-> q <-> r <- newest        buckets: [.. p -> r ..][.. q ..]
   *
   * The cache finds, uses and evicts a plan without a look at the others. Programs that all
   * differ evict one plan for each new one. */
  tsr__plan *oldest, *newest;
  tsr__plan **buckets; /* a power of two, never fewer than plans; NULL before the first */
  size_t bucket_count;
  /* The plan that last made an array of a source line. The next terminal on an array of that line
   * mostly needs the same plan. The nodes are then compared with the plan's program, and nothing is
   * traced or hashed. */
  tsr__plan *last[TSR__LINES];
  tsr__starter *starter; /* under room_lock; NULL before the first tsr_start */
  /* Sights whose results other processes may still write, since a run ended without all of them;
   * only the run's thread uses this list */
  tsr__sight *held;
  int plan_count, plan_limit;
} tsr__engine;

/* Two lists by node and two by step, in one block. */
static inline size_t tsr__plan_use_bytes(const tsr__plan *plan)
{
  return (2 * (size_t)plan->parts.program.node_count + 2 * (size_t)plan->gone_steps + 1) *
         sizeof(int);
}

/* Fills last_use, next_gone and first_gone of a plan that has its program and its schedule
 * (liveness.c). */
tsr_status tsr__plan_last_uses(tsr_runtime *rt, tsr__plan *plan, tsr__error *error);
/* Fills `shows` of a plan that has its program and its schedule (shows.c). */
tsr_status tsr__plan_shows(tsr_runtime *rt, tsr__plan *plan, tsr__error *error);
/* Makes `overlaps` of a plan that has its program and its schedule. tsr__exec_overlaps returns
 * the overlaps of a move of `node` in a run: the plan's where it moves as planned. NULL: out of
 * memory (overlaps.c). */
tsr_status tsr__plan_overlaps(tsr_runtime *rt, tsr__plan *plan, tsr__error *error);
typedef struct tsr__exec tsr__exec;
const tsr__overlaps *tsr__exec_overlaps(const tsr__exec *exec, int node, const tsr__reshard *move);
/* The costs of a run of the plan with the numbers of a program (figures.c). */
tsr_status tsr__plan_figures(tsr_scope *scope, const tsr__plan *plan, const tsr__num *params,
                             tsr__costs *out, tsr__error *error);
/* The bytes that the plan's explanation says it moves. A scan counts each step's, a switch those
 * of the body that moves most, and a while one turn's, since only its elements say how many
 * there are. */
int64_t tsr__plan_explained(const tsr__plan *plan, const tsr__num *params);
void tsr__plan_free(tsr_runtime *rt, tsr__plan *plan);

/* The rows of a domain whose first dim is known at run time only: in all, and, where a filter left
 * them in place, at each position. */
typedef struct tsr__extent {
  int64_t total;
  const int64_t *rows; /* NULL: the usual borders */
} tsr__extent;

/* One run of a plan: values by node of the partitioned program. */
struct tsr__exec {
  tsr_runtime *rt;
  const tsr__plan *plan;
  const tsr__program *program; /* the plan's, with this run's numbers bound */
  tsr__run_room *room;
  tsr__arena *scratch;      /* the room's */
  tsr__value **values;      /* by node */
  int *homes;               /* by root, in the caller's order: the node that has its value */
  tsr__partial ***partials; /* [accum][position] */
  tsr__partial ***met;      /* while a step meets, partials with those of other processes */
  /* then, by accum of the step: elements that meet without partials, with all their shards;
   * after them results, likewise (crossing->given) */
  const tsr__value **whole;
  tsr__kept **kept; /* and the accumulators of an unreduced sum that meet */
  /* and private copies of partials that other processes still read; this process adds to them */
  tsr__partial **copies;
  tsr__extent *extents;            /* by accum: the rows of the domain its kernel ran over */
  struct tsr__crossing *crossings; /* the crossings of the current step that were begun */
  int step;                        /* the current step */
  /* by step: the number of all work that was queued until its end; NULL: devices have no queues,
   * nobody asks how far the run is, or this is the run of a region. All steps before `over` are
   * over on the devices. */
  uint64_t *ends;
  int over;
  uint64_t first, last; /* the numbers of work queued before the run, and until its end */
  bool under_way;       /* between tsr__run_begin and tsr__run_end */
  tsr_status status;    /* the run's, from tsr__run_begin on */
  int64_t begun;        /* the clock when the run began */
  tsr__traffic before;  /* bytes through the host and between kinds until then */
  int ahead;            /* all steps before this one are done, some of them early */
  bool outer;           /* a whole program's run: its last meeting may end it */
  /* the traffic of the whole run that this process announces before its last step */
  int64_t promised[TSR__PEERS_NUMBERS];
  tsr__traffic traffic;
  /* a hash of the donated leaves on meshes of all processes that this run takes over */
  uint64_t given_up;
  int given_up_count;      /* how many such leaves */
  const char *given_up_at; /* the source line of tsr_donate for the first of them; or NULL */
  bool keeps;              /* roots may stay accumulators */
  /* by part of the current step: see tsr__run; NULL: nobody records */
  tsr__busy *busy;
  tsr__error *error;
  int kernels, collectives; /* counts of this run so far, regions included */
};

/* Whether an array of this sharding belongs to all processes (run_alike.c). */
bool tsr__lies_with_all(const tsr_sharding *sharding);
/* tsr__plan_alike fills `alike` of a plan that all processes run. The other two give this
 * process's side of the check that runs agree: a fingerprint, and the lines of the run `user`. */
tsr_status tsr__plan_alike(tsr_runtime *rt, tsr__plan *plan, tsr__error *error);
uint64_t tsr__exec_print(const tsr__exec *exec);
void tsr__exec_lines(const void *user, tsr__text *out);

/* The sharding of a node of the program. */
static inline const tsr_sharding *tsr__sharding_of(const tsr__exec *exec, int node)
{
  return &exec->program->shardings[exec->program->nodes[node].sharding];
}

/* The value of a node's operand. */
static inline tsr__value *tsr__value_in(const tsr__exec *exec, int node, int operand)
{
  return exec->values[tsr__in(exec->program, &exec->program->nodes[node], operand)];
}

/* Runs all steps; values of the roots are left in exec->values. */
tsr_status tsr__exec_run(tsr__exec *exec);
/* Runs a whole program and reports it to the recorder, also if it fails: it took its time. Until
 * tsr__run_end devices may be at work, which is of the program and the plan; tsr__run_end waits for
 * that work. A second call of it returns the status again (run_whole.c). */
void tsr__run_begin(tsr__exec *exec);
tsr_status tsr__run_end(tsr__exec *exec);
tsr_status tsr__run_told(tsr__exec *exec); /* both */
/* Whether the user stops the run before another step is begun, or waited for. */
bool tsr__run_stops(tsr__exec *exec, tsr__progress *progress, int begun);
/* Sets the error of a run that the host has no memory for; TSR_ENOMEM. */
tsr_status tsr__no_memory_to_run(const tsr__exec *exec);
tsr_status tsr__no_memory_to_combine(const tsr__exec *exec); /* the parts of several processes */
void tsr__exec_free(tsr__exec *exec);

/* Traces, plans and binds roots to a run (exec->rt and ->error are set). It waits for runs under
 * way that make some of their nodes. */
tsr_status tsr__prepare(tsr__engine *engine, tsr_array *const *roots, int count, tsr__exec *exec,
                        bool *cached);
void tsr__unbind(tsr__engine *engine, tsr__exec *exec);
/* Hangs the value of a node of the run on an array. */
void tsr__exec_settle(tsr__exec *exec, tsr_array *root, int node);
void tsr__note_stats(tsr_scope *scope, const tsr__exec *exec, bool cached);

/* Waits for the run under way that makes an array and hangs its values on all its roots, or
 * returns the run's error (start.c). Call it on the thread that owns the nodes. */
tsr_status tsr__pending_wait(tsr_array *array, tsr__error *error);
void tsr__starter_free(tsr__starter *starter); /* NULL is allowed */
/* Reports an error from before the run of these roots to the processes that would wait in that
 * run; returns the error's status. `keeps`: sums may stay accumulators. */
tsr_status tsr__refuse_run(tsr__operands roots, bool keeps, const tsr__error *error);

/* The steps that move rows and elements (move.c). Reshard and shift move all nodes that travel
 * with `node`. */
tsr_status tsr__exec_reshard(tsr__exec *exec, int node);
tsr_status tsr__exec_shift(tsr__exec *exec, int node);
tsr_status tsr__exec_compact(tsr__exec *exec, int node);
tsr_status tsr__exec_firstn(tsr__exec *exec, int node);
tsr_status tsr__exec_rebalance(tsr__exec *exec, int node);

/* Elements of the partials at a position (run.c). */
int64_t tsr__partial_count(const tsr__exec *exec, int accum, int position);
/* Whether a process has the shard of a position, or a replica of it (sight.c). */
bool tsr__position_near(const tsr_runtime *rt, const tsr_sharding *sharding, int position,
                        int process);
/* Whether some groups of devices along these axes of a mesh (NULL: none) span several processes
 * that share memory (sight.c). */
bool tsr__groups_are_apart(const tsr_runtime *rt, const tsr_mesh *mesh, unsigned axes);
/* Whether a step combines operands of several processes (plan->apart). In such a step
 * tsr__meet_step calls `combine` once this process can read the other processes' operands
 * (together.c). */
bool tsr__step_is_apart(tsr_runtime *rt, const tsr__plan *plan, const tsr__step *step);
tsr_status tsr__meet_step(tsr__exec *exec, const tsr__step *step,
                          tsr_status (*combine)(tsr__exec *exec, const tsr__step *step));
/* Frees the sights that were held until the runtime closes (sight.c). */
void tsr__sights_drop(tsr__sight *held);
/* Fetches from other hosts the elements of a group that is about to be combined. */
tsr_status tsr__together_want(const tsr__exec *exec, const tsr__all_reduce *c);

/* Reductions that are finalised together: one collective.
 *
 *    mesh 2x2, combined over y     groups {(0,0),(0,1)}  {(1,0),(1,1)}
 *    each member brings            accums [accum_count]     and takes  finals [final_count] */
typedef struct tsr__crossing {
  const tsr__step *step;
  unsigned axes;
  const tsr_sharding *sharding; /* the sharding of a result; its mesh is the operands' */
  const tsr__gnode *scattered;  /* a result, if they are; else NULL */
  int accum_count, final_count;
  int *accums, *finals;
  /* by accumulator: the unreduced sum that meets; NULL: partials of kernels */
  tsr__kept **kept;
  int64_t *populations;
  int group_size;
  int *members; /* positions of the current group */
  int deal;     /* deal.c owns this and the fields below */
  /* The processes of the current group, in order of their first members; and by process the turn
   * in which the group last met it. */
  int process_count, turn;
  int *processes, *first, *met;
  /* the first result's index in exec->whole, which other processes write parts of; or 0 */
  int given;
  struct tsr__crossing *next; /* the next crossing of the step */
} tsr__crossing;

/* Returns the traffic that the run will have moved (exec->promised) if the current step's
 * meeting may end the run, since nothing after it can fail in this process; else NULL. */
const int64_t *tsr__exec_promise(tsr__exec *exec);
/* Makes the values and lists of a combining step, unless that was done. */
tsr_status tsr__begin_crossings(tsr__exec *exec, const tsr__step *step);
/* Whether the crossings that were begun finish their results without another meeting and without
 * more memory. */
bool tsr__crossings_are_sure(const tsr__exec *exec, const tsr__step *step);

/* Makes a group the current one: positions that differ in combined axes alone (deal.c). */
void tsr__crossing_group(const tsr__exec *exec, tsr__crossing *c, int group);
static inline int tsr__crossing_groups(const tsr__crossing *c)
{
  return tsr__positions(c->sharding) / c->group_size;
}
/* The division of a crossing's work among processes (deal.c). tsr__deal decides before groups
 * combine; tsr__deal_share is this process's share of the current group; after all have
 * combined, tsr__deal_take copies results that other processes finished to this process's
 * devices. */
tsr_status tsr__deal(const tsr__exec *exec, tsr__crossing *c);
tsr__share tsr__deal_share(const tsr__exec *exec, const tsr__crossing *c);
bool tsr__deal_is_complete(const tsr__exec *exec, const tsr__crossing *c);
tsr_status tsr__deal_take(tsr__exec *exec, tsr__crossing *c);
/* tsr__deal_copy replaces the partials of the first member here ([member][accumulator of the
 * crossing]), which this process adds to, by a copy where other processes read them at the same
 * time; tsr__deal_drop frees such copies. */
tsr_status tsr__deal_copy(const tsr__exec *exec, const tsr__crossing *c, tsr__partial ***partials);
void tsr__deal_drop(const tsr__exec *exec, const tsr__crossing *c);

/* tsr__tap_plan shows the shardings of a new plan, once, without the engine's lock;
 * tsr__exec_tap shows values while the plan runs (taps.c). */
void tsr__tap_plan(tsr__plan *plan);
tsr_status tsr__exec_tap(tsr__exec *exec, int node);

/* A step that runs its regions (run_loop.c). */
tsr_status tsr__exec_loop(tsr__exec *exec, int node);

/* tsr__check_mark marks the nodes of a new plan whose results are checked; tsr__check_step
 * checks those of a step that was run. Both do so only where rt->check is set (floats.c). */
void tsr__check_mark(const tsr_runtime *rt, tsr__program *program);
tsr_status tsr__check_step(tsr__exec *exec, const tsr__step *step);

/* Adds the lines of moves between devices of different kinds (between.c). */
void tsr__explain_between(tsr_scope *scope, const tsr__plan *plan, tsr__text *out);
/* Reports to the recorder a step that began at `start`, with `bytes` of traffic before it
 * (spans.c). */
void tsr__span_step(const tsr__exec *exec, const tsr__step *step, int64_t start, int64_t bytes);
/* Allocates `exec->busy` where somebody records; it stays NULL without memory. */
void tsr__span_parts(tsr__exec *exec, int parts);

/* Sums that are left unreduced (kept.c). tsr__exec_keep takes over the partials of `accum`;
 * tsr__exec_kept_step runs a step that shows or scales such a sum; tsr__exec_kept_meets returns,
 * by position, accumulators that a reduction may add to. */
tsr_status tsr__exec_keep(tsr__exec *exec, int accum);
tsr_status tsr__exec_kept_step(tsr__exec *exec, int node);
tsr__kept *tsr__exec_kept_meets(tsr__exec *exec, const tsr__step *step, int accum);

/* A step that is one device routine (routine.c). */
tsr_status tsr__exec_routine(tsr__exec *exec, int node);

#endif
