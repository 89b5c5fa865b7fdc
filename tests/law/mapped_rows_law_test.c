/* The law of mapped rows: a function of one row, mapped over rows that are cut over devices, has
 * nothing to tell other devices. So forward and back no byte moves, whatever dims are mapped over,
 * in one or in two steps, and whatever axes cut them; and the bits are those of one device. */
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"

enum { WIDE = 24, SEVERAL = 8, MOST_DEPTH = 2, INPUTS = 3 };

/* Of one row: f32 [24] below 1, indices below 24, i64 [8], and a key. */
#define OF_ROW(name, expression)                                                  \
  static tsr_array *name##_of_row(tsr_scope *s, tsr_array *const *in, void *user) \
  {                                                                               \
    tsr_array *r = in[0], *i = in[1], *k = in[2];                                 \
    (void)s, (void)user, (void)r, (void)i, (void)k;                               \
    return expression;                                                            \
  }
#define TABLE(r) tsr_reshape(r, TSR_SHAPE(4, 6))
#define FIRST(i, n) tsr_slice(i, TSR_RANGE(0, n))

OF_ROW(take, tsr_take(r, i, 0))
OF_ROW(take_clamp, tsr_take(r, tsr_mul(i, 3), 0, .mode = TSR_INDEX_CLAMP))
OF_ROW(take_fill, tsr_take(r, tsr_mul(i, 3), 0, .mode = TSR_INDEX_FILL, .fill = TSR_OPERAND(7)))
OF_ROW(take_rows, tsr_take(TABLE(r), tsr_reshape(tsr_mod(i, 4), TSR_SHAPE(2, 4)), 0))
OF_ROW(take_columns, tsr_take(TABLE(r), tsr_mod(i, 6), 1))
OF_ROW(gather, tsr_gather(TABLE(r), { tsr_mod(i, 4), tsr_mod(tsr_add(i, 3), 6) }))
OF_ROW(along, tsr_take_along_dim(r, i, 0))
OF_ROW(along_columns,
       tsr_take_along_dim(TABLE(r), tsr_reshape(tsr_mod(FIRST(i, 6), 4), TSR_SHAPE(1, 6)), 0))
OF_ROW(scatter_set, tsr_scatter(r, i, FIRST(r, 8), 0))
OF_ROW(scatter_add, tsr_scatter(r, i, FIRST(r, 8), 0, .how = TSR_SCATTER_ADD))
OF_ROW(scatter_mul, tsr_scatter(r, i, FIRST(r, 8), 0, .how = TSR_SCATTER_MUL))
OF_ROW(scatter_max, tsr_scatter(TABLE(r), tsr_mod(i, 6), 0.5f, 1, .how = TSR_SCATTER_MAX))
OF_ROW(scatter_drop, tsr_scatter(r, tsr_mul(i, 3), 9.0f, 0, .mode = TSR_INDEX_DROP))
OF_ROW(slice, tsr_dynamic_slice(r, FIRST(i, 1), TSR_SHAPE(5)))
OF_ROW(slice_box, tsr_dynamic_slice(TABLE(r), tsr_sub(FIRST(i, 2), 3), TSR_SHAPE(2, 3)))
OF_ROW(update, tsr_dynamic_update_slice(r, tsr_slice(r, TSR_RANGE(3, 8)), FIRST(i, 1)))
OF_ROW(update_bools,
       tsr_dynamic_update_slice(tsr_gt(r, 0.5f), tsr_gt(FIRST(r, 5), 0.2f), FIRST(i, 1)))
