/* Looking whether what must not have happened did (lower/checks.c marks it), after a run: the
 * first row where it did, and the value there. */
#include "frame/run/run.h"

#include <math.h>
#include <stdio.h>

/* The first row that the devices marked, or a number beyond all rows. */
static int64_t first_marked(tsr__value *value)
{
  int64_t first = INT64_MAX;
  for (int p = 0; p < value->part_count; p++) {
    const uint64_t *bits = tsr__value_data(value, p);
    tsr_box box;
    tsr__value_box(value, p, &box);
    for (int64_t i = 0; bits && i < box.size[0]; i += 64) {
      int64_t left = box.size[0] - i;
      uint64_t word = bits[i / 64] & (left < 64 ? (UINT64_C(1) << left) - 1 : UINT64_MAX);
      int64_t row = box.start[0] + i + (word ? __builtin_ctzll(word) : 0);
      if (word && row < first) first = row;
      if (word) break;
    }
  }
  return first;
}

/* Whether a check tells one of several; a scalar does not. */
static bool is_of_many(const tsr__run_check *watch)
{
  return watch->row->dtype != TSR_BOOL || watch->row->shape.rank > 0;
}

static int64_t read_first(const tsr_array *array)
{
  int64_t out = 0;
  if (array->shape.rank > 0) return first_marked(array->value);
  if (array->dtype == TSR_BOOL) {
    uint8_t byte = 0;
    tsr__value_to_host(array->value, &byte);
    out = byte;
  } else {
    tsr__value_to_host(array->value, &out);
  }
  return out;
}

/* Copies the element of a row to `out`. */
static void read_row(const tsr__value *value, int64_t row, void *out)
{
  size_t size = tsr_dtype_size((tsr_dtype)value->dtype);
  for (int p = 0; p < value->part_count; p++) {
    const char *data = tsr__value_data(value, p);
    tsr_box box;
    tsr__value_box(value, p, &box);
    int64_t at = row - box.start[0];
    if (data && at >= 0 && at < box.size[0]) memcpy(out, data + (size_t)at * size, size);
  }
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
  if (!value->inert && !value->value) tsr__execute(bind->scope, &value, 1, &error);
  if (value->inert || !value->value || value->dtype == TSR_BOOL) return;
  if (value->shape.rank > 0) read_row(value->value, row, &found);
  else tsr__value_to_host(value->value, &found);
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
  while (source->parent && !source->source) source = source->parent;
  bool file = source->kind == TSR__FRAME_FILE;
  char place[64] = "";
  if (is_of_many(watch) && !watch->late)
    snprintf(place, sizeof place, " in row %lld", (long long)row);
  if (watch->cast) {
    show_value(bind, watch, row, &value);
    tsr__error_set(&bind->error, TSR_EVALUE,
                   "%s: %.300s: %.200s%s%s%.200s is no %s; try_cast gives null there",
                   watch->frame->what, tsr__text_get(&text), tsr__text_get(&value), place,
                   file ? " of " : "", file ? source->source->path : "",
                   tsr_coltype_name((tsr_coltype)watch->expr->type));
  } else {
    tsr__error_set(&bind->error, TSR_EVALUE,
                   "%s: %.300s%san integer leaves its range%s%s%.200s; "
                   "convert to float, for instance by * 1.0",
                   watch->frame->what, tsr__text_get(&text), watch->expr ? ": " : "", place,
                   file ? " of " : "", file ? source->source->path : "");
  }
  tsr__text_free(&text);
  tsr__text_free(&value);
  return bind->error.status;
}

tsr_status tsr__look_at_checks(tsr__bind *bind)
{
  const tsr__run_check *worst = NULL;
  int64_t first = 0;
  for (const tsr__run_check *w = bind->checks; w; w = w->next) {
    int64_t row = read_first(w->row);
    bool seen = is_of_many(w) ? row < w->rows : row != 0;
    if (!seen || (worst && row > first)) continue;
    worst = w;
    first = row;
  }
  return worst ? report(bind, worst, first) : TSR_OK;
}
