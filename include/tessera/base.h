/* Statuses, runtimes, scopes, logging and memory: the base of all other headers.
 *
 * A runtime holds devices, meshes and cached plans. A scope owns the nodes (arrays, frames) that
 * are made in it and keeps their first error. Calls that make nodes return no error: the node is
 * inert and the scope keeps the error. Terminals evaluate nodes and return a tsr_status.
 *
 * A result belongs to the newest scope that the calling thread opened inside the scopes of its
 * operands, or that is one of them. Where the thread opened none there, the result belongs to the
 * innermost scope of its operands. So the nodes that a step of a loop makes go with the scope of
 * the step, whatever their operands are, and tsr_keep moves a result to an outer scope. Texts,
 * tables and rows are results too. Errors and figures of a terminal go to the scope that its result
 * belongs to.
 *
 * No call fails without a message. A terminal on an inert node records the node's error in its
 * scope. A call on NULL knows no scope: its error goes to all scopes that the thread has open, and
 * tsr_message(NULL) returns it too.
 *
 * Threads may share a runtime and its meshes. One thread at a time makes nodes in a scope. Many
 * threads may read evaluated arrays and frames of an outer scope (tsr_eval, tsr_keep,
 * tsr_frame_keep) at once, each in a scope of its own that it nested there. Terminals of several
 * threads run side by side: one of them has the runtime's threads, the others work on their own
 * thread until those are free. A memory limit holds for all of them together. No scope may be in
 * use while its runtime closes.
 *
 * A thread that calls the library needs a stack of 256 KiB. Call fork only while no other thread is
 * in a call of the library. The child may then use its copy of a runtime on one thread, without
 * workers, and close it. The child of a process of several does not join the job: collective calls
 * are TSR_ESTATE there, and nothing that it frees or closes is the job's.
 *
 * Every function's comment ends in who calls it where several processes run one program. "Local":
 * any process, on its own. "Collective": every process, in the same order. "Collective, same
 * arguments": every process, with the same arguments too. In a program of one process all three are
 * plain calls. */
#ifndef TESSERA_BASE_H
#define TESSERA_BASE_H

/* This check stands before any include: the C library may have no headers for 32 bits. */
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
 * without a name, tsr_sum(x, 1), does not compile: after the last field that a macro sets or takes
 * by its place stands TSR_REST_BY_NAME, a field without elements, which no value fits. */
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

/* TSR_NEEDS_2_("tsr_sort(x, dim)", TSR_SORT_, ...) is TSR_SORT_(..., ) where at least two arguments
 * are given, and else an error that shows the text. The comma at the end allows TSR_SORT_ no
 * further arguments, and may stand at the end of an initializer. */
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
/* The source location of a call: "file.c:12". The macros fill it in; NULL is allowed. A `site` must
 * have static storage, as a literal has: nodes, errors and plans keep the pointer. tsr_runtime_site
 * makes a site of any other text. */
#define TSR_HERE (__FILE__ ":" TSR_STRINGIZE(__LINE__))

typedef struct tsr_runtime tsr_runtime;
typedef struct tsr_scope tsr_scope;

/* Returns the name of a status, such as "TSR_ESHAPE"; never NULL, static. Local. */
TSR_API const char *tsr_status_name(tsr_status status);

/* Returns one line of text for a status; never NULL, static. Local. */
TSR_API const char *tsr_status_text(tsr_status status);

/* Returns the version of the loaded library as "major.minor.patch", static. Local. */
TSR_API const char *tsr_version(void);

/* A plugin: an optional part of Tessera that needs another library and is a file of its own. */
typedef struct tsr_plugin {
  const char *name;     /* "ucx", "mpi_openmpi", "mpi_mpich", "images", "isal" */
  const char *use;      /* such as "decoding JPEG and PNG images" */
  const char *packages; /* the Debian packages that must be installed when Tessera is built */
  bool found;           /* whether the file was found; it is loaded at its first use */
} tsr_plugin;

/* Writes the description of plugin number `index`, from 0 on, to *out, whose texts are static. The
 * folders of TSR_PLUGIN_PATH are searched, or without it the folder of this library. Returns false,
 * and leaves *out untouched, where `index` is past the last plugin. Local. */
TSR_API bool tsr_plugin_describe(int index, tsr_plugin *out);

/* Returns whether ".field =" stands in a text of arguments: so macros tell a zero that is given
 * from a field that is left out. Local. */
TSR_API bool tsr_argument_is_named(const char *arguments, const char *field);

/* Opens a scope in a runtime; the macro tsr_scope_open also takes a scope and nests one in it.
 * Closing the outer scope closes the nested one. Never returns NULL: if memory is short the scope
 * is inert and its terminals return TSR_ENOMEM. Returns a scope owned by the caller until
 * tsr_scope_close. Local. */
TSR_API tsr_scope *tsr_scope_open_at(tsr_runtime *rt, const char *site);

/* Opens a scope as tsr_scope_open_at does, nested in `outer`, which owns the result. Other threads
 * may nest scopes of their own there at the same time. Local. */
TSR_API tsr_scope *tsr_scope_nest_at(tsr_scope *outer, const char *site);

/* Closes a scope: frees its nodes and its nested scopes. Buffers that nodes of other scopes still
 * need stay. NULL is allowed. Error: TSR_ESTATE while a function's body is traced in the scope,
 * which then stays open. Local. */
TSR_API void tsr_scope_close(tsr_scope *scope);

