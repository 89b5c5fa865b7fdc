/* Dictionaries of text: codes by first appearance, whatever the lengths and the bytes; UTF-8. */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "io/text/dict_flow.h"

static tsr__heap heap;

enum { PAD = 16, TEXTS = 3000 };

/* Bytes of few kinds, NULs among them, so that many texts begin alike. */
static size_t random_text(test_rng *rng, char *out)
{
  size_t length = (size_t)test_range(rng, 0, test_range(rng, 0, 3) ? 3 : 40);
  for (size_t i = 0; i < length; i++) out[i] = "ab\0"[test_range(rng, 0, 2)];
  return length;
}

struct texts {
  char bytes[TEXTS][40 + PAD];
  tsr__text_span fields[TEXTS];
  int32_t codes[TEXTS]; /* by a plain search */
  int32_t first[TEXTS]; /* of a code: the text */
  int32_t count;
};

static void make_texts(struct texts *t, uint64_t seed)
{
  test_rng rng = test_seeded(seed);
  t->count = 0;
  for (int i = 0; i < TEXTS; i++) {
    memset(t->bytes[i], 0xee, sizeof t->bytes[i]);
    t->fields[i] = (tsr__text_span){ t->bytes[i], random_text(&rng, t->bytes[i]) };
    int32_t c = 0;
    for (; c < t->count; c++) {
      const tsr__text_span *other = &t->fields[t->first[c]];
      if (other->length == t->fields[i].length &&
          memcmp(other->at, t->fields[i].at, other->length) == 0)
        break;
    }
    if (c == t->count) t->first[t->count++] = i;
    t->codes[i] = c;
  }
}

static void check_dict(const struct texts *t, const tsr__dict *dict)
{
  CHECK_I64(dict->count, t->count);
  for (int32_t c = 0; c < t->count; c++) {
    const tsr__text_span *text = &t->fields[t->first[c]];
    CHECK_I64(dict->offsets[c + 1] - dict->offsets[c], (int64_t)text->length);
    CHECK_BYTES(dict->bytes + dict->offsets[c], text->at, text->length);
  }
}

/* The texts cut into pieces, each with its own dictionary, some of them empty. */
static void check_pieces(const struct texts *t, int pieces, uint64_t seed)
{
  test_rng rng = test_seeded(seed);
  tsr__dict_local locals[8], *list[8];
  int begin[9] = { 0 };
  for (int p = 0; p < pieces; p++) {
    begin[p + 1] = p + 1 == pieces ? TEXTS : (int)test_range(&rng, begin[p], TEXTS);
    tsr__dict_local_init(&locals[p], &heap);
    list[p] = &locals[p];
  }
  int32_t *codes = malloc(TEXTS * sizeof *codes);
  for (int p = 0; p < pieces; p++)
    for (int i = begin[p], n; i < begin[p + 1]; i += n) {
      n = begin[p + 1] - i < 64 ? begin[p + 1] - i : 64;
      bool added;
      if (i % 3) tsr__dict_codes(&locals[p], &t->fields[i], n, &codes[i]);
      else
        codes[i] = tsr__dict_code(&locals[p], t->fields[i].at, t->fields[i].length, true, &added);
      if (i % 3 == 0) n = 1;
    }
  tsr__dict *dict = tsr__dict_unify(&heap, list, pieces);
  check_dict(t, dict);
  for (int p = 0; p < pieces; p++) {
    for (int i = begin[p]; i < begin[p + 1]; i++)
      CHECK_I64(locals[p].entries[codes[i]].code, t->codes[i]);
    tsr__dict_local_free(&locals[p]);
  }
  free(codes);
  tsr__dict_release(dict);
}

TEST(codes_follow_the_first_appearance)
{
  struct texts *t = malloc(sizeof *t);
  tsr__heap_init(&heap, NULL);
  for (uint64_t seed = 1; seed <= 5; seed++) {
    make_texts(t, seed);
    CHECK(t->count > 300);
    for (int pieces = 1; pieces <= 8; pieces++) check_pieces(t, pieces, seed);
  }
  free(t);
  CHECK_I64(heap.live, 0);
}

