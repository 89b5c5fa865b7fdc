/* Segments of memory that processes read of each other, and how they wait for each other there.
 *
 * A process counts its meetings in one word, which it alone writes and all others read:
 *
 *    word   | run: 40 bits | meeting in it: 24 bits |      the last meeting of a run is END
 *
 * It waits until every word is at least its own. Beginning a run is no meeting: that all began the
 * same is seen at the first one there is. Who fails writes what happened and goes to the run's END
 * at once. What is said of a run stands in one of two places, by the run's last bit; nobody can be
 * two runs ahead, so a place is read before it is written again.
 *
 * The front of a segment, where the word is, is there of processes of other hosts too: with each
 * meeting a process sends them what it wrote, and what comes is put where it would be seen on one
 * host. Notes of a gathering travel with it, or are got where they are long.
 *
 *   process 3, here      | head | mirror: pages that were fetched, until the next part ... |
 *            ^ words and notes come      ^ gets
 *
 * Invariant: a word never falls, and what a process wrote before it raised its word is seen by
 * whoever saw it raised. */
#include "comm/peers.h"
#include "comm/far.h"

#include "base/events.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
  MEETING_BITS = 24,
  SPINS = 2000,      /* where each process has a core; then others get it */
  HELPS = 64,        /* looks for what other hosts send, and as many with a yield each */
  YIELDS = 16,       /* between two looks at the clock */
  YIELD_NS = 200000, /* then this process sleeps */
  NAP_MS = 20,       /* between two looks whether those who are waited for still live */
  FLUSH_MS = 5000,   /* how long the end of a process waits for what is not out yet */
  LOST_MS = 5000,    /* how long it may take until it is known who does not answer any more */
  PAGE = 4096,
  SMALL = 1024, /* bytes of a note that has no block of its own */
  LATER = 8,    /* calls that wait for a meeting */
  SIZES = 256,  /* different sizes of free blocks, of which pools have fewer */
  MIRRORED_PIECES = 4096,
  INLINE_NOTE = 4096 /* bytes of a note that goes with the word to other hosts */
};
#define MIRRORED ((size_t)64 << 20) /* bytes of mirrors that stay for the next fetch */
/* Operations of the futex call, whose header not every C library finds. */
enum { FUTEX_OF_ALL_WAIT = 0, FUTEX_OF_ALL_WAKE = 1 };
#define END ((UINT64_C(1) << MEETING_BITS) - 1)

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
  _Atomic uint32_t bell, sleepers;   /* raised with the word; who waits for it */
  uint64_t fingerprint[2];           /* of the run */
  uint64_t note_at[2], note_size[2]; /* what it brought to a gathering, by the meeting's last bit */
  _Alignas(64) char small[2][SMALL]; /* the bytes of short notes */
  int64_t numbers[2][TSR__PEERS_NUMBERS]; /* what it adds at the end of the run */
  char what[2][160];
  failure failed[2];
} head;

typedef struct free_list {
  size_t size;
  void *first;
} free_list;

typedef struct segment {
  char *base;
  size_t size; /* most of which is never touched */
  int64_t pid;
  bool far; /* a mirror */
} segment;

typedef struct later {
  void (*call)(void *user);
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
  char engine[32];
  tsr__far *far; /* NULL: all are here */
  fetched *mirrored;
  size_t mirrored_count, mirrored_room, mirrored_bytes;
  int file;
  pthread_mutex_t lock; /* of the memory */
  size_t used;
  free_list free[SIZES];
  int sizes;
  pthread_mutex_t run_lock;  /* recursive: held from enter to leave */
  int depth, spins, sharing; /* sharing: processes that may use this one's cores */
  uint64_t run, meeting;
  uint64_t introduced; /* the last run of which other hosts know what it is */
  bool compared;       /* whether all began this run alike */
  int told;            /* the process whose word of a failure this one passes on; -1: none */
  later after[LATER];
  int after_count;
  void *note[2]; /* of this meeting and of the one before, which others may still read */
  size_t note_room[2];
};

static head *head_of(const tsr__peers *peers, int process)
{
  return (head *)(void *)peers->all[process].base;
}

static head *own(const tsr__peers *peers)
{
  return head_of(peers, peers->start.index);
}

int tsr__peers_index(const tsr__peers *peers)
{
  return peers->start.index;
}

int tsr__peers_count(const tsr__peers *peers)
{
  return peers->start.count;
}

int tsr__peers_cores(const tsr__peers *peers)
{
  int cores = tsr__core_count() / peers->sharing;
  return cores > 1 ? cores : 1;
}

int tsr__peers_hosts(const tsr__peers *peers)
{
  return peers->hosts;
}

const char *tsr__peers_engine(const tsr__peers *peers)
{
  return peers->hosts > 1 ? peers->engine : "local";
}

/* ---- segments -------------------------------------------------------------------------------- */

