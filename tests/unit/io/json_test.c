/* JSON lines: the grammar, values and types, bad rows, and the same result however the bytes are
 * cut. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "io/json/json_inner.h"
#include "support/allocations.h"
#include "tessera.h"

/* ---- the grammar --------------------------------------------------------------------------- */

/* Members of an object, -1 if it is none. */
static int64_t members(const char *text, size_t length)
{
  char *copy = test_guarded(length ? length : 1); /* nothing behind the text may be read */
  memcpy(copy, text, length);
  tsr__json_cursor cursor = { .at = copy, .end = copy + length };
  tsr__json_token key, value;
  int64_t count = 0;
  int found;
  while ((found = tsr__json_next(&cursor, &key, &value)) > 0) count++;
  if (found < 0) CHECK(cursor.why && cursor.fault >= copy && cursor.fault <= cursor.end);
  return found < 0 ? -1 : count;
}

TEST(what_is_json_is_read)
{
  static const struct {
    const char *text;
    int64_t members;
  } cases[] = {
    { "{}", 0 },
    { " {\t} \r", 0 },
    { "{\"a\":1}", 1 },
    { "{ \"a\" : -0.5e+10 , \"\" : null }", 2 },
    { "{\"a\":[1,[2,{\"b\":[]}],{}],\"c\":{\"d\":{}}}", 2 },
    { "{\"a\":\"\\u0000\\ud83d\\ude00\\\"\\\\\\/\\b\\f\\n\\r\\t\"}", 1 },
    { "{\"a\":0,\"b\":-0,\"c\":0.0,\"d\":1E5,\"e\":123456789012345678901234567890}", 5 },
    { "{\"a\":true,\"b\":false}", 2 },
    { "", -1 },
    { "[]", -1 },
    { "1", -1 },
    { "{", -1 },
    { "{\"a\"}", -1 },
    { "{\"a\":}", -1 },
    { "{\"a\":1,}", -1 },
    { "{,\"a\":1}", -1 },
    { "{a:1}", -1 },
    { "{'a':1}", -1 },
    { "{\"a\":1}}", -1 },
    { "{\"a\":1} {\"a\":2}", -1 },
    { "{\"a\":01}", -1 },
    { "{\"a\":-}", -1 },
    { "{\"a\":+1}", -1 },
    { "{\"a\":1.}", -1 },
    { "{\"a\":.5}", -1 },
    { "{\"a\":1e}", -1 },
    { "{\"a\":0x10}", -1 },
    { "{\"a\":NaN}", -1 },
    { "{\"a\":Infinity}", -1 },
    { "{\"a\":tru}", -1 },
    { "{\"a\":truee}", -1 },
    { "{\"a\":\"\\x\"}", -1 },
    { "{\"a\":\"\\u12g4\"}", -1 },
    { "{\"a\":\"\\ud800\"}", -1 },
    { "{\"a\":\"\\ud800\\u0041\"}", -1 },
    { "{\"a\":\"\\udc00\"}", -1 },
    { "{\"a\":\"x", -1 },
    { "{\"a\":\"x\\", -1 },
    { "{\"a\":\"\t\"}", -1 },
    { "{\"a\":[1,]}", -1 },
    { "{\"a\":[1 2]}", -1 },
    { "{\"a\":[1}", -1 },
    { "{\"a\":{\"b\":1]}", -1 },
    { "{\"a\":1 /* x */}", -1 },
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t found = members(cases[i].text, strlen(cases[i].text));
    if (found != cases[i].members) FAIL("%s: %lld", cases[i].text, (long long)found);
  }
}

TEST(every_byte_of_a_good_line_matters)
{
  static const char text[] =
      "{\"a\":[1,{\"b\":\"\\u00e9\\\"x\"}],\"c\":-1.5e-3,\"d\":null,\"e\":true}";
  for (size_t length = 0; length < sizeof text - 1; length++) CHECK_I64(members(text, length), -1);
  CHECK_I64(members(text, sizeof text - 1), 4);
}

