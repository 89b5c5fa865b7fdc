/* Texts that are added unseen: what does not repeat is not worth a look-up.
 *
 *   run 0 of rows 0 ..          run 1 of rows 900 ..
 *   bytes  k7k2k9               bytes  z1z10
 *   ends   2 4 6                ends   2 5          codes  0 1 2 3 4, each with the sign bit
 *
 *   block  k7k2k9z1z10 ...... 5 2 6 4 2             runs lie in blocks: bytes in front, ends behind
 *
 * A local may do both in turn. Runs lie in the order of their rows, and no text of another local is
 * of a row between theirs (the user says where rows are left out by `broken`): so runs and entries
 * are merged by their first rows, and a list's texts stand in the order of the file.
 *
 * Invariant: a block is about as large as those before it together, and never very large, so that
 * what is reserved and not used is little beside what is; nothing in a block moves. */
#include "io/text/dict.h"

#include <stdlib.h>

enum {
  RUN_TEXTS = 1 << 14,
  BLOCK_LEAST = 1 << 16, /* bytes of the first block, */
  BLOCK_MOST = 1 << 22,  /* and of one, unless a single text is longer: large pages hold it */
  PAUSE = 1 << 20,       /* texts that are added unseen until it is tried again, */
  AGAIN = 1 << 14,       /* with so many: tables of what does not repeat take memory */
  MIXED = 100
};

tsr__text_layout tsr__text_layout_asked(void)
{
  const char *asked = getenv("TSR_TEXTS");
  if (!asked) return TSR__TEXTS_CHOSEN;
  if (!strcmp(asked, "codes")) return TSR__TEXTS_CODES;
  if (!strcmp(asked, "views")) return TSR__TEXTS_VIEWS;
  return strcmp(asked, "mixed") ? TSR__TEXTS_CHOSEN : TSR__TEXTS_MIXED;
}

bool tsr__dict_decide(tsr__dict_local *local, int count)
{
  bool mixed = local->layout == TSR__TEXTS_MIXED;
  if (local->layout == TSR__TEXTS_VIEWS) return local->unseen = true;
  if (local->unseen) {
    /* Entries of one row with a run's would come before it: so it waits for another. */
    if (local->asked >= (mixed ? MIXED : PAUSE) && local->now > local->latest) {
      local->unseen = false;
      local->broken = true;
      local->asked = 0;
      local->had = local->count;
    }
  } else if (local->asked >= (mixed ? MIXED : local->run_count ? AGAIN : TSR__TEXTS_TRIAL)) {
    /* Three of four were new: a table of them costs more than it saves. */
    int64_t met = (int64_t)local->count - local->had;
    local->unseen = mixed || met * 4 > local->asked * 3;
    local->asked = 0;
    local->had = local->count;
  }
  local->asked += count;
  return local->unseen;
}

static int32_t fail(tsr__dict_local *local)
{
  local->failed = true;
  return -1;
}

static size_t used(const tsr__text_run *run)
{
  return run->count ? run->ends[1 - run->count] : 0;
}

/* The last run takes the block over, so that it goes when that run is done with. */
static void leave_block(tsr__dict_local *local)
{
  if (local->block_ends) {
    local->runs[local->run_count - 1].block = local->block;
    local->runs[local->run_count - 1].block_size = local->block_size;
  } else {
    tsr__del_once(local->heap, local->block, local->block_size);
  }
  local->block = NULL;
  local->block_used = local->block_ends = 0;
}

static bool open_block(tsr__dict_local *local, size_t need)
{
  size_t size = local->block_size * 2;
  if (size < BLOCK_LEAST) size = BLOCK_LEAST;
  if (size > BLOCK_MOST) size = BLOCK_MOST;
  /* Whole ends lie at its back. */
  if (size < need) size = (need + 63) & ~(size_t)63;
  leave_block(local);
  local->block = tsr__new_once(local->heap, size);
  local->block_size = local->block ? size : 0;
  return local->block != NULL;
}

