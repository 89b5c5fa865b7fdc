/* The pages of docs/guide: every C block was built (tests/CMakeLists.txt) and is run here, and
 * its output is the plain block after it.
 *
 *   ```c         a block with a main is a program; the others of a page are one program, in
 *   ...          order, in which rt (cpu:8), mesh (data=8) and s are there; each ends its output at
 *   ```          a separator; ```cc is a program in C++
 *   ```          the output of the block before; or, if the first line begins with "$ tessera", a
 *   ...          command and its output
 *   ```
 *   ```text      anything else: not looked at
 *
 *   ![..](drawings/NAME.svg)    a picture: the file NAME.svg that a block before it wrote
 *
 * With GUIDE_WRITE=1 the test compares nothing: it writes the output of blocks into the pages, and
 * pictures into docs/guide/drawings/. */
#include "harness.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEPARATOR "\036\n"

struct page {
  char name[64];
  const char *build; /* the build folder */
  int programs;      /* blocks with a main so far */
  char *printed;     /* by the blocks without one */
  char *rest;        /* of it: what the blocks ahead print */
  char *shown;       /* what the last C block printed, until a plain block shows it; malloced */
  char *out;         /* the page as it should be */
  size_t length;
};

static void put(struct page *p, const char *text, size_t length)
{
  p->out = realloc(p->out, p->length + length + 1);
  CHECK(p->out);
  memcpy(p->out + p->length, text, length);
  p->length += length;
  p->out[p->length] = 0;
}

/* Runs a command in a folder of its own, where examples/ is, and returns what it prints. */
static char *output_of(const struct page *p, const char *command)
{
  static const char frame[] =
      "mkdir -p '%s' && cd '%s' && ln -sfn '%s' examples && PATH='%s/bin':\"$PATH\" && "
      "COLUMNS=100 && export PATH COLUMNS && { %s\n} >../guide.out";
  char *line = NULL;
  const char *folder = test_tmp("guide");
  CHECK(asprintf(&line, frame, folder, folder, test_file("../examples"), p->build, command) > 0);
  if (system(line)) FAIL("%s.md: this fails: %s", p->name, command);
  free(line);
  return test_read(test_tmp("guide.out"), NULL);
}

/* What the next block without a main printed. */
static char *next_part(struct page *p)
{
  char command[2048];
  if (!p->printed) {
    snprintf(command, sizeof command, "'%s/tests/guide/guide_%s'", p->build, p->name);
    p->printed = p->rest = output_of(p, command);
  }
  char *end = strstr(p->rest, SEPARATOR);
  if (!end) FAIL("%s.md: the page's program ended early", p->name);
  char *part = strndup(p->rest, (size_t)(end - p->rest));
  p->rest = end + strlen(SEPARATOR);
  return part;
}

static bool writes(void)
{
  const char *write = getenv("GUIDE_WRITE");
  return write && *write == '1';
}

/* Compares the pictures that a line shows with those that blocks wrote. */
static void pictures(const struct page *p, const char *line, const char *end)
{
  static const char start[] = "](drawings/";
  for (const char *at = line; (at = strstr(at, start)) && at < end;) {
    char name[128], made[256], kept[256];
    size_t length;
    at += sizeof start - 1;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ")"), at);
    snprintf(made, sizeof made, "guide/%s", name);
    snprintf(kept, sizeof kept, "../docs/guide/drawings/%s", name);
    if (access(test_tmp(made), R_OK)) FAIL("%s.md: no block before it writes %s", p->name, name);
    char *text = test_read(test_tmp(made), &length);
    if (writes()) test_write(test_file(kept), text, length);
    char *now = test_read(test_file(kept), NULL);
    CHECK_STR(now, text);
    free(now);
    free(text);
  }
}

static void no_output_left(struct page *p)
{
  if (p->shown && *p->shown)
    FAIL("%s.md: a block prints what is not shown:\n%s", p->name, p->shown);
  free(p->shown);
  p->shown = NULL;
}

static void code_block(struct page *p, const char *text)
{
  no_output_left(p);
  if (!strstr(text, "int main(")) {
    p->shown = next_part(p);
    return;
  }
  char command[2048];
  snprintf(command, sizeof command, "'%s/tests/guide/guide_%s_%d'", p->build, p->name,
           ++p->programs);
  p->shown = output_of(p, command);
}

/* "$ tessera ..." and what it prints, once or more often. */
static void shell_block(struct page *p, const char *text)
{
  while (*text) {
    const char *end = text;
    do {
      end = strchr(end, '\n');
      CHECK(end);
      end++;
    } while (end[-2] == '\\');
    put(p, text, (size_t)(end - text));
    char *command = strndup(text + 2, (size_t)(end - text - 2));
    char *printed = output_of(p, command);
    put(p, printed, strlen(printed));
    free(command);
    free(printed);
    text = strstr(end - 1, "\n$ ");
    text = text ? text + 1 : "";
  }
}

static void plain_block(struct page *p, const char *text)
{
  if (!strncmp(text, "$ tessera", 9)) {
    no_output_left(p);
    shell_block(p, text);
    return;
  }
  if (!p->shown) FAIL("%s.md: no C block prints this; fence it as ```text:\n%s", p->name, text);
  put(p, p->shown, strlen(p->shown));
  free(p->shown);
  p->shown = NULL;
}

