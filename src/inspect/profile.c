/* The profile: regions that users name, and what was recorded as JSON in the trace event format.
 *
 *   pid 1 "host"      tid: the thread's number
 *   pid 2 "devices"   tid: the device, and behind the last of them the devices of other threads
 *
 * Every event is complete ("X"): a begin in microseconds since recording began, and how long. They
 * lie in each other on a lane as they did in time.
 *
 *   tsr_profile_begin   the recorder is on          events gather on the runtime (base/events.h)
 *   tsr_profile_end     events are taken out        lanes are made of them, the text goes to a file
 *
 * Invariant: a region is told of when it ends, and only if somebody recorded when it began; what is
 * still open when recording ends is in no file. */
#include "tessera/profile.h"

#include "base/events.h"
#include "io/file/outfile.h"
#include "topology/topology.h"

#include <stdio.h>

/* ---- regions --------------------------------------------------------------------------------- */

/* Open regions of a scope; those still open when it closes end then. A node of its scope, made at
 * the first region: so the scope needs no hook for closing, and a scope without regions pays
 * nothing. */
typedef struct regions {
  tsr__node node;
  int depth;
  struct {
    const char *name; /* NULL: nobody recorded when it began */
    const char *site;
    int64_t start;
  } at[TSR_MAX_REGIONS];
} regions;

/* The depth falls even where nobody records: regions are paired by their order, not by their
 * names. */
static void end_region(regions *r)
{
  r->depth--;
  if (!r->at[r->depth].name) return;
  tsr__events_add(r->node.scope->rt, &(tsr__event){ .name = r->at[r->depth].name,
                                                    .kind = "region",
                                                    .site = r->at[r->depth].site,
                                                    .device = -1,
                                                    .start = r->at[r->depth].start });
}

/* When the scope closes. The hook may still use the scope's runtime, which goes last. */
static void release_regions(tsr__node *node)
{
  regions *r = (regions *)node;
  while (r->depth) end_region(r);
}

void tsr_region_begin_at(tsr_scope *scope, const char *name, const char *site)
{
  if (!scope || scope->inert) return;
  regions *r = scope->regions;
  if (!r) r = scope->regions = tsr__node_new(scope, sizeof *r, site, release_regions);
  if (!r) return;
  if (!name || r->depth == TSR_MAX_REGIONS) {
    if (!name) tsr__fail(scope, site, TSR_EARG, "tsr_region_begin: the name is NULL; give a name");
    else
      tsr__fail(scope, site, TSR_EARG,
                "tsr_region_begin: region \"%s\" is inside of %d open regions, the most there can "
                "be; end some with tsr_region_end",
                name, TSR_MAX_REGIONS);
    return;
  }
  /* The name is copied, as the event may be written long after the caller's text is gone; the site
   * is the compiler's and stays. Where nobody records nothing is copied. */
  int64_t start = tsr__events_begin(scope->rt);
  r->at[r->depth].name = start ? tsr_runtime_site(scope->rt, name) : NULL;
  r->at[r->depth].site = site;
  r->at[r->depth++].start = start;
}

void tsr_region_end_at(tsr_scope *scope, const char *site)
{
  if (!scope || scope->inert) return;
  regions *r = scope->regions;
  if (r && r->depth) end_region(r);
  else
    tsr__fail(scope, site, TSR_ESTATE,
              "tsr_region_end: no region is open in this scope; begin one with tsr_region_begin");
}

/* ---- lanes ----------------------------------------------------------------------------------- */

enum { HOST = 1, DEVICES };

/* Viewers draw a process for each pid and a row for each tid in it. */
typedef struct lane {
  int pid, tid;
} lane;

/*   2 devices, events of threads 0 and 1      tid 0: device 0     tid 2: device 0, thread 1
 *                                             tid 1: device 1     tid 3: device 1, thread 1
 *
 * Threads that work for one device at the same time would overlap in one lane, which viewers cannot
 * draw. */
