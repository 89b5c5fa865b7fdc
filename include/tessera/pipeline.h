/* Pipelines: from records to batches that already lie on their devices.
 *
 *   tsr_source *digits = tsr_source_npz(s, "train.npz");
 *   tsr_pipeline *p = tsr_pipeline_open(digits, .batch_size = 256, .shuffle = true, .seed = 7,
 *                                       .on = tsr_on(mesh, "data"));
 *   for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b))
 *     step(tsr_batch_field(b, "image"), tsr_batch_field(b, "label"));
 *   tsr_status status = tsr_pipeline_close(p);
 *
 * A source is a list of records that is read by position; each record has the same fields, of fixed
 * dtype and shape. What is made of a source (a part of it, another order, several as one) is a
 * source again and reads nothing yet; up to 128 may stand one over the other. A pipeline reads
 * records of one source in order, batch by batch, and writes each record straight to the devices
 * that hold its row.
 *
 * The order is arithmetic: which record is row r of batch n follows from the source, the seed and
 * the epoch alone, so that threads, devices and how far is read ahead never show in results. */
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

enum { TSR_MAX_FIELDS = 32 }; /* that a call names; a record of files or frames has up to 256 */

/* A field of a record. */
typedef struct tsr_record_field {
  const char *name; /* any but an empty one, as a file has it: "image/encoded" */
  tsr_dtype dtype;
  tsr_shape shape; /* of one record */
} tsr_record_field;

/* ---- sources ------------------------------------------------------------------------------- */

typedef struct tsr_npz_args {
  size_t size TSR_REST_BY_NAME;
  const char *names; /* of the arrays to read, "image,label", as in tsr_source_select; NULL: all */
} tsr_npz_args;

/* The arrays of a .npz archive as fields of its names, a record each element of their first dim,
 * which all that are read must have in common; of a pattern all archives in order of their names,
 * which must have the same fields. They are read into host memory at the call, and their checksums
 * compared: tsr_source_npz(s, "train.npz", .names = "image,label"). Without .names a field has '_'
 * for characters other than letters, digits, '_' and '-'. Errors: TSR_EIO, TSR_EPARSE (also for a
 * name that is not there), TSR_EUNSUPPORTED, TSR_ESHAPE (arrays without dims or of different
 * lengths). Returns a source owned by the scope; never NULL, inert on an error. Local. */
TSR_API tsr_source *tsr_source_npz_with(tsr_scope *scope, const char *path,
                                        const tsr_npz_args *args, const char *site);

/* The array of a .npy file as the field "data", a record each element of its first dim; of a
 * pattern all files in order of their names. Records are read when they are needed. Errors as
 * tsr_source_npz. Returns a source owned by the scope. Local. */
TSR_API tsr_source *tsr_source_npy_at(tsr_scope *scope, const char *path, const char *site);

/* A field in the program's memory: `count` records of `shape` one after the other, in C order, bool
 * as bytes. */
typedef struct tsr_source_field {
  const char *name; /* any but an empty one; copied */
  tsr_dtype dtype;
  tsr_shape shape; /* of one record */
  const void *data;
} tsr_source_field;

/* Records of `count` in the program's memory, borrowed until the scope closes. Errors: TSR_EARG (no
 * fields, a name twice, data that is NULL), TSR_EDTYPE, TSR_ESHAPE. Returns a source owned by the
 * scope. Local. */
TSR_API tsr_source *tsr_source_memory_at(tsr_scope *scope, int64_t count,
                                         const tsr_source_field *fields, int field_count,
                                         const char *site);

/* The arrays of a tree as fields of their paths ("a_b"; of an array itself "data"), a record each
 * element of their first dim. They are evaluated and copied to the host. Errors: TSR_ESHAPE, those
 * of evaluating. Returns a source owned by the scope. Collective. */
TSR_API tsr_source *tsr_source_arrays_at(tsr_scope *scope, tsr_array *tree, const char *site);

/* The numbers 0 .. count - 1 as the field "index" of i64. Errors: TSR_EARG. Returns a source owned
 * by the scope. Local. */
