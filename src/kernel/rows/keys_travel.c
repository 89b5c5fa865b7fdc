/* Packed keys on their way: words as columns, and columns as words again.
 *
 *   word 0 of part p | word 1 of part p      at home and at the owners: one block a part
 *         column 0         column 1          between: columns like any other
 */
#include "kernel/device/cpu.h"
#include "kernel/rows/columns.h"

tsr_status tsr__packed_column(tsr_runtime *rt, const tsr__packed_word *of, tsr__buffer **out,
                              tsr__error *error)
{
  const tsr__packed_keys *packed = of->packed;
  for (int p = 0; p < of->parts->count; p++) {
    int64_t rows = of->parts->rows[p];
    uint64_t *data =
        of->word < packed->words ? tsr__packed_words(packed, p, of->word, rows) : packed->null[p];
    tsr__foreign memory = { .data = data, .bytes = (size_t)rows * sizeof(uint64_t) };
    out[p] = tsr__cpu_adopt(rt, of->parts->device[p], &memory);
    if (!out[p]) return tsr__error_set(error, TSR_ENOMEM, "no memory to join; free some frames");
  }
  return TSR_OK;
}

tsr_status tsr__packed_came(tsr_runtime *rt, const tsr__keys_came *came, tsr__packed_keys *out,
                            tsr__error *error)
{
  const tsr__parts *parts = came->parts;
  for (int p = 0; p < parts->count; p++) {
    tsr__buffer **first = &came->columns[p];
    size_t bytes = (size_t)parts->rows[p] * sizeof(uint64_t);
    if (came->words > 1) {
      tsr__buffer *all = tsr__cpu_take(rt, parts->device[p], bytes * (size_t)came->words, error);
      if (!all) return error->status;
      for (int w = 0; w < came->words; w++) {
        tsr__buffer **one = &came->columns[w * parts->count + p];
        memcpy((char *)tsr__cpu_data(all) + (size_t)w * bytes, tsr__cpu_data(*one), bytes);
        tsr__buffer_release(*one);
        *one = NULL;
      }
      *first = all;
    }
    out->word[p] = tsr__cpu_data(*first);
    if (came->nulls) out->null[p] = tsr__cpu_data(came->nulls[p]);
  }
  return TSR_OK;
}
