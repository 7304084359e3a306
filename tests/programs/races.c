/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided operations that conflict, by argument, and programs without conflicts ("right SEED"). The comments name lines of
 * reports. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CELLS 64
#define GROUP 8 /* cells that are used together */

static int rank, size, *cells, data[4 * CELLS];
static const char *kind;
static MPI_Win win;

static int is(const char *what)
{
    return strcmp(kind, what) == 0;
}

static int begins(const char *what)
{
    return strncmp(kind, what, strlen(what)) == 0;
}

/* ---- Between ranks ---- */

static void put(int target, int cell)
{
    MPI_Put(data, 2, MPI_INT, target, cell, 2, MPI_INT, win); /* put */
}

static void get(int target, int cell)
{
    MPI_Get(data + 8, 2, MPI_INT, target, cell, 2, MPI_INT, win); /* get */
}

static void add(int target, int cell, MPI_Op op)
{
    MPI_Accumulate(data, 2, MPI_INT, target, cell, 2, MPI_INT, op, win); /* accumulate */
}

/* The wait completes the operation only at the origin. */
static void add_and_wait(int target, int cell, MPI_Op op)
{
    MPI_Request request;

    MPI_Raccumulate(data, 2, MPI_INT, target, cell, 2, MPI_INT, op, win, &request); /* raccumulate */
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Rank 1 and the last one access cells of rank 0. */
static void access_both(void)
{
    if (is("flush-requests") && rank > 0)
        add_and_wait(0, 5, rank == 1 ? MPI_SUM : MPI_MAX);
    else if (rank == 1)
        put(0, 5);
    else if (rank == size - 1 && strstr(kind, "get"))
        get(0, 6);
    else if (rank == size - 1 && strstr(kind, "add"))
        add(0, 6, MPI_SUM);
    else if (rank == size - 1)
        put(0, 4);
}

static void run_fence(void)
{
    MPI_Win_fence(0, win);
    if (is("fence-ops") && rank > 0)
        add(0, 3, rank == 1 ? MPI_SUM : MPI_MAX);
    else
        access_both();
    MPI_Win_fence(0, win);
}

static void run_posted(void)
{
    MPI_Group world, zero, others;
    int first = 0;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &first, &zero);
    MPI_Group_excl(world, 1, &first, &others);
    if (rank == 0) {
        MPI_Win_post(others, 0, win);
        MPI_Win_wait(win);
    } else {
        MPI_Win_start(zero, 0, win);
        access_both();
        MPI_Win_complete(win);
    }
    MPI_Group_free(&world);
    MPI_Group_free(&zero);
    MPI_Group_free(&others);
}

