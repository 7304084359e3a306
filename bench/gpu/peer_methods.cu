/* SPDX-License-Identifier: BSD-3-Clause
 *
 * peer_methods: ways to copy small data from one GPU to another and to detect completion: half of a round
 * trip (GPU 0 to GPU 1 and back), from the submission until the CPU knows, without MPI. Then the CPU cost of
 * single driver calls.
 *
 *      nvcc -std=c++17 -O2 -arch=sm_90 peer_methods.cu -o peer_methods -lcuda && ./peer_methods [FROM TO]
 *
 * The results are in docs/decisions/0026-device-copies.md.
 */
#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "measure.cuh"

/* One block copies, then writes a number where the CPU looks. */
__global__ void copy_flag_kernel(uint64_t *to, const uint64_t *from, size_t n_bytes, volatile uint32_t *flag,
                                 uint32_t number)
{
    for (size_t i = threadIdx.x; i < n_bytes / 8; i += blockDim.x)
        to[i] = from[i];
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0)
        *flag = number;
}

/* One of the two ends. */
struct end {
    CUdevice device;
    CUcontext context;
    CUstream stream;       /* of highest priority */
    CUstream plain_stream; /* of default priority */
    CUevent event;
    CUdeviceptr buffer;
    volatile uint32_t *flag; /* pinned */
    CUdeviceptr flag_at;
    uint32_t number;
    CUgraphExec graph;
    CUgraphNode node;
};
static end ends[2];

static void wait_flag(end &e)
{
    while ((int32_t)(*e.flag - e.number) < 0)
        ;
}
static void finish_flag(end &e, unsigned flags = 0)
{
    CHECK(cuStreamWriteValue32(e.stream, e.flag_at, ++e.number, flags));
    wait_flag(e);
}
static void finish_query(end &e)
{
    while (cuStreamQuery(e.stream) == CUDA_ERROR_NOT_READY)
        ;
}
static void finish_event(end &e)
{
    CHECK(cuEventRecord(e.event, e.stream));
    while (cuEventQuery(e.event) == CUDA_ERROR_NOT_READY)
        ;
}
static void copy(end &by, end &from, end &to, size_t n)
{
    CHECK(cuMemcpyAsync(to.buffer, from.buffer, n, by.stream));
}
static void set(CUcontext context)
{
    CHECK(cuCtxSetCurrent(context));
}

struct method {
    const char *name;
    std::function<void(end &from, end &to, size_t n)> run;
};

