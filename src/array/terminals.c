/* The calls that compute: everything comes down to tsr__execute. A terminal gives a status and
 * records its error, with the line that asked, in the scope where results of its operands belong;
 * what it computes hangs on the nodes from then on.
 *
 * Whatever a terminal finds wrong before it runs it also tells the other processes, if those wait
 * for this one in the same call (tsr__refuse_array): one that just returned would let them wait
 * until a deadline, and then be blamed for being late.
 *
 *   check      what this process was given: NULL, inert, deleted, sizes
 *   run        what is to be computed; all processes together
 *   fetch      elements to the host; once more together */
#include "array/array_room.h"

#include <inttypes.h>

/* Where an error stands: the terminal's line, or for want of it the array's. */
static const char *site_of(const tsr_array *a, const char *site)
{
  return site ? site : a->node.site;
}

/* The others are told the text that the scope has, which may be that of an earlier error: the scope
 * keeps its first. */
static tsr_status refuse_arrays(tsr__operands arrays, tsr__refusal refusal)
{
  tsr_scope *scope = tsr__home_of(arrays);
  refusal.message = tsr_message(scope);
  if (!*refusal.message) refusal.message = tsr_status_text(refusal.status);
  tsr__refuse_all(arrays, &refusal);
  return refusal.status;
}

tsr_status tsr__refuse_array(tsr_array *a, tsr_status status, bool fetches, const char *site)
{
  const tsr__refusal refusal = {
    .status = status, .looks = true, .fetches = fetches, .site = site
  };
  return refuse_arrays(TSR__IN(a), refusal);
}

/* Where `what` is asked to write to must be somewhere. An inert array is left to what comes next,
 * which knows a better reason than a missing place. */
static tsr_status check_out(tsr_array *a, const void *out, const char *what, bool fetches,
                            const char *site)
{
  if (out || !a || a->inert) return TSR_OK;
  tsr_status status =
      tsr__fail(tsr__home(a), site_of(a, site), TSR_EARG,
                "%s: the pointer for the result is NULL; give the address of one", what);
  return tsr__refuse_array(a, status, fetches, site);
}

/* Why an array is inert: its scope knows, or, where there is none, the constant itself. */
static tsr_status why_inert(const tsr_array *a, const char *what, const char *site)
{
  if (!a->node.scope && a->numbers[0].i == TSR_ENOMEM)
    return tsr__fail(
        NULL, site, TSR_ENOMEM,
        "%s: there was no memory for the array; close scopes that are no longer needed", what);
  return tsr__fail_inert(tsr__home(a), a->node.scope, site_of(a, site), what, "array");
}

/* What no operation says of itself, memory for instance, is said in the terminal's name. An
 * operation's message begins with its call, "tsr_add: ", and stays as it is; the status is cleared
 * first, as the first error set is the one that stays. */
static void named(tsr__error *error, const char *what)
{
  tsr__error found = *error;
  if (!strncmp(found.text, "tsr_", strlen("tsr_"))) return;
  error->status = TSR_OK;
  tsr__error_set(error, found.status, "%s: %s", what, found.text);
}

/* What runs a program: tsr__execute, or tsr__start. */
typedef tsr_status run_fn(tsr_scope *scope, tsr_array *const *roots, int count, tsr__error *error);

/* All of them are looked at before anything runs. */
static tsr_status check_arrays(const char *what, tsr_array *const *arrays, int count,
                               const char *site)
{
  for (int i = 0; i < count; i++) {
    if (!arrays[i])
      return tsr__fail(tsr__home(arrays[0]), site_of(arrays[0], site), TSR_EARG,
                       "%s: array %d is NULL; give an array", what, i);
    if (arrays[i]->inert) return why_inert(arrays[i], what, site);
    if (arrays[i]->node.scope->rt != arrays[0]->node.scope->rt)
      return tsr__fail(tsr__home(arrays[0]), site_of(arrays[0], site), TSR_EARG,
                       "%s: array %d belongs to another runtime than array 0; evaluate the arrays "
                       "of each runtime in a call of its own",
                       what, i);
  }
  return TSR_OK;
}