/* Texts `from` to `to` collected by a local, some at a time. */
static void collect(tsr__dict_local *local, test_rng *rng, const struct texts *t, int32_t *codes,
                    const int border[2])
{
  local->broken = true;
  for (int at = border[0], n; at < border[1]; at += n) {
    bool added;
    n = border[1] - at < 64 ? border[1] - at : 64;
    local->now = at;
    if (test_range(rng, 0, 1)) tsr__dict_codes(local, &t->fields[at], n, &codes[at]);
    else
      for (int k = at; k < at + n; k++)
        codes[k] = tsr__dict_code(local, t->fields[k].at, t->fields[k].length, false, &added);
    for (int k = at; k < at + n; k++) {
      tsr__text_span text = tsr__dict_local_text(local, codes[k]);
      CHECK(text.length == t->fields[k].length && !memcmp(text.at, t->fields[k].at, text.length));
    }
  }
}

/* Which rows each of up to TEXTS stripes has, and who reads it. */
typedef struct stripes {
  int count, border[TEXTS + 1], who[TEXTS], of[TEXTS]; /* by row: its stripe */
} stripes;

/* Stripes of so many texts and fewer, dealt to three workers. */
static void deal(stripes *s, test_rng *rng, int most)
{
  s->count = s->border[0] = 0;
  for (int i = 0, to; i < TEXTS; i = to) {
    to = i + (int)test_range(rng, 1, most);
    if (to > TEXTS) to = TEXTS;
    for (int k = i; k < to; k++) s->of[k] = s->count;
    s->who[s->count++] = (int)test_range(rng, 0, 2);
    s->border[s->count] = to;
  }
}

/* The stripes as they come, or each worker's in order, but its next ones before those of others. */
static void collect_all(const stripes *s, test_rng *rng, const struct texts *t, int32_t *codes,
                        tsr__dict_flows *flows, tsr__dict_local *locals)
{
  int next[3] = { 0 };
  for (int done = 0; done < s->count; done++) {
    int w = (int)test_range(rng, 0, 2);
    for (int turn = 0; turn < 3; turn++, w = (w + 1) % 3) {
      while (next[w] < s->count && s->who[next[w]] != w) next[w]++;
      if (next[w] < s->count) break;
    }
    int stripe = next[w]++;
    collect(&locals[w], rng, t, codes, &s->border[stripe]);
    CHECK(tsr__dict_flows_stripe(flows, stripe, w));
  }
  for (int w = 0; w < 3; w++) CHECK(tsr__dict_flows_rest(flows, w));
}

/* The list is the same whether texts flowed to it or were put side by side afterwards. */
static void check_layout(const struct texts *t, tsr_runtime *rt, tsr__text_layout layout, bool flow,
                         uint64_t seed)
{
  test_rng rng = test_seeded(seed);
  tsr__dict_local locals[3], *list[3];
  tsr__dict_flows flows = { 0 };
  int32_t *codes = malloc(TEXTS * sizeof *codes), run[3] = { 0 };
  stripes *s = malloc(sizeof *s);
  deal(s, &rng, 100);
  for (int w = 0; w < 3; w++) {
    list[w] = &locals[w];
    tsr__dict_local_init(&locals[w], &rt->heap);
    locals[w].layout = layout;
  }
  tsr__dict_flows_ask ask = { s->count, 3, 1, TEXTS, 40 * TEXTS, &flow };
  CHECK(tsr__dict_flows_open(&flows, &rt->heap, &ask));
  for (int w = 0; flow && w < 3; w++) flows.local[w] = &locals[w];
  collect_all(s, &rng, t, codes, &flows, locals);
  CHECK(tsr__dict_flows_has(&flows, 0) == flow);
  tsr__progress progress = { .rt = rt, .what = "test" };
  tsr__dict *dict = flow ? tsr__dict_flows_end(&flows, 0) : tsr__dict_unify(&rt->heap, list, 3);
  CHECK(dict && dict->repeats);
  const tsr__dict_once *once = tsr__dict_distinct(dict, &progress);
  CHECK(once && once == tsr__dict_distinct(dict, &progress));
  check_dict(t, once->dict);
  for (int i = 0; i < TEXTS; i++) {
    int w = s->who[s->of[i]];
    int32_t code = tsr__dict_final(&locals[w], codes[i], &run[w]);
    CHECK_I64(dict->offsets[code + 1] - dict->offsets[code], (int64_t)t->fields[i].length);
    CHECK_I64(once->map[code], t->codes[i]);
    if (layout == TSR__TEXTS_VIEWS) CHECK_I64(code, i);
  }
  tsr__dict_flows_close(&flows);
  for (int w = 0; w < 3; w++) tsr__dict_local_free(&locals[w]);
  free(codes);
  free(s);
  tsr__dict_release(dict);
}

