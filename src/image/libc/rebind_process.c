/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_process.c: fork, and the children of a rank.
 *
 * A process forked by a rank is a copy of that rank alone: it has the rank's memory, environment and exit
 * handlers, but is not a rank, and all replacements behave like libc's functions there. Handlers of
 * pthread_atfork are kept per rank. Those of the parent run around the rank's call of fork; those of the child, and all where a
 * library forks, are called by one handler of the process.
 *
 * wait() waits for the rank's own children only, so they are listed. Children of vfork are not: the program
 * must wait for them by pid.
 *
 * A fork waits until no rank and no part of this library loads or unloads a library (base/loader_lock.h),
 * because the child would keep ld.so in the middle of its work. C++ exceptions need no such wait: the
 * unwinder takes no lock since glibc 2.35. It does not wait for a library that another library loads: such
 * a child may hang in its own dlopen, as in any process with threads. It also waits for functions whose locks
 * the C library does not reset in a child (base/fork_lock.h).
 */
#include "image/copy/threads.h"
#include "image/libc/rebind_signal.h"

#include "image/copy/instantiate.h"

#include "base/fork_lock.h"
#include "base/loader_lock.h"
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Handlers ---- */

struct image_fork_handler {
    void (*prepare)(void);
    void (*parent)(void);
    void (*child)(void);
    void *dso;
};

static int image_libc_register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                                      void *dso)
{
    struct image_libc *libc = image_libc_at(dso ? dso : __builtin_return_address(0));
    struct image_fork_handler *items;

    if (!libc)
        return pthread_atfork(prepare, parent, child);
    image_libc_lock(libc);
    items = realloc(libc->fork_handlers, (libc->n_fork_handlers + 1) * sizeof *items);
    if (items) {
        items[libc->n_fork_handlers++] = (struct image_fork_handler){prepare, parent, child, dso};
        libc->fork_handlers = items;
    }
    image_libc_unlock(libc);
    return items ? 0 : ENOMEM;
}
IMAGE_REBINDS(image_libc_register_atfork, "__register_atfork");

static int image_libc_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    return image_libc_register_atfork(prepare, parent, child, __builtin_return_address(0));
}
IMAGE_REBINDS(image_libc_atfork, "pthread_atfork"); /* handlers of the rank that forks */

static bool is_child;     /* this process was forked by a process with this library */
static pid_t process_pid; /* of the process, or of the one whose memory a child of vfork shares */

static pthread_mutex_t *const shared_locks[] = {&image_zone_lock,    &image_signals_lock, &image_files_lock,
                                                &image_streams_lock, &image_listing_lock, &image_maps_lock};
static sigset_t mask_before; /* of the thread that has taken the locks */
static sigset_t mask_others; /* the part of it that a child does not inherit */
static bool has_begun;       /* its fork is alone (base/fork_lock.h) */

/* Keeps other threads from being inside critical sections that the child will use. */
static void lock_all(struct image_libc *libc)
{
    sigset_t all, before, own, others;

    image_mask_of_others(&own, &others);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; i < BASE_COUNT(shared_locks); i++)
        pthread_mutex_lock(shared_locks[i]);
    mask_before = before;
    mask_others = others;
    pthread_mutex_lock(&libc->lock);
    pthread_mutex_lock(&libc->at_exit.lock);
    pthread_mutex_lock(&libc->at_quick_exit.lock);
}

