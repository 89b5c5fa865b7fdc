/* Checksums of files that have them in their format: CRC-32C. */
#ifndef TSR_IO_CRC32C_H
#define TSR_IO_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32C of bytes behind those that gave `crc`; 0 for none. */
uint32_t tsr__crc32c(uint32_t crc, const void *data, size_t length);
/* The same without the machine's instruction: for tests. */
uint32_t tsr__crc32c_portable(uint32_t crc, const void *data, size_t length);

#endif
