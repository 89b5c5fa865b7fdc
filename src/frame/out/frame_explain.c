/* What a terminal would do, from the file to the result, as text.
 *
 *   step                    rows in   rows out   bytes in  bytes out
 *   1 read csv weather.csv               26115                313380     every frame that is
 *       columns temp, hour (2 of 15), (data) on data=8                   needed, parents first
 *   2 filter temp > 80        26115      ~8705     313380    ~104460
 *   3 sort by temp desc       ~8705      ~8705    ~104460    ~104460
 *
 *   step 2 in one pass over memory:                                      a program for each
 *       kernel 1 over ...                                                stretch of steps
 *
 * Invariant: nothing is run but reading; only the rows that filters left in a terminal that ran
 * before are counted now. A number without "~" was counted: by the reader, that terminal, or so.
 * Programs are those that a terminal runs; where one stands on rows that nobody made yet, that is
 * said instead.
 *
 * Texts grow in the caller's heap and the lists here lie in the terminal's scope (tsr__bind_room),
 * so that leaving early leaves nothing behind. */
#include "frame/out/out.h"

#include "kernel/fallback/fallback.h"
#include "partition/partition.h"

#include <math.h>
#include <stdio.h>

enum {
  WORDS = 34,
  CELL = 11,
  INDENT = 4,
  LINE = 80
}; /* widths; a cell is two blanks and 9 characters */

typedef struct step {
  const tsr__visit *visit;
  int number;
  tsr__amount gives;  /* rows */
  struct step **from; /* the steps it stands on, by the frame's parents; NULL: none */
  int from_count;
} step;

/* The steps are in the order of visits, so parents have smaller numbers. `step` is found by frame:
 * of a frame that is visited as a row and as scalars the first visit is the step. */
typedef struct explainer {
  tsr__bind *bind;
  tsr__text *out;
  step *step;
  int count;
  bool guessed;          /* an estimate was printed */
  tsr__plan_shape shape; /* of the last program */
} explainer;

/* Walked, as chains have tens of steps; frames are compared by address, names may repeat. */
static step *step_of(explainer *e, const tsr_frame *df)
{
  for (int i = 0; df && i < e->count; i++)
    if (e->step[i].visit->df == df) return &e->step[i];
  return NULL;
}

static bool is_source(const tsr_frame *df)
{
  return tsr__verb_of(df)->rows == TSR__ROWS_SOURCE;
}

/* ---- rows -------------------------------------------------------------------------------- */

/* The rows that a filter keeps, where the reader of its file judged all it asks; -1: it did not. */
static int64_t rows_read(const explainer *e, const tsr_frame *df)
{
  for (const tsr__visit *v = e->bind->visits; v; v = v->next) {
    const tsr__pushed *pushed = v->df->kind == TSR__FRAME_FILE ? tsr__scan_pushed(v) : NULL;
    if (pushed && v->pushdown->all == df && pushed->count == v->pushdown->count)
      return pushed->rows;
  }
  return -1;
}

/* What a verb is likely to leave of the rows before it. */
static tsr__amount estimate(explainer *e, const step *s)
{
  static const tsr__amount none = { 0 };
  const tsr__amount **from = tsr__bind_room(e->bind, s->from_count, sizeof *from);
  for (int i = 0; from && i < s->from_count; i++) from[i] = s->from[i] ? &s->from[i]->gives : &none;
  return from ? tsr__verb_of(s->visit->df)->estimate(s->visit->df, from) : none;
}

/* How many rows a step gives, of the best that is known: what lies there, what a terminal counted,
 * what a reader judged; last what the verb guesses from the steps before. */
static void find_rows(explainer *e, step *s)
{
  const tsr_frame *df = s->visit->df;
  int64_t read = df->kind == TSR__FRAME_FILTER ? rows_read(e, df) : -1;
  bool made = s->visit->made && df->source && df->source->rows >= 0;
  if (df->one_row) s->gives = (tsr__amount){ 1, true };
  else if (is_source(df) || made)
    s->gives = (tsr__amount){ (double)tsr__scan_source(s->visit)->rows, true };
  else if (df->making.done && df->making.rows_out >= 0)
    s->gives = (tsr__amount){ (double)df->making.rows_out, true };
  else if (read >= 0) s->gives = (tsr__amount){ (double)read, true };
  else s->gives = estimate(e, s);
}

