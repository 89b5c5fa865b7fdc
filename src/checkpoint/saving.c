/* What this process writes of a step, and writing it.
 *
 *   its share of the parts that it holds -> pieces of at most 64 MiB -> files, evenly
 *
 *   file 0 | header | piece | piece ...       written block by block, by all workers: its checksum
 *   file 1 | header | piece ...               first, while it comes into the cache, then pwrite
 *
 * Several files, as the system lets one thread at a time write to one. Where each piece lies is
 * known before anything is written, so headers go first and blocks in any order.
 *
 * Invariant: after tsr__saving_write data and names are on the disk; after tsr__saving_undo none of
 * it is left.
 *
 * Of a small step there is one file. Pieces are bounded so that files come out even and a reader
 * has parts to share. */
#include "checkpoint/checkpoint_room.h"
#include "io/file/files.h"
#include "io/file/system.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* Files, and bytes of a piece, at most; bytes that are worth a file of their own, which costs
 * making it, a header and an fsync. */
enum { FILES_MOST = 8, PIECE_MOST = 64 << 20, FILE_LEAST = 16 << 20 };
enum { SHARE_LEAST = 1 << 16 }; /* bytes that are worth a piece of their own */

static tsr_status no_memory(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM,
                        "no memory to list the arrays to save; close some scopes");
}

/* ---- what there is to be written ------------------------------------------------------------- */

/* Pieces of the catalog and sources are two lists of the same length. */
static bool add_piece(tsr__saving *s, const tsr_box *box, const tsr__piece_source *source)
{
  const tsr__listed *entry = &s->catalog.entry[s->catalog.entries - 1];
  int64_t bytes =
      tsr__box_count(box, entry->shape.rank) * (int64_t)tsr_dtype_size((tsr_dtype)entry->dtype);
  size_t at = s->catalog.pieces;
  tsr__extent *piece = tsr__catalog_piece(&s->catalog, bytes);
  if (!piece ||
      !tsr__grow(&s->rt->heap, (void **)&s->source, &s->source_room, at + 1, sizeof *s->source))
    return false;
  piece->box = *box;
  s->source[at] = *source;
  return true;
}

/* The dim along which a part is cut: the first that has more than one element, so that each piece
 * is a stretch of the part's memory.
 *
 *   box [1, 1, 6, 4]   cut 2      rows 0 .. 5 of 4 elements: each range of rows is one stretch
 */
static int cut_of(const tsr_box *box, int rank)
{
  int cut = 0;
  while (cut + 1 < rank && box->size[cut] == 1) cut++;
  return cut;
}

/* Rows `from` .. `end` along that dim, in pieces of at most PIECE_MOST bytes. A row longer than a
 * piece may be is a piece all the same, as it cannot be cut along this dim. */
static bool add_rows(tsr__saving *s, const tsr_box *box, tsr__piece_source source, int64_t from,
                     int64_t end)
{
  const tsr__listed *entry = &s->catalog.entry[s->catalog.entries - 1];
  int rank = entry->shape.rank, cut = cut_of(box, rank);
  int64_t count = tsr__box_count(box, rank), rows = rank ? box->size[cut] : 1;
  int64_t row = rows ? count / rows : 0, size = (int64_t)tsr_dtype_size((tsr_dtype)entry->dtype);
  int64_t some = row ? PIECE_MOST / size / row : rows;
  if (some < 1) some = 1;
  for (int64_t at = from; at < end || !rows; at += some) {
    tsr_box piece = *box;
    if (rank && rows) {
      piece.start[cut] += at;
      piece.size[cut] = end - at < some ? end - at : some;
    }
    source.first = at * row;
    tsr__piece_source here = source;
    if (source.data) here.data = (const char *)source.data + at * row * size;
    if (!add_piece(s, &piece, &here)) return false;
    if (!rows) break;
  }
  return true;
}

bool tsr__saving_part(tsr__saving *s, const tsr_box *box, const void *data)
{
  int rank = s->catalog.entry[s->catalog.entries - 1].shape.rank;
  int64_t rows = rank ? box->size[cut_of(box, rank)] : 1;
  return add_rows(s, box, (tsr__piece_source){ .data = data }, 0, rows);
}

