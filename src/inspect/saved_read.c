/* A function read from its text; the form stands in saved_write.c. Blanks and lines separate words
 * and mean nothing else, and what stands between # and the end of a line is for people.
 *
 * Every node is verified when it was read, as the nodes of other programs are, so that what is
 * wrong is said with its line and nothing that comes later has to look again.
 *
 *   text --word by word--> line (a node) --verify--> program --> region; the last is the function
 *
 * Invariant: a text is a stranger's. Counts are bounded before memory is asked for, indices before
 * they are used, and what was made until an error is released by tsr__saved_read or by who has
 * `out`. */
#include "graph/verify.h"
#include "inspect/saved_text.h"

#include <math.h>

typedef struct reader {
  const tsr__text_ask *ask;
  /* The text need not end in a NUL: nothing is read at or behind `end`. */
  const char *at, *end;
  tsr__saved *out;
  tsr__error *error;
  int region_count;
  tsr__region *regions[TSR__TEXT_REGIONS]; /* held */
} reader;

/* ---- saying what is wrong -------------------------------------------------------------------- */

/* At a place of the text; the first error counts. False, so that it can be returned. */
static bool fail_at(reader *r, const char *at, const char *format, ...) TSR_PRINTF(3, 4);
/* Lines are counted only now, from the start of the text: nobody needs them as long as all is
 * well. */
static bool fail_at(reader *r, const char *at, const char *format, ...)
{
  tsr__error found = { .status = TSR_OK };
  int line = 1, column = 1;
  va_list args;
  for (const char *p = r->ask->text; p < at; p++) {
    column = *p == '\n' ? 1 : column + 1;
    line += *p == '\n';
  }
  va_start(args, format);
  tsr__error_vset(&found, TSR_EPARSE, format, args);
  va_end(args);
  tsr__error_set(r->error, TSR_EPARSE, "line %d, column %d: %s", line, column, found.text);
  return false;
}

/* What stands at a place, for messages. */
typedef struct found {
  char text[24];
} found;

/* Bytes that are no ASCII become '?', as the word may be cut within a character. */
static found word_at(const reader *r, const char *at)
{
  found f = { "" };
  size_t n = 0;
  while (at + n < r->end && n < sizeof f.text - 1 && (unsigned char)at[n] > ' ') n++;
  memcpy(f.text, at, n);
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)f.text[i] >= 0x7F) f.text[i] = '?';
  if (at >= r->end) memcpy(f.text, "the end", sizeof "the end");
  else if (!n) memcpy(f.text, "a blank", sizeof "a blank");
  return f;
}

