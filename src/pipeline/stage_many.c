/* Several sources as one: one after the other, side by side, mixed.
 *
 *   concat   a a a a b b b         start[k]: the first position of source k
 *   zip      (a,b) (a,b) (a,b)     columns of all
 *   mix      a a b a a a b a       by weights 3 and 1
 *
 * A mixture is periodic: of `total` (the sum of weights) positions in a row each source has exactly
 * its weight, by one table that is made once. Inside a period the source whose share is most
 * overdue comes next (ties: the first one), which keeps every prefix within one record of the exact
 * shares. */
#include "pipeline/stage_many.h"

#include "pipeline/stage.h"

enum { MOST_WEIGHT = 65536, MOST_TOTAL = 1 << 20 };

typedef tsr__many many_source;

/* The child of a position, and the position there. */
static int find_child(const many_source *m, int64_t at, int64_t *inside)
{
  if (m->find) return m->find(m, at, inside);
  /* Of earlier periods a source had its weight each, of this one as many as come before the slot.
   * */
  if (m->turn) {
    int64_t period = at / m->total, slot = at - period * m->total;
    *inside = period * m->weight[m->turn[slot]] + m->rank[slot];
    return m->turn[slot];
  }
  int low = 0, high = m->source.child_count - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (m->start[middle] <= at) low = middle;
    else high = middle - 1;
  }
  *inside = at - m->start[low];
  return low;
}

/* One question to each child that has some of the records. */
tsr_status tsr__many_read(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const many_source *m = (const many_source *)source;
  int64_t inside[TSR__BLOCK], at[TSR__BLOCK], place[TSR__BLOCK];
  int child[TSR__BLOCK];
  int64_t left = ask->count;
  for (int64_t i = 0; i < ask->count; i++) child[i] = find_child(m, ask->at[i], &inside[i]);
  /* Gathered by child, as a question of one record costs nearly what one of many does. `child` of
   * those that went is -1, and `left` ends it before the last of them. */
  for (int64_t first = 0; left && !error->status; first++) {
    int which = child[first];
    if (which < 0) continue; /* went with an earlier question */
    tsr__ask_rows below = *ask;
    below.count = 0;
    for (int64_t i = first; i < ask->count; i++) {
      if (child[i] != which) continue;
      at[below.count] = inside[i];
      place[below.count++] = tsr__place_of(ask, i);
      child[i] = -1;
    }
    below.at = at;
    below.place = place;
    left -= below.count;
    tsr__records_read(source->children[which], &below, error);
  }
  return error->status;
}

/* Ids count through the leaves, so that no two records share one; children of one leaf have its
 * ids. */
void tsr__many_ids(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                   int64_t *to)
{
  const many_source *m = (const many_source *)source;
  for (int64_t i = 0; i < count; i++) {
    int64_t inside;
    int child = find_child(m, at[i], &inside);
    tsr__records_ids(source->children[child], epoch, &inside, 1, &inside);
    /* `base` is 0 for the first leaf: ids of a source stay what they were where it is mixed in
     * first. */
    to[i] = inside + m->base[child];
  }
}

/* As ids are numbered (number_leaves). */
void tsr__many_where(const tsr_source *source, int64_t id, tsr__text *out)
{
  const many_source *m = (const many_source *)source;
  for (int i = 0; i < source->child_count; i++) {
    int64_t inside = id - m->base[i];
    if (inside < 0 || inside >= source->children[i]->extent) continue;
    tsr__records_where(source->children[i], inside, out);
    return;
  }
}

/* Sources stand in front of it already; what they are, in their order, is all there is to say. */
void tsr__many_about(const tsr_source *source, tsr__text *out)
{
  (void)source, (void)out;
}

tsr_source *tsr__many_refused(tsr_source *const *sources, int count, const char *call,
                              const tsr__error *error, const char *site)
{
  tsr_scope *scope = NULL;
  tsr__error missing = { 0 };
  for (int i = 0; sources && i < count; i++) {
    if (sources[i]) scope = tsr__scope_inner(scope, sources[i]->node.scope);
    else tsr__error_set(&missing, TSR_EARG, "source %d of %d is NULL; give a source", i, count);
  }
  return tsr__records_refused(tsr__scope_here(scope), site, call, error ? error : &missing);
}

