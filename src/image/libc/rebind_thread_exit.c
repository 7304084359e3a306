/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_thread_exit.c: pthread_exit and cancellation of a rank's main thread, which is a ULT.
 *
 * libc's functions would end the PE's thread, with all its ranks. Here the ULT's stack is unwound in libc's
 * way: C++ destructors and handlers of pthread_cleanup_push run, then destructors of thread_local objects
 * and of keys. When the rank's other threads have ended, too, the rank calls exit(0). The rank's other
 * threads use libc's functions.
 *
 * A C program without -fexceptions keeps its handlers in a list of jump buffers on the stack. Unwinding
 * jumps to a buffer, and __pthread_unwind_next returns from there. libc keeps that list per OS thread; here
 * it is per ULT.
 *
 * exit() on another thread runs the handlers there and ends the rank on its own stack, as an errand. A main
 * thread that lets no others run for ten seconds ends the job; a signal could stop it while it holds a lock
 * of the C library, which all ranks need.
 */
#include "image/copy/threads.h"
#include "image/libc/rebind.h"

#include "base/loader_lock.h"
#include "base/log.h"
#include "image/copy/instantiate.h"
#include "image/copy/precedence.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef _Unwind_Reason_Code (*forced_unwind_fn)(struct _Unwind_Exception *, _Unwind_Stop_Fn, void *);
typedef _Unwind_Word (*get_cfa_fn)(struct _Unwind_Context *);

/* The calling ULT's state; NULL: the caller is another thread, or a forked process. */
static struct image_thread *main_thread(void)
{
    return image_is_on_rank() ? image_thread_current() : NULL;
}

/* ---- Ending the main thread ---- */

static void finish(struct image_thread *thread) BASE_NORETURN;
static void finish(struct image_thread *thread)
{
    struct image_libc *libc = image_libc_of(thread->image);
    struct image_wait wait = {0};

    image_handlers_run(&thread->at_exit, NULL, 0);
    for (int i = 0; i < PTHREAD_DESTRUCTOR_ITERATIONS && image_keys_destroy_values(thread); i++)
        ;
    atomic_store(&libc->is_main_over, true);
    while (atomic_load(&libc->n_threads) > 0)
        image_wait_pause(&wait);
    image_libc_exit(0);
}

static get_cfa_fn get_cfa;

/* The buffer is a jmp_buf without the signal mask, so its type is smaller; volatile hides this from the
 * compiler. */
static void (*const volatile jump)(struct __jmp_buf_tag *, int) = siglongjmp;

/* Called for each frame, the innermost first, before its destructors run. */
static _Unwind_Reason_Code stop_at_handlers(int version, _Unwind_Action actions,
                                            _Unwind_Exception_Class exception_class,
                                            struct _Unwind_Exception *exception,
                                            struct _Unwind_Context *context, void *arg)
{
    struct image_thread *thread = arg;
    bool is_last = actions & _UA_END_OF_STACK;
    __pthread_unwind_buf_t *buffer = thread->cleanup;

    /* Beyond the buffer's frame: its function has a handler to call. */
    if (buffer && (is_last || (uintptr_t)buffer < get_cfa(context))) {
        thread->cleanup = buffer->__pad[0];
        jump((struct __jmp_buf_tag *)(void *)buffer->__cancel_jmp_buf, 1);
    }
    if (is_last)
        finish(thread);
    return _URC_NO_REASON;
}

static void refuse_catch(_Unwind_Reason_Code reason, struct _Unwind_Exception *exception)
{
    image_libc_abort(); /* as in libc: catch (...) has to rethrow */
}

static void unwind(struct image_thread *thread) BASE_NORETURN;
static void unwind(struct image_thread *thread)
{
    void *library;
    forced_unwind_fn force;

    base_loader_lock();
    library = dlopen("libgcc_s.so.1", RTLD_NOW);
    base_loader_unlock();
    force = library ? (forced_unwind_fn)dlsym(library, "_Unwind_ForcedUnwind") : NULL;
    get_cfa = library ? (get_cfa_fn)dlsym(library, "_Unwind_GetCFA") : NULL;
    if (!force || !get_cfa)
        base_fatal(1, "pthread_exit needs libgcc_s.so.1: %s", dlerror());
    thread->exception.exception_cleanup = refuse_catch;
    force(&thread->exception, stop_at_handlers, thread);
    finish(thread); /* the stack cannot be unwound */
}

