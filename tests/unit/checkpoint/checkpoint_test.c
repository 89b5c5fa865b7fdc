/* Steps saved and restored: what is read is what was written, on any mesh; what is not whole is
 * none; what was changed is refused.
 *
 * Guards the devices. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "tessera.h"

static tsr_runtime *rt;
static tsr_scope *s;

static void open_world(const char *devices)
{
  rt = tsr_runtime_open(devices);
  s = tsr_scope_open(rt);
}

static void close_world(void)
{
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Elements 0, 1, 2 ... of a dtype, in host memory's form; the caller frees it. */
static void *counted(tsr_dtype dtype, int64_t count)
{
  size_t size = tsr_dtype_size(dtype);
  char *out = malloc((size_t)count * size + 1);
  for (int64_t i = 0; i < count; i++) {
    if (dtype == TSR_BOOL) out[i] = (char)((i * 7 % 11) & 1);
    else
      for (size_t b = 0; b < size; b++)
        out[(size_t)i * size + b] = (char)(b + 1 == size && size > 1 ? 0 : i >> 8 * b);
  }
  return out;
}

static tsr_array *put(tsr_dtype dtype, tsr_shape shape, tsr_sharding on)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  void *data = counted(dtype, count);
  tsr_array *out = tsr_put(s, data, dtype, shape, on);
  free(data);
  return out;
}

static void check_counted(tsr_array *a)
{
  tsr_shape shape = tsr_shape_of(a);
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  size_t bytes = (size_t)count * tsr_dtype_size(tsr_dtype_of(a));
  char *found = malloc(bytes + 1), *expected = counted(tsr_dtype_of(a), count);
  CHECK_STATUS(tsr_read(a, found, bytes), TSR_OK, s);
  CHECK_BYTES(found, expected, bytes);
  free(found);
  free(expected);
}

/* ---- there and back -------------------------------------------------------------------------- */

TEST(a_tree_is_saved_and_restored)
{
  open_world("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4"), *line = tsr_mesh_make(rt, "x=8");
  tsr_array *w = put(TSR_F32, TSR_SHAPE(8, 16), tsr_on(mesh, "x,y"));
  tsr_array *b = put(TSR_BF16, TSR_SHAPE(10), tsr_on(mesh, "x"));
  tsr_array *tree =
      tsr_tree(s, { "model", tsr_tree(s, { "w", w }, { "b", b }) }, { "rate", tsr_num(s, 0.5) });
  const char *path = test_tmp("ckpt");
  CHECK_STATUS(tsr_checkpoint_save(s, path, tree, .step = 12), TSR_OK, s);
  tsr_saved_step *c = tsr_checkpoint_open(s, path);
  CHECK_I64(tsr_checkpoint_step(c), 12);
  CHECK_STR(tsr_checkpoint_form(c), "(model: (w: *, b: *), rate: *)");
  CHECK_I64(tsr_checkpoint_count(c), 3);
  tsr_saved_entry entry = tsr_checkpoint_entry(c, 0);
  CHECK_STR(entry.name, "model.w");
  CHECK_STR(entry.type, "f32[8,16]@(x,y)");
  CHECK_STR(entry.mesh, "x=2,y=4");
  CHECK_I64(entry.bytes, 512);
  CHECK_I64(entry.parts, 8);
  CHECK_STR(tsr_checkpoint_entry(c, 3).name, NULL);
  tsr_array *all = tsr_checkpoint_restore(c, NULL, .mesh = mesh);
  CHECK_STR(tsr_message(s), "");
  check_counted(tsr_field(all, "model.w"));
  check_counted(tsr_field(all, "model.b"));
  CHECK_STR(tsr_type_of(tsr_field(all, "model.w")), "f32[8,16]@(x,y)");
  double rate = 0;
  CHECK_STATUS(tsr_read_scalar(tsr_field(all, "rate"), &rate), TSR_OK, s);
  CHECK_F64_BITS(rate, 0.5);
  /* On another mesh, by types; and only some of it. */
  tsr_array *like =
      tsr_tree(s, { "w", tsr_abstract(s, TSR_F32, TSR_SHAPE(8, 16), tsr_on(line, "-,x")) });
  tsr_array *some = tsr_checkpoint_restore(c, like, .path = "model");
  check_counted(tsr_field(some, "w"));
  CHECK_STR(tsr_type_of(tsr_field(some, "w")), "f32[8,16]@(-,x)");
  check_counted(tsr_checkpoint_restore(c, NULL, .path = "model.b"));
  close_world();
}

