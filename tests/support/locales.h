/* Locales that the machine need not have: built of its definitions for the test that asks. */
#ifndef TESTS_SUPPORT_LOCALES_H
#define TESTS_SUPPORT_LOCALES_H

/* Makes a locale of UTF-8, such as "de_DE", the process's for all categories; ends the test as
 * skipped where localedef or the definition is missing. Takes a second or two. */
void locale_set(const char *name);

#endif
