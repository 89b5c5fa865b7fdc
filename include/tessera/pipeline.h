/* Pipelines: from records to batches that are already on their devices.
 *
 *   tsr_source *digits = tsr_source_npz(s, "train.npz");
 *   tsr_pipeline *p = tsr_pipeline_open(digits, .batch_size = 256, .shuffle = true, .seed = 7,
 *                                       .on = tsr_on(mesh, "data"));
 *   for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b))
 *     step(tsr_batch_field(b, "image"), tsr_batch_field(b, "label"));
 *   tsr_status status = tsr_pipeline_close(p);
 *
 * A source is a list of records that is read by position; each record has the same fields, of fixed
 * dtype and shape. A stage makes a source from sources (a range, another order, several joined) and
 * reads no records yet; up to 128 stages can be stacked. A pipeline reads the records of one source
 * in order, batch by batch, and writes each record straight to the devices that hold its row.
 *
 * The order is arithmetic: the record in row r of batch n depends only on the source, the seed and
 * the epoch. Threads, devices and prefetch never change results. */
#ifndef TESSERA_PIPELINE_H
#define TESSERA_PIPELINE_H

#include "frame.h"
#include "function.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_source tsr_source;
typedef struct tsr_pipeline tsr_pipeline;
typedef struct tsr_batch tsr_batch;

enum { TSR_MAX_FIELDS = 32 }; /* that a call can name; records of files and frames have up to 256 */

/* A field of a record. */
typedef struct tsr_record_field {
  const char *name; /* any text but an empty one, as the file has it: "image/encoded" */
  tsr_dtype dtype;
  tsr_shape shape; /* of one record */
} tsr_record_field;

/* ---- sources ------------------------------------------------------------------------------- */

typedef struct tsr_npz_args {
  size_t size TSR_REST_BY_NAME;
  const char *names; /* arrays to read, "image,label", as in tsr_source_select; NULL: all arrays */
} tsr_npz_args;

/* Returns a source of the arrays of a .npz archive: tsr_source_npz(s, "train.npz", .names =
 * "image,label"). Each array is a field of its name, and each element of dim 0 is a record; all
 * arrays that are read have the same dim 0. A pattern reads all archives in order of their names;
 * all have the same fields. The call reads the arrays into host memory and compares checksums.
 * Without .names, a field's name has '_' for each character other than letters, digits, '_' and
 * '-'. Errors: TSR_EIO, TSR_EPARSE (also for a name that the archive lacks), TSR_EUNSUPPORTED,
 * TSR_ESHAPE (arrays without dims or of different lengths). The source is owned by the scope; never
 * NULL, inert on an error. Local. */
TSR_API tsr_source *tsr_source_npz_with(tsr_scope *scope, const char *path,
                                        const tsr_npz_args *args, const char *site);

/* Returns a source of the array of a .npy file, as the field "data"; each element of dim 0 is a
 * record. A pattern reads all files in order of their names. Records are read when needed. Errors
 * as tsr_source_npz. The source is owned by the scope. Local. */
TSR_API tsr_source *tsr_source_npy_at(tsr_scope *scope, const char *path, const char *site);

/* A field in the program's memory: `count` records of `shape`, one after the other, in C order,
 * bool as bytes. */
typedef struct tsr_source_field {
  const char *name; /* any text but an empty one; copied */
  tsr_dtype dtype;
  tsr_shape shape; /* of one record */
  const void *data;
} tsr_source_field;

/* Returns a source of `count` records in the program's memory, borrowed until the scope closes.
 * Errors: TSR_EARG (no fields, a name given twice, NULL data), TSR_EDTYPE, TSR_ESHAPE. The source
 * is owned by the scope. Local. */
TSR_API tsr_source *tsr_source_memory_at(tsr_scope *scope, int64_t count,
                                         const tsr_source_field *fields, int field_count,
                                         const char *site);

/* Returns a source of the arrays of a tree. Each array is a field of its path ("a_b"; a tree that
 * is one array: "data"), and each element of dim 0 is a record. The call evaluates the arrays and
 * copies them to the host. Errors: TSR_ESHAPE, those of evaluation. The source is owned by the
 * scope. Collective. */
TSR_API tsr_source *tsr_source_arrays_at(tsr_scope *scope, tsr_array *tree, const char *site);

/* Returns a source of the numbers 0 .. count - 1, as the field "index" of i64. Errors: TSR_EARG.
 * The source is owned by the scope. Local. */
TSR_API tsr_source *tsr_source_range_at(tsr_scope *scope, int64_t count, const char *site);

