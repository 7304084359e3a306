/* SPDX-License-Identifier: BSD-3-Clause
 *
 * getpid gives each rank a number of its own, which names files and shared memory, and leads to the rank's process: in kill,
 * /proc, sched_setaffinity and others, and for a child that asks for its parent. Argument "process": all ranks of
 * a process have the process's number.
 */
#define _GNU_SOURCE
#include "mtest.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t n_signals;

static void count(int number)
{
    (void)number;
    n_signals++;
}

/* The number in a handler, which must not take locks. */
static volatile sig_atomic_t number_in_handler;

static void look(int number)
{
    (void)number;
    number_in_handler = getpid();
}

static void check_numbers(int number, int are_own)
{
    int *all = malloc((size_t)mtest_size * sizeof *all);

    MTEST_OK(MPI_Allgather(&number, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < mtest_size; i++)
        MTEST_CHECK((all[i] == number) == (i == mtest_rank || !are_own),
                    "ranks %d and %d have number %d and %d", mtest_rank, i, number, all[i]);
    free(all);
}

/* Each rank makes an object of this name, and reads that of the next one. */
static void share_memory(int number)
{
    int next = (mtest_rank + 1) % mtest_size, previous = (mtest_rank + mtest_size - 1) % mtest_size, fd,
        found = -1;
    char name[64], next_name[64];

    snprintf(name, sizeof name, "/mtest.%d", number);
    fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    MTEST_CHECK(fd >= 0 && write(fd, &mtest_rank, sizeof mtest_rank) == sizeof mtest_rank, "cannot make %s",
                name);
    close(fd);
    MTEST_OK(MPI_Sendrecv(name, sizeof name, MPI_CHAR, previous, 0, next_name, sizeof next_name, MPI_CHAR,
                          next, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    fd = shm_open(next_name, O_RDONLY, 0);
    MTEST_CHECK(fd >= 0 && read(fd, &found, sizeof found) == sizeof found && found == next, "%s is rank %d's",
                next_name, found);
    close(fd);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_CHECK(shm_unlink(name) == 0, "cannot remove %s", name);
}

static void check_uses(int number)
{
    char path[64];
    cpu_set_t set;
    clockid_t clock;
    struct timespec time;

    snprintf(path, sizeof path, "/proc/%d/statm", number);
    MTEST_CHECK(access(path, R_OK) == 0, "there is no %s", path);
    MTEST_CHECK(getpgid(number) == getpgrp() && kill(number, 0) == 0, "%d is not this process", number);
    MTEST_CHECK(sched_getaffinity(number, sizeof set, &set) == 0 &&
                    sched_setaffinity(number, sizeof set, &set) == 0,
                "sched_setaffinity fails");
#if __GLIBC_PREREQ(2, 30)
    MTEST_CHECK(tgkill(number, (pid_t)syscall(SYS_gettid), 0) == 0, "tgkill fails");
#endif
    MTEST_CHECK(clock_getcpuclockid(number, &clock) == 0 && clock_gettime(clock, &time) == 0,
                "%d has no clock", number);
    if (mtest_rank == 0) { /* the ranks of a process share handlers */
        signal(SIGUSR1, count);
        kill(number, SIGUSR1);
        while (n_signals == 0)
            sched_yield();
    }
    MTEST_CHECK(getpid() == number, "the number changed to %d", (int)getpid());
}

static void fork_child(int number)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0)
        _exit(getppid() == number && getpid() != number ? 7 : 1);
    MTEST_CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                    WEXITSTATUS(status) == 7,
                "the child's parent is not %d", number);
}

int main(int argc, char **argv)
{
    int are_own = argc < 2 || strcmp(argv[1], "process") != 0, number;

    mtest_init(&argc, &argv, 1);
    if (mtest_rank == mtest_size - 1) {
        signal(SIGUSR2, look);
        raise(SIGUSR2);
        MTEST_CHECK(number_in_handler == getpid(), "the number in a handler was %d", (int)number_in_handler);
    }
    number = getpid();
    check_numbers(number, are_own);
    check_uses(number);
    fork_child(number);
    if (are_own)
        share_memory(number);
    return mtest_end();
}
