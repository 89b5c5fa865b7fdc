/* Records that cannot be read, where the pipeline is to go on without them.
 *
 *   block     r0 r1 r2 r3           fails: it is not known by whom
 *   again     r0 | r1 | r2 | r3     one by one; r2 is bad: masked, substituted or skipped
 *   faults    { row 2, "x.bin: record 17 at byte 204: ..." }   of the tray, by row
 *   book      x.bin: 1              of what was delivered
 *
 * A source tells only that a question failed, so good blocks cost nothing. Whether a record is bad
 * follows from it alone, and what comes in its place from its position and epoch: neither threads
 * nor processes show. Faults are counted when their batch is delivered, in order, so that a budget
 * ends at the same batch whatever was filled ahead.
 *
 * Messages of sources begin with who could not read, a file or a function, and ": record "; that
 * much is what they are counted by. */
#include <stdio.h>
#include <stdlib.h>

#include "pipeline/permute.h"
#include "pipeline/pipeline_room.h"

enum { TRIES = 16, SHARE_FROM = 1000 };

/* Neither lack of memory nor the end of a pipeline says anything of a record. */
bool tsr__bad_forgives(const tsr_pipeline *p, const tsr__error *error)
{
  return p->args.bad != TSR_BAD_FAIL && tsr__records_bad(error) && !atomic_load(&p->stop);
}

static tsr_status keep_fault(tsr_pipeline *p, tsr__tray *tray, const tsr__fault *fault,
                             tsr__error *error)
{
  /* Several threads fill slices of one tray. Faults are rare, so the lock of the ring does. */
  pthread_mutex_lock(&p->lock);
  bool room = tsr__grow(&p->node.scope->rt->heap, (void **)&tray->faults, &tray->fault_room,
                        (size_t)tray->fault_count + 1, sizeof *tray->faults);
  if (room) tray->faults[tray->fault_count++] = *fault;
  pthread_mutex_unlock(&p->lock);
  return room ? TSR_OK : tsr__error_set(error, TSR_ENOMEM, "no memory for a list of bad records");
}

/* Whether a record has room in a batch that is only as long as its own are. */
static bool has_room(const tsr_pipeline *p, const tsr__tray *tray, int64_t at)
{
  const tsr_source *source = p->source;
  return !source->fitted || source->fit(source->fitted, tray->epoch, at, 1) <=
                                tray->values[source->fit_column]->shape.dims[1];
}

/* Another record in the place of one: positions that a hash of this one's gives, until one can be
 * read; where most records are bad, all that are left, in order. */
static tsr_status substitute(tsr_pipeline *p, const tsr__tray *tray, tsr__ask_rows *ask,
                             int64_t *at, tsr__error *error)
{
  uint64_t key = tsr__mix(tsr__mix((uint64_t)*at, (uint64_t)tray->epoch), p->args.seed);
  int64_t own = *at, count = p->source->count;
  tsr__error other = *error;
  for (int64_t try = 1; try < TRIES + count && other.status; try++) {
    *at = try <= TRIES ? (int64_t)(tsr__mix(key, (uint64_t)try) % (uint64_t)count)
                       : (own + try - TRIES) % count;
    if (!has_room(p, tray, *at)) continue;
    other = (tsr__error){ 0 };
    ask->at = at;
    if (tsr__records_read(p->source, ask, &other) && !tsr__bad_forgives(p, &other))
      return *error = other, other.status;
    if (other.status && tsr__records_stop(ask))
      return *error = (tsr__error){ 0 }, tsr__cancelled(error, "tsr_pipeline_next");
  }
  if (!other.status) return *error = other, TSR_OK;
  other = *error;
  *error = (tsr__error){ 0 };
  return tsr__error_set(error, other.status,
                        "%.700s; none of the %lld other records could be read either", other.text,
                        (long long)count);
}

/* What comes in the row of a bad record; `error` says why it is bad, and is nothing afterwards. */
static tsr_status replace(tsr_pipeline *p, tsr__tray *tray, tsr__ask_rows *one, int64_t row,
                          tsr__error *error)
{
  tsr__fault fault = { .row = row, .id = -1 };
  int64_t at = *one->at, place = *one->place;
  memcpy(fault.text, error->text, sizeof fault.text - 1); /* an error has more room */
  tsr__records_ids(p->source, tray->epoch, &at, 1, &fault.id);
  if (p->args.bad == TSR_BAD_SUBSTITUTE) {
    if (substitute(p, tray, one, &at, error)) return error->status;
    if (tray->ids) tsr__records_ids(p->source, tray->epoch, &at, 1, &tray->ids[row]);
  } else {
    *error = (tsr__error){ 0 };
    for (int c = 0; c < p->source->column_count; c++)
      if (one->cells[c].data)
        memset(one->cells[c].data + (size_t)place * one->cells[c].stride, 0,
               p->source->columns[c].bytes);
    /* Rows that are no records have no id; the order's hash counts the bad one's own (take_ids). */
    if (tray->ids) tray->ids[row] = -1;
  }
  /* A skipped record's row was filled before others moved up: `list` says which it should have
   * been. */
  if (p->args.bad == TSR_BAD_SKIP) fault.row = tray->listed ? tray->list[row] : row;
  return keep_fault(p, tray, &fault, error);
}

