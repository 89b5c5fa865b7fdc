/* Members of gzip: what zlib packs is unpacked in pieces of any sizes, one member after another,
 * and what was changed on the way is refused or is still the same text. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "harness.h"
#include "io/file/gunzip.h"

enum { MOST = 200000, ROOM = 2 * MOST };

/* Bytes of several kinds: none alike, few kinds, far copies, long runs. */
static size_t make_bytes(test_rng *rng, unsigned char *out)
{
  int kind = (int)test_range(rng, 0, 4), period = (int)test_range(rng, 1, 500);
  size_t count = (size_t)test_range(rng, 0, test_range(rng, 0, 3) ? MOST : 300);
  for (size_t i = 0; i < count; i++) {
    bool far = kind == 3 && i > 40000 && test_range(rng, 0, 50) > 0;
    unsigned char any = (unsigned char)test_range(rng, 0, 255);
    switch (kind) {
    case 1: out[i] = (unsigned char)"abcd"[any % 4]; break;
    case 2: out[i] = (unsigned char)(i % (size_t)period); break;
    case 3: out[i] = far ? out[i - 32768 + any % 3] : any; break;
    case 4: out[i] = any < 250 ? 'x' : any; break;
    default: out[i] = any;
    }
  }
  return count;
}

static size_t pack(test_rng *rng, unsigned char *bytes, size_t count, unsigned char *out)
{
  static const int levels[] = { 0, 1, 3, 6, 9 };
  z_stream z = { .next_in = bytes, .avail_in = (uInt)count, .next_out = out, .avail_out = ROOM };
  CHECK_I64(deflateInit2(&z, levels[test_range(rng, 0, 4)], Z_DEFLATED, 16 + 15, 8,
                         (int)test_range(rng, 0, 4)),
            Z_OK);
  CHECK_I64(deflate(&z, Z_FINISH), Z_STREAM_END);
  size_t packed = z.total_out;
  deflateEnd(&z);
  return packed;
}

/* How input is given and room is had: so many bytes each time. */
typedef struct pieces {
  size_t in, out;
} pieces;

/* Unpacks a member and moves `*at` behind it. Returns how many bytes it has, -1 where something is
 * wrong with it, -2 where it is cut off. */
static int64_t unpack(tsr__gunzip *z, const unsigned char **at, const unsigned char *end, pieces p,
                      unsigned char *to)
{
  size_t made = 0;
  for (;;) {
    size_t left = (size_t)(end - *at), in = left < p.in ? left : p.in;
    /* Memory of their own, exactly as large: what lies outside is guarded. */
    unsigned char *input = malloc(in + !in), *room = malloc(p.out);
    memcpy(input, *at, in);
    tsr__gunzip_io io = { .in = input, .left = in, .out = room, .room = p.out };
    tsr_status status = tsr__gunzip_some(z, &io);
    size_t now = p.out - io.room;
    if (made + now <= MOST) memcpy(to + made, room, now);
    made += now;
    *at += in - io.left;
    free(input);
    free(room);
    if (status) return CHECK_STR_HAS(io.wrong, ""), -1;
    if (io.ended) return (int64_t)made;
    if (!left && !now) return -2;
    if (made > MOST) return -1;
  }
}

static pieces some_pieces(test_rng *rng)
{
  return (pieces){ (size_t)test_range(rng, 1, test_range(rng, 0, 1) ? 7 : 70000),
                   (size_t)test_range(rng, 1, test_range(rng, 0, 2) ? 100000 : 400) };
}

static void unpack_packed(void)
{
  test_rng rng = test_seeded(1);
  struct test_alloc state = { 0 };
  tsr__heap heap = { .fn = test_allocator(&state) };
  unsigned char *bytes = malloc(MOST), *packed = malloc(2 * ROOM), *found = malloc(MOST);
  for (int round = 0; round < (test_quick() ? 60 : 400); round++) {
    size_t count = make_bytes(&rng, bytes), size = pack(&rng, bytes, count, packed);
    /* A second member, of the same. */
    size_t both = size + pack(&rng, bytes, count, packed + size);
    pieces p = some_pieces(&rng);
    const unsigned char *at = packed;
    tsr__gunzip *z = tsr__gunzip_open(&heap);
    for (int member = 0; member < 2; member++) {
      if (member) tsr__gunzip_next(z);
      CHECK_I64(unpack(z, &at, packed + both, p, found), (int64_t)count);
      CHECK_BYTES(found, bytes, count);
      CHECK_I64(at - packed, (int64_t)(member ? both : size));
    }
    tsr__gunzip_close(z);
    /* Cut anywhere it waits for more. */
    z = tsr__gunzip_open(&heap);
    at = packed;
    const unsigned char *cut = packed + test_range(&rng, 0, (int64_t)size - 1);
    CHECK_I64(unpack(z, &at, cut, p, found), -2);
    tsr__gunzip_close(z);
  }
  CHECK_I64(state.live, 0);
  free(bytes);
  free(packed);
  free(found);
}

static void refuse_damaged(void)
{
  test_rng rng = test_seeded(2);
  struct test_alloc state = { 0 };
  tsr__heap heap = { .fn = test_allocator(&state) };
  unsigned char *bytes = malloc(MOST), *packed = malloc(ROOM), *found = malloc(MOST);
  int refused = 0, rounds = test_quick() ? 500 : 4000;
  for (int round = 0; round < rounds; round++) {
    size_t count = (size_t)test_range(&rng, 1, 3000);
    for (size_t i = 0; i < count; i++) bytes[i] = (unsigned char)"abcdefg"[test_range(&rng, 0, 6)];
    size_t size = pack(&rng, bytes, count, packed);
    packed[test_range(&rng, 0, (int64_t)size - 1)] ^= (unsigned char)(1 << test_range(&rng, 0, 7));
    const unsigned char *at = packed;
    tsr__gunzip *z = tsr__gunzip_open(&heap);
    int64_t made = unpack(z, &at, packed + size, some_pieces(&rng), found);
    tsr__gunzip_close(z);
    refused += made < 0;
    if (made < 0) continue;
    /* A date, a system's name: nothing of the text. */
    CHECK_I64(made, (int64_t)count);
    CHECK_BYTES(found, bytes, count);
  }
  CHECK(refused > rounds * 3 / 4);
  free(bytes);
  free(packed);
  free(found);
}

/* ---- by zlib, and by the plugin -------------------------------------------------------------- */

/* Tests are linked with the static library, beside which no plugin lies. */
static void by_zlib(void)
{
  setenv("TSR_PLUGIN_PATH", "/there/is/none", 1);
}

static void by_isal(void)
{
#ifdef TEST_ISAL
  tsr_plugin isal = { 0 };
  setenv("TSR_PLUGIN_PATH", TEST_ISAL, 1);
  for (int i = 0; tsr_plugin_describe(i, &isal) && strcmp(isal.name, "isal");) i++;
  CHECK(isal.found);
#else
  SKIP("built without the plugin 'isal'");
#endif
}

TEST_TIMEOUT(zlib_unpacks_packed_members, 300)
{
  by_zlib();
  unpack_packed();
}

TEST_TIMEOUT(isal_unpacks_packed_members, 300)
{
  by_isal();
  unpack_packed();
}

TEST(zlib_refuses_damaged_members)
{
  by_zlib();
  refuse_damaged();
}

TEST(isal_refuses_damaged_members)
{
  by_isal();
  refuse_damaged();
}
