/* ckpt.save and ckpt.restore: f32 of 8 devices, 2 GiB (CKPT_MIB says otherwise), to a folder of
 * bench_data_dir() (CKPT_DIR), against a loop that writes and forces to the disk, or reads, as many
 * bytes in as many threads, and against Orbax and torch.distributed.checkpoint, whose files are
 * forced to the disk as well. A read finds the files in the page cache, as it was written just
 * before, on all sides. The loop reads to a buffer that stays in the cache and keeps nothing;
 * ckpt.restore.kept is the same call beside a loop that keeps what it reads in new memory, as
 * whoever restores must. */
#include "bench.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ARRAYS = 16, THREADS = 8, BLOCK = 1 << 20, ROUNDS = 3 };

static const char *folder(void)
{
  const char *said = getenv("CKPT_DIR");
  return said ? said : bench_data_dir();
}

static int64_t wanted_bytes(void)
{
  const char *said = getenv("CKPT_MIB");
  return (said ? strtoll(said, NULL, 10) : 2048) << 20;
}

/* ---- the loop -------------------------------------------------------------------------------- */

typedef struct share {
  pthread_t thread;
  const char *data;
  char *kept; /* where what is read stays; NULL: nowhere */
  int64_t bytes;
  int number;
  bool writes, good;
} share;

static void *move_share(void *user)
{
  share *s = user;
  char path[600], *buffer = s->writes || s->kept ? NULL : malloc(BLOCK);
  snprintf(path, sizeof path, "%s/ckpt-loop-%d", folder(), s->number);
  int fd = s->writes ? open(path, O_CREAT | O_TRUNC | O_WRONLY, 0666) : open(path, O_RDONLY);
  s->good = fd >= 0;
  for (int64_t at = 0; at < s->bytes && s->good; at += BLOCK)
    s->good = s->writes ? write(fd, s->data + at, BLOCK) == BLOCK
                        : read(fd, s->kept ? s->kept + at : buffer, BLOCK) == BLOCK;
  if (s->writes && s->good) s->good = !fdatasync(fd);
  if (fd >= 0) close(fd);
  free(buffer);
  return NULL;
}

/* Seconds; negative: it failed. `kept`, bytes long: what is read stays there. */
static double loop(const char *data, char *kept, int64_t bytes, bool writes)
{
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int count = cores < THREADS ? (int)cores : THREADS;
  share shares[THREADS];
  bool good = true;
  double start = bench_now();
  for (int i = 0; i < count; i++) {
    int64_t from = bytes / count / BLOCK * BLOCK * i;
    shares[i] = (share){ .data = data ? data + from : NULL,
                         .kept = kept ? kept + from : NULL,
                         .bytes = bytes / count / BLOCK * BLOCK,
                         .number = i,
                         .writes = writes };
    pthread_create(&shares[i].thread, NULL, move_share, &shares[i]);
  }
  for (int i = 0; i < count; i++) {
    pthread_join(shares[i].thread, NULL);
    good = good && shares[i].good;
  }
  return good ? bench_now() - start : -1;
}

/* The loop that keeps what it reads, in memory that it has never touched, in large pages as a
 * device has them. */
static double loop_kept(int64_t bytes)
{
  double start = bench_now();
  char *kept =
      mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (kept == MAP_FAILED) return -1;
  madvise(kept, (size_t)bytes, MADV_HUGEPAGE);
  bool good = loop(NULL, kept, bytes, false) >= 0;
  double took = bench_now() - start;
  munmap(kept, (size_t)bytes);
  return good ? took : -1;
}

static void remove_loop(void)
{
  for (int i = 0; i < THREADS; i++) {
    char path[600];
    snprintf(path, sizeof path, "%s/ckpt-loop-%d", folder(), i);
    unlink(path);
  }
}

/* ---- the lines ------------------------------------------------------------------------------- */

typedef struct world {
  tsr_scope *s;
  tsr_mesh *mesh;
  tsr_array *tree;
  char path[600];
} world;

static double save_once(const world *w)
{
  double start = bench_now();
  tsr_status status = tsr_checkpoint_save(w->s, w->path, w->tree, .overwrite = true);
  if (status) fprintf(stderr, "%s\n", tsr_message(w->s));
  return status ? -1 : bench_now() - start;
}

