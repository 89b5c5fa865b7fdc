/* How processes wait for each other, and runs.
 *
 * A process counts its meetings in one word, which it alone writes and all others read:
 *
 *    word   | run: 40 bits | meeting in it: 24 bits |      the last meeting of a run is END; one
 *                                                          with more goes on as the next run
 *
 * It waits until every word is at least its own. Beginning a run is no meeting: that all began the
 * same is seen at the first one there is. Who fails writes what happened and goes to the run's END
 * at once. What is said of a run stands in one of two places, by the run's last bit; nobody can be
 * two runs ahead, so a place is read before it is written again.
 *
 * Invariant: a word never falls, and what a process wrote before it raised its word is seen by
 * whoever saw it raised.
 *
 *    own word:  6|END | 7|1 ......  7|2 ......  7|END | 8|1 ...    of run 7, which has two meetings
 *    others':         wait >= 7|1   wait >= 7|2   wait >= 7|END
 *
 * The word itself is not raised when a run begins: it stays at the END of the one before until
 * the first meeting. As END is the largest number that 24 bits hold, one comparison of whole
 * words orders meetings within a run and runs after each other.
 *
 * What belongs to a run (fingerprint, text, numbers, failure) is chosen by the run's last bit,
 * what belongs to a gathering by the meeting's. Two places are enough in both cases: one that
 * others may still read, and one that is written for what comes next.
 *
 * One thread of a process is in a run, the one that holds `run_lock`; so the fields of
 * tsr__peers that say where the run is have no lock of their own. */
#include "comm/peers_room.h"

#include "base/events.h"
#include "base/thread.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TSR__BE_ALIKE \
  "; all processes must make the same calls, with the same arguments, in the same order"

/* ---- waiting --------------------------------------------------------------------------------- */

/* Shows a process's word and wakes those who sleep for it: either it sees that there are some, or
 * they see the word, as they count themselves before they look for the last time.
 * The store and the load of `sleepers` are both sequentially consistent, as are the raise of
 * `sleepers` and the load of the word in wait_for: with weaker orders both sides could read the
 * old value, and a sleeper would lie until its nap ends.
 *
 * The head may be a mirror's as well: then the leader of this host is who shows it. */
void tsr__peers_show(head *of, uint64_t word)
{
  /* In the word's own line, which is written anyway. */
  atomic_store_explicit(&of->core, (int16_t)sched_getcpu(), memory_order_relaxed);
  atomic_store(&of->word, word);
  /* The system is entered only for those who sleep: most meetings are over while others still
   * spin. One that was killed in its sleep stays counted for ever, which costs a call and no
   * more. */
  if (!atomic_load(&of->sleepers)) return;
  atomic_fetch_add(&of->bell, 1);
  syscall(SYS_futex, &of->bell, FUTEX_OF_ALL_WAKE, INT_MAX, NULL, NULL, 0);
}

/* What others said first is passed on as they said it.
 * So the text that reaches everybody names the process where it went wrong, and not a chain of
 * those who heard of it. `run` is stored last: who reads it finds the rest written, and a place
 * that is left over from two runs ago has another number. */
static void say_failure(tsr__peers *peers, const tsr__error *error)
{
  failure *f = &own(peers)->failed[peers->run & 1];
  if (atomic_load(&f->run) == peers->run) return; /* others may read it by now */
  if (peers->told >= 0) {
    const failure *from = &head_of(peers, peers->told)->failed[peers->run & 1];
    f->process = from->process;
    f->error = from->error;
  } else {
    f->process = peers->start.index;
    f->error = *error;
  }
  atomic_store(&f->run, peers->run);
}

/* Whether a process said that a run failed; then `error` says so.
 * Of itself it knows by its status, but for a promise that it broke in the run before: what the
 * others are told is its own answer, too. `told` is kept for say_failure, as this process will
 * leave the run with the error that it hears here. */
static bool has_failed(tsr__peers *peers, int process, tsr__error *error)
{
  failure *f = &head_of(peers, process)->failed[peers->run & 1];
  if (atomic_load(&f->run) != peers->run) return false;
  *error = (tsr__error){ .status = TSR_OK };
  tsr__error_set(error, f->error.status, "process %d: %s", f->process, f->error.text);
  peers->told = process;
  return true;
}

/* Where there is a coordinator it knows, of far processes too, and any failure of the job counts
 * (share.c): a run that one process cannot end nobody can. Else signal 0 asks the system, where
 * only ESRCH means that nobody is there: EPERM is the answer of another user's process that
 * runs. */
