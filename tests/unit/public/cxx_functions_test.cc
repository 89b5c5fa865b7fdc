// Functions in C++: bodies that are lambdas, gradients, maps, loops, trees, what bodies throw, and
// how long they live. Values were worked out on paper.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

#include <tessera.hpp>

using tessera::array;
using tessera::field;
using tessera::function;
using tessera::item;
using tessera::items;
using tessera::scope;
using reals = std::vector<double>;

static int bad = 0;

static void check(bool fine, const char *what, int line)
{
  if (fine) return;
  std::fprintf(stderr, "%s:%d: %s is false\n", __FILE__, line, what);
  bad++;
}
#define CHECK(...) check((__VA_ARGS__), #__VA_ARGS__, __LINE__)

static bool is(const array &a, std::initializer_list<double> expected)
{
  if (a.read<double>() == reals(expected)) return true;
  std::fprintf(stderr, "found %s\n", a.text().c_str());
  return false;
}

// The line of the first part, then the other parts stand in what was thrown, of a status.
static bool says(const tessera::error &e, tsr_status status, std::initializer_list<std::string> all)
{
  bool fine = e.status() == status;
  for (const std::string &part : all) fine = fine && std::strstr(e.what(), part.c_str());
  if (!fine) std::fprintf(stderr, "%s\n", e.what());
  return fine;
}

static std::string here(int line)
{
  return "cxx_functions_test.cc:" + std::to_string(line) + ": ";
}

static void trees(const scope &s)
{
  array a = s.put(reals{ 1, 2 }, { 2 }), b = s.num(5.0);
  array model = tessera::tree({ { "w", a }, { "more", tessera::tuple({ b, a }) } });
  CHECK(tessera::tree_text(model) == "(w, more: (*, *))" || tessera::is_tree(model));
  CHECK(is(field(model, "more.1"), { 1, 2 }) && is(item(item(model, 1), 0), { 5 }));
  CHECK(tessera::item_count(model) == 2 && !tessera::is_tree(a));
  CHECK(tessera::leaves(model).size() == 3 && is(tessera::leaves(model)[1], { 5 }));
  auto [w, more] = items<2>(model);
  CHECK(is(w, { 1, 2 }) && tessera::item_count(more) == 2);
  array other = tessera::tree_like(model, { b, a, a });
  CHECK(is(field(other, "w"), { 5 }));
  array sums = tessera::tree_map([](array x, array y) { return x + 2 * y; }, { model, model });
  CHECK(is(field(sums, "w"), { 3, 6 }) && is(field(sums, "more.0"), { 15 }));
  tessera::scope inner = s.nest();
  array kept = s.keep(tessera::tree({ { "x", a * 3 } }));
  CHECK(is(field(kept, "x"), { 3, 6 }));
  int line = 0;
  try {
    line = __LINE__ + 1;
    field(model, "z");
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(says(e, TSR_EARG, { here(line), "tsr_field" }));
  }
  try {
    items<3>(model);
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(says(e, TSR_EARG, { "has 2 parts, expected 3" }));
  }
}

static array free_body(const array &x)
{
  return x * x;
}

// Each form of a body, and what it returns.
static void bodies(const scope &s)
{
  array x = s.put(reals{ 1, 2, 3 }, { 3 }), y = s.put(reals{ 2, 2, 2 }, { 3 });
  double by = 10;
  function scaled(s, [by](array a) { return a * by; });
  CHECK(is(scaled(x), { 10, 20, 30 }) && is(scaled.call({ y }), { 20, 20, 20 }));
  CHECK(scaled.trace_count() == 1 && is(scaled(s.num(1.0)), { 10 }) && scaled.trace_count() == 2);
  function made(s,
                [](const scope &in, array a, array b) { return a + b + in.iota(TSR_F64, { 3 }); });
  CHECK(is(made(x, y), { 3, 5, 7 }));
  function square(s, free_body);
  CHECK(is(square(x), { 1, 4, 9 }));
  function none(s, [](const scope &in) { return in.full(7, TSR_F64, { 2 }); });
  CHECK(is(none(), { 7, 7 }));
  function two(s, [](array a, array b) { return std::pair(a - b, (a * b).sum()); });
  auto [less, dot] = items<2>(two(x, y));
  CHECK(is(less, { -1, 0, 1 }) && is(dot, { 12 }));
  function three(s, [](array a) { return std::tuple(a, a.sum(), a.max()); });
  CHECK(tessera::item_count(three(x)) == 3 && is(item(three(x), 2), { 3 }));
  function any(s, [](const scope &, const std::vector<array> &in) {
    array sum = in[0];
    for (std::size_t i = 1; i < in.size(); i++) sum = sum + in[i];
    return std::vector<array>{ sum, 1 - sum };
  });
  CHECK(is(item(any(x, y, y), 0), { 5, 6, 7 }) && is(item(any(x), 1), { 0, -1, -2 }));
  /* A function inside a body, and one that a body makes. */
  function outer(s, [&](const scope &in, array a) {
    function twice(in, [](array b) { return b + b; });
    return twice(scaled(a)) + grad(function(in, [](array b) { return (b * b).sum(); }))(a);
  });
  CHECK(is(outer(x), { 22, 44, 66 }) && is(outer(s.num(1.0)), { 22 }));
  tsr_function_args args = {};
  args.name = "cut";
  function named(s, free_body, args);
  CHECK(tessera::compile(named, { x }).text().find("cut: ") == 0);
}

