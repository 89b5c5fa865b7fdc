/* The explanation: the plan's communication as text:
 *
 *   all-reduce over x=2,y=4: 1960 bytes
 *     because sum at file.c:32 reduces sharded dims of %0 f32[8,8]@(x,y)
 *     cheaper: ...
 *
 * On a mesh with speeds, moves have times. A time is an estimate: the bytes along each axis, evenly
 * shared by the devices of the mesh, at the speed of the axis. */
#include "partition/partition.h"

#include <stdio.h>

static const char *const move_names[] = {
  [TSR__MOVE_SLICE] = "slice",           [TSR__MOVE_PERMUTE] = "permute",
  [TSR__MOVE_ALL_TO_ALL] = "all-to-all", [TSR__MOVE_ALL_GATHER] = "all-gather",
  [TSR__MOVE_BROADCAST] = "broadcast",   [TSR__MOVE_REMATERIALISE] = "rematerialise",
  [TSR__MOVE_ALL_REDUCE] = "all-reduce", [TSR__MOVE_REDUCE_SCATTER] = "reduce-scatter",
  [TSR__MOVE_ROWS] = "rebalance",        [TSR__MOVE_PREFIX] = "prefix",
  [TSR__MOVE_FETCH] = "fetch",           [TSR__MOVE_SORT] = "sort",
  [TSR__MOVE_EXCHANGE] = "exchange",     [TSR__MOVE_LOOK] = "look-up",
};

/* The words of the field; tests and the tool compare with them. */
const char *tsr__move_name(int move)
{
  return move_names[move];
}

/* " over x=2,y=4" */
static void add_axes(const tsr_mesh *mesh, unsigned axes, tsr__text *out)
{
  int many = 0;
  if (!mesh || !axes) return;
  tsr__text_add(out, " over ");
  for (int a = 0; a < mesh->axis_count; a++)
    if (axes >> a & 1)
      tsr__text_add(out, "%s%s=%lld", many++ ? "," : "", mesh->names[a], (long long)mesh->sizes[a]);
}

/* "%3 f64[8]@(x)", with the number that tsr_dump gives; inserted nodes have no number. */
static void add_node_type(const tsr__partitioned *parts, int node, tsr__text *out)
{
  const tsr__program *program = &parts->program;
  const tsr__gnode *g = &program->nodes[node];
  tsr_shape shape = tsr__gnode_shape(g);
  if (parts->number[node] >= 0) tsr__text_add(out, "%%%d ", parts->number[node]);
  tsr__type_add(out, (tsr_dtype)g->dtype, &shape, &program->shardings[g->sharding]);
}

/* Adds a node under a name that users know, with its site. */
static void add_named(const tsr__program *program, int node, const char *name, tsr__text *out)
{
  /* The site has no folders: explanations are compared, and source trees lie in other folders
   * elsewhere. */
  const char *site = program->sites ? tsr__site_file(program->sites[node]) : "";
  tsr__text_add(out, "%s", name);
  if (*site) tsr__text_add(out, " at %s", site);
}

static void add_who(const tsr__program *program, int node, tsr__text *out)
{
  add_named(program, node, tsr__ops[program->nodes[node].op].name, out);
}

/* Adds the reductions that travel with one; of many, the first three. */
static void add_fellows(const tsr__partitioned *parts, int first, tsr__text *out)
{
  enum { NAMED = 3 };
  const tsr__program *program = &parts->program;
  int count = 0, n = tsr__fellow(program, first, first);
  for (int k = n; k >= 0; k = tsr__fellow(program, first, k)) count++;
  for (int named = 1; n >= 0 && named <= NAMED; n = tsr__fellow(program, first, n), named++) {
    tsr__text_add(out, named < count ? ", " : " and ");
    add_who(program, n, out);
    tsr__text_add(out, " those of ");
    add_node_type(parts, tsr__in(program, &program->nodes[n], 0), out);
  }
  if (count > NAMED) tsr__text_add(out, " and %d more", count - NAMED);
}

