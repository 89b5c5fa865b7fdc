/* The result of fusion: a schedule of steps whose kernels read each input once. And the arguments
 * of a run of those steps: buffers and partials, a share for each device. It calls no device. */
#ifndef TSR_KERNEL_SCHEDULE_H
#define TSR_KERNEL_SCHEDULE_H

#include "base/events.h"
#include "graph/accums.h"
#include "graph/graph.h"
#include "topology/topology.h"

/* ---- fused kernels ----------------------------------------------------------------------- */

typedef struct tsr__buffer tsr__buffer; /* device/device.h */
typedef struct tsr__kernel tsr__kernel; /* immutable once built */

/* The nodes of the program that a kernel reads and makes, for execute/. */
typedef struct tsr__kernel_io {
  int domain; /* the node whose shape and sharding the loop runs over */
  int input_count, output_count, accum_count, program_insts;
  const int *inputs;  /* nodes whose values the kernel loads */
  const int *outputs; /* nodes that the kernel stores */
  const int *accums;  /* indices into the schedule's accums */
} tsr__kernel_io;

enum tsr__step_kind {
  TSR__STEP_KERNEL,     /* run `kernel` on all local devices */
  TSR__STEP_ALL_REDUCE, /* combine the accums of `first .. first + count - 1` over their mesh axes,
                           then finalise the reduction nodes that use them; one collective an
                           axes mask */
  TSR__STEP_RESHARD,    /* `node` gets its operand's elements in its own sharding, and so does each
                           that travels with it (tsr__fellow) */
  TSR__STEP_SHIFT,      /* the same for views of elements that lie on other devices */
  TSR__STEP_KEPT,       /* `node` is a kept sum of which it shows accumulators, or that it scales */
  TSR__STEP_COMPACT,
  TSR__STEP_FIRSTN,
  TSR__STEP_REBALANCE, /* run-time sizes: `node` */
  TSR__STEP_ROUTINE,   /* `node`'s device routine on all local devices */
  TSR__STEP_TAP,       /* `node` is its operand, which a callback is shown */
  TSR__STEP_LOOP       /* `node` runs its regions' plans */
};

typedef struct tsr__step {
  uint8_t kind;
  int32_t node;
  int32_t first, count;
  tsr__kernel *kernel;
} tsr__step;

/* The steps of a partitioned program in order, with its accumulators. */
typedef struct tsr__schedule {
  tsr__heap *heap;
  tsr__step *steps;
  int step_count;
  tsr__accum *accums; /* like tsr__accums, those of one ALL_REDUCE step together */
  int accum_count;
  int *final_main, *final_count; /* node -> accums of a reduction node; -1 = none */
  int *first_final, *next_final; /* accum -> first node that has it as main accum, node -> next
                                    such node. The lists indexed by nodes are one block, that of
                                    final_main */
  int node_count, step_room, accum_room; /* nodes in the program; sizes of the lists above */
} tsr__schedule;

/* Fuses: elementwise chains, casts, masks, broadcasts and reductions over one domain become one
 * kernel that reads each input once. `program` must outlive the schedule (the plan owns both). */
tsr_status tsr__fuse(const tsr__program *program, tsr__heap *heap, tsr__schedule *out,
                     tsr__error *error);
/* The same with temporary memory from the caller's arena; the schedule goes to the arena's heap. */
tsr_status tsr__fuse_in(const tsr__program *program, tsr__arena *scratch, tsr__schedule *out,
                        tsr__error *error);
void tsr__schedule_free(tsr__schedule *schedule);
const tsr__kernel_io *tsr__kernel_io_of(const tsr__kernel *kernel);
/* Whether each element of an input is read only to compute the same element of the results: then a
 * result can be written into the input's memory. */
