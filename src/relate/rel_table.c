/* Tables of values: making them, looking at them slice by slice, putting results together.
 *
 * Invariant: all columns of a table have one layout, so what holds for the rows of its first
 * column holds for all. */
#include "relate/relate_inner.h"

tsr_status tsr__rel_new(tsr_runtime *rt, const tsr_sharding *sharding, int count, tsr__rel *out,
                        tsr__error *error)
{
  size_t size = (size_t)(count ? count : 1) * sizeof(tsr__rel_column);
  *out = (tsr__rel){ .rt = rt, .sharding = tsr__sharding_canon(sharding), .count = count };
  out->column = tsr__new(&rt->heap, size);
  if (out->column) return TSR_OK;
  *out = (tsr__rel){ 0 };
  return tsr__error_set(error, TSR_ENOMEM,
                        "no memory for the description of a table of %d columns; free some arrays",
                        count);
}

void tsr__rel_free(tsr__rel *rel)
{
  if (!rel->column) return;
  for (int c = 0; c < rel->count; c++) {
    tsr__value_release(rel->column[c].values);
    tsr__value_release(rel->column[c].valid);
  }
  tsr__del(&rel->rt->heap, rel->column,
           (size_t)(rel->count ? rel->count : 1) * sizeof *rel->column);
  *rel = (tsr__rel){ 0 };
}

/* The usual share of `total` rows that the part at a position of a sharding's dim 0 has. */
static int64_t usual_rows(const tsr_sharding *sharding, int64_t total, int position)
{
  return tsr__dim_span(sharding, 0, total, position).length;
}

/* ---- views ----------------------------------------------------------------------------------- */

/* Rows lie over some axes of the mesh; over the others they are repeated. With rows on y of a
 * mesh (x,y), positions of equal x are one slice, and x numbers the slices. All positions that
 * agree in y then have equal rows, in whichever slice they are.
 *
 * Which slice a position is of: its coordinates on the axes that rows do not lie over. */
static int slice_of(const tsr_sharding *sharding, int position)
{
  const tsr_mesh *mesh = sharding->mesh;
  unsigned used = tsr__dim_axes(sharding, 0);
  int64_t slice = 0;
  for (int a = 0; mesh && a < mesh->axis_count; a++)
    if (!(used >> a & 1)) slice = slice * mesh->sizes[a] + tsr__mesh_coord(mesh, position, a);
  return (int)slice;
}

/* The arrays of all slices, one after the other in one block. What a view holds lies in here, so
 * a view owns nothing and is freed with the block.
 *
 *    view[slice]      -> columns[slice][column] -> buffers[slice][column][values | valid][part]
 *                     -> rows[slice][part], device[slice][part], position[slice][part] */
typedef struct arrays {
  tsr__view *view;
  tsr__colparts *columns;
  tsr__buffer **buffers; /* [(slice * count + column) * 2 * parts], values then valid */
  int64_t *rows;
  int *device, *position;
  bool *here;
} arrays;

/* Called twice: without a block for its size, then with one to cut it up. So both always agree.
 * Lists of larger alignment stand first; nothing needs padding in between. */
static size_t lay_out(const tsr__views *views, void *block, arrays *out)
{
  size_t slices = (size_t)views->slices, all = slices * (size_t)views->parts;
  size_t columns = slices * (size_t)views->rel->count;
  size_t buffers = 2 * columns * (size_t)views->parts;
  char *at = block;
  if (block) {
    out->view = (void *)at;
    out->columns = (void *)(out->view + slices);
    out->buffers = (void *)(out->columns + columns);
    out->rows = (void *)(out->buffers + buffers);
    out->device = (void *)(out->rows + all);
    out->position = out->device + all;
    out->here = (void *)(out->position + all);
  }
  return slices * sizeof *out->view + columns * sizeof *out->columns +
         buffers * sizeof *out->buffers +
         all * (sizeof *out->rows + 2 * sizeof(int) + sizeof(bool));
}

/* Buffers are borrowed from the table's values: a view must not outlive it. Where a part is another
 * process's `none` stands for its buffers. */
