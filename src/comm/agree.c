/* What the coordinator has processes agree on: the step at which all stop, and who is left.
 *
 *   STOP of one -> STOP to all -> STEP of each: where it was last -> STEP to all: the furthest + 1
 *
 * A process that was asked does not pass its next step before it knows the answer, so none is
 * beyond it. REGROUP is answered once every process that is there has asked.
 *
 * Invariant: a process that goes is no longer waited for, in either. Here, too, is judged who keeps
 * others waiting in a run: one that is alive, waits for nobody, and does not come.
 *
 *   who waits         who is waited for          judged
 *   A (in run 7) ---> B: waits for nobody        B, after wait_seconds
 *   A ---> B ---> C: waits for nobody            C alone, by B's wait
 *   A ---> B: gone                               nobody: A sees it itself */
#include "comm/coordinator.h"

#include <stdio.h>

static const tsr__blob nothing = { "", 0 };

/* Those who have not come yet are not there, either: programs agree only once all have met. */
static bool is_there(const tsr__coordinator *c, int member)
{
  tsr__presence presence = c->members[member].presence;
  return presence == TSR__HERE || presence == TSR__SILENT;
}

/* ---- stopping -------------------------------------------------------------------------------- */

static void put_all(tsr__coordinator *c, int kind, uint64_t step)
{
  for (int i = 0; i < c->role.count; i++) {
    if (!c->members[i].peer) continue;
    tsr__text *out = &c->members[i].peer->link.out;
    size_t began = tsr__packet_begin(out, kind, 0);
    if (kind == TSR__SAY_STEP) tsr__write_u64(out, step);
    tsr__packet_end(out, began);
  }
}

/* Once all have said where they are: where they stop.
 * One behind the furthest, which every process can still come to: no one has begun it. The
 * numbers count from 1, so that 0 is one that has asked about no step yet. */
static void settle_step(tsr__coordinator *c)
{
  if (!c->stopping || c->stop_said) return;
  for (int i = 0; i < c->role.count; i++)
    if (is_there(c, i) && !c->members[i].at_step) return;
  c->stop_said = true;
  put_all(c, TSR__SAY_STEP, c->step);
}

/* A second one is nothing new: where all stop is agreed once in the life of a coordinator. */
bool tsr__agree_stop(tsr__coordinator *c)
{
  if (c->stopping) return true;
  c->stopping = true;
  put_all(c, TSR__SAY_STOP, 0);
  return true;
}

bool tsr__agree_step(tsr__coordinator *c, int member, tsr__fields *fields)
{
  uint64_t step = tsr__take_u64(fields);
  if (!tsr__fields_done(fields)) return false;
  c->members[member].at_step = true;
  if (step > c->step) c->step = step;
  settle_step(c);
  return true;
}

/* ---- those that are left --------------------------------------------------------------------- */

static bool has_asked(const tsr__coordinator *c)
{
  for (int i = 0; i < c->role.count; i++)
    if (c->members[i].regroup) return true;
  return false;
}

static void answer_regroup(tsr__coordinator *c, const tsr__error *error, tsr__blob fields)
{
  for (int i = 0; i < c->role.count; i++) {
    if (c->members[i].regroup) tsr__answer(c, i, c->members[i].regroup, error, fields);
    c->members[i].regroup = 0;
  }
  c->regroup_until = 0;
}

/* All get the same list, in order, and each finds its new number by its place there. `regrouped`
 * is set with it: from now on this address is the next coordinator's. */
static void settle_regroup(tsr__coordinator *c)
{
  tsr__text fields;
  tsr__error fine = { .status = TSR_OK };
  int left = 0;
  if (!has_asked(c)) return;
  for (int i = 0; i < c->role.count; i++) {
    if (!is_there(c, i)) continue;
    if (!c->members[i].regroup) return;
    left++;
  }
  tsr__text_init(&fields, c->heap);
  tsr__write_u32(&fields, (uint32_t)left);
  for (int i = 0; i < c->role.count; i++)
    if (is_there(c, i)) tsr__write_u32(&fields, (uint32_t)i);
  if (fields.failed)
    tsr__error_set(&fine, TSR_ENOMEM, "process 0 has no memory to regroup the processes");
  c->regrouped = !fine.status;
  answer_regroup(c, &fine, (tsr__blob){ tsr__text_get(&fields), fields.length });
  tsr__text_free(&fields);
}

/* Who is there and has not asked to regroup yet. */
static void say_missing(const tsr__coordinator *c, int64_t at, tsr__error *error)
{
  tsr__text missing;
  tsr__text_init(&missing, c->heap);
  for (int i = 0; i < c->role.count; i++) {
    if (!is_there(c, i) || c->members[i].regroup) continue;
    if (missing.length) tsr__text_add(&missing, ", ");
    tsr__member_name(c, i, &missing);
  }
  tsr__error_set(error, TSR_EPEER,
                 "after %lld s these processes have not called tsr_process_regroup: %s",
                 (long long)((at - c->regroup_since) / 1000000000), tsr__text_get(&missing));
  tsr__text_free(&missing);
}

