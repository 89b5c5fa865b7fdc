/* The lines on tables: group, sort, join, and reading CSV, each on one device and on eight.
 *
 *   a round   ours on 1 device, ours on 8, then each peer: every side has its columns in memory
 *             and leaves its result there; then results are compared, which is not timed */
#include "tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { ROUNDS = 5, MOST_PEERS = 4, MOST_LINES = 32 };

typedef struct work {
  const char *name;
  const char *columns; /* what is read of the table, NULL for joins */
  const char *keys, *formula;
  const char *check;           /* aggregates of the result, compared with the peer's */
  int read_bytes, write_bytes; /* a row of the input, a row of the result */
} work;

static const work groups[] = {
  { "group.g1", "id1, v1", "id1", "x = sum(v1)", "count(), sum(x)", 12, 12 },
  { "group.g2", "id1, id2, v1", "id1, id2", "x = sum(v1)", "count(), sum(x)", 16, 16 },
  { "group.g3", "id3, v1, v3", "id3", "a = sum(v1), x = mean(v3)", "count(), sum(x)", 20, 20 },
  { "group.g4", "id4, v1, v2, v3", "id4", "a = mean(v1), b = mean(v2), x = mean(v3)",
    "count(), sum(x)", 32, 32 },
  { "group.g5", "id6, v1, v2, v3", "id6", "a = sum(v1), b = sum(v2), x = sum(v3)",
    "count(), sum(x)", 32, 32 },
  { "group.g6", "id4, id5, v3", "id4, id5", "m = median(v3), x = std(v3)", "count(), sum(x)", 24,
    32 },
  { "group.g7", "id3, v1, v2", "id3", "x = max(v1) - min(v2)", "count(), sum(x)", 20, 12 },
  { "group.g8", "id6, x = v3", "id6", NULL, "count(), sum(x)", 16, 16 },
  { "group.g9", "id2, id4, v1, v2", "id2, id4", "x = corr(v1, v2) ** 2", "count(), sum(x)", 28,
    20 },
  { "group.g10", "id1, id2, id3, id4, id5, id6, v3", "id1, id2, id3, id4, id5, id6",
    "a = sum(v3), x = count()", "count(), sum(x)", 44, 52 },
};

static const work sorts[] = {
  { "sort.f64", "v3, id6", "v3", NULL, "count(), first(v3), last(v3)", 16, 16 },
  { "sort.i64", "id6, v3", "id6", NULL, "count(), first(id6), last(id6)", 16, 16 },
  { "sort.text", "id3, v3", "id3", NULL, "count(), first(id3), last(id3)", 12, 12 },
};

static const work joins[] = {
  { "join.small", NULL, "k", NULL, "count(), sum(w)", 16, 24 },
  { "join.mid", NULL, "k", NULL, "count(), sum(w)", 16, 24 },
  { "join.big", NULL, "k", NULL, "count(), sum(w)", 32, 24 },
};

/* Texts that do not repeat: ids of 21 bytes and sentences of about 50. `columns` tells those that
 * begin with the file from those whose columns lie in memory. */
static const work texts[] = {
  { "text.read", "file", NULL, NULL, "count(), sum(v)", 100, 100 },
  { "text.contains", "memory", NULL, NULL, "sum(n)", 60, 0 },
  { "text.contains.file", "file", NULL, NULL, "sum(n)", 100, 0 },
  { "text.upper", "memory", NULL, NULL, "sum(n)", 60, 0 },
  { "text.upper.file", "file", NULL, NULL, "sum(n)", 100, 0 },
  { "text.group", "memory", NULL, NULL, "count(), sum(x)", 40, 48 },
  { "text.nunique", "memory", NULL, NULL, "sum(n)", 32, 0 },
  { "text.sort", "memory", NULL, NULL, "count(), first(id), last(id)", 40, 40 },
  { "text.join", "memory", NULL, NULL, "count(), sum(w)", 44, 48 },
  { "text.write", "memory", NULL, NULL, "count(), sum(v)", 100, 100 },
};

