#include "support/gradient_check.h"

#include <math.h>

#include "harness.h"

static tsr_dims floats_of(const gradient_case *c)
{
  tsr_dims out = { 0 };
  for (int i = 0; i < c->count; i++)
    if (tsr_dtype_of(c->in[i]) == TSR_F64) out.bits |= 1u << i;
  return out;
}

/* Numbers of -1 to 1 that differ from element to element. */
static tsr_array *weights(tsr_scope *s, tsr_array *like, double phase)
{
  tsr_shape shape = tsr_shape_of(like), flat = { .rank = 1, .dims = { 1 } };
  for (int d = 0; d < shape.rank; d++) flat.dims[0] *= shape.dims[d];
  tsr_array *at = tsr_iota(s, TSR_F64, flat, 0, (tsr_sharding){ 0 });
  return tsr_reshape(tsr_cos(tsr_add(tsr_mul(at, 1.7), phase)), shape);
}

static tsr_array *weighed(tsr_scope *s, tsr_array *a, double phase)
{
  return tsr_sum(tsr_mul(tsr_cast(a, TSR_F64), weights(s, a, phase)));
}

static tsr_array *scalar_body(tsr_scope *s, tsr_array *const *in, void *user)
{
  const gradient_case *c = user;
  return weighed(s, c->body(s, in, c->user), 0.3);
}

typedef struct level {
  tsr_function *slope;
  int count;
} level;

/* The gradients of a function, weighed and added up. */
static tsr_array *slope_body(tsr_scope *s, tsr_array *const *in, void *user)
{
  const level *l = user;
  tsr_array *out = tsr_call_at(l->slope, in, l->count, TSR_HERE), *sum = NULL;
  if (!tsr_is_tree(out)) return weighed(s, out, 0.9);
  for (int i = 0; i < tsr_item_count(out); i++) {
    tsr_array *part = weighed(s, tsr_item(out, i), 0.9 + i);
    sum = sum ? tsr_add(sum, part) : part;
  }
  return sum;
}

static void check_function(const gradient_case *c, tsr_function *f, int depth)
{
  enum { MOST = 8 };
  const double h = 0x1p-17;
  test_rng rng = test_seeded(c->seed + 77);
  tsr_array *up[MOST], *down[MOST], *along[MOST];
  tsr_dims wrt = floats_of(c);
  for (int i = 0; i < c->count; i++) {
    up[i] = down[i] = c->in[i];
    if (!(wrt.bits >> i & 1)) continue;
    along[i] = weights(c->s, c->in[i], 6.3 * test_uniform(&rng));
    up[i] = tsr_add(c->in[i], tsr_mul(along[i], h));
    down[i] = tsr_sub(c->in[i], tsr_mul(along[i], h));
  }
  tsr_function *g = tsr_grad(f, .wrt = wrt);
  tsr_array *slopes = tsr_call_at(g, c->in, c->count, TSR_HERE);
  CHECK_STATUS(tsr_scope_status(c->s), TSR_OK, c->s);
  tsr_array *sum = tsr_num(c->s, 0.0), *size = sum;
  for (int i = 0, k = 0; i < c->count; i++) {
    if (!(wrt.bits >> i & 1)) continue;
    tsr_array *slope = tsr_is_tree(slopes) ? tsr_item(slopes, k++) : slopes;
    tsr_array *part = tsr_mul(slope, along[i]);
    CHECK(tsr_shape_of(slope).rank == tsr_shape_of(c->in[i]).rank);
    sum = tsr_add(sum, tsr_sum(part));
    size = tsr_add(size, tsr_sum(tsr_abs(part)));
  }
  tsr_array *all[] = { tsr_call_at(f, up, c->count, TSR_HERE),
                       tsr_call_at(f, down, c->count, TSR_HERE), sum, size };
  double out[4];
  CHECK_STATUS(tsr_read(tsr_stack(all, 4, 0), out, sizeof out), TSR_OK, c->s);
  double change = (out[0] - out[1]) / (2 * h), tolerance = c->tolerance > 0 ? c->tolerance : 1e-6;
  double room = tolerance * (1 + out[3]) + 1e-10 * fabs(out[0]);
  if (!(fabs(change - out[2]) <= room))
    FAIL("%s, seed %llu, order %d: gradient %.17g, differences %.17g", c->name,
         (unsigned long long)c->seed, depth, out[2], change);
}

void gradient_check(const gradient_case *given)
{
  gradient_case c = *given;
  tsr_function *f = tsr_function_make(c.s, scalar_body, .user = &c, .name = c.name);
  check_function(&c, f, 1);
  if (c.depth < 2) return;
  level l = { tsr_grad(f, .wrt = floats_of(&c)), c.count };
  check_function(&c, tsr_function_make(c.s, slope_body, .user = &l, .name = c.name), 2);
}
