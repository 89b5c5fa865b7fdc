/* Arrays, block 17: a line of each process, then one from inside a function that is compiled. */
#include "check.h"

typedef struct printed {
  check *c;
  const char *member;
  int count;
} printed;

static void take_line(const char *line, void *user)
{
  printed *p = user;
  char text[100];
  snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "\n"), line);
  check_print(p->c, p->member, p->count++, text);
}

static tsr_array *inside(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_print(in[0], "Process {process}: value = {}", .write = take_line, .user = user);
}

int main(void)
{
  check c = check_open("001_17");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  const tsr_sharding own = { .mesh = NULL };
  printed p = { &c, tsr_process_index(rt) ? "member1" : "member0", 0 };

  tsr_array *value =
      tsr_print(tsr_num(s, 3.5), "Process {process}: value = {}", .write = take_line, .user = &p);
  tsr_array *x = tsr_full(s, 7.25, TSR_F32, TSR_SCALAR, own);
  tsr_array *shown = tsr_call(tsr_function_make(s, inside, .user = &p), x);
  if (tsr_eval(&value, 1) || tsr_eval(&shown, 1)) check_fail(&c, "%s", tsr_message(s));
  /* What all processes have each of them shows, too, with the same line in its program. */
  tsr_array *all = tsr_full(s, 1, TSR_F32, TSR_SHAPE(8), tsr_on(tsr_mesh_default(rt, "x"), "x"));
  tsr_array *sum = tsr_print(tsr_sum(all), "the sum in process {process}: {}");
  if (tsr_eval(&sum, 1)) check_fail(&c, "%s", tsr_message(s));
  if (p.count != 2) check_fail(&c, "%d lines were printed", p.count);

  tsr_runtime_close(rt);
  return check_close(&c);
}
