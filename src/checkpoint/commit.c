/* A step that all processes save together.
 *
 *   process 0            1                2
 *   locks the folder     -                -               begin: its number for data files
 *   writes its pieces    its, and a list  its             data: all are on the disk
 *   reads the lists,     -                -
 *   writes the catalog   -                -               commit: the step is there
 *
 * Each phase ends with a meeting where all learn how it went on each. They meet at the coordinator,
 * not at the meetings of programs, so that a step can be saved beside a program that runs.
 *
 * Process 0 holds the lock of the folder (lock.c) for all of them, from before it looks at what is
 * there until it has deleted what goes. Where it ends before the others have, what they write on is
 * of names that no catalog has.
 *
 * Invariant: whoever said that its data is on the disk deletes it only where process 0 said that
 * there is no catalog. What is left of a save that was cut off is deleted by a later one.
 *
 *   a record at a meeting   | status | message, if it failed | text: an id, "there" |
 *
 * What may be left over: a folder without a catalog, or data files that no catalog names. Neither
 * is a step, and a reader sees none of it. */
#include "checkpoint/checkpoint_room.h"
#include "io/file/files.h"
#include "io/file/outfile.h"
#include "io/file/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define AGREE_SECONDS 1800.0
enum { RECORD_MOST = 2048 }; /* bytes that a process tells: a status, a message, a few words */

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
      return tsr__error_set(error, TSR_EPEER,
                            "process %d sent a record that belongs to no checkpoint; run the same "
                            "version in all processes",
                            p);
    if (!told.status) continue;
    if (p == own) return error->status;
    error->status = TSR_OK;
    return tsr__error_set(error, told.status, "process %d: %s", p, told.text);
  }
  return TSR_OK;
}

/* Never left out on the way to an error: one who does not come holds up all others until the time
 * is over. Memory for what comes is had before, so that who has none says so to all: afterwards it
 * would fail alone. */
