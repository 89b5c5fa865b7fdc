/* localedef into the test's folder, LOCPATH, setlocale. */
#include "locales.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

void locale_set(const char *name)
{
  char full[64], command[4096];
  snprintf(full, sizeof full, "%s.UTF-8", name);
  if (setlocale(LC_ALL, full)) return;
  /* 1: warnings of the definition, which is made all the same. */
  snprintf(command, sizeof command,
           "localedef -c -i %s -f UTF-8 '%s' >/dev/null 2>&1; [ $? -le 1 ]", name, test_tmp(full));
  if (system(command)) SKIP("localedef makes no %s here", full);
  CHECK_I64(setenv("LOCPATH", test_tmp("."), 1), 0);
  if (!setlocale(LC_ALL, full)) SKIP("there is no locale %s here", full);
}
