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
#include "kernel/device/staging.h"
#include "pipeline/records.h"

/* What was read of a stream for one batch. */
typedef struct tsr__stream_part {
  char *data;                           /* field after field, of as many records as a batch has */
  int64_t epoch, index, first, records; /* as in a tray */
  tsr__error error;
} tsr__stream_part;
typedef struct tsr__stream tsr__stream;

/* One field on its devices, in a batch of so many rows. */
typedef struct tsr__lot {
  int64_t start, rows;  /* of the batch's rows */
  tsr__staging staging; /* while a batch is filled; closed: another process's, or not direct */
} tsr__lot;

/* A record that could not be read. */
typedef struct tsr__fault {
  int64_t row; /* of the batch; of one that is skipped, where it would have been */
  int64_t id;
  char text[320]; /* why, cut off */
} tsr__fault;

typedef struct tsr__tray {
  bool ready;
  int64_t epoch, index; /* the batch's epoch, and its number there */
  int64_t first;        /* the position of its first record */
  int64_t home, around; /* what wraps goes on at position `home`, for so many, over and over */
  int64_t meant;        /* records that it should have */
  int64_t records, rows;
  tsr__fault *faults; /* by row once it is ready */
  size_t fault_room, list_room;
  int fault_count;
  bool listed;   /* bad records were skipped: row r is the one that row list[r] should have been */
  int64_t *list; /* [records] */
  tsr__value **values; /* by column; NULL once delivered */
  tsr__value *mask;    /* with padding only */
  char **staged;       /* by column: the whole field on the host, of one that is not direct */
  size_t *staged_size;
  tsr__lot *lots; /* [columns * positions] */
  int64_t *ids;   /* by row; NULL without .ids */
  int64_t *edges; /* rows where shards begin, ascending, each once; then the number of rows */
  size_t edge_room;
  int64_t slice_rows; /* slice k begins at row k * slice_rows */
  int64_t cut_rows;   /* what these were made for */
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
  pthread_t self; /* the same, as the thread itself knows it; under the lock */
  bool runs;
  tsr__where where;
} tsr__filler;

/* What filling a slice tells: where it is, and what was timed. */
typedef struct tsr__doing {
  tsr__where *where; /* NULL: nobody wants it */
  tsr__progress *progress;
  int worker;     /* both as a question has them */
  int64_t filled; /* nanoseconds of all of it */
  int64_t timed;  /* of the blocks that `meter` is of */
  tsr__meter meter;
} tsr__doing;

/* What tsr_pipeline_text tells, from the beginning on. */
enum { TSR__WAITS = 64 * 4 };
typedef struct tsr__took {
  int64_t filled, timed; /* nanoseconds of all slices, and of blocks that were timed */
  int64_t by_threads;    /* of `filled`, those of its own */
  tsr__meter stages;
  int64_t asked, ready;  /* calls of tsr_pipeline_next; batches that were ready then, summed */
  int64_t first, waited; /* when the first one came; nanoseconds in all */
  int64_t waits[TSR__WAITS];
} tsr__took;

/* What was delivered of bad records, by who could not read them. */
enum { TSR__BAD_PLACES = 24 };
typedef struct tsr__bad_place {
  char who[160]; /* a file or a function */
  int64_t count;
  char first[sizeof(((tsr__fault *)0)->text)];
} tsr__bad_place;
typedef struct tsr__bad_book {
  int64_t seen, bad; /* records; with those of the state that the pipeline began with */
  int64_t elsewhere; /* bad ones of places that found no room */
  int count;
  tsr__bad_place place[TSR__BAD_PLACES];
} tsr__bad_book;

struct tsr_pipeline {
  tsr__node node;
  bool inert;
  tsr_source *source;
  tsr_pipeline_args args; /* a copy; without its pointers but `map` */
  tsr__placing *placing;  /* by column */
  tsr_sharding mask_on;
  int most_positions;
  bool apart;            /* some of its devices are other processes' */
  size_t widest;         /* bytes of a record's largest field */
  int64_t batches;       /* of an epoch */
  _Atomic int64_t total; /* of all epochs; INT64_MAX: without end, or a stream's not known yet */
  tsr__stream *stream;   /* NULL: records are read by position */
  /* Of the batch behind the one delivered last; records in front of the first. */
  int64_t stream_epoch, stream_index, stream_skip;
  /* Under the lock. */
  pthread_mutex_t lock;
  pthread_cond_t work;       /* slices to fill, or the end */
  pthread_cond_t done;       /* a tray is ready */
  int64_t opened, delivered; /* batches, from the first one of all */
  bool failed;               /* no more batches are begun */
  bool asked;                /* somebody is in tsr_pipeline_next */
  bool asked_inside;         /* and so was a function that fills what is waited for */
  pthread_t asker;           /* of `asked` */
  bool reading;              /* somebody reads the stream */
  int64_t read;              /* batches that were read of it; opened <= read <= delivered + depth */
  int depth;
  tsr__tray *trays;
  /* Threads. */
  _Atomic bool stop;
  pid_t process; /* whose threads they are: a child of fork has none */
  bool locks, closed;
  int threads;
  tsr__filler *fillers;
  /* What tsr_pipeline_next has given. */
  tsr_status status;
  uint64_t order;               /* hash of the ids of this epoch so far, with .ids */
  int64_t records, bytes, from; /* `from`: batches before this program's first */
  tsr__took figures;            /* under the lock */
  int64_t cpu;                  /* of threads that were joined */
  tsr__bad_book *book;          /* NULL: bad records end the pipeline */
  int64_t opened_at;
};

/* ---- tray.c: where rows go ------------------------------------------------------------------ */

