/* Frames, block 5: a sharded frame plus one that lies on one device. The local frame is placed
 * where the sharded one lies, column by column; nothing else moves, and the result keeps the
 * sharding. */
#include "check.h"
#include "inputs.h"

static int lines_with(const char *text, const char *word)
{
  int found = 0;
  for (const char *at = text; (at = strstr(at, word)); at++) found++;
  return found;
}

static void mixed(check *c, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2,model=4");
  tsr_frame *sharded = input_ab(s, 1000, tsr_on(mesh, "data"));
  tsr_frame *local = input_ab(s, 1000, (tsr_sharding){ 0 });

  tsr_frame *result = tsr_frame_add(sharded, local);
  tsr_frame *turned = tsr_frame_add(local, sharded);

  const char *moves = tsr_frame_explain(result);
  bool together = lines_with(moves, " broadcast over ") == 1 && lines_with(moves, " -> ") == 2;
  if (!together || lines_with(moves, " all-") != 0)
    check_fail(c, "more moves than the local frame's two columns:\n%s", moves);
  if (!tsr_frame_incompatible(sharded, local)) check_fail(c, "the placing is not told");
  if (tsr_frame_incompatible(sharded, sharded)) check_fail(c, "a frame moves for itself");
  check_frame(c, "result", result);
  check_frame(c, "result", turned);
  if (tsr_scope_status(s)) check_fail(c, "%s", tsr_message(s));
  tsr_scope_close(s);
}

int main(void)
{
  check c = check_open("000_05");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  mixed(&c, rt);
  tsr_runtime_close(rt);
  return check_close(&c);
}
