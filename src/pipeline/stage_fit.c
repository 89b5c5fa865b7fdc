/* Batches as long as their longest record.
 *
 *   lengths   3 1 2 | 7 2 5 | 1          of a field of at most 100
 *   batches   [3,3]   [3,7]   [1,1]      instead of [3,100]
 *
 * Lengths are read once, when it is made, and kept by record: how long a batch is follows from them
 * when it is begun, before anything of it is read. */
#include "pipeline/stage.h"

typedef struct fit_source {
  tsr_source source;
  int told;
  int64_t longest, multiple;
  int32_t *length; /* by record */
} fit_source;

static tsr_status read_fit(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  return tsr__records_read(source->children[0], ask, error);
}

static void ids_fit(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                    int64_t *to)
{
  tsr__records_ids(source->children[0], epoch, at, count, to);
}

static bool lend_fit(const tsr_source *source, int column, const tsr__ask_rows *ask,
                     const char **to)
{
  return tsr__records_lend(source->children[0], column, ask, to);
}

/* The same whatever the epoch, since the positions it gets are this stage's; orders above turn
 * theirs into these (fit_order). */
static int64_t fit_some(const tsr_source *source, int64_t epoch, int64_t first, int64_t count)
{
  const fit_source *f = (const fit_source *)source;
  int64_t most = 1;
  (void)epoch;
  for (int64_t i = first; i < first + count; i++)
    if (f->length[i] > most) most = f->length[i];
  most = (most + f->multiple - 1) / f->multiple * f->multiple;
  return most < f->longest ? most : f->longest;
}

static void about_fit(const tsr_source *source, tsr__text *out)
{
  const fit_source *f = (const fit_source *)source;
  tsr__text_add(out, "%s", source->columns[source->fit_column].name);
  if (f->multiple > 1) tsr__text_add(out, ", multiple=%lld", (long long)f->multiple);
}

static void release_fit(tsr_source *source)
{
  fit_source *f = (fit_source *)source;
  tsr__del(&source->node.scope->rt->heap, f->length, (size_t)source->count * sizeof *f->length + 1);
}

static const tsr__records_ops fit_ops = { "fit",       read_fit, ids_fit, about_fit,
                                          release_fit, lend_fit, NULL };

static tsr_status keep_lengths(void *user, const tsr__room *room, int64_t first, int64_t count,
                               tsr__error *error)
{
  fit_source *f = user;
  const tsr__cell *cell = &room->cells[f->told];
  for (int64_t i = 0; i < count; i++) {
    int64_t length;
    memcpy(&length, cell->data + (size_t)i * cell->stride, sizeof length);
    /* A length that was too large would make batches longer than the field that fills them. */
    if (length < 0 || length > f->longest)
      return tsr__error_set(error, TSR_EVALUE,
                            "record %lld has a length of %lld, expected 0 to %lld",
                            (long long)(first + i), (long long)length, (long long)f->longest);
    f->length[first + i] = (int32_t)length;
  }
  return TSR_OK;
}

/* Nobody knows how long it is; see place_bad. */
static void keep_bad(void *user, int64_t record)
{
  ((fit_source *)user)->length[record] = -1;
}

/* As long as the shortest of the others, so that some record could stand in for it. */
static void place_bad(fit_source *f, int64_t count)
{
  int32_t least = INT32_MAX;
  for (int64_t r = 0; r < count; r++)
    if (f->length[r] >= 0 && f->length[r] < least) least = f->length[r];
  for (int64_t r = 0; r < count; r++)
    if (f->length[r] < 0) f->length[r] = least == INT32_MAX ? 0 : least;
}

static tsr_status check_fit(tsr_fit_args *a, fit_source *f, int *field, tsr__error *error)
{
  const tsr_source *source = a->source;
  *field = tsr__field_find(source, a->field, error);
  if (*field < 0) return error->status;
  const tsr__column *column = &source->columns[*field];
  f->told = tsr__length_find(source, a->field);
  f->longest = column->shape.rank ? column->shape.dims[0] : 0;
  f->multiple = a->multiple ? a->multiple : 1;
  if (f->told < 0 || !column->shape.rank)
    return tsr__error_set(error, TSR_ESHAPE,
                          "field %.80s is not ragged: there is no field %.80s_length of i64",
                          a->field, a->field);
  /* Lengths are kept in four bytes, and rounding one up must not wrap. */
  if (f->longest > INT32_MAX || f->multiple < 1 || f->multiple > INT32_MAX)
    return tsr__error_set(
        error, TSR_EARG,
        "the longest record is %lld and .multiple is %lld, expected both from 1 to 2^31 - 1",
        (long long)f->longest, (long long)f->multiple);
  return tsr__scan_check(source, error);
}

tsr_source *tsr_source_fit_with(const tsr_fit_args *given, const char *site)
{
  const char *call = "tsr_source_fit";
  tsr_fit_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  fit_source like = { 0 };
  int field = 0;
  tsr_source *source = given ? given->source : NULL;
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  if (tsr__take_opts(call, given, &args, sizeof args, &error) ||
      check_fit(&args, &like, &field, &error))
    return tsr__stage_refused(source, call, &error, site);
  tsr__heap *heap = &source->node.scope->rt->heap;
  size_t bytes = (size_t)source->count * sizeof *like.length + 1;
  like.length = tsr__new_raw(heap, bytes);
  if (!like.length)
    tsr__error_set(&error, TSR_ENOMEM, "no memory for the lengths of %lld records",
                   (long long)source->count);
  tsr__scan scan = {
    source, tsr__columns_one(like.told), call, "fit", keep_lengths, &like, keep_bad
  };
  if (like.length && !tsr__scan_all(&scan, &error) && scan.source != source)
    place_bad(&like, source->count);
  tsr_source *made = error.status
                         ? tsr__stage_refused(source, call, &error, site)
                         : tsr__records_over(scan.source, call, &fit_ops, sizeof(fit_source), site);
  if (made->inert) {
    tsr__del(heap, like.length, bytes);
    return made;
  }
  like.source = *made;
  *(fit_source *)made = like;
  tsr__records_follow(made, source);
  made->fitted = made;
  made->fit = fit_some;
  made->fit_column = field;
  return made;
}
