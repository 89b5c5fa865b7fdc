/* Logging: silent by default, areas and levels from TSR_LOG, the user's function, stderr. */
#include "harness.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

/* What the user's function was given, as "level area line;". */
static char seen[4000];

static void record(tsr_log_level level, const char *area, const char *line, void *user)
{
  CHECK(user == seen);
  size_t length = strlen(seen);
  snprintf(seen + length, sizeof seen - length, "%d %s %s;", (int)level, area, line);
}

static tsr_runtime *open_logging(const char *variable)
{
  if (variable) setenv("TSR_LOG", variable, 1);
  else unsetenv("TSR_LOG");
  seen[0] = '\0';
  return tsr__runtime_new(&(tsr_runtime_opts){ .log = record, .log_user = seen });
}

static void say_all(tsr_runtime *rt)
{
  tsr__log(rt, TSR_LOG_ERROR, "base", "e%d", 1);
  tsr__log(rt, TSR_LOG_INFO, "io", "i");
  tsr__log(rt, TSR_LOG_DEBUG, "execute", "d");
  tsr__log(rt, TSR_LOG_TRACE, "execute", "t");
}

static void check_said(const char *variable, const char *expected)
{
  tsr_runtime *rt = open_logging(variable);
  say_all(rt);
  tsr_runtime_close(rt);
  CHECK_STR(seen, expected);
}

TEST(a_function_gets_info_unless_told_otherwise)
{
  check_said(NULL, "1 base e1;3 io i;");
  check_said("", "1 base e1;3 io i;");
  check_said("debug", "1 base e1;3 io i;4 execute d;");
  check_said("trace", "1 base e1;3 io i;4 execute d;5 execute t;");
  check_said("error", "1 base e1;");
  check_said("off", "");
}

TEST(areas_have_levels_of_their_own)
{
  check_said("execute", "1 base e1;3 io i;4 execute d;");
  check_said("execute:trace", "1 base e1;3 io i;4 execute d;5 execute t;");
  check_said("off,execute:debug,io:warn", "4 execute d;");
  check_said("execute:debug,off", "4 execute d;"); /* the order of the two does not matter */
  check_said("io:off", "1 base e1;");
  check_said(" io:off , execute ", "1 base e1;4 execute d;");
  check_said("io:off,io:info", "1 base e1;3 io i;"); /* of one area the last word counts */
}

TEST(mistakes_are_told_and_the_rest_is_used)
{
  check_said("exceute:debug,io:off",
             "2 base TSR_LOG: no area 'exceute'; did you mean 'execute'?;1 base e1;");
  check_said("execute:debgu",
             "2 base TSR_LOG: no level 'debgu'; did you mean 'debug'?;1 base e1;3 io i;");
  check_said("execute:", "2 base TSR_LOG: no level '';1 base e1;3 io i;");
  check_said(":", "2 base TSR_LOG: no level '';1 base e1;3 io i;");
  check_said(",,,", "1 base e1;3 io i;");
  char monster[5000];
  memset(monster, 'x', sizeof monster - 1);
  monster[sizeof monster - 1] = '\0';
  tsr_runtime *rt = open_logging(monster);
  CHECK_STR_HAS(seen, "2 base TSR_LOG: no area 'xxxxxxx");
  CHECK(strlen(seen) < 100);
  tsr_runtime_close(rt);
  for (int i = 0; i < 1000; i++) memcpy(monster + 3 * i, "io,", 4);
  rt = open_logging(monster); /* more entries than the table holds */
  CHECK(tsr__log_on(rt, TSR_LOG_DEBUG, "io"));
  tsr_runtime_close(rt);
}

/* Every folder of the sources is a room, and every room an area. */
TEST(all_rooms_are_areas)
{
  int rooms = 0;
  DIR *folder = opendir(test_file("../src"));
  CHECK(folder);
  for (struct dirent *room; (room = readdir(folder));) {
    if (strchr(room->d_name, '.')) continue;
    tsr_runtime_close(open_logging(room->d_name));
    CHECK_STR(seen, "");
    rooms++;
  }
  closedir(folder);
  CHECK(rooms >= 15);
}

TEST(asking_first_spares_the_work)
{
  tsr_runtime *rt = open_logging("warn,graph:trace");
  CHECK(tsr__log_on(rt, TSR_LOG_TRACE, "graph"));
  CHECK(!tsr__log_on(rt, TSR_LOG_INFO, "io"));
  CHECK(tsr__log_on(rt, TSR_LOG_WARN, "io"));
  CHECK(!tsr__log_on(NULL, TSR_LOG_ERROR, "io"));
  tsr_runtime_close(rt);
}

TEST(lines_are_whole_and_single)
{
  tsr_runtime *rt = open_logging(NULL);
  tsr__log(rt, TSR_LOG_INFO, "io", "first\nsecond\n");
  CHECK_STR(seen, "3 io first;3 io second;");
  seen[0] = '\0';
  tsr__log(rt, TSR_LOG_INFO, "io", "%3000d", 5);
  CHECK_U64(strlen(seen), 3000 + strlen("3 io ;"));
  tsr_runtime_close(rt);
}

/* What a piece of code writes to stderr. */
static char *captured(const char *variable)
{
  const char *path = test_tmp("stderr.txt");
  fflush(stderr);
  int saved = dup(2);
  CHECK(freopen(path, "w", stderr) != NULL);
  if (variable) setenv("TSR_LOG", variable, 1);
  else unsetenv("TSR_LOG");
  tsr_runtime *rt = tsr__runtime_new(NULL);
  say_all(rt);
  tsr_runtime_close(rt);
  fflush(stderr);
  dup2(saved, 2);
  close(saved);
  return test_read(path, NULL);
}

TEST(without_a_function_only_tsr_log_prints)
{
  char *text = captured(NULL);
  CHECK_STR(text, "");
  free(text);
  text = captured("execute:debug");
  CHECK_STR(text, "tsr execute: d\n");
  free(text);
  text = captured("info");
  CHECK_STR(text, "tsr base: e1\ntsr io: i\n");
  free(text);
}

TEST(no_memory_means_no_log)
{
  struct test_alloc state = { .fail_at = 2 };
  tsr_allocator user = test_allocator(&state);
  tsr_runtime *rt =
      tsr__runtime_new(&(tsr_runtime_opts){ .log = record, .log_user = seen, .allocator = &user });
  CHECK_STATUS(tsr_runtime_status(rt), TSR_OK, NULL);
  say_all(rt);
  CHECK_STR(seen, "");
  tsr_runtime_close(rt);

  state = (struct test_alloc){ .fail_at = 3 }; /* a long line without memory is cut, not lost */
  user = test_allocator(&state);
  rt = tsr__runtime_new(&(tsr_runtime_opts){ .log = record, .log_user = seen, .allocator = &user });
  tsr__log(rt, TSR_LOG_INFO, "io", "%3000d", 5);
  CHECK_U64(strlen(seen), 511 + strlen("3 io ;"));
  tsr_runtime_close(rt);
  CHECK_I64(state.live, 0);
}
