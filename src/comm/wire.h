/* Inside comm/: frames, as bytes and on a connection. What they mean stands in wire.c. */
#ifndef TSR_COMM_WIRE_H
#define TSR_COMM_WIRE_H

#include "base/base.h"

enum {
  TSR__WIRE_VERSION = 2,
  TSR__WIRE_HEAD = 12,
  TSR__NONCE = 16,
  TSR__PROOF = 32,
  TSR__KEY_MOST = 1024,         /* bytes of a key or of a name */
  TSR__VALUE_MOST = 8 << 20,    /* of a value or a record */
  TSR__STRANGER_MOST = 1024,    /* of a frame from who has not joined */
  TSR__FRAME_MOST = 9 << 20,    /* of a request */
  TSR__ANSWER_MOST = 128 << 20, /* of an answer: a long list, or all records of a meeting */
};

/* Kinds of frames; the comment of wire.c has their fields. */
enum tsr__say {
  TSR__SAY_HELLO = 1,
  TSR__SAY_JOIN,
  TSR__SAY_WELCOME,
  TSR__SAY_REFUSED,
  TSR__SAY_SET,
  TSR__SAY_GET,
  TSR__SAY_DELETE,
  TSR__SAY_LIST,
  TSR__SAY_ADD,
  TSR__SAY_MEET,
  TSR__SAY_FAIL,
  TSR__SAY_PING,
  TSR__SAY_BYE,
  TSR__SAY_ANSWER,
  TSR__SAY_NOTICE,
  TSR__SAY_PONG,
  TSR__SAY_STOP,
  TSR__SAY_STEP,
  TSR__SAY_REGROUP,
  TSR__SAY_KINDS
};

typedef struct tsr__blob {
  const void *data; /* borrowed */
  size_t length;
} tsr__blob;

/* Reads fields in order. What is not there reads as zero and sets `bad`, so that a frame is judged
 * once, after its last field. */
typedef struct tsr__fields {
  const uint8_t *at, *end;
  bool bad;
} tsr__fields;

uint32_t tsr__take_u32(tsr__fields *reader);
uint64_t tsr__take_u64(tsr__fields *reader);
tsr__blob tsr__take_bytes(tsr__fields *reader);
/* Bytes as text of at most `most` bytes without a NUL in it, copied to `out` of most + 1. */
void tsr__take_text(tsr__fields *reader, char *out, size_t most);
/* Whether all was there and nothing is left. */
bool tsr__fields_done(const tsr__fields *reader);

typedef struct tsr__packet {
  int kind;
  uint32_t ticket; /* of a request and its answer; 0: nobody waits */
  tsr__fields fields;
} tsr__packet;

/* The frame that bytes begin with: how many bytes it takes, 0 if it is not whole yet, -1 if these
 * are no frame or one of more than `most` bytes. */
int64_t tsr__packet_next(const uint8_t *data, size_t length, size_t most, tsr__packet *out);

/* Writes a frame behind what a text holds. What does not fit into memory sets text->failed. */
size_t tsr__packet_begin(tsr__text *out, int kind, uint32_t ticket);
void tsr__packet_end(tsr__text *out, size_t began);
void tsr__write_u32(tsr__text *out, uint32_t value);
void tsr__write_u64(tsr__text *out, uint64_t value);
void tsr__write_bytes(tsr__text *out, const void *data, size_t length);

/* ---- a connection (link.c) ------------------------------------------------------------------- */

/* One socket that never blocks, with what came and is not a frame yet, and what is to go out. One
 * thread uses it. */
typedef struct tsr__link {
  int fd;
  size_t most; /* bytes of a frame that may come */
  tsr__text in, out;
  size_t in_at, out_at; /* bytes used up */
} tsr__link;

void tsr__link_init(tsr__link *link, tsr__heap *heap, int fd, size_t most);
void tsr__link_close(tsr__link *link);
/* Reads what is there, within bounds; false: the other side is gone, or memory is. */
bool tsr__link_read(tsr__link *link);
/* Takes the next frame, which lies in the link until the next read. 1: there is one, 0: not yet,
 * -1: what came is none. */
int tsr__link_next(tsr__link *link, tsr__packet *out);
/* Sends what can be sent now; false: the other side is gone. */
bool tsr__link_write(tsr__link *link);
size_t tsr__link_waiting(const tsr__link *link); /* bytes that are to go out */

/* ---- addresses (address.c) ------------------------------------------------------------------- */

typedef struct tsr__address {
  bool local;     /* a Unix socket: `host` is its path, or a name after '@' */
  char host[256]; /* without brackets */
  char port[8];
} tsr__address;

/* "HOST:PORT", "[::1]:PORT", "unix:PATH" or "unix:@NAME". */
tsr_status tsr__address_parse(const char *text, tsr__address *out, tsr__error *error);
/* Sockets that listen and do not block, at all addresses of a name that are this host's; `near`:
 * where nobody of another host comes, at the same port. TSR_EIO. */
enum { TSR__LISTENERS = 16 };
typedef struct tsr__listeners {
  int count, fd[TSR__LISTENERS];
  char where[400]; /* in words */
} tsr__listeners;
tsr_status tsr__address_listen(const tsr__address *at, bool near, tsr__listeners *out,
                               tsr__error *error);
void tsr__listeners_close(tsr__listeners *all);
/* A connected socket that does not block, or -1 with errno (or EAI in `*lookup`). `near`: a host
 * that is this one listens as above. Who listens at a Unix socket is this user, or root. */
int tsr__address_connect(const tsr__address *at, bool near, int timeout_ms, int *lookup);
/* How long the system tries to reach the other side of a connection. */
void tsr__address_patience(int fd, double seconds);
/* One where this process can listen and that the others of its host, or of several, can reach: a
 * port that is free now; "" if there is none. */
void tsr__address_own(bool one_host, char *out, size_t size);
/* Whether the other side of an accepted connection is on this host; of a Unix socket, whether it is
 * of this user or of root. */
bool tsr__peer_is_near(int fd);
/* Wakes a thread that polls, and takes the wakes back. */
int tsr__wake_open(void);
void tsr__wake(int fd);
void tsr__wake_drain(int fd);

/* ---- proofs (proof.c) ------------------------------------------------------------------------ */

/* A message code: HMAC of SHA-256. */
void tsr__proof(const char *secret, tsr__blob message, uint8_t out[TSR__PROOF]);

/* What a side proves: that it knows the secret, now, and who it is. */
typedef struct tsr__claim {
  const char *secret, *who;       /* "join" or "welcome" */
  const uint8_t *server, *client; /* nonces of TSR__NONCE bytes */
  uint32_t index, count;
} tsr__claim;
void tsr__claim_proof(const tsr__claim *claim, uint8_t out[TSR__PROOF]);
/* In a time that does not tell where they differ. */
bool tsr__proof_same(const uint8_t *a, const uint8_t *b, size_t length);

#endif
