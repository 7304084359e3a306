/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ends in the way that the first argument names; the second is the rank that does so (default 1, or 0 if it
 * is the only one).
 */
#include <alloca.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Uses all of the stack. */
static int recurse(int depth)
{
    volatile char room[1000];

    room[depth % 1000] = (char)depth;
    return recurse(depth + 1) + room[(depth + 1) % 1000];
}

/* A frame of this many MiB; only its lowest bytes are written. */
static int use_frame(size_t frame_mib)
{
    volatile char *room = alloca(frame_mib << 20);

    room[0] = 1;
    return room[0] - 1;
}

static int divide(volatile int a, volatile int b)
{
    return a / b;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "well";
    int rank, n_ranks, chosen, value = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    chosen = argc > 2 ? atoi(argv[2]) : n_ranks > 1;
    printf("rank %d of %d\n", rank, n_ranks);
    if (strcmp(how, "receive") == 0) /* from itself, on every rank: no rank will ever send */
        MPI_Recv(&value, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if ((strcmp(how, "barrier") == 0 || strcmp(how, "exec_endless") == 0) && rank != chosen)
        MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(how, "probe") == 0)
        MPI_Probe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (strcmp(how, "exec_last") == 0) { /* another program continues each rank */
        char text[16];

        MPI_Finalize();
        fflush(stdout);
        snprintf(text, sizeof text, "%d", rank);
        execlp("sh", "sh", "-c", "echo program of rank $0; exit $(($0 == 1 ? 3 : 0))", text, (char *)NULL);
        return 99;
    }
    if (rank == chosen) {
        if (strcmp(how, "exec") == 0)
            execl("/bin/true", "true", (char *)NULL);
        if (strcmp(how, "exec_endless") == 0) /* its parent is the process of the ranks */
            execlp("sh", "sh", "-c", "kill -9 $PPID; exec sleep 1000", (char *)NULL);
        if (strcmp(how, "exec_nothing") == 0)
            value = execl("/nothing", "nothing", (char *)NULL);
        if (strcmp(how, "overflow") == 0)
            return recurse(0);
        if (strcmp(how, "frame") == 0)
            value = use_frame((size_t)atol(argv[3]));
        if (strcmp(how, "freopen") == 0 && (!freopen("reopened.txt", "w", stdout) || puts("in a file") < 0))
            return 9;
        if (strcmp(how, "segv") == 0)
            *(volatile int *)(intptr_t)value = 1;
        if (strcmp(how, "fpe") == 0)
            return divide(1, value);
        if (strcmp(how, "abort") == 0)
            abort();
        if (strcmp(how, "no-finalize") == 0)
            return 0;
        if (strcmp(how, "exit-early") == 0)
            exit(4);
        if (strcmp(how, "mpi-abort") == 0)
            MPI_Abort(MPI_COMM_WORLD, 9);
    }
    if (strcmp(how, "arguments") == 0)
        for (int i = 2; i < argc; i++)
            printf("argument %s\n", argv[i]);
    MPI_Finalize();
    if (rank == chosen && strcmp(how, "return") == 0)
        return 7;
    if (strcmp(how, "at-once") == 0 || strcmp(how, "system-call") == 0) {
        puts("after MPI");
        fflush(stdout);
        if (strcmp(how, "system-call") == 0)
            syscall(SYS_exit_group, 0);
        _exit(0);
    }
    return 0;
}
