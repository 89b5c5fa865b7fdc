/* Sources of arrays in files, ragged memory and ragged features; goldens of other writers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

/* ---- safetensors ----------------------------------------------------------------------------- */

/* tests/golden/make_tensors.py says what is in them. */
static void check_tensors(tsr_batch *b)
{
  uint8_t image[8][4];
  int64_t label[8];
  uint16_t half[8][3];
  bool mask[8];
  tsr_scope *s = tsr_batch_scope(b);
  size_t rows = (size_t)tsr_batch_row_count(b);
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "image_raw"), image, rows * 4), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "label"), label, rows * 8), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "half"), half, rows * 6), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "mask"), mask, rows), TSR_OK, s);
  for (size_t i = 0; i < rows; i++) {
    int64_t n = tsr_batch_ids(b)[i];
    for (int k = 0; k < 4; k++) CHECK_I64(image[i][k], 10 * n + k);
    CHECK_I64(label[i], -n);
    CHECK_I64(mask[i], n % 2);
    /* n / 2 - k as binary16: of this size sign, exponent and two bits say it. */
    for (int k = 0; k < 3; k++) {
      float value = (float)n / 2 - (float)k;
      uint32_t bits;
      memcpy(&bits, &value, sizeof bits);
      uint32_t exponent = bits >> 23 & 255;
      uint32_t expected =
          (bits >> 16 & 0x8000) | (exponent ? (exponent - 112) << 10 | (bits >> 13 & 0x3FF) : 0);
      CHECK_I64(half[i][k], expected);
    }
  }
}

TEST(tensors_of_files)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2");
  for (uint64_t round = 0; round < 8; round++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_source *all = tsr_source_safetensors(s, test_file("golden/files/tensors_?.safetensors"),
                                             "half,image_raw,mask,label");
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    CHECK_I64(tsr_source_count(all), 8);
    tsr_pipeline *p =
        tsr_pipeline_open(all, .batch_size = 1 + (int64_t)round, .ids = true, .shuffle = round % 2,
                          .seed = round,
                          .on = round % 4 == 3 ? tsr_on(mesh, "data") : (tsr_sharding){ 0 });
    for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) check_tensors(b);
    CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* Reads all there is; the status of opening or of reading. */
static tsr_status read_tensors(tsr_scope *s, const char *path)
{
  tsr_source *source = tsr_source_safetensors(s, path, "label,mask");
  if (tsr_scope_status(s)) return tsr_scope_status(s);
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 3, .threads = -1);
  for (tsr_batch *b; (b = tsr_pipeline_next(p));) tsr_batch_release(b);
  return tsr_pipeline_close(p);
}

TEST(damaged_tensors)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  size_t size;
  char *whole = test_read(test_file("golden/files/tensors_0.safetensors"), &size);
  const char *path = test_tmp("x.safetensors");
  for (size_t i = 0; i < size; i += test_quick() ? 7 : 1) {
    tsr_scope *s = tsr_scope_open(rt);
    whole[i] ^= 2;
    test_write(path, whole, size);
    tsr_status status = read_tensors(s, path);
    CHECK(!status || status == TSR_EPARSE || status == TSR_EDTYPE || status == TSR_ESHAPE);
    if (status) CHECK_STR_HAS(tsr_message(s), "x.safetensors: ");
    tsr_scope_clear(s);
    whole[i] ^= 2;
    test_write(path, whole, i);
    CHECK_STATUS(read_tensors(s, path), TSR_EPARSE, s);
    tsr_scope_close(s);
  }
  free(whole);
  tsr_runtime_close(rt);
}

TEST(tensors_that_are_refused)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = test_file("golden/files/tensors_0.safetensors");
  tsr_source_safetensors(s, path, NULL);
  CHECK_STATUS(tsr_scope_status(s), TSR_ESHAPE, s);
  CHECK_STR_HAS(tsr_message(s), "records, but other fields have");
  tsr_scope_clear(s);
  tsr_source_safetensors(s, path, "labels");
  CHECK_STATUS(tsr_scope_status(s), TSR_EPARSE, s);
  CHECK_STR_HAS(tsr_message(s), "there is no array 'labels'; did you mean 'label'?");
  tsr_scope_clear(s);
  tsr_source_safetensors(s, path, "label,imagine");
  CHECK_STATUS(tsr_scope_status(s), TSR_EPARSE, s);
  CHECK_STR_HAS(tsr_message(s), "there is no array 'imagine'");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- .npy and .npz --------------------------------------------------------------------------- */

