#include "support/allocations.h"

int64_t each_allocation_fails(const char *devices,
                              bool (*job)(tsr_runtime *rt, bool fails, const void *user),
                              const void *user)
{
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  tsr_runtime *rt = tsr_runtime_open(devices, .allocator = &allocator, .threads = 1);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_OK, NULL);
  int64_t total = INT64_MAX, failures = 0;
  for (int64_t n = 0; n <= total; n++) {
    state.count = 0;
    state.fail_at = n;
    failures += job(rt, n > 0, user);
    if (!n) total = state.count;
  }
  tsr_runtime_close(rt);
  CHECK_I64(state.live, 0);
  return failures;
}
