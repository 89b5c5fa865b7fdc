/* Meshes: a grid of devices with named axes, read from "data=4,model=2" or from options.
 *
 *     x=2,y=4      position   0 1 2 3      coordinate of x 0, of y 0..3
 *                             4 5 6 7      coordinate of x 1
 *
 * Meshes are immutable and kept by the runtime; equal ones are one object, so that shardings
 * compare by pointer. A mesh may name the speed of each axis and of its devices; the planner reads
 * speeds, and nothing else does. Good meshes are numbered in order of making: since all processes
 * run the same program, a number means the same mesh everywhere. A bad mesh is an object too, whose
 * error every use reports; equal errors are kept once, and of different ones MOST_BAD. */
#include <stdio.h>

#include "topology/topology.h"

/* A mesh that is being read: names and sizes not yet over devices. Names point into the caller's
 * text or options, and are copied where a mesh is made. */
struct draft {
  char text[TSR__QUOTE]; /* what the user wrote, fit for a message */
  int axis_count;
  const char *names[TSR_MAX_AXES]; /* not NUL-terminated */
  size_t lengths[TSR_MAX_AXES];
  int64_t sizes[TSR_MAX_AXES];
  int64_t speeds[TSR_MAX_AXES]; /* bytes per second; 0: not given */
  int64_t flops;                /* per second; 0: not given */
  const int *devices;           /* NULL: 0, 1, 2, ... */
  int device_count;
  bool abstract, missing, own;
};

/* An abstract mesh is for planning on machines that are not here, so the runtime's devices are
 * no bound; this one keeps strides and positions within 32 bits with room to spare. */
enum { MOST_ABSTRACT = 1 << 20 }; /* positions of a mesh without devices */

/* Returned when not even an inert mesh can be made; never written to. Constants are returned
 * through a pointer to non-const, as good meshes are. Whoever writes to a mesh (nobody but this
 * file, before it is in the table) never meets one. */
static const tsr__error memory_error = { TSR_ENOMEM, "out of memory for a mesh" };
static const tsr_mesh memory_mesh = { .text = (char *)"", .error = (tsr__error *)&memory_error };
static const tsr__error closed_error = {
  TSR_ESTATE,
  "the runtime has no devices, as it could not be opened; tsr_runtime_message has the reason"
};
static const tsr_mesh closed_mesh = { .text = (char *)"", .error = (tsr__error *)&closed_error };

/* What bad meshes and those of bad specs are when MOST_BAD others were made: those must stay, as
 * somebody may hold them. */
enum { MOST_BAD = 256 };
static const tsr__error crowd_error = {
  TSR_EARG, "the mesh is wrong, but the runtime keeps the reasons of the first 256 wrong meshes "
            "only; read tsr_mesh_message of those"
};
static const tsr_mesh crowd_mesh = { .text = (char *)"", .error = (tsr__error *)&crowd_error };
static const tsr__error specs_error = {
  TSR_EAXIS, "the spec is wrong, but the runtime keeps the reasons of the first 256 wrong specs "
             "only; read the messages of those"
};
static const tsr_mesh crowd_of_specs = { .text = (char *)"", .error = (tsr__error *)&specs_error };

/* ---- reading ----------------------------------------------------------------------------- */

/* The grammar, of which blanks may stand between any two words:
 *
 *   mesh    axis (',' axis)* (';' 'flops' '=' speed)?       at most TSR_MAX_AXES
 *   axis    name '=' size ('@' speed)?
 *   speed   digits ('.' digits)? ('e' digits)?
 *
 * Reading stops at the first thing that does not fit and words the error there. Whether names
 * and sizes make sense is seen afterwards, for text and options alike. */
static const char *skip_blanks(const char *at)
{
  while (*at == ' ' || *at == '\t') at++;
  return at;
}

/* Reads a decimal size; false when there is no digit. Too large a size becomes INT64_MAX. */
static bool read_size(const char **at, int64_t *out)
{
  const char *p = *at;
  int64_t value = 0;

  if (*p < '0' || *p > '9') return false;
  for (; *p >= '0' && *p <= '9'; p++)
    /* It sticks at the end of the range instead of wrapping, so that check_count refuses it with
     * the count that was meant too large. */
    value = value > (INT64_MAX - 9) / 10 ? INT64_MAX : value * 10 + (*p - '0');
  *at = p;
  *out = value;
  return true;
}

/* The largest speeds, of axes so that the ratio of two times 64 fits 63 bits. */
#define MOST_SPEED INT64_C(1000000000000000)
#define MOST_FLOPS INT64_C(9000000000000000)

/* Adds a digit to a speed, which sticks at one more than the largest. */
static int64_t add_digit(int64_t speed, char digit)
{
  return speed > MOST_FLOPS / 10 ? MOST_FLOPS + 1 : speed * 10 + (digit - '0');
}

/* Reads a speed in whole bytes or flops per second, by integers alone: 12.5e9 is 125 and eight
 * zeros. False where no digit stands, or a fraction is left. Too large a speed becomes one more
 * than the largest; a written 0 becomes -1, as it is no speed that is left out. */
