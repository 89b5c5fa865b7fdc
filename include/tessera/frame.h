/* Frames: tables of named columns whose rows are split over devices.
 *
 * A frame is an immutable node owned by a scope, like an array. Below, "df's scope" is the scope
 * that owns results of df (base.h). Calls that make frames report no errors themselves: the call
 * checks names and types, a call that fails returns an inert frame, and so does each call on an
 * inert frame; the scope keeps the first error. A frame reads and computes nothing before a
 * terminal (collect, print, row, row_count, column), and then only the columns that the terminal
 * needs. filter, assign and agg of one chain run in one pass over memory.
 *
 * Expressions are text, bound to the frame at that point of the chain (docs/EXPRESSIONS.md), with
 * Python's precedence, `and or not`, `== != < <= > >=`, `is null`, `in (...)`, 'text', "odd name"
 * and `?` for values given as arguments. Nulls propagate, aggregates skip nulls, `and`/`or` use
 * Kleene's logic, and filter drops rows whose predicate is null. NaN is a value; min and max order
 * NaN above every number. Integer overflow is an error that names the row. Sums are exact; no
 * result depends on the mesh. Rows are numbered from 0. */
#ifndef TESSERA_FRAME_H
#define TESSERA_FRAME_H

#include "array.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_frame tsr_frame;
typedef struct tsr_table tsr_table;
typedef struct tsr_row tsr_row;

/* The type of a column: a dtype, or from 64 on a type that only columns have. Dates are days and
 * times are microseconds, both since 1970-01-01 UTC. */
typedef enum tsr_coltype {
  TSR_COL_BOOL = TSR_BOOL,
  TSR_COL_I8 = TSR_I8,
  TSR_COL_I16 = TSR_I16,
  TSR_COL_I32 = TSR_I32,
  TSR_COL_I64 = TSR_I64,
  TSR_COL_U8 = TSR_U8,
  TSR_COL_U16 = TSR_U16,
  TSR_COL_U32 = TSR_U32,
  TSR_COL_U64 = TSR_U64,
  TSR_COL_F16 = TSR_F16,
  TSR_COL_BF16 = TSR_BF16,
  TSR_COL_F32 = TSR_F32,
  TSR_COL_F64 = TSR_F64,
  TSR_COL_DATE = 64,
  TSR_COL_TIME,
  TSR_COL_TEXT
} tsr_coltype;

/* Returns the name of a type, "bool", "i8", ..., "date", "time" or "text"; "?" for an unknown type.
 * The text is static. Local. */
TSR_API const char *tsr_coltype_name(tsr_coltype type);

/* ---- expressions ----------------------------------------------------------------------- */

#define TSR_MAX_PARAMS 8

/* The text of an expression, or of a list of expressions, with the values of its `?` in order. The
 * call that takes a formula borrows text and values. */
typedef struct tsr_formula {
  const char *text;
  int count;
  tsr_scalar param[TSR_MAX_PARAMS];
} tsr_formula;

/* ---- making frames --------------------------------------------------------------------- */

/* One column of tsr_frame_new. The name is copied; the array is borrowed until the scope closes. */
typedef struct tsr_column {
  const char *name;
  tsr_array *array;
} tsr_column;

/* Returns a frame of arrays of rank 1 and equal length, owned by the scope. The rows take the
 * sharding of the first placed array. Arrays that are not evaluated yet are computed by each
 * terminal that needs them; call tsr_eval first to compute them once. Errors: TSR_ECOLUMN (a name
 * that is missing, not UTF-8 or given twice), TSR_ESHAPE. Local. */
TSR_API tsr_frame *tsr_frame_new_at(tsr_scope *scope, const tsr_column *columns, int count,
                                    const char *site);

/* Returns df with a text column of `count` UTF-8 texts, copied; NULL is a null. The column replaces
 * one of the same name. The frame is owned by df's scope. Errors: TSR_ESHAPE, TSR_ECOLUMN,
 * TSR_EPARSE. Local. */
TSR_API tsr_frame *tsr_frame_text_column_at(tsr_frame *df, const char *name,
                                            const char *const *texts, int64_t count,
                                            const char *site);

/* ---- chains ---------------------------------------------------------------------------- */

/* Returns the rows of df where a bool expression is true: "revenue > ?", 50. Rows keep their order
 * and their device. The frame is owned by df's scope. Errors: TSR_EPARSE, TSR_ECOLUMN, TSR_EDTYPE.
 * Local. */
TSR_API tsr_frame *tsr_frame_filter_at(tsr_frame *df, const tsr_formula *predicate,
                                       const char *site);

