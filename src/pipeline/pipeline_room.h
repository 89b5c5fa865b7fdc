/* Inside pipeline/: a pipeline's batches, from the plan of one to its delivery.
 *
 *   ring of trays      [ 7 filling | 8 filling | 6 ready ]      batch n lies in tray n mod depth
 *                        ^ slices of batch 7, claimed in order by any thread
 *
 * A tray's life: prepared (values with memory on their devices, cut into slices), filled slice by
 * slice, finished by who fills the last slice, taken out by tsr_pipeline_next in order. What is
 * delivered no longer belongs to the ring: its memory ends with the batch. */
#ifndef TSR_PIPELINE_ROOM_H
#define TSR_PIPELINE_ROOM_H

#include "execute/execute.h"
#include "pipeline/records.h"

/* One field on its devices, in a batch of so many rows. */
typedef struct tsr__lot {
  int64_t start, rows; /* of the batch's rows */
  char *memory;        /* while a batch is filled; NULL: another process's, or not direct */
} tsr__lot;

typedef struct tsr__tray {
  bool ready;
  int64_t epoch, index; /* the batch's epoch, and its number there */
  int64_t first;        /* its first record is so far in the epoch */
  int64_t records, rows;
  tsr__value **values; /* by column; NULL once delivered */
  tsr__value *mask;    /* with padding only */
  char **staged;       /* by column: the whole field on the host, of one that is not direct */
  size_t *staged_size;
  tsr__lot *lots; /* [columns * positions] */
  int64_t *ids;   /* by row; NULL without .ids */
  int64_t *cuts;  /* slice k is rows cuts[k] .. cuts[k + 1] */
  size_t cut_room;
  int64_t cut_rows; /* what `cuts` was made for */
  int slices, next, left;
  int failed; /* the first slice with an error, which `error` is of */
  tsr__error error;
  int64_t began; /* nanoseconds */
} tsr__tray;

/* How one column lies. */
typedef struct tsr__placing {
  tsr_sharding on; /* canonical */
  int positions;
  bool direct; /* rows of a device are rows of a record, byte for byte */
} tsr__placing;

typedef struct tsr__filler {
  tsr_pipeline *pipeline;
  pthread_t thread;
  tsr__where where;
} tsr__filler;

struct tsr_pipeline {
  tsr__node node;
  bool inert;
  tsr_source *source;
  tsr_pipeline_args args; /* a copy; without its pointers but `map` */
  tsr__placing *placing;  /* by column */
  tsr_sharding mask_on;
  int most_positions;
  int64_t batches; /* of an epoch */
  int64_t total;   /* of all epochs; INT64_MAX: without end */
  /* Under the lock. */
  pthread_mutex_t lock;
  pthread_cond_t work;       /* slices to fill, or the end */
  pthread_cond_t done;       /* a tray is ready */
  int64_t opened, delivered; /* batches, from the first one of all */
  bool failed;               /* no more batches are begun */
  int depth;
  tsr__tray *trays;
  /* Threads. */
  _Atomic bool stop;
  bool locks, closed;
  int threads;
  tsr__filler *fillers;
  /* What tsr_pipeline_next has given. */
  tsr_status status;
  uint64_t order;                       /* hash of the ids of this epoch so far, with .ids */
  int64_t records, waited, bytes, from; /* `from`: batches before this program's first */
  _Atomic int64_t filled;               /* nanoseconds that threads filled */
  int64_t opened_at;
};

/* ---- tray.c: where rows go ------------------------------------------------------------------ */

/* Checks how each column lies and keeps it. */
tsr_status tsr__place_columns(tsr_pipeline *p, const tsr_pipeline_args *args, tsr__error *error);
/* Gives a tray values with memory and cuts it into slices. Its error is set on failure. */
void tsr__tray_prepare(tsr_pipeline *p, tsr__tray *tray);
/* Fills the rows of one slice. */
tsr_status tsr__tray_fill(tsr_pipeline *p, tsr__tray *tray, int slice, tsr__where *where,
                          tsr__error *error);
/* When all slices are filled, or none will be: fields that are staged go to their devices. */
void tsr__tray_finish(tsr_pipeline *p, tsr__tray *tray);
/* Frees what a tray holds for one batch. */
void tsr__tray_empty(tsr_pipeline *p, tsr__tray *tray);

/* ---- ring.c: who fills what, when ------------------------------------------------------------ */

tsr_status tsr__ring_open(tsr_pipeline *p, tsr__error *error);
/* The next batch's tray, filled or failed; NULL: cancelled by the progress callback. */
tsr__tray *tsr__ring_take(tsr_pipeline *p);
/* The tray's batch was taken out. */
void tsr__ring_give(tsr_pipeline *p, tsr__tray *tray);
void tsr__ring_close(tsr_pipeline *p);

/* ---- state.c --------------------------------------------------------------------------------- */

/* Brings a pipeline to where a state says; before the ring is opened. */
tsr_status tsr__state_load(tsr_pipeline *p, const void *state, size_t size, tsr__error *error);

#endif
