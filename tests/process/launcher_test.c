/* Real launchers start a program that meets, computes together and loses one of its processes:
 * mpirun of Open MPI, mpiexec of MPICH, srun of a Slurm of two nodes that this test starts, and
 * nobody at all. The program is this test itself: with TEST_HOW set it does that instead. Where
 * processes take themselves for those of two hosts, an engine of the launcher's MPI moves bytes.
 *
 * Launchers end a job whose process died, some at once. What is looked for is the name of the dead
 * one as a survivor printed it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/process_fixture.h"
#include "support/tool_fixture.h"

enum { COUNT = 4, VICTIM = 2, N = 24 };

/* ---- the program ----------------------------------------------------------------------------- */

static tsr_array *squares(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_psum(tsr_mul(in[0], in[0]), "x");
}

/* A sum over all devices, and one of squares by a collective: 276 and 4324 for 0 to 23. */
static tsr_status compute(tsr_scope *s, tsr_runtime *rt, double out[2])
{
  float data[N];
  for (int i = 0; i < N; i++) data[i] = (float)i;
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_array *a = tsr_put(s, data, TSR_F32, TSR_SHAPE(N), tsr_on(mesh, "x"));
  tsr_array *b =
      tsr_shard_map(mesh, squares, NULL, .in = { a }, .in_specs = { "x" }, .out_specs = { "-" });
  tsr_status status = tsr_read_scalar(tsr_cast(tsr_sum(a), TSR_F64), &out[0]);
  if (!status) status = tsr_read_scalar(tsr_cast(tsr_sum(b), TSR_F64), &out[1]);
  return status;
}

static int work(tsr_runtime *rt, tsr_scope *s, const char *how)
{
  double sums[2] = { 0, 0 };
  int me = tsr_process_index(rt);
  tsr_status status = compute(s, rt, sums);
  if (!status) status = tsr_sync(s, "computed", .timeout = 30);
  if (!status)
    printf("process %d of %d, %d devices: %g, %g\n", me, tsr_process_count(rt),
           tsr_device_count(rt), sums[0], sums[1]);
  fflush(stdout);
  if (!status) status = tsr_sync(s, "printed", .timeout = 30);
  if (!status && me == VICTIM && !strcmp(how, "kill")) raise(SIGKILL);
  if (!status && me == VICTIM && !strcmp(how, "exit")) _exit(3);
  while (!status && strcmp(how, "well") != 0) status = compute(s, rt, sums);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  return status ? 5 : 0;
}

