/* Element types, shapes, devices, meshes and shardings. Pure arithmetic: nothing here moves data.
 *
 *   mesh      data=4,model=2     axis names and sizes, row-major over the devices
 *   spec      data,-             dim 0 over axis data, dim 1 replicated
 *             -,data+model       dim 1 over both axes, data is the major one
 *             ?,data             dim 0 left to the planner
 *             data,-;sum(model)  partial sums over model: the value is their sum along that axis
 *   type      f32[1024,32]@(data,-)
 *
 * Shards have their true size: a dim of 10 over 4 devices has shards 3,3,2,2; over two axes
 * it is split axis by axis, so that dropping an axis never moves a border. */
#ifndef TESSERA_TOPOLOGY_H
#define TESSERA_TOPOLOGY_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most dims that an array has, those counted in that maps and bodies on devices put in front
 * (mapping.h). */
#define TSR_MAX_RANK 16
#define TSR_MAX_AXES 8

/* Element types. The values are part of the ABI; 14 and 15 are kept for complex numbers. Bool
 * arrays are kept one bit an element on the devices; put and read take and give one byte an
 * element. f16 is IEEE's binary16, bf16 the upper half of an f32; both are passed as their 16
 * bits. */
typedef enum tsr_dtype {
  TSR_BOOL = 1,
  TSR_I8,
  TSR_I16,
  TSR_I32,
  TSR_I64,
  TSR_U8,
  TSR_U16,
  TSR_U32,
  TSR_U64,
  TSR_F16,
  TSR_BF16,
  TSR_F32,
  TSR_F64
} tsr_dtype;

/* Returns "bool", "i8", ..., "bf16", "f32" or "f64"; "?" for anything else; static. Local. */
TSR_API const char *tsr_dtype_name(tsr_dtype dtype);

/* Returns the bytes an element takes in put and read (bool: 1); 0 for no type. Local. */
TSR_API size_t tsr_dtype_size(tsr_dtype dtype);

/* A shape: `rank` dims, in elements. A plain value. */
typedef struct tsr_shape {
  int rank;
  int64_t dims[TSR_MAX_RANK];
} tsr_shape;

/* A mesh: a grid of a runtime's devices with named axes. Owned by the runtime, immutable. */
typedef struct tsr_mesh tsr_mesh;

/* Options of tsr_mesh_make_with: the typed form of a mesh. Zero means default. */
typedef struct tsr_mesh_opts {
  size_t size;
  int axis_count;                  /* 1..TSR_MAX_AXES */
  const char *names[TSR_MAX_AXES]; /* axis names: letters, digits, '_' */
  int64_t sizes[TSR_MAX_AXES];     /* at least 1 each */
  const int *devices;              /* device ids, row-major; NULL = 0, 1, 2, ... */
  bool abstract;                   /* sizes without devices, of any number up to 2^20 */
  int grid_rank;                   /* how the devices are wired; 0 = not said: in order */
  int64_t grid[TSR_MAX_AXES];      /* sizes of a torus, ids row-major, with as many devices */
  bool split; /* an axis of the grid may go to several of the mesh, where whole ones do not fit */
  bool ring;  /* positions next to each other are neighbours in the grid */
  int64_t outer[TSR_MAX_AXES]; /* processes along each axis, 0 = 1: it divides the size, and the
                                * grid is that of one process, as the mesh in it */
} tsr_mesh_opts;

/* Makes a mesh from text such as "data=4,model=2", over the first 8 devices in order. Never
 * returns NULL unless `rt` is; a bad text gives an inert mesh whose error every use reports
 and tsr_mesh_status returns. The text is copied; the mesh is owned by the runtime and stays until
 * that closes: equal meshes are one, and of bad ones the first 256 keep a message of their own.
 * Local. */
TSR_API tsr_mesh *tsr_mesh_make(tsr_runtime *rt, const char *text);

/* Makes a mesh from options; as tsr_mesh_make. With a grid, the last axis of the mesh takes axes of
 * the grid first, several whole ones where it can. Local. */
