/* What opening made of a block's values, so that its lines are parsed once.
 *
 *   block 0   {"a": 1, "b": "x"}     name a   class  INT  INT       value  1  2
 *             {"a": 2}               name b   class  TEXT 0         value  place of x in the block
 *
 * A number is its value, a text its place; 0 is the class of what a line does not name. Kept is
 * what most files hold: a block with a bad line, a number beyond i64 or -0, or of more than 2 GiB,
 * and one for which memory is short, is parsed again by who reads it, as are columns of types that
 * need the digits once more.
 *
 * Invariant: what is put is what put_value (json_read.c) puts of the same line. */
#include "io/json/json_inner.h"

static const uint64_t escaped_text = UINT64_C(1) << 63;

/* Whether a value of a class can be kept in 64 bits, and which these are. */
static bool pack(const tsr__json_block *block, unsigned class, const tsr__read_value *value,
                 const tsr__json_token *token, uint64_t *out)
{
  switch (class) {
  case TSR__CLASS_BIG: return false;
  case TSR__CLASS_FLOAT: memcpy(out, &value->real, sizeof *out); return true;
  case TSR__CLASS_TEXT:
    if (token->kind == TSR__JSON_IS_NESTED && token->escaped) return false;
    *out = (uint64_t)(token->at - block->from) | (uint64_t)token->length << 32;
    if (token->escaped) *out |= escaped_text;
    return true;
  default:
    /* An integer 0 with a sign is another number as a float. */
    if (class == TSR__CLASS_INT && !value->integer && token->at[0] == '-') return false;
    memcpy(out, &value->integer, sizeof *out);
    return true;
  }
}

static void drop(tsr__heap *heap, tsr__json_kept *kept)
{
  tsr__del(heap, kept->class, kept->class_room);
  tsr__del(heap, kept->value, kept->value_room * sizeof *kept->value);
  *kept = (tsr__json_kept){ .code = kept->code, .seen = kept->seen, .gone = true };
}

void tsr__json_kept_free(tsr__heap *heap, tsr__json_block *block)
{
  for (size_t i = 0; i < block->kept_room; i++) drop(heap, &block->kept[i]);
  tsr__del(heap, block->kept, block->kept_room * sizeof *block->kept);
  block->kept = NULL;
  block->kept_room = 0;
  block->unkept = true;
}

/* The place of a name's value in a row; NULL: out of memory. At once for as many rows as the block
 * most likely has, as lists that grow are cleared and copied. */
static tsr__json_kept *room_for(tsr__heap *heap, tsr__json_block *block, int32_t code, size_t row)
{
  if ((size_t)code >= block->kept_room && !tsr__grow(heap, (void **)&block->kept, &block->kept_room,
                                                     (size_t)code + 1, sizeof *block->kept))
    return NULL;
  tsr__json_kept *kept = &block->kept[code];
  if (row < kept->class_room && row < kept->value_room) return kept;
  size_t need = (int64_t)row < block->lines ? (size_t)block->lines : row + 1;
  bool good = tsr__grow(heap, (void **)&kept->class, &kept->class_room, need, 1) &&
              tsr__grow(heap, (void **)&kept->value, &kept->value_room, need, sizeof *kept->value);
  return good ? kept : NULL;
}

void tsr__json_keep(tsr__heap *heap, tsr__json_block *block, int32_t code, int64_t row,
                    const tsr__json_found *found)
{
  uint64_t bits = 0;
  size_t at = (size_t)row;
  if (block->unkept) return;
  bool good = block->to - block->from < INT32_MAX &&
              pack(block, found->class, found->value, found->token, &bits);
  tsr__json_kept *kept = good ? room_for(heap, block, code, at) : NULL;
  /* Rows that did not name it have been left at 0. */
  if (kept) {
    kept->class[at] = (uint8_t)found->class;
    kept->value[at] = bits;
    kept->seen |= (uint8_t)found->class;
    kept->code = code;
  } else {
    tsr__json_kept_free(heap, block);
  }
}

const tsr__json_kept *tsr__json_kept_of(const tsr__json_block *block, int32_t name)
{
  static const tsr__json_kept none;
  for (size_t i = 0; i < block->kept_room; i++)
    if (block->kept[i].seen && block->kept[i].code == name) return &block->kept[i];
  return &none;
}

void tsr__json_kept_drop(tsr__heap *heap, tsr__json_block *block, int32_t name)
{
  for (size_t i = 0; i < block->kept_room; i++)
    if (block->kept[i].seen && block->kept[i].code == name) drop(heap, &block->kept[i]);
}

bool tsr__json_kept_serves(const tsr__json_kept *kept, tsr_coltype type)
{
  if (kept->gone) return false;
  switch (type) {
  case TSR_COL_BOOL:
  case TSR_COL_I64:
  case TSR_COL_F64:
  case TSR_COL_DATE:
  case TSR_COL_TIME: return true;
  /* Other values stand in a column of texts as they were written. */
  case TSR_COL_TEXT: return !(kept->seen & ~(unsigned)(TSR__CLASS_TEXT | TSR__CLASS_NULL));
  default: return false;
  }
}

tsr__read_value tsr__json_kept_value(unsigned class, uint64_t bits)
{
  tsr__read_value value = { 0 };
  if (class == TSR__CLASS_FLOAT) memcpy(&value.real, &bits, sizeof bits);
  else memcpy(&value.integer, &bits, sizeof bits);
  /* The nearest f64 of an integer is that of its digits. */
  if (class == TSR__CLASS_INT) value.real = (double)value.integer;
  return value;
}

tsr__json_token tsr__json_kept_text(const tsr__json_block *block, uint64_t bits)
{
  return (tsr__json_token){ .kind = TSR__JSON_IS_TEXT,
                            .escaped = (bits & escaped_text) != 0,
                            .at = block->from + (uint32_t)bits,
                            .length = bits << 1 >> 33 };
}
