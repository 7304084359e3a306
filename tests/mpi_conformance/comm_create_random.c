/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators from random groups of other communicators, and windows on them, made and freed in random order, are those
 * of a model: every rank knows the members of all. Groups are sequences, lists in any order and set operations; some have
 * a member that is not in the communicator, which is an error at every caller.
 *
 * usage: comm_create_random [seed [steps]]
 */
#include "mtest.h"

#include <stdbool.h>

enum { MOST = 24, MOST_RANKS = 64, MOST_KEPT = 40 };

struct set {
    int n, ranks[MOST_RANKS]; /* world ranks */
};
static struct comm {
    MPI_Comm comm; /* MPI_COMM_NULL: this rank is no member */
    struct set set;
} comms[MOST];
static int n_comms; /* comms[0] is the world */
static struct win {
    MPI_Win win;
    struct set set;
    int *memory; /* one int for each member */
} wins[MOST];
static int n_wins;
static MPI_Group kept[MOST_KEPT]; /* stay alive for a while */
static int n_kept, n_steps;
static unsigned n_let_go;
static uint64_t state;

/* Equal at all ranks. */
static int next(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

static int find(const struct set *set, int rank)
{
    for (int i = 0; i < set->n; i++)
        if (set->ranks[i] == rank)
            return i;
    return MPI_UNDEFINED;
}

/* Members of a communicator: by rank there, as a sequence or in any order. */
static void choose(const struct set *of, int *chosen, int *n)
{
    int first = next(of->n), step = 1 + next(3), all[MOST_RANKS];

    *n = 0;
    if (next(2)) {
        if (next(2))
            step = -step;
        for (int i = first; i >= 0 && i < of->n; i += step)
            chosen[(*n)++] = i;
        return;
    }
    for (int i = 0; i < of->n; i++)
        all[i] = i;
    for (int i = of->n - 1; i > 0; i--) {
        int k = next(i + 1), old = all[i];
        all[i] = all[k];
        all[k] = old;
    }
    *n = 1 + next(of->n);
    memcpy(chosen, all, (size_t)*n * sizeof *chosen);
}

/* Keeps some groups, so that equal ones meet; frees the others. */
static void let_go(MPI_Group group)
{
    int place = (int)(n_let_go++ * 7 % (2 * MOST_KEPT));

    if (place >= n_kept && n_kept < MOST_KEPT) {
        kept[n_kept++] = group;
        return;
    }
    if (place < n_kept) {
        MPI_Group old = kept[place];
        kept[place] = group;
        group = old;
    }
    if (group != MPI_GROUP_EMPTY)
        MTEST_OK(MPI_Group_free(&group));
}

/* A group of the communicator's members, made of its own group or of the world's. */
static MPI_Group make_group(const struct comm *old, struct set *set)
{
    int chosen[MOST_RANKS], by_world = next(2), n;
    MPI_Group all, group;

    choose(&old->set, chosen, &n);
    set->n = n;
    for (int i = 0; i < n; i++)
        set->ranks[i] = old->set.ranks[chosen[i]];
    if (old->comm == MPI_COMM_NULL)
        return MPI_GROUP_NULL;
    MTEST_OK(MPI_Comm_group(by_world ? MPI_COMM_WORLD : old->comm, &all));
    MTEST_OK(MPI_Group_incl(all, n, by_world ? set->ranks : chosen, &group));
    MTEST_OK(MPI_Group_free(&all));
    return group;
}

static void check_comm(const struct comm *made)
{
    int place = find(&made->set, mtest_rank), rank, size, sum, want = 0, got[MOST_RANKS], all[MOST_RANKS];
    MPI_Group group, world;

    MTEST_CHECK((made->comm != MPI_COMM_NULL) == (place != MPI_UNDEFINED),
                "step %d: member %d has %s communicator", n_steps, place,
                made->comm == MPI_COMM_NULL ? "no" : "a");
    if (place == MPI_UNDEFINED || made->comm == MPI_COMM_NULL)
        return;
    MTEST_OK(MPI_Comm_rank(made->comm, &rank));
    MTEST_OK(MPI_Comm_size(made->comm, &size));
    MTEST_CHECK(rank == place && size == made->set.n, "step %d: rank %d of %d, expected %d of %d", n_steps,
                rank, size, place, made->set.n);
    MTEST_OK(MPI_Comm_group(made->comm, &group));
    MTEST_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int i = 0; i < size; i++)
        all[i] = i;
    MTEST_OK(MPI_Group_translate_ranks(group, size, all, world, got));
    for (int i = 0; i < size; i++) {
        MTEST_CHECK(got[i] == made->set.ranks[i], "step %d: member %d is %d", n_steps, i, got[i]);
        want += made->set.ranks[i] * (i + 1);
    }
    MTEST_OK(MPI_Allreduce(&(int){mtest_rank * (rank + 1)}, &sum, 1, MPI_INT, MPI_SUM, made->comm));
    MTEST_CHECK(sum == want, "step %d: the sum is %d, expected %d", n_steps, sum, want);
    let_go(group);
    MTEST_OK(MPI_Group_free(&world));
}

