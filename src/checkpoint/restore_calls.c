/* What users call to have arrays and bytes again.
 *
 *   like or form --paths--> entries -> values where they are to lie -> read -> agree -> leaves
 *
 * Invariant: nothing of a tree is given unless all of it was read, on all processes. */
#include "checkpoint/checkpoint_room.h"
#include "transform/transform.h"

static const char restore_call[] = "tsr_checkpoint_restore", blob_call[] = "tsr_checkpoint_blob",
                  verify_call[] = "tsr_checkpoint_verify";

/* A restore under way. `next` counts targets as they are found, in the order of the form's leaves,
 * which `like` has, too. */
typedef struct restoring {
  tsr_saved_step *c;
  tsr_scope *scope;
  const tsr_restore_opts *opts;
  const char *form; /* of what is restored */
  tsr_array **like; /* its leaves; NULL: as they were saved */
  tsr__restoring *target;
  int count, next;
  size_t hint;
  tsr__error *error;
} restoring;

/* ---- which entry ----------------------------------------------------------------------------- */

/* Without memory for the list of names only the hint is missing. */
static tsr_status not_saved(const tsr__catalog *c, int kind, const char *name, tsr__error *error)
{
  char quoted[TSR__QUOTE], near[TSR__QUOTE];
  const char **names = tsr__new(c->heap, (c->entries + 1) * sizeof *names);
  int count = 0, best;
  for (size_t i = 0; names && i < c->entries; i++)
    if (c->entry[i].kind == kind) names[count++] = c->entry[i].name;
  best = names ? tsr__text_nearest(name, names, count) : -1;
  tsr__quote(name, strlen(name), quoted);
  if (best >= 0) tsr__quote(names[best], strlen(names[best]), near);
  tsr__error_set(error, TSR_EARG, "step %lld has no %s '%s'%s%s%s", (long long)c->step,
                 tsr__kind_name(kind), quoted, best >= 0 ? "; did you mean '" : "",
                 best >= 0 ? near : "", best >= 0 ? "'?" : "");
  tsr__del(c->heap, names, (c->entries + 1) * sizeof *names);
  return error->status;
}

/* The path of a leaf of what is restored, in what was saved: behind .path.
 *
 *   .path "model"   form "(w: *, b: *)"   leaf "w"        model.w
 *   .path "model.w" form "*"              leaf "array"    model.w
 *   no .path        form "*"              leaf "array"    array
 */
static bool full_name(const restoring *r, const char *name, char out[TSR__CHECKPOINT_PATH])
{
  const char *path = r->opts->path ? r->opts->path : "";
  bool alone = !strcmp(r->form, "*"); /* has no name of its own */
  size_t length = strlen(path), more = alone && length ? 0 : strlen(name);
  if (length + more + 2 > TSR__CHECKPOINT_PATH) return false;
  memcpy(out, path, length);
  if (length && more) out[length++] = '.';
  memcpy(out + length, name, more);
  out[length + more] = '\0';
  return true;
}

/* ---- where it goes --------------------------------------------------------------------------- */

/* The axes of one dim of a spec that the mesh has, "x+y", and their priority, "x+y:p1": when the
 * dim decides how others are cut is true of what is left of it, too. */
static bool filter_dim(const tsr_mesh *mesh, const char **at, tsr__text *out)
{
  bool any = false;
  size_t whole = strcspn(*at, ",;)"), axes = strcspn(*at, ":,;)");
  const char *end = *at + axes;
  for (const char *p = *at; p < end; p += *p == '+') {
    size_t length = strcspn(p, "+:,;)");
    char axis[64];
    if (length && length < sizeof axis) {
      memcpy(axis, p, length);
      axis[length] = '\0';
      if (strcmp(axis, "-") && tsr_mesh_axis_size(mesh, axis) > 0) {
        tsr__text_add(out, "%s%s", any ? "+" : "", axis);
        any = true;
      }
    }
    p += length;
  }
  if (any) tsr__text_put(out, end, whole - axes);
  else tsr__text_add(out, "-");
  *at += whole;
  if (**at == ',') ++*at;
  return !out->failed;
}

