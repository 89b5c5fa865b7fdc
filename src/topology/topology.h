/* Level 1: what devices there are, meshes over them and who holds which part of an array.
 * Pure arithmetic: no I/O, no threads, no memory of devices. */
#ifndef TSR_TOPOLOGY_TOPOLOGY_H
#define TSR_TOPOLOGY_TOPOLOGY_H

#include "base/base.h"
#include "tessera/topology.h"

/* ---- element types ----------------------------------------------------------------------- */

enum tsr__dtype_kind {
  TSR__DTYPE_NONE,
#define KIND(id, ...) TSR__DTYPE_##id,
#include "topology/dtypes.def"
};

/* How a number of a dtype is held beside arrays; NONE: not at all. */
enum tsr__dtype_numbers { TSR__NUMBERS_NONE, TSR__NUMBERS_WHOLE, TSR__NUMBERS_REAL };

/* Traits of kinds, as dtypes.def explains them. */
enum tsr__dtype_trait {
  TSR__DTYPE_BITS = 1,
  TSR__DTYPE_HAS_NAN = 2,
  TSR__DTYPE_ROUNDS = 4,
  TSR__DTYPE_GRADIENT = 8
};

enum { TSR__DTYPES = 16 }; /* dtypes are 1 .. 15, not all of them taken */

/* A row of dtypes.def, which says what the fields are. */
typedef struct tsr__dtype_info {
  const char *name;
  uint8_t bits, kind, precision, computes, numbers, traits;
  int16_t lowest;
  const char *npy, *arrow;
  uint8_t dlpack;
} tsr__dtype_info;

/* The row of a dtype; of none: the name "?" and zeros. Never NULL. */
const tsr__dtype_info *tsr__dtype_info_of(tsr_dtype dtype);

/* Error: TSR_EDTYPE where a number is no dtype, or one of a kind that arrays do not have: each call
 * that is given a dtype refuses it by this. */
tsr_status tsr__dtype_check(tsr_dtype dtype, tsr__error *error);

/* Whether arrays can have a dtype. */
static inline bool tsr__dtype_known(tsr_dtype dtype)
{
  return tsr__dtype_info_of(dtype)->numbers != TSR__NUMBERS_NONE;
}

enum { TSR__SIZES = 4 }; /* elements take 1, 2, 4 or 8 bytes */

/* 0 .. 3 for those. */
static inline int tsr__size_log(int64_t bytes)
{
  return __builtin_ctzll((unsigned long long)bytes);
}

/* Bytes of so many elements on their way between devices: bools are bits, rounded up to whole
 * bytes. */
int64_t tsr__elements_bytes(tsr_dtype dtype, int64_t count);

#define TSR__FOR_DTYPES(dtype)                      \
  for (int dtype = 1; dtype < TSR__DTYPES; dtype++) \
    if (tsr__dtype_known((tsr_dtype)dtype))

/* The type's numbers are doubles: those of tsr__dtype_get_real and _put_real, `f` of a tsr__num. */
static inline bool tsr__dtype_is_real(tsr_dtype dtype)
{
  return tsr__dtype_info_of(dtype)->numbers == TSR__NUMBERS_REAL;
}

/* The type has logic, bit by bit: bools and integers. */
static inline bool tsr__dtype_has_bits(tsr_dtype dtype)
{
  return tsr__dtype_info_of(dtype)->traits & TSR__DTYPE_BITS;
}

/* The type has NaN and infinities. */
static inline bool tsr__dtype_has_nan(tsr_dtype dtype)
{
  return tsr__dtype_info_of(dtype)->traits & TSR__DTYPE_HAS_NAN;
}

/* The type's arithmetic rounds, so that results depend on its order. */
static inline bool tsr__dtype_rounds(tsr_dtype dtype)
{
  return tsr__dtype_info_of(dtype)->traits & TSR__DTYPE_ROUNDS;
}

/* Functions of the type have derivatives. */
static inline bool tsr__dtype_has_gradient(tsr_dtype dtype)
{
  return tsr__dtype_info_of(dtype)->traits & TSR__DTYPE_GRADIENT;
}

/* The dtype of results of functions (sqrt) and of means: the type itself if it rounds, else f64. */
static inline tsr_dtype tsr__dtype_of_functions(tsr_dtype dtype)
{
  return tsr__dtype_rounds(dtype) ? dtype : TSR_F64;
}

static inline bool tsr__dtype_integer(tsr_dtype dtype)
{
  int kind = tsr__dtype_info_of(dtype)->kind;
  return kind == TSR__DTYPE_INT || kind == TSR__DTYPE_UINT;
}

