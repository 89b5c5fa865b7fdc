/* Any bytes as a file of JSON lines under any options: never a crash or a leak; cutting it
 * differently, or into other parts, gives the same rows, values and errors, and what is kept of bad
 * rows does not depend on it either; good lines give the same rows as elements of an array. The
 * first four bytes choose how the file is cut, which columns are read, and which types are forced
 * (2). */
#include "io/json/json.h"

#include "fuzz_columns.h"

enum { CHOICES = 4, MOST_COLUMNS = 20 };

/* The names that a file has, copied, as options of a second read. */
struct asked {
  int column_count, type_count;
  const char *column[MOST_COLUMNS];
  tsr__json_type type[MOST_COLUMNS];
};

static void read_column(tsr__json *json, int column, int64_t border, fuzz_result *r)
{
  const tsr__read_column *columns;
  tsr__error error = { 0 };
  int64_t rows[3] = { 0, border, r->rows };
  fuzz_held held;
  tsr__json_columns(json, &columns);
  fuzz_hold(&held, columns[column].type, rows);
  tsr__read_target target = { .column = column, .values = held.values, .validity = held.validity };
  tsr__read_ask read = { .parts = 2, .rows = rows, .target_count = 1, .targets = &target };
  REQUIRE(!tsr__json_read_parts(json, &read, &error) && !read.retyped);
  fuzz_hash_column(&columns[column], &held, &target, rows, r);
  tsr__dict_release(target.dict);
  for (int p = 0; p < 2; p++) {
    free(held.values[p]);
    free(held.validity[p]);
  }
}

/* `part`: out of 4, where the border between the parts lies. */
static fuzz_result read_file(tsr_runtime *rt, const char *path, const tsr__json_opts *opts,
                             int part)
{
  fuzz_result r = { 0 };
  tsr__error error = { 0 };
  int64_t live = rt->heap.live;
  tsr__json *json = tsr__json_open(rt, path, opts, &error);
  r.status = error.status;
  REQUIRE(!json == (error.status != TSR_OK));
  if (json) {
    const tsr__read_column *columns;
    r.columns = tsr__json_columns(json, &columns);
    r.rows = tsr__json_rows(json);
    r.bad_rows = tsr__json_bad_rows(json);
    for (int c = 0; c < r.columns && c < MOST_COLUMNS; c++)
      read_column(json, c, r.rows * part / 4, &r);
  } else {
    fuzz_message(error.text, sizeof error.text);
    strcpy(r.text, error.text);
  }
  tsr__json_close(json);
  REQUIRE(rt->heap.live == live);
  return r;
}

static struct asked ask(tsr_runtime *rt, const char *path, const uint8_t choice[3])
{
  struct asked asked = { 0 };
  tsr__json_opts opts = { .bad_rows = TSR__JSON_SKIP };
  tsr__error error = { 0 };
  const tsr__read_column *columns;
  tsr__json *json = tsr__json_open(rt, path, &opts, &error);
  int count = json ? tsr__json_columns(json, &columns) : 0;
  for (int c = 0; c < count && c < MOST_COLUMNS; c++) {
    int type = fuzz_forced(choice + 1, c), i = asked.column_count;
    bool chosen = !choice[0] || choice[0] >> c % 8 & 1;
    if (!chosen) continue;
    asked.column[asked.column_count++] = strdup(columns[c].name);
    if (type >= 0)
      asked.type[asked.type_count++] = (tsr__json_type){ asked.column[i], (tsr_coltype)type };
  }
  tsr__json_close(json);
  return asked;
}

/* The same lines as one array; 0: they hold bytes that mean something else there. */
static size_t make_array(const uint8_t *text, size_t size, char *out)
{
  size_t used = 0;
  bool some = false, blank = true;
  if (memchr(text, '\r', size) || (size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))) return 0;
  out[used++] = '[';
  for (size_t i = 0; i < size; i++) {
    if (blank && text[i] != ' ' && text[i] != '\t' && text[i] != '\n') {
      if (!some && text[i] == '[') return 0; /* it is one already */
      if (some) out[used++] = ',', out[used++] = '\n';
      blank = false;
      some = true;
    }
    if (text[i] == '\n') blank = true;
    else out[used++] = (char)text[i];
  }
  out[used++] = ']';
  return used;
}

static void check_array(tsr_runtime *rt, const uint8_t *text, size_t size, const fuzz_result *lines,
                        const tsr__json_opts *opts)
{
  char path[FUZZ_PATH], *array = malloc(2 * size + 2);
  size_t length = make_array(text, size, array);
  if (length && !lines->status) {
    int fd = fuzz_file((const uint8_t *)array, length, path);
    fuzz_result b = read_file(rt, path, opts, 2);
    fuzz_same_result(lines, &b);
    close(fd);
  }
  free(array);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static tsr_runtime *rt;
  char path[FUZZ_PATH];
  if (size < CHOICES || size > 1 << 16) return 0;
  if (!rt)
    rt = tsr__runtime_new(&(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts), .threads = 1 });
  int fd = fuzz_file(data + CHOICES, size - CHOICES, path);
  struct asked asked = ask(rt, path, data + 1);
  for (int bad = TSR__JSON_ERROR; bad <= TSR__JSON_NULL; bad++) {
    tsr__json_opts whole = { .bad_rows = (tsr__json_bad)bad,
                             .column_count = data[1] ? asked.column_count : 0,
                             .columns = asked.column,
                             .type_count = asked.type_count,
                             .types = asked.type },
                   cut = whole;
    cut.block = 1 + (int64_t)(data[0] % 40);
    cut.stripe = 64;
    fuzz_result a = read_file(rt, path, &whole, 4), b = read_file(rt, path, &cut, data[0] % 4);
    fuzz_same_result(&a, &b);
    REQUIRE(!strcmp(a.text, b.text));
    if (bad == TSR__JSON_ERROR)
      check_array(rt, data + CHOICES, size - CHOICES, &a, data[0] % 2 ? &cut : &whole);
  }
  for (int c = 0; c < asked.column_count; c++) free((void *)(uintptr_t)asked.column[c]);
  close(fd);
  return 0;
}
