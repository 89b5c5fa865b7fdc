// A network trained in C++: the same bits as the program in C (tests/support/mlp_program.c), on
// eight devices.
#include <cstdio>
#include <cstring>

#include <tessera.hpp>

#include "support/mlp_program.h"

using tessera::array;
using tessera::field;
using tessera::function;
using tessera::items;
using tessera::scope;

static array layer(const array &of, const array &x)
{
  return matmul(x, field(of, "w")) + field(of, "b");
}

static array scores(const array &model, const array &x)
{
  return layer(field(model, "two"), relu(layer(field(model, "one"), x)));
}

static array new_layer(const scope &s, int key, std::int64_t in, std::int64_t out, tsr_sharding on)
{
  tsr_random_args more = {};
  more.dtype = TSR_F32;
  more.on = on;
  array w = initial(s, TSR_HE, TSR_INITIAL_TRUNCATED, key, { in, out }, more);
  return tessera::tree({ { "w", w }, { "b", s.full(0, TSR_F32, { out }, on) } });
}

// Trains, and gives the share of pictures that are known in the end.
static double train(const tessera::runtime &rt, const tessera::mesh &mesh,
                    const mlp_pictures &pictures, mlp_trained *out)
{
  scope s(rt);
  tsr_sharding rows = mesh.on("data"), whole = mesh.on("");
  array x = s.put(std::vector<float>(pictures.pixels, pictures.pixels + MLP_IMAGES * MLP_PIXELS),
                  { MLP_IMAGES, MLP_PIXELS }, rows);
  array digits = s.put(std::vector<std::int32_t>(pictures.digits, pictures.digits + MLP_IMAGES),
                       { MLP_IMAGES }, rows);
  array model = tessera::tree({ { "one", new_layer(s, 1, MLP_PIXELS, MLP_HIDDEN, whole) },
                                { "two", new_layer(s, 2, MLP_HIDDEN, MLP_CLASSES, whole) } });
  array kept = adam_state(model);

  function loss(s, [](array m, array images, array truth) {
    return cross_entropy(scores(m, images), truth).mean();
  });
  function slope = value_and_grad(loss);
  function step(s, [slope](array m, array state, array images, array truth) {
    auto [value, by] = items<2>(slope(m, images, truth));
    auto [next, after] = adam(m, by, state, 1e-2);
    return std::tuple(next, after, value);
  });
  for (float &now : out->loss) {
    auto [next, after, value] = items<3>(step(model, kept, x, digits));
    now = static_cast<float>(value.value());
    model = next, kept = after;
  }
  float *at = out->weights;
  for (const array &leaf : leaves(model))
    for (float w : leaf.read<float>()) *at++ = w;
  return (scores(model, x).argmax({ 1 }) == digits).cast(TSR_F64).mean().value();
}

// Plain gradient descent by hand and with the optimiser, rates and limits: the same numbers.
static int optimisers(const tessera::runtime &rt)
{
  scope s(rt);
  array w = s.put(std::vector<double>{ 1, 2 }, { 2 }), model = tessera::tree({ { "w", w } });
  array slope = tessera::tree({ { "w", s.put(std::vector<double>{ 30, 40 }, { 2 }) } });
  auto [next, kept] = sgd(model, slope, sgd_state(model), 0.5);
  tsr_schedule_args plan = {};
  plan.rate = 0.25;
  auto [last, end] =
      sgd(next, slope, kept, schedule(field(kept, "step"), TSR_SCHEDULE_CONSTANT, plan));
  bool good = field(next, "w").read<double>() == std::vector<double>{ -14, -18 } &&
              field(last, "w").read<double>() == std::vector<double>{ -21.5, -28 } &&
              field(end, "step").value() == 2 && global_norm(slope).value() == 50 &&
              field(clip_norm(slope, 5), "w").read<double>() == std::vector<double>{ 3, 4 };
  array seen = metric_add(metric_start(s), field(slope, "w"));
  good = good && metric_of(metric_join(seen, seen), TSR_METRIC_MEAN).value() == 35;
  if (!good) std::fprintf(stderr, "the optimisers differ from what was worked out on paper\n");
  return !good;
}

int main()
{
  static mlp_pictures pictures;
  static mlp_trained here, there;
  tessera::runtime rt("cpu:8");
  tessera::mesh mesh(rt, "data=8");
  mlp_draw(&pictures);
  double known = train(rt, mesh, pictures, &here);
  if (mlp_train(rt.raw(), mesh.raw(), &there)) {
    std::fprintf(stderr, "the program in C failed\n");
    return 1;
  }
  std::printf("loss %g to %g, %g of the pictures are known\n", static_cast<double>(here.loss[0]),
              static_cast<double>(here.loss[MLP_STEPS - 1]), known);
  bool learnt = known > 0.95 && here.loss[MLP_STEPS - 1] < here.loss[0] / 4;
  bool same = !std::memcmp(&here, &there, sizeof here);
  if (!learnt) std::fprintf(stderr, "it did not learn\n");
  if (!same) std::fprintf(stderr, "not the bits of the program in C\n");
  return optimisers(rt) || !learnt || !same;
}