TEST(layouts_tell_the_same)
{
  struct texts *t = malloc(sizeof *t);
  tsr_runtime *rt = tsr_runtime_open(NULL);
  for (uint64_t seed = 1; seed <= 5; seed++) {
    make_texts(t, seed);
    for (int flow = 0; flow < 2; flow++) {
      check_layout(t, rt, TSR__TEXTS_VIEWS, flow, seed);
      check_layout(t, rt, TSR__TEXTS_MIXED, flow, seed);
    }
  }
  free(t);
  tsr_runtime_close(rt);
}

/* A local for each stripe, as who reads rows of which nobody waits for another's; those that are
 * left are filled in from the last on. */
static void check_rows(const struct texts *t, tsr_runtime *rt, tsr__text_layout layout,
                       uint64_t seed)
{
  test_rng rng = test_seeded(seed);
  int32_t *codes = malloc(TEXTS * sizeof *codes);
  stripes *s = malloc(sizeof *s);
  deal(s, &rng, 700);
  size_t count = (size_t)s->count;
  tsr__dict_local *locals = malloc(count * sizeof *locals), **list = malloc(count * sizeof *list);
  tsr__dict_rest rest = { .locals = list,
                          .count = s->count,
                          .place = malloc(count * sizeof *rest.place) };
  for (size_t l = 0; l < count; l++) {
    list[l] = &locals[l];
    tsr__dict_local_init(&locals[l], &rt->heap);
    locals[l].layout = layout;
    collect(&locals[l], &rng, t, codes, &s->border[l]);
  }
  CHECK(tsr__dict_unify_rows(&rt->heap, &rest));
  CHECK(rest.dict->repeats == (layout != TSR__TEXTS_CODES));
  CHECK_I64(rest.from, rest.dict->repeats ? 0 : rest.count);
  for (int l = rest.count - 1; l >= rest.from; l--) tsr__dict_rest_fill(&rest, l);
  if (layout == TSR__TEXTS_CODES) check_dict(t, rest.dict);
  for (int i = 0, run = 0; i < TEXTS; i++) {
    int l = s->of[i];
    int64_t length;
    if (i == s->border[l]) run = 0;
    int32_t code = tsr__dict_final(&locals[l], codes[i], &run);
    const char *text = tsr__dict_get(rest.dict, code, &length);
    CHECK_I64(length, (int64_t)t->fields[i].length);
    CHECK_BYTES(text, t->fields[i].at, (size_t)length);
    if (layout == TSR__TEXTS_CODES) CHECK_I64(code, t->codes[i]);
    if (layout == TSR__TEXTS_VIEWS) CHECK_I64(code, i);
  }
  for (size_t l = 0; l < count; l++) tsr__dict_local_free(&locals[l]);
  tsr__dict_release(rest.dict);
  free(rest.place);
  free(locals);
  free(list);
  free(codes);
  free(s);
}