bool tsr__kernel_reads_own(const tsr__kernel *kernel, int input);
/* Whether a kernel looks up an index that may be out of range. */
bool tsr__kernel_may_fail(const tsr__kernel *kernel);
/* Text of a kernel's instructions, one a line (tsr_dump, tests that read the plan). */
void tsr__kernel_print(const tsr__kernel *kernel, tsr__text *out);
/* ---- partials ---------------------------------------------------------------------------- */

/* One device's accumulator: opaque above kernel/. Lives in its device's pool. */
typedef struct tsr__partial tsr__partial;

/* One device's share of a kernel run. */
typedef struct tsr__run_part {
  int device, position;
  tsr_box box; /* the device's shard of the domain; ragged: start of dim 0 is its offset */
  tsr__buffer *const *inputs;    /* like io.inputs */
  tsr__buffer *const *outputs;   /* like io.outputs; bytes allocated by execute/ */
  tsr__partial *const *partials; /* like io.accums */
} tsr__run_part;

/* A kernel's form for a kind of devices: the kind's own fields follow. It goes with the kernel,
 * which calls `drop`. */
typedef struct tsr__code {
  void (*drop)(struct tsr__code *code);
} tsr__code;

/* The form that a kernel keeps, NULL until then; and keeps one, once. */
tsr__code *tsr__kernel_code(const tsr__kernel *kernel);
void tsr__kernel_keep(const tsr__kernel *kernel, tsr__code *code);

/* How large an accumulator's values were in earlier runs of a plan: kept beside the plan, which
 * never changes. Any thread reads and writes the guess. It decides speed only, never a value. */
typedef _Atomic int16_t tsr__guess;

typedef struct tsr__run {
  tsr_runtime *rt;
  const tsr__program *program; /* partitioned; params bound */
  const tsr__schedule *schedule;
  const tsr__kernel *kernel;
  int part_count; /* addressable devices */
  const tsr__run_part *parts;
  tsr__guess *guesses;   /* one for each accumulator of the schedule */
  tsr__busy *busy;       /* part -> times when tasks worked for it; NULL: not recorded */
  const tsr__code *code; /* the kernel's form for the kind; NULL: it has none */
} tsr__run;

/* Which box of the partials, all of one size, each member of a group gets; the first of those with
 * the same box finishes it. */
typedef struct tsr__pieces {
  int rank;
  int64_t size[TSR_MAX_RANK];
  const tsr_box *of_member;
  const int *first, *next; /* of the members with a member's box: the first, and the next; -1 */
} tsr__pieces;

/* Which part of every result of a group is finished in this process, by the first member that is
 * here, where there are no pieces. */
typedef struct tsr__share {
  int index, count; /* index -1: none; count 0 or 1: all of it */
  bool again;       /* peers finish and count the same share: here only the result is made */
} tsr__share;

/* Share `index` of n elements begins there: at whole words of bits. */
static inline int64_t tsr__share_first(int64_t n, int index, int count)
{
  if (index >= count) return index ? n : 0;
  int64_t at = (n / count * index + n % count * index / count + 63) / 64 * 64;
  return at < n ? at : n;
}

/* The most results (of all members together) for which devices combine whole shards without extra
 * memory. */
enum { TSR__FEW_RESULTS = 8 };

/* One group of devices whose partials meet. Members get the result, or of a scattered one their
 * pieces. */
typedef struct tsr__all_reduce {
  tsr_runtime *rt;
  const tsr__program *program;
  const tsr__schedule *schedule;
  const tsr__pieces *pieces; /* NULL: all of it */
  tsr__share share;
  int member_count;
  const int *devices; /* a device a member; those in other processes take theirs later */
  int accum_count;
  const int *accums;                    /* accums that travel together, ascending */
  tsr__partial *const *const *partials; /* [member][accum]; NULL where `elements` has a buffer */
  tsr__buffer *const *const *elements;  /* [member][accum]: the member's shard, itself the addend */
  int final_count;
  const int *finals;                  /* reduction nodes to finalise */
  tsr__buffer *const *const *outputs; /* [member][final]; NULL: does not get it */
  const int64_t *out_counts;          /* [final]: local output elements */
  const int64_t *populations; /* [final]: number of elements reduced into each output when no
                                            mask or group says otherwise */
} tsr__all_reduce;

