/* Level 8: steps of a checkpoint on disk.
 *
 *   checkpoint.c, restore_calls.c    the public calls
 *   catalog.c      what a step has: entries, pieces, files; checked as a whole
 *   catalog_write.c, catalog_read.c    as text, tessera.json
 *   saving.c       which pieces this process writes, and writing them
 *   commit.c       processes agree, one writes the catalog
 *   lock.c         one save at a time in a folder
 *   background.c   saves that go on while the program does
 *   step_folder.c  folders and files: made, found, forced to the disk, deleted
 *   restore.c      reading what is needed
 *   frame_parts.c, frame_again.c    columns of frames, there and back
 *
 *   tree -> entries -> pieces (boxes, at most PIECE_MOST bytes) -> files, in blocks of a megabyte
 *
 * Invariant: of a step that has its catalog every byte that the catalog names is on the disk. */
#ifndef TSR_CHECKPOINT_ROOM_H
#define TSR_CHECKPOINT_ROOM_H

#include "comm/comm.h"
#include "execute/execute.h"
#include "io/file/crc32c.h"
#include "io/text/dict.h"
#include "tessera/checkpoint.h"
#include "topology/topology.h"

#define TSR__CATALOG "tessera.json"
#define TSR__LOCK "tessera.lock"     /* beside the steps, while one is saved */
#define TSR__CHECKPOINT "checkpoint" /* what the progress callback is told of */
enum {
  TSR__CATALOG_VERSION = 1,
  TSR__CHECKPOINT_BLOCK = 1 << 20, /* bytes that have one checksum */
  TSR__CHECKPOINT_PATH = 4096
};

/* ---- catalogs (catalog.c) -------------------------------------------------------------------- */

/* A dense box of an entry's elements, in C order, in one file; bools take a byte each. Its blocks
 * begin where it begins. */
typedef struct tsr__extent {
  int file;
  int64_t at, bytes; /* in the file */
  tsr_box box;
  int64_t sum; /* of its first block, in the catalog's sums */
} tsr__extent;

typedef struct tsr__listed {
  uint8_t kind; /* tsr_saved_kind */
  uint8_t dtype;
  tsr_shape shape;
  const char *name, *mesh, *spec; /* the last two "" where it lay on no mesh */
  const char *type;               /* of what was read: "f32[8,4]@(x,-)" */
  int64_t first, count;           /* pieces */
} tsr__listed;

typedef struct tsr__data_file {
  const char *name; /* in the step's folder */
  int64_t bytes, header;
  uint32_t sum; /* of the header */
} tsr__data_file;

/* What a step has. Lists grow on the heap, texts lie in the arena. */
typedef struct tsr__catalog {
  tsr__heap *heap;
  tsr__arena arena;
  int64_t step;
  const char *form; /* of the tree; "": none */
  tsr__listed *entry;
  tsr__data_file *file;
  tsr__extent *piece; /* by entry */
  uint32_t *sum;      /* by piece */
  size_t entries, files, pieces, sums;
  size_t entry_room, file_room, piece_room, sum_room;
} tsr__catalog;

void tsr__catalog_init(tsr__catalog *catalog, tsr__heap *heap);
void tsr__catalog_free(tsr__catalog *catalog);
/* Each adds a zeroed one at the end; NULL out of memory. */
tsr__listed *tsr__catalog_entry(tsr__catalog *catalog);
tsr__data_file *tsr__catalog_file(tsr__catalog *catalog);
/* With room for the sums of `bytes`. */
tsr__extent *tsr__catalog_piece(tsr__catalog *catalog, int64_t bytes);
int64_t tsr__block_count(int64_t bytes);
/* "array", "blob", "column"; "" of no kind. */
const char *tsr__kind_name(int kind);
/* The entry of a name; NULL: none. `hint` (NULL: none) is where to look first, and then behind what
 * was found: who asks in order finds at once. */
const tsr__listed *tsr__catalog_find(const tsr__catalog *catalog, int kind, const char *name,
                                     size_t *hint);
/* Whether a catalog is one of a whole step: every entry's pieces are all of it, once, and lie in
 * their files. TSR_EPARSE. */
tsr_status tsr__catalog_check(const tsr__catalog *catalog, tsr__error *error);

/* The names of the leaves of a tree's form in order, "model.w"; for "*" it is "array". `each` may
 * end it by returning false. False: that, or it is no form. */
