/* What a function makes of a list of texts, piece by piece on all workers.
 *
 *   list      "k7" "k2" "k9" | "z1" ...      a piece is some thousand texts
 *   numbers   2    2    2      2             straight into a table, which rows look up
 *   texts     K7K2K9         | Z1            a piece's bytes, then all of them in one list
 *
 * A list of results stands in the order of what it was made of, equal ones as often as they were
 * made: rows keep their codes, and nothing is looked up. Few texts are interned instead, as their
 * results are then a dictionary without repeats. */
#include "base/utf8.h"
#include "frame/lower/functions.h"

enum { PIECE = 1 << 12, FEW = 1 << 12 };

typedef struct applying {
  const tsr__expr *expr;
  int op;
  const tsr__text_domain *domain;
  int depth; /* of functions within it: see made_of */
  void *table;
  tsr__heap *heap;
  tsr__text *text; /* by piece */
  int64_t *ends;   /* by text, within its piece */
  int64_t *at;     /* by piece: where its bytes begin in the list */
  tsr__dict *made;
  _Atomic bool failed, beyond; /* `beyond`: some byte is not ASCII */
} applying;

static int64_t pieces_of(int64_t count)
{
  return (count + PIECE - 1) / PIECE;
}

static int64_t end_of(int64_t piece, int64_t count)
{
  return (piece + 1) * PIECE < count ? (piece + 1) * PIECE : count;
}

static tsr__text_view text_at(const tsr__dict *dict, int64_t code)
{
  tsr__text_view text = { 0 };
  if (dict) text.at = tsr__dict_get(dict, code, &text.length);
  return text;
}

/* The texts that result i is made of. One list of pairs: key = code of a * texts of b + code of
 * b. */
static tsr__text_view operands(const tsr__text_domain *d, int64_t i, tsr__text_view *b)
{
  int64_t key = d->pairs ? d->pairs[i] : i, right = d->b.dict ? d->b.dict->count : 1;
  if (right == 1) {
    *b = text_at(d->b.dict, 0);
    return text_at(d->a.dict, key);
  }
  *b = text_at(d->b.dict, key % right);
  return text_at(d->a.dict, key / right);
}

/* ---- what a list is made of ------------------------------------------------------------------ */

/* A text function within the function that is asked for, of one text: what it makes is needed for
 * the question alone, and nothing is kept of it. */
enum { MOST_INNER = 4 };

static bool of_one_text(const tsr__expr *expr)
{
  switch (expr->kind == TSR__E_CALL ? expr->op : -1) {
  case TSR__F_LOWER:
  case TSR__F_UPPER:
  case TSR__F_TRIM:
  case TSR__F_REPLACE:
  case TSR__F_SLICE: return expr->arg[0]->type == TSR_COL_TEXT;
  default: return false;
  }
}

const tsr__expr *tsr__text_inner(const tsr__expr *asked, int *depth)
{
  const tsr__expr *arg = asked->arg[0];
  *depth = 0;
  while (*depth < MOST_INNER && of_one_text(arg)) {
    arg = arg->arg[0];
    ++*depth;
  }
  return arg;
}

/* The text that inner functions make of another, the innermost first, in two rooms in turn. */
static tsr__text_view made_of(const tsr__expr *asked, int depth, tsr__text_view text,
                              tsr__text *room)
{
  for (int level = depth; level > 0; level--) {
    const tsr__expr *expr = asked;
    for (int i = 0; i < level; i++) expr = expr->arg[0];
    tsr__text *out = &room[level % 2];
    out->length = 0;
    tsr__text_fn(expr, text, (tsr__text_view){ 0 }, out);
    text = (tsr__text_view){ tsr__text_get(out), (int64_t)out->length };
  }
  return text;
}

/* ---- bytes of pieces ------------------------------------------------------------------------- */

/* A piece's bytes, one after the other. */
static const char *piece_bytes(const applying *p, int64_t piece, int64_t *from, int64_t *count)
{
  const tsr__dict *dict = p->domain->a.dict;
  *from = dict->offsets[piece * PIECE];
  *count = dict->offsets[end_of(piece, dict->count)] - *from;
  return dict->bytes + *from;
}

static const uint64_t ones = UINT64_C(0x0101010101010101), tops = UINT64_C(0x8080808080808080);

/* Of bytes that are ASCII, eight at a time: adding takes those from the first letter on over 127,
 * and those behind the last one; the letters between change by 0x20. */
