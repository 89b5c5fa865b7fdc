/* The protocol of processes, as frames of bytes.
 *
 *   frame:   u32 length of the fields | u8 kind | three zeros | u32 ticket | fields
 *   fields:  u32, u64: little-endian; bytes: u32 length, then so many bytes
 *
 * A process connects to the coordinator, which speaks first:
 *
 *     process                              coordinator
 *                                          HELLO    "tessera", version, nonce S, has a secret
 *     JOIN  nonce C, proof, index, count,
 *           host, pid
 *                                          WELCOME  proof            (or REFUSED  status, text,
 *                                                   pid and host of who has the place)
 *
 * The proofs are codes, by the shared secret, of both nonces, of who speaks, and of index and
 * count: the secret itself is never sent, and neither side believes the other without it. Without a
 * secret they are empty, and the coordinator looks at where the connection comes from. What is sent
 * later is neither encrypted nor signed.
 *
 * Then requests, each answered once by a frame with its ticket, in any order:
 *
 *     SET     key, value, u32 overwrite         nothing
 *     GET     key, u64 ms (0: do not wait)      u32 found, value
 *     DELETE  key                               nothing
 *     LIST    prefix                            u32 count, then key, value of each
 *     ADD     key, u64 delta                    u64 sum
 *     MEET    name, u64 ms, u32 count,          the record of each, in the order of indices
 *             count times u32 index (0: all),
 *             record
 *     REGROUP u64 ms                            u32 count, then so many u32 index: who is left
 *     BYE                                       nothing: of process 0 once all others are gone
 *     ANSWER  u32 status, text, then as above   (the only frame that answers)
 *
 * and what nobody asked for, with ticket 0:
 *
 *     FAIL    text                              from a process that gives up
 *     PING    u64 number of beats,              once a second; PONG comes back. Who waits in a run
 *             u32 process + 1, u64 number, text says for whom, at which meeting and what it is
 *     STOP                                      from a process that is to stop; from the
 *                                               coordinator: which step are you at?
 *     STEP    u64 step + 1                      the answer (0: none yet); from the
 *                                               coordinator: where all stop
 *     NOTICE  u32 index, u32 state, text        from the coordinator, to all: who came, is silent,
 *                                               failed and why, left
 *
 * Invariant: a frame is judged by its length before a byte of it is kept, and whoever sends what is
 * none is cut off: nothing that comes in makes the receiver hold more than a frame of the kind that
 * the sender may send. */
#include "comm/wire.h"

/* Byte by byte: frames lie at any address, and hosts may order bytes otherwise. */
static uint32_t load_u32(const uint8_t *at)
{
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void store_u32(uint8_t *at, uint32_t value)
{
  for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> 8 * i);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The bytes left are compared with the length, and not two pointers: a length from outside could
 * take one beyond all memory. */
static const uint8_t *take(tsr__fields *reader, size_t length)
{
  if (reader->bad || (size_t)(reader->end - reader->at) < length) {
    reader->bad = true;
    return NULL;
  }
  const uint8_t *at = reader->at;
  reader->at += length;
  return at;
}

uint32_t tsr__take_u32(tsr__fields *reader)
{
  const uint8_t *at = take(reader, 4);
  return at ? load_u32(at) : 0;
}

uint64_t tsr__take_u64(tsr__fields *reader)
{
  const uint8_t *at = take(reader, 8);
  return at ? (uint64_t)load_u32(at) | (uint64_t)load_u32(at + 4) << 32 : 0;
}

tsr__blob tsr__take_bytes(tsr__fields *reader)
{
  size_t length = tsr__take_u32(reader);
  const uint8_t *at = take(reader, length);
  return at ? (tsr__blob){ at, length } : (tsr__blob){ "", 0 };
}

/* A NUL within would make two different texts look the same to all who compare them as C texts.
 * Where it is bad `out` is the empty text, never what was there before. */
void tsr__take_text(tsr__fields *reader, char *out, size_t most)
{
  tsr__blob bytes = tsr__take_bytes(reader);
  if (bytes.length > most || memchr(bytes.data, 0, bytes.length)) reader->bad = true;
  size_t length = reader->bad ? 0 : bytes.length;
  memcpy(out, bytes.data, length);
  out[length] = '\0';
}

bool tsr__fields_done(const tsr__fields *reader)
{
  return !reader->bad && reader->at == reader->end;
}

/* Kind and length are judged as soon as the head is there, before the rest has come. The zeros
 * are room for what a later version may say. */
int64_t tsr__packet_next(const uint8_t *data, size_t length, size_t most, tsr__packet *out)
{
  if (length < TSR__WIRE_HEAD) return 0;
  size_t fields = load_u32(data);
  bool known = data[4] > 0 && data[4] < TSR__SAY_KINDS;
  if (!known || data[5] || data[6] || data[7] || fields > most) return -1;
  if (length - TSR__WIRE_HEAD < fields) return 0;
  const uint8_t *at = data + TSR__WIRE_HEAD;
  *out = (tsr__packet){ data[4], load_u32(data + 8), { at, at + fields, false } };
  return (int64_t)(TSR__WIRE_HEAD + fields);
}

/* ---- writing --------------------------------------------------------------------------------- */

void tsr__write_u32(tsr__text *out, uint32_t value)
{
  uint8_t bytes[4];
  store_u32(bytes, value);
  tsr__text_put(out, (const char *)bytes, sizeof bytes);
}

void tsr__write_u64(tsr__text *out, uint64_t value)
{
  tsr__write_u32(out, (uint32_t)value);
  tsr__write_u32(out, (uint32_t)(value >> 32));
}

void tsr__write_bytes(tsr__text *out, const void *data, size_t length)
{
  tsr__write_u32(out, (uint32_t)length);
  if (length) tsr__text_put(out, data, length);
}

/* The kind is written as a u32, whose upper bytes are the three zeros. Returns where the frame
 * begins: by number, as the text moves when it grows. */
size_t tsr__packet_begin(tsr__text *out, int kind, uint32_t ticket)
{
  size_t began = out->length;
  tsr__write_u32(out, 0); /* until frame_end */
  tsr__write_u32(out, (uint32_t)kind);
  tsr__write_u32(out, ticket);
  return began;
}

void tsr__packet_end(tsr__text *out, size_t began)
{
  if (out->failed) return;
  store_u32((uint8_t *)out->data + began, (uint32_t)(out->length - began - TSR__WIRE_HEAD));
}