/* As much as Polars takes at most: the bar of text.memory. */
static const double memory_bar = 1.3;

static const work files[] = {
  { "json.group", "file", NULL, NULL, "count(), sum(x)", 30, 1 },
  { "csv.gz", "file", NULL, NULL, "count(), sum(v1)", 51, 60 },
};

/* ---- one side's tables ---- */

typedef struct side {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_frame *table, *right; /* joins: table is the left one */
} side;

static bool failed(const char *name, tsr_scope *s)
{
  if (!tsr_scope_status(s)) return false;
  fprintf(stderr, "%s: %s\n", name, tsr_message(s));
  return true;
}

static void close_side(side *d)
{
  tsr_scope_close(d->s);
  tsr_runtime_close(d->rt);
}

static bool open_table(side *d, int devices)
{
  char names[16];
  snprintf(names, sizeof names, "cpu:%d", devices);
  d->rt = tsr_runtime_open(names, .threads = 2);
  d->s = tsr_scope_open(d->rt);
  const char *path = bench_table_csv();
  d->table = tsr_frame_keep(d->s, tsr_frame_read_csv(d->s, path ? path : ""));
  return !failed("tables", d->s);
}

static bool open_none(side *d, int devices)
{
  char names[16];
  snprintf(names, sizeof names, "cpu:%d", devices);
  d->rt = tsr_runtime_open(names, .threads = 2);
  d->s = tsr_scope_open(d->rt);
  return bench_table_json() && bench_table_gz();
}

static bool open_texts(side *d, int devices)
{
  char names[16];
  snprintf(names, sizeof names, "cpu:%d", devices);
  d->rt = tsr_runtime_open(names, .threads = 2);
  d->s = tsr_scope_open(d->rt);
  const char *path = bench_text_csv(false);
  d->table = tsr_frame_keep(d->s, tsr_frame_read_csv(d->s, path ? path : ""));
  path = bench_text_csv(true);
  d->right = tsr_frame_keep(d->s, tsr_frame_read_csv(d->s, path ? path : ""));
  return !failed("texts", d->s);
}

static tsr_array *npy(side *d, const char *name, const char *part)
{
  char path[640];
  snprintf(path, sizeof path, "%s/join_%s_%lld_%s.npy", bench_data_dir(), name,
           (long long)bench_table_rows(), part);
  return tsr_load_npy(d->s, path, tsr_on(tsr_mesh_default(d->rt, "data"), "data"));
}

static bool open_join(side *d, int devices, const char *name)
{
  char names[16];
  snprintf(names, sizeof names, "cpu:%d", devices);
  d->rt = tsr_runtime_open(names, .threads = 2);
  d->s = tsr_scope_open(d->rt);
  d->table = tsr_frame_new(d->s, { "k", npy(d, name, "lk") }, { "v", npy(d, name, "lv") });
  d->right = tsr_frame_new(d->s, { "k", npy(d, name, "rk") }, { "w", npy(d, name, "rw") });
  d->table = tsr_frame_keep(d->s, d->table);
  d->right = tsr_frame_keep(d->s, d->right);
  return !failed(name, d->s);
}

/* ---- one round ---- */

static tsr_frame *text_chain(const work *w, side *d, tsr_scope *inner)
{
  char path[640];
  const char *what = w->name + strlen("text.");
  bool file = !strcmp(w->columns, "file");
  tsr_frame *df =
      file ? tsr_frame_read_csv(inner, bench_text_csv(false)) : tsr_frame_keep(inner, d->table);
  if (!strncmp(what, "contains", 8))
    return tsr_frame_agg(tsr_frame_filter(df, "contains(s, 'bacone')"), "n = count()");
  if (!strncmp(what, "upper", 5))
    return tsr_frame_agg(tsr_frame_filter(df, "starts_with(upper(s), 'A')"), "n = count()");
  if (!strcmp(what, "group")) return tsr_frame_group_agg(df, "id", "n = count(), x = sum(v)");
  if (!strcmp(what, "nunique")) return tsr_frame_agg(df, "n = nunique(id)");
  if (!strcmp(what, "sort")) return tsr_frame_sort(tsr_frame_select(df, "id, v"), "id");
  if (!strcmp(what, "join"))
    return tsr_frame_join(tsr_frame_select(df, "id, v"), tsr_frame_keep(inner, d->right), "id");
  if (strcmp(what, "write")) return df;
  snprintf(path, sizeof path, "%s/written.csv", bench_data_dir());
  /* A failure is the scope's, too. */
  return tsr_frame_write_csv(df, path) ? tsr_frame_keep(inner, df) : df;
}

