/* The wire format of tf.Example, as far as its messages need it.
 *
 *   Example { 1: Features { 1: entry { 1: name, 2: Feature } ... } }
 *   Feature { 1: list of bytes | 2: of floats | 3: of integers }, each { 1: value ... }
 *
 * Values stand one by one or packed, which may mix. Nothing is believed: every length is compared
 * with what is left of the message around it. */
#include "pipeline/example.h"

typedef struct span {
  const unsigned char *at, *end;
} span;

/* A field: its number, and its value or its bytes. */
typedef struct field {
  uint64_t number;
  int wire; /* 0 varint, 1 eight bytes, 2 bytes, 5 four bytes */
  uint64_t value;
  span bytes;
} field;

static bool take_varint(span *s, uint64_t *out)
{
  uint64_t value = 0;
  /* Ten bytes at most, of which the last has one bit: what is above 64 bits is dropped, as by
   * protobuf. */
  for (int shift = 0; shift < 70 && s->at < s->end; shift += 7) {
    unsigned char byte = *s->at++;
    if (shift < 64) value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) {
      *out = value;
      return true;
    }
  }
  return false;
}

/* Compared as unsigned: a length of 2^63 is no negative one. */
static bool take_bytes(span *s, uint64_t length, span *out)
{
  if (length > (uint64_t)(s->end - s->at)) return false;
  *out = (span){ s->at, s->at + length };
  s->at += length;
  return true;
}

