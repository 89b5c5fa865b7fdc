/* Segments of memory that processes read of each other, mirrors of those of other hosts, and the
 * blocks of one's own.
 *
 * Invariant: addresses are never given back, only pages are: what others read has no end while
 * they may. So a process has four times the machine's memory of its own in addresses. Of others it
 * has windows, which are opened by need: all of all would be more than there are addresses.
 *
 *   | head | far heads, of a leader | blocks: taken from the left ... `used` | never touched |
 *   0      front_at(0)              front_at(count)                                          size
 *
 *   greeting    by the coordinator: who is where, on which host          -> segments, mirrors
 *   agreement   all could load the engine                                (several hosts only)
 *   card        by the coordinator: the engine's addresses               -> connections
 *   agreement   all have mapped all
 *
 * The file has no name: who may open /proc/PID/fd of its owner may map it, so the system's own
 * rule on who may look into a process guards the memory, and nothing is left behind by one that
 * is killed. A mapping keeps the memory alive after its owner has ended.
 *
 * What a greeting says is not believed: a file is mapped once the system says that it is memory of
 * this user which nobody can cut short, the very one that was told, and once it holds the random
 * number that its owner told (open_theirs). */
#include "comm/peers_room.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

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

void tsr__peers_describe(const tsr__peers *peers, char *out, size_t size)
{
  char on[TSR__PLUGIN_WHY] = "";
  const tsr__plugin_calls *calls = peers->calls;
  if (calls && calls->describe) calls->describe(on);
  snprintf(out, size, "engine %s%s%s%s: %d processes on %d host%s%s",
           peers->hosts > 1 ? peers->engine : "local", *on ? " (" : "", on, *on ? ")" : "",
           peers->start.count, peers->hosts, peers->hosts > 1 ? "s" : "",
           calls && !calls->shrinks ? "; if one process fails, the others cannot go on" : "");
}

/* ---- segments -------------------------------------------------------------------------------- */

/* Four times the machine's memory: addresses are never given back, only pages are.
 * Doubled from 64 GiB until it is enough, so that like machines come to the same size. The file
 * is sparse and the mapping reserves nothing: it costs addresses and no memory. */
static size_t segment_size(const tsr__peers_start *start)
{
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  size_t size = (size_t)1 << 36;
  size_t most = pages > 0 && page > 0 ? 4 * (size_t)pages * (size_t)page : 0;
  if (start->memory) most = 4 * (size_t)start->memory;
  while (size < most) size *= 2;
  return size;
}

enum { NONCE = sizeof(((head *)0)->nonce) };
/* Its size stays, so that nobody who maps it is ended by its owner's cutting it. */
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)

/* What processes tell each other first: where a segment is to be found, and how it is known. */
typedef struct greeting {
  int64_t pid, file;
  uint64_t size, host;
  uint64_t device, inode; /* of the file */
  uint8_t nonce[NONCE];   /* what its first head holds */
  uint64_t cores;         /* which ones it may use: a hash */
  char engine[TSR__ENGINE_NAME];
} greeting;

/* Processes that are bound to the same cores share them, others do not: what differs in the set
 * differs in the hash. Sets that overlap in part count as different. */
static uint64_t own_cores(void)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  (void)sched_getaffinity(0, sizeof set, &set);
  return tsr__hash(&set, sizeof set, 0);
}

/* Processes can open each other's files where they have the same kernel and the same numbers.
 * The boot's id tells kernels apart, whatever hosts are called; the namespace of process numbers
 * tells containers on one kernel apart, in which /proc/PID is somebody else. Both are the kernel's
 * word; a host that is named can only be told apart from others by it, so that one machine can
 * stand for several. */
static tsr_status host_of(const tsr__peers_start *start, uint64_t *out, tsr__error *error)
{
  char text[256] = "", why[128];
  int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  ssize_t got = file >= 0 ? read(file, text, 64) : -1;
  ssize_t more = got > 0 ? readlink("/proc/self/ns/pid", text + got, 64) : -1;
  int reason = errno;
  if (file >= 0) close(file);
  if (more <= 0)
    return tsr__error_set(error, TSR_EIO, "process %d cannot identify its host by /proc: %s",
                          start->index, tsr__sys_text(reason, why, sizeof why));
  uint64_t kernel = tsr__hash(text, (size_t)(got + more), 0);
  const char *name = start->host ? start->host : "";
  *out = tsr__hash(name, strlen(name), kernel);
  return TSR_OK;
}

