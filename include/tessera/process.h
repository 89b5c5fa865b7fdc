/* Several processes that run one program: how they join a job, synchronise, and share small values.
 *
 *   tsr_runtime *rt = tsr_initialize("cpu:4");       under `tessera run`, mpirun, srun, ...
 *   printf("process %d of %d\n", tsr_process_index(rt), tsr_process_count(rt));
 *   tsr_sync(s, "loaded");                           waits until all processes are here
 *   tsr_store_set(s, "best", "0.97", 4);             a key that all processes can get
 *   tsr_runtime_close(rt);                           leaves the job
 *
 * Process 0 runs the coordinator, a thread to which all other processes connect. Each wait has a
 * deadline, and its error names the missing processes. All processes learn at once of a process
 * that ends without leaving the job, and after two missed heartbeats, which come each second, of a
 * process that is stopped. The first cause is kept, and each later wait fails with TSR_EPEER and
 * that cause.
 *
 * Processes can join if they know the job's secret, which `tessera run` makes; without a secret
 * only processes of the coordinator's host can join. Nothing is encrypted.
 *
 * Arrays are sharded over the devices of all processes, which are numbered one process after
 * another. Processes of one host share memory; between hosts an engine moves bytes, loaded when it
 * is needed. */
#ifndef TESSERA_PROCESS_H
#define TESSERA_PROCESS_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options of tsr_initialize. Zero means: from the environment, else the default. */
typedef struct tsr_process_opts {
  size_t size TSR_REST_BY_NAME; /* sizeof(tsr_process_opts), set by the macro */
  /* The address at which process 0 listens: "HOST:PORT", "[IPv6]:PORT", or "unix:PATH" on one host.
   * NULL = $TSR_COORDINATOR, else from a launcher */
  const char *coordinator;
  int process_count;  /* 0 = $TSR_PROCESS_COUNT, else a launcher's, else 1; given with ... */
  int process_index;  /* ... the index of this process, from 0 */
  const char *secret; /* all processes must know it to join; NULL = $TSR_SECRET, else none */
  const char *bind;   /* process 0: where to listen if not at .coordinator; NULL = $TSR_BIND */
  /* The launcher whose variables are read: "openmpi", "mpich", "slurm", "kubernetes", "torchrun",
   * or "none"; "mpi" asks MPI instead. NULL = $TSR_DETECT, else MPI if the program has initialised
   * it, else the first of these launchers that is found */
  const char *detect;
  double start_timeout; /* seconds until all have joined; 0 = $TSR_START_TIMEOUT, else 300 */
  /* Seconds of silence that count as failure, 2 or more; 0 = $TSR_STALL_TIMEOUT, else 30 */
  double stall_timeout;
  double close_timeout; /* seconds process 0 waits for others; 0 = $TSR_CLOSE_TIMEOUT, else 300 */
  /* The reaction to the failure of another process; NULL = $TSR_ON_FAILURE, else "shutdown":
   *   "shutdown"  logs the failure, or without a log writes it to standard error; calls that need
   *               other processes fail, and a process that has not closed its runtime after
   *               .grace_timeout ends with exit code 75
   *   "error"     calls that need other processes fail; the process can save its data and close
   *   "shrink"    as "error", and tsr_process_regroup continues with the remaining processes */
  const char *on_failure;
  double grace_timeout; /* seconds; 0 = $TSR_GRACE_TIMEOUT, else 10 */
  /* Seconds that a run waits for a process that is alive before the process counts as failed; 0 =
   * $TSR_WAIT_TIMEOUT, else 1800. After .stall_timeout the log names the process */
  double wait_timeout;
  /* A signal that asks all processes to stop at one step (tsr_process_should_stop), such as
   * SIGTERM; 0 = $TSR_STOP_SIGNAL by its number, else none. Until the runtime closes, the signal is
   * blocked in the calling thread and in threads and programs that it starts; a handler of the
   * program runs in a thread of the library */
  int stop_signal;
  const tsr_runtime_opts *runtime; /* options of the runtime; NULL = the defaults */
  /* The engine that moves bytes between hosts: "ucx"; "mpi", if an MPI launcher started the
   * processes; "local": none, all processes are on one host. NULL = $TSR_ENGINE, else "mpi" under
   * mpirun and mpiexec or in a program that has initialised MPI, else "ucx". Within a host memory
   * is shared in any case */
  const char *engine;
} tsr_process_opts;

