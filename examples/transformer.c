/* A small decoder learns to write as this project's documents do, character by character.
 *
 *   transformer [STEPS]      default: $TESSERA_DEMO_STEPS, else 400
 *
 * demo/decoder.h has the decoder, its training step and its specs for eight devices: one axis of
 * the mesh shards windows of text, the other shards matrices. The program prints the collectives of
 * a step and their bytes. */
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tessera.h>

#include "demo/curve.h"
#include "demo/decoder.h"

enum {
  MOST_STEPS = 100000,
  STRIPE = 2048,
  HELD_OUT = 10,
  JUDGED = 128,
  WRITTEN = 240,
  MOST_TEXT = 1 << 22
};

/* ---- text ------------------------------------------------------------------------------------ */

/* The training text, and the held-out text: each tenth stripe. */
typedef struct corpus {
  int32_t *sign[2];
  int64_t count[2];
} corpus;

/* The number of a character: printable ASCII, a new line, or one number for all other bytes. */
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

/* ---- collectives ----------------------------------------------------------------------------- */

typedef struct moved {
  char what[64];
  int times;
  long long bytes;
} moved;

/* Prints the collectives of an explanation, one line per kind. */
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

/* Draws the next character. Arguments: model, the last characters [1, places], a key. */
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

/* ---- training -------------------------------------------------------------------------------- */

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The loss in bits per character of the held-out text, on evenly spaced windows. */
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

/* Returns the model after `steps` steps; `bits` gets the loss of each in bits per character. */
static tsr_array *train(tsr_scope *s, tsr_mesh *mesh, const corpus *text, int steps, double *bits)
{
  training t = { .mesh = mesh, .steps = steps };
  t.slope = tsr_value_and_grad(tsr_function_make(s, loss, .user = mesh, .name = "loss"));
  tsr_function *one = tsr_function_make(s, step, .user = &t, .name = "step");
  tsr_array *model = new_model(s, mesh), *state = tsr_tuple(s, model, tsr_adam_state(model));
  tsr_array *signs =
      tsr_put(s, text->sign[0], TSR_I32, TSR_SHAPE(text->count[0]), tsr_on(mesh, ""));
  tsr_scope *here = tsr_scope_open(s);
  for (int i = 0; i < steps && !tsr_scope_status(s); i++) {
    tsr_array *next = tsr_call(one, tsr_item(state, 0), tsr_item(state, 1), signs);
    if (i == 1) {
      puts("collectives of one step:\n");
      print_moves(tsr_explain(&next, 1));
      putchar('\n');
      fflush(stdout);
    }
    /* The next state may reuse the memory of this one. */
    if (tsr_donate(state)) break;
    tsr_scope *after = tsr_scope_open(s);
    next = tsr_tree_keep(after, next);
    tsr_scope_close(here), here = after;
    state = tsr_tuple(here, tsr_item(next, 0), tsr_item(next, 1));
    if (tsr_read_scalar(tsr_item(next, 2), &bits[i])) break;
    bits[i] /= log(2);
    bar_draw("learning", i + 1, steps, bits[i]);
  }
  model = tsr_tree_keep(s, tsr_item(state, 0));
  tsr_scope_close(here);
  return model;
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
  printf("%lld characters of training text, %lld held out\n\n", (long long)text.count[0],
         (long long)text.count[1]);
  tsr_array *model = train(s, mesh, &text, steps, bits);
  double seconds = now() - begin, found = judge(s, model, &text, mesh);
  printf("bits per character, by step:\n\n");
  curve_draw(bits, steps);
  printf(
      "\n%.2f bits per character of held-out text, after %d steps in %.0f s; the model writes:\n\n",
      found, steps, seconds);
  write_lines(s, model, text.sign[1], mesh);
  if (tsr_scope_status(s)) fprintf(stderr, "%s\n", tsr_message(s));
  bool good = !tsr_scope_status(s) && found < (steps < 400 ? 7 : 3);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  free(text.sign[0]), free(text.sign[1]);
  return good ? 0 : 1;
}
