/* What becomes of a process when another one fails, and how it comes to stop where all do.
 *
 *   failure known --shutdown--> said on standard error --grace--> the process ends, code 75
 *                 --error, shrink--> calls fail, nothing else
 *
 * Invariant: in the mode `shutdown` no process outlives a failure by more than its grace, whatever
 * it is busy with, unless it is closing its runtime. The signal to stop is taken from the program's
 * threads by blocking it, and read by this one: no handler is installed, and one that the program
 * has is run all the same.
 *
 *   member.c's thread   hears of failures, beats, reads the signal     `doom` is its own, no lock
 *   callers' threads    should_stop, stop, waits, leave                 under comm->lock
 *
 * What is said goes to standard error in the mode `shutdown` alone, where no logger has it. */
#include "comm/member.h"

#include "base/events.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* ---- saying ---------------------------------------------------------------------------------- */

/* On standard error, where nobody logs it: a process that is ended must be able to say why.
 * Without stdio: another thread may hold a lock of that, or be at exit. */
TSR_PRINTF(2, 3)
static void say(tsr__comm *comm, const char *format, ...)
{
  char line[1400];
  va_list args;
  va_start(args, format);
  int length = snprintf(line, sizeof line, "tessera: ");
  length += vsnprintf(line + length, sizeof line - 1 - (size_t)length, format, args);
  va_end(args);
  if (comm->role.on_failure != TSR__ON_FAILURE_SHUTDOWN) return;
  if (length > (int)sizeof line - 2) length = (int)sizeof line - 2;
  line[length++] = '\n';
  for (int at = 0; at < length;) {
    ssize_t put = write(STDERR_FILENO, line + at, (size_t)(length - at));
    if (put <= 0) return;
    at += (int)put;
  }
}

/* Called once in a process's life, by the first cause. The time is this process's own: nobody
 * tells it when to end, so nobody need be there to do so. One that is closing goes anyway. */
void tsr__fate_failed(tsr__comm *comm)
{
  tsr__error cause;
  char seconds[32];
  bool closing = atomic_load(&comm->closing);
  bool logged = tsr__log_on(comm->rt, TSR_LOG_ERROR, "process");
  tsr__comm_failed(comm, &cause);
  if (comm->role.on_failure == TSR__ON_FAILURE_SHUTDOWN && !closing)
    comm->doom = tsr__now() + (int64_t)(comm->role.grace_seconds * 1e9);
  tsr__text_f64(seconds, comm->role.grace_seconds);
  if (logged || closing) return;
  say(comm, "%s; process %d of %d ends in %s s, or when it closes its runtime", cause.text,
      comm->role.index, comm->role.count, seconds);
}

void tsr__fate_tell(tsr__comm *comm, const char *text)
{
  tsr__log(comm->rt, TSR_LOG_WARN, "process", "%s", text);
  if (!tsr__log_on(comm->rt, TSR_LOG_WARN, "process")) say(comm, "%s", text);
}

double tsr__fate_patience(const tsr__comm *comm)
{
  enum { SECONDS = 10 };
  return comm->role.stall_seconds < SECONDS ? comm->role.stall_seconds : SECONDS;
}

/* One process says it: all wait for the same. */
void tsr__fate_start(tsr__comm *comm, int64_t now)
{
  int64_t since = atomic_load(&comm->starts);
  double seconds = tsr__fate_patience(comm);
  if (!since || comm->missed || comm->role.index || (double)(now - since) < seconds * 1e9) return;
  char number[32];
  int missing = 0;
  tsr__text text;
  tsr__text_init(&text, &comm->rt->heap);
  tsr__text_f64(number, seconds);
  for (int i = 0; i < comm->role.count; i++) {
    if (atomic_load(&comm->presence[i]) != TSR__ABSENT) continue;
    if (missing++ < 20) tsr__text_add(&text, "%s%d", missing > 1 ? ", " : "", i);
    else if (missing == 21) tsr__text_add(&text, " and others");
  }
  comm->missed = true;
  char line[700];
  snprintf(line, sizeof line,
           "after %s s %d of %d processes have joined; missing: process %.200s; process 0 listens "
           "at %.300s",
           number, comm->role.count - missing, comm->role.count, tsr__text_get(&text),
           comm->coordinator ? comm->coordinator->listeners.where : "");
  tsr__text_free(&text);
  if (missing) tsr__fate_tell(comm, line);
}

/* What this process waits in, told once where that takes long.
 * Copied out and told without the lock: logging may take its time, and calls of users run there. */
static void tell_wait(tsr__comm *comm, const char *whom)
{
  tsr__comm_wait wait;
  pthread_mutex_lock(&comm->lock);
  wait = comm->wait;
  comm->told = true;
  pthread_mutex_unlock(&comm->lock);
  if (wait.process < 0) return;
  bool last = wait.theirs != 0;
  char text[900];
  snprintf(text, sizeof text, "%s: process %d waits for process %d in run %llu, %s%s%s", whom,
           comm->role.index, wait.process, (unsigned long long)wait.number, wait.what,
           last ? "; that process was last seen in " : "", last ? wait.their_what : "");
  tsr__fate_tell(comm, text);
}

