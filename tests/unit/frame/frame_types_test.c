/* Columns of all element types, in and out and through casts and sums, against exact arithmetic
 * (golden/types.txt), and what only some of them have: overflows of small integers, u64 beyond
 * i64. */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera.h"

enum { TYPES = TSR_F64, MOST = 600 };

/* A scope, and where rows lie. */
typedef struct desk {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_sharding on;
} desk;

static desk desk_open(const char *devices)
{
  desk d = { .rt = tsr_runtime_open(devices) };
  d.s = tsr_scope_open(d.rt);
  d.on = tsr_on(tsr_mesh_default(d.rt, "x"), "x");
  return d;
}

static void desk_clear(desk *d)
{
  tsr_scope_close(d->s);
  d->s = tsr_scope_open(d->rt);
}

static void desk_close(desk *d)
{
  tsr_scope_close(d->s);
  tsr_runtime_close(d->rt);
}

/* What tests need of a line: "cast i8 -128 u8 none". */
typedef struct line {
  char *word[64];
  int count;
} line;

typedef struct golden {
  char *text;
  line *lines;
  int count;
} golden;

static golden golden_open(void)
{
  golden g = { .text = test_read(test_file("golden/types.txt"), NULL) };
  g.lines = calloc(6000, sizeof *g.lines);
  char *rest = NULL;
  for (char *at = strtok_r(g.text, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest)) {
    line *l = &g.lines[g.count++];
    char *inner = NULL;
    for (char *w = strtok_r(at, " ", &inner); w; w = strtok_r(NULL, " ", &inner))
      l->word[l->count++] = w;
  }
  CHECK(g.count > 3000);
  return g;
}

static void golden_close(golden *g)
{
  free(g->text);
  free(g->lines);
}

static tsr_dtype type_named(const char *name)
{
  for (int type = 1; type <= TYPES; type++)
    if (!strcmp(tsr_dtype_name((tsr_dtype)type), name)) return (tsr_dtype)type;
  FAIL("no type is called %s", name);
}

static bool is_real(tsr_dtype dtype)
{
  return dtype >= TSR_F16;
}

/* An element as its bits, zero-extended; `word` is bits of a float, else an integer. */
static uint64_t bits_of(tsr_dtype dtype, const char *word)
{
  uint64_t bits = word[0] == '-' ? (uint64_t)strtoll(word, NULL, 10) : strtoull(word, NULL, 0);
  size_t size = tsr_dtype_size(dtype);
  return size < 8 ? bits & ((UINT64_C(1) << (8 * size)) - 1) : bits;
}

static uint64_t bits_at(const tsr_table *table, int64_t row, int column)
{
  size_t size = tsr_dtype_size((tsr_dtype)tsr_table_type(table, column));
  uint64_t bits = 0;
  memcpy(&bits, (const char *)tsr_table_values(table, column) + (size_t)row * size, size);
  return bits;
}

static bool is_nan(const tsr_table *table, int64_t row, int column)
{
  return isnan(tsr_table_f64(table, row, column));
}

static void check_word(const tsr_table *table, int64_t row, const char *word, const char *asked)
{
  tsr_dtype dtype = (tsr_dtype)tsr_table_type(table, 0);
  bool null = tsr_table_is_null(table, row, 0), same;
  if (!strcmp(word, "none")) same = null;
  else if (!strcmp(word, "nan")) same = !null && is_nan(table, row, 0);
  else same = !null && bits_at(table, row, 0) == bits_of(dtype, word);
  if (!same)
    FAIL("%s, row %lld: %s (%llx), expected %s", asked, (long long)row,
         null ? "null" : tsr_table_text(table, row, 0), (unsigned long long)bits_at(table, row, 0),
         word);
}

/* A frame of one column of elements given as bits. */
static tsr_frame *frame_of(const desk *d, tsr_dtype dtype, const uint64_t *bits, int64_t count)
{
  size_t size = tsr_dtype_size(dtype);
  char *data = malloc((size_t)count * size + 1);
  for (int64_t i = 0; i < count; i++) memcpy(data + (size_t)i * size, &bits[i], size);
  tsr_frame *df = tsr_frame_new(d->s, { "x", tsr_put(d->s, data, dtype, TSR_SHAPE(count), d->on) });
  free(data);
  return df;
}

