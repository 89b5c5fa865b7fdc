/* Random chains of stages against lists kept by hand: every field of every batch, on random meshes,
 * for any threads, in any order, and gone on from a state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"
#include "support/listed.h"

enum { MOST = 300, MOST_WIDTH = 300, STAGES = 4, LONGEST = 6 };

typedef struct world {
  test_rng rng;
  tsr_scope *s;
  tsr_source *source;
  listed l;
  char *bytes[8]; /* of sources */
  int sources, parted, cached;
  int which[STAGES]; /* fields that parts are made of */
} world;

/* ---- the leaf -------------------------------------------------------------------------------- */

/* Fields k (a small number), x [2], and the ragged w of at most LONGEST. */
static tsr_source *leaf(world *w, int64_t count, listed *l)
{
  *l = (listed){ 0 };
  int k = listed_add(l, "k", TSR_U8, (tsr_shape){ 0 });
  int x = listed_add(l, "x", TSR_I32, TSR_SHAPE(2));
  int tokens = listed_add(l, "w", TSR_I16, TSR_SHAPE(LONGEST));
  int length = listed_add(l, "w_length", TSR_I64, (tsr_shape){ 0 });
  listed_room(l, count);
  for (int64_t r = 0; r < count; r++) {
    *listed_at(l, r, k) = test_range(&w->rng, 0, 5);
    for (int i = 0; i < 2; i++) listed_at(l, r, x)[i] = test_range(&w->rng, -1000, 1000);
    int64_t n = *listed_at(l, r, length) = test_range(&w->rng, 0, LONGEST);
    for (int64_t i = 0; i < n; i++) listed_at(l, r, tokens)[i] = test_range(&w->rng, 1, 30000);
  }
  return listed_source(w->s, l, &w->bytes[w->sources++]);
}

/* Puts the list that a stage makes in the place of the old one. */
static void become(world *w, listed next, tsr_source *source)
{
  listed_free(&w->l);
  w->l = next;
  w->source = source;
}

/* ---- stages by hand -------------------------------------------------------------------------- */

static bool has_rank(const listed *l)
{
  for (int f = 0; f < l->fields; f++)
    if (l->field[f].shape.rank > 4) return false;
  return listed_find(l, "rows") < 0;
}

static void batch_both(world *w)
{
  const listed *from = &w->l;
  int64_t rows = test_range(&w->rng, 1, 4), stride = test_range(&w->rng, 1, 5), count = 0;
  tsr_remainder rest = (tsr_remainder)test_range(&w->rng, 1, 3);
  if (test_range(&w->rng, 0, 1)) stride = rows;
  if (!has_rank(from) || from->width * rows > MOST_WIDTH) return;
  listed to = { 0 };
  for (int f = 0; f < from->fields; f++) {
    tsr_shape shape = { .rank = from->field[f].shape.rank + 1, .dims = { rows } };
    for (int d = 1; d < shape.rank; d++) shape.dims[d] = from->field[f].shape.dims[d - 1];
    listed_add(&to, from->field[f].name, from->field[f].dtype, shape);
  }
  int told = rest == TSR_PAD_AND_MASK ? listed_add(&to, "rows", TSR_I64, (tsr_shape){ 0 }) : -1;
  /* Batches begin at 0, stride, ..., while not every record has been in one; a batch that is not
   * full is the last. */
  for (int64_t first = 0; first < from->count; first += stride, count++) {
    if (first + rows > from->count && rest == TSR_DROP) break;
    if (first + rows >= from->count) {
      count++;
      break;
    }
  }
  listed_room(&to, count);
  for (int64_t b = 0; b < count; b++)
    for (int64_t j = 0; j < rows; j++) {
      int64_t r = b * stride + j;
      if (r >= from->count && told >= 0) continue;
      if (told >= 0) ++*listed_at(&to, b, told);
      for (int f = 0; f < from->fields; f++)
        memcpy(listed_at(&to, b, f) + j * from->field[f].size, listed_at(from, r % from->count, f),
               (size_t)from->field[f].size * 8);
    }
  become(w, to, tsr_source_batch(w->source, .rows = rows, .stride = stride, .remainder = rest));
}

