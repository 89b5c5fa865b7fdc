/* Inside partition/: how shardings flow through a program, and the places that each node needs its
 * operands at. */
#ifndef TSR_PARTITION_FLOW_H
#define TSR_PARTITION_FLOW_H

#include "graph/accums.h"
#include "partition/partition.h"

/* One way to do a node: the place of its result, and the places it needs its operands at. Places
 * are numbers of flow->places; 0 is unplaced, and stands for operands without a place (constants,
 * left out). */
typedef struct tsr__way {
  struct tsr__way *next; /* the next of the same node, in order of preference */
  int64_t bytes;         /* the least bytes of the node and its operands to lie so */
  int64_t own;           /* bytes of its own partials and results, and of its work */
  int32_t asker;         /* the reshard or constraint that asked for it; -1 */
  uint16_t at;
  uint8_t meet;   /* mesh axes over which partials are combined */
  uint8_t fresh;  /* not yet weighed */
  uint16_t parts; /* parts into which its work is cut */
  uint16_t need[];
} tsr__way;

/* The axes of one factor, major first. */
typedef struct tsr__axes {
  uint8_t count;
  uint8_t axis[TSR_MAX_AXES];
} tsr__axes;

/* The number of leading axes that equal those given. */
static inline int tsr__axes_begin(const tsr__axes *axes, const uint8_t *axis, int count)
{
  int k = 0;
  while (k < axes->count && k < count && axes->axis[k] == axis[k]) k++;
  return k;
}

/* The axes that cut each factor. */
typedef struct tsr__cuts {
  const tsr_mesh *mesh;
  unsigned used; /* axes that cut a factor */
  tsr__axes axes[TSR__MAX_FACTORS];
} tsr__cuts;

/* The factors of a node and of its operands' dims, computed once. */
typedef struct tsr__terms {
  struct tsr__terms *next; /* memo.c */
  int32_t operands;
  bool plain; /* the types of few operands give all of its shape: its terms and ways are kept */
  uint8_t count;
  uint8_t kind[TSR__MAX_FACTORS];
  int8_t out[TSR_MAX_RANK];
  tsr__further further[TSR_MAX_RANK], further_in[TSR_MAX_RANK];
  int8_t in[][TSR_MAX_RANK]; /* by operand */
} tsr__terms;

/* The cost of a node at another place: bytes, nothing, or making it again. */
enum tsr__carriage { TSR__CARRY_BYTES, TSR__CARRY_NONE, TSR__CARRY_REMADE };

/* Changes of a node: the list of its ways or their order, their bytes, a want of a fixed node. */
enum tsr__change { TSR__CHANGED_WAYS = 1, TSR__CHANGED_BYTES = 2, TSR__CHANGED_WANTS = 4 };

/* The search for ways that share work among devices which would each make all of it. A plan is
 * made with it and, if it found any, without it; the cheaper plan is taken (partition.c). */
typedef struct tsr__sharing {
  bool found;
} tsr__sharing;

typedef struct tsr__flow {
  const tsr__program *program;
  tsr__arena *arena;
  unsigned manual;       /* manual axes: of every mesh, bit a = its axis a */
  tsr__sharing *sharing; /* ways that share work among devices; NULL: none is looked for */
  tsr_sharding *places;  /* distinct places */
  bool *full;            /* by place: it uses all axes of its mesh */
  int place_count, place_room;
  struct tsr__rate *rates; /* the meshes with speeds */
  int64_t byte_cost;       /* a byte on a mesh without speeds, or along the fastest axis */
  int64_t fastest;         /* the speed of that axis; 0: no mesh has speeds */
  struct tsr__scale *scale;
  struct tsr__memo *memo;
  tsr__way *draft; /* long enough for the needs of any node */
  /* by node of the program */
  tsr__way **ways; /* a list; once all are weighed, the chosen way first */
  const tsr__terms **terms;
  int32_t *type;        /* nodes of one dtype and shape have one number */
  uint16_t *asked;      /* a place where a reshard or constraint wants it; 0: nowhere */
  uint8_t *free;        /* computed from numbers alone, so it can be made anywhere */
  uint8_t *fixed;       /* it has one way: leaves, users' placements, run-time rows, regions */
  uint8_t *ragged;      /* its rows lie as a filter left them */
  uint8_t *carry;       /* tsr__carriage */
  uint8_t *changed;     /* tsr__change since its users looked last */
  uint8_t *was_cut;     /* axes that cut it or something that it is computed of, by its first way */
  tsr_sharding *claims; /* cuts that all its ways must have; NULL: no claims */
  /* the lists of follow.c; NULL in programs without nodes that follow others */
  int32_t *follows; /* the node whose place it takes once that has one; -1: none */
  uint16_t *least;  /* the place by whose axes it is cut, perhaps by more; 0: any */
  uint8_t *unread;  /* others follow it, and nobody reads it */
  /* of the program */
  bool open;   /* there is something to weigh */
  bool failed; /* out of memory */
} tsr__flow;

