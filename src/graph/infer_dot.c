/* The shape of general products: an index has one size wherever it runs. */
#include "graph/infer_inner.h"

/* As many as two operands can have between them; index 0 is no index. */
enum { INDICES = 2 * TSR_MAX_RANK };

/* Adds the sizes of an operand's indices; -1: not met yet. */
static tsr_status meet_index_sizes(tsr__types in, int which, const tsr__dot_attr *attr,
                                   int64_t *size, tsr__error *error)
{
  const uint8_t *indices = which ? attr->right : attr->left;
  const tsr__type *x = &in.at[which];
  for (int d = 0; d < x->rank; d++) {
    int i = indices[d];
    if (!which && attr->window[d]) continue; /* its windows' number is known last */
    bool fits = i <= INDICES && (i ? size[i] < 0 || size[i] == x->dims[d] : x->dims[d] == 1);
    if (!fits)
      return tsr__error_set(error, TSR_ESHAPE,
                            "tsr_dot: %s times %s: dim %d of the %s has size %lld, expected %lld "
                            "as along the other dims of its index",
                            text_of(&in.at[0]).text, text_of(&in.at[1]).text, d,
                            which ? "second" : "first", (long long)x->dims[d],
                            (long long)(i && i <= INDICES ? size[i] : 1));
    if (i) size[i] = x->dims[d];
  }
  return TSR_OK;
}

/* How many windows fit: as many as lie whole in the dim. */
static bool meet_windows(tsr__types in, const tsr__dot_attr *attr, int64_t *size)
{
  for (int d = 0; d < in.at[0].rank; d++) {
    int window = attr->window[d], i = attr->left[d];
    int64_t stride = attr->stride[d], dilation = attr->dilation[d], length = in.at[0].dims[d];
    if (!window) continue;
    bool good = window <= INDICES && i && i <= INDICES && size[window] >= 0 && size[i] < 0 &&
                stride > 0 && dilation > 0;
    if (!good) return false;
    /* The last element of a window lies (size - 1) * dilation behind its first; divided instead
     * of multiplied, which could overflow.
     *
     *   length 7, window of 3, dilation 2, stride 1      X . X . X . .     3 places */
    bool fits = size[window] && (size[window] - 1) <= (length - 1) / dilation && length;
    size[i] = fits ? (length - 1 - (size[window] - 1) * dilation) / stride + 1 : 0;
    /* A device's block has the elements of its neighbour's windows, too: how many windows are
     * its own does not follow from the length. */
    if (attr->places[d]) size[i] = attr->places[d];
  }
  return true;
}

/* What is contracted runs in both operands, what an operand has alone is kept. */
static bool runs_in(const uint8_t *indices, int rank, int index)
{
  for (int d = 0; d < rank; d++)
    if (indices[d] == index) return true;
  return false;
}

tsr_status tsr__shape_dot(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                          tsr__error *error)
{
  const tsr__dot_attr *attr = asked_attr(op, ask);
  int64_t size[INDICES + 1];
  memset(size, -1, sizeof size);
  if (meet_index_sizes(in, 0, attr, size, error)) return error->status;
  if (meet_index_sizes(in, 1, attr, size, error)) return error->status;
  tsr_shape shape = { .rank = 0 };
  bool good = meet_windows(in, attr, size);
  if (attr->parts > 0 && attr->out[0] <= INDICES) size[attr->out[0]] = attr->parts;
  for (int d = 0; d < TSR_MAX_RANK && attr->out[d]; d++) {
    int i = attr->out[d];
    good = good && i <= INDICES && size[i] >= 0 && !runs_in(attr->out, d, i);
    shape.dims[shape.rank++] = good ? size[i] : 0;
  }
  /* An index that is in no operand has no size and is no concern; one that is met and not kept
   * must be in both. */
  for (int i = 1; i <= INDICES && good; i++)
    good = size[i] < 0 || runs_in(attr->out, shape.rank, i) ||
           ((runs_in(attr->left, in.at[0].rank, i) || runs_in(attr->window, in.at[0].rank, i)) &&
            runs_in(attr->right, in.at[1].rank, i));
  if (!good)
    return tsr__error_set(error, TSR_ESHAPE,
                          "tsr_%s: %s times %s: an index stands twice in the result, or in no "
                          "operand, or is summed and in one operand only; name each index once",
                          tsr__ops[op].name, text_of(&in.at[0]).text, text_of(&in.at[1]).text);
  *out = shape;
  return TSR_OK;
}

tsr_status tsr__shape_blocks(tsr__op op, tsr__types in, const tsr__ask *ask, tsr_shape *out,
                             tsr__error *error)
{
  const tsr__blocks_attr *attr = asked_attr(op, ask);
  (void)error;
  tsr_shape shape = { .rank = in.at[0].rank };
  for (int d = 0; d < shape.rank; d++)
    shape.dims[d] = attr->parts[d] ? attr->parts[d] * tsr__block_size(attr, d) : in.at[0].dims[d];
  *out = shape;
  return TSR_OK;
}
