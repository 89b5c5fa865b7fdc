/* Writing the code of one kernel: its nodes in the program's order, each operand where it lies.
 *
 * First the nodes that the kernel needs are marked from its results backwards, then each gets its
 * instructions. Uniform values go to the prologue and are computed on one element. */
#include "kernel/fuse/fuse.h"

#include <math.h>

typedef struct emit {
  const tsr__fusion *fusion;
  const tsr__program *program;
  tsr__kbuild build;
  tsr__kval *value; /* [node]; slot -1: not yet. Nodes with a value are marked */
  int kernel;
  int domain; /* a node of the domain */
  bool ordered;
} emit;

static const tsr__gnode *program_node(const emit *e, int n)
{
  return &e->program->nodes[n];
}

/* ---- types ----------------------------------------------------------------------------------- */

/* The type of the registers that a dtype is computed in. */
static int register_of(int dtype)
{
  return tsr__dtype_info_of((tsr_dtype)dtype)->computes;
}

/* Narrow types (f16, bf16, i8 to u16) lie in memory in fewer bits than they are computed in.
 *
 *   memory  i8 i8 i8   --WIDEN-->   i32 registers   --op, ROUND-->   i32   --NARROW-->  memory */
static bool is_stored(int dtype)
{
  return register_of(dtype) != dtype;
}

static tsr__kval apply_instruction(emit *e, tsr__kop op, int dtype, int result, tsr__kval x)
{
  return tsr__kbuild_op(&e->build, op, (tsr_dtype)dtype, (tsr_dtype)result, &x);
}

/* Moves a value from memory's dtype to its register's. */
static tsr__kval widen_value(emit *e, tsr__kval x)
{
  return is_stored(x.dtype) ? apply_instruction(e, TSR__K_WIDEN, x.dtype, register_of(x.dtype), x)
                            : x;
}

/* Rounds a result in its register to the dtype's precision. After each operation and not once at
 * the end of a chain: a fused kernel has the bits of separate kernels. */
static tsr__kval round_value(emit *e, tsr__kval x, int dtype)
{
  return is_stored(dtype) ? apply_instruction(e, TSR__K_ROUND, dtype, x.dtype, x) : x;
}

static tsr__kval convert_value(emit *e, tsr__kval x, int to)
{
  static const uint8_t kops[TSR__DTYPES] = {
    [TSR_BOOL] = TSR__K_TO_BOOL, [TSR_I32] = TSR__K_TO_I32, [TSR_I64] = TSR__K_TO_I64,
    [TSR_U32] = TSR__K_TO_U32,   [TSR_U64] = TSR__K_TO_U64, [TSR_F32] = TSR__K_TO_F32,
    [TSR_F64] = TSR__K_TO_F64,
  };
  return x.dtype == to ? x : apply_instruction(e, (tsr__kop)kops[to], x.dtype, to, x);
}

/* From a register to a dtype, in its register. Values for f16 and bf16 go to f32 by rounding to
 * odd, so that they are rounded once; floats that become narrow integers are clamped.
 *   to i8      by way of i32, then its low bits; from floats its nearest end (CLAMP)
 *   to f16     from i32, u32: exactly in f64; from bools, f32: in f32; from wider ones by ODD */
static tsr__kval cast_value(emit *e, tsr__kval x, int dtype)
{
  bool from_float = tsr__dtype_is_real((tsr_dtype)x.dtype);
  if (!is_stored(dtype)) return convert_value(e, x, dtype);
  if (!tsr__dtype_is_real((tsr_dtype)dtype)) {
    x = convert_value(e, x, register_of(dtype));
    return from_float ? apply_instruction(e, TSR__K_CLAMP, dtype, x.dtype, x)
                      : round_value(e, x, dtype);
  }
  if (x.dtype == TSR_I32 || x.dtype == TSR_U32) x = convert_value(e, x, TSR_F64);
  if (x.dtype == TSR_BOOL) x = convert_value(e, x, TSR_F32);
  if (x.dtype != TSR_F32) x = apply_instruction(e, TSR__K_ODD, x.dtype, TSR_F32, x);
  return round_value(e, x, dtype);
}

/* ---- operands in memory ---------------------------------------------------------------------- */

static tsr__kval load_one(emit *e, int n);

/* Loads of a kernel lie in one list; an instruction names its first load, and `more` chains the
 * rest. */
static void add_load(emit *e, const tsr__loadinfo *load)
{
  tsr__kbuild *b = &e->build;
  if (tsr__kbuild_room(b, &b->loads, &b->load_cap, b->load_count + 1, sizeof *b->loads))
    b->loads[b->load_count++] = *load;
}

