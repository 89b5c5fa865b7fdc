/* Stages between a source and its batches: several records joined into one, one record split into
 * several, other lengths, cached records.
 *
 *   tsr_source *lines = tsr_source_pad(words, "tokens", .length = 128);
 *   tsr_source *pairs = tsr_source_batch(lines, .rows = 2, .stride = 1);
 *
 * Each stage returns a source. A stage that changes the number of records computes it, or reads all
 * records once at its call and keeps their positions, 8 bytes each. So every stage is read by
 * position, can be shuffled, resumes from a state, and gives the same records for any threads.
 *
 * A record that a stage makes of others has as its id its position in that stage, and random maps
 * after the stage draw by that id.
 *
 * A ragged field is a dense field of the longest length, padded with zeros, with its true length
 * beside it in the i64 field NAME_length: "tokens" and "tokens_length". */
#ifndef TESSERA_PIPELINE_STAGES_H
#define TESSERA_PIPELINE_STAGES_H

#include "pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- several as one, one as several ---------------------------------------------------------- */

typedef struct tsr_batch_args {
  size_t size;
  tsr_source *source TSR_REST_BY_NAME;
  int64_t rows;            /* records joined into one */
  int64_t stride;          /* records from the start of one to the start of the next; 0: rows */
  tsr_remainder remainder; /* the treatment of last records that do not fill one */
  /* each file of the source is batched by itself, with .remainder for each */
  bool files;
} tsr_batch_args;

/* Returns records made of `rows` records each, with fields [rows, ...]: tsr_source_batch(source,
 * .rows = 32). A stride below .rows makes sliding windows. All records have equal shapes, so last
 * records that do not fill one must be left out (TSR_DROP), followed by the first records
 * (TSR_WRAP) or by zeros (TSR_PAD_AND_MASK, which adds an i64 field "rows" with the number of true
 * rows). A map of the result takes a batch at a time; tsr_source_unbatch splits the records again.
 * With .files no window spans two files of a pattern, or two sources of tsr_source_concat. Errors:
 * TSR_ESHAPE (records are left over, too many dims), TSR_EARG. The source is owned as `source` is.
 * Local. */
TSR_API tsr_source *tsr_source_batch_with(const tsr_batch_args *args, const char *site);

/* Returns the rows of records [rows, ...] as records, in order; a field "rows" limits the rows of
 * each record. tsr_source_batch of the result makes new batches across the old borders; if the two
 * undo each other, nothing is copied. Errors: TSR_ESHAPE (fields without rows or with different
 * rows), TSR_EARG (a shuffled source with "rows"), TSR_EVALUE, TSR_ECANCELLED. The source is owned
 * as `source` is. Local. */
TSR_API tsr_source *tsr_source_unbatch_at(tsr_source *source, const char *site);

/* Returns the number of records to make of one; a negative number is an error. */
typedef int64_t tsr_record_count_fn(const tsr_record *record, void *user);
/* Fills `out` with part 0, 1, ... of a record; otherwise as tsr_record_fn. */
typedef tsr_status tsr_record_part_fn(const tsr_record *record, int64_t part, void *user);

typedef struct tsr_flat_map_args {
  size_t size;
  tsr_source *source;
  tsr_record_part_fn *fn TSR_REST_BY_NAME;
  tsr_record_count_fn *count;
  void *user;                              /* borrowed as long as the source lives */
  tsr_record_field fields[TSR_MAX_FIELDS]; /* results; up to the first field without a name */
  uint64_t seed;                           /* of the random draws, which depend on the part too */
  const char *name;                        /* in messages and states, copied; NULL: "flat_map" */
} tsr_flat_map_args;

/* Returns any number of records for each record: tsr_source_flat_map(source, cut, .count = pieces,
 * .fields = { { "piece", TSR_U8, TSR_SHAPE(8, 8) } }). Other fields of the source stay, the same in
 * all parts. The call asks `count` once for every record. Errors: TSR_EARG (a shuffled source:
 * shuffle the result instead), TSR_EVALUE, TSR_EDTYPE, TSR_ESHAPE, TSR_ECANCELLED, those of
 * reading. The source is owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_flat_map_with(const tsr_flat_map_args *args, const char *site);

/* ---- several sources ------------------------------------------------------------------------- */

typedef struct tsr_interleave_args {
  size_t size TSR_REST_BY_NAME;
  int cycle;     /* sources that are open at once, at most 256; 0: all */
  int64_t block; /* consecutive records of one source; 0: 1 */
} tsr_interleave_args;