/* What a later step counted of the rows that came to it holds for those before as well. From the
 * result back, so that one number may go through many steps. Only the first parent: of two no sum
 * tells how many rows came from which. */
static void learn_backwards(explainer *e)
{
  for (int i = e->count - 1; i >= 0; i--) {
    const step *s = &e->step[i];
    const tsr_frame *df = s->visit->df;
    step *from = s->from_count ? s->from[0] : NULL;
    if (!from || from->gives.counted) continue;
    if (df->making.done && df->making.rows_in >= 0)
      from->gives = (tsr__amount){ (double)df->making.rows_in, true };
    else if (tsr__frame_same_count(df) && s->gives.counted) from->gives = s->gives;
  }
}

/* Whether all rows that a frame stands on were made. */
static bool stands_on_rows(const tsr__visit *v)
{
  if (!v || is_source(v->df)) return true;
  if (v->made) return tsr__rows_ready(v->df, v->need);
  bool there = stands_on_rows(v->parent) && stands_on_rows(v->other);
  for (int i = 0; i < v->df->part_count; i++) there = there && stands_on_rows(v->part[i]);
  return there;
}

/* Runs the selection of a step by itself, in a stage of its own, and keeps the number with the
 * frame. The stage shares what its terminal has read and made, and gives back its error with it. */
static tsr_status count_step(explainer *e, tsr_frame *df)
{
  tsr__bind stage;
  tsr__bound bound;
  int64_t rows = 0;
  if (tsr__stage_open(&stage, df, e->bind)) return e->bind->error.status;
  /* No column is needed: only the selection is bound. */
  bool *none = tsr__bind_room(&stage, df->schema.count, sizeof *none);
  tsr_status status = none ? TSR_OK : stage.error.status;
  if (!status) status = tsr__stage_frame(&stage, df, true, none, &bound);
  if (!status) status = tsr__count_rows(&stage, &bound, &rows);
  tsr_status closed = tsr__stage_close(&stage, e->bind);
  if (!status && !closed) tsr__note_count(df, rows);
  return status ? status : closed;
}

/* Counts the rows that a filter or the like left in a terminal that ran and had no need to know. */
static tsr_status count_kept(explainer *e)
{
  for (int i = 0; i < e->count; i++) {
    step *s = &e->step[i];
    tsr_frame *df = s->visit->df;
    if (!s->gives.counted) find_rows(e, s);
    bool ran = e->bind->top->ran || df->ran, known = s->gives.counted || tsr__frame_same_count(df);
    /* A number that is known, or that follows from another step's, needs no run; one of a chain
     * that no terminal ran stays an estimate, since explaining runs nothing. */
    if (known || !ran || s->visit->made || !stands_on_rows(s->visit)) continue;
    tsr_status status = count_step(e, df);
    if (status) return status;
    find_rows(e, s);
  }
  return TSR_OK;
}

/* Bytes of the needed columns of so many rows, validity included where it is known. A step that was
 * made has validity where there are nulls; for one that was not, bytes are those of values alone,
 * which is one more reason for the "~" before them. */
static double bytes_of(const step *s)
{
  const tsr__visit *v = s->visit;
  const tsr__source *source = v->df->source;
  bool text = tsr__verb_of(v->df)->rows == TSR__ROWS_KEEPS; /* its source has its own column only */
  int made = text ? tsr__frame_added(v->df) : -1;
  int64_t rows = (int64_t)s->gives.rows;
  double bytes = 0;
  for (int i = 0; i < v->df->schema.count; i++) {
    if (!v->need[i] || (v->told && v->told[i])) continue;
    bytes += (double)tsr__device_bytes(tsr__dtype_of_type(v->df->schema.field[i].type), rows);
    if (source && (!text || i == made) && tsr__scan_column(source, text ? 0 : i, v->pushdown).valid)
      bytes += (double)tsr__device_bytes(TSR_BOOL, rows);
  }
  return bytes;
}

/* ---- one step ---------------------------------------------------------------------------- */

