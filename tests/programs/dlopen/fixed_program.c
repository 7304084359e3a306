/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Opens a plugin that cannot be copied.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *plugin = dlopen("plugin_fixed.so", RTLD_NOW);
    int (*answer)(void) = plugin ? (int (*)(void))dlsym(plugin, "plugin_answer") : NULL;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        puts(answer && answer() >= 3 ? "opened" : "not opened");
    MPI_Finalize();
    return 0;
}
