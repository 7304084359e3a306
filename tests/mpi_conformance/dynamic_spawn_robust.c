/* SPDX-License-Identifier: BSD-3-Clause */
/* A process can spawn more ranks than it has numbers for (4,096) if they disconnect. Some end with a robust mutex locked, before
 * others are spawned: the parent can still lock one. */
#include "mtest.h"
#include "robust.h"

enum { N_SPAWNS = 40, N_WIDE = 66, WIDTH = 64 }; /* the copies of the first ones stay, for debuggers */

int main(int argc, char **argv)
{
    MPI_Comm parent, inter;

    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        if (argc > 1 && strcmp(argv[1], "lock") == 0)
            lock_robust();
        MTEST_OK(MPI_Comm_disconnect(&parent));
        MPI_Finalize();
        return 0;
    }
    for (int i = 0; i < N_SPAWNS; i++) {
        char *args[] = {(char *)(i == N_SPAWNS - 4 ? "lock" : "end"), NULL};
        MTEST_OK(MPI_Comm_spawn(argv[0], args, i == N_SPAWNS - 4 ? 4 : 1, MPI_INFO_NULL, 0, MPI_COMM_SELF,
                                &inter, MPI_ERRCODES_IGNORE));
        MTEST_OK(MPI_Comm_disconnect(&inter));
    }
    for (int i = 0; i < N_WIDE; i++) {
        MTEST_OK(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, i % 2 ? WIDTH : WIDTH + i % 5, MPI_INFO_NULL, 0,
                                MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE));
        MTEST_OK(MPI_Comm_disconnect(&inter));
    }
    lock_robust();
    pthread_mutex_unlock(&robust);
    return mtest_end();
}
