/* What somebody meant who writes an expression as in SQL, pandas or C: words that cannot stand
 * where they do, functions of other names, and what is not there.
 *
 *   lag(x, 1)               windows over other rows are not there yet
 *   count(distinct x)       to count different values write nunique(x)
 *   case when a > 1 ..      write if(condition, a, b)
 *
 * A hint only ever adds to a message: what is refused is decided elsewhere. */
#include "frame/expr/parse_inner.h"

#include <stdio.h>

#define WINDOWS \
  "windows (values of other rows, ranks, running and rolling sums) are not supported yet"
#define PATTERNS \
  "patterns are not supported yet; use contains, starts_with, ends_with, replace or slice"
#define CLAUSE "clauses of SQL are separate calls or options; write a single expression here"
#define PARTS "write year(x), month(x), day(x), hour(x) ..."
#define CASES "write if(condition, a, b)"
#define LISTS "lists of a group's values are not supported yet; use first, last, nunique or count"

typedef struct hint {
  const char *word, *text;
} hint;

/* Words, in small letters. */
static const hint words[] = {
  { "and", "write 'and'" },
  { "or", "write 'or'" },
  { "not", "write 'not'" },
  { "in", "write 'in'" },
  { "is", "write 'is'" },
  { "null", "write 'null'" },
  { "true", "write 'true'" },
  { "false", "write 'false'" },
  { "none", "write 'null'" },
  { "nil", "write 'null'" },
  { "between", "write between(x, a, b)" },
  { "like", "write starts_with(x, 'a'), ends_with(x, 'a') or contains(x, 'a')" },
  { "ilike", "write contains(lower(x), 'a')" },
  { "similar", PATTERNS },
  { "regexp", PATTERNS },
  { "rlike", PATTERNS },
  { "as", "write name = expression" },
  { "asc", "write 'asc' after the key" },
  { "desc", "write 'desc' after the key" },
  { "case", CASES },
  { "when", CASES },
  { "then", CASES },
  { "else", CASES },
  { "end", CASES },
  { "if", CASES },
  { "distinct", "to count different values write nunique(x)" },
  { "over", WINDOWS },
  { "partition", WINDOWS },
  { "rows", WINDOWS },
  { "filter", "write sum(if(condition, x, null))" },
  { "mod", "write x % y" },
  { "div", "write x // y" },
  { "xor", "write a != b" },
  { "select", CLAUSE },
  { "from", CLAUSE },
  { "where", CLAUSE },
  { "group", CLAUSE },
  { "order", CLAUSE },
  { "having", CLAUSE },
  { "limit", CLAUSE },
  { "union", CLAUSE },
};

/* Functions of other languages, and what does the same. */
static const hint elsewhere[] = {
  { "avg", "write 'mean'" },
  { "average", "write 'mean'" },
  { "stddev", "write 'std'" },
  { "stdev", "write 'std'" },
  { "stddev_samp", "write 'std'" },
  { "variance", "write 'var'" },
  { "var_samp", "write 'var'" },
  { "stddev_pop", "std divides by n - 1: write std(x) * ((count(x) - 1) / count(x)) ** 0.5" },
  { "var_pop", "var divides by n - 1: write var(x) * (count(x) - 1) / count(x)" },
  { "n_unique", "write 'nunique'" },
  { "count_distinct", "write 'nunique'" },
  { "approx_count_distinct", "use 'nunique', which is exact" },
  { "uniq", "write 'nunique'" },
  { "distinct", "to count different values write nunique(x)" },
  { "count_if", "write sum(condition), which counts the rows where the condition is true" },
  { "countif", "write sum(condition), which counts the rows where the condition is true" },
  { "percentile", "write quantile(x, 0.9)" },
  { "percentile_cont", "write quantile(x, 0.9)" },
  { "quantile_cont", "write quantile(x, 0.9)" },
  { "approx_quantile", "write quantile(x, 0.9), which is exact" },
  { "any_value", "write 'first'" },
  { "bool_and", "write 'all'" },
  { "bool_or", "write 'any'" },
  { "every", "write 'all'" },
  { "mode", "the mode is not supported yet; sort count() by groups instead" },
  { "string_agg", LISTS },
  { "group_concat", LISTS },
  { "listagg", LISTS },
  { "array_agg", LISTS },
  { "list", LISTS },
  { "len", "write 'length'" },
  { "char_length", "write 'length'" },
  { "size", "write 'count'" },
  { "lowercase", "write 'lower'" },
  { "uppercase", "write 'upper'" },
  { "lcase", "write 'lower'" },
  { "ucase", "write 'upper'" },
  { "strip", "write 'trim'" },
  { "substr", "write 'slice'" },
  { "substring", "write 'slice'" },
  { "left", "write slice(x, 0, n)" },
  { "right", "write slice(x, -n)" },
  { "startswith", "write 'starts_with'" },
  { "endswith", "write 'ends_with'" },
  { "like", "write 'contains'" },
  { "strpos", "write 'contains'" },
  { "instr", "write 'contains'" },
  { "position", "write 'contains'" },
  { "concat_ws", "write concat(x, ', ', y)" },
  { "split", PATTERNS },
  { "split_part", PATTERNS },
  { "matches", PATTERNS },
  { "regex", PATTERNS },
  { "regexp_matches", PATTERNS },
  { "regexp_extract", PATTERNS },
  { "regexp_replace", PATTERNS },
  { "ifnull", "write 'coalesce'" },
  { "nvl", "write 'coalesce'" },
  { "fillna", "write 'coalesce'" },
  { "fill_null", "write 'coalesce'" },
  { "nullif", "write if(x == y, null, x)" },
  { "isnull", "write x is null" },
  { "isna", "write x is null" },
  { "is_null", "write x is null" },
  { "notnull", "write x is not null" },
  { "notna", "write x is not null" },
  { "isin", "write x in (1, 2)" },
  { "is_in", "write x in (1, 2)" },
  { "exists", "use a semi join to keep the rows that have a match" },
  { "iif", "write 'if'" },
  { "where", "write 'if'" },
  { "when", "write 'if'" },
  { "case", "write 'if'" },
  { "isnan", "write 'is_nan'" },
  { "ceiling", "write 'ceil'" },
  { "trunc", "write if(x < 0, ceil(x), floor(x))" },
  { "ln", "write 'log'" },
  { "power", "write '**'" },
  { "pow", "write '**'" },
  { "mod", "write x % y" },
  { "dayofweek", "write 'weekday'" },
  { "dayofyear", "write 'day_of_year'" },
  { "extract", PARTS },
  { "date_part", PARTS },
  { "strftime", PARTS },
  { "to_char", PARTS },
  { "date_format", PARTS },
  { "datediff", "write a - b: days for dates, microseconds for times" },
  { "date_diff", "write a - b: days for dates, microseconds for times" },
  { "date_add", "write x + 7: adds days to dates, microseconds to times" },
  { "dateadd", "write x + 7: adds days to dates, microseconds to times" },
  { "now", "write the time: '2013-07-01T06:00:00Z'" },
  { "today", "write the date: '2013-07-01'" },
  { "to_date", "write 'date'" },
  { "strptime", "write cast(x, 'date') or cast(x, 'time')" },
  { "to_timestamp", "write cast(x, 'time')" },
  { "datetrunc", "write 'date_trunc'" },
  { "astype", "write 'cast'" },
  { "int", "write cast(x, 'i64')" },
  { "float", "write cast(x, 'f64')" },
  { "double", "write cast(x, 'f64')" },
  { "str", "write cast(x, 'text')" },
};