TEST(an_array_alone_and_every_dtype)
{
  open_world("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  const char *path = test_tmp("ckpt");
  int step = 0;
  for (int dtype = 1; dtype < 16; dtype++) {
    if (!strcmp(tsr_dtype_name((tsr_dtype)dtype), "?")) continue;
    tsr_array *a = put((tsr_dtype)dtype, TSR_SHAPE(37, 3), tsr_on(mesh, "x"));
    CHECK_STATUS(tsr_checkpoint_save(s, path, a, .step = step), TSR_OK, s);
    tsr_saved_step *c = tsr_checkpoint_open(s, path);
    CHECK_I64(tsr_checkpoint_step(c), step++);
    check_counted(tsr_checkpoint_restore(c, NULL, .mesh = mesh));
    check_counted(tsr_checkpoint_restore(c, NULL));
  }
  CHECK_I64(step, 13);
  close_world();
}

/* What the mesh has of a spec, and when its dims decide. */
TEST(specs_come_back_with_their_priorities)
{
  open_world("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,y=2"), *line = tsr_mesh_make(rt, "x=4");
  static const char *const specs[][2] = { { "x:p1", "i32[8,4]@(x:p1,-)" },
                                          { "y,x:p3", "i32[8,4]@(-,x:p3)" },
                                          { "x+y:p2", "i32[8,4]@(x:p2,-)" },
                                          { "-,y:p1", "i32[8,4]@(-,-)" } };
  const char *path = test_tmp("ckpt");
  for (int i = 0; i < 4; i++) {
    tsr_array *a = put(TSR_I32, TSR_SHAPE(8, 4), tsr_on(mesh, specs[i][0]));
    CHECK_STATUS(tsr_checkpoint_save(s, path, a, .step = i), TSR_OK, s);
    tsr_saved_step *c = tsr_checkpoint_open(s, path);
    tsr_array *all = tsr_checkpoint_restore(c, NULL, .mesh = mesh);
    tsr_array *some = tsr_checkpoint_restore(c, NULL, .mesh = line);
    CHECK_STR(tsr_type_of(all), tsr_type_of(a));
    CHECK_STR(tsr_type_of(some), specs[i][1]);
    check_counted(all);
    check_counted(some);
  }
  close_world();
}

/* Every spec of a mesh to every spec of others: the elements are those of the whole array. */
TEST(any_place_to_any_place)
{
  open_world("cpu:8");
  static const char *const meshes[] = { "x=8", "x=2,y=4", "x=4@1e9,y=2@30e9", "x=3,y=2", "x=1" };
  static const char *const specs[] = { "", "x", "-,x", "x,y", "y,x", "x+y", "-,y+x", "-,-,x" };
  const char *path = test_tmp("ckpt");
  int step = 0;
  for (int m = 0; m < 5; m++)
    for (int k = 0; k < 8; k++) {
      tsr_mesh *mesh = tsr_mesh_make(rt, meshes[m]);
      if (strchr(specs[k], 'y') && !strchr(meshes[m], 'y')) continue;
      tsr_array *a = put(TSR_I32, TSR_SHAPE(13, 7, 5), tsr_on(mesh, specs[k]));
      tsr_array *b = put(TSR_BOOL, TSR_SHAPE(13, 7, 5), tsr_on(mesh, specs[k]));
      CHECK_STATUS(tsr_checkpoint_save(s, path, tsr_tuple(s, a, b), .step = step++, .keep = 1),
                   TSR_OK, s);
      tsr_saved_step *c = tsr_checkpoint_open(s, path);
      for (int n = 0; n < 5; n++)
        for (int j = test_quick() ? step % 4 : 0; j < 8; j += test_quick() ? 4 : 1) {
          tsr_mesh *other = tsr_mesh_make(rt, meshes[n]);
          if (strchr(specs[j], 'y') && !strchr(meshes[n], 'y')) continue;
          tsr_scope *inner = tsr_scope_open(rt);
          tsr_sharding on = tsr_on(other, specs[j]);
          tsr_array *like = tsr_tuple(inner, tsr_abstract(inner, TSR_I32, TSR_SHAPE(13, 7, 5), on),
                                      tsr_abstract(inner, TSR_BOOL, TSR_SHAPE(13, 7, 5), on));
          tsr_array *back = tsr_checkpoint_restore(c, like);
          check_counted(tsr_item(back, 0));
          check_counted(tsr_item(back, 1));
          tsr_scope_close(inner);
        }
    }
  close_world();
}

/* Larger than a piece and many blocks; the middle rows only need some of them. */
TEST(large_arrays_and_parts_of_them)
{
  open_world("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  const char *path = test_tmp("ckpt");
  tsr_array *a = put(TSR_F64, TSR_SHAPE(10000, 1003), tsr_on(mesh, "-"));
  CHECK_STATUS(tsr_checkpoint_save(s, path, a), TSR_OK, s);
  tsr_saved_step *c = tsr_checkpoint_open(s, path);
  CHECK_I64(tsr_checkpoint_entry(c, 0).parts, 2);
  check_counted(tsr_checkpoint_restore(c, NULL, .mesh = mesh));
  check_counted(tsr_checkpoint_restore(c, tsr_abstract(s, TSR_F64, TSR_SHAPE(10000, 1003),
                                                       tsr_on(mesh, "-,x"))));
  close_world();
}

TEST(no_elements_and_no_arrays)
{
  open_world("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  const char *path = test_tmp("ckpt");
  tsr_array *none = put(TSR_F32, TSR_SHAPE(0, 3), tsr_on(mesh, "x"));
  tsr_array *few = put(TSR_F32, TSR_SHAPE(2), tsr_on(mesh, "x"));
  CHECK_STATUS(tsr_checkpoint_save(s, path, tsr_tree(s, { "none", none }, { "few", few })), TSR_OK,
               s);
  tsr_saved_step *c = tsr_checkpoint_open(s, path);
  tsr_array *back = tsr_checkpoint_restore(c, NULL, .mesh = mesh);
  CHECK_STR(tsr_type_of(tsr_field(back, "none")), "f32[0,3]@(x,-)");
  check_counted(tsr_field(back, "few"));
  static const uint8_t state[5] = { 1, 2, 3, 4, 5 };
  CHECK_STATUS(tsr_checkpoint_save(s, path, NULL, .step = 1,
                                   .blobs = { { "rng", state, 5 }, { "empty", NULL, 0 } }),
               TSR_OK, s);
  c = tsr_checkpoint_open(s, path);
  tsr_value value = { NULL, 0 };
  CHECK_STATUS(tsr_checkpoint_blob(c, "rng", &value), TSR_OK, s);
  CHECK_I64((int64_t)value.length, 5);
  CHECK_BYTES(value.data, state, 5);
  CHECK_STATUS(tsr_checkpoint_blob(c, "empty", &value), TSR_OK, s);
  CHECK_I64((int64_t)value.length, 0);
  CHECK_STATUS(tsr_checkpoint_blob(c, "rnh", &value), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_message(s), "step 1 has no blob 'rnh'; did you mean 'rng'?");
  close_world();
}

/* Saved on (4,2), restored larger with zeros behind and smaller cut off: what JAX's array
 * serialization does with another global shape. */
TEST(other_sizes_with_resize)
{
  open_world("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,y=2");
  const char *path = test_tmp("ckpt");
  tsr_array *a = put(TSR_I32, TSR_SHAPE(8, 2), tsr_on(mesh, "x,y"));
  CHECK_STATUS(tsr_checkpoint_save(s, path, a), TSR_OK, s);
  tsr_saved_step *c = tsr_checkpoint_open(s, path);
  int32_t large[12 * 2], small[6 * 1], wide[8 * 4];
  tsr_array *like = tsr_abstract(s, TSR_I32, TSR_SHAPE(12, 2), tsr_on(mesh, "y,x"));
  CHECK_STATUS(tsr_read(tsr_checkpoint_restore(c, like, .resize = true), large, sizeof large),
               TSR_OK, s);
  for (int i = 0; i < 24; i++) CHECK_I64(large[i], i < 16 ? i : 0);
  like = tsr_abstract(s, TSR_I32, TSR_SHAPE(6, 1), tsr_on(mesh, "x"));
  CHECK_STATUS(tsr_read(tsr_checkpoint_restore(c, like, .resize = true), small, sizeof small),
               TSR_OK, s);
  for (int i = 0; i < 6; i++) CHECK_I64(small[i], 2 * i);
  like = tsr_abstract(s, TSR_I32, TSR_SHAPE(8, 4), tsr_on(mesh, "x"));
  CHECK_STATUS(tsr_read(tsr_checkpoint_restore(c, like, .resize = true), wide, sizeof wide), TSR_OK,
               s);
  for (int i = 0; i < 32; i++) CHECK_I64(wide[i], i % 4 < 2 ? i / 4 * 2 + i % 4 : 0);
  CHECK(tsr_is_inert(tsr_checkpoint_restore(c, like)));
  CHECK_STR_HAS(tsr_message(s), "TSR_ESHAPE: tsr_checkpoint_restore: 'array' was saved as "
                                "i32[8,2]@(x,y), but `like` asks for i32[8,4]; .resize cuts off");
  close_world();
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool there(const char *path)
{
  struct stat info;
  return stat(test_tmp(path), &info) == 0;
}

TEST(the_newest_steps_stay)
{
  open_world("cpu:1");
  const char *path = test_tmp("ckpt");
  for (int step = 0; step < 12; step += 2)
    CHECK_STATUS(tsr_checkpoint_save(s, path, tsr_num(s, step), .step = step, .keep = 3), TSR_OK,
                 s);
  CHECK(!there("ckpt/step_4") && there("ckpt/step_6") && there("ckpt/step_8"));
  CHECK_I64(tsr_checkpoint_step(tsr_checkpoint_open(s, path)), 10);
  CHECK_I64(tsr_checkpoint_step(tsr_checkpoint_open(s, test_tmp("ckpt/step_8"))), 8);
  CHECK_STATUS(tsr_checkpoint_save(s, path, tsr_num(s, 1), .step = 8), TSR_ESTATE, NULL);
  CHECK_STR_HAS(tsr_message(s), "step_8 exists already; give another .step, or set .overwrite");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_checkpoint_save(s, path, tsr_num(s, 77), .step = 8, .overwrite = true), TSR_OK,
               s);
  double found = 0;
  tsr_saved_step *c = tsr_checkpoint_open(s, test_tmp("ckpt/step_8"));
  CHECK_STATUS(tsr_read_scalar(tsr_checkpoint_restore(c, NULL), &found), TSR_OK, s);
  CHECK_F64_BITS(found, 77);
  close_world();
}

/* What a save that was cut off left: no step, and gone with the next save. */
TEST(a_step_without_its_catalog_is_none)
{
  open_world("cpu:1");
  const char *path = test_tmp("ckpt");
  CHECK_STATUS(tsr_checkpoint_save(s, path, tsr_num(s, 1), .step = 1), TSR_OK, s);
  mkdir(test_tmp("ckpt/step_2"), 0777);
  test_write(test_tmp("ckpt/step_2/data-00000000-0-0.safetensors"), "half", 4);
  test_write(test_tmp("ckpt/step_2/tessera.json.00000000.tmp"), "half", 4);
  CHECK_I64(tsr_checkpoint_step(tsr_checkpoint_open(s, path)), 1);
  CHECK_I64(tsr_checkpoint_step(tsr_checkpoint_open(s, test_tmp("ckpt/step_2"))), -1);
  CHECK_STR_HAS(tsr_message(s), "ckpt/step_2: holds no committed step");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_checkpoint_save(s, path, tsr_num(s, 3), .step = 3), TSR_OK, s);
  CHECK(!there("ckpt/step_2") && there("ckpt/step_1"));
  close_world();
}

/* ---- what was changed ------------------------------------------------------------------------ */

/* The data file of a step; good until the next call. */
static const char *data_file(const char *step)
{
  static char path[800];
  char folder[400];
  snprintf(folder, sizeof folder, "%s", test_tmp(step));
  DIR *dir = opendir(folder);
  for (struct dirent *e; (e = readdir(dir));)
    if (!strncmp(e->d_name, "data-", 5)) snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
  closedir(dir);
  return path;
}

/* Opens and restores: TSR_OK, or what it says, which must be something. */
static tsr_status try_restore(const char *path)
{
  tsr_scope *own = tsr_scope_open(rt);
  tsr_saved_step *c = tsr_checkpoint_open(own, path);
  tsr_array *all = tsr_checkpoint_restore(c, NULL);
  tsr_status status = tsr_scope_status(own);
  CHECK(!status == (all && !tsr_is_inert(all)));
  if (status) CHECK(*tsr_message(own));
  tsr_scope_close(own);
  return status;
}

/* A bit of any byte of either file is seen, but for those of a header, which nobody reads here. */
TEST(changed_bytes_are_seen)
{
  open_world("cpu:2");
  const char *path = test_tmp("ckpt");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2");
  tsr_array *a = put(TSR_I32, TSR_SHAPE(40), tsr_on(mesh, "x"));
  CHECK_STATUS(tsr_checkpoint_save(s, path, a), TSR_OK, s);
  CHECK_STATUS(try_restore(path), TSR_OK, NULL);
  const char *files[2] = { data_file("ckpt/step_0"), test_tmp("ckpt/step_0/tessera.json") };
  for (int f = 0; f < 2; f++) {
    char own[800];
    size_t length;
    snprintf(own, sizeof own, "%s", files[f]);
    char *bytes = test_read(own, &length);
    for (size_t at = f ? 0 : length - 160; at < length; at++) {
      bytes[at] ^= (char)(1 << at % 8);
      test_write(own, bytes, length);
      CHECK_STATUS(try_restore(path), TSR_EPARSE, NULL);
      bytes[at] ^= (char)(1 << at % 8);
    }
    for (size_t cut = 0; cut < length; cut += f ? 1 : 7) {
      test_write(own, bytes, cut);
      CHECK_STATUS(try_restore(path), TSR_EPARSE, NULL);
    }
    unlink(own);
    CHECK_STATUS(try_restore(path), TSR_EIO, NULL);
    test_write(own, bytes, length);
    CHECK_STATUS(try_restore(path), TSR_OK, NULL);
    free(bytes);
  }
  close_world();
}

TEST(wrong_calls_are_refused)
{
  open_world("cpu:2");
  const char *path = test_tmp("ckpt");
  tsr_array *a = put(TSR_I32, TSR_SHAPE(4), (tsr_sharding){ 0 });
  tsr_array *tree = tsr_tree(s, { "weights", a });
  static const struct {
    tsr_save_opts opts;
    const char *says;
  } bad[] = {
    { { .step = -1 }, ".step is -1, expected 0 or more" },
    { { .keep = -2 }, ".keep is -2, expected 0 or more" },
    { { .timeout = -2 }, ".timeout is negative" },
    { { .blobs = { { "a b", "", 0 } } }, "the name of blob 0 is \"a b\", expected letters" },
    { { .blobs = { { "a", NULL, 1 } } }, "the data of blob 'a' is NULL" },
    { { .blobs = { { "a", "", 0 }, { "a", "", 0 } } }, "two blobs are named 'a'" },
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    tsr_save_opts opts = bad[i].opts;
    opts.size = sizeof opts;
    CHECK_STATUS(tsr_checkpoint_save_with(s, path, tree, &opts, TSR_HERE), TSR_EARG, NULL);
    CHECK_STR_HAS(tsr_message(s), bad[i].says);
    tsr_scope_clear(s);
  }
  CHECK_STATUS(tsr_checkpoint_save(s, NULL, tree), TSR_EARG, NULL);
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_checkpoint_save(s, test_tmp("no/such"), tree), TSR_EIO, NULL);
  tsr_scope_clear(s);
  CHECK_I64(tsr_checkpoint_step(tsr_checkpoint_open(s, NULL)), -1);
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_checkpoint_save(s, path, tree), TSR_OK, s);
  tsr_saved_step *c = tsr_checkpoint_open(s, path);
  tsr_array *like = tsr_tree(s, { "weight", a });
  CHECK(tsr_is_inert(tsr_checkpoint_restore(c, like)));
  CHECK_STR_HAS(tsr_message(s), "step 0 has no array 'weight'; did you mean 'weights'?");
  tsr_scope_clear(s);
  like = tsr_tree(s, { "weights", tsr_abstract(s, TSR_F32, TSR_SHAPE(4), (tsr_sharding){ 0 }) });
  CHECK(tsr_is_inert(tsr_checkpoint_restore(c, like)));
  CHECK_STR_HAS(tsr_message(s),
                "TSR_EDTYPE: tsr_checkpoint_restore: 'weights' was saved as i32[4]");
  tsr_scope_clear(s);
  CHECK(tsr_is_inert(tsr_checkpoint_restore(c, NULL, .path = "weightz")));
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_checkpoint_blob(c, "x", NULL), TSR_EARG, NULL);
  CHECK(tsr_is_inert(tsr_checkpoint_restore(NULL, NULL)));
  close_world();
}

