/* What must be alike in all processes of a job before anything else: each brings it to the start,
 * in lines, and all see the first line in which some process differs from process 0.
 *
 *    devices        2 of each process
 *    on_failure     shrink
 *
 * Names are those of options, so that a message says what to change. What may differ, as threads,
 * instructions and the time that is waited for others to come, is not among them. */
#include "comm/comm.h"

#include <stdio.h>

static void add_number(tsr__text *out, const char *what, double value)
{
  char number[32];
  tsr__text_f64(number, value);
  tsr__text_add(out, "%s\t%s\n", what, number);
}

void tsr__alike_lines(const tsr_runtime *rt, const tsr__role *role, tsr__text *out)
{
  static const char *const on_failure[] = { "shutdown", "error", "shrink" };
  static const char *const checks[] = { "nothing", "\"nan\"", "\"inf\"" };
  const tsr_runtime_opts *opts = &rt->opts;
  tsr__text_add(out, "the library\t%s\n", tsr_version());
  tsr__text_add(out, "devices\t%s\n", role->devices);
  tsr__text_add(out, ".on_failure\t\"%s\"\n", on_failure[role->on_failure]);
  add_number(out, ".stall_timeout", role->stall_seconds);
  add_number(out, ".wait_timeout", role->wait_seconds);
  tsr__text_add(out, ".memory_limit\t%lld\n", (long long)opts->memory_limit);
  tsr__text_add(out, ".plan_cache\t%d\n", opts->plan_cache > 0 ? opts->plan_cache : 256);
  tsr__text_add(out, ".check_floats\t%s\n", checks[rt->check]);
}

/* A line of a record, cut in two. */
typedef struct line {
  char what[40], value[80];
} line;

static bool next_line(const char **text, const char *end, line *out)
{
  const char *at = *text, *stop = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
  const char *tab = stop ? memchr(at, '\t', (size_t)(stop - at)) : NULL;
  memset(out, 0, sizeof *out);
  if (!tab) return false;
  snprintf(out->what, sizeof out->what, "%.*s", (int)(tab - at), at);
  snprintf(out->value, sizeof out->value, "%.*s", (int)(stop - tab - 1), tab + 1);
  tsr__text_tame(out->what);
  tsr__text_tame(out->value);
  *text = stop + 1;
  return true;
}

/* Of two records that are not the same bytes; the versions stand first, so that those of another
 * one need not have the same lines. */
static tsr_status differs(int process, tsr__blob first, tsr__blob other, tsr__error *error)
{
  const char *at[2] = { first.data, other.data };
  line a, b;
  for (bool more = true; more;) {
    more = next_line(&at[0], (const char *)first.data + first.length, &a);
    if (!next_line(&at[1], (const char *)other.data + other.length, &b) || !more) break;
    if (!strcmp(a.what, b.what) && !strcmp(a.value, b.value)) continue;
    return tsr__error_set(error, TSR_EARG,
                          "process %d was started with %s %s, but process 0 with %s %s; start all "
                          "processes with the same options",
                          process, b.what, b.value, a.what, a.value);
  }
  return tsr__error_set(error, TSR_EARG,
                        "process %d was started with other options than process 0; start all "
                        "processes with the same options",
                        process);
}

tsr_status tsr__alike_check(const tsr__text *records, int count, tsr__error *error)
{
  tsr__fields fields = { (const uint8_t *)records->data,
                         (const uint8_t *)records->data + records->length, false };
  tsr__blob first = tsr__take_bytes(&fields);
  for (int p = 1; p < count; p++) {
    tsr__blob other = tsr__take_bytes(&fields);
    bool same = other.length == first.length && !memcmp(other.data, first.data, first.length);
    if (!same) return differs(p, first, other, error);
  }
  return TSR_OK;
}