static void gradients(const scope &s)
{
  array x = s.put(reals{ 1, 2 }, { 2 }), y = s.put(reals{ 3, 5 }, { 2 }), one = s.num(1.0);
  function f(s, [](array a, array b) { return (a * a * b).sum(); });
  CHECK(is(grad(f)(x, y), { 6, 20 }) && is(grad(f, { 1 })(x, y), { 1, 4 }));
  auto [by_x, by_y] = items<2>(grad(f, { 0, 1 })(x, y));
  CHECK(is(by_x, { 6, 20 }) && is(by_y, { 1, 4 }));
  auto [value, slope] = items<2>(value_and_grad(f)(x, y));
  CHECK(is(value, { 23 }) && is(slope, { 6, 20 }));
  CHECK(is(item(vjp(f)(x, y, one * 2), 1), { 12, 40 }) && is(item(jvp(f)(x, y, x), 1), { 46 }));
  CHECK(is(hvp(f)(x, y, x), { 6, 20 }));
  function parts(s, [](array a) { return a * a; });
  CHECK(is(jacobian(parts)(x), { 2, 0, 0, 4 }) && is(linearize(parts, { x })(y), { 6, 20 }));
  function ruled = custom_vjp(parts, [](array, array, array due) { return due * 100; });
  CHECK(is(ruled(x), { 1, 4 }));
  CHECK(is(grad(function(s, [=](array a) { return ruled(a).sum(); }))(x), { 100, 100 }));
  function led = custom_jvp(parts, [](array, array, array way) { return way * 10; });
  CHECK(is(item(jvp(led)(x, y), 1), { 30, 50 }));
  CHECK(is(grad(function(s, [=](array a) { return led(a).sum(); }))(x), { 10, 10 }));
  CHECK(is(grad(checkpoint(function(s, [](array a) { return exp(a - a).sum(); })))(x), { 0, 0 }));
  function kept =
      checkpoint(function(s, [](array a) { return exp(named(a - a, "none")).sum(); }), { "none" });
  CHECK(is(grad(kept)(x), { 0, 0 }));
  CHECK(is(grad(grad(function(s, [](array a) { return a * a * a; })))(one), { 6 }));
}

static void maps(const scope &s, const tessera::mesh &mesh)
{
  array x = s.put(reals{ 1, 2, 3, 4, 5, 6, 7, 8 }, { 4, 2 }, mesh.on("data"));
  array w = s.put(reals{ 10, 1 }, { 2 });
  function dot(s, [](array a, array b) { return (a * b).sum(); });
  CHECK(is(vmap(dot, { 0, TSR_UNMAPPED })(x, w), { 12, 34, 56, 78 }));
  CHECK(is(vmap(dot, { 1, 0 })(x, s.put(reals{ 1, 1, 1, 1, 0, 0, 0, 1 }, { 2, 4 })), { 16, 8 }));
  tsr_vmap_args named = {};
  named.axis = "i";
  function share(s, [](array a) { return a - pmean(a, "i"); });
  CHECK(is(vmap(share, {}, named)(w), { 4.5, -4.5 }));
  CHECK(is(pmap(function(s, [](array a) { return a.sum(); }))(x), { 3, 7, 11, 15 }));
  function sums(s, [](array a) { return tessera::psum(a, "b"); });
  CHECK(is(xmap(sums, { "b,-" }, { "" })(x), { 16, 20 }));
  array centred = shard_map(mesh,
                            [](array a) {
                              CHECK(tessera::axis_size("data") == 4 && a.shape().dims[0] == 1);
                              return a - tessera::pmean(a, "data") + tessera::axis_index("data");
                            },
                            { x }, { "data" }, { "data" });
  CHECK(is(centred, { -3, -3, 0, 0, 3, 3, 6, 6 }));
  array turned = shard_map(mesh,
                           [](array a) {
                             return tessera::ppermute(a, "data", { { 0, 1 }, { 1, 2 }, { 2, 3 } });
                           },
                           { x }, { "data" }, { "data" });
  CHECK(is(turned, { 0, 0, 1, 2, 3, 4, 5, 6 }));
}

