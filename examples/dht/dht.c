/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dht: a hash table spread over all ranks, which count words into it without the owners' help: a slot is taken
 * by MPI_Compare_and_swap, and counted up by MPI_Fetch_and_op. Every rank counts WORDS words out of a
 * vocabulary that all have in common, some of them often; then all look every word up and compare with a count
 * of their own.
 *
 * usage: dht [words per rank, default 200]
 *        mpirun -n 1000 dht
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A slot of the table: two 64-bit integers of the window. */
enum { KEY, COUNT, SLOT };

/* Keys are not 0: that is an empty slot. */
static const int64_t empty = 0;

struct table {
    MPI_Win win;
    int n_ranks;
    int64_t n_slots;  /* of each rank */
    int64_t n_probes; /* slots that this rank has looked at */
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

/* The word number i of a rank: small numbers are drawn more often. */
static int64_t word_of(int rank, int64_t i, int64_t vocabulary)
{
    uint64_t a = mix((uint64_t)rank * 1000003u + (uint64_t)i) % (uint64_t)vocabulary;
    uint64_t b = mix((uint64_t)rank * 7919u + (uint64_t)i * 31u + 7u) % (uint64_t)vocabulary;

    return (int64_t)(a < b ? a : b) + 1;
}

/* Finds the key's slot, and takes an empty one if it has none and `add` is given. Returns its displacement in
 * the owner's window, -1: the key is not in the table. */
static MPI_Aint find(struct table *table, int64_t key, int add, int *owner_out)
{
    uint64_t hash = mix((uint64_t)key);
    int owner = (int)(hash % (uint64_t)table->n_ranks);
    int64_t slot = (int64_t)(hash / (uint64_t)table->n_ranks % (uint64_t)table->n_slots);

    *owner_out = owner;
    for (int64_t i = 0; i < table->n_slots; i++) {
        MPI_Aint at = (MPI_Aint)((slot + i) % table->n_slots * SLOT);
        int64_t found;
        /* Without `add` the slot's key is replaced by itself if it is empty: a look. */
        MPI_Compare_and_swap(add ? &key : &empty, &empty, &found, MPI_INT64_T, owner, at + KEY, table->win);
        MPI_Win_flush(owner, table->win);
        table->n_probes++;
        if (found == key || (found == empty && add))
            return at;
        if (found == empty)
            return -1;
    }
    fprintf(stderr, "the table of rank %d is full\n", owner);
    MPI_Abort(MPI_COMM_WORLD, 1);
    return -1;
}

static void count_up(struct table *table, int64_t key)
{
    int64_t one = 1, before;
    int owner;
    MPI_Aint at = find(table, key, 1, &owner);

    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, owner, at + COUNT, MPI_SUM, table->win);
    MPI_Win_flush(owner, table->win);
}

static int64_t look_up(struct table *table, int64_t key)
{
    int64_t count = 0, unused = 0;
    int owner;
    MPI_Aint at = find(table, key, 0, &owner);

    if (at < 0)
        return 0;
    MPI_Fetch_and_op(&unused, &count, MPI_INT64_T, owner, at + COUNT, MPI_NO_OP, table->win);
    MPI_Win_flush(owner, table->win);
    return count;
}

int main(int argc, char **argv)
{
    struct table table = {0};
    int rank;
    int64_t *memory, n_words, vocabulary, errors = 0, sum = 0, all[3];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &table.n_ranks);
    n_words = argc > 1 ? atol(argv[1]) : 200;
    vocabulary = 500;
    table.n_slots = 64 + 4 * (vocabulary / table.n_ranks + 1);
    MPI_Win_allocate((MPI_Aint)(table.n_slots * SLOT * (int64_t)sizeof *memory), sizeof *memory,
                     MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &table.win);
    for (int64_t i = 0; i < table.n_slots * SLOT; i++)
        memory[i] = 0;
    MPI_Barrier(MPI_COMM_WORLD);

    double start = MPI_Wtime();
    MPI_Win_lock_all(0, table.win);
    for (int64_t i = 0; i < n_words; i++)
        count_up(&table, word_of(rank, i, vocabulary));
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - start;

    /* Every rank counts all ranks' words itself, for a part of the vocabulary, and looks these up. */
    int64_t step = table.n_ranks < 50 ? 50 : table.n_ranks < vocabulary ? table.n_ranks : vocabulary;
    for (int64_t word = 1 + rank % step; word <= vocabulary; word += step) {
        int64_t expected = 0;
        for (int r = 0; r < table.n_ranks; r++)
            for (int64_t i = 0; i < n_words; i++)
                expected += word_of(r, i, vocabulary) == word;
        errors += look_up(&table, word) != expected;
    }
    errors += look_up(&table, vocabulary + 1) != 0; /* which no rank counted */
    MPI_Win_unlock_all(table.win);
    for (int64_t i = 0; i < table.n_slots; i++)
        sum += memory[i * SLOT + COUNT];
    all[0] = errors;
    all[1] = sum;
    all[2] = table.n_probes;
    MPI_Allreduce(MPI_IN_PLACE, all, 3, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (all[1] != n_words * table.n_ranks)
        all[0]++;
    if (rank == 0)
        printf("%lld words of %d ranks counted in %.3f s, %.0f ns each; %lld slots looked at; %s\n",
               (long long)all[1], table.n_ranks, seconds, seconds * 1e9 / (double)(n_words * table.n_ranks),
               (long long)all[2], all[0] ? "WRONG" : "all counts are right");
    MPI_Win_free(&table.win);
    MPI_Finalize();
    return all[0] != 0;
}
