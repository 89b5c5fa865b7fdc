/* Every call that all processes make, wrong on one of them: all fail, the others in its words, and
 * all go on. Which calls there are the headers say: one whose comment ends in "Collective" needs a
 * row here, or a line that says which test has it.
 *
 *   header   "... Collective." tsr_read_at     ->     rows of "tsr_read_at"
 *
 * Arguments are wrong; everything else is as it is on the others. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/among.h"
#include "tessera.h"

typedef struct world {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_sharding on;
  bool me; /* the process in which things go wrong: the last one */
  int round;
  tsr_saved_step *step;
} world;

/* A call, wrong in w->me alone; what it or the next terminal comes to. */
typedef tsr_status way_fn(world *w);

enum { N = 12 };

/* f64[12] over all processes: not evaluated, and another one each time. */
static tsr_array *fresh(world *w)
{
  return tsr_mul(tsr_iota(w->s, TSR_F64, TSR_SHAPE(N), 0, w->on), ++w->round + 1);
}

/* The same, or an inert one. */
static tsr_array *maybe(world *w)
{
  tsr_array *a = fresh(w);
  return w->me ? tsr_reshape(a, TSR_SHAPE(5)) : tsr_reshape(a, TSR_SHAPE(N));
}

/* An array that each process has by itself, or an inert one. */
static tsr_array *maybe_own(world *w)
{
  static const double three[3] = { 1, 2, 3 };
  return tsr_put(w->s, w->me ? NULL : three, TSR_F64, TSR_SHAPE(3), (tsr_sharding){ 0 });
}

static tsr_array *own(world *w)
{
  static const double three[3] = { 1, 2, 3 };
  return tsr_put(w->s, three, TSR_F64, TSR_SHAPE(3), (tsr_sharding){ 0 });
}

static tsr_frame *frame(world *w)
{
  return tsr_frame_new(w->s, { "k", fresh(w) });
}

/* A frame whose filter fits, or an inert one. */
static tsr_frame *maybe_frame(world *w)
{
  return tsr_frame_filter(frame(w), w->me ? "nope > 1" : "k >= 0");
}

/* What comes of an array that a call may have left inert. */
static tsr_status ends(world *w, tsr_array *a)
{
  return tsr_is_inert(a) ? tsr_scope_status(w->s) : tsr_eval(&a, 1);
}

static tsr_status ends_frame(world *w, tsr_frame *df)
{
  int64_t rows;
  return tsr_frame_is_inert(df) ? tsr_scope_status(w->s) : tsr_frame_row_count(df, &rows);
}

/* A text that is a message where the call failed. */
static tsr_status ends_text(world *w, const char *text)
{
  CHECK(text);
  return tsr_scope_status(w->s);
}

#define WAY(name) static tsr_status name(world *w)

/* ---- arrays ---------------------------------------------------------------------------------- */

static double all[N];

