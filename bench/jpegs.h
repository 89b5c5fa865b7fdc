/* Images that the bench makes, and libjpeg-turbo alone. */
#ifndef BENCH_JPEGS_H
#define BENCH_JPEGS_H

#include "bench.h"

/* load.jpeg */
int bench_jpeg_line(void);

#endif
