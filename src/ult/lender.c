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
 * thread's pointer. It sleeps in one system call until all ULTs have ended, with all signals blocked: its handlers would
 * run with the ULT's variables. It gives up its area for restartable sequences, where the kernel would keep the number
 * of the CPU on which it fell asleep; sched_getcpu then asks the kernel.
 *
 * Robust mutexes work: the kernel knows the list in the lent block as the lender's. Mutexes with priority inheritance
 * do not: the kernel compares their owner with the running OS thread.
 */
#include <dlfcn.h>
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
    struct ult *to;         /* the ULT that has its thread pointer */
    _Atomic uint32_t state; /* enum lender_state; a futex */
    struct lender *next;    /* link of all_lenders */
};

/* Push-only until all end. */
static struct lender *_Atomic all_lenders;

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
    lender->to->thread_pointer = __builtin_thread_pointer();
    set_state(lender, LENDS);
    wait_while(lender, LENDS);
    ult_current = NULL; /* what libraries do at the thread's end is on behalf of no ULT */
    return NULL;
}

static int start(struct lender *lender)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);

    if (error)
        return error;
    pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN) + STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = ult_pe_create_thread(&lender->thread, &attributes, lend, lender);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

/* A sanitizer keeps state of its own per thread, which would be the lender's. */
static bool has_sanitizer(void)
{
    return dlsym(RTLD_DEFAULT, "__sanitizer_set_death_callback") != NULL;
}

void ult_tls_own(struct ult *u)
{
    struct lender *lender;
    int error;

    if (has_sanitizer())
        return;
    lender = base_calloc(1, sizeof *lender, "a rank's thread_local variables");
    lender->to = u;
    error = start(lender);
    if (error)
        base_fatal(1, "cannot create a thread for rank %d: %s; raise `ulimit -u` or use fewer ranks (+vp)",
                   u->world_rank, strerror(error));
    wait_while(lender, STARTS);
    ult_tls_init_own(u);
    lender->next = atomic_load(&all_lenders);
    while (!atomic_compare_exchange_weak(&all_lenders, &lender->next, lender))
        ;
}

void ult_lenders_end(void)
{
    struct lender *lender = atomic_exchange(&all_lenders, NULL);

    while (lender) {
        struct lender *next = lender->next;

        set_state(lender, ENDS);
        pthread_join(lender->thread, NULL);
        free(lender);
        lender = next;
    }
}
