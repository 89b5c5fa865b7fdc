/* The engine `mpi`: whatever network an MPI has. It is compiled once with each MPI that is
 * installed, as MPIs have no binary interface in common.
 *
 *   note   | kind NOTE, from  | bytes |        by the tag CONTROL, which one receive waits for
 *   get    | kind GET, from   | offset, size, count, stride |
 *              ... and the other side sends the bytes by the tag DATA
 *   flush  | kind FLUSH, from |                and the other side says HEARD
 *
 * Each engine that is opened has tags of its own: what comes too late for one is nobody's.
 *
 * A get is served in the order it was asked for, so that one tag does for all: messages between two
 * processes do not overtake each other. It goes in pieces, as MPI counts in ints, and only so many
 * are under way at once, as each is looked at whenever MPI is asked.
 *
 * MPI is one for a process, begins once and ends once, and says nothing of who is gone: messages to
 * and from it never end. So what is left of it when an engine closes after a failure is left alone,
 * and MPI is not ended then, which would wait for the dead.
 *
 * Invariant: of what another began, nothing is ended here. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <mpi.h>

#include "comm/plugin.h"

enum { SAY_NOTE, SAY_GET, SAY_FLUSH, SAY_HEARD };

/* The front of a control message. */
typedef struct control {
  uint32_t kind, from;
} control;

typedef struct request {
  uint64_t offset, size, count, stride;
} request;

enum {
  MOST = sizeof(control) + TSR__PLUGIN_NOTE,
  PIECE = 1 << 28, /* bytes of a message at most */
  WIDE = 32,       /* pieces that are awaited at once */
  MEET_MS = 60000, /* how long the processes of MPI's world are waited for */
  ENGINES = 16000, /* pairs of tags; every MPI has 32767 at least */
  QUIT_MS = 200    /* how long what nobody will send any more may take to be taken back */
};

typedef struct getting {
  tsr__plugin_get what;
  size_t begun; /* bytes that were asked for */
  int awaited;  /* pieces that have not come */
  bool bad;
  struct getting *next;
} getting;

/* How another process is reached, by the rank that it has in MPI's world. */
typedef struct end {
  int rank; /* -1: not connected */
  bool flushes, heard;
} end;

struct tsr__plugin {
  tsr__plugin_host host;
  int number; /* which of this process's engines it is, and the tags that go with it: */
  int control, data;
  end *ends; /* by process */
  MPI_Request listening;
  unsigned char message[MOST];
  MPI_Request *sends;
  void **copies; /* what each of them sends, freed when it is out; NULL: memory that stays */
  int send_count, send_room;
  MPI_Request gets[WIDE];
  getting *of[WIDE];
  int sizes[WIDE], get_count;
  getting *first, *last; /* not all of these was asked for */
};

/* The one state of the process, as MPI is. Once broken it is not ended. */
static struct {
  pid_t began; /* the process where this engine began MPI; 0: it did not */
  bool broken, met;
  int open, count; /* engines that are, and that were */
  MPI_Comm world;  /* once met: all processes, and nobody else's messages */
} ours;

/* ---- MPI ------------------------------------------------------------------------------------- */

static bool failed(int code, const char *what, char *why)
{
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (code == MPI_SUCCESS) return false;
  MPI_Error_string(code, text, &length);
  snprintf(why, TSR__PLUGIN_WHY, "%s: %.180s", what, text);
  return true;
}

/* "Open MPI v4.1.4" of all that MPI says of itself. */
static void describe(char out[TSR__PLUGIN_WHY])
{
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  if (!strncmp(text, "MPICH Version:", 14)) {
    const char *at = text + 14 + strspn(text + 14, " \t");
    snprintf(out, TSR__PLUGIN_WHY, "MPICH %.*s", (int)strcspn(at, " \t\n"), at);
  } else {
    snprintf(out, TSR__PLUGIN_WHY, "%.*s", (int)strcspn(text, ",\n"), text);
  }
}

static void end_mpi(void)
{
  int over = 0;
  MPI_Finalized(&over);
  if (!over && ours.began == getpid() && !ours.broken && !ours.open) MPI_Finalize();
}

/* Whether a launcher of this MPI started the process. One that none did would be a world of its
 * own, or be ended by MPI itself. */
static bool is_launched(void)
{
#if defined(OMPI_MAJOR_VERSION)
  return getenv("PMIX_RANK") || getenv("OMPI_COMM_WORLD_RANK");
#else
  return getenv("PMI_RANK") || getenv("PMIX_RANK") || getenv("PMI_FD");
#endif
}

