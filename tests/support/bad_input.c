/* What the tests of bad input share. */
#include "support/bad_input.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void is_inert(tsr_array *array, const char *call)
{
  if (!array || !tsr_is_inert(array)) FAIL("%s is not inert", call);
}

void every_array_end_fails(tsr_array *a)
{
  double number = 7;
  int64_t integer = 7;
  tsr_shard shard = { .device = 7 };
  FAILS(tsr_eval(&a, 1));
  FAILS(tsr_eval((tsr_array *[]){ a, a, NULL }, 3));
  FAILS(tsr_read(a, &number, sizeof number));
  FAILS(tsr_read_scalar(a, &number));
  FAILS(tsr_read_i64(a, &integer));
  FAILS(tsr_shard_view(a, 0, &shard));
  FAILS(tsr_wait(a));
  FAILS(tsr_save_npy(a, test_tmp("never.npy")));
  CHECK(number == 7 && integer == 7 && shard.device == 7);
  CHECK(access(test_tmp("never.npy"), F_OK) != 0);
  CHECK_I64(tsr_shape_of(a).rank, 0);
  CHECK_I64(tsr_dtype_of(a), 0);
  CHECK(!tsr_sharding_of(a).mesh);
  CHECK(tsr_is_inert(a));
  CHECK(tsr_type_of(a) && tsr_text_of(a) && tsr_devices_of(a) && tsr_dump(a));
  CHECK(tsr_explain(&a, 1));
  tsr_delete(a);
}

void check_silent(void (*part)(void))
{
  const char *path = test_tmp("printed");
  unsetenv("TSR_LOG");
  pid_t child = fork();
  if (child == 0) {
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);
    if (file < 0 || dup2(file, 1) != 1 || dup2(file, 2) != 2) _exit(9);
    part();
    fflush(stdout);
    _exit(0);
  }
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  char *printed = test_read(path, NULL);
  CHECK_STR(printed, "");
  CHECK_I64(status, 0);
  free(printed);
}
