/* The steps of an explanation in words, nearly as they were asked for: one function for each verb,
 * found by the table of verbs.
 *
 *   w->visit    the frame, and which of its columns are needed
 *   w->from     the numbers of the steps it stands on, -1: none that is shown
 *
 * Expressions are printed from their trees, so what is shown is what was understood. Long lists are
 * cut after twelve. */
#include "frame/out/out.h"

/* ---- parts ---------------------------------------------------------------------------------- */

/* Items; of those that are columns the needed ones, unless `all`. `need` is by column of the frame,
 * of which the keys of a group come first. */
static void add_items(const tsr__visit *v, bool all, tsr__text *out)
{
  enum { MOST = 12 };
  const tsr__formula *formula = &v->df->formula;
  int used = 0, keys = tsr__frame_key_columns(v->df);
  for (int i = 0; i < formula->count; i++) {
    const tsr__item *item = &formula->item[i];
    /* Counted beyond the most, for the "and 3 more". */
    if ((!all && !v->need[keys + i]) || ++used > MOST) continue;
    tsr__text_add(out, "%s", used > 1 ? ", " : "");
    /* A name that was given; others are the text of their expression. */
    if (item->named) tsr__text_add(out, "%s = ", item->name);
    tsr__expr_print(item->expr, out);
  }
  if (used > MOST) tsr__text_add(out, " and %d more", used - MOST);
}

/* Orders are NULL where keys have none: of groups without one and of all columns. */
static void add_keys(const tsr_frame *df, tsr__text *out)
{
  const tsr__keylist *keys = &df->keys;
  for (int i = 0; i < keys->formula.count; i++) {
    const tsr__item *item = &keys->formula.item[i];
    tsr__text_add(out, "%s", i ? ", " : "");
    if (item->named) tsr__text_add(out, "%s = ", item->name);
    tsr__expr_print(item->expr, out);
    if (!keys->order) continue;
    if (keys->order[i].descending) tsr__text_add(out, " desc");
    if (keys->order[i].nulls_first) tsr__text_add(out, " nulls first");
  }
}

/* ---- sources and columns --------------------------------------------------------------------- */

static void words_arrays(const tsr__words *w, tsr__text *out)
{
  (void)w;
  tsr__text_add(out, "arrays");
}

static void words_file(const tsr__words *w, tsr__text *out)
{
  const tsr__source *source = w->visit->df->source;
  tsr__text_add(out, "read %s %s", source->reader.ops->format, source->path);
}

static void words_text(const tsr__words *w, tsr__text *out)
{
  tsr__text_add(out, "text column %s", w->visit->df->name);
}

static void words_assign(const tsr__words *w, tsr__text *out)
{
  tsr__text_add(out, "assign %s = ", w->visit->df->name);
  add_items(w->visit, true, out);
}

static void words_select(const tsr__words *w, tsr__text *out)
{
  tsr__text_add(out, "select ");
  add_items(w->visit, false, out);
}

/* Two frames, or one and a number. */
static void words_arith(const tsr__words *w, tsr__text *out)
{
  const tsr_frame *df = w->visit->df;
  tsr__text_add(out, "every column %s ", tsr__binary_name(df->op));
  if (df->number) tsr__expr_print(df->number, out);
  else if (w->from[1] >= 0)
    tsr__text_add(out, "%sstep %d", df->other->one_row ? "the row of " : "", w->from[1]);
}

static void words_index(const tsr__words *w, tsr__text *out)
{
  tsr__text_add(out, "row numbers as %s", w->visit->df->name);
}

/* ---- masks ----------------------------------------------------------------------------------- */

static void words_filter(const tsr__words *w, tsr__text *out)
{
  tsr__text_add(out, "filter ");
  add_items(w->visit, true, out);
}

static void words_head(const tsr__words *w, tsr__text *out)
{
  const tsr_frame *df = w->visit->df;
  if (df->first) tsr__text_add(out, "rows from %lld on, ", (long long)df->first);
  tsr__text_add(out, "first %lld", (long long)df->count);
}

static void words_tail(const tsr__words *w, tsr__text *out)
{
  tsr__text_add(out, "last %lld", (long long)w->visit->df->count);
}

