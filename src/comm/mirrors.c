/* What processes of other hosts say and hold, put where it would be seen on one host.
 *
 * Of each host the first process leads: what the others there say it sees in their heads, and with
 * each meeting it sends the leaders of other hosts one note of it all. They put it into heads that
 * lie in their own segment, where the processes of their host look.
 *
 *   host a   0 1 2 3 -> note of leader 0 -> leader 4 -> | head of 4 | heads of 0 1 2 3 |   host b
 *
 * Small notes of a gathering travel along; larger ones, and device memory, each process gets itself
 * into a mirror of its own.
 *
 * A note to another host's leader is a row of what processes say, as many as surely fit; what is
 * left goes in the next:
 *
 *    | far_word | what | text | small || far_word | what | text | small || ...
 *      fixed      as many bytes each as the far_word names, with no NUL behind them
 *
 * Invariant: the head of a far process is written by this host's leader alone, within a call of
 * the engine, which lets in one thread at a time; and in the order that holds on one host: all
 * else first, the word last. */
#include "comm/peers_room.h"

#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>

/* ---- words of other hosts -------------------------------------------------------------------- */

/* What a process says: of a run's first meeting `what`, of its END a failure and numbers, of a
 * gathering the note where it is short. The bytes of these follow. */
typedef struct far_word {
  uint64_t word, fingerprint, note_at, note_size;
  int64_t numbers[TSR__PEERS_NUMBERS];
  int32_t failed, status; /* whose failure, -1: none; and what it is */
  uint32_t process, what, text, note, gathers, unused;
} far_word;

enum {
  /* The most that one process may add to a note: a far_word with the longest of each text. */
  MOST_SAID =
      sizeof(far_word) + sizeof(((head *)0)->what[0]) + SMALL + sizeof(((tsr__error *)0)->text)
};

static size_t put_bytes(char *out, size_t at, const void *from, size_t bytes)
{
  memcpy(out + at, from, bytes);
  return at + bytes;
}

/* Puts what a process of this host says behind `length` bytes.
 * The text of a run is told once, with its first word: the others keep it in their head of that
 * process. A failure is told with the END alone, where one that failed goes at once; no other
 * word carries one. `failed` of a place that is left over from two runs ago names that run, and
 * is passed over. */
static size_t put_word(tsr__peers *peers, int process, uint64_t word, char *out, size_t length)
{
  const head *of = head_of(peers, process);
  int run = (int)(peers->run & 1), at = (int)(word & 1);
  const failure *f = &of->failed[run];
  far_word w = {
    .word = word, .fingerprint = of->fingerprint[run], .failed = -1, .process = (uint32_t)process
  };
  /* A process may come to a word with no note, by parting: then what stands there is an older
   * meeting's, and the far head keeps what it has. */
  w.gathers = of->note_word[at] == word;
  w.note_at = w.gathers ? of->note_at[at] : 0;
  w.note_size = w.gathers ? of->note_size[at] : 0;
  w.note = w.note_size <= SMALL ? (uint32_t)w.note_size : 0;
  w.what = peers->introduced < peers->run ? (uint32_t)strlen(of->what[run]) : 0;
  memcpy(w.numbers, of->numbers[run], sizeof w.numbers);
  if ((w.word & END) == END && atomic_load(&f->run) == peers->run) {
    w.failed = f->process;
    w.status = (int32_t)f->error.status;
    w.text = (uint32_t)strlen(f->error.text);
  }
  peers->told_word[process] = w.word;
  length = put_bytes(out, length, &w, sizeof w);
  length = put_bytes(out, length, of->what[run], w.what);
  length = put_bytes(out, length, f->error.text, w.text);
  return put_bytes(out, length, of->small[at], w.note);
}

/* One note a host, not one a process: there the leader puts it where all of its host look. */
static bool send_leaders(tsr__peers *peers, const char *text, size_t length)
{
  bool sent = true;
  for (int p = 0; p < peers->start.count && length && sent; p++)
    if (peers->all[p].far && peers->all[p].leader == p) {
      sent = tsr__far_send(peers->far, p, (tsr__plugin_note){ text, length });
      peers->moved.notes++;
    }
  return sent;
}

/* `word` is the leader's own, which it has not shown yet: its head still has the one before. The
 * engine delivers notes in the order they were sent, so a process's words come there in their
 * order, too. */
bool tsr__peers_tell(tsr__peers *peers, uint64_t word)
{
  char text[TSR__PLUGIN_NOTE];
  size_t length = 0;
  bool whole = true; /* all of this host are in this run, and say what it is */
  bool sent = true;
  text[0] = '\0'; /* nothing may be said */
  for (int p = 0; p < peers->start.count; p++) {
    if (peers->all[p].far) continue;
    if (length + MOST_SAID > sizeof text) {
      sent = sent && send_leaders(peers, text, length);
      length = 0;
    }
    uint64_t theirs = p == peers->start.index ? word : atomic_load(&head_of(peers, p)->word);
    /* Where a leader failed, others of its host may be in another run than it is: in the one
     * before, of which all is said, or in the next, as they have seen all of this one come to its
     * END. What is said is of the leader's run, so that no failure of it is taken for one of the
     * next. */
    whole = whole && theirs >> MEETING_BITS >= word >> MEETING_BITS;
    if (theirs >> MEETING_BITS < word >> MEETING_BITS) continue;
    if (theirs >> MEETING_BITS > word >> MEETING_BITS) theirs = word;
    length = put_word(peers, p, theirs, text, length);
  }
  sent = sent && send_leaders(peers, text, length);
  if (whole && sent) peers->introduced = peers->run;
  return sent;
}

