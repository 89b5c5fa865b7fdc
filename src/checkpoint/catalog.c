/* What a step has: entries, each cut into pieces that lie in files.
 *
 *   entry  model.w f32[8,4]        piece  [0:4, 0:4] of file 0   blocks  | sum | sum |
 *                                         [4:8, 0:4] of file 1           | sum | sum |
 *
 * Invariant: of a catalog that was checked the pieces of an entry are all of it, each element once,
 * and lie within their files; so whoever reads by it fills every element and no other memory.
 *
 *   entry list   | e0        | e1   |       `first`, `count` into pieces
 *   piece list   | p0 p1 p2  | p3 p4|       `file` into files, `sum` into sums
 *   sums         | ....  . ..| . .. |       one a block of each piece
 *
 * By numbers and not by pointers, as the lists move when they grow. */
#include "checkpoint/checkpoint_room.h"

#include <stdlib.h>

/* A form comes from a file, and reading one goes as deep as it is nested. So does cutting pieces
 * apart. */
enum { FORM_DEPTH = 100, CUTS = 64 };
/* Pairs of pieces that are compared at most, a second or so of work: a text of a few megabytes
 * could ask for far more. */
#define COMPARED_MOST ((int64_t)1 << 28)

void tsr__catalog_init(tsr__catalog *c, tsr__heap *heap)
{
  *c = (tsr__catalog){ .heap = heap, .form = "" };
  tsr__arena_init(&c->arena, heap);
}

/* Also of one that was freed or never begun: it has no heap. */
void tsr__catalog_free(tsr__catalog *c)
{
  if (!c->heap) return;
  tsr__del(c->heap, c->entry, c->entry_room * sizeof *c->entry);
  tsr__del(c->heap, c->file, c->file_room * sizeof *c->file);
  tsr__del(c->heap, c->piece, c->piece_room * sizeof *c->piece);
  tsr__del(c->heap, c->sum, c->sum_room * sizeof *c->sum);
  tsr__arena_free(&c->arena);
  *c = (tsr__catalog){ 0 };
}

tsr__listed *tsr__catalog_entry(tsr__catalog *c)
{
  if (!tsr__grow(c->heap, (void **)&c->entry, &c->entry_room, c->entries + 1, sizeof *c->entry))
    return NULL;
  tsr__listed *entry = &c->entry[c->entries++];
  *entry = (tsr__listed){ .mesh = "", .spec = "", .first = (int64_t)c->pieces };
  return entry;
}

tsr__data_file *tsr__catalog_file(tsr__catalog *c)
{
  if (!tsr__grow(c->heap, (void **)&c->file, &c->file_room, c->files + 1, sizeof *c->file))
    return NULL;
  c->file[c->files] = (tsr__data_file){ 0 };
  return &c->file[c->files++];
}

int64_t tsr__block_count(int64_t bytes)
{
  return bytes / TSR__CHECKPOINT_BLOCK + (bytes % TSR__CHECKPOINT_BLOCK != 0);
}

/* Of the last entry: pieces lie by entry, so none can be added to an earlier one. Room for both
 * lists is had before either changes. */
tsr__extent *tsr__catalog_piece(tsr__catalog *c, int64_t bytes)
{
  size_t blocks = (size_t)tsr__block_count(bytes);
  if (!tsr__grow(c->heap, (void **)&c->sum, &c->sum_room, c->sums + blocks, sizeof *c->sum) ||
      !tsr__grow(c->heap, (void **)&c->piece, &c->piece_room, c->pieces + 1, sizeof *c->piece))
    return NULL;
  tsr__extent *piece = &c->piece[c->pieces++];
  *piece = (tsr__extent){ .bytes = bytes, .sum = (int64_t)c->sums };
  if (blocks) memset(c->sum + c->sums, 0, blocks * sizeof *c->sum);
  c->sums += blocks;
  c->entry[c->entries - 1].count++;
  return piece;
}

