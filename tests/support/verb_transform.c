/* The jobs of functions and of what is made of them; see verb_cases.c. */
#include "verb_cases.h"

static tsr_array *weighted(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  tsr_array *sum = tsr_mul(tsr_field(in[0], "w"), tsr_field(in[0], "more.b"));
  return tsr_mean(tsr_square(tsr_named(tsr_add(sum, (tsr_array *)user), "sum")));
}

static tsr_array *half(tsr_scope *s, tsr_array *const *leaves, void *user)
{
  (void)s, (void)user;
  return tsr_div(leaves[0], 2);
}

static tsr_array *model_of(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r), *b = tsr_sum(x, .dims = TSR_DIMS(0));
  return tsr_tree(r->s, { "w", x }, { "more", tsr_tree(r->s, { "b", b }) });
}

static void see_leaves(struct verb_run *r, tsr_array *tree)
{
  tsr_array *leaves[8];
  int count = tsr_tree_leaves(tree, leaves, 8);
  for (int i = 0; i < count; i++) verb_see_array(r, leaves[i]);
}

void verb_trees(struct verb_run *r)
{
  tsr_array *model = model_of(r), *pair = tsr_tuple(r->s, model, verb_matrix(r));
  see_leaves(r, tsr_tree_map(half, NULL, &model, 1));
  verb_see_array(r, tsr_item(pair, 1));
  if (tsr_is_tree(model) && tsr_item_count(model) == 2 && tsr_item_name(model, 1))
    verb_see_array(r, tsr_field(pair, "0.more.b"));
  tsr_array *leaves[3];
  if (tsr_leaf_count(pair) != 3) return;
  if (!tsr_tree_text(pair)) verb_no_memory(r);
  tsr_tree_leaves(pair, leaves, 3);
  see_leaves(r, tsr_tree_like(pair, leaves, 3));
  see_leaves(r, tsr_tree_keep(r->s, pair));
}

void verb_functions(struct verb_run *r)
{
  tsr_array *outer = tsr_abs(verb_matrix(r)), *model = model_of(r);
  tsr_function *f = tsr_function_make(r->s, weighted, .user = outer, .mesh = r->mesh,
                                      .in_specs = { "data" }, .out_specs = { "" });
  if (f) verb_see_array(r, tsr_call(f, model));
  f = tsr_function_make(r->s, weighted, .user = outer);
  for (int i = 0; f && i < 2; i++) verb_see_array(r, tsr_call(f, model));
  if (f && tsr_trace_count(f) != 1 && !r->status) r->status = tsr_scope_status(r->s);
}

void verb_compiled(struct verb_run *r)
{
  tsr_array *outer = tsr_abs(verb_matrix(r)), *model = model_of(r);
  tsr_function *f = tsr_function_make(r->s, weighted, .user = outer);
  if (!f) return;
  tsr_compiled *c = tsr_compile(f, model);
  verb_see_array(r, tsr_compiled_call(c, model));
  if (!*tsr_compiled_text(c) && !r->status) r->status = TSR_ENOMEM;
  if (!tsr_compiled_peak(c, NULL) && !r->status) r->status = tsr_scope_status(r->s);
  if (!tsr_compiled_figures(c).kernels && !r->status) r->status = tsr_scope_status(r->s);
  tsr_array *type = tsr_abstract(r->s, TSR_F64, TSR_SHAPE(8, 2), tsr_on(r->mesh, "data"));
  tsr_array *sum = tsr_sum(type);
  const char *text = "";
  tsr_status status = tsr_explain_into(&sum, 1, &text);
  if (status && !r->status) r->status = status;
  if (!*text && !r->status) r->status = TSR_ENOMEM;
}

static tsr_status seen_by(const tsr_seen *seen, void *user)
{
  *(const void **)user = seen->data;
  return TSR_OK;
}

static void lies(tsr_sharding sharding, tsr_dtype dtype, tsr_shape shape, void *user)
{
  (void)dtype, (void)shape;
  *(const void **)user = sharding.mesh;
}

static void line_of(const char *line, void *user)
{
  *(const void **)user = line;
}

static tsr_array *tapped(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  tsr_array *x = tsr_callback(in[0], seen_by, .user = user, .shards = true);
  x = tsr_print(tsr_inspect_sharding(x, lies, user), "{type} {}", .write = line_of, .user = user);
  return tsr_sum(x);
}

void verb_taps(struct verb_run *r)
{
  const void *last = NULL;
  tsr_log_compiles(r->rt, NULL, NULL);
  tsr_function *f = tsr_function_make(r->s, tapped, .user = &last);
  if (f) verb_see_array(r, tsr_call(f, verb_matrix(r)));
}

