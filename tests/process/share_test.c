/* How processes come to read each other's memory: as many as there may be on large hosts, and none
 * that tells of something else than its memory. Processes are forked here and gather by memory that
 * they share, so that a test can tell what it likes. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "comm/peers.h"
#include "harness.h"

enum { MOST = 64, RECORD = 512 };

/* What processes of a test share. */
typedef struct meeting {
  pthread_barrier_t barrier;
  char records[MOST][RECORD];
} meeting;

/* What a process tells of its memory first, as src/comm/segments.c has it. */
typedef struct greeting {
  int64_t pid, file;
  uint64_t size, host, device, inode;
  uint8_t nonce[16];
} greeting;

typedef struct member {
  meeting *meeting;
  int index, count, gathers;
  void (*lie)(greeting *told); /* of process 1; NULL: it tells the truth */
} member;

static tsr_status gather(void *user, const void *mine, size_t size, void *all, tsr__error *error)
{
  member *m = user;
  (void)error;
  CHECK(size <= RECORD);
  memcpy(m->meeting->records[m->index], mine, size);
  if (!m->gathers++ && m->index == 1 && m->lie) m->lie((void *)m->meeting->records[m->index]);
  pthread_barrier_wait(&m->meeting->barrier);
  for (int p = 0; all && p < m->count; p++)
    memcpy((char *)all + (size_t)p * size, m->meeting->records[p], size);
  pthread_barrier_wait(&m->meeting->barrier);
  return TSR_OK;
}

static meeting *new_meeting(int count)
{
  pthread_barrierattr_t shared;
  meeting *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(m != MAP_FAILED);
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  CHECK(!pthread_barrier_init(&m->barrier, &shared, (unsigned)count));
  return m;
}

/* `count` processes that do `work`; all end well. */
static void run_all(int count, int (*work)(member *m), void (*lie)(greeting *told))
{
  pid_t ids[MOST];
  meeting *all = new_meeting(count);
  for (int i = 0; i < count; i++)
    if (!(ids[i] = fork())) {
      member m = { .meeting = all, .index = i, .count = count, .lie = lie };
      exit(work(&m));
    }
  for (int i = 0; i < count; i++) {
    int status;
    CHECK(waitpid(ids[i], &status, 0) == ids[i]);
    CHECK(WIFEXITED(status));
    CHECK_I64(WEXITSTATUS(status), 0);
  }
  munmap(all, sizeof *all);
}

static tsr_status share(member *m, tsr_runtime *rt, uint64_t memory, tsr__error *error)
{
  const tsr__peers_start start = {
    .index = m->index, .count = m->count, .all_gather = gather, .user = m, .memory = memory
  };
  *error = (tsr__error){ .status = TSR_OK };
  return tsr__peers_install(rt, &start, error);
}

/* ---- many ------------------------------------------------------------------------------------ */

/* Numbers of all, and a block from high up in each segment, by a window that nobody had. */
static void read_each_other(member *m, tsr__peers *peers)
{
  enum { BLOCK = 3 << 20 };
  tsr__error error = { .status = TSR_OK };
  tsr__peers_note notes[MOST];
  void *skipped[40];
  const tsr__peers_work work = { .fingerprint = 1, .what = "a test" };
  /* Addresses alone: nothing of them is touched. */
  for (int i = 0; i < 40; i++)
    CHECK((skipped[i] = tsr__peers_take(peers, (size_t)3 << 32)) != NULL);
  unsigned char *mine = tsr__peers_take(peers, BLOCK);
  CHECK(mine != NULL && tsr__peers_offset(peers, mine) > (uint64_t)100 << 32);
  memset(mine, m->index + 1, BLOCK);
  uint64_t place = tsr__peers_offset(peers, mine);
  CHECK_STATUS(tsr__peers_enter(peers, &work, &error), TSR_OK, NULL);
  CHECK_STATUS(tsr__peers_gather(peers, &place, sizeof place, notes, &error), TSR_OK, NULL);
  for (int p = 0; p < m->count; p++) {
    memcpy(&place, notes[p].data, sizeof place);
    const unsigned char *theirs = tsr__peers_at(peers, p, place, BLOCK);
    CHECK(theirs && theirs[0] == p + 1 && theirs[BLOCK - 1] == p + 1);
  }
  CHECK(!tsr__peers_at(peers, (m->index + 1) % m->count, (uint64_t)1 << 46, 1));
  CHECK_STATUS(tsr__peers_part(peers, &error), TSR_OK, NULL);
  CHECK_STATUS(tsr__peers_leave(peers, TSR_OK, &error), TSR_OK, NULL);
}

static int on_large_hosts(member *m)
{
  tsr__error error;
  tsr_runtime *rt = tsr__runtime_new(NULL);
  if (share(m, rt, (uint64_t)4 << 40, &error)) FAIL("%s", error.text);
  read_each_other(m, tsr__peers_of(rt));
  tsr_runtime_close(rt);
  return 0;
}

