/* cast and try_cast. Numbers are cut towards zero; what does not fit marks its row (cast) or is
 * null (try_cast). Texts are read, and written, once for each distinct value.
 *
 *   cast(who, 'i64')    codes 0 1 0     dictionary  0 "12"  1 "x1"
 *                       value           table       12      0           fits   true  false   */
#include "frame/lower/functions.h"
#include "io/text/datetime.h"
#include "io/text/decimal.h"

#include <math.h>
#include <stdio.h>

static tsr_array *whole(tsr__lower *low, int64_t value)
{
  return tsr__const_i(low, TSR_I64, value);
}

/* Takes what fits: elsewhere try_cast gives null and cast an error. `fits` NULL: all does. For a
 * cast the row is marked and stays valid: the terminal fails if the mark is seen, and nobody reads
 * the value. */
static tsr__col settle(tsr__lower *low, const tsr__expr *expr, tsr__col from, tsr__col out,
                       tsr_array *fits)
{
  out.valid = from.valid;
  if (!fits) return out;
  if (expr->op == TSR__F_TRY_CAST) out.valid = tsr__both(low, fits, from.valid);
  else tsr__note_cast(low, expr, tsr__op1(low, TSR__OP_NOT, fits), from);
  return out;
}

/* ---- numbers ----------------------------------------------------------------------------- */

/* A float to an integer type: `fits` where the cut number is in range, which NaN is not. What lies
 * just below the range of i64 is no f64.
 *    i32 of f64     -2^31 - 1 < x < 2^31        cut towards zero
 *    i64 of f64     -2^63 <= x < 2^63           -2^63 - 1 is no f64
 * What does not fit is cast from 0: what the cast would give for it is masked anyway. */
static tsr_array *cut(tsr__lower *low, tsr_array *x, tsr_dtype dtype, tsr_array **fits)
{
  bool widest = dtype == TSR_I64;
  double least = (double)tsr__dtype_least(dtype);
  x = tsr__cast(low, x, TSR_F64);
  tsr_array *above = tsr__op2(low, widest ? TSR__OP_GE : TSR__OP_GT, x,
                              tsr__const_f(low, TSR_F64, widest ? least : least - 1));
  /* 2^precision: one more than the largest, and a power of two, so that it is a double in each
   * case. */
  double end = ldexp(1, tsr__dtype_info_of(dtype)->precision);
  tsr_array *below = tsr__op2(low, TSR__OP_LT, x, tsr__const_f(low, TSR_F64, end));
  *fits = tsr__op2(low, TSR__OP_AND, above, below);
  return tsr__cast(low, tsr__where(low, *fits, x, tsr__const_f(low, TSR_F64, 0)), dtype);
}

/* An integer to another integer type: `fits` where that has it, NULL where it has all. Only those
 * ends are compared that the type can pass. */
static tsr_array *narrow(tsr__lower *low, tsr_array *x, tsr_dtype dtype, tsr_array **fits)
{
  tsr_dtype own = (tsr_dtype)x->dtype;
  int64_t least = tsr__dtype_least(dtype), most = (int64_t)tsr__dtype_most(dtype);
  tsr_array *above = NULL, *below = NULL;
  if (tsr__dtype_least(own) < least)
    above = tsr__op2(low, TSR__OP_GE, x, tsr__const_i(low, own, least));
  if (tsr__dtype_most(own) > (uint64_t)most)
    below = tsr__op2(low, TSR__OP_LE, x, tsr__const_i(low, own, most));
  *fits = tsr__both(low, above, below);
  return tsr__cast(low, x, dtype);
}

