/* Decimal text to double against Python's float() (tests/golden/make_csv.py) and against the C
 * library's strtod. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "io/text/decimal.h"
#include "support/locales.h"

static tsr__heap heap;

static tsr__decimal *open_decimal(void)
{
  tsr__heap_init(&heap, NULL);
  tsr__decimal *decimal = tsr__decimal_open(&heap);
  CHECK(decimal != NULL);
  return decimal;
}

static void close_decimal(tsr__decimal *decimal)
{
  tsr__decimal_close(decimal);
  CHECK_I64(heap.live, 0);
}

/* From memory that ends behind the last byte and that no NUL follows. */
static tsr__number read_guarded(const tsr__decimal *decimal, const char *text, int64_t *integer,
                                double *real)
{
  size_t length = strlen(text);
  char *copy = malloc(length + (length == 0));
  memcpy(copy, text, length);
  tsr__number number = tsr__decimal_read(decimal, copy, length, integer, real);
  free(copy);
  return number;
}

static void check_bits(const char *text, double found, uint64_t expected)
{
  uint64_t bits;
  memcpy(&bits, &found, 8);
  if (bits != expected)
    FAIL("%s is %a (%016" PRIx64 "), expected %016" PRIx64, text, found, bits, expected);
}

TEST(rounds_as_python_does)
{
  tsr__decimal *decimal = open_decimal();
  char *text = test_read(test_file("golden/decimal.txt"), NULL);
  int lines = 0;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
    char *kind = strchr(line, ' ') + 1, *bits = strchr(kind, ' ') + 1;
    kind[-1] = bits[-1] = 0;
    int64_t integer = 0;
    double real = 0;
    tsr__number number = read_guarded(decimal, line, &integer, &real);
    check_bits(line, real, strtoull(bits, NULL, 16));
    CHECK_I64(number, strcmp(kind, "int") == 0   ? TSR__NUMBER_INT
                      : strcmp(kind, "big") == 0 ? TSR__NUMBER_BIG
                                                 : TSR__NUMBER_FLOAT);
    if (number == TSR__NUMBER_INT) CHECK_I64(integer, strtoll(line, NULL, 10));
  }
  CHECK(lines > 400);
  free(text);
  close_decimal(decimal);
}

static void check_strtod(const tsr__decimal *decimal, const char *text)
{
  int64_t integer;
  double real = 0, expected = strtod(text, NULL);
  uint64_t bits;
  CHECK(read_guarded(decimal, text, &integer, &real) != TSR__NUMBER_NONE);
  memcpy(&bits, &expected, 8);
  check_bits(text, real, bits);
}

/* Digits with a point somewhere, and an exponent that leads anywhere. */
static void random_text(test_rng *rng, char *out)
{
  int64_t before = test_range(rng, 0, 24), after = test_range(rng, before == 0, 24);
  if (test_range(rng, 0, 3) == 0) *out++ = "+-"[test_range(rng, 0, 1)];
  for (int64_t i = 0; i < before; i++) *out++ = (char)('0' + test_range(rng, 0, 9));
  if (after) *out++ = '.';
  for (int64_t i = 0; i < after; i++) *out++ = (char)('0' + test_range(rng, 0, 9));
  *out = 0;
  if (test_range(rng, 0, 2)) sprintf(out, "e%d", (int)test_range(rng, -345, 330));
}

TEST(rounds_as_strtod_does)
{
  tsr__decimal *decimal = open_decimal();
  test_rng rng = test_seeded(11);
  char text[128];
  int count = test_quick() ? 20000 : 300000;
  for (int i = 0; i < count; i++) {
    random_text(&rng, text);
    check_strtod(decimal, text);
    double value = test_any_f64(&rng);
    sprintf(text, "%.*e", (int)test_range(&rng, 0, 25), value);
    check_strtod(decimal, text);
    sprintf(text, "%.17g", test_uniform(&rng));
    check_strtod(decimal, text);
  }
  close_decimal(decimal);
}