/* Windows within parts of the list: each by itself. */
static void files_both(world *w)
{
  const listed *from = &w->l;
  int64_t rows = test_range(&w->rng, 1, 4), stride = test_range(&w->rng, 1, 5), edge[4];
  tsr_source *part[3];
  int told = -1;
  tsr_remainder rest = (tsr_remainder)test_range(&w->rng, 1, 3);
  if (!has_rank(from) || from->width * rows > MOST_WIDTH) return;
  edge[0] = 0, edge[3] = from->count;
  edge[1] = test_range(&w->rng, 0, from->count);
  edge[2] = test_range(&w->rng, edge[1], from->count);
  listed to = { 0 };
  for (int f = 0; f < from->fields; f++) {
    tsr_shape shape = { .rank = from->field[f].shape.rank + 1, .dims = { rows } };
    for (int d = 1; d < shape.rank; d++) shape.dims[d] = from->field[f].shape.dims[d - 1];
    listed_add(&to, from->field[f].name, from->field[f].dtype, shape);
  }
  if (rest == TSR_PAD_AND_MASK) told = listed_add(&to, "rows", TSR_I64, (tsr_shape){ 0 });
  listed_room(&to, MOST);
  to.count = 0;
  for (int k = 0; k < 3; k++) {
    int64_t count = edge[k + 1] - edge[k];
    part[k] = tsr_source_slice(w->source, TSR_RANGE(edge[k], edge[k + 1]));
    for (int64_t first = 0; first < count; first += stride) {
      if (first + rows > count && rest == TSR_DROP) break;
      for (int64_t j = 0; j < rows; j++) {
        if (first + j >= count && told >= 0) continue;
        if (told >= 0) ++*listed_at(&to, to.count, told);
        for (int f = 0; f < from->fields; f++)
          memcpy(listed_at(&to, to.count, f) + j * from->field[f].size,
                 listed_at(from, edge[k] + (first + j) % count, f),
                 (size_t)from->field[f].size * 8);
      }
      to.count++;
      if (first + rows >= count) break;
    }
  }
  tsr_source *all = tsr_source_concat(part[0], part[1], part[2]);
  become(w, to,
         tsr_source_batch(all, .rows = rows, .stride = stride, .remainder = rest, .files = true));
}

static void unbatch_both(world *w)
{
  const listed *from = &w->l;
  int told = listed_find(from, "rows");
  int64_t rows = 0, count = 0;
  listed to = { 0 };
  for (int f = 0; f < from->fields; f++) {
    const listed_field *field = &from->field[f];
    tsr_shape shape = { .rank = field->shape.rank - 1 };
    if (f == told) continue;
    if (shape.rank < 0 || (rows && rows != field->shape.dims[0])) return;
    rows = field->shape.dims[0];
    for (int d = 0; d < shape.rank; d++) shape.dims[d] = field->shape.dims[d + 1];
    listed_add(&to, field->name, field->dtype, shape);
  }
  for (int64_t r = 0; r < from->count; r++) count += told < 0 ? rows : *listed_at(from, r, told);
  if (count > MOST) return;
  listed_room(&to, count);
  int64_t next = 0;
  for (int64_t r = 0; r < from->count; r++)
    for (int64_t j = 0; j < (told < 0 ? rows : *listed_at(from, r, told)); j++, next++)
      for (int f = 0; f < to.fields; f++)
        memcpy(listed_at(&to, next, f),
               listed_at(from, r, listed_find(from, to.field[f].name)) + j * to.field[f].size,
               (size_t)to.field[f].size * 8);
  become(w, to, tsr_source_unbatch(w->source));
}

