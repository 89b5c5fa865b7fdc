/* Who a process is, from recorded environments of launchers: a table of what they set and what is
 * found, and of those that say it by halves, in contradictions or in no numbers. */
#include <stdio.h>
#include <string.h>

#include "comm/comm.h"
#include "harness.h"

typedef struct row {
  const char *environment; /* "A=1 B=2" */
  const char *found;       /* "index/count address by source"; or a part of the message */
  tsr_status status;
} row;

/* Looks a name up in "A=1 B=2". */
static const char *look_up(const char *name, void *user)
{
  /* Values stay, as those of getenv do. */
  static char values[32][300];
  static int next;
  char *value = values[next++ % 32];
  size_t length = strlen(name);
  for (const char *at = user; *at; at += strspn(at, " ")) {
    size_t word = strcspn(at, " ");
    if (word > length && !strncmp(at, name, length) && at[length] == '=') {
      snprintf(value, sizeof values[0], "%.*s", (int)(word - length - 1), at + length + 1);
      return value;
    }
    at += word;
  }
  return NULL;
}

static tsr_status find(const tsr_process_opts *opts, const char *environment, tsr__role *role,
                       char text[1000])
{
  tsr__environment env = { .get = look_up, .user = (void *)environment };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__role_find(opts, &env, role, &error);
  CHECK_I64(status, error.status);
  if (status) snprintf(text, 1000, "%s", error.text);
  else
    snprintf(text, 1000, "%d/%d %s by %s", role->index, role->count, role->coordinator,
             role->source);
  return status;
}

static void check_rows(const row *rows, size_t count)
{
  char text[1000];
  for (size_t i = 0; i < count; i++) {
    tsr__role role;
    tsr_status status = find(&(tsr_process_opts){ 0 }, rows[i].environment, &role, text);
    if (status != rows[i].status)
      FAIL("%s: %s: %s", rows[i].environment, tsr_status_name(status), text);
    if (status) CHECK_STR_HAS(text, rows[i].found);
    else if (strcmp(text, rows[i].found) != 0)
      FAIL("%s: found %s, expected %s", rows[i].environment, text, rows[i].found);
  }
}

/* As they were recorded, less what nobody reads here. */
#define OMPI4                                                                   \
  "OMPI_MCA_orte_hnp_uri=2053439488.0;tcp://10.0.0.5,192.168.1.5:43577 "        \
  "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_LOCAL_RANK=2 " \
  "PMIX_NAMESPACE=3422552065 PMIX_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=4"
#define OMPI5                                                             \
  "PRTE_LAUNCHED=1 PMIX_NAMESPACE=prterun-a-77@1 OMPI_COMM_WORLD_SIZE=8 " \
  "OMPI_COMM_WORLD_RANK=7 OMPI_COMM_WORLD_LOCAL_RANK=3 PMIX_RANK=7"
#define HYDRA "PMI_RANK=1 PMI_FD=6 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 HYDI_CONTROL_FD=9"
#define SLURM                                                                        \
  "SLURM_JOB_ID=4711 SLURM_STEP_ID=0 SLURM_NTASKS=4 SLURM_PROCID=3 SLURM_LOCALID=1 " \
  "SLURM_NODEID=1 SLURM_STEP_NUM_TASKS=4 SLURM_NNODES=2 "
#define KUBERNETES                                                                  \
  "KUBERNETES_SERVICE_HOST=10.96.0.1 KUBERNETES_SERVICE_PORT=443 HOSTNAME=train-1 " \
  "JOB_COMPLETION_INDEX=1 "
#define TORCHRUN                                                          \
  "MASTER_ADDR=node7 MASTER_PORT=29500 RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 " \
  "LOCAL_WORLD_SIZE=4 GROUP_RANK=1 TORCHELASTIC_RUN_ID=none "
#define RUN "TSR_PROCESS_INDEX=3 TSR_PROCESS_COUNT=4 TSR_COORDINATOR=unix:/tmp/t/job TSR_SECRET=ab "

