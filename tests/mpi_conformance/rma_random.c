/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A random program of one-sided operations has the result that a model of all windows predicts: every rank
 * makes the same plan from the seed, round by round, applies it to its model, issues its own part, and
 * compares its window and the fetched values. Rounds are synchronised by fences, by post and start, or by
 * locks; layouts are blocks, vectors and single elements; in a round an element is put to once, or fetched,
 * or accumulated to by many.
 *
 * usage: rma_random [seed [rounds]]
 */
#include "mrma.h"

enum { CELLS = 96, OPS_MAX = 200 };

enum kind { PUT, GET, ACCUMULATE, GET_ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP, KINDS };
enum sync { FENCE, PSCW, LOCK_SHARED, LOCK_EXCLUSIVE, LOCK_ALL, REQUESTS, SYNCS };

struct op {
    enum kind kind;
    int origin, target;
    int disp, blocks, block, stride; /* of the target's cells */
    long value;                      /* of the first cell; the next ones are one more each */
    int combine;                     /* index into the operations */
    long compare;
    long expected[CELLS]; /* the fetched value */
};

/* The results of accumulates by several origins do not depend on the order if all use the same one. */
static MPI_Op const ops[] = {MPI_SUM, MPI_BXOR, MPI_MAX, MPI_MIN};
enum { N_OPS = 4 };

static long *model; /* of all windows: [rank][cell] */
static uint64_t state;

