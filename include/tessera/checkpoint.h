/* Checkpoints: trees of arrays (tree.h), frames and bytes of the user's own in a folder, a step
 * each.
 *
 *   tsr_checkpoint_save(s, "ckpt", tsr_tree(s, { "model", model }, { "adam", kept }), .step = 12,
 *                       .keep = 3);
 *   ...
 *   tsr_saved_step *c = tsr_checkpoint_open(s, "ckpt");    the newest step
 *   tsr_array *all = tsr_checkpoint_restore(c, like);      on any mesh, in any number of processes
 *
 * A step is a folder, step_12, with data files and tessera.json, which says what lies where and has
 * a checksum of each megabyte. That file is written last, forced to the disk and renamed: a step
 * without it is none, and nobody takes it for one, whenever the program was killed or the power
 * failed. Data files are in the format safetensors, so other tools read them; the guide's page of
 * checkpoints has the format.
 *
 * One save at a time writes into a folder: it holds the folder's lock, tessera.lock, which names
 * its process. Another one, of whatever job, fails then. What a save that was killed has left of it
 * is no lock.
 *
 * Each part of an array is written once, by the processes that hold it, a share each, and read by
 * whoever needs some of it: as much as is needed, in whole megabytes. */
#ifndef TESSERA_CHECKPOINT_H
#define TESSERA_CHECKPOINT_H

#include "frame.h"
#include "process.h"
#include "tree.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes under a name (letters, digits, "_", "-", "." and "/"). */
typedef struct tsr_blob_item {
  const char *name;
  const void *data;
  size_t length;
} tsr_blob_item;

/* A frame under a name of such characters. */
typedef struct tsr_frame_item {
  const char *name;
  tsr_frame *frame;
} tsr_frame_item;

enum { TSR_MAX_SAVED = 16 };

/* Options of tsr_checkpoint_save. Zero means default. */
typedef struct tsr_save_opts {
  size_t size TSR_REST_BY_NAME;
  int64_t step;    /* its number, from 0 on; the folder is PATH/step_NUMBER */
  int keep;        /* how many of the newest steps stay, this one included; 0 = all */
  bool overwrite;  /* a step that is there is replaced, instead of an error */
  bool background; /* return when all is evaluated; a thread writes it while the program goes on */
  tsr_frame_item frames[TSR_MAX_SAVED]; /* up to the first without a name; evaluated */
  tsr_blob_item blobs[TSR_MAX_SAVED];   /* up to the first without a name; copied */
  double timeout;                       /* seconds that processes wait for each other; 0 = 1800 */
} tsr_save_opts;

/* Evaluates the arrays of a tree (or an array; NULL: none) and writes them as a step of the folder
 * `path`, which is made where it is not there. Blobs are each process's own: of a name that several
 * give, that of the lowest counts. Of a frame each process writes the rows that it has. What
 * was there before stays until all is on the disk; after an error nothing of the step stays. Then
 * steps beyond `keep` are deleted, and what saves that were cut off left in the folder. The
 * progress callback hears of "checkpoint". A save in the background holds the arrays and tells its
 * errors at tsr_checkpoint_wait, or at the next save, which waits for it and is not begun then.
 * tsr_checkpoint_open waits for it, too, and so does closing the runtime. An error that nobody has
 * asked for by then is told at the close: to the log, or on stderr where there is none, and to
 * `tessera run`, which fails by it. Errors: TSR_EIO, TSR_ESTATE (the step is there, or another save
 * writes into the folder), TSR_EARG, TSR_ENOMEM, TSR_ECANCELLED, TSR_EPEER, and those of what is
 * evaluated. Collective, same arguments. */
TSR_API TSR_MUST_USE tsr_status tsr_checkpoint_save_with(tsr_scope *scope, const char *path,
                                                         tsr_array *tree, const tsr_save_opts *opts,
                                                         const char *site);

/* Waits for a save in the background; without one returns at once. Errors: those of the save, told
 * once, and TSR_ECANCELLED, when it goes on. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_checkpoint_wait_at(tsr_scope *scope, const char *site);

/* A step that was opened: what it has is known, nothing else was read. */
typedef struct tsr_saved_step tsr_saved_step;

/* Opens a step: the newest of a folder of steps, or that of a step's own folder. A save of this
 * runtime in the background is waited for. Returns it, owned by the scope; never NULL, inert on an
 * error. Errors: TSR_EIO, TSR_EPARSE (damaged or changed), TSR_EUNSUPPORTED (of a later version),
 * TSR_ENOMEM, TSR_ECANCELLED, TSR_EPEER. Collective, same arguments. */
TSR_API tsr_saved_step *tsr_checkpoint_open_at(tsr_scope *scope, const char *path,
                                               const char *site);

/* Returns the number of a step, -1 of an inert one. Local. */
TSR_API int64_t tsr_checkpoint_step(const tsr_saved_step *checkpoint);

/* Returns the form of the tree that was saved, as tsr_tree_text; "" where there is none, also of an
 * inert step. Owned by the checkpoint. Local. */
TSR_API const char *tsr_checkpoint_form(const tsr_saved_step *checkpoint);

/* What an entry of a step is. */
typedef enum tsr_saved_kind {
  TSR_SAVED_ARRAY = 1,
  TSR_SAVED_BLOB,
  TSR_SAVED_COLUMN /* something of a column of a frame, "FRAME:values:COLUMN" */
} tsr_saved_kind;