/* Returns the records of sources of equal fields in turn: tsr_source_interleave(files, 8, .cycle =
 * 4, .block = 16). Four sources are open, and each gives 16 records at its turn. When a source
 * ends, the next one of the list takes its place, until all have ended. The order is that of
 * tf.data's interleave. Errors: TSR_EARG, TSR_EDTYPE and TSR_ESHAPE if fields differ. The source is
 * owned as the first one is. Local. */
TSR_API tsr_source *tsr_source_interleave_with(tsr_source *const *sources, int count,
                                               const tsr_interleave_args *args, const char *site);

/* The end of a sample of sources. */
typedef enum tsr_sample_end {
  TSR_SAMPLE_FIRST,  /* before the first record that a source lacks */
  TSR_SAMPLE_ALL,    /* with the last record of all: sources that ended are drawn no more */
  TSR_SAMPLE_RESTART /* once all have ended: sources that end sooner begin again */
} tsr_sample_end;

enum { TSR_MAX_SAMPLED = 64 };

typedef struct tsr_sample_args {
  size_t size TSR_REST_BY_NAME;
  tsr_mix_part parts[TSR_MAX_SAMPLED]; /* sources of equal fields with their weights */
  uint64_t seed;
  tsr_sample_end end;
  bool exact; /* by exact shares, as in tsr_source_mix, not random: .seed is not used */
} tsr_sample_args;

/* Returns records of sources of equal fields, the source of each position drawn by weights:
 * tsr_source_sample(.parts = { { a, 3 }, { b, 1 } }, .seed = 7). The drawn source depends on the
 * seed and the position only, is the same in all epochs, and is kept, a byte a record; the records
 * of one source stay in order. The call is tf.data's sample_from_datasets. With .exact each source
 * gives its share of the records with an error below one, counted from the start or from the last
 * source that ended and is drawn no more, as in tsr_source_mix. Errors: TSR_EARG, TSR_EDTYPE and
 * TSR_ESHAPE if fields differ, TSR_ENOMEM. The source is owned as the first one is. Local. */
TSR_API tsr_source *tsr_source_sample_with(const tsr_sample_args *args, const char *site);

/* Returns the fields of several maps of the same records side by side: tsr_source_merge(left,
 * right), also for maps of results of tsr_source_zip and tsr_source_concat. Unlike tsr_source_zip,
 * the call checks that all sources have the same records in the same order, and a record of their
 * common stage is read once for all (from a file, or from a map; records in memory are read in
 * place). Errors: TSR_ESHAPE (counts differ), TSR_EARG (other records, another order, a name given
 * twice). The source is owned as the first one is. Local. */
TSR_API tsr_source *tsr_source_merge_at(tsr_source *const *sources, int count, const char *site);

/* ---- cached records -------------------------------------------------------------------------- */

typedef struct tsr_cache_args {
  size_t size;
  tsr_source *source TSR_REST_BY_NAME;
  const char *path; /* of a file for the records; NULL: in memory */
  int64_t records;  /* only the first so many are cached in memory; 0: all */
  int64_t bytes;    /* only as many as fit into so many bytes; 0: all */
} tsr_cache_args;

/* Returns the same records, cached when they are first read: tsr_source_cache(decoded). A cache in
 * memory takes the bytes of the fields, which the call reserves. If .records or .bytes allow fewer
 * records than all, the first ones are cached and the others are read again each time. No record is
 * evicted: an epoch reads each record once, so a recent record is no likelier to be read next.
 *
 * With .path the call reads all records once and writes them to a file, which appears when it is
 * complete and which later programs use again. The file has checksums and the text of the source,
 * so a file of another source is refused (but not a file of changed data with the same text: delete
 * it when the data changes). Records that cannot be read are not cached, and are read from the
 * source each time. The stages before a cache are read as of epoch 0, so put shuffles and random
 * maps after it. Errors: TSR_EARG (a shuffled source, a map with a seed), TSR_ENOMEM, TSR_EIO,
 * TSR_ESTATE (a cache of other records), TSR_EPARSE (a damaged cache), TSR_ECANCELLED, those of
 * reading. The source is owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_cache_with(const tsr_cache_args *args, const char *site);

/* ---- sequences ------------------------------------------------------------------------------- */

enum { TSR_MAX_BUCKETS = 32 };

