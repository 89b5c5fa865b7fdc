/* JSON lines, an object a line, read by position.
 *
 *   | {"text": "a", "y": 1} \n | \n | {"y": [2]} \n |
 *   m0                              m1             m2        blank lines are no records
 *
 * The walk finds where lines begin and looks no further; an object is parsed when its record is
 * asked for, by the grammar of the frames' reader, straight into the cells. So a file may be larger
 * than memory, and a bad line is a bad record: it has its own row, byte and cause.
 *
 * Invariant: what is no JSON is refused before any of it counts, except that cells may have been
 * written by then, as those of any record that cannot be read. */
#include "io/json/json_inner.h"
#include "io/text/dict.h"
#include "pipeline/record_files.h"
#include "tessera/sources.h"

#include <math.h>

typedef struct json_source {
  tsr_source source;
  tsr__record_files files; /* `longest`: bytes of a line with what is up to the next one */
  tsr__decimal *decimal;
  bool defaults, cut;
  bool ragged[TSR__MAX_COLUMNS]; /* by column; its length is in the next */
} json_source;

/* ---- the index ------------------------------------------------------------------------------- */

/* The line that a walk is in. */
typedef struct json_walk {
  int64_t start; /* where it begins */
  int64_t mark;  /* where the record before it begins; -1: there is none */
  bool solid;    /* some byte of it is no blank */
  /* The window that is seen. */
  int64_t at, have;
} json_walk;

static bool is_blank(unsigned char c)
{
  return c == ' ' || c == '\t' || c == '\r';
}

/* The line ends, and the next one begins at `next`: a record, unless it is blank. */
static tsr_status end_line(tsr__file_walk *w, json_walk *l, int64_t next, tsr__error *error)
{
  if (l->solid) {
    if (l->mark >= 0 && l->start - l->mark > w->longest) w->longest = l->start - l->mark;
    if (tsr__walk_mark(w, l->start, error)) return error->status;
    l->mark = l->start;
    w->records++;
  }
  l->start = next;
  l->solid = false;
  return TSR_OK;
}

/* All ends of lines in a window; lines may lie across windows. */
static tsr_status walk_window(tsr__file_walk *w, json_walk *l, const unsigned char *window,
                              tsr__error *error)
{
  const unsigned char *from = window, *end = window + l->have;
  while (from < end) {
    const unsigned char *found = memchr(from, '\n', (size_t)(end - from));
    const unsigned char *stop = found ? found : end;
    while (!l->solid && from < stop) l->solid = !is_blank(*from++);
    if (!found) break;
    if (end_line(w, l, l->at + (found - window) + 1, error)) return error->status;
    from = found + 1;
  }
  return TSR_OK;
}

static tsr_status walk_json(tsr__file_walk *w, tsr__error *error)
{
  json_walk l = { .mark = -1 };
  int64_t size = w->file->size;
  if (size >= 3) {
    const unsigned char *first = tsr__walk_look(w, 0, 3, NULL, error);
    if (!first) return error->status;
    if (!memcmp(first, "\xEF\xBB\xBF", 3)) l.at = l.start = 3;
  }
  /* As far as the file went when it was opened: lines that are added meanwhile are no records. */
  for (; l.at < size; l.at += l.have) {
    const unsigned char *window = tsr__walk_look(w, l.at, 1, &l.have, error);
    if (!window) return error->status;
    if (l.have > size - l.at) l.have = size - l.at; /* the file grew meanwhile */
    if (walk_window(w, &l, window, error)) return error->status;
  }
  if (end_line(w, &l, size, error)) return error->status;
  if (l.mark >= 0 && size - l.mark > w->longest) w->longest = size - l.mark;
  return tsr__walk_mark(w, size, error);
}

static const tsr__file_format json_format = {
  "json", walk_json, tsr__record_places_fit, TSR__PACKED_BY_HEAD, NULL, "JSON lines"
};

/* ---- values ---------------------------------------------------------------------------------- */

/* A field of a record that is being filled: elements come in C order. */
typedef struct filling {
  const json_source *j;
  const tsr__column *column;
  bool ragged;
  char *to;       /* NULL: only counted */
  char *spare;    /* as many bytes as the line has */
  int64_t filled; /* elements */
} filling;

