/* Level 1: processes of other hosts, by an engine that is loaded when they are met (plugin.h).
 *
 * A thread of its own answers the others while this process computes; whoever waits helps it. What
 * comes is handed to `note` by either of them, one at a time. */
#ifndef TSR_COMM_FAR_H
#define TSR_COMM_FAR_H

#include "base/base.h"
#include "comm/plugin.h"

typedef struct tsr__far tsr__far;

/* ---- engines (engines.c) ----------------------------------------------------------------- */

enum { TSR__ENGINE_NAME = 32 };
/* The name of the engine that is meant: what was said, of which "mpi" is the one of the MPI that
 * there is; where nothing was, that of an MPI that the program has initialised, that of the
 * launcher, by its name (""; see role.c), or "ucx". */
void tsr__engine_choose(const char *said, const char *launcher, char out[TSR__ENGINE_NAME]);
/* The engine of an MPI that is initialised in this process; NULL: none is. */
const char *tsr__engine_begun(void);
/* TSR_EUNSUPPORTED where it cannot be loaded, with what is missing; TSR_EARG of what is no name. */
tsr_status tsr__engine_load(const char *name, const tsr__plugin_calls **out, tsr__error *error);
/* Finds this process's place by the engine of an MPI; process 0 says where it will listen, and a
 * secret. All processes of that MPI do it. TSR_EIO, TSR_EUNSUPPORTED. */
struct tsr__found;
tsr_status tsr__engine_meet(const char *launcher, struct tsr__found *out, tsr__error *error);

/* ---- an engine that is open -------------------------------------------------------------- */

/* How an engine is opened. */
typedef struct tsr__far_ask {
  tsr__heap *heap;
  const tsr__plugin_calls *calls;
  const char *engine; /* its name */
  tsr__plugin_host host;
} tsr__far_ask;

/* Opens this process's end of an engine; `address` is what the others need. TSR_EIO, TSR_ENOMEM. */
tsr_status tsr__far_open(const tsr__far_ask *ask, tsr__far **out, tsr__plugin_address *address,
                         tsr__error *error);
/* Makes a process reachable, before anything goes to it or comes of it. */
tsr_status tsr__far_connect(tsr__far *far, int process, const tsr__plugin_address *address,
                            tsr__error *error);
/* Begins to answer the others. */
tsr_status tsr__far_start(tsr__far *far, tsr__error *error);
/* NULL is allowed. What is under way is given up: tsr__far_flushed tells whether what was sent to a
 * process is out; nothing more is sent to it. `broken`: a process has failed. */
void tsr__far_close(tsr__far *far, bool broken);
bool tsr__far_flushed(tsr__far *far, int process);

/* Sends a note; false: for a second there was no memory for it. One to a process that cannot be
 * reached is lost with that, whose end is found out elsewhere. */
bool tsr__far_send(tsr__far *far, int process, tsr__plugin_note note);
/* Begins to get memory; tsr__far_left counts those that have not come. */
void tsr__far_get(tsr__far *far, const tsr__plugin_get *get);
/* How many gets are under way, and whether one was in vain since the last that were begun. */
int tsr__far_left(tsr__far *far, bool *in_vain);
/* Who waits helps: from begin to end it does what can be done without sleeping, and the thread
 * stays out. */
void tsr__far_begin(tsr__far *far);
void tsr__far_help(tsr__far *far);
void tsr__far_end(tsr__far *far);
/* Sleeps until a get has come, or for a while. */
void tsr__far_nap(tsr__far *far, int64_t ms);

#endif