tsr_status tsr__bad_read_each(tsr_pipeline *p, tsr__tray *tray, int64_t row,
                              const tsr__ask_rows *ask, tsr__error *error)
{
  *error = (tsr__error){ 0 };
  for (int64_t i = 0; i < ask->count && !error->status; i++) {
    tsr__ask_rows one = *ask;
    int64_t place = i;
    one.at = &ask->at[i];
    one.place = &place;
    one.count = 1;
    if (tsr__records_read(p->source, &one, error) && tsr__bad_forgives(p, error))
      replace(p, tray, &one, row + i, error);
  }
  return error->status;
}

/* ---- a batch that is filled ------------------------------------------------------------------ */

static int by_row(const void *a, const void *b)
{
  int64_t x = ((const tsr__fault *)a)->row, y = ((const tsr__fault *)b)->row;
  return (x > y) - (x < y);
}

void tsr__bad_sort(tsr__tray *tray)
{
  if (tray->fault_count)
    qsort(tray->faults, (size_t)tray->fault_count, sizeof *tray->faults, by_row);
}

bool tsr__bad_list(tsr_pipeline *p, tsr__tray *tray)
{
  int64_t meant = tray->meant, kept = 0;
  tsr__bad_sort(tray);
  if (!tsr__grow(&p->node.scope->rt->heap, (void **)&tray->list, &tray->list_room,
                 (size_t)meant + 1, sizeof *tray->list))
    return false;
  for (int64_t row = 0, f = 0; row < meant; row++) {
    if (f < tray->fault_count && tray->faults[f].row == row) f++;
    else tray->list[kept++] = row;
  }
  tray->listed = true;
  tray->records = kept;
  return true;
}

/* ---- counting -------------------------------------------------------------------------------- */

static void count_fault(tsr__bad_book *book, const tsr__fault *fault)
{
  const char *end = strstr(fault->text, ": record ");
  size_t length = end ? (size_t)(end - fault->text) : strcspn(fault->text, ":");
  int i = 0;
  while (i < book->count && (strlen(book->place[i].who) != length ||
                             memcmp(book->place[i].who, fault->text, length) != 0))
    i++;
  /* The book has a fixed size: a pipeline over a million broken files must not grow with them. */
  if (length >= sizeof book->place[0].who || i == TSR__BAD_PLACES) {
    book->elsewhere++;
    return;
  }
  tsr__bad_place *place = &book->place[i];
  if (i == book->count) {
    memcpy(place->who, fault->text, length);
    memcpy(place->first, fault->text, sizeof place->first);
    book->count++;
  }
  place->count++;
}

tsr_status tsr__bad_deliver(tsr_pipeline *p, const tsr__tray *tray, tsr__error *error)
{
  tsr__bad_book *book = p->book;
  if (!book) return TSR_OK;
  for (int i = 0; i < tray->fault_count; i++) count_fault(book, &tray->faults[i]);
  book->seen += tray->meant;
  book->bad += tray->fault_count;
  if (!tray->fault_count && tray->index + 1 < p->batches) return TSR_OK;
  const char *last = tray->fault_count ? tray->faults[tray->fault_count - 1].text : "";
  int64_t most = p->args.bad_most;
  if (most && book->bad > most)
    return tsr__error_set(error, TSR_EVALUE,
                          "%lld of %lld records are bad, expected %lld at most (.bad_most); the "
                          "last bad record: %.400s",
                          (long long)book->bad, (long long)book->seen, (long long)most, last);
  double share = (double)book->bad / (double)(book->seen ? book->seen : 1);
  /* A share of few records says little: one bad one of the first ten is no tenth of all. */
  bool enough = book->seen >= SHARE_FROM || tray->index + 1 == p->batches;
  if (p->args.bad_share > 0 && enough && share > p->args.bad_share) {
    char asked[32], found[32];
    asked[tsr__text_f64(asked, p->args.bad_share)] = 0;
    found[tsr__text_f64(found, share)] = 0;
    return tsr__error_set(
        error, TSR_EVALUE,
        "%lld of %lld records are bad, a share of %s, expected %s at most (.bad_share)%s%.400s",
        (long long)book->bad, (long long)book->seen, found, asked,
        *last ? "; the last bad record: " : "", last);
  }
  return TSR_OK;
}

int64_t tsr_pipeline_bad_count(const tsr_pipeline *p)
{
  return p && p->book ? p->book->bad : 0;
}

static void report(const tsr__bad_book *book, tsr__text *out)
{
  tsr__text_add(out, "%lld bad records of %lld\n", (long long)book->bad, (long long)book->seen);
  for (int i = 0; i < book->count; i++)
    tsr__text_add(out, "%9lld %s\n          first: %s\n", (long long)book->place[i].count,
                  book->place[i].who, book->place[i].first);
  if (book->elsewhere) tsr__text_add(out, "%9lld in other places\n", (long long)book->elsewhere);
}

const char *tsr_pipeline_report(tsr_pipeline *p)
{
  if (!p || p->inert || !p->book) return "";
  tsr_scope *scope = p->node.scope;
  tsr__text text;
  tsr__text_init(&text, &scope->rt->heap);
  report(p->book, &text);
  const char *kept =
      text.failed ? NULL : tsr__arena_text(&scope->arena, tsr__text_get(&text), text.length);
  tsr__text_free(&text);
  return kept ? kept : "";
}
