/* tessera ckpt: lists the entries of a checkpoint, or verifies its checksums. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

static const char *kind_of(const tsr_saved_entry *entry)
{
  return entry->kind == TSR_SAVED_BLOB ? "blob" : "array";
}

static void list_json(const tsr_saved_step *c)
{
  printf("{\"step\": %" PRId64 ", \"tree\": ", tsr_checkpoint_step(c));
  tool_put_json(tsr_checkpoint_form(c));
  printf(", \"entries\": [");
  for (int i = 0; i < tsr_checkpoint_count(c); i++) {
    tsr_saved_entry entry = tsr_checkpoint_entry(c, i);
    printf("%s\n  {\"kind\": \"%s\", \"name\": ", i ? "," : "", kind_of(&entry));
    tool_put_json(entry.name);
    printf(", \"dtype\": \"%s\", \"shape\": [", tsr_dtype_name(entry.dtype));
    for (int d = 0; d < entry.shape.rank; d++)
      printf("%s%" PRId64, d ? ", " : "", entry.shape.dims[d]);
    printf("], \"type\": ");
    tool_put_json(entry.type);
    printf(", \"mesh\": ");
    tool_put_json(entry.mesh);
    printf(", \"bytes\": %" PRId64 ", \"parts\": %d}", entry.bytes, entry.parts);
  }
  printf("]}\n");
}

static int width_of(const tsr_saved_step *c, bool names)
{
  int widest = 4;
  for (int i = 0; i < tsr_checkpoint_count(c); i++) {
    tsr_saved_entry entry = tsr_checkpoint_entry(c, i);
    int width = (int)strlen(names ? entry.name : entry.type);
    if (width > widest) widest = width;
  }
  return widest;
}

static void list_table(const tsr_saved_step *c)
{
  int names = width_of(c, true), types = width_of(c, false), count = tsr_checkpoint_count(c);
  int64_t total = 0;
  char size[32];
  printf("%-*s  %-*s  %10s  %5s  %s\n", names, "name", types, "type", "size", "parts", "mesh");
  for (int i = 0; i < count; i++) {
    tsr_saved_entry entry = tsr_checkpoint_entry(c, i);
    tool_size_text(entry.bytes, size);
    printf("%-*s  %-*s  %10s  %5d", names, entry.name, types, entry.type, size, entry.parts);
    printf("%s%s\n", *entry.mesh ? "  " : "", entry.mesh);
    total += entry.bytes;
  }
  tool_size_text(total, size);
  printf("step %" PRId64 ": %d %s, %s\n", tsr_checkpoint_step(c), count,
         count == 1 ? "entry" : "entries", size);
}

static int verify(tsr_scope *s, tsr_saved_step *c, bool json)
{
  int64_t total = 0;
  char size[32];
  for (int i = 0; i < tsr_checkpoint_count(c); i++) total += tsr_checkpoint_entry(c, i).bytes;
  tool_size_text(total, size);
  if (tsr_checkpoint_verify(c)) {
    if (json) {
      char *message = tool_message_words(tool_message(s));
      printf("{\"step\": %" PRId64 ", \"whole\": false, \"message\": ", tsr_checkpoint_step(c));
      tool_put_json(message ? message : "");
      printf("}\n");
      free(message);
    }
    return tool_fail(s);
  }
  tool_progress_end();
  if (json)
    printf("{\"step\": %" PRId64 ", \"whole\": true, \"bytes\": %" PRId64 "}\n",
           tsr_checkpoint_step(c), total);
  else printf("step %" PRId64 " is whole: %s\n", tsr_checkpoint_step(c), size);
  return TOOL_OK;
}

int tool_ckpt(const tool_args *args)
{
  tsr_runtime *rt = tool_open(args);
  if (!rt) return TOOL_FAILED;
  tsr_scope *s = tsr_scope_open(rt);
  tsr_saved_step *c = tsr_checkpoint_open(s, args->files[1]);
  bool json = args->count[OPT_JSON] > 0;
  int code = TOOL_OK;
  if (tsr_scope_status(s)) code = tool_fail(s);
  else if (!strcmp(args->files[0], "verify")) code = verify(s, c, json);
  else if (json) list_json(c);
  else list_table(c);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return code;
}