/* An archive in part, and more arrays than a call may name. */
TEST(archives_in_part)
{
  enum { ARRAYS = 100 };
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  static tsr_npz_item entry[ARRAYS + 1];
  static char name[ARRAYS + 1][32];
  for (int i = 0; i <= ARRAYS; i++) {
    int64_t value[3] = { i, i + 1000, i + 2000 };
    snprintf(name[i], sizeof name[i], i ? "w.%d" : "of another length", i);
    entry[i].name = name[i];
    entry[i].array = tsr_put(s, value, TSR_I64, TSR_SHAPE(i ? 3 : 2), (tsr_sharding){ 0 });
  }
  CHECK_STATUS(tsr_save_npz_with(s, test_tmp("m.npz"), entry, ARRAYS + 1, TSR_HERE), TSR_OK, s);
  /* What is left out need not fit the others. */
  tsr_source *some = tsr_source_npz(s, test_tmp("m.npz"), .names = "w.7=seven, w_100");
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_I64(tsr_source_field_count(some), 2);
  CHECK_I64(tsr_source_count(some), 3);
  tsr_pipeline *p = tsr_pipeline_open(some, .batch_size = 3);
  tsr_batch *b = tsr_pipeline_next(p);
  int64_t found[3];
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "seven"), found, sizeof found), TSR_OK, s);
  CHECK(found[0] == 7 && found[2] == 2007);
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "w_100"), found, sizeof found), TSR_OK, s);
  CHECK(found[0] == 100 && found[2] == 2100);
  tsr_batch_release(b);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  tsr_source_npz(s, test_tmp("m.npz"), .names = "w.7,w.107");
  CHECK_STATUS(tsr_scope_status(s), TSR_EPARSE, s);
  CHECK_STR_HAS(tsr_message(s), "there is no array 'w.107'; did you mean 'w.");
  tsr_scope_clear(s);
  tsr_source_npz(s, test_tmp("m.npz"));
  CHECK_STATUS(tsr_scope_status(s), TSR_ESHAPE, s);
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_save_npz_with(s, test_tmp("m.npz"), entry + 1, ARRAYS, TSR_HERE), TSR_OK, s);
  tsr_source *all = tsr_source_npz(s, test_tmp("m.npz"));
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_I64(tsr_source_field_count(all), ARRAYS);
  p = tsr_pipeline_open(tsr_source_batch(tsr_source_cache(all), .rows = 1), .batch_size = 3,
                        .shuffle = true, .ids = true);
  b = tsr_pipeline_next(p);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  for (int i = 1; i <= ARRAYS; i++) {
    snprintf(name[0], sizeof name[0], "w_%d", i);
    CHECK_STATUS(tsr_read(tsr_batch_field(b, name[0]), found, sizeof found), TSR_OK, s);
    for (int k = 0; k < 3; k++) CHECK_I64(found[k], i + 1000 * tsr_batch_ids(b)[k]);
  }
  tsr_batch_release(b);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Columns of text as their bytes, or as numbers in the order of their bytes; nulls of each. */
