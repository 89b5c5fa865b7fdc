/* Frames to files: rows are collected on the host, then written by io/.
 *
 * Invariant: the file appears whole or not at all, and the rows' memory is given back before the
 * call returns.
 *
 *   all processes     collect, together: the rows are on the host of each
 *   process 0         writes
 *   the others        wait, and have its status */
#include "frame/out/out.h"
#include "io/rows/write.h"
#include "tessera/io.h"

#include <stdio.h>

/* One of the formats; `user` is what it needs beside the table. */
typedef tsr_status (*format_fn)(const tsr__write_ask *ask, const void *user, tsr__error *error);

static tsr_status as_csv(const tsr__write_ask *ask, const void *user, tsr__error *error)
{
  const tsr_csv_write_opts *opts = user;
  tsr__csv_style style = { opts->separator, opts->no_header, opts->null };
  return tsr__csv_write(ask, &style, error);
}

static tsr_status as_json(const tsr__write_ask *ask, const void *user, tsr__error *error)
{
  (void)user;
  return tsr__json_write(ask, error);
}

static tsr_status as_markdown(const tsr__write_ask *ask, const void *user, tsr__error *error)
{
  (void)user;
  return tsr__markdown_write(ask, error);
}

/* What a call writes, and how. */
typedef struct task {
  const char *what, *path, *site;
  format_fn format;
  const void *user;
} task;

/* The table is only looked at; save() gives its memory back. */
static tsr_status write_table(tsr_scope *scope, const tsr_table *table, const task *t,
                              tsr__error *error)
{
  tsr__heap *heap = &scope->rt->heap;
  size_t bytes = (size_t)(table->count + 1) * sizeof(tsr__out_column);
  tsr__out_column *column = tsr__new(heap, bytes);
  if (!column) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", t->what);
  /* The writers of io/ know columns, not tables: pointers to the table's memory, by column. */
  for (int i = 0; i < table->count; i++) {
    const tsr__table_column *from = &table->column[i];
    column[i] =
        (tsr__out_column){ from->name, (uint8_t)from->type, from->values, from->valid, from->dict };
  }
  tsr__write_ask ask = { .rt = scope->rt,
                         .what = t->what,
                         .path = t->path,
                         .rows = table->rows,
                         .count = table->count,
                         .column = column };
  tsr_status status = t->format(&ask, t->user, error);
  tsr__del(heap, column, bytes);
  return status;
}

/* What is written: a table in a format, or a text. */
typedef struct saving {
  const tsr_table *table;
  const tsr__text *text;
  const task *task;
} saving;

static tsr_status put_text(tsr_scope *scope, const task *t, const tsr__text *text,
                           tsr__error *error);

static tsr_status write_it(tsr_scope *scope, const saving *s, tsr__error *error)
{
  return s->table ? write_table(scope, s->table, s->task, error)
                  : put_text(scope, s->task, s->text, error);
}

/* Where rows lie over several processes all of them have the table; the first one writes it, and
 * the others learn how that went. The path is hashed into what is entered with: processes that
 * write to different paths are told so. */
static tsr_status write_once(tsr_frame *df, bool apart, const saving *s, tsr__error *error)
{
  tsr_scope *scope = tsr__frame_home(df);
  tsr__peers *peers = tsr__peers_of(scope->rt);
  if (!apart) return write_it(scope, s, error);
  uint64_t hash = tsr__hash(s->task->path, strlen(s->task->path), 0);
  const tsr__peers_work work = { .fingerprint = hash,
                                 .what = s->task->what,
                                 .site = s->task->site };
  tsr_status status = tsr__peers_enter(peers, &work, error);
  if (status) return status;
  if (!tsr__peers_index(peers)) status = write_it(scope, s, error);
  return tsr__peers_leave(peers, status, error);
}

/* Where an error stands: the call's line, or for want of it the frame's. */
static const char *site_of(const tsr_frame *df, const char *site)
{
  return site || !df ? site : df->node.site;
}

