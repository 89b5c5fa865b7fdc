/* Names of fields: those that files have and programs ask for, of any bytes, and those that are
 * nowhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/record_writer.h"
#include "tessera.h"

/* One record that is read, and its one number of a field by name. */
static int64_t number_of(tsr_source *source, const char *name)
{
  int64_t value = -1;
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 1, .threads = -1);
  tsr_batch *b = tsr_pipeline_next(p);
  if (b) CHECK_I64(tsr_read(tsr_batch_field(b, name), &value, sizeof value), TSR_OK);
  if (b) tsr_batch_release(b);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  return value;
}

/* A random name without zero bytes. A name for a JSON text (`utf8`) has no bytes that are not
 * UTF-8. */
static void draw_name(test_rng *rng, bool utf8, char *name)
{
  static const char *const some[] = { "/",  ".",    ",",    "=",     "\"",       " ",
                                      "\\", "\n",   "a",    "_",     "\xC3\xA9", ";",
                                      "'",  "\x7F", "\x01", "image", "[0]",      "%s" };
  int parts = (int)test_range(rng, 1, 5);
  *name = 0;
  for (int i = 0; i < parts; i++) {
    if (utf8 || test_range(rng, 0, 3)) strcat(name, some[test_range(rng, 0, 17)]);
    else strncat(name, (const char[]){ (char)test_range(rng, -128, -1) }, 1);
  }
}

/* As it stands in a list of names. */
static void quote_name(const char *name, char *out)
{
  *out++ = '"';
  for (; *name; name++) {
    if (*name == '"') *out++ = '"';
    *out++ = *name;
  }
  strcpy(out, "\"");
}

static void write_json(const char *path, char name[][64], int count)
{
  FILE *f = fopen(path, "w");
  CHECK(f);
  for (int i = 0; i < count; i++) {
    fprintf(f, "%c\"", i ? ',' : '{');
    for (const char *c = name[i]; *c; c++) {
      if (*c == '"' || *c == '\\' || (unsigned char)*c < 0x20) fprintf(f, "\\u%04x", (unsigned)*c);
      else fputc(*c, f);
    }
    fprintf(f, "\":%d", i);
  }
  fputs("}\n", f);
  CHECK(!fclose(f));
}