/* Returns df with a column computed from other columns. The column replaces one of the same name in
 * its place, else it comes last. The frame is owned by df's scope. Errors as tsr_frame_filter_at.
 * Local. */
TSR_API tsr_frame *tsr_frame_assign_at(tsr_frame *df, const char *name, const tsr_formula *value,
                                       const char *site);

/* Returns a frame of the listed columns: "a, b, c = a + b". The frame is owned by df's scope.
 * Errors as tsr_frame_filter_at; TSR_ECOLUMN also for a name that is listed twice. Local. */
TSR_API tsr_frame *tsr_frame_select_at(tsr_frame *df, const tsr_formula *columns, const char *site);

/* Returns the first `count` rows, or all rows if there are fewer. The frame is owned by df's scope.
 * Error: TSR_EARG for a negative count. Local. */
TSR_API tsr_frame *tsr_frame_head_at(tsr_frame *df, int64_t count, const char *site);

/* Returns one row of aggregates: "sum(revenue), n = count(), max(a) - min(a)". Functions: sum mean
 * min max count var std (ddof 1) any all median quantile(x, q) nunique first last corr(x, y).
 * count() counts rows; count(x) counts rows where x is not null. Aggregates skip nulls, except
 * first and last. Over no values, sum is 0, and mean, min, max, var and std are null. A result
 * takes the name of `name = ...`, else its text, "sum(revenue)". The frame is owned by df's scope.
 * Errors as tsr_frame_filter_at. Local. */
TSR_API tsr_frame *tsr_frame_agg_at(tsr_frame *df, const tsr_formula *aggregates, const char *site);

/* Returns one row of aggregates for each group of rows with equal `keys`: "origin, month", "year =
 * year(day)". Keys have any type; nulls form one group, NaNs form one group, and -0 equals 0.
 * Groups are ordered by their first row, or by the keys if a key says `asc` or `desc` as in
 * tsr_frame_sort. The frame has the keys first and is owned by df's scope. Errors as
 * tsr_frame_agg_at. Local. */
TSR_API tsr_frame *tsr_frame_group_agg_at(tsr_frame *df, const char *keys,
                                          const tsr_formula *aggregates, const char *site);

/* Returns the rows of df ordered by keys: "origin, delay desc, day nulls first". A key is an
 * expression, then `asc` (default) or `desc`, then `nulls first` or `nulls last` (default). The
 * sort is stable. NaN orders above every number, -0 equals 0, and texts are ordered by their bytes.
 * The frame is owned by df's scope. Errors as tsr_frame_filter_at. Local. */
TSR_API tsr_frame *tsr_frame_sort_at(tsr_frame *df, const char *keys, const char *site);

/* Returns `count` rows from row `first` on, or fewer if the frame ends before. The frame is owned
 * by df's scope. Error: TSR_EARG for negative numbers. Local. */
TSR_API tsr_frame *tsr_frame_limit_at(tsr_frame *df, int64_t first, int64_t count,
                                      const char *site);
/* Returns the last `count` rows; otherwise as tsr_frame_limit_at. Local. */
TSR_API tsr_frame *tsr_frame_tail_at(tsr_frame *df, int64_t count, const char *site);

/* Options of tsr_frame_sample: either `rows`, which may be given without its name, or
 * `fraction`. */
typedef struct tsr_sample_opts {
  size_t size;
  int64_t rows TSR_REST_BY_NAME; /* the number of rows (all if there are fewer) */
  double fraction;               /* the probability of each row */
  uint64_t seed;
  bool sized; /* a count or fraction is given, even if it is 0; the macro sets this */
} tsr_sample_opts;

/* Returns a random sample of rows, without replacement and in order. The sample depends on the seed
 * and on the row numbers in the source, not on the mesh. The frame is owned by df's scope. Error:
 * TSR_EARG, also if neither `rows` nor `fraction` is given. Local. */
TSR_API tsr_frame *tsr_frame_sample_with(tsr_frame *df, const tsr_sample_opts *opts,
                                         const char *site);

/* Returns the first row of each set of rows that are equal in `columns` ("a, b"; NULL: all
 * columns), in order. Null equals null, and NaN equals NaN. The frame is owned by df's scope.
 * Local. */
TSR_API tsr_frame *tsr_frame_distinct_at(tsr_frame *df, const char *columns, const char *site);

/* Returns the first `count` rows of each group of equal keys, in order; after a sort these are the
 * largest or smallest rows of each group. The frame is owned by df's scope. Local. */
