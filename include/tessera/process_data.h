/* Data of several processes: the portion of an array that each process holds, arrays made of these
 * portions, and exchanges among all processes.
 *
 *   f32[8,8]@(x,-) on x=4, two processes of two devices
 *
 *     rows 0-1  device 0 \  process 0: portion 0 of 2 along dim 0, f32[4,8]
 *     rows 2-3  device 1 /
 *     rows 4-5  device 2 \  process 1: portion 1 of 2
 *     rows 6-7  device 3 /
 *
 *   tsr_array *a = tsr_from_process_data(s, portion, .dtype = TSR_F32, .shape = TSR_SHAPE(4, 8),
 *                                        .on = tsr_on(mesh, "x,-"));        f32[8,8]
 *   tsr_read_process(a, portion, sizeof portion)                            the same rows again
 *
 * All processes make the collective calls in the same order, and each call waits for all processes.
 * A failure in one process fails the call in all, with its message after "process 2: ". A process
 * alone is a job of one process. */
#ifndef TESSERA_PROCESS_DATA_H
#define TESSERA_PROCESS_DATA_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- devices and portions of a process ------------------------------------------------------- */

/* Returns the number of devices of this process, of tsr_device_count in all. Local. */
TSR_API int tsr_local_device_count(const tsr_runtime *rt);

/* Returns the id of a device of this process, by index from 0; -1 out of range. Local. */
TSR_API int tsr_local_device(const tsr_runtime *rt, int index);

/* Returns the process of a device; -1 for an unknown id. Local. */
TSR_API int tsr_device_process(const tsr_runtime *rt, int device);

/* Returns the number of processes with devices in a mesh; 0 for an abstract or inert mesh.
 * Local. */
TSR_API int tsr_mesh_process_count(const tsr_mesh *mesh);

/* Returns the submesh of this process's devices, with the same axes, owned by the runtime. Arrays
 * on it belong to this process alone, like arrays without a mesh: other processes neither wait for
 * them nor see them. With one process the result is still another mesh. A process that has no
 * devices in the mesh, or whose devices are not a block of it, gets an inert mesh (TSR_EARG). All
 * processes make the call, in the same order as other calls that make meshes; none waits. Local. */
TSR_API tsr_mesh *tsr_mesh_local(const tsr_mesh *mesh);

/* Returns the number of devices of a sharding in this process, each with one shard; 1 for an
 * unplaced sharding, 0 for a bad one. Local. */
TSR_API int tsr_local_shard_count(const tsr_sharding *sharding);

/* Returns the position of such a device, by index from 0, for tsr_shard_view; -1 out of range.
 * Local. */
TSR_API int tsr_local_shard(const tsr_sharding *sharding, int index);

/* The portion of an array that a process's devices hold: their shards side by side, without the
 * gaps between them. Each portion has an index among those of all processes along each dim. */
typedef struct tsr_process_part {
  tsr_shape shape;         /* of the portion, in elements */
  int index[TSR_MAX_RANK]; /* along each dim: index in the order of starts, ... */
  /* ... of this number; 0: portions of different processes overlap there */
  int count[TSR_MAX_RANK];
  bool whole; /* the devices have all of the portion */
} tsr_process_part;

/* Writes the portion of a process to `out`, untouched on failure; a process without devices in the
 * mesh has a portion of no elements. Errors: those of tsr_shard_box; TSR_EARG for a process out of
 * range and NULL; TSR_EAXIS on an abstract mesh; TSR_ENOMEM. Local. */
TSR_API tsr_status tsr_process_part_of(const tsr_sharding *sharding, tsr_shape shape, int process,
                                       tsr_process_part *out);

/* ---- from and to each process ---------------------------------------------------------------- */

/* The portion of an array that each process gives. */
typedef struct tsr_process_data_args {
  size_t size;
  const void *data; /* The portion in C order, bool as bytes; borrowed for the call. */
  tsr_dtype dtype;
  tsr_shape shape; /* of `data`: along each dim the size of the portion or of the whole array */
  tsr_sharding on; /* sharding of the array: tsr_on(mesh, "x,y"); zero = unplaced */
  tsr_shape whole; /* shape of the array; zero = found from all portions */
} tsr_process_data_args;

/* Returns a global array of the portions that all processes give, copied, owned by the scope.
 * Without .whole, the size of a dim is the sum of the different portions along it, which must be
 * the sizes that the sharding gives (10 over 4: 3, 3, 2, 2). Processes without devices in the mesh
 * give no data. Unplaced, each process gets its own array. Errors, on all processes: TSR_ESHAPE if
 * portions do not fit, TSR_EARG if the whole shape cannot be found or the processes' arguments
 * differ; those of tsr_put. Collective. */
