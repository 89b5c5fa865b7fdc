/* Types read from the text that tsr_type_text writes.
 *
 *     type    dtype '[' [size (',' size)*] ']' ['@' '(' spec ')']      blanks between words */
#include "topology/topology.h"

/* Sizes and names are read where they stand; nothing is copied but what messages show. */
struct reader {
  const char *at;
  char quote[TSR__QUOTE]; /* the whole text, for messages */
};

static void skip_blanks(struct reader *reader)
{
  while (*reader->at == ' ' || *reader->at == '\t') reader->at++;
}

/* Takes a character that must or may stand here. */
static bool take(struct reader *reader, char c)
{
  skip_blanks(reader);
  if (*reader->at != c) return false;
  reader->at++;
  return true;
}

/* What was expected at this place and what stands there. */
static tsr_status expected(const struct reader *reader, const char *what, tsr__error *error)
{
  char found[TSR__QUOTE];
  const char *at = tsr__quote(reader->at, strlen(reader->at), found);

  return tsr__error_set(error, TSR_EPARSE,
                        "type \"%s\": expected %s, found %s%s%s; write types as "
                        "\"f32[8,8]@(x,-)\"",
                        reader->quote, what, *at ? "'" : "the end", at, *at ? "'" : "");
}

static tsr_status read_dtype(struct reader *reader, tsr_dtype *out, tsr__error *error)
{
  char name[TSR__QUOTE];
  size_t length = 0;

  skip_blanks(reader);
  /* The whole word is taken first, so that "f16x" is no f16 with something behind it. */
  while (tsr__axis_byte((unsigned char)reader->at[length])) length++;
  if (!length) return expected(reader, "an element type", error);
  TSR__FOR_DTYPES(dtype)
  {
    const char *own = tsr_dtype_name((tsr_dtype)dtype);
    if (strlen(own) != length || memcmp(own, reader->at, length) != 0) continue;
    reader->at += length;
    *out = (tsr_dtype)dtype;
    return TSR_OK;
  }
  return tsr__error_set(error, TSR_EDTYPE,
                        "type \"%s\": there is no element type '%s'; there are bool, i8 to i64, u8 "
                        "to u64, f16, bf16, f32 and f64",
                        reader->quote, tsr__quote(reader->at, length, name));
}

/* Digits only: a size is not signed. */
static tsr_status read_size(struct reader *reader, int64_t *out, tsr__error *error)
{
  int64_t value = 0;

  skip_blanks(reader);
  if (*reader->at < '0' || *reader->at > '9') return expected(reader, "a size", error);
  for (; *reader->at >= '0' && *reader->at <= '9'; reader->at++)
    /* Too large a size is an error of shapes and not of the grammar: the text is well written. */
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, *reader->at - '0', &value))
      return tsr__error_set(error, TSR_ESHAPE, "type \"%s\": a size is beyond 63 bits",
                            reader->quote);
  *out = value;
  return TSR_OK;
}

/* Sizes between brackets; a bracket that closes at once is a single element. "?" is not read: a
 * size that only a run knows is none to ask for. */
static tsr_status read_shape(struct reader *reader, tsr_shape *out, tsr__error *error)
{
  if (!take(reader, '[')) return expected(reader, "'[' and sizes", error);
  /* Rank 0. */
  if (take(reader, ']')) return TSR_OK;
  do {
    if (out->rank == TSR_MAX_RANK)
      return tsr__error_set(error, TSR_ESHAPE,
                            "type \"%s\": more dims than the %d an array can have", reader->quote,
                            TSR_MAX_RANK);
    if (read_size(reader, &out->dims[out->rank++], error)) return error->status;
  } while (take(reader, ','));
  if (!take(reader, ']')) return expected(reader, "',' or ']'", error);
  return tsr__shape_check(out, error);
}

static tsr_status read_type(const tsr_mesh *mesh, const char *text, tsr_type *out,
                            tsr__error *error)
{
  struct reader reader = { .at = text };

  tsr__quote(text, strlen(text), reader.quote);
  if (read_dtype(&reader, &out->dtype, error) || read_shape(&reader, &out->shape, error))
    return error->status;
  bool placed = take(&reader, '@');
  skip_blanks(&reader);
  if (placed ? *reader.at != '(' : *reader.at != '\0')
    return expected(&reader, placed ? "a spec in parentheses" : "'@' or the end", error);
  /* The rest of the text is the spec's, with its own messages: a bad one lies on a bad mesh,
   * which the check below finds. */
  out->on = tsr_on_with(mesh, placed ? reader.at : NULL, NULL);
  tsr_sharding loose = out->on;
  /* A type may leave dims to the planner; what is checked is that the rest fits the shape. */
  loose.open = 0;
  return tsr__sharding_check_form(&loose, &out->shape, error);
}

/* `out` is written when all of it was read. */
tsr_status tsr_type_parse_at(tsr_scope *scope, const tsr_mesh *mesh, const char *text,
                             tsr_type *out, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  tsr_type type = { .dtype = (tsr_dtype)0 };

  if (!text || !out)
    return tsr__fail(scope, site, TSR_EARG, "tsr_type_parse: %s is NULL",
                     text ? "the pointer for the type" : "the text");
  if (read_type(mesh, text, &type, &error))
    return tsr__fail(scope, site, error.status, "tsr_type_parse: %s", error.text);
  *out = type;
  return TSR_OK;
}