TSR_API tsr_mesh *tsr_mesh_make_with(tsr_runtime *rt, const tsr_mesh_opts *opts);

/* Makes a mesh of sizes without devices, as many as the text says: shardings, index maps and
 * drawings work on it, data cannot lie there (TSR_EAXIS). Else as tsr_mesh_make. Local. */
TSR_API tsr_mesh *tsr_mesh_abstract(tsr_runtime *rt, const char *text);

/* Makes the part of a mesh whose coordinates along `axis` are `start` to before `start + count`:
 * the same axes over fewer devices. A bad axis or range gives an inert mesh, as tsr_mesh_make; NULL
 * for NULL. Owned by the runtime. Local. */
TSR_API tsr_mesh *tsr_mesh_sub(const tsr_mesh *mesh, const char *axis, int64_t start,
                               int64_t count);

/* Makes `mesh` the default one of a scope and of those nested in it from then on:
 * tsr_on(scope, "x,y") lies on it. NULL: that of the scope around it again. The mesh is borrowed.
 * Local. */
TSR_API void tsr_scope_use_mesh(tsr_scope *scope, const tsr_mesh *mesh);

/* Returns the default mesh of a scope or of the nearest one around it, NULL if none has one. The
 * runtime owns it. Local. */
TSR_API const tsr_mesh *tsr_scope_mesh(const tsr_scope *scope);

/* Makes the default mesh: all devices on one axis `axis` ("data" if NULL). Local. */
TSR_API tsr_mesh *tsr_mesh_default(tsr_runtime *rt, const char *axis);

/* Returns TSR_OK or why the mesh is inert. Local. */
TSR_API tsr_status tsr_mesh_status(const tsr_mesh *mesh);

/* Returns the message of an inert mesh, "" otherwise; owned by the mesh. Local. */
TSR_API const char *tsr_mesh_message(const tsr_mesh *mesh);

/* Returns the mesh as text, "data=4,model=2"; owned by the mesh. Local. */
TSR_API const char *tsr_mesh_text(const tsr_mesh *mesh);

/* Returns the number of axes; 0 for an inert mesh. Local. */
TSR_API int tsr_mesh_axis_count(const tsr_mesh *mesh);

/* Returns the name of an axis, owned by the mesh, or NULL. Local. */
TSR_API const char *tsr_mesh_axis_name(const tsr_mesh *mesh, int axis);

/* Returns the size of an axis by its name, 0 if there is none of that name. Local. */
TSR_API int64_t tsr_mesh_axis_size(const tsr_mesh *mesh, const char *name);

/* Returns the number of devices of the mesh. Local. */
TSR_API int tsr_mesh_device_count(const tsr_mesh *mesh);

/* Tells whether a mesh has sizes and no devices. Local. */
TSR_API bool tsr_mesh_is_abstract(const tsr_mesh *mesh);

/* Returns the id of the device at a row-major position of the mesh, -1 outside and for an abstract
 * mesh. Local. */
TSR_API int tsr_mesh_device(const tsr_mesh *mesh, int position);

/* How an array lies on a mesh: a plain value. Zero-initialised it means "unplaced": on one
 * device, free to follow its neighbours. Read it with the functions below. */
typedef struct tsr_sharding {
  const tsr_mesh *mesh;            /* NULL = unplaced; of a bad spec: a bad mesh with its message */
  uint16_t open;                   /* bit d: dim d is "?", cut as the planner likes */
  uint8_t first[TSR_MAX_RANK + 1]; /* the axes of dim d are axis[first[d] .. first[d + 1]) */
  uint8_t axis[TSR_MAX_AXES];      /* axis numbers of the mesh, the major one first */
  uint8_t rank;                    /* dims named by the spec; later ones are replicated */
  bool strict;                     /* an uneven dim is an error */
  uint8_t unreduced;               /* bit a: parts along axis a of the mesh add up to the value */
  uint8_t priority[4];             /* two bits a dim, dim 0 lowest: "x:p1" is 1; 0 binds first */
  uint8_t memory;                  /* 0 device, 1 pinned host, 2 unpinned host */
  uint8_t zeros[5];                /* no bytes lie between: shardings are compared as bytes */
} tsr_sharding;

