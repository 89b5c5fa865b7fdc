// A whole program of arrays in C++: every call that is written by hand, with values that were
// worked out on paper.
#include <cmath>
#include <cstdio>
#include <cstring>

#include <tessera.hpp>

using tessera::array;
using tessera::broadcast_arrays;
using tessera::concat;
using tessera::einsum;
using tessera::lexsort;
using tessera::meshgrid;
using tessera::select;
using tessera::stack;
using ints = std::vector<std::int64_t>;
using reals = std::vector<double>;

static int bad = 0;

static void check(bool fine, const char *what, int line)
{
  if (fine) return;
  std::fprintf(stderr, "%s:%d: %s is false\n", __FILE__, line, what);
  bad++;
}
#define CHECK(...) check((__VA_ARGS__), #__VA_ARGS__, __LINE__)

// Whether an array has these values, of the same shape or not.
template <class T> static bool is(const array &a, std::initializer_list<T> expected)
{
  std::vector<T> found = a.read<T>();
  if (found == std::vector<T>(expected)) return true;
  std::fprintf(stderr, "found %s\n", a.text().c_str());
  return false;
}

static bool ok(const array &a, std::initializer_list<double> expected)
{
  return is<double>(a, expected);
}

static void making(const tessera::scope &s, tsr_sharding on)
{
  CHECK(ok(s.full(2.5, TSR_F64, { 2, 2 }, on), { 2.5, 2.5, 2.5, 2.5 }));
  CHECK(ok(s.iota(TSR_I32, { 2, 3 }, 1, on), { 0, 1, 2, 0, 1, 2 }));
  CHECK(ok(s.eye(TSR_F32, { 2, 3 }, 1), { 0, 1, 0, 0, 0, 1 }));
  CHECK(ok(s.arange(1, 4, 0.5), { 1, 1.5, 2, 2.5, 3, 3.5 }));
  tsr_steps_args whole = {};
  whole.dtype = TSR_I64;
  CHECK(s.linspace(0, 8, 5, whole).type() == "i64[5]" && ok(s.linspace(0, 1, 3), { 0, 0.5, 1 }));
  CHECK(s.num(7).value() == 7 && s.num(true).type() == "bool[]");
  CHECK(s.put(std::vector<std::uint8_t>{ 250, 6 }, { 2 }).type() == "u8[2]");
  tessera::scope inner = s.nest();
  array kept = s.keep(inner.full(3, TSR_I64, { 2 }));
  CHECK(ok(kept, { 3, 3 }));
}

static void elements(const tessera::scope &s, tsr_sharding on)
{
  array x = s.put(reals{ -2, -0.5, 0, 1.5, NAN, 4 }, { 6 }, on);
  array y = nan_to_num(x);
  CHECK(ok(square(y), { 4, 0.25, 0, 2.25, 0, 16 }) && ok(sign(y), { -1, -1, 0, 1, 0, 1 }));
  CHECK(ok(clip(y, -1, 1.5), { -1, -0.5, 0, 1.5, 0, 1.5 }) && ok(relu(y), { 0, 0, 0, 1.5, 0, 4 }));
  CHECK(ok(fma(y, 2, y), { -6, -1.5, 0, 4.5, 0, 12 }) && ok(round(y), { -2, -0, 0, 2, 0, 4 }));
  CHECK(ok(fmax(x, 0), { 0, 0, 0, 1.5, 0, 4 }) && fmin(x, 0).max().value() == 0);
  CHECK(ok(heaviside(y, 0.5), { 0, 0, 0.5, 1, 0.5, 1 }) &&
        reciprocal(x).max({}, { false, 0, nullptr, true }).value() > 1e300);
  CHECK((isfinite(x) & ~isinf(x)).count().value() == 5 && signbit(x).count().value() == 2);
  CHECK(logical_and(x, 1).count().value() == 5 && logical_or(x, 0).count().value() == 5);
  CHECK(logical_xor(y, 1).count().value() == 2 && logical_not(y).count().value() == 2);
  CHECK(std::fabs(rad2deg(deg2rad(y)).sum().value() - 3) < 1e-12);
  CHECK(std::fabs((silu(y) + softplus(y)).sum().value() - 12.433) < 0.01);
  auto [quotient, rest] = divmod(s.put(ints{ 7, -7 }, { 2 }), 2);
  CHECK(ok(quotient, { 3, -4 }) && ok(rest, { 1, 1 }));
  CHECK(ok(where(y > 0, y, -1), { -1, -1, -1, 1.5, -1, 4 }));
  tsr_nan_to_num_args more = {};
  more.nan = tessera::operand(9).raw();
  CHECK(nan_to_num(x, more).max().value() == 9 && round(s.num(2.376), 2).value() == 2.38);
}

