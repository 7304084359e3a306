/* SPDX-License-Identifier: BSD-3-Clause */
/* User operations: a non-commutative one (2x2 matrices, string-like) is applied in rank order by every
 * reduction. */
#include "mcoll.h"

/* 2x2 matrices modulo a prime: associative, not commutative. */
struct matrix {
    long m[4];
};

static const long prime = 1000003;
static int calls; /* how often this rank's operation ran: a mutable global in a callback */

static void multiply(const struct matrix *a, const struct matrix *b, struct matrix *out)
{
    struct matrix r;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            r.m[2 * i + j] = (a->m[2 * i] * b->m[j] + a->m[2 * i + 1] * b->m[2 + j]) % prime;
    *out = r;
}

static void op_function(void *in, void *inout, int *len, MPI_Datatype *type)
{
    struct matrix *a = in, *b = inout;
    (void)type;
    calls++;
    for (int i = 0; i < *len; i++)
        multiply(&a[i], &b[i], &b[i]);
}

static MPI_Datatype type;
static MPI_Op op;

static void check(const struct matrix *got, const struct matrix *want, int c, const char *what, int n)
{
    for (int i = 0; i < c; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0) {
            MTEST_CHECK(0, "%s of %d ranks: element %d of %d is %ld %ld %ld %ld, expected %ld %ld %ld %ld",
                        what, n, i, c, got[i].m[0], got[i].m[1], got[i].m[2], got[i].m[3], want[i].m[0],
                        want[i].m[1], want[i].m[2], want[i].m[3]);
            return;
        }
}

/* The product of the matrices number `index` of ranks first..last. */
static struct matrix product(const struct matrix *all, int total, int index, int first, int last)
{
    struct matrix p = all[first * total + index];
    for (int r = first + 1; r <= last; r++)
        multiply(&p, &all[r * total + index], &p);
    return p;
}

static void body(MPI_Comm comm, int me, int n)
{
    static const int counts[] = {1, 2, 50, 1000};
    for (int i = 0; i < 4 && !mcoll_takes_long(n, (size_t)(counts[i] * n) * sizeof(struct matrix) / 32);
         i++) {
        int c = counts[i], total = c * n;
        size_t bytes = (size_t)total * sizeof(struct matrix);
        struct matrix *mine = mtest_alloc(bytes), *got = mtest_alloc(bytes), *want = mtest_alloc(bytes);
        for (int j = 0; j < total; j++)
            for (int k = 0; k < 4; k++)
                mine[j].m[k] = (me * 7 + j * 3 + k * k + 1) % 17 + (k == 0);
        struct matrix *all = mcoll_everyone(comm, me, n, mine, bytes);
        for (int j = 0; j < c; j++)
            want[j] = product(all, total, j, 0, n - 1);
        MCOLL(Allreduce, allreduce, mine, got, c, type, op, comm);
        check(got, want, c, "Allreduce", n);
        memcpy(got, mine, bytes);
        MCOLL(Allreduce, allreduce, MPI_IN_PLACE, got, c, type, op, comm);
        check(got, want, c, "Allreduce in place", n);
        for (int root = 0; root < n; root = mcoll_next_root(root, n)) {
            memcpy(got, mine, bytes);
            MCOLL(Reduce, reduce, root % 2 && me == root ? MPI_IN_PLACE : mine, got, c, type, op, root, comm);
            if (me == root)
                check(got, want, c, "Reduce", n);
        }
        for (int j = 0; j < c; j++)
            want[j] = product(all, total, j, 0, me);
        MCOLL(Scan, scan, mine, got, c, type, op, comm);
        check(got, want, c, "Scan", n);
        MCOLL(Exscan, exscan, mine, got, c, type, op, comm);
        for (int j = 0; j < c && me > 0; j++)
            want[j] = product(all, total, j, 0, me - 1);
        if (me > 0)
            check(got, want, c, "Exscan", n);
        for (int j = 0; j < c; j++)
            want[j] = product(all, total, me * c + j, 0, n - 1);
        MCOLL(Reduce_scatter_block, reduce_scatter_block, mine, got, c, type, op, comm);
        check(got, want, c, "Reduce_scatter_block", n);
        free(mine);
        free(got);
        free(want);
        free(all);
    }
}

int main(int argc, char **argv)
{
    int commute = -1;
    mcoll_init(&argc, &argv, 1);
    MTEST_OK(MPI_Type_contiguous(4, MPI_LONG, &type));
    MTEST_OK(MPI_Type_commit(&type));
    MTEST_OK(MPI_Op_create(op_function, 0, &op));
    MTEST_OK(MPI_Op_commutative(op, &commute));
    MTEST_CHECK(commute == 0, "Op_commutative says %d", commute);
    mcoll_on_comms(body);
    /* Reduce_local: inout = in op inout. */
    struct matrix a = {{1, 2, 3, 4}}, b = {{5, 6, 7, 8}}, want;
    multiply(&a, &b, &want);
    calls = 0;
    MTEST_OK(MPI_Reduce_local(&a, &b, 1, type, op));
    MTEST_CHECK(memcmp(&b, &want, sizeof b) == 0 && calls == 1, "Reduce_local: %ld after %d calls", b.m[0],
                calls);
    MTEST_OK(MPI_Op_free(&op));
    MTEST_CHECK(op == MPI_OP_NULL, "Op_free leaves the handle");
    MTEST_OK(MPI_Type_free(&type));
    return mtest_end();
}
