#include "support/frame_fixture.h"

#include "base/base.h"
#include "harness.h"

void frame_open(frame_fixture *f, int mesh, frame_maker *make)
{
  static const char *const meshes[FRAME_MESHES] = { "x=1", "x=3", "x=5", "x=8", "x=2,y=2" };
  f->rt = tsr_runtime_open("cpu:8");
  f->s = tsr_scope_open(f->rt);
  f->df = make(f->s, tsr_on(tsr_mesh_make(f->rt, meshes[mesh]), "x"));
  CHECK_STR(tsr_message(f->s), "");
}

void frame_check_column(frame_fixture *f, tsr_frame *df, const char *name, const char *expected)
{
  tsr_table *table = NULL;
  tsr__text text;
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, f->s);
  tsr__text_init(&text, NULL);
  int column = tsr_table_find(table, name);
  CHECK(column >= 0);
  for (int64_t r = 0; r < tsr_table_row_count(table); r++) {
    const char *value = tsr_table_text(table, r, column);
    tsr__text_add(&text, "%s%s", r ? " " : "", value ? value : "null");
  }
  CHECK_STR(tsr__text_get(&text), expected);
  tsr__text_free(&text);
}

void frame_check_rows(frame_fixture *f, tsr_frame *df, const char *expected)
{
  tsr_table *table = NULL;
  tsr__text text;
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, f->s);
  tsr__text_init(&text, NULL);
  for (int64_t r = 0; r < tsr_table_row_count(table); r++)
    for (int c = 0; c < tsr_table_column_count(table); c++) {
      const char *value = tsr_table_text(table, r, c), *before = r ? "; " : "";
      tsr__text_add(&text, "%s%s", c ? " " : before, value ? value : "-");
    }
  CHECK_STR(tsr__text_get(&text), expected);
  tsr__text_free(&text);
}
