/* Plugins: parts of Tessera that need libraries which not everybody has. Each is a shared object,
 * tessera_NAME.so, that is loaded when it is first needed. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

/* The plugins that the sources have, as cmake/plugins.cmake names them; the build makes those whose
 * packages are installed. */
static const struct {
  const char *name, *use, *packages;
} known[] = {
#include <plugins.inc>
};
enum { KNOWN = sizeof known / sizeof *known };

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
  const char *file = here.dli_fname;
  char program[1024];
  /* A program that the shell found is named without its folder, which is not the current one. */
  if (!file || !strchr(file, '/')) {
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    file = program;
  }
  const char *end = strrchr(file, '/');
  snprintf(out, size, "%.*s", end ? (int)(end - file) : 0, file);
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

/* Appends how to get a plugin. */
static void say_way_out(const tsr__plugin_ask *ask, char *out, size_t size)
{
  const char *packages = NULL;
  for (int i = 0; i < KNOWN; i++)
    if (!strcmp(ask->name, known[i].name)) packages = known[i].packages;
  snprintf(out, size, "%s%s%s%s",
           packages ? "; the plugin is built where these packages are installed: " : "",
           packages ? packages : "", ask->hint ? ". " : "", ask->hint ? ask->hint : "");
}

/* Asked for each time something needs it: dlopen gives the same object again. */
tsr_status tsr__plugin_load(const tsr__plugin_ask *ask, void **out, tsr__error *error)
{
  char folders[2048], file[2200], way[300];
  say_way_out(ask, way, sizeof way);
  find_folders(folders, sizeof folders);
  if (!find_file(folders, ask->name, file, sizeof file))
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s is not installed: no tessera_%s.so in %.300s (the library's folder, "
                          "or TSR_PLUGIN_PATH)%s",
                          ask->what, ask->name, folders, way);
  /* Never closed: what it stands on may have put its hooks into this process. */
  void *object = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  void *symbol = object ? dlsym(object, ask->symbol) : NULL;
  if (!symbol) {
    const char *why = dlerror();
    return tsr__error_set(error, TSR_EUNSUPPORTED, "%s cannot be loaded: %.400s%s", ask->what,
                          why ? why : "the system gives no reason", way);
  }
  *out = symbol;
  return TSR_OK;
}

bool tsr_plugin_describe(int index, tsr_plugin *out)
{
  char folders[2048], file[2200];
  if (!out || index < 0 || index >= KNOWN) return false;
  find_folders(folders, sizeof folders);
  bool found = find_file(folders, known[index].name, file, sizeof file);
  *out = (tsr_plugin){ known[index].name, known[index].use, known[index].packages, found };
  return true;
}
