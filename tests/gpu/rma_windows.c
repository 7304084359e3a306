/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Windows and origin buffers in memory of every kind: put, get, accumulate, fetch and compare have the same
 * results as in host memory, with blocks and with holes on either side, and write nothing else. Operations that
 * fetch from a block in a GPU's memory are one kernel each, and copy nothing.
 */
#include "device.h"
#include "fakecuda.h"

enum { N = 700, WINDOW = 2 * N }; /* 64-bit integers */

static int next, previous;
static int64_t values[WINDOW], model[WINDOW];

static void fill(int64_t *cells, int n, int rank)
{
    for (int i = 0; i < n; i++)
        cells[i] = (int64_t)rank * 1000003 + i * 7 + 1;
}

static void expect(const struct gtest_buffer *buffer, const int64_t *image, const char *what)
{
    long differs = gtest_differs(buffer, image);
    MTEST_CHECK(differs == -1, "%s: byte %ld in %s memory differs", what, differs,
                gtest_place_names[buffer->place]);
}

/* every_other: elements with holes, at the origin and at the target. */
static void move(enum gtest_place at, enum gtest_place from, MPI_Datatype every_other, int has_holes)
{
    struct gtest_buffer window, origin;
    int64_t old[WINDOW];
    MPI_Win win;

    fill(model, WINDOW, 50 + mtest_rank);
    fill(values, WINDOW, mtest_rank);
    window = gtest_alloc(at, sizeof model, model);
    origin = gtest_alloc(from, sizeof values, values);
    MTEST_OK(MPI_Win_create(window.data, sizeof model, sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(has_holes ? MPI_Put(origin.data, N, MPI_INT64_T, next, 0, 1, every_other, win)
                       : MPI_Put(origin.data, N, MPI_INT64_T, next, N, N, MPI_INT64_T, win));
    MTEST_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < N; i++)
        model[has_holes ? 2 * i : N + i] = (int64_t)previous * 1000003 + i * 7 + 1;
    expect(&window, model, "put");
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(has_holes ? MPI_Accumulate(origin.data, 1, every_other, next, 0, N, MPI_INT64_T, MPI_SUM, win)
                       : MPI_Accumulate(origin.data, N, MPI_INT64_T, next, 0, N, MPI_INT64_T, MPI_SUM, win));
    MTEST_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < N; i++)
        model[i] += (int64_t)previous * 1000003 + (has_holes ? 2 * i : i) * 7 + 1;
    expect(&window, model, "accumulate");
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(has_holes ? MPI_Get(origin.data, 1, every_other, mtest_rank, 1, N, MPI_INT64_T, win)
                       : MPI_Get(origin.data, N, MPI_INT64_T, mtest_rank, 1, N, MPI_INT64_T, win));
    MTEST_OK(MPI_Win_fence(0, win));
    memcpy(old, values, sizeof old);
    for (int i = 0; i < N; i++)
        old[has_holes ? 2 * i : i] = model[i + 1];
    expect(&origin, old, "get");
    expect(&window, model, "what get has read");
    MTEST_OK(MPI_Win_free(&win));
    gtest_free(&window);
    gtest_free(&origin);
}

/* Fetching operations; operand and result are in the same kind of memory. */
static void fetch(enum gtest_place at, enum gtest_place from)
{
    struct gtest_buffer window, operand, result, compare;
    int64_t expected[4];
    MPI_Win win;

    fill(model, 4, 50 + mtest_rank);
    fill(values, 4, mtest_rank);
    window = gtest_alloc(at, 4 * sizeof *model, model);
    operand = gtest_alloc(from, 4 * sizeof *values, values);
    result = gtest_alloc(from, 4 * sizeof *values, NULL);
    fill(expected, 1, 50 + next);
    expected[0] += 14; /* the target's third cell */
    compare = gtest_alloc(from, sizeof *expected, expected);
    memset(expected, GTEST_FILL_BYTE, sizeof expected);
    MTEST_OK(
        MPI_Win_create(window.data, 4 * sizeof *model, sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win));
    MTEST_OK(MPI_Fetch_and_op(operand.data, result.data, MPI_INT64_T, next, 0, MPI_SUM, win));
    MTEST_OK(MPI_Get_accumulate(operand.data, 1, MPI_INT64_T, result.data + 8, 1, MPI_INT64_T, next, 1, 1,
                                MPI_INT64_T, MPI_REPLACE, win));
    MTEST_OK(MPI_Compare_and_swap(operand.data, compare.data, result.data + 16, MPI_INT64_T, next, 2, win));
    MTEST_OK(MPI_Compare_and_swap(operand.data, compare.data, result.data + 24, MPI_INT64_T, next, 3, win));
    MTEST_OK(MPI_Win_unlock(next, win));
    MPI_Barrier(MPI_COMM_WORLD);
    fill(expected, 4, 50 + next);
    expect(&result, expected, "what was fetched");
    model[0] += (int64_t)previous * 1000003 + 1;
    model[1] = model[2] = (int64_t)previous * 1000003 + 1;
    expect(&window, model, "what fetching has left");
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_free(&win));
    gtest_free(&window);
    gtest_free(&operand);
    gtest_free(&result);
    gtest_free(&compare);
}

