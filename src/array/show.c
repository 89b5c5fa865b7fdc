/* Arrays, their types and their programs as text. A text belongs to the scope that results of the
 * array would, and lives until that closes. Each call comes twice: `_into` with a status, and one
 * that gives the text or, in its place, the message. */
#include "array/array_room.h"

#include <stdio.h>

/* Text lives where a result would. `text` is used up either way. */
static tsr_status settle_text(tsr_array *a, tsr__text *text, const char **out, const char *site)
{
  tsr_scope *scope = tsr__home(a);
  /* In the arena of the scope: texts live until it closes, and are never freed one by one. */
  char *copy = scope && !scope->inert && !text->failed
                   ? tsr__arena_text(&scope->arena, tsr__text_get(text), text->length)
                   : NULL;
  tsr__text_free(text);
  if (copy) *out = copy;
  return copy ? TSR_OK
              : tsr__fail(scope, site ? site : a->node.site, TSR_ENOMEM, "no memory for a text");
}

/* The message of a terminal that failed, which the scope has that it asked in. */
static const char *why(const tsr_array *a)
{
  if (!a) return "(NULL)";
  if (a->node.scope) return tsr_message(tsr__home(a));
  /* In no scope: made of NULL, or of want of memory, which the constant says. */
  return tsr_status_text(a->number_count ? (tsr_status)a->numbers[0].i : TSR_ESTATE);
}

/* At the line of the call, or for want of one at that where the array was made. */
static tsr_status refuse(tsr_array *a, const tsr__error *error, const char *site)
{
  return tsr__fail_error(tsr__home(a), site ? site : a->node.site, error);
}

/* An inert array is let through, as what follows knows a better reason than a missing place. */
static tsr_status check_place(tsr_array *a, const char *const *out, const char *what,
                              const char *site)
{
  tsr__error error = { 0 };
  if (out || !a || a->inert) return TSR_OK;
  tsr__error_set(&error, TSR_EARG, "%s: the pointer for the text is NULL; give the address of one",
                 what);
  return refuse(a, &error, site);
}

/* As check_place, of a terminal that evaluates. */
static tsr_status check_end(tsr_array *a, const char *const *out, const char *what, bool fetches,
                            const char *site)
{
  tsr_status status = check_place(a, out, what, site);
  return status ? tsr__refuse_array(a, status, fetches, site) : TSR_OK;
}

/* Only of arrays that are not inert: those have a scope with a runtime. */
static tsr__text text_for(tsr_array *a)
{
  tsr__text text;
  tsr__text_init(&text, &a->node.scope->rt->heap);
  return text;
}

/* Of an inert array a fixed text, and no error: messages are written with this call. */
const char *tsr_type_of(tsr_array *a)
{
  const char *out;
  if (!a || a->inert) return "(inert array)";
  tsr__text text = text_for(a);
  tsr__type_add(&text, (tsr_dtype)a->dtype, &a->shape, &a->sharding);
  return settle_text(a, &text, &out, NULL) ? why(a) : out;
}

/* ---- values and devices ------------------------------------------------------------------ */

static tsr_status add_values(tsr_array *a, tsr__text *text, const char *site)
{
  /* One byte more, so that an array without elements is no failed allocation. */
  size_t bytes = (size_t)tsr__shape_count(&a->shape) * tsr_dtype_size((tsr_dtype)a->dtype);
  void *data = tsr__new_raw(text->heap, bytes + 1);
  tsr__error error = { 0 };
  /* Said by settle_text, to the user; the other processes read already. */
  if (!data) {
    text->failed = true;
    tsr__refuse_array(a, TSR_ENOMEM, true, site);
    return TSR_OK;
  }
  if (!tsr__value_fetch(a->value, data, "tsr_text_of", &error))
    tsr__print_values(text, (tsr_dtype)a->dtype, &a->shape, data);
  tsr__del(text->heap, data, bytes + 1);
  return error.status ? refuse(a, &error, site) : TSR_OK;
}

tsr_status tsr_text_into_at(tsr_array *a, const char **out, const char *site)
{
  tsr_status status = check_end(a, out, "tsr_text_into", true, site);
  if (!status) status = tsr__array_ready(a, "tsr_text_into", site);
  if (status) return status;
  tsr__text text = text_for(a);
  status = add_values(a, &text, site);
  if (!status) return settle_text(a, &text, out, site);
  tsr__text_free(&text);
  return status;
}

const char *tsr_text_of(tsr_array *a)
{
  const char *out;
  return tsr_text_into_at(a, &out, NULL) ? why(a) : out;
}