/* Functions of windows, by how they begin. */
static const char *const of_windows[] = { "lag",        "lead",      "rank",       "dense_rank",
                                          "row_num",    "percent_r", "cume_",      "ntile",
                                          "first_val",  "last_val",  "nth_value",  "cum",
                                          "shift",      "diff",      "pct_change", "rolling",
                                          "ewm",        "ffill",     "bfill",      "forward_f",
                                          "backward_f", "over",      "moving",     "running" };

/* Whether a word is one of small letters, written in letters of any size; of no language's. */
static bool is_word(const char *word, const char *small)
{
  for (; *word && *small; word++, small++)
    if ((*word >= 'A' && *word <= 'Z' ? *word + 'a' - 'A' : *word) != *small) return false;
  return *word == *small;
}

static const char *find(const hint *hints, size_t count, const char *word)
{
  for (size_t i = 0; i < count; i++)
    if (is_word(word, hints[i].word)) return hints[i].text;
  return NULL;
}

const char *tsr__hint_of_word(const char *word)
{
  return find(words, sizeof words / sizeof *words, word);
}

const char *tsr__hint_of_function(const char *name)
{
  const char *known = find(elsewhere, sizeof elsewhere / sizeof *elsewhere, name);
  for (size_t i = 0; i < sizeof of_windows / sizeof *of_windows && !known; i++)
    if (!strncmp(name, of_windows[i], strlen(of_windows[i]))) known = WINDOWS;
  return known;
}

/* What a word that stands at a place cannot mean there. */
static const char *in_its_place(const char *word, const char *expected)
{
  bool argument = !strncmp(expected, "','", 3);
  if (is_word(word, "as") && argument) return "write cast(x, 'i64')";
  if (is_word(word, "from") && argument) return PARTS;
  if (is_word(word, "distinct") && !strncmp(expected, "'null'", 6))
    return "to compare write == or !=, as 'is' only tests for null";
  return tsr__hint_of_word(word);
}

const char *tsr__hint_of_token(const tsr__parser *p, const char *expected, char *out, size_t size)
{
  const tsr__token *t = &p->lexer.token;
  const char *source = p->lexer.formula->source;
  char before[60] = "";
  int end = t->at, from, to = t->at + t->span;
  while (end > 0 && source[end - 1] == ' ') end--;
  for (from = end; from > 0 && !strchr(" \t\n\r(),'\"=<>!+-*/%?", source[from - 1]);) from--;
  snprintf(before, sizeof before, "%.*s", end - from, source + from);
  bool name = t->kind == TSR__T_NAME;
  const char *word = name ? in_its_place(t->text, expected) : NULL;
  if (!word && (name || t->kind == TSR__T_INT)) word = in_its_place(before, expected);
  *out = 0;
  if (tsr__parse_at(p, "=")) word = "to compare write '=='";
  if (tsr__parse_at(p, "?")) word = CASES;
  if (tsr__parse_at(p, "*") && end > 0 && source[end - 1] == '(')
    word = "to count rows write count()";
  if (word) snprintf(out, size, "; %s", word);
  /* A name directly behind a name is never right, so blanks inside a column's name are likely. */
  else if (name && end < t->at && tsr__plain_name(before) && to - from < 100)
    snprintf(out, size, "; write a column's name with blanks as \"%.*s\"", to - from,
             source + from);
  return out;
}
