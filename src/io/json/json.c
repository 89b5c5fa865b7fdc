/* Opening JSON lines, and arrays that were made lines: files to blocks of lines, blocks to names
 * and classes.
 *
 *   block 0: a b     block 1: b c a     unified in order: a b c       (io/text/dict.h)
 *   classes  i f              t i f     a: i f -> f64, b: f t -> text, c: i -> i64
 *
 * Invariant: after opening every line was looked at; rows, columns, types and bad lines are what a
 * read will find, however the bytes are cut.
 *
 * What is kept:
 *   block    [from, to) of a file, whole lines; its own names, classes by name, bad lines
 *   json     all names in order, column_of[name], columns, files' bytes until it is closed
 *
 *   open   load files -> cut blocks -> look at them in parallel -> rows -> names -> columns
 *   read   stripes of rows in parallel, each with its own dictionaries (json_read.c)
 */
#include "base/utf8.h"
#include "io/json/json_inner.h"

#include <inttypes.h>
#include <stdio.h>

/* Bytes of a task: a few milliseconds of parsing. */
enum { BLOCK = 1 << 20 };

static tsr_status no_memory(const tsr__json *json, tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", json->path);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static const char *file_end(const tsr__json *json, int file)
{
  return json->files[file].data + json->files[file].size;
}

/* Behind a UTF-8 mark, which some programs put in front of a text. */
static const char *file_begin(const tsr__json *json, int file)
{
  const tsr__loaded *loaded = &json->files[file];
  bool mark = loaded->size >= 3 && memcmp(loaded->data, "\xef\xbb\xbf", 3) == 0;
  return loaded->data + (mark ? 3 : 0);
}

/*   |...line..\n...line....|...\n..line..\n|      a block goes on to the end of the line that its
 *                           size          to       size ends in; lines are not looked for before
 */
static tsr_status cut_blocks(tsr__json *json, tsr__error *error)
{
  int64_t size = json->opts.block > 0 ? json->opts.block : BLOCK, count = 0;
  /* One more than fit, for what is left over. */
  for (int f = 0; f < json->paths.count; f++) count += json->files[f].size / size + 1;
  json->blocks = tsr__new(json->heap, (size_t)count * sizeof *json->blocks);
  if (!json->blocks) return no_memory(json, error);
  json->block_count = count;
  tsr__json_block *block = json->blocks;
  for (int f = 0; f < json->paths.count; f++) {
    const char *at = file_begin(json, f), *end = file_end(json, f);
    for (int64_t n = json->files[f].size / size + 1; n > 0; n--, block++) {
      /* A block ends behind the line that its last byte stands in. A line longer than a block
       * leaves the next ones empty. */
      const char *newline =
          end - at > size ? memchr(at + size, '\n', (size_t)(end - at - size)) : NULL;
      const char *to = newline ? newline + 1 : end;
      *block = (tsr__json_block){ .file = f, .from = at, .to = to };
      at = to;
    }
    TSR_INVARIANT(at == end);
  }
  return TSR_OK;
}

/* ---- looking at lines ------------------------------------------------------------------------ */

/* A block being looked at; `classes` and keys.order are of the line at hand. One for a block and a
 * worker: its lists grow to the widest line and are used for all. */
typedef struct look {
  tsr__json *json;
  tsr__json_block *block;
  tsr__json_keys keys;
  tsr__json_cursor cursor;
  bool ascii;       /* the block is */
  int64_t pending;  /* members of the line, their codes in keys.order */
  uint8_t *classes; /* of each */
  size_t class_room;
} look;

static bool no_room(look *l)
{
  l->block->no_memory = true;
  return false;
}

/* 0: none. */
static uint8_t forced_type(const tsr__json *json, const tsr__dict_local *names, int32_t code)
{
  const tsr__dict_entry *entry = &names->entries[code];
  for (int i = 0; i < json->opts.type_count; i++) {
    const tsr__json_type *type = &json->opts.types[i];
    if (strlen(type->name) == entry->key.length &&
        memcmp(type->name, entry->text, entry->key.length) == 0)
      return (uint8_t)type->type;
  }
  return 0;
}

/* A fault of the line that the grammar does not know of. */
static bool wrong(look *l, const char *at, const char *why)
{
  l->cursor.fault = at;
  l->cursor.why = why;
  return false;
}

/* The classes of one line's values, which count once the line is known to be good, or is to be read
 * as far as it can be. False: it is bad, or memory is short. UTF-8 first, so that what is told of a
 * fault and what becomes a text is good wherever it is cut. */
static bool look_at(look *l, const tsr__json_line *line, int64_t number)
{
  tsr__json *json = l->json;
  tsr__json_token key, value;
  tsr__read_value parsed;
  int found;
  bool good = true;
  l->pending = 0;
  l->cursor = (tsr__json_cursor){ .at = line->at,
                                  .end = line->end,
                                  .unwrapped = json->arrays[l->block->file] };
  if (!l->ascii && !tsr__utf8_valid(line->at, (size_t)(line->end - line->at)))
    return wrong(l, line->at, "the line is not UTF-8");
  while ((found = tsr__json_next_of(&l->cursor, &l->keys, l->pending, &key, &value)) > 0) {
    /* Codes of one block only: blocks are looked at side by side, and their names are put together
     * afterwards, in the order of the blocks. */
    int64_t member = l->pending;
    int32_t code = tsr__json_key(&l->keys, &key, member, number);
    if (code == -2) return wrong(l, key.at - 1, "the name stands twice in one object");
    bool room = code >= 0 && ((size_t)member < l->class_room ||
                              tsr__grow(json->heap, (void **)&l->classes, &l->class_room,
                                        (size_t)member + 1, 1));
    if (!room) return no_room(l);
    unsigned class = tsr__json_classify(json->decimal, &value, &parsed);
    /* Looked up by name for each value where types were asked for at all: there are few of them. */
    uint8_t forced = json->opts.type_count ? forced_type(json, &l->block->names, code) : 0;
    /* A wrong value does not end the line: whether the rest of it is JSON decides how it is told,
     * and with .bad_rows null its other values count. */
    if (forced && good && !tsr__json_fits((tsr_coltype)forced, class, &parsed))
      good = wrong(l, value.at - (value.kind == TSR__JSON_IS_TEXT),
                   "the value does not have the type given for the column");
    l->classes[l->pending++] = (uint8_t) class;
    tsr__json_keep(json->heap, l->block, code, number - 1,
                   &(tsr__json_found){ class, &parsed, &value });
  }
  return good && found == 0;
}

/* Adds the classes of the line that was looked at last. */
static bool count_classes(look *l)
{
  tsr__json_block *block = l->block;
  for (int64_t i = 0; i < l->pending; i++) {
    int32_t code = l->keys.order[i].code;
    if ((size_t)code >= block->seen_room &&
        !tsr__grow(l->json->heap, (void **)&block->seen, &block->seen_room, (size_t)code + 1, 1))
      return no_room(l);
    /* A set of classes a name; the order in which they came does not matter for the type. */
    block->seen[code] |= l->classes[i];
  }
  return true;
}

/* The first fault of a block is told; all bad lines are listed, as reading passes over them. By
 * where the line begins: numbers of lines are counted only for the one that is told. */
static bool keep_bad(look *l, const char *at)
{
  tsr__json_block *block = l->block;
  tsr__json_kept_free(l->json->heap, block);
  if (!block->fault) {
    block->fault = l->cursor.fault;
    block->why = l->cursor.why;
  }
  if (!tsr__grow(l->json->heap, (void **)&block->bad, &block->bad_room, block->bad_count + 1,
                 sizeof *block->bad))
    return no_room(l);
  block->bad[block->bad_count++] = at;
  return true;
}

/* Nothing of other blocks is touched, so nothing is locked. A lack of memory is told by the block,
 * as a task returns nothing. */
static void look_at_block(void *user, int64_t task, int worker)
{
  (void)worker;
  tsr__json *json = user;
  tsr__json_block *block = &json->blocks[task];
  const char *end = file_end(json, block->file);
  tsr__json_line line;
  tsr__dict_local_init(&block->names, json->heap);
  look l = { .json = json,
             .block = block,
             .keys = { .names = &block->names },
             .ascii = tsr__all_ascii(block->from, (size_t)(block->to - block->from)) };
  int64_t number = 0;
  for (const char *at = block->from; tsr__json_line_at(at, block->to, end, &line); at = line.next) {
    /* Lines of a file are of about one length. */
    if (!block->lines) block->lines = (block->to - at) / (line.next - at) * 9 / 8 + 8;
    bool good = look_at(&l, &line, ++number);
    if (!good && (block->no_memory || !keep_bad(&l, line.at))) break;
    /* Of bad lines that become rows of nulls the values before the fault count for the types. */
    if ((good || json->opts.bad_rows == TSR__JSON_NULL) && !count_classes(&l)) break;
    /* The first bad line of the file is told, and it lies in the first block that has one: the rest
     * of this one cannot matter. */
    if (block->fault && json->opts.bad_rows == TSR__JSON_ERROR) break;
  }
  block->rows = number;
  if (json->opts.bad_rows == TSR__JSON_SKIP) block->rows -= (int64_t)block->bad_count;
  tsr__json_keys_free(&l.keys);
  tsr__del(json->heap, l.classes, l.class_room);
}

/* ---- what was found -------------------------------------------------------------------------- */

/* Text that stands at a fault, cut so that no character is halved. What is no ASCII becomes '?':
 * the text may begin or end within a character. */
static void quote_fault(const tsr__json_block *block, const char *end, char *out, size_t size)
{
  size_t length = 0;
  while (length + 1 < size && block->fault + length < end && block->fault[length] != '\n' &&
         block->fault[length] != '\r')
    length++;
  memcpy(out, block->fault, length);
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)out[i] < ' ' || (unsigned char)out[i] > '~') out[i] = '?';
  out[length] = 0;
}

