/* Profiles: what a runtime did, as a viewer of traces reads it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness.h"
#include "tessera.h"

static char path[512];

static void name_file(void)
{
  snprintf(path, sizeof path, "%s", test_tmp("profile.json"));
}

/* The trace as trace_check.py prints it; skips where there is no Python. */
static char *read_trace(void)
{
  static char out[1 << 16];
  char command[1000];
  size_t length = 0;
  snprintf(command, sizeof command, "python3 %s %s 2>&1", test_file("python/trace_check.py"), path);
  FILE *pipe = popen(command, "r");
  if (pipe) length = fread(out, 1, sizeof out - 1, pipe);
  out[length] = 0;
  int status = pipe ? pclose(pipe) : -1;
  unlink(path);
  if (status) FAIL("the trace is refused: %s", out);
  return out;
}

static bool has_python(void)
{
  return !system("python3 -c pass > /dev/null 2>&1");
}

static void check_line(const char *trace, const char *line)
{
  if (!strstr(trace, line)) FAIL("no \"%s\" in\n%s", line, trace);
}

static int count_lines(const char *trace, const char *with)
{
  int count = 0;
  for (; (trace = strstr(trace, with)); trace += strlen(with)) count++;
  return count;
}

static tsr_array *ones(tsr_scope *s, int64_t rows, int64_t columns)
{
  return tsr_full(s, 1, TSR_F32, TSR_SHAPE(rows, columns), (tsr_sharding){ 0 });
}

TEST(lanes_regions_kernels_and_moves)
{
  if (!has_python()) return;
  name_file();
  tsr_runtime *rt = tsr_runtime_open("cpu:4", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  CHECK_I64(tsr_profile_begin(s), TSR_OK);
  tsr_region_begin(s, "outer");
  tsr_region_begin(s, "a \"name\"\n");
  tsr_array *x = tsr_reshard(ones(s, 64, 32), tsr_on(mesh, "x"));
  tsr_array *sum = tsr_sum(tsr_tanh(x));
  tsr_array *product = tsr_matmul(x, tsr_transpose(tsr_reshard(x, tsr_on(mesh, "-,x"))));
  tsr_array *roots[] = { sum, product };
  CHECK_I64(tsr_eval(roots, 2), TSR_OK);
  tsr_region_end(s);
  CHECK_I64(tsr_eval(&(tsr_array *){ tsr_exp(x) }, 1), TSR_OK);
  tsr_region_end(s);
  CHECK_I64(tsr_profile_end(s, path), TSR_OK);
  char *trace = read_trace();
  check_line(trace, "host/thread 1 | region | outer |  | profile_test.c");
  check_line(trace, "host/thread 1 | region | a \"name\"? | outer | profile_test.c");
  check_line(trace, "host/thread 1 | plan | plan | outer a \"name\"?");
  check_line(trace, "host/thread 1 | program | run | outer a \"name\"?");
  check_line(trace, "host/thread 1 | kernel | sum | outer a \"name\"? run | profile_test.c");
  check_line(trace, "| move | combine sum (all-reduce) | outer a \"name\"? run |");
  check_line(trace, "| routine | dot | outer a \"name\"? run | profile_test.c");
  check_line(trace, "host/thread 1 | kernel | exp | outer run | profile_test.c");
  for (int d = 0; d < 4; d++) {
    char line[80];
    snprintf(line, sizeof line, "devices/device %d | kernel | sum |  | profile_test.c", d);
    check_line(trace, line);
    snprintf(line, sizeof line, "devices/device %d | routine | dot |", d);
    check_line(trace, line);
  }
  CHECK(!strstr(trace, "device 4"));
  tsr_runtime_close(rt);
}

static tsr_array *halve(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(tsr_sin(in[0]), 0.5);
}

static tsr_array *loop_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_cos(in[1]);
}

TEST(loops_and_traces_have_their_steps_inside)
{
  if (!has_python()) return;
  name_file();
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2");
  tsr_function *f = tsr_function_make(s, halve, .name = "halve");
  CHECK_I64(tsr_profile_begin(s), TSR_OK);
  tsr_array *x = tsr_reshard(ones(s, 64, 32), tsr_on(mesh, "x"));
  tsr_array *y = tsr_fori(0, 5, loop_step, NULL, tsr_call(f, x));
  CHECK_I64(tsr_eval(&y, 1), TSR_OK);
  tsr_profile_end(s, path);
  char *trace = read_trace();
  check_line(trace, "host/thread 1 | trace | halve |  | profile_test.c");
  check_line(trace, "host/thread 1 | loop | scan | run | profile_test.c");
  CHECK_I64(count_lines(trace, "host/thread 1 | loop | step | run scan |"), 5);
  CHECK_I64(count_lines(trace, "host/thread 1 | kernel | cos | run scan step |"), 5);
  CHECK_I64(count_lines(trace, "devices/device 1 | kernel | cos | scan |"), 5);
  tsr_runtime_close(rt);
}

TEST(steps_cover_the_time_of_a_program)
{
  if (!has_python()) return;
  name_file();
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2");
  tsr_array *x = tsr_reshard(ones(s, 2048, 1024), tsr_on(mesh, "x"));
  tsr_profile_begin(s);
  tsr_array *y = tsr_tanh(tsr_sin(x));
  CHECK_I64(tsr_eval(&y, 1), TSR_OK);
  tsr_profile_end(s, path);
  const char *trace = read_trace(), *covers = strstr(trace, "host/thread 1 covers ");
  CHECK(covers);
  int percent = atoi(covers + strlen("host/thread 1 covers "));
  if (percent < 60 || percent > 100) FAIL("steps cover %d %% of the run", percent);
  tsr_runtime_close(rt);
}

TEST(what_cannot_be_is_refused_and_closing_ends_all)
{
  name_file();
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_I64(tsr_profile_end(s, path), TSR_ESTATE);
  CHECK(strstr(tsr_message(s), "records no profile"));
  tsr_scope_clear(s);
  CHECK_I64(tsr_profile_begin(s), TSR_OK);
  CHECK_I64(tsr_profile_begin(s), TSR_ESTATE);
  tsr_scope_clear(s);
  CHECK_I64(tsr_profile_end(s, NULL), TSR_EARG);
  tsr_scope_clear(s);
  CHECK_I64(tsr_profile_end(s, "/no/such/folder/p.json"), TSR_EIO);
  CHECK(strstr(tsr_message(s), "/no/such/folder"));
  tsr_scope_clear(s);
  tsr_region_end(s);
  CHECK_I64(tsr_scope_status(s), TSR_ESTATE);
  tsr_scope_clear(s);
  tsr_region_begin(s, NULL);
  CHECK_I64(tsr_scope_status(s), TSR_EARG);
  tsr_scope_clear(s);
  for (int i = 0; i < TSR_MAX_REGIONS; i++) tsr_region_begin(s, "deep");
  CHECK_I64(tsr_scope_status(s), TSR_OK);
  tsr_region_begin(s, "too deep");
  CHECK_I64(tsr_scope_status(s), TSR_EARG);
  /* A runtime may close while it is recorded and regions are open. */
  CHECK_I64(tsr_profile_begin(s), TSR_OK);
  tsr_scope *inner = tsr_scope_open(s);
  tsr_region_begin(inner, "left open");
  CHECK_I64(tsr_eval(&(tsr_array *){ tsr_exp(ones(inner, 2, 2)) }, 1), TSR_OK);
  tsr_runtime_close(rt);
}
