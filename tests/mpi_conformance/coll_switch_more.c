/* SPDX-License-Identifier: BSD-3-Clause */
/* The v and w forms, neighborhood collectives and intercommunicators have the same results as a naive
 * operation of sends and receives of the same types, with sizes around each switch point, blocks of different
 * sizes and empty ones, unchanged gaps between them, in place and not. */
#include "coll_blocks.h"

/* ---- Operations ---- */

static void test_gatherv(int in_place)
{
    int here = in_place && at.is_root, mine_count = count_of_source(at.me, 0);
    char *mine = mtest_alloc((size_t)mine_count * k->extent + 1);
    struct blocks want, got;

    fill_block(mine, mine_count, at.salt);
    lay_out(&want, at.peers, count_of_source, 0);
    got = copy_of(&want);
    if (here)
        fill_block(block(&got, at.me), mine_count, at.salt);
    if (at.has_root)
        naive_send(mine, mine_count, k->type, at.root_rank);
    for (int i = 0; at.is_root && i < at.peers; i++)
        naive_recv(block(&want, i), want.counts[i], k->type, i);
    naive_wait();
    MCOLL(Gatherv, gatherv, here ? MPI_IN_PLACE : mine, mine_count, k->type, got.buf, got.counts, got.displs,
          k->type, at.root, at.comm);
    compare(&got, &want, "Gatherv", in_place);
    free(mine);
}

static void test_scatterv(int in_place)
{
    int here = in_place && at.is_root, mine_count = count_to_target(at.me, 0);
    size_t mine_bytes = (size_t)mine_count * k->extent;
    char *want = mtest_alloc(mine_bytes + 1), *got = mtest_alloc(mine_bytes + 1);
    struct blocks all;

    memset(want, 0x5a, mine_bytes);
    memset(got, 0x5a, mine_bytes);
    lay_out(&all, at.peers, count_to_target, 0);
    fill_blocks(&all);
    if (at.has_root)
        naive_recv(want, mine_count, k->type, at.root_rank);
    for (int i = 0; at.is_root && i < at.peers; i++)
        naive_send(block(&all, i), all.counts[i], k->type, i);
    naive_wait();
    MCOLL(Scatterv, scatterv, all.buf, all.counts, all.displs, k->type, here ? MPI_IN_PLACE : got, mine_count,
          k->type, at.root, at.comm);
    if (!here)
        same(got, want, mine_bytes, "Scatterv", in_place);
    free(all.buf);
    free(want);
    free(got);
}

static void test_allgatherv(int in_place)
{
    int mine_count = count_of_source(at.me, 0);
    char *mine = mtest_alloc((size_t)mine_count * k->extent + 1);
    struct blocks want, got;

    fill_block(mine, mine_count, at.salt);
    lay_out(&want, at.peers, count_of_source, 0);
    got = copy_of(&want);
    if (in_place)
        fill_block(block(&got, at.me), mine_count, at.salt);
    for (int i = 0; i < at.peers; i++) {
        naive_recv(block(&want, i), want.counts[i], k->type, i);
        naive_send(mine, mine_count, k->type, i);
    }
    naive_wait();
    MCOLL(Allgatherv, allgatherv, in_place ? MPI_IN_PLACE : mine, mine_count, k->type, got.buf, got.counts,
          got.displs, k->type, at.comm);
    compare(&got, &want, "Allgatherv", in_place);
    free(mine);
}