/* What stands in the place of a value, cut off. */
static tsr_status refuse(const filling *f, const tsr__json_token *value, const char *expected,
                         tsr__error *error)
{
  int some = value->length < 40 ? (int)value->length : 40;
  return tsr__error_set(error, TSR_EVALUE, "field %.80s has '%.*s%s', expected %s", f->column->name,
                        some, value->at, some < (int)value->length ? "..." : "", expected);
}

static tsr_status put_bool(filling *f, const tsr__json_token *value, char *to, tsr__error *error)
{
  if (value->kind != TSR__JSON_IS_TRUE && value->kind != TSR__JSON_IS_FALSE)
    return refuse(f, value, "true or false", error);
  *to = value->kind == TSR__JSON_IS_TRUE;
  return TSR_OK;
}

static tsr_status put_real(filling *f, const tsr__json_token *value, char *to, tsr__error *error)
{
  tsr_dtype dtype = f->column->dtype;
  int64_t whole;
  double real;
  if (value->kind != TSR__JSON_IS_NUMBER) return refuse(f, value, "a number", error);
  tsr__decimal_read(f->j->decimal, value->at, value->length, &whole, &real);
  /* From the text, so that it is rounded once. */
  real = tsr__decimal_round(f->j->decimal, dtype, value->at, value->length, real);
  if (!isfinite(real)) return refuse(f, value, "a number that its dtype holds", error);
  tsr__dtype_put_real(dtype, to, 0, real);
  return TSR_OK;
}

static tsr_status put_whole(filling *f, const tsr__json_token *value, char *to, tsr__error *error)
{
  tsr_dtype dtype = f->column->dtype;
  int64_t whole = 0;
  uint64_t natural;
  double real;
  tsr__number kind = TSR__NUMBER_NONE;
  if (value->kind == TSR__JSON_IS_NUMBER && value->whole)
    kind = tsr__decimal_read(f->j->decimal, value->at, value->length, &whole, &real);
  bool fits = kind == TSR__NUMBER_INT && whole >= tsr__dtype_least(dtype) &&
              (whole < 0 || (uint64_t)whole <= tsr__dtype_most(dtype));
  if (kind == TSR__NUMBER_BIG && dtype == TSR_U64) {
    fits = tsr__decimal_natural(value->at, value->length, &natural);
    whole = fits ? (int64_t)natural : 0;
  }
  if (!fits) return refuse(f, value, "a whole number that its dtype holds", error);
  tsr__dtype_put_whole(dtype, to, 0, whole);
  return TSR_OK;
}

static tsr_status put_element(filling *f, const tsr__json_token *value, tsr__error *error)
{
  /* Fields of records need not be aligned. */
  _Alignas(8) char element[8];
  tsr_dtype dtype = f->column->dtype;
  size_t size = tsr_dtype_size(dtype);
  tsr_status status = dtype == TSR_BOOL           ? put_bool(f, value, element, error)
                      : tsr__dtype_is_real(dtype) ? put_real(f, value, element, error)
                                                  : put_whole(f, value, element, error);
  if (!status && f->to) memcpy(f->to + (size_t)f->filled * size, element, size);
  f->filled++;
  return status;
}

/* How many elements a list of `count` gives to a dim; -1 with the error set. */
static int64_t check_count(const filling *f, int dim, int64_t count, tsr__error *error)
{
  int64_t most = f->column->shape.dims[dim];
  bool any = f->ragged && !dim;
  if (count == most || (any && count < most)) return count;
  if (any && f->j->cut) return most;
  tsr__error_set(error, TSR_EVALUE, "field %.80s has %lld values%s, expected %lld%s",
                 f->column->name, (long long)count, dim ? " in a list" : "", (long long)most,
                 any ? " at most; set .cut to keep the first values" : "");
  return -1;
}

/* The bytes of a text, as the elements of the last dim. */
static tsr_status put_text(filling *f, const tsr__json_token *value, int dim, tsr__error *error)
{
  const char *text = value->at;
  size_t length = value->length;
  if (value->escaped) {
    length = tsr__json_unescape(value, f->spare);
    text = f->spare;
  }
  int64_t some = check_count(f, dim, (int64_t)length, error);
  if (some < 0) return error->status;
  if (f->to) memcpy(f->to + f->filled, text, (size_t)some);
  f->filled += some;
  return TSR_OK;
}

