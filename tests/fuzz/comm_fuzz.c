/* Any bytes as what peers send to the coordinator: never a crash nor a leak; what is no packet ends
 * its peer; what goes out is whole packets that read to their last field, and no ticket is answered
 * twice. Three peers, of which the first byte says who has joined; each piece of the input begins
 * with a byte that says whose it is and how long it is, and time passes between pieces. */
#include "comm/coordinator.h"
#include "fuzz.h"

enum { PEERS = 3, TICKETS = 256 };

typedef struct world {
  tsr__heap heap;
  tsr__coordinator c;
  tsr__member members[PEERS];
  tsr__peer peers[PEERS];
  tsr__peer *list[PEERS];
  size_t looked[PEERS]; /* bytes of what goes out that were looked at */
  uint8_t asked[PEERS][TICKETS], answered[PEERS][TICKETS];
} world;

/* Connections without a socket: what goes in is put there, what goes out stays. */
static void open_world(world *w, uint8_t joined)
{
  memset(w, 0, sizeof *w);
  tsr__heap_init(&w->heap, NULL);
  w->c.heap = w->c.store.heap = &w->heap;
  w->c.role.count = PEERS;
  w->c.role.stall_seconds = w->c.role.close_seconds = 10;
  if (joined & 8) strcpy(w->c.role.secret, "secret");
  w->c.members = w->members;
  w->c.wake = -1;
  for (int i = 0; i < PEERS; i++) {
    tsr__peer *peer = w->list[i] = &w->peers[i];
    bool in = joined >> i & 1;
    tsr__link_init(&peer->link, &w->heap, -1, in ? TSR__FRAME_MOST : TSR__STRANGER_MOST);
    peer->member = in ? i : -1;
    peer->own = joined & 16;
    if (in) w->members[i].peer = peer;
    if (in) w->members[i].presence = TSR__HERE;
  }
  w->c.peers = w->list;
  w->c.peer_count = PEERS;
}

static void close_world(world *w)
{
  tsr__waits_free(&w->c);
  tsr__meetings_free(&w->c);
  tsr__store_free(&w->c.store);
  for (int i = 0; i < PEERS; i++) tsr__link_close(&w->peers[i].link);
  REQUIRE(w->c.record_bytes == 0 && w->c.store.bytes == 0);
  REQUIRE(atomic_load(&w->heap.live) == 0);
}

static void check_answer(world *w, int who, tsr__packet *packet)
{
  char text[1001];
  uint32_t status = tsr__take_u32(&packet->fields);
  tsr__take_text(&packet->fields, text, 1000);
  REQUIRE(!packet->fields.bad && status <= TSR_ECANCELLED && packet->ticket);
  if (status) fuzz_message(text, sizeof text);
  if (status) REQUIRE(tsr__fields_done(&packet->fields));
  uint8_t at = (uint8_t)packet->ticket;
  REQUIRE(++w->answered[who][at] <= w->asked[who][at]);
}

/* Looks at what was put out since. */
static void check_out(world *w, int who)
{
  tsr__text *out = &w->peers[who].link.out;
  char text[1001];
  REQUIRE(!out->failed);
  while (w->looked[who] < out->length) {
    tsr__packet packet;
    int64_t used = tsr__packet_next((const uint8_t *)out->data + w->looked[who],
                                    out->length - w->looked[who], TSR__ANSWER_MOST, &packet);
    REQUIRE(used > 0);
    w->looked[who] += (size_t)used;
    switch (packet.kind) {
    case TSR__SAY_ANSWER: check_answer(w, who, &packet); break;
    case TSR__SAY_NOTICE:
      REQUIRE(tsr__take_u32(&packet.fields) < PEERS);
      REQUIRE(tsr__take_u32(&packet.fields) <= TSR__LEFT);
      tsr__take_text(&packet.fields, text, 1000);
      REQUIRE(tsr__fields_done(&packet.fields));
      break;
    case TSR__SAY_REFUSED:
      REQUIRE(tsr__take_u32(&packet.fields) != 0);
      tsr__take_text(&packet.fields, text, 1000);
      fuzz_message(text, sizeof text);
      tsr__take_u32(&packet.fields);
      tsr__take_text(&packet.fields, text, 64);
      REQUIRE(tsr__fields_done(&packet.fields));
      break;
    case TSR__SAY_STEP:
      tsr__take_u64(&packet.fields);
      REQUIRE(tsr__fields_done(&packet.fields));
      break;
    case TSR__SAY_STOP: REQUIRE(tsr__fields_done(&packet.fields)); break;
    default: REQUIRE(packet.kind == TSR__SAY_PONG || packet.kind == TSR__SAY_WELCOME);
    }
  }
}

/* A peer is cut off: what lies for it is of no use any more. */
static void cut_off(world *w, int who)
{
  tsr__peer *peer = &w->peers[who];
  int member = peer->member;
  peer->member = -1;
  peer->closing = true;
  if (member < 0) return;
  w->members[member].peer = NULL;
  tsr__member_gone(&w->c, member, true, "it was cut off");
}

static void take(world *w, int who, const uint8_t *data, size_t length)
{
  tsr__peer *peer = &w->peers[who];
  while (length && !peer->closing) {
    tsr__packet packet;
    int64_t used = tsr__packet_next(data, length, peer->link.most, &packet);
    REQUIRE(used <= (int64_t)length);
    if (used == 0) return; /* a piece that ends early */
    if (used > 0 && peer->member >= 0) w->asked[who][(uint8_t)packet.ticket]++;
    if (used < 0 || !tsr__peer_packet(&w->c, peer, &packet)) {
      cut_off(w, who);
      return;
    }
    data += used;
    length -= (size_t)used;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static world w;
  if (!size || size > 1 << 16) return 0;
  open_world(&w, data[0]);
  for (size_t at = 1; at < size;) {
    int who = data[at] % PEERS;
    size_t length = (size_t)(data[at] / PEERS) * 2;
    if (length > size - at - 1) length = size - at - 1;
    /* An exact copy, so that a byte read past its end is noticed. */
    uint8_t *piece = malloc(length ? length : 1);
    REQUIRE(piece);
    memcpy(piece, data + at + 1, length);
    take(&w, who, piece, length);
    free(piece);
    at += 1 + length;
    w.c.now += 3000000;
    tsr__waits_tick(&w.c);
    tsr__meetings_tick(&w.c);
    for (int i = 0; i < PEERS; i++) check_out(&w, i);
  }
  /* In the end every deadline is over, and nobody waits any more. */
  w.c.now = INT64_MAX;
  tsr__waits_tick(&w.c);
  tsr__meetings_tick(&w.c);
  for (int i = 0; i < PEERS; i++) check_out(&w, i);
  REQUIRE(!w.c.waits);
  close_world(&w);
  return 0;
}
