/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks that send standard output to one file, or one after the other, do so in silence. With the argument "apart" (dup2) or
 * "freopen" each has a file of its own, which they cannot have in one process: that is reported, with its remedy.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "mtest.h"

static void redirect(const char *path, int with_freopen)
{
    int fd = open(path, O_WRONLY);

    MTEST_CHECK(fd >= 0, "open");
    if (with_freopen)
        MTEST_CHECK(freopen(path, "w", stdout) == stdout, "freopen");
    else
        MTEST_CHECK(dup2(fd, STDOUT_FILENO) == STDOUT_FILENO, "dup2");
    close(fd);
}

int main(int argc, char **argv)
{
    int is_apart, with_freopen, saved;

    mtest_init(&argc, &argv, 1);
    is_apart = argc > 1;
    with_freopen = is_apart && strcmp(argv[1], "freopen") == 0;
    saved = dup(STDOUT_FILENO);
    for (int turn = 0; turn < mtest_size; turn++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (turn == mtest_rank && !is_apart) { /* one after the other */
            redirect(turn == 0 ? "/dev/null" : "/dev/full", 0);
            dup2(saved, STDOUT_FILENO);
        }
    }
    for (int turn = 0; turn < mtest_size; turn++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (turn == mtest_rank)
            redirect(is_apart && turn > 0 ? "/dev/full" : "/dev/null", with_freopen);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    dup2(saved, STDOUT_FILENO);
    MPI_Barrier(MPI_COMM_WORLD);
    return mtest_end();
}
