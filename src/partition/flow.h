/* Inside partition/: how shardings flow through a program, and what each node asks of its
 * operands. */
#ifndef TSR_PARTITION_FLOW_H
#define TSR_PARTITION_FLOW_H

#include "graph/accums.h"
#include "partition/partition.h"

/* One way to do a node: where its result lies then, and where its operands must. Places are numbers
 * of flow->places; 0 is unplaced, and stands for operands that have none (constants, left out). */
typedef struct tsr__way {
  struct tsr__way *next; /* of the same node: what is to be preferred stands first */
  int64_t bytes;         /* the least with which the node and what it is made of come to lie so */
  int64_t own;           /* what its own partials and results weigh on their way, and its work */
  int32_t asker;         /* the reshard or constraint that it is for; -1: none */
  uint16_t at;
  uint8_t meet;   /* mesh axes over which partials are combined */
  uint8_t fresh;  /* not yet weighed */
  uint16_t parts; /* into so many its work is cut */
  uint16_t need[];
} tsr__way;

/* The axes of one factor, major first. */
typedef struct tsr__axes {
  uint8_t count;
  uint8_t axis[TSR_MAX_AXES];
} tsr__axes;

/* How many of the first axes are those given. */
static inline int tsr__axes_begin(const tsr__axes *axes, const uint8_t *axis, int count)
{
  int k = 0;
  while (k < axes->count && k < count && axes->axis[k] == axis[k]) k++;
  return k;
}

/* Over which axes factors are cut. */
typedef struct tsr__cuts {
  const tsr_mesh *mesh;
  unsigned used; /* axes that cut a factor */
  tsr__axes axes[TSR__MAX_FACTORS];
} tsr__cuts;

/* The factors of a node and of its operands' dims, computed once. */
typedef struct tsr__terms {
  struct tsr__terms *next; /* alike.c */
  int32_t operands;
  bool plain; /* types of few operands say all of its shape: terms and ways are kept */
  uint8_t count;
  uint8_t kind[TSR__MAX_FACTORS];
  int8_t out[TSR_MAX_RANK];
  int8_t in[][TSR_MAX_RANK]; /* by operand */
} tsr__terms;

/* What it takes to have a node elsewhere. */
enum tsr__carriage { TSR__CARRY_BYTES, TSR__CARRY_NONE, TSR__CARRY_REMADE };

/* Which ways there are and how they compare, what they weigh, and that fixed nodes want it
 * somewhere. */
enum tsr__change { TSR__CHANGED_WAYS = 1, TSR__CHANGED_BYTES = 2, TSR__CHANGED_WANTS = 4 };

typedef struct tsr__flow {
  const tsr__program *program;
  tsr__arena *arena;
  unsigned manual;      /* axes that are cut by hand: of every mesh, bit a = its axis a */
  tsr_sharding *places; /* each different one once */
  bool *full;           /* by place: it uses all axes of its mesh */
  int place_count, place_room;
  struct tsr__scale *scale;
  struct tsr__alike *alike;
  tsr__way *draft; /* with room for the needs of any node */
  /* by node of the program */
  tsr__way **ways; /* a list; once all are weighed, the one that was chosen */
  const tsr__terms **terms;
  int32_t *type;        /* nodes of one dtype and shape have one number */
  uint16_t *asked;      /* a place where a reshard or constraint wants it; 0: none does */
  uint8_t *free;        /* computed from numbers alone, so it can be made anywhere */
  uint8_t *fixed;       /* its rows or its regions say where it lies: it has one way */
  uint8_t *ragged;      /* its rows lie as a filter left them */
  uint8_t *carry;       /* tsr__carriage */
  uint8_t *changed;     /* tsr__change since its users looked last */
  tsr_sharding *claims; /* what is to be cut of it in any way; NULL: nobody has claims */
  bool open;            /* there is something to weigh */
  bool failed;          /* out of memory */
} tsr__flow;

/* Nodes alike are asked once (alike.c). Types are numbered by node in order. */
bool tsr__alike_start(tsr__flow *flow);
void tsr__alike_type(tsr__flow *flow, int n);
/* Elements of a node; what is known at run time counts as many. */
int64_t tsr__alike_elements(const tsr__flow *flow, int n);

