/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_sync.c: mutexes, semaphores, barriers and condition variables that several processes use, in shared windows for
 * example. A rank that waits for one lets others of its PE run, which may be those that it waits for. So does a rank's main
 * thread that waits for its other threads, unless the PE is shared: then the PE gets another OS thread (ult/carrier.c).
 *
 * The objects are libc's own, because processes with one rank and other programs use them unchanged. If libc has a call that
 * tries, the rank polls. For barriers and condition variables it has none, so a thread waits for the rank. That thread takes the
 * mutex of a condition variable in the rank's name, and is its owner meanwhile.
 *
 * Objects that are not shared between processes serve the rank's own threads alone: if it has none, or no other rank waits for
 * the PE, libc's functions are called. A recursive mutex does not exclude ranks of the same PE if their threads have the same number
 * (decision 37); nor do the checks for a deadlock know them apart, so only objects of one rank's threads are checked.
 */
#include "image/libc/rebind.h"

#include <errno.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Bits of pthread_mutex_t.__data.__kind, part of libc's binary interface. */
#define MUTEX_SHARED 128
#define MUTEX_KINDS 127
#define MUTEX_NORMAL 0
#define MUTEX_CHECKING 2
#define MUTEX_ADAPTIVE 3

/* ---- Is an object shared? ---- */

/* Bits of an object by which libc knows that processes share it. */
struct mark {
    size_t offset;        /* of a word */
    uint32_t mask, value; /* mask 0: not known */
};

static struct mark semaphore_mark, barrier_mark, condition_mark;
static pthread_once_t marks_once = PTHREAD_ONCE_INIT;

/* Finds the first word in which a shared and another object differ. */
static struct mark find_mark(const void *shared, const void *other, size_t n_bytes)
{
    for (size_t at = 0; at + sizeof(uint32_t) <= n_bytes; at += sizeof(uint32_t)) {
        uint32_t a, b;

        memcpy(&a, (const char *)shared + at, sizeof a);
        memcpy(&b, (const char *)other + at, sizeof b);
        if (a != b)
            return (struct mark){at, a ^ b, a & (a ^ b)};
    }
    return (struct mark){0};
}

static void find_marks(void)
{
    sem_t semaphores[2];
    pthread_barrier_t barriers[2];
    pthread_cond_t conditions[2];
    pthread_barrierattr_t barrier_attributes;
    pthread_condattr_t condition_attributes;

    memset(semaphores, 0, sizeof semaphores);
    memset(barriers, 0, sizeof barriers);
    memset(conditions, 0, sizeof conditions);
    pthread_barrierattr_init(&barrier_attributes);
    pthread_condattr_init(&condition_attributes);
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        pthread_barrierattr_setpshared(&barrier_attributes, is_shared);
        pthread_condattr_setpshared(&condition_attributes, is_shared);
        sem_init(&semaphores[is_shared], is_shared, 0);
        pthread_barrier_init(&barriers[is_shared], &barrier_attributes, 1);
        pthread_cond_init(&conditions[is_shared], &condition_attributes);
    }
    semaphore_mark = find_mark(&semaphores[1], &semaphores[0], sizeof semaphores[0]);
    barrier_mark = find_mark(&barriers[1], &barriers[0], sizeof barriers[0]);
    condition_mark = find_mark(&conditions[1], &conditions[0], sizeof conditions[0]);
}

/* True if the caller may wait for the object, which processes share. */
static bool is_shared(const void *object, const struct mark *mark)
{
    uint32_t word;

    if (!image_can_wait())
        return false;
    pthread_once(&marks_once, find_marks);
    memcpy(&word, (const char *)object + mark->offset, sizeof word);
    return mark->mask && (word & mark->mask) == mark->value;
}

/* True if the caller is the main thread of a rank that has others. */
static bool has_threads(void)
{
    return image_can_wait() && atomic_load(&image_libc_current()->has_threads);
}

/* True if other ranks would wait while the caller, a rank's main thread, waits. */
static bool holds_pe(void)
{
    return image_can_wait() && image_rebind_client.holds_others && image_rebind_client.holds_others();
}

/* The same for a wait for its own threads. */
static bool holds_others(void)
{
    return has_threads() && holds_pe();
}

static bool lets_others_run(const void *object, const struct mark *mark)
{
    return is_shared(object, mark) || holds_others();
}

bool image_is_over(clockid_t clock, const struct timespec *end)
{
    struct timespec now;

    if ((clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) || clock_gettime(clock, &now) != 0)
        return true;
    return end->tv_nsec < 0 || end->tv_nsec >= 1000000000 || now.tv_sec > end->tv_sec ||
           (now.tv_sec == end->tv_sec && now.tv_nsec >= end->tv_nsec);
}

static int try_semaphore(void *semaphore);

