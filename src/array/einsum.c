/* Einsum: from a text to products of two operands each.
 *
 *   "i j, j k -> i k"     terms: every dim of an operand gets a label. Labels 0..51 are letters, A
 *   "...ij, jk"           to z; those above are the dims of "...", counted from its last
 *
 * Operands are contracted two by two from the left. What an operand has alone and nobody needs is
 * summed before; where nothing is contracted it is a product of elements.
 *
 * For instance, where the right column says what is summed:
 *
 *    "ij,jk,kl->il"     ij  jk  ->  ik       j, which nobody else has
 *                       ik  kl  ->  il       k */
#include "array/products_room.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tessera/products.h"

enum { LETTERS = 52, LABELS = LETTERS + TSR_MAX_RANK };

/* An array whose dims have labels; `rank` may be beyond that of arrays in the result asked for. */
typedef struct labelled {
  tsr_array *x;
  int rank;
  uint8_t label[LABELS];
} labelled;

typedef struct einsum {
  tsr_einsum_args args;
  tsr__operands in;
  const char *site;
  tsr__error error;
  int64_t size[LABELS]; /* -1: not met */
  int uses[LABELS];     /* by operands that are not yet contracted, and the result */
  int seen[LABELS];     /* how often the operands' terms have it */
  int dots;             /* the most dims that a "..." stands for */
  tsr_dtype dtype;
  labelled result;
} einsum;

/* ---- messages -------------------------------------------------------------------------------- */

/* A piece of the text as a message may show it: nothing that steers a terminal. */
static void show(const char *from, int n, char *out)
{
  for (int i = 0; i < n; i++) {
    unsigned char c = (unsigned char)from[i];
    out[i] = (char)(c < ' ' || c == 0x7f ? '?' : c);
  }
  out[n] = '\0';
}

/* Fails with the text and marks below `n` characters from `at` on. */
__attribute__((format(printf, 5, 6))) static bool wrong(einsum *e, tsr_status status,
                                                        const char *at, int n, const char *format,
                                                        ...)
{
  enum { SHOWN = 100 };
  char what[200], line[SHOWN + 1], marks[2 * SHOWN] = "";
  va_list list;
  va_start(list, format);
  vsnprintf(what, sizeof what, format, list);
  va_end(list);
  const char *text = e->args.text, *from = text;
  /* A long text is shown from where the mark stands in its first half; steps of a quarter keep some
   * of what is before. */
  while (at - from > SHOWN / 2) from += SHOWN / 4;
  int gap = (int)(at - from), shown = (int)strnlen(from, SHOWN);
  /* The mark may run beyond what is shown, or stand behind the end of the text. */
  if (n > shown - gap) n = shown - gap > 0 ? shown - gap : 1;
  memset(marks, ' ', (size_t)gap);
  memset(marks + gap, '^', (size_t)n);
  marks[gap + n] = '\0';
  show(from, shown, line);
  tsr__error_set(&e->error, status, "tsr_einsum: %s\n    %s\n    %s", what, line, marks);
  return false;
}

/* ---- the text -------------------------------------------------------------------------------- */

static int label_of(char c)
{
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  return -1;
}

static char letter_of(int label)
{
  return (char)(label < 26 ? 'A' + label : 'a' + label - 26);
}

static bool ends(const char *at)
{
  return !*at || *at == ',' || (at[0] == '-' && at[1] == '>');
}

/* One term: its letters into `out`, where "..." stands into `dots` (-1: nowhere); NULL after an
 * error. */
