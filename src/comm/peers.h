/* Level 1: processes that read each other's device memory.
 *
 * Each process has a segment, shared memory without a name, which those of its host map: what one
 * process allocates there the others read where it lies. That is the engine `local`: nothing is
 * sent; processes say where things are, wait for each other, read, and wait again before anything
 * moves or goes.
 *
 *    process 0   | head |  blocks ...        |      mapped by 0, 1, 2 ...; written by 0, and where
 *    process 1   | head |  blocks ...        |      it waits for results by those who finish them
 *
 * Of a process on another host there is a mirror, as much address space with nothing in it. What is
 * to be read is got into it before, at the same offset, by an engine that is loaded (far.h); from
 * then on there is no difference.
 *
 * All of them make the same calls in the same order (one program, several processes). A run is what
 * lies between enter and leave: within it processes meet any number of times; its end is one more
 * meeting, at which they agree how it went, and the only one of a run in which nothing is read. Who
 * fails in a run says so and skips the rest of its meetings; the others find that out at their next
 * one, so that nobody waits for it. Where all say at their last gathering that they cannot fail any
 * more, that is the run's end. */
#ifndef TSR_COMM_PEERS_H
#define TSR_COMM_PEERS_H

#include "base/base.h"

#include <pthread.h>

typedef struct tsr__peers tsr__peers;

/* What a process waits in, and for whom; texts are as long as the call. */
typedef struct tsr__peers_wait {
  int process;
  uint64_t run, theirs;          /* the run, and the last one that the other came to */
  uint64_t word;                 /* the meeting in it: each wait of a process has another */
  const char *what, *their_what; /* what they are */
} tsr__peers_wait;

/* How processes find each other before they share memory. */
typedef struct tsr__peers_start {
  int index, count;
  /* `size` bytes of each process, at all of them in order of their indices; NULL: nobody here wants
   * them, and the others do. */
  tsr_status (*all_gather)(void *user, const void *mine, size_t size, void *all, tsr__error *error);
  /* Whether a process is known to have ended or failed; then the error says which and why. NULL:
   * nobody knows, and the operating system is asked whether it runs. Called from any thread. */
  bool (*gone)(void *user, int process, tsr__error *error);
  /* Whether this one itself has, or nobody knows any more; asked where any failure makes `gone`
   * true. NULL where `gone` is. */
  bool (*ended)(void *user, int process);
  void *user;
  /* A wait takes so long that this process sleeps; and it is over (NULL). NULL: nobody asks */
  void (*waits)(void *user, const tsr__peers_wait *wait);
  const char *host;   /* processes with the same one share memory; NULL or "": as the system says */
  const char *engine; /* between hosts; NULL or "": "ucx" */
  bool shrinks;       /* those that are left are to go on where some fail */
  uint64_t memory;    /* bytes of the machine's; 0: as the system says */
} tsr__peers_start;

/* Those of a runtime, before its devices; when it closes the others may go on reading what they
 * have mapped. TSR_EUNSUPPORTED where processes of one host cannot map each other's memory (other
 * users), and of several where the engine cannot be loaded; TSR_EARG where they name different
 * engines; TSR_ENOMEM, TSR_EIO. Collective. */
tsr_status tsr__peers_install(tsr_runtime *rt, const tsr__peers_start *start, tsr__error *error);

/* The other processes of a runtime; NULL: there are none, or none can be reached. */
static inline tsr__peers *tsr__peers_of(const tsr_runtime *rt)
{
  return rt->slots[TSR__SLOT_PEERS];
}
int tsr__peers_index(const tsr__peers *peers);
int tsr__peers_count(const tsr__peers *peers);
/* How many cores there are for each of those that share this process's; 1 or more. */
int tsr__peers_cores(const tsr__peers *peers);
/* How many hosts they are on; and the same in words, with the name of the engine between these and
 * what it can: "local" of one host. */
int tsr__peers_hosts(const tsr__peers *peers);
void tsr__peers_describe(const tsr__peers *peers, char *out, size_t size);

/* ---- memory ------------------------------------------------------------------------------ */

/* A block of this process's segment, page-aligned where it is large, else by 64; NULL without
 * memory. Thread-safe. For pools: freed blocks are taken again by size. */
void *tsr__peers_take(void *peers, size_t bytes);
void tsr__peers_give(void *peers, void *block, size_t bytes);
/* In a child of fork: from now on this process's segment is the child's own copy where it writes to
 * it, and the others' can only be read. Before anything is written; elsewhere it does nothing. */
void tsr__peers_own(void *peers);
/* Whether memory lies in this process's segment, and where; where `bytes` there are in another's,
 * or in its mirror: NULL without addresses for them. */
bool tsr__peers_has(const tsr__peers *peers, const void *at);
uint64_t tsr__peers_offset(const tsr__peers *peers, const void *at);
void *tsr__peers_at(tsr__peers *peers, int process, uint64_t offset, size_t bytes);
/* Within a run: requests `count` runs of `bytes`, the first at `at`, `stride` apart, from a process
 * on another host, in whose mirror `at` lies; memory on this host needs no request. The bytes are
 * there after tsr__peers_fetched and stay until the next tsr__peers_part. Memory of devices is
 * requested by the entry `fetch` of their table. */
