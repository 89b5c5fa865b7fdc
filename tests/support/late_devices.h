/* Devices of the kind "late", whose entries return before their work is over: with TEST_LATE=1 in
 * the environment the devices of each runtime are of this kind.
 *
 * A thread of the runtime does the work, one piece after the other: of a queue drawn by chance,
 * after a delay drawn by chance, and not before the host awaits it or as much is queued as chance
 * says. Kernels, routines, all-reduces, copies, fills and what the host puts are late; the host
 * does the rest in mirrors (src/kernel/fallback). Memory that is given back is overwritten at once,
 * so that work which still reads it has wrong values.
 *
 * Executables that may ask for it are those of guarded_devices.h. */
#ifndef TESTS_SUPPORT_LATE_DEVICES_H
#define TESTS_SUPPORT_LATE_DEVICES_H

#include "kernel/fallback/fallback.h"

/* Whether the environment asks for it: laws then try fewer cases. */
bool late_asked(void);
/* Whether TEST_MIXED asks that half of the devices are of this kind, beside CPU devices. */
bool late_asked_beside_cpu(void);
tsr_status late_install(tsr_runtime *rt);
/* Makes devices first .. first + count - 1 such ones, beside CPU devices: tsr__kind_open's. */
tsr_status late_open(tsr_runtime *rt, int first, int count);
/* Whether work waits until the host awaits some of it, and is then all done: so tests see every
 * order without a clock. */
void late_hold(tsr_runtime *rt, bool held);
/* Whether nothing is done, though the host awaits it. */
void late_stall(tsr_runtime *rt, bool stalled);
/* A device does so many pieces of work more, and fails: with TSR_EIO it is lost, with TSR_ENOMEM it
 * is short of memory for the next kernel or routine alone. */
void late_fail(tsr_runtime *rt, int device, int64_t after, tsr_status status);
/* Pieces of work that are queued and not over. */
int64_t late_pieces(tsr_runtime *rt);
/* How often the host has waited for work that was not over: once for all that was queued since it
 * waited last. */
int64_t late_waits(tsr_runtime *rt);

#endif
