/* Specs: the text that says how an array's dims lie over the axes of a mesh.
 *
 *     spec    [dim (',' dim)*] [';' 'sum' '(' axis ('+' axis)* ')'] [';' memory]   at most 16 dims
 *     dim     '-' | '?' | axis ('+' axis)* [':' 'p' ('0' .. '3')]   the first axis is the major one
 *     memory  'device' | 'pinned_host' | 'unpinned_host'
 *
 * '?' leaves a dim to the planner; the axes of sum are those along which parts add up to the value;
 * what stands behind ':' says when a dim may decide how others are cut, p0 first.
 *
 * A sharding is a plain value of 32 bytes, read in one pass without memory: tsr_on stands in
 * every formula. That of a bad text is on a bad mesh, which knows what was wrong and tells whoever
 * uses it. */
#include <stdio.h>

#include "topology/topology.h"

_Static_assert(sizeof(tsr_sharding) == 48, "no padding: shardings are compared by bytes");

/*   "x+y,-,z"     axis  x y z        which axes, in the order of the text
 *                first  0 2 2 3 ...  where those of each dim begin; behind the rank it stays */
struct reader {
  const char *text, *at;
  const tsr_mesh *mesh;
  tsr_sharding *out;
  int used;      /* axes read */
  unsigned mask; /* of the axes read */
};

/* ---- what is wrong ------------------------------------------------------------------------ */

/* What is wrong, by which message says it; the words are put together in word_offence alone. */
enum offence {
  UNKNOWN,   /* no axis of that name */
  TWICE,     /* an axis used twice */
  EMPTY,     /* a dim, or a side of '+', without a name */
  SUM,       /* what follows ';sum' is no list of axes */
  TAIL,      /* what follows ';' is neither a sum nor a kind of memory */
  PRIORITY,  /* what follows ':' is none */
  CHARACTER, /* a character that does not belong there */
  DIMS       /* more dims than an array can have */
};

/* A spec, or the part of it around the offence, and where in it that stands. */
struct words {
  char text[50];
  size_t at, span;
};

/* Bad meshes that need no runtime: a spec is read where there may be none. */
static const tsr__error no_mesh_error = {
  TSR_EAXIS, "a spec names axes, but there is no mesh (NULL); make one with tsr_mesh_make"
};
static const tsr_mesh no_mesh = { .text = (char *)"", .error = (tsr__error *)&no_mesh_error };

static const tsr__error homeless_error = {
  TSR_EAXIS, "a spec names axes, but no scope around has a default mesh; give one to "
             "tsr_scope_use_mesh, or the mesh itself to tsr_on"
};
static const tsr_mesh homeless = { .text = (char *)"", .error = (tsr__error *)&homeless_error };

static const tsr__error newer_error = {
  TSR_EUNSUPPORTED,
  "tsr_on: an option is set that version " TSR_STRINGIZE(TSR_VERSION_MAJOR) "." TSR_STRINGIZE(
      TSR_VERSION_MINOR) "." TSR_STRINGIZE(TSR_VERSION_PATCH) " does not know; load the library "
                                                              "that the program was compiled for"
};
static const tsr_mesh newer_mesh = { .text = (char *)"", .error = (tsr__error *)&newer_error };

/* The text, or the part of it around the offence when it is too long. */
static void cut_words(const char *text, size_t offset, size_t length, struct words *out)
{
  /* As much of a long text as fits, and of it the part with the offence; what is left out at
   * either end is told by dots. */
  const size_t room = sizeof out->text - 1, kept = room - 6; /* "..." at either end */
  size_t whole = strlen(text), start = 0, n = 0, count = whole;

  memset(out, 0, sizeof *out);
  if (whole > room) {
    count = kept;
    if (offset + length > kept) start = length < kept ? offset + length - kept : offset;
    if (start + count > whole) count = whole - start;
  }
  /* An offence longer than all that is shown is cut with it. */
  if (length > start + count - offset) length = start + count - offset;
  if (start) {
    memcpy(out->text, "...", 3);
    n = 3;
  }
  memcpy(out->text + n, text + start, count);
  if (start + count < whole) memcpy(out->text + n + count, "...", 3);
  out->at = offset - start + n;
  out->span = length;
}

