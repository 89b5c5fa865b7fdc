/* What members ask of the coordinator, and gets that wait until somebody sets their key.
 *
 * Invariant: every request of a member with a ticket is answered once, or waits in a list with a
 * deadline; what comes after a failure and nobody will do any more is answered with its cause.
 *
 *   GET of a key that is there, or with 0 ms   -> answered at once
 *   GET of another one                         -> waits -> SET or ADD of it | deadline | a failure
 *   BYE of process 0                           -> waits -> all others gone  | close_seconds
 *
 * Each kind returns false for a frame whose fields are not as wire.c says, and its sender is cut
 * off. What is well formed and cannot be done is an answer with an error: no program is ended
 * for a key that is missing. */
#include "comm/coordinator.h"

#include <inttypes.h>

enum { WAITS_MOST = 65536 };

static const tsr__blob nothing = { "", 0 };

/* ---- waiting --------------------------------------------------------------------------------- */

static void unlink_wait(tsr__coordinator *c, tsr__wait **at)
{
  tsr__wait *wait = *at;
  *at = wait->next;
  tsr__del(c->heap, wait, sizeof *wait);
}

/* `found` apart from the value, as a value may be empty. */
static void answer_found(tsr__coordinator *c, int member, uint32_t ticket, const tsr__pair *entry)
{
  tsr__text fields;
  tsr__error error = { .status = TSR_OK };
  tsr__text_init(&fields, c->heap);
  tsr__write_u32(&fields, entry != NULL);
  tsr__write_bytes(&fields, entry ? entry->value : "", entry ? entry->length : 0);
  if (fields.failed) tsr__error_set(&error, TSR_ENOMEM, "process 0 has no memory for the answer");
  tsr__answer(c, member, ticket, &error, (tsr__blob){ tsr__text_get(&fields), fields.length });
  tsr__text_free(&fields);
}

/* Whether all the others are gone, or never came. */
static bool is_last(const tsr__coordinator *c)
{
  for (int i = 1; i < c->role.count; i++)
    if (c->members[i].presence == TSR__HERE || c->members[i].presence == TSR__SILENT) return false;
  return true;
}

/* A key was set: who waits for it has it. */
static void tell_waiting(tsr__coordinator *c, const tsr__pair *entry)
{
  for (tsr__wait **at = &c->waits; *at;) {
    if (strcmp((*at)->key, entry->key) != 0) {
      at = &(*at)->next;
      continue;
    }
    answer_found(c, (*at)->member, (*at)->ticket, entry);
    unlink_wait(c, at);
  }
}

static void time_is_over(tsr__coordinator *c, const tsr__wait *wait)
{
  tsr__error error = { .status = TSR_OK };
  char seconds[32];
  tsr__text_f64(seconds, (double)((wait->deadline - wait->since) / 1000000) / 1000);
  /* A goodbye that others do not share is answered all the same: its process ends. */
  if (*wait->key)
    tsr__error_set(&error, TSR_EPEER, "no process has set key '%s' within %s s", wait->key,
                   seconds);
  tsr__answer(c, wait->member, wait->ticket, &error, nothing);
}

/* Says once what is waited for: a key, or for process 0 that says goodbye, the others. */
static void tell_long(tsr__coordinator *c, tsr__wait *wait)
{
  tsr__text text;
  char seconds[32];
  tsr__text_init(&text, c->heap);
  tsr__text_f64(seconds, (double)((c->now - wait->since) / 100000000) / 10);
  wait->told = true;
  if (*wait->key) {
    tsr__text_add(&text, "no process has set key '%s' for %s s", wait->key, seconds);
  } else {
    tsr__text_add(&text, "process 0 has waited %s s for the goodbye of", seconds);
    for (int i = 1, some = 0; i < c->role.count; i++) {
      if (c->members[i].presence != TSR__HERE && c->members[i].presence != TSR__SILENT) continue;
      tsr__text_add(&text, some++ ? ", " : " ");
      tsr__member_name(c, i, &text);
    }
  }
  tsr__tell_wait(c, wait->member, tsr__text_get(&text));
  tsr__text_free(&text);
}

int64_t tsr__waits_tick(tsr__coordinator *c)
{
  int64_t next = INT64_MAX;
  for (tsr__wait **at = &c->waits; *at;) {
    if ((*at)->deadline <= c->now) {
      time_is_over(c, *at);
      unlink_wait(c, at);
      continue;
    }
    int64_t then = (*at)->deadline,
            word = (*at)->told ? INT64_MAX : tsr__takes_long(c, (*at)->since);
    if (word <= c->now) tell_long(c, *at);
    else if (word < then) then = word;
    if (then < next) next = then;
    at = &(*at)->next;
  }
  return next;
}

/*   of who is gone               dropped: there is nobody to answer
 *   a goodbye                    answered once process 0 is the last
 *   a GET, and there is a cause  fails with it: who would set the key may be gone
 *
 * A goodbye alone fails no GET: others may still set the key. */