/* A value of the dims from `dim` on: lists of lists down to elements, texts for lists of bytes. No
 * deeper than arrays have dims. */
static tsr_status put_value(filling *f, const tsr__json_token *value, int dim, tsr__error *error)
{
  const tsr_shape *shape = &f->column->shape;
  if (dim == shape->rank) return put_element(f, value, error);
  if (value->kind == TSR__JSON_IS_TEXT && f->column->dtype == TSR_U8 && dim == shape->rank - 1)
    return put_text(f, value, dim, error);
  if (value->kind != TSR__JSON_IS_NESTED || *value->at != '[')
    return refuse(f, value, f->column->dtype == TSR_U8 ? "a list or a text" : "a list", error);
  tsr__json_cursor cursor = { .at = value->at, .end = value->at + value->length };
  tsr__json_token item;
  int64_t count = 0;
  /* What is too much is counted and not kept: there is room for so many. */
  while (!error->status && tsr__json_item(&cursor, &item) == 1)
    if (count++ < shape->dims[dim]) put_value(f, &item, dim + 1, error);
  if (!error->status) check_count(f, dim, count, error);
  return error->status;
}

/* ---- records --------------------------------------------------------------------------------- */

static const json_source *json_of(const tsr__record_row *r)
{
  return (const json_source *)r->source;
}

/* Somebody may ask for the length of a ragged field alone. */
static bool is_wanted(const tsr__record_row *r, int c)
{
  return r->ask->cells[c].data || (json_of(r)->ragged[c] && r->ask->cells[c + 1].data);
}

/* NULL value: nothing is there. */
static tsr_status put_field(const tsr__record_row *r, int c, const tsr__json_token *value,
                            tsr__error *error)
{
  const tsr_source *source = r->source;
  const tsr__column *column = &source->columns[c];
  bool ragged = json_of(r)->ragged[c];
  filling f = { .j = json_of(r), .column = column, .ragged = ragged, .spare = r->spare };
  if (r->ask->cells[c].data) f.to = tsr__cell_of(r->ask, c, r->i);
  if (value && put_value(&f, value, 0, error)) return error->status;
  if (ragged)
    tsr__ragged_end(source, r->ask, c, r->i, f.filled * (int64_t)tsr_dtype_size(column->dtype));
  else if (!value) memset(f.to, 0, column->bytes);
  return TSR_OK;
}

/* The members that fields are of, by column. */
typedef struct members {
  const json_source *j;
  tsr__json_token value[TSR__MAX_COLUMNS];
  int depth[TSR__MAX_COLUMNS]; /* objects around it, from 1; 0: not met */
  tsr__known *known;           /* all names of the outer object; NULL: nobody wants them */
  char *spare;                 /* as many bytes as the line has */
} members;

/* An object, and what is left of the columns' names in it; NULL: they are of other members. */
typedef struct object {
  tsr__json_cursor cursor;
  int depth; /* from 1 */
  const char *rest[TSR__MAX_COLUMNS];
} object;

/* The name of a field may be that of a member as it stands, or lead to it through objects:
 *
 *   "meta.label"    {"meta.label": 1}  before  {"meta": {"label": 2}}
 *
 * What fewer objects are around comes first, and of equals there may be one. */
static tsr_status take_member(members *m, int c, int depth, const tsr__json_token *value,
                              tsr__error *error)
{
  if (m->depth[c] == depth)
    return tsr__error_set(error, TSR_EPARSE, "the name %.80s is given twice in the object",
                          m->j->source.columns[c].name);
  if (m->depth[c] && m->depth[c] < depth) return TSR_OK;
  m->depth[c] = depth;
  m->value[c] = *value;
  return TSR_OK;
}

/* A member, its name without escapes. */
typedef struct member {
  tsr__text_span name;
  tsr__json_token value;
} member;

static tsr__text_span name_of(const members *m, const tsr__json_token *key)
{
  if (!key->escaped) return (tsr__text_span){ key->at, key->length };
  return (tsr__text_span){ m->spare, tsr__json_unescape(key, m->spare) };
}

