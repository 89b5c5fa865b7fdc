#include "support/listed.h"

#include <stdlib.h>
#include <string.h>

int listed_add(listed *l, const char *name, tsr_dtype dtype, tsr_shape shape)
{
  CHECK(l->fields < LISTED_FIELDS && strlen(name) < sizeof l->field[0].name);
  listed_field *f = &l->field[l->fields];
  *f = (listed_field){ .dtype = dtype, .shape = shape, .at = l->width, .size = 1 };
  strcpy(f->name, name);
  for (int d = 0; d < shape.rank; d++) f->size *= shape.dims[d];
  l->width += f->size;
  return l->fields++;
}

void listed_room(listed *l, int64_t count)
{
  l->count = count;
  l->value = calloc((size_t)(count * l->width + 1), sizeof *l->value);
  CHECK(l->value);
}

listed listed_like(const listed *from, int64_t count)
{
  listed l = *from;
  listed_room(&l, count);
  return l;
}

void listed_free(listed *l)
{
  free(l->value);
  l->value = NULL;
}

int listed_find(const listed *l, const char *name)
{
  for (int f = 0; f < l->fields; f++)
    if (!strcmp(l->field[f].name, name)) return f;
  return -1;
}

int64_t *listed_at(const listed *l, int64_t record, int field)
{
  return l->value + record * l->width + l->field[field].at;
}

void listed_copy(listed *to, int64_t record, const listed *from, int64_t other)
{
  for (int f = 0; f < to->fields; f++) {
    int g = listed_find(from, to->field[f].name);
    if (g < 0 || from->field[g].size != to->field[f].size) continue;
    memcpy(listed_at(to, record, f), listed_at(from, other, g),
           (size_t)to->field[f].size * sizeof(int64_t));
  }
}

tsr_source *listed_source(tsr_scope *s, const listed *l, char **bytes)
{
  tsr_source_field fields[LISTED_FIELDS];
  char *to = *bytes = calloc((size_t)(l->count * l->width) + 1, 8);
  for (int f = 0; f < l->fields; f++) {
    size_t size = tsr_dtype_size(l->field[f].dtype);
    fields[f] = (tsr_source_field){ l->field[f].name, l->field[f].dtype, l->field[f].shape, to };
    for (int64_t r = 0; r < l->count; r++)
      for (int64_t i = 0; i < l->field[f].size; i++, to += size)
        memcpy(to, listed_at(l, r, f) + i, size); /* little-endian */
  }
  return tsr_source_memory_at(s, l->count, fields, l->fields, TSR_HERE);
}

void listed_check(tsr_batch *b, const listed *l, const int64_t *records)
{
  int64_t rows = tsr_batch_row_count(b);
  for (int f = 0; f < l->fields; f++) {
    const listed_field *field = &l->field[f];
    tsr_array *a = tsr_batch_field(b, field->name);
    size_t size = tsr_dtype_size(field->dtype), bytes = (size_t)(rows * field->size) * size;
    char *found = malloc(bytes + 1), *from = found;
    CHECK_STATUS(tsr_read(a, found, bytes), TSR_OK, tsr_batch_scope(b));
    CHECK_I64(tsr_dtype_of(a), field->dtype);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t i = 0; i < field->size; i++, from += size) {
        int64_t expected = records[r] < 0 ? 0 : listed_at(l, records[r], f)[i];
        if (memcmp(from, &expected, size) != 0)
          FAIL("field %s of record %lld, value %lld is not %lld", field->name,
               (long long)records[r], (long long)i, (long long)expected);
      }
    free(found);
  }
}
