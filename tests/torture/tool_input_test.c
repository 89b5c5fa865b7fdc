/* The command-line tool in hostile hands: whatever it is given, it exits with 0, 1 or 2 as its help
 * says, never by a signal, and a failure leaves a message on stderr. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* build/<preset>/bin/tessera, found from build/<preset>/tests/torture/tool_input_test. */
static void tool_path(char *path, size_t size)
{
  ssize_t length = readlink("/proc/self/exe", path, size - 1);
  CHECK(length > 0);
  path[length] = 0;
  for (int i = 0; i < 3; i++) *strrchr(path, '/') = 0;
  size_t end = strlen(path);
  snprintf(path + end, size - end, "/bin/tessera");
  if (access(path, X_OK) != 0) SKIP("the tool is not built");
}

/* Runs a shell line in which $T is the tool, in the test's folder; its stderr goes to err.txt. */
static int shell(const char *line)
{
  char tool[1024], command[4096];
  tool_path(tool, sizeof tool);
  int length = snprintf(command, sizeof command, "cd '%s' || exit 99; T='%s'; { %s; } 2>err.txt",
                        test_tmp("."), tool, line);
  CHECK(length < (int)sizeof command);
  int status = system(command);
  CHECK(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void expect(const char *line, int code, const char *message)
{
  int found = shell(line);
  char *err = test_read(test_tmp("err.txt"), NULL);
  if (found != code) FAIL("%s: exit status %d, expected %d; stderr: %s", line, found, code, err);
  if (*message) CHECK_STR_HAS(err, message);
  else CHECK_STR(err, "");
  free(err);
}

static void write_text(const char *name, const char *text)
{
  test_write(test_tmp(name), text, strlen(text));
}

static void write_files(void)
{
  write_text("t.csv",
             "city,day,temp\nOslo,2013-01-01,-4.5\nRome,2013-01-01,12\nOslo,2013-01-02,NA\n");
  write_text("empty.csv", "");
  write_text("header.csv", "city,temp\n");
  write_text("open.csv", "a,b\n1,\"2\n");
  write_text("big.csv", "n\n1\n9223372036854775807\n");
  mkdir(test_tmp("folder"), 0700);
}

TEST(files_that_are_none_exit_with_1)
{
  write_files();
  static const char *const names[] = { "none.csv", "empty.csv", "open.csv", "folder" };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char line[256];
    snprintf(line, sizeof line, "$T query %s >out.txt", names[i]);
    expect(line, 1, names[i]);
    /* An empty file beside others gives no rows, and a note. */
    snprintf(line, sizeof line, "$T query t.csv %s t.csv >out.txt", names[i]);
    expect(line, strcmp(names[i], "empty.csv") != 0, names[i]);
  }
  expect("$T query '' >out.txt", 1, "tessera: ");
  expect("$T schema empty.csv >out.txt", 1, "empty.csv");
  expect("$T schema none.csv t.csv >out.txt", 1, "none.csv");
  expect("$T query t.csv none.csv --explain >out.txt", 1, "none.csv");
  if (geteuid() != 0) {
    chmod(test_tmp("t.csv"), 0);
    expect("$T query t.csv >out.txt", 1, "t.csv");
  }
}

TEST(tables_without_rows_exit_with_0)
{
  write_files();
  expect("$T query header.csv >out.txt", 0, "");
  expect("$T query header.csv --agg 'count(), n = count(temp)' >out.txt", 0, "");
  expect("$T query header.csv --limit 0 --devices cpu:64 >out.txt", 0, "");
  expect("$T query t.csv --where 'temp > 99' --agg 'mean(temp)' --by city >out.txt", 0, "");
  expect("$T query t.csv --where 'temp > 99' --explain --devices cpu:7 >out.txt", 0, "");
  expect("$T schema header.csv >out.txt", 0, "");
}

TEST(hostile_arguments_exit_with_1_or_2)
{
  write_files();
  expect("$T query t.csv --where \"$(printf '%09999d' 0 | tr 0 '(')\" >out.txt", 1, "tessera: ");
  expect("$T query t.csv --where \"$(printf '\\377')\" >out.txt", 1, "tessera: ");
  expect("$T query t.csv --where '' >out.txt", 1, "tessera: ");
  expect("$T query t.csv --select 'city, city' >out.txt", 1, "city");
  expect("$T query t.csv --agg 'x = sum(temp), x = min(temp)' >out.txt", 1, "x");
  expect("$T query t.csv --with '\"a b\" = temp' --select '\"a b\"' >out.txt", 0, "");
  expect("$T query t.csv --where 'temp > ?' >out.txt", 1, "?");
  expect("$T query t.csv --devices '' >out.txt", 1, "tessera: ");
  expect("$T query t.csv --devices cpu:99999999999 >out.txt", 1, "cpu:99999999999");
  expect("$T query big.csv --with 'm = n + 1' >out.txt", 1, "row 1");
  expect("$T query big.csv --agg 'sum(n)' >out.txt", 1, "tessera: ");
  expect("$T --nothing >out.txt", 2, "--nothing");
  expect("$T query t.csv --limit '' >out.txt", 2, "--limit");
  expect("$T query t.csv --limit 1x >out.txt", 2, "--limit");
  expect("$T '' >out.txt", 2, "tessera");
  expect("$T query --agg >out.txt", 2, "--agg");
}

TEST(output_that_cannot_be_written_exits_with_1)
{
  write_files();
  static const char *const calls[] = {
    "query t.csv",  "schema t.csv",         "info", "--help", "--version",
    "query --help", "query t.csv --explain"
  };
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    char line[256];
    snprintf(line, sizeof line, "$T %s >/dev/full", calls[i]);
    expect(line, 1, "tessera: ");
    snprintf(line, sizeof line, "$T %s >&-", calls[i]);
    expect(line, 1, "tessera: ");
  }
  CHECK_I64(shell("$T query none.csv >out.txt 2>&-"), 1);
  CHECK_I64(shell("$T query none.csv >out.txt 2>/dev/full"), 1);
  CHECK_I64(shell("$T query t.csv <&- >out.txt"), 0);
}

/* A reader that goes away ends the tool quietly, as it does every filter. */
TEST(a_reader_that_leaves_is_no_crash)
{
  write_files();
  char *many = malloc(1 << 20), *at = many + sprintf(many, "a,b\n");
  for (int i = 0; i < 20000; i++) at += sprintf(at, "%d,%d\n", i, i);
  test_write(test_tmp("many.csv"), many, (size_t)(at - many));
  free(many);
  int code = shell("{ $T query many.csv; echo $? >code.txt; } | true");
  CHECK_I64(code, 0);
  char *text = test_read(test_tmp("code.txt"), NULL);
  CHECK(atoi(text) == 0 || atoi(text) == 1 || atoi(text) == 128 + 13);
  free(text);
}
