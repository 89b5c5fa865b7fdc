/* Zip archives.
 *
 *   |header name data|header name data| ... |entry entry ...|zip64 end, locator|end|
 *    ^ at                                    directory, read first
 *
 * Sizes of 4 GiB and more, and what lies beyond, stand in extra fields of 64 bits (zip64).
 *
 * Invariant: a member's bytes lie between its header and the directory, and unpack to as many as
 * the directory says, no more: memory is bounded by what the file's size allows. */
#include "io/npy/zip.h"

#include "io/file/files.h"
#include "io/file/system.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { END = 22, LOCATOR = 20, END64 = 56, ENTRY = 46, LOCAL = 30, COMMENT_MAX = 65535 };
/* Deflate's best: 258 bytes in 2 bits. */
enum { RATIO = 1032 };    /* what deflate packs at most */
enum { PIECE = 4 << 20 }; /* bytes between two looks at the callback */

#define FULL32 UINT32_C(0xffffffff)

/* Zip is little-endian; whatever this machine is, bytes are put together one by one. */
static uint64_t get(const char *at, int bytes)
{
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; i--) value = value << 8 | (unsigned char)at[i];
  return value;
}

static tsr_status io_error(const tsr__zip *zip, const char *what, tsr__error *error)
{
  return tsr__file_error(zip->path, what, errno, error);
}

static tsr_status damaged(const tsr__zip *zip, const char *why, tsr__error *error)
{
  return tsr__error_set(error, TSR_EPARSE, "%s: the zip archive is damaged: %s", zip->path, why);
}

static tsr_status no_memory(const tsr__zip *zip, int64_t bytes, tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "%s: no memory for %" PRId64 " bytes", zip->path, bytes);
}

/* Whether the callback cancels; the error is set then. */
static bool stops(const tsr__zip *zip, tsr__error *error)
{
  return zip->progress && tsr__progress_stops(zip->progress, 0) && tsr__cancelled(error, zip->path);
}

/* In pieces, so that the callback is asked between them. */
static tsr_status read_at(const tsr__zip *zip, void *to, int64_t length, int64_t offset,
                          tsr__error *error)
{
  for (int64_t at = 0; at < length; at += PIECE) {
    size_t some = length - at < PIECE ? (size_t)(length - at) : PIECE;
    int64_t got = tsr__sys_read_all(zip->fd, (char *)to + at, some, offset + at);
    if (got < 0) return io_error(zip, "read", error);
    if (got < (int64_t)some)
      return tsr__error_set(error, TSR_EIO,
                            "%s: ended while it was read; is the file still being written?",
                            zip->path);
    if (at + PIECE < length && stops(zip, error)) return error->status;
  }
  return TSR_OK;
}

/* ---- the directory's place ------------------------------------------------------------------- */

typedef struct place {
  int64_t at, size, count; /* of the directory */
  int64_t end;             /* what follows it */
} place;

/* zip64: sizes and counts of 64 bits, in an end record of its own. */
static tsr_status read_end64(const tsr__zip *zip, int64_t end_at, place *out, tsr__error *error)
{
  char locator[LOCATOR], end[END64];
  /* The locator stands directly before the end record: it says where zip64's end record lies. */
  int64_t at = end_at - LOCATOR;
  if (at < END64) return damaged(zip, "the zip64 end is missing", error);
  if (read_at(zip, locator, LOCATOR, at, error)) return error->status;
  if (memcmp(locator, "PK\x06\x07", 4) != 0) return damaged(zip, "the zip64 end is missing", error);
  uint64_t end64 = get(locator + 8, 8);
  /* Its place is the file's word: it must lie before its locator. */
  if (end64 > (uint64_t)(at - END64))
    return damaged(zip, "the zip64 end lies at another place", error);
  if (read_at(zip, end, END64, (int64_t)end64, error)) return error->status;
  /* Disks must be 0: an archive in one file. */
  if (memcmp(end, "PK\x06\x06", 4) != 0 || get(end + 16, 4) || get(end + 20, 4))
    return damaged(zip, "the zip64 end is damaged", error);
  uint64_t count = get(end + 32, 8), size = get(end + 40, 8), start = get(end + 48, 8);
  /* The directory must lie before the end record, whatever is said of it. */
  if (count > INT32_MAX || size > end64 || start > end64)
    return damaged(zip, "its directory is larger than the file", error);
  *out = (place){ (int64_t)start, (int64_t)size, (int64_t)count, (int64_t)end64 };
  return TSR_OK;
}