/* Lines are counted only now: nobody needs their numbers as long as all is well. */
static tsr_status bad_row(const tsr__json *json, const tsr__json_block *block, tsr__error *error)
{
  char text[60];
  int64_t column, line = tsr__json_line_of(json, block->file, block->fault, &column);
  quote_fault(block, file_end(json, block->file), text, sizeof text);
  return tsr__error_set(error, TSR_EPARSE, "%s:%" PRId64 ":%" PRId64 ": %s: %s%s%s",
                        json->paths.path[block->file], line, column, block->why, *text ? "'" : "",
                        *text ? text : "the line's end", *text ? "'" : "");
}

static tsr_status broken_array(const tsr__json *json, tsr__error *error)
{
  const tsr__json_broken *broken = &json->broken;
  int64_t column, line = tsr__json_line_of(json, broken->file, broken->at, &column);
  return tsr__error_set(error, TSR_EPARSE, "%s:%" PRId64 ":%" PRId64 ": %s",
                        json->paths.path[broken->file], line, column, broken->why);
}

/* Whether a block's fault stands before the place where an array breaks off. */
static bool stands_first(const tsr__json *json, const tsr__json_block *block)
{
  const tsr__json_broken *broken = &json->broken;
  return !broken->why || block->file < broken->file ||
         (block->file == broken->file && block->fault < broken->at);
}

