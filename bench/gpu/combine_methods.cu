/* SPDX-License-Identifier: BSD-3-Clause
 *
 * combine_methods: ways in which two GPUs combine two vectors of floats into both of them (an allreduce), and
 * several vectors of each GPU, with the kernels' own source: submission until the CPU knows, without MPI.
 *
 *      nvcc -std=c++17 -O2 -fmad=false -arch=sm_90 -I src bench/gpu/combine_methods.cu -o combine_methods -lcuda
 *      ./combine_methods [GPU GPU]
 *
 * The results are in src/ampi/coll/device/device_reduce.c.
 */
#include <algorithm>
#include <functional>
#include <vector>

#include "combine.cuh"
#include "measure.cuh"

typedef void (*kernel_fn)(struct gpu_kernel_combine);
struct variant {
    int flight, threads, blocks;
};
static kernel_fn kernel_of(int flight)
{
    return flight == 1 ? combine_kernel<1, 1024> : flight == 2 ? combine_kernel<2, 1024> : flight == 4 ? combine_kernel<4, 1024> : combine_kernel<8, 1024>;
}

/* The cost of a kernel's arguments, by size. */
template <int n>
struct words {
    uint64_t word[n];
};
template <int n>
__global__ void args_kernel(const __grid_constant__ words<n> args, uint64_t *out)
{
    if (threadIdx.x == 0 && out)
        *out = args.word[0];
}

#define RANKS 4 /* of each GPU, at most */
#define LARGEST ((size_t)256 << 20)

struct gpu {
    int device;
    cudaStream_t stream, copies;
    cudaEvent_t event;
    char *in[RANKS], *out[RANKS], *scratch;
};
static gpu gpus[2];

static void select_gpu(int g)
{
    CHECK(cudaSetDevice(gpus[g].device));
}
static void wait_all()
{
    for (int g = 0; g < 2; g++) {
        while (cudaStreamQuery(gpus[g].stream) == cudaErrorNotReady)
            ;
        while (cudaStreamQuery(gpus[g].copies) == cudaErrorNotReady)
            ;
    }
    cudaError_t error = cudaGetLastError();
    CHECK(error == cudaErrorNotReady ? cudaSuccess : error);
}