static void run_locked(void)
{
    if (begins("lock-")) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        access_both();
        if (is("lock-held"))
            MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_unlock(0, win);
    } else {
        MPI_Win_lock_all(0, win);
        access_both();
        MPI_Win_flush(0, win);
        if (is("flush-held"))
            MPI_Barrier(MPI_COMM_WORLD); /* nothing more: rank 1 has flushed before */
        MPI_Win_unlock_all(win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The target waits for a flag in its own memory, and so knows that what its origin did before is complete. */
static void run_flag(int last)
{
    int flag = 0;

    data[0] = 1;
    while (rank == last && flag == 0) {
        usleep(1000); /* others of the PE run, without a call of MPI */
        MPI_Win_lock(MPI_LOCK_SHARED, last, 0, win);
        flag = *(volatile int *)&cells[8];
        if (flag)
            put(last, 5);
        MPI_Win_unlock(last, win);
    }
    if (rank != 0)
        return;
    MPI_Win_lock(MPI_LOCK_SHARED, last, 0, win);
    put(last, 5);
    MPI_Win_flush(last, win);
    add(last, 8, MPI_SUM);
    MPI_Win_unlock(last, win);
}

/* A shared lock of the own window does not order accesses after those of other shared locks. */
static void run_own(void)
{
    int last = size - 1;

    if (is("own-flag"))
        run_flag(last);
    else if (rank == 0 || rank == last) {
        MPI_Win_lock(MPI_LOCK_SHARED, last, 0, win);
        put(last, 5);
        MPI_Win_unlock(last, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A lock of another window around the accesses. Of another rank's window, MPI_Win_lock need not wait for it; a flush in that window
 * does. */
static void run_mutex(void)
{
    MPI_Win mutex;
    int *word, got;

    MPI_Win_allocate(sizeof *word, sizeof *word, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &mutex);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 20; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, mutex);
        if (rank != 0 && !is("mutex-lock")) {
            MPI_Get(&got, 1, MPI_INT, 0, 0, 1, MPI_INT, mutex);
            MPI_Win_flush(0, mutex);
        }
        put(0, 5);
        MPI_Win_flush(0, win);
        MPI_Win_unlock(0, mutex);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&mutex);
}

static void run_dynamic(void)
{
    MPI_Aint place, all[64];

    MPI_Get_address(cells, &place);
    MPI_Allgather(&place, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, cells, CELLS * sizeof *cells);
    MPI_Win_fence(0, win);
    if (rank > 0)
        MPI_Put(data, 1, MPI_INT, 0, all[0], 1, MPI_INT, win); /* put-dynamic */
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

/* ---- Of one rank with itself, or with the memory of its target ---- */

static void run_origin(void)
{
    MPI_Win_fence(0, win);
    if (is("origin-changed")) {
        put((rank + 1) % size, 0);
        data[0]++;
    } else if (is("origin-got")) {
        get((rank + 1) % size, 0);
        MPI_Put(data + 9, 1, MPI_INT, rank, 20, 1, MPI_INT, win); /* put-got */
    } else if (is("origin-sent")) {
        get((rank + 1) % size, 0);
        MPI_Send(data + 9, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD); /* legal: not used */
        MPI_Sendrecv(data + 9, 1, MPI_INT, rank, 0, data + 30, 1, MPI_INT, rank, 0,
                     MPI_COMM_WORLD, /* send-got */
                     MPI_STATUS_IGNORE);
    }
    MPI_Win_fence(0, win); /* fence-origin */
}

#define N_PAGE 16384 /* of these 64 KiB some pages are whole */

static int page[N_PAGE];

static void run_early(void)
{
    MPI_Win_fence(0, win);
    if (rank == 0) {
        MPI_Get(page, 4 * N_PAGE, MPI_BYTE, 1, 0, 4 * N_PAGE, MPI_BYTE, win); /* get-early */
        printf("%d", page[N_PAGE / 2]);
    }
    MPI_Win_fence(0, win);
}

/* Rank 0 has put, or got, before the others go on. */
static void run_stored(void)
{
    MPI_Group world, zero, others;
    int first = 0;

    void (*access)(int target, int cell) = strstr(kind, "got") ? get : put;

    if (strstr(kind, "fence")) {
        MPI_Win_fence(0, win);
        if (rank == 0)
            access(size - 1, 10);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == size - 1)
            cells[11] += 3;
        MPI_Win_fence(0, win); /* fence-stored */
        return;
    }
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &first, &zero);
    MPI_Group_excl(world, 1, &first, &others);
    if (rank == 0) {
        MPI_Win_start(others, 0, win);
        access(size - 1, 10);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_complete(win);
    } else {
        MPI_Win_post(zero, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == size - 1)
            cells[11] += 3;
        MPI_Win_wait(win); /* wait-stored */
    }
}

/* ---- Programs without conflicts ---- */

static unsigned state;
static int expected[64][CELLS]; /* all ranks compute it */

static int pick(int n)
{
    state = state * 1103515245u + 12345u;
    return (int)(state >> 16) % n;
}

/* What happens to a group of cells of a target in a round. */
struct use {
    enum { NOBODY, PUT, ADD, GET, STORE, LOAD, KINDS } by;
    int origin;
};

static void do_use(int target, int group, struct use use, int round)
{
    int at = group * GROUP, *from = data + rank + 1, value = 1000 * round + target + group;

    if (use.by == PUT && use.origin == rank) {
        int *values =
            malloc(GROUP * sizeof *values); /* kept: data must not change before the end of the epoch */
        for (int i = 0; i < GROUP; i++)
            values[i] = value + i;
        MPI_Put(values, GROUP, MPI_INT, target, at, GROUP, MPI_INT, win);
    } else if (use.by == ADD) {
        MPI_Accumulate(from, 1, MPI_INT, target, at, 1, MPI_INT, MPI_SUM, win);
        if (use.origin == rank)
            MPI_Fetch_and_op(from, data + 3 * CELLS + target, MPI_INT, target, at, MPI_SUM, win);
    } else if (use.by == GET) {
        MPI_Get(data + CELLS + (target % 2 * 8 + group) * 4, 4, MPI_INT, target, at, 4, MPI_INT, win);
    } else if (use.by == STORE && target == rank) {
        for (int i = 0; i < GROUP; i++)
            cells[at + i] = value - i;
    }
}

static void expect_use(int target, int group, struct use use, int round)
{
    int at = group * GROUP, value = 1000 * round + target + group;

    for (int i = 0; i < GROUP && (use.by == PUT || use.by == STORE); i++)
        expected[target][at + i] = use.by == PUT ? value + i : value - i;
    for (int r = 0; r < size && use.by == ADD; r++)
        expected[target][at] += (r + 1) * (r == use.origin ? 2 : 1);
}

static void use_all(int round, int has_stores, int flush)
{
    struct use use[64][CELLS / GROUP];

    for (int t = 0; t < size; t++)
        for (int g = 0; g < CELLS / GROUP; g++) {
            use[t][g] = (struct use){pick(KINDS), pick(size)};
            if (use[t][g].by == STORE && !has_stores)
                use[t][g].by = LOAD;
            if (use[t][g].by == GET && t > 1)
                use[t][g].by = ADD;
            do_use(t, g, use[t][g], round);
            expect_use(t, g, use[t][g], round);
            if (flush && pick(3) == 0)
                MPI_Win_flush(t, win);
        }
}

static void round_of_locks(int round)
{
    int first = pick(size);

    for (int i = 0; i < size; i++) { /* in turn: a token orders them */
        int now = (first + i) % size, next = (now + 1) % size, token = 0;
        int lock = pick(2) ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE;
        if (rank == now) {
            if (i > 0)
                MPI_Recv(&token, 1, MPI_INT, (now + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Win_lock(lock, 0, 0, win);
            MPI_Get(data + 2 * CELLS, 1, MPI_INT, 0, 7, 1, MPI_INT, win);
            MPI_Win_flush(0, win);
            data[2 * CELLS]++;
            MPI_Put(data + 2 * CELLS, 1, MPI_INT, 0, 7, 1, MPI_INT, win);
            MPI_Win_unlock(0, win);
            if (i < size - 1)
                MPI_Send(&token, 1, MPI_INT, next, 1, MPI_COMM_WORLD);
        }
        expected[0][7]++;
    }
    (void)round;
}

/* A lock of the program's own, made of atomic operations; it guards cell 15 of rank 0. */
static void round_of_spins(void)
{
    int zero = 0, one = 1, old = 1, value = 0;

    MPI_Win_lock_all(0, win);
    do {
        MPI_Compare_and_swap(&one, &zero, &old, MPI_INT, 0, 8, win);
        MPI_Win_flush(0, win);
    } while (old != 0);
    MPI_Get(&value, 1, MPI_INT, 0, 15, 1, MPI_INT, win);
    MPI_Win_flush(0, win);
    value++;
    MPI_Put(&value, 1, MPI_INT, 0, 15, 1, MPI_INT, win);
    MPI_Win_flush(0, win);
    MPI_Accumulate(&zero, 1, MPI_INT, 0, 8, 1, MPI_INT, MPI_REPLACE, win);
    MPI_Win_unlock_all(win);
    expected[0][15] += size;
}

static void round_of_posts(int round, MPI_Group world)
{
    MPI_Win_post(world, 0, win);
    MPI_Win_start(world, 0, win);
    use_all(round, 1, 0);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
}

static void do_round(int round, MPI_Group world)
{
    switch (pick(6)) {
    case 0:
    case 1:
        MPI_Win_fence(0, win);
        for (int i = pick(4); i >= 0; i--) {
            use_all(round, 1, 0);
            MPI_Win_fence(i ? 0 : MPI_MODE_NOSUCCEED, win);
        }
        break;
    case 2:
        round_of_posts(round, world);
        break;
    case 3:
        MPI_Win_lock_all(0, win);
        use_all(round, 0, 1);
        MPI_Win_unlock_all(win);
        break;
    case 4:
        round_of_locks(round);
        break;
    default:
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Put(&rank, 1, MPI_INT, 0, 8, 1, MPI_INT, win);
        MPI_Win_unlock(0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
            cells[8] = 0;
            MPI_Win_unlock(0, win);
        }
        expected[0][8] = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        round_of_spins();
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void run_right(unsigned seed)
{
    MPI_Group world;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    state = seed;
    for (int i = 0; i < 4 * CELLS; i++)
        data[i] = i;
    for (int round = 0; round < 30; round++) {
        do_round(round, world);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
        for (int i = 0; i < CELLS; i++)
            if (cells[i] != expected[rank][i]) {
                printf("round %d, rank %d, cell %d: %d instead of %d\n", round, rank, i, cells[i],
                       expected[rank][i]);
                MPI_Abort(MPI_COMM_WORLD, 2);
            }
        MPI_Win_unlock(rank, win);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Group_free(&world);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kind = argv[1];
    cells = calloc(N_PAGE, sizeof *cells);
    if (is("dynamic")) {
        run_dynamic();
    } else {
        MPI_Win_create(cells, N_PAGE * sizeof *cells, sizeof *cells, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        if (is("right"))
            run_right((unsigned)atoi(argv[2]));
        else if (begins("fence"))
            run_fence();
        else if (begins("posted"))
            run_posted();
        else if (is("early-got"))
            run_early();
        else if (begins("origin"))
            run_origin();
        else if (begins("own"))
            run_own();
        else if (begins("mutex"))
            run_mutex();
        else if (begins("stored"))
            run_stored();
        else
            run_locked();
        MPI_Win_free(&win);
    }
    MPI_Finalize();
    puts("end");
    return 0;
}
