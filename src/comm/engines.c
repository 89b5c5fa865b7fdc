/* Which engine moves bytes between hosts, and loading it.
 *
 *   name          file                     stands on
 *   ucx           tessera_ucx.so           UCX
 *   mpi_openmpi   tessera_mpi_openmpi.so   Open MPI         "mpi" is one of these two: that of the
 *   mpi_mpich     tessera_mpi_mpich.so     MPICH, or kin    program, else that of the launcher
 *
 * Whether a program has initialised MPI is asked of the MPI that is in the process, if there is
 * one: none is loaded to find out. */
#include "comm/far.h"

#include "comm/comm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the MPI that is there ------------------------------------------------------------------- */

/* A function of an MPI that is in this process, for all to see or in a library of its own.
 * RTLD_NOLOAD finds what is there and loads nothing. A library that was loaded in a scope of its
 * own RTLD_DEFAULT does not see: so files are asked for by name, of Open MPI, of MPICH, and of
 * those that keep MPICH's ABI. */
static void *find_mpi(const char *name)
{
  static const char *const files[] = { "libmpi.so.40", "libmpich.so.12", "libmpi.so.12" };
  void *found = dlsym(RTLD_DEFAULT, name);
  for (size_t i = 0; i < sizeof files / sizeof *files && !found; i++) {
    void *object = dlopen(files[i], RTLD_NOW | RTLD_NOLOAD | RTLD_LOCAL);
    if (!object) continue;
    found = dlsym(object, name);
    dlclose(object); /* whoever loaded it keeps it */
  }
  return found;
}

/* The three that are called may be so at any time, before MPI_Init and after MPI_Finalize.
 * Functions are copied bit by bit, as C knows no cast from an object's address. */
const char *tsr__engine_begun(void)
{
  char text[8192] = ""; /* MPI_MAX_LIBRARY_VERSION_STRING is at most that */
  int (*ask)(int *), (*tell)(char *, int *), begun = 0, over = 0, length = 0;
  void *initialized = find_mpi("MPI_Initialized"), *finalized = find_mpi("MPI_Finalized");
  void *version = find_mpi("MPI_Get_library_version");
  if (!initialized || !finalized || !version) return NULL;
  memcpy(&ask, &initialized, sizeof ask);
  ask(&begun);
  memcpy(&ask, &finalized, sizeof ask);
  ask(&over);
  if (!begun || over) return NULL;
  memcpy(&tell, &version, sizeof tell);
  tell(text, &length);
  return strncmp(text, "Open MPI", 8) ? "mpi_mpich" : "mpi_openmpi";
}

void tsr__engine_choose(const char *said, const char *launcher, char out[TSR__ENGINE_NAME])
{
  const char *name = said && *said ? said : NULL;
  bool mpi = name && !strcmp(name, "mpi");
  if (!name || mpi) name = tsr__engine_begun();
  if (!name && !strcmp(launcher, "openmpi")) name = "mpi_openmpi";
  if (!name && !strcmp(launcher, "mpich")) name = "mpi_mpich";
  /* srun and others that Tessera knows by their own variables start processes of MPIs, too. */
  if (!name && mpi) name = getenv("PMI_RANK") || getenv("PMI_FD") ? "mpi_mpich" : "mpi_openmpi";
  snprintf(out, TSR__ENGINE_NAME, "%s", name ? name : "ucx");
}

/* ---- loading --------------------------------------------------------------------------------- */

/* It becomes part of a file's name, so no slash and no dot may be in it. */
static bool is_plain(const char *name)
{
  size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
  return length && length < TSR__ENGINE_NAME && !name[length];
}

tsr_status tsr__engine_load(const char *name, const tsr__plugin_calls **out, tsr__error *error)
{
  char what[120];
  void *symbol;
  const tsr__plugin_calls *(*engine)(void);
  if (!is_plain(name))
    return tsr__error_set(error, TSR_EARG,
                          ".engine or TSR_ENGINE is \"%.40s\", expected \"ucx\" or \"mpi\"", name);
  snprintf(what, sizeof what, "the engine '%s' for processes on several hosts", name);
  const char *hint = strcmp(name, "ucx") ? "Set TSR_ENGINE=ucx to use UCX instead" : NULL;
  const tsr__plugin_ask ask = { name, "tessera_engine", what, hint };
  if (tsr__plugin_load(&ask, &symbol, error)) return error->status;
  memcpy(&engine, &symbol, sizeof engine);
  *out = engine();
  if ((*out)->version == TSR__PLUGIN_VERSION) return TSR_OK;
  return tsr__error_set(error, TSR_EUNSUPPORTED,
                        "%s was built for another version of Tessera; build the plugin and the "
                        "library from one version",
                        what);
}

/* ---- finding each other ---------------------------------------------------------------------- */

/* "ADDRESS SECRET" of process 0.
 * A secret is made for each job, as the address alone is told by MPI and others of the host
 * could come. "-" is none: then processes of its own host alone are taken. */
static void say_place(tsr__plugin_place *place)
{
  unsigned char bytes[16];
  char address[300], secret[33] = "-";
  tsr__address_own(place->one_host, address, sizeof address);
  if (!getentropy(bytes, sizeof bytes))
    for (int i = 0; i < 16; i++) snprintf(secret + 2 * i, 3, "%02x", bytes[i]);
  snprintf(place->text, sizeof place->text, "%s %s", address, secret);
}

tsr_status tsr__engine_meet(const char *launcher, tsr__found *out, tsr__error *error)
{
  char name[TSR__ENGINE_NAME], why[TSR__PLUGIN_WHY] = "";
  const tsr__plugin_calls *calls;
  tsr__plugin_place place = { .say = say_place };
  tsr__engine_choose("mpi", launcher, name);
  tsr_status status = tsr__engine_load(name, &calls, error);
  if (status) return status;
  if (!calls->find || !calls->find(&place, why))
    return tsr__error_set(error, TSR_EIO, "the engine '%s' cannot be opened: %s", name, why);
  out->index = place.index;
  out->count = place.count;
  const char *space = strchr(place.text, ' ');
  if (!space || space == place.text || (size_t)(space - place.text) >= sizeof out->coordinator)
    return tsr__error_set(
        error, TSR_EIO,
        "process 0 finds no address of its host to listen at; set .coordinator or TSR_COORDINATOR");
  snprintf(out->coordinator, sizeof out->coordinator, "%.*s", (int)(space - place.text),
           place.text);
  snprintf(out->secret, sizeof out->secret, "%s", strcmp(space + 1, "-") ? space + 1 : "");
  return TSR_OK;
}