static double median_us(int n, const std::function<void()> &run)
{
    std::vector<double> times;

    for (int i = 0; i < n + 2; i++) {
        double start = now_us();
        run();
        if (i >= 2)
            times.push_back(now_us() - start);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

static void launch(int g, cudaStream_t stream, variant v, const std::vector<char *> &in, const std::vector<char *> &out,
                   size_t from, size_t n_bytes)
{
    struct gpu_kernel_combine args = {};
    size_t needed = (n_bytes / 16 + (size_t)v.threads * v.flight - 1) / ((size_t)v.threads * v.flight);

    args.count = (int64_t)(n_bytes / 4);
    for (char *p : in)
        args.addrs[args.n_inputs++] = (uint64_t)p + from;
    for (char *p : out)
        args.addrs[args.n_inputs + args.n_outs++] = (uint64_t)p + from;
    select_gpu(g);
    kernel_of(v.flight)<<<(unsigned)std::min(needed, (size_t)v.blocks), v.threads, 0, stream>>>(args);
}

/* Vectors of both GPUs, in the order of ranks. */
static std::vector<char *> all(char *(gpu::*which)[RANKS], int n)
{
    std::vector<char *> list;

    for (int g = 0; g < 2; g++)
        for (int r = 0; r < n; r++)
            list.push_back((gpus[g].*which)[r]);
    return list;
}

/* ---- Two vectors ---- */

static void slices(variant v, size_t n_bytes, int n)
{
    for (int g = 0; g < 2; g++)
        launch(g, gpus[g].stream, v, all(&gpu::in, n), all(&gpu::out, n), g * (n_bytes / 2), n_bytes / 2);
    wait_all();
}
static void one_gpu(variant v, size_t n_bytes, int n)
{
    launch(0, gpus[0].stream, v, all(&gpu::in, n), all(&gpu::out, n), 0, n_bytes);
    wait_all();
}
/* Combined into the own memory, then copied by the copy engine, in n pieces. */
static void slices_copied(variant v, size_t n_bytes, int n_pieces)
{
    for (int p = 0; p < n_pieces; p++)
        for (int g = 0; g < 2; g++) {
            size_t piece = n_bytes / 2 / n_pieces, from = g * (n_bytes / 2) + p * piece;
            launch(g, gpus[g].stream, v, all(&gpu::in, 1), {gpus[g].out[0]}, from, piece);
            CHECK(cudaEventRecord(gpus[g].event, gpus[g].stream));
            CHECK(cudaStreamWaitEvent(gpus[g].copies, gpus[g].event, 0));
            CHECK(cudaMemcpyAsync(gpus[!g].out[0] + from, gpus[g].out[0] + from, piece, cudaMemcpyDefault, gpus[g].copies));
        }
    wait_all();
}

/* ---- Several vectors on each GPU ---- */

/* The result crosses once and is copied on; inputs cross each. */
static void slices_spread(variant v, variant own, size_t n_bytes, int n, int n_pieces)
{
    for (int p = 0; p < n_pieces; p++)
        for (int g = 0; g < 2; g++) {
            size_t piece = n_bytes / 2 / n_pieces, from = g * (n_bytes / 2) + p * piece;
            std::vector<char *> out(gpus[g].out, gpus[g].out + n);
            out.push_back(gpus[!g].out[0]);
            launch(g, gpus[g].stream, v, all(&gpu::in, n), out, from, piece);
            CHECK(cudaEventRecord(gpus[g].event, gpus[g].stream));
            select_gpu(!g);
            CHECK(cudaStreamWaitEvent(gpus[!g].copies, gpus[g].event, 0));
            launch(!g, gpus[!g].copies, own, {gpus[!g].out[0]}, std::vector<char *>(gpus[!g].out + 1, gpus[!g].out + n), from, piece);
        }
    wait_all();
}
/* The first GPU's are combined there, the rest on the second one, which writes back: rank order. */
static void chain(variant v, variant own, size_t n_bytes, int n, int n_pieces)
{
    for (int p = 0; p < n_pieces; p++) {
        size_t piece = n_bytes / n_pieces, from = p * piece;
        launch(0, gpus[0].stream, own, std::vector<char *>(gpus[0].in, gpus[0].in + n), {gpus[0].scratch}, from, piece);
        CHECK(cudaEventRecord(gpus[0].event, gpus[0].stream));
        std::vector<char *> in(gpus[1].in, gpus[1].in + n), out(gpus[1].out, gpus[1].out + n);
        in.insert(in.begin(), gpus[0].scratch);
        out.push_back(gpus[0].out[0]);
        select_gpu(1);
        CHECK(cudaStreamWaitEvent(gpus[1].stream, gpus[0].event, 0));
        launch(1, gpus[1].stream, v, in, out, from, piece);
        CHECK(cudaEventRecord(gpus[1].event, gpus[1].stream));
        select_gpu(0);
        CHECK(cudaStreamWaitEvent(gpus[0].copies, gpus[1].event, 0));
        if (n > 1)
            launch(0, gpus[0].copies, own, {gpus[0].out[0]}, std::vector<char *>(gpus[0].out + 1, gpus[0].out + n), from, piece);
    }
    wait_all();
}
/* Each GPU first combines its own, of the other's slice: another order. */
static void local_first(variant v, variant own, size_t n_bytes, int n, int n_pieces)
{
    for (int p = 0; p < n_pieces; p++)
        for (int g = 0; g < 2; g++) {
            size_t piece = n_bytes / 2 / n_pieces, from = g * (n_bytes / 2) + p * piece;
            launch(!g, gpus[!g].copies, own, std::vector<char *>(gpus[!g].in, gpus[!g].in + n), {gpus[!g].scratch}, from, piece);
            CHECK(cudaEventRecord(gpus[!g].event, gpus[!g].copies));
            std::vector<char *> in(gpus[g].in, gpus[g].in + n), out(gpus[g].out, gpus[g].out + n);
            in.push_back(gpus[!g].scratch);
            out.push_back(gpus[!g].out[0]);
            select_gpu(g);
            CHECK(cudaStreamWaitEvent(gpus[g].stream, gpus[!g].event, 0));
            launch(g, gpus[g].stream, v, in, out, from, piece);
            CHECK(cudaEventRecord(gpus[g].event, gpus[g].stream));
            select_gpu(!g);
            CHECK(cudaStreamWaitEvent(gpus[!g].copies, gpus[g].event, 0));
            if (n > 1)
                launch(!g, gpus[!g].copies, own, {gpus[!g].out[0]}, std::vector<char *>(gpus[!g].out + 1, gpus[!g].out + n), from, piece);
        }
    wait_all();
}

static void make(int g, int device)
{
    gpus[g].device = device;
    select_gpu(g);
    CHECK(cudaStreamCreateWithFlags(&gpus[g].stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&gpus[g].copies, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&gpus[g].event, cudaEventDisableTiming));
    for (int r = 0; r < RANKS; r++) {
        CHECK(cudaMalloc(&gpus[g].in[r], LARGEST));
        CHECK(cudaMalloc(&gpus[g].out[r], LARGEST));
        CHECK(cudaMemset(gpus[g].in[r], 0, LARGEST));
    }
    CHECK(cudaMalloc(&gpus[g].scratch, LARGEST));
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {8, 4096, 65536, 131072, 262144, 524288, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20};
    static const int blocks[] = {32, 66, 132, 264, 528, 1056, 4224};
    const size_t n = 64 << 20;

    make(0, argc > 2 ? atoi(argv[1]) : 0);
    make(1, argc > 2 ? atoi(argv[2]) : 1);
    for (int g = 0; g < 2; g++) {
        select_gpu(g);
        CHECK(cudaDeviceEnablePeerAccess(gpus[!g].device, 0));
        CHECK(cudaDeviceSynchronize());
    }
    printf("64 MiB, 2 vectors, a slice on each GPU, us: vectors per thread, threads; blocks");
    for (int b : blocks)
        printf(" %d", b);
    printf("\n");
    for (int flight : {1, 2, 4, 8})
        for (int threads : {256, 512, 1024}) {
            if (flight == 8 && threads == 1024)
                continue;
            printf("%d x %4d:", flight, threads);
            for (int b : blocks)
                printf(" %6.1f", median_us(15, [&] { slices({flight, threads, b}, n, 1); }));
            printf("\n");
        }
    variant v = {4, 512, 528}, few = {4, 512, 132};
    printf("64 MiB, combined and then copied in 1, 4, 8, 16 pieces:");
    for (int pieces : {1, 4, 8, 16})
        printf(" %.1f", median_us(15, [&] { slices_copied(v, n, pieces); }));
    printf("\nby size: bytes; one GPU; slices; the same, 132 blocks; one vector to the other GPU by a kernel; by a copy\n");
    for (size_t size : sizes) {
        size_t even = size < 64 ? 64 : size;
        printf("%10zu %8.1f %8.1f %8.1f", size, median_us(31, [&] { one_gpu(v, even, 1); }),
               median_us(31, [&] { slices(v, even, 1); }), median_us(31, [&] { slices(few, even, 1); }));
        printf(" %8.1f", median_us(31, [&] {
                   launch(0, gpus[0].stream, v, {gpus[0].in[0]}, {gpus[1].out[0]}, 0, even);
                   wait_all();
               }));
        printf(" %8.1f\n", median_us(31, [&] {
                   CHECK(cudaMemcpyAsync(gpus[1].out[0], gpus[0].in[0], even, cudaMemcpyDefault, gpus[0].copies));
                   wait_all();
               }));
    }
    for (int k : {2, 4})
        for (size_t size : {(size_t)1 << 20, (size_t)4 << 20, (size_t)16 << 20, n})
            for (int crossing : {66, 132, 528})
                for (int local : {132, 528})
                    for (int pieces : {1, 2, 4}) {
                        variant x = {4, 512, crossing}, own = {4, 512, local};
                        printf("%d vectors on each GPU, %3zu MiB, %d and %d blocks, %2d pieces: all by kernels %.1f, result spread %.1f, "
                               "chain %.1f, own first %.1f\n",
                               k, size >> 20, crossing, local, pieces, median_us(9, [&] { slices(x, size, k); }),
                               median_us(9, [&] { slices_spread(x, own, size, k, pieces); }),
                               median_us(9, [&] { chain(x, own, size, k, pieces); }),
                               median_us(9, [&] { local_first(x, own, size, k, pieces); }));
                    }
    select_gpu(0);
    printf("a kernel that does nothing, waited for: 64 bytes of arguments %.2f, 512: %.2f, 3840: %.2f\n",
           median_us(301, [&] { args_kernel<8><<<1, 32, 0, gpus[0].stream>>>({}, nullptr); wait_all(); }),
           median_us(301, [&] { args_kernel<64><<<1, 32, 0, gpus[0].stream>>>({}, nullptr); wait_all(); }),
           median_us(301, [&] { args_kernel<480><<<1, 32, 0, gpus[0].stream>>>({}, nullptr); wait_all(); }));
    for (int k : {1, 2, 3, 4}) {
        std::vector<char *> out(gpus[0].out, gpus[0].out + k);
        printf("64 MiB to %d vectors of the same GPU: kernel %.1f, copies %.1f\n", k, median_us(11, [&] {
                   launch(0, gpus[0].stream, v, {gpus[0].in[0]}, out, 0, n);
                   wait_all();
               }),
               median_us(11, [&] {
                   for (char *p : out)
                       CHECK(cudaMemcpyAsync(p, gpus[0].in[0], n, cudaMemcpyDefault, gpus[0].stream));
                   wait_all();
               }));
    }
    return 0;
}
