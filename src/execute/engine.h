/* Inside execute/: plans, their cache, and one run. */
#ifndef TSR_EXECUTE_ENGINE_H
#define TSR_EXECUTE_ENGINE_H

#include "base/events.h"
#include "execute/execute.h"

enum { TSR__UNKNOWN_BYTES = -1, TSR__NO_BYTES = -2 };

/* A plan: all that can be known of a program before it runs. Immutable but for the marks
 * of its use and what `guesses` points to; several threads may run it at once. */
typedef struct tsr__plan {
  uint64_t hash;
  struct tsr__plan *older, *newer; /* in the cache, by their last use */
  struct tsr__plan *next;          /* of the same bucket */
  _Atomic int runs;                /* at work: it stays in the cache */
  tsr__program key;
  tsr__partitioned parts;
  tsr__schedule schedule;
  struct tsr__plan **inner; /* of parts.inner, whose partitioned programs they borrow */
  bool borrows;             /* it is such a one */
  int *last_use;            /* by node of parts.program: the last step that reads it; -1 */
  int *next_gone;           /* by node: the next one with the same last use; -1 */
  int *first_gone;          /* by step (`gone_steps`): the first node whose last use it is; -1 */
  int *apart;               /* by step: whether what it combines lies in several processes */
  int gone_steps;
  int closes; /* the last step in which processes meet, if later ones only show what it made; -1 */
  _Atomic int64_t closing_bytes; /* that it moves to this process's devices; TSR__UNKNOWN_BYTES,
                                    or TSR__NO_BYTES: not the same each time */
  bool *alike;         /* by node: numbers of it must be the same in all processes; NULL: it is no
                          run of all (run_alike.c) */
  tsr__arena geometry; /* of `overlaps` */
  tsr__overlaps **overlaps; /* by node: of a reshard of known sizes, else NULL; NULL: there is no
                               reshard (overlaps.c) */
  int *shows;          /* by node: the input that a kernel only shows otherwise; -1 (shows.c) */
  bool meets;          /* all processes take part in its runs */
  int roots;           /* of the key, if it can be followed; else 0 */
  bool sums;           /* there are sums in the key that are left unreduced */
  _Atomic bool untold; /* callbacks that are shown shardings were not called yet */
  int64_t explained;   /* bytes of all notes */
  int kernels, collectives; /* for tsr_run_stats */
  tsr__guess *guesses;      /* by accumulator; what runs write */
} tsr__plan;

/* The small arrays of one run; kept for the next. */
typedef struct tsr__run_room {
  struct tsr__run_room *next;
  tsr__arena arena;
  char first[16384];
} tsr__run_room;

/* The slot TSR__SLOT_PLANS. The lock is held while a program is traced and planned, not while it
 * runs: terminals of several threads run side by side, and what a run lets go of may call users. */
typedef struct tsr__starter tsr__starter;

enum { TSR__LINES = 64 };

typedef struct tsr__engine {
  pthread_mutex_t lock;
  tsr__program trace; /* reused from run to run */
  char *scratch;      /* where plans are made; reused, so that no page of it is new */
  size_t scratch_size;
  pthread_mutex_t room_lock;
  _Atomic(tsr__run_room *) near; /* the idle one that was given back last, without the lock */
  tsr__run_room *rooms;          /* the other idle ones */
  /* The cache: a list by last use, and the same plans in buckets by the hash of their programs.
   *
   *   oldest -> p <-> q <-> r <- newest        buckets: [.. p -> r ..][.. q ..]
   *
   * Finding a plan, using it and letting the oldest go look at no others: programs that are all
   * different let go of one plan for each that they make. */
  tsr__plan *oldest, *newest;
  tsr__plan **buckets; /* a power of two, never fewer than plans; NULL before the first */
  size_t bucket_count;
  /* By the line that made the first root, the plan that was last for it: mostly it is the same
   * again, and then its program is followed instead of traced. */
  tsr__plan *last[TSR__LINES];
  tsr__starter *starter; /* under room_lock; NULL before the first tsr_start */
  /* What others may be writing for good, as a run ended without all of them; of the run's thread */
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
/* Makes `overlaps` of a plan that has its program and its schedule; and the overlaps of a move of
 * `node` in a run: the plan's where it moves as planned. NULL: out of memory (overlaps.c). */
tsr_status tsr__plan_overlaps(tsr_runtime *rt, tsr__plan *plan, tsr__error *error);
typedef struct tsr__exec tsr__exec;
const tsr__overlaps *tsr__exec_overlaps(const tsr__exec *exec, int node, const tsr__reshard *move);
/* What running a plan with the numbers of a program takes (figures.c). */
tsr_status tsr__plan_figures(tsr_scope *scope, const tsr__plan *plan, const tsr__num *params,
                             tsr_figures *out, tsr__error *error);
/* The bytes that it is said to move: of a scan each step's, of a choice those of the body that
 * moves most, of a while, whose elements say how often, one turn's. */
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
  int *homes;               /* by root, as they were given: the node that has its value */
  tsr__partial ***partials; /* [accum][position] */
  tsr__partial ***met;      /* while a step meets, the same with those of other processes */
  const tsr__value **whole; /* then, by accum of the step: what meets whole, with all its parts;
                             * behind them results, likewise (crossing->given) */
  tsr__kept **kept;         /* and what of a kept sum meets */
  tsr__partial **copies;    /* and what is added to here while others read what it is of */
  tsr__extent *extents;     /* by accum: of the domain its kernel ran over */
  struct tsr__crossing *crossings;      /* of the step at hand, begun */
  int step;                             /* at hand */
  int ahead;                            /* steps before this one are done, some before their turn */
  bool outer;                           /* a run of its own: its last meeting may end it */
  int64_t promised[TSR__PEERS_NUMBERS]; /* what this process says it moves in all, before it did */
  tsr__traffic traffic;
  uint64_t given_up;       /* a hash of which leaves this run takes over of those that all have */
  int given_up_count;      /* so many */
  const char *given_up_at; /* where tsr_donate was called for the first; or NULL */
  bool keeps;              /* roots may stay accumulators */
  tsr__busy *busy;         /* by part of the step at hand: see tsr__run; NULL: nobody asks */
  tsr__error *error;
  int kernels, collectives; /* run so far, those of regions included */
};