static bool read_speed(const char **at, int64_t *out)
{
  const char *p = *at;
  int64_t speed = 0, zeros = 0;
  int after = 0;

  if (*p < '0' || *p > '9') return false;
  for (; *p >= '0' && *p <= '9'; p++) speed = add_digit(speed, *p);
  if (*p == '.') {
    if (*++p < '0' || *p > '9') return false;
    for (; *p >= '0' && *p <= '9'; p++, after++) speed = add_digit(speed, *p);
  }
  if (*p == 'e') {
    p++;
    if (!read_size(&p, &zeros)) return false;
  }
  for (; after > zeros && speed % 10 == 0; after--) speed /= 10;
  if (after > zeros) return false;
  for (int64_t i = after; i < zeros && speed && speed <= MOST_FLOPS; i++)
    speed = add_digit(speed, '0');
  *at = p;
  *out = speed ? speed : -1;
  return true;
}

static tsr_status expected(const struct draft *draft, const char *at, const char *what,
                           tsr__error *error)
{
  char found[TSR__QUOTE];

  if (!*at)
    return tsr__error_set(error, TSR_EPARSE,
                          "mesh \"%s\": expected %s at the end; write axes as "
                          "\"data=4,model=2\"",
                          draft->text, what);
  return tsr__error_set(error, TSR_EPARSE,
                        "mesh \"%s\": expected %s, found '%s'; write axes as "
                        "\"data=4,model=2\"",
                        draft->text, what, tsr__quote(at, strlen(at), found));
}

static tsr_status too_many_axes(const struct draft *draft, tsr__error *error)
{
  return tsr__error_set(error, TSR_EARG, "mesh \"%s\": more than %d axes; a mesh has 1 to %d",
                        draft->text, TSR_MAX_AXES, TSR_MAX_AXES);
}

/* Reads ";flops=312e12", which may come after the axes. */
static tsr_status read_flops(const char *from, struct draft *draft, tsr__error *error)
{
  static const char name[] = "flops";
  const char *at = skip_blanks(from + 1);
  if (strncmp(at, name, sizeof name - 1)) return expected(draft, from, "',' or the end", error);
  at = skip_blanks(at + sizeof name - 1);
  if (*at != '=') return expected(draft, at, "'=' and a speed", error);
  at = skip_blanks(at + 1);
  if (!read_speed(&at, &draft->flops))
    return expected(draft, at, "a speed in whole flops per second, such as 312e12", error);
  at = skip_blanks(at);
  return *at ? expected(draft, at, "the end", error) : TSR_OK;
}

/* Names point into the text, which outlives the draft. */
static tsr_status read_mesh(const char *text, struct draft *draft, tsr__error *error)
{
  const char *at = skip_blanks(text);

  if (!*at)
    return tsr__error_set(error, TSR_EPARSE,
                          "mesh \"%s\": there are no axes; write axes as \"data=4,model=2\"",
                          draft->text);
  for (int a = 0;; a++) {
    /* Looked at before the name is read: the draft has room for so many. */
    if (a == TSR_MAX_AXES) return too_many_axes(draft, error);
    at = skip_blanks(at);
    draft->names[a] = at;
    while (tsr__axis_byte((unsigned char)*at)) at++;
    draft->lengths[a] = (size_t)(at - draft->names[a]);
    if (!draft->lengths[a]) return expected(draft, at, "an axis name", error);
    at = skip_blanks(at);
    if (*at != '=') return expected(draft, at, "'=' and a size", error);
    at = skip_blanks(at + 1);
    if (!read_size(&at, &draft->sizes[a])) return expected(draft, at, "a size", error);
    at = skip_blanks(at);
    if (*at == '@') {
      at = skip_blanks(at + 1);
      if (!read_speed(&at, &draft->speeds[a]))
        return expected(draft, at, "a speed in whole bytes per second, such as 25e9", error);
    }
    /* Counted once it is whole, as messages of what follows do not list axes. */
    draft->axis_count = a + 1;
    at = skip_blanks(at);
    if (!*at) return TSR_OK;
    if (*at == ';') return read_flops(at, draft, error);
    if (*at != ',') return expected(draft, at, "',' or the end", error);
    at++;
  }
}

/* The typed form as text for messages; the axes are still unchecked. Cut where it must be, as it is
 * for messages alone: names are cut at 40, their check says how long they were. */
static void write_draft(struct draft *draft)
{
  char text[TSR_MAX_AXES * 64];
  size_t n = 0;

  for (int a = 0; a < draft->axis_count; a++)
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s=%lld", a ? "," : "",
                          draft->lengths[a] > 40 ? 40 : (int)draft->lengths[a], draft->names[a],
                          (long long)draft->sizes[a]);
  tsr__quote(text, n, draft->text);
}

/* A speed of options in whole units: 0 where none is given, -1 where it is out of range. */
static int64_t speed_of(double per_s, int64_t most)
{
  if (per_s == 0) return 0;
  bool fits = per_s >= 1 && per_s <= (double)most; /* false for NaN */
  return fits ? (int64_t)per_s : -1;
}