/* ---- in and out ------------------------------------------------------------------------------ */

TEST(columns_of_every_type_come_back)
{
  desk d = desk_open("cpu:3");
  for (int type = 1; type <= TYPES; type++) {
    desk_clear(&d);
    tsr_dtype dtype = (tsr_dtype)type;
    test_rng rng = test_seeded((uint64_t)type);
    uint64_t bits[100];
    for (int i = 0; i < 100; i++) {
      bits[i] = type == TSR_BOOL ? test_random(&rng) & 1 : test_random(&rng);
      if (type == TSR_F16) bits[i] &= 0xbfff; /* numbers, whose bits stay */
      if (type == TSR_BF16) bits[i] &= 0xbfff;
      if (type == TSR_F32) bits[i] &= 0xbfffffff;
      if (type == TSR_F64) bits[i] &= ~(UINT64_C(1) << 62);
      if (tsr_dtype_size(dtype) < 8) bits[i] &= (UINT64_C(1) << (8 * tsr_dtype_size(dtype))) - 1;
    }
    tsr_frame *df = frame_of(&d, dtype, bits, 100);
    tsr_table *table = NULL;
    CHECK_I64(tsr_frame_column_type(df, 0), type);
    CHECK_STR_HAS(tsr_frame_schema(df), tsr_dtype_name(dtype));
    CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, d.s);
    for (int i = 0; i < 100; i++) CHECK_U64(bits_at(table, i, 0), bits[i]);
    tsr_array *array = tsr_frame_column(df, "x");
    char back[800], wanted[800];
    CHECK_I64(tsr_dtype_of(array), dtype);
    CHECK_STATUS(tsr_read(array, back, 100 * tsr_dtype_size(dtype)), TSR_OK, d.s);
    for (size_t i = 0; i < 100; i++)
      memcpy(wanted + i * tsr_dtype_size(dtype), &bits[i], tsr_dtype_size(dtype));
    CHECK_BYTES(back, wanted, 100 * tsr_dtype_size(dtype));
  }
  desk_close(&d);
}

TEST(types_meet)
{
  golden g = golden_open();
  desk d = desk_open("cpu:1");
  int seen = 0;
  for (int i = 0; i < g.count; i++) {
    const line *l = &g.lines[i];
    if (strcmp(l->word[0], "meet")) continue;
    desk_clear(&d);
    uint64_t zero[1] = { 0 };
    tsr_array *a = tsr_put(d.s, zero, type_named(l->word[1]), TSR_SHAPE(1), (tsr_sharding){ 0 });
    tsr_array *b = tsr_put(d.s, zero, type_named(l->word[2]), TSR_SHAPE(1), (tsr_sharding){ 0 });
    tsr_frame *df = tsr_frame_new(d.s, { "a", a }, { "b", b });
    tsr_table *table = NULL;
    df = tsr_frame_select(df, "c = a + b, d = a / b");
    CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, d.s);
    tsr_dtype met = type_named(l->word[3]);
    if (tsr_table_type(table, 0) != (tsr_coltype)met)
      FAIL("%s + %s is %s, expected %s", l->word[1], l->word[2],
           tsr_coltype_name(tsr_table_type(table, 0)), l->word[3]);
    CHECK_I64(tsr_table_type(table, 1), is_real(met) ? met : TSR_F64);
    seen++;
  }
  CHECK_I64(seen, TYPES * TYPES);
  desk_close(&d);
  golden_close(&g);
}

/* ---- casts ----------------------------------------------------------------------------------- */