/* "; did you mean 'data'?" for a word near to an axis name, else "". */
static const char *near_name(const tsr_mesh *mesh, const char *word, size_t length, char out[64])
{
  const char *names[TSR_MAX_AXES];
  char copy[sizeof(struct words)];

  out[0] = '\0';
  /* A word longer than any name is near to none. */
  if (length >= sizeof copy) return out;
  memcpy(copy, word, length);
  copy[length] = '\0';
  for (int a = 0; a < mesh->axis_count; a++) names[a] = mesh->names[a];
  int nearest = tsr__text_nearest(copy, names, mesh->axis_count);
  if (nearest >= 0) snprintf(out, 64, "; did you mean '%s'?", names[nearest]);
  return out;
}

/* The words of an offence; quotes make what stands in the text fit for a message. */
static tsr_status word_offence(const tsr_mesh *mesh, enum offence kind, const struct words *words,
                               tsr__error *error)
{
  /* A span of 0 is the end of the text, for which there is nothing to quote. */
  const char *axes = tsr_mesh_text(mesh), *at = words->text + words->at;
  char spec[TSR__QUOTE], word[TSR__QUOTE], hint[64];

  tsr__quote(words->text, strlen(words->text), spec);
  tsr__quote(at, words->span, word);
  switch (kind) {
  case UNKNOWN:
    return tsr__error_set(error, TSR_EAXIS, "spec \"%s\": no axis '%s'; the mesh has %s%s", spec,
                          word, axes, near_name(mesh, at, words->span, hint));
  case TWICE:
    return tsr__error_set(
        error, TSR_EAXIS,
        "spec \"%s\": axis '%s' is used twice; each axis of mesh %s shards one dim, once", spec,
        word, axes);
  case EMPTY:
    return tsr__error_set(error, TSR_EAXIS,
                          "spec \"%s\": an axis name is missing %s%s%s; write '-' for a dim that "
                          "is not sharded (mesh %s)",
                          spec, words->span ? "before '" : "at the end", word,
                          words->span ? "'" : "", axes);
  case SUM:
    return tsr__error_set(error, TSR_EAXIS,
                          "spec \"%s\": found %s%s%s after ';', expected the axes of partial sums, "
                          "such as 'sum(x)' or 'sum(x+y)' (mesh %s)",
                          spec, words->span ? "'" : "the end", word, words->span ? "'" : "", axes);
  case TAIL:
    return tsr__error_set(
        error, TSR_EAXIS,
        "spec \"%s\": found %s%s%s after ';', expected the axes of partial sums, such as 'sum(x)', "
        "or a kind of memory: device, pinned_host or unpinned_host (mesh %s)",
        spec, words->span ? "'" : "the end", word, words->span ? "'" : "", axes);
  case PRIORITY:
    return tsr__error_set(error, TSR_EAXIS,
                          "spec \"%s\": found %s%s%s after ':', expected the dim's priority in "
                          "propagation: p0 (first), p1, p2 or p3 (mesh %s)",
                          spec, words->span ? "'" : "the end", word, words->span ? "'" : "", axes);
  case CHARACTER:
    return tsr__error_set(error, TSR_EAXIS,
                          "spec \"%s\": found %s%s%s, expected dims such as "
                          "'-', 'x' or 'x+y' with ',' between them (mesh %s)",
                          spec, words->span ? "'" : "the end", word, words->span ? "'" : "", axes);
  default:
    return tsr__error_set(error, TSR_EAXIS,
                          "spec \"%s\": more dims than the %d an array can have (mesh %s)", spec,
                          TSR_MAX_RANK, axes);
  }
}

/* The result lies on a bad mesh and has no axes. False, for the caller to return. The spec is not
 * read further: one mistake is told. The bad mesh lives as long as the runtime, so the sharding may
 * be copied and kept like any. */
