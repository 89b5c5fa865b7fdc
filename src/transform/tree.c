/* Trees of arrays, and their forms as text.
 *
 *   tree ── w: f32[2,3]          form  "(w: *, b: (x: *, y: *))"
 *        └─ b ── x: f32[]        leaves, in order: w, x, y
 *             └─ y: f32[]
 *
 * A tree is a node whose operands are its parts. The form is what signatures hold and what makes a
 * tree again of the results of a call: it needs no scope.
 *
 * Invariant: no tree is in a program: its leaves are taken before anything is traced
 * (graph/leaves.h), so that no operation, plan or gradient knows of trees. */
#include "transform/transform.h"

#include <stdio.h>

tsr_array *tsr__or_no_memory(tsr_scope *scope, tsr_array *made, const char *call, const char *site)
{
  if (made && !made->inert) return made;
  if (scope && !scope->inert && !tsr_scope_status(scope))
    tsr__fail(scope, site, TSR_ENOMEM,
              "%s: no memory was left; close scopes that are no longer needed", call);
  return made ? made : tsr__make_inert(scope, site);
}

bool tsr_is_tree(const tsr_array *a)
{
  return tsr__is_tree(a);
}

int tsr_item_count(const tsr_array *tree)
{
  return tsr_is_tree(tree) ? tree->in_count : 0;
}

const char *tsr_item_name(const tsr_array *tree, int index)
{
  if (index < 0 || index >= tsr_item_count(tree) || !tree->extras->names) return NULL;
  return tree->extras->names[index];
}

/* ---- making ---------------------------------------------------------------------------------- */

static tsr_array *refuse_tree(tsr_scope *scope, const tsr__error *error, const char *site)
{
  tsr__fail_error(scope, site, error);
  return tsr__make_inert(scope, site);
}

