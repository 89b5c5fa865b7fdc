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

/* One symbol of a term: how many dims it stands for, and of what kind its factors are. */
typedef struct symbol {
  char letter; /* '.' for the aligned dims */
  uint8_t kind;
} symbol;

static const char *next_symbol(const char *at, symbol *out)
{
  out->kind = TSR__FACTOR_PASS;
  if (*at == '!') out->kind = TSR__FACTOR_REPLICATE;
  if (*at == '~') out->kind = TSR__FACTOR_PERMUTE;
  if (*at == '!' || *at == '~') at++;
  out->letter = *at;
  if (*at == 'r') out->kind = TSR__FACTOR_REDUCE;
  return at + (*at == '.' ? 3 : 1);
}

static bool ends_term(char c)
{
  return c == ',' || c == '-' || c == '\0';
}

/* The start of an operand's term, or of the result's (operand 3). */
static const char *term_of(const char *rule, int operand)
{
  const char *at = rule, *term = rule;
  for (int i = 0; *at != '-'; at++)
    if (*at == ',' && i++ < operand) term = at + 1;
  return operand == 3 ? at + 2 : term;
}

/* What the expansion knows: the node, and the factors that each letter has so far. */
typedef struct expansion {
  const tsr__program *program;
  const tsr__gnode *node;
  tsr__factors *out;
  int8_t first[128]; /* by letter: its first factor, -1 = none yet */
  int8_t span[128];  /* and how many dims it stood for where it was met first */
} expansion;

static int add_factor(tsr__factors *out, uint8_t kind, int64_t size)
{
  out->kind[out->count] = kind;
  out->size[out->count] = size;
  return out->count++;
}

/* How many dims of an array of `rank` a letter stands for. */
static int span_of(const expansion *e, char letter, int rank)
{
  switch (letter) {
  case 'a': return (int)e->node->attr.dims;
  case 'b': return rank - (int)e->node->attr.dims - 1;
  case 's': return rank;
  default: return 1;
  }
}

/* The dims of a term that are not letters: "..." alone is all of an elementwise operation's, else
 * what the letters leave. Reductions are apart: their "..." and "r" interleave. */
static void expand_letters(expansion *e, const char *term, const int64_t *dims, int rank,
                           int8_t *map)
{
  int d = 0;
  while (!ends_term(*term)) {
    symbol s;
    term = next_symbol(term, &s);
    int first = e->first[(unsigned char)s.letter], span = e->span[(unsigned char)s.letter];
    if (first < 0) {
      first = e->out->count;
      span = s.letter == '.' ? rank - d : span_of(e, s.letter, rank);
      e->first[(unsigned char)s.letter] = (int8_t)first;
      e->span[(unsigned char)s.letter] = (int8_t)span;
      for (int i = 0; i < span; i++) add_factor(e->out, s.kind, dims[d + i]);
    }
    for (int i = 0; i < span; i++) map[d++] = (int8_t)(first + i);
  }
}

/* Elementwise: factor d is dim d of the result; operands align at the last dim. */
static void expand_aligned(const expansion *e, const int64_t *dims, int rank, int8_t *map)
{
  int skip = e->node->rank - rank;
  for (int d = 0; d < rank; d++)
    map[d] = dims[d] == 1 && e->node->dims[d + skip] != 1 ? -1 : (int8_t)(d + skip);
}

static void expand_elements(expansion *e)
{
  const tsr__gnode *node = e->node;
  const char *rule = tsr__ops[node->op].factors;
  for (int d = 0; d < node->rank; d++)
    e->out->out[d] = (int8_t)add_factor(e->out, TSR__FACTOR_PASS, node->dims[d]);
  for (int i = 0; i < 3; i++) {
    if (node->in[i] < 0) continue;
    const tsr__gnode *in = &e->program->nodes[node->in[i]];
    const char *term = term_of(rule, i);
    if (*term == '.') expand_aligned(e, in->dims, in->rank, e->out->in[i]);
    else expand_letters(e, term, in->dims, in->rank, e->out->in[i]);
  }
}

static void expand_reduction(expansion *e)
{
  const tsr__gnode *node = e->node;
  const tsr__gnode *x = &e->program->nodes[node->in[0]];
  int at = 0;
  for (int d = 0; d < x->rank; d++) {
    bool gone = node->attr.dims >> d & 1;
    int factor = add_factor(e->out, gone ? TSR__FACTOR_REDUCE : TSR__FACTOR_PASS, x->dims[d]);
    for (int i = 0; i < 3; i++)
      if (node->in[i] >= 0) e->out->in[i][d] = (int8_t)factor;
    if (node->attr.groups > 0 || (gone && !node->attr.keep)) continue;
    e->out->out[at++] = gone ? -1 : (int8_t)factor;
  }
}

static void expand_terms(expansion *e)
{
  const tsr__gnode *node = e->node;
  const char *rule = tsr__ops[node->op].factors;
  for (int i = 0; i < 3; i++) {
    if (node->in[i] < 0) continue;
    const tsr__gnode *in = &e->program->nodes[node->in[i]];
    expand_letters(e, term_of(rule, i), in->dims, in->rank, e->out->in[i]);
  }
  expand_letters(e, term_of(rule, 3), node->dims, node->rank, e->out->out);
}

void tsr__factors_of(const tsr__program *program, int node, tsr__factors *out)
{
  expansion e = { .program = program, .node = &program->nodes[node], .out = out };
  memset(out, 0, sizeof *out);
  memset(out->in, -1, sizeof out->in);
  memset(out->out, -1, sizeof out->out);
  memset(e.first, -1, sizeof e.first);
  switch (tsr__ops[e.node->op].shape_rule) {
  case TSR__SH_ELEMENT: expand_elements(&e); break;
  case TSR__SH_REDUCE: expand_reduction(&e); break;
  case TSR__SH_SOURCE:
    for (int d = 0; d < e.node->rank; d++)
      out->out[d] = (int8_t)add_factor(out, TSR__FACTOR_PASS, e.node->dims[d]);
    break;
  default: expand_terms(&e); break;
  }
}
