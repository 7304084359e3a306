/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: the garbage collector of each rank finds the objects that only the rank's stack refers to.
 */
#include <gc.h>
#include <mpi.h>
#include <stdio.h>

#define NODES 2000

struct node {
    struct node *next;
    long value;
};

int main(int argc, char **argv)
{
    struct node *volatile head = NULL;
    long n_found = 0;
    int rank;

    GC_INIT();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (long i = 0; i < NODES; i++) {
        struct node *node = GC_MALLOC(sizeof *node);

        node->value = i * 16 + rank;
        node->next = head;
        head = node;
        if (i % (NODES / 4) == 0) {
            GC_gcollect();
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    for (struct node *node = head; node && n_found < NODES;
         node = node->next) /* what was freed has other contents */
        n_found += node->value == (NODES - 1 - n_found) * 16 + rank;
    fputs(n_found == NODES ? "ok " : "wrong ", stdout);
    MPI_Finalize();
    return 0;
}
