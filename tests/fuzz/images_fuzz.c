/* Any bytes as an encoded image: never a crash, a leak or a read past their end. The first byte
 * chooses how it is read. What can be read gives the same pixels twice, and memory stays below what
 * the most pixels allowed take. */
#include "fuzz.h"
#include "tessera.h"

enum { SIDE = 9, MOST = 1 << 18 };

#ifndef TEST_PLUGINS
#define TEST_PLUGINS NULL
#endif

static bool pixels_of(tsr_source *one, uint8_t how, float *out)
{
  tsr_source *made =
      tsr_source_images(one, .height = SIDE, .width = SIDE, .channels = how & 1 ? 1 : 3,
                        .dtype = TSR_F32, .lenient = how & 2,
                        .crop = (tsr_image_crop)((how >> 2) % 3), .flip = how & 16, .chw = how & 32,
                        .as_stored = how & 64, .most_pixels = MOST);
  tsr_pipeline *p = tsr_pipeline_open(made, .threads = -1);
  tsr_batch *b = tsr_pipeline_next(p);
  size_t size = (size_t)SIDE * SIDE * (how & 1 ? 1 : 3) * sizeof *out;
  if (b) REQUIRE(!tsr_read(tsr_batch_field(b, "image"), out, size));
  bool read = b;
  tsr_batch_release(b);
  tsr_status status = tsr_pipeline_close(p);
  REQUIRE(read ? !status : status == TSR_EPARSE);
  return read;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static tsr_runtime *rt;
  static float first[SIDE * SIDE * 3], second[SIDE * SIDE * 3];
  const char *plugins = TEST_PLUGINS;
  if (!plugins || size < 2) return 0;
  setenv("TSR_PLUGIN_PATH", plugins, 0);
  if (!rt) rt = tsr_runtime_open("cpu:1", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  char *own = fuzz_text(data + 1, size - 1);
  tsr_source *one = tsr_source_memory(s, 1, { "image", TSR_U8, TSR_SHAPE((int64_t)size - 1), own });
  bool read = pixels_of(one, data[0], first);
  if (!read) fuzz_message(tsr_message(s), 4096);
  tsr_scope *again = tsr_scope_open(rt);
  one = tsr_source_memory(again, 1, { "image", TSR_U8, TSR_SHAPE((int64_t)size - 1), own });
  REQUIRE(pixels_of(one, data[0], second) == read);
  REQUIRE(!read || !memcmp(first, second, sizeof first));
  tsr_scope_close(again);
  tsr_scope_close(s);
  free(own);
  return 0;
}