/* Fills the fields of the record at a position, in the order of .fields; otherwise as
 * tsr_record_fn. */
typedef tsr_status tsr_source_fn(int64_t at, void *const *out, void *user);

typedef struct tsr_source_callback_args {
  size_t size TSR_REST_BY_NAME;
  int64_t count; /* number of records */
  tsr_source_fn *fn;
  void *user;                              /* borrowed until the scope closes */
  tsr_record_field fields[TSR_MAX_FIELDS]; /* up to the first field without a name */
  const char *name;                        /* in messages and states, copied; NULL: "callback" */
  /* the function may wait for other things than processors: as tsr_map_args.blocking */
  bool blocking;
} tsr_source_callback_args;

/* Returns a source of records that a function makes: tsr_source_callback(s, .count = 10, .fn =
 * make, .fields = { { "x", TSR_F32, TSR_SHAPE(3) } }). Several threads call the function, by
 * position, in any order. Errors: TSR_EARG, TSR_EDTYPE, TSR_ESHAPE. The source is owned by the
 * scope. Local. */
TSR_API tsr_source *tsr_source_callback_with(tsr_scope *scope, const tsr_source_callback_args *args,
                                             const char *site);

typedef struct tsr_source_frame_args {
  size_t size TSR_REST_BY_NAME;
  /* Text columns to read as codes, "city,colour": i64 0, 1, ... in the byte order of the column's
   * texts, and -1 for nulls. */
  const char *codes;
} tsr_source_frame_args;

/* Returns a source of the rows of a frame, for records of CSV, JSON lines and Arrow:
 * tsr_source_frame(df, .codes = "city"). Each column is a field, and each row is a record. The call
 * evaluates the frame and copies it to the host. Float columns have NaN for nulls. A text column is
 * a ragged field of u8, the bytes in UTF-8, of length 0 for nulls; a column of .codes holds
 * numbers. A field's name has '_' for each character other than letters, digits, '_' and '-'.
 * Errors: TSR_EARG (.codes names a missing column, or one that is not text), TSR_EVALUE for nulls
 * in columns that have no NaN, those of evaluation. The source is owned as results are.
 * Collective. */
TSR_API tsr_source *tsr_source_frame_with(tsr_frame *df, const tsr_source_frame_args *args,
                                          const char *site);

/* Files of records of fixed size, one record after the other. */
typedef struct tsr_binary_args {
  size_t size TSR_REST_BY_NAME;
  tsr_record_field fields[TSR_MAX_FIELDS]; /* little-endian, one after the other without gaps */
  int64_t header, footer; /* bytes before the first and after the last record of each file */
  int64_t skipped;        /* bytes after the fields of each record that are not read */
  bool partial;           /* a file may end within a record, which is left out */
  int64_t unpack_limit;   /* most bytes of an unpacked file; 0: as in tsr_read_opts */
} tsr_binary_args;

/* Returns a source of the records of fixed size in a file, or in all files of a pattern in order of
 * their names: tsr_source_binary(s, "data_*.bin", .fields = { { "label", TSR_U8, TSR_SCALAR }, {
 * "image", TSR_U8, TSR_SHAPE(3, 32, 32) } }). Records are read when needed; the call unpacks gzip
 * and zstd files into memory. If a file changes later, reading its records fails. Errors: TSR_EIO,
 * TSR_EPARSE for a file that ends within a record without .partial and for a damaged packed file,
 * TSR_EARG, TSR_EDTYPE, TSR_ESHAPE, TSR_ENOMEM (more than .unpack_limit). The source is owned by
 * the scope. Local. */
TSR_API tsr_source *tsr_source_binary_with(tsr_scope *scope, const char *path,
                                           const tsr_binary_args *args, const char *site);

typedef struct tsr_tfrecord_args {
  size_t size TSR_REST_BY_NAME;
  /* Features by name: f32 for a list of floats, i64 for a list of integers, u8 for bytes (several
   * values one after the other). A feature has as many values as the shape has elements. */
  tsr_record_field fields[TSR_MAX_FIELDS];
  bool defaults;  /* zeros for a feature or values that a message lacks; else an error */
  bool unchecked; /* checksums of messages are not compared; those of lengths always are */
  bool index;     /* keeps the positions of records beside each file, as FILE.tsridx */
  /* Fields with any number of values, "tokens,image", up to the first dim of their shape. Each is a
   * ragged field, padded with zeros, with the number of values in the i64 field NAME_length. */
  const char *ragged;
  bool cut;             /* longer values are cut; else reading them is TSR_EVALUE */
  int64_t unpack_limit; /* most bytes of an unpacked file; 0: as in tsr_read_opts */
} tsr_tfrecord_args;