typedef struct tsr_bucket_args {
  size_t size;
  tsr_source *source;
  const char *field TSR_REST_BY_NAME; /* a ragged field */
  /* longest lengths, ascending, up to the first 0; longer records are the last bucket */
  int64_t bounds[TSR_MAX_BUCKETS];
  /* .batch_size of the pipeline that reads the result; 0 with .sizes */
  int64_t rows;
  /* shuffles records within buckets, and whole batches, in each epoch */
  bool shuffle;
  uint64_t seed;                  /* of .shuffle */
  int64_t sizes[TSR_MAX_BUCKETS]; /* batch size of each bucket: one more than .bounds */
} tsr_bucket_args;

/* Returns the same records in an order that puts records of similar length into a batch:
 * tsr_source_bucket(source, "tokens", .rows = 32, .bounds = { 16, 64, 256 }). In a pipeline with
 * that batch size, dim 1 of the field is the bound of the longest bucket in the batch, not the
 * longest length of all. A batch comes when its bucket is full. Left-over records come last, from
 * short to long, several buckets in a batch, so that no record is lost and only the last batch is
 * short. The call reads the lengths of all records. Later stages that do not change the field keep
 * these lengths (select, maps, zip; and shuffles, slices, filters, which regroup the batches);
 * after other stages batches have the longest length.
 *
 * With .sizes batches of short records have more records, as in tf.data's
 * bucket_by_sequence_length: .bounds = { 16, 64 }, .sizes = { 128, 32, 8 }. Open the pipeline
 * without .batch_size; each batch is of one bucket. Left-over records are one batch for each
 * bucket, from short to long, and .remainder of the pipeline says how it is filled (padded to its
 * bucket's size, or followed by its bucket's first records). By position records are ordered by
 * bucket. Stages that keep the positions of records (select, maps, merge, zip, cache, fit) keep the
 * batches.
 *
 * Errors: TSR_ESHAPE (no field NAME_length), TSR_EARG (bounds that do not ascend, a wrong number of
 * sizes, a shuffled source), TSR_EVALUE, TSR_ECANCELLED, those of reading. The source is owned as
 * `source` is. Local. */
TSR_API tsr_source *tsr_source_bucket_with(const tsr_bucket_args *args, const char *site);

/* The way to choose the pack of a sequence. */
typedef enum tsr_pack_way {
  TSR_PACK_FIRST_FIT, /* the first open pack with enough space */
  TSR_PACK_BEST_FIT,  /* the fullest open pack with enough space */
  /* one after the other; the rest of a sequence that fills a pack goes to the next */
  TSR_PACK_CUT
} tsr_pack_way;

typedef struct tsr_fit_args {
  size_t size;
  tsr_source *source;
  const char *field TSR_REST_BY_NAME; /* a ragged field */
  int64_t multiple;                   /* lengths are multiples of this; 0: 1 */
} tsr_fit_args;

/* Returns the same records, with batches of a pipeline as long as their longest record:
 * tsr_source_fit(source, "tokens", .multiple = 8). Dim 1 of the field is that length, rounded up to
 * a multiple of .multiple (at least 1, at most the field's own length), so that fewer shapes occur.
 * The call reads all lengths and keeps them, 4 bytes each. Later stages that do not change the
 * field and move records one by one (select, maps, zip, shuffles, slices, filters) keep these
 * lengths. Errors: TSR_ESHAPE (no field NAME_length), TSR_EARG (a shuffled source: shuffle the
 * result instead), TSR_EVALUE, TSR_ECANCELLED, those of reading. The source is owned as `source`
 * is. Local. */
TSR_API tsr_source *tsr_source_fit_with(const tsr_fit_args *args, const char *site);

typedef struct tsr_pack_args {
  size_t size;
  tsr_source *source;
  const char *fields TSR_REST_BY_NAME; /* "tokens,labels": ragged, or as long as their shapes */
  int64_t length;                      /* of a pack */
  int open;                            /* packs that can still take records; 0: 16 */
  tsr_pack_way way;
  /* an element appended to each sequence, which grows by one: TSR_VALUE(2); none: nothing */
  tsr_scalar end;
} tsr_pack_args;

/* Returns records of a fixed length that hold several sequences each: tsr_source_pack(source,
 * "tokens", .length = 2048). A sequence goes to the first open pack with enough space in all
 * fields; else a new pack is begun, and the oldest is closed when too many are open. A field
 * "tokens" becomes "tokens" [length, ...], "tokens_segments" and "tokens_positions" of i32 [length]
 * (the number of the sequence, from 1, and the position in it; 0 in padding), and "tokens_length",
 * the used length. Other fields are left out; no sequence is. The call reads all lengths. With
 * TSR_PACK_CUT, as language models are trained, sequences of any length fill all packs but the
 * last, positions continue after a cut, and several fields have one length in each record. With
 * .end each sequence, an empty one too, gets that element in all fields, as the last of its
 * segment. Errors: TSR_EVALUE (a sequence longer than a pack: tsr_source_pad cuts), TSR_EARG (a
 * shuffled source), TSR_EDTYPE (an end that does not fit a field's dtype), TSR_ESHAPE,
 * TSR_ECANCELLED, those of reading. The source is owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_pack_with(const tsr_pack_args *args, const char *site);

/* ---- other fields ---------------------------------------------------------------------------- */