/* The end record stands last, before a comment of at most 64 KiB. */
static tsr_status find_end(const tsr__zip *zip, int64_t size, char *tail, place *out,
                           tsr__error *error)
{
  /* At most 64 KiB and the record itself. */
  int64_t look = size < END + COMMENT_MAX ? size : END + COMMENT_MAX, at;
  if (read_at(zip, tail, look, size - look, error)) return error->status;
  /* From the end on, and only one whose comment ends with the file: the four letters may stand in
   * the comment or in a member as well. */
  for (at = look - END; at >= 0; at--)
    if (memcmp(tail + at, "PK\x05\x06", 4) == 0 &&
        (int64_t)get(tail + at + 20, 2) == look - at - END)
      break;
  if (at < 0)
    return damaged(zip, "there is no directory at its end; was the file copied whole?", error);
  const char *end = tail + at;
  uint64_t count = get(end + 10, 2), bytes = get(end + 12, 4), start = get(end + 16, 4);
  int64_t end_at = size - look + at;
  /* Number of this disk, of the directory's, and entries on this disk. */
  if (get(end + 4, 2) || get(end + 6, 2) || get(end + 8, 2) != count)
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s: is one of several parts of a zip archive; join the parts first",
                          zip->path);
  /* 0xffff and 0xffffffff mean: see zip64. */
  if (count == 0xffff || bytes == FULL32 || start == FULL32)
    return read_end64(zip, end_at, out, error);
  *out = (place){ (int64_t)start, (int64_t)bytes, (int64_t)count, end_at };
  return TSR_OK;
}

static tsr_status find_directory(const tsr__zip *zip, place *out, tsr__error *error)
{
  /* What is no zip file is told as what it is, if that is known. */
  struct stat info;
  if (fstat(zip->fd, &info)) return io_error(zip, "examine", error);
  if (S_ISDIR(info.st_mode))
    return tsr__error_set(error, TSR_EIO, "%s: is a directory, expected a .npz file", zip->path);
  if (!S_ISREG(info.st_mode))
    return tsr__error_set(error, TSR_EUNSUPPORTED, "%s: is not a regular file", zip->path);
  char magic[12] = { 0 };
  int64_t look = info.st_size < 12 ? (int64_t)info.st_size : 12;
  if (read_at(zip, magic, look, 0, error)) return error->status;
  bool begins = memcmp(magic, "PK", 2) == 0;
  if (!begins && tsr__file_magic(zip->path, "a .npz archive", magic, (size_t)look, error))
    return error->status;
  if (info.st_size < END || !begins)
    return tsr__error_set(error, TSR_EPARSE,
                          "%s: is not a .npz archive: it does not begin as zip files do",
                          zip->path);
  size_t room = END + COMMENT_MAX;
  char *tail = tsr__new_raw(zip->heap, room);
  if (!tail) return no_memory(zip, (int64_t)room, error);
  tsr_status status = find_end(zip, (int64_t)info.st_size, tail, out, error);
  tsr__del(zip->heap, tail, room);
  if (status) return status;
  /* The directory must end where the end record begins, and each entry takes 46 bytes or more: a
   * count that is a lie is found before memory is asked for. */
  if (out->at > out->end || out->size != out->end - out->at || out->count > out->size / ENTRY)
    return damaged(zip, "its directory is not at the expected place", error);
  return TSR_OK;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* The values of 64 bits that stand in an extra field, in the order of those that are full. */
static bool read_extra(const char *at, const char *end, uint64_t *const values[3])
{
  bool needed = false;
  /* Only those that are full in the entry stand in the field, in this order: size, packed size,
   * place. */
  for (int i = 0; i < 3; i++) needed |= *values[i] == FULL32;
  while (needed && end - at >= 4) {
    int64_t size = (int64_t)get(at + 2, 2);
    const char *field = at + 4;
    if (size > end - field) return false;
    at = field + size;
    /* Other fields (times, owners) are stepped over. */
    if (get(field - 4, 2) != 1) continue;
    for (int i = 0; i < 3; i++) {
      if (*values[i] != FULL32) continue;
      if (at - field < 8) return false;
      *values[i] = get(field, 8);
      field += 8;
    }
    return true;
  }
  return !needed;
}

/* Takes an entry's numbers, all of which are the file's word, after they were held against its
 * size. */
static tsr_status take_entry(tsr__zip *zip, const char *entry, const char *name, uint64_t extra,
                             tsr__error *error)
{
  uint64_t packed = get(entry + 20, 4), size = get(entry + 24, 4), at = get(entry + 42, 4);
  uint64_t length = get(entry + 28, 2), flags = get(entry + 8, 2), method = get(entry + 10, 2);
  tsr__zip_member *member = &zip->member[zip->count];
  if (!length || memchr(name, 0, length) || !tsr__utf8_valid(name, length))
    return damaged(zip, "a member's name is empty or not UTF-8", error);
  if (!read_extra(name + length, name + length + extra,
                  (uint64_t *const[3]){ &size, &packed, &at }))
    return damaged(zip, "an extra field is cut off", error);
  if (flags & 1)
    return tsr__error_set(error, TSR_EUNSUPPORTED, "%s: member '%.*s' is encrypted", zip->path,
                          (int)(length < 80 ? length : 80), name);
  if (method != 0 && method != 8)
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s: member '%.*s' is compressed by method %d, expected 0 (stored) or 8 "
                          "(deflated)",
                          zip->path, (int)(length < 80 ? length : 80), name, (int)method);
  /* Members lie before the directory, so its beginning is the end of all room. */
  uint64_t room = (uint64_t)zip->end;
  /* Each difference is looked at before it is taken: all of these numbers are the file's. */
  if (at > room || room - at < LOCAL || packed > room - at - LOCAL)
    return damaged(zip, "a member does not lie before the directory", error);
  /* So that a small file cannot ask for a large piece of memory. */
  if (method == 0 ? size != packed : size / RATIO > packed)
    return damaged(zip, "a member's size is larger than its data can be", error);
  *member = (tsr__zip_member){ .deflated = method == 8,
                               .crc = (uint32_t)get(entry + 16, 4),
                               .size = (int64_t)size,
                               .packed = (int64_t)packed,
                               .at = (int64_t)at };
  return TSR_OK;
}