/* False: one of them is NULL, or inert, which its scope has told. */
bool tsr__many_check(tsr_source *const *sources, int count, tsr__error *error)
{
  /* A child's number is kept in two bytes by mixtures, and looked for in lists. */
  if (!sources || count < 1 || count > 4096)
    return tsr__error_set(error, TSR_EARG, "there are %d sources, expected 1 to 4096", count), true;
  for (int i = 0; i < count; i++)
    if (!tsr__records_usable(sources[i])) return false;
  return true;
}

/* leaf A, 10 records    ids 0 .. 9      base 0     slices of A: the same base
 * leaf B, 5 records     ids 10 .. 14    base 10 */
static void number_leaves(many_source *m, tsr_source *const *sources)
{
  int64_t next = 0;
  const tsr_source *leaf = sources[0]->leaf;
  for (int i = 0; i < m->source.child_count; i++) {
    int same = 0;
    /* Slices of one source have its ids, so that draws follow from the record wherever it comes
     * from. */
    while (same < i && (!sources[i]->leaf || sources[same]->leaf != sources[i]->leaf)) same++;
    m->base[i] = same < i ? m->base[same] : next;
    if (same == i) next += sources[i]->extent;
    if (sources[i]->leaf != leaf) leaf = NULL;
  }
  m->source.extent = next;
  m->source.leaf = leaf;
}

/* Lists have one place more than children, as starts have an end. */
many_source *tsr__many_of(tsr_source *const *sources, const tsr__records_make *make)
{
  tsr_scope *scope = tsr__records_scope(sources, make->child_count);
  many_source *m = (many_source *)tsr__records_new(scope, make);
  if (m->source.inert) return m;
  m->start = tsr__arena_new(&scope->arena, ((size_t)make->child_count + 1) * sizeof *m->start);
  if (m->start)
    m->base = tsr__arena_new(&scope->arena, ((size_t)make->child_count + 1) * sizeof *m->base);
  if (m->base) {
    number_leaves(m, sources);
    return m;
  }
  tsr__error error = { 0 };
  tsr__error_set(&error, TSR_ENOMEM, "no memory for the description of a source");
  return (many_source *)tsr__records_refused(scope, make->site, make->call, &error);
}

/* ---- one after the other --------------------------------------------------------------------- */

static const tsr__records_ops concat_ops = { "concat",        tsr__many_read, tsr__many_ids,
                                             tsr__many_about, NULL,           NULL,
                                             tsr__many_where };

int64_t tsr__many_count(tsr_source *const *sources, int count, tsr__error *error)
{
  int64_t all = 0;
  for (int i = 0; i < count && !error->status; i++) {
    if (i) tsr__columns_same(sources[0], sources[i], error);
    all += sources[i]->count;
    /* Asked after each addition: two counts below 2^62 do not overflow. */
    if (all >= INT64_C(1) << 62)
      tsr__error_set(error, TSR_EARG,
                     "the sources have 2^62 records or more together, expected fewer");
  }
  return all;
}

/* Where the files of all sources begin; a source without files is one. */
static tsr_source *concat_files(many_source *m, const char *site)
{
  tsr__error error = { 0 };
  int64_t files = 0, *start;
  for (int i = 0; i < m->source.child_count; i++)
    files += m->source.children[i]->files ? m->source.children[i]->file_count : 1;
  start = tsr__arena_new(&m->source.node.scope->arena, ((size_t)files + 1) * sizeof *start);
  if (!start) {
    tsr__error_set(&error, TSR_ENOMEM, "no memory for the positions of %lld files",
                   (long long)files);
    return tsr__records_refused(m->source.node.scope, site, "tsr_source_concat", &error);
  }
  m->source.files = start;
  m->source.file_count = files;
  for (int i = 0; i < m->source.child_count; i++) {
    const tsr_source *child = m->source.children[i];
    for (int64_t f = 0; f < (child->files ? child->file_count : 1); f++)
      /* Files of files: shuffled by files, each keeps its own. */
      *start++ = m->start[i] + (child->files ? child->files[f] : 0);
  }
  *start = m->source.count;
  return &m->source;
}

tsr_source *tsr_source_concat_at(tsr_source *const *sources, int count, const char *site)
{
  const char *call = "tsr_source_concat";
  tsr__error error = { 0 };
  if (!tsr__many_check(sources, count, &error))
    return tsr__many_refused(sources, count, call, NULL, site);
  int64_t all = error.status ? 0 : tsr__many_count(sources, count, &error);
  if (error.status) return tsr__many_refused(sources, count, call, &error, site);
  tsr__records_make make = { call,
                             site,
                             &concat_ops,
                             sizeof(many_source),
                             all,
                             sources[0]->columns,
                             sources[0]->column_count,
                             sources,
                             count };
  many_source *m = tsr__many_of(sources, &make);
  for (int i = 0; !m->source.inert && i < count; i++)
    m->start[i + 1] = m->start[i] + sources[i]->count;
  return m->source.inert ? &m->source : concat_files(m, site);
}