static const char *read_term(einsum *e, const char *at, labelled *out, int *dots)
{
  *dots = -1;
  out->rank = 0;
  for (; !ends(at); at++) {
    if (*at == ' ' || *at == '\t') continue;
    int label = label_of(*at);
    /* Only one "..." a term: a second one is a dot out of place, and says so. */
    if (!strncmp(at, "...", 3) && *dots < 0) {
      *dots = out->rank;
      at += 2;
    } else if (label >= 0 && out->rank < LETTERS) {
      /* A term may name more dims than arrays have; that is seen when it meets its operand. */
      out->label[out->rank++] = (uint8_t)label;
    } else {
      wrong(e, TSR_EARG, at, 1,
            label >= 0   ? "a term has more letters than the alphabet"
            : *at == '.' ? "a dot that is not part of one \"...\" per term"
                         : "expected letters, \"...\", \",\" or \"->\"");
      return NULL;
    }
  }
  return at;
}

/* Puts the dims of "..." between the letters. */
static void put_dots(labelled *term, int dots, int count)
{
  if (dots < 0) return;
  memmove(term->label + dots + count, term->label + dots, (size_t)(term->rank - dots));
  /* Labels of "..." count from the last dim, so that operands with different numbers of them meet
   * aligned at the right, as in broadcasting. */
  for (int i = 0; i < count; i++) term->label[dots + i] = (uint8_t)(LETTERS + count - 1 - i);
  term->rank += count;
}

/* The term of an operand, against the array that it names. */
static const char *read_operand(einsum *e, const char *at, int i, labelled *out)
{
  const char *start = at;
  int dots;
  at = read_term(e, at, out, &dots);
  if (!at) return NULL;
  int rank = e->args.arrays[i]->shape.rank, more = rank - out->rank, n = (int)(at - start);
  /* Without "..." each dim has its letter; with it, those that are left over are its own. */
  if (dots < 0 ? more != 0 : more < 0) {
    wrong(e, TSR_ESHAPE, start, n > 0 ? n : 1, "%d letters for operand %d, which has %d dims",
          out->rank, i + 1, rank);
    return NULL;
  }
  put_dots(out, dots, more);
  if (dots >= 0 && more > e->dots) e->dots = more;
  out->x = e->args.arrays[i];
  for (int d = 0; d < rank; d++) {
    int label = out->label[d];
    int64_t size = out->x->shape.dims[d], *known = &e->size[label];
    /* Dims of "..." broadcast; a letter's do not, as in NumPy. */
    bool repeats = label >= LETTERS && (size == 1 || *known == 1);
    if (*known >= 0 && *known != size && !repeats) {
      wrong(e, TSR_ESHAPE, start, n,
            "%s%c%s has size %lld in operand %d and %lld in an operand before",
            label < LETTERS ? "'" : "\"..", label < LETTERS ? letter_of(label) : '.',
            label < LETTERS ? "'" : "\"", (long long)size, i + 1, (long long)*known);
      return NULL;
    }
    if (*known < 0 || *known == 1) *known = size;
    e->seen[label]++;
  }
  return at;
}

/* Without "->": "..." and the letters that occur once, in order. In order of labels: A .. Z, a ..
 * z. NumPy has the same. */
static void imply_result(einsum *e)
{
  for (int i = e->dots - 1; i >= 0; i--) e->result.label[e->result.rank++] = (uint8_t)(LETTERS + i);
  for (int label = 0; label < LETTERS; label++)
    if (e->seen[label] == 1) e->result.label[e->result.rank++] = (uint8_t)label;
}

static bool read_result(einsum *e, const char *at)
{
  const char *start = at;
  int dots;
  at = read_term(e, at, &e->result, &dots);
  if (!at) return false;
  if (*at) return wrong(e, TSR_EARG, at, 1, "the result ends here, but more text follows");
  if (dots < 0 && e->dots)
    return wrong(
        e, TSR_EARG, start, at > start ? (int)(at - start) : 1,
        "the result has no \"...\", but operands do; the dims of \"...\" must stay in the result");
  const char *place = start;
  /* Blanks do not count as places in the result, but marks point into the text. */
  for (int d = 0; d < e->result.rank; d++, place++) {
    int label = e->result.label[d];
    while (label_of(*place) < 0) place++;
    if (!e->seen[label])
      return wrong(e, TSR_EARG, place, 1, "'%c' of the result is in no operand", letter_of(label));
    for (int b = 0; b < d; b++)
      if (e->result.label[b] == label)
        return wrong(e, TSR_EARG, place, 1, "'%c' is twice in the result", letter_of(label));
  }
  put_dots(&e->result, dots, e->dots);
  return true;
}

