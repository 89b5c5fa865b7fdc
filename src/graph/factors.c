/* Factors: a row's sharding rule, expanded for the shapes of one node.
 *
 *   sum over dim 1 of f64[8,5]     "...r,...r->..."     factors  0: size 8, passes through
 *                                                                1: size 5, reduced
 *                                  operand 0: [0,1]   mask: [0,1]   result: [0]
 *
 * Each factor is a dim that several arrays share: they can be sharded alike along it. A dim of
 * size 1 that is broadcast has no factor (-1). A rule is a list of terms, one an operand, then
 * "->" and the result's; a term is a list of symbols, see ops.def. */
#include "graph/graph.h"

#include "tessera/indexing.h"

/* One symbol of a term: how many dims it stands for, and of what kind its factors are. */
typedef struct symbol {
  char letter; /* '.' for the aligned dims */
  uint8_t kind;
} symbol;

/*   "a!tb"   a   dims before the attribute's      passes
 *           !t   the attribute's dim              must be whole
 *            b   dims behind it                   passes */
static const char *next_symbol(const char *at, symbol *out)
{
  out->kind = TSR__FACTOR_PASS;
  if (*at == '!') out->kind = TSR__FACTOR_REPLICATE;
  if (*at == '~') out->kind = TSR__FACTOR_PERMUTE;
  if (*at == '?') out->kind = TSR__FACTOR_MEET;
  if (*at == '!' || *at == '~' || *at == '?') at++;
  out->letter = *at;
  if (*at == 'r') out->kind = TSR__FACTOR_REDUCE;
  return at + (*at == '.' ? 3 : 1);
}

static bool ends_term(char c)
{
  return c == ',' || c == '-' || c == '\0';
}

/* The start of an operand's term; those past the last one follow it. */
static const char *term_of(const char *rule, int operand)
{
  const char *term = rule;
  /* Up to "->", of which '-' stands in no term. */
  for (const char *at = rule; *at != '-'; at++)
    if (*at == ',' && operand-- > 0) term = at + 1;
  return term;
}

static const char *result_term(const char *rule)
{
  return strchr(rule, '>') + 1;
}

/* 'a' to 'z' are 1 to 26 in their low bits and '.' is 14, which is n: no rule uses that letter. */
static tsr__letter *letter_of(tsr__factors *f, char letter)
{
  return &f->letter[letter & 31];
}

static int add_factor(tsr__factors *out, uint8_t kind, int64_t size)
{
  out->kind[out->count] = kind;
  out->size[out->count] = size;
  return out->count++;
}

/* How many dims of an array of `rank` a letter stands for, `d` of them before it. '.' and 's' take
 * the dims that are left, so they come last, or alone. */
static int span_of(const tsr__factors *f, char letter, int rank, int d)
{
  switch (letter) {
  case '.': return rank - d;
  case 'g': return tsr__batch_of(f->program, f->node);
  case 'a': return tsr__dim_of(f->program, f->node) - tsr__batch_of(f->program, f->node);
  case 'b': return rank - tsr__dim_of(f->program, f->node) - tsr__more_of(f->program, f->node) - 1;
  case 't': return 1 + tsr__more_of(f->program, f->node);
  case 's': return rank - d;
  default: return 1;
  }
}

/* Whether an operand has rows that only a run knows, or is a number, which lies nowhere: no routine
 * takes these. */
static bool is_for_kernels(const tsr__factors *f)
{
  bool any = false;
  TSR_FOR_OPERANDS (f->program, f->node, i, o) {
    const tsr__gnode *in = &f->program->nodes[o];
    any = any || in->op == TSR__OP_CONST || (in->rank && in->dims[0] == TSR__DYNAMIC);
  }
  return any;
}

/* Products of floats keep the order of what they are made of. Devices that join what each made
 * of its own would join in another order. */
static bool is_ordered(const tsr__factors *f)
{
  const tsr__scatter_attr *attr = tsr__attr_of(f->program, f->node);
  return tsr__ops[f->node->op].attr == TSR__ATTR_SCATTER && attr->how == TSR_SCATTER_MUL &&
         tsr__dtype_rounds((tsr_dtype)f->node->dtype);
}

/* Dim d of an array. What is too short to be cut must be whole, if others can be cut instead; so is
 * what meets in order, or in kernels alone. */
static uint8_t kind_of(const tsr__factors *f, uint8_t kind, const int64_t *dims, int rank, int d)
{
  int64_t least = tsr__ops[f->node->op].least_cut, size = dims[d]; /* -1: known at run time */
  bool whole = kind == TSR__FACTOR_PERMUTE && least && size < least, others = size < 2;
  for (int i = 0; i < rank; i++) others = others || (i != d && dims[i] > 1);
  /* If no other dim has elements, cutting this one is all that can be done. */
  whole = whole && others;
  if (kind == TSR__FACTOR_MEET) whole = is_for_kernels(f) || is_ordered(f);
  return whole ? TSR__FACTOR_REPLICATE : kind;
}