/* Four times the machine's memory: addresses are never given back, only pages are. */
static size_t segment_size(void)
{
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  size_t size = (size_t)1 << 36;
  size_t most = pages > 0 && page > 0 ? 4 * (size_t)pages * (size_t)page : 0;
  while (size < most) size *= 2;
  return size;
}

/* What processes tell each other first: where a segment is to be found. */
typedef struct greeting {
  int64_t pid, file;
  uint64_t size, host;
  uint64_t cores; /* which ones it may use: a hash */
  char engine[32];
} greeting;

static uint64_t own_cores(void)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  (void)sched_getaffinity(0, sizeof set, &set);
  return tsr__hash(&set, sizeof set, 0);
}

/* Processes can open each other's files where they have the same kernel and the same numbers. */
static uint64_t host_of(const tsr__peers_start *start)
{
  char text[256] = "";
  size_t length = 0;
  if (start->host && *start->host) return tsr__hash(start->host, strlen(start->host), 1);
  int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  ssize_t got = file >= 0 ? read(file, text, 64) : 0;
  if (file >= 0) close(file);
  if (got > 0) length = (size_t)got;
  got = readlink("/proc/self/ns/pid", text + length, 64);
  if (got > 0) length += (size_t)got;
  return tsr__hash(text, length, 0);
}

static tsr_status map_segment(tsr__peers *peers, int process, const greeting *from,
                              tsr__error *error)
{
  char path[64], why[128];
  bool mine = process == peers->start.index;
  int file = peers->file;
  if (!mine) {
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)from->pid, (long long)from->file);
    file = open(path, O_RDWR | O_CLOEXEC);
  }
  void *base = MAP_FAILED;
  if (file >= 0)
    base =
        mmap(NULL, (size_t)from->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  int reason = errno;
  if (!mine && file >= 0) close(file);
  if (base == MAP_FAILED)
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "process %d cannot map the device memory of process %d (pid %lld): %s; "
                          "run both on one host as one user",
                          peers->start.index, process, (long long)from->pid,
                          tsr__sys_text(reason, why, sizeof why));
  peers->all[process] = (segment){ base, (size_t)from->size, from->pid, false };
  return TSR_OK;
}

/* Of another host's process, addresses: its head is written by what comes, the rest by fetches. */
static tsr_status map_mirror(tsr__peers *peers, int process, const greeting *from,
                             tsr__error *error)
{
  char why[128];
  void *base = mmap(NULL, (size_t)from->size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return tsr__error_set(error, TSR_ENOMEM,
                          "no %llu MiB of addresses for the device memory of process %d: %s",
                          (unsigned long long)from->size >> 20, process,
                          tsr__sys_text(errno, why, sizeof why));
  peers->all[process] = (segment){ base, (size_t)from->size, from->pid, true };
  return TSR_OK;
}

/* ---- other hosts ----------------------------------------------------------------------------- */

static void take_word(void *user, int from, tsr__plugin_note note);
static bool is_gone(const tsr__peers *peers, int process, tsr__error *error);
static void nap(head *of, uint32_t bell);

/* What follows once it is known that there are several hosts. */
typedef struct calling_card {
  int64_t failed;
  tsr__plugin_address address;
} calling_card;

static tsr_status open_engine(tsr__peers *peers, calling_card *out, tsr__error *error)
{
  const segment *own = &peers->all[peers->start.index];
  if (!strcmp(peers->engine, "local"))
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "processes are on %d hosts, and the engine 'local', which .engine or "
                          "TSR_ENGINE names, is for one; say \"ucx\"",
                          peers->hosts);
  const tsr__far_ask ask = { .heap = peers->heap,
                             .engine = peers->engine,
                             .host = { .index = peers->start.index,
                                       .count = peers->start.count,
                                       .memory = own->base,
                                       .size = own->size,
                                       .user = peers,
                                       .note = take_word } };
  return tsr__far_open(&ask, &peers->far, &out->address, error);
}

/* All open the engine, tell each other where, and make each other reachable. Who fails tells that,
 * too. */
static tsr_status meet_hosts(tsr__peers *peers, tsr_status status, tsr__error *error)
{
  const tsr__peers_start *start = &peers->start;
  size_t bytes = (size_t)(start->count + 1) * sizeof(calling_card);
  calling_card *all = tsr__new(peers->heap, bytes);
  if (!all) return tsr__error_set(error, TSR_ENOMEM, "no memory for %d processes", start->count);
  calling_card *mine = &all[start->count];
  if (!status) status = open_engine(peers, mine, error);
  mine->failed = status != TSR_OK;
  tsr_status told = start->all_gather(start->user, mine, sizeof *mine, all, status ? NULL : error);
  if (!status) status = told;
  for (int p = 0; p < start->count && !status; p++)
    if (peers->all[p].far && !all[p].failed)
      status = tsr__far_connect(peers->far, p, &all[p].address, error);
  tsr__del(peers->heap, all, bytes);
  return status ? status : tsr__far_start(peers->far, error);
}