static const method methods[] = {
    {"copy, stream synchronize, default priority",
     [](end &from, end &to, size_t n) {
         set(from.context);
         CHECK(cuMemcpyAsync(to.buffer, from.buffer, n, from.plain_stream));
         CHECK(cuStreamSynchronize(from.plain_stream));
     }},
    {"copy, stream synchronize",
     [](end &from, end &to, size_t n) {
         set(from.context);
         copy(from, from, to, n);
         CHECK(cuStreamSynchronize(from.stream));
     }},
    {"copy, stream query",
     [](end &from, end &to, size_t n) {
         set(from.context);
         copy(from, from, to, n);
         finish_query(from);
     }},
    {"copy, event",
     [](end &from, end &to, size_t n) {
         set(from.context);
         copy(from, from, to, n);
         finish_event(from);
     }},
    {"copy, number",
     [](end &from, end &to, size_t n) {
         set(from.context);
         copy(from, from, to, n);
         finish_flag(from);
     }},
    {"the same, the other's context current",
     [](end &from, end &to, size_t n) {
         set(to.context);
         copy(from, from, to, n);
         finish_flag(from);
     }},
    {"the same, contexts changed as the library did",
     [](end &from, end &to, size_t n) {
         set(to.context);
         set(from.context);
         copy(from, from, to, n);
         set(to.context);
         set(from.context);
         CHECK(cuStreamWriteValue32(from.stream, from.flag_at, ++from.number, 0));
         set(to.context);
         wait_flag(from);
     }},
    {"cuMemcpyDtoDAsync, number",
     [](end &from, end &to, size_t n) {
         set(from.context);
         CHECK(cuMemcpyDtoDAsync(to.buffer, from.buffer, n, from.stream));
         finish_flag(from);
     }},
    {"cuMemcpyPeerAsync, number",
     [](end &from, end &to, size_t n) {
         set(from.context);
         CHECK(cuMemcpyPeerAsync(to.buffer, to.context, from.buffer, from.context, n, from.stream));
         finish_flag(from);
     }},
    {"cuMemcpyPeerAsync, stream query",
     [](end &from, end &to, size_t n) {
         set(from.context);
         CHECK(cuMemcpyPeerAsync(to.buffer, to.context, from.buffer, from.context, n, from.stream));
         finish_query(from);
     }},
    {"copy by the destination, number",
     [](end &from, end &to, size_t n) {
         set(to.context);
         copy(to, from, to, n);
         finish_flag(to);
     }},
    {"copy by the destination, stream query",
     [](end &from, end &to, size_t n) {
         set(to.context);
         copy(to, from, to, n);
         finish_query(to);
     }},
    {"copy, 4 bytes copied to pinned memory",
     [](end &from, end &to, size_t n) {
         set(from.context);
         *from.flag = 0;
         copy(from, from, to, n);
         CHECK(cuMemcpyAsync(from.flag_at, from.buffer + (1 << 20), 4, from.stream)); /* a 1 lies there */
         while (*from.flag == 0)
             ;
         from.number = 1;
     }},
    {"kernel that pushes and writes the number",
     [](end &from, end &to, size_t n) {
         set(from.context);
         copy_flag_kernel<<<1, std::min<size_t>(1024, std::max<size_t>(32, n / 8)), 0, from.stream>>>(
             (uint64_t *)to.buffer, (const uint64_t *)from.buffer, n, (volatile uint32_t *)from.flag_at,
             ++from.number);
         wait_flag(from);
     }},
    {"kernel that pulls and writes the number",
     [](end &from, end &to, size_t n) {
         set(to.context);
         copy_flag_kernel<<<1, std::min<size_t>(1024, std::max<size_t>(32, n / 8)), 0, to.stream>>>(
             (uint64_t *)to.buffer, (const uint64_t *)from.buffer, n, (volatile uint32_t *)to.flag_at, ++to.number);
         wait_flag(to);
     }},
    {"graph of a copy, stream query",
     [](end &from, end &to, size_t n) {
         set(from.context);
         CHECK(cuGraphLaunch(from.graph, from.stream));
         finish_query(from);
     }},
    {"graph of a copy with new addresses, stream query",
     [](end &from, end &to, size_t n) {
         CUDA_MEMCPY3D params = {};
         set(from.context);
         params.srcMemoryType = params.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
         params.srcDevice = from.buffer;
         params.dstDevice = to.buffer;
         params.WidthInBytes = n;
         params.Height = params.Depth = 1;
         CHECK(cuGraphExecMemcpyNodeSetParams(from.graph, from.node, &params, from.context));
         CHECK(cuGraphLaunch(from.graph, from.stream));
         finish_query(from);
     }},
};

static void make_graph(end &from, end &to, size_t n)
{
    CUDA_MEMCPY3D params = {};
    CUgraph graph;
    params.srcMemoryType = params.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    params.srcDevice = from.buffer;
    params.dstDevice = to.buffer;
    params.WidthInBytes = n;
    params.Height = params.Depth = 1;
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemcpyNode(&from.node, graph, NULL, 0, &params, from.context));
    CHECK(cuGraphInstantiate(&from.graph, graph, 0));
}

