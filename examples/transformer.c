/* A small decoder learns to write as this project's documents do, character by character.
 *
 *   transformer [STEPS]      default: $TESSERA_DEMO_STEPS, else 400
 *
 * Eight devices are a mesh of data=4,model=2. Windows of text are cut along "data"; along "model"
 * lie the heads of the attention and the inner columns of the layers, so that each device of a pair
 * has a half of every large matrix. That is all that is said: what follows from it is found,
 * counted and printed. */
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tessera.h>

#include "demo/curve.h"

enum {
  SIGNS = 97,
  WINDOW = 64,
  BATCH = 32,
  WIDTH = 128,
  HEADS = 4,
  BLOCKS = 2,
  MOST_STEPS = 100000
};
enum { STRIPE = 2048, HELD_OUT = 10, JUDGED = 128, WRITTEN = 240, MOST_TEXT = 1 << 22 };

/* ---- text ------------------------------------------------------------------------------------ */

/* What is learnt from, and what is not looked at before the end: each tenth stripe. */
typedef struct corpus {
  int32_t *sign[2];
  int64_t count[2];
} corpus;

/* A character as a number: the printable ones of ASCII, a new line, and one for all others. */
static int sign_of(int c)
{
  return c == '\n' ? 95 : c >= ' ' && c < 127 ? c - ' ' : 96;
}

static int char_of(int64_t sign)
{
  return sign == 95 ? '\n' : sign < 95 ? (int)sign + ' ' : '?';
}

static void read_file(const char *path, corpus *text)
{
  FILE *file = fopen(path, "rb");
  for (int c; file && (c = getc(file)) != EOF;) {
    int64_t at = text->count[0] + text->count[1];
    int held = at / STRIPE % HELD_OUT == HELD_OUT - 1;
    if ((c & 0xC0) == 0x80 || at >= MOST_TEXT) continue; /* the rest of a character */
    text->sign[held][text->count[held]++] = sign_of(c);
  }
  if (file) fclose(file);
}

static corpus read_documents(void)
{
  corpus text = { .count = { 0 } };
  glob_t found;
  for (int i = 0; i < 2; i++) text.sign[i] = calloc(MOST_TEXT, sizeof(int32_t));
  if (glob("docs/*.md", 0, NULL, &found) == 0)
    if (glob("docs/guide/*.md", GLOB_APPEND, NULL, &found) == 0)
      for (size_t i = 0; text.sign[0] && text.sign[1] && i < found.gl_pathc; i++)
        read_file(found.gl_pathv[i], &text);
  globfree(&found);
  return text;
}

/* ---- the decoder: plain functions of arrays -------------------------------------------------- */

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

typedef struct training {
  tsr_mesh *mesh;
  tsr_function *slope;
  int steps;
} training;

