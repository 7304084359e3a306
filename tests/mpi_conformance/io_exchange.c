/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that collective writes and reads whose data goes through aggregators (romio_cb_write, cb_nodes, cb_buffer_size) leave
 * in the file and in memory what a model says, for random blocks with holes, with two operations in progress, beyond the end
 * of the file, and where the file may not grow: then every rank with such data gets an error.
 */
#include <signal.h>
#include <sys/resource.h>

#include "mio.h"

enum { FILE_BYTES = 1 << 18, BLOCKS_MAX = 8000 /* twice as many as a rank gets of the smallest blocks */ };

static uint64_t seed; /* the same at all ranks */

static int roll(int n)
{
    return (int)(mtest_random(&seed) % (unsigned)n);
}

/* This rank's blocks of the file. */
static struct {
    int n;
    int lengths[BLOCKS_MAX];
    MPI_Aint at[BLOCKS_MAX];
    int n_bytes;
} share;

static unsigned char model[FILE_BYTES], found[FILE_BYTES], memory[FILE_BYTES];

/* Deals the bytes from .. to - 1 out to the ranks, in blocks; nobody gets some of them. A write: with a value for each
 * block, which the model gets, too. */
static void deal(int from, int to, bool is_write)
{
    static const int sizes[] = {40, 700, 5000, 70000};
    int size = sizes[roll(4)], n_holes = roll(3), n_users = 1 + roll(mtest_size);

    size = size < 2 * FILE_BYTES / BLOCKS_MAX ? 2 * FILE_BYTES / BLOCKS_MAX : size;
    share.n = share.n_bytes = 0;
    for (int at = from, n; at < to; at += n) {
        int user = roll(n_users), value = roll(256);
        n = 1 + roll(2 * size);
        n = n < to - at ? n : to - at;
        if (roll(10) < n_holes)
            continue;
        if (is_write)
            memset(model + at, value, (size_t)n);
        if (user != mtest_rank || share.n == BLOCKS_MAX)
            continue;
        if (is_write)
            memset(memory + share.n_bytes, value, (size_t)n);
        share.lengths[share.n] = n;
        share.at[share.n++] = at;
        share.n_bytes += n;
    }
}

static void set_view(MPI_File file)
{
    MPI_Datatype blocks, filetype;

    MPI_Type_create_hindexed(share.n, share.lengths, share.at, MPI_BYTE, &blocks);
    MPI_Type_create_resized(blocks, 0, FILE_BYTES, &filetype);
    MPI_Type_commit(&filetype);
    MTEST_OK(MPI_File_set_view(file, 0, MPI_BYTE, share.n ? filetype : MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_Type_free(&filetype);
    MPI_Type_free(&blocks);
}

static void check_file(const char *name)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == 0) {
        int fd = open(name, O_RDONLY);
        MTEST_CHECK(pread(fd, found, FILE_BYTES, 0) == FILE_BYTES, "the file is too short");
        for (int i = 0; i < FILE_BYTES; i++)
            if (found[i] != model[i]) {
                MTEST_CHECK(false, "byte %d of the file is %d, expected %d", i, found[i], model[i]);
                break;
            }
        close(fd);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check_memory(void)
{
    for (int i = 0, used = 0; i < share.n; used += share.lengths[i++])
        if (memcmp(memory + used, model + share.at[i], (size_t)share.lengths[i]) != 0) {
            MTEST_CHECK(false, "the block of %d bytes at %ld was not read", share.lengths[i],
                        (long)share.at[i]);
            return;
        }
}

/* Writes in two operations, both in progress at a time, then reads in another distribution. */
static void write_and_read(MPI_File file, const char *name)
{
    MPI_Request requests[2];
    MPI_Status status;
    int n_first;

    deal(0, FILE_BYTES, true);
    n_first = share.n_bytes / 2;
    set_view(file);
    MTEST_OK(MPI_File_iwrite_at_all(file, 0, memory, n_first, MPI_BYTE, &requests[0]));
    MTEST_OK(MPI_File_iwrite_at_all(file, n_first, memory + n_first, share.n_bytes - n_first, MPI_BYTE,
                                    &requests[1]));
    MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    check_file(name);
    deal(0, FILE_BYTES, false);
    set_view(file);
    memset(memory, 0, sizeof memory);
    MTEST_OK(MPI_File_read_at_all(file, 0, memory, share.n_bytes, MPI_BYTE, &status));
    mio_check_count(&status, MPI_BYTE, share.n_bytes, "read");
    check_memory();
}

/* Blocks of 1000 bytes in turn; the file ends in the third round, 100 bytes after the block of rank 0. */
static void read_beyond_end(MPI_File file)
{
    int n_bytes = mtest_size == 1 ? 3100 : mtest_rank == 0 ? 3000 : mtest_rank == 1 ? 2100 : 2000;
    MPI_Status status;

    MTEST_OK(MPI_File_set_size(file, (2 * mtest_size + 1) * 1000 + 100));
    share.n = 4;
    for (int i = 0; i < 4; i++) {
        share.lengths[i] = 1000;
        share.at[i] = (i * mtest_size + mtest_rank) * 1000;
    }
    set_view(file);
    memset(memory, 0xee, 4000);
    MTEST_OK(MPI_File_read_at_all(file, 0, memory, 4000, MPI_BYTE, &status));
    mio_check_count(&status, MPI_BYTE, n_bytes, "end of the file");
    MTEST_CHECK(mtest_touched(memory + n_bytes, (size_t)(4000 - n_bytes), 0xee) < 0,
                "memory beyond what was read has changed");
}

/* The same blocks, of which the last two rounds do not fit. */
static void write_beyond_limit(MPI_File file)
{
    struct rlimit before, limit;
    int error;

    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = (rlim_t)(2 * mtest_size * 1000);
    MPI_Barrier(MPI_COMM_WORLD);
    setrlimit(RLIMIT_FSIZE, &limit);
    error = MPI_File_write_at_all(file, 0, memory, 4000, MPI_BYTE, MPI_STATUS_IGNORE);
    MTEST_CHECK(error != MPI_SUCCESS, "a file that may not grow: no error");
    MPI_Barrier(MPI_COMM_WORLD);
    setrlimit(RLIMIT_FSIZE, &before);
}

int main(int argc, char **argv)
{
    static const char *const nodes[] = {"1", "2", "100"}, *const buffers[] = {"30000", "65536", "16777216"};
    char name[64];

    mtest_init(&argc, &argv, 1);
    for (int i = 0; i < 3; i++) {
        MPI_Info info;
        MPI_File file;
        seed = (uint64_t)i;
        memset(model, 0, sizeof model);
        mio_name(name);
        MPI_Info_create(&info);
        MPI_Info_set(info, "romio_cb_write", "enable");
        MPI_Info_set(info, "romio_cb_read", "enable");
        MPI_Info_set(info, "cb_nodes", nodes[i]);
        MPI_Info_set(info, "cb_buffer_size", buffers[i]);
        MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, info, &file));
        MPI_Info_free(&info);
        MTEST_OK(MPI_File_set_size(file, FILE_BYTES));
        for (int k = 0; k < 3; k++)
            write_and_read(file, name);
        read_beyond_end(file);
        write_beyond_limit(file);
        MTEST_OK(MPI_File_close(&file));
        mio_delete(name);
    }
    return mtest_end();
}
