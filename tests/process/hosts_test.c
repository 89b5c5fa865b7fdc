/* Processes that believe to be on several hosts, as an engine moves their bytes: what comes is what
 * is there now, who dies is named, and an engine that is not there is an error that says so. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "comm/peers.h"
#include "execute/execute.h"
#include "support/among.h"
#include "support/process_fixture.h"

enum { COUNT = 4, ROWS = 1 << 11, COLUMNS = 1 << 9, ROUNDS = 12 };

static void two_hosts(void)
{
  setenv("TEST_HOSTS", "2", 1);
  among_plugins();
}

/* ---- what comes ------------------------------------------------------------------------------ */

/* Rounds at the same places of memory with other numbers each, more than mirrors keep. */
TEST_PROCESSES(every_round_sees_its_own_numbers, COUNT)
{
  static double data[ROWS * COLUMNS], back[ROWS * COLUMNS];
  two_hosts();
  tsr_runtime *rt = among_open(1);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  for (int round = 0; round < ROUNDS; round++) {
    tsr_scope *s = tsr_scope_open(rt);
    double total = 0, expected = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++) expected += data[i] = i % 1024 + round;
    tsr_array *a = tsr_put(s, data, TSR_F64, TSR_SHAPE(ROWS, COLUMNS), tsr_on(mesh, "x,-"));
    tsr_array *turned = tsr_constrain(tsr_add(a, 1), tsr_on(mesh, "-,x"));
    CHECK_STATUS(tsr_read(turned, back, sizeof back), TSR_OK, s);
    for (int i = 0; i < ROWS * COLUMNS; i++)
      if (back[i] != data[i] + 1) FAIL("round %d, element %d: %g", round, i, back[i]);
    CHECK_STATUS(tsr_read_scalar(tsr_sum(turned), &total), TSR_OK, s);
    CHECK(total == expected + ROWS * COLUMNS);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* Of so many parts a process tells more than goes with a word. */
TEST_PROCESSES(long_notes_are_got, 2)
{
  enum { PARTS = 256 };
  double data[PARTS], total = 0;
  two_hosts();
  tsr_runtime *rt = among_open(PARTS / 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  for (int i = 0; i < PARTS; i++) data[i] = i;
  tsr_array *a = tsr_put(s, data, TSR_F64, TSR_SHAPE(PARTS), tsr_on(mesh, "x"));
  for (int i = 0; i < 8; i++) {
    CHECK_STATUS(tsr_read_scalar(tsr_sum(tsr_mul(a, i)), &total), TSR_OK, s);
    CHECK(total == i * (PARTS - 1) * PARTS / 2);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- what is fetched ------------------------------------------------------------------------- */

static tsr__peers_sum moved_since(const tsr_runtime *rt, tsr__peers_sum before)
{
  tsr__peers_sum now = tsr__peers_moved(tsr__peers_of(rt));
  return (tsr__peers_sum){ now.got_bytes - before.got_bytes, now.notes - before.notes };
}

/* Of 4 processes on 2 hosts each takes of the other host's what its result has of it, and no more:
 * `expected` bytes. The first process of each host tells the other one, and nobody else does. */
static void check_fetched(const tsr_runtime *rt, tsr_array *a, int64_t expected)
{
  tsr__peers_sum before = tsr__peers_moved(tsr__peers_of(rt));
  CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, NULL);
  tsr__peers_sum after = moved_since(rt, before);
  CHECK_I64(after.got_bytes, expected);
  CHECK(test_process() % 2 ? after.notes == 0 : after.notes >= 2 && after.notes <= 4);
}

/* Rows of 0, 1, 2, ..., cut along x. */
static tsr_array *put_counted(tsr_scope *s, const tsr_mesh *mesh, double *data)
{
  for (int i = 0; i < ROWS * COLUMNS; i++) data[i] = i;
  return tsr_put(s, data, TSR_F64, TSR_SHAPE(ROWS, COLUMNS), tsr_on(mesh, "x,-"));
}

TEST_PROCESSES(what_is_read_is_fetched_and_no_more, COUNT)
{
  static double data[ROWS * COLUMNS], back[ROWS * COLUMNS];
  int64_t part = ROWS / COUNT * COLUMNS * (int64_t)sizeof *data;
  int me = test_process();
  two_hosts();
  tsr_runtime *rt = among_open(1);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  tsr_array *a = put_counted(s, mesh, data);
  CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, s);
  /* A quarter of the columns of two parts; a row at the border of a host; a column of these. */
  tsr_array *turned = tsr_reshard(a, tsr_on(mesh, "-,x"));
  check_fetched(rt, turned, 2 * part / COUNT);
  check_fetched(rt, tsr_roll(a, 1, 0), me % 2 ? 0 : COLUMNS * 8);
  check_fetched(rt, tsr_roll(turned, 1, 1), me % 2 ? 0 : ROWS * 8);
  check_fetched(rt, tsr_reshard(a, tsr_on(mesh, "-,-")), 2 * part);
  /* A sum of one row of each: of two rows the piece that is added here; and where all is wanted,
   * the two pieces that are added there. */
  enum { WIDE = ROWS * COLUMNS / COUNT, PIECE = WIDE / COUNT * 8 };
  tsr_array *rows = tsr_put(s, data, TSR_F64, TSR_SHAPE(COUNT, WIDE), tsr_on(mesh, "x,-"));
  tsr_array *sum = tsr_sum(rows, .dims = TSR_DIMS(0));
  check_fetched(rt, tsr_constrain(sum, tsr_on(mesh, "-")), 4 * PIECE);
  check_fetched(rt, tsr_sum(rows, .dims = TSR_DIMS(0)), 2 * PIECE);
  CHECK_STATUS(tsr_read(tsr_roll(turned, 1, 1), back, sizeof back), TSR_OK, s);
  for (int i = 0; i < ROWS * COLUMNS; i++) {
    int row = i / COLUMNS, column = i % COLUMNS;
    CHECK(back[i] == data[row * COLUMNS + (column + COLUMNS - 1) % COLUMNS]);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Of a table that is cut the rows that are looked for, each once: two of the second host's devices
 * for the first two processes, four for the others. */
TEST_PROCESSES(rows_that_are_looked_for_are_fetched_alone, COUNT)
{
  static double data[ROWS * COLUMNS], back[8 * COLUMNS];
  static const int64_t at[8] = { 5, 700, 1100, 1500, -ROWS + 700, 1500, 701, 6 };
  two_hosts();
  tsr_runtime *rt = among_open(1);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  tsr_array *a = put_counted(s, mesh, data);
  tsr_array *i = tsr_put(s, at, TSR_I64, TSR_SHAPE(8), tsr_on(mesh, "-"));
  tsr_array *list[] = { a, i };
  CHECK_STATUS(tsr_eval(list, 2), TSR_OK, s);
  tsr_array *rows = tsr_take(a, i, 0);
  check_fetched(rt, rows, (test_process() < 2 ? 2 : 4) * COLUMNS * 8);
  CHECK_STATUS(tsr_read(rows, back, sizeof back), TSR_OK, s);
  for (int r = 0; r < 8; r++)
    CHECK_BYTES(back + r * COLUMNS, data + (at[r] < 0 ? at[r] + ROWS : at[r]) * COLUMNS,
                COLUMNS * sizeof *data);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Rows that lie on the second host's devices are dealt out evenly: of what they have each process
 * of the first host takes its quarter, and the others nothing. */
TEST_PROCESSES(rows_of_tables_are_fetched_where_they_go, COUNT)
{
  enum { ALL = 1 << 16, QUARTER = ALL / 2 / COUNT * 8, WORDS = 8192 };
  static double data[ALL];
  double sum = 0, expected = 0;
  int64_t count = 0;
  two_hosts();
  tsr_runtime *rt = among_open(1);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  for (int i = 0; i < ALL; i++) data[i] = i;
  for (int i = ALL / 2; i < ALL; i++) expected += data[i];
  tsr_array *v = tsr_put(s, data, TSR_F64, TSR_SHAPE(ALL), tsr_on(mesh, "x"));
  tsr_frame *half = tsr_frame_filter(tsr_frame_new(s, { "v", v }), "v >= ?", ALL / 2);
  CHECK_STATUS(tsr_frame_row_count(half, &count), TSR_OK, s);
  CHECK_I64(count, ALL / 2);
  int64_t before = tsr__peers_moved(tsr__peers_of(rt)).got_bytes;
  tsr_frame *even = tsr_frame_rebalance(half);
  sum = tsr_row_f64(tsr_frame_row(tsr_frame_agg(even, "s = sum(v)")), "s");
  int64_t got = tsr__peers_moved(tsr__peers_of(rt)).got_bytes - before;
  int64_t least = test_process() < 2 ? QUARTER : 0;
  if (got < least || got > least + WORDS)
    FAIL("%lld bytes, expected %lld", (long long)got, (long long)least);
  CHECK(sum == expected);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- who dies -------------------------------------------------------------------------------- */

static int victim;
static long victims_us; /* how long it lives after it joined */

static int works_until_one_dies(tsr_runtime *rt, tsr_scope *s, int index)
{
  enum { N = 512 };
  static float data[N * N];
  char name[32];
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_status status = TSR_OK;
  const struct itimerval end = { .it_value = { 0, victims_us } };
  if (index == victim) setitimer(ITIMER_REAL, &end, NULL);
  double began = fixture_now();
  while (!status && fixture_now() - began < 20) {
    double total;
    tsr_array *a = tsr_put(s, data, TSR_F32, TSR_SHAPE(N, N), tsr_on(mesh, "x,-"));
    tsr_array *b = tsr_constrain(tsr_add(a, 1), tsr_on(mesh, "-,x"));
    status = tsr_read_scalar(tsr_sum(tsr_matmul(b, a)), &total);
    if (!status) tsr_scope_clear(s);
  }
  snprintf(name, sizeof name, "process %d", victim);
  CHECK_STATUS(status, TSR_EPEER, s);
  CHECK_STR_HAS(tsr_message(s), name);
  CHECK(fixture_now() - began < 10);
  tsr_scope_clear(s);
  return 0;
}

TEST_TIMEOUT(who_is_killed_is_named_on_every_host, 120)
{
  pid_t ids[COUNT];
  int rounds = test_quick() ? 8 : 24;
  two_hosts();
  srand(7);
  for (int r = 0; r < rounds; r++) {
    victim = r % COUNT;
    victims_us = 1 + rand() % 100000;
    for (int i = 0; i < COUNT; i++)
      ids[i] = fixture_start("killed", i, COUNT, works_until_one_dies);
    for (int i = 0; i < COUNT; i++) CHECK_I64(fixture_end(ids[i]), i == victim ? 128 + SIGALRM : 0);
  }
}

/* ---- engines that are not there -------------------------------------------------------------- */

static tsr_status open_with(const char *socket, const char *engine, char *message, size_t size)
{
  char address[400];
  snprintf(address, sizeof address, "unix:%s", test_tmp(socket));
  tsr_runtime *rt =
      tsr_initialize("cpu:1", .coordinator = address, .process_count = test_process_count(),
                     .process_index = test_process(), .start_timeout = 30, .engine = engine);
  tsr_status status = tsr_runtime_status(rt);
  snprintf(message, size, "%s", tsr_runtime_message(rt));
  tsr_runtime_close(rt);
  return status;
}

TEST_PROCESSES(an_engine_that_is_not_there_is_an_error, 2)
{
  char text[1100];
  setenv("TSR_PLUGIN_PATH", "/nowhere", 1);
  setenv("TSR_HOST", test_process() ? "one" : "two", 1);
  CHECK_STATUS(open_with("missing", NULL, text, sizeof text), TSR_EUNSUPPORTED, NULL);
  CHECK_STR_HAS(text, "no tessera_ucx.so in /nowhere");
  CHECK_STR_HAS(text, "libucx-dev");
}

/* An object that is none, on one process only: the other one is told. */
TEST_PROCESSES(one_that_cannot_be_loaded_is_an_error_for_all, 2)
{
  char text[1100], folder[600], path[700];
  two_hosts();
  among_hosts(test_process(), 2);
  if (test_process()) {
    snprintf(folder, sizeof folder, "%s", test_tmp(""));
    snprintf(path, sizeof path, "%s/tessera_ucx.so", folder);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs("no object\n", file) > 0 && !fclose(file));
    setenv("TSR_PLUGIN_PATH", folder, 1);
  }
  CHECK_STATUS(open_with("broken", NULL, text, sizeof text), TSR_EUNSUPPORTED, NULL);
  CHECK_STR_HAS(text, test_process() ? "cannot be loaded" : "process 1");
}

TEST_PROCESSES(engines_must_be_the_same, 2)
{
  char text[1100];
  CHECK_STATUS(open_with("two", test_process() ? "ucx" : "local", text, sizeof text), TSR_EARG,
               NULL);
  CHECK_STR_HAS(text, "set .engine or TSR_ENGINE the same in all processes");
}

TEST_PROCESSES(the_engine_of_one_host_is_refused_between_two, 2)
{
  char text[1100];
  setenv("TSR_HOST", test_process() ? "one" : "two", 1);
  CHECK_STATUS(open_with("local", "local", text, sizeof text), TSR_EUNSUPPORTED, NULL);
  CHECK_STR_HAS(text, "processes are on 2 hosts");
}

TEST_PROCESSES(names_are_no_paths, 2)
{
  char text[1100];
  setenv("TSR_HOST", test_process() ? "one" : "two", 1);
  CHECK_STATUS(open_with("path", "../ucx", text, sizeof text), TSR_EARG, NULL);
}

/* On one host nothing is loaded, whatever the name. */
TEST_PROCESSES(one_host_needs_no_engine, 2)
{
  char text[1100];
  setenv("TSR_PLUGIN_PATH", "/nowhere", 1);
  CHECK_STATUS(open_with("near", "ucx", text, sizeof text), TSR_OK, NULL);
}

/* ---- memory that ends while they meet -------------------------------------------------------- */

/* Who has no memory keeps its runtime until the other one knows: neither waits for what the other
 * has left out. The last allocations come when hosts have met, the first ones before processes
 * do. */
TEST_PROCESSES(memory_that_ends_for_one_keeps_nobody_waiting, 2)
{
  enum { TIMES = 36, SECONDS = 20 };
  int me = test_process(), failed = 0, total = 0;
  two_hosts();
  for (int k = 0; k < TIMES; k++) {
    char name[32];
    fixture_ending e = { gettid(), me && k ? total - k : -1, 0 };
    tsr_allocator memory = fixture_ending_memory(&e);
    tsr_runtime_opts opts = { .size = sizeof opts, .allocator = &memory };
    snprintf(name, sizeof name, "memory.%d", k);
    double began = fixture_now();
    tsr_runtime *rt =
        fixture_join(name, .runtime = &opts, .start_timeout = 2, .on_failure = "error");
    tsr_status status = tsr_runtime_status(rt);
    if (!k) CHECK_STATUS(status, TSR_OK, NULL);
    if (!k) total = e.count;
    failed += status != TSR_OK;
    snprintf(name, sizeof name, "knows.%d.%d", k, me);
    FILE *file = fopen(test_tmp(name), "w");
    CHECK(file && !fclose(file));
    snprintf(name, sizeof name, "knows.%d.%d", k, !me);
    while (access(test_tmp(name), R_OK) && fixture_now() - began < SECONDS) usleep(1000);
    if (access(test_tmp(name), R_OK))
      FAIL("allocation %d of %d: %s", total - k, total, tsr_runtime_message(rt));
    tsr_runtime_close(rt);
  }
  CHECK(failed > 10);
}
