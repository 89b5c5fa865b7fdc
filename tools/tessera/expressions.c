/* What expressions are made of, in a page: `tessera help expressions` and a section of the manual.
 * A test holds it against src/frame/expr/functions.def. */
#include <stdio.h>
#include <string.h>

#include "tool.h"

typedef struct entry {
  const char *left, *right;
} entry;

static const entry syntax[] = {
  { "12  1.5e3  'text'  true  null", "values; a text's quote is doubled: 'it''s'" },
  { "name  \"odd name\"", "columns; quoted where they have blanks" },
  { "'2013-07-01'", "a date; '2013-07-01T06:00:00Z' a time" },
  { "+ - * / // % **", "// and % round down, ** is a power" },
  { "== != < <= > >=", "comparisons; they chain: 0 < x <= 9" },
  { "and  or  not", "of truths; null where that is not known" },
  { "x is null  x is not null", "" },
  { "x in (1, 2)  x not in ('a', 'b')", "" },
  { "( )", "group; else the precedence is Python's" },
};

static const entry numbers[] = {
  { "abs(x) sign(x)", "of the type of x" },
  { "floor(x) ceil(x) round(x)", "whole numbers; round to even" },
  { "round(x, d)", "to d decimals; to tens, ... where d < 0" },
  { "sqrt(x) exp(x) log(x) log2(x) log10(x)", "" },
  { "sin(x) cos(x) tan(x) tanh(x)", "x in radians" },
  { "is_nan(x)", "whether x is not a number" },
};

static const entry choices[] = {
  { "if(c, a, b)", "a where c is true, else b" },
  { "coalesce(a, b, ...)", "the first that is not null" },
  { "least(a, b, ...)", "of those that are not null" },
  { "greatest(a, b, ...)", "of those that are not null" },
  { "between(x, a, b)", "a <= x <= b" },
};

static const entry texts[] = {
  { "length(x)", "characters" },
  { "lower(x) upper(x) trim(x)", "" },
  { "contains(x, y) starts_with(x, y)", "whether y stands in x, begins it" },
  { "ends_with(x, y)", "whether y ends it" },
  { "replace(x, 'a', 'b')", "every a is b" },
  { "slice(x, start, length)", "characters from start on; 0 is the first" },
  { "concat(x, y, ...)", "one after the other" },
};

static const entry dates[] = {
  { "year(x) quarter(x) month(x) day(x)", "of a date or time" },
  { "week(x) weekday(x) day_of_year(x)", "ISO: Monday is 1" },
  { "hour(x) minute(x) second(x)", "of a time" },
  { "date(x)", "the date of a time" },
  { "date_trunc('month', x)", "the beginning of its 'year', 'week', ..." },
  { "x - y", "days; microseconds where one is a time" },
};

static const entry conversions[] = {
  { "cast(x, 'i64')", "to bool, i8, ..., f64, date, time or text" },
  { "try_cast(x, 'i64')", "null where the value does not go" },
};

static const entry aggregates[] = {
  { "count()", "rows" },
  { "count(x) nunique(x)", "values, different ones; nulls left out" },
  { "sum(x) mean(x) var(x) std(x)", "the divisor of var and std is n - 1" },
  { "min(x) max(x)", "of anything" },
  { "median(x) quantile(x, q)", "q from 0 to 1" },
  { "any(x) all(x)", "of truths" },
  { "first(x) last(x)", "in the order of rows" },
  { "corr(x, y)", "Pearson's correlation" },
};

#define ROWS(entries) entries, (int)(sizeof(entries) / sizeof(entries)[0])

static const struct {
  const char *title;
  const entry *rows;
  int count;
} parts[] = {
  { "syntax", ROWS(syntax) },
  { "numbers", ROWS(numbers) },
  { "choices", ROWS(choices) },
  { "texts", ROWS(texts) },
  { "dates and times", ROWS(dates) },
  { "conversions", ROWS(conversions) },
  { "aggregates, in --agg", ROWS(aggregates) },
};
enum { PARTS = sizeof parts / sizeof *parts };

void tool_print_expressions(FILE *out)
{
  fprintf(out, "Expressions stand in --where, --with, --select, --agg, --by, --sort and --on.\n");
  for (int p = 0; p < PARTS; p++) {
    fprintf(out, "\n%s:\n", parts[p].title);
    for (int i = 0; i < parts[p].count; i++) {
      const entry *e = &parts[p].rows[i];
      fprintf(out, *e->right ? "  %-34s  %s\n" : "  %s\n", e->left, e->right);
    }
  }
  fprintf(out,
          "\nOf null all is null but for what chooses; aggregates leave nulls out. Sorts take\n"
          "'desc', 'nulls first' and 'nulls last' behind a key. A column, key or aggregate\n"
          "is named by 'name = expression'.\n");
}

void tool_man_expressions(FILE *out)
{
  fprintf(out, ".Sh EXPRESSIONS\n");
  for (int p = 0; p < PARTS; p++) {
    fprintf(out, ".Ss %c%s\n.Bl -tag -width Ds\n", parts[p].title[0] - 'a' + 'A',
            parts[p].title + 1);
    for (int i = 0; i < parts[p].count; i++) {
      fprintf(out, ".It ");
      tool_man_text(parts[p].rows[i].left, out);
      fputc('\n', out);
      if (*parts[p].rows[i].right) tool_man_text(parts[p].rows[i].right, out);
      fputs(*parts[p].rows[i].right ? ".\n" : "", out);
    }
    fprintf(out, ".El\n");
  }
}
