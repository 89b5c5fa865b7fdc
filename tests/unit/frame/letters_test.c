/* Letters in lower and upper case: every code point, by Python (golden/make_letters.py). */
#include "frame/lower/functions.h"

#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { POINTS = 0x110000 };

TEST(every_code_point_changes_as_python_says)
{
  char *lines = test_read(test_file("golden/letters.txt"), NULL), *rest = NULL;
  uint32_t *lower = malloc(POINTS * sizeof *lower), *upper = malloc(POINTS * sizeof *upper);
  int64_t letters = 0;
  CHECK(lines && lower && upper);
  for (uint32_t c = 0; c < POINTS; c++) lower[c] = upper[c] = c;
  for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    char *at;
    uint32_t point = (uint32_t)strtoul(line, &at, 16);
    CHECK(point < POINTS);
    lower[point] = (uint32_t)strtoul(at, &at, 16);
    upper[point] = (uint32_t)strtoul(at, &at, 16);
    letters++;
  }
  CHECK(letters > 2800);
  for (uint32_t c = 0; c < POINTS; c++)
    if (tsr__letter_lower(c) != lower[c] || tsr__letter_upper(c) != upper[c])
      FAIL("U+%04X becomes U+%04X and U+%04X, expected U+%04X and U+%04X", c, tsr__letter_lower(c),
           tsr__letter_upper(c), lower[c], upper[c]);
  free(lower);
  free(upper);
  free(lines);
}

/* Whole texts, whose letters take another number of bytes in the other case. */
TEST(texts_change_letter_by_letter)
{
  static const char *const cases[][3] = {
    { "\xc8\xba\xe1\xbe\x80x\xc7\x85", "\xe2\xb1\xa5\xe1\xbe\x80x\xc7\x86",
      "\xc8\xba\xe1\xbe\x88X\xc7\x84" },
    { "\xc3\x9f\xc4\xb1\xc4\xb0", "\xc3\x9f\xc4\xb1i", "\xc3\x9fI\xc4\xb0" },
    { "\xf0\x90\x90\x80\xe1\x83\x90", "\xf0\x90\x90\xa8\xe1\x83\x90",
      "\xf0\x90\x90\x80\xe1\xb2\x90" },
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr__text_view text = { cases[i][0], (int64_t)strlen(cases[i][0]) };
    for (int upper = 0; upper < 2; upper++) {
      tsr__expr expr = { .op = upper ? TSR__F_UPPER : TSR__F_LOWER };
      tsr__text out;
      tsr__text_init(&out, NULL);
      tsr__text_fn(&expr, text, (tsr__text_view){ 0 }, &out);
      CHECK_STR(tsr__text_get(&out), cases[i][1 + upper]);
      tsr__text_free(&out);
    }
  }
}
