/* Scopes: ownership, the first error, running out of memory, the crowd warning. */
#include "harness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* A node that writes its letter when it is released. */
typedef struct letter {
  tsr__node node;
  char what;
  char *log;
} letter;

static void release_letter(tsr__node *node)
{
  letter *l = (letter *)node;
  size_t length = strlen(l->log);
  l->log[length] = l->what;
  l->log[length + 1] = '\0';
}

static letter *add_letter(tsr_scope *scope, char what, char *log)
{
  letter *l = tsr__node_new(scope, sizeof *l, "test.c:1", release_letter);
  if (!l) return NULL;
  CHECK(!l->what && !l->log);
  l->what = what;
  l->log = log;
  return l;
}

TEST(nodes_are_zeroed_and_know_their_scope)
{
  tsr_runtime *rt = tsr__runtime_new(NULL);
  tsr_scope *scope = tsr_scope_open(rt);
  CHECK(scope->rt == rt);
  CHECK_STR_HAS(scope->site, "scope_test.c:");
  for (int i = 0; i < 500; i++) {
    char *node = tsr__node_new(scope, 40 + (size_t)i, "here.c:7", NULL);
    CHECK_U64((uintptr_t)node % 16, 0);
    CHECK(((tsr__node *)node)->scope == scope);
    CHECK_STR(((tsr__node *)node)->site, "here.c:7");
    for (size_t k = sizeof(tsr__node); k < 40 + (size_t)i; k++) CHECK(!node[k]);
    memset(node + sizeof(tsr__node), 0xEE, 40 + (size_t)i - sizeof(tsr__node));
  }
  CHECK_I64(tsr_scope_node_count(scope), 500);
  tsr_scope_close(scope);
  tsr_runtime_close(rt);
}

TEST(closing_releases_inner_scopes_first_and_newest_nodes_first)
{
  char log[32] = "";
  tsr_runtime *rt = tsr__runtime_new(NULL);
  tsr_scope *outer = tsr_scope_open(rt);
  add_letter(outer, 'a', log);
  tsr_scope *first = tsr_scope_open(outer), *second = tsr_scope_open(outer);
  add_letter(first, 'c', log);
  add_letter(outer, 'b', log);
  add_letter(second, 'd', log);
  add_letter(second, 'e', log);
  add_letter(tsr_scope_open(second), 'f', log);
  CHECK_I64(tsr_scope_node_count(outer), 2);
  tsr_scope_close(outer);
  CHECK_STR(log, "fedcba");
  tsr_runtime_close(rt);
}

TEST(scopes_close_in_any_order)
{
  char log[32] = "";
  tsr_runtime *rt = tsr__runtime_new(NULL);
  tsr_scope *outer = tsr_scope_open(rt), *child[3];
  for (int i = 0; i < 3; i++) {
    child[i] = tsr_scope_open(outer);
    add_letter(child[i], (char)('0' + i), log);
  }
  tsr_scope_close(child[1]);
  CHECK_STR(log, "1");
  tsr_scope *later = tsr_scope_open(outer);
  CHECK_STR(tsr_message(later), "");
  CHECK_I64(tsr_scope_node_count(later), 0);
  add_letter(later, 'L', log);
  tsr_scope_close(child[0]);
  tsr_scope_close(outer);
  CHECK_STR(log, "10L2");
  tsr_runtime_close(rt);
}

TEST(closing_the_runtime_closes_open_scopes)
{
  char log[32] = "";
  tsr_runtime *rt = tsr__runtime_new(NULL);
  tsr_scope *a = tsr_scope_open(rt), *b = tsr_scope_open(rt), *c = tsr_scope_open(rt);
  add_letter(a, 'a', log);
  add_letter(tsr_scope_open(b), 'b', log);
  add_letter(c, 'c', log);
  tsr_scope_close(a);
  tsr_runtime_close(rt);
  CHECK_STR(log, "abc"); /* the newest scope first */
}

TEST(very_deep_nesting_does_not_use_the_stack)
{
  tsr_runtime *rt = tsr__runtime_new(NULL);
  tsr_scope *outer = tsr_scope_open(rt), *scope = outer;
  for (int i = 0; i < 20000; i++) scope = tsr_scope_open(scope);
  CHECK_I64(scope->depth, 20000);
  tsr_scope_close(outer);
  tsr_runtime_close(rt);
}

