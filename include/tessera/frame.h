/* Frames: tables of named columns whose rows are split over devices.
 *
 * A frame is an immutable node owned by a scope, like an array. Calls that make frames never fail
 * visibly: names and types are checked at the call, a bad call gives an inert frame and so does
 * whatever is made from it, and the scope keeps the first error. Nothing is read or computed
 * before a terminal (collect, print, row, rows, column) asks, and then only the columns that are
 * needed; filter, assign and agg of one chain run as one pass over memory.
 *
 * Expressions are text, bound to the frame at that point of the chain (docs/EXPRESSIONS.md):
 * Python's precedence, `and or not`, `== != < <= > >=`, `is null`, `in (...)`, 'text', "odd name"
 * and `?` for values given as arguments. Nulls propagate, aggregates skip them, `and`/`or` are
 * Kleene's and filter drops rows whose predicate is null. NaN is a value; in min and max it is
 * greater than every number. Integer overflow is an error that names the row. Sums are exact; no
 * result depends on the mesh. Rows are numbered from 0. */
#ifndef TESSERA_FRAME_H
#define TESSERA_FRAME_H

#include <stdio.h>

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_frame tsr_frame;
typedef struct tsr_table tsr_table;
typedef struct tsr_row tsr_row;

/* What a column holds. Dates are days and times microseconds, both since 1970-01-01 UTC. */
typedef enum tsr_coltype {
  TSR_COL_BOOL = 1,
  TSR_COL_I32,
  TSR_COL_I64,
  TSR_COL_F32,
  TSR_COL_F64,
  TSR_COL_DATE,
  TSR_COL_TIME,
  TSR_COL_TEXT
} tsr_coltype;

/* Returns "bool", "i32", ..., "date", "time" or "text"; "?" for anything else; static. Local. */
TSR_API const char *tsr_coltype_name(tsr_coltype type);

/* ---- expressions ----------------------------------------------------------------------- */

/* The value of one `?` of an expression. */
typedef struct tsr_param {
  int kind; /* 0 none, 1 integer, 2 float, 3 bool, 4 text */
  int64_t i;
  double f;
  const char *text;
} tsr_param;

/* Wrap the value of a `?`; the macros call them. Local. */
TSR_API tsr_param tsr_param_int(long long value);
/* As tsr_param_int for an unsigned integer; above INT64_MAX it becomes a float. Local. */
TSR_API tsr_param tsr_param_uint(unsigned long long value);
/* As tsr_param_int for a float. Local. */
TSR_API tsr_param tsr_param_float(double value);
/* As tsr_param_int for a bool. Local. */
TSR_API tsr_param tsr_param_bool(bool value);
/* As tsr_param_int for text, which is borrowed for the call; NULL is a null. Local. */
TSR_API tsr_param tsr_param_text(const char *value);

#define TSR_MAX_PARAMS 8

/* The text of an expression (or a list of them) and the values of its `?` in order. Text and values
 * are borrowed for the call that takes them. */
typedef struct tsr_formula {
  const char *text;
  int count;
  tsr_param param[TSR_MAX_PARAMS];
} tsr_formula;

/* ---- making frames --------------------------------------------------------------------- */

/* One column of tsr_frame_new: its name, copied, and its values, borrowed for as long as the
 * scope. */
typedef struct tsr_column {
  const char *name;
  tsr_array *array;
} tsr_column;

/* Makes a frame of arrays of rank 1 and equal length. The rows lie as the first placed array does.
 * Arrays not yet evaluated are computed by every terminal that needs them; tsr_eval them first to
 * compute them once. Returns a frame owned by the scope. Errors: TSR_ECOLUMN (a name that is
 * missing, no UTF-8 or twice there), TSR_ESHAPE. Local. */
TSR_API tsr_frame *tsr_frame_new_at(tsr_scope *scope, const tsr_column *columns, int count,
                                    const char *site);