static void words_sample(const tsr__words *w, tsr__text *out)
{
  const tsr_sample_opts *sample = &w->visit->df->sample;
  char share[32];
  tsr__text_f64(share, sample->fraction);
  if (sample->rows == 0 && sample->fraction > 0)
    tsr__text_add(out, "sample of a share of %s", share);
  else tsr__text_add(out, "sample of %lld", (long long)sample->rows);
}

static void words_firsts(const tsr__words *w, tsr__text *out)
{
  tsr__text_add(out, "first %lld of each ", (long long)w->visit->df->count);
  add_keys(w->visit->df, out);
}

/* ---- aggregates ------------------------------------------------------------------------------ */

static void words_agg(const tsr__words *w, tsr__text *out)
{
  tsr__text_add(out, "aggregate ");
  add_items(w->visit, false, out);
}

static void words_reduce(const tsr__words *w, tsr__text *out)
{
  tsr__text_add(out, "every column by %s", tsr__agg_name(w->visit->df->op));
}

static void words_group(const tsr__words *w, tsr__text *out)
{
  tsr__text_add(out, "group by ");
  add_keys(w->visit->df, out);
  tsr__text_add(out, ": ");
  add_items(w->visit, false, out);
}

static void words_describe(const tsr__words *w, tsr__text *out)
{
  (void)w;
  tsr__text_add(out, "describe");
}

/* ---- breakers -------------------------------------------------------------------------------- */

static void words_sort(const tsr__words *w, tsr__text *out)
{
  const tsr_frame *df = w->visit->df;
  /* A head that stood on it was moved into the sort. */
  if (df->count) tsr__text_add(out, "top %lld by ", (long long)df->count);
  else tsr__text_add(out, "sort by ");
  add_keys(df, out);
}

static void words_place(const tsr__words *w, tsr__text *out)
{
  tsr__text_add(out, w->visit->df->even ? "rebalance" : "place");
}

static void words_keep(const tsr__words *w, tsr__text *out)
{
  (void)w;
  tsr__text_add(out, "keep");
}

static void words_join(const tsr__words *w, tsr__text *out)
{
  static const char *const hows[] = { "inner", "left", "semi", "anti" };
  const tsr__join *join = w->visit->df->join;
  tsr__text_add(out, "%s join", hows[join->how]);
  if (w->from[0] >= 0 && w->from[1] >= 0)
    tsr__text_add(out, " of steps %d and %d", w->from[0], w->from[1]);
  tsr__text_add(out, " on ");
  for (int i = 0; i < join->key_count; i++) {
    tsr__text right;
    tsr__text_init(&right, out->heap);
    tsr__text_add(out, i ? ", " : "");
    size_t from = out->length;
    tsr__expr_print(join->left[i], out);
    /* Printed as texts they are compared: equal keys are named once. */
    tsr__expr_print(join->right[i], &right);
    bool same = right.length == out->length - from &&
                !memcmp(tsr__text_get(out) + from, tsr__text_get(&right), right.length);
    if (!same) tsr__text_add(out, " = %s", tsr__text_get(&right));
    out->failed |= right.failed;
    tsr__text_free(&right);
  }
}

static void words_concat(const tsr__words *w, tsr__text *out)
{
  tsr__text_add(out, "concat steps ");
  /* 0: a step that is not shown. */
  for (int i = 0; i < w->visit->df->part_count; i++)
    tsr__text_add(out, "%s%d", i ? ", " : "", w->from[i] > 0 ? w->from[i] : 0);
}

/* ---- the table ------------------------------------------------------------------------------- */

typedef void say(const tsr__words *words, tsr__text *out);

#define VERB(kind, rows, type, needs, origin, lies, estimate, make, bind, known, least, room, \
             words)                                                                           \
  words_##words,
/* In the order of the enumerators, which are made of the same table. */
static say *const verbs[TSR__FRAME_KINDS] = {
#include "frame/chain/verbs.def"
};
#undef VERB

void tsr__verb_words(const tsr__words *words, tsr__text *out)
{
  verbs[words->visit->df->kind](words, out);
}