/* Which of the processes that hold what a leader does this one is. */
typedef struct holders {
  int number, count;
  int position; /* the first of this process's; -1: it has none */
} holders;

/* False: out of memory. Counted in the order of positions, so all processes come to the same
 * numbers without a word between them. */
static bool find_holders(const tsr__saving *s, const tsr__value *value, int leader, holders *out)
{
  const tsr__topology *topology = tsr__topology_of(s->rt);
  tsr__heap *heap = &s->rt->heap;
  *out = (holders){ .position = -1 };
  bool *seen = tsr__new(heap, (size_t)s->process_count * sizeof *seen);
  for (int p = leader; seen && p < value->part_count; p++) {
    if (tsr__replica_leader(&value->sharding, p) != leader) continue;
    int process = tsr__device_process(topology, tsr__position_device(&value->sharding, p));
    if (process == s->process && out->position < 0 && value->parts[p]) {
      out->position = p;
      out->number = out->count;
    }
    if (process < 0 || process >= s->process_count || seen[process]) continue;
    seen[process] = true;
    out->count++;
  }
  tsr__del(heap, seen, (size_t)s->process_count * sizeof *seen);
  return seen != NULL;
}

/* What this process writes of the part that a leader and its replicas hold: each of the processes
 * that have one a share of its rows, and of little one of them all, another of each entry. What
 * every process has for itself the first writes, and of a sum that is left unreduced the leader. */
static bool add_share(tsr__saving *s, const tsr__value *value, int leader)
{
  const tsr__listed *entry = &s->catalog.entry[s->catalog.entries - 1];
  int rank = entry->shape.rank;
  tsr_box box;
  holders h = { .count = 1, .position = value->parts[leader] ? leader : -1 };
  tsr__value_box(value, leader, &box);
  int64_t count = tsr__box_count(&box, rank);
  int64_t rows = rank ? box.size[cut_of(&box, rank)] : 1, from = 0, end = rows;
  /* Only where several processes may hold the same part is there anything to share. */
  bool common = value->sharding.mesh && !value->sharding.unreduced && s->process_count > 1;
  if (!count || (!value->sharding.mesh && s->process)) return true;
  if (common && !find_holders(s, value, leader, &h)) return false;
  if (h.position < 0) return true;
  if (count * (int64_t)tsr_dtype_size((tsr_dtype)entry->dtype) < SHARE_LEAST * h.count ||
      rows < h.count) {
    /* The next entry goes to the next of them: of many small arrays each process writes some. */
    if ((int)((s->catalog.entries - 1 + (size_t)leader) % (size_t)h.count) != h.number) return true;
  } else {
    /* Evenly, the first ones a row more, as dims are cut over devices. */
    from = rows / h.count * h.number + (h.number < rows % h.count ? h.number : rows % h.count);
    end = from + rows / h.count + (h.number < rows % h.count);
  }
  return add_rows(s, &box, (tsr__piece_source){ .value = value, .position = h.position }, from,
                  end);
}

static bool add_parts(tsr__saving *s, const tsr__value *value)
{
  if (!tsr__shape_count(&value->shape)) {
    /* Nothing, of which there is one piece all the same, so that it has a name in a file. */
    tsr_box none = { 0 };
    memcpy(none.size, value->shape.dims, (size_t)value->shape.rank * sizeof(int64_t));
    return s->process != 0 || add_piece(s, &none, &(tsr__piece_source){ .data = "" });
  }
  for (int p = 0; p < value->part_count; p++)
    /* Once for each part that differs: its leader, the lowest of those that hold it, stands for
     * all. */
    if (tsr__replica_leader(&value->sharding, p) == p && !add_share(s, value, p)) return false;
  return true;
}

/* A text of a sharding, "(x,-)", in the catalog's memory. A sum is written by one of its parts as a
 * whole (add_share), so the spec says nothing of it. A text too long to be kept is "", nowhere. */
