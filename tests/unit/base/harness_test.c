/* The harness's own tests: its helpers here, and its verdicts by running this very executable
 * again on cases that fail on purpose (they are skipped unless HARNESS_CASE asks for them). */
#include "harness.h"

#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool asked_for(void)
{
  return getenv("HARNESS_CASE") != NULL;
}

/* ---- cases that fail on purpose ---------------------------------------------------------- */

#define CASE(name)                        \
  static void case_body_##name(void);     \
  TEST_TIMEOUT(case_##name, 1)            \
  {                                       \
    if (!asked_for()) SKIP("on request"); \
    case_body_##name();                   \
  }                                       \
  static void case_body_##name(void)

CASE(i64)
{
  CHECK_I64(2 + 2, 5);
}

CASE(f64)
{
  CHECK_F64_BITS(0.0, -0.0);
}

CASE(f32)
{
  CHECK_F32_BITS(1.0f, 1.5f);
}

CASE(ulp)
{
  CHECK_F64_ULP(1.0, 1.0 + 4 * DBL_EPSILON, 3);
}

CASE(str)
{
  CHECK_STR("one\ntwo", "one\ntoo");
}

CASE(bytes)
{
  CHECK_BYTES("abcd", "abxd", 4);
}

CASE(status)
{
  CHECK_STATUS(TSR_ESHAPE, TSR_OK, NULL);
}

CASE(crash)
{
  raise(SIGSEGV);
}

CASE(hang)
{
  printf("before the hang\n");
  fflush(stdout);
  for (;;) pause();
}

CASE(exits)
{
  exit(3);
}

CASE(guard_after)
{
  volatile char *p = test_guarded(10);
  p[10] = 1;
}

CASE(guard_before)
{
  volatile char *p = test_guarded_before(10);
  p[-1] = 1;
}

static void run_in_three(void)
{
  if (!asked_for()) SKIP("on request");
  if (test_process() == 1) FAIL("the middle one");
}

TEST_PROCESSES(case_one_of_three, 3)
{
  run_in_three();
}

/* Runs one case and returns what the harness prints; it must be a failure. */
static char *verdict(const char *name)
{
  char self[1024], command[1400];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  CHECK(length > 0);
  self[length] = 0;
  const char *out = test_tmp("out");
  snprintf(command, sizeof command,
           "HARNESS_CASE=1 TEST_TIMEOUT_SCALE=1 '%s' --filter case_%s > '%s' 2>&1", self, name,
           out);
  int status = system(command);
  CHECK(WIFEXITED(status));
  char *text = test_read(out, NULL);
  CHECK_STR_HAS(text, "1..1");
  CHECK_STR_HAS(text, "not ok 1 - case_");
  CHECK_I64(WEXITSTATUS(status), 1);
  return text;
}

static void expect(const char *name, const char *part)
{
  char *text = verdict(name);
  CHECK_STR_HAS(text, part);
  free(text);
}

TEST(both_sides_are_printed)
{
  expect("i64", "harness_test.c:");
  expect("i64", "2 + 2 is 4, expected 5");
  expect("f64", "is 0 (0x0p+0, 0x0000000000000000), expected -0 (-0x0p+0, 0x8000000000000000)");
  expect("f32", "is 1 (0x1p+0, 0x3f800000), expected 1.5 (0x1.8p+0, 0x3fc00000)");
  expect("ulp", "4 ulp apart, allowed 3");
  expect("str", "differs from byte 5 (line 2):\n# --- found\n# one\n# two\n# --- expected");
  expect("bytes", "differs at byte 2 of 4: is 0x63, expected 0x78");
  expect("status", "is TSR_ESHAPE, expected TSR_OK");
}

TEST_TIMEOUT(crashes_hangs_and_exits_are_failures, 20)
{
  char *text = verdict("hang");
  CHECK_STR_HAS(text, "timed out after 1 s");
  CHECK_STR_HAS(text, "killed by SIGKILL");
  CHECK_STR_HAS(text, "# before the hang");
  free(text);
  expect("exits", "exit status 3");
  expect("one_of_three", "# process 1: exit status 1");
}

/* Under a sanitizer, a crash is reported by it and ends as an exit status. */
TEST(stray_accesses_are_failures)
{
  free(verdict("crash"));
  free(verdict("guard_after"));
  free(verdict("guard_before"));
#ifndef __SANITIZE_ADDRESS__
#ifndef __SANITIZE_THREAD__
  expect("crash", "killed by SIGSEGV");
  expect("guard_after", "killed by SIGSEGV");
#endif
#endif
}

/* ---- helpers ------------------------------------------------------------------------------ */

TEST(equal_sides_pass)
{
  CHECK(true);
  CHECK_I64(INT64_MIN, INT64_MIN);
  CHECK_U64(UINT64_MAX, UINT64_MAX);
  CHECK_F64_BITS(-0.0, -0.0);
  CHECK_F64_BITS((double)NAN, -(double)NAN);
  CHECK_F32_BITS(1.5f, 1.5f);
  CHECK_F64_ULP(1.0, 1.0 + DBL_EPSILON, 1);
  CHECK_F64_ULP(5e-324, -5e-324, 2);
  CHECK_F64_ULP((double)INFINITY, (double)INFINITY, 0);
  CHECK_STR("a", "a");
  CHECK_STR(NULL, NULL);
  CHECK_BYTES("abc", "abd", 2);
  CHECK_STATUS(TSR_EIO, TSR_EIO, NULL);
}

TEST(random_numbers_are_deterministic)
{
  test_rng a = test_seeded(7), b = test_seeded(7), c = test_seeded(8);
  for (int i = 0; i < 1000; i++) {
    uint64_t x = test_random(&a);
    CHECK_U64(x, test_random(&b));
    CHECK(x != test_random(&c));
    int64_t r = test_range(&a, -3, 3);
    CHECK_I64(r, test_range(&b, -3, 3));
    CHECK(r >= -3 && r <= 3);
    double u = test_uniform(&c);
    CHECK(u >= 0 && u < 1);
    CHECK(isfinite(test_any_f64(&c)));
  }
  test_range(&a, INT64_MIN, INT64_MAX);
}

TEST(guarded_memory_is_usable_to_its_last_byte)
{
  size_t sizes[] = { 0, 1, 4095, 4096, 4097, 100000 };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    memset(test_guarded(sizes[i]), 1, sizes[i]);
    memset(test_guarded_before(sizes[i]), 1, sizes[i]);
  }
}

