/* Functions saved and loaded.
 *
 *   save   function --trace for types--> region, captured arrays --> text --> file
 *   load   file --> text --> region, arrays --> a function whose body makes the nodes again
 *
 * What is loaded is traced like any other body, so it is called, differentiated and mapped as the
 * function was, and saved again it gives the same text.
 *
 * Who owns what: of a function that is saved everything is borrowed from its trace, of one that was
 * loaded the region and the arrays are held until its scope closes. Texts are the scope's in both
 * cases. */
#include "tessera/saved.h"

#include "inspect/saved_text.h"
#include "io/file/files.h"
#include "io/file/outfile.h"

void tsr__saved_release(tsr__saved *saved)
{
  for (int i = 0; i < saved->data_count; i++) tsr__value_release(saved->data[i]);
  if (saved->region) tsr__region_release(saved->region);
  saved->data_count = 0;
  saved->region = NULL;
}

/* ---- saving ---------------------------------------------------------------------------------- */

static const char no_memory_text[] = "no memory for the text; close some scopes";

/* What a trace is, borrowed. False: out of memory. It is not to be released: nothing was held. The
 * trace stays, as a function keeps all of them. */
static bool view_trace(tsr_scope *scope, const tsr_function *f, const tsr__traced *t,
                       tsr__saved *out)
{
  size_t arguments = (size_t)t->argument_count + 1, data = (size_t)t->captured_count + 1;
  size_t places = arguments + data;
  tsr__arena *arena = &scope->arena;
  *out = (tsr__saved){ .name = f->name,
                       /* The forms are what the key begins with. */
                       .arguments = tsr__arena_text(arena, t->key, t->first_leaf),
                       .result = t->form,
                       .argument_count = t->argument_count,
                       .data_count = t->captured_count,
                       .region = t->region };
  out->types = tsr__arena_new(arena, arguments * sizeof *out->types);
  out->places = tsr__arena_new(arena, places * sizeof *out->places);
  out->data = tsr__arena_new(arena, data * sizeof *out->data);
  out->data_sites = tsr__arena_new(arena, data * sizeof *out->data_sites);
  if (!out->arguments || !out->types || !out->places || !out->data || !out->data_sites)
    return false;
  for (int i = 0; i < t->argument_count; i++)
    out->types[i] = tsr__traced_leaf(t, i, &out->places[i]);
  for (int i = 0; i < t->captured_count; i++) {
    out->data[i] = t->captured[i].value;
    out->data_sites[i] = t->captured[i].site;
    out->places[t->argument_count + i] = t->captured[i].place;
  }
  return true;
}

/* No memory for a list of what was captured: who waits for this process to read it is told. */
static tsr_status refuse_captured(tsr_scope *scope, const tsr__traced *t, const char *call,
                                  const char *site)
{
  tsr__refusal refusal = { .status = TSR_ENOMEM, .message = no_memory_text, .site = site };
  bool told = false;
  for (int i = 0; t && i < t->captured_count && !told; i++)
    told = tsr__refuse_fetches(&t->captured[i].value, 1, &refusal);
  return tsr__fail(scope, site, TSR_ENOMEM, "%s: %s", call, no_memory_text);
}

/* Writes the text for arguments; the caller frees it. Of the arguments only types count: the
 * function is traced for them as a call would trace it, and the trace that a call made before is
 * used again. */
static tsr_status write_text(tsr_function *f, const tsr__operands *in, const char *call,
                             tsr__text *out, const char *site)
{
  tsr__arguments a = { .in = *in };
  tsr_scope *scope = tsr__scope_here(tsr__scope_inner(f->node.scope, tsr__home_of(a.in)));
  tsr__error error = { .status = TSR_OK };
  tsr__saved saved;
  tsr__text_init(out, &scope->rt->heap);
  if (f->inert) return tsr__fail_inert(scope, f->node.scope, site, call, "function");
  tsr_array *refused = tsr__refuse_arguments(f, &a.in, call, site);
  if (refused) return tsr__fail_inert(scope, refused->node.scope, site, call, "argument");
  bool taken = tsr__take_leaves(scope, f, &a, site);
  const tsr__traced *t = taken ? tsr__trace(scope, f, &a, site) : NULL;
  /* A body that failed has told it. Without a status it was memory that ended. */
  if (!t && tsr_scope_status(scope)) return tsr_scope_status(scope);
  if (!t || !view_trace(scope, f, t, &saved)) return refuse_captured(scope, t, call, site);
  tsr__saved_write(&saved, out, &error);
  if (!error.status) return TSR_OK;
  return tsr__fail(scope, site, error.status, "%s: %s: %s", call, f->name, error.text);
}

