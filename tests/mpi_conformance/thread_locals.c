/* SPDX-License-Identifier: BSD-3-Clause */
/* What belongs to a rank's main thread stays where it is, whatever other ranks do on the same PE. "pointer": rank 0's thread uses
 * rank 0's thread_local variable through a pointer, while the main threads of the other ranks use theirs; and sched_getcpu is right, for which the C
 * library has a place beside such variables. "moves": rank 0's
 * main thread waits in C code for its thread, which exchanges messages with the other ranks; their addresses of a thread_local
 * variable and of errno stay valid, pthread_self and a held lock stay theirs, and their PE's thread has the properties that it had.
 * A signal for the waiting thread interrupts it. "fork": a child of a rank has the rank's variable, and starts threads.
 * "clock": pthread_getcpuclockid gives the clock of the thread that runs the rank. "setuid": it returns. "inherit": the
 * rank's threads exclude each other by a mutex with priority inheritance, and wait for it. */
#define _GNU_SOURCE
#include "mtest_threads.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 10
#define MINE 1000

/* Shared by the ranks. */
struct board {
    atomic_int n_passes; /* times that rank 0's thread has used the variable */
    atomic_int n_done;   /* ranks that need no more */
};

static __thread volatile int variable;
static struct board *board;

static struct board *share_board(MPI_Win *win_out)
{
    MPI_Aint size = mtest_rank == 0 ? sizeof(struct board) : 0;
    void *base;
    int unit;

    MPI_Win_allocate_shared(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, win_out);
    MPI_Win_shared_query(*win_out, 0, &size, &unit, &base);
    if (mtest_rank == 0)
        memset(base, 0, sizeof(struct board));
    MPI_Barrier(MPI_COMM_WORLD);
    return base;
}

/* ---- The C library's own state ---- */

/* sched_getcpu names the CPU on which the rank runs. */
static void check_cpu(void)
{
    cpu_set_t usable, one;

    CPU_ZERO(&usable);
    syscall(SYS_sched_getaffinity, 0, sizeof usable, &usable);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &usable))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        syscall(SYS_sched_setaffinity, 0, sizeof one, &one);
        MTEST_CHECK(sched_getcpu() == cpu, "sched_getcpu: %d on CPU %d", sched_getcpu(), cpu);
    }
    syscall(SYS_sched_setaffinity, 0, sizeof usable, &usable);
}

/* ---- Through a pointer ---- */

static void *use_pointer(void *arg)
{
    volatile int *main_variable = arg;

    while (atomic_load(&board->n_done) < mtest_size - 1) {
        mtest_thread_check(0, *main_variable == MINE);
        *main_variable = MINE;
        atomic_fetch_add(&board->n_passes, 1);
        sched_yield();
    }
    return NULL;
}

/* Lets rank 0's thread use its variable, and keeps the PE meanwhile. */
static void wait_for_passes(int n)
{
    int until = atomic_load(&board->n_passes) + n;

    while (atomic_load(&board->n_passes) < until)
        syscall(SYS_sched_yield);
}

static void run_pointer(void)
{
    pthread_t thread;

    check_cpu();
    if (mtest_rank == 0) {
        variable = MINE;
        pthread_create(&thread, NULL, use_pointer, (void *)&variable);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS && mtest_rank > 0; i++) {
        variable = -i;
        wait_for_passes(2);
        MTEST_CHECK(variable == -i, "the variable is %d, expected %d", variable, -i);
    }
    if (mtest_rank > 0)
        atomic_fetch_add(&board->n_done, 1);
    else
        pthread_join(thread, NULL);
    MTEST_CHECK(mtest_n_wrong[0] == 0, "%d times the thread did not find what it wrote", mtest_n_wrong[0]);
}

/* ---- The PE's other ranks move to another OS thread ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_over = PTHREAD_COND_INITIALIZER;
static int over;
static pthread_t main_thread;
static volatile sig_atomic_t was_interrupted;

static void interrupt(int number)
{
    was_interrupted = number == SIGUSR1 && pthread_equal(pthread_self(), main_thread);
}

/* Properties of an OS thread that a new one inherits. */
struct properties {
    int blocks, n_cpus, nice;
};

