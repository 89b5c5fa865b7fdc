/* Every verb with memory that ends: each allocation fails once, each for good, and
 * devices have room for less and less. A clear status and a message, or the right result; no leak;
 * and the same runtime then does the same work to the last bit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/verb_cases.h"

static tsr_runtime *open_runtime(const tsr_allocator *allocator, int64_t limit)
{
  tsr_runtime *rt =
      tsr_runtime_open("cpu:4", .allocator = allocator, .threads = 1, .memory_limit = limit);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_OK, NULL);
  return rt;
}

/* Failures are told and counted, and the next verb is tried. */
#define REPORT(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), false)

/* Of how many failures one is tried: all of them with TEST_FULL=1. */
static int64_t failure_step(void)
{
  const char *full = getenv("TEST_FULL");
  return full && *full == '1' ? 1 : test_quick() ? 97 : 23;
}

/* ---- allocations ----------------------------------------------------------------------------- */

/* Fails the n-th allocation from now on. */
static void arm(struct test_alloc *state, int64_t n, bool stay)
{
  state->stay = stay;
  state->fail_at = state->count + n;
}

static void disarm(struct test_alloc *state)
{
  state->fail_at = 0;
  state->stay = false;
}

/* What the n-th allocation's failure comes to; then the same runtime must do the job. `n` becomes 0
 * after the last allocation. */
static bool fail_one(const struct verb_case *job, int64_t *n, bool stay, uint64_t expected)
{
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  uint64_t found = 0;
  long long which = (long long)*n;
  verb_out_reset();
  tsr_runtime *rt = open_runtime(&allocator, 0);
  arm(&state, *n, stay);
  tsr_status status = verb_run(job, rt, &found);
  if (state.count < state.fail_at) *n = 0;
  disarm(&state);
  if (status == TSR_OK && found != expected)
    return REPORT("%s, allocation %lld: wrong result", job->name, which);
  if (status != TSR_OK && status != TSR_ENOMEM)
    return REPORT("%s, allocation %lld: %s %s", job->name, which, tsr_status_name(status),
                  verb_message());
  verb_out_check(job->name, verb_out_hash());
  status = verb_run(job, rt, &found);
  if (status || found != expected)
    return REPORT("%s, allocation %lld: afterwards %s, %s result %s", job->name, which,
                  tsr_status_name(status), found == expected ? "right" : "wrong", verb_message());
  tsr_runtime_close(rt);
  if (state.live)
    return REPORT("%s, allocation %lld: %lld blocks leak", job->name, which, (long long)state.live);
  return true;
}

/* As TEST_VERB="sort_one 357 1" says: for debuggers, with --no-fork. */
static void fail_as_told(const char *told)
{
  char name[64];
  long long n;
  int stay = 0;
  uint64_t expected;
  CHECK(sscanf(told, "%63s %lld %d", name, &n, &stay) >= 2);
  for (int i = 0; i < verb_case_count; i++) {
    if (strcmp(verb_cases[i].name, name) != 0) continue;
    tsr_runtime *rt = open_runtime(NULL, 0);
    CHECK_STATUS(verb_run(&verb_cases[i], rt, &expected), TSR_OK, NULL);
    tsr_runtime_close(rt);
    fail_one(&verb_cases[i], &(int64_t){ n }, stay, expected);
  }
}

static void fail_each(bool stay)
{
  int64_t tried = 0, step = failure_step();
  int bad = 0;
  verb_files();
  if (getenv("TEST_VERB")) {
    fail_as_told(getenv("TEST_VERB"));
    return;
  }
  for (int i = 0; i < verb_case_count; i++) {
    const struct verb_case *job = &verb_cases[i];
    uint64_t expected = 0;
    tsr_runtime *rt = open_runtime(NULL, 0);
    if (verb_run(job, rt, &expected)) FAIL("%s: fails: %s", job->name, verb_message());
    tsr_runtime_close(rt);
    for (int64_t n = 1 + i % step; n > 0; n += n ? step : 0, tried++)
      if (!fail_one(job, &n, stay, expected)) {
        bad++;
        break;
      }
  }
  printf("# %d verbs, %lld failures\n", verb_case_count, (long long)tried);
  CHECK_I64(bad, 0);
}

