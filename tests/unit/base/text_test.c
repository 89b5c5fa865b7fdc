/* Text: the builder, shortest numbers, terminal widths, near names. */
#include "harness.h"
#include "support/locales.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* ---- the builder ---- */

static void build(tsr__heap *heap)
{
  tsr__text text;
  tsr__text_init(&text, heap);
  CHECK_STR(tsr__text_get(&text), "");
  tsr__text_add(&text, "%d", 12);
  tsr__text_put(&text, ", ab", 3);
  tsr__text_pad(&text, '.', 3);
  tsr__text_pad(&text, '.', -3);
  CHECK_STR(tsr__text_get(&text), "12, a...");
  for (int i = 0; i < 1000; i++) tsr__text_add(&text, " item %d", i);
  CHECK_U64(text.length, strlen(text.data));
  CHECK_STR_HAS(text.data, "... item 0 item 1 ");
  CHECK_STR_HAS(text.data, " item 998 item 999");
  CHECK(!text.failed);
  tsr__text_free(&text);
  CHECK_STR(tsr__text_get(&text), "");
}

TEST(a_builder_grows_on_a_heap_or_on_malloc)
{
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  build(&heap);
  CHECK_I64(heap.live, 0);
  build(NULL);
}

TEST(a_text_that_just_fits_and_one_that_does_not)
{
  char line[400];
  memset(line, 'x', sizeof line);
  for (int first = 100; first < 140; first++) {
    for (int second = 0; second < 4; second++) {
      tsr__text text;
      tsr__text_init(&text, NULL);
      tsr__text_put(&text, line, (size_t)first);
      tsr__text_add(&text, "%.*s", second, line);
      CHECK_U64(strlen(text.data), (uint64_t)(first + second));
      tsr__text_free(&text);
    }
  }
}

TEST(a_builder_without_memory_keeps_what_it_has)
{
  struct test_alloc state = { .fail_at = 2 };
  tsr_allocator user = test_allocator(&state);
  tsr__heap heap;
  tsr__heap_init(&heap, &user);
  tsr__text text;
  tsr__text_init(&text, &heap);
  tsr__text_add(&text, "kept");
  tsr__text_add(&text, "%500d", 1);
  CHECK(text.failed);
  CHECK_STR(tsr__text_get(&text), "kept");
  tsr__text_add(&text, "dropped"); /* after a gap nothing more is added */
  CHECK_STR(tsr__text_get(&text), "kept");
  tsr__text_free(&text);
  CHECK_I64(state.live, 0);

  state = (struct test_alloc){ .fail_at = 1, .stay = true };
  tsr__text_add(&text, "x");
  tsr__text_put(&text, "x", 1);
  tsr__text_pad(&text, 'x', 1);
  CHECK(text.failed);
  CHECK_STR(tsr__text_get(&text), "");
  tsr__text_free(&text);
}

/* ---- numbers ---- */

