/* Replaying a region: its nodes made again as arrays, all or one by one.
 *
 * Who makes a function of a function opens a replay in its body and makes nodes of the region's, as
 * they are or as others: gradients need what was computed, batching puts dims in front.
 *
 * Invariant: `at` of a node is NULL until it was made, and made once; operands stand before their
 * users, so one walk from the front finds all of them there. */
#include "transform/transform.h"

/* A region's program without calls in it, that lives as long as the replay's scope. */
typedef struct flat {
  tsr__node node;
  tsr__program program;
} flat;

static void release_flat(tsr__node *node)
{
  tsr__program_free(&((flat *)node)->program);
}

/* What functions compute that the region calls is put in their place. */
/*   region    %2 = call(%0, %1)     %3 = %2#0       %4 = exp(%3)
 *   flat      %2 = mul(%0, %1)      (%3 is %2)      %3 = exp(%2)
 *
 * Rules for nodes then need none for calls, and what a called function computes is differentiated
 * and mapped in its place. Calls with a rule of their own (two regions) stay. */
static bool flatten(tsr__replay *replay)
{
  int32_t *place, count = replay->region->result_count;
  int32_t *results = tsr__arena_new(&replay->scope->arena, ((size_t)count + 1) * sizeof *results);
  flat *f = (flat *)tsr__node_new(replay->scope, sizeof *f, replay->site, NULL);
  if (!f || !results) return false;
  tsr__program_init(&f->program, replay->program->heap);
  /* Before anything can fail: the program goes with the scope in any state. */
  f->node.release = release_flat;
  if (!tsr__program_inline(replay->program, true, &replay->scope->arena, &f->program, &place))
    return false;
  for (int i = 0; i < count; i++) results[i] = place[replay->results[i]];
  replay->program = &f->program;
  replay->results = results;
  return true;
}

/* Whether a call of a function is in it. Of calls inside loops nothing is said: these regions stay
 * regions and are opened when their rule replays them. */
static bool has_calls(const tsr__program *program)
{
  for (int n = 0; n < program->node_count; n++) {
    const tsr__gnode *node = &program->nodes[n];
    if (tsr__is_call(node->op) && node->region_count == 1) return true;
  }
  return false;
}

/* An argument that the body does not look at has no node. Of several nodes of one argument each
 * gets the array. */
bool tsr__replay_open(tsr__replay *replay, tsr_scope *scope, const tsr__traced *traced,
                      tsr_array *const *arguments, const char *site)
{
  const tsr__program *program = &traced->region->program;
  *replay = (tsr__replay){ .scope = scope,
                           .region = traced->region,
                           .program = program,
                           .results = traced->region->results,
                           .params = program->params,
                           .site = site };
  if (has_calls(program) && !flatten(replay)) return false;
  program = replay->program;
  replay->at =
      tsr__arena_new(&scope->arena, ((size_t)program->node_count + 1) * sizeof *replay->at);
  /* Arguments first, which are given; all else is made when its turn comes, once. Arguments
   * beyond the leaves are what the body captured. */
  for (int n = 0; replay->at && n < program->node_count; n++) {
    if (program->nodes[n].op != TSR__OP_ARG) continue;
    int i = tsr__index_of(program, &program->nodes[n]);
    replay->at[n] = i < traced->argument_count
                        ? arguments[i]
                        : tsr__captured(scope, traced, i - traced->argument_count, site);
  }
  return replay->at != NULL;
}

tsr__ask tsr__replay_ask(const tsr__replay *replay, int n, tsr__region *regions[TSR__MAX_REGIONS])
{
  const tsr__gnode *node = &replay->program->nodes[n];
  tsr__ask ask = { .dtype = (tsr_dtype)node->dtype,
                   .shape = tsr__gnode_shape(node),
                   .region_count = node->region_count,
                   .regions = regions };
  for (int i = 0; i < node->region_count; i++)
    regions[i] = tsr__region_in(replay->program, node, i);
  if (node->attr_bytes) {
    ask.attr = tsr__attr_of(replay->program, node);
    ask.attr_bytes = node->attr_bytes;
  }
  if (node->param >= 0) {
    ask.numbers = replay->params + node->param;
    ask.number_count = node->param_count;
  }
  return ask;
}

tsr_array *tsr__replay_make(const tsr__replay *replay, int n, tsr__operands in)
{
  const tsr__program *program = replay->program;
  const tsr__gnode *node = &program->nodes[n];
  const char *site = program->sites[n] ? program->sites[n] : replay->site;
  tsr__region *regions[TSR__MAX_REGIONS];
  /* Numbers are no attributes: the number may be another one than when the region was traced. */
  if (node->op == TSR__OP_CONST)
    return tsr__make_const(replay->scope, (tsr_dtype)node->dtype, replay->params[node->param],
                           site);
  tsr__ask ask = tsr__replay_ask(replay, n, regions);
  /* Place 0 is none: what nobody placed is not to be pinned where this run would have it. */
  if (node->sharding) ask.sharding = &program->shardings[node->sharding];
  ask.opens = ask.sharding && ask.sharding->open; /* it was told so when it was traced */
  return tsr__make(replay->scope, (tsr__op)node->op, in, &ask, site);
}

/* Enough for tsr__replay_open and nothing more: no key, nothing captured, nothing to be freed. As
 * many arguments as there may be, so that none is taken for one that was captured: the operands,
 * and of a scan the number of the step. */
tsr__traced tsr__region_trace(const tsr__replay *replay, int n, int r)
{
  const tsr__gnode *node = &replay->program->nodes[n];
  return (tsr__traced){ .region = tsr__region_in(replay->program, node, r),
                        .argument_count = node->in_count + 1 };
}

/* Of a node without numbers its regions have none either, and nobody reads through the pointer. */
const tsr__num *tsr__region_numbers(const tsr__replay *replay, int n, int r)
{
  const tsr__gnode *node = &replay->program->nodes[n];
  /* The order of add_numbers (function.c). */
  int before = node->param < 0 ? 0 : node->param;
  for (int i = 0; i < r; i++)
    before += tsr__region_in(replay->program, node, i)->program.param_count;
  return replay->params + before;
}

/* Who only wants what a region computes. */
static tsr_array *make_as_is(const tsr__replay *replay, int n, tsr__operands in, void *user)
{
  (void)user;
  return tsr__replay_make(replay, n, in);
}

void tsr__replay_through(tsr__replay *replay)
{
  tsr__replay_by(replay, make_as_is, NULL);
}

void tsr__replay_by(tsr__replay *replay, tsr__replay_fn *make, void *user)
{
  const tsr__program *program = replay->program;
  for (int n = 0; n < program->node_count; n++) {
    const tsr__gnode *node = &program->nodes[n];
    tsr_array *few[8], **in = few;
    /* An argument, or what its maker has put there in advance. */
    if (replay->at[n]) continue;
    if (node->in_count > 8)
      in = tsr__arena_new(&replay->scope->arena, (size_t)node->in_count * sizeof *in);
    for (int i = 0; in && i < node->in_count; i++) {
      int o = tsr__in(program, node, i);
      in[i] = o < 0 ? NULL : replay->at[o];
    }
    replay->at[n] = in ? make(replay, n, (tsr__operands){ in, node->in_count }, user)
                       : tsr__make_inert(replay->scope, replay->site);
  }
}
