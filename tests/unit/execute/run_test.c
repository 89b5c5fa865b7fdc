/* Runs over rows whose number is known at run time only: filtered ones where they lie, and
 * rebalanced ones; and runs of several threads over one array. */
#include <pthread.h>

#include "graph/graph.h"
#include "harness.h"
#include "tessera.h"

enum { ROWS = 20 };

typedef struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_array *x, *kept, *even; /* 0 .. 19; those over 9.5; the same at even borders */
} fixture;

static tsr_array *make(tsr__op op, tsr_array *a, tsr_array *b)
{
  tsr__operands in = TSR__IN(a, b);
  return tsr__make(a->node.scope, op, in, &(tsr__ask){ .dtype = 0 }, "a.c:1");
}

static fixture open_fixture(const char *devices, const char *mesh, const char *spec)
{
  double data[2 * ROWS];
  fixture f = { .rt = tsr_runtime_open(devices) };
  for (int i = 0; i < 2 * ROWS; i++) data[i] = i / 2;
  f.s = tsr_scope_open(f.rt);
  f.x = tsr_put(f.s, data, TSR_F64, TSR_SHAPE(ROWS, 2), tsr_on(tsr_mesh_make(f.rt, mesh), spec));
  tsr_array *first =
      tsr_reshard(tsr_max(f.x, .dims = TSR_DIMS(1)), tsr_on(tsr_mesh_make(f.rt, mesh), spec));
  f.kept = make(TSR__OP_COMPACT, f.x, tsr_gt(first, 9.5));
  f.even = make(TSR__OP_REBALANCE, f.kept, NULL);
  return f;
}

static void check_rows(tsr_array *a, double first, double step)
{
  double out[ROWS];
  CHECK_STATUS(tsr_read(a, out, sizeof out), TSR_OK, a->node.scope);
  for (int i = 0; i < ROWS; i++) CHECK_F64_BITS(out[i], first + step * (double)(i / 2));
  CHECK_I64(tsr_shape_of(a).dims[0], ROWS / 2);
}

static void check_scalar(tsr_array *a, double expected)
{
  double out = 0;
  CHECK_STATUS(tsr_read_scalar(a, &out), TSR_OK, a->node.scope);
  CHECK_F64_BITS(out, expected);
}

static const struct {
  const char *devices, *mesh, *spec;
} places[] = { { "cpu:1", "x=1", "x" },
               { "cpu:8", "x=8", "x" },
               { "cpu:8", "x=2,y=4", "y" },
               { "cpu:3", "x=3", "x" } };

TEST(filtered_rows_compute_where_they_lie)
{
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    fixture f = open_fixture(places[i].devices, places[i].mesh, places[i].spec);
    check_rows(tsr_add(f.kept, 1), 11, 1);
    check_scalar(tsr_mean(f.kept), 14.5); /* the count is known at run time too */
    check_scalar(tsr_sum(tsr_mul(f.kept, f.kept)), 2 * 2185);
    check_scalar(tsr_sum(tsr_sum(f.kept, .dims = TSR_DIMS(1))), 290);
    tsr_runtime_close(f.rt);
  }
}

TEST(rebalanced_rows_compute_before_their_number_is_known)
{
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    fixture f = open_fixture(places[i].devices, places[i].mesh, places[i].spec);
    check_scalar(tsr_sum(tsr_add(tsr_neg(f.even), 100)), 2 * 855);
    check_scalar(tsr_mean(f.even), 14.5);
    check_rows(tsr_add(tsr_neg(f.even), 100), 90, -1);
    check_rows(f.even, 10, 1);
    check_rows(tsr_mul(f.even, 2), 20, 2); /* the number is known by now */
    tsr_runtime_close(f.rt);
  }
}

TEST(rows_of_two_filters_do_not_mix)
{
  fixture f = open_fixture("cpu:8", "x=8", "x");
  tsr_array *first = tsr_max(f.x, .dims = TSR_DIMS(1));
  tsr_array *fewer = make(TSR__OP_COMPACT, f.x, tsr_gt(first, 15));
  double out;
  CHECK_STATUS(tsr_read_scalar(tsr_sum(tsr_add(f.kept, fewer)), &out), TSR_ESHAPE, f.s);
  CHECK_STR_HAS(tsr_message(f.s), "two filtered arrays of 10 and 4 rows do not line up");
  tsr_runtime_close(f.rt);
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { ROUNDS = 400 };

/* A sum that was left unreduced, which two threads read at the same time. */
typedef struct shared {
  tsr_scope *s;
  tsr_array *sum;
  pthread_barrier_t barrier; /* before and after each round */
  _Atomic int wrong;
} shared;

/* A root that has a value, of which the elements are made now. */
static void *read_elements(void *user)
{
  shared *h = user;
  for (int r = 0; r < ROUNDS; r++) {
    float got[2] = { 0 };
    pthread_barrier_wait(&h->barrier);
    tsr_scope *s = tsr_scope_open(h->s);
    h->wrong += tsr_read(h->sum, got, sizeof got) || got[0] != 16 || got[1] != 20;
    tsr_scope_close(s);
    pthread_barrier_wait(&h->barrier);
  }
  return NULL;
}

/* The same as an operand, which has another number in this program. */
static void *compute_beside(void *user)
{
  shared *h = user;
  for (int r = 0; r < ROUNDS; r++) {
    pthread_barrier_wait(&h->barrier);
    tsr_scope *s = tsr_scope_open(h->s);
    tsr_array *x = tsr_full(s, 2, TSR_F32, TSR_SHAPE(2), (tsr_sharding){ 0 });
    for (int k = 0; k < 8; k++) x = tsr_mul(tsr_sin(x), 1.5);
    x = tsr_add(x, h->sum);
    h->wrong += tsr_eval(&x, 1) != TSR_OK;
    tsr_scope_close(s);
    pthread_barrier_wait(&h->barrier);
  }
  return NULL;
}

TEST(threads_read_an_array_while_others_compute_with_it)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .threads = 1);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2");
  tsr_sharding parts = tsr_on(mesh, NULL);
  const float data[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
  shared h = { .s = tsr_scope_open(rt) };
  pthread_t thread[2];
  parts.unreduced = 1;
  pthread_barrier_init(&h.barrier, NULL, 3);
  CHECK(!pthread_create(&thread[0], NULL, read_elements, &h));
  CHECK(!pthread_create(&thread[1], NULL, compute_beside, &h));
  for (int r = 0; r < ROUNDS; r++) {
    tsr_array *x = tsr_put(h.s, data, TSR_F32, TSR_SHAPE(4, 2), tsr_on(mesh, "x"));
    h.sum = tsr_constrain(tsr_sum(x, .dims = TSR_DIMS(0)), parts);
    h.wrong += tsr_eval(&h.sum, 1) != TSR_OK;
    for (int i = 0; i < 2; i++) pthread_barrier_wait(&h.barrier);
  }
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  pthread_barrier_destroy(&h.barrier);
  CHECK_I64(h.wrong, 0);
  tsr_runtime_close(rt);
}
