/* Processes of a job come to share device memory: what they must tell each other first goes by way
 * of the coordinator, and who is gone it knows.
 *
 *   peers.h (knows no coordinator)  <- gather, gone, waits - share.c -> comm.h (knows no memory) */
#include "comm/comm.h"
#include "comm/far.h"
#include "comm/peers.h"

#include <stdio.h>

/* Also of a runtime that has failed since, which closes what it had opened: tsr__comm_of hides its
 * connection. */
static tsr__comm *comm_of(void *user)
{
  const tsr_runtime *rt = user;
  return rt->slots[TSR__SLOT_COMM];
}

/* All gathers go by one name: processes make them in the same order, so the first that one has
 * not come to is the same for all. A record of another size is another step's, or another
 * library's. `error` is NULL where the caller has one already. Who has no memory to take part, or
 * to hear the others, is at another gather than they are from then on: it has failed for them. */
static tsr_status gather(void *user, const void *mine, size_t size, void *all, tsr__error *error)
{
  tsr_runtime *rt = user;
  tsr__comm *comm = comm_of(rt);
  tsr__error own = { .status = TSR_OK };
  tsr__text text;
  size_t count = all ? (size_t)tsr__comm_count(comm) : 0;
  tsr__text_init(&text, &rt->heap);
  const tsr__comm_meeting meeting = { .name = "tessera/memory",
                                      .seconds = TSR__COMM_SECONDS,
                                      .record = { mine, size } };
  tsr_status status = tsr__comm_meet(comm, &meeting, all ? &text : NULL, &own);
  if (status == TSR_ENOMEM) tsr__comm_fail(comm, "it has no memory to share with other processes");
  tsr__fields reader = { (const uint8_t *)tsr__text_get(&text),
                         (const uint8_t *)tsr__text_get(&text) + text.length, false };
  for (size_t p = 0; p < count && !status; p++) {
    tsr__blob record = tsr__take_bytes(&reader);
    if (reader.bad || record.length != size)
      status = tsr__error_set(&own, TSR_EPEER,
                              "process %zu sent a record of another form than this process", p);
    else memcpy((char *)all + p * size, record.data, size);
  }
  tsr__text_free(&text);
  if (status && error) *error = own;
  return status;
}

/* Any failure counts, not only that of `process`: a run needs all, so who waits for one that is
 * well would wait for one that waits in vain. */
static bool is_gone(void *user, int process, tsr__error *error)
{
  tsr__comm *comm = comm_of(user);
  if (tsr__comm_failed(comm, error)) return true;
  if (tsr__comm_presence(comm, process) != TSR__LEFT) return false;
  *error = (tsr__error){ .status = TSR_OK };
  tsr__error_set(error, TSR_EPEER, "process %d has closed its runtime", process);
  return true;
}

static bool has_ended(void *user, int process)
{
  return tsr__comm_ended(comm_of(user), process);
}

/* Texts are copied: they lie in shared memory, and are the next run's soon. */
static void waits(void *user, const tsr__peers_wait *wait)
{
  tsr__comm_wait out = { .process = -1 };
  if (!wait) {
    tsr__comm_waits(comm_of(user), NULL);
    return;
  }
  out.process = wait->process;
  out.number = wait->run;
  out.word = wait->word;
  out.theirs = wait->theirs;
  snprintf(out.what, sizeof out.what, "%s", wait->what);
  snprintf(out.their_what, sizeof out.their_what, "%s", wait->their_what);
  tsr__comm_waits(comm_of(user), &out);
}

/* Compared without making the text: this is done at each beginning of a run. */
static bool says(const char *text, const tsr__peers_work *work)
{
  size_t length = strlen(work->what);
  if (strncmp(text, work->what, length) != 0) return false;
  text += length;
  if (!work->site) return !*text;
  return !strncmp(text, " at ", 4) && !strcmp(text + 4, work->site);
}

void tsr__peers_say(char *text, size_t size, const tsr__peers_work *work)
{
  if (!says(text, work))
    snprintf(text, size, "%s%s%s", work->what, work->site ? " at " : "",
             work->site ? work->site : "");
}

tsr_status tsr__comm_share(tsr_runtime *rt)
{
  tsr__error error = { .status = TSR_OK };
  const tsr__role *role = tsr__comm_role(tsr__comm_of(rt));
  char engine[TSR__ENGINE_NAME];
  tsr__engine_choose(role->engine, role->launcher, engine);
  const tsr__peers_start start = { .index = role->index,
                                   .count = role->count,
                                   .all_gather = gather,
                                   .gone = is_gone,
                                   .ended = has_ended,
                                   .user = rt,
                                   .waits = waits,
                                   .host = role->host,
                                   .engine = engine,
                                   .shrinks = role->on_failure == TSR__ON_FAILURE_SHRINK };
  if (!tsr__peers_install(rt, &start, &error)) {
    const tsr__peers *peers = tsr__peers_of(rt);
    char text[500];
    tsr__peers_describe(peers, text, sizeof text);
    tsr__log(rt, TSR_LOG_INFO, "process", "%s", text);
    return TSR_OK;
  }
  return tsr__runtime_fail(rt, error.status, "tsr_initialize: %s", error.text);
}