TEST(rows_that_follow_each_other_make_the_same_list)
{
  struct texts *t = malloc(sizeof *t);
  tsr_runtime *rt = tsr_runtime_open(NULL);
  for (uint64_t seed = 1; seed <= 5; seed++) {
    make_texts(t, seed);
    check_rows(t, rt, TSR__TEXTS_CODES, seed);
    check_rows(t, rt, TSR__TEXTS_VIEWS, seed);
    check_rows(t, rt, TSR__TEXTS_MIXED, seed);
  }
  free(t);
  tsr_runtime_close(rt);
}

static void add_ids(tsr__dict_local *local, int64_t from, int64_t count, int64_t modulus)
{
  char text[32 + PAD] = { 0 };
  bool added;
  for (int64_t i = from; i < from + count; i++) {
    int length = snprintf(text, sizeof text, "id-%lld", (long long)(i % modulus));
    local->now = i;
    tsr__dict_code(local, text, (size_t)length, true, &added);
  }
}

TEST(the_layout_follows_what_comes)
{
  enum { MANY = 300000 };
  tsr__dict_local few, ids;
  tsr__heap_init(&heap, NULL);
  tsr__dict_local_init(&few, &heap);
  tsr__dict_local_init(&ids, &heap);
  few.layout = ids.layout = TSR__TEXTS_CHOSEN;
  add_ids(&few, 0, 2 * MANY, MANY / 4);
  CHECK_I64(few.run_count, 0);
  add_ids(&ids, 0, MANY, MANY);
  CHECK(ids.run_texts > MANY / 2);
  CHECK(ids.count < MANY / 2);
  /* What repeats after all is looked up again. */
  add_ids(&ids, MANY, 5 * MANY, 1000);
  CHECK(!ids.unseen);
  tsr__dict_local_free(&few);
  tsr__dict_local_free(&ids);
  CHECK_I64(heap.live, 0);
}

/* Texts that differ in nothing but how many NULs they end with. */
/* Texts of many locals that turn out to be new, of some they are looked up before. */
TEST(what_is_left_is_chosen_by_what_came)
{
  enum { LOCALS = 12, EACH = 20000 };
  tsr_runtime *rt = tsr_runtime_open(NULL);
  for (int repeats = 0; repeats < 2; repeats++) {
    tsr__dict_local locals[LOCALS], *list[LOCALS];
    struct tsr__dict_place place[LOCALS];
    tsr__dict_rest rest = { .locals = list, .count = LOCALS, .place = place };
    for (int l = 0; l < LOCALS; l++) {
      list[l] = &locals[l];
      tsr__dict_local_init(&locals[l], &rt->heap);
      locals[l].layout = TSR__TEXTS_CHOSEN;
      add_ids(&locals[l], (int64_t)l * EACH, EACH, repeats ? EACH : INT64_MAX);
    }
    CHECK(tsr__dict_unify_rows(&rt->heap, &rest));
    CHECK(rest.dict->repeats == !repeats);
    CHECK_I64(rest.from, repeats ? LOCALS : TSR__TEXTS_TRIAL / EACH + 1);
    for (int l = rest.from; l < LOCALS; l++) tsr__dict_rest_fill(&rest, l);
    CHECK_I64(rest.dict->count, repeats ? EACH : LOCALS * EACH);
    CHECK_I64(rest.dict->came, LOCALS * EACH);
    for (int32_t i = 0; i < rest.dict->count; i++) {
      char id[32];
      int64_t length;
      snprintf(id, sizeof id, "id-%d", (int)i);
      const char *text = tsr__dict_get(rest.dict, i, &length);
      CHECK(length == (int64_t)strlen(id) && !memcmp(text, id, (size_t)length));
    }
    for (int l = 0; l < LOCALS; l++) tsr__dict_local_free(&locals[l]);
    tsr__dict_release(rest.dict);
  }
  tsr_runtime_close(rt);
}

TEST(nuls_at_the_end_count)
{
  static const char bytes[64 + PAD] = { 0 };
  tsr__dict_local local;
  tsr__heap_init(&heap, NULL);
  tsr__dict_local_init(&local, &heap);
  for (int round = 0; round < 2; round++)
    for (size_t length = 0; length < 64; length++) {
      bool added;
      CHECK_I64(tsr__dict_code(&local, bytes, length, false, &added), (int64_t)length);
      CHECK_I64(added, round == 0);
    }
  tsr__dict_local_free(&local);
  CHECK_I64(heap.live, 0);
}

