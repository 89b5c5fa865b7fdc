/* What a pipeline did, for people and for programs.
 *
 *   filling    |map----|memory--|rows|  |map----|memory--|rows|      a thread's slices
 *               timed: the first block of each slice, by stage
 *   asking     ....wait|step........|wait|step........
 *
 * Stages are timed in a sample of blocks, so that it costs nothing that could be measured; what all
 * threads filled is known exactly and dealt to the stages by their shares of the sample. */
#include "pipeline/pipeline_room.h"

#include <time.h>

#include "base/events.h"

/* Shares, in percent: what counts as waiting at all, and as threads that have no rest. */
enum { WAITS = 10, FULL = 80, BLOCKED = 50 };

/* ---- collecting ------------------------------------------------------------------------------ */

void tsr__meter_stage(tsr__meter *meter, const char *kind, int64_t busy, int64_t records)
{
  int i = 0;
  /* Kinds are the sources' own constants, so their addresses tell them apart. Two stages of a kind
   * are one line: what they do is the same. */
  while (i < meter->count && meter->stage[i].kind != kind) i++;
  /* More kinds than there are stages in any real chain; what is beyond them shows as "rows". */
  if (i == TSR__METER_STAGES) return;
  if (i == meter->count) meter->stage[meter->count++] = (tsr__metered){ .kind = kind };
  meter->stage[i].busy += busy;
  meter->stage[i].records += records;
}

void tsr__figures_filled(tsr_pipeline *p, const tsr__doing *doing)
{
  tsr__took *f = &p->figures;
  int64_t below = 0;
  f->filled += doing->filled;
  /* Only its own threads say where they are (filler_main). */
  f->by_threads += doing->where ? doing->filled : 0;
  f->timed += doing->timed;
  for (int i = 0; i < doing->meter.count; i++) {
    const tsr__metered *m = &doing->meter.stage[i];
    tsr__meter_stage(&f->stages, m->kind, m->busy, m->records);
    below += m->busy;
  }
  /* What is left of a block is the pipeline's own: where rows go, zeros, replicas. */
  if (doing->timed > below) tsr__meter_stage(&f->stages, "rows", doing->timed - below, 0);
}

/* Four buckets an octave of nanoseconds. */
static int bucket_of(int64_t ns)
{
  uint64_t n = ns > 4 ? (uint64_t)ns : 4;
  int octave = 63 - __builtin_clzll(n);
  return octave * 4 + (int)(n >> (octave - 2) & 3);
}

void tsr__figures_asked(tsr_pipeline *p, int64_t begin, int ready)
{
  tsr__took *f = &p->figures;
  int64_t wait = tsr__now() - begin;
  /* Time counts from the first question on: what was filled before it is the warm start's gain. */
  if (!f->asked) f->first = begin;
  f->asked++;
  f->ready += ready;
  f->waited += wait;
  f->waits[bucket_of(wait)]++;
}

/* ---- what it comes to ------------------------------------------------------------------------ */

/* A wait that so many of a hundred did not exceed, in seconds. */
static double wait_of(const tsr__took *f, int percent)
{
  /* Upper ends of buckets: the text says "below". */
  int64_t seen = 0, wanted = (f->asked * percent + 99) / 100;
  for (int b = 0; b < TSR__WAITS; b++) {
    seen += f->waits[b];
    if (seen >= wanted && seen)
      return (double)((UINT64_C(4) + (uint64_t)(b & 3) + 1) << (b / 4)) / 4 * 1e-9;
  }
  return 0;
}

typedef struct summary {
  tsr__took took;     /* as it was in one moment: threads go on filling while it is told */
  double open, since; /* seconds since it was opened, and since the first batch was asked for */
  double waited, filled, cpu, queue, goodput;
  double left;                 /* seconds until the last batch; -1: nobody can tell */
  double by_threads;           /* of `filled`; callers who would have waited filled the rest */
  const tsr__metered *slowest; /* of `took`; NULL: nothing was timed */
  double stages;               /* nanoseconds of all */
  const char *verdict;
} summary;

