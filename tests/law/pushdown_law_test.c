/* The law of predicates: a filter that the reader of a file judges gives what it gives over columns
 * that were read whole: the same rows, names, types, bits and errors. Random texts hold every type,
 * nulls, quotes, late values that widen a column, and now and then a value that is an error, in
 * rows that are dropped too; 1 to 8 devices. CSV, JSON lines, and Arrow streams of several batches,
 * whose texts are views or of a dictionary. */
#include "tessera.h"

#include "harness.h"
#include "support/guarded_devices.h"
#include "support/law_fixture.h"

#include <stdio.h>
#include <string.h>

typedef struct trial {
  test_rng rng;
  uint64_t seed;
  tsr_csv_opts opts;
  char filters[400];
  bool headed; /* a head stands among the filters */
} trial;

static int64_t pick(trial *t, int64_t first, int64_t last)
{
  return test_range(&t->rng, first, last);
}

/* ---- texts ------------------------------------------------------------------------------- */

enum { COLUMNS = 8, LATE = 40 };

static const char *const words[] = {
  "ann", "bob", "amy", "\"an,n\"", "\"a \"\"b\"\"\"", "", "NA", "zo\xc3\xa9", "abcdefghijklmnopq"
};
static const char *const numbers[] = {
  "1.5", "-2", "nan", "inf", "1e3", "0.1234567890123", "-0.0"
};

static void put_value(trial *t, FILE *out, int column)
{
  int64_t way = pick(t, 0, 19);
  if (way == 0) fputs(pick(t, 0, 1) ? "" : "NA", out);
  else if (column == 0) fprintf(out, "%lld", (long long)pick(t, -20, 20));
  else if (column == 1 && way < 4) fputs(numbers[pick(t, 0, 6)], out);
  else if (column == 1) fprintf(out, "%.3f", (double)pick(t, -4000, 4000) / 1000);
  else if (column == 2) fprintf(out, "2013-%02d-%02d", (int)pick(t, 1, 12), (int)pick(t, 1, 28));
  else if (column == 3)
    fprintf(out, "2013-01-%02dT%02d:00:00", (int)pick(t, 1, 28), (int)pick(t, 0, 23));
  else if (column == 4) fputs(pick(t, 0, 1) ? "true" : "False", out);
  else if (column == 7) fprintf(out, "%lld", (long long)pick(t, -3, 3) * 123456789012345);
  else fputs(words[pick(t, 0, 8)], out);
}

/* A value that widens a column, or that cannot be read. */
static void put_odd(trial *t, FILE *out, int column)
{
  static const char *const odd[] = { "0.5", "x", "2013-01-01 10:00", "", "9223372036854775808" };
  int64_t way = pick(t, 0, LATE);
  if (way > 5) put_value(t, out, column);
  else if (way == 5) fputs(column == 5 || column == 6 ? "\xff" : "1", out);
  else fputs(odd[way], out);
}

static void put_file(trial *t, const char *path)
{
  FILE *out = fopen(path, "wb");
  /* Of large files the middle between the samples is not looked at before it is read. */
  int64_t rows = pick(t, 0, 7) ? pick(t, 0, 700) : 20000, late = pick(t, 0, 3) ? -1 : rows / 3;
  fputs("i,x,d,t,b,u,v,k\n", out);
  for (int64_t r = 0; r < rows; r++) {
    for (int c = 0; c < COLUMNS; c++) {
      if (c) fputc(',', out);
      if (late >= 0 && r > late && r < late + 3) put_odd(t, out, c);
      else put_value(t, out, c);
    }
    if (!pick(t, 0, 9999)) fputs(",more", out);
    fputs(pick(t, 0, 9) ? "\n" : "\r\n", out);
  }
  fclose(out);
}

/* ---- frames ------------------------------------------------------------------------------ */

