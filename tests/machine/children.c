/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that programs which a rank starts inherit the program's own descriptors, but none of UCX or PMIx:
 * each rank has ls list its descriptors, by popen and by fork and exec, after messages of all sizes.
 */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../mpi_conformance/mtest.h"

#define LARGE (1 << 20)

static int own_fd; /* the program's */

static void exchange(void)
{
    char *in = mtest_alloc(LARGE), *out = mtest_alloc(LARGE);
    for (int step = 1; step < mtest_size; step++)
        for (int bytes = 1; bytes <= LARGE; bytes *= 8)
            MTEST_OK(MPI_Sendrecv(out, bytes, MPI_BYTE, (mtest_rank + step) % mtest_size, 1, in, bytes,
                                  MPI_BYTE, (mtest_rank + mtest_size - step) % mtest_size, 1, MPI_COMM_WORLD,
                                  MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    free(in);
    free(out);
}

/* The list of ls -l: "... 5 -> /dev/null". ls itself has the folder open. */
static void check(FILE *list, const char *how)
{
    char line[1024];
    int has_own = 0;
    while (list && fgets(line, sizeof line, list)) {
        const char *arrow = strstr(line, " -> "), *number = arrow;
        if (!arrow)
            continue;
        while (number > line && number[-1] != ' ')
            number--;
        int fd = atoi(number);
        line[strcspn(line, "\n")] = '\0';
        has_own |= fd == own_fd;
        MTEST_CHECK(fd <= 2 || fd == own_fd || strstr(arrow, "/proc/"), "%s: the child inherits %s", how,
                    number);
    }
    MTEST_CHECK(has_own, "%s: the child does not inherit the program's own descriptor %d", how, own_fd);
}

static void list_by_popen(void)
{
    FILE *list = popen("exec ls -l /proc/self/fd", "r");
    check(list, "popen");
    MTEST_CHECK(list && pclose(list) == 0, "ls fails");
}

static void list_by_exec(void)
{
    int ends[2], status = -1;
    MTEST_CHECK(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execlp("ls", "ls", "-l", "/proc/self/fd", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *list = fdopen(ends[0], "r");
    check(list, "fork and exec");
    if (list)
        fclose(list);
    MTEST_CHECK(waitpid(child, &status, 0) == child && status == 0, "ls ends with %d", status);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    exchange();
    for (int rank = 0; rank < mtest_size; rank++) { /* the ranks of a process have the same descriptors */
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (rank != mtest_rank)
            continue;
        own_fd = open("/dev/null", O_RDONLY);
        list_by_popen();
        list_by_exec();
        close(own_fd);
    }
    return mtest_end();
}