static tsr_status run(const char *what, run_fn *how, tsr_array *const *arrays, int count,
                      const char *site)
{
  if (count == 0) return TSR_OK; /* nothing to do is no error */
  if (!arrays || count < 0)
    return tsr__fail(NULL, site, TSR_EARG,
                     "%s: the count of arrays is %d%s; give the arrays and their number", what,
                     count, arrays ? "" : ", but the list is NULL");
  if (!arrays[0])
    return tsr__fail(tsr__home_of((tsr__operands){ arrays, count }), site, TSR_EARG,
                     "%s: array 0 is NULL; give an array", what);
  tsr_status bad = check_arrays(what, arrays, count, site);
  if (bad) return refuse_arrays((tsr__operands){ arrays, count }, (tsr__refusal){ .status = bad });
  tsr_scope *scope = tsr__home_of((tsr__operands){ arrays, count });
  tsr__error error;
  error.status = TSR_OK;
  tsr_status status = how(scope, arrays, count, &error);
  if (!status) return TSR_OK;
  named(&error, what);
  tsr__fail_error(scope, site_of(arrays[0], site), &error);
  /* The array's own scope is told as well, if another one was asked: who looks there must find
   * it. */
  if (scope != arrays[0]->node.scope && !arrays[0]->value)
    tsr__fail_error(arrays[0]->node.scope, site_of(arrays[0], site), &error);
  return status;
}

/* NULL and inert ones stay what they are where no tree is beside them: whoever is asked next says
 * what is wrong. */
tsr_status tsr__spread_trees(tsr_array *const *arrays, int count, const char *what,
                             const char *site, tsr__leaves *out)
{
  tsr_array *tree = NULL;
  for (int i = 0; arrays && i < count && !tree; i++)
    if (tsr__is_tree(arrays[i])) tree = arrays[i];
  *out = (tsr__leaves){ tree ? NULL : (tsr_array **)(uintptr_t)arrays, tree ? 0 : count, 0 };
  for (int i = 0; tree && i < count; i++) {
    if (!arrays[i])
      return tsr__fail(tsr__home(tree), site_of(tree, site), TSR_EARG,
                       "%s: array %d is NULL; give an array", what, i);
    if (!tsr__leaves_of(&tree->node.scope->arena, arrays[i], out))
      return tsr__fail(
          tsr__home(tree), site_of(tree, site), TSR_ENOMEM,
          "%s: no memory to list the arrays of a tree; close scopes that are no longer needed",
          what);
  }
  return TSR_OK;
}

/* Trees stand for the arrays in them. */
static tsr_status run_all(const char *what, run_fn *how, tsr_array *const *arrays, int count,
                          const char *site)
{
  tsr__leaves all;
  tsr_status status = tsr__spread_trees(arrays, count, what, site, &all);
  return status ? status : run(what, how, all.at, all.count, site);
}

tsr_status tsr_eval_at(tsr_array *const *arrays, int count, const char *site)
{
  return run_all("tsr_eval", tsr__evaluate, arrays, count, site);
}

tsr_status tsr_start_at(tsr_array *const *arrays, int count, const char *site)
{
  return run_all("tsr_start", tsr__start, arrays, count, site);
}

/* Which call took it says what is to be changed. */
static tsr_status gone(tsr_array *a, const char *what, const char *site)
{
  tsr__error gone;
  if (a->deleted != TSR__DELETED)
    return tsr__fail(tsr__home(a), site_of(a, site), TSR_ESTATE, "%s: %s was %s", what,
                     tsr_type_of(a), tsr__gone_text(a, &gone));
  return tsr__fail(tsr__home(a), site_of(a, site), TSR_ESTATE,
                   "%s: %s was deleted by tsr_delete; delete the array only after its last use",
                   what, tsr_type_of(a));
}

/* Evaluates an array unless it has its value; one that was deleted or given up has none to give.
 * `looks`: at its elements. A value of which only accumulators were kept counts as evaluated for
 * those that do not look; who looks runs it, and the sum is made then. */
static tsr_status ready(tsr_array *a, const char *what, bool looks, const char *site)
{
  if (!a) return tsr__fail_null(what, "array", site);
  if (a->deleted) return tsr__refuse_array(a, gone(a, what, site), false, site);
  bool there = a->value && !a->inert && (!looks || tsr__value_kept(a->value) < 0);
  return there ? TSR_OK : run(what, looks ? tsr__execute : tsr__evaluate, &a, 1, site);
}

tsr_status tsr__array_ready(tsr_array *a, const char *what, const char *site)
{
  return ready(a, what, true, site);
}

tsr_status tsr_wait_at(tsr_array *a, const char *site)
{
  return tsr__is_tree(a) ? run_all("tsr_wait", tsr__evaluate, &a, 1, site)
                         : ready(a, "tsr_wait", false, site);
}