static bool offence(struct reader *reader, enum offence kind, const char *at, size_t length)
{
  tsr_sharding *out = reader->out;
  struct words words;
  tsr__error error = { .status = TSR_OK };

  /* Zeros but for the mesh: whoever uses it anyway finds no axes. */
  memset(out, 0, sizeof *out);
  out->mesh = &no_mesh;
  /* No mesh is what is wrong then, whatever else is: its names could not be told from others. */
  if (!reader->mesh) return false;
  cut_words(reader->text, (size_t)(at - reader->text), length, &words);
  word_offence(reader->mesh, kind, &words, &error);
  out->mesh = tsr__mesh_bad(reader->mesh->rt, &error);
  return false;
}

/* ---- reading ----------------------------------------------------------------------------- */

/* Blanks may stand between any two words. */
static void skip_blanks(struct reader *reader)
{
  while (*reader->at == ' ' || *reader->at == '\t') reader->at++;
}

static int find_axis(const tsr_mesh *mesh, const char *name, size_t length)
{
  for (int a = 0; a < mesh->axis_count; a++)
    if (mesh->lengths[a] == length && memcmp(mesh->names[a], name, length) == 0) return a;
  return -1;
}

/* What stands where a name is due: nothing, or something foreign. Where an end or a separator
 * stands the name is missing; anything else does not belong there. */
static bool nameless(struct reader *reader)
{
  char c = *reader->at;
  bool end = c == '\0' || c == ',' || c == '+' || c == ')' || c == ';' || c == ':';

  return offence(reader, end ? EMPTY : CHARACTER, reader->at, c != '\0');
}

/* Reads the name of an axis that was not used before; -1 where there is none. The name ends where
 * no name can go on, so a misspelt one is told whole. */
static int read_axis(struct reader *reader)
{
  const char *name = reader->at;

  while (tsr__axis_byte((unsigned char)*reader->at)) reader->at++;
  size_t length = (size_t)(reader->at - name);
  int axis = reader->mesh && length ? find_axis(reader->mesh, name, length) : -1;
  if (!length) nameless(reader);
  else if (axis < 0) offence(reader, UNKNOWN, name, length);
  else if (reader->mask >> axis & 1) offence(reader, TWICE, name, length);
  /* Axes are used once over all dims and the sum: one mask for the whole spec. */
  if (axis < 0 || reader->mask >> axis & 1) return -1;
  reader->mask |= 1u << axis;
  return axis;
}

/* What is found where something else must stand. */
static bool foreign(struct reader *reader, enum offence kind)
{
  return offence(reader, kind, reader->at, *reader->at != '\0');
}

/* Reads ":p1" behind the axes of a dim, if a ':' says that it follows. */
static bool read_priority(struct reader *reader, int dim)
{
  if (*reader->at != ':') return true;
  reader->at++;
  skip_blanks(reader);
  const char *at = reader->at;
  size_t length = 0;
  /* The word is taken whole, so that "p12" is named as such. */
  while (tsr__axis_byte((unsigned char)at[length])) length++;
  if (!length) return foreign(reader, PRIORITY);
  if (length != 2 || at[0] != 'p' || at[1] < '0' || at[1] > '3')
    return offence(reader, PRIORITY, at, length);
  tsr__dim_set_priority(reader->out, dim, at[1] - '0');
  reader->at += length;
  skip_blanks(reader);
  return true;
}

/* Reads '-', '?' or axes joined by '+' and their priority, and the blanks around them. `used` axes
 * stand in `axis` by then; first[dim + 1] is set by the caller. */
static bool read_dim(struct reader *reader, int dim)
{
  skip_blanks(reader);
  if (*reader->at == '-' || *reader->at == '?') {
    /* '-' says that a dim is not cut, which is true without a mesh; '?' asks a planner, who has
     * none to plan for. */
    if (*reader->at == '?' && !reader->mesh) return offence(reader, UNKNOWN, reader->at, 1);
    if (*reader->at == '?') reader->out->open |= (uint16_t)(1u << dim);
    reader->at++;
    skip_blanks(reader);
    return true;
  }
  for (;;) {
    int axis = read_axis(reader);
    if (axis < 0) return false;
    reader->out->axis[reader->used++] = (uint8_t)axis;
    skip_blanks(reader);
    if (*reader->at != '+') return read_priority(reader, dim);
    reader->at++;
    skip_blanks(reader);
  }
}