/* Rounds a double to a dtype of floats, once, and writes it as element i. */
void tsr__dtype_put_real(tsr_dtype dtype, void *to, int64_t i, double value);
/* Writes the low bits of an integer as element i of a dtype of integers. */
void tsr__dtype_put_whole(tsr_dtype dtype, void *to, int64_t i, int64_t value);
/* A double as a dtype of floats would keep it. */
double tsr__dtype_round(tsr_dtype dtype, double value);
/* An integer (`natural`: of u64) rounded once to a dtype of floats. */
double tsr__dtype_real_of(tsr_dtype dtype, int64_t value, bool natural);
/* Element i of an array of floats, exactly. */
double tsr__dtype_get_real(tsr_dtype dtype, const void *from, int64_t i);
/* Element i of an array of integers or of bools as bytes; of u64 its bits. */
int64_t tsr__dtype_get_whole(tsr_dtype dtype, const void *from, int64_t i);

/* The ends of a dtype of integers; the upper one of u64 is no int64_t. */
int64_t tsr__dtype_least(tsr_dtype dtype);
uint64_t tsr__dtype_most(tsr_dtype dtype);
/* Whether a dtype of integers has a number. */
bool tsr__dtype_holds(tsr_dtype dtype, int64_t value);
/* Writes element i of an array of numbers: the shortest text that reads back to it. Returns the
 * length; `out` holds 32 bytes. */
int tsr__dtype_text(tsr_dtype dtype, const void *from, int64_t i, char *out);

/* The dtype two operands meet in (JAX's lattice with 64-bit types on; i64 + f32 is f32); 0 meets
 * anything in the other. */
tsr_dtype tsr__promote(tsr_dtype a, tsr_dtype b);

/* ---- devices and meshes ------------------------------------------------------------------ */

enum {
  TSR__MOST_DEVICES = 4096, /* of all processes */
  TSR__MOST_KINDS = 4,      /* of one runtime */
  TSR__KIND_NAME = 16       /* bytes of a kind's name, the end included */
};

/* The devices of all processes. Device ids run over the processes in order: process p of n
 * holds ids p * per_process .. (p + 1) * per_process - 1. A pretend topology (tests) says it
 * has several processes although only one runs.
 *
 * Devices of a kind follow each other, in the order of the text, which has each kind once:
 *
 *     "cpu:4,late:2"     kinds[0] = { "cpu", 0 }     kinds[1] = { "late", 4 } */
typedef struct tsr__topology {
  struct {
    char name[TSR__KIND_NAME]; /* "cpu" */
    int first;                 /* number, in its process, of the first device of the kind */
  } kinds[TSR__MOST_KINDS];
  int kind_count;
  int device_count; /* over all processes */
  int process_count, process_index, per_process;
  tsr__hash_tree meshes;                /* owned; meshes of equal content are one object */
  int mesh_count, own_count, bad_count; /* own ones count as meshes, too */
} tsr__topology;

/* Parses "cpu:8" ("cpu" = one device), or several kinds as "cpu:8,cuda:2", into `out`; at most
 * TSR__MOST_DEVICES. The kinds are those of tsr__kind_names. */
tsr_status tsr__topology_parse(const char *text, tsr__topology *out, tsr__error *error);
/* The names of kinds.def; NULL comes after the last. Tests that have kinds of their own define this
 * function. */
const char *const *tsr__kind_names(void);
/* The number of a device's kind in `kinds`; positions of an abstract mesh may stand for devices. */
int tsr__device_kind_of(const tsr__topology *topology, int device);
/* The runtime's slot. */
static inline tsr__topology *tsr__topology_of(const tsr_runtime *rt)
{
  return rt ? rt->slots[TSR__SLOT_TOPOLOGY] : NULL;
}

/* Fills the slot; a bad text becomes the runtime's error and leaves the slot empty. */
tsr_status tsr__topology_install(tsr_runtime *rt, const char *devices);
/* Tests: says that the runtime is process `index` of `count`, each with as many devices as this
 * one. Only before the first mesh is made; false otherwise. */
bool tsr__topology_spread(tsr_runtime *rt, int count, int index);
/* The same of devices that are all processes' together: each has as many of them. False also where
 * that cannot be. */