static void create(void)
{
    struct comm *old = &comms[next(n_comms)], *made = &comms[n_comms];
    MPI_Group group = make_group(old, &made->set);
    bool by_members = next(2);

    made->comm = MPI_COMM_NULL;
    if (old->comm != MPI_COMM_NULL) {
        mtest_errors_return(old->comm);
        if (!by_members)
            MTEST_OK(MPI_Comm_create(old->comm, group, &made->comm));
        else if (find(&made->set, mtest_rank) != MPI_UNDEFINED)
            MTEST_OK(MPI_Comm_create_group(old->comm, group, 5, &made->comm));
        let_go(group);
    }
    check_comm(made);
    n_comms++;
}

/* A sequence of world ranks. */
static int choose_sequence(int *ranks)
{
    int first = next(mtest_size), step = 1 + next(3), n = 0, most = 1 + next(mtest_size);

    if (next(2))
        step = -step;
    for (int i = first; i >= 0 && i < mtest_size && n < most; i += step)
        ranks[n++] = i;
    return n;
}

/* All members and another rank between them. */
static int choose_more(const struct set *set, int *ranks)
{
    int n = set->n, stranger = next(mtest_size), place = next(n + 1);

    memcpy(ranks, set->ranks, (size_t)n * sizeof *ranks);
    if (find(set, stranger) != MPI_UNDEFINED)
        return n;
    ranks[n] = place < n ? ranks[place] : stranger;
    ranks[place] = stranger;
    return n + 1;
}

/* A group with ranks that are not in the communicator. */
static void try_stranger(void)
{
    struct comm *old = &comms[next(n_comms)];
    int ranks[MOST_RANKS + 1], n = next(2) ? choose_sequence(ranks) : choose_more(&old->set, ranks),
                               by_members = next(2), n_members = 0;
    MPI_Group world, group;
    MPI_Comm made;

    for (int i = 0; i < n; i++)
        n_members += find(&old->set, ranks[i]) != MPI_UNDEFINED;
    if (n_members == n || old->comm == MPI_COMM_NULL)
        return;
    MTEST_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    MTEST_OK(MPI_Group_incl(world, n, ranks, &group));
    mtest_errors_return(old->comm);
    for (int i = 0; i < 2; i++)
        MTEST_CLASS(by_members ? MPI_Comm_create_group(old->comm, group, 5, &made)
                               : MPI_Comm_create(old->comm, group, &made),
                    MPI_ERR_GROUP);
    MTEST_OK(MPI_Group_free(&group));
    MTEST_OK(MPI_Group_free(&world));
}

