/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that is in a call of CUDA's runtime which waits in the driver lets the other ranks of its PE run: a kernel of each even
 * rank runs until the next rank has got a message, which the even rank sends just before the call. Calls that block the PE are
 * named, and let go after a while. With the argument "all", other calls are tried as well: those that block are only named.
 * See tests/gpu/run; by hand:
 *
 *      nvcc -ccbin mpicxx -arch=sm_90 [-cudart shared] waits_runtime.cu -o waits_runtime
 *      mpirun -n 2 waits_runtime +p 1
 */
#include <mpi.h>
#include <cuda_runtime.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(call)                                                                                     \
    do {                                                                                                \
        cudaError_t result_ = (call);                                                                   \
        if (result_ != cudaSuccess) {                                                                   \
            printf("FAIL rank %d, line %d: %s: %s\n", rank, __LINE__, #call, cudaGetErrorString(result_)); \
            fflush(stdout);                                                                             \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                               \
        }                                                                                               \
    } while (0)

#define N_TIMES 2 /* the default stream, a non-blocking one */
#define LIMIT_MS 500

static int rank, size, n_time;
static volatile int *flag;
static cudaStream_t streams[N_TIMES], other;
static cudaEvent_t event;
static char *memory, *pinned;
static void *page;

__device__ int variable, second_variable;

__global__ void spin(volatile int *until)
{
    while (!*until)
        ;
}

/* Each of these is loaded when it is first used. */
template <int N>
__global__ void lazy(int *out)
{
    if (out)
        *out = N;
}

template <int N>
__global__ void deep(int *out, int at)
{
    volatile int words[N * 256];
    for (int i = 0; i < N * 256; i++)
        words[i] = i;
    if (out)
        *out = words[at];
}

/* ---- Calls ---- */

static void *to_free[2 * N_TIMES], *to_free_host[N_TIMES];
static cudaArray_t arrays[N_TIMES];
static cudaGraph_t graph;
static cudaGraphExec_t exec;

static void by_free() { CHECK(cudaFree(to_free[n_time])); }
static void by_free_large() { CHECK(cudaFree(to_free[N_TIMES + n_time])); }
static void by_free_host() { CHECK(cudaFreeHost(to_free_host[n_time])); }
static void by_unregister()
{
    CHECK(cudaHostRegister(page, 4096, 0));
    CHECK(cudaHostUnregister(page));
}
static void by_free_array() { CHECK(cudaFreeArray(arrays[n_time])); }
static void by_limit() { CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 2048 + 1024 * n_time)); }
static void by_first_launch()
{
    if (n_time == 0)
        lazy<0><<<1, 1, 0, other>>>(nullptr);
    else
        lazy<1><<<1, 1, 0, other>>>(nullptr);
    CHECK(cudaGetLastError());
}
static void by_first_launch_behind()
{
    if (n_time == 0)
        lazy<2><<<1, 1, 0, streams[n_time]>>>(nullptr);
    else
        lazy<3><<<1, 1, 0, streams[n_time]>>>(nullptr);
    CHECK(cudaGetLastError());
}
static void by_large_stack()
{
    if (n_time == 0)
        deep<20><<<1, 1, 0, other>>>(nullptr, 1);
    else
        deep<40><<<1, 1, 0, other>>>(nullptr, 1);
    CHECK(cudaGetLastError());
}
static void by_first_cooperative()
{
    int *out = nullptr;
    void *arguments[] = {&out};
    CHECK(cudaLaunchCooperativeKernel(n_time == 0 ? (void *)lazy<4> : (void *)lazy<5>, dim3(1), dim3(1), arguments, 0, other));
}
static void by_full_stream()
{
    for (int i = 0; i < 3000; i++)
        lazy<6><<<1, 1, 0, streams[n_time]>>>(nullptr);
    CHECK(cudaGetLastError());
}
static void by_full_of_sets()
{
    for (int i = 0; i < 3000; i++)
        CHECK(cudaMemsetAsync(memory, i, 64, streams[n_time]));
}
static void by_full_of_copies()
{
    for (int i = 0; i < 3000; i++)
        CHECK(cudaMemcpyAsync(pinned, memory, 64, cudaMemcpyDeviceToHost, streams[n_time]));
}
static void by_full_of_events()
{
    for (int i = 0; i < 3000; i++) {
        CHECK(cudaEventRecord(event, streams[n_time]));
        CHECK(cudaStreamWaitEvent(other, event, 0));
    }
}
static void by_full_of_graphs()
{
    for (int i = 0; i < 1500; i++)
        CHECK(cudaGraphLaunch(exec, streams[n_time]));
}
static void by_malloc()
{
    void *made;
    CHECK(cudaMalloc(&made, 32 << 20));
}
static void by_malloc_host()
{
    void *made;
    CHECK(cudaMallocHost(&made, 1 << 20));
}
static void by_malloc_async()
{
    void *made;
    CHECK(cudaMallocAsync(&made, 1 << 20, other));
    CHECK(cudaFreeAsync(made, other));
}
static void by_symbol()
{
    int value = 1;
    if (n_time == 0)
        CHECK(cudaMemcpyToSymbolAsync(variable, &value, sizeof value, 0, cudaMemcpyHostToDevice, other));
    else
        CHECK(cudaMemcpyToSymbolAsync(second_variable, &value, sizeof value, 0, cudaMemcpyHostToDevice, other));
}
static void by_attributes()
{
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, n_time == 0 ? lazy<7> : lazy<8>));
}
static void by_occupancy()
{
    int n;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, n_time == 0 ? lazy<9> : lazy<10>, 128, 0));
}
static void by_set_attribute()
{
    CHECK(cudaFuncSetAttribute(n_time == 0 ? lazy<11> : lazy<12>, cudaFuncAttributeMaxDynamicSharedMemorySize, 32768));
}
static void by_graph()
{
    cudaGraph_t made;
    cudaGraphExec_t made_exec;
    cudaGraphNode_t node;
    int *out = nullptr;
    void *arguments[] = {&out};
    cudaKernelNodeParams what = {};
    what.func = n_time == 0 ? (void *)lazy<13> : (void *)lazy<14>;
    what.gridDim = what.blockDim = dim3(1);
    what.kernelParams = arguments;
    CHECK(cudaGraphCreate(&made, 0));
    CHECK(cudaGraphAddKernelNode(&node, made, nullptr, 0, &what));
    CHECK(cudaGraphInstantiate(&made_exec, made, 0));
    CHECK(cudaGraphLaunch(made_exec, other));
    CHECK(cudaGraphExecDestroy(made_exec));
}
static void by_streams()
{
    cudaStream_t made;
    cudaEvent_t behind;
    CHECK(cudaStreamCreate(&made));
    CHECK(cudaEventCreate(&behind));
    CHECK(cudaEventRecord(behind, streams[n_time]));
    CHECK(cudaStreamWaitEvent(made, behind, 0));
    lazy<6><<<1, 1, 0, made>>>(nullptr);
    CHECK(cudaStreamDestroy(made));
    CHECK(cudaEventDestroy(behind));
}
static void by_array_copy()
{
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocArray(&array, &format, 64, 64));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, pinned, 256, 256, 64, cudaMemcpyHostToDevice));
}
static void by_reset() { CHECK(cudaDeviceSynchronize()); }

