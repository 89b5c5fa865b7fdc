/* The jobs of what looks inside; see verb_cases.c. */
#include "verb_cases.h"

#include "base/base.h"

#include <string.h>

void verb_profiled(struct verb_run *r)
{
  tsr_status status = tsr_profile_begin(r->s);
  tsr_region_begin(r->s, "job");
  verb_see_array(r, tsr_sum(tsr_exp(verb_matrix(r)), .dims = TSR_DIMS(0)));
  if (!tsr_scope_status(r->s)) tsr_region_end(r->s);
  if (!status) status = tsr_profile_end(r->s, test_tmp("out/o.json"));
  if (status && !r->status) r->status = status;
}

static tsr_array *waves(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_add(tsr_sin(in[0]), tsr_mul((tsr_array *)user, 0.5));
}

void verb_saved(struct verb_run *r)
{
  const char *text = NULL;
  tsr_array *x = verb_matrix(r), *outer = tsr_abs(x);
  tsr_status status = tsr_eval(&outer, 1);
  tsr_function *f = tsr_function_make(r->s, waves, .user = outer);
  if (!f) return;
  if (!status) status = tsr_function_text_into(f, &text, x);
  if (!status) verb_see_array(r, tsr_call(tsr_function_from_text(r->s, text), x));
  if (!status) status = tsr_function_save(f, test_tmp("out/o.json"), x);
  tsr_function *g = status ? NULL : tsr_function_load(r->s, test_tmp("out/o.json"));
  if (g) verb_see_array(r, tsr_call(g, x));
  if (g && !tsr_scope_status(r->s)) status = tsr_function_about_into(g, &text);
  tsr_array *type = NULL;
  if (g && tsr_function_arguments(g, &type, 1) == 1) tsr_compile(g, type);
  if (status && !r->status) r->status = status;
}

/* What is done with the coordinator of a process that is alone; what went wrong is `r`'s. */
static tsr_status use_store(struct verb_run *r, tsr_runtime *rt, tsr_scope *s)
{
  tsr_value value = { NULL, 0 };
  tsr_store_keys keys = { 0, NULL, NULL };
  int64_t sum = 0;
  tsr_status status = tsr_store_set(s, "a/b", "value", 5);
  if (!status) status = tsr_sync(s, "epoch");
  if (!status) status = tsr_store_add(s, "a/n", 41, &sum);
  if (!status) status = tsr_store_get(s, "a/b", &value);
  if (!status) status = tsr_store_find(s, "a/n", &value);
  if (!status) status = tsr_store_list(s, "a", &keys);
  if (!status) status = tsr_store_delete(s, "a/b");
  if (!status && (tsr_process_index(rt) != 0 || tsr_process_count(rt) != 1)) r->hash ^= 2;
  if (!status && !tsr_process_alive(rt, 0)) r->hash ^= 4;
  if (!status && (keys.count != 2 || sum != 41 || strcmp(value.data, "41") != 0)) r->hash ^= 1;
  return status;
}

/* Asks all, which is this one, to stop, goes on as those that are left, and gives up. */
static tsr_status give_up(tsr_runtime **rt, tsr_scope *s)
{
  bool stop = false;
  tsr_status status = tsr_process_stop(s);
  if (!status) status = tsr_process_should_stop(s, 1, &stop);
  if (status) return status;
  *rt = tsr_process_regroup(*rt, "cpu:1");
  status = tsr_runtime_status(*rt);
  if (status) return status;
  s = tsr_scope_open(*rt);
  status = tsr_scope_status(s);
  return status ? status : tsr_process_fail(s, "it was asked to");
}

/* The runtime that joins is another one, on the same memory. */
void verb_meeting(struct verb_run *r)
{
  tsr_runtime_opts opts = { .size = sizeof opts, .threads = 1, .allocator = &r->rt->heap.fn };
  tsr_runtime *rt = tsr_initialize("cpu:1", .detect = "none", .runtime = &opts, .stall_timeout = 5,
                                   .on_failure = "shrink");
  tsr_status status = tsr_runtime_status(rt);
  if (status) {
    tsr_fail(r->s, status, "%s", tsr_runtime_message(rt));
  } else {
    tsr_scope *s = tsr_scope_open(rt);
    status = use_store(r, rt, s);
    if (status) tsr_fail(r->s, status, "%s", tsr_message(s));
    else status = give_up(&rt, s);
    if (status && !tsr_scope_status(r->s)) tsr_fail(r->s, status, "it could not go on");
  }
  tsr_runtime_close(rt);
  if (status && !r->status) r->status = status;
}