/* Who is waited for, and what would help. */
static const char *judge(const tsr_pipeline *p, const summary *sum)
{
  double capacity = sum->since * (p->args.threads ? p->args.threads : 1);
  /* In this order: a verdict stands only where those before it do not, from "nothing to do" on. */
  if (sum->since <= 0 || sum->waited * 100 <= sum->since * WAITS)
    return "the consumer: batches are ready before the consumer asks for them";
  if (!p->args.threads)
    return "the pipeline: it has no threads, so the consumer fills each batch; give .threads";
  if (sum->cpu * 100 < sum->by_threads * BLOCKED)
    return "the pipeline: its threads wait more than they work, for input or for processors; more "
           ".threads wait in parallel";
  if (sum->by_threads * 100 > capacity * FULL)
    return "the pipeline: its threads are always busy; give more .threads, or less work to the "
           "slowest stage";
  return "the pipeline: the consumer asks for batches in bursts; a larger .prefetch keeps more "
         "batches ready";
}

/* As fast as the batches that were asked for so far, the use of each included. */
static double left_of(const tsr_pipeline *p, const summary *sum)
{
  int64_t asked = sum->took.asked, total = atomic_load(&p->total);
  if (p->closed || !asked || total == INT64_MAX) return -1;
  return (double)(total - p->delivered) * sum->since / (double)asked;
}

/* One moment under the lock, and all figures of it: they are shown side by side and must add up. */
static void summarize(tsr_pipeline *p, summary *out)
{
  const tsr__took *f = &out->took;
  int64_t now = tsr__now();
  *out = (summary){ .open = (double)(now - p->opened_at) * 1e-9 };
  if (p->locks) pthread_mutex_lock(&p->lock);
  out->took = p->figures;
  if (p->locks) pthread_mutex_unlock(&p->lock);
  if (f->asked) {
    out->since = (double)(now - f->first) * 1e-9;
    out->queue = (double)f->ready / (double)f->asked;
  }
  out->waited = (double)f->waited * 1e-9;
  out->filled = (double)f->filled * 1e-9;
  out->by_threads = (double)f->by_threads * 1e-9;
  for (int i = 0; i < f->stages.count; i++) {
    const tsr__metered *m = &f->stages.stage[i];
    out->stages += (double)m->busy;
    if (!out->slowest || m->busy > out->slowest->busy) out->slowest = m;
  }
  out->cpu = (double)tsr__ring_cpu(p) * 1e-9;
  /* Waits began before the first batch was there, so their sum may be a little above the time
   * since. */
  out->goodput = out->since > 0 ? 1 - out->waited / out->since : 1;
  if (out->goodput < 0) out->goodput = 0;
  out->left = left_of(p, out);
  out->verdict = judge(p, out);
}

/* Of what was timed, which is nothing before the first slice is filled. */
static double share_of(const summary *sum, const tsr__metered *m)
{
  return sum->stages > 0 ? (double)m->busy / sum->stages : 0;
}

/* ---- as text --------------------------------------------------------------------------------- */

static void add_number(tsr__text *out, double value, int after)
{
  char number[64];
  /* By the library's own printer: that of C follows the program's locale. */
  number[tsr__text_decimals(number, sizeof number, value, 'f', after)] = 0;
  tsr__text_add(out, "%s", number);
}

/* Names in a column, so that figures stand below each other. */
static void add_line(tsr__text *out, const char *name, double value, const char *of)
{
  tsr__text_add(out, "%-9s ", name);
  add_number(out, value, 3);
  tsr__text_add(out, " s%s\n", of);
}

/* Of all calls of tsr_pipeline_next, those that found a batch ready included. */
static void add_waits(const summary *sum, tsr__text *out)
{
  tsr__text_add(out, "waited    ");
  add_number(out, sum->waited, 3);
  tsr__text_add(out, " s in tsr_pipeline_next; half of the waits below ");
  add_number(out, wait_of(&sum->took, 50) * 1e6, 1);
  tsr__text_add(out, " us, 99 in 100 below ");
  add_number(out, wait_of(&sum->took, 99) * 1e6, 1);
  tsr__text_add(out, " us\ngoodput   ");
  add_number(out, sum->goodput * 100, 1);
  tsr__text_add(out, " %% of the time since the first batch was asked for\n");
}