static void reductions(const tessera::scope &s, tsr_sharding on)
{
  array x = s.put(reals{ 3, 4, NAN, 12 }, { 2, 2 }, on);
  tessera::reduce_opts numbers;
  numbers.skip_nan = true;
  CHECK(x.sum({}, numbers).value() == 19 && x.norm({}, numbers).value() == 13);
  numbers.initial = 100;
  CHECK(x.max({}, numbers).value() == 100);
  tessera::reduce_opts wide;
  wide.dtype = TSR_F32;
  CHECK(x.mean({ 1 }, wide).type() == "f32[2]" && x.ptp({ 1 }).read<double>()[0] == 1);
  CHECK(std::fabs(s.put(reals{ 0, 0 }, { 2 }).logsumexp().value() - std::log(2)) < 1e-15);
  array row = s.put(reals{ 4, 1, 3, 2 }, { 4 }, on);
  CHECK(median(row).value() == 2.5 && quantile(row, 0.25).value() == 1.75);
  tsr_quantile_args low = {};
  low.between = TSR_BETWEEN_LOWER;
  CHECK(percentile(row, 50, { 0 }, low).value() == 2);
  CHECK(average(row, s.put(reals{ 1, 0, 0, 1 }, { 4 })).value() == 3 && cov(row).value() * 3 == 5);
  CHECK(allclose(row, row + 1e-12).value() == 1 && array_equal(row, row + 1).value() == 0);
  CHECK(isclose(row, 3 * row / 3).count().value() == 4);
  CHECK(std::fabs(softmax(row).sum().value() - 1) < 1e-15 && log_softmax(row).max().value() < 0);
}

