/* The command line: long options with a value, "--name value" or "--name=value". */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

/* Options of the three commands; a letter says where the value goes. */
typedef struct option_row {
  const char *name;
  bool valued;
  const char *commands; /* q(uery), s(chema), i(nfo) */
} option_row;

static const option_row rows[] = {
  { "--where", true, "q" },     { "--with", true, "q" },     { "--select", true, "q" },
  { "--agg", true, "q" },       { "--by", true, "q" },       { "--limit", true, "q" },
  { "--devices", true, "qsi" }, { "--explain", false, "q" }, { "--help", false, "qsi" },
};

static bool mistake(const char *command, const char *what, const char *word)
{
  fprintf(stderr, "tessera %s: %s%s%s%s\n", command, what, word ? " '" : "", word ? word : "",
          word ? "'" : "");
  fprintf(stderr, "tessera %s --help lists what it takes\n", command);
  return false;
}

static const option_row *find_option(const char *command, const char *word, size_t length)
{
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strlen(rows[i].name) == length && strncmp(rows[i].name, word, length) == 0 &&
        strchr(rows[i].commands, command[0]))
      return &rows[i];
  return NULL;
}

static bool parse_limit(const char *value, long *out)
{
  char *end;
  errno = 0;
  long n = strtol(value, &end, 10);
  if (end == value || *end || n < 0 || errno) return false;
  *out = n;
  return true;
}

static bool add(const char **list, int *count, const char *value)
{
  if (*count >= TOOL_MOST) return false;
  list[(*count)++] = value;
  return true;
}

static bool set_once(const char **slot, const char *value)
{
  if (*slot) return false;
  *slot = value;
  return true;
}

static bool take(const char *command, const option_row *row, const char *value, tool_args *out)
{
  const char *name = row->name;
  bool fits = true;
  if (strcmp(name, "--explain") == 0) out->explain = true;
  else if (strcmp(name, "--help") == 0) out->help = true;
  else if (strcmp(name, "--where") == 0) fits = add(out->where, &out->where_count, value);
  else if (strcmp(name, "--with") == 0) fits = add(out->with, &out->with_count, value);
  else if (strcmp(name, "--select") == 0) fits = set_once(&out->select, value);
  else if (strcmp(name, "--agg") == 0) fits = set_once(&out->agg, value);
  else if (strcmp(name, "--by") == 0) fits = set_once(&out->by, value);
  else if (strcmp(name, "--devices") == 0) fits = set_once(&out->devices, value);
  else if (!parse_limit(value, &out->limit))
    return mistake(command, "--limit takes a number of rows, not", value);
  return fits || mistake(command, "given too often:", name);
}

bool tool_split_with(const char *text, char *name, size_t size, const char **out_expression)
{
  const char *at = strchr(text, '=');
  if (!at || at == text || at[1] == '=' || strchr("<>!", at[-1])) return false;
  const char *first = text, *last = at;
  while (first < last && isspace((unsigned char)*first)) first++;
  while (last > first && isspace((unsigned char)last[-1])) last--;
  if (last - first >= 2 && *first == '"' && last[-1] == '"') first++, last--;
  if (first == last || (size_t)(last - first) >= size) return false;
  memcpy(name, first, (size_t)(last - first));
  name[last - first] = 0;
  *out_expression = at + 1;
  return true;
}

static bool check(const char *command, const tool_args *args)
{
  if (args->help) return true;
  if (command[0] != 'i' && args->file_count == 0) return mistake(command, "which file?", NULL);
  if (command[0] == 'i' && args->file_count > 0)
    return mistake(command, "takes no file, found", args->files[0]);
  for (int i = 0; i < args->with_count; i++) {
    char name[256];
    const char *expression;
    if (!tool_split_with(args->with[i], name, sizeof name, &expression))
      return mistake(command, "--with takes 'NAME = E', not", args->with[i]);
  }
  if (args->by && !args->agg) return mistake(command, "--by needs --agg", NULL);
  return true;
}

bool tool_parse(const char *command, int argc, char **argv, tool_args *out)
{
  bool options = true;
  *out = (tool_args){ .limit = -1 };
  for (int i = 0; i < argc; i++) {
    const char *word = argv[i];
    if (options && strcmp(word, "--") == 0) {
      options = false;
      continue;
    }
    if (!options || word[0] != '-' || !word[1]) {
      if (!add(out->files, &out->file_count, word)) return mistake(command, "too many files", word);
      continue;
    }
    size_t length = strcspn(word, "=");
    if (strcmp(word, "-h") == 0) {
      out->help = true;
      continue;
    }
    const option_row *row = find_option(command, word, length);
    if (!row) return mistake(command, "there is no option", word);
    const char *value = word[length] ? word + length + 1 : NULL;
    if (!row->valued && value) return mistake(command, "takes no value:", word);
    if (row->valued && !value) {
      if (++i >= argc) return mistake(command, "a value is missing after", word);
      value = argv[i];
    }
    if (!take(command, row, value, out)) return false;
  }
  return check(command, out);
}
