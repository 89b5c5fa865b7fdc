/* Which instruction set the kernels of a runtime run with: the user's choice, else $TSR_ISA, else
 * the best that this machine has. Asking for one that is not there is an error, never a crash. */
#include "kernel/tile/isa.h"

#include <stdlib.h>

#include "kernel/tile/image.h"

/* Each has all that those before it have, so the last that the machine has is the best. */
static const tsr__tiles *const all_tiles[] = {
  &tsr__tiles_baseline,
#if defined(__x86_64__) && !defined(TSR__BASELINE_ONLY)
  &tsr__tiles_avx2,
  &tsr__tiles_avx512,
#endif
};

enum { TILES = sizeof all_tiles / sizeof all_tiles[0] };

/* Checks every feature that the flags of those files let the compiler use, not only the one in the
 * set's name. */
static bool machine_has(int level)
{
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
              __builtin_cpu_supports("popcnt");
  if (level == 1) return avx2;
  if (level == 2)
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd");
#endif
  return level == 0;
}

const tsr__tiles *tsr__tiles_of(const char *isa)
{
  for (int i = 0; i < TILES; i++)
    if (!strcmp(all_tiles[i]->isa, isa)) return machine_has(i) ? all_tiles[i] : NULL;
  return NULL;
}

const tsr__image_tiles *tsr__image_tiles_of(const char *isa)
{
  return tsr__tiles_of(isa)->image;
}

tsr__rounds_fn *tsr__rounds_of(const char *isa)
{
  return tsr__tiles_of(isa)->rounds;
}

tsr_status tsr__isa_resolve(tsr_runtime *rt)
{
  /* The program's option wins over the environment: a test that asks for one gets it. */
  const char *ask = rt->opts.isa ? rt->opts.isa : getenv("TSR_ISA");
  const char *from = rt->opts.isa ? ".isa" : "$TSR_ISA";
  int level = TILES - 1;
  while (level > 0 && !machine_has(level)) level--;
  if (ask && *ask) {
    /* Names of sets that this build has not are refused as misspelt ones are. */
    for (level = 0; level < TILES && strcmp(all_tiles[level]->isa, ask); level++) continue;
    if (level == TILES)
      return tsr__runtime_fail(rt, TSR_EARG,
                               "tsr_runtime_open: %s is '%.20s', expected baseline, avx2 or "
                               "avx512, or no value for the best one",
                               from, ask);
    if (!machine_has(level))
      return tsr__runtime_fail(rt, TSR_EUNSUPPORTED,
                               "tsr_runtime_open: %s is %s, but this machine does not have those "
                               "instructions; leave it out for the best ones",
                               from, ask);
  }
  memcpy(rt->isa, all_tiles[level]->isa, strlen(all_tiles[level]->isa) + 1);
  return TSR_OK;
}