static struct properties properties(void)
{
    cpu_set_t cpus;
    sigset_t blocked;

    CPU_ZERO(&cpus);
    syscall(SYS_sched_getaffinity, 0, sizeof cpus, &cpus);
    sigemptyset(&blocked);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    return (struct properties){sigismember(&blocked, SIGUSR1), CPU_COUNT(&cpus),
                               getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid))};
}

/* Changes the properties of this thread, so that a thread that inherits them is seen. */
static void change_properties(void)
{
    cpu_set_t one;
    sigset_t all;

    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 5);
}

static void *exchange(void *arg)
{
    int value;

    change_properties();
    for (int i = 1; i < mtest_size; i++) {
        MPI_Recv(&value, 1, MPI_INT, i, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&value, 1, MPI_INT, i, 1, MPI_COMM_WORLD);
    }
    pthread_kill(main_thread, SIGUSR1);
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_signal(&is_over);
    pthread_mutex_unlock(&lock);
    return arg;
}

static void wait_in_code(void)
{
    pthread_t thread;

    main_thread = pthread_self();
    signal(SIGUSR1, interrupt);
    pthread_create(&thread, NULL, exchange, NULL);
    pthread_mutex_lock(&lock);
    while (!over)
        pthread_cond_wait(&is_over, &lock);
    pthread_mutex_unlock(&lock);
    MTEST_CHECK(was_interrupted, "the thread's signal has not interrupted the main thread");
    pthread_join(thread, NULL);
}

/* What the compiler takes for constant. */
struct place {
    volatile int *variable;
    int *errno_address;
    pthread_t self;
};

__attribute__((noinline)) static struct place place(void)
{
    __asm__ volatile("");
    return (struct place){&variable, &errno, pthread_self()};
}

static void stay(void)
{
    static pthread_rwlock_t held = PTHREAD_RWLOCK_INITIALIZER;
    struct place at = place(), now_at;
    struct properties before = properties(), now;
    int value = mtest_rank;

    variable = mtest_rank;
    pthread_rwlock_wrlock(&held);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Sendrecv_replace(&value, 1, MPI_INT, 0, 0, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    now_at = place();
    MTEST_CHECK(now_at.variable == at.variable && *at.variable == mtest_rank, "the variable has moved: %d",
                *at.variable);
    MTEST_CHECK(now_at.errno_address == at.errno_address, "errno has moved");
    MTEST_CHECK(pthread_equal(now_at.self, at.self), "pthread_self has changed");
    pthread_rwlock_unlock(&held);
    MTEST_CHECK(pthread_rwlock_trywrlock(&held) == 0, "the lock is not free");
    now = properties();
    MTEST_CHECK(now.blocks == before.blocks, "the signal mask has changed");
    MTEST_CHECK(now.n_cpus == before.n_cpus, "%d CPUs instead of %d", now.n_cpus, before.n_cpus);
    MTEST_CHECK(now.nice == before.nice, "nice is %d, was %d", now.nice, before.nice);
}

static void run_moves(void)
{
    if (mtest_rank > 0) {
        stay();
        return;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    wait_in_code();
}

/* ---- A forked child ---- */

#define CHILD_THREADS 16 /* the C library returns some of their stacks to the kernel */

static void *set_variable(void *arg)
{
    *(volatile int *)arg = MINE;
    return NULL;
}

static int run_child(void)
{
    pthread_t threads[CHILD_THREADS];
    int is_right = variable == mtest_rank;

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < CHILD_THREADS; i++)
            if (pthread_create(&threads[i], NULL, set_variable, (void *)&variable) != 0)
                return 1;
        for (int i = 0; i < CHILD_THREADS; i++)
            pthread_join(threads[i], NULL);
        usleep(1); /* the kernel returns to this thread */
    }
    return !(is_right && variable == MINE);
}

