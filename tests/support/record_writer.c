#include "support/record_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

void written_put(written *w, const void *bytes, size_t size)
{
  if (w->size + size > w->room) {
    w->room = 2 * (w->size + size) + 64;
    w->bytes = realloc(w->bytes, w->room);
    CHECK(w->bytes);
  }
  if (size) memcpy(w->bytes + w->size, bytes, size);
  w->size += size;
}

void written_free(written *w)
{
  free(w->bytes);
  *w = (written){ .size = 0 };
}

void written_to(written *w, const char *path)
{
  test_write(path, w->bytes ? (const void *)w->bytes : "", w->size);
  written_free(w);
}

/* ---- tf.Example ------------------------------------------------------------------------------ */

static void put_varint(written *w, uint64_t value)
{
  for (; value >= 128; value >>= 7)
    written_put(w, (unsigned char[]){ (unsigned char)(value | 128) }, 1);
  written_put(w, (unsigned char[]){ (unsigned char)value }, 1);
}

/* A field of bytes: its number, wire 2, length and bytes. */
static void put_field(written *w, unsigned number, const void *bytes, size_t size)
{
  put_varint(w, number << 3 | 2);
  put_varint(w, size);
  written_put(w, bytes, size);
}

/* An entry of the map: its name, and its feature of one list (0: of none). */
static void put_entry(written *message, const char *name, unsigned kind, const written *list)
{
  written feature = { .size = 0 }, entry = { .size = 0 };
  if (kind) put_field(&feature, kind, list->bytes, list->size);
  put_field(&entry, 1, name, strlen(name));
  put_field(&entry, 2, feature.bytes, feature.size);
  put_field(message, 1, entry.bytes, entry.size);
  written_free(&feature);
  written_free(&entry);
}

void example_bytes(written *message, const char *name, const void *value, size_t size)
{
  written list = { .size = 0 };
  put_field(&list, 1, value, size);
  put_entry(message, name, 1, &list);
  written_free(&list);
}

void example_integers(written *message, const char *name, const int64_t *values, int count)
{
  written list = { .size = 0 }, packed = { .size = 0 };
  for (int i = 0; i < count; i++) put_varint(&packed, (uint64_t)values[i]);
  if (count) put_field(&list, 1, packed.bytes, packed.size);
  put_entry(message, name, 3, &list);
  written_free(&list);
  written_free(&packed);
}

void example_floats(written *message, const char *name, const float *values, int count)
{
  written list = { .size = 0 };
  if (count) put_field(&list, 1, values, (size_t)count * sizeof *values);
  put_entry(message, name, 2, &list);
  written_free(&list);
}

void example_missing(written *message, const char *name)
{
  put_entry(message, name, 0, NULL);
}

static uint32_t masked(const unsigned char *bytes, size_t size)
{
  uint32_t crc = 0xFFFFFFFF;
  for (size_t i = 0; i < size; i++) {
    crc ^= bytes[i];
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

static void put_little(written *w, uint64_t value, int bytes)
{
  for (int i = 0; i < bytes; i++)
    written_put(w, (unsigned char[]){ (unsigned char)(value >> 8 * i) }, 1);
}

void example_end(written *message, written *file)
{
  written whole = { .size = 0 };
  put_field(&whole, 1, message->bytes, message->size);
  size_t at = file->size;
  put_little(file, whole.size, 8);
  put_little(file, masked(file->bytes + at, 8), 4);
  written_put(file, whole.bytes, whole.size);
  put_little(file, masked(whole.bytes, whole.size), 4);
  written_free(&whole);
  written_free(message);
}

/* ---- tar ------------------------------------------------------------------------------------- */

void tar_member(written *archive, const char *name, const void *bytes, size_t size)
{
  char header[512] = { 0 };
  unsigned sum = 0;
  snprintf(header, 100, "%s", name);
  snprintf(header + 100, 8, "%07o", 0644U);
  snprintf(header + 108, 8, "%07o", 0U);
  snprintf(header + 116, 8, "%07o", 0U);
  snprintf(header + 124, 12, "%011zo", size);
  snprintf(header + 136, 12, "%011o", 0U);
  header[156] = '0';
  memcpy(header + 257, "ustar\00000", 8);
  memset(header + 148, ' ', 8);
  for (int i = 0; i < 512; i++) sum += (unsigned char)header[i];
  snprintf(header + 148, 8, "%06o", sum);
  written_put(archive, header, sizeof header);
  written_put(archive, bytes, size);
  static const char zeros[512];
  written_put(archive, zeros, (512 - size % 512) % 512);
}

void tar_end(written *archive)
{
  static const char zeros[1024];
  written_put(archive, zeros, sizeof zeros);
}
