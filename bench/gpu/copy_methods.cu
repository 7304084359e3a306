/* SPDX-License-Identifier: BSD-3-Clause
 *
 * copy_methods: ways to copy between two buffers of one GPU and to detect completion, by size, on an idle GPU
 * and beside kernels of the program that fill it. Times are from the submission until the CPU knows.
 *
 *      nvcc -std=c++17 -O2 -arch=sm_90 copy_methods.cu -o copy_methods -lcuda && ./copy_methods
 *
 * The load: two streams of lowest priority with kernels whose blocks fill all multiprocessors and compute for
 * a while each (the name gives the time), queued by a separate thread. The results are in
 * docs/decisions/0026-device-copies.md.
 */
#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "measure.cuh"

/* ---- Kernels ---- */

__global__ void load_kernel(unsigned block_ns, float *out)
{
    uint64_t begin, now;
    float x = threadIdx.x;

    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
        for (int i = 0; i < 100; i++)
            x = x * 1.0001f + 0.5f;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - begin < block_ns);
    if (x == 0.123f)
        *out = x;
}

__device__ void copy_part(uint4 *to, const uint4 *from, size_t n_bytes, unsigned thread, unsigned n_threads)
{
    size_t n = n_bytes / 16;

    for (size_t i = thread; i < n; i += n_threads)
        to[i] = from[i];
    for (size_t i = n * 16 + thread; i < n_bytes; i += n_threads)
        ((char *)to)[i] = ((const char *)from)[i];
}