/* What a way of a node follows from: how it is found, and all that this looks at. */
enum { TSR__FEW = 3 }; /* the most operands of nodes whose ways are kept */
typedef struct tsr__question {
  const tsr__terms *terms;
  int32_t type, types[TSR__FEW]; /* its own and those of its operands */
  uint16_t first[TSR__FEW];      /* where operands lie by their first ways */
  uint16_t place;                /* which the way follows */
  uint16_t reduces;              /* the operation, of a reduction: what its partials weigh; and of
                                    what may leave a sum unreduced */
  int32_t lead;                  /* the operand that is followed */
  uint8_t how;                   /* propagate.c */
  uint8_t consts, free;          /* operands that are so, a bit each */
} tsr__question;

/* The factors of a node. NULL out of memory. */
const tsr__terms *tsr__alike_terms(tsr__flow *flow, int n);
/* The question of a node but for place, how and lead. */
void tsr__alike_question(tsr__flow *flow, int n, tsr__question *out);
/* Follows a place by the factors of `map`. True: they take all axes, so nothing else matters. */
bool tsr__alike_follow(const tsr__flow *flow, tsr__question *question, const int8_t *map,
                       int place);
/* The way that was found when it was asked last, and where it is to be put; NULL: not yet. */
const tsr__way *tsr__alike_known(tsr__flow *flow, const tsr__question *question);
void tsr__alike_keep(tsr__flow *flow, int n, const tsr__question *question, const tsr__way *way);

/* Chooses a way for every node. `manual`: no placement may name these axes, so nothing is cut by
 * them, moved along them or combined over them. */
tsr_status tsr__flow_run(const tsr__program *program, unsigned manual, tsr__arena *arena,
                         tsr__flow *out, tsr__error *error);

/* Claims of dims that users ranked before others (claim.c), and what they cut of a node's factors;
 * false: nothing. */
void tsr__flow_claim(tsr__flow *flow);
bool tsr__flow_claimed(tsr__flow *flow, int n, const tsr__terms *terms, tsr__cuts *out);

/* Weighing (weigh.c): first the start, then each node after its operands, whose ways are all there;
 * ways that others and a move can replace are dropped; returns tsr__change. Given that fixed nodes
 * want what they want, each node may be weighed again. At last each is left the way that together
 * move the fewest bytes, as far as they are found: the first of its list. */
void tsr__flow_start_scale(tsr__flow *flow);
/* What a node itself makes travel when it is done in a way: its partials and results, what a scan
 * passes on, or, of a view, the elements of other devices. Of a product also what several devices
 * multiply alike. */
int64_t tsr__flow_own_bytes(const tsr__flow *flow, int n, const tsr__way *way);
int tsr__flow_weigh_node(tsr__flow *flow, int n);
void tsr__flow_want_fixed(tsr__flow *flow);
void tsr__flow_choose(tsr__flow *flow);

/* Where a node lies, where its operand `i` must, and the axes over which its partials meet. */
static inline const tsr_sharding *tsr__flow_at(const tsr__flow *flow, int n)
{
  return &flow->places[flow->ways[n]->at];
}

static inline const tsr_sharding *tsr__flow_need(const tsr__flow *flow, int n, int i)
{
  return &flow->places[flow->ways[n]->need[i]];
}

/* Whether partials that lie at `whole` and meet over `axes` can come to lie at a place as they do:
 * the same, and there each device may finish what it is cut further to by these axes, the first
 * along those that are left unreduced keep it, and along the rest others get copies. */
bool tsr__meets_at(const tsr_sharding *whole, unsigned axes, const tsr_sharding *place);

/* Elements of a root are looked at, but where it may be kept. */
static inline bool tsr__may_stay(const tsr__gnode *node)
{
  return !(node->flags & TSR__ROOT) || node->flags & TSR__KEEP;
}

/* Whether a sum whose partials would meet over `axes` to lie at a place can be left as these: none
 * of them meets before somebody needs it. */
bool tsr__keeps_sum(const tsr__program *program, const tsr__gnode *node, const tsr_sharding *at,
                    unsigned axes);

/* Whether a node is made where it is needed, on each place anew: a source that nobody placed, of
 * numbers of the run alone. */
bool tsr__made_anywhere(const tsr__program *program, int n);

bool tsr__same_devices(const tsr_mesh *a, const tsr_mesh *b);

/* About as many bytes as tsr__reshard_bytes counts, and exactly as many on meshes of up to 64
 * devices but for what rounding adds to pieces of bools: each device lacks what it wants and does
 * not hold. Sizes known at run time count as large. */
