/* The runtime: options, errors of opening, closing, and the one that stands in for no memory. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tessera.h"

TEST(defaults_are_resolved)
{
  tsr_runtime *rt = tsr__runtime_new(NULL);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_OK, NULL);
  CHECK_STR(tsr_runtime_message(rt), "");
  CHECK(rt->opts.threads >= 1);
  CHECK_I64(rt->opts.threads, tsr__core_count());
  CHECK_I64(rt->opts.plan_cache, 256);
  CHECK(!rt->opts.isa && !rt->opts.allocator);
  tsr_runtime_close(rt);
  tsr_runtime_close(NULL);
}

TEST(borrowed_options_are_copied)
{
  struct test_alloc state = { 0 };
  tsr_allocator user = test_allocator(&state);
  char isa[] = "avx2";
  tsr_runtime_opts opts = { .size = sizeof opts, .threads = 3, .allocator = &user, .isa = isa };
  tsr_runtime *rt = tsr__runtime_new(&opts);
  memset(isa, 'x', 4);
  memset(&user, 0, sizeof user);
  CHECK_I64(rt->opts.threads, 3);
  CHECK_STR(rt->opts.isa, "avx2");
  CHECK(rt->opts.allocator->allocate == rt->heap.fn.allocate);
  tsr_scope_close(tsr_scope_open(rt));
  tsr_runtime_close(rt);
  CHECK_I64(state.live, 0);
  CHECK_I64(state.bytes, 0);
}

static void check_refused(tsr_runtime_opts opts, const char *part)
{
  tsr_runtime *rt = tsr__runtime_new(&opts);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_runtime_message(rt), part);
  tsr_runtime_close(rt);
}

TEST(bad_options_are_named)
{
  size_t size = sizeof(tsr_runtime_opts);
  check_refused((tsr_runtime_opts){ .size = size, .threads = -1 }, ".threads is -1");
  check_refused((tsr_runtime_opts){ .size = size, .threads = 1 << 20 }, ".threads is 1048576");
  check_refused((tsr_runtime_opts){ .size = size, .memory_limit = -5 }, "-5 bytes");
  check_refused((tsr_runtime_opts){ .size = size, .plan_cache = -2 }, "-2 plans");
  struct test_alloc state = { 0 };
  tsr_allocator half = test_allocator(&state);
  half.release = NULL;
  check_refused((tsr_runtime_opts){ .size = size, .allocator = &half }, "lacks release");
}

/* What a program compiled for a newer header passes. */
struct newer {
  tsr_runtime_opts opts;
  int64_t extra;
};

TEST(older_and_newer_callers_are_understood)
{
  tsr_runtime_opts old = { .size = offsetof(tsr_runtime_opts, log), .threads = 2 };
  memset((char *)&old + old.size, 0x5A, sizeof old - old.size); /* beyond what the caller knows */
  tsr_runtime *rt = tsr__runtime_new(&old);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_OK, NULL);
  CHECK_I64(rt->opts.threads, 2);
  CHECK(!rt->opts.log && !rt->opts.isa);
  tsr_runtime_close(rt);

  struct newer new = { .opts = { .size = sizeof new, .threads = 2 } };
  rt = tsr__runtime_new(&new.opts);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_OK, NULL);
  tsr_runtime_close(rt);
  new.extra = 1;
  rt = tsr__runtime_new(&new.opts);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_EUNSUPPORTED, NULL);
  tsr_runtime_close(rt);
}

TEST(a_failed_open_shows_in_its_scopes)
{
  tsr_runtime *rt = tsr__runtime_new(NULL);
  CHECK_I64(tsr__runtime_fail(rt, TSR_EARG, "no device '%s'", "gpu"), TSR_EARG);
  tsr__runtime_fail(rt, TSR_EIO, "later");
  CHECK_STATUS(tsr_runtime_status(rt), TSR_EARG, NULL);
  CHECK_STR(tsr_runtime_message(rt), "no device 'gpu'");
  tsr_scope *scope = tsr_scope_open_at(rt, "main.c:5"), *inner = tsr_scope_nest_at(scope, NULL);
  CHECK_STR(tsr_message(scope), "main.c:5: TSR_EARG: no device 'gpu'");
  CHECK_STR(tsr_message(inner), "TSR_EARG: no device 'gpu'");
  tsr_runtime_close(rt);
}

/* Slots note the order in which they are freed. */
static char freed[8];

static void free_slot(tsr_runtime *rt, void *slot)
{
  CHECK(!tsr__scope_any(rt)); /* scopes go first */
  strcat(freed, slot);
}

TEST(closing_goes_from_the_outside_in)
{
  tsr_runtime *rt = tsr__runtime_new(NULL);
  static char names[TSR__SLOTS][2], expected[TSR__SLOTS + 1];
  for (int i = 0; i < TSR__SLOTS; i++) {
    names[i][0] = expected[TSR__SLOTS - 1 - i] = (char)('0' + i);
    rt->slots[i] = names[i];
    rt->slot_free[i] = free_slot;
  }
  tsr_scope *a = tsr_scope_open(rt);
  tsr_scope_nest_at(a, NULL);
  tsr_scope_open(rt);
  tsr_runtime_close(rt);
  CHECK_STR(freed, expected);
}

static void count_line(tsr_log_level level, const char *area, const char *line, void *user)
{
  (void)area;
  CHECK_I64(level, TSR_LOG_ERROR);
  CHECK_STR_HAS(line, "1 blocks of memory were still held");
  ++*(int *)user;
}

TEST(a_leak_of_a_room_is_logged_at_close)
{
  int lines = 0;
  tsr_runtime *rt = tsr__runtime_new(&(tsr_runtime_opts){ .log = count_line, .log_user = &lines });
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  void *lost = tsr__new(&rt->heap, 10);
  tsr_runtime_close(rt);
  CHECK_I64(lines, 1);
  free(lost);
  rt = tsr__runtime_new(&(tsr_runtime_opts){ .log = count_line, .log_user = &lines });
  tsr_scope_close(tsr_scope_open(rt));
  tsr_runtime_close(rt);
  CHECK_I64(lines, 1);
}

TEST(without_memory_a_runtime_is_inert_but_usable)
{
  struct test_alloc state = { .fail_at = 1, .stay = true };
  tsr_allocator user = test_allocator(&state);
  tsr_runtime *rt = tsr__runtime_new(&(tsr_runtime_opts){ .allocator = &user });
  CHECK(rt);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_ENOMEM, NULL);
  CHECK(*tsr_runtime_message(rt));
  CHECK_I64(tsr__runtime_fail(rt, TSR_EARG, "ignored"), TSR_EARG);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_ENOMEM, NULL);
  CHECK(!tsr__new(&rt->heap, 8));
  CHECK_I64(tsr__worker_count(rt), 1);
  CHECK(!tsr__log_on(rt, TSR_LOG_ERROR, "base"));
  tsr_scope *scope = tsr_scope_open(rt);
  CHECK_STATUS(tsr_scope_status(scope), TSR_ENOMEM, NULL);
  CHECK(scope->rt == rt);
  tsr_scope_close(scope);
  tsr_runtime_close(rt);
  CHECK_I64(state.live, 0);
}

TEST(null_is_allowed)
{
  CHECK_STATUS(tsr_runtime_status(NULL), TSR_EARG, NULL);
  CHECK(*tsr_runtime_message(NULL));
  CHECK_I64(tsr__runtime_fail(NULL, TSR_EIO, "x"), TSR_EIO);
}

/* ---- places from other languages ----------------------------------------------------------- */

TEST(places_are_kept_once_until_the_runtime_closes)
{
  struct test_alloc state = { 0 };
  tsr_allocator user = test_allocator(&state);
  tsr_runtime_opts opts = { .size = sizeof opts, .allocator = &user };
  tsr_runtime *rt = tsr__runtime_new(&opts);
  char text[32];
  const char *kept[1000];
  for (int i = 0; i < 1000; i++) {
    snprintf(text, sizeof text, "script.py:%d", i);
    kept[i] = tsr_runtime_site(rt, text);
    CHECK(kept[i] != text);
  }
  for (int i = 0; i < 1000; i++) {
    snprintf(text, sizeof text, "script.py:%d", i);
    CHECK_STR(kept[i], text);
    CHECK(tsr_runtime_site(rt, text) == kept[i]);
  }
  CHECK(!tsr_runtime_site(rt, NULL) && !tsr_runtime_site(NULL, "a.py:1"));
  tsr_runtime_close(rt);
  CHECK_I64(state.live, 0);
}

