/* Indexes that are kept beside files: FILE.tsridx.
 *
 *   "TSRIDX01" | kind (16) | size, time, records, longest, marks, bytes of texts (8 each) |
 *   marks (8 each) | texts | hash of all before (8)
 *
 * Numbers are little-endian. An index counts only for a file of the size and the time that it
 * says, whole by its hash, of the same kind, and with marks that fit the file: anything else is
 * made anew. It is written to another name and renamed, so who reads sees a whole one. */
#include <fcntl.h>
#include <sys/stat.h>

#include "io/file/outfile.h"
#include "io/file/system.h"
#include "pipeline/record_files.h"

enum { MAGIC = 8, KIND = 16, NUMBERS = 6, HEAD = MAGIC + KIND + NUMBERS * 8, TAIL = 8 };
static const char magic[] = "TSRIDX01";

/* Byte by byte, so that an index made on another machine is read the same. */
static void put_number(unsigned char *to, uint64_t number)
{
  for (int i = 0; i < 8; i++) to[i] = (unsigned char)(number >> 8 * i);
}

static int64_t get_number(const unsigned char *from)
{
  uint64_t number = 0;
  for (int i = 0; i < 8; i++) number |= (uint64_t)from[i] << 8 * i;
  return (int64_t)number;
}

static char *index_path(tsr__heap *heap, const char *path, size_t *room)
{
  *room = strlen(path) + sizeof ".tsridx";
  char *name = tsr__new_raw(heap, *room);
  if (name) snprintf(name, *room, "%s.tsridx", path);
  return name;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* The bytes of an index file, or NULL. */
static unsigned char *load_bytes(tsr__heap *heap, const char *path, size_t *size)
{
  struct stat stat;
  unsigned char *bytes = NULL;
  int fd = tsr__sys_open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  if (!fstat(fd, &stat) && S_ISREG(stat.st_mode) && stat.st_size >= HEAD + TAIL) {
    *size = (size_t)stat.st_size;
    bytes = tsr__new_raw(heap, *size);
  }
  if (bytes && tsr__sys_read_all(fd, bytes, *size, 0) != (int64_t)*size) {
    tsr__del(heap, bytes, *size);
    bytes = NULL;
  }
  tsr__sys_close(fd);
  return bytes;
}

/* Whether bytes are a whole index of this file and kind. The sums cannot wrap: both counts were
 * compared with the file's size before they are added. */
static bool is_of(const tsr__file_walk *w, const char *kind, const unsigned char *bytes,
                  size_t size)
{
  char own[KIND] = { 0 };
  snprintf(own, sizeof own, "%s", kind);
  const unsigned char *n = bytes + MAGIC + KIND;
  uint64_t marks = (uint64_t)get_number(n + 32), texts = (uint64_t)get_number(n + 40);
  if (memcmp(bytes, magic, MAGIC) != 0 || memcmp(bytes + MAGIC, own, KIND) != 0) return false;
  if (get_number(n) != w->file->size || get_number(n + 8) != w->file->kept.changed) return false;
  if (marks > size / 8 || texts > size || HEAD + TAIL + marks * 8 + texts != size) return false;
  return (uint64_t)get_number(bytes + size - TAIL) == tsr__hash(bytes, size - TAIL, 0);
}

/* Takes over what an index holds; false: it does not fit, and nothing is taken. */
static bool take(tsr__file_walk *w, const tsr__file_format *format, const unsigned char *bytes)
{
  tsr__record_files *f = w->files;
  tsr__error error = { 0 };
  const unsigned char *n = bytes + MAGIC + KIND;
  int64_t marks = get_number(n + 32), texts = get_number(n + 40);
  w->records = get_number(n + 16);
  w->longest = get_number(n + 24);
  for (int64_t i = 0; i < marks && !error.status; i++)
    tsr__walk_mark(w, get_number(bytes + HEAD + i * 8), &error);
  if (texts) tsr__text_put(&f->texts, (const char *)bytes + HEAD + marks * 8, (size_t)texts);
  if (!error.status && !f->texts.failed && w->records >= 0 && w->longest >= 0 && format->fits(w))
    return true;
  /* Back to what was there before this file, as if there were no index; the walk comes next. */
  f->mark_count = w->file->mark;
  if (!f->texts.failed) f->texts.length = w->file->text;
  w->records = w->longest = 0;
  return false;
}

bool tsr__record_index_load(tsr__file_walk *w, const tsr__file_format *format)
{
  tsr__heap *heap = &w->files->rt->heap;
  size_t room, size = 0;
  char *path = index_path(heap, w->file->path, &room);
  unsigned char *bytes = path ? load_bytes(heap, path, &size) : NULL;
  bool good = bytes && is_of(w, format->kind, bytes, size) && take(w, format, bytes);
  tsr__del(heap, bytes, size);
  tsr__del(heap, path, room);
  return good;
}

/* ---- saving ---------------------------------------------------------------------------------- */

/* The head is cleared first: of the kind's 16 bytes those behind its name are hashed as well. */
static void fill(const tsr__file_walk *w, const char *kind, unsigned char *bytes, size_t size)
{
  const tsr__record_files *f = w->files;
  size_t marks = f->mark_count - w->file->mark, texts = f->texts.length - w->file->text;
  const int64_t numbers[NUMBERS] = { w->file->size, w->file->kept.changed, w->records,
                                     w->longest,    (int64_t)marks,        (int64_t)texts };
  memset(bytes, 0, HEAD);
  memcpy(bytes, magic, MAGIC);
  snprintf((char *)bytes + MAGIC, KIND, "%s", kind);
  for (int i = 0; i < NUMBERS; i++) put_number(bytes + MAGIC + KIND + i * 8, (uint64_t)numbers[i]);
  for (size_t i = 0; i < marks; i++)
    put_number(bytes + HEAD + i * 8, (uint64_t)f->marks[w->file->mark + i]);
  if (texts) memcpy(bytes + HEAD + marks * 8, tsr__text_get(&f->texts) + w->file->text, texts);
  put_number(bytes + size - TAIL, tsr__hash(bytes, size - TAIL, 0));
}

void tsr__record_index_save(const tsr__file_walk *w, const tsr__file_format *format)
{
  const tsr__record_files *f = w->files;
  tsr__heap *heap = &f->rt->heap;
  tsr__error error = { 0 };
  size_t marks = f->mark_count - w->file->mark, texts = f->texts.length - w->file->text;
  size_t room, size = HEAD + TAIL + marks * 8 + texts;
  char *path = index_path(heap, w->file->path, &room);
  unsigned char *bytes = path ? tsr__new_raw(heap, size) : NULL;
  tsr__outfile *out = NULL;
  const tsr__out_opts plain = { .plain = true };
  if (!bytes) tsr__error_set(&error, TSR_ENOMEM, "no memory for an index of %zu bytes", size);
  else {
    fill(w, format->kind, bytes, size);
    out = tsr__out_open(heap, path, &plain, &error);
  }
  if (out) {
    tsr__out_put(out, bytes, size, &error);
    tsr__out_close(out, !error.status, &error);
  }
  if (error.status)
    tsr__log(f->rt, TSR_LOG_WARN, "pipeline", "the index of %s is not kept: %s", w->file->path,
             error.text);
  tsr__del(heap, bytes, size);
  tsr__del(heap, path, room);
}