static const char *const filters[] = {
  "i > 3",
  "i <= -2.5",
  "7 < i",
  "i in (1, 2, 15)",
  "i not in (3, 4)",
  "x > 1",
  "x != 1.5",
  "x in (1.5, -2)",
  "x == x",
  "x is null",
  "d is not null",
  "d >= '2013-06-15'",
  "d < '2013-02-01'",
  "t > '2013-01-20 10:00'",
  "t == '2013-01-05'",
  "b",
  "not b",
  "u == 'ann'",
  "u != 'bob'",
  "u in ('amy', 'an,n')",
  "u not in ('ann')",
  "starts_with(u, 'a')",
  "contains(v, 'b')",
  "ends_with(v, 'b\"')",
  "starts_with(upper(u), 'A')",
  "contains(v, 'an') and contains(lower(u), 'm')",
  "ends_with(trim(upper(v)), '\xc3\x89')",
  "contains(u, '')",
  "u < 'b'",
  "'ann' <= v",
  "v is null",
  "k > 0 and i > 0",
  "i * k > 5",
  "i > 0 or x > 0",
  "u == v",
  "length(v) > 3",
  "k < 5000000000",
  "between(i, -4, 4)",
  "x >= -0.5 and u == 'ann' and not b",
  "i > 100",
};
enum { FILTERS = sizeof filters / sizeof *filters };

/* What is done to the file's rows; `t->rng` decides, so that both ways do the same. */
static tsr_frame *chain(trial *t, tsr_frame *df)
{
  t->filters[0] = 0;
  t->headed = false;
  int64_t count = pick(t, 1, 3);
  for (int64_t i = 0; i < count; i++) {
    int64_t way = pick(t, 0, 7);
    if (way == 0) df = tsr_frame_assign(df, "y", "i * 2 + k");
    if (way == 1) df = tsr_frame_select(df, "x, i, u, d, t, b, k, v");
    if (way == 2) df = tsr_frame_assign(df, "x", "x + 1");
    if (way == 3 && i == 0) df = tsr_frame_with_row_index(df, "row");
    if (way == 4) df = tsr_frame_head(df, 300), t->headed = true;
    const char *filter = filters[pick(t, 0, FILTERS - 1)];
    size_t used = strlen(t->filters);
    snprintf(t->filters + used, sizeof t->filters - used, "%s; ", filter);
    df = tsr_frame_filter(df, filter);
  }
  switch (pick(t, 0, 7)) {
  case 0: return tsr_frame_group_agg(df, "u", "n = count(), s = sum(i), f = first(v)");
  case 1: return tsr_frame_agg(df, "n = count(), s = sum(x), m = max(k), q = nunique(v)");
  case 2: return tsr_frame_sort(df, "v, i desc, x");
  case 3: return tsr_frame_tail(df, 17);
  case 4: return tsr_frame_assign(df, "w", "concat(u, v)");
  case 5: return tsr_frame_agg(df, "n = count()");
  case 6: return tsr_frame_agg(df, "n = count(), s = sum(i), q = nunique(u)");
  default: return df;
  }
}

/* ---- the law ------------------------------------------------------------------------------- */

static tsr_frame *open_file(trial *t, tsr_runtime *rt, tsr_scope *s, int devices)
{
  char spec[20];
  snprintf(spec, sizeof spec, "x=%d", devices);
  tsr_csv_opts opts = t->opts;
  opts.on = tsr_on(tsr_mesh_make(rt, spec), "x");
  return tsr_frame_read_csv_with(s, test_tmp("sift.csv"), &opts, "law");
}

/* What a message says behind where the call stood. */
static const char *said(const tsr_scope *s)
{
  const char *name = strstr(tsr_message(s), tsr_status_name(tsr_scope_status(s)));
  return name ? name : tsr_message(s);
}

