/* Branches of one source side by side, of which each record is read once.
 *
 *   tar ---- decode ---+--- crop a ---+
 *                      |              +---> merge        `shared` is decode: the nearest stage
 *                      +--- crop b ---+                  that all branches read
 *
 * While a block is read the records of `shared` are kept in a room, whole: the first branch that
 * asks for one has it made, and the others find it there. Fields that nobody asks for are made as
 * well, since a function makes all that it makes at once.
 *
 * Blocks are cut so that all records of one fit the room. Positions are what is compared, as
 * branches may ask in other portions than each other, and orders in them turn all alike. */
#include "pipeline/stage.h"
#include "pipeline/stage_many.h"

struct tsr__once {
  const tsr_source *source;
  tsr__room room;
  int64_t count, near;    /* records that are kept; behind the one found last */
  int64_t at[TSR__BLOCK]; /* positions, in the order in which they were asked for first */
};

/* ---- records that are kept for a block ------------------------------------------------------- */

const tsr_source *tsr__once_source(const tsr__once *once)
{
  return once->source;
}

/* The place of a record in the room; -1: it is not there. */
static int64_t place_of(tsr__once *once, int64_t at)
{
  /* Branches mostly ask in one order, so that the next one is meant. */
  for (int64_t i = 0; i < once->count; i++) {
    int64_t k = once->near + i < once->count ? once->near + i : once->near + i - once->count;
    if (once->at[k] != at) continue;
    once->near = k + 1;
    return k;
  }
  return -1;
}

/* Copies what is in the room to where it was asked for. */
static void hand_out(const tsr__once *once, const tsr__ask_rows *ask, const int64_t *place)
{
  for (int c = 0; c < once->source->column_count; c++) {
    const tsr__cell *from = &once->room.cells[c];
    for (int64_t i = 0; ask->cells[c].data && i < ask->count; i++)
      if (place[i] >= 0)
        memcpy(tsr__cell_of(ask, c, i), from->data + (size_t)place[i] * from->stride,
               once->source->columns[c].bytes);
  }
}

/* asked 5 9 2     kept | 5 | 2 | . |     9 is lacking and goes to the next place
 *
 * A room that is full begins anew with all of the question, so that what is handed out is there at
 * once. */
tsr_status tsr__once_read(tsr__once *once, const tsr__ask_rows *ask, tsr__error *error)
{
  int64_t place[TSR__BLOCK], to[TSR__BLOCK], had = once->count;
  tsr__ask_rows lacking = *ask;
  lacking.once = NULL;
  /* A branch asks for one record below for each of its own, and these are as many as fit. */
  if (ask->count > once->room.rows) return tsr__records_read(once->source, &lacking, error);
  for (int64_t i = 0; i < ask->count; i++) {
    place[i] = place_of(once, ask->at[i]);
    if (place[i] >= 0) continue;
    if (once->count == once->room.rows) {
      had = once->count = once->near = 0; /* what was kept is forgotten */
      i = -1;
      continue;
    }
    place[i] = once->count;
    once->at[once->count++] = ask->at[i];
  }
  lacking.at = once->at + had;
  lacking.place = to;
  lacking.count = once->count - had;
  lacking.cells = once->room.cells;
  lacking.partial = false;
  for (int64_t k = had; k < once->count; k++) to[k - had] = k;
  if (!tsr__records_read(once->source, &lacking, error)) hand_out(once, ask, place);
  return error->status;
}

/* ---- merge ----------------------------------------------------------------------------------- */

/* A room a block: what one block's branches have in common is read for it alone, so that threads
 * share nothing. */
static tsr_status read_merge(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const tsr_source *shared = ((const tsr__many *)source)->shared;
  tsr__once once;
  if (!shared) return tsr__beside_read(source, ask, error);
  if (tsr__room_open(&once.room, shared, tsr__all_columns, 0, error)) return error->status;
  once.source = shared;
  for (int64_t first = 0, n; first < ask->count && !error->status; first += n) {
    int64_t place[TSR__BLOCK] = { 0 };
    tsr__ask_rows some = *ask;
    n = ask->count - first < once.room.rows ? ask->count - first : once.room.rows;
    for (int64_t i = 0; i < n; i++) place[i] = tsr__place_of(ask, first + i);
    some.at = ask->at + first;
    some.place = place;
    some.count = n;
    some.once = &once;
    once.count = once.near = 0;
    tsr__beside_read(source, &some, error);
  }
  tsr__room_close(&once.room);
  return error->status;
}

static const tsr__records_ops merge_ops = { "merge", read_merge, tsr__beside_ids,  tsr__many_about,
                                            NULL,    NULL,       tsr__beside_where };