TEST(allocator_fails_where_told)
{
  struct test_alloc state = { .fail_at = 2 };
  tsr_allocator fn = test_allocator(&state);
  void *first = fn.allocate(100, 64, fn.user);
  CHECK(first && (uintptr_t)first % 64 == 0);
  CHECK(fn.allocate(100, 64, fn.user) == NULL);
  void *third = fn.allocate(1, 1, fn.user);
  CHECK(third != NULL);
  CHECK_I64(state.count, 3);
  CHECK_I64(state.live, 2);
  CHECK_I64(state.bytes, 101);
  fn.release(first, 100, fn.user);
  fn.release(third, 1, fn.user);
  fn.release(NULL, 0, fn.user);
  CHECK_I64(state.live, 0);
  CHECK_I64(state.bytes, 0);

  state = (struct test_alloc){ .fail_at = 1, .stay = true };
  CHECK(!fn.allocate(8, 8, fn.user) && !fn.allocate(8, 8, fn.user));
}

TEST(kept_blocks_come_and_go_in_any_order)
{
  tsr_allocator fn = test_kept();
  unsigned char *block[5];
  for (int i = 0; i < 5; i++) {
    block[i] = fn.allocate((size_t)i * 50 + 1, 64, fn.user);
    CHECK(block[i] && (uintptr_t)block[i] % 64 == 0);
    memset(block[i], i, (size_t)i * 50 + 1);
  }
  const int order[] = { 2, 0, 4 }; /* the others stay: no leak */
  for (int i = 0; i < 3; i++) fn.release(block[order[i]], 1, fn.user);
  CHECK_I64(block[1][50], 1);
  CHECK_I64(block[3][150], 3);
  test_kept_free();
  test_kept_free();
  CHECK(fn.allocate(1, 1, fn.user) != NULL);
}

TEST(files_come_back_as_written)
{
  const char *path = test_tmp("file");
  size_t length = 0;
  test_write(path, "a\0b", 3);
  char *text = test_read(path, &length);
  CHECK_U64(length, 3);
  CHECK_BYTES(text, "a\0b", 4);
  free(text);
  struct stat info;
  CHECK_I64(stat(test_file("harness.h"), &info), 0);
}

TEST_PROCESSES(processes_share_a_folder, 3)
{
  char name[32], text[2] = { (char)('0' + test_process()), 0 };
  CHECK_I64(test_process_count(), 3);
  snprintf(name, sizeof name, "p%d", test_process());
  test_write(test_tmp(name), text, 1);
  for (int i = 0; i < test_process_count(); i++) {
    snprintf(name, sizeof name, "p%d", i);
    struct stat info;
    while (stat(test_tmp(name), &info) || info.st_size != 1) usleep(1000);
  }
  /* The folder is removed only when all have ended. */
}
