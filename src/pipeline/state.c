/* Where a pipeline is, as bytes that another one begins with.
 *
 *   "TSRPIPE2" | hash of what follows (8) | epoch (8) | batch in it (8) | order (8) |
 *   records seen (8) | bad ones of them (8) | length (4) | text of the source and of what decides
 *   its batches
 *
 * Numbers are little-endian. The order of records is arithmetic, so that place is all there is to
 * keep: what was filled ahead is filled again. The text is the fingerprint: one that differs is
 * another pipeline, and the first stage where they differ is what the error shows. */
#include "pipeline/pipeline_room.h"

enum { MAGIC = 8, HEAD = MAGIC + 6 * 8 + 4 };
static const char magic[] = "TSRPIPE2";

static void put_number(unsigned char *to, uint64_t number, int bytes)
{
  for (int i = 0; i < bytes; i++) to[i] = (unsigned char)(number >> 8 * i);
}

static uint64_t get_number(const unsigned char *from, int bytes)
{
  uint64_t number = 0;
  for (int i = 0; i < bytes; i++) number |= (uint64_t)from[i] << 8 * i;
  return number;
}

/* A sharding as it is in all processes. */
static void add_sharding(const char *what, const tsr_sharding *on, tsr__text *out)
{
  tsr__text_add(out, " > %s on(", what);
  if (on->mesh) {
    tsr__text_add(out, "%s ", tsr_mesh_text(on->mesh));
    tsr__type_add(out, TSR_F32, &(tsr_shape){ .rank = on->rank }, on);
  }
  tsr__text_add(out, ")");
}

/* What the processes of a pipeline must say alike beside what its records are. */
static void add_place(const tsr_pipeline_args *args, tsr__text *out)
{
  char share[32];
  tsr__text_f64(share, args->bad_share);
  add_sharding("all", &args->on, out);
  for (int i = 0; i < TSR_MAX_FIELDS && args->fields[i].name; i++)
    add_sharding(args->fields[i].name, &args->fields[i].on, out);
  tsr__text_add(out, " > map(%s) > ids(%s) > bad(at most %lld, a share of %s)",
                args->map ? "some" : "none", args->ids ? "told" : "untold",
                (long long)args->bad_most, share);
}

void tsr__fingerprint(const tsr_pipeline *p, tsr__text *out, bool place)
{
  /* Padded ones have the records of short ones: a state goes on with either. */
  static const char *const names[] = { "all", "drop", "all", "wrap" };
  static const char *const bad[] = { "", ", bad skipped", ", bad substituted", ", bad masked" };
  tsr__records_about(p->source, out);
  tsr__text_add(out, " > batch(");
  if (!p->source->dealer) tsr__text_add(out, "%lld, ", (long long)p->args.batch_size);
  tsr__text_add(out, "%s)", names[p->args.remainder]);
  if (!place) return;
  /* What becomes of bad records may change on the way: mostly it was one that ended the program. */
  tsr__text_add(out, "%s > epochs(%lld) > from(batch %lld)", bad[p->args.bad],
                (long long)p->args.epochs, (long long)p->delivered);
  add_place(&p->args, out);
}

