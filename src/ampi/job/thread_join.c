/* SPDX-License-Identifier: BSD-3-Clause
 *
 * thread_join.c: threads of the program that wait in pthread_join. See job.h.
 *
 * Such a thread cannot call MPI before the other one ends. It counts as waiting, for deadlocks, while the other thread is blocked in
 * MPI, or joins one that is, and so on. Neither end may have changed unseen: the kernel must say that the thread sleeps in the join (it
 * does not once it is cancelled, gets a signal, or the other one has ended), and the other one must be the same thread still (pthread_t
 * is used again, but not soon with the same number of the kernel). So a thread that is about to go on never counts as waiting.
 *
 * A rank's main thread with a copy of the program joins as a ULT (thread.c), and is not in the list.
 */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "ampi/job/job.h"
#include "ampi/object/gate.h"
#include "base/log.h"
#include "image/image.h"

/* The kernel's number of a thread in that of its CPU clock: above these bits, inverted. */
#define CLOCK_ID_BITS 3

/* The C library joins by a futex in the other thread's descriptor, to which pthread_t points: with the kernel's number of that thread. */
#define DESCRIPTOR_BYTES 8192ul

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct image_join *first; /* guarded by the lock */
static atomic_int n_joins;
static unsigned n_looks; /* the same */

/* ---- Chains of joins. With the lock of the rank's PE, and that of the list ---- */

static struct image_join *find(pid_t tid)
{
    struct image_join *join = first;

    while (join && join->tid != tid)
        join = join->next;
    return join;
}

static struct ampi_thread *find_thread(const struct ampi_rank *rank, pid_t tid)
{
    struct ampi_thread *thread = rank->threads;

    while (thread && thread->tid != tid)
        thread = thread->next;
    return thread;
}

/* True if it sleeps until the other one ends. A thread that is cancelled may sleep for a lock. Asks the kernel once in a look. */
static bool is_asleep(struct image_join *join)
{
    unsigned long address, value;

    if (join->look != n_looks) {
        join->look = n_looks;
        join->is_asleep = ampi_stuck_futex_of(join->tid, &address, &value) &&
                          value == (unsigned long)join->target_tid &&
                          address - (unsigned long)join->target < DESCRIPTOR_BYTES;
    }
    return join->is_asleep;
}

static void begin_look(void)
{
    pthread_mutex_lock(&lock);
    n_looks++;
}

/* The thread that is blocked in MPI at the end of the chain; NULL: there is none. All joins of the chain keep it for this look,
 * so a look visits each once. */
static struct ampi_thread *resolve(struct image_join *join)
{
    const struct ampi_rank *rank = join->owner;
    struct image_join *at = join;
    struct ampi_thread *end = NULL;

    for (; at && at->end_look != n_looks; at = end ? NULL : find(at->target_tid)) {
        struct ampi_thread *thread = is_asleep(at) ? find_thread(rank, at->target_tid) : NULL;
        at->end = NULL; /* if the joins are a circle */
        at->end_look = n_looks;
        if (!at->is_asleep)
            break;
        if (thread && ult_is_blocked(&thread->ult))
            end = thread;
    }
    if (at && at->end_look == n_looks)
        end = at->end;
    for (at = join; at && end && !at->end; at = find(at->target_tid))
        at->end = end;
    return end;
}

/* The same, for a thread that waits for the first one. */
static struct ampi_thread *await(struct image_join *join)
{
    struct ampi_thread *end = resolve(join);

    for (int i = atomic_load(&n_joins); i > 0 && join && is_asleep(join); i--) {
        join->is_awaited = true;
        join = end && join->target_tid == end->tid ? NULL : find(join->target_tid);
    }
    return end;
}

/* ---- Joins ---- */

/* 0: it has ended. */
static pid_t tid_of(pthread_t thread)
{
    clockid_t clock;

    return pthread_getcpuclockid(thread, &clock) == 0 ? (pid_t) ~(clock >> CLOCK_ID_BITS) : 0;
}

