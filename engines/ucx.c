/* The engine `ucx`: whatever network UCX finds.
 *
 *   note   | from, kind NOTE | bytes |          all by the tag CONTROL, which one receive waits for
 *   get    | from, kind GET  | offset, size, count, stride, ticket |
 *              ... and the other side sends the bytes by the tag DATA + ticket, several runs of
 *              them one behind the other
 *
 * A get is two messages and not a read of the other's memory: that would have to be registered with
 * the network whole, which is four times what the machine has, while of a message only its own
 * pages are, and only for as long as it takes. Messages of one tag come in the order they were
 * sent.
 *
 * Invariant: what was received is handed on by progress, never within another call of UCX. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

#include "comm/plugin.h"

#define TAG_KIND (UINT64_C(0xff) << 56)
#define TAG_CONTROL (UINT64_C(1) << 56)
#define TAG_DATA (UINT64_C(2) << 56)

enum { SAY_NOTE, SAY_GET };

/* The front of a control message. */
typedef struct control {
  uint32_t kind, from;
} control;

typedef struct request {
  uint64_t offset, size, count, stride, ticket;
} request;

enum { MOST = sizeof(control) + TSR__PLUGIN_NOTE };

/* The connection to a process. */
typedef struct end {
  ucp_ep_h to; /* NULL: not connected */
  bool flushes;
  void *flushing;
} end;

struct tsr__plugin {
  tsr__plugin_host host;
  ucp_context_h context;
  ucp_worker_h worker;
  end *ends; /* by process */
  uint64_t tickets;
  void *listening; /* the receive of control messages */
  bool heard;      /* one has come, of so many bytes */
  bool deaf;       /* no more can come */
  size_t length;
  unsigned char message[MOST];
};

/* ---- opening --------------------------------------------------------------------------------- */

/* UCX keeps memory in /dev/shm, of which containers often have 64 MiB, and says no more than that
 * something cannot be had. */
static void add_hint(char *why)
{
  enum { LEAST_MIB = 128 };
  struct statvfs shm;
  size_t length = strlen(why);
  if (statvfs("/dev/shm", &shm)) return;
  unsigned long long mib = (unsigned long long)shm.f_bavail * shm.f_frsize >> 20;
  if (mib < LEAST_MIB)
    snprintf(why + length, TSR__PLUGIN_WHY - length,
             "; /dev/shm has %llu MiB left, which UCX may need: give it more, or say UCX_TLS=tcp",
             mib);
}

static bool failed(ucs_status_t status, const char *what, char *why)
{
  if (status == UCS_OK) return false;
  snprintf(why, TSR__PLUGIN_WHY, "%s: %s", what, ucs_status_string(status));
  add_hint(why);
  return true;
}

/* Who is gone is told by the processes themselves, and a program's faults are its own: unless its
 * variables say otherwise, UCX prints nothing and handles no signals. */
static void keep_silent(void)
{
  static const int faults[] = { SIGILL, SIGSEGV, SIGBUS, SIGFPE };
  if (!getenv("UCX_LOG_LEVEL")) ucs_global_opts_set_value("LOG_LEVEL", "fatal");
  for (size_t i = 0; !getenv("UCX_HANDLE_ERRORS") && i < sizeof faults / sizeof *faults; i++)
    ucs_debug_disable_signal(faults[i]);
}

static bool open_context(tsr__plugin *p, char *why)
{
  ucp_config_t *config;
  keep_silent();
  if (failed(ucp_config_read(NULL, NULL, &config), "UCX's variables", why)) return false;
  const ucp_params_t params = {
    .field_mask =
        UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_NAME,
    .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
    .estimated_num_eps = (size_t)p->host.count,
    .name = "tessera",
  };
  ucs_status_t status = ucp_init(&params, config, &p->context);
  ucp_config_release(config);
  if (failed(status, "UCX", why)) return false;
  const ucp_worker_params_t serial = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                       .thread_mode = UCS_THREAD_MODE_SERIALIZED };
  return !failed(ucp_worker_create(p->context, &serial, &p->worker), "UCX's worker", why);
}

static bool tell_address(tsr__plugin *p, tsr__plugin_address *out, char *why)
{
  ucp_address_t *address;
  size_t size;
  if (failed(ucp_worker_get_address(p->worker, &address, &size), "UCX's address", why))
    return false;
  bool fits = size <= sizeof out->bytes;
  out->size = fits ? size : 0;
  memcpy(out->bytes, address, out->size);
  ucp_worker_release_address(p->worker, address);
  if (!fits)
    snprintf(why, TSR__PLUGIN_WHY,
             "the address has %zu bytes, at most %zu; name fewer networks in UCX_NET_DEVICES", size,
             sizeof out->bytes);
  return fits;
}

static void listen_again(tsr__plugin *p);

