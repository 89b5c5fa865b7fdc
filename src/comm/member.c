/* A process among the others: its connection to the coordinator, which one thread holds.
 *
 *   caller: request -> outbox, waits ........................ <- answer, by its ticket
 *                        |   (under the lock)                        ^
 *   thread:              +-> link -> coordinator -> link -> frame ---+--> notices: who is there,
 *                             a beat each second                          the first cause
 *
 * Invariant: only the thread touches the link. A call in the list is done once, by its answer or by
 * the loss of the connection; after that no call enters the list any more.
 *
 *   pair of sockets     process 0 and its own coordinator: no address, no proof
 *   TCP, Unix socket    the others: HELLO, JOIN, WELCOME by the caller, before there is a thread
 *
 * The lock guards the outbox, the calls and what is known of failures. It is held while nothing
 * is sent or waited for but the condition, so a caller never waits for the network by it. */
#include "comm/member.h"

#include "base/events.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define GRACE 5.0 /* seconds that the answer of a goodbye may come late */
#define LONG 1e9  /* seconds: more is for ever */

/* ---- requests -------------------------------------------------------------------------------- */

/* The frame is written in a text of its own, without the lock: it may be of megabytes. Answers
 * are told apart by tickets alone, so several threads may ask at the same time. */
void tsr__request_begin(tsr__comm *comm, tsr__ask *r, int kind)
{
  tsr__text_init(&r->text, &comm->rt->heap);
  pthread_mutex_lock(&comm->lock);
  if (!++comm->ticket) comm->ticket = 1; /* 0 asks for no answer */
  r->ticket = comm->ticket;
  pthread_mutex_unlock(&comm->lock);
  r->began = tsr__packet_begin(&r->text, kind, r->ticket);
}

/* By the clock of tsr__now, which the condition uses too (init_lock): a clock that people set
 * would make waits longer or end them. */
static struct timespec deadline_of(double seconds)
{
  int64_t now = tsr__now(), span = seconds > LONG ? INT64_MAX : (int64_t)(seconds * 1e9);
  int64_t at = span > INT64_MAX - now ? INT64_MAX : now + span;
  return (struct timespec){ at / SECOND, at % SECOND };
}

/* Waits for the answer, under the lock.
 * The coordinator keeps the time and answers when it is over. A call is never given up while it may
 * still be carried out, or who tries again would do it twice: it ends by its answer, or by the loss
 * of the connection, which a coordinator that is silent for .stall_timeout is. A goodbye alone has
 * an end of its own (`seconds`), as nothing comes after it. That call lies on the caller's stack,
 * so it leaves the list before the caller goes: an answer that comes later finds nobody. */
static void await(tsr__comm *comm, tsr__call *one, double seconds)
{
  struct timespec until = deadline_of(seconds + GRACE);
  int code = 0;
  while (!one->done && code != ETIMEDOUT)
    code = seconds < 0 ? pthread_cond_wait(&comm->answered, &comm->lock)
                       : pthread_cond_timedwait(&comm->answered, &comm->lock, &until);
  if (one->done) return;
  tsr__error_set(&one->error, TSR_EPEER,
                 "process 0, the coordinator, does not answer: is it stopped?");
  for (tsr__call **at = &comm->calls; *at; at = &(*at)->next)
    if (*at == one) {
      *at = one->next;
      break;
    }
}

/* Whether the connection is lost is asked under the lock under which the call enters the list:
 * lose() finishes all that are in it, so none is left behind. */
tsr_status tsr__ask_send(tsr__comm *comm, tsr__ask *r, double seconds, tsr__text *out,
                         tsr__error *error)
{
  tsr__call one = { .ticket = r->ticket, .out = out };
  tsr__packet_end(&r->text, r->began);
  pthread_mutex_lock(&comm->lock);
  if (comm->lost.status) {
    one.error = comm->lost;
  } else {
    tsr__text_put(&comm->outbox, tsr__text_get(&r->text), r->text.length);
    if (r->text.failed || comm->outbox.failed) {
      comm->outbox.failed = false;
      tsr__error_set(&one.error, TSR_ENOMEM, "no memory for a request of %zu bytes",
                     r->text.length);
    } else {
      one.next = comm->calls;
      comm->calls = &one;
      tsr__wake(comm->wake);
      await(comm, &one, seconds);
    }
  }
  pthread_mutex_unlock(&comm->lock);
  tsr__text_free(&r->text);
  if (one.error.status) tsr__error_set(error, one.error.status, "%s", one.error.text);
  return one.error.status;
}

/* ---- what comes ------------------------------------------------------------------------------ */

static void lose(tsr__comm *comm, tsr_status status, const char *text)
{
  pthread_mutex_lock(&comm->lock);
  /* What is known of the cause says more than that the connection closed. */
  bool known = comm->cause.status != TSR_OK && status != TSR_ENOMEM;
  tsr__error_set(&comm->lost, status, "%s", known ? comm->cause.text : text);
  bool first = !comm->cause.status;
  if (first) comm->cause = comm->lost;
  for (tsr__call *one = comm->calls; one; one = one->next) {
    one->error = comm->lost;
    one->done = true;
  }
  comm->calls = NULL;
  pthread_cond_broadcast(&comm->answered);
  pthread_mutex_unlock(&comm->lock);
  if (first) tsr__fate_failed(comm);
}