static int count_hosts(const greeting *all, int count)
{
  int hosts = 0;
  for (int p = 0; p < count; p++) {
    bool known = false;
    for (int q = 0; q < p; q++) known = known || all[q].host == all[p].host;
    hosts += !known;
  }
  return hosts;
}

static tsr_status check_greeting(const tsr__peers *peers, int process, const greeting *from,
                                 tsr__error *error)
{
  if (!from->size)
    return tsr__error_set(error, TSR_EUNSUPPORTED, "process %d has no memory to share", process);
  if (strncmp(from->engine, peers->engine, sizeof peers->engine))
    return tsr__error_set(error, TSR_EARG,
                          "process %d is to use the engine '%.31s', this one '%s'; set .engine or "
                          "TSR_ENGINE the same on all",
                          process, from->engine, peers->engine);
  return TSR_OK;
}

static tsr_status map_all(tsr__peers *peers, tsr__error *error)
{
  const tsr__peers_start *start = &peers->start;
  size_t bytes = (size_t)start->count * sizeof(greeting);
  greeting mine = { getpid(), peers->file, segment_size(), host_of(start), own_cores(), "" };
  snprintf(mine.engine, sizeof mine.engine, "%s", peers->engine);
  greeting *all = tsr__new(peers->heap, bytes);
  if (!all) return tsr__error_set(error, TSR_ENOMEM, "no memory for %d processes", start->count);
  tsr_status status = TSR_OK;
  char why[128];
  if (ftruncate(peers->file, (off_t)mine.size))
    status = tsr__error_set(error, TSR_ENOMEM, "no shared memory for devices: %s",
                            tsr__sys_text(errno, why, sizeof why));
  /* Each tells even where it failed, so that nobody waits for it. */
  if (status) mine.size = 0;
  tsr_status told = start->all_gather(start->user, &mine, sizeof mine, all, status ? NULL : error);
  if (!status) status = told;
  peers->hosts = told ? 1 : count_hosts(all, start->count);
  for (int p = 0; p < start->count && !status; p++) {
    status = check_greeting(peers, p, &all[p], error);
    if (!status && all[p].host == mine.host) status = map_segment(peers, p, &all[p], error);
    else if (!status) status = map_mirror(peers, p, &all[p], error);
    peers->sharing += all[p].host == mine.host && all[p].cores == mine.cores;
  }
  peers->spins = peers->sharing <= tsr__core_count() ? SPINS : 0;
  tsr__del(peers->heap, all, bytes);
  return peers->hosts > 1 ? meet_hosts(peers, status, error) : status;
}

/* Once more, so that nobody ends before others have its segment. */
static tsr_status see_all(tsr__peers *peers, tsr_status status, tsr__error *error)
{
  const tsr__peers_start *start = &peers->start;
  size_t bytes = (size_t)start->count * sizeof(int);
  int *all = tsr__new(peers->heap, bytes), mine = (int)status;
  if (!all) return status ? status : tsr__error_set(error, TSR_ENOMEM, "no memory for processes");
  tsr_status told = start->all_gather(start->user, &mine, sizeof mine, all, status ? NULL : error);
  if (!status) status = told;
  for (int p = 0; p < start->count && !status; p++)
    if (all[p])
      status = tsr__error_set(error, TSR_EUNSUPPORTED,
                              "process %d could not share device memory: see its message", p);
  tsr__del(peers->heap, all, bytes);
  return status;
}

/* What this process said last may be what others wait for. */
static void flush(const tsr__peers *peers)
{
  tsr__error why = { .status = TSR_OK };
  for (int p = 0; peers->far && p < peers->start.count; p++)
    for (int ms = 0; peers->all[p].far && ms < FLUSH_MS; ms += NAP_MS) {
      if (tsr__far_flushed(peers->far, p) || is_gone(peers, p, &why)) break;
      nap(own(peers), atomic_load(&own(peers)->bell));
    }
}

static void close_peers(tsr__peers *peers)
{
  if (!peers) return;
  flush(peers);
  tsr__far_close(peers->far);
  for (int p = 0; peers->all && p < peers->start.count; p++)
    if (peers->all[p].base) munmap(peers->all[p].base, peers->all[p].size);
  tsr__del(peers->heap, peers->mirrored, peers->mirrored_room * sizeof *peers->mirrored);
  if (peers->all) tsr__del(peers->heap, peers->all, (size_t)peers->start.count * sizeof(segment));
  if (peers->file >= 0) close(peers->file);
  pthread_mutex_destroy(&peers->lock);
  pthread_mutex_destroy(&peers->run_lock);
  tsr__del(peers->heap, peers, sizeof *peers);
}