static bool read_text(einsum *e, labelled *operands)
{
  const char *at = e->args.text;
  /* A term is read for each operand in turn; which of the two there are too few of is said where
   * the text runs out. */
  for (int i = 0;; at++) {
    if (i == e->args.count)
      return wrong(e, TSR_EARG, at, 1, "a term for operand %d, but there are %d operands", i + 1,
                   e->args.count);
    at = read_operand(e, at, i, &operands[i]);
    if (!at) return false;
    i++;
    if (*at == ',') continue;
    if (i < e->args.count)
      return wrong(e, TSR_EARG, at, 1, "%d terms for %d operands", i, e->args.count);
    break;
  }
  if (!*at) imply_result(e);
  else if (!read_result(e, at + 2)) return false;
  if (e->result.rank <= TSR_MAX_RANK) return true;
  return wrong(e, TSR_ESHAPE, e->args.text, (int)strlen(e->args.text),
               "the result has %d dims, at most %d are possible", e->result.rank, TSR_MAX_RANK);
}

/* ---- products -------------------------------------------------------------------------------- */

static int times(const labelled *x, int label)
{
  int count = 0;
  for (int d = 0; d < x->rank; d++) count += x->label[d] == label;
  return count;
}

/* A dim of size 1 of "..." repeats beside a larger one. */
static bool repeats(const labelled *x, int d, const labelled *beside)
{
  for (int k = 0; k < beside->rank && x->x->shape.dims[d] == 1; k++)
    if (beside->label[k] == x->label[d] && beside->x->shape.dims[k] != 1) return true;
  return false;
}

/* The index of a label among those of a product, a new one if need be. */
static uint8_t index_of(uint8_t index[LABELS], uint8_t *next, int label)
{
  if (!index[label]) index[label] = ++*next;
  return index[label];
}

/* a and b to the dims of `out`, which has no label twice. */
static tsr_array *contract(const einsum *e, const labelled *a, const labelled *b,
                           const labelled *out)
{
  tsr__contraction c = { .name = "tsr_einsum",
                         .a = a->x,
                         .b = b->x,
                         .dtype = e->dtype,
                         .reproducible = e->args.reproducible };
  uint8_t index[LABELS] = { 0 }, next = 0;
  /* What gets no index is a dim of size 1 that a larger one repeats: the contraction reads it at
   * 0. */
  for (int d = 0; d < a->rank; d++)
    if (!repeats(a, d, b)) c.at.left[d] = index_of(index, &next, a->label[d]);
  for (int d = 0; d < b->rank; d++)
    if (!repeats(b, d, a)) c.at.right[d] = index_of(index, &next, b->label[d]);
  for (int d = 0; d < out->rank; d++) c.at.out[d] = index[out->label[d]];
  return tsr__contract(&c, e->site);
}

/* A label twice in one term means equal indices: both dims become one, their diagonal. Asked of the
 * operand alone, before it meets others. */
static void take_diagonals(const einsum *e, labelled *x)
{
  for (int d = 0; d < x->rank; d++)
    for (int k = x->rank - 1; k > d; k--) {
      if (x->label[k] != x->label[d]) continue;
      x->x = tsr__diagonal(tsr__move_dim(x->x, k, d + 1, e->site), d, 0, e->site);
      x->rank--;
      memmove(x->label + k, x->label + k + 1, (size_t)(x->rank - k) * sizeof *x->label);
    }
}

/* Whether a label of x is nobody's else. */
static bool alone(const einsum *e, int label, const labelled *other)
{
  return !e->uses[label] && (!other || !times(other, label));
}