void verb_gradients(struct verb_run *r)
{
  tsr_array *model = model_of(r), *outer = tsr_abs(verb_matrix(r));
  tsr_array *one = tsr_full(r->s, 1, TSR_F64, TSR_SCALAR, (tsr_sharding){ 0 });
  tsr_function *f = tsr_function_make(r->s, weighted, .user = outer);
  if (!f) return;
  see_leaves(r, tsr_call(tsr_grad(f), model));
  see_leaves(r, tsr_call(tsr_value_and_grad(f), model));
  see_leaves(r, tsr_call(tsr_vjp(f), model, one));
  see_leaves(r, tsr_call(tsr_jvp(f), model, model));
  see_leaves(r, tsr_call(tsr_hvp(f), model, model));
}

static tsr_array *weighted_rule(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *w = tsr_mul(tsr_field(in[0], "w"), in[2]);
  return tsr_tuple(s, tsr_add(w, (tsr_array *)user), tsr_field(in[0], "more.b"));
}

static tsr_array *weighted_forward(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_sum(tsr_mul(tsr_field(in[2], "w"), (tsr_array *)user));
}

static tsr_array *plain(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_tanh(tsr_mul(in[0], tsr_digamma(tsr_stop_gradient(in[0]))));
}

void verb_rules(struct verb_run *r)
{
  tsr_array *model = model_of(r), *outer = tsr_abs(verb_matrix(r));
  tsr_array *x = tsr_sum(verb_matrix(r), .dims = TSR_DIMS(1));
  tsr_function *f = tsr_function_make(r->s, weighted, .user = outer);
  tsr_function *g = tsr_function_make(r->s, plain);
  if (!f || !g) return;
  tsr_function *own = tsr_custom_vjp(f, .backward = weighted_rule, .user = outer);
  tsr_function *again = tsr_checkpoint(f), *kept = tsr_checkpoint(f, .keep = { "sum" });
  if (!own || !again || !kept) return;
  see_leaves(r, tsr_call(tsr_grad(own), model));
  see_leaves(r, tsr_call(tsr_grad(again), model));
  see_leaves(r, tsr_call(tsr_grad(kept), model));
  tsr_function *forward = tsr_custom_jvp(f, .forward = weighted_forward, .user = outer);
  if (!forward) return;
  see_leaves(r, tsr_call(tsr_jvp(forward), model, model));
  tsr_function *at = tsr_linearize(g, .at = { x }), *all = tsr_jacobian(g);
  if (at) verb_see_array(r, tsr_call(at, x));
  if (all) verb_see_array(r, tsr_call(all, x));
}

static tsr_array *together(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *x = in[0], *sum = tsr_add(tsr_psum(x, "i"), tsr_pmean(x, "i"));
  tsr_array *ends = tsr_add(tsr_pmax(x, "i"), tsr_pmin(x, "i"));
  tsr_array *first = tsr_pbroadcast(x, "i", 1), *moved = tsr_ppermute(x, "i", { 0, 1 }, { 1, 0 });
  tsr_array *place = tsr_mul(tsr_axis_index(s, "i"), (double)tsr_axis_size(s, "i"));
  tsr_array *all = tsr_sum(tsr_pvary(tsr_all_gather(x, "i"), "i"), .dims = TSR_DIMS(0));
  tsr_array *dealt = tsr_sum(tsr_psum_scatter(x, "i", .tiled = true));
  tsr_array *swapped = tsr_all_to_all(x, "i", .tiled = true);
  tsr_array *out = tsr_add(tsr_add(sum, ends), tsr_add(tsr_add(first, moved), place));
  return tsr_add(tsr_add(out, tsr_add(all, swapped)), dealt);
}

void verb_mapping(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r);
  tsr_function *f = tsr_function_make(r->s, together);
  if (!f) return;
  tsr_function *both = tsr_vmap(f, .in_dims = { 1 }, .axis = "i");
  verb_see_array(r, tsr_call(both, tsr_slice(x, TSR_ALL, { 0, 2, 1 })));
}

static tsr_array *joined(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_tuple(s, tsr_psum(in[0], "data"), tsr_mul(in[0], 2));
}

static tsr_array *exchanged(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *x = in[0], *one = tsr_full(s, 1, TSR_I64, TSR_SHAPE(4), (tsr_sharding){ 0 });
  tsr_array *sent =
      tsr_ragged_all_to_all(x, "i", .to = x, .starts = one, .sizes = one, .places = one);
  return tsr_add(tsr_add(tsr_pshuffle(x, "i", 1, 0, 3, 2), sent),
                 tsr_pswapaxes(x, "i", .tiled = true));
}

/* Elements on devices, named dims, and what places send each other. */
void verb_named(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r);
  tsr_function *f = tsr_function_make(r->s, exchanged);
  if (!f) return;
  tsr_array *twice = tsr_tile(x, 2, 1);
  tsr_function *spread = tsr_pmap(f, .in_dims = { 1 }, .axis = "i");
  tsr_function *named = tsr_xmap(f, .in_axes = { "-,i" }, .out_axes = { "i" });
  if (spread) verb_see_array(r, tsr_call(spread, twice));
  if (named) verb_see_array(r, tsr_call(named, twice));
}