static void check_cast(desk *d, const golden *g, tsr_dtype from, tsr_dtype to)
{
  desk_clear(d);
  uint64_t bits[MOST];
  const char *expected[MOST];
  char asked[60];
  int64_t count = 0;
  bool fits = true;
  for (int i = 0; i < g->count; i++) {
    const line *l = &g->lines[i];
    if (strcmp(l->word[0], "cast") || type_named(l->word[1]) != from) continue;
    if (type_named(l->word[3]) != to) continue;
    bits[count] = bits_of(from, l->word[2]);
    fits = fits && strcmp(l->word[4], "none");
    expected[count++] = l->word[4];
  }
  CHECK(count > 1 && count < MOST);
  tsr_table *table = NULL;
  tsr_frame *df = frame_of(d, from, bits, count);
  snprintf(asked, sizeof asked, "y = try_cast(x, '%s')", tsr_dtype_name(to));
  CHECK_STATUS(tsr_frame_collect(tsr_frame_select(df, asked), &table), TSR_OK, d->s);
  CHECK_I64(tsr_table_type(table, 0), to);
  for (int64_t r = 0; r < count; r++) check_word(table, r, expected[r], asked);
  snprintf(asked, sizeof asked, "y = cast(x, '%s')", tsr_dtype_name(to));
  CHECK_STATUS(tsr_frame_collect(tsr_frame_select(df, asked), &table), fits ? TSR_OK : TSR_EVALUE,
               d->s);
}

TEST_TIMEOUT(casts_of_edges, 120)
{
  golden g = golden_open();
  desk d = desk_open("cpu:2");
  for (int from = 1; from <= TYPES; from++)
    for (int to = 1; to <= TYPES; to++)
      if (from != to) check_cast(&d, &g, (tsr_dtype)from, (tsr_dtype)to);
  desk_close(&d);
  golden_close(&g);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* The lines "read TYPE TEXT BITS" of a type. */
static int64_t reads_of(const golden *g, tsr_dtype dtype, const char **text, const char **expected)
{
  int64_t count = 0;
  for (int i = 0; i < g->count; i++) {
    const line *l = &g->lines[i];
    if (strcmp(l->word[0], "read") || type_named(l->word[1]) != dtype) continue;
    CHECK(count < MOST);
    text[count] = l->word[2];
    expected[count++] = l->word[3];
  }
  return count;
}

static void check_reads(desk *d, const golden *g, tsr_dtype dtype)
{
  desk_clear(d);
  const char *text[MOST], *expected[MOST], *wanted[2][MOST], *name = tsr_dtype_name(dtype);
  int64_t count = reads_of(g, dtype, text, expected), good[2] = { 0 };
  char asked[60], types[20];
  tsr_table *table = NULL;
  uint64_t zeros[MOST] = { 0 };
  tsr_frame *df = tsr_frame_text_column(frame_of(d, TSR_I64, zeros, count), "x", text, count);
  snprintf(asked, sizeof asked, "y = try_cast(x, '%s')", name);
  snprintf(types, sizeof types, "x %s", name);
  CHECK_STATUS(tsr_frame_collect(tsr_frame_select(df, asked), &table), TSR_OK, d->s);
  for (int64_t r = 0; r < count; r++) check_word(table, r, expected[r], text[r]);
  FILE *csv = fopen(test_tmp("x.csv"), "w"), *json = fopen(test_tmp("x.jsonl"), "w");
  fprintf(csv, "x\n");
  for (int64_t r = 0; r < count; r++) {
    if (!strcmp(expected[r], "none") || text[r][0] == '+') continue;
    fprintf(csv, "%s\n", text[r]);
    wanted[0][good[0]++] = expected[r];
    if (isinf(strtod(text[r], NULL)))
      continue; /* JSON has no infinities: such a number is a text */
    fprintf(json, "{\"x\": %s}\n", text[r]);
    wanted[1][good[1]++] = expected[r];
  }
  fclose(csv);
  fclose(json);
  tsr_frame *read[] = { tsr_frame_read_csv(d->s, test_tmp("x.csv"), .types = types),
                        tsr_frame_read_json(d->s, test_tmp("x.jsonl"), .types = types) };
  for (int i = 0; i < 2; i++) {
    CHECK_STATUS(tsr_frame_collect(read[i], &table), TSR_OK, d->s);
    CHECK_I64(tsr_table_type(table, 0), dtype);
    CHECK_I64(tsr_table_row_count(table), good[i]);
    for (int64_t r = 0; r < good[i]; r++) check_word(table, r, wanted[i][r], i ? "JSON" : "CSV");
  }
}

TEST_TIMEOUT(texts_are_read_and_rounded_once, 120)
{
  golden g = golden_open();
  desk d = desk_open("cpu:2");
  for (int type = TSR_I8; type < TSR_F64; type++) check_reads(&d, &g, (tsr_dtype)type);
  desk_close(&d);
  golden_close(&g);
}

static void check_shows(desk *d, const golden *g, tsr_dtype dtype)
{
  desk_clear(d);
  uint64_t bits[MOST];
  const char *expected[MOST];
  char types[20];
  int64_t count = 0;
  for (int i = 0; i < g->count; i++) {
    const line *l = &g->lines[i];
    if (strcmp(l->word[0], "show") || type_named(l->word[1]) != dtype) continue;
    bits[count] = bits_of(dtype, l->word[2]);
    expected[count++] = l->word[3];
  }
  CHECK(count > 100);
  tsr_table *table = NULL, *again = NULL;
  tsr_frame *df = tsr_frame_assign(frame_of(d, dtype, bits, count), "t", "cast(x, 'text')");
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, d->s);
  for (int64_t r = 0; r < count; r++) {
    CHECK_STR(tsr_table_text(table, r, 0), expected[r]);
    CHECK_STR(tsr_table_text(table, r, 1), expected[r]);
  }
  snprintf(types, sizeof types, "x %s", tsr_dtype_name(dtype));
  CHECK_STATUS(tsr_frame_write_csv(df, test_tmp("x.csv")), TSR_OK, d->s);
  df = tsr_frame_read_csv(d->s, test_tmp("x.csv"), .types = types);
  CHECK_STATUS(tsr_frame_collect(df, &again), TSR_OK, d->s);
  for (int64_t r = 0; r < count; r++) CHECK_U64(bits_at(again, r, 0), bits[r]);
}