static const row found[] = {
  { "", "0/1  by nothing: the process runs alone", TSR_OK },
  { "PATH=/bin HOME=/root", "0/1  by nothing: the process runs alone", TSR_OK },
  { RUN, "3/4 unix:/tmp/t/job by TSR_* variables", TSR_OK },
  { OMPI4, "2/4 10.0.0.5:63056 by Open MPI and its address from there", TSR_OK },
  { "OMPI_MCA_orte_hnp_uri=4096.0;tcp6://[fe80::1,::2]:99 OMPI_COMM_WORLD_SIZE=2 "
    "OMPI_COMM_WORLD_RANK=0",
    "0/2 [fe80::1]:61441 by Open MPI and its address from there", TSR_OK },
  { OMPI5 " TSR_COORDINATOR=a:7000", "7/8 a:7000 by Open MPI", TSR_OK },
  { "OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0", "0/1  by Open MPI", TSR_OK },
  { HYDRA " TSR_COORDINATOR=[::1]:7000", "1/2 [::1]:7000 by MPICH", TSR_OK },
  { SLURM "SLURM_STEP_NODELIST=node001", "3/4 node001:62055 by Slurm and its address from there",
    TSR_OK },
  { SLURM "SLURM_STEP_NODELIST=node001,host2",
    "3/4 node001:62055 by Slurm and its address from there", TSR_OK },
  { SLURM "SLURM_STEP_NODELIST=node[001-0015],host2",
    "3/4 node001:62055 by Slurm and its address from there", TSR_OK },
  { SLURM "SLURM_STEP_NODELIST=rack[1-2]n[07-09],host2",
    "3/4 rack1n07:62055 by Slurm and its address from there", TSR_OK },
  { SLURM "SLURM_STEP_NODELIST=node[01-03,7]-ib",
    "3/4 node01-ib:62055 by Slurm and its address from there", TSR_OK },
  { SLURM "SLURM_STEP_NODELIST=node[001,007-015],host2",
    "3/4 node001:62055 by Slurm and its address from there", TSR_OK },
  /* Another step of the job has another port. */
  { "SLURM_JOB_ID=4711 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_STEP_NODELIST=b",
    "0/4 b:63076 by Slurm and its address from there", TSR_OK },
  /* A batch script is no step: it is alone. */
  { "SLURM_JOB_ID=4711 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_NODELIST=node001",
    "0/1  by nothing: the process runs alone", TSR_OK },
  /* srun --mpi=pmi2 sets both, and so does mpirun inside an allocation. */
  { "PMI_RANK=3 PMI_SIZE=4 TSR_COORDINATOR=a:1 " SLURM, "3/4 a:1 by MPICH", TSR_OK },
  { OMPI4 " " SLURM, "2/4 10.0.0.5:63056 by Open MPI and its address from there", TSR_OK },
  { SLURM "SLURM_STEP_NODELIST=b TSR_DETECT=slurm PMI_RANK=0 PMI_SIZE=1",
    "3/4 b:62055 by Slurm and its address from there", TSR_OK },
  { KUBERNETES "TSR_PROCESS_COUNT=2 TSR_COORDINATOR=train-0.train:8476",
    "1/2 train-0.train:8476 by Kubernetes", TSR_OK },
  /* Any pod has these; that makes it no job. */
  { "KUBERNETES_SERVICE_HOST=10.96.0.1 HOSTNAME=web-5d8", "0/1  by nothing: the process runs alone",
    TSR_OK },
  { TORCHRUN, "5/8 node7:29501 by torchrun and its address from there", TSR_OK },
  { "MASTER_ADDR=::1 MASTER_PORT=29500 RANK=0 WORLD_SIZE=2",
    "0/2 [::1]:29500 by torchrun and its address from there", TSR_OK },
  { TORCHRUN "TSR_COORDINATOR=other:1", "5/8 other:1 by torchrun", TSR_OK },
  /* What somebody said goes before launchers around it. */
  { RUN SLURM OMPI5, "3/4 unix:/tmp/t/job by TSR_* variables", TSR_OK },
  { SLURM "TSR_DETECT=none", "0/1  by nothing: the process runs alone", TSR_OK },
};

