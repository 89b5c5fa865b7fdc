/* Samples of tar archives, a field an ending, as WebDataset has them.
 *
 *   place row of a sample   | file | name | jpg: at, bytes | cls: at, bytes | ...
 *
 * The members of all samples are matched with the fields when the source is made; a record is one
 * reading a field from then on, straight to its cell where the field is bytes. */
#include "io/npy/npyfile.h"
#include "pipeline/tar_walk.h"
#include "tessera/sources.h"

typedef enum tar_kind {
  AS_BYTES,  /* ragged */
  AS_NUMBER, /* i64 in text */
  AS_ARRAY,  /* of a .npy member */
  AS_KEY     /* ragged: what the members have in common */
} tar_kind;

typedef struct tar_field {
  const char *name;
  tar_kind kind;
  int column;
  int64_t longest; /* bytes, over all samples */
  bool met;        /* by some sample */
} tar_field;

enum { FIRST = 2, DIGITS = 32 }; /* numbers of a place row before those of fields */

typedef struct tar_source {
  tsr_source source;
  tsr__record_files files;
  tar_field field[TSR__MAX_COLUMNS];
  int field_count;
  bool cut;
  int64_t *place; /* [samples][width] */
  size_t room;
  int width;
} tar_source;

/* ---- fields and endings ---------------------------------------------------------------------- */

/* "seg.cls" is of the kind of "cls", and so is the field's own form of it, "seg_cls". */
static bool ends_as(const char *name, const char *end)
{
  size_t length = strlen(name), of = strlen(end);
  return length >= of && !strcmp(name + length - of, end) &&
         (length == of || !tsr__name_char(name[length - of - 1]) || name[length - of - 1] == '_');
}

/* How well a member's ending is that of a field, from 0; -1: it is not. A field may name several,
 * "jpg;png", of which the first that a sample has is taken; letters' sizes count less than that. */
static int ending_rank(const char *ending, const char *field)
{
  char one[256];
  if (!strcmp(ending, field)) return 0;
  for (int rank = 1; *field; rank += 2) {
    size_t length = strcspn(field, ";");
    if (length < sizeof one && length) {
      memcpy(one, field, length);
      one[length] = 0;
      if (tsr__name_meant(one, ending)) return rank;
      if (tsr__name_meant_any_case(one, ending)) return rank + 1;
    }
    field += length + (field[length] == ';');
  }
  return -1;
}

static const char *ending_of(const tsr__tar_member *m)
{
  return m->name + m->key_length + 1;
}

static tsr_status kind_of(const tsr__column *column, tar_kind *kind, tsr__error *error)
{
  int rank = column->shape.rank;
  /* By name first: a .npy member is an array even where it is asked for as u8 of rank 1. */
  *kind = !strcmp(column->name, "__key__")        ? AS_KEY
          : ends_as(column->name, "npy")          ? AS_ARRAY
          : column->dtype == TSR_I64 && rank == 0 ? AS_NUMBER
                                                  : AS_BYTES;
  if (*kind != AS_KEY && *kind != AS_BYTES) return TSR_OK;
  if (column->dtype == TSR_U8 && rank <= 1) return TSR_OK;
  return tsr__error_set(error, TSR_EDTYPE,
                        "field %.80s has dtype %s and rank %d, expected bytes (u8, rank 1), a "
                        "whole number in text (i64, no dims), or any type for a .npy member",
                        column->name, tsr_dtype_name(column->dtype), rank);
}

/* ---- what samples have ----------------------------------------------------------------------- */

/* The samples while they are found. */
typedef struct tar_finding {
  tar_source *t;
  const tsr_tar_args *args;
  int file;
  int64_t first, end; /* members of the sample */
} tar_finding;

/* Of a field that is not there. */
static const char *hint_of(const tar_source *t, const char *field, char hint[TSR__HINT])
{
  tsr__known known = { .count = 0 };
  for (int file = 0; file < t->files.count; file++)
    for (int64_t m = 0; m < tsr__tar_count(&t->files, file) && !known.more; m++) {
      tsr__tar_member member = tsr__tar_member_of(&t->files, file, m);
      tsr__known_add(&known, ending_of(&member), strlen(ending_of(&member)));
    }
  return tsr__known_hint(&known, field, hint);
}