bool tsr__topology_split(tsr_runtime *rt, int count, int index);
/* The process that holds a device, -1 where there is none, and whether it is this one. */
int tsr__device_process(const tsr__topology *topology, int device);
static inline bool tsr__device_local(const tsr__topology *topology, int device)
{
  if (!topology || device < 0 || device >= topology->device_count) return false;
  int own = device - topology->process_index * topology->per_process;
  return own >= 0 && own < topology->per_process;
}

/* The first device of a device's process, as a mesh's runtime has them: there lies what has no
 * mesh, in each process; 0 of a mesh without devices. */
int tsr__first_beside(const tsr_mesh *mesh, int device);

struct tsr_mesh {
  tsr__branch branch; /* its hash is that of names, sizes, speeds and devices; of the error when
                       * inert */
  tsr_runtime *rt;
  int id; /* 1, 2, ... in order of making: equal on all processes */
  int axis_count;
  char names[TSR_MAX_AXES][32];
  int64_t sizes[TSR_MAX_AXES];
  uint32_t strides[TSR_MAX_AXES];    /* positions between neighbours along an axis */
  uint8_t lengths[TSR_MAX_AXES];     /* of the names */
  int64_t bytes_per_s[TSR_MAX_AXES]; /* the speed of each axis; 0 for all: the mesh names none */
  int64_t flops_per_s;               /* the speed of a device; 0: the mesh names none */
  uint8_t slowest[TSR_MAX_AXES];     /* the axes from the slowest to the fastest */
  int device_count;
  int *devices; /* row-major; NULL when abstract */
  int *places;  /* the position of device lowest + i, or -1; allocated with `devices` */
  int lowest, place_count;
  bool abstract; /* sizes without devices */
  bool missing;  /* abstract because there are fewer devices here than it is over */
  bool own;      /* this process's part of another mesh: nobody else knows of it */
  char *text;
  tsr__error *error; /* non-NULL: inert, and without axes or devices */
};

/* Of one that is in no table, or whose table goes. */
void tsr__mesh_free(tsr__heap *heap, tsr_mesh *mesh);

/* A bad mesh with that error, owned by the runtime: what a bad spec lies on. Never NULL. */
const tsr_mesh *tsr__mesh_bad(tsr_runtime *rt, const tsr__error *error);

/* A mesh of the first devices of a machine that has more of them than this one: it has sizes alone,
 * as an abstract one, and is another object. */
tsr_mesh *tsr__mesh_missing(tsr_runtime *rt, const char *text);

/* A mesh of this process's own with the axes of another one, of these sizes. */
tsr_mesh *tsr__mesh_own(const tsr_mesh *mesh, const int64_t *sizes, const int *devices);

/* Writes the `count` devices of a mesh whose options say how they are wired. */
tsr_status tsr__mesh_order(const tsr_mesh_opts *opts, int count, int *out, tsr__error *error);

/* Whether a mesh names the speeds of its axes. */
static inline bool tsr__mesh_has_speeds(const tsr_mesh *mesh)
{
  return mesh && mesh->bytes_per_s[0];
}

/* The flops of a device in the time of a byte along the fastest axis. A core of a CPU makes some
 * twenty, other kinds of devices hundreds or thousands: where a mesh does not say, a number between
 * them is taken. */
enum { TSR__FLOPS_PER_BYTE = 128 };

static inline double tsr__mesh_flops_per_byte(const tsr_mesh *mesh)
{
  if (!mesh || !mesh->flops_per_s) return TSR__FLOPS_PER_BYTE;
  return (double)mesh->flops_per_s / (double)mesh->bytes_per_s[mesh->slowest[mesh->axis_count - 1]];
}

/* Whether a byte may stand in an axis name: letters, digits and '_' of ASCII. */
static inline bool tsr__axis_byte(unsigned char c)
{
  return (unsigned)(c | 0x20) - 'a' < 26u || (unsigned)c - '0' < 10u || c == '_';
}

/* Coordinate of a position along an axis. Positions count through the mesh in C order: the last
 * axis is the fastest. */
static inline int64_t tsr__mesh_coord(const tsr_mesh *mesh, int position, int axis)
{
  /* Unsigned 32 bits hold all positions, and their division is cheaper than that of 64. The
   * last axis needs no division, and the first axis no remainder. */
  uint32_t stride = mesh->strides[axis], at = (uint32_t)position;
  if (stride > 1) at /= stride;
  return axis ? at % (uint32_t)mesh->sizes[axis] : at;
}

/* The position of a device; -1: the mesh is not over it. Positions of an abstract mesh stand for
 * devices. */
int tsr__mesh_position(const tsr_mesh *mesh, int device);

/* ---- groups of positions ----------------------------------------------------------------- */

