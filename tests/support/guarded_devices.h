/* Devices whose memory nobody may touch but their own table: with TEST_GUARD=1 in the environment,
 * what the pools of devices give is unreadable (mprotect) outside of the entries of the device
 * table and of what the host has mapped; so is what processes of one host open of each other's. A
 * stray look dies by SIGSEGV and says so. Memory of the user stays as it is, and devices of several
 * hosts do.
 *
 * Executables of tests/law, and others whose source says "Guards the devices", define
 * tsr__devices_install, tsr__pool_take and tsr__pool_give for the library, which calls those. */
#ifndef TESTS_SUPPORT_GUARDED_DEVICES_H
#define TESTS_SUPPORT_GUARDED_DEVICES_H

#include <stdbool.h>

/* Whether the environment asks for it: laws then try fewer cases, for each entry costs calls of the
 * system. */
bool guard_asked(void);
/* Whether an address is device memory that is unreadable now. */
bool guard_hides(const void *address);

#endif
