/* A terminal at work: from a chain of frames to arrays that can be run, in three phases.
 *
 *   plan   visit every frame the result stands on, parents first; from the result back, which
 *          columns of each are used at all, beyond a breaker whose rows are there already none;
 *          files give those columns. A late contrary value retypes one: types are checked anew,
 *          rows of other types are forgotten, and needs are marked again
 *   make   the rows of breakers in order, each in a stage of its own, which binds what stands
 *          between it and the nearest rows. All those were made before: a stage plans and binds,
 *          no more
 *   bind   what stands between the nearest rows and the result, each frame once, parents first:
 *          columns and selection as arrays
 *
 * Invariant: nodes are made without a run. What only a run tells is made before them: which rows
 * a tail or a sample takes (masks.c, sample.c), which different values there are
 * (find_distinct.c).
 *
 * All nodes live in a scope of the terminal's own, closed at its end; what stays is what was
 * asked for. */
#include "frame/run/run.h"
#include "kernel/fallback/fallback.h"

#include <stdio.h>

/* ---- figures of what ran ------------------------------------------------------------------ */

/* Adds to the figures of a scope; without memory for them there are none. */
static void add_stats(tsr_scope *to, const tsr_run_stats *more)
{
  if (!to || to->inert) return;
  if (!to->run_stats) {
    to->run_stats = tsr__arena_new(&to->arena, sizeof *more);
    if (to->run_stats) *(tsr_run_stats *)to->run_stats = (tsr_run_stats){ .cached = true };
  }
  tsr_run_stats *sum = to->run_stats;
  if (!sum) return;
  sum->programs += more->programs;
  sum->kernels += more->kernels;
  sum->collectives += more->collectives;
  sum->bytes_explained += more->bytes_explained;
  sum->bytes_counted += more->bytes_counted;
  sum->bytes_escaped += more->bytes_escaped;
  sum->cached = sum->cached && more->cached;
}

/* Runs one program of a terminal; its figures are added to those of the programs before. A
 * terminal may run several programs: a count before a tail, the rows of breakers, the result.
 * What users ask for are the figures of the terminal, so they are summed; each run writes its own
 * to the scope, which is why those from before are put aside. */
static tsr_status run_program(tsr__bind *bind, tsr_array *const *roots, int count)
{
  tsr_scope *scope = bind->scope;
  tsr_run_stats *before = scope->run_stats;
  scope->run_stats = NULL;
  tsr_status status = tsr__execute(scope, roots, count, &bind->error);
  const tsr_run_stats *ran = scope->run_stats;
  scope->run_stats = before ? before : scope->run_stats;
  if (before && ran) add_stats(scope, ran);
  return status;
}

/* What relate/ sends is not explained beforehand: bytes depend on the rows. Counted is explained,
 * then. */
void tsr__bind_moved(tsr__bind *bind, const tsr__rel_stats *stats)
{
  tsr_run_stats moved = { .collectives = stats->move_count, .cached = true };
  for (int i = 0; i < stats->move_count; i++) moved.bytes_counted += stats->move[i].bytes;
  moved.bytes_explained = moved.bytes_counted;
  add_stats(bind->scope, &moved);
}

/* The figures of a terminal take the place of those of the one before in its home. The bytes of its
 * programs and of its rows that passed through the host are counted as one. */
static void hand_over_stats(const tsr__bind *bind, tsr_scope *to)
{
  const tsr_scope *from = bind->scope;
  if (!from->run_stats || !to || to->inert) return;
  if (!to->run_stats) to->run_stats = tsr__arena_new(&to->arena, sizeof(tsr_run_stats));
  if (!to->run_stats) return;
  tsr_run_stats *out = to->run_stats;
  *out = *(const tsr_run_stats *)from->run_stats;
  out->bytes_through_host = tsr__host_bytes(to->rt) - bind->through_host;
  out->bytes_between_kinds = tsr__kind_bytes(to->rt) - bind->between_kinds;
}

/* ---- opening and closing ------------------------------------------------------------------ */

/* All that runs until the terminal ends is part of what was asked for of its frame. */
static void begin_task(tsr__bind *bind)
{
  tsr__peers *peers = tsr__peers_of(bind->home->rt);
  if (!peers) return;
  bind->task = (tsr__peers_task){ .fingerprint = tsr__frame_print(bind->top),
                                  .lines = { tsr__frame_lines, bind->top } };
  tsr__peers_begin_task(peers, &bind->task);
}