/* The first error of the files, and the number of each block's first row. The same error for any
 * number of workers: that of the first block that has one, whoever was sooner. */
static tsr_status settle_rows(tsr__json *json, tsr__error *error)
{
  for (int64_t b = 0; b < json->block_count; b++) {
    tsr__json_block *block = &json->blocks[b];
    if (block->no_memory || block->names.failed) return no_memory(json, error);
    if (block->fault && json->opts.bad_rows == TSR__JSON_ERROR && stands_first(json, block))
      return bad_row(json, block, error);
    /* Blocks are settled in order, so the first fault met is that of the first bad line. */
    block->row = json->rows;
    json->rows += block->rows;
    json->bad_rows += (int64_t)block->bad_count;
  }
  return json->broken.why ? broken_array(json, error) : TSR_OK;
}

/* All names in order of appearance, and each one's classes. Codes of blocks become codes of the
 * file, in the order of blocks. `seen` is the caller's also on an error, for it to be freed. */
static tsr_status unify_names(tsr__json *json, uint8_t **seen, tsr__error *error)
{
  size_t size = (size_t)json->block_count * sizeof(tsr__dict_local *);
  tsr__dict_local **locals = tsr__new(json->heap, size);
  for (int64_t b = 0; locals && b < json->block_count; b++) locals[b] = &json->blocks[b].names;
  if (locals) json->name_dict = tsr__dict_unify(json->heap, locals, (int)json->block_count);
  tsr__del(json->heap, locals, size);
  if (!json->name_dict) return no_memory(json, error);
  int32_t count = json->name_dict->count;
  *seen = tsr__new(json->heap, (size_t)count + 1);
  if (!*seen) return no_memory(json, error);
  for (int64_t b = 0; b < json->block_count; b++) {
    tsr__json_block *block = &json->blocks[b];
    /* Names that only bad lines have may stand behind those that were counted. */
    for (int32_t i = 0; i < block->names.count; i++)
      if ((size_t)i < block->seen_room) (*seen)[block->names.entries[i].code] |= block->seen[i];
    for (size_t i = 0; i < block->kept_room; i++)
      if (block->kept[i].seen) block->kept[i].code = block->names.entries[block->kept[i].code].code;
    tsr__dict_local_free(&block->names);
    tsr__del(json->heap, block->seen, block->seen_room);
    block->seen = NULL;
    block->seen_room = 0;
  }
  /* The names once more as a table that can be asked by text: lines are read by it. */
  tsr__dict_local_init(&json->names, json->heap);
  for (int32_t i = 0; i < count; i++) {
    const int64_t *offset = json->name_dict->offsets + i;
    bool added;
    if (tsr__dict_code(&json->names, json->name_dict->bytes + offset[0],
                       (size_t)(offset[1] - offset[0]), false, &added) < 0)
      return no_memory(json, error);
  }
  return TSR_OK;
}

