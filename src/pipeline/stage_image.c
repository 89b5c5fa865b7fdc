/* Encoded images to pixels.
 *
 *   below:   image u8[90000]  image_length i64  label        above:   image f32[224,224,3]  label
 *
 * One record after the other: its encoded bytes go to the room of a bench, what is kept to its
 * cells, and the pixels from the decoder to theirs.
 *
 * Invariant: a bench is in the list or with one thread. */
#include <stdio.h>

#include "kernel/tile/image.h"
#include "pipeline/permute.h"
#include "pipeline/pixels.h"
#include "pipeline/records.h"
#include "pipeline/stage.h"
#include "tessera/images.h"

enum { MOST_SIDE = 65535 };

typedef struct image_source {
  tsr_source source;
  int from[TSR__MAX_COLUMNS]; /* by column but the first: that of the source below */
  int bytes, length;          /* columns below; length -1: there is none */
  uint64_t seed;
  tsr__image_plan plan;
  const char *about;
  pthread_mutex_t lock;
  bool locks;
  tsr__image_bench *free;
} image_source;

/* ---- benches --------------------------------------------------------------------------------- */

/* As many benches are made as threads ever read at once; they are kept until the source goes, since
 * a decoder's state and its rows are worth more than an image takes to decode. */
static tsr__image_bench *take_bench(image_source *f, tsr__error *error)
{
  pthread_mutex_lock(&f->lock);
  tsr__image_bench *bench = f->free;
  if (bench) f->free = bench->next;
  pthread_mutex_unlock(&f->lock);
  tsr__heap *heap = &f->source.node.scope->rt->heap;
  if (!bench) bench = tsr__new(heap, sizeof *bench);
  if (!bench) tsr__error_set(error, TSR_ENOMEM, "no memory for a reader of images");
  else bench->heap = heap;
  return bench;
}

/* The newest first: its rows are still in the caches of the thread that gives it. */
static void give_bench(image_source *f, tsr__image_bench *bench)
{
  pthread_mutex_lock(&f->lock);
  bench->next = f->free;
  f->free = bench;
  pthread_mutex_unlock(&f->lock);
}