static double restore_once(const world *w)
{
  tsr_scope *s = tsr_scope_open(w->s);
  double start = bench_now();
  tsr_saved_step *c = tsr_checkpoint_open(s, w->path);
  bool good = !tsr_is_inert(tsr_checkpoint_restore(c, w->tree));
  double took = bench_now() - start;
  if (!good) fprintf(stderr, "%s\n", tsr_message(s));
  tsr_scope_close(s);
  return good ? took : -1;
}

static tsr_array *make_tree(tsr_scope *s, tsr_mesh *mesh, int64_t bytes)
{
  static char names[ARRAYS][8];
  tsr_field_args fields[ARRAYS];
  int64_t rows = bytes / ARRAYS / 4 / 1024;
  for (int i = 0; i < ARRAYS; i++) {
    snprintf(names[i], sizeof names[i], "w%d", i);
    fields[i] = (tsr_field_args){ names[i], bench_reals(s, (uint32_t)i, 1, TSR_SHAPE(rows, 1024),
                                                        tsr_on(mesh, "data")) };
  }
  return tsr_tree_at(s, fields, ARRAYS, TSR_HERE);
}

/* One of the two: ours, the loop and both peers by turns. */
static void line(const world *w, bool saves, const char *data, int64_t bytes,
                 bench_peer *const *peer)
{
  static const char *const names[] = { "Orbax, synced", "torch dcp, synced" };
  double ours[ROUNDS], limit[ROUNDS], kept[ROUNDS], theirs[2][ROUNDS];
  char said[100];
  for (int i = 0; i < ROUNDS; i++) {
    ours[i] = saves ? save_once(w) : restore_once(w);
    limit[i] = loop(data, NULL, bytes, saves);
    kept[i] = saves ? -1 : loop_kept(bytes);
    for (int p = 0; p < 2; p++)
      theirs[p][i] =
          peer[p] ? bench_peer_ask(peer[p], saves ? "save" : "restore", said, sizeof said) : -1;
  }
  double mine = bench_median(ours, ROUNDS), bound = bench_median(limit, ROUNDS);
  for (int p = 0; p < 2; p++)
    bench_line(saves ? "ckpt.save" : "ckpt.restore", mine, names[p],
               peer[p] ? bench_median(theirs[p], ROUNDS) : -1, bound, "s");
  if (!saves)
    bench_line("ckpt.restore.kept", mine, "a loop", bench_median(kept, ROUNDS),
               bench_median(kept, ROUNDS), "s");
}

int bench_checkpoints(const char *only)
{
  int64_t bytes = wanted_bytes();
  char arguments[700], command[700];
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  world w = { .s = tsr_scope_open(rt), .mesh = tsr_mesh_make(rt, "data=8") };
  snprintf(w.path, sizeof w.path, "%s/ckpt-ours", folder());
  w.tree = make_tree(w.s, w.mesh, bytes);
  char *data = malloc((size_t)bytes);
  if (!data || tsr_eval(&w.tree, 1)) return 1;
  memset(data, 1, (size_t)bytes);
  snprintf(arguments, sizeof arguments, "orbax %lld '%s'", (long long)bytes, folder());
  bench_peer *peer[2] = { bench_peer_open("checkpoints.py", arguments), NULL };
  snprintf(arguments, sizeof arguments, "torch %lld '%s'", (long long)bytes, folder());
  peer[1] = bench_peer_open("checkpoints.py", arguments);
  bool both = !only || !strcmp(only, "ckpt");
  save_once(&w);
  loop(data, NULL, bytes, true);
  if (both || !strcmp(only, "ckpt.save")) line(&w, true, data, bytes, peer);
  if (both || !strcmp(only, "ckpt.restore")) line(&w, false, data, bytes, peer);
  for (int p = 0; p < 2; p++)
    if (peer[p]) bench_peer_close(peer[p]);
  remove_loop();
  snprintf(command, sizeof command, "rm -rf '%s'", w.path);
  int left = system(command);
  free(data);
  tsr_scope_close(w.s);
  tsr_runtime_close(rt);
  return left != 0;
}
