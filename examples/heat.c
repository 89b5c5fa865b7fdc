/* The heat equation on a plate whose border keeps its temperature, written three ways: by rolls, by
 * slices and pads, and by device, with halos. All ways give the same bits on 1, 4 and 8 devices. */
#include <stdio.h>
#include <string.h>

#include <tessera.h>

enum { N = 64, STEPS = 200, MOST = 8 };

/* The temperature after one step, from the sum of the four neighbours. */
static tsr_array *warmed(tsr_array *u, tsr_array *up, tsr_array *down, tsr_array *left,
                         tsr_array *right)
{
  tsr_array *around = tsr_add(tsr_add(up, down), tsr_add(left, right));
  return tsr_add(u, tsr_mul(tsr_sub(around, tsr_mul(u, 4)), 0.2));
}

/* in[1] is the plate, in[2] is true inside it. Rolls wrap around: the border is put back. */
static tsr_array *by_rolls(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *u = in[1];
  tsr_array *next =
      warmed(u, tsr_roll(u, 1, 0), tsr_roll(u, -1, 0), tsr_roll(u, 1, 1), tsr_roll(u, -1, 1));
  return tsr_where(in[2], next, u);
}

/* Slices shift the inside by one element in each direction. The border is put back. */
static tsr_array *by_slices(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *u = in[1];
  tsr_range low = TSR_RANGE(0, -2), mid = TSR_RANGE(1, -1), high = TSR_RANGE(2, TSR_END);
  tsr_array *next = warmed(tsr_slice(u, mid, mid), tsr_slice(u, low, mid), tsr_slice(u, high, mid),
                           tsr_slice(u, mid, low), tsr_slice(u, mid, high));
  return tsr_where(in[2], tsr_pad(next, .low = { 1, 1 }, .high = { 1, 1 }), u);
}

/* The edge that the device `step` before this one sends. Edges go around a ring, as in a roll. */
static tsr_array *halo(tsr_scope *s, tsr_array *edge, const char *axis, int step)
{
  tsr_pair pairs[MOST];
  int size = (int)tsr_axis_size(s, axis);
  for (int from = 0; from < size; from++)
    pairs[from] = (tsr_pair){ from, (from + size + step) % size };
  return tsr_ppermute_at(&(tsr_permute_args){ .size = sizeof(tsr_permute_args),
                                              .x = edge,
                                              .axis = axis,
                                              .pairs = pairs,
                                              .count = size },
                         TSR_HERE);
}

static tsr_array *joined(int dim, tsr_array *a, tsr_array *b)
{
  return tsr_concat((tsr_array *[]){ a, b }, 2, dim);
}

/* u is the shard of one device; halos are the neighbours that other devices hold. */
static tsr_array *shard_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *u = in[1];
  tsr_range first = TSR_RANGE(0, 1), last = TSR_RANGE(-1, TSR_END);
  tsr_range but_first = TSR_RANGE(1, TSR_END), but_last = TSR_RANGE(0, -1);
  tsr_array *up = joined(0, halo(s, tsr_slice(u, last), "x", 1), tsr_slice(u, but_last));
  tsr_array *down = joined(0, tsr_slice(u, but_first), halo(s, tsr_slice(u, first), "x", -1));
  tsr_array *left =
      joined(1, halo(s, tsr_slice(u, TSR_ALL, last), "y", 1), tsr_slice(u, TSR_ALL, but_last));
  tsr_array *right =
      joined(1, tsr_slice(u, TSR_ALL, but_first), halo(s, tsr_slice(u, TSR_ALL, first), "y", -1));
  return tsr_where(in[2], warmed(u, up, down, left, right), u);
}

/* All steps run on each device; only halos travel. */
static tsr_array *by_halos(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_fori(0, STEPS, shard_step, NULL, in[0], .with = in[1]);
}

static tsr_array *plate_after(int way, const tsr_mesh *mesh, tsr_array *u, tsr_array *inside)
{
  if (way == 0) return tsr_fori(0, STEPS, by_rolls, NULL, u, .with = inside);
  if (way == 1) return tsr_fori(0, STEPS, by_slices, NULL, u, .with = inside);
  return tsr_shard_map(mesh, by_halos, NULL, .in = { u, inside }, .in_specs = { "x,y", "x,y" },
                       .out_specs = { "x,y" });
}

/* Runs one way on one mesh: the plate at the end, the bytes that travelled. */
static tsr_status run(const char *devices, const char *text, int way, float *plate, int64_t *bytes)
{
  tsr_runtime *rt = tsr_runtime_open(devices);
  tsr_mesh *mesh = tsr_mesh_make(rt, text);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding on = tsr_on(mesh, "x,y");
  float start[N][N] = { { 0 } };
  for (int i = 0; i < N; i++) start[0][i] = 100; /* one hot border */
  tsr_array *ones = tsr_full(s, true, TSR_BOOL, TSR_SHAPE(N - 2, N - 2), (tsr_sharding){ 0 });
  tsr_array *inside = tsr_reshard(tsr_pad(ones, .low = { 1, 1 }, .high = { 1, 1 }), on);
  tsr_array *u = plate_after(way, mesh, tsr_put(s, start, TSR_F32, TSR_SHAPE(N, N), on), inside);
  tsr_status status = tsr_read(u, plate, sizeof start);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  *bytes = tsr_last_run(s).bytes_counted;
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status;
}

int main(void)
{
  static const char *const ways[] = { "rolls", "slices", "halos" };
  static const char *const meshes[][2] = { { "cpu:1", "x=1,y=1" },
                                           { "cpu:4", "x=2,y=2" },
                                           { "cpu:8", "x=4,y=2" } };
  static float plate[N * N], first[N * N];
  printf("way     mesh     centre      bytes per step\n");
  for (int way = 0; way < 3; way++)
    for (int m = 0; m < 3; m++) {
      int64_t bytes = 0;
      if (run(meshes[m][0], meshes[m][1], way, plate, &bytes)) return 1;
      if (!way && !m) memcpy(first, plate, sizeof first);
      printf("%-7s %s  %.8f  %6lld\n", ways[way], meshes[m][1], (double)plate[N * N / 2 + N / 2],
             (long long)bytes / STEPS);
      if (memcmp(first, plate, sizeof first)) {
        fprintf(stderr, "%s on %s has other bits\n", ways[way], meshes[m][1]);
        return 1;
      }
    }
  printf("the same bits in all nine runs\n");
  return 0;
}
