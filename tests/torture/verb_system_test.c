/* Every verb with a system that fails: the n-th open, stat, read, write, close, rename, mmap,
 * thread and allocation of the C library and the codecs, for every n. A clear status and a message
 * or the right result; no file left open, none half written, none left beside; then the same
 * runtime does the same work. What can be tried again (interruptions, short reads and writes) is
 * never seen.
 *
 * Wraps the system's calls (support/faults.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/faults.h"
#include "support/verb_cases.h"

/* What a fault may come to beside success: a set of statuses. */
enum { NONE = 0, IO = 1, MEMORY = 2, PARSE = 4 };

struct trial {
  struct fault fault;
  int may;
};

static bool allowed(int may, tsr_status status)
{
  return status == TSR_OK || (status == TSR_EIO && may & IO) ||
         (status == TSR_ENOMEM && may & MEMORY) || (status == TSR_EPARSE && may & PARSE);
}

static int bad;

static bool report(const struct verb_case *job, const struct trial *trial, const char *what)
{
  const struct fault *f = &trial->fault;
  fprintf(stderr, "%s, %s %lld%s %s: %s\n", job->name, fault_name(f->call), (long long)f->at,
          f->stay ? " and on" : "",
          f->how == FAULT_SHORT ? "short"
          : f->how == FAULT_END ? "ends"
                                : strerror(f->code),
          what);
  bad++;
  return false;
}

static tsr_runtime *open_runtime(int threads)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4", .threads = threads);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_OK, NULL);
  return rt;
}

static bool try_one(const struct verb_case *job, const struct trial *trial, uint64_t expected)
{
  uint64_t found = 0;
  char what[700];
  verb_out_reset();
  tsr_runtime *rt = open_runtime(trial->fault.call == FAULT_THREAD ? 3 : 1);
  fault_set(&trial->fault);
  tsr_status status = verb_run(job, rt, &found);
  fault_set(NULL);
  snprintf(what, sizeof what, "%s", verb_message());
  int may = trial->may;
  /* Who talks to other processes cannot do without threads. */
  if (job->run == verb_meeting && trial->fault.call == FAULT_THREAD) may |= MEMORY;
  if (!allowed(may, status)) return report(job, trial, *what ? what : "no message");
  if (status == TSR_OK && found != expected) return report(job, trial, "wrong result");
  if (status && !*what) return report(job, trial, "no message");
  if (trial->fault.call != FAULT_UNLINK) verb_out_check(job->name, verb_out_hash());
  status = verb_run(job, rt, &found);
  if (status || found != expected) return report(job, trial, "cannot do it afterwards");
  tsr_runtime_close(rt);
  if (fault_files()) return report(job, trial, "leaves a file open");
  return true;
}

static int64_t failure_step(int64_t calls)
{
  const char *full = getenv("TEST_FULL");
  int64_t most = test_quick() ? 4 : 12;
  return (full && *full == '1') || calls <= most ? 1 : calls / most;
}

/* Every n-th call of a class fails as the trial says. */
static int64_t try_each(const struct verb_case *job, struct trial trial, const int64_t *calls,
                        uint64_t expected)
{
  int64_t count = calls[trial.fault.call], tried = 0, step = failure_step(count);
  for (int64_t n = 1; n <= count; n += step, tried++) {
    trial.fault.at = n;
    if (!try_one(job, &trial, expected)) break;
  }
  return tried;
}

static void run_trials(const struct trial *trials, int count)
{
  int64_t tried = 0;
  verb_files();
  for (int i = 0; i < verb_case_count; i++) {
    const struct verb_case *job = &verb_cases[i];
    uint64_t expected = 0;
    int64_t calls[FAULT_CALLS];
    tsr_runtime *rt = open_runtime(1);
    fault_set(NULL);
    if (verb_run(job, rt, &expected)) FAIL("%s: fails: %s", job->name, verb_message());
    for (int c = 0; c < FAULT_CALLS; c++) calls[c] = fault_count((enum fault_call)c);
    calls[FAULT_THREAD] = 2;
    tsr_runtime_close(rt);
    for (int t = 0; t < count; t++) {
      bool repeats = trials[t].fault.at > 0;
      if (!repeats) tried += try_each(job, trials[t], calls, expected);
      else if (calls[trials[t].fault.call]) tried += try_one(job, &trials[t], expected);
    }
  }
  printf("# %d verbs, %lld failures\n", verb_case_count, (long long)tried);
  CHECK_I64(bad, 0);
}

