/* The features that the first message of a TFRecord file has, as fields of records.
 *
 *   Example { 1: Features { 1: entry { 1: name, 2: Feature } ... } }
 *   Feature { 1: list of bytes | 2: of floats | 3: of integers }, each { 1: value ... }
 *
 * Only what is to be asked for is found out here; reading, with checksums, is the library's. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

enum { HEAD = 12, MOST_BYTES = 1 << 26 };

typedef struct span {
  const unsigned char *at, *end;
} span;

typedef struct entry {
  uint64_t number;
  int wire;
  span bytes; /* of wire 2 and 5 */
} entry;

static bool take_number(span *s, uint64_t *out)
{
  *out = 0;
  for (int shift = 0; shift < 64 && s->at < s->end; shift += 7) {
    unsigned char byte = *s->at++;
    *out |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

/* The next entry of a message; false: there is none, or it is broken. */
static bool take_entry(span *s, entry *out)
{
  uint64_t tag, length = 0;
  if (s->at >= s->end || !take_number(s, &tag)) return false;
  *out = (entry){ .number = tag >> 3, .wire = (int)(tag & 7) };
  if (out->wire == 0) return take_number(s, &length);
  if (out->wire == 2 && !take_number(s, &length)) return false;
  if (out->wire == 1) length = 8;
  if (out->wire == 5) length = 4;
  if (out->wire > 2 && out->wire != 5) return false;
  if (length > (uint64_t)(s->end - s->at)) return false;
  out->bytes = (span){ s->at, s->at + length };
  s->at += length;
  return true;
}

/* How many values stand in one entry of a list: packed numbers are several. */
static int64_t count_values(const entry *value, uint64_t kind)
{
  int64_t length = value->bytes.end - value->bytes.at, ends = 0;
  if (value->number != 1) return 0;
  if (value->wire != 2) return 1;
  if (kind != 3) return kind == 2 ? length / 4 : length;
  for (const unsigned char *at = value->bytes.at; at < value->bytes.end; at++) ends += *at < 128;
  return ends;
}

/* A feature's dtype, and its number of values as a shape; false: it has none. */
static bool field_of(span feature, tsr_record_field *out)
{
  static const tsr_dtype dtypes[] = { TSR_BOOL, TSR_U8, TSR_F32, TSR_I64 };
  int64_t count = 0;
  entry list, value;
  while (take_entry(&feature, &list)) {
    if (list.wire != 2 || list.number < 1 || list.number > 3) continue;
    out->dtype = dtypes[list.number];
    while (take_entry(&list.bytes, &value)) count += count_values(&value, list.number);
  }
  out->shape = count == 1 && out->dtype != TSR_U8 ? TSR_SCALAR : TSR_SHAPE(count);
  return count > 0;
}

/* An entry of the map as a field. */
static bool take_feature(span s, char *name, size_t size, tsr_record_field *out)
{
  span text = { NULL, NULL }, feature = { NULL, NULL };
  entry part;
  while (take_entry(&s, &part)) {
    if (part.number == 1) text = part.bytes;
    if (part.number == 2) feature = part.bytes;
  }
  size_t length = (size_t)(text.end - text.at);
  if (!length || length >= size || !feature.at) return false;
  memcpy(name, text.at, length);
  name[length] = 0;
  out->name = name;
  return field_of(feature, out);
}

/* The first message of the first file of a pattern; malloced, NULL: it cannot be read. */
static unsigned char *first_message(const char *pattern, size_t *length)
{
  unsigned char head[HEAD], *message = NULL;
  uint64_t size = 0;
  glob_t found;
  if (glob(pattern, GLOB_NOCHECK, NULL, &found)) return NULL;
  FILE *file = fopen(found.gl_pathv[0], "rb");
  globfree(&found);
  if (file && fread(head, 1, HEAD, file) == HEAD)
    for (int i = 0; i < 8; i++) size |= (uint64_t)head[i] << 8 * i;
  if (size && size <= MOST_BYTES) message = malloc((size_t)size);
  *length = message ? fread(message, 1, (size_t)size, file) : 0;
  if (file) fclose(file);
  return message;
}

int tool_features(const char *path, char (*names)[TOOL_NAME], tsr_record_field *fields)
{
  size_t length;
  int count = 0;
  unsigned char *message = first_message(path, &length);
  entry features, one;
  span s = { message, message ? message + length : NULL };
  while (take_entry(&s, &features))
    while (features.number == 1 && features.wire == 2 && take_entry(&features.bytes, &one))
      if (count < TSR_MAX_FIELDS && one.wire == 2 &&
          take_feature(one.bytes, names[count], TOOL_NAME, &fields[count]))
        count++;
  free(message);
  return count;
}
