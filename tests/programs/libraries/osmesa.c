/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that each rank draws into its own picture: OSMesa keeps the current context per thread.
 */
#include <GL/gl.h>
#include <GL/osmesa.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 32, N_COLORS = 10 };

int main(int argc, char **argv)
{
    OSMesaContext context;
    unsigned char *picture = calloc(SIDE * SIDE, 4);
    int rank, n_wrong = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    context = OSMesaCreateContextExt(OSMESA_RGBA, 16, 0, 0, NULL);
    if (!context || !OSMesaMakeCurrent(context, picture, GL_UNSIGNED_BYTE, SIDE, SIDE))
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < N_COLORS; i++) {
        int red = rank * N_COLORS + i;

        MPI_Barrier(MPI_COMM_WORLD);
        glClearColor((float)red / 255, 0, 0, 1);
        MPI_Barrier(MPI_COMM_WORLD);
        glClear(GL_COLOR_BUFFER_BIT);
        MPI_Barrier(MPI_COMM_WORLD);
        glFinish();
        n_wrong += picture[0] != red || OSMesaGetCurrentContext() != context;
    }
    MPI_Finalize();
    puts(n_wrong ? "another rank's picture" : "ok");
    return n_wrong != 0;
}
