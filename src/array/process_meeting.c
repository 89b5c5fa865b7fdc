/* A call of all processes is one run: they enter it, tell each other, and leave it with one status.
 * A process that is alone tells itself.
 *
 *   begin    the name of the call is hashed: who calls something else is found out when all meet
 *   tell     each gives some bytes and reads all of them; any number of times
 *   end      the first that failed says why, and that is the status of all
 *
 * Begin and end are pairs even where begin fails, so that callers have one way out. Between them
 * nobody may return early: the others would wait. */
#include "array/process_meeting.h"

#include "graph/leaves.h"

#include <stdio.h>

/* `peers` is NULL from here on where entering failed: the run is over then, and end has nothing to
 * leave. */
tsr_status tsr__together_begin(tsr__together *t, tsr_runtime *rt, const char *what,
                               const char *site)
{
  return tsr__together_begin_as(t, rt, what, "", site);
}

tsr_status tsr__together_begin_as(tsr__together *t, tsr_runtime *rt, const char *what,
                                  const char *how, const char *site)
{
  *t = (tsr__together){ .what = what, .rt = rt, .peers = tsr__peers_of(rt), .count = 1 };
  if (t->peers) {
    size_t length = (size_t)snprintf(t->said, sizeof t->said, "%s%s", what, how);
    uint64_t hash = length ? tsr__hash(how, strlen(how), tsr__hash(what, strlen(what), 0)) : 0;
    const tsr__peers_work work = { hash, length ? t->said : "an error", site, { NULL, NULL } };
    tsr_status status = tsr__peers_enter(t->peers, &work, &t->error);
    if (status) {
      t->peers = NULL; /* it is over */
      return status;
    }
    t->own = tsr__peers_index(t->peers);
    t->count = tsr__peers_count(t->peers);
  }
  t->notes = tsr__new(&rt->heap, (size_t)t->count * sizeof *t->notes);
  if (t->notes) return TSR_OK;
  return tsr__error_set(&t->error, TSR_ENOMEM, "no memory for a round with the other processes");
}

/* Notes are borrowed: of others from memory that they share, of a process alone from the caller. */
tsr_status tsr__together_tell(tsr__together *t, const void *mine, size_t size)
{
  if (t->peers) return tsr__peers_gather(t->peers, mine, size, t->notes, &t->error);
  t->notes[0] = (tsr__peers_note){ mine, size };
  return TSR_OK;
}

/* Notes go before the run is left, as what they point at may change from then on. */
tsr_status tsr__together_end(tsr__together *t, tsr_status status)
{
  if (t->notes) tsr__del(&t->rt->heap, t->notes, (size_t)t->count * sizeof *t->notes);
  t->notes = NULL;
  return t->peers ? tsr__peers_leave(t->peers, status, &t->error) : status;
}

/* Texts of others come with the name of the call in front, and it is put there again with the line
 * of this process's own call. */
void tsr__unname(tsr__error *error, const char *what)
{
  size_t length = strlen(what);
  if (strncmp(error->text, what, length) != 0 || strncmp(error->text + length, ": ", 2) != 0)
    return;
  memmove(error->text, error->text + length + 2, strlen(error->text + length + 2) + 1);
}

/* Whether all processes evaluate something of a tree together. Of such an array all have failed
 * alike and know it; of one that is this process's own they do not. */
static bool some_shared(const tsr_array *a)
{
  if (!tsr__is_tree(a)) return tsr__is_shared(a);
  for (int i = 0; i < a->in_count; i++)
    if (some_shared(a->in[i])) return true;
  return false;
}

tsr_status tsr__together_refuse(tsr_array *a, tsr_status status, const char *site)
{
  tsr__together meet;
  tsr_scope *scope = a->node.scope;
  if (!scope || some_shared(a)) return status;
  if (!tsr__together_begin(&meet, scope->rt, "", site))
    tsr__error_set(&meet.error, status, "%s", tsr_message(tsr__home(a)));
  tsr__together_end(&meet, status);
  return status;
}