/* The names of a frame's needed columns, cut where they get many. */
static void add_columns(const tsr__visit *v, tsr__text *out)
{
  enum { MOST = 12 };
  int used = 0, count = v->df->schema.count;
  for (int i = 0; i < count; i++) {
    if (!v->need[i]) continue;
    if (used < MOST) tsr__text_add(out, "%s%s", used ? ", " : "", v->df->schema.field[i].name);
    used++;
  }
  if (used > MOST) tsr__text_add(out, " and %d more", used - MOST);
  if (!used) tsr__text_add(out, "none");
  tsr__text_add(out, " (%d of %d)", used, count);
}

/* How a source's column of texts lies, and why. */
typedef enum lying {
  NO_TEXTS,
  CODES_KNOWN,
  CODES_FEW,
  CODES_MADE,
  CODES_TOLD,
  VIEWS,
  NOT_KEPT
} lying;

static lying lying_of(const tsr__visit *v, int column)
{
  if (v->told && v->told[column]) return NOT_KEPT;
  if (!v->need[column]) return NO_TEXTS;
  const tsr__source *source = tsr__scan_source(v);
  const tsr__pushed *pushed = tsr__scan_pushed(v);
  const tsr__dict *dict = tsr__scan_column(source, column, v->pushdown).dict;
  if (!dict) return NO_TEXTS;
  if (dict->repeats) return VIEWS;
  if (dict->came == TSR__TEXTS_MADE) return CODES_MADE;
  bool told = dict->came == TSR__TEXTS_TOLD;
  /* Of what came to other processes each knows the number of rows, so that all say the same. */
  int64_t came = told ? pushed ? pushed->rows : source->rows : dict->came;
  /* As those who collect them choose (dict_runs.c). */
  if (4 * (int64_t)dict->count <= 3 * came) return CODES_KNOWN;
  return told && came >= TSR__TEXTS_TRIAL ? CODES_TOLD : CODES_FEW;
}

/* The columns of a source that lie in one way. */
static void add_lying(const tsr__visit *v, lying how, const char *what, const char *why,
                      tsr__text *out)
{
  enum { MOST = 12 };
  int used = 0;
  for (int i = 0; i < v->df->schema.count; i++) {
    if (lying_of(v, i) != how) continue;
    if (used < MOST)
      tsr__text_add(out, used ? ", %s%s" : "    texts %s: %s", used ? "" : what,
                    v->df->schema.field[i].name);
    used++;
  }
  if (used > MOST) tsr__text_add(out, " and %d more", used - MOST);
  if (used) tsr__text_add(out, " (%s)\n", why);
}

/* How a source's columns of texts lie, a line for each reason. Columns that nobody read yet have no
 * list, and no line. */
static void add_texts(const tsr__visit *v, tsr__text *out)
{
  static const struct {
    lying how;
    const char *what, *why;
  } lines[] = { { CODES_KNOWN, "as codes", "most texts repeat" },
                { CODES_FEW, "as codes", "too few texts were read to choose" },
                { CODES_MADE, "as codes", "a verb made the codes" },
                { CODES_TOLD, "as codes", "processes exchange each text once" },
                { VIEWS, "as views", "most texts are distinct" },
                { NOT_KEPT, "not kept", "only filters read them" } };
  bool asked = tsr__text_layout_asked() != TSR__TEXTS_CHOSEN;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    add_lying(v, lines[i].how, lines[i].what,
              asked && lines[i].how != NOT_KEPT ? "$TSR_TEXTS asks for it" : lines[i].why, out);
}

static void add_place(const tsr_sharding *at, tsr__text *out)
{
  char spec[100];
  if (!at->mesh) {
    tsr__text_add(out, "on one device");
    return;
  }
  tsr_sharding_text(at, 1, spec, sizeof spec);
  tsr__text_add(out, "%s on %s", spec, tsr_mesh_text(at->mesh));
}

/* A number at the right of a column, in thousands, millions, ... where it is too long for that; "~"
 * where it was not counted. */
