/* SPDX-License-Identifier: BSD-3-Clause */
/* Each rank forks children that sleep, compute and end by exit, _exit or an MPI call, which is refused there;
 * the ranks continue. */
#include "mtest.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int code_of(pid_t pid)
{
    int status = 0;

    MTEST_CHECK(waitpid(pid, &status, 0) == pid, "no child %d", (int)pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void in_child(int round)
{
    int value = round, rank;

    usleep(1000);
    switch (round % 4) {
    case 0:
        sched_yield();
        exit(10);
    case 1:
        sleep(0);
        _exit(11);
    case 2:
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        _exit(12);
    default:
        MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        _exit(13);
    }
}

int main(int argc, char **argv)
{
    int sum = 0;

    mtest_init(&argc, &argv, 1);
    for (int round = 0; round < 8; round++) {
        int one = 1, code;
        pid_t pid = fork();

        if (pid == 0)
            in_child(round);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MTEST_CHECK(sum == mtest_size, "%d ranks came", sum);
        code = code_of(pid);
        if (round % 4 < 2)
            MTEST_CHECK(code == 10 + round % 4, "exit code %d in round %d", code, round);
        else
            MTEST_CHECK(code > 0 && code != 10 + round % 4, "exit code %d in round %d", code, round);
        MTEST_CHECK(system("exit 4") == W_EXITCODE(4, 0), "system in round %d", round);
    }
    return mtest_end();
}
