/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libc_state.h: the per-rank state of the C library, which is part of a copy, and what copy/ needs of libc/. Private to src/image.
 */
#ifndef IMAGE_LIBC_STATE_H
#define IMAGE_LIBC_STATE_H

#include "image/image.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/types.h>
#include <unwind.h>

/* The C library's variables that are per rank. */
enum image_libc_field {
    IMAGE_OPTARG,
    IMAGE_OPTIND,
    IMAGE_OPTERR,
    IMAGE_OPTOPT,
    IMAGE_ENVIRON,
    IMAGE_TIMEZONE,
    IMAGE_DAYLIGHT,
    IMAGE_TZNAME,
    IMAGE_SIGNGAM,
    IMAGE_STACK_END,
    IMAGE_LIBC_FIELDS
};

/* Handlers of the C++ runtime that are per rank. */
typedef void (*image_cxx_handler_fn)(void);
enum { IMAGE_CXX_TERMINATE, IMAGE_CXX_NEW, IMAGE_CXX_UNEXPECTED, IMAGE_CXX_HANDLERS };

/* A function called at the rank's end. */
struct image_handler {
    union {
        void (*cxa)(void *arg); /* also for fn(void): the C ABI allows an extra argument */
        void (*on_exit)(int status, void *arg);
    } fn;
    void *arg;
    void *dso;            /* the module that registered it */
    bool is_status_first; /* registered with on_exit */
};

/* Such functions. Any thread of the rank may add one. All zero is an empty list. */
struct image_handlers {
    pthread_mutex_t lock; /* never held while a handler runs */
    struct image_handler *items;
    size_t count;
    size_t room;    /* allocated items */
    size_t n_early; /* items[0 .. n_early) were registered before the program's own constructors */
};

/* Adds a function. Returns 0, or -1 if memory is exhausted. */
int image_handlers_add(struct image_handlers *handlers, struct image_handler handler);

/* From now on functions that were added before are early ones. */
void image_handlers_begin(struct image_handlers *handlers);

/* Runs the functions of a list in reverse order, including those that they add. dso: those of that module; NULL: all but the
 * early ones. */
void image_handlers_run(struct image_handlers *handlers, const void *dso, int status);

/* The same for all functions. */
void image_handlers_run_all(struct image_handlers *handlers, int status);

/* Replacement of the C library's per-thread state: one for the rank's ULT and one for each thread that its
 * program starts. */
struct image_thread {
    struct image *image;                /* of the rank it belongs to */
    struct image_thread *next;          /* link of the states of an OS thread: threads.c */
    struct image_handlers at_exit;      /* destructors of thread_local objects */
    struct image_key_value **values;    /* of pthread keys, in blocks (rebind_keys.c); NULL: none yet */
    void *signal_stack;                 /* malloc'ed; NULL: the thread already had one, or it is a rank's
                                         * ULT */
    struct image_lazy_blocks *lazy_tls; /* thread_local variables of libraries (lazy_tls.c); NULL: none yet */
    /* Only for the rank's ULT, for its end (rebind_thread_exit.c): */
    struct _Unwind_Exception exception; /* used to unwind its stack */
    void *cleanup;                      /* its innermost buffer of pthread_cleanup_push; NULL: none */
    atomic_bool is_cancelled;           /* pthread_cancel was called on it */
    atomic_bool is_cancel_disabled;     /* pthread_setcancelstate */
    bool is_cancel_asynchronous;        /* pthread_setcanceltype */
    pthread_cond_t *condition; /* the C library waits for it; guarded by the rank's lock; NULL: none */
};

/* getopt's state, as in glibc's getopt_r. */
struct image_getopt {
    char *optarg;
    int optind, opterr, optopt;
    bool is_initialized;
    enum { IMAGE_GETOPT_REQUIRE_ORDER, IMAGE_GETOPT_PERMUTE, IMAGE_GETOPT_RETURN_IN_ORDER } ordering;
    char *next_char;  /* the unscanned short options of the current argument */
    int first_nonopt; /* argv[first_nonopt .. last_nonopt) are skipped non-options */
    int last_nonopt;
};

/* Per-rank replacement of the C library's per-process state. All zero is the initial state, except for
 * optind and opterr (image_libc_room.init). */