static BASE_NORETURN void image_libc_pthread_exit(void *value)
{
    struct image_thread *thread = main_thread();

    if (!thread)
        pthread_exit(value);
    image_libc_of(thread->image)->main_value = value;
    thread->is_cancel_disabled = true;
    unwind(thread);
}
IMAGE_REBINDS(image_libc_pthread_exit, "pthread_exit");

static BASE_NORETURN void image_libc_thrd_exit(int result)
{
    image_libc_pthread_exit((void *)(intptr_t)result);
}
IMAGE_REBINDS(image_libc_thrd_exit, "thrd_exit");

/* ---- Cleanup handlers ---- */

static void image_libc_register_cancel(__pthread_unwind_buf_t *buffer)
{
    struct image_thread *thread = main_thread();

    if (!thread) {
        __pthread_register_cancel(buffer);
        return;
    }
    buffer->__pad[0] = thread->cleanup;
    thread->cleanup = buffer;
}
IMAGE_REBINDS(image_libc_register_cancel, "__pthread_register_cancel");

static void image_libc_unregister_cancel(__pthread_unwind_buf_t *buffer)
{
    struct image_thread *thread = main_thread();

    if (thread)
        thread->cleanup = buffer->__pad[0];
    else
        __pthread_unregister_cancel(buffer);
}
IMAGE_REBINDS(image_libc_unregister_cancel, "__pthread_unregister_cancel");

static void image_libc_register_cancel_defer(__pthread_unwind_buf_t *buffer)
{
    int old;

    if (!main_thread()) {
        __pthread_register_cancel_defer(buffer);
        return;
    }
    image_libc_register_cancel(buffer);
    image_libc_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old);
    buffer->__pad[1] = (void *)(intptr_t)old;
}
IMAGE_REBINDS(image_libc_register_cancel_defer, "__pthread_register_cancel_defer");

static void image_libc_unregister_cancel_restore(__pthread_unwind_buf_t *buffer)
{
    if (!main_thread()) {
        __pthread_unregister_cancel_restore(buffer);
        return;
    }
    image_libc_unregister_cancel(buffer);
    image_libc_setcanceltype((int)(intptr_t)buffer->__pad[1], NULL);
}
IMAGE_REBINDS(image_libc_unregister_cancel_restore, "__pthread_unregister_cancel_restore");

/* Called after the handler that the unwinding jumped to. */
static BASE_NORETURN void image_libc_unwind_next(__pthread_unwind_buf_t *buffer)
{
    struct image_thread *thread = main_thread();

    if (!thread)
        __pthread_unwind_next(buffer);
    unwind(thread);
}
IMAGE_REBINDS(image_libc_unwind_next, "__pthread_unwind_next");

/* ---- Cancellation ---- */

bool image_cancel_is_due(void)
{
    struct image_thread *thread = main_thread();

    return thread && atomic_load(&thread->is_cancelled) && !thread->is_cancel_disabled;
}

void image_cancel_point(void)
{
    if (image_cancel_is_due())
        image_libc_pthread_exit(PTHREAD_CANCELED);
}

void image_cancel_watch(pthread_cond_t *condition)
{
    struct image_libc *libc = image_libc_current();

    pthread_mutex_lock(&libc->lock);
    libc->main_thread.condition = condition;
    pthread_mutex_unlock(&libc->lock);
}

/* Repeats the wake-up until the main thread leaves the wait: it may have to get the mutex first, or not wait yet. */
static void *wake_main(void *arg)
{
    struct image_libc *libc = arg;

    for (bool waits = true; waits; nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL)) {
        pthread_mutex_lock(&libc->lock);
        waits = libc->main_thread.condition;
        if (waits)
            pthread_cond_broadcast(libc->main_thread.condition);
        pthread_mutex_unlock(&libc->lock);
    }
    return NULL;
}

static void image_libc_testcancel(void)
{
    image_cancel_point();
    if (!main_thread())
        pthread_testcancel();
}
IMAGE_REBINDS(image_libc_testcancel, "pthread_testcancel");

/* The caller's rank, if this is its main thread. */
static struct image_libc *rank_of_main(pthread_t thread)
{
    struct image_libc *libc = image_is_forked_child() ? NULL : image_libc_current();

    return libc && pthread_equal(libc->main_id, thread) ? libc : NULL;
}

