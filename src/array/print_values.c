/* Values as NumPy prints them: one width for all elements, brackets by dim, lines of at most 75
 * columns, and only the ends of arrays of more than 1,000 elements.
 *
 * Floats print with the fewest digits that tell them apart, at most 8 after the point, in
 * columns aligned at the point; all in exponent form if one is >= 1e8 (f32: 1e6) or < 1e-4, or if
 * the largest is more than 1,000 times the smallest.
 *
 * Two passes over the elements that are shown: the first measures them, the second writes.
 *
 *   [[  1.    2.5]         left  3   columns before the point, a sign among them
 *    [100.    nan]]        right 1   after it; width = left + 1 + right */
#include "array/array_room.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { THRESHOLD = 1000, EDGE = 3, LINE = 75, DIGITS = 8, DIGIT_ROOM = 24, FLOAT_ROOM = 400 };

/* How one element is laid out. */
typedef struct layout {
  tsr_dtype dtype;
  const tsr_shape *shape;
  const void *data;
  bool summarise, exponent;
  int left, right; /* floats: columns before and after the point (or of the mantissa) */
  int exp_digits;
  int width; /* columns of every element */
} layout;

static double element(const layout *l, int64_t i)
{
  if (tsr__dtype_is_real(l->dtype)) return tsr__dtype_get_real(l->dtype, l->data, i);
  return (double)tsr__dtype_get_whole(l->dtype, l->data, i);
}

/* u64 apart: its upper half would be negative. */
static int add_integer(char *out, size_t size, const layout *l, int64_t i)
{
  int64_t value = tsr__dtype_get_whole(l->dtype, l->data, i);
  if (l->dtype == TSR_U64) return snprintf(out, size, "%" PRIu64, (uint64_t)value);
  return snprintf(out, size, "%" PRId64, value);
}

/* The shortest decimal that reads back to the value of the dtype. */
static void text_of_real(tsr_dtype dtype, double value, char text[48])
{
  uint64_t element;
  tsr__dtype_put_real(dtype, &element, 0, value);
  tsr__dtype_text(dtype, &element, 0, text);
}

/* What a text of few digits, "-d.ddd" or "d.dddde-xx", is near. */
static double value_of_digits(const char *text)
{
  const char *exponent = strchr(text, 'e');
  double value = 0;
  long power = exponent ? strtol(exponent + 1, NULL, 10) : 0;
  for (bool after = false; *text && *text != 'e'; text++) {
    after = after || *text == '.';
    if (*text < '0' || *text > '9') continue;
    value = value * 10 + (*text - '0');
    power -= after;
  }
  /* A whole number so far, of few digits: exact. */
  for (; power > 0; power--) value *= 10;
  double by = 1;
  for (; power < 0; power++) by *= 10;
  return value / by;
}

/* The number with the fewest digits that reads back to the value: of 16 bits; wider ones are
 * written so without it. */
static double shortest_of(tsr_dtype dtype, double value)
{
  char text[48];
  if (tsr__dtype_info_of(dtype)->bits > 16 || !isfinite(value)) return value;
  text_of_real(dtype, value, text);
  return copysign(value_of_digits(text), value);
}

/* The significant digits of a number's text, without zeros at their ends; how many, at least 1. */
static int significant(const char *text, char out[DIGIT_ROOM])
{
  int count = 0;
  for (; *text && *text != 'e'; text++) {
    bool digit = *text >= '0' && *text <= '9' && (count || *text != '0');
    if (digit && count < DIGIT_ROOM - 1) out[count++] = *text;
  }
  while (count && out[count - 1] == '0') count--;
  out[count] = '\0';
  return count ? count : 1;
}

/* The fewest significant digits (at least 1) that read back to the same value of the dtype when the
 * value is rounded to them. The shortest decimal that reads back may have one fewer, where it is
 * not the nearest of its length: only next to a power of two. */
static int shortest_digits(const layout *l, double value)
{
  char text[48], shortest[DIGIT_ROOM], nearest[DIGIT_ROOM];
  text_of_real(l->dtype, value, text);
  int count = significant(text, shortest);
  tsr__text_decimals(text, sizeof text, value, 'e', count - 1);
  significant(text, nearest);
  return strcmp(shortest, nearest) == 0 ? count : count + 1;
}

/* Writes a finite value in positional or exponent form, trailing zeros dropped, and gives the
 * columns before and after the point. "12." has none after. */
