/* Several short sequences in one record of a fixed length.
 *
 *   lengths   3 2 4 1 2, packed in 5     | a a a b b | c c c c d | e e . . . |
 *   segments                             | 1 1 1 2 2 | 1 1 1 1 2 | 1 1 0 0 0 |
 *   positions                            | 0 1 2 0 1 | 0 1 2 3 0 | 0 1 0 0 0 |
 *
 * First fit in a window: a record goes to the first open pack with room for it; where none has, a
 * new one is opened, and the oldest closed once `open` of them were. Only lengths are looked at,
 * once; which records a pack has is kept, 8 bytes each. */
#include "pipeline/stage.h"

enum { MOST_OPEN = 1024, MOST_PACKED = TSR_MAX_FIELDS / 4, OPEN = 16 };
enum { DATA, SEGMENTS, POSITIONS, LENGTH, PARTS }; /* columns that a field becomes */

typedef struct packed {
  int field, told; /* below; told: the column of its length, -1: it is as long as its shape says */
  int64_t longest;
  size_t row; /* bytes of what dim 0 counts */
} packed;

typedef struct pack_source {
  tsr_source source;
  packed field[MOST_PACKED];
  int fields, open;
  int64_t length;
  int64_t *first; /* [packs + 1]: in `item` */
  int64_t *item;  /* records, pack by pack */
} pack_source;

/* ---- reading --------------------------------------------------------------------------------- */

static int64_t length_of(const packed *f, const tsr__room *room, int64_t i)
{
  int64_t length = f->longest;
  if (f->told >= 0) {
    const tsr__cell *cell = &room->cells[f->told];
    memcpy(&length, cell->data + (size_t)i * cell->stride, sizeof length);
  }
  return length;
}

/* Where the columns of one field of one pack go; NULL: nobody asks. */
typedef struct packing {
  const packed *f;
  char *to[PARTS];
  int64_t used;
} packing;

/* Puts record i of the room behind what the pack has of the field. */
static void append(packing *k, const tsr__room *room, int64_t i, int32_t segment)
{
  int64_t length = length_of(k->f, room, i);
  const tsr__cell *from = &room->cells[k->f->field];
  if (k->to[DATA])
    memcpy(k->to[DATA] + (size_t)k->used * k->f->row, from->data + (size_t)i * from->stride,
           (size_t)length * k->f->row);
  for (int64_t at = 0; at < length; at++) {
    int32_t position = (int32_t)at;
    size_t place = (size_t)(k->used + at) * sizeof position;
    if (k->to[SEGMENTS]) memcpy(k->to[SEGMENTS] + place, &segment, sizeof segment);
    if (k->to[POSITIONS]) memcpy(k->to[POSITIONS] + place, &position, sizeof position);
  }
  k->used += length;
}

static tsr_status read_one(const pack_source *p, const tsr__ask_rows *ask, int64_t row,
                           const tsr__room *room, tsr__error *error)
{
  const tsr_source *below = p->source.children[0];
  packing fields[MOST_PACKED];
  for (int f = 0; f < p->fields; f++) {
    fields[f] = (packing){ .f = &p->field[f] };
    for (int c = 0; c < PARTS; c++) {
      char *to = ask->cells[PARTS * f + c].data ? tsr__cell_of(ask, PARTS * f + c, row) : NULL;
      if (to) memset(to, 0, p->source.columns[PARTS * f + c].bytes);
      fields[f].to[c] = to;
    }
  }
  int64_t at = p->first[ask->at[row]], end = p->first[ask->at[row] + 1];
  for (int32_t segment = 1; at < end && !error->status; at += room->rows) {
    tsr__ask_rows some = *ask;
    some.count = end - at < room->rows ? end - at : room->rows;
    if (tsr__room_read(room, below, &some, p->item + at, error)) break;
    for (int64_t i = 0; i < some.count; i++, segment++)
      for (int f = 0; f < p->fields; f++) append(&fields[f], room, i, segment);
  }
  for (int f = 0; f < p->fields; f++)
    if (fields[f].to[LENGTH]) memcpy(fields[f].to[LENGTH], &fields[f].used, sizeof fields[f].used);
  return error->status;
}

static tsr_status read_pack(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const pack_source *p = (const pack_source *)source;
  tsr__columns wanted = 0;
  tsr__room room;
  for (int f = 0; f < p->fields; f++) {
    if (ask->cells[PARTS * f + DATA].data) wanted |= (tsr__columns)1 << p->field[f].field;
    if (p->field[f].told >= 0) wanted |= (tsr__columns)1 << p->field[f].told;
  }
  if (tsr__room_open(&room, source->children[0], wanted, 0, error)) return error->status;
  for (int64_t i = 0; i < ask->count && !error->status; i++) read_one(p, ask, i, &room, error);
  tsr__room_close(&room);
  return error->status;
}