static tsr_status open_terminal(tsr__bind *bind, tsr_frame *df, const char *what, const char *site,
                                bool look)
{
  *bind = (tsr__bind){ .top = df, .what = what };
  bind->last = &bind->visits;
  if (!df) return tsr__fail_null(what, "frame", site);
  if (df->inert) {
    tsr_status status = tsr__frame_why_inert(df, what, site);
    return look ? status : tsr__frame_refuse(df, what, site, status);
  }
  bind->site = site ? site : df->node.site;
  bind->home = tsr__frame_home(df);
  bind->through_host = tsr__host_bytes(bind->home->rt);
  bind->between_kinds = tsr__kind_bytes(bind->home->rt);
  bind->scope = tsr_scope_nest_at(bind->home, bind->site);
  if (bind->scope->inert)
    return tsr__frame_refuse(
        df, what, site, tsr__fail(bind->home, bind->site, TSR_ENOMEM, "%s: out of memory", what));
  begin_task(bind);
  return TSR_OK;
}

tsr_status tsr__bind_open(tsr__bind *bind, tsr_frame *df, const char *what, const char *site)
{
  return open_terminal(bind, df, what, site, false);
}

tsr_status tsr__bind_look(tsr__bind *bind, tsr_frame *df, const char *what, const char *site)
{
  return open_terminal(bind, df, what, site, true);
}

tsr_status tsr__bind_meet(tsr__bind *bind)
{
  return tsr__frame_meet(bind->top, bind->what, bind->site, bind->error.status, &bind->error);
}

/* The message of the terminal's scope without its site and status, which are put in front again.
 * A message reads "file:line: STATUS: text"; the outer scope will put its own place and status
 * before the text. */
static const char *bare_message(const tsr_scope *scope)
{
  const char *message = tsr_message(scope);
  const char *name = tsr_status_name(tsr_scope_status(scope));
  const char *at = strstr(message, name);
  return at ? at + strlen(name) + 2 : message;
}

/* Its home is the terminal's scope, not the user's: what a stage makes goes with it, but for the
 * rows, which are kept with their frame. */
tsr_status tsr__stage_open(tsr__bind *bind, tsr_frame *df, tsr__bind *outer)
{
  *bind = (tsr__bind){ .top = df, .what = outer->what, .site = df->node.site, .stage = true };
  bind->home = outer->scope;
  bind->last = &bind->visits;
  bind->scope = tsr_scope_nest_at(outer->scope, df->node.site);
  if (bind->scope->inert)
    return tsr__error_set(&outer->error, TSR_ENOMEM, "%s: out of memory", outer->what);
  return TSR_OK;
}

tsr_status tsr__stage_close(tsr__bind *bind, tsr__bind *outer)
{
  tsr_status status = bind->error.status;
  if (status) {
    tsr__error_set(&outer->error, status, "%s", bind->error.text);
  } else if ((status = tsr_scope_status(bind->scope)) != TSR_OK) {
    tsr__error_set(&outer->error, status, "%.990s", bare_message(bind->scope));
  }
  if (bind->scope->run_stats) add_stats(outer->scope, bind->scope->run_stats);
  tsr_scope_close(bind->scope);
  bind->scope = NULL;
  return status;
}

tsr_status tsr__bind_close(tsr__bind *bind)
{
  tsr_scope *outer = bind->home;
  tsr_status status = bind->error.status;
  tsr__peers *peers = tsr__peers_of(outer->rt);
  if (peers) tsr__peers_end_task(peers, &bind->task);
  if (status) {
    tsr__fail_error(outer, bind->site, &bind->error);
  } else if ((status = tsr_scope_status(bind->scope)) != TSR_OK) {
    tsr__fail(outer, bind->site, status, "%s", bare_message(bind->scope));
  }
  if (!bind->plan) hand_over_stats(bind, outer);
  if (!bind->plan && !status && !tsr__frame_is_source(bind->top)) bind->top->ran = true;
  tsr_scope_close(bind->scope);
  bind->scope = NULL;
  return status;
}