static bool try_one(tsr_runtime *rt, uint64_t seed)
{
  static const char *const types[] = { NULL, "i i32, x f32", "i f64, u text", "k i64" };
  trial t = { .rng = test_seeded(seed), .seed = seed };
  const char *path = test_tmp("sift.csv");
  t.opts = (tsr_csv_opts){ .size = sizeof t.opts,
                           .text_nulls = pick(&t, 0, 1),
                           .bad_rows = (tsr_bad_rows)pick(&t, 0, 2),
                           .types = types[pick(&t, 0, 3)] };
  put_file(&t, path);
  int devices = (int)pick(&t, 1, 8);
  test_rng here = t.rng;
  tsr_scope *whole = tsr_scope_open(rt), *pushed = tsr_scope_open(rt);
  tsr_table *expected = NULL, *found = NULL, *all;
  tsr_frame *df = open_file(&t, rt, whole, 1);
  /* Once its columns are there, a filter sifts nothing. */
  tsr_status read = tsr_frame_collect(df, &all);
  tsr_status status = read ? read : tsr_frame_collect(chain(&t, df), &expected);
  t.rng = here;
  df = open_file(&t, rt, pushed, devices);
  tsr_status other = tsr_frame_collect(chain(&t, df), &found);
  /* A column that the chain does not need is not read, nor is an error in it found. */
  bool fine = read ? other || tsr_frame_collect(df, &all) == read : other == status;
  if (read && other && strcmp(said(whole), said(pushed)) != 0) {
    /* What is wrong in a column that the chain does not need may come before what it found. */
    tsr_scope_clear(pushed);
    fine = tsr_frame_collect(df, &all) == read;
  }
  bool reads = strstr(said(whole), path) && strstr(said(pushed), path);
  if (!fine || (reads && strcmp(said(whole), said(pushed)) != 0))
    FAIL("seed %llu: '%s', expected '%s'; %s", (unsigned long long)seed, tsr_message(pushed),
         tsr_message(whole), t.filters);
  const char *differs = status ? NULL : law_differs(found, expected);
  if (differs && t.headed) {
    /* A head stops the reader: a value after it widens no type. One device reads as far. */
    t.rng = here;
    df = open_file(&t, rt, whole, 1);
    CHECK_STATUS(tsr_frame_collect(chain(&t, df), &expected), TSR_OK, whole);
    differs = law_differs(found, expected);
  }
  if (differs) FAIL("seed %llu: %s; %s", (unsigned long long)seed, differs, t.filters);
  bool some = !status && tsr_table_row_count(expected) > 0;
  tsr_scope_close(pushed);
  tsr_scope_close(whole);
  return some;
}

TEST_TIMEOUT(sifted_is_filtered, 900)
{
  law_each_seed_on_8(7000, guard_asked() ? 50 : test_quick() ? 150 : 1200, 1.0 / 3, try_one);
}

/* ---- JSON lines and Arrow streams ---------------------------------------------------------- */

static void put_json_value(trial *t, FILE *out, int column)
{
  static const char *const texts[] = { "ann",  "bob",         "amy",
                                       "an,n", "a \\\"b\\\"", "",
                                       "NA",   "zo\\u00e9",   "abcdefghijklmnopq" };
  if (column == 0) fprintf(out, "%lld", (long long)pick(t, -20, 20));
  else if (column == 1) fprintf(out, "%.3f", (double)pick(t, -4000, 4000) / 1000);
  else if (column == 2)
    fprintf(out, "\"2013-%02d-%02d\"", (int)pick(t, 1, 12), (int)pick(t, 1, 28));
  else if (column == 3)
    fprintf(out, "\"2013-01-%02dT%02d:00:00\"", (int)pick(t, 1, 28), (int)pick(t, 0, 23));
  else if (column == 4) fputs(pick(t, 0, 1) ? "true" : "false", out);
  else if (column == 7) fprintf(out, "%lld", (long long)pick(t, -3, 3) * 123456789012345);
  else fprintf(out, "\"%s%.0d\"", texts[pick(t, 0, 8)], (int)pick(t, 0, 1) * (int)pick(t, 0, 900));
}

/* The first line has all names; others leave some out. `odd`: values that columns of texts hold as
 * they stand, and lines that cannot be read. */
static void put_json(trial *t, const char *path)
{
  static const char *const odd[] = { "1e2", "true", "{\"a\": 1}", "\"2013-01-01\"" };
  FILE *out = fopen(path, "wb");
  int64_t rows = pick(t, 0, 7) ? pick(t, 0, 700) : 20000;
  bool odds = !pick(t, 0, 2);
  for (int64_t r = 0; r <= rows; r++) {
    const char *comma = "";
    fputs("{", out);
    for (int c = 0; c < COLUMNS; c++) {
      int64_t way = r ? pick(t, 0, 19) : 9;
      if (way == 0) continue;
      fprintf(out, "%s\"%c\": ", comma, "ixdtbuvk"[c]);
      comma = ", ";
      if (way == 1) fputs("null", out);
      else if (odds && way == 2 && (c == 5 || c == 6)) fputs(odd[pick(t, 0, 3)], out);
      else put_json_value(t, out, c);
    }
    fputs(odds && !pick(t, 0, 99) ? ",}\n" : "}\n", out);
  }
  fclose(out);
}

