/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a failed process ends the waits of others for a file: the shared file pointer, which was in that process, and
 * collective calls return MPI_ERR_PROC_ABORTED; the survivors' data can still be written, and the file can be closed.
 *
 * One rank per process; the last one is rank 0 of the file's communicator, and kills itself.
 */
#include <signal.h>
#include <unistd.h>

#include "../mpi_conformance/mio.h"
#include "connect.h"

int main(int argc, char **argv)
{
    char name[64];
    int value = 7, got = 0, error = MPI_SUCCESS;
    MPI_Offset size;
    MPI_Comm reversed;
    MPI_File file;

    mtest_init(&argc, &argv, 2);
    mtest_errors_return(MPI_COMM_WORLD);
    connect_all();
    mio_name(name);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -mtest_rank, &reversed);
    mtest_errors_return(reversed);
    MTEST_OK(MPI_File_open(reversed, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MTEST_OK(MPI_File_write_shared(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == 0)
        unlink(name);
    if (mtest_rank == mtest_size - 1) {
        usleep(100000);
        kill(getpid(), SIGKILL);
    }
    while (!error) /* until the loss is known */
        error = MPI_File_write_shared(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    MTEST_CHECK(mtest_class(error) == MPI_ERR_PROC_ABORTED, "write_shared: class %d", mtest_class(error));
    MTEST_CLASS(MPI_File_get_position_shared(file, &size), MPI_ERR_PROC_ABORTED);
    MTEST_CLASS(MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    MTEST_CLASS(MPI_File_set_size(file, 0), MPI_ERR_PROC_ABORTED);
    MTEST_OK(MPI_File_write_at(file, 100 * mtest_rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_File_read_at(file, 100 * mtest_rank, &got, 1, MPI_INT, MPI_STATUS_IGNORE));
    MTEST_CHECK(got == value, "%d was read", got);
    MTEST_OK(MPI_File_close(&file));
    printf("survived\n");
    return mtest_end();
}