WAY(put_nothing)
{
  tsr_array *a = tsr_put(w->s, w->me ? NULL : all, TSR_F64, TSR_SHAPE(N), w->on);
  return tsr_read(tsr_add(a, 1), all, sizeof all);
}
WAY(put_another_shape)
{
  tsr_array *a = tsr_put(w->s, all, TSR_F64, TSR_SHAPE(w->me ? -1 : N), w->on);
  return tsr_read(tsr_add(a, 1), all, sizeof all);
}
WAY(adopt_nothing)
{
  tsr_array *a =
      tsr_adopt(w->s, w->me ? NULL : all, .dtype = TSR_F64, .shape = TSR_SHAPE(N), .on = w->on);
  return tsr_read(tsr_add(a, 1), all, sizeof all);
}
WAY(too_few_shards)
{
  const void *shards[] = { all, all };
  tsr_array *a = tsr_from_shards_at(w->s,
                                    &(tsr_shards_args){ .size = sizeof(tsr_shards_args),
                                                        .shards = shards,
                                                        .count = w->me ? 1 : 2,
                                                        .dtype = TSR_F64,
                                                        .shape = TSR_SHAPE(N),
                                                        .on = w->on },
                                    TSR_HERE);
  return tsr_read(tsr_add(a, 1), all, sizeof all);
}
static tsr_status no_part(const tsr_box *box, void *out, void *user)
{
  memset(out, 0, (size_t)box->size[0] * sizeof(double));
  return *(bool *)user ? TSR_EIO : TSR_OK;
}
WAY(callback_fails)
{
  tsr_array *a = tsr_from_callback(w->s, no_part, &w->me, TSR_F64, TSR_SHAPE(N), w->on);
  return tsr_read(tsr_add(a, 1), all, sizeof all);
}
WAY(eval_inert)
{
  tsr_array *a[] = { fresh(w), maybe(w) };
  return tsr_eval(a, 2);
}
WAY(start_inert)
{
  tsr_array *a[] = { fresh(w), maybe(w) };
  tsr_status status = tsr_start(a, 2),
             waited = tsr_wait(a[1]); /* all wait, who failed already, too */
  return status ? status : waited;
}
WAY(read_inert)
{
  return tsr_read(maybe(w), all, sizeof all);
}
WAY(read_less)
{
  return tsr_read(fresh(w), all, w->me ? 8 : sizeof all);
}
WAY(read_to_nothing)
{
  return tsr_read(fresh(w), w->me ? NULL : all, sizeof all);
}
WAY(scalar_inert)
{
  return tsr_read_scalar(tsr_sum(maybe(w)), all);
}
WAY(scalar_to_nothing)
{
  return tsr_read_scalar(tsr_sum(fresh(w)), w->me ? NULL : all);
}
WAY(scalar_of_many)
{
  return tsr_read_scalar(w->me ? fresh(w) : tsr_sum(fresh(w)), all);
}
WAY(integer_to_nothing)
{
  int64_t out;
  return tsr_read_i64(tsr_sum(tsr_cast(fresh(w), TSR_I64)), w->me ? NULL : &out);
}
WAY(integer_inert)
{
  int64_t out;
  return tsr_read_i64(tsr_sum(tsr_cast(maybe(w), TSR_I64)), &out);
}
WAY(keep_inert)
{
  return ends(w, tsr_keep(w->s, maybe(w)));
}
WAY(wait_inert)
{
  return tsr_wait(maybe(w));
}
WAY(shard_inert)
{
  tsr_shard shard;
  return tsr_shard_view(maybe(w), 2 * test_process(), &shard);
}
WAY(shard_to_nothing)
{
  tsr_shard shard;
  tsr_status status = tsr_shard_view(fresh(w), 2 * test_process(), w->me ? NULL : &shard);
  return w->me ? status : TSR_EARG; /* the value is there: who looks wrong is alone with that */
}
WAY(text_inert)
{
  return ends_text(w, tsr_text_of(maybe(w)));
}
WAY(text_to_nothing)
{
  const char *text;
  return tsr_text_into(fresh(w), w->me ? NULL : &text);
}
WAY(devices_inert)
{
  return ends_text(w, tsr_devices_of(maybe(w)));
}
WAY(devices_to_nothing)
{
  const char *text;
  return tsr_devices_into_at(fresh(w), w->me ? NULL : &text, TSR_HERE);
}
WAY(visualize_inert)
{
  return ends_text(w, tsr_visualize(maybe(w)));
}
WAY(keep_tree_inert)
{
  return ends(w, tsr_tree_keep(w->s, tsr_tree(w->s, { "a", fresh(w) }, { "b", maybe(w) })));
}
WAY(tensor_inert)
{
  tsr_dl_managed *tensor = NULL;
  return tsr_to_dlpack(maybe(w), 2 * test_process(), &tensor);
}

/* ---- data of processes ----------------------------------------------------------------------- */