/* A collective of a backward pass is the transpose of one in the forward pass: an all-reduce that
 * of a broadcast, a reduce-scatter that of an all-gather, and an exchange that of an exchange. */
static void add_transpose(const tsr__partitioned *parts, const tsr__note *note, int who,
                          tsr__text *out)
{
  const char *site = parts->program.sites ? parts->program.sites[who] : NULL;
  /* The site names the node of the forward pass (backward.c), whose note is not here. */
  const char *of = note->move == TSR__MOVE_ALL_REDUCE       ? "a broadcast"
                   : note->move == TSR__MOVE_REDUCE_SCATTER ? "an all-gather"
                   : note->move == TSR__MOVE_EXCHANGE       ? "an exchange"
                                                            : NULL;
  if (of && site && strstr(site, TSR__BACK_FROM)) tsr__text_add(out, ", the transpose of %s", of);
}

static void add_reduced(const tsr__partitioned *parts, const tsr__note *note, tsr__text *out)
{
  const tsr__gnode *node = &parts->program.nodes[note->node];
  tsr__text_add(out, "    because ");
  add_who(&parts->program, note->node, out);
  tsr__text_add(out, " reduces sharded dims of ");
  add_node_type(parts, tsr__in(&parts->program, node, 0), out);
  add_fellows(parts, note->node, out);
  if (note->accums > 1) tsr__text_add(out, "; %d partial results travel together", note->accums);
  add_transpose(parts, note, note->node, out);
  tsr__text_add(out, "\n");
}

static void add_along(const tsr__partitioned *parts, const tsr__note *note, tsr__text *out)
{
  const tsr__gnode *node = &parts->program.nodes[note->node];
  tsr__text_add(out, "    because ");
  add_who(&parts->program, note->node, out);
  tsr__text_add(out, " runs along the sharded dim %d of ", tsr__dim_of(&parts->program, node));
  add_node_type(parts, tsr__in(&parts->program, node, 0), out);
  tsr__text_add(out, "\n");
}

static void add_joined(const tsr__partitioned *parts, const tsr__note *note, tsr__text *out)
{
  const tsr__gnode *node = &parts->program.nodes[note->node];
  tsr__text_add(out, "    because ");
  add_who(&parts->program, note->node, out);
  bool looks = tsr__ops[node->op].looks_up;
  tsr__text_add(out, looks ? " looks up elements of " : " has updates ");
  add_node_type(parts, tsr__in(&parts->program, node, looks ? 0 : 2), out);
  tsr__text_add(out, looks ? ", of which each device gives those that it holds\n"
                           : ", of which each device adds up those that it holds\n");
}

/* Adds the dims that a move makes whole: "dim 0", "dims 0 and 2". */
static void add_whole_dims(const tsr_sharding *from, const tsr_sharding *to, int rank,
                           tsr__text *out)
{
  int dims[TSR_MAX_RANK], count = 0;
  for (int d = 0; d < rank; d++)
    if (tsr__dim_axes(from, d) && !tsr__dim_axes(to, d)) dims[count++] = d;
  tsr__text_add(out, count > 1 ? " dims" : " dim");
  for (int i = 0; i < count; i++)
    tsr__text_add(out, "%s %d", !i ? "" : i == count - 1 ? " and" : ",", dims[i]);
}

/* The product whose parts, or the sum of them, a node moves. */
static int product_of_move(const tsr__program *program, int node)
{
  while (!tsr__ops[program->nodes[node].op].contracts)
    node = tsr__in(program, &program->nodes[node], 0);
  return node;
}

