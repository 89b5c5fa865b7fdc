/* tessera shard: who holds which part of an array, drawn without one. */
#include <stdio.h>
#include <string.h>

#include "tool.h"

/* Bytes that a shape takes on a device, where bools are one bit an element. */
static double bytes_of(tsr_dtype dtype, const tsr_shape *shape)
{
  double count = 1;
  for (int d = 0; d < shape->rank; d++) count *= (double)shape->dims[d];
  if (dtype != TSR_BOOL) return count * (double)tsr_dtype_size(dtype);
  /* Above 2^53 eighths of a byte are below a double's precision. */
  return count < 0x1p53 ? (double)(((int64_t)count + 7) / 8) : count / 8;
}

/* "4 MiB", "96 bytes". */
static void print_bytes(double bytes)
{
  static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
  int unit = 0;
  /* Sizes of arrays nobody can hold are drawn as well: exabytes are the last unit. */
  for (; bytes >= 1024 && unit < 6; unit++) bytes /= 1024;
  printf("%.4g %s", bytes, unit == 0 && bytes == 1 ? "byte" : units[unit]);
}

static void print_line(const char *what, tsr_dtype dtype, const tsr_shape *shape)
{
  char text[256];
  tsr_type_text(dtype, *shape, NULL, text, sizeof text);
  printf("%s %s, ", what, text);
  print_bytes(bytes_of(dtype, shape));
}

static bool same_shape(const tsr_shape *a, const tsr_shape *b)
{
  return memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

/* The least part: that of the last position, which holds the end of every dim. */
static tsr_shape least_part(const tsr_type *type, int devices)
{
  tsr_shape shape = type->shape;
  tsr_box box;
  /* A spec that fits no array: the text before said so already. */
  if (tsr_shard_box(&type->on, shape, devices - 1, &box)) return shape;
  memcpy(shape.dims, box.size, sizeof shape.dims);
  return shape;
}

static void print_sizes(const tsr_type *type)
{
  int devices = tsr_mesh_device_count(type->on.mesh);
  tsr_shape most = type->shape, least = least_part(type, devices);
  if (tsr_shard_shape(&type->on, type->shape, &most)) return;
  bool even = same_shape(&most, &least);
  print_line(even ? "each of the devices:" : "the first device:", type->dtype, &most);
  if (!even) print_line("; the last:", type->dtype, &least);
  print_line("\nthe array:", type->dtype, &type->shape);
  /* Devices with one part each have copies where an axis is in no dim. */
  int copies = 1;
  for (int p = 0; p < devices; p++) {
    int replica = tsr_shard_replica(&type->on, p);
    if (replica >= copies) copies = replica + 1;
  }
  if (copies > 1) printf(", %d copies of it", copies);
  printf(" on %d device%s\n", devices, devices == 1 ? "" : "s");
}

/* A picture does not depend on the terminal, and no lines follow it. */
static int draw(tsr_scope *s, const tsr_type *type, const tool_args *args)
{
  tsr_draw_opts opts = { .size = sizeof opts, .svg = args->count[OPT_SVG] > 0 };
  if (!opts.svg) opts.colour = tool_wants_colour(stdout), opts.width = tool_terminal_width(stdout);
  if (args->width >= 0) opts.width = (int)args->width;
  const char *text = tsr_visualize_sharding_with(s, type->on, type->shape, &opts, TSR_HERE);
  if (tsr_scope_status(s)) return tool_fail(s);
  fputs(text, stdout);
  if (!opts.svg) print_sizes(type);
  return TOOL_OK;
}

int tool_shard(const tool_args *args)
{
  tsr_runtime *rt = tool_open(args);
  if (!rt) return TOOL_FAILED;
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_abstract(rt, args->files[1]);
  tsr_type type;
  int code = TOOL_FAILED;
  if (tsr_mesh_status(mesh)) fprintf(stderr, "tessera: %s\n", tsr_mesh_message(mesh));
  else if (tsr_type_parse(s, mesh, args->files[0], &type)) tool_fail(s);
  else code = draw(s, &type, args);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return code;
}