__global__ void copy_kernel(uint4 *to, const uint4 *from, size_t n_bytes)
{
    copy_part(to, from, n_bytes, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}

/* The last block to finish tells the CPU. */
__global__ void copy_flag_kernel(uint4 *to, const uint4 *from, size_t n_bytes, unsigned *n_done,
                                 volatile uint32_t *flag, uint32_t number)
{
    copy_part(to, from, n_bytes, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0 && (gridDim.x == 1 || atomicAdd(n_done, 1) == gridDim.x - 1)) {
        *n_done = 0;
        __threadfence_system();
        *flag = number;
    }
}

/* A service that stays on the GPU: the words of an order carry its number in their upper 16 bits. */
struct mailbox {
    volatile uint64_t words[4]; /* to, from, bytes; written by the CPU */
    char pad[32];
    volatile uint32_t done; /* the number of the last order done */
};

__global__ void __launch_bounds__(1024) service_kernel(struct mailbox *box, unsigned *n_done)
{
    __shared__ uint64_t words[3];
    uint64_t number = 1;

    for (;; number = (number + 1) & 0xffff) {
        if (threadIdx.x < 32) {
            uint64_t word;
            do {
                word = threadIdx.x < 3 ? box->words[threadIdx.x] : number << 48;
            } while (!__all_sync(0xffffffff, word >> 48 == number));
            if (threadIdx.x < 3)
                words[threadIdx.x] = word & 0xffffffffffff;
        }
        __syncthreads();
        if (words[0] == 0)
            return;
        copy_part((uint4 *)words[0], (const uint4 *)words[1], words[2], blockIdx.x * blockDim.x + threadIdx.x,
                  gridDim.x * blockDim.x);
        __threadfence_system();
        __syncthreads();
        if (threadIdx.x == 0 && (gridDim.x == 1 || atomicAdd(n_done, 1) == gridDim.x - 1)) {
            *n_done = 0;
            __threadfence_system();
            box->done = (uint32_t)number;
        }
    }
}

/* ---- Load ---- */

struct load {
    unsigned block_us; /* 0: none */
    std::atomic<bool> stop{false};
    std::thread thread;
    CUcontext context;

    void run()
    {
        cudaStream_t streams[2];
        cudaEvent_t events[2][3];
        int least, greatest, n_sms;
        CHECK(cuCtxSetCurrent(context));
        CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
        CHECK(cudaDeviceGetAttribute(&n_sms, cudaDevAttrMultiProcessorCount, 0));
        for (int s = 0; s < 2; s++) {
            CHECK(cudaStreamCreateWithPriority(&streams[s], cudaStreamNonBlocking, least));
            for (int i = 0; i < 3; i++)
                CHECK(cudaEventCreateWithFlags(&events[s][i], cudaEventDisableTiming));
        }
        /* kernels of about 3 ms, three in each stream at any time */
        unsigned waves = std::max(1u, 3000 / block_us);
        for (unsigned turn = 0; !stop; turn++) {
            for (int s = 0; s < 2; s++) {
                if (turn >= 3)
                    while (cudaEventQuery(events[s][turn % 3]) != cudaSuccess && !stop)
                        std::this_thread::sleep_for(std::chrono::microseconds(200));
                load_kernel<<<n_sms * 8 * waves, 256, 0, streams[s]>>>(block_us * 1000, nullptr);
                CHECK(cudaEventRecord(events[s][turn % 3], streams[s]));
            }
        }
        for (int s = 0; s < 2; s++) {
            CHECK(cudaStreamSynchronize(streams[s]));
            CHECK(cudaStreamDestroy(streams[s]));
        }
    }
    void begin()
    {
        if (!block_us)
            return;
        CHECK(cuCtxGetCurrent(&context));
        stop = false;
        thread = std::thread([this] { run(); });
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    void end()
    {
        if (!block_us)
            return;
        stop = true;
        thread.join();
    }
};

/* ---- Methods ---- */

static CUstream stream;
static CUevent event;
static volatile uint32_t *flag; /* pinned */
static CUdeviceptr flag_at;
static uint32_t number;
static unsigned *n_done;
static char *from, *to, *bounce;
static CUgraphExec graph_exec;

static void wait_flag(uint32_t wanted)
{
    while ((int32_t)(*flag - wanted) < 0)
        __builtin_ia32_pause();
}
static void finish_flag()
{
    CHECK(cuStreamWriteValue32(stream, flag_at, ++number, 0));
    wait_flag(number);
}
static void finish_stream()
{
    while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
        ;
}
static void finish_event()
{
    CHECK(cuEventRecord(event, stream));
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
        ;
}
static void submit_memcpy(size_t n)
{
    CHECK(cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, n, stream));
}
static void submit_batch(size_t n, unsigned flags)
{
    CUdeviceptr dst = (CUdeviceptr)to, src = (CUdeviceptr)from;
    CUmemcpyAttributes attributes = {};
    size_t index = 0;
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    attributes.flags = flags;
    CHECK(cuMemcpyBatchAsync(&dst, &src, &n, 1, &attributes, &index, 1, stream));
}
static unsigned blocks_for(size_t n)
{
    return (unsigned)std::min<size_t>(std::max<size_t>(1, n / 16384), 264);
}
static void submit_kernel(size_t n)
{
    copy_kernel<<<blocks_for(n), std::min<size_t>(512, std::max<size_t>(32, n / 16)), 0, stream>>>(
        (uint4 *)to, (const uint4 *)from, n);
}
static void kernel_flag(size_t n)
{
    copy_flag_kernel<<<blocks_for(n), std::min<size_t>(512, std::max<size_t>(32, n / 16)), 0, stream>>>(
        (uint4 *)to, (const uint4 *)from, n, n_done, (volatile uint32_t *)flag_at, ++number);
    wait_flag(number);
}
static void submit_bounce(size_t n)
{
    CHECK(cuMemcpyAsync((CUdeviceptr)bounce, (CUdeviceptr)from, n, stream));
    CHECK(cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)bounce, n, stream));
}
/* Through pinned memory in pieces, which lets the two engines overlap and keeps each of their transfers short. */
static CUstream second_stream;
static CUevent piece_events[4096];
static void submit_pieces(size_t n, size_t piece)
{
    for (size_t i = 0; i < n; i += piece)
        CHECK(cuMemcpyAsync((CUdeviceptr)bounce + i, (CUdeviceptr)from + i, std::min(piece, n - i), stream));
    for (size_t i = 0; i < n; i += piece)
        CHECK(cuMemcpyAsync((CUdeviceptr)to + i, (CUdeviceptr)bounce + i, std::min(piece, n - i), stream));
}
static void submit_pipeline(size_t n, size_t piece)
{
    for (size_t i = 0, k = 0; i < n; i += piece, k++) {
        CHECK(cuMemcpyAsync((CUdeviceptr)bounce + i, (CUdeviceptr)from + i, std::min(piece, n - i), second_stream));
        CHECK(cuEventRecord(piece_events[k], second_stream));
        CHECK(cuStreamWaitEvent(stream, piece_events[k], 0));
        CHECK(cuMemcpyAsync((CUdeviceptr)to + i, (CUdeviceptr)bounce + i, std::min(piece, n - i), stream));
    }
}
/* Every second row of a matrix, then the others: no block of memory. */
static void submit_rows(size_t n)
{
    CUDA_MEMCPY2D copy = {};
    size_t width = n <= 8 ? 2 : n / 4;
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcPitch = copy.dstPitch = 2 * width;
    copy.WidthInBytes = width;
    copy.Height = 2;
    for (int i = 0; i < 2; i++) {
        copy.srcDevice = (CUdeviceptr)from + i * width;
        copy.dstDevice = (CUdeviceptr)to + i * width;
        CHECK(cuMemcpy2DAsync(&copy, stream));
    }
}
/* Through an array, whose memory is laid out in another way. */
static CUarray array;
static void submit_array(size_t n)
{
    CUDA_MEMCPY2D copy = {};
    size_t width = std::min<size_t>(n, 16384);
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = (CUdeviceptr)from;
    copy.srcPitch = width;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    copy.WidthInBytes = width;
    copy.Height = n / width;
    CHECK(cuMemcpy2DAsync(&copy, stream));
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = array;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = (CUdeviceptr)to;
    copy.dstPitch = width;
    CHECK(cuMemcpy2DAsync(&copy, stream));
}
/* A graph of both copies, whose addresses are set before each launch. */
static CUgraphNode nodes[2];
static void graph_copy_params(CUDA_MEMCPY3D *copy, char *dst, char *src, size_t n, bool is_out)
{
    *copy = {};
    copy->srcMemoryType = is_out ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    copy->srcDevice = (CUdeviceptr)src;
    copy->srcHost = src;
    copy->dstMemoryType = is_out ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy->dstDevice = (CUdeviceptr)dst;
    copy->dstHost = dst;
    copy->WidthInBytes = n;
    copy->Height = copy->Depth = 1;
}
static void make_bounce_graph(size_t n)
{
    CUDA_MEMCPY3D copy;
    CUcontext context;
    CUgraph graph;
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuGraphCreate(&graph, 0));
    graph_copy_params(&copy, bounce, from, n, true);
    CHECK(cuGraphAddMemcpyNode(&nodes[0], graph, nullptr, 0, &copy, context));
    graph_copy_params(&copy, to, bounce, n, false);
    CHECK(cuGraphAddMemcpyNode(&nodes[1], graph, nodes, 1, &copy, context));
    CHECK(cuGraphInstantiate(&graph_exec, graph, 0));
}
static void submit_bounce_graph(size_t n, bool is_updated)
{
    CUDA_MEMCPY3D copy;
    CUcontext context;
    if (is_updated) {
        CHECK(cuCtxGetCurrent(&context));
        graph_copy_params(&copy, bounce, from, n, true);
        CHECK(cuGraphExecMemcpyNodeSetParams(graph_exec, nodes[0], &copy, context));
        graph_copy_params(&copy, to, bounce, n, false);
        CHECK(cuGraphExecMemcpyNodeSetParams(graph_exec, nodes[1], &copy, context));
    }
    CHECK(cuGraphLaunch(graph_exec, stream));
}
static void submit_2d(size_t n)
{
    CUDA_MEMCPY2D copy = {};
    size_t width = n <= 8 ? n / 2 : n / 4, rows = n <= 8 ? 2 : 4;
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = (CUdeviceptr)from;
    copy.dstDevice = (CUdeviceptr)to;
    copy.srcPitch = copy.dstPitch = width;
    copy.WidthInBytes = width;
    copy.Height = rows;
    CHECK(cuMemcpy2DAsync(&copy, stream));
}
static void submit_peer(size_t n)
{
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuMemcpyPeerAsync((CUdeviceptr)to, context, (CUdeviceptr)from, context, n, stream));
}
static void make_graph(size_t n)
{
    CUgraph graph;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    submit_memcpy(n);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&graph_exec, graph, 0));
    CHECK(cuGraphDestroy(graph));
}

