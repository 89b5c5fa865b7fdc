/* What users call of processes. A runtime of tsr_initialize has a connection in its slot; errors go
 * to scopes, as those of any call.
 *
 *   tsr_..._at  -> begin: scope, runtime, NULLs -> the work, in member.c -> end: error to the scope
 *
 * What the coordinator answers is copied into the scope's arena, and lives as long as that. */
#include "comm/comm.h"
#include "comm/far.h"

#include <stdio.h>
#include <stdlib.h>

/* A runtime that failed has a slot perhaps, and nothing that may be used. */
tsr__comm *tsr__comm_of(const tsr_runtime *rt)
{
  return rt && !rt->error.status ? rt->slots[TSR__SLOT_COMM] : NULL;
}

static void comm_free(tsr_runtime *rt, void *slot)
{
  (void)rt;
  tsr__comm_close(slot);
}

static const char *from_system(const char *name, void *user)
{
  (void)user;
  return getenv(name);
}

static bool has_mpi(void)
{
  return tsr__engine_begun() != NULL;
}

tsr_status tsr__comm_install(tsr_runtime *rt, const char *devices, const tsr_process_opts *opts)
{
  const tsr__environment env = { from_system, NULL, has_mpi, tsr__engine_meet };
  tsr_process_opts own = { .size = sizeof own };
  tsr__error error = { .status = TSR_OK };
  tsr__role role;
  tsr_status status = tsr__take_opts("tsr_initialize", opts, &own, sizeof own, &error);
  if (status) return tsr__runtime_fail(rt, status, "%s", error.text);
  status = tsr__role_find(&own, &env, &role, &error);
  if (status) return tsr__runtime_fail(rt, status, "tsr_initialize: %s", error.text);
  return tsr__comm_join(rt, devices, &role);
}

tsr_status tsr__comm_join(tsr_runtime *rt, const char *devices, tsr__role *role)
{
  snprintf(role->devices, sizeof role->devices, "%s", devices);
  tsr__error error = { .status = TSR_OK };
  tsr__comm *comm = NULL;
  const char *at = *role->coordinator ? role->coordinator : "none, as the process runs alone";
  tsr__log(rt, TSR_LOG_INFO, "process", "process %d of %d, coordinator %s%s; found by %s",
           role->index, role->count, at, *role->secret ? ", with a secret" : "", role->source);
  tsr_status status = tsr__comm_open(rt, role, &comm, &error);
  if (status) return tsr__runtime_fail(rt, status, "tsr_initialize: %s", error.text);
  rt->slots[TSR__SLOT_COMM] = comm;
  rt->slot_free[TSR__SLOT_COMM] = comm_free;
  return TSR_OK;
}

int tsr_process_index(const tsr_runtime *rt)
{
  tsr__comm *comm = tsr__comm_of(rt);
  return comm ? tsr__comm_index(comm) : 0;
}

int tsr_process_count(const tsr_runtime *rt)
{
  tsr__comm *comm = tsr__comm_of(rt);
  return comm ? tsr__comm_count(comm) : 1;
}