static tsr_status take_opts(const tsr_mesh_opts *given, tsr_mesh_opts *opts, struct draft *draft,
                            tsr__error *error)
{
  if (!given)
    return tsr__error_set(error, TSR_EARG, "a mesh needs its axes, but the options are NULL");
  if (tsr__take_opts("tsr_mesh_make_with", given, opts, sizeof *opts, error)) return error->status;
  if (opts->axis_count < 1 || opts->axis_count > TSR_MAX_AXES)
    return tsr__error_set(error, TSR_EARG, "a mesh has 1 to %d axes, not %d", TSR_MAX_AXES,
                          opts->axis_count);
  /* A struct of options has no text: the draft is written as if it had been given as one, so
   * that both forms have the same messages. */
  draft->axis_count = opts->axis_count;
  draft->devices = opts->devices;
  draft->abstract = opts->abstract;
  if (opts->abstract && opts->devices)
    return tsr__error_set(error, TSR_EARG,
                          "an abstract mesh has no devices, but a list of devices was given; leave "
                          "the list or .abstract out");
  for (int a = 0; a < opts->axis_count; a++) {
    if (!opts->names[a])
      return tsr__error_set(error, TSR_EARG, "axis %d of %d of a mesh has no name (NULL)", a,
                            opts->axis_count);
    draft->names[a] = opts->names[a];
    draft->lengths[a] = strlen(opts->names[a]);
    draft->sizes[a] = opts->sizes[a];
    draft->speeds[a] = speed_of(opts->axis_bytes_per_s[a], MOST_SPEED);
  }
  draft->flops = speed_of(opts->flops_per_s, MOST_FLOPS);
  write_draft(draft);
  return TSR_OK;
}

/* ---- checking ---------------------------------------------------------------------------- */

static tsr_status check_name(const struct draft *draft, int axis, tsr__error *error)
{
  const char *name = draft->names[axis];
  size_t length = draft->lengths[axis];
  char quote[TSR__QUOTE];

  /* Text was read by the bytes that a name may have, options may hold any: so the length and the
   * bytes are looked at here, for the typed form. */
  tsr__quote(name, length, quote);
  if (length == 0)
    return tsr__error_set(error, TSR_EARG, "mesh \"%s\": axis %d has an empty name", draft->text,
                          axis);
  for (size_t i = 0; i < length; i++)
    if (!tsr__axis_byte((unsigned char)name[i]))
      return tsr__error_set(error, TSR_EARG,
                            "mesh \"%s\": axis name '%s' has other characters "
                            "than letters, digits and '_'",
                            draft->text, quote);
  /* Names lie in the mesh in fields of fixed size, with an end of text. */
  if (length >= sizeof((tsr_mesh *)0)->names[0])
    return tsr__error_set(error, TSR_EARG,
                          "mesh \"%s\": axis name '%s' has %zu characters; at "
                          "most %zu fit",
                          draft->text, quote, length, sizeof((tsr_mesh *)0)->names[0] - 1);
  for (int a = 0; a < axis; a++)
    if (draft->lengths[a] == length && memcmp(draft->names[a], name, length) == 0)
      return tsr__error_set(error, TSR_EARG,
                            "mesh \"%s\": two axes are called '%s'; give each "
                            "its own name",
                            draft->text, quote);
  return TSR_OK;
}

/* How large it may be check_count says, of the product. */
static tsr_status check_size(const struct draft *draft, int axis, tsr__error *error)
{
  char quote[TSR__QUOTE];

  if (draft->sizes[axis] >= 1) return TSR_OK;
  return tsr__error_set(error, TSR_EARG,
                        "mesh \"%s\": axis '%s' has size %lld; sizes are 1 or "
                        "more",
                        draft->text, tsr__quote(draft->names[axis], draft->lengths[axis], quote),
                        (long long)draft->sizes[axis]);
}

/* All axes have a speed or no axis: a speed that the planner made up would place arrays wrongly,
 * and no message would say so. */
static tsr_status check_speed(const struct draft *draft, int axis, tsr__error *error)
{
  char quote[TSR__QUOTE], other[TSR__QUOTE];
  int first = 0;

  tsr__quote(draft->names[axis], draft->lengths[axis], quote);
  if (draft->speeds[axis] < 0 || draft->speeds[axis] > MOST_SPEED)
    return tsr__error_set(error, TSR_EARG,
                          "mesh \"%s\": the speed of axis '%s' is out of range; speeds are 1 to "
                          "1e15 bytes per second",
                          draft->text, quote);
  while (first < draft->axis_count && !draft->speeds[first]) first++;
  if (draft->speeds[axis] || first == draft->axis_count) return TSR_OK;
  return tsr__error_set(error, TSR_EARG,
                        "mesh \"%s\": axis '%s' has no speed, but axis '%s' has one; give a speed "
                        "to each axis or to none",
                        draft->text, quote,
                        tsr__quote(draft->names[first], draft->lengths[first], other));
}

/* Flops weigh against bytes: without speeds of axes there is nothing to weigh them with. */
static tsr_status check_flops(const struct draft *draft, tsr__error *error)
{
  if (draft->flops < 0 || draft->flops > MOST_FLOPS)
    return tsr__error_set(error, TSR_EARG,
                          "mesh \"%s\": the flops of a device are out of range; they are 1 to 9e15 "
                          "per second",
                          draft->text);
  if (!draft->flops || draft->speeds[0]) return TSR_OK;
  return tsr__error_set(
      error, TSR_EARG,
      "mesh \"%s\": devices have flops per second, but axes have no speed; give a "
      "speed to each axis as well",
      draft->text);
}