static void view_position(const tsr__views *views, const arrays *a, int position)
{
  const tsr__rel *rel = views->rel;
  int parts = views->parts, slice = slice_of(&rel->sharding, position);
  int part = (int)tsr__dim_index(&rel->sharding, 0, position), at = slice * parts + part;
  a->position[at] = position;
  a->device[at] = tsr__home_device(rel->rt, &rel->sharding, position);
  a->here[at] = tsr__device_local(tsr__topology_of(rel->rt), a->device[at]);
  /* Right for a table without columns, which has no values to ask. */
  a->rows[at] = usual_rows(&rel->sharding, rel->total, position);
  for (int c = 0; c < rel->count; c++) {
    const tsr__rel_column *column = &rel->column[c];
    tsr__buffer **buffers = a->buffers + (size_t)(slice * rel->count + c) * 2 * (size_t)parts;
    tsr_box box;
    /* A filter may have left any number of rows here: the values know, and all columns agree. */
    tsr__value_box(column->values, position, &box);
    a->rows[at] = box.size[0];
    buffers[part] = column->values->parts[position];
    if (column->valid) buffers[parts + part] = column->valid->parts[position];
    if (views->none && !a->here[at]) {
      buffers[part] = views->none;
      if (column->valid) buffers[parts + part] = views->none;
    }
    a->columns[slice * rel->count + c] = (tsr__colparts){ (tsr_dtype)column->values->dtype, buffers,
                                                          column->valid ? buffers + parts : NULL };
  }
  if (views->none && !a->here[at]) a->rows[at] = 0;
}

/* Where nothing maps the memory of other processes (a pretended topology) their rows cannot be
 * had. */
static tsr_status check_reach(const tsr__rel *rel, tsr__error *error)
{
  for (int p = 0; rel->sharding.mesh && p < tsr__positions(&rel->sharding); p++)
    if (!tsr__device_local(tsr__topology_of(rel->rt), tsr__position_device(&rel->sharding, p)))
      return tsr__error_set(error, TSR_EUNSUPPORTED,
                            "rows cannot yet be moved between processes: device %d is another's; "
                            "use a mesh of this process's devices",
                            tsr__position_device(&rel->sharding, p));
  return TSR_OK;
}

static tsr_status make_views(const tsr__rel *rel, tsr__views *out, tsr__error *error)
{
  int positions = tsr__positions(&rel->sharding), parts = out->parts;
  arrays a = { 0 };
  out->size = lay_out(out, NULL, &a);
  void *block = tsr__new(&rel->rt->heap, out->size);
  if (!block)
    return tsr__error_set(error, TSR_ENOMEM,
                          "no memory for the description of a table of %d columns; free some "
                          "arrays",
                          rel->count);
  lay_out(out, block, &a);
  out->view = a.view;
  for (int p = 0; p < positions; p++) view_position(out, &a, p);
  for (int s = 0; s < out->slices; s++)
    out->view[s] = (tsr__view){ { parts, a.device + s * parts, a.rows + s * parts },
                                a.position + s * parts,
                                a.here + s * parts,
                                out->apart,
                                out->none,
                                a.columns + s * rel->count };
  return TSR_OK;
}

static tsr__views views_of(const tsr__rel *rel)
{
  int parts = (int)tsr__dim_parts(&rel->sharding, 0);
  return (tsr__views){ .rel = rel,
                       .parts = parts,
                       .slices = tsr__positions(&rel->sharding) / parts,
                       .apart = tsr__rel_apart(rel->rt, &rel->sharding),
                       .sight = { .rt = rel->rt } };
}

/* Every operator begins here. */
tsr_status tsr__views_new(const tsr__rel *rel, tsr__views *out, tsr__error *error)
{
  const tsr__devices *devices = tsr__devices_of(rel->rt);
  *out = views_of(rel);
  if (!out->apart && check_reach(rel, error)) return error->status;
  if (out->apart) {
    out->none = devices->ops->take(rel->rt, devices->first, 0, error);
    if (!out->none) return error->status;
  }
  return make_views(rel, out, error);
}