/* Options of tsr_on. */
typedef struct tsr_on_opts {
  size_t size TSR_REST_BY_NAME;
  bool strict; /* true: a dim that its axes do not divide is an error */
} tsr_on_opts;

/* Returns the sharding of a spec's text on a mesh. What is wrong with a bad one the call that uses
 * it says, and tsr_mesh_message(sharding.mesh). "", "-" and NULL mean replicated; on a NULL mesh
 * they mean unplaced, and any other text is bad. Spaces between words and one pair of parentheses
 * around all are allowed, so that what is printed can be typed. "x:p1" says when the planner may
 * let a dim decide how others are cut: after all of p0, which is what nothing says, and before p2
 * and p3; it places nothing. "x;pinned_host" names a kind of memory, of device (the default),
 * pinned_host and unpinned_host: index maps and comparisons take any, data lies in the default
 * alone (TSR_EUNSUPPORTED). The text is copied. Local. */
TSR_API tsr_sharding tsr_on_with(const tsr_mesh *mesh, const char *spec, const tsr_on_opts *opts);

/* Returns a sharding from one text a dim: "x", "x+y" or NULL for replicated. Local. */
TSR_API tsr_sharding tsr_on_dims(const tsr_mesh *mesh, int rank, const char *const *axes);

/* As tsr_on_with on the default mesh of a scope; the macro tsr_on takes either. Where no scope
 * around has one, a text that names axes is bad. Local. */
TSR_API tsr_sharding tsr_on_scope(const tsr_scope *scope, const char *spec,
                                  const tsr_on_opts *opts);

/* Returns the sharding that keeps everything on one device of the runtime. Local. */
TSR_API tsr_sharding tsr_on_device(tsr_runtime *rt, int device);

/* Writes the spec as text, "(data,-)" for rank 2, NUL-terminated and cut to `capacity`;
 * "unplaced" without a mesh, "(?)" for a bad spec. Returns the length it would have. Local. */
TSR_API int tsr_sharding_text(const tsr_sharding *sharding, int rank, char *out, size_t capacity);

/* Writes a type as text, such as "f32[1024,32]@(data,-)"; no "@(...)" when unplaced. Returns the
 * length it would have. Local. */
TSR_API int tsr_type_text(tsr_dtype dtype, tsr_shape shape, const tsr_sharding *sharding, char *out,
                          size_t capacity);

/* Tells whether two shardings put the same elements of a shape on the same devices, in the same
 * kind of memory; those with '?' or sums only where they are equal. Local. */
TSR_API bool tsr_sharding_same(const tsr_sharding *a, const tsr_sharding *b, tsr_shape shape);

/* Which part of a global array one device holds: start and size of each dim. */
typedef struct tsr_box {
  int64_t start[TSR_MAX_RANK];
  int64_t size[TSR_MAX_RANK];
} tsr_box;

/* Writes the part of `shape` that the device at a position of the sharding's mesh holds.
 * Unplaced: position 0 holds all. Errors: TSR_EAXIS for a bad spec, the mesh's own status when
 * that is inert, TSR_ESHAPE for a bad shape, one with fewer dims than the spec names, or an
 * uneven one when the sharding is strict, TSR_EARG for a bad position or NULL. Local. */
TSR_API tsr_status tsr_shard_box(const tsr_sharding *sharding, tsr_shape shape, int position,
                                 tsr_box *out);

/* Writes the parts of all positions in order: the index map. `count` must be the number of
 * positions. Errors as tsr_shard_box. Local. */
TSR_API tsr_status tsr_shard_boxes(const tsr_sharding *sharding, tsr_shape shape, tsr_box *out,
                                   int count);

/* Writes the shape of the largest part, which position 0 holds; of an even sharding all are so.
 * Errors as tsr_shard_box. Local. */
TSR_API tsr_status tsr_shard_shape(const tsr_sharding *sharding, tsr_shape shape, tsr_shape *out);