static void run_fork(void)
{
    pid_t child;
    int status = -1;

    variable = mtest_rank;
    MPI_Barrier(MPI_COMM_WORLD);
    child = fork();
    if (child == 0)
        _exit(run_child());
    MPI_Barrier(MPI_COMM_WORLD);
    waitpid(child, &status, 0);
    MTEST_CHECK(status == 0, "the child's status is 0x%x", (unsigned)status);
}

/* ---- What the kernel keeps per OS thread ---- */

static void *wait_for_end(void *arg)
{
    struct board *shared = arg;

    while (atomic_load(&shared->n_done) < mtest_size)
        usleep(100);
    return NULL;
}

/* All ranks change the user at the same time, while each has another thread. */
static void run_setuid(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, wait_for_end, board);
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_CHECK(setuid(getuid()) == 0, "setuid: %s", strerror(errno));
    MTEST_CHECK(setegid(getegid()) == 0, "setegid: %s", strerror(errno));
    atomic_fetch_add(&board->n_done, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    pthread_join(thread, NULL);
}

static pthread_mutex_t inheriting;
static atomic_int n_takers;

static void *take_mutex(void *arg)
{
    atomic_fetch_add(&n_takers, 1);
    pthread_mutex_lock(&inheriting);
    ++*(int *)arg;
    pthread_mutex_unlock(&inheriting);
    return NULL;
}

/* Releases the mutex when a thread waits for it. */
static void run_inherit(void)
{
    pthread_mutexattr_t attributes;
    pthread_t thread;
    int n_taken = 0;

    pthread_mutexattr_init(&attributes);
    MTEST_CHECK(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0, "setprotocol");
    pthread_mutex_init(&inheriting, &attributes);
    for (int i = 1; i <= ROUNDS; i++) {
        pthread_mutex_lock(&inheriting);
        pthread_create(&thread, NULL, take_mutex, &n_taken);
        while (atomic_load(&n_takers) < i)
            usleep(100);
        usleep(1000); /* most likely it waits in the kernel then; the checks hold if it does not */
        MTEST_CHECK(n_taken == i - 1, "the thread took the mutex of the main thread");
        MTEST_CHECK(pthread_mutex_unlock(&inheriting) == 0, "the main thread cannot release its mutex");
        pthread_join(thread, NULL);
    }
}

static double seconds(clockid_t clock)
{
    struct timespec time = {.tv_sec = -1};

    MTEST_CHECK(clock_gettime(clock, &time) == 0, "clock_gettime: %s", strerror(errno));
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Returns the time of the main thread's clock. */
static void *read_clock(void *arg)
{
    clockid_t clock;

    pthread_getcpuclockid(main_thread, &clock);
    *(double *)arg = seconds(clock);
    return NULL;
}

static void run_clock(void)
{
    pthread_t thread;
    clockid_t clock;
    double before = seconds(CLOCK_THREAD_CPUTIME_ID), now, seen;

    main_thread = pthread_self();
    pthread_getcpuclockid(main_thread, &clock);
    now = seconds(clock);
    MTEST_CHECK(before <= now && now <= seconds(CLOCK_THREAD_CPUTIME_ID), "its own clock says %g s, not %g s",
                now, before);
    pthread_create(&thread, NULL, read_clock, &seen);
    pthread_join(thread, NULL);
    MTEST_CHECK(seen >= now, "its clock says %g s for another thread, not %g s", seen, now);
}

int main(int argc, char **argv)
{
    MPI_Win win;

    mtest_init_threads(&argc, &argv, 2);
    mtest_need_one_node();
    if (dlsym(RTLD_DEFAULT, "__sanitizer_set_death_callback"))
        mtest_skip("a sanitizer's state is per thread, so ranks share their PE's");
    board = share_board(&win);
    if (strcmp(argv[1], "pointer") == 0)
        run_pointer();
    else if (strcmp(argv[1], "fork") == 0)
        run_fork();
    else if (strcmp(argv[1], "setuid") == 0)
        run_setuid();
    else if (strcmp(argv[1], "inherit") == 0)
        run_inherit();
    else if (strcmp(argv[1], "clock") == 0)
        run_clock();
    else
        run_moves();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
    return mtest_end();
}