TEST_TIMEOUT(any_allocation_of_any_verb_may_fail, 1500)
{
  fail_each(false);
}

TEST_TIMEOUT(memory_may_end_at_any_allocation_of_any_verb, 1500)
{
  fail_each(true);
}

TEST(no_allocation_of_opening_and_closing_may_harm)
{
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  for (int64_t n = 1;; n++) {
    state = (struct test_alloc){ .fail_at = n };
    tsr_runtime *rt = tsr_runtime_open("cpu:4", .allocator = &allocator);
    tsr_status status = tsr_runtime_status(rt);
    CHECK(status == TSR_OK || status == TSR_ENOMEM);
    CHECK(status == TSR_OK || *tsr_runtime_message(rt));
    tsr_scope_close(tsr_scope_open(rt));
    bool refused = state.count >= n;
    tsr_runtime_close(rt);
    CHECK_I64(state.live, 0);
    if (!refused) break;
  }
}

/* ---- devices with limits --------------------------------------------------------------------- */

/* Runs a job with so many bytes a device; `*status` is what came of it. */
static bool limit_one(const struct verb_case *job, int64_t limit, uint64_t expected,
                      tsr_status *status)
{
  uint64_t found = 0;
  verb_out_reset();
  tsr_runtime *rt = open_runtime(NULL, limit);
  *status = verb_run(job, rt, &found);
  verb_out_check(job->name, verb_out_hash());
  tsr_runtime_close(rt);
  if (*status == TSR_OK && found != expected)
    return REPORT("%s, %lld bytes a device: wrong result", job->name, (long long)limit);
  if (*status && *status != TSR_ENOMEM)
    return REPORT("%s, %lld bytes a device: %s", job->name, (long long)limit, verb_message());
  return true;
}

TEST_TIMEOUT(devices_may_have_any_limit, 600)
{
  int64_t tried = 0, bad = 0;
  verb_files();
  for (int i = 0; i < verb_case_count; i++) {
    const struct verb_case *job = &verb_cases[i];
    uint64_t expected = 0;
    tsr_runtime *rt = open_runtime(NULL, 0);
    if (verb_run(job, rt, &expected)) FAIL("%s: fails: %s", job->name, verb_message());
    tsr_runtime_close(rt);
    tsr_status status = TSR_ENOMEM;
    int64_t limit = 64;
    for (; status && limit < 1 << 22; limit += limit / (test_quick() ? 2 : 8), tried++)
      if (!limit_one(job, limit, expected, &status)) {
        bad++;
        break;
      }
    if (limit >= 1 << 22) FAIL("%s: does not fit 4 MB a device", job->name);
  }
  printf("# %d verbs, %lld limits\n", verb_case_count, (long long)tried);
  CHECK_I64(bad, 0);
}

/* ---- completeness ---------------------------------------------------------------------------- */