/* Sums over the dims that nobody else has; the dtype stays. */
static void sum_alone(const einsum *e, labelled *x, const labelled *other)
{
  int dims[TSR_MAX_RANK], count = 0, rank = 0;
  for (int d = 0; d < x->rank; d++) {
    uint8_t label = x->label[d];
    if (alone(e, label, other)) dims[count++] = d;
    else x->label[rank++] = label;
  }
  if (!count) return;
  tsr_reduce_args sum = { .size = sizeof sum, .x = x->x, .dims = tsr_dims_of(dims, count) };
  x->rank = rank;
  /* Bools are joined by `or`, in which a sum of them is whether any is true. */
  x->x = tsr_cast_at(e->dtype == TSR_BOOL ? tsr_any_at(&sum, e->site) : tsr_sum_at(&sum, e->site),
                     e->dtype, e->site);
}

/* x with the dims of `out`, in that order: those that it has not, and those of size 1, repeat. Of j
 * i to i j k:
 *
 *    k j i      broadcast, k in front
 *    i j k      and turned */
static tsr_array *spread(const einsum *e, const labelled *x, const labelled *out)
{
  tsr_shape shape = { .rank = out->rank };
  /* Broadcasting aligns at the last dim, so dims that x lacks come in front, in the order in which
   * they are missing; a view puts all where `out` has them. */
  int order[TSR_MAX_RANK], missing = out->rank - x->rank, next = 0;
  for (int d = 0; d < out->rank; d++) {
    order[d] = -1;
    for (int k = 0; k < x->rank; k++)
      if (x->label[k] == out->label[d]) order[d] = missing + k;
    if (order[d] < 0) order[d] = next++;
    shape.dims[order[d]] = e->size[out->label[d]];
  }
  tsr_array *y = x->x;
  bool whole = tsr__shape_same(&y->shape, &shape);
  if (!whole) y = tsr_broadcast_to_at(y, shape, e->site);
  for (int d = 0; d < out->rank; d++)
    if (order[d] != d) return tsr_transpose_at(y, order, out->rank, e->site);
  return y;
}

/* Whether two operands have a label that is to be summed. */
static bool meets(const einsum *e, const labelled *a, const labelled *b)
{
  for (int d = 0; d < a->rank; d++)
    if (!e->uses[a->label[d]] && times(b, a->label[d])) return true;
  return false;
}

/* One operand for two: their labels that others need, or the result at the end. */
static bool join(einsum *e, labelled *a, labelled *b, bool last)
{
  labelled out = { .rank = 0 };
  /* Sums before the product: it then has fewer elements. */
  sum_alone(e, a, b);
  sum_alone(e, b, a);
  const labelled *both[2] = { a, b };
  for (int i = 0; i < 2; i++)
    for (int d = 0; d < both[i]->rank; d++)
      if (e->uses[both[i]->label[d]] && !times(&out, both[i]->label[d]))
        out.label[out.rank++] = both[i]->label[d];
  if (last) out = e->result;
  /* (Only on the way: the result itself was measured when the text was read.) */
  if (out.rank > TSR_MAX_RANK)
    return wrong(
        e, TSR_ESHAPE, e->args.text, (int)strlen(e->args.text),
        "two operands together have %d dims, at most %d are possible; give them in another "
        "order",
        out.rank, TSR_MAX_RANK);
  if (meets(e, a, b)) out.x = contract(e, a, b, &out);
  /* No dim is summed: a product of elements, which fuses with the nodes around it. */
  else out.x = tsr_mul_at(spread(e, a, &out), tsr_operand_array(spread(e, b, &out)), e->site);
  *a = out;
  return true;
}

/* By 1 for what is still to come, by -1 for what is at hand. */
static void count_uses(einsum *e, const labelled *x, int by)
{
  for (int d = 0; d < x->rank; d++) e->uses[x->label[d]] += by;
}