/* Entry by entry: the name is moved last, over bytes that were read. */
static tsr_status read_entries(tsr__zip *zip, const place *where, tsr__dict_local *names,
                               tsr__error *error)
{
  const char *at = zip->directory, *end = at + where->size;
  /* Names move to the front of the directory, where they are NUL-terminated: none is longer than
   * the entry it came from. */
  char *name = zip->directory;
  for (int64_t i = 0; i < where->count; i++) {
    if (end - at < ENTRY || memcmp(at, "PK\x01\x02", 4) != 0)
      return damaged(zip, "an entry of its directory is damaged", error);
    uint64_t length = get(at + 28, 2), extra = get(at + 30, 2), comment = get(at + 32, 2);
    /* Three numbers of 16 bits: their sum cannot overflow. */
    if (length + extra + comment > (uint64_t)(end - at - ENTRY))
      return damaged(zip, "an entry of its directory is cut off", error);
    if (take_entry(zip, at, at + ENTRY, extra, error)) return error->status;
    const char *next = at + ENTRY + length + extra + comment;
    memmove(name, at + ENTRY, length);
    name[length] = 0;
    zip->member[zip->count++].name = name;
    bool added;
    /* Names are looked up by hash: an archive of 65,535 equal names must not take 2^31
     * comparisons. */
    if (tsr__dict_code(names, name, length, false, &added) < 0)
      return no_memory(zip, where->size, error);
    if (!added)
      return tsr__error_set(error, TSR_EPARSE, "%s: two members are named '%.80s'", zip->path,
                            name);
    name += length + 1;
    at = next;
  }
  return at == end ? TSR_OK : damaged(zip, "text follows its directory's entries", error);
}

