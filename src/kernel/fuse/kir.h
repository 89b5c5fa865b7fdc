/* The kernel IR: the code of one fused loop over a domain, applied to each tile of 1,024 elements.
 *
 * A kernel is straight-line code over slots. A slot is a tile-sized register, an operand or a
 * result in memory (its pointer moves with the tile), or a uniform: one value for all elements,
 * computed before the loop. Bools are bits, LSB first, in registers as in memory; a uniform bool
 * is spread over the bits of a whole tile. Instructions never write a slot they read.
 *
 *   prologue   uniform code, run once a task on one element
 *   body       run for each tile, in order: loads, arithmetic, reductions, stores */
#ifndef TSR_KERNEL_KIR_H
#define TSR_KERNEL_KIR_H

#include "kernel/fuse/schedule.h"

/* Instructions: X(enumerator, name, operands). Those before LOAD are pure functions of their
 * operands' elements and have a tile function for each dtype they make sense for; so are functions
 * of floats (kernel/tile/formula_*_tile.c), pow of integers too. */
/* clang-format off */
#define TSR__KOP_MAP(X)                                                                           \
  X(COPY, "copy", 1) X(SPREAD, "spread", 1) X(NEG, "neg", 1) X(ABS, "abs", 1) X(SQRT, "sqrt", 1)  \
  X(RINT, "rint", 1) X(FLOOR, "floor", 1) X(ISNAN, "isnan", 1) X(NOT, "not", 1)                   \
  X(TO_BOOL, "to_bool", 1) X(TO_I32, "to_i32", 1) X(TO_I64, "to_i64", 1) X(TO_U32, "to_u32", 1)   \
  X(TO_U64, "to_u64", 1) X(TO_F32, "to_f32", 1) X(TO_F64, "to_f64", 1) X(ODD, "odd", 1)           \
  X(WIDEN, "widen", 1) X(NARROW, "narrow", 1) X(ROUND, "round", 1) X(CLAMP, "clamp", 1)           \
  X(ADD, "add", 2) X(SUB, "sub", 2) X(MUL, "mul", 2) X(DIV, "div", 2) X(FLOORDIV, "floordiv", 2)  \
  X(MOD, "mod", 2) X(MIN, "min", 2) X(MAX, "max", 2) X(EQ, "eq", 2) X(NE, "ne", 2)                \
  X(LT, "lt", 2) X(LE, "le", 2) X(GT, "gt", 2) X(GE, "ge", 2) X(AND, "and", 2) X(OR, "or", 2)     \
  X(XOR, "xor", 2) X(ADDOVF, "addovf", 2) X(SUBOVF, "subovf", 2) X(MULOVF, "mulovf", 2)           \
  X(TRUNC, "trunc", 1) X(FMOD, "fmod", 2) X(POPCOUNT, "popcount", 1) X(CLZ, "clz", 1)             \
  X(LEFT, "left", 2) X(RIGHT, "right", 2) X(COPYSIGN, "copysign", 2) X(NEXT, "next", 2)           \
  X(WHERE, "where", 3) X(FMA, "fma", 3) X(CEIL, "ceil", 1) X(PHILOX, "philox", 3)                 \
  X(SHL, "shl", 2) X(SHR, "shr", 2)
/* Functions of f32 and f64 with the names that rows have in FORMULA, and their operand counts. */
#define TSR__FORMULA_MAP(X) \
  X(exp, 1) X(exp2, 1) X(expm1, 1) X(log, 1) X(log1p, 1) X(log2, 1) X(log10, 1) X(tanh, 1)        \
  X(asinh, 1) X(acosh, 1) X(atanh, 1) X(sin, 1) X(cos, 1) X(tan, 1) X(cbrt, 1) X(asin, 1)         \
  X(acos, 1) X(atan, 1) X(sinh, 1) X(cosh, 1) X(erf, 1) X(erfc, 1) X(erfinv, 1) X(lgamma, 1)      \
  X(sigmoid, 1) X(gelu, 1) X(pow, 2) X(atan2, 2) X(hypot, 2) X(logaddexp, 2)