/* An entry of a step; texts are owned by the checkpoint. */
typedef struct tsr_saved_entry {
  tsr_saved_kind kind;
  const char *name; /* an array's path in its tree, "model.w"; "array" where no tree was saved */
  const char *type; /* "f32[1024,32]@(data,-)", as it lay; "blob"; the type of a column */
  const char *mesh; /* "data=4,model=2"; "" where it lay on none */
  tsr_dtype dtype;  /* of a blob TSR_U8 ... */
  tsr_shape shape;  /* ... and its length */
  int64_t bytes;    /* on the disk */
  int parts;        /* pieces that it was written in */
} tsr_saved_entry;

/* Returns the number of entries of a step, 0 of an inert one. Local. */
TSR_API int tsr_checkpoint_count(const tsr_saved_step *checkpoint);
/* Gives an entry; all zeros outside of 0 .. count - 1. Local. */
TSR_API tsr_saved_entry tsr_checkpoint_entry(const tsr_saved_step *checkpoint, int index);

/* Options of tsr_checkpoint_restore. Zero means default. */
typedef struct tsr_restore_opts {
  size_t size TSR_REST_BY_NAME;
  const char *path;     /* the part of the tree that was saved, "model"; NULL = all */
  bool resize;          /* other sizes than were saved are taken: cut off, or zeros behind */
  const tsr_mesh *mesh; /* without `like`: where arrays lie, by the specs that they had; axes that
                         * it has not cut nothing. NULL = the scope's, else each process's first
                         * device */
} tsr_restore_opts;

/* Reads arrays: those of `like`, a tree of arrays or types (tsr_abstract) whose values are not
 * looked at, to where they lie, each found by its path; so a tree of some of what was saved reads
 * only that. A type that lies on a mesh without devices here, as those of tsr_function_arguments
 * may, is placed by its spec as without `like`. `like` NULL: all that was saved, in the form that
 * it had. Checksums are compared. Returns a tree or an array, owned by the checkpoint's scope;
 * inert on an error. Errors: TSR_EARG (a path that was not saved; the nearest is named),
 * TSR_EDTYPE, TSR_ESHAPE (without .resize, and where it has another rank), TSR_EIO, TSR_EPARSE (a
 * checksum), TSR_ENOMEM, TSR_ECANCELLED, TSR_EPEER, and those of shardings. Collective, same
 * arguments. */
TSR_API tsr_array *tsr_checkpoint_restore_with(tsr_saved_step *checkpoint, tsr_array *like,
                                               const tsr_restore_opts *opts, const char *site);

/* Reads the bytes of a blob. `*out` is owned by the checkpoint's scope, and untouched on failure.
 * Errors: TSR_EARG for a name that was not saved, TSR_EIO, TSR_EPARSE, TSR_ENOMEM. Local. */
TSR_API TSR_MUST_USE tsr_status tsr_checkpoint_blob_at(tsr_saved_step *checkpoint, const char *name,
                                                       tsr_value *out, const char *site);

/* Reads a frame: its columns with their types, texts and nulls (bf16 comes as f32), its rows in
 * their order, to where `on` says, each process those of its devices; zero: on the first device,
 * and of several processes over all devices. Returns a frame owned by the checkpoint's scope, inert
 * on an error. Errors: TSR_EARG for a name that was not saved, those of
 * tsr_checkpoint_restore. Collective, same arguments. */
TSR_API tsr_frame *tsr_checkpoint_frame_at(tsr_saved_step *checkpoint, const char *name,
                                           tsr_sharding on, const char *site);

/* Reads all data of a step and compares every checksum, and those of the files' headers. Errors:
 * TSR_EPARSE (which file and where), TSR_EIO, TSR_ENOMEM, TSR_ECANCELLED. Local. */
TSR_API TSR_MUST_USE tsr_status tsr_checkpoint_verify_at(tsr_saved_step *checkpoint,
                                                         const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* tsr_checkpoint_save(s, "ckpt", model), tsr_checkpoint_save(s, "ckpt", model, .step = 12) */
#define tsr_checkpoint_save(...) \
  TSR_NEEDS_3_("tsr_checkpoint_save(scope, path, tree)", TSR_CHECKPOINT_SAVE_, __VA_ARGS__)
#define TSR_CHECKPOINT_SAVE_(scope, path, tree, ...)                                       \
  tsr_checkpoint_save_with((scope), (path), (tree),                                        \
                           &(tsr_save_opts){ .size = sizeof(tsr_save_opts), __VA_ARGS__ }, \
                           TSR_HERE)
/* tsr_checkpoint_restore(c, like), tsr_checkpoint_restore(c, NULL, .mesh = mesh) */
#define tsr_checkpoint_restore(...) \
  TSR_NEEDS_2_("tsr_checkpoint_restore(checkpoint, like)", TSR_CHECKPOINT_RESTORE_, __VA_ARGS__)
#define TSR_CHECKPOINT_RESTORE_(checkpoint, like, ...)                                            \
  tsr_checkpoint_restore_with(                                                                    \
      (checkpoint), (like), &(tsr_restore_opts){ .size = sizeof(tsr_restore_opts), __VA_ARGS__ }, \
      TSR_HERE)
#endif
#define tsr_checkpoint_wait(scope) tsr_checkpoint_wait_at((scope), TSR_HERE)
#define tsr_checkpoint_frame(checkpoint, name, on) \
  tsr_checkpoint_frame_at((checkpoint), (name), (on), TSR_HERE)
#define tsr_checkpoint_verify(checkpoint) tsr_checkpoint_verify_at((checkpoint), TSR_HERE)
#define tsr_checkpoint_open(scope, path) tsr_checkpoint_open_at((scope), (path), TSR_HERE)
#define tsr_checkpoint_blob(checkpoint, name, out) \
  tsr_checkpoint_blob_at((checkpoint), (name), (out), TSR_HERE)

#endif