bool tsr__peers_gone(const tsr__peers *peers, int process, tsr__error *error)
{
  const tsr__peers_start *start = &peers->start;
  if (start->gone) return start->gone(start->user, process, error);
  if (peers->all[process].far) return false;
  if (!kill((pid_t)peers->all[process].pid, 0) || errno != ESRCH) return false;
  tsr__error_set(error, TSR_EPEER, "process %d (pid %lld) has ended", process,
                 (long long)peers->all[process].pid);
  return true;
}

/* Sleeps until a process's bell rings, or for a while; among its sleepers, or it does not ring.
 * The bell was read before the word was looked at for the last time: if it rang in between, the
 * system finds another number there and does not sleep. The futex is not private, as the line
 * lies in memory that several processes map at different addresses. */
void tsr__peers_nap(head *of, uint32_t bell)
{
  const struct timespec some = { 0, NAP_MS * 1000000L };
  syscall(SYS_futex, &of->bell, FUTEX_OF_ALL_WAIT, bell, &some, NULL, 0);
}

/* What this process waits in, for messages. */
tsr_status tsr__peers_lost(const tsr__peers *peers, const tsr__error *why, tsr__error *error)
{
  return tsr__error_set(error, why->status, "%s while this process waited in %s", why->text,
                        own(peers)->what[peers->run & 1]);
}

/* The cores that the others of this host were last seen on and that have not two processes fewer
 * than `core`: going there would gain nothing. 0 also where it is for another one to go. */
static int cores_to_avoid(const tsr__peers *peers, int core, int16_t *out, int most)
{
  int own = 1, count = 0;
  for (int p = 0; p < peers->start.count; p++) {
    if (p == peers->start.index || peers->all[p].far || head_of(peers, p)->core != core) continue;
    if (p > peers->start.index) return 0;
    own++;
  }
  for (int p = 0; p < peers->start.count && count < most; p++) {
    if (p == peers->start.index || peers->all[p].far) continue;
    int16_t other = head_of(peers, p)->core;
    int there = 0;
    for (int q = 0; q < peers->start.count; q++)
      there += q != peers->start.index && !peers->all[q].far && head_of(peers, q)->core == other;
    if (there > own - 2) out[count++] = other;
  }
  return count;
}

/* Leaves the core that a process was last seen on, for one with fewer processes of this host;
 * false: it stays.
 * Where others' work keeps the core that it goes to it may be as slow there as here, and is moved
 * back: so not too often. */
static bool step_aside(tsr__peers *peers, const head *from)
{
  enum { MOST = 64 };
  int16_t cores[MOST];
  int core = sched_getcpu();
  if (core < 0 || from->core != core) return false;
  int64_t now = tsr__now();
  if (now - peers->aside_at < ASIDE_NS) return false;
  peers->aside_at = now;
  int count = cores_to_avoid(peers, core, cores, MOST);
  return count && tsr__thread_step_aside(cores, count);
}

/* Gives the core away once; false: for long, so it is time to sleep.
 * Where others' work has this core each yield gives it a whole slice of some milliseconds, while
 * who sleeps gets the core back at once when it is woken. So after a long one the next waits go
 * without, twice as many after each trial that ends so. */
bool tsr__peers_yield(tsr__peers *peers)
{
  if (peers->unyielding > 0) {
    peers->unyielding--;
    return false;
  }
  int64_t before = tsr__now();
  sched_yield();
  if (tsr__now() - before < SLICE_NS) return true;
  if (peers->patience < WAITS_MOST) peers->patience *= 2;
  peers->unyielding = peers->patience;
  return false;
}

/* Spins, then yields: whether the other came meanwhile. Who was last seen on this process's core
 * cannot come while it spins: others' work on the machine brings two to one core for a while, and
 * then each meeting would take as long as both spin.
 * Three stages, by what each costs: spins for those who have a core each, yields for those who
 * share one, then (by the caller) a sleep from which the system must wake this process. */
static bool came_soon(tsr__peers *peers, int process, uint64_t word)
{
  const head *of = head_of(peers, process);
  if (atomic_load_explicit(&of->word, memory_order_acquire) >= word) return true;
  int16_t core = (int16_t)sched_getcpu();
  bool same = core >= 0 && atomic_load_explicit(&of->core, memory_order_relaxed) == core;
  if (same && step_aside(peers, of)) same = false;
  for (int i = 0; i < peers->spins && !same; i++) {
    if (atomic_load_explicit(&of->word, memory_order_acquire) >= word) return true;
    tsr__pause();
  }
  int64_t until = tsr__now() + YIELD_NS;
  bool yields = true, came = false;
  while (yields && !came && tsr__now() < until) {
    yields = tsr__peers_yield(peers);
    came = atomic_load_explicit(&of->word, memory_order_acquire) >= word;
  }
  if (yields) peers->patience -= peers->patience / 8;
  return came;
}

