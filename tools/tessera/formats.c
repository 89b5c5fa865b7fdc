/* Sources of files. Each format is a row of a table: its extensions, and the call that opens it. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tool.h"

/* Source locations of this program would say nothing to its users. */
#undef TSR_HERE
#define TSR_HERE NULL

/* ---- layouts --------------------------------------------------------------------------------- */

typedef struct layout {
  char names[TSR_MAX_FIELDS][TOOL_NAME];
  tsr_record_field fields[TSR_MAX_FIELDS];
  int count;
} layout;

static bool no_layout(const char *at)
{
  fprintf(stderr,
          "tessera: --layout takes 'NAME TYPE, ...', such as 'label u8, image u8[3,32,32]', "
          "found '%.100s'\n",
          at);
  return false;
}

/* Reads one "image u8[3,32,32]" of the list; false: an error, which was printed. */
static bool take_field(tsr_scope *s, const char *at, size_t length, layout *out)
{
  char text[160];
  size_t name = strcspn(at, " \t,"), type = name + strspn(at + name, " \t");
  while (length && strchr(" \t", at[length - 1])) length--;
  if (!name || type >= length || name >= sizeof out->names[0] || length - type + 3 > sizeof text)
    return no_layout(at);
  if (out->count == TSR_MAX_FIELDS) {
    fprintf(stderr, "tessera: --layout has more than %d fields\n", TSR_MAX_FIELDS);
    return false;
  }
  snprintf(out->names[out->count], sizeof out->names[0], "%.*s", (int)name, at);
  /* The type of a scalar may omit its brackets. */
  snprintf(text, sizeof text, "%.*s%s", (int)(length - type), at + type,
           at[length - 1] == ']' ? "" : "[]");
  tsr_type read;
  if (tsr_type_parse(s, NULL, text, &read)) {
    tool_fail(s);
    return false;
  }
  out->fields[out->count] = (tsr_record_field){ out->names[out->count], read.dtype, read.shape };
  out->count++;
  return true;
}

/* Reads the fields of --layout, in order. False: an error, which was printed. */
static bool read_layout(tsr_scope *s, const tool_args *args, layout *out)
{
  const char *at = tool_value(args, OPT_LAYOUT);
  out->count = 0;
  while (at && *at) {
    size_t length = 0;
    at += strspn(at, " \t");
    /* A comma between brackets separates sizes, not fields. */
    for (bool inside = false; at[length] && (inside || at[length] != ','); length++)
      inside = at[length] == '[' || (inside && at[length] != ']');
    if (!take_field(s, at, length, out)) return false;
    at += length + (at[length] == ',');
  }
  return true;
}

/* ---- formats --------------------------------------------------------------------------------- */

/* The arguments of a row's open call. */
typedef struct opening {
  tsr_scope *s;
  const tool_args *args;
  layout *layout;
} opening;

typedef tsr_source *open_fn(const opening *o, const char *path);

/* The most bytes of an unpacked file; 0: the default. */
static int64_t limit_of(const opening *o)
{
  return o->args->unpack_limit > 0 ? o->args->unpack_limit : 0;
}

/* Selects the fields of --fields. */
static tsr_source *chosen(const opening *o, tsr_source *source)
{
  const char *names = tool_value(o->args, OPT_FIELDS);
  return names ? tsr_source_select(source, names) : source;
}

static tsr_source *open_npz(const opening *o, const char *path)
{
  return chosen(o, tsr_source_npz(o->s, path));
}

static tsr_source *open_npy(const opening *o, const char *path)
{
  return chosen(o, tsr_source_npy(o->s, path));
}

static tsr_source *open_binary(const opening *o, const char *path)
{
  tsr_binary_args args = { .size = sizeof args,
                           .header = o->args->header > 0 ? o->args->header : 0,
                           .unpack_limit = limit_of(o) };
  memcpy(args.fields, o->layout->fields, sizeof args.fields);
  return chosen(o, tsr_source_binary_with(o->s, path, &args, TSR_HERE));
}

/* Without --layout the fields are the features of the first records; a feature with different
 * numbers of values is ragged. */
static tsr_source *open_tfrecord(const opening *o, const char *path)
{
  tsr_tfrecord_args args = { .size = sizeof args, .unpack_limit = limit_of(o) };
  static char ragged[TSR_MAX_FIELDS * 2 * TOOL_NAME];
  if (!o->layout->count) {
    tool_feature_list found = { .names = o->layout->names, .fields = o->layout->fields };
    if (!tool_features(o->s, path, limit_of(o), &found)) {
      if (!tsr_scope_status(o->s))
        fprintf(
            stderr,
            "tessera: %s: no tf.Example found at the start; if this is a TFRecord file, give the "
            "fields of its records with --layout\n",
            path);
      return NULL;
    }
    o->layout->count = found.count;
    for (int i = 0; i < found.count; i++)
      if (found.ragged[i]) {
        if (*ragged) strcat(ragged, ",");
        *tool_put_name(ragged + strlen(ragged), found.names[i]) = 0;
      }
    args.ragged = *ragged ? ragged : NULL;
    args.cut = true;
    args.defaults = found.sparse;
    fprintf(stderr, "tessera: note: the fields are those of the first %s; --layout sets others\n",
            found.records == 1 ? "record" : "records");
  }
  memcpy(args.fields, o->layout->fields, sizeof args.fields);
  return chosen(o, tsr_source_tfrecord_with(o->s, path, &args, TSR_HERE));
}

static tsr_source *open_lines(const opening *o, const char *path)
{
  return chosen(o, tsr_source_lines(o->s, path, .unpack_limit = limit_of(o)));
}