/* What Python's repr says of the double with these bits, less its ".0". */
static const struct {
  uint64_t bits;
  const char *text;
} known[] = {
  { UINT64_C(0x404e000000000000), "60" },
  { UINT64_C(0x0000000000000000), "0" },
  { UINT64_C(0x8000000000000000), "-0" },
  { UINT64_C(0x3ff0000000000000), "1" },
  { UINT64_C(0xbff0000000000000), "-1" },
  { UINT64_C(0x3fb999999999999a), "0.1" },
  { UINT64_C(0x3fc999999999999a), "0.2" },
  { UINT64_C(0x3fd3333333333334), "0.30000000000000004" },
  { UINT64_C(0x430c6bf526340000), "1000000000000000" },
  { UINT64_C(0x4341c37937e08000), "1e+16" },
  { UINT64_C(0x437b69b4ba630f35), "1.2345678901234568e+17" },
  { UINT64_C(0x4341c37937e07fff), "9999999999999998" },
  { UINT64_C(0x4480f0cf064dd592), "1e+22" },
  { UINT64_C(0x44b52d02c7e14af6), "1e+23" },
  { UINT64_C(0x0000000000000001), "5e-324" },
  { UINT64_C(0x0000000000000002), "1e-323" },
  { UINT64_C(0x0010000000000000), "2.2250738585072014e-308" },
  { UINT64_C(0x000fffffffffffff), "2.225073858507201e-308" },
  { UINT64_C(0x7fefffffffffffff), "1.7976931348623157e+308" },
  { UINT64_C(0x3d30000000000000), "5.684341886080802e-14" },
  { UINT64_C(0x3e70000000000000), "5.960464477539063e-08" },
  { UINT64_C(0x43b0000000000000), "1.152921504606847e+18" },
  { UINT64_C(0x4340000000000000), "9007199254740992" },
  { UINT64_C(0x4350000000000000), "1.8014398509481984e+16" },
  { UINT64_C(0x4340000000000000), "9007199254740992" },
  { UINT64_C(0x430c6bf526340004), "1000000000000000.5" },
  { UINT64_C(0x3f1a36e2eb1c432d), "0.0001" },
  { UINT64_C(0x3ee4f8b588e368f1), "1e-05" },
  { UINT64_C(0x3eef75104d551d69), "1.5e-05" },
  { UINT64_C(0x405edd2f1a9fbe77), "123.456" },
  { UINT64_C(0x3fd5555555555555), "0.3333333333333333" },
  { UINT64_C(0x3fe5555555555555), "0.6666666666666666" },
  { UINT64_C(0x54b249ad2594c37d), "1e+100" },
  { UINT64_C(0x2b2bff2ee48e0530), "1e-100" },
  { UINT64_C(0x4059000000000000), "100" },
  { UINT64_C(0x430c6bf52633fff8), "999999999999999" },
  { UINT64_C(0x4011666666666666), "4.35" },
  { UINT64_C(0x3fe0000000000000), "0.5" },
  { UINT64_C(0x40091eb851eb851f), "3.14" },
  { UINT64_C(0x444b1ae4d6e2ef50), "1e+21" },
  { UINT64_C(0xbe90c6f7a0b5ed8d), "-2.5e-07" },
  { UINT64_C(0x447c7e83209e90b2), "8.41e+21" },
  { UINT64_C(0x0010000000000000), "2.2250738585072014e-308" },
  { UINT64_C(0x0000000000000001), "5e-324" },
  { UINT64_C(0x0170000000000000), "9.332636185032189e-302" },
  { UINT64_C(0x7e70000000000000), "1.0715086071862673e+301" },
  { UINT64_C(0x3eb0000000000000), "9.5367431640625e-07" },
  { UINT64_C(0x4330000000000000), "4503599627370496" },
  { UINT64_C(0x4330000000000002), "4503599627370498" },
  { UINT64_C(0x0000000000000001), "5e-324" },
  { UINT64_C(0x02e0000000000000), "7.82878265628505e-295" },
  { UINT64_C(0x08f0000000000000), "1.240520129162012e-265" },
  { UINT64_C(0x0f00000000000000), "1.9656826079092814e-236" },
  { UINT64_C(0x1510000000000000), "3.11474842221799e-207" },
  { UINT64_C(0x1b20000000000000), "4.935515883730707e-178" },
  { UINT64_C(0x2130000000000000), "7.820637090558988e-149" },
  { UINT64_C(0x2740000000000000), "1.2392294127517818e-119" },
  { UINT64_C(0x2d50000000000000), "1.9636373861190906e-90" },
  { UINT64_C(0x3360000000000000), "3.111507638930571e-61" },
  { UINT64_C(0x3970000000000000), "4.930380657631324e-32" },
  { UINT64_C(0x3f80000000000000), "0.0078125" },
  { UINT64_C(0x4590000000000000), "1.2379400392853803e+27" },
  { UINT64_C(0x4ba0000000000000), "1.9615942923083377e+56" },
  { UINT64_C(0x51b0000000000000), "3.1082702275611665e+85" },
  { UINT64_C(0x57c0000000000000), "4.92525077454931e+114" },
  { UINT64_C(0x5dd0000000000000), "7.804371375789981e+143" },
  { UINT64_C(0x63e0000000000000), "1.2366520073655227e+173" },
  { UINT64_C(0x69f0000000000000), "1.959553324262937e+202" },
  { UINT64_C(0x7000000000000000), "3.105036184601418e+231" },
  { UINT64_C(0x7610000000000000), "4.9201262289254483e+260" },
  { UINT64_C(0x7c20000000000000), "7.79625120912e+289" },
  { UINT64_C(0x4164d8399f767c45), "10928588.983213553" },
  { UINT64_C(0x5bc8fbbcbde5c099), "1.4186613525849614e+134" },
  { UINT64_C(0x30c11fdecb91ce37), "7.571968556055867e-74" },
  { UINT64_C(0x576d4330f1446bea), "1.4074705188261364e+113" },
  { UINT64_C(0x26eb8c9ebd69fe29), "3.3339745473042614e-121" },
  { UINT64_C(0x07b0b125ec1d7da0), "1.2342180766211395e-271" },
  { UINT64_C(0x57210dff076ce2ef), "5.126864004244935e+111" },
  { UINT64_C(0x46a5387777330bdb), "2.1520217579844227e+32" },
  { UINT64_C(0x3fc1ea36f17fd374), "0.1399601630397701" },
  { UINT64_C(0x0d464138a6233255), "1.01853664031722e-244" },
  { UINT64_C(0x2827688de6a16a3b), "2.9704598186234577e-115" },
  { UINT64_C(0x5f2dd97f1cfb10f6), "3.0534183338726823e+150" },
  { UINT64_C(0x5e5271007814e8a2), "2.3027782228163463e+146" },
  { UINT64_C(0x617959ce3f1f65a8), "3.56409621163656e+161" },
  { UINT64_C(0x1a1afe878b33e968), "6.352929017207453e-183" },
  { UINT64_C(0x3fd4235992edcf45), "0.3146575865605324" },
  { UINT64_C(0x3b2edb20035b7399), "1.2761724801771812e-23" },
  { UINT64_C(0x687c966c377b9aa2), "2.0868668176225336e+195" },
  { UINT64_C(0x2e9c82b1478c281d), "3.66898827745704e-84" },
  { UINT64_C(0x5e11cc9dea959c21), "1.389122273370197e+145" },
  { UINT64_C(0x63b229f1c4069545), "1.7548715433165102e+172" },
  { UINT64_C(0x430d8b7628dbd25e), "1039514241563211.8" },
  { UINT64_C(0x126a1e48cc11d357), "5.7804021771411506e-220" },
  { UINT64_C(0x1e30691c238642ea), "2.8497478716107576e-163" },
  { UINT64_C(0x71e0c07e9e115e4b), "3.490691392124745e+240" },
};

