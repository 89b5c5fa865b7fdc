/* Loading files: plain ones in pieces by all workers, packed ones each by a worker at a time.
 *
 *   round 1    a.csv pieces 0 1 2 3 ..   b.csv pieces 0 1 ..      any order
 *   rounds     c.csv.gz step 0 | step 1 | ...                     a step is a few milliseconds
 *
 * Invariant: a failure or a cancellation leaves files as they were before: not loaded. A file that
 * changed between the opening and the end of the reading is refused. */
#include "io/csv/csv_inner.h"
#include "io/file/files.h"
#include "io/file/system.h"

/* 64 files open at a time: a pattern may match a million, the system allows some hundreds. */
enum {
  TOGETHER = 64, /* files open at a time */
  UNPACK_STEP = 4,
  WHOLE = 16 << 20 /* bytes that are unpacked to see the middle and end of a text */
};

/* A test may ask for smaller pieces. */
static int64_t piece_of(const tsr__csv *csv)
{
  return csv->opts.piece > 0 ? csv->opts.piece : TSR__CSV_PIECE;
}

static tsr_status no_room(const tsr__csv_file *file, int64_t size, tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "%s: no memory for its %lld bytes", file->path,
                        (long long)size);
}

/* ---- a job over some files ------------------------------------------------------------------ */

struct load {
  tsr__csv *csv;
  tsr__csv_file *files[TOGETHER];
  int count;
  _Atomic int code;   /* the first failure: errno, -1 for a short file, -2 for one with an error */
  int64_t end;        /* where a short file ended */
  tsr__csv_file *bad; /* which failed */
  tsr__error *errors; /* one a file */
};

/* Only the first to come writes; others read its place no more than the code. */
static void load_failed(struct load *load, tsr__csv_file *file, int code, int64_t end)
{
  int none = 0;
  /* The first failure is told, later ones follow from it or would have come later. */
  if (!atomic_compare_exchange_strong(&load->code, &none, code)) return;
  load->bad = file;
  load->end = end;
}

/* In the words of the file that failed. */
static tsr_status load_status(const struct load *load, bool whole, tsr__error *error)
{
  int code = atomic_load(&load->code);
  if (code == -1) return tsr__file_shrunk(load->bad->path, load->end, load->bad->stored, error);
  if (code > 0) return tsr__file_error(load->bad->path, "read", code, error);
  for (int i = 0; i < load->count && code; i++)
    if (load->errors[i].status)
      return tsr__error_set(error, load->errors[i].status, "%s", load->errors[i].text);
  return whole ? TSR_OK : tsr__cancelled(error, load->csv->path);
}

/* ---- plain files ----------------------------------------------------------------------------- */

/* A task is a piece of some file; any order will do, as each has its place. */
static void load_piece(void *user, int64_t task, int worker)
{
  (void)worker;
  struct load *load = user;
  /* Files' pieces are numbered through, as in csv_rows.c. */
  int low = 0, high = load->count;
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    if (load->files[middle]->task <= task) low = middle;
    else high = middle;
  }
  tsr__csv_file *file = load->files[low];
  int64_t piece = piece_of(load->csv), from = (task - file->task) * piece, got;
  int64_t length = file->stored - from < piece ? file->stored - from : piece;
  if (atomic_load(&load->code)) return;
  int code = tsr__csv_file_read(file, file->block + TSR__CSV_FRONT + from, from, length, &got);
  /* Fewer bytes than the file had when it was opened: it was shortened meanwhile. */
  if (!code && got < length) code = -1;
  if (code) load_failed(load, file, code, from + got);
  /* While the piece is in the cache its rows are counted, too. */
  else tsr__csv_count_piece(file, file->block + TSR__CSV_FRONT, from, from + length);
}