/* A step that is none has frames that are none, on no scope and on no memory alike. */
TEST(frames_of_an_inert_step_are_inert)
{
  open_world("cpu:2");
  static const char *const said[] = {
    "tsr_checkpoint_frame: the saved step is NULL", "tsr_checkpoint_open: the scope is NULL",
    "tsr_checkpoint_open: the path is NULL; give the path of a folder"
  };
  for (int i = 0; i < 3; i++) {
    tsr_saved_step *step = i ? tsr_checkpoint_open(i == 1 ? NULL : s, i == 1 ? "x" : NULL) : NULL;
    CHECK(tsr_frame_is_inert(tsr_checkpoint_frame(step, "a", (tsr_sharding){ 0 })));
    CHECK_STR_HAS(tsr_message(s), said[i]);
    tsr_scope_clear(s);
  }
  close_world();
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  rt = tsr_runtime_open("cpu:1", .allocator = &allocator);
  s = tsr_scope_open(rt);
  tsr_saved_step *c = tsr_checkpoint_open(s, NULL);
  state.stay = true;
  state.fail_at = state.count + 1;
  /* Until the scope has no room left for a frame. */
  for (int i = 0; i < 1000; i++)
    CHECK(tsr_frame_is_inert(tsr_checkpoint_frame(c, "a", (tsr_sharding){ 0 })));
  close_world();
  CHECK_I64(state.live, 0);
}