tsr_status tsr_read_at(tsr_array *a, void *out, size_t bytes, const char *site)
{
  tsr_status status = tsr__array_ready(a, "tsr_read", site);
  if (status) return status;
  /* Exactly as many: a buffer that is too large is as likely a mistake as one that is too small. */
  size_t need = (size_t)tsr__shape_count(&a->shape) * tsr_dtype_size((tsr_dtype)a->dtype);
  if (bytes != need || (!out && need)) {
    status = tsr__fail(tsr__home(a), site_of(a, site), TSR_EARG,
                       "tsr_read: %s%zu bytes for %s, expected exactly %zu", out ? "" : "NULL of ",
                       bytes, tsr_type_of(a), need);
    return tsr__refuse_array(a, status, true, site);
  }
  tsr__error error;
  error.status = TSR_OK;
  /* Fetching may be cancelled. */
  if (!tsr__value_fetch(a->value, out, "tsr_read", &error)) return TSR_OK;
  return tsr__fail_error(tsr__home(a), site_of(a, site), &error);
}

/* One element as it lies in host memory. */
typedef union element {
  uint8_t bytes[8];
  uint64_t align;
} element;

/* Eight bytes are room for an element of any dtype; what is read is as wide as the dtype, and the
 * rest stays zero. */
static tsr_status read_one(tsr_array *a, const char *what, element *out, const char *site)
{
  tsr_status status = tsr__array_ready(a, what, site);
  if (status) return status;
  if (tsr__shape_count(&a->shape) != 1) {
    status =
        tsr__fail(tsr__home(a), site_of(a, site), TSR_ESHAPE,
                  "%s: the array is %s, expected one element; use tsr_read", what, tsr_type_of(a));
    return tsr__refuse_array(a, status, true, site);
  }
  tsr__error error;
  error.status = TSR_OK;
  if (!tsr__value_fetch(a->value, out, what, &error)) return TSR_OK;
  return tsr__fail_error(tsr__home(a), site_of(a, site), &error);
}

tsr_status tsr_read_scalar_at(tsr_array *a, double *out, const char *site)
{
  element e = { 0 };
  tsr_status status = check_out(a, out, "tsr_read_scalar", true, site);
  if (!status) status = read_one(a, "tsr_read_scalar", &e, site);
  if (status) return status;
  tsr_dtype dtype = (tsr_dtype)a->dtype;
  /* u64 above 2^63 is no negative number. */
  if (tsr__dtype_is_real(dtype)) *out = tsr__dtype_get_real(dtype, &e, 0);
  else *out = tsr__dtype_real_of(TSR_F64, tsr__dtype_get_whole(dtype, &e, 0), dtype == TSR_U64);
  return TSR_OK;
}

tsr_status tsr_read_i64_at(tsr_array *a, int64_t *out, const char *site)
{
  element e = { 0 };
  /* By the dtype alone: nothing is computed in vain. */
  tsr_status status = TSR_OK;
  if (a && !a->inert && (tsr__dtype_is_real((tsr_dtype)a->dtype)))
    status = tsr__fail(tsr__home(a), site_of(a, site), TSR_EDTYPE,
                       "tsr_read_i64: the array is %s, expected an integer or bool; cast it first",
                       tsr_type_of(a));
  if (status) return tsr__refuse_array(a, status, true, site);
  status = check_out(a, out, "tsr_read_i64", true, site);
  if (!status) status = read_one(a, "tsr_read_i64", &e, site);
  if (status) return status;
  int64_t value = tsr__dtype_get_whole((tsr_dtype)a->dtype, &e, 0);
  /* The upper half of u64 comes as a negative number here. */
  if (a->dtype == TSR_U64 && value < 0)
    return tsr__fail(tsr__home(a), site_of(a, site), TSR_EVALUE,
                     "tsr_read_i64: %" PRIu64 " of %s does not fit i64; read it with tsr_read",
                     (uint64_t)value, tsr_type_of(a));
  *out = value;
  return TSR_OK;
}

tsr_array *tsr_keep_at(tsr_scope *outer, tsr_array *a, const char *site)
{
  tsr_status status = a ? ready(a, "tsr_keep", false, site) : TSR_EARG;
  if (status) {
    const char *message = a ? tsr_message(tsr__home(a)) : "the array is NULL";
    tsr__fail(outer, site, status, "tsr_keep: %s", *message ? message : tsr_status_text(status));
    return tsr__make_inert(outer, site);
  }
  /* Said in both: neither scope's owner may look at the other. */
  if (!outer || outer->rt != a->node.scope->rt) {
    tsr__error error = { .status = TSR_OK };
    tsr__error_set(&error, TSR_EARG,
                   "tsr_keep: the array belongs to another runtime than the scope; read it there "
                   "and place it here with tsr_put");
    tsr__fail_error(tsr__home(a), site, &error);
    tsr__fail_error(outer, site, &error);
    return tsr__make_inert(outer, site);
  }
  /* It lives as long there. A second array of the value would hold the memory beside it when one of
   * them is deleted or given up. */
  if (a->node.scope == outer) return a;
  /* Buffers are shared, not copied: what an array holds never changes. */
  tsr__value_hold(a->value);
  return tsr__make_leaf(outer, (tsr_dtype)a->dtype, &a->shape, &a->sharding, a->value, site);
}

