/* Files of arrays, and files written from frames. Frames are read from files by tsr_frame_read_csv
 * and tsr_frame_read_json (read.h).
 *
 * A file is written whole or not at all: the library writes a temporary file in the same folder,
 * forces it to the disk, and renames it. The new file keeps the permissions of the file that it
 * replaces. A link stays a link, and its target is replaced or made. Devices and pipes are written
 * in place. */
#ifndef TESSERA_IO_H
#define TESSERA_IO_H

#include "frame.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the array of a .npy file with the given sharding, owned by the scope; each device reads
 * its shard. All element types but bf16 are read, little-endian, in C order. Errors: TSR_EIO (also
 * for a file that is truncated during the read), TSR_EPARSE, TSR_EUNSUPPORTED. Collective, same
 * arguments. */
TSR_API tsr_array *tsr_load_npy_at(tsr_scope *scope, const char *path, tsr_sharding sharding,
                                   const char *site);

/* Evaluates an array and writes it as a .npy file; bf16 is written as f32, since the format has no
 * bf16. Process 0 writes an array on a mesh of several processes to one file, and all processes
 * return the status of that write. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_save_npy_at(tsr_array *array, const char *path,
                                                const char *site);

/* An open .npz archive: named .npy arrays in a zip file, stored or deflated. */
typedef struct tsr_npz tsr_npz;

/* Opens an archive, reads its directory and returns the archive, owned by the scope; never NULL,
 * inert on an error. Errors: TSR_EIO, TSR_EPARSE, TSR_EUNSUPPORTED (encrypted members, or another
 * compression). Local. */
TSR_API tsr_npz *tsr_load_npz_at(tsr_scope *scope, const char *path, const char *site);
/* Returns the number of arrays in an archive; 0 for an inert archive. Local. */
TSR_API int tsr_npz_count(const tsr_npz *npz);
/* Returns the name of an array without ".npy", owned by the archive; NULL for an index out of
 * range. Local. */
TSR_API const char *tsr_npz_name(const tsr_npz *npz, int index);
/* Returns the array of a name with the given sharding, read as tsr_load_npy reads it, owned by the
 * archive's scope. Collective, same arguments. */
TSR_API tsr_array *tsr_npz_array_at(tsr_npz *npz, const char *name, tsr_sharding sharding,
                                    const char *site);

/* One array of tsr_save_npz with its name; borrowed for the call. */
typedef struct tsr_npz_item {
  const char *name;
  tsr_array *array;
} tsr_npz_item;
/* Evaluates arrays and writes them as a .npz file (stored, with CRC-32), as tsr_save_npy does.
 * Errors: TSR_EARG (a name that is missing or given twice), TSR_EIO. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_save_npz_with(tsr_scope *scope, const char *path,
                                                  const tsr_npz_item *items, int count,
                                                  const char *site);

/* ---- frames ---- */

/* Options of tsr_frame_write_csv. Zero means default. */
typedef struct tsr_csv_write_opts {
  size_t size TSR_REST_BY_NAME;
  char separator; /* 0 = ',' */
  bool no_header;
  const char *null; /* the text of a null; NULL = the empty field */
} tsr_csv_write_opts;

/* Evaluates a frame and writes it as CSV: the shortest numbers that read back equal, quotes where
 * needed, LF line ends. The path "-" is standard output; a name that ends in .gz or .zst is
 * compressed. Errors: TSR_EIO, TSR_EARG. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_write_csv_with(tsr_frame *df, const char *path,
                                                         const tsr_csv_write_opts *opts,
                                                         const char *site);
/* Evaluates a frame and writes it as JSON, one object a row: one array of objects if the name ends
 * in .json (before .gz or .zst), else JSON lines. NaN and infinities are written as null. Paths as
 * in tsr_frame_write_csv. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_write_json_at(tsr_frame *df, const char *path,
                                                        const char *site);
/* Evaluates a frame and writes all rows as a Markdown table, numbers right-aligned, nulls as empty
 * cells. Paths as in tsr_frame_write_csv. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_write_markdown_at(tsr_frame *df, const char *path,
                                                            const char *site);
/* Evaluates a frame and writes the table of tsr_frame_text_with. If `rows` or `width` is 0, all
 * rows or lines of any width are written. The table is for reading by eye: long texts are cut.
 * Paths as in tsr_frame_write_csv. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_write_text_with(tsr_frame *df, const char *path,
                                                          const tsr_show_opts *opts,
                                                          const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#define tsr_save_npy(...) tsr_save_npy_at(__VA_ARGS__, TSR_HERE)
#define tsr_load_npz(scope, path) tsr_load_npz_at((scope), (path), TSR_HERE)
#define tsr_npz_array(npz, name, sharding) tsr_npz_array_at((npz), (name), (sharding), TSR_HERE)
/* tsr_save_npz(s, "a.npz", { "x", x }, { "y", y }) */
#define tsr_save_npz(scope, path, ...)                                                           \
  tsr_save_npz_with((scope), (path), (const tsr_npz_item[]){ __VA_ARGS__ },                      \
                    (int)(sizeof((const tsr_npz_item[]){ __VA_ARGS__ }) / sizeof(tsr_npz_item)), \
                    TSR_HERE)
/* tsr_frame_write_csv(df, "out.csv"), tsr_frame_write_csv(df, "out.tsv", .separator = '\t') */
#define tsr_frame_write_csv(...) \
  TSR_NEEDS_2_("tsr_frame_write_csv(df, path)", TSR_WRITE_CSV_, __VA_ARGS__)
#define TSR_WRITE_CSV_(df, path, ...)                                                         \
  tsr_frame_write_csv_with(                                                                   \
      (df), (path), &(tsr_csv_write_opts){ .size = sizeof(tsr_csv_write_opts), __VA_ARGS__ }, \
      TSR_HERE)
#define tsr_frame_write_json(...) tsr_frame_write_json_at(__VA_ARGS__, TSR_HERE)
#define tsr_frame_write_markdown(...) tsr_frame_write_markdown_at(__VA_ARGS__, TSR_HERE)
/* tsr_frame_write_text(df, "out.txt"), tsr_frame_write_text(df, "out.txt", .width = 80) */
#define tsr_frame_write_text(...) \
  TSR_NEEDS_2_("tsr_frame_write_text(df, path)", TSR_WRITE_TEXT_, __VA_ARGS__)
#define TSR_WRITE_TEXT_(df, path, ...)                                                      \
  tsr_frame_write_text_with((df), (path),                                                   \
                            &(tsr_show_opts){ .size = sizeof(tsr_show_opts), __VA_ARGS__ }, \
                            TSR_HERE)
#define tsr_load_npy(scope, path, sharding) tsr_load_npy_at((scope), (path), (sharding), TSR_HERE)
#endif

#endif
