/* Arrays, block 14: a checkpoint that all processes write together, read on another mesh, and by a
 * process that is alone. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw */
#endif
#include <ftw.h>
#include <unistd.h>

#include "check.h"
#include "inputs.h"

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
  (void)info, (void)kind, (void)at;
  return remove(path);
}

/* What was saved is read as rows over all devices of a runtime. */
static void restore(check *c, tsr_scope *s, tsr_runtime *rt, const char *path)
{
  tsr_mesh *rows = tsr_mesh_make(rt, "x=8");
  tsr_saved_step *step = tsr_checkpoint_open(s, path);
  tsr_array *like =
      tsr_full(s, 0, TSR_F32, TSR_SHAPE(8, 16), tsr_on(rows, "x,-")); /* its type counts */
  tsr_array *w = tsr_field(tsr_checkpoint_restore(step, tsr_tree(s, { "w", like })), "w");
  check_array(c, "restored_on_other_mesh", w);
  if (tsr_scope_status(s)) check_fail(c, "%s", tsr_message(s));
}

int main(void)
{
  check c = check_open("001_14");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  char path[64];
  /* Processes of one program have one parent. */
  snprintf(path, sizeof path, "/tmp/tessera_001_14_%ld", (long)getppid());

  tsr_array *w = input_s(s, TSR_SHAPE(8, 16), 1, tsr_on(mesh, "x,y"));
  check_array(&c, "saved", w);
  if (tsr_checkpoint_save(s, path, tsr_tree(s, { "w", w }))) check_fail(&c, "%s", tsr_message(s));
  restore(&c, s, rt, path);
  if (tsr_process_count(rt) > 1 && tsr_process_index(rt) == 0) {
    unsetenv("TSR_COORDINATOR"); /* what is opened from now on is on its own */
    tsr_runtime *alone = tsr_runtime_open("cpu:8");
    if (tsr_runtime_status(alone)) check_fail(&c, "%s", tsr_runtime_message(alone));
    restore(&c, tsr_scope_open(alone), alone, path);
    tsr_runtime_close(alone);
  }
  if (tsr_process_meet(s, "read")) check_fail(&c, "%s", tsr_message(s));
  if (tsr_process_index(rt) == 0) nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);

  tsr_runtime_close(rt);
  return check_close(&c);
}
