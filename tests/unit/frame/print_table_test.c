/* Tables as people see them. */
#include "tessera.h"

#include "frame/out/out.h"
#include "harness.h"

#include <stdio.h>

struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
};

static void open_fixture(struct fixture *f)
{
  f->rt = tsr_runtime_open("cpu:4");
  f->s = tsr_scope_open(f->rt);
}

static tsr_frame *csv(struct fixture *f, const char *text)
{
  const char *path = test_tmp("box.csv");
  test_write(path, text, strlen(text));
  return tsr_frame_read_csv(f->s, path);
}

TEST(print_table_numbers)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *df = csv(&f, "x\n0.1\n0.30000000000000004\n1e-7\n1.23456789012e-7\n95020354.97167969\n"
                          "1e300\n-0.0\ninf\nnan\nNA\n123456789012.34567\n1e-320\n");
  CHECK_STR(tsr_frame_text(df), "┌──────────────────┐\n"
                                "│                x │\n"
                                "│              f64 │\n"
                                "├──────────────────┤\n"
                                "│              0.1 │\n"
                                "│              0.3 │\n"
                                "│            1e-07 │\n"
                                "│      1.23457e-07 │\n"
                                "│   95020354.97168 │\n"
                                "│           1e+300 │\n"
                                "│               -0 │\n"
                                "│              inf │\n"
                                "│              nan │\n"
                                "│             null │\n"
                                "│ 123456789012.346 │\n"
                                "│           1e-320 │\n"
                                "└──────────────────┘\n"
                                "12 rows, 1 column\n");
  tsr_runtime_close(f.rt);
}

TEST(print_table_text)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *df = csv(&f, "\"a name that is much longer than a cell may be\",ü\n"
                          "\"two\nlines\",東京\n"
                          "a value that is much longer than a cell may be as well,é\n");
  CHECK_STR(tsr_frame_text(df), "┌──────────────────────────────────┬──────┐\n"
                                "│ a name that is much longer than… │ ü    │\n"
                                "│ text                             │ text │\n"
                                "├──────────────────────────────────┼──────┤\n"
                                "│ two lines                        │ 東京 │\n"
                                "│ a value that is much longer tha… │ é    │\n"
                                "└──────────────────────────────────┴──────┘\n"
                                "2 rows, 2 columns\n");
  tsr_runtime_close(f.rt);
}

TEST(print_table_gap_only_where_rows_are_left_out)
{
  struct fixture f;
  open_fixture(&f);
  char text[200] = "n\n";
  for (int r = 0; r < 20; r++) strcat(text, "7\n");
  CHECK(!strstr(tsr_frame_text(csv(&f, text)), "…"));
  strcat(text, "8\n");
  const char *found = tsr_frame_text(csv(&f, text));
  CHECK_STR_HAS(found, "│    … │\n");
  CHECK_STR_HAS(found, "│    8 │\n└──────┘\n21 rows, 1 column\n");
  /* Groups are cut the same way. */
  tsr_frame *by = tsr_frame_group_agg(tsr_frame_assign(csv(&f, text), "k", "n"), "k", "count()");
  CHECK_STR_HAS(tsr_frame_text(by), "│    8 │       1 │\n");
  tsr_runtime_close(f.rt);
}

TEST(print_table_many_columns_and_rows)
{
  struct fixture f;
  open_fixture(&f);
  char text[9000];
  int length = 0;
  for (int c = 0; c < 100; c++) length += sprintf(text + length, "%scolumn_%d", c ? "," : "", c);
  for (int r = 0; r < 25; r++)
    for (int c = 0; c < 100; c++) length += sprintf(text + length, "%s%d", c ? "," : "\n", r);
  const char *found = tsr_frame_text(csv(&f, text));
  CHECK_STR_HAS(found, "┌──────────┬──────────┬──────────┬──────────┬──────────┬───┬───────────┬"
                       "───────────┬───────────┬───────────┐\n"
                       "│ column_0 │ column_1 │ column_2 │ column_3 │ column_4 │ … │ column_96 │ "
                       "column_97 │ column_98 │ column_99 │\n"
                       "│      i64 │      i64 │      i64 │      i64 │      i64 │ … │       i64 │ "
                       "      i64 │       i64 │       i64 │\n");
  CHECK_STR_HAS(found, "│        9 │        9 │        9 │        9 │        9 │ … │         9 │ "
                       "        9 │         9 │         9 │\n"
                       "│        … │        … │        … │        … │        … │ … │         … │ "
                       "        … │         … │         … │\n"
                       "│       15 │ ");
  CHECK_STR_HAS(found, "25 rows, 100 columns\n");
  tsr_runtime_close(f.rt);
}

