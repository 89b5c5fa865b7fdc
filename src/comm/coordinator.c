/* The coordinator: one thread of process 0 that all processes are connected to.
 *
 *   listener --accept--> peer (stranger) --JOIN, proof--> peer of a member --frames--> requests.c
 *                          | 10 s                           | silence, closed connection
 *                          v                                v
 *                        closed                    member failed: cause kept, all told
 *
 * Invariant: the thread waits in poll alone, so no peer can keep it from the others. A stranger may
 * hold a KiB for ten seconds, and of many the oldest makes room; a member may hold one frame, and
 * who does not read its answers is not listened to: what lies for it is a MiB and one answer.
 *
 * A member's state, as all are told it by notices:
 *
 *   ABSENT --JOIN--> HERE <--heard again--- SILENT
 *                      |  ---2.5 s unheard---> |
 *                      +---- BYE ---> LEFT <---+       no way leads out of LEFT or FAILED
 *                      +---- FAIL, closed, stall_seconds, judged ---> FAILED
 *
 * No lock guards any of this: only `stop` and `starved` are touched by another thread. */
#include "comm/coordinator.h"

#include "base/events.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define JOIN_NS (10 * SECOND)
#define STRANGERS_MOST 256
#define BACKLOG_MOST ((size_t)1 << 20) /* bytes of answers that lie before more are made */

/* ---- telling --------------------------------------------------------------------------------- */

void tsr__member_name(const tsr__coordinator *c, int member, tsr__text *out)
{
  const tsr__member *m = &c->members[member];
  char seconds[32];
  tsr__text_add(out, "process %d", member);
  if (*m->where) tsr__text_add(out, " (%s)", m->where);
  if (m->presence == TSR__ABSENT) tsr__text_add(out, ", not joined yet");
  if (m->presence == TSR__SILENT && m->peer) {
    tsr__text_f64(seconds, (double)((c->now - m->peer->heard) / (SECOND / 10)) / 10);
    tsr__text_add(out, ", without a heartbeat for %s s", seconds);
  }
}

/* Written into the link's buffer alone; the thread sends at the end of its round. So whatever
 * answers may be called while lists are walked: nothing is closed here. What finds no memory
 * marks the link, which is closed then. */
void tsr__answer(tsr__coordinator *c, int member, uint32_t ticket, const tsr__error *error,
                 tsr__blob fields)
{
  tsr__peer *peer = c->members[member].peer;
  if (!peer || !ticket) return;
  tsr__text *out = &peer->link.out;
  size_t began = tsr__packet_begin(out, TSR__SAY_ANSWER, ticket);
  tsr__write_u32(out, error->status);
  tsr__write_bytes(out, error->text, error->status ? strlen(error->text) : 0);
  if (!error->status && fields.length) tsr__text_put(out, fields.data, fields.length);
  tsr__packet_end(out, began);
}

static void put_notice(tsr__peer *peer, int member, tsr__presence presence, const char *text)
{
  tsr__text *out = &peer->link.out;
  size_t began = tsr__packet_begin(out, TSR__SAY_NOTICE, 0);
  tsr__write_u32(out, (uint32_t)member);
  tsr__write_u32(out, presence);
  tsr__write_bytes(out, text, strlen(text));
  tsr__packet_end(out, began);
}

/* A member's state is what all know of it. */
static void tell_all(tsr__coordinator *c, int member, tsr__presence presence, const char *text)
{
  c->members[member].presence = presence;
  for (int i = 0; i < c->role.count; i++)
    if (c->members[i].peer) put_notice(c->members[i].peer, member, presence, text);
}

/* As a notice of itself, which stays as it is: what it waits for goes into its log. */
void tsr__tell_wait(tsr__coordinator *c, int member, const char *text)
{
  tsr__member *m = &c->members[member];
  if (m->peer) put_notice(m->peer, member, m->presence, text);
}

int64_t tsr__takes_long(const tsr__coordinator *c, int64_t since)
{
  double stall = c->role.stall_seconds * (double)SECOND;
  return stall < (double)(INT64_MAX - since) ? since + (int64_t)stall : INT64_MAX;
}