/* Between numbers, bools, dates (as days) and times (as microseconds). */
static tsr__col convert(tsr__lower *low, const tsr__expr *expr, tsr__col from)
{
  int to = expr->type;
  tsr_dtype dtype = tsr__dtype_of_type(to);
  tsr__col out = { .type = (uint8_t)to };
  tsr_array *x = from.values, *fits = NULL;
  if (from.type == TSR_COL_DATE && to == TSR_COL_TIME) {
    /* The midnight that it begins with, in microseconds. */
    tsr_array *day = whole(low, INT64_C(86400000000));
    x = tsr__cast(low, x, TSR_I64);
    fits = tsr__op1(low, TSR__OP_NOT, tsr__op2(low, TSR__OP_MULOVF, x, day));
    out.values = tsr__op2(low, TSR__OP_MUL, x, day);
  } else if (from.type == TSR_COL_TIME && to == TSR_COL_DATE) {
    /* Rounded down: a moment before 1970 belongs to the day that it is in. */
    x = tsr__op2(low, TSR__OP_FLOORDIV, x, whole(low, INT64_C(86400000000)));
    out.values = tsr__cast(low, x, TSR_I32);
  } else if (to == TSR_COL_BOOL && from.type != TSR_COL_BOOL) {
    /* True is whatever is not 0, NaN too. */
    bool real = tsr__is_float(from.type);
    tsr_dtype own = (tsr_dtype)x->dtype;
    tsr_array *zero = real ? tsr__const_f(low, own, 0) : tsr__const_i(low, own, 0);
    out.values = tsr__op2(low, TSR__OP_NE, x, zero);
  } else if (tsr__is_float(from.type) && !tsr__is_float(to)) {
    out.values = cut(low, x, dtype, &fits);
  } else if (tsr__dtype_integer(dtype) && from.type != TSR_COL_BOOL) {
    out.values = narrow(low, x, dtype, &fits);
  } else {
    out.values = tsr__cast(low, x, dtype);
  }
  return settle(low, expr, from, out, fits);
}

/* ---- from text --------------------------------------------------------------------------- */

/* As the fields of files are read, so that a text column casts as the file would have been
 * typed. */
static tsr__text_view without_blanks(tsr__text_view text)
{
  while (text.length && (text.at[0] == ' ' || text.at[0] == '\t')) text.at++, text.length--;
  const char *end = text.at + text.length;
  while (text.length && (end[-1] == ' ' || end[-1] == '\t')) end--, text.length--;
  return text;
}

static bool read_bool(const char *at, size_t length, int64_t *value)
{
  *value =
      length == 4 && (!memcmp(at, "true", 4) || !memcmp(at, "True", 4) || !memcmp(at, "TRUE", 4));
  bool no = length == 5 &&
            (!memcmp(at, "false", 5) || !memcmp(at, "False", 5) || !memcmp(at, "FALSE", 5));
  return *value || no;
}

/* Reads all of a text as a type, but for blanks around it, as the fields of files are read; floats
 * go to `*real`, the rest to `*value`. */
static bool read_text(const tsr__decimal *decimal, int type, tsr__text_view text, int64_t *value,
                      double *real)
{
  text = without_blanks(text);
  size_t length = (size_t)text.length;
  int32_t days = 0;
  bool date;
  tsr__number number;
  switch (type) {
  case TSR_COL_BOOL: return read_bool(text.at, length, value);
  case TSR_COL_DATE:
    date = tsr__date_read(text.at, length, &days);
    *value = days;
    return date;
  case TSR_COL_TIME:
    /* A moment, or a date, which is its midnight. */
    if (tsr__time_read(text.at, length, value)) return true;
    date = tsr__date_read(text.at, length, &days);
    *value = days * INT64_C(86400000000);
    return date;
  default:
    number = tsr__decimal_read(decimal, text.at, length, value, real);
    /* Beyond i64 only u64 goes on. */
    if (!tsr__is_float(type))
      return (number == TSR__NUMBER_INT && tsr__dtype_holds((tsr_dtype)type, *value)) ||
             (number == TSR__NUMBER_BIG && type == TSR_COL_U64 &&
              tsr__decimal_natural(text.at, length, (uint64_t *)value));
    /* From the text once more: a number that was rounded to f64 would be rounded twice. */
    *real = tsr__decimal_round(decimal, (tsr_dtype)type, text.at, length, *real);
    return number != TSR__NUMBER_NONE;
  }
}