static void change_case(int op, const char *bytes, int64_t count, char *to)
{
  char first = op == TSR__F_UPPER ? 'a' : 'A';
  uint64_t from = ones * (uint64_t)(128 - first), behind = ones * (uint64_t)(128 - first - 26),
           word;
  int64_t i = 0;
  for (; count - i >= 8; i += 8) {
    memcpy(&word, bytes + i, 8);
    word ^= ((word + from) & ~(word + behind) & tops) >> 2;
    memcpy(to + i, &word, 8);
  }
  for (; i < count; i++)
    to[i] = (char)(bytes[i] ^ ((unsigned char)(bytes[i] - first) < 26 ? 0x20 : 0));
}

/* ---- searching pieces ------------------------------------------------------------------------ */

/* Where a text of two bytes or more first stands from `at` on, NULL if not before `end`: places
 * whose first and last bytes are its are found sixteen at a time. */
static const char *find_in(const char *at, const char *end, tsr__text_view what)
{
  typedef uint8_t bytes __attribute__((vector_size(16)));
  size_t length = (size_t)what.length, least = length + 15;
  const char *from = at;
  uint8_t first = (uint8_t)what.at[0], last = (uint8_t)what.at[length - 1];
  for (; (size_t)(end - at) >= length; at += 16) {
    bytes a, b;
    uint64_t half[2];
    /* The last ones are looked at together with some before, which are known not to be it. */
    if ((size_t)(end - at) < least) {
      if ((size_t)(end - from) < least) return memmem(at, (size_t)(end - at), what.at, length);
      at = end - least;
    }
    memcpy(&a, at, 16);
    memcpy(&b, at + length - 1, 16);
    bytes both = (bytes)(a == first) & (bytes)(b == last);
    memcpy(half, &both, 16);
    if (!(half[0] | half[1])) continue;
    for (int i = 0; i < 16; i++)
      if (both[i] && !memcmp(at + i, what.at, length)) return at + i;
  }
  return NULL;
}

/* Which texts of a piece hold one: texts lie side by side, in `bytes` or where they are, so all are
 * searched at once; what goes over the end of one is none. */
static void search_piece(const applying *p, int64_t from, int64_t to, const char *bytes,
                         tsr__text_view what)
{
  const int64_t *offsets = p->domain->a.dict->offsets, begin = offsets[from];
  const char *at = bytes, *end = bytes + offsets[to] - begin;
  bool *table = p->table;
  while (from < to && (at = find_in(at, end, what))) {
    int64_t place = begin + (at - bytes);
    while (offsets[from + 1] <= place) from++;
    bool within = place + what.length <= offsets[from + 1];
    if (within) table[from] = true;
    at = within ? bytes + offsets[++from] - begin : at + 1;
  }
}

/* Asks the texts of a piece whose bytes lie as they do, but for their letters. */
static void ask_piece(const applying *p, int64_t from, int64_t to, const char *bytes,
                      tsr__text_view what)
{
  const int64_t *offsets = p->domain->a.dict->offsets;
  bool *table = p->table;
  if (p->op == TSR__F_CONTAINS && what.length > 1) {
    search_piece(p, from, to, bytes, what);
    return;
  }
  for (int64_t i = from; i < to; i++) {
    tsr__text_view text = { bytes + offsets[i] - offsets[from], offsets[i + 1] - offsets[i] };
    table[i] = tsr__text_test(p->op, text, what);
  }
}

/* A test of one text that is asked of a piece as it lies, or in other cases. False: otherwise. */
static bool ask_whole(const applying *p, int64_t piece, tsr__text *room)
{
  const tsr__text_domain *d = p->domain;
  int inner = p->depth ? p->expr->arg[0]->op : 0;
  bool cases = p->depth == 1 && (inner == TSR__F_UPPER || inner == TSR__F_LOWER);
  if (!tsr__is_text_test(p->op) || d->pairs || !d->b.dict || d->b.dict->count != 1) return false;
  if (p->depth && !cases) return false;
  int64_t from, count;
  const char *bytes = piece_bytes(p, piece, &from, &count);
  if (cases) {
    if (!tsr__all_ascii(bytes, (size_t)count)) return false;
    tsr__text_put(room, bytes, (size_t)count);
    if (room->failed) return false;
    change_case(inner, bytes, count, room->data);
    bytes = room->data;
  }
  ask_piece(p, piece * PIECE, end_of(piece, d->count), bytes, text_at(d->b.dict, 0));
  return true;
}

