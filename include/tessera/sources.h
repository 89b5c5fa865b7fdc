/* Sources of records that differ in length, and of further file formats.
 *
 * Values that differ in length (a line, the bytes of an image) are ragged fields: dense fields of
 * the longest length, padded with zeros, with the true length of each record beside them in the i64
 * field NAME_length. So batches have one shape, and stages that need the lengths have them. */
#ifndef TESSERA_SOURCES_H
#define TESSERA_SOURCES_H

#include "pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A ragged field in the program's memory. Record i has the elements from offsets[i] to offsets[i +
 * 1] of data, one after the other, in C order, bool as bytes. */
typedef struct tsr_ragged_field {
  const char *name; /* any text but an empty one; copied */
  tsr_dtype dtype;
  tsr_shape shape; /* of one element */
  const void *data;
  const int64_t *offsets; /* one more than the number of records */
} tsr_ragged_field;

/* Returns a source of `count` records of ragged fields in the program's memory, borrowed until the
 * scope closes: tsr_source_ragged(s, 100, { "tokens", TSR_I32, TSR_SCALAR, tokens, offsets });
 * tsr_source_zip adds fields of fixed length. Errors: TSR_EARG (no fields, a name given twice,
 * NULLs, decreasing offsets), TSR_EDTYPE, TSR_ESHAPE. The source is owned by the scope; never NULL,
 * inert on an error. Local. */
TSR_API tsr_source *tsr_source_ragged_at(tsr_scope *scope, int64_t count,
                                         const tsr_ragged_field *fields, int field_count,
                                         const char *site);

typedef struct tsr_lines_args {
  size_t size TSR_REST_BY_NAME;
  int64_t longest;      /* most bytes of a line; 0: as many as the longest line has */
  bool cut;             /* longer lines are cut; else reading one is an error */
  bool utf8;            /* reading a line that is not UTF-8 is an error */
  bool index;           /* keeps the positions of lines beside each file, as FILE.tsridx */
  int64_t unpack_limit; /* most bytes of an unpacked file; 0: as in tsr_read_opts */
} tsr_lines_args;

/* Returns a source of the lines of a text file, or of all files of a pattern in order of their
 * names, as the ragged field "text" of u8: tsr_source_lines(s, "corpus-*.txt", .longest = 4096,
 * .cut = true). "\n" and "\r\n" end a line and do not belong to it; the last line needs no end. The
 * call unpacks gzip and zstd files into memory, converts UTF-16 and UTF-32 to UTF-8 there, and
 * refuses other formats, such as bzip2, by name. The call scans each file once for the positions of
 * its lines, 8 bytes each; lines are read when needed, and if a file changes later, reading its
 * lines fails. A kept index is used while its file has the same size and time; an index that cannot
 * be written is no error. Errors: TSR_EIO, TSR_EARG, TSR_ENOMEM (.unpack_limit), TSR_EUNSUPPORTED,
 * TSR_ECANCELLED; of reading TSR_EVALUE (too long) and TSR_EPARSE (not UTF-8), with file, record
 * and byte. The source is owned by the scope; never NULL, inert on an error. Local. */
TSR_API tsr_source *tsr_source_lines_with(tsr_scope *scope, const char *path,
                                          const tsr_lines_args *args, const char *site);

typedef struct tsr_json_args {
  size_t size TSR_REST_BY_NAME;
  /* Members by name: numbers (true and false as bool) without dims, or nested lists of the shape's
   * dims; a text is a list of u8, its bytes in UTF-8. "meta.label" is the member of that name, else
   * label of the object meta. */
  tsr_record_field fields[TSR_MAX_FIELDS];
  /* Fields with any number of values, "text,tokens", up to the first dim of their shape. Each is a
   * ragged field. */
  const char *ragged;
  /* zeros for a member that is missing or null, ragged fields of length 0; else reading it is an
   * error */
  bool defaults;
  bool cut;             /* longer values of ragged fields are cut; else reading them is an error */
  bool index;           /* keeps the positions of lines beside each file, as FILE.tsridx */
  int64_t unpack_limit; /* most bytes of an unpacked file; 0: as in tsr_read_opts */
} tsr_json_args;

/* Returns a source of JSON lines, one object a line, in a file or in all files of a pattern in
 * order of their names: tsr_source_json(s, "train-*.jsonl", .ragged = "text", .fields = { { "text",
 * TSR_U8, TSR_SHAPE(4096) }, { "label", TSR_I32, TSR_SCALAR } }). Objects follow RFC 8259; blank
 * lines and other members are skipped. Packed files and UTF-16 are read as in tsr_source_lines. The
 * call scans other files once for the positions of their lines, 8 bytes each, and objects are
 * parsed when needed, so a file may be larger than memory (tsr_frame_read_json reads a whole file
 * and infers types). With .defaults the call reads lines until each field was found, mostly in the
 * first line. Errors: TSR_EIO, TSR_EARG (with .defaults also for a field that no line has),
 * TSR_EDTYPE, TSR_ESHAPE, TSR_ENOMEM (.unpack_limit), TSR_EUNSUPPORTED, TSR_ECANCELLED; of reading,
 * with file, record and byte, TSR_EPARSE (no object, not UTF-8, a name given twice) and TSR_EVALUE
 * (a member that is missing, does not fit or has another number of values). The source is owned by
 * the scope; never NULL, inert on an error. Local. */
