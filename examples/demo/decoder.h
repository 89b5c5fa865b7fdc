/* A small decoder over a mesh of data=4,model=2, as plain functions of arrays, and its step of
 * training.
 *
 * Windows of text are cut along "data"; along "model" lie the heads of the attention and the inner
 * columns of the layers, so that each device of a pair has a half of every large matrix. That is
 * all that is said of where things lie. */
#ifndef EXAMPLES_DECODER_H
#define EXAMPLES_DECODER_H

#include <math.h>

#include <tessera.h>

enum { SIGNS = 97, WINDOW = 64, BATCH = 32, WIDTH = 128, HEADS = 4, BLOCKS = 2 };

/* ---- the decoder ----------------------------------------------------------------------------- */

/* Where nodes are made, and what they lie on. */
typedef struct place {
  tsr_scope *s;
  tsr_mesh *mesh;
} place;

/* Between blocks each device has its rows, whole; within them its half of the columns, too. */
static tsr_array *rows_cut(const place *at, tsr_array *x)
{
  return tsr_constrain(x, tsr_on(at->mesh, "data"));
}

static tsr_array *halves(const place *at, tsr_array *x)
{
  return tsr_constrain(x, tsr_on(at->mesh, "data,-,model"));
}

static tsr_array *norm(tsr_array *x, tsr_array *p)
{
  int last = -1;
  tsr_dims dims = tsr_dims_of(&last, 1);
  tsr_array *mean = tsr_mean(x, .dims = dims, .keep_dims = true);
  tsr_array *var = tsr_var(x, .dims = dims, .keep_dims = true);
  x = tsr_div(tsr_sub(x, mean), tsr_sqrt(tsr_add(var, 1e-5)));
  return tsr_add(tsr_mul(x, tsr_field(p, "scale")), tsr_field(p, "shift"));
}

/* [rows, places, width] as [rows, heads, places, width of a head]. */
static tsr_array *heads_of(tsr_array *x)
{
  tsr_shape n = tsr_shape_of(x);
  x = tsr_reshape(x, TSR_SHAPE(n.dims[0], n.dims[1], HEADS, WIDTH / HEADS));
  return tsr_swapaxes(x, 1, 2);
}

/* Each place looks at those before it and itself. */
static tsr_array *attention(const place *at, tsr_array *p, tsr_array *x)
{
  tsr_shape n = tsr_shape_of(x);
  tsr_array *q = heads_of(halves(at, tsr_matmul(x, tsr_field(p, "query"))));
  tsr_array *k = heads_of(halves(at, tsr_matmul(x, tsr_field(p, "key"))));
  tsr_array *v = heads_of(halves(at, tsr_matmul(x, tsr_field(p, "value"))));
  tsr_array *scores = tsr_mul(tsr_matmul(q, tsr_swapaxes(k, 2, 3)), 1 / sqrt(WIDTH / HEADS));
  tsr_shape square = TSR_SHAPE(n.dims[1], n.dims[1]);
  tsr_sharding free_place = { 0 };
  tsr_array *row = tsr_iota(at->s, TSR_I32, square, 0, free_place);
  tsr_array *column = tsr_iota(at->s, TSR_I32, square, 1, free_place);
  scores = tsr_where(tsr_le(column, row), scores, -1e9);
  tsr_array *seen = tsr_swapaxes(tsr_matmul(tsr_softmax(scores, 3), v), 1, 2);
  return tsr_matmul(halves(at, tsr_reshape(seen, n)), tsr_field(p, "out"));
}

static tsr_array *block(const place *at, tsr_array *p, tsr_array *x)
{
  x = rows_cut(at, tsr_add(x, attention(at, p, norm(x, tsr_field(p, "before")))));
  tsr_array *inner = tsr_matmul(norm(x, tsr_field(p, "between")), tsr_field(p, "up"));
  inner = tsr_gelu(halves(at, inner));
  return rows_cut(at, tsr_add(x, tsr_matmul(inner, tsr_field(p, "down"))));
}

/* Of signs [rows, places]: scores [rows, places, signs] of what comes next. */
static tsr_array *scores_of(const place *at, tsr_array *model, tsr_array *signs)
{
  tsr_array *x = tsr_take(tsr_field(model, "signs"), signs, 0);
  x = rows_cut(at, tsr_add(x, tsr_field(model, "places")));
  tsr_array *blocks = tsr_field(model, "blocks");
  for (int i = 0; i < BLOCKS; i++) x = block(at, tsr_item(blocks, i), x);
  return tsr_matmul(norm(x, tsr_field(model, "last")), tsr_field(model, "next"));
}

