/* tessera bench collectives: its lines in one process and in several, and what it refuses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "harness.h"
#include "support/tool_fixture.h"

/* Runs a command line in which $TOOL is the tool; the exit code, and what came out on both
 * streams, which the caller frees. */
static int run(const char *line, char **out)
{
  char tool[1024], command[4096];
  tool_path(tool, sizeof tool);
  setenv("TOOL", tool, 1);
  snprintf(command, sizeof command, "{ %s; } >'%s' 2>&1", line, test_tmp("out"));
  int status = system(command);
  *out = test_read(test_tmp("out"), NULL);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int count_of(const char *text, const char *part)
{
  int count = 0;
  for (; (text = strstr(text, part)); text += strlen(part)) count++;
  return count;
}

static const char *const collectives[] = { "all_reduce ", "all_gather ", "reduce_scatter ",
                                           "all_to_all " };

TEST(a_line_for_each_size)
{
  char *out;
  CHECK_I64(run("\"$TOOL\" bench collectives --devices cpu:3 --min 12 --max 4K --factor 16", &out),
            0);
  CHECK_STR_HAS(out, "# 3 devices in 1 processes");
  for (int i = 0; i < 4; i++) CHECK_I64(count_of(out, collectives[i]), 3);
  CHECK_STR_HAS(out, "         192          48   f32   sum");
  CHECK_STR_HAS(out, "        3072         768   f32  none");
  free(out);
}

TEST(processes_print_once)
{
  char *out;
  CHECK_I64(run("\"$TOOL\" run -n 3 \"$TOOL\" bench collectives --only all_reduce --type f64"
                " --min 2M --max 2M",
                &out),
            0);
  CHECK_STR_HAS(out, "[0] # 3 devices in 3 processes");
  CHECK_STR_HAS(out, "[0] all_reduce          2097152      262144   f64   sum");
  CHECK(!strstr(out, "[1]") && !strstr(out, "all_gather"));
  free(out);
}

TEST(json_has_a_record_for_each_line)
{
  char *out;
  CHECK_I64(run("\"$TOOL\" bench collectives --json --max 64", &out), 0);
  CHECK(!strncmp(out, "[\n  {\"collective\": \"all_reduce\", \"places\": 2", 40));
  CHECK_STR_HAS(out, "\"share\": null, \"wrong\": false}\n]\n");
  CHECK_I64(count_of(out, "\"busbw\": "), 8);
  free(out);
}

TEST(what_is_no_bench_is_refused)
{
  static const struct {
    const char *line, *text;
  } cases[] = {
    { "bench", "takes 'collectives'" },
    { "bench sorts", "takes 'collectives'" },
    { "bench collectives --min 1x", "--min takes a number of bytes, such as 64K, found '1x'" },
    { "bench collectives --max 0", "--max takes a number of bytes" },
    { "bench collectives --max 9999999999999G", "--max takes a number of bytes" },
    { "bench collectives --factor 1", "--factor takes 2 or more, found '1'" },
    { "bench collectives --only psum", "--only takes one of: all_reduce" },
    { "bench collectives --where 'a > 1'", "there is no option '--where'" },
  };
  char line[200], *out;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    snprintf(line, sizeof line, "\"$TOOL\" %s", cases[i].line);
    CHECK_I64(run(line, &out), 2);
    CHECK_STR_HAS(out, cases[i].text);
    free(out);
  }
}