static void store(void *table, int64_t i, tsr_dtype dtype, int64_t value, double real)
{
  if (tsr__dtype_is_real(dtype)) tsr__dtype_put_real(dtype, table, i, real);
  else tsr__dtype_put_whole(dtype, table, i, value);
}

/* Texts being read as values of a type, piece by piece. */
typedef struct reading {
  const tsr__dict *dict;
  const tsr__decimal *decimal; /* opened once for all texts */
  int type;
  tsr_dtype dtype;
  void *table;
  bool *fits;
  _Atomic bool some; /* that do not fit */
} reading;

static void read_piece(void *user, int64_t piece, int worker)
{
  (void)worker;
  reading *r = user;
  int64_t end;
  for (int64_t i = tsr__texts_piece(piece, r->dict->count, &end); i < end; i++) {
    tsr__text_view text;
    int64_t value = 0;
    double real = 0;
    text.at = tsr__dict_get(r->dict, i, &text.length);
    r->fits[i] = read_text(r->decimal, r->type, text, &value, &real);
    /* What does not fit stays 0, since the table is zeroed. */
    if (r->fits[i]) store(r->table, i, r->dtype, value, real);
    else atomic_store_explicit(&r->some, true, memory_order_relaxed);
  }
}

/* A text that no row has any more, as a filter dropped it, may not fit: its entry of the table is
 * looked up by nobody, and marks no row. */
static tsr__col from_text(tsr__lower *low, const tsr__expr *expr, tsr__col from)
{
  tsr_dtype dtype = tsr__dtype_of_type(expr->type);
  int64_t count = from.dict->count;
  tsr__col out = { .type = expr->type, .values = from.values };
  reading r = { .dict = from.dict, .type = expr->type, .dtype = dtype };
  r.table = tsr__lower_room(low, count, tsr_dtype_size(dtype));
  r.fits = tsr__lower_room(low, count, sizeof *r.fits);
  tsr__decimal *decimal = tsr__decimal_open(&low->scope->rt->heap);
  r.decimal = decimal;
  if (!decimal) tsr__fail(low->scope, low->site, TSR_ENOMEM, "%s: out of memory", low->bind->what);
  bool whole = r.table && r.fits && decimal && tsr__texts_each(low, count, read_piece, &r);
  tsr__decimal_close(decimal);
  if (!whole) return out;
  out.values = tsr__look_up(low, dtype, r.table, count, from.values);
  /* Mostly all do, and no second look-up is made. */
  tsr_array *fit = r.some ? tsr__look_up(low, TSR_BOOL, r.fits, count, from.values) : NULL;
  return settle(low, expr, from, out, fit);
}

/* ---- to text ----------------------------------------------------------------------------- */

/* The list is of i64 or f64 (write_texts), the type says what its values are. */
static int write_value(int type, const void *list, int64_t i, char *out)
{
  int64_t integer = ((const int64_t *)list)[i];
  uint64_t narrow; /* a float of any type */
  switch (type) {
  case TSR_COL_F64: return tsr__text_f64(out, ((const double *)list)[i]);
  case TSR_COL_U64: return tsr__text_u64(out, (uint64_t)integer);
  /* Dates and times are written from integers, whatever they lie as. */
  case TSR_COL_DATE: return tsr__date_write(integer, out);
  case TSR_COL_TIME: return tsr__time_write(integer, out);
  default:
    if (!tsr__is_float(type)) return tsr__text_i64(out, integer);
    /* A narrow float has a shorter text than the f64 that it is exactly. */
    tsr__dtype_put_real((tsr_dtype)type, &narrow, 0, ((const double *)list)[i]);
    return tsr__dtype_text((tsr_dtype)type, &narrow, 0, out);
  }
}

