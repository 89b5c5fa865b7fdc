/* Element types, shapes, devices, meshes and shardings. Pure arithmetic: these calls move no data.
 *
 *   mesh      data=4,model=2     axis names and sizes, row-major over the devices
 *             data=4@25e9,model=2@900e9     with the speed of each axis, in bytes per second
 *   spec      data,-             dim 0 sharded over axis data, dim 1 replicated
 *             -,data+model       dim 1 sharded over both axes, data is the major one
 *             ?,data             dim 0 left to the planner
 *             data,-;sum(model)  partial sums over model: the value is their sum along that axis
 *   type      f32[1024,32]@(data,-)
 *
 * Shards are not padded: a dim of 10 over 4 devices has shards of 3,3,2,2. Over two axes a dim is
 * split axis by axis, so that dropping an axis never moves a border. */
#ifndef TESSERA_TOPOLOGY_H
#define TESSERA_TOPOLOGY_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest rank of an array, including the batch dims that maps and bodies on devices add
 * (mapping.h). */
#define TSR_MAX_RANK 16
#define TSR_MAX_AXES 8

/* Element types. The values are part of the ABI; 14 and 15 are reserved for complex numbers.
 * Devices store bool arrays as one bit an element; put and read use one byte an element. f16 is
 * IEEE's binary16, bf16 the upper half of an f32; both are passed as their 16 bits. */
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

/* Returns the bytes that an element takes in put and read (bool: 1); 0 for a value that is no
 * dtype. Local. */
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
  bool abstract;                   /* a mesh without devices, of at most 2^20 positions */
  int grid_rank;                   /* rank of the torus that wires the devices; 0 = none given,
                                    * devices in order */
  int64_t grid[TSR_MAX_AXES];      /* sizes of the torus, ids row-major; their product is the number
                                    * of devices */
  bool split; /* an axis of the torus may be split over several mesh axes, where whole ones do not
               * fit */
  bool ring;  /* neighbouring positions are neighbours in the torus */
  int64_t outer[TSR_MAX_AXES]; /* processes along each axis, 0 = 1: each divides the axis size, and
                                * the torus is that of one process's part of the mesh */
  double axis_bytes_per_s[TSR_MAX_AXES]; /* bytes per second that a device receives along each axis,
                                          * 1 to 1e15 in whole bytes; 0 for all axes = not given */
  double flops_per_s; /* flops per second of a device, 1 to 9e15 in whole flops, beside speeds of
                       * axes; 0 = 128 in the time of a byte along the fastest axis */
} tsr_mesh_opts;

/* Returns a mesh made from text such as "data=4,model=2", over the first 8 devices in order. Never
 * returns NULL unless `rt` is; a bad text gives an inert mesh, whose error every use reports and
 * tsr_mesh_status returns. The text is copied. The runtime owns the mesh and keeps it until it
 * closes: equal meshes are one, and the first 256 bad ones keep a message of their own.
 *
 * "data=4@25e9,model=2@900e9" also gives the bytes per second that a device receives along each
 * axis; all axes have a speed, or no axis has one. The planner then counts the time of a move in
 * the place of its bytes, and explanations name the time. Speeds change plans, and results no more
 * than another sharding may. Meshes that differ in a speed are different meshes.
 *
 * The planner also counts products of arrays that several devices make alike: 128 flops weigh as
 * much as a byte along the fastest axis. "data=4@25e9,model=2@900e9;flops=312e12" gives the flops
 * per second of a device in their place; without speeds of axes that is an error. Local. */
TSR_API tsr_mesh *tsr_mesh_make(tsr_runtime *rt, const char *text);

/* Returns a mesh made from options; otherwise as tsr_mesh_make. With a torus, the last axis of the
 * mesh takes axes of the torus first, several whole ones where possible. Local. */
TSR_API tsr_mesh *tsr_mesh_make_with(tsr_runtime *rt, const tsr_mesh_opts *opts);

/* Returns a mesh of sizes without devices: shardings, index maps and drawings work on it, arrays
 * with data do not (TSR_EAXIS). Otherwise as tsr_mesh_make. Local. */
TSR_API tsr_mesh *tsr_mesh_abstract(tsr_runtime *rt, const char *text);

/* Returns the sub-mesh whose coordinates along `axis` are `start` to before `start + count`: the
 * same axes over fewer devices. A bad axis or range gives an inert mesh, as in tsr_mesh_make; NULL
 * gives NULL. Owned by the runtime. Local. */
TSR_API tsr_mesh *tsr_mesh_sub(const tsr_mesh *mesh, const char *axis, int64_t start,
                               int64_t count);

/* Makes `mesh` the default mesh of a scope and of scopes nested in it afterwards: tsr_on(scope,
 * "x,y") is a sharding on it. NULL restores the default of the scope around it. The mesh is
 * borrowed. Local. */
