/* How long a gradient is, over all arrays of a tree, and shorter ones. The sum of squares is exact
 * over each array, so the norm does not depend on where its parts lie. */
#include "train/train_room.h"

#include "tessera/elementwise.h"

typedef tsr_array array;

/* The norm as a scalar of at least f32; NULL: the error is recorded. Each sum is rounded once;
 * adding them rounds again, in the order of the leaves, so that the same tree has the same norm on
 * every mesh. */
static array *norm_of(array *tree, const char *site)
{
  int count = 0;
  array **all = tsr__floats_of(tree, "tsr_tree", &count, site);
  if (!all) return NULL;
  array *sum = tsr_num_at(tsr__home(tree), tsr_scalar_float(0), site);
  for (int i = 0; i < count; i++) {
    /* Squares in f64, so that they neither overflow nor vanish, and an exact sum of them. */
    array *square = tsr_square_at(tsr_cast_at(all[i], TSR_F64, site), site);
    sum = tsr_add_at(sum, tsr_operand_array(tsr_sum_at(&(tsr_reduce_args){ .x = square }, site)),
                     site);
  }
  return tsr_sqrt_at(sum, site);
}

array *tsr_global_norm_at(array *tree, const char *site)
{
  TSR__CALL(tsr__home(tree), "global_norm");
  if (!tsr__usable(tree)) return tsr_abs_at(tree, site); /* which tells what is wrong */
  array *norm = norm_of(tree, site), *first = NULL;
  if (!norm) return tsr__make_inert(tsr__home(tree), site);
  /* In the dtype of the first array; of an empty tree it stays as it was counted. */
  if (!tsr_tree_leaves(tree, &first, 1)) return norm;
  return tsr_cast_at(norm, (tsr_dtype)first->dtype, site);
}

/* One factor for all arrays. */
typedef struct shortening {
  array *factor;
  const char *site;
} shortening;

/* Cast to the array's dtype first, so that what was f16 stays f16. */
static array *shorten(tsr_scope *scope, array *const *leaf, void *user)
{
  const shortening *by = user;
  array *factor = tsr_cast_at(by->factor, (tsr_dtype)leaf[0]->dtype, by->site);
  (void)scope;
  return tsr_mul_at(leaf[0], tsr_operand_array(factor), by->site);
}

/* limit / max(norm, limit): no branch, so a traced step is the same for long and short gradients. A
 * norm of NaN makes all of it NaN, and is not hidden. */
array *tsr_clip_norm_at(array *tree, double limit, const char *site)
{
  TSR__CALL(tsr__home(tree), "clip_norm");
  if (!tsr__usable(tree)) return tsr_abs_at(tree, site); /* which tells what is wrong */
  tsr__error error = { .status = TSR_OK };
  if (!(limit > 0)) {
    char text[32];
    tsr__text_f64(text, limit);
    tsr__error_set(&error, TSR_EARG, "tsr_clip_norm: the limit is %s, expected a number above 0",
                   text);
    return tsr__refused(tree, &error, site);
  }
  array *norm = norm_of(tree, site);
  if (!norm) return tsr__make_inert(tsr__home(tree), site);
  /* At most 1: a gradient that is short enough is multiplied by 1. */
  array *top = tsr_maximum_at(norm, tsr_operand_float(limit), site);
  array *own = tsr_num_at(tsr__home(tree), tsr_scalar_float(limit), site);
  shortening by = { tsr_div_at(own, tsr_operand_array(top), site), site };
  return tsr_tree_map_at(shorten, &by, &tree, 1, site);
}