static void add_cell(explainer *e, double value, bool counted)
{
  char text[400];
  int length = CELL;
  e->guessed = e->guessed || !counted;
  /* Divided by a thousand until it fits beside the "~", which takes one of the cell's
   * characters. */
  for (const char *unit = " kMGTP"; length > CELL - 2 && *unit; unit++, value /= 1000) {
    length = tsr__text_decimals(text, sizeof text, value, 'f', 0) + !counted;
    /* `length` counts the "~", which is not in `text`: the unit stands behind the digits. */
    if (*unit != ' ') text[length++ - !counted] = *unit;
    text[length - !counted] = '\0';
  }
  tsr__text_pad(e->out, ' ', CELL - length);
  tsr__text_add(e->out, "%s%s", counted ? "" : "~", text);
}

/* Rows and bytes in and out, in their columns. */
static void add_cells(explainer *e, const step *s)
{
  const tsr_frame *df = s->visit->df;
  tsr__amount in = { .counted = true }, out = s->gives;
  double bytes = 0;
  for (int i = 0; i < s->from_count; i++) {
    const step *from = s->from[i];
    if (!from) continue;
    in.rows += from->gives.rows;
    in.counted = in.counted && from->gives.counted;
    bytes += bytes_of(from);
  }
  /* Row by row, or one row for all. Added up, both operands would be counted. */
  if (tsr__verb_of(df)->rows == TSR__ROWS_PAIRS) in.rows = out.rows;
  if (is_source(df)) tsr__text_pad(e->out, ' ', CELL);
  else add_cell(e, in.rows, in.counted);
  add_cell(e, out.rows, out.counted);
  if (is_source(df)) tsr__text_pad(e->out, ' ', CELL);
  else add_cell(e, bytes, in.counted);
  add_cell(e, bytes_of(s), out.counted);
  tsr__text_add(e->out, "\n");
}

/* Words over as many lines as they take, the step's figures behind the first.
 *
 *   2 filter temp > 80 and hour < 12        26115      ~8705     313380    ~104460
 *       and origin == 'EWR' */
static void add_lines(explainer *e, const step *s, const tsr__text *words)
{
  const char *text = tsr__text_get(words);
  size_t at = 0;
  for (bool first = true; first || at < words->length; first = false) {
    size_t end =
        at + tsr__explain_fits(text + at, words->length - at, first ? WORDS : LINE - INDENT);
    if (!first) tsr__text_pad(e->out, ' ', INDENT);
    tsr__text_put(e->out, text + at, end - at);
    if (first) {
      tsr__text_pad(e->out, ' ', WORDS - tsr__text_width(text + at, end - at));
      add_cells(e, s);
    } else {
      tsr__text_add(e->out, "\n");
    }
    /* The blank at which the line was broken is not printed. */
    at = end + (text[end] == ' ');
  }
}

/* How rows were made the last time, and what crossed between devices. */
static void add_making(explainer *e, const tsr_frame *df)
{
  const tsr__making *m = &df->making;
  if (!m->done) return;
  const char *how = m->path ? m->path : m->stats.method;
  if (how) {
    tsr__text_add(e->out, "    by %s", how);
    if (m->stats.need > 0)
      tsr__text_add(e->out, ", with at most %lld additional bytes on a device",
                    (long long)m->stats.need);
    tsr__text_add(e->out, "\n");
  }
  for (int i = 0; i < m->stats.move_count; i++)
    tsr__text_add(e->out, "    exchange: %s, %lld row%s, %lld bytes\n", m->stats.move[i].what,
                  (long long)m->stats.move[i].rows, m->stats.move[i].rows == 1 ? "" : "s",
                  (long long)m->stats.move[i].bytes);
}

/* What the reader dropped, and of how much text. */
static void add_sifted(explainer *e, const tsr__visit *v)
{
  const tsr__pushed *pushed = tsr__scan_pushed(v);
  const tsr__source *source = v->df->source;
  if (!pushed) return;
  const tsr__reader *reader = &source->reader;
  tsr__text_add(e->out, "    while reading");
  if (reader->ops->bytes)
    tsr__text_add(e->out, " %lld bytes", (long long)reader->ops->bytes(reader->file));
  tsr__text_add(e->out, ": %s keeps %lld of %lld rows\n", pushed->words, (long long)pushed->rows,
                (long long)source->rows);
}