static bool letter_or_digit(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Forms are written of names, so those have no signs in them that forms have. Dots are left out as
 * well: they part the names of a path (tsr_field). */
static bool good_name(const char *name)
{
  size_t length = name ? strlen(name) : 0;
  for (size_t i = 0; i < length; i++)
    if (!letter_or_digit(name[i]) && name[i] != '_' && name[i] != '-') return false;
  return length > 0;
}

/* Parts that can stand in a tree: there, of the same runtime. An inert one makes the tree inert.
 * Parts and names are copied by the node; both may lie on the caller's stack. */
static tsr_array *make_tree(tsr_scope *scope, tsr__operands parts, const char *const *names,
                            const char *site)
{
  tsr__error error = { .status = TSR_OK };
  for (int i = 0; i < parts.count; i++) {
    if (!parts.at[i]) {
      tsr__error_set(&error, TSR_EARG, "tsr_tree: part %d%s%s is NULL; give an array", i,
                     names ? ", " : "", names ? names[i] : "");
      return refuse_tree(scope, &error, site);
    }
    if (parts.at[i]->inert) return parts.at[i];
    if (parts.at[i]->node.scope->rt != scope->rt) {
      tsr__error_set(&error, TSR_EARG,
                     "tsr_tree: part %d belongs to another runtime; read the array there and place "
                     "it here with tsr_put",
                     i);
      return refuse_tree(scope, &error, site);
    }
    /* A tree goes no later than any of its parts. */
    scope = tsr__scope_inner(scope, parts.at[i]->node.scope);
  }
  return tsr__make_tree(scope, parts, names, site);
}

static tsr_status check_names(const tsr_field_args *fields, int count, tsr__error *error)
{
  for (int i = 0; i < count; i++) {
    if (!good_name(fields[i].name))
      return tsr__error_set(error, TSR_EARG,
                            "tsr_tree: the name of part %d is \"%s\", expected letters, digits, _ "
                            "and -; use tsr_tuple for a tree without names",
                            i, fields[i].name ? fields[i].name : "");
    /* Quadratic in the parts of one tree, which somebody wrote down by hand. */
    for (int k = 0; k < i; k++)
      if (!strcmp(fields[i].name, fields[k].name))
        return tsr__error_set(
            error, TSR_EARG,
            "tsr_tree: parts %d and %d are both named \"%s\"; give each a name of its own", k, i,
            fields[i].name);
  }
  return TSR_OK;
}

tsr_array *tsr_tree_at(tsr_scope *scope, const tsr_field_args *fields, int count, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  if (tsr__scope_usable(scope, "tsr_tree", site)) return tsr__make_inert(scope, site);
  if (!fields || count < 0)
    tsr__error_set(&error, TSR_EARG,
                   "tsr_tree: the count of parts is %d%s; give the parts and their number", count,
                   fields ? "" : ", but the list is NULL");
  if (error.status || check_names(fields, count, &error)) return refuse_tree(scope, &error, site);
  /* One block for both lists; one place more, so that NULL means memory even where there is no
   * part. */
  size_t each = sizeof(tsr_array *) + sizeof(char *);
  tsr_array **parts = tsr__arena_new(&scope->arena, ((size_t)count + 1) * each);
  const char **names = (const char **)(parts + count);
  for (int i = 0; parts && i < count; i++) {
    parts[i] = fields[i].array;
    names[i] = fields[i].name;
  }
  if (parts) return make_tree(scope, (tsr__operands){ parts, count }, names, site);
  tsr__error_set(&error, TSR_ENOMEM,
                 "tsr_tree: no memory for a tree; close scopes that are no longer needed");
  return refuse_tree(scope, &error, site);
}

tsr_array *tsr_tuple_at(tsr_scope *scope, tsr_array *const *arrays, int count, const char *site)
{
  if (tsr__scope_usable(scope, "tsr_tuple", site)) return tsr__make_inert(scope, site);
  if (count < 0 || (count && !arrays)) {
    tsr__fail(scope, site, TSR_EARG,
              "tsr_tuple: the count of arrays is %d%s; give the arrays and their number", count,
              arrays ? "" : ", but the list is NULL");
    return tsr__make_inert(scope, site);
  }
  TSR__CALL(scope, "tuple");
  return make_tree(scope, (tsr__operands){ arrays, count }, NULL, site);
}

/* ---- taking out ------------------------------------------------------------------------------ */

static tsr_array *refuse_item(tsr_array *tree, const tsr__error *error, const char *site)
{
  tsr_scope *scope = tsr__home(tree);
  tsr__fail_error(scope, site, error);
  return tsr__make_inert(scope, site);
}

tsr_array *tsr_item_at(tsr_array *tree, int index, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  if (!tree || tree->inert) return tree ? tree : tsr__make_of_null("tsr_item", "tree", site);
  if (!tsr_is_tree(tree))
    tsr__error_set(&error, TSR_EARG,
                   "tsr_item: %s is not a tree, expected a result of tsr_tree or tsr_tuple",
                   tsr_type_of(tree));
  else if (index < 0 || index >= tree->in_count)
    tsr__error_set(&error, TSR_EARG, "tsr_item: part %d of %s, expected 0..%d", index,
                   tsr_tree_text(tree), tree->in_count - 1);
  return error.status ? refuse_item(tree, &error, site) : tree->in[index];
}

void tsr__path_add(const tsr_array *tree, int leaf, tsr__text *out)
{
  if (!tsr_is_tree(tree)) return;
  for (int i = 0; i < tree->in_count; i++) {
    int count = tsr_leaf_count(tree->in[i]);
    if (leaf >= count) {
      leaf -= count;
      continue;
    }
    if (out->length) tsr__text_add(out, ".");
    if (tree->extras->names) tsr__text_add(out, "%s", tree->extras->names[i]);
    else tsr__text_add(out, "%d", i);
    tsr__path_add(tree->in[i], leaf, out);
    return;
  }
}

/* What a text has, in the arena; the text is freed. */
static const char *own_text(tsr_scope *scope, tsr__text *text)
{
  const char *own = tsr__arena_text(&scope->arena, tsr__text_get(text), text->length);
  tsr__text_free(text);
  return own ? own : "?";
}

const char *tsr__leaf_path(tsr_scope *scope, const tsr_array *tree, int leaf)
{
  tsr__text text;
  tsr__text_init(&text, &scope->rt->heap);
  tsr__path_add(tree, leaf, &text);
  if (!text.length) tsr__text_add(&text, "%d", leaf);
  return own_text(scope, &text);
}

const char *tsr__argument_path(tsr_scope *scope, tsr__operands in, int first, int leaf)
{
  tsr__text text;
  int i = 0;
  tsr__text_init(&text, &scope->rt->heap);
  for (int count; i < in.count && leaf >= (count = tsr_leaf_count(in.at[i])); i++) leaf -= count;
  tsr__text_add(&text, "%d", first + i);
  if (i < in.count) tsr__path_add(in.at[i], leaf, &text);
  return own_text(scope, &text);
}

/* The part that the first name of a path is; -1: none. *path is behind it. Parts of a tuple are
 * named by their numbers, "layers.0.w"; a part that has a name answers to that alone, so a name of
 * digits means no other part than its own. */
static int find_part(const tsr_array *tree, const char **path)
{
  size_t length = strcspn(*path, ".");
  const char *name = *path;
  *path += length + (name[length] == '.');
  for (int i = 0; i < tree->in_count; i++) {
    const char *own = tsr_item_name(tree, i);
    char number[16];
    snprintf(number, sizeof number, "%d", i);
    if (!own) own = number;
    if (strlen(own) == length && !strncmp(own, name, length)) return i;
  }
  return -1;
}

tsr_array *tsr_field_at(tsr_array *tree, const char *path, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  tsr_array *at = tree;
  if (!tree || tree->inert) return tree ? tree : tsr__make_of_null("tsr_field", "tree", site);
  /* An empty path goes through the loop, too, to be told like one that names nothing. */
  for (const char *rest = path ? path : ""; *rest || !path || !*path;) {
    int i = tsr_is_tree(at) ? find_part(at, &rest) : -1;
    if (i >= 0) {
      at = at->in[i];
      continue;
    }
    const char *there = tsr_is_tree(tree) ? tsr_tree_text(tree) : tsr_type_of(tree);
    tsr__error_set(&error, TSR_EARG,
                   "tsr_field: there is no part \"%s\" in %s; use a name of the tree",
                   path ? path : "", there ? there : "the tree");
    return refuse_item(tree, &error, site);
  }
  return at;
}

/* ---- leaves ---------------------------------------------------------------------------------- */

int tsr_leaf_count(const tsr_array *tree)
{
  return tsr__leaf_count(tree);
}

int tsr_tree_leaves(tsr_array *tree, tsr_array **out, int room)
{
  return tsr__leaves_write(tree, out, room);
}

/* ---- forms ----------------------------------------------------------------------------------- */

void tsr__form_of(const tsr_array *tree, tsr__text *out)
{
  if (!tsr_is_tree(tree)) {
    tsr__text_add(out, "*");
    return;
  }
  tsr__text_add(out, "(");
  for (int i = 0; i < tree->in_count; i++) {
    const char *name = tsr_item_name(tree, i);
    if (i) tsr__text_add(out, ", ");
    if (name) tsr__text_add(out, "%s: ", name);
    tsr__form_of(tree->in[i], out);
  }
  tsr__text_add(out, ")");
}

const char *tsr_tree_text(tsr_array *tree)
{
  if (!tree || tree->inert) return NULL;
  tsr__text text;
  tsr__text_init(&text, &tree->node.scope->rt->heap);
  tsr__form_of(tree, &text);
  const char *found = tsr__text_get(&text);
  char *own = text.failed ? NULL : tsr__arena_text(&tree->node.scope->arena, found, strlen(found));
  tsr__text_free(&text);
  return own;
}

/* Reading a form: where it is read, and the leaf that comes next. */
typedef struct filling {
  tsr_scope *scope;
  const char *at;
  tsr_array *const *leaf;
  const char *site;
} filling;

/* How many parts the tree has whose "(" was just read. */
/* Looked for in advance, as a tree's parts lie in one list; names have none of these signs in
 * them (good_name), and a form that comes from a file was looked at when it was read. */
static int count_parts(const char *at)
{
  int depth = 0, count = *at != ')';
  for (; depth || *at != ')'; at++) {
    if (*at == '(') depth++;
    if (*at == ')') depth--;
    if (*at == ',' && !depth) count++;
  }
  return count;
}

/*   form   (w: *, b: (x: *, y: *))        each * takes the next leaf, each ( is a tree of what
 *   leaf    0          1     2            stands until its )
 *
 * A form of one array, "*", is filled by that array itself, and not by a tree of it. */
static tsr_array *fill(filling *f)
{
  if (*f->at == '*') {
    f->at++;
    return *f->leaf++;
  }
  int count = count_parts(++f->at);
  size_t each = sizeof(tsr_array *) + sizeof(char *);
  tsr_array **parts = tsr__arena_new(&f->scope->arena, ((size_t)count + 1) * each);
  const char **names = (const char **)(parts + count);
  bool named = false;
  for (int i = 0; parts && i < count; i++) {
    /* A name is there if a colon comes before any other sign. */
    size_t length = strcspn(f->at, ":,()*");
    if (f->at[length] == ':') {
      named = true;
      names[i] = tsr__arena_text(&f->scope->arena, f->at, length);
      f->at += length + 2;
      /* What is read of the form no longer matters then: who asked gets an inert array
       * (tsr__or_no_memory). */
      if (!names[i]) return tsr__make_inert(f->scope, f->site);
    }
    parts[i] = fill(f);
    if (*f->at == ',') f->at += 2;
  }
  if (!parts) return tsr__make_inert(f->scope, f->site);
  f->at++;
  return make_tree(f->scope, (tsr__operands){ parts, count }, named ? names : NULL, f->site);
}

tsr_array *tsr__form_fill(tsr_scope *scope, const char *form, tsr_array *const *leaves,
                          const char *site)
{
  filling f = { .scope = scope, .at = form, .leaf = leaves, .site = site };
  return fill(&f);
}

tsr_array *tsr_tree_like_at(tsr_array *like, tsr_array *const *leaves, int count, const char *site)
{
  if (!like || like->inert) return like ? like : tsr__make_of_null("tsr_tree_like", "tree", site);
  tsr__error error = { .status = TSR_OK };
  tsr_scope *scope = tsr__home_of((tsr__operands){ leaves, count });
  /* An empty tree has no leaves to say where it belongs. */
  if (!scope) scope = tsr__home(like);
  const char *form = tsr_tree_text(like);
  if (!form || count != tsr_leaf_count(like)) {
    tsr__error_set(&error, form ? TSR_EARG : TSR_ENOMEM,
                   "tsr_tree_like: %d arrays for %s, expected %d", count, form ? form : "a tree",
                   tsr_leaf_count(like));
    return refuse_item(like, &error, site);
  }
  return tsr__or_no_memory(scope, tsr__form_fill(scope, form, leaves, site), "tsr_tree_like", site);
}

tsr_array *tsr__like(tsr_array *like, tsr_array *const *leaves, int count, const char *site)
{
  return tsr_is_tree(like) ? tsr_tree_like_at(like, leaves, count, site) : leaves[0];
}

/* ---- map ------------------------------------------------------------------------------------- */

typedef struct mapping {
  tsr_tree_fn *fn;
  void *user;
  int count;
  tsr_scope *scope;
  const char *site;
} mapping;

/* All trees side by side; their forms were compared before, so one says for all where leaves
 * are.
 *
 *   made | part 0 | part 1 | ..    each | part i of tree 0 | of tree 1 | ..     one block
 *
 * The result has the names of the first tree. `each` is filled anew for every part: the callback
 * may look at it while it runs, and not keep it. */
static tsr_array *map_parts(const mapping *m, tsr_array *const *trees)
{
  if (!tsr_is_tree(trees[0])) return m->fn(m->scope, trees, m->user);
  int parts = trees[0]->in_count;
  size_t room = (size_t)(parts + m->count) * sizeof(tsr_array *);
  tsr_array **made = tsr__arena_new(&m->scope->arena, room), **each = made + parts;
  if (!made) return tsr__make_inert(m->scope, m->site);
  for (int i = 0; i < parts; i++) {
    for (int k = 0; k < m->count; k++) each[k] = trees[k]->in[i];
    made[i] = map_parts(m, each);
  }
  return make_tree(m->scope, (tsr__operands){ made, parts }, trees[0]->extras->names, m->site);
}

tsr_array *tsr_tree_map_at(tsr_tree_fn *fn, void *user, tsr_array *const *trees, int count,
                           const char *site)
{
  if (!trees || count < 1) return tsr__make_of_null("tsr_tree_map", "list of trees", site);
  tsr__error error = { .status = TSR_OK };
  tsr__operands all = { trees, count };
  const char *first = NULL;
  if (!fn) {
    tsr__error_set(&error, TSR_EARG, "tsr_tree_map: the function is NULL; give a callback");
    return refuse_tree(tsr__home_of(all), &error, site);
  }
  /* Also the first against itself, which costs a comparison and spares a case. */
  for (int i = 0; i < count; i++) {
    if (trees[i] && trees[i]->inert) return trees[i];
    if (!trees[i]) {
      tsr__error_set(&error, TSR_EARG, "tsr_tree_map: tree %d is NULL; give a tree", i);
      return refuse_tree(tsr__home_of(all), &error, site);
    }
    const char *form = tsr_tree_text(trees[i]);
    if (!i) first = form;
    if (!form) return tsr__or_no_memory(tsr__home(trees[0]), NULL, "tsr_tree_map", site);
    if (strcmp(first, form) != 0) {
      tsr__error_set(&error, TSR_EARG,
                     "tsr_tree_map: tree %d is %s, expected the form of the first, %s", i, form,
                     first);
      return refuse_item(trees[0], &error, site);
    }
  }
  mapping m = { fn, user, count, tsr__home_of(all), site };
  return tsr__or_no_memory(m.scope, map_parts(&m, trees), "tsr_tree_map", site);
}

/* ---- keeping --------------------------------------------------------------------------------- */

/* What goes wrong on the way is told in `outer` too: the tree's own scope is mostly about to be
 * closed, and with it the message. */
tsr_array *tsr_tree_keep_at(tsr_scope *outer, tsr_array *tree, const char *site)
{
  tsr_scope *scope = tsr__home(tree);
  if (!tsr_is_tree(tree)) {
    TSR__CALL(outer, "tree_keep");
    return tsr_keep_at(outer, tree, site);
  }
  tsr__leaves all = { .count = 0 };
  const char *form = tsr_tree_text(tree);
  if (!form || !tsr__leaves_of(&scope->arena, tree, &all))
    return tsr__or_no_memory(scope, NULL, "tsr_tree_keep", site);
  /* All at once: leaves that share work are one program. */
  TSR__CALL(scope, "tree_keep");
  tsr_status status = tsr_eval_at(all.at, all.count, site);
  if (status) {
    tsr__fail(outer, site, status, "tsr_tree_keep: %s", tsr_message(scope));
    return tsr__make_inert(outer, site);
  }
  for (int i = 0; i < all.count; i++) {
    all.at[i] = tsr_keep_at(outer, all.at[i], site);
    if (all.at[i]->inert) return all.at[i];
  }
  return tsr__or_no_memory(outer, tsr__form_fill(outer, form, all.at, site), "tsr_tree_keep", site);
}