void tsr__waits_changed(tsr__coordinator *c, int gone)
{
  bool last = is_last(c);
  for (tsr__wait **at = &c->waits; *at;) {
    tsr__wait *wait = *at;
    bool bye = !*wait->key, own = wait->member == gone;
    if (!own && !(bye ? last : c->cause.status != TSR_OK)) {
      at = &wait->next;
      continue;
    }
    tsr__error error = { .status = TSR_OK };
    if (!bye && c->cause.status)
      tsr__error_set(&error, TSR_EPEER, "key '%s': %s", wait->key, c->cause.text);
    if (!own) tsr__answer(c, wait->member, wait->ticket, &error, nothing);
    unlink_wait(c, at);
  }
}

void tsr__waits_free(tsr__coordinator *c)
{
  while (c->waits) unlink_wait(c, &c->waits);
}

/* Puts a request by; false: there is no room for it.
 * Counted each time rather than kept: the bound is for a program that has gone wrong. */
static bool put_by(tsr__coordinator *c, int member, uint32_t ticket, const char *key, int64_t ms)
{
  int count = 0;
  for (const tsr__wait *wait = c->waits; wait; wait = wait->next) count++;
  tsr__wait *wait = count < WAITS_MOST ? tsr__new(c->heap, sizeof *wait) : NULL;
  if (!wait) return false;
  *wait = (tsr__wait){ .next = c->waits, .member = member, .ticket = ticket, .since = c->now };
  wait->deadline = ms > (INT64_MAX - c->now) / 1000000 ? INT64_MAX : c->now + ms * 1000000;
  memcpy(wait->key, key, strlen(key) + 1);
  c->waits = wait;
  return true;
}

/* ---- the store ------------------------------------------------------------------------------- */

/* A key in its one form; an empty one is an error where it must name something. */
static bool take_key(tsr__fields *fields, char key[TSR__KEY_MOST + 1], bool needed,
                     tsr__error *error)
{
  tsr__take_text(fields, key, TSR__KEY_MOST);
  if (fields->bad) return false;
  if (!tsr__key_normal(key) && needed)
    tsr__error_set(error, TSR_EARG, "the key is empty, expected a path such as \"epoch/3\"");
  return true;
}

/* First the answer of who set it, then of those who waited. The pair is looked for anew: setting
 * moves the list. */
static bool set(tsr__coordinator *c, int member, uint32_t ticket, tsr__fields *fields)
{
  char key[TSR__KEY_MOST + 1];
  tsr__error error = { .status = TSR_OK };
  if (!take_key(fields, key, true, &error)) return false;
  tsr__blob value = tsr__take_bytes(fields);
  bool overwrite = tsr__take_u32(fields) != 0;
  if (!tsr__fields_done(fields)) return false;
  if (!error.status) tsr__store_set(&c->store, key, value, overwrite, &error);
  tsr__answer(c, member, ticket, &error, nothing);
  if (!error.status) tell_waiting(c, tsr__store_find(&c->store, key));
  return true;
}

static bool get(tsr__coordinator *c, int member, uint32_t ticket, tsr__fields *fields)
{
  char key[TSR__KEY_MOST + 1];
  tsr__error error = { .status = TSR_OK };
  if (!take_key(fields, key, true, &error)) return false;
  uint64_t ms = tsr__take_u64(fields);
  if (!tsr__fields_done(fields) || ms > INT64_MAX / 1000000) return false;
  const tsr__pair *entry = tsr__store_find(&c->store, key);
  if (!error.status && (entry || !ms)) {
    answer_found(c, member, ticket, entry);
    return true;
  }
  /* Who would set it may be the one that failed. */
  if (c->cause.status) tsr__error_set(&error, TSR_EPEER, "key '%s': %s", key, c->cause.text);
  if (!error.status && !put_by(c, member, ticket, key, (int64_t)ms))
    tsr__error_set(&error, TSR_ENOMEM,
                   "key '%s': process 0 has no memory for one more wait for a key", key);
  if (error.status) tsr__answer(c, member, ticket, &error, nothing);
  return true;
}

static bool delete_key(tsr__coordinator *c, int member, uint32_t ticket, tsr__fields *fields)
{
  char key[TSR__KEY_MOST + 1];
  tsr__error error = { .status = TSR_OK };
  if (!take_key(fields, key, true, &error) || !tsr__fields_done(fields)) return false;
  if (!error.status) tsr__store_delete(&c->store, key);
  tsr__answer(c, member, ticket, &error, nothing);
  return true;
}

/* `bytes` has room for one more value of the largest size, so the answer is never beyond what a
 * member reads; so it may be refused a little below 128 MiB. */