/* Who is to be named where a process is waited for: of another host its leader, which says who
 * there has not come if that is not itself; of this host another one where the leader waits.
 * A leader shows its own word only after those of its host have come (come), so a leader that is
 * late may be waiting for one of them, and to name it would blame the wrong one. */
static int to_name(const tsr__peers *peers, int process, uint64_t word)
{
  int leader = peers->all[process].leader;
  if (peers->all[process].far) return leader;
  if (process != leader || !peers->far) return process;
  for (int p = 0; p < peers->start.count; p++)
    if (!peers->all[p].far && p != leader && atomic_load(&head_of(peers, p)->word) < word) return p;
  return process;
}

static void tell_wait(const tsr__peers *peers, int process, uint64_t word)
{
  process = to_name(peers, process, word);
  const head *of = head_of(peers, process);
  const tsr__peers_start *start = &peers->start;
  uint64_t theirs = atomic_load(&of->word) >> MEETING_BITS;
  char what[sizeof of->what[0]];
  /* Nobody is to be told: of processes without a coordinator. */
  if (!start->waits) return;
  /* It may be writing there: what is read now is for people. */
  memcpy(what, of->what[theirs & 1], sizeof what);
  what[sizeof what - 1] = '\0';
  start->waits(start->user, &(tsr__peers_wait){ process, peers->run, theirs, word,
                                                own(peers)->what[peers->run & 1], what });
}

/* The same of another host's process, which a leader helps to hear of.
 * Notes come in by the engine, so spinning on the word alone would wait for the engine's thread.
 * Who helps makes the progress itself; after HELPS turns it yields between them, as the thread
 * that is waited for may need this core. Others of the host cannot help: notes are addressed to
 * the leader, and its process takes them. */
static bool is_heard(tsr__peers *peers, const head *of, uint64_t word)
{
  bool came = atomic_load(&of->word) >= word;
  if (came) return true;
  tsr__far_begin(peers->far);
  for (int turn = 0; turn < 2 * HELPS && !came; turn++) {
    tsr__far_help(peers->far);
    if (turn >= HELPS && !tsr__peers_yield(peers)) break;
    came = atomic_load(&of->word) >= word;
  }
  tsr__far_end(peers->far);
  return came;
}

/* Whether a run may still end well, though some process of the job has failed: all that have ended
 * had come to its END before. Who is not there yet may then find every word that it needs, and say
 * that all went well; so it is waited for, or it would read what is given back here meanwhile. */
static bool may_end(const tsr__peers *peers, uint64_t word)
{
  const tsr__peers_start *start = &peers->start;
  if ((word & END) != END || !start->ended) return false;
  for (int p = 0; p < start->count; p++)
    if (atomic_load(&head_of(peers, p)->word) < word && start->ended(start->user, p)) return false;
  return true;
}

/* Waits until another process has come as far. A failure of its in this run ends the waiting; at
 * the END everybody comes, failed or not.
 * There is no deadline here: a process may compute for as long as it likes. What ends a wait in
 * vain is a death (tsr__peers_gone), or the coordinator, which judges one that keeps others
 * waiting (agree.c) and makes it fail for all; that, too, is seen by tsr__peers_gone. The nap
 * bounds how late it is seen. */