static void release_images(tsr_source *source)
{
  image_source *f = (image_source *)source;
  for (tsr__image_bench *b = f->free, *next; b; b = next) {
    next = b->next;
    f->plan.calls->close(b->reader);
    tsr__del(b->heap, b->room, b->size);
    tsr__del(b->heap, b->encoded, b->encoded_size);
    tsr__del(b->heap, b, sizeof *b);
  }
  if (f->locks) pthread_mutex_destroy(&f->lock);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Record i of a question to the encoded bytes and to the cells of what is kept. */
static tsr_status read_below(const image_source *f, const tsr__ask_rows *ask, int64_t i,
                             tsr__image_bench *bench, tsr__error *error)
{
  /* A bench asks for the encoded bytes too, and only where they are not lent; nobody's bench is the
   * question of those who want labels alone. */
  const tsr_source *below = f->source.children[0];
  tsr__cell cells[TSR__MAX_COLUMNS] = { { 0 } };
  tsr__ask_rows one = *ask;
  for (int c = 1; c < f->source.column_count; c++)
    if (ask->cells[c].data) cells[f->from[c]] = (tsr__cell){ tsr__cell_of(ask, c, i), 0 };
  if (bench) {
    if (!bench->lent) cells[f->bytes].data = bench->encoded;
    if (f->length >= 0) cells[f->length].data = (char *)&bench->length;
  }
  one.at = ask->at + i;
  one.place = NULL;
  one.count = 1;
  one.cells = cells;
  return tsr__records_read(below, &one, error);
}

/* bytes     lent where they lie in memory, else read to the bench
 * length    told beside them, or all of the field
 * pixels    straight to the batch's cell */
static tsr_status decode_one(const image_source *f, const tsr__ask_rows *ask, int64_t i,
                             tsr__image_bench *bench, tsr__error *error)
{
  const tsr_source *below = f->source.children[0];
  int64_t room = (int64_t)below->columns[f->bytes].bytes, id;
  tsr__error cause = { 0 };
  /* Without a column that tells, all bytes of the field are the image's; decoders stop at its end.
   * */
  bench->length = room;
  tsr__ask_rows own = {
    .epoch = ask->epoch, .at = ask->at + i, .count = 1, .partial = f->length >= 0
  };
  /* Lent bytes are there for as long as the record says it is, which is read beside them and must
   * be the same stage's word: see lend_fields. */
  if (!tsr__records_lend(below, f->bytes, &own, &bench->lent)) bench->lent = NULL;
  if (read_below(f, ask, i, bench, error)) return error->status;
  int64_t length = bench->length;
  tsr__records_ids(below, ask->epoch, ask->at + i, 1, &id);
  const char *encoded = bench->lent ? bench->lent : bench->encoded;
  tsr__image_one one = { .ask = { (const unsigned char *)encoded, (size_t)length,
                                  f->plan.channels == 1 ? 1 : 4, f->plan.lenient,
                                  f->plan.most_pixels },
                         .draw = tsr__mix(tsr__mix(f->seed, (uint64_t)ask->epoch), (uint64_t)id),
                         .out = tsr__cell_of(ask, 0, i) };
  /* The length comes from data or from a function of the program; the decoder trusts it. */
  if (length < 0 || length > room)
    tsr__error_set(&cause, TSR_EVALUE, "its length is %lld, expected 0 to %lld", (long long)length,
                   (long long)room);
  else tsr__image_make(&f->plan, bench, &one, &cause);
  if (!cause.status) return TSR_OK;
  tsr__text where;
  tsr__text_init(&where, &f->source.node.scope->rt->heap);
  tsr__records_where(&f->source, id, &where);
  tsr__error_set(error, cause.status, "%s: record %lld of epoch %lld: %.400s%.300s",
                 f->source.columns[0].name, (long long)id, (long long)ask->epoch, cause.text,
                 tsr__text_get(&where));
  tsr__text_free(&where);
  return error->status;
}

static tsr_status read_images(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  image_source *f = (image_source *)source;
  if (!ask->cells[0].data) {
    for (int64_t i = 0; i < ask->count && !error->status; i++) read_below(f, ask, i, NULL, error);
    return error->status;
  }
  tsr__image_bench *bench = take_bench(f, error);
  if (!bench) return error->status;
  /* The room of a bench is of this source's records, so that it never has to grow. */
  size_t bytes = source->children[0]->columns[f->bytes].bytes + 1;
  if (!bench->encoded) {
    bench->encoded = tsr__new_raw(bench->heap, bytes);
    bench->encoded_size = bench->encoded ? bytes : 0;
    if (!bench->encoded) tsr__error_set(error, TSR_ENOMEM, "no memory for %zu bytes", bytes);
  }
  for (int64_t i = 0; i < ask->count && !error->status; i++) {
    if (decode_one(f, ask, i, bench, error)) break;
    /* Behind each image: a block of large ones takes seconds. */
    if (!error->status && tsr__records_stop(ask))
      tsr__error_set(error, TSR_ECANCELLED, "the pipeline is being closed");
  }
  give_bench(f, bench);
  return error->status;
}

static void ids_below(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                      int64_t *to)
{
  tsr__records_ids(source->children[0], epoch, at, count, to);
}

static void about_images(const tsr_source *source, tsr__text *out)
{
  tsr__text_add(out, "%s", ((const image_source *)source)->about);
}

static const tsr__records_ops image_ops = { "images",       read_images, ids_below, about_images,
                                            release_images, NULL,        NULL };

/* ---- the call -------------------------------------------------------------------------------- */

static tsr_status load_plugin(tsr__image_plan *plan, tsr__error *error)
{
  /* Found when a source is made, not when the library is: programs without images need no decoders.
   * */
  static const tsr__plugin_ask ask = { "images", "tessera_images",
                                       "the plugin 'images' for decoding", NULL };
  void *symbol;
  const tsr__image_calls *(*images)(void);
  if (tsr__plugin_load(&ask, &symbol, error)) return error->status;
  /* ISO C has no cast from an object's address to a function's. */
  memcpy(&images, &symbol, sizeof images);
  plan->calls = images();
  if (plan->calls->version == TSR__IMAGES_VERSION) return TSR_OK;
  return tsr__error_set(error, TSR_EUNSUPPORTED,
                        "%s was built for another version of Tessera; build the plugin and the "
                        "library from one version",
                        ask.what);
}

/* Two numbers with what they are without; `most`: beyond the second one. */
static tsr_status check_range(const char *name, double *of, const double own[2], double most,
                              tsr__error *error)
{
  /* NaN passes none of the comparisons below and is refused with the rest. */
  if (of[0] == 0 && of[1] == 0) memcpy(of, own, 2 * sizeof *of);
  if (of[0] > 0 && of[1] >= of[0] && of[1] <= most) return TSR_OK;
  char low[32], high[32], top[32];
  tsr__text_f64(low, of[0]);
  tsr__text_f64(high, of[1]);
  tsr__text_f64(top, most);
  return tsr__error_set(error, TSR_EARG,
                        ".%s is %s to %s, expected a range above 0, low to high, %s at most", name,
                        low, high, top);
}

static tsr_status check_crop(tsr_image_args *a, tsr__error *error)
{
  static const double areas[2] = { 0.08, 1 }, aspects[2] = { 3.0 / 4, 4.0 / 3 };
  if (a->share == 0) a->share = 1;
  if ((int)a->crop < TSR_CROP_NONE || a->crop > TSR_CROP_RANDOM)
    return tsr__error_set(error, TSR_EARG, ".crop is %d, expected a value of tsr_image_crop",
                          (int)a->crop);
  char share[32];
  tsr__text_f64(share, a->share);
  if (!(a->share > 0 && a->share <= 1))
    return tsr__error_set(error, TSR_EARG, ".share is %s, expected a number above 0, 1 at most",
                          share);
  if (check_range("area", a->area, areas, 1, error)) return error->status;
  return check_range("aspect", a->aspect, aspects, 1000, error);
}

/* Zero is the default of every option: what has to be something else is set here, then checked. */
static tsr_status check_args(tsr_image_args *a, tsr__error *error)
{
  if (!a->field) a->field = "image";
  if (!a->channels) a->channels = 3;
  if (!a->dtype) a->dtype = TSR_U8;
  if (!a->most_pixels) a->most_pixels = INT64_C(1) << 26;
  if (a->height < 1 || a->width < 1 || a->height > MOST_SIDE || a->width > MOST_SIDE)
    return tsr__error_set(error, TSR_ESHAPE, ".height x .width is %d x %d, expected 1 to %d each",
                          a->height, a->width, MOST_SIDE);
  if (a->channels != 1 && a->channels != 3)
    return tsr__error_set(error, TSR_ESHAPE, ".channels is %d, expected 3 or 1", a->channels);
  if (tsr__dtype_check(a->dtype, error)) return error->status;
  bool bytes = a->dtype == TSR_U8, floats = a->dtype == TSR_F32;
  if (!bytes && !floats)
    return tsr__error_set(error, TSR_EDTYPE, ".dtype is %s, expected u8 or f32",
                          tsr_dtype_name(a->dtype));
  if (a->most_pixels < 0)
    return tsr__error_set(error, TSR_EARG, ".most_pixels is %lld, expected 0 or more",
                          (long long)a->most_pixels);
  for (int c = 0; c < 3; c++) {
    if (a->std[c] == 0) a->std[c] = 1;
    char mean[32], std[32];
    tsr__text_f64(mean, a->mean[c]);
    tsr__text_f64(std, a->std[c]);
    if (!(a->std[c] > 0 && a->std[c] < 1e30 && a->mean[c] > -1e30 && a->mean[c] < 1e30))
      return tsr__error_set(error, TSR_EARG,
                            ".mean and .std of channel %d are %s and %s, expected numbers, .std "
                            "above 0",
                            c, mean, std);
  }
  return check_crop(a, error);
}

static tsr__image_plan plan_of(const tsr_image_args *a, const tsr_runtime *rt)
{
  tsr__image_plan plan = { .tiles = tsr__image_tiles_of(rt->isa),
                           .height = a->height,
                           .width = a->width,
                           .channels = a->channels,
                           .f32 = a->dtype == TSR_F32,
                           .planes = a->chw,
                           .aliased = a->aliased,
                           .lenient = a->lenient,
                           .as_stored = a->as_stored,
                           .most_pixels = a->most_pixels,
                           .share = a->share,
                           .flips = a->flip };
  plan.box = a->crop == TSR_CROP_RANDOM   ? TSR__BOX_RANDOM
             : a->crop == TSR_CROP_CENTRE ? TSR__BOX_CENTRE
                                          : TSR__BOX_ALL;
  memcpy(plan.area, a->area, sizeof plan.area);
  memcpy(plan.aspect, a->aspect, sizeof plan.aspect);
  /* (x / 255 - mean) / std as a product and a sum, for all four lanes: those beyond the channels
   * are computed and never written. Bytes are rounded by adding a half and cutting. */
  for (int c = 0; c < 4; c++) {
    int of = c < a->channels ? c : 0;
    plan.scale[c] = plan.f32 ? (float)(1 / (255 * a->std[of])) : 1;
    plan.bias[c] = plan.f32 ? (float)(-a->mean[of] / a->std[of]) : 0.5f;
  }
  return plan;
}

/* The pixels, then what is kept of the columns below. */
static int image_columns(const tsr_image_args *a, image_source *like, tsr__column *columns,
                         tsr__arena *arena, tsr__error *error)
{
  const tsr_source *source = a->source;
  int count = 1, n = source->column_count;
  size_t size = strlen(a->field) + sizeof "_length";
  char *length = tsr__arena_new(arena, size);
  if (!length) return tsr__error_set(error, TSR_ENOMEM, "no memory for a name"), 0;
  snprintf(length, size, "%s_length", a->field);
  like->bytes = tsr__column_find(source->columns, n, a->field);
  like->length = tsr__column_find(source->columns, n, length);
  const tsr__column *bytes = like->bytes < 0 ? NULL : &source->columns[like->bytes];
  if (!bytes)
    return tsr__error_set(error, TSR_EARG,
                          "there is no field '%.80s'; name the field of encoded bytes in .field "
                          "(tsr_source_text lists the fields)",
                          a->field),
           0;
  if (bytes->dtype != TSR_U8 || bytes->shape.rank != 1)
    return tsr__error_set(error, TSR_EDTYPE,
                          "field %.80s is %s of rank %d, expected encoded bytes, "
                          "u8[n]",
                          a->field, tsr_dtype_name(bytes->dtype), bytes->shape.rank),
           0;
  if (like->length >= 0 &&
      (source->columns[like->length].dtype != TSR_I64 || source->columns[like->length].shape.rank))
    return tsr__error_set(error, TSR_EDTYPE, "field %.80s is not a single i64", length), 0;
  columns[0] = (tsr__column){ .name = bytes->name, .dtype = a->dtype, .shape = { .rank = 3 } };
  /* Channels first or last are three neighbours of these four. */
  const int64_t dims[4] = { a->channels, a->height, a->width, a->channels };
  memcpy(columns[0].shape.dims, dims + !a->chw, 3 * sizeof *dims);
  if (tsr__column_check(&columns[0], error)) return 0;
  for (int c = 0; c < n; c++) {
    if (c == like->bytes || c == like->length) continue;
    like->from[count] = c;
    columns[count++] = source->columns[c];
  }
  return count;
}

/* Texts of states are compared byte for byte: numbers as their shortest text that reads back. */
static void add_number(tsr__text *out, const char *before, bool wanted, double value)
{
  char text[32];
  if (!wanted) return;
  tsr__text_f64(text, value);
  tsr__text_add(out, "%s%s", before, text);
}

/* What changes pixels, for those who compare states. */
static const char *describe(const tsr_image_args *a, const tsr__column *column, tsr_scope *scope)
{
  static const char *const crops[] = { "all", "centre", "random" };
  tsr__text text;
  tsr__text_init(&text, &scope->rt->heap);
  tsr__column_text(column, &text);
  tsr__text_add(&text, "; %s", crops[a->crop]);
  add_number(&text, " ", a->crop == TSR_CROP_CENTRE, a->share);
  for (int i = 0; i < 2; i++) add_number(&text, " ", a->crop == TSR_CROP_RANDOM, a->area[i]);
  for (int i = 0; i < 2; i++) add_number(&text, " ", a->crop == TSR_CROP_RANDOM, a->aspect[i]);
  for (int c = 0; c < a->channels; c++) {
    add_number(&text, c ? ", " : ", less ", a->dtype == TSR_F32, a->mean[c]);
    add_number(&text, " over ", a->dtype == TSR_F32, a->std[c]);
  }
  tsr__text_add(&text, "%s%s%s%s, seed=%llu", a->flip ? ", flip" : "",
                a->aliased ? ", aliased" : "", a->as_stored ? ", as stored" : "",
                a->lenient ? ", lenient" : "", (unsigned long long)a->seed);
  const char *kept =
      text.failed ? NULL : tsr__arena_text(&scope->arena, tsr__text_get(&text), text.length);
  tsr__text_free(&text);
  return kept;
}

tsr_source *tsr_source_images_with(const tsr_image_args *given, const char *site)
{
  const char *call = "tsr_source_images";
  tsr_image_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr__column columns[TSR__MAX_COLUMNS];
  image_source like = { .seed = 0 };
  tsr_source *source = given ? given->source : NULL;
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  tsr_scope *scope = source->node.scope;
  int count = 0;
  if (!tsr__take_opts(call, given, &args, sizeof args, &error) && !check_args(&args, &error))
    count = image_columns(&args, &like, columns, &scope->arena, &error);
  if (!error.status && !(like.about = describe(&args, &columns[0], scope)))
    tsr__error_set(&error, TSR_ENOMEM, "no memory for the description of a source");
  if (!error.status) {
    like.plan = plan_of(&args, scope->rt);
    load_plugin(&like.plan, &error);
  }
  if (error.status) return tsr__records_refused(scope, site, call, &error);
  tsr__records_make make = {
    call, site, &image_ops, sizeof(image_source), source->count, columns, count, &source, 1
  };
  tsr_source *made = tsr__records_new(tsr__records_scope(&source, 1), &make);
  if (made->inert) return made;
  tsr__records_follow(made, source);
  image_source *f = (image_source *)made;
  memcpy(f->from, like.from, sizeof f->from);
  f->bytes = like.bytes;
  f->length = like.length;
  f->seed = args.seed;
  f->plan = like.plan;
  f->about = like.about;
  f->locks = !pthread_mutex_init(&f->lock, NULL);
  return made;
}