/* By a spec, along the axes that there are; false out of memory.
 *
 *   saved (x+y, z) on x=2,y=4,z=2, and here x=8        (x, -)
 *
 * Sizes may differ: only names are looked for, so a step of eight devices can be had again on
 * two. */
static bool place_by(const restoring *r, const char *words, int rank, tsr_sharding *out)
{
  const tsr_mesh *mesh = r->opts->mesh ? r->opts->mesh : tsr_scope_mesh(r->scope);
  const char *at = *words == '(' ? words + 1 : words;
  tsr__text spec;
  *out = (tsr_sharding){ 0 };
  if (!mesh) return true;
  tsr__text_init(&spec, &r->scope->rt->heap);
  for (int d = 0; d < rank; d++) {
    if (d) tsr__text_add(&spec, ",");
    filter_dim(mesh, &at, &spec);
  }
  bool fine = !spec.failed;
  if (fine) *out = tsr_on_with(mesh, tsr__text_get(&spec), NULL);
  tsr__text_free(&spec);
  return fine;
}

/* Where an array of `like` lies. On a mesh that has no devices here, as that of a function which
 * was saved for more, nothing can: then it is placed as if no `like` was given, by the spec that it
 * has. */
static bool like_place(const restoring *r, const tsr_array *like, tsr_sharding *out)
{
  char words[512];
  *out = like->sharding;
  if (!out->mesh || !tsr_mesh_is_abstract(out->mesh)) return true;
  int length = tsr_sharding_text(out, like->shape.rank, words, sizeof words);
  return place_by(r, length > 0 && length < (int)sizeof words ? words : "", like->shape.rank, out);
}

/* No cast on the way: what is restored has the bits that were saved. */
static tsr_status check_type(const restoring *r, const tsr__listed *entry, const tsr_array *like)
{
  char want[128], quoted[TSR__QUOTE];
  bool sizes = tsr__shape_same(&like->shape, &entry->shape);
  if (like->dtype == entry->dtype &&
      (sizes || (r->opts->resize && like->shape.rank == entry->shape.rank)))
    return TSR_OK;
  tsr__quote(entry->name, strlen(entry->name), quoted);
  tsr_type_text((tsr_dtype)like->dtype, like->shape, NULL, want, sizeof want);
  if (like->dtype != entry->dtype)
    return tsr__error_set(
        r->error, TSR_EDTYPE,
        "'%s' was saved as %s, but `like` asks for %s; restore the saved dtype and cast the array",
        quoted, entry->type, want);
  return tsr__error_set(r->error, TSR_ESHAPE, "'%s' was saved as %s, but `like` asks for %s; %s",
                        quoted, entry->type, want,
                        like->shape.rank == entry->shape.rank
                            ? ".resize cuts off elements, or adds zeros at the end"
                            : "restore the saved shape and reshape the array");
}

/* A leaf's entry is found and a value made for it. False also where it is told by `error`;
 * tsr__form_leaves ends then. */
