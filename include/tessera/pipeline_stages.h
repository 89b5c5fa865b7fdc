/* What becomes of records between a source and its batches: several as one, one as several, other
 * lengths, kept copies.
 *
 *   tsr_source *lines = tsr_source_pad(words, "tokens", .length = 128);
 *   tsr_source *pairs = tsr_source_batch(lines, .rows = 2, .stride = 1);
 *
 * Each is a source again. What changes the number of records is arithmetic, or looks at all records
 * once when it is made and keeps their places, 8 bytes each: so everything is read by position, is
 * shuffled, goes on from a state, and is the same for any threads.
 *
 * Records that a stage puts together are known by their number in it, and that is what draws of
 * random maps behind it follow from.
 *
 * A ragged field is a dense one of the longest length, zeros behind, with its true length beside it
 * as the field NAME_length of i64: "tokens" and "tokens_length". */
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
  int64_t rows;            /* records in one */
  int64_t stride;          /* from the first of one to the first of the next; 0: rows */
  tsr_remainder remainder; /* what becomes of the last records where they fill none */
  bool files; /* each of its files by itself: none has records of two, .remainder is of each */
} tsr_batch_args;

/* So many records as one, each field [rows, ...]: tsr_source_batch(source, .rows = 32). A stride
 * below .rows makes sliding windows. All have equal shapes, so the last records that fill none must
 * be left out (TSR_DROP), followed by the first (TSR_WRAP) or by zeros (TSR_PAD_AND_MASK, with a
 * field "rows" of i64 that says how many rows are records). A map of such records is one of a batch
 * at a time; tsr_source_unbatch takes them apart again. With .files no window goes from one file of
 * a pattern, or one source of tsr_source_concat, into the next. Errors: TSR_ESHAPE (records left
 * over, too many dims), TSR_EARG. Returns a source owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_batch_with(const tsr_batch_args *args, const char *site);

/* The rows of records [rows, ...] as records, in order; of those with a field "rows" only so many
 * of each. tsr_source_batch of what this gives batches anew, across borders; where the one undoes
 * the other nothing is copied. Errors: TSR_ESHAPE (fields of no or unlike rows), TSR_EARG (a
 * shuffled source with "rows"), TSR_EVALUE, TSR_ECANCELLED. Returns a source owned as `source` is.
 * Local. */
TSR_API tsr_source *tsr_source_unbatch_at(tsr_source *source, const char *site);

/* How many records become of one; below 0 is an error. */
typedef int64_t tsr_record_count_fn(const tsr_record *record, void *user);
/* Fills `out` with part 0, 1, ... of a record; otherwise as tsr_record_fn. */
typedef tsr_status tsr_record_part_fn(const tsr_record *record, int64_t part, void *user);

typedef struct tsr_flat_map_args {
  size_t size;
  tsr_source *source;
  tsr_record_part_fn *fn TSR_REST_BY_NAME;
  tsr_record_count_fn *count;
  void *user;                              /* borrowed as long as the source lives */
  tsr_record_field fields[TSR_MAX_FIELDS]; /* what it makes; up to the first without a name */
  uint64_t seed;                           /* of its draws, which follow from the part as well */
  const char *name;                        /* in messages and states, copied; NULL: "flat_map" */
} tsr_flat_map_args;

/* Each record as several, or none: tsr_source_flat_map(source, cut, .count = pieces, .fields = { {
 * "piece", TSR_U8, TSR_SHAPE(8, 8) } }). Fields of the source of other names stay, the same in all
 * parts. `count` is asked once of every record, at the call. Errors: TSR_EARG (a shuffled source:
 * shuffle what this gives), TSR_EVALUE, TSR_EDTYPE, TSR_ESHAPE, TSR_ECANCELLED, those of reading.
 * Returns a source owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_flat_map_with(const tsr_flat_map_args *args, const char *site);

/* ---- several sources ------------------------------------------------------------------------- */

typedef struct tsr_interleave_args {
  size_t size TSR_REST_BY_NAME;
  int cycle;     /* sources that are open at once, 256 at most; 0: all */
  int64_t block; /* records of one in a row; 0: 1 */
} tsr_interleave_args;

