/* tessera: questions about tables, from the shell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

static const char general_help[] =
    "usage: tessera COMMAND [ARGUMENTS]\n"
    "\n"
    "  tessera query FILE...    filter, derive and aggregate the rows of CSV files\n"
    "  tessera schema FILE...   the columns of CSV files and their types\n"
    "  tessera info             the version, instruction set and devices\n"
    "\n"
    "tessera COMMAND --help tells more, with examples.\n";

static const char query_help[] =
    "usage: tessera query FILE... [OPTIONS]\n"
    "\n"
    "  --where E            keep the rows where the expression E is true (may be repeated)\n"
    "  --with 'NAME = E'    add a column (may be repeated; later ones see earlier ones)\n"
    "  --select COLUMNS     the columns to show: 'a, b, c = a + b'\n"
    "  --agg A              reduce to one row: 'sum(x), n = count(), mean(y)'\n"
    "  --by KEYS            with --agg: one row a group: 'origin, month'\n"
    "  --limit N            the first N rows only\n"
    "  --devices cpu:N      split the rows over N virtual devices (default cpu:1)\n"
    "  --explain            show the plan and what it moves between devices; run nothing\n"
    "\n"
    "Filters come first, then derived columns, then --select, --agg and --limit. Each file is a "
    "query of\n"
    "its own. Sums are exact: the result does not depend on the number of devices.\n"
    "\n"
    "examples:\n"
    "  tessera query weather.csv --limit 5\n"
    "  tessera query weather.csv --where 'temp > 90' --agg 'count(), max(temp)' --by origin\n"
    "  tessera query weather.csv --with 'celsius = (temp - 32) * 5 / 9' --agg 'mean(celsius)' \\\n"
    "                --devices cpu:8 --explain\n"
    "\n"
    "exit status: 0 done, 1 failed (the message is on stderr), 2 wrong command line\n";

static const char schema_help[] =
    "usage: tessera schema FILE...\n"
    "\n"
    "Prints the columns of CSV files with the types that a sample of the rows shows.\n"
    "\n"
    "example:\n"
    "  tessera schema weather.csv\n";

static const char info_help[] =
    "usage: tessera info [--devices cpu:N]\n"
    "\n"
    "Prints the version, the instruction set in use, and the devices with their memory.\n";

typedef struct command {
  const char *name, *help;
  int (*run)(const tool_args *args);
} command;

static const command commands[] = {
  { "query", query_help, tool_query },
  { "schema", schema_help, tool_schema },
  { "info", info_help, tool_info },
};

const char *tool_bare(const char *message)
{
  const char *end = strstr(message, ": ");
  return strncmp(message, "tsr_", 4) == 0 && end ? end + 2 : message;
}

tsr_runtime *tool_open(const char *devices)
{
  tsr_runtime *rt = tsr_runtime_open(devices ? devices : "cpu:1");
  if (tsr_runtime_status(rt) == TSR_OK) return rt;
  fprintf(stderr, "tessera: %s\n", tool_bare(tsr_runtime_message(rt)));
  tsr_runtime_close(rt);
  return NULL;
}

/* What was asked for is lost if it cannot be written: a full disk is a failure. */
static int finish(int code)
{
  if (fflush(stdout) == 0 && !ferror(stdout)) return code;
  perror("tessera: writing the result");
  return TOOL_FAILED;
}

int main(int argc, char **argv)
{
  const char *name = argc > 1 ? argv[1] : "";
  if (strcmp(name, "--version") == 0) {
    printf("tessera %s\n", tsr_version());
    return finish(TOOL_OK);
  }
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
    fputs(general_help, stdout);
    return finish(TOOL_OK);
  }
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    if (strcmp(name, commands[i].name) != 0) continue;
    tool_args args;
    if (!tool_parse(name, argc - 2, argv + 2, &args)) return TOOL_USAGE;
    if (args.help) {
      fputs(commands[i].help, stdout);
      return finish(TOOL_OK);
    }
    return finish(commands[i].run(&args));
  }
  if (*name) fprintf(stderr, "tessera: there is no command '%s'\n", name);
  fputs(general_help, stderr);
  return TOOL_USAGE;
}
