/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on communicators with every distribution over processes (blocks, reversed, interleaved, a few
 * processes only, random): data of short and long vectors arrives, and operations that do not commute keep
 * rank order. */
#include <stdbool.h>
#include <stddef.h>

#include "mcoll.h"

static unsigned next_random(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 16;
}

/* ---- An operation that does not commute: maps x -> a x + b modulo a prime, one after the other ---- */

struct map {
    long a;
    int b;
};

static const long prime = 32749;

static struct map then(struct map f, struct map g)
{
    return (struct map){f.a * g.a % prime, (int)((g.a * f.b + g.b) % prime)};
}

static void compose(void *in, void *inout, int *len, MPI_Datatype *type)
{
    struct map *f = in, *g = inout;

    (void)type;
    for (int i = 0; i < *len; i++)
        g[i] = then(f[i], g[i]);
}

static MPI_Datatype map_type; /* with padding behind b */
static MPI_Op map_op;

static struct map map_of(int rank, int i)
{
    return (struct map){(rank * 131 + i * 7) % (prime - 1) + 1, (rank * 17 + i * 3 + 1) % (int)prime};
}

static struct map map_up_to(int last, int i)
{
    struct map sum = map_of(0, i);

    for (int r = 1; r <= last; r++)
        sum = then(sum, map_of(r, i));
    return sum;
}

static bool is_same(struct map f, struct map g)
{
    return f.a == g.a && f.b == g.b;
}

static void check_maps(const struct map *got, int from, int count, int last, const char *what, int n)
{
    for (int i = 0; i < count; i++)
        if (!is_same(got[i], map_up_to(last, from + i))) {
            MTEST_CHECK(0, "%s of %d ranks, element %d of %d: %ld %d", what, n, i, count, got[i].a, got[i].b);
            return;
        }
}

static void reduce_maps(MPI_Comm comm, int me, int n, int count)
{
    struct map *mine = mtest_alloc((size_t)count * (size_t)n * sizeof *mine);
    struct map *got = mtest_alloc((size_t)count * (size_t)n * sizeof *got);
    int *counts = mtest_alloc((size_t)n * sizeof *counts);
    int mine_from = 0, total = 0, root = count % n;

    for (int i = 0; i < n; i++) {
        counts[i] = (i * 5 + count) % (2 * count + 1);
        if (total + counts[i] > count * n)
            counts[i] = 0;
        mine_from += i < me ? counts[i] : 0;
        total += counts[i];
    }
    for (int i = 0; i < count * n; i++)
        mine[i] = map_of(me, i);
    MCOLL(Allreduce, allreduce, mine, got, count, map_type, map_op, comm);
    check_maps(got, 0, count, n - 1, "Allreduce", n);
    memcpy(got, mine, (size_t)count * sizeof *got);
    MCOLL(Allreduce, allreduce, MPI_IN_PLACE, got, count, map_type, map_op, comm);
    check_maps(got, 0, count, n - 1, "Allreduce in place", n);
    MCOLL(Reduce, reduce, mine, got, count, map_type, map_op, root, comm);
    if (me == root)
        check_maps(got, 0, count, n - 1, "Reduce", n);
    MCOLL(Scan, scan, mine, got, count, map_type, map_op, comm);
    check_maps(got, 0, count, me, "Scan", n);
    memcpy(got, mine, (size_t)count * sizeof *got);
    MCOLL(Exscan, exscan, MPI_IN_PLACE, got, count, map_type, map_op, comm);
    if (me > 0)
        check_maps(got, 0, count, me - 1, "Exscan in place", n);
    MCOLL(Reduce_scatter_block, reduce_scatter_block, mine, got, count, map_type, map_op, comm);
    check_maps(got, me * count, count, n - 1, "Reduce_scatter_block", n);
    MCOLL(Reduce_scatter, reduce_scatter, mine, got, counts, map_type, map_op, comm);
    check_maps(got, mine_from, counts[me], n - 1, "Reduce_scatter", n);
    free(counts);
    free(got);
    free(mine);
}

/* ---- Built-in operations; pairs have padding ---- */