/* Records of sources of equal fields by turns: tsr_source_interleave(files, 8, .cycle = 4, .block =
 * 16). Four of them are open, each gives 16 records when it is its turn, and the next of the list
 * takes the place of one that ended, until all have. It is the order of tf.data's interleave.
 * Errors: TSR_EARG, TSR_EDTYPE and TSR_ESHAPE where fields differ. Returns a source owned as the
 * first one is. Local. */
TSR_API tsr_source *tsr_source_interleave_with(tsr_source *const *sources, int count,
                                               const tsr_interleave_args *args, const char *site);

/* When a sample of sources ends. */
typedef enum tsr_sample_end {
  TSR_SAMPLE_FIRST,  /* before the first record that a source has not */
  TSR_SAMPLE_ALL,    /* with the last record of all: sources that ended are drawn no more */
  TSR_SAMPLE_RESTART /* once all have ended: those that did before begin again */
} tsr_sample_end;

enum { TSR_MAX_SAMPLED = 64 };

typedef struct tsr_sample_args {
  size_t size TSR_REST_BY_NAME;
  tsr_mix_part parts[TSR_MAX_SAMPLED]; /* sources of equal fields, and their weights */
  uint64_t seed;
  tsr_sample_end end;
  bool exact; /* dealt by their shares, as tsr_source_mix does, not drawn: .seed is not used */
} tsr_sample_args;

/* Records of sources of equal fields, each position drawn by weights: tsr_source_sample(.parts = {
 * { a, 3 }, { b, 1 } }, .seed = 7). Which source a position takes follows from the seed and the
 * position alone, in all epochs alike, and is kept, a byte a record; within a source records come
 * in order. It is tf.data's sample_from_datasets. With .exact each source gives its share of the
 * records since the beginning, or since one ended that is drawn no more, but for less than one:
 * what tsr_source_mix does, with other ends. Errors: TSR_EARG, TSR_EDTYPE and TSR_ESHAPE where
 * fields differ, TSR_ENOMEM. Returns a source owned as the first one is. Local. */
TSR_API tsr_source *tsr_source_sample_with(const tsr_sample_args *args, const char *site);

/* The fields of several maps of the same records side by side: tsr_source_merge(left, right), also
 * of records that tsr_source_zip and tsr_source_concat gave. As tsr_source_zip, but that they are
 * of the same records in the same order is checked, and that a record of the stage that they have
 * in common is read once for all of them (from a file, or made by a map; what lies in memory is
 * read where it lies). Errors: TSR_ESHAPE (unlike counts), TSR_EARG (other records, another order,
 * a name twice). Returns a source owned as the first one is. Local. */
TSR_API tsr_source *tsr_source_merge_at(tsr_source *const *sources, int count, const char *site);

/* ---- kept copies ----------------------------------------------------------------------------- */

typedef struct tsr_cache_args {
  size_t size;
  tsr_source *source TSR_REST_BY_NAME;
  const char *path; /* of a file that keeps them; NULL: in memory */
  int64_t records;  /* only the first so many are kept in memory; 0: all */
  int64_t bytes;    /* and of these as many as so many bytes hold; 0: all */
} tsr_cache_args;

/* The same records, kept once they were read: tsr_source_cache(decoded). In memory they take the
 * room of their fields, which is reserved at the call. Where .records or .bytes allow fewer than
 * all, the first ones are kept and the others are read anew each time: nothing makes room for
 * something else, since an epoch asks for each record once, and what was read last is no likelier
 * than others to be asked for next. With .path they are read once at the call and written to a
 * file, which appears when it is whole and is used again by the next program: its records have
 * checksums, and it has the text of the source, so that a file of another one is refused (not one
 * of other data under the same text: delete it when the data changes). Records that cannot be read
 * are in neither, and are asked for below each time. What lies below a cache is read as of epoch 0,
 * so shuffles and maps that draw stand above it. Errors: TSR_EARG (a shuffled source, a map with a
 * seed), TSR_ENOMEM, TSR_EIO, TSR_ESTATE (a cache of other records), TSR_EPARSE (a damaged one),
 * TSR_ECANCELLED, those of reading. Returns a source owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_cache_with(const tsr_cache_args *args, const char *site);

/* ---- sequences ------------------------------------------------------------------------------- */