static void pad_both(world *w)
{
  const listed *from = &w->l;
  int which = (int)test_range(&w->rng, 0, from->fields - 1);
  int64_t is = test_range(&w->rng, 1, 8), value = test_range(&w->rng, 0, 1) ? 0 : 7;
  bool front = test_range(&w->rng, 0, 1);
  const listed_field *field = &from->field[which];
  char told_name[100];
  snprintf(told_name, sizeof told_name, "%s_length", field->name);
  int told = listed_find(from, told_name);
  if (!field->shape.rank) return;
  if (told >= 0 && from->field[told].shape.rank) told = -1;
  int64_t was = field->shape.dims[0], row = was ? field->size / was : 1;
  if (from->width + (is - was) * row > MOST_WIDTH) return;
  listed to = { 0 };
  for (int f = 0; f < from->fields; f++) {
    tsr_shape shape = from->field[f].shape;
    if (f == which) shape.dims[0] = is;
    listed_add(&to, from->field[f].name, from->field[f].dtype, shape);
  }
  listed_room(&to, from->count);
  for (int64_t r = 0; r < from->count; r++) {
    listed_copy(&to, r, from, r);
    int64_t n = told < 0 ? was : *listed_at(from, r, told), kept = n < is ? n : is;
    int64_t *out = listed_at(&to, r, which), *in = listed_at(from, r, which);
    for (int64_t i = 0; i < is * row; i++) out[i] = value;
    for (int64_t i = 0; i < kept; i++) {
      int64_t at = front ? is - kept + i : i, of = front ? n - kept + i : i;
      memcpy(out + at * row, in + of * row, (size_t)row * 8);
    }
    if (told >= 0) *listed_at(&to, r, told) = kept;
  }
  tsr_scalar given = value ? tsr_scalar_int(value) : (tsr_scalar){ .kind = TSR_SCALAR_NONE };
  tsr_source *made =
      tsr_source_pad(w->source, field->name, .length = is, .value = given, .front = front);
  become(w, to, made);
}

static void one_hot_both(world *w)
{
  const listed *from = &w->l;
  int k = listed_find(from, "k");
  if (k < 0 || from->field[k].size * 6 + from->width > MOST_WIDTH ||
      from->field[k].shape.rank > 4 || from->field[k].dtype != TSR_U8)
    return;
  listed to = { 0 };
  for (int f = 0; f < from->fields; f++) {
    tsr_shape shape = from->field[f].shape;
    if (f == k) shape.dims[shape.rank++] = 8;
    listed_add(&to, from->field[f].name, f == k ? TSR_I64 : from->field[f].dtype, shape);
  }
  listed_room(&to, from->count);
  for (int64_t r = 0; r < from->count; r++) {
    listed_copy(&to, r, from, r);
    memset(listed_at(&to, r, k), 0, (size_t)to.field[k].size * 8);
    for (int64_t i = 0; i < from->field[k].size; i++)
      listed_at(&to, r, k)[i * 8 + listed_at(from, r, k)[i]] = 1;
  }
  become(w, to, tsr_source_one_hot(w->source, "k", .classes = 8, .dtype = TSR_I64));
}

/* Integers wrap. */
static void cast_both(world *w)
{
  static const tsr_dtype kinds[] = { TSR_I8, TSR_I16, TSR_I64 };
  const listed *from = &w->l;
  int which = listed_find(from, test_range(&w->rng, 0, 1) ? "x" : "w");
  tsr_dtype dtype = kinds[test_range(&w->rng, 0, 2)];
  if (which < 0) return;
  listed to = { 0 };
  for (int f = 0; f < from->fields; f++)
    listed_add(&to, from->field[f].name, f == which ? dtype : from->field[f].dtype,
               from->field[f].shape);
  listed_room(&to, from->count);
  for (int64_t r = 0; r < from->count; r++) {
    listed_copy(&to, r, from, r);
    for (int64_t i = 0; i < to.field[which].size; i++) {
      int64_t *v = listed_at(&to, r, which) + i;
      *v = dtype == TSR_I8 ? (int8_t)*v : dtype == TSR_I16 ? (int16_t)*v : *v;
    }
  }
  become(w, to, tsr_source_cast(w->source, to.field[which].name, .dtype = dtype));
}

static int byte_of(const tsr_record *record, const void *user)
{
  return *(const unsigned char *)record->in[*(const int *)user];
}

/* As many parts as the first byte of a field says, modulo 3. */
static int64_t parts_of(const tsr_record *record, void *user)
{
  return byte_of(record, user) % 3;
}

static tsr_status make_part(const tsr_record *record, int64_t part, void *user)
{
  int64_t made[2] = { part, byte_of(record, user) };
  memcpy(record->out[0], made, sizeof made);
  return TSR_OK;
}