static void unlock_all(struct image_libc *libc)
{
    sigset_t before = mask_before;

    pthread_mutex_unlock(&libc->at_quick_exit.lock);
    pthread_mutex_unlock(&libc->at_exit.lock);
    pthread_mutex_unlock(&libc->lock);
    for (size_t i = BASE_COUNT(shared_locks); i-- > 0;)
        pthread_mutex_unlock(shared_locks[i]);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- Streams of other ranks in a child ---- */

extern FILE *_IO_list_all; /* the C library's list of all streams */

/* Streams that were read before the fork, and how far. */
static struct {
    const FILE *stream;
    const char *at;
} * inputs;
static size_t n_inputs;

/* Called by exit, which gives input back that was not read: it would move the file of another rank. Nobody knows whose a
 * stream is. So those that the child has not read stay where they are, as POSIX allows. */
static void leave_inputs(void)
{
    for (FILE *stream = _IO_list_all; stream; stream = stream->_chain)
        for (size_t i = 0; i < n_inputs; i++)
            if (inputs[i].stream == stream && inputs[i].at == stream->_IO_read_ptr)
                __fpurge(stream);
}

/* The rank's output is flushed: what is in a buffer will be written by another rank in the parent. */
static void note_streams(void)
{
    size_t n = 0;

    for (FILE *stream = _IO_list_all; stream; stream = stream->_chain, n++)
        if (__fpending(stream) > 0)
            __fpurge(stream);
    free(inputs);
    inputs = base_calloc(n, sizeof *inputs, "the streams of a forked process");
    n_inputs = 0;
    for (FILE *stream = _IO_list_all; stream; stream = stream->_chain)
        if (__freading(stream)) {
            inputs[n_inputs].stream = stream;
            inputs[n_inputs++].at = stream->_IO_read_ptr;
        }
    atexit(leave_inputs);
}

/* The fork of this thread runs the rank's handlers of the parent itself. */
static __thread bool runs_handlers __attribute__((tls_model("initial-exec")));

/* How many handlers of the rank this thread's fork calls: those that are registered when it begins. */
static __thread size_t n_called __attribute__((tls_model("initial-exec")));

/* Runs the rank's first n handlers before a fork. They may switch. False: there are none. */
static bool prepare(struct image_libc *libc, size_t n)
{
    bool has_any = false;

    for (size_t i = n; i-- > 0;)
        if (libc->fork_handlers[i].prepare) {
            libc->fork_handlers[i].prepare();
            has_any = true;
        }
    return has_any;
}

/* The same after a fork, in the parent. */
static void go_on(struct image_libc *libc, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (libc->fork_handlers[i].parent)
            libc->fork_handlers[i].parent();
}

static void before_fork(void)
{
    struct image_libc *libc = image_libc_current();
    bool is_alone;

    if (!libc)
        return;
    if (!runs_handlers) {
        size_t n = libc->n_fork_handlers;
        prepare(libc, n);
        n_called = n; /* a handler may fork, too */
    }
    fflush(NULL); /* otherwise the child would repeat output that other ranks have buffered */
    is_alone =
        base_fork_begin(); /* after the handlers: they may wait for a thread that makes the text of an error */
    lock_all(libc);
    has_begun = is_alone;
}

static void after_fork(void)
{
    struct image_libc *libc = image_libc_current();
    bool was_alone = has_begun;

    if (!libc)
        return;
    unlock_all(libc);
    base_fork_end(was_alone);
    if (!runs_handlers)
        go_on(libc, n_called);
}

static void begin_child(void)
{
    struct image_libc *libc = image_libc_current();
    size_t n = n_called;

    is_child = true;
    runs_handlers = false;
    process_pid = getpid();
    base_loader_renew();
    base_fork_leave();
    image_thread_stay();
    if (image_rebind_client.forked)
        image_rebind_client.forked();
    if (!libc)
        return;
    unlock_all(libc);
    image_mask_leave(&mask_others);
    libc->n_children = 0;
    image_locks_forget();
    note_streams();
    for (size_t i = 0; i < n; i++)
        if (libc->fork_handlers[i].child)
            libc->fork_handlers[i].child();
}

__attribute__((constructor)) static void watch_forks(void)
{
    process_pid = getpid();
    pthread_atfork(before_fork, after_fork, begin_child);
}

bool image_shares_memory(void)
{
    return getpid() != process_pid;
}

bool image_is_forked_child(void)
{
    return is_child || image_shares_memory();
}

/* ---- Children ---- */

static void add_child(struct image_libc *libc, pid_t pid)
{
    pid_t *children;

    image_libc_lock(libc);
    children = realloc(libc->children, (libc->n_children + 1) * sizeof *children);
    if (children) { /* otherwise it can only be waited for by pid */
        children[libc->n_children++] = pid;
        libc->children = children;
    }
    image_libc_unlock(libc);
}

static void remove_child(struct image_libc *libc, pid_t pid)
{
    image_libc_lock(libc);
    for (size_t i = 0; i < libc->n_children; i++)
        if (libc->children[i] == pid) {
            libc->children[i] = libc->children[--libc->n_children];
            break;
        }
    image_libc_unlock(libc);
}

/* A child may ask for its parent's number, which the rank has from now on. */
static void choose_number(void)
{
    struct image_libc *libc = image_is_forked_child() ? NULL : image_libc_current();

    if (libc)
        image_pid_of(libc);
}

/* Records the child, if the caller belongs to a rank. */
static void note_child(pid_t pid)
{
    struct image_libc *libc = is_child ? NULL : image_libc_current();

    if (libc && pid > 0)
        add_child(libc, pid);
}

static pid_t image_libc_fork(void)
{
    struct image_libc *libc = image_libc_current();
    size_t n = libc ? libc->n_fork_handlers : 0;
    bool is_locked = true;
    int error;
    pid_t pid;

    choose_number();
    /* The lock is not held during the parent's handlers: while one waits for a mutex, another rank of the PE may fork. It is not
     * taken in before_fork: older C libraries hold a lock there that constructors may need. */
    if (libc && prepare(libc, n))
        is_locked = base_loader_try_lock();
    else
        base_loader_lock();
    n_called = n;
    runs_handlers = libc != NULL;
    pid = fork();
    error = errno;
    runs_handlers = false;
    if (pid != 0 && is_locked)
        base_loader_unlock();
    note_child(pid);
    if (pid != 0 && libc)
        go_on(libc, n);
    errno = error;
    return pid;
}
IMAGE_REBINDS(image_libc_fork, "fork", "__fork");

/* _Fork calls no handlers, but the child counts all the same. */
static pid_t image_libc__Fork(void)
{
    sigset_t own, others;
    pid_t pid;

    choose_number();
    image_mask_of_others(&own, &others);
    pid = _Fork();
    if (pid == 0) {
        is_child = true;
        image_mask_leave(&others);
        base_fork_leave();
        image_signals_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* sigaction may be called */
        image_thread_stay();
        if (image_rebind_client.forked)
            image_rebind_client.forked();
    }
    note_child(pid);
    return pid;
}
IMAGE_REBINDS(image_libc__Fork, "_Fork");

typedef int (*spawn_fn)(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const *argv, char *const *env);

const posix_spawnattr_t *image_mask_for_spawn(const posix_spawnattr_t *attributes, posix_spawnattr_t *changed)
{
    short flags = 0;
    sigset_t own, others;

    if (image_is_forked_child() || !image_mask_of_others(&own, &others))
        return attributes;
    if (attributes)
        *changed = *attributes;
    else if (posix_spawnattr_init(changed) != 0)
        return NULL;
    posix_spawnattr_getflags(changed, &flags);
    if (flags & POSIX_SPAWN_SETSIGMASK)
        return attributes;
    posix_spawnattr_setflags(changed, flags | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(changed, &own);
    return changed;
}

/* posix_spawn or posix_spawnp for code at caller's address. */
static int spawn_child(spawn_fn spawn, pid_t *pid, const char *file,
                       const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                       char *const *argv, char *const *env, const void *caller)
{
    char entry[IMAGE_CHILD_ENTRY_MAX];
    char *const *env_made = image_child_env(env, entry, caller);
    posix_spawnattr_t changed; /* needs no end: the C library's holds no memory */
    pid_t made = -1;
    int error = spawn(&made, file, actions, image_mask_for_spawn(attributes, &changed), argv, env_made);

    image_child_env_drop(env, env_made);
    if (!error)
        note_child(made);
    if (!error && pid)
        *pid = made;
    return error;
}

static int image_libc_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                                  const posix_spawnattr_t *attributes, char *const *argv, char *const *env)
{
    return spawn_child(posix_spawn, pid, path, actions, attributes, argv, env, __builtin_return_address(0));
}
IMAGE_REBINDS(image_libc_posix_spawn, "posix_spawn");

static int image_libc_posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                                   const posix_spawnattr_t *attributes, char *const *argv, char *const *env)
{
    return spawn_child(posix_spawnp, pid, file, actions, attributes, argv, env, __builtin_return_address(0));
}
IMAGE_REBINDS(image_libc_posix_spawnp, "posix_spawnp");

