/* Segments of memory that processes read of each other, mirrors of those of other hosts, and the
 * blocks of one's own.
 *
 * Invariant: addresses are never given back, only pages are: what others read has no end while
 * they may. */
#include "comm/peers_room.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
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
           calls && !calls->shrinks ? "; if one fails the others cannot go on as fewer" : "");
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
  char engine[TSR__ENGINE_NAME];
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
  segment *to = &peers->all[process];
  to->base = base;
  to->size = (size_t)from->size;
  to->front = base;
  to->pid = from->pid;
  return TSR_OK;
}

/* Of another host's process, addresses, to be filled by fetches. */
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
  segment *to = &peers->all[process];
  to->base = base;
  to->size = (size_t)from->size;
  to->pid = from->pid;
  to->far = true;
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
                          "processes are on %d hosts, and the engine 'local', which .engine or "
                          "TSR_ENGINE names, is for one; say \"ucx\"",
                          peers->hosts);
  tsr_status status = tsr__engine_load(peers->engine, &peers->calls, error);
  if (status || peers->calls->shrinks || !peers->start.shrinks) return status;
  return tsr__error_set(error, TSR_EUNSUPPORTED,
                        "processes that the engine '%s' connects cannot go on as fewer, which "
                        ".on_failure or TSR_ON_FAILURE \"shrink\" asks for; say \"error\", or the "
                        "engine \"ucx\"",
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

/* Tells all how it went here, and hears whether it went so everywhere. */
static tsr_status agree_on(const tsr__peers *peers, tsr_status status, tsr__error *error)
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

/* All load the engine, then open it, tell each other where, and make each other reachable. Who
 * fails tells that, too: an engine may wait for all when it is opened. */
static tsr_status meet_hosts(tsr__peers *peers, tsr_status status, tsr__error *error)
{
  const tsr__peers_start *start = &peers->start;
  size_t bytes = (size_t)(start->count + 1) * sizeof(calling_card);
  calling_card *all = tsr__new(peers->heap, bytes);
  if (!all) return tsr__error_set(error, TSR_ENOMEM, "no memory for %d processes", start->count);
  calling_card *mine = &all[start->count];
  if (!status) status = load_engine(peers, error);
  status = agree_on(peers, status, error);
  if (status) {
    tsr__del(peers->heap, all, bytes);
    return status;
  }
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

/* In a leader's segment, behind its own head, there is a place for each other one. */
static size_t front_at(int process)
{
  return (size_t)(process + 1) * ((sizeof(head) + PAGE - 1) / PAGE * PAGE);
}

/* Whose word counts for each process's host, and where that of other hosts' is seen here. */
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
  if (!status) find_fronts(peers, all);
  peers->spins = peers->sharing <= tsr__core_count() ? SPINS : 0;
  tsr__del(peers->heap, all, bytes);
  return peers->hosts > 1 ? meet_hosts(peers, status, error) : status;
}

/* What this process said last may be what others wait for. */
static void flush(const tsr__peers *peers)
{
  tsr__error why = { .status = TSR_OK };
  for (int p = 0; peers->far && leads(peers) && p < peers->start.count; p++)
    for (int ms = 0; peers->all[p].far && peers->all[p].leader == p && ms < FLUSH_MS;
         ms += NAP_MS) {
      if (tsr__far_flushed(peers->far, p) || tsr__peers_gone(peers, p, &why)) break;
      tsr__peers_nap(own(peers), atomic_load(&own(peers)->bell));
    }
}

static void close_peers(tsr__peers *peers)
{
  if (!peers) return;
  const tsr__peers_start *start = &peers->start;
  flush(peers);
  tsr__error why = { .status = TSR_OK };
  bool broken = peers->far && start->gone && start->gone(start->user, start->index, &why);
  tsr__far_close(peers->far, broken);
  for (int p = 0; peers->all && p < peers->start.count; p++)
    if (peers->all[p].base) munmap(peers->all[p].base, peers->all[p].size);
  tsr__del(peers->heap, peers->mirrored, peers->mirrored_room * sizeof *peers->mirrored);
  if (peers->all) tsr__del(peers->heap, peers->all, (size_t)start->count * sizeof(segment));
  if (peers->told_word)
    tsr__del(peers->heap, peers->told_word, (size_t)start->count * sizeof(uint64_t));
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
  peers->used = front_at(start->count);
  pthread_mutexattr_t again;
  pthread_mutexattr_init(&again);
  pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&peers->lock, NULL);
  pthread_mutex_init(&peers->run_lock, &again);
  pthread_mutexattr_destroy(&again);
  peers->all = tsr__new(heap, (size_t)start->count * sizeof *peers->all);
  peers->file = memfd_create("tessera", MFD_CLOEXEC);
  tsr_status status = TSR_OK;
  peers->told_word = tsr__new(heap, (size_t)start->count * sizeof(uint64_t));
  if (!peers->all || !peers->told_word || peers->file < 0)
    status = tsr__error_set(error, TSR_ENOMEM, "no shared memory for devices");
  /* Agreed on once more, so that nobody ends before others have its segment. */
  if (!status) status = agree_on(peers, map_all(peers, error), error);
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