/* What is wrong with a sample is told with its key and the place of its first member, so that it
 * can be found in an archive of millions. */
static tsr_status tell_sample(const tar_finding *f, const char *what, const char *field,
                              tsr__error *error)
{
  const tsr__record_files *files = &f->t->files;
  tsr__tar_member m = tsr__tar_member_of(files, f->file, f->first);
  char hint[TSR__HINT] = "";
  bool lacks = *what == 'n';
  return tsr__error_set(error, TSR_EPARSE, "%s: sample %.*s at byte %lld has %s .%.80s%s%s",
                        files->file[f->file].path, (int)m.key_length, m.name, (long long)m.at, what,
                        field,
                        lacks ? "; set .defaults to fill zeros, or .skip to leave the sample out"
                              : "",
                        lacks ? hint_of(f->t, field, hint) : "");
}

/* The places of one sample's fields; `row` is its place row. False in `whole`: one is missing. */
static tsr_status match_sample(const tar_finding *f, int64_t *row, bool *whole, tsr__error *error)
{
  tar_source *t = f->t;
  row[0] = f->file;
  row[1] = f->first;
  for (int i = 0; i < t->field_count; i++) {
    int64_t *at = row + FIRST + 2 * i;
    tar_field *field = &t->field[i];
    at[0] = at[1] = -1;
    int best = -1;
    for (int64_t m = f->first; m < f->end; m++) {
      tsr__tar_member member = tsr__tar_member_of(&t->files, f->file, m);
      int rank = field->kind == AS_KEY ? 0 : ending_rank(ending_of(&member), field->name);
      if (field->kind == AS_KEY) member.bytes = member.key_length;
      if (rank < 0 || (best >= 0 && rank > best)) continue;
      /* Every member has the key; two of one ending are a damaged archive. */
      if (rank == best && field->kind == AS_KEY) break;
      if (rank == best) return tell_sample(f, "two members", field->name, error);
      best = rank;
      at[0] = member.at;
      at[1] = member.bytes;
    }
    if (best >= 0) {
      field->met = true;
      continue;
    }
    if (!f->args->defaults && !f->args->skip)
      return tell_sample(f, "no member", field->name, error);
    /* The row is matched to its end even then: two members of one ending are told in any case. */
    *whole = *whole && !f->args->skip;
  }
  return TSR_OK;
}

static tsr_status keep_sample(const tar_finding *f, tsr__error *error)
{
  tar_source *t = f->t;
  size_t row = (size_t)t->source.count * (size_t)t->width;
  bool whole = true;
  if (!tsr__grow(&t->files.rt->heap, (void **)&t->place, &t->room, row + (size_t)t->width,
                 sizeof *t->place))
    return tsr__error_set(error, TSR_ENOMEM, "no memory for the positions of %lld samples",
                          (long long)t->source.count + 1);
  /* A sample that is left out leaves its row to the next one, and its members' lengths count
   * nowhere. */
  if (match_sample(f, t->place + row, &whole, error) || !whole) return error->status;
  for (int i = 0; i < t->field_count; i++) {
    int64_t bytes = t->place[row + FIRST + 2 * (size_t)i + 1];
    if (bytes > t->field[i].longest) t->field[i].longest = bytes;
  }
  t->source.count++;
  return TSR_OK;
}

/* A sample is a run of members with one key. The format promises that they stand together: equal
 * keys that do not are two samples. */
