/* One of four processes is killed or stopped at any moment of a collective, a sort, a group, a join
 * a step of training or a save, which all repeat: what came before was right in every bit, every
 * survivor gets an error that names the victim, and nobody hangs. The newest step that was saved is
 * whole. TEST_KILLS says how many runs there are of
 * each work (1; `make torture`
 * has more), TEST_HOSTS on how many hosts they are, between which an engine moves bytes. With
 * TEST_MPI=openmpi or mpich the launcher of that MPI starts them, as of two hosts, and its engine
 * moves bytes: the program is then this test itself, by KILL_RUN. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/among.h"
#include "support/process_fixture.h"
#include "support/tool_fixture.h"

enum { COUNT = 4, DEVICES = 2, ROWS = 64, COLUMNS = 16, CELLS = ROWS * COLUMNS, STALL = 4 };

typedef enum work {
  PSUM,
  GATHER,
  SCATTER,
  ALL_TO_ALL,
  PERMUTE,
  SORT,
  GROUP,
  JOIN,
  STEP,
  SAVE,
  WORKS
} work;

static const char *const names[WORKS] = { "psum",     "all_gather", "psum_scatter", "all_to_all",
                                          "ppermute", "sort",       "group",        "join",
                                          "step",     "save" };

/* ---- what is done ---------------------------------------------------------------------------- */

static tsr_array *body(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  switch (*(work *)user) {
  case PSUM: return tsr_psum(in[0], "x");
  case GATHER: return tsr_all_gather(in[0], "x", .tiled = true);
  case SCATTER: return tsr_psum_scatter(in[0], "x", .dim = 1, .tiled = true);
  case ALL_TO_ALL: return tsr_all_to_all(in[0], "x", .split = 1, .tiled = true);
  default: return tsr_ppermute(in[0], "x", { 0, 1 }, { 1, 2 }, { 2, 5 }, { 5, 7 }, { 7, 0 });
  }
}

/* The rows of a frame whose keys repeat, grouped or joined with others. */
static tsr_array *rows(tsr_scope *s, const tsr_mesh *mesh, work w)
{
  int64_t keys[CELLS], other[8];
  double values[CELLS], weights[8];
  for (int i = 0; i < CELLS; i++) {
    keys[i] = i * 37 % 11;
    values[i] = i * 7919 % 1009;
  }
  for (int i = 0; i < 8; i++) {
    other[i] = i + 1;
    weights[i] = i * 3;
  }
  tsr_sharding on = tsr_on(mesh, "x");
  tsr_frame *df = tsr_frame_new(s, { "k", tsr_put(s, keys, TSR_I64, TSR_SHAPE(CELLS), on) },
                                { "v", tsr_put(s, values, TSR_F64, TSR_SHAPE(CELLS), on) });
  tsr_frame *right = tsr_frame_new(s, { "k", tsr_put(s, other, TSR_I64, TSR_SHAPE(8), on) },
                                   { "w", tsr_put(s, weights, TSR_F64, TSR_SHAPE(8), on) });
  df = w == GROUP ? tsr_frame_group_agg(df, "k", "v = sum(v)")
                  : tsr_frame_assign(tsr_frame_join(df, right, "k"), "v", "v * w");
  return tsr_frame_column(df, "v");
}

static tsr_array *step(tsr_scope *s, const tsr_mesh *mesh, tsr_array *x)
{
  float w[COLUMNS];
  for (int i = 0; i < COLUMNS; i++) w[i] = (float)i / 8;
  tsr_array *v = tsr_put(s, w, TSR_F32, TSR_SHAPE(COLUMNS), tsr_on(mesh, "-"));
  for (int i = 0; i < 3; i++) {
    tsr_array *off = tsr_sum(tsr_mul(x, v), .dims = TSR_DIMS(1));
    tsr_array *slope = tsr_sum(tsr_mul(x, tsr_expand_dims(off, TSR_DIMS(1))), .dims = TSR_DIMS(0));
    v = tsr_sub(v, tsr_mul(slope, 1e-6));
  }
  return v;
}

