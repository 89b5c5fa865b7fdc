/* Statuses, runtimes, scopes, logging and memory: what every other room stands on.
 *
 * A runtime holds devices and everything that lives longer than one formula. A scope owns
 * the nodes (arrays, frames) made in it and keeps the first error of its formulas. Calls
 * that make nodes never fail visibly; terminals return a tsr_status.
 *
 * Where a result belongs: to the newest scope that the calling thread opened inside the scopes of
 * its operands, which may be those themselves; where it opened none there, to the innermost scope
 * of its operands. So what a step of a loop makes goes with the scope of the step, whatever it is
 * made of, and tsr_keep takes out what goes on. Texts, tables and rows are results too, and errors
 * and figures of terminals are told to the scope that their result belongs to.
 *
 * No call fails without a message. A terminal on what is inert tells its scope the error that made
 * it so. A call that is given NULL, and so knows no scope, tells all scopes that its thread has
 * open; tsr_message(NULL) has that error too.
 *
 * Threads may share a runtime and its meshes. Nodes are made in a scope by one thread at a time;
 * but evaluated arrays and frames of an outer scope (tsr_eval, tsr_keep, tsr_frame_keep) may be
 * read by many threads at once, each in a scope nested there that it opened itself. Terminals of
 * several threads run side by side: one of them has the threads of the runtime, the others work on
 * their own thread until these are free, and a memory limit is for all of them together. No scope
 * may be in use while its runtime closes.
 *
 * A thread that calls the library needs a stack of 256 KiB. After fork, which no other thread's
 * call may be under way at, the child may use its copy of a runtime on one thread, without workers,
 * and close it. Of a runtime of several processes it is none of them: what they do together is
 * TSR_ESTATE there, and nothing that it frees or closes is theirs.
 *
 * Every function's comment ends in who calls it where several processes run one program. "Local":
 * any process, on its own. "Collective": every process, in the same order. "Collective, same
 * arguments": every process, with the same arguments too. In a program of one process all three
 * are plain calls. */
#ifndef TESSERA_BASE_H
#define TESSERA_BASE_H

/* Before anything is included: the C library may have no headers for 32 bits. */
#if defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ < 8
#error "Tessera is 64-bit only: compile without -m32"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TSR_API __attribute__((visibility("default")))
#define TSR_MUST_USE __attribute__((warn_unused_result))
#define TSR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TSR_API
#define TSR_MUST_USE
#define TSR_PRINTF(fmt, args)
#endif

/* Fields of options and arguments are given by name: tsr_sum(x, .dims = TSR_DIMS(1)). A value
 * without one, tsr_sum(x, 1), does not compile: TSR_REST_BY_NAME, behind the last field that a
 * macro sets or takes by its place, is a field of no element, which no value fits. */
#if defined(__GNUC__) && !defined(__cplusplus)
#if defined(__clang__)
#define TSR_NO_VALUE_
#else
#define TSR_NO_VALUE_ __attribute__((designated_init))
#pragma GCC diagnostic error "-Wdesignated-init"
#endif
__extension__ struct tsr__by_name {
  struct tsr_give_this_field_by_name {
    unsigned char nothing;
  } none[0];
} TSR_NO_VALUE_;
#define TSR_REST_AT_(line) struct tsr__by_name by_name_only_##line
#define TSR_REST_ON_(line) TSR_REST_AT_(line)
/* clang-format off */
#define TSR_REST_BY_NAME ; TSR_REST_ON_(__LINE__)
/* clang-format on */
#else
#define TSR_REST_BY_NAME
#endif

/* TSR_NEEDS_2_("tsr_sort(x, dim)", TSR_SORT_, ...) is TSR_SORT_(..., ) where two arguments at least
 * are given, and else an error that shows the text. The comma at the end lets TSR_SORT_ have no
 * more than these, and may stand at the end of an initializer. */
#define TSR_TOO_FEW_(usage)                                               \
  ((void *)sizeof(struct {                                                \
    _Static_assert(sizeof(usage) == 0, usage ": an argument is missing"); \
    int none;                                                             \
  }))