/* Reads dims up to the end, a ')' or a ';'; true with none at all. */
static bool read_dims(struct reader *reader)
{
  tsr_sharding *out = reader->out;

  skip_blanks(reader);
  if (*reader->at == '\0' || *reader->at == ')' || *reader->at == ';') return true;
  for (int dim = 0;; dim++) {
    if (dim == TSR_MAX_RANK) return offence(reader, DIMS, reader->at, strlen(reader->at));
    if (!read_dim(reader, dim)) return false;
    out->first[dim + 1] = (uint8_t)reader->used;
    out->rank = (uint8_t)(dim + 1);
    if (*reader->at != ',') return true;
    reader->at++;
  }
}

/* Reads the axes of "sum(x+y)" and the blanks behind it. At least one axis. */
static bool read_sum(struct reader *reader)
{
  skip_blanks(reader);
  if (*reader->at != '(') return foreign(reader, SUM);
  do {
    reader->at++;
    skip_blanks(reader);
    int axis = read_axis(reader);
    if (axis < 0) return false;
    reader->out->unreduced |= (uint8_t)(1u << axis);
    skip_blanks(reader);
  } while (*reader->at == '+');
  if (*reader->at != ')') return foreign(reader, SUM);
  reader->at++;
  skip_blanks(reader);
  return true;
}

static const char *const memories[] = { "device", "pinned_host", "unpinned_host" };

/* Reads what a ';' says that follows: "sum(x+y)", a kind of memory, or both in this order. Once
 * more behind a sum, for the memory, and then no further. */
static bool read_tail(struct reader *reader, bool sum)
{
  if (*reader->at != ';') return true;
  reader->at++;
  skip_blanks(reader);
  const char *at = reader->at;
  size_t length = 0;
  while (tsr__axis_byte((unsigned char)at[length])) length++;
  reader->at += length;
  skip_blanks(reader);
  if (sum && length == 3 && memcmp(at, "sum", 3) == 0)
    return read_sum(reader) && read_tail(reader, false);
  for (size_t i = 0; i < sizeof memories / sizeof *memories; i++) {
    if (strlen(memories[i]) != length || memcmp(at, memories[i], length) != 0) continue;
    reader->out->memory = (uint8_t)i;
    return reader->mesh || !i ? true : offence(reader, UNKNOWN, at, length);
  }
  return offence(reader, TAIL, at, length ? length : *at != '\0');
}

/* Parentheses around all of it, and nothing behind. */
static bool read_spec(struct reader *reader)
{
  skip_blanks(reader);
  /* Types write specs in parentheses (f32[8]@(x)), and what is printed can be read again. */
  bool open = *reader->at == '(';
  reader->at += open;
  if (!read_dims(reader) || !read_tail(reader, true)) return false;
  if (open) {
    if (*reader->at != ')') return foreign(reader, CHARACTER);
    reader->at++;
    skip_blanks(reader);
  }
  return *reader->at ? foreign(reader, CHARACTER) : true;
}

/* Dims past the last one named have no axes; "-" alone names none, as it fits any rank. Filled
 * up behind the rank, so that nobody who asks for a dim's axes need look at it. */
static void finish(tsr_sharding *out, int used)
{
  for (int d = out->rank; d < TSR_MAX_RANK; d++) out->first[d + 1] = (uint8_t)used;
  if (out->rank == 1 && !used && !out->open) out->rank = 0;
}

tsr_sharding tsr_on_with(const tsr_mesh *mesh, const char *spec, const tsr_on_opts *opts)
{
  tsr_sharding out = { .mesh = mesh, .strict = opts && opts->strict };
  struct reader reader = { .text = spec, .at = spec, .mesh = mesh, .out = &out };

  /* It lies on the mesh that was bad before: the first mistake is the one that is told. */
  if (mesh && mesh->error) return out;
  if (opts && tsr__opts_beyond(opts, opts->size, sizeof *opts)) out.mesh = &newer_mesh;
  else if (spec && read_spec(&reader)) finish(&out, reader.used);
  return out;
}

