/* Attributes by field, one table for who writes and who reads. A field that is zero is not written.
 *
 * What a field may be keeps whoever looks at it inside its tables; whether all of them make sense
 * of the operands at hand, inference says.
 *
 * Names are those of the structs, so they are part of the format: a field that is renamed needs the
 * old name here. What partition alone sets (a dot's places and parts) is not listed, as traced
 * regions have none of it. */
#include "inspect/saved_text.h"

#include <stddef.h>

enum { LAST = TSR_MAX_RANK - 1 };

#define FIELD(type, name, kind, many, least, most)                                           \
  {                                                                                          \
#name, (uint16_t)offsetof(tsr__##type##_attr, name), TSR__FIELD_##kind, (many), (least), \
        (most)                                                                               \
  }
#define FIELDS(family) static const tsr__field family[]
#define END             \
  {                     \
    NULL, 0, 0, 0, 0, 0 \
  }
/* Far beyond any dim, and small enough that a sum of a few of them fits 64 bits. */
#define FAR (INT64_C(1) << 48)

FIELDS(reduce_fields) = { FIELD(reduce, dims, U32, 1, 0, (1 << TSR_MAX_RANK) - 1),
                          FIELD(reduce, keep, U16, 1, 0, 1),
                          FIELD(reduce, checked, U16, 1, 0, 1),
                          FIELD(reduce, ddof, I64, 1, -FAR, FAR),
                          FIELD(reduce, groups, I64, 1, 0, FAR),
                          END };
FIELDS(dim_fields) = { FIELD(dim, dim, I64, 1, 0, LAST), END };
FIELDS(scan_fields) = { FIELD(scan, dim, I64, 1, 0, LAST), FIELD(scan, reverse, I64, 1, 0, 1),
                        END };
FIELDS(sort_fields) = { FIELD(sort, dim, I64, 1, 0, LAST), FIELD(sort, count, I64, 1, 0, FAR),
                        FIELD(sort, order, I64, 1, 0, TSR__ORDER_LARGEST), END };
FIELDS(roll_fields) = { FIELD(roll, dim, I64, 1, 0, LAST), FIELD(roll, count, I64, 1, 0, FAR),
                        END };
FIELDS(pick_fields) = { FIELD(pick, dim, I64, 1, 0, LAST),
                        FIELD(pick, picks, I32, 0, -1, INT32_MAX), END };
FIELDS(diagonal_fields) = { FIELD(diagonal, dim, I64, 1, 0, LAST),
                            FIELD(diagonal, offset, I64, 1, -FAR, FAR), END };
FIELDS(index_fields) = { FIELD(index, index, INDEX, 1, 0, 1 << 20), END };
FIELDS(place_fields) = { FIELD(place, why, I64, 1, 0, TSR__WHYS - 1), END };
FIELDS(slice_fields) = { FIELD(slice, start, I64, TSR_MAX_RANK, -FAR, FAR),
                         FIELD(slice, step, I64, TSR_MAX_RANK, -FAR, FAR),
                         FIELD(slice, size, I64, TSR_MAX_RANK, 0, FAR), END };
FIELDS(order_fields) = { FIELD(order, dims, U8, TSR_MAX_RANK, 0, LAST), END };
FIELDS(pad_fields) = { FIELD(pad, low, I64, TSR_MAX_RANK, -FAR, FAR),
                       FIELD(pad, high, I64, TSR_MAX_RANK, -FAR, FAR), END };
FIELDS(span_fields) = { FIELD(span, dim, I64, 1, 0, LAST), FIELD(span, more, I64, 1, 0, LAST),
                        FIELD(span, batch, I64, 1, 0, LAST), END };
FIELDS(scatter_fields) = {
  FIELD(scatter, dim, I64, 1, 0, LAST),   FIELD(scatter, more, I64, 1, 0, LAST),
  FIELD(scatter, batch, I64, 1, 0, LAST), FIELD(scatter, how, I64, 1, 0, 4),
  FIELD(scatter, drops, I64, 1, 0, 1),    END
};
FIELDS(within_fields) = { FIELD(within, size, I64, 1, 0, FAR), FIELD(within, dim, I64, 1, 0, LAST),
                          FIELD(within, whom, I64, 1, 0, TSR__WITHIN_SIZES), END };
FIELDS(dot_fields) = { FIELD(dot, left, U8, TSR_MAX_RANK, 0, 2 * TSR_MAX_RANK),
                       FIELD(dot, right, U8, TSR_MAX_RANK, 0, 2 * TSR_MAX_RANK),
                       FIELD(dot, out, U8, TSR_MAX_RANK, 0, 2 * TSR_MAX_RANK),
                       FIELD(dot, window, U8, TSR_MAX_RANK, 0, 2 * TSR_MAX_RANK),
                       FIELD(dot, stride, I64, TSR_MAX_RANK, 0, FAR),
                       FIELD(dot, dilation, I64, TSR_MAX_RANK, 0, FAR),
                       FIELD(dot, leaf, I64, 1, 0, 2 * TSR_MAX_RANK),
                       FIELD(dot, length, I64, 1, 0, FAR),
                       END };
