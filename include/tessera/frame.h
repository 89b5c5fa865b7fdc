/* Frames: tables of named columns whose rows are split over devices.
 *
 * A frame is an immutable node owned by a scope, like an array; "df's scope" below is where results
 * of df belong (base.h). Calls that make frames never fail
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

#include "array.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_frame tsr_frame;
typedef struct tsr_table tsr_table;
typedef struct tsr_row tsr_row;

/* What a column holds: a dtype, or from 64 on what is more than its numbers. Dates are days and
 * times microseconds, both since 1970-01-01 UTC. */
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

/* Returns "bool", "i8", ..., "date", "time" or "text"; "?" for anything else; static. Local. */
TSR_API const char *tsr_coltype_name(tsr_coltype type);

/* ---- expressions ----------------------------------------------------------------------- */

#define TSR_MAX_PARAMS 8

/* The text of an expression (or a list of them) and the values of its `?` in order. Text and values
 * are borrowed for the call that takes them. */
typedef struct tsr_formula {
  const char *text;
  int count;
  tsr_scalar param[TSR_MAX_PARAMS];
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
 * count var std (ddof 1) any all median quantile(x, q) nunique first last corr(x, y); count()
 * counts rows, count(x) those where x is not null. Nulls are skipped (first and last take them);
 * the sum of none is 0, mean, min, max, var and std of none are null. A result is named `name =
 * ...` or by its text, "sum(revenue)". Returns a frame owned by df's scope. Errors as
 * tsr_frame_filter_at. Local. */
TSR_API tsr_frame *tsr_frame_agg_at(tsr_frame *df, const tsr_formula *aggregates, const char *site);

/* As tsr_frame_agg_at for each group of rows with equal `keys`: "origin, month", "year =
 * year(day)". Keys are of any type; null is a group, NaN one, -0 is 0's. Groups come in order of
 * their first row, or, where a key says `asc` or `desc` as in tsr_frame_sort, in order of those
 * keys. Returns a frame, keys first, owned by df's scope. Local. */
TSR_API tsr_frame *tsr_frame_group_agg_at(tsr_frame *df, const char *keys,
                                          const tsr_formula *aggregates, const char *site);

/* Orders the rows by keys: "origin, delay desc, day nulls first". A key is an expression, then
 * `asc` (default) or `desc`, then `nulls first` or `nulls last` (default). Stable; NaN is greater
 * than every number, -0 equals 0, text is ordered by its bytes. Returns a frame owned by df's
 * scope. Errors as tsr_frame_filter_at. Local. */
TSR_API tsr_frame *tsr_frame_sort_at(tsr_frame *df, const char *keys, const char *site);

/* Keeps `count` rows from row `first` on (fewer where the frame ends). Returns a frame owned by
 * df's scope. Error: TSR_EARG for negative numbers. Local. */
TSR_API tsr_frame *tsr_frame_limit_at(tsr_frame *df, int64_t first, int64_t count,
                                      const char *site);
/* Keeps the last `count` rows; see tsr_frame_limit_at. Local. */
TSR_API tsr_frame *tsr_frame_tail_at(tsr_frame *df, int64_t count, const char *site);

/* Options of tsr_frame_sample: one of `rows`, which may stand without its name, and `fraction`. */
typedef struct tsr_sample_opts {
  size_t size;
  int64_t rows TSR_REST_BY_NAME; /* exactly so many (all if there are fewer) */
  double fraction;               /* each row with this probability */
  uint64_t seed;
  bool sized; /* one of them is given though it is 0: the macro sees names */
} tsr_sample_opts;

/* Keeps a random sample of rows, without replacement and in order. Which rows are kept depends on
 * the seed and their number in the source, not on the mesh. Returns a frame owned by df's scope.
 * Error: TSR_EARG, also where neither is given. Local. */
TSR_API tsr_frame *tsr_frame_sample_with(tsr_frame *df, const tsr_sample_opts *opts,
                                         const char *site);

/* Keeps the first row of each set of rows that are equal in `columns` ("a, b"; NULL: all), in
 * order; null equals null, NaN equals NaN. Returns a frame owned by df's scope. Local. */
TSR_API tsr_frame *tsr_frame_distinct_at(tsr_frame *df, const char *columns, const char *site);

/* Keeps the first `count` rows of each group of equal keys, in order; after a sort: the largest or
 * smallest of each group. Returns a frame owned by df's scope. Local. */
TSR_API tsr_frame *tsr_frame_group_head_at(tsr_frame *df, const char *keys, int64_t count,
                                           const char *site);

/* Drops the rows with a null in `columns` ("a, b"; NULL: any). Returns a frame owned by df's scope.
 * Local. */
TSR_API tsr_frame *tsr_frame_drop_nulls_at(tsr_frame *df, const char *columns, const char *site);
/* Puts a value in the place of nulls of `columns` (NULL: all of its type): fill_null(df, "a, b",
 * "0"). The value is an expression that meets the columns' types. Returns a frame owned by df's
 * scope. Errors as tsr_frame_filter_at. Local. */
TSR_API tsr_frame *tsr_frame_fill_null_at(tsr_frame *df, const char *columns,
                                          const tsr_formula *value, const char *site);
/* Makes a frame of bools that tell where df is null. Returns a frame owned by df's scope. Local. */
TSR_API tsr_frame *tsr_frame_is_null_at(tsr_frame *df, const char *site);

/* Leaves out the listed columns. Returns a frame owned by df's scope. Error: TSR_ECOLUMN. Local. */
TSR_API tsr_frame *tsr_frame_drop_at(tsr_frame *df, const char *columns, const char *site);
/* Renames columns in their places: "new = old, ...". Returns a frame owned by df's scope. Error:
 * TSR_ECOLUMN. Local. */
TSR_API tsr_frame *tsr_frame_rename_at(tsr_frame *df, const char *names, const char *site);
/* Puts a column in front that numbers the rows from 0. Returns a frame owned by df's scope. Error:
 * TSR_ECOLUMN. Local. */
TSR_API tsr_frame *tsr_frame_with_row_index_at(tsr_frame *df, const char *name, const char *site);

/* Counts the rows of each combination of values of `columns`: these and "count", most frequent
 * first, equal ones by first appearance. Returns a frame owned by df's scope. Local. */
TSR_API tsr_frame *tsr_frame_value_counts_at(tsr_frame *df, const char *columns, const char *site);
/* Describes each column: rows "count", "nulls", "mean", "std", "min", "25%", "50%", "75%", "max"
 * under the column "statistic". Numbers and bools as f64, other columns as text. Returns a frame
 * owned by df's scope. Local. */
TSR_API tsr_frame *tsr_frame_describe_at(tsr_frame *df, const char *site);

/* ---- several frames -------------------------------------------------------------------- */

/* Appends frames of the same column names (in any order): types meet as in expressions, where a
 * file's column of nothing but nulls takes the others'; rows lie as the first frame's. Returns a
 * frame owned as results are. Errors: TSR_ECOLUMN, TSR_EDTYPE. Local. */
TSR_API tsr_frame *tsr_frame_concat_at(tsr_frame *const *frames, int count, const char *site);

typedef enum tsr_join_how {
  TSR_JOIN_INNER = 0,
  TSR_JOIN_LEFT, /* keeps left rows without a match, with nulls for the right columns */
  TSR_JOIN_SEMI, /* left rows that have a match, left columns */
  TSR_JOIN_ANTI  /* left rows that have none, left columns */
} tsr_join_how;

/* Options of tsr_frame_join. Zero means default; `how` may stand without its name. */
typedef struct tsr_join_opts {
  size_t size;
  tsr_join_how how TSR_REST_BY_NAME;
  const char *suffix; /* added to right columns whose name is taken; NULL = "_right" */
  bool unique;        /* a left row with two matches is TSR_EVALUE that names the key */
} tsr_join_opts;

/* Joins two frames on equal keys: "k", or "left = right" where they differ, or several, "a, b = c".
 * A key is an expression of its frame's columns: "id = cast(key, 'i64')". Keys meet in their types;
 * null equals nothing, NaN equals NaN, -0 equals 0. The result has the left columns, then the right
 * ones but for those that are keys as they stand; rows in the order of the left ones, then of the
 * right, lying where the left rows lie. A right frame that is whole on every device moves nothing.
 * Returns a frame owned as results are. Errors: TSR_ECOLUMN, TSR_EDTYPE. Local. */
TSR_API tsr_frame *tsr_frame_join_with(tsr_frame *left, tsr_frame *right, const char *on,
                                       const tsr_join_opts *opts, const char *site);

/* ---- where rows lie -------------------------------------------------------------------- */

/* Moves the rows, in order, to where `to` says: one entry for rows and, if given, one for columns,
 * which must be whole: tsr_on(mesh, "data") or "data,-"; "-" puts all rows on every device. Returns
 * a frame owned by df's scope. Errors: TSR_EAXIS, TSR_EUNSUPPORTED (split columns). Local. */
TSR_API tsr_frame *tsr_frame_scatter_at(tsr_frame *df, tsr_sharding to, const char *site);
/* Moves all rows, in order, to the first device. Returns a frame owned by df's scope. Local. */
TSR_API tsr_frame *tsr_frame_gather_at(tsr_frame *df, const char *site);
/* Gives every device an even share of the rows again, in order. Returns a frame owned by df's
 * scope. Local. */
TSR_API tsr_frame *tsr_frame_rebalance_at(tsr_frame *df, const char *site);
/* Returns how the rows lie (rank 1), as far as it is known before reading: unplaced for a frame of
 * one row, and for an inert one. Local. */
TSR_API tsr_sharding tsr_frame_sharding(const tsr_frame *df);
/* Returns NULL where arithmetic of the two frames moves no rows, else a sentence that says what
 * would have to move; owned by a's scope. Local. */
TSR_API const char *tsr_frame_incompatible(tsr_frame *a, tsr_frame *b);

/* ---- whole frames ---------------------------------------------------------------------- */

/* The right operand of whole-frame arithmetic: a frame, or where that is NULL a number. */
typedef struct tsr_frame_operand {
  tsr_frame *frame;
  tsr_scalar number;
} tsr_frame_operand;

/* Wrap an operand; the macros call them. The frame is borrowed. Local. */
TSR_API tsr_frame_operand tsr_frame_operand_frame(tsr_frame *frame);
/* As tsr_frame_operand_frame for an integer. Local. */
TSR_API tsr_frame_operand tsr_frame_operand_int(long long value);
/* As tsr_frame_operand_frame for an unsigned integer; beyond i64 it is refused. Local. */
TSR_API tsr_frame_operand tsr_frame_operand_uint(unsigned long long value);
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
TSR_API int tsr_frame_column_count(const tsr_frame *df);
/* Returns the name of a column, owned by the frame, or NULL. Local. */
TSR_API const char *tsr_frame_column_name(const tsr_frame *df, int column);
/* Returns the type of a column, 0 if there is none. Local. */
TSR_API tsr_coltype tsr_frame_column_type(const tsr_frame *df, int column);
/* Returns the schema as text, one "name  type" a line, owned by the scope. Local. */
TSR_API const char *tsr_frame_schema(tsr_frame *df);
/* Returns what a terminal on the frame would do: the steps from the file to the result, each with
 * rows and bytes in and out; then the programs, each with the steps that it takes in one pass, its
 * kernels, and its collectives with their bytes. Numbers marked "~" are estimates; once a terminal
 * has run, what was counted stands there, and how rows were made and exchanged. Reads the files
 * that the frame is made of, finds the range of integer group keys, and counts what filters left in
 * a terminal that ran; nothing else is run. Owned by the scope; on error the message.
 * Collective. */
TSR_API const char *tsr_frame_explain(tsr_frame *df);
/* As tsr_frame_explain, and tells whether it is the explanation: writes it to `out`, which is
 * untouched on failure. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_explain_into_at(tsr_frame *df, const char **out,
                                                          const char *site);

/* ---- terminals ------------------------------------------------------------------------- */

/* What they record as wrong stands at their own line, `site`; where that is NULL, at the
 * frame's. */

/* Evaluates and counts the rows. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_row_count_at(tsr_frame *df, int64_t *out,
                                                       const char *site);

/* Evaluates and copies all rows to the host. `*out` is a table owned by the frame's scope,
 * untouched on failure. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_collect_at(tsr_frame *df, tsr_table **out,
                                                     const char *site);

/* Evaluates a frame of one row. Returns the row, owned by the frame's scope; never NULL: on error
 * it holds nothing and tsr_row_status tells. Error: TSR_ESHAPE if there is not exactly one row.
 * Collective. */
TSR_API tsr_row *tsr_frame_row_at(tsr_frame *df, const char *site);

/* Options of tsr_frame_column. Zero means default. */
typedef struct tsr_frame_column_opts {
  size_t size TSR_REST_BY_NAME;
  tsr_scalar
      null_value; /* a number, TSR_VALUE(0), in the place of nulls; none = they are an error */
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
/* How a frame is drawn. Zero means default. */
typedef struct tsr_show_opts {
  size_t size TSR_REST_BY_NAME;
  int64_t rows; /* at most so many, half from each end; 0 = 20, negative = all */
  int width;    /* of a line: texts are cut, then columns left out; 0 = 120, negative = any */
  bool colour;  /* ANSI colours: names bold, types, nulls and frame dim */
} tsr_show_opts;
/* As tsr_frame_text with options; NULL = defaults. Collective. */
TSR_API const char *tsr_frame_text_with(tsr_frame *df, const tsr_show_opts *opts);
/* As tsr_frame_text_with in the form of tsr_frame_explain_into. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_text_into_at(tsr_frame *df, const tsr_show_opts *opts,
                                                       const char **out, const char *site);
/* Evaluates and prints what tsr_frame_text returns. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_print_at(tsr_frame *df, FILE *out, const char *site);
/* Evaluates and returns one line a device: id, rows kept of rows held; owned by the scope; on
 * error the message. Collective. */
TSR_API const char *tsr_frame_devices(tsr_frame *df);
/* As tsr_frame_devices in the form of tsr_frame_explain_into. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_devices_into_at(tsr_frame *df, const char **out,
                                                          const char *site);

/* Evaluates all columns of a frame once and returns a frame of them, owned by `scope` (inner or
 * outer): its buffers are held by reference, so that the chain before it may go, and what is made
 * of it starts there. Rows lie where they lay. As tsr_keep for arrays. Collective. */
TSR_API tsr_frame *tsr_frame_keep_at(tsr_scope *scope, tsr_frame *df, const char *site);

/* ---- tables on the host ------------------------------------------------------------------ */

/* Returns the number of rows. Local. */
TSR_API int64_t tsr_table_row_count(const tsr_table *table);
/* Returns the number of columns. Local. */
TSR_API int tsr_table_column_count(const tsr_table *table);
/* Returns the name of a column, owned by the table, or NULL. Local. */
TSR_API const char *tsr_table_name(const tsr_table *table, int column);
/* Returns the type of a column, 0 if there is none. Local. */
TSR_API tsr_coltype tsr_table_type(const tsr_table *table, int column);
/* Returns the number of a column by its name, -1 if there is none. Local. */
TSR_API int tsr_table_find(const tsr_table *table, const char *name);
/* Tells whether a value is null; true outside the table. Local. */
TSR_API bool tsr_table_is_null(const tsr_table *table, int64_t row, int column);
/* Returns all values of a column, row_count of them, densely: bool as bytes, dates as i32 days,
 * times as i64 microseconds, others by their dtype; what stands at a null is any value. Owned by
 * the table; NULL for text and outside. Local. */
TSR_API const void *tsr_table_values(const tsr_table *table, int column);
/* Returns a byte a row, 0 where the value is null; owned by the table. NULL where there are no
 * nulls, and outside. Local. */
TSR_API const uint8_t *tsr_table_valid(const tsr_table *table, int column);
/* Returns a number, bool, date or time as a double; NaN for null, text or outside. Local. */
TSR_API double tsr_table_f64(const tsr_table *table, int64_t row, int column);
/* Returns an integer, bool, date or time, or a float cut towards zero; 0 for null, text or
 * outside. A u64 beyond i64 comes as its bits: convert it to uint64_t. Local. */
TSR_API int64_t tsr_table_i64(const tsr_table *table, int64_t row, int column);
/* Returns a value of any type as text (dates as 2013-01-31), NUL-terminated and owned by the
 * table's scope; NULL for null or outside, and out of memory, which the scope records. Local. */
TSR_API const char *tsr_table_text(const tsr_table *table, int64_t row, int column);
/* As tsr_table_text with the number of bytes before the last NUL, for texts that hold NULs;
 * `length` is set to 0 where NULL is returned, and may be NULL. Local. */
TSR_API const char *tsr_table_bytes(const tsr_table *table, int64_t row, int column,
                                    size_t *length);

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
/* Returns a value by column as tsr_table_bytes. An unknown name is recorded in the scope. Local. */
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
