/* Several processes that run one program: how they meet, and the small things they tell each other.
 *
 *   tsr_runtime *rt = tsr_initialize("cpu:4");       under `tessera run`, mpirun, srun, ...
 *   printf("process %d of %d\n", tsr_process_index(rt), tsr_process_count(rt));
 *   tsr_sync(s, "loaded");                           waits until all have come here
 *   tsr_store_set(s, "best", "0.97", 4);             a key that all can get
 *   tsr_runtime_close(rt);                           says goodbye
 *
 * Process 0 holds the coordinator, a thread that all others are connected to. Nothing waits without
 * an end: each wait has a deadline, and its error names who is missing. A process that ends without
 * a goodbye is named on all others at once, one that is stopped after two missed signs of life, of
 * which there is one a second; the first cause is kept, and whoever waits then gets TSR_EPEER with
 * it.
 *
 * Who may join: processes that know the same secret, which `tessera run` makes; without one only
 * processes of the coordinator's host. Nothing is encrypted.
 *
 * Arrays lie on the devices of all processes, which are numbered one process after another.
 * Processes of one host share memory; between hosts an engine moves bytes, which is loaded then. */
#ifndef TESSERA_PROCESS_H
#define TESSERA_PROCESS_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options of tsr_initialize. Zero means: from the environment, else the default. */
typedef struct tsr_process_opts {
  size_t size TSR_REST_BY_NAME; /* sizeof(tsr_process_opts), set by the macro */
  /* Where process 0 listens and the others find it: "HOST:PORT", "[IPv6]:PORT", or "unix:PATH" on
   * one host. NULL = $TSR_COORDINATOR, else what a launcher says */
  const char *coordinator;
  int process_count;  /* 0 = $TSR_PROCESS_COUNT, else a launcher's, else 1; with it ... */
  int process_index;  /* ... this process among them, from 0 */
  const char *secret; /* what all must know to join; NULL = $TSR_SECRET, else none */
  const char *bind;   /* process 0: where to listen if not at .coordinator; NULL = $TSR_BIND */
  /* The launcher whose variables are read: "openmpi", "mpich", "slurm", "kubernetes", "torchrun",
   * or "none"; "mpi": MPI is asked instead. NULL = $TSR_DETECT, else MPI if the program has
   * initialised it, else the first of these that is there */
  const char *detect;
  double start_timeout; /* seconds until all have come; 0 = $TSR_START_TIMEOUT, else 300 */
  /* Silence that counts as failure, 2 or more; 0 = $TSR_STALL_TIMEOUT, else 30 */
  double stall_timeout;
  double close_timeout; /* how long process 0 stays for others; 0 = $TSR_CLOSE_TIMEOUT, else 300 */
  /* What a process does once another has failed; NULL = $TSR_ON_FAILURE, else "shutdown":
   *   "shutdown"  says so on standard error, where nobody logs it; calls that need the others fail,
   *               and a process that has not closed its runtime after .grace_timeout ends with
   *               exit code 75
   *   "error"     calls that need the others fail; it may save what it has, and closes
   *   "shrink"    the same, and tsr_process_regroup goes on with those that are left */
  const char *on_failure;
  double grace_timeout; /* 0 = $TSR_GRACE_TIMEOUT, else 10 */
  /* How long a process that is alive may be waited for in a run before it has failed, too; 0 =
   * $TSR_WAIT_TIMEOUT, else 1800. After .stall_timeout it is named */
  double wait_timeout;
  /* A signal that asks all processes to stop at one step (tsr_process_should_stop), such as
   * SIGTERM; 0 = $TSR_STOP_SIGNAL by its number, else none. It is blocked in the calling thread and
   * those that it starts from then on, until the runtime closes; a handler of the program runs in a
   * thread of the library. Programs that are started meanwhile inherit that it is blocked */
  int stop_signal;
  const tsr_runtime_opts *runtime; /* of the runtime; NULL = the defaults */
  /* What moves bytes between hosts: "ucx"; "mpi", which the launcher of an MPI must have started;
   * "local": nothing, all processes must be on one host. NULL = $TSR_ENGINE, else "mpi" under
   * mpirun and mpiexec or in a program that has initialised MPI, else "ucx". Within a host memory
   * is shared, whatever this says */
  const char *engine;
} tsr_process_opts;

/* Joins the other processes of the program and opens a runtime over the devices of all: those
 * named are this process's, and each of the others has as many. Returns when all are there. Who
 * this process is comes from the options, from TSR_* variables, from an MPI that the program has
 * initialised, or from the variables of Open MPI, MPICH, Slurm, Kubernetes or torchrun; where
 * nothing says anything it is the only one. TSR_LOG=process tells what was found. Errors, in
 * tsr_runtime_status: TSR_EARG where this is said by halves, in contradictions or not in numbers,
 * TSR_EPEER where process 0 cannot be reached, refuses, or others do not come, TSR_EIO where
 * process 0 cannot listen, TSR_EUNSUPPORTED where they are on several hosts and the engine cannot
 * be loaded, or not do what .on_failure asks for. Returns a runtime owned by the caller until
 * tsr_runtime_close, which says goodbye; that of process 0 waits for the others' first.
 * Collective. */
