/* Fields of another length, and numbers as the one of several classes.
 *
 *   pad to 6    a b c 0 0      length 3    ->    a b c v v v         front: v v v a b c
 *   cut to 2    a b c 0 0      length 3    ->    a b                 front: b c
 *
 * A ragged field is a dense one of the longest length with zeros behind and its true length beside
 * it, as the field NAME_length: what is behind the true length is filling, whatever its value. */
#include "pipeline/stage_fields.h"

/* ---- pad and cut ----------------------------------------------------------------------------- */

typedef struct padding {
  int field, told;           /* below; told: the column of its length, -1: it has none */
  int64_t was, is;           /* the longest length before, and the length after */
  size_t row, item;          /* bytes of what dim 0 counts, and of an element */
  bool front, zeros;         /* zeros: all bytes of `value` are */
  _Alignas(8) char value[8]; /* one element of filling */
  char text[32];             /* of the value */
} padding;

/* `rows` of what dim 0 counts; none of a record that fills all. */
static void fill(const padding *p, char *to, int64_t rows)
{
  if (rows <= 0) return;
  /* Zeros by memset, which most filling is; other values then go over them. */
  memset(to, 0, (size_t)rows * p->row);
  for (size_t at = 0; !p->zeros && at < (size_t)rows * p->row; at += p->item)
    memcpy(to + at, p->value, p->item);
}

/* Without a told length a record is as long as its field. */
static tsr_status pad_one(const tsr__field_source *f, const tsr_record *record, tsr__error *error)
{
  const padding *p = f->data;
  int64_t length = p->was;
  if (p->told >= 0) memcpy(&length, record->in[p->told], sizeof length);
  if (length < 0 || length > p->was)
    return tsr__error_set(error, TSR_EVALUE, "pad: record %lld: %s is %lld, expected 0 to %lld",
                          (long long)record->id, f->source.children[0]->columns[p->told].name,
                          (long long)length, (long long)p->was);
  int64_t kept = length < p->is ? length : p->is, more = p->is - kept;
  const char *from = record->in[p->field];
  char *to = record->out[0];
  /* Of one that is cut at the front the last elements stay, as a model reads up to the end. */
  if (p->front) from += (size_t)(length - kept) * p->row;
  memcpy(to + (p->front ? (size_t)more * p->row : 0), from, (size_t)kept * p->row);
  fill(p, to + (p->front ? 0 : (size_t)kept * p->row), more);
  if (p->told >= 0) memcpy(record->out[1], &kept, sizeof kept);
  return TSR_OK;
}

static void about_pad(const tsr_source *source, tsr__text *out)
{
  const padding *p = ((const tsr__field_source *)source)->data;
  tsr__text_add(out, "%s to %lld, %s", source->children[0]->columns[p->field].name,
                (long long)p->is, p->text);
  if (p->front) tsr__text_add(out, ", front");
}

static const tsr__records_ops pad_ops = {
  "pad", tsr__fields_read, tsr__fields_ids, about_pad, NULL, NULL, NULL
};

/* Which column tells the length is found here, once: pad_one runs for every record. */
static tsr_status check_pad(const tsr_field_pad_args *a, padding *p, tsr__error *error)
{
  const tsr_source *source = a->source;
  p->field = tsr__field_find(source, a->field, error);
  if (p->field < 0) return error->status;
  const tsr__column *column = &source->columns[p->field];
  if (!column->shape.rank)
    return tsr__error_set(error, TSR_ESHAPE,
                          "field %.80s is a single number, expected one with a length",
                          column->name);
  if (a->length < 1 || a->length > INT64_C(1) << 40)
    return tsr__error_set(error, TSR_EARG, ".length is %lld, expected 1 or more",
                          (long long)a->length);
  p->told = tsr__length_find(source, column->name);
  p->was = column->shape.dims[0];
  p->is = a->length;
  p->item = p->row = tsr_dtype_size(column->dtype);
  for (int d = 1; d < column->shape.rank; d++) p->row *= (size_t)column->shape.dims[d];
  p->front = a->front;
  if (!tsr__element_of(a->value, column->dtype, p->value))
    return tsr__error_set(error, TSR_EDTYPE, ".value is not a value of %s",
                          tsr_dtype_name(column->dtype));
  p->zeros = !memcmp(p->value, (const char[8]){ 0 }, sizeof p->value);
  tsr__element_text(column->dtype, p->value, p->text);
  return TSR_OK;
}

