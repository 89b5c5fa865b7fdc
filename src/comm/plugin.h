/* Level 1: engines, which move bytes between hosts: what each is and what it is given.
 *
 * An engine is a shared object of its own, tessera_NAME.so, that is loaded when processes of
 * several hosts meet; nothing here is linked with what it stands on. Its one symbol is
 * tessera_engine. It knows nothing of arrays, runs or failures:
 *
 *    note    a few bytes to a process, which come there in the order they were sent
 *    get     a piece of a process's memory, by its offset there: bytes in a row, or every so many
 *
 * Invariant: one thread at a time is in an engine, so it needs no locks. It calls back within
 * `progress`, of a get that fails at once within `get`. It uses nothing of the library, whose names
 * it cannot see. */
#ifndef TSR_COMM_PLUGIN_H
#define TSR_COMM_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  TSR__PLUGIN_VERSION = 2,
  TSR__PLUGIN_NOTE = 8192,      /* bytes of a note at most */
  TSR__PLUGIN_PACKED = 1 << 20, /* of what is got as several runs */
  TSR__PLUGIN_ADDRESS = 2048,   /* of an address */
  TSR__PLUGIN_WHY = 256,        /* room for what went wrong, in words */
  TSR__PLUGIN_TEXT = 400        /* and for what process 0 says to all */
};

/* One process's end of an engine. */
typedef struct tsr__plugin tsr__plugin;

typedef struct tsr__plugin_note {
  const void *data;
  size_t size;
} tsr__plugin_note;

/* What an engine is given. */
typedef struct tsr__plugin_host {
  int index, count;   /* this process among all */
  const void *memory; /* of this process, what others may get: `size` bytes, mapped where needed */
  size_t size;
  void *user;
  void (*note)(void *user, int from, tsr__plugin_note note);
  /* A get has come to its end: all is there, or nothing is known of it. */
  void (*got)(void *user, bool good);
} tsr__plugin_host;

/* A run of bytes, or several of one size that lie as far apart there as here. */
typedef struct tsr__plugin_get {
  int process;
  uint64_t offset;
  void *into; /* untouched by others until `got` */
  size_t size;
  size_t count, stride; /* of several, at most TSR__PLUGIN_PACKED bytes in all; 1: one */
} tsr__plugin_get;

typedef struct tsr__plugin_address {
  size_t size;
  unsigned char bytes[TSR__PLUGIN_ADDRESS];
} tsr__plugin_address;

/* Where a process has its place among others that know of each other before they have met, and what
 * the first of them says to all: */
typedef struct tsr__plugin_place {
  int index, count;
  bool one_host;
  /* Made at process 0: fills in `text`. */
  void (*say)(struct tsr__plugin_place *place);
  char text[TSR__PLUGIN_TEXT];
} tsr__plugin_place;

typedef struct tsr__plugin_calls {
  uint32_t version; /* TSR__PLUGIN_VERSION */
  const char *name; /* as options name it */
  bool shrinks;     /* processes that are left may open it again as fewer */
  /* What it stands on, for people: "Open MPI v4.1.4". NULL: its name says it. */
  void (*describe)(char out[TSR__PLUGIN_WHY]);
  /* Finds this process's place; all processes call it together. NULL: it knows none. */
  bool (*find)(tsr__plugin_place *place, char why[TSR__PLUGIN_WHY]);
  /* Opens this process's end and tells where the others find it; false: `why` says why not. All
   * processes do so at the same time, once each has loaded the engine: it may wait for them. */
  bool (*open)(const tsr__plugin_host *host, tsr__plugin **out, tsr__plugin_address *address,
               char why[TSR__PLUGIN_WHY]);
  /* Makes a process reachable. The first thing that goes to it may connect; nothing here waits. */
  bool (*connect)(tsr__plugin *plugin, int process, const tsr__plugin_address *address,
                  char why[TSR__PLUGIN_WHY]);
  /* Sends a note, which is copied; false without memory for it. One to a process that cannot be
   * reached any more is dropped. */
  bool (*send)(tsr__plugin *plugin, int process, tsr__plugin_note note);
  /* Begins to get memory; false: it did not begin, and there will be no `got`. */
  bool (*get)(tsr__plugin *plugin, const tsr__plugin_get *get);
  /* Does what can be done without waiting; true if that was something. */
  bool (*progress)(tsr__plugin *plugin);
  /* A file that can be polled for reading when there may be something to do, and whether it will
   * tell of everything from now on; false: there is something at once. NULL: it must be asked. */
  int (*file)(const tsr__plugin *plugin);
  bool (*arm)(tsr__plugin *plugin);
  /* Begins to send all that was given for a process, once; then whether that is out, or can never
   * be. Nothing is sent afterwards. */
  bool (*flushed)(tsr__plugin *plugin, int process);
  /* Gives up what is under way; `broken`: some of those who are to take part in it are gone. */
  void (*close)(tsr__plugin *plugin, bool broken);
} tsr__plugin_calls;

/* What a plugin has. */
const tsr__plugin_calls *tessera_engine(void);

#endif