TSR_API tsr_runtime *tsr_initialize_with(const char *devices, const tsr_process_opts *opts);

/* Returns the number of this process, from 0; 0 of one that is alone. Local. */
TSR_API int tsr_process_index(const tsr_runtime *rt);

/* Returns how many processes there are. Of a runtime of tsr_runtime_open that is 1, but under
 * `tessera run`, which has it join. Local. */
TSR_API int tsr_process_count(const tsr_runtime *rt);

/* Tells whether a process is there, as far as is known here: false once it failed or said goodbye,
 * while it gives no sign of life, and for numbers that no process has. Local. */
TSR_API bool tsr_process_alive(const tsr_runtime *rt, int index);

/* Tells all other processes that this one cannot go on, and why: they get TSR_EPEER with `cause`,
 * which is copied (500 bytes). The first failure counts. Errors: TSR_EARG for NULL, TSR_ESTATE
 * without tsr_initialize. Local. */
TSR_API tsr_status tsr_process_fail_at(tsr_scope *scope, const char *cause, const char *site);

/* Asks all processes to stop, as .stop_signal does: tsr_process_should_stop then says where.
 * Errors: TSR_ESTATE without tsr_initialize. Local. */
TSR_API tsr_status tsr_process_stop_at(tsr_scope *scope, const char *site);

/* Tells whether this step, from 0, is where all processes stop, to save and end: the first behind
 * the furthest that any had come to when one of them was asked, and those behind it. All call it
 * with the same steps, which do not fall; it waits only while they agree. Errors: TSR_EARG,
 * TSR_ESTATE without tsr_initialize, TSR_EPEER where process 0 is gone. Collective. */
TSR_API tsr_status tsr_process_should_stop_at(tsr_scope *scope, int64_t step, bool *out,
                                              const char *site);

/* Options of tsr_process_regroup. Zero means the default. */
typedef struct tsr_regroup_opts {
  size_t size TSR_REST_BY_NAME; /* sizeof(tsr_regroup_opts), set by the macro */
  double timeout;               /* seconds until all that are left have come; 0 = 300 */
} tsr_regroup_opts;

/* Goes on without those that failed or left: closes `rt`, with all that lies on its devices, and
 * returns a runtime of those that are left, numbered from 0 in the order that they had; of
 * `devices` each has as many as it names. State that is to live on was copied out or saved before.
 * Errors, in tsr_runtime_status: TSR_ESTATE where .on_failure is not "shrink"; TSR_EPEER where some
 * do not come, named, or process 0 is gone, without which nobody can go on; those of
 * tsr_initialize. Takes `rt`, in any case; the result is the caller's. Collective. */
TSR_API tsr_runtime *tsr_process_regroup_with(tsr_runtime *rt, const char *devices,
                                              const tsr_regroup_opts *opts);

/* Options of tsr_sync. Zero means the default. */
typedef struct tsr_sync_opts {
  size_t size TSR_REST_BY_NAME; /* sizeof(tsr_sync_opts), set by the macro */
  double timeout;               /* seconds; 0 = 300. The first process that comes decides */
  const int *processes;         /* process_count numbers of those that meet; NULL = all */
  int process_count;
} tsr_sync_opts;

/* Waits until all processes, or those that are named, have called it with this name; names can be
 * used again. Errors: TSR_EPEER when time is over or one failed or left, with who is missing;
 * TSR_EARG for all who come when one of them takes no part or names others; TSR_ESTATE without
 * tsr_initialize. Collective. */
TSR_API tsr_status tsr_sync_with(tsr_scope *scope, const char *name, const tsr_sync_opts *opts,
                                 const char *site);

/* A value of the store: `length` bytes and a NUL behind them, owned by the scope. */
typedef struct tsr_value {
  const void *data; /* NULL: there is none */
  size_t length;
} tsr_value;

/* Options of tsr_store_set and tsr_store_get. Zero means the default. */
typedef struct tsr_store_opts {
  size_t size TSR_REST_BY_NAME; /* sizeof(tsr_store_opts), set by the macro */
  bool overwrite; /* set: a key that is there gets the new value, instead of an error */
  double timeout; /* get: seconds to wait until the key is set; 0 = 300 */
} tsr_store_opts;

/* Sets a key of the store, which process 0 holds for all, to `length` bytes, copied: at most 8 MiB,
 * 1 GiB in all. Keys are paths such as "epoch/3/best" of at most 1024 bytes; slashes at the ends
 * and doubled ones do not count. Errors: TSR_ESTATE for a key that is there (without .overwrite)
 * and without tsr_initialize; TSR_EARG; TSR_ENOMEM; TSR_EPEER where process 0 is gone. Local. */
TSR_API tsr_status tsr_store_set_with(tsr_scope *scope, const char *key, const void *data,
                                      size_t length, const tsr_store_opts *opts, const char *site);

/* Gets a key, waiting until somebody sets it. `*out` is owned by the scope. Errors: TSR_EPEER when
 * time is over or a process failed; those of tsr_store_set. Local. */