TSR_API tsr_source *tsr_source_range_at(tsr_scope *scope, int64_t count, const char *site);

/* Fills the fields of the record at a position, in the order of .fields; as tsr_record_fn. */
typedef tsr_status tsr_source_fn(int64_t at, void *const *out, void *user);

typedef struct tsr_source_callback_args {
  size_t size TSR_REST_BY_NAME;
  int64_t count; /* of records */
  tsr_source_fn *fn;
  void *user;                              /* borrowed until the scope closes */
  tsr_record_field fields[TSR_MAX_FIELDS]; /* up to the first without a name */
  const char *name;                        /* in messages and states, copied; NULL: "callback" */
  bool blocking; /* it may wait for something else than processors: as tsr_map_args.blocking */
} tsr_source_callback_args;

/* Records that a function of the program makes, by position, in any order and from several threads:
 * tsr_source_callback(s, .count = 10, .fn = make, .fields = { { "x", TSR_F32, TSR_SHAPE(3) } }).
 * Errors: TSR_EARG, TSR_EDTYPE, TSR_ESHAPE. Returns a source owned by the scope. Local. */
TSR_API tsr_source *tsr_source_callback_with(tsr_scope *scope, const tsr_source_callback_args *args,
                                             const char *site);

typedef struct tsr_source_frame_args {
  size_t size TSR_REST_BY_NAME;
  /* Columns of text that are numbers, "city,colour": i64, 0, 1, ... in the order of the bytes of
   * the texts that the column has, and -1 for nulls. */
  const char *codes;
} tsr_source_frame_args;

/* The columns of a frame as fields, a record a row: what the readers of CSV, JSON lines and Arrow
 * give. It is evaluated and copied to the host. Columns of floats have NaN for nulls. A column of
 * text is a ragged field of u8, its bytes in UTF-8, of length 0 for nulls; those of .codes are
 * numbers: tsr_source_frame(df, .codes = "city"). Names have '_' for characters other than letters,
 * digits, '_' and '-'. Errors: TSR_EARG (.codes names a column that is not there, or is no text),
 * TSR_EVALUE for nulls in columns that have no NaN, those of evaluating. Returns a source owned as
 * results are. Collective. */
TSR_API tsr_source *tsr_source_frame_with(tsr_frame *df, const tsr_source_frame_args *args,
                                          const char *site);

/* Records of so many bytes, one after the other, in files. */
typedef struct tsr_binary_args {
  size_t size TSR_REST_BY_NAME;
  tsr_record_field
      fields[TSR_MAX_FIELDS]; /* as they lie in a record, without gaps; little-endian */
  int64_t header, footer;     /* bytes at the start and the end of each file that are no records */
  int64_t skipped;            /* bytes behind the fields of each record that are left out */
  bool partial;               /* a file may end within a record, which is left out */
  int64_t unpack_limit;       /* bytes that a packed file may unpack to; 0: as in tsr_read_opts */
} tsr_binary_args;

/* Records of fixed size in a file, or in all files of a pattern in order of their names:
 * tsr_source_binary(s, "data_*.bin", .fields = { { "label", TSR_U8, TSR_SCALAR }, { "image",
 * TSR_U8, TSR_SHAPE(3, 32, 32) } }). They are read when they are needed; files that gzip or zstd
 * packed are unpacked into memory at the call. A file that changes afterwards is an error of
 * reading. Errors: TSR_EIO, TSR_EPARSE for a file that ends within a record without .partial, and
 * for one that is packed and damaged, TSR_EARG, TSR_EDTYPE, TSR_ESHAPE, TSR_ENOMEM (it unpacks to
 * more than .unpack_limit). Returns a source owned by the scope. Local. */
TSR_API tsr_source *tsr_source_binary_with(tsr_scope *scope, const char *path,
                                           const tsr_binary_args *args, const char *site);