static tsr_sharding place(tsr_runtime *rt, int devices)
{
  char spec[20];
  snprintf(spec, sizeof spec, "x=%d", devices);
  return tsr_on(tsr_mesh_make(rt, spec), "x");
}

static tsr_frame *open_json(trial *t, tsr_runtime *rt, tsr_scope *s, int devices)
{
  return tsr_frame_read_json(s, test_tmp("sift.jsonl"), .on = place(rt, devices),
                             .bad_rows = t->opts.bad_rows);
}

/* What the file holds, as a stream of a batch for each of `batches` devices. */
static tsr_frame *open_stream(trial *t, tsr_runtime *rt, tsr_scope *s, const int devices[2])
{
  struct ArrowArrayStream stream = { 0 };
  tsr_frame *df = open_json(t, rt, s, devices[1]);
  /* Each process gives the stream's rows, which it must have. */
  if (tsr_process_count(rt) > 1)
    df = tsr_frame_read_json(s, test_tmp("sift.jsonl"), .bad_rows = t->opts.bad_rows,
                             .on = tsr_on(tsr_mesh_make(rt, "x=8"), "-"));
  if (tsr_frame_to_arrow(df, &stream, .texts = (tsr_arrow_texts)(t->seed % 3))) return df;
  return tsr_frame_from_arrow(s, &stream, .on = place(rt, devices[0]));
}

typedef struct sides {
  tsr_scope *scope[2];
  tsr_frame *df[2]; /* read whole, and by predicates */
} sides;

/* One chain over both, with columns of the first all there. */
static bool agree(trial *t, const sides *both)
{
  test_rng here = t->rng;
  tsr_table *table[2] = { NULL, NULL }, *all;
  tsr_status status[2];
  if (tsr_frame_collect(both->df[0], &all)) tsr_scope_clear(both->scope[0]);
  for (int i = 0; i < 2; i++) {
    t->rng = here;
    status[i] = tsr_frame_collect(chain(t, both->df[i]), &table[i]);
  }
  const char *differs = status[0] ? NULL : law_differs(table[1], table[0]);
  if (status[0] != status[1] || (status[0] && strcmp(said(both->scope[0]), said(both->scope[1]))))
    FAIL("seed %llu: '%s', expected '%s'; %s", (unsigned long long)t->seed,
         tsr_message(both->scope[1]), tsr_message(both->scope[0]), t->filters);
  if (differs) FAIL("seed %llu: %s; %s", (unsigned long long)t->seed, differs, t->filters);
  /* Other filters over what is there now. */
  if (!status[0]) status[0] = tsr_frame_collect(chain(t, both->df[1]), &table[1]);
  return !status[0] && tsr_table_row_count(table[0]) > 0;
}

static bool try_other(tsr_runtime *rt, uint64_t seed, bool stream)
{
  trial t = { .rng = test_seeded(seed), .seed = seed };
  t.opts.bad_rows = (tsr_bad_rows)pick(&t, 0, 2);
  put_json(&t, test_tmp("sift.jsonl"));
  sides both = { { tsr_scope_open(rt), tsr_scope_open(rt) }, { NULL, NULL } };
  int devices[2][2] = { { 1, 1 }, { (int)pick(&t, 1, 3), (int)pick(&t, 1, 4) } };
  if (pick(&t, 0, 1)) devices[1][0] = (int)pick(&t, 1, 8);
  for (int i = 0; i < 2; i++)
    both.df[i] = stream ? open_stream(&t, rt, both.scope[i], devices[i])
                        : open_json(&t, rt, both.scope[i], devices[i][0]);
  bool some = !tsr_scope_status(both.scope[0]) && agree(&t, &both);
  for (int i = 0; i < 2; i++) tsr_scope_close(both.scope[i]);
  return some;
}