/* Fetching of many elements; holes: at the target. */
static void fetch_many(enum gtest_place at, enum gtest_place from, MPI_Datatype every_other, int has_holes)
{
    static const MPI_Op ops[] = {MPI_SUM, MPI_NO_OP, MPI_REPLACE, MPI_BXOR};
    int target_count = has_holes ? 1 : N, step = has_holes ? 2 : 1;
    MPI_Datatype target_type = has_holes ? every_other : MPI_INT64_T;
    struct gtest_buffer window, operand, result;
    int64_t expected[N];
    MPI_Win win;

    fill(model, WINDOW, 50 + mtest_rank);
    fill(values, N, mtest_rank);
    window = gtest_alloc(at, sizeof model, model);
    operand = gtest_alloc(from, N * sizeof *values, values);
    MTEST_OK(MPI_Win_create(window.data, sizeof model, sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    for (int op = 0; op < 4; op++) {
        result = gtest_alloc(from, N * sizeof *expected, NULL);
        MTEST_OK(MPI_Win_fence(0, win));
        MTEST_OK(MPI_Get_accumulate(ops[op] == MPI_NO_OP ? NULL : operand.data, N, MPI_INT64_T, result.data,
                                    N, MPI_INT64_T, next, 1, target_count, target_type, ops[op], win));
        MTEST_OK(MPI_Win_fence(0, win));
        MTEST_OK(MPI_Sendrecv(model, WINDOW, MPI_INT64_T, previous, 3, values, WINDOW, MPI_INT64_T, next, 3,
                              MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < N; i++) {
            int64_t *cell = &model[1 + i * step], operand_i = (int64_t)previous * 1000003 + i * 7 + 1;
            expected[i] = values[1 + i * step];
            *cell = ops[op] == MPI_SUM       ? *cell + operand_i
                    : ops[op] == MPI_REPLACE ? operand_i
                    : ops[op] == MPI_BXOR    ? *cell ^ operand_i
                                             : *cell;
        }
        expect(&result, expected, "elements that were fetched");
        expect(&window, model, "the window after fetching");
        gtest_free(&result);
    }
    MTEST_OK(MPI_Win_free(&win));
    gtest_free(&window);
    gtest_free(&operand);
}

static const char *const copies[] = {"cuMemcpyAsync",     "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
                                     "cuMemcpyDtoDAsync", "cuMemcpyPeerAsync", "cuMemcpyDtoH",
                                     "cuMemcpyHtoD"};

static int count_copies(void)
{
    int n = 0;

    for (size_t i = 0; i < sizeof copies / sizeof copies[0]; i++)
        n += fakecuda_calls(copies[i]);
    return n;
}

/* The driver must have been called for so many kernels since, and for no copy. */
static void expect_kernels(int n, int *n_before, int *n_copies_before, const char *what)
{
    int n_now = fakecuda_calls("cuLaunchKernel"), n_copies = count_copies();

    MTEST_CHECK(n_now - *n_before == n && n_copies == *n_copies_before, "%s: %d kernels, %d copies", what,
                n_now - *n_before, n_copies - *n_copies_before);
    *n_before = n_now;
    *n_copies_before = n_copies;
}

/* Operand and result on the host or on the window's GPU. */
static void fetch_by_kernels(enum gtest_place from)
{
    struct gtest_buffer window, operand, result;
    int n_kernels, n_copies;
    MPI_Win win;

    fill(model, WINDOW, 1);
    window = gtest_alloc(GTEST_GPU0, sizeof model, model);
    operand = gtest_alloc(from, sizeof model, model);
    result = gtest_alloc(from, sizeof model, model);
    MTEST_OK(MPI_Win_create(window.data, sizeof model, sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    MTEST_OK(MPI_Fetch_and_op(operand.data, result.data, MPI_INT64_T, 0, 0, MPI_SUM, win));
    n_kernels = fakecuda_calls("cuLaunchKernel");
    n_copies = count_copies();
    MTEST_OK(MPI_Fetch_and_op(operand.data, result.data, MPI_INT64_T, 0, 0, MPI_SUM, win));
    expect_kernels(1, &n_kernels, &n_copies, "MPI_Fetch_and_op");
    MTEST_OK(MPI_Get_accumulate(operand.data, N, MPI_INT64_T, result.data, N, MPI_INT64_T, 0, 1, N,
                                MPI_INT64_T, MPI_MIN, win));
    expect_kernels(1, &n_kernels, &n_copies, "MPI_Get_accumulate");
    MTEST_OK(MPI_Compare_and_swap(operand.data, operand.data + 8, result.data, MPI_INT64_T, 0, 2, win));
    expect_kernels(1, &n_kernels, &n_copies, "MPI_Compare_and_swap");
    MTEST_OK(MPI_Win_unlock(0, win));
    MTEST_OK(MPI_Win_free(&win));
    gtest_free(&window);
    gtest_free(&operand);
    gtest_free(&result);
}

/* Elements with holes: gathered, combined and scattered by a kernel each. */
static void combine_holes_by_kernels(MPI_Datatype every_other)
{
    static struct {
        double value;
        int index;
    } pairs[N];
    struct gtest_buffer window, operand, result;
    int n_kernels, n_copies;
    MPI_Win win;

    fill(model, WINDOW, 1);
    window = gtest_alloc(GTEST_GPU0, sizeof model, model);
    operand = gtest_alloc(GTEST_GPU0, sizeof model, model);
    result = gtest_alloc(GTEST_GPU0, sizeof model, model);
    MTEST_OK(MPI_Win_create(window.data, sizeof model, sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    for (int round = 0; round < 2; round++) { /* the first one also uploads the layout */
        n_kernels = fakecuda_calls("cuLaunchKernel");
        n_copies = count_copies();
        MTEST_OK(MPI_Accumulate(operand.data, N, MPI_INT64_T, 0, 0, 1, every_other, MPI_SUM, win));
    }
    expect_kernels(3, &n_kernels, &n_copies, "MPI_Accumulate on elements with holes");
    MTEST_OK(MPI_Get_accumulate(operand.data, N, MPI_INT64_T, result.data, N, MPI_INT64_T, 0, 0, 1,
                                every_other, MPI_SUM, win));
    expect_kernels(3, &n_kernels, &n_copies, "MPI_Get_accumulate on elements with holes");
    MTEST_OK(MPI_Accumulate(operand.data, 1, every_other, 0, 0, 1, every_other, MPI_BXOR, win));
    expect_kernels(4, &n_kernels, &n_copies, "MPI_Accumulate from and on elements with holes");
    MTEST_OK(MPI_Accumulate(operand.data, 1, every_other, 0, 0, 1, every_other, MPI_REPLACE, win));
    MTEST_CHECK(fakecuda_calls("cuLaunchKernel") - n_kernels <= 3 && count_copies() == n_copies,
                "MPI_REPLACE on elements with holes: %d kernels, %d copies",
                fakecuda_calls("cuLaunchKernel") - n_kernels, count_copies() - n_copies);
    n_copies = count_copies();
    MTEST_OK(MPI_Accumulate(pairs, N / 2, MPI_DOUBLE_INT, 0, 0, N / 2, MPI_DOUBLE_INT, MPI_MAXLOC, win));
    MTEST_CHECK(count_copies() - n_copies < 10, "pairs: %d copies", count_copies() - n_copies);
    MTEST_OK(MPI_Win_unlock(0, win));
    MTEST_OK(MPI_Win_free(&win));
    gtest_free(&window);
    gtest_free(&operand);
    gtest_free(&result);
}

/* Which memory is it? 0: the host's and not CUDA's. */
static unsigned memory_type(const void *memory, unsigned *is_managed_out)
{
    unsigned type = 0;

    *is_managed_out = 0;
    if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)memory) != CUDA_SUCCESS)
        return 0;
    cuPointerGetAttribute(is_managed_out, CU_POINTER_ATTRIBUTE_IS_MANAGED, (CUdeviceptr)memory);
    return type;
}

static const struct {
    const char *kinds;
    unsigned type;
    unsigned is_managed;
} hints[] = {
    {"cuda:device", CU_MEMORYTYPE_DEVICE, 0},
    {"cuda:host", CU_MEMORYTYPE_HOST, 0},
    {"cuda:managed", 0, 1},
    {"unknown:kind,cuda,system", CU_MEMORYTYPE_DEVICE, 0},
    {"system,cuda:device", 0, 0},
    {"unknown:kind", 0, 0},
};
enum { HINTS = sizeof hints / sizeof hints[0] };

static void check_kind(const void *memory, int hint, const char *call)
{
    unsigned is_managed, type = memory_type(memory, &is_managed);

    MTEST_CHECK(is_managed == hints[hint].is_managed && (is_managed || type == hints[hint].type),
                "%s with %s: memory type %u, managed: %u", call, hints[hint].kinds, type, is_managed);
}

/* Memory that MPI gives is of the kind that the hint names, and works as a window and in messages. */
static void allocate(int hint)
{
    int64_t value = mtest_rank + 1, got = -1;
    MPI_Info info;
    MPI_Win win;
    void *memory;

    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_memory_alloc_kinds", hints[hint].kinds);
    MTEST_OK(MPI_Alloc_mem(1000, info, &memory));
    check_kind(memory, hint, "MPI_Alloc_mem");
    MTEST_OK(MPI_Sendrecv(&value, 1, MPI_INT64_T, next, 1, memory, 1, MPI_INT64_T, previous, 1,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Sendrecv(memory, 1, MPI_INT64_T, previous, 2, &got, 1, MPI_INT64_T, next, 2, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
    MTEST_CHECK(got == value, "through MPI_Alloc_mem's memory came %lld", (long long)got);
    MTEST_OK(MPI_Free_mem(memory));
    /* Only rank 0 asks for it: the others' memory is the host's. */
    for (int all = 0; all < 2; all++) {
        MTEST_OK(MPI_Win_allocate(800, 8, all || mtest_rank == 0 ? info : MPI_INFO_NULL, MPI_COMM_WORLD,
                                  &memory, &win));
        if (all || mtest_rank == 0)
            check_kind(memory, hint, "MPI_Win_allocate");
        MTEST_OK(MPI_Win_fence(0, win));
        MTEST_OK(MPI_Put(&value, 1, MPI_INT64_T, next, 7, 1, MPI_INT64_T, win));
        MTEST_OK(MPI_Win_fence(0, win));
        MTEST_OK(MPI_Accumulate(&value, 1, MPI_INT64_T, next, 7, 1, MPI_INT64_T, MPI_SUM, win));
        MTEST_OK(MPI_Win_fence(0, win));
        MTEST_OK(MPI_Get(&got, 1, MPI_INT64_T, next, 7, 1, MPI_INT64_T, win));
        MTEST_OK(MPI_Win_fence(0, win));
        MTEST_CHECK(got == 2 * value, "in the window of kind %s is %lld", hints[hint].kinds, (long long)got);
        MTEST_OK(MPI_Win_free(&win));
    }
    MPI_Info_free(&info);
}

/* CUDA's kinds are listed before the program's first call of CUDA. */
static void check_listed(void)
{
    char kinds[MPI_MAX_INFO_VAL] = "";
    int length = sizeof kinds, has_kinds;

    MTEST_OK(MPI_Info_get_string(MPI_INFO_ENV, "mpi_memory_alloc_kinds", &length, kinds, &has_kinds));
    MTEST_CHECK(strcmp(kinds, "mpi,system,cuda,cuda:device,cuda:host,cuda:managed") == 0, "the kinds are %s",
                kinds);
}

int main(int argc, char **argv)
{
    MPI_Datatype every_other;

    mtest_init(&argc, &argv, 1);
    check_listed();
    gtest_init();
    next = (mtest_rank + 1) % mtest_size;
    previous = (mtest_rank + mtest_size - 1) % mtest_size;
    MPI_Type_vector(N, 1, 2, MPI_INT64_T, &every_other);
    MPI_Type_commit(&every_other);
    for (int at = 0; at < GTEST_PLACES; at++)
        for (int from = 0; from < GTEST_PLACES; from++) {
            move((enum gtest_place)at, (enum gtest_place)from, every_other, 0);
            move((enum gtest_place)at, (enum gtest_place)from, every_other, 1);
            fetch((enum gtest_place)at, (enum gtest_place)from);
            fetch_many((enum gtest_place)at, (enum gtest_place)from, every_other, 0);
            fetch_many((enum gtest_place)at, (enum gtest_place)from, every_other, 1);
        }
    if (fakecuda_is_here() && mtest_size == 1) { /* others' calls would be counted, too */
        fetch_by_kernels(GTEST_HOST);
        fetch_by_kernels(GTEST_GPU0);
        combine_holes_by_kernels(every_other);
    }
    MPI_Type_free(&every_other);
    gtest_select(GTEST_GPU0);
    for (int hint = 0; hint < HINTS; hint++)
        allocate(hint);
    return mtest_end();
}
