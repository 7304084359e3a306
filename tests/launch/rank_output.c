/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Prints in several ways, for the test of --tag-output: "parts" of lines; "lines" NUM; "write" past the C library's streams,
 * on the rank's thread, on another one and in a child; "descriptor" past both; "replaced" after stdout has become another
 * file, which is printed at the end.
 */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void print_replaced(int rank)
{
    char text[256];
    int kept = dup(STDOUT_FILENO), file = open("replaced", O_RDWR | O_CREAT | O_TRUNC, 0600);
    ssize_t n_bytes;

    dup2(file, fileno(stdout));
    printf("into the file by %d\n", rank);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    n_bytes = pread(file, text, sizeof text - 1, 0);
    text[n_bytes > 0 ? n_bytes : 0] = '\0';
    printf("the file: %s", text);
}

static void *write_line(void *rank)
{
    char text[64];
    int len = snprintf(text, sizeof text, "written by %d\n", *(int *)rank);

    return write(STDOUT_FILENO, text, (size_t)len) == len ? rank : NULL;
}

static int write_thrice(int rank)
{
    void *result = NULL;
    pthread_t thread;
    pid_t child;
    int status;

    if (!write_line(&rank) || pthread_create(&thread, NULL, write_line, &rank) != 0)
        return 1;
    pthread_join(thread, &result);
    child = fork();
    if (child == 0)
        _exit(!write_line(&rank));
    return !result || waitpid(child, &status, 0) != child || status != 0;
}

int main(int argc, char **argv)
{
    int rank, code = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(argv[1], "parts") == 0) {
        printf("one, ");
        MPI_Barrier(MPI_COMM_WORLD);
        printf("two\n");
        fputs("three\n", stderr);
        MPI_Barrier(MPI_COMM_WORLD);
        printf("the end");
    } else if (strcmp(argv[1], "write") == 0) {
        code = write_thrice(rank);
    } else if (strcmp(argv[1], "lines") == 0) {
        for (long i = 0; i < atol(argv[2]); i++)
            printf("%d %ld end\n", rank, i);
    } else if (strcmp(argv[1], "descriptor") == 0) {
        dprintf(STDOUT_FILENO, "by descriptor\n");
    } else if (rank == 0) {
        print_replaced(rank);
    }
    MPI_Finalize();
    return code;
}