/* What lies below a source in one line, down to a leaf or to where several meet; NULL: no more. */
static const tsr_source *below(const tsr_source *source)
{
  return source->child_count == 1 ? source->children[0] : NULL;
}

/* Whether `source` is what a branch reads in the end, in one line down from it. */
static bool reads(const tsr_source *branch, const tsr_source *source)
{
  while (branch && branch != source) branch = below(branch);
  return branch != NULL;
}

/* Records in memory are not kept anew: they are copied from there as they would be from here. Nor
 * are those of files that differ in length: a branch reads as much as there is, and the room would
 * have as much as there may be. */
static bool worth_keeping(const tsr_source *source)
{
  int64_t first = 0;
  tsr__ask_rows ask = { .at = &first, .count = 1 };
  const char *to;
  if (!source->count) return false;
  for (int c = 0; c < source->column_count; c++)
    if (tsr__records_lend(source, c, &ask, &to)) return false;
  /* What only hands records on can lend what lies below, and so does a map, which does not. */
  while (source->child_count == 1 && source->ops->lend && strcmp(source->ops->kind, "map") != 0)
    source = source->children[0];
  for (int c = 0; !source->child_count && c < source->column_count; c++)
    if (tsr__length_find(source, source->columns[c].name) >= 0) return false;
  return true;
}

static const tsr_source *shared_of(tsr_source *const *branches, int count)
{
  for (const tsr_source *s = branches[0]; s; s = below(s)) {
    bool all = true;
    for (int i = 1; i < count; i++) all = all && reads(branches[i], s);
    if (all) return worth_keeping(s) ? s : NULL;
  }
  return NULL;
}

/* Whether position after position two sources have the same records; of very long ones the first
 * and the last are compared. */
static tsr_status same_records(const tsr_source *a, const tsr_source *b, tsr__error *error)
{
  const int64_t most = 1 << 20;
  for (int64_t epoch = 0; epoch < 2; epoch++)
    for (int64_t first = 0, n; first < a->count; first += n) {
      int64_t at[TSR__BLOCK] = { 0 }, x[TSR__BLOCK], y[TSR__BLOCK];
      /* Orders are arithmetic: where the first million agree, a difference in the middle is hardly
       * meant. */
      if (first == most && a->count > 2 * most) first = a->count - most;
      n = a->count - first < TSR__BLOCK ? a->count - first : TSR__BLOCK;
      for (int64_t i = 0; i < n; i++) at[i] = first + i;
      tsr__records_ids(a, epoch, at, n, x);
      tsr__records_ids(b, epoch, at, n, y);
      for (int64_t i = 0; i < n; i++)
        if (x[i] != y[i])
          return tsr__error_set(error, TSR_EARG,
                                "position %lld of epoch %lld is record %lld in one branch and %lld "
                                "in another, expected the same order in all branches",
                                (long long)at[i], (long long)epoch, (long long)x[i],
                                (long long)y[i]);
    }
  return TSR_OK;
}

/* Down to where a source has records of its own, or is made of several. */
static const tsr_source *origin_of(const tsr_source *source)
{
  while (source->child_count == 1 && source->leaf != source) source = source->children[0];
  return source;
}

/* Whether ids of two sources mean the same records: they are of one source, or of several that are
 * put together in the same way. */
static bool same_origin(const tsr_source *a, const tsr_source *b)
{
  if (a->leaf && a->leaf == b->leaf) return true;
  a = origin_of(a);
  b = origin_of(b);
  if (a == b) return true;
  bool same = a->child_count > 1 && a->ops == b->ops && a->child_count == b->child_count;
  for (int i = 0; same && i < a->child_count; i++)
    same = same_origin(a->children[i], b->children[i]);
  return same;
}

tsr_source *tsr_source_merge_at(tsr_source *const *sources, int count, const char *site)
{
  const char *call = "tsr_source_merge";
  tsr__error error = { 0 };
  if (!tsr__many_check(sources, count, &error))
    return tsr__many_refused(sources, count, call, NULL, site);
  for (int i = 1; i < count && !error.status; i++) {
    if (sources[i]->count != sources[0]->count)
      tsr__error_set(&error, TSR_ESHAPE,
                     "one branch has %lld records and another %lld, expected equally many",
                     (long long)sources[0]->count, (long long)sources[i]->count);
    else if (!same_origin(sources[0], sources[i]))
      tsr__error_set(&error, TSR_EARG,
                     "branch %d has other records than the first branch; use tsr_source_zip to "
                     "join unrelated sources",
                     i);
    else same_records(sources[0], sources[i], &error);
  }
  if (error.status) return tsr__many_refused(sources, count, call, &error, site);
  tsr_source *made = tsr__beside_of(sources, count, call, &merge_ops, site);
  if (!made->inert) ((tsr__many *)made)->shared = shared_of(sources, count);
  return made;
}