#define TSR_DROP_(...)
#define TSR_PROBE_(usage) ~, TSR_TOO_FEW_(usage) TSR_DROP_
#define TSR_SECOND_(_1, _2, ...) _2
#define TSR_THIRD_(_1, _2, _3, ...) _3
#define TSR_FOURTH_(_1, _2, _3, _4, ...) _4
#define TSR_FIFTH_(_1, _2, _3, _4, _5, ...) _5
#define TSR_CHOSEN_(...) TSR_SECOND_(__VA_ARGS__)
#define TSR_NEEDS_2_(usage, literal, ...) \
  TSR_CHOSEN_(TSR_SECOND_(__VA_ARGS__, TSR_PROBE_(usage), ), literal, )(__VA_ARGS__, )
#define TSR_NEEDS_3_(usage, literal, ...)                                                 \
  TSR_CHOSEN_(TSR_THIRD_(__VA_ARGS__, TSR_PROBE_(usage), TSR_PROBE_(usage), ), literal, ) \
  (__VA_ARGS__, )
#define TSR_NEEDS_4_(usage, literal, ...)                                                          \
  TSR_CHOSEN_(TSR_FOURTH_(__VA_ARGS__, TSR_PROBE_(usage), TSR_PROBE_(usage), TSR_PROBE_(usage), ), \
              literal, )                                                                           \
  (__VA_ARGS__, )
#define TSR_NEEDS_5_(usage, literal, ...)                                                      \
  TSR_CHOSEN_(TSR_FIFTH_(__VA_ARGS__, TSR_PROBE_(usage), TSR_PROBE_(usage), TSR_PROBE_(usage), \
                         TSR_PROBE_(usage), ),                                                 \
              literal, )                                                                       \
  (__VA_ARGS__, )

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_VERSION_MAJOR 0
#define TSR_VERSION_MINOR 1
#define TSR_VERSION_PATCH 0

/* Every status: name, value, text. Values are ABI and never change meaning. */
#define TSR_STATUS_MAP(X)                                    \
  X(OK, 0, "success")                                        \
  X(ESHAPE, 1, "shapes do not fit")                          \
  X(EDTYPE, 2, "element types do not fit")                   \
  X(EAXIS, 3, "no such mesh axis, or the spec does not fit") \
  X(ECOLUMN, 4, "no such column, or a duplicate one")        \
  X(EPARSE, 5, "text cannot be read")                        \
  X(EARG, 6, "invalid argument")                             \
  X(ESTATE, 7, "not possible in this state")                 \
  X(ENOMEM, 8, "out of memory")                              \
  X(EIO, 9, "input or output failed")                        \
  X(EVALUE, 10, "a value is out of range")                   \
  X(EPEER, 11, "another process failed")                     \
  X(EUNSUPPORTED, 12, "not supported")                       \
  X(ECANCELLED, 13, "cancelled by the progress callback")

/* The outcome of a terminal. Zero is success. */
typedef enum tsr_status {
#define TSR_STATUS_ENUM(name, value, text) TSR_##name = value,
  TSR_STATUS_MAP(TSR_STATUS_ENUM)
#undef TSR_STATUS_ENUM
} tsr_status;

#define TSR_STRINGIZE_(x) #x
#define TSR_STRINGIZE(x) TSR_STRINGIZE_(x)
/* Where a call stands: "file.c:12". Filled in by the macros; NULL is allowed. A `site` must be of
 * static storage, as a literal is: nodes, errors and plans keep the pointer. Other texts go by
 * tsr_runtime_site. */
#define TSR_HERE (__FILE__ ":" TSR_STRINGIZE(__LINE__))

typedef struct tsr_runtime tsr_runtime;
typedef struct tsr_scope tsr_scope;

/* Returns the name of a status, such as "TSR_ESHAPE"; never NULL, static. Local. */
TSR_API const char *tsr_status_name(tsr_status status);

/* Returns one line of text for a status; never NULL, static. Local. */
TSR_API const char *tsr_status_text(tsr_status status);

/* Returns the version of the loaded library as "major.minor.patch", static. Local. */
TSR_API const char *tsr_version(void);

/* A plugin: a part of Tessera that needs a library of its own and is a file beside this library. */
typedef struct tsr_plugin {
  const char *name;     /* "ucx", "mpi_openmpi", "mpi_mpich", "images", "isal" */
  const char *use;      /* such as "decoding JPEG and PNG images" */
  const char *packages; /* the Debian packages that must be installed when Tessera is built */
  bool found;           /* whether the file is there; it is loaded when it is first needed */
} tsr_plugin;