static void loops(const scope &s)
{
  array one = s.num(1.0), xs = s.put(reals{ 1, 2, 3 }, { 3 });
  auto [last, stacked] = items<2>(
      tessera::scan([](array carry, array x) { return std::pair(carry * x, carry + x); }, one, xs));
  CHECK(is(last, { 6 }) && is(stacked, { 2, 3, 5 }));
  tsr_loop_args with = {};
  with.with = xs.raw();
  array counted = tessera::scan(
      [](array carry, array number, array more) {
        return std::pair(carry + number.cast(TSR_F64) * more.sum(), carry);
      },
      one, 3, with);
  CHECK(is(item(counted, 0), { 19 }));
  CHECK(is(tessera::fori(
               1, 5, [](array n, array c) { return c * n.cast(TSR_F64); }, one),
           { 24 }));
  double limit = 100;
  array grown = tessera::while_loop([limit](array c) { return c < limit; },
                                    [](array c) { return c * 3; }, one);
  CHECK(is(grown, { 243 }));
  auto yes = [](array a) { return a + 1; };
  auto no = [](array a) { return a - 1; };
  CHECK(is(cond(xs.sum() > 5, yes, no, { xs }), { 2, 3, 4 }) &&
        is(cond(xs.sum() < 5, yes, no, { xs }), { 0, 1, 2 }));
  array chosen = tessera::switch_case(s.num(2), { xs }, yes, no, [](array a) { return a * a; });
  CHECK(is(chosen, { 1, 4, 9 }));
  CHECK(is(tessera::associative_scan([](array a, array b) { return a * b; }, xs), { 1, 2, 6 }));
  /* A loop in a function, and its gradient. */
  function power(s, [](array a) {
    return item(tessera::scan([](array c, array n, array by) { return std::pair(c * by, n); }, a, 3,
                              [&] {
                                tsr_loop_args more = {};
                                more.with = a.raw();
                                return more;
                              }()),
                0);
  });
  CHECK(is(power(s.num(2.0)), { 16 }) && is(grad(power)(s.num(2.0)), { 32 }));
}

struct own_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class Run> static void throws_own(Run run, const char *what)
{
  try {
    run();
    CHECK(false);
  } catch (const own_error &e) {
    CHECK(!std::strcmp(e.what(), what));
  }
}