TEST(seventeen_digits_give_the_bits_back)
{
  tsr__decimal *decimal = open_decimal();
  test_rng rng = test_seeded(12);
  for (int i = 0; i < 50000; i++) {
    double value = test_any_f64(&rng), real = 0;
    int64_t integer;
    char text[64];
    sprintf(text, "%.17g", value);
    CHECK(read_guarded(decimal, text, &integer, &real) != TSR__NUMBER_NONE);
    CHECK_F64_BITS(real, value);
  }
  close_decimal(decimal);
}

/* Each power of ten, by itself and as a factor of a hard mantissa. */
TEST(every_power_of_ten)
{
  tsr__decimal *decimal = open_decimal();
  for (int q = -400; q <= 400; q++) {
    char text[64];
    sprintf(text, "1e%d", q);
    check_strtod(decimal, text);
    sprintf(text, "9007199254740993e%d", q);
    check_strtod(decimal, text);
    sprintf(text, "18446744073709551615e%d", q);
    check_strtod(decimal, text);
  }
  close_decimal(decimal);
}

TEST(integers_that_fit)
{
  tsr__decimal *decimal = open_decimal();
  static const struct {
    const char *text;
    int64_t value;
  } cases[] = {
    { "0", 0 },
    { "-0", 0 },
    { "+7", 7 },
    { "007", 7 },
    { "-9223372036854775808", INT64_MIN },
    { "9223372036854775807", INT64_MAX },
    { "0000000000000000000000000000000000000012", 12 },
    { "00000000012345678901234567", 12345678901234567 },
    { "12345678", 12345678 },
    { "-1234567890123456", -1234567890123456 },
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t integer = -1;
    double real;
    CHECK_I64(read_guarded(decimal, cases[i].text, &integer, &real), TSR__NUMBER_INT);
    CHECK_I64(integer, cases[i].value);
    CHECK_F64_BITS(real == 0 ? 0 : real, (double)cases[i].value);
  }
  static const char *const big[] = { "9223372036854775808", "-9223372036854775809",
                                     "18446744073709551616", "99999999999999999999" };
  for (size_t i = 0; i < sizeof big / sizeof *big; i++) {
    int64_t integer = -1;
    double real;
    CHECK_I64(read_guarded(decimal, big[i], &integer, &real), TSR__NUMBER_BIG);
    CHECK_F64_BITS(real, strtod(big[i], NULL));
  }
  close_decimal(decimal);
}

TEST(words)
{
  tsr__decimal *decimal = open_decimal();
  static const char *const infinities[] = { "inf", "INF", "Inf", "+inf", "infinity", "Infinity" };
  int64_t integer;
  double real;
  for (size_t i = 0; i < sizeof infinities / sizeof *infinities; i++) {
    CHECK_I64(read_guarded(decimal, infinities[i], &integer, &real), TSR__NUMBER_FLOAT);
    CHECK_F64_BITS(real, (double)INFINITY);
  }
  CHECK_I64(read_guarded(decimal, "-inf", &integer, &real), TSR__NUMBER_FLOAT);
  CHECK_F64_BITS(real, -(double)INFINITY);
  CHECK_I64(read_guarded(decimal, "-NaN", &integer, &real), TSR__NUMBER_FLOAT);
  CHECK(isnan(real));
  close_decimal(decimal);
}

TEST(no_numbers)
{
  static const char *const none[] = {
    "",      " ",    "-",       "+",     ".",     "-.",    "e5",        ".e5",
    "1e",    "1e+",  "1e5.0",   "1.2.3", "1 2",   " 1",    "1 ",        "0x10",
    "1_000", "1,5",  "--1",     "+-1",   "1e5e5", "1f",    "1d0",       "in",
    "infi",  "nana", "infinit", "naN1",  "١",     "1\xff", "12345678x", "1234567812345678y",
    "e",     "E",    "+inf+",
  };
  tsr__decimal *decimal = open_decimal();
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    int64_t integer = 42;
    double real = 42;
    if (read_guarded(decimal, none[i], &integer, &real) != TSR__NUMBER_NONE)
      FAIL("'%s' is taken as a number", none[i]);
    CHECK_I64(integer, 42);
    CHECK_F64_BITS(real, 42);
  }
  close_decimal(decimal);
}

