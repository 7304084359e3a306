/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Accumulates of one origin on one place happen in the order of the calls: each rank has some cells in every window, and
 * a model of them; random accumulates with overlapping layouts and all kinds of calls, in all kinds of epochs, with groups
 * that overlap, fetch and leave what the model predicts. So do accumulates before and after MPI_Win_set_info demands an order.
 *
 * usage: rma_order [seed [rounds]]
 */
#include "mrma.h"

enum { CELLS = 48, LARGE = 24000, OPS_MAX = 60, TARGETS_MAX = 64 };
enum call { ACCUMULATE, GET_ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP, RACCUMULATE, RGET_ACCUMULATE, CALLS };
enum sync { FENCE, PSCW, LOCK, LOCK_ALL, SYNCS };

static MPI_Op const ops[] = {MPI_SUM, MPI_PROD, MPI_MIN,     MPI_MAX,  MPI_BAND,
                             MPI_BOR, MPI_BXOR, MPI_REPLACE, MPI_NO_OP};
enum { N_OPS = 9, NO_OP = 8 };

static uint64_t state, common; /* each rank's own choices; those that all make */
static int *model;             /* by target: its cells */
static int n_cells, *window;

/* What a call has fetched, to be compared when it is there. */
static struct fetch {
    int n, step, *got, *expected, *origin;
} fetches[OPS_MAX];
static int n_fetches;

static int pick(int below)
{
    return (int)(mtest_random(&state) % (uint32_t)below);
}

static int pick_common(int below)
{
    return (int)(mtest_random(&common) % (uint32_t)below);
}

static int combine(int op, int in, int old)
{
    switch (op) {
    case 0:
        return (int)((unsigned)in + (unsigned)old);
    case 1:
        return (int)((unsigned)in * (unsigned)old);
    case 2:
        return in < old ? in : old;
    case 3:
        return in > old ? in : old;
    case 4:
        return in & old;
    case 5:
        return in | old;
    case 6:
        return in ^ old;
    case 7:
        return in;
    default:
        return old;
    }
}

/* A layout of the target's cells. */
struct layout {
    int disp, blocks, block, stride;
};

static struct layout pick_layout(int is_single)
{
    struct layout l = {.blocks = 1, .block = 1, .stride = 1};

    if (!is_single && n_cells == LARGE && pick(3) == 0) {
        l.block = 5000 + pick(n_cells - 5000);
    } else if (!is_single) {
        l.blocks = 1 + pick(5);
        l.block = 1 + pick(6);
        l.stride = l.block + pick(4);
    }
    l.disp = pick(n_cells - (l.blocks - 1) * l.stride - l.block + 1);
    return l;
}

static int cell_of(const struct layout *l, int i)
{
    return l->disp + i / l->block * l->stride + i % l->block;
}

