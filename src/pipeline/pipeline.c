/* Pipelines as users see them: opened, asked for batches, closed.
 *
 * A batch is a node of a scope of its own, nested in the pipeline's: its fields are leaves there
 * that take the tray's values over, what a step computes of them lands there too, and releasing the
 * batch closes the scope. */
#include "pipeline/permute.h"
#include "pipeline/pipeline_room.h"
#include "transform/transform.h"

#include "base/events.h"

#include <stdio.h>

struct tsr_batch {
  tsr__node node;
  const tsr_source *source; /* whose fields the tree has; NULL: .map made other ones */
  tsr_array *tree, *mask;
  int64_t epoch, index, records, rows;
  int64_t *ids;
};

static const tsr_pipeline no_pipeline = { .inert = true, .status = TSR_ENOMEM };

/* A scope that closes joins the threads of what lies in it, so that no source goes under them. */
static void release_pipeline(tsr__node *node)
{
  tsr__ring_close((tsr_pipeline *)node);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Fills in what zero stands for, and refuses what cannot be. */
static tsr_status check_args(tsr_pipeline_args *a, tsr__error *error)
{
  const tsr__dealer *dealer = a->source->dealer;
  if (dealer && (a->batch_size || a->shuffle))
    return tsr__error_set(
        error, TSR_EARG,
        "%s is set, but the buckets of '%.80s' have .sizes of their own; leave it out%s",
        a->shuffle ? ".shuffle" : ".batch_size", dealer->field,
        a->shuffle ? " and set .shuffle of tsr_source_bucket" : "");
  /* What zero stands for is filled in before anything is checked or written into states, where a
   * default and the same number given must be one text. */
  if (!a->batch_size) a->batch_size = dealer ? dealer->most : 1;
  if (!a->epochs) a->epochs = 1;
  a->threads = a->threads ? a->threads : 2;
  /* From here on 0 is none, as those who count threads expect. */
  a->threads = a->threads == -1 ? 0 : a->threads;
  a->prefetch = a->prefetch ? a->prefetch : 2;
  if (a->batch_size < 1 || a->batch_size > INT64_C(1) << 40)
    return tsr__error_set(error, TSR_EARG, ".batch_size is %lld records, expected 1 or more",
                          (long long)a->batch_size);
  if (a->epochs < -1)
    return tsr__error_set(error, TSR_EARG, ".epochs is %lld, expected 1 or more, or -1 for endless",
                          (long long)a->epochs);
  if (a->threads < 0 || a->threads > 256)
    return tsr__error_set(error, TSR_EARG,
                          ".threads is %d, expected 1 to 256, 0 for the default 2, or -1 for none",
                          a->threads);
  if (a->prefetch < 0 || a->prefetch > 65536)
    return tsr__error_set(error, TSR_EARG,
                          ".prefetch is %d batches, expected 1 to 65536, or 0 for the default 2",
                          a->prefetch);
  if ((unsigned)a->bad > TSR_BAD_MASK)
    return tsr__error_set(error, TSR_EARG, ".bad is %d, expected a value of tsr_bad_records",
                          (int)a->bad);
  if (a->bad_most < 0)
    return tsr__error_set(error, TSR_EARG,
                          ".bad_most is %lld, expected 1 or more, or 0 for no limit",
                          (long long)a->bad_most);
  if (!(a->bad_share >= 0 && a->bad_share <= 1))
    return tsr__error_set(
        error, TSR_EARG,
        ".bad_share is below 0, above 1 or not a number, expected up to 1, or 0 for no limit");
  if ((unsigned)a->remainder > TSR_ALWAYS_SHORT)
    return tsr__error_set(error, TSR_EARG, ".remainder is %d, expected a value of tsr_remainder",
                          (int)a->remainder);
  return TSR_OK;
}

static tsr_status count_batches(tsr_pipeline *p, tsr__error *error)
{
  const tsr_pipeline_args *a = &p->args;
  int64_t count = p->source->count, whole = count / a->batch_size;
  bool more = count % a->batch_size != 0 && a->remainder != TSR_DROP;
  const tsr__dealer *dealer = p->source->dealer;
  p->batches = whole + more;
  if (dealer) p->batches = a->remainder == TSR_DROP ? dealer->whole : dealer->all;
  p->stream = tsr__stream_of(p->source);
  /* Nobody knows how many there are before the stream ends. */
  if (p->stream) {
    p->batches = -1;
    p->total = INT64_MAX;
    return tsr__stream_check(p->stream, a, error);
  }
  if (a->epochs == -1) p->total = p->batches ? INT64_MAX : 0;
  /* Batches are numbered over all epochs. */
  else if (p->batches && a->epochs > INT64_MAX / p->batches)
    return tsr__error_set(
        error, TSR_EARG,
        "%lld epochs of %lld batches are more than 2^63 batches; set .epochs to -1 for endless",
        (long long)a->epochs, (long long)p->batches);
  else p->total = p->batches * a->epochs;
  return TSR_OK;
}

/* Where bad records are counted. Skipped ones would leave processes of one mesh with batches of
 * different sizes. */
static tsr_status open_book(tsr_pipeline *p, tsr__error *error)
{
  if (p->args.bad == TSR_BAD_FAIL) return TSR_OK;
  if (p->args.bad == TSR_BAD_SKIP && p->apart)
    return tsr__error_set(
        error, TSR_EARG,
        "bad records cannot be skipped where some devices belong to other processes; use "
        "TSR_BAD_SUBSTITUTE or TSR_BAD_MASK, which keep batch sizes equal");
  if (p->args.bad == TSR_BAD_SUBSTITUTE && p->stream)
    return tsr__error_set(error, TSR_EARG,
                          "a bad record of a stream cannot be replaced by another record; use "
                          "TSR_BAD_MASK or TSR_BAD_SKIP");
  /* Without a policy there is no book, which is how the others ask for one. */
  p->book = tsr__arena_new(&p->node.scope->arena, sizeof *p->book);
  if (!p->book) return tsr__error_set(error, TSR_ENOMEM, "no memory for counting bad records");
  return TSR_OK;
}

/* An inert pipeline, which gives the status of what went wrong in its scope when it is closed. */
static tsr_pipeline *refuse(tsr_scope *scope, const char *site, const tsr__error *error)
{
  if (!scope) tsr__fail_null("tsr_pipeline_open", "source", site);
  if (!scope || scope->inert) return (tsr_pipeline *)&no_pipeline;
  /* Without an error the scope has one already, and the first is the one to be read. */
  if (error) tsr__fail(scope, site, error->status, "tsr_pipeline_open: %s", error->text);
  tsr_pipeline *p = tsr__node_new(scope, sizeof *p, site, NULL);
  if (!p) return (tsr_pipeline *)&no_pipeline;
  p->inert = true;
  p->status = tsr_scope_status(scope);
  return p;
}

/* What the scope of an inert source says; it has been recorded there. */
static tsr_status of_source(const tsr_source *source, tsr__error *error)
{
  if (!source->inert) return TSR_OK;
  tsr_status status = tsr_scope_status(source->node.scope);
  return tsr__error_set(error, status ? status : TSR_EARG, "%.900s",
                        tsr_message(source->node.scope));
}

static tsr_status of_map(const tsr_function *map, tsr__error *error)
{
  if (!map || !map->inert) return TSR_OK;
  const tsr_scope *failed = tsr__scope_failed(map->node.scope);
  return tsr__error_set(error, failed ? failed->status : TSR_ESTATE,
                        "the map is the result of a failed call: %.900s",
                        failed ? failed->message : "the error was cleared; make the map again");
}

/* A pipeline that is not begun yet; NULL with the error set. */
static tsr_pipeline *make_pipeline(tsr_scope *scope, tsr_pipeline_args *args, const char *site,
                                   tsr__error *error)
{
  tsr_source *source = args->source;
  if (of_source(source, error) || of_map(args->map, error) || check_args(args, error)) return NULL;
  bool apart = tsr__is_apart(scope->rt, args);
  /* Over processes every device has a part of every batch, which a short one may not have. */
  if (args->remainder == TSR_KEEP_SHORT && apart) args->remainder = TSR_PAD_AND_MASK;
  if (args->remainder == TSR_ALWAYS_SHORT) args->remainder = TSR_KEEP_SHORT;
  if (args->shuffle) {
    tsr_shuffle_args all = { .size = sizeof all, .source = source, .seed = args->seed };
    /* A stage like any other, so that states and figures show it. */
    source = tsr_source_shuffle_with(&all, site);
    if (of_source(source, error)) return NULL;
  }
  tsr_pipeline *p = tsr__node_new(scope, sizeof *p, site, release_pipeline);
  if (!p) return tsr__error_set(error, TSR_ENOMEM, "no memory for a pipeline"), NULL;
  p->source = source;
  p->args = *args;
  p->apart = apart;
  p->opened_at = tsr__now();
  /* The state last: what it says is compared with all that decides batches. */
  if (!count_batches(p, error) && !tsr__place_columns(p, args, error) && !open_book(p, error) &&
      args->state)
    tsr__state_load(p, args->state, args->state_size, error);
  return p;
}

tsr_pipeline *tsr_pipeline_open_with(const tsr_pipeline_args *given, const char *site)
{
  tsr_pipeline_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  if (!given || !given->source) return refuse(NULL, site, NULL);
  tsr_scope *scope = tsr__scope_here(given->source->node.scope);
  if (!scope || scope->inert) return refuse(NULL, site, NULL);
  /* Of a runtime that failed to open there are no devices to fill; its scopes have said why. */
  if (scope->rt->error.status) return refuse(scope, site, NULL);
  if (tsr__take_opts("tsr_pipeline_open", given, &args, sizeof args, &error))
    return refuse(scope, site, &error);
  tsr_pipeline *p = make_pipeline(scope, &args, site, &error);
  /* Also by who failed: the others wait for it there, and are to hear why. */
  tsr__agree_open(scope->rt, &args, p, &error);
  if (!p) return refuse(scope, site, &error);
  if (error.status || tsr__ring_open(p, &error)) {
    tsr__fail(scope, site, error.status, "tsr_pipeline_open: %s", error.text);
    p->inert = true;
    p->status = error.status;
  }
  return p;
}

/* ---- the next batch -------------------------------------------------------------------------- */

static bool is_taken(const tsr_source *source, int c, const tsr_field_args *before,
                     const char *name)
{
  for (int k = 0; k < c; k++)
    if (!strcmp(before[k].name, name)) return true;
  return tsr__column_find(source->columns, source->column_count, name) >= 0;
}

/* What the part of a tree is called that has a field: names of trees have fewer characters, and one
 * that would be called as another is has a number behind. NULL: no memory. */
static const char *part_name(const tsr_source *source, int c, const tsr_field_args *before,
                             tsr_scope *scope)
{
  const char *own = source->columns[c].name;
  size_t length = strlen(own), room = length + 16;
  char *name = tsr__arena_new(&scope->arena, room);
  if (!name) return NULL;
  memcpy(name, own, length);
  tsr__name_clean(name);
  /* Names that trees take stay what they are, whoever comes first. */
  if (!strcmp(name, own)) return own;
  for (int i = 1; is_taken(source, c, before, name); i++)
    snprintf(name + length, room - length, "_%d", i);
  return name;
}

/* Leaves of the tray's values, in the batch's scope, as a tree. */
static tsr_array *tree_of(tsr_pipeline *p, tsr__tray *tray, tsr_scope *scope, const char *site)
{
  const tsr_source *source = p->source;
  tsr_field_args fields[TSR__MAX_COLUMNS];
  for (int c = 0; c < source->column_count; c++) {
    fields[c].name = part_name(source, c, fields, scope);
    if (!fields[c].name) {
      tsr__fail(scope, site, TSR_ENOMEM, "tsr_pipeline_next: no memory for the name of a field");
      return tsr__make_inert(scope, site);
    }
    tsr__value *value = tray->values[c];
    /* The leaf has taken it over, so the tray must not release it. */
    tray->values[c] = NULL;
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
  /* Without padding all rows are records: a constant, which takes no memory until it is asked for.
   * */
  if (value) return tsr__make_leaf(scope, TSR_BOOL, &shape, &p->mask_on, value, site);
  return tsr_full_at(scope, tsr_operand_bool(true), TSR_BOOL, shape, p->mask_on, site);
}

/* Ids go to the batch, and into what the order of the epoch hashes to. */
static tsr_status take_ids(tsr_pipeline *p, tsr__tray *tray, tsr_batch *b)
{
  if (!tray->ids) return TSR_OK;
  /* The hash is of an epoch, so that two of them can be compared; a state carries it in the middle.
   * */
  if (!tray->index) p->order = 0;
  size_t bytes = (size_t)tray->rows * sizeof *b->ids;
  b->ids = tsr__arena_raw(&b->node.scope->arena, bytes + 1);
  if (!b->ids) return TSR_ENOMEM;
  memcpy(b->ids, tray->ids, bytes);
  /* The order says which records were due, whether or not they could be read; skipped ones left
   * none. */
  int f = 0, faults = p->args.bad == TSR_BAD_SKIP ? 0 : tray->fault_count;
  for (int64_t i = 0; i < tray->records; i++) {
    bool bad = f < faults && tray->faults[f].row == i;
    p->order = tsr__mix(p->order, (uint64_t)(bad ? tray->faults[f++].id : b->ids[i]));
  }
  return TSR_OK;
}

/* Those that are no masked rows. */
static int64_t real_records(const tsr_pipeline *p, const tsr__tray *tray)
{
  return tray->records - (p->args.bad == TSR_BAD_MASK ? tray->fault_count : 0);
}

/* The batch of a filled tray; NULL with the scope's error set. */
static tsr_batch *batch_of(tsr_pipeline *p, tsr__tray *tray, const char *site)
{
  /* What a step makes of a batch lands in this scope too, and goes with it. */
  tsr_scope *scope = tsr_scope_nest_at(p->node.scope, site);
  if (!scope->inert) scope->tells = true;
  tsr_batch *b = tsr__node_new(scope, sizeof *b, site, NULL);
  if (!b || take_ids(p, tray, b)) {
    tsr__fail(p->node.scope, site, TSR_ENOMEM, "tsr_pipeline_next: no memory for a batch");
    tsr_scope_close(scope);
    return NULL;
  }
  b->source = p->args.map ? NULL : p->source;
  b->epoch = tray->epoch;
  b->index = tray->index;
  b->records = real_records(p, tray);
  b->rows = tray->rows;
  b->tree = tree_of(p, tray, scope, site);
  b->mask = mask_of(p, tray, scope, site);
  /* Traced, not run: the step's program takes it in and fuses it. */
  if (p->args.map) b->tree = tsr_call_at(p->args.map, &b->tree, 1, site);
  tsr_status status = tsr_scope_status(scope);
  if (!status) return b;
  tsr__fail(p->node.scope, NULL, status, "%s", tsr_message(scope));
  tsr_scope_close(scope);
  return NULL;
}

static void end_with(tsr_pipeline *p, const tsr__error *error, const char *site)
{
  p->status = error->status;
  tsr__fail(p->node.scope, site, error->status, "tsr_pipeline_next: %s", error->text);
}

/* The tray of the next batch that has a record; NULL: the end, or the status says why. */
static tsr__tray *next_tray(tsr_pipeline *p, const char *site)
{
  tsr__error error = { 0 };
  tsr__tray *tray = NULL;
  /* Once around, but for batches all of whose records were skipped, which nobody gets to see. */
  for (bool some = false; !some;) {
    /* The end is no error: the status stays as it is. */
    if (p->delivered == p->total) return NULL;
    tray = tsr__ring_take(p);
    if (!tray && p->delivered == p->total) return NULL; /* a stream's end */
    if (!tray) {
      tsr__cancelled(&error, "tsr_pipeline_next");
      p->status = error.status;
      tsr__fail_error(p->node.scope, site, &error);
      return NULL;
    }
    if (tray->error.status) return end_with(p, &tray->error, site), NULL;
    if (tsr__bad_deliver(p, tray, &error)) return end_with(p, &error, site), NULL;
    some = !tray->listed || tray->records;
    if (!some) tsr__ring_give(p, tray); /* all of its records were skipped */
  }
  return tray;
}

/* What asks for a batch of which it is to fill a record would wait for itself: such a call gives
 * nothing, and who asked first hears of it. */
static void tell_inside(tsr_pipeline *p, const char *site)
{
  tsr__error error = { 0 };
  tsr__error_set(&error, TSR_ESTATE,
                 "a callback of the pipeline called tsr_pipeline_next of the same pipeline, or two "
                 "threads called it at once; open another pipeline for the callback");
  if (!p->status) end_with(p, &error, site);
}

tsr_batch *tsr_pipeline_next_at(tsr_pipeline *p, const char *site)
{
  if (!p) tsr__fail_null("tsr_pipeline_next", "pipeline", site);
  if (!p || p->inert || p->closed || !tsr__ring_enter(p)) return NULL;
  tsr__tray *tray = p->status ? NULL : next_tray(p, site);
  tsr_batch *b = NULL;
  if (!tsr__ring_leave(p)) tell_inside(p, site);
  else if (tray) {
    p->records += real_records(p, tray);
    for (int c = 0; c < p->source->column_count; c++)
      p->bytes += tray->rows * (int64_t)p->source->columns[c].bytes;
    b = batch_of(p, tray, site);
    /* Given back in any case: the place of the pipeline is behind this batch, as its figures
     * are. */
    if (!b) p->status = tsr_scope_status(p->node.scope);
    tsr__ring_give(p, tray);
  }
  return b;
}

/* ---- the end, and questions ------------------------------------------------------------------ */

tsr_status tsr_pipeline_close(tsr_pipeline *p)
{
  if (!p) return TSR_OK;
  /* One that failed while its ring was opened is inert, and has threads to join. */
  if (p->inert && !p->node.scope)
    return tsr__fail(NULL, NULL, p->status,
                     "tsr_pipeline_close: the pipeline is inert: its own call failed");
  if (p->inert && !p->locks)
    return tsr__fail_inert(tsr__scope_here(p->node.scope), p->node.scope, NULL,
                           "tsr_pipeline_close", "pipeline");
  /* It would join the thread that it is called by. */
  if (tsr__ring_inside(p)) return TSR_ESTATE;
  tsr__ring_close(p);
  p->closed = true;
  if (p->status)
    tsr__fail_inert(tsr__scope_here(p->node.scope), p->node.scope, NULL, "tsr_pipeline_close",
                    "pipeline");
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

/* ---- batches --------------------------------------------------------------------------------- */

tsr_array *tsr_batch_field_at(tsr_batch *b, const char *name, const char *site)
{
  if (!b) return tsr__make_of_null("tsr_batch_field", "batch", site);
  TSR__CALL(b->node.scope, "batch_field");
  const tsr_source *source = b->source;
  int c = source && name ? tsr__column_find(source->columns, source->column_count, name) : -1;
  /* As the source calls it, which trees may not, else as its part of the tree is called. */
  if (c >= 0) return tsr_item_at(b->tree, c, site);
  return tsr_field_at(b->tree, name, site);
}

tsr_array *tsr_batch_tree(tsr_batch *b)
{
  return b ? b->tree : tsr__make_of_null("tsr_batch_tree", "batch", NULL);
}

tsr_array *tsr_batch_mask(tsr_batch *b)
{
  return b ? b->mask : tsr__make_of_null("tsr_batch_mask", "batch", NULL);
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