/* Memory for the directory is at most the file's size. */
static tsr_status read_directory(tsr__zip *zip, tsr__error *error)
{
  place where = { 0 };
  if (find_directory(zip, &where, error)) return error->status;
  zip->end = where.at;
  zip->directory_size = (size_t)where.size + 1;
  zip->member_room = (size_t)(where.count + 1) * sizeof *zip->member;
  zip->directory = tsr__new_raw(zip->heap, zip->directory_size);
  zip->member = tsr__new(zip->heap, zip->member_room);
  if (!zip->directory || !zip->member) return no_memory(zip, where.size, error);
  if (read_at(zip, zip->directory, where.size, where.at, error)) return error->status;
  tsr__dict_local names;
  tsr__dict_local_init(&names, zip->heap);
  tsr_status status = read_entries(zip, &where, &names, error);
  tsr__dict_local_free(&names);
  return status;
}

/* On failure there is nothing to close. */
tsr_status tsr__zip_open(tsr__heap *heap, const char *path, tsr__zip *out, tsr__error *error)
{
  tsr__zip zip = { .heap = heap, .fd = -1, .path_size = strlen(path) + 1 };
  zip.path = tsr__new(heap, zip.path_size);
  if (!zip.path) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", path);
  memcpy(zip.path, path, zip.path_size);
  zip.fd = tsr__sys_open(path, O_RDONLY | O_NONBLOCK);
  tsr_status status = zip.fd < 0 ? io_error(&zip, "open", error) : read_directory(&zip, error);
  if (status) tsr__zip_close(&zip);
  *out = zip;
  return status;
}

void tsr__zip_close(tsr__zip *zip)
{
  if (!zip->heap) return;
  if (zip->fd >= 0) tsr__sys_close(zip->fd);
  tsr__del(zip->heap, zip->member, zip->member_room);
  tsr__del(zip->heap, zip->directory, zip->directory_size);
  tsr__del(zip->heap, zip->path, zip->path_size);
  *zip = (tsr__zip){ .fd = -1 };
}

/* ---- members --------------------------------------------------------------------------------- */

uint32_t tsr__zip_crc(uint32_t crc, const void *data, size_t length, tsr__progress *progress)
{
  const unsigned char *at = data;
  for (size_t some; length; at += some, length -= some) {
    /* In pieces: a callback may stop a long checksum. */
    some = length < PIECE ? length : PIECE;
    crc = (uint32_t)crc32_z(crc, at, some);
    if (progress && tsr__progress_stops(progress, 0)) break;
  }
  return crc;
}

static tsr_status inflate_all(const tsr__zip *zip, const tsr__zip_member *m, const char *packed,
                              char *to, tsr__error *error)
{
  z_stream z = { 0 };
  int64_t in = 0, out = 0;
  int code = Z_OK;
  /* Raw deflate: zip has no wrapper of zlib's. */
  if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return no_memory(zip, m->size, error);
  /* Ends: each turn takes input or gives output, or the loop is left. */
  while (code == Z_OK && !stops(zip, error)) {
    /* zlib counts in 32 bits. */
    int64_t some_in = m->packed - in < 1 << 30 ? m->packed - in : 1 << 30;
    /* Room for a byte too many, by which a member that is longer than it says is found out. */
    int64_t some_out = m->size + 1 - out < PIECE ? m->size + 1 - out : PIECE;
    z.next_in = (Bytef *)(uintptr_t)packed + in;
    z.avail_in = (uInt)some_in;
    z.next_out = (Bytef *)to + out;
    z.avail_out = (uInt)some_out;
    code = inflate(&z, Z_NO_FLUSH);
    in += some_in - z.avail_in;
    out += some_out - z.avail_out;
    /* Full before the end, or no input left though there is room: it is damaged, and zlib would
     * wait. */
    if (code == Z_OK && (out > m->size || (in == m->packed && z.avail_out))) break;
  }
  inflateEnd(&z);
  if (error->status) return error->status;
  if (code == Z_MEM_ERROR) return no_memory(zip, m->size, error);
  if (code != Z_STREAM_END || out != m->size || in != m->packed)
    return damaged(zip, "a member does not unpack to the expected number of bytes", error);
  return TSR_OK;
}