static double median(std::vector<double> &times)
{
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

static double half_round_trip(const method &m, size_t n)
{
    std::vector<double> times;
    for (int i = -30; i < 500; i++) {
        double begin = now_us();
        m.run(ends[0], ends[1], n);
        m.run(ends[1], ends[0], n);
        if (i >= 0)
            times.push_back((now_us() - begin) / 2);
    }
    return median(times);
}

/* The same, where each direction is another thread's, as with a PE for each GPU. */
static double by_two_threads(const method &m, size_t n)
{
    std::atomic<int> turn{0};
    std::vector<double> times;
    const int rounds = 500;
    std::thread other([&] {
        for (int i = 0; i < rounds; i++) {
            while (turn != 2 * i + 1)
                ;
            m.run(ends[1], ends[0], n);
            turn = 2 * i + 2;
        }
    });
    for (int i = 0; i < rounds; i++) {
        double begin = now_us();
        m.run(ends[0], ends[1], n);
        turn = 2 * i + 1;
        while (turn != 2 * i + 2)
            ;
        times.push_back((now_us() - begin) / 2);
    }
    other.join();
    return median(times);
}

static void call_cost(const char *name, std::function<void()> before, std::function<void()> call,
                      std::function<void()> after)
{
    std::vector<double> times;
    for (int i = 0; i < 1000; i++) {
        before();
        double begin = now_us();
        call();
        times.push_back(now_us() - begin);
        after();
    }
    printf("%-50s %8.3f us\n", name, median(times));
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {8, 512, 4096, 8192, 16384, 65536, 1 << 20};
    int ordinals[2] = {argc > 2 ? atoi(argv[1]) : 0, argc > 2 ? atoi(argv[2]) : 1};

    CHECK(cuInit(0));
    for (int i = 0; i < 2; i++) {
        end &e = ends[i];
        int least, greatest;
        void *memory;
        CHECK(cuDeviceGet(&e.device, ordinals[i]));
        CHECK(cuDevicePrimaryCtxRetain(&e.context, e.device));
        set(e.context);
        CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
        CHECK(cuStreamCreateWithPriority(&e.stream, CU_STREAM_NON_BLOCKING, greatest));
        CHECK(cuStreamCreate(&e.plain_stream, CU_STREAM_NON_BLOCKING));
        CHECK(cuEventCreate(&e.event, CU_EVENT_DISABLE_TIMING));
        CHECK(cuMemAlloc(&e.buffer, (1 << 20) + 4096));
        CHECK(cuMemsetD32(e.buffer + (1 << 20), 1, 1));
        CHECK(cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
        e.flag = (volatile uint32_t *)memory;
        *e.flag = e.number = 0;
        CHECK(cuMemHostGetDevicePointer(&e.flag_at, memory, 0));
    }
    for (int i = 0; i < 2 && ordinals[0] != ordinals[1]; i++) {
        set(ends[i].context);
        CHECK(cuCtxEnablePeerAccess(ends[1 - i].context, 0));
    }
    for (int threads = 1; threads <= 2; threads++) {
        printf("\nGPUs %d and %d, by %d thread%s, half a round trip, us\n%-50s", ordinals[0], ordinals[1], threads,
               threads == 1 ? "" : "s", "bytes");
        for (size_t n : sizes)
            printf(" %8zu", n);
        printf("\n");
        for (const method &m : methods) {
            printf("%-50s", m.name);
            for (size_t n : sizes) {
                for (int i = 0; i < 2; i++) {
                    set(ends[i].context);
                    make_graph(ends[i], ends[1 - i], n);
                    *ends[i].flag = ends[i].number;
                }
                printf(" %8.2f", threads == 1 ? half_round_trip(m, n) : by_two_threads(m, n));
                for (int i = 0; i < 2; i++)
                    CHECK(cuGraphExecDestroy(ends[i].graph));
            }
            printf("\n");
            fflush(stdout);
        }
    }
    printf("\nthe CPU's part\n");
    end &a = ends[0], &b = ends[1];
    auto nothing = [] {};
    auto drain = [&] { CHECK(cuStreamSynchronize(a.stream)); };
    set(a.context);
    call_cost("nothing", nothing, nothing, nothing);
    call_cost("cuMemcpyAsync", nothing, [&] { copy(a, a, b, 8); }, drain);
    call_cost("cuMemcpyPeerAsync", nothing,
              [&] { CHECK(cuMemcpyPeerAsync(b.buffer, b.context, a.buffer, a.context, 8, a.stream)); }, drain);
    call_cost("cuStreamWriteValue32 behind it", [&] { copy(a, a, b, 8); },
              [&] { CHECK(cuStreamWriteValue32(a.stream, a.flag_at, ++a.number, 0)); }, drain);
    call_cost("cuStreamQuery, not ready", [&] { copy(a, a, b, 1 << 20); }, [&] { cuStreamQuery(a.stream); }, drain);
    call_cost("cuCtxGetCurrent", nothing, [&] { CUcontext c; cuCtxGetCurrent(&c); }, nothing);
    call_cost("cuCtxSetCurrent, another and back", nothing, [&] { set(b.context); set(a.context); }, nothing);
    call_cost("cuPointerGetAttributes of one", nothing,
              [&] {
                  unsigned long long id;
                  void *answer = &id;
                  CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_BUFFER_ID;
                  cuPointerGetAttributes(1, &wanted, &answer, a.buffer);
              },
              nothing);
    return 0;
}
