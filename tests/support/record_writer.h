/* Files of records as others write them: TFRecords of tf.Example messages, checksums and all, tar
 * archives. Everything is put together here, byte by byte, by the formats' documents. */
#ifndef TESTS_SUPPORT_RECORD_WRITER_H
#define TESTS_SUPPORT_RECORD_WRITER_H

#include <stddef.h>
#include <stdint.h>

typedef struct written {
  unsigned char *bytes; /* to be freed */
  size_t size, room;
} written;

void written_put(written *w, const void *bytes, size_t size);
void written_free(written *w);
/* Writes what there is to a file, and forgets it. */
void written_to(written *w, const char *path);

/* A feature of a message that is being made, with values of its list; NULL values: `Feature {}`. */
void example_bytes(written *message, const char *name, const void *value, size_t size);
void example_integers(written *message, const char *name, const int64_t *values, int count);
void example_floats(written *message, const char *name, const float *values, int count);
void example_missing(written *message, const char *name);
/* The message as a record of a TFRecord file; it is empty then. */
void example_end(written *message, written *file);

/* A member of a tar archive. */
void tar_member(written *archive, const char *name, const void *bytes, size_t size);
void tar_end(written *archive);

#endif