static void check_known(void)
{
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    double value;
    memcpy(&value, &known[i].bits, sizeof value);
    char out[32];
    CHECK_I64(tsr__text_f64(out, value), (int64_t)strlen(known[i].text));
    CHECK_STR(out, known[i].text);
  }
}

TEST(doubles_print_as_elsewhere)
{
  check_known();
  char out[32];
  tsr__text_f64(out, (double)NAN);
  CHECK_STR(out, "nan");
  tsr__text_f64(out, (double)-NAN);
  CHECK_STR(out, "nan");
  tsr__text_f64(out, (double)INFINITY);
  CHECK_STR(out, "inf");
  CHECK_I64(tsr__text_f64(out, (double)-INFINITY), 4);
  CHECK_STR(out, "-inf");
}

TEST(floats_print_as_elsewhere)
{
  static const struct {
    float value;
    const char *text;
  } floats[] = {
    { 0.1f, "0.1" },
    { 16777216.0f, "16777216" },
    { 1e10f, "10000000000" },
    { 1e16f, "1e+16" },
    { 3.4028235e38f, "3.4028235e+38" },
    { 1e-45f, "1e-45" },
    { 1.1754944e-38f, "1.1754944e-38" },
    { 0.33333334f, "0.33333334" },
    { -2.5f, "-2.5" },
    { 1e-4f, "0.0001" },
    { 1e-5f, "1e-05" },
    { 65504.5f, "65504.5" },
  };
  char out[32];
  for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
    tsr__text_f32(out, floats[i].value);
    CHECK_STR(out, floats[i].text);
  }
  tsr__text_f32(out, (float)NAN);
  CHECK_STR(out, "nan");
}