/* Writes the first cause where whoever started the processes looks for it.
 * Half a report is worse than none, so it is taken away. Nothing is said of that: the file is
 * for the launcher, and all hear the cause by their connections. */
static void report(const tsr__coordinator *c, int member)
{
  char text[sizeof c->cause.text + 16];
  if (!*c->role.report) return;
  int file = open(c->role.report, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return;
  int length = snprintf(text, sizeof text, "%d %s\n", member, c->cause.text);
  if (write(file, text, (size_t)length) != length) unlink(c->role.report);
  close(file);
}

/* Once for each: a process that failed and then closes its connection is not told of twice.
 * First all are told, then meetings, waits and agreements are answered with the cause: so the
 * notice lies before the answer on each connection, and who reads the answer knows already who
 * failed. */
void tsr__member_gone(tsr__coordinator *c, int member, bool failed, const char *why)
{
  tsr__member *m = &c->members[member];
  if (m->presence == TSR__FAILED || m->presence == TSR__LEFT) return;
  m->presence = TSR__HERE; /* its name is that of a process, not of a silent one */
  tsr__text who;
  tsr__text_init(&who, c->heap);
  tsr__member_name(c, member, &who);
  tsr__error one = { .status = TSR_OK };
  if (failed) tsr__error_set(&one, TSR_EPEER, "%s failed: %s", tsr__text_get(&who), why);
  tsr__text_free(&who);
  /* The first one is the cause; what fails later mostly fails because of it. */
  if (failed && !c->cause.status) {
    c->cause = one;
    report(c, member);
  }
  tell_all(c, member, failed ? TSR__FAILED : TSR__LEFT, one.text);
  tsr__meetings_changed(c, member);
  tsr__waits_changed(c, member);
  tsr__agree_changed(c);
}

/* ---- peers ----------------------------------------------------------------------------------- */

/* The descriptor is this one's in any case, and closed where there is no memory. A stranger's
 * frames are bound to a KiB until it has joined. */
static tsr__peer *peer_new(tsr__coordinator *c, int fd, bool own)
{
  tsr__peer *peer = tsr__new(c->heap, sizeof *peer);
  if (!peer || !tsr__grow(c->heap, (void **)&c->peers, &c->peer_capacity, c->peer_count + 1,
                          sizeof(tsr__peer *))) {
    tsr__del(c->heap, peer, sizeof *peer);
    close(fd);
    return NULL;
  }
  tsr__link_init(&peer->link, c->heap, fd, TSR__STRANGER_MOST);
  peer->member = -1;
  peer->own = own;
  peer->heard = c->now;
  return c->peers[c->peer_count++] = peer;
}

/* Closes a connection; a member that did not say goodbye has failed.
 * The peer itself stays in the list until free_closed: rounds over the list are under way when
 * this is called. The member is cut off before it is told of, or a notice would be written to
 * what is closed. */
static void peer_close(tsr__coordinator *c, tsr__peer *peer, const char *why)
{
  int member = peer->member;
  peer->member = -1;
  tsr__link_close(&peer->link);
  if (member < 0) return;
  c->members[member].peer = NULL;
  tsr__member_gone(c, member, true, why);
}

static void free_closed(tsr__coordinator *c)
{
  size_t kept = 0;
  for (size_t i = 0; i < c->peer_count; i++)
    if (c->peers[i]->link.fd >= 0) c->peers[kept++] = c->peers[i];
    else tsr__del(c->heap, c->peers[i], sizeof *c->peers[i]);
  c->peer_count = kept;
}

/* ---- joining --------------------------------------------------------------------------------- */

/* Says why somebody may not join; then the connection closes. */
TSR_PRINTF(3, 4)
static void refuse(tsr__peer *peer, tsr_status status, const char *format, ...)
{
  tsr__text *out = &peer->link.out;
  tsr__error error = { .status = TSR_OK };
  va_list args;
  va_start(args, format);
  tsr__error_vset(&error, status, format, args);
  va_end(args);
  size_t began = tsr__packet_begin(out, TSR__SAY_REFUSED, 0);
  tsr__write_u32(out, status);
  tsr__write_bytes(out, error.text, strlen(error.text));
  tsr__write_u32(out, peer->rival ? peer->rival->pid : 0);
  tsr__write_bytes(out, peer->rival ? peer->rival->host : "",
                   peer->rival ? strlen(peer->rival->host) : 0);
  tsr__packet_end(out, began);
  peer->closing = true;
}

static void say_hello(tsr__coordinator *c, tsr__peer *peer)
{
  tsr__text *out = &peer->link.out;
  /* Without random numbers an old proof could be sent again; the address of the peer and the time
   * are what is left then. */
  if (getentropy(peer->nonce, sizeof peer->nonce)) {
    uint64_t some[2] = { tsr__hash(&c->now, sizeof c->now, c->heap->seed), (uint64_t)c->now };
    memcpy(peer->nonce, some, sizeof peer->nonce);
  }
  size_t began = tsr__packet_begin(out, TSR__SAY_HELLO, 0);
  tsr__write_bytes(out, "tessera", 7);
  tsr__write_u32(out, TSR__WIRE_VERSION);
  tsr__write_bytes(out, peer->nonce, sizeof peer->nonce);
  tsr__write_u32(out, *c->role.secret != 0);
  tsr__packet_end(out, began);
}

typedef struct join {
  tsr__blob nonce, proof;
  uint32_t index, count, pid;
  char host[65];
} join;

/* Of the words "join" and "welcome" one is for each side: else a proof that came could be sent
 * back as one's own. */
static void make_proof(const tsr__coordinator *c, const tsr__peer *peer, const char *who,
                       const join *j, uint8_t out[TSR__PROOF])
{
  tsr__claim claim = { c->role.secret, who, peer->nonce, j->nonce.data, j->index, j->count };
  tsr__claim_proof(&claim, out);
}

/* The texts lie in the link's buffer and last until it is read again. Whether a proof of no
 * bytes will do is_trusted says. */
static bool read_join(tsr__packet *frame, join *out)
{
  tsr__fields *fields = &frame->fields;
  out->nonce = tsr__take_bytes(fields);
  out->proof = tsr__take_bytes(fields);
  out->index = tsr__take_u32(fields);
  out->count = tsr__take_u32(fields);
  tsr__take_text(fields, out->host, sizeof out->host - 1);
  out->pid = tsr__take_u32(fields);
  return frame->kind == TSR__SAY_JOIN && tsr__fields_done(fields) &&
         out->nonce.length == TSR__NONCE &&
         (out->proof.length == TSR__PROOF || out->proof.length == 0);
}

/* Whether a stranger may come in, by what it knows or by where it is; says so if not.
 * A proof is compared in a time that does not depend on where it differs. One that was given
 * where there is no secret is an error, too: the other side believes in a secret that this one
 * would not prove. */
static bool is_trusted(tsr__coordinator *c, tsr__peer *peer, const join *j)
{
  uint8_t proof[TSR__PROOF];
  bool gave = j->proof.length > 0;
  if (peer->own) return true;
  if (*c->role.secret) {
    make_proof(c, peer, "join", j, proof);
    if (gave && tsr__proof_same(proof, j->proof.data, TSR__PROOF)) return true;
    refuse(peer, TSR_EPEER,
           "the coordinator at %s takes only processes that know its secret, but this process %s; "
           "set .secret or TSR_SECRET to the same text for all",
           c->address, gave ? "has another secret" : "has no secret");
    return false;
  }
  if (!gave && tsr__peer_is_near(peer->link.fd)) return true;
  refuse(peer, TSR_EPEER,
         "the coordinator at %s has no secret and %s; set .secret or TSR_SECRET to the same text "
         "for all, process 0 too",
         c->address,
         gave ? "this process has one" : "therefore takes only processes of its own host");
  return false;
}

/* Whether a process has a place here; says so if not.
 * Asked only after is_trusted: a stranger without the secret learns nothing of who is here. To
 * close without a word means "try again": the other side does so until its time is over
 * (member.c). */
static bool has_place(tsr__coordinator *c, tsr__peer *peer, const join *j)
{
  if (c->regrouped) /* Those that are left meet at this address soon. */
    peer->closing = true;
  else if (j->count != (uint32_t)c->role.count)
    refuse(peer, TSR_EARG,
           "this process was started as one of %u processes, but process 0 as one of %d; start all "
           "with the same number of processes",
           j->count, c->role.count);
  else if (j->index >= j->count)
    refuse(peer, TSR_EARG,
           "this process has number %u, but there are only %u processes, numbered from 0", j->index,
           j->count);
  else if (c->members[j->index].presence == TSR__LEFT)
    /* It said goodbye and has opened its next runtime, whose coordinator is still to come at this
     * address: it will try again. */
    peer->closing = true;
  else if (c->members[j->index].presence != TSR__ABSENT) {
    peer->rival = &c->members[j->index];
    refuse(peer, TSR_EARG,
           "process %u has joined already (%s); give each process a number of its own", j->index,
           c->members[j->index].where);
  } else {
    return true;
  }
  return false;
}

/* The place is the member's from here on, and may never be given to another connection: a
 * process that lost its own has failed for all, and does not come back. */
static void welcome(tsr__coordinator *c, tsr__peer *peer, const join *j)
{
  tsr__text *out = &peer->link.out;
  tsr__member *m = &c->members[j->index];
  uint8_t proof[TSR__PROOF];
  make_proof(c, peer, "welcome", j, proof);
  size_t began = tsr__packet_begin(out, TSR__SAY_WELCOME, 0);
  tsr__write_bytes(out, proof, *c->role.secret && !peer->own ? sizeof proof : 0);
  tsr__packet_end(out, began);
  peer->member = (int)j->index;
  peer->link.most = TSR__FRAME_MOST;
  m->peer = peer;
  snprintf(m->where, sizeof m->where, "pid %u on %s", j->pid, j->host);
  /* The name of a host is what the other side says it is, and goes into messages. */
  tsr__text_tame(m->where);
  m->pid = j->pid;
  memcpy(m->host, j->host, sizeof m->host);
  m->waits_for = -1;
  /* What it missed, then that it is here. */
  for (int i = 0; i < c->role.count; i++)
    if (c->members[i].presence != TSR__ABSENT)
      put_notice(peer, i, c->members[i].presence,
                 c->members[i].presence == TSR__FAILED ? c->cause.text : "");
  tell_all(c, (int)j->index, TSR__HERE, "");
}

/* A member's frames are requests; a stranger may send JOIN and nothing else, once. */
bool tsr__peer_packet(tsr__coordinator *c, tsr__peer *peer, tsr__packet *packet)
{
  join j;
  if (peer->member >= 0) return tsr__request(c, peer->member, packet);
  if (!read_join(packet, &j)) return false;
  if (is_trusted(c, peer, &j) && has_place(c, peer, &j)) welcome(c, peer, &j);
  return true;
}

/* ---- reading and writing --------------------------------------------------------------------- */

#define ENDED "its connection closed without a goodbye: the process ended or was killed"

/* Carries out what a peer has sent, as long as it reads what it is answered.
 * It stops where more than BACKLOG_MOST lies unread by the other side: that peer is held, its
 * descriptor is not polled for reading, and the system's own buffers slow it down. So who asks
 * and never reads cannot make this process hold answers without end. */
static void take_packets(tsr__coordinator *c, tsr__peer *peer)
{
  tsr__packet packet;
  int got = 0;
  peer->held = false;
  while (peer->link.fd >= 0 && !peer->closing) {
    peer->held = tsr__link_waiting(&peer->link) > BACKLOG_MOST;
    if (peer->held || (got = tsr__link_next(&peer->link, &packet)) <= 0) break;
    if (!tsr__peer_packet(c, peer, &packet)) got = -1;
    if (got < 0) break;
  }
  if (got < 0 && peer->link.fd >= 0)
    peer_close(c, peer,
               "its connection sent bytes that are no request of this version; run the same "
               "version in all processes");
}

/* What came before the end of a connection is carried out before the end is: a goodbye may be
 * the last thing in it. Any byte is a sign of life, whatever it says. */
static void read_peer(tsr__coordinator *c, tsr__peer *peer)
{
  bool open = tsr__link_read(&peer->link);
  peer->heard = c->now;
  if (peer->member >= 0 && c->members[peer->member].presence == TSR__SILENT)
    tell_all(c, peer->member, TSR__HERE, "");
  if (peer->link.in.failed) atomic_store(&c->starved, true);
  take_packets(c, peer);
  if (!open && peer->link.fd >= 0) peer_close(c, peer, ENDED);
}

/* A link without memory for a frame has lost one, and what follows cannot be trusted: it is
 * closed, and `starved` lets process 0 say that memory was the reason. */
static void write_peer(tsr__coordinator *c, tsr__peer *peer)
{
  bool failed = peer->link.out.failed;
  if (failed) atomic_store(&c->starved, true);
  if (failed || !tsr__link_write(&peer->link))
    peer_close(c, peer,
               failed ? "process 0 has no memory for the messages to it"
                      : "its connection closed without a goodbye: the process ended or was killed");
  else if (peer->closing && !tsr__link_waiting(&peer->link)) peer_close(c, peer, "");
}

/* Makes room among strangers: the one that came first is closed. False: there is none.
 * Whoever only connects and says nothing could keep others out; by closing the oldest of them a
 * process that means it, which answers at once, has its turn. Members are never closed for this. */
static bool close_oldest(tsr__coordinator *c, int least)
{
  tsr__peer *oldest = NULL;
  int strangers = 0;
  for (size_t i = 0; i < c->peer_count; i++) {
    tsr__peer *peer = c->peers[i];
    if (peer->member >= 0 || peer->own || peer->link.fd < 0) continue;
    if (!oldest) oldest = peer; /* they are in the order of their coming */
    strangers++;
  }
  if (strangers < least || !oldest) return false;
  peer_close(c, oldest, "");
  return true;
}

/* A few at a time, so that a flood of strangers does not keep members waiting. */
static void accept_peers(tsr__coordinator *c, int listener)
{
  for (int i = 0; i < 64; i++) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
      /* Without anybody to close it is tried again after a while, not at once. */
      c->accepting = close_oldest(c, 1);
      return;
    }
    if (fd < 0 && errno != EINTR && errno != ECONNABORTED) return;
    if (fd < 0) continue;
    tsr__address_patience(fd, c->role.stall_seconds);
    close_oldest(c, STRANGERS_MOST);
    tsr__peer *peer = peer_new(c, fd, false);
    if (peer) say_hello(c, peer);
  }
}