/* Of model, what the optimiser keeps, and the text: the next two, and the loss. */
static tsr_array *step(tsr_scope *s, tsr_array *const *in, void *user)
{
  const training *t = user;
  tsr_array *done = tsr_field(in[1], "step"), *key = tsr_random_fold_in(tsr_random_key(s, 5), done);
  int64_t room = tsr_shape_of(in[2]).dims[0] - WINDOW - 1;
  tsr_array *starts = tsr_randint(s, 0, room, .keys = key, .shape = TSR_SHAPE(BATCH));
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

/* ---- what moves ------------------------------------------------------------------------------ */

typedef struct moved {
  char what[64];
  int times;
  long long bytes;
} moved;

/* The collectives that an explanation names, those of a kind together. */
static void print_moves(const char *explained)
{
  moved all[32];
  int kinds = 0;
  for (const char *line = explained; line && *line; line = strchr(line, '\n')) {
    moved m = { .times = 1 };
    line += *line == '\n';
    if (sscanf(line, "%63[^:\n]: %lld bytes", m.what, &m.bytes) != 2 || *line == ' ') continue;
    int at = 0;
    while (at < kinds && strcmp(all[at].what, m.what) != 0) at++;
    if (at == 32) continue;
    if (at == kinds) all[kinds++] = m;
    else all[at].times++, all[at].bytes += m.bytes;
  }
  for (int i = 0; i < kinds; i++)
    printf("  %-44.44s %3d times %12lld bytes\n", all[i].what, all[i].times, all[i].bytes);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Of model, the last signs [1, places] and a key: what comes next, by chance. */
static tsr_array *write_one(tsr_scope *s, tsr_array *const *in, void *user)
{
  place at = { s, user };
  tsr_array *scores = scores_of(&at, in[0], in[1]);
  scores = tsr_reshape(tsr_slice(scores, TSR_ALL, { WINDOW - 1, WINDOW, 1 }), TSR_SHAPE(SIGNS));
  return tsr_categorical(tsr_div(scores, 0.7), 0, .keys = in[2]);
}

static void write_lines(tsr_scope *s, tsr_array *model, const int32_t *seed, tsr_mesh *mesh)
{
  int32_t last[WINDOW];
  tsr_function *one = tsr_function_make(s, write_one, .user = mesh, .name = "write");
  memcpy(last, seed, sizeof last);
  for (int i = 0; i < WRITTEN && !tsr_scope_status(s); i++) {
    int64_t sign = 0;
    tsr_scope *here = tsr_scope_open(s);
    tsr_array *signs = tsr_put(here, last, TSR_I32, TSR_SHAPE(1, WINDOW), tsr_on(mesh, ""));
    tsr_array *key = tsr_random_fold_in(tsr_random_key(here, 9), i);
    if (tsr_read_i64(tsr_call(one, model, signs, key), &sign))
      tsr_fail(s, tsr_scope_status(here), "%s", tsr_message(here));
    tsr_scope_close(here);
    putchar(char_of(sign));
    memmove(last, last + 1, sizeof last - sizeof *last);
    last[WINDOW - 1] = (int32_t)sign;
  }
  puts("\n");
}

/* ---- the whole ------------------------------------------------------------------------------- */

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Bits that a character of the text that was held out costs: of windows that lie evenly in it. */
static double judge(tsr_scope *s, tsr_array *model, const corpus *text, tsr_mesh *mesh)
{
  int64_t starts[JUDGED];
  double nats = NAN;
  int64_t room = text->count[1] - WINDOW - 1;
  for (int64_t i = 0; i < JUDGED; i++) starts[i] = room * i / JUDGED;
  tsr_sharding whole = tsr_on(mesh, "");
  tsr_array *at = tsr_put(s, starts, TSR_I64, TSR_SHAPE(JUDGED), whole);
  tsr_array *held = tsr_put(s, text->sign[1], TSR_I32, TSR_SHAPE(text->count[1]), whole);
  tsr_function *f = tsr_function_make(s, loss, .user = mesh, .name = "loss");
  if (tsr_read_scalar(tsr_call(f, model, windows_at(s, held, at, mesh)), &nats)) return NAN;
  return nats / log(2);
}

/* The model after so many steps; `bits` of each of them. */
static tsr_array *train(tsr_scope *s, tsr_mesh *mesh, const corpus *text, int steps, double *bits)
{
  training t = { .mesh = mesh, .steps = steps };
  t.slope = tsr_value_and_grad(tsr_function_make(s, loss, .user = mesh, .name = "loss"));
  tsr_function *one = tsr_function_make(s, step, .user = &t, .name = "step");
  tsr_array *model = new_model(s, mesh), *state = tsr_tuple(s, model, tsr_adam_state(model));
  tsr_array *signs =
      tsr_put(s, text->sign[0], TSR_I32, TSR_SHAPE(text->count[0]), tsr_on(mesh, ""));
  for (int i = 0; i < steps && !tsr_scope_status(s); i++) {
    tsr_scope *here = tsr_scope_open(s);
    tsr_array *next = tsr_call(one, tsr_item(state, 0), tsr_item(state, 1), signs), *leaves[128];
    int count = tsr_tree_leaves(next, leaves, 128);
    if (i == 1) {
      puts("what a step moves between the devices:\n");
      print_moves(tsr_explain(leaves, count));
      putchar('\n');
      fflush(stdout);
    }
    next = tsr_tree_keep(s, next);
    tsr_scope_close(here);
    count = i ? tsr_tree_leaves(state, leaves, 128) : 0;
    while (count > 0) tsr_delete(leaves[--count]);
    state = tsr_tuple(s, tsr_item(next, 0), tsr_item(next, 1));
    if (tsr_read_scalar(tsr_item(next, 2), &bits[i])) break;
    bits[i] /= log(2);
    bar_draw("learning", i + 1, steps, bits[i]);
  }
  return tsr_item(state, 0);
}

int main(int argc, char **argv)
{
  static double bits[MOST_STEPS];
  const char *asked = argc > 1 ? argv[1] : getenv("TESSERA_DEMO_STEPS");
  int steps = asked ? atoi(asked) : 400;
  corpus text = read_documents();
  if (steps < 2 || steps > MOST_STEPS || text.count[1] < 4 * STRIPE)
    return fprintf(stderr, "transformer [STEPS], in a folder that has docs/\n"), 2;
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=4,model=2");
  tsr_scope *s = tsr_scope_open(rt);
  double begin = now();
  printf("%lld characters to learn from, %lld held out\n\n", (long long)text.count[0],
         (long long)text.count[1]);
  tsr_array *model = train(s, mesh, &text, steps, bits);
  double seconds = now() - begin, found = judge(s, model, &text, mesh);
  printf("bits a character, by step:\n\n");
  curve_draw(bits, steps);
  printf("\n%.2f bits a character of what was held out, after %d steps in %.0f s; it writes:\n\n",
         found, steps, seconds);
  write_lines(s, model, text.sign[1], mesh);
  if (tsr_scope_status(s)) fprintf(stderr, "%s\n", tsr_message(s));
  bool good = !tsr_scope_status(s) && found < (steps < 400 ? 7 : 3);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  free(text.sign[0]), free(text.sign[1]);
  return good ? 0 : 1;
}
