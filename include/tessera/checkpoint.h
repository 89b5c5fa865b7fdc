/* Checkpoints: trees of arrays (tree.h), frames and the user's own bytes in a folder, one saved
 * state a step.
 *
 *   tsr_checkpoint_save(s, "ckpt", tsr_tree(s, { "model", model }, { "adam", state }), .step = 12,
 *                       .keep = 3);
 *   ...
 *   tsr_saved_step *c = tsr_checkpoint_open(s, "ckpt");    the newest step
 *   tsr_array *all = tsr_checkpoint_restore(c, like);      on any mesh, in any number of processes
 *
 * A step is a folder, step_12, with data files and the catalog tessera.json, which has the names,
 * types and files of all entries and a checksum of each megabyte. A save commits a step by writing
 * the catalog last, forcing it to the disk and renaming it. A folder without a catalog is no step,
 * also after the program is killed or the power fails. Data files have the safetensors format, so
 * other tools read them; the guide's page on checkpoints describes the format.
 *
 * One save at a time writes into a folder and holds the folder's lock, tessera.lock, which names
 * its process; another save, of any job, fails meanwhile. The lock of a killed save does not count.
 *
 * The processes that hold a shard of an array share its writing, so that it is written once. Each
 * process reads only the whole megabytes that it needs. */
#ifndef TESSERA_CHECKPOINT_H
#define TESSERA_CHECKPOINT_H

#include "frame.h"
#include "process.h"
#include "tree.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Named bytes (letters, digits, "_", "-", "." and "/"). */
typedef struct tsr_blob_item {
  const char *name;
  const void *data;
  size_t length;
} tsr_blob_item;

/* A frame with a name of the same characters. */
typedef struct tsr_frame_item {
  const char *name;
  tsr_frame *frame;
} tsr_frame_item;

enum { TSR_MAX_SAVED = 16 };

/* Options of tsr_checkpoint_save. Zero means default. */
typedef struct tsr_save_opts {
  size_t size TSR_REST_BY_NAME;
  /* number of the step, from 0; the folder is PATH/step_NUMBER */
  int64_t step;
  int keep;       /* number of newest steps to keep, with this one; 0 = all */
  bool overwrite; /* replaces an existing step, instead of an error */
  /* return after evaluation; a thread writes while the program continues */
  bool background;
  tsr_frame_item frames[TSR_MAX_SAVED]; /* up to the first without a name; evaluated */
  tsr_blob_item blobs[TSR_MAX_SAVED];   /* up to the first without a name; copied */
  double timeout;                       /* seconds that processes wait for each other; 0 = 1800 */
} tsr_save_opts;

/* Evaluates the arrays of a tree (or an array; NULL: none) and writes them as a step of the folder
 * `path`, which is made if it does not exist. Each process gives its own blobs; if several give a
 * name, the lowest process's blob is saved. Each process writes the rows of a frame that it has.
 * Existing steps stay until the new one is on the disk; after an error nothing of it stays. Then
 * the call deletes steps beyond `keep` and the remains of saves that were cut off. The progress
 * callback gets "checkpoint".
 *
 * A save in the background holds the arrays. tsr_checkpoint_wait returns its errors, or else the
 * next save does, which waits for it and is not begun then. tsr_checkpoint_open and closing the
 * runtime wait for it too. If no call has returned an error before the close, the close reports it:
 * to the log, or without a log on stderr, and to `tessera run`, which then fails. Errors: TSR_EIO,
 * TSR_ESTATE (the step exists, or another save writes into the folder), TSR_EARG, TSR_ENOMEM,
 * TSR_ECANCELLED, TSR_EPEER, and those of evaluation. Collective, same arguments. */
TSR_API TSR_MUST_USE tsr_status tsr_checkpoint_save_with(tsr_scope *scope, const char *path,
                                                         tsr_array *tree, const tsr_save_opts *opts,
                                                         const char *site);

/* Waits for a save in the background; without one returns at once. Errors: those of the save,
 * returned once, and TSR_ECANCELLED, after which the save continues. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_checkpoint_wait_at(tsr_scope *scope, const char *site);

/* An opened step: its catalog is read, its data is not. */
typedef struct tsr_saved_step tsr_saved_step;

/* Opens the newest step of a folder of steps, or the step of a step's own folder, and returns it,
 * owned by the scope; never NULL, inert on an error. The call waits for a save of this runtime in
 * the background. Errors: TSR_EIO, TSR_EPARSE (damaged or changed), TSR_EUNSUPPORTED (of a later
 * version), TSR_ENOMEM, TSR_ECANCELLED, TSR_EPEER. Collective, same arguments. */