/* Whether it is there. */
static bool restore_many(const char *path)
{
  tsr_scope *scope = tsr_scope_open(rt);
  bool good = !tsr_is_inert(tsr_checkpoint_restore(tsr_checkpoint_open(scope, path), NULL));
  tsr_scope_close(scope);
  return good;
}

/* The last allocations are those for leaves, when all values are there: so many that their list
 * does not fit into what the scope has. */
TEST(no_memory_for_what_is_restored_leaves_nothing_behind)
{
  enum { LEAVES = 3000, LAST = 60 };
  tsr_array *leaves[LEAVES];
  const char *path = test_tmp("ckpt");
  open_world("cpu:1");
  for (int i = 0; i < LEAVES; i++) leaves[i] = tsr_num(s, i);
  CHECK_STATUS(tsr_checkpoint_save(s, path, tsr_tuple_at(s, leaves, LEAVES, TSR_HERE)), TSR_OK, s);
  close_world();
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  rt = tsr_runtime_open("cpu:1", .allocator = &allocator, .threads = 1);
  CHECK(restore_many(path));
  state.count = 0;
  CHECK(restore_many(path));
  int64_t total = state.count;
  int failed = 0;
  for (int64_t n = total > LAST ? total - LAST : 1; n <= total; n++) {
    state.count = 0;
    state.fail_at = n;
    failed += !restore_many(path);
  }
  CHECK(failed > 0);
  tsr_runtime_close(rt);
  CHECK_I64(state.live, 0);
}