/* Adds a text column: `count` texts of UTF-8, copied; NULL is a null. Replaces a column of that
 * name. Returns a frame owned by df's scope. Errors: TSR_ESHAPE, TSR_ECOLUMN, TSR_EPARSE. Local. */
TSR_API tsr_frame *tsr_frame_text_column_at(tsr_frame *df, const char *name,
                                            const char *const *texts, int64_t count,
                                            const char *site);

/* Options of tsr_frame_read_csv. Zero means default. */
typedef struct tsr_csv_opts {
  size_t size;
  const tsr_mesh *mesh; /* NULL = all devices of the runtime on one axis */
  const char *rows; /* the axis or axes ("x+y") that rows are split over; NULL = the first axis */
} tsr_csv_opts;

/* Opens a CSV file (RFC 4180, header row, UTF-8) and samples its schema; rows are read at a
 * terminal, in parallel, only the columns that the chain needs. `NA` and the empty field are null
 * in columns that are not text. Later values that contradict the sampled type widen the column: a
 * number becomes text as it stands in the file; only integers beyond 2^53 in a column that also holds
 * fractions are rounded, to f64. Returns a frame owned by the scope. Errors: TSR_EIO, TSR_EPARSE, TSR_EAXIS.
 * Collective, same arguments. */
TSR_API tsr_frame *tsr_frame_read_csv_with(tsr_scope *scope, const char *path,
                                           const tsr_csv_opts *opts, const char *site);

/* ---- chains ---------------------------------------------------------------------------- */

/* Keeps the rows where a bool expression is true: "revenue > ?", 50. Rows keep their order and
 * their device. Returns a frame owned by df's scope. Errors: TSR_EPARSE, TSR_ECOLUMN, TSR_EDTYPE.
 * Local. */
TSR_API tsr_frame *tsr_frame_filter_at(tsr_frame *df, const tsr_formula *predicate,
                                       const char *site);

/* Adds a column computed from others, or replaces the one of that name in its place. Returns a
 * frame owned by df's scope. Errors as tsr_frame_filter_at. Local. */
TSR_API tsr_frame *tsr_frame_assign_at(tsr_frame *df, const char *name, const tsr_formula *value,
                                       const char *site);

/* Makes a frame of the listed columns: "a, b, c = a + b". Returns a frame owned by df's scope.
 * Errors as tsr_frame_filter_at; a name twice there is TSR_ECOLUMN. Local. */
TSR_API tsr_frame *tsr_frame_select_at(tsr_frame *df, const tsr_formula *columns, const char *site);

/* Keeps the first `count` rows (all if there are fewer). Returns a frame owned by df's scope.
 * Error: TSR_EARG for a negative count. Local. */
TSR_API tsr_frame *tsr_frame_head_at(tsr_frame *df, int64_t count, const char *site);

/* Reduces to one row: "sum(revenue), n = count(), max(a) - min(a)". Functions: sum mean min max
 * count var std (ddof 1) any all; count() counts rows, count(x) those where x is not null. Nulls
 * are skipped; the sum of none is 0, mean, min, max, var and std of none are null. A result is
 * named `name = ...` or by its text, "sum(revenue)". Returns a frame owned by df's scope. Errors as
 * tsr_frame_filter_at. Local. */
TSR_API tsr_frame *tsr_frame_agg_at(tsr_frame *df, const tsr_formula *aggregates, const char *site);

/* As tsr_frame_agg_at for each group of rows with equal `keys`, a list of columns: "origin, month".
 * Keys are text, bool, date or integer columns whose combinations number at most 65,536
 * (else the terminal returns TSR_EUNSUPPORTED and names the range). Null keys form a group. Groups
 * come in order of their first row. Returns a frame, keys first, owned by df's scope. Local. */
TSR_API tsr_frame *tsr_frame_group_agg_at(tsr_frame *df, const char *keys,
                                          const tsr_formula *aggregates, const char *site);