enum { TSR_MAX_BUCKETS = 32 };

typedef struct tsr_bucket_args {
  size_t size;
  tsr_source *source;
  const char *field TSR_REST_BY_NAME; /* ragged */
  int64_t bounds[TSR_MAX_BUCKETS]; /* ascending, up to the first 0; longer ones are a bucket, too */
  int64_t rows;                    /* .batch_size of the pipeline that reads it; 0 with .sizes */
  bool shuffle;  /* records within their buckets, and whole batches, anew in each epoch */
  uint64_t seed; /* of .shuffle */
  int64_t sizes[TSR_MAX_BUCKETS]; /* records of a batch of each bucket: one more than .bounds */
} tsr_bucket_args;

/* The same records in an order that puts those of about one length into a batch:
 * tsr_source_bucket(source, "tokens", .rows = 32, .bounds = { 16, 64, 256 }). A pipeline of batches
 * of so many gives the field the bound of the longest bucket in a batch as dim 1, not the longest
 * length of all. Batches come as they fill up; what is left over in the buckets comes last, from
 * short to long, several buckets in a batch, so that no record is lost and only the last batch is
 * short. All records' lengths are read at the call. Stages behind it that leave the field alone
 * keep that (select, maps, zip; and shuffles, slices, filters, which take batches apart); behind
 * others batches are of the longest length.
 *
 * With .sizes batches of short records have more of them, as tf.data's bucket_by_sequence_length
 * has: .bounds = { 16, 64 }, .sizes = { 128, 32, 8 }. The pipeline is opened without .batch_size,
 * then, and each batch is of one bucket. What is left over is a batch for each bucket that has
 * some, from short to long, and what becomes of it says .remainder of the pipeline (padded to its
 * bucket's size, or followed by its bucket's first). By position records lie bucket by bucket.
 * Stages that keep records where they are (select, maps, merge, zip, cache, fit) keep the batches.
 *
 * Errors: TSR_ESHAPE (no field NAME_length), TSR_EARG (bounds that do not ascend, sizes for other
 * buckets, a shuffled source), TSR_EVALUE, TSR_ECANCELLED, those of reading. Returns a source owned
 * as `source` is. Local. */
TSR_API tsr_source *tsr_source_bucket_with(const tsr_bucket_args *args, const char *site);

/* How sequences are put together. */
typedef enum tsr_pack_way {
  TSR_PACK_FIRST_FIT, /* to the first open pack that has room */
  TSR_PACK_BEST_FIT,  /* to the fullest one that has */
  TSR_PACK_CUT        /* one behind the other; where a pack is full, the rest goes to the next */
} tsr_pack_way;

typedef struct tsr_fit_args {
  size_t size;
  tsr_source *source;
  const char *field TSR_REST_BY_NAME; /* ragged */
  int64_t multiple;                   /* lengths are whole times of it; 0: 1 */
} tsr_fit_args;

/* The same records, of which each batch of a pipeline is only as long as its longest:
 * tsr_source_fit(source, "tokens", .multiple = 8). Dim 1 of the field is that length there, brought
 * up to whole times of .multiple (1 at least, the field's own at most), so that fewer shapes come.
 * All lengths are read at the call and kept, 4 bytes each. What leaves the field alone and takes
 * records elsewhere one by one (select, maps, zip, shuffles, slices, filters) keeps that. Errors:
 * TSR_ESHAPE (no field NAME_length), TSR_EARG (a shuffled source: shuffle what this gives),
 * TSR_EVALUE, TSR_ECANCELLED, those of reading. Returns a source owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_fit_with(const tsr_fit_args *args, const char *site);

typedef struct tsr_pack_args {
  size_t size;
  tsr_source *source;
  const char *fields TSR_REST_BY_NAME; /* "tokens,labels": ragged, or as long as their shapes say */
  int64_t length;                      /* of a pack */
  int open;                            /* packs that records may still go to; 0: 16 */
  tsr_pack_way way;
  tsr_scalar end; /* behind each sequence, one element longer by it: TSR_VALUE(2); none: nothing */
} tsr_pack_args;