static const row refused[] = {
  { OMPI5,
    "by Open MPI this is process 7 of 8, but the address of process 0 is unknown: Open MPI 5 does "
    "not say where its processes run; set .coordinator or TSR_COORDINATOR to \"HOST:PORT\" of "
    "process 0, the same for all",
    TSR_EARG },
  { HYDRA, "MPICH does not say where its processes run", TSR_EARG },
  { KUBERNETES,
    "by Kubernetes this is one of several processes, but the number of processes is unknown; set "
    "TSR_PROCESS_COUNT to the job's .spec.completions",
    TSR_EARG },
  { KUBERNETES "TSR_PROCESS_COUNT=2", "the address is JOB-0.SUBDOMAIN; set .coordinator",
    TSR_EARG },
  { KUBERNETES "TSR_PROCESS_COUNT=1",
    "by Kubernetes this is process 1 of 1, expected a number below the count", TSR_EARG },
  { SLURM, "SLURM_STEP_NODELIST is not set; set .coordinator", TSR_EARG },
  /* By halves. */
  { "OMPI_COMM_WORLD_SIZE=4",
    "Open MPI seems to have started this process, but OMPI_COMM_WORLD_RANK is not set; set the "
    "variable, or TSR_DETECT=none if this process runs alone",
    TSR_EARG },
  { "PMI_RANK=0", "MPICH seems to have started this process, but PMI_SIZE is not set", TSR_EARG },
  { "SLURM_STEP_ID=0 SLURM_NTASKS=2", "but SLURM_PROCID is not set", TSR_EARG },
  { "RANK=1", "torchrun seems to have started this process, but WORLD_SIZE is not set", TSR_EARG },
  { "RANK=1 WORLD_SIZE=2", "MASTER_ADDR is not set; set .coordinator", TSR_EARG },
  { "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a", "but MASTER_PORT is not set", TSR_EARG },
  { "MASTER_ADDR=a", "but WORLD_SIZE is not set", TSR_EARG },
  { "TSR_PROCESS_INDEX=1", "but the number of processes is unknown; set TSR_PROCESS_COUNT",
    TSR_EARG },
  { "TSR_PROCESS_COUNT=2", "but the number of this process is unknown; set TSR_PROCESS_INDEX",
    TSR_EARG },
  { "TSR_PROCESS_COUNT=2 TSR_PROCESS_INDEX=0",
    "by TSR_* variables this is process 0 of 2, but the address of process 0 is unknown;",
    TSR_EARG },
  /* Garbage. */
  { "RANK=one WORLD_SIZE=2 MASTER_ADDR=a",
    "torchrun: RANK is \"one\", expected a whole number of at most 65536", TSR_EARG },
  { "RANK=-1 WORLD_SIZE=2", "RANK is \"-1\"", TSR_EARG },
  { "RANK=1 WORLD_SIZE=99999999999999999999", "WORLD_SIZE is \"99999999999999999999\"", TSR_EARG },
  { "RANK=2 WORLD_SIZE=2", "torchrun: RANK is 2, but WORLD_SIZE is 2, expected a number below that",
    TSR_EARG },
  { "RANK=0 WORLD_SIZE=0", "expected a number below that", TSR_EARG },
  { "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=70000", "MASTER_PORT is \"70000\"", TSR_EARG },
  { "TSR_PROCESS_COUNT=0 TSR_PROCESS_INDEX=0", "TSR_PROCESS_COUNT is 0", TSR_EARG },
  { "TSR_PROCESS_COUNT=2 TSR_PROCESS_INDEX=2 TSR_COORDINATOR=a:1",
    "by TSR_* variables this is process 2 of 2, expected a number below the count: processes are "
    "numbered from 0",
    TSR_EARG },
  { "TSR_COORDINATOR=nothing", "\"nothing\" is no address of a coordinator; write \"HOST:PORT\"",
    TSR_EARG },
  { "TSR_COORDINATOR=a:99999", "no address of a coordinator", TSR_EARG },
  { "TSR_COORDINATOR=::1:7000", "no address of a coordinator", TSR_EARG },
  { "TSR_COORDINATOR=unix:", "has no path", TSR_EARG },
  { RUN "TSR_BIND=x", "\"x\" is no address", TSR_EARG },
  { RUN "TSR_STALL_TIMEOUT=soon", "TSR_STALL_TIMEOUT is \"soon\"", TSR_EARG },
  { RUN "TSR_STALL_TIMEOUT=1", "TSR_STALL_TIMEOUT is 1 s, expected 2 or more", TSR_EARG },
  { "TSR_ON_FAILURE=stop",
    ".on_failure or TSR_ON_FAILURE is \"stop\", expected shutdown, error or shrink", TSR_EARG },
  { "TSR_STOP_SIGNAL=9", ".stop_signal or TSR_STOP_SIGNAL is 9, expected SIGTERM (15)", TSR_EARG },
  { "TSR_STOP_SIGNAL=TERM", "TSR_STOP_SIGNAL is \"TERM\", expected a whole number", TSR_EARG },
  { SLURM "TSR_DETECT=pbs",
    ".detect or TSR_DETECT is \"pbs\", expected mpi, openmpi, mpich, slurm, kubernetes, "
    "torchrun or none",
    TSR_EARG },
  { "TSR_DETECT=slurm", "Slurm seems to have started this process, but SLURM_STEP_NUM_TASKS is not",
    TSR_EARG },
  /* Contradictions. */
  { TORCHRUN "TSR_PROCESS_COUNT=4",
    "the number of processes is 4 by TSR_PROCESS_COUNT, but 8 by torchrun; unset the wrong "
    "variable, or set TSR_DETECT=none",
    TSR_EARG },
  { TORCHRUN "TSR_PROCESS_INDEX=4",
    "the number of this process is 4 by TSR_PROCESS_INDEX, but 5 by", TSR_EARG },
};

