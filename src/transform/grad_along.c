/* Gradients of routines along a dim.
 *
 * A prefix sum goes back as the sum from the other end. Prefixes of products and extremes are
 * written as the slices and joins they come to (tsr__give_through), in a logarithm of steps, and
 * have the gradients of these. */
#include "tessera/indexing.h"
#include "tessera/shape.h"
#include "tessera/sorting.h"
#include "transform/backward.h"

typedef tsr_array array;

/* ---- prefixes -------------------------------------------------------------------------------- */

/* Each element is in all sums behind it. */
void tsr__grad_cumsum(const tsr__pull *p)
{
  tsr__scan_attr attr = *(const tsr__scan_attr *)p->attr;
  attr.reverse = !attr.reverse;
  tsr__ask ask = { .attr = &attr, .attr_bytes = sizeof attr };
  tsr__give(p, 0, tsr__make(NULL, TSR__OP_CUMSUM, TSR__IN(p->due), &ask, p->site));
}

/* What is joined with all elements before each. No quotient, which zeros would break; ties of
 * extremes share as they meet here, which is as in JAX. */
typedef array *join_fn(array *a, tsr_operand b, const char *site);

typedef struct prefix {
  join_fn *join;
  int dim;
  bool reverse;
  tsr_scope *scope; /* of the body, as it is traced */
  const char *site;
} prefix;

/* NULL out of memory, as what is joined is good. */
static array **join(const void *user, array **before, array **after)
{
  const prefix *f = user;
  array **out = tsr__arena_new(&f->scope->arena, sizeof *out);
  if (out) *out = f->join(*before, tsr_operand_array(*after), f->site);
  return out && !(*out)->inert ? out : NULL;
}

static array *prefix_body(tsr_scope *scope, array *const *in, void *user)
{
  prefix f = *(const prefix *)user;
  array *x = in[0], **out;
  tsr_dims dims = { .bits = 1u << f.dim };
  f.scope = scope;
  f.site = x->node.site;
  if (f.reverse) x = tsr_flip_at(x, dims, f.site);
  tsr__prefixes p = { scope, join, &f, 1, &f.dim, f.site };
  out = tsr__prefixes_of(&p, &x, in[0]->shape.dims[f.dim]);
  if (!out) return NULL;
  return f.reverse ? tsr_flip_at(*out, dims, f.site) : *out;
}

/* The struct is on the stack: the body is traced before this returns. */
static void give_prefix(const tsr__pull *p, join_fn *with)
{
  const tsr__scan_attr *attr = p->attr;
  prefix f = { .join = with, .dim = (int)attr->dim, .reverse = attr->reverse != 0 };
  tsr__give_through(p, prefix_body, &f);
}

void tsr__grad_cumprod(const tsr__pull *p)
{
  give_prefix(p, tsr_mul_at);
}

void tsr__grad_cummax(const tsr__pull *p)
{
  give_prefix(p, tsr_maximum_at);
}

void tsr__grad_cummin(const tsr__pull *p)
{
  give_prefix(p, tsr_minimum_at);
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* Where the elements of a sort's first result were. */
static array *places_of(const tsr__pull *p)
{
  tsr__ask ask = { TSR__ATTR(tsr__index_attr, .index = 1) };
  return tsr__make(NULL, TSR__OP_RESULT, TSR__IN(p->out), &ask, p->site);
}

/* The place of each place is where an element went. */
void tsr__grad_sort(const tsr__pull *p)
{
  const tsr__sort_attr *attr = p->attr;
  tsr_sort_args sort = { .size = sizeof sort, .x = places_of(p), .dim = (int)attr->dim };
  tsr_take_args take = { .size = sizeof take, .x = p->due, .dim = (int)attr->dim };
  take.indices = tsr_argsort_at(&sort, p->site);
  tsr__give(p, 0, tsr_take_along_dim_at(&take, p->site));
}

/* The places are distinct within a line, so each element gets the one that is due, or nothing. */
void tsr__grad_top_k(const tsr__pull *p)
{
  const tsr__sort_attr *attr = p->attr;
  tsr__give(p, 0, tsr__put_along(p, p->in[0], places_of(p), (int)attr->dim));
}