/* Describes the plugin of an index, from 0 on, in *out, whose texts are static. Plugins are looked
 * for in the folders of TSR_PLUGIN_PATH, else in the folder of this library. Returns false, and
 * leaves *out alone, where there are no more. Local. */
TSR_API bool tsr_plugin_describe(int index, tsr_plugin *out);

/* Whether ".field =" stands in a text of arguments: macros ask where a zero that is given is not
 * one that is left out. Local. */
TSR_API bool tsr_argument_is_named(const char *arguments, const char *field);

/* Opens a scope in a runtime, or nested in another scope (the macro tsr_scope_open takes
 * either). Closing the outer one closes it too. Never returns NULL: when memory is short the
 * scope is inert and its terminals return TSR_ENOMEM. Returns a scope owned by the caller
 * until tsr_scope_close. Local. */
TSR_API tsr_scope *tsr_scope_open_at(tsr_runtime *rt, const char *site);

/* As tsr_scope_open_at, nested in `outer`, which owns the result. Other threads may nest scopes of
 * their own there at the same time. Local. */
TSR_API tsr_scope *tsr_scope_nest_at(tsr_scope *outer, const char *site);

/* Closes a scope: frees its nodes and its nested scopes. Buffers that nodes of other scopes
 * still need stay. NULL is allowed. Error: TSR_ESTATE while a body is traced in it, which stays
 * open. Local. */
TSR_API void tsr_scope_close(tsr_scope *scope);

/* Returns the message of the scope's first error; without one, that of the nearest scope around it
 * that this scope's thread opened and that has one; "" if none has. Of NULL the thread's last error
 * of a call that knew no scope. The text is valid until its scope is closed or cleared. Local. */
TSR_API const char *tsr_message(const tsr_scope *scope);

/* Returns the status of the scope's own first error, TSR_OK if there is none; of NULL that of the
 * thread's last error of a call that knew no scope. Local. */
TSR_API tsr_status tsr_scope_status(const tsr_scope *scope);

/* Forgets the scope's first error; of NULL the one that tsr_message(NULL) has. Inert nodes stay
 * inert. Local. */
TSR_API void tsr_scope_clear(tsr_scope *scope);

/* Records an error of the user's own in a scope, as a callback does before it returns
 * `status`. The first error wins. Returns `status`. Local. */
TSR_API tsr_status tsr_fail(tsr_scope *scope, tsr_status status, const char *format, ...)
    TSR_PRINTF(3, 4);

/* Returns the number of live nodes of a scope, nested scopes not counted. Local. */
TSR_API int64_t tsr_scope_node_count(const tsr_scope *scope);

/* Log levels, from silent to chatty. */
typedef enum tsr_log_level {
  TSR_LOG_ERROR = 1,
  TSR_LOG_WARN,
  TSR_LOG_INFO,
  TSR_LOG_DEBUG,
  TSR_LOG_TRACE
} tsr_log_level;

/* Receives one log line without a newline. `line` is borrowed for the call. May be called
 * from any thread that uses the runtime. */
typedef void (*tsr_log_fn)(tsr_log_level level, const char *area, const char *line, void *user);

/* Allocates, or frees when size is 0: as realloc without the resize. Must be thread-safe.
 * Returning NULL for a nonzero size means out of memory. Used by tests and embedders. Programs are
 * traced and planned under a lock: it must not call a terminal or tsr_call, nor wait for a thread
 * that is in one. Scopes, arrays and meshes are made without a lock held. */
typedef struct tsr_allocator {
  void *(*allocate)(size_t size, size_t alignment, void *user);
  void (*release)(void *pointer, size_t size, void *user);
  void *user;
} tsr_allocator;

/* Told now and then where long work stands: `what` it is ("csv", "sort"; borrowed), `done` of
 * `total` parts (total 0: not known). Called when other work begins, else at most every 20 ms or
 * so, in each thread that is in a terminal, by that thread, also while it waits for another:
 * pthread_self tells whose terminal it may cancel.
 * Returning false cancels: the terminal returns TSR_ECANCELLED within 100 ms and leaves nothing
 * behind. It must not call into the library. */
