/* A step that all processes save together.
 *
 *   process 0            1                2
 *   makes the folder     -                -               begin: its number for data files
 *   writes its pieces    its              its             data: all are on the disk, and where
 *   writes the catalog   -                -               commit: the step is there
 *
 * Each phase ends with a meeting where all learn how it went on each. They meet at the coordinator,
 * not at the meetings of programs, so that a step can be saved beside a program that runs.
 *
 * Invariant: whoever said that its data is on the disk deletes it only where process 0 said that
 * there is no catalog. What is left of a save that was cut off is deleted by a later one.
 *
 *   a record at a meeting   | status | message, if it failed | text: an id, a catalog, "there" |
 *
 * What may be left over: a folder without a catalog, or data files that no catalog names. Neither
 * is a step, and a reader sees none of it. */
#include "checkpoint/checkpoint_room.h"
#include "io/file/files.h"
#include "io/file/outfile.h"

#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#define AGREE_SECONDS 1800.0

/* ---- meetings -------------------------------------------------------------------------------- */

/* The record of a process; false: it is none. Records come in the order of processes, each as bytes
 * with its length in front. */
static bool take_record(tsr__fields *fields, tsr__error *told, tsr__blob *text)
{
  tsr__blob record = tsr__take_bytes(fields);
  tsr__fields own = { record.data, (const uint8_t *)record.data + record.length, false };
  told->status = (tsr_status)tsr__take_u32(&own);
  tsr__take_text(&own, told->text, sizeof told->text - 1);
  *text = tsr__take_bytes(&own);
  return tsr__fields_done(&own);
}

/* The first process that failed decides what all say. Of one's own error the words stay as they
 * are; another's has its number in front. A process whose own failure was not the first drops it
 * for that of the first. */
static tsr_status judge(const tsr__text *records, int own, int count, tsr__error *error)
{
  tsr__fields fields = { (const uint8_t *)records->data,
                         (const uint8_t *)records->data + records->length, false };
  for (int p = 0; p < count; p++) {
    tsr__error told = { .status = TSR_OK };
    tsr__blob text;
    if (!take_record(&fields, &told, &text))
      return tsr__error_set(error, TSR_EPEER, "process %d says what is none of a checkpoint", p);
    if (!told.status) continue;
    if (p == own) return error->status;
    error->status = TSR_OK;
    return tsr__error_set(error, told.status, "process %d: %s", p, told.text);
  }
  return TSR_OK;
}

/* Never left out on the way to an error: one who does not come holds up all others until the time
 * is over. */
tsr_status tsr__agree(tsr_runtime *rt, const tsr__agreement *ask, tsr__text *all, tsr__error *error)
{
  tsr__comm *comm = tsr__comm_of(rt);
  tsr__text record;
  tsr__text_init(&record, &rt->heap);
  tsr__write_u32(&record, error->status);
  tsr__write_bytes(&record, error->text, error->status ? strlen(error->text) : 0);
  tsr__write_bytes(&record, ask->mine ? tsr__text_get(ask->mine) : "",
                   ask->mine ? ask->mine->length : 0);
  if (record.failed || (ask->mine && ask->mine->failed))
    tsr__error_set(error, TSR_ENOMEM, "no memory for what processes tell each other");
  if (!comm || tsr__comm_count(comm) == 1) {
    /* Alone: the one record is written as if it had come, so that tsr__agreed reads it likewise. */
    tsr__write_bytes(all, record.data, record.length);
  } else {
    tsr__comm_meeting meeting = { .name = ask->name,
                                  .seconds = ask->seconds > 0 ? ask->seconds : AGREE_SECONDS,
                                  .record = { record.data, record.length } };
    tsr__error met = { .status = TSR_OK };
    if (tsr__comm_meet(comm, &meeting, all, &met)) {
      if (!error->status) *error = met;
    } else {
      *ask->met = true;
      judge(all, tsr__comm_index(comm), tsr__comm_count(comm), error);
    }
  }
  if (all->failed) tsr__error_set(error, TSR_ENOMEM, "no memory for what processes told");
  tsr__text_free(&record);
  return error->status;
}

/* Borrowed from `all`. Empty where there is no such record. */
tsr__blob tsr__agreed(const tsr__text *all, int process)
{
  tsr__fields fields = { (const uint8_t *)all->data, (const uint8_t *)all->data + all->length,
                         false };
  tsr__blob text = { NULL, 0 };
  for (int p = 0; p <= process; p++) {
    tsr__error told = { .status = TSR_OK };
    if (!take_record(&fields, &told, &text)) return (tsr__blob){ "", 0 };
  }
  return text;
}

/* ---- phases ---------------------------------------------------------------------------------- */

/* A name that no file in the folder has. Data files of a save that was cut off may still be there,
 * and with .overwrite those of the step that is read meanwhile: new names leave both alone until
 * the catalog is there. */
static void draw_id(tsr__text *out)
{
  uint32_t number;
  struct timespec now;
  if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number) {
    clock_gettime(CLOCK_REALTIME, &now);
    number = (uint32_t)tsr__hash(&now, sizeof now, 0);
  }
  tsr__text_add(out, "%08x", number);
}

/* By process 0 alone, before anybody writes: the others find the folder there after the meeting. */
static tsr_status make_folders(const tsr__saving *s, tsr__error *error)
{
  tsr__step_path step;
  if (tsr__step_path_of(s->path, s->catalog.step, NULL, &step, error)) return error->status;
  bool there = !s->overwrite && tsr__step_is_there(s->path, s->catalog.step, error);
  if (error->status) return error->status;
  if (there)
    return tsr__error_set(error, TSR_ESTATE,
                          "%s is there already; give another .step, or .overwrite", step.at);
  if (tsr__folder_make(s->path, error)) return error->status;
  return tsr__folder_make(step.at, error);
}

