/* How the functions of expressions are computed: lower_fn.c (numbers, choices), lower_date.c,
 * lower_cast.c, lower_text.c (dictionaries) and text_fn.c (what is done to one text). */
#ifndef TSR_FRAME_FUNCTIONS_H
#define TSR_FRAME_FUNCTIONS_H

#include "frame/lower/lower.h"
#include "io/text/dict.h"

/* ---- one text (text_fn.c) ---------------------------------------------------------------- */

typedef struct tsr__text_view {
  const char *at;
  int64_t length;
} tsr__text_view;

/* A code point in lower or upper case, one for one; itself where it has none (letters.c). */
uint32_t tsr__letter_lower(uint32_t c);
uint32_t tsr__letter_upper(uint32_t c);
/* Code points of a text of UTF-8. */
int64_t tsr__text_points(tsr__text_view text);
/* Writes a text function's result for one text; `b` is the second text of concat. */
void tsr__text_fn(const tsr__expr *expr, tsr__text_view a, tsr__text_view b, tsr__text *out);
/* contains, starts_with and ends_with. */
bool tsr__text_test(int fn, tsr__text_view a, tsr__text_view b);
bool tsr__is_text_test(int fn);
/* Whether a comparison (tsr__binary) holds of texts in this order (tsr__text_order). */
bool tsr__order_holds(int op, int order);

/* ---- dictionaries (lower_text.c) ---------------------------------------------------------- */

/* A dictionary being made for the terminal at work: equal texts get one code. */
typedef struct tsr__texts {
  tsr__lower *low;
  tsr__progress progress;
  tsr__dict_local local;
} tsr__texts;

void tsr__texts_open(tsr__texts *texts, tsr__lower *low);
/* The code of a text, which is copied; what fails is told by the end. */
int32_t tsr__texts_code(tsr__texts *texts, const char *text, size_t length);
/* Frees what was used; the dictionary in the terminal's scope, or NULL with an error there. The
 * codes that were given are final only where local.layout was left as it is: `count` of them are
 * made so. */
const tsr__dict *tsr__texts_close(tsr__texts *texts, int32_t *codes, int64_t count);

/* What a function of texts is asked of: each code of `a`, or of two columns each pair that may
 * occur. */
typedef struct tsr__text_domain {
  tsr__col a, b;
  const int64_t *pairs; /* a's code * b's texts + b's code; NULL: all in order */
  int64_t count;
  tsr_array *index; /* which of them a row has */
  int depth;        /* `a` is of what so many functions within the one asked for are made of */
} tsr__text_domain;
/* What the functions of one text within a question about a text are asked of; how many there are.
 * Their results are for the question alone. */
const tsr__expr *tsr__text_inner(const tsr__expr *asked, int *depth);
/* What a question (contains, starts_with, ends_with) says of one text, or of what `depth` functions
 * within it make of that; `room` are two to work in, of which one that failed had no memory. */
bool tsr__text_asks(const tsr__expr *asked, int depth, tsr__text_view text, tsr__text_view what,
                    tsr__text *room);
/* What the function of an expression makes of them (text_apply.c). */
tsr__col tsr__text_apply(tsr__lower *low, const tsr__expr *expr, const tsr__text_domain *d);
/* Calls `fn` for the pieces of a list of texts, its tasks, on all workers. False: cancelled, which
 * is recorded, or there was an error before. */
bool tsr__texts_each(tsr__lower *low, int64_t count, tsr__task_fn fn, void *user);
/* The first text of a piece, and where it ends. */
int64_t tsr__texts_piece(int64_t piece, int64_t count, int64_t *end);

/* table[codes]. */
tsr_array *tsr__look_up(tsr__lower *low, tsr_dtype dtype, const void *table, int64_t count,
                        tsr_array *codes);
/* Memory in the terminal's scope, zeroed; NULL with an error there. */
void *tsr__lower_room(tsr__lower *low, int64_t count, size_t element);

/* ---- different values (ask_distinct.c) ----------------------------------------------------- */

/* The different values of an i64 or f64 array where `mask` holds, in order and without NaN; -0 and
 * 0 are one. Only a run tells them. */
typedef struct tsr__distinct {
  struct tsr__distinct *next;
  const tsr_frame *frame; /* who asked: an expression of a frame, for its `part` */
  const tsr__expr *expr;
  int part;
  const char *site;
  tsr_array *values, *mask; /* of an ask, what is valid: the rows' mask is added */
  bool found;
  void *list; /* in the terminal's scope */
  int64_t count;
} tsr__distinct;
/* What was found for an expression; NULL: it is asked for now, for what `ask` says, and any column
 * of the type will do until it was found. */
const tsr__distinct *tsr__ask_distinct(tsr__lower *low, const tsr__distinct *ask);
/* The place of each value in that list, in range wherever it comes from. */
tsr_array *tsr__place_of(tsr__lower *low, const tsr__distinct *of);
/* Null wherever it stands. */
tsr__col tsr__all_null(tsr__lower *low, int type);

tsr__col tsr__lower_text_fn(tsr__lower *low, const tsr__expr *expr);

/* ---- the rest ------------------------------------------------------------------------------ */

tsr__col tsr__lower_call(tsr__lower *low, const tsr__expr *expr);
tsr__col tsr__lower_cast(tsr__lower *low, const tsr__expr *expr);
/* Parts of dates and times, date and date_trunc. */
tsr__col tsr__lower_date_fn(tsr__lower *low, const tsr__expr *expr);
/* + and - where dates or times take part. */
tsr__col tsr__lower_moved(tsr__lower *low, const tsr__expr *expr);
/* An i64 column as a narrower integer or dates; what does not fit is noted as an overflow. */
tsr__col tsr__to_narrow(tsr__lower *low, tsr__col column, int type);

#endif