static tsr_array *result_of(tsr_scope *s, tsr_runtime *rt, work w)
{
  float data[CELLS];
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  bool cut = w == SCATTER || w == ALL_TO_ALL;
  for (int i = 0; i < CELLS; i++) data[i] = (float)(i * 7919 % 1009);
  if (w == GROUP || w == JOIN) return rows(s, mesh, w);
  tsr_array *x = tsr_put(s, data, TSR_F32, TSR_SHAPE(ROWS, COLUMNS), tsr_on(mesh, "x,-"));
  if (w == STEP) return step(s, mesh, x);
  if (w == SORT) return tsr_sort(tsr_ravel(x), 0);
  return tsr_shard_map(mesh, body, &w, .in = { x }, .in_specs = { "x,-" },
                       .out_specs = { cut            ? "-,x"
                                      : w == PERMUTE ? "x,-"
                                                     : "-,-" });
}

/* Does it once: its numbers, of which there are `*count`. */
static tsr_status once(tsr_runtime *rt, work w, double *out, int64_t *count, char *why)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *wide = tsr_cast(result_of(s, rt, w), TSR_F64);
  tsr_status status = tsr_eval(&wide, 1);
  tsr_shape shape = tsr_shape_of(wide);
  *count = status ? 0 : 1;
  for (int d = 0; d < shape.rank && !status; d++) *count *= shape.dims[d];
  CHECK(*count <= 2 * CELLS);
  if (!status) status = tsr_read(wide, out, (size_t)*count * sizeof *out);
  snprintf(why, 1000, "%s", tsr_message(s));
  tsr_scope_clear(s);
  tsr_scope_close(s);
  return status;
}

/* ---- a process ------------------------------------------------------------------------------- */

typedef struct run {
  work work;
  int victim;
  bool stops;
  const char *socket;
  int ready;          /* a pipe: a byte of each process that has computed once */
  const char *folder; /* NULL, or where they write that down instead */
  const char *steps;  /* SAVE: their folder */
  int64_t *saved;     /* [COUNT] the last step that a process knows to be whole */
} run;

/* ---- saves ----------------------------------------------------------------------------------- */

enum { SAVED = 5000 };

/* A step of number k: arrays of k, cut and whole, and a frame of k's. */
static tsr_status save_step(tsr_runtime *rt, const run *r, int64_t k, char *why)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding cut = tsr_on(tsr_mesh_default(rt, "x"), "x");
  tsr_array *a = tsr_full(s, (double)k, TSR_F64, TSR_SHAPE(SAVED), cut);
  tsr_array *b = tsr_full(s, (double)k, TSR_F32, TSR_SHAPE(7 * SAVED), tsr_on(cut.mesh, ""));
  tsr_frame *df = tsr_frame_new(s, { "k", a });
  tsr_status status =
      tsr_checkpoint_save(s, r->steps, tsr_tree(s, { "a", a }, { "b", b }), .step = k, .keep = 2,
                          .frames = { { "df", df } }, .background = k % 3 == 2);
  if (!status && k % 3 == 2) status = tsr_checkpoint_wait(s);
  snprintf(why, 1000, "%s", tsr_message(s));
  tsr_scope_clear(s);
  tsr_scope_close(s);
  return status;
}

/* The newest step has everywhere the number that it has, and is none before one that somebody was
 * told of; what looks whole of the others is. */
static void check_saved(const run *r)
{
  static double a[SAVED];
  static float b[7 * SAVED];
  int64_t most = 0, rows = 0;
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  tsr_scope *s = tsr_scope_open(rt);
  for (int i = 0; i < COUNT; i++)
    if (r->saved[i] > most) most = r->saved[i];
  tsr_saved_step *c = tsr_checkpoint_open(s, r->steps);
  int64_t k = tsr_checkpoint_step(c);
  if (k < most) FAIL("step %lld is the newest, %lld was saved", (long long)k, (long long)most);
  CHECK_STATUS(tsr_checkpoint_verify(c), TSR_OK, s);
  tsr_array *all = tsr_checkpoint_restore(c, NULL);
  CHECK_STATUS(tsr_read(tsr_field(all, "a"), a, sizeof a), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_field(all, "b"), b, sizeof b), TSR_OK, s);
  for (int i = 0; i < SAVED; i++) CHECK_F64_BITS(a[i], (double)k);
  for (int i = 0; i < 7 * SAVED; i++) CHECK_F32_BITS(b[i], (float)k);
  tsr_frame *df = tsr_checkpoint_frame(c, "df", (tsr_sharding){ 0 });
  char wanted[32];
  snprintf(wanted, sizeof wanted, "k == %lld", (long long)k);
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_filter(df, wanted), &rows), TSR_OK, s);
  CHECK_I64(rows, SAVED);
  for (int64_t i = most > 3 ? most - 3 : 0; i <= most + 2; i++) {
    char path[600];
    snprintf(path, sizeof path, "%s/step_%lld/tessera.json", r->steps, (long long)i);
    if (access(path, F_OK)) continue;
    snprintf(path, sizeof path, "%s/step_%lld", r->steps, (long long)i);
    CHECK_STATUS(tsr_checkpoint_verify(tsr_checkpoint_open(s, path)), TSR_OK, s);
  }
  tsr_runtime_close(rt);
}

