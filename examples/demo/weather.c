/* A year of weather at New York's airports, read to eight devices: rows a device, a filter, a
 * derived column, aggregates by airport, and what ran.
 *
 *   weather [FILE]     a CSV file with the columns of examples/data/weather.csv */
#include <stdio.h>

#include <tessera.h>

/* The devices' rows as a bar each: what a filter keeps stays where it was. */
static void print_devices(const char *title, tsr_frame *df)
{
  printf("%s\n", title);
  for (const char *line = tsr_frame_devices(df); *line;) {
    int length = 0;
    while (line[length] && line[length] != '\n') length++;
    printf("  %.*s\n", length, line);
    line += length + (line[length] == '\n');
  }
  putchar('\n');
}

static tsr_status report(tsr_runtime *rt, const char *path)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=8");
  tsr_frame *df = tsr_frame_read_csv(s, path, .on = tsr_on(mesh, "data"));
  df = tsr_frame_filter(df, "temp > ? and wind_dir is not null", 85);
  print_devices("hours above 85 F with a wind; rows stay on their device:", df);

  df = tsr_frame_assign(df, "celsius", "(temp - 32) * 5 / 9");
  df = tsr_frame_group_agg(df, "origin", "hours = count(), mean(celsius), max(wind_speed)");
  tsr_status status = tsr_frame_print(df, stdout);
  if (!status) printf("\nwhat was read, moved and run:\n\n");
  if (!status) fputs(tsr_frame_explain(df), stdout);
  tsr_run_stats ran = tsr_last_run(s);
  if (!status)
    printf("\ncounted: %d kernel, %d collectives, %lld bytes between devices\n", ran.kernels,
           ran.collectives, (long long)ran.bytes_counted);
  if (tsr_scope_status(s)) fprintf(stderr, "%s\n", tsr_message(s));
  status = tsr_scope_status(s);
  tsr_scope_close(s);
  return status;
}

int main(int argc, char **argv)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_status status = report(rt, argc > 1 ? argv[1] : EXAMPLES_DATA "/weather.csv");
  tsr_runtime_close(rt);
  return status != TSR_OK;
}
