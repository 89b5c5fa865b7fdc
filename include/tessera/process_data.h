/* Data of several processes: which part of an array each of them has, arrays made of those parts,
 * and what each has brought to all.
 *
 *   f32[8,8]@(x,-) on x=4, two processes of two devices
 *
 *     rows 0-1  device 0 \  process 0: block 0 of 2 along dim 0, f32[4,8]
 *     rows 2-3  device 1 /
 *     rows 4-5  device 2 \  process 1: block 1 of 2
 *     rows 6-7  device 3 /
 *
 *   tsr_array *a = tsr_from_process_data(s, block, .dtype = TSR_F32, .shape = TSR_SHAPE(4, 8),
 *                                        .on = tsr_on(mesh, "x,-"));        f32[8,8]
 *   tsr_read_process(a, block, sizeof block)                                the same rows again
 *
 * All processes make these calls, in the same order, and meet there: what fails on one of them
 * fails on all, with its message and "process 2: " before it. A process alone is one of one. */
#ifndef TESSERA_PROCESS_DATA_H
#define TESSERA_PROCESS_DATA_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- who has what ---------------------------------------------------------------------------- */

/* Returns how many devices this process has, of tsr_device_count in all. Local. */
TSR_API int tsr_local_device_count(const tsr_runtime *rt);

/* Returns the id of a device of this process, counted from 0; -1 where there is none. Local. */
TSR_API int tsr_local_device(const tsr_runtime *rt, int index);

/* Returns the process that has a device; -1 for an id that is none. Local. */
TSR_API int tsr_device_process(const tsr_runtime *rt, int device);

/* Returns how many processes have devices in a mesh; 0 of an abstract or inert one. Local. */
TSR_API int tsr_mesh_process_count(const tsr_mesh *mesh);

/* Makes the part of a mesh that this process has: the same axes, over its devices alone. What lies
 * there is each process's own, as what has no mesh: other processes neither wait for it nor see it.
 * Where there is one process that is another mesh, too. A process whose devices are no block of the
 * mesh, or that has none there, gets an inert mesh (TSR_EARG). Owned by the runtime. All
 * processes call it, in the same order as other calls that make meshes; none waits. Local. */
TSR_API tsr_mesh *tsr_mesh_local(const tsr_mesh *mesh);

/* Returns how many devices of a sharding this process has, each of which holds a part; 1 of an
 * unplaced one, 0 of a bad one. Local. */
TSR_API int tsr_local_shard_count(const tsr_sharding *sharding);

/* Returns the position of such a device, counted from 0, for tsr_shard_view; -1 where there is
 * none. Local. */
TSR_API int tsr_local_shard(const tsr_sharding *sharding, int index);

/* What a process's devices hold of a shape: their parts put side by side, without the gaps between
 * them. That is its block, which has a number among those of all processes along each dim. */
typedef struct tsr_process_part {
  tsr_shape shape;         /* of the block, in elements */
  int index[TSR_MAX_RANK]; /* along each dim: its number, in the order of their starts, ... */
  int count[TSR_MAX_RANK]; /* ... of so many; 0: blocks of different processes overlap there */
  bool whole;              /* the devices have all of the block */
} tsr_process_part;

/* Writes the block of a process. One without devices there has a block of no elements. Errors:
 * those of tsr_shard_box; TSR_EARG for a process that is not there and NULL; TSR_EAXIS on an
 * abstract mesh; TSR_ENOMEM. `*out` is untouched on failure. Local. */
TSR_API tsr_status tsr_process_part_of(const tsr_sharding *sharding, tsr_shape shape, int process,
                                       tsr_process_part *out);

/* ---- from and to each process ---------------------------------------------------------------- */

/* What each process gives of an array. */
typedef struct tsr_process_data_args {
  size_t size;
  /* Its block in C order, bool as bytes; borrowed for the call. */
  const void *data;
  tsr_dtype dtype;
  tsr_shape shape; /* of `data`: along each dim the block's size or the whole array's */
  tsr_sharding on; /* where the array lies: tsr_on(mesh, "x,y"); zero = unplaced */
  tsr_shape whole; /* of the array; zero = found from what the processes give */
} tsr_process_data_args;

/* Makes a global array of what each process gives, copying it. Where no shape of the whole is
 * given, a dim is as long as the different blocks along it together, which must be as the sharding
 * cuts it (10 over 4: 3, 3, 2, 2). Processes without devices there give no data. Unplaced, each
 * process has its own. Errors, on all processes: TSR_ESHAPE where blocks do not fit, TSR_EARG where
 * the whole's shape cannot be found or processes ask for different things; those of tsr_put.
 * Returns an array owned by the scope. Collective. */
TSR_API tsr_array *tsr_from_process_data_at(tsr_scope *scope, const tsr_process_data_args *args,
                                            const char *site);

/* Evaluates an array and copies this process's block of it in C order (bool as bytes) to `out` of
 * exactly `bytes` bytes: what tsr_from_process_data takes. Of what has no mesh that is all. Errors:
 * TSR_EUNSUPPORTED where its devices have not all of the block; those of tsr_read. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_read_process_at(tsr_array *a, void *out, size_t bytes,
                                                    const char *site);

/* As tsr_read, for process `root` alone: it gets all elements, the others nothing, and may give
 * NULL and 0. All return the same status. Errors: TSR_EARG for a root that is none; those of
 * tsr_read. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_read_root_at(tsr_array *a, int root, void *out, size_t bytes,
                                                 const char *site);

/* Makes one array of what each process has of its own, unplaced or on tsr_mesh_local: as
 * tsr_from_process_data with the array in the place of data. An array on a mesh of several
 * processes is that already and returned. Returns an array owned as results are. Errors as of
 * tsr_from_process_data. Collective. */