/* Joins the job's other processes and returns a runtime over the devices of all: `devices` names
 * those of this process, and each other process has as many. The call returns when all processes
 * have joined. The index of this process comes from the options, from TSR_* variables, from an MPI
 * that the program has initialised, or from the variables of Open MPI, MPICH, Slurm, Kubernetes or
 * torchrun; without any of these the process is alone. TSR_LOG=process logs the findings. Errors,
 * in tsr_runtime_status: TSR_EARG for settings that are incomplete, contradictory or not numbers,
 * TSR_EPEER if process 0 cannot be reached or refuses, or if other processes are missing, TSR_EIO
 * if process 0 cannot listen, TSR_EUNSUPPORTED if processes are on several hosts and the engine
 * cannot be loaded, or cannot do what .on_failure needs. The runtime is owned by the caller until
 * tsr_runtime_close, which leaves the job; process 0 first waits for the others to close.
 * Collective. */
TSR_API tsr_runtime *tsr_initialize_with(const char *devices, const tsr_process_opts *opts);

/* Returns the index of this process, from 0; 0 for a process that is alone. Local. */
TSR_API int tsr_process_index(const tsr_runtime *rt);

/* Returns the number of processes: 1 for a runtime of tsr_runtime_open, except under `tessera run`,
 * where that call joins the job. Local. */
TSR_API int tsr_process_count(const tsr_runtime *rt);

/* Returns whether a process is alive, as far as this process knows: false after it failed or left,
 * while its heartbeat is missing, and for an index out of range. Local. */
TSR_API bool tsr_process_alive(const tsr_runtime *rt, int index);

/* Reports to all other processes that this one cannot go on: their waits fail with TSR_EPEER and
 * `cause`, which is copied (500 bytes). The first failure counts. Errors: TSR_EARG for NULL,
 * TSR_ESTATE without tsr_initialize. Local. */
TSR_API tsr_status tsr_process_fail_at(tsr_scope *scope, const char *cause, const char *site);

/* Asks all processes to stop, as .stop_signal does; tsr_process_should_stop then returns the step.
 * Errors: TSR_ESTATE without tsr_initialize. Local. */
TSR_API tsr_status tsr_process_stop_at(tsr_scope *scope, const char *site);

/* Writes to `out` whether all processes stop at this step, from 0, to save and end: true for the
 * first step after the furthest that any process had reached when one was asked to stop, and for
 * later steps. All processes call it with the same steps, which do not decrease; the call waits
 * only while the processes agree on a step. Errors: TSR_EARG, TSR_ESTATE without tsr_initialize,
 * TSR_EPEER if process 0 failed. Collective. */
TSR_API tsr_status tsr_process_should_stop_at(tsr_scope *scope, int64_t step, bool *out,
                                              const char *site);

/* Options of tsr_process_regroup. Zero means the default. */
typedef struct tsr_regroup_opts {
  size_t size TSR_REST_BY_NAME; /* sizeof(tsr_regroup_opts), set by the macro */
  double timeout;               /* seconds until all remaining processes have come; 0 = 300 */
} tsr_regroup_opts;

/* Returns a runtime without the processes that failed or left. The call closes `rt` and frees the
 * memory of its devices; save or copy out state that must survive. The remaining processes are
 * numbered from 0 in their old order, each with the devices that it names. Errors, in
 * tsr_runtime_status: TSR_ESTATE if .on_failure is not "shrink"; TSR_EPEER if remaining processes
 * do not come, with their names, or if process 0 failed, without which no process can go on; those
 * of tsr_initialize. The call takes `rt` in any case; the caller owns the result. Collective. */