static void add_moved(const tsr__partitioned *parts, const tsr__note *note, tsr__text *out)
{
  static const char *const causes[] = {
    [TSR__CAUSE_NONE] = "",
    [TSR__CAUSE_PLACED] = NULL, /* the node's own reason */
    [TSR__CAUSE_OPERAND] = "needs its operand in this sharding",
    [TSR__CAUSE_UNPLACED] = "combines unplaced data with placed data",
    [TSR__CAUSE_WHOLE] = "needs",
    [TSR__CAUSE_REDUCED] = "",
    [TSR__CAUSE_WINDOWS] = "has windows that read elements of other devices",
    [TSR__CAUSE_LEAVES] = "splits its sums at borders that are the same on any mesh",
    [TSR__CAUSE_PARTS] = "sums products over dims that are sharded",
    [TSR__CAUSE_ALONG] = "",
    [TSR__CAUSE_MESH] = "has operands on two meshes",
    [TSR__CAUSE_ROWS] = "evens out the rows that a filter left",
    [TSR__CAUSE_VIEW] = "reads elements of other devices",
    [TSR__CAUSE_JOINED] = "",
  };
  const tsr__gnode *node = &parts->program.nodes[note->node];
  /* The explanation names the note's own node if it was placed, else the user that needs the
   * move. */
  bool placed = note->cause == TSR__CAUSE_PLACED;
  bool own = placed || note->cause == TSR__CAUSE_ROWS || note->user < 0;
  const tsr__why_words *why = placed ? &tsr__whys[tsr__why_of(&parts->program, node)] : NULL;
  int who = own ? note->node : note->user;
  if (note->cause == TSR__CAUSE_PARTS) who = product_of_move(&parts->program, note->node);
  tsr__text_add(out, "    ");
  add_node_type(parts, tsr__in(&parts->program, node, 0), out);
  tsr__text_add(out, " -> ");
  add_node_type(parts, note->node, out);
  if (note->step) tsr__text_add(out, ", step %d of 2", note->step);
  tsr__text_add(out, ", because ");
  if (why) add_named(&parts->program, who, why->who, out);
  else add_who(&parts->program, who, out);
  tsr__text_add(out, " %s", why ? why->what : causes[note->cause]);
  if (note->cause == TSR__CAUSE_WHOLE) {
    const tsr__gnode *from = &parts->program.nodes[tsr__in(&parts->program, node, 0)];
    const tsr_sharding *places = parts->program.shardings;
    add_whole_dims(&places[from->sharding], &places[node->sharding], node->rank, out);
    tsr__text_add(out, " whole on every device");
  }
  add_transpose(parts, note, who, out);
  if (node->flags & TSR__AGAIN)
    tsr__text_add(out, "; moved again, as the array would hold %lld bytes of each device meanwhile",
                  (long long)tsr__node_device_bytes(&parts->program, note->node));
  tsr__text_add(out, "\n");
  if (note->move == TSR__MOVE_REMATERIALISE)
    tsr__text_add(
        out,
        "    warning: the two shardings have nothing in common, so nearly all elements move\n");
}

/* The bytes of a note and of those that travel with it. */
static void add_note_bytes(const tsr__partitioned *parts, int lead, const int64_t (*counted)[2],
                           tsr__text *out)
{
  const tsr__note *note = &parts->notes[lead];
  int64_t bytes = 0, of_run[2] = { 0 };
  for (int i = lead; i >= 0; i = parts->notes[i].next) {
    bytes += parts->notes[i].bytes;
    for (int k = 0; k < 2 && counted; k++) of_run[k] += counted[i][k];
  }
  /* The rows that a filter leaves, those that a device fetches, and the elements that a sort sends
   * depend on values. */
  bool late =
      note->move == TSR__MOVE_ROWS || note->move == TSR__MOVE_FETCH || note->move == TSR__MOVE_SORT;
  if (late && !counted) tsr__text_add(out, "bytes known after the run");
  else if (late) tsr__text_add(out, "%lld bytes counted", (long long)of_run[0]);
  else tsr__text_add(out, "%lld bytes", (long long)bytes);
  if (!counted || late) return;
  tsr__text_add(out, ", %lld counted", (long long)of_run[0]);
  if (of_run[1])
    tsr__text_add(out, " of which %lld for sums too wide for their fixed form",
                  (long long)of_run[1]);
}

