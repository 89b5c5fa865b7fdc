/* Where a coordinator listens: what lies at a path is taken away only where nobody listens. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/wire.h"
#include "harness.h"

static int listen_at(const char *path, tsr__error *error)
{
  char text[700];
  tsr__address at;
  *error = (tsr__error){ .status = TSR_OK };
  snprintf(text, sizeof text, "unix:%s", path);
  CHECK_STATUS(tsr__address_parse(text, &at, error), TSR_OK, NULL);
  tsr__listeners all;
  return tsr__address_listen(&at, true, &all, error) ? -1 : all.fd[0];
}

TEST(what_a_killed_process_left_is_taken_away)
{
  tsr__error error;
  const char *path = test_tmp("left");
  int fd = listen_at(path, &error);
  CHECK(fd >= 0);
  close(fd);
  CHECK(!access(path, F_OK));
  fd = listen_at(path, &error);
  CHECK(fd >= 0);
  close(fd);
}

/* One whose queue is full answers nobody, and listens all the same. */
TEST(a_busy_listener_keeps_its_socket)
{
  enum { MANY = 5000 };
  char text[700];
  int fds[MANY], count = 0, unused;
  tsr__address at;
  tsr__error error;
  const char *path = test_tmp("busy");
  int fd = listen_at(path, &error);
  CHECK(fd >= 0 && !listen(fd, 1));
  snprintf(text, sizeof text, "unix:%s", path);
  CHECK_STATUS(tsr__address_parse(text, &at, &error), TSR_OK, NULL);
  while (count < MANY && (fds[count] = tsr__address_connect(&at, true, 100, &unused)) >= 0) count++;
  CHECK(count > 0 && count < MANY);
  CHECK(listen_at(path, &error) < 0);
  CHECK_STATUS(error.status, TSR_EIO, NULL);
  CHECK_STR_HAS(error.text, "choose another address, or end the program that listens there");
  while (count) close(fds[--count]);
  int client, server = accept(fd, NULL, NULL);
  while (server >= 0) {
    close(server);
    server = accept(fd, NULL, NULL);
  }
  client = tsr__address_connect(&at, true, 100, &unused);
  CHECK(client >= 0);
  close(client);
  close(fd);
}

/* Listens at an address of TCP, with a port that is free; what is said of it. */
static const char *listened(const char *host, bool near, tsr__listeners *all)
{
  tsr__address at;
  tsr__error error = { .status = TSR_OK };
  char own[64], text[400];
  tsr__address_own(true, own, sizeof own);
  snprintf(text, sizeof text, "%s%s", host, strrchr(own, ':'));
  CHECK_STATUS(tsr__address_parse(text, &at, &error), TSR_OK, NULL);
  if (tsr__address_listen(&at, near, all, &error)) FAIL("%s", error.text);
  return all->where;
}

/* Another user who was at the name first would be believed in all that it says. */
TEST(a_name_that_another_user_took_first)
{
  int ready[2], lookup;
  char byte;
  tsr__address at;
  tsr__error error = { .status = TSR_OK };
  char name[64];
  if (geteuid()) SKIP("only root can be another user");
  snprintf(name, sizeof name, "unix:@tessera-test-%d", (int)getpid());
  CHECK_STATUS(tsr__address_parse(name, &at, &error), TSR_OK, NULL);
  CHECK(!pipe(ready));
  pid_t squatter = fork();
  if (!squatter) {
    tsr__listeners all;
    if (setuid(65534) || tsr__address_listen(&at, true, &all, &error)) _exit(1);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(ready[1]);
  CHECK(read(ready[0], &byte, 1) == 1);
  CHECK(tsr__address_connect(&at, true, 1000, &lookup) < 0);
  CHECK_I64(errno, EPERM);
  kill(squatter, SIGKILL);
  CHECK(waitpid(squatter, NULL, 0) == squatter);
}

/* Without a secret nobody of another host can as much as knock. */
TEST(near_is_loopback_alone)
{
  tsr__listeners all;
  CHECK_STR_HAS(listened("0.0.0.0", true, &all), "127.0.0.1:");
  CHECK_I64(all.count, 1);
  tsr__listeners_close(&all);
  CHECK_STR_HAS(listened("0.0.0.0", false, &all), "0.0.0.0:");
  tsr__listeners_close(&all);
  CHECK_STR_HAS(listened("127.0.1.1", true, &all), "127.0.1.1:");
  tsr__listeners_close(&all);
}

/* Debian gives a host's own name an address of loopback: the others ask a server of names. */
TEST(a_hosts_own_name_is_all_its_addresses)
{
  tsr__listeners all;
  char name[256] = "", text[64];
  struct ifaddrs *found = NULL;
  CHECK(!gethostname(name, sizeof name - 1) && !getifaddrs(&found));
  const char *where = listened(name, false, &all);
  for (const struct ifaddrs *one = found; one; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || !(one->ifa_flags & IFF_UP))
      continue;
    if (one->ifa_flags & IFF_LOOPBACK) continue;
    const struct sockaddr_in *at = (const void *)one->ifa_addr;
    CHECK(inet_ntop(AF_INET, &at->sin_addr, text, sizeof text) != NULL);
    CHECK_STR_HAS(where, text);
  }
  freeifaddrs(found);
  tsr__listeners_close(&all);
}

TEST(a_file_that_is_no_socket_is_somebodys)
{
  tsr__error error;
  const char *path = test_tmp("file");
  FILE *file = fopen(path, "w");
  CHECK(file && fputs("mine", file) > 0 && !fclose(file));
  CHECK(listen_at(path, &error) < 0);
  CHECK_STATUS(error.status, TSR_EIO, NULL);
  CHECK(!access(path, F_OK));
}
