/* Arrays, block 16: drawing where a sharding puts a shape, and where an array lies. A sharding has
 * no shape of its own, so the first takes one. */
#include "check.h"

/* Compares a drawing line by line. */
static void check_drawing(check *c, const char *name, const char *drawing)
{
  int lines = 0;
  for (const char *at = drawing; *at; at += *at == '\n') {
    char line[512];
    size_t length = strcspn(at, "\n");
    snprintf(line, sizeof line, "%.*s", (int)length, at);
    check_print(c, name, lines++, line);
    at += length;
  }
  const char *left = c->golden;
  for (int i = 0; left && i <= lines; i++) left = check_line(left, "line", name);
  if (left || !lines) check_fail(c, "%s has %d lines, and not so many are expected", name, lines);
}

static void draw(check *c, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  tsr_sharding sharding = tsr_on(mesh, "x,y");
  tsr_array *array = tsr_full(s, 1, TSR_F32, TSR_SHAPE(8, 8), sharding);

  check_drawing(c, "sharding", tsr_visualize_sharding(s, sharding, TSR_SHAPE(8, 8)));
  check_drawing(c, "array", tsr_visualize(array));
  check_drawing(c, "array(x,-)", tsr_visualize(tsr_reshard(array, tsr_on(mesh, "x"))));
  check_drawing(c, "array(-,x+y)", tsr_visualize(tsr_reshard(array, tsr_on(mesh, "-,x+y"))));
  check_drawing(c, "array(-,-)", tsr_visualize(tsr_reshard(array, tsr_on(mesh, ""))));
  if (tsr_scope_status(s)) check_fail(c, "%s", tsr_message(s));
  tsr_scope_close(s);
}

int main(void)
{
  check c = check_open("001_16");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  draw(&c, rt);
  tsr_runtime_close(rt);
  return check_close(&c);
}
