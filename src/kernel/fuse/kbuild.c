/* Writing a kernel: code over as many slots as there are values, registers given out at the end.
 *
 * Invariant: each slot is written by one instruction. A slot that turns out to be a result of the
 * kernel becomes an OUTPUT slot in place, so results are computed straight into memory. */
#include "kernel/fuse/kir.h"

const char *const tsr__kop_names[TSR__K_COUNT] = {
#define KOP_NAME(id, name, count) name,
#define FORMULA_NAME(name, count) #name,
  TSR__KOP_MAP(KOP_NAME) TSR__FORMULA_MAP(FORMULA_NAME) TSR__KOP_SPECIAL(KOP_NAME)
#undef KOP_NAME
#undef FORMULA_NAME
};

const uint8_t tsr__kop_counts[TSR__K_COUNT] = {
#define KOP_COUNT(id, name, count) count,
#define FORMULA_COUNT(name, count) count,
  TSR__KOP_MAP(KOP_COUNT) TSR__FORMULA_MAP(FORMULA_COUNT) TSR__KOP_SPECIAL(KOP_COUNT)
#undef KOP_COUNT
#undef FORMULA_COUNT
};

void tsr__kbuild_init(tsr__kbuild *build, tsr__heap *heap, tsr__arena *scratch)
{
  memset(build, 0, sizeof *build);
  build->heap = heap;
  build->scratch = scratch;
}

/* The old, smaller list stays in the arena until the kernel is made. */
bool tsr__kbuild_room(tsr__kbuild *b, void *list, size_t *capacity, size_t need, size_t size)
{
  void **at = list;
  if (b->failed || need <= *capacity) return !b->failed;
  size_t wanted = *capacity < 4 ? 8 : 2 * *capacity;
  void *grown = tsr__arena_raw(b->scratch, (wanted < need ? need : wanted) * size);
  b->failed = !grown;
  if (!grown) return false;
  if (*capacity) memcpy(grown, *at, *capacity * size);
  *at = grown;
  *capacity = wanted < need ? need : wanted;
  return true;
}

/* Without memory, every value becomes slot 0 and nothing is added: callers need not check. Only
 * cells have a number among the uniforms: cells are computed or bound once a task. */
int tsr__kbuild_slot(tsr__kbuild *b, int kind, tsr_dtype dtype, int index)
{
  if (!tsr__kbuild_room(b, &b->slots, &b->slot_cap, b->slot_count + 1, sizeof *b->slots)) return 0;
  bool cell = kind == TSR__SLOT_CONST || kind == TSR__SLOT_PARAM || kind == TSR__SLOT_TEMP;
  b->slots[b->slot_count] = (tsr__slotinfo){ .kind = (uint8_t)kind,
                                             .dtype = (uint8_t)dtype,
                                             .index = index,
                                             .uniform = cell ? b->uniform_count++ : -1 };
  return (int)b->slot_count++;
}

/* The index of a node in a list; a new node is appended. A list holds the nodes that one kernel
 * reads or writes and stays short, so a linear search does. */
static int listed(tsr__kbuild *b, int **list, size_t *count, size_t *capacity, int node)
{
  for (size_t i = 0; i < *count; i++)
    if ((*list)[i] == node) return (int)i;
  if (!tsr__kbuild_room(b, list, capacity, *count + 1, sizeof **list)) return 0;
  (*list)[*count] = node;
  return (int)(*count)++;
}

int tsr__kbuild_input(tsr__kbuild *b, int node)
{
  return listed(b, &b->inputs, &b->input_count, &b->input_cap, node);
}

int tsr__kbuild_output(tsr__kbuild *b, int node)
{
  return listed(b, &b->outputs, &b->output_count, &b->output_cap, node);
}

/* Equal constants are one slot. Bits are compared, so -0 is not 0, and a NaN is itself. */
static tsr__kval constant_value(tsr__kbuild *b, tsr_dtype dtype, tsr__num value)
{
  for (size_t i = 0; i < b->slot_count; i++) {
    const tsr__slotinfo *slot = &b->slots[i];
    if (slot->kind == TSR__SLOT_CONST && slot->dtype == dtype &&
        b->consts[slot->index].value.i == value.i)
      return (tsr__kval){ (int)i, true, (uint8_t)dtype };
  }
  if (!tsr__kbuild_room(b, &b->consts, &b->const_cap, b->const_count + 1, sizeof *b->consts))
    return (tsr__kval){ 0, true, (uint8_t)dtype };
  b->consts[b->const_count] = (tsr__const){ .dtype = (uint8_t)dtype, .value = value };
  int slot = tsr__kbuild_slot(b, TSR__SLOT_CONST, dtype, (int)b->const_count++);
  return (tsr__kval){ slot, true, (uint8_t)dtype };
}