static int take_part(const char *how)
{
  tsr_runtime *rt = tsr_initialize("cpu:2");
  int code = 9;
  if (tsr_runtime_status(rt)) fprintf(stderr, "%s\n", tsr_runtime_message(rt));
  else {
    tsr_scope *s = tsr_scope_open(rt);
    code = work(rt, s, how);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
  return code;
}

/* Before the harness, which knows nothing of it. */
__attribute__((constructor)) static void take_part_instead(void)
{
  const char *how = getenv("TEST_HOW");
  if (how) exit(take_part(how));
}

/* ---- what comes of it ------------------------------------------------------------------------ */

/* Runs a command by a shell, "$SELF" being this program; what came out, which the caller frees. */
static char *run(const char *command, int *code)
{
  char self[1024], line[2048];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  CHECK(length > 0);
  self[length] = '\0';
  setenv("SELF", self, 1);
  setenv("FOLDER", test_tmp("."), 1);
  setenv("SUPPORT", test_file("support"), 1);
  snprintf(line, sizeof line, "{ %s; } >'%s' 2>&1 </dev/null", command, test_tmp("out"));
  int status = system(line);
  *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return test_read(test_tmp("out"), NULL);
}

/* The first word must be a program that is there; as root it is. */
static void need(const char *program)
{
  char *out, command[200];
  int code;
  snprintf(command, sizeof command, "PATH=$PATH:/usr/sbin command -v %s", program);
  out = run(command, &code);
  free(out);
  if (!code) return;
  if (getuid()) SKIP("%s is not installed; as root scripts/setup test does that", program);
  FAIL("%s is not installed, and scripts/setup test did not do that", program);
}

/* Engines are those of this build; $BUILD is where it is. */
static void need_engine(const char *name)
{
  char path[1024], file[1200];
  tool_build_path(path, sizeof path);
  setenv("BUILD", path, 1);
  snprintf(file, sizeof file, "%s/lib/tessera_%s.so", path, name);
  if (access(file, R_OK)) SKIP("the engine %s is not built: its MPI's -dev is not installed", name);
  snprintf(file, sizeof file, "%s/lib", path);
  setenv("TSR_PLUGIN_PATH", file, 1);
#ifdef __SANITIZE_ADDRESS__
  const char *options = getenv("ASAN_OPTIONS");
  snprintf(file, sizeof file, "%s:detect_leaks=0", options ? options : "");
  setenv("ASAN_OPTIONS", file, 1); /* an MPI keeps some of its memory */
#endif
}

static void check_well(const char *command)
{
  int code;
  setenv("TEST_HOW", "well", 1);
  char *out = run(command, &code);
  if (code == 77 && getuid()) SKIP("%s", out);
  for (int i = 0; i < COUNT; i++) {
    char line[64];
    snprintf(line, sizeof line, "process %d of %d, %d devices: 276, 4324\n", i, COUNT, 2 * COUNT);
    CHECK_STR_HAS(out, line);
  }
  if (code) FAIL("exit code %d\n%s", code, out);
  free(out);
}

static void check_end(const char *command, const char *how)
{
  int code;
  setenv("TEST_HOW", how, 1);
  char *out = run(command, &code);
  if (code == 77 && getuid()) SKIP("%s", out);
  CHECK(code != 0);
  CHECK_STR_HAS(out, "process 2 (pid ");
  CHECK_STR_HAS(out,
                "failed: its connection closed without a goodbye: the process ended or was killed");
  CHECK(!strstr(out, "process 0 (pid ") && !strstr(out, "process 1 (pid ") &&
        !strstr(out, "process 3 (pid "));
  free(out);
}

static void check_death(const char *command)
{
  check_end(command, "kill");
}

/* ---- Open MPI -------------------------------------------------------------------------------- */

#define MPIRUN "timeout 50 mpirun.openmpi --allow-run-as-root --oversubscribe"

TEST(mpirun_of_open_mpi)
{
  need("mpirun.openmpi");
  check_well(MPIRUN " -n 4 \"$SELF\"");
}

TEST(a_death_under_open_mpi)
{
  need("mpirun.openmpi");
  check_death(MPIRUN " -n 4 \"$SELF\"");
}

/* ---- MPICH ----------------------------------------------------------------------------------- */

/* It does not say where process 0 is, so that this is said besides. */
#define BARE_MPIEXEC "timeout 50 mpiexec.hydra "
#define MPIEXEC "TSR_COORDINATOR=\"unix:$FOLDER/job\" " BARE_MPIEXEC

/* hydra ends the others as soon as it sees that one ended, and mostly does so even when it is told
 * not to. It sees the end of what it started: a shell, which holds its socket until then. */
#define LINGERS "sh -c '\"$0\" \"$@\" || { code=$?; sleep 3; exit $code; }' "

TEST(mpiexec_of_mpich)
{
  need("mpiexec.hydra");
  check_well(MPIEXEC "-n 4 \"$SELF\"");
}

/* Of a process that a signal ended it says the number itself, and kills the others within
 * 200 us. */
TEST(an_end_under_mpich)
{
  need("mpiexec.hydra");
  check_end(MPIEXEC "-n 4 \"$SELF\"", "exit");
}

/* It does not say where process 0 is: MPI does, and brings a secret. */
TEST(a_death_under_mpich)
{
  need("mpiexec.hydra");
  check_death(MPIEXEC "-n 4 " LINGERS "\"$SELF\"");
}

TEST(mpich_without_an_address)
{
  need("mpiexec.hydra");
  need_engine("mpi_mpich");
  check_well(BARE_MPIEXEC "-n 4 \"$SELF\"");
}

/* What comes of a command that fails, which the caller frees. */
static char *refused(const char *command, const char *how)
{
  int code;
  setenv("TEST_HOW", how, 1);
  char *out = run(command, &code);
  CHECK(code != 0);
  return out;
}

static void check_says(const char *command, const char *how, const char *said)
{
  char *out = refused(command, how);
  CHECK_STR_HAS(out, said);
  free(out);
}

TEST(mpich_that_cannot_be_asked)
{
  need("mpiexec.hydra");
  setenv("TSR_PLUGIN_PATH", "/nowhere", 1);
  char *out = refused(BARE_MPIEXEC "-n 2 " LINGERS "\"$SELF\"", "well");
  CHECK_STR_HAS(out, "MPICH does not say where its processes run");
  CHECK_STR_HAS(out, "are installed: libmpich-dev");
  free(out);
}

/* ---- two hosts ------------------------------------------------------------------------------- */

#define TWO_HOSTS "\"$SUPPORT/on_hosts.sh\" 2 "

static void two_hosts_by(const char *program, const char *engine, const char *title,
                         const char *command)
{
  int code;
  need(program);
  need_engine(engine);
  check_well(command);
  setenv("TSR_LOG", "process", 1);
  setenv("TEST_HOW", "well", 1);
  char *out = run(command, &code);
  CHECK_STR_HAS(out, title);
  CHECK_STR_HAS(out, "): 4 processes on 2 hosts; if one process fails, the others cannot go on");
  free(out);
}

TEST(two_hosts_by_open_mpi)
{
  two_hosts_by("mpirun.openmpi", "mpi_openmpi", "engine mpi_openmpi (Open MPI v",
               MPIRUN " -n 4 " TWO_HOSTS "\"$SELF\"");
}

TEST(two_hosts_by_mpich)
{
  two_hosts_by("mpiexec.hydra", "mpi_mpich", "engine mpi_mpich (MPICH ",
               BARE_MPIEXEC "-n 4 " TWO_HOSTS "\"$SELF\"");
}

TEST(a_death_between_hosts_by_open_mpi)
{
  need("mpirun.openmpi");
  need_engine("mpi_openmpi");
  for (int i = 0; i < (test_quick() ? 1 : 3); i++)
    check_death(MPIRUN " -n 4 " TWO_HOSTS "\"$SELF\"");
}

/* A process that ends without MPI_Finalize is to hydra as one that a signal ended. */
TEST(a_death_between_hosts_by_mpich)
{
  need("mpiexec.hydra");
  need_engine("mpi_mpich");
  for (int i = 0; i < (test_quick() ? 1 : 3); i++)
    check_death(BARE_MPIEXEC "-n 4 " LINGERS TWO_HOSTS "\"$SELF\"");
}

/* A launcher whose engine is not there is an error, and no jobs of one process each. */
TEST(an_engine_of_a_launcher_that_is_not_there)
{
  need("mpirun.openmpi");
  setenv("TSR_PLUGIN_PATH", "/nowhere", 1);
  check_says(MPIRUN " -n 4 " TWO_HOSTS "\"$SELF\"", "well", "are installed: libopenmpi-dev");
}

TEST(an_mpi_does_not_shrink)
{
  need("mpirun.openmpi");
  need_engine("mpi_openmpi");
  setenv("TSR_ON_FAILURE", "shrink", 1);
  check_says(MPIRUN " -n 4 " TWO_HOSTS "\"$SELF\"", "well",
             "processes connected by the engine 'mpi_openmpi' cannot go on after a failure");
}

/* ---- programs that use MPI ------------------------------------------------------------------- */

static void need_own_mpi(const char *program, const char *engine)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  SKIP("programs that use MPI are not built with sanitizers");
#endif
  need(program);
  need_engine(engine);
}

