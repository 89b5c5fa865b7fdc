/* What a CSV file begins with: another format, which is refused by name, or packed bytes.
 *
 * Invariant: a file of text is refused only where its beginning can be read as JSON. */
#include "io/csv/csv_inner.h"
#include "io/file/files.h"

static bool has(tsr__csv_window head, const char *bytes, int length)
{
  return head.end - head.at >= length && memcmp(head.at, bytes, (size_t)length) == 0;
}

static bool is_blank(char c)
{
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const char *skip_blank(const char *at, const char *end)
{
  while (at < end && is_blank(*at)) at++;
  return at;
}

/* {"a": or [{ or [[ or [1, : what a document or a line of JSON begins with. */
static bool looks_like_json(tsr__csv_window head)
{
  const char *at = skip_blank(head.at, head.end), *end = head.end;
  if (at == end || (*at != '{' && *at != '[')) return false;
  char open = *at;
  at = skip_blank(at + 1, end);
  if (at == end) return false;
  /* "[1,2" may be a header of a CSV file; objects or arrays inside are none. */
  if (open == '[') return *at == '{' || *at == '[';
  if (*at != '"') return false;
  const char *quote = memchr(at + 1, '"', (size_t)(end - at - 1));
  if (!quote) return false;
  at = skip_blank(quote + 1, end);
  return at < end && *at == ':';
}

tsr_status tsr__csv_magic(const tsr__csv_file *file, tsr__csv_window head, uint8_t *packing,
                          tsr__error *error)
{
  tsr__packing found = tsr__packing_of(head.at, (size_t)(head.end - head.at));
  if (packing) *packing = (uint8_t)found;
  /* Packed once is fine, and what is inside is asked about later. */
  if (packing && found) return TSR_OK;
  const char *format = packing ? "CSV" : "packed CSV";
  if (found)
    return tsr__error_set(error, TSR_EUNSUPPORTED, "%s: is packed twice; unpack the file once",
                          file->path);
  if (tsr__file_magic(file->path, format, head.at, (size_t)(head.end - head.at), error))
    return error->status;
  if (has(head, "\xef\xbb\xbf", 3)) head.at += 3;
  /* Without a header a first row that looks like JSON is a row. */
  if (!file->csv->opts.no_header && looks_like_json(head))
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s: is JSON, not %s; read JSON lines with tsr_frame_read_json",
                          file->path, format);
  return TSR_OK;
}