TSR_API tsr_source *tsr_source_json_with(tsr_scope *scope, const char *path,
                                         const tsr_json_args *args, const char *site);

typedef struct tsr_tar_args {
  size_t size TSR_REST_BY_NAME;
  /* Members by ending, in any letter case: "jpg", "cls", "seg_png" for .seg.png, or the first of
   * several endings that a sample has, "jpg;png". A member is a ragged field of bytes (u8, with
   * rank 1 for the most bytes, with rank 0 for as many as the longest member has), a whole number
   * written as text (i64 without dims), or with the ending npy an array of that dtype and shape.
   * "__key__" of u8 is the key. Without fields the source has those of the first sample, with .cls,
   * .cls2, .id, .index and .count as numbers. */
  tsr_record_field fields[TSR_MAX_FIELDS];
  bool cut; /* longer members are cut to their field; else reading them is an error */
  /* zeros for a member that a sample lacks, ragged fields of length 0; else an error */
  bool defaults;
  bool skip;            /* leaves out samples that lack a member */
  bool index;           /* keeps the positions of members beside each file, as FILE.tsridx */
  int64_t unpack_limit; /* most bytes of an unpacked file; 0: as in tsr_read_opts */
} tsr_tar_args;

/* Returns a source of the samples of a tar archive, or of all archives of a pattern in order of
 * their names, in the form of WebDataset: tsr_source_tar(s, "train-*.tar", .fields = { { "jpg",
 * TSR_U8, TSR_SCALAR }, { "cls", TSR_I64, TSR_SCALAR } }). Neighbouring members with the same key
 * are a sample. The key is the path up to the first dot of the base name, and the rest is the
 * member's ending. The call reads ustar, pax and GNU archives, and unpacks gzip and zstd files into
 * memory. The call scans each archive once for the positions of its members; records are read when
 * needed, in any order, and if a file changes later, reading its records fails. Errors: TSR_EIO,
 * TSR_EPARSE (damaged, truncated, a missing member, with file, member and byte), TSR_EUNSUPPORTED
 * (sparse files), TSR_EARG (also for an ending that no sample has), TSR_EDTYPE, TSR_ESHAPE,
 * TSR_ENOMEM (.unpack_limit), TSR_ECANCELLED. The source is owned by the scope; never NULL, inert
 * on an error. Local. */
TSR_API tsr_source *tsr_source_tar_with(tsr_scope *scope, const char *path,
                                        const tsr_tar_args *args, const char *site);

typedef struct tsr_folder_args {
  size_t size TSR_REST_BY_NAME;
  const char *endings; /* files to read, "jpg,png" or "jpg;png"; NULL: "jpeg,jpg,png" */
  int64_t longest;     /* most bytes of a file; 0: as many as the longest file has */
  bool cut;            /* longer files are cut; else reading one is an error */
  bool names;          /* adds the ragged field "name": the path below the folder */
} tsr_folder_args;

/* Returns a source of the files in a folder of classes: tsr_source_folder(s, "train"). The ragged
 * field "image" of u8 has the bytes of a file, and "label" of i64 the number of its class. Classes
 * are the subfolders, in order of their names. Files may be at any depth below their class and come
 * in order of their paths, on any system. Names that begin with a dot are left out. Links are
 * followed; a broken link is a file that cannot be read. Errors: TSR_EIO, TSR_EARG (no classes, or
 * no file with these endings), TSR_ECANCELLED; of reading TSR_EVALUE (too long). The source is
 * owned by the scope; never NULL, inert on an error. Local. */
TSR_API tsr_source *tsr_source_folder_with(tsr_scope *scope, const char *path,
                                           const tsr_folder_args *args, const char *site);
/* Returns the number of classes of the folder that holds all records of a source; 0 for other
 * sources. Local. */
TSR_API int64_t tsr_source_class_count(const tsr_source *source);
/* Returns the name of a class, which lives as long as the folder's source; NULL for a label out of
 * range. Local. */
TSR_API const char *tsr_source_class_name(const tsr_source *source, int64_t label);

/* Returns a source of the arrays of a safetensors file. Each array is a field of its name ('_' for
 * characters other than letters, digits, '_' and '-'), and each element of dim 0, which all arrays
 * share, is a record. A pattern reads all files in order of their names; all have the same arrays.
 * `names`, "image,label", selects and renames arrays as in tsr_source_select; NULL: all. Records
 * are read when needed. Errors: TSR_EIO, TSR_EPARSE, TSR_EDTYPE, TSR_ESHAPE, TSR_EARG. The source
 * is owned by the scope; never NULL, inert on an error. Local. */
