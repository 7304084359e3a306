/* SPDX-License-Identifier: BSD-3-Clause */
/* Even ranks fork children while odd ranks set handlers of signals, and read and write files. A child can set handlers, too:
 * its copy of the library is not in the middle of a call of another rank. Its exit neither moves another rank's file nor
 * repeats another rank's output. */
#include "mtest.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 50, LINES = 2000, WIDTH = 8 };

static void ignore(int number)
{
    (void)number;
}

static void fork_children(void)
{
    for (int i = 0; i < CHILDREN; i++) {
        int status = -1;
        pid_t pid = fork();

        if (pid == 0) {
            signal(SIGUSR1, ignore);
            exit(3);
        }
        MTEST_CHECK(waitpid(pid, &status, 0) == pid, "no child %d", (int)pid);
        MTEST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3, "child %d ended with status %#x", i,
                    status);
    }
}

/* Writes the lines or, if they are there, reads them. Each of them is its number. */
static void pass_lines(FILE *file, int is_read)
{
    char line[WIDTH + 1];

    for (int i = 0; i < LINES; i++) {
        signal(SIGUSR2, i % 2 ? ignore : SIG_IGN);
        if (!is_read)
            MTEST_CHECK(fprintf(file, "%0*d\n", WIDTH - 1, i) == WIDTH, "line %d", i);
        else
            MTEST_CHECK(fgets(line, sizeof line, file) && atoi(line) == i, "line %d is not in the file", i);
    }
    MTEST_CHECK(!is_read || fgetc(file) == EOF, "the file has more lines");
}

static void use_file(int *is_over)
{
    MPI_Request request;

    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (!*is_over) {
        FILE *file = tmpfile();

        pass_lines(file, 0);
        rewind(file);
        pass_lines(file, 1);
        fclose(file);
        MPI_Test(&request, is_over, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    int is_over = 0;

    mtest_init(&argc, &argv, 2);
    if (mtest_rank % 2) {
        use_file(&is_over);
    } else {
        fork_children();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return mtest_end();
}