TSR_API tsr_frame *tsr_frame_group_head_at(tsr_frame *df, const char *keys, int64_t count,
                                           const char *site);

/* Returns the rows that have no null in `columns` ("a, b"; NULL: all columns). The frame is owned
 * by df's scope. Local. */
TSR_API tsr_frame *tsr_frame_drop_nulls_at(tsr_frame *df, const char *columns, const char *site);
/* Returns df with a value in place of the nulls of `columns` (NULL: all columns of the value's
 * type): fill_null(df, "a, b", "0"). The value is an expression whose type must fit the columns.
 * The frame is owned by df's scope. Errors as tsr_frame_filter_at. Local. */
TSR_API tsr_frame *tsr_frame_fill_null_at(tsr_frame *df, const char *columns,
                                          const tsr_formula *value, const char *site);
/* Returns a frame of bool columns, true where df is null. The frame is owned by df's scope.
 * Local. */
TSR_API tsr_frame *tsr_frame_is_null_at(tsr_frame *df, const char *site);

/* Returns df without the listed columns. The frame is owned by df's scope. Error: TSR_ECOLUMN.
 * Local. */
TSR_API tsr_frame *tsr_frame_drop_at(tsr_frame *df, const char *columns, const char *site);
/* Returns df with columns renamed in their places: "new = old, ...". The frame is owned by df's
 * scope. Error: TSR_ECOLUMN. Local. */
TSR_API tsr_frame *tsr_frame_rename_at(tsr_frame *df, const char *names, const char *site);
/* Returns df with a new first column of row numbers from 0. The frame is owned by df's scope.
 * Error: TSR_ECOLUMN. Local. */
TSR_API tsr_frame *tsr_frame_with_row_index_at(tsr_frame *df, const char *name, const char *site);

/* Returns the number of rows of each combination of values of `columns`: these columns and "count",
 * most frequent first, equal counts by first appearance. The frame is owned by df's scope.
 * Local. */
TSR_API tsr_frame *tsr_frame_value_counts_at(tsr_frame *df, const char *columns, const char *site);
/* Returns statistics of each column: rows "count", "nulls", "mean", "std", "min", "25%", "50%",
 * "75%", "max", named in the column "statistic". Number and bool columns give f64, other columns
 * give text. The frame is owned by df's scope. Local. */
TSR_API tsr_frame *tsr_frame_describe_at(tsr_frame *df, const char *site);

/* ---- several frames -------------------------------------------------------------------- */

/* Returns the rows of several frames, one frame after the other. All frames have the same column
 * names, in any order. Types are joined as in expressions; a column of a file that holds only nulls
 * takes the type of the other frames. Rows take the sharding of the first frame. The frame is owned
 * as results are. Errors: TSR_ECOLUMN, TSR_EDTYPE. Local. */
TSR_API tsr_frame *tsr_frame_concat_at(tsr_frame *const *frames, int count, const char *site);

typedef enum tsr_join_how {
  TSR_JOIN_INNER = 0,
  TSR_JOIN_LEFT, /* keeps left rows without a match, with nulls in the right columns */
  TSR_JOIN_SEMI, /* left rows that have a match, left columns */
  TSR_JOIN_ANTI  /* left rows that have no match, left columns */
} tsr_join_how;

/* Options of tsr_frame_join. Zero means default; `how` may be given without its name. */
typedef struct tsr_join_opts {
  size_t size;
  tsr_join_how how TSR_REST_BY_NAME;
  const char *suffix; /* appended to right columns whose name is taken; NULL = "_right" */
  bool unique;        /* a left row with two matches is TSR_EVALUE; the message names the key */
} tsr_join_opts;

/* Returns the join of two frames on equal keys: "k", or "left = right" if the names differ, or
 * several keys, "a, b = c". A key is an expression of its frame's columns: "id = cast(key, 'i64')".
 * The types of the two sides are joined as in expressions; null equals nothing, NaN equals NaN, and
 * -0 equals 0. The result has the left columns, then the right columns, except right keys that are
 * plain columns. Rows are in the order of the left rows, then of the right rows, and stay on the
 * devices of the left rows. A right frame that is replicated moves no rows. The frame is owned as
 * results are. Errors: TSR_ECOLUMN, TSR_EDTYPE. Local. */
TSR_API tsr_frame *tsr_frame_join_with(tsr_frame *left, tsr_frame *right, const char *on,
                                       const tsr_join_opts *opts, const char *site);

/* ---- sharding of rows ------------------------------------------------------------------ */