TSR_API tsr_source *tsr_source_safetensors_at(tsr_scope *scope, const char *path, const char *names,
                                              const char *site);

/* Fills the fields of the next record, in the order of .fields, or sets *ended after the last one.
 * Any status but TSR_OK ends the pipeline with that status. One thread at a time calls it. */
typedef tsr_status tsr_stream_fn(void *const *out, bool *ended, void *user);
/* Starts an epoch: the next record is its first. Called before each epoch that is read. */
typedef tsr_status tsr_stream_begin(int64_t epoch, void *user);

typedef struct tsr_stream_args {
  size_t size TSR_REST_BY_NAME;
  tsr_stream_fn *fn;
  tsr_stream_begin *begin;                 /* NULL: the stream can be read once */
  void *user;                              /* borrowed until the scope closes */
  tsr_record_field fields[TSR_MAX_FIELDS]; /* up to the first field without a name */
  const char *name;                        /* in messages and states, copied; NULL: "stream" */
} tsr_stream_args;

/* Returns a source of records that come in order only, until the stream ends: tsr_source_stream(s,
 * .fn = next, .fields = { { "x", TSR_F32, TSR_SHAPE(3) } }). The number of records is not known, so
 * tsr_source_count and tsr_pipeline_batch_count return -1. Only tsr_source_map and
 * tsr_source_select take a stream; other stages read by position, and TSR_WRAP is not possible. A
 * pipeline reads the stream ahead, a batch at a time. A state has the epoch and the number of
 * batches; to resume, a pipeline begins the epoch again and drops that many batches. One pipeline
 * at a time reads a stream, and a stream without .begin is read once. On a mesh of several
 * processes each process calls its own functions, which must give the same records. Errors:
 * TSR_EARG, TSR_EDTYPE, TSR_ESHAPE. The source is owned by the scope. Local. */
TSR_API tsr_source *tsr_source_stream_with(tsr_scope *scope, const tsr_stream_args *args,
                                           const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#define tsr_source_ragged(scope, count, ...)                                        \
  tsr_source_ragged_at((scope), (count), (const tsr_ragged_field[]){ __VA_ARGS__ }, \
                       (int)(sizeof((const tsr_ragged_field[]){ __VA_ARGS__ }) /    \
                             sizeof(tsr_ragged_field)),                             \
                       TSR_HERE)
/* tsr_source_lines(s, "x.txt", .longest = 80) */
#define tsr_source_lines(...) \
  TSR_NEEDS_2_("tsr_source_lines(scope, path)", TSR_SOURCE_LINES_, __VA_ARGS__)
#define TSR_SOURCE_LINES_(scope, path, ...)                                               \
  tsr_source_lines_with((scope), (path),                                                  \
                        &(tsr_lines_args){ .size = sizeof(tsr_lines_args), __VA_ARGS__ }, \
                        TSR_HERE)
/* tsr_source_json(s, "x.jsonl", .fields = { ... }) */
#define tsr_source_json(...) \
  TSR_NEEDS_2_("tsr_source_json(scope, path)", TSR_SOURCE_JSON_, __VA_ARGS__)
#define TSR_SOURCE_JSON_(scope, path, ...) \
  tsr_source_json_with((scope), (path),    \
                       &(tsr_json_args){ .size = sizeof(tsr_json_args), __VA_ARGS__ }, TSR_HERE)
/* tsr_source_tar(s, "x.tar", .index = true) */
#define tsr_source_tar(...) \
  TSR_NEEDS_2_("tsr_source_tar(scope, path)", TSR_SOURCE_TAR_, __VA_ARGS__)
#define TSR_SOURCE_TAR_(scope, path, ...) \
  tsr_source_tar_with((scope), (path),    \
                      &(tsr_tar_args){ .size = sizeof(tsr_tar_args), __VA_ARGS__ }, TSR_HERE)
/* tsr_source_folder(s, "train", .names = true) */
#define tsr_source_folder(...) \
  TSR_NEEDS_2_("tsr_source_folder(scope, path)", TSR_SOURCE_FOLDER_, __VA_ARGS__)
#define TSR_SOURCE_FOLDER_(scope, path, ...)                                                 \
  tsr_source_folder_with((scope), (path),                                                    \
                         &(tsr_folder_args){ .size = sizeof(tsr_folder_args), __VA_ARGS__ }, \
                         TSR_HERE)
#define tsr_source_safetensors(scope, path, names) \
  tsr_source_safetensors_at((scope), (path), (names), TSR_HERE)
/* tsr_source_stream(s, .fn = next, .fields = { ... }) */
#define tsr_source_stream(...) TSR_SOURCE_STREAM_(__VA_ARGS__, )
#define TSR_SOURCE_STREAM_(scope, ...)                                                       \
  tsr_source_stream_with((scope),                                                            \
                         &(tsr_stream_args){ .size = sizeof(tsr_stream_args), __VA_ARGS__ }, \
                         TSR_HERE)
#endif

#endif