/* Returns a source of the tf.Example messages in a TFRecord file, or in all files of a pattern in
 * order of their names: tsr_source_tfrecord(s, "train-*.tfrecord", .fields = { { "image", TSR_U8,
 * TSR_SHAPE(32, 32, 3) }, { "label", TSR_I64, TSR_SCALAR } }). The call scans each file once for
 * the positions of its records, 8 bytes each, and unpacks gzip and zstd files into memory; records
 * are read when needed. With .defaults the call reads records until each feature was found, mostly
 * in the first record. If a file changes later, reading its records fails. Errors: TSR_EIO,
 * TSR_EPARSE (damaged or truncated, with file, record and byte), TSR_EARG (with .defaults also for
 * a feature that no record has), TSR_EDTYPE, TSR_ENOMEM (.unpack_limit), TSR_ECANCELLED. The source
 * is owned by the scope. Local. */
TSR_API tsr_source *tsr_source_tfrecord_with(tsr_scope *scope, const char *path,
                                             const tsr_tfrecord_args *args, const char *site);

/* Returns the number of records; 0 for an inert source, -1 for a stream. Local. */
TSR_API int64_t tsr_source_count(const tsr_source *source);
/* Returns the number of fields of a record. Local. */
TSR_API int tsr_source_field_count(const tsr_source *source);
/* Returns a field, whose name lives as long as the source; all zeros for an index out of range.
 * Local. */
TSR_API tsr_record_field tsr_source_field_of(const tsr_source *source, int index);
/* Returns a source and its stages as text: "npz(train.npz: 1797 of image u8[8,8], label u8) >
 * shuffle(seed=7)". The text lives as long as the scope; "" when out of memory. Local. */
TSR_API const char *tsr_source_text(tsr_source *source);

/* ---- other orders --------------------------------------------------------------------------- */

typedef struct tsr_shuffle_args {
  size_t size;
  tsr_source *source TSR_REST_BY_NAME;
  uint64_t seed;
  int64_t window; /* records are shuffled in runs of so many neighbours; 0: all together */
  bool files;     /* files are shuffled first, and records of a file stay together; with .window */
} tsr_shuffle_args;

/* Returns the records of a source in a random order, new in each epoch: tsr_source_shuffle(source,
 * .seed = 7). The permutation is computed record by record, by a Feistel network over mixed
 * radices, and takes no memory. Errors: TSR_EARG. The source is owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_shuffle_with(const tsr_shuffle_args *args, const char *site);

/* Returns the records of a range, as tsr_slice does for elements: TSR_RANGE(10, 20), TSR_STEPS(0,
 * TSR_END, 5). Errors: TSR_EARG. The source is owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_slice_at(tsr_source *source, tsr_range range, const char *site);
typedef struct tsr_split_args {
  size_t size;
  tsr_source *source TSR_REST_BY_NAME;
  int64_t part, parts; /* index of the part, from 0, and number of parts */
  bool strided;        /* records part, part + parts, ... instead of neighbours */
  bool drop;           /* all parts have the same number of records; the rest is left out */
} tsr_split_args;

/* Returns one of several parts of a source, for processes that train independently:
 * tsr_source_split(source, .part = 1, .parts = 4). 10 records in 3 parts are 4, 3 and 3. A pipeline
 * on a mesh of several processes needs no split: each process reads the rows of its own devices.
 * Errors: TSR_EARG. The source is owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_split_with(const tsr_split_args *args, const char *site);

/* Returns the records at a list of positions, in the order of the list, which is copied:
 * tsr_source_gather(source, positions, 100). A position may be listed several times, so a program
 * can sample by its own weights or shuffle by itself. Errors: TSR_EARG (a position out of range).
 * The source is owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_gather_at(tsr_source *source, const int64_t *places, int64_t count,
                                         const char *site);

/* Returns the records of a source `times` times, each time as another epoch. Errors: TSR_EARG. The
 * source is owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_repeat_at(tsr_source *source, int64_t times, const char *site);
/* Returns the records of sources of equal fields, one source after the other: tsr_source_concat(a,
 * b). Errors: TSR_EARG, TSR_EDTYPE and TSR_ESHAPE if fields differ. The source is owned as the
 * first one is. Local. */
TSR_API tsr_source *tsr_source_concat_at(tsr_source *const *sources, int count, const char *site);
/* Returns records with the fields of all sources, as many as the shortest source has. Errors:
 * TSR_EARG (a name given twice). The source is owned as the first one is. Local. */
