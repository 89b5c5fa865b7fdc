/* Several short sequences in one record of a fixed length.
 *
 *   lengths   3 2 4 1 2, packed in 5     | a a a b b | c c c c d | e e . . . |
 *   segments                             | 1 1 1 2 2 | 1 1 1 1 2 | 1 1 0 0 0 |
 *   positions                            | 0 1 2 0 1 | 0 1 2 3 0 | 0 1 0 0 0 |
 *
 * First or best fit in a window: a record goes to the first open pack with room for it, or to the
 * fullest; where none has, a new one is opened, and the oldest closed once `open` of them were.
 * Cut, a pack is as many elements of all sequences in a row. An end is one more element of each
 * sequence, which no record has: a pack whose last sequence was cut in front of it begins with it.
 * Only lengths are looked at, once; which records a pack has, or where sequences begin, is kept, 8
 * bytes each. */
#include "pipeline/stage.h"

enum { MOST_OPEN = 1024, MOST_PACKED = TSR_MAX_FIELDS / 4, OPEN = 16 };
enum { DATA, SEGMENTS, POSITIONS, LENGTH, PARTS }; /* columns that a field becomes */

typedef struct packed {
  int field, told; /* below; told: the column of its length, -1: it is as long as its shape says */
  int64_t longest;
  size_t row, item;        /* bytes of what dim 0 counts, and of an element */
  _Alignas(8) char end[8]; /* one element of what stands behind sequences */
} packed;

typedef struct pack_source {
  tsr_source source;
  packed field[MOST_PACKED];
  int fields, open;
  bool ends; /* whether sequences are one longer than their records say */
  char end[32];
  int64_t length;
  int64_t *first; /* [packs + 1]: in `item` */
  int64_t *item;  /* records, pack by pack */
  tsr_pack_way way;
  int64_t *start; /* cut: [records + 1], where each begins of all elements; NULL: not cut */
  /* Cut: records that cannot be read have no elements, and a pack each behind the others. */
  int64_t *bad;
  size_t bad_count, bad_room;
} pack_source;

/* ---- reading --------------------------------------------------------------------------------- */

/* As records say, which fit_some has checked once for all. */
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

/* What a pack has of a sequence, its end counted in: `length` elements from `from` on. */
typedef struct piece {
  int64_t from, length;
} piece;

/* Puts a piece of record i of the room behind what the pack has of the field. */
static void append(packing *k, const tsr__room *room, int64_t i, int32_t segment, piece of)
{
  const tsr__cell *from = &room->cells[k->f->field];
  int64_t length = of.length, held = length_of(k->f, room, i) - of.from;
  if (held > length) held = length;
  if (k->to[DATA]) {
    char *to = k->to[DATA] + (size_t)k->used * k->f->row;
    memcpy(to, from->data + (size_t)i * from->stride + (size_t)of.from * k->f->row,
           (size_t)held * k->f->row);
    for (size_t at = (size_t)held * k->f->row; at < (size_t)length * k->f->row; at += k->f->item)
      memcpy(to + at, k->f->end, k->f->item);
  }
  for (int64_t at = 0; at < length; at++) {
    int32_t position = (int32_t)(of.from + at);
    size_t place = (size_t)(k->used + at) * sizeof position;
    if (k->to[SEGMENTS]) memcpy(k->to[SEGMENTS] + place, &segment, sizeof segment);
    if (k->to[POSITIONS]) memcpy(k->to[POSITIONS] + place, &position, sizeof position);
  }
  k->used += length;
}

/* The records that a pack has some of, first .. end - 1 of `item`, or of all where they are cut. */
static void records_of(const pack_source *p, int64_t pack, int64_t *first, int64_t *end)
{
  int64_t count = p->source.children[0]->count, from = pack * p->length;
  *first = p->start ? tsr__numbers_find(p->start, count, from) : p->first[pack];
  /* Records without elements at a border may be in neither pack: they would add nothing. */
  *end =
      p->start ? tsr__numbers_find(p->start, count, from + p->length - 1) + 1 : p->first[pack + 1];
}

/* Whole, or where packs are cut what of its elements start .. end lies in this one. */
static piece piece_of(const pack_source *p, int64_t pack, int64_t record, int64_t length)
{
  if (!p->start) return (piece){ 0, length };
  int64_t first = pack * p->length, start = p->start[record], end = p->start[record + 1];
  int64_t from = start < first ? first : start;
  if (end > first + p->length) end = first + p->length;
  return (piece){ from - start, end - from };
}