/* The step in words; what it stands on where that is not the step before. */
static void add_words(explainer *e, const step *s, tsr__text *out)
{
  const tsr_frame *df = s->visit->df;
  int *from = tsr__bind_room(e->bind, s->from_count + 1, sizeof *from);
  if (!from) return;
  /* One more than there are, so that from[0] may be looked at. */
  for (int i = 0; i <= s->from_count; i++)
    from[i] = i < s->from_count && s->from[i] ? s->from[i]->number : -1;
  tsr__text_add(out, "%d ", s->number);
  tsr__verb_words(&(tsr__words){ s->visit, from }, out);
  /* Joins and concats say in their words which steps they take. */
  bool told = df->join || df->part_count;
  if (from[0] >= 0 && from[0] != s->number - 1 && !told)
    tsr__text_add(out, ", of step %d", from[0]);
}

static void add_step(explainer *e, const step *s)
{
  const tsr_frame *df = s->visit->df;
  tsr__text words;
  tsr__text_init(&words, &df->node.scope->rt->heap);
  add_words(e, s, &words);
  add_lines(e, s, &words);
  e->out->failed |= words.failed;
  tsr__text_free(&words);
  if (!is_source(df)) {
    add_making(e, df);
    return;
  }
  tsr__text_add(e->out, "    columns ");
  add_columns(s->visit, e->out);
  tsr__text_add(e->out, ", ");
  add_place(&df->source->sharding, e->out);
  tsr__text_add(e->out, "\n");
  if (df->kind == TSR__FRAME_FILE && s->visit->front >= 0 && s->visit->head)
    tsr__text_add(e->out, "    the first rows are read until %lld of them pass\n",
                  (long long)s->visit->wanted);
  else if (df->kind == TSR__FRAME_FILE && s->visit->front >= 0)
    tsr__text_add(e->out, "    no more than the first %lld row%s read\n",
                  (long long)s->visit->front, s->visit->front == 1 ? " is" : "s are");
  add_texts(s->visit, e->out);
  add_sifted(e, s->visit);
}

static void add_header(explainer *e)
{
  tsr__text_add(e->out, "%-*s%*s%*s%*s%*s\n", WORDS, "step", CELL, "rows in", CELL, "rows out",
                CELL, "bytes in", CELL, "bytes out");
}

/* Whether a step does anything for what is asked: a column that nobody needs is not computed. */
static bool does_something(const tsr__visit *v)
{
  int added = tsr__frame_added(v->df);
  return v->live && (added < 0 || v->need[added]);
}

static bool add_from(explainer *e, step *s)
{
  const tsr_frame *df = s->visit->df;
  s->from_count = tsr__frame_parent_count(df);
  s->from = tsr__bind_room(e->bind, s->from_count, sizeof *s->from);
  for (int i = 0; s->from && i < s->from_count; i++)
    s->from[i] = step_of(e, tsr__frame_parent(df, i));
  return s->from != NULL;
}

/* Numbers the steps and finds what each gives. A frame whose step is left out is stood for by the
 * one before it. */
static tsr_status list_steps(explainer *e)
{
  int most = 0, number = 0;
  for (const tsr__visit *v = e->bind->visits; v; v = v->next) most++;
  e->step = tsr__bind_room(e->bind, most, sizeof *e->step);
  if (!e->step) return e->bind->error.status;
  for (const tsr__visit *v = e->bind->visits; v; v = v->next) {
    /* A frame may be visited twice, once as scalars: it is one step. */
    if (!v->live || step_of(e, v->df)) continue;
    step *s = &e->step[e->count];
    *s = (step){ .visit = v };
    if (!add_from(e, s)) return e->bind->error.status;
    const step *from = s->from_count ? s->from[0] : NULL;
    /* A step that does nothing for what is asked has the number of the one before, so that those
     * behind it name that one. */
    s->number = does_something(v) ? ++number : from ? from->number : 0;
    e->count++;
    find_rows(e, s);
  }
  learn_backwards(e);
  return count_kept(e); /* finds the others once more, from what was learned */
}

/* ---- programs ------------------------------------------------------------------------------ */

/* A stretch of steps that is one program: what ends it, and which steps it holds. */
typedef struct stretch {
  explainer *e;
  const tsr__visit *end;
  bool *holds; /* by step number */
  bool *looks; /* by step number: it counts its rows before the program runs */
  int waits;   /* the step whose rows nobody made yet; 0: none */
  tsr_array **root;
  int count;
} stretch;