static tsr_status find_samples(tar_source *t, const tsr_tar_args *args, tsr__error *error)
{
  for (int file = 0; file < t->files.count && !error->status; file++) {
    int64_t members = tsr__tar_count(&t->files, file);
    tar_finding f = { t, args, file, 0, 0 };
    for (; f.first < members && !error->status; f.first = f.end) {
      tsr__tar_member first = tsr__tar_member_of(&t->files, file, f.first);
      for (f.end = f.first + 1; f.end < members; f.end++) {
        tsr__tar_member next = tsr__tar_member_of(&t->files, file, f.end);
        if (!tsr__tar_same_key(&first, &next)) break;
      }
      keep_sample(&f, error);
    }
  }
  char hint[TSR__HINT];
  /* Where zeros stand for what lacks, or nothing does, a name that is wrong would be all of it. */
  for (int i = 0; i < t->field_count && t->files.mark_count && !error->status; i++)
    if (!t->field[i].met)
      tsr__error_set(error, TSR_EARG, "no sample has a member .%.80s%s", t->field[i].name,
                     hint_of(t, t->field[i].name, hint));
  return error->status;
}

/* ---- the schema ------------------------------------------------------------------------------ */

/* What the first sample's .npy member says of its array. */
static tsr_status look_at_array(const tar_source *t, const tsr__tar_member *m, tsr__column *column,
                                tsr__error *error)
{
  tsr__npy npy;
  tsr__record_place place = { 0, m->at, m->bytes };
  char *room = tsr__new_raw(&t->files.rt->heap, (size_t)m->bytes + 1);
  if (!room) tsr__error_set(error, TSR_ENOMEM, "no memory for %lld bytes", (long long)m->bytes);
  else if (!tsr__record_files_read(&t->files, place, room, error) &&
           !tsr__npy_in(m->name, room, m->bytes, &npy, error)) {
    column->dtype = npy.dtype;
    column->shape = npy.shape;
  }
  tsr__del(&t->files.rt->heap, room, (size_t)m->bytes + 1);
  return error->status;
}

/* Fields of the first sample, where none are asked for: whole numbers by the endings that
 * WebDataset gives them, arrays, and bytes. */
static int first_fields(const tar_source *t, tsr__arena *arena, tsr__column *columns,
                        tsr__error *error)
{
  static const char *const numbers[] = { "cls", "cls2", "id", "index", "count" };
  int count = 0;
  int64_t members = t->files.count ? tsr__tar_count(&t->files, 0) : 0;
  for (int64_t i = 0; i < members && !error->status; i++) {
    tsr__tar_member m = tsr__tar_member_of(&t->files, 0, i), first;
    first = tsr__tar_member_of(&t->files, 0, 0);
    if (!tsr__tar_same_key(&first, &m)) break;
    /* Each may become two columns. */
    if (count == TSR__MAX_COLUMNS / 2) {
      tsr__error_set(error, TSR_EARG, "more than %d members per sample; choose some with .fields",
                     count);
      break;
    }
    char *name = tsr__arena_text(arena, ending_of(&m), strlen(ending_of(&m)));
    tsr__name_clean(name);
    /* An ending names a format, whatever the size of its letters. */
    for (char *c = name; c && *c; c++)
      if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    if (!name) tsr__error_set(error, TSR_ENOMEM, "no memory for a name");
    columns[count] = (tsr__column){ .name = name, .dtype = TSR_U8 };
    for (size_t k = 0; name && k < sizeof numbers / sizeof *numbers; k++)
      if (ends_as(name, numbers[k])) columns[count].dtype = TSR_I64;
    if (name && ends_as(name, "npy")) look_at_array(t, &m, &columns[count], error);
    count++;
  }
  if (!count && !error->status)
    tsr__error_set(error, TSR_EPARSE, "%s: there is no sample whose members could be fields",
                   t->files.file[0].path);
  return count;
}

