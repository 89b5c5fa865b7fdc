/* Level 1: processes of other hosts, by an engine that is loaded when they are met (plugin.h).
 *
 * A thread of its own answers the others while this process computes; whoever waits helps it. What
 * comes is handed to `note` by either of them, one at a time. */
#ifndef TSR_COMM_FAR_H
#define TSR_COMM_FAR_H

#include "base/base.h"
#include "comm/plugin.h"

typedef struct tsr__far tsr__far;

/* How an engine is opened. */
typedef struct tsr__far_ask {
  tsr__heap *heap;
  const char *engine; /* its name */
  tsr__plugin_host host;
} tsr__far_ask;

/* Loads the engine and opens this process's end of it; `address` is what the others need.
 * TSR_EUNSUPPORTED where it cannot be loaded, with what is missing; TSR_EIO, TSR_ENOMEM. */
tsr_status tsr__far_open(const tsr__far_ask *ask, tsr__far **out, tsr__plugin_address *address,
                         tsr__error *error);
/* Makes a process reachable, before anything goes to it or comes of it. */
tsr_status tsr__far_connect(tsr__far *far, int process, const tsr__plugin_address *address,
                            tsr__error *error);
/* Begins to answer the others. */
tsr_status tsr__far_start(tsr__far *far, tsr__error *error);
/* NULL is allowed. What is under way is given up: tsr__far_flushed tells whether what was sent to a
 * process is out; nothing more is sent to it. */
void tsr__far_close(tsr__far *far);
bool tsr__far_flushed(tsr__far *far, int process);

/* Sends a note; one that cannot be sent is lost with the process it is for, whose end is found out
 * elsewhere. */
void tsr__far_send(tsr__far *far, int process, tsr__plugin_note note);
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
