/* Joining one slice by keys that meet at owners.
 *
 *   left   keys  ----------------->  owner    match     answers  ------------------>  left
 *   right  keys and taken columns -> of key             matched right rows --------->  rows' home
 *
 * Invariant: what an owner has lies in order of its senders and their rows, hence in order of all
 * rows; so matches are in the order that they would have on one device. What comes back lies in
 * the order in which keys were sent, which `order` of the left at home still knows: no row number
 * travels. */
#include "relate/join_inner.h"

/* One side on its way: by destination at its home, then what arrived, [column * parts + owner].
 *
 *    columns of a side   word 0 .. w-1 | null (if any key may be) | taken (right side, pairs) */
typedef struct flow {
  tsr__buffer **dest; /* u16: of each row at home */
  tsr__index order;   /* of the left */
  int64_t *counts;    /* [home * parts + owner] */
  int columns;        /* words of keys, nulls if there may be any, then what is taken */
  tsr__colparts *column;
  tsr__buffer **values, **valid, **alias; /* alias: one word of several, at home */
  tsr__parts parts;                       /* arrived */
  tsr__packed_keys packed;
  uint64_t **word, **null;
} flow;

/* `back` counts how many right rows go from an owner to a home. */
typedef struct slice {
  tsr__join_work *join;
  const tsr__view *view[2]; /* left, right */
  int parts;
  tsr__packed_keys packed[2]; /* at home */
  flow side[2];
  int64_t *back; /* [owner * parts + home]: right rows */
} slice;

/* ---- memory ---- */

static tsr_status flow_new(slice *s, int side)
{
  tsr__join_work *join = s->join;
  flow *f = &s->side[side];
  size_t parts = (size_t)s->parts;
  int taken = side && join->pairs ? join->ask->take_count : 0;
  f->columns = join->words + join->nulls + taken;
  size_t columns = (size_t)f->columns;
  f->dest = tsr__join_small(join, parts * sizeof *f->dest);
  f->counts = tsr__join_small(join, parts * parts * sizeof *f->counts);
  f->column = tsr__join_small(join, columns * sizeof *f->column);
  f->values = tsr__join_small(join, columns * parts * sizeof *f->values);
  f->valid = tsr__join_small(join, columns * parts * sizeof *f->valid);
  f->alias = tsr__join_small(join, columns * parts * sizeof *f->alias);
  f->word = tsr__join_small(join, 2 * parts * sizeof *f->word);
  int64_t *rows = tsr__join_small(join, parts * sizeof *rows);
  if (!f->dest || !f->counts || !f->column || !f->values || !f->valid || !f->alias || !f->word ||
      !rows)
    return join->error->status;
  f->null = f->word + parts;
  f->parts = (tsr__parts){ s->parts, s->view[0]->parts.device, rows };
  return TSR_OK;
}

static void flow_free(slice *s, flow *f)
{
  tsr__index_free(s->join->rt, &f->order);
  if (!f->word) return;
  tsr__drop_buffers(f->dest, s->parts);
  tsr__drop_buffers(f->values, (int64_t)f->columns * s->parts);
  tsr__drop_buffers(f->valid, (int64_t)f->columns * s->parts);
  tsr__drop_buffers(f->alias, (int64_t)f->columns * s->parts);
}

/* Keys at home, orders, and as much again at the owners if keys spread evenly. This is for evenly
 * spread keys. Owners that get more are refused by the pool when they take it: the counts are not
 * known before keys were hashed. */
static tsr_status check_room(slice *s)
{
  tsr__join_work *join = s->join;
  int64_t most = 0, meet = 0, key = join->words * 8 + join->nulls;
  int64_t taken = 0, all[2] = { join->ask->left->total, join->right.total };
  for (int c = join->ask->key_count; c < join->right.count; c++)
    taken += tsr__row_bits(&s->view[1]->columns[c], s->parts) / 8 + 1;
  meet = (all[0] * (key + 4) + all[1] * (key + taken + 12)) / s->parts;
  for (int p = 0; p < s->parts; p++) {
    int64_t l = s->view[0]->parts.rows[p], r = s->view[1]->parts.rows[p];
    int64_t send = l * (key + 4 + 2) + r * (key + 4 + 2) + (l > r ? l * key : r * key);
    most = send + meet > most ? send + meet : most;
    if (tsr__join_room(join, s->view[0]->parts.device[p], send + meet)) return join->error->status;
  }
  return TSR_OK;
}

