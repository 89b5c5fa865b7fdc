/* Runs each test in a forked process (or several), collects what it prints, and reports TAP.
 *
 * Invariant: nothing a test does (crash, hang, leak, exit) can stop the next one from running,
 * and no process of a test outlives it: they form one process group that is killed at the end. */
#include "harness.h"

#include <errno.h>
#include <float.h>
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef TEST_DIR
#define TEST_DIR "tests"
#endif

enum { EXIT_FAILED = 1, EXIT_SKIPPED = 77, MAX_PROCESSES = 64, OUTPUT_BYTES = 64 << 10 };

static struct test_case *first_test, **last_link = &first_test;
static int process_index, process_count = 1;
static char tmp_folder[1024];
static jmp_buf after_skip; /* where a process of --among goes on */
static bool stays;         /* this is one: skipped tests do not end it */

void test_register(struct test_case *test)
{
  *last_link = test;
  last_link = &test->next;
}

int test_process(void)
{
  return process_index;
}

int test_process_count(void)
{
  return process_count;
}

bool test_quick(void)
{
  const char *quick = getenv("TEST_QUICK");
  return quick && *quick && strcmp(quick, "0") != 0;
}

bool test_share(uint64_t number)
{
  const char *share = getenv("TEST_SHARE");
  unsigned long long at = 0, of = 1;
  if (test_quick() || !share || sscanf(share, "%llu/%llu", &at, &of) != 2 || !of) return true;
  /* Another sequence than the case's own, whose first draw would be the same for a whole share. */
  test_rng rng = test_seeded(~number);
  return test_random(&rng) % of == at % of;
}

/* ---- checks ------------------------------------------------------------------------------ */

void test_fail(const struct test_site *site, const char *format, ...)
{
  fprintf(stderr, "%s:%d: %s ", site->file, site->line, site->expression);
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  fflush(stderr);
  /* Not exit: leaks of a test that stops halfway are no news. */
  fflush(stdout);
  _exit(EXIT_FAILED);
}

void test_skip(const char *format, ...)
{
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  fflush(stderr);
  fflush(stdout);
  if (stays) longjmp(after_skip, 1);
  _exit(EXIT_SKIPPED);
}

void test_check_i64(const struct test_site *site, int64_t found, int64_t expected)
{
  if (found != expected) test_fail(site, "is %" PRId64 ", expected %" PRId64, found, expected);
}

void test_check_u64(const struct test_site *site, uint64_t found, uint64_t expected)
{
  if (found != expected)
    test_fail(site, "is %" PRIu64 " (0x%" PRIx64 "), expected %" PRIu64 " (0x%" PRIx64 ")", found,
              found, expected, expected);
}

