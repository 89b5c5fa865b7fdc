/* Streams: records that come in order, of which nobody knows how many there are.
 * Guards the devices. */
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

/* A number from 0 to one less. */
static int64_t below(test_rng *rng, int64_t count)
{
  return test_range(rng, 0, count - 1);
}

/* Records 0 .. count - 1 of an epoch, value = epoch * 1000 + record. */
typedef struct counted {
  int64_t count, at, epoch, begun, fail_at;
} counted;

static tsr_status next_counted(void *const *out, bool *ended, void *user)
{
  counted *c = user;
  if (c->fail_at && c->at == c->fail_at) return TSR_EIO;
  int64_t value = c->epoch * 1000 + c->at, half = value * 2;
  *ended = c->at == c->count;
  if (*ended) return TSR_OK;
  memcpy(out[0], &value, sizeof value);
  memcpy(out[1], &half, sizeof half);
  c->at++;
  return TSR_OK;
}

static tsr_status begin_counted(int64_t epoch, void *user)
{
  counted *c = user;
  c->epoch = epoch;
  c->at = 0;
  c->begun++;
  return epoch == 7 ? TSR_EVALUE : TSR_OK;
}

static tsr_source *counted_of(tsr_scope *s, counted *c)
{
  return tsr_source_stream(s, .fn = next_counted, .begin = begin_counted, .user = c,
                           .name = "counted",
                           .fields = { { "value", TSR_I64, { 0 } }, { "twice", TSR_I64, { 0 } } });
}

static tsr_status add_three(const tsr_record *record, void *user)
{
  int64_t value;
  (void)user;
  memcpy(&value, record->in[0], sizeof value);
  value += 3;
  memcpy(record->out[0], &value, sizeof value);
  return TSR_OK;
}

/* What the rest of a pipeline gives, as text: "e0 i1: 3 4 5; ". */
static void tell_rest(tsr_pipeline *p, char *out, size_t room)
{
  size_t at = 0;
  out[0] = 0;
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    int64_t value[50], twice[50];
    size_t n = (size_t)tsr_batch_row_count(b) * sizeof *value;
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "value"), value, n), TSR_OK, tsr_batch_scope(b));
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "twice"), twice, n), TSR_OK, tsr_batch_scope(b));
    at += (size_t)snprintf(out + at, room - at, "e%d i%d:", (int)tsr_batch_epoch(b),
                           (int)tsr_batch_index(b));
    for (int64_t i = 0; i < tsr_batch_row_count(b); i++) {
      at += (size_t)snprintf(out + at, room - at, " %d", (int)value[i]);
      if (i >= tsr_batch_count(b)) CHECK_I64(value[i] | twice[i] | ~tsr_batch_ids(b)[i], 0);
      else CHECK_I64(twice[i], 2 * value[i]);
      if (i < tsr_batch_count(b)) CHECK_I64(tsr_batch_ids(b)[i], value[i] % 1000);
    }
    at += (size_t)snprintf(out + at, room - at, "; ");
  }
}

/* The same, by hand; from batch `from` on. */
static void tell_counted(int64_t count, int64_t epochs, int64_t size, tsr_remainder remainder,
                         int64_t from, char *out)
{
  int64_t batch = 0;
  *out = 0;
  for (int64_t e = 0; e < epochs; e++)
    for (int64_t first = 0; first < count; first += size) {
      int64_t here = count - first < size ? count - first : size;
      if (here < size && remainder == TSR_DROP) continue;
      if (batch++ < from) continue;
      out += sprintf(out, "e%d i%d:", (int)e, (int)(first / size));
      for (int64_t i = 0; i < here; i++) out += sprintf(out, " %d", (int)(e * 1000 + first + i));
      for (int64_t i = here; i < size && remainder == TSR_PAD_AND_MASK; i++)
        out += sprintf(out, " 0");
      out += sprintf(out, "; ");
    }
}

