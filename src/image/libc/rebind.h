/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind.h: replacements of the C library's functions; copy/libc_state.h has their per-rank state. Private to src/image.
 */
#ifndef IMAGE_REBIND_H
#define IMAGE_REBIND_H

#include "image/copy/libc_state.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <threads.h>

/* Makes references of ranks' code to these names of the C library lead to the function, or to the rank's variable. Stands below
 * the function, which need not be known elsewhere. At most IMAGE_REBINDING_NAMES names. */
#define IMAGE_REBINDS(function, ...) \
    IMAGE_REBINDING(function, ((struct image_rebinding){{__VA_ARGS__}, (void *)(function), -1}))
#define IMAGE_REBINDS_VARIABLE(field, ...) \
    IMAGE_REBINDING(field, ((struct image_rebinding){{__VA_ARGS__}, NULL, field}))
#define IMAGE_REBINDING(id, row)                                 \
    static const struct image_rebinding *const rebinding_of_##id \
        __attribute__((section("image_rebindings"), used)) = &row

/* Excludes the rank's other threads. Does nothing if it has none. */
void image_libc_lock(struct image_libc *libc);
void image_libc_unlock(struct image_libc *libc);

/* Frees the generators (rebind_random.c), buffers (rebind_buffers.c) and records (rebind_databases.c). */
void image_random_destroy(struct image_random *random);
void image_buffers_destroy(struct image_buffers *buffers);
void image_databases_destroy(struct image_databases *databases);

/* ---- rebind_env.c, rebind_time.c, rebind_stack.c ---- */

/* Records the initial environment of ranks. Once, before the first copy. */
void image_env_open(void);

/* Sets the rank's environ, timezone and related variables to those of the process. */
void image_env_init(struct image_libc *libc);
void image_zone_init(struct image_libc *libc);

/* Sets the rank's __libc_stack_end, initially and on the rank's ULT. */
void image_stack_init(struct image_libc *libc);
void image_stack_begin(struct image_libc *libc);

/* The rank's environment. */
char **image_env_of(struct image_libc *libc);
void image_env_move(struct image_libc *libc, char **array, size_t n);

/* Frees the environment of an ended copy. */
void image_env_free(struct image *image);

/* Frees the descriptors of an ended copy's modules. (rebind_symbols.c) */
void image_link_maps_free(struct image *image);
char *image_env_get(struct image_libc *libc, const char *name);

/* localtime_r for a call from `caller`. */
struct tm *image_zone_localtime(const time_t *when, struct tm *tm, const void *caller);

/* ---- rebind_wait.c ---- */

/* How many handlers of signals the rank has run: all, and those that were set without SA_RESTART. */
struct image_handled {
    unsigned n_handled, n_interrupts;
};
struct image_handled image_handled_now(void);

/* A rank's wait for a condition that it has to poll. */
struct image_wait {
    struct image_handled handled; /* before the first pause */
    const char *call;             /* for the message after a minute; NULL: none */
    int fd;                       /* for that message */
    uint64_t limit_ns;            /* upper limit of the next pause; 0: no limit */
    uint64_t paused_ns;
    unsigned n_pauses;
    bool is_reported;
};

/* True if the caller is a rank's main thread. In a handler of a signal the pauses of image_wait_pause block the OS thread. */
bool image_can_poll(void);

/* True if the caller may wait this way. Otherwise it is a thread or a forked process, which blocks, or a handler of a signal: that
 * may have interrupted a switch, or code that holds a lock which other ranks of the OS thread need. */
bool image_can_wait(void);

/* True if a handler of a signal runs on the stack of this rank, the calling one. (rebind_signal.c) */
bool image_is_in_handler(struct image_libc *libc);

/* Lets other ranks run for this time, or for their turns; then runs handlers of signals that have come for the rank, which may jump.
 * image_can_wait is true. Switch. */
void image_pause_ns(uint64_t duration_ns);
void image_pause_yield(void);

/* Runs handlers of signals that have come for the calling rank while it could not run them. (rebind_signal.c) */
void image_signals_run_pending(void);