TEST(floats_of_16_bits_have_short_texts)
{
  golden g = golden_open();
  desk d = desk_open("cpu:2");
  check_shows(&d, &g, TSR_F16);
  check_shows(&d, &g, TSR_BF16);
  desk_close(&d);
  golden_close(&g);
}

/* ---- sums ------------------------------------------------------------------------------------ */

enum { STATISTICS = 7 };

static void check_sums(const tsr_table *table, int64_t row, int first, const line *l, int n)
{
  static const char *const names[STATISTICS] = {
    "sum", "mean", "min", "max", "var", "std", "median"
  };
  for (int k = 0; k < STATISTICS; k++) {
    const char *word = l->word[3 + n + k];
    tsr_dtype dtype = (tsr_dtype)tsr_table_type(table, first + k);
    if (bits_at(table, row, first + k) != bits_of(dtype, word))
      FAIL("%s of %d %s: %s (%s), expected %s", names[k], n, l->word[2],
           tsr_table_text(table, row, first + k), tsr_dtype_name(dtype), word);
  }
}

/* As one row, as the first of twenty groups, and in a few groups of one pass. */
static void check_line(desk *d, const line *l)
{
  static const char all[] = "sum(x), mean(x), min(x), max(x), var(x), std(x), median(x)";
  desk_clear(d);
  tsr_dtype dtype = type_named(l->word[2]);
  int n = atoi(l->word[1]);
  uint64_t bits[MOST] = { 0 };
  int64_t keys[MOST] = { 0 };
  for (int i = 0; i < n; i++) bits[i] = bits_of(dtype, l->word[3 + i]);
  for (int i = 0; i < 20; i++) keys[n + i] = i + 1;
  tsr_table *table = NULL;
  CHECK_STATUS(tsr_frame_collect(tsr_frame_agg(frame_of(d, dtype, bits, n), all), &table), TSR_OK,
               d->s);
  check_sums(table, 0, 0, l, n);
  bool natural = dtype >= TSR_U8 && dtype <= TSR_U64;
  CHECK_I64(tsr_table_type(table, 0), natural ? TSR_COL_U64 : TSR_COL_I64);
  CHECK_I64(tsr_table_type(table, 2), dtype);
  tsr_frame *df = frame_of(d, dtype, bits, n + 20);
  df = tsr_frame_new(d->s, { "x", tsr_frame_column(df, "x") },
                     { "k", tsr_put(d->s, keys, TSR_I64, TSR_SHAPE(n + 20), (tsr_sharding){ 0 }) });
  CHECK_STATUS(tsr_frame_collect(tsr_frame_group_agg(df, "k", all), &table), TSR_OK, d->s);
  check_sums(table, 0, 1, l, n);
  df = tsr_frame_group_agg(df, "k = k > 0", "sum(x), mean(x), min(x), max(x), var(x), std(x)");
  tsr_table *few = NULL;
  CHECK_STATUS(tsr_frame_collect(df, &few), TSR_OK, d->s);
  for (int c = 1; c < 7; c++) CHECK_U64(bits_at(few, 0, c), bits_at(table, 0, c));
}