static void close_end(tsr__plugin *p, bool broken)
{
  (void)broken; /* its connections to who is gone end by themselves */
  const ucp_request_param_t force = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                      .flags = UCP_EP_CLOSE_FLAG_FORCE };
  if (p->listening) ucp_request_cancel(p->worker, p->listening);
  for (int i = 0; p->ends && i < p->host.count; i++) {
    if (UCS_PTR_IS_PTR(p->ends[i].flushing)) ucp_request_free(p->ends[i].flushing);
    if (!p->ends[i].to) continue;
    void *closing = ucp_ep_close_nbx(p->ends[i].to, &force);
    while (UCS_PTR_IS_PTR(closing) && ucp_request_check_status(closing) == UCS_INPROGRESS)
      ucp_worker_progress(p->worker);
    if (UCS_PTR_IS_PTR(closing)) ucp_request_free(closing);
  }
  if (p->worker) ucp_worker_destroy(p->worker);
  if (p->context) ucp_cleanup(p->context);
  free(p->ends);
  free(p);
}

static bool open_end(const tsr__plugin_host *host, tsr__plugin **out, tsr__plugin_address *address,
                     char why[TSR__PLUGIN_WHY])
{
  tsr__plugin *p = calloc(1, sizeof *p);
  bool good = p != NULL;
  if (good) {
    p->host = *host;
    p->ends = calloc((size_t)host->count, sizeof *p->ends);
    good = p->ends != NULL;
  }
  if (!good) snprintf(why, TSR__PLUGIN_WHY, "no memory");
  good = good && open_context(p, why) && tell_address(p, address, why);
  if (good) listen_again(p);
  else if (p) close_end(p, false);
  *out = good ? p : NULL;
  return good;
}

/* Who is gone is found out elsewhere, and why; here its messages only end. */
static void on_error(void *user, ucp_ep_h which, ucs_status_t status)
{
  (void)user;
  (void)which;
  (void)status;
}

