/* SPDX-License-Identifier: BSD-3-Clause
 *
 * credentials.c: setuid and its relatives in a program whose ranks have thread pointers of their own (lender.c).
 *
 * The kernel's user and group belong to an OS thread, so the C library changes them in all threads of the process: it marks each
 * of its threads, and signals it until the handler in that thread has removed the mark. The handler finds its thread by the thread
 * pointer. On a PE's thread that is the running ULT's, so the mark of the PE's thread would stay, and the caller would signal that
 * thread for ever. So the handler runs with the thread pointer of the OS thread that it is on.
 *
 * A signal in the middle of a switch may find the old ULT beside the new pointer. Then the handler runs as if there were no ULT,
 * and the C library signals once more.
 */
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ult/arch/ult_arch.h"
#include "ult/pe.h"
#include "ult/tls.h"

/* The C library's second internal signal, and the size of the kernel's set of signals. */
#define SIGNAL_SETXID 33
#define SIGNALS_BYTES 8

/* The kernel's struct sigaction. The C library's sigaction refuses its internal signals. */
struct kernel_action {
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask; /* the signals that are blocked meanwhile */
};

static void (*libc_handler)(int, siginfo_t *, void *);

/* The caller's own thread pointer if it runs a ULT with the ULT's; else NULL: the caller has its own, as a lender has. */
static void *replaced_pointer(void)
{
    const struct ult *u = ult_current;

    if (!u || u->thread_pointer != __builtin_thread_pointer() || ult_tid(u) != gettid())
        return NULL;
    return (u->home ? u->home : u->pe->carrier)->thread_pointer;
}

static void change_credentials(int number, siginfo_t *info, void *context)
{
    void *own = replaced_pointer(), *lent = __builtin_thread_pointer();

    if (!own) {
        libc_handler(number, info, context);
        return;
    }
    ult_arch_set_thread_pointer(own, ult_arch_has_fast_thread_pointer());
    libc_handler(number, info, context);
    ult_arch_set_thread_pointer(lent, ult_arch_has_fast_thread_pointer());
}

void ult_credentials_init(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct kernel_action action;

    pthread_mutex_lock(&lock);
    if (!libc_handler && syscall(SYS_rt_sigaction, SIGNAL_SETXID, NULL, &action, SIGNALS_BYTES) == 0 &&
        action.handler) {
        libc_handler = action.handler;
        action.handler = change_credentials;
        syscall(SYS_rt_sigaction, SIGNAL_SETXID, &action, NULL, SIGNALS_BYTES);
    }
    pthread_mutex_unlock(&lock);
}
