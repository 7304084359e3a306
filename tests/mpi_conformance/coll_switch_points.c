/* SPDX-License-Identifier: BSD-3-Clause */
/* Every operation has the same result as a naive one of sends and receives, with sizes around each switch
 * point: types with and without holes, sums, pairs and a user's non-commutative operation, in place and not.
 * Floating-point sums are the same to the last bit: ranks are combined in order. */
#include "mkinds.h"

enum { TAG = 77 };

/* ---- Naive operations, on bytes that hold whole elements ---- */

static MPI_Comm comm;
static int me, n;

static void put(const void *buf, size_t n_bytes, int to)
{
    MTEST_OK(MPI_Send(buf, (int)n_bytes, MPI_BYTE, to, TAG, comm));
}
static void get(void *buf, size_t n_bytes, int from)
{
    MTEST_OK(MPI_Recv(buf, (int)n_bytes, MPI_BYTE, from, TAG, comm, MPI_STATUS_IGNORE));
}

static void naive_bcast(void *buf, size_t n_bytes, int root)
{
    if (me != root)
        get(buf, n_bytes, root);
    for (int r = 0; me == root && r < n; r++)
        if (r != root)
            put(buf, n_bytes, r);
}

/* Block r of all, n_bytes each, from rank r. */
static void naive_gather(const void *mine, size_t n_bytes, char *all, int root)
{
    if (me != root)
        put(mine, n_bytes, root);
    for (int r = 0; me == root && r < n; r++)
        if (r == root)
            memcpy(all + (size_t)r * n_bytes, mine, n_bytes);
        else
            get(all + (size_t)r * n_bytes, n_bytes, r);
}

static void naive_scatter(const char *all, size_t n_bytes, void *mine, int root)
{
    if (me != root)
        get(mine, n_bytes, root);
    for (int r = 0; me == root && r < n; r++)
        if (r == root)
            memcpy(mine, all + (size_t)r * n_bytes, n_bytes);
        else
            put(all + (size_t)r * n_bytes, n_bytes, r);
}

static void naive_alltoall(const char *in, size_t n_bytes, char *out)
{
    for (int shift = 0; shift < n; shift++) {
        int to = (me + shift) % n, from = (me + n - shift) % n;
        MTEST_OK(MPI_Sendrecv(in + (size_t)to * n_bytes, (int)n_bytes, MPI_BYTE, to, TAG,
                              out + (size_t)from * n_bytes, (int)n_bytes, MPI_BYTE, from, TAG, comm,
                              MPI_STATUS_IGNORE));
    }
}

/* The result of ranks first .. last at rank 0, in the order that the library documents. */
static void naive_reduce(const struct kind *k, const char *mine, char *out, long count)
{
    size_t n_bytes = (size_t)count * k->extent;
    char *other = mtest_alloc(n_bytes + 1);
    if (me != 0) {
        put(mine, n_bytes, 0);
    } else if (k->from_right) {
        for (int r = n - 1; r >= 0; r--) {
            if (r > 0)
                get(other, n_bytes, r);
            if (r == n - 1)
                memcpy(out, r > 0 ? other : mine, n_bytes);
            else
                combine(k, r > 0 ? other : mine, out, count);
        }
    } else {
        memcpy(out, mine, n_bytes);
        for (int r = 1; r < n; r++) {
            get(other, n_bytes, r);
            combine(k, other, out, count);
        }
    }
    free(other);
}

/* What the ranks before have; with my own it goes on. Returns 0 at rank 0, which has none. */
static int naive_exscan(const struct kind *k, const char *mine, char *before, char *with_mine, long count)
{
    size_t n_bytes = (size_t)count * k->extent;
    memcpy(with_mine, mine, n_bytes);
    if (me > 0) {
        get(before, n_bytes, me - 1);
        combine(k, before, with_mine, count);
    }
    if (me < n - 1)
        put(with_mine, n_bytes, me + 1);
    return me > 0;
}

/* ---- Comparing ---- */

static void same(const char *got, const char *want, size_t n_bytes, const char *what, const struct kind *k,
                 long count, int in_place)
{
    if (are_near(k, got, want, n_bytes))
        return;
    if (memcmp(got, want, n_bytes) != 0) {
        size_t i = 0;
        while (got[i] == want[i])
            i++;
        MTEST_CHECK(0, "%s of %ld %s%s, %d ranks: byte %zu of %zu differs", what, count, k->name,
                    in_place ? " in place" : "", n, i, n_bytes);
    }
}