TEST_TIMEOUT(sums_of_integers_of_every_size, 120)
{
  golden g = golden_open();
  desk d = desk_open("cpu:3");
  for (int i = 0; i < g.count; i++)
    if (!strcmp(g.lines[i].word[0], "sums")) check_line(&d, &g.lines[i]);
  desk_close(&d);
  golden_close(&g);
}

/* ---- what leaves its range ------------------------------------------------------------------- */

static void check_leaves(const desk *d, tsr_frame *df, const char *formula, const char *where)
{
  tsr_table *table = NULL;
  tsr_frame *made = tsr_frame_select(df, formula);
  if (tsr_frame_collect(made, &table) != TSR_EVALUE) FAIL("%s left its range unseen", formula);
  const char *said = tsr_message(d->s);
  CHECK_STR_HAS(said, where);
  tsr_scope_clear(d->s);
}

TEST(small_integers_leave_their_range)
{
  desk d = desk_open("cpu:2");
  int8_t a[4] = { 1, 100, -128, 3 };
  uint8_t b[4] = { 5, 200, 16, 0 };
  uint64_t c[4] = { 0, UINT64_MAX, 1, UINT64_C(1) << 63 };
  tsr_sharding none = { 0 };
  tsr_frame *df = tsr_frame_new(d.s, { "a", tsr_put(d.s, a, TSR_I8, TSR_SHAPE(4), none) },
                                { "b", tsr_put(d.s, b, TSR_U8, TSR_SHAPE(4), none) },
                                { "c", tsr_put(d.s, c, TSR_U64, TSR_SHAPE(4), none) });
  check_leaves(&d, df, "r = a + a", "an integer overflows in row 1");
  check_leaves(&d, df, "r = a * 2", "an integer overflows in row 1");
  check_leaves(&d, df, "r = -a", "in row 2");
  check_leaves(&d, df, "r = abs(a)", "in row 2");
  check_leaves(&d, df, "r = a // -1", "in row 2");
  check_leaves(&d, df, "r = b + b", "in row 1");
  check_leaves(&d, df, "r = b - 6", "in row 0");
  check_leaves(&d, df, "r = b * b", "in row 1");
  check_leaves(&d, df, "r = -b", "in row 0");
  check_leaves(&d, df, "r = b ** 2", "in row 1");
  check_leaves(&d, df, "r = c + 1", "in row 1");
  check_leaves(&d, df, "r = c - 1", "in row 0");
  check_leaves(&d, df, "r = c * 2", "in row 1");
  check_leaves(&d, df, "r = cast(c, 'i64')", "18446744073709551615 in row 1 is not a valid i64");
  check_leaves(&d, df, "r = cast(a, 'u8')", "-128 in row 2 is not a valid u8");
  check_leaves(&d, df, "r = cast(b, 'i8')", "200 in row 1 is not a valid i8");
  check_leaves(&d, df, "r = round(c, -1)", "in row 1");
  tsr_table *table = NULL;
  CHECK_STATUS(tsr_frame_collect(tsr_frame_select(df, "b + a"), &table), TSR_OK, d.s);
  CHECK_I64(tsr_table_type(table, 0), TSR_COL_I16);
  CHECK_I64(tsr_table_i64(table, 1, 0), 300);
  tsr_frame *sums = tsr_frame_agg(df, "sum(c)");
  CHECK_STATUS(tsr_frame_collect(sums, &table), TSR_EVALUE, NULL);
  CHECK_STR_HAS(tsr_message(d.s), "which does not fit u64");
  desk_close(&d);
}

