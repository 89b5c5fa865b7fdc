/* tessera function: shows the arguments, results and cost of a saved function. */
#include <stdio.h>

#include "tool.h"

/* Virtual devices take no memory until they hold data, and nothing runs. With this many devices the
 * constants keep their saved shardings; larger meshes are planned as sizes only. */
static const char *const many_devices = "cpu:4096";

static int show(tsr_scope *s, tsr_function *f, const tool_args *args)
{
  tsr_array *types[TSR_MAX_ARGS] = { NULL };
  const char *about = "", *plan = NULL;
  if (tsr_function_about_into(f, &about)) return tool_fail(s);
  if (args->count[OPT_COMPILE]) {
    int count = tsr_function_arguments(f, types, TSR_MAX_ARGS);
    plan = tsr_compiled_text(tsr_compile_at(f, types, count, TSR_HERE));
  }
  if (tsr_scope_status(s)) return tool_fail(s);
  tool_progress_end();
  fputs(about, stdout);
  if (plan) printf("\n%s", plan);
  return TOOL_OK;
}

int tool_function(const tool_args *args)
{
  tsr_runtime *rt = tsr_runtime_open(many_devices);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_function *f = tsr_function_load(s, args->files[0]);
  int code = tsr_scope_status(s) ? tool_fail(s) : show(s, f, args);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return code;
}