struct pair {
    double value;
    int rank;
};

static void reduce_builtin(MPI_Comm comm, int me, int n, int count)
{
    long *mine = mtest_alloc((size_t)count * sizeof *mine), *got = mtest_alloc((size_t)count * sizeof *got);
    struct pair *pairs = mtest_alloc((size_t)count * sizeof *pairs);
    struct pair *most = mtest_alloc((size_t)count * sizeof *most);
    int root = (count + 1) % n, n_wrong = 0;

    for (int i = 0; i < count; i++) {
        mine[i] = (long)me * me + i;
        pairs[i] = (struct pair){(me * 7 + i) % 5, me};
    }
    MCOLL(Allreduce, allreduce, mine, got, count, MPI_LONG, MPI_SUM, comm);
    for (int i = 0; i < count; i++)
        n_wrong += got[i] != (long)(n - 1) * n * (2 * n - 1) / 6 + (long)n * i;
    MTEST_CHECK(n_wrong == 0, "Allreduce of %d ranks: %d of %d sums are wrong", n, n_wrong, count);
    MCOLL(Reduce, reduce, me == root ? MPI_IN_PLACE : mine, mine, count, MPI_LONG, MPI_SUM, root, comm);
    for (int i = 0; i < count && me == root; i++)
        n_wrong += mine[i] != (long)(n - 1) * n * (2 * n - 1) / 6 + (long)n * i;
    MTEST_CHECK(n_wrong == 0, "Reduce of %d ranks: %d of %d sums are wrong", n, n_wrong, count);
    MCOLL(Allreduce, allreduce, pairs, most, count, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
    for (int i = 0; i < count; i++) {
        struct pair want = {-1, 0};
        for (int r = 0; r < n; r++)
            if ((r * 7 + i) % 5 > want.value)
                want = (struct pair){(r * 7 + i) % 5, r};
        n_wrong += most[i].value != want.value || most[i].rank != want.rank;
    }
    MTEST_CHECK(n_wrong == 0, "Allreduce of %d ranks: %d of %d pairs are wrong", n, n_wrong, count);
    free(most);
    free(pairs);
    free(got);
    free(mine);
}

/* ---- Data that only moves ---- */

static void move(MPI_Comm comm, int me, int n, int count)
{
    size_t bytes = (size_t)count * (size_t)n * sizeof(int);
    int *mine = mtest_alloc(bytes), *got = mtest_alloc(bytes), *want = mtest_alloc(bytes);
    int *counts = mtest_alloc((size_t)n * sizeof *counts), *displs = mtest_alloc((size_t)n * sizeof *displs);

    for (int i = 0; i < count * n; i++)
        mine[i] = mcoll_value(me, i, count);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < count; i++)
            want[r * count + i] = mcoll_value(r, i, count);
    MCOLL(Allgather, allgather, mine, count, MPI_INT, got, count, MPI_INT, comm);
    MCOLL_SAME(got, want, count * n, "Allgather");
    for (int r = 0; r < n; r++) {
        counts[r] = (r * 3 + 1) % (count + 1);
        displs[r] = r * count;
    }
    for (int i = 0; i < count * n; i++) {
        got[i] = -1;
        if (i % count >= counts[i / count])
            want[i] = -1;
    }
    MCOLL(Allgatherv, allgatherv, mine, counts[me], MPI_INT, got, counts, displs, MPI_INT, comm);
    MCOLL_SAME(got, want, count * n, "Allgatherv");
    for (int r = 0; r < n; r++)
        for (int i = 0; i < count; i++)
            want[r * count + i] = mcoll_value(r, me * count + i, count);
    MCOLL(Alltoall, alltoall, mine, count, MPI_INT, got, count, MPI_INT, comm);
    MCOLL_SAME(got, want, count * n, "Alltoall");
    memcpy(got, mine, bytes);
    MCOLL(Alltoall, alltoall, MPI_IN_PLACE, 0, MPI_INT, got, count, MPI_INT, comm);
    MCOLL_SAME(got, want, count * n, "Alltoall in place");
    for (int root = n - 1; root >= 0; root -= n / 2 + 1) {
        for (int i = 0; i < count; i++) {
            got[i] = mcoll_value(me, i, root);
            want[i] = mcoll_value(root, i, root);
        }
        MCOLL(Bcast, bcast, got, count, MPI_INT, root, comm);
        MCOLL_SAME(got, want, count, "Bcast");
        MCOLL(Scatter, scatter, mine, count, MPI_INT, got, count, MPI_INT, root, comm);
        for (int i = 0; i < count; i++)
            want[i] = mcoll_value(root, me * count + i, count);
        MCOLL_SAME(got, want, count, "Scatter");
        MCOLL(Gather, gather, mine, count, MPI_INT, got, count, MPI_INT, root, comm);
        for (int i = 0; i < count * n && me == root; i++)
            want[i] = mcoll_value(i / count, i % count, count);
        if (me == root)
            MCOLL_SAME(got, want, count * n, "Gather");
    }
    free(displs);
    free(counts);
    free(want);
    free(got);
    free(mine);
}

