/* One call after another in which one process gives another parameter than the rest: an error on
 * all that names the call with its line on both sides, and afterwards all go on. */
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "support/among.h"
#include "tessera.h"

typedef struct world {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_sharding on;
  tsr_array *x;
  tsr_frame *df;
  bool me; /* the process that differs: the last one */
} world;

/* ---- arrays ---------------------------------------------------------------------------------- */

/* A call with a parameter that is another one in one process. */
typedef struct array_case {
  tsr_array *(*make)(world *w);
  const char *one, *other; /* what is said of both */
} array_case;

#define ARRAY(name, call, one, other)     \
  static tsr_array *make_##name(world *w) \
  {                                       \
    return call;                          \
  }
#define ARRAYS                                                                                   \
  ARRAY(mul, tsr_mul(w->x, w->me ? 2 : 3), "* 2", "* 3")                                         \
  ARRAY(sub, tsr_sub(w->x, w->me ? 0.5 : 0.25), "- 0.5", "- 0.25")                               \
  ARRAY(pow, tsr_pow(w->x, w->me ? 2 : 3), "", "")                                               \
  ARRAY(full, tsr_full(w->s, w->me ? 1 : 7, TSR_F64, TSR_SHAPE(8), w->on), "full(1)", "full(7)") \
  ARRAY(clip, tsr_clip(w->x, 0, w->me ? 3 : 4), "minimum(", "minimum(")                          \
  ARRAY(roll, tsr_roll(w->x, w->me ? 1 : 2, 0), "by 1", "by 2")                                  \
  ARRAY(op, w->me ? tsr_sin(w->x) : tsr_cos(w->x), "sin(", "cos(")                               \
  ARRAY(order, tsr_sort(w->x, 0, .descending = w->me), "descending", "sort(")                    \
  ARRAY(scan, tsr_cumsum(w->x, 0, .reverse = w->me), "reverse", "cumsum(")                       \
  ARRAY(slice, tsr_slice(w->x, TSR_RANGE(w->me, w->me + 7)), "1:8", "0:7")                       \
  ARRAY(where, tsr_where(tsr_gt(w->x, w->me ? 1 : 2), w->x, 0), "> 1", "> 2")                    \
  ARRAY(draw, tsr_uniform(w->s, .key = w->me ? 1 : 2, .shape = TSR_SHAPE(8), .on = w->on),       \
        ", 1, 0", ", 2, 0")                                                                      \
  ARRAY(seed,                                                                                    \
        tsr_add(w->x,                                                                            \
                tsr_cast(tsr_random_split(tsr_random_key(w->s, w->me ? 1 : 2), 8), TSR_F64)),    \
        "", "")
ARRAYS
#undef ARRAY
#define ARRAY(name, call, one, other) { make_##name, one, other },
static const array_case arrays[] = { ARRAYS };
#undef ARRAY

/* ---- frames ---------------------------------------------------------------------------------- */

typedef struct frame_case {
  tsr_frame *(*make)(world *w);
  const char *one, *other;
} frame_case;

#define FRAME(name, call, one, other)      \
  static tsr_frame *frame_##name(world *w) \
  {                                        \
    return call;                           \
  }