/* ---- The service ---- */

static struct mailbox *box;
static uint64_t order;
static CUstream service_stream;

static void service_begin(int n_blocks)
{
    memset((void *)box, 0, sizeof *box);
    order = 0;
    CHECK(cudaMemset(n_done, 0, sizeof *n_done));
    service_kernel<<<n_blocks, 1024, 0, service_stream>>>(box, n_done);
    CHECK(cudaGetLastError());
}
static void service_order(uint64_t dst, uint64_t src, uint64_t n)
{
    order = (order + 1) & 0xffff;
    box->words[2] = order << 48 | n;
    box->words[1] = order << 48 | src;
    box->words[0] = order << 48 | dst;
}
static void service_copy(size_t n)
{
    service_order((uint64_t)to, (uint64_t)from, n);
    while (box->done != order)
        __builtin_ia32_pause();
}
static void service_end()
{
    service_order(0, 0, 0);
    CHECK(cuStreamSynchronize(service_stream));
}

/* ---- Measuring ---- */

struct method {
    const char *name;
    std::function<void(size_t)> run;
    int service_blocks; /* 0: not the service */
    int graph;          /* 1: of a memcpy, 2: through pinned memory */
    size_t n_max;       /* the largest size; 0: any */
};

static char fill = 1;

static void measure(const struct method &m, size_t n, double *median_out, double *p95_out)
{
    std::vector<double> times;
    double until;
    std::vector<char> seen(n);

    CHECK(cudaMemsetAsync(from, ++fill, n, stream));
    CHECK(cudaMemsetAsync(to, 0, n, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 3; i++)
        m.run(n);
    until = now_us() + 120e3;
    while (times.size() < 400 && now_us() < until) {
        double begin = now_us();
        m.run(n);
        times.push_back(now_us() - begin);
    }
    CHECK(cudaMemcpyAsync(seen.data(), to, n, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < n; i++)
        if (seen[i] != fill) {
            printf("%s: byte %zu of %zu is wrong\n", m.name, i, n);
            exit(1);
        }
    std::sort(times.begin(), times.end());
    *median_out = times[times.size() / 2];
    *p95_out = times[times.size() * 95 / 100];
}

int main()
{
    static const size_t sizes[] = {8, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 262144, 1048576, 4194304};
    static const unsigned loads[] = {0, 10, 1000};
    int least, greatest;
    void *memory;

    setvbuf(stdout, nullptr, _IOLBF, 0);
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(0));
    CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
    CHECK(cuStreamCreateWithPriority(&service_stream, CU_STREAM_NON_BLOCKING, greatest));
    CHECK(cuStreamCreateWithPriority(&second_stream, CU_STREAM_NON_BLOCKING, greatest));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (CUevent &e : piece_events)
        CHECK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    CUDA_ARRAY_DESCRIPTOR descriptor = {16384, 256, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CHECK(cuArrayCreate(&array, &descriptor));
    CHECK(cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    flag = (volatile uint32_t *)memory;
    *flag = 0;
    CHECK(cuMemHostGetDevicePointer(&flag_at, memory, 0));
    CHECK(cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    box = (struct mailbox *)memory;
    CHECK(cuMemHostAlloc((void **)&bounce, 8 << 20, 0));
    CHECK(cudaMalloc(&from, 8 << 20));
    CHECK(cudaMalloc(&to, 8 << 20));
    CHECK(cudaMalloc(&n_done, sizeof *n_done));
    CHECK(cudaMemset(n_done, 0, sizeof *n_done));

    std::vector<struct method> methods = {
        {"memcpy, stream query", [](size_t n) { submit_memcpy(n); finish_stream(); }},
        {"memcpy, event query", [](size_t n) { submit_memcpy(n); finish_event(); }},
        {"memcpy, WriteValue", [](size_t n) { submit_memcpy(n); finish_flag(); }},
        {"batch default, WriteValue", [](size_t n) { submit_batch(n, 0); finish_flag(); }},
        {"batch overlap, WriteValue", [](size_t n) { submit_batch(n, CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE); finish_flag(); }},
        {"batch overlap, stream query", [](size_t n) { submit_batch(n, CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE); finish_stream(); }},
        {"kernel, stream query", [](size_t n) { submit_kernel(n); finish_stream(); }},
        {"kernel, WriteValue", [](size_t n) { submit_kernel(n); finish_flag(); }},
        {"kernel writes flag", [](size_t n) { kernel_flag(n); }},
        {"D2H + H2D, WriteValue", [](size_t n) { submit_bounce(n); finish_flag(); }},
        {"D2H + H2D, pieces of 1 KiB", [](size_t n) { submit_pieces(n, 1024); finish_flag(); }, 0, 0, 16384},
        {"D2H + H2D, pieces of 2 KiB", [](size_t n) { submit_pieces(n, 2048); finish_flag(); }, 0, 0, 32768},
        {"D2H + H2D, pieces of 4 KiB", [](size_t n) { submit_pieces(n, 4096); finish_flag(); }, 0, 0, 65536},
        {"the same, pipeline of 4 KiB", [](size_t n) { submit_pipeline(n, 4096); finish_flag(); }, 0, 0, 65536},
        {"the same, pipeline of 64 KiB", [](size_t n) { submit_pipeline(n, 65536); finish_flag(); }},
        {"the same, pipeline of 256 KiB", [](size_t n) { submit_pipeline(n, 262144); finish_flag(); }},
        {"D2H + H2D as a graph", [](size_t n) { submit_bounce_graph(n, false); finish_flag(); }, 0, 2},
        {"D2H + H2D as a graph, updated", [](size_t n) { submit_bounce_graph(n, true); finish_flag(); }, 0, 2},
        {"D2H + H2D, stream query", [](size_t n) { submit_bounce(n); finish_stream(); }},
        {"through an array, WriteValue", [](size_t n) { submit_array(n); finish_flag(); }},
        {"memcpy2D of alternate rows", [](size_t n) { submit_rows(n); finish_flag(); }},
        {"memcpy2D, WriteValue", [](size_t n) { submit_2d(n); finish_flag(); }},
        {"memcpyPeer to itself, WriteV.", [](size_t n) { submit_peer(n); finish_flag(); }},
        {"graph of a memcpy, WriteValue", [](size_t n) { CHECK(cuGraphLaunch(graph_exec, stream)); finish_flag(); }, 0, 1},
        {"service, 1 block", [](size_t n) { service_copy(n); }, 1},
        {"service, 4 blocks", [](size_t n) { service_copy(n); }, 4},
        {"service, 16 blocks", [](size_t n) { service_copy(n); }, 16},
    };
    for (unsigned block_us : loads) {
        printf("\n### load: ");
        if (block_us)
            printf("blocks of %u us", block_us);
        printf("%s: median (95th percentile), us\n| %-30s |", block_us ? "" : "none", "method");
        for (size_t n : sizes)
            printf(" %12zu |", n);
        printf("\n");
        for (auto &m : methods) {
            load load;
            load.block_us = block_us;
            if (m.service_blocks)
                service_begin(m.service_blocks);
            load.begin();
            printf("| %-30s |", m.name);
            for (size_t n : sizes) {
                double median, p95;
                if (m.n_max && n > m.n_max) {
                    printf("              |");
                    continue;
                }
                if (m.graph == 1)
                    make_graph(n);
                if (m.graph == 2)
                    make_bounce_graph(n);
                measure(m, n, &median, &p95);
                printf(" %5.1f (%5.0f)|", median, p95);
                if (m.graph)
                    CHECK(cuGraphExecDestroy(graph_exec));
            }
            printf("\n");
            if (m.service_blocks)
                service_end();
            load.end();
            CHECK(cudaDeviceSynchronize());
        }
    }
    return 0;
}
