/* Inside comm/: what processes that read each other's memory consist of; see peers.h.
 *
 *   segments.c   segments and mirrors, and the blocks in them
 *   mirrors.c    what processes of other hosts say and hold
 *   differ.c     which line of what processes do differs
 *   peers.c      waiting for each other, and runs */
#ifndef TSR_COMM_PEERS_ROOM_H
#define TSR_COMM_PEERS_ROOM_H

#include "comm/far.h"
#include "comm/peers.h"

enum {
  MEETING_BITS = 24,
  SPINS = 2000,       /* where each process has a core; then others get it */
  HELPS = 64,         /* looks for what other hosts send, and as many with a yield each */
  YIELD_NS = 200000,  /* then this process sleeps */
  SLICE_NS = 500000,  /* a yield that lasts longer gave the core to other work */
  WAITS_MOST = 1024,  /* without a yield */
  STEP_NS = 500000,   /* between two looks of a leader that failed */
  ASIDE_NS = 1000000, /* between two steps aside */
  NAP_MS = 20,        /* between two looks whether those who are waited for still live */
  FLUSH_MS = 5000,    /* how long the end of a process waits for what is not out yet */
  LOST_MS = 5000,     /* how long it may take until it is known who does not answer any more */
  PAGE = 4096,
  SMALL = 1024, /* bytes of a note that has no block of its own, and goes to other hosts */
  LATER = 8,    /* calls that wait for a meeting */
  SIZES = 256,  /* different sizes of free blocks, of which pools have fewer */
  MIRRORED_PIECES = 4096,
  LONG_RUN = 1 << 16 /* bytes that are got by themselves, not together with others */
};
#define MIRRORED ((size_t)64 << 20) /* bytes of mirrors that stay for the next fetch */
/* Operations of the futex call, whose header not every C library finds. */
enum { FUTEX_OF_ALL_WAIT = 0, FUTEX_OF_ALL_WAKE = 1 };
#define END ((UINT64_C(1) << MEETING_BITS) - 1)
#define PROMISED (UINT64_C(1) << 63) /* of a note: nothing is left that this run could fail by */

/* What a process says of a run that failed. */
typedef struct failure {
  _Atomic uint64_t run;
  int process; /* whose it was first */
  tsr__error error;
} failure;

/* The front of a segment. What most meetings look at lies in two lines: the first one, and a small
 * note's. */
typedef struct head {
  _Alignas(64) _Atomic uint64_t word;
  _Atomic uint32_t bell;     /* raised with the word */
  _Atomic uint16_t sleepers; /* who waits for it */
  _Atomic int16_t core;      /* on which the word was raised */
  uint64_t fingerprint[2];   /* of the run */
  /* What it brought to a gathering, whose word this is (of PROMISED ones with that bit), in one
   * place and the other in turn. */
  _Atomic uint64_t note_word[2];
  uint64_t note_at[2], note_size[2];
  _Alignas(64) char small[2][SMALL];      /* the bytes of short notes */
  int64_t numbers[2][TSR__PEERS_NUMBERS]; /* what it adds at the end of the run */
  char what[2][160];
  failure failed[2];
  uint8_t nonce[16]; /* by which others know that this is the memory that they were told of */
} head;

typedef struct free_list {
  size_t size;
  void *first;
} free_list;

/* A range of another process's segment that is mapped here. */
typedef struct window {
  uint64_t offset;
  size_t bytes;
  char *base;
} window;

/* Of this process's own all is mapped, at `base`; of others windows, when something in them is
 * first looked at. */
typedef struct segment {
  char *base;  /* of another process of this host, the first window's */
  size_t size; /* most of which is never touched */
  int file;    /* of another process of this host; -1: there is none */
  window *windows;
  size_t window_count, window_room;
  head *front; /* at `base`, but of a mirror where the leader of this host puts what it says */
  int64_t pid;
  int leader; /* of its host: the first process there */
  bool far;   /* a mirror */
} segment;

typedef struct later {
  void (*call)(void *user, bool came);
  void *user;
} later;

/* A piece of a mirror that was fetched. */
typedef struct fetched {
  char *at;
  size_t bytes;
} fetched;

