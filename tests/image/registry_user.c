/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Enters the registry in a constructor, in exit handlers and in a destructor. Exit handlers wait for the
 * other ranks inside MPI.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

void registry_enter(void);

__attribute__((constructor)) static void begin(void)
{
    registry_enter();
}

__attribute__((destructor)) static void end(void)
{
    registry_enter();
}

static void finalize(void)
{
    registry_enter();
    MPI_Barrier(MPI_COMM_WORLD);
    registry_enter();
    MPI_Finalize();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    atexit(finalize);
    atexit(registry_enter);
    return 0;
}
