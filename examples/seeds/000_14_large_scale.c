/* Frames, block 14: the large example: filter, derived column, three aggregates, printing.
 *
 * Names are those of the frame at that point of the chain, so `revenue / sessions` means the rows
 * that the filter left. Some of these have no sessions: the mean of the quotients is honestly
 * infinite, and two finite figures are printed beside it. */
#include "check.h"
#include "inputs.h"

enum { ROWS = 1000000 };

static double revenue(int64_t i)
{
  uint32_t h = (uint32_t)((uint64_t)i * 2654435761u);
  int k = 0;
  while (!((h | 1) >> (31 - k))) k++;
  int m = (int)((h << k) >> 23) % 256;
  return 277.0 * (256 * (k + 1) - m) / 1024;
}

static int64_t sessions(int64_t i)
{
  uint32_t bits = (uint32_t)((uint64_t)i * 2246822519u + 374761393u) >> 22;
  int64_t ones = 0;
  for (; bits; bits >>= 1) ones += bits & 1;
  return ones;
}

/* Writes a number with two decimals and a comma every three digits: 95,020,354.97. */
static const char *grouped(double value, int decimals, char out[64])
{
  char plain[64];
  int length = snprintf(plain, sizeof plain, "%.*f", decimals, value), at = 0;
  int whole = (int)strcspn(plain, ".");
  for (int i = 0; i < length; i++) {
    if (i > 0 && i < whole && (whole - i) % 3 == 0 && plain[i - 1] != '-') out[at++] = ',';
    out[at++] = plain[i];
  }
  out[at] = 0;
  return isfinite(value) ? out : strcpy(out, plain);
}

static void print_result(check *c, const tsr_row *row)
{
  char number[64], line[128];
  snprintf(line, sizeof line, "Total revenue: $%s",
           grouped(tsr_row_f64(row, "revenue"), 2, number));
  check_print(c, "printed", 0, line);
  snprintf(line, sizeof line, "Total sessions: %s",
           grouped(tsr_row_f64(row, "sessions"), 0, number));
  check_print(c, "printed", 1, line);
  snprintf(line, sizeof line, "Avg revenue/session: $%s",
           grouped(tsr_row_f64(row, "revenue_per_session"), 2, number));
  check_print(c, "printed", 2, line);
}

/* What is finite: the mean over rows with sessions, and the quotient of the sums. */
static void print_finite(check *c, tsr_frame *df, const tsr_row *sums)
{
  tsr_row *row = tsr_frame_row(
      tsr_frame_agg(tsr_frame_filter(df, "sessions > 0"), "mean = mean(revenue_per_session)"));
  double mean = tsr_row_f64(row, "mean");
  double ratio = tsr_row_f64(sums, "revenue") / tsr_row_f64(sums, "sessions");
  printf("  where sessions > 0: $%.2f; revenue by sessions: $%.2f\n", mean, ratio);
  check_number(c, "mean_where_sessions_above_0", mean, 1e-12);
  check_number(c, "revenue_by_sessions_of_sums", ratio, 0);
}

static void check_kept(check *c, tsr_frame *df)
{
  int64_t rows = 0, empty = 0, by_device[8];
  if (tsr_frame_row_count(df, &rows) ||
      tsr_frame_row_count(tsr_frame_filter(df, "sessions == 0"), &empty))
    check_fail(c, "the rows cannot be counted");
  check_ints(c, "kept.rows", &rows, 1);
  check_ints(c, "kept.rows_with_no_session", &empty, 1);
  if (!check_rows_by_device(df, by_device)) check_fail(c, "%s", tsr_frame_devices(df));
  check_ints(c, "kept.rows_on_data8", by_device, 8);
  check_array(c, "kept.revenue_per_session", tsr_frame_column(df, "revenue_per_session"));
}

static void large_scale(check *c, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding rows = tsr_on(tsr_mesh_default(rt, "data"), "data");
  tsr_frame *data = tsr_frame_new(s, { "user_id", tsr_iota(s, TSR_I64, TSR_SHAPE(ROWS), 0, rows) },
                                  { "revenue", input_f64(s, ROWS, revenue, rows) },
                                  { "sessions", input_i64(s, ROWS, sessions, rows) });
  check_array(c, "input.revenue", tsr_frame_column(data, "revenue"));
  check_array(c, "input.sessions", tsr_frame_column(data, "sessions"));

  tsr_frame *df = tsr_frame_filter(data, "revenue > ?", 50);
  df = tsr_frame_assign(df, "revenue_per_session", "revenue / sessions");
  tsr_frame *result = tsr_frame_agg(df, "revenue = sum(revenue), sessions = sum(sessions),"
                                        "revenue_per_session = mean(revenue_per_session)");
  check_row(c, "result", result);
  tsr_row *row = tsr_frame_row(result);
  print_result(c, row);
  print_finite(c, df, row);
  check_kept(c, df);
  if (tsr_scope_status(s)) check_fail(c, "%s", tsr_message(s));
  tsr_scope_close(s);
}

int main(void)
{
  check c = check_open("000_14");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  large_scale(&c, rt);
  tsr_runtime_close(rt);
  return check_close(&c);
}