TSR_API void tsr_scope_use_mesh(tsr_scope *scope, const tsr_mesh *mesh);

/* Returns the default mesh of a scope or of the nearest scope around it that has one, else NULL.
 * Owned by the runtime. Local. */
TSR_API const tsr_mesh *tsr_scope_mesh(const tsr_scope *scope);

/* Returns the default mesh of a runtime: all devices on one axis `axis` ("data" if NULL). Local. */
TSR_API tsr_mesh *tsr_mesh_default(tsr_runtime *rt, const char *axis);

/* Returns TSR_OK, or the error that made the mesh inert. Local. */
TSR_API tsr_status tsr_mesh_status(const tsr_mesh *mesh);

/* Returns the message of an inert mesh, or ""; owned by the mesh. Local. */
TSR_API const char *tsr_mesh_message(const tsr_mesh *mesh);

/* Returns the mesh as text, "data=4,model=2" or "data=4@25e9,model=2@900e9"; owned by the mesh.
 * Local. */
TSR_API const char *tsr_mesh_text(const tsr_mesh *mesh);

/* Returns the number of axes; 0 for an inert mesh. Local. */
TSR_API int tsr_mesh_axis_count(const tsr_mesh *mesh);

/* Returns the name of an axis, owned by the mesh, or NULL for a number out of range. Local. */
TSR_API const char *tsr_mesh_axis_name(const tsr_mesh *mesh, int axis);

/* Returns the size of the axis with a name, 0 if no axis has it. Local. */
TSR_API int64_t tsr_mesh_axis_size(const tsr_mesh *mesh, const char *name);

/* Returns the number of devices of the mesh. Local. */
TSR_API int tsr_mesh_device_count(const tsr_mesh *mesh);

/* Returns whether a mesh has no devices. Local. */
TSR_API bool tsr_mesh_is_abstract(const tsr_mesh *mesh);

/* Returns the id of the device at a row-major position of the mesh; -1 for a position out of range
 * and for an abstract mesh. Local. */
TSR_API int tsr_mesh_device(const tsr_mesh *mesh, int position);

/* The sharding of an array over a mesh: a plain value. Zero-initialised it means "unplaced": on one
 * device, free to take the sharding of the other operands. Read it with the functions below. */
typedef struct tsr_sharding {
  const tsr_mesh *mesh;            /* NULL = unplaced; for a bad spec an inert mesh with the
                                    * message */
  uint16_t open;                   /* bit d: dim d is "?", sharded as the planner chooses */
  uint8_t first[TSR_MAX_RANK + 1]; /* the axes of dim d are axis[first[d] .. first[d + 1]) */
  uint8_t axis[TSR_MAX_AXES];      /* axis numbers of the mesh, the major one first */
  uint8_t rank;                    /* number of dims in the spec; later dims are replicated */
  bool strict;                     /* an uneven dim is an error */
  uint8_t unreduced;               /* bit a: partial sums along axis a of the mesh */
  uint8_t priority[4];             /* two bits a dim, dim 0 lowest: "x:p1" is 1; 0 comes first */
  uint8_t memory;                  /* 0 device, 1 pinned host, 2 unpinned host */
  uint8_t zeros[5];                /* no padding: shardings are compared as bytes */
} tsr_sharding;

/* Options of tsr_on. */
typedef struct tsr_on_opts {
  size_t size TSR_REST_BY_NAME;
  bool strict; /* true: a dim that its axes do not divide is an error */
} tsr_on_opts;

/* Returns the sharding that a spec describes on a mesh. A bad spec gives a sharding whose error is
 * reported by the call that uses it and by tsr_mesh_message(sharding.mesh). "", "-" and NULL mean
 * replicated; on a NULL mesh they mean unplaced, and any other text is bad. Spaces between words
 * and one pair of parentheses around the spec are allowed, so that printed specs can be typed.
 * "x:p1" is a priority: the planner propagates the shardings of p0 dims first (p0 is the default),
 * then those of p1, p2 and p3; a priority moves no data. "x;pinned_host" names a kind of memory:
 * device (the default), pinned_host or unpinned_host. Index maps and comparisons take any kind,
 * data can only be in the default one (TSR_EUNSUPPORTED). The text is copied. Local. */
TSR_API tsr_sharding tsr_on_with(const tsr_mesh *mesh, const char *spec, const tsr_on_opts *opts);

/* Returns a sharding from one text per dim: "x", "x+y" or NULL for replicated. Local. */
TSR_API tsr_sharding tsr_on_dims(const tsr_mesh *mesh, int rank, const char *const *axes);

/* Returns the sharding of tsr_on_with on the default mesh of a scope; the macro tsr_on takes a mesh
 * or a scope. A text that names axes is bad where no enclosing scope has a default mesh. Local. */
TSR_API tsr_sharding tsr_on_scope(const tsr_scope *scope, const char *spec,
                                  const tsr_on_opts *opts);