/* Ranks run ahead of each other: roots do not wait. */
static void run_ahead(MPI_Comm comm, int me, int n)
{
    enum { N_ROUNDS = 60 };

    for (int i = 0; i < N_ROUNDS; i++) {
        int root = i / 20 % n, value = me == root ? i * 3 : -1, sum = 0;
        MTEST_OK(MPI_Bcast(&value, 1, MPI_INT, root, comm));
        MTEST_CHECK(value == i * 3, "round %d: %d", i, value);
        MTEST_OK(MPI_Reduce(&me, &sum, 1, MPI_INT, MPI_SUM, root, comm));
        MTEST_CHECK(me != root || sum == n * (n - 1) / 2, "round %d: the sum is %d", i, sum);
    }
    MTEST_OK(MPI_Barrier(comm));
}

static void on_comm(MPI_Comm comm, const int *counts)
{
    int me, n;

    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    for (; *counts; counts++) {
        reduce_maps(comm, me, n, *counts);
        reduce_builtin(comm, me, n, *counts);
        move(comm, me, n, *counts);
    }
    run_ahead(comm, me, n);
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 3, 50, 3001, 0}, few[] = {2, 700, 0};
    int lengths[] = {1, 1};
    MPI_Aint displs[] = {offsetof(struct map, a), offsetof(struct map, b)};
    MPI_Datatype types[] = {MPI_LONG, MPI_INT}, packed;
    unsigned state = 5;
    MPI_Comm comm;

    mcoll_init(&argc, &argv, 1);
    MTEST_OK(MPI_Type_create_struct(2, lengths, displs, types, &packed));
    MTEST_OK(MPI_Type_create_resized(packed, 0, sizeof(struct map), &map_type));
    MTEST_OK(MPI_Type_commit(&map_type));
    MTEST_OK(MPI_Type_free(&packed));
    MTEST_OK(MPI_Op_create(compose, 0, &map_op));
    on_comm(MPI_COMM_WORLD, counts);
    for (int kind = 0; kind < 7; kind++) {
        int color = kind == 2 ? mtest_rank % 3 : kind == 3 ? mtest_rank * 2 / (mtest_size + 1) : 0;
        int key = kind == 0   ? -mtest_rank
                  : kind == 1 ? mtest_rank % 2 * 1000 + mtest_rank
                  : kind == 4 ? (mtest_rank + 1) % mtest_size
                              : 0;
        for (int r = 0; kind > 4 && r <= mtest_rank; r++)
            key = (int)(next_random(&state) % 1000);
        if (kind == 6 && key % 3 == 0)
            color = MPI_UNDEFINED;
        MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, color, key, &comm));
        if (comm != MPI_COMM_NULL) {
            on_comm(comm, few);
            MTEST_OK(MPI_Comm_free(&comm));
        }
        state = (unsigned)kind;
    }
    MTEST_OK(MPI_Op_free(&map_op));
    MTEST_OK(MPI_Type_free(&map_type));
    return mtest_end();
}