static void test_alltoall_v_and_w(int in_place, int is_w)
{
    struct blocks in, want, got;

    lay_out(&in, at.peers, count_to, in_place);
    fill_blocks(&in);
    lay_out(&want, at.peers, count_from, in_place);
    if (in_place)
        memcpy(want.buf, in.buf, want.n_bytes);
    got = copy_of(&want);
    for (int i = 0; i < at.peers; i++) {
        naive_recv(block(&want, i), is_w ? want.w_counts[i] : want.counts[i],
                   is_w ? want.w_types[i] : k->type, i);
        naive_send(block(&in, i), is_w ? in.w_counts[i] : in.counts[i], is_w ? in.w_types[i] : k->type, i);
    }
    naive_wait();
    if (is_w)
        MCOLL(Alltoallw, alltoallw, in_place ? MPI_IN_PLACE : in.buf, in.w_counts, in.w_displs, in.w_types,
              got.buf, got.w_counts, got.w_displs, got.w_types, at.comm);
    else
        MCOLL(Alltoallv, alltoallv, in_place ? MPI_IN_PLACE : in.buf, in.counts, in.displs, k->type, got.buf,
              got.counts, got.displs, k->type, at.comm);
    compare(&got, &want, is_w ? "Alltoallw" : "Alltoallv", in_place);
    free(in.buf);
}

/* All vectors combined in rank order, at every rank that gets the result. */
static void naive_reduce(const char *mine, char *out, int count, int is_wanted, int is_given)
{
    size_t n_bytes = (size_t)count * k->extent;
    char *all = mtest_alloc(is_wanted ? n_bytes * (size_t)at.peers + 1 : 1);

    for (int i = 0; i < at.peers; i++) {
        if (is_wanted)
            naive_recv(all + (size_t)i * n_bytes, (int)n_bytes, MPI_BYTE, i);
        if (is_given && (at.root_rank < 0 || i == at.root_rank))
            naive_send(mine, (int)n_bytes, MPI_BYTE, i);
    }
    naive_wait();
    for (int i = 0; is_wanted && i < at.peers; i++) {
        const char *next = all + (size_t)(k->from_right ? at.peers - 1 - i : i) * n_bytes;
        if (i == 0)
            memcpy(out, next, n_bytes);
        else
            combine(k, next, out, count);
    }
    free(all);
}

/* Only whole vectors of plain elements: fill() leaves holes zero, as combining does. */
static char *new_vector(int count, int is_filled)
{
    char *vector = mtest_alloc((size_t)count * k->extent + 1);
    memset(vector, 0, (size_t)count * k->extent);
    if (is_filled)
        fill(k, vector, count, mtest_rank, at.salt);
    return vector;
}

static void same_sum(const char *got, const char *want, size_t n_bytes, const char *what, int in_place)
{
    if (!are_near(k, got, want, n_bytes))
        same(got, want, n_bytes, what, in_place);
}

/* My part of the result: the whole is spread over a group unevenly, with nothing for some. */
static void spread(int *counts, int n, int total)
{
    int done = 0;
    for (int i = 0; i < n; i++) {
        int upto = (int)((long)total * (i + 1) / n);
        counts[i] = (i + at.salt) % 4 == 1 && i < n - 1 ? 0 : upto - done;
        done += counts[i];
    }
}

static void test_reduce_scatter(int in_place, int is_block)
{
    int total = (int)base * at.n * (at.is_inter ? at.peers : 1), counts[MAX], first = 0, n_mine;
    char *mine = new_vector(total, 1), *want = new_vector(total, 0), *got = new_vector(total, 0);

    spread(counts, at.n, total);
    if (is_block)
        for (int i = 0; i < at.n; i++)
            counts[i] = total / at.n;
    n_mine = counts[at.me];
    for (int i = 0; i < at.me; i++)
        first += counts[i];
    at.root_rank = -1;
    naive_reduce(mine, want, total, 1, 1);
    if (in_place)
        memcpy(got, mine, (size_t)total * k->extent);
    if (is_block)
        MCOLL(Reduce_scatter_block, reduce_scatter_block, in_place ? MPI_IN_PLACE : mine, got, n_mine,
              k->type, k->op, at.comm);
    else
        MCOLL(Reduce_scatter, reduce_scatter, in_place ? MPI_IN_PLACE : mine, got, counts, k->type, k->op,
              at.comm);
    same_sum(got, want + (size_t)first * k->extent, (size_t)n_mine * k->extent,
             is_block ? "Reduce_scatter_block" : "Reduce_scatter", in_place);
    free(mine);
    free(want);
    free(got);
}