/* Several sequences in one record of a fixed length: tsr_source_pack(source, "tokens", .length =
 * 2048). Each goes to the first of the open packs that has room in all fields; where none has, a
 * new one is begun, and the oldest closed when there are too many. Of a field "tokens" it makes
 * "tokens" [length, ...], "tokens_segments" and "tokens_positions" of i32 [length] (1, 2, ... by
 * sequence that has some, 0 where there is none; and the place in it), and "tokens_length", what is
 * used. Other fields are left out, no sequence is. All lengths are read at the call. With
 * TSR_PACK_CUT, as language models are trained, sequences of any length fill all packs but the
 * last, positions go on behind a cut, and several fields are of one length in each record. With
 * .end each sequence, an empty one as well, has that element behind it in all fields, of its
 * segment and counted as its last. Errors: TSR_EVALUE (a sequence longer than a pack:
 * tsr_source_pad cuts), TSR_EARG (a shuffled source), TSR_EDTYPE (an end that a field's dtype does
 * not have), TSR_ESHAPE, TSR_ECANCELLED, those of reading. Returns a source owned as `source` is.
 * Local. */
TSR_API tsr_source *tsr_source_pack_with(const tsr_pack_args *args, const char *site);

/* ---- other fields ---------------------------------------------------------------------------- */

typedef struct tsr_field_pad_args {
  size_t size;
  tsr_source *source;
  const char *field TSR_REST_BY_NAME;
  int64_t length;   /* of dim 0, afterwards */
  tsr_scalar value; /* what it is filled with: TSR_VALUE(-1); none: zeros */
  bool front;       /* filled and cut at the front instead of behind */
} tsr_field_pad_args;

/* A field with another dim 0: shorter ones are filled, longer ones cut: tsr_source_pad(source,
 * "tokens", .length = 128). Of a ragged field what is behind its true length is filling, and
 * NAME_length becomes what is left. The field moves to the end. Errors: TSR_EARG, TSR_ESHAPE (one
 * number), TSR_EDTYPE (a value that the field's dtype does not have). Returns a source owned as
 * `source` is. Local. */
TSR_API tsr_source *tsr_source_pad_with(const tsr_field_pad_args *args, const char *site);

typedef struct tsr_one_hot_args {
  size_t size;
  tsr_source *source;
  const char *field TSR_REST_BY_NAME;
  int64_t classes;
  tsr_dtype dtype; /* 0: f32 */
} tsr_one_hot_args;

/* A field of integers with one dim more, 1 where the number is and 0 elsewhere:
 * tsr_source_one_hot(source, "label", .classes = 10). A number that is no class ends the pipeline
 * with TSR_EVALUE. The field moves to the end. Errors: TSR_EARG, TSR_EDTYPE, TSR_ESHAPE. Returns a
 * source owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_one_hot_with(const tsr_one_hot_args *args, const char *site);

typedef struct tsr_field_cast_args {
  size_t size;
  tsr_source *source;
  const char *field TSR_REST_BY_NAME;
  tsr_dtype dtype;        /* afterwards; 0: f32 */
  double scale;           /* of floats: what each element is multiplied by; 0: 1 */
  double mean[4], std[4]; /* of floats, by channel, which is the last dim; .std 0: 1. Equal ones are
                             for any number of channels */
} tsr_field_cast_args;

/* A field as another dtype: tsr_source_cast(source, "image", .scale = 1.0 / 255) makes f32 from 0
 * to 1 of bytes. It is what tsr_cast of arrays gives, then (x * scale - mean) / std, as a product
 * and a sum; a record is converted on its way to the device, which no copy of it reaches before.
 * The field moves to the end. Errors: TSR_EARG, TSR_EDTYPE (a scale for integers), TSR_ESHAPE (more
 * channels than differ). Returns a source owned as `source` is. Local. */
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