/* Lets other ranks run for a while. Switches. */
void image_wait_pause(struct image_wait *wait);

/* True, with errno EINTR, if a handler of the rank has run since the first pause. may_restart: one with SA_RESTART does not end
 * the wait. Never switches. */
bool image_wait_is_interrupted(const struct image_wait *wait, bool may_restart);

/* ---- rebind_sigmask.c ---- */

/* A mask of signals that holds while the rank's main thread waits; on its stack. */
struct image_mask {
    struct image_signals *rank; /* NULL: the mask has not changed */
    uint64_t before;            /* the rank's mask */
};

/* Makes `mask` the rank's (NULL: does nothing), so that handlers of signals that it permits end the wait. image_can_wait is true.
 * Never switches. */
void image_mask_begin(struct image_mask *changed_out, const sigset_t *mask, struct image_wait *wait);

/* Delivers what other ranks of the OS thread block. Never switches. */
void image_mask_poll(const struct image_mask *changed);

/* Makes the rank's mask what it was. Keeps errno. Never switches. */
void image_mask_end(const struct image_mask *changed);

/* At the beginning of exit(), which may switch, also in a handler: the rank's mask has the handler's signals, so that they are no
 * other rank's. Never switches. */
void image_mask_begin_exit(struct image_libc *libc);

/* After sending the signal to the own OS thread: it is delivered even if another rank of this thread blocks it. Never switches; may
 * be called in a signal handler. */
void image_mask_deliver(int number);

/* sigprocmask's query for the rank. */
void image_mask_get(sigset_t *set_out);

/* True if the C library's function on a descriptor returns by itself: the descriptor is nonblocking, or a socket with a time
 * limit. option: SO_RCVTIMEO or SO_SNDTIMEO. Never switches. */
bool image_has_limit(int fd, int option);

/* The same until the descriptor is ready for events (POLLIN or POLLOUT), unless the call on it has a limit of its own.
 * call: its name, for a message. False, with errno EINTR: a handler without SA_RESTART has run. May switch. */
bool image_wait_until_ready(int fd, short events, const char *call) BASE_MUST_CHECK;

/* wait4 for one child; other ranks run meanwhile. usage may be NULL. */
pid_t image_wait_for_child(pid_t pid, int *status, int options, struct rusage *usage);

/* Starts a thread that belongs to no rank and gets no signals; its stack is small. Returns an error number. Never switches. */
int image_start_helper(pthread_t *thread_out, void *(*function)(void *arg), void *arg);

/* The result of function(arg), which blocks: a thread calls it, and other ranks run meanwhile. ECANCELED: the rank's main thread
 * was cancelled, which has cancelled the function. If no thread can be started, the caller blocks. Switches. */
int image_wait_on_thread(int (*function)(void *arg), void *arg);

/* ---- rebind_buffers.c ---- */

/* Returns the result of a function such as dlopen; if it is NULL, keeps the error for the rank's dlerror. Never switches. */
void *image_load_error_keep(void *result);

/* Makes the text "PATH: no copy for this rank: ERROR" the answer of the rank's next dlerror; on its other threads it is
 * printed. */
void image_load_error_set(const char *path, const char *error);

/* ---- rebind_exit.c ---- */

/* Ends the rank of the caller, as _exit ends a process. */
void image_end(struct image_libc *libc, int status) BASE_NORETURN;

/* ---- rebind_thread_exit.c, rebind_locks.c ---- */

/* Ends the calling rank if its main thread was cancelled (image_cancel_is_due). */
void image_cancel_point(void);

/* The rank's main thread waits in the C library for this condition variable (NULL: no longer): cancelling it wakes it. */
void image_cancel_watch(pthread_cond_t *condition);

/* Releases the rank's file locks. */
void image_locks_release(struct image_libc *libc);

/* Drops all of them in a forked child, which has none. */
void image_locks_forget(void);

/* ---- rebind_process.c ---- */

/* Locks of all ranks, each guarding static variables of its file. Held during a fork, and always taken before locks of a rank.
 * Never held while a ULT is switched. */