/* ---- Between groups: the operations that coll_switch_points has within one ---- */

static void choose_root(int salt)
{
    int roots_side = salt % 2, my_side = mtest_rank % 3 ? 1 : 0;
    int n_roots = my_side == roots_side ? at.n : at.peers;

    at.root_rank = salt % n_roots;
    at.is_root = my_side == roots_side && at.me == at.root_rank;
    at.has_root = my_side != roots_side;
    at.root = at.has_root ? at.root_rank : at.is_root ? MPI_ROOT : MPI_PROC_NULL;
}

static void test_inter_reductions(void)
{
    int count = (int)base, root_rank = at.root_rank;
    size_t n_bytes = (size_t)count * k->extent;
    char *mine = new_vector(count, 1), *want = new_vector(count, 0), *got = new_vector(count, 0);

    naive_reduce(mine, want, count, at.is_root, at.has_root);
    MCOLL(Reduce, reduce, mine, got, count, k->type, k->op, at.root, at.comm);
    same_sum(got, want, n_bytes, "Reduce", 0);
    at.root_rank = -1;
    naive_reduce(mine, want, count, 1, 1);
    at.root_rank = root_rank;
    MCOLL(Allreduce, allreduce, mine, got, count, k->type, k->op, at.comm);
    same_sum(got, want, n_bytes, "Allreduce", 0);
    free(mine);
    free(want);
    free(got);
}

static void test_inter_moves(void)
{
    int c = (int)base, n_all = c * at.peers;
    size_t each = (size_t)c * k->extent;
    char *mine = new_vector(n_all, 1), *want = new_vector(n_all, 0), *got = new_vector(n_all, 0);

    memcpy(got, at.has_root ? got : mine, each);
    memcpy(want, got, each);
    for (int i = 0; at.is_root && i < at.peers; i++)
        naive_send(mine, c, k->type, i);
    if (at.has_root)
        naive_recv(want, c, k->type, at.root_rank);
    naive_wait();
    MCOLL(Bcast, bcast, got, c, k->type, at.root, at.comm);
    same(got, want, each, "Bcast", 0);
    for (int i = 0; i < at.peers; i++) {
        naive_recv(want + (size_t)i * each, c, k->type, i);
        naive_send(mine, c, k->type, i);
    }
    naive_wait();
    MCOLL(Allgather, allgather, mine, c, k->type, got, c, k->type, at.comm);
    same(got, want, each * (size_t)at.peers, "Allgather", 0);
    memset(got, 0, each * (size_t)at.peers);
    MCOLL(Gather, gather, mine, c, k->type, got, c, k->type, at.root, at.comm);
    if (at.is_root)
        same(got, want, each * (size_t)at.peers, "Gather", 0);
    for (int i = 0; i < at.peers; i++) {
        naive_recv(want + (size_t)i * each, c, k->type, i);
        naive_send(mine + (size_t)i * each, c, k->type, i);
    }
    naive_wait();
    MCOLL(Alltoall, alltoall, mine, c, k->type, got, c, k->type, at.comm);
    same(got, want, each * (size_t)at.peers, "Alltoall", 0);
    MCOLL(Scatter, scatter, mine, c, k->type, got, c, k->type, at.root, at.comm);
    if (at.has_root)
        same(got, want + (size_t)at.root_rank * each, each, "Scatter", 0);
    free(mine);
    free(want);
    free(got);
}

/* ---- Neighbors ---- */

static int from[3], to[3];

static int neighbor_count_from(int i, int is_even)
{
    (void)is_even;
    return pair_count(from[i], at.me, 0);
}
static int neighbor_count_to(int i, int is_even)
{
    (void)is_even;
    return pair_count(at.me, to[i], 0);
}
static int neighbor_count_of(int i, int is_even)
{
    (void)is_even;
    return pair_count(from[i], 0, 0);
}

