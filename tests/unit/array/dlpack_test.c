/* Tensors of DLPack in both structs: what is borrowed and what copied, deleters, hostile ones.
 * Guards the devices. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "tessera.h"
#include "topology/topology.h"

/* ---- tensors made by hand ---- */

/* A tensor of either struct, and how often each was deleted. */
typedef struct hand {
  tsr_dl_managed managed;
  tsr_dl_versioned versioned;
  int64_t shape[TSR_MAX_RANK], strides[TSR_MAX_RANK];
  int deleted;
} hand;

static void delete_managed(tsr_dl_managed *self)
{
  ((hand *)self->manager_ctx)->deleted++;
}

static void delete_versioned(tsr_dl_versioned *self)
{
  ((hand *)self->manager_ctx)->deleted++;
}

static void hand_over(hand *h, void *data, const char *type, tsr_shape shape)
{
  memset(h, 0, sizeof *h);
  tsr_dl_tensor *t = &h->managed.tensor;
  *t = (tsr_dl_tensor){ .data = data, .device_type = 1, .ndim = shape.rank, .lanes = 1 };
  t->code = type[0] == 'i' ? 0 : type[0] == 'u' ? 1 : type[0] == 'f' ? 2 : type[1] == 'f' ? 4 : 6;
  t->bits = (uint8_t)atoi(type + (type[0] == 'b' ? 2 : 1));
  memcpy(h->shape, shape.dims, sizeof h->shape);
  t->shape = h->shape;
  h->managed.manager_ctx = h->versioned.manager_ctx = h;
  h->managed.deleter = delete_managed;
  h->versioned.deleter = delete_versioned;
  h->versioned.major = 1;
  h->versioned.tensor = *t;
}

static void set_strides(hand *h, const int64_t *strides, int count)
{
  memcpy(h->strides, strides, (size_t)count * sizeof *strides);
  h->managed.tensor.strides = h->versioned.tensor.strides = h->strides;
}

/* ---- taking ---- */

static _Alignas(64) float numbers[24];

static void fill_numbers(void)
{
  for (int i = 0; i < 24; i++) numbers[i] = (float)i;
}

TEST(dense_and_aligned_tensors_are_borrowed)
{
  fill_numbers();
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  for (int versioned = 0; versioned < 2; versioned++) {
    tsr_scope *s = tsr_scope_open(rt);
    hand h;
    hand_over(&h, numbers, "f32", TSR_SHAPE(4, 6));
    tsr_array *a =
        versioned ? tsr_from_dlpack_versioned(s, &h.versioned) : tsr_from_dlpack(s, &h.managed);
    tsr_shard shard;
    CHECK_STR(tsr_type_of(a), "f32[4,6]");
    CHECK_STATUS(tsr_shard_view(a, 0, &shard), TSR_OK, s);
    CHECK(shard.data == numbers);
    CHECK_I64(h.deleted, 0);
    tsr_scope_close(s);
    CHECK_I64(h.deleted, 1);
  }
  tsr_runtime_close(rt);
}

