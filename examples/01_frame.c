/* A frame over eight devices: read a CSV file, filter, derive a column, aggregate by airport. */
#include <stdio.h>

#include <tessera.h>

int main(void)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=8");
  tsr_scope *s = tsr_scope_open(rt);

  tsr_frame *df = tsr_frame_read_csv(s, "examples/data/weather.csv", .on = tsr_on(mesh, "data"));
  df = tsr_frame_filter(df, "temp > ? and wind_speed is not null", 80);
  df = tsr_frame_assign(df, "celsius", "(temp - 32) * 5 / 9");
  df = tsr_frame_group_agg(df, "origin", "hours = count(), mean(celsius), max(wind_speed)");

  tsr_status status = tsr_frame_print(df, stdout);
  if (status) fprintf(stderr, "%s\n", tsr_message(s));

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status != TSR_OK;
}
