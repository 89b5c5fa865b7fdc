/* The Arrow C data and stream interfaces: frames to and from pandas, Polars, DuckDB and other
 * libraries that implement them, without a file and, where layouts agree, without a copy.
 *
 * The structs are those of the published ABI (arrow.apache.org/docs/format/CDataInterface.html and
 * CStreamInterface.html), with the guards that it prescribes, so that several headers may define
 * them. */
#ifndef TESSERA_ARROW_H
#define TESSERA_ARROW_H

#include "frame.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
  const char *format;
  const char *name;
  const char *metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema **children;
  struct ArrowSchema *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};
#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
  int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
  const char *(*get_last_error)(struct ArrowArrayStream *);
  void (*release)(struct ArrowArrayStream *);
  void *private_data;
};
#endif

/* Options of tsr_frame_from_arrow. Zero means default. */
typedef struct tsr_arrow_opts {
  size_t size TSR_REST_BY_NAME;
  /* the rows' sharding; zero = one device for a stream of one batch (no copy), else all */
  tsr_sharding on;
} tsr_arrow_opts;

/* Returns a frame of all batches of a stream. The stream is moved from: its release is NULL
 * afterwards, also after an error. Column types: bool, integers and floats as they are; decimals as
 * i64 where no value of the stream has a fraction and all fit, else as the nearest f64; dates; time
 * stamps as microseconds (nanoseconds must be whole microseconds); text (plain, large, view);
 * dictionaries of all of these; null. Other types, times of day among them, are TSR_EUNSUPPORTED:
 * the message has the column's name and format and the type to cast it to. Buffers may have any
 * alignment. Numbers, dates and microseconds are borrowed until the scope closes where the stream
 * has one batch for one device, without nulls and aligned to 64 bytes; other columns are copied
 * when a terminal needs them. Structs that the interface forbids are TSR_EARG. Terminals check the
 * contents (offsets, indices, UTF-8): TSR_EVALUE. Owned by the scope. Collective, same
 * arguments. */
TSR_API tsr_frame *tsr_frame_from_arrow_with(tsr_scope *scope, struct ArrowArrayStream *stream,
                                             const tsr_arrow_opts *opts, const char *site);

/* The layout of text columns in the stream. */
typedef enum tsr_arrow_texts {
  TSR_ARROW_AS_HELD,    /* as the frame holds them: a dictionary where texts repeat, else views */
  TSR_ARROW_DICTIONARY, /* codes (i32) of a dictionary (large utf8) of distinct texts */
  TSR_ARROW_VIEWS       /* string_view */
} tsr_arrow_texts;

/* Options of tsr_frame_to_arrow. Zero means default. */
typedef struct tsr_arrow_out_opts {
  size_t size TSR_REST_BY_NAME;
  tsr_arrow_texts texts;
} tsr_arrow_out_opts;

/* Evaluates a frame and writes it to `*out` as a stream, one batch per device, in row order. The
 * stream holds its data by reference: it may outlive the scope and the runtime. Texts are not
 * copied: a view of 16 bytes a row points into the column's own buffers, or the column's codes are
 * shared. TSR_ARROW_AS_HELD depends on the texts and on how many threads read them; set `.texts` to
 * get the same schema each time. pandas wants TSR_ARROW_DICTIONARY for categories, and so do
 * consumers older than string_view. A text beyond 2^31 - 1 bytes is TSR_EUNSUPPORTED as a view.
 * Times are UTC, bf16 becomes f32. `*out` is untouched on failure; the caller releases it.
 * Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_to_arrow_with(tsr_frame *df, struct ArrowArrayStream *out,
                                                        const tsr_arrow_out_opts *opts,
                                                        const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* tsr_frame_to_arrow(df, &stream), tsr_frame_to_arrow(df, &stream, .texts = TSR_ARROW_VIEWS) */
#define tsr_frame_to_arrow(...) \
  TSR_NEEDS_2_("tsr_frame_to_arrow(df, out)", TSR_TO_ARROW_, __VA_ARGS__)
#define TSR_TO_ARROW_(df, out, ...)                                                          \
  tsr_frame_to_arrow_with(                                                                   \
      (df), (out), &(tsr_arrow_out_opts){ .size = sizeof(tsr_arrow_out_opts), __VA_ARGS__ }, \
      TSR_HERE)
/* tsr_frame_from_arrow(s, &stream), tsr_frame_from_arrow(s, &stream, .on = tsr_on(mesh, "data")) */
#define tsr_frame_from_arrow(...) \
  TSR_NEEDS_2_("tsr_frame_from_arrow(scope, stream)", TSR_FROM_ARROW_, __VA_ARGS__)
#define TSR_FROM_ARROW_(scope, stream, ...)                                                   \
  tsr_frame_from_arrow_with((scope), (stream),                                                \
                            &(tsr_arrow_opts){ .size = sizeof(tsr_arrow_opts), __VA_ARGS__ }, \
                            TSR_HERE)
#endif

#endif