TEST(a_place_without_memory_is_no_place)
{
  struct test_alloc state = { 0 };
  tsr_allocator user = test_allocator(&state);
  tsr_runtime_opts opts = { .size = sizeof opts, .allocator = &user };
  tsr_runtime *rt = tsr__runtime_new(&opts);
  state.fail_at = state.count + 1;
  CHECK(!tsr_runtime_site(rt, "a.py:1"));
  state.fail_at = 0;
  CHECK_STR(tsr_runtime_site(rt, "a.py:1"), "a.py:1");
  tsr_runtime_close(rt);
  CHECK_I64(state.live, 0);
}

/* ---- whose memory it is -------------------------------------------------------------------- */

/* One that looks whether the runtime's lock is free: it may wait for a thread that waits for it. */
typedef struct watcher {
  tsr_runtime *rt; /* NULL: not open yet */
  int64_t calls, locked;
} watcher;

static void look_at_lock(watcher *w)
{
  if (!w->rt) return;
  w->calls++;
  if (pthread_mutex_trylock(&w->rt->lock)) w->locked++;
  else pthread_mutex_unlock(&w->rt->lock);
}

static void *allocate_watched(size_t size, size_t alignment, void *user)
{
  look_at_lock(user);
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void release_watched(void *block, size_t size, void *user)
{
  (void)size;
  look_at_lock(user);
  free(block);
}

TEST(the_allocator_is_called_without_the_lock)
{
  watcher w = { 0 };
  tsr_allocator user = { allocate_watched, release_watched, &w };
  tsr_runtime *rt = tsr_runtime_open("cpu:4", .allocator = &user, .threads = 1);
  char text[32];
  double sum;
  w.rt = rt;
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STATUS(tsr_profile_begin(s), TSR_OK, s);
  for (int i = 0; i < 200; i++) {
    tsr_scope *own = tsr_scope_open(s);
    snprintf(text, sizeof text, "axis%d=%d", i, i % 5 + 1); /* one of five is too large */
    tsr_mesh_make(rt, text);
    CHECK(tsr_runtime_site(rt, text));
    tsr_array *x = tsr_iota(own, TSR_F64, TSR_SHAPE(8 + i % 9), 0, (tsr_sharding){ 0 });
    CHECK_STATUS(tsr_read_scalar(tsr_sum(x), &sum), TSR_OK, own);
    tsr_scope_close(own);
  }
  CHECK_STATUS(tsr_profile_end(s, test_tmp("trace.json")), TSR_OK, s);
  tsr_scope_close(s);
  w.rt = NULL;
  CHECK(w.calls > 1000);
  CHECK_I64(w.locked, 0);
  tsr_runtime_close(rt);
}

/* Each has a key of threads, of which a process has so many. */
TEST(a_process_may_have_as_many_runtimes_as_keys)
{
  enum { MOST = 5000 };
  static tsr_runtime *open[MOST];
  int count = 0;
  do open[count] = tsr__runtime_new(NULL);
  while (!tsr_runtime_status(open[count++]) && count < MOST);
  CHECK(count > 100 && count < MOST);
  CHECK_STATUS(tsr_runtime_status(open[count - 1]), TSR_ENOMEM, NULL);
  CHECK_STR_HAS(tsr_runtime_message(open[count - 1]), "close runtimes that are no longer needed");
  tsr_scope *s = tsr_scope_open(open[count - 1]);
  CHECK_STATUS(tsr_scope_status(s), TSR_ENOMEM, NULL);
  tsr_scope_close(s);
  for (int i = 0; i < count; i++) tsr_runtime_close(open[i]);
  tsr_runtime *again = tsr__runtime_new(NULL);
  CHECK_STATUS(tsr_runtime_status(again), TSR_OK, NULL);
  tsr_runtime_close(again);
}