extern pthread_mutex_t image_zone_lock; /* libc's time zone is a rank's (rebind_time.c) */
extern pthread_mutex_t
    image_signals_lock; /* taken with all signals blocked, because handlers set actions, too */
extern pthread_mutex_t image_files_lock, image_streams_lock, image_listing_lock, image_maps_lock;

/* True in a child of vfork, which shares the memory of its parent. */
bool image_shares_memory(void);

/* ---- rebind_pid.c ---- */

/* The number that getpid returns in the rank. Never switches; may be called in a signal handler. */
pid_t image_pid_of(struct image_libc *libc);

/* True if this is the number of the process or of the caller's rank. */
bool image_pid_is_own(pid_t number);

/* fcntl with F_SETOWN. */
int image_pid_set_owner(int fd, pid_t number);

/* ---- rebind_keys.c ---- */

/* One pass over the thread's values: calls the destructors of non-NULL values. Returns false if there were
 * none. */
bool image_keys_destroy_values(struct image_thread *thread);

void image_keys_free_values(struct image_thread *thread);
void image_keys_free(struct image_libc *libc);

/* ---- rebind_getopt.c ---- */

struct option;
#define IMAGE_GETOPT_LONG_ONLY 1u /* getopt_long_only */
#define IMAGE_GETOPT_POSIX 2u     /* never permutes */

/* getopt on the given state; longopts may be NULL. */
int image_getopt_r(int argc, char *const *argv, const char *optstring, const struct option *longopts,
                   int *longind, unsigned flags, struct image_getopt *state);

/* ---- Replacements, and what goes with them, that other files use ---- */

void image_libc_exit(int status) BASE_NORETURN;
void image_libc_abort(void) BASE_NORETURN;
int image_libc_setcancelstate(int state, int *old);
int image_libc_setcanceltype(int type, int *old);
int image_libc_join(pthread_t thread, void **value_out);
int image_libc_join_from(pthread_t thread, void **value_out, const void *caller);
int image_libc_join_blocking(pthread_t thread, void **value_out);
int image_libc_nanosleep(const struct timespec *duration, struct timespec *remaining);
void image_libc_gomp_critical_start(void);
void image_libc_gomp_critical_end(void);

/* Calls the function on the rank's alternate stack; on the present one if there is none, or if it is that one. */
void image_altstack_call(void (*function)(void *), void *arg);

/* For a rank in the memory of one that has ended. */
void image_signals_begin(struct image_libc *libc);

/* At the rank's end: its handlers are not called any more. */
void image_signals_forget(struct image_libc *libc);

/* After that: false if one of them is running, on any thread. */
bool image_signals_have_ended(const struct image_libc *libc);

/* Sends a signal of the caller's rank to a thread: its handler runs on that one, no other rank's. value: as pthread_sigqueue;
 * NULL: as pthread_kill. Sets errno. May be called in a signal handler. */
int image_signals_send(struct image_libc *libc, pid_t tid, int number, const union sigval *value);

/* The environment for a program that the code at caller's address starts: env, or a copy with an entry more
 * (image_rebind_client.child_entry), which image_child_env_drop frees. entry: IMAGE_CHILD_ENTRY_MAX bytes. A child of vfork may
 * call both: they take no lock. Keeps errno. */
enum { IMAGE_CHILD_ENTRY_MAX = 64 };
char *const *image_child_env(char *const *env, char *entry, const void *caller);
void image_child_env_drop(char *const *env, char *const *made);

/* The rank sends descriptor fd to this file; other descriptors than 1 and 2 do not matter. Reports, once per process, that two
 * ranks have sent one to different files. Never switches. */
void image_libc_check_redirection(int fd, const struct stat *file);

/* The same as libc's functions do: true if the time has come, or the arguments are wrong. */
bool image_is_over(clockid_t clock, const struct timespec *end);

/* What the fortified functions call if a buffer is too small. */
void __chk_fail(void) BASE_NORETURN;

#endif