/* ---- u64 beyond i64 -------------------------------------------------------------------------- */

static const uint64_t far[6] = { UINT64_MAX, 1, UINT64_C(1) << 63, (UINT64_C(1) << 63) - 1,
                                 UINT64_MAX, 0 };

static void check_text(const desk *d, tsr_frame *df, const char *expected)
{
  tsr_table *table = NULL;
  char found[2000] = "";
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, d->s);
  for (int64_t r = 0; r < tsr_table_row_count(table); r++)
    for (int c = 0; c < tsr_table_column_count(table); c++) {
      const char *text = tsr_table_text(table, r, c);
      snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s", c || r ? " " : "",
               text ? text : "-");
    }
  CHECK_STR(found, expected);
}

TEST(u64_beyond_i64_in_every_verb)
{
  static const int64_t k[6] = { -1, 1, INT64_MIN, INT64_MAX, 0, 7 };
  desk d = desk_open("cpu:3");
  tsr_sharding on = tsr_on(tsr_mesh_default(d.rt, "x"), "x");
  tsr_frame *df = tsr_frame_new(d.s, { "u", tsr_put(d.s, far, TSR_U64, TSR_SHAPE(6), on) },
                                { "k", tsr_put(d.s, k, TSR_I64, TSR_SHAPE(6), on) });
  check_text(&d, tsr_frame_select(tsr_frame_sort(df, "u desc, k desc"), "u"),
             "18446744073709551615 18446744073709551615 9223372036854775808 9223372036854775807 1 "
             "0");
  check_text(&d, tsr_frame_group_agg(df, "u", "n = count()"),
             "18446744073709551615 2 1 1 9223372036854775808 1 9223372036854775807 1 0 1");
  check_text(&d, tsr_frame_distinct(tsr_frame_select(df, "u"), "u"),
             "18446744073709551615 1 9223372036854775808 9223372036854775807 0");
  check_text(&d, tsr_frame_agg(df, "min(u), max(u), nunique(u), mean(k), first(u)"),
             "0 18446744073709551615 5 1 18446744073709551615");
  /* Beside signed integers: as numbers, where f64 could not tell them apart. */
  check_text(&d, tsr_frame_select(df, "u == k, u > k, u <= k, k < u, k != u"),
             "false true false true true true false true false false false true false true true "
             "true false true false false false true false true true false false true false true");
  check_text(&d, tsr_frame_select(tsr_frame_filter(df, "u > 9223372036854775807"), "u"),
             "18446744073709551615 9223372036854775808 18446744073709551615");
  check_text(&d, tsr_frame_select(tsr_frame_filter(df, "u > -1 and u != 1"), "u // 2"),
             "9223372036854775807 4611686018427387904 4611686018427387903 9223372036854775807 0");
  check_text(&d,
             tsr_frame_agg(tsr_frame_filter(df, "u == cast('18446744073709551615', 'u64')"),
                           "count(), sum(k)"),
             "2 -1");
  tsr_frame *left = tsr_frame_select(df, "k"), *right = tsr_frame_select(df, "u, v = u");
  check_text(&d, tsr_frame_join(left, right, "k = u"),
             "1 1 9223372036854775807 9223372036854775807 0 "
             "0");
  check_text(&d, tsr_frame_join(left, right, "k = u", .how = TSR_JOIN_ANTI),
             "-1 -9223372036854775808 "
             "7");
  check_text(&d,
             tsr_frame_join(tsr_frame_select(df, "u"), tsr_frame_select(df, "w = u, k"), "u = w",
                            .how = TSR_JOIN_SEMI),
             "18446744073709551615 1 9223372036854775808 9223372036854775807 18446744073709551615 "
             "0");
  check_text(&d, tsr_frame_select(df, "t = cast(cast(u, 'text'), 'u64') - u"), "0 0 0 0 0 0");
  CHECK_STR_HAS(tsr_frame_text(df), "18446744073709551615");
  CHECK_STATUS(tsr_frame_write_csv(tsr_frame_select(df, "u"), test_tmp("u.csv")), TSR_OK, d.s);
  check_text(&d,
             tsr_frame_agg(tsr_frame_read_csv(d.s, test_tmp("u.csv"), .types = "u u64"),
                           "max(u), count(u)"),
             "18446744073709551615 6");
  tsr_table *table = NULL;
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, d.s);
  CHECK_U64((uint64_t)tsr_table_i64(table, 0, 0), UINT64_MAX);
  CHECK(tsr_table_f64(table, 0, 0) == 0x1p64);
  desk_close(&d);
}

