/* Views of lists of texts against the lists, with buffers so small that texts lie across them. */
#include "io/arrow/arrow_views.h"

#include "harness.h"
#include "tessera.h"

enum { TEXTS = 60, ROWS = 70000 };

static test_rng rng;

/* Texts of 0 to 39 bytes, some that are much longer than a buffer. */
static tsr__dict *make_list(tsr__heap *heap, int32_t count, int64_t longest)
{
  int64_t length[TEXTS], bytes = 0;
  for (int32_t t = 0; t < count; t++) {
    length[t] = test_range(&rng, 0, 9) ? test_range(&rng, 0, 39) : test_range(&rng, 0, longest);
    bytes += length[t];
  }
  tsr__dict *dict = tsr__dict_new(heap, count, bytes);
  for (int32_t t = 0; t < count; t++) dict->offsets[t + 1] = dict->offsets[t] + length[t];
  for (int64_t b = 0; b < bytes; b++) dict->bytes[b] = (char)test_range(&rng, 1, 127);
  return dict;
}

/* A row's view says the text of its code, and nothing else. */
static void check_row(const tsr__arrow_rows *rows, int64_t row, const char *view)
{
  int32_t size, buffer, place;
  int64_t length = 0;
  char expected[16] = { 0 };
  const char *text = tsr__dict_get(rows->dict, rows->codes[row], &length);
  memcpy(&size, view, 4);
  memcpy(&buffer, view + 8, 4);
  memcpy(&place, view + 12, 4);
  CHECK_I64(size, length);
  if (length > 12) {
    tsr__text_span span = tsr__arrow_text_buffer(rows->dict, rows->shift, buffer);
    CHECK(buffer < tsr__arrow_text_buffers(rows->dict, rows->shift));
    CHECK(place >= 0 && (size_t)place + (size_t)size <= span.length);
    CHECK(span.at + place == text);
    CHECK_BYTES(view + 4, text, 4);
    return;
  }
  memcpy(expected, &size, 4);
  memcpy(expected + 4, text, (size_t)length);
  CHECK_BYTES(view, expected, 16);
}

TEST(views_say_the_texts_of_rows)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  int32_t *codes = test_guarded(ROWS * sizeof *codes);
  uint64_t *valid = test_guarded((ROWS + 63) / 64 * sizeof *valid);
  char *views = test_guarded(ROWS * 16);
  for (int round = 0; round < 40; round++) {
    int32_t count = (int32_t)test_range(&rng, 1, TEXTS);
    tsr__dict *dict = make_list(&rt->heap, count, round % 2 ? 12 : 500);
    tsr__arrow_seen seen = { 0 };
    tsr__arrow_rows rows = { .dict = dict,
                             .codes = codes,
                             .valid = round % 3 ? valid : NULL,
                             .count = round ? test_range(&rng, 0, 200) : ROWS,
                             .shift = (int)test_range(&rng, 0, 9) };
    bool outside = false;
    for (int64_t i = 0; i < rows.count; i++) {
      bool some = !rows.valid || test_range(&rng, 0, 3);
      valid[i / 64] = (valid[i / 64] & ~(UINT64_C(1) << i % 64)) | (uint64_t)some << i % 64;
      /* What lies under a null is nobody's business. */
      codes[i] = some ? (int32_t)test_range(&rng, 0, count - 1) : INT32_MAX;
    }
    CHECK(tsr__arrow_views(rt, "views", &rows, views, &seen));
    for (int64_t i = 0; i < rows.count; i++) {
      static const char none[16];
      if (rows.valid && !(valid[i / 64] >> i % 64 & 1)) CHECK_BYTES(views + i * 16, none, 16);
      else check_row(&rows, i, views + i * 16);
      outside |= views[i * 16] > 12 || views[i * 16 + 1];
    }
    CHECK(seen.outside == outside);
    CHECK_I64(seen.too_long, 0);
    tsr__dict_release(dict);
  }
  tsr_runtime_close(rt);
}

/* Every byte is in a buffer where it belongs to a text of it, and once. */
TEST(buffers_cut_no_text_and_show_no_byte_twice)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  for (int shift = 0; shift < 12; shift++) {
    tsr__dict *dict = make_list(&rt->heap, TEXTS, 300);
    int64_t bytes = 0, first = 0;
    for (int64_t b = 0; b < tsr__arrow_text_buffers(dict, shift); b++) {
      tsr__text_span span = tsr__arrow_text_buffer(dict, shift, b);
      CHECK(span.at == dict->bytes + (b << shift));
      /* What a text of the buffer before covers stands in front of the first one of this. */
      int64_t from = b << shift, to = from + (int64_t)span.length;
      if (!span.length) continue;
      if (from < first) from = first;
      bytes += to - from;
      first = to;
    }
    CHECK_I64(bytes, dict->offsets[dict->count]);
    tsr__dict_release(dict);
  }
  tsr_runtime_close(rt);
}

/* Nothing of the bytes is touched, so they need not be there. */
TEST(a_text_beyond_what_views_can_say_is_told)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  int64_t offsets[3] = { 0, INT64_C(1) << 31, (INT64_C(1) << 32) - 1 };
  char front[16] = "beginning";
  tsr__dict dict = { .count = 2, .offsets = offsets, .bytes = front };
  int32_t codes[1] = { 0 };
  char view[16];
  tsr__arrow_seen seen = { 0 };
  tsr__arrow_rows rows = { .dict = &dict, .codes = codes, .count = 1, .shift = TSR__ARROW_SHIFT };
  CHECK(tsr__arrow_views(rt, "views", &rows, view, &seen));
  CHECK_I64(seen.too_long, INT64_C(1) << 31);
  CHECK_I64(tsr__arrow_text_buffers(&dict, TSR__ARROW_SHIFT), 4);
  CHECK_I64((int64_t)tsr__arrow_text_buffer(&dict, TSR__ARROW_SHIFT, 0).length, INT64_C(1) << 31);
  CHECK_I64((int64_t)tsr__arrow_text_buffer(&dict, TSR__ARROW_SHIFT, 1).length, INT64_C(1) << 30);
  CHECK_I64((int64_t)tsr__arrow_text_buffer(&dict, TSR__ARROW_SHIFT, 2).length,
            (INT64_C(1) << 31) - 1);
  tsr_runtime_close(rt);
}
