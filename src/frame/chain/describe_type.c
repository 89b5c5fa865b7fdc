/* What a description is made of: which statistics columns of a type have, and the columns of its
 * rows.
 *
 *   describe(df)    agg: rows, then a.count, a.mean, .. b.count ..     one row of all that is asked
 *                   DESCRIBE: of that row a table of nine rows         statistic | a | b
 *
 * So the frame described is two below: the AGG between is made by the same call (verbs.c). */
#include "frame/chain/chain.h"

/* COUNT, MIN and MAX are asked of columns of any type (`any`), the others of numbers. Row 1, of
 * nulls, is no aggregate: it is the number of rows less the count. */
const tsr__statistic tsr__statistics[TSR__STATISTICS] = {
  { TSR__A_COUNT, 0, true, -1 },       { TSR__A_MEAN, 2, false, -1 },
  { TSR__A_STD, 3, false, -1 },        { TSR__A_MIN, 4, true, -1 },
  { TSR__A_QUANTILE, 5, false, 0.25 }, { TSR__A_QUANTILE, 6, false, 0.5 },
  { TSR__A_QUANTILE, 7, false, 0.75 }, { TSR__A_MAX, 8, true, -1 },
};

bool tsr__describes_number(int type)
{
  return tsr__is_number(type) || type == TSR_COL_BOOL;
}

bool tsr__describes(int statistic, int type)
{
  return tsr__statistics[statistic].any || tsr__describes_number(type);
}

int tsr__describe_items(int type)
{
  int count = 0;
  for (int i = 0; i < TSR__STATISTICS; i++) count += tsr__describes(i, type);
  return count;
}

const tsr__schema *tsr__described(const tsr_frame *df)
{
  return &df->parent->parent->schema;
}

/* Numbers are told as f64 whatever they are; smallest and largest of other types as text, since one
 * column has both a count and these. */
tsr_status tsr__type_describe(tsr_frame *df, tsr__error *error)
{
  const tsr__schema *from = tsr__described(df);
  size_t bytes = ((size_t)from->count + 1) * sizeof(tsr__field);
  tsr__field *field = tsr__arena_new(&df->node.scope->arena, bytes);
  if (!field) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  if (tsr__schema_find(from, "statistic") >= 0)
    return tsr__error_set(error, TSR_ECOLUMN,
                          "%s: there is a column 'statistic', but the result needs that name; "
                          "rename the column with tsr_frame_rename",
                          df->what);
  field[0] = (tsr__field){ .name = "statistic", .type = TSR_COL_TEXT };
  for (int i = 0; i < from->count; i++) {
    int type = tsr__describes_number(from->field[i].type) ? TSR_COL_F64 : TSR_COL_TEXT;
    field[i + 1] = (tsr__field){ .name = from->field[i].name, .type = (uint8_t)type };
  }
  df->schema = (tsr__schema){ from->count + 1, field, NULL };
  return TSR_OK;
}

void tsr__needs_describe(const tsr_frame *df, const bool *need, bool *parent, bool *other)
{
  const tsr__schema *from = tsr__described(df);
  (void)other;
  /* The statistics of a column stand side by side among those of all columns, in order, behind the
   * first item, which is always needed. */
  parent[0] = true;
  for (int i = 0, at = 1; i < from->count; at += tsr__describe_items(from->field[i++].type))
    for (int k = 0; need[i + 1] && k < tsr__describe_items(from->field[i].type); k++)
      parent[at + k] = true;
}