TSR_API tsr_source *tsr_source_zip_at(tsr_source *const *sources, int count, const char *site);

/* A source of a mixture, with its weight. */
typedef struct tsr_mix_part {
  tsr_source *source;
  int64_t weight; /* 1 .. 65536 */
} tsr_mix_part;

/* Returns a mixture of sources of equal fields by whole weights: tsr_source_mix({ a, 3 }, { b, 1
 * }). For every n, the first n records hold each source's share with an error below one record. The
 * mixture ends before the first record that a source lacks. Errors: TSR_EARG, TSR_EDTYPE,
 * TSR_ESHAPE. The source is owned as the first one is. Local. */
TSR_API tsr_source *tsr_source_mix_at(const tsr_mix_part *parts, int count, const char *site);

/* Returns the fields named in `names`, "image,label", in that order; "image=pixels" renames the
 * field pixels to image. A name in double quotes may have any characters, with "" for a quote:
 * "\"a,b\"=pair". Other fields are not read. Errors: TSR_EARG. The source is owned as `source` is.
 * Local. */
TSR_API tsr_source *tsr_source_select_at(tsr_source *source, const char *names, const char *site);

/* ---- functions of records ------------------------------------------------------------------- */

/* A record for a function of records. Fields are in C order, bool as bytes. */
typedef struct tsr_record {
  int64_t id;            /* its position in the source that holds it */
  int64_t epoch;         /* counted from 0 */
  uint64_t draw[2];      /* random bits that depend on the seed, the epoch and the id only */
  const void *const *in; /* by field of the source */
  void *const *out;      /* by field of tsr_map_args.fields; the function fills them */
} tsr_record;

/* Fills `out`. Any status but TSR_OK ends the pipeline with that status, and the message names the
 * record. Several threads may call the function at once. */
typedef tsr_status tsr_record_fn(const tsr_record *record, void *user);

/* Returns whether to keep a record. */
typedef bool tsr_record_test(const tsr_record *record, void *user);

typedef struct tsr_filter_args {
  size_t size;
  tsr_source *source;
  tsr_record_test *fn TSR_REST_BY_NAME;
  void *user;
  double most_lost; /* dropping more than this share is an error; 0: any share */
  double warn_lost; /* dropping more than this share is logged as a warning; 0: 0.9 */
} tsr_filter_args;

/* Returns the records for which a function returns true, in order: tsr_source_filter(source, test,
 * .user = &x). The call reads all records once and keeps the positions of the records that pass, 8
 * bytes each, so the result has a known count and is read by position. Errors: TSR_EARG (a shuffled
 * source: filter first), TSR_EVALUE (.most_lost), TSR_ECANCELLED, those of reading. The source is
 * owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_filter_with(const tsr_filter_args *args, const char *site);

typedef struct tsr_map_args {
  size_t size;
  tsr_source *source;
  tsr_record_fn *fn TSR_REST_BY_NAME;
  void *user;                              /* borrowed as long as the source lives */
  tsr_record_field fields[TSR_MAX_FIELDS]; /* results; up to the first field without a name */
  uint64_t seed;                           /* of the random draws */
  const char *name;                        /* in messages and states, copied; NULL: "map" */
  /* The function may wait for other things than processors, such as the network. Then only the
   * pipeline's own threads call it, side by side, and with .threads = -1 the thread that asks for
   * batches; never workers that compute, nor a caller that could wait and be cancelled instead. */
  bool blocking;
} tsr_map_args;

/* Returns the results of a function on each record, with those fields of the source that no result
 * replaces: tsr_source_map(source, flip, .fields = { { "image", TSR_U8, TSR_SHAPE(32, 32) } }). The
 * function runs on host threads when a batch is filled. Errors: TSR_EARG, TSR_EDTYPE, TSR_ESHAPE.
 * The source is owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_map_with(const tsr_map_args *args, const char *site);

/* ---- pipelines ------------------------------------------------------------------------------ */

/* The treatment of an epoch's last records if they do not fill a batch. */
typedef enum tsr_remainder {
  TSR_KEEP_SHORT,   /* a shorter batch; on devices of several processes as TSR_PAD_AND_MASK */
  TSR_DROP,         /* the records are left out */
  TSR_PAD_AND_MASK, /* padding rows of zeros follow; tsr_batch_mask is false there */
  TSR_WRAP,         /* the epoch's first records follow */
  TSR_ALWAYS_SHORT  /* a shorter batch, also on devices of several processes */
} tsr_remainder;