/* ---- in the background ----------------------------------------------------------------------- */

/* Values are those of the call, whatever happens to the arrays and blobs meanwhile; there is one at
 * a time, in order. */
TEST(saved_in_the_background)
{
  open_world("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  const char *path = test_tmp("ckpt");
  for (int step = 0; step < 6; step++) {
    tsr_scope *inner = tsr_scope_open(rt);
    char state[4] = { (char)step, 1, 2, 3 };
    tsr_array *a = tsr_full(inner, step, TSR_F64, TSR_SHAPE(300000), tsr_on(mesh, "x"));
    CHECK_STATUS(tsr_checkpoint_save(inner, path, a, .step = step, .keep = 3, .background = true,
                                     .blobs = { { "state", state, 4 } }),
                 TSR_OK, inner);
    state[0] = 77;
    tsr_delete(a);
    tsr_scope_close(inner);
  }
  CHECK_STATUS(tsr_checkpoint_wait(s), TSR_OK, s);
  CHECK_STATUS(tsr_checkpoint_wait(s), TSR_OK, s);
  tsr_saved_step *c = tsr_checkpoint_open(s, path);
  CHECK_I64(tsr_checkpoint_step(c), 5);
  double most = 0, least = 0;
  tsr_array *back = tsr_checkpoint_restore(c, NULL, .mesh = mesh);
  CHECK_STATUS(tsr_read_scalar(tsr_max(back), &most), TSR_OK, s);
  CHECK_STATUS(tsr_read_scalar(tsr_min(back), &least), TSR_OK, s);
  CHECK(most == 5 && least == 5);
  tsr_value value = { NULL, 0 };
  CHECK_STATUS(tsr_checkpoint_blob(c, "state", &value), TSR_OK, s);
  CHECK_BYTES(value.data, "\5\1\2\3", 4);
  CHECK(there("ckpt/step_3") && !there("ckpt/step_2"));
  close_world();
}

TEST(errors_in_the_background_are_told_once)
{
  open_world("cpu:1");
  const char *path = test_tmp("ckpt");
  CHECK_STATUS(tsr_checkpoint_save(s, path, tsr_num(s, 1)), TSR_OK, s);
  CHECK_STATUS(tsr_checkpoint_save(s, path, tsr_num(s, 1), .background = true), TSR_OK, s);
  CHECK_STATUS(tsr_checkpoint_wait(s), TSR_ESTATE, NULL);
  CHECK_STR_HAS(tsr_message(s), "tsr_checkpoint_wait: a save in the background: ");
  CHECK_STR_HAS(tsr_message(s), "step_0 exists already");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_checkpoint_wait(s), TSR_OK, s);
  CHECK_STATUS(tsr_checkpoint_save(s, path, tsr_num(s, 1), .background = true), TSR_OK, s);
  CHECK_STATUS(tsr_checkpoint_save(s, path, tsr_num(s, 1), .step = 1), TSR_ESTATE, NULL);
  CHECK_STR_HAS(tsr_message(s), "tsr_checkpoint_save: a save in the background: ");
  tsr_scope_clear(s);
  CHECK(!there("ckpt/step_1"));
  /* Closing waits. */
  CHECK_STATUS(tsr_checkpoint_save(s, path, tsr_num(s, 1), .step = 1, .background = true), TSR_OK,
               s);
  close_world();
  CHECK(there("ckpt/step_1/tessera.json"));
}

