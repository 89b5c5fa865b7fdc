/* Dictionaries in order, and dictionaries against each other.
 *
 *   dictionary   0 "bob"  1 "ann"  2 "amy"        ranks   2 1 0
 *
 * Ranks come of a radix sort by eight bytes of the texts at a time: equal keys that go on are
 * sorted by the next eight. A text that ends goes before those that have it as their beginning, so
 * a key is the bytes and how many there were. Everything here is done once for each distinct
 * text. */
#include "frame/lower/functions.h"

enum { STEP = 8, FEW = 24, DIGITS = 256 };

/* A text in the order so far: its next bytes, and how many of them are its own (STEP + 1: it goes
 * on). */
typedef struct item {
  uint64_t key;
  int32_t code;
  uint8_t left;
} item;

/* `depth` is at most the text's length: a run goes on only with texts that do. */
static void load(const tsr__dict *dict, item *it, int64_t depth)
{
  int64_t length;
  const char *text = tsr__dict_get(dict, it->code, &length);
  int64_t left = length - depth;
  uint8_t bytes[STEP] = { 0 };
  memcpy(bytes, text + depth, (size_t)(left < STEP ? left : STEP));
  uint64_t key;
  memcpy(&key, bytes, sizeof key);
  /* The first byte of the text on top, so that numbers compare as texts do. */
  it->key = __builtin_bswap64(key);
  /* "a" and "a" followed by a zero byte have one key; how many bytes are their own tells them
   * apart. */
  it->left = (uint8_t)(left > STEP ? STEP + 1 : left);
}

static bool before(const item *a, const item *b)
{
  return a->key != b->key ? a->key < b->key : a->left < b->left;
}

static void sort_few(item *items, int64_t count)
{
  for (int64_t i = 1; i < count; i++) {
    item it = items[i];
    int64_t at = i;
    for (; at > 0 && before(&it, &items[at - 1]); at--) items[at] = items[at - 1];
    items[at] = it;
  }
}

/* The length is the least significant digit. */
static unsigned digit(const item *it, int pass)
{
  return pass == 0 ? it->left : (unsigned)(it->key >> (8 * (pass - 1)) & 0xff);
}

/* A run of texts that are alike in their first `depth` bytes. */
typedef struct run {
  int64_t first, count, depth;
} run;

typedef struct sorter {
  tsr__lower *low;
  int64_t steps; /* texts sorted so far, as often as each was */
  const tsr__dict *dict;
  item *items, *spare;
  run *todo; /* at most one for each two texts */
  int64_t runs;
  bool stopped;
} sorter;

static bool stops(sorter *s)
{
  return s->stopped = s->stopped || tsr__lower_stops(s->low, s->steps++);
}

/* By the least significant digit first: how many bytes are left, then eight bytes, the last one
 * first. Each pass is stable; digits that all have alike are skipped. */
static void sort_many(sorter *s, item *items, int64_t count)
{
  item *from = items, *to = s->spare;
  for (int pass = 0; pass <= STEP; pass++) {
    int64_t start[DIGITS] = { 0 }, sum = 0;
    for (int64_t i = 0; i < count; i++) start[digit(&from[i], pass)]++;
    if (start[digit(&from[0], pass)] == count) continue;
    for (int d = 0; d < DIGITS; d++) {
      int64_t here = start[d];
      start[d] = sum;
      sum += here;
    }
    for (int64_t i = 0; i < count; i++) {
      if (stops(s)) return;
      to[start[digit(&from[i], pass)]++] = from[i];
    }
    item *swap = from;
    from = to;
    to = swap;
  }
  if (from != items) memcpy(items, from, (size_t)count * sizeof *items);
}

static void sort_run(sorter *s, run r)
{
  item *items = s->items + r.first;
  /* All of the run are alike in the bytes before `depth`: what follows decides. */
  for (int64_t i = 0; i < r.count && !stops(s); i++) load(s->dict, &items[i], r.depth);
  if (s->stopped) return;
  /* Few are sorted by insertion: counting to 256 nine times costs more. */
  if (r.count <= FEW) sort_few(items, r.count);
  else sort_many(s, items, r.count);
  if (s->stopped) return;
  /* Equal neighbours, after the sort, are one run. */
  for (int64_t i = 0, end; i < r.count; i = end) {
    for (end = i + 1; end < r.count && !before(&items[i], &items[end]); end++) {
    }
    /* Equal so far, and there is more: sorted by the next bytes. Those that ended here are equal
     * texts, of which a dictionary has one each. */
    if (end - i > 1 && items[i].left > STEP)
      s->todo[s->runs++] = (run){ r.first + i, end - i, r.depth + STEP };
  }
}

