/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that the kernels pack and unpack random types on a GPU, from any offset and of any length, to the
 * same bytes as the CPU's cursor, and leave all other bytes unchanged.
 *
 * HEDDLE_GPU_TYPES (default 400) is the number of types. On the fake CUDA driver, or with LD_LIBRARY_PATH on
 * a real one.
 */
#include <string.h>

#include "ampi/datatype/gpu_data.h"
#include "gpu/copy/gpu_pack.h"
#include "gpu/copy/queue.h"
#include "gpu_device.h"
#include "gpu_types.h"

#define SPAN (1 << 19) /* bytes around the buffer's address that types stay in */
#define SMALL_SPAN (1 << 15)

static char *memory, *flat; /* of the device: SPAN bytes with the buffer in the middle; packed data */
static char host[SPAN], expected[SPAN], seen[SPAN], packed[SPAN], packed_seen[SPAN];
static struct gpu_queue *queue;

/* ---- Checks ---- */

static void check_pack(const struct gpu_data *data, struct ampi_cursor *cursor, size_t offset, size_t n)
{
    size_t shift = (size_t)random_in(0, 3) * (size_t)random_in(0, 5); /* packed data at odd places as well */

    ampi_cursor_seek(cursor, (MPI_Count)offset);
    ULT_CHECK(ampi_cursor_pack(cursor, packed, n) == n);
    ULT_CHECK(gpu_pack_launch(queue, data, offset, n, flat + shift) == 0);
    ULT_CHECK(gpu_queue_spin(queue) == 0);
    device_read(packed_seen, flat + shift, n);
    ULT_CHECK(memcmp(packed, packed_seen, n) == 0);
}

/* Data may only be unpacked where no two elements overlap, or have the same bytes. */
static void check_unpack(const struct gpu_data *data, const struct ampi_type *type, size_t offset, size_t n)
{
    struct ampi_cursor cursor;

    random_fill(packed, n);
    memcpy(expected, host, SPAN);
    ampi_cursor_init(&cursor, expected + SPAN / 2, data->count, type);
    ampi_cursor_seek(&cursor, (MPI_Count)offset);
    ULT_CHECK(ampi_cursor_unpack(&cursor, packed, n) == n);
    ampi_cursor_seek(&cursor, (MPI_Count)offset);
    ampi_cursor_pack(&cursor, packed_seen, n);
    if (memcmp(packed, packed_seen, n) != 0)
        return;
    device_write(flat, packed, n);
    ULT_CHECK(gpu_unpack_launch(queue, data, offset, n, flat) == 0);
    ULT_CHECK(gpu_queue_spin(queue) == 0);
    device_read(seen, memory, SPAN);
    ULT_CHECK(memcmp(expected, seen, SPAN) == 0);
    device_write(memory, host, SPAN);
}

static void check_type(const struct ampi_type *type, int64_t count)
{
    struct gpu_data data = ampi_type_gpu_data(memory + SPAN / 2, count, type);
    struct ampi_cursor cursor;

    ampi_cursor_init(&cursor, host + SPAN / 2, count, type);
    check_pack(&data, &cursor, 0, data.size_bytes);
    for (int i = 0; i < 3 && data.size_bytes; i++) {
        size_t offset = (size_t)random_in(0, (int64_t)data.size_bytes - 1);
        size_t n = (size_t)random_in(1, (int64_t)(data.size_bytes - offset));
        check_pack(&data, &cursor, offset, n);
        if (i == 0)
            check_unpack(&data, type, offset, n);
    }
    check_unpack(&data, type, 0, data.size_bytes);
}

static void prepare(void)
{
    int error = 0;

    device_open();
    memory = device_alloc(SPAN);
    flat = device_alloc(SPAN + 64);
    random_fill(host, SPAN);
    device_write(memory, host, SPAN);
    queue = gpu_queue_of(0, GPU_STREAM_KERNELS, &error);
    ULT_CHECK(queue != NULL && gpu_has_kernels());
}

static void random_types(struct ampi_rank *self)
{
    const char *wanted = getenv("HEDDLE_GPU_TYPES");
    long n_types = wanted ? atol(wanted) : 400;
    MPI_Datatype pool[TYPES_POOL], made;

    prepare();
    types_fill(pool);
    for (long i = 0; i < n_types && !atomic_load(&job.n_wrong); i++) {
        int64_t count = random_bits() % 2 ? 1 : random_in(1, 5);
        made = random_type(pool);
        MPI_Type_commit(&made);
        if (fits(ampi_type_of(made), count, SMALL_SPAN)) {
            int slot = (int)random_in(6, TYPES_POOL - 1);
            check_type(ampi_type_of(made), count);
            if (atomic_load(&job.n_wrong))
                printf("type %ld is wrong\n", i);
            MPI_Type_free(&pool[slot]);
            pool[slot] = made;
        } else {
            MPI_Type_free(&made);
        }
    }
    types_free(pool);
}

