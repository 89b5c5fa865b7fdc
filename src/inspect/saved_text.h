/* Inside inspect/: functions as text, as they are written and read. */
#ifndef TSR_INSPECT_SAVED_TEXT_H
#define TSR_INSPECT_SAVED_TEXT_H

#include "transform/transform.h"

enum { TSR__TEXT_VERSION = 1 };

/* How large a text may be. The reader has room for so much and the writer refuses more, so that
 * what is written can be read. */
enum {
  TSR__TEXT_MESHES = 16,
  TSR__TEXT_REGIONS = 1000,
  TSR__TEXT_MANY = 1024, /* arguments; data; operands, numbers and results of a node or region */
  TSR__TEXT_DEPTH = 33   /* trees in each other, in a form */
};

/* What a function came to for one kind of arguments. Texts are the arena's of its scope. */
typedef struct tsr__saved {
  const char *name;
  const char *arguments; /* forms, "*;(a: *);" */
  const char *result;    /* form */
  int argument_count;    /* leaves */
  int data_count;        /* arrays that the body took from outside */
  tsr__result *types;    /* of arguments; shardings 0 */
  tsr_sharding *places;  /* of arguments, then of data */
  tsr__value **data;     /* held */
  const char **data_sites;
  tsr__region *region; /* held; takes arguments, then data */
  /* Known of one that was read: */
  const tsr_mesh *meshes[TSR__TEXT_MESHES];
  int mesh_count;
  int bodies, operations; /* regions, and their nodes but leaves and parts of others */
} tsr__saved;

/* What a function was read from; NULL: it was not, which is told. */
const tsr__saved *tsr__saved_of(const tsr_function *function, const char *call, const char *site);

void tsr__saved_release(tsr__saved *saved);

/* Meshes of the text, and those of a call's arguments in their place. */
typedef struct tsr__moved {
  const tsr_mesh *from[TSR__TEXT_MESHES], *to[TSR__TEXT_MESHES];
  int count;
} tsr__moved;

/* What a loaded function takes and needs, for messages; of the scope. */
const char *tsr__saved_needs(tsr_scope *scope, const tsr__saved *saved);
/* What the arguments of a call say of meshes. False: one lies on other axes, which is told. */
bool tsr__saved_meshes(tsr_scope *scope, const tsr__saved *saved, const tsr__leaves *in,
                       const char *site, tsr__moved *out);
/* An array put where the text has it; one that has no place there stays. */
tsr_array *tsr__saved_put(const tsr__moved *moved, tsr_array *array, const tsr_sharding *place,
                          const char *site);
/* A region on the other meshes, held. NULL: out of memory. */
tsr__region *tsr__saved_region(const tsr__moved *moved, tsr__region *region);

/* A field of an attribute's struct, and what it may be. */
typedef struct tsr__field {
  const char *name;
  uint16_t offset;
  uint8_t kind; /* tsr__field_kind */
  uint8_t many; /* so many of them; 0: the table at the end of the struct */
  int64_t least, most;
} tsr__field;

/* INDEX: an I64 that is written when it is zero, too. */
enum tsr__field_kind {
  TSR__FIELD_I64,
  TSR__FIELD_INDEX,
  TSR__FIELD_I32,
  TSR__FIELD_U32,
  TSR__FIELD_U16,
  TSR__FIELD_U8,
  TSR__FIELD_NAME /* a tsr__name_attr */
};

/* The fields of a family, ended by one without a name; NULL: it cannot be written. */
const tsr__field *tsr__fields_of(int family);
int64_t tsr__field_get(const tsr__field *field, const void *attr, int i);
void tsr__field_set(const tsr__field *field, void *attr, int i, int64_t value);
/* The bytes of an item of a table at the end of a struct; item `i` of one of names. */
size_t tsr__field_item(const tsr__field *field);
char *tsr__field_name(const tsr__field *field, const void *attr, int i);

/* Why a node cannot be written, as the end of a sentence; NULL: it can. */
const char *tsr__unwritable(const tsr__program *program, int node);

/* Whether a node is an argument of its region, or a number. */
static inline bool tsr__is_argument(const tsr__gnode *g)
{
  return tsr__is_leaf(g->op) && tsr__ops[g->op].attr == TSR__ATTR_INDEX;
}

static inline bool tsr__is_number(const tsr__gnode *g)
{
  return tsr__is_leaf(g->op) && tsr__ops[g->op].numbers == 1;
}

/* Appends a function. Errors: TSR_EUNSUPPORTED for what cannot be written, with its line. */
tsr_status tsr__saved_write(const tsr__saved *saved, tsr__text *out, tsr__error *error);

/* A text that is read, and where it goes. */
typedef struct tsr__text_ask {
  tsr_scope *scope;
  const char *text;
  size_t length;
} tsr__text_ask;

/* Arrays in a form; -1: it is none, or too deep or large for a text. Ends at the first character
 * behind it. */
int tsr__form_count(const char **at);

/* Reads one; `out` is to be released in any case. Errors: TSR_EPARSE with line and column, those of
 * meshes, TSR_ENOMEM. */
tsr_status tsr__saved_read(const tsr__text_ask *ask, tsr__saved *out, tsr__error *error);

#endif