tsr__kval tsr__kbuild_const_f(tsr__kbuild *b, tsr_dtype dtype, double value)
{
  return constant_value(b, dtype, (tsr__num){ .f = value });
}

tsr__kval tsr__kbuild_const_i(tsr__kbuild *b, tsr_dtype dtype, int64_t value)
{
  return constant_value(b, dtype, (tsr__num){ .i = value });
}

void tsr__kbuild_inst(tsr__kbuild *b, bool uniform, tsr__inst inst)
{
  int part = uniform ? 0 : 1;
  if (!tsr__kbuild_room(b, &b->insts[part], &b->inst_cap[part], b->inst_count[part] + 1,
                        sizeof inst))
    return;
  b->insts[part][b->inst_count[part]++] = inst;
}

tsr__kval tsr__kbuild_op(tsr__kbuild *b, tsr__kop op, tsr_dtype dtype, tsr_dtype result,
                         const tsr__kval *in)
{
  int count = tsr__kop_counts[op];
  tsr__inst inst = { .op = (uint8_t)op,
                     .dtype = (uint8_t)dtype,
                     .count = (uint8_t)count,
                     .in = { -1, -1, -1 },
                     .extra = -1 };
  /* If all operands are one value, so is the result, and it is computed once, in the prologue.
   * Else those that are get a bit in `scalar`: tile functions have a loop for each such shape. */
  bool uniform = true;
  for (int i = 0; i < count; i++) {
    inst.in[i] = in[i].slot;
    uniform = uniform && in[i].uniform;
  }
  for (int i = 0; i < count && !uniform; i++)
    /* A uniform bool is spread over a tile of bits, and is read as any bool is. */
    if (in[i].uniform && in[i].dtype != TSR_BOOL) inst.scalar |= (uint8_t)(1u << i);
  inst.out = tsr__kbuild_slot(b, uniform ? TSR__SLOT_TEMP : TSR__SLOT_REG, result, 0);
  tsr__kbuild_inst(b, uniform, inst);
  tsr__kval value = { inst.out, uniform, (uint8_t)result };
  /* At once, so that nobody meets a uniform bool that is not. */
  if (uniform && result == TSR_BOOL && op != TSR__K_SPREAD)
    return tsr__kbuild_op(b, TSR__K_SPREAD, TSR_BOOL, TSR_BOOL, &value);
  return value;
}

/* ---- registers ------------------------------------------------------------------------------- */

/* The slots an instruction reads. */
static int reads_slot(const tsr__inst *inst, int out[TSR__K_OPERANDS])
{
  int count = 0;
  for (int i = 0; i < TSR__K_OPERANDS; i++)
    if (inst->in[i] >= 0) out[count++] = inst->in[i];
  return count;
}

/* Gives registers by last use, the most recently freed first: it is warm. An instruction's
 * operands are freed after its result has its register, so they never overlap.
 *
 *   a = load x       r0
 *   b = exp a        r1     a is read last here: r0 is free from the next instruction on
 *   c = b * b        r0
 *   store c
 *
 * Straight-line code, so the last reader is found in one walk and the rest is greedy. Fewer
 * registers are fewer tiles, and tiles must fit the first-level cache together. */
static void give_registers(tsr__kbuild *b, int *last, int *idle)
{
  int idle_count = 0, in[TSR__K_OPERANDS];
  /* The prologue has cells of its own and no registers. */
  for (size_t s = 0; s < b->slot_count; s++) last[s] = -1;
  for (size_t i = 0; i < b->inst_count[1]; i++) {
    int count = reads_slot(&b->insts[1][i], in);
    for (int k = 0; k < count; k++) last[in[k]] = (int)i;
  }
  for (size_t i = 0; i < b->inst_count[1]; i++) {
    const tsr__inst *inst = &b->insts[1][i];
    if (inst->out >= 0 && b->slots[inst->out].kind == TSR__SLOT_REG)
      b->slots[inst->out].index = idle_count ? idle[--idle_count] : b->reg_count++;
    int count = reads_slot(inst, in);
    for (int k = 0; k < count; k++) {
      if (last[in[k]] != (int)i || b->slots[in[k]].kind != TSR__SLOT_REG) continue;
      last[in[k]] = -1; /* an operand may stand twice */
      idle[idle_count++] = b->slots[in[k]].index;
    }
  }
}

