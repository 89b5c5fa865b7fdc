/* Mapping: functions of one element applied to all elements, and bodies that run on each device's
 * shards. */
#ifndef TESSERA_MAPPING_H
#define TESSERA_MAPPING_H

#include "collectives.h"
#include "function.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_UNMAPPED (-128) /* in .in_dims and .out_dims: the same value for all elements */

typedef struct tsr_vmap_args {
  size_t size;
  tsr_function *function TSR_REST_BY_NAME;
  int in_dims[TSR_MAX_ARGS];  /* the mapped dim of each argument, for a tree of each of its arrays;
                               * negative: from the end; by default the first */
  int out_dims[TSR_MAX_ARGS]; /* the mapped dim in each array of the result; TSR_UNMAPPED: none, as
                               * the array is the same for all elements, which is proved */
  const char *axis;           /* a name for collectives in the body, at most 31 bytes; NULL: none */
} tsr_vmap_args;

/* Makes a function that maps `function` over a dim of its arguments: the body sees each argument
 * without the mapped dim and runs for all elements at once; nothing is unrolled. A draw by a key of
 * the body's is the same for all elements; mapped keys give each element its own draw. A tsr_while
 * runs as long as any element needs, and where elements choose different bodies all bodies run for
 * all elements. tsr_vmap(f, .in_dims = { 0, TSR_UNMAPPED }). Errors come at the call: TSR_ESHAPE
 * (mapped dims of different sizes), TSR_EARG, TSR_EUNSUPPORTED for an operation that cannot be
 * mapped. Returns a function that lives as long as `function`. Local. */
TSR_API tsr_function *tsr_vmap_at(const tsr_vmap_args *args, const char *site);

typedef struct tsr_pmap_args {
  size_t size;
  tsr_function *function TSR_REST_BY_NAME;
  int in_dims[TSR_MAX_ARGS], out_dims[TSR_MAX_ARGS]; /* as in tsr_vmap_args */
  const char *axis; /* a name for collectives in the body, at most 31 bytes; NULL: "devices" */
} tsr_pmap_args;

/* Makes a function as tsr_vmap does, with each element on a device of its own: the first devices,
 * as many as there are elements. Errors of its calls: those of tsr_vmap, TSR_EARG for more elements
 * than devices, and TSR_EAXIS for an argument on other devices: tsr_reshard it first. Returns a
 * function that lives as long as `function`. Local. */
TSR_API tsr_function *tsr_pmap_at(const tsr_pmap_args *args, const char *site);

typedef struct tsr_xmap_args {
  size_t size;
  tsr_function *function TSR_REST_BY_NAME;
  /* Names for the dims of each argument and of each array of the result, "batch,-": the body sees
   * the dims without a name, and uses the others by name. */
  const char *in_axes[TSR_MAX_ARGS], *out_axes[TSR_MAX_ARGS];
  const tsr_mesh *mesh; /* a dim with the name of an axis is sharded over it; NULL: shardings stay
                         * as they are */
} tsr_xmap_args;

/* Makes a function mapped over named dims: a tsr_vmap per name. The body must reduce a name that a
 * result lacks: the result is proved to be the same along it. tsr_xmap(f, .in_axes = {
 * "batch,features" }, .out_axes = { "batch" }). Errors: TSR_EARG (names), TSR_EAXIS (a result's
 * name that no argument has); of its calls those of tsr_vmap. Returns a function that lives as long
 * as `function`. Local. */
TSR_API tsr_function *tsr_xmap_at(const tsr_xmap_args *args, const char *site);

typedef struct tsr_shard_map_args {
  size_t size TSR_REST_BY_NAME;
  tsr_array *in[TSR_MAX_ARGS];         /* up to the first NULL */
  const char *in_specs[TSR_MAX_ARGS];  /* sharding of each argument; NULL: replicated */
  const char *out_specs[TSR_MAX_ARGS]; /* sharding of each array of the result */
  const char *axes; /* the manual axes, "x,y": specs name only these, and the planner shards over
                     * the others; NULL: all axes that are not manual around this call */
  /* Dims that their axes do not divide are allowed: the body sees as many rows on every device as
   * the first shard has, and a shorter shard ends in rows of zeros; a mask of trues, sharded the
   * same way, tells them apart. A dim of a result of that length over the same axes is joined
   * without these rows. */
  bool uneven;
} tsr_shard_map_args;

/* Runs a body on each device of a mesh: it sees the device's shard of each argument and may use the
 * mesh axes in collectives. An array of the result whose spec does not name an axis must be the
 * same along it, which is proved: a value computed from a shard, or from tsr_axis_index, varies
 * until a psum or another collective joins it. An array from outside that the body uses is the same
 * everywhere; an argument of an enclosing function must be an argument of the body.
 * tsr_shard_map(mesh, body, user, .in = { x }, .in_specs = { "x,y" }, .out_specs = { "x" }).
 * Errors: TSR_ESHAPE (a dim that its axes do not divide), TSR_EAXIS, TSR_EARG (a spec without its
 * array), and those of the body. Returns an array or a tree, owned as results are. Local. */
TSR_API tsr_array *tsr_shard_map_at(const tsr_mesh *mesh, tsr_body_fn *body, void *user,
                                    const tsr_shard_map_args *args, const char *site);

/* tsr_vmap(f), tsr_vmap(f, .in_dims = { 0, TSR_UNMAPPED }, .axis = "i") */
#define TSR_VMAP_(function_, ...) \
  (&(tsr_vmap_args){ .size = sizeof(tsr_vmap_args), .function = (function_), __VA_ARGS__ })
#define tsr_vmap(...) tsr_vmap_at(TSR_VMAP_(__VA_ARGS__, ), TSR_HERE)
#define TSR_PMAP_(function_, ...) \
  (&(tsr_pmap_args){ .size = sizeof(tsr_pmap_args), .function = (function_), __VA_ARGS__ })
#define tsr_pmap(...) tsr_pmap_at(TSR_PMAP_(__VA_ARGS__, ), TSR_HERE)
#define TSR_XMAP_(function_, ...) \
  (&(tsr_xmap_args){ .size = sizeof(tsr_xmap_args), .function = (function_), __VA_ARGS__ })
#define tsr_xmap(...) tsr_xmap_at(TSR_XMAP_(__VA_ARGS__, ), TSR_HERE)
#define tsr_shard_map(mesh, body, user, ...)                                                 \
  tsr_shard_map_at((mesh), (body), (user),                                                   \
                   &(tsr_shard_map_args){ .size = sizeof(tsr_shard_map_args), __VA_ARGS__ }, \
                   TSR_HERE)

#ifdef __cplusplus
}
#endif

#endif
