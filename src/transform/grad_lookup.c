/* Gradients of what looks into tables, and of what writes to places: each is the other's. What
 * comes to one place more than once is an exact sum. */
#include "tessera/indexing.h"
#include "tessera/shape.h"
#include "transform/backward.h"

typedef tsr_array array;

/*   y = take(x, at)        x [4]   at 2 0 2          y = x2 x0 x2
 *   due by y               d0 d1 d2
 *   due by x               d1  0  d0 + d2  0         scattered to where each was read
 *
 *   z = scatter(x, at, u)  add: x keeps what is due to z, u gets what is due to its place
 */
static array *zeros_shaped(const tsr__pull *p, tsr_dtype dtype, tsr_shape shape)
{
  return tsr_full_at(tsr__home(p->due), tsr_operand_int(0), dtype, shape, (tsr_sharding){ 0 },
                     p->site);
}

static array *zeros_as(const tsr__pull *p, const array *a)
{
  return zeros_shaped(p, (tsr_dtype)a->dtype, a->shape);
}

/* Zeros of a shape, to which `part` is added at the places of `at`. The places were in range when
 * they were read, or the run failed there: `drops` is not needed. */
static array *added(const tsr__pull *p, tsr_shape shape, array *at, array *part,
                    tsr__scatter_attr attr)
{
  /* Exact, so that places which were read more than once know no order (docs/NUMERICS.md). */
  attr.how = TSR_SCATTER_ADD;
  tsr__ask ask = { .attr = &attr, .attr_bytes = sizeof attr };
  array *in[] = { zeros_shaped(p, (tsr_dtype)part->dtype, shape), at, part };
  return tsr__make(NULL, TSR__OP_SCATTER, (tsr__operands){ in, 3 }, &ask, p->site);
}

/* Places are integers: operand 1 is never wanted. */
void tsr__grad_take(const tsr__pull *p)
{
  const tsr__span_attr *attr = p->attr;
  tsr__scatter_attr to = { .dim = attr->dim, .more = attr->more, .batch = attr->batch };
  tsr__give(p, 0, added(p, p->in[0]->shape, p->in[1], p->due, to));
}

/* ---- rows that places give each other -------------------------------------------------------- */

/* A fetch as it goes back: place q gets the cotangents of the rows that it gave to p.
 *
 *   place q gives p   size rows from `start` on, which are rows `put` .. there
 *   row r of q        is row put + r - start of p, if that took it of nobody else
 *   cotangent of r    the sum of those rows of the cotangent, over all p
 *
 * In arrays [.., q, p, r]; before q stand dims that mapping added. */
typedef struct giving {
  const tsr__pull *p;
  int dim;                     /* of q */
  int64_t places, rows, taken; /* rows of a place of the table, and of the result */
  array *start, *size, *put;   /* [.., q, p, 1] */
} giving;

/* Numbers along one of the dims of [.., q, p, r]. */
static array *numbers_along(const giving *g, int dim, int64_t size)
{
  tsr_shape line = { .rank = g->dim + 3 };
  for (int d = 0; d < line.rank; d++) line.dims[d] = d == dim ? size : 1;
  return tsr_iota_at(tsr__home(g->p->due), TSR_I64, line, dim, (tsr_sharding){ 0 }, g->p->site);
}

static array *added_up(const giving *g, array *a, array *b)
{
  return tsr_add_at(a, tsr_operand_array(b), g->p->site);
}

/* The rows that places q fetch of a table of all places p, as [.., q, p, r, ..]. `gives`: the rows
 * that these give to each, or NULL. */
static array *fetched(const giving *g, array *table, array *at, array *gives)
{
  at = tsr__join_dims(at, g->dim + 1, g->p->site);
  tsr__ask ask = { TSR__ATTR(tsr__span_attr, .dim = g->dim, .more = 1) };
  array *in[] = { table, at, gives };
  tsr__operands operands = { in, gives ? 3 : 2 };
  array *out = tsr__make(NULL, TSR__OP_FETCH, operands, &ask, g->p->site);
  return tsr__split_dim(out, g->dim + 1, g->places, g->p->site);
}

