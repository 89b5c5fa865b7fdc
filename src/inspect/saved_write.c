/* A function as text:
 *
 *   tessera function 1
 *   name "loss"
 *   arguments "*;(w: *, b: *);"
 *   result "*"
 *   mesh 0 "x=4,y=2"
 *   argument 0 f32[8,4]@0"(x,-)"
 *   data 3 f64[2] 0x1p+0 0x1.8p+1 "loss.c:7"
 *   region 0 {                                   what others call, before them
 *     %0 = arg(index=0) f32[8,4]
 *     %1 = const(0x1p-1) f32[]
 *     %2 = mul(%0, %1) f32[8,4] "loss.c:12"
 *     return %2
 *   }
 *
 * The last region is the function. Floats are hexadecimal, so that they are exact; a NaN has its
 * bits. Types stand everywhere, so that a reader need not infer, and what is read is compared with
 * what inference says. Attributes are those of the table, by field (saved_fields.c).
 *
 * Invariant: the same function gives the same text, byte for byte: numbers of nodes, regions and
 * meshes follow from the order in which they are met, and nothing of this process is in it. */
#include "inspect/saved_text.h"

#include <math.h>
#include <stdio.h>

/* Errors do not end the writing at once: the first is kept, and the text is thrown away by who
 * asked. */
typedef struct writer {
  tsr__text *out;
  tsr__error *error;
  const tsr_mesh *meshes[TSR__TEXT_MESHES];
  int mesh_count;
  const tsr__region *regions[TSR__TEXT_REGIONS]; /* in the order in which they are written */
  int region_count;
} writer;

/* ---- words ----------------------------------------------------------------------------------- */

/* UTF-8 goes through as it is. What would end the text or its line is \xHH, which a reader takes
 * for any byte but zero. */
static void put_quoted(tsr__text *out, const char *text)
{
  tsr__text_put(out, "\"", 1);
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\' || c < 0x20 || c == 0x7F) tsr__text_add(out, "\\x%02x", c);
    else tsr__text_put(out, text, 1);
  }
  tsr__text_put(out, "\"", 1);
}

/* Exactly: the sign, a digit, so many hexadecimal ones as it takes, and the power of two.
 *
 *   1.5       0 01111111111 1000...   0x1.8p+0
 *   2^-1074   0 00000000000 0...01    0x0.0000000000001p-1022     denormals have no leading 1
 *
 * Not by printf's %a, whose form differs between libraries and whose point is the locale's.
 * Narrower floats are exact as f64 and come here, too; only their NaNs are written by who has their
 * bits. */
