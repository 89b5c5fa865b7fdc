/* Statuses as text and errors carried without a scope. */
#include "harness.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"

TEST(every_status_has_a_name_and_a_text)
{
  CHECK_STR(tsr_status_name(TSR_OK), "TSR_OK");
  CHECK_STR(tsr_status_name(TSR_ESHAPE), "TSR_ESHAPE");
  CHECK_STR(tsr_status_text(TSR_ENOMEM), "out of memory");
  CHECK_I64(TSR_EUNSUPPORTED, 12);
  for (int i = 0; i <= TSR_EUNSUPPORTED; i++) {
    CHECK(strncmp(tsr_status_name((tsr_status)i), "TSR_", 4) == 0);
    CHECK(*tsr_status_text((tsr_status)i));
  }
  CHECK_STR(tsr_status_name((tsr_status)99), "TSR_EUNKNOWN");
  CHECK(*tsr_status_text((tsr_status)-1));
}

TEST(the_version_is_the_headers)
{
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", TSR_VERSION_MAJOR, TSR_VERSION_MINOR, TSR_VERSION_PATCH);
  CHECK_STR(tsr_version(), text);
}

TEST(the_first_error_is_kept)
{
  tsr__error error = { 0 };
  CHECK_I64(tsr__error_set(&error, TSR_OK, "nothing"), TSR_OK);
  CHECK_I64(error.status, TSR_OK);
  CHECK_I64(tsr__error_set(&error, TSR_EAXIS, "no axis '%s'", "z"), TSR_EAXIS);
  CHECK_I64(tsr__error_set(&error, TSR_EIO, "later"), TSR_EIO);
  CHECK_I64(error.status, TSR_EAXIS);
  CHECK_STR(error.text, "no axis 'z'");
  CHECK_I64(tsr__error_set(NULL, TSR_EIO, "nowhere"), TSR_EIO);
}

TEST(what_is_shown_steers_no_terminal)
{
  tsr__error error = { 0 };
  tsr__error_set(&error, TSR_ECOLUMN, "no column '%s'\n\tnear", "a\x1b[2J\x7f\r\xc3\xa9");
  CHECK_STR(error.text, "no column 'a?[2J??\xc3\xa9'\n\tnear");
  error = (tsr__error){ 0 };
  tsr__error_set(&error, TSR_ECOLUMN, "%s",
                 "\xc2\x9b"
                 "2J\xe2\x80\xae\xc2\xa0\xc2\x85\xf0\x9f\x98\x80\x9b\xff");
  CHECK_STR(error.text, "?2J?\xc2\xa0?\xf0\x9f\x98\x80??");
}

TEST(a_long_error_is_cut_between_characters)
{
  char text[3001] = "";
  for (int i = 0; i < 1000; i++) memcpy(text + 3 * i, "\xE2\x94\x80", 4);
  for (int front = 0; front < 3; front++) {
    tsr__error error = { 0 };
    tsr__error_set(&error, TSR_EARG, "%.*s%s", front, "ab", text);
    size_t length = strlen(error.text);
    CHECK(length >= 994 && length < sizeof error.text);
    CHECK_STR(error.text + length - 3, "...");
    CHECK_U64((length - 3 - (size_t)(front < 2 ? front : 2)) % 3, 0);
  }
}