/* What does not lie as devices want it is copied, and given back at once. */
TEST(other_tensors_are_copied)
{
  static const struct {
    tsr_shape shape;
    int offset;
    int64_t strides[3];
    int64_t first[6]; /* of the values, in C order */
  } rows[] = {
    { { 2, { 6, 4 } }, 0, { 1, 6 }, { 0, 6, 12, 18, 1, 7 } },
    { { 1, { 6 } }, 23, { -4 }, { 23, 19, 15, 11, 7, 3 } },
    { { 2, { 3, 2 } }, 5, { 0, 0 }, { 5, 5, 5, 5, 5, 5 } },
    { { 3, { 2, 1, 3 } }, 1, { 12, 77, -1 }, { 1, 0, -1, 13, 12, 11 } },
    { { 2, { 2, 3 } }, 2, { 3, 1 }, { 2, 3, 4, 5, 6, 7 } }, /* dense, but not aligned */
  };
  fill_numbers();
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    hand h;
    float out[24];
    static float padded[32];
    memcpy(padded + 8, numbers, sizeof numbers);
    padded[7] = -1;
    hand_over(&h, padded, "f32", rows[i].shape);
    h.managed.tensor.byte_offset = (uint64_t)(8 + rows[i].offset) * 4;
    set_strides(&h, rows[i].strides, rows[i].shape.rank);
    tsr_array *a = tsr_from_dlpack(s, &h.managed);
    CHECK_I64(h.deleted, 1);
    CHECK_STATUS(tsr_read(a, out, (size_t)tsr__shape_count(&rows[i].shape) * 4), TSR_OK, s);
    for (int k = 0; k < 6; k++) CHECK_F32_BITS(out[k], (float)rows[i].first[k]);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(tensors_can_be_laid_over_devices)
{
  fill_numbers();
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  hand h;
  float out[24];
  hand_over(&h, numbers, "f32", TSR_SHAPE(6, 4));
  tsr_array *a = tsr_from_dlpack(s, &h.managed, .on = tsr_on(tsr_mesh_make(rt, "x=4"), "x"));
  CHECK_I64(h.deleted, 1);
  CHECK_STR(tsr_type_of(a), "f32[6,4]@(x,-)");
  CHECK_STATUS(tsr_read(a, out, sizeof out), TSR_OK, s);
  CHECK_BYTES(out, numbers, sizeof numbers);
  tsr_runtime_close(rt);
}

/* ---- every type there and back ---- */

TEST(thirteen_types_go_there_and_back)
{
  static const char *const types[] = { "bo8", "i8",  "i16", "i32",  "i64", "u8", "u16",
                                       "u32", "u64", "f16", "bf16", "f32", "f64" };
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  int count = 0;
  TSR__FOR_DTYPES(dtype)
  {
    tsr_scope *s = tsr_scope_open(rt);
    size_t size = tsr_dtype_size((tsr_dtype)dtype);
    uint8_t bytes[10 * 8], back[10 * 8];
    const char *type = types[0];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
      if (!strcmp(types[i], tsr_dtype_name((tsr_dtype)dtype))) type = types[i];
    for (size_t i = 0; i < sizeof bytes; i++)
      bytes[i] = dtype == TSR_BOOL ? i % 3 == 0 : (uint8_t)(i * 7 + 1);
    hand h;
    hand_over(&h, bytes, type, TSR_SHAPE(10));
    tsr_array *a = tsr_from_dlpack(s, &h.managed, .on = tsr_on(tsr_mesh_make(rt, "x=4"), "x"));
    CHECK_I64(tsr_dtype_of(a), dtype);
    size_t at = 0;
    for (int p = 0; p < 4; p++) {
      tsr_dl_versioned *out;
      tsr_dl_managed *old;
      CHECK_STATUS(tsr_to_dlpack_versioned(a, p, &out), TSR_OK, s);
      CHECK_STATUS(tsr_to_dlpack(a, p, &old), TSR_OK, s);
      CHECK_I64(out->tensor.code, h.managed.tensor.code);
      CHECK_I64(out->tensor.bits, h.managed.tensor.bits);
      CHECK_U64(out->flags, dtype == TSR_BOOL ? TSR_DL_IS_COPIED : TSR_DL_READ_ONLY);
      CHECK_BYTES(out->tensor.data, old->tensor.data, (size_t)out->tensor.shape[0] * size);
      memcpy(back + at, out->tensor.data, (size_t)out->tensor.shape[0] * size);
      at += (size_t)out->tensor.shape[0] * size;
      out->deleter(out);
      old->deleter(old);
    }
    CHECK_I64((int64_t)at, (int64_t)(10 * size));
    CHECK_BYTES(back, bytes, at);
    tsr_scope_close(s);
    count++;
  }
  CHECK_I64(count, 13);
  tsr_runtime_close(rt);
}

/* ---- giving ---- */

TEST(gifts_are_the_devices_memory_and_outlive_the_scope)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a = tsr_iota(s, TSR_I32, TSR_SHAPE(6, 5), 0, tsr_on(tsr_mesh_make(rt, "x=4"), "x"));
  tsr_dl_managed *out[4];
  tsr_shard shard;
  for (int p = 0; p < 4; p++) {
    CHECK_STATUS(tsr_to_dlpack(a, p, &out[p]), TSR_OK, s);
    CHECK_STATUS(tsr_shard_view(a, p, &shard), TSR_OK, s);
    CHECK(out[p]->tensor.data == shard.data);
  }
  tsr_scope_close(s);
  for (int p = 3; p >= 0; p--) {
    const tsr_dl_tensor *t = &out[p]->tensor;
    CHECK(t->ndim == 2 && t->device_type == 1 && t->lanes == 1 && t->byte_offset == 0);
    CHECK_I64(t->shape[0], p < 2 ? 2 : 1);
    CHECK_I64(t->shape[1], 5);
    CHECK_I64(t->strides[0], 5);
    CHECK_I64(t->strides[1], 1);
    for (int i = 0; i < t->shape[0] * 5; i++)
      CHECK_I64(((int32_t *)t->data)[i], i / 5 + (p < 2 ? 2 * p : p + 2));
    out[p]->deleter(out[p]);
  }
  CHECK_I64(tsr_device_memory(rt, 0).now, 0);
  tsr_runtime_close(rt);
}

