/* A progress bar and a curve of blocks, 80 columns wide: colours and moving lines on a terminal
 * only. */
#ifndef EXAMPLES_CURVE_H
#define EXAMPLES_CURVE_H

#include <stdio.h>
#include <unistd.h>

/* How far `label` is, on stderr where that is a terminal; behind the last step the line goes
 * away. */
static inline void bar_draw(const char *label, int done, int total, double loss)
{
  enum { WIDTH = 36 };
  char bar[WIDTH + 1];
  if (!isatty(STDERR_FILENO)) return;
  for (int i = 0; i < WIDTH; i++) bar[i] = (long)i * total < (long)done * WIDTH ? '#' : '.';
  bar[WIDTH] = 0;
  if (done < total)
    fprintf(stderr, "\r%-14.14s [%s] %5d of %d, %.3f ", label, bar, done, total, loss);
  else fprintf(stderr, "\r%78s\r", "");
  fflush(stderr);
}

/* The mean of the values that fall into one of so many columns. */
static inline double curve_column(const double *values, int count, int column, int columns)
{
  int first = (int)((long)column * count / columns),
      end = (int)((long)(column + 1) * count / columns);
  double sum = 0;
  if (end <= first) end = first + 1;
  for (int i = first; i < end; i++) sum += values[i];
  return sum / (end - first);
}

/* Values from 0 up, as bars of eighths of a line. */
static inline void curve_draw(const double *values, int count)
{
  enum { WIDTH = 70, HEIGHT = 6 };
  static const char *const eighths[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
  int columns = count < WIDTH ? count : WIDTH;
  double most = 0;
  const char *on = isatty(STDOUT_FILENO) ? "\033[36m" : "", *off = *on ? "\033[0m" : "";
  for (int i = 0; i < columns; i++) {
    double value = curve_column(values, count, i, columns);
    if (value > most) most = value;
  }
  for (int line = HEIGHT - 1; line >= 0; line--) {
    if (line == HEIGHT - 1) printf("%7.3f %s", most, on);
    else printf("%7s %s", line ? "" : "0", on);
    for (int i = 0; i < columns; i++) {
      double height = most > 0 ? curve_column(values, count, i, columns) / most * HEIGHT * 8 : 0;
      int part = (int)(height + 0.5) - 8 * line;
      fputs(eighths[part < 0 ? 0 : part > 8 ? 8 : part], stdout);
    }
    printf("%s\n", off);
  }
}

#endif
