/* Sources whose records differ in length, and further formats of files.
 *
 * Values that differ in length (a line, the bytes of an image) are ragged fields: dense ones of the
 * longest length with zeros behind what a record has, and its true length beside them as the i64
 * field NAME_length. So batches have one shape, and what needs the lengths has them. */
#ifndef TESSERA_SOURCES_H
#define TESSERA_SOURCES_H

#include "pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A ragged field in the program's memory: record i has the elements from offsets[i] to offsets[i +
 * 1] of data, one after the other, in C order, bool as bytes. */
typedef struct tsr_ragged_field {
  const char *name; /* any but an empty one; copied */
  tsr_dtype dtype;
  tsr_shape shape; /* of one element */
  const void *data;
  const int64_t *offsets; /* one more than there are records */
} tsr_ragged_field;

/* `count` records of ragged fields in the program's memory, borrowed until the scope closes:
 * tsr_source_ragged(s, 100, { "tokens", TSR_I32, TSR_SCALAR, tokens, offsets }); tsr_source_zip
 * puts fields of one length beside them. Errors: TSR_EARG (no fields, a name twice, NULLs, offsets
 * that fall), TSR_EDTYPE, TSR_ESHAPE. Returns a source owned by the scope; never NULL, inert on an
 * error. Local. */
TSR_API tsr_source *tsr_source_ragged_at(tsr_scope *scope, int64_t count,
                                         const tsr_ragged_field *fields, int field_count,
                                         const char *site);

typedef struct tsr_lines_args {
  size_t size TSR_REST_BY_NAME;
  int64_t longest;      /* bytes of a line at most; 0: as many as the longest one has */
  bool cut;             /* longer lines are cut; else reading one is an error */
  bool utf8;            /* reading a line that is not UTF-8 is an error */
  bool index;           /* where lines begin is kept beside each file, as FILE.tsridx */
  int64_t unpack_limit; /* bytes that a packed file may unpack to; 0: as in tsr_read_opts */
} tsr_lines_args;

/* The lines of a text file, or of all files of a pattern in order of their names, as the ragged
 * field "text" of u8: tsr_source_lines(s, "corpus-*.txt", .longest = 4096, .cut = true). "\n" and
 * "\r\n" end a line and are no part of it, and a last line needs no end. Files that gzip or zstd
 * packed are unpacked into memory, and those in UTF-16 or UTF-32 are brought to UTF-8 there; other
 * formats, as bzip2, are refused by name. The files are walked along once, for the places of their
 * lines, 8 bytes each; lines are read when they are needed, and a file that changed since is an
 * error of reading. An index that is kept is used as long as its file has the size and the time it
 * had; where it cannot be written that is no error. Errors: TSR_EIO, TSR_EARG, TSR_ENOMEM
 * (.unpack_limit), TSR_EUNSUPPORTED, TSR_ECANCELLED; of reading TSR_EVALUE (too long) and
 * TSR_EPARSE (not UTF-8), with file, record and byte. Returns a source owned by the scope; never
 * NULL, inert on an error. Local. */
TSR_API tsr_source *tsr_source_lines_with(tsr_scope *scope, const char *path,
                                          const tsr_lines_args *args, const char *site);

typedef struct tsr_json_args {
  size_t size TSR_REST_BY_NAME;
  /* Members by name: numbers (true and false of bool) without dims, lists of lists of the shape's
   * dims; the bytes of a text in UTF-8 are a list of u8. "meta.label" is the member of that name,
   * or else label of the object meta. */
  tsr_record_field fields[TSR_MAX_FIELDS];
  /* Fields that have any number of values, "text,tokens", up to the first dim of their shape: a
   * ragged field each. */
  const char *ragged;
  bool defaults; /* zeros where an object lacks a member or has null, ragged ones of length 0; else
                  * reading it is an error */
  bool cut;      /* more values than a ragged field holds are cut; else reading them is an error */
  bool index;    /* where lines begin is kept beside each file, as FILE.tsridx */
  int64_t unpack_limit; /* bytes that a packed file may unpack to; 0: as in tsr_read_opts */
} tsr_json_args;

