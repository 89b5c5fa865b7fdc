/* Inside the kind "late": queues of pieces of work, and what the pieces of late_devices.c and
 * late_reduces.c have in common. */
#ifndef TESTS_SUPPORT_LATE_QUEUES_H
#define TESTS_SUPPORT_LATE_QUEUES_H

#include "kernel/fallback/fallback.h"

enum { HAS_NUMBER = -1, NO_DEVICE = -2 };

typedef struct late_piece late_piece;
struct late_piece {
  late_piece *next;
  void (*work)(late_piece *p); /* NULL: it waits for, or has, a number */
  void (*end)(late_piece *p);  /* frees what the piece has beside; NULL: nothing */
  tsr__error *error;           /* of the ask, and the runtime's; NULL: it has none */
  int other;                   /* waits for a number of it, or HAS_NUMBER; NO_DEVICE: neither */
  uint64_t number;
  /* Work of several devices, which begins when each has come to it: the piece that each of their
   * queues has for it. `work` is that of `meets`, which is no piece of a queue. */
  late_piece *meets;
  int count; /* of such work: of these queues */
};

/* A program with its numbers, which the next turn of a loop changes. */
typedef struct late_program {
  tsr__program program;
  tsr__num *params;
} late_program;

/* A piece of so many bytes, all of them zero. The thread frees it. */
void *late_piece_new(size_t bytes, void (*work)(late_piece *p));
void late_enqueue(const tsr_runtime *rt, int device, late_piece *p);
/* Queues work of several devices, one of each. */
void late_meet(const tsr_runtime *rt, const int *devices, int count, late_piece *work);
/* The host waits for all that is queued. */
void late_drain(const tsr_runtime *rt);
bool late_is_idle(const tsr_runtime *rt, int device);

/* The runtime whose CPU devices are the memory of the late ones. */
tsr_runtime *late_hidden(const tsr_runtime *rt);
/* Headers of the hidden buffers, and pointers to them; NULL stays NULL. */
void late_shadow_list(tsr__buffer **to, tsr__buffer *shadows, tsr__buffer *const *from, int count);
void late_keep_program(late_program *to, const tsr__program *from);
void late_hidden_partials(tsr__partial **to, tsr__partial *const *from, int count);

/* Entries of the table (late_reduces.c). */
tsr__partial *late_partial_take(tsr_runtime *rt, const tsr__partial_ask *ask, tsr__error *error);
tsr__partial *late_partial_of(const tsr__partial *from, const int64_t *index, int64_t count,
                              tsr__error *error);
void late_partial_free(tsr__partial *partial);
tsr_status late_partial_tell(const tsr__partial *partial, tsr__partial_told *out,
                             tsr__buffer **copy, tsr__error *error);
tsr__partial *late_partial_far(tsr_runtime *rt, const tsr__partial_ask *ask,
                               const tsr__partial_told *told, tsr__error *error);
tsr_status late_all_reduce(const tsr__all_reduce *ask, tsr__traffic *traffic, tsr__error *error);

#endif