typedef struct tsr_field_pad_args {
  size_t size;
  tsr_source *source;
  const char *field TSR_REST_BY_NAME;
  int64_t length;   /* the new size of dim 0 */
  tsr_scalar value; /* the padding: TSR_VALUE(-1); none: zeros */
  bool front;       /* pads and cuts at the start instead of at the end */
} tsr_field_pad_args;

/* Returns records with dim 0 of a field padded or cut to a length: tsr_source_pad(source, "tokens",
 * .length = 128). In a ragged field, elements after the true length are padding, and NAME_length
 * becomes the length that is left. The field moves to the end. Errors: TSR_EARG, TSR_ESHAPE (a
 * field of one number), TSR_EDTYPE (a value that does not fit the field's dtype). The source is
 * owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_pad_with(const tsr_field_pad_args *args, const char *site);

typedef struct tsr_one_hot_args {
  size_t size;
  tsr_source *source;
  const char *field TSR_REST_BY_NAME;
  int64_t classes;
  tsr_dtype dtype; /* 0: f32 */
} tsr_one_hot_args;

/* Returns records with a field of integers as one-hot vectors, in a new last dim:
 * tsr_source_one_hot(source, "label", .classes = 10). A number that is no class ends the pipeline
 * with TSR_EVALUE. The field moves to the end. Errors: TSR_EARG, TSR_EDTYPE, TSR_ESHAPE. The source
 * is owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_one_hot_with(const tsr_one_hot_args *args, const char *site);

typedef struct tsr_field_cast_args {
  size_t size;
  tsr_source *source;
  const char *field TSR_REST_BY_NAME;
  tsr_dtype dtype; /* the new dtype; 0: f32 */
  double scale;    /* for floats: factor of each element; 0: 1 */
  /* For floats, by channel, which is the last dim; .std 0: 1. Equal values hold for any number of
   * channels. */
  double mean[4], std[4];
} tsr_field_cast_args;

/* Returns records with a field of another dtype: tsr_source_cast(source, "image", .scale = 1.0 /
 * 255) makes f32 from 0 to 1 of bytes. The values are those of tsr_cast, then (x * scale - mean) /
 * std, as a product and a sum. A record is converted on its way to the device, without a copy on
 * the host. The field moves to the end. Errors: TSR_EARG, TSR_EDTYPE (a scale for integers),
 * TSR_ESHAPE (values that differ by channel, for more than 4 channels). The source is owned as
 * `source` is. Local. */
