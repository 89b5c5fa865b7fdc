/* Meetings: processes that wait until all of them have come, each with a record that all get.
 *
 *   gatherings -> "epoch"  1: here, record   2: here, record   3: not yet        until ...
 *              -> "epoch"  1: answered       2: not yet        (failed: its time was over)
 *
 * A name can be used again and again. Who comes belongs to the first gathering of the name that it
 * is of and has not come to. So one that failed is kept until all of its participants have come and
 * were told so, and who is late does not open a new one that nobody else comes to.
 *
 * Invariant: a gathering is in the list as long as an answer is owed to one of its participants
 * that is still there. Once it is whole nothing changes what is answered.
 *
 *   MEET -> find: one of the name that waits for it? -> arrive -> all here? -> settle: answers all
 *                     | no                                        or failed, late, spoilt
 *                     +-> make one; or refuse: it passes by one of others
 *
 * What an answer is owed to stands in `answered`, not in `result`: of a gathering that failed
 * those who came have their answer, and those who come later get it then. */
#include "comm/coordinator.h"

#include <stdlib.h>

enum { NAMED = 8, OPEN_MOST = 4096, LOOK_NS = 10000000 };
#define RECORDS_MOST ((size_t)1 << 30) /* bytes in all gatherings */

typedef struct asked {
  char name[TSR__KEY_MOST + 1];
  int64_t ms;
  int *members; /* in order */
  int count;
  tsr__blob record;
} asked;

static size_t gathering_size(int count)
{
  return sizeof(tsr__gathering) + (size_t)count * sizeof(struct tsr__attendee);
}

/* One byte more was asked for than the record has, so that an empty one is a block as well and
 * NULL means no memory. */
static void drop_record(tsr__coordinator *c, struct tsr__attendee *one)
{
  if (!one->record) return;
  c->record_bytes -= one->length;
  tsr__del(c->heap, one->record, one->length + 1);
  one->record = NULL;
  one->length = 0;
}

static void gathering_free(tsr__coordinator *c, tsr__gathering *g)
{
  for (int i = 0; i < g->count; i++) drop_record(c, &g->attendees[i]);
  if (g->whole) c->record_bytes -= g->records.length;
  tsr__text_free(&g->records);
  tsr__del(c->heap, g, gathering_size(g->count));
}

/* ---- who is in it ---------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
  return *(const int *)a - *(const int *)b;
}

/* Reads a MEET; the members are the caller's to free, NULL without memory for them. False: it is
 * none.
 * Bounds first, then memory, then the numbers. They are sorted here, so that the order in which
 * a program names them is of no matter, and a number that is named twice stands beside itself. */
static bool read_asked(tsr__coordinator *c, tsr__fields *fields, asked *out)
{
  tsr__take_text(fields, out->name, TSR__KEY_MOST);
  uint64_t ms = tsr__take_u64(fields);
  uint32_t count = tsr__take_u32(fields);
  bool all = !count;
  if (fields->bad || count > (uint32_t)c->role.count || ms > INT64_MAX / 1000000) return false;
  out->ms = (int64_t)ms;
  out->count = all ? c->role.count : (int)count;
  out->members = tsr__new(c->heap, (size_t)out->count * sizeof(int));
  if (!out->members) return true;
  for (int i = 0; i < out->count; i++) {
    uint32_t one = all ? (uint32_t)i : tsr__take_u32(fields);
    if (one >= (uint32_t)c->role.count) fields->bad = true;
    out->members[i] = (int)one;
  }
  qsort(out->members, (size_t)out->count, sizeof(int), by_number);
  for (int i = 1; i < out->count; i++)
    if (out->members[i] == out->members[i - 1]) fields->bad = true;
  out->record = tsr__take_bytes(fields);
  return tsr__fields_done(fields);
}

static struct tsr__attendee *attendee(tsr__gathering *g, int member)
{
  for (int i = 0; i < g->count; i++)
    if (g->attendees[i].member == member) return &g->attendees[i];
  return NULL;
}

static bool same_members(const tsr__gathering *g, const asked *a)
{
  if (g->count != a->count) return false;
  for (int i = 0; i < g->count; i++)
    if (g->attendees[i].member != a->members[i]) return false;
  return true;
}