OF_ROW(slice_number, tsr_dynamic_slice(tsr_sum(r), FIRST(i, 0), TSR_SCALAR))
OF_ROW(update_number, tsr_dynamic_update_slice(tsr_sum(r), tsr_max(r), FIRST(i, 0)))
OF_ROW(sort, tsr_sort(r, 0))
OF_ROW(top_k, tsr_top_k(TABLE(r), 3, 0))
OF_ROW(cumsum, tsr_cumsum(r, 0))
OF_ROW(searchsorted, tsr_searchsorted(tsr_sort(r, 0), FIRST(r, 9), false))
OF_ROW(isin, tsr_isin(i, FIRST(i, 3)))
OF_ROW(interp, tsr_interp(r, tsr_sort(FIRST(r, 6), 0), tsr_slice(r, TSR_RANGE(6, 12))))
OF_ROW(compress, tsr_compress(r, tsr_gt(r, 0.5f), 20))
OF_ROW(unique, tsr_unique(tsr_floor(tsr_mul(r, 8)), .count = 9).values)
OF_ROW(bincount, tsr_bincount(i, WIDE, NULL))
OF_ROW(bincount_weighted, tsr_bincount(i, WIDE, FIRST(r, 8)))
OF_ROW(shuffle, tsr_shuffle(r, 0, .keys = k))
OF_ROW(choice, tsr_choice(r, 5, .by = { .size = sizeof(tsr_random_args), .keys = k }))
OF_ROW(repeat_each, tsr_repeat_each(r, tsr_cast(tsr_gt(r, 0.5f), TSR_I64), 30, 0))

static const struct {
  const char *name;
  tsr_body_fn *fn;
  bool back; /* it has a gradient */
} rows[] = {
#define ROW(name, back)        \
  {                            \
#name, name##_of_row, back \
  }
  ROW(take, true),
  ROW(take_clamp, true),
  ROW(take_fill, true),
  ROW(take_rows, true),
  ROW(take_columns, true),
  ROW(gather, true),
  ROW(along, true),
  ROW(along_columns, true),
  ROW(scatter_set, true),
  ROW(scatter_add, true),
  ROW(scatter_mul, true),
  ROW(scatter_max, true),
  ROW(scatter_drop, true),
  ROW(slice, true),
  ROW(slice_box, true),
  ROW(update, true),
  ROW(update_bools, false),
  ROW(slice_number, true),
  ROW(update_number, true),
  ROW(sort, true),
  ROW(top_k, true),
  ROW(cumsum, true),
  ROW(searchsorted, false),
  ROW(isin, false),
  ROW(interp, true),
  ROW(compress, true),
  ROW(unique, false),
  ROW(bincount, false),
  ROW(bincount_weighted, true),
  ROW(shuffle, true),
  ROW(choice, true),
  ROW(repeat_each, true),
#undef ROW
};
enum { ROWS = sizeof rows / sizeof *rows };

typedef struct trial {
  test_rng rng;
  uint64_t seed;
  tsr_scope *s;
  const tsr_mesh *mesh;
  int op, depth;
  bool back;
  int64_t size[MOST_DEPTH];         /* of the mapped dims, the outer one first */
  int step_of_axis[TSR_MAX_AXES];   /* which of them an axis cuts; -1: neither */
  bool varies[INPUTS], cut[INPUTS]; /* inputs that are mapped over, and that lie cut */
  int dim[INPUTS][MOST_DEPTH];      /* of an input where it is mapped over, by the step */
} trial;

/* A number of whatever a row gives, so that it has a gradient: each element counts otherwise. */
static tsr_array *number_of_row(tsr_scope *s, tsr_array *const *in, void *user)
{
  const trial *t = user;
  tsr_array *y = tsr_ravel(tsr_cast(rows[t->op].fn(s, in, NULL), TSR_F32));
  tsr_array *weight = tsr_iota(s, TSR_F32, tsr_shape_of(y), 0, (tsr_sharding){ 0 });
  return tsr_sum(tsr_mul(y, tsr_add(weight, 1)));
}

/* Input `i` of all rows: the mapped dims first, then moved to where it is mapped over. */
static tsr_array *input_of(const trial *t, int i)
{
  static const uint64_t seeds[INPUTS] = { 1, 2, 3 };
  tsr_shape shape = { .rank = 0 };
  int64_t count = 1;
  for (int d = 0; d < t->depth && t->varies[i]; d++) shape.dims[shape.rank++] = t->size[d];
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  if (i == 2) return tsr_reshape(tsr_random_split(tsr_random_key(t->s, seeds[i]), count), shape);
  shape.dims[shape.rank++] = i ? SEVERAL : WIDE;
  if (i) return tsr_randint(t->s, 0, WIDE, .key = seeds[i], .shape = shape);
  return tsr_uniform(t->s, .key = seeds[i], .dtype = TSR_F32, .shape = shape);
}