/* ---- columns --------------------------------------------------------------------------------- */

static tsr_status unknown_column(const tsr__json *json, const char *name, tsr__error *error)
{
  return tsr__error_set(error, TSR_ECOLUMN, "%s: no column '%.60s'; no object has that name",
                        json->path, name);
}

/* Looked through: it is asked once a column that was named. */
static int32_t find_name(tsr__json *json, const char *name)
{
  size_t length = strlen(name);
  for (int32_t i = 0; i < json->names.count; i++)
    if (json->names.entries[i].key.length == length &&
        memcmp(json->names.entries[i].text, name, length) == 0)
      return i;
  return -1;
}

/* What a name must be to be a column's. Names become those of a frame, whose columns end with a
 * NUL. Only of columns that are read: a name that nobody wants may be anything. */
static tsr_status check_name(const tsr__json *json, int32_t code, tsr__error *error)
{
  const tsr__dict_entry *entry = &json->names.entries[code];
  size_t length = entry->key.length;
  if (length && length <= 1000 && !memchr(entry->text, 0, length)) return TSR_OK;
  return tsr__error_set(error, TSR_ECOLUMN,
                        "%s: a column's name is %s; choose others with .columns, or rename it",
                        json->path, length ? "longer than 1,000 bytes or holds a NUL" : "empty");
}

/* Nullable whatever was seen, as an object may lack any name. */
static tsr_status add_column(tsr__json *json, int32_t code, uint8_t seen, tsr__error *error)
{
  const tsr__dict_entry *entry = &json->names.entries[code];
  tsr__read_column *column = &json->columns[json->column_count];
  if (check_name(json, code, error)) return error->status;
  column->name = tsr__new(json->heap, (size_t)entry->key.length + 1);
  if (!column->name) return no_memory(json, error);
  memcpy(column->name, entry->text, entry->key.length);
  uint8_t forced = forced_type(json, &json->names, code);
  column->type = forced ? (tsr_coltype)forced : tsr__classes_type(seen);
  column->nullable = true;
  /* Nothing but nulls, or nothing at all, was seen of it. */
  column->vacant = !forced && !(seen & ~(unsigned)TSR__CLASS_NULL);
  json->name_of[json->column_count] = code;
  json->column_of[code] = json->column_count++;
  return TSR_OK;
}