static void take_line(tsr_log_level level, const char *area, const char *line, void *user)
{
  snprintf(user, 400, "%d %s %s", (int)level, area, line);
}

/* A save fails, as its step is there, and the runtime is closed; `asked`: after a wait. What comes
 * on stderr. */
static char *close_after_failing(bool asked, const char *variable, char *line)
{
  const char *path = test_tmp("stderr.txt");
  if (variable) setenv("TSR_LOG", variable, 1);
  else unsetenv("TSR_LOG");
  tsr_runtime *r = tsr_runtime_open("cpu:2", .log = line ? take_line : NULL, .log_user = line);
  tsr_scope *inner = tsr_scope_open(r);
  CHECK_STATUS(tsr_checkpoint_save(inner, test_tmp("ckpt"), tsr_num(inner, 1), .background = true),
               TSR_OK, inner);
  if (asked) CHECK_STATUS(tsr_checkpoint_wait(inner), TSR_ESTATE, NULL);
  fflush(stderr);
  int saved = dup(2);
  CHECK(freopen(path, "w", stderr) != NULL);
  tsr_runtime_close(r);
  fflush(stderr);
  dup2(saved, 2);
  close(saved);
  return test_read(path, NULL);
}

/* Who closes without having asked hears of it once: in the log, or, where there is none that would
 * have it, on stderr. Who said "off" wants silence. */
