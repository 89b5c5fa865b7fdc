/* Who this process is: its number, how many there are, and where the coordinator is.
 *
 * Each of these is taken from the first that says it:
 *
 *   1. options of tsr_initialize
 *   2. TSR_* variables, which `tessera run` sets and people may
 *   3. an MPI that the program has initialised: all of its processes are the job, and its first
 *      tells the others where it listens
 *   4. the variables of a launcher, the first of these that is there:
 *
 *      launcher     is there if one is set        number, count                coordinator
 *      openmpi      OMPI_COMM_WORLD_SIZE, _RANK   OMPI_COMM_WORLD_RANK, _SIZE  host of mpirun (4)
 *      mpich        PMI_SIZE, PMI_RANK            PMI_RANK, PMI_SIZE           by MPI
 *      slurm        SLURM_STEP_ID                 SLURM_PROCID, SLURM_NTASKS   first host of step
 *      kubernetes   JOB_COMPLETION_INDEX          JOB_COMPLETION_INDEX, -      -
 *      torchrun     WORLD_SIZE, RANK, MASTER_ADDR RANK, WORLD_SIZE             MASTER_ADDR
 *
 *   5. nothing says anything: one process, alone
 *
 * Invariant: nothing is guessed. What a launcher says by halves, in words that are no numbers, or
 * otherwise than TSR_* does, is an error that names the variables: processes that each believe to
 * be alone would give wrong results without a word.
 *
 * A launcher's row in `launchers` has signs, by which it is known to be there, and a reader. The
 * order counts: mpirun under Slurm sets both kinds, and its own are the narrower ones. */
#include "comm/comm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define PORT_FIRST 61440 /* of 4096 ports that jobs are spread over by their numbers */

typedef struct finding {
  const tsr__environment *env;
  tsr__error *error;
  const char *who;    /* "Slurm"; NULL: no launcher */
  long index, count;  /* -1: not said */
  char address[300];  /* "": not said */
  const char *needed; /* what says the coordinator's address here */
  const char *name;   /* of the launcher, as .detect has it; "": none */
  tsr__found met;     /* by MPI */
  bool by_mpi;
} finding;

typedef struct launcher {
  const char *name, *title;
  const char *signs[4]; /* it is there if one of these is set */
  bool (*read)(finding *f);
} launcher;

/* ---- variables ------------------------------------------------------------------------------- */

/* An empty variable is one that is not set: shells cannot always unset one for a child. By a
 * function, so that tests need not change the environment of their process. */
static const char *value_of(const finding *f, const char *name)
{
  const char *value = f->env->get(name, f->env->user);
  return value && *value ? value : NULL;
}

/* A whole number of at most `most`, in decimal; -1: the text is none.
 * No signs, no blanks, no 0x: strtol would take "3 nodes" for 3. `most` is below 2^63 / 10, so
 * the product stays within a long. */
static long number(const char *text, long most)
{
  long value = 0;
  for (const char *at = text; *at; at++) {
    if (*at < '0' || *at > '9' || value > most) return -1;
    value = value * 10 + (*at - '0');
  }
  return *text && value <= most ? value : -1;
}

/* Reads a number that must be there; false, with the error, if it is none. */
static bool read_number(finding *f, const char *name, long most, long *out)
{
  const char *text = value_of(f, name);
  if (text) *out = number(text, most);
  if (text && *out >= 0) return true;
  if (text)
    tsr__error_set(f->error, TSR_EARG,
                   "%s: %s is \"%.60s\", expected a whole number of at most %ld; set "
                   ".process_count and .process_index instead, or set TSR_DETECT=none",
                   f->who, name, text, most);
  else
    tsr__error_set(f->error, TSR_EARG,
                   "%s seems to have started this process, but %s is not set; set the variable, or "
                   "TSR_DETECT=none if this process runs alone",
                   f->who, name);
  return false;
}