void tsr__fate_silent(tsr__comm *comm, int index)
{
  char text[80];
  snprintf(text, sizeof text, "process %d sends no heartbeat", index);
  tell_wait(comm, text);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* `told` is taken back when a wait begins or ends: so each that is long is told of once. */
int tsr__fate_wait(tsr__comm *comm, int64_t now, int wait_ms)
{
  pthread_mutex_lock(&comm->lock);
  bool long_wait = comm->waits_since && !comm->told &&
                   (double)(now - comm->waits_since) > comm->role.stall_seconds * 1e9;
  pthread_mutex_unlock(&comm->lock);
  if (long_wait) tell_wait(comm, "a long wait");
  if (!comm->doom || atomic_load(&comm->closing)) return wait_ms;
  /* Not exit: it would run what belongs to the program's threads, which are at work. */
  if (now >= comm->doom) _exit(TSR__EXIT_PEER);
  int64_t left = (comm->doom - now) / MILLISECOND + 1;
  return left < wait_ms ? (int)left : wait_ms;
}

/* Without a connection the thread has one thing left to do: to keep the hour. */
void tsr__fate_linger(tsr__comm *comm)
{
  struct pollfd wake = { comm->wake, POLLIN, 0 };
  while (comm->doom && !atomic_load(&comm->stop)) {
    if (poll(&wake, 1, tsr__fate_wait(comm, tsr__now(), 1000)) > 0) tsr__wake_drain(comm->wake);
  }
}

/* Only kept: it goes out with the next beat, as who is waited for matters after minutes and
 * waits come and go in microseconds. */
void tsr__comm_waits(tsr__comm *comm, const tsr__comm_wait *wait)
{
  pthread_mutex_lock(&comm->lock);
  if (wait) comm->wait = *wait;
  else comm->wait.process = -1;
  comm->waits_since = wait ? tsr__now() : 0;
  comm->told = false;
  pthread_mutex_unlock(&comm->lock);
}

/* The process is sent as one more than it is, so that 0 says "for nobody". */
void tsr__fate_beat(tsr__comm *comm, uint64_t beats)
{
  tsr__comm_wait wait;
  tsr__text *out = &comm->link.out;
  pthread_mutex_lock(&comm->lock);
  wait = comm->wait;
  pthread_mutex_unlock(&comm->lock);
  bool waits = wait.process >= 0;
  size_t began = tsr__packet_begin(out, TSR__SAY_PING, 0);
  tsr__write_u64(out, beats);
  tsr__write_u32(out, (uint32_t)(wait.process + 1));
  tsr__write_u64(out, waits ? wait.word : 0);
  tsr__write_bytes(out, wait.what, waits ? strlen(wait.what) : 0);
  tsr__packet_end(out, began);
}

/* ---- stopping -------------------------------------------------------------------------------- */

/* Blocked where this is called, and inherited by threads that are started later; threads that a
 * program started before have it unblocked, and may still be given it by the system. The thread
 * is woken, as it polls without the file until then. */
void tsr__fate_open(tsr__comm *comm)
{
  sigset_t set, before;
  if (!comm->role.stop_signal) return;
  sigemptyset(&set);
  sigaddset(&set, comm->role.stop_signal);
  if (pthread_sigmask(SIG_BLOCK, &set, &before)) return;
  comm->was_blocked = sigismember(&before, comm->role.stop_signal);
  atomic_store(&comm->signals, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  tsr__wake(comm->wake);
}

/* The exchange makes it once, whoever comes. What was blocked before stays so. */
void tsr__fate_close(tsr__comm *comm)
{
  sigset_t set;
  int signals = atomic_exchange(&comm->signals, -1);
  if (signals < 0) return;
  close(signals);
  sigemptyset(&set);
  sigaddset(&set, comm->role.stop_signal);
  if (!comm->was_blocked) pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void tsr__fate_signal(tsr__comm *comm)
{
  struct signalfd_siginfo info;
  struct sigaction action;
  int number = comm->role.stop_signal;
  while (read(atomic_load(&comm->signals), &info, sizeof info) == sizeof info) {
    sigset_t set;
    tsr__log(comm->rt, TSR_LOG_INFO, "process", "signal %d: all processes are asked to stop",
             number);
    tsr__comm_stop(comm);
    if (sigaction(number, NULL, &action) || action.sa_handler == SIG_DFL ||
        action.sa_handler == SIG_IGN)
      continue;
    /* The program has a handler of its own, which runs as if the signal had come to this thread. */
    sigemptyset(&set);
    sigaddset(&set, number);
    pthread_kill(pthread_self(), number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
  }
}

/* Also called by the thread itself, so it may not wait for an answer. */
void tsr__comm_stop(tsr__comm *comm)
{
  tsr__say_by(comm, TSR__SAY_STOP, NULL);
}

/*   STOP comes: agreeing, and the step that was asked about last goes back
 *   STEP comes: no more agreeing, stop_at is known, who waits in should_stop goes on
 *
 * Step and `agreeing` change under one lock, so the number that is sent cannot grow any more:
 * who asks about the next step waits in should_stop until the answer is there. */
bool tsr__fate_stop(tsr__comm *comm, tsr__packet *packet)
{
  bool asked = packet->kind == TSR__SAY_STOP;
  uint64_t step = asked ? 0 : tsr__take_u64(&packet->fields);
  if ((!asked && packet->kind != TSR__SAY_STEP) || !tsr__fields_done(&packet->fields)) return false;
  pthread_mutex_lock(&comm->lock);
  comm->agreeing = asked;
  if (!asked) comm->stop_at = (int64_t)(step & INT64_MAX);
  uint64_t mine = (uint64_t)(comm->step + 1);
  pthread_cond_broadcast(&comm->answered);
  pthread_mutex_unlock(&comm->lock);
  if (!asked) return true;
  size_t began = tsr__packet_begin(&comm->link.out, TSR__SAY_STEP, 0);
  tsr__write_u64(&comm->link.out, mine);
  tsr__packet_end(&comm->link.out, began);
  return true;
}

/* Mostly no more than a lock and two comparisons: a loop asks it at each step. The wait ends by
 * the answer or the loss of the connection; one who keeps the answer from coming is found silent
 * by the coordinator, as the answer is its thread's and needs no call of its program. */
tsr_status tsr__comm_should_stop(tsr__comm *comm, int64_t step, bool *out, tsr__error *error)
{
  pthread_mutex_lock(&comm->lock);
  while (comm->agreeing && !comm->lost.status) pthread_cond_wait(&comm->answered, &comm->lock);
  if (step < comm->step)
    tsr__error_set(error, TSR_EARG, "the step is %lld, but was %lld before; steps must not fall",
                   (long long)step, (long long)comm->step);
  else if (comm->lost.status && comm->agreeing)
    tsr__error_set(error, comm->lost.status, "%s", comm->lost.text);
  else {
    comm->step = step;
    *out = comm->stop_at >= 0 && step >= comm->stop_at;
  }
  pthread_mutex_unlock(&comm->lock);
  return error->status;
}

/* ---- going on as fewer ----------------------------------------------------------------------- */

/* Asks for the place among those that are left.
 * The answer lists old indices in order; the place in it is the new index. */
static tsr_status ask_place(tsr__comm *comm, double seconds, tsr__role *role, tsr__error *error)
{
  tsr__ask r;
  tsr__text answer;
  tsr__text_init(&answer, &comm->rt->heap);
  tsr__request_begin(comm, &r, TSR__SAY_REGROUP);
  tsr__write_u64(&r.text, (uint64_t)(seconds * 1000));
  tsr_status status = tsr__ask_send(comm, &r, TSR__UNTIL_ANSWERED, &answer, error);
  tsr__fields fields = { (const uint8_t *)answer.data, (const uint8_t *)answer.data + answer.length,
                         false };
  uint32_t count = status ? 0 : tsr__take_u32(&fields);
  role->index = -1;
  for (uint32_t i = 0; i < count && !fields.bad; i++)
    if (tsr__take_u32(&fields) == (uint32_t)comm->role.index) role->index = (int)i;
  role->count = (int)count;
  tsr__text_free(&answer);
  if (!status && (role->index < 0 || count > (uint32_t)comm->role.count))
    status = tsr__error_set(error, TSR_EPEER, "this process is not among the remaining processes");
  return status;
}

tsr_status tsr__comm_leave(tsr__comm *comm, double seconds, tsr__role *out, tsr__error *error)
{
  tsr__error why = { .status = TSR_OK };
  if (!comm)
    return tsr__error_set(error, TSR_ESTATE,
                          "this runtime belongs to no job of several processes; open the runtime "
                          "with tsr_initialize");
  if (comm->role.on_failure != TSR__ON_FAILURE_SHRINK)
    return tsr__error_set(error, TSR_ESTATE,
                          ".on_failure is not \"shrink\"; set .on_failure or TSR_ON_FAILURE to "
                          "\"shrink\" in all processes");
  if (!(seconds >= 0) || seconds > 1e9)
    return tsr__error_set(error, TSR_EARG,
                          ".timeout is negative, no number or above 1e9 s; 0 is 300 s");
  tsr__role role = comm->role;
  tsr_status status = ask_place(comm, seconds > 0 ? seconds : TSR__COMM_SECONDS, &role, &why);
  pthread_mutex_lock(&comm->lock);
  bool lost = comm->lost.status != TSR_OK;
  pthread_mutex_unlock(&comm->lock);
  if (status && lost)
    return tsr__error_set(error, why.status,
                          "%s; the remaining processes cannot go on without process 0: start the "
                          "program again from its checkpoint",
                          why.text);
  if (status) return tsr__error_set(error, status, "%s", why.text);
  /* All that are left were there a moment ago: who does not come soon has died since, and the rest
   * goes on without it. */
  role.fewer = true;
  if (role.start_seconds > 3 * role.stall_seconds) role.start_seconds = 3 * role.stall_seconds;
  /* Alone it needs no address, and none may join it. */
  if (role.count == 1) role.coordinator[0] = role.bind[0] = '\0';
  *out = role;
  return TSR_OK;
}
