/* No failure without a message. Every public call is made as tests/every_call.py finds it in the
 * headers: of nothing, of objects one of which is NULL, and of objects one of which is inert, of
 * the same scope and of one around it. Where it gives a failing status or an inert result, the
 * scopes where users look have a message: the call's own, or the one that told why the object is
 * inert. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "tessera.h"

#include "checkpoint/checkpoint_room.h"
#include "frame/chain/chain.h"
#include "pipeline/pipeline_room.h"
#include "transform/transform.h"

/* ---- what calls are made of ------------------------------------------------------------------ */

struct objects {
  tsr_array *array;
  tsr_frame *frame;
  tsr_source *source;
  tsr_function *function;
  tsr_pipeline *pipeline;
  tsr_batch *batch;
  tsr_table *table;
  tsr_row *row;
  tsr_mesh *mesh;
  tsr_scope *scope;
  tsr_runtime *runtime;
  tsr_saved_step *saved_step;
  tsr_npz *npz;
  tsr_compiled *compiled;
};

/* What it makes one call of, and what came of it. */
struct world {
  struct objects good, bad; /* `bad` stands for the operand of the number `at` */
  int at;
  bool bare; /* lists and structs of arguments are NULL, too */
  const char *text;
  tsr_body_fn *body;
  void *place;        /* for results; in a call of nothing NULL */
  void *arrays;       /* for several */
  const char *picked; /* what `bad` stood for */
  bool failed;
  const char *said; /* by what it gave, which has a message of its own; NULL: others have none */
};

enum sees {
  SEES_STATUS,
  SEES_ARRAY,
  SEES_FRAME,
  SEES_SOURCE,
  SEES_FUNCTION,
  SEES_PIPELINE,
  SEES_BATCH,
  SEES_TABLE,
  SEES_ROW,
  SEES_SAVED_STEP,
  SEES_NPZ,
  SEES_COMPILED,
  SEES_PLACE,
  SEES_MESH, /* from here on it may be nothing, and need not fail */
  SEES_SCOPE,
  SEES_RUNTIME,
  SEES_VALUE,  /* by itself, or what is there: it cannot fail */
  SEES_NOTHING /* nothing comes of it */
};

struct row {
  const char *name;
  void (*call)(struct world *w);
  int objects; /* in its operands */
  bool needs;  /* one of them at least */
  enum sees sees;
};

static bool is_bad(struct world *w, int number, const char *name)
{
  if (w->at == number) w->picked = name;
  return w->at == number;
}

#define PICK(number, name) (is_bad(w, (number), #name) ? w->bad.name : w->good.name)
#define LIST(type, value) (w->bare ? NULL : (type[]){ value })
#define ARGS(...) (w->bare ? NULL : &__VA_ARGS__)

#define SEE_STATUS(result) w->failed = (result) != TSR_OK
#define SEE_ARRAY(result) w->failed = tsr_is_inert(result)
#define SEE_PLACE(call) \
  call;                 \
  w->failed = tsr_is_inert(*(tsr_array **)w->arrays)
#define SEE_FRAME(result) w->failed = tsr_frame_is_inert(result)
#define SEE_SOURCE(result) w->failed = (result)->inert
#define SEE_PIPELINE(result) w->failed = (result)->inert
#define SEE_SAVED_STEP(result) w->failed = (result)->inert
#define SEE_FUNCTION(result) w->failed = is_inert(result)
#define SEE_BATCH(result) w->failed = !(result)
#define SEE_TABLE(result) w->failed = !(result)
#define SEE_NPZ(result) w->failed = !tsr_npz_count(result)
#define SEE_COMPILED(result) w->failed = !tsr_compiled_figures(result).result_bytes
#define SEE_ROW(result) w->failed = tsr_row_status(result) != TSR_OK
/* These say themselves what is wrong with them. */
#define SEE_OWN_(type, result, what)                \
  const type *found_ = (result);                    \
  w->failed = tsr_##what##status(found_) != TSR_OK; \
  w->said = w->failed ? tsr_##what##message(found_) : ""
