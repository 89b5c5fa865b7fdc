/* The bench driver: lines, rounds, medians, peers as co-processes. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include <tessera.h>

enum { BENCH_ROUNDS = 16 };

/* Seconds by the clock; with BENCH_CLOCK=cpu processor time of this process and ended children. */
double bench_now(void);
double bench_cpu(void); /* seconds that all threads of this process have worked */

/* A turn of one step that is so short is made twice, and the second counted, as peers/serve.py does
 * with theirs: the first wakes threads and fills caches. */
bool bench_short(double seconds);

/* f32 from -scale to scale by a formula that peers/serve.py has, too. */
tsr_array *bench_reals(tsr_scope *s, uint32_t salt, double scale, tsr_shape shape, tsr_sharding on);

/* A peer script that answers one line "seconds result..." to every line "run" it is sent. */
typedef struct bench_peer bench_peer;

/* Starts bench/peers/<script> with arguments; NULL when there is no Python or the script says that
 * its library is missing. */
bench_peer *bench_peer_open(const char *script, const char *arguments);
/* One of a family that has an environment of its own: the Python that $BENCH_PYTHON_<family> names,
 * else $BENCH_PYTHON. */
bench_peer *bench_peer_open_in(const char *family, const char *script, const char *arguments);
/* One round: seconds, and the rest of the answer in `result`. Negative: it failed. It begins when
 * this process sleeps, and returns when the peer does. */
double bench_peer_run(bench_peer *peer, char *result, int size);
/* As bench_peer_run for scripts that take more words than "run". */
double bench_peer_ask(bench_peer *peer, const char *ask, char *result, int size);
void bench_peer_close(bench_peer *peer);

double bench_median(double *times, int count);

/* Prints one line; negative figures print as n/a. `scale` multiplies seconds for display. */
void bench_line(const char *name, double ours, const char *peer_name, double peer, double limit,
                const char *unit);

/* What a line takes on eight virtual devices and on one: seconds, and CPU seconds. */
typedef struct bench_pair {
  double eight, one, eight_cpu, one_cpu;
} bench_pair;
void bench_eight(const char *name, const bench_pair *took); /* prints the line NAME.8dev */

/* Hand-written loops over raw buffers with `threads` threads (limits.c). Each returns seconds. */
typedef struct bench_span {
  const void *data;
  int64_t bytes;
} bench_span;
/* Ends the program where it read faster than this machine can: such memory was never written. */
double bench_read_spans(const bench_span *spans, int count, int threads);
/* Memory that was written, for limits to read: memory that was not is one page of zeros. NULL: no
 * memory; freed by the caller. */
void *bench_written(int64_t bytes);
/* Copies so many bytes into memory that was written before. */
double bench_copy(int64_t bytes, int threads);
double bench_plain_sum_f64(const double *data, int64_t count, int threads, double *out);
double bench_plain_sum_f32(const float *data, int64_t count, int threads, double *out);

/* Where generated files go (made on demand). */
const char *bench_data_dir(void);

/* The lines. */
int bench_main_job(bool finite);
int bench_call(const char *name);        /* "call.3", "call.fn", and with .8dev */
int bench_plans(int nodes, bool placed); /* plan.N.traced, .planned, .cached */
int bench_processes(const char *name);   /* process_lines.c; "processes": all of them */
int bench_start(const char *self);
int bench_size(const char *library);
int bench_sum(tsr_dtype dtype);
int bench_view(bool across);
int bench_reshards(const char *only);    /* NULL: all */
int bench_collectives(const char *only); /* NULL: all */
int bench_many(const char *only);        /* lines that begin so: "many" all, "many.sort", ... */
int bench_layers(const char *only);      /* fsdp.peak, fsdp.bytes, of 4, 16 and 64 layers */
int bench_vmap(void);
/* "comm", or one of comm.allreduce, .all_gather, .reduce_scatter and .all_to_all. */
int bench_comm(const char *only, const char *tool);
int bench_mlp_processes(const char *self, const char *tool);
int bench_start_engine(const char *self); /* start.ucx.4, and sums between hosts */
int bench_start_child(void);              /* what its processes do */
int bench_wait(const char *self, const char *tool);
int bench_wait_child(void); /* what the processes of bench_wait do */
int bench_scan(void);
/* load.3k, load.3k.map, load.52b, load.8dev, load.first, load.resume, shuffle.index */
int bench_loading(const char *name);
/* load.jpeg, load.tfrecord, load.tar */
int bench_loading_files(const char *name);
/* cnn.fed, digits.fed */
int bench_fed(const char *name);
int bench_matmul(tsr_dtype dtype); /* F32, F64 */
int bench_conv(void);
int bench_draws(bool normal);
int bench_tool_start(const char *tool);
int bench_csv(bool aggregate);
/* `only` names one line, or the list: "group", "group.g3". */
int bench_groups(const char *only);
int bench_sorts(const char *only);
int bench_texts(const char *only);
int bench_text_memory(const char *self);
int bench_text_child(const char *name); /* what its processes do */
int bench_files(const char *only);
int bench_joins(const char *only);
/* sort.f32, argsort.f32, sort.8dev, cumsum.8dev; "line": all. */
int bench_lines_sorted(const char *only);
/* "mlp.1dev", "mlp.8dev", "cnn.1dev", "cnn.8dev", "transformer.8dev". */
int bench_training(const char *name);
/* What a process of bench_first_step does: "mlp", "cnn". */
int bench_first_step_child(const char *which);
int bench_first_step(const char *which, const char *self);
/* What the processes of bench_mlp_processes do. */
int bench_mlp_child(void);
int bench_generated(void);
int bench_frames_processes(const char *self, const char *tool);
int bench_frames_child(const char *which); /* what its processes do */
/* "ckpt.save", "ckpt.restore"; "ckpt": both. */
int bench_checkpoints(const char *only);
/* `only` names one program; NULL: all. */
int bench_arrays(int devices, const char *only);

#endif