/* Returns the sharding that places a whole array on one device of the runtime. Local. */
TSR_API tsr_sharding tsr_on_device(tsr_runtime *rt, int device);

/* Writes the spec as text, "(data,-)" for rank 2, NUL-terminated and cut to `capacity`; "unplaced"
 * without a mesh, "(?)" for a bad spec. Returns the length of the whole text. Local. */
TSR_API int tsr_sharding_text(const tsr_sharding *sharding, int rank, char *out, size_t capacity);

/* Writes a type as text, such as "f32[1024,32]@(data,-)"; without "@(...)" when unplaced. Returns
 * the length of the whole text. Local. */
TSR_API int tsr_type_text(tsr_dtype dtype, tsr_shape shape, const tsr_sharding *sharding, char *out,
                          size_t capacity);

/* Returns whether two shardings put the same elements of a shape on the same devices, in the same
 * kind of memory; shardings with '?' or partial sums are the same only where they are equal.
 * Local. */
TSR_API bool tsr_sharding_same(const tsr_sharding *a, const tsr_sharding *b, tsr_shape shape);

/* The place of one device's shard in a global array: start and size along each dim. */
typedef struct tsr_box {
  int64_t start[TSR_MAX_RANK];
  int64_t size[TSR_MAX_RANK];
} tsr_box;

/* Writes the box of `shape` that the device at a position of the sharding's mesh holds. Unplaced:
 * position 0 holds the whole array. Errors: TSR_EAXIS for a bad spec; the mesh's own status when
 * the mesh is inert; TSR_ESHAPE for a bad shape, one with fewer dims than the spec names, or an
 * uneven one when the sharding is strict; TSR_EARG for a bad position or NULL. Local. */
TSR_API tsr_status tsr_shard_box(const tsr_sharding *sharding, tsr_shape shape, int position,
                                 tsr_box *out);

/* Writes the boxes of all positions in order: the index map. `count` must be the number of
 * positions. Errors as tsr_shard_box. Local. */
TSR_API tsr_status tsr_shard_boxes(const tsr_sharding *sharding, tsr_shape shape, tsr_box *out,
                                   int count);

/* Writes the shape of the largest shard, which position 0 holds; in an even sharding all shards
 * have this shape. Errors as tsr_shard_box. Local. */
TSR_API tsr_status tsr_shard_shape(const tsr_sharding *sharding, tsr_shape shape, tsr_shape *out);

/* Returns how many earlier positions hold the same shard as this one; -1 outside the mesh.
 * Local. */
TSR_API int tsr_shard_replica(const tsr_sharding *sharding, int position);

/* Returns whether each device holds the whole value: no axis larger than 1 shards a dim. Local. */
TSR_API bool tsr_sharding_replicated(const tsr_sharding *sharding);

/* Returns whether this process owns all devices of a sharding; false on an abstract mesh. Local. */
TSR_API bool tsr_sharding_addressable(const tsr_sharding *sharding);

/* Options of tsr_visualize_sharding. Zero means default. */
typedef struct tsr_draw_opts {
  size_t size TSR_REST_BY_NAME;
  bool colour;   /* shards are coloured areas instead of boxes (ANSI, 256 colours) */
  double scale;  /* factor of the height of 10 lines; 0 = 1 */
  int min_width; /* of a shard, in characters; 0 = 9 */
  int max_width; /* of a shard; 0 = 80 */
  int width;     /* of a line; 0 = 80 */
  bool svg;      /* an SVG document (UTF-8) instead of text; a character is 8 pixels wide */
} tsr_draw_opts;

/* Draws which devices hold which shard of a shape: rows and columns are the shards of the last two
 * dims, with one drawing per shard of the dims before them. Labels are device ids, or positions for
 * an abstract mesh. An SVG document stands alone: shards are always coloured areas, empty shards
 * are outlines, and each shard has its ranges as a title. Errors: TSR_EAXIS, TSR_ESHAPE as
 * tsr_shard_box; TSR_EARG for sizes out of range and meshes of more than 2^14 devices. Returns text
 * owned by the scope, on error its message. Local. */
TSR_API const char *tsr_visualize_sharding_with(tsr_scope *scope, tsr_sharding sharding,
                                                tsr_shape shape, const tsr_draw_opts *opts,
                                                const char *site);

/* An array type: "f32[1024,32]@(data,-)". */
typedef struct tsr_type {
  tsr_dtype dtype;
  tsr_shape shape;
  tsr_sharding on;
} tsr_type;

/* Parses a type such as "f32[1024,32]@(data,-)" on a mesh; without "@(...)" the type is replicated.
 * With a NULL mesh it is unplaced. Errors: TSR_EPARSE, TSR_EDTYPE, TSR_ESHAPE, TSR_EAXIS, recorded
 * in the scope; `*out` is untouched on failure. Local. */
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