/* Data of a process that is alone: what it gives is the whole, and what all have is what it has. */
void verb_process_data(struct verb_run *r)
{
  float block[24], back[24] = { 0 };
  for (int i = 0; i < 24; i++) block[i] = (float)(i * i);
  tsr_array *a =
      tsr_from_process_data(r->s, block, .dtype = TSR_F32, .shape = TSR_SHAPE(6, 4), .on = r->at);
  tsr_array *x = verb_matrix(r), *sum = tsr_sum(x, .dims = TSR_DIMS(0));
  tsr_status status = tsr_read_process(a, back, sizeof back);
  if (!status && memcmp(back, block, sizeof back) != 0) r->hash ^= 1;
  if (!status) status = tsr_read_root(a, 0, back, sizeof back);
  tsr_process_part part = { .whole = false };
  if (!status) status = tsr_process_part_of(&r->at, TSR_SHAPE(6, 4), 0, &part);
  int devices = tsr_local_device_count(r->rt), last = tsr_local_device(r->rt, devices - 1);
  if (!status && (!part.whole || part.shape.dims[0] != 6)) r->hash ^= 2;
  if (tsr_mesh_process_count(r->mesh) != 1 || tsr_device_process(r->rt, last) != 0) r->hash ^= 4;
  if (tsr_local_shard(&r->at, tsr_local_shard_count(&r->at) - 1) != devices - 1) r->hash ^= 8;
  if (!status) status = tsr_mesh_status(tsr_mesh_local(r->mesh));
  if (status == TSR_ENOMEM && !tsr_scope_status(r->s)) tsr_fail(r->s, status, "no memory");
  verb_see_array(r, tsr_process_gather(tsr_to_local(a), .tiled = true));
  tsr_array *own = tsr_to_local(sum);
  tsr_array *tree = tsr_process_gather(tsr_tuple(r->s, own, own));
  if (!tsr_is_inert(tree)) verb_see_array(r, tsr_item(tree, 1));
  verb_see_array(r, tsr_process_broadcast(own));
  verb_see_array(r, tsr_to_global(own, r->at));
  if (!status) status = tsr_process_equal(tsr_tuple(r->s, a, own), "both");
  if (!status) status = tsr_process_meet(r->s, "here");
  if (status && !r->status) r->status = status;
}

/* Saved over what was saved before, and read back. */
void verb_checkpoints(struct verb_run *r)
{
  tsr_value value = { NULL, 0 };
  const char *path = test_tmp("ckpt");
  tsr_array *x = verb_matrix(r);
  tsr_array *tree = tsr_tree(r->s, { "x", x }, { "small", tsr_gt(x, 2) });
  tsr_frame *df = tsr_frame_read_csv(r->s, test_tmp("t.csv"));
  tsr_status status = tsr_checkpoint_save(r->s, path, tree, .step = 1, .keep = 1, .overwrite = true,
                                          .background = true, .frames = { { "t", df } },
                                          .blobs = { { "state", "12345", 5 } });
  if (!status) status = tsr_checkpoint_wait(r->s);
  tsr_saved_step *c = status ? NULL : tsr_checkpoint_open(r->s, path);
  if (c && !tsr_scope_status(r->s)) status = tsr_checkpoint_blob(c, "state", &value);
  if (c && !status && !tsr_scope_status(r->s)) {
    if (tsr_checkpoint_step(c) != 1 || tsr_checkpoint_count(c) < 9) r->hash ^= 1;
    if (value.length != 5 || strcmp(value.data, "12345") != 0) r->hash ^= 2;
    tsr_array *back = tsr_checkpoint_restore(c, NULL, .mesh = r->mesh);
    verb_see_array(r, tsr_field(back, "x"));
    verb_see_array(r, tsr_field(back, "small"));
    if (!tsr_checkpoint_entry(c, 0).bytes || !*tsr_checkpoint_form(c)) r->hash ^= 4;
    verb_see_array(r, tsr_frame_column(tsr_checkpoint_frame(c, "t", r->at), "k"));
    if (!tsr_scope_status(r->s)) status = tsr_checkpoint_verify(c);
  }
  if (status && !r->status) r->status = status;
}

static tsr_status halve(const tsr_record *record, void *user)
{
  double x[4];
  memcpy(x, record->in[0], sizeof x);
  for (int i = 0; i < 4; i++) x[i] *= *(const double *)user;
  memcpy(record->out[0], x, sizeof x);
  return TSR_OK;
}

static tsr_status make_number(int64_t at, void *const *out, void *user)
{
  (void)user;
  memcpy(out[0], &at, sizeof at);
  return TSR_OK;
}

static bool not_two(const tsr_record *record, void *user)
{
  (void)user;
  return record->id != 2;
}

static tsr_status next_number(void *const *out, bool *ended, void *user)
{
  int64_t *at = user;
  *ended = *at == 3;
  memcpy(out[0], at, sizeof *at);
  ++*at;
  return TSR_OK;
}