/* Inert arrays and such as are deleted already are nobody's mistake here: cleaning up must not
 * fail. */
void tsr_delete(tsr_array *a)
{
  if (tsr__is_tree(a))
    for (int i = 0; i < a->in_count; i++) tsr_delete(a->in[i]);
  else if (a && !a->inert && !a->deleted) tsr__array_delete(a);
}

/* All of a tree, or nothing where one of them is gone. Looked at first and donated afterwards, so
 * that a tree is never half given up. */
static tsr_status donate_tree(tsr_array *tree, const char *site)
{
  tsr__leaves all;
  tsr_status status = tsr__spread_trees(&tree, 1, "tsr_donate", site, &all);
  for (int i = 0; i < all.count && !status; i++)
    if (all.at[i]->inert || all.at[i]->deleted) status = tsr_donate_at(all.at[i], site);
  for (int i = 0; i < all.count && !status; i++)
    if (!all.at[i]->deleted) tsr__array_donate(all.at[i], site); /* it may stand there twice */
  return status;
}

/* Nothing runs: who reads the array last may have its memory. */
tsr_status tsr_donate_at(tsr_array *a, const char *site)
{
  if (!a) return tsr__fail_null("tsr_donate", "array", site);
  if (a->inert) return why_inert(a, "tsr_donate", site);
  if (tsr__is_tree(a)) return donate_tree(a, site);
  tsr__error gone;
  if (a->deleted)
    return tsr__fail(tsr__home(a), site_of(a, site), TSR_ESTATE, "tsr_donate: %s was %s",
                     tsr_type_of(a), tsr__gone_text(a, &gone));
  tsr__array_donate(a, site);
  return TSR_OK;
}

tsr_status tsr__no_part(tsr_array *a, int position, const char *what, const char *site)
{
  int count = a->value->part_count;
  if (position < 0 || position >= count)
    return tsr__fail(tsr__home(a), site_of(a, site), TSR_EARG,
                     "%s: position %d of %s, expected 0..%d", what, position, tsr_type_of(a),
                     count - 1);
  int device = tsr__position_device(&a->value->sharding, position);
  return tsr__fail(tsr__home(a), site_of(a, site), TSR_EARG,
                   "%s: position %d of %s belongs to process %d; use the positions that "
                   "tsr_local_shard gives, or read the array",
                   what, position, tsr_type_of(a),
                   tsr__device_process(tsr__topology_of(a->value->rt), device));
}

/* The view borrows the device's memory for as long as the array has its value; nothing is copied,
 * so a bool array shows bits. */
tsr_status tsr_shard_view_at(tsr_array *a, int position, tsr_shard *out, const char *site)
{
  tsr_status status = check_out(a, out, "tsr_shard_view", false, site);
  if (!status) status = tsr__array_ready(a, "tsr_shard_view", site);
  if (status) return status;
  const tsr__value *value = a->value;
  if (position < 0 || position >= value->part_count || !value->parts[position])
    return tsr__no_part(a, position, "tsr_shard_view", site);
  tsr_shard shard = { .device = tsr__position_device(&value->sharding, position),
                      .data = tsr__value_map(value, position) };
  tsr__value_box(value, position, &shard.box);
  /* Replicas show the same box: how many positions before this one do. */
  for (int p = 0; p < position; p++) {
    tsr_box box;
    tsr__value_box(value, p, &box);
    shard.replica += memcmp(&box, &shard.box, sizeof box) == 0;
  }
  *out = shard;
  return TSR_OK;
}

/* ---- asking ---- */

/* Of NULL and of inert arrays all answers are zeros, so that asking needs no look before it. */
tsr_shape tsr_shape_of(const tsr_array *a)
{
  return a && !a->inert ? a->shape : (tsr_shape){ 0 };
}

tsr_dtype tsr_dtype_of(const tsr_array *a)
{
  return a && !a->inert ? (tsr_dtype)a->dtype : 0;
}

tsr_sharding tsr_sharding_of(const tsr_array *a)
{
  tsr_sharding out = { 0 };
  if (!a || a->inert) return out;
  out = a->sharding;
  if (out.rank > a->shape.rank)
    out.rank = (uint8_t)a->shape.rank; /* canonical: dims without axes */
  return out;
}

bool tsr_is_inert(const tsr_array *a)
{
  return !a || a->inert;
}

tsr_run_stats tsr_last_run(const tsr_scope *scope)
{
  return scope && scope->run_stats ? *(const tsr_run_stats *)scope->run_stats
                                   : (tsr_run_stats){ 0 };
}
