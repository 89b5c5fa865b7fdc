/* A field as another dtype, scaled on the way.
 *
 *   u8 0 .. 255   ->   f32   (x * scale - mean[channel]) / std[channel]
 *
 * A record comes to a scratch in cache and goes from there straight to its shard: gathered,
 * converted and scaled in one pass over memory. As in arrays, integers wrap, floats are cut towards
 * zero and saturate, and what becomes a float is rounded once; scaled are two more roundings, a
 * product and a sum of f32 (of f64 for f64). */
#include <math.h>

#include "kernel/tile/image.h"
#include "pipeline/stage_fields.h"

enum { CHANNELS = 4, SOME = 256 };

typedef struct casting {
  int field;
  tsr_dtype from, to;
  int64_t count; /* elements of a record */
  bool scaled;
  int channels;
  double by[CHANNELS], plus[CHANNELS];
  const tsr__image_tiles *tiles;
  tsr__scaling bytes; /* by and plus, where bytes become f32 */
  const char *about;
} casting;

/* ---- elements -------------------------------------------------------------------------------- */

/* Floats towards zero, to the nearest end beyond it; NaN is 0. */
static int64_t whole_of(tsr_dtype dtype, double value)
{
  uint64_t most = tsr__dtype_most(dtype);
  if (!(value >= (double)tsr__dtype_least(dtype)))
    return value == value ? tsr__dtype_least(dtype) : 0;
  /* The double next to an upper end of 64 bits is one above it. */
  if (value >= (double)most) return (int64_t)most;
  return value >= 0x1p63 ? (int64_t)(uint64_t)value : (int64_t)value;
}

static void put_element(const casting *c, char *to, const char *from, int64_t i)
{
  bool real = tsr__dtype_is_real(c->from), natural = c->from == TSR_U64;
  double value = real ? tsr__dtype_get_real(c->from, from, i) : 0;
  int64_t whole = real ? 0 : tsr__dtype_get_whole(c->from, from, i);
  if (c->to == TSR_BOOL) to[i] = real ? value != 0 : whole != 0;
  else if (!tsr__dtype_is_real(c->to))
    tsr__dtype_put_whole(c->to, to, i, real ? whole_of(c->to, value) : whole);
  else tsr__dtype_put_real(c->to, to, i, real ? value : tsr__dtype_real_of(c->to, whole, natural));
}

/* In f64, or as f32 has it, rounded to what is narrower than that at the end. */
static void scale_element(const casting *c, char *to, const char *from, int64_t i)
{
  tsr_dtype in = c->to == TSR_F64 ? TSR_F64 : TSR_F32;
  int channel = (int)(i % c->channels);
  bool real = tsr__dtype_is_real(c->from);
  double x =
      real ? tsr__dtype_round(in, tsr__dtype_get_real(c->from, from, i))
           : tsr__dtype_real_of(in, tsr__dtype_get_whole(c->from, from, i), c->from == TSR_U64);
  x = tsr__dtype_round(in, x * tsr__dtype_round(in, c->by[channel]));
  x = tsr__dtype_round(in, x + tsr__dtype_round(in, c->plus[channel]));
  tsr__dtype_put_real(c->to, to, i, x);
}

/* as it is      same dtype, not scaled: bytes are copied
 * tiles         u8 to f32, in vectors, which images are
 * elements      all else, SOME at a time through memory that is aligned
 *
 * SOME is cut to whole pixels, so that channel 0 begins each part. */
static tsr_status cast_one(const tsr__field_source *f, const tsr_record *record, tsr__error *error)
{
  const casting *c = f->data;
  const char *from = record->in[c->field];
  char *to = record->out[0];
  (void)error;
  if (c->from == c->to && !c->scaled) {
    memcpy(to, from, (size_t)c->count * tsr_dtype_size(c->to));
    return TSR_OK;
  }
  if (c->tiles) {
    c->tiles->scaled((float *)(void *)to, (const unsigned char *)from, c->count, &c->bytes);
    return TSR_OK;
  }
  /* Fields of records need not be aligned, elements that are looked at do. */
  _Alignas(8) char in[SOME * 8], out[SOME * 8];
  size_t narrow = tsr_dtype_size(c->from), wide = tsr_dtype_size(c->to);
  for (int64_t at = 0, n; at < c->count; at += n) {
    n = c->count - at < SOME ? c->count - at : SOME - SOME % c->channels;
    memcpy(in, from + (size_t)at * narrow, (size_t)n * narrow);
    for (int64_t i = 0; i < n; i++)
      if (c->scaled) scale_element(c, out, in, i);
      else put_element(c, out, in, i);
    memcpy(to + (size_t)at * wide, out, (size_t)n * wide);
  }
  return TSR_OK;
}

static void about_cast(const tsr_source *source, tsr__text *out)
{
  const casting *c = ((const tsr__field_source *)source)->data;
  tsr__text_add(out, "%s", c->about);
}

static const tsr__records_ops cast_ops = {
  "cast", tsr__fields_read, tsr__fields_ids, about_cast, NULL, NULL, NULL
};

