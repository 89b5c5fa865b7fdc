/* Records that a function of the program makes, by position. */
#include "pipeline/records.h"

typedef struct user_source {
  tsr_source source;
  tsr_source_fn *fn;
  void *user;
  const char *name;
} user_source;

/* Record by record, as the program knows no blocks: which fields are wanted it is not told
 * either, so that one function serves all who ask. */
static tsr_status read_user(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const user_source *u = (const user_source *)source;
  tsr__heap *heap = &source->node.scope->rt->heap;
  size_t widest = 1;
  for (int c = 0; c < source->column_count; c++)
    if (source->columns[c].bytes > widest) widest = source->columns[c].bytes;
  /* Each reading has its own: threads call the function side by side, and it may write any field.
   * */
  char *spare = tsr__new_raw(heap, widest); /* for fields that nobody asks for */
  if (!spare) return tsr__error_set(error, TSR_ENOMEM, "no memory for a record");
  for (int64_t i = 0; i < ask->count && !error->status; i++) {
    void *out[TSR__MAX_COLUMNS];
    for (int c = 0; c < source->column_count; c++)
      out[c] = ask->cells[c].data ? tsr__cell_of(ask, c, i) : spare;
    /* The name comes last and goes first: who reads it as not NULL finds the record that belongs to
     * it. */
    if (ask->where) {
      atomic_store_explicit(&ask->where->record, ask->at[i], memory_order_relaxed);
      atomic_store_explicit(&ask->where->name, u->name, memory_order_release);
    }
    tsr_status status = u->fn(ask->at[i], out, u->user);
    if (ask->where) atomic_store_explicit(&ask->where->name, NULL, memory_order_relaxed);
    if (status)
      tsr__error_set(error, status, "%s: record %lld: the function returned %s (%s)", u->name,
                     (long long)ask->at[i], tsr_status_name(status), tsr_status_text(status));
    else if (tsr__records_stop(ask))
      tsr__error_set(error, TSR_ECANCELLED, "the pipeline is being closed");
  }
  tsr__del(heap, spare, widest);
  return error->status;
}

/* Of a function its name is all that a state can compare. */
static void about_user(const tsr_source *source, tsr__text *out)
{
  tsr__text_add(out, "%s", ((const user_source *)source)->name);
}

static const tsr__records_ops user_ops = {
  "callback", read_user, NULL, about_user, NULL, NULL, NULL
};

tsr_source *tsr_source_callback_with(tsr_scope *scope, const tsr_source_callback_args *given,
                                     const char *site)
{
  const char *call = "tsr_source_callback";
  tsr_source_callback_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr__column columns[TSR__MAX_COLUMNS];
  int count = 0;
  if (!scope || scope->inert) return tsr__records_refused(scope, site, call, NULL);
  if (!tsr__take_opts(call, given, &args, sizeof args, &error)) {
    if (!args.fn) tsr__error_set(&error, TSR_EARG, "the function is NULL; give one");
    else if (args.count < 0 || args.count >= INT64_C(1) << 62)
      tsr__error_set(&error, TSR_EARG, "%lld records, expected 0 to 2^62 - 1",
                     (long long)args.count);
    else count = tsr__columns_of(args.fields, columns, &error);
  }
  const char *name = args.name ? args.name : "callback";
  name = tsr__arena_text(&scope->arena, name, strlen(name));
  if (!name) tsr__error_set(&error, TSR_ENOMEM, "no memory for a name");
  if (error.status) return tsr__records_refused(scope, site, call, &error);
  tsr__records_make make = { call,  site, &user_ops, sizeof(user_source), args.count, columns,
                             count, NULL, 0 };
  tsr_source *source = tsr__records_new(scope, &make);
  if (source->inert) return source;
  user_source *u = (user_source *)source;
  u->fn = args.fn;
  u->user = args.user;
  u->name = name;
  /* Then its slices are filled by extra threads alone, and who asks for a batch waits (ring.c). */
  source->blocking = args.blocking;
  return source;
}