typedef struct tsr_tfrecord_args {
  size_t size TSR_REST_BY_NAME;
  /* Features by name: f32 of a list of floats, i64 of one of integers, u8 of bytes, those of
   * several values one after the other; each has as many values as the shape has elements. */
  tsr_record_field fields[TSR_MAX_FIELDS];
  bool defaults;  /* zeros where a message lacks a feature or its values; else that is an error */
  bool unchecked; /* messages are not compared with their checksums; lengths always are */
  bool index;     /* the places of records are kept beside each file, as FILE.tsridx */
  /* Fields that have any number of values, "tokens,image", up to the first dim of their shape: a
   * ragged field each, with zeros behind and the number as the i64 field NAME_length. */
  const char *ragged;
  bool cut;             /* more values than that are cut; else reading them is TSR_EVALUE */
  int64_t unpack_limit; /* bytes that a packed file may unpack to; 0: as in tsr_read_opts */
} tsr_tfrecord_args;

/* tf.Example messages in a TFRecord file, or in all files of a pattern in order of their names
 * (those that gzip or zstd packed are unpacked into memory): tsr_source_tfrecord(s,
 * "train-*.tfrecord", .fields = { { "image", TSR_U8, TSR_SHAPE(32, 32, 3) }, { "label", TSR_I64,
 * TSR_SCALAR } }). The files are walked along once, for the places of their records, 8 bytes each;
 * records are read when they are needed. With .defaults they are looked into until each feature was
 * met, which mostly is the first record. A file that changes afterwards is an error of reading.
 * Errors: TSR_EIO, TSR_EPARSE (damaged or cut off, with file, record and byte), TSR_EARG (also for
 * a feature that no record has, with .defaults), TSR_EDTYPE, TSR_ENOMEM (.unpack_limit),
 * TSR_ECANCELLED. Returns a source owned by the scope. Local. */
TSR_API tsr_source *tsr_source_tfrecord_with(tsr_scope *scope, const char *path,
                                             const tsr_tfrecord_args *args, const char *site);

/* How many records a source has; 0 of an inert one, -1 of a stream. Local. */
TSR_API int64_t tsr_source_count(const tsr_source *source);
/* How many fields a record has. Local. */
TSR_API int tsr_source_field_count(const tsr_source *source);
/* A field; its name lives as long as the source. All zeros outside. Local. */
TSR_API tsr_record_field tsr_source_field_of(const tsr_source *source, int index);
/* What a source is made of, as text: "npz(train.npz: 1797 of image u8[8,8], label u8) >
 * shuffle(seed=7)". Lives as long as the scope; "" out of memory. Local. */
TSR_API const char *tsr_source_text(tsr_source *source);

/* ---- other orders --------------------------------------------------------------------------- */

typedef struct tsr_shuffle_args {
  size_t size;
  tsr_source *source TSR_REST_BY_NAME;
  uint64_t seed;
  int64_t window; /* records change places with those near them only, in runs of so many; 0: all */
  bool files;     /* its files change places first, records of one stay together; with .window */
} tsr_shuffle_args;

/* The records of a source in an order drawn anew for each epoch: tsr_source_shuffle(source, .seed =
 * 7). The permutation is computed, record by record, and takes no memory: a Feistel network over
 * mixed radices. Errors: TSR_EARG. Returns a source owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_shuffle_with(const tsr_shuffle_args *args, const char *site);

/* The records of a range, as tsr_slice takes elements: TSR_RANGE(10, 20), TSR_STEPS(0, TSR_END, 5).
 * Errors: TSR_EARG. Returns a source owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_slice_at(tsr_source *source, tsr_range range, const char *site);
typedef struct tsr_split_args {
  size_t size;
  tsr_source *source TSR_REST_BY_NAME;
  int64_t part, parts; /* which of how many, from 0 */
  bool strided;        /* records part, part + parts, ... instead of neighbours */
  bool drop;           /* all parts have the same number, and what is left over goes to none */
} tsr_split_args;