/* Whether what lies so is all processes' (run_alike.c). */
bool tsr__lies_with_all(const tsr_sharding *sharding);
/* Fills `alike` of a plan whose runs all processes take part in; and what this process brings to a
 * run that all must have alike: a fingerprint, and lines of the run `user`. */
tsr_status tsr__plan_alike(tsr_runtime *rt, tsr__plan *plan, tsr__error *error);
uint64_t tsr__exec_print(const tsr__exec *exec);
void tsr__exec_lines(const void *user, tsr__text *out);

/* How a node of the program lies. */
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
/* The same of a whole program, told to the recorder. */
tsr_status tsr__run_told(tsr__exec *exec);
void tsr__exec_free(tsr__exec *exec);

/* Traces, plans and binds roots to a run (exec->rt and ->error are set); what runs under way make
 * of them is waited for. */
tsr_status tsr__prepare(tsr__engine *engine, tsr_array *const *roots, int count, tsr__exec *exec,
                        bool *cached);
void tsr__unbind(tsr__engine *engine, tsr__exec *exec);
/* Hangs the value of a node of the run on an array. */
void tsr__exec_settle(tsr__exec *exec, tsr_array *root, int node);
void tsr__note_stats(tsr_scope *scope, const tsr__exec *exec, bool cached);

/* Waits for the run under way that makes an array, and hangs its values on all its roots; its error
 * otherwise (start.c). On the thread whose nodes they are. */
tsr_status tsr__pending_wait(tsr_array *array, tsr__error *error);
void tsr__starter_free(tsr__starter *starter); /* NULL is allowed */
/* What fails before the run of these roots, the others would wait for in it; the error's status.
 * `keeps`: sums may stay accumulators. */
tsr_status tsr__refuse_run(tsr__operands roots, bool keeps, const tsr__error *error);

/* The steps that move rows and elements (move.c); the first two for all that travel with a node. */
tsr_status tsr__exec_reshard(tsr__exec *exec, int node);
tsr_status tsr__exec_shift(tsr__exec *exec, int node);
tsr_status tsr__exec_compact(tsr__exec *exec, int node);
tsr_status tsr__exec_firstn(tsr__exec *exec, int node);
tsr_status tsr__exec_rebalance(tsr__exec *exec, int node);

/* Elements of the partials at a position (run.c). */
int64_t tsr__partial_count(const tsr__exec *exec, int accum, int position);
/* Whether a process has what a position holds (sight.c). */
bool tsr__position_near(const tsr_runtime *rt, const tsr_sharding *sharding, int position,
                        int process);
/* Whether devices of a mesh (NULL: none) that differ along some of its axes alone are several
 * processes' that share memory (sight.c). */
bool tsr__groups_are_apart(const tsr_runtime *rt, const tsr_mesh *mesh, unsigned axes);
/* Whether what a step combines lies in several processes (plan->apart); then `combine` is called
 * when what the others bring can be read here (together.c). */
bool tsr__step_is_apart(tsr_runtime *rt, const tsr__plan *plan, const tsr__step *step);
tsr_status tsr__meet_step(tsr__exec *exec, const tsr__step *step,
                          tsr_status (*combine)(tsr__exec *exec, const tsr__step *step));
