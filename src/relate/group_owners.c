/* Finding the home of groups that lie over several parts.
 *
 *   part 0   groups a b c      a -> owner 1, b -> owner 0, c -> owner 1        a key a group
 *   part 1   groups c d a      c -> owner 1, d -> owner 0, a -> owner 1
 *   owner 1  a0 c0 c1 a1       the first that came is the home: a and c are at home on part 0
 *
 * Only keys of local groups travel, with their numbers, and the answer comes back the same way.
 *
 * Where nearly all keys differ, each row is sent as a local group of its own, and the home of a
 * row is the first one with its key.
 *
 * Invariant: keys come to an owner in order of the senders, and of one sender in order of its
 * groups' first rows. So the first that came of a key is of the part that holds the first row. */
#include "relate/group_owners.h"

/* ---- helpers --------------------------------------------------------------------------------- */

tsr_status tsr__part_buffers(const tsr__group_owners *h, tsr_dtype dtype, const int64_t *rows,
                             tsr__buffer **out)
{
  tsr__parts lie = { h->parts, h->view->parts.device, rows };
  return tsr__buffers_of(h->rt, &lie, dtype, out, h->error);
}

/* Records are sent as words of i64: `each` of them are one row to whoever reads the figures. */
tsr_status tsr__send(const tsr__group_owners *h, const tsr__sending *sending)
{
  tsr__parts from = { h->parts, h->view->parts.device, sending->from };
  tsr__moved moved = { 0 };
  tsr__exchange ask = { .rt = h->rt,
                        .from = &from,
                        .apart = h->view->apart,
                        .counts = sending->counts,
                        .dest = sending->dest,
                        .order = sending->order,
                        .column_count = sending->count,
                        .columns = sending->columns,
                        .values = sending->values,
                        .valid = sending->valid,
                        .rows = sending->came,
                        .moved = &moved };
  tsr_status status = tsr__exchange_rows(&ask, h->error);
  if (sending->each) moved.rows /= sending->each;
  if (!status) tsr__stats_add(h->stats, sending->what, &moved);
  return status;
}

/* ---- keys to their owners -------------------------------------------------------------------- */

/* What finding homes needs while it lasts. Lists are [column * parts + part].
 *
 *    sent / got        word 0 | ... | word w - 1 | number | rows (if counted)     keys, there
 *    answer / answered home | number there | number at the owner | rows before    and back */
typedef struct finding {
  tsr__group_owners *h;
  const tsr__packed_keys *keys;
  bool counted;
  int columns; /* words of a key, then the group's number, then its rows if they are counted */
  tsr__colparts *sent_column;
  tsr__buffer **sent, **got, **got_valid;
  tsr__index order;                                   /* of each part's groups by owner */
  tsr__buffer **answer, **answered, **answered_valid; /* 3 columns, and `before` */
  int64_t *answers;
  void *block;
  size_t size;
} finding;

static tsr_status no_memory(const tsr__group_owners *h)
{
  return tsr__error_set(h->error, TSR_ENOMEM,
                        "group by: no memory for the description of groups on %d devices; free "
                        "some arrays",
                        h->parts);
}

static tsr_status finding_new(finding *f)
{
  size_t parts = (size_t)f->h->parts;
  f->columns = f->keys->words + 1 + f->counted;
  size_t columns = (size_t)f->columns;
  size_t buffers = 3 * columns * parts + 3 * TSR__HOMES_ANSWERS * parts;
  f->size =
      columns * sizeof(tsr__colparts) + buffers * sizeof(tsr__buffer *) + parts * sizeof(int64_t);
  f->block = tsr__new(&f->h->rt->heap, f->size);
  if (!f->block) return no_memory(f->h);
  f->sent_column = f->block;
  f->sent = (tsr__buffer **)(f->sent_column + columns);
  f->got = f->sent + columns * parts;
  f->got_valid = f->got + columns * parts;
  f->answer = f->got_valid + columns * parts;
  f->answered = f->answer + TSR__HOMES_ANSWERS * parts;
  f->answered_valid = f->answered + TSR__HOMES_ANSWERS * parts;
  f->answers = (int64_t *)(f->answered_valid + TSR__HOMES_ANSWERS * parts);
  return TSR_OK;
}