static const char *spec_text(tsr__saving *s, const tsr__value *value)
{
  char text[512];
  tsr_sharding sharding = value->sharding;
  sharding.unreduced = 0;
  int length = tsr_sharding_text(&sharding, value->shape.rank, text, sizeof text);
  if (length < 0 || length >= (int)sizeof text) return "";
  return tsr__arena_text(&s->catalog.arena, text, (size_t)length);
}

static const char *own_text(tsr__saving *s, const char *text)
{
  return tsr__arena_text(&s->catalog.arena, text, strlen(text));
}

bool tsr__saving_value(tsr__saving *s, tsr__value *value)
{
  if (!tsr__grow(&s->rt->heap, (void **)&s->held, &s->held_room, (size_t)s->held_count + 1,
                 sizeof *s->held))
    return false;
  tsr__value_hold(value);
  s->held[s->held_count++] = value;
  return add_parts(s, value);
}

/* Every process lists every array, also where it has no piece of it: the lists are compared. */
tsr_status tsr__saving_array(tsr__saving *s, const char *name, const tsr_array *array,
                             tsr__error *error)
{
  tsr__value *value = array->value;
  tsr__listed *entry = tsr__catalog_entry(&s->catalog);
  if (!entry) return no_memory(error);
  entry->kind = TSR_SAVED_ARRAY;
  entry->dtype = value->dtype;
  entry->shape = value->shape;
  entry->name = own_text(s, name);
  if (value->sharding.mesh) {
    entry->mesh = own_text(s, tsr_mesh_text(value->sharding.mesh));
    entry->spec = spec_text(s, value);
  }
  bool good = entry->name && entry->mesh && entry->spec;
  return good && tsr__saving_value(s, value) ? TSR_OK : no_memory(error);
}

tsr_status tsr__saving_blob(tsr__saving *s, const tsr_blob_item *blob, tsr__error *error)
{
  tsr__listed *entry = tsr__catalog_entry(&s->catalog);
  if (!entry) return no_memory(error);
  entry->kind = TSR_SAVED_BLOB;
  entry->dtype = TSR_U8;
  entry->shape = (tsr_shape){ .rank = 1, .dims = { (int64_t)blob->length } };
  entry->name = own_text(s, blob->name);
  tsr_box box = { .size = { (int64_t)blob->length } };
  char *own = tsr__arena_text(&s->catalog.arena, blob->length ? blob->data : "", blob->length);
  return entry->name && own && tsr__saving_part(s, &box, own) ? TSR_OK : no_memory(error);
}

/* ---- where it goes --------------------------------------------------------------------------- */

/* As many as threads write at once; more would only be more to force to the disk. */
static int file_count(const tsr__saving *s)
{
  int64_t total = 0, most = tsr__worker_count(s->rt);
  for (size_t i = 0; i < s->catalog.pieces; i++) total += s->catalog.piece[i].bytes;
  int64_t files = total / FILE_LEAST + 1;
  /* A process that has nothing to write has no file. */
  if (!s->catalog.pieces) return 0;
  if (most > FILES_MOST) most = FILES_MOST;
  return (int)(files < most ? files : most);
}

/* The id is of the save, the numbers of the process and the file: no two processes have one
 * name. */
static bool make_files(tsr__saving *s, const char *id)
{
  for (int f = 0, count = file_count(s); f < count; f++) {
    char name[80];
    tsr__data_file *file = tsr__catalog_file(&s->catalog);
    snprintf(name, sizeof name, "data-%s-%d-%d.safetensors", id, s->process, f);
    if (!file || !(file->name = own_text(s, name))) return false;
  }
  size_t files = s->catalog.files;
  if (!tsr__grow(&s->rt->heap, (void **)&s->fd, &s->fd_room, files + 1, sizeof *s->fd))
    return false;
  for (size_t f = 0; f < files; f++) s->fd[f] = -1;
  return true;
}

/* Each piece behind what is in the shortest file so far. Large elements come first, so that all lie
 * where their sizes divide. The shortest of at most eight is looked for each time. `at` counts from
 * the header's end until the header is written (open_files). */