/* ---- files ----------------------------------------------------------------------------------- */

TEST(what_a_forced_type_does_not_hold_is_a_bad_row)
{
  static const struct {
    const char *type, *bad;
  } cases[] = { { "u8", "256" },  { "u8", "-1" },
                { "i8", "128" },  { "u64", "18446744073709551616" },
                { "u32", "1.5" }, { "i16", "abc" },
                { "f16", "x" },   { "u16", "70000" } };
  desk d = desk_open("cpu:2");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    desk_clear(&d);
    char text[100], types[20], expected[100];
    snprintf(text, sizeof text, "a,b\n1,7\n%s,8\nNA,9\n", cases[i].bad);
    snprintf(types, sizeof types, "a %s", cases[i].type);
    snprintf(expected, sizeof expected, "\"%s\" is not a valid %s, the type given", cases[i].bad,
             cases[i].type);
    test_write(test_tmp("bad.csv"), text, strlen(text));
    tsr_table *table = NULL;
    tsr_frame *df = tsr_frame_read_csv(d.s, test_tmp("bad.csv"), .types = types);
    CHECK(tsr_frame_collect(df, &table) == TSR_EPARSE);
    CHECK_STR_HAS(tsr_message(d.s), expected);
    tsr_scope_clear(d.s);
    df =
        tsr_frame_read_csv(d.s, test_tmp("bad.csv"), .types = types, .bad_rows = TSR_BAD_ROWS_SKIP);
    check_text(&d, df, "1 7 - 9");
    snprintf(text, sizeof text, "{\"a\": 1}\n{\"a\": %s}\n", cases[i].bad);
    if (i < 5) test_write(test_tmp("bad.jsonl"), text, strlen(text));
    df = tsr_frame_read_json(d.s, test_tmp("bad.jsonl"), .types = types);
    if (i < 5) CHECK(tsr_frame_is_inert(df) || tsr_frame_collect(df, &table) == TSR_EPARSE);
  }
  desk_close(&d);
}

static tsr_frame *one_of_each(const desk *d)
{
  int8_t a[2] = { -128, 127 };
  uint8_t b[2] = { 0, 255 };
  uint64_t c[2] = { 1, UINT64_MAX };
  uint16_t h[2] = { 0x2e66, 0x7c00 }, g[2] = { 0x3dcd, 0x7f7f };
  tsr_shape two = TSR_SHAPE(2);
  return tsr_frame_new(d->s, { "a", tsr_put(d->s, a, TSR_I8, two, d->on) },
                       { "b", tsr_put(d->s, b, TSR_U8, two, d->on) },
                       { "c", tsr_put(d->s, c, TSR_U64, two, d->on) },
                       { "h", tsr_put(d->s, h, TSR_F16, two, d->on) },
                       { "g", tsr_put(d->s, g, TSR_BF16, two, d->on) });
}

static void check_written(const char *name, const char *expected)
{
  char *text = test_read(test_tmp(name), NULL);
  CHECK_STR(text, expected);
  free(text);
}