static tsr_status load_plain(struct load *load, tsr__error *error)
{
  int64_t tasks = 0, piece = piece_of(load->csv);
  for (int i = 0; i < load->count; i++) {
    tsr__csv_file *file = load->files[i];
    /* Room for all, so that each piece goes to its place whatever the order. */
    if (!tsr__csv_file_room(file, file->stored, 0)) return no_room(file, file->stored, error);
    if (tsr__csv_expect_rows(file, error)) return error->status;
    file->task = tasks;
    tasks += (file->stored + piece - 1) / piece;
    file->size = file->stored;
  }
  bool whole = tsr__parallel_long(load->csv->rt, "csv", tasks, load_piece, load);
  return load_status(load, whole, error);
}

/* ---- packed files ---------------------------------------------------------------------------- */

/* In the form that unpacking asks with. */
static int read_stored(const void *file, char *to, int64_t offset, int64_t length, int64_t *got)
{
  return tsr__csv_file_read(file, to, offset, length, got);
}

/* NULL: no memory. The limit keeps a small file from becoming a huge text. */
tsr__unpack *tsr__csv_unpack(const tsr__csv_file *file)
{
  return tsr__unpack_open(&(tsr__packed){
      .heap = file->csv->heap,
      .path = file->path,
      .packing = (tsr__packing)file->packing,
      .stored = file->stored,
      .limit = tsr__unpack_limit(file->csv->rt, file->stored, file->csv->opts.unpack_limit),
      .read = read_stored,
      .user = file });
}

/* One step of one file; `size` counts what is there. */
static void unpack_step(void *user, int64_t task, int worker)
{
  (void)worker;
  struct load *load = user;
  tsr__csv_file *file = load->files[task];
  int64_t step = UNPACK_STEP * piece_of(load->csv), got;
  /* Somebody failed, or this file is done already. */
  if (atomic_load(&load->code) || !file->unpack) return;
  int64_t room = (int64_t)file->block_size - TSR__CSV_FRONT - TSR__CSV_PAD;
  /* The room was guessed, mostly well: only what it cannot hold is worth moving all for. */
  if (room > file->size && room - file->size < step) step = room - file->size;
  /* Half as much again: the total moved is three times the text at most. */
  if (file->size + step > room)
    room = file->size + step > room / 2 * 3 ? file->size + step : room / 2 * 3;
  if (!tsr__csv_file_room(file, room, file->size)) {
    no_room(file, room, &load->errors[task]);
    load_failed(load, file, -2, 0);
    return;
  }
  char *to = file->block + TSR__CSV_FRONT + file->size;
  if (tsr__unpack_some(file->unpack, to, step, &got, &load->errors[task])) {
    load_failed(load, file, -2, 0);
    return;
  }
  file->size += got;
  /* Less than was asked for is the end of the text. */
  if (got == step) return;
  tsr__unpack_close(file->unpack);
  file->unpack = NULL;
}

