/* What a process gets of another host's and tells it, by an engine of the test: gets that come late
 * or in vain, and notes that there is no memory for. The other process is words in its head. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/peers_room.h"
#include "harness.h"

enum { GETS = 8, SIZE = 1 << 16, PIECE = 4096, LATE = 140 };

struct tsr__plugin {
  tsr__plugin_host host;
  tsr__plugin_get gets[GETS];
  int due[GETS]; /* calls of progress until a get comes; negative: in vain; 0: there is none */
  int refused;   /* notes that find no memory, of those that are next */
  int sent;      /* notes */
};

/* ---- an engine ------------------------------------------------------------------------------- */

static struct tsr__plugin engine;

static bool open_engine(const tsr__plugin_host *host, tsr__plugin **out,
                        tsr__plugin_address *address, char why[TSR__PLUGIN_WHY])
{
  (void)why;
  engine = (struct tsr__plugin){ .host = *host };
  address->size = 0;
  *out = &engine;
  return true;
}

static bool send_note(tsr__plugin *plugin, int process, tsr__plugin_note note)
{
  (void)process, (void)note;
  if (plugin->refused-- > 0) return false;
  plugin->sent++;
  return true;
}

/* The size of a get says when it comes: LATE pieces' are odd. */
static bool begin_get(tsr__plugin *plugin, const tsr__plugin_get *get)
{
  int i = 0;
  while (i < GETS && plugin->due[i]) i++;
  CHECK(i < GETS);
  plugin->gets[i] = *get;
  plugin->due[i] = get->size == PIECE ? 1 : get->size == PIECE - 1 ? LATE : -1;
  return true;
}

static bool make_progress(tsr__plugin *plugin)
{
  bool any = false;
  for (int i = 0; i < GETS; i++) {
    if (!plugin->due[i]) continue;
    bool good = plugin->due[i] > 0;
    plugin->due[i] += good ? -1 : 1;
    if (plugin->due[i]) continue;
    if (good) memset(plugin->gets[i].into, 5, plugin->gets[i].size);
    plugin->host.got(plugin->host.user, good);
    any = true;
  }
  return any;
}

static void close_engine(tsr__plugin *plugin, bool broken)
{
  (void)plugin, (void)broken;
}

static const tsr__plugin_calls calls = { .version = TSR__PLUGIN_VERSION,
                                         .name = "test",
                                         .open = open_engine,
                                         .send = send_note,
                                         .get = begin_get,
                                         .progress = make_progress,
                                         .close = close_engine };

/* ---- two processes --------------------------------------------------------------------------- */

typedef struct world {
  tsr__heap heap;
  tsr__peers peers;
  segment all[2];
  uint64_t told[2];
  head *heads;
  char *mirror;
  window whole; /* of the mirror */
} world;

static bool is_gone(void *user, int process, tsr__error *error)
{
  (void)user, (void)process, (void)error;
  return false;
}

static bool has_ended(void *user, int process)
{
  (void)user, (void)process;
  return false;
}

static const tsr__peers_work work = { .fingerprint = 7, .what = "a test" };

/* This one and one of another host, which has come to whatever it is waited for at. Without a
 * thread of the engine: who waits makes all progress itself. */
static void open_world(world *w)
{
  tsr__plugin_address unused;
  tsr__error error = { .status = TSR_OK };
  pthread_mutexattr_t again;
  memset(w, 0, sizeof *w);
  tsr__heap_init(&w->heap, NULL);
  w->heads = aligned_alloc(PAGE, SIZE);
  w->mirror = aligned_alloc(PAGE, SIZE);
  CHECK(w->heads && w->mirror);
  memset(w->heads, 0, 2 * sizeof *w->heads);
  memset(w->mirror, 0, SIZE);
  w->all[0] = (segment){ .base = (char *)w->heads, .size = SIZE, .front = &w->heads[0] };
  w->all[1] =
      (segment){ .base = w->mirror, .size = SIZE, .front = &w->heads[1], .leader = 1, .far = true };
  w->whole = (window){ 0, SIZE, w->mirror };
  w->all[1].windows = &w->whole;
  w->all[1].window_count = 1;
  atomic_store(&w->heads[1].word, UINT64_MAX);
  w->heads[1].fingerprint[0] = w->heads[1].fingerprint[1] = work.fingerprint;
  w->peers = (tsr__peers){ .heap = &w->heap, .all = w->all, .hosts = 2, .told_word = w->told };
  w->peers.used = 2 * sizeof *w->heads;
  w->peers.start = (tsr__peers_start){ .count = 2, .gone = is_gone, .ended = has_ended };
  w->peers.pid = getpid();
  strcpy(w->peers.engine, "test");
  pthread_mutexattr_init(&again);
  pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&w->peers.run_lock, &again);
  pthread_mutex_init(&w->peers.lock, NULL);
  const tsr__far_ask ask = {
    .heap = &w->heap, .calls = &calls, .engine = "test", .host = { .count = 2, .user = &w->peers }
  };
  CHECK_STATUS(tsr__far_open(&ask, &w->peers.far, &unused, &error), TSR_OK, NULL);
}

static void close_world(world *w)
{
  tsr__far_close(w->peers.far, false);
  tsr__del(&w->heap, w->peers.mirrored, w->peers.mirrored_room * sizeof *w->peers.mirrored);
  CHECK(atomic_load(&w->heap.live) == 0);
  free(w->heads);
  free(w->mirror);
}