/* Where a member's bytes begin; its own header must say what the directory says. */
static tsr_status find_data(const tsr__zip *zip, const tsr__zip_member *m, int64_t *out,
                            tsr__error *error)
{
  char local[LOCAL];
  if (read_at(zip, local, LOCAL, m->at, error)) return error->status;
  int64_t method = (int64_t)get(local + 8, 2);
  int64_t skip = LOCAL + (int64_t)get(local + 26, 2) + (int64_t)get(local + 28, 2);
  if (memcmp(local, "PK\x03\x04", 4) != 0 || method != (m->deflated ? 8 : 0) ||
      (get(local + 6, 2) & 1) || get(local + 26, 2) != strlen(m->name))
    return damaged(zip, "a member's header does not match the directory", error);
  if (skip > zip->end - m->at || m->packed > zip->end - m->at - skip)
    return damaged(zip, "a member does not lie before the directory", error);
  *out = m->at + skip;
  return TSR_OK;
}

/* Unpacked to exactly m->size bytes, and their checksum compared. */
static tsr_status read_member(const tsr__zip *zip, const tsr__zip_member *m, char *to,
                              tsr__error *error)
{
  int64_t at = 0;
  if (find_data(zip, m, &at, error)) return error->status;
  if (m->deflated) {
    char *packed = tsr__new_raw(zip->heap, (size_t)m->packed + 1);
    if (!packed) return no_memory(zip, m->packed, error);
    tsr_status status = read_at(zip, packed, m->packed, at, error);
    if (!status) status = inflate_all(zip, m, packed, to, error);
    tsr__del(zip->heap, packed, (size_t)m->packed + 1);
    if (status) return status;
  } else if (read_at(zip, to, m->size, at, error)) {
    return error->status;
  }
  uint32_t crc = tsr__zip_crc(0, to, (size_t)m->size, zip->progress);
  if (stops(zip, error)) return error->status;
  if (crc != m->crc)
    return tsr__error_set(error, TSR_EPARSE,
                          "%s: member '%.80s' is damaged: its bytes have another CRC-32", zip->path,
                          m->name);
  return TSR_OK;
}

