/* The records of one source in another order: a part of it, a permutation, several times over.
 *
 * Each is a function of positions (`turn`) and nothing else: a question is turned into one of the
 * source below it, for which the same cells are filled. So orders cost a few instructions a record,
 * hold no records, and can begin anywhere. */
#include "pipeline/permute.h"
#include "pipeline/stage.h"
#include "pipeline/stage_files.h"

typedef struct order_source order_source;

static const double WARN_LOST = 0.9; /* of a filter */

/* Positions in the source below and, where not NULL, their epoch there. */
typedef void turn_fn(const order_source *order, int64_t epoch, const int64_t *at, int64_t count,
                     int64_t *to);

struct order_source {
  tsr_source source;
  turn_fn *turn;
  uint64_t seed;
  /* shuffle: window; slice: start, stop, step; repeat: times in `stop`; lists: room in `stop`. */
  int64_t window, start, stop, step;
  int64_t *list; /* filter, gather: the positions that are left, its own */
};

/* ---- asking below ---------------------------------------------------------------------------- */

/* Places and cells stay as they are: a stage above sees its positions, one below its own, and the
 * record goes from the one to the other without this one in between. */
static tsr_status read_order(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const order_source *order = (const order_source *)source;
  int64_t at[TSR__BLOCK];
  tsr__ask_rows below = *ask;
  order->turn(order, ask->epoch, ask->at, ask->count, at);
  below.at = at;
  return tsr__records_read(source->children[0], &below, error);
}

/* A record has the id that it has below, whatever its position here: that is what makes draws of
 * maps follow it through any order. */
static void ids_order(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                      int64_t *to)
{
  const order_source *order = (const order_source *)source;
  order->turn(order, epoch, at, count, to);
  tsr__records_ids(source->children[0], epoch, to, count, to);
}

static bool lend_order(const tsr_source *source, int column, const tsr__ask_rows *ask,
                       const char **to)
{
  const order_source *order = (const order_source *)source;
  int64_t at[TSR__BLOCK];
  tsr__ask_rows below = *ask;
  order->turn(order, ask->epoch, ask->at, ask->count, at);
  below.at = at;
  return tsr__records_lend(source->children[0], column, &below, to);
}

/* How long a field is at most, where its length follows from which records a batch has. */
static int64_t fit_order(const tsr_source *source, int64_t epoch, int64_t first, int64_t count)
{
  const tsr_source *below = source->children[0];
  int64_t at[TSR__BLOCK], most = 0;
  /* Of no records the stage knows what a batch has then. */
  if (count < 1) return below->fit(below->fitted, epoch, 0, 0);
  for (int64_t done = 0, n; done < count; done += n) {
    n = count - done < TSR__BLOCK ? count - done : TSR__BLOCK;
    for (int64_t i = 0; i < n; i++) at[i] = first + done + i;
    ((const order_source *)source)->turn((const order_source *)source, epoch, at, n, at);
    /* One by one: records that come together here lie anywhere below. */
    for (int64_t i = 0; i < n; i++) {
      int64_t length = below->fit(below->fitted, epoch, at[i], 1);
      if (length > most) most = length;
    }
  }
  return most;
}

/* An order over `source`, with the fields of `like` beside its own. Fields of `like` are copied one
 * by one, as the node's own part is made already. */
static tsr_source *order_of(tsr_source *source, const char *call, const tsr__records_ops *ops,
                            const order_source *like, const char *site)
{
  tsr_source *made = tsr__records_over(source, call, ops, sizeof(order_source), site);
  if (made->inert) return made;
  made->count = like->source.count;
  order_source *order = (order_source *)made;
  order->turn = like->turn;
  order->seed = like->seed;
  order->window = like->window;
  order->start = like->start;
  order->stop = like->stop;
  order->step = like->step;
  /* Repeated ones have no `turn`: their epochs below are others, which fit_order does not know. */
  if (like->turn && source->fitted) {
    made->fitted = made;
    made->fit = fit_order;
    made->fit_column = source->fit_column;
  }
  return made;
}