/* The next field; false: it is broken. */
static bool take_field(span *s, field *out)
{
  uint64_t tag, length;
  if (!take_varint(s, &tag)) return false;
  *out = (field){ .number = tag >> 3, .wire = (int)(tag & 7) };
  switch (out->wire) {
  case 0: return take_varint(s, &out->value);
  case 1: return take_bytes(s, 8, &out->bytes);
  case 2: return take_varint(s, &length) && take_bytes(s, length, &out->bytes);
  case 5: return take_bytes(s, 4, &out->bytes);
  /* 3 and 4 are groups, which nobody writes any more. */
  default: return false;
  }
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Values as they come, to the cell while there is room; `count` is of all. */
typedef struct sink {
  char *to;
  int64_t room, count;
} sink;

static void put_value(sink *out, const void *value, size_t size)
{
  if (out->to && out->count < out->room) memcpy(out->to + (size_t)out->count * size, value, size);
  /* Counted even where nobody asks for the values: their number is checked, and is what a length
   * says. */
  out->count++;
}

static bool take_floats(const field *f, sink *out)
{
  if (f->wire != 2 && f->wire != 5) return false;
  /* One value and a packed list look the same here: four bytes, or many times four. */
  span s = f->bytes;
  for (; s.end - s.at >= 4; s.at += 4) {
    uint32_t bits = (uint32_t)s.at[0] | (uint32_t)s.at[1] << 8 | (uint32_t)s.at[2] << 16 |
                    (uint32_t)s.at[3] << 24;
    put_value(out, &bits, sizeof bits);
  }
  return s.at == s.end;
}

/* One value (wire 0), or many packed (wire 2); negative ones take ten bytes each. */
static bool take_integers(const field *f, sink *out)
{
  uint64_t value;
  if (f->wire == 0) put_value(out, &f->value, sizeof f->value);
  if (f->wire != 2) return f->wire == 0;
  for (span s = f->bytes; s.at < s.end;) {
    if (!take_varint(&s, &value)) return false;
    put_value(out, &value, sizeof value);
  }
  return true;
}

/* The bytes of all values, one after the other. */
static bool take_texts(const field *f, sink *out)
{
  if (f->wire != 2) return false;
  int64_t length = f->bytes.end - f->bytes.at, room = out->room - out->count;
  if (out->to && room > 0)
    memcpy(out->to + out->count, f->bytes.at, (size_t)(length < room ? length : room));
  out->count += length;
  return true;
}

/* ---- features -------------------------------------------------------------------------------- */

static tsr_status broken(tsr__error *error)
{
  return tsr__error_set(error, TSR_EPARSE, "the message is not a tf.Example");
}

/* Of `count` values that came `room` are there. */
static tsr_status end_ragged(tsr__example *e, int c, int64_t count, int64_t room, tsr__error *error)
{
  const tsr__column *column = &e->columns[c];
  /* Elements of a ragged field may have dims of their own; lengths count whole elements. */
  int64_t inner = column->shape.dims[0] ? room / column->shape.dims[0] : 1;
  if (count > room && !e->cut)
    return tsr__error_set(
        error, TSR_EVALUE,
        "feature %.80s has %lld values, expected at most %lld; set .cut to keep the first values",
        column->name, (long long)count, (long long)room);
  if (count > room) count = room;
  if (inner && count % inner)
    return tsr__error_set(error, TSR_EPARSE,
                          "feature %.80s has %lld values, expected a multiple of %lld",
                          column->name, (long long)count, (long long)inner);
  e->used[c] = count * (int64_t)tsr_dtype_size(column->dtype);
  return TSR_OK;
}

/* A feature into its cell: the last list of it counts. One without a list, or where a number of
 * values is due with none in it, is a value that lacks, as an absent feature is. */
static tsr_status take_feature(tsr__example *e, int c, span s, bool *met, tsr__error *error)
{
  const tsr__column *column = &e->columns[c];
  static const char *const kinds[] = { "none", "bytes", "floats", "integers" };
  uint64_t wanted = column->dtype == TSR_F32 ? 2 : column->dtype == TSR_I64 ? 3 : 1, kind = 0;
  size_t size = tsr_dtype_size(column->dtype);
  sink out = { .to = e->to[c], .room = (int64_t)(column->bytes / size) };
  field list, value;
  bool empty = true;
  while (s.at < s.end) {
    if (!take_field(&s, &list)) return broken(error);
    /* Fields that a later version of the format may add. */
    if (list.number < 1 || list.number > 3) continue;
    if (list.wire != 2) return broken(error);
    kind = list.number;
    /* Of a oneof the last one set counts; what an earlier one put into the cell is written over. */
    out.count = 0;
    empty = list.bytes.at == list.bytes.end;
    while (kind == wanted && list.bytes.at < list.bytes.end) {
      if (!take_field(&list.bytes, &value)) return broken(error);
      if (value.number != 1) continue;
      bool fine = wanted == 2   ? take_floats(&value, &out)
                  : wanted == 3 ? take_integers(&value, &out)
                                : take_texts(&value, &out);
      if (!fine) return broken(error);
    }
  }
  *met = kind && (!empty || e->ragged[c] || !out.room);
  if (!*met) return TSR_OK;
  if (kind != wanted)
    return tsr__error_set(error, TSR_EPARSE, "feature %.80s is a list of %s, expected %s",
                          column->name, kinds[kind], kinds[wanted]);
  if (e->ragged[c]) return end_ragged(e, c, out.count, out.room, error);
  if (out.count != out.room)
    return tsr__error_set(error, TSR_EPARSE, "feature %.80s has %lld values, expected %lld",
                          column->name, (long long)out.count, (long long)out.room);
  return TSR_OK;
}

static int find_column(const tsr__example *e, span name)
{
  size_t length = (size_t)(name.end - name.at);
  for (int c = 0; c < e->count; c++)
    if (strlen(e->columns[c].name) == length && !memcmp(e->columns[c].name, name.at, length))
      return c;
  return -1;
}

/* An entry of the map: its name and its feature, in either order. */
typedef struct entry {
  span name, feature;
} entry;

static tsr_status split_entry(span s, entry *out, tsr__error *error)
{
  field f;
  *out = (entry){ { NULL, NULL }, { NULL, NULL } };
  while (s.at < s.end) {
    if (!take_field(&s, &f)) return broken(error);
    if (f.number == 1 && f.wire == 2) out->name = f.bytes;
    else if (f.number == 2 && f.wire == 2) out->feature = f.bytes;
  }
  return TSR_OK;
}

/* The entries of a message, one call after the other: false behind the last one, or with the error
 * set. `message` and `features` are what is left. */
typedef struct entries {
  span message, features;
} entries;

static entries entries_of(const tsr__example *e)
{
  return (entries){ .message = { e->message, e->message + e->length } };
}

static bool next_entry(entries *all, entry *out, tsr__error *error)
{
  field f;
  while (!error->status) {
    bool inside = all->features.at < all->features.end;
    if (!inside && all->message.at == all->message.end) return false;
    if (!take_field(inside ? &all->features : &all->message, &f)) break;
    if (f.number != 1) continue;
    if (f.wire != 2) break;
    if (inside) return !split_entry(f.bytes, out, error);
    all->features = f.bytes;
  }
  broken(error);
  return false;
}

static void add_name(tsr__known *known, span name)
{
  if (name.at) tsr__known_add(known, (const char *)name.at, (size_t)(name.end - name.at));
}

tsr_status tsr__example_names(const tsr__example *e, bool *met, tsr__known *known,
                              tsr__error *error)
{
  entries all = entries_of(e);
  for (entry one; next_entry(&all, &one, error);) {
    int c = find_column(e, one.name);
    if (c >= 0) met[c] = true;
    add_name(known, one.name);
  }
  return error->status;
}

static tsr_status tell_missing(const tsr__example *e, int c, tsr__error *error)
{
  tsr__known known = { .count = 0 };
  tsr__error ignored = { 0 };
  char hint[TSR__HINT];
  entries all = entries_of(e);
  for (entry one; next_entry(&all, &one, &ignored);) add_name(&known, one.name);
  return tsr__error_set(error, TSR_EPARSE,
                        "there is no feature %.80s; set .defaults to fill zeros%s",
                        e->columns[c].name, tsr__known_hint(&known, e->columns[c].name, hint));
}

tsr_status tsr__example_read(tsr__example *e, tsr__error *error)
{
  bool met[TSR__MAX_COLUMNS] = { false };
  entries all = entries_of(e);
  for (entry one; next_entry(&all, &one, error);) {
    int c = find_column(e, one.name);
    /* Features that nobody asks for are not looked at: a message is searched, not parsed. */
    if (c >= 0 && e->wanted[c]) take_feature(e, c, one.feature, &met[c], error);
  }
  for (int c = 0; c < e->count && !error->status; c++) {
    if (!e->wanted[c] || met[c]) continue;
    if (!e->defaults) return tell_missing(e, c, error);
    e->used[c] = 0;
    /* Ragged ones get their zeros behind what they have, which is nothing. */
    if (e->to[c] && !e->ragged[c]) memset(e->to[c], 0, e->columns[c].bytes);
  }
  return error->status;
}