/* The treatment of records that cannot be read: damaged or truncated in their file, or refused by a
 * function of records. Lack of memory and cancellation do not make a record bad. A bad record
 * changes its own row only, whatever the threads and processes. Stages that read all records at
 * their call keep the positions of bad ones, which stay bad: a filter lets them through,
 * tsr_source_flat_map makes one record of each, tsr_source_pack gives each a pack. */
typedef enum tsr_bad_records {
  TSR_BAD_FAIL, /* the pipeline ends, with an error that names the record */
  /* the batch is shorter by the record (with TSR_PAD_AND_MASK padded), and a batch without records
   * is left out; not on devices of other processes */
  TSR_BAD_SKIP,
  /* another record of the source, chosen by arithmetic, fills the row; an error only if no record
   * can be read */
  TSR_BAD_SUBSTITUTE,
  TSR_BAD_MASK /* a row of zeros; tsr_batch_mask is false there */
} tsr_bad_records;

/* The sharding of one field that differs from .on of the pipeline. */
typedef struct tsr_field_on {
  const char *name;
  tsr_sharding on;
} tsr_field_on;

typedef struct tsr_pipeline_args {
  size_t size;
  tsr_source *source TSR_REST_BY_NAME;
  int64_t batch_size; /* records; 0: 1, or the .sizes of tsr_source_bucket */
  bool shuffle;       /* all records are shuffled, anew in each epoch; tsr_source_shuffle */
  uint64_t seed;      /* of .shuffle */
  int64_t epochs;     /* how often all records are read; 0: once; -1: without end */
  tsr_remainder remainder;
  tsr_sharding on; /* of all fields and the mask: "data" shards the rows of a batch */
  tsr_field_on fields[TSR_MAX_FIELDS];
  int threads;  /* threads that fill batches ahead; 0: 2; -1: none, tsr_pipeline_next fills them */
  int prefetch; /* batches that are filled ahead; 0: 2 */
  /* A function of each batch on the devices, from the tree of the batch's fields to a tree of other
   * fields, run in one program with the operations that use the batch. NULL: none. */
  tsr_function *map;
  bool ids;          /* tsr_batch_ids returns the ids of a batch's records */
  const void *state; /* of tsr_pipeline_save: the pipeline resumes there. NULL: from the start */
  size_t state_size;
  tsr_bad_records bad;
  int64_t bad_most; /* most bad records, those before .state included; 0: any number */
  /* most bad records as a share of the records so far, checked from the 1000th record on and at the
   * end of epochs; 0: any share */
  double bad_share;
} tsr_pipeline_args;

/* Opens a pipeline, which starts to fill batches: tsr_pipeline_open(source, .batch_size = 256, .on
 * = tsr_on(mesh, "data")). Errors: TSR_EARG, TSR_EAXIS and TSR_ESHAPE for a sharding that does not
 * fit a field, TSR_EPARSE for a damaged state, TSR_ESTATE for a state of another pipeline, with the
 * difference. The pipeline is owned by the source's scope; never NULL, inert on an error. On a mesh
 * of several processes each process opens the same pipeline and fills its own devices. The
 * processes check that their pipelines agree, so that all have the same number of batches, and a
 * failure in one process is the error of all (TSR_ESTATE with the stage that differs). On the
 * devices of one process the call waits for no other process. Collective, same arguments. */
TSR_API tsr_pipeline *tsr_pipeline_open_with(const tsr_pipeline_args *args, const char *site);

/* Returns the next batch, in order; the caller releases it. The result is NULL after the last batch
 * and on an error, which the source's scope records (the message names the record). The call waits
 * until the batch is filled. The progress callback can cancel the wait, and after 5 s the log names
 * the function and record that the batch waits for. One thread at a time calls it. A function that
 * fills the same pipeline gets NULL, and the pipeline ends with TSR_ESTATE. Local. */
TSR_API tsr_batch *tsr_pipeline_next_at(tsr_pipeline *pipeline, const char *site);

/* Ends a pipeline in any state: wakes waiting threads and joins all threads. Batches that are not
 * released stay valid. A second call is allowed. Returns TSR_OK, or the status of the error that
 * ended the pipeline sooner. Local. */
TSR_API TSR_MUST_USE tsr_status tsr_pipeline_close(tsr_pipeline *pipeline);

/* Returns whether a pipeline is being closed, for functions of records that take long. Any thread
 * may call it. Local. */
TSR_API bool tsr_pipeline_stopping(const tsr_pipeline *pipeline);