struct image_libc {
    struct image_handlers at_exit;
    struct image_handlers at_quick_exit;
    struct sigaction *fault_actions; /* of fault signals such as SIGSEGV (rebind_signal.c); malloc'ed; NULL:
                                        * none */
    struct image_signals *signals;   /* actions of other signals (rebind_signal.c); malloc'ed; NULL: none */
    stack_t signal_stack;            /* of sigaltstack on the rank's ULT; size 0: none */
    struct image_thread main_thread; /* of the rank's ULT */
    atomic_bool has_threads;         /* the rank has, or once had, threads other than its ULT */
    atomic_int n_threads;            /* threads of pthread_create that have not ended */
    atomic_bool has_buffers;  /* a stream of the C library may use its memory or code (rebind_streams.c) */
    atomic_bool has_handlers; /* the rank has, or once had, handlers of other signals than faults */
    unsigned n_interrupted;   /* handlers of signals, also of other ranks, that run on its stack */
    bool is_pausing;          /* in image_pause_ns: handlers of its signals wait until it is over */
    const char *first_frame;  /* the frame that calls the first of them */
    sigset_t mask_before;     /* of the OS thread, before it */
    atomic_uint n_handled;    /* calls of these ... */
    atomic_uint n_interrupts; /* ... that were set without SA_RESTART */
    _Atomic(struct image_keys *) keys; /* of pthread_key_create; NULL: none yet */
    pthread_mutex_t lock;              /* guards the generators and the creation of the buffers */
    pthread_mutex_t critical;          /* of OpenMP's critical sections without a name */
    struct image_getopt getopt;
    void *variables[IMAGE_LIBC_FIELDS]; /* addresses of the program's optarg etc.: in getopt, or its COPYs */
    char **environ;                     /* the target of variables[] in a program without COPYs */
    long timezone;
    int daylight;
    char *tzname[2];
    int signgam;
    void *stack_end;           /* __libc_stack_end */
    char *stack_lo, *stack_hi; /* the stack of its ULT; NULL: not known */
    const void *environ_array; /* the rank's own array of its environment; NULL: none */
    size_t environ_room;       /* its length */
    char *environ_text;        /* its first values of image_env_init_own; malloc'ed */
    char *strtok_next;
    struct image_random *random;                 /* rand, random and drand48; NULL: unused so far */
    _Atomic(struct image_buffers *) buffers;     /* of localtime and similar functions; NULL: unused so far */
    _Atomic(struct image_databases *) databases; /* of getpwnam and similar functions; NULL: unused so far */
    int exit_status;                             /* passed to on_exit handlers */
    struct image_fork_handler *fork_handlers;    /* of pthread_atfork, in order */
    size_t n_fork_handlers;
    pid_t *children; /* processes that the rank has forked but not waited for */
    size_t n_children;
    _Atomic pid_t number;       /* for getpid (rebind_pid.c); 0: none yet */
    pid_t number_of;            /* the process to which it belongs */
    atomic_bool has_file_locks; /* the rank has, or once had, file locks (rebind_locks.c) */
    cpu_set_t *affinity;        /* the affinity that the rank asked for on its main thread; malloc'ed; NULL:
                                 * none */
    size_t affinity_bytes;
    image_cxx_handler_fn cxx_handlers[IMAGE_CXX_HANDLERS]; /* set by the rank (rebind_handlers.c) */
    bool is_cxx_handler_set[IMAGE_CXX_HANDLERS];           /* else the process's handlers are the rank's */
    char *streams;            /* the rank's C++ stream objects (cxx_streams.c); NULL: none */
    pthread_t main_id;        /* pthread_self of its ULT */
    atomic_bool is_main_over; /* its main thread has called pthread_exit with this value: */
    void *main_value;
};

/* The state of the running rank, or of the calling thread's rank; NULL outside of ranks. */
struct image_libc *image_libc_current(void);

/* The same; on a thread of no rank, the state of the rank whose copy contains the address. */
struct image_libc *image_libc_at(const void *code);

/* True if the caller is a rank's ULT, which may switch to others. False in a process that a rank forked. */
bool image_is_on_rank(void);

/* Offset in struct image_libc of a variable. */
size_t image_libc_field_offset(int field);

/* ---- The room libc/ (rebind.c) ---- */

struct image_libc_room {
    /* The replacement of a name in a rank's code; NULL: ld.so's result stands. */
    const struct image_rebinding *(*find)(const char *name);
    /* The same, provided that definition is the C library's: a library of the program may have its own function error(). */
    const struct image_rebinding *(*find_for)(const char *name, const void *definition);
    /* Records the initial environment of ranks. Once, before the first copy. */
    void (*open)(void);
    /* Sets the initial values; variables[] must have been set. */
    void (*init)(struct image_libc *libc);
    /* Called on the rank's ULT before its constructors. */
    void (*begin)(struct image_libc *libc);
    /* Frees memory held by the state. */
    void (*fini)(struct image_libc *libc);
    /* True if no thread, stream of the C library or running handler of a signal refers to the copy of a rank that has ended. */
    bool (*is_unused)(const struct image_libc *libc);
    /* Frees the rest of an ended copy's memory: nothing refers to the copy. */
    void (*free)(struct image *image);
    /* The rank's environment. */
    char **(*environment)(struct image_libc *libc);
    /* Makes a copy of it, with n entries and a NULL, the rank's environment, and frees the older array. Before its constructors. */
    void (*move_environment)(struct image_libc *libc, char **array, size_t n);
    /* One pass over the thread's values of keys: calls the destructors of non-NULL values. Returns false if there were none. */
    bool (*destroy_values)(struct image_thread *thread);
    /* Frees the thread's values of keys. */
    void (*free_values)(struct image_thread *thread);
    /* pthread_join: other ranks run meanwhile, and deadlocks are found. caller: the address of the call. */
    int (*join)(pthread_t thread, void **value_out, const void *caller);
    /* The C library's. */
    int (*join_blocking)(pthread_t thread, void **value_out);
    /* The calling thread's mask in two parts: what other ranks of the OS thread have put there, and the rest. Returns true if the
     * first is not empty. Children and new threads do not inherit that. Also in handlers of signals and in children of vfork. */
    bool (*mask_of_others)(sigset_t *own_out, sigset_t *others_out);
};
extern const struct image_libc_room image_libc_room;

/* Ends the caller's rank, or the process that has one rank, in place of the system call exit_group. */
void image_raw_exit(int status) BASE_NORETURN;

#endif