TEST(print_table_options)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *df = csv(&f, "k,x\na,1\nb,\nc,3\nd,4\ne,5\n");
  CHECK_STR(tsr_frame_text_with(df, &(tsr_show_opts){ .size = sizeof(tsr_show_opts), .rows = 3 }),
            "┌──────┬──────┐\n"
            "│ k    │    x │\n"
            "│ text │  i64 │\n"
            "├──────┼──────┤\n"
            "│ a    │    1 │\n"
            "│ b    │ null │\n"
            "│ …    │    … │\n"
            "│ e    │    5 │\n"
            "└──────┴──────┘\n"
            "5 rows, 2 columns\n");
  CHECK_STR(tsr_frame_text_with(
                df, &(tsr_show_opts){ .size = sizeof(tsr_show_opts), .rows = 1, .width = 9 }),
            "┌──────┬───┐\n"
            "│ k    │ … │\n"
            "│ text │ … │\n"
            "├──────┼───┤\n"
            "│ a    │ … │\n"
            "│ …    │ … │\n"
            "└──────┴───┘\n"
            "5 rows, 2 columns\n");
  const char *coloured = tsr_frame_text_with(
      df, &(tsr_show_opts){ .size = sizeof(tsr_show_opts), .rows = -1, .colour = true });
  CHECK_STR_HAS(coloured, "\033[1mk\033[0m");
  CHECK_STR_HAS(coloured, "\033[2mnull\033[0m");
  tsr_scope_close(f.s);
  tsr_runtime_close(f.rt);
}

/* Texts and names are cut before a column is left out, the longest first, and numbers never are. */
TEST(print_table_cuts_texts_before_it_hides_columns)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *df =
      csv(&f, "who,a_number_of_many_letters,where,n,id\n"
              "somebody with a long name,1,a place that is far away,7,12345678901234567\n"
              "nobody,2,here,8,3\n");
  tsr_show_opts opts = { .size = sizeof opts, .width = 80 };
  CHECK_STR(tsr_frame_text_with(df, &opts),
            "┌────────────────┬────────────────┬────────────────┬──────┬───────────────────┐\n"
            "│ who            │ a_number_of_m… │ where          │    n │                id │\n"
            "│ text           │            i64 │ text           │  i64 │               i64 │\n"
            "├────────────────┼────────────────┼────────────────┼──────┼───────────────────┤\n"
            "│ somebody with… │              1 │ a place that … │    7 │ 12345678901234567 │\n"
            "│ nobody         │              2 │ here           │    8 │                 3 │\n"
            "└────────────────┴────────────────┴────────────────┴──────┴───────────────────┘\n"
            "2 rows, 5 columns\n");
  opts.width = 73;
  CHECK_STR_HAS(tsr_frame_text_with(df, &opts),
                "│ somebody wi… │            1 │ a place tha… │    7 │ 12345678901234567 │\n");
  opts.width = 72;
  CHECK_STR_HAS(tsr_frame_text_with(df, &opts),
                "│ somebody with a … │                 1 │ … │    7 │ 12345678901234567 │\n");
  opts.width = -1;
  CHECK_STR_HAS(tsr_frame_text_with(df, &opts), "│ somebody with a long name │ ");
  tsr_runtime_close(f.rt);
}

TEST(texts_of_frames_come_with_a_status)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  const char *text = "as it was", *untouched = text;
  tsr_array *x = tsr_iota(s, TSR_I64, TSR_SHAPE(3), 0, tsr_on(NULL, NULL));
  tsr_frame *df = tsr_frame_new(s, { "x", x }), *bad = tsr_frame_filter(df, "nothing > 1");
  CHECK_STATUS(tsr_frame_text_into(bad, NULL, &text), TSR_ECOLUMN, NULL);
  CHECK_STATUS(tsr_frame_explain_into(bad, &text), TSR_ECOLUMN, NULL);
  CHECK_STATUS(tsr_frame_devices_into(bad, &text), TSR_ECOLUMN, NULL);
  CHECK(text == untouched);
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_frame_text_into(df, NULL, &text), TSR_OK, NULL);
  CHECK_STR(text, tsr_frame_text(df));
  CHECK_STATUS(tsr_frame_devices_into(df, &text), TSR_OK, NULL);
  CHECK_STR(text, tsr_frame_devices(df));
  CHECK_STATUS(tsr_frame_explain_into(df, &text), TSR_OK, NULL);
  CHECK_STR_HAS(text, "nothing to run");
  CHECK_STATUS(tsr_frame_text_into(df, NULL, NULL), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_message(s), "print_table_test.c");
  tsr_runtime_close(rt);
}