static tsr_source *open_tar(const opening *o, const char *path)
{
  tsr_tar_args args = { .size = sizeof args, .unpack_limit = limit_of(o) };
  memcpy(args.fields, o->layout->fields, sizeof args.fields);
  return chosen(o, tsr_source_tar_with(o->s, path, &args, TSR_HERE));
}

static tsr_source *open_safetensors(const opening *o, const char *path)
{
  return chosen(o, tsr_source_safetensors(o->s, path, NULL));
}

static tsr_source *open_folder(const opening *o, const char *path)
{
  return chosen(o, tsr_source_folder(o->s, path));
}

/* Reads all rows, with the options of commands that read tables. */
static tsr_source *open_frame(const opening *o, const char *path)
{
  tool_args one = *o->args;
  one.files[0] = path;
  one.file_count = 1;
  tsr_frame *df = tool_read_all(o->s, &one);
  for (int i = 0; i < one.count[OPT_WHERE]; i++) df = tsr_frame_filter(df, one.value[OPT_WHERE][i]);
  const char *fields = tool_value(o->args, OPT_FIELDS);
  return tsr_source_frame(fields ? tsr_frame_select(df, fields) : df);
}

/* Whether a format takes --layout; always: its files do not name their fields. */
typedef enum taken { NEVER, PERHAPS, ALWAYS } taken;

typedef struct format {
  const char *name, *extensions; /* each with its dot */
  taken layout;
  open_fn *open;
} format;

static const format formats[] = {
  { "npz", ".npz", NEVER, open_npz },
  { "npy", ".npy", NEVER, open_npy },
  { "safetensors", ".safetensors", NEVER, open_safetensors },
  { "tfrecord", ".tfrecord .tfrecords", PERHAPS, open_tfrecord },
  { "binary", ".bin", ALWAYS, open_binary },
  { "lines", ".txt .text .log", NEVER, open_lines },
  { "tar", ".tar .tgz", PERHAPS, open_tar },
  { "folder", "", NEVER, open_folder },
  { "csv", ".csv", NEVER, open_frame },
  { "tsv", ".tsv", NEVER, open_frame },
  { "json", ".jsonl .ndjson .json", NEVER, open_frame },
};
enum { FORMATS = sizeof formats / sizeof *formats };

static bool ends_as(const format *f, const char *path)
{
  char extension[32];
  for (const char *at = f->extensions; *at; at += strspn(at, " ")) {
    size_t length = strcspn(at, " ");
    snprintf(extension, sizeof extension, "%.*s", (int)length, at);
    if (tool_has_extension(path, extension)) return true;
    at += length;
  }
  return false;
}

static const format *format_of(const tool_args *args, const char *path)
{
  const char *from = tool_value(args, OPT_RECORDS);
  struct stat entry;
  /* The name of a folder gives no format. */
  if (!from && stat(path, &entry) == 0 && S_ISDIR(entry.st_mode)) from = "folder";
  /* Names of data sets in several files, "train.tfrecord-00000-of-00010". */
  if (!from && (strstr(path, ".tfrecord-") || strstr(path, ".tfrecords-"))) from = "tfrecord";
  for (int i = 0; i < FORMATS; i++)
    if (from ? !strcmp(from, formats[i].name) : ends_as(&formats[i], path)) return &formats[i];
  return NULL;
}

static tsr_source *open_one(const opening *o, const char *path)
{
  const format *f = format_of(o->args, path);
  if (!f) {
    fprintf(stderr, "tessera: the name '%s' gives no format; give --from, one of:", path);
    for (int i = 0; i < FORMATS; i++) fprintf(stderr, " %s", formats[i].name);
    fputc('\n', stderr);
    return NULL;
  }
  if (f->layout == NEVER && o->layout->count) {
    fprintf(stderr, "tessera: --layout is not for %s: '%s' names its own fields\n", f->name, path);
    return NULL;
  }
  if (f->layout == ALWAYS && !o->layout->count) {
    fprintf(stderr,
            "tessera: a %s file does not name its fields; give them, such as --layout "
            "'label u8, image u8[3,32,32]'\n",
            f->name);
    return NULL;
  }
  if (f->open != open_frame && o->args->count[OPT_WHERE]) {
    fprintf(stderr, "tessera: --where is for CSV and JSON; '%s' is %s\n", path, f->name);
    return NULL;
  }
  tsr_source *source = f->open(o, path);
  if (!tsr_scope_status(o->s)) return source; /* NULL: printed */
  tool_fail(o->s);
  return NULL;
}

tsr_source *tool_source(tsr_scope *s, const tool_args *args)
{
  static layout fields;
  tsr_source *parts[TOOL_MOST];
  tool_args how = *args;
  /* Frames have their own formats. */
  const char *from = tool_value(args, OPT_RECORDS);
  how.value[OPT_FROM][0] = from;
  how.count[OPT_FROM] = from != NULL;
  opening o = { s, &how, &fields };
  if (!read_layout(s, args, &fields)) return NULL;
  for (int i = 0; i < args->file_count; i++)
    if (!(parts[i] = open_one(&o, args->files[i]))) return NULL;
  tsr_source *all =
      args->file_count == 1 ? parts[0] : tsr_source_concat_at(parts, args->file_count, TSR_HERE);
  if (args->count[OPT_SHUFFLE])
    all = tsr_source_shuffle(all, .seed = args->seed > 0 ? (uint64_t)args->seed : 0);
  if (!tsr_scope_status(s)) return all;
  tool_fail(s);
  return NULL;
}
