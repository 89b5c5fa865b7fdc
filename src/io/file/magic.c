/* Other formats, recognised by their first bytes and refused by name.
 *
 * Invariant: a file of text is refused only for bytes that no text in UTF-8 begins with. */
#include "io/file/files.h"

/* The beginning of a file. */
typedef struct beginning {
  const char *at, *end;
} beginning;

struct magic {
  const char *bytes;
  uint8_t length;
  bool letters; /* they may begin a header too: only binary data behind them tells */
  const char *name, *advice;
};

#define NOT_YET "this format is not supported yet; convert the file first"
#define AS_UTF8 "convert the file to UTF-8 (iconv -f UTF-16 -t UTF-8)"

static const struct magic magics[] = {
  { "PAR1", 4, true, "Parquet", NOT_YET },
  { "ARROW1", 6, true, "Arrow IPC (Feather)", NOT_YET },
  { "\xff\xff\xff\xff", 4, false, "an Arrow IPC stream", NOT_YET },
  { "FEA1", 4, true, "Feather (version 1)", NOT_YET },
  { "ORC", 3, true, "ORC", NOT_YET },
  { "Obj\x01", 4, false, "Avro", NOT_YET },
  { "\x89HDF\r\n\x1a\n", 8, false, "HDF5", NOT_YET },
  { "\x93NUMPY", 6, false, "NumPy .npy", "read the file with tsr_load_npy" },
  { "SQLite format 3", 15, true, "SQLite", "export a table first" },
  { "\xd0\xcf\x11\xe0", 4, false, "an Excel workbook (.xls)", "export a sheet first" },
  { "PK\x03\x04", 4, false, "an Excel workbook or another zip archive",
    "unpack the file, or export a sheet first" },
  { "\x04\x22\x4d\x18", 4, false, "lz4", "decompress the file first (unlz4)" },
  { "\xfd\x37zXZ", 5, false, "xz", "decompress the file first (unxz)" },
  { "BZh", 3, true, "bzip2", "decompress the file first (bunzip2)" },
  { "7z\xbc\xaf", 4, false, "a 7z archive", "unpack the file first" },
  { "\xff\xfe\0\0", 4, false, "UTF-32 text",
    "convert the file to UTF-8 (iconv -f UTF-32 -t UTF-8)" },
  { "\xff\xfe", 2, false, "UTF-16 text", AS_UTF8 },
  { "\xfe\xff", 2, false, "UTF-16 text", AS_UTF8 },
};

static bool holds_binary(beginning head)
{
  /* Control characters below the tab: no text begins with them. */
  const char *end = head.end - head.at < 512 ? head.end : head.at + 512;
  for (const char *c = head.at; c < end; c++)
    if ((unsigned char)*c < 9) return true;
  return false;
}

static bool has(beginning head, const char *bytes, int length)
{
  return head.end - head.at >= length && memcmp(head.at, bytes, (size_t)length) == 0;
}

/* ASCII in two bytes each, without a mark. */
static bool looks_like_utf16(beginning head)
{
  const char *at = head.at;
  /* Eight bytes of which every other is 0: an ASCII text of four characters. */
  if (head.end - at < 8) return false;
  for (int odd = 0; odd < 2; odd++) {
    bool good = true;
    for (int i = 0; i < 8; i++) good &= (at[i] == 0) == (i % 2 == odd);
    if (good) return true;
  }
  return false;
}

tsr_status tsr__file_magic(const char *path, const char *format, const char *bytes, size_t length,
                           tsr__error *error)
{
  beginning head = { bytes, bytes + length };
  const char *name = NULL, *advice = NULL;
  /* Longer marks stand before those that they begin with: UTF-32's before UTF-16's. */
  for (size_t m = 0; m < sizeof magics / sizeof *magics && !name; m++)
    if (has(head, magics[m].bytes, magics[m].length) && (!magics[m].letters || holds_binary(head)))
      name = magics[m].name, advice = magics[m].advice;
  /* tar has no mark at its beginning; the name of its format stands at byte 257. */
  if (!name && length > 262 && memcmp(bytes + 257, "ustar", 5) == 0)
    name = "a tar archive", advice = "unpack the file first";
  if (!name && looks_like_utf16(head)) name = "UTF-16 text", advice = AS_UTF8;
  if (!name) return TSR_OK;
  return tsr__error_set(error, TSR_EUNSUPPORTED, "%s: is %s, not %s; %s", path, name, format,
                        advice);
}