/* ---- what comes of it ------------------------------------------------------------------------ */

/* Puts the records of all together, once. Half of ANSWER_MOST is the bound, so that what a member
 * may read is never reached. */
static void join_records(tsr__coordinator *c, tsr__gathering *g)
{
  g->whole = true;
  for (int i = 0; i < g->count && !g->result.status; i++) {
    tsr__write_bytes(&g->records, g->attendees[i].record, g->attendees[i].length);
    if (g->records.length > TSR__ANSWER_MOST / 2)
      tsr__error_set(&g->result, TSR_EVALUE,
                     "'%s': the records of all processes together have more than 64 MiB; send "
                     "large data as arrays",
                     g->name);
  }
  if (g->records.failed)
    tsr__error_set(&g->result, TSR_ENOMEM, "process 0 has no memory for the records of '%s'",
                   g->name);
  for (int i = 0; i < g->count; i++) drop_record(c, &g->attendees[i]);
  c->record_bytes += g->records.length;
}

/* Whether so many bytes may lie for members beside what lies there already: each has a copy of all
 * records, and with one for everybody at once this process would hold them as often as there are
 * processes. */
static bool may_lie(const tsr__coordinator *c, size_t bytes)
{
  size_t lies = 0;
  for (int i = 0; i < c->role.count; i++)
    if (c->members[i].peer) lies += tsr__link_waiting(&c->members[i].peer->link);
  return !lies || lies + bytes <= TSR__ANSWER_MOST / 2;
}

/* Tells all who have come, and forgets their records.
 * Called again for each who comes to one that has failed; `answered` keeps it to one answer
 * each. Of one that is whole some may have to wait until others have read theirs. */
static void settle(tsr__coordinator *c, tsr__gathering *g)
{
  if (!g->result.status && !g->whole) join_records(c, g);
  tsr__blob fields = { tsr__text_get(&g->records), g->records.length };
  for (int i = 0; i < g->count; i++) {
    struct tsr__attendee *a = &g->attendees[i];
    if (!a->here || a->answered) continue;
    if (!g->result.status && !may_lie(c, fields.length)) return;
    tsr__answer(c, a->member, a->ticket, &g->result, fields);
    a->answered = true;
    drop_record(c, a);
  }
}

static bool is_gone(const tsr__coordinator *c, int member)
{
  tsr__presence presence = c->members[member].presence;
  return presence == TSR__FAILED || presence == TSR__LEFT;
}

/* Drops those in which nothing is owed to anybody.
 * Apart from settle, as the list may be under way when that is called: all walks end first. */
static void sweep(tsr__coordinator *c)
{
  for (tsr__gathering **at = &c->gatherings, *g; (g = *at);) {
    bool owed = false;
    for (int i = 0; i < g->count; i++)
      owed = owed || (!g->attendees[i].answered && !is_gone(c, g->attendees[i].member));
    if (owed) {
      at = &g->next;
      continue;
    }
    *at = g->next;
    gathering_free(c, g);
  }
}

/* "process 2 (...), process 5 and 3 more" */
static void name_missing(const tsr__coordinator *c, const tsr__gathering *g, tsr__text *out)
{
  int missing = g->count - g->arrived, named = 0;
  for (int i = 0; i < g->count && named < NAMED; i++) {
    if (g->attendees[i].here) continue;
    if (named++) tsr__text_add(out, named == missing ? " and " : ", ");
    tsr__member_name(c, g->attendees[i].member, out);
  }
  if (missing > named) tsr__text_add(out, " and %d more", missing - named);
}

/* What is missing `at` a time. */
static void say_missing(const tsr__coordinator *c, const tsr__gathering *g, int64_t at,
                        tsr__error *error)
{
  tsr__text missing;
  char seconds[32];
  tsr__text_init(&missing, c->heap);
  name_missing(c, g, &missing);
  tsr__text_f64(seconds, (double)((at - g->since) / 100000000) / 10);
  tsr__error_set(error, TSR_EPEER, "'%s': after %s s %d of %d processes have arrived; missing: %s",
                 g->name, seconds, g->arrived, g->count, tsr__text_get(&missing));
  tsr__text_free(&missing);
}

static void time_is_over(tsr__coordinator *c, tsr__gathering *g)
{
  say_missing(c, g, g->deadline, &g->result);
  settle(c, g);
}