/* A silent one does not count: it may be back in a moment, or never. */
bool tsr_process_alive(const tsr_runtime *rt, int index)
{
  tsr__comm *comm = tsr__comm_of(rt);
  if (!comm) return rt && !rt->error.status && index == 0;
  return tsr__comm_presence(comm, index) == TSR__HERE;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* A call under way: what it is named, and what it needs. */
typedef struct process_call {
  tsr_scope *scope;
  const char *name, *site;
  tsr__comm *comm;
  tsr__error error;
} process_call;

static tsr_status refuse(process_call *call, tsr_status status, const char *what)
{
  return tsr__fail(call->scope, call->site, status, "%s: %s", call->name, what);
}

/* Finds the connection; a status if the call cannot be made. */
static tsr_status begin(process_call *call, const char *text, const char *what)
{
  tsr_status status = tsr__scope_usable(call->scope, call->name, call->site);
  if (status) return status;
  call->comm = tsr__comm_of(call->scope->rt);
  if (!text)
    return tsr__fail(call->scope, call->site, TSR_EARG, "%s: the %s is NULL; give one", call->name,
                     what);
  if (call->comm) return TSR_OK;
  return refuse(call, TSR_ESTATE,
                "the runtime of this scope belongs to no job of several processes; open the "
                "runtime with tsr_initialize");
}

static tsr_status end(process_call *call, tsr_status status)
{
  return status ? refuse(call, status, call->error.text) : TSR_OK;
}

/* Seconds to wait; -1, with the error, for what is no time. */
static double seconds_of(process_call *call, double timeout)
{
  if (timeout >= 0 && timeout <= 1e9) return timeout > 0 ? timeout : TSR__COMM_SECONDS;
  refuse(call, TSR_EARG, ".timeout is negative, no number or above 1e9 s; 0 is 300 s");
  return -1;
}

tsr_status tsr_process_fail_at(tsr_scope *scope, const char *cause, const char *site)
{
  process_call call = { scope, "tsr_process_fail", site, NULL, { .status = TSR_OK } };
  tsr_status status = begin(&call, cause, "cause");
  if (!status) tsr__comm_fail(call.comm, cause);
  return status;
}

tsr_status tsr_process_stop_at(tsr_scope *scope, const char *site)
{
  process_call call = { scope, "tsr_process_stop", site, NULL, { .status = TSR_OK } };
  tsr_status status = begin(&call, "", "");
  if (!status) tsr__comm_stop(call.comm);
  return status;
}

tsr_status tsr_process_should_stop_at(tsr_scope *scope, int64_t step, bool *out, const char *site)
{
  process_call call = { scope, "tsr_process_should_stop", site, NULL, { .status = TSR_OK } };
  tsr_status status = begin(&call, "", "");
  if (status) return status;
  if (step < 0 || step == INT64_MAX)
    return refuse(&call, TSR_EARG, "the step is below 0, expected 0 or more");
  if (!out)
    return refuse(&call, TSR_EARG, "the pointer for the answer is NULL; give the address of one");
  return end(&call, tsr__comm_should_stop(call.comm, step, out, &call.error));
}

/* Whether the processes that were named exist, each once, and this one is among them or not. */
static tsr_status check_processes(process_call *call, const tsr_sync_opts *own)
{
  int count = tsr__comm_count(call->comm);
  if (!own->processes && !own->process_count) return TSR_OK;
  if (!own->processes)
    return refuse(call, TSR_EARG,
                  ".process_count is set, but .processes is not; set both, or neither");
  if (own->process_count < 1 || own->process_count > count)
    return tsr__fail(call->scope, call->site, TSR_EARG,
                     "%s: .process_count is %d, expected 1 to %d", call->name, own->process_count,
                     count);
  for (int i = 0; i < own->process_count; i++) {
    bool twice = false;
    for (int k = 0; k < i; k++) twice = twice || own->processes[k] == own->processes[i];
    if (own->processes[i] < 0 || own->processes[i] >= count || twice)
      return tsr__fail(call->scope, call->site, TSR_EARG,
                       "%s: .processes names %d%s, expected different numbers from 0 to %d",
                       call->name, own->processes[i], twice ? " twice" : "", count - 1);
  }
  return TSR_OK;
}

tsr_status tsr_sync_with(tsr_scope *scope, const char *name, const tsr_sync_opts *opts,
                         const char *site)
{
  process_call call = { scope, "tsr_sync", site, NULL, { .status = TSR_OK } };
  tsr_sync_opts own = { .size = sizeof own };
  tsr_status status = begin(&call, name, "name");
  if (!status) status = tsr__take_opts("tsr_sync", opts, &own, sizeof own, &call.error);
  if (call.error.status) return tsr__fail_error(scope, site, &call.error);
  double seconds = status ? 0 : seconds_of(&call, own.timeout);
  if (seconds < 0) return TSR_EARG;
  if (!status) status = check_processes(&call, &own);
  if (status) return status;
  tsr__comm_meeting meeting = {
    .name = name, .seconds = seconds, .processes = own.processes, .count = own.process_count
  };
  return end(&call, tsr__comm_meet(call.comm, &meeting, NULL, &call.error));
}

/* ---- the store ------------------------------------------------------------------------------- */

tsr_status tsr_store_set_with(tsr_scope *scope, const char *key, const void *data, size_t length,
                              const tsr_store_opts *opts, const char *site)
{
  process_call call = { scope, "tsr_store_set", site, NULL, { .status = TSR_OK } };
  tsr_store_opts own = { .size = sizeof own };
  tsr_status status = begin(&call, key, "key");
  if (!status) status = tsr__take_opts("tsr_store_set", opts, &own, sizeof own, &call.error);
  if (call.error.status) return tsr__fail_error(scope, site, &call.error);
  if (!status && !data && length)
    status = refuse(&call, TSR_EARG, "the data is NULL; give a buffer");
  if (status) return status;
  tsr__blob value = { data, length };
  return end(&call, tsr__comm_set(call.comm, key, value, own.overwrite, &call.error));
}

/* Takes bytes into the scope; false without memory for them. */
static bool keep(tsr_scope *scope, const void *data, size_t length, tsr_value *out)
{
  char *own = tsr__arena_text(&scope->arena, length ? data : "", length);
  if (own) *out = (tsr_value){ own, length };
  return own != NULL;
}

/* A value that is empty has an address, one that is not there is NULL. */
static tsr_status get(process_call *call, tsr__wanted *wanted, tsr_value *out)
{
  tsr__text value;
  tsr__text_init(&value, &call->scope->rt->heap);
  tsr_status status = tsr__comm_get(call->comm, wanted, &value, &call->error);
  if (!status && wanted->found && !keep(call->scope, value.data, value.length, out))
    status = tsr__error_set(&call->error, TSR_ENOMEM, "no memory for the value");
  else if (!status && !wanted->found) *out = (tsr_value){ NULL, 0 };
  tsr__text_free(&value);
  return end(call, status);
}

tsr_status tsr_store_get_with(tsr_scope *scope, const char *key, tsr_value *out,
                              const tsr_store_opts *opts, const char *site)
{
  process_call call = { scope, "tsr_store_get", site, NULL, { .status = TSR_OK } };
  tsr_store_opts own = { .size = sizeof own };
  tsr_status status = begin(&call, key, "key");
  if (!status) status = tsr__take_opts("tsr_store_get", opts, &own, sizeof own, &call.error);
  if (call.error.status) return tsr__fail_error(scope, site, &call.error);
  if (!status && !out)
    status = refuse(&call, TSR_EARG, "the pointer for the value is NULL; give the address of one");
  double seconds = status ? 0 : seconds_of(&call, own.timeout);
  if (seconds < 0) return TSR_EARG;
  if (status) return status;
  return get(&call, &(tsr__wanted){ key, seconds, false }, out);
}

tsr_status tsr_store_find_at(tsr_scope *scope, const char *key, tsr_value *out, const char *site)
{
  process_call call = { scope, "tsr_store_find", site, NULL, { .status = TSR_OK } };
  tsr_status status = begin(&call, key, "key");
  if (!status && !out)
    status = refuse(&call, TSR_EARG, "the pointer for the value is NULL; give the address of one");
  if (status) return status;
  return get(&call, &(tsr__wanted){ key, 0, false }, out);
}

tsr_status tsr_store_add_at(tsr_scope *scope, const char *key, int64_t delta, int64_t *out,
                            const char *site)
{
  process_call call = { scope, "tsr_store_add", site, NULL, { .status = TSR_OK } };
  tsr_status status = begin(&call, key, "key");
  if (!status && !out)
    status = refuse(&call, TSR_EARG, "the pointer for the sum is NULL; give the address of one");
  if (status) return status;
  return end(&call, tsr__comm_add(call.comm, key, delta, out, &call.error));
}

tsr_status tsr_store_delete_at(tsr_scope *scope, const char *key, const char *site)
{
  process_call call = { scope, "tsr_store_delete", site, NULL, { .status = TSR_OK } };
  tsr_status status = begin(&call, key, "key");
  if (status) return status;
  return end(&call, tsr__comm_delete(call.comm, key, &call.error));
}

/* Takes the answer of a LIST into the scope.
 * One place more than there are keys, so that of none the lists are no NULL. */
static tsr_status keep_list(process_call *call, const tsr__text *list, tsr_store_keys *out)
{
  tsr__fields fields = { (const uint8_t *)list->data, (const uint8_t *)list->data + list->length,
                         false };
  tsr__arena *arena = &call->scope->arena;
  size_t count = tsr__take_u32(&fields);
  const char **keys = tsr__arena_new(arena, (count + 1) * sizeof *keys);
  tsr_value *values = tsr__arena_new(arena, (count + 1) * sizeof *values);
  bool good = keys && values;
  for (size_t i = 0; i < count && good; i++) {
    tsr_value key;
    tsr__blob name = tsr__take_bytes(&fields), value = tsr__take_bytes(&fields);
    good = keep(call->scope, name.data, name.length, &key) &&
           keep(call->scope, value.data, value.length, &values[i]);
    if (good) keys[i] = key.data;
  }
  if (!good) return tsr__error_set(&call->error, TSR_ENOMEM, "no memory for %zu keys", count);
  *out = (tsr_store_keys){ (int64_t)count, keys, values };
  return TSR_OK;
}

tsr_status tsr_store_list_at(tsr_scope *scope, const char *prefix, tsr_store_keys *out,
                             const char *site)
{
  process_call call = { scope, "tsr_store_list", site, NULL, { .status = TSR_OK } };
  tsr__text list;
  tsr_status status = begin(&call, prefix, "prefix");
  if (!status && !out)
    status = refuse(&call, TSR_EARG, "the pointer for the keys is NULL; give the address of one");
  if (status) return status;
  tsr__text_init(&list, &scope->rt->heap);
  status = tsr__comm_list(call.comm, prefix, &list, &call.error);
  if (!status) status = keep_list(&call, &list, out);
  tsr__text_free(&list);
  return end(&call, status);
}