TSR_API tsr_source *tsr_source_cast_with(const tsr_field_cast_args *args, const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* tsr_source_batch(source, .rows = 32) */
#define TSR_SOURCE_BATCH_(source_, ...) \
  (&(tsr_batch_args){ .size = sizeof(tsr_batch_args), .source = (source_), __VA_ARGS__ })
#define tsr_source_batch(...) tsr_source_batch_with(TSR_SOURCE_BATCH_(__VA_ARGS__, ), TSR_HERE)
#define tsr_source_unbatch(source) tsr_source_unbatch_at((source), TSR_HERE)
/* tsr_source_flat_map(source, fn, .count = how_many, .fields = { ... }) */
#define TSR_SOURCE_FLAT_MAP_(source_, fn_, ...) \
  (&(tsr_flat_map_args){                        \
      .size = sizeof(tsr_flat_map_args), .source = (source_), .fn = (fn_), __VA_ARGS__ })
#define tsr_source_flat_map(...)                                                                 \
  tsr_source_flat_map_with(TSR_NEEDS_2_("tsr_source_flat_map(source, fn)", TSR_SOURCE_FLAT_MAP_, \
                                        __VA_ARGS__),                                            \
                           TSR_HERE)
/* tsr_source_interleave(sources, count, .cycle = 4) */
#define tsr_source_interleave(...) \
  TSR_NEEDS_2_("tsr_source_interleave(sources, count)", TSR_SOURCE_INTERLEAVE_, __VA_ARGS__)
#define TSR_SOURCE_INTERLEAVE_(sources, count, ...) \
  tsr_source_interleave_with(                       \
      (sources), (count),                           \
      &(tsr_interleave_args){ .size = sizeof(tsr_interleave_args), __VA_ARGS__ }, TSR_HERE)
/* tsr_source_sample(.parts = { { a, 3 }, { b, 1 } }, .seed = 7) */
#define tsr_source_sample(...)                                                               \
  tsr_source_sample_with(&(tsr_sample_args){ .size = sizeof(tsr_sample_args), __VA_ARGS__ }, \
                         TSR_HERE)
#define tsr_source_merge(...)                                                               \
  tsr_source_merge_at((tsr_source *const[]){ __VA_ARGS__ },                                 \
                      (int)(sizeof((tsr_source *const[]){ __VA_ARGS__ }) / sizeof(void *)), \
                      TSR_HERE)
/* tsr_source_cache(source, .path = "x.cache") */
#define TSR_SOURCE_CACHE_(source_, ...) \
  (&(tsr_cache_args){ .size = sizeof(tsr_cache_args), .source = (source_), __VA_ARGS__ })
#define tsr_source_cache(...) tsr_source_cache_with(TSR_SOURCE_CACHE_(__VA_ARGS__, ), TSR_HERE)
/* tsr_source_bucket(source, "tokens", .rows = 32, .bounds = { 16, 64 }) */
#define TSR_SOURCE_BUCKET_(source_, field_, ...) \
  (&(tsr_bucket_args){                           \
      .size = sizeof(tsr_bucket_args), .source = (source_), .field = (field_), __VA_ARGS__ })
#define tsr_source_bucket(...) \
  tsr_source_bucket_with(      \
      TSR_NEEDS_2_("tsr_source_bucket(source, field)", TSR_SOURCE_BUCKET_, __VA_ARGS__), TSR_HERE)
/* tsr_source_fit(source, "tokens", .multiple = 8) */
#define TSR_SOURCE_FIT_(source_, field_, ...) \
  (&(tsr_fit_args){                           \
      .size = sizeof(tsr_fit_args), .source = (source_), .field = (field_), __VA_ARGS__ })
#define tsr_source_fit(...)                                                                        \
  tsr_source_fit_with(TSR_NEEDS_2_("tsr_source_fit(source, field)", TSR_SOURCE_FIT_, __VA_ARGS__), \
                      TSR_HERE)
/* tsr_source_pack(source, "tokens", .length = 2048) */
#define TSR_SOURCE_PACK_(source_, fields_, ...) \
  (&(tsr_pack_args){                            \
      .size = sizeof(tsr_pack_args), .source = (source_), .fields = (fields_), __VA_ARGS__ })
#define tsr_source_pack(...) \
  tsr_source_pack_with(      \
      TSR_NEEDS_2_("tsr_source_pack(source, fields)", TSR_SOURCE_PACK_, __VA_ARGS__), TSR_HERE)
/* tsr_source_pad(source, "tokens", .length = 128) */
#define TSR_SOURCE_PAD_(source_, field_, ...) \
  (&(tsr_field_pad_args){                     \
      .size = sizeof(tsr_field_pad_args), .source = (source_), .field = (field_), __VA_ARGS__ })
#define tsr_source_pad(...)                                                                        \
  tsr_source_pad_with(TSR_NEEDS_2_("tsr_source_pad(source, field)", TSR_SOURCE_PAD_, __VA_ARGS__), \
                      TSR_HERE)
/* tsr_source_one_hot(source, "label", .classes = 10) */
#define TSR_SOURCE_ONE_HOT_(source_, field_, ...) \
  (&(tsr_one_hot_args){                           \
      .size = sizeof(tsr_one_hot_args), .source = (source_), .field = (field_), __VA_ARGS__ })
#define tsr_source_one_hot(...)                                                                  \
  tsr_source_one_hot_with(TSR_NEEDS_2_("tsr_source_one_hot(source, field)", TSR_SOURCE_ONE_HOT_, \
                                       __VA_ARGS__),                                             \
                          TSR_HERE)
/* tsr_source_cast(source, "image", .scale = 1.0 / 255) */
#define TSR_SOURCE_CAST_(source_, field_, ...) \
  (&(tsr_field_cast_args){                     \
      .size = sizeof(tsr_field_cast_args), .source = (source_), .field = (field_), __VA_ARGS__ })
#define tsr_source_cast(...) \
  tsr_source_cast_with(      \
      TSR_NEEDS_2_("tsr_source_cast(source, field)", TSR_SOURCE_CAST_, __VA_ARGS__), TSR_HERE)
#endif

#endif