/* Without it the gathering can never be whole.
 * Of a failure the job's first cause is told, and not this member's own: what failed later
 * mostly did so because of it. */
static void lacks(tsr__coordinator *c, tsr__gathering *g, int member)
{
  tsr__text who;
  tsr__text_init(&who, c->heap);
  tsr__member_name(c, member, &who);
  if (c->members[member].presence == TSR__LEFT)
    tsr__error_set(&g->result, TSR_EPEER, "'%s': %s has left the job and cannot arrive", g->name,
                   tsr__text_get(&who));
  else tsr__error_set(&g->result, TSR_EPEER, "'%s': %s", g->name, c->cause.text);
  tsr__text_free(&who);
  settle(c, g);
}

/* An error for all and not for who came last: which of the lists is the wrong one nobody here
 * can know. */
static void poison(tsr__coordinator *c, tsr__gathering *g, int member)
{
  tsr__error_set(&g->result, TSR_EARG,
                 "'%s': process %d arrived, which is not in the list of processes or gave another "
                 "list; give the same .processes in all processes that take part",
                 g->name, member);
  settle(c, g);
}

/* ---- coming ---------------------------------------------------------------------------------- */

/* The first who comes sets the deadline; what later ones say of time is not looked at. */
static tsr__gathering *gathering_new(tsr__coordinator *c, const asked *a)
{
  tsr__gathering *g = tsr__new(c->heap, gathering_size(a->count)), **end = &c->gatherings;
  int open = 0;
  if (!g) return NULL;
  tsr__text_init(&g->records, c->heap);
  memcpy(g->name, a->name, sizeof g->name);
  g->count = a->count;
  for (int i = 0; i < a->count; i++) g->attendees[i].member = a->members[i];
  g->since = c->now;
  g->deadline = a->ms > (INT64_MAX - c->now) / 1000000 ? INT64_MAX : c->now + a->ms * 1000000;
  /* In the order of making: the oldest of a name comes first. */
  for (; *end; end = &(*end)->next) open++;
  if (open >= OPEN_MOST) {
    tsr__del(c->heap, g, gathering_size(a->count));
    return NULL;
  }
  return *end = g;
}

/* The one that a process belongs to: the first that it has not come to yet. `*other` is one that it
 * has no part in, rather under way than spoilt; or NULL.
 *
 *   "epoch" of 0, 1   0: answered  1: not yet (failed)
 *   "epoch" of 0, 1   0: here      1: not yet             1 comes: belongs to the upper one */
static tsr__gathering *find(tsr__coordinator *c, int member, const char *name,
                            tsr__gathering **other)
{
  *other = NULL;
  for (tsr__gathering *g = c->gatherings; g; g = g->next) {
    if (strcmp(g->name, name) != 0) continue;
    struct tsr__attendee *a = attendee(g, member);
    if (a && !a->here && !a->answered) return g;
    bool spoilt = g->result.status == TSR_EARG;
    if (!a && !g->whole && (!g->result.status || (spoilt && !*other))) *other = g;
  }
  return NULL;
}

static void refuse(tsr__coordinator *c, int member, uint32_t ticket, const tsr__error *error)
{
  tsr__answer(c, member, ticket, error, (tsr__blob){ NULL, 0 });
}

/* Takes a process's record into its gathering.
 * A participant that is gone already was not there to be missed when it went: that is asked
 * here, at each coming. Without memory for one record the gathering fails for all, as none may
 * get fewer records than there are processes. */
static void arrive(tsr__coordinator *c, tsr__gathering *g, int member, uint32_t ticket,
                   const asked *a)
{
  struct tsr__attendee *one = attendee(g, member);
  one->here = true;
  one->ticket = ticket;
  g->arrived++;
  if (c->record_bytes + a->record.length <= RECORDS_MOST)
    one->record = tsr__new_raw(c->heap, a->record.length + 1);
  one->length = one->record ? a->record.length : 0;
  c->record_bytes += one->length;
  if (one->length) memcpy(one->record, a->record.data, one->length);
  if (!one->record)
    tsr__error_set(&g->result, TSR_ENOMEM, "process 0 has no memory for the records of '%s'",
                   g->name);
  for (int i = 0; i < g->count && !g->result.status; i++)
    if (!g->attendees[i].here && is_gone(c, g->attendees[i].member))
      lacks(c, g, g->attendees[i].member);
  if (g->result.status || g->arrived == g->count) settle(c, g);
}