static void ignore(int number)
{
  (void)number;
}

/* Where it leaves the others alone, MPICH's launcher tells them of a death by SIGUSR1. MPICH then
 * asks it who that was, which it does not survive in turn. Here that is known by other means; what
 * the program does at that signal stays as it was. */
static int init_mpi(int *provided)
{
  struct sigaction before;
  bool known = !sigaction(SIGUSR1, NULL, &before);
  int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, provided);
  if (!known) return code;
  /* A function, as programs that are started then inherit the default. */
  if (before.sa_handler == SIG_DFL)
    before = (struct sigaction){ .sa_handler = ignore, .sa_flags = SA_RESTART };
  sigaction(SIGUSR1, &before, NULL);
  return code;
}

static bool begin_mpi(char *why)
{
  int provided = MPI_THREAD_SINGLE;
  char text[TSR__PLUGIN_WHY];
  describe(text);
  if (!is_launched()) {
    snprintf(why, TSR__PLUGIN_WHY,
             "no launcher of %.60s has started this process, and nobody has initialised MPI in it; "
             "start it by mpirun or mpiexec",
             text);
    return false;
  }
  if (failed(init_mpi(&provided), "MPI_Init_thread", why)) return false;
  ours.began = getpid();
  atexit(end_mpi);
  if (provided >= MPI_THREAD_SERIALIZED) return true;
  snprintf(why, TSR__PLUGIN_WHY, "%.60s is built without threads", text);
  return false;
}

/* MPI as it is to be: begun, not over, and with threads, as one of the engine's works beside those
 * of the program. */
static bool enter_mpi(char *why)
{
  int begun = 0, over = 0, provided = MPI_THREAD_SINGLE;
  MPI_Finalized(&over);
  if (over) {
    snprintf(why, TSR__PLUGIN_WHY,
             "MPI was finalized in this process; close runtimes before MPI_Finalize");
    return false;
  }
  MPI_Initialized(&begun);
  if (!begun) return begin_mpi(why);
  if (ours.began && ours.began != getpid()) {
    snprintf(why, TSR__PLUGIN_WHY,
             "the process that forked this one has MPI, which is not for two");
    return false;
  }
  if (ours.began) return true;
  MPI_Query_thread(&provided);
  if (provided == MPI_THREAD_MULTIPLE) return true;
  snprintf(why, TSR__PLUGIN_WHY,
           "the program has initialised MPI without threads; it must call MPI_Init_thread with "
           "MPI_THREAD_MULTIPLE, and get it");
  return false;
}

static void rest(void)
{
  const struct timespec some = { 0, 1000000 };
  nanosleep(&some, NULL);
}

/* A world of the engines' own, which all processes of MPI's must take part in making. */
static bool meet_world(char *why)
{
  MPI_Request making;
  int done = 0;
  if (ours.met) return true;
  if (failed(MPI_Comm_idup(MPI_COMM_WORLD, &ours.world, &making), "MPI_Comm_idup", why))
    return false;
  for (int ms = 0; !done && ms < MEET_MS; ms++) {
    if (failed(MPI_Test(&making, &done, MPI_STATUS_IGNORE), "MPI_Comm_idup", why)) return false;
    if (!done) rest();
  }
  ours.met = done != 0;
  ours.broken = !done;
  if (done) return !failed(MPI_Comm_set_errhandler(ours.world, MPI_ERRORS_RETURN), "MPI", why);
  snprintf(why, TSR__PLUGIN_WHY, "not all processes that MPI knows have come within %d s",
           MEET_MS / 1000);
  return false;
}

static bool enter_world(char *why)
{
  if (!enter_mpi(why)) return false;
  if (ours.broken) snprintf(why, TSR__PLUGIN_WHY, "MPI cannot be used after a process failed");
  return !ours.broken && meet_world(why);
}