/* Positions that differ along some axes (bits) alone are a group; its leader is the lowest.
 *
 *   x=2,y=3      0 1 2      along y   groups {0 1 2} {3 4 5}     offsets 0 1 2, leaders 0 3
 *                3 4 5      along x   groups {0 3} {1 4} {2 5}   offsets 0 3,   leaders 0 1 2
 *
 * Member m of group g is leader g + offset m. Leaders are the offsets along all other axes, so a
 * group needs no list: tsr__mesh_group_offset(mesh, ~axes, g). Without a mesh there is one
 * position, which is a group by itself. */
int tsr__mesh_group_size(const tsr_mesh *mesh, unsigned axes);
/* The offset of member `index`; offsets ascend. */
int tsr__mesh_group_offset(const tsr_mesh *mesh, unsigned axes, int index);
/* The member's index of a position, and the leader of its group. */
int tsr__mesh_group_index(const tsr_mesh *mesh, unsigned axes, int position);
int tsr__mesh_group_leader(const tsr_mesh *mesh, unsigned axes, int position);

/* ---- parts of a dim ---------------------------------------------------------------------- */

/* The number of parts a dim is cut into: the product of its axes' sizes. */
int64_t tsr__dim_parts(const tsr_sharding *sharding, int dim);

/* The part of one dim that a position holds, split axis by axis, major first. A size of -1 (known
 * at run time) has the span 0, -1. */
typedef struct tsr__span {
  int64_t start, length;
} tsr__span;

tsr__span tsr__dim_span(const tsr_sharding *sharding, int dim, int64_t size, int position);

/* Which of the parts of a dim a position holds, in the order of the parts' starts. */
int64_t tsr__dim_index(const tsr_sharding *sharding, int dim, int position);

/* As tsr__dim_span, into two variables. */
#define tsr__dim_part(sharding, dim, size, position, start, length) \
  tsr__span_put(tsr__dim_span(sharding, dim, size, position), start, length)
static inline void tsr__span_put(tsr__span span, int64_t *start, int64_t *length)
{
  *start = span.start;
  *length = span.length;
}

/* The span of a part, by its number; the number of the part that has an element; and the offset of
 * the positions that hold a part from those that hold part 0. A position that no other dim moves
 * further is the sum of its parts' offsets. */
tsr__span tsr__part_span(const tsr_sharding *sharding, int dim, int64_t size, int64_t part);
int64_t tsr__part_with(const tsr_sharding *sharding, int dim, int64_t size, int64_t element);
int tsr__part_offset(const tsr_sharding *sharding, int dim, int64_t part);

/* The elements that a span of a dim and a part of it have in common; starts count from the part's
 * and from the span's. */
typedef struct tsr__overlap {
  int64_t part_size, from_start, to_start, size;
  int offset; /* the part's (tsr__part_offset) */
} tsr__overlap;

/* A walk over the overlaps of a span with the parts that have some of it, in order. */
typedef struct tsr__overlap_walk {
  const tsr_sharding *sharding;
  int dim;
  int64_t size, part, at; /* of the dim; the next part, and the next element */
  tsr__span span;
} tsr__overlap_walk;

tsr__overlap_walk tsr__overlaps_begin(const tsr_sharding *sharding, int dim, int64_t size,
                                      tsr__span span);
/* Returns false after the last overlap. */
bool tsr__overlaps_next(tsr__overlap_walk *walk, tsr__overlap *out);

/* A part of an array as the pieces that others hold of it: each combination of an overlap a dim is
 * one. The position that has a piece is the sum of the offsets of its overlaps, the lowest of all
 * replicas; `own` is read in the place of `leader`. */
typedef struct tsr__piece_grid {
  int rank;
  int counts[TSR_MAX_RANK];
  const tsr__overlap *overlaps[TSR_MAX_RANK];
  int leader, own; /* -1: no position is read in the place of another */
} tsr__piece_grid;

/* As tsr_shard_box for a sharding already checked. */
void tsr__box(const tsr_sharding *sharding, const tsr_shape *shape, int position, tsr_box *out);

/* Bit mask of the mesh axes that a dim (or any dim) of the sharding uses. */
unsigned tsr__dim_axes(const tsr_sharding *sharding, int dim);
unsigned tsr__used_axes(const tsr_sharding *sharding);
/* The axes of the mesh that no dim uses: replicas differ along them. */
unsigned tsr__free_axes(const tsr_sharding *sharding);

