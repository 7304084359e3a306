/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a write in atomic mode leaves the bytes between its pieces alone: another rank writes to these through a handle of its
 * own, which is not in atomic mode, at the same time, and reads back what it has written. And that a collective write leaves them
 * alone, though overlapping blocks of the ranks have as many bytes as blocks without a hole.
 */
#include "mio.h"

enum { PIECES = 64, ROUNDS = 200, BLOCK = 4096, BLOCKS = 64 };

/* All ranks write all blocks but every fourth. */
static void overlap(const char *name)
{
    static char data[BLOCKS * BLOCK];
    MPI_Datatype blocks, filetype;
    MPI_File file;

    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    memset(data, 1, sizeof data);
    if (mtest_rank == 0)
        MTEST_OK(MPI_File_write_at(file, 0, data, sizeof data, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Type_contiguous(3 * BLOCK, MPI_BYTE, &blocks);
    MPI_Type_create_resized(blocks, 0, 4 * BLOCK, &filetype);
    MPI_Type_commit(&filetype);
    MTEST_OK(MPI_File_set_view(file, 0, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
    memset(data, 2, sizeof data);
    MTEST_OK(MPI_File_write_at_all(file, 0, data, BLOCKS / 4 * 3 * BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MTEST_OK(MPI_File_read_at_all(file, 0, data, sizeof data, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < BLOCKS; i++)
        MTEST_CHECK(data[i * BLOCK] == (i % 4 == 3 ? 1 : 2), "block %d is %d", i, data[i * BLOCK]);
    MTEST_OK(MPI_File_close(&file));
    MPI_Type_free(&blocks);
    MPI_Type_free(&filetype);
}

int main(int argc, char **argv)
{
    int data[PIECES], back[PIECES], is_writer;
    MPI_Datatype filetype;
    MPI_File file;
    char name[64];

    mtest_init(&argc, &argv, 2);
    is_writer = mtest_rank % 2; /* of the holes */
    mio_name(name);
    MPI_Type_vector(PIECES, 1, 2, MPI_INT, &filetype);
    MPI_Type_commit(&filetype);
    MTEST_OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MTEST_OK(MPI_File_set_view(file, mtest_rank / 2 * 4096 + is_writer * 4, MPI_INT, filetype, "native",
                               MPI_INFO_NULL));
    MTEST_OK(MPI_File_set_atomicity(file, !is_writer));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS && !mtest_errors; i++) {
        for (int k = 0; k < PIECES; k++)
            data[k] = i * PIECES + k + 1;
        MTEST_OK(MPI_File_write_at(file, 0, data, PIECES, MPI_INT, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_File_read_at(file, 0, back, PIECES, MPI_INT, MPI_STATUS_IGNORE));
        MTEST_CHECK(memcmp(data, back, sizeof data) == 0, "round %d: what was written is not there", i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_File_close(&file));
    MPI_Type_free(&filetype);
    overlap(name);
    mio_delete(name);
    return mtest_end();
}