/* JSON lines, an object a line, in a file or in all files of a pattern in order of their names,
 * read by position: tsr_source_json(s, "train-*.jsonl", .ragged = "text", .fields = { { "text",
 * TSR_U8, TSR_SHAPE(4096) }, { "label", TSR_I32, TSR_SCALAR } }). Lines are objects by RFC 8259;
 * blank ones are left out, other members are not looked at. Files that are packed or in UTF-16 are
 * as in tsr_source_lines, others are walked along once, for the places of their lines, 8 bytes
 * each, and objects are parsed when they are needed, so that a file may be larger than memory
 * (tsr_frame_read_json reads it whole, and finds out types). With .defaults lines are looked into
 * until each field was met, which mostly is the first one. Errors: TSR_EIO, TSR_EARG (also for a
 * field that no line has, with .defaults), TSR_EDTYPE, TSR_ESHAPE, TSR_ENOMEM (.unpack_limit),
 * TSR_EUNSUPPORTED, TSR_ECANCELLED; of reading, with file, record and byte, TSR_EPARSE (no object,
 * not UTF-8, a name twice) and TSR_EVALUE (a member that lacks, does not fit or has another number
 * of values). Returns a source owned by the scope; never NULL, inert on an error. Local. */
TSR_API tsr_source *tsr_source_json_with(tsr_scope *scope, const char *path,
                                         const tsr_json_args *args, const char *site);

typedef struct tsr_tar_args {
  size_t size TSR_REST_BY_NAME;
  /* Members by ending, whatever the size of its letters, "jpg", "cls", "seg_png" for .seg.png, or
   * the first of several that a sample has, "jpg;png": u8 for bytes, a ragged field, of rank 1 for
   * at most so many and of none for as many as the longest has; i64 without dims for whole numbers
   * written as text; and with the ending npy an array's dtype and shape. "__key__" of u8 is the
   * key. None: those of the first sample, .cls, .cls2, .id, .index and .count as numbers. */
  tsr_record_field fields[TSR_MAX_FIELDS];
  bool cut;      /* more bytes than a field has room for are cut; else reading them is an error */
  bool defaults; /* zeros where a sample lacks a member, ragged ones of length 0; else an error */
  bool skip;     /* samples that lack a member are left out */
  bool index;    /* where members lie is kept beside each file, as FILE.tsridx */
  int64_t unpack_limit; /* bytes that a packed file may unpack to; 0: as in tsr_read_opts */
} tsr_tar_args;

/* The samples of a tar archive, or of all archives of a pattern in order of their names (those that
 * gzip or zstd packed are unpacked into memory), as WebDataset writes them: tsr_source_tar(s,
 * "train-*.tar", .fields = { { "jpg", TSR_U8, TSR_SCALAR }, { "cls", TSR_I64, TSR_SCALAR } }).
 * Neighbours with the same key, the path up to the first dot of the base name, are a sample, and
 * what stands behind that dot tells its members apart. ustar, pax and GNU archives are read. They
 * are walked along once, for the places of their members; records are read when they are needed, in
 * any order, and a file that changed since is an error of reading. Errors: TSR_EIO, TSR_EPARSE
 * (damaged, cut off, a member that lacks, with file, member and byte), TSR_EUNSUPPORTED (sparse),
 * TSR_EARG (also for an ending that no sample has), TSR_EDTYPE, TSR_ESHAPE, TSR_ENOMEM
 * (.unpack_limit), TSR_ECANCELLED. Returns a source owned by the scope; never NULL, inert on an
 * error. Local. */
TSR_API tsr_source *tsr_source_tar_with(tsr_scope *scope, const char *path,
                                        const tsr_tar_args *args, const char *site);

