/* Dictionaries of processes that read a source together, each some of its rows.
 *
 *   process 0   EWR row 0, JFK row 3          EWR JFK BOS LGA       one dictionary, the same on all
 *   process 1   BOS row 500, JFK row 501, LGA row 502
 *
 * Invariant: codes follow the rows where texts were first met, so who read which rows cannot show
 * in them. */
#include "io/rows/rows_together.h"

static tsr_status no_memory(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "no memory for the texts that several processes read");
}

/* What a process tells of its texts:   | count, 0 | first row, length | ... | bytes, one after the
 * other. */
typedef struct told_text {
  int64_t first, length;
} told_text;

/* The texts of all locals of this process, each once, in the order of their first rows: `own` is of
 * them, and the locals' codes are its. NULL: no memory. */
static char *pack_texts(tsr__heap *heap, tsr__dict_local **locals, int count, const tsr__dict *own,
                        size_t *size)
{
  size_t texts = (size_t)own->count, bytes = (size_t)own->offsets[texts];
  *size = (texts + 1) * sizeof(told_text) + bytes;
  told_text *told = tsr__new_raw(heap, *size);
  if (!told) return NULL;
  told_text *text = told + 1;
  *told = (told_text){ own->count, 0 };
  for (size_t i = 0; i < texts; i++)
    text[i] = (told_text){ INT64_MAX, own->offsets[i + 1] - own->offsets[i] };
  for (int l = 0; l < count; l++)
    for (int32_t e = 0; e < locals[l]->count; e++) {
      const tsr__dict_entry *entry = &locals[l]->entries[e];
      if (entry->first < text[entry->code].first) text[entry->code].first = entry->first;
    }
  memcpy(text + texts, own->bytes, bytes);
  return (char *)told;
}

/* A process's texts as a local dictionary, whose bytes are borrowed; false: no memory. */
static bool take_texts(const tsr__peers_note *note, tsr__dict_local *out)
{
  const told_text *told = note->data;
  const char *at = (const char *)(told + 1 + told->first);
  bool added;
  for (int64_t i = 1; i <= told->first; i++) {
    out->now = told[i].first;
    if (tsr__dict_code(out, at, (size_t)told[i].length, false, &added) < 0) return false;
    at += told[i].length;
  }
  return true;
}

/* Codes of this process's own texts become those of all. */
static void recode(tsr__dict_local **locals, int count, const tsr__dict_local *own)
{
  for (int l = 0; l < count; l++) {
    locals[l]->recoded = false;
    for (int32_t e = 0; e < locals[l]->count; e++) {
      tsr__dict_entry *entry = &locals[l]->entries[e];
      entry->code = own->entries[entry->code].code;
      locals[l]->recoded = locals[l]->recoded || entry->code != e;
    }
  }
}

/* Of what all processes told, of which this one is `own`. */
typedef struct told_all {
  const tsr__peers_note *note;
  int processes, own;
} told_all;

static tsr__dict *unify_notes(tsr__heap *heap, const told_all *all, tsr__dict_local **locals,
                              int count)
{
  int processes = all->processes;
  size_t size = (size_t)processes * (sizeof(tsr__dict_local) + sizeof(tsr__dict_local *));
  tsr__dict_local *of = tsr__new(heap, size);
  tsr__dict *dict = NULL;
  if (!of) return NULL;
  tsr__dict_local **list = (tsr__dict_local **)(of + processes);
  bool fine = true;
  for (int p = 0; p < processes; p++) {
    list[p] = &of[p];
    tsr__dict_local_init(&of[p], heap);
    fine = fine && take_texts(&all->note[p], &of[p]);
  }
  if (fine) dict = tsr__dict_unify(heap, list, processes);
  if (dict) dict->came = TSR__TEXTS_TOLD;
  if (dict) recode(locals, count, &of[all->own]);
  for (int p = 0; p < processes; p++) tsr__dict_local_free(&of[p]);
  tsr__del(heap, of, size);
  return dict;
}

tsr__dict *tsr__dict_together(tsr__peers *peers, tsr__heap *heap, tsr__dict_local **locals,
                              int count, tsr__error *error)
{
  told_all all = { NULL, tsr__peers_count(peers), tsr__peers_index(peers) };
  size_t size = 0, bytes = (size_t)all.processes * sizeof(tsr__peers_note);
  tsr__dict *dict = NULL, *own = tsr__dict_unify(heap, locals, count);
  tsr__peers_note *note = tsr__new(heap, bytes);
  char *mine = own && note ? pack_texts(heap, locals, count, own, &size) : NULL;
  tsr_status status = mine ? TSR_OK : no_memory(error);
  if (!status) status = tsr__peers_gather(peers, mine, size, note, error);
  all.note = note;
  if (!status) dict = unify_notes(heap, &all, locals, count);
  if (!status && !dict) no_memory(error);
  if (note) tsr__del(heap, note, bytes);
  if (mine) tsr__del(heap, mine, size);
  tsr__dict_release(own);
  return dict;
}

tsr_status tsr__nulls_together(tsr__peers *peers, tsr__heap *heap, tsr__read_ask *read,
                               tsr__error *error)
{
  size_t size = (size_t)read->target_count * sizeof(int64_t);
  size_t count = (size_t)tsr__peers_count(peers), bytes = count * sizeof(tsr__peers_note) + size;
  tsr__peers_note *note = tsr__new(heap, bytes);
  if (!note) return no_memory(error);
  int64_t *mine = (int64_t *)(note + count), each;
  for (int t = 0; t < read->target_count; t++) mine[t] = read->targets[t].nulls;
  tsr_status status = tsr__peers_gather(peers, mine, size, note, error);
  for (int t = 0; t < read->target_count && !status; t++) {
    read->targets[t].nulls = 0;
    for (size_t p = 0; p < count; p++) {
      if (note[p].size != size) continue;
      memcpy(&each, (const char *)note[p].data + (size_t)t * sizeof each, sizeof each);
      read->targets[t].nulls += each;
    }
  }
  tsr__del(heap, note, bytes);
  return status;
}
