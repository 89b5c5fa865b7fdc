/* Losses by line of scores.
 *
 *   scores [.., classes]      truth [..] of classes, or [.., classes] of shares     loss [..]
 *
 *   smoothing s, n classes      share = (1 - s) * truth + s * (sum of truth) / n
 *
 * A class out of range has shares of zeros and so a loss of 0: padding rows can be marked that
 * way. */
#include "train/train_room.h"

#include "tessera/elementwise.h"
#include "tessera/indexing.h"
#include "tessera/shape.h"
#include "tessera/statistics.h"

/* The truth is classes, a dim less, or how likely each is. False: the error is set. Floats are
 * shares, integers are classes; bools are neither. */
static bool check_truth(const tsr_cross_entropy_args *a, tsr__error *error)
{
  tsr_shape scores = a->scores->shape, truth = a->truth->shape;
  char text[32];
  tsr__text_f64(text, a->smoothing);
  bool classes = !tsr__of_floats(a->truth);
  int dims = scores.rank - classes;
  /* What the truth has but for the classes must be as the scores have it. */
  tsr_shape line = scores;
  line.rank = dims;
  bool fit = scores.rank > 0 && tsr__shape_same(&line, &truth);
  if (!tsr__of_floats(a->scores) || a->truth->dtype == TSR_BOOL)
    tsr__error_set(error, TSR_EDTYPE,
                   "tsr_cross_entropy: the scores are %s and the truth is %s, expected scores of "
                   "floats, and a truth of integers or floats; convert with tsr_cast",
                   tsr_type_of(a->scores), tsr_type_of(a->truth));
  else if (!fit)
    tsr__error_set(error, TSR_ESHAPE,
                   "tsr_cross_entropy: the scores are %s and the truth is %s, expected one class "
                   "for each line of scores, or one float for each score",
                   tsr_type_of(a->scores), tsr_type_of(a->truth));
  else if (!(a->smoothing >= 0 && a->smoothing <= 1))
    tsr__error_set(error, TSR_EARG, "tsr_cross_entropy: .smoothing is %s, expected 0 to 1", text);
  return !error->status;
}

/* Along the last dim: the sum. */
static tsr_array *sum_lines(tsr_array *a, const char *site)
{
  int last = -1;
  return tsr_sum_at(&(tsr_reduce_args){ .x = a, .dims = tsr_dims_of(&last, 1) }, site);
}

/* Of classes: what each class counts, 0 in lines that have none. */
static tsr_array *spread(const tsr_cross_entropy_args *a, const char *site)
{
  int64_t classes = a->scores->shape.dims[a->scores->shape.rank - 1];
  tsr_dtype dtype = (tsr_dtype)a->scores->dtype;
  if (tsr__of_floats(a->truth)) return tsr_cast_at(a->truth, dtype, site);
  return tsr_one_hot_at(a->truth, classes, dtype, site);
}

/* -sum(share * log), where share is the truth and, smoothed, a part of it is the same for all.
 * log_softmax and not the logarithm of a softmax, which is -infinity where the softmax rounds to
 * 0. */
static tsr_array *entropy(const tsr_cross_entropy_args *a, const char *site)
{
  tsr_array *log = tsr_log_softmax_at(a->scores, a->scores->shape.rank - 1, site);
  tsr_array *share = spread(a, site);
  double classes = (double)a->scores->shape.dims[a->scores->shape.rank - 1];
  if (a->smoothing > 0) {
    /* Only lines that count have shares to give away. */
    tsr_array *mass = sum_lines(share, site); /* 0 of lines that do not count */
    int last = -1;
    mass = tsr_expand_dims_at(mass, tsr_dims_of(&last, 1), site);
    mass = tsr__times_number(mass, a->smoothing / classes, site);
    share =
        tsr_add_at(tsr__times_number(share, 1 - a->smoothing, site), tsr_operand_array(mass), site);
  }
  /* What does not count is left out, not multiplied: scores may be infinite. */
  tsr_array *counts = tsr_ne_at(share, tsr_operand_int(0), site);
  tsr_array *terms = tsr_mul_at(share, tsr_operand_array(tsr_neg_at(log, site)), site);
  return sum_lines(tsr_where_at(counts, tsr_operand_array(terms), tsr_operand_int(0), site), site);
}

tsr_array *tsr_cross_entropy_at(const tsr_cross_entropy_args *given, const char *site)
{
  tsr_cross_entropy_args a = { .size = sizeof a };
  tsr__error error = { .status = TSR_OK };
  tsr_array *scores = given ? given->scores : NULL, *truth = given ? given->truth : NULL;
  TSR__CALL(tsr__home(tsr__usable(scores) ? scores : truth), "cross_entropy");
  if (!tsr__usable(scores) || !tsr__usable(truth))
    return tsr_add_at(scores, tsr_operand_array(truth), site); /* which tells what is wrong */
  if (tsr__take_opts("tsr_cross_entropy", given, &a, sizeof a, &error) || !check_truth(&a, &error))
    return tsr__refused(scores, &error, site);
  return entropy(&a, site);
}
