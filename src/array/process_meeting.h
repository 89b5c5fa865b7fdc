/* Inside array/: calls at which all processes meet. What one of them finds wrong ends the call on
 * all, so that arrays are inert everywhere or nowhere. */
#ifndef TSR_ARRAY_PROCESS_MEETING_H
#define TSR_ARRAY_PROCESS_MEETING_H

#include "array/array_room.h"

typedef struct tsr__together {
  const char *what; /* the call's name */
  tsr_runtime *rt;
  tsr__peers *peers; /* NULL: this process is alone */
  int own, count;
  tsr__peers_note *notes; /* [process]; of the last tell */
  char said[160];         /* of the call, to others */
  tsr__error error;
} tsr__together;

/* Comes to the call; every one needs an end, whatever it returns. `what` "": it only tells that it
 * fails. */
tsr_status tsr__together_begin(tsr__together *t, tsr_runtime *rt, const char *what,
                               const char *site);
/* The same of a call with arguments that all must give alike: `how` is told behind its name,
 * " of process 1". */
tsr_status tsr__together_begin_as(tsr__together *t, tsr_runtime *rt, const char *what,
                                  const char *how, const char *site);
/* The same where the call fails in this process before it could come: `status`, as the scope of `a`
 * says. Others that failed in evaluating it, which all do together, know. Returns `status`. */
tsr_status tsr__together_refuse(tsr_array *a, tsr_status status, const char *site);
/* Tells `size` bytes, and reads what all tell in t->notes until the next tell or end. */
tsr_status tsr__together_tell(tsr__together *t, const void *mine, size_t size);
/* Ends the call with this process's status, t->error being its text: TSR_OK where all have that. */
tsr_status tsr__together_end(tsr__together *t, tsr_status status);

/* Takes the call's name from the front of a text, where it will be put again. */
void tsr__unname(tsr__error *error, const char *what);

/* Copies what lies in one block of host memory to the parts of a value that are here, or back: the
 * block is that of this process (topology/portions.h), but along dims whose bit in `whole` is set,
 * where it is as long as the array. TSR_ECANCELLED, TSR_ENOMEM. */
typedef struct tsr__host_block {
  tsr__value *value;
  void *data;
  const tsr_shape *shape;
  unsigned whole;
} tsr__host_block;
tsr_status tsr__block_to_value(const tsr__host_block *block, tsr__error *error);
tsr_status tsr__block_from_value(const tsr__host_block *block, tsr__error *error);

/* Whether an array lies on a mesh that other processes know of. */
static inline bool tsr__lies_shared(const tsr_sharding *sharding)
{
  return sharding->mesh && !sharding->mesh->own;
}

#endif