/* One line a device: "device 3: [3:6, 0:8] f32[3,8] 96 bytes". */
tsr_status tsr_devices_into_at(tsr_array *a, const char **out, const char *site)
{
  tsr_status status = check_end(a, out, "tsr_devices_into", false, site);
  if (!status) status = tsr__array_ready(a, "tsr_devices_into", site);
  if (status) return status;
  tsr__text text = text_for(a);
  for (int p = 0; p < a->value->part_count; p++) {
    /* Positions of other processes have no line. */
    if (!a->value->parts[p]) continue;
    tsr_box box;
    tsr__value_box(a->value, p, &box);
    tsr__text_add(&text, "device %d: [", tsr__position_device(&a->value->sharding, p));
    int64_t count = 1;
    for (int d = 0; d < a->shape.rank; d++) {
      tsr__text_add(&text, "%s%lld:%lld", d ? ", " : "", (long long)box.start[d],
                    (long long)(box.start[d] + box.size[d]));
      count *= box.size[d];
    }
    tsr__text_add(&text, "] %lld element%s, %zu bytes\n", (long long)count, count == 1 ? "" : "s",
                  tsr__device_bytes((tsr_dtype)a->dtype, count));
  }
  return settle_text(a, &text, out, site);
}

const char *tsr_devices_of(tsr_array *a)
{
  const char *out;
  return tsr_devices_into_at(a, &out, NULL) ? why(a) : out;
}

/* Evaluated first, though no element is looked at: only a value says for certain how it lies. */
const char *tsr_visualize_with(tsr_array *a, const tsr_draw_opts *opts, const char *site)
{
  if (tsr__array_ready(a, "tsr_visualize", site)) return why(a);
  /* What is wrong is said in this call's name. */
  TSR__CALL(tsr__home(a), "visualize");
  return tsr_visualize_sharding_with(tsr__home(a), tsr_sharding_of(a), a->shape, opts,
                                     site ? site : a->node.site);
}

/* ---- programs ---------------------------------------------------------------------------- */

tsr_status tsr_dump_into_at(tsr_array *a, const char **out, const char *site)
{
  tsr__error error = { 0 };
  tsr_status status = check_place(a, out, "tsr_dump_into", site);
  /* Only to find out why it cannot be shown: a program is dumped unevaluated. */
  if (!status && (!a || a->inert)) status = tsr__array_ready(a, "tsr_dump_into", site);
  if (status) return status;
  tsr__text text = text_for(a);
  if (!tsr__dump(a, &text, &error)) return settle_text(a, &text, out, site);
  tsr__text_free(&text);
  return refuse(a, &error, site);
}

const char *tsr_dump(tsr_array *a)
{
  const char *out;
  return tsr_dump_into_at(a, &out, NULL) ? why(a) : out;
}

/* An array that is NULL or inert is evaluated only to be refused, which says why. */
tsr_status tsr_explain_into_at(tsr_array *const *arrays, int count, const char **out,
                               const char *site)
{
  if (!arrays || count < 1)
    return tsr__fail(NULL, site, TSR_EARG,
                     "tsr_explain_into: no arrays are given; give at least one");
  tsr__error error = { 0 };
  tsr__leaves all;
  tsr_status status = tsr__spread_trees(arrays, count, "tsr_explain_into", site, &all);
  if (!status && !all.count)
    status = tsr__fail(tsr__home(arrays[0]), site, TSR_EARG,
                       "tsr_explain_into: the tree has no arrays; give a tree with arrays");
  if (status) return status;
  arrays = all.at;
  count = all.count;
  tsr_array *first = arrays[0];
  status = check_place(first, out, "tsr_explain_into", site);
  TSR__CALL(tsr__home(first), "explain_into");
  for (int i = 0; i < count && !status; i++)
    if (!arrays[i] || arrays[i]->inert) status = tsr_eval_at(arrays, count, site);
  if (status) return status;
  /* Long lines are folded, so the text is made before it is cut. */
  tsr__text text = text_for(first), folded = text_for(first);
  status = tsr__explain(first->node.scope, arrays, count, &text, &error);
  if (!status) tsr__explain_fold(&folded, &text);
  tsr__text_free(&text);
  if (!status) return settle_text(first, &folded, out, site);
  tsr__text_free(&folded);
  return refuse(first, &error, site);
}

const char *tsr_explain(tsr_array *const *arrays, int count)
{
  const char *out;
  if (!tsr_explain_into_at(arrays, count, &out, NULL)) return out;
  /* Any of them may be the one that is wrong. */
  for (int i = 0; arrays && i < count && arrays[i]; i++)
    if (arrays[i]->inert) return why(arrays[i]);
  return why(arrays && count > 0 ? arrays[0] : NULL);
}