TEST(what_nobody_asked_for_is_told_when_the_runtime_closes)
{
  static const struct {
    bool asked;
    const char *variable;
    bool log, told;
  } cases[] = { { false, NULL, false, true },
                { true, NULL, false, false },
                { false, "", false, true },
                { false, "off", false, false },
                { false, "checkpoint:off", false, false },
                { false, "io:debug", false, true },
                { false, "error", false, true },
                { false, NULL, true, true },
                { true, NULL, true, false },
                { false, "checkpoint:off", true, false } };
  open_world("cpu:1");
  CHECK_STATUS(tsr_checkpoint_save(s, test_tmp("ckpt"), tsr_num(s, 1)), TSR_OK, s);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char line[400] = "";
    char *text = close_after_failing(cases[i].asked, cases[i].variable, cases[i].log ? line : NULL);
    const char *found = cases[i].log ? line : text;
    if (cases[i].log || !cases[i].told) CHECK_STR(text, "");
    if (!cases[i].told) CHECK_STR(line, "");
    if (cases[i].told) CHECK_STR_HAS(found, "a save in the background failed: ");
    if (cases[i].told) CHECK_STR_HAS(found, "step_0 exists already");
    const char *end = strchr(text, '\n');
    CHECK(!end || !end[1]); /* one line */
    free(text);
  }
  close_world();
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Columns of every kind, with nulls and texts, rows over devices unevenly: the text of the frame is
 * the same again. */