/* ---- a segment's file ------------------------------------------------------------------------ */

/* A size beyond the limit of files would end the process by a signal. */
static tsr_status check_limit(size_t size, tsr__error *error)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= size)
    return TSR_OK;
  return tsr__error_set(error, TSR_ENOMEM,
                        "no shared memory for devices: the memory is a file without a name, of %zu "
                        "MiB, but files may have only %llu KiB; run ulimit -f unlimited",
                        size >> 20, (unsigned long long)limit.rlim_cur >> 10);
}

/* Gives this process's file its size and its number, and tells how others know it. */
static tsr_status make_file(int file, greeting *mine, tsr__error *error)
{
  struct stat is;
  char why[128];
  if (check_limit(mine->size, error)) return error->status;
  /* Without random numbers the others have the system's word alone. */
  if (getentropy(mine->nonce, sizeof mine->nonce)) memset(mine->nonce, 0, sizeof mine->nonce);
  if (ftruncate(file, (off_t)mine->size) || fstat(file, &is) ||
      pwrite(file, mine->nonce, NONCE, offsetof(head, nonce)) != NONCE ||
      fcntl(file, F_ADD_SEALS, SEALS))
    return tsr__error_set(error, TSR_ENOMEM, "no shared memory for devices: %s",
                          tsr__sys_text(errno, why, sizeof why));
  mine->device = is.st_dev;
  mine->inode = is.st_ino;
  return TSR_OK;
}

/* Why what was opened is not the memory that a greeting told of; NULL: it is. `path` stands for the
 * file, of which nothing was opened yet: what it is, is asked before it is. */
static const char *differs(int path, const greeting *from)
{
  struct stat is;
  if (fstat(path, &is)) return "the memory no longer exists";
  if (!S_ISREG(is.st_mode)) return "the file is not memory";
  if (is.st_uid != geteuid()) return "the memory belongs to another user";
  if (is.st_dev != from->device || is.st_ino != from->inode) return "the file is another one";
  return (uint64_t)is.st_size == from->size ? NULL : "the memory has another size";
}

static const char *is_no_memory(int file, const greeting *from)
{
  uint8_t nonce[NONCE];
  int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & SEALS) != SEALS) return "the memory could change its size";
  bool same = pread(file, nonce, NONCE, offsetof(head, nonce)) == NONCE &&
              !memcmp(nonce, from->nonce, NONCE);
  return same ? NULL : "the memory does not hold the expected number";
}

/* Another process's file, to be read and written; -1 with the error. Who told where it lies may
 * have told of anything that this user can open, so nothing is opened before it was looked at. */
static int open_theirs(const tsr__peers *peers, int process, const greeting *from,
                       tsr__error *error)
{
  char path[64], reason[128];
  snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)from->pid, (long long)from->file);
  int place = open(path, O_PATH | O_CLOEXEC), file = -1;
  const char *why = place < 0 ? tsr__sys_text(errno, reason, sizeof reason) : differs(place, from);
  if (!why) {
    snprintf(path, sizeof path, "/proc/self/fd/%d", place);
    file = open(path, O_RDWR | O_CLOEXEC);
    why = file < 0 ? tsr__sys_text(errno, reason, sizeof reason) : is_no_memory(file, from);
  }
  if (place >= 0) close(place);
  if (!why) return file;
  if (file >= 0) close(file);
  tsr__error_set(error, TSR_EUNSUPPORTED,
                 "process %d cannot map the device memory of process %d (pid %lld): %s; run both "
                 "on one host as one user",
                 peers->start.index, process, (long long)from->pid, why);
  return -1;
}

/* In a leader's segment, behind its own head, there is a place for each other one.
 * Pages each, so that no two heads share one. All processes leave the same room free, leaders or
 * not: `used` begins behind it, and which of them leads is known later. */
