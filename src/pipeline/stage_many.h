/* Inside pipeline/: several sources as one. */
#ifndef TSR_PIPELINE_STAGE_MANY_H
#define TSR_PIPELINE_STAGE_MANY_H

#include "pipeline/records.h"

typedef struct tsr__many {
  tsr_source source;
  /* The child of a position, and the position there; NULL: by `start` or `turn`. */
  int (*find)(const struct tsr__many *many, int64_t at, int64_t *inside);
  int64_t *start;  /* concat: [children + 1]; zip: the first column of each */
  int64_t *base;   /* what is added to ids, by child */
  int64_t *weight; /* mix: by child */
  int64_t total;
  uint16_t *turn;           /* mix: by position in the period, whose turn it is */
  int32_t *rank;            /* and how often that one came before in it */
  const tsr_source *shared; /* merge: what all branches read; NULL: nothing worth keeping */
} tsr__many;

/* Reads and ids by `find`. */
tsr_status tsr__many_read(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error);
void tsr__many_ids(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                   int64_t *to);
void tsr__many_where(const tsr_source *source, int64_t id, tsr__text *out);
/* False: one of them is inert, which its scope has told. */
bool tsr__many_check(tsr_source *const *sources, int count, tsr__error *error);
/* Records of all; the error where fields differ. */
int64_t tsr__many_count(tsr_source *const *sources, int count, tsr__error *error);
tsr__many *tsr__many_of(tsr_source *const *sources, const tsr__records_make *make);
/* Columns side by side, as a kind of its own, with reading and ids of these. */
tsr_source *tsr__beside_of(tsr_source *const *sources, int count, const char *call,
                           const tsr__records_ops *ops, const char *site);
tsr_status tsr__beside_read(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error);
void tsr__beside_ids(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                     int64_t *to);
void tsr__beside_where(const tsr_source *source, int64_t id, tsr__text *out);
/* Their texts stand before it: nothing more. */
void tsr__many_about(const tsr_source *source, tsr__text *out);
tsr_source *tsr__many_refused(tsr_source *const *sources, int count, const char *call,
                              const tsr__error *error, const char *site);

#endif