/* ---- there ---- */

/* A destination for each row of both sides, and the left rows in order of them. The left rows'
 * order by destination is kept: answers come back in it, and it is what tells which row an answer
 * is of. The right side needs none, as its rows are copied, not answered. */
static tsr_status route(slice *s)
{
  tsr__join_work *join = s->join;
  const tsr__device_ops *ops = tsr__devices_of(join->rt)->ops;
  tsr__match_extent extent;
  tsr__extent_ask right = { &s->view[1]->parts, &s->packed[1] };
  if (tsr__on_rows(join->rt)->match_extent_of(join->rt, &right, &extent, join->error) ||
      tsr__agree_extent(join->rt, s->view[1]->apart, &extent, join->error))
    return join->error->status;
  tsr__match_owners ask = { { &s->view[0]->parts, &s->view[1]->parts },
                            { &s->packed[0], &s->packed[1] },
                            &extent,
                            { s->side[0].dest, s->side[1].dest } };
  for (int i = 0; i < 2 * s->parts; i++) {
    flow *f = &s->side[i / s->parts];
    const tsr__parts *of = ask.parts[i / s->parts];
    int p = i % s->parts;
    size_t bytes = (size_t)of->rows[p] * sizeof(uint16_t);
    f->dest[p] = ops->take(join->rt, of->device[p], bytes, join->error);
    if (!f->dest[p]) return join->error->status;
  }
  tsr_status status = tsr__on_rows(join->rt)->match_owners_of(join->rt, &ask, join->error);
  for (int side = 0; side < 2 && !status; side++) {
    flow *f = &s->side[side];
    tsr__routes routes = { ask.parts[side], f->dest, side ? NULL : &f->order, f->counts };
    status = tsr__on_rows(join->rt)->route_rows(join->rt, &routes, join->error);
  }
  return status;
}

/* The columns that travel: each word of the keys, nulls, what is taken. `alias` are buffers over
 * the words of packed keys, made for the time of the exchange: the copy routine knows columns
 * only. Taken columns are those of the table itself. */
static tsr_status travelling(slice *s, int side)
{
  tsr__join_work *join = s->join;
  flow *f = &s->side[side];
  const tsr__packed_keys *packed = &s->packed[side];
  const tsr__view *view = s->view[side];
  for (int w = 0; w < join->words + join->nulls; w++) {
    tsr__buffer **buffers = f->alias + w * s->parts;
    tsr__packed_word word = { packed, &view->parts, w };
    if (tsr__packed_column(join->rt, &word, buffers, join->error)) return join->error->status;
    f->column[w] =
        (tsr__colparts){ .dtype = w < join->words ? TSR_I64 : TSR_BOOL, .values = buffers };
  }
  for (int c = join->words + join->nulls; c < f->columns; c++)
    f->column[c] = view->columns[join->ask->key_count + c - join->words - join->nulls];
  return TSR_OK;
}

/* Packed keys from the columns that arrived. No unpacking: columns of words are packed keys, just
 * not in one block. */
static tsr_status arrived(slice *s, int side)
{
  tsr__join_work *join = s->join;
  flow *f = &s->side[side];
  tsr__keys_came came = { &f->parts, join->words, f->values,
                          join->nulls ? f->values + join->words * s->parts : NULL };
  f->packed = (tsr__packed_keys){
    .parts = s->parts, .words = join->words, .word = f->word, .null = f->null
  };
  return tsr__on_rows(join->rt)->packed_came(join->rt, &came, &f->packed, join->error);
}

static tsr_status send(slice *s, int side)
{
  tsr__join_work *join = s->join;
  flow *f = &s->side[side];
  tsr__moved moved = { 0, 0 };
  tsr_status status = travelling(s, side);
  if (status) return status;
  tsr__exchange ask = { .rt = join->rt,
                        .from = &s->view[side]->parts,
                        .apart = s->view[side]->apart,
                        .counts = f->counts,
                        .dest = f->dest,
                        .column_count = f->columns,
                        .columns = f->column,
                        .values = f->values,
                        .valid = f->valid,
                        .rows = (int64_t *)f->parts.rows,
                        .moved = &moved };
  status = tsr__exchange_rows(&ask, join->error);
  if (status) return status;
  tsr__stats_add(join->stats, side ? "right rows to owners" : "left keys to owners", &moved);
  /* What was sent is not needed here any more; owners have it. Peak memory is what check_room
   * counted because these go now and not at the end. */
  tsr__drop_buffers(f->alias, (int64_t)f->columns * s->parts);
  tsr__drop_buffers(f->dest, s->parts);
  tsr__packed_free(join->rt, &s->packed[side]);
  return arrived(s, side);
}

