/* A call of all processes is one run: they enter it, tell each other, and leave it with one status.
 * A process that is alone tells itself. */
#include "array/process_meeting.h"

#include "graph/leaves.h"

tsr_status tsr__together_begin(tsr__together *t, tsr_runtime *rt, const char *what,
                               const char *site)
{
  *t = (tsr__together){ .what = what, .rt = rt, .peers = tsr__peers_of(rt), .count = 1 };
  if (t->peers) {
    const tsr__peers_work work = { *what ? tsr__hash(what, strlen(what), 0) : 0, what, site };
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
  return tsr__error_set(&t->error, TSR_ENOMEM, "no memory to meet other processes");
}

tsr_status tsr__together_tell(tsr__together *t, const void *mine, size_t size)
{
  if (t->peers) return tsr__peers_gather(t->peers, mine, size, t->notes, &t->error);
  t->notes[0] = (tsr__peers_note){ mine, size };
  return TSR_OK;
}

tsr_status tsr__together_end(tsr__together *t, tsr_status status)
{
  if (t->notes) tsr__del(&t->rt->heap, t->notes, (size_t)t->count * sizeof *t->notes);
  t->notes = NULL;
  return t->peers ? tsr__peers_leave(t->peers, status, &t->error) : status;
}

void tsr__unname(tsr__error *error, const char *what)
{
  size_t length = strlen(what);
  if (strncmp(error->text, what, length) != 0 || strncmp(error->text + length, ": ", 2) != 0)
    return;
  memmove(error->text, error->text + length + 2, strlen(error->text + length + 2) + 1);
}

/* Whether all processes evaluate something of a tree together. */
static bool some_shared(const tsr_array *a)
{
  if (!tsr__is_tree(a)) return tsr__is_shared(a);
  for (int i = 0; i < a->in_count; i++)
    if (some_shared(a->in[i])) return true;
  return false;
}

tsr_status tsr__together_refuse(tsr_array *a, const char *what, tsr_status status, const char *site)
{
  tsr__together meet;
  tsr_scope *scope = a->node.scope;
  if (!scope || some_shared(a)) return status;
  if (!tsr__together_begin(&meet, scope->rt, what, site))
    tsr__error_set(&meet.error, status, "%s", tsr_message(tsr__home(a)));
  tsr__together_end(&meet, status);
  return status;
}
