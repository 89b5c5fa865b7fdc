/* SHA-256 (FIPS 180-4) and its message code (RFC 2104), to show that one knows a secret without
 * saying it.
 *
 * Invariant: the state is eight words that depend on whole blocks only; what is left of the message
 * waits in `block`.
 *
 *   end of a text:  ... rest | 0x80 | zeros | its length in bits, 8 bytes |     to whole blocks
 *   code:           SHA(key ^ 5c.. | SHA(key ^ 36.. | message))   the key with zeros up to a block
 *   claim:          | who, 8 | index, 4 | count, 4 | server's nonce, 16 | client's nonce, 16 |
 *
 * SHA-256 has the highest byte of a number first; the claim, as the rest of the protocol, the
 * lowest. */
#include "comm/wire.h"

enum { BLOCK = 64 };

typedef struct sha {
  uint32_t state[8];
  uint8_t block[BLOCK];
  uint64_t length; /* bytes so far */
} sha;

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t rounds[64] = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* Bits that fall out on the right come in on the left. n is 1 to 31. */
static uint32_t turn(uint32_t x, int n)
{
  return x >> n | x << (32 - n);
}

/* `w` is the block's sixteen numbers, drawn out to 64; `v` are the letters a to h of FIPS 180-4,
 * so choose and most are its Ch and Maj. */
static void sha_block(sha *s)
{
  uint32_t w[64], v[8];
  for (int i = 0; i < 16; i++)
    w[i] = (uint32_t)s->block[4 * i] << 24 | (uint32_t)s->block[4 * i + 1] << 16 |
           (uint32_t)s->block[4 * i + 2] << 8 | s->block[4 * i + 3];
  for (int i = 16; i < 64; i++)
    w[i] = w[i - 16] + w[i - 7] + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) +
           (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10);
  memcpy(v, s->state, sizeof v);
  for (int i = 0; i < 64; i++) {
    uint32_t choose = (v[4] & v[5]) ^ (~v[4] & v[6]);
    uint32_t most = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    uint32_t a =
        v[7] + (turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25)) + choose + rounds[i] + w[i];
    uint32_t b = (turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22)) + most;
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += a;
    v[0] = a + b;
  }
  for (int i = 0; i < 8; i++) s->state[i] += v[i];
}

/* Byte by byte: what is proved is a hundred bytes, once a process. */
static void sha_add(sha *s, const void *data, size_t length)
{
  const uint8_t *at = data;
  for (size_t i = 0; i < length; i++) {
    s->block[s->length++ % BLOCK] = at[i];
    if (s->length % BLOCK == 0) sha_block(s);
  }
}

/* The same of the square roots of the first eight primes. */
static void sha_begin(sha *s)
{
  *s = (sha){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                         0x1f83d9ab, 0x5be0cd19 } };
}

/* The length is taken first, as what fills up goes in by sha_add and counts as well. */
static void sha_end(sha *s, uint8_t out[TSR__PROOF])
{
  uint64_t bits = s->length * 8;
  uint8_t tail[8];
  for (int i = 0; i < 8; i++) tail[i] = (uint8_t)(bits >> (56 - 8 * i));
  sha_add(s, "\x80", 1);
  while (s->length % BLOCK != BLOCK - 8) sha_add(s, "", 1); /* the NUL of the empty text */
  sha_add(s, tail, sizeof tail);
  for (int i = 0; i < TSR__PROOF; i++) out[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

/* Two hashes and not one of secret and message: SHA-256's state is its result, so who has the
 * code of one text could go on from there to that of a longer one. */
void tsr__proof(const char *secret, tsr__blob message, uint8_t out[TSR__PROOF])
{
  uint8_t key[BLOCK] = { 0 }, pad[BLOCK];
  size_t length = strlen(secret);
  sha s;
  sha_begin(&s);
  sha_add(&s, secret, length);
  /* A key longer than a block is its hash. */
  if (length > BLOCK) sha_end(&s, key);
  else memcpy(key, secret, length);
  for (int i = 0; i < BLOCK; i++) pad[i] = key[i] ^ 0x36;
  sha_begin(&s);
  sha_add(&s, pad, BLOCK);
  sha_add(&s, message.data, message.length);
  sha_end(&s, out);
  for (int i = 0; i < BLOCK; i++) pad[i] = key[i] ^ 0x5c;
  sha_begin(&s);
  sha_add(&s, pad, BLOCK);
  sha_add(&s, out, TSR__PROOF);
  sha_end(&s, out);
}

/* Each field has its fixed place, so no two claims are the same bytes. Both nonces: each side
 * knows by its own that the other's proof was made now. */
void tsr__claim_proof(const tsr__claim *claim, uint8_t out[TSR__PROOF])
{
  uint8_t message[16 + 2 * TSR__NONCE] = { 0 };
  memcpy(message, claim->who, strlen(claim->who));
  for (int i = 0; i < 4; i++) {
    message[8 + i] = (uint8_t)(claim->index >> 8 * i);
    message[12 + i] = (uint8_t)(claim->count >> 8 * i);
  }
  memcpy(message + 16, claim->server, TSR__NONCE);
  memcpy(message + 16 + TSR__NONCE, claim->client, TSR__NONCE);
  tsr__proof(claim->secret, (tsr__blob){ message, sizeof message }, out);
}

bool tsr__proof_same(const uint8_t *a, const uint8_t *b, size_t length)
{
  unsigned differ = 0;
  for (size_t i = 0; i < length; i++) differ |= a[i] ^ (unsigned)b[i];
  return !differ;
}
