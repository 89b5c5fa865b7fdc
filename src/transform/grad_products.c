/* Gradients of products: products again, of what is due with the other operand.
 *
 *   out[i k] = left[i j] right[j k]      left: due[i k] right[j k] -> i j
 *                                        right: left[i j] due[i k] -> j k
 *
 * Of windows (place = stride * i + dilation * w): to the right operand, what is due is the window,
 * stride and dilation changed places; to the left, windows over what is due, spread by the stride,
 * between borders, with the right operand turned round.
 *
 * A product that says `.reproducible` has gradients that do. */
#include "array/products_room.h"
#include "tessera/shape.h"
#include "transform/backward.h"

typedef tsr_array array;

/* Indices are numbers from 1 on; -1: the operand has no such dim. */
static int dim_of(const uint8_t *indices, int index)
{
  for (int d = 0; d < TSR_MAX_RANK; d++)
    if (indices[d] == index) return d;
  return -1;
}

/* A dim by a number for each of its elements, beside `rank` - 1 others of size 1. */
static array *numbers_along(const tsr__pull *p, const tsr_shape *shape, int dim)
{
  tsr_shape line = { .rank = shape->rank };
  for (int d = 0; d < line.rank; d++) line.dims[d] = d == dim ? shape->dims[d] : 1;
  return tsr_iota_at(tsr__home(p->due), TSR_I64, line, dim, (tsr_sharding){ 0 }, p->site);
}

/* What a product reads of an operand whose dims share indices is a diagonal of it: zeros beside
 * that.
 *
 *   part [j k]     as [j 1 k] where j and j are equal     of an operand [j j k] */
static array *on_diagonals(const tsr__pull *p, array *part, const uint8_t *indices,
                           const tsr_shape *shape)
{
  for (int d = 0; d < shape->rank; d++) {
    int first = indices[d] ? dim_of(indices, indices[d]) : d;
    if (first == d) continue;
    array *same = tsr_eq_at(numbers_along(p, shape, first),
                            tsr_operand_array(numbers_along(p, shape, d)), p->site);
    part = tsr__only(p, same, part);
  }
  return part;
}

/* A product whose result has the indices of operand `i`, each once; dims without an index and those
 * with one that was there, of size 1, come after. */
static void give_product(const tsr__pull *p, int i, tsr__contraction *c)
{
  const tsr__dot_attr *attr = p->attr;
  const uint8_t *indices = i ? attr->right : attr->left;
  const tsr_shape *shape = &p->in[i]->shape;
  tsr_shape once = { .rank = shape->rank };
  bool all = true;
  for (int d = 0, rank = 0; d < shape->rank; d++) {
    bool own = indices[d] && dim_of(indices, indices[d]) == d;
    all &= own;
    once.dims[d] = own ? shape->dims[d] : 1;
    if (own) c->at.out[rank++] = indices[d];
  }
  c->name = "tsr_grad";
  c->reproducible = attr->leaf != 0;
  array *part = tsr__contract(c, p->site);
  for (int d = 0; d < shape->rank && !i && !part->inert && all; d++) {
    if (!attr->window[d] || part->shape.dims[d] == shape->dims[d]) continue;
    tsr_pad_args pad = { .size = sizeof pad, .x = part }; /* what no window showed */
    pad.high[d] = shape->dims[d] - part->shape.dims[d];
    part = tsr_pad_at(&pad, p->site);
  }
  if (!all) part = on_diagonals(p, tsr_reshape_at(part, once, p->site), indices, shape);
  tsr__give(p, i, part);
}

/* Borders of zeros along a dim, on both sides. */
static array *bordered(const tsr__pull *p, array *a, int dim, int64_t width)
{
  tsr_pad_args pad = { .size = sizeof pad, .x = a };
  pad.low[dim] = pad.high[dim] = width;
  return tsr_pad_at(&pad, p->site);
}

/*   forward   place p = stride * i + dilation * w      out_i = sum_w left_p right_w
 *   back      left_p = sum_w due_i right_w, of all i, w that meet in p: due with stride - 1 zeros
 *             in between and borders of (width - 1) * dilation, under right from its end
 *
 * A dim of the left operand that is longer than what windows show gets zeros behind
 * (give_product). */
