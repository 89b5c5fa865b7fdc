/* Each record as several, or none: a function says how many, another makes them.
 *
 *   below    r0      r1   r2     r3          counts 2 0 1 3
 *   above    a0 a1        c0     d0 d1 d2    start: 0, 2, 2, 3, 6
 *
 * The counts are asked for once, so that what is made has a number and is read by position: the
 * record below is found by its start, and read once for those of its parts that go together. */
#include "pipeline/permute.h"
#include "pipeline/stage.h"

typedef struct flat_source {
  tsr_source source;
  int64_t *start; /* [records below + 1] */
  int from[TSR__MAX_COLUMNS];
  int made;      /* the first column that the function makes */
  size_t widest; /* bytes of a made column, where nobody asks for it */
  tsr_flat_map_args args;
  const char *name;
} flat_source;

/* Parts of records in a room, to be made. */
typedef struct parting {
  const flat_source *f;
  const tsr__ask_rows *ask;
  const tsr__room *room;
  int64_t id, slot;  /* of the record, and where it is in the room */
  int64_t part, row; /* which of its parts, and which row of the question */
  char *spare;
} parting;

static tsr_status make_part(const parting *p, tsr__error *error)
{
  const flat_source *f = p->f;
  const tsr_source *below = f->source.children[0];
  const void *in[TSR__MAX_COLUMNS];
  void *out[TSR__MAX_COLUMNS];
  bool wanted = false;
  for (int c = 0; c < below->column_count; c++)
    in[c] = p->room->cells[c].data + (size_t)p->slot * p->room->cells[c].stride;
  for (int c = 0; c < f->source.column_count; c++) {
    bool here = p->ask->cells[c].data;
    void *to = here ? tsr__cell_of(p->ask, c, p->row) : p->spare;
    if (c < f->made && here) memcpy(to, in[f->from[c]], f->source.columns[c].bytes);
    if (c < f->made) continue;
    /* The function always has somewhere to write, whether or not anybody asks for this field. */
    out[c - f->made] = to;
    wanted = wanted || here;
  }
  if (!wanted) return TSR_OK;
  tsr_record record = { .id = p->id, .epoch = p->ask->epoch, .in = in, .out = out };
  /* Draws of a part follow from the record below, not from the part's own number, which changes
   * with the counts of records before it. */
  uint64_t key = tsr__mix(f->args.seed, (uint64_t)record.epoch);
  record.draw[0] = tsr__mix(tsr__mix(key, (uint64_t)record.id), (uint64_t)p->part);
  record.draw[1] = tsr__mix(record.draw[0], f->args.seed);
  tsr__where *where = p->ask->where;
  if (where) {
    atomic_store_explicit(&where->record, record.id, memory_order_relaxed);
    atomic_store_explicit(&where->name, f->name, memory_order_release);
  }
  tsr_status status = f->args.fn(&record, p->part, f->args.user);
  if (where) atomic_store_explicit(&where->name, NULL, memory_order_relaxed);
  if (status)
    return tsr__error_set(error, status,
                          "%s: part %lld of record %lld of epoch %lld: the function returned %s "
                          "(%s)",
                          f->name, (long long)p->part, (long long)record.id,
                          (long long)record.epoch, tsr_status_name(status),
                          tsr_status_text(status));
  /* Behind each part, since nobody knows how long one takes. */
  if (tsr__records_stop(p->ask))
    return tsr__error_set(error, TSR_ECANCELLED, "the pipeline is being closed");
  return TSR_OK;
}

/* The parts from `first` on whose records fit the room; returns how many. */
static int64_t make_some(const flat_source *f, parting *p, int64_t first, tsr__error *error)
{
  const tsr_source *below = f->source.children[0];
  int64_t at[TSR__BLOCK], ids[TSR__BLOCK], slot[TSR__BLOCK], n = 0;
  tsr__ask_rows ask = *p->ask;
  ask.count = 0;
  for (; first + n < p->ask->count; n++) {
    /* Records without parts begin where the next one does, and are never the last that does. */
    int64_t parent = tsr__numbers_find(f->start, below->count, p->ask->at[first + n]);
    if (!ask.count || at[ask.count - 1] != parent) {
      if (ask.count == p->room->rows) break;
      at[ask.count++] = parent;
    }
    /* Parts of one record that stand together are made of one reading of it. */
    slot[n] = ask.count - 1;
  }
  if (tsr__room_read(p->room, below, &ask, at, error)) return n;
  tsr__records_ids(below, ask.epoch, at, ask.count, ids);
  for (int64_t i = 0; i < n && !error->status; i++) {
    p->slot = slot[i];
    p->id = ids[p->slot];
    p->row = first + i;
    p->part = p->ask->at[p->row] - f->start[at[slot[i]]];
    make_part(p, error);
  }
  return n;
}

static tsr_status read_flat(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const flat_source *f = (const flat_source *)source;
  tsr__heap *heap = &source->node.scope->rt->heap;
  tsr__room room;
  if (tsr__room_open(&room, source->children[0], tsr__all_columns, 0, error)) return error->status;
  parting p = { .f = f, .ask = ask, .room = &room, .spare = tsr__new_raw(heap, f->widest) };
  if (!p.spare) tsr__error_set(error, TSR_ENOMEM, "%s: no memory for a record", f->name);
  for (int64_t first = 0; first < ask->count && !error->status;)
    first += make_some(f, &p, first, error);
  tsr__del(heap, p.spare, f->widest);
  tsr__room_close(&room);
  return error->status;
}