static tsr_status load_packed(struct load *load, tsr__error *error)
{
  tsr_status status = TSR_OK;
  bool more = load->count > 0;
  for (int i = 0; i < load->count; i++) {
    tsr__csv_file *file = load->files[i];
    file->size = 0;
    file->unpack = tsr__csv_unpack(file);
    if (!file->unpack) return tsr__csv_no_memory(load->csv, error);
    /* What the packing says of the size, or a guess from how it packs. */
    int64_t guess = tsr__unpack_guess(file->unpack);
    if (!tsr__csv_file_room(file, guess, 0)) return no_room(file, guess, error);
  }
  /* Rounds, so that a cancellation is noticed between steps and all workers have a file. */
  while (more && !status) {
    bool whole = tsr__parallel_long(load->csv->rt, "csv", load->count, unpack_step, load);
    status = load_status(load, whole, error);
    more = false;
    for (int i = 0; i < load->count; i++) more |= load->files[i]->unpack != NULL;
  }
  return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Files of both kinds are opened together, read kind by kind, and closed together. */
static tsr_status load_some(struct load *load, tsr__error *error)
{
  struct load plain = { .csv = load->csv }, packed = { .csv = load->csv, .errors = load->errors };
  tsr_status status = TSR_OK;
  for (int i = 0; i < load->count && !status; i++) {
    tsr__csv_file *file = load->files[i];
    status = tsr__csv_file_open(file, error);
    struct load *kind = file->packing == TSR__PLAIN ? &plain : &packed;
    kind->files[kind->count++] = file;
  }
  if (!status) status = load_plain(&plain, error);
  if (!status) status = load_packed(&packed, error);
  for (int i = 0; i < load->count && !status; i++) {
    tsr__csv_file *file = load->files[i];
    /* Asked last: what was parsed must be what the file held all the time. */
    status = tsr__csv_file_same(file, error);
    if (status) break;
    tsr__csv_file_done(file, file->size);
    tsr__del(load->csv->heap, file->packed, file->packed_size);
    file->packed = NULL;
    if (file->fields) status = tsr__csv_uncomment_file(file, error);
  }
  /* Whatever happened, files are closed and, after a failure, forgotten. */
  for (int i = 0; i < load->count; i++) {
    tsr__csv_file *file = load->files[i];
    tsr__unpack_close(file->unpack);
    file->unpack = NULL;
    tsr__csv_file_close(file);
    if (status) tsr__csv_file_drop(file);
  }
  return status;
}

/* Groups of files, as only so many may be open. */
tsr_status tsr__csv_load(tsr__csv *csv, tsr__csv_file *from, int count, tsr__error *error)
{
  size_t size = TOGETHER * sizeof(tsr__error);
  tsr__error *errors = tsr__new(csv->heap, size);
  tsr_status status = errors ? TSR_OK : tsr__csv_no_memory(csv, error);
  for (int i = 0; i < count && !status;) {
    struct load load = { .csv = csv, .errors = errors };
    /* What is loaded stays. */
    for (; i < count && load.count < TOGETHER; i++)
      if (!from[i].data) load.files[load.count++] = &from[i];
    if (load.count) status = load_some(&load, error);
  }
  tsr__del(csv->heap, errors, size);
  return status;
}

/* ---- beginnings ------------------------------------------------------------------------------ */

struct slurp {
  tsr__csv_file *file;
  int code;
  bool more, no_memory;
};

/* One piece at a time: standard input has an order. */
static void slurp_step(void *user, int64_t task, int worker)
{
  (void)task;
  (void)worker;
  struct slurp *slurp = user;
  tsr__csv_file *file = slurp->file;
  int64_t piece = piece_of(file->csv), used = file->stored, got;
  /* A pipe may have to wait for who writes to it; between waits it is asked whether to go on. */
  slurp->more = file->pipe && !used && !tsr__sys_ready(file->fd, 100);
  if (slurp->more) return;
  int64_t room = (int64_t)file->block_size - TSR__CSV_FRONT - TSR__CSV_PAD;
  /* Twice the room: a stream does not say how long it is. */
  if (used + piece > room) room = used + piece > room * 2 ? used + piece : room * 2;
  slurp->no_memory = !tsr__csv_file_room(file, room, used);
  if (slurp->no_memory) return;
  slurp->code = tsr__csv_file_read(file, file->block + TSR__CSV_FRONT + used, used, piece, &got);
  file->stored += got;
  slurp->more = got == piece;
}

/* Reads all of standard input or of a pipe, as it is, into the block. */
static tsr_status load_stream(tsr__csv_file *file, tsr__error *error)
{
  struct slurp slurp = { .file = file, .more = true };
  while (slurp.more) {
    slurp.more = false;
    if (!tsr__parallel_long(file->csv->rt, "csv", 1, slurp_step, &slurp))
      return tsr__cancelled(error, file->csv->path);
    if (slurp.no_memory) return no_room(file, file->stored + piece_of(file->csv), error);
    if (slurp.code) return tsr__file_error(file->path, "read", slurp.code, error);
  }
  return TSR_OK;
}

/* A file of nothing, which among others is one without rows. */
static tsr_status nothing(tsr__csv_file *file, const char *words, tsr__error *error)
{
  file->empty = file->csv->file_count > 1;
  if (file->empty) return TSR_OK;
  return tsr__error_set(error, TSR_EPARSE, "%s: %s; a CSV file begins with a header line",
                        file->path, words);
}

/* The beginning of a packed file's text, and up to WHOLE bytes where these are all, since what
 * cannot be read in parts shows its middle and end in no other way. What is not all is unpacked
 * again when all of it is read, and what is damaged there is told then. `*whole`: that was all. */
static tsr_status unpack_head(tsr__csv_file *file, int64_t *got, bool *whole, tsr__error *error)
{
  tsr__error later = { 0 };
  tsr__csv_head_sizes sizes = tsr__csv_sizes_of(file);
  /* How long the text is shows where it ends: a byte more than a small one has. */
  int64_t least = (sizes.small > sizes.part ? sizes.small : sizes.part) + 1;
  int64_t most = file == file->csv->files ? WHOLE : least;
  if (!tsr__csv_file_room(file, least, 0)) return no_room(file, least, error);
  tsr__unpack *unpack = tsr__csv_unpack(file);
  if (!unpack) return tsr__csv_no_memory(file->csv, error);
  tsr_status status = tsr__unpack_some(unpack, file->block + TSR__CSV_FRONT, least, got, error);
  *whole = *got < least;
  while (!status && !*whole && *got < most) {
    int64_t step = most - *got < *got ? most - *got : *got, more = 0;
    if (!tsr__csv_file_room(file, *got + step, *got)) break;
    char *to = file->block + TSR__CSV_FRONT + *got;
    if (tsr__unpack_some(unpack, to, step, &more, &later)) break;
    *got += more;
    *whole = more < step;
  }
  tsr__unpack_close(unpack);
  if (!*whole && *got > sizes.part) *got = sizes.part;
  return status;
}

/* Turns the stored bytes in the block over to what is unpacked from. */
static void set_aside(tsr__csv_file *file)
{
  file->packed = file->block;
  file->packed_size = file->block_size;
  file->block = NULL;
  file->block_size = 0;
}

/* The beginning of the stored bytes, or, of standard input, all of them. */
static tsr_status load_stored(tsr__csv_file *file, int64_t *got, tsr__error *error)
{
  tsr__csv_head_sizes sizes = tsr__csv_sizes_of(file);
  tsr_status status = tsr__csv_file_open(file, error);
  if (!status && file->stream) status = load_stream(file, error);
  if (status) return status;
  int64_t length = file->stored <= sizes.small ? file->stored : sizes.part;
  if (length > file->stored) length = file->stored;
  *got = file->stored;
  if (file->stream || !length) return TSR_OK;
  if (!tsr__csv_file_room(file, length, 0)) return no_room(file, length, error);
  int code = tsr__csv_file_read(file, file->block + TSR__CSV_FRONT, 0, length, got);
  if (code) return tsr__file_error(file->path, "read", code, error);
  if (*got < length) return tsr__file_shrunk(file->path, *got, file->stored, error);
  return TSR_OK;
}

static tsr__csv_window window_of(const tsr__csv_file *file, int64_t length)
{
  const char *at = file->block + TSR__CSV_FRONT;
  return (tsr__csv_window){ at, at + length };
}

tsr_status tsr__csv_load_head(tsr__csv_file *file, tsr__csv_window *head, tsr__error *error)
{
  int64_t got = 0;
  tsr_status status = load_stored(file, &got, error);
  if (status) return status;
  if (!got) return nothing(file, "is empty", error);
  *head = window_of(file, got);
  bool whole = got == file->stored;
  status = tsr__csv_magic(file, *head, &file->packing, error);
  if (!status && file->packing != TSR__PLAIN) {
    /* Head and text cannot share a block: the packed bytes move out of it first. */
    if (file->stream) set_aside(file);
    got = 0;
    status = unpack_head(file, &got, &whole, error);
    if (status) return status;
    if (!got) return nothing(file, "is empty when unpacked", error);
    *head = window_of(file, got);
    /* What it unpacks to is looked at once more: it may be packed twice, or a tar archive. */
    status = tsr__csv_magic(file, *head, NULL, error);
  }
  if (status || !whole) return status;
  /* The beginning is the file: it is loaded, then. */
  status = tsr__csv_file_same(file, error);
  if (status) return status;
  tsr__csv_file_done(file, got);
  tsr__csv_file_close(file);
  return TSR_OK;
}
