/* Threads of the library. Signals are the program's: its handlers run on its own threads, so ours
 * take none but those of the thread itself: faults, and the ticks of profilers. But what a thread
 * writes for a user does there what it would do on the user's own, so one that runs users'
 * functions or writes users' files leaves SIGPIPE as its maker has it. */
#ifndef TSR_BASE_THREAD_H
#define TSR_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum tsr__thread_work {
  TSR__THREAD_OWN,  /* nothing of users runs there: all other signals are blocked */
  TSR__THREAD_USERS /* SIGPIPE is not */
} tsr__thread_work;

/* Bytes of a stack that does for users' functions, and for all stages of a pipeline one over the
 * other, whatever the shell's limit is. What nobody touches is addresses and no memory. */
#define TSR__THREAD_STACK ((size_t)8 << 20)

/* Starts a thread. `stack`: its bytes; 0: as many as the system gives. False: the system has none;
 * `out` is untouched then. */
bool tsr__thread_start(pthread_t *out, tsr__thread_work work, size_t stack, void *(*run)(void *),
                       void *user);

/* Leaves the calling thread's core for another that it may use and that is not among `cores`; the
 * system chooses which, and may move it again at once. False: it stays, as there is none. */
bool tsr__thread_step_aside(const int16_t *cores, int count);

/* Asks the system for short turns on a core. The calling thread, which other processes wait for,
 * then gets a core soon after it is woken, also beside other programs. Linux before 6.12 does not
 * take the request. */
void tsr__thread_wake_soon(void);

/* Between two looks at what another thread is about to write. It tells the core that this one
 * waits, so that the other thread of it has more. */
static inline void tsr__pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif
