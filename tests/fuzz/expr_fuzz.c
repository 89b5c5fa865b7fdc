/* Any bytes as an expression: never a crash; what is refused has a message, what is taken prints as
 * a text that reads back the same, and runs on a small frame to an end of some kind. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "frame/expr.h"
#include "tessera.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)     \
  do {                         \
    if (!(condition)) abort(); \
  } while (0)

static const tsr__field fields[] = {
  { "a", TSR_COL_I64 },   { "i", TSR_COL_I32 },    { "x", TSR_COL_F64 },   { "h", TSR_COL_F32 },
  { "ok", TSR_COL_BOOL }, { "day", TSR_COL_DATE }, { "at", TSR_COL_TIME }, { "who", TSR_COL_TEXT },
};

static void print(const tsr__formula *formula, tsr__text *out)
{
  for (int i = 0; i < formula->count; i++) {
    if (i) tsr__text_add(out, ", ");
    tsr__expr_print(formula->item[i].expr, out);
  }
}

/* Parses, checks, prints and reads back. */
static void parse(const char *text, bool list)
{
  const tsr__schema schema = { sizeof fields / sizeof *fields, fields };
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
    tsr__text once, twice;
    tsr__text_init(&once, NULL);
    tsr__text_init(&twice, NULL);
    print(&formula, &once);
    const tsr_formula again = { .text = tsr__text_get(&once) };
    const tsr__parse_ask back = { "fuzz", &again, list };
    REQUIRE(strlen(again.text) > 65536 || !tsr__parse(&back, &arena, &formula, &error));
    if (!error.status) print(&formula, &twice);
    REQUIRE(error.status || !strcmp(tsr__text_get(&once), tsr__text_get(&twice)));
    for (int i = 0; !error.status && i < formula.count; i++)
      tsr__check(&formula, formula.item[i].expr, &schema, list ? TSR__IN_AGG : TSR__IN_ROW, &error);
    tsr__text_free(&once);
    tsr__text_free(&twice);
  }
  REQUIRE(!error.status || (error.text[0] && strlen(error.text) < sizeof error.text));
  tsr__arena_free(&arena);
  REQUIRE(heap.live == 0);
}

static void run(tsr_runtime *rt, const char *text)
{
  static const int64_t a[5] = { 0, 1, -7, INT64_MAX, INT64_MIN };
  static const int32_t i[5] = { 0, -1, 5, INT32_MAX, INT32_MIN };
  static const double x[5] = { 0.0, -0.0, 1.5, 1e300, -2.25 };
  static const bool ok[5] = { true, false, true, false, true };
  static const char *const who[5] = { "", "b", NULL, "a", "b" };
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding at = tsr_on(tsr_mesh_default(rt, "data"), "data");
  tsr_frame *df = tsr_frame_new(s, { "a", tsr_put(s, a, TSR_I64, TSR_SHAPE(5), at) },
                                { "i", tsr_put(s, i, TSR_I32, TSR_SHAPE(5), at) },
                                { "x", tsr_put(s, x, TSR_F64, TSR_SHAPE(5), at) },
                                { "ok", tsr_put(s, ok, TSR_BOOL, TSR_SHAPE(5), at) });
  df = tsr_frame_text_column(df, "who", who, 5);
  REQUIRE(!tsr_scope_status(s));
  REQUIRE(strlen(tsr_frame_text(tsr_frame_assign(df, "z", text))) > 0);
  tsr_scope_clear(s);
  REQUIRE(strlen(tsr_frame_text(tsr_frame_filter(df, text))) > 0);
  tsr_scope_clear(s);
  REQUIRE(strlen(tsr_frame_text(tsr_frame_agg(df, text))) > 0);
  tsr_scope_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static tsr_runtime *rt;
  if (!rt) rt = tsr_runtime_open("cpu:2", .threads = 1);
  char *text = malloc(size + 1);
  REQUIRE(text);
  if (size) memcpy(text, data, size);
  text[size] = '\0';
  parse(text, false);
  parse(text, true);
  if (size < 400) run(rt, text);
  free(text);
  return 0;
}