static tsr_status wait_for(tsr__peers *peers, int process, uint64_t word, tsr__error *error)
{
  head *of = head_of(peers, process);
  bool far = peers->all[process].far, helps = far && leads(peers);
  /* Of another host's process the leader's word may be under way when it has left itself. */
  int speaker = far ? peers->all[process].leader : process;
  if (helps ? is_heard(peers, of, word) : came_soon(peers, process, word)) return TSR_OK;
  /* Not cleared: its text is longer than all else that a meeting looks at. */
  tsr__error why;
  why.status = TSR_OK;
  tsr_status status = TSR_OK;
  bool told = false;
  /* From here to the matching subtraction whoever raises the word rings the bell. The order is:
   * count, read the bell, read the word, sleep if the bell is still that one. */
  atomic_fetch_add(&of->sleepers, 1);
  for (bool first = true; !status; first = false) {
    uint32_t bell = atomic_load(&of->bell);
    if (atomic_load(&of->word) >= word) break;
    if (tsr__peers_gone(peers, speaker, &why) && !may_end(peers, word)) {
      /* It may have come, and left since. */
      if (atomic_load(&of->word) >= word) break;
      status = tsr__peers_lost(peers, &why, error);
      break;
    }
    /* Not for the first nap, which most waits end in. */
    if (!first && !told) tell_wait(peers, process, word);
    told = told || !first;
    tsr__peers_nap(of, bell);
    /* Whoever is woken mostly is where its waker works on. */
    if (atomic_load(&of->word) >= word) step_aside(peers, of);
  }
  atomic_fetch_sub(&of->sleepers, 1);
  /* Taken back, or the next sign of life would tell of a wait that is over. */
  if (told && peers->start.waits) peers->start.waits(peers->start.user, NULL);
  return status;
}

/* All must have begun the same.
 * It is done once a run, at its first meeting: later ones cannot differ, as nobody begins
 * another run in between. Of a run with no other meeting leave does it at the END. What others
 * wrote there was written before their word, which has been seen. */
static tsr_status compare(tsr__peers *peers, tsr__error *error)
{
  const head *me = own(peers);
  int at = (int)(peers->run & 1);
  peers->compared = true;
  for (int p = 0; p < peers->start.count; p++) {
    const head *of = head_of(peers, p);
    /* Who failed before it could begin says 0, and why. */
    if (of->fingerprint[at] == me->fingerprint[at] || !of->fingerprint[at]) continue;
    return tsr__error_set(error, TSR_EPEER,
                          TSR__DIFFER "process %d is at %s, process %d is at %s" TSR__BE_ALIKE,
                          peers->start.index, me->what[at], p, of->what[at]);
  }
  return TSR_OK;
}

/* What waited for a meeting that all came to, or that nobody waits for any more.
 * Not under any lock but the run's, and in the order in which they were put by: all processes
 * put the same ones by, so all make the same calls at the same meeting. */
static void call_later(tsr__peers *peers, bool came)
{
  for (int i = 0; i < peers->after_count; i++) peers->after[i].call(peers->after[i].user, came);
  peers->after_count = 0;
}

/* Whether a process of this host has not said yet that it is at `word`, and whether any said
 * something new.
 * `told_word` is the leader's own note of what it has passed on, and no part of a head: only it
 * reads and writes that. */
static bool lacks_word(const tsr__peers *peers, uint64_t word, bool *news)
{
  bool lacks = false;
  for (int p = 0; p < peers->start.count; p++) {
    if (peers->all[p].far) continue;
    uint64_t now = atomic_load(&head_of(peers, p)->word);
    *news = *news || now > peers->told_word[p];
    lacks = lacks || now < word;
  }
  return lacks;
}

static bool any_gone(const tsr__peers *peers, tsr__error *error)
{
  tsr__error why = { .status = TSR_OK };
  for (int p = 0; p < peers->start.count; p++)
    if (p != peers->start.index && tsr__peers_gone(peers, p, &why)) {
      tsr__peers_lost(peers, &why, error);
      return true;
    }
  return false;
}

/* A leader that failed goes to the END while others of its host still wait for those of other
 * hosts, who wait for them: it tells each step of theirs, of which there is one at most, as they
 * see that it failed.
 * It looks every STEP_NS and does not sleep for a bell: it waits for any of several heads at
 * once, and a futex is one address. As this process has failed, the half millisecond is of no
 * weight. */
static tsr_status tell_steps(tsr__peers *peers, uint64_t word, tsr__error *error)
{
  for (bool sent = true;;) {
    bool news = false, lacks = lacks_word(peers, word, &news);
    if (news || !sent) sent = tsr__peers_tell(peers, word);
    if (!lacks && sent) return TSR_OK;
    if (any_gone(peers, error)) return error->status;
    nanosleep(&(struct timespec){ 0, STEP_NS }, NULL);
  }
}

/* A leader's own word. Without memory for it the run fails here, of which the END tells; that is
 * tried until it is out: other hosts wait for it, and if they do so for too long this process is
 * the one that is judged. */
static tsr_status tell(tsr__peers *peers, uint64_t word, tsr__error *error)
{
  while (!tsr__peers_tell(peers, word)) {
    if ((word & END) != END)
      return tsr__error_set(error, TSR_ENOMEM,
                            "the engine '%s' has no memory for the messages to other hosts",
                            peers->engine);
    if (any_gone(peers, error)) return error->status;
  }
  return TSR_OK;
}

