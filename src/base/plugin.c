/* What stands on a library that not everybody has: shared objects of their own, tessera_NAME.so,
 * which are loaded when they are needed. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

/* Folders where plugins lie: those of TSR_PLUGIN_PATH, or the one of this library. Not of a program
 * that runs with other rights than its caller: secure_getenv says nothing there. */
static void find_folders(char *out, size_t size)
{
  const char *said = secure_getenv("TSR_PLUGIN_PATH");
  Dl_info here = { .dli_fname = NULL };
  if (said && *said) {
    snprintf(out, size, "%s", said);
    return;
  }
  /* A function's address, which the call wants as that of data. */
  tsr_status (*own)(const tsr__plugin_ask *, void **, tsr__error *) = tsr__plugin_load;
  void *at;
  memcpy(&at, &own, sizeof at);
  dladdr(at, &here);
  const char *end = here.dli_fname ? strrchr(here.dli_fname, '/') : NULL;
  snprintf(out, size, "%.*s", end ? (int)(end - here.dli_fname) : 1, end ? here.dli_fname : ".");
}

/* The first file of the name in folders that colons part; false: none is there. */
static bool find_file(const char *folders, const char *name, char *out, size_t size)
{
  for (const char *at = folders; *at;) {
    size_t length = strcspn(at, ":");
    snprintf(out, size, "%.*s/tessera_%s.so", (int)length, at, name);
    if (length && !access(out, R_OK)) return true;
    at += length + (at[length] == ':');
  }
  return false;
}

/* Asked for each time something needs it: dlopen gives the same object again. */
tsr_status tsr__plugin_load(const tsr__plugin_ask *ask, void **out, tsr__error *error)
{
  char folders[2048], file[2200];
  find_folders(folders, sizeof folders);
  if (!find_file(folders, ask->name, file, sizeof file))
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s is not there: no tessera_%s.so in %.300s (where the library lies, or "
                          "TSR_PLUGIN_PATH); build Tessera where its package is installed%s",
                          ask->what, ask->name, folders, ask->packages);
  /* Never closed: what it stands on may have put its hooks into this process. */
  void *object = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  void *symbol = object ? dlsym(object, ask->symbol) : NULL;
  if (!symbol) {
    const char *why = dlerror();
    return tsr__error_set(error, TSR_EUNSUPPORTED, "%s cannot be loaded: %.400s%s", ask->what,
                          why ? why : "no reason is given", ask->packages);
  }
  *out = symbol;
  return TSR_OK;
}