static const struct way {
    const char *name;
    void (*call)();
    bool must_pass;
} ways[] = {
    {"cudaFree", by_free, true},
    {"cudaFree of 64 MiB", by_free_large, true},
    {"cudaFreeHost", by_free_host, true},
    {"cudaHostUnregister", by_unregister, true},
    {"cudaFreeArray", by_free_array, true},
    {"cudaDeviceSetLimit", by_limit, true},
    {"first launch", by_first_launch, true},
    {"first launch behind the kernel", by_first_launch_behind, true},
    {"first launch with a larger stack", by_large_stack, true},
    {"first cooperative launch", by_first_cooperative, true},
    {"stream full of kernels", by_full_stream, true},
    {"stream full of sets", by_full_of_sets, true},
    {"stream full of copies", by_full_of_copies, true},
    {"streams full of events", by_full_of_events, true},
    {"cudaDeviceSynchronize", by_reset, true},
    {"stream full of graphs", by_full_of_graphs, false},
    {"cudaMalloc", by_malloc, false},
    {"cudaMallocHost", by_malloc_host, false},
    {"cudaMallocAsync", by_malloc_async, false},
    {"cudaMemcpyToSymbolAsync", by_symbol, false},
    {"cudaFuncGetAttributes", by_attributes, false},
    {"cudaOccupancy", by_occupancy, false},
    {"cudaFuncSetAttribute", by_set_attribute, false},
    {"graph of an unloaded kernel", by_graph, false},
    {"cudaStreamDestroy", by_streams, false},
    {"cudaMemcpy2DToArray", by_array_copy, false},
};