#define FRAMES                                                                                     \
  FRAME(filter, tsr_frame_filter(w->df, w->me ? "k > 1" : "k > 6"), "k > 1", "k > 6")              \
  FRAME(asked, tsr_frame_filter(w->df, "k > ?", w->me ? 1 : 6), "k > 1", "k > 6")                  \
  FRAME(text, tsr_frame_filter(w->df, w->me ? "t == 'a'" : "t == 'b'"), "'a'", "'b'")              \
  FRAME(assign, tsr_frame_assign(w->df, "y", w->me ? "k + 1" : "k * 2"), "k + 1", "k * 2")         \
  FRAME(name, tsr_frame_assign(w->df, w->me ? "y" : "z", "k + 1"), "'y'", "'z'")                   \
  FRAME(upper, tsr_frame_assign(w->df, "u", w->me ? "upper(t)" : "lower(t)"), "upper", "lower")    \
  FRAME(head, tsr_frame_head(w->df, w->me ? 2 : 4), "2 rows", "4 rows")                            \
  FRAME(tail, tsr_frame_tail(w->df, w->me ? 2 : 4), "2 rows", "4 rows")                            \
  FRAME(sample, tsr_frame_sample(w->df, .fraction = 0.5, .seed = w->me), "seed 1", "seed 0")       \
  FRAME(share, tsr_frame_sample(w->df, .fraction = w->me ? 0.5 : 0.25), "0.5", "0.25")             \
  FRAME(rows, tsr_frame_sample(w->df, .rows = w->me ? 2 : 3), "2 rows", "3 rows")                  \
  FRAME(sort, tsr_frame_sort(w->df, w->me ? "k desc" : "k"), "k desc", "sort k")                   \
  FRAME(key, tsr_frame_sort(w->df, w->me ? "k" : "t"), "sort k", "sort t")                         \
  FRAME(nulls, tsr_frame_sort(w->df, w->me ? "k nulls first" : "k"), "nulls first", "sort k")      \
  FRAME(top, tsr_frame_head(tsr_frame_sort(w->df, "k desc"), w->me ? 2 : 4), "2 rows", "4 rows")   \
  FRAME(agg, tsr_frame_agg(w->df, w->me ? "v = min(k)" : "v = max(k)"), "min(k)", "max(k)")        \
  FRAME(group, tsr_frame_group_agg(w->df, "t", w->me ? "v = min(k)" : "v = max(k)"), "min", "max") \
  FRAME(groups, tsr_frame_group_agg(w->df, w->me ? "t" : "k", "v = count()"), "by t", "by k")      \
  FRAME(distinct, tsr_frame_distinct(w->df, w->me ? "k" : "t"), "distinct", "distinct")            \
  FRAME(firsts, tsr_frame_group_head(w->df, "t", w->me ? 1 : 2), "1 rows", "2 rows")               \
  FRAME(join, tsr_frame_join(w->df, w->df, "k", .how = w->me ? TSR_JOIN_LEFT : TSR_JOIN_INNER),    \
        "left", "inner")                                                                           \
  FRAME(keep, tsr_frame_keep(w->s, tsr_frame_head(w->df, w->me ? 2 : 4)), "2 rows", "4 rows")      \
  FRAME(deep, tsr_frame_sort(tsr_frame_filter(w->df, w->me ? "k > 1" : "k > 2"), "k"), "k > 1",    \
        "k > 2")
FRAMES
#undef FRAME
#define FRAME(name, call, one, other) { frame_##name, one, other },
static const frame_case frames[] = { FRAMES };
#undef FRAME

/* ---- the table ------------------------------------------------------------------------------- */

static world open_world(void)
{
  static const char *const texts[] = { "a", "b", "a", "c", "b", "a", "c", "b" };
  world w = { .rt = among_open(2) };
  w.s = tsr_scope_open(w.rt);
  w.on = tsr_on(tsr_mesh_default(w.rt, "x"), "x");
  w.me = test_process() == test_process_count() - 1;
  w.x = tsr_iota(w.s, TSR_F64, TSR_SHAPE(8), 0, w.on);
  w.df = tsr_frame_text_column(tsr_frame_new(w.s, { "k", w.x }), "t", texts, 8);
  CHECK_STATUS(tsr_eval(&w.x, 1), TSR_OK, w.s);
  return w;
}

/* Both sides stand in what each process says, with the line of this file. */
static void differs(world *w, tsr_status status, const char *one, const char *other)
{
  double sum = 0;
  const char *text = tsr_message(w->s);
  CHECK_STATUS(status, TSR_EPEER, w->s);
  CHECK_STR_HAS(text, "processes run different programs: process ");
  CHECK_STR_HAS(text, one);
  CHECK_STR_HAS(text, other);
  const char *site = strstr(text, "alike_test.c:");
  const char *first = site ? strstr(site + 1, "alike_test.c:") : NULL;
  CHECK(first && strstr(text, ", process "));
  tsr_scope_clear(w->s);
  CHECK_STATUS(tsr_read_scalar(tsr_sum(w->x), &sum), TSR_OK, w->s);
  CHECK(sum == 28);
}

static void arrays_that_differ(void)
{
  world w = open_world();
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    double out[8] = { 0 };
    tsr_array *a = arrays[i].make(&w);
    tsr_status status = tsr_read(a, out, (size_t)tsr_shape_of(a).dims[0] * sizeof *out);
    differs(&w, status, arrays[i].one, arrays[i].other);
  }
  tsr_scope_close(w.s);
  tsr_runtime_close(w.rt);
}

AMONG_2_AND_4(arrays_that_differ, arrays_that_differ)

static void frames_that_differ(void)
{
  world w = open_world();
  for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
    tsr_frame *df = frames[i].make(&w);
    const char *text = NULL;
    tsr_status status = tsr_scope_status(w.s);
    if (!status) status = tsr_frame_text_into(df, NULL, &text);
    differs(&w, status, frames[i].one, frames[i].other);
  }
  tsr_scope_close(w.s);
  tsr_runtime_close(w.rt);
}

AMONG_2_AND_4(frames_that_differ, frames_that_differ)

