/* Any bytes as the text of an einsum of up to three arrays: never a crash; what is taken is
 * computed and has the dims that the text names; what is refused has a message. The first six bytes
 * choose how many there are, their dims and their dtype. */
#include "fuzz.h"
#include "tessera.h"

enum { CHOICES = 6 };

static tsr_array *array_of(tsr_scope *s, uint8_t dtype, const uint8_t *choice)
{
  static const tsr_dtype dtypes[] = { TSR_F32, TSR_BOOL, TSR_I8, TSR_U64 };
  tsr_shape shape = { .rank = choice[0] % 5 };
  for (int d = 0; d < shape.rank; d++) shape.dims[d] = (choice[0] >> 3 & 3) == d ? 2 : 3;
  return tsr_full(s, 1, dtypes[dtype & 3], shape, (tsr_sharding){ 0 });
}

/* So many letters behind the arrow; -1: there is no arrow, or "...". */
static int letters_of_result(const char *text)
{
  const char *arrow = strstr(text, "->");
  int count = 0;
  if (!arrow || strchr(arrow, '.')) return -1;
  for (const char *at = arrow + 2; *at; at++) count += *at != ' ' && *at != '\t';
  return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size < CHOICES || size > 1 << 10) return 0;
  char *text = fuzz_text(data + CHOICES, size - CHOICES);
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *arrays[3];
  int count = 1 + data[0] % 3;
  for (int i = 0; i < count; i++) arrays[i] = array_of(s, data[4], &data[i + 1]);
  tsr_array *out = tsr_einsum_with(text, arrays, count);
  if (tsr_scope_status(s)) {
    fuzz_message(tsr_message(s), 1 << 12);
  } else {
    int letters = letters_of_result(text);
    REQUIRE(letters < 0 || tsr_shape_of(out).rank == letters);
    if (tsr_wait(out)) fuzz_message(tsr_message(s), 1 << 12);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  free(text);
  return 0;
}
