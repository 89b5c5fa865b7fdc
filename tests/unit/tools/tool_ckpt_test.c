/* tessera ckpt: what it lists, and what it says of a step that was changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "harness.h"
#include "support/tool_fixture.h"
#include "tessera.h"

/* Runs a command where $T is the tool; its output, malloced. */
static char *run(const char *arguments, int *code)
{
  char tool[1024], command[3000];
  tool_path(tool, sizeof tool);
  snprintf(command, sizeof command, "cd '%s' && '%s' ckpt %s >out.txt 2>&1", test_tmp("."), tool,
           arguments);
  int status = system(command);
  CHECK(WIFEXITED(status));
  *code = WEXITSTATUS(status);
  return test_read(test_tmp("out.txt"), NULL);
}

static void prints(const char *arguments, int expected, const char *text)
{
  int code;
  char *out = run(arguments, &code);
  if (strstr(out, text) == NULL) CHECK_STR(out, text);
  CHECK_I64(code, expected);
  free(out);
}

static void save(void)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *w = tsr_full(s, 2, TSR_F32, TSR_SHAPE(1024, 3), tsr_on(mesh, "x,-"));
  tsr_array *tree = tsr_tree(s, { "model", tsr_tree(s, { "w", w }) }, { "n", tsr_num(s, 1) });
  CHECK_STATUS(tsr_checkpoint_save(s, test_tmp("ckpt"), tree, .step = 3,
                                   .blobs = { { "rng", "12345", 5 } }),
               TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(lists_and_verifies)
{
  save();
  prints("ls ckpt", 0,
         "name     type                     size  parts  mesh\n"
         "model.w  f32[1024,3]@(x,-)    12.0 KiB      2  x=2,y=2\n"
         "n        i64[]                     8 B      1\n"
         "rng      blob                      5 B      1\n"
         "step 3: 3 entries, 12.0 KiB\n");
  prints(
      "ls ckpt/step_3 --json", 0,
      "{\"step\": 3, \"tree\": \"(model: (w: *), n: *)\", \"entries\": [\n"
      "  {\"kind\": \"array\", \"name\": \"model.w\", \"dtype\": \"f32\", \"shape\": [1024, 3], "
      "\"type\": \"f32[1024,3]@(x,-)\", \"mesh\": \"x=2,y=2\", \"bytes\": 12288, \"parts\": 2},");
  prints("verify ckpt", 0, "step 3 is whole: 12.0 KiB\n");
  prints("verify ckpt --json", 0, "{\"step\": 3, \"whole\": true, \"bytes\": 12301}\n");
  char command[600];
  snprintf(command, sizeof command, "truncate -s -1 '%s'/step_3/data-*", test_tmp("ckpt"));
  CHECK_I64(system(command), 0);
  prints("verify ckpt", 1, "expected");
  prints("verify ckpt --json", 1, "\"whole\": false");
  prints("ls no-such", 1, "no-such: cannot open the folder");
  prints("ls", 2, "takes ls or verify, then the folder");
  prints("list ckpt", 2, "takes ls or verify");
}
