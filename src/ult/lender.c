/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lender.c: OS threads that sleep and lend their thread pointer, each to one ULT for life.
 *
 * The ULTs of a PE share the static TLS block of its OS thread, so the program's thread_local variables have equal
 * addresses in all of them, and their bytes are swapped (tls.c). That fails if a rank has threads: one may use the main
 * thread's variables through a pointer while another rank's bytes are there, and a PE whose OS thread is given away
 * (carrier.c) has another block from then on. So a ULT of a program that starts threads has a thread pointer of its own: the
 * block, errno, pthread_self and ownership of locks are the ULT's, wherever and beside whatever it runs. Compilers keep
 * addresses of thread_local variables across calls, so it has them from its beginning.
 *
 * Only the C library can make a valid block. So it makes a thread, which sleeps at once, and the ULT runs with that
 * thread's pointer. It sleeps in one system call until all ULTs have ended, or until its ULT's spawned rank is freed.
 * All signals are blocked meanwhile: its handlers would run with the ULT's variables. It gives up its area for
 * restartable sequences, where the kernel would keep the number of the CPU on which it fell asleep; sched_getcpu then asks
 * the kernel. In a forked child, the C library takes the block of
 * the PE's OS thread for one that is no longer used, but the kernel still writes to that thread's area: the child gives it up.
 *
 * Robust mutexes work: the kernel knows the list in the lent block as the lender's. Mutexes with priority inheritance
 * do not: the kernel compares their owner with the running OS thread. Programs get ordinary ones instead (rebind_sync.c).
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "ult/pe.h"
#include "ult/tls.h"

/* The lender's stack, in addition to what the C library needs. */
#define STACK_BYTES 65536

/* The value with which glibc registers its area for restartable sequences, and the sizes that it may register. */
#define RSEQ_SIGNATURE 0x53053053
#define RSEQ_SIZE_MIN 32
#define RSEQ_SIZE_MAX 256
#define RSEQ_UNREGISTER 1

enum lender_state { STARTS, LENDS, ENDS };

struct lender {
    pthread_t thread;
    struct ult *to;         /* the ULT that gets its thread pointer */
    void *thread_pointer;   /* set when it LENDS */
    _Atomic uint32_t state; /* enum lender_state; a futex */
    struct lender *next;    /* link of the PE's lenders */
};

static void set_state(struct lender *lender, uint32_t state)
{
    atomic_store(&lender->state, state);
    syscall(SYS_futex, (uint32_t *)&lender->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void wait_while(struct lender *lender, uint32_t state)
{
    while (atomic_load(&lender->state) == state)
        syscall(SYS_futex, (uint32_t *)&lender->state, FUTEX_WAIT_PRIVATE, state, NULL, NULL, 0);
}

static void leave_restartable_sequences(void *thread_pointer)
{
    const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");

    for (size_t size = RSEQ_SIZE_MIN; offset && size <= RSEQ_SIZE_MAX; size += RSEQ_SIZE_MIN)
        if (syscall(SYS_rseq, (char *)thread_pointer + *offset, size, RSEQ_UNREGISTER, RSEQ_SIGNATURE) == 0)
            return;
}

static void *lend(void *arg)
{
    struct lender *lender = arg;
    char name[16];

    snprintf(name, sizeof name, "rank %d", lender->to->world_rank);
    pthread_setname_np(pthread_self(), name);
    leave_restartable_sequences(__builtin_thread_pointer());
    lender->thread_pointer = __builtin_thread_pointer();
    set_state(lender, LENDS);
    wait_while(lender, LENDS);
    ult_current = NULL; /* what libraries do at the thread's end is on behalf of no ULT */
    return NULL;
}

/* Starts a lender for this ULT and adds it to the list. Returns an error number. */
static int start_lender(struct ult *u, struct lender **list)
{
    struct lender *lender = base_calloc(1, sizeof *lender, "a rank's thread_local variables");
    sigset_t all, before;
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);

    lender->to = u;
    if (!error) {
        pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN) + STACK_BYTES);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = ult_pe_create_thread(&lender->thread, &attributes, lend, lender);
        if (error == EINVAL) /* the static TLS block is larger than such a stack */
            error = ult_pe_create_thread(&lender->thread, NULL, lend, lender);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
    }
    if (error) {
        free(lender);
        return error;
    }
    wait_while(lender, STARTS);
    ult_credentials_init();
    lender->next = *list;
    *list = lender;
    return 0;
}

static void end_lender(struct lender *lender)
{
    set_state(lender, ENDS);
    pthread_join(lender->thread, NULL);
    free(lender);
}

static void end_lenders(struct lender *lender)
{
    while (lender) {
        struct lender *next = lender->next;

        end_lender(lender);
        lender = next;
    }
}

void ult_tls_end_own(struct ult *u)
{
    struct lender **at = &u->pe->lenders, *lender;

    while (*at && (*at)->to != u)
        at = &(*at)->next;
    lender = *at;
    if (!lender)
        return;
    *at = lender->next;
    u->thread_pointer = NULL;
    end_lender(lender);
}

/* A sanitizer keeps state of its own per thread, which would be the lender's. */
static bool has_sanitizer(void)
{
    return dlsym(RTLD_DEFAULT, "__sanitizer_set_death_callback") != NULL;
}

static BASE_COLD void report_failure(const struct ult_pe *pe, int error)
{
    base_log("not enough threads for the thread_local variables of PE %d's ranks: %s; a rank's threads "
             "must not "
             "use those of its main thread; raise `ulimit -u` or use fewer ranks (+vp)",
             pe->pe_id, strerror(error));
}

void ult_pe_own_tls(struct ult_pe *pe)
{
    int error = 0;

    if (has_sanitizer())
        return;
    for (struct ult *u = pe->queue_first; u && !error; u = u->next)
        error = start_lender(u, &pe->lenders);
    if (error) {
        report_failure(pe, error);
        end_lenders(pe->lenders);
        pe->lenders = NULL;
    }
    for (const struct lender *lender = pe->lenders; lender; lender = lender->next)
        ult_tls_init_own(lender->to, lender->thread_pointer);
}

void ult_own_tls(struct ult *u)
{
    int error;

    if (has_sanitizer())
        return;
    error = start_lender(u, &u->pe->lenders);
    if (error)
        report_failure(u->pe, error);
    else
        ult_tls_init_own(u, u->pe->lenders->thread_pointer);
}

void ult_job_leave_child(void)
{
    const struct ult *self = ult_self();

    if (self && self->thread_pointer)
        leave_restartable_sequences((self->home ? self->home : self->pe->carrier)->thread_pointer);
    ult_job_leave();
}

void ult_lenders_end(void)
{
    for (int i = 0; i < ult_job.n_pes; i++) {
        end_lenders(ult_job.pes[i].lenders);
        ult_job.pes[i].lenders = NULL;
    }
}