static void *copied(tsr__kbuild *b, const void *from, size_t count, size_t size)
{
  /* Most kernels have no loads, sources or constants: nothing is asked for then. */
  void *to = count ? tsr__new_raw(b->heap, count * size) : NULL;
  if (to) memcpy(to, from, count * size);
  else b->failed = b->failed || count;
  return to;
}

static void fill_kernel(tsr__kbuild *b, tsr__kernel *k)
{
  k->heap = b->heap;
  k->prologue_count = (int)b->inst_count[0];
  k->inst_count = (int)(b->inst_count[0] + b->inst_count[1]);
  k->insts = tsr__new(b->heap, (size_t)k->inst_count * sizeof *k->insts);
  if (!k->insts) b->failed = true;
  else {
    for (int i = 0; i < k->inst_count; i++)
      k->insts[i] = i < k->prologue_count ? b->insts[0][i] : b->insts[1][i - k->prologue_count];
  }
  k->slots = copied(b, b->slots, b->slot_count, sizeof *b->slots);
  k->slot_count = (int)b->slot_count;
  k->reg_count = b->reg_count;
  k->uniform_count = b->uniform_count;
  k->loads = copied(b, b->loads, b->load_count, sizeof *b->loads);
  k->load_count = (int)b->load_count;
  k->sources = copied(b, b->sources, b->source_count, sizeof *b->sources);
  k->source_count = (int)b->source_count;
  k->reds = copied(b, b->reds, b->red_count, sizeof *b->reds);
  k->red_count = (int)b->red_count;
  k->consts = copied(b, b->consts, b->const_count, sizeof *b->consts);
  k->const_count = (int)b->const_count;
  k->io.input_count = (int)b->input_count;
  k->io.output_count = (int)b->output_count;
  k->io.accum_count = (int)b->red_count;
  k->io.program_insts = k->inst_count;
  k->list_count = k->io.input_count + k->io.output_count + k->io.accum_count;
  k->lists = tsr__new(b->heap, (size_t)k->list_count * sizeof(int));
  k->numbers = tsr__new(b->heap, (size_t)k->list_count * sizeof(int));
  if (!k->lists || !k->numbers) {
    b->failed = true;
    return;
  }
  /*   lists   | inputs ... | outputs ... | accums ... |       numbers beside them, for texts */
  int *at = k->lists;
  k->io.inputs = at;
  for (size_t i = 0; i < b->input_count; i++) *at++ = b->inputs[i];
  k->io.outputs = at;
  for (size_t i = 0; i < b->output_count; i++) *at++ = b->outputs[i];
  k->io.accums = at;
  for (size_t i = 0; i < b->red_count; i++) *at++ = b->reds[i].accum;
}

/* Copies every list to its exact size: lists that grew while writing have spare capacity, and plans
 * live long. */
tsr_status tsr__kbuild_finish(tsr__kbuild *b, tsr__kernel **out, tsr__error *error)
{
  size_t bytes = (b->slot_count + 1) * sizeof(int);
  int *last = tsr__arena_raw(b->scratch, bytes), *idle = tsr__arena_raw(b->scratch, bytes);
  tsr__kernel *kernel = tsr__new(b->heap, sizeof *kernel);
  if (!last || !idle || !kernel) b->failed = true;
  if (!b->failed) give_registers(b, last, idle);
  /* Set before anything can fail: freeing a half-made kernel needs it. */
  if (kernel) kernel->heap = b->heap;
  if (!b->failed) fill_kernel(b, kernel);
  if (b->failed) {
    tsr__kernel_free(kernel);
    return tsr__error_set(error, TSR_ENOMEM, "no memory for a kernel");
  }
  *out = kernel;
  return TSR_OK;
}

void tsr__kernel_free(tsr__kernel *k)
{
  if (!k) return;
  tsr__heap *heap = k->heap;
  tsr__code *code = tsr__kernel_code(k);
  if (code) code->drop(code);
  tsr__del(heap, k->insts, (size_t)k->inst_count * sizeof *k->insts);
  tsr__del(heap, k->slots, (size_t)k->slot_count * sizeof *k->slots);
  tsr__del(heap, k->loads, (size_t)k->load_count * sizeof *k->loads);
  tsr__del(heap, k->sources, (size_t)k->source_count * sizeof *k->sources);
  tsr__del(heap, k->reds, (size_t)k->red_count * sizeof *k->reds);
  tsr__del(heap, k->consts, (size_t)k->const_count * sizeof *k->consts);
  tsr__del(heap, k->lists, (size_t)k->list_count * sizeof *k->lists);
  tsr__del(heap, k->numbers, (size_t)k->list_count * sizeof *k->numbers);
  tsr__del(heap, k, sizeof *k);
}