TEST(nesting_has_a_limit)
{
  char text[2000];
  for (int depth = 198; depth <= 200; depth++) {
    char *at = text;
    at += sprintf(at, "{\"a\":");
    for (int i = 0; i < depth; i++) *at++ = '[';
    for (int i = 0; i < depth; i++) *at++ = ']';
    *at++ = '}';
    CHECK_I64(members(text, (size_t)(at - text)), depth < 200 ? 1 : -1);
  }
}

TEST(escapes_become_utf8)
{
  char out[64];
  static const char text[] = "\\u0041\\u00e9\\u20ac\\ud83d\\ude00\\\\\\/\\\"\\b\\f\\n\\r\\tz";
  tsr__json_token token = {
    .kind = TSR__JSON_IS_TEXT, .escaped = true, .at = text, .length = sizeof text - 1
  };
  size_t length = tsr__json_unescape(&token, out);
  out[length] = 0;
  CHECK_STR(out, "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\\/\"\b\f\n\r\tz");
}

/* ---- files ----------------------------------------------------------------------------------- */

static const char *lines(const char *text)
{
  const char *path = test_tmp("x.jsonl");
  test_write(path, text, strlen(text));
  return path;
}

static void put_cell(tsr__text *out, const tsr__read_target *t, tsr_coltype type, int part,
                     int64_t row)
{
  const void *values = t->values[part];
  char room[40];
  if (!(t->validity[part][row / 64] >> (row % 64) & 1)) {
    tsr__text_add(out, "null");
    return;
  }
  switch (type) {
  case TSR_COL_BOOL:
    tsr__text_add(out, "%d", (int)(((const uint64_t *)values)[row / 64] >> (row % 64) & 1));
    break;
  case TSR_COL_F64:
    tsr__text_put(out, room, (size_t)tsr__text_f64(room, ((const double *)values)[row]));
    break;
  case TSR_COL_DATE: tsr__text_add(out, "%d", ((const int32_t *)values)[row]); break;
  case TSR_COL_TEXT: {
    const int64_t *offset = t->dict->offsets + ((const int32_t *)values)[row];
    tsr__text_add(out, "'%.*s'", (int)(offset[1] - offset[0]), t->dict->bytes + offset[0]);
    break;
  }
  default: tsr__text_add(out, "%lld", (long long)((const int64_t *)values)[row]);
  }
}

static void free_target(tsr__read_target *t, int parts)
{
  for (int p = 0; p < parts; p++) {
    free(t->values[p]);
    free(t->validity[p]);
  }
  free(t->values);
  free(t->validity);
  tsr__dict_release(t->dict);
}

static tsr_status read_all(tsr__json *json, int parts, tsr__text *out, tsr__error *error)
{
  const tsr__read_column *column;
  int count = tsr__json_columns(json, &column);
  int64_t rows = tsr__json_rows(json), *borders = malloc((size_t)(parts + 1) * sizeof *borders);
  for (int p = 0; p <= parts; p++) borders[p] = rows * p / parts;
  tsr__read_target *target = calloc((size_t)count, sizeof *target);
  for (int c = 0; c < count; c++) {
    target[c] = (tsr__read_target){ .column = c };
    target[c].values = malloc((size_t)parts * sizeof(void *));
    target[c].validity = malloc((size_t)parts * sizeof(void *));
    for (int p = 0; p < parts; p++) {
      size_t bytes = (size_t)((borders[p + 1] - borders[p] + 63) / 64 * 64) * 8 + 8;
      target[c].values[p] = memset(malloc(bytes), 0xcb, bytes);
      target[c].validity[p] = memset(malloc(bytes), 0xcb, bytes);
    }
  }
  tsr__read_ask read = {
    .parts = parts, .rows = borders, .target_count = count, .targets = target
  };
  tsr_status status = tsr__json_read_parts(json, &read, error);
  for (int c = 0; c < count; c++)
    tsr__text_add(out, "%s%s:%s", c ? "," : "", column[c].name, tsr_coltype_name(column[c].type));
  for (int p = 0; p < parts && !status; p++)
    for (int64_t row = 0; row < borders[p + 1] - borders[p]; row++)
      for (int c = 0; c < count; c++) {
        tsr__text_add(out, "%s", c ? "," : "\n");
        put_cell(out, &target[c], column[c].type, p, row);
      }
  for (int c = 0; c < count; c++) free_target(&target[c], parts);
  free(target);
  free(borders);
  return status;
}

