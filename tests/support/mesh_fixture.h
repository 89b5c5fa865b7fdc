/* A runtime of two threads, a scope and a mesh: what most tests of functions, loops and gradients
 * begin with. */
#ifndef TESTS_MESH_FIXTURE_H
#define TESTS_MESH_FIXTURE_H

#include "tessera.h"

typedef struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_mesh *mesh;
} fixture;

static inline fixture open_fixture(const char *devices, const char *mesh)
{
  fixture f = { .rt = tsr_runtime_open(devices, .threads = 2) };
  f.s = tsr_scope_open(f.rt);
  f.mesh = tsr_mesh_make(f.rt, mesh);
  return f;
}

static inline void close_fixture(fixture *f)
{
  tsr_scope_close(f->s);
  tsr_runtime_close(f->rt);
}

#endif
