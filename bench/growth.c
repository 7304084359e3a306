/* SPDX-License-Identifier: BSD-3-Clause
 *
 * growth: the cost of one operation while N objects are alive, or with N ranks. If it does not depend on N, the cost of
 * all is linear. bench/growth runs every case with growing N.
 *
 * usage: growth CASE N
 * N is the number of objects, except for the cases that need N ranks (mpirun -n N): there it is not used.
 * prints: growth.CASE.N us, or ns for the collectives of small blocks: per block of a rank
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define REPEATS 3

static int rank, n_ranks;
static double began;

static void begin(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    began = bench_now();
}

/* Microseconds since begin, at the last rank. */
static double end(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    return (bench_now() - began) * 1e6;
}

static void print(const char *name, double value, const char *unit)
{
    if (rank == 0) {
        printf("growth.%s %.4f %s\n", name, value, unit);
    }
}

static void *allocate(size_t n, size_t each_bytes)
{
    void *memory = calloc(n, each_bytes);

    if (!memory) {
        bench_fail("no memory");
    }
    return memory;
}

/* ---- Objects ---- */

/* Creation, an epoch of rank 0 at the last rank, and freeing, with n windows. */
static void windows(int n)
{
    MPI_Win *wins = allocate((size_t)n, sizeof *wins);
    int *memory = allocate((size_t)n, sizeof *memory);

    begin();
    for (int i = 0; i < n; i++) {
        MPI_Win_create(&memory[i], sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &wins[i]);
    }
    print("win_create", end() / n, "us");
    begin();
    for (int i = 0; i < n && rank == 0; i++) {
        MPI_Win_lock(MPI_LOCK_SHARED, n_ranks - 1, 0, wins[i]);
        MPI_Put(&i, 1, MPI_INT, n_ranks - 1, 0, 1, MPI_INT, wins[i]);
        MPI_Win_unlock(n_ranks - 1, wins[i]);
    }
    print("win_put", end() / n, "us");
    for (int i = 0; i < n && rank == n_ranks - 1; i++) {
        if (memory[i] != i) {
            bench_fail("a window has the wrong value");
        }
    }
    begin();
    for (int i = 0; i < n; i++) {
        MPI_Win_free(&wins[i]);
    }
    print("win_free", end() / n, "us");
    free(memory);
    free(wins);
}

/* n persistent collectives in progress. */
static void persistent(int n)
{
    MPI_Request *requests = allocate((size_t)n, sizeof *requests);
    int *results = allocate((size_t)n, sizeof *results);
    double best = 0;

    for (int i = 0; i < n; i++) {
        MPI_Allreduce_init(&rank, &results[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                           &requests[i]);
    }
    for (int k = 0; k < REPEATS; k++) {
        double us;
        begin();
        MPI_Startall(n, requests);
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        us = end() / n;
        best = k == 0 || us < best ? us : best;
    }
    print("persistent", best, "us");
    for (int i = 0; i < n; i++) {
        if (results[i] != n_ranks * (n_ranks - 1) / 2) {
            bench_fail("a wrong sum");
        }
        MPI_Request_free(&requests[i]);
    }
    free(results);
    free(requests);
}

/* n different groups without a stride, of three ranks each. Rank 0 only. */
static void groups(int n)
{
    MPI_Group *made = allocate((size_t)n, sizeof *made);
    MPI_Group world;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    begin();
    for (int i = 0; i < n && rank == 0; i++) {
        unsigned mixed = (unsigned)i * 2654435761u;
        int first = (int)(mixed % (unsigned)n_ranks),
            second = (first + 1 + (int)((mixed >> 8) % (unsigned)(n_ranks / 2 - 1))) % n_ranks;
        int members[3] = {first, second, (second + 1 + i % (n_ranks / 2 - 1)) % n_ranks};
        MPI_Group_incl(world, members[2] == first ? 2 : 3, members, &made[i]);
    }
    print("group_incl", end() / n, "us");
    begin();
    for (int i = 0; i < n && rank == 0; i++) {
        MPI_Group_free(&made[i]);
    }
    print("group_free", end() / n, "us");
    MPI_Group_free(&world);
    free(made);
}

/* n attributes of one object. Rank 0 only. */
static void attributes(int n)
{
    int *keys = allocate((size_t)n, sizeof *keys);
    int *value, is_there;

    begin();
    for (int i = 0; i < n && rank == 0; i++) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keys[i], NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, keys[i], &keys[i]);
    }
    print("attr_set", end() / n, "us");
    begin();
    for (int i = 0; i < n && rank == 0; i++) {
        MPI_Comm_get_attr(MPI_COMM_SELF, keys[i], &value, &is_there);
        if (!is_there || value != &keys[i]) {
            bench_fail("an attribute has the wrong value");
        }
    }
    print("attr_get", end() / n, "us");
    begin();
    for (int i = 0; i < n && rank == 0; i++) {
        MPI_Comm_delete_attr(MPI_COMM_SELF, keys[i]);
        MPI_Comm_free_keyval(&keys[i]);
    }
    print("attr_delete", end() / n, "us");
    free(keys);
}