typedef bool tsr__leaf_fn(void *user, const char *name);
bool tsr__form_leaves(const char *form, tsr__leaf_fn *each, void *user);
/* What stands in a form at a path, "model.layer1", as a form; false: nothing does. */
bool tsr__form_at(const char *form, const char *path, const char **start, size_t *length);

/* The name that a piece has in its file: that of its entry where it is all of it, else with the
 * slices that it is, "w[0:4,2:4]". */
void tsr__piece_name(const tsr__listed *entry, const tsr__extent *piece, tsr__text *out);

/* As text (catalog_write.c), and back (catalog_read.c): TSR_EPARSE, TSR_EUNSUPPORTED, TSR_ENOMEM.
 * `part`: of one process, whose pieces are not all. */
void tsr__catalog_write(const tsr__catalog *catalog, tsr__text *out);
tsr_status tsr__catalog_read(tsr__catalog *catalog, const char *text, size_t length, bool part,
                             tsr__error *error);
/* The header of a data file, as safetensors has it, with spaces up to a multiple of 64 bytes. */
void tsr__data_header(const tsr__catalog *catalog, int file, tsr__text *out);
/* Adds what processes 1, 2 .. wrote of the same step. TSR_EPEER where one has other entries. */
tsr_status tsr__catalog_join(tsr__catalog *catalog, const tsr__catalog *others, int count,
                             tsr__error *error);

/* ---- folders (step_folder.c) ----------------------------------------------------------------- */

/* PATH/step_12, or with a name PATH/step_12/NAME; TSR_EIO where it is too long. */
typedef struct tsr__step_path {
  char at[TSR__CHECKPOINT_PATH];
} tsr__step_path;
tsr_status tsr__step_path_of(const char *path, int64_t step, const char *name, tsr__step_path *out,
                             tsr__error *error);
/* Makes a folder and has it stay where it is named; there already is fine. */
tsr_status tsr__folder_make(const char *path, tsr__error *error);
/* Forces the names in a folder to the disk. */
tsr_status tsr__folder_sync(const char *path, tsr__error *error);
/* Whether the step has its catalog; false with the error set where that cannot be seen. */
bool tsr__step_is_there(const char *path, int64_t step, tsr__error *error);
/* Finds the folder of a step: `path` itself where it has a catalog, else its newest step.
 * TSR_EIO. */
tsr_status tsr__step_find(const char *path, tsr__step_path *out, tsr__error *error);
/* Deletes data files that the step's catalog does not name, and other steps: those beyond the
 * newest `keep` (0: none), and older ones without a catalog. What cannot be deleted stays. */
void tsr__step_prune(const char *path, const tsr__catalog *catalog, int keep);

/* ---- the lock of a folder (lock.c) ----------------------------------------------------------- */

typedef struct tsr__folder_lock {
  bool held;
  int fd;
  tsr__step_path path;
  char owner[800]; /* the text in the file */
} tsr__folder_lock;
/* Takes the lock of a folder of steps, which is there. TSR_ESTATE, naming the owner, where another
 * save has it; TSR_EIO. */
tsr_status tsr__folder_lock_take(tsr_runtime *rt, const char *folder, tsr__folder_lock *lock,
                                 tsr__error *error);
/* TSR_ESTATE where somebody else has it by now. */
tsr_status tsr__folder_lock_check(const tsr__folder_lock *lock, const char *folder,
                                  tsr__error *error);
/* Gives it back where it is held. */
void tsr__folder_lock_give(tsr__folder_lock *lock);

/* ---- saving (saving.c, commit.c) ------------------------------------------------------------- */

/* Where a piece's bytes are. */
typedef struct tsr__piece_source {
  const tsr__value *value; /* elements from `first` on at a position; NULL: at `data` */
  int position;
  int64_t first;
  const void *data;
} tsr__piece_source;

/* A step under way, of this process. What it refers to is held or copied. */
typedef struct tsr__saving {
  tsr_runtime *rt;
  tsr__progress *progress; /* NULL: nobody is asked, and no other thread helps */
  char *path;              /* owned */
  int keep, process, process_count;
  bool overwrite;
  double seconds;
  tsr__catalog catalog;
  tsr__value **held;
  size_t held_room;
  int held_count;
  tsr__dict **dict; /* held */
  size_t dict_room;
  int dict_count;
  tsr__piece_source *source; /* by piece */
  size_t source_room;
  int *fd; /* by file; -1: closed */
  size_t fd_room;
  int made;              /* files that were created */
  tsr__folder_lock lock; /* process 0's, for all */
} tsr__saving;