void *tsr__bind_room(tsr__bind *bind, int64_t count, size_t element)
{
  void *out = tsr__arena_new(&bind->scope->arena, (size_t)(count > 0 ? count : 1) * element);
  if (!out) tsr__error_set(&bind->error, TSR_ENOMEM, "%s: out of memory", bind->what);
  return out;
}

/* ---- visiting ---------------------------------------------------------------------------- */

/* Whether a frame takes one row as a row and not as scalars. A column plus a frame of one row
 * needs the one row as scalars, which broadcast; a sort needs it as a table of one row. */
static bool wants_rows(const tsr_frame *df)
{
  tsr__rows rows = tsr__verb_of(df)->rows;
  return rows != TSR__ROWS_MAPS && rows != TSR__ROWS_PAIRS;
}

static tsr__visit *visit(tsr__bind *bind, tsr_frame *df, bool rows);

static bool visit_parents(tsr__bind *bind, tsr__visit *v)
{
  tsr_frame *df = v->df;
  bool rows = wants_rows(df);
  if (df->parent && !(v->parent = visit(bind, df->parent, rows))) return false;
  if (df->other && !(v->other = visit(bind, df->other, rows))) return false;
  if (!df->part_count) return true;
  v->part = tsr__bind_room(bind, df->part_count, sizeof(tsr__visit *));
  for (int i = 0; v->part && i < df->part_count; i++)
    if (!(v->part[i] = visit(bind, df->part[i], rows))) return false;
  return v->part != NULL;
}

/* Of a frame of one row there may be two visits: its row, and its values as scalars. */
static tsr__visit *visit(tsr__bind *bind, tsr_frame *df, bool rows)
{
  bool scalar = df->one_row && !rows;
  for (tsr__visit *v = bind->visits; v; v = v->next)
    if (v->df == df && v->scalar == scalar) return v;
  tsr__visit *v = tsr__bind_room(bind, 1, sizeof *v);
  if (!v) return NULL;
  /* Entered in the list after its parents, which the recursion has entered by then. */
  *v = (tsr__visit){ .df = df, .scalar = scalar, .front = -1 };
  v->made = tsr__frame_breaks(df) || (df->one_row && rows);
  /* A stage stops at rows that were made: what they are made of is another stage's. */
  bool deeper = !v->made || !bind->stage;
  if (deeper && !visit_parents(bind, v)) return NULL;
  if (deeper && tsr__frame_refresh(df, &bind->error)) return NULL;
  /* After the refresh, which may have changed the version that rows are kept under. */
  if (v->made) tsr__rows_forget(df);
  v->need = tsr__bind_room(bind, df->schema.count, sizeof(bool));
  if (!v->need) return NULL;
  *bind->last = v;
  bind->last = &v->next;
  return v;
}

/* ---- needs ------------------------------------------------------------------------------- */

/* What must be made of a frame whose rows are: one row is made whole, and some column always,
 * since it tells how the rows lie. Column `first` is the first that is not a row number: numbers
 * are made anew each time. */
static void need_of_made(tsr__visit *v)
{
  int count = v->df->schema.count, first = count > 1 ? tsr__frame_numbers(v->df) : 0;
  bool whole = v->df->one_row && !tsr__frame_breaks(v->df), any = false;
  for (int i = 0; i < count; i++) {
    v->need[i] = v->need[i] || whole;
    any = any || (v->need[i] && i >= first);
  }
  if (!any && count && !tsr__rows_ready(v->df, v->need)) v->need[first] = true;
}

bool tsr__visit_is_there(const tsr__bind *bind, const tsr__visit *v)
{
  return v->made && (bind->stage || (!bind->plan && tsr__rows_ready(v->df, v->need)));
}

/* Needs flow up: by the time a visit is reached all who need something of it have said so, since
 * users come behind it in the list. */
static void mark_parents(const tsr__bind *bind, tsr__visit *v)
{
  if (v->made) need_of_made(v);
  if (tsr__visit_is_there(bind, v)) return;
  tsr__visit *const direct[] = { v->parent, v->other };
  for (int i = 0; i < 2 + v->df->part_count; i++) {
    tsr__visit *from = i < 2 ? direct[i] : v->part[i - 2];
    if (!from) continue;
    from->live = true;
    /* Beyond a breaker nodes are made in its stage, not here. */
    from->here = from->here || (v->here && !v->made);
    if (i >= 2) tsr__part_needs(v->df, i - 2, v->need, from->need);
  }
  if (v->from)
    for (int i = 0; i < v->df->schema.count; i++) v->parent->need[i] |= v->need[i];
  else if (v->parent)
    tsr__frame_needs(v->df, v->need, v->parent->need, v->other ? v->other->need : NULL);
}