static unsigned next(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

static long apply(int combine, long in, long old)
{
    switch (combine) {
    case 0:
        return in + old;
    case 1:
        return in ^ old;
    case 2:
        return in > old ? in : old;
    default:
        return in < old ? in : old;
    }
}

static int n_cells(const struct op *op)
{
    return op->blocks * op->block;
}

static int cell_of(const struct op *op, int i)
{
    return op->disp + i / op->block * op->stride + i % op->block;
}

static void choose_layout(struct op *op)
{
    int is_single = op->kind == FETCH_AND_OP || op->kind == COMPARE_AND_SWAP;
    op->blocks = is_single ? 1 : 1 + (int)next(4);
    op->block = is_single ? 1 : 1 + (int)next(5);
    op->stride = op->block + (int)next(4);
    op->disp = (int)next((unsigned)(CELLS - (op->blocks - 1) * op->stride - op->block + 1));
}

/* use[target][cell]: 0 free, 1 read, 2 written or swapped, 3 + combine accumulated. */
static int may(const int *use, const struct op *op)
{
    for (int i = 0; i < n_cells(op); i++) {
        int u = use[op->target * CELLS + cell_of(op, i)];
        if (op->kind == GET ? u > 1 : op->kind == ACCUMULATE ? u != 0 && u != 3 + op->combine : u != 0)
            return 0;
    }
    return 1;
}

static void mark(int *use, const struct op *op)
{
    for (int i = 0; i < n_cells(op); i++)
        use[op->target * CELLS + cell_of(op, i)] = op->kind == GET          ? 1
                                                   : op->kind == ACCUMULATE ? 3 + op->combine
                                                                            : 2;
}

static void run_on_model(struct op *op)
{
    long *window = model + (long)op->target * CELLS;
    for (int i = 0; i < n_cells(op); i++) {
        long *cell = &window[cell_of(op, i)];
        op->expected[i] = *cell;
        if (op->kind == PUT)
            *cell = op->value + i;
        else if (op->kind == COMPARE_AND_SWAP)
            *cell = *cell == op->compare ? op->value : *cell;
        else if (op->kind != GET)
            *cell = apply(op->combine, op->value + i, *cell);
    }
}

static int make_plan(struct op *plan, int *use)
{
    int n = 0, wanted = 4 + (int)next(OPS_MAX - 4);
    memset(use, 0, sizeof *use * (size_t)mtest_size * CELLS);
    for (int i = 0; i < wanted; i++) {
        struct op *op = &plan[n];
        op->kind = (enum kind)next(KINDS);
        op->origin = (int)next((unsigned)mtest_size);
        op->target = (int)next((unsigned)mtest_size);
        op->value = (long)next(1000000);
        op->combine = (int)next(N_OPS);
        choose_layout(op);
        op->compare = next(2) ? model[(long)op->target * CELLS + op->disp] : -1;
        if (!may(use, op))
            continue;
        mark(use, op);
        n++;
    }
    for (int i = 0; i < n; i++)
        run_on_model(&plan[i]);
    return n;
}

/* The origin's buffers have the cells one after the other, with a hole between them half of the time. */
static long out[OPS_MAX][CELLS * 2], in[OPS_MAX][CELLS * 2], compare[OPS_MAX];

static void issue(struct op *op, int number, MPI_Win win, MPI_Datatype spread, MPI_Request *request)
{
    MPI_Datatype vector;
    int n = n_cells(op), step = number % 2 + 1;
    MPI_Datatype mine = step == 2 ? spread : MPI_LONG;
    long *from = out[number], *to = in[number];

    for (int i = 0; i < n; i++)
        from[i * step] = op->value + i;
    for (int i = 0; i < CELLS * 2; i++)
        to[i] = -7;
    compare[number] = op->compare;
    MPI_Type_vector(op->blocks, op->block, op->stride, MPI_LONG, &vector);
    MPI_Type_commit(&vector);
    switch (op->kind) {
    case PUT:
        MTEST_OK(request ? MPI_Rput(from, n, mine, op->target, op->disp, 1, vector, win, request)
                         : MPI_Put(from, n, mine, op->target, op->disp, 1, vector, win));
        break;
    case GET:
        MTEST_OK(request ? MPI_Rget(to, n, mine, op->target, op->disp, 1, vector, win, request)
                         : MPI_Get(to, n, mine, op->target, op->disp, 1, vector, win));
        break;
    case ACCUMULATE:
        MTEST_OK(request
                     ? MPI_Raccumulate(from, n, mine, op->target, op->disp, 1, vector, ops[op->combine], win,
                                       request)
                     : MPI_Accumulate(from, n, mine, op->target, op->disp, 1, vector, ops[op->combine], win));
        break;
    case GET_ACCUMULATE:
        MTEST_OK(request ? MPI_Rget_accumulate(from, n, mine, to, n, mine, op->target, op->disp, 1, vector,
                                               ops[op->combine], win, request)
                         : MPI_Get_accumulate(from, n, mine, to, n, mine, op->target, op->disp, 1, vector,
                                              ops[op->combine], win));
        break;
    case FETCH_AND_OP:
        MTEST_OK(MPI_Fetch_and_op(from, to, MPI_LONG, op->target, op->disp, ops[op->combine], win));
        break;
    default:
        MTEST_OK(MPI_Compare_and_swap(from, &compare[number], to, MPI_LONG, op->target, op->disp, win));
        break;
    }
    MPI_Type_free(&vector);
}

static void check_fetched(const struct op *op, int number)
{
    int step = number % 2 + 1;
    if (op->kind == PUT || op->kind == ACCUMULATE)
        return;
    for (int i = 0; i < n_cells(op); i++) {
        MTEST_CHECK(in[number][i * step] == op->expected[i],
                    "operation %d (kind %d) on rank %d: cell %d is %ld, not %ld", number, (int)op->kind,
                    op->target, i, in[number][i * step], op->expected[i]);
        MTEST_CHECK(step == 1 || in[number][i * step + 1] == -7, "the hole behind cell %d was written", i);
    }
}

/* Issues the rank's operations on a target (-1: on all). */
static void issue_all(struct op *plan, int n, int target, MPI_Win win, MPI_Datatype spread)
{
    for (int i = 0; i < n; i++)
        if (plan[i].origin == mtest_rank && (target < 0 || plan[i].target == target))
            issue(&plan[i], i, win, spread, NULL);
}

static void issue_with_requests(struct op *plan, int n, MPI_Win win, MPI_Datatype spread)
{
    MPI_Request requests[OPS_MAX];
    int n_requests = 0;
    for (int i = 0; i < n; i++)
        if (plan[i].origin == mtest_rank) {
            int has_form = plan[i].kind < FETCH_AND_OP;
            issue(&plan[i], i, win, spread, has_form ? &requests[n_requests] : NULL);
            n_requests += has_form;
        }
    MTEST_OK(MPI_Waitall(n_requests, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < n; i++) /* data fetched with a request has arrived before the epoch ends */
        if (plan[i].origin == mtest_rank && plan[i].kind < FETCH_AND_OP)
            check_fetched(&plan[i], i);
}

static void run_round(enum sync sync, struct op *plan, int n, MPI_Win win, MPI_Group all, MPI_Datatype spread)
{
    switch (sync) {
    case FENCE:
        MTEST_OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
        issue_all(plan, n, -1, win, spread);
        MTEST_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
        break;
    case PSCW:
        MTEST_OK(MPI_Win_post(all, 0, win));
        MTEST_OK(MPI_Win_start(all, 0, win));
        issue_all(plan, n, -1, win, spread);
        MTEST_OK(MPI_Win_complete(win));
        MTEST_OK(MPI_Win_wait(win));
        break;
    case LOCK_SHARED:
    case LOCK_EXCLUSIVE:
        for (int t = 0; t < mtest_size; t++) {
            int target = (t + mtest_rank) % mtest_size;
            MTEST_OK(
                MPI_Win_lock(sync == LOCK_SHARED ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, win));
            issue_all(plan, n, target, win, spread);
            MTEST_OK(MPI_Win_unlock(target, win));
        }
        break;
    case LOCK_ALL:
        MTEST_OK(MPI_Win_lock_all(0, win));
        issue_all(plan, n, -1, win, spread);
        MTEST_OK(MPI_Win_flush_all(win));
        for (int i = 0; i < n; i++)
            if (plan[i].origin == mtest_rank)
                check_fetched(&plan[i], i);
        MTEST_OK(MPI_Win_unlock_all(win));
        break;
    default:
        MTEST_OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
        issue_with_requests(plan, n, win, spread);
        MTEST_OK(MPI_Win_unlock_all(win));
        break;
    }
    for (int i = 0; i < n; i++)
        if (plan[i].origin == mtest_rank)
            check_fetched(&plan[i], i);
}

static void check_window(const long *cells, int round, enum sync sync, MPI_Win win)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, mtest_rank, 0, win)); /* to load from it */
    for (int i = 0; i < CELLS; i++)
        MTEST_CHECK(cells[i] == model[(long)mtest_rank * CELLS + i], "round %d (%d): cell %d is %ld, not %ld",
                    round, (int)sync, i, cells[i], model[(long)mtest_rank * CELLS + i]);
    MTEST_OK(MPI_Win_unlock(mtest_rank, win));
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rounds, *use;
    long *cells;
    struct op *plan;
    MPI_Win win;
    MPI_Group all;
    MPI_Datatype spread;

    mtest_init(&argc, &argv, 1);
    mrma_init(&argc, argv);
    state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    rounds = argc > 2 ? atoi(argv[2]) : 60;
    use = malloc(sizeof *use * (size_t)mtest_size * CELLS);
    plan = malloc(sizeof *plan * OPS_MAX);
    model = calloc((size_t)mtest_size * CELLS, sizeof *model);
    MTEST_OK(mrma_window(CELLS * (MPI_Aint)sizeof(long), sizeof(long), &cells, &win));
    memset(cells, 0, CELLS * sizeof(long));
    MPI_Win_get_group(win, &all);
    MPI_Type_create_resized(MPI_LONG, 0, 2 * sizeof(long), &spread);
    MPI_Type_commit(&spread);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < rounds; round++) {
        enum sync sync = (enum sync)next(SYNCS);
        int n = make_plan(plan, use);
        run_round(sync, plan, n, win, all, spread);
        check_window(cells, round, sync, win);
    }
    MPI_Type_free(&spread);
    MPI_Group_free(&all);
    MTEST_OK(mrma_free(cells, &win));
    free(use);
    free(plan);
    free(model);
    return mtest_end();
}
