/* What a loaded function is, told from its text without tracing it.
 *
 *   layer: 5 operations in 2 bodies, 1 constant of 256 bytes
 *   mesh x=2,y=2
 *   argument 0.x       f64[8,4]@(x,-)
 *   argument 0.more.w  f64[4,4]
 *   result[0]          f64[]
 *   constant 0         f64[8,4]@(x,-), 256 bytes, layer.c:7
 *
 * Names of leaves are the ways to them through the trees.
 *
 * The forms were checked when the text was read (check_forms), so a walk over one looks for no
 * errors. */
#include <stdio.h>

#include "inspect/saved_text.h"
#include "tessera/saved.h"

enum { MOST_WAY = 200 }; /* bytes of a leaf's name; longer ones are cut */

/* Lines whose types stand below each other: first without `out`, to find how wide names are. */
typedef struct listing {
  const tsr__saved *saved;
  tsr__text *out;
  int width;
  int leaf; /* the next one of a form */
  void (*put_type)(struct listing *l, int leaf);
} listing;

static void put_line(listing *l, const char *name)
{
  int length = (int)strlen(name);
  if (length > l->width) l->width = length;
  if (l->out) tsr__text_add(l->out, "%-*s  ", l->width, name);
}

static void put_type(listing *l, const tsr__result *type, const tsr_sharding *place)
{
  tsr_shape shape = { .rank = type->rank };
  memcpy(shape.dims, type->dims, sizeof shape.dims);
  if (l->out) tsr__type_add(l->out, (tsr_dtype)type->dtype, &shape, place);
}

/* A form from *at on: a line for each leaf, whose name is `way` and what the trees add to it.
 *
 *   way   "argument 0"  (x: *, more: (w: *))        argument 0.x     argument 0.more.w
 *         "result"      (*, *)                      result[0]        result[1]
 *
 * One buffer for all depths: what a level adds behind `length` is cut off again before its next
 * part. snprintf tells how long the name would be, which is more than there is room for where it
 * was cut. */
static void put_form(listing *l, const char **at, char way[MOST_WAY], size_t length)
{
  if (**at == '*') {
    ++*at;
    put_line(l, way);
    l->put_type(l, l->leaf++);
    if (l->out) tsr__text_add(l->out, "\n");
    return;
  }
  ++*at;
  for (int i = 0; **at && **at != ')'; i++) {
    size_t name = strcspn(*at, ":,()*"), room = MOST_WAY - length;
    bool named = (*at)[name] == ':';
    int more = named ? snprintf(way + length, room, ".%.*s", (int)name, *at)
                     : snprintf(way + length, room, "[%d]", i);
    /* Behind "name: ". */
    if (named) *at += name + 2;
    put_form(l, at, way, length + (size_t)more < MOST_WAY ? length + (size_t)more : MOST_WAY - 1);
    way[length] = 0;
    if (**at == ',') *at += 2;
  }
  ++*at;
}

static void argument_type(listing *l, int leaf)
{
  put_type(l, &l->saved->types[leaf], &l->saved->places[leaf]);
}

/* As the node of the result was asked to lie; the planner chooses else. Of a region there is no
 * plan, so where a result really lies is not known here. */
static void result_type(listing *l, int leaf)
{
  const tsr__region *region = l->saved->region;
  const tsr__program *program = &region->program;
  const tsr__gnode *node = &program->nodes[region->results[leaf]];
  tsr__result type = { .dtype = node->dtype, .rank = node->rank };
  memcpy(type.dims, node->dims, sizeof type.dims);
  put_type(l, &type, &program->shardings[node->sharding]);
}

/* As the values would take in memory with a byte a bool, not as the text has them, nor as devices
 * would, which pack bools. */
static int64_t constant_bytes(const tsr__saved *saved, int i)
{
  const tsr__value *value = saved->data[i];
  return tsr__shape_count(&value->shape) * (int64_t)tsr_dtype_size((tsr_dtype)value->dtype);
}

static void put_constants(listing *l)
{
  const tsr__saved *s = l->saved;
  char name[32];
  for (int i = 0; i < s->data_count; i++) {
    snprintf(name, sizeof name, "constant %d", i);
    put_line(l, name);
    argument_type(l, s->argument_count + i);
    if (l->out)
      tsr__text_add(l->out, ", %lld bytes%s%s\n", (long long)constant_bytes(s, i),
                    s->data_sites[i] ? ", " : "", s->data_sites[i] ? s->data_sites[i] : "");
  }
}