/* The columns and rows as text, or the error. */
static const char *shown(tsr_runtime *rt, const char *path, const tsr__json_opts *opts, int parts,
                         tsr__text *out)
{
  tsr__error error = { 0 };
  out->length = 0;
  tsr__json *json = tsr__json_open(rt, path, opts, &error);
  if (json && read_all(json, parts, out, &error)) FAIL("%s", error.text);
  tsr__json_close(json);
  if (json) return tsr__text_get(out);
  tsr__text_add(out, "%s: %s", tsr_status_name(error.status), error.text);
  const char *folder = strstr(out->data, test_tmp("x"));
  size_t skip = strlen(test_tmp("x")) - 1;
  if (folder) memmove((char *)folder, folder + skip, strlen(folder + skip) + 1);
  return out->data;
}

static void check(const char *text, const tsr__json_opts *opts, const char *expected)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 2);
  tsr__text out;
  tsr__text_init(&out, NULL);
  CHECK_STR(shown(rt, lines(text), opts, 1, &out), expected);
  tsr__text_free(&out);
  tsr_runtime_close(rt);
}

/* The same rows, whatever the layout of an array, with the texts that stand in it. */
TEST(arrays_are_rows)
{
  static const char two[] = "a:i64,b:text\n1,'x'\n2,'[3,\n 4]'";
  check("[{\"a\":1,\"b\":\"x\"},{\"a\":2,\"b\":[3,\n 4]}]", NULL, two);
  check("\xef\xbb\xbf\n [\n {\"a\" :\n1 ,\"b\": \"x\"\n}\n,\n{\"b\":[3,\n 4],\n\"a\":2} ]\n\n",
        NULL, two);
  check("[{\"a\":1,\"b\":\"x\"}\r\n,{\"a\":2,\r\n\"b\":[3,\r\n4]}\r\n]\r\n", NULL,
        "a:i64,b:text\n1,'x'\n2,'[3, \n4]'");
  check("[{\"a\":\"],[{\\\"\\\\\"}, {\"a\":\",\"}]", NULL, "a:text\n'],[{\"\\'\n','");
  check("[]", NULL, "TSR_EPARSE: x.jsonl: is empty; a file of JSON lines has an object a line");
}

TEST(arrays_that_are_wrong_are_told_where)
{
  tsr__json_opts skip = { .bad_rows = TSR__JSON_SKIP };
  check("[{\"a\":1},\n {\"a\":}\n]", NULL,
        "TSR_EPARSE: x.jsonl:2:7: the text is not a JSON value: '}'");
  check("\n[{\"a\":1},\n\n 7]", NULL,
        "TSR_EPARSE: x.jsonl:4:2: a row must be an object, {...}: '7'");
  check("[{\"a\":1},\n 7, {\"a\":[1}, {\"a\":2}]", &skip,
        "TSR_EPARSE: x.jsonl:2:23: the array does not end: a ']' is missing");
  check("[{\"a\":1},\n 7, {\"a\":}, {\"a\":2}]", &skip, "a:i64\n1\n2");
  check("[{\"a\":1},\n {\"a\":[1}, {\"a\":2}]", NULL,
        "TSR_EPARSE: x.jsonl:2:9: ',' or ']' is missing: '}, {\"a\":2}]'");
  check(
      "[{\"a\":1},\n {\"a\":\"x\ny\"}]", NULL,
      "TSR_EPARSE: x.jsonl:2:9: a control character must be written as an escape: the line's end");
  check("[{\"a\":1},\n]", NULL, "TSR_EPARSE: x.jsonl:2:1: a value is missing after the last ','");
  check("[{\"a\":1},\n,{}]", NULL, "TSR_EPARSE: x.jsonl:2:1: a value is missing before ','");
  check("[,{}]", &skip, "TSR_EPARSE: x.jsonl:1:2: a value is missing before ','");
  check("[{\"a\":1}\n{\"a\":2}]", NULL,
        "TSR_EPARSE: x.jsonl:2:1: text follows the object: '{\"a\":2}'");
  check("[{\"a\":1}]\n[{\"a\":2}]", NULL, "TSR_EPARSE: x.jsonl:2:1: text follows the array");
  check("[{\"a\":1},\n{\"a\":\"]", NULL,
        "TSR_EPARSE: x.jsonl:2:6: the text does not end in its line: '\"]'");
  check("[{\"a\":1}\n", NULL, "TSR_EPARSE: x.jsonl:2:1: the array does not end: a ']' is missing");
}