/* Round and round without a copy: what was given is taken again. */
TEST(a_gift_can_be_taken)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt), *t = tsr_scope_open(rt);
  tsr_array *a = tsr_iota(s, TSR_F64, TSR_SHAPE(100), 0, (tsr_sharding){ 0 });
  tsr_dl_versioned *gift;
  tsr_shard from, to;
  double sum;
  CHECK_STATUS(tsr_to_dlpack_versioned(a, 0, &gift), TSR_OK, s);
  CHECK_STATUS(tsr_shard_view(a, 0, &from), TSR_OK, s);
  tsr_array *b = tsr_from_dlpack_versioned(t, gift);
  CHECK_STATUS(tsr_shard_view(b, 0, &to), TSR_OK, t);
  CHECK(from.data == to.data);
  tsr_scope_close(s);
  CHECK_STATUS(tsr_read_scalar(tsr_sum(b), &sum), TSR_OK, t);
  CHECK_F64_BITS(sum, 4950);
  tsr_runtime_close(rt);
}

/* ---- what is wrong ---- */

TEST(hostile_tensors_are_refused_and_released)
{
  static _Alignas(64) char memory[64];
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  for (int i = 0; i < 16; i++) {
    static const char *const texts[16] = {
      "TSR_ESHAPE: tsr_from_dlpack: -1 dims, expected 0 to 16",
      "TSR_ESHAPE: tsr_from_dlpack: 17 dims, expected 0 to 16",
      "TSR_EARG: tsr_from_dlpack: the shape of the tensor's 1 dims is NULL",
      "TSR_ESHAPE: tsr_from_dlpack: ",
      "TSR_ESHAPE: tsr_from_dlpack: ",
      "TSR_EDTYPE: tsr_from_dlpack: a type of code 2, 32 bits and 4 lanes",
      "TSR_EDTYPE: tsr_from_dlpack: a type of code 2, 24 bits and 1 lanes",
      "TSR_EDTYPE: tsr_from_dlpack: a type of code 5, 64 bits and 1 lanes",
      "TSR_EDTYPE: tsr_from_dlpack: a type of code 6, 1 bits and 1 lanes",
      "TSR_EARG: tsr_from_dlpack: the tensor's data is NULL",
      "TSR_EUNSUPPORTED: tsr_from_dlpack: the tensor lies on a device of kind 2",
      "TSR_EARG: tsr_from_dlpack: the tensor's strides reach further than 63 bits can count",
      "TSR_EARG: tsr_from_dlpack: the tensor's strides reach further than 63 bits can count",
      "TSR_EARG: tsr_from_dlpack: the tensor's offset of 18446744073709551615 bytes is beyond",
      "TSR_EAXIS: tsr_from_dlpack: spec \"q\": no axis 'q'",
      "TSR_ENOMEM: tsr_from_dlpack: no memory for",
    };
    tsr_scope *s = tsr_scope_open(rt);
    hand h;
    hand_over(&h, memory, "f32", TSR_SHAPE(4));
    tsr_dl_tensor *t = &h.managed.tensor;
    tsr_dlpack_opts opts = { .size = sizeof opts };
    switch (i) {
    case 0: t->ndim = -1; break;
    case 1: t->ndim = TSR_MAX_RANK + 1; break;
    case 2: t->shape = NULL; break;
    case 3: h.shape[0] = -4; break;
    case 4: h.shape[0] = h.shape[1] = INT64_MAX, t->ndim = 2; break;
    case 5: t->lanes = 4; break;
    case 6: t->bits = 24; break;
    case 7: t->code = 5, t->bits = 64; break;
    case 8: t->code = 6, t->bits = 1; break;
    case 9: t->data = NULL; break;
    case 10: t->device_type = 2; break;
    case 11: set_strides(&h, (int64_t[]){ INT64_MIN / 2 }, 1); break;
    case 12: set_strides(&h, (int64_t[]){ INT64_MAX / 8 }, 1); break;
    case 13: t->byte_offset = UINT64_MAX; break;
    case 14: opts.on = tsr_on(tsr_mesh_make(rt, "x=2"), "q"); break;
    default:
      h.shape[0] = INT64_C(1) << 50;
      set_strides(&h, (int64_t[]){ 0 }, 1);
      break;
    }
    tsr_array *a = tsr_from_dlpack_with(s, &h.managed, &opts, TSR_HERE);
    CHECK(tsr_is_inert(a));
    CHECK_STR_HAS(tsr_message(s), texts[i]);
    CHECK_I64(h.deleted, 1);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(other_mistakes_are_told)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  hand h;
  char byte = 1;
  hand_over(&h, &byte, "u8", TSR_SCALAR);
  h.versioned.major = 2;
  CHECK(tsr_is_inert(tsr_from_dlpack_versioned(s, &h.versioned)));
  CHECK_STR_HAS(tsr_message(s), "tsr_from_dlpack_versioned: the tensor has version 2.0 of DLPack, "
                                "expected 1; ask its producer");
  CHECK_I64(h.deleted, 1);
  tsr_scope_clear(s);
  CHECK(tsr_is_inert(tsr_from_dlpack(s, NULL)));
  CHECK_STR_HAS(tsr_message(s), "TSR_EARG: tsr_from_dlpack: the tensor is NULL");
  tsr_scope_clear(s);
  CHECK(tsr_is_inert(tsr_from_dlpack_versioned(s, NULL)));
  tsr_scope_clear(s);
  /* No deleter, and nothing in it. */
  hand_over(&h, NULL, "f64", TSR_SHAPE(0, 3));
  h.managed.deleter = NULL;
  CHECK_STR(tsr_type_of(tsr_from_dlpack(s, &h.managed)), "f64[0,3]");
  tsr_dl_managed *out = NULL;
  tsr_array *a = tsr_num(s, 1.5);
  CHECK_STATUS(tsr_to_dlpack(a, 1, &out), TSR_EARG, s);
  CHECK_STR_HAS(tsr_message(s), "tsr_to_dlpack: position 1 of f64[], expected 0..0");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_to_dlpack(a, 0, NULL), TSR_EARG, s);
  CHECK_STR_HAS(tsr_message(s),
                "tsr_to_dlpack: the pointer for the tensor is NULL; give the address of one");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_to_dlpack(a, 0, &out), TSR_OK, s);
  CHECK(out->tensor.ndim == 0 && *(double *)out->tensor.data == 1.5);
  out->deleter(out);
  CHECK_STATUS(tsr_to_dlpack(NULL, 0, &out), TSR_EARG, NULL);
  tsr_runtime_close(rt);
}

