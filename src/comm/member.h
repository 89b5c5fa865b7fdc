/* Inside comm/: a process's side of its connection, as member.c, which holds it, and fate.c, which
 * says what becomes of the process, share it. */
#ifndef TSR_COMM_MEMBER_H
#define TSR_COMM_MEMBER_H

#include "comm/coordinator.h"

#define MILLISECOND INT64_C(1000000)
#define SECOND INT64_C(1000000000)

typedef struct tsr__call {
  struct tsr__call *next;
  uint32_t ticket;
  bool done;
  tsr__error error;
  tsr__text *out; /* the fields of the answer behind status and text; NULL: of no use */
} tsr__call;

struct tsr__comm {
  tsr_runtime *rt;
  tsr__role role;
  pid_t pid;                     /* whose connection it is */
  tsr__coordinator *coordinator; /* of process 0 */
  tsr__link link;
  int wake;
  pthread_t thread;
  bool started;        /* the thread was */
  _Atomic int signals; /* of role.stop_signal; -1: nobody asked for it */
  bool was_blocked;    /* that signal, before */
  int64_t doom; /* of the thread: when the process ends, unless its runtime closes; 0: never */
  _Atomic bool closing;
  bool nested;            /* a process of the job started this one */
  _Atomic int64_t starts; /* since when it waits for all to come; 0: it does not */
  bool missed;            /* of the thread: it has said who is missing */
  _Atomic bool stop;
  _Atomic uint8_t *presence; /* role.count */
  pthread_mutex_t lock;      /* guards the rest */
  pthread_cond_t answered;
  tsr__text outbox;
  tsr__call *calls;
  uint32_t ticket;  /* of the last call */
  tsr__error cause; /* the first failure that is known */
  tsr__error lost;  /* why the connection is no more */
  int64_t step;     /* the last one that was asked about; -1: none */
  int64_t stop_at;  /* the step that all agreed on; -1: none */
  bool agreeing;    /* they are about to */
  tsr__comm_wait wait;
  int64_t waits_since; /* 0: it waits for nobody */
  bool told;           /* that it does */
};

/* A request as it is written. */
typedef struct tsr__ask {
  tsr__text text;
  size_t began;
  uint32_t ticket;
} tsr__ask;

/* Begins a request, and sends it and waits for its answer; with `seconds` for a while longer than
 * that at most. */
#define TSR__UNTIL_ANSWERED (-1.0)
void tsr__request_begin(tsr__comm *comm, tsr__ask *r, int kind);
tsr_status tsr__ask_send(tsr__comm *comm, tsr__ask *r, double seconds, tsr__text *out,
                         tsr__error *error);

/* Puts a frame without an answer by for the thread's next turn, with a text of at most 500 bytes;
 * NULL: it has none. */
void tsr__say_by(tsr__comm *comm, int kind, const char *text);

/* ---- fate.c, for the thread ------------------------------------------------------------------ */

/* Takes the signal to stop, if one is asked for, and gives it back. By the callers' threads. */
void tsr__fate_open(tsr__comm *comm);
void tsr__fate_close(tsr__comm *comm);
/* The first failure is known: says so where nobody else would, and sets the process's last hour. */
void tsr__fate_failed(tsr__comm *comm);
/* Ends the process if its hour has come; else how long it may wait at most. */
int tsr__fate_wait(tsr__comm *comm, int64_t now, int wait_ms);
/* After the connection was lost: until the runtime closes, or the process ends. */
void tsr__fate_linger(tsr__comm *comm);
/* All have not come yet: after a while process 0 says who is missing. */
void tsr__fate_start(tsr__comm *comm, int64_t now);
/* Says something to the log, or where nobody has it, on standard error. */
void tsr__fate_tell(tsr__comm *comm, const char *text);
/* How long is waited before it is said for whom. */
double tsr__fate_patience(const tsr__comm *comm);
/* A process gives no sign of life. */
void tsr__fate_silent(tsr__comm *comm, int index);
/* Takes STOP and STEP; false: they are none. */
bool tsr__fate_stop(tsr__comm *comm, tsr__packet *packet);
/* The signal to stop came. */
void tsr__fate_signal(tsr__comm *comm);
/* What a PING carries. */
void tsr__fate_beat(tsr__comm *comm, uint64_t beats);

#endif