/* Equal nodes share one answer (memo.c). Types are numbered in the order of nodes. */
bool tsr__memo_start(tsr__flow *flow);
void tsr__memo_type(tsr__flow *flow, int n);
/* Elements of a node; a size known at run time counts as a large one. */
int64_t tsr__memo_elements(const tsr__flow *flow, int n);

/* The input of a way: the rule that makes it, and all that the rule reads. */
enum { TSR__FEW = 3 }; /* the most operands of nodes whose ways are kept */
typedef struct tsr__question {
  const tsr__terms *terms;
  int32_t type, types[TSR__FEW]; /* its own and those of its operands */
  uint16_t first[TSR__FEW];      /* the operands' places by their first ways */
  uint16_t place;                /* the place that the way follows */
  uint16_t reduces;              /* the operation, of reductions, views and nodes that scale */
  int32_t lead;                  /* the operand that is followed */
  uint8_t how;                   /* propagate.c */
  uint8_t consts, free;          /* operands that are constants, or free: a bit each */
} tsr__question;

/* The factors of a node. NULL out of memory. */
const tsr__terms *tsr__memo_terms(tsr__flow *flow, int n);
/* The question of a node but for place, how and lead. */
void tsr__memo_question(tsr__flow *flow, int n, tsr__question *out);
/* Sets the place that a question follows. True: the place uses all axes of its mesh, and each dim
 * that it cuts has a factor in `map` that need not be whole. The operands' first places are then
 * left out of the question. */
bool tsr__question_set_place(const tsr__flow *flow, tsr__question *question, const int8_t *map,
                             int place);
/* The way that answered an equal question before, or NULL, as where dims have claims;
 * tsr__memo_keep_way stores a way. */
const tsr__way *tsr__memo_find_way(tsr__flow *flow, const tsr__question *question);
void tsr__memo_keep_way(tsr__flow *flow, int n, const tsr__question *question, const tsr__way *way);

typedef struct tsr__flow_opts {
  unsigned manual; /* no placement may name these axes, so no dim is cut by them, and no data moves
                    * along them or is combined over them */
  tsr__sharing *sharing; /* NULL: no work is shared */
} tsr__flow_opts;

/* Chooses a way for every node of a program; out->program is the program to rewrite. */
tsr_status tsr__flow_run(const tsr__program *program, tsr__flow_opts opts, tsr__arena *arena,
                         tsr__flow *out, tsr__error *error);

/* Claims of dims that users ranked before others (claim.c), and the cuts of a node's factors that
 * follow from them; false: no cuts. */
void tsr__flow_claim(tsr__flow *flow);
bool tsr__flow_claimed(tsr__flow *flow, int n, const tsr__terms *terms, tsr__cuts *out);

/* Nodes that follow others (follow.c). tsr__follow_start replaces flow->program by the program as
 * propagation sees it; false: out of memory. tsr__follow_settle, after a choice, fixes nodes at the
 * places of those that they follow; true: one of them lay elsewhere, and all is to be weighed
 * again. */
bool tsr__follow_start(tsr__flow *flow);
bool tsr__follow_settle(tsr__flow *flow);
/* Whether a node may lie at a place. */
bool tsr__follow_allows(const tsr__flow *flow, int n, int place);

/* Weighing (weigh.c): tsr__flow_start_scale comes first. tsr__flow_weigh_node then weighs each node
 * after its operands, drops ways that another way and a move can replace, and returns tsr__change.
 * After tsr__flow_want_fixed each node may be weighed again. tsr__flow_choose puts first in each
 * list the way with which, as far as it finds, the program moves the fewest bytes, or takes the
 * least time where a mesh has speeds. Costs are called bytes in both cases. Before nodes are
 * weighed for another choice, tsr__flow_forget_wants drops the wants of the one before. */