static tsr_status open_peers(tsr__heap *heap, const tsr__peers_start *start, tsr__peers **out,
                             tsr__error *error)
{
  tsr__peers *peers = tsr__new(heap, sizeof *peers);
  if (!peers) return tsr__error_set(error, TSR_ENOMEM, "no memory for processes");
  peers->heap = heap;
  peers->start = *start;
  snprintf(peers->engine, sizeof peers->engine, "%s",
           start->engine && *start->engine ? start->engine : "ucx");
  peers->used = (sizeof(head) + PAGE - 1) / PAGE * PAGE;
  pthread_mutexattr_t again;
  pthread_mutexattr_init(&again);
  pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&peers->lock, NULL);
  pthread_mutex_init(&peers->run_lock, &again);
  pthread_mutexattr_destroy(&again);
  peers->all = tsr__new(heap, (size_t)start->count * sizeof *peers->all);
  peers->file = memfd_create("tessera", MFD_CLOEXEC);
  tsr_status status = TSR_OK;
  if (!peers->all || peers->file < 0)
    status = tsr__error_set(error, TSR_ENOMEM, "no shared memory for devices");
  if (!status) status = see_all(peers, map_all(peers, error), error);
  if (status) close_peers(peers);
  else *out = peers;
  return status;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t rounded(size_t bytes)
{
  size_t unit = bytes >= PAGE ? PAGE : 64;
  return (bytes + unit - 1) / unit * unit;
}

/* The list of free blocks of a size; NULL where there are too many sizes for one of its own. */
static free_list *list_of(tsr__peers *peers, size_t size)
{
  for (int i = 0; i < peers->sizes; i++)
    if (peers->free[i].size == size) return &peers->free[i];
  if (peers->sizes == SIZES) return NULL;
  peers->free[peers->sizes].size = size;
  return &peers->free[peers->sizes++];
}

void *tsr__peers_take(void *user, size_t bytes)
{
  tsr__peers *peers = user;
  size_t size = rounded(bytes);
  void *block = NULL;
  pthread_mutex_lock(&peers->lock);
  free_list *list = list_of(peers, size);
  if (list && list->first) {
    block = list->first;
    memcpy(&list->first, block, sizeof list->first);
  } else {
    size_t unit = size >= PAGE ? PAGE : 64, at = (peers->used + unit - 1) / unit * unit;
    const segment *own = &peers->all[peers->start.index];
    if (size <= own->size - at) {
      block = own->base + at;
      peers->used = at + size;
    }
  }
  pthread_mutex_unlock(&peers->lock);
  return block;
}

/* The pages of large blocks go back to the machine: by a call on the addresses, as an engine that
 * keeps them known to its network must see it. */
void tsr__peers_give(void *user, void *block, size_t bytes)
{
  tsr__peers *peers = user;
  size_t size = rounded(bytes);
  if (!block) return;
  if (size >= 16 * PAGE) madvise(block, size, MADV_REMOVE);
  pthread_mutex_lock(&peers->lock);
  free_list *list = list_of(peers, size);
  if (list) {
    memcpy(block, &list->first, sizeof list->first);
    list->first = block;
  }
  pthread_mutex_unlock(&peers->lock);
}

bool tsr__peers_has(const tsr__peers *peers, const void *at)
{
  const segment *own = &peers->all[peers->start.index];
  return (uintptr_t)at >= (uintptr_t)own->base && (uintptr_t)at < (uintptr_t)own->base + own->size;
}

uint64_t tsr__peers_offset(const tsr__peers *peers, const void *at)
{
  return (uint64_t)((const char *)at - peers->all[peers->start.index].base);
}