/* Every field by its name from a file of messages, of JSON, and behind stages that take lists. */
TEST(names_of_any_bytes)
{
  enum { MOST = 6 };
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  test_rng rng = test_seeded(1);
  for (int round = 0; round < (test_quick() ? 60 : 600); round++) {
    tsr_scope *s = tsr_scope_open(rt);
    char name[MOST][64], list[64 * 3 * MOST] = "", quoted[140];
    int count = 0, want = (int)test_range(&rng, 1, MOST);
    bool json = round % 2;
    for (int tries = 0; count < want && tries < 99; tries++) {
      bool twice = false;
      draw_name(&rng, json, name[count]);
      for (int i = 0; i < count; i++) twice = twice || !strcmp(name[i], name[count]);
      count += !twice;
    }
    tsr_json_args asked = { .size = sizeof asked, .defaults = round % 3 == 0 };
    tsr_tfrecord_args features = { .size = sizeof features, .defaults = asked.defaults };
    const char *path = test_tmp(json ? "n.jsonl" : "n.tfrecord");
    written message = { .size = 0 }, file = { .size = 0 };
    for (int i = 0; i < count; i++) {
      asked.fields[i] = features.fields[i] = (tsr_record_field){ name[i], TSR_I64, { 0 } };
      example_integers(&message, name[i], (const int64_t[]){ i }, 1);
      quote_name(name[i], quoted);
      /* Backwards, so that places change. */
      memmove(list + strlen(quoted) + 1, list, strlen(list) + 1);
      memcpy(list, quoted, strlen(quoted));
      list[strlen(quoted)] = ',';
    }
    list[strlen(list) - 1] = 0;
    example_end(&message, &file);
    if (json) write_json(path, name, count), written_free(&file);
    else written_to(&file, path);
    tsr_source *source = json ? tsr_source_json_with(s, path, &asked, TSR_HERE)
                              : tsr_source_tfrecord_with(s, path, &features, TSR_HERE);
    tsr_source *turned = tsr_source_select(source, list);
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    for (int i = 0; i < count; i++) {
      CHECK_I64(number_of(source, name[i]), i);
      CHECK_I64(number_of(turned, name[i]), i);
      CHECK_STR(tsr_source_field_of(turned, count - 1 - i).name, name[i]);
    }
    /* All parts of the tree have names of their own. */
    tsr_pipeline *p = tsr_pipeline_open(source, .threads = -1);
    tsr_batch *b = tsr_pipeline_next(p);
    for (int i = 0; i < count; i++) {
      int64_t value = -1;
      const char *part = tsr_item_name(tsr_batch_tree(b), i);
      CHECK(strspn(part, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") ==
            strlen(part));
      CHECK_I64(tsr_read(tsr_field(tsr_batch_tree(b), part), &value, 8), TSR_OK);
      CHECK_I64(value, i);
    }
    tsr_batch_release(b);
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* Lists of names, and what a list says that cannot be read. */
TEST(lists_of_names)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  int64_t data[4] = { 10, 11, 12, 13 };
  tsr_source *source =
      tsr_source_memory(s, 1, { "a", TSR_I64, { 0 }, &data[0] },
                        { "a,b", TSR_I64, { 0 }, &data[1] }, { "c=d", TSR_I64, { 0 }, &data[2] },
                        { "say \"x\"", TSR_I64, { 0 }, &data[3] });
  tsr_source *some =
      tsr_source_select(source,
                        " a = first , \"a,b\"=\"second one\",\"c=d\", \"say \"\"x\"\"\" =\tlast ");
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_I64(number_of(some, "first"), 10);
  CHECK_I64(number_of(some, "second one"), 11);
  CHECK_I64(number_of(some, "c=d"), 12);
  CHECK_I64(number_of(some, "last"), 13);
  static const char *const wrong[] = { "\"a", "\"a\"b", "a,\"c=d\"\"", "a=\"x" };
  for (int i = 0; i < 4; i++) {
    tsr_source_select(source, wrong[i]);
    CHECK_STATUS(tsr_scope_status(s), TSR_EARG, s);
    CHECK_STR_HAS(tsr_message(s), "double quotes");
    tsr_scope_clear(s);
  }
  tsr_source_json(s, "none.jsonl", .ragged = "tokns",
                  .fields = { { "tokens", TSR_I64, TSR_SHAPE(3) } });
  CHECK_STATUS(tsr_scope_status(s), TSR_EARG, s);
  CHECK_STR_HAS(tsr_message(s), ".ragged names 'tokns'");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Members of objects in objects; the one that stands there as it is called comes first. */
TEST(members_of_members)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  static const struct {
    const char *line, *name;
    int64_t value; /* -1: an error */
  } cases[] = { { "{\"a\":{\"b\":1}}", "a.b", 1 },
                { "{\"a\":{\"b\":{\"c\":2}}}", "a.b.c", 2 },
                { "{\"a.b\":{\"c\":3}}", "a.b.c", 3 },
                { "{\"a\":{\"b.c\":4}}", "a.b.c", 4 },
                { "{\"a\":{\"b\":9},\"a.b\":5}", "a.b", 5 },
                { "{\"a.b\":6,\"a\":{\"b\":9}}", "a.b", 6 },
                { "{\"a\":{\"b\":{\"c\":9}},\"a.b\":{\"c\":7}}", "a.b.c", 7 },
                { "{\"a\":{\"b\":1,\"b\":1}}", "a.b", -1 },
                { "{\"a\":{\"b\":1},\"a\":{\"b\":1}}", "a.b", -1 },
                { "{\"a\":[{\"b\":1}]}", "a.b", -1 },
                { "{\"a\":1}", "a.b", -1 },
                { "{\"a\\u0000x\":{\"b\":1},\"a\":{\"b\":8}}", "a.b", 8 },
                { "{\"\":{\"\":9}}", ".", 9 } };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    const char *path = test_tmp("m.jsonl");
    test_write(path, cases[i].line, strlen(cases[i].line));
    tsr_source *source = tsr_source_json(s, path, .fields = { { cases[i].name, TSR_I64, { 0 } } });
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    if (cases[i].value >= 0) CHECK_I64(number_of(source, cases[i].name), cases[i].value);
    else {
      tsr_pipeline *p = tsr_pipeline_open(source);
      CHECK(!tsr_pipeline_next(p));
      CHECK(tsr_pipeline_close(p) != TSR_OK);
    }
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* Opens a file with zeros for what lacks, of a field by name. */
static tsr_source *open_sparse(tsr_scope *s, int format, const char *name)
{
  if (format == 0)
    return tsr_source_tfrecord(s, test_tmp("s.tfrecord"), .defaults = true,
                               .fields = { { name, TSR_I64, { 0 } } });
  if (format == 1)
    return tsr_source_json(s, test_tmp("s.jsonl"), .defaults = true,
                           .fields = { { name, TSR_I64, { 0 } } });
  return tsr_source_tar(s, test_tmp("s.tar"), .defaults = format == 2, .skip = format == 3,
                        .fields = { { name, TSR_I64, { 0 } } });
}

/* With zeros for what lacks, a field that some record has is read, and one that none has is told
 * with what it may have meant. */
TEST(fields_that_no_record_has)
{
  enum { RECORDS = 300 };
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  written message = { .size = 0 }, examples = { .size = 0 }, lines = { .size = 0 },
          archive = { .size = 0 };
  for (int i = 0; i < RECORDS; i++) {
    char line[200], member[80];
    bool rare = i == RECORDS - 1;
    example_integers(&message, "image/label", (const int64_t[]){ i }, 1);
    if (rare) example_integers(&message, "rare", (const int64_t[]){ 7 }, 1);
    example_end(&message, &examples);
    snprintf(line, sizeof line, "{\"image/label\":%d%s}\n", i, rare ? ",\"rare\":7" : "");
    written_put(&lines, line, strlen(line));
    snprintf(member, sizeof member, "%03d.image.label", i);
    tar_member(&archive, member, "3", 1);
    snprintf(member, sizeof member, "%03d.rare", i);
    if (rare) tar_member(&archive, member, "7", 1);
  }
  tar_end(&archive);
  written_to(&examples, test_tmp("s.tfrecord"));
  written_to(&lines, test_tmp("s.jsonl"));
  written_to(&archive, test_tmp("s.tar"));
  for (int format = 0; format < 4; format++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_source *rare = open_sparse(s, format, "rare");
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    int64_t count = tsr_source_count(rare);
    CHECK_I64(count, format == 3 ? 1 : RECORDS);
    CHECK_I64(number_of(tsr_source_skip(rare, count - 1), "rare"), 7);
    if (count > 1) CHECK_I64(number_of(rare, "rare"), 0);
    static const char *const wrong[] = { "image_lable", "rara", "other" };
    for (int i = 0; i < 3; i++) {
      open_sparse(s, format, wrong[i]);
      CHECK_STATUS(tsr_scope_status(s), TSR_EARG, s);
      CHECK_STR_HAS(tsr_message(s), wrong[i]);
      CHECK_STR_HAS(tsr_message(s), i == 0   ? "did you mean 'image"
                                    : i == 1 ? "did you mean 'rare'?"
                                             : "the names are image");
      tsr_scope_clear(s);
    }
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* A missing value as others write it: no list, or an empty one where values are due. */
TEST(features_without_a_value)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  written message = { .size = 0 }, file = { .size = 0 };
  for (int i = 0; i < 4; i++) {
    if (i == 0) example_missing(&message, "x"), example_missing(&message, "w");
    if (i == 1) example_integers(&message, "x", NULL, 0), example_integers(&message, "w", NULL, 0);
    if (i == 2) example_floats(&message, "x", NULL, 0);
    if (i == 3) {
      example_integers(&message, "x", (const int64_t[]){ 5 }, 1);
      example_integers(&message, "w", (const int64_t[]){ 6, 7 }, 2);
    }
    example_end(&message, &file);
  }
  written_to(&file, test_tmp("f.tfrecord"));
  for (int defaults = 0; defaults < 2; defaults++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_source *source =
        tsr_source_tfrecord(s, test_tmp("f.tfrecord"), .defaults = defaults, .ragged = "w",
                            .fields = { { "x", TSR_I64, { 0 } }, { "w", TSR_I64, TSR_SHAPE(3) } });
    tsr_pipeline *p =
        tsr_pipeline_open(source, .batch_size = 4, .bad = defaults ? TSR_BAD_FAIL : TSR_BAD_MASK);
    tsr_batch *b = tsr_pipeline_next(p);
    CHECK(b);
    int64_t x[4], w[4][3], length[4];
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "x"), x, sizeof x), TSR_OK, s);
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "w"), w, sizeof w), TSR_OK, s);
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "w_length"), length, sizeof length), TSR_OK, s);
    CHECK_I64(tsr_batch_count(b), defaults ? 4 : 1);
    for (int i = 0; i < 4; i++) {
      CHECK_I64(x[i], i == 3 ? 5 : 0);
      CHECK_I64(length[i], i == 3 ? 2 : 0);
      for (int k = 0; k < 3; k++) CHECK_I64(w[i][k], i == 3 && k < 2 ? 6 + k : 0);
    }
    tsr_batch_release(b);
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}