TEST(environments_of_launchers_are_understood)
{
  check_rows(found, sizeof found / sizeof *found);
}

TEST(halves_garbage_and_contradictions_are_refused)
{
  check_rows(refused, sizeof refused / sizeof *refused);
}

TEST(options_go_before_everything)
{
  char text[1000];
  tsr__role role;
  tsr_process_opts all = { .coordinator = "h:1", .process_count = 3, .process_index = 2 };
  CHECK_STATUS(find(&all, RUN SLURM, &role, text), TSR_OK, NULL);
  CHECK_STR(text, "2/3 h:1 by options");
  CHECK_STR(role.secret, "ab");
  all.secret = "own";
  all.coordinator = NULL;
  all.start_timeout = 1.5;
  CHECK_STATUS(find(&all, RUN "TSR_START_TIMEOUT=7 TSR_STALL_TIMEOUT=8", &role, text), TSR_OK,
               NULL);
  CHECK_STR(text, "2/3 unix:/tmp/t/job by options");
  CHECK_STR(role.secret, "own");
  CHECK_F64_BITS(role.start_seconds, 1.5);
  CHECK_F64_BITS(role.stall_seconds, 8);
  CHECK_F64_BITS(role.close_seconds, 300);
}

TEST(options_that_are_no_place_are_refused)
{
  static const struct {
    tsr_process_opts opts;
    const char *text;
  } cases[] = {
    { { .process_count = -1 }, ".process_count is -1, expected 1 to 65536, or 0 to look for it" },
    { { .process_index = 1 }, ".process_index is 1, but .process_count is not set; set both" },
    { { .process_count = 2, .process_index = 2 }, ".process_index is 2, expected 0 to 1" },
    { { .process_count = 2, .process_index = -1 }, ".process_index is -1, expected 0 to 1" },
    { { .process_count = 2 },
      "by options this is process 0 of 2, but the address of process 0 is unknown" },
    { { .detect = "pmi" }, ".detect or TSR_DETECT is \"pmi\"" },
    { { .stall_timeout = -1 }, "a timeout is negative" },
    { { .stall_timeout = 1.9 }, ".stall_timeout or TSR_STALL_TIMEOUT is 1.9 s" },
  };
  char text[1000];
  tsr__role role;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK_STATUS(find(&cases[i].opts, "", &role, text), TSR_EARG, NULL);
    CHECK_STR_HAS(text, cases[i].text);
  }
}

/* ---- MPI ------------------------------------------------------------------------------------- */

static int mpi_count; /* processes of its world; 0: it cannot be used */

static bool has_mpi(void)
{
  return true;
}