/* The number of processes, which is 1 at least, and of this one among them. */
static bool read_place(finding *f, const char *count, const char *index)
{
  if (!read_number(f, count, TSR__PROCESSES_MOST, &f->count) ||
      !read_number(f, index, TSR__PROCESSES_MOST, &f->index))
    return false;
  if (f->index < f->count) return true;
  tsr__error_set(f->error, TSR_EARG, "%s: %s is %ld, but %s is %ld, expected a number below that",
                 f->who, index, f->index, count, f->count);
  return false;
}

/* An IPv6 address takes brackets, or its last part would be read as the port. What is too long
 * leaves the address unsaid, and that is told later. */
static void put_address(finding *f, const char *host, size_t length, long port)
{
  bool six = memchr(host, ':', length) != NULL;
  if (length < 250)
    snprintf(f->address, sizeof f->address, six ? "[%.*s]:%ld" : "%.*s:%ld", (int)length, host,
             port);
}

/* ---- launchers ------------------------------------------------------------------------------- */

/* "3422552064.0;tcp://10.0.0.1,192.168.0.1:43577", or "...;tcp6://[fe80::1]:43577": where mpirun
 * runs, which is where process 0 does unless its hosts were listed otherwise.
 * All processes read the same text, so all come to one port without a word: jobs on one host are
 * spread over the ports by their number. Two may still meet at one; then process 0 says that the
 * port is taken. */
static void read_hnp(finding *f, const char *uri)
{
  const char *host = strstr(uri, "://");
  long job = strtol(uri, NULL, 10);
  if (!host || job <= 0) return;
  host += 3;
  host += *host == '[';
  put_address(f, host, strcspn(host, uri[0] && host[-1] == '[' ? "]," : ",:]"),
              PORT_FIRST + job / 4096 % 4096);
}