#define TSR__KOP_SPECIAL(X)                                                                       \
  X(LOAD, "load", 0) X(IOTA, "iota", 0) X(UNIFORM, "uniform", 0) X(TAKE, "take", 1)               \
  X(SEARCH, "search", 1) X(WITHIN, "within", 1) X(REDUCE, "reduce", 3)
/* clang-format on */

typedef enum tsr__kop {
#define TSR__KOP_ENUM(id, name, count) TSR__K_##id,
  TSR__KOP_MAP(TSR__KOP_ENUM)
#define TSR__FORMULA_ENUM(name, count) TSR__K_##name,
      TSR__FORMULA_MAP(TSR__FORMULA_ENUM)
#undef TSR__FORMULA_ENUM
          TSR__KOP_SPECIAL(TSR__KOP_ENUM)
#undef TSR__KOP_ENUM
              TSR__K_COUNT
} tsr__kop;

enum { TSR__K_OPERANDS = 3 }; /* the most that an instruction has */

typedef struct tsr__inst {
  uint8_t op;     /* tsr__kop */
  uint8_t dtype;  /* the operands' (where: the values'; iota, uniform, load: the result's) */
  uint8_t scalar; /* bit i: operand i is one value for all elements (never for bools) */
  uint8_t count;  /* operands */
  int32_t out;    /* slot; -1 = none */
  int32_t in[TSR__K_OPERANDS]; /* slots; -1 = none */
  int32_t extra;               /* load, iota, uniform, take, search, reduce: index into its list */
} tsr__inst;

enum tsr__slot_kind {
  TSR__SLOT_REG,    /* index: which register */
  TSR__SLOT_INPUT,  /* index: into io.inputs; has as many elements as the domain */
  TSR__SLOT_OUTPUT, /* index: into io.outputs */
  TSR__SLOT_ONE,    /* index: into io.inputs; one element */
  TSR__SLOT_PARAM,  /* index: into program->params, converted to the slot's dtype */
  TSR__SLOT_CONST,  /* index: into consts */
  TSR__SLOT_TEMP    /* uniform computed by the prologue */
};

typedef struct tsr__slotinfo {
  uint8_t kind, dtype;
  int32_t index;
  int32_t uniform; /* PARAM, CONST, TEMP: which uniform cell holds it */
} tsr__slotinfo;

/* One dim of a load: the operand is read at start + step * (index in the domain's dim `dim`). */
typedef struct tsr__loaddim {
  int64_t start, step; /* step 0: one place, whatever the domain does */
  int64_t size;        /* elements of the operand's shard; -1: the domain's size along `dim` */
  int32_t dim;
} tsr__loaddim;

/* A load of an operand that does not lie like the domain: an affine map of indices, and the box of
 * the domain that the map fills. Several loads that write to one tile are the pieces of a view:
 *
 *   pad of x        | 0 0 x x x 0 |    a fill, and x over it where 2 <= index < 5
 *   concat of x, y  | x x x y y y |    x where index < 3, y where 3 <= index */
typedef struct tsr__loadinfo {
  int32_t input; /* -1: one value for all, in the slot `fill` */
  int32_t fill;
  int32_t rank; /* the operand's */
  bool more;    /* the next one goes over it */
  tsr__loaddim dims[TSR_MAX_RANK];
  int64_t low[TSR_MAX_RANK], high[TSR_MAX_RANK]; /* [dim of the domain]: low <= index < high */
} tsr__loadinfo;

/* Arguments of the instructions that need more than operands. */
typedef struct tsr__sourceinfo {
  int32_t node;  /* the node of the program: iota, uniform, take, search */
  int32_t input; /* take, search: the table */
  int32_t dim;   /* iota; take: the table's dim = first dim of the indices in the result */
  int32_t span;  /* take: number of dims of the indices */
} tsr__sourceinfo;

