/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pack: packing and unpacking on a GPU, in percent of the speed of a copy of the same number of consecutive
 * bytes there, for 64 MiB of packed data. Medians of 20 alternating calls and copies, waits included.
 *
 * usage: pack -B 0
 * prints: gpu_pack.LAYOUT value %, gpu_unpack.LAYOUT value %, gpu_pack_rate.LAYOUT value GB/s
 * layouts: vecB, blocks of B bytes at twice their distance; struct, {char, double, int} with its gaps; struct8,
 * {double, gap, double, double, gap}; plane, a plane of a three-dimensional array of doubles; index, single
 * doubles at irregular places; indexed, blocks of 1 to 4 doubles at irregular distances
 */
#include <mpi.h>

#include "../bench_buffer.h"

#define PACKED_BYTES ((size_t)64 << 20)
#define TURNS 20

static int (*copy_async)(unsigned long long to, unsigned long long from, size_t n_bytes, void *stream);

static MPI_Datatype make_vector(int block)
{
    MPI_Datatype type;

    MPI_Type_vector((int)(PACKED_BYTES / (size_t)block), block, 2 * block, MPI_BYTE, &type);
    return type;
}

static MPI_Datatype make_struct(void)
{
    int lens[3] = {1, 1, 1};
    MPI_Aint disps[3] = {0, 8, 16};
    MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, one, sized, type;

    MPI_Type_create_struct(3, lens, disps, types, &one);
    MPI_Type_create_resized(one, 0, 24, &sized);
    MPI_Type_contiguous((int)(PACKED_BYTES / 13), sized, &type);
    MPI_Type_free(&one);
    MPI_Type_free(&sized);
    return type;
}

static MPI_Datatype make_struct8(void)
{
    int lens[2] = {1, 2};
    MPI_Aint disps[2] = {0, 16};
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_DOUBLE}, one, sized, type;

    MPI_Type_create_struct(2, lens, disps, types, &one);
    MPI_Type_create_resized(one, 0, 40, &sized);
    MPI_Type_contiguous((int)(PACKED_BYTES / 24), sized, &type);
    MPI_Type_free(&one);
    MPI_Type_free(&sized);
    return type;
}

static MPI_Datatype make_plane(void)
{
    int n = (int)(PACKED_BYTES / (8 * 16 * 8)), sizes[3] = {n, 16, 32}, subsizes[3] = {n, 8, 16};
    int starts[3] = {0, 4, 8};
    MPI_Datatype type;

    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    return type;
}

static MPI_Datatype make_index(void)
{
    int n = (int)(PACKED_BYTES / 8), *places = malloc((size_t)n * sizeof *places);
    unsigned state = 1;
    MPI_Datatype type;

    for (int i = 0; i < n; i++) {
        state = state * 1103515245u + 12345u;
        places[i] = (int)(2 * i + (int)(state >> 16) % 2);
    }
    MPI_Type_create_indexed_block(n, 1, places, MPI_DOUBLE, &type);
    free(places);
    return type;
}

static MPI_Datatype make_indexed(void)
{
    int most = (int)(PACKED_BYTES / 8), n = 0, at = 0, n_left = most;
    int *places = malloc((size_t)most * sizeof *places), *lens = malloc((size_t)most * sizeof *lens);
    unsigned state = 1;
    MPI_Datatype type;

    while (n_left > 0) {
        state = state * 1103515245u + 12345u;
        lens[n] = 1 + (int)(state >> 16) % 4;
        lens[n] = lens[n] < n_left ? lens[n] : n_left;
        places[n] = at;
        at += lens[n] + 1 + (int)(state >> 24) % 3;
        n_left -= lens[n++];
    }
    MPI_Type_indexed(n, lens, places, MPI_DOUBLE, &type);
    free(places);
    free(lens);
    return type;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
    return values[n / 2];
}

static void measure(const struct bench_buffers *buffers, const char *name, MPI_Datatype type, char *strided,
                    char *packed, char *other)
{
    double calls[TURNS], copies[TURNS], begin;
    int size;

    MPI_Type_commit(&type);
    MPI_Type_size(type, &size);
    for (int is_pack = 1; is_pack >= 0; is_pack--) {
        for (int i = -3; i < TURNS; i++) {
            int position = 0;
            begin = MPI_Wtime();
            if (is_pack)
                MPI_Pack(strided, 1, type, packed, size, &position, MPI_COMM_SELF);
            else
                MPI_Unpack(packed, size, &position, strided, 1, type, MPI_COMM_SELF);
            if (i >= 0)
                calls[i] = MPI_Wtime() - begin;
            begin = MPI_Wtime();
            bench_driver_check(copy_async((uintptr_t)other, (uintptr_t)packed, (size_t)size, NULL), "copy");
            bench_driver_check(buffers->driver.synchronize(), "cuCtxSynchronize");
            if (i >= 0)
                copies[i] = MPI_Wtime() - begin;
        }
        printf("gpu_%s.%s %.1f %%\n", is_pack ? "pack" : "unpack", name,
               100 * median(copies, TURNS) / median(calls, TURNS));
        printf("gpu_%s_rate.%s %.0f GB/s\n", is_pack ? "pack" : "unpack", name,
               size / median(calls, TURNS) / 1e9);
    }
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    static const int blocks[] = {4, 8, 16, 24, 64, 256, 4096};
    struct bench_buffers buffers;
    char *strided, *packed, *other, name[32];
    void *symbol;

    MPI_Init(&argc, &argv);
    buffers = bench_buffers_init(argc, argv);
    if (buffers.device < 0)
        bench_fail("pack measures packing on a GPU: say which (-B 0)");
    symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpyDtoDAsync_v2");
    memcpy(&copy_async, &symbol, sizeof symbol);
    strided = (char *)bench_buffer_alloc(&buffers, 4 * PACKED_BYTES, 1);
    packed = (char *)bench_buffer_alloc(&buffers, PACKED_BYTES, 2);
    other = (char *)bench_buffer_alloc(&buffers, PACKED_BYTES, 3);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        snprintf(name, sizeof name, "vec%d", blocks[i]);
        measure(&buffers, name, make_vector(blocks[i]), strided, packed, other);
    }
    measure(&buffers, "struct", make_struct(), strided, packed, other);
    measure(&buffers, "struct8", make_struct8(), strided, packed, other);
    measure(&buffers, "plane", make_plane(), strided, packed, other);
    measure(&buffers, "index", make_index(), strided, packed, other);
    measure(&buffers, "indexed", make_indexed(), strided, packed, other);
    bench_buffer_free(&buffers, strided);
    bench_buffer_free(&buffers, packed);
    bench_buffer_free(&buffers, other);
    MPI_Finalize();
    return 0;
}