TEST(streams_by_hand)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2");
  test_rng rng = test_seeded(3);
  static const tsr_remainder remainders[] = { TSR_KEEP_SHORT, TSR_DROP, TSR_PAD_AND_MASK };
  for (int round = 0; round < (test_quick() ? 40 : 300); round++) {
    tsr_scope *s = tsr_scope_open(rt);
    counted c = { .count = below(&rng, 20) };
    int64_t size = 1 + below(&rng, 7), epochs = 1 + below(&rng, 3);
    tsr_remainder remainder = remainders[below(&rng, 3)];
    int threads = (int)below(&rng, 4);
    char wanted[3000], found[3000], state[1000];
    tsr_source *stream = counted_of(s, &c);
    CHECK_I64(tsr_source_count(stream), -1);
    tsr_pipeline_args args = { .size = sizeof args,
                               .source = stream,
                               .batch_size = size,
                               .epochs = epochs,
                               .remainder = remainder,
                               .threads = threads ? threads : -1,
                               .prefetch = (int)below(&rng, 4),
                               .ids = true };
    if (remainder == TSR_PAD_AND_MASK) args.on = tsr_on(mesh, "data");
    if (remainder == TSR_PAD_AND_MASK && size % 2) args.batch_size = ++size;
    tsr_pipeline *p = tsr_pipeline_open_with(&args, TSR_HERE);
    CHECK_I64(tsr_pipeline_batch_count(p), -1);
    tell_counted(c.count, epochs, size, remainder, 0, wanted);
    tell_rest(p, found, sizeof found);
    CHECK_STR(found, wanted);
    CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
    int64_t batches = 0;
    for (const char *at = wanted; *at; at++) batches += *at == ';';
    /* Stopped somewhere and gone on with. */
    int64_t stop = below(&rng, batches + 1);
    p = tsr_pipeline_open_with(&args, TSR_HERE);
    for (int64_t i = 0; i < stop; i++) tsr_batch_release(tsr_pipeline_next(p));
    size_t bytes;
    CHECK_STATUS(tsr_pipeline_save(p, state, sizeof state, &bytes), TSR_OK, s);
    CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
    args.state = state;
    args.state_size = bytes;
    args.threads = 2;
    p = tsr_pipeline_open_with(&args, TSR_HERE);
    tell_counted(c.count, epochs, size, remainder, stop, wanted);
    tell_rest(p, found, sizeof found);
    CHECK_STR(found, wanted);
    CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(streams_without_end)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  for (int threads = -1; threads < 3; threads += 3) {
    counted c = { .count = 5 }, none = { .count = 0 };
    tsr_source *mapped =
        tsr_source_map(counted_of(s, &c), add_three, .fields = { { "more", TSR_I64, { 0 } } });
    mapped = tsr_source_select(mapped, "more,value");
    CHECK_STR_HAS(tsr_source_text(mapped),
                  "stream(counted, read again from the start of an epoch to restore the position: "
                  "any number of value i64[], twice i64[])");
    tsr_pipeline *p = tsr_pipeline_open(mapped, .batch_size = 2, .epochs = -1, .threads = threads);
    for (int i = 0; i < 12; i++) {
      int64_t more[2];
      tsr_batch *b = tsr_pipeline_next(p);
      CHECK(b);
      CHECK_I64(tsr_batch_epoch(b), i / 3);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "more"), more,
                            (size_t)tsr_batch_count(b) * sizeof *more),
                   TSR_OK, s);
      CHECK_I64(more[0], i / 3 * 1000 + i % 3 * 2 + 3);
      tsr_batch_release(b);
    }
    CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
    p = tsr_pipeline_open(counted_of(s, &none), .epochs = -1, .threads = threads);
    CHECK(!tsr_pipeline_next(p));
    CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(streams_that_are_refused)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  counted c = { .count = 9, .fail_at = 5 };
  tsr_source *stream = counted_of(s, &c);
  tsr_source_shuffle(stream, .seed = 1);
  CHECK_STATUS(tsr_scope_status(s), TSR_EARG, s);
  CHECK_STR_HAS(tsr_message(s), "tsr_source_shuffle: a stream has an order");
  tsr_scope_clear(s);
  for (int threads = -1; threads < 3; threads += 3) {
    tsr_pipeline *p = tsr_pipeline_open(stream, .batch_size = 2, .threads = threads);
    int batches = 0;
    for (tsr_batch *b; (b = tsr_pipeline_next(p)); batches++) tsr_batch_release(b);
    CHECK_I64(batches, 2);
    CHECK_STATUS(tsr_pipeline_close(p), TSR_EIO, NULL);
    CHECK_STR_HAS(tsr_message(s), "counted: record 5: the function returned TSR_EIO");
    tsr_scope_clear(s);
  }
  c.fail_at = 0;
  tsr_pipeline *p = tsr_pipeline_open(stream, .batch_size = 2, .threads = -1);
  CHECK_STATUS(tsr_pipeline_close(tsr_pipeline_open(stream, .batch_size = 2)), TSR_ESTATE, NULL);
  CHECK_STR_HAS(tsr_message(s), "another pipeline reads the stream counted");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  CHECK_STATUS(tsr_pipeline_close(tsr_pipeline_open(stream, .remainder = TSR_WRAP)), TSR_EARG,
               NULL);
  tsr_scope_clear(s);
  tsr_source *once =
      tsr_source_stream(s, .fn = next_counted, .user = &c,
                        .fields = { { "value", TSR_I64, { 0 } }, { "twice", TSR_I64, { 0 } } });
  CHECK_STATUS(tsr_pipeline_close(tsr_pipeline_open(once, .epochs = 2)), TSR_EARG, NULL);
  tsr_scope_clear(s);
  p = tsr_pipeline_open(once, .batch_size = 4);
  tsr_batch_release(tsr_pipeline_next(p));
  CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  CHECK_STATUS(tsr_pipeline_close(tsr_pipeline_open(once, .batch_size = 4)), TSR_ESTATE, NULL);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