TEST(a_closed_scope_is_reused)
{
  struct test_alloc state = { 0 };
  tsr_allocator user = test_allocator(&state);
  tsr_runtime *rt = tsr__runtime_new(&(tsr_runtime_opts){ .allocator = &user });
  int64_t after = 0;
  for (int i = 0; i < 10; i++) {
    tsr_scope *outer = tsr_scope_open(rt), *inner = tsr_scope_open(outer);
    CHECK_I64(tsr_scope_node_count(outer), 0);
    CHECK_STR(tsr_message(inner), "");
    CHECK(!outer->run_stats && !inner->run_stats);
    outer->run_stats = inner->run_stats = rt;
    for (int k = 0; k < 8; k++) CHECK(tsr__node_new(inner, 300, NULL, NULL));
    tsr__fail(inner, NULL, TSR_EARG, "round %d", i);
    tsr_scope_close(outer);
    if (i == 1) after = state.count;
  }
  CHECK_I64(state.count, after); /* from the second round on nothing is allocated */
  tsr_runtime_close(rt);
  CHECK_I64(state.live, 0);
}

/* ---- where results belong ---- */

TEST(a_result_belongs_to_the_newest_scope_of_its_thread)
{
  tsr_runtime *rt = tsr__runtime_new(NULL);
  tsr_scope *root = tsr_scope_open(rt), *beside = tsr_scope_open(rt);
  CHECK(tsr__scope_here(NULL) == NULL);
  CHECK(tsr__scope_here(root) == root);
  tsr_scope *a = tsr_scope_open(root), *b = tsr_scope_open(root), *inner = tsr_scope_open(a);
  CHECK(tsr__scope_here(root) == inner);
  CHECK(tsr__scope_here(a) == inner);
  CHECK(tsr__scope_here(b) == b); /* the newest is not in it */
  CHECK(tsr__scope_here(beside) == beside);
  tsr_scope_close(inner);
  CHECK(tsr__scope_here(root) == b);
  tsr_scope_close(b);
  CHECK(tsr__scope_here(root) == a);
  tsr_scope_close(a);
  CHECK(tsr__scope_here(root) == root);
  tsr_runtime_close(rt);
}

struct nester {
  tsr_scope *root, *here, *own;
};

static void *nest(void *user)
{
  struct nester *n = user;
  n->here = tsr__scope_here(n->root);
  n->own = tsr_scope_open(n->root);
  CHECK(tsr__scope_here(n->root) == n->own);
  return NULL;
}

TEST(threads_have_newest_scopes_of_their_own)
{
  tsr_runtime *rt = tsr__runtime_new(NULL);
  struct nester n = { .root = tsr_scope_open(rt) };
  tsr_scope *mine = tsr_scope_open(n.root);
  pthread_t thread;
  CHECK(!pthread_create(&thread, NULL, nest, &n));
  pthread_join(thread, NULL);
  CHECK(n.here == n.root); /* it had none there: where the operands are */
  CHECK(n.own != mine && tsr__scope_here(n.root) == mine);
  CHECK(tsr__scope_here(n.own) == n.own);
  tsr_scope_close(n.root);
  CHECK(!tsr__scope_any(rt));
  tsr_runtime_close(rt);
}

/* Handles of threads come again: each of these but the first most likely has that of the one
 * before, whose scope is still open. Numbers of threads do not, in any runtime. */
TEST(a_thread_has_no_scope_of_one_that_ended)
{
  for (int round = 0; round < 2; round++) {
    tsr_runtime *rt = tsr__runtime_new(NULL);
    struct nester n = { .root = tsr_scope_open(rt) };
    uintptr_t known[40];
    for (int i = 0; i < 40; i++) {
      pthread_t thread;
      CHECK(!pthread_create(&thread, NULL, nest, &n));
      pthread_join(thread, NULL);
      CHECK(n.here == n.root);
      known[i] = n.own->thread;
      for (int k = 0; k < i; k++) CHECK(known[i] != known[k]);
      CHECK(known[i] != tsr__thread_id(rt));
    }
    CHECK(tsr__scope_here(n.root) == n.root);
    tsr_runtime_close(rt);
  }
}

/* ---- errors ---- */

