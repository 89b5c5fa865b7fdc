/* A catalog as text, tessera.json, and the headers of data files.
 *
 *   {
 *   "format": "tessera checkpoint", "version": 1, "step": 12, "block": 1048576,
 *   "tree": "(model: (w, b))",
 *   "files": [{"name": "data-5f3a91c0-0-0.safetensors", "bytes": 4224, "header": 128,
 *     "crc32c": "51ee9e02"}, ...],
 *   "entries": [{"kind": "array", "name": "model.w", "dtype": "f32", "shape": [8,4],
 *     "mesh": "x=2", "spec": "(x,-)", "pieces": [
 *     {"file": 0, "at": 128, "start": [0,0], "size": [4,4], "crc32c": "9a71bb4c"}, ...]}, ...],
 *   "crc32c": "00c0ffee"
 *   }
 *
 * Invariant: the last line but one has the checksum of all that stands before it, so that a text
 * that was cut off or changed is none.
 *
 * Names of columns may be any UTF-8, which JSON takes as it is. */
#include "checkpoint/checkpoint_room.h"

static void put_text(tsr__text *out, const char *text)
{
  tsr__text_add(out, "\"");
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c < 0x20) tsr__text_add(out, "\\u%04x", c);
    else if (c == '"' || c == '\\') tsr__text_add(out, "\\%c", c);
    else tsr__text_put(out, text, 1);
  }
  tsr__text_add(out, "\"");
}

static void put_list(tsr__text *out, const int64_t *number, int count)
{
  for (int i = 0; i < count; i++) tsr__text_add(out, "%c%lld", i ? ',' : '[', (long long)number[i]);
  tsr__text_add(out, count ? "]" : "[]");
}

/* Eight digits a block with nothing between: most of the text of a large step are checksums. */
static void put_piece(const tsr__catalog *c, const tsr__listed *entry, const tsr__extent *piece,
                      tsr__text *out)
{
  int rank = entry->shape.rank;
  tsr__text_add(out, "{\"file\": %d, \"at\": %lld, \"start\": ", piece->file, (long long)piece->at);
  put_list(out, piece->box.start, rank);
  tsr__text_add(out, ", \"size\": ");
  put_list(out, piece->box.size, rank);
  tsr__text_add(out, ", \"crc32c\": \"");
  for (int64_t b = 0; b < tsr__block_count(piece->bytes); b++)
    tsr__text_add(out, "%08x", c->sum[piece->sum + b]);
  tsr__text_add(out, "\"}");
}

static void put_entry(const tsr__catalog *c, const tsr__listed *entry, tsr__text *out)
{
  tsr__text_add(out, "\n{\"kind\": \"%s\", \"name\": ", tsr__kind_name(entry->kind));
  put_text(out, entry->name);
  tsr__text_add(out, ", \"dtype\": \"%s\", \"shape\": ", tsr_dtype_name((tsr_dtype)entry->dtype));
  put_list(out, entry->shape.dims, entry->shape.rank);
  tsr__text_add(out, ", \"mesh\": ");
  put_text(out, entry->mesh);
  tsr__text_add(out, ", \"spec\": ");
  put_text(out, entry->spec);
  tsr__text_add(out, ", \"pieces\": [");
  for (int64_t i = 0; i < entry->count; i++) {
    tsr__text_add(out, i ? ",\n  " : "\n  ");
    put_piece(c, entry, &c->piece[entry->first + i], out);
  }
  tsr__text_add(out, "]}");
}

/* The checksum is of all that `out` has, so it must be empty before; a text that failed has a wrong
 * one and is looked at by its `failed`. */
void tsr__catalog_write(const tsr__catalog *c, tsr__text *out)
{
  tsr__text_add(out,
                "{\n\"format\": \"tessera checkpoint\", \"version\": %d, \"step\": %lld, "
                "\"block\": %d,\n\"tree\": ",
                TSR__CATALOG_VERSION, (long long)c->step, TSR__CHECKPOINT_BLOCK);
  put_text(out, c->form);
  tsr__text_add(out, ",\n\"files\": [");
  for (size_t i = 0; i < c->files; i++) {
    tsr__text_add(out, i ? ",\n{\"name\": " : "\n{\"name\": ");
    put_text(out, c->file[i].name);
    tsr__text_add(out, ", \"bytes\": %lld, \"header\": %lld, \"crc32c\": \"%08x\"}",
                  (long long)c->file[i].bytes, (long long)c->file[i].header, c->file[i].sum);
  }
  tsr__text_add(out, "],\n\"entries\": [");
  for (size_t i = 0; i < c->entries; i++) {
    if (i) tsr__text_add(out, ",");
    put_entry(c, &c->entry[i], out);
  }
  tsr__text_add(out, "]");
  uint32_t sum = tsr__crc32c(0, tsr__text_get(out), out->length);
  tsr__text_add(out, ",\n\"crc32c\": \"%08x\"\n}\n", sum);
}

/* ---- data files ------------------------------------------------------------------------------ */

/* "f32" is F32 there, bool BOOL. safetensors' names are ours in capitals, for all dtypes that there
 * are. */
static void put_dtype(tsr__text *out, tsr_dtype dtype)
{
  for (const char *at = tsr_dtype_name(dtype); *at; at++)
    tsr__text_add(out, "%c", *at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
}

static void put_tensor(const tsr__listed *entry, const tsr__extent *piece, int64_t at,
                       tsr__text *out)
{
  tsr__text name;
  tsr__text_init(&name, out->heap);
  tsr__piece_name(entry, piece, &name);
  out->failed = out->failed || name.failed;
  tsr__text_add(out, ",");
  put_text(out, tsr__text_get(&name));
  tsr__text_add(out, ":{\"dtype\":\"");
  put_dtype(out, (tsr_dtype)entry->dtype);
  tsr__text_add(out, "\",\"shape\":");
  put_list(out, piece->box.size, entry->shape.rank);
  tsr__text_add(out, ",\"data_offsets\":[%lld,%lld]}", (long long)at,
                (long long)(at + piece->bytes));
  tsr__text_free(&name);
}

/*   | length: 8 bytes, little-endian | {"__metadata__":..,"w[0:4,0:4]":{..},..}   spaces | data ..
 *                                                                                         ^ 64 * n
 *
 * Padding makes data begin at a multiple of 64, as other tools map files and read arrays where they
 * lie. */
void tsr__data_header(const tsr__catalog *c, int file, tsr__text *out)
{
  /* Eight bytes for the header's length, then the header; offsets count from behind it, and `at` of
   * pieces does so as well until the length is known. */
  tsr__text_put(out, "\0\0\0\0\0\0\0\0", 8);
  tsr__text_add(out, "{\"__metadata__\":{\"format\":\"tessera checkpoint\",\"step\":\"%lld\"}",
                (long long)c->step);
  for (size_t e = 0; e < c->entries; e++) {
    const tsr__listed *entry = &c->entry[e];
    for (int64_t i = entry->first; i < entry->first + entry->count; i++)
      if (c->piece[i].file == file) put_tensor(entry, &c->piece[i], c->piece[i].at, out);
  }
  tsr__text_add(out, "}");
  while (out->length % 64 && !out->failed) tsr__text_add(out, " ");
  if (out->failed) return;
  for (int i = 0; i < 8; i++) out->data[i] = (char)((out->length - 8) >> 8 * i & 255);
}