tsr_status tsr_pipeline_save(tsr_pipeline *p, void *out, size_t room, size_t *needed)
{
  if (!p) return tsr__fail_null("tsr_pipeline_save", "pipeline", NULL);
  if (p->inert)
    return tsr__fail_inert(tsr__scope_here(p->node.scope), p->node.scope, NULL, "tsr_pipeline_save",
                           "pipeline");
  tsr__text text;
  tsr__text_init(&text, &p->node.scope->rt->heap);
  tsr__fingerprint(p, &text, false);
  size_t length = text.length, size = HEAD + length;
  tsr_status status = TSR_OK;
  if (text.failed)
    status = tsr__fail(p->node.scope, NULL, TSR_ENOMEM, "tsr_pipeline_save: no memory for a state");
  if (!status && needed) *needed = size;
  /* `needed` was set, so that a caller can ask first and then call again. */
  if (!status && out && room < size) status = TSR_EARG;
  if (!status && out) {
    unsigned char *to = out;
    /* By epoch and batch in it, not by a sum: what comes back may have another number of batches
     * only if its text differs. */
    int64_t each = p->batches ? p->batches : 1;
    int64_t epoch = p->stream ? p->stream_epoch : p->delivered / each;
    int64_t index = p->stream ? p->stream_index : p->delivered % each;
    memcpy(to, magic, MAGIC);
    put_number(to + 16, (uint64_t)epoch, 8);
    put_number(to + 24, (uint64_t)index, 8);
    put_number(to + 32, p->order, 8);
    put_number(to + 40, p->book ? (uint64_t)p->book->seen : 0, 8);
    put_number(to + 48, p->book ? (uint64_t)p->book->bad : 0, 8);
    put_number(to + 56, length, 4);
    memcpy(to + HEAD, tsr__text_get(&text), length);
    put_number(to + 8, tsr__hash(to + 16, size - 16, 0), 8);
  }
  tsr__text_free(&text);
  return status;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* The stage that begins at `at`, up to " > ". Texts of branches, "(a > b | c) > zip()", are cut
 * within their brackets as well: what is shown is the smallest piece that differs. */
static int stage_length(const char *at)
{
  const char *end = strstr(at, " > ");
  return end ? (int)(end - at) : (int)strlen(at);
}

void tsr__stages_differ(const char *one, const char *other, tsr__stage_pair *out)
{
  const char *at[2] = { one, other };
  for (out->stage = 1;; out->stage++) {
    int length[2] = { stage_length(at[0]), stage_length(at[1]) };
    bool same = length[0] == length[1] && !memcmp(at[0], at[1], (size_t)length[0]);
    for (int i = 0; i < 2; i++) {
      out->text[i] = at[i];
      out->length[i] = length[i] > 300 ? 300 : length[i];
    }
    if (!same || !at[0][length[0]] || !at[1][length[1]]) return;
    for (int i = 0; i < 2; i++) at[i] += length[i] + 3;
  }
}

static tsr_status tell_difference(const char *saved, const char *now, tsr__error *error)
{
  tsr__stage_pair pair;
  tsr__stages_differ(saved, now, &pair);
  return tsr__error_set(error, TSR_ESTATE,
                        "the state belongs to another pipeline: stage %d was '%.*s' and now is "
                        "'%.*s'; open the pipeline as it was when the state was saved",
                        pair.stage, pair.length[0], pair.text[0], pair.length[1], pair.text[1]);
}

static tsr_status check_text(const tsr_pipeline *p, const char *saved, size_t length,
                             tsr__error *error)
{
  tsr__text now, own;
  tsr__text_init(&now, &p->node.scope->rt->heap);
  tsr__text_init(&own, &p->node.scope->rt->heap);
  tsr__fingerprint(p, &now, false);
  tsr__text_put(&own, saved, length);
  if (now.failed || own.failed) tsr__error_set(error, TSR_ENOMEM, "no memory for a state");
  else if (now.length != length || memcmp(tsr__text_get(&now), saved, length) != 0)
    tell_difference(tsr__text_get(&own), tsr__text_get(&now), error);
  tsr__text_free(&now);
  tsr__text_free(&own);
  return error->status;
}

/* To a batch of an epoch. A stream begins that epoch again, and what was delivered of it is read
 * and dropped. */
static tsr_status go_to(tsr_pipeline *p, uint64_t epoch, uint64_t index, tsr__error *error)
{
  if (p->stream) {
    if (epoch > INT64_MAX / 2 || index > (uint64_t)(INT64_MAX / p->args.batch_size))
      return tsr__error_set(error, TSR_EPARSE, "the state does not belong to a stream");
    p->stream_epoch = (int64_t)epoch;
    p->stream_index = (int64_t)index;
    p->stream_skip = (int64_t)index * p->args.batch_size;
    return TSR_OK;
  }
  uint64_t each = (uint64_t)(p->batches ? p->batches : 1);
  /* A state of more epochs than are asked for now is at the end. In this order, so that the product
   * cannot overflow for a state that is a forgery. */
  bool past = index >= each || epoch >= (uint64_t)INT64_MAX / each ||
              epoch * each + index > (uint64_t)p->total;
  p->delivered = past ? p->total : (int64_t)(epoch * each + index);
  p->opened = p->from = p->delivered;
  return TSR_OK;
}

tsr_status tsr__state_load(tsr_pipeline *p, const void *state, size_t size, tsr__error *error)
{
  const unsigned char *from = state;
  /* States come from checkpoints, which others may have written: nothing is read before this. */
  if (size < HEAD || memcmp(from, magic, MAGIC) != 0)
    return tsr__error_set(error, TSR_EPARSE, "the %zu bytes are not a state of a pipeline", size);
  size_t length = (size_t)get_number(from + 56, 4);
  if (length != size - HEAD || get_number(from + 8, 8) != tsr__hash(from + 16, size - 16, 0))
    return tsr__error_set(error, TSR_EPARSE,
                          "the state is damaged: its %zu bytes do not match its checksum", size);
  if (check_text(p, (const char *)from + HEAD, length, error)) return error->status;
  if (go_to(p, get_number(from + 16, 8), get_number(from + 24, 8), error)) return error->status;
  /* Behind all checks: a state that is refused has changed nothing. */
  p->order = get_number(from + 32, 8);
  if (p->book) {
    p->book->seen = (int64_t)(get_number(from + 40, 8) & INT64_MAX);
    p->book->bad = (int64_t)(get_number(from + 48, 8) & INT64_MAX);
  }
  return TSR_OK;
}