/* Every exponent, borders and their neighbours, by Python and NumPy (golden/make_shortest.py). */
TEST(numbers_print_as_python_prints_them)
{
  char *lines = test_read(test_file("golden/shortest.txt"), NULL), *rest = NULL;
  int count = 0;
  for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    char out[32], *expected = strrchr(line, ' ') + 1;
    uint64_t bits = strtoull(line + 4, NULL, 16);
    uint32_t half = (uint32_t)bits;
    double value;
    float single;
    memcpy(&value, &bits, sizeof value);
    memcpy(&single, &half, sizeof single);
    int length = line[1] == '6' ? tsr__text_f64(out, value) : tsr__text_f32(out, single);
    CHECK_STR(out, expected);
    CHECK_I64(length, (int64_t)strlen(expected));
    count++;
  }
  CHECK(count > 3000);
  free(lines);
}

TEST(integers_print)
{
  static const int64_t values[] = { 0, 7, -7, 10, 99, 100, -100, 12345, INT64_MAX, INT64_MIN };
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    char out[21], expected[32];
    out[tsr__text_i64(out, values[i])] = '\0';
    snprintf(expected, sizeof expected, "%lld", (long long)values[i]);
    CHECK_STR(out, expected);
  }
}

static bool reads_as(const char *text, double value, bool single)
{
  return single ? (double)strtof(text, NULL) == value : strtod(text, NULL) == value;
}

/* Does any decimal of `count` digits read back as the value? Tries those around it. */
static bool fewer_digits_do(double value, int count, bool single)
{
  char text[64];
  snprintf(text, sizeof text, "%.*e", count - 1, value);
  int exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10) - (count - 1);
  long long digits = 0;
  for (const char *p = text; *p != 'e'; p++)
    if (*p >= '0' && *p <= '9') digits = digits * 10 + (*p - '0');
  for (long long near = digits - 2; near <= digits + 2; near++) {
    snprintf(text, sizeof text, "%llde%d", near, exponent);
    if (near > 0 && reads_as(text, value, single)) return true;
  }
  return false;
}

static int significant(const char *text)
{
  int count = 0, zeros = 0;
  for (const char *p = text; *p && *p != 'e'; p++) {
    if (*p < '0' || *p > '9') continue;
    if (*p == '0') {
      zeros += count > 0;
    } else {
      count += 1 + zeros;
      zeros = 0;
    }
  }
  return count;
}

static void check_shortest(double value, bool single)
{
  char out[32];
  int length = single ? tsr__text_f32(out, (float)value) : tsr__text_f64(out, value);
  CHECK_I64(length, (int64_t)strlen(out));
  CHECK(length < 32);
  if (!reads_as(out, value, single)) FAIL("%s does not read back as %a", out, value);
  int count = significant(out);
  bool whole = strchr(out, '.') == NULL && strchr(out, 'e') == NULL;
  if (!whole && count > 1 && fewer_digits_do(fabs(value), count - 1, single))
    FAIL("%s is not the shortest text of %a", out, value);
}

TEST(numbers_read_back_and_are_shortest)
{
  test_rng rng = test_seeded(11);
  for (int i = 0; i < 20000; i++) {
    double any = test_any_f64(&rng);
    if (isfinite(any) && any != 0) check_shortest(any, false);
    check_shortest((double)test_range(&rng, -99999999, 99999999) / 1000, false);
    uint32_t bits = (uint32_t)test_random(&rng);
    float single;
    memcpy(&single, &bits, sizeof single);
    if (isfinite(single) && single != 0) check_shortest((double)single, true);
  }
  for (int e = -1074; e < 1024; e++) check_shortest(ldexp(1, e), false);
  for (int e = -149; e < 128; e++) check_shortest(ldexp(1, e), true);
}

TEST_TIMEOUT(numbers_do_not_follow_the_locale, 300)
{
  char out[400], expected[400];
  locale_set("de_DE");
  check_known();
  static const double values[] = { 0, -0.0, 1.5, -123.456, 1e300, 5e-324, 9.9999e22, 0.5 };
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    for (int after = 0; after < 12; after++)
      for (int e = 0; e < 2; e++) {
        int length = tsr__text_decimals(out, sizeof out, values[i], e ? 'e' : 'f', after);
        snprintf(expected, sizeof expected, e ? "%.*e" : "%.*f", after, values[i]);
        char *comma = strchr(expected, ',');
        CHECK((comma != NULL) == (after > 0));
        if (comma) *comma = '.';
        CHECK_STR(out, expected);
        CHECK_I64(length, (int64_t)strlen(expected));
      }
}

