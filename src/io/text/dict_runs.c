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
#include "io/text/dict_inner.h"

#include <stdlib.h>

enum {
  RUN_TEXTS = 1 << 14,
  BLOCK_LEAST = 1 << 16, /* bytes of the first block, */
  BLOCK_MOST = 1 << 22,  /* and of one, unless a single text is longer: large pages hold it */
  PAUSE = 1 << 20,       /* texts that are added unseen until it is tried again, */
  AGAIN = 1 << 14,       /* with so many: tables of what does not repeat take memory */
  MIXED = 100,
  WORD = 16 /* readable behind each text that comes with others */
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
  local->came += count;
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

/* The last run takes the block over, so that it goes when that run is done with. */
void tsr__dict_leave_block(tsr__dict_local *local)
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
  tsr__dict_leave_block(local);
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
  bool fits = run && room && !local->broken && run->count < RUN_TEXTS &&
              tsr__text_run_bytes(run) + length <= UINT32_MAX;
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

/* Texts of one run in a block with room for all, and for what a copy of whole words writes behind
 * the last; false: they must go one by one. */
static bool append_some(tsr__dict_local *local, const tsr__text_span *texts, int count,
                        int32_t *codes)
{
  tsr__text_run *run = local->run_count ? &local->runs[local->run_count - 1] : NULL;
  size_t bytes = WORD;
  for (int i = 0; i < count; i++) bytes += texts[i].length;
  if (!run || !local->block || local->broken || run->count + count > RUN_TEXTS ||
      local->run_texts > INT32_MAX - 1 - count)
    return false;
  size_t taken = local->block_used + (local->block_ends + (size_t)count) * sizeof *run->ends;
  /* In a block as large as that an end may be beyond what it can say. */
  if (taken > local->block_size || bytes > local->block_size - taken ||
      local->block_size > UINT32_MAX)
    return false;
  char *to = local->block + local->block_used;
  uint32_t *ends = run->ends - run->count;
  for (int i = 0; i < count; i++) {
    for (size_t at = 0; at < texts[i].length; at += WORD) memcpy(to + at, texts[i].at + at, WORD);
    to += texts[i].length;
    ends[-i] = (uint32_t)(to - run->bytes);
    codes[i] = INT32_MIN | (local->run_texts + i);
  }
  run->count += count;
  local->block_used = (size_t)(to - local->block);
  local->block_ends += (size_t)count;
  local->run_texts += count;
  local->bytes += (int64_t)(bytes - WORD);
  local->latest = local->now;
  return true;
}

void tsr__dict_append_all(tsr__dict_local *local, const tsr__text_span *texts, int count,
                          int32_t *codes)
{
  if (append_some(local, texts, count, codes)) return;
  for (int i = 0; i < count && !local->failed; i++)
    codes[i] = tsr__dict_append(local, texts[i].at, texts[i].length);
}

int32_t tsr__dict_append(tsr__dict_local *local, const char *text, size_t length)
{
  /* The number behind the sign bit must not make it -1, which stands for a failure. */
  if (local->run_texts >= INT32_MAX - 1) return fail(local);
  tsr__text_run *run = run_for(local, length);
  if (!run) return fail(local);
  size_t from = tsr__text_run_bytes(run);
  if (length) memcpy(run->bytes + from, text, length);
  local->block_used += length;
  local->bytes += (int64_t)length;
  local->block_ends++;
  run->ends[-run->count++] = (uint32_t)(from + length);
  local->latest = local->now;
  return INT32_MIN | local->run_texts++;
}

void tsr__text_run_drop(tsr__heap *heap, tsr__text_run *run)
{
  tsr__del_once(heap, run->block, run->block_size);
  run->block = NULL;
}

void tsr__dict_use_again(tsr__dict_local *local)
{
  local->block_used = local->block_ends = 0;
  local->broken = true;
}

void tsr__dict_runs_free(tsr__dict_local *local)
{
  for (int32_t r = 0; r < local->run_count; r++) tsr__text_run_drop(local->heap, &local->runs[r]);
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