static void shapes(const tessera::scope &s, tsr_sharding on)
{
  array x = s.put(reals{ 0, 1, 2, 3, 4, 5 }, { 2, 3 }, on);
  CHECK(ok(slice(x, { {}, { 2, TSR_END, -1 } }), { 2, 1, 0, 5, 4, 3 }));
  CHECK(ok(slice(x, { 1, { 0, 2 } }), { 3, 4 }) && ok(transpose(x), { 0, 3, 1, 4, 2, 5 }));
  CHECK(transpose(x, { 1, 0 }).type().rfind("f64[3,2]", 0) == 0 &&
        ok(flip(x), { 5, 4, 3, 2, 1, 0 }));
  CHECK(ok(flip(x, { 0 }), { 3, 4, 5, 0, 1, 2 }));
  CHECK(broadcast_to(s.num(1.0), { 2, 2 }).sum().value() == 4);
  tsr_pad_args borders = {};
  borders.low[1] = 1;
  CHECK(ok(pad(x, borders), { 0, 0, 1, 2, 0, 3, 4, 5 }));
  CHECK(ok(pad_like(TSR_PAD_EDGE, x, borders), { 0, 0, 1, 2, 3, 3, 4, 5 }));
  CHECK(ok(concat({ x, x }, 1), { 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5 }));
  CHECK(reshape(x, { 3, -1 }).shape().dims[1] == 2 && ravel(x).shape().rank == 1);
  CHECK(reshape(x, transpose(x).shape()).shape().dims[0] == 3);
  CHECK(squeeze(expand_dims(x, { 0, -1 })).shape().rank == 2 && atleast(x, 3).shape().rank == 3);
  CHECK(ok(roll(x, 1, 1), { 2, 0, 1, 5, 3, 4 }) &&
        ok(roll(x, { 1, 1 }, { 0, 1 }), { 5, 3, 4, 2, 0, 1 }));
  CHECK(moveaxis(x, 0, 1).shape().dims[0] == 3 && swapaxes(x, 0, -1).shape().dims[0] == 3);
  CHECK(ok(rot90(x), { 2, 5, 1, 4, 0, 3 }) && stack({ x, x }, -1).shape().dims[2] == 2);
  std::vector<array> parts = split(x, 2, 1);
  CHECK(parts.size() == 2 && ok(parts[0], { 0, 1, 3, 4 }) && ok(parts[1], { 2, 5 }));
  CHECK(ok(tile(s.num(2), { 2, 2 }), { 2, 2, 2, 2 }) &&
        ok(repeat(slice(x, { 1 }), 2, 0), { 3, 4, 5, 3, 4, 5 }));
  array counts = s.put(ints{ 0, 2 }, { 2 });
  CHECK(ok(repeat_each(x, counts, 2, 0), { 3, 4, 5, 3, 4, 5 }));
  CHECK(ok(broadcast_arrays({ counts, x.sum({ 1 }, { true }) })[0], { 0, 2, 0, 2 }));
  CHECK(ok(meshgrid({ counts, counts })[0], { 0, 0, 2, 2 }));
  array one = s.put(ints{ 1, 1 }, { 2 });
  CHECK(ok(dynamic_slice(x, one, { 1, 2 }), { 4, 5 }));
  CHECK(ok(dynamic_update_slice(x, s.full(9, TSR_F64, { 1, 2 }), one), { 0, 1, 2, 3, 9, 9 }));
  CHECK(ok(diff(x), { 1, 1, 1, 1 }) && ok(diff(x, 1, 0), { 3, 3, 3 }));
  CHECK(ok(tril(x), { 0, 0, 0, 3, 4, 0 }) && ok(triu(x, 1), { 0, 1, 2, 0, 0, 5 }));
  CHECK(ok(diag(x), { 0, 4 }) && ok(diag(counts), { 0, 0, 0, 2 }));
}