FIELDS(loop_fields) = { FIELD(loop, kind, I64, 1, 0, TSR__LOOP_SWITCH),
                        FIELD(loop, carries, I64, 1, 0, 1 << 20),
                        FIELD(loop, slices, I64, 1, 0, 1 << 20),
                        FIELD(loop, count, I64, 1, TSR__COUNTED, FAR),
                        FIELD(loop, reverse, I64, 1, 0, 1),
                        END };
FIELDS(custom_fields) = { FIELD(custom, arguments, I64, 1, 0, 1 << 20),
                          FIELD(custom, captured, I64, 1, 0, 1 << 20),
                          FIELD(custom, again, I64, 1, 0, 1), FIELD(custom, keep, NAME, 0, 0, 0),
                          END };
FIELDS(name_fields) = { FIELD(name, text, NAME, 1, 0, 0), END };
FIELDS(tie_fields) = { FIELD(tie, first, I64, 1, 0, 1), END };
FIELDS(no_fields) = { END };

/* Families left out are those of plans (blocks), of this process (taps: addresses of callbacks) and
 * of bodies that are being mapped (named axes). */
const tsr__field *tsr__fields_of(int family)
{
  static const tsr__field *const tables[TSR__ATTR_FAMILIES] = {
    [TSR__ATTR_NONE] = no_fields,           [TSR__ATTR_REDUCE] = reduce_fields,
    [TSR__ATTR_DIM] = dim_fields,           [TSR__ATTR_SCAN] = scan_fields,
    [TSR__ATTR_SORT] = sort_fields,         [TSR__ATTR_ROLL] = roll_fields,
    [TSR__ATTR_INDEX] = index_fields,       [TSR__ATTR_SLICE] = slice_fields,
    [TSR__ATTR_ORDER] = order_fields,       [TSR__ATTR_PAD] = pad_fields,
    [TSR__ATTR_SPAN] = span_fields,         [TSR__ATTR_SCATTER] = scatter_fields,
    [TSR__ATTR_WITHIN] = within_fields,     [TSR__ATTR_DOT] = dot_fields,
    [TSR__ATTR_LOOP] = loop_fields,         [TSR__ATTR_CUSTOM] = custom_fields,
    [TSR__ATTR_PICK] = pick_fields,         [TSR__ATTR_TIE] = tie_fields,
    [TSR__ATTR_PLACE] = place_fields,       [TSR__ATTR_NAME] = name_fields,
    [TSR__ATTR_DIAGONAL] = diagonal_fields,
  };
  return tables[family];
}

int64_t tsr__field_get(const tsr__field *field, const void *attr, int i)
{
  const char *at = (const char *)attr + field->offset;
  switch (field->kind) {
  case TSR__FIELD_I32: return ((const int32_t *)(const void *)at)[i];
  case TSR__FIELD_U32: return ((const uint32_t *)(const void *)at)[i];
  case TSR__FIELD_U16: return ((const uint16_t *)(const void *)at)[i];
  case TSR__FIELD_U8: return ((const uint8_t *)at)[i];
  default: return ((const int64_t *)(const void *)at)[i];
  }
}

void tsr__field_set(const tsr__field *field, void *attr, int i, int64_t value)
{
  char *at = (char *)attr + field->offset;
  switch (field->kind) {
  case TSR__FIELD_I32: ((int32_t *)(void *)at)[i] = (int32_t)value; break;
  case TSR__FIELD_U32: ((uint32_t *)(void *)at)[i] = (uint32_t)value; break;
  case TSR__FIELD_U16: ((uint16_t *)(void *)at)[i] = (uint16_t)value; break;
  case TSR__FIELD_U8: ((uint8_t *)at)[i] = (uint8_t)value; break;
  default: ((int64_t *)(void *)at)[i] = value; break;
  }
}

/* Tables at the end of a struct are of these two kinds. */
size_t tsr__field_item(const tsr__field *field)
{
  return field->kind == TSR__FIELD_NAME ? sizeof(tsr__name_attr) : sizeof(int32_t);
}

char *tsr__field_name(const tsr__field *field, const void *attr, int i)
{
  return (char *)attr + field->offset + (size_t)i * TSR__NAME;
}

const char *tsr__unwritable(const tsr__program *program, int node)
{
  static const char *const taps[] = { "tsr_inspect_sharding", "tsr_callback", "tsr_print" };
  const tsr__gnode *g = &program->nodes[node];
  const tsr__opinfo *row = &tsr__ops[g->op];
  if (row->attr == TSR__ATTR_TAP) {
    const tsr__tap_attr *tap = tsr__attr_of(program, g);
    return taps[tap->kind];
  }
  if (tsr__is_named(g->op)) return "an operation on a named axis";
  return tsr__fields_of(row->attr) ? NULL : "an operation that only plans have";
}