void tsr__flow_start_scale(tsr__flow *flow);
/* The bytes that a node itself moves in a way: its partials and results, the prefixes that a scan
 * passes on, or a view's elements of other devices. A product also counts the products that several
 * devices repeat. */
int64_t tsr__flow_own_bytes(const tsr__flow *flow, int n, const tsr__way *way);
int tsr__flow_weigh_node(tsr__flow *flow, int n);
void tsr__flow_forget_wants(tsr__flow *flow);
void tsr__flow_want_fixed(tsr__flow *flow);
void tsr__flow_choose(tsr__flow *flow);

/* The place of a node by its first way, and the place that it needs operand `i` at. */
static inline const tsr_sharding *tsr__flow_at(const tsr__flow *flow, int n)
{
  return &flow->places[flow->ways[n]->at];
}

static inline const tsr_sharding *tsr__flow_need(const tsr__flow *flow, int n, int i)
{
  return &flow->places[flow->ways[n]->need[i]];
}

/* Whether partials that lie at `whole` and meet over `axes` can leave their result at a place: that
 * place is `whole`, perhaps cut further by these axes, so that each device finishes its own part.
 * Along axes left unreduced the first devices keep the result; along the rest other devices get
 * copies. */
bool tsr__meets_at(const tsr_sharding *whole, unsigned axes, const tsr_sharding *place);

/* Whether a node may stay unreduced: the elements of a root are read, unless TSR__KEEP allows
 * it. */
static inline bool tsr__may_stay(const tsr__gnode *node)
{
  return !(node->flags & TSR__ROOT) || node->flags & TSR__KEEP;
}

/* Whether a sum whose partials would meet over `axes` to lie at a place can be left unreduced: its
 * partials meet only when a user needs the value. */
bool tsr__keeps_sum(const tsr__program *program, const tsr__gnode *node, const tsr_sharding *at,
                    unsigned axes);

/* Whether a node only says where its operand lies. */
static inline bool tsr__is_placing(int op)
{
  return op == TSR__OP_CONSTRAIN || op == TSR__OP_RESHARD || tsr__ops[op].follows;
}

/* Whether a node is made anew at each place that needs it: an unplaced source of numbers of the run
 * alone. */
bool tsr__made_anywhere(const tsr__program *program, int n);

/* Whether nobody reads the elements of a node: it has a place for those that follow it. */
static inline bool tsr__is_unread(const tsr__flow *flow, int n)
{
  return flow->unread && flow->unread[n];
}

bool tsr__same_devices(const tsr_mesh *a, const tsr_mesh *b);

/* Whether each dim of the longer sharding is cut by the axes that cut it in the shorter one, and
 * perhaps by more: dropping these moves no border (reshard.c). */
bool tsr__cuts_begin(const tsr_sharding *shorter, const tsr_sharding *longer);

/* Bytes that cross between devices (crossing.c), all devices together. `along` is counted where the
 * mesh has speeds: each byte along the slowest axis that it crosses. */
typedef struct tsr__crossed {
  const tsr_mesh *mesh; /* the mesh that data goes to; the mesh it comes from if it goes to none */
  int64_t bytes;
  int64_t along[TSR_MAX_AXES];
} tsr__crossed;

/* The cost of a byte along each axis of a mesh with speeds. */
typedef struct tsr__rate {
  struct tsr__rate *next;
  const tsr_mesh *mesh;
  int64_t cost[TSR_MAX_AXES];
} tsr__rate;

/* The cost of an impossible move, and the upper bound of costs: the sum of two fits. */
#define TSR__MUCH ((int64_t)1 << 60)

/* Fills flow->rates and flow->byte_cost from the program's meshes. */
void tsr__flow_start_rates(tsr__flow *flow);
/* The cost of bytes, at most TSR__MUCH: their number on a mesh without speeds. */
int64_t tsr__flow_cost(const tsr__flow *flow, const tsr__crossed *crossed);

/* Adds `bytes` from each member but the leader of a group of devices that differ along `axes` to
 * the leader, or back. */
void tsr__crossed_in_groups(tsr__crossed *crossed, unsigned axes, int64_t bytes);
/* Adds `bytes` from each part but the last of a dim to the next part. */
void tsr__crossed_in_line(tsr__crossed *crossed, const tsr_sharding *at, int dim, int64_t bytes);