/* Marks needs from `top` to the first visit. The list is singly linked: its order is put in an
 * array. */
static tsr_status mark_needs(tsr__bind *bind, tsr__visit *top, const bool *need)
{
  int count = 0, n = 0;
  for (tsr__visit *v = bind->visits; v; v = v->next) count++;
  tsr__visit **order = tsr__bind_room(bind, count, sizeof(tsr__visit *));
  if (!order) return bind->error.status;
  for (tsr__visit *v = bind->visits; v; v = v->next) {
    order[n++] = v;
    /* Cleared for all: needs are marked anew after a file changed a type. */
    v->live = v->here = v == top;
    for (int i = 0; i < v->df->schema.count; i++) v->need[i] = v == top && (!need || need[i]);
  }
  while (n--)
    if (order[n]->live) mark_parents(bind, order[n]);
  return TSR_OK;
}

/* All processes that read a file together go on or none does. */
static tsr_status check_room(tsr__bind *bind)
{
  const tsr_frame *file = NULL;
  for (const tsr__visit *v = bind->visits; v && !file; v = v->next)
    if (v->df->kind == TSR__FRAME_FILE && v->live &&
        tsr__source_apart(v->df, &v->df->source->sharding))
      file = v->df;
  if (!file) return tsr__room_check(bind);
  tsr_status status = tsr__source_enter(file, &bind->error);
  return status ? status : tsr__source_leave(file, tsr__room_check(bind), &bind->error);
}

static bool is_live_file(const tsr__visit *v)
{
  return v->df->kind == TSR__FRAME_FILE && v->live;
}

/* Texts of a file that its reader is asked of for filters alone: needed, and not kept. Of those
 * that others need, too, texts of rows that are dropped are not kept. */
static tsr_status mark_told(tsr__bind *bind, tsr__visit *file)
{
  const tsr__pushdown *pushdown = file->pushdown;
  file->told = tsr__bind_room(bind, file->df->schema.count, sizeof *file->told);
  for (int k = 0; file->told && k < pushdown->count; k++) {
    int target = pushdown->predicate[k].target;
    bool text = file->df->schema.field[target].type == TSR_COL_TEXT;
    if (text) pushdown->whole[target] = pushdown->beside[target];
    if (file->need[target]) continue;
    file->told[target] = text;
    file->need[target] = true;
  }
  return bind->error.status;
}

/* What the filters of each file ask of its rows. Where its reader stands in for them their columns
 * are needed no more, unless others do. */
static tsr_status push_filters(tsr__bind *bind, tsr__visit *top, const bool *need)
{
  bool tells = false;
  for (tsr__visit *v = bind->visits; v; v = v->next) v->from = NULL, v->told = NULL;
  if (mark_needs(bind, top, need)) return bind->error.status;
  for (tsr__visit *v = bind->visits; v; v = v->next) {
    if (!is_live_file(v)) continue;
    v->pushdown = tsr__pushdown_of(bind, v);
    v->front = tsr__front_of(bind, v);
    if (!v->pushdown) return bind->error.status;
    tells |= tsr__pushdown_tells(bind, v);
  }
  if (!tells) return TSR_OK;
  if (mark_needs(bind, top, need)) return bind->error.status;
  for (tsr__visit *v = bind->visits; v; v = v->next)
    if (v->from && v->from->pushdown->all == v->df && mark_told(bind, v->from))
      return bind->error.status;
  return TSR_OK;
}

/* Reads what files must give; types are checked anew where a column changed its type. All
 * predicates first, then the check of room, then reading: the need can be told only when it is
 * known which rows each file gives. */
