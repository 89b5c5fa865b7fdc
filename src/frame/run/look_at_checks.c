/* Looking whether what must not have happened did (lower/checks.c marks it), after a run: the
 * first row where it did, and the value there. */
#include "frame/run/run.h"

#include <math.h>
#include <stdio.h>

/* Whether a check tells one of several; a scalar does not. An i64 is a row's number even as a
 * scalar: the least of those that were marked. */
static bool is_of_many(const tsr__run_check *watch)
{
  return watch->row->dtype != TSR_BOOL || watch->row->shape.rank > 0;
}

/* The first row that the devices marked, beyond all rows if there is none; or the one mark. */
static tsr_status read_first(tsr__bind *bind, const tsr_array *array, int64_t *out)
{
  uint8_t byte = 0;
  *out = 0;
  if (array->shape.rank > 0)
    return tsr__value_find(array->value, (tsr__value_place){ true, 0 }, out, bind->what,
                           &bind->error);
  if (array->dtype != TSR_BOOL)
    return tsr__value_fetch(array->value, out, bind->what, &bind->error);
  tsr_status status = tsr__value_fetch(array->value, &byte, bind->what, &bind->error);
  *out = byte;
  return status;
}

/* The value of a row that a cast could not take; an array of rank 0 has one only. */
static void show_value(tsr__bind *bind, const tsr__run_check *watch, int64_t row, tsr__text *out)
{
  tsr_array *value = watch->shown;
  tsr__error error = { .status = TSR_OK };
  union {
    int64_t i;
    int32_t code;
  } found = { 0 }; /* an element of any type */
  char text[40];
  /* One more run, of the column that was cast: only an error needs its value. */
  if (!value->inert && !value->value) tsr__execute(bind->scope, &value, 1, &error);
  if (value->inert || !value->value || value->dtype == TSR_BOOL) return;
  if (value->shape.rank > 0) tsr__value_at(value->value, row, &found, bind->what, &error);
  else tsr__value_fetch(value->value, &found, bind->what, &error);
  if (watch->shown_type == TSR_COL_TEXT) {
    int64_t length = 0;
    const char *at = tsr__dict_get(watch->dict, found.code, &length);
    tsr__text_put(out, "'", 1);
    tsr__text_clip(out, at, (size_t)length, 60);
    tsr__text_put(out, "'", 1);
  } else {
    int length = watch->shown_type == TSR_COL_TIME
                     ? tsr__time_write(found.i, text)
                     : tsr__dtype_text((tsr_dtype)value->dtype, &found, 0, text);
    tsr__text_put(out, text, (size_t)length);
  }
}

/* Where a check failed: the row as the user knows it. */
static tsr_status report(tsr__bind *bind, const tsr__run_check *watch, int64_t row)
{
  const tsr_frame *source = watch->from;
  tsr__text text, value;
  tsr__text_init(&text, NULL);
  tsr__text_init(&value, NULL);
  if (watch->expr) tsr__expr_print(watch->expr, &text);
  /* The user knows rows by the file or table they came from, not by an intermediate frame. */
  while (source->parent && !source->source) source = source->parent;
  bool file = source->kind == TSR__FRAME_FILE;
  char place[64] = "";
  if (is_of_many(watch) && !watch->late)
    snprintf(place, sizeof place, " in row %lld", (long long)row);
  if (watch->cast) {
    show_value(bind, watch, row, &value);
    tsr__error_set(
        &bind->error, TSR_EVALUE,
        "%s: %.300s: %.200s%s%s%.200s is not a valid %s; use try_cast, which gives null there",
        watch->frame->what, tsr__text_get(&text), tsr__text_get(&value), place, file ? " of " : "",
        file ? source->source->path : "", tsr_coltype_name((tsr_coltype)watch->expr->type));
  } else {
    tsr__error_set(
        &bind->error, TSR_EVALUE,
        "%s: %.300s%san integer overflows%s%s%.200s; convert to float, for instance by * 1.0",
        watch->frame->what, tsr__text_get(&text), watch->expr ? ": " : "", place,
        file ? " of " : "", file ? source->source->path : "");
  }
  tsr__text_free(&text);
  tsr__text_free(&value);
  return bind->error.status;
}

/* The first row of all checks, so that the message does not depend on which check was made
 * first. */
tsr_status tsr__look_at_checks(tsr__bind *bind)
{
  const tsr__run_check *worst = NULL;
  int64_t first = 0;
  for (const tsr__run_check *w = bind->checks; w; w = w->next) {
    int64_t row;
    if (read_first(bind, w->row, &row)) return bind->error.status;
    bool seen = is_of_many(w) ? row < w->rows : row != 0;
    if (!seen || (worst && row > first)) continue;
    worst = w;
    first = row;
  }
  return worst ? report(bind, worst, first) : TSR_OK;
}