/* Numbers that no f64 is near stay as they stand. */
TEST(numbers_beyond_f64_are_texts)
{
  check("{\"a\":1.5,\"b\":1}\n{\"a\":1e400,\"b\":-2e999}\n{\"a\":1e308}\n", NULL,
        "a:text,b:text\n'1.5','1'\n'1e400','-2e999'\n'1e308',null");
  check("{\"a\":1e-400}\n", NULL, "a:f64\n0");
  tsr__json_type type = { "a", TSR_COL_F64 };
  tsr__json_opts forced = { .type_count = 1, .types = &type };
  check("{\"a\":1.5}\n{\"a\":1e400}\n", &forced,
        "TSR_EPARSE: x.jsonl:2:6: the value does not have the type given for the column: '1e400}'");
}

/* Types: 0 bool, 1 i64, 2 f64, 3 date, 4 time, 5 text. */
TEST(columns_are_the_union_in_order_of_appearance)
{
  check("{\"a\":1,\"b\":\"x\"}\n\n{\"c\":true,\"a\":2}\r\n  \n{\"b\":null}", NULL,
        "a:i64,b:text,c:bool\n1,'x',null\n2,null,1\nnull,null,null");
  check("{\"a\":null}\n{}\n", NULL, "a:f64\nnull\nnull");
  check("\xef\xbb\xbf{\"\\u0061\":\"\\u00e9\"}\n{\"a\":\"\xc3\xa9\"}\n", NULL,
        "a:text\n'\xc3\xa9'\n'\xc3\xa9'");
}

TEST(types_follow_the_classes_of_csv)
{
  check("{\"a\":1,\"b\":1,\"c\":1,\"d\":\"2013-01-02\",\"e\":\"2013-01-02\",\"f\":true}\n"
        "{\"a\":2,\"b\":1.5,\"c\":\"1\",\"d\":\"1969-12-31\",\"e\":\"2013-01-02T03:04\",\"f\":1}\n",
        NULL,
        "a:i64,b:f64,c:text,d:date,e:time,f:text\n1,1,'1',15707,1357084800000000,'true'\n"
        "2,1.5,'1',-1,1357095840000000,'1'");
  check("{\"a\":9223372036854775807,\"b\":9223372036854775808}\n"
        "{\"a\":-9223372036854775808,\"b\":1}\n",
        NULL, "a:i64,b:text\n9223372036854775807,'9223372036854775808'\n-9223372036854775808,'1'");
  check("{\"a\":{\"x\": [1, 2]},\"b\":[ ]}\n{\"a\":-0.0,\"b\":null}\n", NULL,
        "a:text,b:text\n'{\"x\": [1, 2]}','[ ]'\n'-0.0',null");
}

TEST(columns_and_types_can_be_chosen)
{
  const char *text = "{\"a\":1,\"b\":2,\"c\":\"2013-01-01\"}\n{\"a\":3,\"c\":\"x\"}\n";
  tsr__json_opts opts = { .column_count = 2, .columns = (const char *[]){ "c", "a" } };
  check(text, &opts, "c:text,a:i64\n'2013-01-01',1\n'x',3");
  opts.type_count = 1;
  opts.types = &(tsr__json_type){ "a", TSR_COL_F64 };
  check(text, &opts, "c:text,a:f64\n'2013-01-01',1\n'x',3");
  opts.types = &(tsr__json_type){ "c", TSR_COL_DATE };
  check(
      text, &opts,
      "TSR_EPARSE: x.jsonl:2:12: the value does not have the type given for the column: '\"x\"}'");
  opts.bad_rows = TSR__JSON_SKIP;
  check(text, &opts, "c:date,a:i64\n15706,1");
  opts.bad_rows = TSR__JSON_NULL;
  check(text, &opts, "c:date,a:i64\n15706,1\nnull,3");
  opts.columns = (const char *[]){ "c", "z" };
  check(text, &opts, "TSR_ECOLUMN: x.jsonl: no column 'z'; no object has that name");
  opts.columns = (const char *[]){ "c", "c" };
  check(text, &opts, "TSR_ECOLUMN: x.jsonl: column 'c' is chosen twice");
}