static void make_win(void)
{
    struct comm *comm = &comms[next(n_comms)];
    struct win *win = &wins[n_wins++];
    bool is_allocated = next(2);

    win->set = comm->set;
    win->win = MPI_WIN_NULL;
    win->memory = NULL;
    if (comm->comm == MPI_COMM_NULL)
        return;
    if (is_allocated) {
        MTEST_OK(MPI_Win_allocate(win->set.n * (int)sizeof(int), sizeof(int), MPI_INFO_NULL, comm->comm,
                                  &win->memory, &win->win));
    } else {
        MTEST_OK(MPI_Alloc_mem(win->set.n * (int)sizeof(int), MPI_INFO_NULL, &win->memory));
        MTEST_OK(MPI_Win_create(win->memory, win->set.n * (int)sizeof(int), sizeof(int), MPI_INFO_NULL,
                                comm->comm, &win->win));
    }
}

/* Every member puts a number into the memory of every other one. */
static void use_win(const struct win *win)
{
    int me = find(&win->set, mtest_rank), value, salt = next(1000);
    bool has_fence = next(2);

    if (win->win == MPI_WIN_NULL)
        return;
    memset(win->memory, 0, (size_t)win->set.n * sizeof(int));
    MTEST_OK(MPI_Win_fence(0, win->win));
    if (!has_fence)
        MTEST_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win->win));
    for (int i = 0; i < win->set.n; i++) {
        value = salt + 100 * me + i;
        if (!has_fence)
            MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, i, 0, win->win));
        MTEST_OK(MPI_Accumulate(&value, 1, MPI_INT, i, me, 1, MPI_INT, MPI_SUM, win->win));
        MTEST_OK(has_fence ? MPI_Win_fence(0, win->win) : MPI_Win_unlock(i, win->win));
    }
    if (!has_fence)
        MTEST_OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win->win));
    for (int i = 0; i < win->set.n; i++)
        MTEST_CHECK(win->memory[i] == salt + 100 * i + me, "step %d: member %d gave %d, expected %d", n_steps,
                    i, win->memory[i], salt + 100 * i + me);
    MTEST_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win->win));
}

static void free_win(int index)
{
    struct win *win = &wins[index];
    int *flavor, has_flavor, is_created;

    if (win->win != MPI_WIN_NULL) {
        MTEST_OK(MPI_Win_get_attr(win->win, MPI_WIN_CREATE_FLAVOR, &flavor, &has_flavor));
        is_created = has_flavor && *flavor == MPI_WIN_FLAVOR_CREATE;
        MTEST_OK(MPI_Win_free(&win->win));
        if (is_created)
            MTEST_OK(MPI_Free_mem(win->memory));
    }
    wins[index] = wins[--n_wins];
}

static void free_comm(int index)
{
    if (comms[index].comm != MPI_COMM_NULL)
        MTEST_OK(MPI_Comm_free(&comms[index].comm));
    comms[index] = comms[--n_comms];
}

static void step(void)
{
    int what = next(100);

    if (what < 40 && n_comms < MOST)
        create();
    else if (what < 50)
        for (int i = 0; i < 20; i++)
            try_stranger();
    else if (what < 65 && n_wins < MOST)
        make_win();
    else if (what < 85 && n_wins > 0)
        use_win(&wins[next(n_wins)]);
    else if (what < 92 && n_wins > 0)
        free_win(next(n_wins));
    else if (n_comms > 1)
        free_comm(1 + next(n_comms - 1));
}

int main(int argc, char **argv)
{
    int steps;

    mtest_init(&argc, &argv, 1);
    if (mtest_size > MOST_RANKS)
        mtest_skip("too many ranks");
    state = argc > 1 ? (uint64_t)atol(argv[1]) : 1;
    steps = argc > 2 ? atoi(argv[2]) : 300;
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0].comm));
    comms[0].set.n = mtest_size;
    for (int i = 0; i < mtest_size; i++)
        comms[0].set.ranks[i] = i;
    n_comms = 1;
    for (n_steps = 0; n_steps < steps; n_steps++)
        step();
    while (n_wins > 0)
        free_win(0);
    while (n_comms > 0)
        free_comm(n_comms - 1);
    for (int i = 0; i < n_kept; i++)
        if (kept[i] != MPI_GROUP_EMPTY)
            MTEST_OK(MPI_Group_free(&kept[i]));
    return mtest_end();
}
