#include "tool_fixture.h"

#include "harness.h"

#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void tool_build_path(char *path, size_t size)
{
  ssize_t length = readlink("/proc/self/exe", path, size - 1);
  CHECK(length > 0);
  path[length] = 0;
  for (int i = 0; i < 3; i++) *strrchr(path, '/') = 0;
}

void tool_path(char *path, size_t size)
{
  tool_build_path(path, size);
  size_t end = strlen(path);
  snprintf(path + end, size - end, "/bin/tessera");
  if (access(path, X_OK) != 0) SKIP("the tool is not built");
}

static double seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* All that comes from the terminal until nobody holds its other side. */
static char *read_terminal(int terminal, double interrupt_after)
{
  size_t used = 0, size = 1 << 20;
  char *text = malloc(size);
  double start = seconds();
  CHECK(text != NULL);
  for (;;) {
    struct pollfd wait = { terminal, POLLIN, 0 };
    int ready = poll(&wait, 1, 20);
    if (interrupt_after > 0 && seconds() - start > interrupt_after) {
      CHECK_I64(write(terminal, "\003", 1), 1);
      interrupt_after = 0;
    }
    if (!ready) continue;
    ssize_t n = read(terminal, text + used, size - 1 - used);
    if (n <= 0) break;
    used += (size_t)n;
  }
  text[used] = 0;
  return text;
}

char *tool_at_terminal(const char *command, double interrupt_after, int *status)
{
  char tool[1024];
  int terminal = -1;
  tool_path(tool, sizeof tool);
  pid_t child = forkpty(&terminal, NULL, NULL, NULL);
  CHECK(child >= 0);
  if (child == 0) {
    setenv("T", tool, 1);
    if (chdir(test_tmp("."))) _exit(99);
    execlp("bash", "bash", "-c", command, (char *)NULL);
    _exit(99);
  }
  char *text = read_terminal(terminal, interrupt_after);
  CHECK_I64(waitpid(child, status, 0), child);
  close(terminal);
  return text;
}
