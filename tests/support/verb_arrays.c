/* The jobs of arrays that have a family of their own; see verb_cases.c. */
#include "verb_cases.h"

static tsr_array *whole(struct verb_run *r)
{
  return tsr_cast(verb_matrix(r), TSR_I64);
}

/* One dim, of 24. */
static tsr_array *line(struct verb_run *r)
{
  return tsr_ravel(verb_matrix(r));
}

void verb_more_functions(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r), *a = tsr_abs(x), *small = tsr_div(x, 4);
  tsr_array *of_small[] = { tsr_acos(small), tsr_asin(small), tsr_erfinv(small), tsr_atan(x) };
  for (int i = 0; i < 4; i++) verb_see_array(r, of_small[i]);
  verb_see_array(r, tsr_add(tsr_atan2(x, a), tsr_hypot(x, a)));
  verb_see_array(r, tsr_add(tsr_cbrt(x), tsr_mul(tsr_sinh(x), tsr_cosh(x))));
  verb_see_array(r, tsr_add(tsr_erf(x), tsr_mul(tsr_erfc(x), tsr_lgamma(tsr_add(a, 1)))));
  verb_see_array(r, tsr_add(tsr_sigmoid(x), tsr_mul(tsr_gelu(x), tsr_logaddexp(x, a))));
  verb_see_array(r, tsr_add(tsr_relu(x), tsr_mul(tsr_silu(x), tsr_softplus(x))));
  verb_see_array(r, tsr_add(tsr_deg2rad(x), tsr_rad2deg(tsr_reciprocal(tsr_square(x)))));
}

void verb_more_elements(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r), *n = whole(r), *parts[2];
  verb_see_array(r, tsr_fma(x, x, x));
  verb_see_array(r, tsr_clip(tsr_copysign(x, 1), tsr_num(r->s, 0.5), tsr_num(r->s, 2)));
  verb_see_array(r, tsr_add(tsr_fmin(x, 1), tsr_fmax(tsr_fmod(x, 2), tsr_nextafter(x, 9))));
  verb_see_array(r, tsr_add(tsr_heaviside(x, 0.5), tsr_mul(tsr_sign(x), tsr_round(x))));
  verb_see_array(r, tsr_add(tsr_popcount(n), tsr_clz(n)));
  verb_see_array(r, tsr_add(tsr_left_shift(n, 2), tsr_right_shift(n, 1)));
  verb_see_array(r, tsr_logical_and(tsr_isfinite(x), tsr_logical_not(tsr_isinf(x))));
  verb_see_array(r, tsr_logical_or(tsr_signbit(x), tsr_logical_xor(n, x)));
  verb_see_array(r, tsr_nan_to_num(tsr_log(x)));
  tsr_divmod(x, 2, parts);
  for (int i = 0; i < 2; i++) verb_see_array(r, parts[i]);
}

void verb_statistics(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r);
  verb_see_array(r, tsr_add(tsr_ptp(x), tsr_norm(x)));
  verb_see_array(r, tsr_logsumexp(x, .dims = TSR_DIMS(0)));
  verb_see_array(r, tsr_average(x, .weights = tsr_abs(x)));
  verb_see_array(r, tsr_quantile(x, .q = 0.25, .dims = TSR_DIMS(0)));
  verb_see_array(r, tsr_percentile(x, .q = 75, .dims = TSR_DIMS(0)));
  verb_see_array(r, tsr_median(x, .dims = TSR_DIMS(1)));
  verb_see_array(r, tsr_median(x, .keep_dims = true));
  verb_see_array(r, tsr_cov(x));
  verb_see_array(r, tsr_and(tsr_allclose(x, x), tsr_array_equal(x, x)));
  verb_see_array(r, tsr_isclose(x, x));
  verb_see_array(r, tsr_add(tsr_softmax(x, 1), tsr_log_softmax(x, 0)));
}

