/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mio.h: common parts of the programs that test files.
 */
#ifndef MIO_H
#define MIO_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mtest.h"

/* The name of a new file, empty, the same at all ranks. */
static inline const char *mio_name(char name[64])
{
    if (mtest_rank == 0) {
        int fd;
        snprintf(name, 64, "/tmp/heddle_io_XXXXXX");
        fd = mkstemp(name);
        if (fd < 0) {
            perror(name);
            mtest_give_up();
        }
        close(fd);
    }
    MPI_Bcast(name, 64, MPI_CHAR, 0, MPI_COMM_WORLD);
    return name;
}

/* After all ranks: deletes the file. */
static inline void mio_delete(const char *name)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == 0)
        unlink(name);
}

/* The file's size, as the system sees it. */
static inline long long mio_size(const char *name)
{
    struct stat facts;

    return stat(name, &facts) == 0 ? (long long)facts.st_size : -1;
}

/* The status must count n elements. */
static inline void mio_check_count(MPI_Status *status, MPI_Datatype type, int n, const char *what)
{
    int count = -1;

    MPI_Get_count(status, type, &count);
    MTEST_CHECK(count == n, "%s: the status counts %d elements, expected %d", what, count, n);
}

#endif
