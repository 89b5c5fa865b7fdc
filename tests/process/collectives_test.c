/* Every collective over devices of several processes: as in one. */

#include "harness.h"
#include "support/collective_laws.h"

TEST_PROCESSES(collectives_of_one, 1)
{
  collective_laws_check(3, false);
}

TEST_PROCESSES(collectives_of_two, 2)
{
  collective_laws_check(1, false);
}

TEST_PROCESSES(collectives_of_three, 3)
{
  collective_laws_check(1, false);
}

TEST_PROCESSES(collectives_of_four, 4)
{
  collective_laws_check(2, false);
}