static void lose_connection(tsr__comm *comm)
{
  char text[500];
  bool starved = comm->link.in.failed || comm->link.out.failed ||
                 (comm->coordinator && atomic_load(&comm->coordinator->starved));
  if (starved) snprintf(text, sizeof text, "no memory for messages to the other processes");
  else
    snprintf(text, sizeof text,
             "process 0, the coordinator (%s), has closed the connection: it ended or was killed",
             comm->role.coordinator);
  lose(comm, starved ? TSR_ENOMEM : TSR_EPEER, text);
}

/* The fields are copied to the caller's text under the lock, as it waits and reads them only
 * once it is done; a frame lies in the link until the next read alone. */
static bool take_answer(tsr__comm *comm, tsr__packet *frame)
{
  char text[sizeof(((tsr__error *)0)->text)];
  uint32_t status = tsr__take_u32(&frame->fields);
  tsr__take_text(&frame->fields, text, sizeof text - 1);
  if (frame->fields.bad) return false;
  pthread_mutex_lock(&comm->lock);
  tsr__call **at = &comm->calls;
  while (*at && (*at)->ticket != frame->ticket) at = &(*at)->next;
  tsr__call *one = *at;
  if (one) {
    *at = one->next;
    one->done = true;
    size_t length = (size_t)(frame->fields.end - frame->fields.at);
    if (status) tsr__error_set(&one->error, (tsr_status)status, "%s", text);
    else if (one->out) tsr__text_put(one->out, (const char *)frame->fields.at, length);
    if (one->out && one->out->failed)
      tsr__error_set(&one->error, TSR_ENOMEM, "no memory for an answer of %zu bytes", length);
    pthread_cond_broadcast(&comm->answered);
  }
  pthread_mutex_unlock(&comm->lock);
  return true; /* nobody waits for it any more: its deadline was over */
}

static void log_notice(tsr__comm *comm, int index, uint32_t presence, const char *text)
{
  static const char *const words[] = { "has not joined yet", "has joined", "sends no heartbeat",
                                       "failed", "has left" };
  tsr_log_level level = presence == TSR__FAILED   ? TSR_LOG_ERROR
                        : presence == TSR__SILENT ? TSR_LOG_WARN
                                                  : TSR_LOG_DEBUG;
  /* What this process waits for; its state has not changed. */
  bool stays = presence == TSR__HERE || presence == TSR__LEFT;
  if (*text && index == comm->role.index && stays) tsr__fate_tell(comm, text);
  else if (*text) tsr__log(comm->rt, level, "process", "%s", text);
  else tsr__log(comm->rt, level, "process", "process %d %s", index, words[presence]);
}

/* Errors are written once, so of several failures the first stays the cause. Fate is told
 * without the lock: it logs, which runs what users gave. */
static bool take_notice(tsr__comm *comm, tsr__packet *frame)
{
  char text[sizeof(((tsr__error *)0)->text)];
  uint32_t index = tsr__take_u32(&frame->fields), presence = tsr__take_u32(&frame->fields);
  tsr__take_text(&frame->fields, text, sizeof text - 1);
  if (!tsr__fields_done(&frame->fields) || index >= (uint32_t)comm->role.count ||
      presence > TSR__LEFT)
    return false;
  atomic_store(&comm->presence[index], (uint8_t)presence);
  bool first = false;
  if (presence == TSR__FAILED) {
    pthread_mutex_lock(&comm->lock);
    first = !comm->cause.status;
    tsr__error_set(&comm->cause, TSR_EPEER, "%s", text);
    pthread_mutex_unlock(&comm->lock);
  }
  log_notice(comm, (int)index, presence, text);
  if (first) tsr__fate_failed(comm);
  if (presence == TSR__SILENT) tsr__fate_silent(comm, (int)index);
  return true;
}