static void indexing(const tessera::scope &s, tsr_sharding on)
{
  array x = s.put(reals{ 0, 1, 2, 3, 4, 5 }, { 3, 2 }, on), i = s.put(ints{ 2, -3, 7 }, { 3 });
  tsr_take_args clamp = {};
  clamp.mode = TSR_INDEX_CLAMP;
  CHECK(ok(take(x, i, 0, clamp), { 4, 5, 0, 1, 4, 5 }));
  CHECK(ok(take_along_dim(x, argsort(-x, 1), 1), { 1, 0, 3, 2, 5, 4 }));
  array j = s.put(ints{ 1, 0 }, { 2 }), k = s.put(ints{ 2, 0 }, { 2 });
  CHECK(ok(gather(x, { k, j }), { 5, 0 }) && ok(scatter(x, j, 9, 0), { 9, 9, 9, 9, 4, 5 }));
  CHECK(ok(scatter(x, s.put(ints{ 0, 0 }, { 2 }), 1, 0, TSR_SCATTER_ADD), { 2, 3, 2, 3, 4, 5 }));
  CHECK(ok(scatter_nd(x, 7, { k, j }), { 7, 1, 2, 3, 4, 7 }));
  array row = s.put(ints{ 3, 0, 3, 1 }, { 4 }, on);
  CHECK(ok(select({ row == 3, row == 1 }, { row * 10, row }, -1), { 30, -1, 30, 1 }));
  std::vector<array> where = nonzero_dims(x > 2, 3);
  CHECK(where.size() == 2 && ok(where[0], { 1, 2, 2 }) && ok(where[1], { 1, 0, 1 }));
  CHECK(ok(gather(x, where), { 3, 4, 5 }) && ok(nonzero_dims(row, 4, -1)[0], { 0, 2, 3, -1 }));
  CHECK(ok(compress(row, row > 0, 3), { 3, 3, 1 }) && ok(nonzero(row, 4, -1), { 0, 2, 3, -1 }));
  tessera::unique_parts found = unique(row, 3);
  CHECK(ok(found.values, { 0, 1, 3 }) && ok(found.counts, { 1, 1, 2 }));
  CHECK(ok(found.index, { 1, 3, 0 }) && ok(found.inverse, { 2, 0, 2, 1 }));
  array steps = s.put(ints{ 0, 1, 3 }, { 3 });
  CHECK(ok(searchsorted(steps, row), { 2, 0, 2, 1 }) &&
        ok(searchsorted(steps, row, true), { 3, 1, 3, 2 }));
  CHECK(ok(digitize(row, steps), { 3, 1, 3, 2 }) && isin(row, steps).count().value() == 4);
  CHECK(ok(interp(s.put(reals{ 0.5, 2 }, { 2 }), steps, steps * 2), { 1, 4 }));
  CHECK(ok(one_hot(row, 2), { 0, 0, 1, 0, 0, 0, 0, 1 }) && ok(bincount(row, 4), { 1, 1, 0, 2 }));
  CHECK(ok(bincount(row, 4, row * 2), { 0, 2, 0, 12 }));
  tsr_histogram_args bins = {};
  bins.bins = 3;
  tessera::histogram_parts made = histogram(row, bins);
  CHECK(ok(made.counts, { 1, 1, 2 }) && ok(made.edges, { 0, 1, 2, 3 }));
}

static void order(const tessera::scope &s, tsr_sharding on)
{
  array x = s.put(ints{ 3, 1, 2, 4 }, { 4 }, on);
  CHECK(ok(sort(x), { 1, 2, 3, 4 }) && ok(sort(x, 0, true), { 4, 3, 2, 1 }));
  CHECK(ok(argsort(x), { 1, 2, 0, 3 }) && ok(lexsort({ x, x % 2 }), { 2, 3, 1, 0 }));
  CHECK(ok(top_k(x, 2), { 4, 3 }) && ok(arg_top_k(x, 2), { 3, 0 }));
  CHECK(partition(x, 1).read<std::int64_t>()[1] == 2 &&
        argpartition(x, 0).read<std::int64_t>()[0] == 1);
  CHECK(ok(cumsum(x, 0), { 3, 4, 6, 10 }) && ok(cumsum(x, 0, true), { 10, 7, 6, 4 }));
  CHECK(ok(cumprod(x, 0), { 3, 3, 6, 24 }) && ok(cummax(x, 0), { 3, 3, 3, 4 }));
  CHECK(ok(cummin(x, 0), { 3, 1, 1, 1 }) && ok(nancumprod(x, 0), { 3, 3, 6, 24 }));
  CHECK(ok(nancumsum(s.put(reals{ 1, NAN, 2 }, { 3 }), 0), { 1, 1, 3 }));
}

static void products(const tessera::scope &s, tsr_sharding on)
{
  array a = s.put(reals{ 1, 2, 3, 4 }, { 2, 2 }, on), v = s.put(reals{ 1, 10 }, { 2 });
  CHECK(ok(matmul(a, v), { 21, 43 }) && ok(dot(a, a), { 7, 10, 15, 22 }));
  CHECK(ok(inner(a, a), { 5, 11, 11, 25 }) && ok(outer(v, v), { 1, 10, 10, 100 }));
  CHECK(tensordot(a, a, 2).value() == 30 && ok(tensordot(a, a, { 0 }, { 0 }), { 10, 14, 14, 20 }));
  CHECK(ok(einsum("ij,j->i", { a, v }), { 21, 43 }) && trace(a).value() == 5);
  array small = s.put(std::vector<std::int8_t>{ 100, 100 }, { 2 });
  CHECK(dot(small, small, TSR_I32).value() == 20000 && trace(a, 1).value() == 2);
}

