/* Level 1: how the processes of one program meet and talk. It knows nothing of arrays.
 *
 *     process 0                       process 1             process 2
 *     +---------------------+         +-----------+         +-----------+
 *     | coordinator: thread |<--------| member:   |         | member:   |
 *     | member: thread -----+--+  TCP or a thread |         | a thread  |
 *     +---------------------+  |  Unix socket ----+         +-----+-----+
 *                ^-------------+----------------------------------'
 *
 * Every process is a member: a thread of its own holds the one connection to the coordinator, which
 * is a thread of process 0. Small things go over it: keys with values, meetings, signs of life, the
 * cause of a failure. Data does not; an engine that moves it swaps its addresses by a meeting.
 *
 * Calls may be made by any thread and block until they are answered. No wait is without an end:
 * each has a deadline, and one that somebody is waited for in vain names that process. The first
 * failure is kept and told to all.
 *
 *   role.c         who this process is, from options and the environments of launchers
 *   member.c       a process's side; coordinator.c, requests.c: the other side
 *   fate.c         what becomes of a process when others fail, or it is to stop; agree.c: what the
 *                  coordinator has them agree on
 *   meetings.c     barriers, and records that all get of all; store.c: keys and values
 *   wire.c link.c address.c proof.c   frames, connections, sockets, secrets
 *   engines.c far.c   what moves data between hosts; see peers.h
 *   likeness.c     what must be alike in all before they begin
 *   process.c      the public calls */
#ifndef TSR_COMM_COMM_H
#define TSR_COMM_COMM_H

#include "comm/wire.h"
#include "tessera/process.h"

enum {
  TSR__PROCESSES_MOST = 65536,
  TSR__BEAT_MS = 1000,  /* between signs of life */
  TSR__MISSED_MS = 2500 /* after two of them did not come a process counts as silent */
};

typedef struct tsr__comm tsr__comm;

/* What a process does when another has failed. */
typedef enum tsr__on_failure {
  TSR__ON_FAILURE_SHUTDOWN, /* it says so, and ends soon */
  TSR__ON_FAILURE_ERROR,    /* calls fail, and it may save and close */
  TSR__ON_FAILURE_SHRINK    /* the same, and those that are left may go on as fewer */
} tsr__on_failure;
enum { TSR__EXIT_PEER = 75 }; /* the exit code of a process that is ended for another's failure */

/* What processes that find each other by MPI learn. */
typedef struct tsr__found {
  int index, count;
  char coordinator[300], secret[64];
} tsr__found;

/* Who a process is and where the others are. */
typedef struct tsr__role {
  int index, count;
  char coordinator[300]; /* "": this process is alone */
  char bind[300];        /* where process 0 listens; "": at `coordinator` */
  char secret[300];      /* "": none */
  char host[300];        /* "": as the system says */
  char engine[300];      /* between hosts; "": the one that is there */
  char source[300];      /* what this was read from, for the log */
  char launcher[16];     /* as .detect names it; "": none */
  char devices[48];      /* what the runtime is opened with, in words; alike in all */
  bool fewer;            /* those that were left of a job: they go on as still fewer */
  double start_seconds, stall_seconds, close_seconds, grace_seconds, wait_seconds;
  tsr__on_failure on_failure;
  int stop_signal;  /* 0: none */
  char report[300]; /* a file that the coordinator writes the first cause to; "": none */
} tsr__role;

/* What is around a process. */
typedef struct tsr__environment {
  /* The value of an environment variable, NULL if it is not set. */
  const char *(*get)(const char *name, void *user);
  void *user;
  /* Whether the program has initialised MPI; NULL: it has not. */
  bool (*has_mpi)(void);
  /* Finds this process's place by MPI, beginning it where nobody has; all processes do. NULL: there
   * is no MPI. */
  tsr_status (*meet)(const char *launcher, tsr__found *out, tsr__error *error);
} tsr__environment;

/* Finds out who this process is, by options first, then TSR_* variables, then an MPI that the
 * program has initialised, then the variables of a launcher; see role.c. */
tsr_status tsr__role_find(const tsr_process_opts *opts, const tsr__environment *env, tsr__role *out,
                          tsr__error *error);

/* The connection of a runtime; NULL of one that knows of no other processes. */
tsr__comm *tsr__comm_of(const tsr_runtime *rt);

#define TSR__COMM_SECONDS 300.0 /* how long is waited where nobody says */
/* Joins the other processes and puts the connection into the runtime's slot; what fails is kept in
 * the runtime. `devices`: "2 of each process" (process.c). */
tsr_status tsr__comm_install(tsr_runtime *rt, const char *devices, const tsr_process_opts *opts);

/* Lets the processes of a runtime read each other's device memory (peers.h); what fails is kept in
 * the runtime. Collective (share.c). */
