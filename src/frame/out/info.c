/* What a frame is and where its rows lie, as text.
 *
 *   origin  text            device 0: 1021 of 3265 rows
 *   temp    f64             device 1: 998 of 3264 rows
 *
 * A text that is returned belongs to the scope of the frame's home. Of an inert frame names and
 * counts are those of no column, and texts are the message that says why. */
#include "frame/out/out.h"
#include "graph/whys.h"

bool tsr_frame_is_inert(const tsr_frame *df)
{
  return !tsr__frame_usable(df);
}

int tsr_frame_column_count(const tsr_frame *df)
{
  return tsr__frame_usable(df) ? df->schema.count : 0;
}

const char *tsr_frame_column_name(const tsr_frame *df, int column)
{
  if (column < 0 || column >= tsr_frame_column_count(df)) return NULL;
  return df->schema.field[column].name;
}

tsr_coltype tsr_frame_column_type(const tsr_frame *df, int column)
{
  if (column < 0 || column >= tsr_frame_column_count(df)) return (tsr_coltype)0;
  return (tsr_coltype)df->schema.field[column].type;
}

const char *tsr__frame_why(const tsr_frame *df)
{
  if (!df || !df->node.scope) return "the frame is inert: its own call failed";
  return tsr_message(df->inert ? df->node.scope : tsr__frame_home(df));
}

const char *tsr_frame_schema(tsr_frame *df)
{
  tsr__text text;
  int width = 0;
  if (!tsr__frame_usable(df)) return tsr__frame_why(df);
  tsr__text_init(&text, &df->node.scope->rt->heap);
  for (int i = 0; i < df->schema.count; i++) {
    const char *name = df->schema.field[i].name;
    int found = tsr__text_width(name, strlen(name));
    /* A name longer than 40 would push all types to the right: it stands out alone. */
    if (found > width && found <= 40) width = found;
  }
  for (int i = 0; i < df->schema.count; i++) {
    const char *name = df->schema.field[i].name;
    tsr__text_put(&text, name, strlen(name));
    tsr__text_pad(&text, ' ', width + 2 - tsr__text_width(name, strlen(name)));
    tsr__text_add(&text, "%s\n", tsr_coltype_name((tsr_coltype)df->schema.field[i].type));
  }
  return tsr__frame_say(df, &text);
}

/* ---- devices ----------------------------------------------------------------------------- */

/* Rows of each device: those that a filter leaves, of those that lie there. Made rows may lie
 * ragged; then the values that lie there say how many they are, not the sharding. */
static void device_lines(const tsr__value *mask, const tsr__bound *bound, tsr__text *text)
{
  const tsr__value *whole = bound->ragged ? bound->ragged->source->whole->value : NULL;
  static const tsr_sharding unplaced;
  const tsr_sharding *sharding = bound->sharding ? bound->sharding : &unplaced;
  tsr_shape shape = { 1, { bound->rows } };
  for (int p = 0; p < tsr__positions(sharding); p++) {
    tsr_box box;
    if (whole) tsr__value_box(whole, p, &box);
    else tsr__box(sharding, &shape, p, &box);
    tsr__text_add(text, "device %d: ", tsr__position_device(sharding, p));
    if (mask) tsr__text_add(text, "%lld of ", (long long)tsr__value_true(mask, p));
    tsr__text_add(text, "%lld row%s\n", (long long)box.size[0], box.size[0] == 1 ? "" : "s");
  }
}

/* Without a selection there is nothing to count: borders say how many rows lie where. */
static tsr_status count_devices(tsr__bind *bind, tsr__text *text)
{
  tsr__bound bound;
  bool *none = tsr__bind_room(bind, bind->top->schema.count, sizeof *none);
  if (!none) return bind->error.status;
  tsr_status status = tsr__bind_frame(bind, bind->top, true, none, &bound);
  if (status) return status;
  /* The selection must lie as the rows do, for its bits to be counted device by device. */
  if (bound.mask && bound.sharding) {
    const tsr__ask ask = { TSR__ATTR(tsr__place_attr, .why = TSR__WHY_ROWS),
                           .sharding = bound.sharding };
    bound.mask = tsr__make(bind->scope, TSR__OP_CONSTRAIN, TSR__IN(bound.mask), &ask, bind->site);
  }
  if (bound.mask) status = tsr__bind_run(bind, &bound.mask, 1);
  if (status) return status;
  if (!bound.mask) {
    device_lines(NULL, &bound, text);
    return TSR_OK;
  }
  const tsr__value *mask = bound.mask->value;
  tsr__sight sight;
  status = tsr__host_sees(&mask, bind->what, &sight, &bind->error);
  if (!status) device_lines(mask, &bound, text);
  return tsr__host_saw(&sight, status, &bind->error);
}

/* The terminal is closed in any case; its error counts where there was none before. */
tsr_status tsr_frame_devices_into_at(tsr_frame *df, const char **out, const char *site)
{
  tsr__bind bind;
  tsr__text text;
  tsr_status status = tsr__frame_check_out(df, out, "tsr_frame_devices_into", site);
  if (!status) status = tsr__bind_open(&bind, df, "tsr_frame_devices", site);
  if (status) return status;
  tsr__text_init(&text, &df->node.scope->rt->heap);
  status = tsr__bind_meet(&bind);
  if (!status) status = count_devices(&bind, &text);
  tsr_status closed = tsr__bind_close(&bind);
  if (!status && !closed) return tsr__frame_give(df, &text, out, site);
  tsr__text_free(&text);
  return status ? status : closed;
}

const char *tsr_frame_devices(tsr_frame *df)
{
  const char *out;
  return tsr_frame_devices_into_at(df, &out, NULL) ? tsr__frame_why(df) : out;
}
