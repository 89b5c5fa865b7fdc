/* The command-line tool: a client of the public interface and of nothing else. */
#ifndef TOOL_H
#define TOOL_H

#include <stdbool.h>
#include <stddef.h>

#include <tessera.h>

/* Exit codes: done; the work failed (the message is on stderr); the command line is wrong. */
enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

enum { TOOL_MOST = 64 };

/* What a command line says. Texts are borrowed from argv. */
typedef struct tool_args {
  const char *files[TOOL_MOST];
  const char *with[TOOL_MOST]; /* "name = expression" each, in order */
  const char *where[TOOL_MOST];
  const char *agg, *by, *select, *devices;
  long limit; /* -1 = not given */
  int file_count, with_count, where_count;
  bool explain, help;
} tool_args;

/* Reads the arguments after the command's name. On a mistake prints it and returns false. */
bool tool_parse(const char *command, int argc, char **argv, tool_args *out);

int tool_info(const tool_args *args);
int tool_query(const tool_args *args);
int tool_schema(const tool_args *args);

/* Splits "name = expression" at the first '=' that is no part of ==, <=, >= or !=. The name is
 * copied without blanks (and quotes) around it; the expression is borrowed. */
bool tool_split_with(const char *text, char *name, size_t size, const char **out_expression);

/* A message without the C call that it names first, "tsr_frame_filter: ". */
const char *tool_bare(const char *message);

/* Opens a runtime and prints why when that fails (NULL). */
tsr_runtime *tool_open(const char *devices);

#endif
