/* The files of a source, and where the records lie in them.
 *
 *   file 0 | r0 | r1 | r2 |   file 1 | r3 | r4 |        first record of each: 0, 3, 5
 *   marks    m0   m1   m2  m3          m4   m5   m6     numbers a format keeps of its records
 *
 * A format walks along a file once, in order, and leaves marks (and texts where it needs names);
 * from then on its records are read at known places by several threads at once, as long as the file
 * is the one that was walked along. What a walk found can be kept beside the file, as FILE.tsridx,
 * and is used again as long as the file has the size and the time it had then. A packed file comes
 * in order only, so it is unpacked into memory and read there; so is text that is not in bytes. */
#ifndef TSR_PIPELINE_RECORD_FILES_H
#define TSR_PIPELINE_RECORD_FILES_H

#include "io/file/files.h"
#include "io/file/known_files.h"
#include "pipeline/records.h"

typedef struct tsr__record_file {
  const char *path;    /* the list's */
  tsr__kept_file kept; /* which file it is */
  int64_t size;
  int64_t first;        /* its first record */
  size_t mark;          /* its first mark */
  size_t text;          /* where its texts begin */
  tsr__loaded unpacked; /* of one that is packed: its bytes, of which `size` and all places are */
} tsr__record_file;

typedef struct tsr__record_files {
  tsr_runtime *rt;
  tsr__paths paths;
  int count;
  tsr__record_file *file; /* [count + 1]: the last one is the end of the others */
  int64_t *marks;
  size_t mark_count, mark_room;
  tsr__text texts;
  int64_t longest; /* what the format says of its largest record */
} tsr__record_files;

enum { TSR__WINDOW = 1 << 18 }; /* bytes of a file that a walk sees at once, at least */

/* A file that is walked along. */
typedef struct tsr__file_walk {
  tsr__record_files *files;
  tsr__record_file *file;
  void *user; /* of who asks */
  tsr__progress progress;
  int64_t records, longest; /* of this file, so far */
  int fd;
  int64_t from, held; /* where the window begins, and its bytes */
  unsigned char *window;
} tsr__file_walk;

enum { TSR__FILE_HEAD = 16 }; /* first bytes of a file, zeros where it has fewer */
typedef struct tsr__file_format {
  const char *kind; /* "lines": in indexes that are kept, and to the progress callback */
  tsr_status (*walk)(tsr__file_walk *walk, tsr__error *error);
  /* Whether marks and texts that were kept fit the file; whoever reads relies on them. */
  bool (*fits)(const tsr__file_walk *walk);
  enum {
    TSR__NEVER_PACKED,
    TSR__PACKED_BY_HEAD, /* gzip and zstd, seen by their first bytes, are held unpacked in memory */
    TSR__PACKED_IF_WHOLE /* records of any bytes: those that unpack to their end, checksums and all,
                          * or whose name says that they are packed */
  } packed;
  /* Whether first bytes that could be those of a packed file are the format's own; NULL: never. */
  bool (*is_plain)(const unsigned char *head);
  const char *text; /* of formats of text: what is expected where something else is found */
} tsr__file_format;

typedef struct tsr__record_files_ask {
  tsr_scope *scope;
  const char *call;
  const char *path; /* a file's, or a pattern */
  const tsr__file_format *format;
  bool index;           /* kept beside each file */
  void *user;           /* of the format's walk */
  int64_t unpack_limit; /* as the readers of frames have it */
} tsr__record_files_ask;

/* Finds, opens and walks along files. `out` is to be closed in any case. */
tsr_status tsr__record_files_open(tsr__record_files *out, const tsr__record_files_ask *ask,
                                  tsr__error *error);
void tsr__record_files_close(tsr__record_files *files);
/* All records of all files. */
int64_t tsr__record_files_total(const tsr__record_files *files);
/* The file that holds a record. */
int tsr__record_files_find(const tsr__record_files *files, int64_t record);
/* Tells a source whose records are those of the files where each file begins. */
tsr_status tsr__record_files_tell(const tsr__record_files *files, tsr_source *source,
                                  tsr__error *error);
/* The marks of a file. */
const int64_t *tsr__record_marks(const tsr__record_files *files, int file);

typedef struct tsr__record_place {
  int file;
  int64_t at, bytes;
} tsr__record_place;
/* Reads bytes of a file, all of them; the error names the byte, who calls adds file and record. */
tsr_status tsr__record_files_read(const tsr__record_files *files, tsr__record_place place, void *to,
                                  tsr__error *error);
/* The error of a record: "FILE: record 3 at byte 60: " and the cause. */
tsr_status tsr__record_failed(const tsr__record_files *files, int64_t record,
                              const tsr__error *cause, tsr__error *error);
/* As tsr__records_ops.where: "train.tfrecord, record 3 at byte 60". */
void tsr__record_files_where(const tsr__record_files *files, int64_t record, int64_t byte,
                             tsr__text *out);
/* "3 files, 0123456789abcdef": of their names in order, their sizes and their marks. */
void tsr__record_files_about(const tsr__record_files *files, tsr__text *out);

/* Records that lie one behind the other: a mark where each begins, and one where the last ends. */
tsr__record_place tsr__record_place_of(const tsr__record_files *files, int64_t record);
/* A record of such files that was read, and the row that it goes to. */
typedef struct tsr__record_row {
  const tsr_source *source;
  const tsr__ask_rows *ask;
  int64_t i;      /* of the question */
  const char *at; /* all up to the next record */
  int64_t bytes;
  char *spare; /* as many bytes; of formats that ask for it */
} tsr__record_row;
typedef struct tsr__record_taker {
  tsr_status (*take)(const tsr__record_row *row, tsr__error *error);
  bool spares;
} tsr__record_taker;
/* Reads what a question asks for and has each record taken. Neighbours in a question and in a file
 * are one reading, of a window's bytes at most, unless it is one record. */
tsr_status tsr__record_rows_read(const tsr__record_files *files, const tsr_source *source,
                                 const tsr__ask_rows *ask, const tsr__record_taker *taker,
                                 tsr__error *error);
/* Whether a file's marks are such. */
bool tsr__record_places_fit(const tsr__file_walk *walk);

/* At least `need` bytes (at most TSR__WINDOW) at a place of the file that has as many there; NULL
 * with the error set. `have` is how many there are in the window. */
const unsigned char *tsr__walk_look(tsr__file_walk *walk, int64_t at, int64_t need, int64_t *have,
                                    tsr__error *error);
tsr_status tsr__walk_mark(tsr__file_walk *walk, int64_t mark, tsr__error *error);

/* What an index kept beside a file holds (record_index.c). False: none is there, or it is not of
 * this file. */
bool tsr__record_index_load(tsr__file_walk *walk, const tsr__file_format *format);
/* Keeps one; where it cannot be written that is told to the log, and no error. */
void tsr__record_index_save(const tsr__file_walk *walk, const tsr__file_format *format);

#endif
