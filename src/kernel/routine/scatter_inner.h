/* Inside scattering of sharded updates: over the devices of one process, and of several. */
#ifndef TSR_KERNEL_SCATTER_INNER_H
#define TSR_KERNEL_SCATTER_INNER_H

#include "kernel/device/cpu.h"
#include "kernel/routine/scatter.h"

struct tsr__scatter_unit;

/* The result of some updates, from one member or from several. */
typedef struct tsr__scatter_share {
  const struct tsr__scatter_unit *unit;
  int part, parts; /* all updates, member after member, are cut into so many */
  tsr__buffer *memory;
  tsr__bins bins;
  bool good;
} tsr__scatter_share;

typedef struct tsr__scatter_job {
  const tsr__call *call;
  tsr__line_groups groups;
  int *here, *here_count; /* [group * members]: its parts in this process; by group: how many */
  bool meets;             /* some are other processes', which these meet (scatter_meet.c) */
  int64_t width;
  /* set: [part][batch, place] the number of the last update, then (of a group's first part) the
   * member that has the last of all; else NULL. And by group which one that is. */
  int64_t **last, **most;
  tsr__scatter_share *kept; /* [unit]: sums that await other processes; else NULL */
  _Atomic bool *outside;
  _Atomic int64_t moved;
  _Atomic bool failed;
  tsr__progress progress;
} tsr__scatter_job;

/* A strip of a group. */
typedef struct tsr__scatter_unit {
  tsr__scatter_job *job;
  int group;
  int64_t number;
  const int *part; /* the group's that are here; the result is made at the first one of them */
  int members;
  bool begins;        /* with the operand's elements, as one of the processes does */
  const int64_t *who; /* if a set: [place]: the member with the last update */
  tsr__strip strip;
} tsr__scatter_unit;

typedef struct tsr__scatter_runs {
  int64_t first, count;
} tsr__scatter_runs;

static inline size_t tsr__scatter_here_bytes(const tsr__scatter_job *job)
{
  return (size_t)job->groups.count * (size_t)(job->groups.members + 1) * sizeof *job->here;
}

/* Strips of a group. */
int64_t tsr__scatter_units(const tsr__scatter_job *job, int group);
/* Unit `task` of the strips of all groups that have a member here. */
tsr__scatter_unit tsr__scatter_unit_of(tsr__scatter_job *job, int64_t task, int worker);
tsr__sides tsr__scatter_sides(const tsr__scatter_job *job, int part);
/* Along the dim, of all elements of the batch dims. */
int64_t tsr__scatter_places(const tsr__scatter_job *job, int part);

/* Run t of a part's result, and its size; how many runs lie one after the other, at most `most`. */
void *tsr__scatter_run(const tsr__scatter_unit *u, int part, int64_t t);
size_t tsr__scatter_run_bytes(const tsr__scatter_unit *u);
int64_t tsr__scatter_runs_at(const tsr__scatter_unit *u, int64_t t, int64_t most);
void tsr__scatter_join_runs(const tsr__scatter_unit *u, int part, const tsr__scatter_runs *r,
                            const void *came);
void tsr__scatter_write_sums(const tsr__scatter_unit *u, const tsr__rows *sums);
/* From the part where it was made to all others here. */
void tsr__scatter_send_back(const tsr__scatter_unit *u);

/* Joins the results of other processes, and writes the results here (scatter_meet.c). All processes
 * call it together. */
tsr_status tsr__scatter_meet(tsr__scatter_job *job, int64_t units, tsr__error *error);

#endif
