/* The fields of records: some of them, under other names; and those that a function makes.
 *
 *   below:   image  label  extra           map of image -> image, size
 *   above:   label  extra  image  size     kept ones first, then what the function makes
 *
 * What is kept goes straight to its cells. What a function reads and nobody above asks for goes to
 * a scratch of a few records, in cache when the function comes; the library's own functions read it
 * where it lies, if that is memory. */
#include "pipeline/stage_fields.h"

#include <stddef.h>

#include "pipeline/permute.h"

typedef struct tsr__field_source field_source;

/* ---- select ---------------------------------------------------------------------------------- */

/* Cells change places and nothing else: columns that are not selected are NULL below, and no
 * source reads them. */
static tsr_status read_select(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const field_source *f = (const field_source *)source;
  tsr__cell cells[TSR__MAX_COLUMNS] = { 0 };
  tsr__ask_rows below = *ask;
  for (int c = 0; c < source->column_count; c++) cells[f->from[c]] = ask->cells[c];
  below.cells = cells;
  return tsr__records_read(source->children[0], &below, error);
}

void tsr__fields_ids(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                     int64_t *to)
{
  tsr__records_ids(source->children[0], epoch, at, count, to);
}

static void about_select(const tsr_source *source, tsr__text *out)
{
  const field_source *f = (const field_source *)source;
  for (int c = 0; c < source->column_count; c++) {
    const char *was = source->children[0]->columns[f->from[c]].name, *is = source->columns[c].name;
    tsr__text_add(out, "%s%s", c ? "," : "", was);
    if (strcmp(was, is) != 0) tsr__text_add(out, "=%s", is);
  }
}

/* Whether the length of a field is told by the one below that tells it there: a map may make a
 * field of that name, and another may be called so. */
static bool keeps_length(const field_source *f, int column)
{
  const tsr_source *below = f->source.children[0];
  int told = tsr__length_find(&f->source, f->source.columns[column].name);
  return told >= 0 && f->from[told] >= 0 &&
         f->from[told] == tsr__length_find(below, below->columns[f->from[column]].name);
}

/* Fields that are kept lie where they lie below. Of ragged ones that are lent no more is there than
 * their own length says: under another all of the field must be, zeros included. */
static bool lend_fields(const tsr_source *source, int column, const tsr__ask_rows *ask,
                        const char **to)
{
  const field_source *f = (const field_source *)source;
  tsr__ask_rows below = *ask;
  if (f->from[column] < 0) return false;
  below.partial = ask->partial && keeps_length(f, column);
  return tsr__records_lend(source->children[0], f->from[column], &below, to);
}

static const tsr__records_ops select_ops = { "select",     read_select, tsr__fields_ids,
                                             about_select, NULL,        lend_fields,
                                             NULL };

/* What was selected so far: columns, and which of the source's each is. */
typedef struct selection {
  tsr__column columns[TSR__MAX_COLUMNS];
  int *from, count;
} selection;

/* One name of the list, and what it is called then; NULL: the same. */
static tsr_status select_one(const tsr_source *source, const char *word, const char *as,
                             selection *taken, tsr__error *error)
{
  int c = tsr__field_find(source, word, error);
  if (c < 0) return error->status;
  tsr__column column = source->columns[c];
  if (as) column.name = as;
  if (tsr__column_check(&column, error)) return error->status;
  for (int i = 0; i < taken->count; i++)
    /* A field goes to one cell: select turns its columns into cells below, one each. */
    if (taken->from[i] == c)
      return tsr__error_set(error, TSR_EARG, "field '%.80s' is named twice; name each field once",
                            word);
  if (tsr__column_find(taken->columns, taken->count, column.name) >= 0)
    return tsr__error_set(error, TSR_EARG,
                          "two fields would be called '%.80s'; give each a name of its own",
                          column.name);
  taken->columns[taken->count] = column;
  taken->from[taken->count++] = c;
  return TSR_OK;
}

