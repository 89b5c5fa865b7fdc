/* The test harness: every test runs in a process of its own, under a time limit, and a failed
 * comparison prints both sides with file:line. Output is TAP.
 *
 *   TEST(adds_small_numbers)
 *   {
 *     CHECK_I64(1 + 1, 2);
 *   }
 *
 * Checks are written CHECK_X(found, expected); each evaluates its arguments once, and the first
 * failed one ends the test. A test executable takes --list, --filter SUBSTRING, --no-fork (for
 * debuggers) and --among N: it is one of N processes that a launcher started, number TEST_PROCESS,
 * and tests run in it, one after the other, in the folder TEST_FOLDER. Environment: TEST_QUICK=1
 * asks for the reduced mode (see test_quick), TEST_SHARE=i/n for a part of the cases (test_share),
 * TEST_TIMEOUT_SCALE=n multiplies time limits, TMPDIR says where temporary files go. */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tessera/base.h"

/* ---- tests ----------------------------------------------------------------------------- */

enum { TEST_DEFAULT_SECONDS = 60 };

struct test_case {
  const char *name;
  void (*run)(void);
  int seconds;   /* time limit */
  int processes; /* started at the same time, all of them must pass */
  struct test_case *next;
};

void test_register(struct test_case *test);

#define TEST_DEFINE_(id, limit, count)                                                  \
  static void test_run_##id(void);                                                      \
  static struct test_case test_case_##id = { #id, test_run_##id, (limit), (count), 0 }; \
  __attribute__((constructor)) static void test_register_##id(void)                     \
  {                                                                                     \
    test_register(&test_case_##id);                                                     \
  }                                                                                     \
  static void test_run_##id(void)

/* TEST(name) { body } with the usual limit of 60 s. */
#define TEST(name) TEST_DEFINE_(name, TEST_DEFAULT_SECONDS, 1)
/* As TEST with its own time limit in seconds. */
#define TEST_TIMEOUT(name, seconds) TEST_DEFINE_(name, seconds, 1)
/* Runs the body in n processes at once; see test_process. They share test_tmp's folder. */
#define TEST_PROCESSES(name, n) TEST_DEFINE_(name, TEST_DEFAULT_SECONDS, n)

/* Which of the processes of a TEST_PROCESSES test this is (0 in others), and of how many. The
 * environment says the same as TEST_PROCESS=index/count. */
int test_process(void);
int test_process_count(void);

/* What limits on time are multiplied with: 1, or TEST_TIMEOUT_SCALE. */
double test_patience(void);

/* True in the reduced mode of `make check`: law tests then try fewer cases. */
bool test_quick(void);

/* Whether this run tries a case of that number: TEST_SHARE=i/n leaves it the i-th of n shares, so
 * that n runs, each with other kernels, draw every case once. In the reduced mode all are tried. */
bool test_share(uint64_t number);

/* ---- checks ---------------------------------------------------------------------------- */

struct test_site {
  const char *file;
  int line;
  const char *expression;
};

#define TEST_SITE_(text) (&(struct test_site){ __FILE__, __LINE__, text })

#define CHECK(condition) ((condition) ? (void)0 : test_fail(TEST_SITE_(#condition), "is false"))
#define CHECK_I64(found, expected) test_check_i64(TEST_SITE_(#found), (found), (expected))
#define CHECK_U64(found, expected) test_check_u64(TEST_SITE_(#found), (found), (expected))
/* Equal bits; any two NaNs are equal, since payloads are unspecified. */
#define CHECK_F64_BITS(found, expected) test_check_f64(TEST_SITE_(#found), (found), (expected))
#define CHECK_F32_BITS(found, expected) test_check_f32(TEST_SITE_(#found), (found), (expected))
/* At most `ulp` representable doubles apart. */
#define CHECK_F64_ULP(found, expected, ulp) \
  test_check_f64_ulp(TEST_SITE_(#found), (found), (expected), (ulp))
/* NULL is allowed and equals only NULL. */
#define CHECK_STR(found, expected) test_check_str(TEST_SITE_(#found), (found), (expected))
/* The found text contains the part. */
#define CHECK_STR_HAS(found, part) test_check_str_has(TEST_SITE_(#found), (found), (part))
#define CHECK_BYTES(found, expected, n) \
  test_check_bytes(TEST_SITE_(#found), (found), (expected), (n))
/* `scope` (a tsr_scope * or NULL) supplies the message printed when the statuses differ. */
#define CHECK_STATUS(found, expected, scope)                                                \
  do {                                                                                      \
    tsr_status test_found_ = (found);                                                       \
    test_check_status(TEST_SITE_(#found), test_found_, (expected), test_message_of(scope)); \
  } while (0)

/* Ends the test as failed, or as skipped with a reason. */
_Noreturn void test_fail(const struct test_site *site, const char *format, ...) TSR_PRINTF(2, 3);
_Noreturn void test_skip(const char *format, ...) TSR_PRINTF(1, 2);
#define FAIL(...) test_fail(TEST_SITE_("failed"), __VA_ARGS__)
#define SKIP(...) test_skip(__VA_ARGS__)

void test_check_i64(const struct test_site *site, int64_t found, int64_t expected);
void test_check_u64(const struct test_site *site, uint64_t found, uint64_t expected);
void test_check_f64(const struct test_site *site, double found, double expected);
void test_check_f32(const struct test_site *site, float found, float expected);
void test_check_f64_ulp(const struct test_site *site, double found, double expected, double ulp);
void test_check_str(const struct test_site *site, const char *found, const char *expected);
void test_check_str_has(const struct test_site *site, const char *found, const char *part);
void test_check_bytes(const struct test_site *site, const void *found, const void *expected,
                      size_t n);
void test_check_status(const struct test_site *site, tsr_status found, tsr_status expected,
                       const char *message);

/* Lives here so that the harness itself needs nothing of the library. */
static inline const char *test_message_of(const tsr_scope *scope)
{
  return scope ? tsr_message(scope) : "";
}

/* ---- random numbers ---------------------------------------------------------------------- */

/* A deterministic generator (splitmix64): the same seed gives the same numbers everywhere. */
typedef struct test_rng {
  uint64_t state;
} test_rng;

test_rng test_seeded(uint64_t seed);
uint64_t test_random(test_rng *rng);
int64_t test_range(test_rng *rng, int64_t first, int64_t last); /* both ends included */
/* An end of the range, what lies beside one, 0, or anything within it. */
int64_t test_corner(test_rng *rng, int64_t least, int64_t most);
double test_corner_f64(test_rng *rng); /* largest, least, infinite, NaN, zeros, or any */
double test_uniform(test_rng *rng);    /* [0, 1) */
double test_any_f64(test_rng *rng);    /* any finite bits: 600 orders of magnitude, denormals */

/* ---- memory and files -------------------------------------------------------------------- */

/* `bytes` bytes such that the byte after the last (or before the first) is an unmapped page:
 * a stray access crashes the test. Freed when the test ends. */
void *test_guarded(size_t bytes);
void *test_guarded_before(size_t bytes);

/* Returns a path of that name in a folder which exists while the test runs; the text is good
 * until the test ends. */
const char *test_tmp(const char *name);
/* Returns the path of a file under tests/, such as "golden/x.txt". */
const char *test_file(const char *name);
/* Reads or writes a whole file; failure fails the test. The text is NUL-terminated, malloced
 * and owned by the caller; `length` may be NULL. */
char *test_read(const char *path, size_t *length);
void test_write(const char *path, const void *data, size_t length);

/* An allocator whose n-th allocation fails. Zero-initialise; fail_at = 0 never fails. */
struct test_alloc {
  int64_t fail_at;       /* 1 = the first */
  bool stay;             /* every later allocation fails too */
  _Atomic int64_t count; /* allocations asked for */
  _Atomic int64_t live;  /* blocks not yet released */
  _Atomic int64_t bytes; /* bytes not yet released, by the sizes the callers name */
};

tsr_allocator test_allocator(struct test_alloc *state);

/* The C library's memory, all of it reachable until the test ends: for fixtures that are not taken
 * down, so that leak checkers have nothing to say. Overruns and late uses are still seen. */
tsr_allocator test_kept(void);
/* Frees every block of it that is still there. */
void test_kept_free(void);

#endif