static tsr_status meet(const char *launcher, tsr__found *out, tsr__error *error)
{
  (void)launcher;
  if (!mpi_count) return tsr__error_set(error, TSR_EUNSUPPORTED, "the engine is not there");
  *out = (tsr__found){ mpi_count - 1, mpi_count, "10.0.0.7:4711", "drawn" };
  return TSR_OK;
}

static void find_by(bool begun, const char *environment, const char *expected)
{
  char text[1000];
  tsr__role role = { .index = 0 };
  tsr__error error = { .status = TSR_OK };
  tsr__environment env = { look_up, (void *)environment, begun ? has_mpi : NULL, meet };
  if (tsr__role_find(&(tsr_process_opts){ 0 }, &env, &role, &error)) {
    CHECK_STR_HAS(error.text, expected);
    return;
  }
  snprintf(text, sizeof text, "%d/%d %s by %s, %s", role.index, role.count, role.coordinator,
           role.source, role.secret);
  CHECK_STR(text, expected);
}

/* What a program's own MPI says goes before its launcher's variables, and behind what was said. */
TEST(processes_are_those_of_the_programs_mpi)
{
  mpi_count = 4;
  find_by(true, "", "3/4 10.0.0.7:4711 by MPI and its address from there, drawn");
  find_by(true, TORCHRUN, "3/4 10.0.0.7:4711 by MPI and its address from there, drawn");
  find_by(true, OMPI4 " TSR_SECRET=own",
          "3/4 10.0.0.7:4711 by MPI and its address from there, own");
  find_by(true, RUN, "3/4 unix:/tmp/t/job by TSR_* variables, ab");
  find_by(true, "TSR_DETECT=none", "0/1  by nothing: the process runs alone, ");
  find_by(false, "TSR_DETECT=mpi", "3/4 10.0.0.7:4711 by MPI and its address from there, drawn");
  /* One whose launcher was another MPI's has a world of one: it is nobody's word. */
  mpi_count = 1;
  find_by(true, TORCHRUN, "5/8 node7:29501 by torchrun and its address from there, ");
  find_by(true, "", "0/1  by nothing: the process runs alone, ");
}

/* Launchers that do not say where process 0 is leave it to MPI. */
TEST(mpi_says_where_its_launchers_do_not)
{
  mpi_count = 2;
  find_by(false, HYDRA, "1/2 10.0.0.7:4711 by MPICH and its address from there, drawn");
  find_by(false, HYDRA " TSR_COORDINATOR=a:1", "1/2 a:1 by MPICH, ");
  find_by(false, OMPI5, "by Open MPI this is process 7 of 8, but by MPI process 1 of 2");
  mpi_count = 8;
  find_by(false, OMPI5, "7/8 10.0.0.7:4711 by Open MPI and its address from there, drawn");
  mpi_count = 0;
  find_by(false, HYDRA,
          "MPICH does not say where its processes run, and MPI cannot tell either: the engine is "
          "not there. Or set .coordinator or TSR_COORDINATOR");
}

/* ---- proofs ---------------------------------------------------------------------------------- */

/* Test vectors of FIPS 180 and of RFC 4231. */
TEST(proofs_are_codes_of_sha_256)
{
  static const struct {
    const char *secret, *message, *code;
  } cases[] = {
    { "Jefe", "what do ya want for nothing?",
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
    { "", "", "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad" },
    { "key", "The quick brown fox jumps over the lazy dog",
      "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8" },
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t code[TSR__PROOF];
    char text[2 * TSR__PROOF + 1];
    tsr__proof(cases[i].secret, (tsr__blob){ cases[i].message, strlen(cases[i].message) }, code);
    for (int k = 0; k < TSR__PROOF; k++) snprintf(text + 2 * k, 3, "%02x", code[k]);
    CHECK_STR(text, cases[i].code);
  }
  /* A key longer than a block is hashed first: as RFC 4231, case 6. */
  char key[132];
  memset(key, 0xaa, 131);
  key[131] = '\0';
  uint8_t code[TSR__PROOF];
  static const uint8_t first[4] = { 0x60, 0xe4, 0x31, 0x59 };
  const char *text = "Test Using Larger Than Block-Size Key - Hash Key First";
  tsr__proof(key, (tsr__blob){ text, strlen(text) }, code);
  CHECK_BYTES(code, first, 4);
}
