/* Arrays shown to callbacks: the calls, and how a line is written.
 *
 *   "x = {} ({type}) on {device}\n"     pieces: a character, a value, a type, a device, a process
 *
 * A TAP is a node that gives its operand on and shows it when it runs. Pointers are numbers in its
 * attributes: equal bytes are equal nodes, and taps of different callbacks are not. */
#include <stdio.h>

#include "array/array_room.h"

static uint64_t number_of(const void *pointer)
{
  return (uint64_t)(uintptr_t)pointer;
}

/* The node has a copy of `attr`, and gives its operand on as it is. */
static tsr_array *make_tap(tsr_array *a, const tsr__tap_attr *attr, const char *site)
{
  return tsr__make(NULL, TSR__OP_TAP, TSR__IN(a),
                   &(tsr__ask){ .attr = attr, .attr_bytes = sizeof *attr }, site);
}

tsr_array *tsr_inspect_sharding_at(tsr_array *a, tsr_sharding_fn *fn, void *user, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  if (!tsr__usable(a)) return a ? a : tsr__make_of_null("tsr_inspect_sharding", "array", site);
  if (!fn) {
    tsr__error_set(&error, TSR_EARG, "tsr_inspect_sharding: the callback is NULL; give a function");
    return tsr__refused(a, &error, site);
  }
  /* In a body there is no value yet: what it is cut like is shown when the program is planned. */
  if (!a->value && tsr__in_body(a, &error))
    return make_tap(a,
                    &(tsr__tap_attr){ .fn = (uint64_t)(uintptr_t)fn,
                                      .user = number_of(user),
                                      .kind = TSR__TAP_SHARDING },
                    site);
  if (error.status == TSR_ENOMEM) return tsr__refused(a, &error, site);
  if (tsr__array_ready(a, "tsr_inspect_sharding", site)) return tsr__make_inert(tsr__home(a), site);
  fn(tsr_sharding_of(a), (tsr_dtype)a->dtype, a->shape, user);
  return a;
}

/* ---- lines ----------------------------------------------------------------------------------- */

enum piece { AS_IS, VALUES, TYPE, DEVICE, PROCESS }; /* else a character */

/* What stands in a format at `at`, and how long it is; 0 for what may not stand there. */
static size_t next_piece(const char *at, char *out)
{
  static const struct {
    const char *text;
    char is;
  } pieces[] = {
    { "{{", '{' },      { "}}", '}' },          { "{}", VALUES },
    { "{type}", TYPE }, { "{device}", DEVICE }, { "{process}", PROCESS },
  };
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
    size_t length = strlen(pieces[i].text);
    *out = pieces[i].is;
    if (!strncmp(at, pieces[i].text, length)) return length;
  }
  *out = AS_IS;
  /* A character of its own, unless it is a brace. */
  return *at != '{' && *at != '}';
}

/* Every piece up to the end is one. Looked at once, at the call, so that what prints while a
 * program runs need not fail. */
static bool good_format(const char *format)
{
  char piece;
  size_t length = 1;
  /* A piece of length 0 is none, and ends the loop. */
  for (; *format && length; format += length) length = next_piece(format, &piece);
  return length;
}

/* What callbacks are shown is the first member of it. */
static const tsr__shown *shown_of(const tsr_seen *seen)
{
  return (const tsr__shown *)(const void *)seen;
}

static void add_piece(const tsr_seen *seen, char piece, tsr__text *out)
{
  if (piece == VALUES) tsr__print_values(out, seen->dtype, &seen->shape, seen->data);
  else if (piece == TYPE) tsr__type_add(out, seen->dtype, &seen->shape, NULL);
  else if (piece == PROCESS) tsr__text_add(out, "%d", shown_of(seen)->process);
  else if (piece != DEVICE) tsr__text_put(out, &piece, 1);
  else if (seen->device < 0) tsr__text_add(out, "all");
  else tsr__text_add(out, "%d", seen->device);
}

/* No heap: it may run on any thread of a run, and a text without one takes its memory from the C
 * library. */
static tsr_status print_seen(const tsr_seen *seen, void *user)
{
  const tsr__tap_attr *attr = shown_of(seen)->attr;
  tsr__text line;
  char piece;
  size_t length;
  tsr__text_init(&line, NULL);
  for (const char *at = (const char *)(uintptr_t)attr->format; *at; at += length) {
    length = next_piece(at, &piece);
    add_piece(seen, piece != AS_IS ? piece : *at, &line);
  }
  /* One write a line, so that lines of several devices do not mix. */
  if (!line.length || line.data[line.length - 1] != '\n') tsr__text_add(&line, "\n");
  bool failed = line.failed;
  if (!failed && attr->write) ((tsr_line_fn *)(uintptr_t)attr->write)(tsr__text_get(&line), user);
  else if (!failed) fputs(tsr__text_get(&line), stdout);
  tsr__text_free(&line);
  return failed ? TSR_ENOMEM : TSR_OK;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* The arguments of a call, checked; NULL: `out` is to be returned. */
static tsr_array *take_args(const char *call, const tsr_tap_args *given, tsr_tap_args *args,
                            tsr_array **out, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  tsr__take_opts(call, given, args, sizeof *args, &error);
  tsr_array *a = args->array;
  /* A print brings no callback. */
  bool prints = !args->fn;
  if (!tsr__usable(a)) {
    *out = a ? a : tsr__make_of_null(call, "array", site);
    return NULL;
  }
  if (!error.status && !args->fn && !args->format)
    tsr__error_set(&error, TSR_EARG, "%s: %s is NULL; give one", call,
                   !strcmp(call, "tsr_print") ? "the format" : "the callback");
  if (!error.status && prints && !good_format(args->format))
    tsr__error_set(&error, TSR_EARG,
                   "%s: the format \"%s\" has a brace without a meaning, expected {}, {type}, "
                   "{device}, {process}, {{ or }}",
                   call, args->format);
  if (!error.status) return a;
  *out = tsr__refused(a, &error, site);
  return NULL;
}

/* Nothing is shown yet: the node runs where somebody needs its result. */
tsr_array *tsr_callback_at(const tsr_tap_args *given, const char *site)
{
  tsr_tap_args args = { .size = sizeof args };
  tsr_array *out, *a = take_args("tsr_callback", given, &args, &out, site);
  if (!a) return out;
  return make_tap(a,
                  &(tsr__tap_attr){ .fn = (uint64_t)(uintptr_t)args.fn,
                                    .user = number_of(args.user),
                                    .kind = TSR__TAP_VALUES,
                                    .shards = args.shards },
                  site);
}

tsr_array *tsr_print_at(const tsr_tap_args *given, const char *site)
{
  tsr_tap_args args = { .size = sizeof args };
  tsr_array *out, *a = take_args("tsr_print", given, &args, &out, site);
  if (!a) return out;
  /* The format is kept by the runtime: the caller's may be gone when the program runs. */
  const char *format = tsr_runtime_site(a->node.scope->rt, args.format);
  tsr__error error = { .status = TSR_OK };
  if (!format) {
    tsr__error_set(&error, TSR_ENOMEM, "tsr_print: no memory for the format");
    return tsr__refused(a, &error, site);
  }
  return make_tap(a,
                  &(tsr__tap_attr){ .fn = (uint64_t)(uintptr_t)print_seen,
                                    .user = number_of(args.user),
                                    .format = number_of(format),
                                    .write = (uint64_t)(uintptr_t)args.write,
                                    .kind = TSR__TAP_PRINT,
                                    .shards = args.shards },
                  site);
}