#define SEE_MESH(result) SEE_OWN_(tsr_mesh, result, mesh_)
#define SEE_RUNTIME(result) SEE_OWN_(tsr_runtime, result, runtime_)
#define tsr_scope_message tsr_message
#define SEE_SCOPE(result) SEE_OWN_(tsr_scope, result, scope_)
#define SEE_VALUE(result) (void)(result)
#define SEE_NOTHING(call) call

static bool is_inert(const tsr_function *f)
{
  return !f || f->inert;
}

#include "every_call.inc"

enum { ROWS = sizeof rows / sizeof *rows };

static tsr_array *same(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return in[0];
}

static void make_good(struct objects *o, tsr_runtime *rt, tsr_scope *s)
{
  *o = (struct objects){ .runtime = rt, .scope = s, .mesh = tsr_mesh_default(rt, "data") };
  o->array = tsr_arange(s, .stop = 4);
  o->frame = tsr_frame_new(s, { "x", o->array });
  o->row = tsr_frame_row(tsr_frame_head(o->frame, 1));
  CHECK_STATUS(tsr_frame_collect(o->frame, &o->table), TSR_OK, s);
  o->source = tsr_source_range(s, 4);
  /* Apart, as results would belong to the scope of the batch. */
  tsr_source *source = tsr_source_range(tsr_scope_open(rt), 4);
  o->pipeline = tsr_pipeline_open(source, .batch_size = 2);
  o->batch = tsr_pipeline_next(o->pipeline);
  o->function = tsr_function_make(s, same);
  o->compiled = tsr_compile(o->function, o->array);
  o->saved_step = tsr_checkpoint_open(s, "step");
  o->npz = tsr_load_npz(s, "a.npz");
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
}

/* What good objects are read from. */
static void write_files(void)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_arange(s, .stop = 4);
  CHECK_STATUS(tsr_checkpoint_save(s, "step", x), TSR_OK, s);
  CHECK_STATUS(tsr_save_npz(s, "a.npz", { "x", x }), TSR_OK, s);
  tsr_runtime_close(rt);
}

/* Inert ones, all for the reason that `s` tells. */
static void make_bad(struct objects *o, const struct objects *good, tsr_scope *s)
{
  *o = (struct objects){ .mesh = tsr_mesh_make(good->runtime, "data=77"), .batch = NULL };
  o->scope = tsr_scope_open((tsr_runtime *)NULL);
  o->runtime = tsr_runtime_open("nonsense");
  o->array = tsr_sum(good->array, .dims = TSR_DIMS(3));
  o->frame = tsr_frame_filter(good->frame, "no > 1");
  o->row = tsr_frame_row(o->frame);
  o->source = tsr_source_lines(s, "nowhere");
  o->pipeline = tsr_pipeline_open(o->source, .batch_size = 2);
  o->function = tsr_function_load(s, "nowhere");
  o->compiled = tsr_compile(o->function, good->array);
  o->saved_step = tsr_checkpoint_open(s, "nowhere");
  o->npz = tsr_load_npz(s, "nowhere");
}

/* ---- the law --------------------------------------------------------------------------------- */

static const char *calling = "";
static const char *how = "";

static int wrong(const char *what, const char *found)
{
  fprintf(stderr, "%s %s: %s: %s\n", calling, how, what, found);
  return 1;
}

/* "tsr_add" of tsr_add_at: users write it so, and tsr_fma for tsr_fma_of_at. Of a call that gives a
 * text and the one with a status, _into, either will do. */
static bool names_call(const char *message, const char *name)
{
  char call[96];
  size_t length = strlen(name);
  if (length > 3 && !strcmp(name + length - 3, "_at")) length -= 3;
  if (length > 5 && !strcmp(name + length - 5, "_with")) length -= 5;
  if (length > 5 && !strncmp(name + length - 5, "_into", 5)) length -= 5;
  if (length > 3 && !strncmp(name + length - 3, "_of", 3)) length -= 3;
  snprintf(call, sizeof call, "%.*s", (int)length, name);
  return strstr(message, call);
}

