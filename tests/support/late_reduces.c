/* Accumulators of late devices, which are those of the hidden runtime, and all-reduces. */
#include <stdlib.h>
#include <string.h>

#include "kernel/tile/partial.h"
#include "support/late_queues.h"

/* ---- accumulators ---------------------------------------------------------------------------- */

/* Opaque to the runtime. */
typedef struct late_partial {
  tsr_runtime *rt;
  int device;
  tsr__partial *hidden; /* of the other runtime */
} late_partial;

static const late_partial *partial_of(const tsr__partial *partial)
{
  return (const late_partial *)(uintptr_t)partial;
}

static tsr__partial *late_partial_new(tsr_runtime *rt, int device, tsr__partial *hidden)
{
  late_partial *partial = hidden ? calloc(1, sizeof *partial) : NULL;
  if (hidden && !partial) abort();
  if (partial) *partial = (late_partial){ rt, device, hidden };
  return (tsr__partial *)partial;
}

/* Accumulators on their way back may have the memory. */
tsr__partial *late_partial_take(tsr_runtime *rt, const tsr__partial_ask *ask, tsr__error *error)
{
  tsr__error full = { .status = TSR_OK };
  tsr__partial *hidden = tsr__partial_new(late_hidden(rt), ask, &full);
  if (!hidden) late_drain(rt);
  if (!hidden) hidden = tsr__partial_new(late_hidden(rt), ask, error);
  return late_partial_new(rt, ask->device, hidden);
}

tsr__partial *late_partial_of(const tsr__partial *from, const int64_t *index, int64_t count,
                              tsr__error *error)
{
  const late_partial *p = partial_of(from);
  late_drain(p->rt);
  return late_partial_new(p->rt, p->device, tsr__partial_take(p->hidden, index, count, error));
}

typedef struct free_piece {
  late_piece head;
  tsr__partial *hidden;
} free_piece;

static void do_free(late_piece *p)
{
  tsr__partial_free(((free_piece *)p)->hidden);
}

/* After the work that uses it, which is that of its device. */
void late_partial_free(tsr__partial *partial)
{
  const late_partial *p = partial_of(partial);
  if (late_is_idle(p->rt, p->device)) {
    tsr__partial_free(p->hidden);
  } else {
    free_piece *f = late_piece_new(sizeof *f, NULL);
    f->head.end = do_free; /* also on a device that is lost */
    f->head.other = NO_DEVICE;
    f->hidden = p->hidden;
    late_enqueue(p->rt, p->device, &f->head);
  }
  free((late_partial *)(uintptr_t)p);
}

/* These are for several processes, which such devices have not. */
tsr_status late_partial_tell(const tsr__partial *partial, tsr__partial_told *out,
                             tsr__buffer **copy, tsr__error *error)
{
  return tsr__partial_tell(partial_of(partial)->hidden, out, copy, error);
}

tsr__partial *late_partial_far(tsr_runtime *rt, const tsr__partial_ask *ask,
                               const tsr__partial_told *told, tsr__error *error)
{
  return late_partial_new(rt, ask->device, tsr__partial_far(late_hidden(rt), ask, told, error));
}

void late_hidden_partials(tsr__partial **to, tsr__partial *const *from, int count)
{
  for (int i = 0; i < count; i++) to[i] = from[i] ? partial_of(from[i])->hidden : NULL;
}

/* ---- all-reduces ----------------------------------------------------------------------------- */

/* Memory of an ask's lists, which grows with each and is freed together. */
typedef struct kept_lists {
  struct kept_lists *next;
} kept_lists;

typedef struct reduce_piece {
  late_piece head;
  tsr__all_reduce ask;
  tsr__pieces pieces;
  late_program program;
  tsr__traffic *traffic;
  kept_lists *lists;
} reduce_piece;

static void *list_new(reduce_piece *r, size_t bytes)
{
  kept_lists *list = calloc(1, sizeof *list + bytes);
  if (!list) abort();
  list->next = r->lists;
  r->lists = list;
  return list + 1;
}

static void *list_copy(reduce_piece *r, const void *from, int count, size_t size)
{
  size_t bytes = (size_t)count * size;
  if (!from) return NULL;
  return memcpy(list_new(r, bytes), from, bytes);
}

static tsr__buffer *const *const *shadow_lists(reduce_piece *r, tsr__buffer *const *const *from,
                                               int members, int count)
{
  if (!from) return NULL;
  tsr__buffer ***lists = list_new(r, (size_t)members * sizeof *lists);
  for (int m = 0; m < members; m++) {
    lists[m] = list_new(r, (size_t)count * sizeof **lists);
    late_shadow_list(lists[m], list_new(r, (size_t)count * sizeof(tsr__buffer)), from[m], count);
  }
  return (tsr__buffer *const *const *)lists;
}

static tsr__partial *const *const *partial_lists(reduce_piece *r, const tsr__all_reduce *ask)
{
  tsr__partial ***lists = list_new(r, (size_t)ask->member_count * sizeof *lists);
  for (int m = 0; m < ask->member_count; m++) {
    lists[m] = list_new(r, (size_t)ask->accum_count * sizeof **lists);
    late_hidden_partials(lists[m], ask->partials[m], ask->accum_count);
  }
  return (tsr__partial *const *const *)lists;
}

static const tsr__pieces *keep_pieces(reduce_piece *r, const tsr__pieces *from, int members)
{
  if (!from) return NULL;
  r->pieces = *from;
  r->pieces.of_member = list_copy(r, from->of_member, members, sizeof *from->of_member);
  r->pieces.first = list_copy(r, from->first, members, sizeof *from->first);
  r->pieces.next = list_copy(r, from->next, members, sizeof *from->next);
  return &r->pieces;
}

static void do_reduce(late_piece *p)
{
  reduce_piece *r = (reduce_piece *)p;
  tsr__cpu_all_reduce(&r->ask, r->traffic, p->error);
}

static void end_reduce(late_piece *p)
{
  reduce_piece *r = (reduce_piece *)p;
  for (kept_lists *next, *l = r->lists; l; l = next) {
    next = l->next;
    free(l);
  }
  free(r->program.params);
}

tsr_status late_all_reduce(const tsr__all_reduce *ask, tsr__traffic *traffic, tsr__error *error)
{
  int members = ask->member_count, finals = ask->final_count;
  reduce_piece *r = late_piece_new(sizeof *r, do_reduce);
  r->head.end = end_reduce;
  r->head.error = error;
  r->traffic = traffic;
  r->ask = *ask;
  r->ask.rt = late_hidden(ask->rt);
  late_keep_program(&r->program, ask->program);
  r->ask.program = &r->program.program;
  r->ask.pieces = keep_pieces(r, ask->pieces, members);
  r->ask.devices = list_copy(r, ask->devices, members, sizeof *ask->devices);
  r->ask.accums = list_copy(r, ask->accums, ask->accum_count, sizeof *ask->accums);
  r->ask.partials = partial_lists(r, ask);
  r->ask.elements = shadow_lists(r, ask->elements, members, ask->accum_count);
  r->ask.outputs = shadow_lists(r, ask->outputs, members, finals);
  r->ask.finals = list_copy(r, ask->finals, finals, sizeof *ask->finals);
  r->ask.out_counts = list_copy(r, ask->out_counts, finals, sizeof *ask->out_counts);
  r->ask.populations = list_copy(r, ask->populations, finals, sizeof *ask->populations);
  late_meet(ask->rt, r->ask.devices, members, &r->head);
  return TSR_OK;
}