/* Marks the steps between a visit and the rows it stands on. The walk ends at sources and at other
 * breakers. Three ends: sources, rows that were made, and rows that are yet to be made, which the
 * stretch waits for. A mask that must be counted first (tail, sample) is a run of its own before
 * the program. */
static void gather_steps(stretch *s, const tsr__visit *v)
{
  const step *found = v ? step_of(s->e, v->df) : NULL;
  if (!v || is_source(v->df)) return;
  if (v->made && v != s->end) {
    if (!tsr__rows_ready(v->df, v->need) && found) s->waits = found->number;
    return;
  }
  tsr__known known = tsr__verb_run_of(v->df)->known(v->df, s->e->bind->top->ran || v->df->ran);
  if (known == TSR__KNOWN_LATER && found) s->waits = found->number;
  if (known == TSR__KNOWN_COUNTED && found) s->looks[found->number] = true;
  bool works = does_something(v) && tsr__verb_of(v->df)->rows != TSR__ROWS_KEEPS;
  if (found && found->number && works) s->holds[found->number] = true;
  gather_steps(s, v->parent);
  gather_steps(s, v->other);
  for (int i = 0; i < v->df->part_count; i++) gather_steps(s, v->part[i]);
}

/* Collects what the program must give: columns and checks as in a terminal. Leaves have values;
 * they are not computed. A terminal's roots and these must be the same, or what is explained would
 * be another program than the one that runs. */
static bool add_roots(stretch *s, tsr__bind *bind, const tsr__col *col, int columns,
                      tsr_array *more)
{
  int most = s->count + 4 * columns + 1 + bind->check_count;
  tsr_array **all = tsr__bind_room(bind, most, sizeof *all);
  if (!all) return false;
  if (s->count) memcpy(all, s->root, (size_t)s->count * sizeof *all);
  for (int i = 0; i < columns; i++) {
    tsr_array *const each[] = { col[i].values, col[i].valid, col[i].count, col[i].real };
    for (int k = 0; k < 4; k++)
      if (each[k] && !each[k]->value) all[s->count++] = each[k];
  }
  if (more && !more->value) all[s->count++] = more;
  for (tsr__run_check *w = bind->checks; w; w = w->next)
    if (!w->row->value) all[s->count++] = w->row;
  s->root = all;
  return true;
}

/* The columns of one input that a step carries, its keys and its selection. */
typedef struct input {
  const tsr_frame *df; /* the step's */
  tsr__bound bound;
  tsr__col *key;
  int keys;
} input;

static tsr_status lower_keys(tsr__bind *bind, void *user)
{
  const input *in = user;
  tsr__lower low = {
    .bind = bind, .scope = bind->scope, .site = bind->site, .frame = in->df, .in = &in->bound
  };
  for (int i = 0; i < in->keys; i++) {
    const tsr__expr *expr = in->df->keys.formula.item[i].expr;
    in->key[i] = tsr__lower_as(&low, expr, expr->type);
  }
  return TSR_OK;
}

/* Lowers what a breaker evaluates of one of its parents: the needed columns, its keys and its
 * selection. */
static tsr_status bind_input(stretch *s, tsr__bind *bind, const tsr__visit *v, bool keyed)
{
  input in = { .df = s->end->df };
  int columns = v->df->schema.count;
  tsr_status status = tsr__stage_frame(bind, v->df, true, v->need, &in.bound);
  if (status) return status;
  in.keys = keyed ? in.df->keys.formula.count : 0;
  tsr__col *col = tsr__bind_room(bind, columns + in.keys, sizeof *col);
  if (!col) return bind->error.status;
  tsr__lower low = {
    .bind = bind, .scope = bind->scope, .site = bind->site, .frame = in.df, .in = &in.bound
  };
  for (int i = 0; i < columns; i++)
    if (v->need[i]) col[i] = tsr__settle(&low, in.bound.col[i]);
  in.key = col + columns;
  status = tsr__lower_until_known(bind, lower_keys, &in);
  if (!status) add_roots(s, bind, col, columns + in.keys, in.bound.mask);
  return status ? status : bind->error.status;
}