static void format_float(const layout *l, double value, char out[FLOAT_ROOM], int *left, int *right)
{
  const size_t size = FLOAT_ROOM;
  int digits = shortest_digits(l, value);
  /* What is printed of a narrow type are digits of its shortest decimal, not those of the wide
   * number that holds it. */
  value = shortest_of(l->dtype, value);
  if (l->exponent) {
    int after = digits - 1 < DIGITS ? digits - 1 : DIGITS;
    tsr__text_decimals(out, size, value, 'e', after);
    for (int end = (int)strcspn(out, "e"); after > 0 && out[end - 1] == '0'; end--) after--;
    *right = after;
    *left = (int)strcspn(out, ".e");
    return;
  }
  /* The power of ten of the first digit. */
  int power = value == 0 ? 0 : (int)floor(log10(fabs(value)));
  int after = digits - 1 - power;
  after = after < 0 ? 0 : after > DIGITS ? DIGITS : after;
  tsr__text_decimals(out, size, value, 'f', after);
  int length = (int)strlen(out);
  /* Zeros at the end say nothing; the point stays. */
  int point = (int)strcspn(out, ".");
  while (after > 0 && out[length - 1] == '0') {
    out[--length] = 0;
    after--;
  }
  *left = point;
  *right = after;
}

/* What is done with each element that will be shown. */
typedef struct visitor {
  void (*fn)(layout *l, int64_t i, void *user);
  void *user;
} visitor;

/* In C order over the elements that are shown: of a long dim its first and last EDGE. */
static void visit(layout *l, int dim, int64_t base, const visitor *v)
{
  if (dim == l->shape->rank) {
    v->fn(l, base, v->user);
    return;
  }
  /* Elements between neighbours of this dim. */
  int64_t size = l->shape->dims[dim], stride = 1;
  for (int d = dim + 1; d < l->shape->rank; d++) stride *= l->shape->dims[d];
  for (int64_t i = 0; i < size; i++) {
    if (l->summarise && size > 2 * EDGE && i == EDGE) i = size - EDGE;
    visit(l, dim + 1, base + i * stride, v);
  }
}

typedef struct range {
  double most, least;
} range;

static void find_range(layout *l, int64_t i, void *user)
{
  range *r = user;
  double v = fabs(element(l, i));
  /* Zeros, NaN and infinities say nothing about how numbers are to be written. */
  if (!(v > 0) || isinf(v)) return;
  if (v > r->most) r->most = v;
  if (v < r->least) r->least = v;
}

static void measure(layout *l, int64_t i, void *user)
{
  (void)user;
  char text[FLOAT_ROOM];
  int left = 0, right = 0, width = 0;
  /* "False" has five letters. */
  if (l->dtype == TSR_BOOL) {
    width = 5;
  } else if (tsr__dtype_integer((tsr_dtype)l->dtype)) {
    width = add_integer(text, sizeof text, l, i);
  } else {
    double v = element(l, i);
    /* They are measured last: they stand in the width that numbers made. */
    if (!isfinite(v)) return;
    format_float(l, v, text, &left, &right);
    if (l->exponent) {
      /* The exponent without its "e" and sign. */
      int e = (int)strlen(strchr(text, 'e')) - 2;
      if (e > l->exp_digits) l->exp_digits = e;
    }
  }
  if (left > l->left) l->left = left;
  if (right > l->right) l->right = right;
  if (width > l->width) l->width = width;
}

/* nan, inf or -inf, which no digits are aligned with. */
static void measure_special(layout *l, int64_t i, void *user)
{
  (void)user;
  double v = element(l, i);
  int width = isnan(v) ? 3 : isinf(v) ? (v < 0 ? 4 : 3) : 0;
  if (width > l->width) l->width = width;
}

/* Three rounds: the range says in which form all are written, the digits in that form how wide, and
 * what is no number may be wider still. */
static void plan_layout(layout *l)
{
  range r = { 0, INFINITY };
  bool is_float = tsr__dtype_is_real((tsr_dtype)l->dtype);
  if (is_float) {
    visit(l, 0, 0, &(visitor){ find_range, &r });
    /* NumPy's rule, with less for f32, whose digits end earlier. */
    double large = l->dtype == TSR_F64 ? 1e8 : 1e6;
    if (r.most > 0) l->exponent = r.most >= large || r.least < 1e-4 || r.most / r.least > 1000;
  }
  visit(l, 0, 0, &(visitor){ measure, NULL });
  if (!is_float) return;
  /* Columns of the mantissa, then "e", a sign and the digits of the exponent. */
  l->width = l->left + 1 + l->right + (l->exponent ? l->exp_digits + 2 : 0);
  visit(l, 0, 0, &(visitor){ measure_special, NULL });
}