/* Sets the device count: the product of the sizes, which the runtime must have. */
static tsr_status check_count(const tsr__topology *topology, struct draft *draft, tsr__error *error)
{
  int64_t count = 1;
  bool overflow = false;

  for (int a = 0; a < draft->axis_count; a++)
    /* A size that stuck at the end of the range need not overflow the product, so that is looked
     * at below. */
    overflow |= __builtin_mul_overflow(count, draft->sizes[a], &count);
  if (overflow || count == INT64_MAX)
    return tsr__error_set(error, TSR_EARG,
                          "mesh \"%s\" has more devices than 63 bits can count; "
                          "the runtime has %d",
                          draft->text, topology->device_count);
  if (draft->abstract && count > MOST_ABSTRACT)
    return tsr__error_set(error, TSR_EARG,
                          "mesh \"%s\" has %lld devices; an abstract mesh has at most %d",
                          draft->text, (long long)count, (int)MOST_ABSTRACT);
  if (!draft->abstract && count > topology->device_count)
    return tsr__error_set(error, TSR_EARG,
                          "mesh \"%s\" needs %lld devices; the runtime has %d: "
                          "make the mesh smaller or open the runtime with more",
                          draft->text, (long long)count, topology->device_count);
  /* Both bounds lie far below 2^31. */
  draft->device_count = (int)count;
  return TSR_OK;
}

/* A bit marks each device that was met, so that a list of thousands is read once. */
static tsr_status check_devices(const tsr__topology *topology, const struct draft *draft,
                                tsr__error *error)
{
  uint64_t met[TSR__MOST_DEVICES / 64] = { 0 };
  for (int p = 0; draft->devices && p < draft->device_count; p++) {
    int id = draft->devices[p];
    if (id < 0 || id >= topology->device_count)
      return tsr__error_set(
          error, TSR_EARG,
          "mesh \"%s\": there is no device %d for position %d; the runtime's devices are 0 to %d",
          draft->text, id, p, topology->device_count - 1);
    if (met[id / 64] >> id % 64 & 1) {
      int first = 0;
      while (draft->devices[first] != id) first++;
      return tsr__error_set(error, TSR_EARG,
                            "mesh \"%s\": device %d stands at positions %d and %d, expected one "
                            "position per device",
                            draft->text, id, first, p);
    }
    met[id / 64] |= UINT64_C(1) << id % 64;
  }
  return TSR_OK;
}

static tsr_status check_draft(const tsr__topology *topology, struct draft *draft, tsr__error *error)
{
  for (int a = 0; a < draft->axis_count; a++)
    if (check_name(draft, a, error) || check_size(draft, a, error) || check_speed(draft, a, error))
      return error->status;
  if (check_flops(draft, error) || check_count(topology, draft, error)) return error->status;
  /* In this order each check may rely on those before: the devices' list has as many as the
   * count says. */
  return check_devices(topology, draft, error);
}

/* ---- making ------------------------------------------------------------------------------ */

/* The device at a position; of an abstract mesh the position. */
static int draft_device(const struct draft *draft, int position)
{
  return draft->devices ? draft->devices[position] : position;
}

/* A list of devices that is 0, 1, 2, ... hashes and compares as no list does: it says the same. */
static uint64_t draft_hash(const struct draft *draft)
{
  /* Abstract meshes are other objects than those over devices of equal sizes, so they begin
   * elsewhere. */
  uint64_t hash = (uint64_t)draft->axis_count + (draft->abstract ? TSR_MAX_AXES : 0) +
                  (draft->own ? 2 * TSR_MAX_AXES : 0) + (draft->missing ? 4 * TSR_MAX_AXES : 0);

  for (int a = 0; a < draft->axis_count; a++) {
    hash = tsr__hash(draft->names[a], draft->lengths[a], hash);
    hash = tsr__hash(&draft->sizes[a], sizeof draft->sizes[a], hash);
    if (draft->speeds[a]) hash = tsr__hash(&draft->speeds[a], sizeof draft->speeds[a], hash);
  }
  if (draft->flops) hash = tsr__hash(&draft->flops, sizeof draft->flops, hash);
  for (int p = 0; !draft->abstract && p < draft->device_count; p++) {
    int id = draft_device(draft, p);
    hash = tsr__hash(&id, sizeof id, hash);
  }
  return hash;
}

/* Whether devices were listed or left out is no matter where they come to the same ones. */
static bool draft_equals(const struct draft *draft, const tsr_mesh *mesh)
{
  if (mesh->axis_count != draft->axis_count || mesh->device_count != draft->device_count ||
      mesh->abstract != draft->abstract || mesh->missing != draft->missing ||
      mesh->own != draft->own || mesh->flops_per_s != draft->flops)
    return false;
  for (int a = 0; a < draft->axis_count; a++)
    if (mesh->sizes[a] != draft->sizes[a] || mesh->bytes_per_s[a] != draft->speeds[a] ||
        mesh->lengths[a] != draft->lengths[a] ||
        memcmp(mesh->names[a], draft->names[a], draft->lengths[a]) != 0)
      return false;
  for (int p = 0; mesh->devices && p < draft->device_count; p++)
    if (mesh->devices[p] != draft_device(draft, p)) return false;
  return true;
}

/* Writes a speed exactly, in thousands, millions, ...: "25e9", "12.5e9", "800". Returns the
 * length. */
static size_t write_speed(int64_t speed, char out[32])
{
  int64_t unit = 1;
  int zeros = 0, after = 0;

  for (; speed / unit >= 1000; unit *= 1000) zeros += 3;
  int64_t rest = speed % unit;
  for (after = zeros; after && rest % 10 == 0; after--) rest /= 10;
  size_t n = (size_t)snprintf(out, 32, "%lld", (long long)(speed / unit));
  if (after) n += (size_t)snprintf(out + n, 32 - n, ".%0*lld", after, (long long)rest);
  if (zeros) n += (size_t)snprintf(out + n, 32 - n, "e%d", zeros);
  return n;
}

