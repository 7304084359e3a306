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
#include "gpu/gpu_pack.h"
#include "gpu/queue.h"
#include "gpu_device.h"
#include "mpi_job.h"

#define SPAN (1 << 19) /* bytes around the buffer's address that types stay in */
#define SMALL_SPAN (1 << 15)
#define POOL 24

static char *memory, *flat; /* of the device: SPAN bytes with the buffer in the middle; packed data */
static char host[SPAN], expected[SPAN], seen[SPAN], packed[SPAN], packed_seen[SPAN];
static struct gpu_queue *queue;

/* ---- Random types ---- */

static MPI_Datatype random_struct(const MPI_Datatype *pool)
{
    int n = (int)random_in(1, 6), lens[6];
    MPI_Aint disps[6];
    MPI_Datatype types[6], made;

    for (int i = 0; i < n; i++) {
        lens[i] = (int)random_in(0, 3);
        disps[i] = random_in(-40, 200) * (random_bits() & 1 ? 1 : 4);
        types[i] = pool[random_in(0, POOL - 1)];
    }
    MPI_Type_create_struct(n, lens, disps, types, &made);
    return made;
}

static MPI_Datatype random_table(MPI_Datatype child)
{
    int n = (int)(random_bits() % 8 ? random_in(1, 20) : random_in(200, 700)), lens[700], disps[700], at = 0;
    MPI_Datatype made;

    for (int i = 0; i < n; i++) {
        lens[i] = (int)random_in(1, 3);
        disps[i] = at;
        at += lens[i] + (int)random_in(0, 3);
    }
    if (random_bits() & 1)
        MPI_Type_indexed(n, lens, disps, child, &made);
    else
        MPI_Type_create_indexed_block(n, 1, disps, child, &made);
    return made;
}

static MPI_Datatype random_subarray(MPI_Datatype child)
{
    int n = (int)random_in(1, 4), sizes[4], subsizes[4], starts[4];
    MPI_Datatype made;

    for (int d = 0; d < n; d++) {
        sizes[d] = (int)random_in(1, 7);
        subsizes[d] = (int)random_in(1, sizes[d]);
        starts[d] = (int)random_in(0, sizes[d] - subsizes[d]);
    }
    MPI_Type_create_subarray(n, sizes, subsizes, starts, MPI_ORDER_C, child, &made);
    return made;
}

static MPI_Datatype random_type(const MPI_Datatype *pool)
{
    MPI_Datatype child = pool[random_in(0, POOL - 1)], made;
    MPI_Aint lb, extent;

    switch (random_bits() % 6) {
    case 0:
        MPI_Type_vector((int)random_in(1, 9), (int)random_in(1, 4), (int)random_in(-6, 8), child, &made);
        break;
    case 1:
        MPI_Type_create_hvector((int)random_in(1, 40), 1, random_in(-100, 100), child, &made);
        break;
    case 2:
        made = random_table(child);
        break;
    case 3:
        made = random_subarray(child);
        break;
    case 4:
        made = random_struct(pool);
        break;
    default:
        MPI_Type_get_extent(child, &lb, &extent);
        MPI_Type_create_resized(child, random_in(-8, 8), extent + random_in(-4, 24), &made);
    }
    return made;
}

/* True if count elements stay within bounds. */
static bool fits(const struct ampi_type *type, int64_t count, int64_t span)
{
    int64_t last = (count - 1) * type->extent_bytes;
    int64_t low = type->true_lb_bytes + (last < 0 ? last : 0);
    int64_t high = type->true_lb_bytes + type->true_extent_bytes + (last > 0 ? last : 0);

    return low >= -span / 2 && high <= span / 2 && count * type->size_bytes <= span;
}

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
    static const MPI_Datatype basics[] = {MPI_CHAR,     MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_C_DOUBLE_COMPLEX,
                                          MPI_SHORT_INT};
    const char *wanted = getenv("HEDDLE_GPU_TYPES");
    long n_types = wanted ? atol(wanted) : 400;
    MPI_Datatype pool[POOL], made;

    prepare();
    for (int i = 0; i < POOL; i++)
        MPI_Type_dup(basics[(size_t)i % BASE_COUNT(basics)], &pool[i]);
    for (long i = 0; i < n_types && !atomic_load(&job.n_wrong); i++) {
        int64_t count = random_bits() % 2 ? 1 : random_in(1, 5);
        made = random_type(pool);
        MPI_Type_commit(&made);
        if (fits(ampi_type_of(made), count, SMALL_SPAN)) {
            int slot = (int)random_in(6, POOL - 1);
            check_type(ampi_type_of(made), count);
            if (atomic_load(&job.n_wrong))
                printf("type %ld is wrong\n", i);
            MPI_Type_free(&pool[slot]);
            pool[slot] = made;
        } else {
            MPI_Type_free(&made);
        }
    }
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

int main(void)
{
    Suite *suite = suite_create("gpu_pack");
    TCase *tcase = tcase_create("pack");

    tcase_set_timeout(tcase, 280);
    tcase_add_test(tcase, random_types_are_packed_as_by_the_cpu);
    tcase_add_test(tcase, vectors_are_packed_as_by_the_cpu);
    tcase_add_test(tcase, long_tables_are_packed_as_by_the_cpu);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