/* ---- whole frames ---------------------------------------------------------------------- */

/* The right operand of whole-frame arithmetic. */
typedef struct tsr_frame_operand {
  int kind; /* 0 frame, 1 integer, 2 float */
  tsr_frame *frame;
  int64_t i;
  double f;
} tsr_frame_operand;

/* Wrap an operand; the macros call them. The frame is borrowed. Local. */
TSR_API tsr_frame_operand tsr_frame_operand_frame(tsr_frame *frame);
/* As tsr_frame_operand_frame for an integer. Local. */
TSR_API tsr_frame_operand tsr_frame_operand_int(long long value);
/* As tsr_frame_operand_frame for a float. Local. */
TSR_API tsr_frame_operand tsr_frame_operand_float(double value);

/* Column by column arithmetic with a number, a frame of the same rows and column names, or a frame
 * of one row (an aggregate): df * 2, df + df, df / mean(df). Division is true division. Returns a
 * frame owned by df's scope. Errors: TSR_ECOLUMN where names differ, TSR_EDTYPE for a column that
 * is no number, TSR_ESHAPE where rows differ. Local. */
TSR_API tsr_frame *tsr_frame_add_at(tsr_frame *df, tsr_frame_operand b, const char *site);
/* df - b; see tsr_frame_add_at. Local. */
TSR_API tsr_frame *tsr_frame_sub_at(tsr_frame *df, tsr_frame_operand b, const char *site);
/* df * b; see tsr_frame_add_at. Local. */
TSR_API tsr_frame *tsr_frame_mul_at(tsr_frame *df, tsr_frame_operand b, const char *site);
/* df / b; see tsr_frame_add_at. Local. */
TSR_API tsr_frame *tsr_frame_div_at(tsr_frame *df, tsr_frame_operand b, const char *site);

/* Reduces each column to one value under its own name. Returns a frame of one row, owned by df's
 * scope. Error: TSR_EDTYPE for a column that is no number. Local. */
TSR_API tsr_frame *tsr_frame_sum_at(tsr_frame *df, const char *site);
/* Means by column; see tsr_frame_sum_at. Local. */
TSR_API tsr_frame *tsr_frame_mean_at(tsr_frame *df, const char *site);
/* Smallest values by column; see tsr_frame_sum_at. Local. */
TSR_API tsr_frame *tsr_frame_min_at(tsr_frame *df, const char *site);
/* Largest values by column; see tsr_frame_sum_at. Local. */
TSR_API tsr_frame *tsr_frame_max_at(tsr_frame *df, const char *site);
/* Counts of values that are not null, by column of any type; see tsr_frame_sum_at. Local. */
TSR_API tsr_frame *tsr_frame_count_at(tsr_frame *df, const char *site);
/* Variances (ddof 1) by column; see tsr_frame_sum_at. Local. */
TSR_API tsr_frame *tsr_frame_var_at(tsr_frame *df, const char *site);
/* Standard deviations (ddof 1) by column; see tsr_frame_sum_at. Local. */
TSR_API tsr_frame *tsr_frame_std_at(tsr_frame *df, const char *site);

/* ---- asking ---------------------------------------------------------------------------- */

/* Tells whether a failed call made the frame. Local. */
TSR_API bool tsr_frame_is_inert(const tsr_frame *df);
/* Returns the number of columns; 0 for an inert frame. Local. */
TSR_API int tsr_frame_columns(const tsr_frame *df);
/* Returns the name of a column, owned by the frame, or NULL. Local. */
TSR_API const char *tsr_frame_column_name(const tsr_frame *df, int column);
/* Returns the type of a column, 0 if there is none. Local. */
TSR_API tsr_coltype tsr_frame_column_type(const tsr_frame *df, int column);
/* Returns the schema as text, one "name  type" a line, owned by the scope. Local. */
TSR_API const char *tsr_frame_schema(tsr_frame *df);
/* Returns what a terminal on the frame would do: columns read, filters, derived columns and
 * aggregates, then the kernels and each collective with its bytes. Reads the file that the frame is
 * made of and finds the range of integer group keys, but runs nothing else. Owned by the scope; on
 * error the message. Collective. */