/* Returns df resharded to `to`, with the rows in order. The spec has one entry for rows and may
 * have one for columns, which stay whole: tsr_on(mesh, "data") or "data,-"; "-" replicates all
 * rows. The frame is owned by df's scope. Errors: TSR_EAXIS, TSR_EUNSUPPORTED (sharded columns).
 * Local. */
TSR_API tsr_frame *tsr_frame_scatter_at(tsr_frame *df, tsr_sharding to, const char *site);
/* Returns df with all rows, in order, on the first device. The frame is owned by df's scope.
 * Local. */
TSR_API tsr_frame *tsr_frame_gather_at(tsr_frame *df, const char *site);
/* Returns df with the rows, in order, spread evenly over the devices. The frame is owned by df's
 * scope. Local. */
TSR_API tsr_frame *tsr_frame_rebalance_at(tsr_frame *df, const char *site);
/* Returns the sharding of the rows (rank 1), as far as it is known before reading; unplaced for a
 * frame of one row and for an inert frame. Local. */
TSR_API tsr_sharding tsr_frame_sharding(const tsr_frame *df);
/* Returns NULL if arithmetic of the two frames moves no rows, else a sentence that names the rows
 * that would move. The text is owned by a's scope. Local. */
TSR_API const char *tsr_frame_incompatible(tsr_frame *a, tsr_frame *b);

/* ---- whole frames ---------------------------------------------------------------------- */

/* The right operand of whole-frame arithmetic: a frame, or if `frame` is NULL a number. */
typedef struct tsr_frame_operand {
  tsr_frame *frame;
  tsr_scalar number;
} tsr_frame_operand;

/* Returns an operand that borrows a frame; the macros call this function. Local. */
TSR_API tsr_frame_operand tsr_frame_operand_frame(tsr_frame *frame);
/* Returns an integer as an operand; see tsr_frame_operand_frame. Local. */
TSR_API tsr_frame_operand tsr_frame_operand_int(long long value);
/* Returns an unsigned integer as an operand; arithmetic refuses a value beyond i64. See
 * tsr_frame_operand_frame. Local. */
TSR_API tsr_frame_operand tsr_frame_operand_uint(unsigned long long value);
/* Returns a float as an operand; see tsr_frame_operand_frame. Local. */
TSR_API tsr_frame_operand tsr_frame_operand_float(double value);

/* Returns df + b, column by column. `b` is a number, a frame of the same rows and column names, or
 * a frame of one row such as an aggregate: df * 2, df + df, df / mean(df). Division is true
 * division. The frame is owned by df's scope. Errors: TSR_ECOLUMN if names differ, TSR_EDTYPE for a
 * column that does not hold numbers, TSR_ESHAPE if the numbers of rows differ. Local. */
TSR_API tsr_frame *tsr_frame_add_at(tsr_frame *df, tsr_frame_operand b, const char *site);
/* Returns df - b; see tsr_frame_add_at. Local. */
TSR_API tsr_frame *tsr_frame_sub_at(tsr_frame *df, tsr_frame_operand b, const char *site);
/* Returns df * b; see tsr_frame_add_at. Local. */
TSR_API tsr_frame *tsr_frame_mul_at(tsr_frame *df, tsr_frame_operand b, const char *site);
/* Returns df / b; see tsr_frame_add_at. Local. */
TSR_API tsr_frame *tsr_frame_div_at(tsr_frame *df, tsr_frame_operand b, const char *site);

/* Returns the sum of each column, under the column's name, as a frame of one row owned by df's
 * scope. Error: TSR_EDTYPE for a column that does not hold numbers. Local. */
TSR_API tsr_frame *tsr_frame_sum_at(tsr_frame *df, const char *site);
/* Returns the mean of each column; see tsr_frame_sum_at. Local. */
TSR_API tsr_frame *tsr_frame_mean_at(tsr_frame *df, const char *site);
/* Returns the smallest value of each column; see tsr_frame_sum_at. Local. */
TSR_API tsr_frame *tsr_frame_min_at(tsr_frame *df, const char *site);
/* Returns the largest value of each column; see tsr_frame_sum_at. Local. */
TSR_API tsr_frame *tsr_frame_max_at(tsr_frame *df, const char *site);
/* Returns the number of values that are not null, for each column of any type; see
 * tsr_frame_sum_at. Local. */