/* The run that a text of a length goes to, in whose block there is room for it; NULL out of
 * memory. */
static tsr__text_run *run_for(tsr__dict_local *local, size_t length)
{
  tsr__text_run *run = local->run_count ? &local->runs[local->run_count - 1] : NULL;
  size_t need = length + sizeof *run->ends;
  size_t taken = local->block_used + local->block_ends * sizeof *run->ends;
  bool room = local->block && local->block_size - taken >= need;
  bool fits =
      run && room && !local->broken && run->count < RUN_TEXTS && used(run) + length <= UINT32_MAX;
  local->broken = false;
  if (fits) return run;
  if (!room && !open_block(local, need)) return NULL;
  if (!tsr__grow(local->heap, (void **)&local->runs, &local->run_room, (size_t)local->run_count + 1,
                 sizeof *run))
    return NULL;
  uint32_t *back = (uint32_t *)(void *)(local->block + local->block_size);
  run = &local->runs[local->run_count++];
  *run = (tsr__text_run){ .first = local->now,
                          .at = local->run_texts,
                          .bytes = local->block + local->block_used,
                          .ends = back - 1 - local->block_ends };
  return run;
}

int32_t tsr__dict_append(tsr__dict_local *local, const char *text, size_t length)
{
  /* The number behind the sign bit must not make it -1, which stands for a failure. */
  if (local->run_texts >= INT32_MAX - 1) return fail(local);
  tsr__text_run *run = run_for(local, length);
  if (!run) return fail(local);
  size_t from = used(run);
  if (length) memcpy(run->bytes + from, text, length);
  local->block_used += length;
  local->block_ends++;
  run->ends[-run->count++] = (uint32_t)(from + length);
  local->latest = local->now;
  return INT32_MIN | local->run_texts++;
}

static void free_run(tsr__heap *heap, tsr__text_run *run)
{
  tsr__del_once(heap, run->block, run->block_size);
  run->block = NULL;
}

void tsr__dict_runs_free(tsr__dict_local *local)
{
  for (int32_t r = 0; r < local->run_count; r++) free_run(local->heap, &local->runs[r]);
  tsr__del_once(local->heap, local->block, local->block_size);
  tsr__del(local->heap, local->runs, local->run_room * sizeof *local->runs);
}

/* Whether a text is one of a run's. */
static bool holds(const tsr__text_run *run, int32_t text)
{
  return text >= run->at && text - run->at < run->count;
}

/* The run of a text, by bisection. */
static int32_t run_of(const tsr__dict_local *local, int32_t text)
{
  int32_t low = 0, high = local->run_count;
  while (high - low > 1) {
    int32_t middle = low + (high - low) / 2;
    if (local->runs[middle].at <= text) low = middle;
    else high = middle;
  }
  return low;
}

tsr__text_span tsr__dict_local_text(const tsr__dict_local *local, int32_t code)
{
  if (code >= 0) {
    const tsr__dict_entry *entry = &local->entries[code];
    return (tsr__text_span){ entry->text, entry->key.length };
  }
  /* Who asks does so of texts that it has just added. */
  int32_t text = code & INT32_MAX, last = local->run_count - 1;
  const tsr__text_run *run = &local->runs[last];
  if (!holds(run, text)) run = &local->runs[run_of(local, text)];
  int32_t i = text - run->at;
  size_t from = i ? run->ends[1 - i] : 0;
  return (tsr__text_span){ run->bytes + from, run->ends[-i] - from };
}

int32_t tsr__dict_run_code(const tsr__dict_local *local, int32_t text, int32_t *run)
{
  if (!holds(&local->runs[*run], text)) *run = run_of(local, text);
  return local->runs[*run].code + (text - local->runs[*run].at);
}

/* ---- one list ------------------------------------------------------------------------------ */

static int by_row(const void *left, const void *right)
{
  const tsr__text_run *a = *(tsr__text_run *const *)left, *b = *(tsr__text_run *const *)right;
  /* Within a row, and in what has one number for many rows, by when they were begun. */
  if (a->first == b->first) return a->at < b->at ? -1 : a->at > b->at;
  return a->first < b->first ? -1 : 1;
}