/* The canonical text, without blanks: what messages and types show and what makes the mesh
 * again. */
static char *mesh_text_new(tsr__heap *heap, const tsr_mesh *mesh)
{
  /* A name of 31 bytes, '=', 19 digits, '@', a speed of 20 and ',' an axis; the flops. */
  char text[TSR_MAX_AXES * 80 + 40], speed[32];
  size_t n = 0;

  text[0] = '\0';
  for (int a = 0; a < mesh->axis_count; a++) {
    speed[0] = '\0';
    if (mesh->bytes_per_s[a]) write_speed(mesh->bytes_per_s[a], speed);
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%s=%lld%s%s", a ? "," : "", mesh->names[a],
                          (long long)mesh->sizes[a], *speed ? "@" : "", speed);
  }
  if (mesh->flops_per_s) {
    write_speed(mesh->flops_per_s, speed);
    n += (size_t)snprintf(text + n, sizeof text - n, ";flops=%s", speed);
  }
  char *out = tsr__new(heap, n + 1);
  if (out) memcpy(out, text, n + 1);
  return out;
}

/* Lists the axes from the slowest to the fastest; those of one speed in order. */
static void sort_axes(tsr_mesh *mesh)
{
  for (int a = 0; a < mesh->axis_count; a++) {
    int at = a;
    for (; at && mesh->bytes_per_s[mesh->slowest[at - 1]] > mesh->bytes_per_s[a]; at--)
      mesh->slowest[at] = mesh->slowest[at - 1];
    mesh->slowest[at] = (uint8_t)a;
  }
}

/* Row-major: the last axis is the fastest, so its stride is 1.
 *
 *   x=2,y=4    strides 4, 1    position = 4 * x + y */
static void mesh_fill(tsr_mesh *mesh, const struct draft *draft)
{
  uint32_t stride = 1;

  mesh->axis_count = draft->axis_count;
  mesh->flops_per_s = draft->flops;
  mesh->own = draft->own;
  mesh->missing = draft->missing;
  for (int a = draft->axis_count - 1; a >= 0; a--) {
    memcpy(mesh->names[a], draft->names[a], draft->lengths[a]);
    mesh->lengths[a] = (uint8_t)draft->lengths[a];
    mesh->sizes[a] = draft->sizes[a];
    mesh->bytes_per_s[a] = draft->speeds[a];
    mesh->strides[a] = stride;
    stride *= (uint32_t)draft->sizes[a];
  }
  sort_axes(mesh);
  if (!mesh->devices) return;
  mesh->places = mesh->devices + mesh->device_count;
  for (int i = 0; i < mesh->place_count; i++) mesh->places[i] = -1;
  for (int p = 0; p < mesh->device_count; p++) {
    mesh->devices[p] = draft_device(draft, p);
    mesh->places[mesh->devices[p] - mesh->lowest] = p;
  }
}

/* The devices of a draft lie between the lowest and the highest of them. */
static void find_place_range(tsr_mesh *mesh, const struct draft *draft)
{
  int highest = mesh->lowest = draft_device(draft, 0);
  for (int p = 1; p < draft->device_count; p++) {
    int device = draft_device(draft, p);
    if (device < mesh->lowest) mesh->lowest = device;
    if (device > highest) highest = device;
  }
  mesh->place_count = highest - mesh->lowest + 1;
}

/* Makes the object, not yet in the table; NULL out of memory. */
static tsr_mesh *mesh_new(tsr_runtime *rt, const struct draft *draft, uint64_t hash)
{
  tsr__heap *heap = &rt->heap;
  tsr_mesh *mesh = tsr__new(heap, sizeof *mesh);

  if (!mesh) return NULL;
  mesh->rt = rt;
  mesh->branch.hash = hash;
  mesh->device_count = draft->device_count;
  mesh->abstract = draft->abstract;
  if (!draft->abstract) find_place_range(mesh, draft);
  size_t bytes = ((size_t)mesh->device_count + (size_t)mesh->place_count) * sizeof(int);
  mesh->devices = draft->abstract ? NULL : tsr__new(heap, bytes);
  if (!mesh->devices && !draft->abstract) goto no_devices;
  mesh_fill(mesh, draft);
  mesh->text = mesh_text_new(heap, mesh);
  if (!mesh->text) goto no_text;
  return mesh;
no_text:
  if (mesh->devices) tsr__del(heap, mesh->devices, bytes);
no_devices:
  tsr__del(heap, mesh, sizeof *mesh);
  return NULL;
}

/* An inert mesh with a copy of the error; NULL out of memory. */
static tsr_mesh *inert_new(tsr_runtime *rt, const tsr__error *error, uint64_t hash)
{
  tsr_mesh *mesh = tsr__new(&rt->heap, sizeof *mesh);

  if (!mesh) return NULL;
  mesh->rt = rt;
  mesh->branch.hash = hash;
  mesh->error = tsr__new(&rt->heap, sizeof *mesh->error);
  if (!mesh->error) {
    tsr__del(&rt->heap, mesh, sizeof *mesh);
    return NULL;
  }
  *mesh->error = *error;
  return mesh;
}