/* A number that each place says to each: [.., q, p, 1]. */
static array *said(const giving *g, array *gives, int which)
{
  return tsr__part(gives, g->dim + 2, (tsr_range){ which, which + 1, 1 }, g->p->site);
}

/* The rows that places give on the way back: p gives q `size` rows from `put` on, which are rows
 * p * rows + start .. there. */
static array *gives_again(const giving *g)
{
  const char *site = g->p->site;
  array *turned = tsr__said_back(g->p->in[2], g->dim, site);
  array *place = tsr_mul_at(numbers_along(g, g->dim, g->places), tsr_operand_int(g->rows), site);
  array *three[] = { said(g, turned, 2), said(g, turned, 1),
                     added_up(g, place, said(g, turned, 0)) };
  return tsr_concat_at(three, 3, g->dim + 2, site);
}

/* The place that each row came from, in as few bits as name all. */
static array *origins(const giving *g)
{
  tsr_dtype least = g->places <= 256 ? TSR_U8 : g->places <= 65536 ? TSR_U16 : TSR_I64;
  array *from = tsr_floordiv_at(g->p->in[1], tsr_operand_int(g->rows), g->p->site);
  return tsr_cast_at(from, least, g->p->site);
}

/* The cotangent of row r of q from p is in row put + r - start there, if that is below the end. */
static void give_back(const giving *g)
{
  const tsr__pull *p = g->p;
  const char *site = p->site;
  array *q = numbers_along(g, g->dim, g->places), *from = numbers_along(g, g->dim + 1, g->places);
  array *step =
      tsr_sub_at(numbers_along(g, g->dim + 2, g->rows), tsr_operand_array(g->start), site);
  array *after = tsr_ge_at(step, tsr_operand_int(0), site);
  array *before = tsr_lt_at(step, tsr_operand_array(g->size), site);
  array *there = tsr_and_at(after, tsr_operand_array(before), site);
  array *at =
      added_up(g, tsr_mul_at(from, tsr_operand_int(g->taken), site), added_up(g, g->put, step));
  /* A row that was not given is looked for at home, and not looked at. */
  tsr_operand home = tsr_operand_array(tsr_mul_at(q, tsr_operand_int(g->taken), site));
  array *asked = tsr_where_at(there, tsr_operand_array(at), home, site);
  array *origin = fetched(g, origins(g), asked, NULL);
  array *own = tsr_eq_at(tsr_cast_at(origin, TSR_I64, site), tsr_operand_array(q), site);
  there = tsr_and_at(there, tsr_operand_array(own), site);
  at = tsr_where_at(there, tsr_operand_array(at), home, site);
  array *rows = fetched(g, p->due, at, gives_again(g));
  for (int d = g->dim + 3; d < rows->shape.rank && !rows->inert; d++)
    there = tsr_expand_dims_at(there, tsr_dims_of(&d, 1), site);
  tsr_reduce_args sum = { .size = sizeof sum, .dims = { .bits = 1u << (g->dim + 1) } };
  sum.x = tsr__only(p, there, rows);
  tsr__give(p, 0, tsr_sum_at(&sum, site));
}

/* Places that only their indices name are added to where they are. */
void tsr__grad_fetch(const tsr__pull *p)
{
  const tsr__span_attr *attr = p->attr;
  const tsr_shape *x = &p->in[0]->shape;
  int dim = (int)attr->dim;
  tsr__scatter_attr to = { .dim = dim, .more = 1, .batch = dim };
  if (p->node->in_count == 2 || x->rank == TSR_MAX_RANK) {
    tsr__give(p, 0, added(p, *x, p->in[1], p->due, to));
    return;
  }
  giving g = { .p = p,
               .dim = dim,
               .places = x->dims[dim],
               .rows = x->dims[dim + 1],
               .taken = p->out->shape.dims[dim + 1] };
  g.start = said(&g, p->in[2], 0);
  g.size = said(&g, p->in[2], 1);
  g.put = said(&g, p->in[2], 2);
  give_back(&g);
}