/* ---- files, of processes that a launcher started --------------------------------------------- */

/* The process's number, in a file that is whole when it is there. */
static void put_file(const char *folder, const char *what, int index)
{
  char path[600], whole[600], text[32];
  snprintf(path, sizeof path, "%s/new.%d", folder, index);
  snprintf(whole, sizeof whole, "%s/%s.%d", folder, what, index);
  snprintf(text, sizeof text, "%d", (int)getpid());
  test_write(path, text, strlen(text));
  CHECK_I64(rename(path, whole), 0);
}

static bool all_there(const run *r, const char *what, int but)
{
  char path[600];
  bool all = true;
  for (int i = 0; i < COUNT; i++) {
    snprintf(path, sizeof path, "%s/%s.%d", r->folder, what, i);
    all = all && (i == but || !access(path, F_OK));
  }
  return all;
}

static int64_t *map_saved(const char *path)
{
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  CHECK(file >= 0 && !ftruncate(file, COUNT * sizeof(int64_t)));
  int64_t *saved = mmap(NULL, COUNT * sizeof *saved, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(saved != MAP_FAILED);
  close(file);
  return saved;
}

/* ---- a life ---------------------------------------------------------------------------------- */

static void live(const run *r, int index)
{
  static double expected[2 * CELLS], found[2 * CELLS];
  int64_t expected_count, count;
  char why[1000], name[64];
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  if (r->work != SAVE)
    CHECK_STATUS(once(rt, r->work, expected, &expected_count, why), TSR_OK, NULL);
  tsr_runtime_close(rt);
  among_hosts(index, COUNT);
  rt = tsr_initialize("cpu:2", .coordinator = r->socket, .process_count = COUNT,
                      .process_index = index, .start_timeout = 40, .close_timeout = 10,
                      .stall_timeout = STALL, .on_failure = "error");
  CHECK_STR(tsr_runtime_message(rt), "");
  tsr_status status = TSR_OK;
  for (int64_t i = 0; !status; i++) {
    status = r->work == SAVE ? save_step(rt, r, i, why) : once(rt, r->work, found, &count, why);
    if (status) break;
    if (r->work == SAVE) {
      r->saved[index] = i;
    } else {
      CHECK_I64(count, expected_count);
      CHECK_BYTES(found, expected, (size_t)count * sizeof *found);
    }
    if (i == 0 && r->folder) put_file(r->folder, "ready", index);
    else if (i == 0) CHECK_I64(write(r->ready, "", 1), 1);
  }
  CHECK_STATUS(status, TSR_EPEER, NULL);
  snprintf(name, sizeof name, "process %d%s", r->victim, r->victim ? " (pid " : ", the coord");
  CHECK_STR_HAS(why, name);
  tsr_runtime_close(rt);
  if (r->folder) put_file(r->folder, "done", index);
}

/* A program that a launcher of an MPI started, before the harness, which knows nothing of it. It
 * ends with the others: launchers may end those that are left. */
__attribute__((constructor)) static void live_instead(void)
{
  const char *text = getenv("KILL_RUN");
  char socket[500], folder[400], path[600];
  run r = { .socket = socket, .folder = folder, .steps = path };
  const char *number = getenv("TEST_PROCESS");
  int work_number = 0, stops = 0, index = number ? atoi(number) : 0;
  if (!text) return;
  CHECK_I64(sscanf(text, "%d %d %d %399s", &work_number, &r.victim, &stops, folder), 4);
  r.work = (work)work_number;
  r.stops = stops != 0;
  snprintf(socket, sizeof socket, "unix:%s/job", folder);
  snprintf(path, sizeof path, "%s/saved", folder);
  r.saved = map_saved(path);
  snprintf(path, sizeof path, "%s/steps", folder);
  live(&r, index);
  for (int ms = 0; ms < 20000 && !all_there(&r, "done", r.victim); ms += 10) usleep(10000);
  exit(0);
}

static pid_t start(const run *r, int index)
{
  fflush(NULL);
  pid_t process = fork();
  CHECK(process >= 0);
  if (process) return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  live(r, index);
  fflush(NULL);
  _exit(0);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Ends of processes within so many seconds; false: some have not ended. */
static bool await(const pid_t ids[COUNT], int but, int codes[COUNT], double seconds)
{
  bool ended[COUNT] = { false };
  int left = COUNT - (but >= 0);
  for (double until = fixture_now() + seconds; left && fixture_now() < until; usleep(2000))
    for (int i = 0; i < COUNT; i++) {
      int status;
      if (i == but || ended[i] || waitpid(ids[i], &status, WNOHANG) != ids[i]) continue;
      ended[i] = true;
      codes[i] = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      left--;
    }
  return !left;
}

static void kill_one(work w, uint64_t seed)
{
  char socket[32], address[400], steps[512];
  int ends[2], codes[COUNT] = { 0 };
  pid_t ids[COUNT];
  test_rng random = test_seeded(seed);
  run r = { .work = w };
  r.victim = (int)(test_random(&random) % COUNT);
  r.stops = test_random(&random) % 4 == 0;
  useconds_t after = (useconds_t)(test_random(&random) % 30000);
  snprintf(socket, sizeof socket, "s%llu", (unsigned long long)seed);
  snprintf(address, sizeof address, "%s", fixture_socket(socket));
  r.socket = address;
  snprintf(socket, sizeof socket, "c%llu", (unsigned long long)seed);
  snprintf(steps, sizeof steps, "%s", test_tmp(socket));
  r.steps = steps;
  r.saved = mmap(NULL, COUNT * sizeof *r.saved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                 -1, 0);
  CHECK(r.saved != MAP_FAILED);
  CHECK_I64(pipe(ends), 0);
  r.ready = ends[1];
  for (int i = 0; i < COUNT; i++) ids[i] = start(&r, i);
  close(ends[1]);
  char bytes[COUNT];
  for (int got = 0; got < COUNT;) {
    ssize_t more = read(ends[0], bytes, sizeof bytes);
    if (more <= 0)
      FAIL("%s, seed %llu: a process failed at once", names[w], (unsigned long long)seed);
    got += (int)more;
  }
  usleep(after);
  kill(ids[r.victim], r.stops ? SIGSTOP : SIGKILL);
  bool ended = await(ids, r.victim, codes, 60);
  kill(ids[r.victim], SIGKILL);
  CHECK_I64(fixture_end(ids[r.victim]), 128 + SIGKILL);
  close(ends[0]);
  for (int i = 0; i < COUNT; i++)
    if (!ended || (i != r.victim && codes[i]))
      FAIL("%s, seed %llu, process %d %s after %u us: process %d ended with %d, all ended: %d",
           names[w], (unsigned long long)seed, r.victim, r.stops ? "stopped" : "killed",
           (unsigned)after, i, codes[i], ended);
  if (w == SAVE) check_saved(&r);
  munmap(r.saved, COUNT * sizeof *r.saved);
}

/* ---- runs of an MPI's launcher --------------------------------------------------------------- */

/* Launchers are told to leave the others alone, which are to say what they saw. hydra does not keep
 * to it: what it looks at is a shell, which outlives its process. */
static pid_t launch(const run *r, const char *mpi)
{
  char text[600], self[1024], script[1024], plugins[1100];
  bool open = !strcmp(mpi, "openmpi");
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  CHECK(length > 0);
  self[length] = '\0';
  tool_build_path(plugins, sizeof plugins - 4);
  strcat(plugins, "/lib");
  snprintf(script, sizeof script, "%s", test_file("support/on_hosts.sh"));
  snprintf(text, sizeof text, "%d %d %d %s", (int)r->work, r->victim, (int)r->stops, r->folder);
  fflush(NULL);
  pid_t process = fork();
  CHECK(process >= 0);
  if (process) return process;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setenv("KILL_RUN", text, 1);
  setenv("TSR_ENGINE", "mpi", 1);
  setenv("TSR_PLUGIN_PATH", plugins, 1);
  if (open && !getuid())
    execlp("mpirun.openmpi", "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe",
           "--enable-recovery", "-n", "4", script, "2", self, NULL);
  else if (open)
    execlp("mpirun.openmpi", "mpirun.openmpi", "--oversubscribe", "--enable-recovery", "-n", "4",
           script, "2", self, NULL);
  else
    execlp("mpiexec.hydra", "mpiexec.hydra", "-n", "4", "sh", "-c", "\"$0\" \"$@\"; sleep 60",
           script, "2", self, NULL);
  _exit(127);
}

typedef enum outcome { LATE, THERE, ENDED } outcome;

/* ENDED: the launcher has, which takes its processes with it. */
static outcome await_files(const run *r, const char *what, int but, pid_t launcher)
{
  for (int ms = 0; ms < 60000; ms += 5) {
    siginfo_t end = { .si_pid = 0 };
    if (all_there(r, what, but)) return THERE;
    if (!waitid(P_PID, (id_t)launcher, &end, WEXITED | WNOHANG | WNOWAIT) && end.si_pid)
      return all_there(r, what, but) ? THERE : ENDED;
    usleep(5000);
  }
  return LATE;
}

static pid_t process_of(const run *r, int index)
{
  char path[600];
  snprintf(path, sizeof path, "%s/ready.%d", r->folder, index);
  char *text = test_read(path, NULL);
  pid_t process = (pid_t)atoi(text);
  free(text);
  return process;
}

static bool all_gone(const run *r)
{
  for (int i = 0; i < COUNT; i++)
    if (!kill(process_of(r, i), 0)) return false;
  return true;
}

static int launchers_ended; /* before the others could say why */

static void kill_launched(work w, uint64_t seed, const char *mpi)
{
  char folder[400], path[600];
  test_rng random = test_seeded(seed);
  run r = { .work = w, .folder = folder, .steps = path };
  r.victim = (int)(test_random(&random) % COUNT);
  r.stops = test_random(&random) % 4 == 0;
  useconds_t after = (useconds_t)(test_random(&random) % 30000);
  snprintf(path, sizeof path, "k%llu", (unsigned long long)seed);
  snprintf(folder, sizeof folder, "%s", test_tmp(path));
  CHECK_I64(mkdir(folder, 0700), 0);
  snprintf(path, sizeof path, "%s/saved", folder);
  r.saved = map_saved(path);
  pid_t launcher = launch(&r, mpi);
  if (await_files(&r, "ready", -1, launcher) != THERE)
    FAIL("%s, seed %llu: a process failed at once", names[w], (unsigned long long)seed);
  pid_t victim = process_of(&r, r.victim);
  usleep(after);
  kill(victim, r.stops ? SIGSTOP : SIGKILL);
  outcome end = await_files(&r, "done", r.victim, launcher);
  kill(victim, SIGKILL);
  kill(-launcher, end == LATE ? SIGKILL : SIGTERM);
  waitpid(launcher, NULL, 0);
  for (int ms = 0; ms < 5000 && end == ENDED && !all_gone(&r); ms += 10) usleep(10000);
  launchers_ended += end == ENDED;
  if (end == LATE || (end == ENDED && !all_gone(&r)))
    FAIL("%s, seed %llu, process %d %s after %u us: not all the others say so", names[w],
         (unsigned long long)seed, r.victim, r.stops ? "stopped" : "killed", (unsigned)after);
  snprintf(path, sizeof path, "%s/steps", folder);
  if (w == SAVE) check_saved(&r);
  munmap(r.saved, COUNT * sizeof *r.saved);
}

static void kill_many(work w)
{
  const char *mpi = getenv("TEST_MPI");
  const char *text = getenv("TEST_KILLS");
  unsigned runs = text ? (unsigned)atoi(text) : 1;
  for (unsigned i = 0; i < runs; i++) {
    uint64_t seed = UINT64_C(1000) * w + i + 1;
    if (mpi) kill_launched(w, seed, mpi);
    else kill_one(w, seed);
  }
  if (launchers_ended)
    FAIL("%s: in %d of %u runs the launcher ended all, before they could say why", names[w],
         launchers_ended, runs);
}

/* Names of shared memory that is ours. */
static int left_behind(void)
{
  int count = 0;
  DIR *folder = opendir("/dev/shm");
  for (struct dirent *one; folder && (one = readdir(folder));)
    count += !strncmp(one->d_name, "tsr", 3) || !strncmp(one->d_name, "tessera", 7);
  if (folder) closedir(folder);
  return count;
}

TEST_TIMEOUT(collectives, 1200)
{
  for (work w = PSUM; w <= PERMUTE; w++) kill_many(w);
  CHECK_I64(left_behind(), 0);
}

TEST_TIMEOUT(sorts, 600)
{
  kill_many(SORT);
}

TEST_TIMEOUT(rows_of_frames, 600)
{
  kill_many(GROUP);
  kill_many(JOIN);
}

TEST_TIMEOUT(training, 600)
{
  kill_many(STEP);
}

TEST_TIMEOUT(saves, 600)
{
  kill_many(SAVE);
}