typedef bool (*tsr_progress_fn)(const char *what, int64_t done, int64_t total, void *user);

/* Options of tsr_runtime_open. Zero means the default everywhere. */
typedef struct tsr_runtime_opts {
  size_t size TSR_REST_BY_NAME; /* sizeof(tsr_runtime_opts), set by the macro */
  int threads;                  /* workers; 0 = one per core this process may use */
  int64_t memory_limit; /* bytes per device, and for the host as many as for all devices, at least
                         * 256 MiB; 0 = no limit */
  tsr_log_fn log;       /* NULL = nothing is printed unless TSR_LOG is set (stderr) */
  void *log_user;
  const tsr_allocator *allocator; /* NULL = the C library's; copied */
  int plan_cache;                 /* plans kept; 0 = 256 */
  const char *isa;                /* "baseline", "avx2", "avx512"; NULL = $TSR_ISA, else the best */
  tsr_progress_fn progress;       /* NULL = none */
  void *progress_user;
  /* "nan": a program fails with TSR_EVALUE at the first operation whose result has a NaN, and the
   * message has its line, the device and the index; "inf": an Inf, too. Numbers that users give are
   * not looked at. All results are stored and read once more. NULL = $TSR_CHECK_FLOATS, else
   * nothing is looked at */
  const char *check_floats;
} tsr_runtime_opts;

/* Opens a runtime over the devices named in `devices`, such as "cpu:8" (8 virtual devices).
 * Never returns NULL: what is wrong is kept, and tsr_runtime_status and every scope opened on
 * it report it. Under `tessera run` the devices are dealt out to the processes, which must open
 * the same ones in the same order (process.h); where they cannot be dealt out evenly that is an
 * error (TSR_EARG). Returns a runtime owned by the caller until tsr_runtime_close.
 * Collective, same arguments. */
TSR_API tsr_runtime *tsr_runtime_open_with(const char *devices, const tsr_runtime_opts *opts);

/* Closes a runtime: closes scopes still open, stops its workers, frees everything. NULL is
 * allowed. Local. */
TSR_API void tsr_runtime_close(tsr_runtime *rt);

/* Returns TSR_OK, or why the runtime could not be opened; the text is tsr_runtime_message.
 * Local. */
TSR_API tsr_status tsr_runtime_status(const tsr_runtime *rt);

/* Returns the message of a failed open, "" otherwise; owned by the runtime. Local. */
TSR_API const char *tsr_runtime_message(const tsr_runtime *rt);

/* Returns `text` as a `site` for calls that end in _at and _with: copied once, equal texts give one
 * pointer; owned by the runtime. For bindings and programs that are made at run time. NULL for NULL
 * and out of memory, which every call takes. Local. */
TSR_API const char *tsr_runtime_site(tsr_runtime *rt, const char *text);

/* Bytes held by one device's pool. */
typedef struct tsr_memory {
  int64_t now;    /* bytes in live buffers */
  int64_t peak;   /* the most that `now` has been */
  int64_t limit;  /* 0 = none */
  int64_t cached; /* bytes kept for reuse */
} tsr_memory;

/* Returns the memory figures of one device; zeros for a device that is not there. Local. */
TSR_API tsr_memory tsr_device_memory(const tsr_runtime *rt, int device);

/* Returns the number of devices of a runtime. Local. */
TSR_API int tsr_device_count(const tsr_runtime *rt);

/* Returns the instruction set in use: "baseline", "avx2" or "avx512"; static. Local. */
TSR_API const char *tsr_isa(const tsr_runtime *rt);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* tsr_scope_open(rt) or tsr_scope_open(outer_scope). */
/* clang-format off */
#define tsr_scope_open(parent)                  \
  _Generic((parent),                            \
      tsr_runtime *: tsr_scope_open_at,         \
      tsr_scope *: tsr_scope_nest_at)((parent), TSR_HERE)
/* clang-format on */
/* tsr_runtime_open("cpu:8"), tsr_runtime_open("cpu:8", .threads = 2). */
#define tsr_runtime_open(...) TSR_RUNTIME_OPEN_(__VA_ARGS__, )
#define TSR_RUNTIME_OPEN_(devices, ...) \
  tsr_runtime_open_with((devices),      \
                        &(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts), __VA_ARGS__ })
#endif

#endif
