/* Members of tar archives, grouped to samples as WebDataset has them.
 *
 *   train/0001.jpg  train/0001.cls  |  train/0002.seg.png ...      key | ending
 *
 * The key of a member is its path up to the first dot of its base name, and neighbours of one key
 * are a sample. What is no plain file, has no dot or begins with one, and what is called __...__,
 * is no part of any. */
#ifndef TSR_PIPELINE_TAR_WALK_H
#define TSR_PIPELINE_TAR_WALK_H

#include "pipeline/record_files.h"

/* A member as its marks have it. */
typedef struct tsr__tar_member {
  int64_t at, bytes; /* of what it holds */
  const char *name;  /* whole; the ending is behind key[key_length] */
  int64_t key_length;
} tsr__tar_member;

extern const tsr__file_format tsr__tar_format;

/* How many members of samples a file has, and one of them. */
int64_t tsr__tar_count(const tsr__record_files *files, int file);
tsr__tar_member tsr__tar_member_of(const tsr__record_files *files, int file, int64_t member);
bool tsr__tar_same_key(const tsr__tar_member *a, const tsr__tar_member *b);

#endif