/* What is looked for in the table: a mesh of a draft, or a bad one of an error. */
typedef struct wish {
  const struct draft *draft;
  const tsr__error *error; /* NULL: a good one */
  uint64_t hash;
} wish;

static bool is_wanted(const wish *w, const tsr_mesh *mesh)
{
  if (mesh->branch.hash != w->hash || !mesh->error != !w->error) return false;
  return w->error
             ? mesh->error->status == w->error->status && !strcmp(mesh->error->text, w->error->text)
             : draft_equals(w->draft, mesh);
}

/* Only good meshes are counted: errors may come at one process alone, and must not shift the
 * numbers of what all of them make. Own ones go by themselves, downwards: all processes have them
 * over other devices, under the same number. */
static void count_mesh(tsr__topology *topology, const wish *w, tsr_mesh *mesh)
{
  if (w->error) {
    topology->bad_count++;
    return;
  }
  topology->mesh_count++;
  topology->own_count += w->draft->own;
  mesh->id = w->draft->own ? -topology->own_count : topology->mesh_count - topology->own_count;
}

/* The mesh that is there, else `fresh`, which others find from here on. A bad call in a loop must
 * not fill memory: equal errors are one object, and beyond MOST_BAD different ones share a constant
 * that tells so. Under the runtime's lock, as all that reads or writes the table is; meshes
 * themselves do not change once they are in it, and are read without. */
static const tsr_mesh *keep_mesh(tsr_runtime *rt, const wish *w, tsr_mesh *fresh)
{
  tsr__topology *topology = tsr__topology_of(rt);
  const tsr_mesh *found = NULL;

  pthread_mutex_lock(&rt->lock);
  tsr__branch **at = &topology->meshes.top;
  for (uint64_t path = w->hash; *at && !found; at = tsr__branch_below(*at, &path))
    if (is_wanted(w, (const tsr_mesh *)*at)) found = (const tsr_mesh *)*at;
  if (!found && w->error && topology->bad_count >= MOST_BAD)
    found = w->error->status == TSR_EAXIS ? &crowd_of_specs : &crowd_mesh;
  if (!found && fresh) {
    count_mesh(topology, w, fresh);
    tsr__branch_put(&topology->meshes, at, &fresh->branch);
    found = fresh;
  }
  pthread_mutex_unlock(&rt->lock);
  return found;
}

/* Looked for first: most meshes are made once and asked for again. */
static const tsr_mesh *find_or_make(tsr_runtime *rt, const wish *w)
{
  const tsr_mesh *mesh = keep_mesh(rt, w, NULL);
  if (mesh) return mesh;
  tsr_mesh *fresh = w->error ? inert_new(rt, w->error, w->hash) : mesh_new(rt, w->draft, w->hash);
  if (!fresh) return &memory_mesh;
  mesh = keep_mesh(rt, w, fresh);
  if (mesh != fresh) tsr__mesh_free(&rt->heap, fresh); /* another thread was sooner */
  return mesh;
}

const tsr_mesh *tsr__mesh_bad(tsr_runtime *rt, const tsr__error *error)
{
  uint64_t hash = tsr__hash(error->text, strlen(error->text), (uint64_t)error->status);
  return find_or_make(rt, &(wish){ .error = error, .hash = hash });
}

/* The mesh of a draft read so far with `error`; both kinds of mesh are kept by the runtime. The
 * draft is checked before the lock is taken: the devices it is checked against never change once
 * meshes are made. */
static tsr_mesh *mesh_of(tsr_runtime *rt, struct draft *draft, tsr__error *error)
{
  if (!error->status) check_draft(tsr__topology_of(rt), draft, error);
  if (error->status) return (tsr_mesh *)tsr__mesh_bad(rt, error);
  return (tsr_mesh *)find_or_make(rt, &(wish){ .draft = draft, .hash = draft_hash(draft) });
}

/* Of NULL for a runtime nothing can be kept, hence no mesh; of one that failed to open there is
 * no table, hence a constant. */
static tsr_mesh *make_text(tsr_runtime *rt, const char *text, bool abstract, bool missing)
{
  struct draft draft = { .axis_count = 0, .abstract = abstract, .missing = missing };
  tsr__error error = { .status = TSR_OK };

  if (!rt) return NULL;
  if (!tsr__topology_of(rt)) return (tsr_mesh *)&closed_mesh;
  if (text) {
    tsr__quote(text, strlen(text), draft.text);
    read_mesh(text, &draft, &error);
  } else {
    tsr__error_set(&error, TSR_EARG,
                   "the text of a mesh is NULL; write axes as "
                   "\"data=4,model=2\"");
  }
  return mesh_of(rt, &draft, &error);
}

/* Whether options say how devices are wired. Without a word of it the devices stay in the order
 * of their ids, and no search is made. */
static bool wired(const tsr_mesh_opts *opts)
{
  bool outer = false;
  for (int a = 0; a < TSR_MAX_AXES; a++) outer |= opts->outer[a] != 0;
  return opts->grid_rank || opts->ring || opts->split || outer;
}

