/* Catalogs of steps: pieces are all of an entry and none is there twice, whatever they were cut to;
 * parts of many processes are joined to one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint_room.h"
#include "harness.h"

/* A catalog on the C library's memory, of one file that is long enough for everything. */
static void begin(tsr__catalog *c, tsr__heap *heap, const char *file)
{
  tsr__heap_init(heap, NULL);
  tsr__catalog_init(c, heap);
  tsr__data_file *data = tsr__catalog_file(c);
  CHECK(data);
  *data = (tsr__data_file){ .name = file, .bytes = INT64_MAX / 2, .header = 64 };
}

static tsr__listed *add_entry(tsr__catalog *c, const char *name, tsr_shape shape)
{
  tsr__listed *entry = tsr__catalog_entry(c);
  CHECK(entry);
  entry->kind = TSR_SAVED_ARRAY;
  entry->dtype = TSR_F64;
  entry->shape = shape;
  entry->name = tsr__arena_text(&c->arena, name, strlen(name));
  return entry;
}

static void add_piece(tsr__catalog *c, const tsr_box *box, int rank)
{
  tsr__extent *piece = tsr__catalog_piece(c, tsr__box_count(box, rank) * 8);
  CHECK(piece);
  piece->box = *box;
  piece->at = 64;
}

/* ---- pieces of an entry ---------------------------------------------------------------------- */

enum { SIDE = 7, BOXES = 400 };

/* Cuts a box into two along any dim, again and again, as no grid has it. */
static int cut(test_rng *rng, tsr_box box, int rank, int depth, tsr_box *out)
{
  int dim = (int)test_range(rng, 0, rank - 1);
  if (!depth || box.size[dim] < 2) {
    *out = box;
    return 1;
  }
  tsr_box left = box, right = box;
  left.size[dim] = test_range(rng, 1, box.size[dim] - 1);
  right.start[dim] += left.size[dim];
  right.size[dim] -= left.size[dim];
  int count = cut(rng, left, rank, depth - 1, out);
  return count + cut(rng, right, rank, depth - 1, out + count);
}

/* Five boxes around a middle that no straight cut parts. */
static int wheel(tsr_box *out)
{
  static const int64_t boxes[5][4] = {
    { 0, 0, 2, 5 }, { 2, 0, 5, 2 }, { 5, 2, 2, 5 }, { 0, 5, 5, 2 }, { 2, 2, 3, 3 }
  };
  for (int i = 0; i < 5; i++)
    out[i] = (tsr_box){ { boxes[i][0], boxes[i][1] }, { boxes[i][2], boxes[i][3] } };
  return 5;
}

/* Whether each element of a cube is in one box, by marking them. */
static bool is_cover(const tsr_box *box, int count, int rank)
{
  static int seen[SIDE * SIDE * SIDE];
  int total = rank == 3 ? SIDE * SIDE * SIDE : SIDE * SIDE;
  memset(seen, 0, sizeof seen);
  for (int i = 0; i < count; i++)
    for (int e = 0; e < total; e++) {
      int64_t at[3] = { e % SIDE, e / SIDE % SIDE, e / SIDE / SIDE };
      bool inside = true;
      for (int d = 0; d < rank; d++)
        inside = inside && at[d] >= box[i].start[d] && at[d] < box[i].start[d] + box[i].size[d];
      seen[e] += inside;
    }
  for (int e = 0; e < total; e++)
    if (seen[e] != 1) return false;
  return true;
}

static bool is_whole(const tsr_box *box, int count, int rank)
{
  tsr__catalog c;
  tsr__heap heap;
  tsr__error error = { .status = TSR_OK };
  begin(&c, &heap, "data");
  add_entry(&c, "w", (tsr_shape){ rank, { SIDE, SIDE, SIDE } });
  for (int i = 0; i < count; i++) add_piece(&c, &box[i], rank);
  tsr_status status = tsr__catalog_check(&c, &error);
  tsr__catalog_free(&c);
  return status == TSR_OK;
}

TEST(pieces_that_are_all_of_it_once_and_others)
{
  test_rng rng = test_seeded(5);
  int whole = 0, not_whole = 0;
  for (int round = 0; round < 3000; round++) {
    tsr_box box[BOXES] = { { { 0 }, { 0 } } };
    int rank = (int)test_range(&rng, 2, 3);
    tsr_box all = { .size = { SIDE, SIDE, rank == 3 ? SIDE : 0 } };
    bool turns = rank == 2 && round % 5 == 0;
    int count = turns ? wheel(box) : cut(&rng, all, rank, (int)test_range(&rng, 0, 7), box);
    for (int i = count - 1; i > 0; i--) { /* in any order */
      int k = (int)test_range(&rng, 0, i);
      tsr_box kept = box[i];
      box[i] = box[k];
      box[k] = kept;
    }
    /* One is moved, grown and made smaller, twice there or gone. */
    int what = (int)test_range(&rng, 0, 4), which = (int)test_range(&rng, 0, count - 1);
    int dim = (int)test_range(&rng, 0, rank - 1);
    if (what == 1 && box[which].start[dim] > 0) box[which].start[dim]--;
    if (what == 2 && count > 1) box[which] = box[(which + 1) % count];
    if (what == 3 && box[which].size[dim] > 1) box[which].size[dim]--;
    if (what == 4) box[count] = box[which], count++;
    bool expected = is_cover(box, count, rank);
    if (is_whole(box, count, rank) != expected) FAIL("round %d: expected %d", round, expected);
    if (expected) whole++;
    else not_whole++;
  }
  CHECK(whole > 500 && not_whole > 500);
}