static size_t front_at(int process)
{
  return (size_t)(process + 1) * ((sizeof(head) + PAGE - 1) / PAGE * PAGE);
}

/* Out of core dumps: a dump reads all of a shared mapping, also what was never touched and what
 * others hold, and each process that ends would write several times the machine's memory. */
static void leave_out(void *base, size_t size)
{
  (void)madvise(base, size, MADV_DONTDUMP);
}

/* ---- windows --------------------------------------------------------------------------------- */

/* A thousandth of a segment, so that there are never many; whole, so that what lies together is
 * mapped together. */
static uint64_t window_bytes(const segment *of)
{
  uint64_t part = of->size >> 10, least = (uint64_t)1 << 30;
  return part > least ? part : least;
}

/* Of this host the memory itself, to write as well as to read: who sleeps for a process counts
 * itself in that one's head. Of another host's process addresses, to be filled by fetches: private
 * and without a file, as each process fetches for itself what it reads. */
static const window *open_window(tsr__heap *heap, segment *of, uint64_t offset, size_t bytes)
{
  uint64_t unit = window_bytes(of), from = offset / unit * unit;
  uint64_t end = (offset + bytes + unit - 1) / unit * unit;
  if (end > of->size) end = of->size;
  if (!tsr__grow(heap, (void **)&of->windows, &of->window_room, of->window_count + 1,
                 sizeof *of->windows))
    return NULL;
  int flags = MAP_NORESERVE | (of->far ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
  void *base = mmap(NULL, (size_t)(end - from), PROT_READ | PROT_WRITE, flags, of->file,
                    of->far ? 0 : (off_t)from);
  if (base == MAP_FAILED) return NULL;
  leave_out(base, (size_t)(end - from));
  of->windows[of->window_count] = (window){ from, (size_t)(end - from), base };
  return &of->windows[of->window_count++];
}

/* The newest first: what is looked at now was mostly made a while ago, but next to what was. */
static const window *find_window(const segment *of, uint64_t offset, size_t bytes)
{
  for (size_t i = of->window_count; i-- > 0;) {
    const window *w = &of->windows[i];
    if (offset >= w->offset && offset - w->offset <= w->bytes &&
        bytes <= w->bytes - (size_t)(offset - w->offset))
      return w;
  }
  return NULL;
}

const window *tsr__window_of(const segment *of, const void *at)
{
  for (size_t i = 0; i < of->window_count; i++) {
    const window *w = &of->windows[i];
    if ((uintptr_t)at >= (uintptr_t)w->base && (uintptr_t)at < (uintptr_t)w->base + w->bytes)
      return w;
  }
  return NULL;
}

static void close_windows(tsr__heap *heap, segment *of)
{
  for (size_t i = 0; i < of->window_count; i++) munmap(of->windows[i].base, of->windows[i].bytes);
  tsr__del(heap, of->windows, of->window_room * sizeof *of->windows);
  if (of->file >= 0) close(of->file);
}

/* Of this host's others the first window, which has their heads; its own it maps whole, by the file
 * that it has. Of other hosts' processes nothing yet: their fronts lie where this host's leader
 * puts them. */
static tsr_status map_segment(tsr__peers *peers, int process, const greeting *from, bool far,
                              tsr__error *error)
{
  char why[128];
  segment *to = &peers->all[process];
  bool mine = process == peers->start.index;
  to->size = (size_t)from->size;
  to->pid = from->pid;
  to->far = far;
  if (far) return TSR_OK;
  if (!mine) to->file = open_theirs(peers, process, from, error);
  if (!mine && to->file < 0) return error->status;
  const window *first = NULL;
  void *base = MAP_FAILED;
  if (mine)
    base = mmap(NULL, to->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, peers->file, 0);
  else if ((first = open_window(peers->heap, to, 0, front_at(peers->start.count))))
    base = first->base;
  if (base == MAP_FAILED)
    return tsr__error_set(
        error, TSR_ENOMEM,
        "no %zu MiB of addresses for the device memory of process %d: %s; is there "
        "a limit (ulimit -v)?",
        (size_t)(mine ? to->size : window_bytes(to)) >> 20, process,
        tsr__sys_text(errno, why, sizeof why));
  if (mine) leave_out(base, to->size);
  to->base = base;
  to->front = base;
  return TSR_OK;
}

/* ---- other hosts ----------------------------------------------------------------------------- */

/* What follows once it is known that there are several hosts. */
typedef struct calling_card {
  int64_t failed;
  tsr__plugin_address address;
} calling_card;

static tsr_status load_engine(tsr__peers *peers, tsr__error *error)
{
  if (!strcmp(peers->engine, "local"))
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "the processes are on %d hosts, but the engine 'local' of .engine or "
                          "TSR_ENGINE is for one host; set \"ucx\"",
                          peers->hosts);
  tsr_status status = tsr__engine_load(peers->engine, &peers->calls, error);
  if (status || peers->calls->shrinks || !peers->start.shrinks) return status;
  return tsr__error_set(
      error, TSR_EUNSUPPORTED,
      "processes connected by the engine '%s' cannot go on after a failure, as .on_failure or "
      "TSR_ON_FAILURE \"shrink\" demands; set \"error\", or the engine \"ucx\"",
      peers->engine);
}