const char *tsr__kind_name(int kind)
{
  static const char *const names[] = { "", "array", "blob", "column" };
  return kind >= 0 && kind <= TSR_SAVED_COLUMN ? names[kind] : "";
}

/* Once around from the hint on: who asks for all in their order compares one name each. */
const tsr__listed *tsr__catalog_find(const tsr__catalog *c, int kind, const char *name,
                                     size_t *hint)
{
  for (size_t n = 0; n < c->entries; n++) {
    size_t i = (n + (hint ? *hint : 0)) % c->entries;
    if (c->entry[i].kind != kind || strcmp(c->entry[i].name, name)) continue;
    if (hint) *hint = i + 1;
    return &c->entry[i];
  }
  return NULL;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Of rank 0 every piece is. */
static bool is_whole(const tsr__listed *entry, const tsr_box *box)
{
  for (int d = 0; d < entry->shape.rank; d++)
    if (box->start[d] || box->size[d] != entry->shape.dims[d]) return false;
  return true;
}

/* A tensor's name in a data file, for tools that know nothing of catalogs: slices are written as
 * Python does, and what is no array begins with its kind, so that no array has its name. */
void tsr__piece_name(const tsr__listed *entry, const tsr__extent *piece, tsr__text *out)
{
  if (entry->kind != TSR_SAVED_ARRAY) tsr__text_add(out, "%s:", tsr__kind_name(entry->kind));
  tsr__text_put(out, entry->name, strlen(entry->name));
  if (is_whole(entry, &piece->box)) return;
  for (int d = 0; d < entry->shape.rank; d++)
    tsr__text_add(out, "%c%lld:%lld", d ? ',' : '[', (long long)piece->box.start[d],
                  (long long)(piece->box.start[d] + piece->box.size[d]));
  tsr__text_add(out, "]");
}

/* ---- checking -------------------------------------------------------------------------------- */

static tsr_status bad_entry(const tsr__listed *entry, const char *what, tsr__error *error)
{
  char quoted[TSR__QUOTE];
  return tsr__error_set(error, TSR_EPARSE, "the pieces of '%s' %s",
                        tsr__quote(entry->name, strlen(entry->name), quoted), what);
}

/* Of rank 0 any two do: there is one element. */
static bool meet(const tsr_box *a, const tsr_box *b, int rank)
{
  for (int d = 0; d < rank; d++)
    if (a->start[d] >= b->start[d] + b->size[d] || b->start[d] >= a->start[d] + a->size[d])
      return false;
  return true;
}

static int by_start(const void *one, const void *other, void *user)
{
  const tsr__extent *a = one, *b = other;
  const int *dim = user;
  int64_t left = a->box.start[*dim], right = b->box.start[*dim];
  return left < right ? -1 : left > right;
}

/* Pieces of an entry that are to be apart, and what is left of the work that a catalog can ask
 * for. */
typedef struct parting {
  const tsr__listed *entry;
  int64_t left;
  tsr__error *error;
} parting;

/* Along which dim cuts are looked for, along how many before it there were none, and how many cuts
 * there were. */
typedef struct looked {
  int dim, whole, depth;
} looked;

/* Sorted by their starts, a piece can meet only those that start before it ends. */
static tsr_status check_pairs(parting *p, const tsr__extent *piece, int64_t count, int dim)
{
  int rank = p->entry->shape.rank;
  for (int64_t i = 0; i < count; i++)
    for (int64_t k = i + 1; k < count; k++) {
      if (rank && piece[k].box.start[dim] >= piece[i].box.start[dim] + piece[i].box.size[dim])
        break;
      if (!p->left--)
        return bad_entry(p->entry, "are too many to be checked for overlaps", p->error);
      if (meet(&piece[i].box, &piece[k].box, rank)) return bad_entry(p->entry, "overlap", p->error);
    }
  return TSR_OK;
}

/* No element twice. Cut where no piece lies across, what is on two sides cannot meet:
 *
 *   | a a | b |        along dim 0 no cut; along dim 1 after a and c, and then each side by itself
 *   | c c | b |
 *
 * Grids and rows fall apart into single pieces so; of what does not each pair is compared. The list
 * is sorted in place, as the order of an entry's pieces means nothing, and each has the place of
 * its sums with it. */
static tsr_status check_apart(parting *p, tsr__extent *piece, int64_t count, looked at)
{
  int rank = p->entry->shape.rank, dim = at.dim;
  if (count < 2) return TSR_OK;
  qsort_r(piece, (size_t)count, sizeof *piece, by_start, &dim);
  if (at.whole >= rank || at.depth > CUTS) return check_pairs(p, piece, count, dim);
  int64_t from = 0, reach = 0; /* where what began since the last cut ends */
  for (int64_t i = 0; i <= count && !p->error->status; i++) {
    if (i > from && (i == count || piece[i].box.start[dim] >= reach)) {
      int whole = i - from == count ? at.whole + 1 : 0;
      check_apart(p, piece + from, i - from, (looked){ (dim + 1) % rank, whole, at.depth + 1 });
      from = i;
    }
    int64_t end = i < count ? piece[i].box.start[dim] + piece[i].box.size[dim] : 0;
    reach = i > from && reach > end ? reach : end;
  }
  return p->error->status;
}

/* Of dims that the entry has not, start and size must be 0. */
static bool is_inside(const tsr__listed *entry, const tsr_box *box)
{
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    int64_t size = d < entry->shape.rank ? entry->shape.dims[d] : 0;
    if (box->start[d] < 0 || box->size[d] < 0 || box->size[d] > size ||
        box->start[d] > size - box->size[d])
      return false;
  }
  return true;
}