tsr_status tsr__agree(tsr_runtime *rt, const tsr__agreement *ask, tsr__text *all, tsr__error *error)
{
  tsr__comm *comm = tsr__comm_of(rt);
  tsr__text record;
  tsr__text_init(&record, &rt->heap);
  tsr__text_pad(all, ' ', (comm ? tsr__comm_count(comm) : 1) * RECORD_MOST);
  all->length = 0;
  if (all->failed || (ask->mine && ask->mine->failed))
    tsr__error_set(error, TSR_ENOMEM, "no memory for the messages between processes");
  tsr__write_u32(&record, error->status);
  tsr__write_bytes(&record, error->text, error->status ? strlen(error->text) : 0);
  tsr__write_bytes(&record, ask->mine ? tsr__text_get(ask->mine) : "",
                   ask->mine ? ask->mine->length : 0);
  /* None, which the others refuse. */
  if (record.failed) record.length = 0;
  if (record.failed)
    tsr__error_set(error, TSR_ENOMEM, "no memory for the messages between processes");
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
  if (all->failed)
    tsr__error_set(error, TSR_ENOMEM, "no memory for the messages of other processes");
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

/* By process 0 alone, before anybody writes: the others find the folder there after the meeting.
 * Locked before anything is looked at, so that what is seen stays so. */
static tsr_status make_folders(tsr__saving *s, tsr__error *error)
{
  tsr__step_path step;
  if (tsr__step_path_of(s->path, s->catalog.step, NULL, &step, error)) return error->status;
  if (tsr__folder_make(s->path, error)) return error->status;
  if (tsr__folder_lock_take(s->rt, s->path, &s->lock, error)) return error->status;
  bool there = !s->overwrite && tsr__step_is_there(s->path, s->catalog.step, error);
  if (error->status) return error->status;
  if (there)
    return tsr__error_set(error, TSR_ESTATE,
                          "%s exists already; give another .step, or set .overwrite", step.at);
  return tsr__folder_make(step.at, error);
}

/* A catalog as a file of the step's folder, which is there under its name once it is on the disk.
 * */
static tsr_status put_catalog(const tsr__saving *s, const char *name, tsr__error *error)
{
  tsr__step_path path;
  tsr__text text;
  tsr__error closing = { .status = TSR_OK };
  if (tsr__step_path_of(s->path, s->catalog.step, name, &path, error)) return error->status;
  tsr__text_init(&text, &s->rt->heap);
  tsr__catalog_write(&s->catalog, &text);
  tsr__outfile *file =
      text.failed ? NULL
                  : tsr__out_open(&s->rt->heap, path.at, &(tsr__out_opts){ .plain = true }, error);
  bool good = file && !tsr__out_put(file, text.data, text.length, error);
  if (file && tsr__out_close(file, good, &closing) && !error->status) *error = closing;
  if (text.failed) tsr__error_set(error, TSR_ENOMEM, "no memory for the text of %s", name);
  tsr__text_free(&text);
  return error->status;
}

/* `*there` once it has its name. A folder that cannot be forced to the disk is an error although
 * the step is there: a power failure may still take it. */
static tsr_status write_catalog(const tsr__saving *s, bool *there, tsr__error *error)
{
  tsr__step_path folder;
  if (tsr__step_path_of(s->path, s->catalog.step, NULL, &folder, error) ||
      put_catalog(s, TSR__CATALOG, error))
    return error->status;
  *there = true;
  return tsr__folder_sync(folder.at, error);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* What a process wrote it lists in a file beside its data, which process 0 reads: a meeting is for
 * words, and there may be a million arrays. Of a save that was cut off the file is taken for what
 * it is by its name, the catalog's and more. */
typedef struct part_name {
  char at[80];
} part_name;

static part_name name_part(const char *id, int process)
{
  part_name name;
  snprintf(name.at, sizeof name.at, "%s.%s-%d", TSR__CATALOG, id, process);
  return name;
}

static void delete_part(const tsr__saving *s, const char *id, int process)
{
  tsr__step_path path;
  tsr__error error = { .status = TSR_OK };
  part_name name = name_part(id, process);
  if (!tsr__step_path_of(s->path, s->catalog.step, name.at, &path, &error)) unlink(path.at);
}

/* Without workers or callbacks, as the thread of the background may be the one that reads. What
 * others wrote is read as carefully as any file: they may be of another version. */
static tsr_status read_part(const tsr__saving *s, const char *id, int process, tsr__catalog *out,
                            tsr__error *error)
{
  tsr__step_path path;
  tsr__error why = { .status = TSR_OK };
  part_name name = name_part(id, process);
  struct stat info = { .st_size = 0 };
  if (tsr__step_path_of(s->path, s->catalog.step, name.at, &path, error)) return error->status;
  int fd = tsr__sys_open(path.at, O_RDONLY);
  int code = fd < 0 || fstat(fd, &info) ? errno : 0;
  size_t length = (size_t)info.st_size, room = length + 1;
  char *text = code ? NULL : tsr__new_raw(&s->rt->heap, room);
  int64_t got = text ? tsr__sys_read_all(fd, text, length, 0) : 0;
  if (got < 0) code = errno;
  if (fd >= 0) tsr__sys_close(fd);
  if (code) tsr__file_error(path.at, "read the list of another process in", code, error);
  else if (!text) tsr__error_set(error, TSR_ENOMEM, "no memory to read %s", path.at);
  else if (tsr__catalog_read(out, text, (size_t)got, true, &why))
    tsr__error_set(error, why.status, "%s, which process %d wrote: %s", path.at, process, why.text);
  tsr__del(&s->rt->heap, text, room);
  return error->status;
}

/* What the others wrote is added to what this process did. */
static tsr_status join_others(tsr__saving *s, const char *id, tsr__error *error)
{
  int count = s->process_count - 1;
  size_t bytes = ((size_t)count + 1) * sizeof(tsr__catalog);
  tsr__catalog *other = tsr__new(&s->rt->heap, bytes);
  if (!other) tsr__error_set(error, TSR_ENOMEM, "no memory to list the data of all processes");
  for (int p = 0; p < count && !error->status; p++) {
    tsr__catalog_init(&other[p], s->catalog.heap);
    read_part(s, id, p + 1, &other[p], error);
  }
  if (!error->status && count) tsr__catalog_join(&s->catalog, other, count, error);
  for (int p = 0; other && p < count; p++) tsr__catalog_free(&other[p]);
  tsr__del(&s->rt->heap, other, bytes);
  return error->status ? error->status : tsr__catalog_check(&s->catalog, error);
}

/* ---- phases ---------------------------------------------------------------------------------- */

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

/* Deletes what this process wrote. */
static void undo(tsr__saving *s, const char *id)
{
  if (s->process) delete_part(s, id, s->process);
  tsr__saving_undo(s);
}

/* Deleted at once is what this process could not write, or what all know to be lost. Where the
 * meeting broke off nobody knows what process 0 does with it, so it stays. */
static tsr_status write_data(tsr__saving *s, const char *id, tsr__error *error)
{
  phase p;
  open_phase(s, &p);
  tsr_status own = tsr__saving_write(s, id, error);
  if (!own && s->process) own = put_catalog(s, name_part(id, s->process).at, error);
  end_phase(s, "tsr checkpoint data", &p, error);
  if (own || (p.met && error->status)) undo(s, id);
  close_phase(&p);
  return error->status;
}

/* Pruned by process 0, parts among the rest, once the catalog is there. "there" says to the others
 * that their files are named by it now, even if something failed afterwards. */
static tsr_status commit(tsr__saving *s, const char *id, tsr__error *error)
{
  phase p;
  bool there = false;
  open_phase(s, &p);
  if (s->process == 0 && !join_others(s, id, error) &&
      !tsr__folder_lock_check(&s->lock, s->path, error))
    write_catalog(s, &there, error);
  if (there) tsr__text_add(&p.mine, "there");
  if (there && !error->status) tsr__step_prune(s->path, &s->catalog, s->keep);
  end_phase(s, "tsr checkpoint commit", &p, error);
  if (s->process && p.met) there = tsr__agreed(&p.all, 0).length > 0;
  if (error->status && !there && (p.met || s->process == 0)) undo(s, id);
  close_phase(&p);
  return error->status;
}

/* On whatever thread: the caller's, or that of the background. The name of a phase is what others
 * are told that this process waits in. */
tsr_status tsr__saving_run(tsr__saving *s, tsr__error *error)
{
  char id[16];
  if (begin(s, id, error)) {
    if (s->lock.held) tsr__saving_undo(s);
  } else if (!write_data(s, id, error)) {
    commit(s, id, error);
  }
  tsr__folder_lock_give(&s->lock);
  return error->status;
}