TEST(texts_of_frames)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  static const char csv[] = "n,city,the note,b\n1,Rome,x,true\n2,Bern,,false\n3,,yy,true\n"
                            "4,Rom,zzz,true\n5,\xC3\x96rebro,x,true\n";
  static const char *const city[] = { "Rome", "Bern", "", "Rom", "\xC3\x96rebro" };
  static const char *const note[] = { "x", "", "yy", "zzz", "x" };
  static const int64_t code[] = { 3, 1, 0, 2, 4 };
  test_write(test_tmp("t.csv"), csv, sizeof csv - 1);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("t.csv"));
  for (int coded = 0; coded < 2; coded++) {
    tsr_source *source = coded ? tsr_source_frame(df, .codes = "city") : tsr_source_frame(df);
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    CHECK_I64(tsr_source_count(source), 5);
    CHECK_I64(tsr_source_field_count(source), coded ? 5 : 6);
    tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 2, .shuffle = true, .ids = true);
    for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
      size_t rows = (size_t)tsr_batch_row_count(b);
      int64_t n[2], length[2];
      char text[2][8];
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "n"), n, rows * 8), TSR_OK, s);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "the_note_length"), length, rows * 8), TSR_OK, s);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "the_note"), text, rows * 3), TSR_OK, s);
      for (size_t i = 0; i < rows; i++) {
        int64_t id = tsr_batch_ids(b)[i];
        CHECK_I64(n[i], id + 1);
        CHECK_I64(length[i], (int64_t)strlen(note[id]));
        CHECK_BYTES(text[0] + 3 * i, note[id], (size_t)length[i]);
      }
      if (coded) {
        CHECK_STATUS(tsr_read(tsr_batch_field(b, "city"), n, rows * 8), TSR_OK, s);
        for (size_t i = 0; i < rows; i++) CHECK_I64(n[i], code[tsr_batch_ids(b)[i]]);
        continue;
      }
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "city"), text, rows * 7), TSR_OK, s);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "city_length"), length, rows * 8), TSR_OK, s);
      for (size_t i = 0; i < rows; i++) {
        int64_t id = tsr_batch_ids(b)[i];
        CHECK_I64(length[i], (int64_t)strlen(city[id]));
        CHECK_BYTES(text[0] + 7 * i, city[id], (size_t)length[i]);
      }
    }
    CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  }
  /* Nulls: no bytes, and no number. */
  static const char *const texts[] = { "b", NULL, "a" };
  int64_t order[3], bytes[3];
  tsr_frame *some =
      tsr_frame_new(s, { "i", tsr_iota(s, TSR_I64, TSR_SHAPE(3), 0, (tsr_sharding){ 0 }) });
  some = tsr_frame_text_column(some, "t", texts, 3);
  tsr_pipeline *p = tsr_pipeline_open(
      tsr_source_zip(tsr_source_select(tsr_source_frame(some, .codes = "t"), "t=code"),
                     tsr_source_frame(some)),
      .batch_size = 3);
  tsr_batch *b = tsr_pipeline_next(p);
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "code"), order, sizeof order), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "t_length"), bytes, sizeof bytes), TSR_OK, s);
  CHECK(order[0] == 1 && order[1] == -1 && order[2] == 0);
  CHECK(bytes[0] == 1 && bytes[1] == 0 && bytes[2] == 1);
  tsr_batch_release(b);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  static const char *const wrong[] = { "town", "n" };
  for (int i = 0; i < 2; i++) {
    tsr_source_frame(df, .codes = wrong[i]);
    CHECK_STATUS(tsr_scope_status(s), TSR_EARG, s);
    CHECK_STR_HAS(tsr_message(s), "there is no such column of text; ");
    tsr_scope_clear(s);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(several_files_of_arrays)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  int64_t from = 0, found[12];
  static const int64_t counts[] = { 5, 1, 6 };
  for (int i = 0; i < 3; i++) {
    char name[16];
    int64_t numbers[6];
    for (int64_t k = 0; k < counts[i]; k++) numbers[k] = from + k;
    tsr_array *part = tsr_put(s, numbers, TSR_I64, TSR_SHAPE(counts[i]), (tsr_sharding){ 0 });
    snprintf(name, sizeof name, "part_%d.npy", i);
    CHECK_STATUS(tsr_save_npy(part, test_tmp(name)), TSR_OK, s);
    snprintf(name, sizeof name, "part_%d.npz", i);
    CHECK_STATUS(tsr_save_npz(s, test_tmp(name), { "data", part }), TSR_OK, s);
    from += counts[i];
  }
  for (int i = 0; i < 2; i++) {
    tsr_source *all =
        i ? tsr_source_npz(s, test_tmp("part_*.npz")) : tsr_source_npy(s, test_tmp("part_*.npy"));
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    CHECK_I64(tsr_source_count(all), 12);
    tsr_pipeline *p = tsr_pipeline_open(all, .batch_size = 12);
    tsr_batch *b = tsr_pipeline_next(p);
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "data"), found, sizeof found), TSR_OK, s);
    for (int64_t k = 0; k < 12; k++) CHECK_I64(found[k], k);
    tsr_batch_release(b);
    CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  }
  tsr_array *other = tsr_full(s, 1.0, TSR_F32, TSR_SHAPE(2, 3), (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_save_npy(other, test_tmp("part_3.npy")), TSR_OK, s);
  tsr_source_npy(s, test_tmp("part_*.npy"));
  CHECK_STATUS(tsr_scope_status(s), TSR_ESHAPE, s);
  CHECK_STR_HAS(tsr_message(s),
                "part_3.npy: a record of 'data' has another type than in the first file");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- ragged ---------------------------------------------------------------------------------- */

TEST(ragged_memory)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  test_rng rng = test_seeded(5);
  enum { RECORDS = 40 };
  int64_t offsets[RECORDS + 1] = { test_range(&rng, 0, 3) }, longest = 0;
  for (int i = 0; i < RECORDS; i++) {
    offsets[i + 1] = offsets[i] + test_range(&rng, 0, 6);
    if (offsets[i + 1] - offsets[i] > longest) longest = offsets[i + 1] - offsets[i];
  }
  float *data = malloc((size_t)(2 * offsets[RECORDS] + 2) * sizeof *data);
  for (int64_t i = 0; i < 2 * offsets[RECORDS]; i++) data[i] = (float)test_range(&rng, 1, 1000);
  int64_t ids[RECORDS];
  for (int i = 0; i < RECORDS; i++) ids[i] = i * 11;
  tsr_source *source = tsr_source_zip(
      tsr_source_ragged(s, RECORDS, { "point", TSR_F32, TSR_SHAPE(2), data, offsets }),
      tsr_source_memory(s, RECORDS, { "id", TSR_I64, { 0 }, ids }));
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_I64(tsr_source_field_count(source), 3);
  CHECK_I64(tsr_source_field_of(source, 0).shape.dims[0], longest);
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 7, .ids = true, .shuffle = true);
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    float found[7 * 6 * 2];
    int64_t length[7], id[7];
    size_t rows = (size_t)tsr_batch_row_count(b), wide = (size_t)longest * 2;
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "point"), found, rows * wide * 4), TSR_OK, s);
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "point_length"), length, rows * 8), TSR_OK, s);
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "id"), id, rows * 8), TSR_OK, s);
    for (size_t i = 0; i < rows; i++) {
      int64_t n = tsr_batch_ids(b)[i];
      CHECK_I64(id[i], n * 11);
      CHECK_I64(length[i], offsets[n + 1] - offsets[n]);
      for (int64_t k = 0; k < 2 * longest; k++)
        CHECK_F32_BITS(found[i * wide + (size_t)k],
                       k < 2 * length[i] ? data[2 * offsets[n] + k] : 0);
    }
  }
  CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  /* The lengths alone. */
  p = tsr_pipeline_open(tsr_source_select(source, "point_length"), .batch_size = RECORDS);
  tsr_batch *b = tsr_pipeline_next(p);
  int64_t length[RECORDS];
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "point_length"), length, sizeof length), TSR_OK, s);
  for (int i = 0; i < RECORDS; i++) CHECK_I64(length[i], offsets[i + 1] - offsets[i]);
  tsr_batch_release(b);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  offsets[4] = offsets[3] - 1;
  tsr_source_ragged(s, RECORDS, { "point", TSR_F32, TSR_SHAPE(2), data, offsets });
  CHECK_STATUS(tsr_scope_status(s), TSR_EARG, s);
  CHECK_STR_HAS(tsr_message(s), "field point: record 3 lies from");
  free(data);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* tests/golden/make_tensors.py says what is in them. */
