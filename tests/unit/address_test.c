/* Where a coordinator listens: what lies at a path is taken away only where nobody listens. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
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
  CHECK_STR_HAS(error.text, "choose another, or end who listens there");
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
