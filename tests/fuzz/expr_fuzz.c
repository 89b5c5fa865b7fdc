/* Any bytes as an expression: never a crash; what is refused has a message; what is taken prints as
 * a text that reads back the same, and computed on a frame with nulls in columns of every type it
 * gives the same values or the same error on one device, on three, and with another instruction
 * set, and as it is printed, where chains are written out. What fails as a column fails as a key,
 * and nothing else does. */
#include "frame/expr/expr.h"
#include "fuzz_frame.h"

static const tsr__field fields[] = {
  { "a", TSR_COL_I64, false },   { "i", TSR_COL_I32, false },    { "x", TSR_COL_F64, false },
  { "h", TSR_COL_F32, false },   { "ok", TSR_COL_BOOL, false },  { "day", TSR_COL_DATE, false },
  { "at", TSR_COL_TIME, false }, { "who", TSR_COL_TEXT, false }, { "s", TSR_COL_I8, false },
  { "n", TSR_COL_U8, false },    { "u", TSR_COL_U64, false },    { "f", TSR_COL_F16, false },
  { "g", TSR_COL_BF16, false },
};

static const char rows[] =
    "a,i,x,h,ok,day,at,who,s,n,u,f,g\n"
    "0,0,0.0,0.5,true,1970-01-01,1970-01-01T00:00:00Z,,0,0,0,0.5,-0.0\n"
    "1,-1,-0.0,-0.0,false,2000-02-29,2000-02-29T23:59:59.999999Z,b,-1,1,1,-0.0,1.5\n"
    ",,,,,,,-,,,,,\n"
    "-7,5,1.5,nan,true,1969-12-31,1969-12-31T12:00:00Z,a,5,7,9223372036854775808,nan,nan\n"
    "9223372036854775807,2147483647,1e300,inf,,9999-12-31,9999-12-31T23:59:59Z,été,"
    "127,255,18446744073709551615,65504,3e38\n"
    "-9223372036854775808,-2147483648,nan,-3e38,false,0001-01-01,0001-01-01T00:00:00Z,b,"
    "-128,0,9223372036854775807,-inf,1e-40\n"
    "3,,-2.25,1,true,,2013-07-01T06:30:15Z, A b ,3,,12,6e-8,0.1\n"
    "12,7,inf,2,,2013-07-01,,2013-07-01,,12,7,0.1,inf\n"
    "12,7,-inf,,true,2013-07-01,2013-07-01T00:00:00Z,12,7,12,,2,\n";

static void print(const tsr__formula *formula, tsr__text *out)
{
  for (int i = 0; i < formula->count; i++) {
    if (i) tsr__text_add(out, ", ");
    tsr__expr_print(formula->item[i].expr, out);
  }
}

/* Prints and reads back. */
static void read_back(const tsr__formula *formula, bool list, tsr__arena *arena)
{
  tsr__text once, twice;
  tsr__formula second;
  tsr__error error = { .status = TSR_OK };
  tsr__text_init(&once, NULL);
  tsr__text_init(&twice, NULL);
  print(formula, &once);
  const tsr_formula again = { .text = tsr__text_get(&once) };
  const tsr__parse_ask back = { "fuzz", &again, list };
  if (strlen(again.text) <= 65536) {
    REQUIRE(!tsr__parse(&back, arena, &second, &error));
    print(&second, &twice);
    REQUIRE(!strcmp(tsr__text_get(&once), tsr__text_get(&twice)));
  }
  tsr__text_free(&once);
  tsr__text_free(&twice);
}

/* Parses and checks; true where a frame of these columns would take it. */
static bool parse(const char *text, bool list)
{
  const tsr__schema schema = { sizeof fields / sizeof *fields, fields, NULL };
  const tsr_formula given = { .text = text };
  const tsr__parse_ask ask = { "fuzz", &given, list };
  tsr__heap heap;
  tsr__arena arena;
  tsr__formula formula;
  tsr__error error = { .status = TSR_OK };
  tsr__heap_init(&heap, NULL);
  tsr__arena_init(&arena, &heap);
  tsr_status status = tsr__parse(&ask, &arena, &formula, &error);
  REQUIRE(status == error.status);
  if (!status) {
    read_back(&formula, list, &arena);
    for (int i = 0; !error.status && i < formula.count; i++)
      tsr__check(&formula, formula.item[i].expr, &schema, list ? TSR__IN_AGG : TSR__IN_ROW, &error);
  }
  if (error.status) fuzz_message(error.text, sizeof error.text);
  tsr__arena_free(&arena);
  REQUIRE(heap.live == 0);
  return !error.status;
}

static bool keys(const char *text, bool pairs)
{
  tsr__heap heap;
  tsr__arena arena;
  tsr__keylist list;
  tsr__error error = { .status = TSR_OK };
  tsr__heap_init(&heap, NULL);
  tsr__arena_init(&arena, &heap);
  tsr_status status = pairs ? tsr__parse_pairs("fuzz", text, &arena, &list.formula, &error)
                            : tsr__parse_keys("fuzz", text, &arena, &list, &error);
  REQUIRE(status == error.status);
  if (status) fuzz_message(error.text, sizeof error.text);
  tsr__arena_free(&arena);
  REQUIRE(heap.live == 0);
  return !status;
}