static void check_own_mpi(const char *launch, const char *mpi, const char *hosts)
{
  int code;
  char line[128], command[600];
  snprintf(command, sizeof command, "%s -n 4 %s \"$BUILD/examples/own_mpi_%s\"", launch, hosts,
           mpi);
  char *out = run(command, &code);
  for (int i = 0; i < 4; i++) {
    snprintf(line, sizeof line, "process %d of 4: 499500 by MPI, 499500 by Tessera\n", i);
    CHECK_STR_HAS(out, line);
  }
  if (code) FAIL("exit code %d\n%s", code, out);
  free(out);
}

TEST(a_programs_own_open_mpi)
{
  need_own_mpi("mpirun.openmpi", "mpi_openmpi");
  check_own_mpi(MPIRUN, "openmpi", "");
  check_own_mpi(MPIRUN, "openmpi", TWO_HOSTS);
}

TEST(a_programs_own_mpich)
{
  need_own_mpi("mpiexec.hydra", "mpi_mpich");
  check_own_mpi(BARE_MPIEXEC, "mpich", "");
  check_own_mpi(BARE_MPIEXEC, "mpich", TWO_HOSTS);
}

TEST(a_programs_mpi_without_threads)
{
  need_own_mpi("mpirun.openmpi", "mpi_openmpi");
  check_says(MPIRUN " -n 2 \"$BUILD/examples/own_mpi_openmpi\" single", "well",
             "it must call MPI_Init_thread with MPI_THREAD_MULTIPLE");
}

/* ---- Slurm ----------------------------------------------------------------------------------- */

static void under_slurm(void (*check)(const char *command))
{
  char command[400];
  int ports[3];
  need("srun");
  need("slurmctld");
  need("slurmd");
  need("munged");
  fixture_free_ports(ports, 3);
  snprintf(command, sizeof command,
           "\"$SUPPORT/slurm.sh\" \"$FOLDER/slurm\" %d %d %d "
           "timeout -k 5 30 srun --nodes=2 --ntasks=4 \"$SELF\"",
           ports[0], ports[1], ports[2]);
  check(command);
}

TEST_TIMEOUT(srun_over_two_nodes, 120)
{
  under_slurm(check_well);
}

TEST_TIMEOUT(a_death_under_slurm, 120)
{
  under_slurm(check_death);
}

/* ---- nobody ---------------------------------------------------------------------------------- */

static void by_hand(void (*check)(const char *command))
{
  char command[400];
  snprintf(command, sizeof command,
           "pids=; for i in 0 1 2 3; do TSR_PROCESS_INDEX=$i TSR_PROCESS_COUNT=4 "
           "TSR_COORDINATOR=%s \"$SELF\" & pids=\"$pids $!\"; done; "
           "code=0; for p in $pids; do wait $p || code=$?; done; exit $code",
           fixture_port());
  check(command);
}

TEST(started_by_hand)
{
  by_hand(check_well);
}

TEST(a_death_of_one_started_by_hand)
{
  by_hand(check_death);
}