TEST(frames_come_back)
{
  open_world("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  static const char csv[] =
      "day,shop,n,total,ok,at\n2013-01-01,Oslo,1,12.5,true,2013-01-01 10:00:00\n"
      "2013-01-02,,2,,false,2013-01-02 11:00:00\n"
      "2013-01-03,\"Rome, \xc3\xa4\",3,7,,\n,Oslo,4,8.25,true,2014-05-05\n"
      "2013-01-05,Bergen,5,-1,true,2013-01-05 00:00:01\n";
  test_write(test_tmp("a.csv"), csv, sizeof csv - 1);
  tsr_frame *df =
      tsr_frame_read_csv(s, test_tmp("a.csv"), .on = tsr_on(mesh, "x"), .text_nulls = true);
  tsr_frame *some = tsr_frame_filter(df, "n != 3");
  tsr_frame *none = tsr_frame_filter(df, "n > 100");
  const char *path = test_tmp("ckpt");
  CHECK_STATUS(tsr_checkpoint_save(s, path, tsr_num(s, 1),
                                   .frames = { { "all", df }, { "some", some }, { "none", none } }),
               TSR_OK, s);
  tsr_saved_step *c = tsr_checkpoint_open(s, path);
  CHECK_STATUS(tsr_checkpoint_verify(c), TSR_OK, s);
  static const char *const names[] = { "all", "some", "none" };
  tsr_frame *frames[] = { df, some, none };
  for (int i = 0; i < 3; i++)
    for (int on = 0; on < 3; on++) {
      tsr_sharding place = on == 0   ? (tsr_sharding){ 0 }
                           : on == 1 ? tsr_on(mesh, "x")
                                     : tsr_on(tsr_mesh_make(rt, "x=3"), "x");
      tsr_frame *back = tsr_checkpoint_frame(c, names[i], place);
      CHECK_STR(tsr_frame_text(back), tsr_frame_text(frames[i]));
      /* A saved column of texts has each once. */
      if (i == 0) CHECK_STR_HAS(tsr_frame_explain(back), " (a verb made the codes)");
    }
  tsr_saved_entry entry = tsr_checkpoint_entry(c, 1);
  CHECK_STR(entry.name, "all:values:day");
  CHECK_STR(entry.type, "date");
  CHECK(tsr_frame_is_inert(tsr_checkpoint_frame(c, "sone", (tsr_sharding){ 0 })));
  CHECK_STR_HAS(tsr_message(s), "tsr_checkpoint_frame: step 0 has no frame 'sone'");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_checkpoint_save(s, path, NULL, .step = 1,
                                   .frames = { { "a", df }, { "a", df } }),
               TSR_EARG, NULL);
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_checkpoint_save(s, path, NULL, .step = 1,
                                   .frames = { { "a", tsr_frame_filter(df, "no > 1") } }),
               TSR_ECOLUMN, NULL);
  close_world();
}

/* Every dtype as a column; bf16 comes back as f32. */
TEST(columns_of_every_dtype)
{
  open_world("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  const char *path = test_tmp("ckpt");
  tsr_column columns[13];
  int count = 0;
  for (int dtype = 1; dtype < 16; dtype++) {
    if (!strcmp(tsr_dtype_name((tsr_dtype)dtype), "?") || dtype == TSR_BF16) continue;
    columns[count++] = (tsr_column){ tsr_dtype_name((tsr_dtype)dtype),
                                     put((tsr_dtype)dtype, TSR_SHAPE(101), tsr_on(mesh, "x")) };
  }
  tsr_frame *df = tsr_frame_new_at(s, columns, count, TSR_HERE);
  CHECK_STATUS(tsr_checkpoint_save(s, path, NULL, .frames = { { "df", df } }, .background = true),
               TSR_OK, s);
  CHECK_STATUS(tsr_checkpoint_wait(s), TSR_OK, s);
  tsr_frame *back = tsr_checkpoint_frame(tsr_checkpoint_open(s, path), "df", tsr_on(mesh, "x"));
  for (int i = 0; i < count; i++) {
    CHECK_I64((int)tsr_frame_column_type(back, i), (int)tsr_frame_column_type(df, i));
    check_counted(tsr_frame_column(back, columns[i].name));
  }
  close_world();
}

/* A blob that is more than one piece. */
TEST(large_blobs)
{
  open_world("cpu:2");
  const char *path = test_tmp("ckpt");
  size_t length = (64u << 20) + 12345;
  char *bytes = malloc(length);
  for (size_t i = 0; i < length; i++) bytes[i] = (char)(i * 7 >> 3);
  CHECK_STATUS(tsr_checkpoint_save(s, path, NULL, .blobs = { { "large", bytes, length } }), TSR_OK,
               s);
  tsr_saved_step *c = tsr_checkpoint_open(s, path);
  tsr_value value = { NULL, 0 };
  CHECK_STATUS(tsr_checkpoint_blob(c, "large", &value), TSR_OK, s);
  CHECK(value.length == length && !memcmp(value.data, bytes, length));
  free(bytes);
  close_world();
}

TEST(verify_reads_headers_too)
{
  open_world("cpu:2");
  const char *path = test_tmp("ckpt");
  CHECK_STATUS(tsr_checkpoint_save(s, path, put(TSR_I32, TSR_SHAPE(40), (tsr_sharding){ 0 })),
               TSR_OK, s);
  tsr_saved_step *c = tsr_checkpoint_open(s, path);
  CHECK_STATUS(tsr_checkpoint_verify(c), TSR_OK, s);
  size_t length;
  const char *file = data_file("ckpt/step_0");
  char *bytes = test_read(file, &length);
  for (size_t at = 0; at < length; at++) {
    bytes[at] ^= 16;
    test_write(file, bytes, length);
    CHECK_STATUS(tsr_checkpoint_verify(c), TSR_EPARSE, NULL);
    tsr_scope_clear(s);
    bytes[at] ^= 16;
  }
  free(bytes);
  close_world();
}