/* An accumulator as it is published for a peer to open: the handles of its memory and of a copy of
 * the rare sums that do not fit there, one list after the other. */
typedef struct tsr__partial_told {
  uint64_t memory, escapes;
  uint64_t escape_count[2];
  uint64_t failed; /* a bit a list */
} tsr__partial_told;

/* One array of a routine on one device. */
typedef struct tsr__shard {
  tsr__buffer *buffer; /* a result's: NULL where nobody reads it */
  tsr_box box;         /* its part of the array; the buffer is dense over it */
} tsr__shard;

/* One device's share of a routine. */
typedef struct tsr__call_part {
  int device, position;
  int process;                /* whose device it is, where there are peers */
  const tsr__shard *in, *out; /* [operand], [result] */
} tsr__call_part;

/* The work of one process in a routine whose devices belong to several processes. */
enum tsr__call_apart {
  /* The process makes its own results from all operands; elements of operand 0 on other hosts are
   * requested by tsr__call_reads. Results of peers have no buffers. */
  TSR__CALL_LOOKS,
  TSR__CALL_MEETS /* the process works on its own shards and meets its peers: tsr__call_peers */
};

/* The bytes that a process brings to a meeting; valid until the next meeting. */
typedef struct tsr__call_note {
  const void *data;
  size_t size;
} tsr__call_note;

/* Rows of columns that go to other parts, as execute/exchange.h has it. The rows of peers' parts
 * are not here, neither before the exchange nor after it. */
typedef struct tsr__call_exchange {
  const struct tsr__parts *parts; /* which send, and receive */
  int64_t *counts;                /* [from * parts + to]; those of other processes are filled in */
  tsr__buffer *const *dest;       /* [part], u16 a row; NULL: rows lie in order of destination */
  int column_count;
  const struct tsr__colparts *columns;
  tsr__buffer **values; /* out: [column * parts + to], fresh; and as many that stay empty */
  int64_t *rows;        /* out: [to] */
  int64_t *bytes;       /* that moved between devices, to those here: added to */
} tsr__call_exchange;

/* How processes work together on one routine: each process works on its own parts and has buffers
 * for these alone; then the processes meet. All make the same calls in the same order, and none
 * after a failure. */
typedef struct tsr__call_peers {
  void *user;
  int index, count;
  const bool *wanted; /* [result]: whether a later step reads it */
  /* [process]; NULL with the error set. */
  const tsr__call_note *(*gather)(void *user, const void *mine, size_t size, tsr__error *error);
  tsr_status (*exchange)(void *user, const tsr__call_exchange *ask, tsr__error *error);
} tsr__call_peers;

/* How elements of operand 0 are read that may lie on another host: `want` requests elements of a
 * part's buffer, `come` waits for all that were requested. */
typedef struct tsr__call_reads {
  void *user;
  void (*want)(void *user, const tsr__call_part *part, int64_t first, int64_t count);
  tsr_status (*come)(void *user, tsr__error *error);
} tsr__call_reads;

/* A node whose row names a routine: whole shards in, whole shards out. The node has the
 * operation, its attributes and dtypes. */
typedef struct tsr__call {
  tsr_runtime *rt;
  const tsr__program *program; /* partitioned */
  int node;
  int part_count; /* addressable devices; with peers all */
  const tsr__call_part *parts;
  const tsr__call_peers *peers; /* NULL: all parts are done here */
  const tsr__call_reads *reads; /* NULL: every element that is read is here */
  struct tsr__traffic *traffic; /* bytes that the routine moves between devices are added */
} tsr__call;

/* An accumulator's place on one device, with `count` output elements. */
typedef struct tsr__partial_ask {
  int device;
  const tsr__program *program;
  const tsr__accum *accum;
  int64_t count;
} tsr__partial_ask;

#endif