tsr_status tsr__comm_share(tsr_runtime *rt);

/* What must be alike in all processes, as lines; whether the records of all are (likeness.c). */
void tsr__alike_lines(const tsr_runtime *rt, const tsr__role *role, tsr__text *out);
tsr_status tsr__alike_check(const tsr__text *records, int count, tsr__error *error);

/* ---- a process among the others (member.c) --------------------------------------------------- */

/* Joins the others: process 0 starts the coordinator. Returns when all are there. What happens to
 * the others is logged in the runtime, by a thread. */
tsr_status tsr__comm_open(tsr_runtime *rt, const tsr__role *role, tsr__comm **out,
                          tsr__error *error);
/* Says goodbye; process 0 waits until the others have, at most role->close_seconds. In a child that
 * was forked it only frees what is its copy. NULL is allowed. */
void tsr__comm_close(tsr__comm *comm);
int tsr__comm_index(const tsr__comm *comm);
int tsr__comm_count(const tsr__comm *comm);
const tsr__role *tsr__comm_role(const tsr__comm *comm);

/* What is known of a process. SILENT: it is there and gives no sign of life. */
typedef enum tsr__presence {
  TSR__ABSENT, /* it has not come yet */
  TSR__HERE,
  TSR__SILENT,
  TSR__FAILED,
  TSR__LEFT /* it said goodbye */
} tsr__presence;
tsr__presence tsr__comm_presence(tsr__comm *comm, int index);
/* Whether a process is known to do nothing more for this one: it failed or left, or nothing can be
 * known of it, as the connection is lost. */
bool tsr__comm_ended(tsr__comm *comm, int index);

/* Ends the process for the others, with a cause that all are told; the first one counts. */
void tsr__comm_fail(tsr__comm *comm, const char *cause);
/* The first cause of failure that is known here; false: there is none. */
bool tsr__comm_failed(tsr__comm *comm, tsr__error *out);

/* Processes that go on as fewer: when all that are left have called it, fills in what this one is
 * among them, by their order before. NULL knows of no others. */
tsr_status tsr__comm_leave(tsr__comm *comm, double seconds, tsr__role *out, tsr__error *error);
/* Joins by a role that is known. */
tsr_status tsr__comm_join(tsr_runtime *rt, const char *devices, tsr__role *role);

/* Asks all to stop at one step; whether this is it, or behind it. Steps do not fall. */
void tsr__comm_stop(tsr__comm *comm);
tsr_status tsr__comm_should_stop(tsr__comm *comm, int64_t step, bool *out, tsr__error *error);

/* What a process waits in, and for which other. */
typedef struct tsr__comm_wait {
  int process;     /* that is waited for; -1: none is */
  uint64_t number; /* of the run, and what it is: "a program at main.c:12" */
  char what[160];
  uint64_t word;   /* by which one wait is told from the next in the same run */
  uint64_t theirs; /* the last run that it has come to, and what that is */
  char their_what[160];
} tsr__comm_wait;
/* Tells that this process waits for another, or no more (NULL). From any thread. */
void tsr__comm_waits(tsr__comm *comm, const tsr__comm_wait *wait);

/* Keys are paths of at most TSR__KEY_MOST bytes; values have at most TSR__VALUE_MOST. */
tsr_status tsr__comm_set(tsr__comm *comm, const char *key, tsr__blob value, bool overwrite,
                         tsr__error *error);
/* Adds the value of a key to `out`, waiting until somebody sets it; with 0 seconds it does not
 * wait, and `found` tells. */
typedef struct tsr__wanted {
  const char *key;
  double seconds;
  bool found;
} tsr__wanted;
tsr_status tsr__comm_get(tsr__comm *comm, tsr__wanted *wanted, tsr__text *out, tsr__error *error);
tsr_status tsr__comm_delete(tsr__comm *comm, const char *key, tsr__error *error);
/* Adds to `out` what a LIST answers (wire.c). */
tsr_status tsr__comm_list(tsr__comm *comm, const char *prefix, tsr__text *out, tsr__error *error);
tsr_status tsr__comm_add(tsr__comm *comm, const char *key, int64_t delta, int64_t *out,
                         tsr__error *error);

/* Processes that wait for each other: a barrier, at which each may give a record. The first that
 * comes says how long is waited and for whom; another list of processes is an error for all. */
typedef struct tsr__comm_meeting {
  const char *name;
  double seconds;
  const int *processes; /* count of them; NULL: all */
  int count;
  tsr__blob record;
} tsr__comm_meeting;
/* Adds the records to `out` in the order of indices, as fields of bytes (tsr__take_bytes); NULL:
 * nobody wants them. */
tsr_status tsr__comm_meet(tsr__comm *comm, const tsr__comm_meeting *meeting, tsr__text *out,
                          tsr__error *error);

#endif