void tsr__views_free(tsr__views *views)
{
  if (views->view) tsr__del(&views->rel->rt->heap, views->view, views->size);
  tsr__buffer_release(views->none);
  tsr__rel_free(&views->seen);
  *views = (tsr__views){ 0 };
}

/* ---- all rows -------------------------------------------------------------------------------- */

/* The table with values that have all parts. */
static tsr_status see_columns(const tsr__rel *rel, tsr__views *out, tsr__error *error)
{
  size_t bytes = (2 * (size_t)rel->count + 1) * sizeof(tsr__value *);
  const tsr__value **values = tsr__new(&rel->rt->heap, bytes);
  if (!values)
    return tsr__error_set(error, TSR_ENOMEM, "no memory to read what other processes hold");
  for (int c = 0; c < rel->count; c++) {
    values[2 * c] = rel->column[c].values;
    values[2 * c + 1] = rel->column[c].valid;
  }
  tsr_status status = tsr__rel_new(rel->rt, &rel->sharding, rel->count, &out->seen, error);
  if (!status) status = tsr__see_pieces(rel->rt, values, 2 * rel->count, &out->sight, error);
  for (int c = 0; c < rel->count && !status; c++) {
    tsr__rel_column *column = &out->seen.column[c];
    *column = (tsr__rel_column){ (tsr__value *)values[2 * c], (tsr__value *)values[2 * c + 1] };
    tsr__value_hold(column->values);
    tsr__value_hold(column->valid);
  }
  out->seen.total = rel->total;
  tsr__del(&rel->rt->heap, values, bytes);
  return status;
}

tsr_status tsr__views_see(const tsr__rel *rel, tsr__views *out, tsr__error *error)
{
  *out = views_of(rel);
  if (!out->apart) return tsr__views_new(rel, out, error);
  tsr_status status = see_columns(rel, out, error);
  out->rel = status ? rel : &out->seen;
  if (status) return status;
  status = make_views(out->rel, out, error);
  return status ? tsr__unsee(&out->sight, status, error) : TSR_OK;
}

tsr_status tsr__views_close(tsr__views *views, tsr_status status, tsr__error *error)
{
  tsr__sight sight = views->sight;
  if (views->seen.column) status = tsr__unsee(&sight, status, error);
  tsr__views_free(views);
  return status;
}

void tsr__view_keys(const tsr__view *view, const tsr__rel_key *from, int count, tsr__key *keys,
                    tsr__colparts *columns)
{
  for (int k = 0; k < count; k++) {
    /* Ranges and bits of the key are not known yet: keys_range and keys_settle fill them in. */
    keys[k] = (tsr__key){ .descending = from[k].descending,
                          .nulls_first = from[k].nulls_first,
                          .map = from[k].map,
                          .map_count = from[k].map_count };
    columns[k] = view->columns[from[k].column];
  }
}

/* ---- drafts ---------------------------------------------------------------------------------- */

static size_t draft_size(int count, int positions)
{
  size_t cells = (size_t)count * (size_t)positions;
  return 2 * cells * sizeof(tsr__buffer *) + (size_t)positions * sizeof(int64_t) +
         (size_t)count * (sizeof(tsr_dtype) + sizeof(bool));
}

tsr_status tsr__draft_new(tsr_runtime *rt, const tsr_sharding *sharding, int count, tsr__draft *out,
                          tsr__error *error)
{
  int positions = tsr__positions(sharding);
  *out = (tsr__draft){ .rt = rt, .sharding = *sharding, .count = count, .positions = positions };
  out->values = tsr__new(&rt->heap, draft_size(count, positions));
  if (!out->values)
    return tsr__error_set(error, TSR_ENOMEM,
                          "no memory for the description of a table of %d columns; free some "
                          "arrays",
                          count);
  out->valid = out->values + (size_t)count * (size_t)positions;
  out->rows = (int64_t *)(out->valid + (size_t)count * (size_t)positions);
  out->dtype = (tsr_dtype *)(out->rows + positions);
  out->nulls = (bool *)(out->dtype + count);
  return TSR_OK;
}

