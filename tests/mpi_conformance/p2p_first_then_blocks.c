/* SPDX-License-Identifier: BSD-3-Clause */
/* The first message to a rank of the node arrives although its sender then waits outside MPI, for that rank. Over sockets UCX
 * needs the sender to complete a connection, which MPI 5.0, section 2.9, allows. */
#include "mtest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_over_memory(void)
{
    const char *local_size = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *n_nodes = getenv("SLURM_NNODES");

    return !getenv("UCX_TLS") && (!n_nodes || atoi(n_nodes) == 1) &&
           (!local_size || atoi(local_size) == mtest_size);
}

int main(int argc, char **argv)
{
    char path[200] = "";
    char byte = 7;
    int fd;

    mtest_init(&argc, &argv, 2);
    if (!is_over_memory()) {
        MPI_Finalize();
        return 77;
    }
    if (mtest_rank == 0) {
        snprintf(path, sizeof path, "/tmp/first_then_blocks.%ld", (long)getpid());
        MTEST_CHECK(mkfifo(path, 0600) == 0, "mkfifo");
        MTEST_OK(MPI_Send(path, sizeof path, MPI_CHAR, mtest_size - 1, 0, MPI_COMM_WORLD));
        fd = open(path, O_RDONLY);
        MTEST_CHECK(read(fd, &byte, 1) == 1 && byte == 8, "the other rank wrote %d", byte);
        close(fd);
        unlink(path);
    } else if (mtest_rank == mtest_size - 1) {
        MTEST_OK(MPI_Recv(path, sizeof path, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        fd = open(path, O_WRONLY);
        byte++;
        MTEST_CHECK(write(fd, &byte, 1) == 1, "write");
        close(fd);
    }
    return mtest_end();
}