static tsr_status read_files(tsr__bind *bind, bool *changed)
{
  *changed = false;
  if (check_room(bind)) return bind->error.status;
  for (tsr__visit *v = bind->visits; v; v = v->next) {
    if (!is_live_file(v)) continue;
    /* A column that turns out to be of another type raises the version; then nothing was read of
     * that file, and the plan begins again with the types that are known now. */
    int before = v->df->version;
    tsr__traffic moved = { 0 };
    if (tsr__scan_read(v, &moved, &bind->error)) return bind->error.status;
    if (moved.bytes)
      add_stats(bind->scope, &(tsr_run_stats){ .bytes_explained = moved.bytes,
                                               .bytes_counted = moved.bytes,
                                               .cached = true });
    *changed = *changed || v->df->version != before;
  }
  for (tsr__visit *v = bind->visits; v && *changed; v = v->next) {
    if (tsr__frame_refresh(v->df, &bind->error)) {
      tsr__scan_blame(bind->visits, &bind->error);
      return bind->error.status;
    }
    if (v->made) tsr__rows_forget(v->df);
  }
  return TSR_OK;
}

/* ---- the three phases --------------------------------------------------------------------- */

/* Ends: types only widen, and each round widens one at least. */
static tsr_status plan(tsr__bind *bind, tsr__visit *top, const bool *need)
{
  bool changed = true;
  while (changed) {
    if (push_filters(bind, top, need)) return bind->error.status;
    if (read_files(bind, &changed)) return bind->error.status;
  }
  return TSR_OK;
}

/* In order of the visits, so that a breaker's own breakers have rows when its turn comes. */
static tsr_status make_rows(tsr__bind *bind)
{
  for (const tsr__visit *v = bind->visits; v; v = v->next) {
    if (!v->made || !v->live || tsr__rows_ready(v->df, v->need)) continue;
    tsr_status status = tsr__materialize_rows(bind, v);
    if (status) return status;
  }
  return TSR_OK;
}

static tsr_status bind_nodes(tsr__bind *bind, void *user)
{
  tsr__visit *v = user;
  /* Rows and selection are the parent's unless the verb says otherwise. */
  if (v->parent && !v->made) v->bound = v->parent->bound;
  v->bound.count = v->df->schema.count;
  v->bound.col = tsr__bind_room(bind, v->bound.count, sizeof(tsr__col));
  if (!v->bound.col) return bind->error.status;
  if (v->made) tsr__bind_rows(bind, v);
  else tsr__verb_run_of(v->df)->bind(bind, v);
  return bind->error.status ? bind->error.status : tsr_scope_status(bind->scope);
}

/* What stands between the nearest rows and the result, parents first: of masks that only a run
 * tells, which rows they take is found before their nodes are made. */
static tsr_status bind_visits(tsr__bind *bind)
{
  bind->distinct = NULL;
  for (tsr__visit *v = bind->visits; v; v = v->next) {
    tsr_status status = TSR_OK;
    bool mask = !v->made && tsr__verb_of(v->df)->rows == TSR__ROWS_MASKS;
    if (v->here && mask) status = tsr__verb_run_of(v->df)->make(bind, v, NULL);
    if (v->here && !status) status = tsr__lower_until_known(bind, bind_nodes, v);
    if (status) return status;
  }
  return TSR_OK;
}

/* Sees whether the first rows of files hold as many that pass conditions as heads want; else more
 * of them are to be read. Eight times as many rows each time, so that the rows read in vain are at
 * most a seventh of the last reading. */
static tsr_status widen_fronts(tsr__bind *bind, bool *again)
{
  *again = false;
  for (tsr__visit *v = bind->visits; v; v = v->next) {
    if (!v->live || v->front < 0 || !v->head || !v->head->here) continue;
    tsr__bound *from = &v->head->parent->bound;
    if (tsr__scan_source(v)->enough == INT64_MAX || !from->mask) continue;
    if (tsr__bind_run(bind, &from->mask, 1))
      return bind->error.status ? bind->error.status : tsr_scope_status(bind->scope);
    int64_t rows;
    if (tsr__mask_rows(bind, from->mask->value, &rows)) return bind->error.status;
    if (rows >= v->wanted) continue;
    v->reach *= 8;
    v->vain = *again = true;
  }
  return TSR_OK;
}

/* Throws away all that was made of first rows that were too few: the nodes and checks, and then the
 * rows. Checks of fewer rows say nothing of more. */
