/* Records that could not be read when a stage looked at all of them, and are bad for good.
 *
 *   below   r0  r1  r2  r3          r2 could not be read, for whatever reason
 *   above   r0  r1   x  r3          an error each time, the one that there was
 *
 * What a stage found out of the others holds for them alone: a record that can be read later would
 * come past a filter that never saw it. */
#include "pipeline/permute.h"
#include "pipeline/stage.h"

typedef struct unread_source {
  tsr_source source;
  tsr__unread_list bad;
} unread_source;

bool tsr__unread_add(tsr__unread_list *list, int64_t record, tsr_status status, const char *text)
{
  size_t size = strlen(text) + 1;
  char *own = tsr__new_raw(list->heap, size);
  bool room = own && tsr__grow(list->heap, (void **)&list->at, &list->room, list->count + 1,
                               sizeof *list->at);
  if (!room) tsr__del(list->heap, own, size);
  else list->at[list->count++] = (tsr__unread){ record, status, memcpy(own, text, size) };
  return room;
}

void tsr__unread_free(tsr__unread_list *list)
{
  for (size_t i = 0; i < list->count; i++)
    tsr__del(list->heap, list->at[i].text, strlen(list->at[i].text) + 1);
  tsr__del(list->heap, list->at, list->room * sizeof *list->at);
  list->at = NULL;
  list->count = list->room = 0;
}

/* The bad record at a position; NULL: it is none. */
static const tsr__unread *find_bad(const tsr__unread_list *bad, int64_t record)
{
  size_t low = 0, high = bad->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (bad->at[middle].record < record) low = middle + 1;
    else high = middle;
  }
  return low < bad->count && bad->at[low].record == record ? &bad->at[low] : NULL;
}

static const tsr__unread *first_bad(const tsr_source *source, const tsr__ask_rows *ask)
{
  const tsr__unread_list *list = &((const unread_source *)source)->bad;
  const tsr__unread *bad = NULL;
  for (int64_t i = 0; i < ask->count && !bad; i++) bad = find_bad(list, ask->at[i]);
  return bad;
}

static tsr_status read_unread(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const tsr__unread *bad = first_bad(source, ask);
  if (bad) return tsr__error_set(error, bad->status, "%s", bad->text);
  return tsr__records_read(source->children[0], ask, error);
}

static void ids_unread(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                       int64_t *to)
{
  tsr__records_ids(source->children[0], epoch, at, count, to);
}

static bool lend_unread(const tsr_source *source, int column, const tsr__ask_rows *ask,
                        const char **to)
{
  return !first_bad(source, ask) && tsr__records_lend(source->children[0], column, ask, to);
}

static void about_unread(const tsr_source *source, tsr__text *out)
{
  const tsr__unread_list *bad = &((const unread_source *)source)->bad;
  uint64_t hash = 0;
  for (size_t i = 0; i < bad->count; i++) hash = tsr__mix(hash, (uint64_t)bad->at[i].record);
  tsr__text_add(out, "%zu, %016llx", bad->count, (unsigned long long)hash);
}

static void release_unread(tsr_source *source)
{
  tsr__unread_free(&((unread_source *)source)->bad);
}

static const tsr__records_ops unread_ops = { "unread",       read_unread, ids_unread, about_unread,
                                             release_unread, lend_unread, NULL };

tsr_source *tsr__unread_over(tsr_source *source, tsr__unread_list *list, const char *site)
{
  if (!list->count) return source;
  tsr_source *made =
      tsr__records_over(source, "tsr_source", &unread_ops, sizeof(unread_source), site);
  if (made->inert) {
    tsr__unread_free(list);
    return made;
  }
  ((unread_source *)made)->bad = *list;
  tsr__records_follow(made, source);
  made->fitted = source->fitted;
  made->fit = source->fit;
  made->fit_column = source->fit_column;
  return made;
}
