/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For inner_test.sh: prints its rank; or its rank 0 starts another program, in the way and at the moment that
 * the first argument names, and all ranks wait for it in a barrier.
 *
 *   inner                              "I am RANK of SIZE", once per rank
 *   inner WAY [before|after] COMMAND   WAY: system, popen, exec (fork and exec), spawn (posix_spawn)
 */
#include <mpi.h>

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int run_piped(const char *command)
{
    char line[256];
    FILE *pipe = popen(command, "r");
    while (pipe && fgets(line, sizeof line, pipe))
        fputs(line, stdout);
    return pipe ? pclose(pipe) : -1;
}

static int run_child(char *command, int is_spawned)
{
    char *argv[] = {(char *)"sh", (char *)"-c", command, NULL};
    int status = -1;
    pid_t pid;

    if (is_spawned && posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ) != 0)
        return -1;
    if (!is_spawned && (pid = fork()) == 0) {
        execv("/bin/sh", argv);
        _exit(99);
    }
    waitpid(pid, &status, 0);
    return status;
}

static int run(const char *way, char *command)
{
    fflush(stdout);
    if (strcmp(way, "system") == 0)
        return system(command);
    if (strcmp(way, "popen") == 0)
        return run_piped(command);
    return run_child(command, strcmp(way, "spawn") == 0);
}

int main(int argc, char **argv)
{
    int rank, size, is_before = argc > 3 && strcmp(argv[2], "before") == 0;

    if (is_before && run(argv[1], argv[3]) != 0)
        puts("the inner program failed");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 3 && !is_before && rank == 0 && run(argv[1], argv[3]) != 0)
        puts("the inner program failed");
    MPI_Barrier(MPI_COMM_WORLD);
    printf("%s %d of %d\n", argc > 3 ? "outer" : "inner", rank, size);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