WAY(process_data_of_nothing)
{
  return ends(w, tsr_from_process_data(w->s, w->me ? NULL : all, .dtype = TSR_F64,
                                       .shape = TSR_SHAPE(4), .on = w->on));
}
WAY(process_data_of_another_dtype)
{
  return ends(w, tsr_from_process_data(w->s, all, .dtype = w->me ? TSR_F32 : TSR_F64,
                                       .shape = TSR_SHAPE(4), .on = w->on));
}
WAY(read_process_inert)
{
  return tsr_read_process(maybe(w), all, sizeof all / (size_t)test_process_count());
}
WAY(read_no_root)
{
  return tsr_read_root(fresh(w), w->me ? 9 : 0, all, sizeof all);
}
WAY(read_root_inert)
{
  return tsr_read_root(maybe(w), 0, all, sizeof all);
}
WAY(global_inert)
{
  return ends(w, tsr_to_global(maybe_own(w), tsr_on(w->on.mesh, "-")));
}
WAY(global_of_what_lies_on_all)
{
  return ends(w, tsr_to_global(w->me ? tsr_reshape(fresh(w), TSR_SHAPE(5)) : own(w),
                               tsr_on(w->on.mesh, "-")));
}
WAY(local_inert)
{
  return ends(w, tsr_to_local(maybe(w)));
}
WAY(gather_inert)
{
  double six[6 * 4];
  tsr_array *a = tsr_process_gather(maybe_own(w));
  return tsr_read(a, six, (size_t)test_process_count() * 24);
}
WAY(gather_what_lies_on_all)
{
  double six[6 * 4];
  tsr_array *a = tsr_process_gather(w->me ? tsr_reshape(fresh(w), TSR_SHAPE(5)) : own(w));
  return tsr_read(a, six, (size_t)test_process_count() * 24);
}
WAY(gather_another_shape)
{
  return ends(w, tsr_process_gather(w->me ? tsr_reshape(own(w), TSR_SHAPE(1, 3)) : own(w)));
}
WAY(broadcast_of_nobody)
{
  return ends(w, tsr_process_broadcast(own(w), .root = w->me ? 9 : 0));
}
WAY(broadcast_inert)
{
  return ends(w, tsr_process_broadcast(maybe_own(w)));
}
WAY(equal_inert)
{
  return tsr_process_equal(maybe_own(w), "it");
}
WAY(meet_at_no_name)
{
  return tsr_process_meet(w->s, w->me ? NULL : "here");
}
/* A name is what processes meet by there, so who has none is missed when the time is over. */
WAY(sync_at_no_name)
{
  return tsr_sync(w->s, w->me ? NULL : "here", .timeout = 1);
}

/* ---- files of arrays ------------------------------------------------------------------------- */