void verb_shapes(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r), *parts[2];
  verb_see_array(r, tsr_reshape(x, TSR_SHAPE(3, 8)));
  verb_see_array(r, tsr_squeeze(tsr_expand_dims(x, TSR_DIMS(0)), TSR_DIMS(0)));
  verb_see_array(r, tsr_roll(tsr_atleast(x, 3), 1, 1));
  verb_see_array(r, tsr_swapaxes(tsr_moveaxis(x, 0, 1), 0, 1));
  verb_see_array(r, tsr_rot90(x, 1, 0, 1));
  tsr_split(x, 2, 0, parts);
  for (int i = 0; i < 2; i++) verb_see_array(r, parts[i]);
  verb_see_array(r, tsr_stack((tsr_array *[]){ x, x }, 2, 0));
  verb_see_array(r, tsr_repeat(x, 2, 0));
  verb_see_array(r, tsr_pad_like(TSR_PAD_WRAP, x, .low = { 1 }));
  verb_see_array(r, tsr_diff(x, 1, 0));
  verb_see_array(r, tsr_tril(tsr_triu(x, -1), 1));
}

void verb_more_shapes(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r), *few = tsr_arange(r->s, .stop = 4), *out[2];
  tsr_array *starts = tsr_cast(tsr_linspace(r->s, 0, 1, 2), TSR_I64);
  verb_see_array(r, tsr_tile(x, 2, 1));
  verb_see_array(r, tsr_repeat_each(few, tsr_cast(few, TSR_I64), 6, 0));
  tsr_broadcast_arrays((tsr_array *[]){ x, few }, 2, out);
  verb_see_array(r, out[1]);
  tsr_meshgrid((tsr_array *[]){ few, few }, 2, false, out);
  verb_see_array(r, tsr_add(out[0], out[1]));
  verb_see_array(r, tsr_diag(tsr_eye(r->s, TSR_F64, TSR_SHAPE(4, 4), 0, (tsr_sharding){ 0 }), 0));
  verb_see_array(r, tsr_dynamic_slice(x, starts, TSR_SHAPE(2, 2)));
  verb_see_array(r, tsr_dynamic_update_slice(x, tsr_slice(x, TSR_RANGE(0, 2)), starts));
}

void verb_indexing(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r), *at = tsr_cast(tsr_arange(r->s, .stop = 4), TSR_I64);
  verb_see_array(r, tsr_take_along_dim(x, tsr_argsort(x, 0), 0));
  verb_see_array(r, tsr_gather(x, { at, at }));
  verb_see_array(r, tsr_scatter(x, at, 7, 0, .how = TSR_SCATTER_MAX));
  verb_see_array(r, tsr_scatter_nd(x, 7, { at, at }, .how = TSR_SCATTER_SET));
  verb_see_array(r, tsr_select((tsr_array *[]){ tsr_gt(x, 0) }, (tsr_array *[]){ x }, 1));
  verb_see_array(r, tsr_one_hot(at, 5, TSR_F32));
  verb_see_array(r, tsr_bincount(at, 6, NULL));
}

void verb_finding(struct verb_run *r)
{
  tsr_array *x = line(r), *sorted = tsr_sort(x, 0), *places[2];
  verb_see_array(r, tsr_compress(x, tsr_gt(x, 0), 30));
  verb_see_array(r, tsr_nonzero(x, .count = 20));
  tsr_nonzero_dims(verb_matrix(r), places, 9);
  verb_see_array(r, tsr_gather(verb_matrix(r), { places[0], places[1] }));
  verb_see_array(r, tsr_compress(verb_matrix(r), tsr_gt(verb_matrix(r), 0), 5));
  tsr_unique_parts unique = tsr_unique(x, .count = 9);
  verb_see_array(r, unique.values);
  verb_see_array(r, unique.inverse);
  verb_see_array(r, tsr_searchsorted(sorted, x, false));
  verb_see_array(r, tsr_digitize(x, unique.values, true));
  verb_see_array(r, tsr_isin(x, unique.values));
  verb_see_array(r, tsr_interp(x, sorted, sorted));
  verb_see_array(r, tsr_histogram(x, .bins = 4).counts);
  verb_see_array(r, tsr_lexsort((tsr_array *[]){ x, sorted, tsr_gt(x, 0) }, 3, 0));
  verb_see_array(r, tsr_cummax(tsr_gt(x, 0), 0));
  verb_see_array(r, tsr_add(tsr_partition(x, 3, 0), tsr_argpartition(x, 3, 0)));
  verb_see_array(r, tsr_add(tsr_nancumsum(x, 0), tsr_nancumprod(x, 0)));
}