void *tsr__peers_at(const tsr__peers *peers, int process, uint64_t offset)
{
  return peers->all[process].base + offset;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static uint64_t word_at(const tsr__peers *peers, uint64_t meeting)
{
  return peers->run << MEETING_BITS | meeting;
}

/* Shows a process's word and wakes those who sleep for it: either it sees that there are some, or
 * they see the word, as they count themselves before they look for the last time. */
static void show_word(head *of, uint64_t word)
{
  atomic_store(&of->word, word);
  if (!atomic_load(&of->sleepers)) return;
  atomic_fetch_add(&of->bell, 1);
  syscall(SYS_futex, &of->bell, FUTEX_OF_ALL_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- words of other hosts -------------------------------------------------------------------- */

/* What a word brings along: of a run's first one `what`, of its END a failure and numbers, of a
 * gathering the note where it is short. */
typedef struct far_word {
  uint64_t word, fingerprint, note_at, note_size;
  int64_t numbers[TSR__PEERS_NUMBERS];
  int32_t failed, status; /* whose failure, -1: none; and what it is */
  uint32_t what, text, note, gathers;
} far_word;

static size_t put_bytes(char *out, size_t at, const void *from, size_t bytes)
{
  memcpy(out + at, from, bytes);
  return at + bytes;
}

static void send_word(tsr__peers *peers, uint64_t word, bool gathers)
{
  const head *me = own(peers);
  int run = (int)(peers->run & 1), at = (int)(word & 1);
  const failure *f = &me->failed[run];
  char text[TSR__PLUGIN_NOTE];
  far_word w = { .word = word, .fingerprint = me->fingerprint[run], .failed = -1 };
  w.gathers = gathers;
  w.note_at = gathers ? me->note_at[at] : 0;
  w.note_size = gathers ? me->note_size[at] : 0;
  w.note = w.note_size <= INLINE_NOTE ? (uint32_t)w.note_size : 0;
  w.what = peers->introduced < peers->run ? (uint32_t)strlen(me->what[run]) : 0;
  memcpy(w.numbers, me->numbers[run], sizeof w.numbers);
  if ((word & END) == END && atomic_load(&f->run) == peers->run) {
    w.failed = f->process;
    w.status = (int32_t)f->error.status;
    w.text = (uint32_t)strlen(f->error.text);
  }
  peers->introduced = peers->run;
  size_t length = put_bytes(text, 0, &w, sizeof w);
  length = put_bytes(text, length, me->what[run], w.what);
  length = put_bytes(text, length, f->error.text, w.text);
  if (w.note)
    length = put_bytes(text, length, peers->all[peers->start.index].base + w.note_at, w.note);
  for (int p = 0; p < peers->start.count; p++)
    if (peers->all[p].far) tsr__far_send(peers->far, p, (tsr__plugin_note){ text, length });
}

/* Notes lie in the head, at one of two places, or behind it. */
static bool is_whole(const segment *of, const far_word *w, size_t bytes)
{
  const head *front = NULL;
  bool in_head = w->note_at == offsetof(head, small) + (w->word & 1) * SMALL && w->note <= SMALL;
  return w->what < sizeof front->what[0] && w->text < sizeof front->failed->error.text &&
         w->note <= w->note_size && w->note_at <= of->size &&
         w->note_size <= of->size - w->note_at &&
         (!w->note || in_head || w->note_at >= sizeof *front) &&
         bytes == sizeof *w + (size_t)w->what + w->text + w->note;
}

/* Puts what a process of another host sent where it would be seen of one here. */
static void take_word(void *user, int from, tsr__plugin_note note)
{
  tsr__peers *peers = user;
  head *of = head_of(peers, from);
  const char *rest = (const char *)note.data + sizeof(far_word);
  far_word w;
  if (note.size < sizeof w || !peers->all[from].far) return;
  memcpy(&w, note.data, sizeof w);
  if (!is_whole(&peers->all[from], &w, note.size)) return;
  int run = (int)(w.word >> MEETING_BITS & 1);
  of->fingerprint[run] = w.fingerprint;
  memcpy(of->numbers[run], w.numbers, sizeof w.numbers);
  if (w.what) snprintf(of->what[run], sizeof of->what[run], "%.*s", (int)w.what, rest);
  rest += w.what;
  if (w.failed >= 0) {
    failure *f = &of->failed[run];
    f->process = w.failed;
    f->error.status = (tsr_status)w.status;
    snprintf(f->error.text, sizeof f->error.text, "%.*s", (int)w.text, rest);
    atomic_store(&f->run, w.word >> MEETING_BITS);
  }
  rest += w.text;
  /* What a gathering brought stays, as on one host, while others come and go. */
  if (w.gathers) {
    of->note_at[w.word & 1] = w.note_at;
    of->note_size[w.word & 1] = w.note_size;
    memcpy(peers->all[from].base + w.note_at, rest, w.note);
  }
  show_word(of, w.word);
}

/* What others said first is passed on as they said it. */
static void say_failure(tsr__peers *peers, const tsr__error *error)
{
  failure *f = &own(peers)->failed[peers->run & 1];
  if (peers->told >= 0) {
    const failure *from = &head_of(peers, peers->told)->failed[peers->run & 1];
    f->process = from->process;
    f->error = from->error;
  } else {
    f->process = peers->start.index;
    f->error = *error;
  }
  atomic_store(&f->run, peers->run);
}

/* Whether a process said that a run failed; then `error` says so. */
static bool has_failed(tsr__peers *peers, int process, tsr__error *error)
{
  failure *f = &head_of(peers, process)->failed[peers->run & 1];
  if (process == peers->start.index || atomic_load(&f->run) != peers->run) return false;
  *error = (tsr__error){ .status = TSR_OK };
  tsr__error_set(error, f->error.status, "process %d: %s", f->process, f->error.text);
  peers->told = process;
  return true;
}

static bool is_gone(const tsr__peers *peers, int process, tsr__error *error)
{
  const tsr__peers_start *start = &peers->start;
  if (start->gone) return start->gone(start->user, process, error);
  if (peers->all[process].far) return false;
  if (!kill((pid_t)peers->all[process].pid, 0) || errno != ESRCH) return false;
  tsr__error_set(error, TSR_EPEER, "process %d (pid %lld) has ended", process,
                 (long long)peers->all[process].pid);
  return true;
}

/* Sleeps until a process's bell rings, or for a while; among its sleepers, or it does not ring. */
static void nap(head *of, uint32_t bell)
{
  const struct timespec some = { 0, NAP_MS * 1000000L };
  syscall(SYS_futex, &of->bell, FUTEX_OF_ALL_WAIT, bell, &some, NULL, 0);
}

/* What this process waits in, for messages. */
static tsr_status lost(const tsr__peers *peers, const tsr__error *why, tsr__error *error)
{
  return tsr__error_set(error, why->status, "%s while this one waited in %s", why->text,
                        own(peers)->what[peers->run & 1]);
}

static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Spins, then yields: whether the other came meanwhile. */
static bool came_soon(const tsr__peers *peers, const head *of, uint64_t word)
{
  for (int i = 0; i <= peers->spins; i++) {
    if (atomic_load_explicit(&of->word, memory_order_acquire) >= word) return true;
    pause_cpu();
  }
  int64_t until = tsr__now() + YIELD_NS;
  do
    for (int i = 0; i < YIELDS; i++) {
      sched_yield();
      if (atomic_load_explicit(&of->word, memory_order_acquire) >= word) return true;
    }
  while (tsr__now() < until);
  return false;
}

static void tell_wait(const tsr__peers *peers, int process)
{
  const head *of = head_of(peers, process);
  const tsr__peers_start *start = &peers->start;
  uint64_t theirs = atomic_load(&of->word) >> MEETING_BITS;
  char what[sizeof of->what[0]];
  if (!start->waits) return;
  /* It may be writing there: what is read now is for people. */
  memcpy(what, of->what[theirs & 1], sizeof what);
  what[sizeof what - 1] = '\0';
  start->waits(start->user, &(tsr__peers_wait){ process, peers->run, theirs,
                                                own(peers)->what[peers->run & 1], what });
}

/* The same of another host's process, helping to hear of it. */
static bool is_heard(const tsr__peers *peers, const head *of, uint64_t word)
{
  bool came = atomic_load(&of->word) >= word;
  if (came) return true;
  tsr__far_begin(peers->far);
  for (int turn = 0; turn < 2 * HELPS && !came; turn++) {
    tsr__far_help(peers->far);
    if (turn >= HELPS) sched_yield();
    came = atomic_load(&of->word) >= word;
  }
  tsr__far_end(peers->far);
  return came;
}

/* Waits until another process has come as far. A failure of its in this run ends the waiting; at
 * the END everybody comes, failed or not. */
static tsr_status wait_for(const tsr__peers *peers, int process, uint64_t word, tsr__error *error)
{
  head *of = head_of(peers, process);
  tsr__error why = { .status = TSR_OK };
  if (peers->all[process].far ? is_heard(peers, of, word) : came_soon(peers, of, word))
    return TSR_OK;
  tsr_status status = TSR_OK;
  bool told = false;
  atomic_fetch_add(&of->sleepers, 1);
  for (bool first = true; !status; first = false) {
    uint32_t bell = atomic_load(&of->bell);
    if (atomic_load(&of->word) >= word) break;
    if (is_gone(peers, process, &why)) {
      status = lost(peers, &why, error);
      break;
    }
    /* Not for the first nap, which most waits end in. */
    if (!first && !told) tell_wait(peers, process);
    told = told || !first;
    nap(of, bell);
  }
  atomic_fetch_sub(&of->sleepers, 1);
  if (told && peers->start.waits) peers->start.waits(peers->start.user, NULL);
  return status;
}

/* All must have begun the same. */
static tsr_status compare(tsr__peers *peers, tsr__error *error)
{
  const head *me = own(peers);
  int at = (int)(peers->run & 1);
  peers->compared = true;
  for (int p = 0; p < peers->start.count; p++) {
    const head *of = head_of(peers, p);
    /* Who failed before it could begin says 0, and why. */
    if (of->fingerprint[at] == me->fingerprint[at] || !of->fingerprint[at]) continue;
    return tsr__error_set(error, TSR_EPEER,
                          "processes run different programs: process %d is at %s, process %d at "
                          "%s; all processes must make the same calls in the same order",
                          peers->start.index, me->what[at], p, of->what[at]);
  }
  return TSR_OK;
}

/* What waited for a meeting that all have come to, or that nobody waits for any more. */
static void call_later(tsr__peers *peers)
{
  for (int i = 0; i < peers->after_count; i++) peers->after[i].call(peers->after[i].user);
  peers->after_count = 0;
}

/* The next meeting of a run, to which all bring notes if it is a gathering: they come to it or are
 * known to have failed. */
static tsr_status meet_with(tsr__peers *peers, uint64_t meeting, bool gathers, tsr__error *error)
{
  uint64_t word = word_at(peers, meeting);
  peers->meeting = meeting;
  show_word(own(peers), word);
  if (peers->far) send_word(peers, word, gathers);
  for (int p = 0; p < peers->start.count; p++) {
    if (p == peers->start.index) continue;
    tsr_status status = wait_for(peers, p, word, error);
    if (status) return status;
  }
  tsr__error why;
  call_later(peers);
  if (meeting == END) return TSR_OK;
  if (!peers->compared && compare(peers, error)) return error->status;
  for (int p = 0; p < peers->start.count; p++)
    if (has_failed(peers, p, &why)) {
      *error = why;
      return error->status;
    }
  return TSR_OK;
}

static tsr_status meet(tsr__peers *peers, uint64_t meeting, tsr__error *error)
{
  return meet_with(peers, meeting, false, error);
}

/* ---- fetching -------------------------------------------------------------------------------- */

static void get(tsr__peers *peers, int process, const void *at, size_t bytes)
{
  const segment *of = &peers->all[process];
  const tsr__plugin_get what = { process, (uint64_t)((const char *)at - of->base),
                                 (void *)(uintptr_t)at, bytes };
  tsr__far_get(peers->far, &what);
}

/* Whole pages of what was fetched go back to the machine. Beside them may lie what has come since:
 * notes, whose blocks are not among these. */
static void let_go(tsr__peers *peers)
{
  if (peers->mirrored_bytes <= MIRRORED && peers->mirrored_count <= MIRRORED_PIECES) return;
  for (size_t i = 0; i < peers->mirrored_count; i++) {
    const fetched *f = &peers->mirrored[i];
    uintptr_t from = ((uintptr_t)f->at + PAGE - 1) / PAGE * PAGE;
    uintptr_t end = ((uintptr_t)f->at + f->bytes) / PAGE * PAGE;
    if (from < end) madvise((void *)from, end - from, MADV_DONTNEED);
  }
  peers->mirrored_count = 0;
  peers->mirrored_bytes = 0;
}

void tsr__peers_fetch(tsr__peers *peers, int process, const void *at, size_t bytes)
{
  if (!peers->all[process].far || !bytes) return;
  /* Without memory for the list these pages stay until something is got there again. */
  if (tsr__grow(peers->heap, (void **)&peers->mirrored, &peers->mirrored_room,
                peers->mirrored_count + 1, sizeof *peers->mirrored))
    peers->mirrored[peers->mirrored_count++] = (fetched){ (char *)(uintptr_t)at, bytes };
  peers->mirrored_bytes += bytes;
  get(peers, process, at, bytes);
}

/* A process that is gone answers nobody. What else went wrong is told if nobody turns out to be. */
static tsr_status fetch_lost(const tsr__peers *peers, bool in_vain, tsr__error *error)
{
  tsr__error why = { .status = TSR_OK };
  for (int ms = 0; ms == 0 || (in_vain && ms < LOST_MS); ms += NAP_MS) {
    for (int p = 0; p < peers->start.count; p++)
      if (peers->all[p].far && is_gone(peers, p, &why)) return lost(peers, &why, error);
    if (in_vain) nap(own(peers), atomic_load(&own(peers)->bell));
  }
  if (!in_vain) return TSR_OK;
  return tsr__error_set(error, TSR_EPEER,
                        "the engine '%s' could not get what another host's process holds, while "
                        "this one was in %s",
                        peers->engine, own(peers)->what[peers->run & 1]);
}

tsr_status tsr__peers_fetched(tsr__peers *peers, tsr__error *error)
{
  bool in_vain = false;
  if (!peers->far) return TSR_OK;
  tsr__far_begin(peers->far);
  int left = tsr__far_left(peers->far, &in_vain);
  for (int turn = 0; left && turn < 2 * HELPS; turn++) {
    tsr__far_help(peers->far);
    if (turn >= HELPS) sched_yield();
    int now = tsr__far_left(peers->far, &in_vain);
    if (now < left) turn = 0;
    left = now;
  }
  tsr__far_end(peers->far);
  tsr_status status = TSR_OK;
  while (left && !in_vain && !status) {
    tsr__far_nap(peers->far, NAP_MS);
    left = tsr__far_left(peers->far, &in_vain);
    if (left) status = fetch_lost(peers, false, error);
  }
  return in_vain && !status ? fetch_lost(peers, true, error) : status;
}

void tsr__peers_later(tsr__peers *peers, void (*call)(void *user), void *user)
{
  TSR_INVARIANT(peers->after_count < LATER);
  peers->after[peers->after_count++] = (later){ call, user };
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void say_numbers(head *me, int at, const int64_t *numbers)
{
  static const int64_t none[TSR__PEERS_NUMBERS];
  if (!numbers) numbers = none;
  if (memcmp(me->numbers[at], numbers, sizeof me->numbers[at]) != 0)
    memcpy(me->numbers[at], numbers, sizeof me->numbers[at]);
}

tsr_status tsr__peers_enter(tsr__peers *peers, const tsr__peers_work *work, tsr__error *error)
{
  (void)error;
  pthread_mutex_lock(&peers->run_lock);
  if (peers->depth++) return TSR_OK;
  head *me = own(peers);
  int at = (int)(++peers->run & 1);
  peers->told = -1;
  peers->meeting = 0;
  peers->compared = false;
  /* Others look at this line while they wait: what stands there already is not written. */
  if (me->fingerprint[at] != work->fingerprint) me->fingerprint[at] = work->fingerprint;
  tsr__peers_say(me->what[at], sizeof me->what[at], work);
  return TSR_OK;
}

/* The sums of what all add. */
static void add_numbers(const tsr__peers *peers, int64_t *numbers)
{
  memset(numbers, 0, sizeof own(peers)->numbers[0]);
  for (int p = 0; p < peers->start.count; p++)
    for (int i = 0; i < TSR__PEERS_NUMBERS; i++)
      numbers[i] += head_of(peers, p)->numbers[peers->run & 1][i];
}

static tsr_status leave_inner(tsr__peers *peers, tsr_status status)
{
  peers->depth--;
  pthread_mutex_unlock(&peers->run_lock);
  return status;
}

/* A process that is gone does not come to the end either: its failure is this one's answer. */
tsr_status tsr__peers_leave_with(tsr__peers *peers, tsr_status status, int64_t *numbers,
                                 tsr__error *error)
{
  if (peers->depth > 1) return leave_inner(peers, status);
  tsr__error why = { .status = TSR_OK };
  if (status) say_failure(peers, error);
  say_numbers(own(peers), (int)(peers->run & 1), numbers);
  let_go(peers);
  tsr_status end = meet(peers, END, &why);
  call_later(peers);
  if (!end && !status && !peers->compared) end = compare(peers, &why);
  for (int p = 0; p < peers->start.count && !end && !status; p++)
    if (has_failed(peers, p, &why)) end = why.status;
  if (!end && !status && numbers) add_numbers(peers, numbers);
  peers->depth = 0;
  pthread_mutex_unlock(&peers->run_lock);
  if (status || !end) return status;
  *error = why;
  return end;
}

tsr_status tsr__peers_leave(tsr__peers *peers, tsr_status status, tsr__error *error)
{
  return tsr__peers_leave_with(peers, status, NULL, error);
}

/* Where a note of this process lies that others read until the meeting after the next one. */
static char *note_room(tsr__peers *peers, int at, size_t size)
{
  if (size <= SMALL) return own(peers)->small[at];
  if (size > peers->note_room[at]) {
    tsr__peers_give(peers, peers->note[at], peers->note_room[at]);
    peers->note[at] = tsr__peers_take(peers, 2 * size);
    peers->note_room[at] = peers->note[at] ? 2 * size : 0;
  }
  return peers->note[at];
}

tsr_status tsr__peers_gather(tsr__peers *peers, const void *mine, size_t size, tsr__peers_note *all,
                             tsr__error *error)
{
  head *me = own(peers);
  uint64_t meeting = peers->meeting + 1;
  int at = (int)(meeting & 1);
  char *room = note_room(peers, at, size);
  if (!room) return tsr__error_set(error, TSR_ENOMEM, "no shared memory to meet other processes");
  if (size) memcpy(room, mine, size);
  uint64_t place = tsr__peers_offset(peers, room);
  if (me->note_at[at] != place) me->note_at[at] = place;
  if (me->note_size[at] != size) me->note_size[at] = size;
  tsr_status status = meet_with(peers, meeting, true, error);
  for (int p = 0; p < peers->start.count && !status; p++) {
    const head *of = head_of(peers, p);
    all[p] =
        (tsr__peers_note){ tsr__peers_at(peers, p, of->note_at[at]), (size_t)of->note_size[at] };
    if (peers->all[p].far && all[p].size > INLINE_NOTE) get(peers, p, all[p].data, all[p].size);
  }
  return status ? status : tsr__peers_fetched(peers, error);
}

tsr_status tsr__peers_part(tsr__peers *peers, tsr__error *error)
{
  let_go(peers);
  return meet(peers, peers->meeting + 1, error);
}

/* ---- a runtime's ----------------------------------------------------------------------------- */

static void slot_free(tsr_runtime *rt, void *slot)
{
  (void)rt;
  close_peers(slot);
}

tsr_status tsr__peers_install(tsr_runtime *rt, const tsr__peers_start *start, tsr__error *error)
{
  tsr__peers *peers = NULL;
  tsr_status status = open_peers(&rt->heap, start, &peers, error);
  if (status) return status;
  rt->slots[TSR__SLOT_PEERS] = peers;
  rt->slot_free[TSR__SLOT_PEERS] = slot_free;
  return TSR_OK;
}