TSR_API tsr_array *tsr_from_process_data_at(tsr_scope *scope, const tsr_process_data_args *args,
                                            const char *site);

/* Evaluates an array and copies this process's portion in C order (bool as bytes) to `out` of
 * exactly `bytes` bytes, as tsr_from_process_data takes it. The portion of an array without a mesh
 * is the whole array. Errors: TSR_EUNSUPPORTED if the devices do not have all of the portion; those
 * of tsr_read. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_read_process_at(tsr_array *a, void *out, size_t bytes,
                                                    const char *site);

/* Evaluates an array and copies all elements to `out` of process `root`, as tsr_read does; other
 * processes get nothing and may give NULL and 0. All processes return the same status. Errors:
 * TSR_EARG for a root out of range; those of tsr_read. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_read_root_at(tsr_array *a, int root, void *out, size_t bytes,
                                                 const char *site);

/* Returns one array made of each process's own array, unplaced or on tsr_mesh_local, as
 * tsr_from_process_data does of data. An array on a mesh of several processes is returned
 * unchanged. The array is owned as results are. Errors as of tsr_from_process_data. Collective. */
TSR_API tsr_array *tsr_to_global_at(tsr_array *a, tsr_sharding on, const char *site);

/* Returns this process's portion of an array on a mesh of several processes, on tsr_mesh_local of
 * the mesh and sharded by the same axes, without a copy. Another array is returned unchanged. The
 * array is owned as results are. Errors: TSR_EARG as of tsr_mesh_local; TSR_EUNSUPPORTED for
 * partial sums and ragged rows, and if the shards would have other borders. Collective. */
TSR_API tsr_array *tsr_to_local_at(tsr_array *a, const char *site);

/* ---- exchanges among processes --------------------------------------------------------------- */

/* Options of tsr_process_gather. Zero means the default. */
typedef struct tsr_process_gather_opts {
  size_t size TSR_REST_BY_NAME;
  bool tiled; /* concatenates along dim 0, instead of stacking along a new dim before it */
} tsr_process_gather_opts;

/* Returns on all processes each process's own array, in the order of processes, as one array
 * without a mesh: f32[4] of three processes gives f32[3,4], tiled f32[12]. Scalars give [3] either
 * way. Tiled, sizes of dim 0 may differ; all else must be equal. An array on a mesh of several
 * processes gives all its elements, and needs .tiled. Trees are gathered array by array. The array
 * is owned as results are. Errors: TSR_EARG, TSR_ESHAPE, TSR_EDTYPE, TSR_ENOMEM. Collective. */
TSR_API tsr_array *tsr_process_gather_with(tsr_array *a, const tsr_process_gather_opts *opts,
                                           const char *site);

/* Options of tsr_process_broadcast. Zero means the default. */
typedef struct tsr_process_broadcast_opts {
  size_t size TSR_REST_BY_NAME;
  int root; /* the process whose array all get */
} tsr_process_broadcast_opts;

/* Returns on all processes the array of process `root`, as an array without a mesh. All processes
 * give arrays of the same dtype and shape, or trees of such arrays. The array is owned as results
 * are. Errors: TSR_EARG for a root out of range, TSR_ESHAPE and TSR_EDTYPE if arrays differ,
 * TSR_EUNSUPPORTED for an array on a mesh of several processes, which all have already.
 * Collective. */
TSR_API tsr_array *tsr_process_broadcast_with(tsr_array *a, const tsr_process_broadcast_opts *opts,
                                              const char *site);

/* Evaluates an array or a tree and compares it among processes: dtypes, shapes and bits, by a hash
 * of 64 bits. Error, on all: TSR_EVALUE, which names the first process that differs from process 0
 * and the first array that differs. `what` names the array in messages; NULL: "the array".
 * Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_process_equal_at(tsr_array *a, const char *what,
                                                     const char *site);

/* Waits until all processes have called it with the same name, as a barrier in the order of all
 * collectives, unlike tsr_sync. Different names are TSR_EPEER on all processes at once. The wait
 * has no deadline; it ends if a process fails. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_process_meet_at(tsr_scope *scope, const char *name,
                                                    const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* tsr_from_process_data(s, portion, .dtype = TSR_F32, .shape = TSR_SHAPE(4, 8), .on = ...) */
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