static tsr_status open_engine(tsr__peers *peers, calling_card *out, tsr__error *error)
{
  const segment *own = &peers->all[peers->start.index];
  const tsr__far_ask ask = { .heap = peers->heap,
                             .calls = peers->calls,
                             .engine = peers->engine,
                             .host = { .index = peers->start.index,
                                       .count = peers->start.count,
                                       .memory = own->base,
                                       .size = own->size,
                                       .user = peers,
                                       .note = tsr__peers_take_word } };
  return tsr__far_open(&ask, &peers->far, &out->address, error);
}

/* Tells all how it went here, and hears whether it went so everywhere.
 * Each step that can fail on one process alone ends in one of these, so that all give up
 * together and nobody waits for who has. Its own error stays its own; others name the first
 * process by index. */
static tsr_status agree_on(tsr__heap *heap, const tsr__peers_start *start, tsr_status status,
                           tsr__error *error)
{
  size_t bytes = (size_t)start->count * sizeof(int);
  int *all = tsr__new(heap, bytes), mine;
  if (!all && !status) status = tsr__error_set(error, TSR_ENOMEM, "no memory for processes");
  mine = (int)status;
  tsr_status told = start->all_gather(start->user, &mine, sizeof mine, all, status ? NULL : error);
  if (!status) status = told;
  for (int p = 0; p < start->count && !status; p++)
    if (all[p])
      status = tsr__error_set(error, TSR_EUNSUPPORTED,
                              "process %d could not share device memory: see its message", p);
  tsr__del(heap, all, bytes);
  return status;
}

/* All load the engine, then open it, tell each other where, and make each other reachable. Who
 * fails tells that, too: an engine may wait for all when it is opened.
 * The one place behind those of all processes is this one's own card, from which it is gathered.
 * The thread starts last, once every process can be reached. */
static tsr_status meet_hosts(tsr__peers *peers, tsr_status status, tsr__error *error)
{
  const tsr__peers_start *start = &peers->start;
  size_t bytes = (size_t)(start->count + 1) * sizeof(calling_card);
  calling_card *all = tsr__new(peers->heap, bytes);
  if (!all && !status)
    status = tsr__error_set(error, TSR_ENOMEM, "no memory for %d processes", start->count);
  if (!status) status = load_engine(peers, error);
  status = agree_on(peers->heap, start, status, error);
  if (status) {
    tsr__del(peers->heap, all, bytes);
    return status;
  }
  calling_card *mine = &all[start->count];
  status = open_engine(peers, mine, error);
  mine->failed = status != TSR_OK;
  tsr_status told = start->all_gather(start->user, mine, sizeof *mine, all, status ? NULL : error);
  if (!status) status = told;
  for (int p = 0; p < start->count && !status; p++)
    if (peers->all[p].far && !all[p].failed)
      status = tsr__far_connect(peers->far, p, &all[p].address, error);
  tsr__del(peers->heap, all, bytes);
  return status ? status : tsr__far_start(peers->far, error);
}