/* The draft takes the references: callers clear their lists afterwards, or a failure would
 * release a buffer twice. Positions of other slices are left as they are. */
void tsr__draft_put(tsr__draft *draft, int column, const tsr__view *view,
                    tsr__buffer *const *values, tsr__buffer *const *valid)
{
  size_t at = (size_t)column * (size_t)draft->positions;
  for (int p = 0; p < view->parts.count; p++) {
    /* Of other processes' parts nothing was made. */
    if (!view->here[p]) {
      tsr__buffer_release(values[p]);
      tsr__buffer_release(valid ? valid[p] : NULL);
      continue;
    }
    draft->values[at + (size_t)view->position[p]] = values[p];
    draft->valid[at + (size_t)view->position[p]] = valid ? valid[p] : NULL;
  }
}

void tsr__drop_buffers(tsr__buffer **buffers, int64_t count)
{
  for (int64_t i = 0; i < count; i++) {
    tsr__buffer_release(buffers[i]);
    buffers[i] = NULL;
  }
}

void tsr__draft_free(tsr__draft *draft)
{
  if (!draft->values) return;
  tsr__drop_buffers(draft->values, 2 * (int64_t)draft->count * draft->positions);
  tsr__del(&draft->rt->heap, draft->values, draft_size(draft->count, draft->positions));
  *draft = (tsr__draft){ 0 };
}

/* A position without nulls among others that have some: its rows are all there. A column has
 * validity everywhere or nowhere, since it is one value. Whether there were nulls is found out
 * part by part, so parts may disagree until here. */
static tsr_status fill_valid(const tsr__draft *draft, tsr__buffer **valid, tsr__error *error)
{
  const tsr__device_ops *ops = tsr__devices_of(draft->rt)->ops;
  for (int p = 0; p < draft->positions; p++) {
    size_t bytes = tsr__device_bytes(TSR_BOOL, draft->rows[p]);
    int device = tsr__home_device(draft->rt, &draft->sharding, p);
    if (valid[p] || !tsr__device_local(tsr__topology_of(draft->rt), device)) continue;
    valid[p] = ops->take(draft->rt, device, bytes, error);
    if (!valid[p]) return error->status;
    ops->fill(valid[p], 0xFF);
  }
  return TSR_OK;
}

/* A value of one buffer a position, which it takes. */
static tsr__value *value_of(const tsr__draft *draft, const tsr__layout *layout,
                            tsr__buffer **buffers, tsr__error *error)
{
  tsr__value *value = tsr__value_frame(draft->rt, layout, error);
  if (!value) return NULL;
  memcpy(value->parts, buffers, (size_t)draft->positions * sizeof *buffers);
  /* The references went into the value; the draft must not release them as well. */
  memset(buffers, 0, (size_t)draft->positions * sizeof *buffers);
  return value;
}

static tsr_status finish_column(tsr__draft *draft, int c, tsr__layout *layout, tsr__rel_column *out,
                                tsr__error *error)
{
  size_t at = (size_t)c * (size_t)draft->positions;
  tsr__buffer **values = draft->values + at, **valid = draft->valid + at;
  if (draft->nulls[c]) {
    tsr_status status = fill_valid(draft, valid, error);
    if (status) return status;
    layout->dtype = TSR_BOOL;
    out->valid = value_of(draft, layout, valid, error);
    if (!out->valid) return error->status;
  }
  layout->dtype = draft->dtype[c];
  out->values = value_of(draft, layout, values, error);
  return out->values ? TSR_OK : error->status;
}

static void find_nulls(tsr__draft *draft)
{
  for (int c = 0; c < draft->count; c++)
    for (int p = 0; p < draft->positions; p++)
      if (draft->valid[(size_t)c * (size_t)draft->positions + (size_t)p]) draft->nulls[c] = true;
}