/* All who asked are told; they may ask again, and the time begins anew. */
static void regroup_is_over(tsr__coordinator *c)
{
  tsr__error error = { .status = TSR_OK };
  say_missing(c, c->regroup_until, &error);
  answer_regroup(c, &error, nothing);
}

/* Those who have asked hear once whom they wait for. */
static int64_t regroup_takes_long(tsr__coordinator *c)
{
  tsr__error late = { .status = TSR_OK };
  int64_t then = tsr__takes_long(c, c->regroup_since);
  if (c->regroup_told) return INT64_MAX;
  if (then > c->now) return then;
  c->regroup_told = true;
  say_missing(c, c->now, &late);
  for (int i = 0; i < c->role.count; i++)
    if (c->members[i].regroup) tsr__tell_wait(c, i, late.text);
  return INT64_MAX;
}

/* The first who asks sets the time, as at a meeting. */
bool tsr__agree_regroup(tsr__coordinator *c, int member, uint32_t ticket, tsr__fields *fields)
{
  tsr__error error = { .status = TSR_OK };
  uint64_t ms = tsr__take_u64(fields);
  if (!tsr__fields_done(fields) || ms > INT64_MAX / 1000000) return false;
  if (!is_there(c, member) || c->members[member].regroup) {
    tsr__error_set(
        &error, TSR_ESTATE,
        "the other processes count this process as failed, or it called tsr_process_regroup twice");
    tsr__answer(c, member, ticket, &error, nothing);
    return true;
  }
  if (!has_asked(c)) {
    bool far = (int64_t)ms > (INT64_MAX - c->now) / 1000000;
    c->regroup_since = c->now;
    c->regroup_told = false;
    c->regroup_until = far ? INT64_MAX : c->now + (int64_t)ms * 1000000;
  }
  c->members[member].regroup = ticket;
  settle_regroup(c);
  return true;
}

/* ---- who is waited for ----------------------------------------------------------------------- */

/* What is known here is as old as the last beat, a second at most. A wait counts from the beat
 * that first told of it, by this clock: the clocks of hosts need not agree. One at the next meeting
 * is another wait, also in the same run: who is slow at each has come to all before. */
bool tsr__agree_beat(tsr__coordinator *c, int member, tsr__fields *fields)
{
  char what[sizeof c->members->what];
  tsr__take_u64(fields);
  uint32_t process = tsr__take_u32(fields);
  uint64_t number = tsr__take_u64(fields);
  tsr__take_text(fields, what, sizeof what - 1);
  tsr__member *m = &c->members[member];
  if (!tsr__fields_done(fields) || process > (uint32_t)c->role.count) return false;
  bool same = m->waits_for == (int)process - 1 && m->number == number;
  if (!same) m->wait_since = c->now;
  m->waits_for = (int)process - 1;
  m->number = number;
  memcpy(m->what, what, sizeof what);
  tsr__text_tame(m->what);
  return true;
}

/* One that has kept another waiting for too long has failed for all.
 * Who is silent or dead is found by other ways; here it is one that beats and yet does not come:
 * in a loop without an end, or at a lock. Nothing happens to it but that all are told it has
 * failed, itself too, and do what on_failure says. */
static int64_t judge(tsr__coordinator *c, int waiter)
{
  const tsr__member *m = &c->members[waiter];
  char why[500], seconds[32];
  if (!is_there(c, waiter) || m->waits_for < 0) return INT64_MAX;
  int other = m->waits_for;
  double limit = c->role.wait_seconds * 1e9;
  if (!is_there(c, other) || c->members[other].waits_for >= 0) return INT64_MAX;
  double passed = (double)(c->now - m->wait_since);
  if (passed < limit) return c->now + (int64_t)(limit - passed);
  tsr__text_f64(seconds, c->role.wait_seconds);
  snprintf(why, sizeof why, "it is alive, but for %s s has not reached %s, where process %d waits",
           seconds, m->what, waiter);
  tsr__member_gone(c, other, true, why);
  return INT64_MAX;
}

/* ---- time and death -------------------------------------------------------------------------- */

/* A look at every member each round: a wait has no list of its own, as it is told anew each
 * second. */
int64_t tsr__agree_tick(tsr__coordinator *c)
{
  int64_t next = INT64_MAX;
  if (c->regroup_until && c->regroup_until <= c->now) regroup_is_over(c);
  if (c->regroup_until) {
    next = regroup_takes_long(c);
    if (c->regroup_until < next) next = c->regroup_until;
  }
  for (int i = 0; i < c->role.count; i++) {
    int64_t one = judge(c, i);
    if (one < next) next = one;
  }
  return next;
}

/* One fewer may be what was missing. */
void tsr__agree_changed(tsr__coordinator *c)
{
  settle_step(c);
  settle_regroup(c);
}