/* ---- Waiting for them ---- */

/* Polls each of the rank's children once. 0: none has changed; -1 and ECHILD: there are none. */
static pid_t poll_children(struct image_libc *libc, int *status, int options, struct rusage *usage)
{
    size_t i = 0;

    while (i < libc->n_children) {
        pid_t pid = libc->children[i];
        pid_t found = wait4(pid, status, options | WNOHANG, usage);

        if (found > 0)
            return found;
        if (found < 0 && errno == ECHILD)
            remove_child(libc, pid); /* waited for by pid already */
        else
            i++;
    }
    errno = ECHILD;
    return libc->n_children > 0 ? 0 : -1;
}

/* Waits for any child of the rank. */
static pid_t wait_for_any(struct image_libc *libc, int *status, int options, struct rusage *usage)
{
    struct image_wait wait = {0};
    pid_t found;

    while ((found = poll_children(libc, status, options, usage)) == 0 && !(options & WNOHANG)) {
        if (image_wait_is_interrupted(&wait, true))
            return -1;
        image_cancel_point();
        if (image_can_wait())
            image_wait_pause(&wait);
        else
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return found;
}

static pid_t image_libc_wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
    struct image_libc *libc = is_child ? NULL : image_libc_current();
    int own_status = 0;
    pid_t found;

    if (!libc)
        return wait4(pid, status, options, usage);
    found = pid == -1 ? wait_for_any(libc, &own_status, options, usage)
                      : image_wait_for_child(pid, &own_status, options, usage);
    if (found > 0 && (WIFEXITED(own_status) || WIFSIGNALED(own_status)))
        remove_child(libc, found);
    if (found > 0 && status)
        *status = own_status;
    return found;
}
IMAGE_REBINDS(image_libc_wait4, "wait4");

