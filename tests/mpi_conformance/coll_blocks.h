/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_blocks.h: the communicator under test of coll_switch_more.c, naive operations on it, and buffers of blocks with
 * gaps between them.
 */
#ifndef COLL_BLOCKS_H
#define COLL_BLOCKS_H

#include "mkinds.h"

enum { TAG = 78, MAX = 64 };

/* The sides of an operation: the rank's own side of a communicator, and the one that it exchanges data with. */
static struct {
    MPI_Comm comm;
    int is_inter;
    int me, n, peers;
    int root;      /* argument of rooted operations */
    int root_rank; /* in its group */
    int is_root, has_root;
    int salt;
} at;

static const struct kind *k;
static long base; /* elements of a block, about */

/* ---- Naive operations: all that is sent and received, at once ---- */

static MPI_Request requests[4 * MAX];
static int n_requests;

static void naive_send(const char *buf, int count, MPI_Datatype type, int to)
{
    MTEST_OK(MPI_Isend(buf, count, type, to, TAG, at.comm, &requests[n_requests++]));
}
static void naive_recv(char *buf, int count, MPI_Datatype type, int from)
{
    MTEST_OK(MPI_Irecv(buf, count, type, from, TAG, at.comm, &requests[n_requests++]));
}
static void naive_wait(void)
{
    MTEST_OK(MPI_Waitall(n_requests, requests, MPI_STATUSES_IGNORE));
    n_requests = 0;
}

/* ---- Blocks ---- */

/* Elements that rank i has for rank j; alike for both if is_even. */
static int pair_count(int i, int j, int is_even)
{
    int low = is_even && j < i ? j : i, high = is_even && j < i ? i : j;
    long count = (low + high + at.salt) % 5 == 4 ? 0 : base + (low * 7 + high * 3 + at.salt) % 3 - 1;
    return count < 0 ? 0 : (int)count;
}

struct blocks {
    int n;
    int counts[MAX], displs[MAX];     /* in elements */
    int w_counts[MAX], w_displs[MAX]; /* the w forms': of w_types, in bytes */
    MPI_Aint w_far[MAX];              /* the same displacements */
    MPI_Datatype w_types[MAX];
    size_t n_bytes; /* of all of it, with gaps */
    char *buf;
};

static MPI_Datatype two; /* elements of the kind */

/* With a gap of one element before each block; of the w forms every other block is pairs of elements. */
static void lay_out(struct blocks *b, int n, int (*count_of)(int i, int is_even), int is_even)
{
    int next = 1;
    b->n = n;
    for (int i = 0; i < n; i++) {
        b->counts[i] = count_of(i, is_even);
        b->displs[i] = next;
        b->w_types[i] = (at.me + i) % 2 && !at.is_inter ? two : k->type;
        b->w_counts[i] = b->w_types[i] == two ? b->counts[i] / 2 : b->counts[i];
        b->w_far[i] = b->w_displs[i] = next * (int)k->extent;
        next += b->counts[i] + 1;
    }
    b->n_bytes = (size_t)next * k->extent;
    b->buf = mtest_alloc(b->n_bytes + 1);
    memset(b->buf, 0x5a, b->n_bytes);
}

static char *block(const struct blocks *b, int i)
{
    return b->buf + (size_t)b->displs[i] * k->extent;
}

/* The elements, which keep the pattern in their holes. */
static void fill_block(char *buf, int count, int salt)
{
    char *values = mtest_alloc((size_t)count * k->extent + 1);
    fill(k, values, count, mtest_rank, salt);
    for (int i = 0; i < count; i++)
        memcpy(buf + (size_t)i * k->extent, values + (size_t)i * k->extent, k->size);
    if (k->combine == combine_pair) /* its padding is not data */
        for (int i = 0; i < count; i++)
            memset(buf + (size_t)i * k->extent + 12, 0x5a, 4);
    free(values);
}

static void fill_blocks(struct blocks *b)
{
    for (int i = 0; i < b->n; i++)
        fill_block(block(b, i), b->counts[i], at.salt + i);
}

/* A second buffer of the same layout, for the result. */
static struct blocks copy_of(const struct blocks *b)
{
    struct blocks copy = *b;
    copy.buf = mtest_alloc(b->n_bytes + 1);
    memcpy(copy.buf, b->buf, b->n_bytes);
    return copy;
}

static void same(const char *got, const char *want, size_t n_bytes, const char *what, int in_place)
{
    size_t i = 0;
    while (i < n_bytes && got[i] == want[i])
        i++;
    MTEST_CHECK(i == n_bytes, "%s of about %ld %s%s%s, %d ranks: byte %zu of %zu differs", what, base,
                k->name, in_place ? " in place" : "", at.is_inter ? ", other group" : "", at.n, i, n_bytes);
}

static void compare(struct blocks *got, struct blocks *want, const char *what, int in_place)
{
    same(got->buf, want->buf, want->n_bytes, what, in_place);
    free(got->buf);
    free(want->buf);
}

/* What comes from rank i, and goes to it, where everybody gets the same or sends the same. */
static int count_of_source(int i, int is_even)
{
    (void)is_even;
    return pair_count(i, 0, 0);
}
static int count_to_target(int i, int is_even)
{
    (void)is_even;
    return pair_count(0, i, 0);
}
static int count_to(int i, int is_even)
{
    return pair_count(at.me, i, is_even);
}
static int count_from(int i, int is_even)
{
    return pair_count(i, at.me, is_even);
}

#endif