/* ---- shuffle --------------------------------------------------------------------------------- */

static void turn_all(const order_source *order, int64_t epoch, const int64_t *at, int64_t count,
                     int64_t *to)
{
  tsr__permutation p;
  /* Made anew for each block, rather than kept by epoch: some tens of nanoseconds, and no lock. */
  tsr__permutation_make(&p, tsr__records_isa(&order->source), (uint64_t)order->source.count,
                        order->seed, (uint64_t)epoch);
  tsr__permute(&p, at, to, count);
}

/* Each window is permuted by itself; the last one may be shorter. */
static void turn_windows(const order_source *order, int64_t epoch, const int64_t *at, int64_t count,
                         int64_t *to)
{
  /* The window's number takes the epoch's place, so that windows of one epoch differ too. */
  uint64_t key = tsr__mix(order->seed, (uint64_t)epoch);
  for (int64_t i = 0, n; i < count; i += n) {
    int64_t window = at[i] / order->window, first = window * order->window, inside[TSR__BLOCK];
    /* A window is a permutation of its own length: the last one is not filled up. */
    int64_t left = order->source.count - first;
    tsr__permutation p;
    tsr__permutation_make(&p, tsr__records_isa(&order->source),
                          (uint64_t)(left < order->window ? left : order->window), key,
                          (uint64_t)window);
    /* Neighbours come together, so a permutation is made for a run, not for a record. */
    for (n = 0; i + n < count && at[i + n] / order->window == window; n++)
      inside[n] = at[i + n] - first;
    tsr__permute(&p, inside, inside, n);
    for (int64_t k = 0; k < n; k++) to[i + k] = first + inside[k];
  }
}

static void about_shuffle(const tsr_source *source, tsr__text *out)
{
  const order_source *order = (const order_source *)source;
  tsr__text_add(out, "seed=%llu", (unsigned long long)order->seed);
  if (order->window) tsr__text_add(out, ", window=%lld", (long long)order->window);
}

static const tsr__records_ops shuffle_ops = { "shuffle", read_order, ids_order, about_shuffle,
                                              NULL,      lend_order, NULL };