/* ---- running --------------------------------------------------------------------------------- */

/* A runtime and the frame of `rows` on its devices. */
struct side {
  tsr_runtime *rt;
  tsr_scope *scope;
  tsr_frame *df;
};

static void open_side(struct side *side, const char *devices, const char *isa)
{
  char path[FUZZ_PATH];
  if (side->rt) return;
  side->rt = tsr_runtime_open(devices, .threads = 1, .isa = isa, .plan_cache = 8);
  side->scope = tsr_scope_open(side->rt);
  int fd = fuzz_file(rows, sizeof rows - 1, path);
  tsr_scope *s = tsr_scope_open(side->rt);
  tsr_frame *df = tsr_frame_read_csv(s, path, .text_nulls = true, .nulls = "-",
                                     .types = "a i64, i i32, x f64, h f32, ok bool, day date, "
                                              "at time, who text, s i8, n u8, u u64, f f16, "
                                              "g bf16");
  side->df = tsr_frame_keep(side->scope, df);
  REQUIRE(!tsr_scope_status(s) && !tsr_scope_status(side->scope));
  tsr_scope_close(s);
  close(fd);
}

enum run { ASSIGN, FILTER, SELECT, AGG, GROUP, GROUP_BY, SORT, DISTINCT_BY, JOIN, RUNS };

static tsr_frame *make(enum run run, tsr_frame *df, const char *text)
{
  switch (run) {
  case ASSIGN: return tsr_frame_assign(df, "z", text);
  case FILTER: return tsr_frame_filter(df, text);
  case SELECT: return tsr_frame_select(df, text);
  case AGG: return tsr_frame_agg(df, text);
  case GROUP: return tsr_frame_group_agg(df, "who", text);
  case GROUP_BY: return tsr_frame_group_agg(df, text, "count(), sum(x), max(at)");
  case SORT: return tsr_frame_sort(df, text);
  case JOIN: return tsr_frame_join(df, tsr_frame_tail(df, 3), text, .how = TSR_JOIN_LEFT);
  default: return tsr_frame_agg(tsr_frame_filter(df, text), "count(), sum(x), first(who)");
  }
}

static fuzz_outcome run_on(const struct side *side, enum run run, const char *text)
{
  tsr_scope *s = tsr_scope_open(side->rt);
  fuzz_outcome out = fuzz_collect(s, make(run, tsr_frame_keep(s, side->df), text));
  tsr_scope_close(s);
  return out;
}

/* The same column from the text as the library writes it. */
static void compare_written_out(const struct side *side, const char *text,
                                const fuzz_outcome *expected)
{
  const tsr_formula given = { .text = text };
  const tsr__parse_ask ask = { "fuzz", &given, false };
  tsr__heap heap;
  tsr__arena arena;
  tsr__formula formula;
  tsr__error error = { .status = TSR_OK };
  tsr__text out;
  tsr__text_init(&out, NULL);
  tsr__heap_init(&heap, NULL);
  tsr__arena_init(&arena, &heap);
  REQUIRE(!tsr__parse(&ask, &arena, &formula, &error));
  print(&formula, &out);
  if (out.length <= 4096) {
    fuzz_outcome found = run_on(side, ASSIGN, tsr__text_get(&out));
    fuzz_same("written out", &found, expected);
  }
  tsr__text_free(&out);
  tsr__arena_free(&arena);
}

static void compute(const char *text, bool in_row, bool in_agg, bool as_keys, bool as_pairs)
{
  static const char *const names[RUNS] = { "assign",   "filter", "select",       "agg", "group",
                                           "group by", "sort",   "filter + agg", "join" };
  static struct side sides[3];
  open_side(&sides[0], "cpu:1", NULL);
  open_side(&sides[1], "cpu:3", NULL);
  open_side(&sides[2], "cpu:2", "baseline");
  const bool can[RUNS] = { in_row,  in_row,  in_row, in_agg,  in_agg,
                           as_keys, as_keys, in_row, as_pairs };
  fuzz_outcome column = { .status = TSR_OK };
  for (int run = 0; run < RUNS; run++) {
    if (!can[run]) continue;
    fuzz_outcome one = run_on(&sides[0], (enum run)run, text);
    if (run == ASSIGN) {
      column = one;
      compare_written_out(&sides[0], text, &column);
    }
    bool key = run == GROUP_BY || run == SORT;
    if (in_row && key && (column.status == TSR_EVALUE) != (one.status == TSR_EVALUE) &&
        (!column.status || !one.status))
      fuzz_same(names[run], &one, &column);
    for (int side = 1; side < 3; side++) {
      fuzz_outcome other = run_on(&sides[side], (enum run)run, text);
      fuzz_same(names[run], &one, &other);
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char *text = fuzz_text(data, size);
  bool in_row = parse(text, false), in_agg = parse(text, true), as_keys = keys(text, false),
       as_pairs = keys(text, true);
  if (size < 300 && (in_row || in_agg || as_keys || as_pairs))
    compute(text, in_row, in_agg, as_keys, as_pairs);
  free(text);
  return 0;
}
