/* Options of the CSV reader: checked once, kept in the form that reading wants.
 *
 *   nulls "NA, -999"   markers; -999 looks like a value, so no value has a short way
 *
 * Invariant: the bytes with a meaning (separator, quote, comment, line ends) differ. */
#include "io/csv/csv_inner.h"

static tsr_status wrong(const tsr__csv *csv, tsr__error *error, const char *text)
{
  return tsr__error_set(error, TSR_EARG, "%s: %s", csv->path, text);
}

static bool is_special(char c)
{
  /* Bytes beyond ASCII may be part of a character: a text could hold them anywhere. */
  return c == '"' || c == '\n' || c == '\r' || (unsigned char)c >= 0x80;
}

static tsr_status check_bytes(const tsr__csv *csv, tsr__error *error)
{
  const tsr__csv_opts *o = &csv->opts;
  if (is_special(o->separator))
    return wrong(csv, error,
                 "the separator cannot be a quote, a line end or beyond ASCII; use ',', ';', '\\t' "
                 "or '|'");
  char separator = o->separator ? o->separator : ',';
  if (o->comment && (is_special(o->comment) || o->comment == separator))
    return wrong(csv, error,
                 "the comment byte cannot be a quote, a line end, beyond ASCII or the separator; "
                 "use '#'");
  if (o->decimal_comma && o->separator == ',') /* not given: csv_head.c */
    return wrong(
        csv, error,
        "with a decimal comma the separator cannot be ',' too; give another separator, mostly ';'");
  if (o->skip_rows < 0) return wrong(csv, error, "skip_rows is negative; 0 skips nothing");
  if ((int)o->bad_rows < 0 || o->bad_rows > TSR__CSV_BAD_NULL)
    return wrong(csv, error, "bad_rows is not one of TSR_BAD_ROWS_ERROR, _SKIP and _NULL");
  return TSR_OK;
}

/* ---- null markers ------------------------------------------------------------------------ */

static tsr_status take_markers(tsr__csv *csv, const char *nulls, tsr__error *error)
{
  tsr__option_list list;
  tsr__read_value value;
  if (tsr__option_list_read(&csv->arena,
                            &(tsr__option_list_ask){ "null markers", nulls ? nulls : "NA", false },
                            &list, error))
    return error->status;
  csv->marker = tsr__arena_new(&csv->arena, (size_t)list.count * sizeof *csv->marker);
  if (!csv->marker) return tsr__csv_no_memory(csv, error);
  for (int i = 0; i < list.count; i++) {
    tsr__text_span field = { list.item[i].text, list.item[i].length };
    /* Those before it are none of its kind: what is null already need not be asked. */
    unsigned class = tsr__csv_classify(csv, field, &value);
    csv->odd_markers |= class != TSR__CLASS_TEXT && class != TSR__CLASS_NULL;
    csv->marker[csv->marker_count++] = field;
  }
  return TSR_OK;
}

/* ---- types --------------------------------------------------------------------------------- */

static tsr_status check_types(const tsr__csv *csv, tsr__error *error)
{
  for (int i = 0; i < csv->types.count; i++)
    if (tsr__type_named(csv->types.item[i].word) < 0)
      return tsr__error_set(error, TSR_EARG,
                            "%s: column \"%.60s\" is given the type \"%.40s\", expected one of "
                            "bool, i8 ... i64, u8 ... u64, f16, bf16, f32, f64, date, time and "
                            "text",
                            csv->path, csv->types.item[i].text, csv->types.item[i].word);
  return TSR_OK;
}

static tsr_status check_names(const tsr__csv *csv, tsr__error *error)
{
  for (int i = 0; i < csv->names.count; i++)
    if (!tsr__utf8_valid(csv->names.item[i].text, csv->names.item[i].length))
      return tsr__error_set(error, TSR_EARG, "%s: name %d of the given names is not UTF-8",
                            csv->path, i + 1);
  return TSR_OK;
}

/* ---- the whole ----------------------------------------------------------------------------- */

tsr_status tsr__csv_take_options(tsr__csv *csv, const tsr__csv_opts *opts, tsr__error *error)
{
  static const tsr__csv_opts plain;
  if (!opts) opts = &plain;
  /* Kept as lists, below: the caller's texts need not outlive the call. */
  csv->opts = *opts;
  csv->opts.names = csv->opts.columns = csv->opts.types = csv->opts.nulls = NULL;
  csv->opts.more = NULL;
  csv->point = opts->decimal_comma ? ',' : '.';
  tsr__decimal_set_point(csv->decimal, csv->point);
  tsr_status status = check_bytes(csv, error);
  if (!status)
    status =
        tsr__option_list_read(&csv->arena, &(tsr__option_list_ask){ "names", opts->names, false },
                              &csv->names, error);
  if (!status) status = check_names(csv, error);
  if (!status)
    status = tsr__option_list_read(&csv->arena,
                                   &(tsr__option_list_ask){ "columns", opts->columns, false },
                                   &csv->chosen, error);
  if (!status)
    status =
        tsr__option_list_read(&csv->arena, &(tsr__option_list_ask){ "types", opts->types, true },
                              &csv->types, error);
  if (!status) status = check_types(csv, error);
  /* Markers last: which class one is of depends on the decimal point. */
  return status ? status : take_markers(csv, opts->nulls, error);
}
