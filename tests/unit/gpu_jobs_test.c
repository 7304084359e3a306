/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that moves between layouts that start together are one launch, and write what the CPU would: from layout
 * to layout without packed data in between if both fit together, for random types, lengths and skipped bytes;
 * which layouts fit together; how many moves one launch takes; and that a move that fails does not spoil others.
 *
 * HEDDLE_GPU_TYPES (default 300) is the number of rounds. On the fake CUDA driver, or with LD_LIBRARY_PATH on a
 * real one.
 */
#include <string.h>

#include "fakecuda.h"
#include "gpu/copy/jobs.h"
#include "gpu_types.h"

#define AT_ONCE 6
#define SLOT ((size_t)1 << 16) /* bytes of a buffer, with the address in the middle */
#define SPAN (AT_ONCE * SLOT)

static char *from_memory, *to_memory; /* of the device */
static char from_host[SPAN], to_host[SPAN], expected[SPAN], seen[SPAN], packed[SLOT], packed_again[SLOT];

/* ---- Moves that are started together ---- */

struct started {
    struct gpu_move move;
    int error;
};

static struct ult *waiter;
static int n_pending;

static void done(struct gpu_move *move, int error)
{
    BASE_CONTAINER(move, struct started, move)->error = error;
    if (--n_pending == 0)
        ult_ready(waiter);
}

/* Runs all, and returns the number of launches. */
static int run(struct started *list, int n)
{
    int before = fakecuda_is_here() ? fakecuda_calls("cuLaunchKernel") : 0;

    waiter = ult_self();
    n_pending = n;
    for (int i = 0; i < n; i++) {
        list[i].move.done = done;
        gpu_move_start(&list[i].move);
    }
    ult_suspend();
    return fakecuda_is_here() ? fakecuda_calls("cuLaunchKernel") - before : 0;
}

static void set_move(struct started *started, struct gpu_data dst, struct gpu_data src, size_t n_bytes)
{
    *started = (struct started){.error = -1};
    started->move.dst = dst;
    started->move.src = src;
    started->move.n_bytes = n_bytes;
}

static void prepare(size_t n_bytes)
{
    device_open();
    from_memory = device_alloc(n_bytes);
    to_memory = device_alloc(n_bytes);
    random_fill(from_host, SPAN);
    random_fill(to_host, SPAN);
    device_write(from_memory, from_host, SPAN);
    device_write(to_memory, to_host, SPAN);
}

/* ---- Random moves ---- */

struct some_data {
    const struct ampi_type *type;
    MPI_Count count;
};

static bool choose(const MPI_Datatype *pool, struct some_data *out)
{
    out->type = ampi_type_of(pool[random_in(0, TYPES_POOL - 1)]);
    out->count = random_bits() % 2 ? 1 : random_in(1, 5);
    return fits(out->type, out->count, SLOT) && out->type->size_bytes > 0;
}

/* A move in a slot, and its effect on `expected`. false: the destination's blocks overlap. */
static bool make_random(struct started *started, int slot, const MPI_Datatype *pool)
{
    size_t middle = (size_t)slot * SLOT + SLOT / 2, n_bytes, skip = 0;
    struct some_data from, to;
    struct ampi_cursor cursor;

    if (!choose(pool, &from) || !choose(pool, &to))
        return false;
    if (random_bits() % 2) /* equal types */
        to = from;
    else if (random_bits() % 3 == 0) /* consecutive bytes */
        to = (struct some_data){ampi_type_of(MPI_BYTE), random_in(1, (int64_t)SLOT / 2)};
    n_bytes = base_min_u64((uint64_t)(from.count * from.type->size_bytes),
                           (uint64_t)(to.count * to.type->size_bytes));
    if (random_bits() % 4 == 0)
        skip = (size_t)random_in(0, (int64_t)n_bytes - 1);
    if (random_bits() % 4 == 0)
        n_bytes = (size_t)random_in((int64_t)skip + 1, (int64_t)n_bytes);
    n_bytes -= skip;
    ampi_cursor_init(&cursor, from_host + middle, from.count, from.type);
    ampi_cursor_seek(&cursor, (MPI_Count)skip);
    ULT_CHECK(ampi_cursor_pack(&cursor, packed, n_bytes) == n_bytes);
    ampi_cursor_init(&cursor, expected + middle, to.count, to.type);
    ampi_cursor_seek(&cursor, (MPI_Count)skip);
    ULT_CHECK(ampi_cursor_unpack(&cursor, packed, n_bytes) == n_bytes);
    ampi_cursor_seek(&cursor, (MPI_Count)skip);
    ampi_cursor_pack(&cursor, packed_again, n_bytes);
    if (memcmp(packed, packed_again, n_bytes) != 0) {
        memcpy(expected + (size_t)slot * SLOT, to_host + (size_t)slot * SLOT, SLOT);
        return false;
    }
    set_move(started, ampi_type_gpu_data(to_memory + middle, to.count, to.type),
             ampi_type_gpu_data(from_memory + middle, from.count, from.type), n_bytes);
    started->move.src_skip_bytes = started->move.dst_skip_bytes = skip;
    return true;
}