static void flat_both(world *w)
{
  const listed *from = &w->l;
  int64_t count = 0;
  if (!from->field[0].size || listed_find(from, "part") >= 0) return;
  for (int64_t r = 0; r < from->count; r++) count += (*listed_at(from, r, 0) & 255) % 3;
  if (count > MOST || from->fields == LISTED_FIELDS) return;
  listed to = *from;
  int part = listed_add(&to, "part", TSR_I64, TSR_SHAPE(2));
  listed_room(&to, count);
  int64_t next = 0;
  for (int64_t r = 0; r < from->count; r++)
    for (int64_t p = 0; p < (*listed_at(from, r, 0) & 255) % 3; p++, next++) {
      listed_copy(&to, next, from, r);
      listed_at(&to, next, part)[0] = p;
      listed_at(&to, next, part)[1] = *listed_at(from, r, 0) & 255;
    }
  int *which = &w->which[w->parted++];
  while (strcmp(tsr_source_field_of(w->source, *which).name, from->field[0].name) != 0) ++*which;
  become(w, to,
         tsr_source_flat_map(w->source, make_part, .count = parts_of, .user = which,
                             .fields = { { "part", TSR_I64, TSR_SHAPE(2) } }));
}

static void slice_both(world *w)
{
  int64_t start = test_range(&w->rng, 0, w->l.count), step = test_range(&w->rng, 1, 3);
  int64_t count = (w->l.count - start + step - 1) / step;
  listed to = listed_like(&w->l, count);
  for (int64_t i = 0; i < count; i++) listed_copy(&to, i, &w->l, start + i * step);
  become(w, to, tsr_source_slice(w->source, TSR_STEPS(start, TSR_END, step)));
}

/* Rounds of a list of lists, a record at a time, as tf.data tells it: an end that is met frees the
 * place and ends the turn; a free place takes the next source when it is its turn. */
static void interleave_both(world *w)
{
  tsr_source *parts[6];
  int64_t at[6], end[6], order[6 * MOST];
  int count = (int)test_range(&w->rng, 1, 6), place[6], next = 0, turn = 0;
  int cycle = (int)test_range(&w->rng, 1, 6);
  int64_t block = test_range(&w->rng, 1, 4), made = 0, all = 0;
  for (int i = 0; i < count; i++) {
    at[i] = test_range(&w->rng, 0, w->l.count);
    end[i] = test_range(&w->rng, at[i], w->l.count);
    if (end[i] - at[i] > 20) end[i] = at[i] + 20;
    parts[i] = tsr_source_slice(w->source, TSR_RANGE(at[i], end[i]));
    all += end[i] - at[i];
  }
  if (all > MOST) return;
  for (int k = 0; k < cycle; k++) place[k] = -1;
  for (int idle = 0; idle <= cycle; turn = (turn + 1) % cycle) {
    int *here = &place[turn];
    if (*here < 0 && next < count) *here = next++;
    idle = *here < 0 ? idle + 1 : 0;
    for (int64_t taken = 0; *here >= 0 && taken < block; taken++) {
      if (at[*here] < end[*here]) order[made++] = at[*here]++;
      else *here = -1;
    }
  }
  CHECK_I64(made, all);
  listed to = listed_like(&w->l, all);
  for (int64_t i = 0; i < all; i++) listed_copy(&to, i, &w->l, order[i]);
  become(w, to, tsr_source_interleave(parts, count, .cycle = cycle, .block = block));
}

/* What is kept is the same, in memory, in part, and in a file that is made and used again. */
static void cache_both(world *w)
{
  char path[40];
  int64_t records = test_range(&w->rng, 0, w->l.count + 1);
  snprintf(path, sizeof path, "%d.cache", w->cached++);
  int64_t bytes = test_range(&w->rng, 0, 4000) * test_range(&w->rng, 0, 1);
  if (test_range(&w->rng, 0, 1))
    w->source = tsr_source_cache(w->source, .records = records, .bytes = bytes);
  else {
    remove(test_tmp(path));
    tsr_source_cache(w->source, .path = test_tmp(path));
    w->source = tsr_source_cache(w->source, .path = test_tmp(path));
  }
}

/* Behind sequences, in every dtype. */
enum { END = 7 };
static tsr_scalar end_of(bool ends)
{
  return ends ? tsr_scalar_int(END) : (tsr_scalar){ .kind = TSR_SCALAR_NONE };
}

