/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mcoll.h: common parts of the collective programs: the form under test (blocking, nonblocking, persistent:
 * the first argument of the program), the communicators it runs on, and a naive exchange by point-to-point
 * from which every rank computes the result it expects.
 */
#ifndef MCOLL_H
#define MCOLL_H

#include "mtest.h"

enum { MCOLL_BLOCKING, MCOLL_NONBLOCKING, MCOLL_PERSISTENT };

static int mcoll_form = MCOLL_BLOCKING;

/* Runs MPI_<Name>, MPI_I<name> or MPI_<Name>_init with the same arguments, as the program was told. */
#if MPI_VERSION >= 4
#define MCOLL_INIT(Name, ...)                                                                       \
    do {                                                                                            \
        MPI_Request mcoll_request_ = MPI_REQUEST_NULL;                                              \
        MTEST_OK(MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &mcoll_request_));                   \
        MTEST_OK(MPI_Start(&mcoll_request_));                                                       \
        MTEST_OK(MPI_Wait(&mcoll_request_, MPI_STATUS_IGNORE));                                     \
        MTEST_CHECK(mcoll_request_ != MPI_REQUEST_NULL, "MPI_" #Name "_init: null after the wait"); \
        MTEST_OK(MPI_Request_free(&mcoll_request_));                                                \
    } while (0)
#else
#define MCOLL_INIT(Name, ...) mtest_skip("persistent collectives need MPI 4")
#endif
#define MCOLL(Name, name, ...)                                      \
    do {                                                            \
        if (mcoll_form == MCOLL_BLOCKING) {                         \
            MTEST_OK(MPI_##Name(__VA_ARGS__));                      \
        } else if (mcoll_form == MCOLL_NONBLOCKING) {               \
            MPI_Request mcoll_request_ = MPI_REQUEST_NULL;          \
            MTEST_OK(MPI_I##name(__VA_ARGS__, &mcoll_request_));    \
            MTEST_OK(MPI_Wait(&mcoll_request_, MPI_STATUS_IGNORE)); \
        } else {                                                    \
            MCOLL_INIT(Name, __VA_ARGS__);                          \
        }                                                           \
    } while (0)

static inline void mcoll_init(int *argc, char ***argv, int min_ranks)
{
    mtest_init(argc, argv, min_ranks);
    if (*argc > 1 && strcmp((*argv)[1], "nonblocking") == 0)
        mcoll_form = MCOLL_NONBLOCKING;
    if (*argc > 1 && strcmp((*argv)[1], "persistent") == 0)
        mcoll_form = MCOLL_PERSISTENT;
}

/* Calls body on the world, on a duplicate, on two halves with the ranks reversed, and on each rank alone. */
static inline void mcoll_on_comms(void (*body)(MPI_Comm comm, int me, int n))
{
    for (int kind = 0; kind < 4; kind++) {
        MPI_Comm comm = kind == 3 ? MPI_COMM_SELF : MPI_COMM_WORLD;
        int me, n;
        if (kind == 1)
            MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        if (kind == 2)
            MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, mtest_rank % 2, -mtest_rank, &comm));
        MPI_Comm_rank(comm, &me);
        MPI_Comm_size(comm, &n);
        body(comm, me, n);
        if (kind == 1 || kind == 2)
            MTEST_OK(MPI_Comm_free(&comm));
    }
}

/* len_bytes of each rank to all ranks, by sends and receives only; returns malloc'ed n * len_bytes. */
static inline void *mcoll_everyone(MPI_Comm comm, int me, int n, const void *mine, size_t len_bytes)
{
    char *all = mtest_alloc(len_bytes * (size_t)n);
    memcpy(all + len_bytes * (size_t)me, mine, len_bytes);
    for (int shift = 1; shift < n; shift++) {
        int to = (me + shift) % n, from = (me + n - shift) % n;
        MTEST_OK(MPI_Sendrecv(mine, (int)len_bytes, MPI_BYTE, to, 31, all + len_bytes * (size_t)from,
                              (int)len_bytes, MPI_BYTE, from, 31, comm, MPI_STATUS_IGNORE));
    }
    return all;
}

/* With many ranks, comparing all data at all ranks takes long: fewer roots, and of sizes and
 * variants only those with few bytes per rank (coll_switch_points has the others). */
static inline int mcoll_next_root(int root, int n)
{
    return root + (n > 17 ? (n + 2) / 3 : 1);
}
static inline int mcoll_takes_long(int n, size_t len_bytes)
{
    return n > 17 && len_bytes > 4000;
}

/* An int that tells rank, index and round, different for every pair of neighbours. */
static inline int mcoll_value(int rank, int index, int round)
{
    return rank * 1000003 + index * 31 + round * 7;
}

/* Compares n ints and reports the first difference. */
#define MCOLL_SAME(got, want, n, what)                                                           \
    do {                                                                                         \
        for (int mcoll_i_ = 0; mcoll_i_ < (n); mcoll_i_++)                                       \
            if ((got)[mcoll_i_] != (want)[mcoll_i_]) {                                           \
                MTEST_CHECK(0, "%s: element %d of %d is %ld, expected %ld", what, mcoll_i_, (n), \
                            (long)(got)[mcoll_i_], (long)(want)[mcoll_i_]);                      \
                break;                                                                           \
            }                                                                                    \
    } while (0)

#endif