/* Texts whose first bytes, or first block, made a hash 0 when its constants were known. */
TEST(chosen_texts_do_not_crowd)
{
  enum { CHOSEN = 20000 };
  const uint64_t k1 = UINT64_C(0x9e3779b97f4a7c15), k2 = UINT64_C(0xd6e8feb86659fd93);
  for (int blocks = 1; blocks <= 3; blocks++) {
    tsr__dict_local local;
    tsr__heap_init(&heap, NULL);
    tsr__dict_local_init(&local, &heap);
    for (uint64_t i = 0; i < CHOSEN; i++) {
      uint64_t text[8] = { k1, i, k1, k2, k1, k2 };
      bool added;
      if (blocks > 1) text[0] = i, text[1] = k2;
      CHECK_I64(tsr__dict_code(&local, (char *)text, (size_t)blocks * 16, true, &added),
                (int64_t)i);
    }
    CHECK(local.steps < 4 * CHOSEN);
    tsr__dict_local_free(&local);
  }
  CHECK_I64(heap.live, 0);
}

TEST(no_texts_make_an_empty_dictionary)
{
  tsr__heap_init(&heap, NULL);
  tsr__dict *dict = tsr__dict_unify(&heap, NULL, 0);
  CHECK_I64(dict->count, 0);
  CHECK_I64(dict->offsets[0], 0);
  tsr__dict_release(dict);
  tsr__dict_release(NULL);
  CHECK_I64(heap.live, 0);
}

/* Encodes a code point; the length, 0 for what UTF-8 does not have. */
static int encode(uint32_t c, char *out)
{
  if (c < 0x80) return out[0] = (char)c, 1;
  if (c < 0x800) return out[0] = (char)(0xc0 | c >> 6), out[1] = (char)(0x80 | (c & 63)), 2;
  if (c >= 0xd800 && c < 0xe000) return 0;
  int count = c < 0x10000 ? 3 : 4;
  out[0] = (char)(count == 3 ? 0xe0 | c >> 12 : 0xf0 | c >> 18);
  for (int i = 1; i < count; i++) out[i] = (char)(0x80 | (c >> (6 * (count - 1 - i)) & 63));
  return count;
}

/* What is valid is exactly what encoding can give: all code points pass, and of all first and
 * second bytes, followed by bytes that could follow, as many as there are code points. */
TEST(utf8_is_exactly_what_encoding_gives)
{
  char text[16];
  for (uint32_t c = 0; c < 0x110000; c++) {
    int length = encode(c, text);
    if (length && !tsr__utf8_valid(text, (size_t)length)) FAIL("U+%04X is refused", c);
    if (length > 1) CHECK(!tsr__utf8_valid(text, (size_t)length - 1));
  }
  int64_t three = 0, four = 0;
  for (int a = 0x80; a < 256; a++)
    for (int b = 0; b < 256; b++) {
      memcpy(text, (char[]){ (char)a, (char)b, (char)0x80, (char)0x80 }, 4);
      three += tsr__utf8_valid(text, 3);
      four += tsr__utf8_valid(text, 4);
    }
  CHECK_I64(three, (0x10000 - 0x800 - 0x800) / 64);
  CHECK_I64(four, 0x100000 / 4096);
}

TEST(utf8_in_long_texts)
{
  char text[40];
  for (size_t at = 0; at < 39; at++) {
    memset(text, 'x', sizeof text);
    CHECK(tsr__utf8_valid(text, 40));
    memcpy(text + at, "\xc3\xa9", 2);
    CHECK(tsr__utf8_valid(text, 40));
    text[at] = 'x';
    CHECK(!tsr__utf8_valid(text, 40));
    CHECK(tsr__utf8_valid(text, at + 1));
  }
}
