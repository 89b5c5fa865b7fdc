/* The command-line tool at a terminal: the progress line, interruptions, readers that go away. */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/tool_fixture.h"

/* A second of work or so, so that the line is drawn many times. */
static void write_rows(int64_t rows)
{
  FILE *file = fopen(test_tmp("t.csv"), "w");
  CHECK(file != NULL);
  fprintf(file, "id,word,v\n");
  for (int64_t i = 0; i < rows; i++)
    fprintf(file, "%lld,w%lld,%lld.25\n", (long long)i, (long long)(i * 7919 % 30011),
            (long long)(i * 104729 % 99991));
  CHECK_I64(fclose(file), 0);
}

/* The line is drawn after two seconds: that long the input is kept open, longer where the tool
 * began late on a busy machine. */
#define SLOWLY "(cat t.csv; sleep $S) | $T query - --from csv --sort 'word, v desc' "
static const char *const input_seconds[] = { "2.1", "3.5", "6" };
static const double typed_after[] = { 0.7, 2, 4 };
enum { TRIES = 3 };

/* How many lines of progress there are; each is as full as those before it, and a wiped one comes
 * last, before `after` if that is given. */
static int check_lines(const char *seen, const char *after)
{
  int lines = 0;
  size_t full = 0;
  const char *last = NULL;
  for (const char *at = seen; (at = strstr(at, " [")); lines++) {
    size_t now = strspn(at + 2, "#");
    if (now < full) FAIL("the bar goes back from %zu to %zu: %s", full, now, seen);
    CHECK(now < 30);
    full = now;
    last = at += 2;
  }
  const char *wiped = last ? strstr(last, "\r          ") : seen;
  CHECK(wiped != NULL);
  if (last && after) CHECK(strstr(wiped, after) != NULL && strstr(seen, after) > wiped);
  return lines;
}

TEST_TIMEOUT(progress_moves_forwards_and_is_wiped, 240)
{
  static const struct {
    const char *options, *first;
  } cases[] = { { "--format csv | tail -3; echo done", "done" },
                { "--limit 3 --format csv", "id,word,v" },
                { "--limit 3 --format json", "{\"id\"" },
                { "--limit 3 --format md", "| id |" },
                { "--limit 3", "┌" },
                { "--explain", "step " },
                { "--out o.csv; cat o.csv | head -1", "id,word,v" } };
  write_rows(test_quick() ? 60000 : 600000);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i += 1 + test_quick()) {
    char command[500];
    int status, lines = 0;
    snprintf(command, sizeof command, SLOWLY "%s", cases[i].options);
    for (int k = 0; k < TRIES && !lines; k++) {
      setenv("S", input_seconds[k], 1);
      char *seen = tool_at_terminal(command, 0, &status);
      lines = check_lines(seen, cases[i].first);
      CHECK_STR_HAS(seen, cases[i].first);
      CHECK_I64(status, 0);
      free(seen);
    }
    CHECK(lines > 0);
  }
}

/* How often a text stands in another. */
static int times(const char *text, const char *part)
{
  int count = 0;
  for (; (text = strstr(text, part)); text += strlen(part)) count++;
  return count;
}

/* Types ^C, later where the shell had not begun the tool yet; what was seen then. */
static char *interrupted(const char *command, int *status)
{
  char *seen = NULL;
  for (int k = 0; k < TRIES && !(seen && strstr(seen, "interrupted")); k++) {
    free(seen);
    seen = tool_at_terminal(command, typed_after[k], status);
  }
  return seen;
}

TEST_TIMEOUT(an_interruption_is_said_once, 120)
{
  static const char *const commands[] = {
    "(cat t.csv; sleep 9) | exec $T query - --from csv",
    "exec $T query - --from csv --out o.csv < <(cat t.csv; sleep 9)",
  };
  int status;
  write_rows(60000);
  for (size_t i = 0; i < 2; i++) {
    char *seen = interrupted(commands[i], &status);
    /* Of the first the shell is what ends: of the signal too, or saying that its pipeline did. */
    bool ended = (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) ||
                 (i == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGINT);
    if (!ended) FAIL("%s: status %x, seen %s", commands[i], (unsigned)status, seen);
    CHECK_I64(times(seen, "interrupted"), 1);
    CHECK_STR_HAS(seen, "tessera: interrupted\r\n");
    free(seen);
  }
  char *seen = interrupted("trap : INT; sleep 9 | $T query - --from csv; echo code $?", &status);
  CHECK_STR_HAS(seen, "code 130\r\n");
  free(seen);
}

/* Wherever in the work it comes: no half-made file stays, and the message is not that of the
 * library. */
TEST_TIMEOUT(interrupted_work_is_tidied_up, 120)
{
  write_rows(test_quick() ? 200000 : 600000);
  setenv("S", input_seconds[0], 1);
  for (int i = 0; i < (test_quick() ? 2 : 6); i++) {
    int status;
    char *seen = tool_at_terminal(SLOWLY "--out o.csv", 2.15 + 0.1 * i, &status);
    bool done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    CHECK((access(test_tmp("o.csv"), F_OK) == 0) == done);
    CHECK_I64(times(seen, "interrupted"), !done);
    CHECK_I64(times(seen, "cancelled"), 0);
    check_lines(seen, NULL);
    free(seen);
    remove(test_tmp("o.csv"));
  }
}

/* Nothing is left to be seen: nothing was said, or, on a machine that is busy, the line was. */
static bool is_blank(const char *seen)
{
  enum { WIDE = 60 };
  size_t length = strlen(seen);
  if (!length) return true;
  return length > WIDE + 2 && seen[0] == '\r' && seen[length - 1] == '\r' &&
         strspn(seen + length - 1 - WIDE, " ") == WIDE;
}

/* Whoever reads may stop: nothing is said, whether SIGPIPE was ignored or not. */
TEST(readers_that_go_away_are_no_failure)
{
  static const char *const commands[] = {
    "query t.csv --format csv",
    "query t.csv --format tsv --devices cpu:4",
    "query t.csv --format json",
    "query t.csv --format md",
    "query t.csv --rows 0",
    "query t.csv --sort 'v desc' --format csv",
    "convert t.csv - --from csv",
    "query t.csv --explain",
    "schema t.csv",
    "schema t.csv --quick",
    "man",
    "query --help",
    "info",
    "completion bash",
  };
  write_rows(60000);
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    for (int ignored = 0; ignored < 2; ignored++) {
      char command[500];
      int status;
      snprintf(command, sizeof command, "%s ($T %s; echo $? >code.txt) | true; sleep 0.05",
               ignored ? "trap '' PIPE;" : "", commands[i]);
      char *seen = tool_at_terminal(command, 0, &status);
      if (!is_blank(seen)) FAIL("%s said %s", command, seen);
      char *code = test_read(test_tmp("code.txt"), NULL);
      bool large = i < 6; /* more than a pipe holds */
      if (strcmp(code, "141\n") != 0 && (large || strcmp(code, "0\n") != 0))
        FAIL("%s: exit status %s", command, code);
      free(code);
      free(seen);
    }
}
