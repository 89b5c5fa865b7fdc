/* Two hosts that are namespaces of one machine, each with a network, names and processes of its
 * own: programs compute over the link between them, also where it is slow or gone for a while, and
 * when it is cut every process is told instead of waiting for ever. The program is this test
 * itself, with TEST_HOW set. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/among.h"
#include "support/process_fixture.h"

enum { COUNT = 4, N = 1 << 16 };

/* ---- the program ----------------------------------------------------------------------------- */

/* What lies in rows is read in columns, so that half of it crosses the link. */
static tsr_status compute(tsr_scope *s, tsr_mesh *mesh, double *total)
{
  static float data[N];
  for (int i = 0; i < N; i++) data[i] = (float)(i % 64);
  tsr_array *a = tsr_put(s, data, TSR_F32, TSR_SHAPE(256, N / 256), tsr_on(mesh, "x,-"));
  tsr_array *b = tsr_constrain(tsr_add(a, 1), tsr_on(mesh, "-,x"));
  tsr_status status = tsr_read_scalar(tsr_cast(tsr_sum(b), TSR_F64), total);
  if (!status) tsr_scope_clear(s);
  return status;
}

/* As often as all others compute: well after a link that was gone came back. */
static int turns_of(const char *how)
{
  if (!strcmp(how, "cut")) return 1200;
  return !strcmp(how, "gone") ? 160 : 0;
}

static int take_part(const char *how)
{
  double patience = strcmp(how, "gone") ? 4 : 30;
  tsr_runtime *rt = tsr_initialize("cpu:2", .stall_timeout = patience, .close_timeout = 10);
  if (tsr_runtime_status(rt)) {
    fprintf(stderr, "%s\n", tsr_runtime_message(rt));
    return 9;
  }
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  double total = 0;
  tsr_status status = compute(s, mesh, &total);
  printf("computed %g\n", total);
  fflush(stdout);
  for (int turn = 0; turn < turns_of(how) && !status; turn++) {
    usleep(50000);
    status = compute(s, mesh, &total);
  }
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status ? 5 : 0;
}

/* Before the harness, which knows nothing of it. */
__attribute__((constructor)) static void take_part_instead(void)
{
  const char *how = getenv("TEST_HOW");
  if (how) exit(take_part(how));
}

/* ---- what comes of it ------------------------------------------------------------------------ */

static void check_hosts(const char *how, const char *codes, const char *said)
{
  char self[1024], folder[600], command[4096], path[700];
  among_plugins();
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  CHECK(length > 0);
  self[length] = '\0';
  snprintf(folder, sizeof folder, "%s", test_tmp(""));
  snprintf(command, sizeof command, "TEST_HOW=%s TSR_LOG=process '%s' %s '%s' '%s'", how,
           test_file("support/two_hosts.sh"), how, folder, self);
  int status = system(command);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    SKIP("this machine lets nobody make networks: root and iproute2 are needed");
  CHECK_I64(status, 0);
  for (int i = 0; i < COUNT; i++) {
    snprintf(path, sizeof path, "%s/%d", folder, i);
    char *out = test_read(path, NULL);
    CHECK_STR_HAS(out, "engine ucx: 4 processes on 2 hosts");
    CHECK_STR_HAS(out, "computed 2.12992e+06");
    CHECK_STR_HAS(out, said);
    free(out);
  }
  snprintf(path, sizeof path, "%s/codes", folder);
  char *found = test_read(path, NULL);
  CHECK_STR(found, codes);
  free(found);
}

TEST_TIMEOUT(two_hosts_compute_together, 120)
{
  check_hosts("well", "0\n0\n0\n0\n", "");
}

TEST_TIMEOUT(a_slow_link_is_only_slow, 120)
{
  check_hosts("slow", "0\n0\n0\n0\n", "");
}

TEST_TIMEOUT(a_link_that_comes_back_is_waited_for, 180)
{
  check_hosts("gone", "0\n0\n0\n0\n", "");
}

TEST_TIMEOUT(a_link_that_is_cut_is_an_error_everywhere, 180)
{
  check_hosts("cut", "5\n5\n5\n5\n", "process ");
}