tsr_source *tsr_source_shuffle_with(const tsr_shuffle_args *given, const char *site)
{
  const char *call = "tsr_source_shuffle";
  tsr_shuffle_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr_source *source = given ? given->source : NULL;
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  if (!tsr__take_opts(call, given, &args, sizeof args, &error) && args.window < 0)
    tsr__error_set(&error, TSR_EARG, ".window is %lld records, expected 1 or more, or 0 for all",
                   (long long)args.window);
  if (!error.status && args.files && !args.window)
    tsr__error_set(&error, TSR_EARG,
                   ".files is set without .window, which would shuffle all records; set .window: 1 "
                   "keeps the order of records in a file");
  if (error.status) return tsr__stage_refused(source, call, &error, site);
  /* Files first, then windows over what comes: records of a few files that are open at once. */
  if (args.files) source = tsr__files_shuffled(source, args.seed, site);
  if (args.files && (source->inert || args.window == 1)) return source;
  /* A window over files is said to be one: files in another order must not become a shuffle of all.
   * */
  bool all = !args.window || (args.window >= source->count && !args.files);
  order_source like = { .source.count = source->count,
                        .turn = all ? turn_all : turn_windows,
                        .seed = args.seed,
                        .window = all ? 0 : args.window };
  tsr_source *made = order_of(source, call, &shuffle_ops, &like, site);
  if (!made->inert) made->by_epoch = true;
  return made;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void turn_slice(const order_source *order, int64_t epoch, const int64_t *at, int64_t count,
                       int64_t *to)
{
  (void)epoch;
  for (int64_t i = 0; i < count; i++) to[i] = order->start + at[i] * order->step;
}

static void about_slice(const tsr_source *source, tsr__text *out)
{
  const order_source *order = (const order_source *)source;
  tsr__text_add(out, "%lld:%lld", (long long)order->start, (long long)order->stop);
  if (order->step != 1) tsr__text_add(out, ":%lld", (long long)order->step);
}

static const tsr__records_ops slice_ops = { "slice", read_order, ids_order, about_slice,
                                            NULL,    lend_order, NULL };

/* Counts a border from the end where it is below 0, and brings it inside. */
static int64_t border(int64_t at, int64_t count)
{
  /* TSR_END first: it is the largest number there is, and no place counted from the end. */
  if (at == TSR_END || at > count) return count;
  if (at < 0) at += count;
  return at < 0 ? 0 : at;
}

tsr_source *tsr_source_slice_at(tsr_source *source, tsr_range range, const char *site)
{
  const char *call = "tsr_source_slice";
  tsr__error error = { 0 };
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  if (range.step < 1)
    tsr__error_set(&error, TSR_EARG, "the step is %lld, expected 1 or more", (long long)range.step);
  if (error.status) return tsr__records_refused(source->node.scope, site, call, &error);
  int64_t start = border(range.start, source->count), stop = border(range.stop, source->count);
  int64_t count = stop > start ? (stop - start - 1) / range.step + 1 : 0;
  order_source like = { .source.count = count,
                        .turn = turn_slice,
                        .start = start,
                        .stop = stop > start ? stop : start,
                        .step = range.step };
  return order_of(source, call, &slice_ops, &like, site);
}

tsr_source *tsr_source_split_with(const tsr_split_args *given, const char *site)
{
  const char *call = "tsr_source_split";
  tsr_split_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr_source *source = given ? given->source : NULL;
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  if (!tsr__take_opts(call, given, &args, sizeof args, &error) &&
      (args.parts < 1 || args.part < 0 || args.part >= args.parts))
    tsr__error_set(&error, TSR_EARG, ".part is %lld of %lld .parts, expected 0 to .parts - 1",
                   (long long)args.part, (long long)args.parts);
  if (error.status) return tsr__stage_refused(source, call, &error, site);
  /* As Grain and JAX deal shards: the first `more` parts have one record more than the others. */
  int64_t each = source->count / args.parts, more = args.drop ? 0 : source->count % args.parts;
  int64_t count = each + (args.part < more), start = args.part;
  /* Neighbours of a file stay together, as reading ahead wants them; strided parts do not. */
  if (!args.strided) start = args.part * each + (args.part < more ? args.part : more);
  int64_t step = args.strided ? args.parts : 1;
  order_source like = { .source.count = count,
                        .turn = turn_slice,
                        .start = start,
                        .stop = start + count * step,
                        .step = step };
  return order_of(source, call, &slice_ops, &like, site);
}

/* ---- filter ---------------------------------------------------------------------------------- */

static void turn_list(const order_source *order, int64_t epoch, const int64_t *at, int64_t count,
                      int64_t *to)
{
  (void)epoch;
  for (int64_t i = 0; i < count; i++) to[i] = order->list[at[i]];
}

/* Which records were kept is what tells two filters apart: of functions there is no text. */
static void about_filter(const tsr_source *source, tsr__text *out)
{
  const order_source *order = (const order_source *)source;
  uint64_t kept = tsr__hash(order->list, (size_t)source->count * sizeof *order->list, 0);
  tsr__text_add(out, "%lld left, %016llx", (long long)source->count, (unsigned long long)kept);
}

static void release_list(tsr_source *source)
{
  order_source *order = (order_source *)source;
  /* `stop` is what the list was allocated for, which a filter does not fill. */
  tsr__numbers_free(&source->node.scope->rt->heap, order->list, order->stop);
}

static const tsr__records_ops filter_ops = { "filter",     read_order, ids_order, about_filter,
                                             release_list, lend_order, NULL };

/* An order by a list that is the source's then, or freed; `room` is what it was allocated for. */
static tsr_source *listed_of(tsr_source *source, const char *call, const tsr__records_ops *ops,
                             const order_source *like, const char *site)
{
  tsr_source *made = order_of(source, call, ops, like, site);
  if (made->inert) tsr__numbers_free(&source->node.scope->rt->heap, like->list, like->stop);
  else ((order_source *)made)->list = like->list;
  return made;
}

/* The records that stay, so far. */
typedef struct keeping {
  const tsr_filter_args *args;
  int64_t *list, kept;
} keeping;

static tsr_status keep_some(void *user, const tsr__room *room, int64_t first, int64_t count,
                            tsr__error *error)
{
  keeping *k = user;
  const tsr_source *source = k->args->source;
  int64_t ids[TSR__BLOCK];
  const void *in[TSR__MAX_COLUMNS];
  (void)error;
  /* Functions are told ids, as in maps: a list that a program has of bad records is one of ids. */
  tsr__scan_ids(source, first, count, ids);
  for (int64_t i = 0; i < count; i++) {
    tsr_record record = { .id = ids[i], .in = in };
    for (int c = 0; c < source->column_count; c++)
      in[c] = room->cells[c].data + (size_t)i * room->cells[c].stride;
    if (k->args->fn(&record, k->args->user)) k->list[k->kept++] = first + i;
  }
  return TSR_OK;
}

/* Nobody knows what the function would say of it. */
static void keep_bad(void *user, int64_t record)
{
  keeping *k = user;
  k->list[k->kept++] = record;
}

static tsr_status check_share(const char *name, double share, tsr__error *error)
{
  if (share >= 0 && share <= 1) return TSR_OK;
  char text[32];
  tsr__text_f64(text, share);
  return tsr__error_set(error, TSR_EARG, ".%s is %s, expected a share from 0 to 1", name, text);
}

static tsr_status check_filter(tsr_filter_args *a, tsr__error *error)
{
  if (!a->fn) return tsr__error_set(error, TSR_EARG, "the function is NULL; give one");
  /* Asked before anything is read, which takes long. */
  if (a->source->by_epoch)
    return tsr__error_set(error, TSR_EARG,
                          "the source is shuffled, so each epoch would keep other records; filter "
                          "before the shuffle");
  if (!check_share("warn_lost", a->warn_lost, error)) check_share("most_lost", a->most_lost, error);
  /* Zero stands for the default, as everywhere: nobody wants to be warned of any record. */
  if (a->warn_lost == 0) a->warn_lost = WARN_LOST;
  return error->status;
}

/* A test that is wrong drops nearly all records, and what trains on the rest says nothing of it. */
static tsr_status check_lost(const tsr_filter_args *a, int64_t kept, tsr__error *error)
{
  long long count = a->source->count, lost = count - kept;
  if (a->most_lost > 0 && (double)lost > a->most_lost * (double)count)
    return tsr__error_set(
        error, TSR_EVALUE,
        "%lld of %lld records were dropped, more than the share that .most_lost allows", lost,
        count);
  if (lost && (double)lost > a->warn_lost * (double)count)
    tsr__log(a->source->node.scope->rt, TSR_LOG_WARN, "pipeline",
             "tsr_source_filter dropped %lld of %lld records; .warn_lost is the share above which "
             "the library warns",
             lost, count);
  return TSR_OK;
}

tsr_source *tsr_source_filter_with(const tsr_filter_args *given, const char *site)
{
  const char *call = "tsr_source_filter";
  tsr_filter_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr_source *source = given ? given->source : NULL;
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  if (tsr__take_opts(call, given, &args, sizeof args, &error) || check_filter(&args, &error))
    return tsr__stage_refused(source, call, &error, site);
  tsr__heap *heap = &source->node.scope->rt->heap;
  keeping k = { .args = &args, .list = tsr__numbers_new(heap, source->count, &error) };
  tsr__scan scan = { source, tsr__all_columns, call, "filter", keep_some, &k, keep_bad };
  if (!error.status && !tsr__scan_all(&scan, &error)) check_lost(&args, k.kept, &error);
  order_source like = {
    .source.count = k.kept, .turn = turn_list, .list = k.list, .stop = source->count
  };
  if (!error.status) return listed_of(scan.source, call, &filter_ops, &like, site);
  tsr__numbers_free(heap, k.list, source->count);
  return tsr__stage_refused(source, call, &error, site);
}

/* ---- a list of the program's ----------------------------------------------------------------- */

static const tsr__records_ops gather_ops = { "gather",     read_order, ids_order, about_filter,
                                             release_list, lend_order, NULL };

static tsr_status check_places(const tsr_source *source, const int64_t *places, int64_t count,
                               tsr__error *error)
{
  if (count < 0 || (count && !places))
    return tsr__error_set(error, TSR_EARG, "there are %lld positions%s, expected 0 or more",
                          (long long)count, count < 0 ? "" : " that are NULL");
  for (int64_t i = 0; i < count; i++)
    if (places[i] < 0 || places[i] >= source->count)
      return tsr__error_set(error, TSR_EARG,
                            "position %lld of the list is %lld, expected 0 to %lld", (long long)i,
                            (long long)places[i], (long long)(source->count - 1));
  return TSR_OK;
}

tsr_source *tsr_source_gather_at(tsr_source *source, const int64_t *places, int64_t count,
                                 const char *site)
{
  const char *call = "tsr_source_gather";
  tsr__error error = { 0 };
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  /* Checked here, once: whoever reads a position below relies on its being one. */
  if (check_places(source, places, count, &error))
    return tsr__stage_refused(source, call, &error, site);
  int64_t *list = tsr__numbers_new(&source->node.scope->rt->heap, count, &error);
  if (!list) return tsr__stage_refused(source, call, &error, site);
  /* Copied: programs make such lists in memory of their own, and change them for the next epoch. */
  if (count) memcpy(list, places, (size_t)count * sizeof *list);
  order_source like = { .source.count = count, .turn = turn_list, .list = list, .stop = count };
  return listed_of(source, call, &gather_ops, &like, site);
}

/* ---- again ----------------------------------------------------------------------------------- */

/* Positions of the r-th time are asked of another epoch below, so runs of one time go together. */
static tsr_status read_repeat(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const order_source *order = (const order_source *)source;
  int64_t at[TSR__BLOCK], place[TSR__BLOCK], each = source->children[0]->count, n;
  for (int64_t i = 0; i < ask->count && !error->status; i += n) {
    /* `each` is not 0 here: nothing times any number has no positions. */
    int64_t time = ask->at[i] / each;
    for (n = 0; i + n < ask->count && ask->at[i + n] / each == time; n++) {
      at[n] = ask->at[i + n] - time * each;
      place[n] = tsr__place_of(ask, i + n);
    }
    tsr__ask_rows below = *ask;
    below.epoch = ask->epoch * order->stop + time;
    below.at = at;
    below.place = place;
    below.count = n;
    tsr__records_read(source->children[0], &below, error);
  }
  return error->status;
}

static void ids_repeat(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                       int64_t *to)
{
  const order_source *order = (const order_source *)source;
  int64_t each = source->children[0]->count;
  for (int64_t i = 0; i < count; i++) {
    int64_t time = at[i] / each, inside = at[i] - time * each;
    tsr__records_ids(source->children[0], epoch * order->stop + time, &inside, 1, &to[i]);
  }
}

static void about_repeat(const tsr_source *source, tsr__text *out)
{
  tsr__text_add(out, "%lld", (long long)((const order_source *)source)->stop);
}

static const tsr__records_ops repeat_ops = { "repeat", read_repeat, ids_repeat, about_repeat,
                                             NULL,     NULL,        NULL };

tsr_source *tsr_source_repeat_at(tsr_source *source, int64_t times, const char *site)
{
  const char *call = "tsr_source_repeat";
  tsr__error error = { 0 };
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  /* Positions and epochs below are products with `times`, with room for sums. */
  int64_t most = source->count ? (INT64_C(1) << 61) / source->count : INT64_MAX;
  if (times < 0 || times > most)
    tsr__error_set(&error, TSR_EARG,
                   "%lld repeats of %lld records, expected 0 to 2^61 records in all",
                   (long long)times, (long long)source->count);
  if (error.status) return tsr__records_refused(source->node.scope, site, call, &error);
  order_source like = { .source.count = source->count * times, .stop = times };
  return order_of(source, call, &repeat_ops, &like, site);
}