/* Filling first: what no sequence covers is zero in all four columns, whatever the cells held. */
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
  int64_t pack = ask->at[row], at, end, places[TSR__BLOCK];
  int64_t whole = p->source.count - (int64_t)p->bad_count;
  if (pack >= whole) {
    tsr__ask_rows one = *ask;
    one.count = 1;
    return tsr__room_read(room, below, &one, &p->bad[pack - whole], error);
  }
  records_of(p, pack, &at, &end);
  /* Segments count from 1 in each pack: 0 is where nothing is. */
  for (int32_t segment = 1; at < end && !error->status;) {
    tsr__ask_rows some = *ask;
    some.count = 0;
    /* A pack may have more records than a room has rows: it is filled a room at a time. Of those
     * that are cut what has no elements is not read. */
    for (; at < end && some.count < room->rows; at++)
      if (!p->start || p->start[at] < p->start[at + 1])
        places[some.count++] = p->start ? at : p->item[at];
    if (tsr__room_read(room, below, &some, places, error)) break;
    for (int64_t i = 0; i < some.count; i++) {
      bool any = false;
      for (int f = 0; f < p->fields; f++) {
        piece of = piece_of(p, pack, places[i], length_of(&p->field[f], room, i) + p->ends);
        append(&fields[f], room, i, segment, of);
        any = any || of.length;
      }
      /* A number is one of elements: a record that has none in any field takes none. */
      segment += any;
    }
  }
  for (int f = 0; f < p->fields; f++)
    if (fields[f].to[LENGTH]) memcpy(fields[f].to[LENGTH], &fields[f].used, sizeof fields[f].used);
  return error->status;
}

static tsr_status read_pack(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const pack_source *p = (const pack_source *)source;
  tsr__columns wanted = { { 0 } };
  tsr__room room;
  for (int f = 0; f < p->fields; f++) {
    if (ask->cells[PARTS * f + DATA].data) tsr__columns_add(&wanted, p->field[f].field);
    if (p->field[f].told >= 0) tsr__columns_add(&wanted, p->field[f].told);
  }
  if (tsr__room_open(&room, source->children[0], wanted, 0, error)) return error->status;
  for (int64_t i = 0; i < ask->count && !error->status; i++) read_one(p, ask, i, &room, error);
  tsr__room_close(&room);
  return error->status;
}

static void about_pack(const tsr_source *source, tsr__text *out)
{
  const pack_source *p = (const pack_source *)source;
  static const char *const ways[] = { "", "best fit, ", "cut, " };
  size_t records = (size_t)source->children[0]->count;
  const int64_t *of = p->start ? p->start : p->item;
  uint64_t hash = tsr__hash(of, (records + (p->start != NULL)) * sizeof *of, 0);
  for (int f = 0; f < p->fields; f++)
    tsr__text_add(out, "%s%s", f ? "," : "", source->columns[PARTS * f].name);
  tsr__text_add(out, " in %lld, %s", (long long)p->length, ways[p->way]);
  if (p->ends) tsr__text_add(out, "end=%s, ", p->end);
  if (!p->start) tsr__text_add(out, "open=%d, ", p->open);
  tsr__text_add(out, "%lld packs, %016llx", (long long)source->count, (unsigned long long)hash);
}

static void release_pack(tsr_source *source)
{
  pack_source *p = (pack_source *)source;
  tsr__heap *heap = &source->node.scope->rt->heap;
  tsr__numbers_free(heap, p->first, source->count + 1);
  tsr__numbers_free(heap, p->item, source->children[0]->count);
  tsr__numbers_free(heap, p->start, source->children[0]->count + 1);
  tsr__del(heap, p->bad, p->bad_room * sizeof *p->bad);
}

static const tsr__records_ops pack_ops = { "pack",       read_pack, NULL, about_pack,
                                           release_pack, NULL,      NULL };

/* ---- which record goes where ----------------------------------------------------------------- */

typedef struct fitting {
  const tsr_source *source;
  pack_source *p;
  int64_t *bin; /* by record */
  int64_t bins; /* opened so far; the last `open` of them are open, the oldest first */
  int opened;
  /* Only the last `open` packs can still take something. */
  int64_t used[MOST_OPEN][MOST_PACKED]; /* of bin b at b mod `open` */
  bool full;                            /* no memory for what is bad */
} fitting;