static tsr_array *moved_to_dims(const trial *t, int i, tsr_array *a)
{
  if (!t->varies[i]) return a;
  if (t->depth > 1) a = tsr_moveaxis(a, 1, 1 + t->dim[i][1]);
  return tsr_moveaxis(a, 0, t->dim[i][0]);
}

/* The spec of an input: each axis at the dim that it cuts. */
static tsr_sharding place_of(const trial *t, int i)
{
  char text[128] = "";
  int rank = (i < 2) + (t->varies[i] ? t->depth : 0);
  int at[MOST_DEPTH] = { t->dim[i][0], t->dim[i][1] + (t->dim[i][1] >= t->dim[i][0]) };
  for (int d = 0; d < rank; d++) {
    bool any = false;
    strcat(text, d ? "," : "");
    for (int a = 0; a < tsr_mesh_axis_count(t->mesh) && t->varies[i] && t->cut[i]; a++) {
      int step = t->step_of_axis[a];
      if (step < 0 || at[step] != d) continue;
      strcat(text, any ? "+" : "");
      strcat(text, tsr_mesh_axis_name(t->mesh, a));
      any = true;
    }
    if (!any) strcat(text, "-");
  }
  return tsr_on(t->mesh, text);
}

static tsr_function *mapped_function(trial *t)
{
  tsr_function *f = t->back ? tsr_grad(tsr_function_make(t->s, number_of_row, .user = t))
                            : tsr_function_make(t->s, rows[t->op].fn);
  for (int step = t->depth - 1; step >= 0; step--) {
    tsr_vmap_args args = { .size = sizeof args, .function = f };
    for (int i = 0; i < INPUTS; i++)
      args.in_dims[i] = t->varies[i] ? t->dim[i][step] : TSR_UNMAPPED;
    f = tsr_vmap_at(&args, TSR_HERE);
  }
  return f;
}

static void *bits_of(const trial *t, tsr_array *y, size_t *bytes)
{
  *bytes = tsr_dtype_size(tsr_dtype_of(y));
  for (int d = 0; d < tsr_shape_of(y).rank; d++) *bytes *= (size_t)tsr_shape_of(y).dims[d];
  void *out = calloc(1, *bytes + 1);
  if (tsr_read(y, out, *bytes))
    FAIL("seed %llu, %s: %s", (unsigned long long)t->seed, rows[t->op].name, tsr_message(t->s));
  return out;
}

/* On the mesh, or unplaced, which is on one device. Nothing moves. */
static void *result_of(trial *t, bool placed, size_t *bytes)
{
  tsr_array *in[INPUTS];
  for (int i = 0; i < INPUTS; i++) {
    in[i] = moved_to_dims(t, i, input_of(t, i));
    if (placed) in[i] = tsr_reshard(in[i], place_of(t, i));
    if (tsr_eval(&in[i], 1)) FAIL("seed %llu: %s", (unsigned long long)t->seed, tsr_message(t->s));
  }
  tsr_function *f = mapped_function(t);
  tsr_array *y = tsr_call_at(f, in, INPUTS, TSR_HERE);
  if (tsr_scope_status(t->s) || tsr_eval(&y, 1))
    FAIL("seed %llu, %s: %s", (unsigned long long)t->seed, rows[t->op].name, tsr_message(t->s));
  tsr_run_stats run = tsr_last_run(t->s);
  if (run.bytes_explained || run.bytes_counted) {
    tsr_array *again = tsr_call_at(f, in, INPUTS, TSR_HERE);
    FAIL("seed %llu: %s%s moves %lld bytes\n%s", (unsigned long long)t->seed,
         t->back ? "back through " : "", rows[t->op].name, (long long)run.bytes_counted,
         tsr_explain(&again, 1));
  }
  return bits_of(t, y, bytes);
}

