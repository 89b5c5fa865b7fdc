/* What users call of checkpoints.
 *
 *   save      evaluate -> list what this process writes -> write, together with the others
 *   open      process 0 finds the step -> all read its catalog
 *
 * Invariant: a process that cannot do its part comes to the meetings all the same and says so:
 * nobody waits in vain. */
#include "tessera/checkpoint.h"

#include "checkpoint/checkpoint_room.h"
#include "graph/leaves.h"
#include "io/file/files.h"

#include <stdio.h>

/* A bound for the list that pruning keeps; more steps than that in one folder nobody has. */
enum { KEEP_MOST = 1 << 16 };

static const char save_call[] = "tsr_checkpoint_save", open_call[] = "tsr_checkpoint_open";

/* ---- saving ---------------------------------------------------------------------------------- */

/* Signs that need no escape in JSON, and of those that forms, frames and pieces' names are written
 * with (':', ',', '[', blanks) none. */
static bool good_name(const char *name)
{
  static const char signs[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
  return *name && strlen(name) <= 1000 && !name[strspn(name, signs)];
}

/* Blobs may differ from process to process; of one name that several give the first one's is
 * kept. */
static tsr_status check_blobs(const tsr_save_opts *opts, tsr__error *error)
{
  char quoted[TSR__QUOTE];
  for (int i = 0; i < TSR_MAX_SAVED && opts->blobs[i].name; i++) {
    const tsr_blob_item *blob = &opts->blobs[i];
    tsr__quote(blob->name, strlen(blob->name), quoted);
    if (!good_name(blob->name))
      return tsr__error_set(error, TSR_EARG,
                            "the name of blob %d is \"%s\", expected letters, digits and _ - . /",
                            i, quoted);
    if (!blob->data && blob->length)
      return tsr__error_set(error, TSR_EARG, "the data of blob '%s' is NULL, expected %zu bytes",
                            quoted, blob->length);
    for (int k = 0; k < i; k++)
      if (!strcmp(opts->blobs[k].name, blob->name))
        return tsr__error_set(error, TSR_EARG, "two blobs are named '%s'; give each its own name",
                              quoted);
  }
  return TSR_OK;
}

static tsr_status check_frames(const tsr_save_opts *opts, tsr__error *error)
{
  char quoted[TSR__QUOTE];
  for (int i = 0; i < TSR_MAX_SAVED && opts->frames[i].name; i++) {
    const tsr_frame_item *item = &opts->frames[i];
    tsr__quote(item->name, strlen(item->name), quoted);
    if (!good_name(item->name))
      return tsr__error_set(error, TSR_EARG,
                            "the name of frame %d is \"%s\", expected letters, digits and _ - . /",
                            i, quoted);
    if (!item->frame)
      return tsr__error_set(error, TSR_EARG, "frame '%s' is NULL; give one", quoted);
    for (int k = 0; k < i; k++)
      if (!strcmp(opts->frames[k].name, item->name))
        return tsr__error_set(error, TSR_EARG, "two frames are named '%s'; give each its own name",
                              quoted);
  }
  return TSR_OK;
}

/* What is wrong may be so on this process alone: it is told where all compare what they ask for. */
static tsr_status check_save(const char *path, const tsr_save_opts *opts, tsr__error *error)
{
  if (!path || !*path)
    return tsr__error_set(error, TSR_EARG, "the path is %s; give the path of a folder",
                          path ? "empty" : "NULL");
  if (opts->step < 0 || opts->keep < 0)
    return tsr__error_set(error, TSR_EARG, ".%s is %lld, expected 0 or more",
                          opts->step < 0 ? "step" : "keep",
                          (long long)(opts->step < 0 ? opts->step : opts->keep));
  if (!(opts->timeout >= 0 && opts->timeout <= 1e9))
    return tsr__error_set(error, TSR_EARG,
                          ".timeout is negative, not a number or above 1e9 s; 0 is 1800 s");
  return check_blobs(opts, error) ? error->status : check_frames(opts, error);
}

/* The arrays of a tree; frames are looked at, too. What an inert one has to say is said already. */
static tsr_status find_leaves(tsr_scope *scope, tsr_array *tree, const tsr_save_opts *opts,
                              tsr__leaves *out, tsr__error *error)
{
  if (tree && tree->inert)
    return tsr_scope_status(scope)
               ? tsr__error_set(error, tsr_scope_status(scope), "%s", tsr_message(scope))
               : tsr__error_set(error, TSR_ESTATE,
                                "the tree is the result of a failed call whose error was cleared "
                                "or belongs to another scope; make the tree again");
  if (tree && !tsr__leaves_of(&scope->arena, tree, out))
    return tsr__error_set(error, TSR_ENOMEM, "no memory to list the arrays of a tree");
  for (int i = 0; i < out->count; i++)
    if (out->at[i]->node.scope->rt != scope->rt)
      return tsr__error_set(error, TSR_EARG,
                            "array %d belongs to another runtime than the scope; save the array in "
                            "a scope of its own runtime",
                            i);
  for (int i = 0; i < TSR_MAX_SAVED && opts->frames[i].name; i++)
    if (tsr_frame_is_inert(opts->frames[i].frame))
      return tsr__error_set(error, tsr_scope_status(scope) ? tsr_scope_status(scope) : TSR_ESTATE,
                            "frame '%s' cannot be evaluated: %s", opts->frames[i].name,
                            tsr_scope_status(scope)
                                ? tsr_message(scope)
                                : "the frame is the result of a failed call; make the frame again");
  return TSR_OK;
}

/* Arrays are listed under the names that their tree gives them. */
typedef struct listing {
  tsr__saving *saving;
  const tsr__leaves *leaves;
  int next;
  tsr__error *error;
} listing;

/* Leaves come in the order in which forms have them. */
static bool list_one(void *user, const char *name)
{
  listing *l = user;
  const tsr_array *array = l->leaves->at[l->next++];
  return !tsr__saving_array(l->saving, name, array, l->error);
}

/* The order is the same on all processes, which the joining of catalogs counts on. */
static tsr_status list_all(tsr__saving *s, tsr_array *tree, const tsr__leaves *leaves,
                           const tsr_save_opts *opts, tsr__error *error)
{
  listing l = { s, leaves, 0, error };
  const char *form = tree ? tsr_tree_text(tree) : "";
  s->catalog.form = form ? tsr__arena_text(&s->catalog.arena, form, strlen(form)) : NULL;
  if (!s->catalog.form) return tsr__error_set(error, TSR_ENOMEM, "no memory for the tree's form");
  if (*form && !tsr__form_leaves(form, list_one, &l) && !error->status)
    tsr__error_set(error, TSR_EARG, "the tree is more than 100 deep, or its paths are too long");
  for (int i = 0; i < TSR_MAX_SAVED && opts->blobs[i].name && !error->status; i++)
    tsr__saving_blob(s, &opts->blobs[i], error);
  return error->status;
}

/* What all must ask for alike: its first words, and behind a NUL the hash of all of it, as a tree
 * may have a million arrays. */
static void tell_ask(const tsr_save_opts *opts, tsr_array *tree, tsr__text *out)
{
  const char *form = tree ? tsr_tree_text(tree) : "";
  char brief[160];
  tsr__text all;
  tsr__text_init(&all, out->heap);
  tsr__text_add(&all, "step %lld", (long long)opts->step);
  for (int i = 0; i < TSR_MAX_SAVED && opts->frames[i].name; i++)
    tsr__text_add(&all, ", frame '%s'", opts->frames[i].name);
  if (tree) tsr__text_add(&all, " of ");
  if (form) tsr__text_put(&all, form, strlen(form));
  int length = snprintf(brief, sizeof brief, "%s", tsr__text_get(&all));
  tsr__text_put(out, brief, strlen(brief) + 1);
  tsr__text_add(out, "%d %08x", length, tsr__crc32c(0, tsr__text_get(&all), all.length));
  out->failed = out->failed || all.failed || !form;
  tsr__text_free(&all);
}

/* Before anything is evaluated: each says what it asks for, or what is wrong with that. So who
 * cannot take part ends the call on all, and nobody waits in a program, or at a meeting that others
 * do not come to. */
static tsr_status ask_alike(const tsr__saving *s, const tsr_save_opts *opts, tsr_array *tree,
                            tsr__error *error)
{
  tsr__text mine, all;
  bool met = false;
  if (s->process_count == 1) return error->status;
  tsr__text_init(&mine, &s->rt->heap);
  tsr__text_init(&all, &s->rt->heap);
  if (!error->status) tell_ask(opts, tree, &mine);
  tsr__agree(s->rt, &(tsr__agreement){ "tsr checkpoint save", opts->timeout, &mine, &met }, &all,
             error);
  for (int p = 1; p < s->process_count && !error->status; p++) {
    tsr__blob first = tsr__agreed(&all, 0), own = tsr__agreed(&all, p);
    if (own.length != first.length || memcmp(own.data, first.data, own.length))
      tsr__error_set(error, TSR_EPEER,
                     "process %d saves %s, but process 0 saves %s; save the same tree and frames "
                     "in all processes",
                     p, (const char *)own.data, (const char *)first.data);
  }
  tsr__text_free(&mine);
  tsr__text_free(&all);
  return error->status;
}

/* What a call is to save. */
typedef struct asked {
  tsr_scope *scope;
  tsr_array *tree;
  const tsr_save_opts *opts;
  tsr__leaves leaves; /* of the tree */
} asked;

/* Evaluated as one program: what leaves share is computed once. Frames one by one, after each of
 * which all hear how it went, as the next one is evaluated by all or by none. */
static tsr_status list_saved(tsr__saving *s, const asked *ask, tsr__error *error)
{
  const tsr__leaves *leaves = &ask->leaves;
  const tsr_save_opts *opts = ask->opts;
  if (!leaves->count || !tsr__execute(ask->scope, leaves->at, leaves->count, error))
    list_all(s, ask->tree, leaves, opts, error);
  for (int i = 0; i < TSR_MAX_SAVED && opts->frames[i].name; i++) {
    tsr__text all;
    bool met = false;
    tsr__text_init(&all, &s->rt->heap);
    if (s->process_count > 1)
      tsr__agree(s->rt, &(tsr__agreement){ "tsr checkpoint frames", opts->timeout, NULL, &met },
                 &all, error);
    tsr__text_free(&all);
    if (error->status) break;
    tsr__saving_frame(s, &opts->frames[i], ask->scope, error);
  }
  return error->status;
}

/* One save at a time: what goes on in the background is waited for, and if it failed that is said
 * instead. What fails before the last meeting of this thread is told there, and then all return.
 * What fails afterwards is told at the first meeting of tsr__saving_run, where the others wait, on
 * whatever thread. */
static tsr_status save(tsr_scope *scope, const char *path, tsr_array *tree,
                       const tsr_save_opts *opts, tsr__error *error)
{
  tsr_runtime *rt = scope->rt;
  tsr__background *background = tsr__background_of(rt, opts->background);
  asked ask = { .scope = scope, .tree = tree, .opts = opts };
  tsr__progress progress = { .rt = rt, .what = TSR__CHECKPOINT };
  size_t length = error->status ? 0 : strlen(path);
  tsr__saving s = { .rt = rt,
                    .progress = &progress,
                    .keep = opts->keep < KEEP_MOST ? opts->keep : KEEP_MOST,
                    .overwrite = opts->overwrite,
                    .process = tsr_process_index(rt),
                    .process_count = tsr_process_count(rt),
                    .seconds = opts->timeout };
  tsr__catalog_init(&s.catalog, &rt->heap);
  s.catalog.step = opts->step;
  s.path = tsr__new(&rt->heap, length + 1);
  if (s.path && length) memcpy(s.path, path, length);
  if (!s.path || (opts->background && !background))
    tsr__error_set(error, TSR_ENOMEM, "no memory for a save");
  /* Before anything is evaluated: an error of the one before is told instead of saving, and memory
   * holds one step's values at a time. */
  tsr__background_wait(background, error);
  if (!error->status) find_leaves(scope, tree, opts, &ask.leaves, error);
  if (!ask_alike(&s, opts, tree, error)) {
    list_saved(&s, &ask, error);
    /* Where no thread can be had it is done at once. */
    if (!error->status && opts->background && tsr__background_start(background, &s)) return TSR_OK;
    tsr__saving_run(&s, error);
  }
  tsr__saving_free(&s);
  return error->status;
}

tsr_status tsr_checkpoint_save_with(tsr_scope *scope, const char *path, tsr_array *tree,
                                    const tsr_save_opts *opts, const char *site)
{
  tsr_save_opts own = { .size = sizeof own };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__scope_usable(scope, save_call, site);
  if (status) return status;
  if (tsr__take_opts(save_call, opts, &own, sizeof own, &error))
    own = (tsr_save_opts){ .size = sizeof own };
  else check_save(path, &own, &error);
  save(scope, path, tree, &own, &error);
  if (!error.status) return TSR_OK;
  return tsr__fail(scope, site, error.status, "%s: %s", save_call, error.text);
}

tsr_status tsr_checkpoint_wait_at(tsr_scope *scope, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__scope_usable(scope, "tsr_checkpoint_wait", site);
  if (status) return status;
  if (!tsr__background_wait(tsr__background_of(scope->rt, false), &error)) return TSR_OK;
  return tsr__fail(scope, site, error.status, "tsr_checkpoint_wait: %s", error.text);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* An inert step has an empty catalog, which is freed like any. */
static void release(tsr__node *node)
{
  tsr__catalog_free(&((tsr_saved_step *)node)->catalog);
}

/* Reads the catalog of the step's folder; `sum` is of its bytes. The checksum of all bytes, the
 * last line included, which is what processes compare. */
static tsr_status load(tsr_saved_step *c, uint32_t *sum, tsr__error *error)
{
  char path[TSR__CHECKPOINT_PATH + 32];
  tsr__loaded file = { 0 };
  tsr__error why = { .status = TSR_OK };
  tsr__text text;
  tsr__text_init(&text, &c->rt->heap);
  tsr__text_add(&text, "%s/%s", c->folder, TSR__CATALOG);
  if (text.failed || text.length >= sizeof path)
    tsr__error_set(error, TSR_ENOMEM, "no memory for the path");
  else memcpy(path, text.data, text.length + 1);
  tsr__text_free(&text);
  if (error->status) return error->status;
  tsr__load_ask ask = { .rt = c->rt,
                        .path = path,
                        .format = "the catalog of a checkpoint",
                        .what = TSR__CHECKPOINT,
                        .pad = 64 };
  if (tsr__file_load(&ask, &file, error)) return error->status;
  *sum = tsr__crc32c(0, file.data, (size_t)file.size);
  if (tsr__catalog_read(&c->catalog, file.data, (size_t)file.size, false, &why))
    tsr__error_set(error, why.status, "%s: %s", path, why.text);
  tsr__loaded_free(&file);
  return error->status;
}

/* What is being saved may be the newest, and may delete what is there now, so each process waits
 * for its part. Process 0 says which step it is, as another may become the newest meanwhile. The
 * others look at nothing: they are told the folder, and whether it is theirs, too, load_together
 * finds out. */
static tsr_status find_step(tsr_saved_step *c, const char *path, tsr__error *error)
{
  tsr__text mine, all;
  tsr__step_path found;
  bool met = false;
  tsr__text_init(&mine, &c->rt->heap);
  tsr__text_init(&all, &c->rt->heap);
  if (!error->status) tsr__background_settle(tsr__background_of(c->rt, false), error);
  if (tsr_process_index(c->rt) == 0 && !error->status && !tsr__step_find(path, &found, error))
    tsr__text_add(&mine, "%s", found.at);
  if (!tsr__agree(c->rt, &(tsr__agreement){ "tsr checkpoint open", 0, &mine, &met }, &all, error)) {
    tsr__blob told = tsr__agreed(&all, 0);
    size_t length = told.length < sizeof c->folder ? told.length : 0;
    memcpy(c->folder, told.data, length);
    c->folder[length] = '\0';
  }
  tsr__text_free(&mine);
  tsr__text_free(&all);
  return error->status;
}

/* All must have read the same. */
static tsr_status load_together(tsr_saved_step *c, tsr__error *error)
{
  tsr__text mine, all;
  bool met = false;
  uint32_t sum = 0;
  tsr__text_init(&mine, &c->rt->heap);
  tsr__text_init(&all, &c->rt->heap);
  load(c, &sum, error);
  tsr__text_add(&mine, "%08x", sum);
  tsr__agree(c->rt, &(tsr__agreement){ "tsr checkpoint load", 0, &mine, &met }, &all, error);
  for (int p = 1; p < tsr_process_count(c->rt) && !error->status; p++)
    /* Each said eight digits: an error of one would be everybody's by now. */
    if (memcmp(tsr__agreed(&all, p).data, tsr__agreed(&all, 0).data, 8))
      tsr__error_set(error, TSR_EPEER,
                     "process %d reads another %s at %s than process 0; give all processes the "
                     "same file system",
                     p, TSR__CATALOG, c->folder);
  tsr__text_free(&mine);
  tsr__text_free(&all);
  return error->status;
}

/* Without memory for a step. */
static void miss_meeting(tsr_runtime *rt)
{
  tsr_saved_step none = { .rt = rt };
  tsr__error error = { .status = TSR_OK };
  tsr__error_set(&error, TSR_ENOMEM, "no memory for a step");
  find_step(&none, "", &error);
}

tsr_status tsr__step_why_inert(const tsr_saved_step *c, const char *call, const char *site)
{
  if (!c) return tsr__fail_null(call, "saved step", site);
  return tsr__fail_inert(tsr__scope_here(c->node.scope), c->node.scope, site, call, "saved step");
}

/* A step is never NULL. It reads the catalog now and data when that is asked for; files that are
 * deleted in between are an error then. */
tsr_saved_step *tsr_checkpoint_open_at(tsr_scope *scope, const char *path, const char *site)
{
  static const tsr_saved_step none = { .inert = true, .catalog = { .step = -1, .form = "" } };
  tsr__error error = { .status = TSR_OK };
  tsr_saved_step *c = NULL;
  bool usable = !tsr__scope_usable(scope, open_call, site);
  if (usable) c = tsr__node_new(scope, sizeof *c, site, release);
  /* One that nobody writes to: all that it is asked is refused. The others hear why. */
  if (!c) {
    if (usable) miss_meeting(scope->rt);
    return (tsr_saved_step *)(uintptr_t)&none;
  }
  c->rt = scope->rt;
  tsr__catalog_init(&c->catalog, &scope->rt->heap);
  if (!path || !*path)
    tsr__error_set(&error, TSR_EARG,
                   "the path is %s; give the path of a folder of steps, or of a step",
                   path ? "empty" : "NULL");
  if (!find_step(c, path, &error)) load_together(c, &error);
  if (!error.status) return c;
  tsr__fail(scope, site, error.status, "%s: %s", open_call, error.text);
  tsr__catalog_free(&c->catalog);
  tsr__catalog_init(&c->catalog, &scope->rt->heap);
  c->catalog.step = -1;
  c->inert = true;
  return c;
}

/* ---- asking ---------------------------------------------------------------------------------- */

int64_t tsr_checkpoint_step(const tsr_saved_step *c)
{
  return c ? c->catalog.step : -1;
}

const char *tsr_checkpoint_form(const tsr_saved_step *c)
{
  return c ? c->catalog.form : "";
}

int tsr_checkpoint_count(const tsr_saved_step *c)
{
  return c ? (int)c->catalog.entries : 0;
}

tsr_saved_entry tsr_checkpoint_entry(const tsr_saved_step *c, int index)
{
  tsr_saved_entry out = { 0 };
  if (index < 0 || index >= tsr_checkpoint_count(c)) return out;
  const tsr__listed *entry = &c->catalog.entry[index];
  out = (tsr_saved_entry){ .kind = (tsr_saved_kind)entry->kind,
                           .name = entry->name,
                           .type = entry->type,
                           .mesh = entry->mesh,
                           .dtype = (tsr_dtype)entry->dtype,
                           .shape = entry->shape,
                           .parts = (int)entry->count };
  /* Bytes on the disk: bools count one each. */
  for (int64_t i = 0; i < entry->count; i++) out.bytes += c->catalog.piece[entry->first + i].bytes;
  return out;
}