/* As mesh_of, with the devices in the order of their wires. */
static tsr_mesh *mesh_in_order(tsr_runtime *rt, const tsr_mesh_opts *opts, struct draft *draft,
                               tsr__error *error)
{
  tsr__topology *topology = tsr__topology_of(rt);
  size_t bytes = (size_t)topology->device_count * sizeof(int);
  /* The search for an order needs a draft that is right. A bad one goes on to mesh_of, which
   * makes of the error what it makes of any. */
  if (error->status || check_draft(topology, draft, error)) return mesh_of(rt, draft, error);
  if (draft->devices || draft->abstract)
    tsr__error_set(error, TSR_EARG,
                   "mesh \"%s\": .grid or .outer gives the order of the devices; leave out the "
                   "list of devices, and .abstract",
                   draft->text);
  int *devices = tsr__new(&rt->heap, bytes);
  if (!devices) return (tsr_mesh *)&memory_mesh;
  /* Lent to the draft: mesh_fill copies them. The mesh that comes out is equal to one whose
   * devices were listed in that order. */
  draft->devices = devices;
  if (!error->status) tsr__mesh_order(opts, draft->device_count, devices, error);
  tsr_mesh *mesh = mesh_of(rt, draft, error);
  tsr__del(&rt->heap, devices, bytes);
  return mesh;
}

tsr_mesh *tsr_mesh_make(tsr_runtime *rt, const char *text)
{
  return make_text(rt, text, false, false);
}

tsr_mesh *tsr_mesh_abstract(tsr_runtime *rt, const char *text)
{
  return make_text(rt, text, true, false);
}

tsr_mesh *tsr__mesh_missing(tsr_runtime *rt, const char *text)
{
  return make_text(rt, text, true, true);
}

tsr_mesh *tsr_mesh_make_with(tsr_runtime *rt, const tsr_mesh_opts *opts)
{
  struct draft draft = { .axis_count = 0 };
  tsr__error error = { .status = TSR_OK };

  if (!rt) return NULL;
  if (!tsr__topology_of(rt)) return (tsr_mesh *)&closed_mesh;
  tsr_mesh_opts own = { .size = sizeof own };
  /* Fails into `error`, with which both ways below make an inert mesh. */
  take_opts(opts, &own, &draft, &error);
  return wired(&own) ? mesh_in_order(rt, &own, &draft, &error) : mesh_of(rt, &draft, &error);
}

/* The axes are those of a mesh that was checked; their sizes here are smaller or as large. */
tsr_mesh *tsr__mesh_own(const tsr_mesh *mesh, const int64_t *sizes, const int *devices)
{
  tsr__error error = { .status = TSR_OK };
  struct draft draft = { .axis_count = mesh->axis_count, .devices = devices, .own = true };

  draft.device_count = 1;
  draft.flops = mesh->flops_per_s;
  for (int a = 0; a < mesh->axis_count; a++) {
    draft.names[a] = mesh->names[a];
    draft.lengths[a] = mesh->lengths[a];
    draft.sizes[a] = sizes[a];
    draft.speeds[a] = mesh->bytes_per_s[a];
    draft.device_count *= (int)sizes[a];
  }
  return mesh_of(mesh->rt, &draft, &error);
}

/* The same object each time, as equal meshes are. */
tsr_mesh *tsr_mesh_default(tsr_runtime *rt, const char *axis)
{
  const tsr__topology *topology = tsr__topology_of(rt);
  tsr_mesh_opts opts = { .size = sizeof opts, .axis_count = 1 };

  opts.names[0] = axis ? axis : "data";
  /* Without a topology the mesh is inert whatever its size: make_with finds that out and says
   * why. */
  opts.sizes[0] = topology ? topology->device_count : 1;
  return tsr_mesh_make_with(rt, &opts);
}

/* What the sub-mesh of a mesh is asked for: the axis's number, and from where how much.
 *
 *   x=2,y=4, y from 1, 2 of them       0 [1 2] 3
 *                                      4 [5 6] 7     -> x=2,y=2 over 1 2 5 6 */
struct cut {
  const char *name;
  int axis;
  int64_t start, count;
};

static tsr_status check_cut(const tsr_mesh *mesh, struct cut *cut, tsr__error *error)
{
  char quote[TSR__QUOTE];

  cut->axis = -1;
  for (int a = 0; cut->name && a < mesh->axis_count; a++)
    if (strcmp(mesh->names[a], cut->name) == 0) cut->axis = a;
  if (cut->axis < 0) {
    const char *name = cut->name ? cut->name : "";
    return tsr__error_set(error, TSR_EAXIS, "tsr_mesh_sub: no axis '%s'; the mesh has %s",
                          tsr__quote(name, strlen(name), quote), mesh->text);
  }
  int64_t size = mesh->sizes[cut->axis];
  /* `size - start` instead of `start + count`, which could overflow. */
  if (cut->start >= 0 && cut->count >= 1 && cut->start < size && cut->count <= size - cut->start)
    return TSR_OK;
  return tsr__error_set(error, TSR_EARG,
                        "tsr_mesh_sub: %lld positions from %lld on along axis '%s', expected at "
                        "least one, all within its %lld (mesh %s)",
                        (long long)cut->count, (long long)cut->start, cut->name, (long long)size,
                        mesh->text);
}

/* The devices that a cut leaves, in order. */
static void cut_devices(const tsr_mesh *mesh, const struct cut *cut, int *out)
{
  /* Positions in order are row-major, and leaving out coordinates of one axis keeps them so. */
  for (int p = 0; p < mesh->device_count; p++) {
    int64_t at = tsr__mesh_coord(mesh, p, cut->axis) - cut->start;
    if (at >= 0 && at < cut->count) *out++ = mesh->devices[p];
  }
}

/* A part of a process's own mesh is its own as well: no other process makes it, so it must not be
 * counted with those that all make. */
