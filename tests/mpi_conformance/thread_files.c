/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that threads of a rank use one file at the same time: blocking and nonblocking, and in atomic mode, in which nobody reads
 * a record that is half written.
 */
#include <pthread.h>

#include "mio.h"

enum { THREADS = 3, ROUNDS = 30, BLOCK = 3000 };

static MPI_File file;
static int n_wrong[THREADS];

/* Each thread has its own part of the file, and all share the record at its beginning. */
static void *run(void *arg)
{
    int thread = *(int *)arg;
    char data[BLOCK], back[BLOCK];
    MPI_Offset at = (MPI_Offset)BLOCK * (1 + mtest_rank * THREADS + thread);

    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request request;
        memset(data, (mtest_rank * THREADS + thread) * ROUNDS + round, BLOCK);
        MPI_File_iwrite_at(file, at, data, BLOCK, MPI_BYTE, &request);
        MPI_File_write_at(file, 0, data, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_File_read_at(file, at, back, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE);
        n_wrong[thread] += memcmp(data, back, BLOCK) != 0;
        MPI_File_read_at(file, 0, back, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE);
        n_wrong[thread] += mtest_touched(back, BLOCK, (unsigned char)back[0]) >= 0;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int numbers[THREADS], level;
    char name[64];

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    mtest_learn_world(1);
    mio_name(name);
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MTEST_OK(MPI_File_set_atomicity(file, 1));
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, run, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        MTEST_CHECK(n_wrong[i] == 0, "thread %d read %d wrong records", i, n_wrong[i]);
    }
    MTEST_OK(MPI_File_close(&file));
    mio_delete(name);
    return mtest_end();
}