/* n duplicates of a communicator. */
static void dups_of(MPI_Comm comm, int n, const char *made, const char *freed)
{
    MPI_Comm *comms = allocate((size_t)n, sizeof *comms);

    begin();
    for (int i = 0; i < n; i++) {
        MPI_Comm_dup(comm, &comms[i]);
    }
    print(made, end() / n, "us");
    begin();
    for (int i = 0; i < n; i++) {
        MPI_Comm_free(&comms[i]);
    }
    print(freed, end() / n, "us");
    free(comms);
}

static void dups(int n)
{
    dups_of(MPI_COMM_WORLD, n, "dup", "dup_free");
}

static void dups_of_self(int n)
{
    dups_of(MPI_COMM_SELF, n, "dup_self", "dup_self_free");
}

/* ---- Ranks ---- */

/* All ranks create a communicator of all, with the order reversed and, if is_mixed, as a group without a stride. */
static void create(bool is_mixed)
{
    int range[2][3] = {{n_ranks - 1, is_mixed ? 2 : 0, -1}, {0, 1, 1}};
    MPI_Group world, group;
    MPI_Comm made;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, is_mixed ? 2 : 1, range, &group);
    for (int k = 0; k < 2; k++) { /* the first time is the warm-up */
        begin();
        MPI_Comm_create(MPI_COMM_WORLD, group, &made);
        if (k > 0) {
            print(is_mixed ? "comm_create_mixed" : "comm_create", end() / n_ranks, "us");
        }
        MPI_Comm_free(&made);
        begin();
        MPI_Comm_create_group(MPI_COMM_WORLD, group, k, &made);
        if (k > 0) {
            print(is_mixed ? "create_group_mixed" : "create_group", end() / n_ranks, "us");
        }
        MPI_Comm_free(&made);
    }
    MPI_Group_free(&world);
    MPI_Group_free(&group);
}

static void comm_create(int n)
{
    (void)n;
    create(false);
    create(true);
}

/* Prints the time per block of a rank: n_ranks * n_ranks blocks are moved or combined. */
static void print_blocks(const char *name, double us)
{
    print(name, us * 1e3 / n_ranks / n_ranks, "ns");
}

/* The least time of a collective. */
#define MEASURE(name, call)                         \
    do {                                            \
        double best = 0;                            \
        for (int k = 0; k <= REPEATS; k++) {        \
            double us;                              \
            begin();                                \
            call;                                   \
            us = end();                             \
            best = k <= 1 || us < best ? us : best; \
        }                                           \
        print_blocks(name, best);                   \
    } while (0)

static void blocks(int n)
{
    size_t size = (size_t)n_ranks;
    int *from = allocate(size, sizeof *from), *to = allocate(size, sizeof *to);
    int *counts = allocate(size, sizeof *counts), *displs = allocate(size, sizeof *displs);
    int *bytes = allocate(size, sizeof *bytes);
    MPI_Datatype *types = allocate(size, sizeof *types);
    MPI_Comm comm = MPI_COMM_WORLD;

    (void)n;
    for (int i = 0; i < n_ranks; i++) {
        from[i] = counts[i] = 1;
        displs[i] = i;
        bytes[i] = i * (int)sizeof(int);
        types[i] = MPI_INT;
    }
    MEASURE("reduce_scatter_block", MPI_Reduce_scatter_block(from, to, 1, MPI_INT, MPI_SUM, comm));
    MEASURE("reduce_scatter", MPI_Reduce_scatter(from, to, counts, MPI_INT, MPI_SUM, comm));
    MEASURE("allgather", MPI_Allgather(&rank, 1, MPI_INT, to, 1, MPI_INT, comm));
    MEASURE("allgatherv", MPI_Allgatherv(&rank, 1, MPI_INT, to, counts, displs, MPI_INT, comm));
    MEASURE("alltoall", MPI_Alltoall(from, 1, MPI_INT, to, 1, MPI_INT, comm));
    MEASURE("alltoallv", MPI_Alltoallv(from, counts, displs, MPI_INT, to, counts, displs, MPI_INT, comm));
    MEASURE("alltoallw", MPI_Alltoallw(from, counts, bytes, types, to, counts, bytes, types, comm));
    free(from);
    free(to);
    free(counts);
    free(displs);
    free(bytes);
    free(types);
}

static const struct {
    const char *name;
    void (*run)(int n);
} cases[] = {{"windows", windows},
             {"persistent", persistent},
             {"groups", groups},
             {"attributes", attributes},
             {"dups", dups},
             {"dups_of_self", dups_of_self},
             {"comm_create", comm_create},
             {"blocks", blocks}};

int main(int argc, char **argv)
{
    bool is_known = false;

    MPI_Init(&argc, &argv);
    rank = bench_comm_rank();
    n_ranks = bench_comm_size();
    for (size_t i = 0; argc == 3 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run(atoi(argv[2]));
            is_known = true;
        }
    }
    if (!is_known) {
        bench_fail("usage: growth CASE N; the cases are in bench/growth.c");
    }
    MPI_Finalize();
    return 0;
}
