/* Explanations of frames, whole texts: wording is API. Estimates before a terminal ran, counts
 * after; what is not needed is not there. */
#include "tessera.h"

#include "frame/out/out.h"
#include "harness.h"
#include "support/join_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 100 };

struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_frame *df; /* k: 0 .. 99, v: k / 4 who: ann bob null; over 8 devices */
};

static void open_fixture(struct fixture *f, const tsr_allocator *allocator)
{
  int64_t k[N];
  double v[N];
  const char *who[N];
  for (int i = 0; i < N; i++) {
    k[i] = i;
    v[i] = i / 4.0;
    who[i] = i % 3 == 0 ? "ann" : i % 3 == 1 ? "bob" : NULL;
  }
  f->rt = tsr_runtime_open("cpu:8", .allocator = allocator, .threads = 1);
  f->s = tsr_scope_open(f->rt);
  tsr_sharding at = tsr_on(tsr_mesh_make(f->rt, "data=8"), "data");
  f->df = tsr_frame_new(f->s, { "k", tsr_put_at(f->s, k, TSR_I64, TSR_SHAPE(N), at, "k.c:1") },
                        { "v", tsr_put_at(f->s, v, TSR_F64, TSR_SHAPE(N), at, "v.c:1") });
  f->df = tsr_frame_text_column(f->df, "who", who, N);
}

static tsr_frame *filtered(struct fixture *f)
{
  return tsr_frame_filter_at(f->df, TSR_FORMULA("v > ? and who == 'ann'", 5), "a.c:1");
}

static void collect(tsr_frame *df)
{
  tsr_table *table = NULL;
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, df->node.scope);
}

/* A filter, a derived column and aggregates: before and after they ran. */
TEST(one_pass)
{
  struct fixture f;
  open_fixture(&f, NULL);
  tsr_frame *df = tsr_frame_assign(filtered(&f), "unused", "k * 2");
  df = tsr_frame_assign(df, "r", "v / k");
  df = tsr_frame_agg_at(df, TSR_FORMULA("n = count(), total = sum(v), mean(r)"), "a.c:4");
  static const char program[] =
      "\n"
      "steps 3 to 5 in one pass over memory:\n"
      "    all-reduce over data=8: 4088 bytes\n"
      "        because count at a.c:4 reduces sharded dims of %6 "
      "bool[100]@(data), sum\n"
      "            at a.c:4 those of %0 f64[100]@(data) and mean at a.c:4 those of %11\n"
      "            f64[100]@(data); 3 partial results travel together\n"
      "    kernel 1 over bool[100]@(data): reads 4 arrays (2016 bytes), stores 0,\n"
      "        reduces 3, in one pass\n";
  char expected[3000];
  snprintf(expected, sizeof expected, "%s%s%s",
           "step                                  rows in   rows out   bytes in  bytes out\n"
           "1 arrays                                             100                  1600\n"
           "    columns k, v (2 of 2), (data) on data=8\n"
           "2 text column who                         100        100       1600       2016\n"
           "3 filter v > 5 and who == 'ann'           100         ~3       2016        ~48\n"
           "4 assign r = v / k                         ~3         ~3        ~48        ~48\n"
           "5 aggregate n = count(), total =           ~3          1        ~48         24\n"
           "    sum(v), mean(r)\n",
           program, "\n~ estimated; steps that a terminal has run are counted\n");
  CHECK_STR(tsr_frame_explain(df), expected);
  collect(df);
  snprintf(expected, sizeof expected, "%s%s",
           "step                                  rows in   rows out   bytes in  bytes out\n"
           "1 arrays                                             100                  1600\n"
           "    columns k, v (2 of 2), (data) on data=8\n"
           "2 text column who                         100        100       1600       2016\n"
           "3 filter v > 5 and who == 'ann'           100         27       2016        432\n"
           "4 assign r = v / k                         27         27        432        432\n"
           "5 aggregate n = count(), total =           27          1        432         24\n"
           "    sum(v), mean(r)\n",
           program);
  CHECK_STR(tsr_frame_explain(df), expected);
  CHECK_STR(tsr_message(f.s), "");
  tsr_runtime_close(f.rt);
}

