/* tessera run: who is started with what, what comes out, who is blamed. The programs are shells,
 * and this test itself where they are to meet: with TEST_MEET set it joins instead of testing. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/process_fixture.h"
#include "support/tool_fixture.h"

/* Runs `tessera run ARGUMENTS` by a shell, "$SELF" being this program; the exit code. What came out
 * on both streams is `*out`, which the caller frees. */
static int run(const char *arguments, char **out)
{
  char tool[1024], self[1024], command[4096];
  tool_path(tool, sizeof tool);
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  CHECK(length > 0);
  self[length] = '\0';
  setenv("SELF", self, 1);
  snprintf(command, sizeof command, "'%s' run %s >'%s' 2>&1", tool, arguments, test_tmp("out"));
  int status = system(command);
  *out = test_read(test_tmp("out"), NULL);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void check_run(const char *arguments, int code, const char *const *parts)
{
  char *out;
  int found = run(arguments, &out);
  for (; *parts; parts++) CHECK_STR_HAS(out, *parts);
  if (found != code) FAIL("%s: exit code %d, expected %d\n%s", arguments, found, code, out);
  free(out);
}

#define PARTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* ---- the program that meets ------------------------------------------------------------------ */

static int meet(const char *how)
{
  tsr_runtime *rt = tsr_initialize("cpu:1");
  if (tsr_runtime_status(rt)) {
    fprintf(stderr, "%s\n", tsr_runtime_message(rt));
    return 9;
  }
  tsr_scope *s = tsr_scope_open(rt);
  int me = tsr_process_index(rt), code = 0;
  tsr_status status = tsr_sync(s, "begin");
  printf("process %d of %d\n", me, tsr_process_count(rt));
  fflush(stdout);
  if (me == 2 && !strcmp(how, "kill")) raise(SIGKILL);
  if (!strcmp(how, "nested")) code = system("TEST_MEET=compute \"$SELF\"") ? 7 : 0;
  if (me == 2 && !strcmp(how, "exit")) _exit(3);
  if (me == 2 && !strcmp(how, "leave")) _exit(0);
  if (me == 2 && !strcmp(how, "live")) raise(SIGKILL);
  if (me == 2 && !strcmp(how, "stop")) raise(SIGSTOP);
  for (int i = 0; i < 2 && !status && !strcmp(how, "lost"); i++) /* the second fails: it is there */
    status = tsr_checkpoint_save(s, getenv("TEST_PATH"), tsr_num(s, 1), .background = i);
  if (!status) status = tsr_sync(s, "end", .timeout = 30);
  if (status && !strcmp(how, "live")) {
    sleep(3); /* longer than the tool would leave it */
    puts("went on");
    tsr_scope_clear(s);
  } else if (status) {
    fprintf(stderr, "%s\n", tsr_message(s));
    code = 5;
  }
  tsr_runtime_close(rt);
  return code;
}

/* A program that knows nothing of processes, with eight devices. */
static int compute(void)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  if (tsr_runtime_status(rt)) fprintf(stderr, "%s\n", tsr_runtime_message(rt));
  int code = tsr_runtime_status(rt) ? 9 : 0;
  if (!code) printf("%d of %d devices\n", tsr_local_device_count(rt), tsr_device_count(rt));
  tsr_runtime_close(rt);
  return code;
}

/* Before the harness, which knows nothing of it. */
__attribute__((constructor)) static void meet_instead(void)
{
  const char *how = getenv("TEST_MEET");
  if (how) exit(!strcmp(how, "compute") ? compute() : meet(how));
}

TEST(processes_meet)
{
  check_run("-n 4 env TEST_MEET=well \"$SELF\"", 0,
            PARTS("[0] process 0 of 4\n", "[1] process 1 of 4\n", "[2] process 2 of 4\n",
                  "[3] process 3 of 4\n"));
  check_run("--processes=1 env TEST_MEET=well \"$SELF\"", 0, PARTS("[0] process 0 of 1\n"));
  check_run("-n 20 env TEST_MEET=well \"$SELF\"", 0, PARTS("[19] process 19 of 20\n"));
}

/* The program of the guide prints there what it prints here. */
TEST(the_guides_program_meets)
{
  char command[1200];
  tool_build_path(command, sizeof command);
  strcat(command, "/tests/guide/guide_processes_1");
  if (access(command, X_OK) != 0) SKIP("the guide's programs are not built");
  setenv("HELLO", command, 1);
  check_run("-n 3 \"$HELLO\"", 0,
            PARTS("[0] process 0 of 3: hello, 6\n", "[1] process 1 of 3: hello, 6\n",
                  "[2] process 2 of 3: hello, 6\n"));
}