/* Compares a member's name with what is wanted; true: some of it may be in the member's object. */
static bool match_name(members *m, const object *in, const member *one, object *below,
                       tsr__error *error)
{
  tsr__text_span name = one->name;
  bool inside = false;
  for (int c = 0; c < m->j->source.column_count; c += 1 + m->j->ragged[c]) {
    const char *rest = in->rest[c];
    below->rest[c] = NULL;
    /* Names in a line may hold zeros, where the column's ends. */
    if (!rest || strnlen(rest, name.length) < name.length ||
        memcmp(rest, name.at, name.length) != 0)
      continue;
    if (!rest[name.length]) take_member(m, c, in->depth, &one->value, error);
    if (rest[name.length] != '.') continue;
    below->rest[c] = rest + name.length + 1;
    inside = true;
  }
  return inside && one->value.kind == TSR__JSON_IS_NESTED && *one->value.at == '{';
}

/* All of an object is read, whatever is asked for: what is no JSON is bad for every field. It goes
 * as deep as names have points. */
static tsr_status find_members(members *m, object *in, tsr__error *error)
{
  const char *line = in->cursor.at;
  tsr__json_token key;
  member one;
  object below;
  int more;
  while (!error->status && (more = tsr__json_next(&in->cursor, &key, &one.value)) != 0) {
    if (more < 0)
      return tsr__error_set(error, TSR_EPARSE, "column %lld of the line: %s",
                            (long long)(in->cursor.fault - line + 1), in->cursor.why);
    one.name = name_of(m, &key);
    if (m->known && in->depth == 1) tsr__known_add(m->known, one.name.at, one.name.length);
    if (!match_name(m, in, &one, &below, error)) continue;
    below.cursor = (tsr__json_cursor){ .at = one.value.at, .end = one.value.at + one.value.length };
    below.depth = in->depth + 1;
    find_members(m, &below, error);
  }
  return error->status;
}

/* The members of a line. */
static tsr_status read_line(members *m, const char *line, int64_t bytes, tsr__error *error)
{
  object all = { .cursor = { .at = line, .end = line + bytes }, .depth = 1 };
  if (!tsr__utf8_valid(line, (size_t)bytes))
    return tsr__error_set(error, TSR_EPARSE, "the line is not UTF-8");
  for (int c = 0; c < m->j->source.column_count; c += 1 + m->j->ragged[c])
    all.rest[c] = m->j->source.columns[c].name;
  return find_members(m, &all, error);
}

static tsr_status tell_missing(const tsr__record_row *r, int c, tsr__error *error)
{
  tsr__known known = { .count = 0 };
  tsr__error ignored = { 0 };
  members m = { .j = json_of(r), .known = &known, .spare = r->spare };
  char hint[TSR__HINT];
  const char *name = r->source->columns[c].name;
  read_line(&m, r->at, r->bytes, &ignored);
  return tsr__error_set(error, TSR_EVALUE,
                        "there is no field %.80s, or it is null; set .defaults to fill zeros%s",
                        name, m.depth[c] ? "" : tsr__known_hint(&known, name, hint));
}

/* Fields that the line has not, or has null for. */
static tsr_status put_missing(const tsr__record_row *r, const bool *met, tsr__error *error)
{
  const tsr_source *source = r->source;
  for (int c = 0; c < source->column_count && !error->status; c += 1 + json_of(r)->ragged[c]) {
    if (met[c] || !is_wanted(r, c)) continue;
    if (json_of(r)->defaults) put_field(r, c, NULL, error);
    else tell_missing(r, c, error);
  }
  return error->status;
}

static tsr_status put_object(const tsr__record_row *r, tsr__error *error)
{
  members m = { .j = json_of(r), .spare = r->spare };
  bool met[TSR__MAX_COLUMNS] = { false };
  if (read_line(&m, r->at, r->bytes, error)) return error->status;
  for (int c = 0; c < r->source->column_count && !error->status; c += 1 + m.j->ragged[c]) {
    met[c] = m.depth[c] && m.value[c].kind != TSR__JSON_IS_NULL;
    if (met[c] && is_wanted(r, c)) put_field(r, c, &m.value[c], error);
  }
  return error->status ? error->status : put_missing(r, met, error);
}