/* Two halves along each dim of each rank, and the first of them twice. */
TEST(pieces_cut_along_any_dim)
{
  for (int rank = 1; rank <= TSR_MAX_RANK; rank++)
    for (int dim = 0; dim < rank; dim++)
      for (int twice = 0; twice < 2; twice++) {
        tsr__catalog c;
        tsr__heap heap;
        tsr__error error = { .status = TSR_OK };
        tsr_shape shape = { .rank = rank };
        tsr_box box = { { 0 }, { 0 } };
        for (int d = 0; d < rank; d++) shape.dims[d] = box.size[d] = 1;
        shape.dims[dim] = 2;
        begin(&c, &heap, "data");
        add_entry(&c, "w", shape);
        add_piece(&c, &box, rank);
        box.start[dim] = !twice;
        add_piece(&c, &box, rank);
        CHECK_I64(tsr__catalog_check(&c, &error), twice ? TSR_EPARSE : TSR_OK);
        tsr__catalog_free(&c);
      }
}

/* As many pieces as a large job has, cut along any one dim, or along two: to compare each with each
 * would take more than is allowed. */
TEST(pieces_of_many_devices)
{
  enum { ENTRIES = 30, PIECES = 4096, ROOT = 64 };
  for (int how = 0; how < 3; how++) {
    tsr__catalog c;
    tsr__heap heap;
    tsr__error error = { .status = TSR_OK };
    begin(&c, &heap, "data");
    for (int e = 0; e < ENTRIES; e++) {
      char name[16];
      snprintf(name, sizeof name, "w%d", e);
      tsr_shape shape = { 2, { how == 1 ? 3 : PIECES, how == 0 ? 3 : PIECES } };
      if (how == 2) shape = (tsr_shape){ 2, { ROOT, ROOT } };
      add_entry(&c, name, shape);
      for (int p = 0; p < PIECES; p++) {
        tsr_box box = how == 0   ? (tsr_box){ { p, 0 }, { 1, 3 } }
                      : how == 1 ? (tsr_box){ { 0, p }, { 3, 1 } }
                                 : (tsr_box){ { p / ROOT, p % ROOT }, { 1, 1 } };
        add_piece(&c, &box, 2);
      }
    }
    CHECK_STATUS(tsr__catalog_check(&c, &error), TSR_OK, NULL);
    tsr__catalog_free(&c);
  }
}

/* ---- parts ----------------------------------------------------------------------------------- */

enum { PARTS = 40, ARRAYS = 500 };

/* What process `p` wrote: row p of each array, and a blob, of which some have one name. */
static void make_part(tsr__catalog *c, tsr__heap *heap, int p)
{
  char name[32];
  snprintf(name, sizeof name, "data-%d", p);
  begin(c, heap, "");
  c->file[0].name = tsr__arena_text(&c->arena, name, strlen(name));
  c->step = 3;
  c->form = "*";
  for (int a = 0; a < ARRAYS; a++) {
    snprintf(name, sizeof name, "w%d", a);
    add_entry(c, name, (tsr_shape){ 2, { PARTS, 2 } });
    add_piece(c, &(tsr_box){ { p, 0 }, { 1, 2 } }, 2);
    c->sum[c->sums - 1] = (uint32_t)(p * ARRAYS + a);
  }
  snprintf(name, sizeof name, "b%d", p / 2);
  add_entry(c, name, (tsr_shape){ 1, { 1 } })->kind = TSR_SAVED_BLOB;
  add_piece(c, &(tsr_box){ { 0 }, { 1 } }, 1);
}

TEST(parts_of_many_processes_are_joined)
{
  static tsr__catalog part[PARTS];
  static tsr__heap heap[PARTS];
  tsr__error error = { .status = TSR_OK };
  for (int p = 0; p < PARTS; p++) make_part(&part[p], &heap[p], p);
  CHECK_STATUS(tsr__catalog_join(&part[0], &part[1], PARTS - 1, &error), TSR_OK, NULL);
  tsr__catalog *c = &part[0];
  CHECK_STATUS(tsr__catalog_check(c, &error), TSR_OK, NULL);
  CHECK_U64(c->entries, ARRAYS + PARTS / 2);
  CHECK_U64(c->files, PARTS);
  for (size_t i = 0; i < ARRAYS; i++) {
    CHECK_I64(c->entry[i].count, PARTS);
    for (int64_t k = 0; k < PARTS; k++) {
      const tsr__extent *piece = &c->piece[c->entry[i].first + k];
      CHECK_I64(piece->box.start[0], k);
      CHECK_I64(piece->file, k);
      CHECK_U64(c->sum[piece->sum], (uint64_t)k * ARRAYS + i);
    }
  }
  /* Another process saves another tree. */
  tsr__catalog other;
  tsr__heap own;
  make_part(&other, &own, 1);
  other.entry[7].dtype = TSR_F32;
  part[1].form = "*";
  CHECK_STATUS(tsr__catalog_join(&part[2], &other, 1, &error), TSR_EPEER, NULL);
  CHECK_STR_HAS(error.text, "process 1 saves step 3 with the tree ");
  tsr__catalog_free(&other);
  for (int p = 0; p < PARTS; p++) tsr__catalog_free(&part[p]);
}