TSR_API tsr_runtime *tsr_process_regroup_with(tsr_runtime *rt, const char *devices,
                                              const tsr_regroup_opts *opts);

/* Options of tsr_sync. Zero means the default. */
typedef struct tsr_sync_opts {
  size_t size TSR_REST_BY_NAME; /* sizeof(tsr_sync_opts), set by the macro */
  double timeout;               /* seconds; 0 = 300. The first process to call decides */
  const int *processes;         /* process_count indices of the processes to wait for; NULL = all */
  int process_count;
} tsr_sync_opts;

/* Waits until all processes, or those in the options, have called it with this name; names can be
 * used again. Errors: TSR_EPEER after the timeout or if a process failed or left, with the missing
 * processes; TSR_EARG for all callers if one of them is not in the options or gives other options;
 * TSR_ESTATE without tsr_initialize. Collective. */
TSR_API tsr_status tsr_sync_with(tsr_scope *scope, const char *name, const tsr_sync_opts *opts,
                                 const char *site);

/* A value of the store: `length` bytes and a NUL after them, owned by the scope. */
typedef struct tsr_value {
  const void *data; /* NULL: no value */
  size_t length;
} tsr_value;

/* Options of tsr_store_set and tsr_store_get. Zero means the default. */
typedef struct tsr_store_opts {
  size_t size TSR_REST_BY_NAME; /* sizeof(tsr_store_opts), set by the macro */
  bool overwrite;               /* set: an existing key gets the new value, instead of an error */
  double timeout;               /* get: seconds to wait until the key is set; 0 = 300 */
} tsr_store_opts;

/* Sets a key of the store, which process 0 holds, to `length` bytes, copied: at most 8 MiB each, 1
 * GiB in all. A key is a path such as "epoch/3/best" of at most 1024 bytes; leading, trailing and
 * double slashes are ignored. Errors: TSR_ESTATE for an existing key (without .overwrite) and
 * without tsr_initialize; TSR_EARG; TSR_ENOMEM; TSR_EPEER if process 0 failed. Local. */
TSR_API tsr_status tsr_store_set_with(tsr_scope *scope, const char *key, const void *data,
                                      size_t length, const tsr_store_opts *opts, const char *site);

/* Writes the value of a key to `out`, after waiting until a process sets the key. `*out` is owned
 * by the scope. Errors: TSR_EPEER after the timeout or if a process failed; those of tsr_store_set.
 * Local. */
TSR_API tsr_status tsr_store_get_with(tsr_scope *scope, const char *key, tsr_value *out,
                                      const tsr_store_opts *opts, const char *site);

/* Writes the value of a key to `out` without waiting; `out->data` is NULL if the key is not set.
 * Errors as of tsr_store_get. Local. */
TSR_API tsr_status tsr_store_find_at(tsr_scope *scope, const char *key, tsr_value *out,
                                     const char *site);

/* Adds to a key that holds a whole number in decimal (a missing key: 0) and writes the sum to
 * `out`; the addition is atomic among processes. Errors: TSR_EVALUE if the value is not such a
 * number or the sum exceeds 64 bits; those of tsr_store_set. Local. */
TSR_API tsr_status tsr_store_add_at(tsr_scope *scope, const char *key, int64_t delta, int64_t *out,
                                    const char *site);

/* Deletes a key and all keys below it ("a" and "a/..."); a missing key is no error. Errors: those
 * of tsr_store_set. Local. */
TSR_API tsr_status tsr_store_delete_at(tsr_scope *scope, const char *key, const char *site);

/* Keys in order with their values, owned by the scope. */
typedef struct tsr_store_keys {
  int64_t count;
  const char *const *keys;
  const tsr_value *values;
} tsr_store_keys;

/* Writes the present keys below a key ("a": "a/..."; "": all keys), ordered by their bytes, to
 * `out`. Errors: TSR_EVALUE for more than 128 MiB; those of tsr_store_set. Local. */
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
