/* Inside transform/: a function mapped over one dim, as vmap, pmap, xmap and shard_map make it. */
#ifndef TSR_TRANSFORM_MAPPED_H
#define TSR_TRANSFORM_MAPPED_H

#include "tessera/mapping.h"
#include "transform/batch.h"

/* What tsr__map_body holds. */
typedef struct tsr__mapped {
  tsr_function *f;
  const char *call; /* "tsr_vmap" */
  int in_dims[TSR_MAX_ARGS], out_dims[TSR_MAX_ARGS];
  const char *axis;     /* NULL: none */
  const tsr_mesh *mesh; /* if the axis is one of it, elements lie along it */
  int64_t most;         /* pmap: devices, of which each has one element; 0: any number */
  int64_t size; /* of shard_map's axis: results that do not vary stay without the front; 0: as large
                   as arguments say */
  bool *varies; /* of shard_map's axis: which results do, told by the trace */
} tsr__mapped;

/* A body: `user` is a tsr__mapped. */
tsr_array *tsr__map_body(tsr_scope *scope, tsr_array *const *in, void *user);

#endif