static tsr_status finish(tsr__draft *draft, tsr__rel *out, tsr__error *error)
{
  tsr__heap *heap = &draft->rt->heap;
  size_t size = (size_t)draft->positions * sizeof(int64_t);
  /* Where the rows of each part begin: counted along with all of them, and not needed here. */
  int64_t *before = tsr__new(heap, size);
  tsr_status status =
      before ? tsr__rel_new(draft->rt, &draft->sharding, draft->count, out, error)
             : tsr__error_set(error, TSR_ENOMEM, "no memory for the row counts of %d devices",
                              draft->positions);
  if (!status) {
    out->total = tsr__number_rows(&out->sharding, draft->positions, draft->rows, before);
    /* A table whose rows lie by the usual borders is not ragged, however it came to lie so: what
     * is computed of it later need not carry row counts along, and plans for it are found
     * again. */
    bool usual = true;
    for (int p = 0; p < draft->positions; p++)
      usual = usual && draft->rows[p] == usual_rows(&out->sharding, out->total, p);
    tsr_shape shape = { 1, { out->total } };
    tsr__layout layout = { TSR_BOOL, &shape, &out->sharding, usual ? NULL : draft->rows };
    for (int c = 0; c < draft->count && !status; c++)
      status = finish_column(draft, c, &layout, &out->column[c], error);
    if (status) tsr__rel_free(out);
  }
  tsr__del(heap, before, size);
  return status;
}

tsr_status tsr__draft_finish(tsr__draft *draft, tsr__rel *out, tsr__error *error)
{
  tsr_status status = TSR_OK;
  find_nulls(draft);
  if (tsr__rel_apart(draft->rt, &draft->sharding)) status = tsr__agree_draft(draft, error);
  if (!status) status = finish(draft, out, error);
  tsr__draft_free(draft);
  return status;
}

/* ---- need, and what was done ----------------------------------------------------------------- */

/* In bits, as bools and validity take one an element; callers divide once they have summed. */
int64_t tsr__row_bits(const tsr__colparts *column, int parts)
{
  int64_t bits = column->dtype == TSR_BOOL ? 1 : 8 * (int64_t)tsr_dtype_size(column->dtype);
  for (int p = 0; column->valid && p < parts; p++)
    if (column->valid[p]) return bits + 1;
  return bits;
}

int64_t tsr__view_bits(const tsr__view *view, int count)
{
  int64_t bits = 0;
  for (int c = 0; c < count; c++) bits += tsr__row_bits(&view->columns[c], view->parts.count);
  return bits;
}

/* Asked before anything is allocated. A device that is refused here leaves nothing half made, and
 * the message can name the whole need instead of the one block that did not fit. */
tsr_status tsr__need_check(const tsr__need *need, int device, int64_t bytes, tsr__error *error)
{
  /* Of a device of another process that one takes care. */
  if (!tsr__device_local(tsr__topology_of(need->rt), device)) return TSR_OK;
  tsr_memory memory = tsr__devices_of(need->rt)->ops->memory(need->rt, device);
  if (need->stats && bytes > need->stats->need) need->stats->need = bytes;
  if (tsr__memory_fits(&memory, bytes)) return TSR_OK;
  return tsr__error_set(error, TSR_ENOMEM,
                        "%s needs %lld more bytes on device %d, which holds %lld of the %lld that "
                        ".memory_limit allows; use more devices, fewer columns, or raise the limit",
                        need->what, (long long)bytes, device, (long long)memory.now,
                        (long long)memory.limit);
}

void tsr__stats_add(tsr__rel_stats *stats, const char *what, const tsr__moved *moved)
{
  if (!stats) return;
  int i = 0;
  while (i < stats->move_count && strcmp(stats->move[i].what, what) != 0) i++;
  /* Beyond the last place movements are added to the last: totals stay true, names do not. */
  if (i == TSR__REL_MOVES) i--;
  if (i == stats->move_count) stats->move[stats->move_count++] = (tsr__rel_move){ what, 0, 0 };
  stats->move[i].rows += moved->rows;
  stats->move[i].bytes += moved->bytes;
}