void verb_shard_maps(struct verb_run *r)
{
  tsr_array *x = tsr_tile(verb_matrix(r), 4, 1);
  see_leaves(r, tsr_shard_map(r->mesh, joined, NULL, .in = { x }, .in_specs = { "data" },
                              .out_specs = { "", "data" }));
}

static tsr_array *step(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *sum = tsr_add(in[0], tsr_sum(in[1]));
  return tsr_tuple(s, sum, tsr_mul(sum, in[2]));
}

static tsr_array *counted(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(in[1], in[0]);
}

static tsr_array *small(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_lt(tsr_sum(in[0]), 1e6);
}

static tsr_array *doubled(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(in[0], 2);
}

static tsr_array *halved(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_div(in[0], 2);
}

static tsr_array *joined_pairs(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_tuple(s, tsr_add(tsr_item(in[0], 0), tsr_item(in[1], 0)),
                   tsr_mul(tsr_item(in[0], 1), tsr_item(in[1], 1)));
}

static tsr_array *loss_of_steps(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  tsr_array *out = tsr_scan(step, user, in[0], .xs = in[1], .with = in[1]);
  return tsr_add(tsr_item(out, 0), tsr_sum(tsr_item(out, 1)));
}

void verb_loops(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r), *cut = tsr_reshard(x, tsr_on(r->mesh, "data"));
  see_leaves(r, tsr_scan(step, NULL, tsr_sum(x), .xs = cut, .with = tsr_mul(x, 2)));
  verb_see_array(r, tsr_fori(2, 5, counted, NULL, cut));
  verb_see_array(r, tsr_while(small, doubled, NULL, tsr_add(tsr_mul(cut, cut), 1)));
  tsr_array *p = tsr_gt(tsr_sum(x), 0);
  verb_see_array(r, tsr_cond(p, doubled, halved, NULL, cut));
  tsr_array *i = tsr_cast(p, TSR_I64);
  verb_see_array(r, tsr_switch(i, NULL, .bodies = { halved, doubled, halved }, .in = { x }));
  tsr_array *both = tsr_tuple(r->s, cut, x);
  see_leaves(r, tsr_associative_scan(joined_pairs, NULL, both, .reverse = true));
  tsr_function *loss = tsr_function_make(r->s, loss_of_steps);
  see_leaves(r, tsr_call(tsr_value_and_grad(loss), tsr_sum(x), cut));
}

void verb_donated(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r), *twice = tsr_mul(x, 2);
  tsr_status status = tsr_eval(&x, 1);
  if (!status) status = tsr_donate(x);
  if (status && !r->status) r->status = status;
  verb_see_array(r, twice);
}

void verb_training(struct verb_run *r)
{
  tsr_array *model = model_of(r), *rows = tsr_cast(tsr_field(model, "more.b"), TSR_I64);
  tsr_array *first = tsr_initial(r->s, TSR_HE, TSR_INITIAL_TRUNCATED, .key = 2, .dtype = TSR_F32,
                                 .shape = TSR_SHAPE(4, 3), .on = tsr_on(r->mesh, "data"));
  verb_see_array(r, first);
  verb_see_array(r, tsr_cross_entropy(first, tsr_cast(tsr_sum(first, .dims = TSR_DIMS(1)), TSR_I32),
                                      .smoothing = 0.1));
  tsr_array *kept = tsr_sgd_state(model), *moments = tsr_adam_state(model);
  tsr_array *rate = tsr_schedule(tsr_max(rows), TSR_SCHEDULE_COSINE, .rate = 1, .steps = 10);
  tsr_array *slope = tsr_clip_norm(model, 0.5);
  verb_see_array(r, tsr_global_norm(slope));
  tsr_array *known = tsr_metric_add(tsr_metric_start(r->s), rows, .where = tsr_gt(rows, 0));
  verb_see_array(r, tsr_metric_of(tsr_metric_join(known, known), TSR_METRIC_MEAN));
  see_leaves(r, tsr_sgd(model, slope, kept, .rate = TSR_OPERAND(rate), .momentum = 0.9));
  see_leaves(r, tsr_adam(model, slope, moments, .rate = TSR_OPERAND(0.1), .decay = 0.1));
}

static tsr_array *of_columns(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_frame *df = tsr_frame_assign(tsr_frame_from_tree(in[0]), "c", "if(a > 0, a, b) * 2");
  (void)s, (void)user;
  return tsr_frame_to_tree(df);
}

void verb_frame_trees(struct verb_run *r)
{
  tsr_array *b = tsr_put(r->s, (double[]){ 1, -2, 3 }, TSR_F64, TSR_SHAPE(3), r->at);
  tsr_frame *df = tsr_frame_new(r->s, { "a", tsr_neg(b) }, { "b", b });
  tsr_function *f = tsr_function_make(r->s, of_columns);
  df = tsr_frame_call(f, tsr_frame_filter(df, "b > 0"));
  see_leaves(r, tsr_frame_to_tree(tsr_frame_map(df, half, NULL)));
}