static int image_libc_cancel(pthread_t target)
{
    struct image_libc *libc = rank_of_main(target);
    pthread_t helper;

    if (!libc)
        return pthread_cancel(target);
    atomic_store(&libc->main_thread.is_cancelled, true);
    if (!main_thread() && image_rebind_client.end_await)
        image_rebind_client.end_await(libc->main_thread.image);
    if (!main_thread() && !libc->main_thread.is_cancel_disabled &&
        image_start_helper(&helper, wake_main, libc) == 0)
        pthread_detach(helper);
    if (main_thread() && libc->main_thread.is_cancel_asynchronous)
        image_cancel_point();
    return 0;
}
IMAGE_REBINDS(image_libc_cancel, "pthread_cancel");

int image_libc_setcancelstate(int state, int *old)
{
    struct image_thread *thread = main_thread();

    if (!thread)
        return pthread_setcancelstate(state, old);
    if (state != PTHREAD_CANCEL_ENABLE && state != PTHREAD_CANCEL_DISABLE)
        return EINVAL;
    if (old)
        *old = thread->is_cancel_disabled ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE;
    thread->is_cancel_disabled = state == PTHREAD_CANCEL_DISABLE;
    if (thread->is_cancel_asynchronous)
        image_cancel_point();
    return 0;
}
IMAGE_REBINDS(image_libc_setcancelstate, "pthread_setcancelstate");

int image_libc_setcanceltype(int type, int *old)
{
    struct image_thread *thread = main_thread();

    if (!thread)
        return pthread_setcanceltype(type, old);
    if (type != PTHREAD_CANCEL_DEFERRED && type != PTHREAD_CANCEL_ASYNCHRONOUS)
        return EINVAL;
    if (old)
        *old = thread->is_cancel_asynchronous ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED;
    thread->is_cancel_asynchronous = type == PTHREAD_CANCEL_ASYNCHRONOUS;
    if (thread->is_cancel_asynchronous)
        image_cancel_point();
    return 0;
}
IMAGE_REBINDS(image_libc_setcanceltype, "pthread_setcanceltype");

/* ---- Signals ---- */

/* The kernel's id of the OS thread of `target`, if that is the main thread of the caller's rank; else 0. */
static pid_t tid_of_main(pthread_t target)
{
    struct image_libc *libc = rank_of_main(target);

    atomic_int place = 0;

    return libc && image_rebind_client.main_tid
               ? image_rebind_client.main_tid(libc->main_thread.image, &place)
               : 0;
}

static int image_libc_pthread_sigqueue(pthread_t target, int number, const union sigval value)
{
    struct image_libc *libc = image_is_forked_child() ? NULL : image_libc_current();
    pid_t tid = tid_of_main(target);

    if (!tid && libc && pthread_equal(target, pthread_self()))
        tid = gettid();
    if (!tid)
        return pthread_sigqueue(target, number, value);
    return image_signals_send(libc, tid, number, &value) == 0 ? 0 : errno;
}
IMAGE_REBINDS(image_libc_pthread_sigqueue, "pthread_sigqueue");

/* The thread of the rank's ULT may run another rank now. */
static int image_libc_pthread_kill(pthread_t target, int number)
{
    pid_t tid = tid_of_main(target);

    if (!tid)
        return pthread_kill(target, number);
    if (!number)
        return syscall(SYS_tgkill, getpid(), tid, 0) == 0 ? 0 : errno;
    return image_signals_send(rank_of_main(target), tid, number, NULL) == 0 ? 0 : errno;
}
IMAGE_REBINDS(image_libc_pthread_kill, "pthread_kill");

/* ---- The clock of a thread's CPU time ---- */

/* How the kernel numbers such clocks: the thread's id, inverted, above these bits. */
#define CLOCK_ID_BITS 3
#define CLOCK_OF_THREAD 6

/* The clock of the OS thread that runs the rank now, as CLOCK_THREAD_CPUTIME_ID is on it. */
static int image_libc_getcpuclockid(pthread_t target, clockid_t *clock_out)
{
    pid_t tid = tid_of_main(target);

    if (!tid)
        return pthread_getcpuclockid(target, clock_out);
    *clock_out = (clockid_t)(~(unsigned)tid << CLOCK_ID_BITS | CLOCK_OF_THREAD);
    return 0;
}
IMAGE_REBINDS(image_libc_getcpuclockid, "pthread_getcpuclockid");

/* ---- Joining ---- */

