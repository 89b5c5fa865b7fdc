/* Finds the features of the first messages of a TFRecord file, as fields of records.
 *
 *   Example { 1: Features { 1: entry { 1: name, 2: Feature } ... } }
 *   Feature { 1: list of bytes | 2: of floats | 3: of integers }, each { 1: value ... }
 *
 * This file finds names, dtypes and shapes only; the library reads records and checksums. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#if !defined(GLOB_BRACE)
#define GLOB_BRACE 0
#endif

enum { HEAD = 12, MOST_BYTES = 1 << 26, MOST_RECORDS = 1000 };

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

/* Reads the next entry of a message; false: the message ends or is broken. */
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

/* The number of values in one entry of a list: a packed entry has several. */
static int64_t count_values(const entry *value, uint64_t kind)
{
  int64_t length = value->bytes.end - value->bytes.at, ends = 0;
  if (value->number != 1) return 0;
  if (value->wire != 2) return 1;
  if (kind != 3) return kind == 2 ? length / 4 : length;
  for (const unsigned char *at = value->bytes.at; at < value->bytes.end; at++) ends += *at < 128;
  return ends;
}

/* A feature as the records so far have it; all zeros: no record had the feature. */
typedef struct known {
  tsr_dtype dtype;
  int64_t least, most; /* values in a record */
  int64_t seen;        /* records with values */
} known;

/* Adds a feature of a record; a feature without values is skipped. */
static void add_values(span feature, known *out)
{
  static const tsr_dtype dtypes[] = { TSR_BOOL, TSR_U8, TSR_F32, TSR_I64 };
  int64_t count = 0;
  tsr_dtype dtype = TSR_BOOL;
  entry list, value;
  while (take_entry(&feature, &list)) {
    if (list.wire != 2 || list.number < 1 || list.number > 3) continue;
    dtype = dtypes[list.number];
    while (take_entry(&list.bytes, &value)) count += count_values(&value, list.number);
  }
  if (!count) return;
  if (!out->seen || count < out->least) out->least = count;
  if (count > out->most) out->most = count;
  out->dtype = dtype;
  out->seen++;
}

/* Reads one entry of the map of features. */
static void take_feature(span s, tool_feature_list *list, known *all)
{
  span text = { NULL, NULL }, feature = { NULL, NULL };
  entry part;
  while (take_entry(&s, &part)) {
    if (part.number == 1) text = part.bytes;
    if (part.number == 2) feature = part.bytes;
  }
  size_t length = (size_t)(text.end - text.at);
  if (!length || length >= TOOL_NAME || !feature.at || memchr(text.at, 0, length)) return;
  int i = 0;
  while (i < list->count &&
         (strlen(list->names[i]) != length || memcmp(list->names[i], text.at, length) != 0))
    i++;
  if (i == TSR_MAX_FIELDS) return;
  if (i == list->count) {
    memcpy(list->names[i], text.at, length);
    list->names[i][length] = 0;
    list->count++;
  }
  add_values(feature, &all[i]);
}

static void take_message(span s, tool_feature_list *list, known *all)
{
  entry features, one;
  while (take_entry(&s, &features))
    while (features.number == 1 && features.wire == 2 && take_entry(&features.bytes, &one))
      if (one.wire == 2) take_feature(one.bytes, list, all);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Unpacks the first bytes of a packed file. */
static size_t read_packed(tsr_scope *outer, const char *path, int64_t limit, unsigned char *to)
{
  tsr_scope *s = tsr_scope_nest_at(outer, NULL);
  tsr_source *bytes = tsr_source_binary(s, path, .unpack_limit = limit,
                                        .fields = { { "byte", TSR_U8, TSR_SCALAR } });
  int64_t count = tsr_source_count(bytes);
  if (count > MOST_BYTES) count = MOST_BYTES;
  tsr_pipeline *p =
      tsr_pipeline_open(tsr_source_take(bytes, count), .batch_size = count ? count : 1);
  tsr_batch *b = tsr_pipeline_next(p);
  bool read = b && !tsr_read(tsr_batch_field(b, "byte"), to, (size_t)count);
  if (b) tsr_batch_release(b);
  tsr_status status = tsr_pipeline_close(p);
  if (status) tsr_fail(outer, status, "%s", tool_message(s));
  tsr_scope_close(s);
  return read ? (size_t)count : 0;
}

/* Reads the first bytes of the first file of a pattern, at most MOST_BYTES. */
static size_t read_first(tsr_scope *s, const char *pattern, int64_t limit, unsigned char *to)
{
  glob_t found;
  size_t length = 0;
  if (glob(pattern, GLOB_NOCHECK | GLOB_BRACE, NULL, &found)) return 0;
  FILE *file = fopen(found.gl_pathv[0], "rb");
  if (file) length = fread(to, 1, MOST_BYTES, file);
  if (file) fclose(file);
  bool gzip = length > 3 && to[0] == 0x1F && to[1] == 0x8B && to[2] == 8;
  bool zstd = length > 4 && !memcmp(to, "\x28\xB5\x2F\xFD", 4);
  if (gzip || zstd) length = read_packed(s, found.gl_pathv[0], limit, to);
  globfree(&found);
  return length;
}

/* Makes fields of the features, in the order of their first appearance. */
static void end_fields(tool_feature_list *list, const known *all)
{
  int kept = 0;
  for (int i = 0; i < list->count; i++) {
    /* A feature without any value has no dtype. */
    if (!all[i].seen) continue;
    memmove(list->names[kept], list->names[i], sizeof list->names[i]);
    bool one = all[i].most == 1 && all[i].least == 1 && all[i].dtype != TSR_U8;
    list->ragged[kept] = all[i].least != all[i].most;
    list->sparse = list->sparse || all[i].seen < list->records;
    list->fields[kept] = (tsr_record_field){ list->names[kept], all[i].dtype,
                                             one ? TSR_SCALAR : TSR_SHAPE(all[i].most) };
    kept++;
  }
  list->count = kept;
}

int tool_features(tsr_scope *s, const char *path, int64_t limit, tool_feature_list *list)
{
  static known all[TSR_MAX_FIELDS];
  unsigned char *bytes = malloc(MOST_BYTES);
  size_t length = bytes ? read_first(s, path, limit, bytes) : 0, at = 0;
  list->count = 0;
  while (length - at >= HEAD && list->records < MOST_RECORDS) {
    uint64_t size = 0;
    for (int i = 0; i < 8; i++) size |= (uint64_t)bytes[at + (size_t)i] << 8 * i;
    if (size > length - at - HEAD) break;
    take_message((span){ bytes + at + HEAD, bytes + at + HEAD + size }, list, all);
    list->records++;
    at += HEAD + (size_t)size + 4;
    if (at > length) at = length;
  }
  free(bytes);
  end_fields(list, all);
  return list->count;
}