static tsr_frame *chain(const work *w, side *d, tsr_scope *inner)
{
  if (!strncmp(w->name, "text", 4)) return text_chain(w, d, inner);
  if (!strcmp(w->name, "csv.gz")) return tsr_frame_read_csv(inner, bench_table_gz());
  if (!strcmp(w->name, "json.group"))
    return tsr_frame_group_agg(tsr_frame_read_json(inner, bench_table_json()), "id1, id2",
                               "n = count(), x = sum(v1)");
  tsr_frame *df = tsr_frame_keep(inner, d->table);
  if (w->columns) df = tsr_frame_select_at(df, &(tsr_formula){ .text = w->columns }, TSR_HERE);
  if (!w->columns) return tsr_frame_join(df, tsr_frame_keep(inner, d->right), w->keys);
  if (w->formula)
    return tsr_frame_group_agg_at(df, w->keys, &(tsr_formula){ .text = w->formula }, TSR_HERE);
  if (!strncmp(w->name, "sort", 4)) return tsr_frame_sort(df, w->keys);
  return tsr_frame_group_head(tsr_frame_sort(df, "x desc"), w->keys, 2);
}

/* Seconds of one run; `result` gets the checked values as text. Negative: it failed. */
static double run_ours(const work *w, side *d, char *result, size_t size, double *cpu)
{
  tsr_scope *inner = tsr_scope_open(d->s);
  double before = bench_cpu(), start = bench_now();
  tsr_frame *df = tsr_frame_keep(inner, chain(w, d, inner));
  tsr_status status = tsr_scope_status(inner);
  double seconds = bench_now() - start;
  *cpu = bench_cpu() - before;
  tsr_table *t = NULL;
  if (!status)
    status =
        tsr_frame_collect(tsr_frame_agg_at(df, &(tsr_formula){ .text = w->check }, TSR_HERE), &t);
  if (status) failed(w->name, inner);
  size_t at = 0;
  for (int c = 0; !status && c < tsr_table_column_count(t) && at < size; c++)
    at += (size_t)snprintf(result + at, size - at, "%s%s", c ? " " : "", tsr_table_text(t, 0, c));
  tsr_scope_close(inner);
  return status ? -1 : seconds;
}

/* Whether two results agree: words equal, or numbers within rounding. */
static bool agree(const char *a, const char *b)
{
  while (*a && *b) {
    char *after_a, *after_b;
    double x = strtod(a, &after_a), y = strtod(b, &after_b);
    if (after_a != a && after_b != b) {
      if (fabs(x - y) > 1e-7 * fmax(fabs(x), fabs(y))) return false;
      a = after_a;
      b = after_b;
    } else if (*a++ != *b++) {
      return false;
    }
  }
  return !*a && !*b;
}

/* ---- a line ---- */

typedef struct line {
  const char *name;
  const char *peer[MOST_PEERS + 1];
  double ours[ROUNDS], eight[ROUNDS], theirs[MOST_PEERS][ROUNDS], limit[ROUNDS];
  double cpu[ROUNDS], eight_cpu[ROUNDS], peer_cpu[MOST_PEERS];
  int rounds;
  char result[256];
} line;

