/* The page of expressions: `tessera help expressions` and a section of the manual. A test compares
 * the page with src/frame/expr/functions.def. */
#include <stdio.h>
#include <string.h>

#include "tool.h"

typedef struct entry {
  const char *left, *right;
} entry;

static const entry syntax[] = {
  { "12  1.5e3  'text'  true  null", "values; a quote inside is doubled: 'it''s'" },
  { "name  \"odd name\"", "columns; quotes for names with blanks" },
  { "'2013-07-01'", "a date; '2013-07-01T06:00:00Z' a time" },
  { "+ - * / // % **", "// and % round down, ** is the power" },
  { "== != < <= > >=", "comparisons; chains: 0 < x <= 9" },
  { "and  or  not", "bools; null if the nulls decide" },
  { "x is null  x is not null", "" },
  { "x in (1, 2)  x not in ('a', 'b')", "" },
  { "( )", "grouping; precedence as in Python" },
};

static const entry numbers[] = {
  { "abs(x) sign(x)", "of the type of x" },
  { "floor(x) ceil(x) round(x)", "whole numbers; round to even" },
  { "round(x, d)", "to d decimals; d < 0: to tens, ..." },
  { "sqrt(x) exp(x) log(x) log2(x) log10(x)", "" },
  { "sin(x) cos(x) tan(x) tanh(x)", "x in radians" },
  { "is_nan(x)", "whether x is NaN" },
};

static const entry choices[] = {
  { "if(c, a, b)", "a where c is true, else b" },
  { "coalesce(a, b, ...)", "the first value that is not null" },
  { "least(a, b, ...)", "the least value that is not null" },
  { "greatest(a, b, ...)", "the greatest value that is not null" },
  { "between(x, a, b)", "a <= x <= b" },
};

static const entry texts[] = {
  { "length(x)", "number of characters" },
  { "lower(x) upper(x) trim(x)", "" },
  { "contains(x, y) starts_with(x, y)", "whether x contains y, starts with y" },
  { "ends_with(x, y)", "whether x ends with y" },
  { "replace(x, 'a', 'b')", "x with b in place of every a" },
  { "slice(x, start, length)", "substring; start 0 is the first" },
  { "concat(x, y, ...)", "the texts joined" },
};

static const entry dates[] = {
  { "year(x) quarter(x) month(x) day(x)", "of a date or time" },
  { "week(x) weekday(x) day_of_year(x)", "ISO: Monday is 1" },
  { "hour(x) minute(x) second(x)", "of a time" },
  { "date(x)", "the date of a time" },
  { "date_trunc('month', x)", "start of its 'year', 'week', ..." },
  { "x - y", "days; microseconds if one is a time" },
};

static const entry conversions[] = {
  { "cast(x, 'i64')", "to bool, i8, ..., f64, date, time or text" },
  { "try_cast(x, 'i64')", "null if the value cannot be cast" },
};

static const entry aggregates[] = {
  { "count()", "number of rows" },
  { "count(x) nunique(x)", "number of values, of distinct values" },
  { "sum(x) mean(x) var(x) std(x)", "var and std divide by n - 1" },
  { "min(x) max(x)", "of any type" },
  { "median(x) quantile(x, q)", "q from 0 to 1" },
  { "any(x) all(x)", "of bools" },
  { "first(x) last(x)", "in the order of the rows" },
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
  fprintf(out, "--where, --with, --select, --agg, --by, --sort and --on take expressions.\n");
  for (int p = 0; p < PARTS; p++) {
    fprintf(out, "\n%s:\n", parts[p].title);
    for (int i = 0; i < parts[p].count; i++) {
      const entry *e = &parts[p].rows[i];
      fprintf(out, *e->right ? "  %-34s  %s\n" : "  %s\n", e->left, e->right);
    }
  }
  fprintf(out, "\nA null operand gives null, except in choices; aggregates skip nulls. A key of\n"
               "--sort may end in 'desc', 'nulls first' or 'nulls last'. 'name = expression'\n"
               "names a column, key or aggregate.\n");
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