/* What share of the field that decides is what records have, not what fills it up. */
static double used_of(const tsr__dealer *dealer)
{
  double used = 0, all = 0;
  for (int b = 0; b < dealer->bucket_count; b++) {
    used += (double)dealer->buckets[b].used;
    all += (double)dealer->buckets[b].records * (double)dealer->buckets[b].bound;
  }
  return all > 0 ? used / all : 1;
}

static void add_buckets(const tsr__dealer *dealer, tsr__text *out)
{
  tsr__text_add(out, "buckets   ");
  for (int b = 0; b < dealer->bucket_count; b++) {
    const tsr__bucket *bucket = &dealer->buckets[b];
    tsr__text_add(out, "%sup to %lld: %lld by %lld", b ? ", " : "", (long long)bucket->bound,
                  (long long)bucket->records, (long long)bucket->size);
  }
  tsr__text_add(out, "; ");
  add_number(out, used_of(dealer) * 100, 1);
  tsr__text_add(out, " %% of %s is data, the rest padding\n", dealer->field);
}

static void add_text(tsr_pipeline *p, tsr__text *out)
{
  const tsr__dealer *dealer = p->source->dealer;
  summary sum;
  summarize(p, &sum);
  tsr__records_about(p->source, out);
  tsr__text_add(out, "\nbatches   %lld of ", (long long)(p->delivered - p->from));
  if (dealer) tsr__text_add(out, "%lld to ", (long long)dealer->least);
  tsr__text_add(out, "%lld records; %lld an epoch\n", (long long)p->args.batch_size,
                (long long)p->batches);
  if (dealer) add_buckets(dealer, out);
  tsr__text_add(out, "records   %lld, %lld bytes", (long long)p->records, (long long)p->bytes);
  if (p->book) tsr__text_add(out, "; %lld bad records", (long long)p->book->bad);
  tsr__text_add(out, "\n");
  add_line(out, "open", sum.open, "");
  if (sum.left >= 0)
    add_line(out, "left", sum.left, " for the remaining batches, at the same speed");
  add_waits(&sum, out);
  tsr__text_add(out, "queue     ");
  add_number(out, sum.queue, 1);
  tsr__text_add(out, " of %d batches ready when one was asked for\n", p->depth);
  add_line(out, "filled", sum.filled, " over all threads");
  add_line(out, "cpu", sum.cpu, " of processors, of its own threads");
  for (int i = 0; i < sum.took.stages.count; i++) {
    const tsr__metered *m = &sum.took.stages.stage[i];
    tsr__text_add(out, "  %-12s ", m->kind);
    add_number(out, share_of(&sum, m) * sum.filled, 3);
    tsr__text_add(out, " s, ");
    add_number(out, share_of(&sum, m) * 100, 0);
    tsr__text_add(out, " %%\n");
  }
  tsr__text_add(out, "longest   %s\nslower    %s\n", sum.slowest ? sum.slowest->kind : "-",
                sum.verdict);
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static void put_double(tsr__text *out, const char *name, double value)
{
  char number[32];
  number[tsr__text_f64(number, value)] = 0;
  tsr__text_add(out, "\"%s\":%s,", name, number);
}

static void put_i64(tsr__text *out, const char *name, int64_t value)
{
  tsr__text_add(out, "\"%s\":%lld,", name, (long long)value);
}

static void put_stages(const summary *sum, tsr__text *out)
{
  tsr__text_add(out, "\"stages\":[");
  for (int i = 0; i < sum->took.stages.count; i++) {
    const tsr__metered *m = &sum->took.stages.stage[i];
    tsr__text_add(out, "%s{\"kind\":", i ? "," : "");
    tsr__text_json(out, m->kind);
    tsr__text_add(out, ",");
    put_double(out, "share", share_of(sum, m));
    put_double(out, "seconds", share_of(sum, m) * sum->filled);
    tsr__text_add(out, "\"timed_records\":%lld}", (long long)m->records);
  }
  tsr__text_add(out, "],\"longest\":");
  tsr__text_json(out, sum->slowest ? sum->slowest->kind : "");
}

static void put_buckets(const tsr__dealer *dealer, tsr__text *out)
{
  tsr__text_add(out, "\"buckets\":[");
  for (int b = 0; b < dealer->bucket_count; b++) {
    const tsr__bucket *bucket = &dealer->buckets[b];
    tsr__text_add(out, "%s{", b ? "," : "");
    put_i64(out, "bound", bucket->bound);
    put_i64(out, "batch_size", bucket->size);
    tsr__text_add(out, "\"records\":%lld}", (long long)bucket->records);
  }
  tsr__text_add(out, "],");
  put_double(out, "used", used_of(dealer));
}

static void put_bad(const tsr__bad_book *book, tsr__text *out)
{
  tsr__text_add(out, ",\"bad\":{");
  put_i64(out, "records", book->bad);
  put_i64(out, "of", book->seen);
  put_i64(out, "elsewhere", book->elsewhere);
  tsr__text_add(out, "\"places\":[");
  for (int i = 0; i < book->count; i++) {
    tsr__text_add(out, "%s{\"where\":", i ? "," : "");
    tsr__text_json(out, book->place[i].who);
    tsr__text_add(out, ",\"records\":%lld,\"first\":", (long long)book->place[i].count);
    tsr__text_json(out, book->place[i].first);
    tsr__text_add(out, "}");
  }
  tsr__text_add(out, "]}");
}

static void add_json(tsr_pipeline *p, tsr__text *out)
{
  summary sum;
  summarize(p, &sum);
  tsr__text_add(out, "{\"source\":");
  tsr__text_json(out, tsr_source_text(p->source));
  tsr__text_add(out, ",");
  put_i64(out, "batches", p->delivered - p->from);
  put_i64(out, "batch_size", p->args.batch_size);
  put_i64(out, "batches_an_epoch", p->batches);
  if (p->source->dealer) put_buckets(p->source->dealer, out);
  put_i64(out, "records", p->records);
  put_i64(out, "bytes", p->bytes);
  put_i64(out, "threads", p->args.threads);
  put_i64(out, "depth", p->depth);
  put_double(out, "open_seconds", sum.open);
  if (sum.left >= 0) put_double(out, "left_seconds", sum.left);
  put_double(out, "waited_seconds", sum.waited);
  put_double(out, "wait_half_seconds", wait_of(&sum.took, 50));
  put_double(out, "wait_99_in_100_seconds", wait_of(&sum.took, 99));
  put_double(out, "goodput", sum.goodput);
  put_double(out, "queue", sum.queue);
  put_double(out, "filled_seconds", sum.filled);
  put_double(out, "cpu_seconds", sum.cpu);
  tsr__text_add(out, "\"order\":\"%016llx\",", (unsigned long long)p->order);
  put_stages(&sum, out);
  tsr__text_add(out, ",\"slower\":");
  tsr__text_json(out, sum.verdict);
  if (p->book) put_bad(p->book, out);
  tsr__text_add(out, "}\n");
}

static const char *kept_text(tsr_pipeline *p, void (*add)(tsr_pipeline *p, tsr__text *out))
{
  if (!p || p->inert) return "";
  tsr_scope *scope = p->node.scope;
  tsr__text text;
  tsr__text_init(&text, &scope->rt->heap);
  add(p, &text);
  /* The text is good as long as the pipeline's scope, whatever is asked afterwards. */
  const char *kept =
      text.failed ? NULL : tsr__arena_text(&scope->arena, tsr__text_get(&text), text.length);
  tsr__text_free(&text);
  return kept ? kept : "";
}

const char *tsr_pipeline_text(tsr_pipeline *p)
{
  return kept_text(p, add_text);
}

const char *tsr_pipeline_json(tsr_pipeline *p)
{
  return kept_text(p, add_json);
}

uint64_t tsr_pipeline_order(const tsr_pipeline *p)
{
  return p ? p->order : 0;
}