/*   inside of it, as many elements as it has in all, none twice: so none is missing
 *
 * Sums are of sizes that strangers wrote; each comparison is turned so that it cannot overflow. */
static tsr_status check_entry(const tsr__catalog *c, const tsr__listed *entry, parting *apart)
{
  int64_t total = 0, count = tsr__shape_count(&entry->shape);
  int64_t size = (int64_t)tsr_dtype_size((tsr_dtype)entry->dtype);
  if (count < 0 || count > INT64_MAX / 8)
    return bad_entry(entry, "have a shape that is out of range", apart->error);
  for (int64_t i = entry->first; i < entry->first + entry->count; i++) {
    const tsr__extent *piece = &c->piece[i];
    if (!is_inside(entry, &piece->box))
      return bad_entry(entry, "lie outside of the array", apart->error);
    int64_t own = tsr__box_count(&piece->box, entry->shape.rank);
    if (piece->bytes != own * size)
      return bad_entry(entry, "have another number of bytes than their elements need",
                       apart->error);
    if (piece->file < 0 || (size_t)piece->file >= c->files || piece->at < 0 ||
        piece->at > c->file[piece->file].bytes - piece->bytes)
      return bad_entry(entry, "lie outside of their files", apart->error);
    if (own > count - total) return bad_entry(entry, "overlap", apart->error);
    total += own;
  }
  if (total != count) return bad_entry(entry, "do not cover the array", apart->error);
  apart->entry = entry;
  return check_apart(apart, &c->piece[entry->first], entry->count, (looked){ 0 });
}

tsr_status tsr__catalog_check(const tsr__catalog *c, tsr__error *error)
{
  parting apart = { .left = COMPARED_MOST, .error = error };
  for (size_t i = 0; i < c->entries; i++)
    if (check_entry(c, &c->entry[i], &apart)) return error->status;
  return TSR_OK;
}

/* ---- several processes ----------------------------------------------------------------------- */

/* Where it lay may differ in its words; what it is may not. */
static bool same_entry(const tsr__listed *a, const tsr__listed *b)
{
  return a->kind == b->kind && a->dtype == b->dtype && tsr__shape_same(&a->shape, &b->shape) &&
         !strcmp(a->name, b->name);
}

