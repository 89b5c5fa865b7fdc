// The public headers serve C++: they compile there, and their functions link as C.
#include <cstdio>
#include <cstring>

#include <tessera.h>

int main()
{
  char version[32];
  std::snprintf(version, sizeof version, "%d.%d.%d", TSR_VERSION_MAJOR, TSR_VERSION_MINOR,
                TSR_VERSION_PATCH);
  if (std::strcmp(tsr_version(), version) != 0) {
    std::fprintf(stderr, "tsr_version() is %s, the headers say %s\n", tsr_version(), version);
    return 1;
  }
  tsr_runtime_opts opts = {};
  opts.size = sizeof opts;
  tsr_runtime *rt = tsr_runtime_open_with("cpu:2", &opts);
  tsr_scope *scope = tsr_scope_open_at(rt, "headers_cxx_test.cc");
  bool fine = tsr_runtime_status(rt) == TSR_OK && tsr_scope_status(scope) == TSR_OK;
  tsr_scope_close(scope);
  tsr_runtime_close(rt);
  return fine ? 0 : 1;
}