TEST(bad_rows_are_told_left_out_or_null)
{
  const char *text =
      "{\"a\":1}\n{\"a\":2,\"b\":}\n{\"a\":3,\"a\":4}\n[1]\n{\"a\":5,\"b\":\"\xff\"}\n"
      "{\"a\":6,\"c\":1}\n";
  check(text, NULL, "TSR_EPARSE: x.jsonl:2:12: the text is not a JSON value: '}'");
  tsr__json_opts opts = { .bad_rows = TSR__JSON_SKIP };
  check(text, &opts, "a:i64,c:i64\n1,null\n6,1");
  opts.bad_rows = TSR__JSON_NULL;
  check(text, &opts, "a:i64,c:i64\n1,null\n2,null\n3,null\nnull,null\nnull,null\n6,1");
  check("{\"a\":1}\n{\"a\":2,\n\"b\":3}\n", NULL,
        "TSR_EPARSE: x.jsonl:2:8: the line ends inside an object; write a whole object per line, "
        "as jq -c . does: the line's end");
  check("{\"a\":1,\"b\":2,\"a\":3}\n", NULL,
        "TSR_EPARSE: x.jsonl:1:14: the name stands twice in one object: '\"a\":3}'");
  static const char *const none[] = { "", " \n\r\n\t", "\xef\xbb\xbf\n" };
  opts = (tsr__json_opts){ .column_count = 1, .columns = (const char *[]){ "c" } };
  for (int i = 0; i < 6; i++)
    check(none[i / 2], i % 2 ? &opts : NULL,
          "TSR_EPARSE: x.jsonl: is empty; a file of JSON lines has an object a line");
  check("{}\n{}\n", NULL,
        "TSR_EPARSE: x.jsonl: holds no object with a name; a file of JSON lines has an "
        "object a line");
  check(
      "{\"\":1}\n", NULL,
      "TSR_ECOLUMN: x.jsonl: a column's name is empty; choose others with .columns, or rename it");
}

/* A hostile file, cut everywhere. */
static char *random_lines(int count)
{
  static const char *const values[] = {
    "1",           "-2.5",      "true",          "null",           "\"x\"", "\"a\\nb\"",
    "\"\\u00e9\"", "[1,\"]\"]", "{\"q\":\"}\"}", "\"2013-01-01\"", "\"\"",  "123456789012345678901"
  };
  test_rng rng = test_seeded(11);
  char *text = malloc((size_t)count * 200), *at = text;
  for (int i = 0; i < count; i++) {
    at += sprintf(at, "{");
    int first = (int)test_range(&rng, 0, 5), last = (int)test_range(&rng, first, 6);
    for (int k = first; k < last; k++) {
      int kind = (int)test_range(&rng, 0, 11), fixed = k % 3 == 0 ? k / 3 : kind;
      at += sprintf(at, "%s\"%s%d\":%s", k > first ? ", " : "", k == 4 ? "\\u006b" : "k", k,
                    values[k % 3 == 0 && kind > 3 ? fixed : kind % 12]);
    }
    at += sprintf(at, "}%s",
                  test_random(&rng) % 4   ? "\n"
                  : test_random(&rng) % 2 ? "\r\n"
                                          : "\n\n");
    if (test_random(&rng) % 16 == 0) at += sprintf(at, "{\"k0\":1,}\n");
  }
  return text;
}

