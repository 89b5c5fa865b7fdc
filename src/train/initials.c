/* First values of weights: draws scaled by how many numbers meet in an element. Glorot and Bengio
 * (2010), He and others (2015), LeCun and others (1998) have the rules.
 *
 *   rule      variance of an element      law        draws of deviation 1 times sqrt(variance)
 *   Glorot    2 / (in + out)              uniform    from -sqrt 3 to sqrt 3
 *   He        2 / in                      normal     as they are
 *   LeCun     1 / in                      truncated  between -2 and 2, wider by 1 / 0.8796
 */
#include "train/train_room.h"

#include <math.h>

/* How wide a standard normal is that is cut at two deviations. sqrt(1 - 2 * 2 phi(2) / (2 Phi(2) -
 * 1)), phi the density and Phi its integral. */
static const double cut_deviation = 0.87962566103423978;

/* [places ..., in, out]: convolutions add up over their places, too. */
static double variance_of(tsr_initial_rule rule, const tsr_shape *shape)
{
  double places = 1;
  for (int d = 0; d < shape->rank - 2; d++) places *= (double)shape->dims[d];
  double ins = places * (double)shape->dims[shape->rank - 2];
  double outs = places * (double)shape->dims[shape->rank - 1];
  double sum = rule == TSR_GLOROT ? ins + outs : ins;
  return (rule == TSR_LECUN ? 1 : 2) / (sum > 0 ? sum : 1); /* of none: no matter */
}

/* A bias has one number coming in and no draws by these rules. */
static void check(tsr_initial_rule rule, tsr_initial_law law, const tsr_random_args *a,
                  tsr__error *error)
{
  if (a->shape.rank < 2)
    tsr__error_set(error, TSR_ESHAPE,
                   "tsr_initial: the shape has %d dims, expected [..., in, out]; make the zeros of "
                   "a bias with tsr_full",
                   a->shape.rank);
  else if ((unsigned)rule > TSR_LECUN || (unsigned)law > TSR_INITIAL_TRUNCATED)
    tsr__error_set(error, TSR_EARG,
                   "tsr_initial: .rule is %d and .law is %d, expected values of tsr_initial_rule "
                   "and tsr_initial_law",
                   (int)rule, (int)law);
  else if (a->low < 0 || a->low > 0 || a->high < 0 || a->high > 0)
    tsr__error_set(error, TSR_EARG,
                   "tsr_initial: .low or .high is set, expected neither; the rule gives the range "
                   "of the draws");
}

tsr_array *tsr_initial_at(tsr_scope *scope, tsr_initial_rule rule, tsr_initial_law law,
                          const tsr_random_args *given, const char *site)
{
  tsr_random_args a = { .size = sizeof a };
  tsr__error error = { .status = TSR_OK };
  if (tsr__scope_usable(scope, "tsr_initial", site)) return tsr__make_inert(scope, site);
  /* Errors of the calls below are told as this one's. */
  TSR__CALL(scope, "initial");
  if (!tsr__take_opts("tsr_initial", given, &a, sizeof a, &error)) check(rule, law, &a, &error);
  if (error.status) {
    tsr__fail_error(scope, site, &error);
    return tsr__make_inert(scope, site);
  }
  /* The law decides the shape of the draws, the rule how far they go; deviations are equal for all
   * laws. */
  double deviation = sqrt(variance_of(rule, &a.shape));
  if (law == TSR_INITIAL_UNIFORM) {
    /* A uniform draw from -a to a has the deviation a / sqrt 3. */
    a.high = sqrt(3) * deviation;
    a.low = -a.high;
    return tsr_uniform_at(scope, &a, site);
  }
  bool cut = law == TSR_INITIAL_TRUNCATED;
  tsr_array *x =
      cut ? tsr_truncated_normal_at(scope, -2, 2, &a, site) : tsr_normal_at(scope, &a, site);
  x = tsr__times_number(x, cut ? deviation / cut_deviation : deviation, site);
  /* The weights lie there, too, and not only the draws that they are made of. */
  return a.on.mesh && !x->inert ? tsr__constrain_for(x, a.on, TSR__WHY_ON, site) : x;
}
