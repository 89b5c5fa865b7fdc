/* A catalog read from its text; catalog_write.c shows one.
 *
 * Invariant: whatever the text, what is made of it is in bounds of itself; whether it is one of a
 * whole step tsr__catalog_check says.
 *
 * Members may come in any order and unknown ones are passed over, so that a later version can add
 * some without being another format. */
#include "checkpoint/checkpoint_room.h"
#include "io/json/json_inner.h"

#include <stdlib.h>

/* Behind the entries, in the text of a whole step:  ,\n"crc32c": "00c0ffee"\n}\n  */
static const char tail_start[] = ",\n\"crc32c\": \"";
enum { TAIL = sizeof tail_start - 1 + 8 + 4 };
/* More than a step of a hundred million pieces has. */
#define HEADER_MOST ((int64_t)1 << 36)

typedef struct reading {
  tsr__catalog *c;
  const char *text;
  tsr__error *error;
  int64_t version, block;
} reading;

static bool fail(const reading *r, const char *at, const char *why)
{
  tsr__error_set(r->error, TSR_EPARSE, "at byte %lld: %s", (long long)(at - r->text), why);
  return false;
}

static bool no_memory(const reading *r)
{
  tsr__error_set(r->error, TSR_ENOMEM, "no memory to read the catalog");
  return false;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Nothing that we write as a key or a word has an escape in it. */
static bool key_is(const tsr__json_token *key, const char *name)
{
  return !key->escaped && key->length == strlen(name) && !memcmp(key->at, name, key->length);
}

/* Digits alone: we write no number with a sign, a point or an exponent. */
static bool take_number(const reading *r, const tsr__json_token *value, int64_t *out)
{
  int64_t number = 0;
  bool good = value->kind == TSR__JSON_IS_NUMBER;
  for (size_t i = 0; i < value->length && good; i++) {
    unsigned digit = (unsigned char)value->at[i] - '0';
    good = digit < 10 && !__builtin_mul_overflow(number, 10, &number) &&
           !__builtin_add_overflow(number, (int64_t)digit, &number);
  }
  if (!good) return fail(r, value->at, "expected a whole number");
  *out = number;
  return true;
}

/* A NUL would end a name early, and another file or array would be meant than the text says. */
static bool take_text(const reading *r, const tsr__json_token *value, const char **out)
{
  if (value->kind != TSR__JSON_IS_TEXT) return fail(r, value->at, "expected a text");
  char *own = tsr__arena_raw(&r->c->arena, value->length + 1);
  if (!own) return no_memory(r);
  size_t length = tsr__json_unescape(value, own);
  own[length] = '\0';
  if (strlen(own) != length) return fail(r, value->at, "a text has a NUL in it");
  *out = own;
  return true;
}

/* A nested value is its text, brackets and all, so a cursor over it reads it anew. */
static tsr__json_cursor inside(const tsr__json_token *value)
{
  return (tsr__json_cursor){ .at = value->at, .end = value->at + value->length };
}

/* What the grammar found wrong. */
static bool faulty(const reading *r, const tsr__json_cursor *cursor)
{
  return fail(r, cursor->fault, cursor->why);
}

/* A list of at most TSR_MAX_RANK numbers. */
static bool take_list(const reading *r, const tsr__json_token *value, int64_t *out, int *count)
{
  tsr__json_cursor cursor = inside(value);
  tsr__json_token item;
  int more = 0, at = 0;
  while ((more = tsr__json_item(&cursor, &item)) == 1) {
    if (at == TSR_MAX_RANK) return fail(r, item.at, "there are more than 16 dims");
    if (!take_number(r, &item, &out[at++])) return false;
  }
  *count = at;
  return more < 0 ? faulty(r, &cursor) : true;
}

/* Each item of a list by `take`. */
typedef bool take_fn(reading *r, const tsr__json_token *value);
/* What is no list is told by the grammar when it looks for '['. */
static bool take_each(reading *r, const tsr__json_token *value, take_fn *take)
{
  tsr__json_cursor cursor = inside(value);
  tsr__json_token item;
  int more;
  while ((more = tsr__json_item(&cursor, &item)) == 1)
    if (!take(r, &item)) return false;
  return more < 0 ? faulty(r, &cursor) : true;
}

/* ---- what there is --------------------------------------------------------------------------- */

static int hex_digit(char c)
{
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Eight digits a block. Shifted into what must be 0, as a new piece's sums are. */
static bool take_sums(const reading *r, const tsr__json_token *value, uint32_t *out, int64_t count)
{
  if (value->kind != TSR__JSON_IS_TEXT || value->length / 8 != (size_t)count || value->length % 8)
    return fail(r, value->at, "a piece has another number of checksums than blocks");
  for (size_t i = 0; i < value->length; i++) {
    int digit = hex_digit(value->at[i]);
    if (digit < 0) return fail(r, value->at, "a checksum is no number");
    out[i / 8] = out[i / 8] << 4 | (uint32_t)digit;
  }
  return true;
}

static bool take_file(reading *r, const tsr__json_token *value)
{
  tsr__json_cursor cursor = inside(value);
  tsr__json_token key, item, sum = { 0 };
  int more;
  tsr__data_file file = { 0 };
  while ((more = tsr__json_next(&cursor, &key, &item)) == 1) {
    if (key_is(&key, "name") && !take_text(r, &item, &file.name)) return false;
    if (key_is(&key, "bytes") && !take_number(r, &item, &file.bytes)) return false;
    if (key_is(&key, "header") && !take_number(r, &item, &file.header)) return false;
    if (key_is(&key, "crc32c")) sum = item;
  }
  if (more < 0) return faulty(r, &cursor);
  /* A name that leads elsewhere would have others' files read, and deleted. */
  if (!file.name || !*file.name || strchr(file.name, '/') || file.name[0] == '.')
    return fail(r, value->at, "a file's name leads out of the step's folder");
  if (file.header > file.bytes || file.header > HEADER_MOST || !sum.at)
    return fail(r, value->at, "a file lacks its header's length or checksum");
  if (!take_sums(r, &sum, &file.sum, 1)) return false;
  tsr__data_file *own = tsr__catalog_file(r->c);
  if (!own) return no_memory(r);
  *own = file;
  return true;
}

/* The checksums are read last: how many there must be follows from the size, which may stand behind
 * them. -1 is what was not said. */
static bool take_piece(reading *r, const tsr__json_token *value)
{
  tsr__json_cursor cursor = inside(value);
  tsr__json_token key, item, sums = { 0 };
  const tsr__listed *entry = &r->c->entry[r->c->entries - 1];
  tsr__extent piece = { .file = -1 };
  int64_t file = -1;
  int more, starts = -1, sizes = -1;
  while ((more = tsr__json_next(&cursor, &key, &item)) == 1) {
    bool good = true;
    if (key_is(&key, "file")) good = take_number(r, &item, &file);
    if (key_is(&key, "at")) good = take_number(r, &item, &piece.at);
    if (key_is(&key, "start")) good = take_list(r, &item, piece.box.start, &starts);
    if (key_is(&key, "size")) good = take_list(r, &item, piece.box.size, &sizes);
    if (key_is(&key, "crc32c")) sums = item;
    if (!good) return false;
  }
  if (more < 0) return faulty(r, &cursor);
  int64_t count = 1;
  /* Elements of the box, or -1 beyond 63 bits. */
  for (int d = 0; d < entry->shape.rank && count >= 0; d++)
    if (__builtin_mul_overflow(count, piece.box.size[d], &count)) count = -1;
  if (starts != entry->shape.rank || sizes != entry->shape.rank || file < 0 || file > INT32_MAX ||
      count < 0 || count > INT64_MAX / 8 || !sums.at)
    return fail(r, value->at, "a piece lacks something, or has another rank than its entry");
  piece.file = (int)file;
  piece.bytes = count * (int64_t)tsr_dtype_size((tsr_dtype)entry->dtype);
  /* Before memory is asked for it, its checksums must be there. */
  int64_t blocks = tsr__block_count(piece.bytes);
  if (sums.length / 8 != (size_t)blocks)
    return fail(r, value->at, "a piece has another number of checksums than blocks");
  tsr__extent *own = tsr__catalog_piece(r->c, piece.bytes);
  if (!own) return no_memory(r);
  piece.sum = own->sum;
  *own = piece;
  return take_sums(r, &sums, &r->c->sum[piece.sum], blocks);
}

static tsr_dtype dtype_named(const tsr__json_token *value)
{
  TSR__FOR_DTYPES(dtype)
  if (key_is(value, tsr_dtype_name((tsr_dtype)dtype))) return (tsr_dtype)dtype;
  return (tsr_dtype)0;
}

/* The members of an entry but its pieces, which need its shape. A dtype or kind of another word
 * leaves 0, which take_entry refuses. */
static bool take_member(reading *r, tsr__listed *entry, const tsr__json_token *key,
                        const tsr__json_token *value)
{
  if (key_is(key, "name")) return take_text(r, value, &entry->name);
  if (key_is(key, "mesh")) return take_text(r, value, &entry->mesh);
  if (key_is(key, "spec")) return take_text(r, value, &entry->spec);
  if (key_is(key, "shape")) {
    int rank = 0;
    bool good = take_list(r, value, entry->shape.dims, &rank);
    entry->shape.rank = (uint8_t)rank;
    return good;
  }
  if (key_is(key, "dtype")) entry->dtype = (uint8_t)dtype_named(value);
  for (int kind = TSR_SAVED_ARRAY; kind <= TSR_SAVED_COLUMN && key_is(key, "kind"); kind++)
    if (key_is(value, tsr__kind_name(kind))) entry->kind = (uint8_t)kind;
  return true;
}

/* "f32[8,4]@(x,-)" For people: where the spec does not fit behind the type it is left out. */
static const char *type_text(reading *r, const tsr__listed *entry)
{
  char text[512];
  if (entry->kind == TSR_SAVED_BLOB) return "blob";
  if (entry->kind == TSR_SAVED_COLUMN && *entry->spec) return entry->spec;
  int length = tsr_type_text((tsr_dtype)entry->dtype, entry->shape, NULL, text, sizeof text);
  size_t size = (size_t)length, spec = strlen(entry->spec);
  if (spec && size + spec + 1 < sizeof text) {
    text[size] = '@';
    memcpy(text + size + 1, entry->spec, spec);
    size += spec + 1;
  }
  return tsr__arena_text(&r->c->arena, text, size);
}

/* The entry is in the list before its pieces are read, as these go to the last one. */
static bool take_entry(reading *r, const tsr__json_token *value)
{
  tsr__json_cursor cursor = inside(value);
  tsr__json_token key, item, pieces = { 0 };
  int more;
  tsr__listed entry = { .mesh = "", .spec = "", .first = (int64_t)r->c->pieces };
  while ((more = tsr__json_next(&cursor, &key, &item)) == 1) {
    if (key_is(&key, "pieces")) pieces = item;
    else if (!take_member(r, &entry, &key, &item)) return false;
  }
  if (more < 0) return faulty(r, &cursor);
  if (!entry.name || !entry.dtype || !entry.kind || !pieces.at)
    return fail(r, value->at, "an entry lacks its kind, name, dtype or pieces");
  if (entry.kind == TSR_SAVED_BLOB && (entry.shape.rank != 1 || entry.dtype != TSR_U8))
    return fail(r, value->at, "a blob is not a list of bytes");
  if (entry.kind == TSR_SAVED_COLUMN && entry.shape.rank != 1)
    return fail(r, value->at, "a column does not have exactly one dim");
  tsr__listed *own = tsr__catalog_entry(r->c);
  if (!own || !(entry.type = type_text(r, &entry))) return no_memory(r);
  *own = entry;
  return take_each(r, &pieces, take_piece);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool take_head(reading *r, const tsr__json_token *key, const tsr__json_token *value)
{
  if (key_is(key, "format"))
    return key_is(value, "tessera checkpoint") ||
           fail(r, value->at, "the file is no catalog of a checkpoint");
  if (key_is(key, "version")) return take_number(r, value, &r->version);
  if (key_is(key, "step")) return take_number(r, value, &r->c->step);
  if (key_is(key, "block")) return take_number(r, value, &r->block);
  if (key_is(key, "tree")) return take_text(r, value, &r->c->form);
  if (key_is(key, "files")) return take_each(r, value, take_file);
  if (key_is(key, "entries")) return take_each(r, value, take_entry);
  return true;
}

typedef struct listing {
  const tsr__catalog *c;
  size_t hint;
} listing;

static bool is_listed(void *user, const char *name)
{
  listing *l = user;
  return tsr__catalog_find(l->c, TSR_SAVED_ARRAY, name, &l->hint) != NULL;
}

static int by_name(const void *one, const void *other)
{
  const tsr__listed *const *a = one, *const *b = other;
  int order = strcmp((*a)->name, (*b)->name);
  return order ? order : (*a)->kind - (*b)->kind;
}

/* No name twice, whatever is done with them later. Sorted as pointers: entries stay in the order of
 * the text, in which readers ask for them. */
static bool check_names(const reading *r)
{
  const tsr__catalog *c = r->c;
  const tsr__listed **sorted = tsr__arena_raw(&r->c->arena, (c->entries + 1) * sizeof *sorted);
  if (!sorted) return no_memory(r);
  for (size_t i = 0; i < c->entries; i++) sorted[i] = &c->entry[i];
  qsort(sorted, c->entries, sizeof *sorted, by_name);
  for (size_t i = 1; i < c->entries; i++)
    if (!by_name(&sorted[i - 1], &sorted[i]))
      return fail(r, r->text, "two entries have the same name");
  return true;
}

/* The checksum that the text ends in is that of what stands before it. Before the text is looked at
 * otherwise: what was changed by accident is told as that, and not as a fault of its grammar. */
static bool check_tail(const reading *r, size_t length)
{
  uint32_t sum = 0;
  const char *tail = length < TAIL ? r->text : r->text + length - TAIL;
  if (length < TAIL || memcmp(tail, tail_start, sizeof tail_start - 1) ||
      memcmp(tail + TAIL - 4, "\"\n}\n", 4)) {
    tsr__error_set(r->error, TSR_EPARSE,
                   "the catalog does not end as expected: the file was cut off, or is no catalog");
    return false;
  }
  for (int i = 0; i < 8; i++) {
    int digit = hex_digit(tail[sizeof tail_start - 1 + (size_t)i]);
    if (digit < 0) return fail(r, tail, "the checksum is no number");
    sum = sum << 4 | (uint32_t)digit;
  }
  if (sum == tsr__crc32c(0, r->text, length - TAIL)) return true;
  tsr__error_set(r->error, TSR_EPARSE,
                 "the checksum does not match the text: the catalog was changed");
  return false;
}

/* The version is looked at with each member: of a later one only that is told, and not what it has
 * that this one does not know. */
static bool read_all(reading *r, size_t length)
{
  tsr__json_cursor cursor = { .at = r->text, .end = r->text + length };
  tsr__json_token key, value;
  int more;
  while ((more = tsr__json_next(&cursor, &key, &value)) == 1) {
    if (!take_head(r, &key, &value)) return false;
    if (r->version > TSR__CATALOG_VERSION) {
      tsr__error_set(r->error, TSR_EUNSUPPORTED,
                     "the catalog has version %lld of the format, expected at most %d; use a newer "
                     "version of the library",
                     (long long)r->version, TSR__CATALOG_VERSION);
      return false;
    }
  }
  if (more < 0) return faulty(r, &cursor);
  if (r->version < 1 || r->block != TSR__CHECKPOINT_BLOCK)
    return fail(r, r->text, "the catalog has no version, or another block size");
  listing l = { r->c, 0 };
  if (*r->c->form && !tsr__form_leaves(r->c->form, is_listed, &l))
    return fail(r, r->text,
                "the tree of the catalog is damaged, or has arrays that are not listed");
  return check_names(r);
}

/* Of a process's part only form and grammar are checked; the whole is when all are joined. */
tsr_status tsr__catalog_read(tsr__catalog *catalog, const char *text, size_t length, bool part,
                             tsr__error *error)
{
  reading r = { .c = catalog, .text = text, .error = error };
  if (!check_tail(&r, length) || !read_all(&r, length)) return error->status;
  return part ? TSR_OK : tsr__catalog_check(catalog, error);
}
