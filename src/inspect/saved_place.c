/* Where a loaded function's arguments lie, and the function with them.
 *
 *   argument 0 f32[8,4]@0"(x,-)", mesh 0 "x=2,y=2"      what the text says
 *   f32[8,4]@(-,y) on a mesh x=2,y=2                    put to (x,-) there
 *   f32[8,4], nowhere                                   to (x,-) where the others are, or on mesh 0
 *   f32[8,4]@(z,-) on a mesh z=4                        refused
 *
 * A mesh of the same axes may be of other devices, or of none, and is then another object: the
 * function is made again on it, regions and all, so that nothing of it stays on the text's. */
#include "inspect/saved_text.h"

/* Whether two meshes have the same axes of the same sizes in the same order. */
static bool same_axes(const tsr_mesh *a, const tsr_mesh *b)
{
  bool same = a->axis_count == b->axis_count;
  for (int i = 0; i < a->axis_count && same; i++)
    same = a->sizes[i] == b->sizes[i] && !strcmp(a->names[i], b->names[i]);
  return same;
}

/* The mesh in the place of one; itself if nothing is known of it. Also for no mesh, NULL, which is
 * in no list. */
static const tsr_mesh *moved_mesh(const tsr__moved *moved, const tsr_mesh *mesh)
{
  for (int i = 0; i < moved->count; i++)
    if (moved->from[i] == mesh) return moved->to[i];
  return mesh;
}

bool tsr__saved_meshes(tsr_scope *scope, const tsr__saved *saved, const tsr__leaves *in,
                       const char *site, tsr__moved *out)
{
  *out = (tsr__moved){ .count = 0 };
  for (int i = 0; i < saved->argument_count; i++) {
    const tsr_mesh *from = saved->places[i].mesh, *to = in->at[i]->sharding.mesh;
    if (!from || !to || tsr_mesh_status(to)) continue;
    if (!same_axes(from, to)) {
      tsr__fail(scope, site, TSR_EAXIS,
                "array %d of the arguments lies on the mesh %s, but %s was saved for %s; move the "
                "array to a mesh of these axes with tsr_reshard: %s",
                i, tsr_mesh_text(to), saved->name, tsr_mesh_text(from),
                tsr__saved_needs(scope, saved));
      return false;
    }
    /* The first says which; others are moved to it. A text has no more meshes than there is room
     * for, so the last condition cannot hold for one that was read. */
    if (moved_mesh(out, from) != from || from == to || out->count == TSR__TEXT_MESHES) continue;
    out->from[out->count] = from;
    out->to[out->count++] = to;
  }
  return true;
}

tsr_array *tsr__saved_put(const tsr__moved *moved, tsr_array *array, const tsr_sharding *place,
                          const char *site)
{
  tsr_sharding own = tsr__sharding_canon(&array->sharding), at = tsr__sharding_canon(place);
  at.mesh = moved_mesh(moved, at.mesh);
  if (!at.mesh || tsr__sharding_equal(&own, &at)) return array;
  /* The canonical form has all dims. */
  if (at.rank > array->shape.rank) at.rank = (uint8_t)array->shape.rank;
  at.unreduced = 0; /* what is whole needs no sum */
  /* What is open ('?') can only be asked for, as no data lies so; where all dims are said the array
   * is moved. */
  return at.open ? tsr__constrain_for(array, at, TSR__WHY_LOADED, site)
                 : tsr__reshard_for(array, at, TSR__WHY_LOADED, site);
}

/* The numbers and lines, which are no part of a program's key. tsr__program_copy copies the key
 * alone, as plans want it. Sites are borrowed from the runtime. */
static bool copy_binding(tsr__program *out, const tsr__program *in)
{
  size_t nodes = (size_t)in->node_count, numbers = (size_t)in->param_count;
  if (numbers && !tsr__grow(out->heap, (void **)&out->params, &out->param_capacity, numbers,
                            sizeof *out->params))
    return false;
  if (numbers) memcpy(out->params, in->params, numbers * sizeof *out->params);
  out->param_count = in->param_count;
  if (!nodes || !in->sites) return true;
  if (!tsr__grow(out->heap, (void **)&out->sites, &out->site_capacity, nodes, sizeof *out->sites))
    return false;
  memcpy(out->sites, in->sites, nodes * sizeof *out->sites);
  return true;
}

/* Regions are immutable and shared, so one on other meshes is made anew, from the inside out; where
 * nothing moves the region itself is held once more. */
tsr__region *tsr__saved_region(const tsr__moved *moved, tsr__region *region)
{
  const tsr__program *from = &region->program;
  tsr__program program;
  if (!moved->count) {
    tsr__region_hold(region);
    return region;
  }
  if (tsr__program_copy(&program, from, from->heap)) return NULL;
  bool good = copy_binding(&program, from);
  for (int i = 0; i < program.sharding_count; i++)
    program.shardings[i].mesh = moved_mesh(moved, program.shardings[i].mesh);
  for (int i = 0; i < program.region_count && good; i++) {
    tsr__region *inner = tsr__saved_region(moved, program.regions[i]);
    good = inner != NULL;
    /* What was copied has held the region of before, which is let go only when there is another for
     * its place: the program is whole whenever it is freed. */
    if (!good) break;
    tsr__region_release(program.regions[i]);
    program.regions[i] = inner;
  }
  tsr__links results = { region->results, region->result_count };
  tsr__region *made = good ? tsr__region_make(&program, results) : NULL;
  tsr__program_free(&program);
  return made;
}