tsr__code *tsr__kernel_code(const tsr__kernel *kernel)
{
  return atomic_load_explicit(&kernel->code, memory_order_acquire);
}

void tsr__kernel_keep(const tsr__kernel *kernel, tsr__code *code)
{
  tsr__kernel *k = (tsr__kernel *)(uintptr_t)kernel;
  atomic_store_explicit(&k->code, code, memory_order_release);
}

bool tsr__kernel_reads_own(const tsr__kernel *kernel, int input)
{
  /* An input that a load maps, a table, or one element that is read for all may be read after
   * its memory was written over; the element at the same place never is. */
  bool own = true;
  for (int i = 0; i < kernel->load_count; i++) own = own && kernel->loads[i].input != input;
  for (int i = 0; i < kernel->source_count; i++) own = own && kernel->sources[i].input != input;
  for (int s = 0; s < kernel->slot_count; s++) {
    const tsr__slotinfo *slot = &kernel->slots[s];
    own = own && (slot->kind != TSR__SLOT_ONE || slot->index != input);
  }
  return own;
}

bool tsr__kernel_may_fail(const tsr__kernel *kernel)
{
  bool may = false;
  for (int i = 0; i < kernel->inst_count; i++)
    may |= kernel->insts[i].op == TSR__K_TAKE || kernel->insts[i].op == TSR__K_WITHIN;
  return may;
}

const tsr__kernel_io *tsr__kernel_io_of(const tsr__kernel *kernel)
{
  return &kernel->io;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Prints nodes with the numbers of the program's text, so that both can be read side by side. */
static void print_slot(const tsr__kernel *k, int slot, tsr__text *out)
{
  const tsr__slotinfo *s = &k->slots[slot];
  switch (s->kind) {
  case TSR__SLOT_REG: tsr__text_add(out, "r%d", s->index); break;
  case TSR__SLOT_INPUT: tsr__text_add(out, "%%%d", k->numbers[s->index]); break;
  case TSR__SLOT_OUTPUT:
    tsr__text_add(out, "%%%d", k->numbers[k->io.input_count + s->index]);
    break;
  case TSR__SLOT_ONE: tsr__text_add(out, "one(%%%d)", k->numbers[s->index]); break;
  case TSR__SLOT_PARAM: tsr__text_add(out, "?%d", s->index); break;
  case TSR__SLOT_CONST: {
    char text[32];
    if (s->dtype == TSR_F64) tsr__text_f64(text, k->consts[s->index].value.f);
    tsr__text_add(out, s->dtype == TSR_F64 ? "%s" : "const", text);
    break;
  }
  default: tsr__text_add(out, "u%d", s->uniform);
  }
}

static void print_loads(const tsr__kernel *k, const tsr__loadinfo *load, tsr__text *out)
{
  for (bool more = true; more; more = load++->more) {
    tsr__text_add(out, " ");
    if (load->input >= 0) tsr__text_add(out, "%%%d", k->numbers[load->input]);
    else print_slot(k, load->fill, out);
  }
}

void tsr__kernel_print(const tsr__kernel *k, tsr__text *out)
{
  for (int i = 0; i < k->inst_count; i++) {
    const tsr__inst *inst = &k->insts[i];
    tsr__text_add(out, i < k->prologue_count ? "  once " : "  ");
    if (inst->out >= 0) {
      print_slot(k, inst->out, out);
      tsr__text_add(out, " = ");
    }
    tsr__text_add(out, "%s", tsr__kop_names[inst->op]);
    if (inst->dtype) tsr__text_add(out, ".%s", tsr_dtype_name((tsr_dtype)inst->dtype));
    if (inst->op == TSR__K_REDUCE) tsr__text_add(out, " #%d", k->reds[inst->extra].accum);
    if (inst->op == TSR__K_LOAD) print_loads(k, &k->loads[inst->extra], out);
    for (int o = 0; o < TSR__K_OPERANDS; o++) {
      if (inst->in[o] < 0) continue;
      tsr__text_add(out, " ");
      print_slot(k, inst->in[o], out);
    }
    tsr__text_add(out, "\n");
  }
}
