/* Any bytes as the text of a function: never a crash; what is refused says where, what is taken is
 * written as a text that reads as the same function. */
#include "fuzz.h"
#include "inspect/saved_text.h"
#include "tessera.h"

static tsr_status write_again(const tsr__saved *saved, tsr__text *out, tsr__heap *heap)
{
  tsr__error error = { .status = TSR_OK };
  tsr__text_init(out, heap);
  tsr_status status = tsr__saved_write(saved, out, &error);
  if (status) fuzz_message(error.text, sizeof error.text);
  return status;
}

/* One that was read, as a text, and that once more. */
static void check_again(tsr_scope *s, const tsr__saved *saved)
{
  tsr__heap *heap = &s->rt->heap;
  tsr__error error = { .status = TSR_OK };
  tsr__text first, second;
  tsr__saved again;
  if (!write_again(saved, &first, heap)) {
    tsr__text_ask ask = { s, first.data, first.length };
    REQUIRE(!tsr__saved_read(&ask, &again, &error));
    REQUIRE(!write_again(&again, &second, heap));
    REQUIRE(first.length == second.length && !memcmp(first.data, second.data, first.length));
    tsr__saved_release(&again);
    tsr__text_free(&second);
  }
  tsr__text_free(&first);
}

/* What is told of it, and its arguments as types, of which each is a tree of as many as it has. */
static void check_told(tsr_scope *s, const char *data, size_t size, const tsr__saved *saved)
{
  const char *about = NULL;
  tsr_array *types[TSR_MAX_ARGS];
  char *text = malloc(size + 1); /* strndup may look behind what it copies */
  REQUIRE(text);
  if (size) memcpy(text, data, size);
  text[size] = '\0';
  tsr_function *f = tsr_function_from_text(s, text);
  if (strlen(text) == size && !tsr_scope_status(s)) {
    REQUIRE(!tsr_function_about_into(f, &about) && strlen(about) > 0);
    int count = tsr_function_arguments(f, types, TSR_MAX_ARGS), leaves = 0;
    for (int i = 0; i < count; i++) leaves += tsr_leaf_count(types[i]);
    REQUIRE(leaves == saved->argument_count);
  }
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size > 1 << 15) return 0;
  tsr_runtime *rt = tsr_runtime_open("cpu:4", .threads = 1, .memory_limit = INT64_C(1) << 24);
  tsr_scope *s = tsr_scope_open(rt);
  tsr__error error = { .status = TSR_OK };
  tsr__saved saved;
  char *text = malloc(size + 1); /* its end is the end of what may be read */
  REQUIRE(text);
  if (size) memcpy(text, data, size);
  tsr__text_ask ask = { s, text, size };
  if (!tsr__saved_read(&ask, &saved, &error)) {
    check_again(s, &saved);
    check_told(s, text, size, &saved);
  } else fuzz_message(error.text, sizeof error.text);
  tsr__saved_release(&saved);
  free(text);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return 0;
}