static void naive_neighbors(const struct blocks *in, const struct blocks *want, int is_w)
{
    for (int i = 0; i < 3; i++)
        naive_recv(block(want, i), is_w ? want->w_counts[i] : want->counts[i],
                   is_w ? want->w_types[i] : k->type, from[i]);
    for (int i = 0; i < 3; i++)
        naive_send(block(in, i), is_w ? in->w_counts[i] : in->counts[i], is_w ? in->w_types[i] : k->type,
                   to[i]);
    naive_wait();
}

static void test_neighbor_gathers(void)
{
    int mine_count = pair_count(at.me, 0, 0);
    char *mine = new_vector(mine_count + (int)base, 1);
    struct blocks want, got;

    lay_out(&want, 3, neighbor_count_of, 0);
    got = copy_of(&want);
    for (int i = 0; i < 3; i++)
        naive_recv(block(&want, i), want.counts[i], k->type, from[i]);
    for (int i = 0; i < 3; i++)
        naive_send(mine, mine_count, k->type, to[i]);
    naive_wait();
    MCOLL(Neighbor_allgatherv, neighbor_allgatherv, mine, mine_count, k->type, got.buf, got.counts,
          got.displs, k->type, at.comm);
    compare(&got, &want, "Neighbor_allgatherv", 0);

    char *all_want = new_vector(3 * (int)base, 0), *all_got = new_vector(3 * (int)base, 0);
    for (int i = 0; i < 3; i++)
        naive_recv(all_want + (size_t)i * (size_t)base * k->extent, (int)base, k->type, from[i]);
    for (int i = 0; i < 3; i++)
        naive_send(mine, (int)base, k->type, to[i]);
    naive_wait();
    MCOLL(Neighbor_allgather, neighbor_allgather, mine, (int)base, k->type, all_got, (int)base, k->type,
          at.comm);
    same(all_got, all_want, 3 * (size_t)base * k->extent, "Neighbor_allgather", 0);
    free(mine);
    free(all_want);
    free(all_got);
}

static void test_neighbor_alltoalls(void)
{
    for (int is_w = 0; is_w < 2; is_w++) {
        struct blocks in, want, got;
        lay_out(&in, 3, neighbor_count_to, 0);
        fill_blocks(&in);
        lay_out(&want, 3, neighbor_count_from, 0);
        for (int i = 0; i < 3; i++) { /* a block's two ends have the same type */
            in.w_types[i] = want.w_types[i] = i == 1 ? two : k->type;
            in.w_counts[i] = i == 1 ? in.counts[i] / 2 : in.counts[i];
            want.w_counts[i] = i == 1 ? want.counts[i] / 2 : want.counts[i];
        }
        got = copy_of(&want);
        naive_neighbors(&in, &want, is_w);
        if (is_w)
            MCOLL(Neighbor_alltoallw, neighbor_alltoallw, in.buf, in.w_counts, in.w_far, in.w_types, got.buf,
                  got.w_counts, got.w_far, got.w_types, at.comm);
        else
            MCOLL(Neighbor_alltoallv, neighbor_alltoallv, in.buf, in.counts, in.displs, k->type, got.buf,
                  got.counts, got.displs, k->type, at.comm);
        compare(&got, &want, is_w ? "Neighbor_alltoallw" : "Neighbor_alltoallv", 0);
        free(in.buf);
    }

    size_t each = (size_t)base * k->extent;
    char *in = new_vector(3 * (int)base, 1);
    char *want = new_vector(3 * (int)base, 0), *got = new_vector(3 * (int)base, 0);
    for (int i = 0; i < 3; i++)
        naive_recv(want + (size_t)i * each, (int)base, k->type, from[i]);
    for (int i = 0; i < 3; i++)
        naive_send(in + (size_t)i * each, (int)base, k->type, to[i]);
    naive_wait();
    MCOLL(Neighbor_alltoall, neighbor_alltoall, in, (int)base, k->type, got, (int)base, k->type, at.comm);
    same(got, want, 3 * each, "Neighbor_alltoall", 0);
    free(in);
    free(want);
    free(got);
}

/* ---- All of them ---- */