#define TRIALS(...)                                 \
  run_trials((const struct trial[]){ __VA_ARGS__ }, \
             (int)(sizeof((const struct trial[]){ __VA_ARGS__ }) / sizeof(struct trial)))

TEST_TIMEOUT(no_interruption_and_no_short_call_is_seen, 300)
{
  TRIALS({ { FAULT_READ, 1, .each = 2, .code = EINTR }, NONE },
         { { FAULT_READ, 1, .each = 3, .how = FAULT_SHORT }, NONE },
         { { FAULT_READ, 1, .stay = true, .how = FAULT_SHORT }, NONE },
         { { FAULT_WRITE, 1, .each = 2, .code = EINTR }, NONE },
         { { FAULT_WRITE, 1, .stay = true, .how = FAULT_SHORT }, NONE },
         { { FAULT_OPEN, 1, .each = 2, .code = EINTR }, NONE },
         { { FAULT_CLOSE, 1, .stay = true, .code = EINTR }, NONE },
         { { FAULT_SYNC, 1, .each = 2, .code = EINTR }, NONE });
}

TEST_TIMEOUT(any_call_on_files_that_are_read_may_fail, 600)
{
  TRIALS({ { FAULT_OPEN, .code = EIO }, IO }, { { FAULT_OPEN, .code = EMFILE }, IO },
         { { FAULT_OPEN, .code = ENOMEM }, MEMORY }, { { FAULT_STAT, .code = EIO }, IO },
         { { FAULT_STAT, .code = EOVERFLOW, .stay = true }, IO },
         { { FAULT_READ, .code = EIO }, IO }, { { FAULT_READ, .code = EIO, .stay = true }, IO },
         { { FAULT_READ, .code = ENOMEM }, MEMORY }, { { FAULT_READ, .how = FAULT_END }, IO },
         { { FAULT_READ, .how = FAULT_END, .stay = true }, IO });
}

TEST_TIMEOUT(any_call_on_files_that_are_written_may_fail, 600)
{
  TRIALS({ { FAULT_WRITE, .code = EIO }, IO },
         { { FAULT_WRITE, .code = ENOSPC, .stay = true }, IO },
         { { FAULT_WRITE, .code = EFBIG }, IO }, { { FAULT_WRITE, .how = FAULT_END }, IO },
         { { FAULT_CLOSE, .code = EIO }, IO }, { { FAULT_CLOSE, .code = EDQUOT }, IO },
         { { FAULT_RENAME, .code = EIO }, IO }, { { FAULT_UNLINK, .code = EIO }, NONE },
         { { FAULT_MODE, .code = EPERM }, NONE }, { { FAULT_SYNC, .code = EIO }, IO },
         { { FAULT_SYNC, .code = ENOSPC }, IO });
}

TEST_TIMEOUT(memory_of_the_system_may_end, 1500)
{
  TRIALS({ { FAULT_MEMORY, .code = ENOMEM }, MEMORY },
         { { FAULT_MEMORY, .code = ENOMEM, .stay = true }, MEMORY },
         { { FAULT_MAP, .code = ENOMEM }, MEMORY },
         { { FAULT_MAP, .code = ENOMEM, .stay = true }, MEMORY });
}

TEST_TIMEOUT(threads_may_be_refused, 600)
{
  TRIALS({ { FAULT_THREAD, 1, .stay = true, .code = EAGAIN }, NONE },
         { { FAULT_THREAD, 2, .code = EAGAIN }, NONE });
}