TEST(what_was_found_is_logged)
{
  check_run("-n 2 env TEST_MEET=well TSR_LOG=process \"$SELF\"", 0,
            PARTS("[1] tsr process: process 1 of 2, coordinator unix:",
                  ", with a secret; found by "
                  "TSR_* variables\n",
                  "process 0 has left"));
}

TEST(a_killed_process_is_blamed)
{
  check_run("-n 4 env TEST_MEET=kill \"$SELF\"", 128 + SIGKILL,
            PARTS("[0] ", "'end': process 2 (pid ",
                  ") failed: its connection closed without a "
                  "goodbye",
                  "tessera run: process 2 of 4 failed first: ended by signal 9 (Killed)\n"));
  check_run("-n 4 env TEST_MEET=exit \"$SELF\"", 3,
            PARTS("'end': process 2 (pid ",
                  "tessera run: process 2 of 4 failed first: exit code 3\n"));
}

/* The others end at once, most before the tool looks: the processes know who was first. */
TEST(the_first_is_blamed_whoever_the_tool_sees_first)
{
  for (int i = 0; i < 5; i++)
    check_run("-n 8 env TEST_MEET=exit \"$SELF\"", 3,
              PARTS("tessera run: process 2 of 8 failed first: exit code 3\n"));
  check_run("-n 4 env TEST_MEET=leave \"$SELF\"", 1,
            PARTS("tessera run: process 2 of 4 failed first: exit code 0: process 2 (pid ",
                  "its connection closed without a goodbye"));
}

TEST(the_others_may_go_on)
{
  check_run("-n 4 --on-failure error env TEST_MEET=live \"$SELF\"", 0,
            PARTS("[0] went on\n", "[1] went on\n", "[3] went on\n",
                  "tessera run: process 2 of 4 failed first: ended by signal 9 (Killed)\n"));
  check_run("-n 2 --on-failure never true", 2, PARTS("--on-failure"));
}

TEST(a_stopped_process_is_blamed)
{
  check_run("-n 4 env TEST_MEET=stop TSR_STALL_TIMEOUT=3 \"$SELF\"", 1,
            PARTS("no heartbeat for 3 s",
                  "process 2 of 4 was stopped, and the other processes stopped waiting for it\n"));
}

/* ---- what it does with any program ----------------------------------------------------------- */

TEST(lines_have_their_process_in_front)
{
  char *out;
  CHECK_I64(run("-n 2 sh -c 'echo a $TSR_PROCESS_INDEX; printf \"b\\nc\"; echo d >&2'", &out), 0);
  for (int i = 0; i < 2; i++) {
    static const char *const lines[] = { "a 0", "b", "c", "d" };
    for (int k = 0; k < 4; k++) {
      char line[32];
      snprintf(line, sizeof line, "[%d] %s\n", i, k ? lines[k] : i ? "a 1" : "a 0");
      CHECK_STR_HAS(out, line);
    }
  }
  free(out);
  /* One without an end is a line, too. */
  CHECK_I64(run("-n 1 sh -c 'head -c 20000 /dev/zero | tr \"\\0\" x'", &out), 0);
  CHECK_U64(strlen(out), 20000 + 5);
  free(out);
}

/* Of any length. */
TEST(long_lines_stay_whole)
{
  enum { LONG = 300000 };
  char *out;
  CHECK_I64(run("-n 2 sh -c 'head -c 300000 /dev/zero | tr \\\\0 x; echo; echo end'", &out), 0);
  const char *line = strstr(out, "[1] x");
  CHECK(line && strspn(line + 4, "x") == LONG && line[4 + LONG] == '\n');
  CHECK_STR_HAS(out, "[1] end\n");
  free(out);
}

/* Waits until a folder has no entry, or has one. */
static bool comes_to(const char *folder, bool empty)
{
  char command[700];
  snprintf(command, sizeof command, "[ -z \"$(ls '%s')\" ]", folder);
  for (int i = 0; i < 3000; i++) {
    if ((system(command) == 0) == empty) return true;
    usleep(10000);
  }
  return false;
}

/* `tessera run -n 2` of a shell command, with its folder in `folder`. */
static pid_t start_tool(const char *folder, const char *command)
{
  char tool[1024];
  tool_path(tool, sizeof tool);
  CHECK(!mkdir(folder, 0700));
  pid_t id = fork();
  if (id) return id;
  setenv("TMPDIR", folder, 1);
  execl(tool, tool, "run", "-n", "2", "sh", "-c", command, (char *)NULL);
  _exit(127);
}

TEST(a_killed_tool_leaves_nothing)
{
  char folder[600];
  snprintf(folder, sizeof folder, "%s", test_tmp("killed"));
  pid_t id = start_tool(folder, "sleep 60");
  CHECK(comes_to(folder, false));
  kill(id, SIGKILL);
  CHECK(waitpid(id, NULL, 0) == id);
  CHECK(comes_to(folder, true));
}