/* Returns the number of batches of an epoch; -1 for a stream. Local. */
TSR_API int64_t tsr_pipeline_batch_count(const tsr_pipeline *pipeline);

/* Returns statistics of a pipeline as text, one a line: batches, records and bytes; waits in
 * tsr_pipeline_next, and goodput, the share of time without waits; the number of batches that were
 * ready; the estimated time of the remaining batches; seconds that threads spent filling, by kind
 * of stage (from timed samples), and processor seconds; which is slower, the pipeline or
 * its consumer, with advice. The text lives as long as the scope; "" when out of memory. Local. */
TSR_API const char *tsr_pipeline_text(tsr_pipeline *pipeline);

/* Returns the statistics of tsr_pipeline_text as one JSON object, with the bad records of
 * tsr_pipeline_report: "records", "goodput", "stages", "longest", "slower", "bad" and others;
 * seconds are in *_seconds. The text lives as long as the scope; "" when out of memory. Local. */
TSR_API const char *tsr_pipeline_json(tsr_pipeline *pipeline);

/* Returns a hash of the ids of the epoch's records so far, in order, with those before .state; 0
 * without .ids. A bad record counts by the id that its row was for, and a skipped record does not
 * count. Equal hashes mean equal orders, whatever the batches, threads and processes. Local. */
TSR_API uint64_t tsr_pipeline_order(const tsr_pipeline *pipeline);

/* Returns the number of bad records in the batches so far, with those before .state. On devices of
 * several processes each counts the rows that it reads. Local. */
TSR_API int64_t tsr_pipeline_bad_count(const tsr_pipeline *pipeline);

/* Returns the bad records of the batches so far as text: their number, and for each file and
 * function its number with the message of the first record, byte and cause. With TSR_BAD_FAIL the
 * text is "", since the scope has the one error. The text lives as long as the scope; "" when out
 * of memory. Local. */
TSR_API const char *tsr_pipeline_report(tsr_pipeline *pipeline);

/* Writes the state of a pipeline to `out`, a buffer of `room` bytes, and its size to `needed`
 * (NULL: not wanted). `out` may be NULL to ask for the size. The state counts the batches that
 * tsr_pipeline_next returned, not those filled ahead. A pipeline opened with the state resumes
 * after them, with any threads, prefetch, devices and .bad. The state has a few hundred bytes,
 * mostly the text of the source. Errors: TSR_EARG (`room` is too small), TSR_ENOMEM. Local. */
TSR_API TSR_MUST_USE tsr_status tsr_pipeline_save(tsr_pipeline *pipeline, void *out, size_t room,
                                                  size_t *needed);

/* ---- batches -------------------------------------------------------------------------------- */

/* Returns a field of a batch, [rows, ...] with the sharding of the pipeline, by the field's name or
 * the name in tsr_batch_tree. The array and results computed from it are owned by the batch;
 * tsr_keep and tsr_tree_keep move results out. Errors: TSR_EARG for a name that the batch lacks.
 * Local. */
TSR_API tsr_array *tsr_batch_field_at(tsr_batch *batch, const char *name, const char *site);
/* Returns all fields as a tree, or the result of .map, owned by the batch. Names are those of the
 * fields, with '_' for characters that names of trees exclude, and a number appended if two names
 * would be equal. Local. */
TSR_API tsr_array *tsr_batch_tree(tsr_batch *batch);
/* Returns bool[rows], true for records and false for padding rows, owned by the batch. Local. */
TSR_API tsr_array *tsr_batch_mask(tsr_batch *batch);
/* Returns the number of records, which are the first rows of a batch unless bad ones are masked.
 * Local. */
TSR_API int64_t tsr_batch_count(const tsr_batch *batch);
/* Returns the number of rows, with padding rows. Local. */
TSR_API int64_t tsr_batch_row_count(const tsr_batch *batch);
/* Returns the epoch, counted from 0. Local. */
TSR_API int64_t tsr_batch_epoch(const tsr_batch *batch);
/* Returns the index of the batch in its epoch, counted from 0. Local. */
TSR_API int64_t tsr_batch_index(const tsr_batch *batch);
/* Returns the id of each row's record, -1 for padding rows and masked rows; NULL without .ids. If
 * bad records are substituted, a row of another process has the id of the record that it was for.
 * The ids are owned by the batch. Local. */
TSR_API const int64_t *tsr_batch_ids(const tsr_batch *batch);
/* Returns the scope of a batch: nodes made in it end with the batch. Local. */
TSR_API tsr_scope *tsr_batch_scope(const tsr_batch *batch);
/* Ends a batch. Running programs that need its memory hold it until they end. NULL is allowed.
 * Local. */
