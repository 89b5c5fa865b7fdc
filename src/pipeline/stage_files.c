/* The files of a source in an order drawn for each epoch, the records of each as they are.
 *
 *   files      0: r0 r1 r2   1: r3 r4   2: r5 r6 r7 r8
 *   an epoch   r3 r4 | r5 r6 r7 r8 | r0 r1 r2          start: 0, 2, 6, 9 of files 1, 2, 0
 *
 * Where each file begins in an epoch is a sum over those before it, so the last two epochs' sums
 * are kept, under a lock that is held while one question is turned. */
#include "pipeline/stage_files.h"

#include "pipeline/permute.h"

typedef struct file_order {
  int64_t epoch; /* -1: none */
  int64_t *start, *file;
} file_order;

typedef struct files_source {
  tsr_source source;
  uint64_t seed;
  const int64_t *files; /* where they begin below */
  int64_t count;
  bool locks;
  pthread_mutex_t lock;
  file_order order[2];
  int oldest;
} files_source;

/* Makes the sums of an epoch. */
static void order_files(files_source *f, file_order *order, int64_t epoch)
{
  tsr__permutation p;
  int64_t at = 0;
  tsr__permutation_make(&p, tsr__records_isa(&f->source), (uint64_t)f->count, f->seed,
                        (uint64_t)epoch);
  order->epoch = epoch;
  for (int64_t i = 0; i < f->count; i++) {
    int64_t file;
    tsr__permute(&p, &i, &file, 1);
    order->start[i] = at;
    order->file[i] = file;
    at += f->files[file + 1] - f->files[file];
  }
}

static void turn_files(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                       int64_t *to)
{
  files_source *f = (files_source *)source; /* the sums alone change, under the lock */
  pthread_mutex_lock(&f->lock);
  /* Threads that fill ahead are in two epochs at most at a time, the one that ends and the next;
   * any other is made anew. */
  file_order *order = &f->order[f->order[1].epoch == epoch];
  if (order->epoch != epoch) {
    order = &f->order[f->oldest];
    f->oldest = !f->oldest;
    order_files(f, order, epoch);
  }
  for (int64_t i = 0; i < count; i++) {
    /* Empty files share their start with the next one; the last of them is taken, which has
     * records. */
    int64_t k = tsr__numbers_find(order->start, f->count, at[i]);
    to[i] = f->files[order->file[k]] + at[i] - order->start[k];
  }
  pthread_mutex_unlock(&f->lock);
}

static tsr_status read_files(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  int64_t at[TSR__BLOCK];
  tsr__ask_rows below = *ask;
  turn_files(source, ask->epoch, ask->at, ask->count, at);
  below.at = at;
  return tsr__records_read(source->children[0], &below, error);
}

static void ids_files(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                      int64_t *to)
{
  turn_files(source, epoch, at, count, to);
  tsr__records_ids(source->children[0], epoch, to, count, to);
}

static void about_files(const tsr_source *source, tsr__text *out)
{
  const files_source *f = (const files_source *)source;
  size_t bytes = ((size_t)f->count + 1) * sizeof *f->files;
  tsr__text_add(out, "%lld, seed=%llu, %016llx", (long long)f->count, (unsigned long long)f->seed,
                (unsigned long long)tsr__hash(f->files, bytes, 0));
}

static void release_files(tsr_source *source)
{
  files_source *f = (files_source *)source;
  tsr__heap *heap = &source->node.scope->rt->heap;
  for (int k = 0; k < 2; k++) {
    tsr__numbers_free(heap, f->order[k].start, f->count);
    tsr__numbers_free(heap, f->order[k].file, f->count);
  }
  if (f->locks) pthread_mutex_destroy(&f->lock);
}

static const tsr__records_ops files_ops = { "files",       read_files, ids_files, about_files,
                                            release_files, NULL,       NULL };

tsr_source *tsr__files_shuffled(tsr_source *source, uint64_t seed, const char *site)
{
  const char *call = "tsr_source_shuffle";
  tsr__error error = { 0 };
  if (!source->files)
    tsr__error_set(&error, TSR_EARG,
                   ".files is set, but the source has no files; tsr_source_concat makes a source "
                   "of several files");
  if (error.status) return tsr__stage_refused(source, call, &error, site);
  tsr_source *made = tsr__records_over(source, call, &files_ops, sizeof(files_source), site);
  if (made->inert) return made;
  files_source *f = (files_source *)made;
  tsr__heap *heap = &source->node.scope->rt->heap;
  f->seed = seed;
  /* Borrowed: the source below lives in a scope that this one's lies in. */
  f->files = source->files;
  f->count = source->file_count;
  f->locks = !pthread_mutex_init(&f->lock, NULL);
  if (!f->locks) tsr__error_set(&error, TSR_ENOMEM, "no memory for a lock");
  for (int k = 0; k < 2 && !error.status; k++) {
    f->order[k].epoch = -1;
    f->order[k].start = tsr__numbers_new(heap, f->count, &error);
    if (!error.status) f->order[k].file = tsr__numbers_new(heap, f->count, &error);
  }
  made->by_epoch = true;
  return error.status ? tsr__stage_refused(source, call, &error, site) : made;
}