/* Public calls that do no work which could fail: they look at what is there. */
static const char *const questions[] = {
  "tsr_argument_is_named",
  "tsr_coltype_name",
  "tsr_device_count",
  "tsr_device_kind",
  "tsr_device_memory",
  "tsr_dims_of",
  "tsr_dtype_name",
  "tsr_dtype_of",
  "tsr_dtype_size",
  "tsr_fail",
  "tsr_frame_operand_float",
  "tsr_frame_operand_frame",
  "tsr_frame_operand_int",
  "tsr_frame_operand_uint",
  "tsr_isa",
  "tsr_last_run",
  "tsr_frame_notes",
  "tsr_mesh_abstract",
  "tsr_mesh_axis_count",
  "tsr_mesh_axis_name",
  "tsr_mesh_axis_size",
  "tsr_mesh_device",
  "tsr_mesh_device_count",
  "tsr_mesh_is_abstract",
  "tsr_mesh_make_with",
  "tsr_mesh_message",
  "tsr_mesh_status",
  "tsr_mesh_sub",
  "tsr_mesh_text",
  "tsr_on_dims",
  "tsr_on_scope",
  "tsr_operand_array",
  "tsr_operand_bool",
  "tsr_operand_float",
  "tsr_operand_int",
  "tsr_operand_uint",
  "tsr_runtime_close",
  "tsr_runtime_message",
  "tsr_plugin_describe",
  "tsr_runtime_open_with",
  "tsr_runtime_site",
  "tsr_runtime_status",
  "tsr_scalar_bool",
  "tsr_scalar_float",
  "tsr_scalar_int",
  "tsr_scalar_text",
  "tsr_scalar_uint",
  "tsr_scope_clear",
  "tsr_scope_mesh",
  "tsr_scope_node_count",
  "tsr_scope_use_mesh",
  "tsr_shard_box",
  "tsr_shard_boxes",
  "tsr_shard_replica",
  "tsr_shard_shape",
  "tsr_sharding_addressable",
  "tsr_sharding_of",
  "tsr_sharding_replicated",
  "tsr_sharding_same",
  "tsr_sharding_text",
  "tsr_status_name",
  "tsr_status_text",
  "tsr_table_valid",
  "tsr_table_values",
  "tsr_type_text",
  "tsr_version",
};

static bool is_question(const char *name)
{
  for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
    if (!strcmp(questions[i], name)) return true;
  return false;
}

/* Calls without a macro of their own name, and a macro that makes them. */
static const char *const behind[][2] = {
  { "tsr_scope_nest_at", "tsr_scope_open" },
  { "tsr_binary_at", "tsr_sub" },
};

static bool ends_in(const char *name, size_t length, const char *ending)
{
  size_t part = strlen(ending);
  return length > part && !strncmp(name + length - part, ending, part);
}

/* "tsr_add_at" is written tsr_add(...), "tsr_fma_of_at" tsr_fma(...), "tsr_mesh_make_with"
 * tsr_mesh_make(...). */
static bool is_called(const char *source, const char *name)
{
  static const char *const endings[] = { "_at", "_of", "_with" };
  char call[128];
  for (size_t i = 0; i < sizeof behind / sizeof *behind; i++)
    if (!strcmp(name, behind[i][0])) name = behind[i][1];
  size_t length = strlen(name);
  for (size_t i = 0; i <= sizeof endings / sizeof *endings; i++) {
    snprintf(call, sizeof call, "%.*s(", (int)length, name);
    if (strstr(source, call)) return true;
    if (i < sizeof endings / sizeof *endings && ends_in(name, length, endings[i]))
      length -= strlen(endings[i]);
  }
  return false;
}

TEST(every_public_verb_has_a_job)
{
  static const char *const files[] = { "cases", "arrays", "transform", "inspect", "stages" };
  enum { FILES = sizeof files / sizeof *files };
  char *source[FILES], *exports = test_read(test_file("exports.txt"), NULL), *rest = exports;
  int missing = 0;
  for (int i = 0; i < FILES; i++) {
    char path[64];
    snprintf(path, sizeof path, "support/verb_%s.c", files[i]);
    source[i] = test_read(test_file(path), NULL);
  }
  for (char *name; (name = strsep(&rest, "\n"));) {
    bool found = !*name || is_question(name);
    for (int i = 0; i < FILES; i++) found = found || is_called(source[i], name);
    if (found) continue;
    fprintf(stderr, "%s has no job in tests/support/verb_cases.c\n", name);
    missing++;
  }
  CHECK_I64(missing, 0);
  for (int i = 0; i < FILES; i++) free(source[i]);
  free(exports);
}
