/* Inside comm/: the coordinator and its parts, all of its thread alone. */
#ifndef TSR_COMM_COORDINATOR_H
#define TSR_COMM_COORDINATOR_H

#include "comm/comm.h"
#include "comm/store.h"

/* A connection. */
typedef struct tsr__peer {
  tsr__link link;
  int member;                      /* -1: it has not joined */
  bool own;                        /* the one of process 0 itself, which needs no proof */
  bool closing;                    /* what is to go out is still sent */
  bool held;                       /* it does not read: what it sends waits */
  int64_t heard;                   /* when something came last, in nanoseconds */
  const struct tsr__member *rival; /* who has the place that it wants */
  uint8_t nonce[TSR__NONCE];
} tsr__peer;

/* One process of the job. */
typedef struct tsr__member {
  tsr__peer *peer; /* NULL: not connected */
  tsr__presence presence;
  char where[96]; /* "pid 12 on host" */
  uint32_t pid;
  char host[65];
  bool at_step;       /* it has said so, of those that are to stop */
  uint32_t regroup;   /* the ticket of its REGROUP; 0: it has not asked */
  uint64_t number;    /* of the meeting that it waits at; of one run each has another */
  int waits_for;      /* another one, in a run; -1: for none */
  int64_t wait_since; /* when that began */
  char what[200];     /* that run */
} tsr__member;

/* A request that cannot be answered yet: a GET, or the BYE of process 0 (key ""). */
typedef struct tsr__wait {
  struct tsr__wait *next;
  int member;
  uint32_t ticket;
  int64_t since, deadline;
  bool told; /* that it takes long */
  char key[TSR__KEY_MOST + 1];
} tsr__wait;

/* A barrier under way, or one that failed and that some have not come to yet. */
typedef struct tsr__gathering {
  struct tsr__gathering *next;
  int count;         /* participants */
  int arrived;       /* of them */
  int64_t deadline;  /* when it fails */
  int64_t since;     /* when the first one came */
  tsr__error result; /* TSR_OK: it is under way, or whole */
  bool whole;        /* all have come */
  bool told;         /* those who wait know that it takes long, and who is missing */
  tsr__text records; /* of all, from then on */
  char name[TSR__KEY_MOST + 1];
  struct tsr__attendee {
    int member;
    bool here;     /* it has come */
    bool answered; /* nothing is owed to it any more */
    uint32_t ticket;
    char *record;
    size_t length;
  } attendees[];
} tsr__gathering;

typedef struct tsr__coordinator {
  tsr__heap *heap;
  tsr__role role;
  char address[320]; /* as messages name it */
  int wake;
  tsr__listeners listeners; /* none: nobody else is to come */
  pthread_t thread;
  _Atomic bool stop;
  tsr__peer **peers;
  size_t peer_count, peer_capacity;
  struct pollfd *polls;
  size_t poll_capacity;
  tsr__member *members; /* role.count */
  tsr__store store;
  tsr__wait *waits;
  tsr__gathering *gatherings;
  size_t record_bytes;  /* that they hold */
  tsr__error cause;     /* the first failure */
  int64_t now;          /* when the thread woke */
  _Atomic bool starved; /* it lacked memory, and closed a connection for it */
  bool accepting;       /* false for a while when descriptors are short */
  bool stopping;        /* somebody is to stop: all are asked for their steps */
  bool stop_said;       /* where all stop */
  uint64_t step;        /* one behind the furthest that was said */
  int64_t regroup_until, regroup_since;
  bool regroup_told;
  bool regrouped; /* those that are left meet elsewhere: who comes is to try again */
} tsr__coordinator;

/* Listens and starts the thread; `own` is the other side of process 0's connection, which it takes
 * in any case. */
tsr_status tsr__coordinator_open(tsr__heap *heap, const tsr__role *role, int own,
                                 tsr__coordinator **out, tsr__error *error);
/* Ends the thread and frees everything. */
void tsr__coordinator_close(tsr__coordinator *c);

/* ---- coordinator.c, for the others ----------------------------------------------------------- */

/* "process 3 (pid 12 on host)", and " which has given no sign of life for 3.1 s" where so. */
void tsr__member_name(const tsr__coordinator *c, int member, tsr__text *out);
/* Carries out a packet of a stranger or a member; false: it is none that may be sent. */
bool tsr__peer_packet(tsr__coordinator *c, tsr__peer *peer, tsr__packet *packet);
/* Answers a request of a member, if it is still there: by an error alone, or by fields. */
void tsr__answer(tsr__coordinator *c, int member, uint32_t ticket, const tsr__error *error,
                 tsr__blob fields);
/* Tells a member what it waits for. */
void tsr__tell_wait(tsr__coordinator *c, int member, const char *text);
/* When a wait that began at `since` takes long. */
int64_t tsr__takes_long(const tsr__coordinator *c, int64_t since);
/* A member is gone: `failed` says that it did not say goodbye, and `why`. */
void tsr__member_gone(tsr__coordinator *c, int member, bool failed, const char *why);

/* ---- requests.c ------------------------------------------------------------------------------ */

/* Carries out a frame of a member; false: it is none that a member may send. */
bool tsr__request(tsr__coordinator *c, int member, tsr__packet *frame);
/* Answers waits whose time has come; the next deadline, INT64_MAX: none. */
int64_t tsr__waits_tick(tsr__coordinator *c);
/* After a member came or went: waits that nobody will answer now are. */
void tsr__waits_changed(tsr__coordinator *c, int gone);
void tsr__waits_free(tsr__coordinator *c);

/* ---- agree.c --------------------------------------------------------------------------------- */

bool tsr__agree_stop(tsr__coordinator *c);
bool tsr__agree_step(tsr__coordinator *c, int member, tsr__fields *fields);
bool tsr__agree_regroup(tsr__coordinator *c, int member, uint32_t ticket, tsr__fields *fields);
/* Who waits for whom, as a PING says. */
bool tsr__agree_beat(tsr__coordinator *c, int member, tsr__fields *fields);
int64_t tsr__agree_tick(tsr__coordinator *c);
void tsr__agree_changed(tsr__coordinator *c);

/* ---- meetings.c ------------------------------------------------------------------------------ */

/* Carries out a MEET; false: it is none. */
bool tsr__meet_request(tsr__coordinator *c, int member, uint32_t ticket, tsr__fields *fields);
int64_t tsr__meetings_tick(tsr__coordinator *c);
void tsr__meetings_changed(tsr__coordinator *c, int gone);
void tsr__meetings_free(tsr__coordinator *c);

#endif