/* A view of another library is often the last that goes. */
TEST(tensors_outlive_their_runtime)
{
  for (int k = 0; k < 4; k++) {
    tsr_runtime *rt = tsr_runtime_open("cpu:2");
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *x = tsr_arange(s, .stop = 100000), *bits = tsr_lt(x, 7);
    tsr_array *cut = tsr_reshard(x, tsr_on(tsr_mesh_make(rt, "x=2"), "x"));
    tsr_dl_managed *whole, *part;
    tsr_dl_versioned *bools;
    CHECK_STATUS(tsr_to_dlpack(x, 0, &whole), TSR_OK, s);
    CHECK_STATUS(tsr_to_dlpack(cut, 1, &part), TSR_OK, s);
    CHECK_STATUS(tsr_to_dlpack_versioned(bits, 0, &bools), TSR_OK, s);
    /* One of them goes before the runtime does, or none. */
    if (k == 1) whole->deleter(whole);
    if (k & 2) tsr_scope_close(s);
    tsr_runtime_close(rt);
    if (k != 1) CHECK_F64_BITS(((double *)whole->tensor.data)[99999], 99999);
    CHECK_F64_BITS(((double *)part->tensor.data)[49999], 99999);
    part->deleter(part);
    CHECK(((uint8_t *)bools->tensor.data)[6] == 1 && ((uint8_t *)bools->tensor.data)[7] == 0);
    if (k != 1) whole->deleter(whole);
    bools->deleter(bools);
  }
}