static void finding_free(finding *f)
{
  int64_t parts = f->h->parts;
  if (!f->block) return;
  tsr__drop_buffers(f->sent, 3 * f->columns * parts + 3 * TSR__HOMES_ANSWERS * parts);
  tsr__index_free(f->h->rt, &f->order);
  tsr__del(&f->h->rt->heap, f->block, f->size);
}

/* A key goes to the owner that its hash names. Every device computes the same hash, so equal keys
 * meet wherever they lay. */
static tsr_status send_keys(finding *f)
{
  tsr__group_owners *h = f->h;
  const int64_t *groups = h->homes.local.count;
  tsr_status status = tsr__part_buffers(h, TSR_I32, groups, h->homes.owner);
  for (int c = 0; c < f->columns && !status; c++) {
    tsr_dtype dtype = c == f->keys->words ? TSR_I32 : TSR_I64;
    status = tsr__part_buffers(h, dtype, groups, f->sent + c * h->parts);
    f->sent_column[c] = (tsr__colparts){ .dtype = dtype, .values = f->sent + c * h->parts };
  }
  tsr__homes_keys keys = { &h->homes, f->keys, f->counted, f->sent };
  if (!status) status = tsr__on_rows(h->rt)->homes_send(h->rt, &keys, h->error);
  if (status) return status;
  tsr__parts lie = { h->parts, h->view->parts.device, groups };
  tsr__routes routes = { &lie, h->homes.owner, &f->order, h->homes.counts };
  status = tsr__on_rows(h->rt)->route_rows(h->rt, &routes, h->error);
  tsr__sending send = { .what = "keys by hash",
                        .from = groups,
                        .counts = h->homes.counts,
                        .dest = h->homes.owner,
                        .count = f->columns,
                        .columns = f->sent_column,
                        .values = f->got,
                        .valid = f->got_valid,
                        .came = h->homes.came };
  if (!status) status = tsr__send(h, &send);
  tsr__drop_buffers(f->sent, (int64_t)f->columns * h->parts);
  for (int p = 0; p < h->parts; p++)
    for (int q = 0; q < h->parts; q++)
      /* Answers go back the way that keys came: what p sent to q, q sends to p, as many and in
       * that order. So an answer needs no address. */
      h->back[q * h->parts + p] = h->homes.counts[p * h->parts + q];
  return status;
}

/* ---- and the answers go back ----------------------------------------------------------------- */

static tsr_status find_owned(finding *f)
{
  tsr__group_owners *h = f->h;
  tsr__homes_keys came = { &h->homes, f->keys, f->counted, f->got };
  tsr_status status = tsr__on_rows(h->rt)->homes_meet(h->rt, &came, f->answer, h->error);
  tsr__drop_buffers(f->got, (int64_t)f->columns * h->parts);
  return status;
}

/* `before` is the only answer of 64 bits, and the last, so it is simply left out where nobody
 * counts. */
static tsr_status take_answers(finding *f)
{
  tsr__group_owners *h = f->h;
  tsr__colparts columns[TSR__HOMES_ANSWERS];
  for (int c = 0; c < TSR__HOMES_ANSWERS; c++)
    columns[c] =
        (tsr__colparts){ .dtype = c < 3 ? TSR_I32 : TSR_I64, .values = f->answer + c * h->parts };
  tsr__sending send = { .what = "homes",
                        .from = h->homes.came,
                        .counts = h->back,
                        .count = 3 + f->counted,
                        .columns = columns,
                        .values = f->answered,
                        .valid = f->answered_valid,
                        .came = f->answers };
  tsr_status status = tsr__send(h, &send);
  tsr__drop_buffers(f->answer, (int64_t)TSR__HOMES_ANSWERS * h->parts);
  tsr__homes_told told = { &h->homes, &f->order, f->counted, f->answered };
  return status ? status : tsr__on_rows(h->rt)->homes_settle(h->rt, &told, h->error);
}