/* What was held until the runtime closes (sight.c). */
void tsr__sights_drop(tsr__sight *held);
/* Of a group that is about to be combined, what lies on other hosts comes here. */
tsr_status tsr__together_want(const tsr__exec *exec, const tsr__all_reduce *c);

/* Reductions that are finalised together: one collective.
 *
 *    mesh 2x2, combined over y     groups {(0,0),(0,1)}  {(1,0),(1,1)}
 *    each member brings            accums [accum_count]     and takes  finals [final_count] */
typedef struct tsr__crossing {
  const tsr__step *step;
  unsigned axes;
  const tsr_sharding *sharding; /* of a result; its mesh is the operands' */
  const tsr__gnode *scattered;  /* a result, if they are; else NULL */
  int accum_count, final_count;
  int *accums, *finals;
  tsr__kept **kept; /* by accumulator: what meets of a kept sum; NULL: what kernels made */
  int64_t *populations;
  int group_size;
  int *members; /* positions of the group at hand */
  int deal;     /* deal.c's, as what follows */
  /* The processes of the group at hand, in order of their first members; and by process the turn in
   * which it was met last. */
  int process_count, turn;
  int *processes, *first, *met;
  int given; /* where results stand in exec->whole, with the others' parts to be written; or 0 */
  struct tsr__crossing *next; /* of the step */
} tsr__crossing;

/* Whether the run may end with the meeting of the step at hand: nothing behind it can fail in this
 * process. Then exec->promised is what it will have moved; NULL: it may not. */
const int64_t *tsr__exec_promise(tsr__exec *exec);
/* Makes room for what a combining step gets, unless that was done. */
tsr_status tsr__begin_crossings(tsr__exec *exec, const tsr__step *step);
/* Whether results of crossings that were begun come together without another meeting or memory. */
bool tsr__crossings_are_sure(const tsr__exec *exec, const tsr__step *step);

/* Makes a group of positions that differ in combined axes alone the one at hand (deal.c). */
void tsr__crossing_group(const tsr__exec *exec, tsr__crossing *c, int group);
static inline int tsr__crossing_groups(const tsr__crossing *c)
{
  return tsr__positions(c->sharding) / c->group_size;
}
/* Who works on a crossing (deal.c): decided before groups combine; which share of the group at hand
 * this process has; and, when all have combined, what others finished comes to its devices. */
tsr_status tsr__deal(const tsr__exec *exec, tsr__crossing *c);
tsr__share tsr__deal_share(const tsr__exec *exec, const tsr__crossing *c);
bool tsr__deal_is_complete(const tsr__exec *exec, const tsr__crossing *c);
tsr_status tsr__deal_take(tsr__exec *exec, tsr__crossing *c);
/* What the first member here brings ([member][accumulator of the crossing]) is added to: a copy
 * where others read it at the same time; and the end of such copies. */
tsr_status tsr__deal_copy(const tsr__exec *exec, const tsr__crossing *c, tsr__partial ***partials);
void tsr__deal_drop(const tsr__exec *exec, const tsr__crossing *c);

/* Shows the shardings of a plan that is new, once, without the engine's lock; and values while it
 * runs (taps.c). */
void tsr__tap_plan(tsr__plan *plan);
tsr_status tsr__exec_tap(tsr__exec *exec, int node);

/* A step that runs its regions (run_loop.c). */
tsr_status tsr__exec_loop(tsr__exec *exec, int node);

/* Marks the nodes of a new plan whose results are looked at, and looks at those of a step that was
 * run, where rt->check says so (floats.c). */
void tsr__check_mark(const tsr_runtime *rt, tsr__program *program);
tsr_status tsr__check_step(tsr__exec *exec, const tsr__step *step);

/* Tells the recorder of a step that began at `start` and had moved `bytes` before (spans.c). */
void tsr__span_step(const tsr__exec *exec, const tsr__step *step, int64_t start, int64_t bytes);
/* Room for `exec->busy` where somebody records; there is none without memory. */
void tsr__span_parts(tsr__exec *exec, int parts);

/* Sums that are left unreduced (kept.c): takes over what a step accumulated for `accum`; a step
 * that shows or scales such a sum; what meets of one, by position, which the caller may write
 * to. */
tsr_status tsr__exec_keep(tsr__exec *exec, int accum);
tsr_status tsr__exec_kept_step(tsr__exec *exec, int node);
tsr__kept *tsr__exec_kept_meets(tsr__exec *exec, const tsr__step *step, int accum);

/* A step that is one device routine (routine.c). */
tsr_status tsr__exec_routine(tsr__exec *exec, int node);

#endif