TSR_API tsr_array *tsr_to_global_at(tsr_array *a, tsr_sharding on, const char *site);

/* Makes of an array on a mesh of several processes what this process has of it, on tsr_mesh_local
 * of the mesh and cut by the same axes; nothing is copied. One without such a mesh is returned.
 * Returns an array owned as results are. Errors: TSR_EARG as of tsr_mesh_local; TSR_EUNSUPPORTED
 * for parts of a sum that is not made yet, ragged rows, and where the borders would be others.
 * Collective. */
TSR_API tsr_array *tsr_to_local_at(tsr_array *a, const char *site);

/* ---- all together ---------------------------------------------------------------------------- */

/* Options of tsr_process_gather. Zero means the default. */
typedef struct tsr_process_gather_opts {
  size_t size TSR_REST_BY_NAME;
  bool tiled; /* one after the other along dim 0, instead of along a new dim before it */
} tsr_process_gather_opts;

/* Gives all processes what each has of its own, in their order, as an array without a mesh: of
 * f32[4] of three f32[3,4], tiled f32[12]. Numbers make [3] either way. Tiled, sizes of dim 0 may
 * differ; all else is alike, or it is an error. Of an array on a mesh of several processes all
 * elements, and .tiled must be said. Trees are gathered array by array. Errors: TSR_EARG,
 * TSR_ESHAPE, TSR_EDTYPE, TSR_ENOMEM. Returns an array owned as results are. Collective. */
TSR_API tsr_array *tsr_process_gather_with(tsr_array *a, const tsr_process_gather_opts *opts,
                                           const char *site);

/* Options of tsr_process_broadcast. Zero means the default. */
typedef struct tsr_process_broadcast_opts {
  size_t size TSR_REST_BY_NAME;
  int root; /* whose array all get */
} tsr_process_broadcast_opts;

/* Gives all processes what one of them has, as an array without a mesh; all give arrays of the same
 * dtype and shape, or trees of such. Errors: TSR_EARG for a root that is none, TSR_ESHAPE and
 * TSR_EDTYPE where they differ, TSR_EUNSUPPORTED for an array on a mesh of several processes, which
 * all have. Returns an array owned as results are. Collective. */
TSR_API tsr_array *tsr_process_broadcast_with(tsr_array *a, const tsr_process_broadcast_opts *opts,
                                              const char *site);

/* Evaluates an array or a tree and compares it with that of the other processes: dtypes, shapes and
 * bits, by a hash of 64 bits. Error, on all: TSR_EVALUE, which names the first process that has
 * something else than process 0, and the first array in which. `what` says of what in messages;
 * NULL: "the array". Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_process_equal_at(tsr_array *a, const char *what,
                                                     const char *site);

/* Waits until all processes have come here with the same name. Unlike tsr_sync it takes part in the
 * order of all that is computed: different names are TSR_EPEER on all at once, and there is no
 * deadline but the end of a process. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_process_meet_at(tsr_scope *scope, const char *name,
                                                    const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* tsr_from_process_data(s, block, .dtype = TSR_F32, .shape = TSR_SHAPE(4, 8), .on = ...) */
#define TSR_FROM_PROCESS_DATA_(scope, ...)                                                  \
  tsr_from_process_data_at((scope),                                                         \
                           &(tsr_process_data_args){ .size = sizeof(tsr_process_data_args), \
                                                     .data = __VA_ARGS__ },                 \
                           TSR_HERE)
#define tsr_from_process_data(...) \
  TSR_NEEDS_2_("tsr_from_process_data(scope, data)", TSR_FROM_PROCESS_DATA_, __VA_ARGS__)
/* tsr_process_gather(a), tsr_process_gather(a, .tiled = true) */
#define tsr_process_gather(...) TSR_PROCESS_GATHER_(__VA_ARGS__, )
#define TSR_PROCESS_GATHER_(a, ...)                                                            \
  tsr_process_gather_with(                                                                     \
      (a), &(tsr_process_gather_opts){ .size = sizeof(tsr_process_gather_opts), __VA_ARGS__ }, \
      TSR_HERE)
/* tsr_process_broadcast(a), tsr_process_broadcast(a, .root = 2) */
#define tsr_process_broadcast(...) TSR_PROCESS_BROADCAST_(__VA_ARGS__, )
#define TSR_PROCESS_BROADCAST_(a, ...)                                                      \
  tsr_process_broadcast_with((a),                                                           \
                             &(tsr_process_broadcast_opts){                                 \
                                 .size = sizeof(tsr_process_broadcast_opts), __VA_ARGS__ }, \
                             TSR_HERE)
#endif
#define tsr_read_process(a, out, bytes) tsr_read_process_at((a), (out), (bytes), TSR_HERE)
#define tsr_read_root(a, root, out, bytes) tsr_read_root_at((a), (root), (out), (bytes), TSR_HERE)
#define tsr_to_global(a, on) tsr_to_global_at((a), (on), TSR_HERE)
#define tsr_to_local(a) tsr_to_local_at((a), TSR_HERE)
#define tsr_process_equal(a, what) tsr_process_equal_at((a), (what), TSR_HERE)
#define tsr_process_meet(scope, name) tsr_process_meet_at((scope), (name), TSR_HERE)

#endif