/* Ragged memory, and arrays in a file. */
static void see_dense(struct verb_run *r)
{
  static const int64_t values[] = { 3, 1, 4, 1, 5 }, offsets[] = { 0, 2, 2, 5 };
  tsr_source *file =
      tsr_source_safetensors(r->s, test_file("golden/files/tensors_0.safetensors"), "label");
  tsr_source *ragged = tsr_source_ragged(r->s, 3, { "value", TSR_I64, { 0 }, values, offsets });
  tsr_pipeline *p =
      tsr_pipeline_open(tsr_source_zip(file, ragged), .batch_size = 3, .on = r->at, .threads = -1);
  tsr_batch *b = tsr_pipeline_next(p);
  if (b) {
    verb_see_array(r, tsr_keep(r->s, tsr_batch_field(b, "label")));
    verb_see_array(r, tsr_keep(r->s, tsr_batch_field(b, "value")));
  }
  tsr_batch_release(b);
  tsr_status status = tsr_pipeline_close(p);
  if (status && !r->status) r->status = status;
}

/* A stream of three. */
static void see_stream(struct verb_run *r)
{
  int64_t at = 0;
  tsr_source *stream = tsr_source_stream(r->s, .fn = next_number, .user = &at,
                                         .fields = { { "number", TSR_I64, { 0 } } });
  tsr_pipeline *p = tsr_pipeline_open(stream, .batch_size = 3, .on = r->at, .threads = -1);
  tsr_batch *b = tsr_pipeline_next(p);
  if (b) verb_see_array(r, tsr_keep(r->s, tsr_batch_field(b, "number")));
  tsr_batch_release(b);
  tsr_status status = tsr_pipeline_close(p);
  if (status && !r->status) r->status = status;
}

static tsr_status refuse_three(const tsr_record *record, void *user)
{
  (void)user;
  memcpy(record->out[0], &record->id, sizeof record->id);
  return record->id == 3 ? TSR_EVALUE : TSR_OK;
}

/* Records that cannot be read, by each way to go on without them. */
static void read_bad(struct verb_run *r, tsr_source *source)
{
  bool apart = tsr_process_count(r->rt) > 1;
  for (int bad = apart ? TSR_BAD_SUBSTITUTE : TSR_BAD_SKIP; bad <= TSR_BAD_MASK; bad++) {
    tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 8, .on = r->at, .threads = -1,
                                        .ids = true, .bad = (tsr_bad_records)bad);
    tsr_batch *b = tsr_pipeline_next(p);
    if (b) verb_see_array(r, tsr_keep(r->s, tsr_batch_field(b, "seen")));
    if (b && !apart && tsr_pipeline_bad_count(p) != 1) r->hash ^= 32;
    if (b && !*tsr_pipeline_report(p)) verb_no_memory(r);
    tsr_batch_release(b);
    tsr_status status = tsr_pipeline_close(p);
    if (status && !r->status) r->status = status;
  }
}

/* What else records come from: a function, a frame, a file of fixed records. */
void verb_more_sources(struct verb_run *r)
{
  tsr_source *made = tsr_source_callback(r->s, .count = 9, .fn = make_number,
                                         .fields = { { "made", TSR_I64, { 0 } } });
  tsr_array *sums = tsr_sum(verb_matrix(r), .dims = TSR_DIMS(1));
  tsr_source *rows = tsr_source_frame(tsr_frame_new(r->s, { "y", sums }));
  tsr_source *bytes = tsr_source_binary(r->s, test_tmp("odd.npy"), .skipped = 1,
                                        .fields = { { "byte", TSR_U8, { 0 } } });
  made = tsr_source_filter(tsr_source_split(made, .part = 0, .parts = 1), not_two);
  tsr_source *checked =
      tsr_source_map(made, refuse_three, .name = "three", .fields = { { "seen", TSR_I64, { 0 } } });
  tsr_source *examples = tsr_source_tfrecord(r->s, test_file("golden/files/examples_1.tfrecord"),
                                             .fields = { { "label", TSR_I64, { 0 } } });
  tsr_source *lines = tsr_source_lines(r->s, test_tmp("t.csv"), .longest = 8, .cut = true);
  tsr_source *objects =
      tsr_source_json(r->s, test_file("golden/files/python_8.jsonl"), .ragged = "w",
                      .defaults = true,
                      .fields = { { "g", TSR_F64, { 0 } }, { "w", TSR_U8, TSR_SHAPE(30) } });
  tsr_source *archive = tsr_source_tar(r->s, test_file("golden/files/samples_0.tar"));
  tsr_source *images = tsr_source_folder(r->s, test_file("golden"), .endings = "tfrecord");
  tsr_source *all = tsr_source_zip(made, rows, bytes, examples, lines);
  all = tsr_source_zip(all, objects, tsr_source_select(archive, "cls"),
                       tsr_source_select(images, "image_length,label=class"));
  tsr_pipeline *p = tsr_pipeline_open(all, .batch_size = 4, .on = r->at, .threads = -1);
  tsr_batch *b = tsr_pipeline_next(p);
  if (b) {
    verb_see_array(r, tsr_keep(r->s, tsr_batch_field(b, "made")));
    verb_see_array(r, tsr_keep(r->s, tsr_batch_field(b, "y")));
    verb_see_array(r, tsr_keep(r->s, tsr_batch_field(b, "byte")));
    verb_see_array(r, tsr_keep(r->s, tsr_batch_field(b, "label")));
    verb_see_array(r, tsr_keep(r->s, tsr_batch_field(b, "text_length")));
    verb_see_array(r, tsr_keep(r->s, tsr_batch_field(b, "g")));
    verb_see_array(r, tsr_keep(r->s, tsr_batch_field(b, "w_length")));
    verb_see_array(r, tsr_keep(r->s, tsr_batch_field(b, "cls")));
    verb_see_array(r, tsr_keep(r->s, tsr_batch_field(b, "class")));
    if (tsr_source_class_count(images) && !tsr_source_class_name(images, 0)) r->hash ^= 32;
  }
  tsr_batch_release(b);
  tsr_status status = tsr_pipeline_close(p);
  if (status && !r->status) r->status = status;
  see_stream(r);
  see_dense(r);
  read_bad(r, checked);
}

