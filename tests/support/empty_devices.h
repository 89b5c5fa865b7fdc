/* Devices of the kind "empty", which have memory and nothing else: with TEST_EMPTY=1 in the
 * environment the devices of each runtime are of this kind, so that the host does all work in
 * mirrors (src/kernel/fallback).
 *
 * The memory holds the complement of each byte, and no pointer to it is in a buffer's header: an
 * entry that reads it past `get` finds wrong values or no address.
 *
 * Executables that may ask for it are those of guarded_devices.h. */
#ifndef TESTS_SUPPORT_EMPTY_DEVICES_H
#define TESTS_SUPPORT_EMPTY_DEVICES_H

#include "kernel/fallback/fallback.h"

/* Whether the environment asks for it: laws then try fewer cases. */
bool empty_asked(void);
tsr_status empty_install(tsr_runtime *rt);
/* Makes devices first .. first + count - 1 such ones, beside CPU devices: tsr__kind_open's. */
tsr_status empty_open(tsr_runtime *rt, int first, int count);
tsr_status empty_open_with(tsr_runtime *rt, const tsr__device_ops *ops, int first, int count);
/* The same for a kind that has more entries: `ops` has those of empty_ops and others. */
tsr_status empty_install_with(tsr_runtime *rt, const tsr__device_ops *ops);
extern const tsr__device_ops empty_ops;
/* Shows an entry of such a kind the bytes of a buffer as they are, until empty_hide. */
void empty_show(const tsr__buffer *buffer);
void empty_hide(const tsr__buffer *buffer);

#endif
