/* Frames of what comes through the Arrow C stream interface.
 *
 *   stream -> batches (io/arrow/arrow_read.h) -> columns at a terminal, as from a file
 *
 * Invariant: the stream is taken over by the call, whatever happens: its release is NULL after
 * it. */
#include "frame/chain/chain.h"

#include "io/arrow/arrow_read.h"

/* The stream is taken before options are looked at: it is this call's to release from the first
 * line on. One that cannot be read ends where a file that cannot be opened does, so that other
 * processes learn of it. A single batch in one process is laid on one device, where it can be
 * borrowed as it lies instead of being cut and copied. */
static tsr_status open_stream(tsr_frame *df, struct ArrowArrayStream *stream,
                              const tsr_arrow_opts *opts, tsr__error *error)
{
  tsr_sharding rows;
  tsr_runtime *rt = df->node.scope->rt;
  tsr_arrow_opts all = { 0 };
  tsr__error opened = { 0 };
  tsr__arrow *arrow = tsr__arrow_open(rt, stream, &opened);
  tsr__take_opts(df->what, opts, &all, sizeof all, error);
  if (all.on.mesh && all.on.mesh->rt != rt) {
    tsr__error_set(error, TSR_EARG,
                   "%s: the mesh belongs to another runtime; make it with the runtime of the scope",
                   df->what);
  } else if (!all.on.mesh && !tsr__peers_of(rt) && arrow && tsr__arrow_batches(arrow) == 1) {
    tsr_sharding one = tsr_on_device(rt, tsr__devices_of(rt)->first);
    rows = tsr__sharding_canon(&one);
  } else {
    tsr__scan_sharding(df, &all.on, &rows, error);
  }
  if (!error->status) {
    *error = opened;
    return tsr__scan_take(df, (tsr__reader){ &tsr__arrow_reader, arrow }, &rows, error);
  }
  if (arrow) tsr__arrow_close(arrow);
  return error->status;
}

static void drop(struct ArrowArrayStream *stream)
{
  if (stream && stream->release) stream->release(stream);
}

tsr_frame *tsr_frame_from_arrow_with(tsr_scope *scope, struct ArrowArrayStream *stream,
                                     const tsr_arrow_opts *opts, const char *site)
{
  tsr_frame *df = tsr__frame_make(scope, TSR__FRAME_FILE, "tsr_frame_from_arrow", site);
  tsr__error error = { 0 };
  if (df->inert) {
    drop(stream);
    return df;
  }
  if (!open_stream(df, stream, opts, &error)) return df;
  return tsr__frame_fail(df, &error);
}