/* Checks how each column lies and keeps it. */
tsr_status tsr__place_columns(tsr_pipeline *p, const tsr_pipeline_args *args, tsr__error *error);
/* Tells devices what trays of whole batches will take, so many at once. */
void tsr__tray_expect(tsr_pipeline *p, int trays);
/* Gives a tray values with memory and cuts it into slices. Its error is set on failure. */
void tsr__tray_prepare(tsr_pipeline *p, tsr__tray *tray);
/* Fills the rows of one slice. */
tsr_status tsr__tray_fill(tsr_pipeline *p, tsr__tray *tray, int slice, tsr__doing *doing,
                          tsr__error *error);
/* When all slices are filled, or none will be: fields that are staged go to their devices. */
void tsr__tray_finish(tsr_pipeline *p, tsr__tray *tray);
/* Frees what a tray holds for one batch. */
void tsr__tray_empty(tsr_pipeline *p, tsr__tray *tray);

/* ---- bad.c: records that cannot be read ------------------------------------------------------ */

/* Whether the pipeline goes on after an error of reading. */
bool tsr__bad_forgives(const tsr_pipeline *p, const tsr__error *error);
/* Asks again for the records of a block, one by one, and replaces the bad ones; row `row` is the
 * first. What `error` was before is dropped. */
tsr_status tsr__bad_read_each(tsr_pipeline *p, tsr__tray *tray, int64_t row,
                              const tsr__ask_rows *ask, tsr__error *error);
void tsr__bad_sort(tsr__tray *tray);
/* Lists the records that stay where bad ones are skipped; false: no memory. */
bool tsr__bad_list(tsr_pipeline *p, tsr__tray *tray);
/* Counts the faults of a batch that is delivered; TSR_EVALUE where they are too many. */
tsr_status tsr__bad_deliver(tsr_pipeline *p, const tsr__tray *tray, tsr__error *error);

/* ---- ring.c: who fills what, when ------------------------------------------------------------ */

tsr_status tsr__ring_open(tsr_pipeline *p, tsr__error *error);
/* Before and after asking for a batch. False: who asks is who fills, or somebody asks already; then
 * the pipeline is to fail, which `asked_inside` says. */
bool tsr__ring_enter(tsr_pipeline *p);
/* Whether none of its functions asked meanwhile. */
bool tsr__ring_leave(tsr_pipeline *p);
/* Whether the calling thread runs a function that fills it, and would wait for itself. */
bool tsr__ring_inside(tsr_pipeline *p);
/* The next batch's tray, filled or failed; NULL: cancelled by the progress callback. */
tsr__tray *tsr__ring_take(tsr_pipeline *p);
/* The tray's batch was taken out. */
void tsr__ring_give(tsr_pipeline *p, tsr__tray *tray);
void tsr__ring_close(tsr_pipeline *p);
/* Nanoseconds of processors that its threads took. */
int64_t tsr__ring_cpu(const tsr_pipeline *p);

/* ---- pipeline_figures.c: what it took ---------------------------------------------------- */

/* A slice was filled; under the lock. */
void tsr__figures_filled(tsr_pipeline *p, const tsr__doing *doing);
/* A batch that was asked for at `begin` is there; `ready` ones were. */
void tsr__figures_asked(tsr_pipeline *p, int64_t begin, int ready);

/* ---- open_together.c: processes that open one --------------------------------------------- */

/* Whether a pipeline so placed has rows on other processes' devices. */
bool tsr__is_apart(const tsr_runtime *rt, const tsr_pipeline_args *args);
/* A meeting of the processes that have devices of it: how it went on each, and whether all opened
 * the same; `error` is this one's before, and that of all after. NULL p: it came to nothing. */
tsr_status tsr__agree_open(tsr_runtime *rt, const tsr_pipeline_args *args, const tsr_pipeline *p,
                           tsr__error *error);

/* ---- source_stream.c ------------------------------------------------------------------------- */

/* The stream that all records come from; NULL: they are read by position. */
tsr__stream *tsr__stream_of(const tsr_source *source);
/* Whether a pipeline may read it so. */
tsr_status tsr__stream_check(const tsr__stream *stream, const tsr_pipeline_args *args,
                             tsr__error *error);
/* Makes it a pipeline's, with memory for so many batches. */
tsr_status tsr__stream_open(tsr__stream *stream, const tsr_pipeline_args *args, int parts,
                            tsr__error *error);
/* Begins with this epoch, so many records behind its first. */
void tsr__stream_seek(tsr__stream *stream, int64_t epoch, int64_t records);
/* Reads what a batch has, one thread at a time and batch by batch; false: nothing is left. Errors
 * are the part's. */
bool tsr__stream_read(tsr__stream *stream, const tsr_pipeline *p, int64_t batch, tsr__where *where);
const tsr__stream_part *tsr__stream_part_of(const tsr__stream *stream, int64_t batch);
void tsr__stream_close(tsr__stream *stream);

/* ---- state.c --------------------------------------------------------------------------------- */

/* What decides which records a batch has, as text; threads, prefetch and places do not. With
 * `place` also how far the pipeline goes and where it is. */
void tsr__fingerprint(const tsr_pipeline *p, tsr__text *out, bool place);
/* The first stages, counted from 1, where two such texts differ. */
typedef struct tsr__stage_pair {
  int stage;
  const char *text[2];
  int length[2];
} tsr__stage_pair;
void tsr__stages_differ(const char *one, const char *other, tsr__stage_pair *out);

/* Brings a pipeline to where a state says; before the ring is opened. */
tsr_status tsr__state_load(tsr_pipeline *p, const void *state, size_t size, tsr__error *error);

#endif