/* Of model and windows [rows, places + 1]: the mean of what the next signs cost. */
static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  place at = { s, user };
  tsr_array *before = tsr_slice(in[1], TSR_ALL, { 0, WINDOW, 1 });
  tsr_array *after = tsr_slice(in[1], TSR_ALL, { 1, WINDOW + 1, 1 });
  return tsr_mean(tsr_cross_entropy(scores_of(&at, in[0], before), after));
}

/* Windows of a text that begin at `starts`, cut over "data". */
static tsr_array *windows_at(tsr_scope *s, tsr_array *text, tsr_array *starts, tsr_mesh *mesh)
{
  int64_t rows = tsr_shape_of(starts).dims[0];
  tsr_array *column = tsr_iota(s, TSR_I64, TSR_SHAPE(rows, WINDOW + 1), 1, tsr_on(mesh, "data"));
  return tsr_take(text, tsr_add(tsr_reshape(starts, TSR_SHAPE(rows, 1)), column), 0);
}

/* ---- a step of training ---------------------------------------------------------------------- */

typedef struct training {
  tsr_mesh *mesh;
  tsr_function *slope;
  int steps;
} training;

/* Where the windows of a step lie in a text, by chance. */
static tsr_array *starts_of(tsr_scope *s, tsr_array *step, tsr_array *text)
{
  tsr_array *key = tsr_random_fold_in(tsr_random_key(s, 5), step);
  int64_t room = tsr_shape_of(text).dims[0] - WINDOW - 1;
  return tsr_randint(s, 0, room, .keys = key, .shape = TSR_SHAPE(BATCH));
}

/* Of model, what the optimiser keeps, and the text: the next two, and the loss. */
static tsr_array *step(tsr_scope *s, tsr_array *const *in, void *user)
{
  const training *t = user;
  tsr_array *done = tsr_field(in[1], "step"), *starts = starts_of(s, done, in[2]);
  tsr_array *both = tsr_call(t->slope, in[0], windows_at(s, in[2], starts, t->mesh));
  tsr_array *rate = tsr_schedule(done, TSR_SCHEDULE_COSINE, .rate = 4e-3, .warmup = 20,
                                 .steps = t->steps + 20, .end = 4e-4);
  tsr_array *slope = tsr_clip_norm(tsr_item(both, 1), 1);
  tsr_array *next = tsr_adam(in[0], slope, in[1], .rate = TSR_OPERAND(rate), .decay = 0.01);
  return tsr_tuple(s, tsr_item(next, 0), tsr_item(next, 1), tsr_item(both, 0));
}

/* ---- first values ---------------------------------------------------------------------------- */

static tsr_array *matrix(tsr_scope *s, uint64_t key, int64_t rows, int64_t columns, tsr_sharding on)
{
  return tsr_initial(s, TSR_GLOROT, TSR_INITIAL_TRUNCATED, .key = key,
                     .shape = TSR_SHAPE(rows, columns), .dtype = TSR_F32, .on = on);
}

static tsr_array *new_norm(tsr_scope *s, tsr_mesh *mesh)
{
  tsr_sharding whole = tsr_on(mesh, "");
  return tsr_tree(s, { "scale", tsr_full(s, 1, TSR_F32, TSR_SHAPE(WIDTH), whole) },
                  { "shift", tsr_full(s, 0, TSR_F32, TSR_SHAPE(WIDTH), whole) });
}

static tsr_array *new_block(tsr_scope *s, uint64_t key, tsr_mesh *mesh)
{
  tsr_sharding columns = tsr_on(mesh, "-,model"), rows = tsr_on(mesh, "model");
  return tsr_tree(s, { "before", new_norm(s, mesh) },
                  { "query", matrix(s, key, WIDTH, WIDTH, columns) },
                  { "key", matrix(s, key + 1, WIDTH, WIDTH, columns) },
                  { "value", matrix(s, key + 2, WIDTH, WIDTH, columns) },
                  { "out", matrix(s, key + 3, WIDTH, WIDTH, rows) },
                  { "between", new_norm(s, mesh) },
                  { "up", matrix(s, key + 4, WIDTH, 4 * WIDTH, columns) },
                  { "down", matrix(s, key + 5, 4 * WIDTH, WIDTH, rows) });
}

static tsr_array *new_model(tsr_scope *s, tsr_mesh *mesh)
{
  tsr_sharding whole = tsr_on(mesh, "");
  tsr_array *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) blocks[i] = new_block(s, 10 * (uint64_t)(i + 1), mesh);
  return tsr_tree(s, { "signs", matrix(s, 1, SIGNS, WIDTH, whole) },
                  { "places", matrix(s, 2, WINDOW, WIDTH, whole) },
                  { "blocks", tsr_tuple_at(s, blocks, BLOCKS, TSR_HERE) },
                  { "last", new_norm(s, mesh) }, { "next", matrix(s, 3, WIDTH, SIGNS, whole) });
}

#endif