/* Floats are rounded once: where the double lies on a border between two of them, its text
 * decides. */
TEST(floats_are_rounded_once)
{
  static const char *const texts[] = {
    "1.00000005960464477540",
    "1.00000005960464477539",
    "1.00000005960464477539062500",
    "-1.0000000596046447753906250000000000000001",
    "16777217.000000000001",
    "16777216.999999999999",
    "340282356779733661637539395458142568447.9",
    "340282356779733661637539395458142568448",
    "7.0064923216240853546186e-46",
    "7.0064923216240853546187e-46",
    "1.1754943157898258e-38",
    "1e-40",
    "0.1",
    "-0.0",
    "1e400",
    "8589973000",
    "0",
    "1e-400",
  };
  tsr__decimal *decimal = open_decimal();
  test_rng rng = test_seeded(17);
  char text[80];
  for (int i = 0; i < 200000; i++) {
    int64_t integer;
    double real;
    if (i < (int)(sizeof texts / sizeof *texts)) {
      snprintf(text, sizeof text, "%s", texts[i]);
    } else {
      /* Near a border: half way between two floats, cut somewhere, or a bit more. */
      uint32_t bits = (uint32_t)test_random(&rng) & 0x7f7fffff;
      float low;
      memcpy(&low, &bits, sizeof low);
      double half = (double)low + ((double)nextafterf(low, INFINITY) - (double)low) / 2;
      int digits = (int)test_range(&rng, 8, 40);
      snprintf(text, sizeof text, "%.*e", digits, half);
    }
    CHECK(read_guarded(decimal, text, &integer, &real) != TSR__NUMBER_NONE);
    float got = tsr__decimal_narrow(decimal, text, strlen(text), real), want = strtof(text, NULL);
    if (memcmp(&got, &want, sizeof got) != 0)
      FAIL("%s: %a, expected %a", text, (double)got, (double)want);
  }
  close_decimal(decimal);
}

/* Digits far beyond what a double holds still decide: a tie is broken by the last of them. */
TEST(very_long_texts)
{
  enum { ZEROS = 200000 };
  tsr__decimal *decimal = open_decimal();
  char *text = malloc(ZEROS + 64);
  int64_t integer;
  double real = 0;
  int at = sprintf(text, "9007199254740993.");
  memset(text + at, '0', ZEROS);
  text[at + ZEROS] = 0;
  CHECK(read_guarded(decimal, text, &integer, &real) == TSR__NUMBER_FLOAT);
  CHECK_F64_BITS(real, 9007199254740992.0);
  text[at + ZEROS - 1] = '1';
  CHECK(read_guarded(decimal, text, &integer, &real) == TSR__NUMBER_FLOAT);
  CHECK_F64_BITS(real, 9007199254740994.0);
  memset(text, '0', ZEROS);
  text[1] = '.';
  sprintf(text + ZEROS, "25e%d", ZEROS);
  CHECK(read_guarded(decimal, text, &integer, &real) == TSR__NUMBER_FLOAT);
  CHECK_F64_BITS(real, 25.0);
  free(text);
  close_decimal(decimal);
}

TEST_TIMEOUT(the_locale_does_not_show, 300)
{
  locale_set("de_DE");
  tsr__decimal *decimal = open_decimal();
  int64_t integer;
  double real = 0;
  CHECK(read_guarded(decimal, "4503599627370497.5", &integer, &real) == TSR__NUMBER_FLOAT);
  CHECK_F64_BITS(real, 0x1.0000000000002p52);
  close_decimal(decimal);
}

TEST(refused_memory)
{
  struct test_alloc state = { .fail_at = 1 };
  tsr_allocator allocator = test_allocator(&state);
  tsr__heap_init(&heap, &allocator);
  CHECK(tsr__decimal_open(&heap) == NULL);
  CHECK_I64(state.live, 0);
}