/* The dims of a term that are not letters: "..." alone is all of an elementwise operation's, else
 * what the letters leave. Reductions are apart: their "..." and "r" interleave. */
static void meet_letters(tsr__factors *f, const char *term, const int64_t *dims, int rank)
{
  for (int d = 0; !ends_term(*term);) {
    symbol s;
    term = next_symbol(term, &s);
    tsr__letter *letter = letter_of(f, s.letter);
    /* The first term with a letter says how many dims it has and how large; later ones follow. */
    if (letter->first < 0) {
      letter->first = (int8_t)f->count;
      letter->span = (int8_t)span_of(f, s.letter, rank, d);
      for (int i = 0; i < letter->span; i++)
        add_factor(f, kind_of(f, s.kind, dims, rank, d + i), dims[d + i]);
    }
    d += letter->span;
  }
}

static void map_letters(const tsr__factors *f, const char *term, int8_t *map)
{
  while (!ends_term(*term)) {
    symbol s;
    term = next_symbol(term, &s);
    const tsr__letter *letter = &f->letter[s.letter & 31];
    for (int i = 0; i < letter->span; i++) *map++ = (int8_t)(letter->first + i);
  }
}

/* Elementwise: factor d is dim d of the result; operands align at the last dim. */
static void map_aligned(const tsr__factors *f, const tsr__gnode *in, int8_t *map)
{
  int skip = f->node->rank - in->rank;
  for (int d = 0; d < in->rank; d++)
    /* What is broadcast is the same for all: whoever has a part of the result needs all of it. */
    map[d] = in->dims[d] == 1 && f->node->dims[d + skip] != 1 ? -1 : (int8_t)(d + skip);
}

static void pass_result(tsr__factors *f)
{
  for (int d = 0; d < f->node->rank; d++)
    f->out[d] = (int8_t)add_factor(f, TSR__FACTOR_PASS, f->node->dims[d]);
}

/* Factor d is dim d of what is reduced. */
static void expand_reduction(tsr__factors *f)
{
  const tsr__gnode *node = f->node, *x = &f->program->nodes[tsr__in(f->program, node, 0)];
  const tsr__reduce_attr *attr = tsr__reduce_of(f->program, node);
  int at = 0;
  for (int d = 0; d < x->rank; d++) {
    bool gone = attr->dims >> d & 1;
    int factor = add_factor(f, gone ? TSR__FACTOR_REDUCE : TSR__FACTOR_PASS, x->dims[d]);
    /* Groups are a dim of the result that no dim of the operand becomes. A kept dim is there, of
     * size 1. */
    if (attr->groups > 0 || (gone && !attr->keep)) continue;
    f->out[at++] = gone ? -1 : (int8_t)factor;
  }
}

static int times(const uint8_t *indices, int rank, int index)
{
  int count = 0;
  for (int d = 0; d < rank; d++) count += indices[d] == index;
  return count;
}

/* Whether parts of sums over cut dims can be told apart: there is room for a dim and its index.
 * The parts are a dim of a node of its own (partition/split.c), before the sum over them: a full
 * rank, or as many indices as there can be, leave none for it. */
static bool has_parts(const tsr__factors *f, const tsr__dot_attr *attr)
{
  if (attr->parts) return true;
  return f->node->rank < TSR_MAX_RANK && f->count < TSR__MAX_FACTORS;
}

/* Factor i is index i + 1 of a product. One that runs along two dims of an operand or in windows
 * must be whole; along a dim of windows devices take what theirs show of others. */