TEST(tables_and_files_show_the_shortest_text)
{
  desk d = desk_open("cpu:2");
  tsr_frame *df = one_of_each(&d);
  CHECK_STR(tsr_frame_text(df), "┌──────┬──────┬──────────────────────┬──────┬──────────┐\n"
                                "│    a │    b │                    c │    h │        g │\n"
                                "│   i8 │   u8 │                  u64 │  f16 │     bf16 │\n"
                                "├──────┼──────┼──────────────────────┼──────┼──────────┤\n"
                                "│ -128 │    0 │                    1 │  0.1 │      0.1 │\n"
                                "│  127 │  255 │ 18446744073709551615 │  inf │ 3.39e+38 │\n"
                                "└──────┴──────┴──────────────────────┴──────┴──────────┘\n"
                                "2 rows, 5 columns\n");
  CHECK_STATUS(tsr_frame_write_csv(df, test_tmp("e.csv")), TSR_OK, d.s);
  check_written("e.csv", "a,b,c,h,g\n-128,0,1,0.1,0.1\n"
                         "127,255,18446744073709551615,inf,3.39e+38\n");
  CHECK_STATUS(tsr_frame_write_json(df, test_tmp("e.jsonl")), TSR_OK, d.s);
  check_written("e.jsonl", "{\"a\":-128,\"b\":0,\"c\":1,\"h\":0.1,\"g\":0.1}\n"
                           "{\"a\":127,\"b\":255,\"c\":18446744073709551615,\"h\":null,"
                           "\"g\":3.39e+38}\n");
  CHECK_STATUS(tsr_frame_write_markdown(df, test_tmp("e.md")), TSR_OK, d.s);
  check_written("e.md", "| a | b | c | h | g |\n|--:|--:|--:|--:|--:|\n"
                        "| -128 | 0 | 1 | 0.1 | 0.1 |\n"
                        "| 127 | 255 | 18446744073709551615 | inf | 3.39e+38 |\n");
  desk_close(&d);
}

/* A filter on a narrow column is not judged by the reader, and says the same. */
TEST(filters_on_read_columns)
{
  desk d = desk_open("cpu:2");
  FILE *file = fopen(test_tmp("many.csv"), "w");
  fprintf(file, "a,h\n");
  for (int i = 0; i < 3000; i++) fprintf(file, "%d,%d.5\n", i % 251, i % 13);
  fclose(file);
  tsr_frame *df = tsr_frame_read_csv(d.s, test_tmp("many.csv"), .types = "a u8, h f16");
  check_text(&d,
             tsr_frame_agg(tsr_frame_filter(df, "a >= 250 and h < 3"), "count(), sum(a), max(h)"),
             "3 750 2.5");
  check_text(&d, tsr_frame_agg(tsr_frame_filter(df, "a is not null"), "count(), max(a)"),
             "3000 250");
  check_text(&d, tsr_frame_agg(df, "sum(a), mean(h)"), "373566 6.495");
  desk_close(&d);
}

TEST(a_null_is_replaced_by_what_fits)
{
  desk d = desk_open("cpu:1");
  uint8_t b[2] = { 5, 200 };
  tsr_frame *df =
      tsr_frame_new(d.s, { "b", tsr_put(d.s, b, TSR_U8, TSR_SHAPE(2), (tsr_sharding){ 0 }) });
  df = tsr_frame_assign(df, "b", "if(b > 9, b, null)");
  CHECK_I64(tsr_frame_column_type(df, 0), TSR_COL_U8);
  uint8_t found[2];
  CHECK_STATUS(tsr_read(tsr_frame_column(df, "b", .null_value = TSR_VALUE(7)), found, 2), TSR_OK,
               d.s);
  CHECK(found[0] == 7 && found[1] == 200);
  CHECK(tsr_is_inert(tsr_frame_column(df, "b", .null_value = TSR_VALUE(-1))));
  CHECK_STR_HAS(tsr_message(d.s), "a number that fits u8");
  tsr_scope_clear(d.s);
  tsr_frame *wide = tsr_frame_assign(df, "b", "cast(b, 'u64')");
  uint64_t far_found[2];
  tsr_array *array = tsr_frame_column(wide, "b", .null_value = TSR_VALUE(UINT64_MAX));
  CHECK_STATUS(tsr_read(array, far_found, sizeof far_found), TSR_OK, d.s);
  CHECK_U64(far_found[0], UINT64_MAX);
  check_text(&d, tsr_frame_fill_null(df, "b", "300"), "300 200");
  desk_close(&d);
}