static void place_pieces(tsr__saving *s)
{
  tsr__catalog *c = &s->catalog;
  for (size_t size = 8; size; size /= 2)
    for (size_t e = 0; e < c->entries; e++) {
      if (tsr_dtype_size((tsr_dtype)c->entry[e].dtype) != size) continue;
      for (int64_t i = c->entry[e].first; i < c->entry[e].first + c->entry[e].count; i++) {
        int best = 0;
        for (size_t f = 1; f < c->files; f++)
          if (c->file[f].bytes < c->file[best].bytes) best = (int)f;
        c->piece[i].file = best;
        c->piece[i].at = c->file[best].bytes;
        c->file[best].bytes += c->piece[i].bytes;
      }
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A block of a piece: what one checksum is of, and what one write writes. */
typedef struct write_task {
  int64_t piece, block;
} write_task;

typedef struct write_job {
  tsr__saving *s;
  write_task *task;
  int64_t count;
  size_t room;
  char *scratch; /* a block a worker: bools as bytes; NULL: there are none */
  size_t scratch_bytes;
  _Atomic bool failed;
  tsr__error error;
} write_job;

/* Tasks of one file after those of another, block by block, so that workers meet in different
 * files. Pieces of a file are chained by `next`.
 *
 *   file 0   p0: b0 b1   p2: b0        tasks   p0 b0, p1 b0, p0 b1, p1 b1, p2 b0, ..
 *   file 1   p1: b0 b1 b2
 *
 * `next` and `first` are one block of memory, by piece and by file. */
static void deal_tasks(write_job *job, int64_t *next, int64_t *first)
{
  tsr__catalog *c = &job->s->catalog;
  int64_t block[FILES_MOST] = { 0 };
  for (size_t f = 0; f < c->files; f++) first[f] = -1;
  for (int64_t i = (int64_t)c->pieces - 1; i >= 0; i--) {
    next[i] = first[c->piece[i].file];
    first[c->piece[i].file] = i;
  }
  for (bool more = true; more;) {
    more = false;
    for (size_t f = 0; f < c->files; f++) {
      while (first[f] >= 0 && block[f] == tsr__block_count(c->piece[first[f]].bytes)) {
        first[f] = next[first[f]];
        block[f] = 0;
      }
      if (first[f] < 0) continue;
      job->task[job->count++] = (write_task){ first[f], block[f]++ };
      more = true;
    }
  }
}

static tsr_status list_tasks(write_job *job, tsr__error *error)
{
  tsr__heap *heap = &job->s->rt->heap;
  tsr__catalog *c = &job->s->catalog;
  bool bools = false;
  job->room = c->sums + 1;
  job->task = tsr__new_raw(heap, job->room * sizeof *job->task);
  size_t chain = (c->pieces + FILES_MOST) * sizeof(int64_t);
  int64_t *next = tsr__new_raw(heap, chain);
  for (size_t e = 0; e < c->entries; e++) bools = bools || c->entry[e].dtype == TSR_BOOL;
  if (bools) {
    job->scratch_bytes = (size_t)tsr__worker_count(job->s->rt) * TSR__CHECKPOINT_BLOCK;
    job->scratch = tsr__new_raw(heap, job->scratch_bytes);
  }
  bool good = job->task && next && (!bools || job->scratch);
  if (good) deal_tasks(job, next, next + c->pieces);
  tsr__del(heap, next, chain);
  return good ? TSR_OK : no_memory(error);
}

/* Bits of a part as bytes. The part is taken as one dim, as a piece is a stretch of it. */
static const void *unpacked(const tsr__piece_source *source, int64_t at, int64_t count,
                            char *scratch)
{
  const tsr__value *value = source->value;
  static const int64_t zero[1] = { 0 };
  tsr_box box;
  tsr__value_box(value, source->position, &box);
  int64_t dims = tsr__box_count(&box, value->shape.rank), start = source->first + at;
  tsr__box_copy copy = { .dtype = (tsr_dtype)value->dtype,
                         .rank = 1,
                         .from_dims = &dims,
                         .from_start = &start,
                         .to_dims = &count,
                         .to_start = zero,
                         .size = &count };
  tsr__devices_of(value->rt)->ops->to_host(&copy, value->parts[source->position], scratch);
  return scratch;
}

static tsr_status write_error(const tsr__saving *s, int file, tsr__error *error)
{
  return tsr__file_error(s->catalog.file[file].name, "write", errno, error);
}

/* What a thread cannot return is told by the job; the first that fails says why. */
static void job_fails(write_job *job, int file)
{
  tsr__error error = { .status = TSR_OK };
  write_error(job->s, file, &error);
  if (!atomic_exchange(&job->failed, true)) job->error = error;
}

/* The same bytes are summed and written, and no other thread writes this sum. */
static void write_block(write_job *job, int64_t at, int worker)
{
  tsr__saving *s = job->s;
  const write_task *task = &job->task[at];
  const tsr__extent *piece = &s->catalog.piece[task->piece];
  const tsr__piece_source *source = &s->source[task->piece];
  int64_t start = task->block * TSR__CHECKPOINT_BLOCK, length = piece->bytes - start;
  if (length > TSR__CHECKPOINT_BLOCK) length = TSR__CHECKPOINT_BLOCK;
  const char *from = (const char *)source->data + start;
  if (source->value && source->value->dtype == TSR_BOOL)
    from = unpacked(source, start, length, job->scratch + (size_t)worker * TSR__CHECKPOINT_BLOCK);
  s->catalog.sum[piece->sum + task->block] = tsr__crc32c(0, from, (size_t)length);
  int fd = s->fd[piece->file];
  if (tsr__sys_write_all(fd, from, (size_t)length, piece->at + start)) job_fails(job, piece->file);
  /* The disk works while later blocks are summed and copied. Less than a block waits: small writes
   * go out together, which costs the disk less. */
  else if (length == TSR__CHECKPOINT_BLOCK)
    tsr__sys_sync_begin(fd, piece->at + start, (size_t)length);
}

static void write_one(void *user, int64_t at, int worker)
{
  write_job *job = user;
  if (!job->failed) write_block(job, at, worker);
}

/* Closed whether forcing went well or not; -1 first, so that undoing does not close it again. */
static void sync_one(void *user, int64_t file, int worker)
{
  write_job *job = user;
  (void)worker;
  int fd = job->s->fd[file];
  job->s->fd[file] = -1;
  if (tsr__sys_sync(fd)) job_fails(job, (int)file);
  if (tsr__sys_close(fd)) job_fails(job, (int)file);
}

/* By the workers, or, where nobody is to be held up, by this thread alone. False: cancelled.
 * Without progress it is the thread of the background, which has no callback to be cancelled by. */
static bool run_tasks(write_job *job, int64_t count, tsr__task_fn fn)
{
  if (job->s->progress) return tsr__parallel_progress(job->s->progress, count, fn, job);
  for (int64_t i = 0; i < count; i++) fn(job, i, 0);
  return true;
}

/* Creates the files and writes their headers; where pieces lie counts from the beginning of the
 * file afterwards. `made` counts what is there to be deleted, also of a file whose header could not
 * be written. The header's checksum is of what was meant, as blocks' are. */
static tsr_status open_files(tsr__saving *s, tsr__error *error)
{
  tsr__catalog *c = &s->catalog;
  for (size_t f = 0; f < c->files && !error->status; f++) {
    tsr__step_path path;
    tsr__text header;
    tsr__text_init(&header, c->heap);
    tsr__data_header(c, (int)f, &header);
    if (header.failed) no_memory(error);
    else if (!tsr__step_path_of(s->path, c->step, c->file[f].name, &path, error)) {
      s->fd[f] = tsr__sys_create(path.at, 0666);
      if (s->fd[f] >= 0) s->made = (int)f + 1;
      if (s->fd[f] < 0) tsr__file_error(path.at, "create", errno, error);
      else if (tsr__sys_write_all(s->fd[f], header.data, header.length, 0))
        write_error(s, (int)f, error);
    }
    c->file[f].header = (int64_t)header.length;
    c->file[f].sum = tsr__crc32c(0, tsr__text_get(&header), header.length);
    c->file[f].bytes += c->file[f].header;
    for (size_t i = 0; i < c->pieces; i++)
      if (c->piece[i].file == (int)f) c->piece[i].at += (int64_t)header.length;
    tsr__text_free(&header);
  }
  return error->status;
}

/* Parts are mapped as long as they are written. Bools are not mapped: their bits are copied out
 * block by block. */
static void map_sources(tsr__saving *s, bool on)
{
  for (size_t i = 0; i < s->catalog.pieces; i++) {
    tsr__piece_source *source = &s->source[i];
    if (!source->value || source->value->dtype == TSR_BOOL) continue;
    size_t size = tsr_dtype_size((tsr_dtype)source->value->dtype);
    if (on) {
      const char *data = tsr__value_map(source->value, source->position);
      source->data = data + (size_t)source->first * size;
    } else {
      tsr__value_unmap(source->value, source->position);
    }
  }
}

static tsr_status write_files(tsr__saving *s, tsr__error *error)
{
  write_job job = { .s = s };
  if (!open_files(s, error) && !list_tasks(&job, error)) {
    map_sources(s, true);
    /* Waited for when all is written: each file by a worker. */
    if (!run_tasks(&job, job.count, write_one)) tsr__cancelled(error, "checkpoint");
    map_sources(s, false);
    bool good = !error->status && !job.failed;
    if (good && s->progress) tsr__parallel(s->rt, (int64_t)s->catalog.files, sync_one, &job);
    for (size_t f = 0; good && !s->progress && f < s->catalog.files; f++)
      sync_one(&job, (int64_t)f, 0);
    if (!error->status && job.failed) *error = job.error;
  }
  tsr__del(&s->rt->heap, job.task, job.room * sizeof *job.task);
  tsr__del(&s->rt->heap, job.scratch, job.scratch_bytes);
  return error->status;
}

/* The names at last: a file that is forced to the disk may still be in no folder after a crash. */
tsr_status tsr__saving_write(tsr__saving *s, const char *id, tsr__error *error)
{
  tsr__step_path folder;
  if (!make_files(s, id)) return no_memory(error);
  place_pieces(s);
  if (write_files(s, error)) return error->status;
  if (!s->catalog.files) return TSR_OK;
  if (tsr__step_path_of(s->path, s->catalog.step, NULL, &folder, error)) return error->status;
  return tsr__folder_sync(folder.at, error);
}

/* What cannot be deleted is left for a later prune. A folder with something in it, such as a step
 * that was to be overwritten, stays as it is. */
void tsr__saving_undo(tsr__saving *s)
{
  tsr__step_path path;
  tsr__error error = { .status = TSR_OK };
  for (int f = 0; f < s->made; f++) {
    if (s->fd[f] >= 0) tsr__sys_close(s->fd[f]);
    s->fd[f] = -1;
    if (!tsr__step_path_of(s->path, s->catalog.step, s->catalog.file[f].name, &path, &error))
      unlink(path.at);
  }
  s->made = 0;
  if (s->process == 0 && !tsr__step_path_of(s->path, s->catalog.step, NULL, &path, &error))
    rmdir(path.at); /* refused where something is in it */
}

/* Values and dictionaries are released on whatever thread this is. */
void tsr__saving_free(tsr__saving *s)
{
  if (!s->catalog.heap) return;
  tsr__heap *heap = &s->rt->heap;
  for (int f = 0; f < s->made; f++)
    if (s->fd[f] >= 0) tsr__sys_close(s->fd[f]);
  /* Only in a child of fork it is held still: for its parent, whose lock it would keep alive. */
  if (s->lock.held) tsr__sys_close(s->lock.fd);
  for (int i = 0; i < s->held_count; i++) tsr__value_release(s->held[i]);
  for (int i = 0; i < s->dict_count; i++) tsr__dict_release(s->dict[i]);
  tsr__del(heap, s->dict, s->dict_room * sizeof *s->dict);
  tsr__del(heap, s->held, s->held_room * sizeof *s->held);
  tsr__del(heap, s->source, s->source_room * sizeof *s->source);
  tsr__del(heap, s->fd, s->fd_room * sizeof *s->fd);
  tsr__del(heap, s->path, s->path ? strlen(s->path) + 1 : 0);
  tsr__catalog_free(&s->catalog);
}