/* ---- side by side ---------------------------------------------------------------------------- */

tsr_status tsr__beside_read(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const many_source *m = (const many_source *)source;
  for (int i = 0; i < source->child_count && !error->status; i++) {
    tsr__ask_rows below = *ask;
    bool wanted = false;
    below.cells = ask->cells + m->start[i];
    for (int c = 0; c < source->children[i]->column_count; c++)
      wanted = wanted || below.cells[c].data;
    /* A source of which no field is asked for is not read; it may be a file. */
    if (wanted) tsr__records_read(source->children[i], &below, error);
  }
  return error->status;
}

void tsr__beside_where(const tsr_source *source, int64_t id, tsr__text *out)
{
  tsr__records_where(source->children[0], id, out);
}

/* A row of a zip is known by its first part. */
void tsr__beside_ids(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                     int64_t *to)
{
  tsr__records_ids(source->children[0], epoch, at, count, to);
}

static const tsr__records_ops zip_ops = {
  "zip", tsr__beside_read, tsr__beside_ids, tsr__many_about, NULL, NULL, tsr__beside_where
};

static int zip_columns(tsr_source *const *sources, int count, tsr__column *out, tsr__error *error)
{
  int n = 0;
  for (int i = 0; i < count; i++)
    for (int c = 0; c < sources[i]->column_count; c++) {
      const tsr__column *column = &sources[i]->columns[c];
      if (n == TSR__MAX_COLUMNS)
        return tsr__error_set(error, TSR_EARG, "more than %d fields", TSR__MAX_COLUMNS), 0;
      if (tsr__column_find(out, n, column->name) >= 0)
        return tsr__error_set(error, TSR_EARG,
                              "two sources have a field '%.80s'; rename one with tsr_source_select",
                              column->name),
               0;
      out[n++] = *column;
    }
  return n;
}

tsr_source *tsr__beside_of(tsr_source *const *sources, int count, const char *call,
                           const tsr__records_ops *ops, const char *site)
{
  tsr__error error = { 0 };
  tsr__column columns[TSR__MAX_COLUMNS];
  if (!tsr__many_check(sources, count, &error))
    return tsr__many_refused(sources, count, call, NULL, site);
  int n = error.status ? 0 : zip_columns(sources, count, columns, &error);
  if (error.status) return tsr__many_refused(sources, count, call, &error, site);
  int64_t least = sources[0]->count;
  for (int i = 1; i < count; i++)
    if (sources[i]->count < least) least = sources[i]->count;
  tsr__records_make make = {
    call, site, ops, sizeof(many_source), least, columns, n, sources, count
  };
  many_source *m = tsr__many_of(sources, &make);
  for (int i = 0; !m->source.inert && i < count; i++) {
    m->start[i + 1] = m->start[i] + sources[i]->column_count;
    /* The first that deals does; a shorter source beside it has not all of its batches. */
    if (!m->source.dealer && sources[i]->count == least) m->source.dealer = sources[i]->dealer;
    if (!sources[i]->fitted) continue;
    m->source.fitted = sources[i]->fitted;
    m->source.fit = sources[i]->fit;
    /* Position by position a zip has what lies below, so batches may be as long as that says; of
     * two such fields the last one is. */
    m->source.fit_column = (int)m->start[i] + sources[i]->fit_column;
  }
  return &m->source;
}

tsr_source *tsr_source_zip_at(tsr_source *const *sources, int count, const char *site)
{
  return tsr__beside_of(sources, count, "tsr_source_zip", &zip_ops, site);
}

/* ---- mixed ----------------------------------------------------------------------------------- */

static void about_mix(const tsr_source *source, tsr__text *out)
{
  const many_source *m = (const many_source *)source;
  for (int i = 0; i < source->child_count; i++)
    tsr__text_add(out, "%s%lld", i ? ":" : "", (long long)m->weight[i]);
}

static const tsr__records_ops mix_ops = { "mix", tsr__many_read, tsr__many_ids,  about_mix,
                                          NULL,  NULL,           tsr__many_where };

/* Whose turn it is at each position of a period, as the quota method of Balinski and Young (1975)
 * deals seats: of those that are not ahead of their share, (n + 1) * w / W, the one comes next that
 * would fall behind first, which has the least (had + 1) / w. */