TSR_API void tsr_batch_release(tsr_batch *batch);

/* ---- recommended placement ------------------------------------------------------------------- */

/* Recommended arguments of a pipeline over all devices of a runtime. Batch sizes are records per
 * device; multiply them by device_count. */
typedef struct tsr_placement {
  int device_count;
  char kind[16], mesh[32], spec[16]; /* "cpu", "data=8", "data"; for one device "data=1" */
  /* From a table of kinds of devices, for any records: the batch size from which a step is
   * worthwhile, the one that uses the device well, and the one at which compute limits a step
   * rather than memory. */
  int64_t least, best, critical;
  /* For this source on this machine: the smallest batch, of powers of two up to 1024, whose time
   * per record is within a tenth of the shortest; 0: no source, or it could not be read. */
  int64_t measured;
  int64_t bytes; /* device memory of `measured` (else `best`) records; 0: no source */
} tsr_placement;

/* Returns a recommended mesh, spec and batch sizes. With a source (NULL: none) the call reads some
 * thousand records, which takes milliseconds. Errors are left to the opening of a pipeline.
 * Local. */
TSR_API tsr_placement tsr_placement_of(tsr_runtime *rt, tsr_source *source);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* tsr_source_npz(s, "x.npz"), tsr_source_npz(s, "x.npz", .names = "image,label") */
#define tsr_source_npz(...) \
  TSR_NEEDS_2_("tsr_source_npz(scope, path)", TSR_SOURCE_NPZ_, __VA_ARGS__)
#define TSR_SOURCE_NPZ_(scope, path, ...) \
  tsr_source_npz_with((scope), (path),    \
                      &(tsr_npz_args){ .size = sizeof(tsr_npz_args), __VA_ARGS__ }, TSR_HERE)
#define tsr_source_npy(scope, path) tsr_source_npy_at((scope), (path), TSR_HERE)
/* tsr_source_memory(s, 100, { "x", TSR_F32, TSR_SHAPE(3), data }) */
#define tsr_source_memory(scope, count, ...)                                        \
  tsr_source_memory_at((scope), (count), (const tsr_source_field[]){ __VA_ARGS__ }, \
                       (int)(sizeof((const tsr_source_field[]){ __VA_ARGS__ }) /    \
                             sizeof(tsr_source_field)),                             \
                       TSR_HERE)
#define tsr_source_arrays(scope, tree) tsr_source_arrays_at((scope), (tree), TSR_HERE)
/* tsr_source_callback(s, .count = 10, .fn = make, .fields = { ... }) */
#define tsr_source_callback(...) TSR_SOURCE_CALLBACK_(__VA_ARGS__, )
#define TSR_SOURCE_CALLBACK_(scope, ...)                                                          \
  tsr_source_callback_with((scope),                                                               \
                           &(tsr_source_callback_args){ .size = sizeof(tsr_source_callback_args), \
                                                        __VA_ARGS__ },                            \
                           TSR_HERE)
/* tsr_source_frame(df), tsr_source_frame(df, .codes = "city") */
#define tsr_source_frame(...) TSR_SOURCE_FRAME_(__VA_ARGS__, )
#define TSR_SOURCE_FRAME_(df, ...)                                                          \
  tsr_source_frame_with(                                                                    \
      (df), &(tsr_source_frame_args){ .size = sizeof(tsr_source_frame_args), __VA_ARGS__ }, \
      TSR_HERE)
/* tsr_source_binary(s, "x.bin", .fields = { ... }) */
#define tsr_source_binary(...) \
  TSR_NEEDS_2_("tsr_source_binary(scope, path)", TSR_SOURCE_BINARY_, __VA_ARGS__)
#define TSR_SOURCE_BINARY_(scope, path, ...)                                                 \
  tsr_source_binary_with((scope), (path),                                                    \
                         &(tsr_binary_args){ .size = sizeof(tsr_binary_args), __VA_ARGS__ }, \
                         TSR_HERE)
/* tsr_source_tfrecord(s, "x.tfrecord", .fields = { ... }) */
#define tsr_source_tfrecord(...) \
  TSR_NEEDS_2_("tsr_source_tfrecord(scope, path)", TSR_SOURCE_TFRECORD_, __VA_ARGS__)
#define TSR_SOURCE_TFRECORD_(scope, path, ...)                                                     \
  tsr_source_tfrecord_with((scope), (path),                                                        \
                           &(tsr_tfrecord_args){ .size = sizeof(tsr_tfrecord_args), __VA_ARGS__ }, \
                           TSR_HERE)
