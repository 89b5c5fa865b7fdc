/* The coordinator's side of meetings, with peers that read nothing until the test does it. */
#include <stdlib.h>
#include <string.h>

#include "comm/coordinator.h"
#include "harness.h"

enum { PEERS = 6, RECORD = 8 << 20 };

typedef struct world {
  tsr__heap heap;
  tsr__coordinator c;
  tsr__member members[PEERS];
  tsr__peer peers[PEERS];
} world;

/* Connections without a socket: what is to go out stays. */
static void open_world(world *w)
{
  memset(w, 0, sizeof *w);
  tsr__heap_init(&w->heap, NULL);
  w->c.heap = w->c.store.heap = &w->heap;
  w->c.role.count = PEERS;
  w->c.role.wait_seconds = 10;
  w->c.members = w->members;
  for (int i = 0; i < PEERS; i++) {
    tsr__link_init(&w->peers[i].link, &w->heap, -1, TSR__FRAME_MOST);
    w->members[i] = (tsr__member){ .peer = &w->peers[i], .presence = TSR__HERE, .waits_for = -1 };
  }
}

static void close_world(world *w)
{
  tsr__meetings_free(&w->c);
  for (int i = 0; i < PEERS; i++) tsr__link_close(&w->peers[i].link);
  CHECK(w->c.record_bytes == 0);
  CHECK(atomic_load(&w->heap.live) == 0);
}

/* A member comes with so many bytes of its own letter. */
static void come(world *w, int member, size_t length)
{
  tsr__text text;
  tsr__packet packet;
  char *record = malloc(length + 1);
  CHECK(record != NULL);
  memset(record, 'a' + member, length);
  tsr__text_init(&text, &w->heap);
  size_t began = tsr__packet_begin(&text, TSR__SAY_MEET, 1);
  tsr__write_bytes(&text, "all", 3);
  tsr__write_u64(&text, 1000);
  tsr__write_u32(&text, 0);
  tsr__write_bytes(&text, record, length);
  tsr__packet_end(&text, began);
  CHECK(tsr__packet_next((const uint8_t *)text.data, text.length, TSR__FRAME_MOST, &packet) > 0);
  CHECK(tsr__request(&w->c, member, &packet));
  tsr__text_free(&text);
  free(record);
}

static size_t lies(const world *w)
{
  size_t all = 0;
  for (int i = 0; i < PEERS; i++) all += tsr__link_waiting(&w->peers[i].link);
  return all;
}

/* Reads what lies for a member; whether that is the answer to its meeting: the records of all. */
static bool read_answer(world *w, int member, size_t length)
{
  tsr__packet packet;
  tsr__link *link = &w->peers[member].link;
  if (!tsr__link_waiting(link)) return false;
  CHECK(tsr__packet_next((const uint8_t *)link->out.data, link->out.length, TSR__ANSWER_MOST,
                         &packet) > 0);
  CHECK_I64(packet.kind, TSR__SAY_ANSWER);
  CHECK_I64(tsr__take_u32(&packet.fields), TSR_OK);
  CHECK_U64(tsr__take_bytes(&packet.fields).length, 0);
  for (int i = 0; i < PEERS; i++) {
    tsr__blob record = tsr__take_bytes(&packet.fields);
    CHECK_U64(record.length, length);
    CHECK(((const char *)record.data)[0] == 'a' + i &&
          ((const char *)record.data)[length - 1] == 'a' + i);
  }
  CHECK(tsr__fields_done(&packet.fields));
  tsr__text_free(&link->out);
  tsr__text_init(&link->out, &w->heap);
  return true;
}

/* What all agreed on stands, however long it takes until each has read it. */
TEST(what_lies_for_all_is_bounded)
{
  static world w;
  int read = 0;
  open_world(&w);
  for (int i = 0; i < PEERS; i++) come(&w, i, RECORD);
  for (int round = 0; read < PEERS && round < PEERS; round++) {
    CHECK(lies(&w) > 0 && lies(&w) <= TSR__ANSWER_MOST);
    for (int i = 0; i < PEERS; i++) read += read_answer(&w, i, RECORD);
    w.c.now += INT64_C(3000000000);
    tsr__meetings_tick(&w.c);
  }
  CHECK_I64(read, PEERS);
  CHECK(!w.c.gatherings);
  close_world(&w);
}

/* Small ones are answered at once. */
TEST(what_is_small_is_told_to_all_at_once)
{
  static world w;
  open_world(&w);
  for (int i = 0; i < PEERS; i++) come(&w, i, 100);
  for (int i = 0; i < PEERS; i++) CHECK(read_answer(&w, i, 100));
  CHECK(!w.c.gatherings);
  close_world(&w);
}

/* It would wait for others until its time is over, who do not come to it. */
TEST(who_has_failed_is_told_so)
{
  static world w;
  tsr__packet packet;
  open_world(&w);
  tsr__link *link = &w.peers[2].link;
  tsr__member_gone(&w.c, 2, true, "it says so");
  tsr__text_free(&link->out);
  tsr__text_init(&link->out, &w.heap);
  come(&w, 2, 100);
  CHECK(tsr__packet_next((const uint8_t *)link->out.data, link->out.length, TSR__ANSWER_MOST,
                         &packet) > 0);
  CHECK_I64(packet.kind, TSR__SAY_ANSWER);
  CHECK_I64(tsr__take_u32(&packet.fields), TSR_EPEER);
  char text[1001];
  tsr__take_text(&packet.fields, text, 1000);
  CHECK_STR(text, "'all': process 2 failed: it says so");
  CHECK(!w.c.gatherings);
  close_world(&w);
}

/* ---- who waits for whom ---------------------------------------------------------------------- */

static void beat(world *w, int member, int waits_for, uint64_t number)
{
  tsr__text text;
  tsr__text_init(&text, &w->heap);
  tsr__write_u64(&text, 1);
  tsr__write_u32(&text, (uint32_t)(waits_for + 1));
  tsr__write_u64(&text, number);
  tsr__write_bytes(&text, "a test", 6);
  tsr__fields fields = { (const uint8_t *)text.data, (const uint8_t *)text.data + text.length,
                         false };
  CHECK(tsr__agree_beat(&w->c, member, &fields));
  tsr__text_free(&text);
}

/* At another meeting each second nobody has waited for long; at one of them somebody has. */
TEST(each_meeting_is_another_wait)
{
  static world w;
  open_world(&w);
  for (int i = 0; i < 40; i++) {
    beat(&w, 1, 2, 7 << 24 | (uint64_t)(i < 20 ? i : 20));
    w.c.now += INT64_C(1000000000);
    tsr__agree_tick(&w.c);
    CHECK(w.members[2].presence == (i < 29 ? TSR__HERE : TSR__FAILED));
  }
  CHECK_STR_HAS(
      w.c.cause.text,
      "process 2 failed: it is alive, but for 10 s has not reached a test, where process 1 waits");
  close_world(&w);
}