TSR_API tsr_frame *tsr_frame_count_at(tsr_frame *df, const char *site);
/* Returns the variance (ddof 1) of each column; see tsr_frame_sum_at. Local. */
TSR_API tsr_frame *tsr_frame_var_at(tsr_frame *df, const char *site);
/* Returns the standard deviation (ddof 1) of each column; see tsr_frame_sum_at. Local. */
TSR_API tsr_frame *tsr_frame_std_at(tsr_frame *df, const char *site);

/* ---- properties of frames -------------------------------------------------------------- */

/* Returns whether the frame is the result of a failed call. Local. */
TSR_API bool tsr_frame_is_inert(const tsr_frame *df);
/* Returns the number of columns; 0 for an inert frame. Local. */
TSR_API int tsr_frame_column_count(const tsr_frame *df);
/* Returns the name of a column, owned by the frame; NULL for a column that does not exist.
 * Local. */
TSR_API const char *tsr_frame_column_name(const tsr_frame *df, int column);
/* Returns the type of a column, 0 for a column that does not exist. Local. */
TSR_API tsr_coltype tsr_frame_column_type(const tsr_frame *df, int column);
/* Returns the schema as text, one "name  type" a line, owned by the scope. Local. */
TSR_API const char *tsr_frame_schema(tsr_frame *df);
/* Returns the plan of a terminal on the frame, as text. First come the steps from the file to the
 * result, each with rows and bytes in and out; then the programs, each with the steps that it runs
 * in one pass, its kernels, and its collectives with their bytes. Numbers marked "~" are estimates.
 * After a terminal has run, the text has counted numbers and says how rows were made and exchanged.
 * The call reads the files of the frame, finds the range of integer group keys, and counts the rows
 * that filters left in a terminal that ran; it runs nothing else. The text is owned by the scope;
 * on error it is the message. Collective. */
TSR_API const char *tsr_frame_explain(tsr_frame *df);
/* Writes the text of tsr_frame_explain to `out` and returns the status, so that an error is not
 * taken for an explanation. `*out` is untouched on failure. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_explain_into_at(tsr_frame *df, const char **out,
                                                          const char *site);

/* ---- terminals ------------------------------------------------------------------------- */

/* Terminals record their errors at their own source location, `site`, or if that is NULL at the
 * location of the call that made the frame. */

/* Evaluates the frame and writes the number of rows to `out`, untouched on failure. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_row_count_at(tsr_frame *df, int64_t *out,
                                                       const char *site);

/* Evaluates the frame and copies all rows to the host. `*out` is a table owned by the frame's
 * scope, untouched on failure. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_collect_at(tsr_frame *df, tsr_table **out,
                                                     const char *site);

/* Evaluates a frame of one row and returns the row, owned by the frame's scope. The result is never
 * NULL: after an error the row is empty and tsr_row_status returns the status. Error: TSR_ESHAPE if
 * the frame does not have exactly one row. Collective. */
TSR_API tsr_row *tsr_frame_row_at(tsr_frame *df, const char *site);

/* Options of tsr_frame_column. Zero means default. */
typedef struct tsr_frame_column_opts {
  size_t size TSR_REST_BY_NAME;
  tsr_scalar null_value; /* a number, TSR_VALUE(0), in place of nulls; none = nulls are an error */
} tsr_frame_column_opts;

/* Evaluates one column and returns it as an array, owned by df's scope. Rows that a filter left are
 * spread evenly over the devices again. Dates become i32 days, times become i64 microseconds; a
 * text column has no array. Nulls are an error that gives their number, unless `null_value`
 * replaces them. Errors: TSR_ECOLUMN, TSR_EDTYPE, TSR_EVALUE. Collective. */
TSR_API tsr_array *tsr_frame_column_with(tsr_frame *df, const char *name,
                                         const tsr_frame_column_opts *opts, const char *site);

/* Evaluates the frame and returns it as a table drawn with box characters, with types and the
 * number of rows: at most 20 rows (the first and the last 10), nulls as "null". The text is owned
 * by the scope; on error it is the message. Collective. */
TSR_API const char *tsr_frame_text(tsr_frame *df);
/* Options of the drawn table. Zero means default. */
typedef struct tsr_show_opts {
  size_t size TSR_REST_BY_NAME;
  int64_t rows; /* the most rows, half from each end; 0 = 20, negative = all */
  /* columns of a line: texts are cut, then table columns left out; 0 = 120, negative = any */
  int width;
  bool colour; /* ANSI colours: names bold; types, nulls and lines dim */
} tsr_show_opts;
/* As tsr_frame_text, with options; NULL = defaults. Collective. */
TSR_API const char *tsr_frame_text_with(tsr_frame *df, const tsr_show_opts *opts);
/* Writes the text of tsr_frame_text_with to `out` and returns the status; see
 * tsr_frame_explain_into. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_text_into_at(tsr_frame *df, const tsr_show_opts *opts,
                                                       const char **out, const char *site);
/* Evaluates the frame and prints the text of tsr_frame_text to `out`. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_print_at(tsr_frame *df, FILE *out, const char *site);
/* Evaluates the frame and returns one line a device: its id, and the rows kept of the rows held.
 * The text is owned by the scope; on error it is the message. Collective. */