const int32_t *tsr__text_ranks(tsr__lower *low, const tsr__dict *dict)
{
  int64_t count = dict->count;
  int32_t *ranks = tsr__lower_room(low, count, sizeof *ranks);
  sorter s = { .low = low,
               .dict = dict,
               .items = tsr__lower_room(low, count, sizeof(item)),
               .spare = tsr__lower_room(low, count, sizeof(item)),
               .todo = tsr__lower_room(low, count / 2 + 1, sizeof(run)) };
  if (!ranks || !s.items || !s.spare || !s.todo) return NULL;
  /* A list of runs instead of recursion: texts that are alike for a megabyte need no stack. */
  for (int64_t i = 0; i < count; i++) s.items[i].code = (int32_t)i;
  if (count > 1) s.todo[s.runs++] = (run){ 0, count, 0 };
  while (s.runs && !s.stopped) sort_run(&s, s.todo[--s.runs]);
  if (s.stopped) return NULL;
  for (int64_t i = 0; i < count; i++) ranks[s.items[i].code] = (int32_t)i;
  return ranks;
}

/* ---- one dictionary in order, out of one or two ---------------------------------------------- */

/*   a  "bob" "ann"     ranks 1 0     place 1 0        all  "ann" "bob" "eve"
 *   b  "eve" "bob"     ranks 1 0     place 2 1 */
typedef struct side {
  const tsr__dict *dict;
  int32_t *order; /* codes by rank */
  int32_t *place; /* by code, in the dictionary of all */
} side;

static bool order_side(tsr__lower *low, const tsr__dict *dict, side *s)
{
  int64_t count = dict->count;
  const int32_t *ranks = tsr__text_ranks(low, dict);
  *s = (side){ dict, tsr__lower_room(low, count, sizeof(int32_t)),
               tsr__lower_room(low, count, sizeof(int32_t)) };
  if (!ranks || !s->order || !s->place) return false;
  for (int64_t i = 0; i < count; i++) s->order[ranks[i]] = (int32_t)i;
  return true;
}

/* The text of a rank. */
static const char *text_of(const side *s, int32_t rank, int64_t *length)
{
  return tsr__dict_get(s->dict, s->order[rank], length);
}

/* Below 0: the text of `a` at rank i goes before that of `b` at rank j; beyond their ends all
 * do. */
static int compare(const side *a, int32_t i, const side *b, int32_t j)
{
  int64_t left_length, right_length;
  if (i == a->dict->count || j == b->dict->count) return i == a->dict->count ? 1 : -1;
  const char *left = text_of(a, i, &left_length), *right = text_of(b, j, &right_length);
  return tsr__text_order(left, left_length, right, right_length);
}

/* Finds the places of both sides' texts among all; their number, -1: cancelled. A text of both
 * sides gets one place. */
static int32_t merge_sides(tsr__lower *low, side *a, side *b, int64_t *bytes)
{
  int32_t i = 0, j = 0, place = 0;
  *bytes = 0;
  for (; i < a->dict->count || j < b->dict->count; place++) {
    int order = compare(a, i, b, j);
    int64_t length;
    if (tsr__lower_stops(low, place)) return -1;
    text_of(order <= 0 ? a : b, order <= 0 ? i : j, &length);
    *bytes += length;
    if (order <= 0) a->place[a->order[i++]] = place;
    if (order >= 0) b->place[b->order[j++]] = place;
  }
  return place;
}

/* The dictionary of all texts in order; NULL with an error. */
static const tsr__dict *all_texts(tsr__lower *low, side *a, side *b)
{
  int64_t bytes, at = 0;
  int32_t count = merge_sides(low, a, b, &bytes), i = 0, j = 0;
  tsr__dict *dict = count < 0 ? NULL : tsr__dict_new(&low->scope->rt->heap, count, bytes);
  if (count < 0) return NULL;
  for (int32_t place = 0; dict && place < count; place++) {
    int64_t length;
    bool left = i < a->dict->count && a->place[a->order[i]] == place;
    bool right = j < b->dict->count && b->place[b->order[j]] == place;
    const char *text = text_of(left ? a : b, left ? i : j, &length);
    if (tsr__lower_stops(low, place)) {
      tsr__dict_release(dict); /* half filled: nobody may read it, not even until the work ended */
      return NULL;
    }
    memcpy(dict->bytes + at, text, (size_t)length);
    at += length;
    dict->offsets[place + 1] = at;
    i += left;
    j += right;
  }
  return tsr__lower_dict(low, dict, NULL);
}

void tsr__text_rank(tsr__lower *low, tsr__col *a)
{
  static const tsr__dict none;
  /* An empty dictionary as the other side: all texts are of this one, in order. */
  side of, nobody = { .dict = &none };
  if (!a->dict || !tsr__text_distinct(low, a) || !order_side(low, a->dict, &of)) return;
  int32_t count = a->dict->count;
  a->dict = all_texts(low, &of, &nobody);
  /* The codes are ranks from here on, so order and equality of codes are those of the texts. */
  a->values = tsr__spread(low, tsr__look_up(low, TSR_I32, of.place, count, a->values));
}