/* Whether a word is one that the sender may say, whole within so many bytes.
 * A leader may speak for processes of its own host alone. Lengths are checked before anything is
 * copied, and a note's place against the size of its segment, as it is read from there later. A
 * note that is to be fetched may not lie in the first head's bytes; of a short one the bytes
 * have come along. */
static bool is_whole(const tsr__peers *peers, int from, const far_word *w, size_t bytes)
{
  const head *front = NULL;
  if (w->process >= (uint32_t)peers->start.count) return false;
  const segment *of = &peers->all[w->process];
  return of->far && of->leader == from && w->what < sizeof front->what[0] &&
         w->text < sizeof front->failed->error.text && w->note <= SMALL &&
         w->note <= w->note_size && w->note_at <= of->size &&
         w->note_size <= of->size - w->note_at &&
         (w->note == w->note_size || w->note_at >= sizeof *front) &&
         (size_t)w->what + w->text + w->note <= bytes;
}

/* Puts what a process of another host said where it would be seen of one here.
 * The last line shows the word and wakes the sleepers: up to there readers have no business in
 * the places of this run and meeting. */
static void take_one(const tsr__peers *peers, const far_word *w, const char *rest)
{
  head *of = head_of(peers, (int)w->process);
  int run = (int)(w->word >> MEETING_BITS & 1), at = (int)(w->word & 1);
  of->fingerprint[run] = w->fingerprint;
  memcpy(of->numbers[run], w->numbers, sizeof w->numbers);
  if (w->what) snprintf(of->what[run], sizeof of->what[run], "%.*s", (int)w->what, rest);
  rest += w->what;
  /* Once: it may be said again while others here read it. */
  failure *f = &of->failed[run];
  if (w->failed >= 0 && atomic_load(&f->run) != w->word >> MEETING_BITS) {
    f->process = w->failed;
    f->error.status = (tsr_status)w->status;
    snprintf(f->error.text, sizeof f->error.text, "%.*s", (int)w->text, rest);
    atomic_store(&f->run, w->word >> MEETING_BITS);
  }
  rest += w->text;
  /* What a gathering brought stays, as on one host, while others come and go. */
  if (w->gathers) {
    of->note_word[at] = w->word;
    of->note_at[at] = w->note_at;
    of->note_size[at] = w->note_size;
    memcpy(of->small[at], rest, w->note);
  }
  tsr__peers_show(of, w->word);
}

/* Called within the engine, by its thread or by who helps. The far_word is copied out, as
 * nothing says that bytes of a note are aligned. What is no whole word ends the note: behind it
 * no beginning of another can be known. */
void tsr__peers_take_word(void *user, int from, tsr__plugin_note note)
{
  const tsr__peers *peers = user;
  const char *at = note.data, *end = at + note.size;
  if (!leads(peers)) return;
  for (far_word w; (size_t)(end - at) >= sizeof w;) {
    memcpy(&w, at, sizeof w);
    at += sizeof w;
    if (!is_whole(peers, from, &w, (size_t)(end - at))) return;
    take_one(peers, &w, at);
    at += (size_t)w.what + w.text + w.note;
  }
}

/* ---- fetching -------------------------------------------------------------------------------- */

/* `at` lies in a window of the mirror, which says where that is in the segment. It is const
 * to all who read, and written by the engine alone. */
void tsr__peers_get(tsr__peers *peers, int process, const void *at, const tsr__peers_runs *runs)
{
  const window *in = tsr__window_of(&peers->all[process], at);
  TSR_INVARIANT(in != NULL); /* tsr__peers_at gave it */
  const tsr__plugin_get what = { .process = process,
                                 .offset = in->offset + (uint64_t)((const char *)at - in->base),
                                 .into = (void *)(uintptr_t)at,
                                 .size = runs->bytes,
                                 .count = runs->count,
                                 .stride = runs->stride };
  peers->moved.got_bytes += (int64_t)(runs->bytes * runs->count);
  tsr__far_get(peers->far, &what);
}

tsr__peers_sum tsr__peers_moved(const tsr__peers *peers)
{
  return peers->moved;
}

/* Whole pages of what was fetched go back to the machine. Beside them may lie what has come since:
 * notes, whose blocks are not among these.
 * Below the bounds they stay, as the next fetch mostly asks for the same places, and pages that
 * are new cost a fault each. What they hold is old by then, and is overwritten before it is
 * read: nobody reads of a mirror what it has not fetched in this run. */