static char place[1 << 16];

/* What is wrong with what a call that failed told in a scope. */
static int look(const struct row *row, const struct world *w, const tsr_scope *s, bool named)
{
  /* An inert scope has its own message. */
  if (!strcmp(w->picked, "scope") && w->bad.scope) s = w->bad.scope;
  const char *said = w->said ? w->said : tsr_message(s);
  bool told = w->said || row->sees != SEES_STATUS || tsr_scope_status(s);
  if (!*said) return wrong("says", "nothing");
  if (!told) return wrong("says, with the status TSR_OK", said);
  return named && !w->said && !names_call(said, row->name) ? wrong("names another call", said) : 0;
}

static int of_nothing(const struct row *row, bool bare)
{
  struct world w = {
    .at = -1, .bare = bare, .place = bare ? NULL : place, .arrays = place, .picked = ""
  };
  int bad = 0;
  how = bare ? "of nothing" : "of NULLs";
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt), *here = tsr_scope_open(s);
  memset(place, 0, sizeof place);
  row->call(&w);
  if (w.failed) bad += look(row, &w, here, true) || look(row, &w, s, true);
  else if (row->needs && row->sees < SEES_MESH) bad += wrong("goes well", "");
  tsr_runtime_close(rt);
  return bad;
}

/* `inside`: the call is made in a scope inside that of the inert object. */
static int one_bad(const struct row *row, int at, bool null, bool inside)
{
  struct world w = {
    .at = at, .text = "x", .body = same, .place = place, .arrays = place, .picked = ""
  };
  int bad = 0;
  char said[64];
  snprintf(said, sizeof said, "operand %d %s%s", at, null ? "NULL" : "inert",
           inside ? " of a scope around" : "");
  how = said;
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt), *here = s;
  make_good(&w.good, rt, s);
  if (!null) make_bad(&w.bad, &w.good, s);
  if (inside) here = w.good.scope = tsr_scope_open(s);
  memset(place, 0, sizeof place);
  row->call(&w);
  if (w.failed) bad += look(row, &w, here, null);
  else if (!null && row->sees < SEES_MESH && strcmp(w.picked, "mesh") != 0)
    bad += wrong("goes well", "");
  tsr_runtime_close(rt);
  return bad;
}

static int every_way(const struct row *row)
{
  int bad = of_nothing(row, true) + of_nothing(row, false);
  for (int at = 0; at < row->objects; at++)
    bad += one_bad(row, at, true, false) + one_bad(row, at, false, false) +
           one_bad(row, at, false, true);
  return bad;
}

/* Each in a process of its own: one that crashes is named, and the others go on. */
TEST_TIMEOUT(no_call_fails_without_a_message, 300)
{
  int bad = 0;
  const char *only = getenv("TEST_CALL");
  CHECK(!chdir(test_tmp("")));
  write_files();
  for (int i = 0; i < ROWS; i++) {
    calling = rows[i].name;
    if (only && strcmp(only, calling)) continue;
    int status = 0;
    pid_t child = fork();
    if (!child) _exit(every_way(&rows[i]) != 0);
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status)) wrong("ends by signal", strsignal(WTERMSIG(status)));
    bad += status != 0;
  }
  CHECK_I64(bad, 0);
}

TEST(every_exported_call_has_a_row)
{
  char *exports = test_read(test_file("exports.txt"), NULL), *rest = exports;
  int missing = 0;
  for (char *name; (name = strsep(&rest, "\n"));) {
    bool found = !*name;
    for (int i = 0; i < ROWS; i++) found = found || !strcmp(rows[i].name, name);
    if (found) continue;
    fprintf(stderr, "%s has no row: tests/every_call.py finds it in no header\n", name);
    missing++;
  }
  CHECK_I64(missing, 0);
  free(exports);
}