/* Hosts of 4 TB: four times of it for each of 64 would be eight times all addresses that there
 * are. */
TEST_TIMEOUT(sixty_four_on_large_hosts, 120)
{
  run_all(MOST, on_large_hosts, NULL);
}

/* ---- strangers ------------------------------------------------------------------------------- */

/* A file of this process's own, for the other one to be shown: what `lie` opened. */
static char written[600];

static void tell_of(greeting *told, int file)
{
  struct stat is;
  CHECK(file >= 0 && !fstat(file, &is));
  told->pid = getpid();
  told->file = file;
  told->device = is.st_dev;
  told->inode = is.st_ino;
}

/* A file on a disk, of the right size and all. */
static void lie_of_a_file(greeting *told)
{
  int file = open(written, O_RDWR | O_CREAT, 0600);
  CHECK(!ftruncate(file, (off_t)told->size));
  tell_of(told, file);
}

/* Memory that its owner could cut short. */
static void lie_of_unsealed_memory(greeting *told)
{
  int file = memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CHECK(!ftruncate(file, (off_t)told->size));
  tell_of(told, file);
}

/* The right kind of memory, and another one. */
static void lie_of_other_memory(greeting *told)
{
  int file = memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CHECK(!ftruncate(file, (off_t)told->size));
  CHECK(!fcntl(file, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW));
  tell_of(told, file);
}

/* What must not be as much as opened: the reader at its other end would see it. */
static void lie_of_a_pipe(greeting *told)
{
  int ends[2];
  CHECK(!pipe(ends));
  tell_of(told, ends[1]);
}

static void lie_of_its_inode(greeting *told)
{
  told->inode++;
}

static void lie_of_its_number(greeting *told)
{
  told->nonce[3] ^= 1;
}

static void lie_of_its_size(greeting *told)
{
  told->size *= 2;
}

static void lie_of_its_process(greeting *told)
{
  told->pid = getppid();
}

static int believes_nothing(member *m)
{
  tsr__error error;
  tsr_runtime *rt = tsr__runtime_new(NULL);
  CHECK(share(m, rt, 0, &error) == TSR_EUNSUPPORTED);
  if (m->index == 0)
    CHECK_STR_HAS(error.text, "process 0 cannot map the device memory of process 1");
  tsr_runtime_close(rt);
  return 0;
}

TEST(what_is_told_is_not_believed)
{
  static void (*const lies[])(greeting * told) = {
    lie_of_a_file,    lie_of_unsealed_memory, lie_of_other_memory, lie_of_a_pipe,
    lie_of_its_inode, lie_of_its_number,      lie_of_its_size,     lie_of_its_process,
  };
  snprintf(written, sizeof written, "%s", test_tmp("file"));
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) run_all(2, believes_nothing, lies[i]);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static int has_a_limit(member *m)
{
  tsr__error error;
  struct rlimit limit = { 1 << 20, 1 << 20 };
  tsr_runtime *rt = tsr__runtime_new(NULL);
  if (m->index == 1) CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
  CHECK(share(m, rt, 0, &error) != TSR_OK);
  if (m->index == 1) CHECK_STR_HAS(error.text, "run ulimit -f unlimited");
  tsr_runtime_close(rt);
  return 0;
}

TEST(a_limit_of_files_is_a_message)
{
  run_all(2, has_a_limit, NULL);
}

/* ---- hosts ----------------------------------------------------------------------------------- */

static int is_elsewhere(member *m)
{
  tsr__error error;
  if (m->index == 1 && unshare(CLONE_NEWPID)) m->index = 2;
  if (m->index == 2) return 0;
  pid_t child = m->index == 1 ? fork() : 0;
  /* No more processes start where the first one ended, and checks of leaks at exit need one. */
  if (child) _exit(waitpid(child, NULL, 0) != child);
  tsr_runtime *rt = tsr__runtime_new(NULL);
  const tsr__peers_start start = { .index = m->index,
                                   .count = m->count,
                                   .all_gather = gather,
                                   .user = m,
                                   .host = "one",
                                   .engine = "local" };
  error = (tsr__error){ .status = TSR_OK };
  CHECK(tsr__peers_install(rt, &start, &error) == TSR_EUNSUPPORTED);
  CHECK_STR_HAS(error.text, "processes are on 2 hosts");
  tsr_runtime_close(rt);
  return 0;
}

/* A name makes no host of two: with numbers of their own they cannot find each other's files. */
TEST(one_name_in_two_namespaces)
{
  pid_t trial = fork();
  int status;
  if (!trial) _exit(unshare(CLONE_NEWPID) ? 1 : 0);
  CHECK(waitpid(trial, &status, 0) == trial);
  if (status) SKIP("no namespace of process numbers may be made here");
  run_all(2, is_elsewhere, NULL);
}