/* Shows this process's word. A leader does so once all of its own have come and it has told other
 * hosts: else one here might be a meeting further before this one is told.
 *
 *    host a, word w:   mates show w -> leader sees all -> note to other leaders -> leader shows w
 *
 * The order makes one note a meeting enough, whatever the number of processes on a host: when
 * the leader speaks, all that it tells of stands in their heads. Mates do not wait for each
 * other through the leader: they see each other's words at once.
 *
 * A leader that failed cannot keep that order, as its mates may not have seen the failure yet
 * and be waiting for far words; it shows its word first, and then tells what its mates do. */
static tsr_status come(tsr__peers *peers, uint64_t word, tsr__error *error)
{
  tsr_status status = TSR_OK;
  bool failed = atomic_load(&own(peers)->failed[peers->run & 1].run) == peers->run;
  bool tells = peers->far && leads(peers);
  for (int p = 0; p < peers->start.count && tells && !failed && !status; p++)
    if (p != peers->start.index && !peers->all[p].far) status = wait_for(peers, p, word, error);
  if (tells && !failed && !status) status = tell(peers, word, error);
  tsr__peers_show(own(peers), word);
  return tells && failed ? tell_steps(peers, word, error) : status;
}

/* The next meeting of a run, to which all bring notes if it is a gathering: they come to it or are
 * known to have failed.
 * Others are waited for one after the other and not all at once: the last one decides when it is
 * over in any case, and most words stand there already when they are looked at.
 *
 * Failures are looked for once all words are seen: who failed wrote it before it raised its
 * word. At the END nothing is asked here: leave does it, as it has its own status to weigh. */
static tsr_status meet(tsr__peers *peers, uint64_t meeting, tsr__error *error)
{
  uint64_t word = word_at(peers, meeting);
  peers->meeting = meeting;
  peers->met = false;
  if (come(peers, word, error)) return error->status;
  for (int p = 0; p < peers->start.count; p++) {
    if (p == peers->start.index) continue;
    tsr_status status = wait_for(peers, p, word, error);
    if (status) return status;
  }
  tsr__error why;
  peers->met = true;
  call_later(peers, true);
  if (meeting == END) return TSR_OK;
  if (!peers->compared && compare(peers, error)) return error->status;
  for (int p = 0; p < peers->start.count; p++)
    if (has_failed(peers, p, &why)) {
      *error = why;
      return error->status;
    }
  return TSR_OK;
}

/* What this process does in the run that begins, and that nothing is known of it yet.
 * All processes count runs alike, as they make the same calls; nothing else numbers them. Others
 * look at these lines while they wait: what stands there already is not written. */
static void begin(tsr__peers *peers, const tsr__peers_work *work)
{
  head *me = own(peers);
  int at = (int)(++peers->run & 1);
  peers->told = -1;
  peers->meeting = 0;
  peers->compared = peers->promises = peers->all_promised = false;
  if (me->fingerprint[at] != work->fingerprint) me->fingerprint[at] = work->fingerprint;
  tsr__peers_say(me->what[at], sizeof me->what[at], work);
}

/* What is put by is mostly a release: memory that others may read until they come to the next
 * meeting. A fixed few, so that putting one by cannot fail: what would be left then is a leak or
 * a wait. */
void tsr__peers_later(tsr__peers *peers, void (*call)(void *user, bool came), void *user)
{
  TSR_INVARIANT(peers->after_count < LATER);
  peers->after[peers->after_count++] = (later){ call, user };
}

bool tsr__peers_met(const tsr__peers *peers)
{
  return peers->met;
}

/* A word of a later run is raised behind the first note of that, which lies in the other place than
 * this run's last one: what was read of a note before its owner's word was looked at is what that
 * said here. */