static void mark_node(const emit *e, int n)
{
  e->fusion->marks[n / 64] |= UINT64_C(1) << n % 64;
}

/* Gives a node its value. */
static void hold_value(emit *e, int n, tsr__kval x)
{
  mark_node(e, n);
  e->value[n] = x;
}

/* One value for a part of a tile, as it lies in memory. A piece is copied into a tile of
 * memory's type, before the tile as a whole is widened. */
static int fill_slot(emit *e, int n)
{
  int dtype = program_node(e, n)->dtype;
  if (e->value[n].slot < 0) hold_value(e, n, load_one(e, n));
  tsr__kval x = e->value[n];
  return is_stored(dtype) ? apply_instruction(e, TSR__K_NARROW, dtype, dtype, x).slot : x.slot;
}

static void view_pieces(emit *e, int n, const tsr__loadinfo *load);

static void add_memory(emit *e, int n, const tsr__loadinfo *load)
{
  tsr__loadinfo piece = *load;
  /* Another piece may follow; `loaded` clears the flag of the last. */
  piece.more = true;
  if (e->fusion->fact[n].uniform) {
    piece.rank = 0; /* the same wherever it is read */
    piece.fill = fill_slot(e, n);
  } else {
    piece.input = tsr__kbuild_input(&e->build, n);
  }
  add_load(e, &piece);
}

/* Adds the pieces of a node that a load reaches; views are read through. */
static void add_pieces(emit *e, int n, const tsr__loadinfo *load)
{
  if (e->fusion->fact[n].view) view_pieces(e, n, load);
  else add_memory(e, n, load);
}

/* Memory is read as if it had the shape of the view. */
static void add_line_pieces(emit *e, int n, const tsr__loadinfo *load)
{
  if (tsr__reads_lines(e->program, n)) add_pieces(e, n, load);
  else add_memory(e, n, load);
}

/* The first operand lies over the others. Pieces are written in order over the same tile, so the
 * operand on top comes last: operands from the last to the first. */
static void view_pieces(emit *e, int n, const tsr__loadinfo *load)
{
  const tsr__gnode *g = program_node(e, n);
  tsr__loadinfo inner;
  if (tsr__reads_lines(e->program, n)) {
    add_line_pieces(e, tsr__in(e->program, g, 0), load);
    return;
  }
  for (int i = g->in_count - 1; i >= 0; i--)
    /* An operand that the load does not reach is not read at all. */
    if (tsr__load_through(e->program, g, i, load, &inner))
      add_pieces(e, tsr__in(e->program, g, i), &inner);
}

/* The loads from `first` on as a value, of the dtype that it has in memory. */
static tsr__kval loaded(emit *e, int first, int dtype)
{
  tsr__kbuild *b = &e->build;
  size_t count = b->load_count - (size_t)first;
  /* No piece: all of it is out of sight, as of an empty operand, and no element will be asked
   * for. */
  if (!count || b->failed) return tsr__kbuild_const_i(b, (tsr_dtype)register_of(dtype), 0);
  tsr__loadinfo *last = &b->loads[b->load_count - 1];
  last->more = false;
  /* The operand's elements in order, one for each: no load is needed, instructions read it where
   * it lies. */
  if (count == 1 && last->input >= 0 && tsr__load_plain(last, program_node(e, e->domain)->rank)) {
    b->load_count--;
    int place = tsr__kbuild_slot(b, TSR__SLOT_INPUT, (tsr_dtype)dtype, last->input);
    return (tsr__kval){ place, false, (uint8_t)dtype };
  }
  int slot = tsr__kbuild_slot(b, TSR__SLOT_REG, (tsr_dtype)dtype, 0);
  tsr__kbuild_inst(b, false,
                   (tsr__inst){ .op = TSR__K_LOAD,
                                .dtype = (uint8_t)dtype,
                                .out = slot,
                                .in = { -1, -1, -1 },
                                .extra = first });
  return (tsr__kval){ slot, false, (uint8_t)dtype };
}

static tsr__kval load_pieces(emit *e, int n, const tsr__loadinfo *from)
{
  int first = (int)e->build.load_count;
  add_pieces(e, n, from);
  return loaded(e, first, program_node(e, n)->dtype);
}

/* An operand that is aligned with the domain at the last dim. */
static tsr__kval load_aligned(emit *e, int n)
{
  tsr__loadinfo from = tsr__load_aligned(program_node(e, e->domain), program_node(e, n));
  return load_pieces(e, n, &from);
}

/* A value in its register's dtype: a loaded value is widened for the first instruction that needs
 * it. The widened value takes the loaded value's place, so it is widened once a kernel. */