/* ---- and back ---- */

/* What owners tell each left row, at home in the order in which keys were sent. */
typedef struct answers {
  tsr_dtype dtype;
  tsr__buffer **values, **home, **valid; /* by owner; by home */
  int64_t *counts, *rows;
} answers;

/* a->counts is left->counts transposed: an answer goes back to where its key came from. A bool
 * tells only whether a row matched; an i32 how often, where right keys repeat. */
static tsr_status answer(slice *s, const tsr__matched *m, answers *a)
{
  tsr__join_work *join = s->join;
  size_t parts = (size_t)s->parts;
  const flow *left = &s->side[0];
  for (int p = 0; p < s->parts; p++) {
    size_t bytes = tsr__device_bytes(a->dtype, left->parts.rows[p]);
    a->values[p] =
        tsr__devices_of(join->rt)->ops->take(join->rt, left->parts.device[p], bytes, join->error);
    if (!a->values[p]) return join->error->status;
  }
  tsr__match_answer ask = { m, left->counts, a->dtype, a->values, s->back };
  tsr_status status = tsr__on_rows(join->rt)->match_answers(&ask, join->error);
  if (status) return status;
  for (size_t i = 0; i < parts * parts; i++)
    a->counts[i] = left->counts[(i % parts) * parts + i / parts];
  tsr__moved moved = { 0, 0 };
  tsr__exchange back = { .rt = join->rt,
                         .from = &left->parts,
                         .apart = s->view[0]->apart,
                         .counts = a->counts,
                         .column_count = 1,
                         .columns = &(tsr__colparts){ .dtype = a->dtype, .values = a->values },
                         .values = a->home,
                         .valid = a->valid,
                         .rows = a->rows,
                         .moved = &moved };
  status = tsr__exchange_rows(&back, join->error);
  if (!status) tsr__stats_add(join->stats, "answers to left rows", &moved);
  return status;
}

/* Right rows that matched, to the homes of the left rows; `out` [column * parts + home]. Right
 * rows go in order of the left rows that they match, one copy for each: so at home they lie as
 * the answers count them, without any number. */
static tsr_status send_back(slice *s, tsr__matched *m, tsr__buffer **out, int64_t *rows)
{
  tsr__join_work *join = s->join;
  const flow *right = &s->side[1];
  int taken = join->ask->take_count, first = right->columns - taken;
  tsr__colparts *columns = tsr__join_small(join, (size_t)taken * sizeof *columns);
  if (!columns) return join->error->status;
  for (int c = 0; c < taken; c++)
    columns[c] =
        (tsr__colparts){ right->column[first + c].dtype, right->values + (first + c) * s->parts,
                         right->valid + (first + c) * s->parts };
  tsr__index index;
  tsr_status status = tsr__on_rows(join->rt)->match_right(m, &index, join->error);
  if (status) return status;
  tsr__moved moved = { 0, 0 };
  tsr__parts from = { s->parts, right->parts.device, index.rows };
  tsr__exchange ask = { .rt = join->rt,
                        .from = &from,
                        .apart = s->view[0]->apart,
                        .counts = s->back,
                        .order = &index,
                        .column_count = taken,
                        .columns = columns,
                        .values = out,
                        .valid = out + taken * s->parts,
                        .rows = rows,
                        .moved = &moved };
  status = tsr__exchange_rows(&ask, join->error);
  tsr__index_free(join->rt, &index);
  if (!status) tsr__stats_add(join->stats, "right rows back", &moved);
  return status;
}