TEST(the_first_error_stays_with_its_scope)
{
  tsr_runtime *rt = tsr__runtime_new(NULL);
  tsr_scope *outer = tsr_scope_open(rt), *inner = tsr_scope_open(outer);
  CHECK_STR(tsr_message(inner), "");
  CHECK_STATUS(tsr__fail(inner, "a.c:3", TSR_ESHAPE, "tsr_add: %d dims", 2), TSR_ESHAPE, NULL);
  CHECK_STATUS(tsr__fail(inner, "a.c:4", TSR_EAXIS, "later"), TSR_EAXIS, NULL);
  CHECK_STR(tsr_message(inner), "a.c:3: TSR_ESHAPE: tsr_add: 2 dims");
  CHECK_STATUS(tsr_scope_status(inner), TSR_ESHAPE, NULL);
  CHECK_STATUS(tsr_scope_status(outer), TSR_OK, outer);
  CHECK_STR(tsr_message(outer), "");
  tsr_scope_clear(inner);
  CHECK_STATUS(tsr_scope_status(inner), TSR_OK, inner);
  CHECK_STR(tsr_message(inner), "");
  CHECK_STATUS(tsr_fail(inner, TSR_EVALUE, "%s", "mine"), TSR_EVALUE, NULL);
  CHECK_STR(tsr_message(inner), "TSR_EVALUE: mine");
  CHECK_STATUS(tsr_fail(outer, TSR_OK, "no error"), TSR_OK, NULL);
  CHECK_STR(tsr_message(outer), "");
  tsr__error error = { 0 };
  CHECK_STATUS(tsr__fail_error(outer, "b.c:9", &error), TSR_OK, NULL);
  tsr__error_set(&error, TSR_EIO, "100%% of '%s'", "x");
  CHECK_STATUS(tsr__fail_error(outer, "b.c:9", &error), TSR_EIO, NULL);
  CHECK_STR(tsr_message(outer), "b.c:9: TSR_EIO: 100% of 'x'");
  tsr_runtime_close(rt);
}

TEST(long_messages_are_whole_and_their_room_is_reused)
{
  tsr_runtime *rt = tsr__runtime_new(NULL);
  tsr_scope *scope = tsr_scope_open(rt);
  for (int i = 0; i < 3; i++) {
    tsr__fail(scope, NULL, TSR_EPARSE, "%5000d", i);
    CHECK_U64(strlen(tsr_message(scope)), 5000 + strlen("TSR_EPARSE: "));
    tsr_scope_clear(scope);
  }
  const char *room = scope->message_room;
  tsr__fail(scope, NULL, TSR_EARG, "short");
  CHECK(tsr_message(scope) == room);
  tsr_runtime_close(rt);
}

TEST(null_is_allowed)
{
  tsr_scope_close(NULL);
  tsr_scope_clear(NULL);
  CHECK_STR(tsr_message(NULL), "");
  CHECK_STATUS(tsr_scope_status(NULL), TSR_OK, NULL);
  CHECK_I64(tsr_scope_node_count(NULL), 0);
  CHECK_STATUS(tsr_fail(NULL, TSR_EARG, "x"), TSR_EARG, NULL);
  CHECK(!tsr__node_new(NULL, 64, NULL, NULL));
  tsr_scope *none = tsr_scope_open_at(NULL, "x.c:1");
  CHECK_STATUS(tsr_scope_status(none), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_message(none), "NULL");
  CHECK(tsr_scope_nest_at(NULL, NULL) == none);
  CHECK(tsr__scope_inner(NULL, NULL) == NULL);
  CHECK(tsr__scope_inner(none, NULL) == none);
}

/* ---- which scope ---- */

TEST(the_inner_of_two_scopes)
{
  tsr_runtime *rt = tsr__runtime_new(NULL);
  tsr_scope *outer = tsr_scope_open(rt), *inner = tsr_scope_open(outer);
  CHECK(tsr__scope_inner(outer, inner) == inner);
  CHECK(tsr__scope_inner(inner, outer) == inner);
  CHECK(tsr__scope_inner(outer, outer) == outer);
  CHECK(tsr__scope_inner(outer, NULL) == outer);
  CHECK(tsr__scope_inner(NULL, inner) == inner);
  tsr_scope *inert = tsr_scope_open_at(NULL, NULL);
  CHECK(tsr__scope_inner(inner, inert) == inert); /* what is made of nothing is nothing */
  tsr_runtime_close(rt);
}

/* ---- running out of memory ---- */

/* What a small program does; the statuses of its scopes, joined. */
static void small_program(tsr_runtime *rt, char *log)
{
  tsr_scope *outer = tsr_scope_open(rt), *inner = tsr_scope_open(outer);
  for (int i = 0; i < 40; i++) {
    letter *a = add_letter(outer, 'o', log), *b = add_letter(inner, 'i', log);
    if (!a) CHECK_STATUS(tsr_scope_status(outer), TSR_ENOMEM, NULL);
    if (!b) CHECK_STATUS(tsr_scope_status(inner), TSR_ENOMEM, NULL);
  }
  tsr__fail(inner, "x.c:1", TSR_EARG, "%3000d", 1);
  CHECK(tsr_scope_status(inner) != TSR_OK);
  CHECK_STR_HAS(tsr_message(inner), "TSR_E");
  tsr_scope_clear(inner);
  CHECK_I64(tsr__fail(outer, NULL, TSR_EIO, "x"), TSR_EIO);
  CHECK(tsr_scope_status(outer) != TSR_OK);
  tsr_scope_close(inner);
  tsr_scope_close(outer);
}