/* The source over `source` with columns of both; `like` has what else is to be known. */
static tsr_source *fields_of(tsr_source *source, const tsr__records_make *make,
                             const field_source *like)
{
  tsr_source *made = tsr__records_in_order(tsr__records_scope(&source, 1), make);
  if (made->inert) return made;
  field_source *f = (field_source *)made;
  memcpy(f->from, like->from, sizeof f->from);
  f->fn = like->fn;
  f->user = like->user;
  f->name = like->name;
  f->seed = like->seed;
  f->made = like->made;
  f->row = like->row;
  f->uses = like->uses;
  f->own = like->own;
  f->data = like->data;
  tsr__records_follow(made, source);
  for (int c = 0; source->fitted && c < make->column_count; c++) {
    if (like->from[c] != source->fit_column) continue;
    made->fitted = source->fitted;
    made->fit = source->fit;
    made->fit_column = c;
  }
  return made;
}

tsr_source *tsr_source_select_at(tsr_source *source, const char *names, const char *site)
{
  const char *call = "tsr_source_select";
  tsr__error error = { 0 };
  field_source like = { 0 };
  selection taken = { .from = like.from };
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  tsr_scope *scope = source->node.scope;
  tsr__name_list list = { .count = 0 };
  if (!names || !*names)
    tsr__error_set(&error, TSR_EARG, "there are no names of fields; write them as \"image,label\"");
  else tsr__name_list_read(&scope->arena, names, true, &list, &error);
  for (int i = 0; i < list.count && !error.status; i++)
    select_one(source, list.name[i], list.as[i], &taken, &error);
  if (error.status) return tsr__records_refused(scope, site, call, &error);
  tsr__records_make make = {
    call,    site, &select_ops, sizeof(field_source), source->count, taken.columns, taken.count,
    &source, 1
  };
  return fields_of(source, &make, &like);
}

/* ---- map ------------------------------------------------------------------------------------- */

enum { LENT = 2 }; /* columns that are read where they lie, at most */

/* Some records of a question, and where their parts lie. */
typedef struct mapping {
  const field_source *f;
  const tsr__ask_rows *ask; /* of the whole */
  tsr__cell in[TSR__MAX_COLUMNS];
  bool scratch[TSR__MAX_COLUMNS]; /* in the scratch, row by row, instead of by place */
  char *room;
  int64_t first, count;
  int lent[TSR__MAX_COLUMNS]; /* which list of `at` a column has, from 1; 0: none */
  int lists;
  const char *at[LENT][TSR__BLOCK]; /* by record of the whole question */
} mapping;

static tsr_status read_inputs(mapping *m, tsr__error *error)
{
  const tsr_source *below = m->f->source.children[0];
  int64_t place[TSR__BLOCK];
  /* Scratch rows are numbered from 0, rows of cells by place: two questions, as cells of one
   * question share their places. */
  for (int which = 0; which < 2 && !error->status; which++) {
    tsr__cell cells[TSR__MAX_COLUMNS] = { 0 };
    tsr__ask_rows ask = *m->ask;
    bool any = false;
    for (int c = 0; c < below->column_count; c++)
      if (m->scratch[c] == (which == 1) && m->in[c].data) cells[c] = m->in[c], any = true;
    for (int64_t i = 0; i < m->count; i++)
      place[i] = which ? i : tsr__place_of(m->ask, m->first + i);
    ask.at += m->first;
    ask.place = place;
    ask.count = m->count;
    ask.cells = cells;
    /* What makes all fields of a record at once, as a function does, may be asked for it twice. */
    if (any) tsr__records_read(below, &ask, error);
  }
  return error->status;
}

/* Where input c of record `row` of the question lies, which is the i-th of those that are read
 * now. */
