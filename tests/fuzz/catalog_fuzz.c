/* Any bytes as the catalog of a step: never a crash or a leak; what is taken for one is written as
 * a text that reads back as the same, and restoring by it touches no other memory, whatever the
 * data file holds. Chance makes no checksums: the same bytes are tried with one that is right. */
#include <sys/stat.h>

#include "checkpoint/checkpoint_room.h"
#include "fuzz.h"
#include "tessera.h"

enum { TAIL = 25, ENTRIES = 20 };

static void check_text(const tsr__catalog *c)
{
  tsr__heap heap;
  tsr__text first, second;
  tsr__catalog again;
  tsr__error error = { .status = TSR_OK };
  tsr__heap_init(&heap, NULL);
  tsr__text_init(&first, &heap);
  tsr__text_init(&second, &heap);
  tsr__catalog_init(&again, &heap);
  tsr__catalog_write(c, &first);
  if (tsr__catalog_read(&again, first.data, first.length, false, &error))
    fprintf(stderr, "%s\n", error.text);
  REQUIRE(!error.status);
  tsr__catalog_write(&again, &second);
  REQUIRE(first.length == second.length && !memcmp(first.data, second.data, first.length));
  tsr__catalog_free(&again);
  tsr__text_free(&first);
  tsr__text_free(&second);
  REQUIRE(heap.live == 0);
}

static bool read_catalog(const char *text, size_t size, bool part)
{
  tsr__heap heap;
  tsr__catalog c;
  tsr__error error = { .status = TSR_OK };
  tsr__heap_init(&heap, NULL);
  tsr__catalog_init(&c, &heap);
  bool good = !tsr__catalog_read(&c, text, size, part, &error);
  if (!good) fuzz_message(error.text, sizeof error.text);
  if (good && !part) check_text(&c);
  tsr__catalog_free(&c);
  REQUIRE(heap.live == 0);
  return good;
}

/* By the public calls: beside it lies a data file of 256 bytes, "data". */
static void restore(const char *text, size_t size)
{
  static tsr_runtime *rt;
  static char folder[64], path[96];
  if (!rt) {
    snprintf(folder, sizeof folder, "/tmp/catalog_fuzz.XXXXXX");
    REQUIRE(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/data", folder);
    FILE *data = fopen(path, "w");
    for (int i = 0; i < 256; i++) fputc(0, data);
    fclose(data);
    snprintf(path, sizeof path, "%s/" TSR__CATALOG, folder);
    rt = tsr_runtime_open("cpu:3", .threads = 1, .memory_limit = 64 << 20);
  }
  FILE *catalog = fopen(path, "w");
  REQUIRE(catalog && fwrite(text, 1, size, catalog) == size && !fclose(catalog));
  tsr_scope *s = tsr_scope_open(rt);
  tsr_saved_step *c = tsr_checkpoint_open(s, folder);
  for (int i = 0; i < tsr_checkpoint_count(c) && i < ENTRIES; i++) {
    tsr_saved_entry entry = tsr_checkpoint_entry(c, i);
    tsr_value value;
    REQUIRE(entry.name && entry.type);
    if (entry.kind == TSR_SAVED_BLOB && tsr_checkpoint_blob(c, entry.name, &value))
      fuzz_message(tsr_message(s), 2000);
    tsr_scope_clear(s);
  }
  if (tsr_is_inert(tsr_checkpoint_restore(c, NULL)) && *tsr_checkpoint_form(c))
    fuzz_message(tsr_message(s), 2000);
  tsr_scope_clear(s);
  tsr_frame_is_inert(tsr_checkpoint_frame(c, "seen", (tsr_sharding){ 0 }));
  tsr_scope_close(s);
  unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char *text = fuzz_text(data, size);
  read_catalog(text, size, false);
  free(text);
  /* With the end that it should have; one that has an end gets the right checksum. */
  size_t body =
      size >= TAIL && data[size - 1] == '\n' && data[size - 2] == '}' ? size - TAIL : size;
  text = malloc(body + TAIL + 1);
  REQUIRE(text);
  if (body) memcpy(text, data, body);
  uint32_t sum = tsr__crc32c(0, text, body);
  int tail = snprintf(text + body, TAIL + 1, ",\n\"crc32c\": \"%08x\"\n}\n", sum);
  char *exact = fuzz_text(text, body + (size_t)tail);
  read_catalog(exact, body + (size_t)tail, true);
  if (read_catalog(exact, body + (size_t)tail, false)) restore(exact, body + (size_t)tail);
  free(exact);
  free(text);
  return 0;
}