static void random_round(const MPI_Datatype *pool)
{
    struct started list[AT_ONCE];
    int n = 0;

    memcpy(expected, to_host, SPAN);
    for (int slot = 0; slot < AT_ONCE; slot++)
        n += make_random(&list[n], slot, pool);
    if (n == 0)
        return;
    run(list, n);
    for (int i = 0; i < n; i++)
        ULT_CHECK(list[i].error == 0);
    device_read(seen, to_memory, SPAN);
    ULT_CHECK(memcmp(seen, expected, SPAN) == 0);
    device_write(to_memory, to_host, SPAN);
}

static void random_moves(struct ampi_rank *self)
{
    const char *wanted = getenv("HEDDLE_GPU_TYPES");
    long n_rounds = wanted ? atol(wanted) : 300;
    MPI_Datatype pool[TYPES_POOL];

    prepare(SPAN);
    types_fill(pool);
    for (long i = 0; i < n_rounds && !atomic_load(&job.n_wrong); i++) {
        MPI_Datatype made = random_type(pool);
        MPI_Type_commit(&made);
        if (fits(ampi_type_of(made), 1, SLOT / 2)) {
            int slot = (int)random_in(6, TYPES_POOL - 1);
            MPI_Type_free(&pool[slot]);
            pool[slot] = made;
        } else {
            MPI_Type_free(&made);
        }
        random_round(pool);
        if (atomic_load(&job.n_wrong))
            printf("round %ld is wrong\n", i);
    }
    types_free(pool);
}

START_TEST(random_moves_write_what_the_cpu_would)
{
    mpi_job_start(1, 1, random_moves);
}
END_TEST

/* ---- Layouts that fit together ---- */

static size_t unit_of(MPI_Datatype to, MPI_Datatype from)
{
    struct gpu_data to_data = ampi_type_gpu_data((char *)4096, 1, ampi_type_of(to));
    struct gpu_data from_data = ampi_type_gpu_data((char *)8192, 1, ampi_type_of(from));
    struct gpu_job_side to_side = {0}, from_side = {0};

    ULT_CHECK(gpu_box_of_data(&to_data, &to_side.box) && gpu_box_of_data(&from_data, &from_side.box));
    return gpu_jobs_unit(&to_side, &from_side, base_min_u64(to_data.size_bytes, from_data.size_bytes));
}

/* The types of a test, which uses most of them without naming them. */
static MPI_Datatype of_test[128];
static int n_of_test;

static MPI_Datatype commit(MPI_Datatype type)
{
    ULT_CHECK(n_of_test < (int)BASE_COUNT(of_test));
    MPI_Type_commit(&type);
    return of_test[n_of_test++] = type;
}

static void free_types(void)
{
    while (n_of_test > 0)
        MPI_Type_free(&of_test[--n_of_test]);
}

static MPI_Datatype face(int d, int edge, int thick)
{
    int sizes[3] = {edge, edge, edge}, subsizes[3] = {edge - 2, edge - 2, edge - 2}, starts[3] = {1, 1, 1};
    MPI_Datatype made;

    subsizes[d] = thick;
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &made);
    return commit(made);
}

static MPI_Datatype table(int first)
{
    int lengths[3] = {1, 2, 1}, places[3] = {0, first, 9};
    MPI_Datatype made;

    MPI_Type_indexed(3, lengths, places, MPI_DOUBLE, &made);
    return commit(made);
}

static MPI_Datatype vector(int n, int length, int stride)
{
    MPI_Datatype made;

    MPI_Type_vector(n, length, stride, MPI_DOUBLE, &made);
    return commit(made);
}

static void fitting(struct ampi_rank *self)
{
    MPI_Datatype bytes, table_of_others;
    int places[4] = {0, 3, 4, 9};

    MPI_Type_contiguous(1 << 16, MPI_BYTE, &bytes);
    commit(bytes);
    for (int d = 0; d < 3; d++) {
        ULT_CHECK(unit_of(face(d, 34, 1), face(d, 34, 1)) == 8);
        ULT_CHECK(unit_of(face(d, 34, 1), face(d, 66, 1)) == 8);
        ULT_CHECK(unit_of(face(d, 34, 2), bytes) == 8);
        ULT_CHECK(unit_of(bytes, face(d, 18, 1)) == 8);
    }
    ULT_CHECK(unit_of(face(2, 34, 1), face(0, 34, 1)) == 8); /* 32 doubles of a row divide evenly */
    ULT_CHECK(unit_of(vector(32, 4, 6), vector(16, 8, 12)) == 16);
    ULT_CHECK(unit_of(vector(32, 4, 6), vector(16, 6, 12)) == 0); /* blocks of 32 and of 48 bytes do not */
    ULT_CHECK(unit_of(table(3), table(3)) == 8);
    ULT_CHECK(unit_of(table(3), table(5)) == 8); /* equal sizes, other places */
    ULT_CHECK(unit_of(table(3), bytes) == 8);
    ULT_CHECK(unit_of(vector(9, 4, 5), table(3)) == 8); /* a block for each table */
    ULT_CHECK(unit_of(vector(9, 2, 5), table(3)) == 0); /* two blocks for each */
    MPI_Type_create_indexed_block(4, 1, places, MPI_DOUBLE_INT, &table_of_others);
    commit(table_of_others);
    ULT_CHECK(unit_of(table_of_others, table_of_others) == 4);
    ULT_CHECK(unit_of(table_of_others, table(3)) == 0);
    free_types();
}