static bool ask_peers(line *l, bench_peer *peer, int round)
{
  for (int p = 0; l->peer[p]; p++) {
    char ask[64], answer[512] = "";
    snprintf(ask, sizeof ask, "%s %s", l->name, l->peer[p]);
    double seconds = bench_peer_ask(peer, ask, answer, sizeof answer);
    char *rest = answer;
    if (seconds >= 0) l->peer_cpu[p] = strtod(answer, &rest);
    l->theirs[p][round] = seconds;
    if (seconds < 0 && peer) fprintf(stderr, "%s %s: %s\n", l->name, l->peer[p], answer);
    if (seconds >= 0 && !agree(l->result, rest + strspn(rest, " "))) {
      fprintf(stderr, "%s: ours %s, %s has%s\n", l->name, l->result, l->peer[p], rest);
      return false;
    }
  }
  return true;
}

/* Prints the line against the best peer; returns its ratio, or 0 without peers. */
static double print_line(line *l)
{
  double best = -1, mine = bench_median(l->ours, l->rounds);
  const char *name = l->peer[0];
  char cpu[256] = "";
  for (int p = 0; l->peer[p]; p++) {
    double theirs = bench_median(l->theirs[p], l->rounds);
    if (theirs <= 0) continue;
    snprintf(cpu + strlen(cpu), sizeof cpu - strlen(cpu), ", %s %.3f s (CPU %.2f)", l->peer[p],
             theirs, l->peer_cpu[p]);
    if (best > 0 && theirs >= best) continue;
    best = theirs;
    name = l->peer[p];
  }
  bench_line(l->name, mine, name, best, bench_median(l->limit, l->rounds), "s");
  double busy = bench_median(l->cpu, l->rounds);
  printf("  CPU %.2f s%s\n", busy, cpu);
  if (l->eight[0] > 0)
    bench_eight(l->name, &(bench_pair){ bench_median(l->eight, l->rounds), mine,
                                        bench_median(l->eight_cpu, l->rounds), busy });
  return best > 0 ? best / mine : 0;
}

/* What reading and writing the named bytes once takes. */
static double move_limit(double bytes)
{
  static char *room;
  static int64_t have;
  int64_t want = (int64_t)bytes;
  if (want > have) {
    free(room);
    room = bench_written(want);
    have = room ? want : 0;
  }
  bench_span span = { room, want };
  return room ? bench_read_spans(&span, 1, 2) : -1;
}

static int run_work(const work *w, side *one, side *eight, bench_peer *peer, double *ratio)
{
  line l = { .name = w->name, .peer = { "polars", "duckdb" }, .rounds = ROUNDS };
  char other[256] = "";
  for (int r = -1; r < ROUNDS; r++) {
    int at = r < 0 ? 0 : r;
    l.ours[at] = run_ours(w, one, l.result, sizeof l.result, &l.cpu[at]);
    l.eight[at] = run_ours(w, eight, other, sizeof other, &l.eight_cpu[at]);
    if (l.ours[at] < 0 || l.eight[at] < 0) return 1;
    if (strcmp(l.result, other) != 0) {
      fprintf(stderr, "%s: one device %s, eight %s\n", w->name, l.result, other);
      return 1;
    }
    double result_rows = strtod(l.result, NULL);
    l.limit[at] =
        move_limit((double)bench_table_rows() * w->read_bytes + result_rows * w->write_bytes);
    if (!ask_peers(&l, peer, at)) return 1;
  }
  *ratio = print_line(&l);
  return 0;
}

static bench_peer *open_peer(void)
{
  char arguments[700];
  snprintf(arguments, sizeof arguments, "%s %lld 2", bench_data_dir(),
           (long long)bench_table_rows());
  return bench_peer_open("tables.py", arguments);
}

static bool wanted(const char *only, const char *name)
{
  size_t length = strlen(only);
  return !strncmp(only, name, length) && (!name[length] || name[length] == '.');
}

