/* Pipelines as users see them: opened, asked for batches, closed.
 *
 * A batch is a node of a scope of its own, nested in the pipeline's: its fields are leaves there
 * that take the tray's values over, what a step computes of them lands there too, and releasing the
 * batch closes the scope. */
#include "pipeline/permute.h"
#include "pipeline/pipeline_room.h"

#include "base/events.h"

struct tsr_batch {
  tsr__node node;
  tsr_array *tree, *mask;
  int64_t epoch, index, records, rows;
  int64_t *ids;
};

static const tsr_pipeline no_pipeline = { .inert = true, .status = TSR_ENOMEM };

static void release_pipeline(tsr__node *node)
{
  tsr__ring_close((tsr_pipeline *)node);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Fills in what zero stands for, and refuses what cannot be. */
static tsr_status check_args(tsr_pipeline_args *a, tsr__error *error)
{
  if (!a->batch_size) a->batch_size = 1;
  if (!a->epochs) a->epochs = 1;
  a->threads = a->threads ? a->threads : 2;
  a->threads = a->threads == -1 ? 0 : a->threads;
  a->prefetch = a->prefetch ? a->prefetch : 2;
  if (a->batch_size < 1 || a->batch_size > INT64_C(1) << 40)
    return tsr__error_set(error, TSR_EARG, "a batch of %lld records, expected 1 or more",
                          (long long)a->batch_size);
  if (a->epochs < -1)
    return tsr__error_set(error, TSR_EARG, "%lld epochs, expected 1 or more, or -1: without end",
                          (long long)a->epochs);
  if (a->threads < 0 || a->threads > 256)
    return tsr__error_set(error, TSR_EARG, "%d threads, expected 1 to 256, 0 for 2, or -1: none",
                          a->threads);
  if (a->prefetch < 0 || a->prefetch > 65536)
    return tsr__error_set(error, TSR_EARG, "%d batches ahead, expected 1 to 65536, or 0 for 2",
                          a->prefetch);
  if ((unsigned)a->remainder > TSR_WRAP)
    return tsr__error_set(error, TSR_EARG, "a remainder of %d, expected one of tsr_remainder",
                          (int)a->remainder);
  return TSR_OK;
}

static tsr_status count_batches(tsr_pipeline *p, tsr__error *error)
{
  const tsr_pipeline_args *a = &p->args;
  int64_t count = p->source->count, whole = count / a->batch_size;
  bool more = count % a->batch_size != 0 && a->remainder != TSR_DROP;
  p->batches = whole + more;
  if (a->epochs == -1) p->total = p->batches ? INT64_MAX : 0;
  else if (p->batches && a->epochs > INT64_MAX / p->batches)
    return tsr__error_set(error, TSR_EARG,
                          "%lld epochs of %lld batches, more than 2^63; -1 is "
                          "without end",
                          (long long)a->epochs, (long long)p->batches);
  else p->total = p->batches * a->epochs;
  return TSR_OK;
}

/* An inert pipeline, which gives the status of what went wrong in its scope when it is closed. */
static tsr_pipeline *refuse(tsr_scope *scope, const char *site, const tsr__error *error)
{
  if (!scope || scope->inert) return (tsr_pipeline *)&no_pipeline;
  if (error) tsr__fail(scope, site, error->status, "tsr_pipeline_open: %s", error->text);
  tsr_pipeline *p = tsr__node_new(scope, sizeof *p, site, NULL);
  if (!p) return (tsr_pipeline *)&no_pipeline;
  p->inert = true;
  p->status = tsr_scope_status(scope);
  return p;
}

tsr_pipeline *tsr_pipeline_open_with(const tsr_pipeline_args *given, const char *site)
{
  tsr_pipeline_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  if (!given || !given->source) return refuse(NULL, site, NULL);
  tsr_source *source = given->source;
  if (source->inert) return refuse(source->node.scope, site, NULL);
  tsr_scope *scope = tsr__scope_here(source->node.scope);
  if (tsr__take_opts("tsr_pipeline_open", given, &args, sizeof args, &error) ||
      check_args(&args, &error))
    return refuse(scope, site, &error);
  if (args.shuffle) {
    tsr_shuffle_args all = { .size = sizeof all, .source = source, .seed = args.seed };
    source = tsr_source_shuffle_with(&all, site);
    if (source->inert) return refuse(scope, site, NULL);
  }
  tsr_pipeline *p = tsr__node_new(scope, sizeof *p, site, release_pipeline);
  if (!p) return refuse(scope, site, NULL);
  p->source = source;
  p->args = args;
  p->opened_at = tsr__now();
  if (count_batches(p, &error) || tsr__place_columns(p, &args, &error) ||
      (args.state && tsr__state_load(p, args.state, args.state_size, &error)) ||
      tsr__ring_open(p, &error)) {
    tsr__fail(scope, site, error.status, "tsr_pipeline_open: %s", error.text);
    p->inert = true;
    p->status = error.status;
  }
  return p;
}

/* ---- the next batch -------------------------------------------------------------------------- */

/* Leaves of the tray's values, in the batch's scope, as a tree. */
static tsr_array *tree_of(tsr_pipeline *p, tsr__tray *tray, tsr_scope *scope, const char *site)
{
  const tsr_source *source = p->source;
  tsr_field_args fields[TSR_MAX_FIELDS];
  for (int c = 0; c < source->column_count; c++) {
    tsr__value *value = tray->values[c];
    tray->values[c] = NULL;
    fields[c].name = source->columns[c].name;
    fields[c].array = tsr__make_leaf(scope, (tsr_dtype)value->dtype, &value->shape,
                                     &p->placing[c].on, value, site);
  }
  return tsr_tree_at(scope, fields, source->column_count, site);
}

static tsr_array *mask_of(tsr_pipeline *p, tsr__tray *tray, tsr_scope *scope, const char *site)
{
  tsr__value *value = tray->mask;
  tray->mask = NULL;
  tsr_shape shape = { .rank = 1, .dims = { tray->rows } };
  if (value) return tsr__make_leaf(scope, TSR_BOOL, &shape, &p->mask_on, value, site);
  return tsr_full_at(scope, tsr_operand_bool(true), TSR_BOOL, shape, p->mask_on, site);
}

/* Ids go to the batch, and into what the order of the epoch hashes to. */
static tsr_status take_ids(tsr_pipeline *p, tsr__tray *tray, tsr_batch *b)
{
  if (!tray->ids) return TSR_OK;
  if (!tray->index) p->order = 0;
  size_t bytes = (size_t)tray->rows * sizeof *b->ids;
  b->ids = tsr__arena_raw(&b->node.scope->arena, bytes + 1);
  if (!b->ids) return TSR_ENOMEM;
  memcpy(b->ids, tray->ids, bytes);
  for (int64_t i = 0; i < tray->records; i++) p->order = tsr__mix(p->order, (uint64_t)b->ids[i]);
  return TSR_OK;
}

/* The batch of a filled tray; NULL with the scope's error set. */
static tsr_batch *batch_of(tsr_pipeline *p, tsr__tray *tray, const char *site)
{
  tsr_scope *scope = tsr_scope_nest_at(p->node.scope, site);
  tsr_batch *b = tsr__node_new(scope, sizeof *b, site, NULL);
  if (!b || take_ids(p, tray, b)) {
    tsr__fail(p->node.scope, site, TSR_ENOMEM, "tsr_pipeline_next: no memory for a batch");
    tsr_scope_close(scope);
    return NULL;
  }
  b->epoch = tray->epoch;
  b->index = tray->index;
  b->records = tray->records;
  b->rows = tray->rows;
  b->tree = tree_of(p, tray, scope, site);
  b->mask = mask_of(p, tray, scope, site);
  if (p->args.map) b->tree = tsr_call_at(p->args.map, &b->tree, 1, site);
  tsr_status status = tsr_scope_status(scope);
  if (!status) return b;
  tsr__fail(p->node.scope, NULL, status, "%s", tsr_message(scope));
  tsr_scope_close(scope);
  return NULL;
}

static tsr_batch *end_with(tsr_pipeline *p, const tsr__error *error, const char *site)
{
  p->status = error->status;
  tsr__fail(p->node.scope, site, error->status, "tsr_pipeline_next: %s", error->text);
  return NULL;
}

tsr_batch *tsr_pipeline_next_at(tsr_pipeline *p, const char *site)
{
  tsr__error error = { 0 };
  if (!p || p->inert || p->closed || p->status || p->delivered == p->total) return NULL;
  tsr__tray *tray = tsr__ring_take(p);
  if (!tray) {
    tsr__cancelled(&error, "tsr_pipeline_next");
    p->status = error.status;
    tsr__fail_error(p->node.scope, site, &error);
    return NULL;
  }
  if (tray->error.status) return end_with(p, &tray->error, site);
  p->records += tray->records;
  for (int c = 0; c < p->source->column_count; c++)
    p->bytes += tray->rows * (int64_t)p->source->columns[c].bytes;
  tsr_batch *b = batch_of(p, tray, site);
  if (!b) p->status = tsr_scope_status(p->node.scope);
  tsr__ring_give(p, tray);
  return b;
}

/* ---- the end, and questions ------------------------------------------------------------------ */

tsr_status tsr_pipeline_close(tsr_pipeline *p)
{
  if (!p) return TSR_OK;
  if (p->inert && !p->locks) return p->status ? p->status : TSR_EARG;
  tsr__ring_close(p);
  p->closed = true;
  return p->status;
}

bool tsr_pipeline_stopping(const tsr_pipeline *p)
{
  return !p || atomic_load_explicit(&p->stop, memory_order_relaxed);
}

int64_t tsr_pipeline_batch_count(const tsr_pipeline *p)
{
  return p ? p->batches : 0;
}

/* A line of seconds. */
static void add_seconds(tsr__text *out, const char *name, int64_t nanoseconds, const char *of)
{
  char number[64];
  number[tsr__text_decimals(number, sizeof number, (double)nanoseconds * 1e-9, 'f', 3)] = 0;
  tsr__text_add(out, "%-9s %s s%s\n", name, number, of);
}

static void figures(tsr_pipeline *p, tsr__text *out)
{
  int64_t open = tsr__now() - p->opened_at;
  tsr__records_about(p->source, out);
  tsr__text_add(out, "\nbatches   %lld of %lld records; %lld an epoch\n",
                (long long)(p->delivered - p->from), (long long)p->args.batch_size,
                (long long)p->batches);
  tsr__text_add(out, "records   %lld, %lld bytes\n", (long long)p->records, (long long)p->bytes);
  add_seconds(out, "open", open, "");
  add_seconds(out, "waited", p->waited, " in tsr_pipeline_next");
  add_seconds(out, "filled", atomic_load(&p->filled), " over all threads");
  tsr__text_add(out, "slower    %s\n",
                p->waited > open / 10
                    ? "the pipeline: what uses batches waits for them"
                    : "what uses batches: they are there before they are asked for");
}

const char *tsr_pipeline_text(tsr_pipeline *p)
{
  if (!p || p->inert) return "";
  tsr_scope *scope = p->node.scope;
  tsr__text text;
  tsr__text_init(&text, &scope->rt->heap);
  figures(p, &text);
  const char *kept =
      text.failed ? NULL : tsr__arena_text(&scope->arena, tsr__text_get(&text), text.length);
  tsr__text_free(&text);
  return kept ? kept : "";
}

/* ---- batches --------------------------------------------------------------------------------- */

tsr_array *tsr_batch_field_at(tsr_batch *b, const char *name, const char *site)
{
  if (!b) return tsr__make_inert(NULL, site);
  TSR__CALL(b->node.scope, "batch_field");
  return tsr_field_at(b->tree, name, site);
}

tsr_array *tsr_batch_tree(tsr_batch *b)
{
  return b ? b->tree : tsr__make_inert(NULL, NULL);
}

tsr_array *tsr_batch_mask(tsr_batch *b)
{
  return b ? b->mask : tsr__make_inert(NULL, NULL);
}

int64_t tsr_batch_count(const tsr_batch *b)
{
  return b ? b->records : 0;
}

int64_t tsr_batch_row_count(const tsr_batch *b)
{
  return b ? b->rows : 0;
}

int64_t tsr_batch_epoch(const tsr_batch *b)
{
  return b ? b->epoch : 0;
}

int64_t tsr_batch_index(const tsr_batch *b)
{
  return b ? b->index : 0;
}

const int64_t *tsr_batch_ids(const tsr_batch *b)
{
  return b ? b->ids : NULL;
}

tsr_scope *tsr_batch_scope(const tsr_batch *b)
{
  return b ? b->node.scope : NULL;
}

void tsr_batch_release(tsr_batch *b)
{
  if (b) tsr_scope_close(b->node.scope);
}
