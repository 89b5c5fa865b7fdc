/* Random joins on random meshes are what nested loops over the host's rows give, in order, and the
 * bytes told are the bytes copied. Runs at each ISA. */
#include "harness.h"
#include "relate/relate_inner.h"
#include "support/join_fixture.h"
#include "support/law_fixture.h"
#include "support/topology_fixture.h"
#include "tessera.h"

enum { MOST_ROWS = 120, CODES = 12 };

static int64_t some_rows(test_rng *rng)
{
  return test_range(rng, 0, 4) ? test_range(rng, 0, MOST_ROWS) : test_range(rng, 0, 1);
}

static tsr_sharding some_sharding(test_rng *rng, const law_mesh *on)
{
  static const char *const specs[] = { "x", "-", "x", "y", "x+y", "y+x" };
  int64_t which = test_range(rng, -1, on->flat ? 2 : 5);
  if (which < 0) return (tsr_sharding){ .mesh = NULL };
  return tsr_on(on->mesh, specs[which]);
}

typedef struct law {
  tsr__rel_key left_keys[3], right_keys[3];
  int32_t map[CODES];
  int take[HOST_COLUMNS];
  host_table left, right;
  tsr__rel_join_ask ask;
} law;

/* Keys of both tables, with other columns between them. */
static void make(law *l, test_rng *rng)
{
  int keys = (int)test_range(rng, 1, 3), extra = (int)test_range(rng, 0, 2);
  int64_t distinct = test_range(rng, 1, 40);
  int64_t rows = some_rows(rng), larger = rows * test_range(rng, 1, 4) + test_range(rng, 0, 10);
  bool corners = !test_range(rng, 0, 1);
  host_new(&l->left, rows, keys + (int)test_range(rng, 0, 2));
  host_new(&l->right, test_range(rng, 0, 1) ? larger : some_rows(rng), keys + extra);
  for (int side = 0; side < 2; side++) {
    host_table *t = side ? &l->right : &l->left;
    for (int c = 0; c < t->count; c++) {
      t->column[c].dtype = fixture_dtype(test_range(rng, 0, 99));
      t->column[c].nullable = !test_range(rng, 0, 2);
      t->column[c].corners = corners;
    }
  }
  bool text = !test_range(rng, 0, 3);
  for (int k = 0; k < keys; k++) {
    int lc = l->left.count - 1 - k, rc = k;
    if (text && k == 0) l->left.column[lc].dtype = TSR_I32;
    l->right.column[rc].dtype = l->left.column[lc].dtype;
    l->left_keys[k] = (tsr__rel_key){ .column = lc };
    l->right_keys[k] = (tsr__rel_key){ .column = rc };
  }
  for (int side = 0; side < 2; side++) {
    host_table *t = side ? &l->right : &l->left;
    for (int c = 0; c < t->count; c++) host_fill(t, c, rng, distinct);
  }
  if (text) {
    host_column *a = &l->left.column[l->left_keys[0].column], *b = &l->right.column[0];
    for (int64_t r = 0; r < l->left.rows; r++) a->value[r] = test_range(rng, 0, CODES - 1);
    for (int64_t r = 0; r < l->right.rows; r++) b->value[r] = test_range(rng, 0, CODES - 1);
    for (int i = 0; i < CODES; i++) l->map[i] = (int32_t)test_range(rng, -1, CODES - 1);
    l->right_keys[0].map = l->map;
    l->right_keys[0].map_count = CODES;
  }
  l->ask = (tsr__rel_join_ask){ .left_keys = l->left_keys,
                                .right_keys = l->right_keys,
                                .key_count = keys,
                                .take = l->take,
                                .take_count = (int)test_range(rng, 0, l->right.count) };
  for (int i = 0; i < l->ask.take_count; i++) l->take[i] = l->right.count - 1 - i;
}

/* Bytes that copies of all processes counted, as an operator tells of all. */
static int64_t copied_by_all(const tsr__rel *left)
{
  tsr__error error = { .status = TSR_OK };
  tsr__rel_meeting meeting = { .rt = left->rt, .error = &error };
  int64_t bytes = copied_bytes();
  CHECK_STATUS(tsr__rel_enter(&meeting, "the test", left, NULL), TSR_OK, NULL);
  bool apart = tsr__rel_apart(left->rt, &left->sharding);
  tsr_status status = tsr__agree_sum(left->rt, apart, &bytes, &error);
  CHECK_STATUS(tsr__rel_leave(&meeting, status, NULL), TSR_OK, NULL);
  return bytes;
}

static void check_join(law *l, int how)
{
  tsr__error error = { .status = TSR_OK };
  tsr__rel found;
  tsr__rel_stats stats;
  host_table expected;
  bool repeats = false, want = false;
  l->ask.how = how;
  host_join(&l->ask, &l->left, &l->right, &expected, &want);
  count_copies(l->ask.left->rt);
  tsr_status status = tsr__rel_join(&l->ask, &found, &repeats, &stats, &error);
  if (status) FAIL("%s", error.text);
  int64_t told = 0;
  for (int i = 0; i < stats.move_count; i++) told += stats.move[i].bytes;
  /* What comes to no mesh each process has, and one of them tells. */
  int64_t copied = copied_by_all(l->ask.left);
  if (l->ask.left->sharding.mesh || !tsr_process_index(l->ask.left->rt)) CHECK_I64(told, copied);
  CHECK(stats.method != NULL);
  host_check(&expected, &found);
  CHECK(repeats == want);
  tsr__rel_free(&found);
  host_free(&expected);
}

static void check_tables(uint64_t seed)
{
  test_rng rng = test_seeded(seed);
  law_mesh on = law_open(&rng);
  law l = { .left_keys = { { 0 } } };
  make(&l, &rng);
  tsr_sharding of_left = some_sharding(&rng, &on);
  tsr_sharding of_right = test_range(&rng, 0, 1) ? of_left : some_sharding(&rng, &on);
  tsr__rel left, right;
  host_put(&l.left, on.rt, &of_left, test_range(&rng, 0, 1) ? &rng : NULL, &left);
  host_put(&l.right, on.rt, &of_right, test_range(&rng, 0, 1) ? &rng : NULL, &right);
  l.ask.left = &left;
  l.ask.right = &right;
  for (int how = TSR__MATCH_INNER; how <= TSR__MATCH_ANTI; how++) check_join(&l, how);
  tsr__rel_free(&left);
  tsr__rel_free(&right);
  host_free(&l.left);
  host_free(&l.right);
  tsr_runtime_close(on.rt);
}

TEST_TIMEOUT(joins_are_nested_loops, 300)
{
  law_each_seed(1, test_quick() ? 400 : 2500, check_tables);
}