/* A list being filled. */
typedef struct filling {
  tsr__dict *dict;
  const tsr__dict_local *all;
  int32_t *place;
  int32_t count, entry; /* texts that are there, and entries of `all` among them */
  int64_t bytes;
} filling;

static void put(filling *f, const char *text, size_t length)
{
  if (length) memcpy(f->dict->bytes + f->bytes, text, length);
  f->bytes += (int64_t)length;
  f->dict->offsets[++f->count] = f->bytes;
}

/* Entries that were first met before a row, or in it. */
static void put_entries(filling *f, int64_t row)
{
  for (; f->entry < f->all->count && f->all->entries[f->entry].first <= row; f->entry++) {
    const tsr__dict_entry *entry = &f->all->entries[f->entry];
    size_t length = entry->key.length;
    f->place[f->entry] = f->count;
    put(f, length <= 16 ? (const char *)&entry->key : entry->text, length);
  }
}

static void put_run(filling *f, tsr__heap *heap, tsr__text_run *run)
{
  size_t bytes = used(run);
  if (bytes) memcpy(f->dict->bytes + f->bytes, run->bytes, bytes);
  run->code = f->count;
  for (int32_t i = 0; i < run->count; i++)
    f->dict->offsets[f->count + 1 + i] = f->bytes + run->ends[-i];
  f->count += run->count;
  f->bytes += (int64_t)bytes;
  /* At once, so that the texts do not lie twice in memory when the last are copied. */
  free_run(heap, run);
}

/* The runs of all locals in the order of their rows; each row is of one local. */
static tsr__text_run **sort_runs(tsr__heap *heap, tsr__dict_local **locals, int count, size_t *runs)
{
  size_t at = 0;
  *runs = 0;
  for (int l = 0; l < count; l++) *runs += (size_t)locals[l]->run_count;
  tsr__text_run **run = tsr__new_raw(heap, (*runs + 1) * sizeof *run);
  for (int l = 0; run && l < count; l++) leave_block(locals[l]);
  for (int l = 0; run && l < count; l++)
    for (int32_t r = 0; r < locals[l]->run_count; r++) run[at++] = &locals[l]->runs[r];
  if (run && count > 1) qsort(run, *runs, sizeof *run, by_row);
  return run;
}

/* A list with room for all; NULL: too many, or out of memory. */
static tsr__dict *room_for_all(const tsr__dict_local *all, tsr__text_run *const *run, size_t runs)
{
  int64_t texts = all->count, bytes = 0;
  for (int32_t e = 0; e < all->count; e++) bytes += all->entries[e].key.length;
  for (size_t r = 0; r < runs; r++) {
    texts += run[r]->count;
    bytes += (int64_t)used(run[r]);
  }
  if (texts > INT32_MAX) return NULL;
  return tsr__dict_new(all->heap, (int32_t)texts, bytes);
}

tsr__dict *tsr__dict_join(const tsr__dict_local *all, tsr__dict_local **locals, int count,
                          int32_t *place)
{
  tsr__heap *heap = all->heap;
  size_t runs = 0;
  tsr__text_run **run = sort_runs(heap, locals, count, &runs);
  if (!run) return NULL;
  filling f = { .all = all, .place = place, .dict = room_for_all(all, run, runs) };
  if (f.dict) f.dict->repeats = true;
  for (size_t r = 0; f.dict && r < runs; r++) {
    if (all->progress && tsr__progress_stops(all->progress, all->worker)) {
      tsr__dict_release(f.dict);
      f.dict = NULL;
      break;
    }
    put_entries(&f, run[r]->first);
    put_run(&f, heap, run[r]);
  }
  if (f.dict) put_entries(&f, INT64_MAX);
  tsr__del(heap, run, (runs + 1) * sizeof *run);
  return f.dict;
}