static tsr_array *evaluate(einsum *e, labelled *operands)
{
  int count = e->args.count;
  labelled *a = &operands[0];
  /* Before the sums: a sum that is made early must have the dtype of the result. */
  for (int i = 0; i < count; i++) {
    operands[i].x = tsr_cast_at(operands[i].x, e->dtype, e->site);
    take_diagonals(e, &operands[i]);
  }
  /* `uses` is what is left for others: operand 0 is at hand from the start, so it is never
   * counted. */
  count_uses(e, &e->result, 1);
  for (int i = 1; i < count; i++) count_uses(e, &operands[i], 1);
  for (int i = 1; i < count; i++) {
    count_uses(e, &operands[i], -1);
    if (!join(e, a, &operands[i], i == count - 1)) return NULL;
  }
  if (count > 1) return a->x;
  sum_alone(e, a, NULL);
  return spread(e, a, &e->result);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* What is wrong before the text is read; false: the error is set, or an operand is inert. */
static bool check_operands(einsum *e)
{
  const tsr_einsum_args *args = &e->args;
  if (!args->text || args->count < 1 || !args->arrays) {
    tsr__error_set(&e->error, TSR_EARG, "tsr_einsum: %s; give a text and one array for each term",
                   args->text ? "there are no operands" : "the text of the terms is NULL");
    return false;
  }
  for (int i = 0; i < args->count; i++)
    if (!args->arrays[i]) {
      tsr__error_set(&e->error, TSR_EARG, "tsr_einsum: operand %d is NULL; give an array", i + 1);
      return false;
    }
  for (int i = 0; i < args->count; i++) {
    const tsr_array *x = args->arrays[i];
    for (int d = 0; d < x->shape.rank && !x->inert; d++)
      if (x->shape.dims[d] < 0) {
        tsr__error_set(&e->error, TSR_EUNSUPPORTED,
                       "tsr_einsum: the size of dim %d of operand %d is known only at run time; "
                       "evaluate the operand and rebalance its rows first",
                       d, i + 1);
        return false;
      }
  }
  e->dtype = tsr__meet_of((tsr__operands){ args->arrays, args->count });
  tsr__error unknown = { .status = TSR_OK };
  if (args->dtype && tsr__dtype_check(args->dtype, &unknown)) {
    tsr__error_set(&e->error, unknown.status, "tsr_einsum: %s", unknown.text);
    return false;
  }
  if (args->dtype) e->dtype = args->dtype;
  return true;
}

static tsr_array *inert_one(const einsum *e)
{
  for (int i = 0; i < e->in.count; i++)
    if (e->in.at[i] && e->in.at[i]->inert) return e->in.at[i];
  return NULL;
}

tsr_array *tsr_einsum_at(const tsr_einsum_args *given, const char *site)
{
  einsum e = { .args = { .size = sizeof e.args }, .site = site };
  tsr_array *out = NULL;
  tsr_status status = tsr__take_opts("tsr_einsum", given, &e.args, sizeof e.args, &e.error);
  /* Even of arguments that are refused: the error is recorded in a scope of theirs. */
  if (status && given) e.args.arrays = given->arrays, e.args.count = given->count;
  e.in = (tsr__operands){ e.args.arrays, e.args.arrays && e.args.count > 0 ? e.args.count : 0 };
  out = inert_one(&e);
  if (out) return out;
  memset(e.size, -1, sizeof e.size);
  if (!status && check_operands(&e)) {
    tsr__heap *heap = &tsr__home_of(e.in)->rt->heap;
    size_t bytes = (size_t)e.in.count * sizeof(labelled);
    labelled *operands = tsr__new(heap, bytes);
    if (!operands) tsr__error_set(&e.error, TSR_ENOMEM, "tsr_einsum: no memory for the terms");
    else if (read_text(&e, operands)) out = evaluate(&e, operands);
    tsr__del(heap, operands, bytes);
  }
  return e.error.status ? tsr__refused_of(e.in, &e.error, site) : out;
}