/* Aggregates that are part of the pass; false where the rows must be carried instead. Where the end
 * is no breaker its columns are the roots. `status` is written only where it returns true. */
static bool bind_reduction(stretch *s, tsr__bind *bind, tsr_status *status)
{
  tsr_frame *df = bind->top;
  tsr__bound bound;
  if (s->end->made && tsr__frame_breaks(df)) return false;
  *status = tsr__stage_frame(bind, df, false, s->end->need, &bound);
  if (!*status) add_roots(s, bind, bound.col, df->schema.count, bound.mask);
  return true;
}

/* What a terminal runs for the rows of `end`: aggregates in one pass, else what it carries of each
 * parent. */
static tsr_status bind_stretch(stretch *s, tsr__bind *bind)
{
  const tsr__visit *v = s->end;
  tsr_status status = TSR_OK;
  if (bind_reduction(s, bind, &status)) return status;
  /* The breaker itself is no part of the pass: relate/ does its work with what the pass gives. */
  s->holds[step_of(s->e, v->df)->number] = false;
  if (v->parent && !v->part) status = bind_input(s, bind, v->parent, true);
  if (v->other && !status) status = bind_input(s, bind, v->other, false);
  for (int i = 0; i < v->df->part_count && !status; i++)
    status = bind_input(s, bind, v->part[i], false);
  return status;
}

/* "step 2", "steps 2 to 4", "steps 2, 4 to 6"; false where there is none. */
static bool add_range(const bool *holds, int most, tsr__text *out)
{
  int held = 0, ranges = 0;
  for (int i = 1; i <= most; i++) held += holds[i];
  if (!held) return false;
  tsr__text_add(out, "step%s ", held > 1 ? "s" : "");
  for (int i = 1; i <= most; i++) {
    int last = i;
    if (!holds[i]) continue;
    while (last < most && holds[last + 1]) last++;
    tsr__text_add(out, "%s%d", ranges++ ? ", " : "", i);
    if (last > i) tsr__text_add(out, " to %d", last);
    i = last;
  }
  return true;
}

/* Each line of a text behind four blanks. */
static void add_indented(const tsr__text *lines, tsr__text *out)
{
  const char *text = tsr__text_get(lines);
  while (*text) {
    size_t length = strcspn(text, "\n");
    length += text[length] == '\n'; /* a text that memory cut has none */
    tsr__text_pad(out, ' ', INDENT);
    tsr__text_put(out, text, length);
    text += length;
  }
}

/* The words before a program say which steps it holds, and how often it goes over memory: its
 * kernels. */
static tsr_status print_stretch(stretch *s, tsr__bind *bind, int most)
{
  tsr__text *out = s->e->out;
  tsr__plan_shape shape = { 0 };
  tsr_status status = tsr_scope_status(bind->scope);
  if (!status && s->count)
    status = tsr__plan_shape_of(bind->scope, s->root, s->count, &shape, &bind->error);
  s->e->shape = shape;
  if (status || !s->count) return status;
  tsr__text_add(out, "\n");
  if (add_range(s->looks, most, out)) tsr__text_add(out, " counted rows first; then ");
  if (!add_range(s->holds, most, out)) tsr__text_add(out, "the columns");
  if (shape.kernels == 1) tsr__text_add(out, " in one pass over memory:\n");
  else tsr__text_add(out, " in %d passes over memory:\n", shape.kernels);
  tsr__text program;
  tsr__text_init(&program, &bind->scope->rt->heap);
  status = tsr__explain(bind->scope, s->root, s->count, &program, &bind->error);
  add_indented(&program, out);
  out->failed |= program.failed;
  tsr__text_free(&program);
  return status;
}

/* One program: that of the end, which is a breaker or what was asked for. Of a stretch that waits
 * for rows only that is said. */