tsr_status tsr__peers_still_here(const tsr__peers *peers, tsr__error *error)
{
  for (int p = 0; p < peers->start.count; p++)
    if (atomic_load(&head_of(peers, p)->word) >> MEETING_BITS != peers->run)
      return tsr__error_set(error, TSR_EPEER, "process %d has gone on without this process", p);
  return TSR_OK;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Written only where they differ, as all that lies in a head: a write takes the line away from
 * whoever has it in a cache, and most runs add zeros. */
static void say_numbers(head *me, int at, const int64_t *numbers)
{
  static const int64_t none[TSR__PEERS_NUMBERS];
  if (!numbers) numbers = none;
  if (memcmp(me->numbers[at], numbers, sizeof me->numbers[at]) != 0)
    memcpy(me->numbers[at], numbers, sizeof me->numbers[at]);
}

bool tsr__peers_in_run(tsr__peers *peers)
{
  if (pthread_mutex_trylock(&peers->run_lock)) return false; /* another one is */
  bool in = peers->depth > 0;
  pthread_mutex_unlock(&peers->run_lock);
  return in;
}

bool tsr__peers_ends_next(const tsr__peers *peers)
{
  return peers->depth == 1;
}

void tsr__peers_begin_task(tsr__peers *peers, tsr__peers_task *task)
{
  task->thread = pthread_self();
  pthread_mutex_lock(&peers->lock);
  task->outer = atomic_load(&peers->tasks);
  atomic_store(&peers->tasks, task);
  pthread_mutex_unlock(&peers->lock);
}

/* Tasks of several threads end in any order. */
void tsr__peers_end_task(tsr__peers *peers, tsr__peers_task *task)
{
  pthread_mutex_lock(&peers->lock);
  tsr__peers_task *newer = atomic_load(&peers->tasks);
  if (newer == task) atomic_store(&peers->tasks, task->outer);
  while (newer != task && newer->outer != task) newer = newer->outer;
  if (newer != task) newer->outer = task->outer;
  pthread_mutex_unlock(&peers->lock);
}

/* Takes the calling thread's task into what it begins. Who only fails says so: 0 stays. */
static void add_task(tsr__peers *peers, tsr__peers_work *work)
{
  peers->lines[0] = (tsr__peers_lines){ NULL, NULL };
  peers->lines[1] = work->lines;
  if (!atomic_load_explicit(&peers->tasks, memory_order_relaxed)) return;
  pthread_mutex_lock(&peers->lock);
  const tsr__peers_task *task = atomic_load(&peers->tasks);
  while (task && !pthread_equal(task->thread, pthread_self())) task = task->outer;
  if (task) peers->lines[0] = task->lines;
  if (task && work->fingerprint)
    work->fingerprint = tsr__hash(&task->fingerprint, sizeof task->fingerprint, work->fingerprint);
  pthread_mutex_unlock(&peers->lock);
}

void tsr__peers_await(tsr__peers *peers, void (*turn)(void *user), void *user)
{
  peers->turn_user = user;
  atomic_store(&peers->turn, turn);
}

/* The lock is recursive and is held until the matching leave: a run is one thread's, from its
 * beginning to its end, and `depth` counts how often it came in. Nested runs say nothing of
 * their own: their fingerprint is part of what the outer one does. */
tsr_status tsr__peers_enter(tsr__peers *peers, const tsr__peers_work *work, tsr__error *error)
{
  if (peers->pid != getpid())
    return tsr__error_set(error, TSR_ESTATE,
                          "this process is a child of fork, which does not belong to the job; open "
                          "a new runtime in the child");
  void (*turn)(void *user) = atomic_load_explicit(&peers->turn, memory_order_acquire);
  if (turn && !tsr__peers_in_run(peers)) turn(peers->turn_user);
  pthread_mutex_lock(&peers->run_lock);
  if (peers->depth++) return TSR_OK;
  tsr__peers_work all = *work;
  add_task(peers, &all);
  begin(peers, &all);
  return TSR_OK;
}

/* The sums of what all add.
 * Each process adds for itself what stands in the heads, so the sums need no meeting of their
 * own. They may be read: others write the numbers of the next run in the other place. */
static void add_numbers(const tsr__peers *peers, int64_t *numbers)
{
  memset(numbers, 0, sizeof own(peers)->numbers[0]);
  for (int p = 0; p < peers->start.count; p++)
    for (int i = 0; i < TSR__PEERS_NUMBERS; i++)
      numbers[i] += head_of(peers, p)->numbers[peers->run & 1][i];
}

/* Who comes later may find all words there, of the dead too, and say that all went well: it is told
 * before anything is given back that it may still read. */
static void say_late(tsr__peers *peers, const tsr__error *error)
{
  say_failure(peers, error);
  if (peers->far && leads(peers)) (void)tsr__peers_tell(peers, word_at(peers, END));
}

/* Before each meeting: a run that has used up its numbers, as a loop of many million steps may,
 * ends here and goes on as the next one. All come to the same number at the same call. Who finds at
 * that END that somebody failed stays in the run that it is in, and may come here again. */
static tsr_status go_on(tsr__peers *peers, tsr__error *error)
{
  const head *me = own(peers);
  int at = (int)(peers->run & 1);
  if (peers->meeting + 1 < END) return TSR_OK;
  if (meet(peers, END, error)) {
    say_late(peers, error);
    return error->status;
  }
  for (int p = 0; p < peers->start.count; p++)
    if (has_failed(peers, p, error)) return error->status;
  begin(peers, &(tsr__peers_work){ .fingerprint = me->fingerprint[at], .what = me->what[at] });
  return TSR_OK;
}

/* No meeting: that an inner run failed is told by the outer one's status, which its caller
 * passes on. */
static tsr_status leave_inner(tsr__peers *peers, tsr_status status)
{
  peers->depth--;
  pthread_mutex_unlock(&peers->run_lock);
  return status;
}

bool tsr__peers_promise(tsr__peers *peers, const int64_t *numbers)
{
  if (peers->depth != 1 || peers->far) return false;
  say_numbers(own(peers), (int)(peers->run & 1), numbers);
  peers->promises = true;
  return true;
}

/* The END of a run of which all promised that it ends well: nobody waits for it, and who is there
 * first goes on. The word is raised all the same, as some may be judged by whether they came
 * (may_end). Who broke the promise has failed in the next run, before that begins. */
static void leave_promised(tsr__peers *peers, tsr_status status, int64_t *numbers,
                           const tsr__error *error)
{
  call_later(peers, true);
  tsr__peers_show(own(peers), word_at(peers, END));
  if (!status && numbers) add_numbers(peers, numbers);
  if (!status) return;
  failure *f = &own(peers)->failed[(peers->run + 1) & 1];
  f->process = peers->start.index;
  f->error = *error;
  atomic_store(&f->run, peers->run + 1);
}

/* The same by a meeting; what it comes to.
 * What this process failed of itself outweighs what it hears. Else a death comes before a
 * difference of programs, and that before what others say failed. */
static tsr_status leave_meeting(tsr__peers *peers, tsr_status status, int64_t *numbers,
                                tsr__error *why)
{
  say_numbers(own(peers), (int)(peers->run & 1), numbers);
  /* Before the END, as after it others may write what the pages of mirrors are copies of. */
  tsr__peers_drain(peers);
  tsr__peers_let_go(peers);
  tsr_status end = meet(peers, END, why);
  if (end && !status) say_late(peers, why);
  /* Once more: where the END was not reached, as somebody is gone, nothing must be left put by. */
  call_later(peers, false);
  if (!end && !status && !peers->compared) end = compare(peers, why);
  for (int p = 0; p < peers->start.count && !end && !status; p++)
    if (has_failed(peers, p, why)) end = why->status;
  if (!end && !status && numbers) add_numbers(peers, numbers);
  return end;
}

/* Names what differs where processes have begun a run in different ways, by another run, which all
 * begin who have seen all come to the END of that one. Whether this process found the difference at
 * a meeting within the run, and has said it already, or at the END: the text becomes better. */
static void name_difference(tsr__peers *peers, tsr__error *error)
{
  tsr__error why = { .status = TSR_OK };
  char *text = strstr(error->text, TSR__DIFFER);
  char named[sizeof error->text] = "";
  static const char what[] = "the search for the difference";
  begin(peers, &(tsr__peers_work){ .fingerprint = tsr__hash(what, sizeof what, 0), .what = what });
  if (tsr__peers_name_difference(peers, named, sizeof named, &why)) say_failure(peers, &why);
  say_numbers(own(peers), (int)(peers->run & 1), NULL);
  tsr__peers_drain(peers);
  tsr__peers_let_go(peers);
  (void)meet(peers, END, &why);
  call_later(peers, false);
  if (!text || !*named) return;
  text += strlen(TSR__DIFFER);
  snprintf(text, sizeof error->text - (size_t)(text - error->text), "%s" TSR__BE_ALIKE, named);
}

/* A process that is gone does not come to the end either: its failure is this one's answer. An
 * error of this process is the caller's already and is left as it stands. */
tsr_status tsr__peers_leave_with(tsr__peers *peers, tsr_status status, int64_t *numbers,
                                 tsr__error *error)
{
  if (peers->depth > 1) return leave_inner(peers, status);
  tsr_status end = TSR_OK;
  tsr__error why;
  why.status = TSR_OK;
  if (peers->all_promised) {
    leave_promised(peers, status, numbers, error);
  } else {
    if (status) say_failure(peers, error);
    end = leave_meeting(peers, status, numbers, &why);
    if (peers->met && tsr__peers_differ(peers)) name_difference(peers, status ? error : &why);
  }
  peers->depth = 0;
  pthread_mutex_unlock(&peers->run_lock);
  if (status || !end) return status;
  *error = why;
  return end;
}

tsr_status tsr__peers_leave(tsr__peers *peers, tsr_status status, tsr__error *error)
{
  return tsr__peers_leave_with(peers, status, NULL, error);
}

/* Where a note of this process lies that others read until the meeting after the next one.
 * A short note lies in the head, where a look at it costs one more line; a long one in a block
 * of the segment, which grows by twice so that notes of slowly rising size do not ask anew each
 * time. The block that is given back here was of the meeting before the last one, which nobody
 * reads any more. */
static char *note_room(tsr__peers *peers, int at, size_t size)
{
  if (size <= SMALL) return own(peers)->small[at];
  if (size > peers->note_room[at]) {
    tsr__peers_give(peers, peers->note[at], peers->note_room[at]);
    peers->note[at] = tsr__peers_take(peers, 2 * size);
    peers->note_room[at] = peers->note[at] ? 2 * size : 0;
  }
  return peers->note[at];
}

/* Which of a process's two places has its note of a meeting. Both are in use in turn, so that one
 * run's last note stays while the next one's first is written; who failed in between left some
 * out, so that processes are not in step. Other hosts are told of the place by the word alone. */
static int place_of(const tsr__peers *peers, int process, uint64_t word)
{
  const head *of = head_of(peers, process);
  if (peers->far) return (int)(word & 1);
  uint64_t first = atomic_load_explicit(&of->note_word[0], memory_order_relaxed);
  return (first & ~PROMISED) == word ? 0 : 1;
}

/* What the others brought; larger notes of other hosts are begun here, and waited for together
 * behind it. */
static tsr_status take_notes(tsr__peers *peers, uint64_t word, tsr__peers_note *all,
                             tsr__error *error)
{
  peers->all_promised = peers->promises;
  for (int p = 0; p < peers->start.count; p++) {
    const head *of = head_of(peers, p);
    int at = place_of(peers, p, word);
    size_t bytes = (size_t)of->note_size[at];
    bool small = bytes <= SMALL, far = peers->all[p].far;
    uint64_t of_word = atomic_load_explicit(&of->note_word[at], memory_order_relaxed);
    peers->all_promised = peers->all_promised && of_word & PROMISED;
    const void *data = small ? of->small[at] : tsr__peers_at(peers, p, of->note_at[at], bytes);
    all[p] = (tsr__peers_note){ data, bytes };
    if (!data)
      return tsr__error_set(error, TSR_ENOMEM, "no addresses to map the data of process %d", p);
    if (far && !small) tsr__peers_get(peers, p, all[p].data, &(tsr__peers_runs){ bytes, 1, 0 });
  }
  return TSR_OK;
}

/*    write the note -> its place and size -> note_word -> raise the word | wait | read the others'
 *
 * `note_word` says which meeting the note is of: a leader passes a head on at any time, and must
 * know whether what stands there belongs to the word that it tells (mirrors.c). */
tsr_status tsr__peers_gather(tsr__peers *peers, const void *mine, size_t size, tsr__peers_note *all,
                             tsr__error *error)
{
  head *me = own(peers);
  if (go_on(peers, error)) return error->status;
  uint64_t meeting = peers->meeting + 1, word = word_at(peers, meeting);
  int at = (int)((peers->far ? meeting : peers->gathered++) & 1);
  char *room = note_room(peers, at, size);
  if (!room)
    return tsr__error_set(error, TSR_ENOMEM,
                          "no shared memory for a round with the other processes");
  if (size) memcpy(room, mine, size);
  uint64_t place = tsr__peers_offset(peers, room);
  if (me->note_at[at] != place) me->note_at[at] = place;
  if (me->note_size[at] != size) me->note_size[at] = size;
  atomic_store_explicit(&me->note_word[at], peers->promises ? word | PROMISED : word,
                        memory_order_relaxed);
  if (meet(peers, meeting, error)) return error->status;
  if (take_notes(peers, word, all, error)) return error->status;
  peers->promises = false;
  return tsr__peers_fetched(peers, error);
}

tsr_status tsr__peers_part(tsr__peers *peers, tsr__error *error)
{
  tsr__peers_let_go(peers);
  tsr_status status = go_on(peers, error);
  return status ? status : meet(peers, peers->meeting + 1, error);
}
