// A whole program in C++: arrays, frames, and errors that name the line that caused them.
#include <cmath>
#include <cstdio>
#include <cstring>

#include <tessera.hpp>

static int bad = 0;

static void check(bool fine, const char *what, int line)
{
  if (fine) return;
  std::fprintf(stderr, "%s:%d: %s is false\n", __FILE__, line, what);
  bad++;
}
#define CHECK(...) check((__VA_ARGS__), #__VA_ARGS__, __LINE__)

// Whether what was thrown is of a status, stands at a line of this file and has a part.
static bool says(const tessera::error &e, tsr_status status, int line, const char *part)
{
  char place[64];
  std::snprintf(place, sizeof place, "cxx_face_test.cc:%d: %s", line, tsr_status_name(status));
  bool fine = e.status() == status && std::strstr(e.what(), place) && std::strstr(e.what(), part);
  if (!fine) std::fprintf(stderr, "%s: %s\n", place, e.what());
  return fine;
}

static void arrays(const tessera::runtime &rt)
{
  tessera::mesh mesh(rt, "x=2,y=2");
  tessera::scope s(rt);
  std::vector<float> data(64);
  for (int i = 0; i < 64; i++) data[static_cast<std::size_t>(i)] = static_cast<float>(i);
  tessera::array x = s.put(data, { 8, 8 }, mesh.on("x,y"));
  CHECK(x.type() == "f32[8,8]@(x,y)");
  CHECK(std::fabs(((x * 2 + 1) / x.mean()).sum().value() - 130.032) < 1e-3);
  CHECK((1 - x).min().value() == -62 && (x - x).max().value() == 0);
  CHECK((x > 31).cast(TSR_I64).sum().value() == 32);
  CHECK((x.sum({ 0 }) == x.sum({ -2 })).cast(TSR_I32).read<std::int32_t>() ==
        std::vector<std::int32_t>(8, 1));
  CHECK(exp(x * 0).sum().value() == 64 && pow(x, 2).max().value() == 63 * 63);
  CHECK((-x).min().value() == -63 && maximum(x, 60).min().value() == 60);
  CHECK(((x > 3) ^ (x > 5)).cast(TSR_I64).sum().value() == 2);
  std::vector<double> rows = x.sum({ 1 }).read<double>();
  CHECK(rows.size() == 8 && rows[0] == 28);
  {
    tessera::scope inner = s.nest();
    tessera::array seven = inner.put(std::vector<double>(7, 1.0), { 7 });
    int line = 0;
    try {
      line = __LINE__ + 1;
      x + seven;
      CHECK(false);
    } catch (const tessera::error &e) {
      CHECK(says(e, TSR_ESHAPE, line, "tsr_add"));
    }
    try {
      line = __LINE__ + 1;
      seven.value();
      CHECK(false);
    } catch (const tessera::error &e) {
      CHECK(
          says(e, TSR_ESHAPE, line, "tsr_read_scalar: the array is f64[7], expected one element"));
    }
    CHECK(seven.sum().value() == 7);
  }
  CHECK(x.max().value() == 63);
  tessera::scope here = s.nest();
  tessera::array next = here.keep(x.max());
  std::int64_t nodes = tsr_scope_node_count(s.raw());
  for (int i = 0; i < 3; i++) {
    tessera::array more = next + 1;
    tessera::scope after = s.nest();
    next = after.keep(more);
    here.swap(after); // what was made goes with `after`, what is kept stays
  }
  CHECK(next.value() == 66 && tsr_scope_node_count(s.raw()) == nodes);
  tessera::reduce_opts opts;
  tessera::array large = x > 31;
  opts.where = &large;
  CHECK(x.count({}, opts).value() == 32 && x.min({}, opts).value() == 32);
  opts.keep_dims = true;
  CHECK(x.sum({ 1 }, opts).type() == "f32[8,1]");
  tessera::reduce_opts sample;
  sample.ddof = 1;
  tessera::array four = s.put(std::vector<double>{ 1, 2, 3, 4 }, { 4 });
  CHECK(four.var().value() == 1.25 && std::fabs(four.var({}, sample).value() * 3 - 5) < 1e-15);
  CHECK(four.prod().value() == 24 && four.text() == "[1. 2. 3. 4.]");
  CHECK(x.reshard(mesh.on("-,x")).explain().find("all-to-all") != std::string::npos);
}

static void frames(const tessera::runtime &rt)
{
  tessera::mesh mesh(rt, "data=4");
  tessera::scope s(rt);
  tessera::array k = s.put(std::vector<std::int64_t>{ 0, 1, 2, 3, 4, 5 }, { 6 }, mesh.on("data"));
  tessera::array v = s.put(std::vector<double>{ 1, 2, 4, 8, 16, 32 }, { 6 });
  tsr_column columns[] = { { "k", k.raw() }, { "v", v.raw() } };
  tessera::frame df(tsr_frame_new_at(s.raw(), columns, 2, "here"));
  tessera::frame kept = df.filter({ "k >= ? and v < ?", { 2, 20.5 } }).assign("w", "v * 2");
  CHECK(kept.row_count() == 3);
  tessera::table t = kept.sort("v desc").collect();
  CHECK(t.row_count() == 3 && t.f64(0, 2) == 32 && t.values<std::int64_t>(0)[2] == 2);
  CHECK(t.text_view(0, 0) == "4" && t.text(0, 0) == "4");
  CHECK(kept.text().find("3 rows, 3 columns") != std::string::npos);
  CHECK(kept.explain().find("filter") != std::string::npos);
  CHECK(df.group_agg("odd = k % 2", "total = sum(v)").collect().f64(1, 1) == 42);
  CHECK((df * 2 + df).column("v").sum().value() == 189);
  int line = 0;
  try {
    line = __LINE__ + 1;
    df.filter("nothing > 1");
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(says(e, TSR_ECOLUMN, line, "no column 'nothing'"));
  }
  try {
    line = __LINE__ + 1;
    s.read_csv("no/such/file.csv");
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(says(e, TSR_EIO, line, "no/such/file.csv"));
  }
  try {
    tessera::frame large = df.assign("z", "k + 9223372036854775807");
    line = __LINE__ + 1;
    large.collect();
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(says(e, TSR_EVALUE, line, ""));
  }
}

int main()
{
  tessera::runtime rt("cpu:4");
  arrays(rt);
  frames(rt);
  try {
    tessera::runtime none("gpu:what");
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(e.status() != TSR_OK && std::strlen(e.what()) > 0);
  }
  try {
    tessera::mesh none(rt, "x=99");
    CHECK(false);
  } catch (const tessera::error &e) {
    CHECK(e.status() != TSR_OK);
  }
  return bad != 0;
}