tsr_status tsr__zip_read(const tsr__zip *zip, int member, char **out, tsr__error *error)
{
  const tsr__zip_member *m = &zip->member[member];
  /* A byte more than the member, where unpacking finds out that there are too many. */
  char *data = tsr__new_raw(zip->heap, (size_t)m->size + 1);
  if (!data) return no_memory(zip, m->size, error);
  tsr_status status = read_member(zip, m, data, error);
  if (status) tsr__del(zip->heap, data, (size_t)m->size + 1);
  else *out = data;
  return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Little-endian, and returns where it ended. */
static char *put(char *at, uint64_t value, int bytes)
{
  for (int i = 0; i < bytes; i++) *at++ = (char)(value >> (8 * i) & 0xff);
  return at;
}

/* "See zip64" where 32 bits do not hold it. */
static uint64_t cut32(int64_t value)
{
  return (uint64_t)value < FULL32 ? (uint64_t)value : FULL32;
}

tsr_status tsr__zip_begin(tsr__heap *heap, const char *path, const tsr__out_opts *opts,
                          tsr__zip_writer *out, tsr__error *error)
{
  tsr__out_opts plain = opts ? *opts : (tsr__out_opts){ 0 };
  /* A .npz is never packed as a whole, whatever its name ends in: its members are. */
  plain.plain = true;
  *out = (tsr__zip_writer){ .heap = heap };
  out->out = tsr__out_open(heap, path, &plain, error);
  return out->out ? TSR_OK : error->status;
}

/* What local headers and entries share, from the version on; dates are the first that zip knows. */
static char *put_common(char *at, int64_t size, uint32_t crc, size_t name)
{
  bool long_size = (uint64_t)size >= FULL32;
  /* Versions of the format that a reader must know: 2.0, and 4.5 for zip64. */
  at = put(at, long_size ? 45 : 20, 2);
  at = put(at, 0x800, 2); /* names are UTF-8 */
  at = put(at, 0, 2);     /* stored */
  at = put(at, 0, 2);
  /* 1980-01-01, the first day zip can say, so that equal arrays give equal files. */
  at = put(at, 0x21, 2);
  at = put(at, crc, 4);
  at = put(at, cut32(size), 4);
  at = put(at, cut32(size), 4);
  return put(at, name, 2);
}

/* A member's header; its bytes follow by the caller's hand. The directory's entry is kept in memory
 * until the end. */
tsr_status tsr__zip_add(tsr__zip_writer *w, const char *name, int64_t size, uint32_t crc,
                        tsr__error *error)
{
  char local[LOCAL + 20], *at = local;
  size_t length = strlen(name);
  int64_t offset = tsr__out_length(w->out);
  bool long_size = (uint64_t)size >= FULL32, far = (uint64_t)offset >= FULL32;
  memcpy(at, "PK\x03\x04", 4);
  at = put_common(at + 4, size, crc, length);
  at = put(at, long_size ? 20 : 0, 2);
  if (tsr__out_put(w->out, local, LOCAL, error) || tsr__out_put(w->out, name, length, error))
    return error->status;
  /* Of a local header both sizes stand in the field, even if only one is too large. */
  if (long_size) {
    at = put(put(local, 1, 2), 16, 2);
    put(put(at, (uint64_t)size, 8), (uint64_t)size, 8);
    if (tsr__out_put(w->out, local, 20, error)) return error->status;
  }
  /* 28: what a whole extra field takes. */
  if (!tsr__grow(w->heap, (void **)&w->directory, &w->room, w->used + ENTRY + length + 28, 1))
    return tsr__error_set(error, TSR_ENOMEM, "no memory for the archive's directory");
  /* Sizes first, then the place: those that 32 bits do not hold. */
  int extra = (long_size ? 16 : 0) + (far ? 8 : 0);
  at = w->directory + w->used;
  memcpy(at, "PK\x01\x02", 4);
  at = put(at + 4, 3 << 8 | 45, 2); /* made on Unix */
  at = put_common(at, size, crc, length);
  at = put(at, extra ? (uint64_t)extra + 4 : 0, 2);
  at = put(at, 0, 8); /* no comment, first disk, internal attributes */
  /* The external attributes: a plain file that its owner may write. */
  at = put(put(at - 2, UINT64_C(0100644) << 16, 4), cut32(offset), 4);
  memcpy(at, name, length);
  at += length;
  if (extra) at = put(put(at, 1, 2), (uint64_t)extra, 2);
  if (long_size) at = put(put(at, (uint64_t)size, 8), (uint64_t)size, 8);
  if (far) at = put(at, (uint64_t)offset, 8);
  w->used = (size_t)(at - w->directory);
  w->count++;
  return TSR_OK;
}

/* The directory, then how it is found: from behind. */
static tsr_status put_end(tsr__zip_writer *w, tsr__error *error)
{
  char end[END64 + LOCATOR + END], *at = end;
  int64_t start = tsr__out_length(w->out), size = (int64_t)w->used;
  if (tsr__out_put(w->out, w->directory, w->used, error)) return error->status;
  /* Any of the three is too large for the old record: then both are written, and the old one says
   * so. */
  if (w->count >= 0xffff || (uint64_t)start >= FULL32 || (uint64_t)size >= FULL32) {
    memcpy(at, "PK\x06\x06", 4);
    /* Its size does not count its first twelve bytes. */
    at = put(put(put(at + 4, END64 - 12, 8), 3 << 8 | 45, 2), 45, 2);
    at = put(put(put(at, 0, 8), (uint64_t)w->count, 8), (uint64_t)w->count, 8);
    at = put(put(at, (uint64_t)size, 8), (uint64_t)start, 8);
    memcpy(at, "PK\x06\x07", 4);
    at = put(put(put(at + 4, 0, 4), (uint64_t)(start + size), 8), 1, 4);
  }
  uint64_t count = w->count < 0xffff ? (uint64_t)w->count : 0xffff;
  memcpy(at, "PK\x05\x06", 4);
  at = put(put(put(at + 4, 0, 4), count, 2), count, 2);
  at = put(put(put(at, cut32(size), 4), cut32(start), 4), 0, 2);
  return tsr__out_put(w->out, end, (size_t)(at - end), error);
}

tsr_status tsr__zip_end(tsr__zip_writer *w, bool keep, tsr__error *error)
{
  if (!w->out) return TSR_OK;
  /* An archive that is given up gets no end: the file is thrown away with it. */
  bool put = keep && !put_end(w, error);
  tsr_status status = tsr__out_close(w->out, put, error);
  tsr__del(w->heap, w->directory, w->room);
  *w = (tsr__zip_writer){ 0 };
  return status ? status : keep && !put ? error->status : TSR_OK;
}