static void give_left(const tsr__pull *p)
{
  const tsr__dot_attr *attr = p->attr;
  tsr__contraction c = { .a = p->due, .b = p->in[1] };
  memcpy(c.at.left, attr->out, sizeof c.at.left);
  memcpy(c.at.right, attr->right, sizeof c.at.right);
  for (int d = 0; d < p->in[0]->shape.rank; d++) {
    int window = attr->window[d];
    if (!window) continue;
    int at = dim_of(attr->out, attr->left[d]), other = dim_of(attr->right, window);
    int64_t width = p->in[1]->shape.dims[other];
    if (!width || !p->due->shape.dims[at]) { /* no window shows anything */
      array *none = tsr_full_at(tsr__home(p->due), tsr_operand_int(0), (tsr_dtype)p->out->dtype,
                                p->in[0]->shape, (tsr_sharding){ 0 }, p->site);
      tsr__give(p, 0, none);
      return;
    }
    c.a = tsr__spaced(p, c.a, at, attr->stride[d]);
    c.a = bordered(p, c.a, at, (width - 1) * attr->dilation[d]);
    c.b = tsr_flip_at(c.b, (tsr_dims){ .bits = 1u << other }, p->site);
    c.at.window[at] = (uint8_t)window;
    c.at.stride[at] = 1;
    c.at.dilation[at] = attr->dilation[d];
  }
  give_product(p, 0, &c);
}

/* right_w gets sum_i left_(stride i + dilation w) due_i: the same places, with w outside and i
 * inside, so stride and dilation change places. */
static void give_right(const tsr__pull *p)
{
  const tsr__dot_attr *attr = p->attr;
  tsr__contraction c = { .a = p->in[0], .b = p->due };
  memcpy(c.at.left, attr->left, sizeof c.at.left);
  memcpy(c.at.right, attr->out, sizeof c.at.right);
  for (int d = 0; d < p->in[0]->shape.rank; d++) {
    int window = attr->window[d];
    if (!window) continue;
    int at = dim_of(attr->out, attr->left[d]), other = dim_of(attr->right, window);
    int64_t width = p->in[1]->shape.dims[other], count = p->due->shape.dims[at];
    int64_t shown =
        width && count ? (count - 1) * attr->stride[d] + (width - 1) * attr->dilation[d] + 1 : 0;
    /* Cut to what some window showed, or there would be more windows than w has values. */
    c.a = tsr__part(c.a, d, (tsr_range){ 0, shown, 1 }, p->site);
    c.at.left[d] = (uint8_t)window;
    c.at.window[d] = attr->left[d];
    c.at.stride[d] = attr->dilation[d];
    c.at.dilation[d] = attr->stride[d];
    if (shown) continue;
    array *none = tsr_full_at(tsr__home(p->due), tsr_operand_int(0), (tsr_dtype)p->out->dtype,
                              p->in[1]->shape, (tsr_sharding){ 0 }, p->site);
    tsr__give(p, 1, none);
    return;
  }
  give_product(p, 1, &c);
}

/* A dim of the result is moved over by windows along a dim of the left operand alone: which one.
 * -1: it is none, or more than that. */
static int moved_dim(const tsr__dot_attr *attr, uint8_t index)
{
  int found = -1;
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    if (attr->right[d] == index || (attr->left[d] == index && found >= 0)) return -1;
    if (attr->left[d] == index) found = d;
  }
  return found >= 0 && attr->window[found] ? found : -1;
}

/*   of windows 0 .. 17 those from 1 to 16, 3 wide:    left[1:19] under the same right operand
 *
 * What borders had is asked for by nobody. */
array *tsr__windows_part(const tsr__pull *p, const tsr__slice_attr *inner)
{
  array *dot = p->due;
  const tsr__dot_attr *attr = dot->attr;
  if (dot->inert || dot->placed || !tsr__ops[dot->op].contracts) return NULL;
  array *left = dot->in[0], *right = dot->in[1];
  for (int d = 0; d < dot->shape.rank; d++) {
    if (!inner->step[d]) continue;
    int at = moved_dim(attr, attr->out[d]);
    if (at < 0 || inner->size[d] < 1) return NULL;
    int64_t width = right->shape.dims[dim_of(attr->right, attr->window[at])];
    int64_t first = inner->start[d] * attr->stride[at];
    int64_t shown = (inner->size[d] - 1) * attr->stride[at] + (width - 1) * attr->dilation[at] + 1;
    left = tsr__part(left, at, (tsr_range){ first, first + shown, 1 }, p->site);
  }
  tsr__ask ask = { .dtype = (tsr_dtype)dot->dtype, .attr = attr, .attr_bytes = sizeof *attr };
  return tsr__make(NULL, dot->op, TSR__IN(left, right), &ask, p->site);
}

void tsr__grad_dot(const tsr__pull *p)
{
  if (tsr__wants(p, 0)) give_left(p);
  if (tsr__wants(p, 1)) give_right(p);
}
