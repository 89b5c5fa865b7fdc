/* Where rows lie, as far as it is known before anything is read.
 *
 *   source, read_csv, place    as asked for
 *   filter, assign, sort ...   where the rows before lie
 *   a + b                      with the side that is placed; of two, with the one that is split
 *
 * Invariant: this agrees with what propagation chooses for the columns (partition/propagate.c): an
 * unplaced side joins the placed one, a whole one is sliced where the other is split. */
#include "frame/chain/chain.h"

#define SOME_ROWS 1048576 /* stands for a number that only reading tells */

/* Whether rows are cut over some axis. */
static bool is_split(const tsr_sharding *at)
{
  return at->mesh && tsr__dim_axes(at, 0) != 0;
}

/* The result is one of the two as it is, and borrowed like them. */
const tsr_sharding *tsr__rows_meet(const tsr_sharding *a, const tsr_sharding *b)
{
  if (!a || !a->mesh) return b;
  if (!b || !b->mesh) return a;
  return !is_split(a) && is_split(b) && a->mesh == b->mesh ? b : a;
}

/* One row lies everywhere and says nothing. Rows that a terminal made lie as they were left; a
 * column of text has a source as well, and is where its frame is. */
static const tsr_sharding *rows_of(const tsr_frame *df)
{
  if (!df || df->one_row) return NULL;
  bool made = df->source && df->source->rows >= 0;
  if (made && tsr__verb_of(df)->rows != TSR__ROWS_KEEPS) return &df->source->sharding;
  return tsr__verb_of(df)->lies(df);
}

const tsr_sharding *tsr__lies_source(const tsr_frame *df)
{
  return &df->source->sharding;
}

const tsr_sharding *tsr__lies_parent(const tsr_frame *df)
{
  return rows_of(df->parent);
}

/* `even` keeps the devices and evens out the rows on them. */
const tsr_sharding *tsr__lies_place(const tsr_frame *df)
{
  return df->even ? rows_of(df->parent) : &df->to;
}

/* On no mesh, the left rows join the right ones. */
const tsr_sharding *tsr__lies_join(const tsr_frame *df)
{
  const tsr_sharding *left = rows_of(df->parent);
  return left && left->mesh ? left : rows_of(df->other);
}

const tsr_sharding *tsr__lies_pair(const tsr_frame *df)
{
  return tsr__rows_meet(rows_of(df->parent), rows_of(df->other));
}

tsr_sharding tsr_frame_sharding(const tsr_frame *df)
{
  const tsr_sharding *at = tsr__frame_usable(df) ? rows_of(df) : NULL;
  tsr_sharding out = { 0 };
  if (!at || !at->mesh) return out;
  out = *at;
  out.rank = 1; /* the canonical form names dims that there are not */
  return out;
}

/* ---- two frames -------------------------------------------------------------------------- */

static void add_place(const tsr_sharding *at, tsr__text *out)
{
  char spec[100];
  if (!at || !at->mesh) {
    tsr__text_add(out, "one device");
    return;
  }
  tsr_sharding_text(at, 1, spec, sizeof spec);
  tsr__text_add(out, "%s on %s", spec, tsr_mesh_text(at->mesh));
}

/* The rows of one side that would be sent, and where to. */
static void add_move(const char *side, const tsr_sharding *from, const tsr_sharding *to,
                     tsr__text *out)
{
  tsr__text_add(out, "the rows of the %s frame lie on ", side);
  add_place(from, out);
  tsr__text_add(out, " and would be sent to ");
  add_place(to, out);
  tsr__text_add(out, "; place both frames alike, or use tsr_frame_scatter once");
}

/* Whether rows in `from` are at hand wherever `to` wants them, by the planner's own rule. A column
 * of i64 of a million rows is asked for: whether a byte would move depends on places, not on how
 * many rows there are. */
static bool at_hand(const tsr_sharding *from, const tsr_sharding *to)
{
  static const tsr_sharding unplaced;
  tsr_shape shape = { 1, { SOME_ROWS } };
  /* Where no byte would move, rows are at hand. */
  return tsr__reshard_bytes(from ? from : &unplaced, to ? to : &unplaced, TSR_I64, &shape) == 0;
}

/* NULL: they are compatible, as a frame of one row is with any. */
const char *tsr_frame_incompatible(tsr_frame *a, tsr_frame *b)
{
  tsr__text text;
  tsr__error error = { 0 };
  if (!tsr__frame_usable(a) || !tsr__frame_usable(b))
    return a && !tsr__frame_usable(a) ? "the left frame is inert: its own call failed"
                                      : "the right frame is inert: its own call failed";
  if (a->one_row || b->one_row) return NULL;
  tsr__text_init(&text, &a->node.scope->rt->heap);
  const tsr_sharding *left = rows_of(a), *right = rows_of(b), *to = tsr__rows_meet(left, right);
  if (tsr__same_rows("tsr_frame_incompatible", a, b, &error))
    tsr__text_add(&text, "%s", error.text + strlen("tsr_frame_incompatible: "));
  else if (!at_hand(left, to)) add_move("left", left, to, &text);
  else if (!at_hand(right, to)) add_move("right", right, to, &text);
  if (!text.length && !text.failed) return NULL;
  return tsr__frame_say(a, &text);
}