static void no_room(tsr__coordinator *c, int member, uint32_t ticket, const char *name)
{
  tsr__error error = { .status = TSR_OK };
  tsr__error_set(&error, TSR_ENOMEM, "'%s': process 0 has no memory for one more round", name);
  refuse(c, member, ticket, &error);
}

/* Who has failed for the others hears so: they do not come to where it is, as it cannot come to
 * where they are. Its connection may stand, and its program go on. */
static void failed_before(tsr__coordinator *c, int member, uint32_t ticket, const char *name)
{
  tsr__error error = { .status = TSR_OK };
  tsr__error_set(&error, TSR_EPEER, "'%s': %s", name, c->cause.text);
  refuse(c, member, ticket, &error);
}

/* A stranger spoils the gathering that it passes: that it came shows that programs differ, and
 * the others would wait until their time is over. */
static void come(tsr__coordinator *c, int member, uint32_t ticket, const asked *a)
{
  tsr__gathering *other, *g = find(c, member, a->name, &other);
  bool part = bsearch(&member, a->members, (size_t)a->count, sizeof(int), by_number) != NULL;
  bool stranger = !g && (other || !part);
  if (stranger) g = other;
  if (!g) g = gathering_new(c, a);
  if (!g) {
    no_room(c, member, ticket, a->name);
    return;
  }
  if (!g->result.status && (stranger || !same_members(g, a))) poison(c, g, member);
  /* Who only passes by a gathering of others is told, and none is opened for it. */
  if (stranger) refuse(c, member, ticket, &g->result);
  else arrive(c, g, member, ticket, a);
}

bool tsr__meet_request(tsr__coordinator *c, int member, uint32_t ticket, tsr__fields *fields)
{
  asked a = { .count = 0 };
  bool good = read_asked(c, fields, &a);
  if (good && !a.members) no_room(c, member, ticket, a.name);
  else if (good && is_gone(c, member)) failed_before(c, member, ticket, a.name);
  else if (good) come(c, member, ticket, &a);
  tsr__del(c->heap, a.members, (size_t)a.count * sizeof(int));
  sweep(c);
  return good;
}

/* ---- time and death -------------------------------------------------------------------------- */

/* Says once to those who wait whom they wait for. Of the start it is said sooner, by process 0. */
static void tell_long(tsr__coordinator *c, tsr__gathering *g)
{
  tsr__error late = { .status = TSR_OK };
  g->told = true;
  if (!strcmp(g->name, "the start")) return;
  say_missing(c, g, c->now, &late);
  for (int i = 0; i < g->count; i++)
    if (g->attendees[i].here) tsr__tell_wait(c, g->attendees[i].member, late.text);
}

/* Returns the next deadline, by which the thread knows how long it may sleep; soon where answers
 * wait for others to be read. */
int64_t tsr__meetings_tick(tsr__coordinator *c)
{
  int64_t next = INT64_MAX;
  for (tsr__gathering *g = c->gatherings; g; g = g->next) {
    if (g->result.status) continue;
    int64_t then = g->deadline;
    if (g->whole) {
      settle(c, g);
      then = c->now + LOOK_NS;
    } else if (then <= c->now) {
      time_is_over(c, g);
      continue;
    }
    int64_t word = g->told || g->whole ? INT64_MAX : tsr__takes_long(c, g->since);
    if (word <= c->now) tell_long(c, g);
    else if (word < then) then = word;
    if (then < next) next = then;
  }
  sweep(c);
  return next;
}

void tsr__meetings_changed(tsr__coordinator *c, int gone)
{
  for (tsr__gathering *g = c->gatherings; g; g = g->next)
    if (!g->result.status && !g->whole && attendee(g, gone)) lacks(c, g, gone);
  sweep(c);
}

void tsr__meetings_free(tsr__coordinator *c)
{
  while (c->gatherings) {
    tsr__gathering *g = c->gatherings;
    c->gatherings = g->next;
    gathering_free(c, g);
  }
}
