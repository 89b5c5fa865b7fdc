/* Jobs on what becomes of records between a source and its batches. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verb_cases.h"

static int64_t two_parts(const tsr_record *record, void *user)
{
  (void)record, (void)user;
  return 2;
}

static tsr_status which_part(const tsr_record *record, int64_t part, void *user)
{
  (void)user;
  memcpy(record->out[0], &part, sizeof part);
  return TSR_OK;
}

static void see(struct verb_run *r, tsr_source *source, const char *field)
{
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 8, .on = r->at, .threads = -1);
  tsr_batch *b = tsr_pipeline_next(p);
  if (b) verb_see_array(r, tsr_keep(r->s, tsr_batch_field(b, field)));
  tsr_batch_release(b);
  tsr_status status = tsr_pipeline_close(p);
  if (status && !r->status) r->status = status;
}

/* Every stage, without threads: what fails is then the same each time. */
void verb_stages(struct verb_run *r)
{
  tsr_source *n = tsr_source_range(r->s, 9);
  tsr_source *parts = tsr_source_flat_map(n, which_part, .count = two_parts,
                                          .fields = { { "part", TSR_I64, { 0 } } });
  tsr_source *pairs =
      tsr_source_batch(parts, .rows = 4, .stride = 3, .remainder = TSR_PAD_AND_MASK);
  tsr_source *longer = tsr_source_pad(pairs, "part", .length = 5, .value = TSR_VALUE(-1));
  see(r, longer, "part");
  see(r, tsr_source_unbatch(pairs), "index");
  see(r, tsr_source_one_hot(n, "index", .classes = 9), "index");
  static const int64_t word[3][2] = { { 1, 2 }, { 3, 0 }, { 4, 0 } }, length[3] = { 2, 1, 1 };
  tsr_source *words = tsr_source_memory(r->s, 3, { "w", TSR_I64, TSR_SHAPE(2), word },
                                        { "w_length", TSR_I64, { 0 }, length });
  see(r, tsr_source_pack(words, "w", .length = 3), "w_positions");
  see(r, tsr_source_pack(words, "w", .length = 3, .way = TSR_PACK_CUT), "w_positions");
  see(r, tsr_source_fit(words, "w", .multiple = 2), "w_length");
  see(r, tsr_source_cast(n, "index", .scale = 0.5), "index");
  see(r, tsr_source_gather(n, (const int64_t[]){ 2, 0, 2 }, 3), "index");
  see(r, tsr_source_sample(.parts = { { n, 2 }, { n, 1 } }), "index");
  see(r, tsr_source_bucket(words, "w", .rows = 2, .bounds = { 1 }), "w");
  tsr_source *two[] = { n, tsr_source_take(n, 3) };
  tsr_source *turns = tsr_source_interleave(two, 2, .block = 2);
  see(r, tsr_source_cache(turns, .records = 5), "index");
  unlink(test_tmp("verb.cache"));
  tsr_source *file = tsr_source_cache(n, .path = test_tmp("verb.cache"));
  see(r, tsr_source_merge(file, tsr_source_select(n, "index=same")), "same");
  tsr_source *both = tsr_source_concat(n, n);
  see(r, tsr_source_shuffle(both, .files = true, .window = 3), "index");
}

/* Images of two kinds, cut, resized and mirrored, where the plugin is that decodes them. */
void verb_images(struct verb_run *r)
{
#ifdef TEST_PLUGINS
  setenv("TSR_PLUGIN_PATH", TEST_PLUGINS, 0);
  tsr_source *all = tsr_source_npz(r->s, test_file("golden/files/images.npz"));
  all = tsr_source_slice(tsr_source_select(all, "image,image_length"), TSR_RANGE(20, 28));
  see(r, tsr_source_images(all, .height = 5, .width = 6, .crop = TSR_CROP_RANDOM, .flip = true),
      "image");
#else
  (void)r;
#endif
}