/* ---- times ---- */

/* Adds a quantity in three digits with the unit that gives it one to three of them before the
 * point: "16.5 MB". Each unit is 1,000 of the one before. */
static void add_quantity(double value, const char *const units[5], tsr__text *out)
{
  char digits[32];
  int unit = 0;
  for (; value >= 999.5 && unit < 4; unit++) value /= 1000;
  tsr__text_decimals(digits, sizeof digits, value, 'f', value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
  char *end = digits + strlen(digits);
  while (strchr(digits, '.') && (end[-1] == '0' || end[-1] == '.')) *--end = '\0';
  tsr__text_add(out, "%s %s", digits, units[unit]);
}

static void add_byte_quantity(double bytes, tsr__text *out)
{
  static const char *const units[] = { "bytes", "kB", "MB", "GB", "TB" };
  add_quantity(bytes, units, out);
}

/* Adds a time, from "0.33 ns" to "12 ks". */
static void add_seconds(double seconds, tsr__text *out)
{
  static const char *const units[] = { "ns", "us", "ms", "s", "ks" };
  add_quantity(seconds * 1e9, units, out);
}

/* The bytes of each axis that a device of the mesh receives, on average. */
static double bytes_of_device(const tsr_mesh *mesh, const int64_t *along, int axis)
{
  return (double)along[axis] / (double)mesh->device_count;
}

/* The sum over the axes: a device first receives along one, then along the next. That is how the
 * planner counts. */
static double move_seconds(const tsr_mesh *mesh, const int64_t *along)
{
  double seconds = 0;
  for (int a = 0; a < mesh->axis_count && tsr__mesh_has_speeds(mesh); a++)
    seconds += bytes_of_device(mesh, along, a) / (double)mesh->bytes_per_s[a];
  return seconds;
}

/* Adds "16 MB a device along data at 25 GB/s, 14 MB along model at 900 GB/s". */
static void add_axis_bytes(const tsr_mesh *mesh, const int64_t *along, tsr__text *out)
{
  int many = 0;
  for (int k = 0; k < mesh->axis_count; k++) {
    int a = mesh->slowest[k];
    if (!along[a]) continue;
    if (many) tsr__text_add(out, ", ");
    add_byte_quantity(bytes_of_device(mesh, along, a), out);
    tsr__text_add(out, "%s along %s at ", many++ ? "" : " a device", mesh->names[a]);
    add_byte_quantity((double)mesh->bytes_per_s[a], out);
    tsr__text_add(out, "/s");
  }
}

/* The bytes along each axis of a note and of those that travel with it. */
static void sum_along(const tsr__partitioned *parts, int lead, int64_t along[TSR_MAX_AXES])
{
  memset(along, 0, TSR_MAX_AXES * sizeof *along);
  for (int i = lead; i >= 0; i = parts->notes[i].next)
    for (int a = 0; a < TSR_MAX_AXES; a++) along[a] += parts->notes[i].along[a];
}

/* Adds the line of a move's time. */
static void add_time(const tsr__partitioned *parts, int lead, tsr__text *out)
{
  const tsr_mesh *mesh = parts->notes[lead].mesh;
  int64_t along[TSR_MAX_AXES];
  sum_along(parts, lead, along);
  double seconds = mesh ? move_seconds(mesh, along) : 0;
  if (seconds == 0) return;
  tsr__text_add(out, "    about ");
  add_seconds(seconds, out);
  tsr__text_add(out, ": ");
  add_axis_bytes(mesh, along, out);
  tsr__text_add(out, "\n");
}

/* Adds the time of all moves on each mesh with speeds, and that along each axis. */
static void add_total_time(const tsr__partitioned *parts, tsr__text *out)
{
  for (int i = 0; i < parts->note_count; i++) {
    const tsr_mesh *mesh = parts->notes[i].mesh;
    int64_t along[TSR_MAX_AXES] = { 0 };
    int before = 0, moves = 0, many = 0;
    while (parts->notes[before].mesh != mesh) before++;
    if (before < i || !tsr__mesh_has_speeds(mesh)) continue;
    for (int k = i; k < parts->note_count; k++) {
      const tsr__note *note = &parts->notes[k];
      moves += note->mesh == mesh && note->lead == k && note->bytes;
      for (int a = 0; a < mesh->axis_count && note->mesh == mesh; a++) along[a] += note->along[a];
    }
    if (moves < 2) continue;
    tsr__text_add(out, "moves on %s take about ", mesh->text);
    add_seconds(move_seconds(mesh, along), out);
    for (int k = 0; k < mesh->axis_count; k++) {
      int a = mesh->slowest[k];
      if (!along[a]) continue;
      tsr__text_add(out, many++ ? ", " : ": ");
      add_seconds(bytes_of_device(mesh, along, a) / (double)mesh->bytes_per_s[a], out);
      tsr__text_add(out, " along %s", mesh->names[a]);
    }
    tsr__text_add(out, "\n");
  }
}

static void add_why(const tsr__partitioned *partitioned, const tsr__note *note, tsr__text *out)
{
  if (note->cause == TSR__CAUSE_REDUCED) add_reduced(partitioned, note, out);
  else if (note->cause == TSR__CAUSE_ALONG) add_along(partitioned, note, out);
  else if (note->cause == TSR__CAUSE_JOINED) add_joined(partitioned, note, out);
  else add_moved(partitioned, note, out);
  if (note->cheaper[0])
    tsr__text_add(out, "    cheaper: %s (%lld bytes)\n", note->cheaper,
                  (long long)note->cheaper_bytes);
}

/* Adds the work that each device makes though others make it as well, and the spec that would share
 * it. */
static void add_repeated_work(const tsr__partitioned *parts, const tsr__repeated *r, tsr__text *out)
{
  const tsr__program *program = &parts->program;
  const tsr_mesh *mesh = program->shardings[program->nodes[r->of].sharding].mesh;
  bool loop = r->node != r->of;
  tsr__text_add(out, "repeated work");
  add_axes(mesh, r->axes, out);
  tsr__text_add(out, ": %lld flops, the same on each of these devices\n    because ",
                (long long)r->flops);
  if (loop) add_named(program, r->node, "the loop", out);
  else add_who(program, r->node, out);
  tsr__text_add(out, loop ? " reads one slice of dim 0 per step of " : " makes ");
  add_node_type(parts, r->of, out);
  if (r->count > 1) tsr__text_add(out, " and %d more of its kind", r->count - 1);
  tsr__text_add(out, "\n    shared: %s with spec %s", loop ? "reshard it" : "constrain it",
                r->spec);
  if (r->bytes >= 0) tsr__text_add(out, ", which moves %lld bytes", (long long)r->bytes);
  tsr__text_add(out, "\n");
}

/* Adds "in each of 100 steps of scan at file.c:12:", then the region's explanation, indented. */
static void add_inner(const tsr__partitioned *parts, int at, const tsr__num *params, tsr__text *out)
{
  const tsr__inner *inner = &parts->inner[at];
  const tsr__program *program = &parts->program;
  const tsr__gnode *node = &program->nodes[inner->node];
  const tsr__loop_attr *attr = tsr__attr_of(program, node);
  bool asks = attr->kind == TSR__LOOP_WHILE && inner->region == 0;
  tsr__text own;
  if (attr->kind == TSR__LOOP_SCAN)
    tsr__text_add(out, "in each of %lld steps of ", (long long)tsr__loop_steps(attr, node, params));
  else if (attr->kind == TSR__LOOP_SWITCH)
    tsr__text_add(out, "at most once, in body %d of ", inner->region);
  else tsr__text_add(out, asks ? "before each step of " : "in each step of ");
  add_who(program, inner->node, out);
  tsr__text_add(out, ":\n");
  /*   in each of 100 steps of scan at file.c:12:
   *     all-reduce over x=4: 48 bytes                 bytes of one step, indented by two
   */
  tsr__text_init(&own, program->heap);
  tsr__explain_print(&inner->parts, NULL, tsr__inner_numbers(parts, at, params), &own);
  for (const char *line = tsr__text_get(&own); *line;) {
    size_t length = strcspn(line, "\n");
    tsr__text_add(out, "  ");
    tsr__text_put(out, line, length + (line[length] == '\n'));
    line += length + (line[length] == '\n');
  }
  out->failed |= own.failed;
  tsr__text_free(&own);
}

/* Whether the program or its regions, nested ones too, have a note. */
static bool some_move(const tsr__partitioned *parts)
{
  bool some = parts->note_count > 0;
  for (int i = 0; i < parts->inner_count && !some; i++) some = some_move(&parts->inner[i].parts);
  return some;
}

void tsr__explain_print(const tsr__partitioned *partitioned, const int64_t (*counted)[2],
                        const tsr__num *params, tsr__text *out)
{
  if (!some_move(partitioned)) tsr__text_add(out, "nothing moves between devices\n");
  for (int i = 0; i < partitioned->note_count; i++) {
    const tsr__note *note = &partitioned->notes[i];
    /* Such a note is explained with its leader, under one heading, as both are one collective. */
    if (note->lead != i) continue;
    tsr__text_add(out, "%s", move_names[note->move]);
    add_axes(note->mesh, note->axes, out);
    tsr__text_add(out, ": ");
    add_note_bytes(partitioned, i, counted, out);
    tsr__text_add(out, "\n");
    add_time(partitioned, i, out);
    for (int k = i; k >= 0; k = partitioned->notes[k].next)
      add_why(partitioned, &partitioned->notes[k], out);
  }
  add_total_time(partitioned, out);
  for (int i = 0; i < partitioned->repeated_count; i++)
    add_repeated_work(partitioned, &partitioned->repeated[i], out);
  for (int i = 0; i < partitioned->inner_count; i++) add_inner(partitioned, i, params, out);
}

/* ---- lines of explanations ---- */

/* Widths are of characters as terminals draw them, ends are in bytes:
 *
 *   at     the byte after the characters counted; a character of UTF-8 is never cut
 *   end    the last blank that fits: lines are folded at words, and a word longer than a
 *          line is cut */
size_t tsr__explain_fits(const char *text, size_t length, int width)
{
  size_t end = 0, at = 0;
  if (tsr__text_width(text, length) <= width) return length;
  for (int used = 0; at < length;) {
    size_t size = 1;
    while (at + size < length && ((unsigned char)text[at + size] & 0xc0) == 0x80) size++;
    used += tsr__text_width(text + at, size);
    if (text[at] == ' ' && used <= width + 1) end = at;
    if (used > width) break;
    at += size;
  }
  return end ? end : at ? at : 1;
}

void tsr__explain_fold(tsr__text *out, const tsr__text *lines)
{
  enum { LINE = 80, DEEPER = 4 };
  const char *text = tsr__text_get(lines);
  out->failed |= lines->failed;
  while (*text) {
    size_t length = strcspn(text, "\n"), at = strspn(text, " ");
    int depth = (int)at, deeper = depth + DEEPER;
    do {
      size_t some = tsr__explain_fits(text + at, length - at, LINE - depth);
      tsr__text_pad(out, ' ', depth);
      tsr__text_put(out, text + at, some);
      tsr__text_add(out, "\n");
      at += some;
      at += text[at] == ' ';
      depth = deeper;
    } while (at < length);
    text += length + (text[length] == '\n');
  }
}
