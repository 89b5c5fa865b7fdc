/* See arrow_views.h.
 *
 *   short   | length: 4 | text, and zeros behind it: 12          |
 *   long    | length: 4 | first 4 bytes | buffer: 4 | place: 4    |
 *
 * Invariant: what a view does not use is 0, so that consumers may compare views as bytes. */
#include "io/arrow/arrow_views.h"

int64_t tsr__arrow_text_buffers(const tsr__dict *dict, int shift)
{
  int64_t bytes = dict->offsets[dict->count];
  return bytes ? ((bytes - 1) >> shift) + 1 : 0;
}

/* Where the first text begins that does so at a byte or behind it: there the last one ends that
 * begins before. */
static int64_t begins_after(const tsr__dict *dict, int64_t byte)
{
  int64_t low = 0, high = dict->count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (dict->offsets[middle] < byte) low = middle + 1;
    else high = middle;
  }
  return dict->offsets[low];
}

tsr__text_span tsr__arrow_text_buffer(const tsr__dict *dict, int shift, int64_t index)
{
  int64_t begin = index << shift, end = begins_after(dict, (index + 1) << shift);
  /* A text that is longer than a buffer leaves some empty, in which none begins. */
  return (tsr__text_span){ dict->bytes + begin, end > begin ? (size_t)(end - begin) : 0 };
}

typedef struct job {
  const tsr__arrow_rows *rows;
  char *views;
  tsr__arrow_seen *seen;
} job;

enum { BLOCK = 1 << 15 }; /* rows of a task */

/* Whether its bytes lie in a buffer. */
static bool put_view(const tsr__arrow_rows *rows, int64_t code, char *view, int64_t *length)
{
  const tsr__dict *dict = rows->dict;
  const char *text = tsr__dict_get(dict, code, length);
  int32_t size = (int32_t)*length;
  memset(view, 0, TSR__ARROW_VIEW);
  memcpy(view, &size, 4);
  if (*length <= TSR__ARROW_INSIDE) {
    if (size) memcpy(view + 4, text, (size_t)size);
    return false;
  }
  int64_t at = dict->offsets[code];
  int32_t buffer = (int32_t)(at >> rows->shift);
  int32_t place = (int32_t)(at & ((INT64_C(1) << rows->shift) - 1));
  memcpy(view + 4, text, 4);
  memcpy(view + 8, &buffer, 4);
  memcpy(view + 12, &place, 4);
  return true;
}

static void make_block(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  const tsr__arrow_rows *rows = j->rows;
  int64_t from = task * BLOCK, to = from + BLOCK < rows->count ? from + BLOCK : rows->count;
  bool outside = false;
  for (int64_t i = from; i < to; i++) {
    char *view = j->views + i * TSR__ARROW_VIEW;
    int64_t length = 0;
    bool valid = rows->dict && (!rows->valid || rows->valid[i / 64] >> (i % 64) & 1);
    if (valid) outside |= put_view(rows, rows->codes[i], view, &length);
    else memset(view, 0, TSR__ARROW_VIEW);
    if (length > INT32_MAX) atomic_store(&j->seen->too_long, length);
  }
  if (outside) atomic_store(&j->seen->outside, true);
}

bool tsr__arrow_views(tsr_runtime *rt, const char *what, const tsr__arrow_rows *rows, void *views,
                      tsr__arrow_seen *seen)
{
  job j = { rows, views, seen };
  return tsr__parallel_long(rt, what, (rows->count + BLOCK - 1) / BLOCK, make_block, &j);
}