static bool read_openmpi(finding *f)
{
  const char *uri = value_of(f, "OMPI_MCA_orte_hnp_uri");
  if (!read_place(f, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")) return false;
  if (uri) read_hnp(f, uri);
  f->needed = "Open MPI 5 does not say where its processes run";
  return true;
}

static bool read_mpich(finding *f)
{
  f->needed = "MPICH does not say where its processes run";
  return read_place(f, "PMI_SIZE", "PMI_RANK");
}

/* The first host of a list: "node001,b", "node[001-015,20],b" -> node001; "rack[1-2]n[07-09]-ib"
 * -> rack1n07-ib. Of each pair of brackets it has the first number. */
static void read_hosts(finding *f, const char *list, long port)
{
  char host[256];
  size_t length = 0;
  for (const char *at = list; *at && *at != ',';) {
    bool brackets = *at == '[';
    at += brackets;
    size_t more = brackets ? strspn(at, "0123456789") : strcspn(at, "[,");
    if (length + more >= sizeof host) return;
    memcpy(host + length, at, more);
    length += more;
    at += brackets ? strcspn(at, "]") : more;
    at += brackets && *at;
  }
  if (length) put_address(f, host, length, port);
}

static bool read_slurm(finding *f)
{
  long job = 0, step = 0;
  const char *list = value_of(f, "SLURM_STEP_NODELIST");
  const char *count = value_of(f, "SLURM_NTASKS") ? "SLURM_NTASKS" : "SLURM_STEP_NUM_TASKS";
  if (!read_place(f, count, "SLURM_PROCID") || !read_number(f, "SLURM_JOB_ID", 4294967295, &job) ||
      !read_number(f, "SLURM_STEP_ID", 4294967295, &step))
    return false;
  /* Steps of one job may run at the same time. */
  if (list) read_hosts(f, list, PORT_FIRST + (job + 1021 * step) % 4096);
  f->needed = "SLURM_STEP_NODELIST is not set";
  return true;
}

static bool read_kubernetes(finding *f)
{
  f->needed = "a pod does not know the address of the first pod: with a headless service as "
              ".spec.subdomain the address is JOB-0.SUBDOMAIN";
  return read_number(f, "JOB_COMPLETION_INDEX", TSR__PROCESSES_MOST, &f->index);
}

static bool read_torchrun(finding *f)
{
  const char *host = value_of(f, "MASTER_ADDR");
  long port = 0;
  if (!read_place(f, "WORLD_SIZE", "RANK")) return false;
  f->needed = "MASTER_ADDR is not set";
  if (!host) return true;
  if (!read_number(f, "MASTER_PORT", 65535, &port)) return false;
  /* torchrun itself listens at MASTER_PORT. */
  if (value_of(f, "TORCHELASTIC_RUN_ID")) port = port < 65535 ? port + 1 : port - 1;
  put_address(f, host, strlen(host), port);
  return true;
}

/* All of its processes come here. */
static bool read_mpi(finding *f)
{
  if (!f->env->meet) {
    tsr__error_set(
        f->error, TSR_EUNSUPPORTED,
        "there is no MPI to find the other processes; set .coordinator or TSR_COORDINATOR");
    return false;
  }
  if (f->env->meet(f->name, &f->met, f->error)) return false;
  f->by_mpi = true;
  f->index = f->met.index;
  f->count = f->met.count;
  snprintf(f->address, sizeof f->address, "%s", f->met.coordinator);
  return true;
}

static const launcher launchers[] = {
  { "mpi", "MPI", { NULL }, read_mpi },
  { "openmpi", "Open MPI", { "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK" }, read_openmpi },
  { "mpich", "MPICH", { "PMI_SIZE", "PMI_RANK" }, read_mpich },
  { "slurm", "Slurm", { "SLURM_STEP_ID" }, read_slurm },
  { "kubernetes", "Kubernetes", { "JOB_COMPLETION_INDEX" }, read_kubernetes },
  { "torchrun", "torchrun", { "WORLD_SIZE", "RANK", "MASTER_ADDR" }, read_torchrun },
};
enum { LAUNCHERS = sizeof launchers / sizeof *launchers };

/* The row without signs is MPI itself, which is asked. */
static bool is_there(const finding *f, const launcher *one)
{
  if (!one->signs[0]) return f->env->has_mpi && f->env->has_mpi();
  for (int i = 0; i < 4 && one->signs[i]; i++)
    if (value_of(f, one->signs[i])) return true;
  return false;
}

/* Looks for a launcher: the one that was named, or the first that is there.
 * One that is named is read though its signs are missing: then what it lacks is named in the
 * error, where looking for signs would end in one process alone. */
static bool find_launcher(finding *f, const char *wanted)
{
  if (wanted && !strcmp(wanted, "none")) return true;
  bool known = false;
  for (int i = 0; i < LAUNCHERS; i++) {
    const launcher *one = &launchers[i];
    bool named = wanted && !strcmp(wanted, one->name);
    known = known || named;
    if (wanted ? !named : !is_there(f, one)) continue;
    f->who = one->title;
    f->name = one->name;
    if (!one->read(f)) return false;
    if (wanted || !f->by_mpi || f->count > 1) return true;
    /* A world of one, as MPI makes where another one's launcher started it, is nobody's word. */
    *f = (finding){ .env = f->env, .error = f->error, .index = -1, .count = -1, .name = "" };
  }
  if (!wanted || known) return true;
  tsr__error_set(f->error, TSR_EARG,
                 ".detect or TSR_DETECT is \"%.40s\", expected mpi, openmpi, mpich, slurm, "
                 "kubernetes, torchrun or none",
                 wanted);
  return false;
}

/* ---- options and TSR_* ----------------------------------------------------------------------- */

typedef struct said {
  long index, count;  /* -1: not said */
  const char *source; /* "options", "TSR_* variables" */
} said;

/* A count of 0 is an option that is not set. An index without one is an error, as index 0 and
 * none look alike. */
static bool read_options(finding *f, const tsr_process_opts *o, said *out)
{
  *out = (said){ -1, -1, "options" };
  if (o->process_count < 0 || o->process_count > TSR__PROCESSES_MOST)
    tsr__error_set(f->error, TSR_EARG,
                   ".process_count is %d, expected 1 to %d, or 0 to look for it", o->process_count,
                   TSR__PROCESSES_MOST);
  else if (o->process_index && !o->process_count)
    tsr__error_set(f->error, TSR_EARG,
                   ".process_index is %d, but .process_count is not set; set both, or neither",
                   o->process_index);
  else if (o->process_count && (o->process_index < 0 || o->process_index >= o->process_count))
    tsr__error_set(f->error, TSR_EARG, ".process_index is %d, expected 0 to %d", o->process_index,
                   o->process_count - 1);
  else if (o->process_count) *out = (said){ o->process_index, o->process_count, "options" };
  return !f->error->status;
}

/* `who` stands for the source in messages while this reads; whoever reads next sets it anew. */
static bool read_variables(finding *f, said *out)
{
  const char *count = value_of(f, "TSR_PROCESS_COUNT"), *index = value_of(f, "TSR_PROCESS_INDEX");
  *out = (said){ -1, -1, "TSR_* variables" };
  f->who = "TSR_*";
  if (count && !read_number(f, "TSR_PROCESS_COUNT", TSR__PROCESSES_MOST, &out->count)) return false;
  if (index && !read_number(f, "TSR_PROCESS_INDEX", TSR__PROCESSES_MOST, &out->index)) return false;
  f->who = NULL;
  if (!out->count) tsr__error_set(f->error, TSR_EARG, "TSR_PROCESS_COUNT is 0, expected 1 or more");
  return out->count != 0;
}

/* Two that both say a number must say the same one: else one is left over from elsewhere. */
static bool agree(finding *f, const char *what, long own, long other)
{
  if (own < 0 || other < 0 || own == other) return true;
  tsr__error_set(f->error, TSR_EARG,
                 "%s is %ld by TSR_PROCESS_%s, but %ld by %s; unset the wrong variable, or set "
                 "TSR_DETECT=none",
                 what, own, strcmp(what, "the number of processes") ? "INDEX" : "COUNT", other,
                 f->who);
  return false;
}

/* Puts what variables and a launcher say together, where options say nothing. */
static bool combine(finding *f, const tsr_process_opts *o, said *out)
{
  said own;
  const char *wanted = o->detect ? o->detect : value_of(f, "TSR_DETECT");
  if (!read_variables(f, &own)) return false;
  bool whole = own.count > 0 && own.index >= 0;
  /* A whole set of variables is somebody's word; launchers around it are of no interest. */
  if (!whole && !find_launcher(f, wanted)) return false;
  if (!agree(f, "the number of processes", own.count, f->count) ||
      !agree(f, "the number of this process", own.index, f->index))
    return false;
  out->count = own.count > 0 ? own.count : f->count;
  out->index = own.index >= 0 ? own.index : f->index;
  out->source = f->who ? f->who : "TSR_* variables";
  if (out->count < 0 && out->index < 0) {
    *out = (said){ 0, 1, "nothing: the process runs alone" };
    return true;
  }
  const char *lacks = out->count < 0 ? "COUNT" : out->index < 0 ? "INDEX" : NULL;
  if (lacks)
    tsr__error_set(
        f->error, TSR_EARG,
        "by %s this is one of several processes, but %s is unknown; set TSR_PROCESS_%s%s",
        out->source, out->count < 0 ? "the number of processes" : "the number of this process",
        lacks, f->who && !strcmp(f->who, "Kubernetes") ? " to the job's .spec.completions" : "");
  else if (out->index >= out->count)
    tsr__error_set(f->error, TSR_EARG,
                   "by %s this is process %ld of %ld, expected a number below the count: processes "
                   "are numbered from 0",
                   out->source, out->index, out->count);
  return !f->error->status;
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* A text from an option or a variable.
 * An option that is "" is said, and no variable is looked at: so a program can take one back. */
static bool copy_text(finding *f, char out[300], const char *option, const char *variable)
{
  const char *text = option ? option : value_of(f, variable);
  out[0] = '\0';
  if (!text) return true;
  if (strlen(text) >= 300)
    tsr__error_set(f->error, TSR_EARG, "%s or its option has %zu bytes, at most 299", variable,
                   strlen(text));
  else snprintf(out, 300, "%s", text);
  return strlen(text) < 300;
}

/* Seconds from an option or a variable, in whole numbers there.
 * Written so that no number (NaN) fails the first test. A zero, in either place, is the default. */
static bool read_seconds(finding *f, double option, const char *variable, double *out)
{
  long seconds;
  const char *text = value_of(f, variable);
  if (!(option >= 0) || option > 1e9) {
    tsr__error_set(f->error, TSR_EARG,
                   "a timeout is negative, not a number or above 1e9 s; 0 is the default");
    return false;
  }
  f->who = "TSR_*";
  if (option > 0) *out = option;
  else if (text && !read_number(f, variable, 1000000000, &seconds)) return false;
  else if (text && seconds) *out = (double)seconds;
  return true;
}

static bool read_on_failure(finding *f, const tsr_process_opts *o, tsr__role *out)
{
  static const char *const words[] = { "shutdown", "error", "shrink" };
  const char *text = o->on_failure ? o->on_failure : value_of(f, "TSR_ON_FAILURE");
  if (!text) return true;
  for (int i = 0; i < 3; i++) {
    if (strcmp(text, words[i]) != 0) continue;
    out->on_failure = (tsr__on_failure)i;
    return true;
  }
  tsr__error_set(f->error, TSR_EARG,
                 ".on_failure or TSR_ON_FAILURE is \"%.40s\", expected shutdown, error or shrink",
                 text);
  return false;
}

/* Those that end a process, and none that says something of the program itself. */
static bool read_stop_signal(finding *f, const tsr_process_opts *o, tsr__role *out)
{
  static const int fine[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU };
  long value = o->stop_signal;
  f->who = "TSR_*";
  if (!value && value_of(f, "TSR_STOP_SIGNAL") && !read_number(f, "TSR_STOP_SIGNAL", 64, &value))
    return false;
  for (size_t i = 0; i < sizeof fine / sizeof *fine && value; i++)
    if (value == fine[i]) out->stop_signal = fine[i];
  if (value == out->stop_signal) return true;
  tsr__error_set(f->error, TSR_EARG,
                 ".stop_signal or TSR_STOP_SIGNAL is %ld, expected SIGTERM (15), SIGINT, SIGHUP, "
                 "SIGQUIT, SIGUSR1, SIGUSR2 or SIGXCPU",
                 value);
  return false;
}

/* Signs of life come once a second: who waits for less takes the healthy for dead. */
static bool check_stall(finding *f, const tsr__role *out)
{
  char seconds[32];
  if (out->stall_seconds >= 2) return true;
  tsr__text_f64(seconds, out->stall_seconds);
  tsr__error_set(f->error, TSR_EARG,
                 ".stall_timeout or TSR_STALL_TIMEOUT is %s s, expected 2 or more: processes send "
                 "a heartbeat once a second",
                 seconds);
  return false;
}

static bool read_rest(finding *f, const tsr_process_opts *o, tsr__role *out)
{
  out->start_seconds = 300;
  out->stall_seconds = 30;
  out->close_seconds = 300;
  out->grace_seconds = 10;
  out->wait_seconds = 1800;
  return copy_text(f, out->coordinator, o->coordinator, "TSR_COORDINATOR") &&
         copy_text(f, out->bind, o->bind, "TSR_BIND") &&
         copy_text(f, out->secret, o->secret, "TSR_SECRET") &&
         copy_text(f, out->engine, o->engine, "TSR_ENGINE") &&
         copy_text(f, out->host, NULL, "TSR_HOST") &&
         read_seconds(f, o->start_timeout, "TSR_START_TIMEOUT", &out->start_seconds) &&
         read_seconds(f, o->stall_timeout, "TSR_STALL_TIMEOUT", &out->stall_seconds) &&
         check_stall(f, out) &&
         read_seconds(f, o->close_timeout, "TSR_CLOSE_TIMEOUT", &out->close_seconds) &&
         read_seconds(f, o->grace_timeout, "TSR_GRACE_TIMEOUT", &out->grace_seconds) &&
         read_seconds(f, o->wait_timeout, "TSR_WAIT_TIMEOUT", &out->wait_seconds) &&
         copy_text(f, out->report, NULL, "TSR_REPORT") && read_on_failure(f, o, out) &&
         read_stop_signal(f, o, out);
}

/* Where a launcher of an MPI does not say where its processes run, that MPI can. */
static bool ask_mpi(finding *f, const said *place)
{
  static const char *const able[] = { "openmpi", "mpich" };
  const char *needed = f->needed;
  bool fits = false;
  for (int i = 0; i < 2; i++) fits = fits || !strcmp(f->name, able[i]);
  if (!fits || !f->env->meet) return true;
  if (!read_mpi(f)) {
    char why[400];
    snprintf(why, sizeof why, "%.399s", f->error->text);
    f->error->status = TSR_OK;
    tsr__error_set(f->error, TSR_EUNSUPPORTED,
                   "%s, and MPI cannot tell either: %s. Or set .coordinator or TSR_COORDINATOR to "
                   "\"HOST:PORT\" of process 0, the same for all",
                   needed, why);
    return false;
  }
  if (f->index == place->index && f->count == place->count) return true;
  tsr__error_set(f->error, TSR_EARG,
                 "by %s this is process %ld of %ld, but by MPI process %ld of %ld; unset the wrong "
                 "variables, or set TSR_COORDINATOR",
                 place->source, place->index, place->count, f->index, f->count);
  return false;
}

/* The address is parsed here though it is used later, so that one that is wrong is an error at
 * once, and not after the start's time is over. A secret that was said goes before that of MPI. */
static bool read_address(finding *f, const said *place, tsr__role *out)
{
  tsr__address at;
  const char *from = "";
  if (!*out->coordinator && place->count > 1 && !*f->address && !ask_mpi(f, place)) return false;
  if (!*out->secret && f->by_mpi) snprintf(out->secret, sizeof out->secret, "%s", f->met.secret);
  if (!*out->coordinator && place->count > 1 && *f->address) {
    snprintf(out->coordinator, sizeof out->coordinator, "%s", f->address);
    from = " and its address from there";
  }
  if (!*out->coordinator && place->count > 1) {
    tsr__error_set(
        f->error, TSR_EARG,
        "by %s this is process %ld of %ld, but the address of process 0 is unknown%s%s; set "
        ".coordinator or TSR_COORDINATOR to \"HOST:PORT\" of process 0, the same for all",
        place->source, place->index, place->count, f->needed ? ": " : "",
        f->needed ? f->needed : "");
    return false;
  }
  snprintf(out->source, sizeof out->source, "%s%s", place->source, from);
  if (*out->coordinator && tsr__address_parse(out->coordinator, &at, f->error)) return false;
  return !*out->bind || !tsr__address_parse(out->bind, &at, f->error);
}

/* `who` is put back after read_rest, whose messages name TSR_*. `out` is written only where all
 * went well. */
tsr_status tsr__role_find(const tsr_process_opts *opts, const tsr__environment *env, tsr__role *out,
                          tsr__error *error)
{
  finding f = { .env = env, .error = error, .index = -1, .count = -1, .name = "" };
  tsr__role role = { .index = 0 };
  said place;
  bool good = read_options(&f, opts, &place);
  if (good && place.count < 0) good = combine(&f, opts, &place);
  const char *launcher_name = f.who;
  if (good) good = read_rest(&f, opts, &role);
  f.who = launcher_name;
  if (good) good = read_address(&f, &place, &role);
  if (!good) return error->status;
  snprintf(role.launcher, sizeof role.launcher, "%s", f.name);
  role.index = (int)place.index;
  role.count = (int)place.count;
  *out = role;
  return TSR_OK;
}