/* One of several parts of a source, as each process of its own takes: tsr_source_split(source,
 * .part = 1, .parts = 4). Of 10 records 3 parts have 4, 3 and 3. A pipeline on a mesh over
 * processes needs none: each reads the rows of its own devices. Errors: TSR_EARG. Returns a source
 * owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_split_with(const tsr_split_args *args, const char *site);

/* The records at some places, in the order of the list, which is copied: tsr_source_gather(source,
 * places, 100). A place may stand several times: what a program draws by weights of its own, or has
 * shuffled itself, is read so. Errors: TSR_EARG (a place that the source has not). Returns a source
 * owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_gather_at(tsr_source *source, const int64_t *places, int64_t count,
                                         const char *site);

/* The records of a source `times` over, each time as another epoch. Errors: TSR_EARG. Returns a
 * source owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_repeat_at(tsr_source *source, int64_t times, const char *site);
/* The records of sources of equal fields, one source after the other: tsr_source_concat(a, b).
 * Errors: TSR_EARG, TSR_EDTYPE and TSR_ESHAPE where fields differ. Returns a source owned as the
 * first one is. Local. */
TSR_API tsr_source *tsr_source_concat_at(tsr_source *const *sources, int count, const char *site);
/* Records side by side, with the fields of all sources: as many as the shortest has. Errors:
 * TSR_EARG (a name twice). Returns a source owned as the first one is. Local. */
TSR_API tsr_source *tsr_source_zip_at(tsr_source *const *sources, int count, const char *site);

/* A source of a mixture, and how often it comes. */
typedef struct tsr_mix_part {
  tsr_source *source;
  int64_t weight; /* 1 .. 65536 */
} tsr_mix_part;

/* Sources of equal fields mixed by whole weights: of the first n records each source gave its share
 * but for less than one, for every n: tsr_source_mix({ a, 3 }, { b, 1 }). It ends before the first
 * record that a source has not. Errors: TSR_EARG, TSR_EDTYPE, TSR_ESHAPE. Returns a source owned as
 * the first one is. Local. */
TSR_API tsr_source *tsr_source_mix_at(const tsr_mix_part *parts, int count, const char *site);

/* The fields named in `names`, "image,label", in that order; "image=pixels" calls the field image
 * pixels. A name in double quotes has any characters, with two for a quote: "\"a,b\"=pair". Others
 * are not read. Errors: TSR_EARG. Returns a source owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_select_at(tsr_source *source, const char *names, const char *site);

/* ---- functions of records ------------------------------------------------------------------- */

/* One record as a function of records sees it. Fields lie in C order, bool as bytes. */
typedef struct tsr_record {
  int64_t id;            /* its position in the source that holds it */
  int64_t epoch;         /* counted from 0 */
  uint64_t draw[2];      /* random bits that follow from the seed, the epoch and the id alone */
  const void *const *in; /* by field of the source */
  void *const *out;      /* by field of tsr_map_args.fields: to be filled */
} tsr_record;

/* Fills `out`; another status than TSR_OK ends the pipeline with it, and the message names the
 * record. It may be called from several threads at once. */
typedef tsr_status tsr_record_fn(const tsr_record *record, void *user);

/* Whether a record stays. */
typedef bool tsr_record_test(const tsr_record *record, void *user);

typedef struct tsr_filter_args {
  size_t size;
  tsr_source *source;
  tsr_record_test *fn TSR_REST_BY_NAME;
  void *user;
  double most_lost; /* dropping more than this share is an error; 0: any */
  double warn_lost; /* dropping more than this share is told to the log; 0: 0.9 */
} tsr_filter_args;

/* The records of which a function says true, in order: tsr_source_filter(source, test, .user = &x).
 * All are read at the call, once, and the places of those that stay are kept, 8 bytes each: so what
 * is left has a number, and is read by position. Errors: TSR_EARG (a shuffled source: filter
 * first), TSR_EVALUE (.most_lost), TSR_ECANCELLED, those of reading. Returns a source owned as
 * `source` is. Local. */
TSR_API tsr_source *tsr_source_filter_with(const tsr_filter_args *args, const char *site);