/* In all fields at once: sequences of a record stay together. */
static bool fits(const fitting *k, int64_t bin, const int64_t *length)
{
  const int64_t *used = k->used[bin % k->p->open];
  for (int f = 0; f < k->p->fields; f++)
    if (used[f] + length[f] > k->p->length) return false;
  return true;
}

/* The open pack that a record goes to; none: the one behind the last. */
static int64_t find_bin(const fitting *k, const int64_t *length)
{
  /* Of equally full ones the oldest, whose time is over first. */
  int64_t best = k->bins, most = -1;
  for (int64_t bin = k->bins - k->opened; bin < k->bins; bin++) {
    int64_t used = 0;
    if (!fits(k, bin, length)) continue;
    if (k->p->way == TSR_PACK_FIRST_FIT) return bin;
    for (int f = 0; f < k->p->fields; f++) used += k->used[bin % k->p->open][f];
    if (used > most) most = used, best = bin;
  }
  return best;
}

/* Cut sequences lie one behind the other, in all fields alike. */
static tsr_status place_cut(fitting *k, int64_t record, const int64_t *length, tsr__error *error)
{
  pack_source *p = k->p;
  for (int f = 1; f < p->fields; f++)
    if (length[f] != length[0])
      return tsr__error_set(error, TSR_EVALUE,
                            "record %lld: %.80s is %lld long and %.80s is %lld long, expected "
                            "equal lengths of fields that are cut together",
                            (long long)record, k->source->columns[p->field[0].field].name,
                            (long long)length[0], k->source->columns[p->field[f].field].name,
                            (long long)length[f]);
  p->start[record + 1] = p->start[record] + length[0];
  return TSR_OK;
}

