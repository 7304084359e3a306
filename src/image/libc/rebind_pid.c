/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_pid.c: a number of its own for each rank that calls getpid.
 *
 * Programs name files and shared memory by this number, and begin random sequences with it: with one number for all ranks of a
 * process, ranks would overwrite each other's files. The number has to be free on the node, and to lead to the process where the
 * system is given it. The kernel has such numbers: a thread's number leads to its process in kill, sigqueue, /proc/NUMBER, prlimit,
 * getpgid, process_vm_readv and others. So the first rank that calls getpid has the process's number, and each further one that of
 * a thread, which sleeps until the process ends. Functions that take a process's number alone get that from this file; ps and
 * system calls made without libc's functions do not know the rank's.
 *
 * CUDA's runtime and its driver compare what getpid gives them, and NCCL finds ranks of one process by it. So all ranks have the
 * process's number as soon as one of them looks up the driver (image_set_process_numbers).
 *
 * Handlers of signals call kill(getpid(), ...), so no lock is taken and no memory is allocated: the thread is one of the kernel's
 * alone, which libc does not know.
 */
#include "image/libc/rebind_signal.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* Threads per process at most, so that those that the program needs remain. */
#define THREADS_MAX 1000

#define STACK_BYTES 512

static _Alignas(16) char stacks[THREADS_MAX][STACK_BYTES];
static atomic_int n_threads;
static atomic_flag is_process_taken = ATOMIC_FLAG_INIT; /* a rank has the process's number */
static atomic_bool is_disabled;

void image_set_process_numbers(bool are_own)
{
    is_disabled = !are_own;
}

/* Never returns, and gets no signals. Has the thread pointer of the thread that made it. */
BASE_NO_SANITIZE static int sleep_for_ever(void *arg)
{
    while (syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0) != 0)
        ;
    return 0;
}

/* The number of a new thread; -1: there can be no more. */
static pid_t make_thread(void)
{
    int i = atomic_fetch_add(&n_threads, 1),
        flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    sigset_t all, old;
    pid_t number;

    if (i >= THREADS_MAX)
        return -1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    number = clone(sleep_for_ever, stacks[i] + STACK_BYTES, flags, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return number;
}

static pid_t choose_number(void)
{
    static atomic_bool is_said;
    pid_t number;

    if (!atomic_flag_test_and_set(&is_process_taken))
        return getpid();
    number = make_thread();
    if (number >= 0)
        return number;
    base_log_once(
        &is_said,
        "getpid: no more threads can be made to give ranks numbers of their own; the other ranks have the "
        "process's number");
    return getpid();
}

pid_t image_pid_of(struct image_libc *libc)
{
    int saved_errno = errno;
    pid_t none = 0, number = atomic_load(&libc->number);

    if (is_disabled)
        return getpid();
    if (number)
        return number;
    number = choose_number();
    libc->number_of = getpid();
    if (!atomic_compare_exchange_strong(&libc->number, &none, number))
        number = none; /* another thread of the rank, or a handler, was faster */
    errno = saved_errno;
    return number;
}

/* The number of the caller's process if `number` is that of its rank; else the same number. */
static pid_t process_of(pid_t number)
{
    struct image_libc *libc = image_is_forked_child() ? NULL : image_libc_current();

    return libc && number > 0 && number == atomic_load(&libc->number) ? getpid() : number;
}

bool image_pid_is_own(pid_t number)
{
    return number == getpid() || process_of(number) == getpid();
}

static pid_t image_libc_getpid(void)
{
    struct image_libc *libc = image_is_forked_child() ? NULL : image_libc_current();

    return libc ? image_pid_of(libc) : getpid();
}
IMAGE_REBINDS(image_libc_getpid, "getpid", "__getpid"); /* ranks name files by it */

/* The parent of a process that a rank forked is that rank. */
static pid_t image_libc_getppid(void)
{
    struct image_libc *libc = image_is_forked_child() ? image_libc_at(__builtin_return_address(0)) : NULL;
    pid_t parent = getppid();

    return libc && parent == libc->number_of ? atomic_load(&libc->number) : parent;
}
IMAGE_REBINDS(image_libc_getppid, "getppid"); /* a child's parent is the rank */

/* A signal to itself is for this rank, unless it is for another thread of the rank. Else it is for the process itself, as from a
 * program: the kernel tries its first thread first, and would try this rank's sleeping one. Returns false if the signal is for the
 * process. */
static bool send_to_itself(pid_t number, int signal_number, const union sigval *value, int *result_out)
{
    struct image_libc *libc = image_is_forked_child() ? NULL : image_libc_current();
    siginfo_t info = {.si_signo = signal_number, .si_code = value ? SI_QUEUE : SI_USER};
    sigset_t blocked;

    if (!libc || number <= 0 || signal_number <= 0 || signal_number >= NSIG ||
        number != atomic_load(&libc->number))
        return false;
    image_mask_get(&blocked);
    if (sigismember(&blocked, signal_number) == 0) {
        *result_out = image_signals_send(libc, gettid(), signal_number, value);
        return true;
    }
    info.si_pid = number;
    info.si_uid = getuid();
    if (value)
        info.si_value = *value;
    *result_out = 0;
    return libc->signals && image_mask_keeps(libc->signals, signal_number, &info);
}

static int image_libc_kill(pid_t number, int signal_number)
{
    int result;

    return send_to_itself(number, signal_number, NULL, &result) ? result
                                                                : kill(process_of(number), signal_number);
}
/* The process's first thread gets the signal, not the rank's sleeping one. */
IMAGE_REBINDS(image_libc_kill, "kill");

static int image_libc_sigqueue(pid_t number, int signal_number, const union sigval value)
{
    int result;

    return send_to_itself(number, signal_number, &value, &result)
               ? result
               : sigqueue(process_of(number), signal_number, value);
}
IMAGE_REBINDS(image_libc_sigqueue, "sigqueue");

static int image_libc_setpgid(pid_t number, pid_t group)
{
    return setpgid(process_of(number), process_of(group));
}
IMAGE_REBINDS(image_libc_setpgid, "setpgid", "__setpgid"); /* the number of a rank is not a process's */

static int image_libc_tgkill(pid_t number, pid_t thread, int signal_number)
{
    return (int)syscall(SYS_tgkill, process_of(number), thread, signal_number);
}
IMAGE_REBINDS(image_libc_tgkill, "tgkill");

static int image_libc_pidfd_open(pid_t number, unsigned flags)
{
    return (int)syscall(SYS_pidfd_open, process_of(number), flags);
}
IMAGE_REBINDS(image_libc_pidfd_open, "pidfd_open");

/* The kernel has such a clock for a process's own number alone. */
static int image_libc_clock_getcpuclockid(pid_t number, clockid_t *clock_out)
{
    return clock_getcpuclockid(process_of(number), clock_out);
}
IMAGE_REBINDS(image_libc_clock_getcpuclockid, "clock_getcpuclockid");

int image_pid_set_owner(int fd, pid_t number)
{
    return fcntl(fd, F_SETOWN, process_of(number));
}