/* Whose word counts for each process's host, and where that of other hosts' is seen here.
 * The first process of a host leads it: all find the same one without asking. A far process's
 * front lies in this host's leader's segment, which is mapped by now, and not in its mirror. */
static void find_fronts(tsr__peers *peers, const greeting *all)
{
  int count = peers->start.count, me = peers->start.index;
  for (int p = 0; p < count; p++) {
    int leader = 0;
    while (all[leader].host != all[p].host) leader++;
    peers->all[p].leader = leader;
  }
  for (int p = 0; p < count; p++)
    if (peers->all[p].far)
      peers->all[p].front = (head *)(void *)(peers->all[peers->all[me].leader].base + front_at(p));
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

/* Size 0 is how one says that it failed before. */
static tsr_status check_greeting(const tsr__peers *peers, int process, const greeting *from,
                                 tsr__error *error)
{
  if (!from->size)
    return tsr__error_set(error, TSR_EUNSUPPORTED, "process %d has no memory to share", process);
  if (strncmp(from->engine, peers->engine, sizeof peers->engine))
    return tsr__error_set(error, TSR_EARG,
                          "process %d was told to use the engine '%.31s', but this process '%s'; "
                          "set .engine or TSR_ENGINE the same in all processes",
                          process, from->engine, peers->engine);
  return TSR_OK;
}

/* One that has no memory to share says so by a size of 0: then all leave out what hosts agree on,
 * and so does it, which may not know of the others. */
static bool can_meet_hosts(const tsr__peers *peers, const greeting *all)
{
  for (int p = 0; p < peers->start.count; p++)
    if (!all[p].size) return false;
  return peers->hosts > 1;
}

/* Where the greeting itself failed it failed for all, as every meeting does. */
static tsr_status map_all(tsr__peers *peers, tsr__error *error)
{
  const tsr__peers_start *start = &peers->start;
  size_t bytes = (size_t)start->count * sizeof(greeting);
  greeting mine = {
    .pid = getpid(), .file = peers->file, .size = segment_size(start), .cores = own_cores()
  };
  snprintf(mine.engine, sizeof mine.engine, "%s", peers->engine);
  greeting *all = tsr__new(peers->heap, bytes);
  tsr_status status = TSR_OK;
  if (!all) status = tsr__error_set(error, TSR_ENOMEM, "no memory for %d processes", start->count);
  if (!status) status = host_of(start, &mine.host, error);
  if (!status) status = make_file(peers->file, &mine, error);
  /* Each tells even where it failed, so that nobody waits for it. */
  if (status) mine.size = 0;
  tsr_status told = start->all_gather(start->user, &mine, sizeof mine, all, status ? NULL : error);
  if (!status) status = told;
  peers->hosts = told || !all ? 1 : count_hosts(all, start->count);
  for (int p = 0; p < start->count && !status; p++) {
    status = check_greeting(peers, p, &all[p], error);
    if (!status) status = map_segment(peers, p, &all[p], all[p].host != mine.host, error);
    peers->sharing += all[p].host == mine.host && all[p].cores == mine.cores;
  }
  if (!status) find_fronts(peers, all);
  bool meets = !told && all && can_meet_hosts(peers, all);
  peers->patience = 1;
  peers->spins = peers->sharing <= tsr__core_count() ? SPINS : 0;
  tsr__del(peers->heap, all, bytes);
  return meets ? meet_hosts(peers, status, error) : status;
}

/* What this process said last may be what others wait for.
 * A leader that goes has told its last END to the engine, which may hold it still; the other
 * hosts would wait for a word that never comes. What is out, or can never be, is not waited for. */
static void flush(const tsr__peers *peers)
{
  if (peers->pid != getpid()) return; /* a child of fork speaks for nobody */
  tsr__error why = { .status = TSR_OK };
  for (int p = 0; peers->far && leads(peers) && p < peers->start.count; p++)
    for (int ms = 0; peers->all[p].far && peers->all[p].leader == p && ms < FLUSH_MS;
         ms += NAP_MS) {
      if (tsr__far_flushed(peers->far, p) || tsr__peers_gone(peers, p, &why)) break;
      tsr__peers_nap(own(peers), atomic_load(&own(peers)->bell));
    }
}

/* The engine goes before the memory: its thread answers gets from this segment, and what comes
 * is written into the others' heads and mirrors. `broken` tells an engine of MPI that not all
 * will take part in its end. The process's own memory stays. */
static void leave_peers(tsr__peers *peers)
{
  if (peers->left) return;
  const tsr__peers_start *start = &peers->start;
  flush(peers);
  tsr__error why = { .status = TSR_OK };
  bool broken = peers->far && start->gone && start->gone(start->user, start->index, &why);
  tsr__far_close(peers->far, broken);
  for (int p = 0; peers->all && p < start->count; p++)
    if (p != start->index) close_windows(peers->heap, &peers->all[p]);
  peers->far = NULL;
  peers->left = true;
}

/* Blocks are not given back one by one: they go with the mapping. */
static void close_peers(tsr__peers *peers)
{
  if (!peers) return;
  leave_peers(peers);
  const segment *own = peers->all ? &peers->all[peers->start.index] : NULL;
  if (own && own->base) munmap(own->base, own->size);
  tsr__del(peers->heap, peers->mirrored, peers->mirrored_room * sizeof *peers->mirrored);
  if (peers->all) tsr__del(peers->heap, peers->all, (size_t)peers->start.count * sizeof(segment));
  if (peers->told_word)
    tsr__del(peers->heap, peers->told_word, (size_t)peers->start.count * sizeof(uint64_t));
  if (peers->file >= 0) close(peers->file);
  pthread_mutex_destroy(&peers->lock);
  pthread_mutex_destroy(&peers->run_lock);
  tsr__del(peers->heap, peers, sizeof *peers);
}

/* Without memory for anything the others are told so where they wait for this one: at the greeting
 * and at the last agreement, as there is no other then. */
static tsr_status decline(tsr__heap *heap, const tsr__peers_start *start, tsr__error *error)
{
  const greeting none = { .size = 0 };
  tsr__error_set(error, TSR_ENOMEM, "no memory to share with other processes");
  (void)start->all_gather(start->user, &none, sizeof none, NULL, NULL);
  return agree_on(heap, start, TSR_ENOMEM, error);
}

static tsr_status open_peers(tsr__heap *heap, const tsr__peers_start *start, tsr__peers **out,
                             tsr__error *error)
{
  tsr__peers *peers = tsr__new(heap, sizeof *peers);
  if (!peers) return decline(heap, start, error);
  peers->heap = heap;
  peers->start = *start;
  peers->pid = getpid();
  snprintf(peers->engine, sizeof peers->engine, "%s",
           start->engine && *start->engine ? start->engine : "ucx");
  peers->used = front_at(start->count);
  pthread_mutexattr_t again;
  pthread_mutexattr_init(&again);
  pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&peers->lock, NULL);
  pthread_mutex_init(&peers->run_lock, &again);
  pthread_mutexattr_destroy(&again);
  peers->all = tsr__new(heap, (size_t)start->count * sizeof *peers->all);
  for (int p = 0; peers->all && p < start->count; p++) peers->all[p].file = -1;
  peers->file = memfd_create("tessera", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  tsr_status status = TSR_OK;
  peers->told_word = tsr__new(heap, (size_t)start->count * sizeof(uint64_t));
  if (!peers->all || !peers->told_word || peers->file < 0) status = decline(heap, start, error);
  /* Agreed on once more, so that nobody ends before others have its segment. */
  else status = agree_on(heap, start, map_all(peers, error), error);
  if (status) close_peers(peers);
  else *out = peers;
  return status;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Fork leaves a child the memory that all share, and not a copy as of any other. So where the child
 * is about to write, to free lists, too, its segment is mapped anew at its place, to be copied page
 * by page as it is written. Arrays stay readable there. Where that cannot be had, and of other
 * processes' segments, writing is made impossible: it may end the child, but not what its parent
 * has. */
void tsr__peers_own(void *user)
{
  tsr__peers *peers = user;
  if (peers->apart || peers->pid == getpid()) return;
  peers->apart = true;
  for (int p = 0; p < peers->start.count; p++) {
    const segment *of = &peers->all[p];
    if (of->far) continue; /* mirrors are copied as it is */
    for (size_t i = 0; i < of->window_count; i++)
      mprotect(of->windows[i].base, of->windows[i].bytes, PROT_READ);
  }
  const segment *own = &peers->all[peers->start.index];
  if (!own->base) return;
  if (mmap(own->base, own->size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_NORESERVE,
           peers->file, 0) == MAP_FAILED)
    mprotect(own->base, own->size, PROT_READ);
  else leave_out(own->base, own->size);
}

/* Whole lines, or whole pages of what is a page or more: so pages that go back are no other
 * block's. One line of nothing, as a free block holds a link. */
static size_t rounded(size_t bytes)
{
  size_t unit = bytes >= PAGE ? PAGE : 64;
  if (!bytes) return unit;
  return (bytes + unit - 1) / unit * unit;
}

/* The list of free blocks of a size; NULL where there are too many sizes for one of its own.
 * Looked through in turn: pools above ask for few sizes and seldom. A block whose size has no
 * list is not taken again: its addresses are lost, and its pages go back where it is large. */
static free_list *list_of(tsr__peers *peers, size_t size)
{
  for (int i = 0; i < peers->sizes; i++)
    if (peers->free[i].size == size) return &peers->free[i];
  if (peers->sizes == SIZES) return NULL;
  peers->free[peers->sizes].size = size;
  return &peers->free[peers->sizes++];
}

/* A free block keeps the next one's address in its own first bytes. They mean something in this
 * process alone, as others have the segment elsewhere; nobody else follows them. */
void *tsr__peers_take(void *user, size_t bytes)
{
  tsr__peers *peers = user;
  size_t size = rounded(bytes);
  void *block = NULL;
  tsr__peers_own(peers);
  if (bytes > peers->all[peers->start.index].size) return NULL; /* what is rounded may be less */
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
 * keeps them known to its network must see it.
 * MADV_REMOVE and not MADV_DONTNEED: of shared memory the latter drops this process's view and
 * keeps the pages. Small blocks keep theirs, which the next one wants at once. The first page
 * comes back by the link that is written into it. */
void tsr__peers_give(void *user, void *block, size_t bytes)
{
  tsr__peers *peers = user;
  size_t size = rounded(bytes);
  if (!block) return;
  tsr__peers_own(peers);
  /* Of a child's copy it would be refused. */
  if (size >= 16 * PAGE && !peers->apart) madvise(block, size, MADV_REMOVE);
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

/* Processes tell each other offsets and never addresses: each maps a segment where its system
 * likes. */
uint64_t tsr__peers_offset(const tsr__peers *peers, const void *at)
{
  return (uint64_t)((const char *)at - peers->all[peers->start.index].base);
}

void *tsr__peers_at(tsr__peers *peers, int process, uint64_t offset, size_t bytes)
{
  segment *of = &peers->all[process];
  if (offset > of->size || bytes > of->size - offset) return NULL;
  if (process == peers->start.index) return of->base + offset;
  pthread_mutex_lock(&peers->lock);
  const window *w = find_window(of, offset, bytes);
  if (!w) w = open_window(peers->heap, of, offset, bytes);
  void *at = w ? w->base + (size_t)(offset - w->offset) : NULL;
  pthread_mutex_unlock(&peers->lock);
  return at;
}

/* ---- a runtime's ----------------------------------------------------------------------------- */

static void slot_free(tsr_runtime *rt, void *slot)
{
  (void)rt;
  close_peers(slot);
}

static void slot_leave(tsr_runtime *rt, void *slot)
{
  (void)rt;
  leave_peers(slot);
}

tsr_status tsr__peers_install(tsr_runtime *rt, const tsr__peers_start *start, tsr__error *error)
{
  tsr__peers *peers = NULL;
  tsr_status status = open_peers(&rt->heap, start, &peers, error);
  if (status) return status;
  rt->slots[TSR__SLOT_PEERS] = peers;
  rt->slot_free[TSR__SLOT_PEERS] = slot_free;
  rt->slot_leave[TSR__SLOT_PEERS] = slot_leave;
  return TSR_OK;
}