/* Returns the message of the scope's first error. If the scope has none, returns the message of the
 * nearest scope around it that this scope's thread opened and that has one, or "". For NULL,
 * returns the thread's last error of a call that knew no scope. The text is valid until its scope
 * is closed or cleared. Local. */
TSR_API const char *tsr_message(const tsr_scope *scope);

/* Returns the status of the scope's own first error, or TSR_OK; for NULL, the status of the
 * thread's last error of a call that knew no scope. Local. */
TSR_API tsr_status tsr_scope_status(const tsr_scope *scope);

/* Forgets the scope's first error, or for NULL the error that tsr_message(NULL) returns. Inert
 * nodes stay inert. Local. */
TSR_API void tsr_scope_clear(tsr_scope *scope);

/* Records an error of the user's own in a scope, as a callback does before it returns `status`. The
 * first error wins. Returns `status`. Local. */
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

/* The caller's allocator: allocates, or frees where size is 0, like a realloc that never resizes.
 * An allocator must be thread-safe. Returning NULL for a nonzero size means out of memory. Tests
 * and embedders use it. Programs are traced and planned under a lock: the allocator must not call a
 * terminal or tsr_call, nor wait for a thread that is in one. Scopes, arrays and meshes are made
 * without a lock held. */
typedef struct tsr_allocator {
  void *(*allocate)(size_t size, size_t alignment, void *user);
  void (*release)(void *pointer, size_t size, void *user);
  void *user;
} tsr_allocator;

/* Reports the progress of long work: `what` names it ("csv", "sort"; borrowed), `done` counts up to
 * `total` (0: not known). Called when other work begins, else at most about every 20 ms, on each
 * thread that is in a terminal, also while the thread waits for another: pthread_self tells whose
 * terminal it may cancel. Returning false cancels: the terminal returns TSR_ECANCELLED within 100
 * ms and frees all that it made. The callback must not call the library. */
typedef bool (*tsr_progress_fn)(const char *what, int64_t done, int64_t total, void *user);

/* Options of tsr_runtime_open. Zero means the default everywhere. */
typedef struct tsr_runtime_opts {
  size_t size TSR_REST_BY_NAME; /* sizeof(tsr_runtime_opts), set by the macro */
  int threads;                  /* worker threads; 0 = one per core that this process may use */
  int64_t memory_limit; /* bytes per device; the host may use the sum of all devices, at least 256
                         * MiB; 0 = no limit */
  tsr_log_fn log;       /* NULL = nothing is printed unless TSR_LOG is set (stderr) */
  void *log_user;
  const tsr_allocator *allocator; /* NULL = the C library's; copied */
  int plan_cache;                 /* cached plans; 0 = 256 */
  const char *isa;                /* "baseline", "avx2", "avx512"; NULL = $TSR_ISA, else the best */
  tsr_progress_fn progress;       /* NULL = no callback */
  void *progress_user;
  /* "nan": a program fails with TSR_EVALUE at the first operation whose result has a NaN; the
   * message has the operation's source line, the device and the index. "inf": the same for an Inf,
   * too. Numbers that the user gives are not checked. The check stores every result and reads it
   * once more. NULL = $TSR_CHECK_FLOATS, else no check */
  const char *check_floats;
} tsr_runtime_opts;

/* Opens a runtime over the devices named in `devices`, such as "cpu:8" (8 virtual devices). Devices
 * of several kinds are written kind by kind, with commas between; this version has the kind cpu
 * alone. Never returns NULL: after an error, tsr_runtime_status and every scope opened on the
 * runtime report it. Under `tessera run` the devices are dealt out evenly to the processes, which
 * must open the same runtimes in the same order (process.h). Error: TSR_EARG, also for a number of
 * devices that the processes do not divide. Returns a runtime owned by the caller until
 * tsr_runtime_close. Collective, same arguments. */
TSR_API tsr_runtime *tsr_runtime_open_with(const char *devices, const tsr_runtime_opts *opts);

/* Closes a runtime: closes scopes still open, stops its workers, frees its memory. NULL is allowed.
 * Local. */
TSR_API void tsr_runtime_close(tsr_runtime *rt);

/* Returns TSR_OK, or the error with which opening the runtime failed; tsr_runtime_message has its
 * text. Local. */
TSR_API tsr_status tsr_runtime_status(const tsr_runtime *rt);

/* Returns the message of a failed open, or ""; owned by the runtime. Local. */
TSR_API const char *tsr_runtime_message(const tsr_runtime *rt);

/* Returns `text` as a `site` for calls that end in _at and _with. The text is copied once, equal
 * texts give one pointer, and the runtime owns it. Bindings and programs that are generated at run
 * time need it. Returns NULL for NULL and out of memory; every call takes NULL. Local. */
TSR_API const char *tsr_runtime_site(tsr_runtime *rt, const char *text);

/* Bytes in the memory pool of one device. */
typedef struct tsr_memory {
  int64_t now;    /* bytes in live buffers */
  int64_t peak;   /* the largest value of `now` so far */
  int64_t limit;  /* 0 = no limit */
  int64_t cached; /* bytes kept for reuse */
} tsr_memory;

/* Returns the memory figures of one device; zeros for a device number out of range. Local. */
TSR_API tsr_memory tsr_device_memory(const tsr_runtime *rt, int device);

/* Returns the number of devices of a runtime. Local. */
TSR_API int tsr_device_count(const tsr_runtime *rt);

/* Returns the kind of a device, "cpu"; "" for a device number out of range. Owned by the runtime.
 * Local. */
TSR_API const char *tsr_device_kind(const tsr_runtime *rt, int device);

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