/* Every source and stage, without threads: what fails is then the same each time. */
void verb_pipelines(struct verb_run *r)
{
  double half = 0.5;
  static const int64_t own[6] = { 5, 4, 3, 2, 1, 0 };
  char state[2000];
  size_t size = 0;
  tsr_array *m = verb_matrix(r);
  tsr_source *arrays = tsr_source_arrays(r->s, tsr_tree(r->s, { "data", m }));
  tsr_source *file = tsr_source_npy(r->s, test_tmp("m.npy"));
  tsr_source *archive = tsr_source_npz(r->s, test_tmp("records.npz"));
  tsr_source *numbers = tsr_source_memory(r->s, 6, { "n", TSR_I64, { 0 }, own });
  tsr_source *count = tsr_source_slice(tsr_source_range(r->s, 7), TSR_RANGE(1, TSR_END));
  tsr_source *all =
      tsr_source_zip(tsr_source_select(arrays, "data=x"), numbers, count, file, archive);
  all = tsr_source_concat(tsr_source_repeat(tsr_source_shuffle(all, .seed = 3), 2), all);
  all = tsr_source_mix({ all, 2 }, { all, 1 });
  all = tsr_source_map(all, halve, .user = &half, .fields = { { "x", TSR_F64, TSR_SHAPE(4) } });
  tsr_pipeline *p = tsr_pipeline_open(all, .batch_size = 5, .on = r->at, .threads = -1,
                                      .remainder = TSR_PAD_AND_MASK, .ids = true, .shuffle = true);
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    if (tsr_batch_index(b) || tsr_batch_epoch(b)) continue;
    verb_see_array(r, tsr_keep(r->s, tsr_batch_field(b, "x")));
    if (tsr_item_count(tsr_batch_tree(b)) != tsr_source_field_count(all)) r->hash ^= 2;
    if (tsr_scope_status(tsr_batch_scope(b))) verb_no_memory(r);
    verb_see_array(r, tsr_keep(r->s, tsr_batch_mask(b)));
    if (!tsr_batch_ids(b) || tsr_batch_count(b) != tsr_batch_row_count(b)) r->hash ^= 1;
  }
  if (tsr_pipeline_batch_count(p) && !*tsr_pipeline_text(p)) verb_no_memory(r);
  if (tsr_pipeline_batch_count(p) && !*tsr_pipeline_json(p)) verb_no_memory(r);
  if (!tsr_scope_status(r->s) && !tsr_pipeline_order(p)) r->hash ^= 64;
  if (tsr_placement_of(r->rt, NULL).best != 32) r->hash ^= 16;
  if (tsr_source_count(all) && !*tsr_source_text(all)) verb_no_memory(r);
  if (tsr_source_count(all) && tsr_source_field_of(all, 0).dtype != TSR_I64) r->hash ^= 4;
  if (!tsr_scope_status(r->s) && tsr_pipeline_stopping(p)) r->hash ^= 8;
  tsr_status status = tsr_pipeline_close(p);
  if (!status) status = tsr_pipeline_save(p, state, sizeof state, &size);
  if (status && !r->status) r->status = status;
}
