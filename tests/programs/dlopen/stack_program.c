/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One rank after the other opens a plugin that needs executable stacks; the others use it, too, after they have opened it. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, is_right = 1, are_right;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < size; i++) {
        if (rank == i) {
            void *plugin = dlopen(argv[1], RTLD_NOW);
            int (*answer)(void) = plugin ? (int (*)(void))dlsym(plugin, "plugin_answer") : NULL;

            is_right = answer && answer() == 42;
            if (!answer)
                printf("%s\n", dlerror());
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Allreduce(&is_right, &are_right, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    if (rank == 0)
        printf(are_right ? "ok\n" : "wrong\n");
    MPI_Finalize();
    return 0;
}