static lane lane_of(const tsr__event *event, int devices)
{
  if (event->device < 0) return (lane){ HOST, event->thread };
  return (lane){ DEVICES, event->device + event->thread * devices };
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The format counts in microseconds. Written as whole numbers with three digits behind the point,
 * so that no nanosecond is rounded away however long a run was. */
static void put_micros(tsr__text *out, const char *name, int64_t ns)
{
  tsr__text_add(out, ",\"%s\":%lld.%03d", name, (long long)(ns / 1000), (int)(ns % 1000));
}

static void put_event(tsr__text *out, const tsr__events *events, const tsr__event *e, int devices)
{
  lane at = lane_of(e, devices);
  tsr__text_add(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d", at.pid, at.tid);
  put_micros(out, "ts", e->start - events->origin);
  put_micros(out, "dur", e->end > e->start ? e->end - e->start : 0);
  tsr__text_add(out, ",\"cat\":\"%s\",\"name\":", e->kind);
  tsr__text_json(out, e->name);
  tsr__text_add(out, ",\"args\":{");
  if (e->site) {
    tsr__text_add(out, "\"site\":");
    tsr__text_json(out, e->site);
  }
  if (e->bytes) tsr__text_add(out, "%s\"bytes\":%lld", e->site ? "," : "", (long long)e->bytes);
  tsr__text_add(out, "}}");
}

/* An event of metadata ("M"), which has no time and names a lane or a process. */
static void put_name(tsr__text *out, lane at, const char *what, const char *name)
{
  tsr__text_add(
      out, ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{\"name\":\"%s\"}}",
      at.pid, at.tid, what, name);
}

/* The names of the lanes that have events; `seen`: one a lane.
 *
 *   seen   thread 0 | host | device 0 | device 1 | .. | thread 1 | host | device 0 | ..
 *
 * Lanes without events have no name, so they are not drawn. Threads are told from 1 on, and the
 * first is not named with devices: of a program of one thread that would be said on each lane. */
static void put_lanes(tsr__text *out, const tsr__events *events, int devices, bool *seen)
{
  put_name(out, (lane){ HOST, 0 }, "process_name", "host");
  put_name(out, (lane){ DEVICES, 0 }, "process_name", "devices");
  for (size_t i = 0; i < events->count; i++) {
    const tsr__event *e = &events->at[i];
    bool *known = &seen[e->thread * (devices + 1) + e->device + 1];
    char name[48], of[24] = "";
    if (*known) continue;
    *known = true;
    int thread = e->thread + 1;
    if (e->device < 0) snprintf(name, sizeof name, "thread %d", thread);
    if (thread > 1) snprintf(of, sizeof of, ", thread %d", thread);
    if (e->device >= 0) snprintf(name, sizeof name, "device %d%s", (int)e->device, of);
    put_name(out, lane_of(e, devices), "thread_name", name);
  }
}

/* Pieces go to the file on the way, so that the text takes no memory by the number of events. One
 * round more than there are events puts the end, and with it what is left. */
static tsr_status write_events(tsr_runtime *rt, const tsr__events *events, tsr__outfile *file,
                               tsr__error *error)
{
  enum { PIECE = 1 << 16 };
  int devices = tsr__topology_of(rt)->device_count;
  size_t lanes = (size_t)TSR__LANES * ((size_t)devices + 1);
  /* Without it nothing is written, and the error is told below with that of the text. */
  bool *seen = tsr__new(&rt->heap, lanes);
  tsr__text text;
  tsr__text_init(&text, &rt->heap);
  tsr__text_add(&text,
                "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"version\":\"%s\",\"lost\":%lld},",
                tsr_version(), (long long)events->lost);
  tsr__text_add(&text, "\n\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":%d,\"tid\":0,", HOST);
  tsr__text_add(&text, "\"name\":\"process_sort_index\",\"args\":{\"sort_index\":0}}");
  if (seen) put_lanes(&text, events, devices, seen);
  tsr_status status = TSR_OK;
  for (size_t i = 0; i <= events->count && seen && !status; i++) {
    if (i < events->count) put_event(&text, events, &events->at[i], devices);
    else tsr__text_add(&text, "\n]}\n");
    if (text.length < PIECE && i < events->count) continue;
    if (text.failed) break;
    status = tsr__out_put(file, text.data, text.length, error);
    text.length = 0;
  }
  if (!seen || text.failed)
    status = tsr__error_set(error, TSR_ENOMEM, "no memory to write the profile; close some scopes");
  tsr__text_free(&text);
  tsr__del(&rt->heap, seen, lanes);
  return status;
}

/* ---- calls ----------------------------------------------------------------------------------- */

tsr_status tsr_profile_begin_at(tsr_scope *scope, const char *site)
{
  tsr_status status = tsr__scope_usable(scope, "tsr_profile_begin", site);
  if (status) return status;
  if (tsr__events_open(scope->rt)) return TSR_OK;
  return tsr__fail(scope, site, TSR_ESTATE,
                   "tsr_profile_begin: this runtime records a profile already; end that profile "
                   "with tsr_profile_end");
}

/* Recording ends here whatever becomes of the file: what could not be written is gone. A path of
 * NULL is refused before, and the recording goes on. */
tsr_status tsr_profile_end_at(tsr_scope *scope, const char *path, const char *site)
{
  tsr__events events;
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__scope_usable(scope, "tsr_profile_end", site);
  if (status) return status;
  tsr_runtime *rt = scope->rt;
  if (!path)
    return tsr__fail(scope, site, TSR_EARG,
                     "tsr_profile_end: the path is NULL; give the path of a file");
  if (!tsr__events_take(rt, &events))
    return tsr__fail(
        scope, site, TSR_ESTATE,
        "tsr_profile_end: this runtime records no profile; begin one with tsr_profile_begin");
  tsr__outfile *file = tsr__out_open(&rt->heap, path, NULL, &error);
  /* The file gets its name at close, and only with `good`: a viewer never opens half a trace. */
  bool good = file && !write_events(rt, &events, file, &error);
  tsr__error closing = { .status = TSR_OK };
  if (file && tsr__out_close(file, good, &closing) && !error.status) error = closing;
  tsr__events_free(rt, &events);
  if (!error.status) return TSR_OK;
  return tsr__fail(scope, site, error.status, "tsr_profile_end: %s", error.text);
}