/* Each line has indices of its own: the dim comes last, and all others are batch dims. */
array *tsr__put_along(const tsr__pull *p, array *like, array *at, int dim)
{
  int last = like->shape.rank - 1;
  tsr__scatter_attr to = { .dim = last, .batch = last };
  tsr_shape shape = like->shape;
  for (int d = dim; d < last; d++) shape.dims[d] = like->shape.dims[d + 1];
  shape.dims[last] = like->shape.dims[dim];
  at = tsr__move_dim(at, dim, last, p->site);
  array *out = added(p, shape, at, tsr__move_dim(p->due, dim, last, p->site), to);
  return tsr__move_dim(out, last, dim, p->site);
}

void tsr__grad_take_along(const tsr__pull *p)
{
  const tsr__dim_attr *attr = p->attr;
  tsr__give(p, 0, tsr__put_along(p, p->in[0], p->in[1], (int)attr->dim));
}

/* ---- scatter --------------------------------------------------------------------------------- */

/* What an array has at the places of a scatter, 0 where such a place is left out.
 *
 *   at 0 5 2 of 5 elements      clamped 0 4 2      there: yes no yes      found: from[0] 0 from[2]
 *
 * Where places may drop they come settled (array/indexing.c): none is below 0, and one that is left
 * out is the size. */
static array *taken(const tsr__pull *p, array *from)
{
  const tsr__scatter_attr *attr = p->attr;
  int64_t size = 1;
  for (int64_t d = attr->dim; d <= attr->dim + attr->more; d++) size *= p->out->shape.dims[d];
  array *at = p->in[1];
  if (attr->drops && !size) return zeros_as(p, p->in[2]);
  /* A place outside would be an error of the gather, so it reads one inside, which is not looked
   * at. */
  if (attr->drops) {
    at = tsr_maximum_at(at, tsr_operand_int(0), p->site);
    at = tsr_minimum_at(at, tsr_operand_int(size - 1), p->site);
  }
  tsr__ask ask = { TSR__ATTR(tsr__span_attr, attr->dim, attr->more, attr->batch) };
  array *found = tsr__make(NULL, TSR__OP_GATHER, TSR__IN(from, at), &ask, p->site);
  if (!attr->drops || found->inert) return found;
  array *there = tsr_eq_at(at, tsr_operand_array(p->in[1]), p->site);
  tsr_shape shape = { .rank = found->shape.rank }; /* there, at the dims that it has in `found` */
  for (int d = 0; d < shape.rank; d++) {
    int own = d < attr->batch ? d : d < attr->dim ? shape.rank : d - (int)(attr->dim - attr->batch);
    shape.dims[d] = own < there->shape.rank ? there->shape.dims[own] : 1;
  }
  return tsr__only(p, tsr_reshape_at(there, shape, p->site), found);
}

/* The same scatter of others. */
static array *scattered(const tsr__pull *p, array *x, array *updates, int how)
{
  tsr__scatter_attr attr = *(const tsr__scatter_attr *)p->attr;
  attr.how = how;
  tsr__ask ask = { .attr = &attr, .attr_bytes = sizeof attr };
  array *in[] = { x, p->in[1], updates };
  return tsr__make(NULL, TSR__OP_SCATTER, (tsr__operands){ in, 3 }, &ask, p->site);
}

/* Of several updates of a place the last one stays: each has a number, and looks which is there.
 *
 *   places 2 0 2    numbers 0 1 2    written over each other: place 2 has 2, so update 0 is lost
 *
 * What x had at a place that was written is lost, too: zeros are written over what is due to it. */
static void give_set(const tsr__pull *p)
{
  tsr_scope *scope = tsr__home(p->due);
  if (tsr__wants(p, 0))
    tsr__give(p, 0, scattered(p, p->due, zeros_as(p, p->in[2]), TSR_SCATTER_SET));
  if (!tsr__wants(p, 2)) return;
  const tsr_shape *shape = &p->in[2]->shape;
  tsr_shape line = { .rank = 1, .dims = { tsr__shape_count(shape) } };
  array *number = tsr_iota_at(scope, TSR_I64, line, 0, (tsr_sharding){ 0 }, p->site);
  number = tsr_reshape_at(number, *shape, p->site);
  array *none =
      tsr_full_at(scope, tsr_operand_int(-1), TSR_I64, p->out->shape, (tsr_sharding){ 0 }, p->site);
  array *last = taken(p, scattered(p, none, number, TSR_SCATTER_SET));
  array *stays = tsr_eq_at(last, tsr_operand_array(number), p->site);
  tsr__give(p, 2, tsr__only(p, stays, taken(p, p->due)));
}

