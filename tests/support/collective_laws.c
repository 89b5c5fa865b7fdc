#include "support/collective_laws.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/among.h"
#include "tessera.h"

enum { ROWS = 2, MOST_PLACES = 16 };

typedef enum kind {
  PSUM,
  PMEAN,
  PMAX,
  PMIN,
  GATHER,
  SCATTER,
  ALL_TO_ALL,
  PERMUTE,
  BROADCAST,
  RAGGED,
  SUM, /* of a global array: accumulators meet, not elements */
  MEAN,
  VARIANCE,
  LARGEST,
  PRODUCT,
  ANY,
  KINDS
} kind;

static const char *const names[KINDS] = {
  "psum",       "pmean",  "pmax", "pmin", "all_gather", "psum_scatter", "all_to_all", "ppermute",
  "pbroadcast", "ragged", "sum",  "mean", "var",        "max",          "prod",       "any",
};

/* One program: the collective, and on what. */
typedef struct job {
  kind kind;
  tsr_dtype dtype;
  int places;
  int64_t columns; /* a multiple of the places */
  const tsr_mesh *mesh;
} job;

/* What it gave: the bytes of the result, or a refusal. */
typedef struct outcome {
  tsr_status status;
  tsr_dtype dtype;
  tsr_shape shape;
  char *bytes;
  size_t size;
  int64_t moved;
} outcome;

static tsr_array *moved(tsr_scope *s, tsr_array *const *in, void *user)
{
  const job *j = user;
  tsr_pair pairs[MOST_PLACES];
  (void)s;
  switch (j->kind) {
  case PSUM: return tsr_psum(in[0], "x");
  case PMEAN: return tsr_pmean(in[0], "x");
  case PMAX: return tsr_pmax(in[0], "x");
  case PMIN: return tsr_pmin(in[0], "x");
  case GATHER: return tsr_all_gather(in[0], "x", .tiled = true);
  case SCATTER: return tsr_psum_scatter(in[0], "x", .dim = 1, .tiled = true);
  case ALL_TO_ALL: return tsr_all_to_all(in[0], "x", .split = 1, .tiled = true);
  case BROADCAST: return tsr_pbroadcast_at(in[0], "x", j->places - 1, TSR_HERE);
  case RAGGED:
    return tsr_ragged_all_to_all(in[0], "x", .to = in[1], .starts = in[2], .sizes = in[3],
                                 .places = in[4]);
  default:
    for (int i = 0; i < j->places; i++) pairs[i] = (tsr_pair){ i, (i + 1) % j->places };
    return tsr_ppermute_at(&(tsr_permute_args){ .size = sizeof(tsr_permute_args),
                                                .x = in[0],
                                                .axis = "x",
                                                .pairs = pairs,
                                                .count = j->places - 1 },
                           TSR_HERE);
  }
}

/* Of every magnitude, and of whole numbers some that are negative. */
static tsr_array *data_of(tsr_scope *s, const job *j)
{
  int64_t count = (int64_t)ROWS * j->places * j->columns;
  double *data = malloc((size_t)(count + 1) * sizeof *data);
  CHECK(data);
  bool real = j->dtype >= TSR_F16;
  for (int64_t i = 0; i < count; i++)
    data[i] = real ? sin((double)i * 3) * exp2((double)(i * 7 % 24) - 12) : (double)(i * 37 % 101);
  tsr_array *x =
      tsr_put(s, data, TSR_F64, TSR_SHAPE(ROWS * j->places, j->columns), tsr_on(j->mesh, "x,-"));
  tsr_array *out = tsr_cast(x, j->dtype);
  CHECK_STATUS(tsr_eval(&out, 1), TSR_OK, s);
  free(data);
  return out;
}

/* Place p sends (p + q) % (ROWS + 1) rows to place q: none, some or all. */
static tsr_array *numbers(tsr_scope *s, const job *j, int which)
{
  int64_t data[MOST_PLACES * MOST_PLACES];
  int n = j->places;
  for (int p = 0; p < n; p++)
    for (int q = 0; q < n; q++) {
      int rows = (p + q) % (ROWS + 1), before = 0;
      for (int k = 0; k < p; k++) before += (k + q) % (ROWS + 1);
      data[p * n + q] = which == 0 ? ROWS - rows : which == 1 ? rows : before;
    }
  return tsr_put(s, data, TSR_I64, TSR_SHAPE(n * n), tsr_on(j->mesh, "x"));
}

