/* Device routines: work on whole shards that is no kernel of elements. Each is a row of the table
 * of operations with the kernel ROUTINE, and a function here.
 *
 * Most work along one dim, line by line. Lines are handed out in strips of neighbours:
 *
 *   shard, dim in the middle     before x along x after
 *   strip                        one of `before`, all of `along`, some of `after`
 *
 * A strip lies in runs of `count` elements, `after` elements from each other. Invariant: a line's
 * result depends on that line alone, so neither strips nor tasks nor meshes change it. */
#ifndef TSR_KERNEL_ROUTINE_H
#define TSR_KERNEL_ROUTINE_H

#include "kernel/fuse/schedule.h"
#include "kernel/tile/interp.h"

/* A routine's function: the entry `call` of the device table for its rows. */
typedef tsr_status tsr__routine_fn(const tsr__call *call, tsr__error *error);

tsr__routine_fn tsr__cpu_call; /* picks by the node's op */
unsigned tsr__cpu_call_axes(const tsr__program *program, int node);
int tsr__cpu_call_apart(const tsr__program *program, int node);
tsr__routine_fn tsr__routine_cumsum, tsr__routine_cumprod, tsr__routine_cummax, tsr__routine_cummin,
    tsr__routine_sort, tsr__routine_scatter, tsr__routine_take, tsr__routine_dynamic_slice,
    tsr__routine_dynamic_update, tsr__routine_dot, tsr__routine_fold;

/* The scratch memory that a routine needs on a device: the entry `call_room` of the device
 * table. */
typedef int64_t tsr__room_fn(const tsr__call *call, const bool *wanted);
tsr__room_fn tsr__cpu_call_room, tsr__room_of_sort, tsr__room_of_scatter;

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct tsr__strip {
  const tsr__call *call;
  const struct tsr__line_work *work;
  const tsr__call_part *part;
  int64_t along, after; /* sides of the shard */
  int64_t at;           /* its first element, in elements of the shard */
  int64_t count;        /* lines */
  unsigned char *room;  /* working memory of the task */
  const void *user;     /* the work's */
  int worker;
  tsr__progress *progress;
} tsr__strip;

/* To be asked at each run of a strip: false once the work was cancelled. `left` begins with 0. */
static inline bool tsr__strip_goes_on(const tsr__strip *strip, int64_t *left)
{
  enum { ASK_AFTER = 1 << 16 }; /* elements */
  *left += strip->count;
  if (*left < ASK_AFTER) return true;
  *left = 0;
  return !tsr__progress_stops(strip->progress, strip->worker);
}

typedef struct tsr__line_work {
  int64_t width; /* the most lines of a strip */
  size_t room;   /* bytes that a strip needs */
  int more;      /* so many dims after the node's are one with it */
  /* TSR_OK, or TSR_ENOMEM; asks `progress` now and then where lines are long. */
  tsr_status (*fn)(const tsr__strip *strip);
  const void *user;
} tsr__line_work;

/* Does the lines of operand 0 along the node's dim, on all devices. */
tsr_status tsr__each_line(const tsr__call *call, const tsr__line_work *work, tsr__error *error);

/* Devices that together hold whole lines, which are cut over them: part[g * members + i] has piece
 * i of the lines of group g. One member where the dim lies whole. */
typedef struct tsr__line_groups {
  int count, members;
  int *part;
} tsr__line_groups;

/* Error: TSR_EUNSUPPORTED where a piece lies in another process. */
tsr_status tsr__line_groups_find(const tsr__call *call, tsr__line_groups *out, tsr__error *error);
/* Devices that differ along axes alone, in order of their positions. */
tsr_status tsr__groups_over(const tsr__call *call, unsigned axes, tsr__line_groups *out,
                            tsr__error *error);
void tsr__line_groups_free(const tsr__call *call, tsr__line_groups *groups);

/* The node, and the dtype of an operand. */
static inline const tsr__gnode *tsr__call_node(const tsr__call *call)
{
  return &call->program->nodes[call->node];
}

static inline tsr_dtype tsr__call_dtype(const tsr__call *call, int operand)
{
  const tsr__gnode *node = tsr__call_node(call);
  return (tsr_dtype)call->program->nodes[tsr__in(call->program, node, operand)].dtype;
}

/* The dim that it goes along, and the rank of operand 0. */
static inline int tsr__call_dim(const tsr__call *call)
{
  return tsr__dim_of(call->program, tsr__call_node(call));
}

static inline int tsr__call_rank(const tsr__call *call)
{
  return call->program->nodes[tsr__in(call->program, tsr__call_node(call), 0)].rank;
}

/* Whether a part is done in this process. */
static inline bool tsr__call_here(const tsr__call *call, int part)
{
  return !call->peers || call->parts[part].process == call->peers->index;
}

/* Whether a scan goes from the last element on. */
static inline bool tsr__call_reverse(const tsr__call *call)
{
  const tsr__scan_attr *attr = tsr__attr_of(call->program, tsr__call_node(call));
  return attr->reverse;
}

/* The numbers of elements of a shard before, along and after a dim. */
typedef struct tsr__sides {
  int64_t before, along, after;
} tsr__sides;

tsr__sides tsr__sides_of(const tsr__shard *shard, int rank, int dim);
/* Takes dims dim .. last as one. */
tsr__sides tsr__sides_over(const tsr__shard *shard, int rank, int dim, int last);

/* Loads floats from element `at` on as doubles, which hold them exactly. */
void tsr__load_reals(tsr_dtype dtype, const void *from, int64_t at, int64_t n, double *out);

#endif
