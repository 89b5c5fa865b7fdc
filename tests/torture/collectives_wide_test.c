/* Every collective over up to eight processes, at all sizes. */
#include <stdlib.h>

#include "harness.h"
#include "support/collective_laws.h"

static void check(int devices)
{
  collective_laws_check(devices, getenv("TEST_FULL") != NULL);
}

TEST_PROCESSES(collectives_of_eight, 8)
{
  check(1);
}

TEST_PROCESSES(collectives_of_five, 5)
{
  check(1);
}