static void expand_dot(tsr__factors *f)
{
  const tsr__dot_attr *attr = tsr__dot_of(f->program, f->node);
  const tsr__gnode *a = &f->program->nodes[tsr__in(f->program, f->node, 0)];
  const tsr__gnode *b = &f->program->nodes[tsr__in(f->program, f->node, 1)];
  for (int d = 0; d < a->rank; d++)
    if (attr->left[d]) f->size[attr->left[d] - 1] = a->dims[d];
  for (int d = 0; d < b->rank; d++)
    if (attr->right[d]) f->size[attr->right[d] - 1] = b->dims[d];
  for (int i = 1; i <= TSR__MAX_FACTORS; i++) {
    int left = times(attr->left, a->rank, i), right = times(attr->right, b->rank, i);
    bool kept = times(attr->out, f->node->rank, i);
    /* By where an index runs:
     *
     *   result, once in either operand        passes: ab,bc->ac  a and c
     *   both operands, not in the result      reduced: b; where sums are trees, of leaves alone
     *   elsewhere (aa->a, windows)            whole */
    f->kind[i - 1] = kept && left < 2 && right < 2 ? TSR__FACTOR_PASS : TSR__FACTOR_REPLICATE;
    bool sums = !kept && left == 1 && right == 1 && (!attr->leaf || attr->leaf == i);
    if (sums) f->kind[i - 1] = TSR__FACTOR_REDUCE;
    if (left || right || kept) f->count = i;
  }
  /* Then the operands are gathered instead. */
  for (int i = 0; i < f->count && !has_parts(f, attr); i++)
    if (f->kind[i] == TSR__FACTOR_REDUCE) f->kind[i] = TSR__FACTOR_REPLICATE;
  for (int d = 0; d < f->node->rank; d++) {
    f->out[d] = (int8_t)(attr->out[d] - 1);
    /* Of windows' places only the result knows how many there are. */
    f->size[f->out[d]] = f->node->dims[d];
  }
  for (int d = 0; d < a->rank; d++) {
    uint8_t *kind = attr->window[d] ? &f->kind[attr->left[d] - 1] : NULL;
    /* Last, when it is known that it would pass. */
    if (kind && *kind == TSR__FACTOR_PASS) *kind = TSR__FACTOR_PERMUTE;
  }
}

static void map_dot(const tsr__factors *f, int i, int rank, int8_t *map)
{
  const tsr__dot_attr *attr = tsr__dot_of(f->program, f->node);
  for (int d = 0; d < rank; d++) map[d] = (int8_t)((i ? attr->right : attr->left)[d] - 1);
}

/* Whether a node takes the dims of its attribute out of those of its operand. */
static bool removes_dims(const tsr__opinfo *row)
{
  return row->attr == TSR__ATTR_REDUCE;
}

/* A fold of one dim and several has a second factor, which cuts the second of these, and the one
 * dim further: places along two axes become places along both.
 *
 *   [2,4,5]@(x,y) -> [8,5]@(x+y)     factor 0: 2 against 8, cut by (x)      2: 4, cut by (y) */
static void cut_further(tsr__factors *f, const tsr__gnode *in, const tsr__fold *fold)
{
  const tsr__gnode *out = f->node;
  bool joins = fold->from.next >= 0 && fold->to.next < 0;
  if (!joins && !(fold->to.next >= 0 && fold->from.next < 0)) return;
  int64_t major = joins ? in->dims[fold->from.dim] : out->dims[fold->to.dim];
  int64_t next = joins ? in->dims[fold->from.next] : out->dims[fold->to.next];
  tsr__further *further = joins ? &f->further[fold->to.dim] : &f->further_in[fold->from.dim];
  if (major > INT32_MAX) return;
  further->factor = add_factor(f, TSR__FACTOR_PERMUTE, next);
  further->single = (int32_t)major;
  if (!joins) f->out[fold->to.next] = (int8_t)further->factor;
}

/* Each fold is a factor of its major dims. Where they differ borders may: then elements move. */
static void expand_folds(tsr__factors *f)
{
  tsr__fold folds[TSR_MAX_RANK];
  const tsr__gnode *in = &f->program->nodes[tsr__in(f->program, f->node, 0)];
  int count = tsr__folds_of(in, f->node, folds);
  for (int k = 0; k < count; k++) {
    bool same = folds[k].from.inner == folds[k].to.inner;
    /* Factor k is fold k: of [12, 5] -> [4, 3, 5] factor 0 is 12 against 4, and 5 passes. Minor
     * dims of a fold have no factor, so they are whole. */
    f->out[folds[k].to.dim] = (int8_t)add_factor(f, same ? TSR__FACTOR_PASS : TSR__FACTOR_PERMUTE,
                                                 f->node->dims[folds[k].to.dim]);
  }
  for (int k = 0; k < count; k++) cut_further(f, in, &folds[k]);
}

static void map_folds(const tsr__factors *f, const tsr__gnode *in, int8_t *map)
{
  tsr__fold folds[TSR_MAX_RANK];
  int count = tsr__folds_of(in, f->node, folds);
  for (int k = 0; k < count; k++) {
    map[folds[k].from.dim] = (int8_t)k;
    int further = f->further[folds[k].to.dim].factor;
    if (folds[k].from.next >= 0 && further >= 0) map[folds[k].from.next] = (int8_t)further;
  }
}

/* Factor d is dim d of the result. Along one that an operand does not just pass on elements come to
 * lie elsewhere. If two dims are read along one, the second has a factor of its own.
 *
 *   diagonal of [8,8]@(x,y)     operand [0,1]     result [0], cut by (x) and then by (y) */