TSR_API tsr_saved_step *tsr_checkpoint_open_at(tsr_scope *scope, const char *path,
                                               const char *site);

/* Returns the number of a step, -1 for an inert step. Local. */
TSR_API int64_t tsr_checkpoint_step(const tsr_saved_step *checkpoint);

/* Returns the form of the saved tree, as tsr_tree_text, owned by the checkpoint; "" if the step has
 * no tree, and for an inert step. Local. */
TSR_API const char *tsr_checkpoint_form(const tsr_saved_step *checkpoint);

/* The kind of an entry of a step. */
typedef enum tsr_saved_kind {
  TSR_SAVED_ARRAY = 1,
  TSR_SAVED_BLOB,
  TSR_SAVED_COLUMN /* a part of a frame's column, "FRAME:values:COLUMN" */
} tsr_saved_kind;

/* An entry of a step; texts are owned by the checkpoint. */
typedef struct tsr_saved_entry {
  tsr_saved_kind kind;
  /* an array's path in its tree, "model.w"; "array" for an array without a tree */
  const char *name;
  const char *type; /* type when saved, "f32[1024,32]@(data,-)"; "blob"; the type of a column */
  const char *mesh; /* mesh when saved, "data=4,model=2"; "" without a mesh */
  tsr_dtype dtype;  /* TSR_U8 for a blob ... */
  tsr_shape shape;  /* ... with its length */
  int64_t bytes;    /* on the disk */
  int parts;        /* pieces that the entry was written in */
} tsr_saved_entry;

/* Returns the number of entries of a step, 0 for an inert step. Local. */
TSR_API int tsr_checkpoint_count(const tsr_saved_step *checkpoint);
/* Returns an entry; all zeros for an index outside 0 .. count - 1. Local. */
TSR_API tsr_saved_entry tsr_checkpoint_entry(const tsr_saved_step *checkpoint, int index);

/* Options of tsr_checkpoint_restore. Zero means default. */
typedef struct tsr_restore_opts {
  size_t size TSR_REST_BY_NAME;
  const char *path; /* part of the saved tree, "model"; NULL = all */
  bool resize;      /* accepts other sizes than were saved: cuts, or fills with zeros */
  /* without `like`: the mesh of the arrays, with their saved specs; axes that it lacks are ignored.
   * NULL = the scope's, else each process's first device */
  const tsr_mesh *mesh;
} tsr_restore_opts;

/* Returns saved arrays as a tree or an array, owned by the checkpoint's scope; inert on an error.
 * `like` is a tree of arrays or types (tsr_abstract), whose values are not read. Each saved array
 * is found by its path in `like` and takes the sharding there, so a smaller tree reads only its
 * arrays. A type on a mesh without devices in this program, as from tsr_function_arguments, is
 * placed by its spec as without `like`. `like` NULL reads the whole saved tree in its saved form.
 * Checksums are compared. Errors: TSR_EARG (a path that was not saved; the nearest is named),
 * TSR_EDTYPE, TSR_ESHAPE (without .resize, and if ranks differ), TSR_EIO, TSR_EPARSE (a checksum),
 * TSR_ENOMEM, TSR_ECANCELLED, TSR_EPEER, and those of shardings. Collective, same arguments. */
TSR_API tsr_array *tsr_checkpoint_restore_with(tsr_saved_step *checkpoint, tsr_array *like,
                                               const tsr_restore_opts *opts, const char *site);

/* Reads the bytes of a blob into `*out`, owned by the checkpoint's scope and untouched on failure.
 * Errors: TSR_EARG for a name that was not saved, TSR_EIO, TSR_EPARSE, TSR_ENOMEM. Local. */
TSR_API TSR_MUST_USE tsr_status tsr_checkpoint_blob_at(tsr_saved_step *checkpoint, const char *name,
                                                       tsr_value *out, const char *site);

/* Returns a saved frame with its types, texts, nulls (bf16 as f32) and row order, owned by the
 * checkpoint's scope; inert on an error. Rows take the sharding `on`, and each process reads those
 * of its devices; zero: on the first device, and with several processes over all devices. Errors:
 * TSR_EARG for a name that was not saved, those of tsr_checkpoint_restore. Collective, same
 * arguments. */
TSR_API tsr_frame *tsr_checkpoint_frame_at(tsr_saved_step *checkpoint, const char *name,
                                           tsr_sharding on, const char *site);

/* Reads all data of a step and compares every checksum, with those of the files' headers. Errors:
 * TSR_EPARSE (with file and position), TSR_EIO, TSR_ENOMEM, TSR_ECANCELLED. Local. */
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