static void issue(int target, MPI_Win win, MPI_Datatype spread, int may_request, MPI_Request *requests,
                  int *n_requests)
{
    enum call call = (enum call)pick(may_request ? CALLS : RACCUMULATE);
    int is_single = call == FETCH_AND_OP || call == COMPARE_AND_SWAP, op = pick(N_OPS), step = 1 + pick(2);
    struct layout l = pick_layout(is_single);
    int n = l.blocks * l.block, *cells = model + (long)target * n_cells;
    struct fetch *fetch = &fetches[n_fetches];
    MPI_Datatype vector, mine = step == 2 ? spread : MPI_INT;
    MPI_Aint disp = (MPI_Aint)mtest_rank * n_cells + l.disp;
    int *origin, *got, compare = pick(2) ? cells[l.disp] : pick(1000);
    int is_fetching = call != ACCUMULATE && call != RACCUMULATE;

    if (!is_fetching && op == NO_OP)
        op = 0;
    if (is_single)
        step = 1;
    mine = step == 2 ? spread : MPI_INT;
    *fetch = (struct fetch){.n = n, .step = step};
    fetch->origin = origin = mtest_alloc((size_t)n * 2 * sizeof *origin);
    fetch->got = got = mtest_alloc((size_t)n * 2 * sizeof *got);
    fetch->expected = mtest_alloc((size_t)n * sizeof *got);
    for (int i = 0; i < 2 * n; i++) {
        origin[i] = pick(2000) - 1000;
        got[i] = -7;
    }
    for (int i = 0; i < n; i++) {
        int *cell = &cells[cell_of(&l, i)];
        fetch->expected[i] = *cell;
        if (call == COMPARE_AND_SWAP)
            *cell = *cell == compare ? origin[0] : *cell;
        else
            *cell = combine(op, origin[i * step], *cell);
    }
    MPI_Type_vector(l.blocks, l.block, l.stride, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    switch (call) {
    case ACCUMULATE:
        MTEST_OK(l.blocks == 1 ? MPI_Accumulate(origin, n, mine, target, disp, n, MPI_INT, ops[op], win)
                               : MPI_Accumulate(origin, n, mine, target, disp, 1, vector, ops[op], win));
        break;
    case RACCUMULATE:
        MTEST_OK(MPI_Raccumulate(origin, n, mine, target, disp, 1, vector, ops[op], win,
                                 &requests[(*n_requests)++]));
        break;
    case GET_ACCUMULATE:
        MTEST_OK(MPI_Get_accumulate(op == NO_OP ? NULL : origin, op == NO_OP ? 0 : n, mine, got, n, mine,
                                    target, disp, 1, vector, ops[op], win));
        break;
    case RGET_ACCUMULATE:
        MTEST_OK(MPI_Rget_accumulate(origin, n, mine, got, n, mine, target, disp, 1, vector, ops[op], win,
                                     &requests[(*n_requests)++]));
        break;
    case FETCH_AND_OP:
        MTEST_OK(MPI_Fetch_and_op(op == NO_OP ? NULL : origin, got, MPI_INT, target, disp, ops[op], win));
        break;
    default:
        origin[1] = compare;
        MTEST_OK(MPI_Compare_and_swap(origin, &origin[1], got, MPI_INT, target, disp, win));
        break;
    }
    MPI_Type_free(&vector);
    if (!is_fetching)
        fetch->n = 0;
    n_fetches++;
}

static void check_fetches(void)
{
    for (int f = 0; f < n_fetches; f++) {
        struct fetch *fetch = &fetches[f];
        for (int i = 0; i < fetch->n; i++)
            if (fetch->got[i * fetch->step] != fetch->expected[i] ||
                (fetch->step == 2 && fetch->got[i * 2 + 1] != -7)) {
                MTEST_CHECK(0, "call %d of %d: element %d is %d, expected %d", f, n_fetches, i,
                            fetch->got[i * fetch->step], fetch->expected[i]);
                break;
            }
        free(fetch->got);
        free(fetch->expected);
        free(fetch->origin);
    }
    n_fetches = 0;
}

static void issue_some(const int *targets, int n_targets, MPI_Win win, MPI_Datatype spread, int is_passive,
                       int is_all)
{
    MPI_Request requests[OPS_MAX];
    int n = pick(OPS_MAX), n_requests = 0;

    for (int i = 0; i < n && n_targets > 0; i++) {
        int target = targets[pick(n_targets)];
        issue(target, win, spread, is_passive, requests, &n_requests);
        if (is_all && pick(10) == 0)
            MTEST_OK(pick(2) ? MPI_Win_flush(target, win) : MPI_Win_flush_local(target, win));
    }
    MTEST_OK(MPI_Waitall(n_requests, requests, MPI_STATUSES_IGNORE));
}

static MPI_Group group_of(MPI_Group all, const int *ranks, int n)
{
    MPI_Group group;

    MPI_Group_incl(all, n, ranks, &group);
    return group;
}

/* Every rank accesses some others, which may access it or not. */
static void post_start(MPI_Win win, MPI_Group all, MPI_Datatype spread)
{
    int to[TARGETS_MAX], from[TARGETS_MAX], n_to = 0, n_from = 0, way = pick_common(3), asserted = 0,
                                            flag = 0;
    MPI_Group targets, origins;

    for (int o = 0; o < mtest_size; o++)
        for (int t = 0; t < mtest_size; t++) {
            if (pick_common(3) == 0)
                continue;
            if (o == mtest_rank)
                to[n_to++] = t;
            if (t == mtest_rank)
                from[n_from++] = o;
        }
    targets = group_of(all, to, n_to);
    origins = group_of(all, from, n_from);
    MTEST_OK(MPI_Win_post(origins, way == 2 ? MPI_MODE_NOCHECK : 0, win));
    if (way == 2) {
        MPI_Barrier(MPI_COMM_WORLD);
        asserted = MPI_MODE_NOCHECK;
    }
    MTEST_OK(MPI_Win_start(targets, asserted, win));
    issue_some(to, n_to, win, spread, 0, 0);
    MTEST_OK(MPI_Win_complete(win));
    check_fetches();
    while (way == 1 && !flag)
        MTEST_OK(MPI_Win_test(win, &flag));
    if (way != 1)
        MTEST_OK(MPI_Win_wait(win));
    MPI_Group_free(&targets);
    MPI_Group_free(&origins);
    MPI_Barrier(MPI_COMM_WORLD); /* a window is not locked while it is exposed */
}

static void run_round(enum sync sync, MPI_Win win, MPI_Group all, MPI_Datatype spread)
{
    int everybody[TARGETS_MAX];

    for (int i = 0; i < mtest_size; i++)
        everybody[i] = i;
    switch (sync) {
    case FENCE:
        MTEST_OK(MPI_Win_fence(pick_common(2) ? MPI_MODE_NOPRECEDE : 0, win));
        for (int i = pick_common(3); i >= 0; i--) {
            issue_some(everybody, mtest_size, win, spread, 0, 0);
            MTEST_OK(MPI_Win_fence(i == 0 ? MPI_MODE_NOSUCCEED : 0, win));
            check_fetches();
        }
        break;
    case PSCW:
        post_start(win, all, spread);
        break;
    case LOCK:
        for (int i = pick(4); i >= 0; i--) {
            int target = pick(mtest_size), is_shared = pick(3);
            MTEST_OK(MPI_Win_lock(is_shared ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, win));
            issue_some(&target, 1, win, spread, 1, 0);
            MTEST_OK(MPI_Win_unlock(target, win));
            check_fetches();
        }
        break;
    default:
        MTEST_OK(MPI_Win_lock_all(0, win));
        issue_some(everybody, mtest_size, win, spread, 1, 1);
        MTEST_OK(MPI_Win_flush_all(win));
        check_fetches();
        issue_some(everybody, mtest_size, win, spread, 1, 1);
        MTEST_OK(MPI_Win_unlock_all(win));
        check_fetches();
        break;
    }
}

/* The cells at all targets are the model's. */
static void check_cells(int round, enum sync sync, MPI_Win win)
{
    int *cells = mtest_alloc((size_t)n_cells * sizeof *cells);

    for (int t = 0; t < mtest_size; t++) {
        MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, t, 0, win));
        MTEST_OK(MPI_Get(cells, n_cells, MPI_INT, t, (MPI_Aint)mtest_rank * n_cells, n_cells, MPI_INT, win));
        MTEST_OK(MPI_Win_unlock(t, win));
        for (int i = 0; i < n_cells; i++)
            if (cells[i] != model[(long)t * n_cells + i]) {
                MTEST_CHECK(0, "round %d (%d): cell %d of rank %d is %d, expected %d", round, (int)sync, i, t,
                            cells[i], model[(long)t * n_cells + i]);
                break;
            }
    }
    free(cells);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void run(int rounds, MPI_Datatype spread, MPI_Group all)
{
    MPI_Win win;

    MTEST_OK(mrma_window((MPI_Aint)mtest_size * n_cells * (MPI_Aint)sizeof(int), sizeof(int), &window, &win));
    model = calloc((size_t)mtest_size * (size_t)n_cells, sizeof *model);
    memset(window, 0, (size_t)mtest_size * (size_t)n_cells * sizeof(int));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < rounds; round++) {
        enum sync sync = (enum sync)pick_common(SYNCS);
        run_round(sync, win, all, spread);
        check_cells(round, sync, win);
    }
    MTEST_OK(mrma_free(window, &win));
    free(model);
}