WAY(load_nowhere)
{
  tsr_array *a = tsr_load_npy(w->s, w->me ? "/nowhere.npy" : test_tmp("there.npy"), w->on);
  return tsr_read(a, all, sizeof all);
}
WAY(load_no_name)
{
  tsr_array *a = tsr_load_npy(w->s, w->me ? NULL : test_tmp("there.npy"), w->on);
  return tsr_read(a, all, sizeof all);
}
WAY(save_to_no_name)
{
  return tsr_save_npy(fresh(w), w->me ? NULL : test_tmp("x.npy"));
}
WAY(save_inert)
{
  return tsr_save_npy(maybe(w), test_tmp("x.npy"));
}
WAY(save_many_inert)
{
  return tsr_save_npz(w->s, test_tmp("x.npz"), { "a", fresh(w) }, { "b", maybe(w) });
}
WAY(save_many_to_no_name)
{
  return tsr_save_npz(w->s, w->me ? NULL : test_tmp("x.npz"), { "a", fresh(w) });
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

WAY(save_step_nowhere)
{
  return tsr_checkpoint_save(w->s, w->me ? NULL : test_tmp("c"), fresh(w), .step = w->round);
}
WAY(save_step_below_0)
{
  return tsr_checkpoint_save(w->s, test_tmp("c"), fresh(w), .step = w->me ? -1 : w->round);
}
WAY(save_another_step)
{
  return tsr_checkpoint_save(w->s, test_tmp("c"), fresh(w), .step = w->round + w->me);
}
WAY(save_inert_tree)
{
  return tsr_checkpoint_save(w->s, test_tmp("c"), tsr_tree(w->s, { "a", maybe(w) }),
                             .step = w->round);
}
WAY(save_bad_blob)
{
  return tsr_checkpoint_save(w->s, test_tmp("c"), fresh(w), .step = w->round,
                             .blobs = { { "b", w->me ? NULL : "x", 1 } });
}
WAY(save_bad_name)
{
  return tsr_checkpoint_save(w->s, test_tmp("c"), fresh(w), .step = w->round,
                             .blobs = { { w->me ? "a b" : "b", "x", 1 } });
}
WAY(save_inert_frame)
{
  return tsr_checkpoint_save(w->s, test_tmp("c"), fresh(w), .step = w->round,
                             .frames = { { "f", maybe_frame(w) }, { "g", frame(w) } });
}
WAY(save_fewer_frames)
{
  tsr_frame_item none = { NULL, NULL }, g = { "g", frame(w) };
  return tsr_checkpoint_save(w->s, test_tmp("c"), fresh(w), .step = w->round,
                             .frames = { { "f", frame(w) }, w->me ? none : g });
}
WAY(save_in_the_background)
{
  tsr_status status =
      tsr_checkpoint_save(w->s, test_tmp("c"), fresh(w), .step = w->round, .background = true,
                          .blobs = { { "b", w->me ? NULL : "x", 1 } });
  return status ? status : tsr_checkpoint_wait(w->s);
}
static tsr_status ends_step(world *w, tsr_saved_step *c)
{
  return tsr_checkpoint_step(c) >= 0 ? TSR_OK : tsr_scope_status(w->s);
}
WAY(open_no_name)
{
  return ends_step(w, tsr_checkpoint_open(w->s, w->me ? NULL : test_tmp("there")));
}
WAY(restore_inert)
{
  return ends(w, tsr_checkpoint_restore(w->step, maybe(w)));
}
WAY(restore_what_is_not_there)
{
  return ends(w, tsr_checkpoint_restore(w->step, NULL, .path = w->me ? "nope" : NULL));
}
WAY(restore_another_dtype)
{
  tsr_array *like = tsr_abstract(w->s, w->me ? TSR_F32 : TSR_F64, TSR_SHAPE(N), w->on);
  return ends(w, tsr_checkpoint_restore(w->step, like));
}
WAY(frame_of_no_name)
{
  return ends_frame(w, tsr_checkpoint_frame(w->step, w->me ? NULL : "df", w->on));
}
WAY(frame_that_is_not_there)
{
  return ends_frame(w, tsr_checkpoint_frame(w->step, w->me ? "fd" : "df", w->on));
}

/* ---- frames ---------------------------------------------------------------------------------- */

WAY(row_count_inert)
{
  int64_t rows;
  return tsr_frame_row_count(maybe_frame(w), &rows);
}
WAY(row_inert)
{
  return tsr_row_status(tsr_frame_row(tsr_frame_agg(maybe_frame(w), "n = count()")));
}
WAY(column_inert)
{
  return ends(w, tsr_frame_column(maybe_frame(w), "k"));
}
WAY(devices_of_frame_inert)
{
  return ends_text(w, tsr_frame_devices(maybe_frame(w)));
}
WAY(keep_frame_inert)
{
  return ends_frame(w, tsr_frame_keep(w->s, maybe_frame(w)));
}
WAY(frame_tree_inert)
{
  return ends(w, tsr_frame_to_tree(maybe_frame(w)));
}
static tsr_array *doubled(tsr_scope *s, tsr_array *const *leaves, void *user)
{
  (void)s, (void)user;
  return tsr_mul(leaves[0], 2);
}
WAY(map_of_frame_inert)
{
  return ends_frame(w, tsr_frame_map(maybe_frame(w), doubled, NULL));
}
static tsr_array *same(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return in[0];
}
WAY(call_of_frame_inert)
{
  return ends_frame(w, tsr_frame_call(tsr_function_make(w->s, same), maybe_frame(w)));
}
WAY(frame_text_of_rows_inert)
{
  return ends_text(w, tsr_frame_text_with(maybe_frame(w), NULL));
}
WAY(collect_inert)
{
  tsr_table *table;
  return tsr_frame_collect(maybe_frame(w), &table);
}
WAY(collect_inert_and_more)
{
  tsr_table *table;
  return tsr_frame_collect(tsr_frame_head(tsr_frame_sort(maybe_frame(w), "k"), 3), &table);
}
WAY(collect_to_nothing)
{
  tsr_table *table;
  return tsr_frame_collect(frame(w), w->me ? NULL : &table);
}
WAY(frame_text_inert)
{
  return ends_text(w, tsr_frame_text(maybe_frame(w)));
}
WAY(frame_print_inert)
{
  FILE *none = fopen("/dev/null", "w");
  CHECK(none);
  tsr_status status = tsr_frame_print(maybe_frame(w), none);
  fclose(none);
  return status;
}
WAY(csv_to_no_name)
{
  return tsr_frame_write_csv(frame(w), w->me ? NULL : test_tmp("x.csv"));
}
WAY(csv_inert)
{
  return tsr_frame_write_csv(maybe_frame(w), test_tmp("x.csv"));
}
WAY(json_to_no_name)
{
  return tsr_frame_write_json(frame(w), w->me ? "" : test_tmp("x.json"));
}
WAY(markdown_to_no_name)
{
  return tsr_frame_write_markdown(frame(w), w->me ? NULL : test_tmp("x.md"));
}
WAY(text_file_to_no_name)
{
  return tsr_frame_write_text(frame(w), w->me ? NULL : test_tmp("x.txt"));
}
WAY(csv_of_no_name)
{
  return ends_frame(w, tsr_frame_read_csv(w->s, w->me ? NULL : test_tmp("in.csv")));
}
WAY(csv_of_nowhere)
{
  return ends_frame(w, tsr_frame_read_csv(w->s, w->me ? "/nowhere.csv" : test_tmp("in.csv")));
}
WAY(csv_on_no_axis)
{
  return ends_frame(w, tsr_frame_read_csv(w->s, test_tmp("in.csv"),
                                          .on = tsr_on(w->on.mesh, w->me ? "nope" : "x")));
}
WAY(json_of_no_name)
{
  return ends_frame(w, tsr_frame_read_json(w->s, w->me ? NULL : test_tmp("in.json")));
}
WAY(json_of_nowhere)
{
  return ends_frame(w, tsr_frame_read_json(w->s, w->me ? "/nowhere.json" : test_tmp("in.json")));
}

/* ---- pipelines ------------------------------------------------------------------------------- */

WAY(pipeline_of_no_batches)
{
  tsr_pipeline *p =
      tsr_pipeline_open(tsr_source_range(w->s, 48), .batch_size = w->me ? 0 : 12, .on = w->on);
  tsr_batch *b = tsr_pipeline_next(p);
  tsr_status status = b ? TSR_OK : tsr_scope_status(w->s);
  (void)!tsr_pipeline_close(p);
  return status;
}

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct row {
  const char *call, *what;
  way_fn *way;
  bool late; /* the others miss this process, and say so in their own words */
} row;

static const row rows[] = {
  { "tsr_put_at", "no data", put_nothing, 0 },
  { "tsr_put_at", "no shape", put_another_shape, 0 },
  { "tsr_adopt_at", "no data", adopt_nothing, 0 },
  { "tsr_from_shards_at", "too few", too_few_shards, 0 },
  { "tsr_from_callback_at", "it fails", callback_fails, 0 },
  { "tsr_eval_at", "inert", eval_inert, 0 },
  { "tsr_start_at", "inert", start_inert, 0 },
  { "tsr_read_at", "inert", read_inert, 0 },
  { "tsr_read_at", "too few bytes", read_less, 0 },
  { "tsr_read_at", "no place", read_to_nothing, 0 },
  { "tsr_read_scalar_at", "inert", scalar_inert, 0 },
  { "tsr_read_scalar_at", "no place", scalar_to_nothing, 0 },
  { "tsr_read_scalar_at", "many elements", scalar_of_many, 1 },
  { "tsr_read_i64_at", "no place", integer_to_nothing, 0 },
  { "tsr_read_i64_at", "inert", integer_inert, 0 },
  { "tsr_keep_at", "inert", keep_inert, 0 },
  { "tsr_wait_at", "inert", wait_inert, 0 },
  { "tsr_shard_view_at", "inert", shard_inert, 0 },
  { "tsr_shard_view_at", "no place", shard_to_nothing, 1 },
  { "tsr_text_of", "inert", text_inert, 0 },
  { "tsr_text_into_at", "no place", text_to_nothing, 0 },
  { "tsr_devices_of", "inert", devices_inert, 0 },
  { "tsr_devices_into_at", "no place", devices_to_nothing, 0 },
  { "tsr_visualize_with", "inert", visualize_inert, 0 },
  { "tsr_tree_keep_at", "inert", keep_tree_inert, 0 },
  { "tsr_to_dlpack_at", "inert", tensor_inert, 0 },
  { "tsr_from_process_data_at", "no data", process_data_of_nothing, 0 },
  { "tsr_from_process_data_at", "another dtype", process_data_of_another_dtype, 1 },
  { "tsr_read_process_at", "inert", read_process_inert, 0 },
  { "tsr_read_root_at", "no such root", read_no_root, 0 },
  { "tsr_read_root_at", "inert", read_root_inert, 0 },
  { "tsr_to_global_at", "inert", global_inert, 0 },
  { "tsr_to_global_at", "inert, of all", global_of_what_lies_on_all, 0 },
  { "tsr_to_local_at", "inert", local_inert, 0 },
  { "tsr_process_gather_with", "inert", gather_inert, 0 },
  { "tsr_process_gather_with", "inert, of all", gather_what_lies_on_all, 0 },
  { "tsr_process_gather_with", "another shape", gather_another_shape, 1 },
  { "tsr_process_broadcast_with", "no such root", broadcast_of_nobody, 0 },
  { "tsr_process_broadcast_with", "inert", broadcast_inert, 0 },
  { "tsr_process_equal_at", "inert", equal_inert, 0 },
  { "tsr_process_meet_at", "no name", meet_at_no_name, 0 },
  { "tsr_sync_with", "no name", sync_at_no_name, 1 },
  { "tsr_load_npy_at", "nowhere", load_nowhere, 0 },
  { "tsr_load_npy_at", "no name", load_no_name, 0 },
  { "tsr_save_npy_at", "no name", save_to_no_name, 0 },
  { "tsr_save_npy_at", "inert", save_inert, 0 },
  { "tsr_save_npz_with", "inert", save_many_inert, 0 },
  { "tsr_save_npz_with", "no name", save_many_to_no_name, 0 },
  { "tsr_checkpoint_save_with", "no path", save_step_nowhere, 0 },
  { "tsr_checkpoint_save_with", "step below 0", save_step_below_0, 0 },
  { "tsr_checkpoint_save_with", "another step", save_another_step, 1 },
  { "tsr_checkpoint_save_with", "inert", save_inert_tree, 0 },
  { "tsr_checkpoint_save_with", "bad blob", save_bad_blob, 0 },
  { "tsr_checkpoint_save_with", "bad name", save_bad_name, 0 },
  { "tsr_checkpoint_save_with", "inert frame", save_inert_frame, 0 },
  { "tsr_checkpoint_save_with", "fewer frames", save_fewer_frames, 1 },
  { "tsr_checkpoint_save_with", "in the background", save_in_the_background, 0 },
  { "tsr_checkpoint_open_at", "no path", open_no_name, 0 },
  { "tsr_checkpoint_restore_with", "inert", restore_inert, 0 },
  { "tsr_checkpoint_restore_with", "no such path", restore_what_is_not_there, 0 },
  { "tsr_checkpoint_restore_with", "another dtype", restore_another_dtype, 0 },
  { "tsr_checkpoint_frame_at", "no name", frame_of_no_name, 0 },
  { "tsr_checkpoint_frame_at", "no such name", frame_that_is_not_there, 0 },
  { "tsr_frame_row_count_at", "inert", row_count_inert, 0 },
  { "tsr_frame_row_at", "inert", row_inert, 0 },
  { "tsr_frame_column_with", "inert", column_inert, 0 },
  { "tsr_frame_devices", "inert", devices_of_frame_inert, 0 },
  { "tsr_frame_keep_at", "inert", keep_frame_inert, 0 },
  { "tsr_frame_to_tree_at", "inert", frame_tree_inert, 0 },
  { "tsr_frame_map_at", "inert", map_of_frame_inert, 0 },
  { "tsr_frame_call_at", "inert", call_of_frame_inert, 0 },
  { "tsr_frame_text_with", "inert", frame_text_of_rows_inert, 0 },
  { "tsr_frame_collect_at", "inert", collect_inert, 0 },
  { "tsr_frame_collect_at", "inert, and more", collect_inert_and_more, 0 },
  { "tsr_frame_collect_at", "no place", collect_to_nothing, 0 },
  { "tsr_frame_text", "inert", frame_text_inert, 0 },
  { "tsr_frame_print_at", "inert", frame_print_inert, 0 },
  { "tsr_frame_write_csv_with", "no name", csv_to_no_name, 0 },
  { "tsr_frame_write_csv_with", "inert", csv_inert, 0 },
  { "tsr_frame_write_json_at", "no name", json_to_no_name, 0 },
  { "tsr_frame_write_markdown_at", "no name", markdown_to_no_name, 0 },
  { "tsr_frame_write_text_with", "no name", text_file_to_no_name, 0 },
  { "tsr_frame_read_csv_with", "no name", csv_of_no_name, 0 },
  { "tsr_frame_read_csv_with", "nowhere", csv_of_nowhere, 0 },
  { "tsr_frame_read_csv_with", "no axis", csv_on_no_axis, 0 },
  { "tsr_frame_read_json_with", "no name", json_of_no_name, 0 },
  { "tsr_frame_read_json_with", "nowhere", json_of_nowhere, 0 },
  { "tsr_pipeline_open_with", "no batch", pipeline_of_no_batches, 1 },
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Calls that have no row: by the test that has them wrong, or as they wait for nobody. */
static const char *const elsewhere[][2] = {
  { "tsr_runtime_open_with", "start_together_test" },
  { "tsr_initialize_with", "start_together_test" },
  { "tsr_process_regroup_with", "elastic_test" },
  { "tsr_process_should_stop_at", "meet_test" },
  { "tsr_checkpoint_wait_at", "waits for its own thread alone" },
  { "tsr_function_text_into_at", "refused_test" },
  { "tsr_function_save_at", "refused_test" },
  { "tsr_from_dlpack_with", "process_data_test: as tsr_adopt_at" },
  { "tsr_from_dlpack_versioned_with", "process_data_test: as tsr_adopt_at" },
  { "tsr_to_dlpack_versioned_at", "as tsr_to_dlpack_at" },
  { "tsr_npz_array_at", "as tsr_load_npy_at" },
  { "tsr_frame_from_arrow_with", "among_frames_test" },
  { "tsr_frame_to_arrow_with", "among_frames_test" },
  { "tsr_frame_explain", "what it counts follows from the frame, which is the same on all" },
  { "tsr_frame_explain_into_at", "as tsr_frame_explain" },
  { "tsr_frame_text_into_at", "as tsr_frame_text" },
  { "tsr_frame_devices_into_at", "as tsr_frame_devices" },
  { "tsr_source_arrays_at", "pipeline_processes_test" },
  { "tsr_source_frame_with", "pipeline_processes_test" },
};

/* ---- every way ------------------------------------------------------------------------------- */

static void fill_folder(world *w)
{
  static const char csv[] = "k,v\n1,2\n3,4\n5,6\n", json[] = "{\"k\":1}\n{\"k\":2}\n";
  if (!test_process()) {
    test_write(test_tmp("in.csv"), csv, sizeof csv - 1);
    test_write(test_tmp("in.json"), json, sizeof json - 1);
  }
  CHECK_STATUS(tsr_save_npy(fresh(w), test_tmp("there.npy")), TSR_OK, w->s);
  CHECK_STATUS(tsr_checkpoint_save(w->s, test_tmp("there"), fresh(w), .step = 1,
                                   .frames = { { "df", frame(w) } }),
               TSR_OK, w->s);
  w->step = tsr_checkpoint_open(w->s, test_tmp("there"));
  CHECK_STR(tsr_message(w->s), "");
  CHECK_STATUS(tsr_sync(w->s, "files"), TSR_OK, w->s);
}

/* All have failed, the others in this process's words; then all go on. */
static void check_row(world *w, const row *r)
{
  char sign[32];
  double sum = 0;
  snprintf(sign, sizeof sign, "process %d", test_process_count() - 1);
  tsr_status status = r->way(w);
  if (!status) FAIL("%s, %s: no error", r->call, r->what);
  if (!w->me && !r->late && !strstr(tsr_message(w->s), sign))
    FAIL("%s, %s: '%s' does not name %s", r->call, r->what, tsr_message(w->s), sign);
  tsr_scope_clear(w->s);
  status = tsr_read_scalar(tsr_sum(tsr_iota(w->s, TSR_F64, TSR_SHAPE(N), 0, w->on)), &sum);
  if (status || sum != 66) FAIL("%s, %s: then %s", r->call, r->what, tsr_message(w->s));
}

static void every_way(void)
{
  const char *only = getenv("TEST_ROW");
  world w = { .rt = among_open(2), .me = test_process() == test_process_count() - 1 };
  w.s = tsr_scope_open(w.rt);
  w.on = tsr_on(tsr_mesh_default(w.rt, "x"), "x");
  fill_folder(&w);
  for (int i = 0; i < ROWS; i++)
    if (!only || !strcmp(only, rows[i].call)) check_row(&w, &rows[i]);
  tsr_runtime_close(w.rt);
}

AMONG_2_AND_4(what_one_does_wrong_all_hear, every_way)

/* ---- none is forgotten ----------------------------------------------------------------------- */

static bool is_listed(const char *call)
{
  for (int i = 0; i < ROWS; i++)
    if (!strcmp(rows[i].call, call)) return true;
  for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
    if (!strcmp(elsewhere[i][0], call)) return true;
  return false;
}

/* Whether a comment ends in the word for calls of all processes. */
static bool is_collective(const char *start, const char *end)
{
  char words[80] = "";
  size_t count = 0;
  /* Its last words, without the lines' stars. */
  for (const char *at = end - 60 > start ? end - 60 : start; at < end; at++) {
    bool blank = *at == ' ' || *at == '\n' || (*at == '*' && at[-1] == ' ');
    if (!blank || (count && words[count - 1] != ' ')) words[count++] = blank ? ' ' : *at;
  }
  while (count && words[count - 1] == ' ') words[--count] = '\0';
  words[count] = '\0';
  size_t length = strlen(words);
  const char *const signs[] = { "Collective.", "Collective, same arguments." };
  for (int i = 0; i < 2; i++) {
    size_t sign = strlen(signs[i]);
    if (length >= sign && !strcmp(words + length - sign, signs[i])) return true;
  }
  return false;
}

/* The functions that a comment stands above, up to the next comment or an empty line. */
static int check_calls(const char *path, const char *at)
{
  int found = 0;
  while (!strncmp(at, "\nTSR_API", 8)) {
    const char *end = strchr(at, ';');
    CHECK(end);
    for (const char *name = strstr(at, "tsr_"); name && name < end;
         name = strstr(name + 1, "tsr_")) {
      size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
      if (name[length] != '(') continue;
      char call[80];
      snprintf(call, sizeof call, "%.*s", (int)length, name);
      if (!is_listed(call)) FAIL("%s: %s is collective and has no row here", path, call);
      found++;
      break;
    }
    at = end + 1;
  }
  return found;
}

TEST(no_collective_call_is_forgotten)
{
  glob_t headers;
  int found = 0;
  CHECK_I64(glob(test_file("../include/tessera/*.h"), 0, NULL, &headers), 0);
  for (size_t i = 0; i < headers.gl_pathc; i++) {
    char *text = test_read(headers.gl_pathv[i], NULL);
    for (const char *at = text; (at = strstr(at, "/*"));) {
      const char *end = strstr(at, "*/");
      CHECK(end);
      if (is_collective(at, end)) found += check_calls(headers.gl_pathv[i], end + 2);
      at = end + 2;
    }
    free(text);
  }
  globfree(&headers);
  printf("# %d calls, %d ways\n", found, ROWS);
  CHECK(found > 70);
}