TSR_API const char *tsr_frame_explain(tsr_frame *df);

/* ---- terminals ------------------------------------------------------------------------- */

/* Evaluates and counts the rows. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_rows(tsr_frame *df, int64_t *out);

/* Evaluates and copies all rows to the host. `*out` is a table owned by the frame's scope,
 * untouched on failure. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_collect(tsr_frame *df, tsr_table **out);

/* Evaluates a frame of one row. Returns the row, owned by the frame's scope; never NULL: on error
 * it holds nothing and tsr_row_status tells. Error: TSR_ESHAPE if there is not exactly one row.
 * Collective. */
TSR_API tsr_row *tsr_frame_row_at(tsr_frame *df, const char *site);

/* Options of tsr_frame_column. Zero means default. */
typedef struct tsr_frame_column_opts {
  size_t size;
  const tsr_operand *null_value; /* NULL = nulls are an error */
} tsr_frame_column_opts;

/* Evaluates one column as an array. Rows left by a filter are spread evenly over the devices again.
 * Dates are i32 days, times i64 microseconds; text has no array. Nulls are an error that counts
 * them, unless `null_value` names what takes their place. Returns an array owned by df's scope.
 * Errors: TSR_ECOLUMN, TSR_EDTYPE, TSR_EVALUE. Collective. */
TSR_API tsr_array *tsr_frame_column_with(tsr_frame *df, const char *name,
                                         const tsr_frame_column_opts *opts, const char *site);

/* Evaluates and returns the frame as a table drawn with box characters, at most 20 rows (the first
 * and the last 10), nulls as "null", with types and the number of rows; owned by the scope; on
 * error the message. Collective. */
TSR_API const char *tsr_frame_text(tsr_frame *df);
/* Evaluates and prints what tsr_frame_text returns. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_print(tsr_frame *df, FILE *out);
/* Evaluates and returns one line a device: id, rows kept of rows held; owned by the scope; on
 * error the message. Collective. */
TSR_API const char *tsr_frame_devices(tsr_frame *df);

/* ---- tables on the host ------------------------------------------------------------------ */

/* Returns the number of rows. Local. */
TSR_API int64_t tsr_table_rows(const tsr_table *table);
/* Returns the number of columns. Local. */
TSR_API int tsr_table_columns(const tsr_table *table);
/* Returns the name of a column, owned by the table, or NULL. Local. */
TSR_API const char *tsr_table_name(const tsr_table *table, int column);
/* Returns the type of a column, 0 if there is none. Local. */
TSR_API tsr_coltype tsr_table_type(const tsr_table *table, int column);
/* Returns the number of a column by its name, -1 if there is none. Local. */
TSR_API int tsr_table_find(const tsr_table *table, const char *name);
/* Tells whether a value is null; true outside the table. Local. */
TSR_API bool tsr_table_is_null(const tsr_table *table, int64_t row, int column);
/* Returns a number, bool, date or time as a double; NaN for null, text or outside. Local. */
TSR_API double tsr_table_f64(const tsr_table *table, int64_t row, int column);
/* Returns an integer, bool, date or time, or a float cut towards zero; 0 for null, text or
 * outside. Local. */
TSR_API int64_t tsr_table_i64(const tsr_table *table, int64_t row, int column);
/* Returns a value of any type as text (dates as 2013-01-31), NUL-terminated and owned by the
 * table's scope; NULL for null or outside. Local. */
TSR_API const char *tsr_table_text(const tsr_table *table, int64_t row, int column);