static tsr__kval in_register(emit *e, int n)
{
  if (!e->value[n].uniform) e->value[n] = widen_value(e, e->value[n]);
  return e->value[n];
}

/* One element in memory, for all. */
static tsr__kval load_one(emit *e, int n)
{
  const tsr__gnode *g = program_node(e, n);
  tsr__kbuild *b = &e->build;
  int slot = tsr__kbuild_slot(b, TSR__SLOT_ONE, (tsr_dtype)g->dtype, tsr__kbuild_input(b, n));
  tsr__kval value = { slot, true, g->dtype };
  if (g->dtype != TSR_BOOL) return widen_value(e, value);
  return tsr__kbuild_op(b, TSR__K_SPREAD, TSR_BOOL, TSR_BOOL, &value);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Anything else has been stored by another kernel or a step and is loaded. */
static bool computed_here(const emit *e, int n)
{
  const tsr__fact *fact = &e->fusion->fact[n];
  return fact->tile && (fact->uniform || fact->view || fact->kernel == e->kernel);
}

static int in_of(const emit *e, const tsr__gnode *g, int i)
{
  return tsr__in(e->program, g, i);
}

static tsr__kval operand_value(emit *e, int n, int i)
{
  int o = in_of(e, program_node(e, n), i);
  /* Written before: a node's value is one slot, however many read it. */
  if (e->value[o].slot >= 0) return in_register(e, o);
  const tsr__gnode *g = program_node(e, n);
  if (e->fusion->fact[o].uniform) {
    hold_value(e, o, load_one(e, o));
  } else if (tsr__ops[g->op].inserts_dims && i == 1 && program_node(e, in_of(e, g, 0))->rank != 1) {
    /* The indices lie along some dims of the result only; nobody else reads them so. */
    tsr__loadinfo from = tsr__load_aligned(program_node(e, o), program_node(e, o));
    int batch = tsr__batch_of(e->program, g), skip = tsr__dim_of(e->program, g) - batch;
    for (int d = batch; d < from.rank; d++) from.dims[d].dim += skip;
    return widen_value(e, load_pieces(e, o, &from));
  } else {
    hold_value(e, o, load_aligned(e, o));
  }
  return in_register(e, o);
}

/* A uniform value as a tile of its own. */
static tsr__kval spread_out(emit *e, tsr__kval x)
{
  if (!x.uniform) return x;
  tsr__kbuild *b = &e->build;
  int slot = tsr__kbuild_slot(b, TSR__SLOT_REG, (tsr_dtype)x.dtype, 0);
  tsr__kbuild_inst(b, false,
                   (tsr__inst){ .op = TSR__K_COPY,
                                .dtype = x.dtype,
                                .count = 1,
                                .scalar = x.dtype != TSR_BOOL,
                                .out = slot,
                                .in = { x.slot, -1, -1 },
                                .extra = -1 });
  return (tsr__kval){ slot, false, x.dtype };
}

/* A value made from positions, or looked up; a looked-up value has its table's dtype in memory. */
static tsr__kval emit_source(emit *e, int n, tsr__kop op, tsr__sourceinfo info, int in)
{
  tsr__kbuild *b = &e->build;
  const tsr__gnode *g = program_node(e, n);
  /* Positions and numbers found are made in registers; only a table's elements come in memory's
   * type. */
  int dtype = op == TSR__K_TAKE ? g->dtype : register_of(g->dtype);
  info.node = n;
  int extra = (int)b->source_count;
  if (tsr__kbuild_room(b, &b->sources, &b->source_cap, b->source_count + 1, sizeof *b->sources))
    b->sources[b->source_count++] = info;
  int slot = tsr__kbuild_slot(b, TSR__SLOT_REG, (tsr_dtype)dtype, 0);
  tsr__kbuild_inst(b, false,
                   (tsr__inst){ .op = (uint8_t)op,
                                .dtype = (uint8_t)dtype,
                                .out = slot,
                                .count = in >= 0,
                                .in = { in, -1, -1 },
                                .extra = extra });
  return widen_value(e, (tsr__kval){ slot, false, (uint8_t)dtype });
}

/* ---- operations ------------------------------------------------------------------------------ */

/* The functions that rows of the table name by EMIT. */

static tsr__kval emit_cast(emit *e, int n)
{
  return cast_value(e, operand_value(e, n, 0), program_node(e, n)->dtype);
}

static tsr__kval emit_same(emit *e, int n)
{
  return operand_value(e, n, 0);
}

static tsr__kval emit_full(emit *e, int n)
{
  return cast_value(e, operand_value(e, n, 0), program_node(e, n)->dtype);
}

static tsr__kval emit_iota(emit *e, int n)
{
  const tsr__gnode *g = program_node(e, n);
  tsr__sourceinfo along = { .dim = tsr__dim_of(e->program, g) };
  return round_value(e, emit_source(e, n, TSR__K_IOTA, along, -1), g->dtype);
}

/* The table is no operand of the instruction: it is read from memory anywhere, an index at a
 * time. Along a dim the indices have the table's other dims and lie like the result, of which one
 * dim is theirs; otherwise all of theirs stand in it. */
static tsr__kval emit_take(emit *e, int n)
{
  const tsr__gnode *g = program_node(e, n);
  tsr__sourceinfo info = { .input = tsr__kbuild_input(&e->build, in_of(e, g, 0)),
                           .dim = tsr__dim_of(e->program, g),
                           .span = tsr__ops[g->op].each_line
                                       ? 1
                                       : program_node(e, in_of(e, g, 1))->rank -
                                             tsr__batch_of(e->program, g) };
  return emit_source(e, n, TSR__K_TAKE, info, spread_out(e, operand_value(e, n, 1)).slot);
}

static tsr__kval emit_within(emit *e, int n)
{
  return emit_source(e, n, TSR__K_WITHIN, (tsr__sourceinfo){ 0 },
                     spread_out(e, operand_value(e, n, 0)).slot);
}

static tsr__kval emit_search(emit *e, int n)
{
  tsr__sourceinfo info = { .input = tsr__kbuild_input(&e->build, in_of(e, program_node(e, n), 0)) };
  return emit_source(e, n, TSR__K_SEARCH, info, spread_out(e, operand_value(e, n, 1)).slot);
}

/* Draws of few bits are those of f32 cut to them: below 1, as they are. */
static tsr__kval cut_draws(emit *e, tsr__kval x, int dtype)
{
  if (!is_stored(dtype)) return x;
  tsr__kbuild *b = &e->build;
  /* x is a multiple of 2^-24 below 1. Cut down to a multiple of 2^-11 (f16) or 2^-8 (bf16) it
   * stays below 1, where rounding to the nearest could reach it. */
  double steps = ldexp(1, tsr__dtype_info_of((tsr_dtype)dtype)->precision);
  tsr__kval up[2] = { x, tsr__kbuild_const_f(b, TSR_F32, steps) };
  x = tsr__kbuild_op(b, TSR__K_MUL, TSR_F32, TSR_F32, up);
  x = apply_instruction(e, TSR__K_FLOOR, TSR_F32, TSR_F32, x);
  tsr__kval down[2] = { x, tsr__kbuild_const_f(b, TSR_F32, 1 / steps) };
  return tsr__kbuild_op(b, TSR__K_MUL, TSR_F32, TSR_F32, down);
}

static tsr__kval emit_uniform(emit *e, int n)
{
  tsr__kval x = emit_source(e, n, TSR__K_UNIFORM, (tsr__sourceinfo){ 0 }, -1);
  return cut_draws(e, x, program_node(e, n)->dtype);
}

static tsr__kval shift_bits(emit *e, tsr__kop op, tsr__kval x, int64_t by)
{
  tsr__kval in[2] = { x, tsr__kbuild_const_i(&e->build, TSR_I64, by) };
  return tsr__kbuild_op(&e->build, op, TSR_I64, TSR_I64, in);
}

/* Floats are drawn from the same words as in emit_uniform: f64 from the top 53 bits, others from
 * the top 24 bits of the lower word. */
static tsr__kval emit_random(emit *e, int n)
{
  int dtype = program_node(e, n)->dtype, to = register_of(dtype);
  tsr__kval in[3] = { operand_value(e, n, 0), operand_value(e, n, 1), operand_value(e, n, 2) };
  tsr__kval x = tsr__kbuild_op(&e->build, TSR__K_PHILOX, TSR_U64, TSR_U64, in);
  if (!tsr__dtype_is_real((tsr_dtype)dtype)) return cast_value(e, x, dtype);
  x.dtype = TSR_I64; /* the same bits; none is negative below */
  /* The lower word, moved up, loses the upper one; then its top 24 bits are all there is. */
  if (to == TSR_F32) x = shift_bits(e, TSR__K_SHL, x, 32);
  x = convert_value(e, shift_bits(e, TSR__K_SHR, x, to == TSR_F32 ? 40 : 11), to);
  tsr__kval unit = tsr__kbuild_const_f(&e->build, (tsr_dtype)to, to == TSR_F32 ? 0x1p-24 : 0x1p-53);
  tsr__kval down[2] = { x, unit };
  x = tsr__kbuild_op(&e->build, TSR__K_MUL, (tsr_dtype)to, (tsr_dtype)to, down);
  return cut_draws(e, x, dtype);
}

/* NOT of an integer flips all bits: exclusive or with -1, which is all ones in every width. */
static tsr__kval emit_not(emit *e, int n)
{
  tsr__kval x = operand_value(e, n, 0);
  tsr_dtype in_register = (tsr_dtype)x.dtype;
  if (x.dtype == TSR_BOOL) return apply_instruction(e, TSR__K_NOT, TSR_BOOL, TSR_BOOL, x);
  tsr__kval in[2] = { x, tsr__kbuild_const_i(&e->build, in_register, -1) };
  x = tsr__kbuild_op(&e->build, TSR__K_XOR, in_register, in_register, in);
  return round_value(e, x, program_node(e, n)->dtype);
}

/* The bits of an integer with `rest` zeros above them in its register. Otherwise the sign bits that
 * extend a narrow number in its register would be counted. */
static tsr__kval own_bits(emit *e, int n, int *rest)
{
  const tsr__dtype_info *info = tsr__dtype_info_of((tsr_dtype)program_node(e, n)->dtype);
  tsr__kval x = operand_value(e, n, 0);
  *rest = tsr__dtype_info_of((tsr_dtype)x.dtype)->bits - info->bits;
  if (!*rest) return x;
  int64_t mask = (INT64_C(1) << info->bits) - 1;
  tsr__kval in[2] = { x, tsr__kbuild_const_i(&e->build, (tsr_dtype)x.dtype, mask) };
  return tsr__kbuild_op(&e->build, TSR__K_AND, (tsr_dtype)x.dtype, (tsr_dtype)x.dtype, in);
}

static tsr__kval emit_popcount(emit *e, int n)
{
  int rest;
  tsr__kval x = own_bits(e, n, &rest);
  return apply_instruction(e, TSR__K_POPCOUNT, x.dtype, x.dtype, x);
}

/* Narrow types have `rest` zeros too many above them in their registers. */
static tsr__kval emit_clz(emit *e, int n)
{
  int rest;
  tsr__kval x = own_bits(e, n, &rest);
  x = apply_instruction(e, TSR__K_CLZ, x.dtype, x.dtype, x);
  tsr__kval in[2] = { x, tsr__kbuild_const_i(&e->build, (tsr_dtype)x.dtype, rest) };
  return rest ? tsr__kbuild_op(&e->build, TSR__K_SUB, (tsr_dtype)x.dtype, (tsr_dtype)x.dtype, in)
              : x;
}

/* An instruction that must know the dtype that its result is kept in. */
static tsr__kval kept_by(emit *e, int n, tsr__kop op)
{
  const tsr__gnode *g = program_node(e, n);
  tsr__kval in[TSR__K_OPERANDS];
  for (int i = 0; i < g->in_count; i++) in[i] = operand_value(e, n, i);
  tsr_dtype dtype = (tsr_dtype)g->dtype;
  return round_value(e, tsr__kbuild_op(&e->build, op, dtype, (tsr_dtype)in[0].dtype, in), g->dtype);
}

static tsr__kval emit_nextafter(emit *e, int n)
{
  return kept_by(e, n, TSR__K_NEXT);
}

static tsr__kval emit_fma(emit *e, int n)
{
  return kept_by(e, n, TSR__K_FMA);
}

/* A view over the domain, not yet widened. Read where it is used, so nothing is written here
 * unless somebody stores it. */
static tsr__kval emit_view(emit *e, int n)
{
  int first = (int)e->build.load_count;
  if (e->fusion->fact[n].uniform) return operand_value(e, n, 0);
  tsr__loadinfo from = tsr__load_aligned(program_node(e, n), program_node(e, n));
  view_pieces(e, n, &from);
  return loaded(e, first, program_node(e, n)->dtype);
}

/* How an operation is computed, by the kernel column of its row: the table is included with these
 * meanings of its kernels. Rows without an instruction or writer (reductions, parts, leaves) are
 * handled where kernels begin and end. */
typedef struct lowered {
  tsr__kval (*write)(emit *e, int n); /* EMIT, VIEW */
  uint8_t instruction;                /* TILE, FORMULA: tsr__kop */
  uint8_t step;                       /* STEP: tsr__step_kind */
} lowered;

#define TILE(name) .instruction = TSR__K_##name
#define EMIT(name) .write = emit_##name
#define VIEW(name) .write = emit_view
#define FORMULA(name) .instruction = TSR__K_##name
#define STEP(kind) .step = TSR__STEP_##kind
#define ROUTINE(function) .step = TSR__STEP_ROUTINE
#define REDUCE(accumulator, finish) 0
#define PART() 0
#define NAMED() 0
#define LEAF() 0
#define REGION() 0
#define LABEL() 0

#define OP(id, text, kernel, ...) [TSR__OP_##id] = { kernel },
static const lowered table[TSR__OPS] = {
#include "graph/ops.def"
};

int tsr__step_of(int op)
{
  return table[op].step;
}

/* Operands before the operation: asking for one may load it, and its instructions must come
 * first. */
static tsr__kval compute_node(emit *e, int n)
{
  const tsr__gnode *g = program_node(e, n);
  const lowered *how = &table[g->op];
  if (how->write) return how->write(e, n);
  tsr__kval in[TSR__K_OPERANDS];
  for (int i = 0; i < g->in_count; i++) in[i] = operand_value(e, n, i);
  tsr_dtype dtype = (tsr_dtype)in[g->in_count - 1].dtype; /* operand 0 of where is its condition */
  tsr_dtype result = (tsr_dtype)register_of(g->dtype);
  return round_value(e, tsr__kbuild_op(&e->build, (tsr__kop)how->instruction, dtype, result, in),
                     g->dtype);
}

/* A number of the formula. One that is kept in few bits is rounded to them from the double it
 * is. f32 needs no such care: a parameter is converted to its slot's dtype. */
static tsr__kval number_value(emit *e, const tsr__gnode *g)
{
  bool halves = is_stored(g->dtype) && tsr__dtype_is_real((tsr_dtype)g->dtype);
  int dtype = halves ? TSR_F64 : register_of(g->dtype);
  int slot = tsr__kbuild_slot(&e->build, TSR__SLOT_PARAM, (tsr_dtype)dtype, g->param);
  tsr__kval value = { slot, true, (uint8_t)dtype };
  return halves ? cast_value(e, value, g->dtype) : round_value(e, value, g->dtype);
}

/* Writes a value to memory in fewer bits than its register has. */
static void store_narrow(emit *e, int dtype, int output, tsr__kval x)
{
  tsr__kbuild *b = &e->build;
  x = spread_out(e, x);
  int slot = tsr__kbuild_slot(b, TSR__SLOT_OUTPUT, (tsr_dtype)dtype, output);
  tsr__kbuild_inst(b, false,
                   (tsr__inst){ .op = TSR__K_NARROW,
                                .dtype = (uint8_t)dtype,
                                .count = 1,
                                .out = slot,
                                .in = { x.slot, -1, -1 },
                                .extra = -1 });
}

/* Makes the slot of a value a result in memory, or copies it there if the slot is something
 * else.
 *   register                becomes the OUTPUT slot: its instruction writes to memory
 *   uniform, input, one     copied there by an instruction of its own
 *   narrow type             narrowed there */
static void store_node(emit *e, int n)
{
  tsr__kbuild *b = &e->build;
  tsr__kval x = e->value[n];
  int output = tsr__kbuild_output(b, n), dtype = program_node(e, n)->dtype;
  if (b->failed) return;
  bool loaded = x.dtype == dtype && b->slots[x.slot].kind == TSR__SLOT_REG; /* bits, not a value */
  if (is_stored(dtype) && !loaded) {
    store_narrow(e, dtype, output, in_register(e, n));
    return;
  }
  if (x.uniform || b->slots[x.slot].kind != TSR__SLOT_REG) {
    bool uniform = x.uniform;
    x.uniform = true; /* forces the copy */
    x = spread_out(e, x);
    /* spread_out reads one value for all; an operand read in place has one value an element. */
    if (!uniform && !b->failed) b->insts[1][b->inst_count[1] - 1].scalar = 0;
    if (b->failed) return;
  }
  b->slots[x.slot].kind = TSR__SLOT_OUTPUT;
  b->slots[x.slot].index = output;
  /* Later readers take the stored one, which is warm; a uniform stays one value for them. */
  if (!e->value[n].uniform) e->value[n] = x;
}

/* ---- reductions ------------------------------------------------------------------------------ */

static unsigned accum_takes(const tsr__accum *accum)
{
  return tsr__accum_infos[accum->row].takes;
}

/* Sums of bools and i32 reach us as casts to i64; the cast need not be done to add exactly. The
 * value under the cast must be at hand as an element, or the cast is made after all. */
static int uncast(const emit *e, const tsr__accum *accum, int n)
{
  const tsr__gnode *g = program_node(e, n);
  bool casts = table[g->op].write == emit_cast;
  if (!(accum_takes(accum) & TSR__TAKES_BITS) || !casts || g->dtype != TSR_I64) return n;
  int in = in_of(e, g, 0), from = program_node(e, in)->dtype;
  const tsr__fact *fact = &e->fusion->fact[in];
  bool same = fact->kernel == e->kernel ||
              (!fact->tile && tsr__reach(e->fusion, n, 0) == TSR__REACH_ELEMENT);
  return same && (from == TSR_BOOL || from == TSR_I32) ? in : n;
}

static tsr__kval reduced_value(emit *e, int n)
{
  if (n < 0) return (tsr__kval){ -1, false, 0 };
  if (e->value[n].slot < 0)
    hold_value(e, n, e->fusion->fact[n].uniform ? load_one(e, n) : load_aligned(e, n));
  return spread_out(e, in_register(e, n));
}

/* Accumulators take i32, i64, u64 and floats, each those that its row names. NATURAL sums u64 as
 * it is. TURNED, for extremes and spreads, moves the middle of u64 to 0, so that signed comparisons
 * order it. */
static tsr__kval summable(emit *e, unsigned takes, tsr__kval x)
{
  tsr__kbuild *b = &e->build;
  if (x.dtype == TSR_BOOL) return takes & TSR__TAKES_BITS ? x : cast_value(e, x, TSR_I64);
  if (x.dtype == TSR_F32) return takes & TSR__TAKES_DOUBLE ? convert_value(e, x, TSR_F64) : x;
  if (x.dtype == TSR_U32) return convert_value(e, x, TSR_I64);
  if (x.dtype != TSR_U64 || takes & TSR__TAKES_NATURAL) return x;
  x.dtype = TSR_I64;
  if (!(takes & TSR__TAKES_TURNED)) return x;
  tsr__kval turn[2] = { x, tsr__kbuild_const_i(b, TSR_I64, INT64_MIN) };
  return tsr__kbuild_op(b, TSR__K_XOR, TSR_I64, TSR_I64, turn);
}

static void emit_reduction(emit *e, int a)
{
  const tsr__accum *accum = &e->fusion->out->accums[a];
  const tsr__gnode *g = program_node(e, accum->node);
  const tsr__reduce_attr *attr = tsr__reduce_of(e->program, g);
  tsr__kbuild *b = &e->build;
  int from = accum->operand < 0 ? -1 : uncast(e, accum, accum->operand);
  tsr__kval x = reduced_value(e, from);
  tsr__kval mask = reduced_value(e, accum->mask);
  tsr__kval codes = reduced_value(e, accum->codes);
  if (x.slot >= 0) x = summable(e, accum_takes(accum), x);
  /* Trues under a mask are counted as one mask, the AND of both, without a value. */
  if (accum->row == TSR__ACCUM_COUNT && x.slot >= 0 && mask.slot >= 0) {
    tsr__kval both[2] = { x, mask };
    mask = tsr__kbuild_op(b, TSR__K_AND, TSR_BOOL, TSR_BOOL, both);
    x.slot = -1;
  }
  if (codes.slot >= 0) codes = cast_value(e, codes, TSR_I32);
  e->ordered = e->ordered || (accum_takes(accum) & TSR__TAKES_ORDERED);
  int extra = (int)b->red_count;
  if (!tsr__kbuild_room(b, &b->reds, &b->red_cap, b->red_count + 1, sizeof *b->reds)) return;
  b->reds[b->red_count++] = (tsr__redinfo){
    .accum = a,
    .value = x.slot,
    .mask = mask.slot,
    .codes = codes.slot,
    .dtype = x.dtype,
    .dims = attr->dims,
    .groups = codes.slot >= 0 ? attr->groups : 0,
  };
  tsr__kbuild_inst(b, false,
                   (tsr__inst){ .op = TSR__K_REDUCE,
                                .dtype = x.dtype,
                                .count = 3,
                                .out = -1,
                                .in = { x.slot, mask.slot, codes.slot },
                                .extra = extra });
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static void need_node(const emit *e, int n)
{
  if (n < 0) return;
  e->fusion->fact[n].needed = true;
  mark_node(e, n);
}

/* Marks the operands of node `n` that this kernel computes or reads through. Uniform operands are
 * always needed, and so are their own operands; a view is followed to its operand in memory, which
 * is an input and no node of this kernel. */
static void need_operands(const emit *e, int n)
{
  const tsr__fusion *f = e->fusion;
  bool needed = f->fact[n].needed && computed_here(e, n);
  TSR_FOR_OPERANDS (e->program, program_node(e, n), i, o) {
    int reach = tsr__reach(f, n, i);
    if (reach == TSR__REACH_VIEW) {
      f->fact[o].through = true;
      mark_node(e, o);
    } else if ((needed && reach == TSR__REACH_ELEMENT) || reach == TSR__REACH_UNIFORM) {
      need_node(e, o);
    }
  }
}

static void need_accum(const emit *e, int a)
{
  const tsr__accum *accum = &e->fusion->out->accums[a];
  need_node(e, accum->operand < 0 ? -1 : uncast(e, accum, accum->operand));
  need_node(e, accum->mask);
  need_node(e, accum->codes);
}

/* The results of this kernel. */
static void mark_results(const emit *e)
{
  const tsr__fusion *f = e->fusion;
  for (int i = f->kernel_first[e->kernel]; i < f->kernel_first[e->kernel + 1]; i++) {
    int n = f->kernel_nodes[i];
    if (f->fact[n].store) need_node(e, n);
    if (f->node_accum[n] >= 0) mark_node(e, n);
    for (int a = f->node_accum[n]; a >= 0; a = f->next_accum[a]) need_accum(e, a);
  }
}

/* The node that is marked next after `n`, downwards; -1: none. Programs are long and most kernels
 * see few of their nodes. */
static int mark_below(const emit *e, int n)
{
  const uint64_t *marks = e->fusion->marks;
  if (n <= 0) return -1;
  int word = (n - 1) / 64;
  uint64_t bits = marks[word] & (~UINT64_C(0) >> (63 - (n - 1) % 64));
  while (!bits && word > 0) bits = marks[--word];
  return bits ? word * 64 + 63 - __builtin_clzll(bits) : -1;
}

/* The same upwards. */
static int mark_above(const emit *e, int n)
{
  const uint64_t *marks = e->fusion->marks;
  int count = e->program->node_count, word = (n + 1) / 64, last = (count - 1) / 64;
  if (n + 1 >= count) return -1;
  uint64_t bits = marks[word] & (~UINT64_C(0) << (n + 1) % 64);
  while (!bits && word < last) bits = marks[++word];
  return bits ? word * 64 + __builtin_ctzll(bits) : -1;
}

/* Marks the nodes that the results of this kernel need, from the last node to the first. */
static void mark_needed(const emit *e)
{
  const tsr__fusion *f = e->fusion;
  mark_results(e);
  for (int n = e->program->node_count; (n = mark_below(e, n)) >= 0;)
    if (f->fact[n].through || (f->fact[n].needed && computed_here(e, n))) need_operands(e, n);
}

static void write_nodes(emit *e)
{
  const tsr__fusion *f = e->fusion;
  for (int n = -1; (n = mark_above(e, n)) >= 0;) {
    const tsr__gnode *g = program_node(e, n);
    if (f->fact[n].needed && g->op == TSR__OP_CONST) {
      hold_value(e, n, number_value(e, g));
    } else if (f->fact[n].needed && computed_here(e, n)) {
      hold_value(e, n, compute_node(e, n));
      if (f->fact[n].store && f->fact[n].kernel == e->kernel) store_node(e, n);
    }
    for (int a = f->node_accum[n]; a >= 0; a = f->next_accum[a])
      /* Right after its operands, while their tiles are in the cache. */
      if (f->fact[n].kernel == e->kernel) emit_reduction(e, a);
  }
}

/* Clears the marked nodes for the next kernel. Clearing all nodes for each kernel would be
 * quadratic in long programs. */
static void clear_marks(const emit *e)
{
  const tsr__fusion *f = e->fusion;
  for (int n = -1; (n = mark_above(e, n)) >= 0;) {
    f->fact[n].needed = f->fact[n].through = false;
    f->value[n].slot = -1;
  }
  memset(f->marks, 0, ((size_t)e->program->node_count + 63) / 64 * sizeof *f->marks);
}

/*   results of this kernel      marked
 *   nodes they need, backwards  marked      mark_needed
 *   marked nodes, forwards      written     write_nodes
 *   marks                       cleared     for the next kernel */
tsr_status tsr__emit(const tsr__fusion *fusion, int kernel, tsr__kernel **out)
{
  int first = fusion->kernel_nodes[fusion->kernel_first[kernel]];
  emit e = { .fusion = fusion,
             .program = fusion->program,
             .kernel = kernel,
             .value = fusion->value,
             .domain = fusion->domains[fusion->fact[first].domain] };
  const tsr__arena before = *fusion->scratch;
  tsr__kbuild_init(&e.build, fusion->heap, fusion->scratch);
  mark_needed(&e);
  write_nodes(&e);
  clear_marks(&e);
  tsr_status status = tsr__kbuild_finish(&e.build, out, fusion->error);
  if (!status) {
    (*out)->io.domain = e.domain;
    (*out)->rank = program_node(&e, e.domain)->rank;
    (*out)->ordered = e.ordered;
    int nodes = (*out)->io.input_count + (*out)->io.output_count;
    for (int i = 0; i < nodes; i++) (*out)->numbers[i] = fusion->numbers[(*out)->lists[i]];
  }
  tsr__arena_back(fusion->scratch, &before);
  return status;
}