static const void *input_of(const mapping *m, int c, int64_t row, int64_t i)
{
  if (m->lent[c]) {
    const char *const *at = m->at[m->lent[c] - 1];
    size_t bytes = m->f->source.children[0]->columns[c].bytes;
    int64_t next = row + tsr__ahead(bytes);
    if (next < m->ask->count) tsr__touch(at[next], bytes);
    return at[row];
  }
  int64_t place = m->scratch[c] ? i : tsr__place_of(m->ask, row);
  return m->in[c].data ? m->in[c].data + (size_t)place * m->in[c].stride : NULL;
}

/* Those in front of which nothing is read that would ask for them. */
static void touch_first(const mapping *m)
{
  const tsr_source *below = m->f->source.children[0];
  for (int c = 0; c < below->column_count; c++) {
    size_t bytes = below->columns[c].bytes;
    for (int64_t i = 0; m->lent[c] && i < tsr__ahead(bytes) && i < m->ask->count; i++)
      tsr__touch(m->at[m->lent[c] - 1][i], bytes);
  }
}

static void tell_function(const field_source *f, const tsr_record *record, tsr_status status,
                          tsr__error *error)
{
  tsr__text where;
  tsr__text_init(&where, &f->source.node.scope->rt->heap);
  tsr__records_where(&f->source, record->id, &where);
  tsr__error_set(error, status,
                 "%s: record %lld of epoch %lld: the function returned %s (%s)%.300s", f->name,
                 (long long)record->id, (long long)record->epoch, tsr_status_name(status),
                 tsr_status_text(status), tsr__text_get(&where));
  tsr__text_free(&where);
}

/* `first` .. on of the question, whose inputs are read by now. Ids are asked of the stage below:
 * what a function draws belongs to the record, not to where it stands. */
static tsr_status call_each(mapping *m, tsr__error *error)
{
  const field_source *f = m->f;
  const tsr_source *below = f->source.children[0];
  int64_t ids[TSR__BLOCK];
  tsr__records_ids(below, m->ask->epoch, m->ask->at + m->first, m->count, ids);
  for (int64_t i = 0; i < m->count; i++) {
    const void *in[TSR__MAX_COLUMNS];
    void *out[TSR__MAX_COLUMNS];
    int64_t row = m->first + i;
    for (int c = 0; c < below->column_count; c++) in[c] = input_of(m, c, row, i);
    for (int c = f->made; c < f->source.column_count; c++)
      out[c - f->made] = tsr__cell_of(m->ask, c, row);
    tsr_record record = { .id = ids[i], .epoch = m->ask->epoch, .in = in, .out = out };
    /* Of seed, epoch and id alone: neither batches nor threads nor orders behind it show. */
    if (f->fn) {
      record.draw[0] = tsr__mix(tsr__mix(f->seed, (uint64_t)record.epoch), (uint64_t)record.id);
      record.draw[1] = tsr__mix(record.draw[0], f->seed);
    }
    tsr__where *where = m->ask->where;
    if (where) {
      atomic_store_explicit(&where->record, record.id, memory_order_relaxed);
      atomic_store_explicit(&where->name, f->name, memory_order_release);
    }
    tsr_status status = f->own ? f->own(f, &record, error) : f->fn(&record, f->user);
    if (where) atomic_store_explicit(&where->name, NULL, memory_order_relaxed);
    if (status && !error->status) tell_function(f, &record, status, error);
    if (status) return error->status;
    /* Behind each record, since nobody knows how long one takes. */
    if (tsr__records_stop(m->ask))
      return tsr__error_set(error, TSR_ECANCELLED, "the pipeline is being closed");
  }
  return TSR_OK;
}

/* Each column below that is wanted above has a place there; of the others the function's are lent,
 * or need room. Returns the bytes of a record that need some. */
static size_t aim_inputs(mapping *m)
{
  const field_source *f = m->f;
  const tsr_source *below = f->source.children[0];
  size_t row = 0;
  for (int c = 0; c < f->made; c++) m->in[f->from[c]] = m->ask->cells[c];
  for (int c = 0; c < below->column_count; c++) {
    if (m->in[c].data || !tsr__columns_have(&f->uses, c)) continue;
    if (f->own && m->lists < LENT && tsr__records_lend(below, c, m->ask, m->at[m->lists]))
      m->lent[c] = ++m->lists;
    else row += below->columns[c].bytes;
  }
  return row;
}

