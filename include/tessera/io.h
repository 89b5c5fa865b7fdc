/* Files of arrays, and files that frames are written to; frames read files by tsr_frame_read_csv
 * and tsr_frame_read_json (read.h).
 *
 * What is written appears whole or not at all: it goes to a temporary file beside its path, is
 * forced to the disk, and is then renamed. What it replaces keeps its permissions; a link stays
 * one, and what it names is replaced or made; devices and pipes are written in place. */
#ifndef TESSERA_IO_H
#define TESSERA_IO_H

#include "frame.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a .npy file (all element types but bf16; little-endian, C order) to the devices of a
 * sharding; each device reads its part. Returns an array owned by the scope. Errors: TSR_EIO (also
 * for a file that somebody shortens meanwhile), TSR_EPARSE, TSR_EUNSUPPORTED. Collective, same
 * arguments. */
TSR_API tsr_array *tsr_load_npy_at(tsr_scope *scope, const char *path, tsr_sharding sharding,
                                   const char *site);

/* Evaluates an array and writes it as a .npy file; bf16, which the format lacks, as f32. Of an
 * array on a mesh of several processes process 0 writes the one file, and all return how that went.
 * Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_save_npy_at(tsr_array *array, const char *path,
                                                const char *site);

/* An open .npz archive: named .npy arrays in a zip file, stored or deflated. */
typedef struct tsr_npz tsr_npz;

/* Opens an archive and reads its directory. Returns it, owned by the scope; never NULL, inert on an
 * error. Errors: TSR_EIO, TSR_EPARSE, TSR_EUNSUPPORTED (encrypted or otherwise compressed members).
 * Local. */
TSR_API tsr_npz *tsr_load_npz_at(tsr_scope *scope, const char *path, const char *site);
/* Returns the number of arrays; 0 for an inert archive. Local. */
TSR_API int tsr_npz_count(const tsr_npz *npz);
/* Returns the name of an array without ".npy", owned by the archive, or NULL. Local. */
TSR_API const char *tsr_npz_name(const tsr_npz *npz, int index);
/* Reads one array by name to the devices of a sharding, as tsr_load_npy. Returns an array owned by
 * the archive's scope. Collective, same arguments. */
TSR_API tsr_array *tsr_npz_array_at(tsr_npz *npz, const char *name, tsr_sharding sharding,
                                    const char *site);

/* One array of tsr_save_npz and its name; borrowed for the call. */
typedef struct tsr_npz_item {
  const char *name;
  tsr_array *array;
} tsr_npz_item;
/* Evaluates arrays and writes them as a .npz file (stored, CRC-32 checked), as tsr_save_npy.
 * Errors: TSR_EARG (a name twice or missing), TSR_EIO. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_save_npz_with(tsr_scope *scope, const char *path,
                                                  const tsr_npz_item *items, int count,
                                                  const char *site);

/* ---- frames ---- */

/* Options of tsr_frame_write_csv. Zero means default. */
typedef struct tsr_csv_write_opts {
  size_t size TSR_REST_BY_NAME;
  char separator; /* 0 = ',' */
  bool no_header;
  const char *null; /* how a null is written; NULL = the empty field */
} tsr_csv_write_opts;

/* Evaluates and writes CSV: shortest numbers that read back the same, quotes where they are needed,
 * LF line ends. "-" is standard output; a name that ends in .gz or .zst is compressed. Errors:
 * TSR_EIO, TSR_EARG. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_write_csv_with(tsr_frame *df, const char *path,
                                                         const tsr_csv_write_opts *opts,
                                                         const char *site);
/* Evaluates and writes JSON, an object a row: one array of them where the name ends in .json
 * (before .gz or .zst), else JSON lines. NaN and infinities are null there. Paths as
 * tsr_frame_write_csv. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_write_json_at(tsr_frame *df, const char *path,
                                                        const char *site);
/* Evaluates and writes all rows as a table of Markdown, numbers at the right, nulls as empty cells.
 * Paths as tsr_frame_write_csv. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_frame_write_markdown_at(tsr_frame *df, const char *path,
                                                            const char *site);
/* Evaluates and writes the table that tsr_frame_text_with draws; but all rows, lines of any width,
 * where `rows` and `width` are 0. It is for the eye: long texts are cut in it. Paths as
 * tsr_frame_write_csv. Collective. */
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