/* ---- time ------------------------------------------------------------------------------------ */

static void tell_silent(tsr__coordinator *c, int member)
{
  tsr__text text;
  tsr__text_init(&text, c->heap);
  tsr__member_name(c, member, &text);
  tsr__text_add(&text, " sends no heartbeat");
  tell_all(c, member, TSR__SILENT, tsr__text_get(&text));
  tsr__text_free(&text);
}

/* Two bounds: after TSR__MISSED_MS it counts as silent, which is told and may be taken back;
 * after stall_seconds it has failed, which may not. It is written to at once, not at the end of
 * the round, as its connection is closed here. */
static void check_member(tsr__coordinator *c, int member)
{
  tsr__member *m = &c->members[member];
  int64_t silent = m->peer ? c->now - m->peer->heard : 0;
  char seconds[32], text[120], own[120];
  if (!m->peer || (m->presence != TSR__HERE && m->presence != TSR__SILENT)) return;
  if (silent > (int64_t)(c->role.stall_seconds * (double)SECOND)) {
    tsr__text_f64(seconds, c->role.stall_seconds);
    snprintf(text, sizeof text,
             "it sent no heartbeat for %s s: is the process stopped, or its host down?", seconds);
    /* If it wakes again it is to read why nobody talks to it. */
    snprintf(
        own, sizeof own,
        "this process sent no heartbeat for %s s, so the other processes stopped waiting for it",
        seconds);
    put_notice(m->peer, member, TSR__FAILED, own);
    tsr__link_write(&m->peer->link);
    peer_close(c, m->peer, text);
  } else if (m->presence == TSR__HERE && silent > TSR__MISSED_MS * (SECOND / 1000)) {
    tell_silent(c, member);
  }
}