bool tsr__text_asks(const tsr__expr *asked, int depth, tsr__text_view text, tsr__text_view what,
                    tsr__text *room)
{
  int inner = depth == 1 ? asked->arg[0]->op : 0;
  bool cases = inner == TSR__F_UPPER || inner == TSR__F_LOWER;
  if (cases && text.length && tsr__all_ascii(text.at, (size_t)text.length)) {
    room->length = 0;
    tsr__text_put(room, text.at, (size_t)text.length);
    if (room->failed) return false;
    change_case(inner, text.at, text.length, room->data);
    text.at = room->data;
  } else if (depth) {
    text = made_of(asked, depth, text, room);
  }
  if (asked->op == TSR__F_CONTAINS && what.length > 1)
    return find_in(text.at, text.at + text.length, what) != NULL;
  return tsr__text_test(asked->op, text, what);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void fill_piece(void *user, int64_t piece, int worker)
{
  (void)worker;
  applying *p = user;
  int64_t count = p->domain->count;
  tsr__text room[2];
  tsr__text_init(&room[0], p->heap);
  tsr__text_init(&room[1], p->heap);
  int64_t begin = ask_whole(p, piece, &room[0]) ? end_of(piece, count) : piece * PIECE;
  for (int64_t i = begin; i < end_of(piece, count); i++) {
    tsr__text_view b, a = operands(p->domain, i, &b);
    a = made_of(p->expr, p->depth, a, room);
    if (p->op == TSR__F_LENGTH) ((int64_t *)p->table)[i] = tsr__text_points(a);
    else ((bool *)p->table)[i] = tsr__text_test(p->op, a, b);
  }
  if (room[0].failed || room[1].failed) atomic_store(&p->failed, true);
  tsr__text_free(&room[0]);
  tsr__text_free(&room[1]);
}

bool tsr__texts_each(tsr__lower *low, int64_t count, tsr__task_fn fn, void *user)
{
  if (tsr__lower_stops(low, -1)) return false;
  if (tsr__parallel_long(low->scope->rt, TSR__PROGRAM, pieces_of(count), fn, user)) return true;
  tsr__lower_cancelled(low);
  return false;
}

int64_t tsr__texts_piece(int64_t piece, int64_t count, int64_t *end)
{
  *end = end_of(piece, count);
  return piece * PIECE;
}

static void fill_table(tsr__lower *low, applying *p, tsr__col *out)
{
  bool number = p->op == TSR__F_LENGTH;
  int64_t count = p->domain->count;
  p->table = tsr__lower_room(low, count, number ? sizeof(int64_t) : sizeof(bool));
  if (!p->table || !tsr__texts_each(low, count, fill_piece, p)) return;
  if (p->failed) tsr__fail(low->scope, low->site, TSR_ENOMEM, "%s: out of memory", low->bind->what);
  out->values = tsr__look_up(low, number ? TSR_I64 : TSR_BOOL, p->table, count, p->domain->index);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void write_piece(void *user, int64_t piece, int worker)
{
  (void)worker;
  applying *p = user;
  tsr__text *out = &p->text[piece];
  tsr__text_init(out, p->heap);
  for (int64_t i = piece * PIECE; i < end_of(piece, p->domain->count); i++) {
    tsr__text_view b, a = operands(p->domain, i, &b);
    tsr__text_fn(p->expr, a, b, out);
    p->ends[i] = (int64_t)out->length;
  }
  if (out->failed) atomic_store(&p->failed, true);
}

static void place_piece(void *user, int64_t piece, int worker)
{
  (void)worker;
  applying *p = user;
  tsr__text *text = &p->text[piece];
  if (text->length) memcpy(p->made->bytes + p->at[piece], text->data, text->length);
  for (int64_t i = piece * PIECE; i < end_of(piece, p->domain->count); i++)
    p->made->offsets[i + 1] = p->at[piece] + p->ends[i];
  /* At once, so that the texts do not lie twice in memory when the last are copied. */
  tsr__text_free(text);
}

/* False: out of memory, or cancelled, which is recorded. */
static bool make_list(tsr__lower *low, applying *p)
{
  int64_t count = p->domain->count, bytes = 0;
  if (!tsr__texts_each(low, count, write_piece, p) || p->failed) return false;
  for (int64_t piece = 0; piece < pieces_of(count); piece++) {
    p->at[piece] = bytes;
    bytes += (int64_t)p->text[piece].length;
  }
  p->made = tsr__dict_new(p->heap, (int32_t)count, bytes);
  if (!p->made) return false;
  p->made->repeats = true;
  return tsr__texts_each(low, count, place_piece, p);
}

static void look_piece(void *user, int64_t piece, int worker)
{
  (void)worker;
  applying *p = user;
  int64_t from, count;
  const char *bytes = piece_bytes(p, piece, &from, &count);
  if (!tsr__all_ascii(bytes, (size_t)count)) atomic_store(&p->beyond, true);
}

static void case_piece(void *user, int64_t piece, int worker)
{
  (void)worker;
  applying *p = user;
  int64_t from, count;
  const char *bytes = piece_bytes(p, piece, &from, &count);
  change_case(p->op, bytes, count, p->made->bytes + from);
}

/* Cases of ASCII are as long as they were: the list is that of before with other letters. False:
 * it is another function, or some text is not ASCII, or it was cancelled, which is recorded. */
static bool change_list(tsr__lower *low, applying *p)
{
  const tsr__dict *dict = p->domain->a.dict;
  bool cases = p->op == TSR__F_UPPER || p->op == TSR__F_LOWER;
  if (!cases || !tsr__texts_each(low, dict->count, look_piece, p) || p->beyond) return false;
  p->made = tsr__dict_new(p->heap, dict->count, dict->offsets[dict->count]);
  if (!p->made) return false;
  p->made->repeats = true;
  memcpy(p->made->offsets, dict->offsets, ((size_t)dict->count + 1) * sizeof *dict->offsets);
  return tsr__texts_each(low, dict->count, case_piece, p);
}

static void fill_list(tsr__lower *low, applying *p, tsr__col *out)
{
  size_t count = (size_t)p->domain->count, pieces = (size_t)pieces_of(p->domain->count);
  p->text = tsr__new(p->heap, pieces * sizeof *p->text);
  p->at = tsr__new(p->heap, pieces * sizeof *p->at);
  p->ends = tsr__new_raw(p->heap, count * sizeof *p->ends);
  bool whole = p->text && p->at && p->ends;
  if (whole && !change_list(low, p)) {
    tsr__dict_release(p->made); /* what was cancelled */
    p->made = NULL;
    whole = make_list(low, p);
  }
  for (size_t piece = 0; p->text && piece < pieces; piece++) tsr__text_free(&p->text[piece]);
  tsr__del(p->heap, p->text, pieces * sizeof *p->text);
  tsr__del(p->heap, p->at, pieces * sizeof *p->at);
  tsr__del(p->heap, p->ends, count * sizeof *p->ends);
  if (!whole) {
    tsr__dict_release(p->made); /* half filled */
    p->made = NULL;
  }
  if (!whole && tsr_scope_status(low->scope)) return;
  out->dict = tsr__lower_dict(low, p->made, NULL);
  out->values = tsr__cast(low, p->domain->index, TSR_I32);
}

/* Equal results get one code. */
static void intern(tsr__lower *low, const applying *p, tsr__text_layout layout, tsr__col *out)
{
  const tsr__text_domain *d = p->domain;
  int32_t *codes = tsr__lower_room(low, d->count, sizeof *codes);
  tsr__texts texts;
  tsr__text made;
  if (!codes) return;
  tsr__texts_open(&texts, low);
  texts.local.layout = layout;
  tsr__text_init(&made, &low->scope->rt->heap);
  for (int64_t i = 0; i < d->count && !texts.local.failed && !tsr__lower_stops(low, i); i++) {
    tsr__text_view b, a = operands(d, i, &b);
    made.length = 0;
    tsr__text_fn(p->expr, a, b, &made);
    codes[i] = tsr__texts_code(&texts, made.data, made.length);
  }
  if (made.failed)
    tsr__fail(low->scope, low->site, TSR_ENOMEM, "%s: out of memory", low->bind->what);
  tsr__text_free(&made);
  out->dict = tsr__texts_close(&texts, codes, d->count);
  out->values = tsr__look_up(low, TSR_I32, codes, d->count, d->index);
}

tsr__col tsr__text_apply(tsr__lower *low, const tsr__expr *expr, const tsr__text_domain *d)
{
  tsr__col out = { .type = expr->type,
                   .values = d->a.values,
                   .valid = tsr__both(low, d->a.valid, d->b.valid) };
  applying p = { .expr = expr, .op = expr->op, .domain = d, .depth = d->depth };
  p.heap = &low->scope->rt->heap;
  tsr__text_layout layout = tsr__text_layout_asked();
  bool many = layout == TSR__TEXTS_CHOSEN ? d->count > FEW : layout == TSR__TEXTS_VIEWS;
  if (p.op == TSR__F_LENGTH || tsr__is_text_test(p.op)) fill_table(low, &p, &out);
  else if (many) fill_list(low, &p, &out);
  else intern(low, &p, layout == TSR__TEXTS_MIXED ? layout : TSR__TEXTS_CODES, &out);
  return out;
}