struct tsr__peers {
  tsr__heap *heap;
  tsr__peers_start start;
  segment *all;
  int hosts;
  char engine[TSR__ENGINE_NAME];
  const tsr__plugin_calls *calls; /* of the engine, once it is loaded */
  tsr__far *far;                  /* NULL: all are here */
  fetched *mirrored;
  size_t mirrored_count, mirrored_room, mirrored_bytes;
  int file;
  pid_t pid;            /* a child of fork has another */
  bool apart;           /* it is one, and its segment a copy */
  bool left;            /* it talks to nobody any more; its memory is lent */
  pthread_mutex_t lock; /* of the memory, and of windows */
  size_t used;
  free_list free[SIZES];
  int sizes;
  pthread_mutex_t run_lock;         /* recursive: held from enter to leave */
  void (*_Atomic turn)(void *user); /* waited for before a run; NULL: nothing */
  void *turn_user;
  int patience, unyielding;  /* waits without a yield after the next long one, and from now on */
  int depth, spins, sharing; /* sharing: processes that may use this one's cores */
  int64_t aside_at;          /* when it stepped aside last */
  uint64_t run, meeting;
  uint64_t introduced; /* the last run of which other hosts know what it is */
  tsr__peers_sum moved;
  uint64_t *told_word;       /* of a leader, by process: the last word that other hosts know */
  bool met;                  /* whether all came to the last meeting */
  bool compared;             /* whether it was looked whether all began this run alike */
  tsr__peers_lines lines[2]; /* of this run: its task's, and its own */
  _Atomic(tsr__peers_task *) tasks; /* under `lock`, but for whether there are any */
  bool promises;                    /* this process does, at the next gathering of this run */
  bool all_promised;                /* at the last one; so nobody waits for the run's END */
  unsigned gathered;                /* gatherings of this process */
  int told; /* the process whose word of a failure this one passes on; -1: none */
  later after[LATER];
  int after_count;
  void *note[2]; /* of this meeting and of the one before, which others may still read */
  size_t note_room[2];
};

static inline head *head_of(const tsr__peers *peers, int process)
{
  return peers->all[process].front;
}

static inline head *own(const tsr__peers *peers)
{
  return head_of(peers, peers->start.index);
}

/* The word of a meeting of this run. */
static inline uint64_t word_at(const tsr__peers *peers, uint64_t meeting)
{
  return peers->run << MEETING_BITS | meeting;
}

/* ---- segments.c ------------------------------------------------------------------------------ */

/* The window of another process's segment that an address lies in; NULL: none of it. */
const window *tsr__window_of(const segment *of, const void *at);

/* ---- peers.c --------------------------------------------------------------------------------- */

bool tsr__peers_yield(tsr__peers *peers);
/* Shows a process's word and wakes those who sleep for it. */
void tsr__peers_show(head *of, uint64_t word);
/* Whether a process is known to have ended or failed; then `error` says which and why. */
bool tsr__peers_gone(const tsr__peers *peers, int process, tsr__error *error);
/* The error of one that is, with what this process waited in. */
tsr_status tsr__peers_lost(const tsr__peers *peers, const tsr__error *why, tsr__error *error);
/* Sleeps until a process's bell rings, or for a while; among its sleepers, or it does not ring. */
void tsr__peers_nap(head *of, uint32_t bell);

/* ---- differ.c -------------------------------------------------------------------------------- */

#define TSR__DIFFER "processes run different programs: "
/* Whether some processes began the run that all have come to the END of in another way than
 * others: the same answer in all of them. */
bool tsr__peers_differ(const tsr__peers *peers);
/* Within a run that all begin because they did: puts the first line that differs, of this process
 * and of another one, behind TSR__DIFFER in a text. Where there is none it leaves `out` as it
 * is. */
tsr_status tsr__peers_name_difference(tsr__peers *peers, char *out, size_t size, tsr__error *error);

/* ---- mirrors.c ------------------------------------------------------------------------------- */

/* A leader tells other hosts its own word, those of the others here and what goes with them; false:
 * not all have it, as there was no memory, and it may be told again. It takes what one of them
 * told. */
bool tsr__peers_tell(tsr__peers *peers, uint64_t word);
void tsr__peers_take_word(void *user, int from, tsr__plugin_note note);
/* Whether this process speaks for its host. */
static inline bool leads(const tsr__peers *peers)
{
  return peers->all[peers->start.index].leader == peers->start.index;
}

/* Begins to get what a process of another host has into its mirror. */
void tsr__peers_get(tsr__peers *peers, int process, const void *at, const tsr__peers_runs *runs);
/* Waits for what was begun and is of no use any more, so that it does not come in the next run. */
void tsr__peers_drain(tsr__peers *peers);
/* Gives pages of mirrors back, before others may write where they came from. */
void tsr__peers_let_go(tsr__peers *peers);

#endif