/* TSR_OK also for a frame that cannot be used: what is asked of it next says why. */
static tsr_status check_path(tsr_frame *df, const task *t)
{
  if (!df) return tsr__fail_null(t->what, "frame", t->site);
  if (!tsr__frame_usable(df) || (t->path && *t->path)) return TSR_OK;
  return tsr__frame_refuse(df, t->what, t->site,
                           tsr__fail(tsr__frame_home(df), site_of(df, t->site), TSR_EARG,
                                     "%s: the path is %s", t->what, t->path ? "empty" : "NULL"));
}

/* The table belongs to the frame's home and would stay until that closes; it is emptied instead. */
static tsr_status save(tsr_frame *df, const task *t)
{
  tsr_table *table = NULL;
  tsr__error error = { 0 };
  tsr_scope *scope = tsr__frame_home(df);
  tsr_status status = check_path(df, t);
  if (!status) status = tsr_frame_collect_at(df, &table, t->site);
  /* What it could not collect is said already. */
  if (status) return status;
  status = write_once(df, table->apart, &(saving){ table, NULL, t }, &error);
  /* Before the table's scope closes, which may be long: the file has the rows now. */
  tsr__table_empty(table);
  return status ? tsr__fail(scope, site_of(df, t->site), status, "%s", error.text) : TSR_OK;
}

tsr_status tsr_frame_write_csv_with(tsr_frame *df, const char *path, const tsr_csv_write_opts *opts,
                                    const char *site)
{
  static const char what[] = "tsr_frame_write_csv";
  tsr_csv_write_opts all = { 0 };
  tsr__error error = { 0 };
  if (tsr__frame_usable(df) && tsr__take_opts(what, opts, &all, sizeof all, &error))
    return tsr__frame_refuse(df, what, site,
                             tsr__fail(tsr__frame_home(df), site_of(df, site), error.status, "%s",
                                       error.text));
  return save(df, &(task){ what, path, site, as_csv, &all });
}

tsr_status tsr_frame_write_json_at(tsr_frame *df, const char *path, const char *site)
{
  return save(df, &(task){ "tsr_frame_write_json", path, site, as_json, NULL });
}

tsr_status tsr_frame_write_markdown_at(tsr_frame *df, const char *path, const char *site)
{
  return save(df, &(task){ "tsr_frame_write_markdown", path, site, as_markdown, NULL });
}

/* ---- tables for the eye ---------------------------------------------------------------------- */

/* A text that was drawn for the eye goes into a file that appears whole or not at all. */
static tsr_status put_text(tsr_scope *scope, const task *t, const tsr__text *text,
                           tsr__error *error)
{
  tsr__error own = { 0 };
  tsr__progress progress = { .rt = scope->rt, .what = t->what };
  tsr__out_opts opts = { .progress = &progress };
  if (text->failed) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", t->what);
  if (tsr__progress_stops(&progress, 0)) return tsr__cancelled(error, t->what);
  tsr__outfile *out = tsr__out_open(&scope->rt->heap, t->path, &opts, &own);
  if (out) tsr__out_put(out, tsr__text_get(text), text->length, &own);
  /* An error of its own decides whether it becomes the file. */
  tsr__out_close(out, !own.status, &own);
  return own.status ? tsr__error_set(error, own.status, "%s: %s", t->what, own.text) : TSR_OK;
}

tsr_status tsr_frame_write_text_with(tsr_frame *df, const char *path, const tsr_show_opts *opts,
                                     const char *site)
{
  task t = { "tsr_frame_write_text", path, site, NULL, NULL };
  tsr_show_opts all = { 0 };
  tsr__text text;
  tsr__error error = { 0 };
  tsr_status status = check_path(df, &t);
  if (!status && tsr__take_opts(t.what, opts, &all, sizeof all, &error))
    status = tsr__frame_refuse(df, t.what, site,
                               tsr__fail(tsr__frame_home(df), site_of(df, site), error.status, "%s",
                                         error.text));
  /* A file has no width, and who writes one wants all rows. */
  if (!all.rows) all.rows = -1;
  if (!all.width) all.width = -1;
  all.size = sizeof all;
  bool apart = false;
  if (!status) status = tsr__frame_draw(df, &all, &text, &apart, site);
  if (status) return status;
  status = write_once(df, apart, &(saving){ NULL, &text, &t }, &error);
  tsr__text_free(&text);
  return status ? tsr__fail(tsr__frame_home(df), site_of(df, site), status, "%s", error.text)
                : TSR_OK;
}
