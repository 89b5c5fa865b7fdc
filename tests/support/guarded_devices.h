/* Devices whose memory nobody may touch but their own table: with TEST_GUARD=1 in the environment,
 * what the pools of devices give is unreadable (mprotect) outside of the entries of the device
 * table and of what the host has mapped, which is read-only. A stray look or write dies by SIGSEGV
 * and says so. Memory that was adopted is not the pools' and stays as it is.
 *
 * Staging buffers are memory of their own, readable and writable until they are given or dropped.
 * So a place that reads a buffer before its staging buffer is given sees wrong bits, a place that
 * writes afterwards dies by SIGSEGV, and a release of the buffer before that aborts.
 *
 * Executables of tests/law, and others whose source says "Guards the devices", define
 * tsr__devices_install, tsr__pool_take and tsr__pool_give for the library, which calls those. */
#ifndef TESTS_SUPPORT_GUARDED_DEVICES_H
#define TESTS_SUPPORT_GUARDED_DEVICES_H

#include <stdbool.h>

/* Whether the environment asks for it: laws then try fewer cases, for each entry costs calls of the
 * system. */
bool guard_asked(void);
/* Makes the nth staging buffer from now on fail for lack of memory; 0: none. */
void guard_fail_staging(int nth);
/* Whether an address is unreadable now: device memory, or a staging buffer that is over. */
bool guard_hides(const void *address);

#endif