static void windows(const tessera::scope &s, tsr_sharding on)
{
  array x = s.put(reals{ 1, 2, 3, 4, 5, 6 }, { 1, 6, 1 }, on);
  array kernel = s.put(reals{ 1, 1 }, { 2, 1, 1 });
  tsr_conv_args two = {};
  two.stride[0] = 2;
  CHECK(ok(conv(x, kernel), { 3, 5, 7, 9, 11 }) && ok(conv(x, kernel, two), { 3, 7, 11 }));
  tsr_window_args three = {};
  three.window[1] = 3;
  CHECK(ok(reduce_window(x, TSR_WINDOW_MAX, three), { 3, 4, 5, 6 }));
  tsr_pool_args pool = {};
  pool.window[0] = 2;
  CHECK(ok(max_pool(x, pool), { 2, 4, 6 }) && ok(avg_pool(x, pool), { 1.5, 3.5, 5.5 }));
}

// What C++ owns goes in and comes out.
static void memory(const tessera::scope &s, const tessera::mesh &mesh, tsr_sharding on)
{
  int calls = 0;
  array squares = s.from_callback<double>(
      { 6 },
      [&](const tsr_box &box, double *out) {
        calls++;
        for (std::int64_t i = 0; i < box.size[0]; i++)
          out[i] = static_cast<double>((box.start[0] + i) * (box.start[0] + i));
      },
      on);
  CHECK(ok(squares, { 0, 1, 4, 9, 16, 25 }) && (calls == 1 || calls == 4));
  std::vector<std::vector<float>> parts = { { 0, 1 }, { 2, 3 }, { 4 }, { 5 } };
  CHECK(ok(s.from_shards(parts, { 6 }, mesh.on("data")), { 0, 1, 2, 3, 4, 5 }));
  CHECK(ok(s.adopt(reals{ 1, 2, 3 }, { 3 }, on), { 1, 2, 3 }));
  array x = s.put(reals{ 1, 2, 3, 4 }, { 2, 2 });
  tessera::dl_tensor old = to_dlpack(x);
  CHECK(old->tensor.ndim == 2 && old->tensor.bits == 64 && old->tensor.shape[1] == 2);
  CHECK(static_cast<double *>(old->tensor.data)[3] == 4);
  tessera::dl_versioned now = to_dlpack_versioned(x);
  CHECK(now->major == 1 && now->flags == TSR_DL_READ_ONLY);
  CHECK(ok(s.from_dlpack(std::move(old), on), { 1, 2, 3, 4 }) && !old);
  CHECK(ok(s.from_dlpack(std::move(now)), { 1, 2, 3, 4 }));
}

// Whether C's call gives the same: `values` are of the same arguments.
static bool same(const array &a, tsr_array *of_c)
{
  return array_equal(a, array(of_c)).value() == 1;
}