static void put_all(listing *l)
{
  char way[MOST_WAY];
  const char *at = l->saved->arguments;
  l->leaf = 0;
  l->put_type = argument_type;
  for (int i = 0; *at; i++, at++) { /* each ends in ';' */
    int length = snprintf(way, sizeof way, "argument %d", i);
    put_form(l, &at, way, (size_t)length);
  }
  l->leaf = 0;
  l->put_type = result_type;
  at = l->saved->result;
  put_form(l, &at, memcpy(way, "result", sizeof "result"), strlen("result"));
  put_constants(l);
}

/* Operations and bodies were counted when the text was read, each body once however often it is
 * called. */
static void put_head(const tsr__saved *s, tsr__text *out)
{
  int64_t bytes = 0;
  for (int i = 0; i < s->data_count; i++) bytes += constant_bytes(s, i);
  tsr__text_add(out, "%s: %d operation%s in %d bod%s", s->name, s->operations,
                s->operations == 1 ? "" : "s", s->bodies, s->bodies == 1 ? "y" : "ies");
  if (s->data_count)
    tsr__text_add(out, ", %d constant%s of %lld bytes", s->data_count,
                  s->data_count == 1 ? "" : "s", (long long)bytes);
  tsr__text_add(out, "\n");
  for (int i = 0; i < s->mesh_count; i++)
    tsr__text_add(out, "mesh %s\n", tsr_mesh_text(s->meshes[i]));
}

tsr_status tsr_function_about_into_at(tsr_function *f, const char **out, const char *site)
{
  static const char call[] = "tsr_function_about_into";
  if (!f) return tsr__fail_null(call, "function", site);
  tsr_scope *scope = f->node.scope;
  const tsr__saved *saved = tsr__saved_of(f, call, site);
  if (!out)
    return tsr__fail(scope, site, TSR_EARG,
                     "%s: the pointer for the text is NULL; give the address of one", call);
  if (f->inert) return tsr__fail_inert(tsr__scope_here(scope), scope, site, call, "function");
  if (!saved) return TSR_EARG;
  tsr__text text;
  tsr__text_init(&text, &scope->rt->heap);
  listing l = { .saved = saved };
  put_all(&l);
  put_head(saved, &text);
  /* The second walk, in which all names are as wide as the widest that the first one met. */
  l.out = &text;
  put_all(&l);
  const char *own = NULL;
  if (!text.failed) own = tsr__arena_text(&scope->arena, tsr__text_get(&text), text.length);
  tsr__text_free(&text);
  if (!own)
    return tsr__fail(scope, site, TSR_ENOMEM, "%s: no memory for the text; close some scopes",
                     call);
  *out = own;
  return TSR_OK;
}

/* Counts on beyond `room`, as snprintf does, so that a caller can ask how many there are with
 * NULL. */
int tsr_function_arguments_at(tsr_function *f, tsr_array **out, int room, const char *site)
{
  if (!f) return 0;
  tsr_scope *scope = f->node.scope;
  const tsr__saved *s = tsr__saved_of(f, "tsr_function_arguments", site);
  if (!s) return 0;
  size_t leaves = (size_t)s->argument_count + 1;
  tsr_array **leaf = tsr__arena_new(&scope->arena, leaves * sizeof *leaf);
  int count = 0, at = 0;
  for (int i = 0; leaf && i < s->argument_count; i++) {
    tsr_shape shape = { .rank = s->types[i].rank };
    memcpy(shape.dims, s->types[i].dims, sizeof shape.dims);
    leaf[i] =
        tsr__make_leaf(scope, (tsr_dtype)s->types[i].dtype, &shape, &s->places[i], NULL, site);
  }
  if (!leaf) tsr__or_no_memory(scope, NULL, "tsr_function_arguments", site);
  for (const char *form = s->arguments; leaf && *form; form = strchr(form, ';') + 1, count++) {
    tsr_array *made = tsr__form_fill(scope, form, leaf + at, site);
    at += tsr_leaf_count(made);
    if (out && count < room)
      out[count] = tsr__or_no_memory(scope, made, "tsr_function_arguments", site);
  }
  return count;
}