/* Adds bytes that a device reads from a part, or from its nearest replica, to `along` alone. */
typedef struct tsr__sent {
  const tsr_sharding *from;
  int from_position, device;
  int64_t bytes;
} tsr__sent;

void tsr__crossed_add(tsr__crossed *crossed, const tsr__sent *sent);

/* Adds the elements of a box that a device takes from parts of move->from, which lies on the mesh
 * of `crossed`, to `along` alone, `times` times. */
typedef struct tsr__arrival {
  tsr_dtype dtype;
  int device;
  int64_t times;
} tsr__arrival;

void tsr__crossed_to_position(tsr__crossed *crossed, const tsr__reshard *move, const tsr_box *want,
                              tsr__arrival to);

/* About as many bytes as tsr__move_bytes counts, and exactly as many on meshes of up to 64 devices
 * except for the rounding of pieces of bools: each device gets the elements that it wants and does
 * not hold. `along` is as exact on meshes of up to 16 devices. Sizes must be known. */
tsr__crossed tsr__move_crosses(const tsr__reshard *move, tsr_dtype dtype);

/* One more collective takes 10 us: devices start it and wait for each other. */
enum { TSR__STEPS_PER_S = 100000 };
/* The cost of one more collective on a mesh with speeds: a time that is the same for all. */
int64_t tsr__flow_step_cost(const tsr__flow *flow, const tsr_mesh *mesh);
/* The place at which a move stops on its way, where two steps take less time than one. False: the
 * move does not stop. */
bool tsr__flow_stop(const tsr__flow *flow, const tsr__reshard *move, tsr_dtype dtype,
                    tsr_sharding *out);
/* The cost of a move without blocks, in one step or two. */
int64_t tsr__flow_move_cost(const tsr__flow *flow, const tsr__reshard *move, tsr_dtype dtype);

/* About as many bytes as tsr__shift_bytes counts, with the same exactness; 0 if the view moves no
 * elements. */
tsr__crossed tsr__shift_crosses(const tsr__viewed *viewed);

/* Bytes that cross where partials of a node that lies at `at` meet over `axes`: in each group of p
 * devices p - 1 of `accum`'s partials; `accum` NULL: the copies of the result, to all devices but
 * one of those that differ along axes that neither cut it nor are left unreduced. */
typedef struct tsr__meeting {
  const tsr__program *program;
  const tsr__gnode *node;
  const tsr_sharding *at;
  unsigned axes;
} tsr__meeting;

tsr__crossed tsr__meeting_crosses(const tsr__meeting *meeting, const tsr__accum *accum);

/* Bytes that cross where a node other than a reduction joins elements or updates that are cut over
 * `axes`. A table: in each group of p devices each element of the result is on one of them, and p -
 * 1 lack it; bools travel as bytes. A scatter: p - 1 partials of the result, and as many copies of
 * it. */
tsr__crossed tsr__joining_crosses(const tsr__meeting *meeting);

/* The steps of a product whose partial sums meet (split.c): `part` has each device's part along dim
 * 0, `made` is its place, `met` the place where parts are added up, `sum` the place of their sum.
 * `right`: the place of operand 1. */
typedef struct tsr__split {
  tsr__gnode part;
  tsr_sharding made, met, sum;
} tsr__split;

/* A place with `count` more axes after those of a dim. */
tsr_sharding tsr__cut_further(const tsr_sharding *at, int dim, const uint8_t *axis, int count);
/* The dim with the largest size on a device; -1: no dim is worth cutting. Sizes not known yet (-1)
 * are never the longest. */
int tsr__longest_dim(const tsr__gnode *node, const tsr_sharding *at);
void tsr__split_of(const tsr__meeting *meeting, const tsr_sharding *right, tsr__split *out);
/* The blocks that give an operand of a product, whose dims have `indices`, borders at whole nodes
 * of its tree of leaves, which is the same on any mesh. False: no blocks are needed. */
bool tsr__leaf_blocks(const tsr__gnode *operand, const uint8_t *indices, int64_t leaf,
                      const tsr_sharding *at, tsr__blocks_attr *out);
/* The blocks of operand 0 that hold all elements read by a product's windows, for a product at a
 * place that cuts their dims. False: no blocks are needed. */