static int64_t run_failing(int64_t fail_at, bool stay, tsr_status *out)
{
  static char log[1000];
  log[0] = '\0';
  struct test_alloc state = { .fail_at = fail_at, .stay = stay };
  tsr_allocator user = test_allocator(&state);
  tsr_runtime *rt = tsr__runtime_new(&(tsr_runtime_opts){ .allocator = &user });
  *out = tsr_runtime_status(rt);
  small_program(rt, log);
  tsr_runtime_close(rt);
  CHECK_I64(state.live, 0);
  CHECK_I64(state.bytes, 0);
  return state.count;
}

TEST(any_allocation_may_fail)
{
  tsr_status status;
  int64_t whole = run_failing(0, false, &status);
  CHECK_I64(status, TSR_OK);
  CHECK(whole > 4);
  for (int64_t n = 1; n <= whole; n++) {
    for (int stay = 0; stay < 2; stay++) {
      run_failing(n, stay, &status);
      CHECK_I64(status, n == 1 ? TSR_ENOMEM : TSR_OK);
    }
  }
}

TEST(an_inert_scope_takes_everything_and_changes_nothing)
{
  struct test_alloc state = { .fail_at = 2, .stay = true };
  tsr_allocator user = test_allocator(&state);
  tsr_runtime *rt = tsr__runtime_new(&(tsr_runtime_opts){ .allocator = &user });
  tsr_scope *scope = tsr_scope_open(rt);
  CHECK(scope && scope->inert);
  CHECK_STATUS(tsr_scope_status(scope), TSR_ENOMEM, NULL);
  CHECK_STR_HAS(tsr_message(scope), "TSR_ENOMEM: ");
  CHECK(!tsr__node_new(scope, 64, NULL, NULL));
  CHECK(!tsr__arena_new(&scope->arena, 64));
  CHECK_STATUS(tsr_fail(scope, TSR_EARG, "x"), TSR_EARG, NULL);
  tsr_scope_clear(scope);
  CHECK_STATUS(tsr_scope_status(scope), TSR_ENOMEM, NULL);
  CHECK_I64(tsr_scope_node_count(scope), 0);
  CHECK(tsr_scope_open(scope) == scope);
  tsr_scope_close(scope);
  tsr_scope_close(scope);
  tsr_runtime_close(rt);
}

/* ---- too many nodes ---- */

struct lines {
  int count;
  char text[400];
};

static void keep_line(tsr_log_level level, const char *area, const char *line, void *user)
{
  struct lines *lines = user;
  CHECK_I64(level, TSR_LOG_WARN);
  CHECK_STR(area, "base");
  lines->count++;
  snprintf(lines->text, sizeof lines->text, "%s", line);
}

TEST(a_crowded_scope_names_the_busiest_line_once)
{
  struct lines lines = { 0 };
  unsetenv("TSR_LOG");
  tsr_runtime *rt = tsr__runtime_new(&(tsr_runtime_opts){ .log = keep_line, .log_user = &lines });
  tsr_scope *scope = tsr_scope_open_at(rt, "main.c:10");
  static char rare[100][24];
  for (int i = 0; i < 100; i++) snprintf(rare[i], sizeof rare[i], "rare.c:%d", i);
  for (int i = 0; i < 130000; i++) {
    const char *site = i % 3 == 0 ? "loop.c:14" : i % 7 == 0 ? "loop.c:15" : rare[i % 100];
    CHECK(tsr__node_new(scope, sizeof(tsr__node), site, NULL));
    if (i == 99999) CHECK_I64(lines.count, 0);
    if (i == 100000) CHECK_I64(lines.count, 1);
  }
  CHECK_I64(lines.count, 1);
  CHECK_STR_HAS(lines.text, "the scope opened at main.c:10 holds 100001 nodes");
  CHECK_STR_HAS(lines.text, "33334 of them made at loop.c:14");
  CHECK_STR_HAS(lines.text, "tsr_keep");
  tsr_runtime_close(rt);
}

/* ---- threads: each has its own scopes, the runtime is shared ---- */

static void *use_scopes(void *argument)
{
  tsr_runtime *rt = argument;
  char log[64];
  for (int i = 0; i < 3000; i++) {
    log[0] = '\0';
    tsr_scope *a = tsr_scope_open(rt), *b = tsr_scope_open(a);
    add_letter(a, 'a', log);
    add_letter(b, 'b', log);
    tsr_scope_close(a);
    CHECK_STR(log, "ba");
  }
  return NULL;
}

TEST(threads_share_a_runtime)
{
  tsr_runtime *rt = tsr__runtime_new(NULL);
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) CHECK(!pthread_create(&thread[i], NULL, use_scopes, rt));
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  CHECK(!tsr__scope_any(rt));
  tsr_runtime_close(rt);
}