/* One reduction of the kernel. */
typedef struct tsr__redinfo {
  int32_t accum;              /* index into the schedule's accums */
  int32_t value, mask, codes; /* slots; -1 = none. Codes are i32 */
  uint8_t dtype;              /* the value slot's */
  uint32_t dims;              /* reduced dims of the domain */
  int64_t groups;
} tsr__redinfo;

typedef struct tsr__const {
  uint8_t dtype;
  tsr__num value; /* f32 is kept as the double of equal value */
} tsr__const;

struct tsr__kernel {
  tsr__heap *heap;
  tsr__kernel_io io;
  int rank;         /* the domain's */
  tsr__inst *insts; /* prologue, then body */
  int inst_count, prologue_count;
  tsr__slotinfo *slots;
  int slot_count, reg_count, uniform_count;
  tsr__loadinfo *loads;
  int load_count;
  tsr__sourceinfo *sources;
  int source_count;
  tsr__redinfo *reds;
  int red_count;
  tsr__const *consts;
  int const_count;
  int *lists;   /* memory of io.inputs, io.outputs, io.accums */
  int *numbers; /* the listed nodes' numbers in the program's text */
  int list_count;
  bool ordered;              /* each device's elements must be met in order by one task */
  _Atomic(tsr__code *) code; /* written where the kernel is constant, too: NULL before */
};

/* ---- building (kbuild.c) ------------------------------------------------------------------ */

/* A kernel being written: code over virtual slots; `failed` when memory ran out. */
typedef struct tsr__kbuild {
  tsr__heap *heap;     /* holds the kernel */
  tsr__arena *scratch; /* holds the lists */
  tsr__inst *insts[2]; /* prologue, body */
  size_t inst_count[2], inst_cap[2];
  tsr__slotinfo *slots;
  size_t slot_count, slot_cap;
  tsr__const *consts;
  size_t const_count, const_cap;
  tsr__loadinfo *loads;
  size_t load_count, load_cap;
  tsr__sourceinfo *sources;
  size_t source_count, source_cap;
  tsr__redinfo *reds;
  size_t red_count, red_cap;
  int *inputs, *outputs;
  size_t input_count, input_cap, output_count, output_cap;
  int uniform_count, reg_count;
  bool failed;
} tsr__kbuild;

/* A value while building: a slot, and whether it is one value for all elements. */
typedef struct tsr__kval {
  int slot;
  bool uniform;
  uint8_t dtype;
} tsr__kval;

void tsr__kbuild_init(tsr__kbuild *build, tsr__heap *heap, tsr__arena *scratch);
/* Grows a list to `need` elements; false (and `failed`) when memory is short. One flag serves the
 * whole kernel: callers ignore single results, and tsr__kbuild_finish returns the error. */
bool tsr__kbuild_room(tsr__kbuild *build, void *list, size_t *capacity, size_t need, size_t size);
int tsr__kbuild_slot(tsr__kbuild *build, int kind, tsr_dtype dtype, int index);
int tsr__kbuild_input(tsr__kbuild *build, int node); /* index into inputs; no duplicates */
int tsr__kbuild_output(tsr__kbuild *build, int node);
tsr__kval tsr__kbuild_const_f(tsr__kbuild *build, tsr_dtype dtype, double value);
tsr__kval tsr__kbuild_const_i(tsr__kbuild *build, tsr_dtype dtype, int64_t value);
/* Emits an instruction; if all operands are uniform, into the prologue. `dtype` is the operands',
 * `result` the dtype of the value made. */
tsr__kval tsr__kbuild_op(tsr__kbuild *build, tsr__kop op, tsr_dtype dtype, tsr_dtype result,
                         const tsr__kval *in);
void tsr__kbuild_inst(tsr__kbuild *build, bool uniform, tsr__inst inst);
/* Assigns registers and moves everything into a kernel. */
tsr_status tsr__kbuild_finish(tsr__kbuild *build, tsr__kernel **out, tsr__error *error);
void tsr__kernel_free(tsr__kernel *kernel);

extern const char *const tsr__kop_names[TSR__K_COUNT];
extern const uint8_t tsr__kop_counts[TSR__K_COUNT];

#endif