/* The result's rows from answers and, for pairs, the right rows that came back. */
static tsr_status finish(slice *s, const answers *a, tsr__buffer **back, const int64_t *rows)
{
  tsr__join_work *join = s->join;
  int taken = join->pairs ? join->ask->take_count : 0;
  tsr__colparts *columns = tsr__join_small(join, (size_t)taken * sizeof *columns);
  if (!columns) return join->error->status;
  for (int c = 0; c < taken; c++)
    columns[c] = (tsr__colparts){ s->side[1].column[s->side[1].columns - taken + c].dtype,
                                  back + c * s->parts, back + (taken + c) * s->parts };
  tsr__matched m;
  tsr__match_home ask = { &s->view[0]->parts, &s->side[0].order, a->dtype, a->home,
                          join->ask->how };
  tsr_status status = tsr__on_rows(join->rt)->match_at_home(join->rt, &ask, &m, join->error);
  if (status) return status;
  /* From here on it is a join like one with a whole right side, only that the right rows at hand
   * are exactly those that matched, in order. */
  tsr__parts parts = { s->parts, s->view[0]->parts.device, rows };
  status = tsr__join_emit(join, s->view[0], &m, &(tsr__join_from){ &parts, columns });
  tsr__match_free(&m);
  return status;
}

/* Owners match as an inner or a semi join whatever was asked: what a left or anti join makes of a
 * row without a match is settled at its home, which has the row. */
static tsr_status match_and_return(slice *s, answers *a, tsr__buffer **back, int64_t *rows)
{
  tsr__join_work *join = s->join;
  flow *left = &s->side[0], *right = &s->side[1];
  tsr__matched m;
  tsr__match_ask ask = { &left->parts, &right->parts, &left->packed, &right->packed,
                         join->pairs ? TSR__MATCH_INNER : TSR__MATCH_SEMI };
  tsr_status status = tsr__on_rows(join->rt)->match_find(join->rt, &ask, &m, join->error);
  if (status) return status;
  bool repeats = m.repeats;
  status = tsr__agree_any(join->rt, s->view[0]->apart, &repeats, join->error);
  join->repeats = join->repeats || repeats;
  a->dtype = join->pairs && repeats ? TSR_I32 : TSR_BOOL;
  if (!status) status = answer(s, &m, a);
  if (!status && join->pairs && join->ask->take_count) status = send_back(s, &m, back, rows);
  tsr__match_free(&m);
  /* Before the results are made, for they are what takes most memory. */
  flow_free(s, right);
  tsr__drop_buffers(left->values, (int64_t)left->columns * s->parts);
  return status ? status : finish(s, a, back, rows);
}

static tsr_status run(slice *s)
{
  tsr__join_work *join = s->join;
  size_t parts = (size_t)s->parts;
  int cells = 2 * join->ask->take_count * s->parts;
  tsr__buffer **back = tsr__join_small(join, (size_t)cells * sizeof *back);
  tsr__buffer **answered = tsr__join_small(join, 3 * parts * sizeof *answered);
  /*    counts    a.counts [parts^2] | s->back [parts^2] | a.rows [parts] | rows that came back
   * [parts] */
  int64_t *counts = tsr__join_small(join, 2 * (parts * parts + parts) * sizeof *counts);
  if (!back || !answered || !counts) return join->error->status;
  answers a = { TSR_BOOL,         answered,
                answered + parts, answered + 2 * parts,
                counts,           counts + 2 * parts * parts };
  s->back = counts + parts * parts;
  tsr_status status = tsr__join_pack(join, s->view[0], s->view[1], s->packed);
  if (!status) status = route(s);
  for (int side = 0; side < 2 && !status; side++) status = send(s, side);
  if (!status) status = match_and_return(s, &a, back, counts + 2 * parts * parts + parts);
  tsr__drop_buffers(back, cells);
  tsr__drop_buffers(answered, 3 * s->parts);
  for (int side = 0; side < 2; side++) tsr__packed_free(join->rt, &s->packed[side]);
  return status;
}

tsr_status tsr__join_exchange(tsr__join_work *join, const tsr__view *left, const tsr__view *right)
{
  slice s = { .join = join, .view = { left, right }, .parts = left->parts.count };
  tsr_status status = check_room(&s);
  for (int side = 0; side < 2 && !status; side++) status = flow_new(&s, side);
  if (!status) status = run(&s);
  for (int side = 0; side < 2; side++) flow_free(&s, &s.side[side]);
  return status;
}