/* Refuses what has no columns, as an empty CSV file is refused. */
static tsr_status check_any(const tsr__json *json, tsr__error *error)
{
  if (!json->rows && !json->bad_rows)
    return tsr__error_set(error, TSR_EPARSE,
                          "%s: is empty; a file of JSON lines has an object a line", json->path);
  if (json->names.count && (json->rows || json->opts.column_count)) return TSR_OK;
  return tsr__error_set(error, TSR_EPARSE,
                        "%s: holds no object with a name; a file of JSON lines has an object a "
                        "line",
                        json->path);
}

/* A type for a name that no line has is a mistake of the caller's, so it is told. */
static tsr_status make_columns(tsr__json *json, const uint8_t *seen, tsr__error *error)
{
  int32_t count = json->names.count;
  int wanted = json->opts.column_count;
  size_t room = (size_t)count + 1;
  json->column_of = tsr__new(json->heap, room * sizeof *json->column_of);
  json->columns = tsr__new(json->heap, room * sizeof *json->columns);
  json->name_of = tsr__new(json->heap, room * sizeof *json->name_of);
  if (!json->column_of || !json->columns || !json->name_of) return no_memory(json, error);
  for (int32_t i = 0; i < count; i++) json->column_of[i] = -1;
  for (int i = 0; i < json->opts.type_count; i++)
    if (find_name(json, json->opts.types[i].name) < 0)
      return unknown_column(json, json->opts.types[i].name, error);
  for (int32_t i = 0; i < (wanted ? wanted : count); i++) {
    int32_t code = wanted ? find_name(json, json->opts.columns[i]) : i;
    /* With .columns the order is that which was asked for, otherwise that of first appearance. */
    if (!wanted && !seen[code]) continue; /* a name of rows that are left out */
    if (code < 0) return unknown_column(json, json->opts.columns[i], error);
    if (json->column_of[code] >= 0)
      return tsr__error_set(error, TSR_ECOLUMN, "%s: column '%.60s' is chosen twice", json->path,
                            json->opts.columns[i]);
    if (add_column(json, code, seen[code], error)) return error->status;
  }
  return TSR_OK;
}

/* ---- open and close -------------------------------------------------------------------------- */

/* Files are held as a whole: a later reading of what was not kept parses the same bytes again. */
static tsr_status load(tsr__json *json, const tsr__path_ask *paths, tsr__error *error)
{
  if (tsr__paths_find(json->heap, paths, &json->paths, error)) return error->status;
  json->files = tsr__new(json->heap, (size_t)json->paths.count * sizeof *json->files);
  json->arrays = tsr__new(json->heap, (size_t)json->paths.count * sizeof *json->arrays);
  if (!json->files || !json->arrays) return no_memory(json, error);
  for (int f = 0; f < json->paths.count; f++) {
    tsr__load_ask ask = { .rt = json->rt,
                          .path = json->paths.path[f],
                          .format = "JSON lines",
                          .what = "tsr_frame_read_json",
                          /* Behind the text there is room to look ahead into. */
                          .pad = TSR__JSON_PAD,
                          .unpack_limit = json->opts.unpack_limit,
                          .opts = &json->opts.file };
    if (tsr__file_load(&ask, &json->files[f], error)) return error->status;
  }
  return TSR_OK;
}

/* Each step needs those before; what they made is closed by who called, in any state. */
static tsr_status open_all(tsr__json *json, const tsr__path_ask *paths, tsr__error *error)
{
  uint8_t *seen = NULL;
  tsr_status status = load(json, paths, error);
  if (!status) status = tsr__json_unwrap(json, error);
  if (!status) status = cut_blocks(json, error);
  if (!status &&
      !tsr__parallel_long(json->rt, "tsr_frame_read_json", json->block_count, look_at_block, json))
    status = tsr__cancelled(error, "tsr_frame_read_json");
  if (!status) status = settle_rows(json, error);
  if (!status) status = unify_names(json, &seen, error);
  if (!status) status = check_any(json, error);
  if (!status) status = make_columns(json, seen, error);
  /* It has a byte for each name of the dictionary. */
  if (seen) tsr__del(json->heap, seen, (size_t)json->name_dict->count + 1);
  return status;
}