static bool try_json(tsr_runtime *rt, uint64_t seed)
{
  return try_other(rt, seed, false);
}

static bool try_stream(tsr_runtime *rt, uint64_t seed)
{
  return try_other(rt, seed, true);
}

TEST_TIMEOUT(sifted_lines_are_filtered, 900)
{
  law_each_seed_on_8(17000, guard_asked() ? 30 : test_quick() ? 100 : 600, 1.0 / 4, try_json);
}

TEST_TIMEOUT(sifted_streams_are_filtered, 900)
{
  law_each_seed_on_8(27000, guard_asked() ? 30 : test_quick() ? 100 : 600, 1.0 / 4, try_stream);
}

/* ---- first rows ---------------------------------------------------------------------------- */

/* Files that are as long as, a little shorter and longer than what is looked at first for a head
 * behind conditions, which hold seldom or never; and what follows on the head. Several chains stand
 * on one file, and each is asked twice, so that what one terminal read and kept is there for the
 * next. */
enum { CHAINS = 3, FRONT = 1 << 14 };

/* Whether a row of the file retypes a column or cannot be read. */
static bool put_few(trial *t, const char *path)
{
  static const int64_t rows[] = {
    0, 1, 2, 90, FRONT - 1, FRONT, FRONT + 1, 2 * FRONT, 8 * FRONT + 3
  };
  static const int64_t every[] = { 1, 40, 5000, FRONT - 1, FRONT + 1, 3 * FRONT, 100 * FRONT };
  static const char *const odd[] = { "x,1,2,bob", "1,1.5,1,bob", "1,2,3,bob,4", "1,2,3,\xff",
                                     "1,2" };
  int64_t count = rows[pick(t, 0, 8)], rare = every[pick(t, 0, 6)], at = pick(t, 0, 2 * count);
  FILE *out = fopen(path, "wb");
  fputs("i,k,g,u\n", out);
  for (int64_t r = 0; r < count; r++) {
    long long rest = (long long)((r + 1) % rare);
    if (r == at) fprintf(out, "%s\n", odd[pick(t, 0, 4)]);
    else
      fprintf(out, "%lld,%lld,%lld,%s\n", (long long)r, rest, (long long)(r * 7 % 3),
              rest ? words[r % 3] : "rare");
  }
  fclose(out);
  return at < count;
}

/* Whatever may follow on a head. */
static tsr_frame *after_head(trial *t, tsr_frame *df)
{
  switch (pick(t, 0, 13)) {
  case 0: return tsr_frame_distinct(df, "g");
  case 1: return tsr_frame_distinct(df, NULL);
  case 2: return tsr_frame_group_head(df, "u, g", pick(t, 0, 2));
  case 3: return tsr_frame_sort(df, "g desc, i desc");
  case 4: return tsr_frame_tail(df, pick(t, 0, 3));
  case 5: return tsr_frame_sample(df, .rows = 2, .seed = 7);
  case 6: return tsr_frame_head(df, pick(t, 0, 3));
  case 7: return tsr_frame_filter(df, "g > 0");
  case 8: return tsr_frame_assign(df, "i", "i * 3 + k");
  case 9: return tsr_frame_concat(df, df);
  case 10: return tsr_frame_agg(df, "i = sum(i), k = max(k), g = count(), u = max(u)");
  case 11: return tsr_frame_group_agg(df, "g, u", "i = sum(i), k = nunique(k)");
  case 12: return tsr_frame_assign(df, "u", "concat(u, cast(g, 'text'))");
  default: return df;
  }
}

static tsr_frame *head_chain(trial *t, tsr_frame *df)
{
  static const char *const rare[] = {
    "k == 0", "u == 'rare'", "k < 1 and i >= 0", "k * 2 == 0", "starts_with(upper(u), 'R')",
    "g >= 0"
  };
  const char *filter = rare[pick(t, 0, 5)];
  int64_t first = pick(t, 0, 2) ? 0 : pick(t, 1, 3), count = pick(t, 0, 4), more = pick(t, 0, 3);
  snprintf(t->filters, sizeof t->filters, "%s; %lld, %lld; %lld more", filter, (long long)first,
           (long long)count, (long long)more);
  if (!pick(t, 0, 3)) df = tsr_frame_assign(df, "k", "k + 0");
  if (pick(t, 0, 7)) df = tsr_frame_filter(df, filter);
  df = tsr_frame_limit(df, first, count);
  for (int64_t i = 0; i < more; i++) df = after_head(t, df);
  return df;
}