/* Gives what needs room some of the scratch. Columns that the function makes and nobody wants are
 * made there as well: `own` are cells for these. */
static void place_inputs(mapping *m, tsr__cell *own, int64_t rows)
{
  const field_source *f = m->f;
  const tsr_source *below = f->source.children[0];
  size_t used = 0;
  for (int c = 0; c < below->column_count; c++) {
    if (m->in[c].data || m->lent[c] || !tsr__columns_have(&f->uses, c)) continue;
    m->in[c] = (tsr__cell){ m->room + used, below->columns[c].bytes };
    m->scratch[c] = true;
    used += below->columns[c].bytes * (size_t)rows;
  }
  for (int c = f->made; c < f->source.column_count; c++)
    /* All of them at one place, a stride of 0: what is written there is read by nobody. */
    if (!own[c].data) own[c] = (tsr__cell){ m->room + used, 0 };
}

tsr_status tsr__fields_read(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const field_source *f = (const field_source *)source;
  tsr__heap *heap = &source->node.scope->rt->heap;
  tsr__cell cells[TSR__MAX_COLUMNS];
  size_t spare = 1;
  bool wanted = false;
  memcpy(cells, ask->cells, (size_t)source->column_count * sizeof *cells);
  for (int c = f->made; c < source->column_count; c++) {
    wanted = wanted || cells[c].data;
    if (!cells[c].data && source->columns[c].bytes > spare) spare = source->columns[c].bytes;
  }
  tsr__ask_rows own = *ask;
  own.cells = cells;
  mapping m;
  /* The lists of places are larger than all the rest, and are written before they are read. */
  memset(&m, 0, offsetof(mapping, at));
  m.f = f;
  m.ask = &own;
  size_t row = aim_inputs(&m);
  /* As many at once as stay in the second cache between being read and being looked at. */
  int64_t some = row ? TSR__ROOM / (int64_t)row : ask->count;
  some = some < 1 ? 1 : some > ask->count ? ask->count : some;
  size_t bytes = row * (size_t)some + spare;
  /* Taken and given back for each question: which thread asks is not known here, and a block costs
   * tens of nanoseconds. */
  m.room = tsr__new_raw(heap, bytes);
  if (!m.room)
    return tsr__error_set(error, TSR_ENOMEM, "%s: no memory for %zu bytes", f->name, bytes);
  place_inputs(&m, cells, some);
  touch_first(&m);
  for (m.first = 0; m.first < ask->count && !error->status; m.first += some) {
    m.count = ask->count - m.first < some ? ask->count - m.first : some;
    if (!read_inputs(&m, error) && wanted) call_each(&m, error);
  }
  tsr__del(heap, m.room, bytes);
  return error->status;
}

static void about_map(const tsr_source *source, tsr__text *out)
{
  const field_source *f = (const field_source *)source;
  for (int c = f->made; c < source->column_count; c++) {
    if (c > f->made) tsr__text_add(out, ", ");
    tsr__column_text(&source->columns[c], out);
  }
  tsr__text_add(out, "; %s, seed=%llu", f->name, (unsigned long long)f->seed);
}

static const tsr__records_ops map_ops = {
  "map", tsr__fields_read, tsr__fields_ids, about_map, NULL, lend_fields, NULL
};

/* Those kept, then those made. */
static int join_columns(const tsr_source *source, const tsr__column *own, int made,
                        tsr__column *columns, field_source *like)
{
  int count = 0;
  for (int c = 0; c < source->column_count; c++) {
    like->row += source->columns[c].bytes;
    if (tsr__column_find(own, made, source->columns[c].name) >= 0) continue;
    like->from[count] = c;
    columns[count++] = source->columns[c];
    if (count + made > TSR__MAX_COLUMNS) return 0;
  }
  like->made = count;
  for (int i = 0; i < made; i++) {
    like->from[count] = -1;
    columns[count++] = own[i];
  }
  return count;
}