static uint64_t f64_bits(double value)
{
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static uint32_t f32_bits(float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

void test_check_f64(const struct test_site *site, double found, double expected)
{
  if (isnan(found) && isnan(expected)) return;
  uint64_t a = f64_bits(found), b = f64_bits(expected);
  if (a != b)
    test_fail(site, "is %.17g (%a, 0x%016" PRIx64 "), expected %.17g (%a, 0x%016" PRIx64 ")", found,
              found, a, expected, expected, b);
}

void test_check_f32(const struct test_site *site, float found, float expected)
{
  if (isnan(found) && isnan(expected)) return;
  uint32_t a = f32_bits(found), b = f32_bits(expected);
  if (a != b)
    test_fail(site, "is %.9g (%a, 0x%08" PRIx32 "), expected %.9g (%a, 0x%08" PRIx32 ")",
              (double)found, (double)found, a, (double)expected, (double)expected, b);
}

/* The doubles in order as integers: neighbours differ by one, -0 and +0 are the same. */
static int64_t f64_rank(double value)
{
  uint64_t bits = f64_bits(value);
  int64_t magnitude = (int64_t)(bits & INT64_MAX);
  return bits >> 63 ? -magnitude : magnitude;
}

void test_check_f64_ulp(const struct test_site *site, double found, double expected, double ulp)
{
  if (isnan(found) && isnan(expected)) return;
  int64_t a = f64_rank(found), b = f64_rank(expected);
  double apart = (double)(a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a);
  if (isnan(found) || isnan(expected) || isinf(found) != isinf(expected) || apart > ulp)
    test_fail(site, "is %.17g (%a), expected %.17g (%a): %g ulp apart, allowed %g", found, found,
              expected, expected, apart, ulp);
}

void test_check_str(const struct test_site *site, const char *found, const char *expected)
{
  if (found == expected || (found && expected && strcmp(found, expected) == 0)) return;
  if (!found || !expected)
    test_fail(site, "is %s, expected %s", found ? found : "NULL", expected ? expected : "NULL");
  size_t at = 0, line = 1;
  for (; found[at] && found[at] == expected[at]; at++) line += found[at] == '\n';
  test_fail(site, "differs from byte %zu (line %zu):\n--- found\n%s\n--- expected\n%s\n---", at,
            line, found, expected);
}

void test_check_str_has(const struct test_site *site, const char *found, const char *part)
{
  if (!found || !strstr(found, part))
    test_fail(site, "does not contain \"%s\":\n%s", part, found ? found : "NULL");
}

static void hex_line(const char *label, const unsigned char *bytes, size_t n)
{
  fprintf(stderr, "%s", label);
  for (size_t i = 0; i < n; i++) fprintf(stderr, " %02x", bytes[i]);
  fputc('\n', stderr);
}

void test_check_bytes(const struct test_site *site, const void *found, const void *expected,
                      size_t n)
{
  const unsigned char *a = found, *b = expected;
  size_t at = 0;
  while (at < n && a[at] == b[at]) at++;
  if (at == n) return;
  size_t start = at & ~(size_t)15, shown = n - start < 32 ? n - start : 32;
  fprintf(stderr, "from byte %zu:\n", start);
  hex_line("found   ", a + start, shown);
  hex_line("expected", b + start, shown);
  test_fail(site, "differs at byte %zu of %zu: is 0x%02x, expected 0x%02x", at, n, a[at], b[at]);
}

static const char *status_name(tsr_status status)
{
  switch (status) {
#define STATUS_NAME(name, value, text) \
  case value: return "TSR_" #name;
    TSR_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
  }
  return "no status";
}

void test_check_status(const struct test_site *site, tsr_status found, tsr_status expected,
                       const char *message)
{
  if (found != expected)
    test_fail(site, "is %s, expected %s\nmessage: %s", status_name(found), status_name(expected),
              message);
}

/* ---- random numbers ------------------------------------------------------------------------ */

test_rng test_seeded(uint64_t seed)
{
  return (test_rng){ seed };
}

uint64_t test_random(test_rng *rng)
{
  uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

int64_t test_range(test_rng *rng, int64_t first, int64_t last)
{
  uint64_t span = (uint64_t)last - (uint64_t)first + 1;
  uint64_t offset = span ? test_random(rng) % span : test_random(rng);
  return (int64_t)((uint64_t)first + offset);
}

int64_t test_corner(test_rng *rng, int64_t least, int64_t most)
{
  switch (test_range(rng, 0, 6)) {
  case 0: return least;
  case 1: return least + 1;
  case 2: return most;
  case 3: return most - 1;
  case 4: return 0;
  default: return test_range(rng, least, most);
  }
}

double test_corner_f64(test_rng *rng)
{
  static const double ends[] = { DBL_MAX, 0x1p-1074,        DBL_MIN,  0,
                                 FLT_MAX, (double)INFINITY, 0x1p-149, 1 };
  int64_t which = test_range(rng, 0, 10);
  if (which == 10) return (double)NAN;
  double end = which < 8 ? ends[which] : test_any_f64(rng);
  return test_range(rng, 0, 1) ? end : -end;
}

double test_uniform(test_rng *rng)
{
  return (double)(test_random(rng) >> 11) * 0x1p-53;
}

double test_any_f64(test_rng *rng)
{
  for (;;) {
    uint64_t bits = test_random(rng);
    double value;
    memcpy(&value, &bits, sizeof value);
    if (isfinite(value)) return value;
  }
}

/* ---- memory and files ---------------------------------------------------------------------- */

static char *guarded_pages(size_t bytes, size_t *page, size_t *body)
{
  *page = (size_t)sysconf(_SC_PAGESIZE);
  *body = (bytes + *page - 1) / *page * *page;
  char *base = mmap(NULL, *body + 2 * *page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED || (*body && mprotect(base + *page, *body, PROT_READ | PROT_WRITE)))
    FAIL("guarded memory of %zu bytes: %s", bytes, strerror(errno));
  return base;
}

void *test_guarded(size_t bytes)
{
  size_t page, body;
  char *base = guarded_pages(bytes, &page, &body);
  return base + page + body - bytes;
}

void *test_guarded_before(size_t bytes)
{
  size_t page, body;
  return guarded_pages(bytes, &page, &body) + page;
}

/* Paths handed out stay until the process ends; a list, which threads may push to at once, keeps
 * them reachable for leak checkers. */
static const char *kept_path(const char *folder, const char *name)
{
  struct kept {
    struct kept *next;
    char text[];
  };
  static _Atomic(struct kept *) kept;
  size_t size = strlen(folder) + strlen(name) + 2;
  struct kept *path = malloc(sizeof *path + size);
  if (!path) FAIL("out of memory");
  snprintf(path->text, size, "%s/%s", folder, name);
  path->next = atomic_load(&kept);
  while (!atomic_compare_exchange_weak(&kept, &path->next, path)) continue;
  return path->text;
}

const char *test_tmp(const char *name)
{
  if (mkdir(tmp_folder, 0700) && errno != EEXIST) FAIL("%s: %s", tmp_folder, strerror(errno));
  return kept_path(tmp_folder, name);
}

const char *test_file(const char *name)
{
  return kept_path(TEST_DIR, name);
}

char *test_read(const char *path, size_t *length)
{
  FILE *file = fopen(path, "rb");
  if (!file) FAIL("%s: %s", path, strerror(errno));
  size_t used = 0, capacity = 4096;
  char *data = malloc(capacity);
  for (size_t got; data && (got = fread(data + used, 1, capacity - used - 1, file)) > 0;) {
    used += got;
    if (capacity - used > 1) continue;
    char *grown = realloc(data, capacity *= 2);
    if (!grown) free(data);
    data = grown;
  }
  if (!data || ferror(file)) FAIL("%s: cannot be read", path);
  fclose(file);
  data[used] = 0;
  if (length) *length = used;
  return data;
}

void test_write(const char *path, const void *data, size_t length)
{
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, length, file) != length || fclose(file))
    FAIL("%s: %s", path, strerror(errno));
}

static void *counted_allocate(size_t size, size_t alignment, void *user)
{
  struct test_alloc *state = user;
  int64_t n = ++state->count;
  if (state->fail_at && (n == state->fail_at || (state->stay && n > state->fail_at))) return NULL;
  if (alignment < sizeof(void *)) alignment = sizeof(void *);
  void *block = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (!block) return NULL;
  memset(block, 0xCB, size);
  state->live++;
  state->bytes += (int64_t)size;
  return block;
}

static void counted_release(void *pointer, size_t size, void *user)
{
  struct test_alloc *state = user;
  if (!pointer) return;
  state->live--;
  state->bytes -= (int64_t)size;
  free(pointer);
}

tsr_allocator test_allocator(struct test_alloc *state)
{
  return (tsr_allocator){ counted_allocate, counted_release, state };
}

/* A kept block begins with its links; what the caller gets follows at the alignment. */
struct kept_block {
  struct kept_block *next, **link;
};

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept_block *kept_blocks;

enum { KEPT_ALIGNMENT = 64 };

static void *kept_allocate(size_t size, size_t alignment, void *user)
{
  (void)user;
  if (alignment > KEPT_ALIGNMENT) FAIL("an alignment of %zu was asked for", alignment);
  size_t whole = (size + 2 * KEPT_ALIGNMENT - 1) / KEPT_ALIGNMENT * KEPT_ALIGNMENT;
  struct kept_block *block = aligned_alloc(KEPT_ALIGNMENT, whole);
  if (!block) return NULL;
  pthread_mutex_lock(&kept_lock);
  *block = (struct kept_block){ kept_blocks, &kept_blocks };
  if (block->next) block->next->link = &block->next;
  kept_blocks = block;
  pthread_mutex_unlock(&kept_lock);
  return (char *)block + KEPT_ALIGNMENT;
}

static void kept_release(void *pointer, size_t size, void *user)
{
  (void)size, (void)user;
  if (!pointer) return;
  struct kept_block *block = (struct kept_block *)(void *)((char *)pointer - KEPT_ALIGNMENT);
  pthread_mutex_lock(&kept_lock);
  *block->link = block->next;
  if (block->next) block->next->link = block->link;
  pthread_mutex_unlock(&kept_lock);
  free(block);
}

tsr_allocator test_kept(void)
{
  return (tsr_allocator){ kept_allocate, kept_release, NULL };
}

void test_kept_free(void)
{
  pthread_mutex_lock(&kept_lock);
  for (struct kept_block *next, *block = kept_blocks; block; block = next) {
    next = block->next;
    free(block);
  }
  kept_blocks = NULL;
  pthread_mutex_unlock(&kept_lock);
}

/* ---- running --------------------------------------------------------------------------------- */

/* One running test: its processes, and what they print, kept up to OUTPUT_BYTES. */
struct run {
  const struct test_case *test;
  pid_t pids[MAX_PROCESSES]; /* the first one's id is that of the process group */
  int status[MAX_PROCESSES];
  bool ended[MAX_PROCESSES];
  int started, out; /* `out`: the read end of the pipe all processes print into */
  bool timed_out;
  size_t length;
  char output[OUTPUT_BYTES + 1];
};

enum outcome { PASSED, SKIPPED, FAILED };

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double test_patience(void)
{
  const char *scale = getenv("TEST_TIMEOUT_SCALE");
  double factor = scale ? strtod(scale, NULL) : 1;
  return factor > 0 ? factor : 1;
}

_Noreturn static void child(const struct test_case *test, int index, const int *pipe_ends)
{
  char text[32];
  process_index = index;
  process_count = test->processes;
  snprintf(text, sizeof text, "%d/%d", index, test->processes);
  setenv("TEST_PROCESS", text, 1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (dup2(pipe_ends[1], STDOUT_FILENO) < 0 || dup2(pipe_ends[1], STDERR_FILENO) < 0)
    _exit(EXIT_FAILED);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  test->run();
  /* exit, not _exit: leak checkers report there. */
  exit(0);
}

static bool start(struct run *run)
{
  int ends[2];
  if (run->test->processes > MAX_PROCESSES || pipe(ends)) return false;
  fflush(NULL);
  for (int i = 0; i < run->test->processes; i++) {
    pid_t group = i ? run->pids[0] : 0;
    pid_t pid = fork();
    if (pid < 0) break;
    setpgid(pid, group); /* by both sides, whichever comes first */
    if (pid == 0) child(run->test, i, ends);
    run->pids[run->started++] = pid;
  }
  close(ends[1]);
  run->out = ends[0];
  return run->started == run->test->processes;
}

/* Collects processes that have ended; true when none is left. `bad` counts the failed ones. */
static bool reap(struct run *run, int flags, int *bad)
{
  bool all = true;
  *bad = 0;
  for (int i = 0; i < run->started; i++) {
    if (!run->ended[i]) run->ended[i] = waitpid(run->pids[i], &run->status[i], flags) != 0;
    all = all && run->ended[i];
    *bad += run->ended[i] && run->status[i] != 0 && run->status[i] != EXIT_SKIPPED << 8;
  }
  return all;
}

/* Takes what is there to read; false at the end of the output. Past the bound it is dropped. */
static bool drain(struct run *run, int wait_ms)
{
  struct pollfd ready = { run->out, POLLIN, 0 };
  if (poll(&ready, 1, wait_ms) <= 0) return true;
  char chunk[4096];
  ssize_t got = read(run->out, chunk, sizeof chunk);
  if (got <= 0) return got < 0 && errno == EINTR;
  size_t room = OUTPUT_BYTES - run->length;
  size_t kept = (size_t)got < room ? (size_t)got : room;
  memcpy(run->output + run->length, chunk, kept);
  run->length += kept;
  return true;
}

/* Waits for the processes of a test. Once one has failed, the others get a few seconds to say
 * what they saw; past the time limit all are killed. */
static void await(struct run *run)
{
  double deadline = now() + run->test->seconds * test_patience();
  bool open = true;
  int bad = 0, bad_before = 0;
  while (!reap(run, WNOHANG, &bad)) {
    double left = deadline - now();
    if (left <= 0) {
      run->timed_out = !bad;
      break;
    }
    if (bad && !bad_before && left > 5) deadline = now() + 5;
    bad_before = bad;
    if (open) open = drain(run, left < 0.2 ? (int)(left * 1000) + 1 : 200);
    else usleep(500);
  }
  kill(-run->pids[0], SIGKILL);
  reap(run, 0, &bad);
  for (size_t before = run->length + 1; open && before != run->length;) {
    before = run->length;
    open = drain(run, 0);
  }
  close(run->out);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place)
{
  (void)info, (void)kind, (void)place;
  return remove(path);
}

static void print_diagnostics(const struct run *run)
{
  const char *at = run->output, *end = at + run->length;
  while (at < end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    printf("# %.*s\n", (int)(stop - at), at);
    at = stop + 1;
  }
}

static enum outcome judge(const struct run *run, bool complete)
{
  enum outcome outcome = PASSED;
  if (!complete) printf("# not all processes could be started\n");
  if (run->timed_out) printf("# timed out after %g s\n", run->test->seconds * test_patience());
  for (int i = 0; i < run->started; i++) {
    int status = run->status[i];
    if (status == 0) continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED) {
      if (outcome == PASSED) outcome = SKIPPED;
      continue;
    }
    outcome = FAILED;
    if (run->test->processes > 1) printf("# process %d: ", i);
    else printf("# ");
    if (WIFSIGNALED(status)) printf("killed by SIG%s\n", sigabbrev_np(WTERMSIG(status)));
    else printf("exit status %d\n", WEXITSTATUS(status));
  }
  return run->timed_out || !complete ? FAILED : outcome;
}

static void remove_tmp_folder(void)
{
  nftw(tmp_folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static enum outcome run_test(const struct test_case *test, int number, bool verbose)
{
  struct run *run = calloc(1, sizeof *run);
  if (!run) return FAILED;
  run->test = test;
  double began = now();
  bool complete = start(run);
  if (run->started) await(run);
  enum outcome outcome = judge(run, complete);
  if (outcome == FAILED || verbose) print_diagnostics(run);
  printf("%s %d - %s", outcome == FAILED ? "not ok" : "ok", number, test->name);
  if (outcome == SKIPPED) printf(" # SKIP %.*s", (int)strcspn(run->output, "\n"), run->output);
  if (now() - began >= 1) printf(" # %.1f s", now() - began);
  putchar('\n');
  remove_tmp_folder();
  free(run);
  return outcome;
}

/* ---- the command line ------------------------------------------------------------------------ */

struct options {
  const char *filter;
  bool list, no_fork, verbose;
  int among; /* processes that were started together; 0: this one alone */
};

static bool parse(struct options *options, int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--list") == 0) options->list = true;
    else if (strcmp(argv[i], "--no-fork") == 0) options->no_fork = true;
    else if (strcmp(argv[i], "--verbose") == 0) options->verbose = true;
    else if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc) options->filter = argv[++i];
    else if (strcmp(argv[i], "--among") == 0 && i + 1 < argc) options->among = atoi(argv[++i]);
    else return false;
  }
  return true;
}

static bool selected(const struct options *options, const struct test_case *test)
{
  return !options->filter || strstr(test->name, options->filter);
}

static void name_tmp_folder(void)
{
  const char *base = getenv("TMPDIR");
  snprintf(tmp_folder, sizeof tmp_folder, "%s/tessera-test-%ld", base && *base ? base : "/tmp",
           (long)getpid());
}

static int run_all(const struct options *options)
{
  int total = 0, number = 0, failed = 0, skipped = 0;
  for (struct test_case *test = first_test; test; test = test->next)
    total += selected(options, test);
  printf("1..%d\n", total);
  for (struct test_case *test = first_test; test; test = test->next) {
    if (!selected(options, test)) continue;
    enum outcome outcome = run_test(test, ++number, options->verbose);
    failed += outcome == FAILED;
    skipped += outcome == SKIPPED;
    fflush(stdout);
  }
  if (failed) printf("# %d of %d tests failed\n", failed, total);
  /* A program that tested nothing is no success: the summary counts it as skipped. */
  if (total && skipped == total) return EXIT_SKIPPED;
  return failed || !total;
}

static void run_here(const struct test_case *test)
{
  printf("# %s\n", test->name);
  fflush(stdout);
  if (!setjmp(after_skip)) test->run();
}

/* Of a program with tests for so many processes these alone, each process being one of them; of
 * others all, in a folder of its own. TEST_FOLDER is for whoever started them to remove. */
static int run_among(const struct options *options)
{
  const char *index = getenv("TEST_PROCESS"), *folder = getenv("TEST_FOLDER");
  int wanted = 1;
  for (struct test_case *test = first_test; test; test = test->next)
    if (test->processes == options->among) wanted = options->among;
  process_count = wanted;
  if (wanted > 1) process_index = index ? atoi(index) : 0;
  if (folder)
    snprintf(tmp_folder, sizeof tmp_folder, "%s%s%s", folder, wanted > 1 ? "" : "/",
             wanted > 1 ? "" : index);
  stays = true;
  for (struct test_case *test = first_test; test; test = test->next)
    if (selected(options, test) && test->processes == wanted) run_here(test);
  return 0;
}

int main(int argc, char **argv)
{
  struct options options = { 0 };
  if (!parse(&options, argc, argv)) {
    fprintf(stderr, "usage: %s [--list] [--filter SUBSTRING] [--verbose] [--no-fork] [--among N]\n",
            argv[0]);
    return 2;
  }
  name_tmp_folder();
  if (options.among) return run_among(&options);
  if (!options.list && !options.no_fork) return run_all(&options);
  for (struct test_case *test = first_test; test; test = test->next) {
    if (!selected(&options, test)) continue;
    puts(test->name);
    if (options.list) continue;
    test->run();
    remove_tmp_folder();
  }
  return 0;
}