tsr_status tsr_function_text_into_at(tsr_function *f, const char **out, tsr_array *const *arguments,
                                     int count, const char *site)
{
  tsr__operands in = { arguments, arguments ? count : 0 };
  tsr__text text;
  if (!f) return tsr__fail_null("tsr_function_text_into", "function", site);
  if (!out)
    return tsr__fail(
        f->node.scope, site, TSR_EARG,
        "tsr_function_text_into: the pointer for the text is NULL; give the address of one");
  tsr_status status = write_text(f, &in, "tsr_function_text_into", &text, site);
  const char *own = NULL;
  /* The builder's text is the heap's and goes; the copy lives as long as the function. */
  if (!status) own = tsr__arena_text(&f->node.scope->arena, tsr__text_get(&text), text.length);
  if (!status && !own)
    status = tsr__fail(f->node.scope, site, TSR_ENOMEM,
                       "tsr_function_text_into: no memory for the text; close some scopes");
  if (!status) *out = own;
  tsr__text_free(&text);
  return status;
}

tsr_status tsr_function_save_at(tsr_function *f, const char *path, tsr_array *const *arguments,
                                int count, const char *site)
{
  tsr__operands in = { arguments, arguments ? count : 0 };
  tsr__error error = { .status = TSR_OK }, closing = { .status = TSR_OK };
  tsr__text text;
  if (!f) return tsr__fail_null("tsr_function_save", "function", site);
  if (!path)
    return tsr__fail(f->node.scope, site, TSR_EARG,
                     "tsr_function_save: the path is NULL; give the path of a file");
  tsr_status status = write_text(f, &in, "tsr_function_save", &text, site);
  if (!status) {
    tsr__outfile *file = tsr__out_open(&f->node.scope->rt->heap, path, NULL, &error);
    /* Packed on the way where the path ends in .gz or .zst (io/file/outfile.h), and unpacked when
     * loaded. */
    bool good = file && !tsr__out_put(file, text.data, text.length, &error);
    if (file && tsr__out_close(file, good, &closing) && !error.status) error = closing;
    status = error.status;
    if (status) tsr__fail(f->node.scope, site, status, "tsr_function_save: %s", error.text);
  }
  tsr__text_free(&text);
  return status;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* What a loaded function's body makes again; of its scope. `user` of the function, which lives in
 * the same scope and so as long. */
typedef struct loaded {
  tsr__node node;
  tsr__saved saved;
} loaded;

static void release_loaded(tsr__node *node)
{
  tsr__saved_release(&((loaded *)node)->saved);
}

/* What a loaded function takes, and on which meshes: "it takes f32[2]@(-), f32[8,3]@(data,-) on
 * mesh data=4 of 4 devices". Of many the first ones. */
const char *tsr__saved_needs(tsr_scope *scope, const tsr__saved *saved)
{
  enum { SHOWN = 6 };
  tsr__text text;
  tsr__text_init(&text, &scope->rt->heap);
  tsr__text_add(&text, "the function takes ");
  for (int i = 0; i < saved->argument_count && i < SHOWN; i++) {
    tsr_shape shape = { .rank = saved->types[i].rank };
    memcpy(shape.dims, saved->types[i].dims, sizeof shape.dims);
    if (i) tsr__text_add(&text, ", ");
    tsr__type_add(&text, (tsr_dtype)saved->types[i].dtype, &shape,
                  saved->places[i].mesh ? &saved->places[i] : NULL);
  }
  if (saved->argument_count > SHOWN)
    tsr__text_add(&text, " and %d more", saved->argument_count - SHOWN);
  if (!saved->argument_count) tsr__text_add(&text, "no arrays");
  for (int i = 0; i < saved->mesh_count; i++)
    tsr__text_add(&text, "%s mesh %s of %d devices", i ? "," : " on",
                  tsr_mesh_text(saved->meshes[i]), tsr_mesh_device_count(saved->meshes[i]));
  const char *own = tsr__arena_text(&scope->arena, tsr__text_get(&text), text.length);
  tsr__text_free(&text);
  return own ? own : "";
}

/* The leaf of an argument has the type that was saved; else the error is told. Where it lies is no
 * matter: it is put where the saved one lay (tsr__saved_put). */
static bool fits(tsr_scope *scope, const loaded *l, const tsr__leaves *in, int i)
{
  const tsr__result *type = &l->saved.types[i];
  const tsr_array *leaf = in->at[i];
  tsr__text text;
  if (leaf->dtype == type->dtype && leaf->shape.rank == type->rank &&
      !memcmp(leaf->shape.dims, type->dims, type->rank * sizeof *type->dims))
    return true;
  tsr_shape shape = { .rank = type->rank };
  memcpy(shape.dims, type->dims, sizeof shape.dims);
  tsr__text_init(&text, &scope->rt->heap);
  tsr__type_add(&text, (tsr_dtype)type->dtype, &shape, NULL);
  tsr__fail(
      scope, l->node.site, TSR_EARG,
      "array %d of the arguments is %s, but %s was saved for %s; give an array of that type: %s", i,
      tsr_type_of((tsr_array *)leaf), l->saved.name, tsr__text_get(&text),
      tsr__saved_needs(scope, &l->saved));
  tsr__text_free(&text);
  return false;
}

/* Arguments in the forms and of the types that were saved. Forms are compared as the text that was
 * saved, so names of trees count and not only their leaves. Afterwards there are as many leaves as
 * saved types, and `fits` may count through both. */
static bool take_arguments(tsr_scope *scope, const loaded *l, tsr_array *const *in,
                           tsr__leaves *leaves)
{
  tsr__text forms;
  tsr__text_init(&forms, &scope->rt->heap);
  bool good = true;
  for (int i = 0; in[i] && good; i++) {
    tsr__form_of(in[i], &forms);
    tsr__text_add(&forms, ";");
    good = tsr__leaves_of(&scope->arena, in[i], leaves);
  }
  if (!good || forms.failed)
    tsr__fail(scope, l->node.site, TSR_ENOMEM, "no memory for the arguments; close some scopes");
  else if (strcmp(tsr__text_get(&forms), l->saved.arguments))
    tsr__fail(scope, l->node.site, TSR_EARG,
              "the arguments have the forms %s, but %s was saved for %s; give those forms: %s",
              tsr__text_get(&forms), l->saved.name, l->saved.arguments,
              tsr__saved_needs(scope, &l->saved));
  tsr__text_free(&forms);
  good = !tsr_scope_status(scope);
  for (int i = 0; i < l->saved.argument_count && good; i++) good = fits(scope, l, leaves, i);
  return good;
}

/* An array with a value, as the first body found it outside: tracing captures it again, so that the
 * region has the same arguments as the saved one. Where there are fewer devices than the text asks
 * for the value lies nowhere, and the array where the text says, to be planned. The leaf takes a
 * hold of its own. */
static tsr_array *make_data(tsr_scope *scope, const loaded *l, const tsr__moved *moved, int i)
{
  tsr__value *value = l->saved.data[i];
  const char *site = l->saved.data_sites[i] ? l->saved.data_sites[i] : l->node.site;
  const tsr_sharding *place = &l->saved.places[l->saved.argument_count + i];
  tsr__value_hold(value);
  tsr_array *leaf =
      tsr__make_leaf(scope, (tsr_dtype)value->dtype, &value->shape, place, value, site);
  return tsr__saved_put(moved, leaf, place, site);
}

/* The nodes of a region, calls and all, on arguments that lie as it has them. Not by
 * tsr__replay_open, which puts called functions in the place of their calls: saved again, the text
 * would be another one. */
static tsr_array *replay_region(tsr_scope *scope, const loaded *l, const tsr__region *region,
                                const tsr__moved *moved, const tsr__leaves *in)
{
  const tsr__program *program = &region->program;
  tsr__replay replay = { .scope = scope,
                         .region = region,
                         .program = program,
                         .results = region->results,
                         .params = program->params,
                         .site = l->node.site };
  size_t nodes = (size_t)program->node_count + 1, results = (size_t)region->result_count + 1;
  replay.at = tsr__arena_new(&scope->arena, nodes * sizeof *replay.at);
  tsr_array **out = tsr__arena_new(&scope->arena, results * sizeof *out);
  if (!replay.at || !out) return NULL;
  for (int n = 0; n < program->node_count; n++) {
    if (!tsr__is_argument(&program->nodes[n])) continue;
    int i = tsr__index_of(program, &program->nodes[n]), own = l->saved.argument_count;
    replay.at[n] = i < own ? tsr__saved_put(moved, in->at[i], &l->saved.places[i], l->node.site)
                           : make_data(scope, l, moved, i - own);
  }
  tsr__replay_through(&replay);
  for (int i = 0; i < region->result_count; i++) out[i] = replay.at[region->results[i]];
  return tsr__form_fill(scope, l->saved.result, out, l->node.site);
}

/* The body of every loaded function, by whose address tsr__saved_of knows one. A vmap or a gradient
 * of it has another body and cannot be asked what it was. */
static tsr_array *loaded_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  const loaded *l = user;
  tsr__leaves leaves = { 0 };
  tsr__moved moved;
  if (!take_arguments(scope, l, in, &leaves) ||
      !tsr__saved_meshes(scope, &l->saved, &leaves, l->node.site, &moved))
    return NULL;
  tsr__region *region = tsr__saved_region(&moved, l->saved.region);
  tsr_array *out = region ? replay_region(scope, l, region, &moved, &leaves) : NULL;
  tsr__region_release(region);
  return tsr__or_no_memory(scope, out, "tsr_call", l->node.site);
}