void tsr__peers_let_go(tsr__peers *peers)
{
  if (peers->mirrored_bytes <= MIRRORED && peers->mirrored_count <= MIRRORED_PIECES) return;
  for (size_t i = 0; i < peers->mirrored_count; i++) {
    const fetched *f = &peers->mirrored[i];
    uintptr_t from = ((uintptr_t)f->at + PAGE - 1) / PAGE * PAGE;
    uintptr_t end = ((uintptr_t)f->at + f->bytes) / PAGE * PAGE;
    if (from < end) madvise((void *)from, end - from, MADV_DONTNEED);
  }
  peers->mirrored_count = 0;
  peers->mirrored_bytes = 0;
}

/* The list has the span from the first byte to the last, with what lies between the runs: pages
 * go back whole. */
static void fetch(tsr__peers *peers, int process, const char *at, const tsr__peers_runs *runs)
{
  size_t bytes = (runs->count - 1) * runs->stride + runs->bytes;
  /* Without memory for the list these pages stay until something is got there again. */
  if (tsr__grow(peers->heap, (void **)&peers->mirrored, &peers->mirrored_room,
                peers->mirrored_count + 1, sizeof *peers->mirrored))
    peers->mirrored[peers->mirrored_count++] = (fetched){ (char *)(uintptr_t)at, bytes };
  peers->mirrored_bytes += bytes;
  tsr__peers_get(peers, process, at, runs);
}

/* Short runs go together, as many as an engine takes at once. */
void tsr__peers_fetch(tsr__peers *peers, int process, const void *at, const tsr__peers_runs *runs)
{
  if (!peers->all[process].far || !runs->bytes) return;
  size_t most = runs->bytes < LONG_RUN ? TSR__PLUGIN_PACKED / runs->bytes : 1;
  for (size_t i = 0; i < runs->count; i += most) {
    size_t count = runs->count - i < most ? runs->count - i : most;
    fetch(peers, process, (const char *)at + i * runs->stride,
          &(tsr__peers_runs){ runs->bytes, count, runs->stride });
  }
}

/* A process that is gone answers nobody. What else went wrong is told if nobody turns out to be.
 * An engine may see that a process is dead before the coordinator has told of it; so after a get
 * in vain this waits a while, at most LOST_MS, for the news that name the process and why.
 * Without one in vain it looks once, between two naps. */
static tsr_status fetch_lost(const tsr__peers *peers, bool in_vain, tsr__error *error)
{
  tsr__error why = { .status = TSR_OK };
  for (int ms = 0; ms == 0 || (in_vain && ms < LOST_MS); ms += NAP_MS) {
    for (int p = 0; p < peers->start.count; p++)
      if (peers->all[p].far && tsr__peers_gone(peers, p, &why))
        return tsr__peers_lost(peers, &why, error);
    if (in_vain) tsr__peers_nap(own(peers), atomic_load(&own(peers)->bell));
  }
  if (!in_vain) return TSR_OK;
  return tsr__error_set(error, TSR_EPEER,
                        "the engine '%s' could not read the memory of a process on another host, "
                        "while this process was in %s",
                        peers->engine, own(peers)->what[peers->run & 1]);
}

/* First this thread drives the engine itself, as long as something comes: each get that came
 * gives it as many turns again. Then it sleeps and leaves the work to the engine's thread, so
 * that a core is free for those who are waited for. It looks itself after each nap: what it did
 * in the engine last may have taken away what that thread sleeps for.
 *
 * One in vain does not end it: what else is under way would come into the mirrors of another run,
 * and the sign that one was in vain be taken for that run's. */
static tsr_status come(tsr__peers *peers, bool *in_vain, tsr__error *error)
{
  tsr__far_begin(peers->far);
  int left = tsr__far_left(peers->far, in_vain);
  for (int turn = 0; left && turn < 2 * HELPS; turn++) {
    tsr__far_help(peers->far);
    if (turn >= HELPS && !tsr__peers_yield(peers)) break;
    int now = tsr__far_left(peers->far, in_vain);
    if (now < left) turn = 0;
    left = now;
  }
  tsr__far_end(peers->far);
  tsr_status status = TSR_OK;
  while (left && !status) {
    tsr__far_nap(peers->far, NAP_MS);
    tsr__far_help(peers->far);
    left = tsr__far_left(peers->far, in_vain);
    if (left) status = fetch_lost(peers, false, error);
  }
  return status;
}

tsr_status tsr__peers_fetched(tsr__peers *peers, tsr__error *error)
{
  bool in_vain = false;
  if (!peers->far) return TSR_OK;
  tsr_status status = come(peers, &in_vain, error);
  return in_vain && !status ? fetch_lost(peers, true, error) : status;
}

/* Of a run that failed there may be some that were begun, and that nobody waited for. A look at how
 * many are left also wipes the sign of those that came in vain. */
void tsr__peers_drain(tsr__peers *peers)
{
  bool in_vain;
  tsr__error unused = { .status = TSR_OK };
  if (peers->far && tsr__far_left(peers->far, &in_vain)) (void)come(peers, &in_vain, &unused);
}
