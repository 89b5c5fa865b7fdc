/* tessera run: several processes of one program.
 *
 *   tessera run -+- process 0   [0] its output
 *                +- process 1   [1] ...             each in a process group of its own
 *
 * Invariant: no process outlives the tool. A failed process ends the job: the other processes get a
 * second to report it, then SIGTERM, then SIGKILL; the tool's last line names the first failure.
 * With TSR_ON_FAILURE error or shrink the other processes continue.
 *
 * The tool may see two processes end at once, so the job's coordinator writes the first cause into
 * the job's folder. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"

enum {
  MOST_PROCESSES = 1024,
  READ = 8192,           /* most bytes of one read from a stream */
  MOST_LINE = 256 << 20, /* bytes of a line; longer lines are printed in parts */
  SAY_MS = 1000,
  TERM_MS = 5000,
  DRAIN_MS = 500
};

/* The unprinted output of a process on one of its two streams. */
typedef struct stream {
  int fd;              /* -1: at its end */
  size_t length, size; /* of `line`: used, allocated */
  char *line;
} stream;

typedef struct process {
  pid_t id; /* 0: not started */
  bool ended, stopped;
  int status; /* of waitpid */
  stream streams[2];
} process;

typedef struct job {
  int count, running;
  process *processes;
  char folder[256], secret[33];
  char cause[700]; /* the first failure, from the coordinator; "": none */
  bool goes_on;    /* the other processes continue after a failure */
  const char *coordinator, *engine, *on_failure; /* on_failure NULL: not given */
  char *const *program;
  int signals; /* a signalfd */
  int keeper;  /* the pipe on which the folder's keeper waits; -1: no keeper */
  pid_t keeper_id;
  sigset_t before;  /* the mask that processes get */
  int culprit;      /* the process that failed first; -1: none */
  bool given_up;    /* the culprit was stopped, and the others failed for that */
  int sweep, found; /* number of the reap, and of that in which the culprit ended */
  int interrupted;  /* the signal that ended the job; 0: none */
  int64_t since;    /* time at which the job began to end, in ms; 0: it did not */
  int sent;         /* the last signal for that: 0, SIGTERM, SIGKILL */
} job;

static int64_t now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- output ---------------------------------------------------------------------------------- */

static void put_line(const job *j, const process *p, int which, const char *line, size_t length)
{
  FILE *out = which ? stderr : stdout;
  fprintf(out, "[%d] ", (int)(p - j->processes));
  fwrite(line, 1, length, out);
  if (!length || line[length - 1] != '\n') fputc('\n', out);
  fflush(out);
}

/* Prints the complete lines of a stream, and with `all` also the rest: at the stream's end, and if
 * a line is longer than memory allows. */
static void put_lines(const job *j, const process *p, int which, bool all)
{
  stream *s = (stream *)&p->streams[which];
  size_t used = 0;
  for (char *end; used < s->length && (end = memchr(s->line + used, '\n', s->length - used));) {
    size_t length = (size_t)(end + 1 - (s->line + used));
    put_line(j, p, which, s->line + used, length);
    used += length;
  }
  if (used < s->length && all) {
    put_line(j, p, which, s->line + used, s->length - used);
    used = s->length;
  }
  if (used) memmove(s->line, s->line + used, s->length - used);
  s->length -= used;
}

/* Makes space for the next read, twice as much each time; false: no space left. */
static bool grow_line(stream *s)
{
  if (s->size - s->length >= READ) return true;
  size_t size = s->size ? 2 * s->size : 2 * READ;
  char *line = size > MOST_LINE ? NULL : realloc(s->line, size);
  if (!line) return s->length < s->size;
  s->line = line;
  s->size = size;
  return true;
}

static void read_stream(const job *j, process *p, int which)
{
  stream *s = &p->streams[which];
  if (!grow_line(s)) put_lines(j, p, which, true);
  ssize_t got = read(s->fd, s->line + s->length, s->size - s->length);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got > 0) s->length += (size_t)got;
  put_lines(j, p, which, got <= 0);
  if (got > 0) return;
  close(s->fd);
  s->fd = -1;
}

/* ---- starting -------------------------------------------------------------------------------- */

static void set_number(const char *name, int value)
{
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  setenv(name, text, 1);
}