// What a body throws comes out of the call that ran it, and the next good call works.
static void throwing(const scope &s, const tessera::mesh &mesh)
{
  array x = s.put(reals{ 1, 2 }, { 2 }), seven = s.put(reals(7, 1.0), { 7 });
  int line = 0;
  function adds(s, [&](array a, array b) {
    line = __LINE__ + 1;
    return a + b;
  });
  int call = 0;
  try {
    call = __LINE__ + 1;
    adds(x, seven);
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(says(e, TSR_ESHAPE, { here(call), "the body of function", here(line), "tsr_add" }));
  }
  CHECK(is(adds(x, x), { 2, 4 }));
  function own(s, [](array a) -> array {
    if (a.shape().rank) throw own_error("mine");
    return a;
  });
  function around(s, [&](array a) { return own(a) + 1; });
  throws_own([&] { own(x); }, "mine");
  throws_own([&] { around(x); }, "mine");
  throws_own([&] { grad(around)(x); }, "mine");
  throws_own([&] { vmap(around)(s.put(reals(4, 0.0), { 2, 2 })); }, "mine");
  throws_own([&] { (void)tessera::compile(around, { x }); }, "mine");
  throws_own([&] { (void)around.text({ x }); }, "mine");
  CHECK(is(around(s.num(3.0)), { 4 }));
  auto throwing_pair = [](array, array) -> std::pair<array, array> { throw own_error("step"); };
  throws_own([&] { tessera::scan(throwing_pair, x, x); }, "step");
  auto throwing_one = [](array) -> array { throw own_error("branch"); };
  auto fine = [](array a) { return a; };
  throws_own([&] { cond(x.sum() > 0, throwing_one, fine, { x }); }, "branch");
  throws_own([&] { cond(x.sum() > 0, fine, throwing_one, { x }); }, "branch");
  throws_own([&] { tessera::while_loop(throwing_one, fine, x); }, "branch");
  throws_own([&] { tessera::tree_map(throwing_one, { x }); }, "branch");
  throws_own([&] { shard_map(mesh, throwing_one, { x }, { "" }, { "" }); }, "branch");
  function ruled = custom_vjp(function(s, [](array a) { return a.sum(); }),
                              [](array, array, array) -> array { throw own_error("rule"); });
  throws_own([&] { grad(ruled)(x); }, "rule");
  /* What is caught in a body is over. */
  function catches(s, [&](array a) {
    try {
      return own(a);
    } catch (const own_error &) {
      return a * 2;
    }
  });
  CHECK(is(catches(x), { 2, 4 }));
  /* Left behind by a call of the C interface, it is thrown by nobody else. */
  tsr_array *in = x.raw();
  tsr_call_at(own.raw(), &in, 1, "raw");
  tsr_scope_clear(s.raw());
  CHECK(is(adds(x, x), { 2, 4 }));
  try {
    adds(x, seven);
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(says(e, TSR_ESHAPE, { "tsr_add" }));
  }
  function count(s, [](array a, array) { return a; });
  try {
    count(x);
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(says(e, TSR_EARG, { "another number of arrays than 1" }));
  }
  try {
    tsr_function_args args = {};
    args.in_specs[0] = "what";
    function spec(s, fine, args);
    spec(x);
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(e.status() != TSR_OK);
  }
}

// What lambdas hold is freed with the scope that their functions were made in, and not before.
static void lifetimes(const tessera::runtime &rt)
{
  auto held = std::make_shared<double>(3);
  {
    scope s(rt);
    array x = s.num(2.0);
    function slope = [&] {
      function f(s, [held](array a) { return a * a * *held; });
      return grad(f);
    }();
    CHECK(held.use_count() == 2 && is(slope(x), { 12 }));
    {
      scope inner = s.nest();
      function g(inner, [held](array a) { return a + *held; });
      CHECK(held.use_count() == 3 && is(g(x), { 5 }));
    }
    CHECK(held.use_count() == 2);
    function outer(s, [held](const scope &in, array a) {
      function own(in, [held](array b) { return b * *held; });
      return own(a);
    });
    CHECK(is(outer(x), { 6 }) && held.use_count() == 4);
    tessera::fori(
        0, 2, [held](array, array c) { return c + *held; }, x)
        .eval();
    CHECK(held.use_count() == 4 && is(slope(s.num(1.0)), { 6 }));
  }
  CHECK(held.use_count() == 1);
}

static void saving(const scope &s)
{
  array x = s.put(reals{ 1, 2 }, { 2 });
  function f(s, [](array a) { return (a * a).sum(); });
  function again = tessera::function_from_text(s, f.text({ x }));
  CHECK(is(again(x), { 5 }) && is(grad(again)(x), { 2, 4 }));
  tessera::compiled plan = tessera::compile(again, { x });
  CHECK(plan.figures().flops > 0 && is(plan.call({ x }), { 5 }));
  try {
    tessera::load_function(s, "/no/such/file.tsr");
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(says(e, TSR_EIO, { "/no/such/file.tsr" }));
  }
  try {
    f.save("/no/such/file.tsr", { x });
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(e.status() == TSR_EIO);
  }
}

int main()
{
  tessera::runtime rt("cpu:4");
  tessera::mesh mesh(rt, "data=4");
  {
    scope s(rt);
    trees(s);
    bodies(s);
    gradients(s);
    maps(s, mesh);
    loops(s);
    throwing(s, mesh);
    saving(s);
  }
  lifetimes(rt);
  return bad != 0;
}
