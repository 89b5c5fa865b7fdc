/* How a pipeline is best placed: by a table of kinds of devices, and by trying.
 *
 * The table's numbers are those of a published loader, for who compares; what was measured with the
 * source at hand counts more. Filling is timed without threads of its own, the smallest of a few
 * times, so that what else the machine does shows little. */
#include "base/events.h"
#include "pipeline/records.h"
#include "topology/topology.h"

#include <stdio.h>

enum { MOST = 1024, ROUNDS = 3, RECORDS = 4096 };

/* Nanoseconds a record when batches of so many a device are filled; 0: they cannot be. */
static double time_of(tsr_source *source, tsr_sharding on, int64_t size)
{
  double best = 0;
  for (int r = 0; r < ROUNDS; r++) {
    const char *site = source->node.site;
    const tsr_pipeline_args args = { .size = sizeof args,
                                     .source = source,
                                     .batch_size = size,
                                     .epochs = -1,
                                     .threads = -1,
                                     .remainder = TSR_WRAP,
                                     .on = on };
    tsr_pipeline *p = tsr_pipeline_open_with(&args, site);
    tsr_batch_release(tsr_pipeline_next_at(p, site)); /* memory is touched for the first time */
    int64_t batches = RECORDS / size + 1, begin = tsr__now(), done = 0;
    for (tsr_batch *b; done < batches && (b = tsr_pipeline_next_at(p, site)); done++)
      tsr_batch_release(b);
    double each = (double)(tsr__now() - begin) / (double)(batches * size);
    if (tsr_pipeline_close(p) || done < batches) return 0;
    if (!r || each < best) best = each;
  }
  return best;
}

/* 0 where it cannot be: also of a source that says itself how many records come together. */
static int64_t measure(tsr_source *source, tsr_sharding on, int64_t devices)
{
  double times[11], best = 0; /* of 1, 2, 4 ... MOST */
  int count = 0;
  for (int64_t size = 1; size <= MOST; size *= 2, count++) {
    times[count] = time_of(source, on, size * devices);
    if (times[count] <= 0) return 0;
    if (!count || times[count] < best) best = times[count];
  }
  /* The smallest that is nearly as fast as any: larger ones would cost memory and steps for
   * nothing. */
  for (int i = 0; i < count; i++)
    if (times[i] <= 1.1 * best) return (int64_t)1 << i;
  return MOST;
}

tsr_placement tsr_placement_of(tsr_runtime *rt, tsr_source *source)
{
  tsr_placement out = { .kind = "cpu", .spec = "data", .least = 1, .best = 32, .critical = 16 };
  if (!rt || tsr_runtime_status(rt)) return (tsr_placement){ 0 };
  tsr_mesh *mesh = tsr_mesh_default(rt, "data");
  out.device_count = tsr_mesh_device_count(mesh);
  snprintf(out.mesh, sizeof out.mesh, "%s", tsr_mesh_text(mesh));
  if (!tsr__records_usable(source) || !source->count || !out.device_count) return out;
  /* In a scope of its own, which pipelines go to: what goes wrong there is not the source's. */
  tsr_scope *scope = tsr_scope_nest_at(source->node.scope, NULL);
  out.measured = measure(source, tsr_on(mesh, "data"), out.device_count);
  tsr_scope_close(scope);
  size_t bytes = 0;
  for (int c = 0; c < source->column_count; c++) bytes += source->columns[c].bytes;
  out.bytes = (int64_t)bytes * (out.measured ? out.measured : out.best);
  return out;
}