static _Noreturn void become(const job *j, int index, const int *out, const int *err)
{
  char report[300];
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == 1) _exit(1); /* the tool has ended already */
  set_number("TSR_PROCESS_INDEX", index);
  set_number("TSR_PROCESS_COUNT", j->count);
  setenv("TSR_COORDINATOR", j->coordinator, 1);
  setenv("TSR_SECRET", j->secret, 1);
  snprintf(report, sizeof report, "%s/cause", j->folder);
  setenv("TSR_REPORT", report, 1);
  if (j->on_failure) setenv("TSR_ON_FAILURE", j->on_failure, 1);
  unsetenv("TSR_BIND");
  if (j->engine) setenv("TSR_ENGINE", j->engine, 1);
  /* Process 0 reads the standard input, but never a terminal, which is the tool's. */
  int nothing = index || isatty(STDIN_FILENO) ? open("/dev/null", O_RDONLY) : -1;
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  dup2(out[1], STDOUT_FILENO);
  dup2(err[1], STDERR_FILENO);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  sigprocmask(SIG_SETMASK, &j->before, NULL);
  execvp(j->program[0], j->program);
  /* All processes fail alike: process 0 prints it. */
  if (!index) fprintf(stderr, "cannot run %s: %s\n", j->program[0], strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

static bool start(job *j, int index)
{
  int out[2] = { -1, -1 }, err[2] = { -1, -1 };
  process *p = &j->processes[index];
  if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) {
    perror("tessera run: a pipe for the output");
    if (out[0] >= 0) close(out[0]), close(out[1]);
    return false;
  }
  p->id = fork();
  if (p->id == 0) become(j, index, out, err);
  close(out[1]);
  close(err[1]);
  p->streams[0].fd = out[0];
  p->streams[1].fd = err[0];
  if (p->id < 0) {
    perror("tessera run: starting a process");
    p->id = 0;
    return false;
  }
  setpgid(p->id, p->id); /* by both sides, whichever runs first */
  j->running++;
  return true;
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void send_all(const job *j, int number)
{
  for (int i = 0; i < j->count; i++)
    if (j->processes[i].id && !j->processes[i].ended) kill(-j->processes[i].id, number);
}

/* Begins to end the job; press() sends the signals. */
static void end_job(job *j)
{
  if (!j->since) j->since = now_ms();
}

/* Sends the signals that are due. */
static void press(job *j)
{
  int64_t passed = j->since ? now_ms() - j->since : 0;
  if (!j->since) return;
  if (j->sent == 0 && passed >= SAY_MS) {
    j->sent = SIGTERM;
    send_all(j, SIGTERM);
    send_all(j, SIGCONT); /* a stopped process would not receive it */
  } else if (j->sent == SIGTERM && passed >= SAY_MS + TERM_MS) {
    j->sent = SIGKILL;
    send_all(j, SIGKILL);
  }
}

/* Chooses the first failure. Of processes that ended in one sweep, a signal from outside is a
 * likelier cause than an exit code, which may follow from another failure. */
static void blame(job *j, int index)
{
  process *p = &j->processes[index];
  bool better = j->culprit >= 0 && j->found == j->sweep && WIFSIGNALED(p->status) &&
                !WIFSIGNALED(j->processes[j->culprit].status);
  if (j->culprit < 0 || better) {
    j->culprit = index;
    j->found = j->sweep;
  }
  /* If a process was stopped, the others failed for that. */
  for (int i = 0; i < j->count; i++)
    if (j->processes[i].stopped && !j->processes[i].ended) {
      j->culprit = i;
      j->given_up = true;
    }
  if (!j->goes_on) end_job(j);
}

static void reap(job *j)
{
  j->sweep++;
  for (int i = 0; i < j->count; i++) {
    process *p = &j->processes[i];
    int status;
    if (!p->id || p->ended || waitpid(p->id, &status, WNOHANG | WUNTRACED | WCONTINUED) <= 0)
      continue;
    p->stopped = WIFSTOPPED(status);
    if (WIFSTOPPED(status) || WIFCONTINUED(status)) continue;
    p->ended = true;
    p->status = status;
    j->running--;
    if (status && !j->interrupted && j->sent == 0) blame(j, i);
  }
}

/* Passes the tool's signals on to all processes, stopped ones too; a second interruption kills. */
static void take_signals(job *j)
{
  struct signalfd_siginfo info;
  while (read(j->signals, &info, sizeof info) == sizeof info) {
    int number = (int)info.ssi_signo;
    if (number == SIGCHLD) continue;
    bool ends = number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
    send_all(j, ends && j->interrupted ? SIGKILL : number);
    if (ends) send_all(j, SIGCONT); /* a stopped process would not receive it */
    if (ends && !j->interrupted) j->interrupted = number;
  }
  reap(j);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void await(job *j, struct pollfd *polls, int wait_ms)
{
  int used = 0;
  polls[used++] = (struct pollfd){ j->signals, POLLIN, 0 };
  for (int i = 0; i < j->count; i++)
    for (int k = 0; k < 2; k++)
      polls[used++] = (struct pollfd){ j->processes[i].streams[k].fd, POLLIN, 0 };
  if (poll(polls, (nfds_t)used, wait_ms) <= 0) return;
  for (int i = 0; i < j->count; i++)
    for (int k = 0; k < 2; k++)
      if (polls[1 + 2 * i + k].revents) read_stream(j, &j->processes[i], k);
  if (polls[0].revents) take_signals(j);
}

static bool has_streams(const job *j)
{
  for (int i = 0; i < j->count; i++)
    if (j->processes[i].streams[0].fd >= 0 || j->processes[i].streams[1].fd >= 0) return true;
  return false;
}

static void watch(job *j, struct pollfd *polls)
{
  while (j->running) {
    await(j, polls, j->since ? 50 : 1000);
    reap(j);
    press(j);
  }
  /* Children of the processes may hold the streams open; the tool does not wait for them. */
  for (int64_t until = now_ms() + DRAIN_MS; has_streams(j) && now_ms() < until;)
    await(j, polls, 20);
  for (int i = 0; i < j->count; i++)
    for (int k = 0; k < 2; k++) put_lines(j, &j->processes[i], k, true);
}

/* Reads the first failure from the coordinator: "2 process 2 (pid 12 on host) failed: ...". */
static void read_cause(job *j)
{
  char path[300], *end;
  snprintf(path, sizeof path, "%s/cause", j->folder);
  FILE *file = fopen(path, "r");
  if (!file) return;
  size_t length = fread(j->cause, 1, sizeof j->cause - 1, file);
  fclose(file);
  j->cause[length] = '\0';
  j->cause[strcspn(j->cause, "\n")] = '\0';
  long index = strtol(j->cause, &end, 10);
  if (end == j->cause || *end != ' ' || index < 0 || index >= j->count) {
    j->cause[0] = '\0';
    return;
  }
  memmove(j->cause, end + 1, strlen(end + 1) + 1);
  if ((int)index != j->culprit) j->given_up = j->processes[index].stopped;
  j->culprit = (int)index;
}

/* Whether the other processes continued after the failure and ended well. */
static bool went_on(const job *j)
{
  for (int i = 0; i < j->count; i++)
    if (i != j->culprit && j->processes[i].status) return false;
  return j->goes_on && j->count > 1;
}

/* Prints the first error that a process found only when it closed its runtime, though it ended
 * well: "PID message", a line each. The processes print all of them. */
static bool report_lost(const job *j)
{
  char path[300], line[1200], *end;
  snprintf(path, sizeof path, "%s/cause.lost", j->folder);
  FILE *file = fopen(path, "r");
  if (!file) return false;
  bool found = fgets(line, sizeof line, file);
  fclose(file);
  if (!found) return false;
  line[strcspn(line, "\n")] = '\0';
  long pid = strtol(line, &end, 10);
  fprintf(stderr, "tessera run: ");
  for (int i = 0; i < j->count; i++)
    if (j->processes[i].id == pid) fprintf(stderr, "process %d of %d: ", i, j->count);
  fprintf(stderr, "%s\n", end + (*end == ' '));
  return true;
}

static int report_failure(job *j)
{
  read_cause(j);
  if (j->culprit < 0) return TOOL_OK;
  const process *p = &j->processes[j->culprit];
  fprintf(stderr, "tessera run: process %d of %d ", j->culprit, j->count);
  if (j->given_up) {
    fprintf(stderr, "was stopped, and the other processes stopped waiting for it\n");
    return TOOL_FAILED;
  }
  if (WIFSIGNALED(p->status)) {
    int number = WTERMSIG(p->status);
    fprintf(stderr, "failed first: ended by signal %d (%s)\n", number, strsignal(number));
    return went_on(j) ? TOOL_OK : 128 + number;
  }
  fprintf(stderr, "failed first: exit code %d%s%s\n", WEXITSTATUS(p->status), p->status ? "" : ": ",
          p->status ? "" : j->cause);
  if (went_on(j)) return TOOL_OK;
  return p->status ? WEXITSTATUS(p->status) : TOOL_FAILED;
}

static int report(job *j)
{
  if (j->interrupted) return 128 + j->interrupted;
  int code = report_failure(j);
  return code == TOOL_OK && report_lost(j) ? TOOL_FAILED : code;
}

/* ---- the job --------------------------------------------------------------------------------- */

static bool make_secret(char out[33])
{
  unsigned char bytes[16];
  if (getentropy(bytes, sizeof bytes)) return false;
  for (int i = 0; i < 16; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
  return true;
}

/* Names the folder of the socket and of the reports of failures. */
static bool name_folder(job *j, char *address, size_t size)
{
  const char *base = getenv("TMPDIR");
  char name[33];
  if (!make_secret(name)) return false;
  snprintf(j->folder, sizeof j->folder, "%.200s/tessera-%.8s", base && *base ? base : "/tmp", name);
  snprintf(address, size, "unix:%s/job", j->folder);
  return true;
}

/* False: the folder is not empty. */
static bool remove_folder(const job *j)
{
  char path[300];
  snprintf(path, sizeof path, "%s/job", j->folder);
  unlink(path);
  snprintf(path, sizeof path, "%s/cause", j->folder);
  unlink(path);
  snprintf(path, sizeof path, "%s/cause.lost", j->folder);
  unlink(path);
  return !rmdir(j->folder) || errno == ENOENT;
}

/* Starts a child that removes the folder even if the tool is killed: the child waits on a pipe,
 * which closes when the tool ends. The child is there before the folder. A process of the job that
 * has not yet been killed may put a file there meanwhile. */
static void keep_folder(job *j)
{
  enum { TIMES = 500, WAIT_US = 10000 };
  int ends[2];
  char byte;
  j->keeper = -1;
  if (pipe2(ends, O_CLOEXEC)) return;
  j->keeper_id = fork();
  if (j->keeper_id == 0) {
    /* A group of its own: it gets no signals of the terminal. */
    setsid();
    close(ends[1]);
    for (int fd = 0; fd < 3; fd++) close(fd);
    while (read(ends[0], &byte, 1) < 0 && errno == EINTR) continue;
    for (int i = 0; i < TIMES && !remove_folder(j); i++) usleep(WAIT_US);
    _exit(0);
  }
  close(ends[0]);
  if (j->keeper_id > 0) j->keeper = ends[1];
  else close(ends[1]);
}

/* Makes a folder that only this user can enter. */
static bool make_folder(job *j, char *address, size_t size)
{
  bool named = name_folder(j, address, size);
  if (named) keep_folder(j);
  if (named && !mkdir(j->folder, 0700)) return true;
  perror("tessera run: a folder for the job");
  return false;
}

/* Removes the folder and waits for its keeper. */
static void end_folder(const job *j)
{
  if (j->keeper >= 0) {
    close(j->keeper);
    while (waitpid(j->keeper_id, NULL, 0) < 0 && errno == EINTR) continue;
  }
  remove_folder(j);
}

static int open_signals(sigset_t *before)
{
  static const int all[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
  sigset_t wanted;
  sigemptyset(&wanted);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) sigaddset(&wanted, all[i]);
  sigprocmask(SIG_BLOCK, &wanted, before);
  return signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run_job(job *j)
{
  struct pollfd *polls = calloc((size_t)j->count * 2 + 1, sizeof *polls);
  bool started = polls != NULL;
  for (int i = 0; i < j->count && started; i++) started = start(j, i);
  if (!started) {
    send_all(j, SIGKILL);
    j->sent = SIGKILL;
  }
  if (polls) watch(j, polls);
  free(polls);
  return started ? report(j) : TOOL_FAILED;
}

int tool_run(const tool_args *args)
{
  char address[300];
  job j = { .count = (int)args->processes, .program = args->program, .culprit = -1 };
  if (j.count > MOST_PROCESSES) {
    fprintf(stderr, "tessera run: -n %d is too large; the most is %d\n", j.count, MOST_PROCESSES);
    return TOOL_USAGE;
  }
  j.coordinator = tool_value(args, OPT_COORDINATOR);
  j.on_failure = tool_value(args, OPT_ON_FAILURE);
  const char *mode = j.on_failure ? j.on_failure : getenv("TSR_ON_FAILURE");
  j.goes_on = mode && (!strcmp(mode, "error") || !strcmp(mode, "shrink"));
  j.engine = tool_value(args, OPT_ENGINE);
  if (!make_folder(&j, address, sizeof address)) return TOOL_FAILED;
  if (!j.coordinator) j.coordinator = address;
  j.processes = calloc((size_t)j.count, sizeof *j.processes);
  int code = TOOL_FAILED;
  if (!j.processes || !make_secret(j.secret)) perror("tessera run");
  else {
    for (int i = 0; i < j.count; i++)
      j.processes[i].streams[0].fd = j.processes[i].streams[1].fd = -1;
    j.signals = open_signals(&j.before);
    code = run_job(&j);
    close(j.signals);
    sigprocmask(SIG_SETMASK, &j.before, NULL);
  }
  for (int i = 0; j.processes && i < 2 * j.count; i++) free(j.processes[i / 2].streams[i % 2].line);
  free(j.processes);
  end_folder(&j);
  return code;
}