/* Whether a piece of the mirror has come; then it is taken away again. */
static bool has_come(world *w, int piece, size_t size)
{
  char *at = w->mirror + piece * PIECE;
  bool all = true;
  for (size_t i = 0; i < size; i++) all = all && at[i] == 5;
  memset(at, 0, size);
  return all;
}

static void fetch_piece(world *w, char *at, size_t size)
{
  tsr__peers_fetch(&w->peers, 1, at, &(tsr__peers_runs){ size, 1, 0 });
}

/* ---- gets ------------------------------------------------------------------------------------ */

TEST(who_waits_makes_progress_itself)
{
  static world w;
  tsr__error error = { .status = TSR_OK };
  open_world(&w);
  CHECK_STATUS(tsr__peers_enter(&w.peers, &work, &error), TSR_OK, NULL);
  fetch_piece(&w, w.mirror, PIECE - 1);
  CHECK_STATUS(tsr__peers_fetched(&w.peers, &error), TSR_OK, NULL);
  CHECK(has_come(&w, 0, PIECE - 1));
  CHECK_STATUS(tsr__peers_leave(&w.peers, TSR_OK, &error), TSR_OK, NULL);
  close_world(&w);
}

/* The one that is late must not come when the run is over, and the next run is none of it. */
TEST(one_in_vain_is_this_runs_alone)
{
  static world w;
  tsr__error error = { .status = TSR_OK };
  open_world(&w);
  CHECK_STATUS(tsr__peers_enter(&w.peers, &work, &error), TSR_OK, NULL);
  fetch_piece(&w, w.mirror, PIECE - 2);
  fetch_piece(&w, w.mirror + PIECE, PIECE - 1);
  CHECK_STATUS(tsr__peers_fetched(&w.peers, &error), TSR_EPEER, NULL);
  CHECK_STR_HAS(error.text, "could not read the memory of a process on another host");
  CHECK_STATUS(tsr__peers_leave(&w.peers, TSR_EPEER, &error), TSR_EPEER, NULL);
  CHECK(has_come(&w, 1, PIECE - 1));
  error = (tsr__error){ .status = TSR_OK };
  CHECK_STATUS(tsr__peers_enter(&w.peers, &work, &error), TSR_OK, NULL);
  fetch_piece(&w, w.mirror, PIECE);
  CHECK_STATUS(tsr__peers_fetched(&w.peers, &error), TSR_OK, NULL);
  CHECK(has_come(&w, 0, PIECE));
  CHECK_STATUS(tsr__peers_leave(&w.peers, TSR_OK, &error), TSR_OK, NULL);
  close_world(&w);
}

/* Something else failed before they were waited for. */
TEST(what_was_begun_comes_before_the_end)
{
  static world w;
  bool in_vain;
  tsr__error error = { .status = TSR_OK };
  open_world(&w);
  CHECK_STATUS(tsr__peers_enter(&w.peers, &work, &error), TSR_OK, NULL);
  fetch_piece(&w, w.mirror, PIECE - 1);
  fetch_piece(&w, w.mirror + PIECE, PIECE - 2);
  tsr__error_set(&error, TSR_ENOMEM, "no memory");
  CHECK_STATUS(tsr__peers_leave(&w.peers, TSR_ENOMEM, &error), TSR_ENOMEM, NULL);
  CHECK(has_come(&w, 0, PIECE - 1));
  CHECK_I64(tsr__far_left(w.peers.far, &in_vain), 0);
  CHECK(!in_vain);
  close_world(&w);
}

/* ---- notes ----------------------------------------------------------------------------------- */

/* The meeting fails, and the END is told as soon as it can be. */
TEST(a_note_without_memory_fails_the_run)
{
  static world w;
  tsr__peers_note all[2];
  tsr__error error = { .status = TSR_OK };
  open_world(&w);
  engine.refused = 2500;
  CHECK_STATUS(tsr__peers_enter(&w.peers, &work, &error), TSR_OK, NULL);
  CHECK_STATUS(tsr__peers_gather(&w.peers, "x", 1, all, &error), TSR_ENOMEM, NULL);
  CHECK_STR_HAS(error.text, "the engine 'test' has no memory");
  CHECK_I64(engine.sent, 0);
  CHECK_STATUS(tsr__peers_leave(&w.peers, TSR_ENOMEM, &error), TSR_ENOMEM, NULL);
  CHECK_I64(engine.sent, 1);
  error = (tsr__error){ .status = TSR_OK };
  CHECK_STATUS(tsr__peers_enter(&w.peers, &work, &error), TSR_OK, NULL);
  CHECK_STATUS(tsr__peers_gather(&w.peers, "x", 1, all, &error), TSR_OK, NULL);
  CHECK_STATUS(tsr__peers_leave(&w.peers, TSR_OK, &error), TSR_OK, NULL);
  CHECK_I64(engine.sent, 3);
  close_world(&w);
}

/* ---- memory ---------------------------------------------------------------------------------- */

TEST(sizes_that_would_wrap_find_no_memory)
{
  static world w;
  open_world(&w);
  for (size_t less = 1; less < 5000; less += 7)
    CHECK(!tsr__peers_take(&w.peers, SIZE_MAX - less + 1));
  CHECK(!tsr__peers_take(&w.peers, SIZE + 1));
  close_world(&w);
}

TEST(a_block_of_nothing_is_nobody_elses)
{
  static world w;
  open_world(&w);
  char *none = tsr__peers_take(&w.peers, 0), *one = tsr__peers_take(&w.peers, 1);
  CHECK(none && one && none != one);
  *one = 5;
  tsr__peers_give(&w.peers, none, 0);
  CHECK_I64(*one, 5);
  close_world(&w);
}