/* ---- widths ---- */

static int width(const char *text)
{
  return tsr__text_width(text, strlen(text));
}

TEST(widths_count_terminal_columns)
{
  CHECK_I64(width(""), 0);
  CHECK_I64(width("plain"), 5);
  CHECK_I64(width("caf\xC3\xA9"), 4);
  CHECK_I64(width("cafe\xCC\x81"), 4);             /* e + combining acute */
  CHECK_I64(width("\xE6\x9D\xB1\xE4\xBA\xAC"), 4); /* two ideographs */
  CHECK_I64(width("\xED\x95\x9C"), 2);             /* a Hangul syllable */
  CHECK_I64(width("\xF0\x9F\x98\x80"), 2);         /* an emoji */
  CHECK_I64(width("\xE2\x94\x80\xE2\x94\x82"), 2); /* box drawing */
  CHECK_I64(width("a\xE2\x80\x8B"
                  "b"),
            2);                        /* zero-width space */
  CHECK_I64(width("\xEF\xBC\xA1"), 2); /* full-width A */
  CHECK_I64(width("\xEF\xBD\xB1"), 1); /* half-width katakana */
}

TEST(bytes_that_are_no_utf8_count_one_each)
{
  CHECK_I64(width("\xFF\xFE"), 2);
  CHECK_I64(width("a\xC3"), 2);            /* cut short */
  CHECK_I64(width("\xC0\x80"), 2);         /* overlong */
  CHECK_I64(width("\xED\xA0\x80"), 3);     /* a surrogate */
  CHECK_I64(width("\xF4\x90\x80\x80"), 4); /* past the last character */
  CHECK_I64(width("\xE6\x9D"
                  "ab"),
            4);
  CHECK_I64(tsr__text_width("a\0b", 3), 3);
  for (size_t length = 1; length < 5; length++) { /* reads nothing past the end */
    char *cut = test_guarded(length);
    memcpy(cut, "\xF0\x9F\x98\x80", length);
    CHECK_I64(tsr__text_width(cut, length), length == 4 ? 2 : (int64_t)length);
  }
}

/* ---- near names ---- */

TEST(near_names_are_found)
{
  static const char *const names[] = { "revenue", "sessions", "origin", "x", "Temp" };
  CHECK_I64(tsr__text_nearest("sesions", names, 5), 1);
  CHECK_I64(tsr__text_nearest("REVENUE", names, 5), 0);
  CHECK_I64(tsr__text_nearest("temp", names, 5), 4);
  CHECK_I64(tsr__text_nearest("orgiin", names, 5), 2); /* a swap costs one */
  CHECK_I64(tsr__text_nearest("teh", &(const char *){ "the" }, 1), 0);
  CHECK_I64(tsr__text_nearest("tea", &(const char *){ "eta" }, 1), 0);
  CHECK_I64(tsr__text_nearest("tea", &(const char *){ "ate" }, 1), -1);
  CHECK_I64(tsr__text_nearest("price", names, 5), -1);
  CHECK_I64(tsr__text_nearest("y", names, 5), -1);
  CHECK_I64(tsr__text_nearest("", names, 5), -1);
  CHECK_I64(tsr__text_nearest("anything", names, 0), -1);
  char longest[100];
  memset(longest, 'a', 99);
  longest[99] = '\0';
  const char *one = longest;
  CHECK_I64(tsr__text_nearest(longest, &one, 1), -1);
  CHECK_I64(tsr__text_nearest("aaa", &one, 1), -1);
}

TEST(the_nearest_wins_and_then_the_first)
{
  static const char *const names[] = { "abcdx", "abcde", "abcdy" };
  CHECK_I64(tsr__text_nearest("abcde", names, 3), 1);
  CHECK_I64(tsr__text_nearest("abcdz", names, 3), 0);
}