bool ampi_join_begin(struct image_join *join, pthread_t target, const void *from)
{
    struct ampi_rank *rank = ampi_gate_is_on && !ampi_job.is_forked ? ampi_rank_of_thread(from) : NULL;
    pid_t target_tid = rank && ult_pe_is_shared(ult_pe_get(rank->pe_id)) ? tid_of(target) : 0;
    int state;

    if (target_tid <= 0)
        return false;
    *join = (struct image_join){.owner = rank,
                                .thread = pthread_self(),
                                .target = target,
                                .tid = gettid(),
                                .target_tid = target_tid,
                                .from = from};
    pthread_mutex_lock(&lock);
    join->look = join->end_look = n_looks - 1;
    join->next = first;
    first = join;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&n_joins, 1);
    atomic_store(&ult_count_joining, ampi_join_count_active);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); /* waking a PE is a cancellation point */
    ult_wake_all(); /* the PEs look for a deadlock again, from now on at intervals */
    pthread_setcancelstate(state, NULL);
    return true;
}

void ampi_join_end(struct image_join *join)
{
    struct image_join **link = &first;
    int state;

    atomic_fetch_sub(&n_joins, 1);
    pthread_mutex_lock(&lock);
    while (*link != join)
        link = &(*link)->next;
    *link = join->next;
    pthread_mutex_unlock(&lock);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); /* the other thread may have been joined */
    if (join->is_awaited)
        ampi_thread_end_await(((const struct ampi_rank *)join->owner)->image);
    pthread_setcancelstate(state, NULL);
}

struct ampi_thread *ampi_join_follow(const struct ampi_rank *rank, pthread_t target)
{
    struct image_join *join;
    struct ampi_thread *thread = NULL;

    begin_look();
    for (join = first; join && (join->owner != rank || !pthread_equal(join->thread, target));)
        join = join->next;
    if (join)
        thread = await(join);
    pthread_mutex_unlock(&lock);
    return thread;
}

/* ---- Counting those that wait ---- */

/* The process's main thread, which is a rank. */
static bool is_main(const struct image_join *join)
{
    return !ampi_job.is_virtual && join->tid == getpid();
}

int ampi_join_count_active(const struct ult_pe *pe)
{
    int n = 0;

    if (!pe)
        return atomic_load(&n_joins);
    begin_look();
    for (struct image_join *join = first; join; join = join->next) {
        const struct ampi_rank *rank = join->owner;
        if (rank->ult.pe == pe && (is_main(join) || find_thread(rank, join->tid)))
            n += resolve(join) != NULL;
    }
    pthread_mutex_unlock(&lock);
    return n;
}

int ampi_join_count(const struct ampi_rank *rank)
{
    int n = 0;

    begin_look();
    for (struct image_join *join = first; join; join = join->next)
        if (join->owner == rank && !is_main(join))
            n += resolve(join) != NULL;
    pthread_mutex_unlock(&lock);
    return n;
}

/* ---- Reports ---- */

const struct ult *ampi_join_of_main(const struct ampi_rank *rank, const void **from_out)
{
    struct image_join *join;
    const struct ampi_thread *thread = rank->threads;

    while (thread && thread->ult.joiner != &rank->ult)
        thread = thread->next;
    if (thread) {
        *from_out = rank->ult.called_from;
        return &thread->ult;
    }
    begin_look();
    for (join = first; join && (join->owner != rank || !is_main(join));)
        join = join->next;
    if (join) {
        thread = resolve(join);
        *from_out = join->from;
    }
    pthread_mutex_unlock(&lock);
    return thread ? &thread->ult : NULL;
}

void ampi_join_visit(const struct ampi_rank *rank, void (*visit)(const void *from, void *arg), void *arg)
{
    pthread_mutex_lock(&lock);
    for (struct image_join *join = first; join; join = join->next)
        if (join->owner == rank && !is_main(join))
            visit(join->from, arg);
    pthread_mutex_unlock(&lock);
}