typedef struct tsr_map_args {
  size_t size;
  tsr_source *source;
  tsr_record_fn *fn TSR_REST_BY_NAME;
  void *user;                              /* borrowed as long as the source lives */
  tsr_record_field fields[TSR_MAX_FIELDS]; /* what it makes; up to the first without a name */
  uint64_t seed;                           /* of its draws */
  const char *name;                        /* in messages and states, copied; NULL: "map" */
  /* It may wait for something else than processors, as the network: only the pipeline's own threads
   * call it, side by side, and with .threads = -1 the one that asks for batches; never workers that
   * compute, nor a caller that could wait and be cancelled instead. */
  bool blocking;
} tsr_map_args;

/* Records with the fields that a function makes of each, and those of the source that have none of
 * these names: tsr_source_map(source, flip, .fields = { { "image", TSR_U8, TSR_SHAPE(32, 32) } }).
 * It runs on host threads when a batch is filled. Errors: TSR_EARG, TSR_EDTYPE, TSR_ESHAPE. Returns
 * a source owned as `source` is. Local. */
TSR_API tsr_source *tsr_source_map_with(const tsr_map_args *args, const char *site);

/* ---- pipelines ------------------------------------------------------------------------------ */

/* What becomes of the last records of an epoch where they fill no batch. */
typedef enum tsr_remainder {
  TSR_KEEP_SHORT,   /* a shorter batch: nothing is lost, nothing invented; where devices are several
                     * processes' as TSR_PAD_AND_MASK */
  TSR_DROP,         /* they are left out */
  TSR_PAD_AND_MASK, /* rows of zeros follow, which tsr_batch_mask tells */
  TSR_WRAP,         /* the epoch's first records follow */
  TSR_ALWAYS_SHORT  /* a shorter batch over processes, too */
} tsr_remainder;

/* What becomes of records that cannot be read: damaged or cut off in their file, or refused by a
 * function of records. Memory that ends and what was cancelled are no such thing. Which record is
 * bad shows in nothing but its own row, whatever the threads and processes. Stages that look at all
 * records when they are made keep the places of bad ones, which are bad from then on: a filter lets
 * them through, tsr_source_flat_map makes one of each, tsr_source_pack gives each a pack. */
typedef enum tsr_bad_records {
  TSR_BAD_FAIL,       /* the pipeline ends, with an error that names the record */
  TSR_BAD_SKIP,       /* the batch is shorter by it (of TSR_PAD_AND_MASK padded), and one without a
                       * record left does not come; not where devices are other processes' */
  TSR_BAD_SUBSTITUTE, /* another record of the source comes in its row, chosen by arithmetic; an
                       * error only where no record can be read */
  TSR_BAD_MASK        /* a row of zeros, which tsr_batch_mask tells */
} tsr_bad_records;

/* How one field lies where that is not .on of the pipeline. */
typedef struct tsr_field_on {
  const char *name;
  tsr_sharding on;
} tsr_field_on;

typedef struct tsr_pipeline_args {
  size_t size;
  tsr_source *source TSR_REST_BY_NAME;
  int64_t batch_size; /* records; 0: 1, or what tsr_source_bucket has .sizes for */
  bool shuffle;       /* all records change places, anew in each epoch; tsr_source_shuffle */
  uint64_t seed;      /* of .shuffle */
  int64_t epochs;     /* how often all records are read; 0: once; -1: without end */
  tsr_remainder remainder;
  tsr_sharding on; /* of all fields and the mask: "data" cuts the rows of a batch */
  tsr_field_on fields[TSR_MAX_FIELDS];
  int threads;  /* that fill batches ahead; 0: 2; -1: none, tsr_pipeline_next fills them */
  int prefetch; /* batches that are filled ahead; 0: 2 */
  /* Made of each batch on the devices: called with the tree of its fields, it returns the tree of
   * other ones. It runs with what uses them, as one program. NULL: none. */
  tsr_function *map;
  bool ids;          /* tsr_batch_ids tells which records a batch has */
  const void *state; /* of tsr_pipeline_save: goes on there. NULL: from the start */
  size_t state_size;
  tsr_bad_records bad;
  int64_t bad_most; /* so many bad records at most, those before .state included; 0: any number */
  double bad_share; /* at most this share of the records so far, from the 1000th one on and at the
                     * end of epochs; 0: any */
} tsr_pipeline_args;