/* All elements one behind the other, cut into packs. */
static void cut_both(world *w)
{
  const listed *from = &w->l;
  int f = listed_find(from, "w"), told = listed_find(from, "w_length");
  if (f < 0 || !from->field[f].shape.rank || from->count > MOST) return;
  if (told >= 0 && from->field[told].shape.rank) told = -1;
  int64_t was = from->field[f].shape.dims[0], row = was ? from->field[f].size / was : 1;
  int64_t length = test_range(&w->rng, 1, 9), all = 0, at = 0;
  if (length * (row + 2) > MOST_WIDTH) return;
  bool ends = test_range(&w->rng, 0, 1);
  for (int64_t r = 0; r < from->count; r++)
    all += (told < 0 ? was : *listed_at(from, r, told)) + ends;
  if (all > MOST * length) return;
  listed to = { 0 };
  tsr_shape shape = from->field[f].shape;
  shape.dims[0] = length;
  listed_add(&to, "w", from->field[f].dtype, shape);
  listed_add(&to, "w_positions", TSR_I32, TSR_SHAPE(length));
  listed_add(&to, "w_length", TSR_I64, (tsr_shape){ 0 });
  listed_room(&to, (all + length - 1) / length);
  for (int64_t r = 0; r < from->count; r++) {
    int64_t n = told < 0 ? was : *listed_at(from, r, told);
    for (int64_t i = 0; i < n + ends; i++, at++) {
      int64_t *here = listed_at(&to, at / length, 0) + at % length * row;
      for (int64_t e = 0; e < row; e++) here[e] = i < n ? listed_at(from, r, f)[i * row + e] : END;
      listed_at(&to, at / length, 1)[at % length] = i;
      *listed_at(&to, at / length, 2) = at % length + 1;
    }
  }
  tsr_source *made =
      tsr_source_pack(w->source, "w", .length = length, .way = TSR_PACK_CUT, .end = end_of(ends));
  become(w, to, tsr_source_select(made, "w,w_positions,w_length"));
}

/* First fit: each to the first of the last `open` packs that has room, else to a new one; best fit:
 * to the fullest of them. */
static void pack_both(world *w)
{
  const listed *from = &w->l;
  int f = listed_find(from, "w"), told = listed_find(from, "w_length"), packs = 0;
  if (f < 0 || !from->field[f].shape.rank || from->count > MOST) return;
  if (told >= 0 && from->field[told].shape.rank) told = -1;
  int64_t was = from->field[f].shape.dims[0], row = was ? from->field[f].size / was : 1;
  int64_t length = was + test_range(&w->rng, was ? 0 : 1, 6), open = test_range(&w->rng, 1, 4);
  int64_t used[MOST] = { 0 }, segments[MOST] = { 0 }, pack[MOST];
  bool best = test_range(&w->rng, 0, 1), ends = test_range(&w->rng, 0, 1);
  length += ends;
  if (length * (row + 2) > MOST_WIDTH) return;
  for (int64_t r = 0; r < from->count; r++) {
    int64_t n = (told < 0 ? was : *listed_at(from, r, told)) + ends;
    int b = packs > open ? packs - (int)open : 0;
    while (b < packs && used[b] + n > length) b++;
    for (int c = b + 1; best && c < packs; c++)
      if (used[c] + n <= length && used[c] > used[b]) b = c;
    if (b == packs) packs++;
    used[b] += n;
    pack[r] = b;
  }
  listed to = { 0 };
  tsr_shape shape = from->field[f].shape;
  shape.dims[0] = length;
  listed_add(&to, "w", from->field[f].dtype, shape);
  listed_add(&to, "w_segments", TSR_I32, TSR_SHAPE(length));
  listed_add(&to, "w_positions", TSR_I32, TSR_SHAPE(length));
  listed_add(&to, "w_length", TSR_I64, (tsr_shape){ 0 });
  listed_room(&to, packs);
  for (int64_t r = 0; r < from->count; r++) {
    int64_t b = pack[r], n = told < 0 ? was : *listed_at(from, r, told);
    int64_t *at = listed_at(&to, b, 3);
    memcpy(listed_at(&to, b, 0) + *at * row, listed_at(from, r, f), (size_t)(n * row) * 8);
    for (int64_t e = 0; ends && e < row; e++) listed_at(&to, b, 0)[(*at + n) * row + e] = END;
    segments[b] += n + ends > 0;
    for (int64_t i = 0; i < n + ends; i++, ++*at) {
      listed_at(&to, b, 1)[*at] = segments[b];
      listed_at(&to, b, 2)[*at] = i;
    }
  }
  become(w, to,
         tsr_source_pack(w->source, "w", .length = length, .open = (int)open,
                         .way = best ? TSR_PACK_BEST_FIT : TSR_PACK_FIRST_FIT,
                         .end = end_of(ends)));
}