static void about_pack(const tsr_source *source, tsr__text *out)
{
  const pack_source *p = (const pack_source *)source;
  size_t bytes = (size_t)source->children[0]->count * sizeof *p->item;
  for (int f = 0; f < p->fields; f++)
    tsr__text_add(out, "%s%s", f ? "," : "", source->columns[PARTS * f].name);
  tsr__text_add(out, " in %lld, open=%d, %lld packs, %016llx", (long long)p->length, p->open,
                (long long)source->count, (unsigned long long)tsr__hash(p->item, bytes, 0));
}

static void release_pack(tsr_source *source)
{
  pack_source *p = (pack_source *)source;
  tsr__heap *heap = &source->node.scope->rt->heap;
  tsr__numbers_free(heap, p->first, source->count + 1);
  tsr__numbers_free(heap, p->item, source->children[0]->count);
}

static const tsr__records_ops pack_ops = { "pack", read_pack, NULL, about_pack, release_pack };

/* ---- which record goes where ----------------------------------------------------------------- */

typedef struct fitting {
  const tsr_source *source;
  pack_source *p;
  int64_t *bin; /* by record */
  int64_t bins; /* opened so far; the last `open` of them are open, the oldest first */
  int opened;
  int64_t used[MOST_OPEN][MOST_PACKED]; /* of bin b at b mod `open` */
} fitting;

static bool fits(const fitting *k, int64_t bin, const int64_t *length)
{
  const int64_t *used = k->used[bin % k->p->open];
  for (int f = 0; f < k->p->fields; f++)
    if (used[f] + length[f] > k->p->length) return false;
  return true;
}

static tsr_status fit_some(void *user, const tsr__room *room, int64_t first, int64_t count,
                           tsr__error *error)
{
  fitting *k = user;
  const pack_source *p = k->p;
  for (int64_t i = 0; i < count; i++) {
    int64_t length[MOST_PACKED];
    for (int f = 0; f < p->fields; f++) {
      length[f] = length_of(&p->field[f], room, i);
      if (length[f] < 0 || length[f] > p->field[f].longest || length[f] > p->length)
        return tsr__error_set(error, TSR_EVALUE,
                              "record %lld: %.80s is %lld long, expected 0 to %lld; tsr_source_pad "
                              "cuts what is longer",
                              (long long)(first + i), k->source->columns[p->field[f].field].name,
                              (long long)length[f], (long long)p->length);
    }
    int64_t bin = k->bins - k->opened;
    while (bin < k->bins && !fits(k, bin, length)) bin++;
    if (bin == k->bins) {
      memset(k->used[bin % p->open], 0, sizeof *k->used);
      k->opened += k->opened < p->open;
      k->bins++;
    }
    for (int f = 0; f < p->fields; f++) k->used[bin % p->open][f] += length[f];
    k->bin[first + i] = bin;
  }
  return TSR_OK;
}

/* Records by their packs, in order. */
static tsr_status sort_items(fitting *k, tsr__error *error)
{
  pack_source *p = k->p;
  tsr__heap *heap = &k->source->node.scope->rt->heap;
  int64_t count = k->source->count;
  p->first = tsr__numbers_new(heap, k->bins + 1, error);
  p->item = p->first ? tsr__numbers_new(heap, count, error) : NULL;
  if (!p->item) return error->status;
  memset(p->first, 0, ((size_t)k->bins + 1) * sizeof *p->first);
  for (int64_t r = 0; r < count; r++) p->first[k->bin[r] + 1]++;
  for (int64_t b = 0; b < k->bins; b++) p->first[b + 1] += p->first[b];
  for (int64_t r = 0; r < count; r++) p->item[p->first[k->bin[r]]++] = r;
  for (int64_t b = k->bins; b > 0; b--) p->first[b] = p->first[b - 1];
  p->first[0] = 0;
  return TSR_OK;
}

static tsr_status fit_all(tsr_source *source, pack_source *p, int64_t *packs, tsr__error *error)
{
  tsr__heap *heap = &source->node.scope->rt->heap;
  fitting *k = tsr__new(heap, sizeof *k);
  tsr__columns told = 0;
  if (!k) return tsr__error_set(error, TSR_ENOMEM, "no memory for open packs");
  for (int f = 0; f < p->fields; f++)
    if (p->field[f].told >= 0) told |= (tsr__columns)1 << p->field[f].told;
  k->source = source;
  k->p = p;
  k->bin = tsr__numbers_new(heap, source->count, error);
  tsr__scan scan = { source, told, "tsr_source_pack", "pack", fit_some, k };
  if (k->bin && !tsr__scan_all(&scan, error)) sort_items(k, error);
  *packs = k->bins;
  tsr__numbers_free(heap, k->bin, source->count);
  tsr__del(heap, k, sizeof *k);
  return error->status;
}

