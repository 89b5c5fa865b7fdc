/* Arrays, their types and their programs as text. */
#include "array/array_room.h"

#include <stdio.h>

/* Text lives where a result would; out of memory it is a static text, and the scope knows. */
static const char *settle_text(tsr_array *a, tsr__text *text)
{
  tsr_scope *scope = tsr__home(a);
  char *copy = scope && !scope->inert && !text->failed
                   ? tsr__arena_text(&scope->arena, tsr__text_get(text), text->length)
                   : NULL;
  tsr__text_free(text);
  if (copy) return copy;
  tsr__fail(scope, a->node.site, TSR_ENOMEM, "no memory for a text");
  return "(no memory for this text)";
}

/* A text that says why there is none; what is no mistake of the caller's, the scope knows too. */
static void add_error(tsr_array *a, tsr__text *text, const tsr__error *error)
{
  tsr__text_add(text, "%s: %s", tsr_status_name(error->status), error->text);
  if (error->status == TSR_ENOMEM) tsr__fail_error(tsr__home(a), a->node.site, error);
}

/* The message of a terminal that failed; what is inert has it with its own scope. */
static const char *why(const tsr_array *a)
{
  return tsr_message(a->inert ? a->node.scope : tsr__home(a));
}

static tsr__text text_for(tsr_array *a)
{
  tsr__text text;
  tsr__text_init(&text, &a->node.scope->rt->heap);
  return text;
}

const char *tsr_type_of(tsr_array *a)
{
  if (!a || a->inert) return "(inert array)";
  tsr__text text = text_for(a);
  tsr__type_add(&text, (tsr_dtype)a->dtype, &a->shape, &a->sharding);
  return settle_text(a, &text);
}

const char *tsr_text_of(tsr_array *a)
{
  if (!a) return "(NULL)";
  if (tsr__array_ready(a, NULL)) return why(a);
  tsr__text text = text_for(a);
  size_t bytes = (size_t)tsr__shape_count(&a->shape) * tsr_dtype_size((tsr_dtype)a->dtype);
  void *data = tsr__new_raw(text.heap, bytes + 1);
  if (data) {
    if (!tsr__value_to_host(a->value, data)) {
      tsr__error error = { 0 };
      tsr__cancelled(&error, "tsr_text_of");
      tsr__fail_error(tsr__home(a), a->node.site, &error);
      tsr__del(text.heap, data, bytes + 1);
      return why(a);
    }
    tsr__print_values(&text, (tsr_dtype)a->dtype, &a->shape, data);
    tsr__del(text.heap, data, bytes + 1);
  } else {
    text.failed = true;
  }
  return settle_text(a, &text);
}

/* One line a device: "device 3: [3:6, 0:8] f32[3,8] 96 bytes". */
const char *tsr_devices_of(tsr_array *a)
{
  if (!a) return "(NULL)";
  if (tsr__array_ready(a, NULL)) return why(a);
  tsr__text text = text_for(a);
  for (int p = 0; p < a->value->part_count; p++) {
    tsr__buffer *buffer = a->value->parts[p];
    if (!buffer) continue;
    tsr_box box;
    tsr__value_box(a->value, p, &box);
    tsr__text_add(&text, "device %d: [", buffer->device);
    int64_t count = 1;
    for (int d = 0; d < a->shape.rank; d++) {
      tsr__text_add(&text, "%s%lld:%lld", d ? ", " : "", (long long)box.start[d],
                    (long long)(box.start[d] + box.size[d]));
      count *= box.size[d];
    }
    tsr__text_add(&text, "] %lld element%s, %zu bytes\n", (long long)count, count == 1 ? "" : "s",
                  tsr__device_bytes((tsr_dtype)a->dtype, count));
  }
  return settle_text(a, &text);
}

/* ---- programs ---- */

const char *tsr_dump(tsr_array *a)
{
  if (!a || a->inert) return a ? why(a) : "(NULL)";
  tsr__text text = text_for(a);
  tsr__error error = { 0 };
  if (tsr__dump(a, &text, &error)) add_error(a, &text, &error);
  return settle_text(a, &text);
}

const char *tsr_explain(tsr_array *const *arrays, int count)
{
  if (!arrays || count < 1 || !arrays[0]) return "(NULL)";
  for (int i = 0; i < count; i++)
    if (!arrays[i] || arrays[i]->inert) return why(arrays[i] ? arrays[i] : arrays[0]);
  tsr_scope *scope = arrays[0]->node.scope;
  tsr__text text = text_for(arrays[0]), folded = text_for(arrays[0]);
  tsr__error error = { 0 };
  if (tsr__explain(scope, arrays, count, &text, &error)) add_error(arrays[0], &folded, &error);
  else tsr__explain_fold(&folded, &text);
  tsr__text_free(&text);
  return settle_text(arrays[0], &folded);
}