/* Those that are as the result share alike. At each place: x itself and all updates that are the
 * extreme. */
static void give_extreme(const tsr__pull *p)
{
  tsr_dtype dtype = (tsr_dtype)p->out->dtype;
  tsr_operand out = tsr_operand_array(p->out);
  array *own = tsr_cast_at(tsr_eq_at(p->in[0], out, p->site), dtype, p->site);
  array *best = tsr_eq_at(p->in[2], tsr_operand_array(taken(p, p->out)), p->site);
  array *others = tsr_cast_at(best, dtype, p->site);
  array *count = scattered(p, own, others, TSR_SCATTER_ADD);
  array *part = tsr__over(p, p->due, count);
  tsr__give(p, 0, tsr__times(p, part, own));
  if (tsr__wants(p, 2)) tsr__give(p, 2, tsr__only(p, best, taken(p, part)));
}

/* A factor that is 0 has the product of the others, if it is the only one.
 *
 *   factors of a place     2 3 5      2 0 5      0 0 5
 *   due to them            15 10 6    0 10 0     0 0 0
 *
 * By the product without zeros and the number of these: no zero is divided by, and where there are
 * two nobody gets anything. */
static void give_product(const tsr__pull *p)
{
  tsr_dtype dtype = (tsr_dtype)p->out->dtype;
  array *empty[2], *whole[2];
  for (int k = 0; k < 2; k++) {
    array *x = p->in[2 * k];
    empty[k] = tsr_eq_at(x, tsr_operand_int(0), p->site);
    whole[k] = tsr_where_at(empty[k], tsr_operand_int(1), tsr_operand_array(x), p->site);
  }
  array *product = scattered(p, whole[0], whole[1], TSR_SCATTER_MUL);
  array *zeros_there = scattered(p, tsr_cast_at(empty[0], dtype, p->site),
                                 tsr_cast_at(empty[1], dtype, p->site), TSR_SCATTER_ADD);
  product = tsr__times(p, p->due, product);
  for (int k = 0; k < 2; k++) {
    if (!tsr__wants(p, 2 * k)) continue;
    array *count = k ? taken(p, zeros_there) : zeros_there;
    array *others = k ? taken(p, product) : product;
    array *own = tsr_cast_at(empty[k], dtype, p->site);
    array *alone = tsr_eq_at(count, tsr_operand_array(own), p->site);
    tsr__give(p, 2 * k, tsr__only(p, alone, tsr__over(p, others, whole[k])));
  }
}

void tsr__grad_scatter(const tsr__pull *p)
{
  const tsr__scatter_attr *attr = p->attr;
  switch (attr->how) {
  case TSR_SCATTER_SET: give_set(p); return;
  case TSR_SCATTER_MUL: give_product(p); return;
  case TSR_SCATTER_MIN:
  case TSR_SCATTER_MAX: give_extreme(p); return;
  default: break;
  }
  tsr__give(p, 0, p->due);
  if (tsr__wants(p, 2)) tsr__give(p, 2, taken(p, p->due));
}

/* ---- at places that are numbers of arrays ---------------------------------------------------- */

void tsr__grad_dynamic_slice(const tsr__pull *p)
{
  array *none = zeros_as(p, p->in[0]);
  tsr__give(p, 0, tsr_dynamic_update_slice_at(none, p->due, p->in[1], p->site));
}

/* Starts are clamped alike on the way back: the same operand says them. */
void tsr__grad_dynamic_update(const tsr__pull *p)
{
  array *at = p->in[1];
  if (tsr__wants(p, 0))
    tsr__give(p, 0, tsr_dynamic_update_slice_at(p->due, zeros_as(p, p->in[2]), at, p->site));
  if (tsr__wants(p, 2)) tsr__give(p, 2, tsr_dynamic_slice_at(p->due, at, p->in[2]->shape, p->site));
}