/* Returns TSR_OK, or why the row holds nothing. Local. */
TSR_API tsr_status tsr_row_status(const tsr_row *row);
/* Tells whether the value of a column is null; true if there is no such column. Local. */
TSR_API bool tsr_row_is_null(const tsr_row *row, const char *name);
/* Returns a value by column as tsr_table_f64. An unknown name is recorded in the scope. Local. */
TSR_API double tsr_row_f64(const tsr_row *row, const char *name);
/* Returns a value by column as tsr_table_i64. An unknown name is recorded in the scope. Local. */
TSR_API int64_t tsr_row_i64(const tsr_row *row, const char *name);
/* Returns a value by column as tsr_table_text. An unknown name is recorded in the scope. Local. */
TSR_API const char *tsr_row_text(const tsr_row *row, const char *name);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* clang-format off */
#define TSR_PARAM(x)                                                                         \
  _Generic((x),                                                                              \
      char *: tsr_param_text, const char *: tsr_param_text,                                  \
      bool: tsr_param_bool,                                                                  \
      float: tsr_param_float, double: tsr_param_float,                                       \
      unsigned long: tsr_param_uint, unsigned long long: tsr_param_uint,                     \
      default: tsr_param_int)(x)
#define TSR_FORMULA1_(t) { (t), 0, { { 0, 0, 0, NULL } } }
#define TSR_FORMULA2_(t, a) { (t), 1, { TSR_PARAM(a) } }
#define TSR_FORMULA3_(t, a, b) { (t), 2, { TSR_PARAM(a), TSR_PARAM(b) } }
#define TSR_FORMULA4_(t, a, b, c) { (t), 3, { TSR_PARAM(a), TSR_PARAM(b), TSR_PARAM(c) } }
#define TSR_FORMULA5_(t, a, b, c, d) \
  { (t), 4, { TSR_PARAM(a), TSR_PARAM(b), TSR_PARAM(c), TSR_PARAM(d) } }
#define TSR_FORMULA6_(t, a, b, c, d, e) \
  { (t), 5, { TSR_PARAM(a), TSR_PARAM(b), TSR_PARAM(c), TSR_PARAM(d), TSR_PARAM(e) } }
#define TSR_FORMULA7_(t, a, b, c, d, e, f) \
  { (t), 6, { TSR_PARAM(a), TSR_PARAM(b), TSR_PARAM(c), TSR_PARAM(d), TSR_PARAM(e), TSR_PARAM(f) } }
#define TSR_FORMULA8_(t, a, b, c, d, e, f, g)                                                 \
  { (t), 7, { TSR_PARAM(a), TSR_PARAM(b), TSR_PARAM(c), TSR_PARAM(d), TSR_PARAM(e),            \
              TSR_PARAM(f), TSR_PARAM(g) } }
#define TSR_FORMULA9_(t, a, b, c, d, e, f, g, h)                                              \
  { (t), 8, { TSR_PARAM(a), TSR_PARAM(b), TSR_PARAM(c), TSR_PARAM(d), TSR_PARAM(e),            \
              TSR_PARAM(f), TSR_PARAM(g), TSR_PARAM(h) } }
#define TSR_PICK_(_1, _2, _3, _4, _5, _6, _7, _8, _9, name, ...) name
/* An expression with the values of its `?`: TSR_FORMULA("a > ? and b == ?", 3, "x"). */
#define TSR_FORMULA(...)                                                                      \
  (&(tsr_formula)TSR_PICK_(__VA_ARGS__, TSR_FORMULA9_, TSR_FORMULA8_, TSR_FORMULA7_,           \
                           TSR_FORMULA6_, TSR_FORMULA5_, TSR_FORMULA4_, TSR_FORMULA3_,         \
                           TSR_FORMULA2_, TSR_FORMULA1_, 0)(__VA_ARGS__))
#define TSR_FRAME_OPERAND(x)                                                                 \
  _Generic((x),                                                                              \
      tsr_frame *: tsr_frame_operand_frame,                                                  \
      float: tsr_frame_operand_float, double: tsr_frame_operand_float,                       \
      default: tsr_frame_operand_int)(x)