static bool add_target(void *user, const char *name)
{
  restoring *r = user;
  char path[TSR__CHECKPOINT_PATH];
  const tsr__catalog *c = &r->c->catalog;
  const tsr_array *like = r->like ? r->like[r->next] : NULL;
  if (!full_name(r, name, path)) return false;
  const tsr__listed *entry = tsr__catalog_find(c, TSR_SAVED_ARRAY, path, &r->hint);
  if (!entry) return !not_saved(c, TSR_SAVED_ARRAY, path, r->error);
  if (like && check_type(r, entry, like)) return false;
  tsr_shape shape = like ? like->shape : entry->shape;
  tsr_sharding place;
  if (!(like ? like_place(r, like, &place) : place_by(r, entry->spec, entry->shape.rank, &place)))
    return !tsr__error_set(r->error, TSR_ENOMEM, "no memory for a spec");
  tsr_dtype dtype = (tsr_dtype)entry->dtype;
  tsr__error why = { .status = TSR_OK };
  if (tsr__check_place(r->scope, &place, dtype, &shape, &why)) {
    char quoted[TSR__QUOTE];
    tsr__error_set(r->error, why.status, "'%s': %s", tsr__quote(path, strlen(path), quoted),
                   why.text);
    return false;
  }
  tsr_sharding canon = tsr__sharding_canon(&place);
  tsr__layout layout = { dtype, &shape, &canon, NULL };
  tsr__value *value = tsr__value_new(r->scope->rt, &layout, r->error);
  if (!value) return false;
  r->target[r->next++] = (tsr__restoring){ .entry = entry, .value = value };
  return true;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* The form of what is restored, and the leaves that say where. Leaves of a form are its stars:
 * names have none in them. */
static tsr_status plan(restoring *r, tsr_array *like)
{
  const tsr__catalog *c = &r->c->catalog;
  const char *path = r->opts->path ? r->opts->path : "", *start;
  tsr__arena *arena = &r->scope->arena;
  size_t length;
  tsr__leaves leaves = { 0 };
  if (like) {
    r->form = tsr_tree_text(like);
    if (!r->form || !tsr__leaves_of(arena, like, &leaves))
      return tsr__error_set(r->error, TSR_ENOMEM, "no memory to list the arrays of a tree");
    r->like = leaves.at;
    r->count = leaves.count;
  } else if (!*c->form || !tsr__form_at(c->form, path, &start, &length)) {
    return not_saved(c, TSR_SAVED_ARRAY, *path ? path : "array", r->error);
  } else {
    r->form = tsr__arena_text(arena, start, length);
    r->count = r->form ? 0 : -1;
    for (const char *at = r->form; at && *at; at++) r->count += *at == '*';
  }
  if (r->count >= 0) r->target = tsr__arena_new(arena, ((size_t)r->count + 1) * sizeof *r->target);
  return r->target
             ? TSR_OK
             : tsr__error_set(r->error, TSR_ENOMEM, "no memory to list the arrays to restore");
}

/* Each leaf takes over the hold of its value; without a list of leaves nobody does. */
static tsr_array *make_leaves(const restoring *r, const char *site)
{
  tsr_array **out = tsr__arena_new(&r->scope->arena, ((size_t)r->count + 1) * sizeof *out);
  for (int i = 0; i < r->count; i++) {
    tsr__value *value = r->target[i].value;
    if (!out) tsr__value_release(value);
    if (!out) continue;
    out[i] = tsr__make_leaf(r->scope, (tsr_dtype)value->dtype, &value->shape, &value->sharding,
                            value, site);
  }
  tsr_array *tree = out ? tsr__form_fill(r->scope, r->form, out, site) : NULL;
  return tsr__or_no_memory(r->scope, tree, restore_call, site);
}

/* Whatever fails here is told to the other processes, which come to this point as well. Every path
 * through here meets, also where nothing could be planned. */
static tsr_status read_together(restoring *r, tsr_array *like)
{
  tsr_runtime *rt = r->scope->rt;
  tsr__text all;
  bool met = false;
  tsr__restore_ask ask = { .rt = rt, .catalog = &r->c->catalog, .folder = r->c->folder };
  if (!r->error->status && !plan(r, like)) {
    bool good = tsr__form_leaves(r->form, add_target, r);
    if (!good && !r->error->status)
      tsr__error_set(r->error, TSR_EARG,
                     "the tree is more than 100 deep, or its paths are too long");
    ask.target = r->target;
    ask.count = r->next;
    if (good) tsr__restore(&ask, r->error);
  }
  tsr__text_init(&all, &rt->heap);
  tsr__agree(rt, &(tsr__agreement){ "tsr checkpoint restore", 0, NULL, &met }, &all, r->error);
  tsr__text_free(&all);
  for (int i = 0; i < r->next && r->error->status; i++) tsr__value_release(r->target[i].value);
  return r->error->status;
}

tsr_array *tsr_checkpoint_restore_with(tsr_saved_step *c, tsr_array *like,
                                       const tsr_restore_opts *opts, const char *site)
{
  tsr_restore_opts own = { .size = sizeof own };
  tsr__error error = { .status = TSR_OK };
  if (!c || c->inert) {
    tsr__step_why_inert(c, restore_call, site);
    return tsr__make_inert(c ? tsr__scope_here(c->node.scope) : NULL, site);
  }
  tsr_scope *scope = tsr__scope_here(c->node.scope);
  tsr__take_opts(restore_call, opts, &own, sizeof own, &error);
  if (like && like->inert)
    tsr__error_set(&error, tsr_scope_status(scope) ? tsr_scope_status(scope) : TSR_ESTATE, "%s",
                   tsr_scope_status(scope)
                       ? tsr_message(scope)
                       : "`like` is the result of a failed call; make the tree again");
  restoring r = { .c = c, .scope = scope, .opts = &own, .error = &error };
  if (!read_together(&r, like)) return make_leaves(&r, site);
  tsr__fail(scope, site, error.status, "%s: %s", restore_call, error.text);
  return tsr__make_inert(scope, site);
}

/* Each process on its own, without a meeting: all that it asks of files is whether they are as they
 * were. */
tsr_status tsr_checkpoint_verify_at(tsr_saved_step *c, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  if (!c || c->inert) return tsr__step_why_inert(c, verify_call, site);
  tsr_scope *scope = tsr__scope_here(c->node.scope);
  size_t count = c->catalog.entries;
  tsr__restoring *target = tsr__arena_new(&scope->arena, (count + 1) * sizeof *target);
  tsr__restore_ask ask = { .rt = c->rt,
                           .catalog = &c->catalog,
                           .folder = c->folder,
                           .verify = true,
                           .target = target,
                           .count = (int)count };
  for (size_t i = 0; target && i < count; i++) target[i].entry = &c->catalog.entry[i];
  if (!target) tsr__error_set(&error, TSR_ENOMEM, "no memory to list the entries of the step");
  else tsr__restore(&ask, &error);
  if (!error.status) return TSR_OK;
  return tsr__fail(scope, site, error.status, "%s: %s", verify_call, error.text);
}

tsr_status tsr_checkpoint_blob_at(tsr_saved_step *c, const char *name, tsr_value *out,
                                  const char *site)
{
  tsr__error error = { .status = TSR_OK };
  if (!c || c->inert) return tsr__step_why_inert(c, blob_call, site);
  tsr_scope *scope = tsr__scope_here(c->node.scope);
  if (!name || !out)
    return tsr__fail(scope, site, TSR_EARG, "%s: the %s is NULL; give one", blob_call,
                     name ? "pointer for the bytes" : "name");
  const tsr__listed *entry = tsr__catalog_find(&c->catalog, TSR_SAVED_BLOB, name, NULL);
  char *data = NULL;
  if (!entry) not_saved(&c->catalog, TSR_SAVED_BLOB, name, &error);
  /* One byte more, a NUL, so that a text can be used as it is. */
  else if (!(data = tsr__arena_new(&scope->arena, (size_t)entry->shape.dims[0] + 1)))
    tsr__error_set(&error, TSR_ENOMEM, "no memory for %lld bytes", (long long)entry->shape.dims[0]);
  tsr__restoring target = { .entry = entry, .data = data };
  tsr__restore_ask ask = {
    .rt = c->rt, .catalog = &c->catalog, .folder = c->folder, .target = &target, .count = 1
  };
  if (error.status || tsr__restore(&ask, &error))
    return tsr__fail(scope, site, error.status, "%s: %s", blob_call, error.text);
  *out = (tsr_value){ data, (size_t)entry->shape.dims[0] };
  return TSR_OK;
}