static tsr_mesh *cut_mesh(const tsr_mesh *mesh, const struct cut *cut)
{
  tsr_mesh_opts opts = { .size = sizeof opts, .axis_count = mesh->axis_count };
  /* Room for all devices, though the cut takes fewer: the count is make_with's to find out. */
  size_t bytes = (size_t)mesh->device_count * sizeof(int);
  int *devices = mesh->abstract ? NULL : tsr__new(&mesh->rt->heap, bytes);

  if (!devices && !mesh->abstract) return (tsr_mesh *)&memory_mesh;
  if (devices) cut_devices(mesh, cut, devices);
  for (int a = 0; a < mesh->axis_count; a++) {
    opts.names[a] = mesh->names[a];
    opts.sizes[a] = a == cut->axis ? cut->count : mesh->sizes[a];
    opts.axis_bytes_per_s[a] = (double)mesh->bytes_per_s[a]; /* exact: below 2^53 */
  }
  opts.flops_per_s = (double)mesh->flops_per_s;
  opts.devices = devices;
  opts.abstract = mesh->abstract;
  tsr_mesh *out =
      mesh->own ? tsr__mesh_own(mesh, opts.sizes, devices) : tsr_mesh_make_with(mesh->rt, &opts);
  if (devices) tsr__del(&mesh->rt->heap, devices, bytes);
  return out;
}

tsr_mesh *tsr_mesh_sub(const tsr_mesh *mesh, const char *axis, int64_t start, int64_t count)
{
  struct cut cut = { .name = axis, .start = start, .count = count };
  tsr__error error = { .status = TSR_OK };

  /* What is made of a bad mesh is that mesh, so that its message stays the first one. */
  if (!mesh || mesh->error) return (tsr_mesh *)mesh;
  if (!check_cut(mesh, &cut, &error)) return cut_mesh(mesh, &cut);
  return (tsr_mesh *)tsr__mesh_bad(mesh->rt, &error);
}

/* NULL gives it back to the scope around. */
void tsr_scope_use_mesh(tsr_scope *scope, const tsr_mesh *mesh)
{
  if (scope && !scope->inert) scope->mesh = mesh;
}

const tsr_mesh *tsr_scope_mesh(const tsr_scope *scope)
{
  /* The nearest one wins. Meshes live as long as the runtime, so a scope need not hold them. */
  while (scope && !scope->mesh) scope = scope->outer;
  return scope ? scope->mesh : NULL;
}

tsr_sharding tsr_on_device(tsr_runtime *rt, int device)
{
  const tsr__topology *topology = tsr__topology_of(rt);
  struct draft draft = { .axis_count = 1,
                         .names = { "device" },
                         .lengths = { 6 },
                         .sizes = { 1 },
                         .devices = &device,
                         .device_count = 1 };
  tsr__error error = { .status = TSR_OK };

  /* A spec with an axis and without a mesh: that is the error of no mesh. */
  if (!rt) return tsr_on_with(NULL, "device", NULL);
  if (!topology) return tsr_on_with(&closed_mesh, NULL, NULL);
  if (device < 0 || device >= topology->device_count)
    tsr__error_set(&error, TSR_EARG, "there is no device %d; the runtime's devices are 0 to %d",
                   device, topology->device_count - 1);
  return tsr_on_with(mesh_of(rt, &draft, &error), NULL, NULL);
}

/* ---- queries ----------------------------------------------------------------------------- */

tsr_status tsr_mesh_status(const tsr_mesh *mesh)
{
  return !mesh ? TSR_EARG : mesh->error ? mesh->error->status : TSR_OK;
}

const char *tsr_mesh_message(const tsr_mesh *mesh)
{
  return !mesh         ? "the mesh is NULL; make one with tsr_mesh_make"
         : mesh->error ? mesh->error->text
                       : "";
}

const char *tsr_mesh_text(const tsr_mesh *mesh)
{
  return mesh && mesh->text ? mesh->text : "";
}

int tsr_mesh_axis_count(const tsr_mesh *mesh)
{
  return mesh ? mesh->axis_count : 0;
}

const char *tsr_mesh_axis_name(const tsr_mesh *mesh, int axis)
{
  return mesh && axis >= 0 && axis < mesh->axis_count ? mesh->names[axis] : NULL;
}

/* 0 for an axis that it has not, which no axis has as its size. */
int64_t tsr_mesh_axis_size(const tsr_mesh *mesh, const char *name)
{
  for (int a = 0; mesh && name && a < mesh->axis_count; a++)
    if (strcmp(mesh->names[a], name) == 0) return mesh->sizes[a];
  return 0;
}

int tsr_mesh_device_count(const tsr_mesh *mesh)
{
  return mesh ? mesh->device_count : 0;
}

bool tsr_mesh_is_abstract(const tsr_mesh *mesh)
{
  return mesh && mesh->abstract;
}

int tsr__mesh_position(const tsr_mesh *mesh, int device)
{
  if (mesh->abstract) return device >= 0 && device < mesh->device_count ? device : -1;
  int place = device - mesh->lowest;
  return place >= 0 && place < mesh->place_count ? mesh->places[place] : -1;
}

int tsr_mesh_device(const tsr_mesh *mesh, int position)
{
  if (!mesh || mesh->abstract || position < 0 || position >= mesh->device_count) return -1;
  return mesh->devices[position];
}