START_TEST(random_types_are_packed_as_by_the_cpu)
{
    mpi_job_start(1, 1, random_types);
}
END_TEST

/* The shapes that have a kernel of their own, in all sizes of blocks and alignments. */
static void vectors(struct ampi_rank *self)
{
    prepare();
    for (int block = 1; block <= 48; block += block < 9 ? 1 : 13) {
        for (int stride = block; stride <= 64; stride += 7) {
            MPI_Datatype made;
            MPI_Type_create_hvector(SPAN / 4 / stride, block, stride, MPI_CHAR, &made);
            MPI_Type_commit(&made);
            check_type(ampi_type_of(made), 1);
            MPI_Type_free(&made);
        }
    }
}

START_TEST(vectors_are_packed_as_by_the_cpu)
{
    mpi_job_start(1, 1, vectors);
}
END_TEST

/* A program that does not fit into a kernel's arguments goes to the GPU's memory, and is freed with its
 * type. */
static void long_table(struct ampi_rank *self)
{
    enum { N = 3000 };
    static int lens[N], disps[N];
    MPI_Datatype made;

    prepare();
    for (int round = 0; round < 3; round++) {
        for (int i = 0, at = -20000; i < N; i++) {
            lens[i] = 1 + (i * 7 + round) % 4;
            disps[i] = at;
            at += lens[i] + (i * 5) % 3;
        }
        MPI_Type_indexed(N, lens, disps, MPI_INT, &made);
        MPI_Type_commit(&made);
        ULT_CHECK(ampi_type_of(made)->map->n_words > 512);
        check_type(ampi_type_of(made), 1);
        check_type(ampi_type_of(made), 2);
        MPI_Type_free(&made);
    }
}

START_TEST(long_tables_are_packed_as_by_the_cpu)
{
    mpi_job_start(1, 1, long_table);
}
END_TEST

/* Structs of small blocks of odd sizes, a few and many to a chunk of the kernel; and layouts without a table, long
 * blocks of odd sizes, which a program describes. */
static void check_struct(int n_chars, int n_elements, int n_rows)
{
    int lens[4] = {n_chars, 1, 1, n_chars + 2};
    MPI_Aint disps[4] = {0, 32, 40, 48};
    MPI_Datatype types[4] = {MPI_CHAR, MPI_DOUBLE, MPI_INT, MPI_CHAR}, one, sized, row, made;

    MPI_Type_create_struct(4, lens, disps, types, &one);
    MPI_Type_create_resized(one, 0, 80, &sized);
    MPI_Type_contiguous(n_elements, sized, &row);
    MPI_Type_create_hvector(n_rows, 1, (MPI_Aint)n_elements * 80 + 96, row, &made);
    MPI_Type_commit(&made);
    check_type(ampi_type_of(made), 1);
    MPI_Type_free(&made);
    MPI_Type_free(&row);
    MPI_Type_free(&sized);
    MPI_Type_free(&one);
}

static void check_chars(int from, int to)
{
    enum { N = 90 };
    int lens[N], disps[N], at = -150000;
    MPI_Datatype made;

    for (int i = 0; i < N; i++) {
        lens[i] = (int)random_in(from, to);
        disps[i] = at;
        at += lens[i] + (int)random_in(1, 300);
    }
    MPI_Type_indexed(N, lens, disps, MPI_CHAR, &made);
    MPI_Type_commit(&made);
    check_type(ampi_type_of(made), 1);
    MPI_Type_free(&made);
}

/* Long blocks in a loop: they have a table, which is too slow for them. */
static void check_long(void)
{
    MPI_Datatype body, made;

    MPI_Type_indexed(2, (int[]){131, 203}, (int[]){0, 140}, MPI_CHAR, &body);
    MPI_Type_create_hvector(600, 1, 350, body, &made);
    MPI_Type_commit(&made);
    check_type(ampi_type_of(made), 1);
    MPI_Type_free(&made);
    MPI_Type_free(&body);
}

static void odd_blocks(struct ampi_rank *self)
{
    prepare();
    check_long();
    check_struct(1, 2500, 1);
    check_struct(1, 1, 700);
    check_struct(3, 30, 60);
    check_struct(27, 40, 30);
    check_chars(1, 90);
    check_chars(40, 600);
    check_chars(700, 2700);
}

START_TEST(odd_blocks_are_packed_as_by_the_cpu)
{
    mpi_job_start(1, 1, odd_blocks);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_pack");
    TCase *tcase = tcase_create("pack");

    tcase_set_timeout(tcase, 280);
    tcase_add_test(tcase, random_types_are_packed_as_by_the_cpu);
    tcase_add_test(tcase, vectors_are_packed_as_by_the_cpu);
    tcase_add_test(tcase, long_tables_are_packed_as_by_the_cpu);
    tcase_add_test(tcase, odd_blocks_are_packed_as_by_the_cpu);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
