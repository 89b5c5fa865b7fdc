/* Any bytes as a CSV or JSON file under a chain that filters and chooses what it reads: one device
 * and three give the same, and where the whole file can be read first, the same chain over what was
 * read gives the same as over the file, however much of the chain the reader takes upon itself. The
 * first four bytes choose format and options, predicates, and what is made of the rows. */
#include "fuzz_frame.h"

enum { CHOICES = 4 };

struct side {
  tsr_runtime *rt;
  tsr_scope *scope;
};

static tsr_frame *open_file(tsr_scope *s, const char *path, const uint8_t *choice)
{
  static const char separators[] = ",;\t|";
  tsr_bad_rows bad = (tsr_bad_rows)((choice[0] >> 1 & 3) % 3);
  if (choice[0] & 1) return tsr_frame_read_json(s, path, .bad_rows = bad);
  return tsr_frame_read_csv(s, path, .bad_rows = bad, .separator = separators[choice[0] >> 3 & 3],
                            .no_header = choice[0] >> 5 & 1, .text_nulls = choice[0] >> 6 & 1,
                            .comment = choice[0] >> 7 ? '#' : 0);
}

/* A predicate of one column by its type. */
static void predicate(const tsr_frame *df, int column, uint8_t choice, tsr__text *out)
{
  static const char *const ops[] = { "==", "!=", "<", "<=", ">", ">=" };
  static const char *const numbers[] = { "0", "3", "-1.5", "9007199254740993" };
  static const char *const texts[] = { "''", "'a'", "'x'", "'2013-01-01'" };
  tsr__text name;
  tsr__text_init(&name, NULL);
  for (const char *c = tsr_frame_column_name(df, column); *c; c++)
    tsr__text_add(&name, *c == '"' ? "\"\"" : "%c", *c);
  const char *op = ops[(choice & 7) % 6];
  tsr_coltype type = tsr_frame_column_type(df, column);
  if ((choice & 0xc0) == 0xc0)
    tsr__text_add(out, "\"%s\" is %snull", tsr__text_get(&name), choice & 8 ? "not " : "");
  else if (type == TSR_COL_BOOL) tsr__text_add(out, "\"%s\"", tsr__text_get(&name));
  else if (type == TSR_COL_TEXT)
    tsr__text_add(out, "\"%s\" %s %s", tsr__text_get(&name), op, texts[choice >> 4 & 3]);
  else if (type == TSR_COL_DATE || type == TSR_COL_TIME)
    tsr__text_add(out, "\"%s\" %s '2013-07-01'", tsr__text_get(&name), op);
  else tsr__text_add(out, "\"%s\" %s %s", tsr__text_get(&name), op, numbers[choice >> 4 & 3]);
  tsr__text_free(&name);
}

static tsr_frame *chain(tsr_frame *df, const uint8_t *choice)
{
  static const char *const joins[] = { " and ", " or ", " and not ", " or not " };
  int columns = tsr_frame_column_count(df);
  tsr__text text;
  if (!columns) return df;
  tsr__text_init(&text, NULL);
  predicate(df, choice[1] % columns, choice[1], &text);
  if (choice[2]) {
    tsr__text_add(&text, "%s", joins[choice[3] & 3]);
    predicate(df, choice[2] % columns, choice[2], &text);
  }
  df = tsr_frame_filter(df, tsr__text_get(&text));
  tsr__text_free(&text);
  switch (choice[3] >> 2 & 7) {
  case 1: return tsr_frame_count(df);
  case 2: return tsr_frame_agg(df, "count()");
  case 3: return tsr_frame_head(df, choice[2] % 5);
  case 4: return tsr_frame_limit(df, 1, choice[2] % 7);
  case 5: return tsr_frame_tail(df, 3);
  case 6: return tsr_frame_with_row_index(df, "the row");
  case 7: return tsr_frame_value_counts(df, tsr_frame_column_name(df, 0));
  default: return df;
  }
}

/* Straight from the file. */
static fuzz_outcome lazily(tsr_runtime *rt, const char *path, const uint8_t *choice)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = open_file(s, path, choice);
  fuzz_outcome out = fuzz_collect(s, chain(df, choice));
  tsr_scope_close(s);
  return out;
}

/* All columns of all rows first; false: they cannot be read. */
static bool eagerly(tsr_runtime *rt, const char *path, const uint8_t *choice, fuzz_outcome *out)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = open_file(s, path, choice);
  tsr_frame *kept = tsr_frame_keep(s, df);
  bool same = !tsr_scope_status(s);
  /* A late value that made a column another type is known at the call here, at the terminal
   * there. */
  for (int c = 0; same && c < tsr_frame_column_count(df); c++)
    same = tsr_frame_column_type(df, c) == tsr_frame_column_type(kept, c);
  if (same) *out = fuzz_collect(s, chain(kept, choice));
  tsr_scope_close(s);
  return same;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static tsr_runtime *one, *three;
  char path[FUZZ_PATH];
  fuzz_outcome whole;
  if (size < CHOICES || size > 1 << 14) return 0;
  if (!one) one = tsr_runtime_open("cpu:1", .threads = 1, .plan_cache = 8);
  if (!three) three = tsr_runtime_open("cpu:3", .threads = 1, .isa = "baseline", .plan_cache = 8);
  int fd = fuzz_file(data + CHOICES, size - CHOICES, path);
  fuzz_outcome a = lazily(one, path, data), b = lazily(three, path, data);
  fuzz_same("on three devices", &a, &b);
  if (eagerly(one, path, data, &whole)) fuzz_same("of the kept rows", &a, &whole);
  close(fd);
  return 0;
}
