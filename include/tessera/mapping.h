/* Mapping: functions of one element that work on many, and bodies that see what a device holds. */
#ifndef TESSERA_MAPPING_H
#define TESSERA_MAPPING_H

#include "collectives.h"
#include "function.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_UNMAPPED (-128) /* of .in_dims and .out_dims: what is the same for all */

typedef struct tsr_vmap_args {
  size_t size;
  tsr_function *function TSR_REST_BY_NAME;
  int in_dims[TSR_MAX_ARGS];  /* which dim of each argument is mapped over, of a tree that of each
                                 of its arrays; negative: from the end; by default the first */
  int out_dims[TSR_MAX_ARGS]; /* where it lies in each array of the result; TSR_UNMAPPED: it has
                                 none, as it is the same for all, which is proved */
  const char *axis;           /* a name for collectives in the body, at most 31 bytes; NULL: none */
} tsr_vmap_args;

/* Makes a function of many out of one of one: the body sees each argument without the mapped dim,
 * and runs for all elements at once; nothing is unrolled. A draw by a key of the body's is the same
 * for all elements; keys that are mapped over draw what they do one by one. A tsr_while goes on as
 * long as any element does, and where elements choose each for itself all bodies run, for all of
 * them. tsr_vmap(f, .in_dims =
 * { 0, TSR_UNMAPPED }). Errors come at the call: TSR_ESHAPE (mapped dims of different sizes),
 * TSR_EARG, TSR_EUNSUPPORTED for an operation that cannot be mapped over. Returns a function that
 * lives as long as `function`. Local. */
TSR_API tsr_function *tsr_vmap_at(const tsr_vmap_args *args, const char *site);

typedef struct tsr_pmap_args {
  size_t size;
  tsr_function *function TSR_REST_BY_NAME;
  int in_dims[TSR_MAX_ARGS], out_dims[TSR_MAX_ARGS]; /* as of tsr_vmap */
  const char *axis; /* a name for collectives in the body, at most 31 bytes; NULL: "devices" */
} tsr_pmap_args;

/* As tsr_vmap, each element on a device of its own: the first ones, as many as there are elements.
 * Errors of its calls: those of tsr_vmap, TSR_EARG for more elements than devices, and TSR_EAXIS
 * where an argument lies on others than those: tsr_reshard it before. Returns a function that lives
 * as long as `function`. Local. */
TSR_API tsr_function *tsr_pmap_at(const tsr_pmap_args *args, const char *site);

typedef struct tsr_xmap_args {
  size_t size;
  tsr_function *function TSR_REST_BY_NAME;
  /* Names for the dims of each argument and of each array of the result, "batch,-": the body sees
   * the dims that have none, and knows the others by name. */
  const char *in_axes[TSR_MAX_ARGS], *out_axes[TSR_MAX_ARGS];
  const tsr_mesh *mesh; /* dims with the name of an axis of it lie along that; NULL: as they come */
} tsr_xmap_args;

/* Makes a function mapped over named dims: a tsr_vmap for each name. A name that a result has not
 * must be reduced: that the result is the same along it is proved. tsr_xmap(f, .in_axes = {
 * "batch,features" }, .out_axes = { "batch" }). Errors: TSR_EARG (names), TSR_EAXIS (a result's
 * name that no argument has); of its calls those of tsr_vmap. Returns a function that lives as long
 * as `function`. Local. */
TSR_API tsr_function *tsr_xmap_at(const tsr_xmap_args *args, const char *site);

typedef struct tsr_shard_map_args {
  size_t size TSR_REST_BY_NAME;
  tsr_array *in[TSR_MAX_ARGS]; /* up to the first NULL */
  const char
      *in_specs[TSR_MAX_ARGS]; /* how each is cut for the body; NULL: the body sees it whole */
  const char *out_specs[TSR_MAX_ARGS]; /* how the shards of each array of the result make it */
  const char *axes; /* those that are manual, "x,y": the specs name no others, and the planner cuts
                       along those as it likes; NULL: all that are not manual around it */
  /* Dims that their axes do not divide are cut all the same, as arrays are: the body sees as many
   * rows everywhere as the first shard has, the last of them zeros where a shard has fewer; a mask
   * of trues, cut alike, tells them. A dim of a result that is as long and cut by the same axes is
   * joined without them. */
  bool uneven;
} tsr_shard_map_args;

/* Runs a body on each device of a mesh: it sees the device's shard of each argument and may use the
 * axes of the mesh in collectives. An array of the result whose spec does not name an axis must be
 * the same along it, which is proved: what comes of a shard, or of tsr_axis_index, differs until a
 * psum or the like. An array from outside that the body uses is the same everywhere; an argument of
 * a function around it has to be an argument of the body. tsr_shard_map(mesh, body, user, .in = { x
 * }, .in_specs = { "x,y" }, .out_specs = { "x" }). Errors: TSR_ESHAPE (a dim that its axes do not
 * divide), TSR_EAXIS, TSR_EARG (specs of what is not there), and those of the body. Returns an
 * array or a tree, owned as results are. Local. */
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