typedef struct tsr__peers_runs {
  size_t bytes, count, stride;
} tsr__peers_runs;
void tsr__peers_fetch(tsr__peers *peers, int process, const void *at, const tsr__peers_runs *runs);
tsr_status tsr__peers_fetched(tsr__peers *peers, tsr__error *error);
/* The bytes that were fetched from other hosts until now, and how many notes were sent to them. */
typedef struct tsr__peers_sum {
  int64_t got_bytes, notes;
} tsr__peers_sum;
tsr__peers_sum tsr__peers_moved(const tsr__peers *peers);

/* ---- meeting ----------------------------------------------------------------------------- */

/* Says in lines, each "what<TAB>site", what a process is about to do: asked where processes differ,
 * to name the first line that does. The lines of equal work are equal, but for their sites. NULL:
 * nothing more is to be said. */
typedef struct tsr__peers_lines {
  void (*fn)(const void *user, tsr__text *out);
  const void *user;
} tsr__peers_lines;

/* What all processes must be about to do: equal on all, or it is an error that says who differs.
 * All is borrowed until the run is left. */
typedef struct tsr__peers_work {
  uint64_t fingerprint;    /* 0: only that this process fails instead is to be told, by leave */
  const char *what, *site; /* told where processes differ or one is waited for in vain */
  tsr__peers_lines lines;
} tsr__peers_work;

/* What the runs that a thread begins from here on are part of, until it is ended: work of theirs
 * that is equal differs where their tasks do. Tasks may be nested; the innermost counts. The struct
 * is the caller's, for as long. */
typedef struct tsr__peers_task {
  uint64_t fingerprint;
  tsr__peers_lines lines;
  pthread_t thread; /* these two are not the caller's to fill in */
  struct tsr__peers_task *outer;
} tsr__peers_task;
void tsr__peers_begin_task(tsr__peers *peers, tsr__peers_task *task);
void tsr__peers_end_task(tsr__peers *peers, tsr__peers_task *task);

/* Writes what it is where it does not stand already: mostly what was said two runs ago is said
 * again, which others have in their caches. */
void tsr__peers_say(char *text, size_t size, const tsr__peers_work *work);

/* Whether the calling thread is in a run. */
bool tsr__peers_in_run(tsr__peers *peers);
/* Within a run: whether the next leave is its end, at which all meet, and not that of a nested one.
 */
bool tsr__peers_ends_next(const tsr__peers *peers);
/* What a thread that is in no run waits for before it begins one: what it had begun before and
 * another thread runs, so that runs keep the order of the calls. At most one, for good. */
void tsr__peers_await(tsr__peers *peers, void (*turn)(void *user), void *user);
/* Begins a run; nested ones are part of the first. Other threads of this process wait, other
 * processes are not waited for: that they do the same is seen when all first meet. TSR_ESTATE in a
 * child of fork, which is none of them. */
tsr_status tsr__peers_enter(tsr__peers *peers, const tsr__peers_work *work, tsr__error *error);
/* Ends it with this process's status: TSR_OK where it was that on all; else its own, or what the
 * first process that failed says. Every enter that succeeded needs one. */
tsr_status tsr__peers_leave(tsr__peers *peers, tsr_status status, tsr__error *error);
/* The same; of `numbers` come the sums over all processes where all went well, and of a nested run
 * this process's own. */
enum { TSR__PEERS_NUMBERS = 2 };
tsr_status tsr__peers_leave_with(tsr__peers *peers, tsr_status status, int64_t *numbers,
                                 tsr__error *error);
/* Within a run: `size` bytes of each process, any number of them. `all` [process] is valid until
 * the next meeting. Until tsr__peers_part no process changes what it had before. */
typedef struct tsr__peers_note {
  const void *data;
  size_t size;
} tsr__peers_note;
tsr_status tsr__peers_gather(tsr__peers *peers, const void *mine, size_t size, tsr__peers_note *all,
                             tsr__error *error);
/* Within a run, before its last gathering: from there on this process cannot fail, whatever comes,
 * as it has all that it needs, and it lends nothing there. Where all say so the run ends with that
 * gathering, and who leaves waits for nobody. `numbers` are what leave would be told. False: it was
 * not said, as this run is part of another or has other hosts' processes. Who fails nevertheless is
 * told of in the next run. */
bool tsr__peers_promise(tsr__peers *peers, const int64_t *numbers);
/* Within a run: waits until all have read what they wanted. */
tsr_status tsr__peers_part(tsr__peers *peers, tsr__error *error);
/* The same without waiting: `call` is made when all have come to the next meeting, which they do
 * once they have read, or when the run ends; `came`: they have, else somebody is gone, and others
 * may be on their way still. A few calls at most. */
void tsr__peers_later(tsr__peers *peers, void (*call)(void *user, bool came), void *user);
/* Within a run: whether all came to the last meeting, however that went; if not, nobody found there
 * what this process told at it. */
bool tsr__peers_met(const tsr__peers *peers);
/* Before memory of others is written, where they said in this run that they wait for it: an error
 * where one has left the run, as this process was stopped and taken for dead. Who leaves after it
 * keeps that memory. */
tsr_status tsr__peers_still_here(const tsr__peers *peers, tsr__error *error);

#endif
