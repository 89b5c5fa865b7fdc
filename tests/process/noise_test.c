/* The coordinator's port among strangers: garbage, half-open connections, and a thousand of them.
 * None keeps processes from meeting, and none makes the coordinator hold more than a little. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/process_fixture.h"

static char address[64];

static int stranger(void)
{
  struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
  name.sin_port = htons((uint16_t)strtol(strrchr(address, ':') + 1, NULL, 10));
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(fd >= 0);
  for (int i = 0; connect(fd, (struct sockaddr *)&name, sizeof name) != 0; i++) {
    CHECK(i < 5000);
    usleep(1000);
  }
  return fd;
}

static tsr_runtime *join(int index, int count)
{
  return tsr_initialize("cpu:1", .coordinator = address, .process_count = count,
                        .process_index = index, .start_timeout = 30, .secret = "noise");
}

/* Process 0 of two, in a process of its own: it waits for the other one twice. */
static pid_t start_first(void)
{
  snprintf(address, sizeof address, "%s", fixture_port());
  pid_t first = fork();
  CHECK(first >= 0);
  if (first) return first;
  tsr_runtime *rt = join(0, 2);
  if (tsr_runtime_status(rt)) FAIL("%s", tsr_runtime_message(rt));
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STATUS(tsr_sync(s, "ready", .timeout = 30), TSR_OK, s);
  CHECK_STATUS(tsr_sync(s, "ready", .timeout = 30), TSR_OK, s);
  tsr_runtime_close(rt);
  _exit(0);
}

static void meet_twice(pid_t first, void (*between)(void))
{
  tsr_runtime *rt = join(1, 2);
  CHECK_STR(tsr_runtime_message(rt), "");
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STATUS(tsr_sync(s, "ready", .timeout = 30), TSR_OK, s);
  if (between) between();
  CHECK_STATUS(tsr_sync(s, "ready", .timeout = 30), TSR_OK, s);
  tsr_runtime_close(rt);
  CHECK_I64(fixture_end(first), 0);
}

/* Whether the other side closes a connection, in 20 s. */
static bool is_closed(int fd)
{
  char bytes[4096];
  struct timeval limit = { 20, 0 };
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ssize_t got;
  while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0) {
  }
  return got == 0 || errno == ECONNRESET;
}

static void say(const void *bytes, size_t length)
{
  int fd = stranger();
  /* It may be cut off in the middle, or before. */
  send(fd, bytes, length, MSG_NOSIGNAL);
  CHECK(is_closed(fd));
  close(fd);
}

static void say_garbage(void)
{
  static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  /* A frame of 4 GiB; a SET from who has not joined; a JOIN without fields. */
  static const uint8_t huge[] = { 255, 255, 255, 255, 2, 0, 0, 0, 0, 0, 0, 0 };
  static const uint8_t set[] = { 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0 };
  static const uint8_t empty[] = { 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0 };
  say(http, sizeof http);
  say(huge, sizeof huge);
  say(set, sizeof set);
  say(empty, sizeof empty);
  test_rng rng = test_seeded(7);
  uint8_t bytes[3000];
  for (int i = 0; i < 50; i++) {
    for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = (uint8_t)test_random(&rng);
    say(bytes, 16 + (size_t)test_range(&rng, 0, sizeof bytes - 16));
  }
}

TEST(garbage_is_cut_off)
{
  pid_t first = start_first();
  say_garbage();
  meet_twice(first, say_garbage);
}

/* A listener that is no coordinator: who joins there is told. */
TEST(another_programs_port_is_named)
{
  snprintf(address, sizeof address, "%s", fixture_port());
  struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
  name.sin_port = htons((uint16_t)strtol(strrchr(address, ':') + 1, NULL, 10));
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&name, sizeof name) && !listen(fd, 5));
  pid_t other = fork();
  if (other == 0) {
    int peer = accept(fd, NULL, NULL);
    send(peer, "220 mail.example.org ESMTP\r\n", 28, MSG_NOSIGNAL);
    usleep(200000);
    _exit(0);
  }
  tsr_runtime *rt = join(1, 2);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_EPEER, NULL);
  CHECK_STR_HAS(tsr_runtime_message(rt), "is no coordinator of Tessera");
  tsr_runtime_close(rt);
  kill(other, SIGKILL);
  fixture_end(other);
  close(fd);
}

static int64_t resident_kib(pid_t process)
{
  char path[64], *text;
  snprintf(path, sizeof path, "/proc/%d/status", (int)process);
  text = test_read(path, NULL);
  const char *at = strstr(text, "VmRSS:");
  int64_t kib = at ? strtol(at + 6, NULL, 10) : 0;
  free(text);
  return kib;
}

/* A thousand that say nothing, and a thousand that begin and do not end. */
TEST_TIMEOUT(a_thousand_connections_keep_nobody_out, 60)
{
  enum { MANY = 1000 };
  struct rlimit limit;
  CHECK_I64(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < MANY + 100) SKIP("only %d files may be open", (int)limit.rlim_max);
  pid_t first = start_first();
  limit.rlim_cur = limit.rlim_max;
  CHECK_I64(setrlimit(RLIMIT_NOFILE, &limit), 0);
  static int fds[MANY];
  for (int i = 0; i < MANY; i++) {
    fds[i] = stranger();
    /* Odd ones begin a JOIN of 900 bytes and send half of it. */
    uint8_t half[500] = { 132, 3, 0, 0, 2 };
    if (i % 2) send(fds[i], half, sizeof half, MSG_NOSIGNAL);
  }
  double began = fixture_now();
  meet_twice(first, NULL);
  CHECK(fixture_now() - began < 20);
  for (int i = 0; i < MANY; i++) close(fds[i]);
}

TEST(a_coordinator_holds_little_of_many)
{
  enum { MANY = 300 };
  pid_t first = start_first();
  int fds[MANY];
  close(stranger());
  int64_t before = resident_kib(first);
  uint8_t half[1000] = { 232, 3, 0, 0, 2 };
  for (int i = 0; i < MANY; i++) {
    fds[i] = stranger();
    send(fds[i], half, sizeof half - 20, MSG_NOSIGNAL);
  }
  usleep(100000);
  int64_t grown = resident_kib(first) - before;
  /* At most 256 of them at a time, some KiB each; sanitizers hold more. */
  CHECK(grown < 16 << 10);
  meet_twice(first, NULL);
  for (int i = 0; i < MANY; i++) close(fds[i]);
}