/* Rows that a step must make cut the plan: what stands on them is planned once they are there. */
TEST(steps_that_make_rows)
{
  struct fixture f;
  open_fixture(&f, NULL);
  tsr_frame *sorted = tsr_frame_sort(tsr_frame_assign(filtered(&f), "z", "k * 2"), "v desc, who");
  tsr_frame *head = tsr_frame_head(sorted, 5);
  tsr_frame *df = tsr_frame_assign(head, "w", "z + 1");
  const char *text = tsr_frame_explain(df);
  CHECK_STR_HAS(text, "5 top 5 by v desc, who                     ~3         ~3");
  CHECK_STR_HAS(text, "steps 3 to 4 in one pass over memory:\n    nothing moves between devices\n");
  CHECK_STR_HAS(text, "\nsteps 6 to 7: planned when step 5 has its rows\n");
  sorted = head->parent; /* what is made: no more than the head asks for */
  CHECK(!sorted->making.done);
  count_copies(f.rt);
  collect(df);
  tsr_run_stats ran = tsr_last_run(f.s);
  CHECK(ran.programs >= 2 && ran.kernels >= ran.programs);
  CHECK(ran.bytes_counted > 0);
  CHECK_I64(ran.bytes_counted, copied_bytes());
  text = tsr_frame_explain(df);
  CHECK_STR_HAS(text, "3 filter v > 5 and who == 'ann'           100         27");
  CHECK_STR_HAS(text, "5 top 5 by v desc, who                     27          5");
  CHECK_STR_HAS(text, "6 first 5                                   5          5");
  CHECK_STR_HAS(text, "steps 6 to 7 in one pass over memory:\n");
  CHECK(!strstr(text, "planned when") && !strchr(text, '~'));
  char line[200];
  const tsr__rel_stats *stats = &sorted->making.stats;
  CHECK(stats->move_count > 0 && stats->move[0].bytes > 0);
  for (int i = 0; i < stats->move_count; i++) {
    snprintf(line, sizeof line, "    exchange: %s, %lld rows, %lld bytes\n", stats->move[i].what,
             (long long)stats->move[i].rows, (long long)stats->move[i].bytes);
    CHECK_STR_HAS(text, line);
  }
  tsr_runtime_close(f.rt);
}

TEST(groups_of_few_keys)
{
  struct fixture f;
  open_fixture(&f, NULL);
  tsr_frame *groups = tsr_frame_group_agg(f.df, "who, odd = k % 2", "n = count(), sum(v)");
  tsr_frame *df = tsr_frame_filter(groups, "n > 10");
  const char *text = tsr_frame_explain(df);
  CHECK_STR_HAS(text, "3 group by who, odd = k % 2: n =   ");
  CHECK_STR_HAS(text, "\n    count(), sum(v)\n");
  CHECK_STR_HAS(text, "\nstep 4: planned when step 3 has its rows\n");
  collect(df);
  text = tsr_frame_explain(df);
  CHECK_STR_HAS(text, "    by groups of rows");
  CHECK_STR_HAS(text, "    exchange: ");
  CHECK_STR_HAS(text, "3 group by who, odd = k % 2: n =          100          6");
  CHECK_STR_HAS(text, "4 filter n > 10                             6          6");
  tsr_runtime_close(f.rt);
}

/* Joins name their two steps; a frame that two steps stand on is one step. */
TEST(plans_that_are_no_chain)
{
  struct fixture f;
  open_fixture(&f, NULL);
  tsr_frame *kept = filtered(&f);
  tsr_frame *means = tsr_frame_group_agg(kept, "who", "m = mean(v)");
  tsr_frame *df = tsr_frame_join(kept, means, "who");
  const char *text = tsr_frame_explain(df);
  CHECK_STR_HAS(text, "5 inner join of steps 3 and 4 on  ");
  CHECK_STR_HAS(text, "4 group by who: m = mean(v) ");
  df = tsr_frame_concat(tsr_frame_select(kept, "k"), tsr_frame_select(f.df, "k"));
  text = tsr_frame_explain(df);
  CHECK_STR_HAS(text, "5 select k, of step 2 ");
  CHECK_STR_HAS(text, "6 concat steps 4, 5 ");
  tsr_frame *numbers = tsr_frame_select(f.df, "k, v");
  df = tsr_frame_sub(numbers, tsr_frame_mean(numbers));
  text = tsr_frame_explain(df);
  CHECK_STR_HAS(text, "every column by mean ");
  CHECK_STR_HAS(text, "every column - the row of step ");
  CHECK_STR(tsr_message(f.s), "");
  tsr_runtime_close(f.rt);
}

TEST(what_nobody_needs_is_not_there)
{
  struct fixture f;
  open_fixture(&f, NULL);
  tsr_frame *df = tsr_frame_assign(f.df, "a", "k + 1");
  df = tsr_frame_select(tsr_frame_select(df, "v, a, x = v * 2, y = v * 3"), "y");
  const char *text = tsr_frame_explain(df);
  CHECK(!strstr(text, "assign") && !strstr(text, "x = v") && !strstr(text, "who"));
  CHECK_STR_HAS(text, "columns v (1 of 2)");
  CHECK_STR_HAS(text, "2 select y = v * 3 ");
  CHECK_STR_HAS(tsr_frame_explain(f.df), "\nnothing to run: the columns lie there already\n");
  CHECK_STR_HAS(tsr_frame_explain(NULL), "the frame is inert: its own call failed");
  CHECK_STR_HAS(tsr_message(f.s), "tsr_frame_explain: the frame is NULL; give one");
  tsr_scope_clear(f.s);
  CHECK_STR_HAS(tsr_frame_explain(tsr_frame_filter(f.df, "zz > 1")), "no column 'zz'");
  tsr_runtime_close(f.rt);
}