typedef struct tsr_folder_args {
  size_t size TSR_REST_BY_NAME;
  const char *endings; /* of the files to read, "jpg,png" or "jpg;png"; NULL: "jpeg,jpg,png" */
  int64_t longest;     /* bytes of a file at most; 0: as many as the longest one has */
  bool cut;            /* longer files are cut; else reading one is an error */
  bool names;          /* the ragged field "name": the path below the folder */
} tsr_folder_args;

/* Files in folders that are their classes, tsr_source_folder(s, "train"): the ragged field "image"
 * of u8 has the bytes of a file as they are, "label" of i64 the number of its class. Classes are
 * the folders directly below, in order of their names; files lie anywhere below their class and
 * come in order of their paths, whatever the system lists first; names that begin with a dot are
 * left out, links are followed, and one that leads nowhere is a file that cannot be read. Errors:
 * TSR_EIO, TSR_EARG (no classes, or no file of these endings), TSR_ECANCELLED; of reading
 * TSR_EVALUE (too long). Returns a source owned by the scope; never NULL, inert on an error.
 * Local. */
TSR_API tsr_source *tsr_source_folder_with(tsr_scope *scope, const char *path,
                                           const tsr_folder_args *args, const char *site);
/* How many classes the folder has that all records of a source lie in; 0 of another one. Local. */
TSR_API int64_t tsr_source_class_count(const tsr_source *source);
/* The name of a class; NULL outside. Lives as long as the folder's source. Local. */
TSR_API const char *tsr_source_class_name(const tsr_source *source, int64_t label);

/* The arrays of a safetensors file as fields of their names ('_' for characters other than letters,
 * digits, '_' and '-'), a record each element of their first dim, which they must have in common;
 * of a pattern all files in order of their names, which must have the same arrays. `names`,
 * "image,label", are those to read, as in tsr_source_select, and fields are called so; NULL: all.
 * Records are read when they are needed. Errors: TSR_EIO, TSR_EPARSE, TSR_EDTYPE, TSR_ESHAPE,
 * TSR_EARG. Returns a source owned by the scope; never NULL, inert on an error. Local. */
TSR_API tsr_source *tsr_source_safetensors_at(tsr_scope *scope, const char *path, const char *names,
                                              const char *site);

/* Fills the fields of the next record, in the order of .fields, or sets *ended where there is none;
 * another status than TSR_OK ends the pipeline with it. One thread at a time calls it. */
typedef tsr_status tsr_stream_fn(void *const *out, bool *ended, void *user);
/* Called before the first record of each epoch that is read: the next one is its first. */
typedef tsr_status tsr_stream_begin(int64_t epoch, void *user);

typedef struct tsr_stream_args {
  size_t size TSR_REST_BY_NAME;
  tsr_stream_fn *fn;
  tsr_stream_begin *begin;                 /* NULL: the stream comes once */
  void *user;                              /* borrowed until the scope closes */
  tsr_record_field fields[TSR_MAX_FIELDS]; /* up to the first without a name */
  const char *name;                        /* in messages and states, copied; NULL: "stream" */
} tsr_stream_args;

/* Records that come in order only, until there are no more: tsr_source_stream(s, .fn = next,
 * .fields = { { "x", TSR_F32, TSR_SHAPE(3) } }). How many there are is not known, tsr_source_count
 * and tsr_pipeline_batch_count say -1; of what takes records by position only tsr_source_map and
 * tsr_source_select stand over one, and TSR_WRAP is none of its remainders. A pipeline reads it a
 * batch at a time, ahead; a state keeps how many batches of which epoch came, and who goes on with
 * it begins the epoch again and drops as many. One pipeline at a time reads a stream, and one
 * without .begin is read once. On a mesh over processes each calls its own, which must give the
 * same. Errors: TSR_EARG, TSR_EDTYPE, TSR_ESHAPE. Returns a source owned by the scope. Local. */
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
