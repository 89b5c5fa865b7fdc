/* The Arrow C data and stream interfaces: frames to and from pandas, Polars, DuckDB and whatever
 * else speaks them, without a file and, where layouts agree, without a copy.
 *
 * The structs are those of the published ABI (arrow.apache.org/docs/format/CDataInterface.html and
 * CStreamInterface.html); they are guarded as it says, so that any number of headers may define
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
  tsr_sharding
      on; /* where rows lie; zero = one device for a stream of one batch (no copy), else all */
} tsr_arrow_opts;

/* Takes all batches of a stream: it is moved from (its release is NULL afterwards, also on an
 * error). Columns: bool, integers and floats as they are, decimals as i64 where they have no
 * fraction and all of the stream fit, else as the nearest f64, dates, time stamps as microseconds
 * (nanoseconds must be whole ones), text (plain, large, view), dictionaries of all of these, null.
 * Others, times of day among them, are TSR_EUNSUPPORTED by name and format, with what to cast them
 * to. Buffers may lie at any address. Numbers, dates and microseconds of one batch on one device,
 * without nulls and aligned to 64 bytes, are borrowed until the scope closes; other columns are
 * copied when a terminal needs them. Structures that the interface does not allow are TSR_EARG;
 * contents (offsets, indices, UTF-8) are looked at by terminals: TSR_EVALUE. Returns a frame owned
 * by the scope. Collective, same arguments. */
TSR_API tsr_frame *tsr_frame_from_arrow_with(tsr_scope *scope, struct ArrowArrayStream *stream,
                                             const tsr_arrow_opts *opts, const char *site);

/* How columns of text go out. */
typedef enum tsr_arrow_texts {
  TSR_ARROW_AS_HELD,    /* a dictionary where texts repeat, views where they do not */
  TSR_ARROW_DICTIONARY, /* codes (i32) of a dictionary (large utf8), each text in it once */
  TSR_ARROW_VIEWS       /* string_view */
} tsr_arrow_texts;

/* Options of tsr_frame_to_arrow. Zero means default. */
typedef struct tsr_arrow_out_opts {
  size_t size TSR_REST_BY_NAME;
  tsr_arrow_texts texts;
} tsr_arrow_out_opts;

/* Evaluates and gives the frame as a stream, one batch a device's rows, in order. What it gives
 * away is held by reference: it may outlive the scope, but not the runtime, which must be closed
 * after the last of it was released. Texts are not copied: views of 16 bytes a row are made, whose
 * buffers are the column's own, or codes are shown as they lie. How a column is held depends on its
 * texts and on how many threads read it, so who needs the same schema each time says `.texts`;
 * pandas wants TSR_ARROW_DICTIONARY for categories, and consumers from before string_view do, too.
 * A text beyond 2^31 - 1 bytes is TSR_EUNSUPPORTED as a view. Times are UTC, bf16 is f32. `*out` is
 * untouched on failure; the caller releases it. Collective. */
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