static void set_ordering(const char *ordering, MPI_Win win)
{
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, "accumulate_ordering", ordering);
    MTEST_OK(MPI_Win_set_info(win, info));
    MPI_Info_free(&info);
}

/* The accumulate that needs the order is small, and the one before it takes long. */
static void check_new_order(void)
{
    int *memory, *data = mtest_alloc(4 * LARGE * sizeof *data), *got = data + 2 * LARGE, last, value = -5,
                 target = (mtest_rank + mtest_size / 2) % mtest_size;
    MPI_Datatype spread;
    MPI_Win win;

    MTEST_OK(mrma_window(LARGE * sizeof(int), sizeof(int), &memory, &win));
    memset(memory, 0, LARGE * sizeof(int));
    memset(data, 0, 4 * LARGE * sizeof(int));
    MPI_Type_vector(LARGE, 1, 2, MPI_INT, &spread);
    MPI_Type_commit(&spread);
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_lock_all(0, win));
    set_ordering("none", win);
    data[2 * LARGE - 2] = 1;
    MTEST_OK(MPI_Get_accumulate(data, 1, spread, got, 1, spread, target, 0, LARGE, MPI_INT, MPI_SUM, win));
    set_ordering("rar,raw,war,waw", win);
    MTEST_OK(MPI_Accumulate(&value, 1, MPI_INT, target, LARGE - 1, 1, MPI_INT, MPI_REPLACE, win));
    MTEST_OK(MPI_Fetch_and_op(NULL, &last, MPI_INT, target, LARGE - 1, MPI_NO_OP, win));
    MTEST_OK(MPI_Win_unlock_all(win));
    MTEST_CHECK(last == value, "the last number is %d, not %d", last, value);
    MPI_Type_free(&spread);
    free(data);
    MTEST_OK(mrma_free(memory, &win));
}

int main(int argc, char **argv)
{
    MPI_Datatype spread;
    MPI_Group all;
    int rounds;

    mtest_init(&argc, &argv, 1);
    mrma_init(&argc, argv);
    common = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    state = common * 1000003 + (uint64_t)mtest_rank;
    rounds = argc > 2 ? atoi(argv[2]) : 40;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread);
    MPI_Type_commit(&spread);
    n_cells = CELLS;
    run(rounds, spread, all);
    n_cells = LARGE;
    if (mtest_size <= 8)
        run(rounds / 4, spread, all);
    check_new_order();
    MPI_Type_free(&spread);
    MPI_Group_free(&all);
    return mtest_end();
}
