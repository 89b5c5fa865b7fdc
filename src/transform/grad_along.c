/* Gradients of routines along a dim. */
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

void tsr__grad_top_k(const tsr__pull *p)
{
  const tsr__sort_attr *attr = p->attr;
  tsr__give(p, 0, tsr__put_along(p, p->in[0], places_of(p), (int)attr->dim));
}