static void expand_view(tsr__factors *f)
{
  if (tsr__ops[f->node->op].reshapes) {
    expand_folds(f);
    return;
  }
  pass_result(f);
  TSR_FOR_OPERANDS (f->program, f->node, i, o) {
    tsr__viewing view = tsr__view_of(f->program, f->node, i);
    for (int k = 0; k < f->program->nodes[o].rank; k++) {
      const tsr__viewdim *dim = &view.dims[k];
      if (dim->again)
        f->further[dim->dim].factor =
            add_factor(f, TSR__FACTOR_PERMUTE, f->program->nodes[o].dims[k]);
      /* One operand that does not pass it on is enough: all of them are cut alike. */
      else if (dim->step && !dim->same) f->kind[dim->dim] = TSR__FACTOR_PERMUTE;
    }
  }
}

static void map_view(const tsr__factors *f, int i, int rank, int8_t *map)
{
  tsr__viewing view = tsr__view_of(f->program, f->node, i);
  for (int k = 0; k < rank; k++) {
    const tsr__viewdim *dim = &view.dims[k];
    if (dim->again) map[k] = (int8_t)f->further[dim->dim].factor;
    else map[k] = dim->step ? (int8_t)dim->dim : -1;
  }
}

/* A box at a start that an array has: dims that it cuts to another size are whole. Factor d is
 * dim d. */
static void expand_at_start(tsr__factors *f)
{
  const tsr__gnode *in = &f->program->nodes[tsr__in(f->program, f->node, 0)];
  pass_result(f);
  for (int d = 0; d < in->rank; d++)
    if (in->dims[d] != f->node->dims[d]) f->kind[d] = TSR__FACTOR_REPLICATE;
}

/* Starts are whole, and what is smaller than where it is written. */
static void map_at_start(const tsr__factors *f, int i, const tsr__gnode *in, int8_t *map)
{
  /* Operand 1 are the starts, which every device needs. */
  for (int d = 0; d < in->rank && i != 1; d++)
    if (!i || in->dims[d] == f->node->dims[d]) map[d] = (int8_t)d;
}

/* The letters of all operands; of elementwise operations those of the ones that have any. */
static void expand_terms(tsr__factors *f)
{
  const char *rule = tsr__ops[f->node->op].factors;
  bool aligned = tsr__ops[f->node->op].aligned;
  TSR_FOR_OPERANDS (f->program, f->node, i, o) {
    const tsr__gnode *in = &f->program->nodes[o];
    const char *term = term_of(rule, i);
    if (!aligned || *term != '.') meet_letters(f, term, in->dims, in->rank);
  }
  if (aligned) return;
  meet_letters(f, result_term(rule), f->node->dims, f->node->rank);
  map_letters(f, result_term(rule), f->out);
}

void tsr__factors_of(const tsr__program *program, int node, tsr__factors *out)
{
  memset(out, 0, sizeof *out);
  out->program = program;
  out->node = &program->nodes[node];
  memset(out->out, -1, sizeof out->out);
  for (int d = 0; d < TSR_MAX_RANK; d++)
    out->further[d] = out->further_in[d] = (tsr__further){ .factor = -1 };
  memset(out->letter, -1, sizeof out->letter);
  const tsr__opinfo *row = &tsr__ops[out->node->op];
  if (tsr__is_view(out->node->op)) expand_view(out);
  else if (row->at_start) expand_at_start(out);
  else if (removes_dims(row)) expand_reduction(out);
  else if (row->contracts) expand_dot(out);
  else if (tsr__takes_result(out->node->op) || tsr__shape_is_given(out->node->op)) pass_result(out);
  else {
    if (row->aligned) pass_result(out);
    expand_terms(out);
  }
}

void tsr__factors_in(const tsr__factors *f, int i, int8_t map[TSR_MAX_RANK])
{
  int in = tsr__in(f->program, f->node, i);
  const tsr__opinfo *row = &tsr__ops[f->node->op];
  const char *term = term_of(row->factors, i);
  /* For sources and what is left out that is the answer. */
  memset(map, -1, TSR_MAX_RANK);
  if (in < 0 || tsr__shape_is_given(f->node->op)) return;
  const tsr__gnode *operand = &f->program->nodes[in];
  if (row->aligned && *term == '.') map_aligned(f, operand, map);
  else if (row->at_start) map_at_start(f, i, operand, map);
  else if (row->reshapes) map_folds(f, operand, map);
  else if (tsr__is_view(f->node->op)) map_view(f, i, operand->rank, map);
  else if (row->contracts) map_dot(f, i, operand->rank, map);
  else if (removes_dims(row) || tsr__takes_result(f->node->op))
    for (int d = 0; d < tsr__rank_of(f->program, operand); d++) map[d] = (int8_t)d;
  else map_letters(f, term, map);
}