/* ---- the whole ------------------------------------------------------------------------------- */

enum { LISTS = 8 };

/* The lists of `homes` from `owner` on are LISTS times `parts` buffers in a row, released
 * together in tsr__group_owners_free; a list added here is to be counted there. */
static tsr_status homes_new(tsr__group_owners *h)
{
  size_t parts = (size_t)h->parts;
  h->size = (parts + 2 * parts * parts) * sizeof(int64_t) + LISTS * parts * sizeof(tsr__buffer *);
  h->block = tsr__new(&h->rt->heap, h->size);
  if (!h->block) return no_memory(h);
  h->homes.came = h->block;
  h->homes.counts = h->homes.came + parts;
  h->back = h->homes.counts + parts * parts;
  h->homes.owner = (tsr__buffer **)(h->back + parts * parts);
  h->homes.home = h->homes.owner + parts;
  h->homes.number = h->homes.home + parts;
  h->homes.owned_as = h->homes.number + parts;
  h->homes.before = h->homes.owned_as + parts;
  h->homes.owned_home = h->homes.before + parts;
  h->homes.owned_number = h->homes.owned_home + parts;
  h->homes.everyone = h->homes.owned_number + parts;
  return TSR_OK;
}

tsr_status tsr__group_owners_seek(tsr__group_owners *h, const tsr__packed_keys *keys, bool counted)
{
  finding f = { .h = h, .keys = keys, .counted = counted };
  h->homes.coded = false;
  tsr_status status = finding_new(&f);
  if (!status) status = send_keys(&f);
  if (!status) status = find_owned(&f);
  if (!status) status = take_answers(&f);
  finding_free(&f);
  return status;
}

/* `coded`: whether telling all parts all codes takes no more than sending keys, 24 bytes a group.
 * Telling codes costs parts << bits bits a device, whatever there is; keys cost by the groups. */
static tsr_status choose_way(tsr__group_owners *h)
{
  int64_t groups = 0;
  bool apart = h->view->apart, without = !h->records || !h->homes.local.number;
  for (int p = 0; p < h->parts; p++) groups += h->homes.local.count[p];
  tsr_status status = tsr__agree_any(h->rt, apart, &without, h->error);
  if (!status) status = tsr__agree_sum(h->rt, apart, &groups, h->error);
  h->homes.coded = !status && !without &&
                   (int64_t)h->parts << h->homes.local.bits <= 8 * 24 * (groups / h->parts + 1);
  return status;
}

tsr_status tsr__group_owners_find(tsr__group_owners *h, const tsr__packed_keys *keys, bool counted)
{
  /* On one part each group is at home where it is; there is nothing to send. */
  tsr_status status = homes_new(h);
  if (!status) status = tsr__on_rows(h->rt)->homes_group(h->rt, &h->homes, keys, h->error);
  if (status || h->parts == 1) return status;
  status = choose_way(h);
  if (status) return status;
  return h->homes.coded ? tsr__group_owners_by_code(h) : tsr__group_owners_seek(h, keys, counted);
}

void tsr__group_owners_free(tsr__group_owners *h)
{
  tsr__grouped_free(h->rt, &h->homes.local);
  tsr__grouped_free(h->rt, &h->homes.owned);
  tsr__index_free(h->rt, &h->homes.own);
  if (h->block) {
    tsr__drop_buffers(h->homes.owner, (int64_t)LISTS * h->parts);
    tsr__del(&h->rt->heap, h->block, h->size);
  }
  h->block = NULL;
}