const tsr__saved *tsr__saved_of(const tsr_function *f, const char *call, const char *site)
{
  bool read = f->body == loaded_body;
  if (read && !f->inert) return &((const loaded *)f->user)->saved;
  if (!read)
    tsr__fail(f->node.scope, site, TSR_EARG,
              "%s: %s is the function of a callback; give a function of tsr_function_load", call,
              f->name);
  return NULL;
}

/* A function of what was read, or one that returns inert arrays; the error is told. The node comes
 * first, so that what is half read is released with the scope however reading ends. */
static tsr_function *make_function(const tsr__text_ask *ask, const char *call, const char *site)
{
  tsr_scope *scope = ask->scope;
  tsr__error error = { .status = TSR_OK };
  loaded *l = tsr__node_new(scope, sizeof *l, site, release_loaded);
  if (!l) return NULL;
  tsr__saved_read(ask, &l->saved, &error);
  const char *name = !error.status && l->saved.name ? l->saved.name : "function";
  tsr_function *f = tsr__function_new(scope, loaded_body, l, name, site);
  if (!f) return NULL;
  f->asked = true;
  f->inert = error.status != TSR_OK;
  if (f->inert) tsr__fail(scope, site, error.status, "%s: %s", call, error.text);
  return f;
}

tsr_function *tsr_function_from_text_at(tsr_scope *scope, const char *text, const char *site)
{
  if (tsr__scope_usable(scope, "tsr_function_from_text", site)) return NULL;
  if (!text) tsr__fail(scope, site, TSR_EARG, "tsr_function_from_text: the text is NULL; give one");
  tsr__text_ask ask = { scope, text ? text : "", text ? strlen(text) : 0 };
  return make_function(&ask, "tsr_function_from_text", site);
}

/* A file that cannot be read gives the empty text on to make_function, for the inert function that
 * is returned then. The scope keeps the first of the two errors, that of the file. */
tsr_function *tsr_function_load_at(tsr_scope *scope, const char *path, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  tsr__loaded file = { 0 };
  if (tsr__scope_usable(scope, "tsr_function_load", site)) return NULL;
  if (!path) tsr__error_set(&error, TSR_EARG, "the path is NULL; give the path of a file");
  tsr__load_ask load = {
    .rt = scope->rt, .path = path, .format = "a saved function", .what = "load", .pad = 1
  };
  if (path) tsr__file_load(&load, &file, &error);
  if (error.status) tsr__fail(scope, site, error.status, "tsr_function_load: %s", error.text);
  tsr__text_ask ask = { scope, file.data ? file.data : "", (size_t)file.size };
  tsr_function *f = make_function(&ask, "tsr_function_load", site);
  if (file.data) tsr__loaded_free(&file);
  return f;
}
