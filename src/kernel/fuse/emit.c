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
  tsr__kval *value; /* by node; slot -1: not yet. What has one is marked */
  int kernel;
  int domain; /* a node of the domain */
  bool ordered;
} emit;

static const tsr__gnode *node_of(const emit *e, int n)
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

static tsr__kval apply(emit *e, tsr__kop op, int dtype, int result, tsr__kval x)
{
  return tsr__kbuild_op(&e->build, op, (tsr_dtype)dtype, (tsr_dtype)result, &x);
}

/* What lies in memory, in a register. */
static tsr__kval widen(emit *e, tsr__kval x)
{
  return is_stored(x.dtype) ? apply(e, TSR__K_WIDEN, x.dtype, register_of(x.dtype), x) : x;
}

/* What an operation gave, as its dtype would have kept it. After each operation and not once at
 * the end of a chain: a fused kernel gives what separate ones would. */
static tsr__kval keep(emit *e, tsr__kval x, int dtype)
{
  return is_stored(dtype) ? apply(e, TSR__K_ROUND, dtype, x.dtype, x) : x;
}

static tsr__kval convert(emit *e, tsr__kval x, int to)
{
  static const uint8_t kops[TSR__DTYPES] = {
    [TSR_BOOL] = TSR__K_TO_BOOL, [TSR_I32] = TSR__K_TO_I32, [TSR_I64] = TSR__K_TO_I64,
    [TSR_U32] = TSR__K_TO_U32,   [TSR_U64] = TSR__K_TO_U64, [TSR_F32] = TSR__K_TO_F32,
    [TSR_F64] = TSR__K_TO_F64,
  };
  return x.dtype == to ? x : apply(e, (tsr__kop)kops[to], x.dtype, to, x);
}

/* From a register to a dtype, in its register. What is rounded to f16 and bf16 goes to f32 by way
 * of odd, so that it is rounded once; what a float gives narrow integers is cut to their ends.
 *   to i8      by way of i32, then its low bits; from floats its nearest end (CLAMP)
 *   to f16     from i32, u32: exactly in f64; from bools, f32: in f32; from wider ones by ODD */
static tsr__kval cast(emit *e, tsr__kval x, int dtype)
{
  bool from_float = tsr__dtype_float((tsr_dtype)x.dtype);
  if (!is_stored(dtype)) return convert(e, x, dtype);
  if (!tsr__dtype_float((tsr_dtype)dtype)) {
    x = convert(e, x, register_of(dtype));
    return from_float ? apply(e, TSR__K_CLAMP, dtype, x.dtype, x) : keep(e, x, dtype);
  }
  if (x.dtype == TSR_I32 || x.dtype == TSR_U32) x = convert(e, x, TSR_F64);
  if (x.dtype == TSR_BOOL) x = convert(e, x, TSR_F32);
  if (x.dtype != TSR_F32) x = apply(e, TSR__K_ODD, x.dtype, TSR_F32, x);
  return keep(e, x, dtype);
}

/* ---- operands in memory ---------------------------------------------------------------------- */

static tsr__kval load_one(emit *e, int n);

/* Loads of a kernel lie in one list; an instruction names the first of its own, and `more`
 * chains them. */
static void add_load(emit *e, const tsr__loadinfo *load)
{
  tsr__kbuild *b = &e->build;
  if (tsr__kbuild_room(b, &b->loads, &b->load_cap, b->load_count + 1, sizeof *b->loads))
    b->loads[b->load_count++] = *load;
}

static void mark(const emit *e, int n)
{
  e->fusion->marks[n / 64] |= UINT64_C(1) << n % 64;
}

/* Gives a node its value. */
static void hold(emit *e, int n, tsr__kval x)
{
  mark(e, n);
  e->value[n] = x;
}

/* One value for a part of a tile, as it lies in memory. A piece is copied into a tile of
 * memory's type, before the tile as a whole is widened. */
static int fill_of(emit *e, int n)
{
  int dtype = node_of(e, n)->dtype;
  if (e->value[n].slot < 0) hold(e, n, load_one(e, n));
  tsr__kval x = e->value[n];
  return is_stored(dtype) ? apply(e, TSR__K_NARROW, dtype, dtype, x).slot : x.slot;
}