enum { PIECE = 1 << 14, LONGEST = 40 }; /* values a task writes; bytes that one takes at most */

/* Texts of different values, piece by piece: each piece is written into room of its own, and copied
 * to where it stands in the dictionary once the lengths are known. Different values have different
 * texts, so nothing is looked up.
 *
 *   room         |7 13 21 ....|40 44 ........|        dictionary    7132140 44...
 *                 piece 0      piece 1                at            0    5        */
typedef struct writing {
  int type;
  const void *list;
  int64_t count;
  char *room;      /* LONGEST bytes a value */
  uint8_t *length; /* by value */
  int64_t *at;     /* by piece: bytes, then where they begin */
  tsr__dict *dict;
} writing;

static int64_t end_of(const writing *w, int64_t piece)
{
  return (piece + 1) * PIECE < w->count ? (piece + 1) * PIECE : w->count;
}

static void write_piece(void *user, int64_t task, int worker)
{
  (void)worker;
  writing *w = user;
  char *begin = w->room + task * PIECE * LONGEST, *out = begin;
  for (int64_t i = task * PIECE; i < end_of(w, task); i++) {
    w->length[i] = (uint8_t)write_value(w->type, w->list, i, out);
    out += w->length[i];
  }
  w->at[task] = out - begin;
}

static void place_piece(void *user, int64_t task, int worker)
{
  (void)worker;
  writing *w = user;
  int64_t at = w->at[task];
  const char *begin = w->room + task * PIECE * LONGEST;
  for (int64_t i = task * PIECE; i < end_of(w, task); i++) {
    w->dict->offsets[i] = at;
    at += w->length[i];
  }
  memcpy(w->dict->bytes + w->at[task], begin, (size_t)(at - w->at[task]));
}

/* What values without a place of their own become: NaN is none, and -0 equals 0. */
enum { NAN_TEXT, MINUS_TEXT, SPECIAL };
static const char special[] = "nan-0";
static const int special_at[SPECIAL + 1] = { 0, 3, 5 };

/* The dictionary of what was written, with the special texts after it where `w` is of floats;
 * false: cancelled. A dictionary has an offset more than texts; the last one, of all bytes, is set
 * when it is made. */
static bool place_texts(tsr_runtime *rt, writing *w)
{
  int64_t bytes = 0, pieces = (w->count + PIECE - 1) / PIECE;
  int more = tsr__is_float(w->type) ? SPECIAL : 0;
  size_t length = (size_t)special_at[more];
  if (!tsr__parallel_long(rt, TSR__PROGRAM, pieces, write_piece, w)) return false;
  /* Lengths of pieces become the places where they begin. */
  for (int64_t p = 0; p < pieces; p++) {
    int64_t here = w->at[p];
    w->at[p] = bytes;
    bytes += here;
  }
  w->dict = tsr__dict_new(&rt->heap, (int32_t)w->count + more, bytes + (int64_t)length);
  if (!w->dict) return true;
  for (int i = 0; i < more; i++) w->dict->offsets[w->count + i] = bytes + special_at[i];
  memcpy(w->dict->bytes + bytes, special, length);
  return tsr__parallel_long(rt, TSR__PROGRAM, pieces, place_piece, w);
}

/* Texts of the different values in order. Working memory is of the heap and goes before the
 * dictionary is handed on: it is a multiple of what stays. */
static const tsr__dict *texts_of(tsr__lower *low, int type, const tsr__distinct *d)
{
  tsr_runtime *rt = low->scope->rt;
  writing w = { .type = type, .list = d->list, .count = d->count };
  size_t count = (size_t)d->count, pieces = count / PIECE + 1;
  w.room = tsr__new_raw(&rt->heap, count * LONGEST);
  w.length = tsr__new_raw(&rt->heap, count);
  w.at = tsr__new_raw(&rt->heap, pieces * sizeof *w.at);
  bool whole = !w.room || !w.length || !w.at || place_texts(rt, &w);
  tsr__del(&rt->heap, w.room, count * LONGEST);
  tsr__del(&rt->heap, w.length, count);
  tsr__del(&rt->heap, w.at, pieces * sizeof *w.at);
  if (!whole) {
    tsr__lower_cancelled(low);
    tsr__dict_release(w.dict); /* half filled */
    w.dict = NULL;
  }
  return tsr__lower_dict(low, w.dict, NULL);
}