tsr_sharding tsr_on_scope(const tsr_scope *scope, const char *spec, const tsr_on_opts *opts)
{
  const tsr_mesh *mesh = tsr_scope_mesh(scope);
  tsr_sharding out = tsr_on_with(mesh, spec, opts);

  /* The same mistake, in the words of a call that was never given a mesh. */
  if (!mesh && out.mesh == &no_mesh) out.mesh = &homeless;
  return out;
}

/* Axes of each dim by name, joined by '+' as in a spec; NULL or "" for a dim that is not cut. */
tsr_sharding tsr_on_dims(const tsr_mesh *mesh, int rank, const char *const *axes)
{
  tsr_sharding out = { .mesh = mesh };
  struct reader reader = { .text = "", .at = "", .mesh = mesh, .out = &out };

  if (mesh && mesh->error) return out;
  if (rank < 0 || rank > TSR_MAX_RANK) {
    offence(&reader, DIMS, reader.at, 0);
    return out;
  }
  for (int d = 0; axes && d < rank; d++) {
    /* Each dim is a text of its own here, without commas, and messages show that one. */
    reader.text = reader.at = axes[d] ? axes[d] : "-";
    skip_blanks(&reader);
    if (*reader.at && !read_dim(&reader, d)) return out;
    if (*reader.at) {
      foreign(&reader, CHARACTER);
      return out;
    }
    out.first[d + 1] = (uint8_t)reader.used;
  }
  out.rank = (uint8_t)rank;
  for (int d = rank; d < TSR_MAX_RANK; d++) out.first[d + 1] = (uint8_t)reader.used;
  return out;
}

/* ---- writing ----------------------------------------------------------------------------- */

/* Writes the name of an axis, `out` holds it, and returns its length. */
static size_t name_write(const tsr_mesh *mesh, int axis, char *out)
{
  memcpy(out, mesh->names[axis], mesh->lengths[axis]);
  return mesh->lengths[axis];
}

/* Writes the axes of a dim, "data+model", "-" or "?"; `out` holds what 8 names take. Read again it
 * gives the same: what is written is the notation of read_dim. */
static size_t axes_write(const tsr_sharding *sharding, int dim, char *out)
{
  int first = sharding->first[dim], last = sharding->first[dim + 1];
  size_t n = 0;

  if (first == last) out[n++] = sharding->open >> dim & 1 ? '?' : '-';
  for (int i = first; i < last; i++) {
    if (i > first) out[n++] = '+';
    n += name_write(sharding->mesh, sharding->axis[i], out + n);
  }
  out[n] = '\0';
  return n;
}

/* As axes_write, and ":p1" where there is a priority. */
static size_t dim_write(const tsr_sharding *sharding, int dim, char *out)
{
  size_t n = axes_write(sharding, dim, out);
  int priority = tsr__dim_priority(sharding, dim);

  if (!priority) return n;
  memcpy(out + n, ":p", 2);
  out[n + 2] = (char)('0' + priority);
  out[n + 3] = '\0';
  return n + 3;
}

/* Writes ";sum(x+y)", in the order of the mesh, or nothing. The order of the text is lost, since
 * `unreduced` is a set. */
static size_t sum_write(const tsr_sharding *sharding, char *out)
{
  size_t n = 0;

  for (int a = 0; a < sharding->mesh->axis_count; a++) {
    if (!(sharding->unreduced >> a & 1)) continue;
    memcpy(out + n, n ? "+" : ";sum(", n ? 1 : 5);
    n += n ? 1 : 5;
    n += name_write(sharding->mesh, a, out + n);
  }
  if (n) out[n++] = ')';
  return n;
}

/* 8 names, ',', ':p1', sum() and memory fit. */
enum { SPEC_ROOM = TSR_MAX_AXES * 32 + 5 * TSR_MAX_RANK + 40 };

