#include "process_fixture.h"

#include "support/among.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char *fixture_socket(const char *name)
{
  static char address[300];
  snprintf(address, sizeof address, "unix:%s", test_tmp(name));
  return address;
}

void fixture_free_ports(int *out, int count)
{
  int sockets[8];
  for (int i = 0; i < count; i++) {
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof name;
    sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(sockets[i] >= 0 && !bind(sockets[i], (struct sockaddr *)&name, size));
    CHECK_I64(getsockname(sockets[i], (struct sockaddr *)&name, &size), 0);
    out[i] = ntohs(name.sin_port);
  }
  for (int i = 0; i < count; i++) close(sockets[i]);
}

static int find_port(void)
{
  int port;
  fixture_free_ports(&port, 1);
  return port;
}

/* The first process that asks finds a port and writes it down for the others. */
const char *fixture_port(void)
{
  static char address[40];
  char path[512], text[16] = "";
  snprintf(path, sizeof path, "%s", test_tmp("port"));
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) {
    int length = snprintf(text, sizeof text, "%d\n", find_port());
    CHECK_I64(write(fd, text, (size_t)length), length);
    close(fd);
  }
  while (!strchr(text, '\n')) {
    size_t length;
    char *read = test_read(path, &length);
    snprintf(text, sizeof text, "%s", read);
    free(read);
    usleep(1000);
  }
  snprintf(address, sizeof address, "127.0.0.1:%.*s", (int)strcspn(text, "\n"), text);
  return address;
}

tsr_runtime *fixture_join_with(const char *name, const tsr_process_opts *opts)
{
  tsr_process_opts own = *opts;
  among_hosts(test_process(), test_process_count());
  own.coordinator = fixture_socket(name);
  own.process_count = test_process_count();
  own.process_index = test_process();
  if (own.start_timeout == 0) own.start_timeout = 30;
  return tsr_initialize_with("cpu:1", &own);
}

pid_t fixture_start(const char *name, int index, int count, fixture_work work)
{
  char address[300];
  snprintf(address, sizeof address, "%s", fixture_socket(name));
  fflush(NULL);
  pid_t process = fork();
  CHECK(process >= 0);
  if (process) return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  among_hosts(index, count);
  tsr_runtime *rt =
      tsr_initialize("cpu:1", .coordinator = address, .process_count = count,
                     .process_index = index, .start_timeout = 30, .close_timeout = 10);
  if (tsr_runtime_status(rt)) FAIL("%s", tsr_runtime_message(rt));
  tsr_scope *s = tsr_scope_open(rt);
  int code = work(rt, s, index);
  if (tsr_scope_status(s)) fprintf(stderr, "process %d: %s\n", index, tsr_message(s));
  tsr_runtime_close(rt);
  fflush(NULL);
  _exit(code);
}

int fixture_end(pid_t process)
{
  int status = 0;
  CHECK_I64(waitpid(process, &status, 0), process);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void fixture_run(const char *name, int count, fixture_work work)
{
  pid_t process[8];
  CHECK(count <= 8);
  for (int i = 0; i < count; i++) process[i] = fixture_start(name, i, count, work);
  for (int i = 0; i < count; i++) CHECK_I64(fixture_end(process[i]), 0);
}

double fixture_now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *take_counted(size_t size, size_t alignment, void *user)
{
  fixture_ending *e = user;
  /* Other threads neither read nor write the counts. */
  bool counts = gettid() == e->thread;
  if (counts) e->count++;
  if (counts && e->left >= 0 && e->left-- == 0) return NULL;
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void give_counted(void *block, size_t size, void *user)
{
  (void)user, (void)size;
  free(block);
}

tsr_allocator fixture_ending_memory(fixture_ending *ending)
{
  return (tsr_allocator){ take_counted, give_counted, ending };
}