static bool connect_end(tsr__plugin *p, int process, const tsr__plugin_address *address,
                        char why[TSR__PLUGIN_WHY])
{
  const ucp_ep_params_t params = {
    .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                  UCP_EP_PARAM_FIELD_ERR_HANDLER,
    .address = (const ucp_address_t *)(const void *)address->bytes,
    .err_mode = UCP_ERR_HANDLING_MODE_PEER,
    .err_handler = { on_error, p },
  };
  return !failed(ucp_ep_create(p->worker, &params, &p->ends[process].to), "UCX's connection", why);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Frees what was sent, which is the user data, and the request. */
static void sent(void *sending, ucs_status_t status, void *user)
{
  (void)status;
  free(user);
  ucp_request_free(sending);
}

typedef struct outgoing {
  const void *data;
  size_t size;
  uint64_t tag;
  void *copy; /* freed when it is out; NULL: it is memory that stays */
} outgoing;

static bool send_out(tsr__plugin *p, int process, const outgoing *what)
{
  const ucp_request_param_t param = {
    .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
    .cb = { .send = sent },
    .user_data = what->copy,
  };
  void *sending = p->ends[process].to ? ucp_tag_send_nbx(p->ends[process].to, what->data,
                                                         what->size, what->tag, &param)
                                      : UCS_STATUS_PTR(UCS_ERR_NOT_CONNECTED);
  if (!UCS_PTR_IS_PTR(sending)) free(what->copy);
  return UCS_PTR_STATUS(sending) != UCS_ERR_NO_MEMORY;
}

static bool send_control(tsr__plugin *p, int process, uint32_t kind, tsr__plugin_note note)
{
  const control head = { kind, (uint32_t)p->host.index };
  char *copy = note.size <= TSR__PLUGIN_NOTE ? malloc(sizeof head + note.size) : NULL;
  if (!copy) return false;
  memcpy(copy, &head, sizeof head);
  memcpy(copy + sizeof head, note.data, note.size);
  const outgoing what = { copy, sizeof head + note.size, TAG_CONTROL, copy };
  return send_out(p, process, &what);
}

static bool send_note(tsr__plugin *p, int process, tsr__plugin_note note)
{
  return send_control(p, process, SAY_NOTE, note);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void on_control(void *receiving, ucs_status_t status, const ucp_tag_recv_info_t *info,
                       void *user)
{
  tsr__plugin *p = user;
  p->heard = status == UCS_OK;
  p->deaf = !p->heard;
  p->length = info->length;
  p->listening = NULL;
  ucp_request_free(receiving);
}

static void listen_again(tsr__plugin *p)
{
  const ucp_request_param_t param = {
    .op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
    .cb = { .recv = on_control },
    .user_data = p,
  };
  p->heard = false;
  void *receiving = ucp_tag_recv_nbx(p->worker, p->message, MOST, TAG_CONTROL, TAG_KIND, &param);
  p->deaf = UCS_PTR_IS_ERR(receiving);
  /* The callback may have been already. */
  p->listening = p->heard || p->deaf ? NULL : receiving;
}

static bool is_within(const tsr__plugin *p, const request *ask)
{
  uint64_t size = p->host.size;
  if (ask->offset > size || ask->size > size - ask->offset) return false;
  if (ask->count <= 1) return ask->count == 1;
  return ask->size && ask->stride >= ask->size && ask->count <= TSR__PLUGIN_PACKED / ask->size &&
         ask->stride <= (size - ask->offset - ask->size) / (ask->count - 1);
}

/* Of what is not this process's nothing is sent: the other side sees that too little came. */
static void serve(tsr__plugin *p, int from, const request *ask)
{
  bool within = is_within(p, ask);
  const char *at = (const char *)p->host.memory + (within ? ask->offset : 0);
  size_t size = within ? (size_t)ask->size : 0;
  outgoing what = { .data = at, .size = size, .tag = TAG_DATA | ask->ticket };
  if (within && ask->count > 1) {
    char *packed = what.copy = malloc(size * (size_t)ask->count);
    what.data = packed;
    what.size = packed ? size * (size_t)ask->count : 0;
    for (uint64_t i = 0; packed && i < ask->count; i++)
      memcpy(packed + i * size, at + i * ask->stride, size);
  }
  send_out(p, from, &what);
}

static void take_control(tsr__plugin *p)
{
  control head;
  request ask;
  const unsigned char *rest = p->message + sizeof head;
  size_t size = p->length - sizeof head;
  if (p->length < sizeof head) return;
  memcpy(&head, p->message, sizeof head);
  if (head.from >= (uint32_t)p->host.count) return;
  if (head.kind == SAY_NOTE)
    p->host.note(p->host.user, (int)head.from, (tsr__plugin_note){ rest, size });
  if (head.kind != SAY_GET || size != sizeof ask) return;
  memcpy(&ask, rest, sizeof ask);
  serve(p, (int)head.from, &ask);
}

/* ---- getting --------------------------------------------------------------------------------- */

typedef struct getting {
  tsr__plugin *plugin;
  tsr__plugin_get what;
  char packed[]; /* where several runs come */
} getting;

static void on_data(void *receiving, ucs_status_t status, const ucp_tag_recv_info_t *info,
                    void *user)
{
  getting *g = user;
  const tsr__plugin_get *what = &g->what;
  tsr__plugin_host host = g->plugin->host;
  bool good = status == UCS_OK && info->length == what->size * what->count;
  for (size_t i = 0; good && what->count > 1 && i < what->count; i++)
    memcpy((char *)what->into + i * what->stride, g->packed + i * what->size, what->size);
  free(g);
  ucp_request_free(receiving);
  host.got(host.user, good);
}

static bool get(tsr__plugin *p, const tsr__plugin_get *what)
{
  const request ask = { what->offset, what->size, what->count, what->stride,
                        p->tickets++ & ~TAG_KIND };
  bool packed = what->count > 1;
  size_t bytes = what->size * what->count;
  getting *g = malloc(sizeof *g + (packed ? bytes : 0));
  if (!g) return false;
  g->plugin = p;
  g->what = *what;
  const ucp_request_param_t param = {
    .op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
    .cb = { .recv = on_data },
    .user_data = g,
  };
  void *receiving = ucp_tag_recv_nbx(p->worker, packed ? g->packed : what->into, bytes,
                                     TAG_DATA | ask.ticket, UINT64_MAX, &param);
  if (UCS_PTR_IS_ERR(receiving)) {
    free(g);
    return false;
  }
  if (!send_control(p, what->process, SAY_GET, (tsr__plugin_note){ &ask, sizeof ask }))
    ucp_request_cancel(p->worker, receiving); /* and `got` is told so */
  return true;
}

/* ---- progress -------------------------------------------------------------------------------- */

static bool progress(tsr__plugin *p)
{
  bool any = false;
  while (ucp_worker_progress(p->worker) || p->heard) {
    any = true;
    if (!p->heard) continue;
    take_control(p);
    listen_again(p);
  }
  return any;
}

static int file_of(const tsr__plugin *p)
{
  int file;
  return ucp_worker_get_efd(p->worker, &file) == UCS_OK ? file : -1;
}

static bool arm(tsr__plugin *p)
{
  return ucp_worker_arm(p->worker) == UCS_OK;
}

static bool flushed(tsr__plugin *p, int process)
{
  const ucp_request_param_t param = { .op_attr_mask = 0 };
  end *e = &p->ends[process];
  if (!e->flushes && e->to) e->flushing = ucp_ep_flush_nbx(e->to, &param);
  e->flushes = true;
  return !UCS_PTR_IS_PTR(e->flushing) || ucp_request_check_status(e->flushing) != UCS_INPROGRESS;
}

__attribute__((visibility("default"))) const tsr__plugin_calls *tessera_engine(void)
{
  static const tsr__plugin_calls calls = {
    .version = TSR__PLUGIN_VERSION,
    .name = "ucx",
    .shrinks = true,
    .open = open_end,
    .connect = connect_end,
    .send = send_note,
    .get = get,
    .progress = progress,
    .file = file_of,
    .arm = arm,
    .flushed = flushed,
    .close = close_end,
  };
  return &calls;
}