/* Opens a pipeline: tsr_pipeline_open(source, .batch_size = 256, .on = tsr_on(mesh, "data")). It
 * begins to fill batches at once. Errors: TSR_EARG, TSR_EAXIS and TSR_ESHAPE for fields that cannot
 * lie so, TSR_EPARSE for a state that is damaged, TSR_ESTATE for one of another pipeline, with what
 * differs. Returns a pipeline owned by the source's scope; never NULL, inert on an error. Where the
 * mesh has devices of several processes each of them opens it alike and fills its own devices: they
 * agree that it is the same one, so that all have equal numbers of batches, and what fails in one
 * is the error of all (TSR_ESTATE with the stage that differs). On one process's devices nobody is
 * waited for. Collective, same arguments. */
TSR_API tsr_pipeline *tsr_pipeline_open_with(const tsr_pipeline_args *args, const char *site);

/* The next batch, in order; NULL behind the last one, and on an error, which the scope of the
 * source has (its message names the record). It waits until the batch is filled; the progress
 * callback may cancel, and after 5 s the log tells which function and record it waits for. One
 * thread at a time, and no function that fills the same pipeline: it gets NULL, and the pipeline
 * ends with TSR_ESTATE. Returns a batch to be released. Local. */
TSR_API tsr_batch *tsr_pipeline_next_at(tsr_pipeline *pipeline, const char *site);

/* Ends a pipeline from any state: threads that wait are woken and all are joined. Batches that were
 * not released stay. It may be called again. Returns TSR_OK, or the status of the error that ended
 * the pipeline sooner. Local. */
TSR_API TSR_MUST_USE tsr_status tsr_pipeline_close(tsr_pipeline *pipeline);

/* Whether a pipeline is being closed: what a function of records that takes long asks. Any thread
 * may. Local. */
TSR_API bool tsr_pipeline_stopping(const tsr_pipeline *pipeline);

/* Batches of an epoch, of any size; -1 of a stream. Local. */
TSR_API int64_t tsr_pipeline_batch_count(const tsr_pipeline *pipeline);

/* What a pipeline did, as text, a line a figure: batches, records and bytes; waits in
 * tsr_pipeline_next and goodput, the share of the time in which nobody waited; how many batches
 * were ready; how long the batches to come will take, as fast as those so far; seconds that threads
 * filled, by kind of stage (a sample of the blocks is timed), and of processors; who is slower, the
 * pipeline or what uses it, and what would help. Lives as long as the scope; "" out of memory.
 * Local. */
TSR_API const char *tsr_pipeline_text(tsr_pipeline *pipeline);

/* The same as one JSON object, with the bad records of tsr_pipeline_report: "records", "goodput",
 * "stages", "longest", "slower", "bad" and others; seconds in *_seconds. Lives as long as the
 * scope; "" out of memory. Local. */
TSR_API const char *tsr_pipeline_json(tsr_pipeline *pipeline);

/* With .ids a hash of the ids of the epoch's records so far, in order, also of those that came
 * before .state; of bad ones it is the record that was meant (of skipped ones none). Equal hashes
 * are equal orders, whatever the batches, threads and processes. 0 without .ids. Local. */
TSR_API uint64_t tsr_pipeline_order(const tsr_pipeline *pipeline);

/* How many bad records the batches so far had, those before .state included; over processes each
 * counts those of the rows that it reads. Local. */
TSR_API int64_t tsr_pipeline_bad_count(const tsr_pipeline *pipeline);

/* The bad records of the batches so far as text: how many, and of each file and each function that
 * had some their number and its first one's message, with record, byte and cause. "" with
 * TSR_BAD_FAIL, whose one error the scope has. Lives as long as the scope; "" out of memory.
 * Local. */
TSR_API const char *tsr_pipeline_report(tsr_pipeline *pipeline);