/* ---- the call -------------------------------------------------------------------------------- */

static bool is_number(double x)
{
  return x > -1e300 && x < 1e300;
}

static tsr_status refuse_scale(const tsr_field_cast_args *a, int channel, tsr__error *error)
{
  char scale[32], mean[32], std[32];
  tsr__text_f64(scale, a->scale);
  tsr__text_f64(mean, a->mean[channel]);
  tsr__text_f64(std, a->std[channel]);
  return tsr__error_set(error, TSR_EARG,
                        ".scale, .mean and .std of channel %d are %s, %s and %s, expected numbers, "
                        ".std above 0",
                        channel, scale, mean, std);
}

/* What elements of each channel are multiplied by, and what is added. */
static tsr_status check_scale(tsr_field_cast_args *a, const tsr__column *column, casting *c,
                              tsr__error *error)
{
  c->channels = 1;
  for (int k = 0; k < CHANNELS; k++) {
    c->scaled = c->scaled || a->scale != 0 || a->mean[k] != 0 || a->std[k] != 0;
    if (a->mean[k] != a->mean[0] || a->std[k] != a->std[0]) c->channels = 2;
  }
  if (c->scaled && !tsr__dtype_is_real(c->to))
    return tsr__error_set(error, TSR_EDTYPE, ".scale, .mean and .std give floats, but .dtype is %s",
                          tsr_dtype_name(c->to));
  int64_t last = column->shape.rank ? column->shape.dims[column->shape.rank - 1] : 1;
  if (c->channels > 1 && last > CHANNELS)
    return tsr__error_set(error, TSR_ESHAPE,
                          ".mean and .std differ by channel, but field %.80s has %lld channels in "
                          "its last dim, expected %d at most",
                          column->name, (long long)last, CHANNELS);
  if (c->channels > 1) c->channels = last < 1 ? 1 : (int)last;
  double scale = a->scale == 0 ? 1 : a->scale;
  for (int k = 0; k < c->channels; k++) {
    double std = a->std[k] == 0 ? 1 : a->std[k];
    c->by[k] = scale / std;
    c->plus[k] = a->mean[k] == 0 ? 0 : -a->mean[k] / std;
    if (!is_number(c->by[k]) || !is_number(c->plus[k]) || !(std > 0))
      return refuse_scale(a, k, error);
  }
  return TSR_OK;
}

/* What changes elements, for those who compare states. */
static const char *describe(const casting *c, const tsr__column *column, tsr_scope *scope)
{
  tsr__text text;
  char number[2][32];
  tsr__text_init(&text, &scope->rt->heap);
  tsr__text_add(&text, "%s as %s", column->name, tsr_dtype_name(c->to));
  for (int k = 0; c->scaled && k < c->channels; k++) {
    tsr__text_f64(number[0], c->by[k]);
    tsr__text_f64(number[1], c->plus[k]);
    tsr__text_add(&text, ", by %s plus %s", number[0], number[1]);
  }
  const char *kept =
      text.failed ? NULL : tsr__arena_text(&scope->arena, tsr__text_get(&text), text.length);
  tsr__text_free(&text);
  return kept;
}

static tsr_status check_cast(tsr_field_cast_args *a, casting *c, tsr__error *error)
{
  tsr_scope *scope = a->source->node.scope;
  c->field = tsr__field_find(a->source, a->field, error);
  if (c->field < 0) return error->status;
  const tsr__column *column = &a->source->columns[c->field];
  c->from = column->dtype;
  c->to = a->dtype ? a->dtype : TSR_F32;
  c->count = tsr__shape_count(&column->shape);
  if (tsr__dtype_check(c->to, error) || check_scale(a, column, c, error)) return error->status;
  c->about = describe(c, column, scope);
  if (!c->about) return tsr__error_set(error, TSR_ENOMEM, "no memory for a description");
  for (int i = 0; i < TSR__SCALED; i++) {
    c->bytes.by[i] = c->scaled ? (float)c->by[i % c->channels] : 1;
    c->bytes.plus[i] = c->scaled ? (float)c->plus[i % c->channels] : 0;
  }
  bool bytes = c->from == TSR_U8, floats = c->to == TSR_F32;
  if (bytes && floats) c->tiles = tsr__image_tiles_of(scope->rt->isa);
  return TSR_OK;
}

tsr_source *tsr_source_cast_with(const tsr_field_cast_args *given, const char *site)
{
  const char *call = "tsr_source_cast";
  tsr_field_cast_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  casting c = { 0 };
  tsr_source *source = given ? given->source : NULL;
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  if (tsr__take_opts(call, given, &args, sizeof args, &error) || check_cast(&args, &c, &error))
    return tsr__stage_refused(source, call, &error, site);
  tsr__column column = source->columns[c.field];
  column.dtype = c.to;
  tsr__columns uses = tsr__columns_one(c.field);
  tsr__fields_make make = { call, site, &cast_ops, &column, 1, uses, cast_one, &c, sizeof c };
  return tsr__fields_new(source, &make, &error);
}