/* Polls with a function that returns EBUSY while the caller must wait. Returns its result, EBUSY if the time is over. */
BASE_NOINLINE static int poll_object(int (*try)(void *object), void *object, clockid_t clock,
                                     const struct timespec *end)
{
    struct image_wait wait = {0};
    int error = EBUSY;

    while (!(end && image_is_over(clock, end)) && (error = try(object)) == EBUSY) {
        if (try == try_semaphore && image_wait_is_interrupted(&wait, !end))
            return EINTR;
        image_wait_pause(&wait);
    }
    return error;
}

/* The functions with a time limit of a family, by one that takes both. */
#define WAITS_UNTIL(type, clock_function, timed_function, wait)                                       \
    static int image_libc_##clock_function(type *object, clockid_t clock, const struct timespec *end) \
    {                                                                                                 \
        return wait(object, clock, end);                                                              \
    }                                                                                                 \
    IMAGE_REBINDS(image_libc_##clock_function, #clock_function);                                      \
    static int image_libc_##timed_function(type *object, const struct timespec *end)                  \
    {                                                                                                 \
        return wait(object, CLOCK_REALTIME, end);                                                     \
    }                                                                                                 \
    IMAGE_REBINDS(image_libc_##timed_function, #timed_function)

/* libc's functions that wait find deadlocks, those that try do not. With this time limit they do not wait. */
static const struct timespec past;

static int without_limit(int error)
{
    return error == ETIMEDOUT ? EBUSY : error;
}

/* ---- Mutexes ---- */

static int try_mutex(void *object)
{
    pthread_mutex_t *mutex = object;

    if ((mutex->__data.__kind & (MUTEX_SHARED | MUTEX_KINDS)) == MUTEX_CHECKING)
        return without_limit(pthread_mutex_timedlock(mutex, &past));
    return pthread_mutex_trylock(mutex);
}

/* Without a time limit if `end` is NULL, as below. */
static int wait_for_mutex(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *end)
{
    int kind = mutex->__data.__kind & (MUTEX_SHARED | MUTEX_KINDS), error = EBUSY;

    if (kind & MUTEX_SHARED ? image_can_wait() : kind <= MUTEX_ADAPTIVE && holds_others())
        error = poll_object(try_mutex, mutex, clock, end);
    if (error != EBUSY)
        return error;
    return end ? pthread_mutex_clocklock(mutex, clock, end) : pthread_mutex_lock(mutex);
}

static int image_libc_mutex_lock(pthread_mutex_t *mutex)
{
    int kind = mutex->__data.__kind & (MUTEX_SHARED | MUTEX_KINDS);

    return kind <= MUTEX_ADAPTIVE && pthread_mutex_trylock(mutex) == 0 ? 0 : wait_for_mutex(mutex, 0, NULL);
}
IMAGE_REBINDS(image_libc_mutex_lock, "pthread_mutex_lock", "__pthread_mutex_lock");

WAITS_UNTIL(pthread_mutex_t, pthread_mutex_clocklock, pthread_mutex_timedlock, wait_for_mutex);

/* ---- Read-write locks ---- */

static bool lets_others_lock(const pthread_rwlock_t *lock)
{
    return lock->__data.__shared ? image_can_wait() : holds_others();
}

/* The functions that lock for reading, or for writing. */
#define LOCKS(what)                                                                                 \
    static int try_##what(void *object)                                                             \
    {                                                                                               \
        pthread_rwlock_t *lock = object;                                                            \
                                                                                                    \
        return lock->__data.__shared ? pthread_rwlock_try##what(lock)                               \
                                     : without_limit(pthread_rwlock_timed##what(lock, &past));      \
    }                                                                                               \
    static int wait_for_##what(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *end) \
    {                                                                                               \
        int error = lets_others_lock(lock) ? poll_object(try_##what, lock, clock, end) : EBUSY;     \
                                                                                                    \
        if (error != EBUSY)                                                                         \
            return error;                                                                           \
        return end ? pthread_rwlock_clock##what(lock, clock, end) : pthread_rwlock_##what(lock);    \
    }                                                                                               \
    static int image_libc_rwlock_##what(pthread_rwlock_t *lock)                                     \
    {                                                                                               \
        return pthread_rwlock_try##what(lock) == 0 ? 0 : wait_for_##what(lock, 0, NULL);            \
    }                                                                                               \
    IMAGE_REBINDS(image_libc_rwlock_##what, "pthread_rwlock_" #what, "__pthread_rwlock_" #what);    \
    WAITS_UNTIL(pthread_rwlock_t, pthread_rwlock_clock##what, pthread_rwlock_timed##what, wait_for_##what)

LOCKS(rdlock);
LOCKS(wrlock);

/* ---- Semaphores ---- */

static int try_semaphore(void *semaphore)
{
    if (sem_trywait(semaphore) == 0)
        return 0;
    image_cancel_point();
    return errno == EAGAIN ? EBUSY : errno;
}

/* How often a main thread that waits in the C library looks whether it was cancelled. */
#define LOOK_NS 20000000

/* A handler of the rank may run on another OS thread, or between two looks: then no call returns EINTR. */
static int wait_until_cancelled(sem_t *semaphore, clockid_t clock, const struct timespec *end)
{
    struct image_handled before = image_handled_now(), now;
    clockid_t used = end ? clock : CLOCK_MONOTONIC;
    struct timespec look;

    for (;;) {
        image_cancel_point();
        clock_gettime(used, &look);
        look.tv_sec += (look.tv_nsec + LOOK_NS) / 1000000000;
        look.tv_nsec = (look.tv_nsec + LOOK_NS) % 1000000000;
        if (end && (image_is_over(used, end) || end->tv_sec < look.tv_sec ||
                    (end->tv_sec == look.tv_sec && end->tv_nsec < look.tv_nsec)))
            return sem_clockwait(semaphore, clock, end);
        if (sem_clockwait(semaphore, used, &look) == 0)
            return 0;
        now = image_handled_now();
        if ((errno != ETIMEDOUT && errno != EINTR) || (errno == EINTR && end))
            return -1;
        if (end ? now.n_handled != before.n_handled : now.n_interrupts != before.n_interrupts) {
            errno = EINTR;
            return -1;
        }
    }
}

static int wait_for_semaphore(sem_t *semaphore, clockid_t clock, const struct timespec *end)
{
    int error = EBUSY;

    image_cancel_point();
    if (lets_others_run(semaphore, &semaphore_mark))
        error = poll_object(try_semaphore, semaphore, clock, end);
    else if (has_threads())
        return wait_until_cancelled(semaphore, clock, end);
    if (error == EBUSY)
        return end ? sem_clockwait(semaphore, clock, end) : sem_wait(semaphore);
    if (error)
        errno = error;
    return error ? -1 : 0;
}

static int image_libc_sem_wait(sem_t *semaphore)
{
    return wait_for_semaphore(semaphore, 0, NULL);
}
IMAGE_REBINDS(image_libc_sem_wait, "sem_wait");

WAITS_UNTIL(sem_t, sem_clockwait, sem_timedwait, wait_for_semaphore);

/* ---- Barriers and condition variables ---- */

static int wait_at_barrier(void *barrier)
{
    return pthread_barrier_wait(barrier);
}

static int image_libc_barrier_wait(pthread_barrier_t *barrier)
{
    return lets_others_run(barrier, &barrier_mark) ? image_wait_on_thread(wait_at_barrier, barrier)
                                                   : pthread_barrier_wait(barrier);
}
IMAGE_REBINDS(image_libc_barrier_wait, "pthread_barrier_wait");

/* The arguments of pthread_cond_clockwait. */
struct condition_wait {
    pthread_cond_t *condition;
    pthread_mutex_t *mutex;
    const struct timespec *end; /* NULL: no limit */
    clockid_t clock;            /* of `end`; -1: the condition variable's */
};

static int wait_for_condition(void *arg)
{
    const struct condition_wait *wait = arg;

    if (!wait->end)
        return pthread_cond_wait(wait->condition, wait->mutex);
    return wait->clock == -1 ? pthread_cond_timedwait(wait->condition, wait->mutex, wait->end)
                             : pthread_cond_clockwait(wait->condition, wait->mutex, wait->clock, wait->end);
}

/* True if the caller may have its mutex unlocked by another thread: it has it, or the kind of mutex does not tell. */
static bool may_lend(pthread_mutex_t *mutex, int kind)
{
    int error;

    if (kind == MUTEX_NORMAL || kind == MUTEX_ADAPTIVE)
        return true;
    if (kind > MUTEX_ADAPTIVE || !mutex->__data.__owner)
        return false;
    error = pthread_mutex_timedlock(mutex, &past);
    if (error == 0)
        pthread_mutex_unlock(mutex);
    return error == (kind == MUTEX_CHECKING ? EDEADLK : 0);
}

/* The thread that waits for a rank becomes the owner of the rank's mutex. */
static int wait_as_owner(void *arg)
{
    const struct condition_wait *wait = arg;

    if (!image_is_on_rank())
        wait->mutex->__data.__owner = gettid();
    return wait_for_condition(arg);
}

/* The C library does not know the cancellation of a main thread. */
static int wait_in_library(struct condition_wait *wait)
{
    int error = ECANCELED;

    image_cancel_watch(wait->condition);
    if (!image_cancel_is_due())
        error = wait_for_condition(wait);
    image_cancel_watch(NULL);
    return error ? error : image_cancel_is_due() ? ECANCELED : 0;
}

static int image_libc_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                                     const struct timespec *end)
{
    struct condition_wait wait = {condition, mutex, end, clock};
    int kind = mutex->__data.__kind & MUTEX_KINDS, owner = mutex->__data.__owner, error;

    image_cancel_point();
    if (lets_others_run(condition, &condition_mark) && may_lend(mutex, kind)) {
        error = image_wait_on_thread(wait_as_owner, &wait);
        mutex->__data.__owner = owner;
    } else {
        error = has_threads() ? wait_in_library(&wait) : wait_for_condition(&wait);
    }
    if (error == ECANCELED)
        image_cancel_point();
    return error;
}
IMAGE_REBINDS(image_libc_cond_clockwait, "pthread_cond_clockwait");

static int image_libc_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                     const struct timespec *end)
{
    return image_libc_cond_clockwait(condition, mutex, -1, end);
}
IMAGE_REBINDS(image_libc_cond_timedwait, "pthread_cond_timedwait");

static int image_libc_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    return image_libc_cond_clockwait(condition, mutex, -1, NULL);
}
IMAGE_REBINDS(image_libc_cond_wait, "pthread_cond_wait");

/* ---- Spin locks, and C11's names ---- */

static int try_spin_lock(void *lock)
{
    return pthread_spin_trylock(lock);
}

/* Such a lock does not tell whether processes share it, but it may be in a shared window. */
static int image_libc_spin_lock(pthread_spinlock_t *lock)
{
    if (pthread_spin_trylock(lock) == 0)
        return 0;
    return holds_pe() ? poll_object(try_spin_lock, (void *)lock, 0, NULL) : pthread_spin_lock(lock);
}
IMAGE_REBINDS(image_libc_spin_lock, "pthread_spin_lock");

static int to_thrd(int error)
{
    return error == 0 ? thrd_success : error == ETIMEDOUT ? thrd_timedout : thrd_error;
}

/* The types are libc's own under another name. */
static int image_libc_mtx_lock(mtx_t *mutex)
{
    return to_thrd(image_libc_mutex_lock((pthread_mutex_t *)mutex));
}
IMAGE_REBINDS(image_libc_mtx_lock, "mtx_lock");

static int image_libc_mtx_timedlock(mtx_t *mutex, const struct timespec *end)
{
    return to_thrd(image_libc_pthread_mutex_timedlock((pthread_mutex_t *)mutex, end));
}
IMAGE_REBINDS(image_libc_mtx_timedlock, "mtx_timedlock");

static int image_libc_cnd_wait(cnd_t *condition, mtx_t *mutex)
{
    return to_thrd(image_libc_cond_wait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex));
}
IMAGE_REBINDS(image_libc_cnd_wait, "cnd_wait");

static int image_libc_cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *end)
{
    return to_thrd(image_libc_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, end));
}
IMAGE_REBINDS(image_libc_cnd_timedwait, "cnd_timedwait");