/* ---- The ranks ---- */

/* Releases the kernel if a call takes too long. */
static std::atomic<int> remaining_ms{0};
static std::atomic<bool> was_blocked{false};

static void *watch(void *)
{
    for (;; usleep(1000)) {
        int left = remaining_ms;
        if (left > 0 && remaining_ms.compare_exchange_strong(left, left - 1) && left == 1) {
            was_blocked = true;
            *flag = 1;
        }
    }
    return nullptr;
}

static void set_up()
{
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    pthread_t thread;
    void *made;

    CHECK(cudaSetDevice(0));
    CHECK(cudaMallocHost(&made, 8192));
    flag = (volatile int *)made;
    CHECK(cudaMallocHost((void **)&pinned, 65536));
    CHECK(cudaMalloc((void **)&memory, 65536));
    CHECK(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int i = 0; i < N_TIMES; i++) {
        CHECK(cudaMalloc(&to_free[i], 1000));
        CHECK(cudaMalloc(&to_free[N_TIMES + i], 64 << 20));
        CHECK(cudaMallocHost(&to_free_host[i], 100000));
        CHECK(cudaMallocArray(&arrays[i], &format, 64, 64));
    }
    page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(cudaStreamBeginCapture(other, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 4; i++)
        lazy<15><<<1, 1, 0, other>>>(nullptr);
    CHECK(cudaStreamEndCapture(other, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, other));
    *flag = 1;
    spin<<<1, 1>>>(flag);
    lazy<6><<<1, 1>>>(nullptr);
    CHECK(cudaMemsetAsync(memory, 0, 64));
    CHECK(cudaDeviceSynchronize());
    pthread_create(&thread, nullptr, watch, nullptr);
    MPI_Barrier(MPI_COMM_WORLD);
}

static bool wait_in(const struct way *way)
{
    was_blocked = false;
    *flag = 0;
    spin<<<1, 1, 0, streams[n_time]>>>(flag);
    CHECK(cudaGetLastError());
    MPI_Send(&flag, sizeof flag, MPI_BYTE, rank + 1, 0, MPI_COMM_WORLD);
    remaining_ms = LIMIT_MS;
    way->call();
    CHECK(cudaStreamSynchronize(streams[n_time]));
    remaining_ms = 0;
    CHECK(cudaDeviceSynchronize());
    if (was_blocked)
        printf("%s rank %d: %s, %s stream: the PE was blocked\n", way->must_pass ? "FAIL" : "note:", rank, way->name,
               n_time ? "non-blocking" : "default");
    fflush(stdout);
    return was_blocked && way->must_pass;
}

int main(int argc, char **argv)
{
    int n_failed = 0, n_all = 0;
    bool is_all = argc > 1 && strcmp(argv[1], "all") == 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    set_up();
    for (const struct way &way : ways)
        for (n_time = 0; n_time < N_TIMES && (way.must_pass || is_all); n_time++) {
            if (rank % 2 == 0 && rank + 1 < size) {
                n_failed += wait_in(&way);
            } else if (rank % 2 == 1) {
                volatile int *theirs;
                MPI_Recv(&theirs, sizeof theirs, MPI_BYTE, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                *theirs = 1;
            }
            MPI_Barrier(MPI_COMM_WORLD);
        }
    MPI_Allreduce(&n_failed, &n_all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s\n", n_all ? "failed" : "passed");
    MPI_Finalize();
    return n_all > 0;
}
