/* Drawings of shardings: which devices hold which shard of an array. Options and shardings are
 * checked here, draw_text.c and draw_svg.c draw, drawing.c has the cells, labels and sizes for
 * both. */
#include <stdlib.h>

#include "topology/drawing.h"

/* More than these nobody reads, and time and text grow with them. */
enum { MOST_POSITIONS = 1 << 14, MOST_WIDTH = 10000 };

/* ---- devices by cell ---------------------------------------------------------------------- */

static int by_cell(const void *a, const void *b)
{
  const tsr__seat *x = a, *y = b;
  if (x->cell != y->cell) return x->cell < y->cell ? -1 : 1;
  return (x->device > y->device) - (x->device < y->device);
}

static int64_t parts_of(const tsr__drawing *d, int dim)
{
  return dim < 0 ? 1 : tsr__dim_parts(d->sharding, dim);
}

/* The cell of a position: its place among the shards of all dims, row-major. */
static int64_t cell_of(const tsr__drawing *d, int position)
{
  int64_t cell = 0;
  /* Cells count in the order of drawing: leads, then rows, then columns. */
  for (int dim = 0; d->sharding->mesh && dim < d->shape->rank; dim++)
    cell = cell * tsr__dim_parts(d->sharding, dim) + tsr__dim_index(d->sharding, dim, position);
  return cell;
}

/* Devices of a cell are in order, which labels keep. */
static void fill_seats(tsr__drawing *d, int count)
{
  for (int p = 0; p < count; p++)
    d->seats[p] = (tsr__seat){ cell_of(d, p), tsr__position_device(d->sharding, p), p };
  qsort(d->seats, (size_t)count, sizeof *d->seats, by_cell);
}

/* ---- the calls --------------------------------------------------------------------------- */

static tsr_status check_opts(const tsr_draw_opts *opts, tsr__error *error)
{
  /* Written so that NaN fails, too. */
  if (!(opts->scale >= 0 && opts->scale <= 100)) {
    char scale[32];
    tsr__text_f64(scale, opts->scale);
    return tsr__error_set(error, TSR_EARG, ".scale is %s, expected 0 (the default, 1) to 100",
                          scale);
  }
  /* All three within the same bounds. */
  int least = opts->width < opts->min_width ? opts->width : opts->min_width;
  int most = opts->width > opts->min_width ? opts->width : opts->min_width;
  if (opts->max_width < least) least = opts->max_width;
  if (opts->max_width > most) most = opts->max_width;
  if (least >= 0 && most <= MOST_WIDTH) return TSR_OK;
  return tsr__error_set(error, TSR_EARG, ".width is %d characters, expected 0 (the default) to %d",
                        least < 0 ? least : most, (int)MOST_WIDTH);
}

static void default_opts(tsr_draw_opts *opts)
{
  if (opts->scale == 0) opts->scale = 1;
  if (!opts->min_width) opts->min_width = 9;
  if (!opts->max_width) opts->max_width = 80;
  if (!opts->width) opts->width = 80;
}

/* What is drawn must have parts to draw, and not too many of them. */
static tsr_status check_drawn(const tsr_scope *scope, const tsr_sharding *sharding,
                              const tsr_shape *shape, tsr__error *error)
{
  if (tsr__shape_check(shape, error) || tsr__sharding_check_form(sharding, shape, error))
    return error->status;
  if (sharding->mesh && sharding->mesh->rt != scope->rt)
    return tsr__error_set(
        error, TSR_EAXIS,
        "the mesh %s belongs to another runtime; make the mesh with the runtime of the scope",
        tsr_mesh_text(sharding->mesh));
  if (tsr__positions(sharding) <= MOST_POSITIONS) return TSR_OK;
  return tsr__error_set(
      error, TSR_EARG,
      "mesh %s has %d devices, expected at most %d for a drawing; draw a smaller mesh",
      tsr_mesh_text(sharding->mesh), tsr__positions(sharding), (int)MOST_POSITIONS);
}

/* Tells whether there was memory. */
static bool draw(tsr__drawing *d, tsr__heap *heap)
{
  int rank = d->shape->rank, count = tsr__positions(d->sharding);
  d->columns = (int)parts_of(d, rank - 1);
  d->rows = (int)parts_of(d, rank - 2);
  d->leads = 1;
  for (int dim = 0; dim < rank - 2; dim++) d->leads *= parts_of(d, dim);
  size_t seats = (size_t)count * sizeof *d->seats;
  size_t tracks = (size_t)(d->rows + d->columns) * sizeof *d->row;
  /* The label is a text of its own, freed only where it was begun. */
  d->seats = tsr__new(heap, seats);
  d->row = tsr__new(heap, tracks);
  if (d->seats && d->row) {
    d->column = d->row + d->rows;
    tsr__text_init(&d->label, heap);
    fill_seats(d, count);
    if (d->opts.svg) tsr__draw_svg(d);
    else tsr__draw_text(d);
    tsr__text_free(&d->label);
  }
  bool whole = d->seats && d->row && !d->label.failed && !d->out->failed;
  if (d->seats) tsr__del(heap, d->seats, seats);
  if (d->row) tsr__del(heap, d->row, tracks);
  return whole;
}

/* A checked sharding as text in a scope's arena; NULL out of memory. */
static const char *drawn(tsr_scope *scope, tsr__drawing *d, const tsr_sharding *sharding)
{
  tsr__text text;
  /* Axes of size 1 cut nothing, and would only make cells' numbers longer. */
  tsr_sharding canon = tsr__sharding_canon(sharding);
  const char *out = NULL;

  tsr__text_init(&text, &scope->rt->heap);
  default_opts(&d->opts);
  d->topology = tsr__topology_of(scope->rt);
  d->out = &text;
  d->sharding = &canon;
  d->labelled = -1;
  if (draw(d, &scope->rt->heap))
    out = tsr__arena_text(&scope->arena, tsr__text_get(&text), text.length);
  tsr__text_free(&text);
  return out;
}

const char *tsr_visualize_sharding_with(tsr_scope *scope, tsr_sharding sharding, tsr_shape shape,
                                        const tsr_draw_opts *opts, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  tsr__drawing d = { .shape = &shape, .opts = { .size = sizeof d.opts } };

  if (!scope || scope->inert || scope->rt->error.status) return tsr_message(scope);
  if (opts) tsr__take_opts("tsr_visualize_sharding", opts, &d.opts, sizeof d.opts, &error);
  if (!error.status && !check_opts(&d.opts, &error)) check_drawn(scope, &sharding, &shape, &error);
  const char *text = error.status ? NULL : drawn(scope, &d, &sharding);
  if (text) return text;
  tsr__error_set(&error, TSR_ENOMEM, "no memory for a drawing");
  tsr__fail(scope, site, error.status, "tsr_visualize_sharding: %s", error.text);
  return tsr_message(scope);
}
