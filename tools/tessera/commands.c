/* The commands that make one frame of their options and call one terminal, and info and version. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

int tool_info(const tool_args *args)
{
  const char *devices = tool_value(args, OPT_DEVICES);
  tsr_runtime *rt = tool_open(args);
  if (!rt) return TOOL_FAILED;
  printf("tessera   %s\n", tsr_version());
  printf("isa       %s\n", tsr_isa(rt));
  printf("devices   %d (%s)\n", tsr_device_count(rt), devices ? devices : "cpu:1");
  tsr_memory memory = tsr_device_memory(rt, 0);
  if (memory.limit) printf("memory    %lld bytes a device\n", (long long)memory.limit);
  else printf("memory    no limit a device\n");
  tsr_runtime_close(rt);
  return TOOL_OK;
}

int tool_version(const tool_args *args)
{
  (void)args;
  tsr_plugin p;
  printf("tessera %s\n\nplugins\n", tsr_version());
  for (int i = 0; tsr_plugin_describe(i, &p); i++)
    printf("  %-12s %-45s %s%s\n", p.name, p.use,
           p.found ? "found" : "missing: ", p.found ? "" : p.packages);
  return TOOL_OK;
}

int tool_query(const tool_args *args)
{
  tsr_runtime *rt = tool_open(args);
  if (!rt) return TOOL_FAILED;
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tool_chain(s, args);
  int code = TOOL_OK;
  if (tsr_scope_status(s)) {
    code = tool_fail(s);
    /* The usual mistake is a column that a later step makes: a hint follows the message. */
    tool_note_order(args, s);
  } else if (args->count[OPT_EXPLAIN]) {
    const char *text = tsr_frame_explain(df);
    if (tsr_scope_status(s)) code = tool_fail(s);
    tool_progress_end();
    if (code == TOOL_OK) fputs(text, stdout);
  } else {
    code = tool_show(args, df, s);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return code;
}

int tool_convert(const tool_args *args)
{
  tsr_runtime *rt = tool_open(args);
  if (!rt) return TOOL_FAILED;
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tool_read_all(s, args);
  int code = tsr_scope_status(s) ? tool_fail(s) : tool_show(args, df, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return code;
}

/* ---- schema ---- */

enum { FIGURES = 4, STEP = 40 }; /* figures of a column; columns of one pass */

/* The figures of each column; the texts are owned by the frame's scope. */
typedef struct figures {
  int columns;
  int64_t *nulls, *distinct;
  const char **name, **type, **least, **most;
} figures;

static bool allocate_figures(figures *f, int columns)
{
  size_t n = (size_t)(columns ? columns : 1);
  *f = (figures){ .columns = columns,
                  .nulls = calloc(n, sizeof *f->nulls),
                  .distinct = calloc(n, sizeof *f->distinct),
                  .name = calloc(n, sizeof *f->name),
                  .type = calloc(n, sizeof *f->type),
                  .least = calloc(n, sizeof *f->least),
                  .most = calloc(n, sizeof *f->most) };
  return f->nulls && f->distinct && f->name && f->type && f->least && f->most;
}

static void free_figures(figures *f)
{
  free(f->nulls);
  free(f->distinct);
  free(f->name);
  free(f->type);
  free(f->least);
  free(f->most);
}

char *tool_put_name(char *at, const char *name)
{
  *at++ = '"';
  for (; *name; name++) {
    if (*name == '"') *at++ = '"';
    *at++ = *name;
  }
  *at++ = '"';
  return at;
}

/* "n0 = count() - count("a"), d0 = nunique("a"), l0 = min("a"), m0 = max("a"), ..." Names are
 * r<column>_<figure>, so that no column's name can clash. */
static char *aggregates(tsr_frame *df, int first, int last)
{
  static const char *const part[FIGURES] = { "count() - count(", "nunique(", "min(", "max(" };
  size_t size = 64;
  /* A name doubles in length if it holds nothing but quotes. */
  for (int c = first; c < last; c++)
    size += FIGURES * (64 + 2 * strlen(tsr_frame_column_name(df, c)));
  char *text = malloc(size), *at = text;
  if (!text) return NULL;
  for (int c = first; c < last; c++)
    for (int k = 0; k < FIGURES; k++) {
      at += sprintf(at, "%sr%d_%d = %s", at == text ? "" : ", ", c, k, part[k]);
      at = tool_put_name(at, tsr_frame_column_name(df, c));
      *at++ = ')';
    }
  *at = 0;
  return text;
}

static tsr_status find_figures(tsr_frame *df, figures *f)
{
  tsr_status status = TSR_OK;
  /* Each pass reads STEP columns of the file. */
  for (int first = 0; first < f->columns && !status; first += STEP) {
    int last = first + STEP < f->columns ? first + STEP : f->columns;
    char *text = aggregates(df, first, last);
    tsr_table *t = NULL;
    if (!text) return TSR_ENOMEM;
    status = tsr_frame_collect(tsr_frame_agg_at(df, &(tsr_formula){ .text = text }, TSR_HERE), &t);
    free(text);
    for (int c = first; c < last && !status; c++) {
      int at = (c - first) * FIGURES;
      f->name[c] = tsr_frame_column_name(df, c);
      f->type[c] = tsr_coltype_name(tsr_frame_column_type(df, c));
      f->nulls[c] = tsr_table_i64(t, 0, at);
      f->distinct[c] = tsr_table_i64(t, 0, at + 1);
      /* The texts live as long as the frame's scope and need no copy. */
      f->least[c] = tsr_table_text(t, 0, at + 2);
      f->most[c] = tsr_table_text(t, 0, at + 3);
    }
  }
  return status;
}

/* The figures as a frame, which --format and --rows show like any other frame. */
static tsr_frame *figures_frame(tsr_scope *s, const figures *f)
{
  tsr_shape shape = TSR_SHAPE(f->columns);
  tsr_frame *df =
      tsr_frame_new(s, { "nulls", tsr_put(s, f->nulls, TSR_I64, shape, (tsr_sharding){ 0 }) },
                    { "distinct", tsr_put(s, f->distinct, TSR_I64, shape, (tsr_sharding){ 0 }) });
  df = tsr_frame_text_column(df, "column", f->name, f->columns);
  df = tsr_frame_text_column(df, "type", f->type, f->columns);
  df = tsr_frame_text_column(df, "min", f->least, f->columns);
  df = tsr_frame_text_column(df, "max", f->most, f->columns);
  return tsr_frame_select(df, "column, type, nulls, distinct, min, max");
}

int tool_schema(const tool_args *args)
{
  tsr_runtime *rt = tool_open(args);
  if (!rt) return TOOL_FAILED;
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tool_read_all(s, args);
  int code = TOOL_OK;
  if (tsr_scope_status(s)) {
    code = tool_fail(s);
  } else if (args->count[OPT_QUICK]) {
    const char *text = tsr_frame_schema(df);
    tool_progress_end();
    fputs(text, stdout);
  } else {
    figures f;
    bool allocated = allocate_figures(&f, tsr_frame_column_count(df));
    tsr_status status = allocated ? find_figures(df, &f) : TSR_ENOMEM;
    /* The default of 20 rows is for data; of columns all are shown. */
    tool_args all = *args;
    if (all.rows < 0) all.rows = 0;
    if (!allocated) fprintf(stderr, "tessera: out of memory\n");
    code = !allocated || status ? TOOL_FAILED : tool_show(&all, figures_frame(s, &f), s);
    if (allocated && status) tool_fail(s);
    free_figures(&f);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return code;
}