TSR_API tsr_status tsr_store_get_with(tsr_scope *scope, const char *key, tsr_value *out,
                                      const tsr_store_opts *opts, const char *site);

/* Gets a key if it is there now; else `out->data` is NULL. Errors as of tsr_store_get. Local. */
TSR_API tsr_status tsr_store_find_at(tsr_scope *scope, const char *key, tsr_value *out,
                                     const char *site);

/* Adds to a key that holds a whole number in decimal, 0 where it is missing, and gives the sum; of
 * several processes one adds after the other. Errors: TSR_EVALUE where the value is no such number
 * or the sum beyond 64 bits; those of tsr_store_set. Local. */
TSR_API tsr_status tsr_store_add_at(tsr_scope *scope, const char *key, int64_t delta, int64_t *out,
                                    const char *site);

/* Deletes a key and all below it ("a" and "a/..."); none there is fine. Errors: those of
 * tsr_store_set. Local. */
TSR_API tsr_status tsr_store_delete_at(tsr_scope *scope, const char *key, const char *site);

/* Keys in order with their values, owned by the scope. */
typedef struct tsr_store_keys {
  int64_t count;
  const char *const *keys;
  const tsr_value *values;
} tsr_store_keys;

/* Lists what lies below a key ("a": "a/..."; "": everything), in the order of bytes, as it is now.
 * Errors: TSR_EVALUE for more than 128 MiB; those of tsr_store_set. Local. */
TSR_API tsr_status tsr_store_list_at(tsr_scope *scope, const char *prefix, tsr_store_keys *out,
                                     const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* tsr_initialize("cpu:4"), tsr_initialize("cpu:4", .coordinator = "a:7000", .process_count = 2). */
#define tsr_initialize(...) TSR_INITIALIZE_(__VA_ARGS__, )
#define TSR_INITIALIZE_(devices, ...) \
  tsr_initialize_with((devices),      \
                      &(tsr_process_opts){ .size = sizeof(tsr_process_opts), __VA_ARGS__ })
/* rt = tsr_process_regroup(rt, "cpu:4"), ...(rt, "cpu:4", .timeout = 60). */
#define tsr_process_regroup(...) \
  TSR_NEEDS_2_("tsr_process_regroup(rt, devices)", TSR_PROCESS_REGROUP_, __VA_ARGS__)
#define TSR_PROCESS_REGROUP_(rt, devices, ...) \
  tsr_process_regroup_with((rt), (devices),    \
                           &(tsr_regroup_opts){ .size = sizeof(tsr_regroup_opts), __VA_ARGS__ })
/* tsr_sync(s, "epoch"), tsr_sync(s, "epoch", .timeout = 5). */
#define tsr_sync(...) TSR_NEEDS_2_("tsr_sync(scope, name)", TSR_SYNC_, __VA_ARGS__)
#define TSR_SYNC_(scope, name, ...)                                                              \
  tsr_sync_with((scope), (name), &(tsr_sync_opts){ .size = sizeof(tsr_sync_opts), __VA_ARGS__ }, \
                TSR_HERE)
/* tsr_store_set(s, "key", data, size), tsr_store_set(s, "key", data, size, .overwrite = true). */
#define tsr_store_set(...) \
  TSR_NEEDS_4_("tsr_store_set(scope, key, data, length)", TSR_STORE_SET_, __VA_ARGS__)
#define TSR_STORE_SET_(scope, key, data, length, ...)  \
  tsr_store_set_with((scope), (key), (data), (length), \
                     &(tsr_store_opts){ .size = sizeof(tsr_store_opts), __VA_ARGS__ }, TSR_HERE)
/* tsr_store_get(s, "key", &value), tsr_store_get(s, "key", &value, .timeout = 5). */
#define tsr_store_get(...) \
  TSR_NEEDS_3_("tsr_store_get(scope, key, out)", TSR_STORE_GET_, __VA_ARGS__)
#define TSR_STORE_GET_(scope, key, out, ...) \
  tsr_store_get_with((scope), (key), (out),  \
                     &(tsr_store_opts){ .size = sizeof(tsr_store_opts), __VA_ARGS__ }, TSR_HERE)
#endif
#define tsr_process_fail(scope, cause) tsr_process_fail_at((scope), (cause), TSR_HERE)
#define tsr_process_stop(scope) tsr_process_stop_at((scope), TSR_HERE)
#define tsr_process_should_stop(scope, step, out) \
  tsr_process_should_stop_at((scope), (step), (out), TSR_HERE)
#define tsr_store_find(scope, key, out) tsr_store_find_at((scope), (key), (out), TSR_HERE)
#define tsr_store_add(scope, key, delta, out) \
  tsr_store_add_at((scope), (key), (delta), (out), TSR_HERE)
#define tsr_store_delete(scope, key) tsr_store_delete_at((scope), (key), TSR_HERE)
#define tsr_store_list(scope, prefix, out) tsr_store_list_at((scope), (prefix), (out), TSR_HERE)

#endif