/* One pass in the order of records, so that packs follow from lengths and `open` alone. */
static tsr_status fit_some(void *user, const tsr__room *room, int64_t first, int64_t count,
                           tsr__error *error)
{
  fitting *k = user;
  const pack_source *p = k->p;
  for (int64_t i = 0; i < count; i++) {
    int64_t length[MOST_PACKED];
    for (int f = 0; f < p->fields; f++) {
      length[f] = length_of(&p->field[f], room, i);
      bool long_one = length[f] + p->ends > p->length && !p->start;
      if (length[f] < 0 || length[f] > p->field[f].longest || long_one)
        return tsr__error_set(error, TSR_EVALUE,
                              "record %lld: %.80s is %lld long, expected 0 to %lld; shorten longer "
                              "records with tsr_source_pad",
                              (long long)(first + i), k->source->columns[p->field[f].field].name,
                              (long long)length[f],
                              (long long)(p->start ? p->field[f].longest : p->length - p->ends));
      length[f] += p->ends;
    }
    if (p->start && place_cut(k, first + i, length, error)) return error->status;
    if (p->start) continue;
    int64_t bin = find_bin(k, length);
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

/* A pack of its own: it is missed, and costs no other one. */
static void fit_bad(void *user, int64_t record)
{
  fitting *k = user;
  pack_source *p = k->p;
  if (p->start) {
    p->start[record + 1] = p->start[record];
    k->full = k->full || !tsr__grow(&k->source->node.scope->rt->heap, (void **)&p->bad,
                                    &p->bad_room, p->bad_count + 1, sizeof *p->bad);
    if (!k->full) p->bad[p->bad_count++] = record;
    return;
  }
  int64_t bin = k->bins++;
  k->opened += k->opened < p->open;
  for (int f = 0; f < p->fields; f++) k->used[bin % p->open][f] = p->length + 1;
  k->bin[record] = bin;
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
  /* In the order of records, so that a pack has its sequences as they came. */
  for (int64_t r = 0; r < count; r++) p->item[p->first[k->bin[r]]++] = r;
  /* Dealing moved each start to its pack's end, which is the next one's start. */
  for (int64_t b = k->bins; b > 0; b--) p->first[b] = p->first[b - 1];
  p->first[0] = 0;
  return TSR_OK;
}

/* first fit, best fit   bin[record]     then sorted into first[], item[]
 * cut                   start[record]   sums of lengths; a pack is found by division */
static tsr_status fit_all(tsr_source **over, pack_source *p, int64_t *packs, tsr__error *error)
{
  tsr_source *source = *over;
  tsr__heap *heap = &source->node.scope->rt->heap;
  fitting *k = tsr__new(heap, sizeof *k);
  tsr__columns told = { { 0 } };
  if (!k) return tsr__error_set(error, TSR_ENOMEM, "no memory for open packs");
  for (int f = 0; f < p->fields; f++)
    if (p->field[f].told >= 0) tsr__columns_add(&told, p->field[f].told);
  bool cut = p->way == TSR_PACK_CUT;
  k->source = source;
  k->p = p;
  if (!cut) k->bin = tsr__numbers_new(heap, source->count, error);
  else if ((p->start = tsr__numbers_new(heap, source->count + 1, error))) p->start[0] = 0;
  tsr__scan scan = { source, told, "tsr_source_pack", "pack", fit_some, k, fit_bad };
  if (!error->status && !tsr__scan_all(&scan, error) && !cut) sort_items(k, error);
  *over = scan.source;
  *packs = k->bins;
  if (k->full) tsr__error_set(error, TSR_ENOMEM, "no memory for a list of bad records");
  if (cut && !error->status)
    *packs = (p->start[source->count] + p->length - 1) / p->length + (int64_t)p->bad_count;
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
    return tsr__error_set(error, TSR_ESHAPE,
                          "field %.80s is a single number, expected one with a length", name);
  f->told = tsr__length_find(source, name);
  f->longest = column->shape.dims[0];
  f->item = f->row = tsr_dtype_size(column->dtype);
  if (!tsr__element_of(a->end, column->dtype, f->end))
    return tsr__error_set(error, TSR_EDTYPE, ".end is not a value of field %.80s, which is %s",
                          name, tsr_dtype_name(column->dtype));
  if (!like->fields) tsr__element_text(column->dtype, f->end, like->end);
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
      tsr__error_set(error, TSR_EARG,
                     "the name '%.80s' is given twice; give each field a name of its own",
                     made->name);
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
  like->way = a->way;
  like->ends = a->end.kind != TSR_SCALAR_NONE;
  if ((unsigned)a->way > TSR_PACK_CUT)
    return tsr__error_set(error, TSR_EARG, ".way is %d, expected a value of tsr_pack_way",
                          (int)a->way);
  if (a->length < 1 || a->length > INT32_MAX)
    return tsr__error_set(error, TSR_EARG, ".length is %lld, expected 1 to 2^31 - 1",
                          (long long)a->length);
  if (like->open < 1 || like->open > MOST_OPEN)
    return tsr__error_set(error, TSR_EARG, ".open is %d packs, expected 1 to %d, or 0 for %d",
                          a->open, MOST_OPEN, OPEN);
  if (!a->fields || !*a->fields)
    return tsr__error_set(error, TSR_EARG,
                          "there are no names of fields; write .fields as \"tokens,labels\"");
  if (tsr__scan_check(a->source, error)) return error->status;
  tsr__name_list names;
  if (tsr__name_list_read(&scope->arena, a->fields, false, &names, error)) return error->status;
  for (int i = 0; i < names.count && !error->status; i++)
    add_field(a, names.name[i], like, columns, error);
  return error->status;
}

tsr_source *tsr_source_pack_with(const tsr_pack_args *given, const char *site)
{
  const char *call = "tsr_source_pack";
  tsr_pack_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr__column columns[TSR__MAX_COLUMNS];
  pack_source like = { 0 };
  int64_t packs = 0;
  tsr_source *source = given ? given->source : NULL, *over = source;
  if (!tsr__records_usable(source)) return tsr__stage_refused(source, call, NULL, site);
  if (!tsr__take_opts(call, given, &args, sizeof args, &error) &&
      !check_pack(&args, &like, columns, &error))
    fit_all(&over, &like, &packs, &error);
  tsr__records_make make = { call,  site,    &pack_ops,           sizeof(pack_source),
                             packs, columns, PARTS * like.fields, &over,
                             1 };
  tsr_source *made = error.status ? tsr__stage_refused(source, call, &error, site)
                                  : tsr__records_new(tsr__records_scope(&source, 1), &make);
  if (made->inert) {
    tsr__heap *heap = &source->node.scope->rt->heap;
    tsr__numbers_free(heap, like.first, packs + 1);
    tsr__numbers_free(heap, like.item, source->count);
    tsr__numbers_free(heap, like.start, source->count + 1);
    tsr__del(heap, like.bad, like.bad_room * sizeof *like.bad);
    return made;
  }
  pack_source *p = (pack_source *)made;
  like.source = p->source;
  *p = like;
  tsr__stage_owns(made);
  return made;
}