/* Adds an array's pieces that this process writes; its value is held. TSR_ENOMEM. */
tsr_status tsr__saving_array(tsr__saving *saving, const char *name, const tsr_array *array,
                             tsr__error *error);
/* The same of bytes, which are copied. */
tsr_status tsr__saving_blob(tsr__saving *saving, const tsr_blob_item *blob, tsr__error *error);
/* The same of a frame, which is evaluated; an error of that is in its scope, `scope` mostly. */
tsr_status tsr__saving_frame(tsr__saving *saving, const tsr_frame_item *item,
                             const tsr_scope *scope, tsr__error *error);
/* Adds what this process writes of a value, which is held, to the last entry; false out of
 * memory. */
bool tsr__saving_value(tsr__saving *saving, tsr__value *value);
/* Adds a box of the last entry whose elements lie at `data`, in C order, until it is written; false
 * out of memory. */
bool tsr__saving_part(tsr__saving *saving, const tsr_box *box, const void *data);
/* Writes this process's pieces to files named by `id`, all of which is on the disk afterwards. */
tsr_status tsr__saving_write(tsr__saving *saving, const char *id, tsr__error *error);
/* Deletes what tsr__saving_write made. */
void tsr__saving_undo(tsr__saving *saving);
void tsr__saving_free(tsr__saving *saving);
/* All of it, together with the other processes. */
tsr_status tsr__saving_run(tsr__saving *saving, tsr__error *error);

/* The save of a runtime that goes on in the background, or the last one (background.c); with `make`
 * there will be one. NULL: none, or out of memory. */
typedef struct tsr__background tsr__background;
tsr__background *tsr__background_of(tsr_runtime *rt, bool make);
/* Waits until none goes on; an error that nobody was told of yet is told. NULL is allowed. */
tsr_status tsr__background_wait(tsr__background *background, tsr__error *error);
/* The same for who does not ask how it went: an error stays to be told. */
tsr_status tsr__background_settle(tsr__background *background, tsr__error *error);
/* Takes a save over and begins it; false: it could not, and the save is the caller's as before. */
bool tsr__background_start(tsr__background *background, const tsr__saving *saving);

/* A meeting of all processes at which each says how it went, `error`, and something more. The first
 * that failed is the error of all. `*met` becomes true where they met; else it is not known what
 * others know. Alone: one's own. `all` gets what was said. */
typedef struct tsr__agreement {
  const char *name;
  double seconds;        /* 0: the default */
  const tsr__text *mine; /* NULL: nothing more */
  bool *met;
} tsr__agreement;
tsr_status tsr__agree(tsr_runtime *rt, const tsr__agreement *ask, tsr__text *all,
                      tsr__error *error);
/* What a process said there; as long as `all` lives. */
tsr__blob tsr__agreed(const tsr__text *all, int process);

/* ---- restoring (restore.c) ------------------------------------------------------------------- */

/* Tells the scope of a call of a step that is inert, or NULL, why. Returns the status. */
tsr_status tsr__step_why_inert(const tsr_saved_step *c, const char *call, const char *site);

/* Where an entry's elements are to lie; box (0, shape) and `data`, or the parts of a value. */
typedef struct tsr__restoring {
  const tsr__listed *entry;
  tsr__value *value; /* NULL: all of it to `data` */
  void *data;
} tsr__restoring;

/* Reads entries of a step. TSR_EIO, TSR_EPARSE (a checksum), TSR_ENOMEM, TSR_ECANCELLED. `read`,
 * where it is given, counts bytes of files. */
typedef struct tsr__restore_ask {
  tsr_runtime *rt;
  const tsr__catalog *catalog;
  const char *folder; /* the step's */
  bool verify;        /* whatever is asked for, all of it is read and nothing kept */
  tsr__restoring *target;
  int count;
  int64_t *read;
} tsr__restore_ask;
tsr_status tsr__restore(const tsr__restore_ask *ask, tsr__error *error);

/* ---- frames ---------------------------------------------------------------------------------- */

/* The elements that a column of a type has. */
tsr_dtype tsr__column_dtype(tsr_coltype type);
/* ---- what users hold ------------------------------------------------------------------------- */

struct tsr_saved_step {
  tsr__node node;
  tsr_runtime *rt;
  bool inert;
  tsr__catalog catalog;
  char folder[TSR__CHECKPOINT_PATH]; /* the step's */
};

#endif