static void about_flat(const tsr_source *source, tsr__text *out)
{
  const flat_source *f = (const flat_source *)source;
  size_t bytes = ((size_t)source->children[0]->count + 1) * sizeof *f->start;
  for (int c = f->made; c < source->column_count; c++) {
    if (c > f->made) tsr__text_add(out, ", ");
    tsr__column_text(&source->columns[c], out);
  }
  tsr__text_add(out, "; %s, seed=%llu, %lld records, %016llx", f->name,
                (unsigned long long)f->args.seed, (long long)source->count,
                (unsigned long long)tsr__hash(f->start, bytes, 0));
}

static void release_flat(tsr_source *source)
{
  flat_source *f = (flat_source *)source;
  tsr__numbers_free(&source->node.scope->rt->heap, f->start, source->children[0]->count + 1);
}

static const tsr__records_ops flat_ops = { "flat_map",   read_flat, NULL, about_flat,
                                           release_flat, NULL,      NULL };

/* ---- making one ------------------------------------------------------------------------------ */

typedef struct counting {
  const tsr_flat_map_args *args;
  const char *name;
  int64_t *start;
} counting;

static tsr_status count_some(void *user, const tsr__room *room, int64_t first, int64_t count,
                             tsr__error *error)
{
  counting *k = user;
  const tsr_source *source = k->args->source;
  int64_t ids[TSR__BLOCK];
  const void *in[TSR__MAX_COLUMNS];
  tsr__scan_ids(source, first, count, ids);
  for (int64_t i = 0; i < count && !error->status; i++) {
    tsr_record record = { .id = ids[i], .in = in };
    for (int c = 0; c < source->column_count; c++)
      in[c] = room->cells[c].data + (size_t)i * room->cells[c].stride;
    int64_t parts = k->args->count(&record, k->args->user), *start = k->start + first + i;
    if (parts < 0 || parts > (INT64_C(1) << 61) - *start)
      tsr__error_set(error, TSR_EVALUE,
                     "%s: record %lld: .count returned %lld records, expected 0 or more, and 2^61 "
                     "in all at most",
                     k->name, (long long)ids[i], (long long)parts);
    /* Sums as they come: no second list of counts. */
    else start[1] = *start + parts;
  }
  return error->status;
}

/* One part, which is bad as the record is. */
static void count_bad(void *user, int64_t record)
{
  int64_t *start = ((counting *)user)->start + record;
  start[1] = start[0] + 1;
}

/* The columns that stay, then those that are made. */
static int flat_columns(const tsr_flat_map_args *a, tsr__column *columns, flat_source *like,
                        tsr__error *error)
{
  const tsr_source *source = a->source;
  tsr__column own[TSR__MAX_COLUMNS];
  int made = tsr__columns_of(a->fields, own, error), count = 0;
  like->widest = 1;
  for (int c = 0; made && c < source->column_count; c++) {
    if (tsr__column_find(own, made, source->columns[c].name) >= 0) continue;
    like->from[count] = c;
    columns[count++] = source->columns[c];
  }
  like->made = count;
  if (count + made > TSR__MAX_COLUMNS)
    return tsr__error_set(error, TSR_EARG, "more than %d fields", TSR__MAX_COLUMNS), 0;
  for (int i = 0; i < made; i++) {
    if (own[i].bytes > like->widest) like->widest = own[i].bytes;
    columns[count++] = own[i];
  }
  return count;
}

static int check_flat(const tsr_flat_map_args *a, tsr__column *columns, flat_source *like,
                      tsr__error *error)
{
  if (!a->fn || !a->count)
    tsr__error_set(error, TSR_EARG, "%s is NULL; give a function",
                   a->fn ? ".count, the number of records made of one record," : "the function");
  else if (!tsr__scan_check(a->source, error)) return flat_columns(a, columns, like, error);
  return 0;
}

tsr_source *tsr_source_flat_map_with(const tsr_flat_map_args *given, const char *site)
{
  const char *call = "tsr_source_flat_map";
  tsr_flat_map_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr__column columns[TSR__MAX_COLUMNS];
  flat_source like = { 0 };
  int fields = 0;
  tsr_source *source = given ? given->source : NULL;
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  tsr_scope *scope = source->node.scope;
  tsr_source *below = source;
  tsr__heap *heap = &scope->rt->heap;
  if (!tsr__take_opts(call, given, &args, sizeof args, &error))
    fields = check_flat(&args, columns, &like, &error);
  const char *name = args.name ? args.name : "flat_map";
  like.name = tsr__arena_text(&scope->arena, name, strlen(name));
  if (!like.name) tsr__error_set(&error, TSR_ENOMEM, "no memory for a name");
  counting k = { &args, like.name, NULL };
  if (!error.status) k.start = tsr__numbers_new(heap, source->count + 1, &error);
  if (k.start) {
    tsr__scan scan = { source, tsr__all_columns, call, "flat_map", count_some, &k, count_bad };
    k.start[0] = 0;
    tsr__scan_all(&scan, &error);
    below = scan.source;
  }
  tsr__records_make make = { call,   site,   &flat_ops, sizeof(flat_source), 0, columns,
                             fields, &below, 1 };
  if (!error.status) make.count = k.start[source->count];
  tsr_source *made = error.status ? tsr__stage_refused(source, call, &error, site)
                                  : tsr__records_new(tsr__records_scope(&source, 1), &make);
  if (made->inert) {
    tsr__numbers_free(heap, k.start, source->count + 1);
    return made;
  }
  flat_source *f = (flat_source *)made;
  memcpy(f->from, like.from, sizeof f->from);
  f->made = like.made;
  f->widest = like.widest;
  f->args = args;
  f->name = like.name;
  f->start = k.start;
  made->drawn = made->drawn || args.seed;
  tsr__stage_owns(made);
  return made;
}
