/* Regions: programs inside nodes.
 *
 *   %1:2 = call(%0)      a node; its operands are the region's arguments
 *       %0 = arg 0
 *       %1 = -%0         a program of its own, numbered from 0
 *       return %1, %0    its results are the node's, which RESULT nodes take out
 *
 * Immutable once made, so nodes, programs and plans share one and count its holders; the hash is
 * taken once and makes a program's key cheap to compare however large its regions are. */
#include "graph/graph.h"

bool tsr__leaves_sums(const tsr__program *program)
{
  bool some = false;
  for (int i = 1; i < program->sharding_count; i++) some |= program->shardings[i].unreduced != 0;
  for (int i = 0; i < program->region_count; i++) some |= program->regions[i]->sums;
  return some;
}

tsr__region *tsr__region_make(tsr__program *program, tsr__links results)
{
  tsr__heap *heap = program->heap;
  size_t links = (size_t)results.count * sizeof *results.at;
  tsr__region *region = tsr__new(heap, sizeof *region);
  int32_t *list = tsr__new(heap, links + sizeof *list);
  if (!region || !list) {
    tsr__del(heap, list, links + sizeof *list);
    tsr__del(heap, region, sizeof *region);
    return NULL;
  }
  if (links) memcpy(list, results.at, links);
  atomic_init(&region->refs, 1);
  region->program = *program;
  region->results = list;
  region->result_count = results.count;
  region->hash = tsr__hash(list, links, tsr__program_hash(program));
  region->sums = tsr__leaves_sums(program);
  tsr__program_init(program, heap);
  return region;
}

void tsr__region_hold(tsr__region *region)
{
  atomic_fetch_add_explicit(&region->refs, 1, memory_order_relaxed);
}

void tsr__region_release(tsr__region *region)
{
  if (!region || atomic_fetch_sub(&region->refs, 1) != 1) return;
  tsr__heap *heap = region->program.heap;
  tsr__program_free(&region->program);
  tsr__del(heap, region->results, ((size_t)region->result_count + 1) * sizeof *region->results);
  tsr__del(heap, region, sizeof *region);
}

bool tsr__region_same(const tsr__region *a, const tsr__region *b)
{
  if (a == b) return true;
  return a->hash == b->hash && a->result_count == b->result_count &&
         a->program.param_count == b->program.param_count &&
         !memcmp(a->results, b->results, (size_t)a->result_count * sizeof *a->results) &&
         tsr__program_same(&a->program, &b->program);
}