static tsr_status explain_stretch(explainer *e, const tsr__visit *end)
{
  /* The last step may have the number of one before it. */
  int most = e->step[e->count - 1].number;
  for (int i = 0; i < e->count; i++)
    if (e->step[i].number > most) most = e->step[i].number;
  stretch s = { .e = e, .end = end };
  s.holds = tsr__bind_room(e->bind, most + 2, sizeof *s.holds);
  s.looks = tsr__bind_room(e->bind, most + 2, sizeof *s.looks);
  if (!s.holds || !s.looks) return e->bind->error.status;
  gather_steps(&s, end);
  if (s.waits) {
    tsr__text_add(e->out, "\n");
    if (add_range(s.holds, most, e->out))
      tsr__text_add(e->out, ": planned when step %d has its rows\n", s.waits);
    return TSR_OK;
  }
  tsr__bind bind;
  tsr_status status = tsr__stage_open(&bind, end->df, e->bind);
  if (status) return status;
  status = bind_stretch(&s, &bind);
  if (!status) status = print_stretch(&s, &bind, most);
  tsr_status ended = tsr__stage_close(&bind, e->bind);
  return status ? status : ended;
}

/* ---- the call ------------------------------------------------------------------------------ */

static bool only_sources(const explainer *e)
{
  for (int i = 0; i < e->count; i++) {
    const tsr_frame *df = e->step[i].visit->df;
    if (!is_source(df) && tsr__verb_of(df)->rows != TSR__ROWS_KEEPS) return false;
  }
  return true;
}

/* Whether rows are sorted, grouped, joined or moved, which kernels of arrays do not do. */
static bool makes_rows(const explainer *e)
{
  for (const tsr__visit *v = e->bind->visits; v; v = v->next)
    if (v->live && v->made && !is_source(v->df)) return true;
  return false;
}

static tsr_status explain(explainer *e)
{
  tsr_frame *df = e->bind->top;
  tsr_status status = tsr__bind_plan(e->bind);
  if (!status) status = list_steps(e);
  if (status) return status;
  add_header(e);
  for (int i = 0; i < e->count; i++)
    if (e->step[i].number && does_something(e->step[i].visit)) add_step(e, &e->step[i]);
  /* Whether a program was printed shows in the length. */
  size_t before = e->out->length;
  const tsr__visit *top = step_of(e, df)->visit;
  for (const tsr__visit *v = e->bind->visits; v && !status; v = v->next)
    if (v->live && (v->made || v == top)) status = explain_stretch(e, v);
  if (e->out->length == before && only_sources(e))
    tsr__text_add(e->out, "\nnothing to run: the columns lie there already\n");
  if (makes_rows(e)) tsr__host_explain_rows(df->node.scope->rt, e->out);
  if (e->guessed)
    tsr__text_add(e->out, "\n~ estimated; steps that a terminal has run are counted\n");
  return status;
}

/* The text is made under the terminal's scope and given to the frame's home after that closed: it
 * must not go with the terminal. */
tsr_status tsr_frame_explain_into_at(tsr_frame *df, const char **out, const char *site)
{
  tsr__bind bind;
  tsr__text text, folded;
  tsr_status status = tsr__frame_check_out(df, out, "tsr_frame_explain_into", site);
  if (!status) status = tsr__bind_look(&bind, df, "tsr_frame_explain", site);
  if (status) return status;
  tsr__text_init(&text, &df->node.scope->rt->heap);
  explainer e = { .bind = &bind, .out = &text };
  status = explain(&e);
  tsr_status closed = tsr__bind_close(&bind);
  tsr__text_init(&folded, text.heap);
  tsr__explain_fold(&folded, &text);
  tsr__text_free(&text);
  if (!status && !closed) return tsr__frame_give(df, &folded, out, site);
  tsr__text_free(&folded);
  return status ? status : closed;
}

const char *tsr_frame_explain(tsr_frame *df)
{
  const char *out;
  return tsr_frame_explain_into_at(df, &out, NULL) ? tsr__frame_why(df) : out;
}

/* The shape of the last program, found by explaining it into a text that nobody reads. */
tsr_status tsr__frame_plan_shape(tsr_frame *df, tsr__plan_shape *out)
{
  tsr__bind bind;
  tsr__text text;
  tsr_status status = tsr__bind_look(&bind, df, "plan shape", NULL);
  if (status) return status;
  tsr__text_init(&text, &df->node.scope->rt->heap);
  explainer e = { .bind = &bind, .out = &text };
  status = explain(&e);
  *out = e.shape;
  tsr__text_free(&text);
  tsr_status closed = tsr__bind_close(&bind);
  return status ? status : closed;
}