static void draw_trial(trial *t)
{
  t->op = (int)(t->seed % ROWS);
  t->depth = (int)test_range(&t->rng, 1, MOST_DEPTH);
  for (int d = 0; d < MOST_DEPTH; d++) t->size[d] = test_range(&t->rng, 2, 11);
  for (int a = 0; a < TSR_MAX_AXES; a++)
    t->step_of_axis[a] = (int)test_range(&t->rng, -1, t->depth - 1);
  for (int i = 0; i < INPUTS; i++) {
    t->varies[i] = test_range(&t->rng, 0, 5) > 0;
    t->cut[i] = test_range(&t->rng, 0, 5) > 0;
    t->dim[i][0] = (int)test_range(&t->rng, 0, t->depth);
    t->dim[i][1] = (int)test_range(&t->rng, 0, 1);
    /* A key is a number: its rows have no other dims. */
    if (i == 2) t->dim[i][0] = t->dim[i][1] = 0;
  }
  if (!t->varies[1] && !t->varies[2]) t->varies[0] = true;
  /* What is due to a row that all have is a sum over all devices, and a gradient lies as the rows
   * that it is by: whole, if these are. */
  t->back = rows[t->op].back && t->varies[0] && test_range(&t->rng, 0, 1);
  t->cut[0] = t->cut[0] || t->back;
}

static void one_trial(tsr_runtime *rt, uint64_t seed)
{
  trial t = { .rng = test_seeded(seed), .seed = seed };
  size_t bytes, own;
  t.s = tsr_scope_open(rt);
  t.mesh = tsr_mesh_make(rt, law_meshes[test_range(&t.rng, 0, LAW_MESHES - 1)]);
  draw_trial(&t);
  void *found = result_of(&t, true, &bytes), *want = result_of(&t, false, &own);
  if (bytes != own || memcmp(found, want, bytes))
    FAIL("seed %llu: %s%s has other bits on the mesh", (unsigned long long)seed,
         t.back ? "back through " : "", rows[t.op].name);
  free(found);
  free(want);
  tsr_scope_close(t.s);
}

TEST_TIMEOUT(mapped_rows_move_nothing_where_they_are_cut, 900)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  const char *only = getenv("LAW_SEED");
  uint64_t first = only ? strtoull(only, NULL, 10) : 1;
  uint64_t count = only ? 1 : (test_quick() ? 12 : 60) * (uint64_t)ROWS;
  for (uint64_t seed = first; seed < first + count; seed++)
    if (only || test_share(seed)) one_trial(rt, seed);
  tsr_runtime_close(rt);
}

/* Row 6 of 11 has an index too large, at its place 2. The same is said on one device and where rows
 * are cut, and names the line of the body. */
static void check_refused(tsr_body_fn *fn, const char *message)
{
  static const char *const specs[] = { "-", "x", "y", "x+y" };
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  const tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,y=2");
  for (int k = 0; k < 4; k++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *r = tsr_full(s, 1, TSR_F32, TSR_SHAPE(11, WIDE), tsr_on(mesh, specs[k]));
    tsr_array *place = tsr_iota(s, TSR_I64, TSR_SHAPE(11, SEVERAL), 1, tsr_on(mesh, specs[k]));
    tsr_array *row = tsr_iota(s, TSR_I64, TSR_SHAPE(11, SEVERAL), 0, tsr_on(mesh, specs[k]));
    tsr_array *bad = tsr_and(tsr_eq(row, 6), tsr_eq(place, 2));
    tsr_array *i = tsr_where(bad, 24, place);
    tsr_array *y = tsr_call(tsr_vmap(tsr_function_make(s, fn)), r, i, row);
    CHECK_I64(tsr_eval(&y, 1), TSR_EVALUE);
    CHECK_STR_HAS(tsr_message(s), message);
    CHECK_STR_HAS(tsr_message(s), "mapped_rows_law_test.c:");
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(an_index_out_of_range_is_told_by_row_and_place)
{
  check_refused(take_of_row, "tsr_take: index 24 at position 50 of the result is out of range, "
                             "expected -24 to 23");
  check_refused(scatter_set_of_row, "tsr_scatter: index 24 at position 50 of the indices is out of "
                                    "range, expected -24 to 23");
}