/* Whether two catalogs list the same arrays in the same order; blobs are each process's own. */
static bool same_arrays(const tsr__catalog *a, const tsr__catalog *b)
{
  size_t i = 0, k = 0;
  for (;; i++, k++) {
    while (i < a->entries && a->entry[i].kind == TSR_SAVED_BLOB) i++;
    while (k < b->entries && b->entry[k].kind == TSR_SAVED_BLOB) k++;
    if (i == a->entries || k == b->entries) return i == a->entries && k == b->entries;
    if (!same_entry(&a->entry[i], &b->entry[k])) return false;
  }
}

/* Pieces of one entry, whose files stand behind `files` others. */
static bool take_pieces(tsr__catalog *out, const tsr__catalog *from, const tsr__listed *entry,
                        int files)
{
  for (int64_t i = entry->first; i < entry->first + entry->count; i++) {
    tsr__extent *piece = tsr__catalog_piece(out, from->piece[i].bytes);
    if (!piece) return false;
    int64_t sum = piece->sum;
    *piece = from->piece[i];
    piece->sum = sum;
    piece->file += files;
    size_t blocks = (size_t)tsr__block_count(piece->bytes);
    if (blocks) memcpy(out->sum + sum, from->sum + from->piece[i].sum, blocks * sizeof *out->sum);
  }
  return true;
}

static const char *own_text(tsr__catalog *out, const char *text)
{
  return tsr__arena_text(&out->arena, text, strlen(text));
}

/* An entry without its pieces. Texts are copied: the catalog they come from is freed. */
static bool take_entry(tsr__catalog *out, const tsr__listed *from)
{
  tsr__listed *entry = tsr__catalog_entry(out);
  if (!entry) return false;
  int64_t first = entry->first;
  *entry = *from;
  entry->first = first;
  entry->count = 0;
  entry->name = own_text(out, from->name);
  entry->mesh = own_text(out, from->mesh);
  entry->spec = own_text(out, from->spec);
  return entry->name && entry->mesh && entry->spec;
}

static bool take_files(tsr__catalog *out, const tsr__catalog *from)
{
  for (size_t i = 0; i < from->files; i++) {
    tsr__data_file *file = tsr__catalog_file(out);
    if (!file) return false;
    *file = from->file[i];
    file->name = own_text(out, file->name);
    if (!file->name) return false;
  }
  return true;
}

/* What is joined: a process's part, how many files stand before its own, and where its next entry
 * is looked for first. */
typedef struct joining {
  const tsr__catalog *part;
  int files;
  size_t hint;
} joining;

/* All entries of the first with the pieces of all, then the others' own blobs. In one walk, as
 * pieces lie by entry: however many processes there are, each piece is copied once. Parts come in
 * the order of processes, so the text of a step is the same whoever was sooner. */
static bool join_into(tsr__catalog *out, joining *part, int count)
{
  const tsr__catalog *first = part[0].part;
  bool good = true;
  out->step = first->step;
  out->form = own_text(out, first->form);
  for (int p = 0; p < count && good; p++) {
    part[p].files = (int)out->files;
    good = take_files(out, part[p].part);
  }
  for (size_t i = 0; i < first->entries && good; i++) {
    const tsr__listed *own = &first->entry[i];
    int last = own->kind == TSR_SAVED_BLOB ? 1 : count;
    good = take_entry(out, own);
    for (int p = 0; p < last && good; p++) {
      const tsr__listed *other =
          p ? tsr__catalog_find(part[p].part, own->kind, own->name, &part[p].hint) : own;
      good = !other || take_pieces(out, part[p].part, other, part[p].files);
    }
  }
  for (int p = 1; p < count && good; p++)
    for (size_t i = 0; i < part[p].part->entries && good; i++) {
      const tsr__listed *own = &part[p].part->entry[i];
      if (own->kind != TSR_SAVED_BLOB || tsr__catalog_find(out, own->kind, own->name, NULL))
        continue;
      good = take_entry(out, own) && take_pieces(out, part[p].part, own, part[p].files);
    }
  return good && out->form;
}