/* Writes at least `rank` dims, and all that have axes. */
static size_t spec_write(const tsr_sharding *sharding, int rank, char out[SPEC_ROOM])
{
  size_t n = 0;

  if (!sharding->mesh) return (size_t)snprintf(out, SPEC_ROOM, "unplaced");
  if (sharding->mesh->error) return (size_t)snprintf(out, SPEC_ROOM, "(?)");
  /* Dims that are cut are never left out, even beyond the rank asked for: a message about too
   * many of them must show them. */
  while (rank < TSR_MAX_RANK &&
         (sharding->first[rank] < sharding->first[TSR_MAX_RANK] || sharding->open >> rank))
    rank++;
  out[n++] = '(';
  for (int d = 0; d < rank; d++) {
    if (d) out[n++] = ',';
    n += dim_write(sharding, d, out + n);
  }
  n += sum_write(sharding, out + n);
  if (sharding->memory)
    n += (size_t)snprintf(out + n, SPEC_ROOM - n, ";%s", memories[sharding->memory]);
  out[n++] = ')';
  out[n] = '\0';
  return n;
}

/* The length that the text has, whatever fits, as snprintf gives it. */
int tsr_sharding_text(const tsr_sharding *sharding, int rank, char *out, size_t capacity)
{
  const tsr_sharding unplaced = { .mesh = NULL };
  char text[SPEC_ROOM];
  int dims = rank < 0 ? 0 : rank > TSR_MAX_RANK ? TSR_MAX_RANK : rank;
  size_t n = spec_write(sharding ? sharding : &unplaced, dims, text);

  if (out && capacity) {
    size_t copy = n < capacity ? n : capacity - 1;
    memcpy(out, text, copy);
    out[copy] = '\0';
  }
  return (int)n;
}

/* ---- checking ---------------------------------------------------------------------------- */

/* Words the failure of a strict sharding: the nearest sizes that divide, on either side. */
static tsr_status uneven_fail(const tsr_sharding *sharding, int dim, const char *type, int64_t size,
                              tsr__error *error)
{
  char axes[TSR_MAX_AXES * 33 + 1];
  /* Below the number of parts only a size of 0 divides, which nobody means; beyond the last
   * multiple there is no larger one. */
  int64_t parts = tsr__dim_parts(sharding, dim), below = size - size % parts;
  /* One axis or axes: for the words. */
  int count = sharding->first[dim + 1] - sharding->first[dim];
  const char *mesh = tsr_mesh_text(sharding->mesh);

  axes_write(sharding, dim, axes);
  if (below == 0)
    return tsr__error_set(error, TSR_ESHAPE,
                          "dim %d of %s is %lld, not a multiple of ax%s %s = "
                          "%lld of mesh %s; the nearest size that divides is %lld, or leave "
                          "strict out",
                          dim, type, (long long)size, count > 1 ? "es" : "is", axes,
                          (long long)parts, mesh, (long long)parts);
  if (below > INT64_MAX - parts)
    return tsr__error_set(error, TSR_ESHAPE,
                          "dim %d of %s is %lld, not a multiple of ax%s %s = "
                          "%lld of mesh %s; the nearest size that divides is %lld, or leave "
                          "strict out",
                          dim, type, (long long)size, count > 1 ? "es" : "is", axes,
                          (long long)parts, mesh, (long long)below);
  return tsr__error_set(error, TSR_ESHAPE,
                        "dim %d of %s is %lld, not a multiple of ax%s %s = "
                        "%lld of mesh %s; nearest sizes that divide are %lld and %lld, or leave "
                        "strict out",
                        dim, type, (long long)size, count > 1 ? "es" : "is", axes, (long long)parts,
                        mesh, (long long)below, (long long)(below + parts));
}

/* What is no place for data: a mesh without devices, a dim that nobody cut, sums not yet made,
 * memory that devices do not have. */