TSR_API const char *tsr_frame_devices(tsr_frame *df);
/* Writes the text of tsr_frame_devices to `out` and returns the status; see tsr_frame_explain_into.
 * Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_devices_into_at(tsr_frame *df, const char **out,
                                                          const char *site);

/* Evaluates all columns of a frame once and returns a frame of the values, owned by `scope`, an
 * inner or an outer one. The new frame holds references to the buffers, so the chain before it can
 * be freed, and later calls start at the kept frame. Rows stay on their devices. The call is
 * tsr_keep for frames. Collective. */
TSR_API tsr_frame *tsr_frame_keep_at(tsr_scope *scope, tsr_frame *df, const char *site);

/* ---- tables on the host ------------------------------------------------------------------ */

/* Returns the number of rows. Local. */
TSR_API int64_t tsr_table_row_count(const tsr_table *table);
/* Returns the number of columns. Local. */
TSR_API int tsr_table_column_count(const tsr_table *table);
/* Returns the name of a column, owned by the table; NULL for a column that does not exist.
 * Local. */
TSR_API const char *tsr_table_name(const tsr_table *table, int column);
/* Returns the type of a column, 0 for a column that does not exist. Local. */
TSR_API tsr_coltype tsr_table_type(const tsr_table *table, int column);
/* Returns the index of the column of a name, -1 if the table has no such column. Local. */
TSR_API int tsr_table_find(const tsr_table *table, const char *name);
/* Returns whether a value is null; true outside the table. Local. */
TSR_API bool tsr_table_is_null(const tsr_table *table, int64_t row, int column);
/* Returns all values of a column, row_count of them, without gaps: bool as bytes, dates as i32
 * days, times as i64 microseconds, other types as their dtype; the value at a null is undefined.
 * The values are owned by the table; NULL for text and outside the table. Local. */
TSR_API const void *tsr_table_values(const tsr_table *table, int column);
/* Returns one byte a row, 0 for a null, owned by the table; NULL for a column without nulls and
 * outside the table. Local. */
TSR_API const uint8_t *tsr_table_valid(const tsr_table *table, int column);
/* Returns a number, bool, date or time as a double; NaN for null, for text and outside the table.
 * Local. */
TSR_API double tsr_table_f64(const tsr_table *table, int64_t row, int column);
/* Returns an integer, bool, date or time, or a float truncated towards zero; 0 for null, for text
 * and outside the table. A u64 beyond i64 is returned as its bits: convert the result to uint64_t.
 * Local. */
TSR_API int64_t tsr_table_i64(const tsr_table *table, int64_t row, int column);
/* Returns a value of any type as NUL-terminated text (dates as 2013-01-31), owned by the table's
 * scope; NULL for null, outside the table, and out of memory, which the scope records. Local. */
TSR_API const char *tsr_table_text(const tsr_table *table, int64_t row, int column);
/* Returns the text of tsr_table_text and writes its length in bytes, without the final NUL, to
 * `length`, for texts that contain NULs. `length` is set to 0 if NULL is returned; it may be NULL.
 * Local. */
TSR_API const char *tsr_table_bytes(const tsr_table *table, int64_t row, int column,
                                    size_t *length);

/* Returns TSR_OK, or the status of the error that left the row empty. Local. */
TSR_API tsr_status tsr_row_status(const tsr_row *row);
/* Returns whether the value of a column is null; true for a column that does not exist. Local. */
TSR_API bool tsr_row_is_null(const tsr_row *row, const char *name);
/* Returns the value of a column as tsr_table_f64 does. The scope records an unknown name. Local. */
TSR_API double tsr_row_f64(const tsr_row *row, const char *name);
/* Returns the value of a column as tsr_table_i64 does. The scope records an unknown name. Local. */
TSR_API int64_t tsr_row_i64(const tsr_row *row, const char *name);
/* Returns the value of a column as tsr_table_text does. The scope records an unknown name.
 * Local. */
TSR_API const char *tsr_row_text(const tsr_row *row, const char *name);
/* Returns the value of a column as tsr_table_bytes does. The scope records an unknown name.
 * Local. */
