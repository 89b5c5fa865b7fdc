/* A frame on meshes of several sizes, and what comes of frames as text. */
#ifndef TESTS_SUPPORT_FRAME_FIXTURE_H
#define TESTS_SUPPORT_FRAME_FIXTURE_H

#include "tessera.h"

enum { FRAME_MESHES = 5 };

typedef struct frame_fixture {
  tsr_runtime *rt; /* cpu:8 */
  tsr_scope *s;
  tsr_frame *df; /* its rows over the axis x */
} frame_fixture;

typedef tsr_frame *frame_maker(tsr_scope *s, tsr_sharding at);

/* Opens a runtime and makes the frame on a mesh: 0 .. FRAME_MESHES - 1. */
void frame_open(frame_fixture *f, int mesh, frame_maker *make);

#define ON_EACH_MESH(f, make)                                                       \
  for (int mesh = 0; mesh < FRAME_MESHES && (frame_open(&(f), mesh, (make)), true); \
       tsr_runtime_close((f).rt), mesh++)

/* Compares the values of one column: "1 2 null". */
void frame_check_column(frame_fixture *f, tsr_frame *df, const char *name, const char *expected);
/* Compares the values of all columns, nulls as "-": "1 a; 2 -". */
void frame_check_rows(frame_fixture *f, tsr_frame *df, const char *expected);

#endif