tsr__json *tsr__json_open(tsr_runtime *rt, const char *path, const tsr__json_opts *opts,
                          tsr__error *error)
{
  tsr__heap *heap = &rt->heap;
  tsr__json *json = tsr__new(heap, sizeof *json);
  if (!json) {
    tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", path);
    return NULL;
  }
  json->rt = rt;
  json->heap = heap;
  if (opts) json->opts = *opts;
  tsr__path_ask paths = { path, json->opts.more, json->opts.more_count, json->opts.literal_path };
  tsr__arena_init(&json->arena, heap);
  json->path = tsr__paths_said(&json->arena, &paths);
  json->decimal = tsr__decimal_open(heap);
  if (!json->path || !json->decimal) {
    tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", path);
    tsr__json_close(json);
    return NULL;
  }
  /* Also what was half opened: closing takes any state. */
  if (open_all(json, &paths, error)) {
    tsr__json_close(json);
    return NULL;
  }
  return json;
}

void tsr__json_close(tsr__json *json)
{
  if (!json) return;
  tsr__heap *heap = json->heap;
  /* As make_columns made the lists; before it they are NULL. */
  size_t room = (size_t)json->names.count + 1;
  for (int64_t b = 0; json->blocks && b < json->block_count; b++) {
    tsr__json_block *block = &json->blocks[b];
    tsr__dict_local_free(&block->names);
    tsr__json_kept_free(heap, block);
    tsr__del(heap, block->seen, block->seen_room);
    tsr__del(heap, block->bad, block->bad_room * sizeof *block->bad);
  }
  tsr__del(heap, json->blocks, (size_t)json->block_count * sizeof *json->blocks);
  for (int i = 0; i < json->column_count; i++)
    tsr__del(heap, json->columns[i].name, strlen(json->columns[i].name) + 1);
  tsr__del(heap, json->columns, room * sizeof *json->columns);
  tsr__del(heap, json->column_of, room * sizeof *json->column_of);
  tsr__del(heap, json->name_of, room * sizeof *json->name_of);
  tsr__dict_local_free(&json->names);
  tsr__dict_release(json->name_dict);
  for (int f = 0; json->files && f < json->paths.count; f++) tsr__loaded_free(&json->files[f]);
  tsr__del(heap, json->files, (size_t)json->paths.count * sizeof *json->files);
  tsr__del(heap, json->arrays, (size_t)json->paths.count * sizeof *json->arrays);
  tsr__paths_free(&json->paths);
  tsr__decimal_close(json->decimal);
  tsr__arena_free(&json->arena);
  tsr__del(heap, json, sizeof *json);
}

int tsr__json_columns(const tsr__json *json, const tsr__read_column **out)
{
  *out = json->columns;
  return json->column_count;
}

int64_t tsr__json_rows(const tsr__json *json)
{
  return json->rows;
}

int64_t tsr__json_bad_rows(const tsr__json *json)
{
  return json->bad_rows;
}

/* ---- as a reader ----------------------------------------------------------------------------- */

static void json_close(void *file)
{
  tsr__json_close(file);
}

static int json_columns(const void *file, const tsr__read_column **out)
{
  return tsr__json_columns(file, out);
}

static const char *json_path(const void *file)
{
  const tsr__json *json = file;
  return json->path;
}

static int64_t json_size(const void *file)
{
  const tsr__json *json = file;
  int64_t bytes = 0;
  for (int i = 0; i < json->paths.count; i++) bytes += json->files[i].size;
  return bytes;
}

/* All processes look at all lines themselves; with whom rows are shared out matters for
 * dictionaries, which must be the same on all of them. */
static void json_together(void *file, tsr__peers *peers)
{
  tsr__json *json = file;
  json->peers = peers;
}

static tsr_status json_count(void *file, int64_t *rows, tsr__error *error)
{
  (void)error;
  *rows = tsr__json_rows(file);
  return TSR_OK;
}

static tsr_status json_read(void *file, tsr__read_ask *read, tsr__error *error)
{
  return tsr__json_read_parts(file, read, error);
}

const tsr__reader_ops tsr__json_reader = { .format = "json",
                                           .close = json_close,
                                           .columns = json_columns,
                                           .path = json_path,
                                           .count = json_count,
                                           .size = json_size,
                                           .bytes = json_size,
                                           .read = json_read,
                                           .together = json_together };