static bool find_place(tsr__plugin_place *place, char why[TSR__PLUGIN_WHY])
{
  MPI_Comm host;
  int here = 0;
  if (!enter_world(why)) return false;
  MPI_Comm_rank(ours.world, &place->index);
  MPI_Comm_size(ours.world, &place->count);
  if (failed(MPI_Comm_split_type(ours.world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
             "MPI_Comm_split_type", why))
    return false;
  MPI_Comm_size(host, &here);
  MPI_Comm_free(&host);
  int near = here == place->count, all = 0;
  MPI_Allreduce(&near, &all, 1, MPI_INT, MPI_MIN, ours.world);
  place->one_host = all != 0;
  if (!place->index) place->say(place);
  bool good = !failed(MPI_Bcast(place->text, sizeof place->text, MPI_CHAR, 0, ours.world),
                      "MPI_Bcast", why);
  place->text[sizeof place->text - 1] = '\0';
  return good;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* What processes tell each other: who they are for MPI. */
typedef struct place {
  int32_t rank, size, engine;
} place;

static void listen_again(tsr__plugin *p)
{
  if (MPI_Irecv(p->message, MOST, MPI_BYTE, MPI_ANY_SOURCE, p->control, ours.world, &p->listening))
    p->listening = MPI_REQUEST_NULL;
}

static bool join_world(tsr__plugin *p, tsr__plugin_address *address, char *why)
{
  place mine;
  int size = 0, rank = 0;
  if (!enter_mpi(why)) return false;
  ours.count++;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != p->host.count) {
    snprintf(why, TSR__PLUGIN_WHY,
             "MPI knows of %d processes, and this job has %d; all must be started together, and "
             "none go on without the others",
             size, p->host.count);
    return false;
  }
  if (!enter_world(why)) return false;
  MPI_Comm_rank(ours.world, &rank);
  p->number = ours.count;
  p->control = 1 + p->number % ENGINES;
  p->data = p->control + ENGINES;
  mine = (place){ rank, size, p->number };
  address->size = sizeof mine;
  memcpy(address->bytes, &mine, sizeof mine);
  return true;
}

static void free_end(tsr__plugin *p)
{
  free(p->ends);
  free(p->sends);
  free(p->copies);
  free(p);
}

static bool open_end(const tsr__plugin_host *host, tsr__plugin **out, tsr__plugin_address *address,
                     char why[TSR__PLUGIN_WHY])
{
  tsr__plugin *p = calloc(1, sizeof *p);
  end *ends = calloc((size_t)host->count, sizeof *ends);
  if (!p || !ends) {
    free(p);
    free(ends);
    snprintf(why, TSR__PLUGIN_WHY, "no memory");
    return false;
  }
  p->host = *host;
  p->ends = ends;
  p->listening = MPI_REQUEST_NULL;
  for (int i = 0; i < host->count; i++) ends[i].rank = -1;
  for (int i = 0; i < WIDE; i++) p->gets[i] = MPI_REQUEST_NULL;
  if (!join_world(p, address, why)) {
    free_end(p);
    return false;
  }
  ours.open++;
  listen_again(p);
  *out = p;
  return true;
}

static bool connect_end(tsr__plugin *p, int process, const tsr__plugin_address *address,
                        char why[TSR__PLUGIN_WHY])
{
  place other;
  bool fits = address->size == sizeof other;
  if (fits) memcpy(&other, address->bytes, sizeof other);
  bool good = fits && other.size == p->host.count && other.rank >= 0 && other.rank < other.size &&
              other.engine == p->number;
  for (int i = 0; i < p->host.count && good; i++) good = p->ends[i].rank != other.rank;
  if (good) p->ends[process].rank = other.rank;
  else
    snprintf(why, TSR__PLUGIN_WHY,
             "it is another job's process for MPI; start all by one mpirun or mpiexec");
  return good;
}

/* ---- sending --------------------------------------------------------------------------------- */

static bool make_room(tsr__plugin *p)
{
  if (p->send_count < p->send_room) return true;
  int room = p->send_room ? 2 * p->send_room : 64;
  MPI_Request *sends = realloc(p->sends, (size_t)room * sizeof *sends);
  if (sends) p->sends = sends;
  void **copies = sends ? realloc(p->copies, (size_t)room * sizeof *copies) : NULL;
  if (copies) p->copies = copies;
  if (!copies) return false;
  p->send_room = room;
  return true;
}

/* Of a process that is not connected nothing is wanted. */
static bool send_control(tsr__plugin *p, int process, uint32_t kind, tsr__plugin_note note)
{
  const control head = { kind, (uint32_t)p->host.index };
  int rank = p->ends[process].rank;
  if (rank < 0) return true;
  char *copy =
      note.size <= TSR__PLUGIN_NOTE && make_room(p) ? malloc(sizeof head + note.size) : NULL;
  if (!copy) return false;
  memcpy(copy, &head, sizeof head);
  memcpy(copy + sizeof head, note.data, note.size);
  if (MPI_Isend(copy, (int)(sizeof head + note.size), MPI_BYTE, rank, p->control, ours.world,
                &p->sends[p->send_count])) {
    free(copy);
    return true;
  }
  p->copies[p->send_count++] = copy;
  return true;
}

static bool send_note(tsr__plugin *p, int process, tsr__plugin_note note)
{
  return send_control(p, process, SAY_NOTE, note);
}

/* Frees what is out. */
static bool take_sent(tsr__plugin *p)
{
  int left = 0, count = p->send_count;
  for (int i = 0; i < count; i++) {
    int out = 0;
    if (MPI_Test(&p->sends[i], &out, MPI_STATUS_IGNORE) || out) {
      free(p->copies[i]);
      continue;
    }
    p->sends[left] = p->sends[i];
    p->copies[left++] = p->copies[i];
  }
  p->send_count = left;
  return left < count;
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Several runs as one thing to send or receive. */
static MPI_Datatype runs_of(const request *ask)
{
  MPI_Datatype out = MPI_BYTE;
  MPI_Type_create_hvector((int)ask->count, (int)ask->size, (MPI_Aint)ask->stride, MPI_BYTE, &out);
  MPI_Type_commit(&out);
  return out;
}

static bool is_within(const tsr__plugin *p, const request *ask)
{
  uint64_t size = p->host.size;
  if (ask->size > PIECE || ask->offset > size || ask->size > size - ask->offset) return false;
  if (ask->count <= 1) return ask->count == 1;
  return ask->size && ask->stride >= ask->size && ask->count <= TSR__PLUGIN_PACKED / ask->size &&
         ask->stride <= (size - ask->offset - ask->size) / (ask->count - 1);
}

/* Of what is not this process's nothing is sent: the other side sees that too little came. Without
 * room for another message it waits for one to go, as the other side does not ask again. */
static void serve(tsr__plugin *p, int from, const request *ask)
{
  MPI_Datatype runs = MPI_BYTE;
  bool within = is_within(p, ask);
  const char *at = (const char *)p->host.memory + (within ? ask->offset : 0);
  if (p->ends[from].rank < 0) return;
  while (!make_room(p) && p->send_count) take_sent(p);
  if (p->send_count == p->send_room) return;
  if (within && ask->count > 1) runs = runs_of(ask);
  bool one = runs == MPI_BYTE;
  int size = !within ? 0 : one ? (int)ask->size : 1;
  if (!MPI_Isend(at, size, runs, p->ends[from].rank, p->data, ours.world, &p->sends[p->send_count]))
    p->copies[p->send_count++] = NULL;
  if (!one) MPI_Type_free(&runs);
}

static void take_control(tsr__plugin *p, int length)
{
  control head;
  request ask;
  const unsigned char *body = p->message + sizeof head;
  if (length < (int)sizeof head) return;
  size_t size = (size_t)length - sizeof head;
  memcpy(&head, p->message, sizeof head);
  if (head.from >= (uint32_t)p->host.count) return;
  end *from = &p->ends[head.from];
  from->heard = from->heard || head.kind == SAY_HEARD;
  if (head.kind == SAY_FLUSH)
    send_control(p, (int)head.from, SAY_HEARD, (tsr__plugin_note){ "", 0 });
  if (head.kind == SAY_NOTE)
    p->host.note(p->host.user, (int)head.from, (tsr__plugin_note){ body, size });
  if (head.kind != SAY_GET || size != sizeof ask) return;
  memcpy(&ask, body, sizeof ask);
  serve(p, (int)head.from, &ask);
}

static bool take_controls(tsr__plugin *p)
{
  bool any = false;
  for (;;) {
    MPI_Status status;
    int came = 0, length = 0;
    if (p->listening == MPI_REQUEST_NULL) listen_again(p);
    if (MPI_Test(&p->listening, &came, &status) || !came) return any;
    MPI_Get_count(&status, MPI_BYTE, &length);
    take_control(p, length);
    any = true;
  }
}

/* ---- getting --------------------------------------------------------------------------------- */

static void end_get(tsr__plugin *p, getting *g)
{
  bool good = !g->bad;
  free(g);
  p->host.got(p->host.user, good);
}

/* Asks for the next piece; false without memory to. */
static bool ask_piece(tsr__plugin *p, getting *g)
{
  size_t left = g->what.size - g->begun, size = left < PIECE ? left : PIECE;
  const request ask = { g->what.offset + g->begun, size, g->what.count, g->what.stride };
  int at = p->get_count;
  bool several = ask.count > 1;
  /* Room for the question first: what is awaited cannot be taken back. */
  if (!make_room(p)) return false;
  MPI_Datatype runs = several ? runs_of(&ask) : MPI_BYTE;
  int code = MPI_Irecv((char *)g->what.into + g->begun, several ? 1 : (int)size, runs,
                       p->ends[g->what.process].rank, p->data, ours.world, &p->gets[at]);
  if (several) MPI_Type_free(&runs);
  if (code) return false;
  if (!send_control(p, g->what.process, SAY_GET, (tsr__plugin_note){ &ask, sizeof ask })) {
    MPI_Cancel(&p->gets[at]);
    MPI_Request_free(&p->gets[at]);
    return false;
  }
  p->of[at] = g;
  p->sizes[at] = (int)(size * ask.count);
  p->get_count++;
  g->begun += size;
  g->awaited++;
  return true;
}

static void ask_more(tsr__plugin *p)
{
  while (p->first && p->get_count < WIDE) {
    getting *g = p->first;
    if (!ask_piece(p, g)) return;
    if (g->begun < g->what.size) continue;
    p->first = g->next;
    if (!p->first) p->last = NULL;
  }
}

static bool get(tsr__plugin *p, const tsr__plugin_get *what)
{
  getting *g = p->ends[what->process].rank < 0 || !what->size ? NULL : calloc(1, sizeof *g);
  if (!g) return false;
  g->what = *what;
  if (p->last) p->last->next = g;
  else p->first = g;
  p->last = g;
  ask_more(p);
  return true;
}

static bool take_data(tsr__plugin *p)
{
  int count = 0, left = 0, places[WIDE];
  MPI_Status statuses[WIDE];
  if (!p->get_count) return false;
  int code = MPI_Testsome(p->get_count, p->gets, &count, places, statuses);
  if (count == MPI_UNDEFINED || count <= 0) return false;
  for (int i = 0; i < count; i++) {
    getting *g = p->of[places[i]];
    int size = 0;
    MPI_Get_count(&statuses[i], MPI_BYTE, &size);
    bool wrong = code == MPI_ERR_IN_STATUS && statuses[i].MPI_ERROR != MPI_SUCCESS;
    g->bad = g->bad || wrong || size != p->sizes[places[i]];
    if (!--g->awaited && g->begun == g->what.size) end_get(p, g);
  }
  for (int i = 0; i < p->get_count; i++) {
    if (p->gets[i] == MPI_REQUEST_NULL) continue;
    p->gets[left] = p->gets[i];
    p->of[left] = p->of[i];
    p->sizes[left++] = p->sizes[i];
  }
  p->get_count = left;
  ask_more(p);
  return true;
}

/* ---- progress -------------------------------------------------------------------------------- */

static bool progress(tsr__plugin *p)
{
  bool any = take_controls(p);
  any = take_data(p) || any;
  any = take_sent(p) || any;
  if (p->first) ask_more(p);
  return any;
}

static bool flushed(tsr__plugin *p, int process)
{
  end *e = &p->ends[process];
  if (e->rank < 0) return true;
  if (!e->flushes) e->flushes = send_control(p, process, SAY_FLUSH, (tsr__plugin_note){ "", 0 });
  return e->heard;
}

/* Whether nothing of this engine's is under way any more. */
static bool is_idle(tsr__plugin *p)
{
  int done = p->listening == MPI_REQUEST_NULL;
  if (!done) MPI_Cancel(&p->listening);
  for (int ms = 0; ms < QUIT_MS && (!done || p->send_count); ms++) {
    if (ms) rest();
    if (!done) MPI_Test(&p->listening, &done, MPI_STATUS_IGNORE);
    take_sent(p);
  }
  return done && !p->send_count && !p->get_count && !p->first;
}

static void close_end(tsr__plugin *p, bool broken)
{
  int over = 0;
  ours.open--;
  MPI_Finalized(&over);
  ours.broken = ours.broken || broken;
  if (over || ours.broken || !is_idle(p)) {
    /* MPI still has these: it may look at them whenever it is asked for anything. */
    ours.broken = true;
    return;
  }
  free_end(p);
}

__attribute__((visibility("default"))) const tsr__plugin_calls *tessera_engine(void)
{
  static const tsr__plugin_calls calls = {
    .version = TSR__PLUGIN_VERSION,
    .name = "mpi",
    .describe = describe,
    .find = find_place,
    .open = open_end,
    .connect = connect_end,
    .send = send_note,
    .get = get,
    .progress = progress,
    .flushed = flushed,
    .close = close_end,
  };
  return &calls;
}