bool tsr__text_unify(tsr__lower *low, tsr__col *a, tsr__col *b)
{
  side left, right;
  if (!a->dict) a->dict = b->dict; /* a bare null has none */
  if (!b->dict) b->dict = a->dict;
  /* One dictionary already: its codes stand for the same texts. */
  if (!a->dict || a->dict == b->dict) return a->dict != NULL;
  if (!tsr__text_distinct(low, a) || !tsr__text_distinct(low, b)) return false;
  /* Both in order first, so that one merge finds the texts that both have. */
  if (!order_side(low, a->dict, &left) || !order_side(low, b->dict, &right)) return false;
  const tsr__dict *both = all_texts(low, &left, &right);
  a->values = tsr__look_up(low, TSR_I32, left.place, left.dict->count, a->values);
  b->values = tsr__look_up(low, TSR_I32, right.place, right.dict->count, b->values);
  a->dict = b->dict = both;
  return both != NULL;
}

/* ---- one dictionary against another ---------------------------------------------------------- */

/* Adds the texts of a dictionary to a table; codes[i] is what text i got. False: it failed or was
 * cancelled. */
static bool add_texts(tsr__lower *low, tsr__dict_local *local, const tsr__dict *dict,
                      int32_t *codes)
{
  for (int32_t i = 0; i < dict->count; i++) {
    int64_t length;
    bool added;
    if (tsr__lower_stops(low, i)) return false;
    const char *text = tsr__dict_get(dict, i, &length);
    codes[i] = tsr__dict_code(local, text, (size_t)length, false, &added);
    if (codes[i] < 0) break;
  }
  if (local->failed && local->progress->stop) tsr__lower_cancelled(low);
  return !local->failed;
}

const int32_t *tsr__text_map(tsr__lower *low, const tsr__dict *from, const tsr__dict *to)
{
  int32_t *own = tsr__lower_room(low, to->count, sizeof *own),
          *codes = tsr__lower_room(low, from->count, sizeof *codes);
  if (!own || !codes) return NULL;
  tsr__progress progress = { .rt = low->scope->rt, .what = TSR__PROGRAM };
  tsr__dict_local local;
  tsr__dict_local_init(&local, &low->scope->rt->heap);
  local.progress = &progress;
  /* `to` first: its codes are 0, 1, ... in the table, as no text stands twice in a dictionary. */
  bool fine = add_texts(low, &local, to, own) && add_texts(low, &local, from, codes);
  tsr__dict_local_free(&local);
  for (int32_t i = 0; fine && i < from->count; i++)
    /* Codes up to there are `to`'s own, as its texts came first. */
    if (codes[i] >= to->count) codes[i] = -1;
  if (fine) return codes;
  tsr__fail(low->scope, low->site, TSR_ENOMEM, "%s: out of memory", low->bind->what);
  return NULL;
}

static bool same_codes(const int32_t *codes, int32_t count)
{
  for (int32_t i = 0; i < count; i++)
    if (codes[i] != i) return false;
  return true;
}

/* Dictionaries are added in order of the columns, so codes are by first appearance over all of
 * them, as if the columns had been one. */
static tsr_status unify_all(tsr__lower **low, tsr__col **col, int count, tsr__dict_local *local)
{
  bool fine = true;
  for (int i = 0; i < count && fine; i++) {
    const tsr__dict *dict = col[i]->dict;
    if (!dict || !dict->count) continue;
    int32_t *codes = tsr__lower_room(low[i], dict->count, sizeof *codes);
    fine = codes && add_texts(low[i], local, dict, codes);
    /* The first dictionary keeps its codes, and so do others that agree with it: no look-up for
     * them. */
    if (!fine || same_codes(codes, dict->count)) continue;
    tsr_array *table = tsr__table_leaf(low[i], TSR_I32, codes, dict->count);
    col[i]->values = tsr__op2(low[i], TSR__OP_TAKE, table, tsr__spread(low[i], col[i]->values));
  }
  tsr__dict *made = fine ? tsr__dict_unify(local->heap, &local, 1) : NULL;
  const tsr__dict *all = tsr__lower_dict(low[0], made, local->progress);
  for (int i = 0; i < count; i++) col[i]->dict = all;
  return tsr_scope_status(low[0]->scope);
}

tsr_status tsr__text_unify_all(tsr__lower **low, tsr__col **col, int count)
{
  const tsr__dict *one = NULL;
  bool alike = true;
  for (int i = 0; i < count; i++) {
    if (!col[i]->dict) continue;
    alike = alike && (!one || one == col[i]->dict);
    one = col[i]->dict;
  }
  for (int i = 0; i < count && alike; i++) col[i]->dict = one;
  if (alike) return TSR_OK;
  tsr__progress progress = { .rt = low[0]->scope->rt, .what = TSR__PROGRAM };
  tsr__dict_local local;
  tsr__dict_local_init(&local, &low[0]->scope->rt->heap);
  local.progress = &progress;
  tsr_status status = unify_all(low, col, count, &local);
  tsr__dict_local_free(&local);
  return status;
}