static tsr_status no_place(const tsr_sharding *sharding, int rank, tsr__error *error)
{
  char spec[SPEC_ROOM];

  spec_write(sharding, rank, spec);
  if (sharding->open)
    return tsr__error_set(error, TSR_EAXIS,
                          "spec %s leaves dim %d to the planner ('?'), but data needs a sharding; "
                          "write '-' or an axis of mesh %s",
                          spec, __builtin_ctz(sharding->open), tsr_mesh_text(sharding->mesh));
  if (sharding->mesh->missing)
    return tsr__error_set(error, TSR_EAXIS,
                          "mesh %s of a loaded function has %d devices, more than the runtime; "
                          "open the runtime with that many, or name a mesh of this runtime",
                          tsr_mesh_text(sharding->mesh), tsr_mesh_device_count(sharding->mesh));
  if (sharding->mesh->abstract)
    return tsr__error_set(error, TSR_EAXIS,
                          "mesh %s is abstract: sizes without devices, which hold no data; make "
                          "the mesh with tsr_mesh_make",
                          tsr_mesh_text(sharding->mesh));
  if (sharding->memory)
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "spec %s asks for memory of kind '%s', but data lies only in 'device', "
                          "the default; leave ';%s' out (mesh %s)",
                          spec, memories[sharding->memory], memories[sharding->memory],
                          tsr_mesh_text(sharding->mesh));
  return tsr__error_set(error, TSR_EUNSUPPORTED,
                        "spec %s asks for partial sums, but the given data are the values "
                        "themselves; leave ';sum' out (mesh %s)",
                        spec, tsr_mesh_text(sharding->mesh));
}

/* Mesh, rank and strictness: what index maps need. */
static tsr_status check_form(const tsr_sharding *sharding, tsr_dtype dtype, const tsr_shape *shape,
                             tsr__error *error)
{
  char type[1024];

  if (!sharding->mesh) return TSR_OK;
  if (sharding->mesh->error)
    return tsr__error_set(error, tsr_mesh_status(sharding->mesh), "%s",
                          tsr_mesh_message(sharding->mesh));
  /* A spec may name fewer dims than there are: the rest is whole. More would be lost in silence. */
  if (sharding->rank > shape->rank) {
    /* The first character stands for a dtype that is not known, and is left out. */
    tsr_type_text(dtype, *shape, NULL, type, sizeof type);
    char spec[512];
    tsr_sharding_text(sharding, sharding->rank, spec, sizeof spec);
    return tsr__error_set(error, TSR_ESHAPE,
                          "spec %s names %d dims, but %s has %d; leave out the "
                          "last %d (mesh %s)",
                          spec, sharding->rank, type + !dtype, shape->rank,
                          sharding->rank - shape->rank, tsr_mesh_text(sharding->mesh));
  }
  /* Empty dims and those of the run's size divide. */
  for (int d = 0; sharding->strict && d < shape->rank; d++) {
    if (shape->dims[d] <= 0 || shape->dims[d] % tsr__dim_parts(sharding, d) == 0) continue;
    tsr_type_text(dtype, *shape, sharding, type, sizeof type);
    return uneven_fail(sharding, d, type + !dtype, shape->dims[d], error);
  }
  return TSR_OK;
}

/* For data: on top of the form, all of it must be somewhere. */
tsr_status tsr__sharding_check_type(const tsr_sharding *sharding, tsr_dtype dtype,
                                    const tsr_shape *shape, tsr__error *error)
{
  if (check_form(sharding, dtype, shape, error)) return error->status;
  const tsr_sharding *s = sharding;
  if (!s->mesh || !(s->mesh->abstract || s->open || s->unreduced || s->memory)) return TSR_OK;
  return no_place(sharding, shape->rank, error);
}

/* For questions and for what a program computes: a sum that is not made yet has a form, too. */
tsr_status tsr__sharding_check_form(const tsr_sharding *sharding, const tsr_shape *shape,
                                    tsr__error *error)
{
  if (check_form(sharding, (tsr_dtype)0, shape, error)) return error->status;
  return sharding->open ? no_place(sharding, shape->rank, error) : TSR_OK;
}

tsr_status tsr__sharding_check(const tsr_sharding *sharding, const tsr_shape *shape,
                               tsr__error *error)
{
  return tsr__sharding_check_type(sharding, (tsr_dtype)0, shape, error);
}