/* tsr_frame_new(s, { "a", x }, { "b", y }) */
#define tsr_frame_new(scope, ...)                                                             \
  tsr_frame_new_at((scope), (const tsr_column[]){ __VA_ARGS__ },                               \
                   (int)(sizeof((const tsr_column[]){ __VA_ARGS__ }) / sizeof(tsr_column)),    \
                   TSR_HERE)
#define tsr_frame_text_column(df, name, texts, count) \
  tsr_frame_text_column_at((df), (name), (texts), (count), TSR_HERE)
/* tsr_frame_read_csv(s, "a.csv"), tsr_frame_read_csv(s, "a.csv", .mesh = mesh, .rows = "data") */
#define tsr_frame_read_csv(...) TSR_READ_CSV_(__VA_ARGS__, .size = sizeof(tsr_csv_opts))
#define TSR_READ_CSV_(scope, path, ...) \
  tsr_frame_read_csv_with((scope), (path), &(tsr_csv_opts){ __VA_ARGS__ }, TSR_HERE)
#define tsr_frame_filter(df, ...) tsr_frame_filter_at((df), TSR_FORMULA(__VA_ARGS__), TSR_HERE)
#define tsr_frame_assign(df, name, ...) \
  tsr_frame_assign_at((df), (name), TSR_FORMULA(__VA_ARGS__), TSR_HERE)
#define tsr_frame_select(df, ...) tsr_frame_select_at((df), TSR_FORMULA(__VA_ARGS__), TSR_HERE)
#define tsr_frame_head(df, count) tsr_frame_head_at((df), (count), TSR_HERE)
#define tsr_frame_agg(df, ...) tsr_frame_agg_at((df), TSR_FORMULA(__VA_ARGS__), TSR_HERE)
#define tsr_frame_group_agg(df, keys, ...) \
  tsr_frame_group_agg_at((df), (keys), TSR_FORMULA(__VA_ARGS__), TSR_HERE)
#define tsr_frame_add(df, b) tsr_frame_add_at((df), TSR_FRAME_OPERAND(b), TSR_HERE)
#define tsr_frame_sub(df, b) tsr_frame_sub_at((df), TSR_FRAME_OPERAND(b), TSR_HERE)
#define tsr_frame_mul(df, b) tsr_frame_mul_at((df), TSR_FRAME_OPERAND(b), TSR_HERE)
#define tsr_frame_div(df, b) tsr_frame_div_at((df), TSR_FRAME_OPERAND(b), TSR_HERE)
#define tsr_frame_sum(df) tsr_frame_sum_at((df), TSR_HERE)
#define tsr_frame_mean(df) tsr_frame_mean_at((df), TSR_HERE)
#define tsr_frame_min(df) tsr_frame_min_at((df), TSR_HERE)
#define tsr_frame_max(df) tsr_frame_max_at((df), TSR_HERE)
#define tsr_frame_count(df) tsr_frame_count_at((df), TSR_HERE)
#define tsr_frame_var(df) tsr_frame_var_at((df), TSR_HERE)
#define tsr_frame_std(df) tsr_frame_std_at((df), TSR_HERE)
#define tsr_frame_row(df) tsr_frame_row_at((df), TSR_HERE)
/* tsr_frame_column(df, "x"), tsr_frame_column(df, "x", .null_value = &(tsr_operand){ .kind = 1 })
 * */
#define tsr_frame_column(...) \
  TSR_FRAME_COLUMN_(__VA_ARGS__, .size = sizeof(tsr_frame_column_opts))
#define TSR_FRAME_COLUMN_(df, name, ...) \
  tsr_frame_column_with((df), (name), &(tsr_frame_column_opts){ __VA_ARGS__ }, TSR_HERE)
/* clang-format on */
#endif

#endif