/* Long words go on in lines of their own; figures stay in their columns. */
TEST(long_steps_wrap)
{
  struct fixture f;
  open_fixture(&f, NULL);
  tsr_frame *df = tsr_frame_filter(
      f.df, "k in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18) and v < 3");
  CHECK_STR_HAS(tsr_frame_explain(df),
                "3 filter k in (1, 2, 3, 4, 5, 6,          100        ~33       2016       ~660\n"
                "    7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18) and v < 3\n");
  tsr_runtime_close(f.rt);
}

TEST(explaining_out_of_memory)
{
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  int64_t total = 1 << 30;
  for (int64_t n = 0; n <= total; n++) {
    struct fixture f;
    state = (struct test_alloc){ .fail_at = n };
    open_fixture(&f, &allocator);
    tsr_frame *df = tsr_frame_sort(tsr_frame_group_agg(filtered(&f), "who", "n = count()"), "n");
    const char *text = tsr_frame_explain(df);
    CHECK(text && *text);
    tsr_runtime_close(f.rt);
    CHECK_I64(state.live, 0);
    if (n == 0) total = state.count;
  }
  CHECK(total > 20 && total < 10000);
}

/* ---- every verb ------------------------------------------------------------------------------ */

enum { VERBS = 27 };

static tsr_frame *verb(struct fixture *f, int which)
{
  tsr_frame *some = filtered(f), *k = tsr_frame_select(some, "k, v");
  tsr_frame *means = tsr_frame_group_agg(f->df, "who", "m = mean(v)");
  switch (which) {
  case 0: return some;
  case 1: return k;
  case 2: return tsr_frame_assign(some, "z", "k + 1");
  case 3: return tsr_frame_agg(some, "mean(v)");
  case 4: return tsr_frame_agg(some, "median(v)");
  case 5: return tsr_frame_group_agg(some, "who", "mean(v)");
  case 6: return tsr_frame_group_agg(some, "k % 2, who", "median(v)");
  case 7: return tsr_frame_head(some, 3);
  case 8: return tsr_frame_limit(some, 3, 5);
  case 9: return tsr_frame_tail(some, 4);
  case 10: return tsr_frame_sample(some, .rows = 7);
  case 11: return tsr_frame_sample(some, .fraction = 0.5);
  case 12: return tsr_frame_distinct(some, "who");
  case 13: return tsr_frame_group_head(some, "k % 3", 2);
  case 14: return tsr_frame_drop_nulls(tsr_frame_filter(f->df, "v > 3"), NULL);
  case 15: return tsr_frame_with_row_index(some, "row");
  case 16: return tsr_frame_value_counts(some, "who");
  case 17: return tsr_frame_describe(some);
  case 18: return tsr_frame_concat(some, f->df);
  case 19: return tsr_frame_join(some, tsr_frame_filter(means, "m > 1"), "who");
  case 20: return tsr_frame_gather(some);
  case 21: return tsr_frame_rebalance(some);
  case 22: return tsr_frame_sort(some, "v desc");
  case 23: return tsr_frame_sub(k, tsr_frame_mean(k));
  case 24: return tsr_frame_mean(k);
  case 25: return tsr_frame_filter(tsr_frame_keep(f->s, some), "k > 30");
  default:
    return tsr_frame_agg(tsr_frame_head(tsr_frame_sort(tsr_frame_filter(some, "k > 30"), "v"), 2),
                         "max(v)");
  }
}

/* The rows out of the last step listed. */
static long long last_rows_out(const char *text)
{
  long long in = -1, out = -1;
  for (const char *line = text; line && *line >= '1' && *line <= '9'; out = in) {
    const char *next = strchr(line, '\n') + 1;
    in = strtoll(line + 45, NULL, 10);
    while (!strncmp(next, "    ", 4)) next = strchr(next, '\n') + 1;
    line = next;
  }
  return out;
}