TSR_API const char *tsr_row_bytes(const tsr_row *row, const char *name, size_t *length);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* clang-format off */
#define TSR_FORMULA1_(t) { (t), 0, { { TSR_SCALAR_NONE, { 0 } } } }
#define TSR_FORMULA2_(t, a) { (t), 1, { TSR_VALUE(a) } }
#define TSR_FORMULA3_(t, a, b) { (t), 2, { TSR_VALUE(a), TSR_VALUE(b) } }
#define TSR_FORMULA4_(t, a, b, c) { (t), 3, { TSR_VALUE(a), TSR_VALUE(b), TSR_VALUE(c) } }
#define TSR_FORMULA5_(t, a, b, c, d) \
  { (t), 4, { TSR_VALUE(a), TSR_VALUE(b), TSR_VALUE(c), TSR_VALUE(d) } }
#define TSR_FORMULA6_(t, a, b, c, d, e) \
  { (t), 5, { TSR_VALUE(a), TSR_VALUE(b), TSR_VALUE(c), TSR_VALUE(d), TSR_VALUE(e) } }
#define TSR_FORMULA7_(t, a, b, c, d, e, f) \
  { (t), 6, { TSR_VALUE(a), TSR_VALUE(b), TSR_VALUE(c), TSR_VALUE(d), TSR_VALUE(e), TSR_VALUE(f) } }
#define TSR_FORMULA8_(t, a, b, c, d, e, f, g)                                                 \
  { (t), 7, { TSR_VALUE(a), TSR_VALUE(b), TSR_VALUE(c), TSR_VALUE(d), TSR_VALUE(e),            \
              TSR_VALUE(f), TSR_VALUE(g) } }
#define TSR_FORMULA9_(t, a, b, c, d, e, f, g, h)                                              \
  { (t), 8, { TSR_VALUE(a), TSR_VALUE(b), TSR_VALUE(c), TSR_VALUE(d), TSR_VALUE(e),            \
              TSR_VALUE(f), TSR_VALUE(g), TSR_VALUE(h) } }
#define TSR_PICK_(_1, _2, _3, _4, _5, _6, _7, _8, _9, name, ...) name
/* An expression with the values of its `?`: TSR_FORMULA("a > ? and b == ?", 3, "x"). */
#define TSR_FORMULA(...)                                                                      \
  (&(tsr_formula)TSR_PICK_(__VA_ARGS__, TSR_FORMULA9_, TSR_FORMULA8_, TSR_FORMULA7_,           \
                           TSR_FORMULA6_, TSR_FORMULA5_, TSR_FORMULA4_, TSR_FORMULA3_,         \
                           TSR_FORMULA2_, TSR_FORMULA1_, 0)(__VA_ARGS__))
#define TSR_FRAME_OPERAND(x)                                                                 \
  _Generic((x),                                                                              \
      tsr_frame *: tsr_frame_operand_frame,                                                  \
      TSR_NUMBERS_(tsr_frame_operand_int, tsr_frame_operand_uint, tsr_frame_operand_float))(x)

/* tsr_frame_new(s, { "a", x }, { "b", y }) */
#define tsr_frame_new(scope, ...)                                                             \
  tsr_frame_new_at((scope), (const tsr_column[]){ __VA_ARGS__ },                               \
                   (int)(sizeof((const tsr_column[]){ __VA_ARGS__ }) / sizeof(tsr_column)),    \
                   TSR_HERE)
#define tsr_frame_text_column(df, name, texts, count) \
  tsr_frame_text_column_at((df), (name), (texts), (count), TSR_HERE)
#define tsr_frame_filter(df, ...) tsr_frame_filter_at((df), TSR_FORMULA(__VA_ARGS__), TSR_HERE)
#define tsr_frame_assign(df, name, ...) \
  tsr_frame_assign_at((df), (name), TSR_FORMULA(__VA_ARGS__), TSR_HERE)