static int map_columns(const tsr_source *source, const tsr_map_args *args, tsr__column *columns,
                       field_source *like, tsr__error *error)
{
  int made = 0;
  tsr__column own[TSR__MAX_COLUMNS];
  for (; made < TSR_MAX_FIELDS && args->fields[made].name && !error->status; made++) {
    own[made] = (tsr__column){ .name = args->fields[made].name,
                               .dtype = args->fields[made].dtype,
                               .shape = args->fields[made].shape };
    if (!tsr__column_check(&own[made], error) && tsr__column_find(own, made, own[made].name) >= 0)
      tsr__error_set(error, TSR_EARG,
                     "the name '%.80s' is given twice; give each field a name of its own",
                     own[made].name);
  }
  if (!made)
    tsr__error_set(error, TSR_EARG,
                   "there are no .fields; describe the fields that the function makes");
  if (error->status) return 0;
  int count = join_columns(source, own, made, columns, like);
  if (!count) tsr__error_set(error, TSR_EARG, "more than %d fields", TSR__MAX_COLUMNS);
  return count;
}

tsr_source *tsr__fields_new(tsr_source *source, const tsr__fields_make *own, tsr__error *error)
{
  tsr_scope *scope = source->node.scope;
  tsr__column columns[TSR__MAX_COLUMNS], made[TSR__MAX_COLUMNS];
  field_source like = { .name = own->ops->kind, .uses = own->uses, .own = own->own };
  for (int i = 0; i < own->count && !error->status; i++) {
    made[i] = own->columns[i];
    tsr__column_check(&made[i], error);
  }
  int count = error->status ? 0 : join_columns(source, made, own->count, columns, &like);
  if (!error->status && !count)
    tsr__error_set(error, TSR_EARG, "more than %d fields", TSR__MAX_COLUMNS);
  void *data = error->status ? NULL : tsr__arena_new(&scope->arena, own->data_size);
  if (data) memcpy(data, own->data, own->data_size);
  else if (!error->status)
    tsr__error_set(error, TSR_ENOMEM, "no memory for the description of a source");
  if (error->status) return tsr__records_refused(scope, own->site, own->call, error);
  like.data = data;
  tsr__records_make make = {
    own->call, own->site, own->ops, sizeof(field_source), source->count, columns, count, &source, 1
  };
  return fields_of(source, &make, &like);
}

tsr_source *tsr_source_map_with(const tsr_map_args *given, const char *site)
{
  const char *call = "tsr_source_map";
  tsr_map_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr__column columns[TSR__MAX_COLUMNS];
  tsr_source *source = given ? given->source : NULL;
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  tsr_scope *scope = source->node.scope;
  field_source like = { .fn = given->fn, .user = given->user, .uses = tsr__all_columns };
  int count = 0;
  if (!tsr__take_opts(call, given, &args, sizeof args, &error)) {
    if (!args.fn) tsr__error_set(&error, TSR_EARG, "the function is NULL; give one");
    else count = map_columns(source, &args, columns, &like, &error);
  }
  const char *name = args.name ? args.name : "map";
  like.seed = args.seed;
  like.name = tsr__arena_text(&scope->arena, name, strlen(name));
  if (!like.name) tsr__error_set(&error, TSR_ENOMEM, "no memory for a name");
  if (error.status) return tsr__records_refused(scope, site, call, &error);
  tsr__records_make make = { call,  site,    &map_ops, sizeof(field_source), source->count, columns,
                             count, &source, 1 };
  tsr_source *made = fields_of(source, &make, &like);
  if (!made->inert) made->drawn = made->drawn || args.seed;
  if (!made->inert && args.blocking) made->blocking = true;
  return made;
}