static tsr_status compare_parts(const tsr__catalog *own, const tsr__catalog *other, int process,
                                tsr__error *error)
{
  if (!strcmp(own->form, other->form) && own->step == other->step && same_arrays(own, other))
    return TSR_OK;
  return tsr__error_set(error, TSR_EPEER,
                        "process %d saves step %lld with the tree %.100s, but process 0 step %lld "
                        "with %.100s; save the same tree in all processes",
                        process, (long long)other->step, other->form, (long long)own->step,
                        own->form);
}

/* Untouched where it fails. */
tsr_status tsr__catalog_join(tsr__catalog *catalog, const tsr__catalog *others, int count,
                             tsr__error *error)
{
  tsr__heap *heap = catalog->heap;
  size_t bytes = ((size_t)count + 1) * sizeof(joining);
  joining *part = tsr__new(heap, bytes);
  tsr__catalog all;
  tsr__catalog_init(&all, heap);
  for (int p = 0; p < count && !error->status; p++)
    compare_parts(catalog, &others[p], p + 1, error);
  for (int p = 0; part && p <= count; p++) part[p].part = p ? &others[p - 1] : catalog;
  if (!error->status && (!part || !join_into(&all, part, count + 1)))
    tsr__error_set(error, TSR_ENOMEM, "no memory to list what all processes saved");
  tsr__del(heap, part, bytes);
  if (error->status) {
    tsr__catalog_free(&all);
    return error->status;
  }
  tsr__catalog_free(catalog);
  *catalog = all;
  return TSR_OK;
}

/* ---- forms ----------------------------------------------------------------------------------- */

/* "(w: *, b: (x: *, *))" read from left to right, with the path of what is being read. One buffer
 * for the path at all depths: what a level adds behind `end` is cut off when it is done. */
typedef struct walk {
  const char *at;
  char path[TSR__CHECKPOINT_PATH];
  tsr__leaf_fn *each;
  void *user;
  const char *want, *found; /* the path that is looked for, and where it begins */
  size_t found_length;
} walk;

static size_t name_length(const char *at)
{
  return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
}

/* "name: " in front of a part, or its number; what was added to the path. False: it is too long. A
 * name that is followed by another sign than ": " is none, and then the form is wrong at that
 * place, which walk_form finds. */
static bool add_name(walk *w, size_t end, int index)
{
  size_t length = name_length(w->at);
  bool named = length && w->at[length] == ':' && w->at[length + 1] == ' ';
  char number[24];
  int digits = tsr__text_i64(number, index);
  const char *name = named ? w->at : number;
  if (!named) length = (size_t)digits;
  if (end + length + 2 > sizeof w->path) return false;
  if (end) w->path[end++] = '.';
  memcpy(w->path + end, name, length);
  w->path[end + length] = '\0';
  if (named) w->at += length + 2;
  return true;
}

static bool walk_form(walk *w, size_t end, int depth)
{
  const char *start = w->at;
  bool good = depth < FORM_DEPTH;
  if (*w->at == '*') {
    w->at++;
    good = !w->each || w->each(w->user, end ? w->path : "array");
  } else if (*w->at++ == '(') {
    for (int i = 0; good && *w->at != ')'; i++) {
      if (i && (w->at[0] != ',' || w->at[1] != ' ')) return false;
      if (i) w->at += 2;
      good = add_name(w, end, i) && walk_form(w, strlen(w->path), depth + 1);
    }
    w->at += good;
    w->path[end] = '\0';
  } else {
    return false;
  }
  if (good && w->want && !w->found && !strcmp(w->path, w->want)) {
    w->found = start;
    w->found_length = (size_t)(w->at - start);
  }
  return good;
}

bool tsr__form_leaves(const char *form, tsr__leaf_fn *each, void *user)
{
  walk w = { .at = form, .each = each, .user = user };
  return walk_form(&w, 0, 0) && !*w.at;
}

bool tsr__form_at(const char *form, const char *path, const char **start, size_t *length)
{
  walk w = { .at = form, .want = path };
  if (!walk_form(&w, 0, 0) || !w.found) return false;
  *start = w.found;
  *length = w.found_length;
  return true;
}