/* Writes where a pipeline is to `out`, with room for `room` bytes, and how many there are to
 * `needed` (NULL: not wanted); `out` may be NULL to ask only. The state names the batches that
 * tsr_pipeline_next gave, not those filled ahead: a pipeline opened with it goes on behind them,
 * whatever its threads, prefetch and devices are, and its .bad. A few hundred bytes, mostly the
 * text of the source. Errors: TSR_EARG (too little room), TSR_ENOMEM. Local. */
TSR_API TSR_MUST_USE tsr_status tsr_pipeline_save(tsr_pipeline *pipeline, void *out, size_t room,
                                                  size_t *needed);

/* ---- batches -------------------------------------------------------------------------------- */

/* A field of a batch: [rows, ...] placed as the pipeline says. Its name is the source's, or that of
 * its part of tsr_batch_tree. Errors: TSR_EARG for a name that it has not. Returns an array owned
 * by the batch; what is computed of it is, too: tsr_keep and tsr_tree_keep move results out.
 * Local. */
TSR_API tsr_array *tsr_batch_field_at(tsr_batch *batch, const char *name, const char *site);
/* All fields as a tree, or what .map returned; owned by the batch. Parts are called as the fields
 * are, with '_' for what names of trees have not, and a number behind where two would be called
 * alike. Local. */
TSR_API tsr_array *tsr_batch_tree(tsr_batch *batch);
/* bool[rows], true where a row is a record and false where it only fills the batch. Owned by the
 * batch. Local. */
TSR_API tsr_array *tsr_batch_mask(tsr_batch *batch);
/* Rows that are records: the first ones of a batch, unless bad ones are masked. Local. */
TSR_API int64_t tsr_batch_count(const tsr_batch *batch);
/* Rows, those that only fill the batch included. Local. */
TSR_API int64_t tsr_batch_row_count(const tsr_batch *batch);
/* The epoch, counted from 0. Local. */
TSR_API int64_t tsr_batch_epoch(const tsr_batch *batch);
/* Which batch of its epoch it is, counted from 0. Local. */
TSR_API int64_t tsr_batch_index(const tsr_batch *batch);
/* The id of each row's record, -1 of rows that only fill the batch and of masked ones; NULL without
 * .ids. Where bad records are replaced, of rows that other processes hold it is the record that was
 * meant. Owned by the batch. Local. */
TSR_API const int64_t *tsr_batch_ids(const tsr_batch *batch);
/* The scope of a batch: what is made in it ends with the batch. Local. */
TSR_API tsr_scope *tsr_batch_scope(const tsr_batch *batch);
/* Ends a batch. Programs that were started and need its memory keep it. NULL is allowed. Local. */
TSR_API void tsr_batch_release(tsr_batch *batch);

/* ---- how to place them ----------------------------------------------------------------------- */

/* What a pipeline over all devices of a runtime is best opened with. Batch sizes are records a
 * device; multiply them by device_count. */
typedef struct tsr_placement {
  int device_count;
  char kind[16], mesh[32], spec[16]; /* "cpu", "data=8", "data"; of one device "data=1" */
  /* By a table of kinds of devices, which knows no records: what it takes to be worth a step, to
   * use the device well, and to be limited by it rather than by its memory. */
  int64_t least, best, critical;
  /* Of this source on this machine: the smallest batch, of powers of two up to 1024, that is filled
   * within a tenth of the shortest time a record; 0: no source was given, or it could not be
   * read. */
  int64_t measured;
  int64_t bytes; /* of device memory that `measured` (else `best`) records take; 0: no source */
} tsr_placement;

/* Recommends a mesh, a spec and batch sizes; with a source it reads some thousand records and takes
 * some milliseconds. NULL: no source. Errors are left to those who open pipelines. Local. */
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
/* The first `count` records, as tsr_source_slice takes them. */
#define tsr_source_take(source, count) \
  tsr_source_slice_at((source), TSR_RANGE(0, (count)), TSR_HERE)
/* The records behind the first `count`, as tsr_source_slice takes them. */
#define tsr_source_skip(source, count) \
  tsr_source_slice_at((source), TSR_RANGE((count), TSR_END), TSR_HERE)
/* tsr_source_gather(source, places, 100) */
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