// A number on the left is as weak as on the right, in every operator and function.
static void left_numbers(const tessera::scope &s)
{
  using tessera::atan2;
  using tessera::fmin;
  using tessera::pow;
  const tsr_dtype dtypes[] = { TSR_I8,  TSR_I16, TSR_I32, TSR_I64,  TSR_U8,  TSR_U16,
                               TSR_U32, TSR_U64, TSR_F16, TSR_BF16, TSR_F32, TSR_F64 };
  for (tsr_dtype dtype : dtypes) {
    array x = s.full(1, dtype, { 2 });
    CHECK((1 - x).type() == (x - 1).type() && (1.5 - x).type() == (x - 1.5).type());
    CHECK((2 * x).type() == (x * 2).type() && (2.5f * x).type() == (x * 2.5f).type());
    CHECK((2 + x).type() == (x + 2).type() && (true + x).type() == (x + true).type());
    CHECK((2 / x).type() == (x / 2).type() && (2.0 / x).type() == (x / 2.0).type());
    CHECK((2 % x).type() == (x % 2).type() && (2u % x).type() == (x % 2u).type());
    CHECK(pow(2, x).type() == pow(x, 2).type() && atan2(2.0, x).type() == atan2(x, 2.0).type());
    CHECK(fmin(2, x).type() == fmin(x, 2).type() && fmin(2.0, x).type() == fmin(x, 2.0).type());
    CHECK(tessera::fma(2, x, x).type() == tessera::fma(x, 2, x).type());
    CHECK(tessera::divmod(3, x).second.type() == tessera::divmod(x, 3).second.type());
    CHECK(ok(3 - x, { 2, 2 }) && ok(tessera::where(2 > x, 5 * x, x), { 5, 5 }));
  }
  CHECK((1.0 - s.full(1, TSR_F32, { 2 })).type() == "f32[2]");
  CHECK((2 * s.full(1, TSR_I8, { 2 })).type() == "i8[2]");
  tessera::reduce_opts none;
  none.no_dims = true;
  CHECK(s.arange(1, 4).sum({}, none).shape().rank == 1 && s.arange(1, 4).sum().shape().rank == 0);
}

static void draws(const tessera::scope &s, tsr_sharding on)
{
  tsr_random_args by = {}, place = {};
  by.size = sizeof by;
  by.key = 7;
  by.shape = tessera::shape({ 40 }).raw();
  by.on = place.on = on;
  tsr_scope *raw = s.raw();
  CHECK(same(s.random_bits(7, { 40 }, place), tsr_random_bits_at(raw, &by, nullptr)));
  CHECK(same(s.uniform(7, { 40 }, place), tsr_uniform_at(raw, &by, nullptr)));
  CHECK(same(s.normal(7, { 40 }, place), tsr_normal_at(raw, &by, nullptr)));
  CHECK(same(s.exponential(2, 7, { 40 }, place), tsr_exponential_at(raw, 2, &by, nullptr)));
  CHECK(same(s.poisson(3.5, 7, { 40 }, place),
             tsr_poisson_at(raw, tsr_operand_float(3.5), &by, nullptr)));
  CHECK(same(s.gamma(0.5, 7, { 40 }, place),
             tsr_gamma_at(raw, tsr_operand_float(0.5), &by, nullptr)));
  CHECK(same(s.bernoulli(0.3, 7, { 40 }, place),
             tsr_bernoulli_at(raw, tsr_operand_float(0.3), &by, nullptr)));
  CHECK(same(s.randint(-3, 9, 7, { 40 }, place), tsr_randint_at(raw, -3, 9, &by, nullptr)));
  CHECK(same(s.truncated_normal(-1, 2, 7, { 40 }, place),
             tsr_truncated_normal_at(raw, -1, 2, &by, nullptr)));
  array chances = s.put(reals{ 0, 1, 0.3 }, { 3 });
  CHECK(
      ok(slice(s.bernoulli(chances, 7, { 9, 3 }).cast(TSR_I8).sum({ 0 }), { { 0, 2 } }), { 0, 9 }));
  array key = s.random_key(7), two = random_split(key, 2);
  CHECK(array_equal(s.uniform(key, { 40 }), s.uniform(7, { 40 })).value() == 1);
  CHECK(s.uniform(two, { 3 }).type() == "f64[2,3]");
  array folded = random_fold_in(two, 5);
  CHECK(folded.type() == "u64[2]" && array_equal(folded, two).value() == 0);
  place.dtype = TSR_F32;
  place.low = 4;
  place.high = 5;
  array some = s.uniform(7, { 40 }, place);
  CHECK(some.dtype() == TSR_F32 && some.min().value() >= 4 && some.max().value() < 5);
  array order = s.permutation(6, 7), x = s.arange(0, 6);
  CHECK(ok(sort(order), { 0, 1, 2, 3, 4, 5 }) && array_equal(shuffle(x, 7), order).value() == 1);
  CHECK(ok(sort(choice(x, 6, key)), { 0, 1, 2, 3, 4, 5 }));
  array last = s.put(reals{ 0, 0, 0, 0, 0, 1 }, { 6 });
  tsr_choice_args again = {};
  again.replace = true;
  CHECK(ok(choice(x, 3, 7, last, again), { 5, 5, 5 }) && choice(x, 9, 7, again).max().value() < 6);
  CHECK(ok(categorical(log(last), 7), { 5 }));
}