static void deal_turns(many_source *m, int64_t *had)
{
  int children = m->source.child_count;
  for (int64_t n = 0; n < m->total; n++) {
    int next = -1;
    for (int k = 0; k < children; k++) {
      /* Products of two numbers of at most 2^20: exact, unlike shares in floats. */
      if (had[k] * m->total >= (n + 1) * m->weight[k]) continue; /* ahead of its share */
      if (next < 0 || (had[k] + 1) * m->weight[next] < (had[next] + 1) * m->weight[k]) next = k;
    }
    m->turn[n] = (uint16_t)next;
    m->rank[n] = (int32_t)had[next]++;
  }
}

/* The first position whose record its source does not have. */
static int64_t mix_count(const many_source *m)
{
  int64_t least = INT64_MAX;
  for (int64_t slot = 0; slot < m->total; slot++) {
    const tsr_source *child = m->source.children[m->turn[slot]];
    int64_t weight = m->weight[m->turn[slot]], over = child->count - m->rank[slot];
    /* Periods in which this slot can be filled. */
    int64_t periods = over > 0 ? (over + weight - 1) / weight : 0;
    /* Further than any source goes; another slot ends it first. */
    if (periods >= (INT64_C(1) << 61) / m->total) continue;
    if (periods * m->total + slot < least) least = periods * m->total + slot;
  }
  return least;
}

/* The table of a mixture, in the source's scope. */
static tsr_status make_mix(many_source *m, const tsr_mix_part *parts, tsr__error *error)
{
  tsr__arena *arena = &m->source.node.scope->arena;
  /* Six bytes a slot, of at most 2^20: weights of millions would say no more than their ratio does.
   * */
  size_t children = (size_t)m->source.child_count;
  int64_t *had = NULL;
  m->weight = tsr__arena_new(arena, children * sizeof *m->weight);
  uint16_t *turn = tsr__arena_new(arena, (size_t)m->total * sizeof *turn);
  m->rank = tsr__arena_new(arena, (size_t)m->total * sizeof *m->rank);
  if (m->weight && turn && m->rank) had = tsr__arena_new(arena, children * sizeof *had);
  if (!had) return tsr__error_set(error, TSR_ENOMEM, "no memory for the order of a mixture");
  m->turn = turn;
  for (size_t i = 0; i < children; i++) {
    m->weight[i] = parts[i].weight;
    m->start[i + 1] = m->start[i] + parts[i].source->count;
  }
  deal_turns(m, had);
  m->source.count = mix_count(m);
  return TSR_OK;
}

tsr_source *tsr_source_mix_at(const tsr_mix_part *parts, int count, const char *site)
{
  const char *call = "tsr_source_mix";
  tsr__error error = { 0 };
  tsr_source *sources[64];
  int64_t total = 0;
  if (!parts || count < 1 || count > 64) {
    tsr__error_set(&error, TSR_EARG, "there are %d parts, expected 1 to 64", count);
    tsr_scope *scope = parts && count > 0 && parts->source ? parts->source->node.scope : NULL;
    return tsr__records_refused(tsr__scope_here(scope), site, call, &error);
  }
  /* Sources first: without one that can be used there is no scope to tell an error to. */
  for (int i = 0; i < count; i++) sources[i] = parts[i].source;
  if (!tsr__many_check(sources, count, &error))
    return tsr__many_refused(sources, count, call, NULL, site);
  for (int i = 0; i < count && !error.status; i++) {
    if (parts[i].weight < 1 || parts[i].weight > MOST_WEIGHT)
      tsr__error_set(&error, TSR_EARG, "a weight is %lld, expected 1 to %d",
                     (long long)parts[i].weight, MOST_WEIGHT);
    total += parts[i].weight;
  }
  if (total > MOST_TOTAL)
    tsr__error_set(&error, TSR_EARG, "the weights are %lld together, expected %d at most",
                   (long long)total, MOST_TOTAL);
  if (!error.status) tsr__many_count(sources, count, &error);
  if (error.status) return tsr__many_refused(sources, count, call, &error, site);
  tsr__records_make make = {
    call,    site, &mix_ops, sizeof(many_source), 0, sources[0]->columns, sources[0]->column_count,
    sources, count
  };
  many_source *m = tsr__many_of(sources, &make);
  if (m->source.inert) return &m->source;
  m->total = total;
  if (!make_mix(m, parts, &error)) return &m->source;
  return tsr__records_refused(m->source.node.scope, site, call, &error);
}