/* Under its name once it is on the disk; `*there` from then on. A folder that cannot be forced to
 * the disk is an error although the step is there: a power failure may still take it. */
static tsr_status write_catalog(const tsr__saving *s, bool *there, tsr__error *error)
{
  tsr__step_path path, folder;
  tsr__text text;
  tsr__error closing = { .status = TSR_OK };
  if (tsr__step_path_of(s->path, s->catalog.step, TSR__CATALOG, &path, error) ||
      tsr__step_path_of(s->path, s->catalog.step, NULL, &folder, error))
    return error->status;
  tsr__text_init(&text, &s->rt->heap);
  tsr__catalog_write(&s->catalog, &text);
  tsr__outfile *file =
      text.failed ? NULL
                  : tsr__out_open(&s->rt->heap, path.at, &(tsr__out_opts){ .plain = true }, error);
  bool good = file && !tsr__out_put(file, text.data, text.length, error);
  if (file && tsr__out_close(file, good, &closing) && !error->status) *error = closing;
  if (text.failed) tsr__error_set(error, TSR_ENOMEM, "no memory for the text of %s", TSR__CATALOG);
  tsr__text_free(&text);
  *there = !error->status;
  return error->status ? error->status : tsr__folder_sync(folder.at, error);
}

/* What the others wrote is added to what this process did. What other processes say is read as
 * carefully as a file: they may be of another version. */
static tsr_status join_others(tsr__saving *s, const tsr__text *all, tsr__error *error)
{
  for (int p = 1; p < s->process_count && !error->status; p++) {
    tsr__catalog other;
    tsr__error why = { .status = TSR_OK };
    tsr__blob text = tsr__agreed(all, p);
    tsr__catalog_init(&other, s->catalog.heap);
    if (tsr__catalog_read(&other, text.data, text.length, true, &why))
      tsr__error_set(error, why.status, "what process %d says of its data: %s", p, why.text);
    else tsr__catalog_join(&s->catalog, &other, p, error);
    tsr__catalog_free(&other);
  }
  return error->status ? error->status : tsr__catalog_check(&s->catalog, error);
}

/* What a phase tells the others and hears of them. */
typedef struct phase {
  tsr__text mine, all;
  bool met; /* the others were, so that all know the same */
} phase;

/* A process alone has met everybody. */
static void open_phase(const tsr__saving *s, phase *p)
{
  p->met = s->process_count == 1;
  tsr__text_init(&p->mine, &s->rt->heap);
  tsr__text_init(&p->all, &s->rt->heap);
}

static tsr_status end_phase(const tsr__saving *s, const char *name, phase *p, tsr__error *error)
{
  tsr__agreement ask = { name, s->seconds, &p->mine, &p->met };
  return tsr__agree(s->rt, &ask, &p->all, error);
}

static void close_phase(phase *p)
{
  tsr__text_free(&p->mine);
  tsr__text_free(&p->all);
}

/* Comes with the error of whoever could not list what is saved; then nobody writes. */
static tsr_status begin(tsr__saving *s, char id[16], tsr__error *error)
{
  phase p;
  open_phase(s, &p);
  if (s->process == 0 && !error->status) make_folders(s, error);
  if (s->process == 0) draw_id(&p.mine);
  if (!end_phase(s, "tsr checkpoint begin", &p, error)) {
    tsr__blob told = tsr__agreed(&p.all, 0);
    snprintf(id, 16, "%.*s", told.length < 15 ? (int)told.length : 15, (const char *)told.data);
  }
  close_phase(&p);
  return error->status;
}

/* What all have written is `p`'s, which the caller closes. Deleted at once is what this process
 * could not write, or what all know to be lost. Where the meeting broke off nobody knows what
 * process 0 does with it, so it stays. */
static tsr_status write_data(tsr__saving *s, const char *id, phase *p, tsr__error *error)
{
  open_phase(s, p);
  tsr_status own = tsr__saving_write(s, id, error);
  if (!own) tsr__catalog_write(&s->catalog, &p->mine);
  end_phase(s, "tsr checkpoint data", p, error);
  if (own || (p->met && error->status)) tsr__saving_undo(s);
  return error->status;
}

/* Pruned by process 0, once the catalog is there. "there" says to the others that their files are
 * named by it now, even if something failed afterwards. */
static tsr_status commit(tsr__saving *s, const tsr__text *data, tsr__error *error)
{
  phase p;
  bool there = false;
  open_phase(s, &p);
  if (s->process == 0 && !join_others(s, data, error)) write_catalog(s, &there, error);
  if (there) tsr__text_add(&p.mine, "there");
  if (there && !error->status) tsr__step_prune(s->path, &s->catalog, s->keep);
  end_phase(s, "tsr checkpoint commit", &p, error);
  if (s->process && p.met) there = tsr__agreed(&p.all, 0).length > 0;
  if (error->status && !there && (p.met || s->process == 0)) tsr__saving_undo(s);
  close_phase(&p);
  return error->status;
}

/* On whatever thread: the caller's, or that of the background. The name of a phase is what others
 * are told that this process waits in. */
tsr_status tsr__saving_run(tsr__saving *s, tsr__error *error)
{
  char id[16];
  phase data;
  if (begin(s, id, error)) return error->status;
  if (!write_data(s, id, &data, error)) commit(s, &data.all, error);
  close_phase(&data);
  return error->status;
}
