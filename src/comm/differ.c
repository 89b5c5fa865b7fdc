/* What differs where processes do not do the same: each says in lines what it was about to do, and
 * the first line that is not alike in all is named.
 *
 *    process 0   lines  a  b  c        told: their hashes      1 2 3
 *    process 1          a  x  c                                1 7 3
 *                                      line 1 differs: told in full, and both are named
 *
 * It is done in a run of its own, behind the END of the one in which they differ: nothing of it is
 * there where all are alike. */
#include "comm/peers_room.h"

#include <stdio.h>

enum { LINE = 200 }; /* bytes of a line that are told */

/* What a process tells of its line that differs; without a text, nothing. */
typedef struct told {
  uint64_t hash; /* of what, without the site */
  char text[LINE];
} told;

/* Who failed before it could begin says 0, and differs from nobody. */
bool tsr__peers_differ(const tsr__peers *peers)
{
  int at = (int)(peers->run & 1);
  uint64_t first = 0;
  for (int p = 0; p < peers->start.count; p++) {
    uint64_t one = head_of(peers, p)->fingerprint[at];
    if (one && first && one != first) return true;
    if (one) first = one;
  }
  return false;
}

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct line {
  const char *at;
  size_t length; /* up to its end, with the site */
  size_t what;   /* up to the site */
} line;

/* The next line of a text; false behind the last. */
static bool next_line(const char **text, line *out)
{
  const char *at = *text, *end = strchr(at, '\n');
  if (!end) return false;
  const char *site = memchr(at, '\t', (size_t)(end - at));
  *out = (line){ at, (size_t)(end - at), (size_t)((site ? site : end) - at) };
  *text = end + 1;
  return true;
}

static size_t count_lines(const char *text)
{
  size_t count = 0;
  for (line one; next_line(&text, &one);) count++;
  return count;
}

static uint64_t hash_line(const line *one)
{
  uint64_t hash = tsr__hash(one->at, one->what, 1);
  return hash ? hash : 1;
}

/* "what at site", as much of it as fits. */
static void put_line(const line *from, told *out)
{
  const char *at = from->at;
  size_t what = from->what, site = from->length > what ? from->length - what - 1 : 0;
  for (; what && *at == ' '; what--) at++;
  if (what > LINE / 2) what = LINE / 2;
  if (site > LINE / 2 - 8) site = LINE / 2 - 8;
  snprintf(out->text, LINE, "%.*s%s%.*s", (int)what, at, site ? " at " : "", (int)site,
           from->at + from->what + 1);
  tsr__text_tame(out->text);
  out->hash = hash_line(from);
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The first line that is not alike in all who have lines; SIZE_MAX: there is none. One that has no
 * such line differs from those that have. */
static size_t first_difference(const tsr__peers *peers, const tsr__peers_note *all)
{
  size_t most = 0;
  for (int p = 0; p < peers->start.count; p++)
    if (all[p].size / sizeof(uint64_t) > most) most = all[p].size / sizeof(uint64_t);
  for (size_t i = 0; i < most; i++) {
    const uint64_t *first = NULL;
    for (int p = 0; p < peers->start.count; p++) {
      static const uint64_t none = 0;
      bool has = i < all[p].size / sizeof none;
      const uint64_t *one = has ? (const uint64_t *)all[p].data + i : &none;
      if (!all[p].size) continue;
      if (first && memcmp(first, one, sizeof *one) != 0) return i;
      first = one;
    }
  }
  return SIZE_MAX;
}

/* The line of the first one that differs from this process's, beside that. */
static void name_both(const tsr__peers *peers, const tsr__peers_note *all, char *out, size_t size)
{
  told mine, theirs;
  memcpy(&mine, all[peers->start.index].data, sizeof mine);
  for (int p = 0; p < peers->start.count && *mine.text; p++) {
    memcpy(&theirs, all[p].data, sizeof theirs);
    if (!*theirs.text || theirs.hash == mine.hash) continue;
    snprintf(out, size, "process %d is at %s, process %d is at %s", peers->start.index, mine.text,
             p, theirs.text);
    return;
  }
}

/* Two gatherings, whatever is found: all processes come to both. */
static tsr_status find(tsr__peers *peers, const char *lines, uint64_t *hashes, tsr__peers_note *all,
                       tsr__error *error)
{
  size_t count = 0;
  told mine = { .hash = 0 };
  const char *text = lines;
  for (line one; next_line(&text, &one);) hashes[count++] = hash_line(&one);
  if (tsr__peers_gather(peers, hashes, count * sizeof *hashes, all, error)) return error->status;
  size_t differs = first_difference(peers, all);
  if (count && differs < SIZE_MAX) snprintf(mine.text, LINE, "the end of its program");
  text = lines;
  for (line one; differs < count && next_line(&text, &one); differs--)
    if (!differs) {
      put_line(&one, &mine);
      break;
    }
  return tsr__peers_gather(peers, &mine, sizeof mine, all, error);
}

tsr_status tsr__peers_name_difference(tsr__peers *peers, char *out, size_t size, tsr__error *error)
{
  tsr__text lines;
  tsr__text_init(&lines, peers->heap);
  for (int i = 0; i < 2; i++)
    if (peers->lines[i].fn) peers->lines[i].fn(peers->lines[i].user, &lines);
  size_t count = count_lines(tsr__text_get(&lines)), bytes = (count + 1) * sizeof(uint64_t);
  size_t note_bytes = (size_t)peers->start.count * sizeof(tsr__peers_note);
  uint64_t *hashes = tsr__new(peers->heap, bytes);
  tsr__peers_note *all = tsr__new(peers->heap, note_bytes);
  tsr_status status = TSR_OK;
  if (!hashes || !all || lines.failed)
    status = tsr__error_set(error, TSR_ENOMEM, "no memory to name the difference");
  else status = find(peers, tsr__text_get(&lines), hashes, all, error);
  if (!status) name_both(peers, all, out, size);
  tsr__text_free(&lines);
  tsr__del(peers->heap, hashes, bytes);
  tsr__del(peers->heap, all, note_bytes);
  return status;
}