/* A plain false is taken for that too (tsr__saved_read), as what adds nodes says no more. */
static bool no_memory(reader *r)
{
  tsr__error_set(r->error, TSR_ENOMEM, "no memory for the function; close some scopes");
  return false;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* strchr finds the NUL at the end of its list, so a zero byte in the text is told from a blank. */
static void skip(reader *r)
{
  for (; r->at < r->end; r->at++) {
    if (*r->at == '#')
      while (r->at < r->end && *r->at != '\n') r->at++;
    if (r->at >= r->end || !strchr(" \t\r\n", *r->at) || !*r->at) return;
  }
}

/* Whether a mark stands next, which it then is behind. Blanks before it are gone even where it does
 * not stand there; `at` of an error is taken after that. A mark may be the start of a longer word:
 * what follows is told wrong by whoever reads on. */
static bool take(reader *r, const char *mark)
{
  size_t length = strlen(mark);
  skip(r);
  if ((size_t)(r->end - r->at) < length || memcmp(r->at, mark, length)) return false;
  r->at += length;
  return true;
}

static bool want(reader *r, const char *mark)
{
  return take(r, mark) ||
         fail_at(r, r->at, "found \"%s\", expected \"%s\"", word_at(r, r->at).text, mark);
}

static bool is_letter(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* A name of small letters, digits and underlines, cut to `out`. What is longer is cut at 31 and
 * then known to nobody, as no operation or field has such a name. */
static bool want_name(reader *r, const char *what, char out[32])
{
  size_t n = 0;
  skip(r);
  while (r->at + n < r->end && n < 31 && is_letter(r->at[n])) n++;
  if (!n) return fail_at(r, r->at, "found \"%s\", expected %s", word_at(r, r->at).text, what);
  memcpy(out, r->at, n);
  out[n] = 0;
  r->at += n;
  return true;
}

/* A whole number from `least` to `most`; `u64`: the upper half of that type, too. */
typedef struct range {
  int64_t least, most;
  bool u64;
} range;

static bool want_whole(reader *r, range in, int64_t *out)
{
  skip(r);
  const char *at = r->at;
  bool minus = r->at < r->end && *r->at == '-';
  if (minus && in.u64)
    return fail_at(r, at, "%s is out of range, expected 0 to %llu", word_at(r, at).text,
                   (unsigned long long)UINT64_MAX);
  /* By sign, so that the least i64, which is no positive one, can be read. */
  uint64_t value = 0, limit = minus ? (uint64_t)1 << 63 : in.u64 ? UINT64_MAX : (uint64_t)INT64_MAX;
  if (minus) r->at++;
  const char *first = r->at;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
    uint64_t digit = (uint64_t)(*r->at - '0');
    if (value > (limit - digit) / 10) return fail_at(r, at, "the number is too large");
    value = value * 10 + digit;
  }
  if (r->at == first)
    return fail_at(r, at, "found \"%s\", expected a whole number", word_at(r, at).text);
  *out = minus ? (int64_t)(0 - value) : (int64_t)value;
  if (!in.u64 && (*out < in.least || *out > in.most))
    return fail_at(r, at, "%lld is out of range, expected %lld to %lld", (long long)*out,
                   (long long)in.least, (long long)in.most);
  return true;
}

static bool want_index(reader *r, int64_t most, int *out)
{
  int64_t value;
  if (!want_whole(r, (range){ 0, most, false }, &value)) return false;
  *out = (int)value;
  return true;
}

static int hex_of(char c)
{
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* At most `most` hexadecimal digits; how many there were. */
static int take_hex(reader *r, int most, uint64_t *out)
{
  int count = 0;
  for (*out = 0; r->at < r->end && count < most && hex_of(*r->at) >= 0; r->at++, count++)
    *out = *out << 4 | (uint64_t)hex_of(*r->at);
  return count;
}

/* A text in quotes, into the scope's arena. No longer than what stands between them, where a quote
 * is an escape, which is more than the byte that it stands for. */
static bool want_text(reader *r, const char **out)
{
  if (!want(r, "\"")) return false;
  const char *first = r->at, *end = first;
  while (end < r->end && *end != '"' && *end != '\n') end++;
  char *text = tsr__arena_raw(&r->ask->scope->arena, (size_t)(end - first) + 1), *to = text;
  if (!text) return no_memory(r);
  for (; r->at < end; to++) {
    uint64_t byte = (unsigned char)*r->at++;
    bool escape = byte == '\\';
    if (escape && !(r->at < end && *r->at++ == 'x' && take_hex(r, 2, &byte) == 2 && byte))
      return fail_at(r, r->at, "a backslash begins \\x and two digits, but not of zero");
    if (!byte) return fail_at(r, r->at, "a text has a byte of zero");
    *to = (char)byte;
  }
  *to = 0;
  *out = text;
  return take(r, "\"") || fail_at(r, first, "the text has no closing quote on its line");
}

/* ---- floats ---------------------------------------------------------------------------------- */

/* 0x1.8p+3 behind the sign: digits of which all but the first few are zero would not be exact. */
static bool want_hex_float(reader *r, double *out)
{
  const char *at = r->at;
  uint64_t whole, fraction = 0;
  int64_t power;
  int digits = 0;
  if (!want(r, "0x")) return false;
  bool good = take_hex(r, 1, &whole) == 1 && whole < 2;
  if (good && r->at < r->end && *r->at == '.') {
    r->at++;
    digits = take_hex(r, 13, &fraction);
    good = digits > 0;
  }
  good = good && r->at < r->end && *r->at == 'p';
  if (good) r->at++;
  if (good && r->at < r->end && *r->at == '+') r->at++;
  if (!good)
    return fail_at(r, at, "found \"%s\", expected a number like 0x1.8p+0", word_at(r, at).text);
  if (!want_whole(r, (range){ -1100, 1100, false }, &power)) return false;
  double mantissa = (double)(whole << 52 | fraction << (4 * (13 - digits)));
  *out = ldexp(mantissa, (int)power - 52);
  /* Back again: not from an infinity, nor from a denormal that has fewer bits. */
  return ldexp(*out, 52 - (int)power) == mantissa ||
         fail_at(r, at, "%s cannot hold this number exactly", tsr_dtype_name(TSR_F64));
}

/* A number of a dtype of floats as its bits, which it must have exactly. */
static bool want_float(reader *r, tsr_dtype dtype, void *to, int64_t i)
{
  skip(r);
  const char *at = r->at;
  size_t size = tsr_dtype_size(dtype);
  uint64_t bits;
  /* Infinity is what "inf" leaves as it is. */
  double value = INFINITY;
  if (take(r, "nan:")) {
    if (take_hex(r, (int)(2 * size), &bits) != (int)(2 * size))
      return fail_at(r, at, "expected nan: and %d digits", (int)(2 * size));
    memcpy((char *)to + (size_t)i * size, &bits, size);
    return isnan(tsr__dtype_get_real(dtype, to, i)) ||
           fail_at(r, at, "these digits are not the bits of a NaN");
  }
  bool minus = take(r, "-");
  if (!take(r, "inf") && !want_hex_float(r, &value)) return false;
  if (minus) value = -value;
  if (tsr__dtype_round(dtype, value) != value)
    return fail_at(r, at, "%s cannot hold this number exactly", tsr_dtype_name(dtype));
  tsr__dtype_put_real(dtype, to, i, value);
  return true;
}

/* ---- types ----------------------------------------------------------------------------------- */

static bool want_dtype(reader *r, uint8_t *out)
{
  char name[32];
  skip(r);
  const char *at = r->at;
  if (!want_name(r, "a dtype", name)) return false;
  for (int d = 1; tsr__dtype_known((tsr_dtype)d); d++)
    if (!strcmp(tsr_dtype_name((tsr_dtype)d), name)) {
      *out = (uint8_t)d;
      return true;
    }
  return fail_at(r, at, "there is no dtype \"%s\"", name);
}

/* Whether the mesh has devices is no matter here: a function for a larger machine can be looked
 * at. */
static bool want_place(reader *r, const tsr__result *type, tsr_sharding *out)
{
  const char *spec;
  int mesh;
  *out = (tsr_sharding){ 0 };
  if (!take(r, "@")) return true;
  const char *at = r->at;
  if (!r->out->mesh_count)
    return fail_at(r, at, "the type names a mesh, but no mesh stands before");
  if (!want_index(r, r->out->mesh_count - 1, &mesh) || !want_text(r, &spec)) return false;
  tsr_sharding place = tsr_on_with(r->out->meshes[mesh], spec, NULL);
  if (tsr_mesh_status(place.mesh)) return fail_at(r, at, "%s", tsr_mesh_message(place.mesh));
  tsr_shape shape = { .rank = type->rank };
  tsr__error error = { .status = TSR_OK };
  for (int d = 0; d < type->rank; d++) shape.dims[d] = type->dims[d] < 0 ? 0 : type->dims[d];
  /* '?' and sums are no places for data, which the check would refuse; for a node they are. */
  bool given = !place.open && !place.unreduced;
  if (given && tsr__sharding_check_form(&place, &shape, &error))
    return fail_at(r, at, "%s", error.text);
  if (place.rank > type->rank) return fail_at(r, at, "the spec names more dims than the array has");
  *out = tsr__sharding_canon(&place);
  return true;
}

/* "f32[8,4]", and how it lies. */
static bool want_type(reader *r, tsr__result *out, tsr_sharding *place)
{
  *out = (tsr__result){ .dtype = 0 };
  if (!want_dtype(r, &out->dtype) || !want(r, "[")) return false;
  const char *at = r->at;
  while (!take(r, "]")) {
    if (out->rank == TSR_MAX_RANK) return fail_at(r, r->at, "more than %d dims", TSR_MAX_RANK);
    if (out->rank && !want(r, ",")) return false;
    if (!want_whole(r, (range){ TSR__DYNAMIC, INT64_MAX, false }, &out->dims[out->rank++]))
      return false;
  }
  tsr_shape shape = { .rank = out->rank };
  tsr__error error = { .status = TSR_OK };
  /* A dim whose size only a run knows counts once: the check is for the product of the others. */
  for (int d = 0; d < out->rank; d++) shape.dims[d] = out->dims[d] < 0 ? 1 : out->dims[d];
  if (tsr__shape_check(&shape, &error)) return fail_at(r, at, "%s", error.text);
  return want_place(r, out, place);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* A node as it is read.
 *
 *   ins   | operands, -1: left out | regions, as the program numbers them |
 *
 * On the heap and used for all nodes: what is in front of `ins` is cleared for each, the lists are
 * as long as their counts say. */
typedef struct line {
  tsr__gnode node;
  union {
    char bytes[sizeof(tsr__pick_attr) + TSR__TEXT_MANY * sizeof(int32_t)];
    int64_t align;
  } attr;
  int32_t ins[TSR__TEXT_MANY + TSR__MAX_REGIONS];
  int32_t regions[TSR__MAX_REGIONS];
  tsr__num numbers[TSR__TEXT_MANY];
  tsr__result types[TSR__TEXT_MANY];
  int number_count; /* -1: those of its regions */
  const char *start;
} line;

/* Leaves that hold a value of this process, and what only plans have, are no operations of a
 * text. */
static bool want_op(reader *r, line *l)
{
  char name[32];
  skip(r);
  const char *at = r->at;
  if (!want_name(r, "an operation", name)) return false;
  int op = 0;
  while (op < TSR__OPS && strcmp(tsr__ops[op].name, name)) op++;
  if (op == TSR__OPS) return fail_at(r, at, "there is no operation \"%s\"", name);
  const tsr__opinfo *row = &tsr__ops[op];
  bool good = tsr__fields_of(row->attr) && !tsr__is_named(op);
  l->node.op = (uint16_t)op;
  if (tsr__is_leaf(op)) good = tsr__is_number(&l->node) || tsr__is_argument(&l->node);
  l->node.attr_bytes = tsr__attrs[row->attr].bytes;
  return good || fail_at(r, at, "operation %s cannot stand in a saved function", name);
}

/* One item of a list in brackets, read by who wants it; false: the list is over, or an error. An
 * error that the item's reader set ends the loop as well: so loops look at the error behind them
 * and not at each item. */
static bool next_item(reader *r, int *count, int most)
{
  if (r->error->status || take(r, "]")) return false;
  if (*count && !want(r, ",")) return false;
  if (*count == most) return fail_at(r, r->at, "the list has more than %d items", most);
  ++*count;
  return true;
}

static bool want_regions(reader *r, line *l)
{
  int count = 0, number;
  if (!want(r, "[")) return false;
  if (!r->region_count)
    return fail_at(r, r->at, "the node names a region, but no region stands before");
  while (next_item(r, &count, TSR__MAX_REGIONS)) {
    if (!want_index(r, r->region_count - 1, &number)) return false;
    l->regions[count - 1] = number;
  }
  l->node.region_count = (uint8_t)count;
  return !r->error->status;
}

static bool want_numbers(reader *r, line *l)
{
  int count = 0;
  if (!want(r, "[")) return false;
  while (next_item(r, &count, TSR__TEXT_MANY))
    want_whole(r, (range){ INT64_MIN, INT64_MAX, false }, &l->numbers[count - 1].i);
  l->number_count = count;
  return !r->error->status;
}

/* One item of a list, or the field itself. A name fills its bytes up with zeros: equal names are
 * equal attributes. */
static bool want_item(reader *r, line *l, const tsr__field *f, int i)
{
  const char *text, *at = r->at;
  int64_t value;
  if (f->kind != TSR__FIELD_NAME) {
    if (want_whole(r, (range){ f->least, f->most, false }, &value))
      tsr__field_set(f, l->attr.bytes, i, value);
  } else if (want_text(r, &text)) {
    if (strlen(text) >= TSR__NAME)
      return fail_at(r, at, "a name has more than %d bytes", TSR__NAME - 1);
    memcpy(memset(tsr__field_name(f, l->attr.bytes, i), 0, TSR__NAME), text, strlen(text));
  }
  return !r->error->status;
}

/* A list may be shorter than the field: what is not said is zero, as it is where no field is
 * named. */
static bool want_field(reader *r, line *l, const char *name, const char *at)
{
  const tsr__field *f = tsr__fields_of(tsr__ops[l->node.op].attr);
  while (f->name && strcmp(f->name, name)) f++;
  if (!f->name) return fail_at(r, at, "%s has no \"%s\"", tsr__ops[l->node.op].name, name);
  if (f->many == 1) return want_item(r, l, f, 0);
  int count = 0, room = (int)((sizeof l->attr - f->offset) / tsr__field_item(f));
  if (!want(r, "[")) return false;
  while (next_item(r, &count, f->many ? f->many : room)) want_item(r, l, f, count - 1);
  if (!f->many) l->node.attr_bytes = f->offset + (uint32_t)((size_t)count * tsr__field_item(f));
  return !r->error->status;
}

/* An operand, or "key=...". Only nodes that stand before can be operands, so a program has no cycle
 * and is in order. */
static bool want_part(reader *r, line *l, int before)
{
  char name[32];
  int node;
  skip(r);
  const char *at = r->at;
  bool operand = take(r, "%"), none = !operand && take(r, "-");
  if (operand || none) {
    if (l->node.in_count == TSR__TEXT_MANY)
      return fail_at(r, at, "more than %d operands", TSR__TEXT_MANY);
    if (operand && !before)
      return fail_at(r, at, "the text names a node, but no node stands before");
    if (operand && !want_index(r, before - 1, &node)) return false;
    l->ins[l->node.in_count++] = none ? -1 : node;
    return true;
  }
  if (!want_name(r, "an operand or an attribute", name) || !want(r, "=")) return false;
  if (!strcmp(name, "regions")) return want_regions(r, l);
  if (!strcmp(name, "numbers")) return want_numbers(r, l);
  return want_field(r, l, name, at);
}

/*   const(0x1p-1) f32[]     first to the type, then back for the number, then behind the type
 *
 * Whether it is a float or an integer only the type says. Where it lies is not kept: numbers lie
 * with whoever reads them. */
static bool want_const(reader *r, line *l)
{
  const char *from = r->at;
  /* Its dtype stands behind it. */
  while (r->at < r->end && *r->at != ')' && *r->at != '\n') r->at++;
  tsr__result type;
  tsr_sharding place;
  if (!want(r, ")") || !want_type(r, &type, &place)) return false;
  const char *behind = r->at;
  r->at = from;
  l->number_count = 1;
  if (tsr__dtype_is_real((tsr_dtype)type.dtype)) {
    if (!want_float(r, TSR_F64, &l->numbers[0].f, 0)) return false;
  } else if (!want_whole(r, (range){ INT64_MIN, INT64_MAX, false }, &l->numbers[0].i)) {
    return false;
  }
  l->node.dtype = type.dtype;
  l->node.rank = type.rank;
  memcpy(l->node.dims, type.dims, sizeof type.dims);
  if (!want(r, ")")) return false;
  r->at = behind;
  return true;
}

/* The types behind the parentheses. A node that is placed has the flag, or its sharding would be a
 * hint of tracing and no constraint. */
static bool want_results(reader *r, line *l, tsr__program *program)
{
  tsr__result *types = l->types;
  tsr_sharding place;
  int count = l->node.result_count ? l->node.result_count : 1;
  for (int i = 0; i < count; i++) {
    if (i && !want(r, ",")) return false;
    if (!want_type(r, &types[i], &place)) return false;
    if (place.mesh && l->node.result_count)
      return fail_at(r, r->at, "one of several results has a sharding, expected none");
  }
  if (l->node.result_count) {
    l->node.first_result = tsr__program_results(program, types, count);
    return l->node.first_result >= 0 || no_memory(r);
  }
  l->node.dtype = types[0].dtype;
  l->node.rank = types[0].rank;
  memcpy(l->node.dims, types[0].dims, sizeof types[0].dims);
  if (place.mesh) l->node.sharding = (uint16_t)tsr__program_sharding(program, &place);
  if (place.mesh) l->node.flags = TSR__PLACED;
  return !program->failed || no_memory(r);
}

/* The numbers of a node go behind those of the program.
 *
 *   -1 - count   "numbers" does not stand there: the node has those of its regions, one after the
 *                other, counted downwards from the -1 that says so
 *
 * The order of add_numbers in transform/function.c, by which each region finds its own. */
static bool add_numbers(reader *r, line *l, tsr__program *program)
{
  int count = l->number_count;
  for (int i = 0; count < 0 && i < l->node.region_count; i++)
    count -= r->regions[l->regions[i]]->program.param_count;
  bool theirs = l->number_count < 0;
  if (theirs) count = -1 - count;
  if (!count) return true;
  if (!tsr__grow(program->heap, (void **)&program->params, &program->param_capacity,
                 (size_t)program->param_count + (size_t)count, sizeof *program->params))
    return no_memory(r);
  l->node.param = program->param_count;
  l->node.param_count = count;
  tsr__num *to = program->params + program->param_count;
  for (int i = 0; theirs && i < l->node.region_count; i++) {
    const tsr__program *of = &r->regions[l->regions[i]]->program;
    if (of->param_count) memcpy(to, of->params, (size_t)of->param_count * sizeof *to);
    to += of->param_count;
  }
  if (!theirs) memcpy(to, l->numbers, (size_t)count * sizeof *to);
  program->param_count += count;
  return true;
}

/* Verified at once: inference then sees only operands that are good, and the error is this
 * line's. */
static bool add_node(reader *r, line *l, tsr__program *program, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  int count = l->node.in_count;
  if (!add_numbers(r, l, program)) return false;
  if (l->node.attr_bytes)
    l->node.attr = tsr__program_attr(program, l->attr.bytes, l->node.attr_bytes);
  for (int i = 0; i < l->node.region_count; i++)
    l->ins[count++] = tsr__program_region(program, r->regions[l->regions[i]]);
  int n = tsr__program_add(program, &l->node, (tsr__links){ l->ins, count }, site);
  if (n < 0 || program->failed) return no_memory(r);
  tsr_status status = tsr__program_verify_node(program, n, &error);
  if (status == TSR_ENOMEM) return no_memory(r);
  int op = l->node.op;
  /* What is told of a function counts neither arguments and numbers nor results taken out of
   * nodes. */
  r->out->operations += !tsr__is_leaf(op) && !tsr__takes_result(op);
  return !status || fail_at(r, l->start, "%s", error.text);
}

static bool want_node(reader *r, line *l, tsr__program *program)
{
  int number;
  const char *site = NULL;
  /* -1 below is "no numbers": 0 would be the program's first. */
  memset(l, 0, offsetof(line, ins));
  l->node.param = -1;
  l->start = r->at;
  if (!want_index(r, program->node_count, &number)) return false;
  if (number != program->node_count)
    return fail_at(r, l->start, "found node %%%d, expected %%%d", number, program->node_count);
  if (take(r, ":") && !want_index(r, TSR__TEXT_MANY, &l->node.result_count)) return false;
  if (!want(r, "=") || !want_op(r, l) || !want(r, "(")) return false;
  l->number_count = -1;
  bool number_leaf = tsr__is_number(&l->node);
  if (number_leaf && !want_const(r, l)) return false;
  for (int i = 0; !number_leaf && !take(r, ")"); i++)
    if ((i && !want(r, ",")) || !want_part(r, l, program->node_count)) return false;
  if (!number_leaf && !want_results(r, l, program)) return false;
  skip(r);
  if (r->at < r->end && *r->at == '"') {
    if (!want_text(r, &site)) return false;
    site = tsr_runtime_site(r->ask->scope->rt, site);
    if (!site) return no_memory(r);
  }
  return add_node(r, l, program, site);
}

/* ---- regions --------------------------------------------------------------------------------- */

/* A region may return nothing. Its program is given away with the region and is empty
 * afterwards. */
static bool want_return(reader *r, tsr__program *program)
{
  int32_t results[TSR__TEXT_MANY];
  int count = 0;
  bool none = take(r, "}");
  while (!none) {
    skip(r);
    const char *at = r->at;
    if (count == TSR__TEXT_MANY) return fail_at(r, at, "more than %d results", TSR__TEXT_MANY);
    if (!want(r, "%")) return false;
    if (!program->node_count)
      return fail_at(r, at, "the text names a node, but no node stands before");
    if (!want_index(r, program->node_count - 1, &results[count])) return false;
    if (program->nodes[results[count]].result_count)
      return fail_at(r, at,
                     "a node of several results cannot be a result itself; take one of its results "
                     "with the operation result");
    count++;
    if (!take(r, ",")) break;
  }
  if (!none && !want(r, "}")) return false;
  tsr__region *region = tsr__region_make(program, (tsr__links){ results, count });
  if (!region) return no_memory(r);
  r->regions[r->region_count++] = region;
  return true;
}

static bool want_region(reader *r, line *l)
{
  tsr__program program;
  int number;
  skip(r);
  const char *at = r->at;
  if (!want_index(r, TSR__TEXT_REGIONS - 1, &number)) return false;
  if (number != r->region_count)
    return fail_at(r, at, "found region %d, expected region %d", number, r->region_count);
  if (!want(r, "{")) return false;
  tsr__program_init(&program, &r->ask->scope->rt->heap);
  bool good = true;
  while (good && take(r, "%")) good = want_node(r, l, &program);
  good = good && want(r, "return") && want_return(r, &program);
  tsr__program_free(&program);
  return good;
}

/* ---- the head -------------------------------------------------------------------------------- */

/* The abstract one first, which knows no devices: it tells what is wrong with the text, and how
 * many devices are needed, on any machine. */
static bool want_mesh(reader *r)
{
  const char *text;
  int number;
  skip(r);
  const char *at = r->at;
  if (!want_index(r, TSR__TEXT_MESHES - 1, &number)) return false;
  if (number != r->out->mesh_count) return fail_at(r, at, "expected mesh %d", r->out->mesh_count);
  bool abstract = take(r, "abstract");
  if (!want_text(r, &text)) return false;
  tsr_runtime *rt = r->ask->scope->rt;
  const tsr_mesh *mesh = tsr_mesh_abstract(rt, text);
  bool good = !tsr_mesh_status(mesh) && !abstract;
  bool here = good && tsr_mesh_device_count(mesh) <= tsr_device_count(rt);
  /* Where there are fewer devices the function can be looked at and planned all the same. */
  if (good) mesh = here ? tsr_mesh_make(rt, text) : tsr__mesh_missing(rt, text);
  if (tsr_mesh_status(mesh) == TSR_ENOMEM) return no_memory(r);
  if (tsr_mesh_status(mesh)) return fail_at(r, at, "%s", tsr_mesh_message(mesh));
  r->out->meshes[r->out->mesh_count++] = mesh;
  return true;
}

/* One more argument or array. Arguments and data are one list, as they are one list of arguments to
 * the region. */
static void add_type(reader *r, const tsr__result *type, const tsr_sharding *place)
{
  tsr__saved *s = r->out;
  int count = s->argument_count + s->data_count;
  s->types[count] = *type;
  s->places[count] = *place;
}

static bool want_argument(reader *r, const char *at)
{
  tsr__result type;
  tsr_sharding place;
  int number;
  tsr__saved *s = r->out;
  if (s->data_count)
    return fail_at(r, at, "an argument stands after data, expected all arguments first");
  if (!want_index(r, TSR__TEXT_MANY - 1, &number) || !want_type(r, &type, &place)) return false;
  if (number != s->argument_count) return fail_at(r, at, "expected argument %d", s->argument_count);
  add_type(r, &type, &place);
  s->argument_count++;
  return true;
}

/* In C order, into memory as tsr_put takes it: a byte a bool. */
static bool want_elements(reader *r, const tsr__result *type, int64_t count, void *to)
{
  tsr_dtype dtype = (tsr_dtype)type->dtype;
  bool real = tsr__dtype_is_real(dtype), u64 = dtype == TSR_U64;
  for (int64_t i = 0; i < count; i++) {
    int64_t whole;
    if (real && !want_float(r, dtype, to, i)) return false;
    if (real) continue;
    /* Bools are 0 and 1; u64 has no range of its own that an int64_t could say. */
    range in = { 0, 1, u64 };
    if (dtype != TSR_BOOL && !u64)
      in = (range){ tsr__dtype_least(dtype), (int64_t)tsr__dtype_most(dtype), false };
    if (!want_whole(r, in, &whole)) return false;
    if (dtype == TSR_BOOL) ((uint8_t *)to)[i] = (uint8_t)whole;
    else tsr__dtype_put_whole(dtype, to, i, whole);
  }
  return true;
}

static bool put_value(reader *r, const tsr__result *type, const tsr_sharding *place, void *from)
{
  tsr_shape shape = { .rank = type->rank };
  tsr__error error = { .status = TSR_OK };
  memcpy(shape.dims, type->dims, sizeof shape.dims);
  tsr_sharding own = *place; /* the canonical form names all dims */
  if (own.rank > type->rank) own.rank = type->rank;
  /* The saved place stays in `places`, for who asks what the function is (saved_about.c). */
  if (tsr_mesh_is_abstract(own.mesh)) own = (tsr_sharding){ 0 };
  if (own.mesh && tsr__sharding_check(&own, &shape, &error))
    return fail_at(r, r->at, "%s", error.text);
  own = own.mesh ? *place : own;
  tsr__layout layout = { (tsr_dtype)type->dtype, &shape, &own, NULL };
  tsr__value *value = tsr__value_new(r->ask->scope->rt, &layout, r->error);
  if (!value) return false;
  add_type(r, type, place);
  /* Counted before it is filled: it is released with the others whatever happens now. */
  r->out->data[r->out->data_count++] = value;
  /* False: somebody cancelled it, as large arrays take long to copy. */
  return tsr__value_from_host(value, from) ||
         !tsr__error_set(r->error, TSR_ECANCELLED, "cancelled");
}

static bool want_data(reader *r, const char *at)
{
  tsr__result type;
  tsr_sharding place;
  int number;
  int64_t count = 1;
  tsr__saved *s = r->out;
  tsr__heap *heap = &r->ask->scope->rt->heap;
  int next = s->argument_count + s->data_count;
  if (!want_index(r, 2 * TSR__TEXT_MANY - 1, &number) || !want_type(r, &type, &place)) return false;
  if (number != next || s->data_count == TSR__TEXT_MANY)
    return fail_at(r, at, "expected data %d", next);
  for (int d = 0; d < type.rank; d++) {
    if (type.dims[d] < 0) return fail_at(r, at, "the shape of data has an unknown size");
    count *= type.dims[d];
  }
  /* Each element takes two bytes of text at least, which bounds what is asked for. */
  if (count > (r->end - r->at) / 2 + 1)
    return fail_at(r, at, "the text has fewer elements than the shape");
  size_t bytes = (size_t)count * tsr_dtype_size((tsr_dtype)type.dtype) + 1;
  void *room = tsr__new_raw(heap, bytes);
  if (!room) return no_memory(r);
  bool good = want_elements(r, &type, count, room) && put_value(r, &type, &place, room);
  tsr__del(heap, room, bytes);
  skip(r);
  const char *site = NULL;
  if (good && r->at < r->end && *r->at == '"') good = want_text(r, &site);
  if (good) s->data_sites[s->data_count - 1] = tsr_runtime_site(r->ask->scope->rt, site);
  return good;
}

/* Arguments of the last region are those that are told, and of their types. Arguments that are told
 * and have no node are fine: the body did not look at them. */
static bool check_arguments(reader *r)
{
  const tsr__saved *s = r->out;
  const tsr__program *program = &s->region->program;
  for (int n = 0; n < program->node_count; n++) {
    const tsr__gnode *g = &program->nodes[n];
    if (!tsr__is_argument(g)) continue;
    int i = tsr__index_of(program, g);
    if (i >= s->argument_count + s->data_count)
      return fail_at(
          r, r->end,
          "%%%d of the last region is argument %d, but the text describes no such argument", n, i);
    const tsr__result *type = &s->types[i];
    if (g->dtype != type->dtype || g->rank != type->rank ||
        memcmp(g->dims, type->dims, sizeof g->dims))
      return fail_at(r, r->end, "%%%d of the last region does not have the type of argument %d", n,
                     i);
  }
  return true;
}

/* Strictly as tsr__form_of writes it: forms are compared as texts, and other readers of a form,
 * which look for no errors, rely on it. */
static int count_form(const char **at, int depth)
{
  int count = 0;
  if (**at == '*') return ++*at, 1;
  if (**at != '(' || depth == TSR__TEXT_DEPTH) return -1;
  ++*at;
  while (**at && **at != ')') {
    const char *name = *at;
    while (**at && strchr("*(),:;", **at) == NULL) ++*at;
    if (*at != name) {
      if (**at != ':' || (*at)[1] != ' ') return -1;
      *at += 2;
    }
    int inner = count_form(at, depth + 1);
    if (inner < 0 || count > TSR__TEXT_MANY) return -1;
    count += inner;
    if (**at == ',') {
      if ((*at)[1] != ' ') return -1;
      *at += 2;
    } else if (**at != ')') return -1;
  }
  if (**at != ')') return -1;
  ++*at;
  return count;
}

int tsr__form_count(const char **at)
{
  return count_form(at, 0);
}

static bool check_forms(reader *r)
{
  const tsr__saved *s = r->out;
  const char *at = s->arguments;
  int count = 0, arguments = 0, inner = 0;
  for (; *at && inner >= 0; at++, arguments++) {
    inner = tsr__form_count(&at);
    if (inner < 0 || *at != ';') inner = -1;
    if (inner < 0) break;
    count += inner;
  }
  if (inner < 0 || arguments > TSR_MAX_ARGS || count != s->argument_count)
    return fail_at(r, r->end, "the forms \"%.100s\" do not fit %d arguments", s->arguments,
                   s->argument_count);
  at = s->result;
  inner = tsr__form_count(&at);
  return (inner == s->region->result_count && !*at) ||
         fail_at(r, r->end, "the form \"%.100s\" does not fit %d results", s->result,
                 s->region->result_count);
}

/* In this order and before all else: a text of a later version is told by that, whatever
 * follows. */
static bool want_head(reader *r)
{
  int64_t version;
  tsr__saved *s = r->out;
  if (!want(r, "tessera") || !want(r, "function")) return false;
  const char *at = r->at;
  if (!want_whole(r, (range){ 0, INT64_MAX, false }, &version)) return false;
  if (version != TSR__TEXT_VERSION)
    return fail_at(r, at,
                   "version %lld of the format is unknown, expected %d; read the file with the "
                   "version of the library that wrote it",
                   (long long)version, TSR__TEXT_VERSION);
  return want(r, "name") && want_text(r, &s->name) && want(r, "arguments") &&
         want_text(r, &s->arguments) && want(r, "result") && want_text(r, &s->result);
}

/* Meshes must stand before who names them; else any order is read, with data behind arguments. */
static bool want_all(reader *r, line *l)
{
  if (!want_head(r)) return false;
  for (skip(r); r->at < r->end; skip(r)) {
    const char *at = r->at;
    bool good = true;
    if (take(r, "mesh")) good = want_mesh(r);
    else if (take(r, "argument")) good = want_argument(r, at);
    else if (take(r, "data")) good = want_data(r, at);
    else if (take(r, "region")) good = want_region(r, l);
    else
      good = fail_at(r, at, "found \"%s\", expected mesh, argument, data or region",
                     word_at(r, at).text);
    if (!good) return false;
  }
  if (!r->region_count) return fail_at(r, r->end, "the text has no region");
  r->out->bodies = r->region_count;
  r->out->region = r->regions[r->region_count - 1];
  tsr__region_hold(r->out->region);
  return check_arguments(r) && check_forms(r);
}

/* Lists have room for the most there can be, from the arena: nothing grows while strangers are
 * read. Regions are held by the list here; the one that is the function's is held once more by
 * `out`. */
tsr_status tsr__saved_read(const tsr__text_ask *ask, tsr__saved *out, tsr__error *error)
{
  tsr__arena *arena = &ask->scope->arena;
  tsr__heap *heap = &ask->scope->rt->heap;
  *out = (tsr__saved){ .types = tsr__arena_new(arena, 2 * TSR__TEXT_MANY * sizeof(tsr__result)) };
  out->places = tsr__arena_new(arena, 2 * TSR__TEXT_MANY * sizeof(tsr_sharding));
  out->data = tsr__arena_new(arena, TSR__TEXT_MANY * sizeof *out->data);
  out->data_sites = tsr__arena_new(arena, TSR__TEXT_MANY * sizeof *out->data_sites);
  reader *r = tsr__new(heap, sizeof *r);
  line *l = tsr__new(heap, sizeof *l);
  if (r) {
    r->ask = ask;
    r->at = ask->text;
    r->end = ask->text + ask->length;
    r->out = out;
    r->error = error;
  }
  if (!r || !l || !out->types || !out->places || !out->data || !out->data_sites)
    tsr__error_set(error, TSR_ENOMEM, "no memory for the function; close some scopes");
  else if (!want_all(r, l) && !error->status) no_memory(r);
  for (int i = 0; r && i < r->region_count; i++) tsr__region_release(r->regions[i]);
  tsr__del(heap, r, sizeof *r);
  tsr__del(heap, l, sizeof *l);
  return error->status;
}