/* ---- System calls ---- */

/* The arguments of syscall, and its results. */
struct system_call {
    long number, arguments[6], result;
    int error;
};

static int make_system_call(void *arg)
{
    struct system_call *call = arg;
    const long *a = call->arguments;

    call->result = syscall(call->number, a[0], a[1], a[2], a[3], a[4], a[5]);
    call->error = errno;
    return 0;
}

/* std::future and std::atomic wait by a futex. */
static long image_libc_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    struct system_call call = {number, {a, b, c, d, e, f}, 0, 0};
    long command = b & FUTEX_CMD_MASK;

    if (number == SYS_exit_group)
        image_end(image_libc_at(__builtin_return_address(0)), (int)a);
    if (number == SYS_futex && (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET) && holds_others()) {
        image_wait_on_thread(make_system_call, &call);
        errno = call.error;
        return call.result;
    }
    return syscall(number, a, b, c, d, e, f);
}
IMAGE_REBINDS(image_libc_syscall, "syscall"); /* exit_group ends the rank, not the process */

/* ---- Priority inheritance ---- */

/* The kernel compares the owner of such a mutex with the OS thread that releases it, and the main thread's number in the mutex may be
 * that of another one (ult/lender.c): waiting threads would never get the mutex. So it is an ordinary one. The PE's thread runs other
 * ranks, too, so its priority is not for one rank to raise. */
static int image_libc_mutexattr_setprotocol(pthread_mutexattr_t *attributes, int protocol)
{
    return pthread_mutexattr_setprotocol(attributes,
                                         protocol == PTHREAD_PRIO_INHERIT ? PTHREAD_PRIO_NONE : protocol);
}
/* The owner is not always the thread that the kernel knows. */
IMAGE_REBINDS(image_libc_mutexattr_setprotocol, "pthread_mutexattr_setprotocol");