/* The place of NaN and of -0, whose inverse is that of no other zero. Their texts stand behind
 * those of the list, which has neither: NaN was left out, and -0 was made 0. */
static tsr_array *place_special(tsr__lower *low, const tsr__distinct *d, tsr_array *place)
{
  tsr_array *zero = tsr__const_f(low, TSR_F64, 0), *one = tsr__const_f(low, TSR_F64, 1);
  tsr_array *below = tsr__op2(low, TSR__OP_LT, tsr__op2(low, TSR__OP_DIV, one, d->values), zero);
  tsr_array *minus = tsr__both(low, below, tsr__op2(low, TSR__OP_EQ, d->values, zero));
  tsr_array *nan = tsr__op1(low, TSR__OP_ISNAN, d->values);
  place = tsr__where(low, minus, whole(low, d->count + MINUS_TEXT), place);
  return tsr__where(low, nan, whole(low, d->count + NAN_TEXT), place);
}

/* Asked and lowered again: the first time nulls stand in, and what is made of them is thrown
 * away. */
static tsr__col write_texts(tsr__lower *low, const tsr__expr *expr, tsr__col from)
{
  bool real = tsr__is_float(from.type);
  /* Every narrower type is exact in these, so two list types will do. */
  tsr_array *values = tsr__cast(low, from.values, real ? TSR_F64 : TSR_I64);
  tsr__distinct ask = { .expr = expr, .values = values, .mask = from.valid };
  const tsr__distinct *d = tsr__ask_distinct(low, &ask);
  if (!d) return tsr__all_null(low, TSR_COL_TEXT);
  tsr__col out = { .type = TSR_COL_TEXT, .valid = from.valid };
  out.dict = texts_of(low, from.type, d);
  tsr_array *place = tsr__place_of(low, d);
  if (real) place = place_special(low, d, place);
  out.values = tsr__cast(low, place, TSR_I32);
  return out;
}

static tsr__col write_bools(tsr__lower *low, tsr__col from)
{
  tsr__texts texts;
  tsr__texts_open(&texts, low);
  /* In this order, so that the bools themselves are the codes. */
  tsr__texts_code(&texts, "false", 5);
  tsr__texts_code(&texts, "true", 4);
  return (tsr__col){ .type = TSR_COL_TEXT,
                     .values = tsr__cast(low, from.values, TSR_I32),
                     .valid = from.valid,
                     .dict = tsr__texts_close(&texts, NULL, 0) };
}

tsr__col tsr__lower_cast(tsr__lower *low, const tsr__expr *expr)
{
  int to = expr->type;
  tsr__col from = tsr__settle(low, tsr__lower_expr(low, expr->arg[0]));
  /* A column of texts without any text holds only nulls. */
  bool nulls = from.type == TSR_COL_TEXT && (!from.dict || !from.dict->count);
  if (from.type == TSR__COL_NULL || (nulls && to != TSR_COL_TEXT)) {
    from.type = TSR__COL_NULL;
    from.valid = tsr__const_i(low, TSR_BOOL, 0);
    return tsr__convert(low, from, to);
  }
  if (from.type == to) return from;
  if (from.type == TSR_COL_TEXT) return from_text(low, expr, from);
  if (to == TSR_COL_TEXT)
    return from.type == TSR_COL_BOOL ? write_bools(low, from) : write_texts(low, expr, from);
  return convert(low, expr, from);
}