static void put_float(tsr__text *out, double value)
{
  uint64_t bits;
  char digits[16];
  memcpy(&bits, &value, sizeof bits);
  const char *sign = bits >> 63 ? "-" : "";
  int power = (int)(bits >> 52 & 0x7FF);
  uint64_t fraction = bits & UINT64_C(0xFFFFFFFFFFFFF);
  if (isnan(value)) tsr__text_add(out, "nan:%016llx", (unsigned long long)bits);
  else if (isinf(value)) tsr__text_add(out, "%sinf", sign);
  else if (!power && !fraction) tsr__text_add(out, "%s0x0p+0", sign);
  else {
    int length = snprintf(digits, sizeof digits, "%013llx", (unsigned long long)fraction);
    while (length && digits[length - 1] == '0') length--;
    tsr__text_add(out, "%s0x%d%s%.*sp%+d", sign, power != 0, length ? "." : "", length, digits,
                  power ? power - 1023 : -1022);
  }
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* What a reader has no room for is not written. */
static void check_most(writer *w, int count, int most, const char *what)
{
  if (count > most)
    tsr__error_set(w->error, TSR_EUNSUPPORTED,
                   "the function has %d %s, expected at most %d; split the function", count, what,
                   most);
}

/* The trees in each other where a form is deepest; no other character of it is a bracket. */
static int depth_of(const char *form)
{
  int depth = 0, most = 0;
  for (; *form; form++) {
    depth += (*form == '(') - (*form == ')');
    if (depth > most) most = depth;
  }
  return most;
}

/* By how much there is first, for the words; then as a reader will, so that the two cannot
 * differ. */
static void check_form(writer *w, const char *form)
{
  check_most(w, depth_of(form), TSR__TEXT_DEPTH, "nested trees");
  while (*form && !w->error->status) {
    if (tsr__form_count(&form) < 0)
      tsr__error_set(w->error, TSR_EUNSUPPORTED,
                     "the form \"%.100s\" cannot be written; use other names", form);
    if (*form == ';') form++;
  }
}

/* ---- types ----------------------------------------------------------------------------------- */

/* Whether the axes say all of a mesh: its devices are the first ones, in order. The text has axes
 * and no devices, so a mesh of others would be read as another one. */
static bool is_plain(const tsr_mesh *mesh)
{
  bool plain = true;
  for (int p = 0; p < tsr_mesh_device_count(mesh) && plain; p++)
    plain = tsr_mesh_is_abstract(mesh) || tsr_mesh_device(mesh, p) == p;
  return plain;
}

/* By pointer: meshes of equal content are one object. One past the end where there are too many,
 * which is an error then and never looked up. */
static int mesh_number(writer *w, const tsr_mesh *mesh)
{
  int m = 0;
  while (m < w->mesh_count && w->meshes[m] != mesh) m++;
  if (!is_plain(mesh))
    tsr__error_set(w->error, TSR_EUNSUPPORTED,
                   "the mesh %s does not have the first devices in their order; only meshes of "
                   "tsr_mesh_make can be saved",
                   tsr_mesh_text(mesh));
  if (m == w->mesh_count && m < TSR__TEXT_MESHES) w->meshes[w->mesh_count++] = mesh;
  if (m == TSR__TEXT_MESHES)
    tsr__error_set(w->error, TSR_EUNSUPPORTED, "the function has more than %d meshes; use fewer",
                   TSR__TEXT_MESHES);
  return m;
}

static void put_type(writer *w, int dtype, const tsr__result *type, const tsr_sharding *at)
{
  char spec[512];
  tsr__text_add(w->out, " %s[", tsr_dtype_name((tsr_dtype)dtype));
  for (int d = 0; d < type->rank; d++)
    tsr__text_add(w->out, "%s%lld", d ? "," : "", (long long)type->dims[d]);
  tsr__text_add(w->out, "]");
  if (!at || !at->mesh) return;
  int length = tsr_sharding_text(at, type->rank, spec, sizeof spec);
  /* Read back before it is trusted: what the notation cannot say would otherwise be lost without a
   * word. */
  tsr_sharding again = tsr_on_with(at->mesh, spec, NULL), canon = tsr__sharding_canon(at);
  if (length < (int)sizeof spec) again = tsr__sharding_canon(&again);
  if (length >= (int)sizeof spec || !tsr__sharding_equal(&again, &canon))
    tsr__error_set(w->error, TSR_EUNSUPPORTED, "the sharding %s cannot be written as a text", spec);
  tsr__text_add(w->out, "@%d", mesh_number(w, at->mesh));
  put_quoted(w->out, spec);
}

static tsr__result type_of(const tsr__gnode *g)
{
  tsr__result type = { .dtype = g->dtype, .rank = g->rank };
  memcpy(type.dims, g->dims, sizeof type.dims);
  return type;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Equal regions are one in the text, as they are in programs: a loop that is called twice is
 * written once. Past the end: it is new. */
static int region_number(const writer *w, const tsr__region *region)
{
  int r = 0;
  while (r < w->region_count &&
         !(w->regions[r] == region || tsr__region_same(w->regions[r], region)))
    r++;
  return r;
}

/* The items of a field that a node has. */
static int items_of(const tsr__field *field, const tsr__gnode *g)
{
  return field->many ? field->many
                     : (int)((g->attr_bytes - field->offset) / tsr__field_item(field));
}

/* One item of a list, or the field itself. */
static void put_item(writer *w, const tsr__field *field, const void *attr, int i)
{
  if (i) tsr__text_add(w->out, ",");
  if (field->kind == TSR__FIELD_NAME) put_quoted(w->out, tsr__field_name(field, attr, i));
  else tsr__text_add(w->out, "%lld", (long long)tsr__field_get(field, attr, i));
}

/* "key=5", "key=[0,2]" without zeros at the end but for those of a table; nothing where all are
 * zero. */
static void put_field(writer *w, const tsr__field *field, const tsr__program *program,
                      const tsr__gnode *g, const char **comma)
{
  const void *attr = tsr__attr_of(program, g);
  int count = items_of(field, g);
  bool always = field->kind == TSR__FIELD_INDEX || field->kind == TSR__FIELD_NAME || !field->many;
  check_most(w, count, TSR__TEXT_MANY, "picks");
  while (count && !always && !tsr__field_get(field, attr, count - 1)) count--;
  if (!count) return;
  tsr__text_add(w->out, "%s%s=", *comma, field->name);
  *comma = ", ";
  if (field->many != 1) tsr__text_add(w->out, "[");
  for (int i = 0; i < count; i++) put_item(w, field, attr, i);
  if (field->many != 1) tsr__text_add(w->out, "]");
}

static void put_whole_list(writer *w, const char *key, const tsr__num *numbers, int count)
{
  tsr__text_add(w->out, "%s=[", key);
  for (int i = 0; i < count; i++)
    tsr__text_add(w->out, "%s%lld", i ? "," : "", (long long)numbers[i].i);
  tsr__text_add(w->out, "]");
}

/* Whether the numbers of a node are others than those that its regions were made with. A call that
 * was made again with other numbers (a replay, a step count) has some; usually they repeat what
 * stands in the regions and are left out. Compared as bits, so -0 is another number than 0. */
static bool has_own_numbers(const tsr__program *program, const tsr__gnode *g)
{
  int at = g->param;
  for (int i = 0; i < g->region_count; i++) {
    const tsr__program *region = &tsr__region_in(program, g, i)->program;
    for (int k = 0; k < region->param_count; k++)
      if (program->params[at++].i != region->params[k].i) return true;
  }
  /* One more than the regions have: the number of steps of a loop. */
  return at < g->param + g->param_count;
}

/* An operand that is left out, such as a mask that nobody gave, is "-". */
static void put_inside(writer *w, const tsr__program *program, const tsr__gnode *g)
{
  const char *comma = "";
  for (int i = 0; i < g->in_count; i++, comma = ", ") {
    int o = tsr__in(program, g, i);
    if (o < 0) tsr__text_add(w->out, "%s-", comma);
    else tsr__text_add(w->out, "%s%%%d", comma, o);
  }
  if (tsr__is_number(g)) {
    tsr__num number = program->params[g->param];
    if (tsr__dtype_is_real((tsr_dtype)g->dtype)) put_float(w->out, number.f);
    else tsr__text_add(w->out, "%lld", (long long)number.i);
    return;
  }
  for (const tsr__field *f = tsr__fields_of(tsr__ops[g->op].attr); f->name; f++)
    put_field(w, f, program, g, &comma);
  if (g->param >= 0 && has_own_numbers(program, g)) {
    tsr__text_add(w->out, "%s", comma);
    check_most(w, g->param_count, TSR__TEXT_MANY, "numbers");
    put_whole_list(w, "numbers", program->params + g->param, g->param_count);
    comma = ", ";
  }
  if (g->region_count) tsr__text_add(w->out, "%sregions=[", comma);
  for (int i = 0; i < g->region_count; i++)
    tsr__text_add(w->out, "%s%d", i ? "," : "", region_number(w, tsr__region_in(program, g, i)));
  if (g->region_count) tsr__text_add(w->out, "]");
}

static void put_node(writer *w, const tsr__program *program, int n)
{
  const tsr__gnode *g = &program->nodes[n];
  const char *site = program->sites ? program->sites[n] : NULL, *why = tsr__unwritable(program, n);
  if (why)
    tsr__error_set(w->error, TSR_EUNSUPPORTED,
                   "%s at %s cannot be saved: the operation belongs to this process alone; leave "
                   "it out of the function",
                   why, site ? site : "an unknown line");
  if (why) return;
  check_most(w, g->in_count, TSR__TEXT_MANY, "operands");
  check_most(w, g->result_count, TSR__TEXT_MANY, "results");
  tsr__text_add(w->out, "  %%%d", n);
  /* ":3" tells a node of three results, whose types follow; a node whose list has one says ":1", as
   * its user is a RESULT and not the node. */
  if (g->result_count) tsr__text_add(w->out, ":%d", g->result_count);
  tsr__text_add(w->out, " = %s(", tsr__ops[g->op].name);
  put_inside(w, program, g);
  tsr__text_add(w->out, ")");
  tsr__result own = type_of(g);
  if (!g->result_count) put_type(w, g->dtype, &own, &program->shardings[g->sharding]);
  for (int i = 0; i < g->result_count; i++) {
    const tsr__result *r = &program->results[g->first_result + i];
    if (i) tsr__text_add(w->out, ",");
    put_type(w, r->dtype, r, &program->shardings[r->sharding]);
  }
  if (site) tsr__text_add(w->out, " ");
  if (site) put_quoted(w->out, site);
  tsr__text_add(w->out, "\n");
}

/* A region behind those that its nodes have; each once. */
static void put_region(writer *w, const tsr__region *region)
{
  const tsr__program *program = &region->program;
  if (w->error->status || region_number(w, region) < w->region_count) return;
  for (int n = 0; n < program->node_count; n++)
    for (int i = 0; i < program->nodes[n].region_count; i++)
      /* Inner ones first: a reader knows every region before somebody calls it. */
      put_region(w, tsr__region_in(program, &program->nodes[n], i));
  if (w->region_count == TSR__TEXT_REGIONS) {
    tsr__error_set(w->error, TSR_EUNSUPPORTED,
                   "the function has more than %d regions; split the function", TSR__TEXT_REGIONS);
    return;
  }
  tsr__text_add(w->out, "region %d {\n", w->region_count);
  for (int n = 0; n < program->node_count && !w->error->status; n++) put_node(w, program, n);
  check_most(w, region->result_count, TSR__TEXT_MANY, "results");
  tsr__text_add(w->out, "  return");
  for (int i = 0; i < region->result_count; i++)
    tsr__text_add(w->out, "%s%%%d", i ? ", " : " ", region->results[i]);
  tsr__text_add(w->out, "\n}\n");
  w->regions[w->region_count++] = region;
}

/* ---- data ------------------------------------------------------------------------------------ */

static const char fetch_name[] = "an array from outside";

/* NaNs keep their payload, in as many digits as the dtype has: as f64 a signalling one might become
 * quiet on the way. */
static void put_element(tsr__text *out, tsr_dtype dtype, const void *data, int64_t i)
{
  size_t size = tsr_dtype_size(dtype);
  uint64_t bits = 0;
  if (!tsr__dtype_is_real(dtype)) {
    int64_t whole = tsr__dtype_get_whole(dtype, data, i);
    if (dtype == TSR_U64) tsr__text_add(out, " %llu", (unsigned long long)whole);
    else tsr__text_add(out, " %lld", (long long)whole);
    return;
  }
  double value = tsr__dtype_get_real(dtype, data, i);
  tsr__text_add(out, " ");
  if (!isnan(value)) {
    put_float(out, value);
    return;
  }
  memcpy(&bits, (const char *)data + (size_t)i * size, size);
  tsr__text_add(out, "nan:%0*llx", (int)(2 * size), (unsigned long long)bits);
}

/* A point where all processes meet (execute.h): a function that took arrays from outside is saved
 * by all of them or by none. So who fails before tells those who wait. */
static void *fetch_data(writer *w, const tsr__saved *saved, int i, size_t bytes)
{
  const tsr__value *value = saved->data[i];
  void *data = w->error->status ? NULL : tsr__new_raw(&value->rt->heap, bytes);
  if (data && !tsr__value_fetch(value, data, fetch_name, w->error)) return data;
  if (data) {
    tsr__del(&value->rt->heap, data, bytes);
    return NULL;
  }
  tsr__error_set(w->error, TSR_ENOMEM, "no memory for the text; close some scopes");
  tsr__refuse_fetches(saved->data + i, saved->data_count - i,
                      &(tsr__refusal){ .status = w->error->status, .message = w->error->text });
  return NULL;
}

static void put_data(writer *w, const tsr__saved *saved, int i)
{
  const tsr__value *value = saved->data[i];
  tsr__heap *heap = &value->rt->heap;
  tsr_dtype dtype = (tsr_dtype)value->dtype;
  tsr__result type = { .rank = (uint8_t)value->shape.rank };
  memcpy(type.dims, value->shape.dims, sizeof type.dims);
  int64_t count = tsr__shape_count(&value->shape);
  /* The rows of a device are the run's then, and the text would have to say who has how many. */
  if (value->rows)
    tsr__error_set(w->error, TSR_EUNSUPPORTED,
                   "an array from outside with uneven rows after a filter cannot be saved; use "
                   "tsr_rebalance first");
  size_t bytes = (size_t)count * tsr_dtype_size(dtype) + 1;
  void *data = fetch_data(w, saved, i, bytes);
  if (!data) return;
  tsr__text_add(w->out, "data %d", saved->argument_count + i);
  put_type(w, value->dtype, &type, &saved->places[saved->argument_count + i]);
  for (int64_t e = 0; e < count; e++) put_element(w->out, dtype, data, e);
  if (saved->data_sites[i]) tsr__text_add(w->out, " ");
  if (saved->data_sites[i]) put_quoted(w->out, saved->data_sites[i]);
  tsr__text_add(w->out, "\n");
  tsr__del(heap, data, bytes);
}

/* ---- all of it -------------------------------------------------------------------------------
 * An abstract mesh says so, or a reader would look for as many devices; one that is abstract for
 * want of devices here is none of the text's. */
static void put_head(const tsr__saved *saved, const writer *w, tsr__text *out)
{
  tsr__text_add(out, "tessera function %d\nname ", TSR__TEXT_VERSION);
  put_quoted(out, saved->name);
  tsr__text_add(out, "\narguments ");
  put_quoted(out, saved->arguments);
  tsr__text_add(out, "\nresult ");
  put_quoted(out, saved->result);
  tsr__text_add(out, "\n");
  for (int m = 0; m < w->mesh_count; m++) {
    bool abstract = tsr_mesh_is_abstract(w->meshes[m]) && !w->meshes[m]->missing;
    tsr__text_add(out, "mesh %d %s", m, abstract ? "abstract " : "");
    put_quoted(out, tsr_mesh_text(w->meshes[m]));
    tsr__text_add(out, "\n");
  }
}

/* The writer is the heap's, as its list of regions is too large for a small stack. */
tsr_status tsr__saved_write(const tsr__saved *saved, tsr__text *out, tsr__error *error)
{
  tsr__heap *heap = saved->region->program.heap;
  tsr__text body; /* first, as it says which meshes there are */
  tsr__text_init(&body, heap);
  writer *w = tsr__new(heap, sizeof *w);
  if (!w) return tsr__error_set(error, TSR_ENOMEM, "no memory for the text; close some scopes");
  w->out = &body;
  w->error = error;
  check_most(w, saved->argument_count, TSR__TEXT_MANY, "arrays as arguments");
  check_most(w, saved->data_count, TSR__TEXT_MANY, "arrays from outside");
  for (int i = 0; i < saved->argument_count && !error->status; i++) {
    tsr__text_add(&body, "argument %d", i);
    put_type(w, saved->types[i].dtype, &saved->types[i], &saved->places[i]);
    tsr__text_add(&body, "\n");
  }
  /* The first also where something failed before it, for the others' sake. */
  for (int i = 0; i < saved->data_count && (!i || !error->status); i++) put_data(w, saved, i);
  put_region(w, saved->region);
  /* Last: too many arrays in a form have been told of as such by now. */
  check_form(w, saved->arguments);
  check_form(w, saved->result);
  put_head(saved, w, out);
  if (body.length) tsr__text_put(out, body.data, body.length);
  if ((body.failed || out->failed) && !error->status)
    tsr__error_set(error, TSR_ENOMEM, "no memory for the text; close some scopes");
  tsr__text_free(&body);
  tsr__del(heap, w, sizeof *w);
  return error->status;
}