/* What looks at the rows that a filter left says so, and is planned once they were counted. */
TEST(steps_that_count_rows_first)
{
  struct fixture f;
  open_fixture(&f, NULL);
  for (int i = 0; i < 4; i++) {
    tsr_frame *some = filtered(&f);
    tsr_frame *df = i == 0   ? tsr_frame_tail(some, 5)
                    : i == 1 ? tsr_frame_sample(some, .rows = 5)
                    : i == 2 ? tsr_frame_sample(tsr_frame_tail(some, 9), .rows = 5)
                             : tsr_frame_sample(some, .fraction = 0.5);
    int ends = i == 2 ? 5 : 4;
    char expected[100];
    CHECK_STR_HAS(tsr_frame_explain(df), ": planned when step 4 has its rows\n");
    collect(df);
    const char *text = tsr_frame_explain(df);
    CHECK(!strstr(text, "planned when") && !strchr(text, '~'));
    snprintf(expected, sizeof expected,
             "\nstep%s 4%s counted rows first; then steps 3 to %d in one", i == 2 ? "s" : "",
             i == 2 ? " to 5" : "", ends);
    if (i < 3) CHECK_STR_HAS(text, expected);
    else CHECK_STR_HAS(text, "\nsteps 3 to 4 in one pass over memory:\n");
    if (i < 3) CHECK_I64(last_rows_out(strchr(text, '\n') + 1), 5);
  }
  tsr_runtime_close(f.rt);
}

TEST(every_verb_is_measured_once_it_ran)
{
  for (int way = 0; way < 2; way++)
    for (int i = 0; i < VERBS; i++) {
      struct fixture f;
      open_fixture(&f, NULL);
      tsr_frame *df = verb(&f, i);
      bool guessed = strchr(tsr_frame_explain(df), '~') != NULL;
      CHECK_STR(tsr_message(f.s), "");
      CHECK(guessed || i == 25); /* a kept frame is counted; its filter is not yet */
      if (way == 0) collect(df);
      else CHECK_STATUS(tsr_frame_write_csv(df, test_tmp("x.csv")), TSR_OK, f.s);
      tsr_run_stats ran = tsr_last_run(f.s);
      const char *text = tsr_frame_explain(df);
      if (strchr(text, '~') || strstr(text, "planned when"))
        FAIL("verb %d is not measured:\n%s", i, text);
      tsr_run_stats still = tsr_last_run(f.s);
      CHECK_I64(still.programs, ran.programs);
      CHECK_I64(still.bytes_counted, ran.bytes_counted);
      int64_t rows = 0;
      CHECK_STATUS(tsr_frame_row_count(df, &rows), TSR_OK, f.s);
      CHECK_I64(last_rows_out(strchr(text, '\n') + 1), rows);
      tsr_runtime_close(f.rt);
    }
}

/* Every line, whatever stands in it, and however large the numbers are. */
static void check_width(const char *text)
{
  while (*text) {
    size_t length = strcspn(text, "\n");
    if (tsr__text_width(text, length) > 80) FAIL("wider than 80: %.*s", (int)length, text);
    text += length + (text[length] == '\n');
  }
}

TEST(explanations_fit_80_columns)
{
  struct fixture f;
  open_fixture(&f, NULL);
  char name[200] = "";
  while (strlen(name) < 150) strcat(name, "wörter");
  tsr_array *large = tsr_iota(f.s, TSR_I64, TSR_SHAPE(123456789012), 0, (tsr_sharding){ 0 });
  tsr_frame *df = tsr_frame_new(f.s, { "n", large });
  df = tsr_frame_filter(tsr_frame_assign(df, name, "n * 2"), "n > 3");
  const char *text = tsr_frame_explain(df);
  check_width(text);
  CHECK_STR_HAS(text, "    123457M ");
  CHECK_STR_HAS(text, "    987654M\n");
  tsr_frame *by = tsr_frame_group_agg(filtered(&f), "who, k % 2, v // 2",
                                      "n = count(), sum(v), min(k), max(k), mean(v), std(v)");
  check_width(tsr_frame_explain(by));
  check_width(tsr_frame_explain(tsr_frame_sort(by, "n desc, who")));
  collect(by);
  check_width(tsr_frame_explain(by));
  tsr_runtime_close(f.rt);
}

/* Positions that hold the same rows of a file get them from one that was read into, by copies that
 * count. */
TEST(replicas_of_a_file_are_counted)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = test_tmp("replicas.csv");
  FILE *file = fopen(path, "w");
  CHECK(file && fputs("a,b\n1,2\n3,\n5,6\n7,8\n9,1\n", file) >= 0 && !fclose(file));
  count_copies(rt);
  tsr_frame *df = tsr_frame_read_csv(s, path, .on = tsr_on(tsr_mesh_make(rt, "x=2,y=2"), "x"));
  collect(df);
  CHECK_I64(tsr_last_run(s).bytes_counted, copied_bytes());
  CHECK_I64(copied_bytes(), 2 * 5 * 8 + 2 * 1); /* two columns; bits of one, for each half */
  CHECK_STR(tsr_message(s), "");
  tsr_runtime_close(rt);
}