/* What is said of calls of processes. */
static void calls_that_differ(void)
{
  world w = open_world();
  char out[8 * sizeof(double)];
  double one = 1;
  tsr_array *own = tsr_put(w.s, &one, TSR_F64, TSR_SCALAR, (tsr_sharding){ 0 });
  CHECK(tsr_is_inert(tsr_process_broadcast(own, .root = w.me)));
  differs(&w, tsr_scope_status(w.s), "of process 1", "of process 0");
  differs(&w, tsr_read_root(w.x, w.me, out, sizeof out), "of process 1", "of process 0");
  differs(&w, tsr_process_meet(w.s, w.me ? "here" : "there"), "'here'", "'there'");
  tsr_scope_close(w.s);
  tsr_runtime_close(w.rt);
}

AMONG_2_AND_4(calls_that_differ, calls_that_differ)

/* One process gives an array up for a program that the others keep it in. */
TEST_PROCESSES(what_one_gives_up, 2)
{
  world w = open_world();
  double out[8];
  tsr_array *a = tsr_mul(w.x, 3);
  CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, w.s);
  tsr_array *b = tsr_add(a, 1);
  if (w.me) tsr_donate(a);
  differs(&w, tsr_read(b, out, sizeof out), "reuses the memory of 1 donated arrays",
          "reuses the memory of 0 donated arrays");
  tsr_scope_close(w.s);
  tsr_runtime_close(w.rt);
}

/* Numbers of what is each process's own may differ, also beside what is all processes'. */
TEST_PROCESSES(own_numbers, 2)
{
  world w = open_world();
  double one = 1, out = 0;
  tsr_array *own = tsr_put(w.s, &one, TSR_F64, TSR_SCALAR, (tsr_sharding){ 0 });
  tsr_array *both[] = { tsr_mul(own, test_process() + 1), tsr_mul(w.x, 2) };
  CHECK_STATUS(tsr_eval(both, 2), TSR_OK, w.s);
  CHECK_STATUS(tsr_read_scalar(both[0], &out), TSR_OK, w.s);
  CHECK(out == test_process() + 1);
  CHECK_STATUS(tsr_read_scalar(tsr_sum(both[1]), &out), TSR_OK, w.s);
  CHECK(out == 56);
  tsr_scope_close(w.s);
  tsr_runtime_close(w.rt);
}

/* Pipelines that one process opens otherwise. */
typedef struct pipeline_case {
  tsr_pipeline *(*open)(world *w);
} pipeline_case;

#define PIPELINE(name, call)                        \
  static tsr_pipeline *open_##name(world *w)        \
  {                                                 \
    tsr_source *range = tsr_source_range(w->s, 64); \
    return call;                                    \
  }
#define PIPELINES                                                                                  \
  PIPELINE(size, tsr_pipeline_open(range, .batch_size = w->me ? 8 : 16, .on = w->on))              \
  PIPELINE(seed,                                                                                   \
           tsr_pipeline_open(range, .batch_size = 8, .shuffle = true, .seed = w->me, .on = w->on)) \
  PIPELINE(shuffle, tsr_pipeline_open(range, .batch_size = 8, .shuffle = w->me, .on = w->on))      \
  PIPELINE(epochs,                                                                                 \
           tsr_pipeline_open(range, .batch_size = 8, .epochs = w->me ? 2 : 3, .on = w->on))        \
  PIPELINE(rest, tsr_pipeline_open(range, .batch_size = 24,                                        \
                                   .remainder = w->me ? TSR_DROP : TSR_PAD_AND_MASK, .on = w->on)) \
  PIPELINE(bad, tsr_pipeline_open(range, .batch_size = 8, .bad = TSR_BAD_MASK,                     \
                                  .bad_most = w->me ? 2 : 3, .on = w->on))                         \
  PIPELINE(place, tsr_pipeline_open(range, .batch_size = 8,                                        \
                                    .on = w->me ? w->on : tsr_on(w->on.mesh, "-")))                \
  PIPELINE(source, tsr_pipeline_open(tsr_source_shuffle(range, .seed = w->me), .batch_size = 8,    \
                                     .on = w->on))
PIPELINES
#undef PIPELINE
#define PIPELINE(name, call) { open_##name },
static const pipeline_case pipelines[] = { PIPELINES };
#undef PIPELINE

TEST_PROCESSES(pipelines_that_differ, 2)
{
  world w = open_world();
  for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
    tsr_pipeline *p = pipelines[i].open(&w);
    tsr_status status = tsr_scope_status(w.s);
    CHECK(status != TSR_OK);
    CHECK_STR_HAS(tsr_message(w.s), "opens another pipeline");
    CHECK(tsr_pipeline_close(p) != TSR_OK);
    tsr_scope_clear(w.s);
  }
  tsr_scope_close(w.s);
  tsr_runtime_close(w.rt);
}