static void gather_both(world *w)
{
  int64_t places[MOST], count = w->l.count ? test_range(&w->rng, 0, 60) : 0;
  listed to = listed_like(&w->l, count);
  for (int64_t i = 0; i < count; i++) {
    places[i] = test_range(&w->rng, 0, w->l.count - 1);
    listed_copy(&to, i, &w->l, places[i]);
  }
  become(w, to, tsr_source_gather(w->source, places, count));
}

/* Exact shares, by what they promise: of those whose records are below their share of the next
 * position, the one whose next record is due first, the first of equals. Shares are of the sources
 * that are still there, and begin anew when one goes. */
static void deal_both(world *w)
{
  enum { PARTS = 3 };
  static const int64_t lists[][PARTS] = { { 1, 1, 1 }, { 3, 1, 2 }, { 5, 7, 1 } };
  const int64_t *weight = lists[test_range(&w->rng, 0, 2)];
  tsr_sample_end end = (tsr_sample_end)test_range(&w->rng, 0, 2);
  tsr_source *part[PARTS];
  int64_t first[PARTS], count[PARTS], had[PARTS] = { 0 }, since[PARTS] = { 0 }, n = 0, all = 0;
  int64_t order[MOST], ended = 0;
  if (!w->l.count) return;
  for (int k = 0; k < PARTS; k++) {
    first[k] = test_range(&w->rng, 0, w->l.count - 1);
    count[k] = test_range(&w->rng, 1, w->l.count - first[k] < 12 ? w->l.count - first[k] : 12);
    part[k] = tsr_source_slice(w->source, TSR_RANGE(first[k], first[k] + count[k]));
  }
  for (n = 0; end == TSR_SAMPLE_FIRST || ended < PARTS; n++, all++) {
    double total = 0, due = 1e9;
    int next = -1;
    for (int k = 0; k < PARTS; k++)
      if (end != TSR_SAMPLE_ALL || had[k] < count[k]) total += (double)weight[k];
    for (int k = 0; k < PARTS; k++) {
      bool gone = end == TSR_SAMPLE_ALL && had[k] == count[k];
      double share = (double)((n + 1) * weight[k]) / total;
      double then = (double)(since[k] + 1) / (double)weight[k];
      if (!gone && (double)since[k] < share - 1e-9 && then < due - 1e-9) due = then, next = k;
    }
    if (end == TSR_SAMPLE_FIRST && had[next] == count[next]) break;
    order[all] = first[next] + had[next]++ % count[next];
    since[next]++;
    ended += had[next] == count[next];
    if (end != TSR_SAMPLE_ALL || had[next] < count[next]) continue;
    memset(since, 0, sizeof since);
    n = -1;
  }
  listed to = listed_like(&w->l, all);
  for (int64_t i = 0; i < all; i++) listed_copy(&to, i, &w->l, order[i]);
  become(w, to,
         tsr_source_sample(.parts = { { part[0], weight[0] },
                                      { part[1], weight[1] },
                                      { part[2], weight[2] } },
                           .end = end, .exact = true));
}

/* Some fields by one branch and the others by another. */
static void merge_both(world *w)
{
  char names[2][LISTED_FIELDS * 62] = { "", "" };
  for (int f = 0; f < w->l.fields; f++) {
    char *to = names[f ? test_range(&w->rng, 0, 1) : 0];
    snprintf(to + strlen(to), 62, "%s%s", *to ? "," : "", w->l.field[f].name);
  }
  if (!*names[1]) return;
  int64_t step = test_range(&w->rng, 1, 2), count = (w->l.count + step - 1) / step;
  tsr_source *part[2];
  for (int k = 0; k < 2; k++)
    part[k] = tsr_source_slice(tsr_source_select(w->source, names[k]), TSR_STEPS(0, TSR_END, step));
  listed to = listed_like(&w->l, count);
  for (int64_t i = 0; i < count; i++) listed_copy(&to, i, &w->l, i * step);
  become(w, to, tsr_source_merge(part[0], part[1]));
}

