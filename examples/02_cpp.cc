// Arrays and frames from C++: handles that close themselves, operators, exceptions with the
// caller's line.
#include <cstdio>

#include <tessera.hpp>

static void run()
{
  tessera::runtime rt("cpu:8");
  tessera::mesh mesh(rt, "data=8");
  tessera::scope s(rt);

  std::vector<double> data(1000);
  for (std::size_t i = 0; i < data.size(); i++) data[i] = static_cast<double>(i);
  tessera::array x = s.put(data, { 1000 }, mesh.on("data"));
  tessera::array z = (x * 2 + 1) / x.mean();
  std::printf("%s sums to %g\n\n", z.type().c_str(), z.sum().value());

  tsr_csv_opts opts = {};
  opts.on = mesh.on("data");
  s.read_csv("examples/data/weather.csv", opts)
      .filter({ "temp > ? and wind_speed is not null", { 80 } })
      .assign("celsius", "(temp - 32) * 5 / 9")
      .group_agg("origin", "hours = count(), mean(celsius)")
      .print();
}

int main()
{
  try {
    run();
  } catch (const tessera::error &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
