/* A walk along a tar archive: ustar, pax and GNU.
 *
 *   | header 512 | bytes, up to a multiple of 512 | header | ... | zeros 512 | zeros 512 |
 *
 * A header says how many bytes follow, and its checksum is compared before it is believed. What a
 * header says of the next member (a long name of GNU, a path and a size of pax) is kept until that
 * comes. An archive ends at a header of zeros, or where the file does.
 *
 * Marks are four a member: where its bytes begin, how many there are, where its name begins in the
 * texts, and the length of its key. */
#include "pipeline/tar_walk.h"

enum { BLOCK = 512, MARKS = 4, NAME_MOST = 1 << 16 };

/* Where a walk is, and what was said of the next member. */
typedef struct tar_walk {
  tsr__file_walk *w;
  int64_t at;      /* of the header */
  int64_t members; /* headers so far, for messages */
  int64_t size;    /* by pax; -1: not said */
  tsr__text name;  /* of GNU or pax; empty: not said */
  tsr__text last;  /* the name of the member of a sample before */
  int64_t last_key;
} tar_walk;

static tsr_status damaged(const tar_walk *t, const char *why, tsr__error *error)
{
  return tsr__error_set(error, TSR_EPARSE, "%s: member %lld at byte %lld: %s", t->w->file->path,
                        (long long)t->members, (long long)t->at, why);
}

/* ---- headers --------------------------------------------------------------------------------- */

/* Octal digits between spaces and zeros, or base 256; -1: neither, or too large. */
static int64_t number_of(const unsigned char *field, int length)
{
  int64_t number = 0;
  int i = 0;
  /* GNU's, for sizes from 8 GiB on. Negative numbers, which begin with all bits, end as too large.
   * */
  if (field[0] & 0x80) {
    number = field[0] & 0x7F;
    for (i = 1; i < length; i++) {
      if (number >> 54) return -1;
      number = number << 8 | field[i];
    }
    return number;
  }
  while (i < length && field[i] == ' ') i++;
  for (; i < length && field[i] >= '0' && field[i] <= '7'; i++) {
    if (number >> 59) return -1;
    number = number << 3 | (field[i] - '0');
  }
  return i == length || field[i] == 0 || field[i] == ' ' ? number : -1;
}

/* Some archivers summed signed bytes. */
static bool sum_holds(const unsigned char *header)
{
  int64_t stored = number_of(header + 148, 8), plain = 0, with_sign = 0;
  for (int i = 0; i < BLOCK; i++) {
    unsigned char byte = i >= 148 && i < 156 ? ' ' : header[i];
    plain += byte;
    with_sign += (signed char)byte;
  }
  return stored == plain || stored == with_sign;
}

static bool is_zeros(const unsigned char *header)
{
  for (int i = 0; i < BLOCK; i++)
    if (header[i]) return false;
  return true;
}

static size_t text_length(const unsigned char *field, size_t most)
{
  const unsigned char *end = memchr(field, 0, most);
  return end ? (size_t)(end - field) : most;
}

/* The name that a header has itself; POSIX has its front apart. */
static void own_name(const unsigned char *header, tsr__text *out)
{
  /* GNU writes "ustar" and spaces there, and has other things where POSIX has the front. */
  size_t front = memcmp(header + 257, "ustar", 6) ? 0 : text_length(header + 345, 155);
  if (front) {
    tsr__text_put(out, (const char *)header + 345, front);
    tsr__text_put(out, "/", 1);
  }
  tsr__text_put(out, (const char *)header, text_length(header, 100));
}

/* ---- what is said of the next member --------------------------------------------------------- */

static tsr_status take_key(tar_walk *t, const char *key, const char *value, size_t length,
                           tsr__error *error)
{
  /* The last one counts, as for those who unpack. Values may hold zeros, which names cannot. */
  if (!strcmp(key, "path")) {
    t->name.length = 0;
    tsr__text_put(&t->name, value, text_length((const unsigned char *)value, length));
  }
  if (!strcmp(key, "size")) {
    t->size = 0;
    for (size_t i = 0; i < length; i++) {
      bool digit = value[i] >= '0' && value[i] <= '9';
      if (!digit || t->size >> 58)
        return damaged(t, "its size in the pax header is not a number", error);
      t->size = t->size * 10 + (value[i] - '0');
    }
  }
  if (!strncmp(key, "GNU.sparse", 10))
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s: member %lld at byte %lld is sparse, which is not supported; pack "
                          "the archive without --sparse",
                          t->w->file->path, (long long)t->members, (long long)t->at);
  return TSR_OK;
}