static tsr_array *result_of(tsr_scope *s, job *j)
{
  tsr_array *x = data_of(s, j);
  tsr_sharding on = tsr_on(j->mesh, "x,-");
  tsr_dims first = TSR_DIMS(0);
  bool cut = j->kind == SCATTER || j->kind == ALL_TO_ALL;
  switch (j->kind) {
  case SUM: return tsr_sum(x, .dims = first);
  case MEAN: return tsr_mean(x, .dims = first);
  case VARIANCE: return tsr_var(x, .dims = first);
  case LARGEST: return tsr_max(x, .dims = first);
  case PRODUCT: return tsr_prod(x, .dims = first);
  case ANY: return tsr_any(tsr_gt(x, 90), .dims = first);
  case RAGGED: {
    int64_t rows = (int64_t)ROWS * j->places;
    tsr_array *to = tsr_full(s, 7, j->dtype, TSR_SHAPE(rows * j->places, j->columns), on);
    return tsr_shard_map(j->mesh, moved, j,
                         .in = { x, to, numbers(s, j, 0), numbers(s, j, 1), numbers(s, j, 2) },
                         .in_specs = { "x,-", "x,-", "x", "x", "x" }, .out_specs = { "x,-" });
  }
  default:
    return tsr_shard_map(j->mesh, moved, j, .in = { x }, .in_specs = { "x,-" },
                         .out_specs = { cut                  ? "-,x"
                                        : j->kind == PERMUTE ? "x,-"
                                                             : "" });
  }
}

static outcome run(tsr_runtime *rt, job j)
{
  outcome out = { .status = TSR_OK };
  tsr_scope *s = tsr_scope_open(rt);
  char mesh[16];
  snprintf(mesh, sizeof mesh, "x=%d", j.places);
  j.mesh = tsr_mesh_make(rt, mesh);
  tsr_array *y = result_of(s, &j);
  out.status = tsr_eval(&y, 1);
  out.moved = tsr_last_run(s).bytes_counted;
  if (!out.status) {
    out.dtype = tsr_dtype_of(y);
    out.shape = tsr_shape_of(y);
    out.size = tsr_dtype_size(out.dtype);
    for (int d = 0; d < out.shape.rank; d++) out.size *= (size_t)out.shape.dims[d];
    out.bytes = malloc(out.size + 1);
    CHECK(out.bytes);
    out.status = tsr_read(y, out.bytes, out.size);
  }
  tsr_scope_close(s);
  return out;
}

static bool same_shape(const tsr_shape *a, const tsr_shape *b)
{
  return a->rank == b->rank &&
         (a->rank < 1 || !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims));
}

static void check_same(tsr_runtime *among, tsr_runtime *alone, job j)
{
  outcome mine = run(among, j), expected = run(alone, j);
  /* Small tables without a mesh come to devices from one in one process; each other has its own. */
  bool tables = j.kind == PERMUTE || j.kind == RAGGED;
  bool counted = tables ? mine.moved <= expected.moved : mine.moved == expected.moved;
  bool same = mine.status == expected.status && mine.size == expected.size &&
              mine.dtype == expected.dtype && counted && same_shape(&mine.shape, &expected.shape) &&
              (!mine.size || !memcmp(mine.bytes, expected.bytes, mine.size));
  if (!same)
    fprintf(stderr, "%s of %s, %lld columns: status %d and %d, %lld and %lld bytes moved\n",
            names[j.kind], tsr_dtype_name(j.dtype), (long long)j.columns, (int)mine.status,
            (int)expected.status, (long long)mine.moved, (long long)expected.moved);
  CHECK(same);
  free(mine.bytes);
  free(expected.bytes);
}

void collective_laws_check(int devices, bool full)
{
  static const tsr_dtype dtypes[] = { TSR_BOOL, TSR_I8,  TSR_I16, TSR_I32, TSR_I64,
                                      TSR_U8,   TSR_U16, TSR_U32, TSR_U64, TSR_F16,
                                      TSR_BF16, TSR_F32, TSR_F64 };
  /* Times the places; the last ones are more than each process combines alone. */
  static const int64_t columns[] = { 0, 1, 3, 65, 67, 1201, 5003 };
  int places = devices * test_process_count();
  char text[16];
  snprintf(text, sizeof text, "cpu:%d", places);
  tsr_runtime *among = among_open(devices), *alone = tsr_runtime_open(text);
  for (int k = 0; k < KINDS; k++)
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
      for (size_t c = 0; c < (full ? 7 : 6); c++)
        if (full || c < 3 || (c + d + (size_t)k) % 3 == 0)
          check_same(among, alone, (job){ (kind)k, dtypes[d], places, columns[c] * places, NULL });
  tsr_runtime_close(alone);
  tsr_runtime_close(among);
}