/* A stranger that says nothing for JOIN_NS goes; so does one that was refused and does not read
 * why. */
static void check_peers(tsr__coordinator *c)
{
  for (int i = 0; i < c->role.count; i++) check_member(c, i);
  for (size_t i = 0; i < c->peer_count; i++) {
    tsr__peer *peer = c->peers[i];
    if (peer->link.fd >= 0 && peer->member < 0 && !peer->own && c->now - peer->heard > JOIN_NS)
      peer_close(c, peer, "");
  }
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Where peers begin in the polls. */
static size_t first_peer(const tsr__coordinator *c)
{
  return 1 + (size_t)c->listeners.count;
}

/* Fills in who is waited for: 0 wakes, then listeners, then peers.
 * Filled anew each round, as peers come and go. A descriptor of -1 is passed over by poll, which
 * is how the listener rests while descriptors are short. */
static bool fill_polls(tsr__coordinator *c)
{
  size_t first = first_peer(c);
  if (!tsr__grow(c->heap, (void **)&c->polls, &c->poll_capacity, first + c->peer_count,
                 sizeof *c->polls))
    return false;
  c->polls[0] = (struct pollfd){ c->wake, POLLIN, 0 };
  for (int i = 0; i < c->listeners.count; i++)
    c->polls[1 + i] = (struct pollfd){ c->accepting ? c->listeners.fd[i] : -1, POLLIN, 0 };
  for (size_t i = 0; i < c->peer_count; i++) {
    short events = c->peers[i]->held ? 0 : POLLIN;
    if (tsr__link_waiting(&c->peers[i]->link)) events |= POLLOUT;
    c->polls[first + i] = (struct pollfd){ c->peers[i]->link.fd, events, 0 };
  }
  return true;
}

/* Half a second at most, so that silence is noticed without a deadline of its own for each
 * member. One ms is added, as a wait that is cut down would wake before the deadline and spin. */
static int until_ms(const tsr__coordinator *c, int64_t next)
{
  int64_t ms = next == INT64_MAX ? 500 : (next - c->now) / 1000000 + 1;
  if (c->accepting == false && ms > 100) ms = 100;
  return ms < 0 ? 0 : ms > 500 ? 500 : (int)ms;
}

/* One round: wait, hear all, then judge who is silent, so that nobody is for what lay unread.
 * Peers that are accepted in this round stand behind `count`, and have no place in `polls` yet.
 * Those that were held are looked at first: what they have sent may lie in the buffer, of which
 * poll says nothing. */
static void serve(tsr__coordinator *c, int64_t next)
{
  for (size_t i = 0; i < c->peer_count; i++)
    if (c->peers[i]->held) take_packets(c, c->peers[i]);
  if (!fill_polls(c)) return;
  size_t count = c->peer_count, first = first_peer(c);
  int64_t before = c->now;
  int ready = poll(c->polls, first + count, until_ms(c, next));
  c->now = tsr__now();
  c->accepting = true;
  /* A thread that was stopped itself has heard nobody meanwhile. */
  if (c->now - before > 2 * SECOND)
    for (size_t i = 0; i < count; i++) c->peers[i]->heard = c->now;
  if (ready > 0 && c->polls[0].revents) tsr__wake_drain(c->wake);
  for (size_t i = 0; i < count && ready > 0; i++)
    if (c->polls[first + i].revents && c->peers[i]->link.fd >= 0) read_peer(c, c->peers[i]);
  for (int i = 0; i < c->listeners.count && ready > 0; i++)
    if (c->polls[1 + i].revents) accept_peers(c, c->listeners.fd[i]);
  check_peers(c);
}

/* Ticks after hearing and before writing: what came in time counts, and what is told goes out in
 * the same round. It ends at once when it is asked to; the goodbye of process 0 was what waited
 * for the others. */
static void *coordinate(void *argument)
{
  tsr__coordinator *c = argument;
  int64_t next = INT64_MAX;
  while (!atomic_load(&c->stop)) {
    serve(c, next);
    next = tsr__waits_tick(c);
    int64_t other = tsr__meetings_tick(c);
    if (other < next) next = other;
    other = tsr__agree_tick(c);
    if (other < next) next = other;
    /* Twice: a peer that is found closed has something said about it to the others. The own one,
     * which came first, is written to last: what this process does then may be its end. */
    for (int round = 0; round < 2; round++)
      for (size_t i = c->peer_count; i-- > 0;)
        if (c->peers[i]->link.fd >= 0 &&
            (tsr__link_waiting(&c->peers[i]->link) || c->peers[i]->link.out.failed))
          write_peer(c, c->peers[i]);
    free_closed(c);
  }
  return NULL;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void coordinator_free(tsr__coordinator *c)
{
  tsr__waits_free(c);
  tsr__meetings_free(c);
  tsr__store_free(&c->store);
  for (size_t i = 0; i < c->peer_count; i++) tsr__link_close(&c->peers[i]->link);
  free_closed(c);
  tsr__del(c->heap, c->peers, c->peer_capacity * sizeof(tsr__peer *));
  tsr__del(c->heap, c->polls, c->poll_capacity * sizeof *c->polls);
  tsr__del(c->heap, c->members, (size_t)c->role.count * sizeof *c->members);
  tsr__listeners_close(&c->listeners);
  if (c->wake >= 0) close(c->wake);
  tsr__del(c->heap, c, sizeof *c);
}

/* `bind` is for hosts that are called otherwise from outside. A process alone without an address
 * needs no listener: its own connection is a pair of sockets. */
static tsr_status listen_for(tsr__coordinator *c, tsr__error *error)
{
  tsr__address at;
  const char *text = *c->role.bind ? c->role.bind : c->role.coordinator;
  if (c->role.count == 1 && !*text) return TSR_OK;
  tsr_status status = tsr__address_parse(text, &at, error);
  if (status) return status;
  snprintf(c->address, sizeof c->address, "%s", text);
  /* Who has no secret cannot tell a stranger from one of its own: none of another host comes in. */
  return tsr__address_listen(&at, !*c->role.secret, &c->listeners, error);
}

static tsr_status start_thread(tsr__coordinator *c, tsr__error *error)
{
  if (tsr__thread_start(&c->thread, TSR__THREAD_OWN, TSR__THREAD_STACK, coordinate, c))
    return TSR_OK;
  return tsr__error_set(error, TSR_ENOMEM, "the system has no thread for the coordinator");
}

tsr_status tsr__coordinator_open(tsr__heap *heap, const tsr__role *role, int own,
                                 tsr__coordinator **out, tsr__error *error)
{
  tsr__coordinator *c = tsr__new(heap, sizeof *c);
  if (!c) {
    close(own);
    return tsr__error_set(error, TSR_ENOMEM, "no memory for the coordinator");
  }
  c->heap = c->store.heap = heap;
  c->role = *role;
  c->accepting = true;
  c->now = tsr__now();
  c->wake = tsr__wake_open();
  c->members = tsr__new(heap, (size_t)role->count * sizeof *c->members);
  tsr__peer *peer = peer_new(c, own, true);
  tsr_status status = TSR_OK;
  if (!c->members || !peer || c->wake < 0)
    status = tsr__error_set(error, TSR_ENOMEM, "no memory for the coordinator");
  if (!status) status = listen_for(c, error);
  if (!status) say_hello(c, peer);
  if (!status) status = start_thread(c, error);
  if (status) coordinator_free(c);
  else *out = c;
  return status;
}

/* The path of a Unix socket is a file, which its socket does not take along; a name after '@' is
 * none. */
void tsr__coordinator_close(tsr__coordinator *c)
{
  tsr__address at;
  tsr__error unused = { .status = TSR_OK };
  atomic_store(&c->stop, true);
  tsr__wake(c->wake);
  pthread_join(c->thread, NULL);
  if (c->listeners.count && !tsr__address_parse(c->address, &at, &unused) && at.local &&
      at.host[0] != '@')
    unlink(at.host);
  coordinator_free(c);
}