static void add_element(tsr__text *out, const layout *l, int64_t i)
{
  char text[FLOAT_ROOM], shown[440];
  int left, right;
  double v = element(l, i);
  if (l->dtype == TSR_BOOL) {
    snprintf(shown, sizeof shown, "%s", v != 0 ? "True" : "False");
  } else if (tsr__dtype_integer((tsr_dtype)l->dtype)) {
    add_integer(shown, sizeof shown, l, i);
  } else if (isnan(v)) {
    snprintf(shown, sizeof shown, "nan");
  } else if (isinf(v)) {
    snprintf(shown, sizeof shown, "%s", v < 0 ? "-inf" : "inf");
  } else if (l->exponent) {
    tsr__text_decimals(text, sizeof text, v, 'e', l->right);
    int mantissa = (int)strcspn(text, "e");
    const char *digits = text + mantissa + 2;
    /* All exponents have as many digits, zeros in front. */
    snprintf(shown, sizeof shown, "%.*s%s%.2s%0*d", mantissa, text, l->right ? "" : ".",
             text + mantissa, l->exp_digits, (int)strtol(digits, NULL, 10));
  } else {
    format_float(l, v, text, &left, &right);
    snprintf(shown, sizeof shown, "%s%s%*s", text, right ? "" : ".", l->right - right, "");
  }
  int width = (int)strlen(shown);
  tsr__text_pad(out, ' ', l->width - width);
  tsr__text_add(out, "%s", shown);
}

/* A row of the last dim, wrapped at LINE columns, closing brackets included, no blank at a line
 * end. */
static void add_row(tsr__text *out, const layout *l, int64_t base, int depth)
{
  int64_t size = l->shape->dims[l->shape->rank - 1];
  /* Columns used on this line, where the row's brackets indent it. */
  int column = depth;
  for (int64_t i = 0; i < size; i++) {
    if (l->summarise && size > 2 * EDGE && i == EDGE) {
      tsr__text_add(out, " ...");
      column += 4;
      i = size - EDGE;
    }
    /* A blank, the element and the brackets that may close behind it. */
    if (i > 0 && column + 1 + l->width > LINE - depth) {
      while (out->length && out->data[out->length - 1] == ' ') out->data[--out->length] = 0;
      tsr__text_add(out, "\n");
      tsr__text_pad(out, ' ', depth);
      column = depth;
    } else if (i > 0) {
      tsr__text_add(out, " ");
      column++;
    }
    add_element(out, l, base + i);
    column += l->width;
  }
}

static void add_dim(tsr__text *out, const layout *l, int dim, int64_t base)
{
  int rank = l->shape->rank;
  tsr__text_add(out, "[");
  if (dim == rank - 1) {
    add_row(out, l, base, dim + 1);
    tsr__text_add(out, "]");
    return;
  }
  int64_t size = l->shape->dims[dim], stride = 1;
  for (int d = dim + 1; d < rank; d++) stride *= l->shape->dims[d];
  for (int64_t i = 0; i < size; i++) {
    if (i > 0) {
      /* An empty line more for each further dim that ends here, as NumPy does. */
      tsr__text_pad(out, '\n', rank - 1 - dim);
      tsr__text_pad(out, ' ', dim + 1);
    }
    if (l->summarise && size > 2 * EDGE && i == EDGE) {
      tsr__text_add(out, "...");
      tsr__text_pad(out, '\n', rank - 1 - dim);
      tsr__text_pad(out, ' ', dim + 1);
      i = size - EDGE;
    }
    add_dim(out, l, dim + 1, base + i * stride);
  }
  tsr__text_add(out, "]");
}

/* A single value prints in full, as Python prints a number: 0.3333333333333333, 60.0, 1e+16. */
static void add_scalar(tsr__text *out, const layout *l)
{
  char text[48];
  double v = element(l, 0);
  if (!tsr__dtype_is_real((tsr_dtype)l->dtype)) {
    add_element(out, l, 0);
    return;
  }
  text_of_real(l->dtype, v, text);
  tsr__text_add(out, "%s%s", text, strpbrk(text, ".en") ? "" : ".0");
}

void tsr__print_values(tsr__text *out, tsr_dtype dtype, const tsr_shape *shape, const void *data)
{
  layout l = { .dtype = dtype, .shape = shape, .data = data };
  int64_t count = tsr__shape_count(shape);
  l.summarise = count > THRESHOLD;
  if (count == 0) {
    tsr__text_add(out, "[]");
    return;
  }
  if (shape->rank == 0) {
    add_scalar(out, &l);
    return;
  }
  plan_layout(&l);
  add_dim(out, &l, 0, 0);
}