/* "LENGTH KEY=VALUE\n", one behind the other; the length is of all of it. */
static tsr_status take_pax(tar_walk *t, const char *text, size_t length, tsr__error *error)
{
  const char *broken = "the pax header of the next member is broken";
  while (length && !error->status) {
    size_t whole = 0, digits = 0;
    char key[64] = { 0 };
    for (; digits < length && digits < 9 && text[digits] >= '0' && text[digits] <= '9'; digits++)
      whole = whole * 10 + (size_t)(text[digits] - '0');
    if (!digits || whole > length || whole < digits + 3 || text[digits] != ' ' ||
        text[whole - 1] != '\n')
      return damaged(t, broken, error);
    const char *from = text + digits + 1;
    const char *equals = memchr(from, '=', whole - digits - 2);
    if (!equals) return damaged(t, broken, error);
    size_t key_length = (size_t)(equals - from);
    /* Longer keys are none that matter here. */
    if (key_length < sizeof key) {
      memcpy(key, from, key_length);
      take_key(t, key, equals + 1, (size_t)(text + whole - 1 - (equals + 1)), error);
    }
    text += whole;
    length -= whole;
  }
  return error->status;
}

/* A header whose bytes are of the next member: 'L' its long name, 'x' of pax. */
static tsr_status take_ahead(tar_walk *t, char kind, int64_t size, tsr__error *error)
{
  /* It must lie in one window, and no name is as long. */
  if (size > NAME_MOST)
    return damaged(t, "the header of the next member has more than 64 KiB", error);
  if (!size) return TSR_OK;
  const unsigned char *bytes = tsr__walk_look(t->w, t->at + BLOCK, size, NULL, error);
  if (!bytes) return error->status;
  if (kind == 'x') return take_pax(t, (const char *)bytes, (size_t)size, error);
  t->name.length = 0;
  tsr__text_put(&t->name, (const char *)bytes, text_length(bytes, (size_t)size));
  return TSR_OK;
}

/* ---- members --------------------------------------------------------------------------------- */

/* The length of a name's key; -1: it is no part of a sample. */
static int64_t key_of(const char *name)
{
  const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
  const char *dot = strchr(base, '.');
  size_t length = strlen(name);
  /* WebDataset keeps its own files under such names. */
  bool own = length >= 4 && !strncmp(base, "__", 2) && !strcmp(name + length - 2, "__");
  return !dot || dot == base || !dot[1] || own ? -1 : dot - name;
}

static bool same(const char *a, int64_t a_key, const char *b, int64_t b_key)
{
  return a_key == b_key && !memcmp(a, b, (size_t)a_key);
}

static tsr_status keep_member(tar_walk *t, const char *name, int64_t size, tsr__error *error)
{
  tsr__text *texts = &t->w->files->texts;
  int64_t key = key_of(name);
  if (key < 0) return TSR_OK;
  const int64_t marks[MARKS] = { t->at + BLOCK, size, (int64_t)(texts->length - t->w->file->text),
                                 key };
  for (int i = 0; i < MARKS; i++)
    if (tsr__walk_mark(t->w, marks[i], error)) return error->status;
  /* Only neighbours are of one sample: a key that comes again later is another one, as archives are
   * made to be read in order. */
  if (!t->w->records || !same(name, key, tsr__text_get(&t->last), t->last_key)) t->w->records++;
  tsr__text_put(texts, name, strlen(name) + 1);
  t->last.length = 0;
  tsr__text_put(&t->last, name, strlen(name));
  t->last_key = key;
  return texts->failed || t->last.failed
             ? tsr__error_set(error, TSR_ENOMEM, "%s: no memory for the names of members",
                              t->w->file->path)
             : TSR_OK;
}

/* Directories, links and devices have no bytes, whatever their size says. */
static bool has_bytes(char kind)
{
  /* strchr finds the zero at the end, which is a plain file of old archives. */
  return !kind || !strchr("123456", kind);
}

