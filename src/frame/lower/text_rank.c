/* Dictionaries in order, and dictionaries against each other. Everything here is done once for each
 * distinct text. */
#include "frame/lower/functions.h"

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

/* ---- two columns compared -------------------------------------------------------------------- */

/*   a  "ann" "bob"         places 0 2      how many texts of both stand before: equal texts have
 *   b  "ann" "eve"                0 3      equal ones, and all are in order
 *
 * A piece of `a` meets the texts of `b` from its own first one to the next piece's. */
typedef struct meeting {
  side a, b;
} meeting;

/* How many texts of the other side go before that of a rank; behind the last all do. */
static int32_t before(const meeting *m, int64_t rank)
{
  int32_t low = 0, high = m->b.dict->count;
  if (rank == m->a.dict->count) return high;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    if (compare(&m->a, (int32_t)rank, &m->b, middle) > 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void meet_piece(void *user, int64_t piece, int worker)
{
  meeting *m = user;
  int64_t end;
  int32_t i = (int32_t)tsr__texts_piece(piece, m->a.dict->count, &end);
  /* Those before all of `a` go with its first piece. */
  int32_t j = i ? before(m, i) : 0, last = before(m, end);
  (void)worker;
  while (i < end || j < last) {
    int order = i == end ? 1 : j == last ? -1 : compare(&m->a, i, &m->b, j);
    if (order <= 0) m->a.place[m->a.order[i]] = i + j;
    if (order >= 0) m->b.place[m->b.order[j]] = i + j;
    i += order <= 0;
    j += order >= 0;
  }
}

/* One dictionary's codes are equal where texts are; of two that of one finds the other's. */
static bool meet_equal(tsr__lower *low, const tsr__col *a, tsr__col *b)
{
  if (a->dict == b->dict) return true;
  const int32_t *map = tsr__text_map(low, b->dict, a->dict);
  if (map) b->values = tsr__look_up(low, TSR_I32, map, b->dict->count, b->values);
  return map != NULL;
}

static bool meet_in_order(tsr__lower *low, tsr__col *a, tsr__col *b)
{
  meeting m = { .a = { .dict = a->dict } };
  const int32_t *ranks = a->dict == b->dict ? tsr__text_ranks(low, a->dict) : NULL;
  if (a->dict == b->dict && !ranks) return false;
  if (!ranks && (!order_side(low, a->dict, &m.a) || !order_side(low, b->dict, &m.b) ||
                 !tsr__texts_each(low, a->dict->count, meet_piece, &m)))
    return false;
  a->values = tsr__look_up(low, TSR_I32, ranks ? ranks : m.a.place, a->dict->count, a->values);
  b->values = tsr__look_up(low, TSR_I32, ranks ? ranks : m.b.place, b->dict->count, b->values);
  return true;
}

bool tsr__text_meet(tsr__lower *low, tsr__col *a, tsr__col *b, bool equal)
{
  /* Nulls alone, which no value compares. */
  if (!a->dict || !b->dict || !a->dict->count || !b->dict->count) return true;
  if (equal) return meet_equal(low, a, b);
  /* Places count twice what stands in both. */
  if (a->dict->count > INT32_MAX - b->dict->count) return tsr__text_unify(low, a, b);
  return meet_in_order(low, a, b);
}

/* ---- one list behind another ----------------------------------------------------------------- */

static void copy_texts(tsr__dict *to, int32_t first, const tsr__dict *from)
{
  int64_t at = to->offsets[first];
  memcpy(to->bytes + at, from->bytes, (size_t)from->offsets[from->count]);
  for (int32_t i = 1; i <= from->count; i++) to->offsets[first + i] = at + from->offsets[i];
}

bool tsr__text_pool(tsr__lower *low, tsr__col *a, tsr__col *b)
{
  const tsr__dict *first = a->dict, *second = b->dict;
  bool views = first && second && first != second && (first->repeats || second->repeats);
  /* Beyond what codes can tell the different ones may still be few enough. */
  if (!views || first->count > INT32_MAX - second->count) return tsr__text_unify(low, a, b);
  tsr__dict *both = tsr__dict_new(&low->scope->rt->heap, first->count + second->count,
                                  first->offsets[first->count] + second->offsets[second->count]);
  if (both) {
    both->repeats = true;
    copy_texts(both, 0, first);
    copy_texts(both, first->count, second);
  }
  a->dict = b->dict = tsr__lower_dict(low, both, NULL);
  b->values =
      tsr__op2(low, TSR__OP_ADD, b->values, tsr__const_i(low, TSR_I32, a->dict ? first->count : 0));
  return a->dict != NULL;
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
  int32_t *codes = tsr__lower_room(low, from->count, sizeof *codes);
  tsr__progress progress = { .rt = low->scope->rt, .what = TSR__PROGRAM };
  if (!codes || tsr__lower_stops(low, -1)) return NULL;
  if (tsr__dict_map(from, to, codes, &progress)) return codes;
  (void)tsr__lower_dict(low, NULL, &progress);
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
