/* Training that goes on with fewer processes when one dies:
 *
 *   tessera run -n 4 --on-failure shrink ./elastic FOLDER
 *   tessera run -n 4 --on-failure shrink ./elastic FOLDER 2 25      process 2 dies at step 25
 *
 * Every tenth step is saved. Where a process is lost the others regroup, restore the newest step to
 * the devices that are left and train on; the weights at the end have the bits of a run that was
 * started as so many from that step. The folder is new, or empty: what stands there would be
 * gone on from. Without arguments it is one under /tmp. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tessera.h>

enum { ROWS = 480, WIDTH = 64, STEPS = 60, EVERY = 10 };

/* A run as it is now: after a failure there is a new one. */
typedef struct run {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_mesh *mesh;
  tsr_array *x, *y;
} run;

static void begin(run *r)
{
  r->s = tsr_scope_open(r->rt);
  r->mesh = tsr_mesh_default(r->rt, "data");
  tsr_array *x = tsr_iota(r->s, TSR_F32, TSR_SHAPE(ROWS * WIDTH), 0, tsr_on(r->mesh, ""));
  x = tsr_reshape(tsr_sin(tsr_mul(x, 0.37)), TSR_SHAPE(ROWS, WIDTH));
  r->x = tsr_constrain(x, tsr_on(r->mesh, "data,-"));
  r->y = tsr_cos(tsr_sum(r->x, .dims = TSR_DIMS(1)));
}

/* Weights on every device, their momentum cut over all of them. */
static tsr_array *first_state(const run *r)
{
  tsr_array *w = tsr_full(r->s, 0.01, TSR_F32, TSR_SHAPE(WIDTH), tsr_on(r->mesh, ""));
  tsr_array *speed = tsr_full(r->s, 0, TSR_F32, TSR_SHAPE(WIDTH), tsr_on(r->mesh, "data"));
  return tsr_tree(r->s, { "w", w }, { "speed", speed });
}

/* One step of a line through points; `*loss` is what it was before. */
static tsr_array *step(const run *r, tsr_array *state, tsr_array **loss)
{
  tsr_array *w = tsr_field(state, "w");
  tsr_array *off = tsr_sub(tsr_sum(tsr_mul(r->x, w), .dims = TSR_DIMS(1)), r->y);
  tsr_array *slope = tsr_mul(r->x, tsr_expand_dims(off, TSR_DIMS(1)));
  slope = tsr_sum(slope, .dims = TSR_DIMS(0));
  tsr_array *speed = tsr_add(tsr_mul(tsr_field(state, "speed"), 0.9), tsr_mul(slope, 1e-4));
  *loss = tsr_mean(tsr_mul(off, off));
  return tsr_tree(r->s, { "w", tsr_constrain(tsr_sub(w, speed), tsr_on(r->mesh, "")) },
                  { "speed", tsr_constrain(speed, tsr_on(r->mesh, "data")) });
}

/* What argv says. */
typedef struct plan {
  const char *folder;
  int victim, dies_at; /* -1: nobody dies */
} plan;

/* From step `at` on; TSR_EPEER where another process was lost. */
static tsr_status train(const run *r, const plan *p, tsr_array *state, int64_t at)
{
  tsr_status status = TSR_OK;
  double loss = 0;
  tsr_scope *here = tsr_scope_open(r->s);
  for (; !status && at < STEPS; at++) {
    tsr_array *before;
    if (p->victim == tsr_process_index(r->rt) && at == p->dies_at) raise(SIGKILL);
    if (at % EVERY == 0)
      status = tsr_checkpoint_save(r->s, p->folder, state, .step = at, .keep = 2, .overwrite = true,
                                   .background = true);
    if (status) break;
    state = step(r, state, &before);
    tsr_scope *after = tsr_scope_open(r->s);
    tsr_array *both = tsr_tree_keep(after, tsr_tuple(here, state, before));
    status = tsr_is_inert(both) ? tsr_scope_status(after) : TSR_OK;
    if (!status) status = tsr_read_scalar(tsr_item(both, 1), &loss);
    if (status) tsr_fail(r->s, status, "%s", tsr_message(after));
    else state = tsr_item(both, 0);
    tsr_scope_close(here), here = after;
  }
  if (!status) status = tsr_checkpoint_wait(r->s);
  if (!status && tsr_process_index(r->rt) == 0)
    printf("step %d, loss %.6f, %d processes\n", (int)at, loss, tsr_process_count(r->rt));
  return status;
}

/* With those that are left, from the newest step. */
static tsr_status go_on(run *r, plan *p)
{
  bool said = tsr_process_index(r->rt) == 0;
  if (said) printf("%s\n", tsr_message(r->s));
  r->rt = tsr_process_regroup(r->rt, "cpu:2");
  if (tsr_runtime_status(r->rt)) {
    fprintf(stderr, "%s\n", tsr_runtime_message(r->rt));
    return tsr_runtime_status(r->rt);
  }
  p->victim = -1;
  begin(r);
  tsr_saved_step *c = tsr_checkpoint_open(r->s, p->folder);
  tsr_array *state = tsr_checkpoint_restore(c, first_state(r));
  if (tsr_is_inert(state)) return tsr_scope_status(r->s);
  if (said) printf("on from step %d\n", (int)tsr_checkpoint_step(c));
  return train(r, p, state, tsr_checkpoint_step(c));
}

int main(int argc, char **argv)
{
  char own[64];
  plan p = { argc > 1 ? argv[1] : own, argc > 3 ? atoi(argv[2]) : -1,
             argc > 3 ? atoi(argv[3]) : -1 };
  run r = { .rt = tsr_initialize("cpu:2", .on_failure = "shrink") };
  if (tsr_runtime_status(r.rt)) {
    fprintf(stderr, "%s\n", tsr_runtime_message(r.rt));
    return 1;
  }
  /* All processes must name one folder. */
  snprintf(own, sizeof own, "/tmp/tessera-elastic-%u", (unsigned)getuid());
  begin(&r);
  tsr_status status = train(&r, &p, first_state(&r), 0);
  /* Whoever else is lost, it goes on as long as process 0 is there. */
  while (status == TSR_EPEER && tsr_process_index(r.rt) >= 0 && !tsr_runtime_status(r.rt))
    status = go_on(&r, &p);
  if (status && !tsr_runtime_status(r.rt)) fprintf(stderr, "%s\n", tsr_message(r.s));
  tsr_runtime_close(r.rt);
  return status != TSR_OK;
}