/* A PONG says nothing but that process 0 lives, which its bytes have said already. */
static bool take_frame(tsr__comm *comm, tsr__packet *frame)
{
  switch (frame->kind) {
  case TSR__SAY_ANSWER: return take_answer(comm, frame);
  case TSR__SAY_NOTICE: return take_notice(comm, frame);
  case TSR__SAY_PONG: return true;
  default: return tsr__fate_stop(comm, frame);
  }
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* What is to go out changes hands here: the outbox is all threads', the link this one's. */
static void take_outbox(tsr__comm *comm)
{
  pthread_mutex_lock(&comm->lock);
  if (comm->outbox.length) {
    tsr__text_put(&comm->link.out, comm->outbox.data, comm->outbox.length);
    tsr__text_free(&comm->outbox);
    tsr__text_init(&comm->outbox, &comm->rt->heap);
  }
  pthread_mutex_unlock(&comm->lock);
}

/* Waits and reads; false: the connection is of no use any more.
 * Frames that came before the end of a connection are taken before it counts: the cause may be
 * in the last one. */
static bool exchange(tsr__comm *comm, int wait_ms, int64_t *heard)
{
  tsr__packet frame;
  int got = 0;
  take_outbox(comm);
  if (!tsr__link_write(&comm->link)) return false;
  short events = tsr__link_waiting(&comm->link) ? POLLIN | POLLOUT : POLLIN;
  struct pollfd polls[3] = { { comm->wake, POLLIN, 0 },
                             { comm->link.fd, events, 0 },
                             { atomic_load(&comm->signals), POLLIN, 0 } };
  if (poll(polls, 3, wait_ms) <= 0) return true;
  if (polls[0].revents) tsr__wake_drain(comm->wake);
  if (polls[2].revents) tsr__fate_signal(comm);
  if (!polls[1].revents) return true;
  bool open = tsr__link_read(&comm->link);
  *heard = tsr__now();
  while ((got = tsr__link_next(&comm->link, &frame)) > 0)
    if (!take_frame(comm, &frame)) return false;
  return open && !got;
}

/*   each turn: a beat if its second is over -> write, poll, read -> silence of process 0?
 *
 * A beat does not wait for what callers do, so a process that computes for hours is alive; one
 * that is stopped is not. After the loss the thread stays where the process is to end. */
static void *attend(void *argument)
{
  tsr__comm *comm = argument;
  int64_t last = tsr__now(), heard = last, beat = last;
  int64_t stall = (int64_t)(comm->role.stall_seconds * 1e9);
  uint64_t beats = 0;
  tsr__packet frame;
  /* What came with the welcome. */
  bool good = true;
  while (good && tsr__link_next(&comm->link, &frame) > 0) good = take_frame(comm, &frame);
  while (good && !atomic_load(&comm->stop)) {
    int64_t now = tsr__now(), left = (beat - now) / MILLISECOND;
    /* Whoever was stopped has heard nothing meanwhile, and looks first. */
    if (now - last > 2 * SECOND) heard = now;
    last = now;
    if (left <= 0) {
      tsr__fate_start(comm, now);
      tsr__fate_beat(comm, ++beats);
      beat = now + TSR__BEAT_MS * MILLISECOND;
      left = TSR__BEAT_MS;
    }
    good = exchange(comm, tsr__fate_wait(comm, now, (int)left), &heard);
    if (good && tsr__now() - heard > stall) {
      lose(comm, TSR_EPEER,
           "process 0, the coordinator, sends no heartbeat: is it stopped, or its host down?");
      break;
    }
  }
  if (!good) lose_connection(comm);
  tsr__fate_linger(comm);
  return NULL;
}

/* ---- joining --------------------------------------------------------------------------------- */

/* The next frame, or why there is none: 0 the connection closed or time is over.
 * For the joining alone, when there is no thread yet. Frames that came in one piece with the end
 * of the connection, such as a refusal, are still read. */
static int next_frame(tsr__link *link, int64_t until, tsr__packet *frame)
{
  for (;;) {
    int got = tsr__link_next(link, frame);
    if (got) return got;
    int64_t left = (until - tsr__now()) / MILLISECOND;
    struct pollfd wait = { link->fd, POLLIN, 0 };
    if (left <= 0 || !tsr__link_write(link)) return 0;
    if (tsr__link_waiting(link)) wait.events |= POLLOUT;
    if (poll(&wait, 1, left > 1000 ? 1000 : (int)left) <= 0) continue;
    if (!tsr__link_read(link) && link->in.length == link->in_at) return 0;
  }
}

typedef struct greeting {
  uint8_t server[TSR__NONCE], client[TSR__NONCE];
  bool secret;
} greeting;

/* The frame is taken whole before the version is looked at, so that of a version whose HELLO had
 * other fields would be no coordinator's at all. A process with a secret does not go on with one
 * that has none: it would hand its data to whoever listens at that port. */
static tsr_status read_hello(tsr__comm *comm, tsr__packet *frame, greeting *out, tsr__error *error)
{
  char word[9] = "";
  uint32_t version = 0;
  bool good = frame && frame->kind == TSR__SAY_HELLO;
  if (good) {
    tsr__take_text(&frame->fields, word, 8);
    version = tsr__take_u32(&frame->fields);
    tsr__blob nonce = tsr__take_bytes(&frame->fields);
    out->secret = tsr__take_u32(&frame->fields) != 0;
    good =
        tsr__fields_done(&frame->fields) && nonce.length == TSR__NONCE && !strcmp(word, "tessera");
    if (good) memcpy(out->server, nonce.data, TSR__NONCE);
  }
  if (!good)
    return tsr__error_set(error, TSR_EPEER,
                          "the program that answers at %s is no coordinator of Tessera; does "
                          "another program use the port?",
                          comm->role.coordinator);
  if (version != TSR__WIRE_VERSION)
    return tsr__error_set(error, TSR_EPEER,
                          "process 0 speaks version %u of the protocol, but this process version "
                          "%d; load the same library in all processes",
                          version, TSR__WIRE_VERSION);
  if (!out->secret && *comm->role.secret && comm->role.index)
    return tsr__error_set(error, TSR_EPEER,
                          "the coordinator at %s has no secret, but this process has one; set "
                          ".secret or TSR_SECRET to the same text for all, process 0 too",
                          comm->role.coordinator);
  return TSR_OK;
}

static tsr__claim claim_of(const tsr__comm *comm, const greeting *g, const char *who)
{
  return (
      tsr__claim){ comm->role.secret,         who, g->server, g->client, (uint32_t)comm->role.index,
                   (uint32_t)comm->role.count };
}

/* The proof covers index and count, so nobody in between can give a process another place. */
static void put_join(tsr__comm *comm, const greeting *g)
{
  tsr__text *out = &comm->link.out;
  tsr__claim claim = claim_of(comm, g, "join");
  struct utsname host;
  uint8_t proof[TSR__PROOF];
  if (uname(&host)) host.nodename[0] = '\0';
  host.nodename[64] = '\0';
  tsr__claim_proof(&claim, proof);
  size_t began = tsr__packet_begin(out, TSR__SAY_JOIN, 0);
  tsr__write_bytes(out, g->client, TSR__NONCE);
  tsr__write_bytes(out, proof, *comm->role.secret ? sizeof proof : 0);
  tsr__write_u32(out, (uint32_t)comm->role.index);
  tsr__write_u32(out, (uint32_t)comm->role.count);
  tsr__write_bytes(out, host.nodename, strlen(host.nodename));
  tsr__write_u32(out, (uint32_t)comm->pid);
  tsr__packet_end(out, began);
}

/* The number of the process that started one; 0: not known. */
static long parent_of(long pid)
{
  char path[40], text[512];
  snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t got = read(file, text, sizeof text - 1);
  close(file);
  if (got <= 0) return 0;
  text[got] = '\0';
  /* "12 (name) S 7 ...", in which the name may be anything. */
  char *at = strrchr(text, ')');
  return at && strlen(at) > 4 ? strtol(at + 4, NULL, 10) : 0;
}

/* Whether this process descends from the one that has its place: a program that a process of the
 * job started, which has got its environment and is none of the job. */
static bool is_nested(const tsr__comm *comm, tsr__fields *fields)
{
  char host[65];
  struct utsname own;
  uint32_t pid = tsr__take_u32(fields);
  tsr__take_text(fields, host, sizeof host - 1);
  if (fields->bad || !pid || uname(&own) || strcmp(own.nodename, host) != 0) return false;
  long at = comm->pid;
  for (int i = 0; i < 1000 && at > 1; i++) {
    at = parent_of(at);
    if (at == (long)pid) return true;
  }
  return false;
}

/* A refusal is believed without a proof: it can do no more than end this process's start. A
 * welcome is not: what follows is trusted. */
static tsr_status read_welcome(tsr__comm *comm, tsr__packet *frame, const greeting *g,
                               tsr__error *error)
{
  char text[900];
  uint8_t expected[TSR__PROOF];
  tsr__fields *fields = &frame->fields;
  if (frame->kind == TSR__SAY_REFUSED) {
    uint32_t status = tsr__take_u32(fields);
    tsr__take_text(fields, text, sizeof text - 1);
    comm->nested = is_nested(comm, fields);
    return tsr__error_set(error, status == TSR_EARG ? TSR_EARG : TSR_EPEER, "%s", text);
  }
  tsr__claim claim = claim_of(comm, g, "welcome");
  tsr__blob proof = tsr__take_bytes(fields);
  bool good = frame->kind == TSR__SAY_WELCOME && tsr__fields_done(fields);
  tsr__claim_proof(&claim, expected);
  /* Process 0 knows itself. */
  if (good && *comm->role.secret && comm->role.index)
    good = proof.length == TSR__PROOF && tsr__proof_same(proof.data, expected, TSR__PROOF);
  if (good) return TSR_OK;
  return tsr__error_set(error, TSR_EPEER,
                        "the coordinator at %s does not know the secret of this process; set "
                        ".secret or TSR_SECRET to the same text for all",
                        comm->role.coordinator);
}

/* Introduces the process on a connection. `*again`: it closed before anything was said.
 * Without random numbers this side's nonce is zeros: the coordinator is as safe as before, by its
 * own one, but this side could be shown a WELCOME that was recorded. */
static tsr_status greet(tsr__comm *comm, int64_t until, bool *again, tsr__error *error)
{
  greeting g;
  tsr__packet frame;
  *again = false;
  if (getentropy(g.client, sizeof g.client)) memset(g.client, 0, sizeof g.client);
  int got = next_frame(&comm->link, until, &frame);
  if (got) {
    tsr_status status = read_hello(comm, got > 0 ? &frame : NULL, &g, error);
    if (status) return status;
    put_join(comm, &g);
    got = next_frame(&comm->link, until, &frame);
  }
  if (got > 0) return read_welcome(comm, &frame, &g, error);
  *again = !got && !comm->link.in.failed && !comm->link.out.failed;
  if (!*again)
    return tsr__error_set(error, TSR_ENOMEM, "no memory for messages to the other processes");
  return TSR_EPEER;
}

static tsr_status unreachable(tsr__comm *comm, int lookup, tsr__error *error)
{
  char buffer[128], seconds[32];
  int code = errno;
  tsr__text_f64(seconds, comm->role.start_seconds);
  return tsr__error_set(
      error, TSR_EPEER,
      "process %d cannot reach process 0 at %s (%s) within %s s: does process 0 run, and does it "
      "listen at this address%s?",
      comm->role.index, comm->role.coordinator,
      lookup ? gai_strerror(lookup)
      : code ? tsr__sys_text(code, buffer, sizeof buffer)
             : "the connection closed",
      seconds,
      *comm->role.secret ? ""
                         : "; without TSR_SECRET process 0 takes only processes of its own host");
}

/* Where it takes long, before time is over. */
static void tell_unreached(tsr__comm *comm, int lookup, int code)
{
  char line[600], buffer[128];
  snprintf(line, sizeof line, "process %d cannot reach process 0 at %s yet: %s", comm->role.index,
           comm->role.coordinator,
           lookup ? gai_strerror(lookup)
           : code ? tsr__sys_text(code, buffer, sizeof buffer)
                  : "process 0 does not answer");
  tsr__fate_tell(comm, line);
}

/* Tries until process 0 is there: it may start later.
 * The errno of the last try is what the message tells; one that connected and was closed has
 * none, "nothing came". A single greeting has ten seconds at most: what listens and says nothing
 * may be another program, and is tried again. */
static tsr_status connect_member(tsr__comm *comm, tsr__error *error)
{
  tsr__address at;
  int64_t began = tsr__now(), until = began + (int64_t)(comm->role.start_seconds * 1e9);
  int64_t pause = MILLISECOND;
  bool told = false;
  tsr_status status = tsr__address_parse(comm->role.coordinator, &at, error);
  while (!status) {
    int lookup = 0, fd = tsr__address_connect(&at, !*comm->role.secret, 2000, &lookup);
    bool again = true;
    if (fd >= 0) {
      int64_t most = tsr__now() + 10 * SECOND;
      tsr__address_patience(fd, comm->role.stall_seconds);
      tsr__link_init(&comm->link, &comm->rt->heap, fd, TSR__FRAME_MOST);
      status = greet(comm, most < until ? most : until, &again, error);
      if (!status || !again) return status;
      tsr__link_close(&comm->link);
      status = TSR_OK;
      errno = 0;
    }
    int code = errno;
    if (!told && (double)(tsr__now() - began) > tsr__fate_patience(comm) * 1e9) {
      tell_unreached(comm, lookup, code);
      told = true;
    }
    if (tsr__now() + pause > until) {
      errno = code;
      return unreachable(comm, lookup, error);
    }
    nanosleep(&(struct timespec){ 0, (long)pause }, NULL);
    /* Longer each time, and not all at once. */
    uint64_t salt = tsr__hash(&pause, sizeof pause, comm->rt->heap.seed);
    if (pause < 200 * MILLISECOND) pause = pause * 3 / 2 + (int64_t)(salt % (uint64_t)pause);
  }
  return status;
}

/* Whether process 0 cannot listen because the one that started it does.
 * Asked by a greeting: who has the place says its pid and host in its refusal, and read_welcome
 * looks for it among this process's ancestors. What the greeting returns is of no matter. */
static bool parent_listens(tsr__comm *comm)
{
  tsr__address at;
  int lookup;
  bool unused;
  tsr__error error = { .status = TSR_OK };
  const char *text = *comm->role.bind ? comm->role.bind : comm->role.coordinator;
  if (tsr__address_parse(text, &at, &error)) return false;
  int fd = tsr__address_connect(&at, !*comm->role.secret, 2000, &lookup);
  if (fd < 0) return false;
  tsr__link_init(&comm->link, &comm->rt->heap, fd, TSR__FRAME_MOST);
  greet(comm, tsr__now() + 10 * SECOND, &unused, &error);
  tsr__link_close(&comm->link);
  return comm->nested;
}

/* Process 0 is a member like all others, by one code, so there is no second way for its own
 * requests. The thread of the coordinator runs already when it greets it. TSR_EIO is told as it
 * is, as it says what is wrong with the address. */
static tsr_status connect_first(tsr__comm *comm, tsr__error *error)
{
  int pair[2];
  bool unused;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
    return tsr__error_set(error, TSR_EIO, "the system has no socket for the coordinator");
  tsr__link_init(&comm->link, &comm->rt->heap, pair[0], TSR__FRAME_MOST);
  tsr_status status =
      tsr__coordinator_open(&comm->rt->heap, &comm->role, pair[1], &comm->coordinator, error);
  if (!status) status = greet(comm, tsr__now() + 10 * SECOND, &unused, error);
  if (!status && comm->coordinator->listeners.count)
    tsr__log(comm->rt, TSR_LOG_INFO, "process", "process 0 listens at %s%s",
             comm->coordinator->listeners.where,
             *comm->role.secret ? "" : ", for processes of this host only, as there is no secret");
  if (!status) return TSR_OK;
  if (!comm->coordinator && status == TSR_EIO) return status;
  bool starved = comm->coordinator && atomic_load(&comm->coordinator->starved);
  return tsr__error_set(error, starved ? TSR_ENOMEM : status,
                        "process 0 cannot talk to its own coordinator");
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* Answers may be longer than requests: from here on the other side is trusted. */
static tsr_status start_thread(tsr__comm *comm, tsr__error *error)
{
  comm->link.most = TSR__ANSWER_MOST;
  comm->started =
      tsr__thread_start(&comm->thread, TSR__THREAD_OWN, TSR__THREAD_STACK, attend, comm);
  if (comm->started) return TSR_OK;
  return tsr__error_set(error, TSR_ENOMEM, "the system has no thread for the connection");
}

static void init_lock(tsr__comm *comm)
{
  pthread_condattr_t clock;
  pthread_mutex_init(&comm->lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&comm->answered, &clock);
  pthread_condattr_destroy(&clock);
}

/* The thread first, as it uses all the rest; then the link, then the coordinator at its other
 * end. The signal is given back last: while the thread lived it was read. */
static void comm_free(tsr__comm *comm)
{
  tsr__heap *heap = &comm->rt->heap;
  atomic_store(&comm->stop, true);
  if (comm->started) {
    tsr__wake(comm->wake);
    pthread_join(comm->thread, NULL);
  }
  tsr__link_close(&comm->link);
  if (comm->coordinator) tsr__coordinator_close(comm->coordinator);
  if (comm->wake >= 0) close(comm->wake);
  tsr__text_free(&comm->outbox);
  tsr__fate_close(comm);
  pthread_cond_destroy(&comm->answered);
  pthread_mutex_destroy(&comm->lock);
  tsr__del(heap, (void *)comm->presence, (size_t)comm->role.count);
  tsr__del(heap, comm, sizeof *comm);
}

/* What the role said of the others is gone with it, and so is what was to be known of them. */
static bool be_alone(tsr__comm *comm)
{
  tsr__del(&comm->rt->heap, (void *)comm->presence, (size_t)comm->role.count);
  comm->role.index = 0;
  comm->role.count = 1;
  comm->role.coordinator[0] = comm->role.bind[0] = '\0';
  comm->presence = tsr__new(&comm->rt->heap, 1);
  return comm->presence != NULL;
}

/* Joins as the role says; a program that a process of the job started is alone.
 * A program that a process of the job starts inherits TSR_* and the launcher's variables, and
 * would take them for its own. For process 0's child that shows by the port that is taken, for
 * others' by the place that is. */
static tsr_status join_all(tsr__comm *comm, tsr__error *error)
{
  tsr__error why = { .status = TSR_OK };
  bool first = comm->role.index == 0;
  tsr_status status = first ? connect_first(comm, &why) : connect_member(comm, &why);
  if (first && status == TSR_EIO && comm->role.count > 1) {
    tsr__link_close(&comm->link);
    parent_listens(comm);
  }
  if (status && comm->nested) {
    tsr__link_close(&comm->link);
    tsr__log(comm->rt, TSR_LOG_INFO, "process",
             "process %d of %d of a running job started this process: this process does not join "
             "the job and runs alone",
             comm->role.index, comm->role.count);
    why = (tsr__error){ .status = TSR_OK };
    if (be_alone(comm)) status = connect_first(comm, &why);
    else status = tsr__error_set(&why, TSR_ENOMEM, "no memory to run alone");
  }
  if (status) *error = why;
  return status;
}

/* The first meeting has a name and a time as any: it returns when all are there, or says who is
 * not. What they bring to it must be alike. */
static tsr_status start_together(tsr__comm *comm, tsr__error *error)
{
  tsr__text mine, all;
  tsr__text_init(&mine, &comm->rt->heap);
  tsr__text_init(&all, &comm->rt->heap);
  tsr__alike_lines(comm->rt, &comm->role, &mine);
  const tsr__comm_meeting start = { .name = "the start",
                                    .seconds = comm->role.start_seconds,
                                    .record = { tsr__text_get(&mine), mine.length } };
  atomic_store(&comm->starts, tsr__now());
  tsr_status status = tsr__comm_meet(comm, &start, &all, error);
  atomic_store(&comm->starts, 0);
  if (!status) status = tsr__alike_check(&all, comm->role.count, error);
  tsr__text_free(&mine);
  tsr__text_free(&all);
  return status;
}

/* Whether those of a job that have come to its start go on without who has not: then `role` is what
 * this one is among them. */
static bool go_on_as_fewer(tsr__comm *comm, tsr__role *role)
{
  tsr__error unused = { .status = TSR_OK };
  tsr__role next;
  if (!comm->started || !comm->role.fewer || comm->role.count == 1) return false;
  if (tsr__comm_leave(comm, comm->role.start_seconds, &next, &unused)) return false;
  *role = next;
  return true;
}

/* Returns when all are there. Only then is the signal taken: a start that hangs can still be ended
 * by it. `*again`: it is to be tried with another role, which `role` is then. */
static tsr_status open_once(tsr_runtime *rt, tsr__role *role, bool *again, tsr__comm **out,
                            tsr__error *error)
{
  tsr__comm *comm = tsr__new(&rt->heap, sizeof *comm);
  if (!comm) return tsr__error_set(error, TSR_ENOMEM, "no memory to join the other processes");
  comm->rt = rt;
  comm->role = *role;
  comm->pid = getpid();
  comm->link.fd = -1;
  comm->step = comm->stop_at = -1;
  comm->wait.process = -1;
  comm->signals = -1;
  comm->presence = tsr__new(&rt->heap, (size_t)role->count);
  comm->wake = tsr__wake_open();
  init_lock(comm);
  tsr__text_init(&comm->outbox, &rt->heap);
  tsr_status status = TSR_OK;
  if (!comm->presence || comm->wake < 0)
    status = tsr__error_set(error, TSR_ENOMEM, "no memory to join the other processes");
  if (!status) status = join_all(comm, error);
  if (!status) status = start_thread(comm, error);
  if (!status) status = start_together(comm, error);
  *again = status == TSR_EPEER && go_on_as_fewer(comm, role);
  if (!status) tsr__fate_open(comm);
  if (!status) *out = comm;
  else if (comm->started) tsr__comm_close(comm);
  else comm_free(comm);
  return status;
}

/* Each turn is one of fewer processes. */
tsr_status tsr__comm_open(tsr_runtime *rt, const tsr__role *role, tsr__comm **out,
                          tsr__error *error)
{
  tsr__role own = *role;
  for (;;) {
    bool again = false;
    tsr__error why = { .status = TSR_OK };
    tsr_status status = open_once(rt, &own, &again, out, &why);
    if (again) continue;
    if (status) *error = why;
    return status;
  }
}

void tsr__comm_close(tsr__comm *comm)
{
  tsr__ask r;
  tsr__error unused = { .status = TSR_OK };
  if (!comm) return;
  if (comm->pid != getpid()) {
    /* A child's copy: its threads are not here, and the connection is the parent's. */
    close(comm->link.fd);
    close(comm->wake);
    if (comm->signals >= 0) close(comm->signals);
    return;
  }
  atomic_store(&comm->closing, true);
  /* The others' answer comes at once, process 0's once they have gone; what comes of it is of no
   * matter, the process goes in any case. */
  tsr__request_begin(comm, &r, TSR__SAY_BYE);
  tsr__ask_send(comm, &r, comm->role.index ? 1 : comm->role.close_seconds, NULL, &unused);
  comm_free(comm);
}

/* ---- asking ---------------------------------------------------------------------------------- */

int tsr__comm_index(const tsr__comm *comm)
{
  return comm->role.index;
}

int tsr__comm_count(const tsr__comm *comm)
{
  return comm->role.count;
}

const tsr__role *tsr__comm_role(const tsr__comm *comm)
{
  return &comm->role;
}

tsr__presence tsr__comm_presence(tsr__comm *comm, int index)
{
  if (index < 0 || index >= comm->role.count) return TSR__ABSENT;
  return (tsr__presence)atomic_load(&comm->presence[index]);
}

bool tsr__comm_ended(tsr__comm *comm, int index)
{
  tsr__presence presence = tsr__comm_presence(comm, index);
  pthread_mutex_lock(&comm->lock);
  bool lost = comm->lost.status != TSR_OK;
  pthread_mutex_unlock(&comm->lock);
  return lost || presence == TSR__FAILED || presence == TSR__LEFT;
}

bool tsr__comm_failed(tsr__comm *comm, tsr__error *out)
{
  pthread_mutex_lock(&comm->lock);
  *out = comm->cause;
  pthread_mutex_unlock(&comm->lock);
  return out->status != TSR_OK;
}

/* A frame that found no memory is cut off again, or half of it would spoil what follows: then the
 * end of the process is what the others hear of. Once the connection is lost nobody takes what lies
 * in the outbox. */
void tsr__say_by(tsr__comm *comm, int kind, const char *text)
{
  pthread_mutex_lock(&comm->lock);
  if (!comm->lost.status) {
    size_t began = tsr__packet_begin(&comm->outbox, kind, 0), length = text ? strlen(text) : 0;
    if (text) tsr__write_bytes(&comm->outbox, text, length < 500 ? length : 500);
    tsr__packet_end(&comm->outbox, began);
    if (comm->outbox.failed) comm->outbox.length = began;
    comm->outbox.failed = false;
  }
  pthread_mutex_unlock(&comm->lock);
  tsr__wake(comm->wake);
}

void tsr__comm_fail(tsr__comm *comm, const char *cause)
{
  tsr__say_by(comm, TSR__SAY_FAIL, cause);
}

/* Upwards: 0 would mean not to wait. */
static uint64_t milliseconds(double seconds)
{
  return seconds > LONG ? (uint64_t)(LONG * 1000) : (uint64_t)(seconds * 1000 + 0.999);
}

/* Looked at on this side: the coordinator cuts off who sends more than it takes, and that would
 * be a failure of the process. */
static bool fits(const char *key, size_t length, tsr__error *error)
{
  if (strlen(key) > TSR__KEY_MOST)
    tsr__error_set(error, TSR_EARG, "the key '%.40s...' has %zu bytes, at most %d", key,
                   strlen(key), TSR__KEY_MOST);
  else if (length > TSR__VALUE_MOST)
    tsr__error_set(error, TSR_EARG,
                   "'%s': the value has %zu bytes, at most %d; send large data as arrays", key,
                   length, TSR__VALUE_MOST);
  return !error->status;
}

tsr_status tsr__comm_set(tsr__comm *comm, const char *key, tsr__blob value, bool overwrite,
                         tsr__error *error)
{
  tsr__ask r;
  if (!fits(key, value.length, error)) return error->status;
  tsr__request_begin(comm, &r, TSR__SAY_SET);
  tsr__write_bytes(&r.text, key, strlen(key));
  tsr__write_bytes(&r.text, value.data, value.length);
  tsr__write_u32(&r.text, overwrite);
  return tsr__ask_send(comm, &r, TSR__UNTIL_ANSWERED, NULL, error);
}

tsr_status tsr__comm_get(tsr__comm *comm, tsr__wanted *wanted, tsr__text *out, tsr__error *error)
{
  tsr__ask r;
  tsr__text answer;
  if (!fits(wanted->key, 0, error)) return error->status;
  tsr__text_init(&answer, &comm->rt->heap);
  tsr__request_begin(comm, &r, TSR__SAY_GET);
  tsr__write_bytes(&r.text, wanted->key, strlen(wanted->key));
  tsr__write_u64(&r.text, milliseconds(wanted->seconds));
  tsr_status status = tsr__ask_send(comm, &r, TSR__UNTIL_ANSWERED, &answer, error);
  tsr__fields fields = { (const uint8_t *)answer.data, (const uint8_t *)answer.data + answer.length,
                         false };
  if (!status) {
    wanted->found = tsr__take_u32(&fields) != 0;
    tsr__blob value = tsr__take_bytes(&fields);
    tsr__text_put(out, value.data, value.length);
    if (out->failed) status = tsr__error_set(error, TSR_ENOMEM, "no memory for the value");
  }
  tsr__text_free(&answer);
  return status;
}

static tsr_status ask_key(tsr__comm *comm, int kind, const char *key, tsr__text *out,
                          tsr__error *error)
{
  tsr__ask r;
  if (!fits(key, 0, error)) return error->status;
  tsr__request_begin(comm, &r, kind);
  tsr__write_bytes(&r.text, key, strlen(key));
  return tsr__ask_send(comm, &r, TSR__UNTIL_ANSWERED, out, error);
}

tsr_status tsr__comm_delete(tsr__comm *comm, const char *key, tsr__error *error)
{
  return ask_key(comm, TSR__SAY_DELETE, key, NULL, error);
}

tsr_status tsr__comm_list(tsr__comm *comm, const char *prefix, tsr__text *out, tsr__error *error)
{
  return ask_key(comm, TSR__SAY_LIST, prefix, out, error);
}

tsr_status tsr__comm_add(tsr__comm *comm, const char *key, int64_t delta, int64_t *out,
                         tsr__error *error)
{
  tsr__ask r;
  tsr__text answer;
  if (!fits(key, 0, error)) return error->status;
  tsr__text_init(&answer, &comm->rt->heap);
  /* Room for the answer before it is asked for: a sum that could not be told would be added once
   * more by who tries again. */
  tsr__text_put(&answer, "12345678", sizeof(int64_t));
  if (answer.failed) return tsr__error_set(error, TSR_ENOMEM, "no memory for a request");
  answer.length = 0;
  tsr__request_begin(comm, &r, TSR__SAY_ADD);
  tsr__write_bytes(&r.text, key, strlen(key));
  tsr__write_u64(&r.text, (uint64_t)delta);
  tsr_status status = tsr__ask_send(comm, &r, TSR__UNTIL_ANSWERED, &answer, error);
  tsr__fields fields = { (const uint8_t *)answer.data, (const uint8_t *)answer.data + answer.length,
                         false };
  if (!status) *out = (int64_t)tsr__take_u64(&fields);
  tsr__text_free(&answer);
  return status;
}

tsr_status tsr__comm_meet(tsr__comm *comm, const tsr__comm_meeting *meeting, tsr__text *out,
                          tsr__error *error)
{
  tsr__ask r;
  if (!fits(meeting->name, meeting->record.length, error)) return error->status;
  tsr__request_begin(comm, &r, TSR__SAY_MEET);
  tsr__write_bytes(&r.text, meeting->name, strlen(meeting->name));
  tsr__write_u64(&r.text, milliseconds(meeting->seconds));
  tsr__write_u32(&r.text, meeting->processes ? (uint32_t)meeting->count : 0);
  for (int i = 0; meeting->processes && i < meeting->count; i++)
    tsr__write_u32(&r.text, (uint32_t)meeting->processes[i]);
  tsr__write_bytes(&r.text, meeting->record.data, meeting->record.length);
  return tsr__ask_send(comm, &r, TSR__UNTIL_ANSWERED, out, error);
}