/* Buffers: mine n blocks, a reference and a result; each with a byte behind it that stays as it is. */
static void test(const struct kind *k, long count, int in_place, int salt)
{
    size_t n_bytes = (size_t)count * k->extent, all_bytes = n_bytes * (size_t)n;
    int c = (int)count, root = salt % n, here = in_place && me == root;
    int is_wide = (double)all_bytes * n <= 48e6; /* is it worth the time to check all blocks at all ranks? */
    size_t room = is_wide || me == root ? all_bytes : n_bytes;
    char *in = mtest_alloc(room + 1), *want = mtest_alloc(room + 1), *got = mtest_alloc(room + 1);
    char *more = mtest_alloc(n_bytes + 1);
    long n_elems = (long)(room / k->extent);

    fill(k, in, n_elems, me, salt);
    memset(got, 0, room);
    got[room] = 99;

#define START(length) memcpy(got, in, in_place ? (length) : 0)
    naive_reduce(k, in, want, count);
    naive_bcast(want, n_bytes, 0);
    START(n_bytes);
    MCOLL(Allreduce, allreduce, in_place ? MPI_IN_PLACE : in, got, c, k->type, k->op, comm);
    same(got, want, n_bytes, "Allreduce", k, count, in_place);
    START(n_bytes);
    MCOLL(Reduce, reduce, here ? MPI_IN_PLACE : in, got, c, k->type, k->op, root, comm);
    if (me == root)
        same(got, want, n_bytes, "Reduce", k, count, in_place);

    int has_before = naive_exscan(k, in, more, want, count);
    START(n_bytes);
    MCOLL(Scan, scan, in_place ? MPI_IN_PLACE : in, got, c, k->type, k->op, comm);
    same(got, want, n_bytes, "Scan", k, count, in_place);
    START(n_bytes);
    MCOLL(Exscan, exscan, in_place ? MPI_IN_PLACE : in, got, c, k->type, k->op, comm);
    if (has_before)
        same(got, more, n_bytes, "Exscan", k, count, in_place);

    memcpy(want, in, n_bytes);
    naive_bcast(want, n_bytes, root);
    memcpy(got, in, n_bytes);
    MCOLL(Bcast, bcast, got, c, k->type, root, comm);
    same(got, want, n_bytes, "Bcast", k, count, 0);

    naive_gather(in, n_bytes, want, root);
    memset(got, 0, room);
    if (here)
        memcpy(got + (size_t)me * n_bytes, in, n_bytes);
    MCOLL(Gather, gather, here ? MPI_IN_PLACE : in, c, k->type, got, c, k->type, root, comm);
    if (me == root)
        same(got, want, all_bytes, "Gather", k, count, in_place);
    naive_scatter(in, n_bytes, want, root);
    memset(got, 0, room);
    MCOLL(Scatter, scatter, in, c, k->type, here ? MPI_IN_PLACE : got, c, k->type, root, comm);
    if (!here)
        same(got, want, n_bytes, "Scatter", k, count, in_place);

    if (is_wide) {
        naive_gather(in, n_bytes, want, 0);
        naive_bcast(want, all_bytes, 0);
        memset(got, 0, room);
        memcpy(got + (size_t)me * n_bytes, in, in_place ? n_bytes : 0);
        MCOLL(Allgather, allgather, in_place ? MPI_IN_PLACE : in, c, k->type, got, c, k->type, comm);
        same(got, want, all_bytes, "Allgather", k, count, in_place);
        naive_alltoall(in, n_bytes, want);
        memset(got, 0, room);
        START(all_bytes);
        MCOLL(Alltoall, alltoall, in_place ? MPI_IN_PLACE : in, c, k->type, got, c, k->type, comm);
        same(got, want, all_bytes, "Alltoall", k, count, in_place);
        naive_reduce(k, in, want, count * n);
        naive_scatter(want, n_bytes, more, 0);
        memset(got, 0, room);
        START(all_bytes);
        MCOLL(Reduce_scatter_block, reduce_scatter_block, in_place ? MPI_IN_PLACE : in, got, c, k->type,
              k->op, comm);
        same(got, more, n_bytes, "Reduce_scatter_block", k, count, in_place);
    }
    MTEST_CHECK(got[room] == 99, "wrote behind the buffer");
    free(in);
    free(want);
    free(got);
    free(more);
}

int main(int argc, char **argv)
{
    int salt = 0;

    mcoll_init(&argc, &argv, 1);
    make_kinds();
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    me = mtest_rank;
    n = mtest_size;
    for (int kind = 0; kind < N_KINDS; kind++) {
        const struct kind *k = &kinds[kind];
        for (int i = 0; i < N_POINTS; i++) {
            long at = switch_point(k, i, n);
            /* With many ranks some of the sizes for each kind, and all of them over the kinds. */
            if (n > 8 && (i + kind) % 3)
                continue;
            for (long count = at > 0 ? at - 1 : 0; count <= at + 1; count++, salt++)
                for (int in_place = 0; in_place < 2; in_place++)
                    test(k, count, in_place, salt);
        }
    }
    MTEST_OK(MPI_Op_free(&kinds[5].op));
    MTEST_OK(MPI_Comm_free(&comm));
    return mtest_end();
}