/* Runs the works of a list that `only` names; "group" names all of them. */
static int run_list(const work *list, int count, const char *only, const char *mean)
{
  side one, eight;
  bool (*open)(side *, int) = open_table;
  if (!strcmp(mean, "text")) open = open_texts;
  if (!strcmp(mean, "files")) open = open_none;
  if (!open(&one, 1) || !open(&eight, 8)) return 1;
  bench_peer *peer = open_peer();
  double logs = 0, ratio = 0;
  int result = 0, n = 0;
  for (int i = 0; i < count && !result; i++) {
    if (!wanted(only, list[i].name)) continue;
    result = run_work(&list[i], &one, &eight, peer, &ratio);
    if (ratio > 0) logs += log(ratio), n++;
  }
  if (!result && n == count)
    printf("  geometric mean of the ratios of %s: %.2f\n", mean, exp(logs / n));
  bench_peer_close(peer);
  close_side(&one);
  close_side(&eight);
  return result;
}

int bench_groups(const char *only)
{
  return run_list(groups, sizeof groups / sizeof *groups, only, "group");
}

int bench_sorts(const char *only)
{
  return run_list(sorts, sizeof sorts / sizeof *sorts, only, "sort");
}

int bench_texts(const char *only)
{
  return run_list(texts, sizeof texts / sizeof *texts, only, "text");
}

int bench_files(const char *only)
{
  return run_list(files, sizeof files / sizeof *files, only, "files");
}

/* ---- memory ---------------------------------------------------------------------------------- */

static const work *text_work(const char *name)
{
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (!strcmp(texts[i].name, name)) return &texts[i];
  return NULL;
}

/* What a line needs in memory, and no more. */
static bool open_needed(side *d, const work *w)
{
  d->rt = tsr_runtime_open("cpu:1", .threads = 2);
  d->s = tsr_scope_open(d->rt);
  if (!strcmp(w->columns, "memory"))
    d->table = tsr_frame_keep(d->s, tsr_frame_read_csv(d->s, bench_text_csv(false)));
  if (!strcmp(w->name, "text.join"))
    d->right = tsr_frame_keep(d->s, tsr_frame_read_csv(d->s, bench_text_csv(true)));
  return !failed(w->name, d->s);
}

/* "BYTES RESULT": the most that was ever resident, when the line was done. */
int bench_text_child(const char *name)
{
  side d = { 0 };
  struct rusage usage;
  char result[256] = "";
  double cpu;
  const work *w = text_work(name);
  if (!w || !open_needed(&d, w) || run_ours(w, &d, result, sizeof result, &cpu) < 0) return 1;
  getrusage(RUSAGE_SELF, &usage);
  printf("%lld %s\n", (long long)usage.ru_maxrss * 1024, result);
  close_side(&d);
  return 0;
}

static double memory_of_ours(const char *self, const char *name, char *result, size_t size)
{
  char command[2048], answer[300] = "", *rest = answer;
  snprintf(command, sizeof command, "exec '%s' --text '%s'", self, name);
  FILE *out = popen(command, "r");
  bool fine = out && fgets(answer, sizeof answer, out);
  if (out) fine = !pclose(out) && fine;
  double bytes = strtod(answer, &rest);
  snprintf(result, size, "%.*s", (int)strcspn(rest + 1, "\n"), rest + 1);
  return fine ? bytes : -1;
}

/* Of a process that did nothing else; negative: there is none, or its result is another. */
static double memory_of_peer(const char *name, const char *expected)
{
  char ask[64], answer[512] = "", *rest = answer;
  bench_peer *peer = open_peer();
  if (!peer) return -1;
  snprintf(ask, sizeof ask, "%s polars", name);
  double seconds = bench_peer_ask(peer, ask, answer, sizeof answer);
  if (seconds >= 0) strtod(answer, &rest);
  bool fine = seconds >= 0 && agree(expected, rest + strspn(rest, " "));
  if (!fine) fprintf(stderr, "%s: ours %s, polars has%s\n", name, expected, answer);
  if (fine) fine = bench_peer_ask(peer, "memory polars", answer, sizeof answer) >= 0;
  bench_peer_close(peer);
  return fine ? strtod(answer, NULL) : -1;
}