static void throw_away(tsr__bind *bind, const tsr__bind *before, const tsr__node *last)
{
  bind->checks = before->checks;
  bind->check_count = before->check_count;
  bind->indexed = before->indexed;
  bind->index = before->index;
  tsr__scope_rewind(bind->scope, last);
  for (tsr__visit *v = bind->visits; v; v = v->next) {
    if (v->vain) tsr__scan_forget_front(v->df);
    v->vain = false;
  }
}

tsr_status tsr__bind_plan(tsr__bind *bind)
{
  bind->plan = true;
  tsr__visit *top = visit(bind, bind->top, false);
  return top ? plan(bind, top, NULL) : bind->error.status;
}

tsr_status tsr__bind_frame(tsr__bind *bind, tsr_frame *df, bool rows, const bool *need,
                           tsr__bound *out)
{
  const tsr__bind before = *bind;
  const tsr__node *last = bind->scope->nodes;
  tsr__visit *top = visit(bind, df, rows);
  tsr_status status = top ? TSR_OK : bind->error.status;
  for (bool again = true; again && !status;) {
    status = plan(bind, top, need);
    if (!status) status = check_room(bind);
    if (!status) status = make_rows(bind);
    if (!status) status = bind_visits(bind);
    if (!status) status = widen_fronts(bind, &again);
    if (!status && again) throw_away(bind, &before, last);
  }
  if (!status) *out = top->bound;
  return status;
}

/* Without making rows: those before it were made, by the order of make_rows. */
tsr_status tsr__stage_frame(tsr__bind *stage, tsr_frame *df, bool rows, const bool *need,
                            tsr__bound *out)
{
  const tsr__bind before = *stage;
  const tsr__node *last = stage->scope->nodes;
  tsr__visit *top = visit(stage, df, rows);
  tsr_status status = top ? TSR_OK : stage->error.status;
  for (bool again = true; again && !status;) {
    status = plan(stage, top, need);
    if (!status) status = bind_visits(stage);
    if (!status) status = widen_fronts(stage, &again);
    if (!status && again) throw_away(stage, &before, last);
  }
  if (!status) *out = top->bound;
  return status;
}

/* ---- running ----------------------------------------------------------------------------- */

/* A value out of range, told by the run: where a row is to blame (its product wrapped, and so the
 * sum is nonsense), that row is what the user wants to know. A sum of products that overflowed
 * says only that the sum is out of range. The checks of rows, which did not run as the program
 * failed first, run now by themselves; if none blames a row the first message stands. */
static tsr_status blame_row(tsr__bind *bind, tsr_array **all)
{
  tsr__error said = bind->error;
  int n = 0;
  for (tsr__run_check *w = bind->checks; w; w = w->next)
    if (!w->row->value) all[n++] = w->row;
  bind->error = (tsr__error){ .status = TSR_OK };
  if (!n || !run_program(bind, all, n)) {
    if (tsr__look_at_checks(bind)) return bind->error.status;
  }
  bind->error = (tsr__error){ .status = TSR_OK };
  return tsr__error_set(&bind->error, said.status, "%s: %.900s", bind->what, said.text);
}

tsr_status tsr__bind_run(tsr__bind *bind, tsr_array **roots, int count)
{
  TSR_INVARIANT(!bind->asked); /* else nodes would hold nulls for what was not found yet */
  /* Checks run with the result, in the same pass over the data. */
  tsr_array **all = tsr__bind_room(bind, count + bind->check_count, sizeof(tsr_array *));
  int n = 0;
  if (!all) return bind->error.status;
  if (tsr_scope_status(bind->scope)) return tsr_scope_status(bind->scope);
  for (int i = 0; i < count; i++)
    if (roots[i] && !roots[i]->value) all[n++] = roots[i];
  for (tsr__run_check *w = bind->checks; w; w = w->next)
    if (!w->row->value) all[n++] = w->row;
  for (int i = 0; i < n; i++)
    if (all[i]->inert)
      return tsr__error_set(&bind->error, TSR_ENOMEM, "%s: out of memory", bind->what);
  tsr_status status = n ? run_program(bind, all, n) : TSR_OK;
  if (status == TSR_EVALUE) return blame_row(bind, all);
  return status ? status : tsr__look_at_checks(bind);
}