static void test_group(MPI_Comm comm, int in_place, int is_wide)
{
    at.comm = comm;
    at.is_inter = 0;
    at.peers = at.n;
    at.root = at.root_rank = at.salt % at.n;
    at.is_root = at.me == at.root;
    at.has_root = 1;
    test_gatherv(in_place);
    test_scatterv(in_place);
    if (!is_wide)
        return;
    test_allgatherv(in_place);
    test_alltoall_v_and_w(in_place, 0);
    test_alltoall_v_and_w(in_place, 1);
    test_reduce_scatter(in_place, 0);
}

static void test_inter(MPI_Comm comm, int is_wide)
{
    at.comm = comm;
    at.is_inter = 1;
    MTEST_OK(MPI_Comm_rank(comm, &at.me));
    MTEST_OK(MPI_Comm_size(comm, &at.n));
    MTEST_OK(MPI_Comm_remote_size(comm, &at.peers));
    choose_root(at.salt);
    test_gatherv(0);
    test_scatterv(0);
    if (!is_wide)
        return;
    test_inter_reductions();
    test_inter_moves();
    test_allgatherv(0);
    test_alltoall_v_and_w(0, 0);
    test_alltoall_v_and_w(0, 1);
    if ((double)base * (double)k->extent * at.n * at.peers < 2e5) {
        test_reduce_scatter(0, 0);
        test_reduce_scatter(0, 1);
    }
}

static void test_neighbors(MPI_Comm comm)
{
    at.comm = comm;
    at.is_inter = 0;
    test_neighbor_gathers();
    test_neighbor_alltoalls();
}

static MPI_Comm make_inter(void)
{
    MPI_Comm local, inter;
    int side = mtest_rank % 3 ? 1 : 0;

    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, side, 0, &local));
    MTEST_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 1 - side, 5, &inter));
    MTEST_OK(MPI_Comm_free(&local));
    return inter;
}

/* Each rank's data goes to the next two and to itself. */
static MPI_Comm make_ring(void)
{
    MPI_Comm ring;

    for (int i = 0; i < 3; i++) {
        int shift = (i + 1) % 3;
        to[i] = (mtest_rank + shift) % mtest_size;
        from[i] = (mtest_rank + 2 * mtest_size - shift) % mtest_size;
    }
    MTEST_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, from, MPI_UNWEIGHTED, 3, to, MPI_UNWEIGHTED,
                                            MPI_INFO_NULL, 0, &ring));
    return ring;
}

int main(int argc, char **argv)
{
    mcoll_init(&argc, &argv, 1);
    MPI_Comm group, inter = MPI_COMM_NULL, ring = make_ring();
    make_kinds();
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &group));
    if (mtest_size > 1)
        inter = make_inter();
    for (int kind = 0; kind < N_KINDS; kind++) {
        k = &kinds[kind];
        MTEST_OK(MPI_Type_contiguous(2, k->type, &two));
        MTEST_OK(MPI_Type_commit(&two));
        for (int i = 0; i < N_POINTS; i++) {
            if (mtest_size > 8 && (i + kind) % 5)
                continue;
            base = switch_point(k, i, mtest_size);
            base = base > 1 ? base : 1;
            at.salt++;
            for (int in_place = 0; in_place < 2; in_place++) {
                at.me = mtest_rank;
                at.n = mtest_size;
                test_group(group, in_place,
                           (double)base * (double)k->extent * at.n * at.n < 4e6 &&
                               (double)base * (double)k->extent * at.n < 4e6);
            }
            test_neighbors(ring);
            if (inter != MPI_COMM_NULL)
                test_inter(inter, (double)base * (double)k->extent * mtest_size * mtest_size < 4e6);
        }
        MTEST_OK(MPI_Type_free(&two));
    }
    MTEST_OK(MPI_Comm_free(&ring));
    MTEST_OK(MPI_Comm_free(&group));
    if (inter != MPI_COMM_NULL)
        MTEST_OK(MPI_Comm_free(&inter));
    return mtest_end();
}
