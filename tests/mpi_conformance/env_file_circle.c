/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks of a node wait for each other's file locks in a circle, across processes: exactly one gets EDEADLK, and when
 * it releases its lock the others get theirs. A chain that ends, and shared locks, are no circle. */
#include "mtest.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static MPI_Comm node;
static int fd, me, n;

static int set(int cmd, short type, off_t start, off_t len)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};

    return fcntl(fd, cmd, &range);
}

/* Waits for bytes; then the rank releases all that it has. Returns how many ranks of the node were refused. */
static int wait_for(short type, off_t start, off_t len)
{
    int is_refused = set(F_SETLKW, type, start, len) != 0, n_refused;

    MTEST_CHECK(!is_refused || errno == EDEADLK, "errno %d", errno);
    MTEST_CHECK(set(F_SETLK, F_UNLCK, 0, 0) == 0, "errno %d", errno);
    MPI_Allreduce(&is_refused, &n_refused, 1, MPI_INT, MPI_SUM, node);
    return n_refused;
}

/* All ranks take a byte each, at an offset; returns when all have done so. */
static void take(off_t start)
{
    MTEST_CHECK(set(F_SETLK, F_WRLCK, start + me, 1) == 0, "errno %d", errno);
    MPI_Barrier(node);
}

int main(int argc, char **argv)
{
    char path[] = "/tmp/heddle-file-circle-XXXXXX";
    int n_refused;

    mtest_init(&argc, &argv, 1);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &me);
    MPI_Comm_size(node, &n);
    if (me == 0)
        close(mkstemp(path));
    MPI_Bcast(path, sizeof path, MPI_CHAR, 0, node);
    fd = open(path, O_RDWR);
    MTEST_CHECK(fd >= 0, "cannot open %s", path);

    /* Twice: what the first circle left behind must not be seen in the second. */
    for (int round = 0; round < 2 && n > 1; round++) {
        take(0);
        n_refused = wait_for(F_WRLCK, (me + 1) % n, 1);
        MTEST_CHECK(n_refused == 1, "circle: %d of %d ranks were refused", n_refused, n);
    }
    /* Everyone wants what all share: each new wait closes a circle with those that wait already, until one is left. */
    if (n > 1) {
        MTEST_CHECK(set(F_SETLK, F_RDLCK, 100, 10) == 0, "errno %d", errno);
        MPI_Barrier(node);
        n_refused = wait_for(F_WRLCK, 90, 0);
        MTEST_CHECK(n_refused == n - 1, "shared: %d of %d ranks were refused", n_refused, n);
    }
    take(200);
    n_refused = me == 0 ? wait_for(F_WRLCK, 300, 1) : wait_for(F_WRLCK, 200 + me - 1, 1);
    MTEST_CHECK(n_refused == 0, "chain: %d of %d ranks were refused", n_refused, n);
    for (int i = 0; i < 5; i++) { /* a queue */
        n_refused = wait_for(F_WRLCK, 400, 50);
        MTEST_CHECK(n_refused == 0, "queue: %d of %d ranks were refused", n_refused, n);
    }
    close(fd);
    MPI_Barrier(node);
    if (me == 0)
        unlink(path);
    MPI_Comm_free(&node);
    return mtest_end();
}
