/* The programs of the README, and some of the guide, are those of examples/, with their outputs. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The text between the first such fence after `after` and the next ``` line. */
static char *fenced(const char *readme, const char *fence, const char *after)
{
  const char *start = strstr(after ? after : readme, fence);
  if (!start) FAIL("the document has no block that begins with %s", fence);
  start += strlen(fence);
  const char *end = strstr(start, "\n```");
  CHECK(end);
  char *block = strndup(start, (size_t)(end + 1 - start));
  CHECK(block);
  return block;
}

/* Runs build/<preset>/examples/NAME in the project's folder and returns what it prints. */
static char *output_of(const char *name)
{
  char path[1024], command[3072];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  CHECK(length > 0);
  path[length] = 0;
  for (int i = 0; i < 3; i++) *strrchr(path, '/') = 0;
  int size = snprintf(command, sizeof command, "cd '%s' && '%s/examples/%s' >'%s'", test_file(".."),
                      path, name, test_tmp("out.txt"));
  CHECK(size < (int)sizeof command);
  CHECK_I64(system(command), 0);
  return test_read(test_tmp("out.txt"), NULL);
}

/* The example stands in the document word for word (but its first comment), and the next plain
 * block is what it prints. */
static void check_shown(const char *document, const char *name, const char *file)
{
  char *readme = test_read(test_file(document), NULL);
  char *source = test_read(test_file(file), NULL);
  const char *code = strstr(source, "#include");
  CHECK(code);
  const char *at = strstr(readme, code);
  if (!at) FAIL("%s does not have the text of %s", document, file);
  char *expected = fenced(readme, "\n```\n", at + strlen(code) + 3);
  char *found = output_of(name);
  CHECK_STR(found, expected);
  free(found);
  free(expected);
  free(source);
  free(readme);
}

static void check_example(const char *name, const char *file)
{
  check_shown("../README.md", name, file);
}

TEST(array_example)
{
  check_example("00_array", "../examples/00_array.c");
}

TEST(frame_example)
{
  check_example("01_frame", "../examples/01_frame.c");
}

TEST(training_example)
{
  check_example("03_training", "../examples/03_training.c");
}

TEST(pipeline_example)
{
  check_example("04_pipeline", "../examples/04_pipeline.c");
}

TEST(simulation_example)
{
  check_shown("../docs/guide/simulation.md", "heat", "../examples/heat.c");
}
