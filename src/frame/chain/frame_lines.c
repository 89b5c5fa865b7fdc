/* What was asked for of a frame, as one line: all that its verb was given, whatever verb it is. By
 * these lines several processes see that they work on the same chain.
 *
 *    tsr_frame_filter k > 6             a.c:12
 *    tsr_frame_sort k desc, 0 rows      a.c:13
 *
 * Nothing is asked of the verb: what a frame does not have is zero in all processes. What a source
 * holds is not looked at, but for its columns. */
#include "frame/chain/chain.h"

static void add_items(const tsr__formula *formula, const tsr__order *order, tsr__text *out)
{
  for (int i = 0; i < formula->count; i++) {
    const tsr__item *item = &formula->item[i];
    tsr__text_add(out, "%s", i ? ", " : " ");
    if (item->left && item->left != item->expr) {
      tsr__expr_print(item->left, out);
      tsr__text_add(out, " = ");
    }
    if (item->named) tsr__text_add(out, "%s = ", item->name);
    tsr__expr_print(item->expr, out);
    if (order && order[i].descending) tsr__text_add(out, " desc");
    if (order && order[i].nulls_first) tsr__text_add(out, " nulls first");
  }
}

static void add_join(const tsr__join *join, tsr__text *out)
{
  static const char *const hows[] = { "inner", "left", "semi", "anti" };
  tsr__text_add(out, " %s%s on", hows[join->how], join->unique ? " of unique rows" : "");
  for (int i = 0; i < join->key_count; i++) {
    tsr__text_add(out, "%s", i ? ", " : " ");
    tsr__expr_print(join->left[i], out);
    tsr__text_add(out, " = ");
    tsr__expr_print(join->right[i], out);
  }
  if (join->suffix) tsr__text_add(out, ", suffix '%s'", join->suffix);
}

static void add_sample(const tsr_sample_opts *sample, tsr__text *out)
{
  char share[32];
  tsr__text_f64(share, sample->fraction);
  tsr__text_add(out, " of %lld rows, a share of %s, seed %llu", (long long)sample->rows, share,
                (unsigned long long)sample->seed);
}

/* The columns of what has rows of its own; of others they follow. */
static void add_schema(const tsr__schema *schema, tsr__text *out)
{
  for (int i = 0; i < schema->count; i++)
    tsr__text_add(out, "%s%s: %d", i ? ", " : " of ", schema->field[i].name, schema->field[i].type);
}

static void add_frame(const tsr_frame *df, tsr__text *out)
{
  tsr__text_add(out, "%s", df->what);
  if (df->name) tsr__text_add(out, " '%s'", df->name);
  if (df->op) tsr__text_add(out, " by %d", df->op);
  if (df->number) {
    tsr__text_add(out, " ");
    tsr__expr_print(df->number, out);
  }
  if (df->first) tsr__text_add(out, " from row %lld on", (long long)df->first);
  if (df->count) tsr__text_add(out, " %lld rows", (long long)df->count);
  add_items(&df->formula, NULL, out);
  if (df->keys.formula.count) tsr__text_add(out, df->formula.count ? " by" : "");
  add_items(&df->keys.formula, df->keys.order, out);
  if (df->join) add_join(df->join, out);
  if (df->sample.rows || df->sample.fraction > 0) add_sample(&df->sample, out);
  if (df->to.mesh) {
    tsr__text_add(out, " on %s ", tsr_mesh_text(df->to.mesh));
    tsr__type_add(out, TSR_I64, &(tsr_shape){ .rank = 1 }, &df->to);
  }
  if (df->even) tsr__text_add(out, " evenly");
  if (tsr__verb_of(df)->rows == TSR__ROWS_SOURCE) add_schema(&df->schema, out);
  if (df->asked) tsr__text_add(out, ", options %016llx", (unsigned long long)df->asked);
}

/* A hash of a frame's line and of those that it stands on, made when it is first asked for. Frames
 * of arrays are read by many threads, and nothing is written to them. */
uint64_t tsr__frame_print(tsr_frame *df)
{
  if (df->print) return df->print;
  tsr__text line;
  tsr__text_init(&line, &df->node.scope->rt->heap);
  add_frame(df, &line);
  uint64_t print = tsr__hash(tsr__text_get(&line), line.length, 1);
  tsr__text_free(&line);
  for (int i = 0; i < tsr__frame_parent_count(df); i++) {
    uint64_t parent = tsr__frame_print(tsr__frame_parent(df, i));
    print = tsr__hash(&parent, sizeof parent, print);
  }
  if (!tsr__frame_is_source(df)) df->print = print;
  return print;
}

/* A line is one line, whatever stands in its texts. */
static void end_line(tsr__text *out, size_t began, const char *site)
{
  for (size_t i = began; i < out->length; i++)
    if (out->data[i] == '\n' || out->data[i] == '\t') out->data[i] = ' ';
  tsr__text_add(out, "\t%s\n", tsr__site_file(site));
}

/* Frames that several stand on are told once for each: only where processes differ. */
void tsr__frame_lines(const void *user, tsr__text *out)
{
  enum { MOST = 1 << 20 }; /* bytes; what lies behind them is not told */
  const tsr_frame *df = user;
  for (int i = 0; i < tsr__frame_parent_count(df) && out->length < MOST; i++)
    tsr__frame_lines(tsr__frame_parent(df, i), out);
  size_t began = out->length;
  add_frame(df, out);
  end_line(out, began, df->node.site);
}