tsr_source *tsr_source_pad_with(const tsr_field_pad_args *given, const char *site)
{
  const char *call = "tsr_source_pad";
  tsr_field_pad_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  padding p = { 0 };
  tsr_source *source = given ? given->source : NULL;
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  if (tsr__take_opts(call, given, &args, sizeof args, &error) || check_pad(&args, &p, &error))
    return tsr__stage_refused(source, call, &error, site);
  tsr__column columns[2] = { source->columns[p.field] };
  columns[0].shape.dims[0] = p.is;
  /* The length that was told is made anew beside the field: it is what was kept of it. */
  tsr__columns uses = tsr__columns_one(p.field);
  if (p.told >= 0) {
    columns[1] = source->columns[p.told];
    tsr__columns_add(&uses, p.told);
  }
  tsr__fields_make make = { call, site,    &pad_ops, columns, 1 + (p.told >= 0),
                            uses, pad_one, &p,       sizeof p };
  return tsr__fields_new(source, &make, &error);
}

/* ---- one of several classes ------------------------------------------------------------------ */

typedef struct classes {
  int field;
  int64_t count, numbers; /* classes; numbers in a record */
  tsr_dtype from, to;
  size_t size, wide; /* of an element after and before */
  _Alignas(8) char one[8];
} classes;

/* record   [ 2 0 ]   of 3 classes:   [ 0 0 1 | 1 0 0 ]
 *
 * A number that is no class is an error of the record: all zeros would be one that nobody meant. */
static tsr_status one_hot_one(const tsr__field_source *f, const tsr_record *record,
                              tsr__error *error)
{
  const classes *c = f->data;
  char *to = record->out[0];
  memset(to, 0, (size_t)(c->numbers * c->count) * c->size);
  for (int64_t i = 0; i < c->numbers; i++) {
    int64_t number = 0; /* aligned, as a record's field need not be */
    memcpy(&number, (const char *)record->in[c->field] + (size_t)i * c->wide, c->wide);
    int64_t at = tsr__dtype_get_whole(c->from, &number, 0);
    if (at < 0 || at >= c->count)
      return tsr__error_set(error, TSR_EVALUE,
                            "one_hot: record %lld: %s is %lld, expected 0 to %lld",
                            (long long)record->id, f->source.children[0]->columns[c->field].name,
                            (long long)at, (long long)(c->count - 1));
    memcpy(to + (size_t)(i * c->count + at) * c->size, c->one, c->size);
  }
  return TSR_OK;
}

static void about_one_hot(const tsr_source *source, tsr__text *out)
{
  const classes *c = ((const tsr__field_source *)source)->data;
  tsr__text_add(out, "%s of %lld as %s", source->children[0]->columns[c->field].name,
                (long long)c->count, tsr_dtype_name(c->to));
}

static const tsr__records_ops one_hot_ops = {
  "one_hot", tsr__fields_read, tsr__fields_ids, about_one_hot, NULL, NULL, NULL
};

static tsr_status check_one_hot(const tsr_one_hot_args *a, classes *c, tsr__error *error)
{
  c->field = tsr__field_find(a->source, a->field, error);
  if (c->field < 0) return error->status;
  const tsr__column *column = &a->source->columns[c->field];
  c->count = a->classes;
  c->from = column->dtype;
  c->to = a->dtype ? a->dtype : TSR_F32;
  if (!tsr__dtype_integer(c->from))
    return tsr__error_set(error, TSR_EDTYPE, "field %.80s is %s, expected integers", column->name,
                          tsr_dtype_name(c->from));
  if (a->classes < 1 || a->classes > INT64_C(1) << 40)
    return tsr__error_set(error, TSR_EARG, ".classes is %lld, expected 1 or more",
                          (long long)a->classes);
  if (tsr__dtype_check(c->to, error)) return error->status;
  if (column->shape.rank >= TSR_MAX_RANK - 1)
    return tsr__error_set(error, TSR_ESHAPE,
                          "field %.80s has %d dims, too many for the dim that one-hot adds",
                          column->name, column->shape.rank);
  c->size = tsr_dtype_size(c->to);
  c->wide = tsr_dtype_size(c->from);
  c->numbers = tsr__shape_count(&column->shape);
  if (tsr__dtype_is_real(c->to)) tsr__dtype_put_real(c->to, c->one, 0, 1);
  else if (c->to == TSR_BOOL) c->one[0] = 1;
  else tsr__dtype_put_whole(c->to, c->one, 0, 1);
  return TSR_OK;
}

tsr_source *tsr_source_one_hot_with(const tsr_one_hot_args *given, const char *site)
{
  const char *call = "tsr_source_one_hot";
  tsr_one_hot_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  classes c = { 0 };
  tsr_source *source = given ? given->source : NULL;
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  if (tsr__take_opts(call, given, &args, sizeof args, &error) || check_one_hot(&args, &c, &error))
    return tsr__stage_refused(source, call, &error, site);
  tsr__column column = source->columns[c.field];
  column.dtype = c.to;
  column.shape.dims[column.shape.rank++] = c.count;
  tsr__columns uses = tsr__columns_one(c.field);
  tsr__fields_make make = { call, site, &one_hot_ops, &column, 1, uses, one_hot_one, &c, sizeof c };
  return tsr__fields_new(source, &make, &error);
}