/* Fields to columns: ragged ones get two. */
static int add_columns(tar_source *t, tsr__arena *arena, const tsr__column *asked,
                       tsr__column *columns, tsr__error *error)
{
  int count = 0;
  for (int i = 0; i < t->field_count && !error->status; i++) {
    tar_field *field = &t->field[i];
    bool ragged = field->kind == AS_BYTES || field->kind == AS_KEY;
    if (count + 1 + ragged > TSR__MAX_COLUMNS) {
      tsr__error_set(error, TSR_EARG, "more than %d fields, counting the fields of lengths",
                     TSR__MAX_COLUMNS);
      break;
    }
    field->column = count;
    columns[count] = asked[i];
    /* Known only behind find_samples, which is why columns come last. */
    int64_t longest = asked[i].shape.rank ? asked[i].shape.dims[0] : field->longest;
    if (ragged) {
      columns[count].shape = (tsr_shape){ 0 };
      tsr__ragged_columns(arena, &columns[count], longest, error);
    }
    for (int c = count; c <= count + ragged && !error->status; c++)
      if (tsr__column_find(columns, c, columns[c].name) >= 0)
        tsr__error_set(error, TSR_EARG,
                       "two fields would be called '%.80s'; give each a name of its own",
                       columns[c].name);
    count += 1 + ragged;
  }
  return count;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A field of a record that is asked for. */
typedef struct tar_value {
  const tar_source *t;
  const tsr__ask_rows *ask;
  int64_t i;
  const tar_field *field;
  tsr__record_place place;
} tar_value;

/* The length is the archive's even where the bytes are not asked for, cut as they would be. */
static tsr_status read_bytes(const tar_value *v, tsr__error *error)
{
  const tsr_source *source = &v->t->source;
  int c = v->field->column;
  int64_t most = (int64_t)source->columns[c].bytes;
  tsr__record_place place = v->place;
  if (place.bytes > most && !v->t->cut)
    return tsr__error_set(
        error, TSR_EVALUE,
        "the member has %lld bytes, expected at most %lld; set .cut to keep the first bytes",
        (long long)place.bytes, (long long)most);
  if (place.bytes > most) place.bytes = most;
  if (v->ask->cells[c].data &&
      tsr__record_files_read(&v->t->files, place, tsr__cell_of(v->ask, c, v->i), error))
    return error->status;
  tsr__ragged_end(source, v->ask, c, v->i, place.bytes);
  return TSR_OK;
}

/* Keys lie in the walk's own memory: no file is read for them. */
static tsr_status read_key(const tar_value *v, const tsr__tar_member *first, tsr__error *error)
{
  const tsr_source *source = &v->t->source;
  int c = v->field->column;
  int64_t most = (int64_t)source->columns[c].bytes, length = first->key_length;
  if (length > most && !v->t->cut)
    return tsr__error_set(
        error, TSR_EVALUE,
        "the key has %lld bytes, expected at most %lld; set .cut to keep the first bytes",
        (long long)length, (long long)most);
  if (length > most) length = most;
  if (v->ask->cells[c].data) memcpy(tsr__cell_of(v->ask, c, v->i), first->name, (size_t)length);
  tsr__ragged_end(source, v->ask, c, v->i, length);
  return TSR_OK;
}

/* Digits, perhaps behind a sign, between white space. */
static tsr_status read_number(const tar_value *v, tsr__error *error)
{
  char text[DIGITS + 1] = { 0 };
  int64_t number = 0;
  /* An archive may name anything a class: nothing longer than a number could be is read. */
  bool good = v->place.bytes <= DIGITS;
  if (good && tsr__record_files_read(&v->t->files, v->place, text, error)) return error->status;
  const char *at = text + strspn(text, " \t\r\n");
  bool minus = *at == '-';
  at += minus || *at == '+';
  good = good && *at >= '0' && *at <= '9';
  for (; good && *at >= '0' && *at <= '9'; at++)
    /* Added up below zero, where there is one number more: i64 has its least too. */
    good = !__builtin_mul_overflow(number, 10, &number) &&
           !__builtin_sub_overflow(number, *at - '0', &number);
  good = good && (minus || number != INT64_MIN);
  at += strspn(at, " \t\r\n");
  /* Bytes of zero in the middle end the text early, and are caught by this. */
  if (!good || at != text + v->place.bytes)
    return tsr__error_set(error, TSR_EPARSE, "the member is not a whole number that fits i64");
  number = minus ? number : -number;
  memcpy(tsr__cell_of(v->ask, v->field->column, v->i), &number, sizeof number);
  return TSR_OK;
}

static tsr_status take_array(const tar_value *v, char *room, tsr__error *error)
{
  const tsr__column *column = &v->t->source.columns[v->field->column];
  tsr__npy npy;
  if (tsr__record_files_read(&v->t->files, v->place, room, error) ||
      tsr__npy_in("the array", room, v->place.bytes, &npy, error))
    return error->status;
  /* The first sample decided what the field is; each other one is compared when it is read. */
  if (npy.dtype == column->dtype && tsr__shape_same(&npy.shape, &column->shape)) {
    memcpy(tsr__cell_of(v->ask, v->field->column, v->i), npy.data, column->bytes);
    return TSR_OK;
  }
  tsr__text found;
  tsr__text_init(&found, NULL);
  const tsr__column other = { .name = "", .dtype = npy.dtype, .shape = npy.shape };
  tsr__column_text(&other, &found);
  tsr__text_add(&found, ", expected ");
  tsr__column_text(column, &found);
  tsr__error_set(error, TSR_ESHAPE, "an array of%s", tsr__text_get(&found));
  tsr__text_free(&found);
  return error->status;
}

static tsr_status read_array(const tar_value *v, tsr__error *error)
{
  tsr__heap *heap = &v->t->files.rt->heap;
  size_t bytes = (size_t)v->place.bytes + 1;
  char *room = tsr__new_raw(heap, bytes);
  if (!room) return tsr__error_set(error, TSR_ENOMEM, "no memory for %zu bytes", bytes);
  take_array(v, room, error);
  tsr__del(heap, room, bytes);
  return error->status;
}

static void put_zeros(const tar_value *v)
{
  const tar_field *field = v->field;
  const tsr_source *source = &v->t->source;
  bool ragged = field->kind == AS_BYTES || field->kind == AS_KEY;
  if (ragged) tsr__ragged_end(source, v->ask, field->column, v->i, 0);
  else memset(tsr__cell_of(v->ask, field->column, v->i), 0, source->columns[field->column].bytes);
}

static tsr_status read_field(const tar_value *v, const tsr__tar_member *first, tsr__error *error)
{
  tsr__error cause = { 0 };
  if (v->place.at < 0) put_zeros(v);
  else if (v->field->kind == AS_BYTES) read_bytes(v, &cause);
  else if (v->field->kind == AS_KEY) read_key(v, first, &cause);
  else if (v->field->kind == AS_NUMBER) read_number(v, &cause);
  else read_array(v, &cause);
  if (!cause.status) return TSR_OK;
  return tsr__error_set(error, cause.status, "%s: sample %.*s, %s at byte %lld: %s",
                        v->t->files.file[v->place.file].path, (int)first->key_length, first->name,
                        v->field->name, (long long)v->place.at, cause.text);
}

static bool is_asked(const tsr__ask_rows *ask, const tar_field *field)
{
  bool ragged = field->kind == AS_BYTES || field->kind == AS_KEY;
  return ask->cells[field->column].data || (ragged && ask->cells[field->column + 1].data);
}

static tsr_status read_tar(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const tar_source *t = (const tar_source *)source;
  for (int64_t i = 0; i < ask->count && !error->status; i++) {
    const int64_t *row = t->place + ask->at[i] * t->width;
    tsr__tar_member first = tsr__tar_member_of(&t->files, (int)row[0], row[1]);
    for (int k = 0; k < t->field_count && !error->status; k++) {
      const int64_t *at = row + FIRST + 2 * k;
      tar_value v = { t, ask, i, &t->field[k], { (int)row[0], at[0], at[1] } };
      if (is_asked(ask, v.field)) read_field(&v, &first, error);
    }
  }
  return error->status;
}

static void about_tar(const tsr_source *source, tsr__text *out)
{
  const tar_source *t = (const tar_source *)source;
  tsr__record_files_about(&t->files, out);
  if (t->cut) tsr__text_add(out, ", cut");
}

static void release_tar(tsr_source *source)
{
  tar_source *t = (tar_source *)source;
  if (t->files.rt) tsr__del(&t->files.rt->heap, t->place, t->room * sizeof *t->place);
  tsr__record_files_close(&t->files);
}

static void where_tar(const tsr_source *source, int64_t record, tsr__text *out)
{
  const tar_source *t = (const tar_source *)source;
  const int64_t *row = t->place + record * t->width;
  tsr__tar_member m = tsr__tar_member_of(&t->files, (int)row[0], row[1]);
  tsr__text_add(out, "; the record is in %s, sample %.*s", t->files.file[row[0]].path,
                (int)m.key_length, m.name);
}

static const tsr__records_ops tar_ops = { "tar",       read_tar, NULL,     about_tar,
                                          release_tar, NULL,     where_tar };

/* ---- the call -------------------------------------------------------------------------------- */

/* A source while it is made. */
typedef struct tar_making {
  tsr_scope *scope;
  const tsr_tar_args *args;
  tar_source made;
  tsr__column asked[TSR__MAX_COLUMNS], columns[TSR__MAX_COLUMNS];
  int count;
} tar_making;

/* Fields, places and columns of a source whose files were walked along. Fields that the call named
 * are in `asked` already. */
static tsr_status make_schema(tar_making *m, tsr__error *error)
{
  tsr__column *asked = m->asked;
  tsr__arena *arena = &m->scope->arena;
  tar_source *t = &m->made;
  if (!t->field_count) t->field_count = first_fields(t, arena, asked, error);
  for (int i = 0; i < t->field_count && !error->status; i++) {
    t->field[i].name = tsr__arena_text(arena, asked[i].name, strlen(asked[i].name));
    if (!t->field[i].name) tsr__error_set(error, TSR_ENOMEM, "no memory for a name");
    else if (!kind_of(&asked[i], &t->field[i].kind, error)) tsr__column_check(&asked[i], error);
  }
  t->width = FIRST + 2 * t->field_count;
  if (!error->status && !find_samples(t, m->args, error))
    m->count = add_columns(t, arena, asked, m->columns, error);
  return error->status;
}

static tsr_source *tar_of(tar_making *m, const char *path, const char *site)
{
  const char *call = "tsr_source_tar";
  tsr__error error = { 0 };
  tar_source *made = &m->made;
  tsr__record_files_ask ask = {
    m->scope, call, path, &tsr__tar_format, m->args->index, NULL, m->args->unpack_limit
  };
  made->cut = m->args->cut;
  if (!tsr__record_files_open(&made->files, &ask, &error)) make_schema(m, &error);
  tsr__records_make make = { call,     site, &tar_ops, sizeof *made, made->source.count, m->columns,
                             m->count, NULL, 0 };
  tsr_source *source = error.status ? tsr__records_refused(m->scope, site, call, &error)
                                    : tsr__records_new(m->scope, &make);
  /* What was found is in `made` until a source has taken it over. */
  if (source->inert) {
    release_tar(&made->source);
    return source;
  }
  made->source = *source;
  *(tar_source *)source = *made;
  return source;
}

tsr_source *tsr_source_tar_with(tsr_scope *scope, const char *path, const tsr_tar_args *given,
                                const char *site)
{
  const char *call = "tsr_source_tar";
  tsr_tar_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  if (!scope || scope->inert) return tsr__records_refused(scope, site, call, NULL);
  if (!tsr__take_opts(call, given, &args, sizeof args, &error) && !path)
    tsr__error_set(&error, TSR_EARG, "the path is NULL; give the path of a file");
  tar_making m = { .scope = scope, .args = &args };
  /* Fields are judged before the file is opened, as other sources judge theirs. */
  if (!error.status && args.fields[0].name)
    m.made.field_count = tsr__columns_of(args.fields, m.asked, &error);
  if (!error.status) return tar_of(&m, path, site);
  return tsr__records_refused(scope, site, call, &error);
}