static void view_pieces(emit *e, int n, const tsr__loadinfo *load);

static void add_memory(emit *e, int n, const tsr__loadinfo *load)
{
  tsr__loadinfo piece = *load;
  /* Another may follow; the last one is told so when all are known (loaded). */
  piece.more = true;
  if (e->fusion->fact[n].uniform) {
    piece.rank = 0; /* the same wherever it is read */
    piece.fill = fill_of(e, n);
  } else {
    piece.input = tsr__kbuild_input(&e->build, n);
  }
  add_load(e, &piece);
}

/* What is seen of a node, piece by piece; views are read through. */
static void add_pieces(emit *e, int n, const tsr__loadinfo *load)
{
  if (e->fusion->fact[n].view) view_pieces(e, n, load);
  else add_memory(e, n, load);
}

/* Memory is read as if it had the shape of the view. */
static void add_lines(emit *e, int n, const tsr__loadinfo *load)
{
  if (tsr__reads_lines(e->program, n)) add_pieces(e, n, load);
  else add_memory(e, n, load);
}

/* The first operand lies over the others. Pieces are written in order over the same tile, so
 * what lies on top comes last: operands from the last to the first. */
static void view_pieces(emit *e, int n, const tsr__loadinfo *load)
{
  const tsr__gnode *g = node_of(e, n);
  tsr__loadinfo inner;
  if (tsr__reads_lines(e->program, n)) {
    add_lines(e, tsr__in(e->program, g, 0), load);
    return;
  }
  for (int i = g->in_count - 1; i >= 0; i--)
    /* An operand of which nothing is seen from here is not read at all. */
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
  if (count == 1 && last->input >= 0 && tsr__load_plain(last, node_of(e, e->domain)->rank)) {
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

static tsr__kval load(emit *e, int n, const tsr__loadinfo *from)
{
  int first = (int)e->build.load_count;
  add_pieces(e, n, from);
  return loaded(e, first, node_of(e, n)->dtype);
}

/* An operand that is aligned with the domain at the last dim. */
static tsr__kval load_aligned(emit *e, int n)
{
  tsr__loadinfo from = tsr__load_aligned(node_of(e, e->domain), node_of(e, n));
  return load(e, n, &from);
}

/* A value as its instructions want it: what was loaded is widened for the first that needs it.
 * The widened value takes the place of the loaded one, so it is widened once a kernel. */
static tsr__kval in_register(emit *e, int n)
{
  if (!e->value[n].uniform) e->value[n] = widen(e, e->value[n]);
  return e->value[n];
}

/* One element in memory, for all. */
static tsr__kval load_one(emit *e, int n)
{
  const tsr__gnode *g = node_of(e, n);
  tsr__kbuild *b = &e->build;
  int slot = tsr__kbuild_slot(b, TSR__SLOT_ONE, (tsr_dtype)g->dtype, tsr__kbuild_input(b, n));
  tsr__kval value = { slot, true, g->dtype };
  if (g->dtype != TSR_BOOL) return widen(e, value);
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

static tsr__kval operand(emit *e, int n, int i)
{
  int o = in_of(e, node_of(e, n), i);
  /* Written before: a node's value is one slot, however many read it. */
  if (e->value[o].slot >= 0) return in_register(e, o);
  const tsr__gnode *g = node_of(e, n);
  if (e->fusion->fact[o].uniform) {
    hold(e, o, load_one(e, o));
  } else if (tsr__ops[g->op].shape_rule == TSR__SH_TAKE && i == 1 &&
             node_of(e, in_of(e, g, 0))->rank != 1) {
    /* The indices lie along some dims of the result only; nobody else reads them so. */
    tsr__loadinfo from = tsr__load_aligned(node_of(e, o), node_of(e, o));
    for (int d = 0; d < from.rank; d++) from.dims[d].dim += tsr__dim_of(e->program, g);
    return widen(e, load(e, o, &from));
  } else {
    hold(e, o, load_aligned(e, o));
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

/* A value made of positions, or looked up: of the dtype that its table has in memory. */
static tsr__kval source(emit *e, int n, tsr__kop op, tsr__sourceinfo info, int in)
{
  tsr__kbuild *b = &e->build;
  const tsr__gnode *g = node_of(e, n);
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
  return widen(e, (tsr__kval){ slot, false, (uint8_t)dtype });
}

/* ---- operations ------------------------------------------------------------------------------ */

/* What rows of the table name by EMIT. */

static tsr__kval emit_cast(emit *e, int n)
{
  return cast(e, operand(e, n, 0), node_of(e, n)->dtype);
}

static tsr__kval emit_same(emit *e, int n)
{
  return operand(e, n, 0);
}

static tsr__kval emit_full(emit *e, int n)
{
  return cast(e, operand(e, n, 0), node_of(e, n)->dtype);
}

static tsr__kval emit_iota(emit *e, int n)
{
  const tsr__gnode *g = node_of(e, n);
  tsr__sourceinfo along = { .dim = tsr__dim_of(e->program, g) };
  return keep(e, source(e, n, TSR__K_IOTA, along, -1), g->dtype);
}

/* The table is no operand of the instruction: it is read from memory anywhere, an index at a
 * time. Along a dim the indices have the table's other dims and lie like the result, of which one
 * dim is theirs; otherwise all of theirs stand in it. */
static tsr__kval emit_take(emit *e, int n)
{
  const tsr__gnode *g = node_of(e, n);
  tsr__sourceinfo info = { .input = tsr__kbuild_input(&e->build, in_of(e, g, 0)),
                           .dim = tsr__dim_of(e->program, g),
                           .span = tsr__ops[g->op].shape_rule == TSR__SH_TAKE_ALONG
                                       ? 1
                                       : node_of(e, in_of(e, g, 1))->rank };
  return source(e, n, TSR__K_TAKE, info, spread_out(e, operand(e, n, 1)).slot);
}

static tsr__kval emit_within(emit *e, int n)
{
  return source(e, n, TSR__K_WITHIN, (tsr__sourceinfo){ 0 }, spread_out(e, operand(e, n, 0)).slot);
}

static tsr__kval emit_search(emit *e, int n)
{
  tsr__sourceinfo info = { .input = tsr__kbuild_input(&e->build, in_of(e, node_of(e, n), 0)) };
  return source(e, n, TSR__K_SEARCH, info, spread_out(e, operand(e, n, 1)).slot);
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
  x = apply(e, TSR__K_FLOOR, TSR_F32, TSR_F32, x);
  tsr__kval down[2] = { x, tsr__kbuild_const_f(b, TSR_F32, 1 / steps) };
  return tsr__kbuild_op(b, TSR__K_MUL, TSR_F32, TSR_F32, down);
}

static tsr__kval emit_uniform(emit *e, int n)
{
  tsr__kval x = source(e, n, TSR__K_UNIFORM, (tsr__sourceinfo){ 0 }, -1);
  return cut_draws(e, x, node_of(e, n)->dtype);
}

static tsr__kval shift_bits(emit *e, tsr__kop op, tsr__kval x, int64_t by)
{
  tsr__kval in[2] = { x, tsr__kbuild_const_i(&e->build, TSR_I64, by) };
  return tsr__kbuild_op(&e->build, op, TSR_I64, TSR_I64, in);
}

/* Of floats what emit_uniform draws of the same words: of f64 the top 53 bits, of others the top 24
 * of the lower word. */
static tsr__kval emit_random(emit *e, int n)
{
  int dtype = node_of(e, n)->dtype, to = register_of(dtype);
  tsr__kval in[3] = { operand(e, n, 0), operand(e, n, 1), operand(e, n, 2) };
  tsr__kval x = tsr__kbuild_op(&e->build, TSR__K_PHILOX, TSR_U64, TSR_U64, in);
  if (!tsr__dtype_float((tsr_dtype)dtype)) return cast(e, x, dtype);
  x.dtype = TSR_I64; /* the same bits; none is negative below */
  /* The lower word, moved up, loses the upper one; then its top 24 bits are all there is. */
  if (to == TSR_F32) x = shift_bits(e, TSR__K_SHL, x, 32);
  x = convert(e, shift_bits(e, TSR__K_SHR, x, to == TSR_F32 ? 40 : 11), to);
  tsr__kval unit = tsr__kbuild_const_f(&e->build, (tsr_dtype)to, to == TSR_F32 ? 0x1p-24 : 0x1p-53);
  tsr__kval down[2] = { x, unit };
  x = tsr__kbuild_op(&e->build, TSR__K_MUL, (tsr_dtype)to, (tsr_dtype)to, down);
  return cut_draws(e, x, dtype);
}

/* On integers it turns all bits: exclusive or with -1, which is all ones in every width. */
static tsr__kval emit_not(emit *e, int n)
{
  tsr__kval x = operand(e, n, 0);
  tsr_dtype in_register = (tsr_dtype)x.dtype;
  if (x.dtype == TSR_BOOL) return apply(e, TSR__K_NOT, TSR_BOOL, TSR_BOOL, x);
  tsr__kval in[2] = { x, tsr__kbuild_const_i(&e->build, in_register, -1) };
  x = tsr__kbuild_op(&e->build, TSR__K_XOR, in_register, in_register, in);
  return keep(e, x, node_of(e, n)->dtype);
}

/* The bits of an integer with zeros above them in its register; `rest`: how many. Sign bits of a
 * narrow number in its register would be counted as its own. */
static tsr__kval bits_of(emit *e, int n, int *rest)
{
  const tsr__dtype_info *info = tsr__dtype_info_of((tsr_dtype)node_of(e, n)->dtype);
  tsr__kval x = operand(e, n, 0);
  *rest = tsr__dtype_info_of((tsr_dtype)x.dtype)->bits - info->bits;
  if (!*rest) return x;
  int64_t mask = (INT64_C(1) << info->bits) - 1;
  tsr__kval in[2] = { x, tsr__kbuild_const_i(&e->build, (tsr_dtype)x.dtype, mask) };
  return tsr__kbuild_op(&e->build, TSR__K_AND, (tsr_dtype)x.dtype, (tsr_dtype)x.dtype, in);
}

static tsr__kval emit_popcount(emit *e, int n)
{
  int rest;
  tsr__kval x = bits_of(e, n, &rest);
  return apply(e, TSR__K_POPCOUNT, x.dtype, x.dtype, x);
}

/* Narrow types have `rest` zeros too many above them in their registers. */
static tsr__kval emit_clz(emit *e, int n)
{
  int rest;
  tsr__kval x = bits_of(e, n, &rest);
  x = apply(e, TSR__K_CLZ, x.dtype, x.dtype, x);
  tsr__kval in[2] = { x, tsr__kbuild_const_i(&e->build, (tsr_dtype)x.dtype, rest) };
  return rest ? tsr__kbuild_op(&e->build, TSR__K_SUB, (tsr_dtype)x.dtype, (tsr_dtype)x.dtype, in)
              : x;
}

/* An instruction that must know the dtype that its result is kept in. */
static tsr__kval kept_by(emit *e, int n, tsr__kop op)
{
  const tsr__gnode *g = node_of(e, n);
  tsr__kval in[TSR__K_OPERANDS];
  for (int i = 0; i < g->in_count; i++) in[i] = operand(e, n, i);
  tsr_dtype dtype = (tsr_dtype)g->dtype;
  return keep(e, tsr__kbuild_op(&e->build, op, dtype, (tsr_dtype)in[0].dtype, in), g->dtype);
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
  if (e->fusion->fact[n].uniform) return operand(e, n, 0);
  tsr__loadinfo from = tsr__load_aligned(node_of(e, n), node_of(e, n));
  view_pieces(e, n, &from);
  return loaded(e, first, node_of(e, n)->dtype);
}

/* How an operation is computed: what the kernel column of its row says. Written from the table
 * by including it with these meanings of its kernels. What is no instruction and no writer
 * (reductions, parts, leaves) is handled where kernels begin and end. */
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
static tsr__kval compute(emit *e, int n)
{
  const tsr__gnode *g = node_of(e, n);
  const lowered *how = &table[g->op];
  if (how->write) return how->write(e, n);
  tsr__kval in[TSR__K_OPERANDS];
  for (int i = 0; i < g->in_count; i++) in[i] = operand(e, n, i);
  tsr_dtype dtype = (tsr_dtype)in[g->in_count - 1].dtype; /* operand 0 of where is its condition */
  tsr_dtype result = (tsr_dtype)register_of(g->dtype);
  return keep(e, tsr__kbuild_op(&e->build, (tsr__kop)how->instruction, dtype, result, in),
              g->dtype);
}

/* A number of the formula. One that is kept in few bits is rounded to them from the double it
 * is. f32 needs no such care: a parameter is converted to its slot's dtype. */
static tsr__kval number(emit *e, const tsr__gnode *g)
{
  bool halves = is_stored(g->dtype) && tsr__dtype_float((tsr_dtype)g->dtype);
  int dtype = halves ? TSR_F64 : register_of(g->dtype);
  int slot = tsr__kbuild_slot(&e->build, TSR__SLOT_PARAM, (tsr_dtype)dtype, g->param);
  tsr__kval value = { slot, true, (uint8_t)dtype };
  return halves ? cast(e, value, g->dtype) : keep(e, value, g->dtype);
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
static void store(emit *e, int n)
{
  tsr__kbuild *b = &e->build;
  tsr__kval x = e->value[n];
  int output = tsr__kbuild_output(b, n), dtype = node_of(e, n)->dtype;
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
    /* spread_out reads one value for all; what was loaded in place has one an element. */
    if (!uniform && !b->failed) b->insts[1][b->inst_count[1] - 1].scalar = 0;
    if (b->failed) return;
  }
  b->slots[x.slot].kind = TSR__SLOT_OUTPUT;
  b->slots[x.slot].index = output;
  /* Later readers take the stored one, which is warm; a uniform stays one value for them. */
  if (!e->value[n].uniform) e->value[n] = x;
}

/* ---- reductions ------------------------------------------------------------------------------ */

static unsigned takes(const tsr__accum *accum)
{
  return tsr__accum_infos[accum->row].takes;
}

/* Sums of bools and i32 reach us as casts to i64; the cast need not be done to add exactly. The
 * value under the cast must be at hand as an element, or the cast is made after all. */
static int uncast(const emit *e, const tsr__accum *accum, int n)
{
  const tsr__gnode *g = node_of(e, n);
  bool casts = table[g->op].write == emit_cast;
  if (!(takes(accum) & TSR__TAKES_BITS) || !casts || g->dtype != TSR_I64) return n;
  int in = in_of(e, g, 0), from = node_of(e, in)->dtype;
  const tsr__fact *fact = &e->fusion->fact[in];
  bool same = fact->kernel == e->kernel ||
              (!fact->tile && tsr__reach(e->fusion, n, 0) == TSR__REACH_ELEMENT);
  return same && (from == TSR_BOOL || from == TSR_I32) ? in : n;
}

static tsr__kval value_at(emit *e, int n)
{
  if (n < 0) return (tsr__kval){ -1, false, 0 };
  if (e->value[n].slot < 0)
    hold(e, n, e->fusion->fact[n].uniform ? load_one(e, n) : load_aligned(e, n));
  return spread_out(e, in_register(e, n));
}

/* Accumulators know i32, i64, u64 and floats, and of these what their rows say. NATURAL sums u64
 * as it is. TURNED, for extremes and spreads, moves its middle to 0, so that signed comparisons
 * order it. */
static tsr__kval summable(emit *e, unsigned takes, tsr__kval x)
{
  tsr__kbuild *b = &e->build;
  if (x.dtype == TSR_BOOL) return takes & TSR__TAKES_BITS ? x : cast(e, x, TSR_I64);
  if (x.dtype == TSR_F32) return takes & TSR__TAKES_DOUBLE ? convert(e, x, TSR_F64) : x;
  if (x.dtype == TSR_U32) return convert(e, x, TSR_I64);
  if (x.dtype != TSR_U64 || takes & TSR__TAKES_NATURAL) return x;
  x.dtype = TSR_I64;
  if (!(takes & TSR__TAKES_TURNED)) return x;
  tsr__kval turn[2] = { x, tsr__kbuild_const_i(b, TSR_I64, INT64_MIN) };
  return tsr__kbuild_op(b, TSR__K_XOR, TSR_I64, TSR_I64, turn);
}

static void reduce(emit *e, int a)
{
  const tsr__accum *accum = &e->fusion->out->accums[a];
  const tsr__gnode *g = node_of(e, accum->node);
  const tsr__reduce_attr *attr = tsr__reduce_of(e->program, g);
  tsr__kbuild *b = &e->build;
  int from = accum->operand < 0 ? -1 : uncast(e, accum, accum->operand);
  tsr__kval x = value_at(e, from);
  tsr__kval mask = value_at(e, accum->mask);
  tsr__kval codes = value_at(e, accum->codes);
  if (x.slot >= 0) x = summable(e, takes(accum), x);
  /* Counting trues under a mask is counting what both leave: one mask, and no value. */
  if (accum->row == TSR__ACCUM_COUNT && x.slot >= 0 && mask.slot >= 0) {
    tsr__kval both[2] = { x, mask };
    mask = tsr__kbuild_op(b, TSR__K_AND, TSR_BOOL, TSR_BOOL, both);
    x.slot = -1;
  }
  if (codes.slot >= 0) codes = cast(e, codes, TSR_I32);
  e->ordered = e->ordered || (takes(accum) & TSR__TAKES_ORDERED);
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

static void need(const emit *e, int n)
{
  if (n < 0) return;
  e->fusion->fact[n].needed = true;
  mark(e, n);
}

/* What node `n` reads that is computed here, or read through to be read. Uniform operands are
 * needed by whatever is computed here, so their own operands are, too; a view is gone through to
 * what lies in memory, which is an input and no node of this kernel. */
static void need_operands(const emit *e, int n)
{
  const tsr__fusion *f = e->fusion;
  bool needed = f->fact[n].needed && computed_here(e, n);
  TSR_FOR_OPERANDS (e->program, node_of(e, n), i, o) {
    int reach = tsr__reach(f, n, i);
    if (reach == TSR__REACH_VIEW) {
      f->fact[o].through = true;
      mark(e, o);
    } else if ((needed && reach == TSR__REACH_ELEMENT) || reach == TSR__REACH_UNIFORM) {
      need(e, o);
    }
  }
}

static void need_accum(const emit *e, int a)
{
  const tsr__accum *accum = &e->fusion->out->accums[a];
  need(e, accum->operand < 0 ? -1 : uncast(e, accum, accum->operand));
  need(e, accum->mask);
  need(e, accum->codes);
}

/* The results of this kernel. */
static void mark_results(const emit *e)
{
  const tsr__fusion *f = e->fusion;
  for (int i = f->kernel_first[e->kernel]; i < f->kernel_first[e->kernel + 1]; i++) {
    int n = f->kernel_nodes[i];
    if (f->fact[n].store) need(e, n);
    if (f->node_accum[n] >= 0) mark(e, n);
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

/* Marks what the results of this kernel need, from the last node to the first. */
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
    const tsr__gnode *g = node_of(e, n);
    if (f->fact[n].needed && g->op == TSR__OP_CONST) {
      hold(e, n, number(e, g));
    } else if (f->fact[n].needed && computed_here(e, n)) {
      hold(e, n, compute(e, n));
      if (f->fact[n].store && f->fact[n].kernel == e->kernel) store(e, n);
    }
    for (int a = f->node_accum[n]; a >= 0; a = f->next_accum[a])
      /* Right after its operands, while their tiles are in the cache. */
      if (f->fact[n].kernel == e->kernel) reduce(e, a);
  }
}

/* Leaves all as the next kernel must find it. Only what was marked: clearing all nodes for each
 * kernel would be quadratic in long programs. */
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
 *   what they need, backwards   marked      mark_needed
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
    (*out)->rank = node_of(&e, e.domain)->rank;
    (*out)->ordered = e.ordered;
    int nodes = (*out)->io.input_count + (*out)->io.output_count;
    for (int i = 0; i < nodes; i++) (*out)->numbers[i] = fusion->numbers[(*out)->lists[i]];
  }
  tsr__arena_back(fusion->scratch, &before);
  return status;
}