void verb_draws(struct verb_run *r)
{
  tsr_array *key = tsr_random_key(r->s, 8), *keys = tsr_random_split(key, 5);
  tsr_array *more = tsr_random_fold_in(keys, 3);
  verb_see_array(r, tsr_uniform(r->s, .key = 3, .shape = TSR_SHAPE(9, 5), .on = r->at));
  verb_see_array(r, tsr_uniform(r->s, .keys = more, .shape = TSR_SHAPE(4), .low = 1, .high = 2));
  verb_see_array(r, tsr_random_bits(r->s, .key = 3, .shape = TSR_SHAPE(2, 9), .on = r->at));
  verb_see_array(r, tsr_normal(r->s, .keys = key, .shape = TSR_SHAPE(12), .on = r->at));
  verb_see_array(r, tsr_exponential(r->s, 2, .key = 4, .shape = TSR_SHAPE(20), .on = r->at));
  verb_see_array(r, tsr_poisson(r->s, 4, .key = 5, .shape = TSR_SHAPE(30), .on = r->at));
}

void verb_more_draws(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r), *rows = tsr_abs(tsr_sum(x, .dims = TSR_DIMS(1)));
  verb_see_array(r, tsr_randint(r->s, 3, 9, .key = 5, .shape = TSR_SHAPE(30), .on = r->at));
  verb_see_array(r, tsr_truncated_normal(r->s, -1, 2, .key = 5, .shape = TSR_SHAPE(30)));
  verb_see_array(r, tsr_gamma(r->s, 0.5, .key = 6, .shape = TSR_SHAPE(20), .on = r->at));
  verb_see_array(r, tsr_bernoulli(r->s, 0.5, .key = 6, .shape = TSR_SHAPE(20), .on = r->at));
  verb_see_array(r, tsr_categorical(x, 1, .key = 7));
  verb_see_array(r, tsr_permutation(r->s, 20, .key = 7));
  verb_see_array(r, tsr_shuffle(x, 0, .key = 7));
  verb_see_array(r, tsr_choice(x, 3, .weights = rows, .by = { .key = 8 }));
  verb_see_array(r, tsr_choice(x, 9, .replace = true, .weights = rows, .by = { .key = 8 }));
}

static tsr_status fill_part(const tsr_box *box, void *to, void *user)
{
  (void)user;
  for (int64_t i = 0; i < box->size[0]; i++) ((double *)to)[i] = (double)(box->start[0] + i);
  return TSR_OK;
}

static void saw(struct verb_run *r, tsr_status status)
{
  if (!r->status) r->status = status;
}

void verb_elsewhere(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r), *sum = tsr_sum(x);
  tsr_dl_managed *tensor = NULL;
  tsr_dl_versioned *versioned = NULL;
  tsr_type type;
  verb_see_array(r, tsr_from_callback(r->s, fill_part, .dtype = TSR_F64, .shape = TSR_SHAPE(12),
                                      .on = r->at));
  saw(r, tsr_start(&sum, 1));
  verb_see_array(r, sum);
  saw(r, tsr_to_dlpack(x, 0, &tensor));
  if (tensor) verb_see_array(r, tsr_from_dlpack(r->s, tensor));
  saw(r, tsr_to_dlpack_versioned(x, 0, &versioned));
  if (versioned) verb_see_array(r, tsr_from_dlpack_versioned(r->s, versioned));
  saw(r, tsr_type_parse(r->s, r->mesh, "f64[6,4]", &type));
  tsr_visualize(x);
  tsr_visualize_sharding(r->s, r->at, TSR_SHAPE(6, 4));
  saw(r, tsr_scope_status(r->s));
}

void verb_parts_of_products(struct verb_run *r)
{
  tsr_array *x = tsr_div(verb_matrix(r), 3), *y = tsr_transpose(x);
  verb_see_array(r, tsr_vdot(x, x));
  verb_see_array(r, tsr_kron(tsr_sum(x, .dims = TSR_DIMS(0)), x));
  verb_see_array(r, tsr_dot(y, x));
  verb_see_array(r, tsr_dot(y, x, .reproducible = true));
  verb_see_array(r, tsr_tensordot(x, x, 1, (int[]){ 0 }, (int[]){ 0 }, .reproducible = true));
}