START_TEST(layouts_fit_together_if_their_blocks_divide_evenly)
{
    mpi_job_start(1, 1, fitting);
}
END_TEST

/* ---- Launches ---- */

#define FACES 300

static struct started faces[FACES];

/* Moves of a layout to the same one, or to consecutive bytes, in buffers that they share: the values do not
 * matter. */
static void make_faces(int n, MPI_Datatype to, MPI_Datatype from)
{
    for (int i = 0; i < n; i++) {
        struct gpu_data src = ampi_type_gpu_data(from_memory, 1, ampi_type_of(from));
        struct gpu_data dst = ampi_type_gpu_data(to_memory, 1, ampi_type_of(to));
        set_move(&faces[i], dst, src, base_min_u64(src.size_bytes, dst.size_bytes));
    }
}

static void check_errors(int n, int wrong, int error)
{
    for (int i = 0; i < n; i++)
        ULT_CHECK(faces[i].error == (i == wrong ? error : 0));
}

static void launches(struct ampi_rank *self)
{
    MPI_Datatype bytes, one = face(2, 10, 1);

    if (!fakecuda_is_here())
        return;
    prepare((size_t)4 << 20);
    MPI_Type_contiguous(64 * 8, MPI_BYTE, &bytes);
    commit(bytes);
    make_faces(26, one, one);
    ULT_CHECK(run(faces, 26) == 1);
    check_errors(26, -1, 0);
    make_faces(1, one, one); /* without packed data in between */
    ULT_CHECK(run(faces, 1) == 1);
    make_faces(26, bytes, one); /* all are packed together */
    ULT_CHECK(run(faces, 26) == 1);
    make_faces(26, one, bytes);
    ULT_CHECK(run(faces, 26) == 1);
    make_faces(2, one, one); /* a block beside layouts */
    set_move(&faces[2], gpu_bytes(to_memory + 8192, 100000), gpu_bytes(from_memory + 8192, 100000), 100000);
    ULT_CHECK(run(faces, 3) == 1);
    make_faces(FACES, one, one); /* 121 for each launch */
    ULT_CHECK(run(faces, FACES) == 3);
    check_errors(FACES, -1, 0);
    for (int i = 0; i < 26; i++) { /* a type for each: two launches have room for so many shapes */
        struct gpu_data data = ampi_type_gpu_data(from_memory, 1, ampi_type_of(vector(4, 1 + i, 40)));
        struct gpu_data other = ampi_type_gpu_data(to_memory, 1, ampi_type_of(vector(4, 1 + i, 40)));
        set_move(&faces[i], other, data, data.size_bytes);
    }
    ULT_CHECK(run(faces, 26) == 2);
    make_faces(2, vector(20000, 8, 10), vector(20000, 8, 10)); /* each more than 1 MiB */
    ULT_CHECK(run(faces, 2) == 2);
    check_errors(2, -1, 0);
    free_types();
}

START_TEST(moves_that_start_together_are_one_launch)
{
    mpi_job_start(1, 1, launches);
}
END_TEST

static void failures(struct ampi_rank *self)
{
    MPI_Datatype one = face(1, 10, 1);
    char *freed;

    if (!fakecuda_is_here())
        return;
    prepare((size_t)1 << 20);
    freed = device_alloc(1 << 20);
    make_faces(5, one, one);
    ULT_CHECK(run(faces, 5) == 1);
    faces[3].move.dst.buf = freed;
    ULT_CHECK(run(faces, 5) == 1);
    check_errors(5, -1, 0);
    ULT_CHECK(cuMemFree((CUdeviceptr)freed) == CUDA_SUCCESS);
    make_faces(5, one, one);
    faces[3].move.dst.buf = freed;
    ULT_CHECK(run(faces, 5) == 1);
    check_errors(5, 3, CUDA_ERROR_INVALID_VALUE);
    ULT_CHECK(faces[3].move.is_dst_missing && !faces[2].move.is_dst_missing);
    make_faces(5, one, one); /* if the launch of all fails, some start on their own */
    fakecuda_fail("cuLaunchKernel", 1, CUDA_ERROR_UNKNOWN);
    ULT_CHECK(run(faces, 5) > 1);
    check_errors(5, -1, 0);
    free_types();
}

START_TEST(a_move_that_fails_does_not_spoil_others)
{
    mpi_job_start(1, 1, failures);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_jobs");
    TCase *tcase = tcase_create("jobs");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, random_moves_write_what_the_cpu_would);
    tcase_add_test(tcase, layouts_fit_together_if_their_blocks_divide_evenly);
    tcase_add_test(tcase, moves_that_start_together_are_one_launch);
    tcase_add_test(tcase, a_move_that_fails_does_not_spoil_others);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