/* Names of members that a line has; one that cannot be read has none. */
static tsr_status look_for_members(const tsr_source *source, int64_t record, tsr__met *met,
                                   tsr__error *error)
{
  const json_source *j = (const json_source *)source;
  tsr__heap *heap = &source->node.scope->rt->heap;
  members m = { .j = j, .known = &met->known };
  tsr__record_place place = tsr__record_place_of(&j->files, record);
  size_t bytes = (size_t)place.bytes;
  char *room = tsr__new_raw(heap, 2 * bytes + 1);
  if (!room) return tsr__error_set(error, TSR_ENOMEM, "no memory for a line of %zu bytes", bytes);
  m.spare = room + bytes;
  if (!tsr__record_files_read(&j->files, place, room, error))
    read_line(&m, room, place.bytes, error);
  for (int c = 0; c < source->column_count; c++)
    met->field[c] = met->field[c] || (!error->status && m.depth[c]);
  tsr__del(heap, room, 2 * bytes + 1);
  return error->status;
}

static tsr_status read_json(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  static const tsr__record_taker taker = { put_object, true };
  return tsr__record_rows_read(&((const json_source *)source)->files, source, ask, &taker, error);
}

static void about_json(const tsr_source *source, tsr__text *out)
{
  const json_source *j = (const json_source *)source;
  tsr__record_files_about(&j->files, out);
  if (j->cut) tsr__text_add(out, ", cut");
  if (j->defaults) tsr__text_add(out, ", defaults");
}

static void release_json(tsr_source *source)
{
  json_source *j = (json_source *)source;
  tsr__record_files_close(&j->files);
  tsr__decimal_close(j->decimal);
}

static void where_json(const tsr_source *source, int64_t record, tsr__text *out)
{
  const tsr__record_files *files = &((const json_source *)source)->files;
  tsr__record_files_where(files, record, tsr__record_place_of(files, record).at, out);
}

static const tsr__records_ops json_ops = { "json",       read_json, NULL,      about_json,
                                           release_json, NULL,      where_json };

/* ---- the call -------------------------------------------------------------------------------- */

static tsr_status check_args(const char *path, const tsr_json_args *args, tsr__arena *arena,
                             tsr__asked *made, tsr__error *error)
{
  if (!path) return tsr__error_set(error, TSR_EARG, "the path is NULL; give the path of a file");
  return tsr__asked_all(made, arena, args->fields, args->ragged, error);
}

tsr_source *tsr_source_json_with(tsr_scope *scope, const char *path, const tsr_json_args *given,
                                 const char *site)
{
  const char *call = "tsr_source_json";
  tsr_json_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr__asked made = { .count = 0 };
  if (!scope || scope->inert) return tsr__records_refused(scope, site, call, NULL);
  if (tsr__take_opts(call, given, &args, sizeof args, &error) ||
      check_args(path, &args, &scope->arena, &made, &error))
    return tsr__records_refused(scope, site, call, &error);
  tsr__records_make make = { call,       site, &json_ops, sizeof(json_source), 0, made.columns,
                             made.count, NULL, 0 };
  tsr_source *source = tsr__records_new(scope, &make);
  json_source *j = (json_source *)source;
  if (source->inert) return source;
  j->defaults = args.defaults;
  j->cut = args.cut;
  memcpy(j->ragged, made.ragged, sizeof j->ragged);
  j->decimal = tsr__decimal_open(&scope->rt->heap);
  if (!j->decimal) {
    tsr__error_set(&error, TSR_ENOMEM, "no memory for reading numbers");
    return tsr__records_refused(scope, site, call, &error);
  }
  tsr__record_files_ask ask = {
    scope, call, path, &json_format, args.index, NULL, args.unpack_limit
  };
  if (!tsr__record_files_open(&j->files, &ask, &error)) {
    source->extent = source->count = tsr__record_files_total(&j->files);
    if (!tsr__record_files_tell(&j->files, source, &error) && j->defaults)
      tsr__met_check(source, j->ragged, look_for_members, &error);
    if (!error.status) return source;
  }
  return tsr__records_refused(scope, site, call, &error);
}