/* The member at t->at; the next one's place. */
static tsr_status take_member(tar_walk *t, const unsigned char *header, tsr__error *error)
{
  char kind = (char)header[156];
  int64_t size = number_of(header + 124, 12), left = t->w->file->size - t->at - BLOCK;
  if (!sum_holds(header))
    return damaged(
        t, "its header does not match its checksum; the file is not a tar archive, or is damaged",
        error);
  /* What pax says of a size is the next member's, not that of the header that carries it. */
  bool ahead = kind == 'L' || kind == 'K' || kind == 'x' || kind == 'g';
  if (!ahead && t->size >= 0) size = t->size;
  if (!has_bytes(kind)) size = 0;
  if (size < 0) return damaged(t, "its size is not a number", error);
  /* Before anything is looked at, and before the sum below, which so cannot overflow. */
  if (size > left)
    return tsr__error_set(
        error, TSR_EPARSE,
        "%s: member %lld at byte %lld is cut off: it has %lld bytes, but only %lld are in the file",
        t->w->file->path, (long long)t->members, (long long)t->at, (long long)size,
        (long long)left);
  if (kind == 'L' || kind == 'x') take_ahead(t, kind, size, error);
  else if (kind == 'S') take_key(t, "GNU.sparse", "", 0, error);
  else if (!ahead) {
    tsr__text own;
    tsr__text_init(&own, t->name.heap);
    if (t->name.length) tsr__text_put(&own, tsr__text_get(&t->name), t->name.length);
    else own_name(header, &own);
    if (own.failed || t->name.failed)
      tsr__error_set(error, TSR_ENOMEM, "%s: no memory for a name", t->w->file->path);
    else if (!kind || kind == '0' || kind == '7') keep_member(t, tsr__text_get(&own), size, error);
    tsr__text_free(&own);
    t->name.length = 0;
    t->size = -1;
  }
  t->at += BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK;
  t->members++;
  return error->status;
}

static tsr_status walk_members(tar_walk *t, tsr__error *error)
{
  int64_t size = t->w->file->size;
  while (t->at < size && !error->status) {
    if (size - t->at < BLOCK) return damaged(t, "its header is cut off", error);
    const unsigned char *header = tsr__walk_look(t->w, t->at, BLOCK, NULL, error);
    /* What lies behind a header of zeros was padded by the archiver, or is an older archive's rest.
     * */
    if (!header || is_zeros(header)) break;
    take_member(t, header, error);
  }
  return error->status;
}

static tsr_status walk_tar(tsr__file_walk *w, tsr__error *error)
{
  tar_walk t = { .w = w, .size = -1 };
  tsr__text_init(&t.name, &w->files->rt->heap);
  tsr__text_init(&t.last, &w->files->rt->heap);
  walk_members(&t, error);
  tsr__text_free(&t.name);
  tsr__text_free(&t.last);
  return error->status;
}

/* ---- what a walk left ------------------------------------------------------------------------ */

int64_t tsr__tar_count(const tsr__record_files *f, int file)
{
  return (int64_t)(f->file[file + 1].mark - f->file[file].mark) / MARKS;
}

tsr__tar_member tsr__tar_member_of(const tsr__record_files *f, int file, int64_t member)
{
  const int64_t *mark = tsr__record_marks(f, file) + member * MARKS;
  const char *texts = tsr__text_get(&f->texts) + f->file[file].text;
  return (tsr__tar_member){ mark[0], mark[1], texts + mark[2], mark[3] };
}

bool tsr__tar_same_key(const tsr__tar_member *a, const tsr__tar_member *b)
{
  return same(a->name, a->key_length, b->name, b->key_length);
}

static bool tar_fits(const tsr__file_walk *w)
{
  const tsr__record_files *f = w->files;
  size_t count = f->mark_count - w->file->mark, texts = f->texts.length - w->file->text;
  const char *text = tsr__text_get(&f->texts) + w->file->text, *last = NULL;
  int64_t records = 0, last_key = 0;
  /* The last text ends, so every text that begins inside does. */
  if (count % MARKS || (count && (!texts || text[texts - 1]))) return false;
  for (size_t i = 0; i < count; i += MARKS) {
    const int64_t *m = f->marks + w->file->mark + i;
    if (m[0] < 0 || m[1] < 0 || m[0] > w->file->size || m[1] > w->file->size - m[0]) return false;
    /* A key's length is where a stranger could make readers leave a name: it is found anew. */
    if (m[2] < 0 || (uint64_t)m[2] >= texts || key_of(text + m[2]) != m[3]) return false;
    if (!last || !same(last, last_key, text + m[2], m[3])) records++;
    last = text + m[2];
    last_key = m[3];
  }
  return records == w->records;
}

const tsr__file_format tsr__tar_format = { "tar", walk_tar, tar_fits, TSR__PACKED_BY_HEAD,
                                           NULL,  NULL };