static void one_stage(world *w)
{
  switch (test_range(&w->rng, 0, 15)) {
  case 14: files_both(w); break;
  case 13: merge_both(w); break;
  case 0: batch_both(w); break;
  case 1: unbatch_both(w); break;
  case 2: pad_both(w); break;
  case 3: one_hot_both(w); break;
  case 4: flat_both(w); break;
  case 5: slice_both(w); break;
  case 6: interleave_both(w); break;
  case 7: cache_both(w); break;
  case 8: pack_both(w); break;
  case 9: cast_both(w); break;
  case 10: cut_both(w); break;
  case 11: gather_both(w); break;
  case 12: deal_both(w); break;
  default: batch_both(w), unbatch_both(w); break;
  }
}

/* ---- checking -------------------------------------------------------------------------------- */

/* Reads some batches; records[] of each row are its place in the list, by the ids of a range beside
 * the source where it is shuffled. */
static int64_t follow(world *w, tsr_pipeline *p, int64_t most, bool *met)
{
  int64_t n = 0;
  tsr_batch *b;
  for (; n < most && (b = tsr_pipeline_next(p)); n++, tsr_batch_release(b)) {
    int64_t places[64];
    size_t bytes = (size_t)tsr_batch_row_count(b) * sizeof *places;
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "place"), places, bytes), TSR_OK, w->s);
    for (int64_t i = 0; i < tsr_batch_row_count(b); i++) {
      if (i >= tsr_batch_count(b)) places[i] = -1;
      else CHECK(!met[places[i]]), met[places[i]] = true;
    }
    listed_check(b, &w->l, places);
  }
  CHECK_STATUS(tsr_scope_status(w->s), TSR_OK, w->s);
  return n;
}

static void trial(uint64_t seed)
{
  world w = { .rng = test_seeded(seed) };
  law_mesh m = law_open(&w.rng);
  w.s = tsr_scope_open(m.rt);
  w.source = leaf(&w, test_corner(&w.rng, 0, 60), &w.l);
  for (int64_t k = test_range(&w.rng, 1, STAGES); k > 0; k--) one_stage(&w);
  CHECK_STATUS(tsr_scope_status(w.s), TSR_OK, w.s);
  if (tsr_source_count(w.source) != w.l.count)
    FAIL("%lld records, expected %lld: %s", (long long)tsr_source_count(w.source),
         (long long)w.l.count, tsr_source_text(w.source));
  tsr_source *places = tsr_source_select(tsr_source_range(w.s, w.l.count), "index=place");
  tsr_pipeline_args how = { .size = sizeof how,
                            .source = tsr_source_zip(w.source, places),
                            .batch_size = test_range(&w.rng, 1, 40),
                            .shuffle = test_range(&w.rng, 0, 1),
                            .seed = seed,
                            .threads = (int)test_range(&w.rng, -1, 4),
                            .remainder =
                                test_range(&w.rng, 0, 1) ? TSR_PAD_AND_MASK : TSR_KEEP_SHORT,
                            .on = law_sharding(&w.rng, m.mesh, 1) };
  bool met[MOST * 8] = { 0 };
  static char state[1 << 16];
  size_t size;
  tsr_pipeline *p = tsr_pipeline_open_with(&how, TSR_HERE);
  int64_t all = tsr_pipeline_batch_count(p), first = test_range(&w.rng, 0, all);
  CHECK_I64(follow(&w, p, first, met), first);
  CHECK_STATUS(tsr_pipeline_save(p, state, sizeof state, &size), TSR_OK, w.s);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  how.threads = (int)test_range(&w.rng, -1, 4);
  how.state = state;
  how.state_size = size;
  p = tsr_pipeline_open_with(&how, TSR_HERE);
  CHECK_I64(follow(&w, p, INT64_MAX, met), all - first);
  for (int64_t r = 0; r < w.l.count; r++) CHECK(met[r]);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  listed_free(&w.l);
  tsr_scope_close(w.s);
  for (int i = 0; i < w.sources; i++) free(w.bytes[i]);
  tsr_runtime_close(m.rt);
}

TEST_TIMEOUT(stages_give_what_the_list_says, 300)
{
  law_each_seed(1, test_quick() ? 200 : 2000, trial);
}