#define tsr_frame_select(df, ...) tsr_frame_select_at((df), TSR_FORMULA(__VA_ARGS__), TSR_HERE)
#define tsr_frame_sort(df, keys) tsr_frame_sort_at((df), (keys), TSR_HERE)
#define tsr_frame_limit(df, first, count) tsr_frame_limit_at((df), (first), (count), TSR_HERE)
#define tsr_frame_tail(df, count) tsr_frame_tail_at((df), (count), TSR_HERE)
/* tsr_frame_sample(df, 100, .seed = 7), tsr_frame_sample(df, .fraction = 0.1) */
#define tsr_frame_sample(...) TSR_FRAME_SAMPLE_(__VA_ARGS__, )
#define TSR_FRAME_SAMPLE_(df, ...) \
  tsr_frame_sample_with((df), \
      &(tsr_sample_opts){ .sized = TSR_SIZED_(#__VA_ARGS__), \
                          .size = sizeof(tsr_sample_opts), __VA_ARGS__ }, TSR_HERE)
#define TSR_SIZED_(text) \
  (tsr_argument_is_named(text, "rows") || tsr_argument_is_named(text, "fraction"))
#define tsr_frame_distinct(df, columns) tsr_frame_distinct_at((df), (columns), TSR_HERE)
#define tsr_frame_group_head(df, keys, count) \
  tsr_frame_group_head_at((df), (keys), (count), TSR_HERE)
#define tsr_frame_drop_nulls(df, columns) tsr_frame_drop_nulls_at((df), (columns), TSR_HERE)
#define tsr_frame_fill_null(df, columns, ...) \
  tsr_frame_fill_null_at((df), (columns), TSR_FORMULA(__VA_ARGS__), TSR_HERE)
#define tsr_frame_is_null(df) tsr_frame_is_null_at((df), TSR_HERE)
#define tsr_frame_drop(df, columns) tsr_frame_drop_at((df), (columns), TSR_HERE)
#define tsr_frame_rename(df, names) tsr_frame_rename_at((df), (names), TSR_HERE)
#define tsr_frame_with_row_index(df, name) tsr_frame_with_row_index_at((df), (name), TSR_HERE)
#define tsr_frame_value_counts(df, columns) tsr_frame_value_counts_at((df), (columns), TSR_HERE)
#define tsr_frame_describe(df) tsr_frame_describe_at((df), TSR_HERE)
/* tsr_frame_concat(a, b, c) */
#define tsr_frame_concat(...)                                                                  \
  tsr_frame_concat_at((tsr_frame *const[]){ __VA_ARGS__ },                                      \
                      (int)(sizeof((tsr_frame *const[]){ __VA_ARGS__ }) / sizeof(tsr_frame *)), \
                      TSR_HERE)
/* tsr_frame_join(a, b, "k"), tsr_frame_join(a, b, "k = id", TSR_JOIN_LEFT, .unique = true) */
#define tsr_frame_join(...) \
  TSR_NEEDS_3_("tsr_frame_join(left, right, on)", TSR_FRAME_JOIN_, __VA_ARGS__)
#define TSR_FRAME_JOIN_(left, right, on, ...) \
  tsr_frame_join_with((left), (right), (on), \
      &(tsr_join_opts){ .size = sizeof(tsr_join_opts), __VA_ARGS__ }, TSR_HERE)
#define tsr_frame_scatter(df, to) tsr_frame_scatter_at((df), (to), TSR_HERE)
#define tsr_frame_gather(df) tsr_frame_gather_at((df), TSR_HERE)
#define tsr_frame_rebalance(df) tsr_frame_rebalance_at((df), TSR_HERE)
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
#define tsr_frame_keep(scope, df) tsr_frame_keep_at((scope), (df), TSR_HERE)
#define tsr_frame_row_count(...) tsr_frame_row_count_at(__VA_ARGS__, TSR_HERE)
#define tsr_frame_collect(...) tsr_frame_collect_at(__VA_ARGS__, TSR_HERE)
#define tsr_frame_explain_into(df, out) tsr_frame_explain_into_at((df), (out), TSR_HERE)
#define tsr_frame_text_into(df, opts, out) tsr_frame_text_into_at((df), (opts), (out), TSR_HERE)
#define tsr_frame_devices_into(df, out) tsr_frame_devices_into_at((df), (out), TSR_HERE)
#define tsr_frame_print(...) tsr_frame_print_at(__VA_ARGS__, TSR_HERE)
#define tsr_frame_row(df) tsr_frame_row_at((df), TSR_HERE)
/* tsr_frame_column(df, "x"), tsr_frame_column(df, "x", .null_value = TSR_VALUE(0)) */
#define tsr_frame_column(...) \
  TSR_NEEDS_2_("tsr_frame_column(df, name)", TSR_FRAME_COLUMN_, __VA_ARGS__)
#define TSR_FRAME_COLUMN_(df, name, ...) \
  tsr_frame_column_with((df), (name), \
      &(tsr_frame_column_opts){ .size = sizeof(tsr_frame_column_opts), __VA_ARGS__ }, TSR_HERE)
/* clang-format on */
#endif

#endif