/* ---- making one ------------------------------------------------------------------------------ */

/* The columns of one field. */
static tsr_status add_field(const tsr_pack_args *a, const char *name, pack_source *like,
                            tsr__column *columns, tsr__error *error)
{
  static const char *const endings[PARTS] = { "", "_segments", "_positions", "_length" };
  const tsr_source *source = a->source;
  packed *f = &like->field[like->fields];
  if (like->fields == MOST_PACKED)
    return tsr__error_set(error, TSR_EARG, "more than %d fields", MOST_PACKED);
  f->field = tsr__field_find(source, name, error);
  if (f->field < 0) return error->status;
  const tsr__column *column = &source->columns[f->field];
  if (!column->shape.rank)
    return tsr__error_set(error, TSR_ESHAPE, "field %.80s is one number and has no length", name);
  f->told = tsr__length_find(source, name);
  f->longest = column->shape.dims[0];
  f->row = tsr_dtype_size(column->dtype);
  for (int d = 1; d < column->shape.rank; d++) f->row *= (size_t)column->shape.dims[d];
  for (int c = 0; c < PARTS && !error->status; c++) {
    tsr__column *made = &columns[PARTS * like->fields + c];
    *made = *column;
    size_t length = strlen(name), more = strlen(endings[c]);
    char *text = tsr__arena_new(&source->node.scope->arena, length + more + 1);
    if (!text) return tsr__error_set(error, TSR_ENOMEM, "no memory for a name");
    memcpy(text, name, length);
    memcpy(text + length, endings[c], more);
    made->name = text;
    if (c != DATA) made->shape.rank = c != LENGTH;
    if (c != DATA) made->dtype = c == LENGTH ? TSR_I64 : TSR_I32;
    if (c != LENGTH) made->shape.dims[0] = a->length;
    if (!tsr__column_check(made, error) &&
        tsr__column_find(columns, PARTS * like->fields + c, made->name) >= 0)
      tsr__error_set(error, TSR_EARG, "the name '%.80s' stands twice", made->name);
  }
  like->fields++;
  return error->status;
}

static tsr_status check_pack(const tsr_pack_args *a, pack_source *like, tsr__column *columns,
                             tsr__error *error)
{
  tsr_scope *scope = a->source->node.scope;
  like->length = a->length;
  like->open = a->open ? a->open : OPEN;
  if (a->length < 1 || a->length > INT32_MAX)
    return tsr__error_set(error, TSR_EARG, "a length of %lld, expected 1 to 2^31 - 1",
                          (long long)a->length);
  if (like->open < 1 || like->open > MOST_OPEN)
    return tsr__error_set(error, TSR_EARG, "%d open packs, expected 1 to %d, or 0 for %d", a->open,
                          MOST_OPEN, OPEN);
  if (!a->fields || !*a->fields)
    return tsr__error_set(error, TSR_EARG, "no names of fields; give some, \"tokens,labels\"");
  if (tsr__scan_check(a->source, error)) return error->status;
  char *names = tsr__arena_text(&scope->arena, a->fields, strlen(a->fields));
  if (!names) return tsr__error_set(error, TSR_ENOMEM, "no memory for names");
  while (names && !error->status) add_field(a, strsep(&names, ","), like, columns, error);
  return error->status;
}

tsr_source *tsr_source_pack_with(const tsr_pack_args *given, const char *site)
{
  const char *call = "tsr_source_pack";
  tsr_pack_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr__column columns[TSR_MAX_FIELDS];
  pack_source like = { 0 };
  int64_t packs = 0;
  tsr_source *source = given ? given->source : NULL;
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  if (!tsr__take_opts(call, given, &args, sizeof args, &error) &&
      !check_pack(&args, &like, columns, &error))
    fit_all(source, &like, &packs, &error);
  tsr__records_make make = { call,  site,    &pack_ops,           sizeof(pack_source),
                             packs, columns, PARTS * like.fields, &source,
                             1 };
  tsr_source *made = error.status ? tsr__stage_refused(source, call, &error, site)
                                  : tsr__records_new(tsr__records_scope(&source, 1), &make);
  if (made->inert) {
    tsr__heap *heap = &source->node.scope->rt->heap;
    tsr__numbers_free(heap, like.first, packs + 1);
    tsr__numbers_free(heap, like.item, source->count);
    return made;
  }
  pack_source *p = (pack_source *)made;
  like.source = p->source;
  *p = like;
  tsr__stage_owns(made);
  return made;
}