static pid_t image_libc_wait(int *status)
{
    return image_libc_wait4(-1, status, 0, NULL);
}
IMAGE_REBINDS(image_libc_wait, "wait", "__wait");

static pid_t image_libc_wait3(int *status, int options, struct rusage *usage)
{
    return image_libc_wait4(-1, status, options, usage);
}
IMAGE_REBINDS(image_libc_wait3, "wait3");

static pid_t image_libc_waitpid(pid_t pid, int *status, int options)
{
    return image_libc_wait4(pid, status, options, NULL);
}
IMAGE_REBINDS(image_libc_waitpid, "waitpid", "__waitpid");

/* Polls the children that waitid is asked for. The result has si_pid 0 if none has changed. */
static int poll_by_kind(struct image_libc *libc, idtype_t kind, id_t id, siginfo_t *result, int options)
{
    int code = -1;

    memset(result, 0, sizeof *result);
    if (kind != P_ALL)
        return waitid(kind, id, result, options | WNOHANG);
    errno = ECHILD;
    for (size_t i = 0; i < libc->n_children && result->si_pid == 0; i++)
        if (waitid(P_PID, (id_t)libc->children[i], result, options | WNOHANG) == 0)
            code = 0;
    return code;
}

static int image_libc_waitid(idtype_t kind, id_t id, siginfo_t *result_out, int options)
{
    struct image_libc *libc = is_child ? NULL : image_libc_current();
    struct image_wait wait = {0};
    siginfo_t result;
    int code;

    if (!libc)
        return waitid(kind, id, result_out, options);
    while ((code = poll_by_kind(libc, kind, id, &result, options)) == 0 && result.si_pid == 0 &&
           !(options & WNOHANG)) {
        if (image_wait_is_interrupted(&wait, true))
            return -1;
        image_cancel_point();
        if (image_can_wait())
            image_wait_pause(&wait);
        else
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (code == 0 && result.si_pid && !(options & WNOWAIT) &&
        (result.si_code == CLD_EXITED || result.si_code == CLD_KILLED || result.si_code == CLD_DUMPED))
        remove_child(libc, result.si_pid);
    if (code == 0 && result_out)
        *result_out = result;
    return code;
}
IMAGE_REBINDS(image_libc_waitid, "waitid");