static bool list(tsr__coordinator *c, int member, uint32_t ticket, tsr__fields *fields)
{
  char key[TSR__KEY_MOST + 1];
  tsr__error error = { .status = TSR_OK };
  if (!take_key(fields, key, false, &error) || !tsr__fields_done(fields)) return false;
  size_t first, count = tsr__store_range(&c->store, key, &first), bytes = 0;
  tsr__text out;
  tsr__text_init(&out, c->heap);
  tsr__write_u32(&out, (uint32_t)count);
  for (size_t i = first; i < first + count && bytes < TSR__ANSWER_MOST; i++) {
    const tsr__pair *entry = &c->store.pairs[i];
    tsr__write_bytes(&out, entry->key, strlen(entry->key));
    tsr__write_bytes(&out, entry->value, entry->length);
    bytes = out.length + TSR__VALUE_MOST;
  }
  if (bytes >= TSR__ANSWER_MOST)
    tsr__error_set(&error, TSR_EVALUE,
                   "the values of the keys below '%s' are too large for one answer (128 MiB)", key);
  if (out.failed) tsr__error_set(&error, TSR_ENOMEM, "process 0 has no memory for the answer");
  tsr__answer(c, member, ticket, &error, (tsr__blob){ tsr__text_get(&out), out.length });
  tsr__text_free(&out);
  return true;
}

/* Read, added and written in one request: as this thread is the only one in the store, that is
 * what makes it a counter for all. The key is there for GETs as well. */
static bool add(tsr__coordinator *c, int member, uint32_t ticket, tsr__fields *fields)
{
  char key[TSR__KEY_MOST + 1];
  tsr__error error = { .status = TSR_OK };
  int64_t sum = 0;
  uint8_t bytes[8];
  if (!take_key(fields, key, true, &error)) return false;
  int64_t delta = (int64_t)tsr__take_u64(fields);
  if (!tsr__fields_done(fields)) return false;
  if (!error.status) tsr__store_add(&c->store, key, delta, &sum, &error);
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)((uint64_t)sum >> 8 * i);
  tsr__answer(c, member, ticket, &error, (tsr__blob){ bytes, sizeof bytes });
  if (!error.status) tell_waiting(c, tsr__store_find(&c->store, key));
  return true;
}

/* ---- coming to an end ------------------------------------------------------------------------ */

/* Its connection stays: it hears of itself what the others do, and can say goodbye. */
static bool fail(tsr__coordinator *c, int member, tsr__fields *fields)
{
  char why[600];
  tsr__take_text(fields, why, sizeof why - 1);
  if (!tsr__fields_done(fields)) return false;
  tsr__member_gone(c, member, true, why);
  return true;
}

/* All are told before it is answered; then closing the connection is no failure, as it has left.
 * Without room to put it by process 0 goes at once. */
static bool bye(tsr__coordinator *c, int member, uint32_t ticket, tsr__fields *fields)
{
  tsr__error fine = { .status = TSR_OK };
  if (!tsr__fields_done(fields)) return false;
  tsr__member_gone(c, member, false, "");
  /* Whoever holds the coordinator stays until nobody needs it. */
  bool stays = member == 0 && !is_last(c);
  if (!stays || !put_by(c, member, ticket, "", (int64_t)(c->role.close_seconds * 1000)))
    tsr__answer(c, member, ticket, &fine, nothing);
  return true;
}

/* Answered, so that a member, too, knows of silence on this side. */
static bool ping(tsr__coordinator *c, int member, tsr__fields *fields)
{
  tsr__link *link = &c->members[member].peer->link;
  tsr__packet_end(&link->out, tsr__packet_begin(&link->out, TSR__SAY_PONG, 0));
  return tsr__agree_beat(c, member, fields);
}

bool tsr__request(tsr__coordinator *c, int member, tsr__packet *frame)
{
  switch (frame->kind) {
  case TSR__SAY_SET: return set(c, member, frame->ticket, &frame->fields);
  case TSR__SAY_GET: return get(c, member, frame->ticket, &frame->fields);
  case TSR__SAY_DELETE: return delete_key(c, member, frame->ticket, &frame->fields);
  case TSR__SAY_LIST: return list(c, member, frame->ticket, &frame->fields);
  case TSR__SAY_ADD: return add(c, member, frame->ticket, &frame->fields);
  case TSR__SAY_MEET: return tsr__meet_request(c, member, frame->ticket, &frame->fields);
  case TSR__SAY_FAIL: return fail(c, member, &frame->fields);
  case TSR__SAY_PING: return ping(c, member, &frame->fields);
  case TSR__SAY_STOP: return tsr__fields_done(&frame->fields) && tsr__agree_stop(c);
  case TSR__SAY_STEP: return tsr__agree_step(c, member, &frame->fields);
  case TSR__SAY_REGROUP: return tsr__agree_regroup(c, member, frame->ticket, &frame->fields);
  case TSR__SAY_BYE: return bye(c, member, frame->ticket, &frame->fields);
  default: return false;
  }
}