/* What the chains give, of one side. */
typedef struct given {
  tsr_scope *s;
  tsr_status status[2 * CHAINS];
  tsr_table *table[2 * CHAINS];
  char said[2 * CHAINS][300], chain[CHAINS][sizeof((trial *)0)->filters];
} given;

/* `whole`: the file's columns are all there before; else they may be read between two chains. */
static given ask_heads(trial t, tsr_runtime *rt, int devices, bool whole)
{
  given out = { .s = tsr_scope_open(rt) };
  tsr_frame *df = open_file(&t, rt, out.s, devices), *chain[CHAINS];
  tsr_table *all;
  int64_t between = pick(&t, -CHAINS, 2 * CHAINS);
  for (int i = 0; i < CHAINS; i++) {
    chain[i] = head_chain(&t, df);
    memcpy(out.chain[i], t.filters, sizeof t.filters);
  }
  for (int i = 0; i < 2 * CHAINS; i++) {
    if ((whole ? !i : i == between) && tsr_frame_collect(df, &all)) tsr_scope_clear(out.s);
    tsr_scope_clear(out.s); /* what the chain before said */
    bool counts = pick(&t, 0, 2) == 0;
    int64_t rows = -1;
    if (counts) out.status[i] = tsr_frame_row_count(chain[i % CHAINS], &rows);
    if (!out.status[i]) out.status[i] = tsr_frame_collect(chain[i % CHAINS], &out.table[i]);
    if (counts && !out.status[i]) CHECK_I64(rows, tsr_table_row_count(out.table[i]));
    snprintf(out.said[i], sizeof out.said[i], "%s", out.status[i] ? said(out.s) : "");
  }
  return out;
}

static bool heads_agree(const trial *t, const given *found, const given *expected)
{
  bool some = false;
  for (int i = 0; i < 2 * CHAINS; i++) {
    const char *differs = NULL, *chain = found->chain[i % CHAINS];
    if (found->status[i] != expected->status[i] || strcmp(found->said[i], expected->said[i]) != 0)
      FAIL("seed %llu, %d: '%s', expected '%s'; %s", (unsigned long long)t->seed, i, found->said[i],
           expected->said[i], chain);
    if (!found->status[i]) differs = law_differs(found->table[i], expected->table[i]);
    if (differs) FAIL("seed %llu, %d: %s; %s", (unsigned long long)t->seed, i, differs, chain);
    some = some || (!found->status[i] && tsr_table_row_count(found->table[i]) > 0);
  }
  return some;
}

/* A limit that is never reached is none; and where nothing is odd the first rows are those of the
 * whole file. */
static bool try_heads(tsr_runtime *rt, uint64_t seed)
{
  trial t = { .rng = test_seeded(seed), .seed = seed };
  t.opts = (tsr_csv_opts){ .size = sizeof t.opts };
  bool odd = put_few(&t, test_tmp("sift.csv")), alone = tsr_process_count(rt) == 1;
  int devices = (int)pick(&t, 1, 8);
  tsr_runtime *with = alone ? tsr_runtime_open("cpu:8", .memory_limit = INT64_C(1) << 33) : rt;
  given found = ask_heads(t, rt, devices, false), limited = ask_heads(t, with, devices, false);
  bool some = heads_agree(&t, &limited, &found);
  if (!odd) {
    given whole = ask_heads(t, rt, 1, true);
    some = heads_agree(&t, &found, &whole);
    tsr_scope_close(whole.s);
  }
  tsr_scope_close(limited.s);
  tsr_scope_close(found.s);
  if (with != rt) tsr_runtime_close(with);
  return some;
}

TEST_TIMEOUT(first_rows_are_those_of_the_file, 900)
{
  law_each_seed_on_8(37000, guard_asked() ? 10 : test_quick() ? 40 : 200, 1.0 / 3, try_heads);
}