int64_t tsr__reshard_weight(const tsr_sharding *from, const tsr_sharding *to, tsr_dtype dtype,
                            const tsr_shape *shape);

int64_t tsr__move_weight(const tsr__reshard *move, tsr_dtype dtype);

/* About as many bytes as tsr__shift_bytes counts, with the same exactness; 0 of a view that does
 * not move. */
int64_t tsr__shift_weight(const tsr__viewed *viewed);

/* Bytes that cross where partials of a node that lies at `at` meet over `axes`: in each group of p
 * devices p - 1 of `accum`'s partials; of no `accum`: the copies of the result, to all but one
 * of those that differ along axes that neither cut it nor are left unreduced. */
typedef struct tsr__meeting {
  const tsr__program *program;
  const tsr__gnode *node;
  const tsr_sharding *at;
  unsigned axes;
} tsr__meeting;

int64_t tsr__meeting_bytes(const tsr__meeting *meeting, const tsr__accum *accum);

/* Bytes that cross where a node that is no reduction joins what lies over `axes`. A table: in each
 * group of p devices each element of the result is on one of them, and p - 1 lack it; bools travel
 * as bytes. A scatter: p - 1 partials of the result, and as many copies of it. */
int64_t tsr__joining_bytes(const tsr__meeting *meeting);

/* How a product is done whose partial sums meet (split.c): what devices make of it, a part each
 * along dim 0, where that lies, where the parts are added up, and where their sum lies then.
 * `right`: the place of operand 1. */
typedef struct tsr__split {
  tsr__gnode part;
  tsr_sharding made, met, sum;
} tsr__split;

void tsr__split_of(const tsr__meeting *meeting, const tsr_sharding *right, tsr__split *out);
/* The blocks that give an operand of a product, whose dims have `indices`, the borders of whole
 * nodes of the tree of its leaves, which are the same on any mesh. False: it has them. */
bool tsr__leaf_blocks(const tsr__gnode *operand, const uint8_t *indices, int64_t leaf,
                      const tsr_sharding *at, tsr__blocks_attr *out);
/* The blocks of operand 0 that have all that is shown by windows of a product that is computed at a
 * place, which cuts their dims. False: it has them. */
bool tsr__window_blocks(const tsr__meeting *meeting, tsr__blocks_attr *out);
/* About as many bytes as its moves count, with the exactness of tsr__reshard_weight. */
int64_t tsr__split_weight(const tsr__meeting *meeting, const tsr_sharding *right);
/* The same of what windows show of other devices; `left`: the place of operand 0. */
int64_t tsr__window_weight(const tsr__meeting *meeting, const tsr_sharding *left);
/* How many pairs of numbers the devices multiply together if each pair is multiplied once. */
double tsr__products_in(const tsr__program *program, const tsr__gnode *node);

/* Bytes that cross where a node that goes along a dim lies at `at`, where that dim is cut: on each
 * line each device but the last tells the next what came before. */
int64_t tsr__passing_bytes(const tsr__meeting *meeting);

/* A program in the place of another: by node of that one where it is, -1: nowhere. */
typedef struct tsr__flat {
  const tsr__program *of;
  tsr__program program;
  int32_t *place; /* of an arena */
} tsr__flat;

/* Loops (loops.c): plans the regions of the nodes of flat->of that run theirs, into parts->inner,
 * whose nodes are then those of flat->program: the same with all operands and results of loops
 * placed. That is to be freed anyhow. */
bool tsr__has_loops(const tsr__program *program);
tsr_status tsr__loops_open(tsr__flat *flat, tsr__arena *arena, tsr__partitioned *parts,
                           tsr__error *error);
void tsr__inner_free(tsr__inner *inner, tsr__heap *heap);

/* Finds which notes travel together, and ties their nodes together; `stage`, `meets` as tsr__stages
 * and tsr__meeting_stages. False: out of memory. */
bool tsr__trips(tsr__partitioned *out, const int *stage, const int *meets, tsr__arena *arena);

/* What all of planning says where memory ends, and the line of a node; NULL: none is known. */
static inline tsr_status tsr__plan_no_memory(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM,
                        "no memory to plan a program; close scopes that are no longer needed");
}

static inline const char *tsr__site_at(const tsr__program *program, int node)
{
  return program->sites ? program->sites[node] : NULL;
}

/* Fills out->notes from the finished program; what it takes meanwhile is the arena's. */
tsr_status tsr__notes_make(tsr__arena *arena, tsr__partitioned *out, tsr__error *error);

#endif