TEST(a_stopped_process_hears_the_end)
{
  char folder[600], command[800];
  int status;
  snprintf(folder, sizeof folder, "%s", test_tmp("stopped"));
  snprintf(command, sizeof command,
           "touch '%s/here.'$TSR_PROCESS_INDEX; kill -STOP $$; exec sleep 60", folder);
  pid_t id = start_tool(folder, command);
  char both[1300];
  snprintf(both, sizeof both, "[ -e '%s/here.0' ] && [ -e '%s/here.1' ]", folder, folder);
  for (int i = 0; i < 3000 && system(both); i++) usleep(10000);
  kill(id, SIGTERM);
  CHECK(waitpid(id, &status, 0) == id);
  CHECK(WIFEXITED(status));
  CHECK_I64(WEXITSTATUS(status), 128 + SIGTERM);
}

TEST(each_is_told_who_it_is)
{
  check_run(
      "-n 2 sh -c 'echo $TSR_PROCESS_INDEX/$TSR_PROCESS_COUNT $TSR_COORDINATOR ${#TSR_SECRET}'", 0,
      PARTS("[0] 0/2 unix:", "[1] 1/2 unix:", "/job 32\n"));
  check_run("-n 1 --coordinator 127.0.0.1:7 sh -c 'echo $TSR_COORDINATOR'", 0,
            PARTS("[0] 127.0.0.1:7\n"));
  /* Process 0 reads what comes in, the others nothing. */
  char *out;
  setenv("TEST_IN", test_tmp("in"), 1);
  test_write(test_tmp("in"), "line\n", 5);
  CHECK_I64(run("-n 2 cat <\"$TEST_IN\"", &out), 0);
  CHECK_STR(out, "[0] line\n");
  free(out);
}

TEST(one_that_fails_ends_the_others)
{
  double began = fixture_now();
  check_run("-n 3 sh -c 'test $TSR_PROCESS_INDEX = 1 && exit 7; sleep 100'", 7,
            PARTS("tessera run: process 1 of 3 failed first: exit code 7\n"));
  CHECK(fixture_now() - began < 20);
  check_run("-n 2 /no/such/program", 127,
            PARTS("[0] cannot run /no/such/program: No such file or directory\n",
                  "exit code 127\n"));
}

TEST(signals_are_passed_on)
{
  /* Process 0 tells the tool to end once process 1 is ready for it. */
  setenv("READY", test_tmp("ready"), 1);
  check_run("-n 2 sh -c 'trap \"echo was told; exit 0\" TERM; if test $TSR_PROCESS_INDEX = 1; then "
            "touch \"$READY\"; else while ! test -e \"$READY\"; do sleep 0.02; done; kill -TERM "
            "$PPID; fi; while true; do sleep 0.05; done'",
            128 + SIGTERM, PARTS("[0] was told\n", "[1] was told\n"));
}

/* Eight devices cannot be dealt out to three processes: none of them computes alone. */
TEST(devices_that_cannot_be_dealt_out)
{
  check_run("-n 3 env TEST_MEET=compute \"$SELF\"", 9,
            PARTS("the 8 devices of \"cpu:8\" cannot be split evenly over 3 processes",
                  "divides 8 (1, 2, 4, 8), or open 9 devices"));
  check_run("-n 4 env TEST_MEET=compute \"$SELF\"", 0, PARTS("[3] 2 of 8 devices\n"));
  /* What a process of the job starts is none of it. */
  check_run("-n 3 env TEST_MEET=nested \"$SELF\"", 0, PARTS("[2] 8 of 8 devices\n"));
}

TEST(wrong_command_lines_are_told)
{
  check_run("-n 2", 2, PARTS("tessera run: PROGRAM is missing"));
  check_run("true", 2,
            PARTS("tessera run: the number of processes is missing; give it, such as -n 4"));
  check_run("-n 0 true", 2, PARTS("the number of processes is missing"));
  check_run("-n x true", 2, PARTS("--processes takes a number of processes, found 'x'"));
  check_run("--proceses 2 true", 2, PARTS("did you mean --processes?"));
  check_run("-n 5000 true", 2, PARTS("5000 is too large; the most is 1024"));
}

/* Programs that end well though a save in the background failed, of which they did not ask. */
TEST(a_save_that_nobody_asked_for_fails_the_job)
{
  setenv("TEST_PATH", test_tmp("ckpt"), 1);
  check_run("-n 2 env TEST_MEET=lost \"$SELF\"", 1,
            PARTS("process 0 of 2", "process 1 of 2",
                  "[1] tsr checkpoint: a save in the background", "tessera run: process ",
                  " of 2: a save in the background failed: ", "step_0 exists already"));
}