/* Goes through a page and makes it anew, with what is printed now. */
static void walk(struct page *p, const char *text)
{
  while (*text) {
    const char *next = strchr(text, '\n');
    CHECK(next);
    next++;
    bool code = !strncmp(text, "```c\n", 5) || !strncmp(text, "```cc\n", 6),
         plain = !strncmp(text, "```\n", 4);
    bool fence = !strncmp(text, "```", 3);
    put(p, text, (size_t)(next - text));
    if (!fence) pictures(p, text, next);
    text = next;
    if (!fence) continue;
    const char *end = !strncmp(text, "```", 3) ? text : strstr(text, "\n```\n");
    if (!end) FAIL("%s.md: a block does not end", p->name);
    if (end != text) end++;
    char *block = strndup(text, (size_t)(end - text));
    CHECK(block);
    if (code) code_block(p, block);
    if (plain) plain_block(p, block);
    else put(p, block, strlen(block));
    free(block);
    put(p, "```\n", 4);
    text = end + 4;
  }
  no_output_left(p);
}

static void check_page(const char *path, const char *build)
{
  struct page p = { .build = build };
  const char *name = strrchr(path, '/') + 1;
  snprintf(p.name, sizeof p.name, "%.*s", (int)strcspn(name, "."), name);
  char *text = test_read(path, NULL);
  walk(&p, text);
  if (writes()) test_write(path, p.out, p.length);
  else CHECK_STR(text, p.out);
  free(text);
  free(p.printed);
  free(p.out);
}

TEST_TIMEOUT(the_guide_runs_and_prints_what_it_says, 300)
{
  char build[1024];
  ssize_t length = readlink("/proc/self/exe", build, sizeof build - 1);
  CHECK(length > 0);
  build[length] = 0;
  for (int i = 0; i < 3; i++) *strrchr(build, '/') = 0;
  glob_t pages;
  CHECK_I64(glob(test_file("../docs/guide/*.md"), 0, NULL, &pages), 0);
  for (size_t i = 0; i < pages.gl_pathc; i++) check_page(pages.gl_pathv[i], build);
  globfree(&pages);
}

/* All files of a pattern, one after the other; malloced. */
static char *read_all(const char *pattern)
{
  struct page p = { .name = "" };
  glob_t files;
  CHECK_I64(glob(test_file(pattern), 0, NULL, &files), 0);
  for (size_t i = 0; i < files.gl_pathc; i++) {
    size_t length;
    char *text = test_read(files.gl_pathv[i], &length);
    put(&p, text, length);
    free(text);
  }
  globfree(&files);
  return p.out;
}

/* A picture whose block is gone is gone, too. */
TEST(every_picture_is_shown)
{
  glob_t files;
  char *guide = read_all("../docs/guide/*.md");
  CHECK_I64(glob(test_file("../docs/guide/drawings/*"), 0, NULL, &files), 0);
  for (size_t i = 0; i < files.gl_pathc; i++) {
    const char *name = strrchr(files.gl_pathv[i], '/') + 1;
    char link[256];
    snprintf(link, sizeof link, "](drawings/%s)", name);
    if (!strstr(guide, link)) FAIL("no page of the guide shows drawings/%s", name);
  }
  globfree(&files);
  free(guide);
}

/* ---- names -------------------------------------------------------------------------------- */

static bool in_name(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Whether a text has a name that is not part of a longer name. */
static bool has_name(const char *text, const char *name, size_t length)
{
  for (const char *at = text; (at = strstr(at, name)); at++)
    if ((at == text || !in_name(at[-1])) && !in_name(at[length])) return true;
  return false;
}

/* Tables and prose too: whatever looks like a call of the library is one. */
TEST(the_guide_names_calls_that_exist)
{
  char *headers = read_all("../include/tessera/*.h"), *guide = read_all("../docs/guide/*.md");
  for (char *at = guide; (at = strstr(at, "tsr_")); at++) {
    char name[80];
    size_t length = 0;
    /* reference_test reads the anchors of links. */
    if (at != guide && (in_name(at[-1]) || at[-1] == '#')) continue;
    while (in_name(at[length])) length++;
    snprintf(name, sizeof name, "%.*s", (int)length, at);
    if (length > 4 && !has_name(headers, name, length)) FAIL("no header has %s", name);
  }
  free(headers);
  free(guide);
}

/* golden/names.txt has a module and its functions a line; those of jax.numpy stand in NumPy's
 * tables or in JAX's. */
TEST(the_tables_have_every_name)
{
  char *names = test_read(test_file("golden/names.txt"), NULL), *rest = names, *line, *word;
  char *numpy = test_read(test_file("../docs/guide/coming-from-numpy.md"), NULL);
  char *jax = test_read(test_file("../docs/guide/coming-from-jax.md"), NULL);
  int missing = 0, found = 0;
  while ((line = strsep(&rest, "\n"))) {
    if (*line == '#') continue;
    const char *module = strsep(&line, " ");
    bool in_numpy = strstr(module, "numpy"), in_jax = !strncmp(module, "jax", 3);
    while ((word = strsep(&line, " "))) {
      size_t length = strlen(word);
      bool there =
          (in_numpy && has_name(numpy, word, length)) || (in_jax && has_name(jax, word, length));
      if (!there) fprintf(stderr, "%s.%s is in no table\n", module, word);
      missing += !there;
      found += there;
    }
  }
  CHECK_I64(missing, 0);
  CHECK(found > 500);
  free(names);
  free(numpy);
  free(jax);
}