// What is run, where it lies, and what is said of it.
static void running(const tessera::scope &s, const tessera::mesh &mesh)
{
  array x = s.iota(TSR_F32, { 8 }, 0, mesh.on("data")), y = x + 1, z = cumsum(y, 0);
  CHECK(y.dump().find("%1 = %0 + 1") != std::string::npos);
  tessera::eval({ y });
  tessera::start({ z });
  z.wait();
  CHECK(z.max().value() == 36 && z.sharding().mesh == mesh.raw());
  CHECK(y.devices().find("device 3: [6:8] 2 elements") != std::string::npos);
  CHECK(y.visualize().find("CPU 3") != std::string::npos);
  array whole = y.constrain(mesh.on("-"));
  whole.start();
  whole.eval();
  CHECK(whole.type() == "f32[8]@(-)");
}

// The line and the call that is wrong are named, here too.
static void mistakes(const tessera::scope &s)
{
  array x = s.full(1, TSR_F32, { 2, 3 });
  int line = 0;
  char place[64];
  try {
    line = __LINE__ + 1;
    concat({ x, transpose(x) }, 0);
    CHECK(false);
  } catch (const tessera::error &e) {
    std::snprintf(place, sizeof place, "cxx_arrays_test.cc:%d: TSR_ESHAPE: tsr_concat", line);
    CHECK(e.status() == TSR_ESHAPE && std::strstr(e.what(), place));
  }
  try {
    split(x, 0);
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(e.status() == TSR_EARG);
  }
  try {
    roll(x, { 1, 2 }, { 0 });
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(e.status() == TSR_EARG);
  }
  try {
    s.from_shards(std::vector<reals>{ { 1, 2 }, { 3 } }, { 4 }, {});
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(e.status() == TSR_ESHAPE);
  }
  try { // what a callback throws comes through
    s.from_callback<double>({ 2 }, [](const tsr_box &, double *) { throw 17; });
    CHECK(false);
  } catch (int thrown) {
    CHECK(thrown == 17);
  }
  try {
    line = __LINE__ + 1;
    s.bernoulli(2, 7, { 3 });
    CHECK(false);
  } catch (const tessera::error &e) {
    std::snprintf(place, sizeof place, "cxx_arrays_test.cc:%d: TSR_EARG: tsr_bernoulli", line);
    CHECK(e.status() == TSR_EARG && std::strstr(e.what(), place));
  }
  try {
    to_dlpack(x, 3);
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(e.status() == TSR_EARG);
  }
  CHECK(x.sum().value() == 6);
}

int main()
{
  tessera::runtime rt("cpu:4");
  tessera::mesh mesh(rt, "data=4");
  tessera::scope s(rt);
  try {
    for (const char *spec : { "-", "data" }) {
      tsr_sharding on = mesh.on(spec);
      making(s, on);
      elements(s, on);
      reductions(s, on);
      shapes(s, on);
      indexing(s, on);
      order(s, on);
      products(s, on);
      windows(s, on);
      memory(s, mesh, on);
      left_numbers(s);
      draws(s, on);
    }
    running(s, mesh);
    mistakes(s);
  } catch (const tessera::error &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return bad != 0;
}
