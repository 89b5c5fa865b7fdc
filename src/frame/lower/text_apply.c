/* What a function makes of a list of texts, piece by piece on all workers.
 *
 *   list      "k7" "k2" "k9" | "z1" ...      a piece is some thousand texts
 *   numbers   2    2    2      2             straight into a table, which rows look up
 *   texts     K7K2K9         | Z1            a piece's bytes, then all of them in one list
 *
 * A list of results stands in the order of what it was made of, equal ones as often as they were
 * made: rows keep their codes, and nothing is looked up. Few texts are interned instead, as their
 * results are then a dictionary without repeats. */
#include "frame/lower/functions.h"

enum { PIECE = 1 << 12, FEW = 1 << 12 };

typedef struct applying {
  const tsr__expr *expr;
  int op;
  const tsr__text_domain *domain;
  void *table;
  tsr__heap *heap;
  tsr__text *text; /* by piece */
  int64_t *ends;   /* by text, within its piece */
  int64_t *at;     /* by piece: where its bytes begin in the list */
  tsr__dict *made;
  _Atomic bool failed;
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

/* ---- tables ---------------------------------------------------------------------------------- */

static void fill_piece(void *user, int64_t piece, int worker)
{
  (void)worker;
  applying *p = user;
  for (int64_t i = piece * PIECE; i < end_of(piece, p->domain->count); i++) {
    tsr__text_view b, a = operands(p->domain, i, &b);
    if (p->op == TSR__F_LENGTH) ((int64_t *)p->table)[i] = tsr__text_points(a);
    else ((bool *)p->table)[i] = tsr__text_test(p->op, a, b);
  }
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

static void fill_list(tsr__lower *low, applying *p, tsr__col *out)
{
  size_t count = (size_t)p->domain->count, pieces = (size_t)pieces_of(p->domain->count);
  p->heap = &low->scope->rt->heap;
  p->text = tsr__new(p->heap, pieces * sizeof *p->text);
  p->at = tsr__new(p->heap, pieces * sizeof *p->at);
  p->ends = tsr__new_raw(p->heap, count * sizeof *p->ends);
  bool whole = p->text && p->at && p->ends && make_list(low, p);
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
  applying p = { .expr = expr, .op = expr->op, .domain = d };
  tsr__text_layout layout = tsr__text_layout_asked();
  bool many = layout == TSR__TEXTS_CHOSEN ? d->count > FEW : layout == TSR__TEXTS_VIEWS;
  if (p.op == TSR__F_LENGTH || tsr__is_text_test(p.op)) fill_table(low, &p, &out);
  else if (many) fill_list(low, &p, &out);
  else intern(low, &p, layout == TSR__TEXTS_MIXED ? layout : TSR__TEXTS_CODES, &out);
  return out;
}