bool tsr__window_blocks(const tsr__meeting *meeting, tsr__blocks_attr *out);
/* The cost of the two moves of a split. */
int64_t tsr__split_cost(const tsr__flow *flow, const tsr__meeting *meeting,
                        const tsr_sharding *right);
/* The elements of other devices that windows read, with the exactness of tsr__move_crosses; `left`:
 * the place of operand 0. */
tsr__crossed tsr__window_crosses(const tsr__meeting *meeting, const tsr_sharding *left);

/* Bytes that cross where a node that goes along a dim lies at `at`, where that dim is cut: on each
 * line each device but the last sends the next its prefix. */
tsr__crossed tsr__passing_crosses(const tsr__meeting *meeting);

/* A program that replaces another (`of`), and for each node of `of` its node here; -1: no such
 * node. */
typedef struct tsr__flat {
  const tsr__program *of;
  tsr__program program;
  int32_t *place; /* of an arena */
} tsr__flat;

/* Loops (loops.c): plans the regions of the loops of flat->of into parts->inner, whose nodes have
 * the numbers of flat->of. flat->program becomes the same program with all operands and results of
 * loops placed; the caller frees it even on failure. */
bool tsr__has_loops(const tsr__program *program);
tsr_status tsr__loops_open(tsr__flat *flat, tsr__arena *arena, tsr__sharing *sharing,
                           tsr__partitioned *parts, tsr__error *error);
/* The place of an array along which a loop goes, with the axes that cut its dim 0 cutting another
 * dim instead: then each step has work for all devices. False: that dim is too short. */
bool tsr__cut_instead(const tsr_sharding *lies, const tsr_shape *shape, int dim, tsr_sharding *out);
/* Plans a region as the program around it is planned. */
tsr_status tsr__partition_region(const tsr__program *program, tsr__heap *heap,
                                 tsr__sharing *sharing, tsr__partitioned *out, tsr__error *error);
void tsr__inner_free(tsr__inner *inner, tsr__heap *heap);

/* The bytes by which the result of a RESHARD takes more of a device than its operand; other nodes:
 * 0 (trips.c). */
int64_t tsr__move_growth(const tsr__program *program, int n);

/* Makes movements again whose results would take too much memory until their next user (again.c).
 * False: out of memory. */
bool tsr__moves_again(tsr__partitioned *out, tsr__arena *arena);

/* Finds which notes travel together, ties their nodes together, and marks movements that are late;
 * `stage`, `meets` as tsr__stages and tsr__meeting_stages, which are those with late ones then.
 * False: out of memory. */
bool tsr__trips(tsr__partitioned *out, int *stage, int *meets, tsr__arena *arena);

/* The error of all planning without memory, and the site of a node; NULL: unknown. */
static inline tsr_status tsr__plan_no_memory(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM,
                        "no memory to plan a program; close scopes that are no longer needed");
}

static inline const char *tsr__site_at(const tsr__program *program, int node)
{
  return program->sites ? program->sites[node] : NULL;
}

/* Fills out->notes from the finished program; its working memory is the arena's. */
tsr_status tsr__notes_make(tsr__arena *arena, tsr__partitioned *out, tsr__error *error);

/* The axes that a way leaves idle: devices that differ along these alone make the same (work.c). */
unsigned tsr__flow_idle_axes(const tsr__flow *flow, int n, const tsr__way *way);

/* Adds the way whose result lies at a place with a dim cut further by some axes (propagate.c). */
void tsr__flow_add_cut_way(tsr__flow *flow, int n, tsr_sharding place, int dim, unsigned axes);
/* Adds ways of a node that share work which devices would make alike; flow->sharing (work.c). */
void tsr__work_add_ways(tsr__flow *flow, int n);

/* Work that several devices make alike (work.c). tsr__repeated_make fills out->repeated from the
 * finished program and its regions. */
tsr_status tsr__repeated_make(tsr__arena *arena, tsr__partitioned *out, tsr__error *error);
/* The seconds of data that crosses, of all devices together. A mesh without speeds has a speed that
 * is the same for all, and devices with TSR__FLOPS_PER_BYTE. */
double tsr__crossed_seconds(const tsr__crossed *crossed);
/* The estimated seconds of a plan, of all devices together: those of its moves, and of products
 * that devices make though other devices make them as well. A loop counts its steps; a loop whose
 * number of steps only the run knows counts one. */
double tsr__plan_seconds(const tsr__partitioned *parts);

#endif
