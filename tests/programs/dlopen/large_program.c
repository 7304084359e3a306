/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that each rank has its own variables of a plugin, however large, also in a program that
 * can spawn (SPAWNS), whose further ranks need address space, too.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *plugin = dlopen("./plugin_large.so", RTLD_NOW);
    int (*answer)(void) = plugin ? (int (*)(void))dlsym(plugin, "plugin_answer") : NULL;
    int rank, first, sum;

    if (!plugin)
        puts(dlerror());
    MPI_Init(&argc, &argv);
#ifdef SPAWNS
    if (argc > 1)
        MPI_Comm_spawn(argv[1], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &(MPI_Comm){0},
                       MPI_ERRCODES_IGNORE);
#endif
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    first = answer ? answer() : -1;
    MPI_Barrier(MPI_COMM_WORLD);
    sum = first == 1 && answer() == 2 ? 0 : 1;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        puts(sum == 0 ? "ok" : "wrong");
    MPI_Finalize();
    return 0;
}
