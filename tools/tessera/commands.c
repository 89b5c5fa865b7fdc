/* The commands: each builds a chain of frames as the options say and ends in one terminal. */
#include <stdio.h>
#include <string.h>

#include "tool.h"

int tool_info(const tool_args *args)
{
  tsr_runtime *rt = tool_open(args->devices);
  if (!rt) return TOOL_FAILED;
  printf("tessera   %s\n", tsr_version());
  printf("isa       %s\n", tsr_isa(rt));
  printf("devices   %d (%s)\n", tsr_device_count(rt), args->devices ? args->devices : "cpu:1");
  tsr_memory memory = tsr_device_memory(rt, 0);
  if (memory.limit) printf("memory    %lld bytes a device\n", (long long)memory.limit);
  else printf("memory    no limit a device\n");
  tsr_runtime_close(rt);
  return TOOL_OK;
}

static tsr_frame *build(tsr_scope *s, const tool_args *args, const char *file)
{
  tsr_frame *df = tsr_frame_read_csv(s, file);
  for (int i = 0; i < args->where_count; i++) df = tsr_frame_filter(df, args->where[i]);
  for (int i = 0; i < args->with_count; i++) {
    char name[256];
    const char *expression;
    if (tool_split_with(args->with[i], name, sizeof name, &expression))
      df = tsr_frame_assign(df, name, expression);
  }
  if (args->select) df = tsr_frame_select(df, args->select);
  if (args->agg && args->by) df = tsr_frame_group_agg(df, args->by, args->agg);
  else if (args->agg) df = tsr_frame_agg(df, args->agg);
  if (args->limit >= 0) df = tsr_frame_head(df, args->limit);
  return df;
}

/* The library's messages begin with where in the C source a call stands and which it is; in a shell that
 * says nothing, so it is left out. */
static int fail_without_site(const tsr_scope *s)
{
  const char *message = tsr_message(s), *status = strstr(message, "TSR_E");
  const char *text = status ? strstr(status, ": ") : NULL;
  fprintf(stderr, "tessera: %s\n", tool_bare(text ? text + 2 : message));
  return TOOL_FAILED;
}

/* As fputs, but for " at commands.c:12": where a node was made is in this file, not the user's. */
static void print_without_sites(const char *text)
{
  static const char site[] = " at commands.c:";
  for (const char *at; (at = strstr(text, site)); text = at + strspn(at, "0123456789")) {
    fwrite(text, 1, (size_t)(at - text), stdout);
    at += sizeof site - 1;
  }
  fputs(text, stdout);
}

static int query_file(tsr_runtime *rt, const tool_args *args, const char *file)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = build(s, args, file);
  int code = TOOL_OK;
  if (tsr_scope_status(s)) {
    code = fail_without_site(s);
  } else if (args->explain) {
    const char *text = tsr_frame_explain(df);
    if (tsr_scope_status(s)) code = fail_without_site(s);
    else print_without_sites(text);
  } else if (tsr_frame_print(df, stdout)) {
    code = fail_without_site(s);
  }
  tsr_scope_close(s);
  return code;
}

static int schema_file(tsr_runtime *rt, const tool_args *args, const char *file)
{
  (void)args;
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, file);
  int code = TOOL_OK;
  if (tsr_scope_status(s)) code = fail_without_site(s);
  else fputs(tsr_frame_schema(df), stdout);
  tsr_scope_close(s);
  return code;
}

/* Runs `one` for every file, naming each when there are several; the first failure ends it. */
static int each_file(const tool_args *args,
                     int (*one)(tsr_runtime *, const tool_args *, const char *))
{
  tsr_runtime *rt = tool_open(args->devices);
  if (!rt) return TOOL_FAILED;
  int code = TOOL_OK;
  for (int i = 0; i < args->file_count && code == TOOL_OK; i++) {
    if (args->file_count > 1) printf("%s%s\n", i ? "\n" : "", args->files[i]);
    code = one(rt, args, args->files[i]);
  }
  tsr_runtime_close(rt);
  return code;
}

int tool_query(const tool_args *args)
{
  return each_file(args, query_file);
}

int tool_schema(const tool_args *args)
{
  return each_file(args, schema_file);
}