int bench_text_memory(const char *self)
{
  double most = 0, logs = 0;
  int n = 0;
  if (!bench_text_csv(false) || !bench_text_csv(true)) return 1;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char result[256], name[64];
    double ours = memory_of_ours(self, texts[i].name, result, sizeof result);
    if (ours < 0) return 1;
    double theirs = memory_of_peer(texts[i].name, result);
    snprintf(name, sizeof name, "%s.memory", texts[i].name);
    bench_line(name, ours * 1e-6, "polars", theirs * 1e-6, -1, "MB");
    if (theirs <= 0) continue;
    if (ours / theirs > most) most = ours / theirs;
    logs += log(ours / theirs), n++;
  }
  if (n)
    printf("  of Polars' memory at most %.2f, in the mean %.2f (bar %.1f)\n", most, exp(logs / n),
           memory_bar);
  return 0;
}

int bench_joins(const char *only)
{
  bench_peer *peer = NULL;
  int result = 0;
  for (int i = 0; i < 3 && !result; i++) {
    int64_t rows = bench_table_rows(), sizes[] = { 10, rows / 1000, rows };
    bench_join join = { joins[i].name + strlen("join."), sizes[i] };
    side one, eight;
    double ratio;
    if (!wanted(only, joins[i].name)) continue;
    if (!bench_join_files(&join)) return 1;
    if (!open_join(&one, 1, join.name) || !open_join(&eight, 8, join.name)) return 1;
    if (!peer) peer = open_peer();
    result = run_work(&joins[i], &one, &eight, peer, &ratio);
    close_side(&one);
    close_side(&eight);
  }
  bench_peer_close(peer);
  return result;
}

/* ---- reading ---- */

/* The runtime stays open from round to round, as the peers' processes do with their memory. */
static double read_once(tsr_runtime *rt, bool aggregate, char *result, size_t size, double *cpu)
{
  double before = bench_cpu(), start = bench_now();
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, bench_table_csv());
  df = aggregate ? tsr_frame_filter(df, "v3 > 50") : tsr_frame_keep(s, df);
  tsr_status status = tsr_scope_status(s);
  double seconds = bench_now() - start;
  *cpu = bench_cpu() - before;
  tsr_row *row = tsr_frame_row(tsr_frame_agg(df, "n = count(), x = sum(v1)"));
  if (aggregate) seconds = bench_now() - start;
  if (aggregate) *cpu = bench_cpu() - before;
  if (!status) status = tsr_row_status(row);
  if (status) failed("csv", s);
  else
    snprintf(result, size, "%lld %lld", (long long)tsr_row_i64(row, "n"),
             (long long)tsr_row_i64(row, "x"));
  tsr_scope_close(s);
  return status ? -1 : seconds;
}

static double read_limit(const char *path)
{
  FILE *file = fopen(path, "r");
  if (!file) return -1;
  fseek(file, 0, SEEK_END);
  double bytes = (double)ftell(file);
  fclose(file);
  return move_limit(bytes);
}

int bench_csv(bool aggregate)
{
  line l = { .name = aggregate ? "csv.agg" : "csv.read",
             .peer = { "polars", "duckdb", aggregate ? NULL : "pyarrow", "pandas" },
             .rounds = ROUNDS };
  const char *path = bench_table_csv();
  if (!path) return 1;
  bench_peer *peer = open_peer();
  char other[256] = "";
  tsr_runtime *one = tsr_runtime_open("cpu:1", .threads = 2);
  tsr_runtime *eight = tsr_runtime_open("cpu:8", .threads = 2);
  bool fine = true;
  for (int r = -1; r < ROUNDS && fine; r++) {
    int at = r < 0 ? 0 : r;
    l.ours[at] = read_once(one, aggregate, l.result, sizeof l.result, &l.cpu[at]);
    l.eight[at] = read_once(eight, aggregate, other, sizeof other, &l.eight_cpu[at]);
    fine = l.ours[at] >= 0 && l.eight[at] >= 0 && !strcmp(l.result, other);
    l.limit[at] = read_limit(path);
    fine = fine && ask_peers(&l, peer, at);
  }
  if (fine) print_line(&l);
  bench_peer_close(peer);
  tsr_runtime_close(one);
  tsr_runtime_close(eight);
  return !fine;
}