/* When a dim may decide how others are cut: 0 is first. Only a dim that is cut has one. */
static inline int tsr__dim_priority(const tsr_sharding *sharding, int dim)
{
  return sharding->priority[dim / 4] >> dim % 4 * 2 & 3;
}

/* Whether a dim is not of the first. */
static inline bool tsr__has_priority(const tsr_sharding *sharding)
{
  const uint8_t *of = sharding->priority;
  return of[0] | of[1] | of[2] | of[3];
}

static inline void tsr__dim_set_priority(tsr_sharding *sharding, int dim, int priority)
{
  int shift = dim % 4 * 2, others = sharding->priority[dim / 4] & ~(3 << shift);
  sharding->priority[dim / 4] = (uint8_t)(others | priority << shift);
}

/* Checks a sharding for data of `shape`: a good mesh with devices, a good spec without '?', sums
 * and memory but the device's, rank, strictness. The error names dim, axis and, when strict, the
 * nearest sizes that divide. */
tsr_status tsr__sharding_check(const tsr_sharding *sharding, const tsr_shape *shape,
                               tsr__error *error);

/* As tsr__sharding_check for an index map alone: no devices are needed, and parts may be sums. */
tsr_status tsr__sharding_check_form(const tsr_sharding *sharding, const tsr_shape *shape,
                                    tsr__error *error);

/* As tsr__sharding_check; the message also names the element type (0: left out). */
tsr_status tsr__sharding_check_type(const tsr_sharding *sharding, tsr_dtype dtype,
                                    const tsr_shape *shape, tsr__error *error);

/* Whether two shardings place every array alike: equal canonical forms but for priorities. */
bool tsr__sharding_equal(const tsr_sharding *a, const tsr_sharding *b);

/* Canonical form: axes of size 1 removed, also from sums, of all dims; equal placements become
 * equal bytes (strict cleared), but for their priorities. */
tsr_sharding tsr__sharding_canon(const tsr_sharding *sharding);

/* Number of devices (positions) of a sharding: without a mesh there is one, on device 0. */
static inline int tsr__positions(const tsr_sharding *sharding)
{
  return sharding->mesh ? sharding->mesh->device_count : 1;
}

/* The device at a position; -1 outside. Of an abstract mesh positions stand for devices, so that
 * plans for machines that are not here can be made. */
static inline int tsr__position_device(const tsr_sharding *sharding, int position)
{
  if (position < 0 || position >= tsr__positions(sharding)) return -1;
  if (!sharding->mesh) return 0;
  return sharding->mesh->abstract ? position : sharding->mesh->devices[position];
}

/* The position of a device, -1: the mesh is not over it. Without a mesh device 0 has position 0. */
static inline int tsr__device_position(const tsr_sharding *sharding, int device)
{
  return sharding->mesh ? tsr__mesh_position(sharding->mesh, device) : device ? -1 : 0;
}

/* Whether a position has elements of its own. Where parts add up to the value, the first along
 * those axes have it, and the others zeros. */
bool tsr__holds(const tsr_sharding *sharding, int position);

/* The lowest position that holds the same part as `position`: replicas have equal leaders. */
int tsr__replica_leader(const tsr_sharding *sharding, int position);

/* Checks the rank, that no dim is negative (-1 included) and that the element count fits 63
 * bits. */
tsr_status tsr__shape_check(const tsr_shape *shape, tsr__error *error);

/* Element count; -1 on overflow of 63 bits, empty dims left out. A dim of size -1 (known at run
 * time) gives -1. */
int64_t tsr__shape_count(const tsr_shape *shape);
bool tsr__shape_same(const tsr_shape *a, const tsr_shape *b);
/* Elements in a box of so many dims. */
static inline int64_t tsr__box_count(const tsr_box *box, int rank)
{
  int64_t count = 1;
  for (int d = 0; d < rank; d++) count *= box->size[d];
  return count;
}

/* Copies user text into a message-sized buffer: bytes that are no printable UTF-8 become '?',
 * and what does not fit ends in "...". Returns `out`. */
#define TSR__QUOTE 72
const char *tsr__quote(const char *text, size_t length, char out[TSR__QUOTE]);

void tsr__type_add(tsr__text *text, tsr_dtype dtype, const tsr_shape *shape,
                   const tsr_sharding *sharding);

/* Whether every position of both shardings is the same device with the same part of the shape, so
 * that data in one is data in the other. A dim known at run time (-1) must be cut by neither. */
bool tsr__same_places(const tsr_sharding *a, const tsr_sharding *b, const tsr_shape *shape);

#endif