/* Returns how many positions before this one hold the same part; -1 outside the mesh. Local. */
TSR_API int tsr_shard_replica(const tsr_sharding *sharding, int position);

/* Tells whether each device holds the whole value: no axis larger than 1 cuts a dim. Local. */
TSR_API bool tsr_sharding_replicated(const tsr_sharding *sharding);

/* Tells whether this process has all devices of a sharding; false on an abstract mesh. Local. */
TSR_API bool tsr_sharding_addressable(const tsr_sharding *sharding);

/* How shardings are drawn. Zero means default. */
typedef struct tsr_draw_opts {
  size_t size TSR_REST_BY_NAME;
  bool colour;   /* parts are coloured areas instead of boxes (ANSI, 256 colours) */
  double scale;  /* of the height, 10 lines; 0 = 1 */
  int min_width; /* of a part, in characters; 0 = 9 */
  int max_width; /* of a part; 0 = 80 */
  int width;     /* of a line; 0 = 80 */
} tsr_draw_opts;

/* Draws which devices hold which part of a shape: rows and columns are the parts of the last two
 * dims, what is before them is drawn part by part. Labels are device ids, of an abstract mesh
 * positions. Errors: TSR_EAXIS, TSR_ESHAPE as tsr_shard_box, TSR_EARG for sizes out of range and
 * meshes of more than 2^14 devices. Returns text owned by the scope, on error its message. Local.
 */
TSR_API const char *tsr_visualize_sharding_with(tsr_scope *scope, tsr_sharding sharding,
                                                tsr_shape shape, const tsr_draw_opts *opts,
                                                const char *site);

/* A type as its text says it. */
typedef struct tsr_type {
  tsr_dtype dtype;
  tsr_shape shape;
  tsr_sharding on;
} tsr_type;

/* Reads "f32[1024,32]@(data,-)", or without "@(...)" a replicated type, on a mesh (NULL: unplaced).
 * Errors: TSR_EPARSE, TSR_EDTYPE, TSR_ESHAPE, TSR_EAXIS, recorded in the scope; `*out` is untouched
 * on failure. Local. */
TSR_API TSR_MUST_USE tsr_status tsr_type_parse_at(tsr_scope *scope, const tsr_mesh *mesh,
                                                  const char *text, tsr_type *out,
                                                  const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* TSR_SHAPE(8, 8); TSR_SCALAR is the shape of one value. */
#define TSR_SHAPE(...)                                                               \
  ((tsr_shape){ .rank = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), \
                .dims = { __VA_ARGS__ } })
#define TSR_SCALAR ((tsr_shape){ .rank = 0 })
/* tsr_on(mesh, "x,y"), tsr_on(scope, "x,y"), tsr_on(mesh, "x,y", .strict = true). */
#define tsr_on(...) TSR_NEEDS_2_("tsr_on(place, spec)", TSR_ON_, __VA_ARGS__)
/* clang-format off */
#define TSR_ON_(place, spec, ...)                                            \
  _Generic((place),                                                          \
      tsr_scope *: tsr_on_scope,                                        \
      const tsr_scope *: tsr_on_scope,                                  \
      default: tsr_on_with)((place), (spec),                                    \
          &(tsr_on_opts){ .size = sizeof(tsr_on_opts), __VA_ARGS__ })
/* clang-format on */
/* tsr_visualize_sharding(s, sharding, shape), (..., .colour = true) */
#define tsr_visualize_sharding(...)                                                       \
  TSR_NEEDS_3_("tsr_visualize_sharding(scope, sharding, shape)", TSR_VISUALIZE_SHARDING_, \
               __VA_ARGS__)
#define TSR_VISUALIZE_SHARDING_(scope, sharding, shape, ...)                                  \
  tsr_visualize_sharding_with((scope), (sharding), (shape),                                   \
                              &(tsr_draw_opts){ .size = sizeof(tsr_draw_opts), __VA_ARGS__ }, \
                              TSR_HERE)
#define tsr_type_parse(scope, mesh, text, out) \
  tsr_type_parse_at((scope), (mesh), (text), (out), TSR_HERE)
#endif

#endif