TEST_TIMEOUT(the_same_rows_however_the_bytes_are_cut, 300)
{
  char *text = random_lines(300);
  const char *path = lines(text);
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 3);
  for (int mode = TSR__JSON_SKIP; mode <= TSR__JSON_NULL; mode++) {
    tsr__text expected, found;
    tsr__text_init(&expected, NULL);
    tsr__text_init(&found, NULL);
    tsr__json_opts opts = { .bad_rows = (tsr__json_bad)mode };
    shown(rt, path, &opts, 1, &expected);
    CHECK(expected.length > 5000);
    for (int64_t block = 1; block < 400; block += 1 + block / 3)
      for (int parts = 1; parts <= 9; parts += 4) {
        opts.block = block;
        opts.stripe = 64 * (1 + block % 2);
        CHECK_STR(shown(rt, path, &opts, parts, &found), tsr__text_get(&expected));
      }
    tsr__text_free(&expected);
    tsr__text_free(&found);
  }
  tsr_runtime_close(rt);
  free(text);
}

static bool read_lines(tsr_runtime *rt, bool fails, const void *user)
{
  tsr__json_opts opts = { .bad_rows = TSR__JSON_SKIP, .block = 500, .stripe = 64 };
  tsr__error error = { 0 };
  tsr__text out;
  tsr__text_init(&out, NULL);
  tsr__json *json = tsr__json_open(rt, user, &opts, &error);
  tsr_status status = json ? read_all(json, 2, &out, &error) : error.status;
  tsr__json_close(json);
  tsr__text_free(&out);
  /* What could not be kept is parsed again. */
  if (!fails || status) CHECK_STATUS(status, fails ? TSR_ENOMEM : TSR_OK, NULL);
  return fails;
}

TEST_TIMEOUT(any_allocation_may_fail, 300)
{
  char *text = random_lines(60);
  CHECK(each_allocation_fails("cpu:1", read_lines, lines(text)) > 10);
  free(text);
}

/* ---- frames ---------------------------------------------------------------------------------- */

TEST(a_frame_written_is_read_back)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  tsr_scope *s = tsr_scope_open(rt);
  static const char text[] = "{\"i\":1,\"f\":0.1,\"t\":\"a\\nb\",\"d\":\"1969-07-20\","
                             "\"w\":\"2013-01-31T06:00:00.000001Z\",\"b\":true}\n"
                             "{\"i\":-9223372036854775808,\"f\":1e+300,\"t\":null,\"d\":null,"
                             "\"w\":null,\"b\":null}\n"
                             "{\"i\":null,\"f\":2.0,\"t\":\"\\u0001\",\"d\":\"2013-01-01\","
                             "\"w\":\"1900-01-01T00:00:00Z\",\"b\":false}\n";
  const char *path = lines(text);
  tsr_frame *df = tsr_frame_read_json(s, path);
  CHECK_STR(tsr_frame_schema(df), "i  i64\nf  f64\nt  text\nd  date\nw  time\nb  bool\n");
  CHECK_STATUS(tsr_frame_write_json(df, test_tmp("y.jsonl.gz")), TSR_OK, s);
  df = tsr_frame_read_json(s, test_tmp("y.jsonl.gz"), .columns = "i, f, t, d, w, b");
  CHECK_STATUS(tsr_frame_write_json(df, test_tmp("z.jsonl")), TSR_OK, s);
  char *found = test_read(test_tmp("z.jsonl"), NULL);
  CHECK_STR(found, text);
  free(found);
  CHECK_STR_HAS(tsr_frame_explain(df), "read json ");
  int64_t bad = -1;
  test_write(path, "{\"a\":1}\nx\n{\"a\":2}\n", 18);
  df = tsr_frame_read_json(s, path, .bad_rows = TSR_BAD_ROWS_SKIP, .bad_rows_found = &bad,
                           .types = "a f64");
  CHECK_I64(bad, 1);
  tsr_row *row = tsr_frame_row(tsr_frame_agg(df, "s = sum(a)"));
  CHECK_F64_BITS(tsr_row_f64(row, "s"), 3);
  CHECK(tsr_frame_is_inert(tsr_frame_read_json(s, path)));
  CHECK_STR_HAS(tsr_message(s), "x.jsonl:2:1: a row must be an object");
  tsr_scope_clear(s);
  CHECK(tsr_frame_is_inert(tsr_frame_read_json(s, path, .types = "a i99")));
  CHECK_STR_HAS(tsr_message(s), "'i99' is not a type;");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