static int image_libc_tryjoin(pthread_t thread, void **value_out)
{
    struct image_libc *libc = rank_of_main(thread);

    if (!libc)
        return pthread_tryjoin_np(thread, value_out);
    if (!atomic_load(&libc->is_main_over))
        return EBUSY;
    if (value_out)
        *value_out = libc->main_value;
    return 0;
}
IMAGE_REBINDS(image_libc_tryjoin, "pthread_tryjoin_np");

/* Without a time limit if end is NULL. caller: the address of the call. */
static int wait_to_join(pthread_t thread, void **value_out, clockid_t clock, const struct timespec *end,
                        const void *caller)
{
    bool is_rank = image_can_wait();
    struct image_wait wait = {0};
    int error;

    if (image_is_on_rank() && rank_of_main(thread))
        return EDEADLK;
    while ((error = image_libc_tryjoin(thread, value_out)) == EBUSY) {
        image_cancel_point();
        if (end && image_is_over(clock, end))
            return end->tv_nsec < 0 || end->tv_nsec >= 1000000000 ? EINVAL : ETIMEDOUT;
        if (is_rank &&
            (end || !image_rebind_client.await_call || !image_rebind_client.await_call(thread, caller)))
            image_wait_pause(&wait);
        else if (!is_rank)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return error;
}

/* Only polling knows when a rank's main thread ends. */
static bool must_poll(pthread_t thread)
{
    return image_can_wait() || rank_of_main(thread);
}

/* The C library's function: that of takeover_threads.c would call image_libc_join_from again. */
int image_libc_join_blocking(pthread_t thread, void **value_out)
{
    typedef int (*join_fn)(pthread_t thread, void **value_out);
    static _Atomic(join_fn) found;
    join_fn real = atomic_load_explicit(&found, memory_order_relaxed);

    if (!real) {
        real = (join_fn)image_precedence_next("pthread_join");
        if (!real)
            base_fatal(1, "the C library has no pthread_join; is this glibc?");
        atomic_store_explicit(&found, real, memory_order_relaxed);
    }
    return real(thread, value_out);
}

/* A time that never comes. */
#define NEVER_S ((time_t)1 << 40)

static void end_join(void *arg)
{
    image_rebind_client.join_ends(arg);
}

/* Deadlocks are found meanwhile. Waits by a function that sanitizers know, and that is a cancellation point. */
static int join_watched(pthread_t thread, void **value_out, struct image_join *join)
{
    const struct timespec never = {.tv_sec = NEVER_S};
    int error;

    pthread_cleanup_push(end_join, join);
    error = pthread_timedjoin_np(thread, value_out, &never);
    pthread_cleanup_pop(1);
    return error;
}

int image_libc_join_from(pthread_t thread, void **value_out, const void *caller)
{
    struct image_join join;

    if (must_poll(thread))
        return wait_to_join(thread, value_out, 0, NULL, caller);
    if (!image_is_on_rank() && image_rebind_client.join_begins &&
        image_rebind_client.join_begins(&join, thread, caller))
        return join_watched(thread, value_out, &join);
    return image_libc_join_blocking(thread, value_out);
}

int image_libc_join(pthread_t thread, void **value_out)
{
    return image_libc_join_from(thread, value_out, __builtin_return_address(0));
}
IMAGE_REBINDS(image_libc_join, "pthread_join");

static int image_libc_clockjoin(pthread_t thread, void **value_out, clockid_t clock,
                                const struct timespec *end)
{
    if (!end || !must_poll(thread) || (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC))
        return end ? pthread_clockjoin_np(thread, value_out, clock, end) : image_libc_join(thread, value_out);
    return wait_to_join(thread, value_out, clock, end, NULL);
}
IMAGE_REBINDS(image_libc_clockjoin, "pthread_clockjoin_np");

static int image_libc_timedjoin(pthread_t thread, void **value_out, const struct timespec *end)
{
    return image_libc_clockjoin(thread, value_out, CLOCK_REALTIME, end);
}
IMAGE_REBINDS(image_libc_timedjoin, "pthread_timedjoin_np");

static int image_libc_thrd_join(thrd_t thread, int *result_out)
{
    void *value = NULL;

    if (image_libc_join(thread, &value) != 0)
        return thrd_error;
    if (result_out)
        *result_out = (int)(intptr_t)value;
    return thrd_success;
}
IMAGE_REBINDS(image_libc_thrd_join, "thrd_join");