/* tsr_source_split(source, .part = 0, .parts = 4) */
#define TSR_SOURCE_SPLIT_(source_, ...) \
  (&(tsr_split_args){ .size = sizeof(tsr_split_args), .source = (source_), __VA_ARGS__ })
#define tsr_source_split(...) tsr_source_split_with(TSR_SOURCE_SPLIT_(__VA_ARGS__, ), TSR_HERE)
/* tsr_source_filter(source, test, .user = &x) */
#define TSR_SOURCE_FILTER_(source_, fn_, ...) \
  (&(tsr_filter_args){                        \
      .size = sizeof(tsr_filter_args), .source = (source_), .fn = (fn_), __VA_ARGS__ })
#define tsr_source_filter(...) \
  tsr_source_filter_with(      \
      TSR_NEEDS_2_("tsr_source_filter(source, fn)", TSR_SOURCE_FILTER_, __VA_ARGS__), TSR_HERE)
#define tsr_source_range(scope, count) tsr_source_range_at((scope), (count), TSR_HERE)
#define TSR_SOURCE_SHUFFLE_(source_, ...) \
  (&(tsr_shuffle_args){ .size = sizeof(tsr_shuffle_args), .source = (source_), __VA_ARGS__ })
#define tsr_source_shuffle(...) \
  tsr_source_shuffle_with(TSR_SOURCE_SHUFFLE_(__VA_ARGS__, ), TSR_HERE)
#define tsr_source_slice(source, ...) tsr_source_slice_at((source), __VA_ARGS__, TSR_HERE)
/* The first `count` records, as a slice. */
#define tsr_source_take(source, count) \
  tsr_source_slice_at((source), TSR_RANGE(0, (count)), TSR_HERE)
/* The records after the first `count`, as a slice. */
#define tsr_source_skip(source, count) \
  tsr_source_slice_at((source), TSR_RANGE((count), TSR_END), TSR_HERE)
/* tsr_source_gather(source, positions, 100) */
#define tsr_source_gather(source, ...) tsr_source_gather_at((source), __VA_ARGS__, TSR_HERE)
#define tsr_source_repeat(source, times) tsr_source_repeat_at((source), (times), TSR_HERE)
/* tsr_source_concat(a, b), tsr_source_zip(a, b), tsr_source_mix({ a, 3 }, { b, 1 }) */
#define tsr_source_concat(...)                                                               \
  tsr_source_concat_at((tsr_source *const[]){ __VA_ARGS__ },                                 \
                       (int)(sizeof((tsr_source *const[]){ __VA_ARGS__ }) / sizeof(void *)), \
                       TSR_HERE)
#define tsr_source_zip(...)                                                               \
  tsr_source_zip_at((tsr_source *const[]){ __VA_ARGS__ },                                 \
                    (int)(sizeof((tsr_source *const[]){ __VA_ARGS__ }) / sizeof(void *)), \
                    TSR_HERE)
#define tsr_source_mix(...)                                                                      \
  tsr_source_mix_at((const tsr_mix_part[]){ __VA_ARGS__ },                                       \
                    (int)(sizeof((const tsr_mix_part[]){ __VA_ARGS__ }) / sizeof(tsr_mix_part)), \
                    TSR_HERE)
#define tsr_source_select(source, names) tsr_source_select_at((source), (names), TSR_HERE)
/* tsr_source_map(source, fn, .fields = { ... }) */
#define TSR_SOURCE_MAP_(source_, fn_, ...) \
  (&(tsr_map_args){ .size = sizeof(tsr_map_args), .source = (source_), .fn = (fn_), __VA_ARGS__ })
#define tsr_source_map(...)                                                                     \
  tsr_source_map_with(TSR_NEEDS_2_("tsr_source_map(source, fn)", TSR_SOURCE_MAP_, __VA_ARGS__), \
                      TSR_HERE)
#define TSR_PIPELINE_OPEN_(source_, ...) \
  (&(tsr_pipeline_args){ .size = sizeof(tsr_pipeline_args), .source = (source_), __VA_ARGS__ })
#define tsr_pipeline_open(...) tsr_pipeline_open_with(TSR_PIPELINE_OPEN_(__VA_ARGS__, ), TSR_HERE)
#define tsr_pipeline_next(pipeline) tsr_pipeline_next_at((pipeline), TSR_HERE)
#define tsr_batch_field(batch, name) tsr_batch_field_at((batch), (name), TSR_HERE)
#endif

#endif
