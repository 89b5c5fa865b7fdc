/* Any struct of DLPack over a small piece of memory: never a crash or a read outside of it; the
 * deleter is called once; what is taken has the values that its strides say.
 *
 * Bytes: kind of struct, ndim, code, bits, lanes, device, offset, then dims and strides. */
#include "fuzz.h"
#include "tessera.h"

enum { ROOM = 4096, DIMS = 9, MOST = 1 << 20 };

typedef struct owner {
  tsr_dl_managed managed;
  tsr_dl_versioned versioned;
  int64_t shape[DIMS], strides[DIMS];
  int deleted;
} owner;

static void delete_managed(tsr_dl_managed *self)
{
  ((owner *)self->manager_ctx)->deleted++;
}

static void delete_versioned(tsr_dl_versioned *self)
{
  ((owner *)self->manager_ctx)->deleted++;
}

/* A size or stride: mostly small, sometimes at the end of what there is. */
static int64_t number(fuzz_bytes *bytes)
{
  static const int64_t ends[] = { INT64_MIN, INT64_MAX, INT64_MAX / 8, -1, INT64_C(1) << 40, 0 };
  int8_t byte = (int8_t)fuzz_byte(bytes);
  return byte > 120 ? ends[byte % 6] : byte;
}

/* Whether all that the strides reach lies in the memory; it must, for what a tensor says of memory
 * that is there is believed. Tensors of more than MOST elements count as outside: fifty bytes
 * make one of a hundred million. */
static bool inside(const tsr_dl_tensor *t)
{
  double low = (double)t->byte_offset, high = low; /* what is not exact is far outside */
  double count = 1;
  for (int d = 0; d < t->ndim && d < DIMS; d++) {
    if (t->shape[d] == 0) return true;
    if (t->shape[d] < 0 || t->shape[d] > ROOM) return false;
    count *= (double)t->shape[d];
    double reach = (double)(t->shape[d] - 1) * (double)t->strides[d] * (t->bits / 8);
    if (reach < 0) low += reach;
    else high += reach;
  }
  return count <= MOST && low >= 0 && high + t->bits / 8 <= ROOM;
}

static void fill(tsr_dl_tensor *t, owner *o, fuzz_bytes *bytes, char *memory)
{
  t->ndim = (int8_t)fuzz_byte(bytes) % (DIMS + 1);
  t->code = fuzz_byte(bytes) % 8;
  t->bits = fuzz_byte(bytes);
  t->lanes = fuzz_byte(bytes) > 250 ? 2 : 1;
  t->device_type = fuzz_byte(bytes) > 250 ? 2 : 1;
  t->byte_offset = (uint64_t)fuzz_byte(bytes) * 8;
  for (int d = 0; d < DIMS; d++) {
    o->shape[d] = number(bytes);
    o->strides[d] = number(bytes);
  }
  t->data = memory;
  t->shape = o->shape;
  t->strides = o->strides;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static _Alignas(64) char memory[ROOM];
  static tsr_runtime *rt;
  fuzz_bytes bytes = { data, data + size };
  owner o = { .deleted = 0 };
  bool versioned = fuzz_byte(&bytes) & 1;
  if (!rt) rt = tsr_runtime_open("cpu:2", .threads = 1);
  fill(&o.managed.tensor, &o, &bytes, memory);
  o.versioned.tensor = o.managed.tensor;
  o.versioned.major = fuzz_byte(&bytes) > 250 ? 2 : 1;
  o.managed.manager_ctx = o.versioned.manager_ctx = &o;
  o.managed.deleter = delete_managed;
  o.versioned.deleter = delete_versioned;
  if (o.managed.tensor.ndim >= 0 && !inside(&o.managed.tensor)) o.managed.tensor.data = NULL;
  o.versioned.tensor.data = o.managed.tensor.data;
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a =
      versioned ? tsr_from_dlpack_versioned(s, &o.versioned) : tsr_from_dlpack(s, &o.managed);
  REQUIRE(tsr_is_inert(a) == (tsr_scope_status(s) != TSR_OK));
  if (!tsr_is_inert(a)) {
    tsr_dl_managed *out;
    REQUIRE(tsr_eval(&a, 1) == TSR_OK);
    REQUIRE(tsr_to_dlpack(a, 0, &out) == TSR_OK);
    REQUIRE(out->tensor.ndim == o.managed.tensor.ndim);
    out->deleter(out);
  }
  tsr_scope_close(s);
  REQUIRE(o.deleted == 1);
  return 0;
}