TEST(ragged_features)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = test_file("golden/files/lengths.tfrecord");
  for (int cut = 0; cut < 2; cut++) {
    int64_t most = cut ? 5 : 12;
    tsr_source *source =
        tsr_source_tfrecord(s, path, .defaults = true, .cut = cut, .ragged = "tokens,bytes,pairs",
                            .fields = { { "tokens", TSR_I64, TSR_SHAPE(3) },
                                        { "bytes", TSR_U8, TSR_SHAPE(most) },
                                        { "pairs", TSR_F32, TSR_SHAPE(2, 2) } });
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 4, .ids = true, .shuffle = true);
    for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
      int64_t tokens[4][3], token_length[4], byte_length[4], pair_length[4];
      uint8_t bytes[4 * 12];
      float pairs[4][4];
      size_t rows = (size_t)tsr_batch_row_count(b);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "tokens"), tokens, rows * 24), TSR_OK, s);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "tokens_length"), token_length, rows * 8), TSR_OK,
                   s);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "bytes"), bytes, rows * (size_t)most), TSR_OK, s);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "bytes_length"), byte_length, rows * 8), TSR_OK, s);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "pairs"), pairs, rows * 16), TSR_OK, s);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "pairs_length"), pair_length, rows * 8), TSR_OK, s);
      for (size_t i = 0; i < rows; i++) {
        int64_t n = tsr_batch_ids(b)[i], length = n == 5 ? 0 : 3 * n < most ? 3 * n : most;
        CHECK_I64(token_length[i], n % 4);
        CHECK_I64(byte_length[i], length);
        CHECK_I64(pair_length[i], n % 3);
        for (int64_t k = 0; k < 3; k++) CHECK_I64(tokens[i][k], k < n % 4 ? 100 * n + k : 0);
        for (int64_t k = 0; k < most; k++)
          CHECK_I64(bytes[(int64_t)i * most + k], k < length ? 7 * n + k : 0);
        for (int64_t k = 0; k < 4; k++)
          CHECK_F32_BITS(pairs[i][k], k < 2 * (n % 3) ? (float)n + (float)k / 4 : 0);
      }
    }
    CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  }
  tsr_source *less = tsr_source_tfrecord(s, path, .ragged = "tokens",
                                         .fields = { { "tokens", TSR_I64, TSR_SHAPE(2) } });
  tsr_pipeline *p = tsr_pipeline_open(less, .batch_size = 6);
  CHECK(!tsr_pipeline_next(p));
  CHECK_STATUS(tsr_pipeline_close(p), TSR_EVALUE, NULL);
  CHECK_STR_HAS(tsr_message(s), "record 3 at byte ");
  CHECK_STR_HAS(tsr_message(s), "feature tokens has 3 values, expected at most 2");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
