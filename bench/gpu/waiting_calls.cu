/* SPDX-License-Identifier: BSD-3-Clause
 *
 * waiting_calls: finds the CUDA calls that wait for a kernel in an unrelated non-blocking stream: their time
 * on an idle GPU, beside a kernel of 3 ms on the same GPU, and beside one on another GPU with peer access
 * both ways. No MPI. src/gpu/rank/guard.c intercepts the calls that wait.
 *
 *      nvcc -std=c++17 -O2 -arch=sm_90 waiting_calls.cu -o waiting_calls -lcuda
 *      ./waiting_calls
 */
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "measure.cuh"

#define CU(call) CHECK((cudaError_t)(call))
#define SPIN_MS 3

__global__ void spin(unsigned ns, volatile int *begun)
{
    uint64_t begin, now;

    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    *begun = 1;
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - begin < ns);
}

/* Each of these is loaded when it is first launched. */
template <int N>
__global__ void lazy(int *out)
{
    if (out)
        *out = N;
}

/* With a stack larger than any before. */
template <int N>
__global__ void deep(int *out, int at)
{
    volatile int words[N * 1024];

    for (int i = 0; i < N * 1024; i++)
        words[i] = i;
    if (out)
        *out = words[at];
}

__global__ void whole(int *out)
{
    if (out)
        *out = 1;
}

static volatile int *begun;
static cudaStream_t spinning[2], stream;
static int n_devices;
static CUcontext context;

static void start(int device)
{
    *begun = 0;
    CHECK(cudaSetDevice(device));
    spin<<<1, 32, 0, spinning[device]>>>(SPIN_MS * 1000000, begun);
    CHECK(cudaGetLastError());
    while (!*begun)
        ;
    CHECK(cudaSetDevice(0));
}

static void nothing()
{
}

static void row(const char *name, std::function<void()> call, std::function<void()> prepare = nothing,
                std::function<void()> clean = nothing, int rounds = 3)
{
    printf("| %-58s |", name);
    for (int busy = -1; busy < n_devices && busy < 2; busy++) {
        double best = 1e9;
        for (int i = 0; i < rounds; i++) {
            prepare();
            CHECK(cudaDeviceSynchronize());
            if (busy >= 0)
                start(busy);
            double begin = now_us();
            call();
            best = std::min(best, now_us() - begin);
            for (int device = 0; device < n_devices && device < 2; device++)
                CHECK(cudaStreamSynchronize(spinning[device]));
            clean();
        }
        printf(" %8.1f%s |", best, busy < 0 ? "" : best > SPIN_MS * 800 ? " waits" : "      ");
    }
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    CUdeviceptr memory = 0, other = 0;
    void *host = nullptr, *registered = nullptr;
    char *a, *b, *pinned, *peer = nullptr, *pageable = (char *)malloc(8 << 20);
    cudaMemPool_t pool = nullptr;
    cudaEvent_t event;
    cudaStream_t made;
    CUarray array;
    CUmemGenericAllocationHandle handle = 0;
    CUmodule module = nullptr;
    CUcontext made_context = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    cudaIpcMemHandle_t ipc;
    CUlibrary library = nullptr;
    int n_sms, lazies = 0, deeps = 0;
    size_t granule;
    static const char ptx[] = ".version 7.5\n.target sm_75\n.address_size 64\n.visible .entry e() { ret; }\n";

    CHECK(cudaGetDeviceCount(&n_devices));
    for (int device = std::min(n_devices, 2) - 1; device >= 0; device--) {
        CHECK(cudaSetDevice(device));
        CHECK(cudaStreamCreateWithPriority(&spinning[device], cudaStreamNonBlocking, -5));
        if (n_devices > 1)
            CHECK(cudaDeviceEnablePeerAccess(1 - device, 0));
        if (device == 1)
            CHECK(cudaMalloc(&peer, 8 << 20));
    }
    CHECK(cudaHostAlloc(&host, 4096, cudaHostAllocPortable));
    begun = (volatile int *)host;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&a, 8 << 20));
    CHECK(cudaMalloc(&b, 8 << 20));
    CHECK(cudaMallocHost(&pinned, 8 << 20));
    CHECK(cudaDeviceGetAttribute(&n_sms, cudaDevAttrMultiProcessorCount, 0));
    CU(cuCtxGetCurrent(&context));
    for (int device = 0; device < std::min(n_devices, 2); device++) /* the kernel is loaded */
        start(device);
    CHECK(cudaDeviceSynchronize());
    registered = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemAccessDesc access = {};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CU(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;

    printf("| call | idle us | beside a kernel us | beside one of another GPU us |\n");
    row("cuCtxSynchronize", [] { CU(cuCtxSynchronize()); });
    row("cudaDeviceSynchronize", [] { CHECK(cudaDeviceSynchronize()); });
    row("cudaStreamSynchronize(NULL)", [] { CHECK(cudaStreamSynchronize(nullptr)); });
    for (size_t n : {(size_t)64, (size_t)4 << 20, (size_t)256 << 20}) {
        char name[64];
        snprintf(name, sizeof name, "cuMemAlloc of %zu", n);
        row(name, [&] { CU(cuMemAlloc(&memory, n)); }, nothing, [&] { CU(cuMemFree(memory)); });
        snprintf(name, sizeof name, "cuMemFree of %zu", n);
        row(name, [&] { CU(cuMemFree(memory)); }, [&] { CU(cuMemAlloc(&memory, n)); });
        snprintf(name, sizeof name, "cuMemFreeHost of %zu", n);
        row(name, [&] { CU(cuMemFreeHost(host)); }, [&] { CU(cuMemAllocHost(&host, n)); });
    }
    row("cudaFree of 4 MiB", [&] { CHECK(cudaFree((void *)memory)); }, [&] { CHECK(cudaMalloc((void **)&memory, 4 << 20)); });
    row("cuMemAllocHost of 1 MiB", [&] { CU(cuMemAllocHost(&host, 1 << 20)); }, nothing, [&] { CU(cuMemFreeHost(host)); });
    row("cuMemHostRegister", [&] { CU(cuMemHostRegister(registered, 1 << 20, 0)); }, nothing,
        [&] { CU(cuMemHostUnregister(registered)); });
    row("cuMemHostUnregister", [&] { CU(cuMemHostUnregister(registered)); },
        [&] { CU(cuMemHostRegister(registered, 1 << 20, 0)); });
    row("cuMemAllocManaged", [&] { CU(cuMemAllocManaged(&memory, 4 << 20, CU_MEM_ATTACH_GLOBAL)); }, nothing,
        [&] { CU(cuMemFree(memory)); });
    row("cuMemFree of managed", [&] { CU(cuMemFree(memory)); },
        [&] { CU(cuMemAllocManaged(&memory, 4 << 20, CU_MEM_ATTACH_GLOBAL)); });
    row("cudaMallocAsync of 4 MiB", [&] { CHECK(cudaMallocAsync((void **)&memory, 4 << 20, stream)); }, nothing,
        [&] { CHECK(cudaFreeAsync((void *)memory, stream)); CHECK(cudaStreamSynchronize(stream)); });
    row("cudaFreeAsync and cudaStreamSynchronize",
        [&] { CHECK(cudaFreeAsync((void *)memory, stream)); CHECK(cudaStreamSynchronize(stream)); },
        [&] { CHECK(cudaMallocAsync((void **)&memory, 4 << 20, stream)); CHECK(cudaStreamSynchronize(stream)); });
    row("cudaFree of pool memory", [&] { CHECK(cudaFree((void *)memory)); },
        [&] { CHECK(cudaMallocAsync((void **)&memory, 4 << 20, stream)); CHECK(cudaStreamSynchronize(stream)); });
    row("cudaMemPoolCreate", [&] { CHECK(cudaMemPoolCreate(&pool, &props)); }, nothing, [&] { CHECK(cudaMemPoolDestroy(pool)); });
    auto make_shared = [&] {
        cudaMemPoolProps shared = props;
        shared.handleTypes = cudaMemHandleTypePosixFileDescriptor;
        CHECK(cudaMemPoolCreate(&pool, &shared));
    };
    int descriptor_of_pool = -1;
    row("cudaMemPoolExportToShareableHandle",
        [&] { CHECK(cudaMemPoolExportToShareableHandle(&descriptor_of_pool, pool, cudaMemHandleTypePosixFileDescriptor, 0)); },
        make_shared, [&] { close(descriptor_of_pool); CHECK(cudaMemPoolDestroy(pool)); });
    auto make_pool = [&] {
        CHECK(cudaMemPoolCreate(&pool, &props));
        uint64_t keep = ~0ull;
        CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
        CHECK(cudaMallocFromPoolAsync((void **)&memory, 64 << 20, pool, stream));
        CHECK(cudaFreeAsync((void *)memory, stream));
        CHECK(cudaStreamSynchronize(stream));
    };
    row("cudaMemPoolTrimTo", [&] { CHECK(cudaMemPoolTrimTo(pool, 0)); }, make_pool, [&] { CHECK(cudaMemPoolDestroy(pool)); });
    row("cudaMemPoolDestroy", [&] { CHECK(cudaMemPoolDestroy(pool)); }, make_pool);
    auto reserve = [&] { CU(cuMemCreate(&handle, granule, &prop, 0)); CU(cuMemAddressReserve(&memory, granule, 0, 0, 0)); };
    auto map = [&] { CU(cuMemMap(memory, granule, 0, handle, 0)); };
    auto open = [&] { CU(cuMemSetAccess(memory, granule, &access, 1)); };
    auto unmap = [&] { CU(cuMemUnmap(memory, granule)); };
    auto release = [&] { CU(cuMemRelease(handle)); CU(cuMemAddressFree(memory, granule)); };
    row("cuMemCreate, cuMemAddressReserve", reserve, nothing, release);
    row("cuMemMap", map, reserve, [&] { unmap(); release(); });
    row("cuMemSetAccess", open, [&] { reserve(); map(); }, [&] { unmap(); release(); });
    row("cuMemUnmap", unmap, [&] { reserve(); map(); open(); }, release);
    row("cuMemRelease, cuMemAddressFree", release, [&] { reserve(); map(); open(); unmap(); });
    CUDA_ARRAY_DESCRIPTOR descriptor = {1024, 1024, CU_AD_FORMAT_FLOAT, 1};
    row("cuArrayCreate", [&] { CU(cuArrayCreate(&array, &descriptor)); }, nothing, [&] { CU(cuArrayDestroy(array)); });
    row("cuArrayDestroy", [&] { CU(cuArrayDestroy(array)); }, [&] { CU(cuArrayCreate(&array, &descriptor)); });
    row("cudaStreamCreate", [&] { CHECK(cudaStreamCreate(&made)); }, nothing, [&] { CHECK(cudaStreamDestroy(made)); });
    row("cudaStreamDestroy", [&] { CHECK(cudaStreamDestroy(made)); }, [&] { CHECK(cudaStreamCreate(&made)); });
    row("cudaEventCreate", [&] { CHECK(cudaEventCreate(&event)); }, nothing, [&] { CHECK(cudaEventDestroy(event)); });
    row("cudaEventDestroy", [&] { CHECK(cudaEventDestroy(event)); }, [&] { CHECK(cudaEventCreate(&event)); });
#if CUDA_VERSION >= 12050
    CUdevResource all, part;
    CUdevResourceDesc description;
    CUgreenCtx green = nullptr;
    CUcontext green_context = nullptr;
    CUstream green_stream = nullptr;
    unsigned n_parts = 1;
    CU(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    CU(cuDevSmResourceSplitByCount(&part, &n_parts, &all, nullptr, 0, 8));
    CU(cuDevResourceGenerateDesc(&description, &part, 1));
    auto make_green = [&] { CU(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM)); };
    auto end_green = [&] { CU(cuGreenCtxDestroy(green)); };
    auto make_green_stream = [&] { CU(cuGreenCtxStreamCreate(&green_stream, green, CU_STREAM_NON_BLOCKING, 0)); };
    row("cuGreenCtxCreate", make_green, nothing, end_green);
    row("cuGreenCtxStreamCreate", make_green_stream, make_green, [&] { CU(cuStreamDestroy(green_stream)); end_green(); });
    row("cuStreamDestroy, of a green context", [&] { CU(cuStreamDestroy(green_stream)); }, [&] { make_green(); make_green_stream(); }, end_green);
    row("cuCtxFromGreenCtx, its cuCtxSynchronize", [&] {
        CU(cuCtxFromGreenCtx(&green_context, green)); CU(cuCtxSetCurrent(green_context)); CU(cuCtxSynchronize()); CU(cuCtxSetCurrent(context)); },
        make_green, end_green);
    row("cuGreenCtxDestroy", end_green, make_green);
    row("cuGreenCtxDestroy, with a stream", end_green, [&] { make_green(); make_green_stream(); });
#endif
    row("cuModuleLoadData of PTX", [&] { CU(cuModuleLoadData(&module, ptx)); }, nothing, [&] { CU(cuModuleUnload(module)); });
    row("cuModuleUnload", [&] { CU(cuModuleUnload(module)); }, [&] { CU(cuModuleLoadData(&module, ptx)); });
    auto load = [&] { CU(cuLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0)); };
    row("cuLibraryLoadData of PTX", load, nothing, [&] { CU(cuLibraryUnload(library)); });
    row("cuModuleGetFunction", [&] { CUfunction f; CU(cuModuleGetFunction(&f, module, "e")); },
        [&] { CU(cuModuleLoadData(&module, ptx)); }, [&] { CU(cuModuleUnload(module)); });
    row("cuLibraryGetModule", [&] { CUmodule m; CU(cuLibraryGetModule(&m, library)); }, load, [&] { CU(cuLibraryUnload(library)); });
    row("cuLibraryLoadData, kernel's module", [&] { load(); CUkernel k; CUfunction f; CU(cuLibraryGetKernel(&k, library, "e")); CU(cuKernelGetFunction(&f, k)); },
        nothing, [&] { CU(cuLibraryUnload(library)); });
    row("cuLibraryUnload, loaded in the context", [&] { CU(cuLibraryUnload(library)); },
        [&] { load(); CUkernel k; CUfunction f; CU(cuLibraryGetKernel(&k, library, "e")); CU(cuKernelGetFunction(&f, k)); });
    std::vector<void (*)(int *)> lazy_kernels = {lazy<0>, lazy<1>, lazy<2>};
    row("first launch of a kernel", [&] { lazy_kernels[lazies++]<<<1, 1, 0, stream>>>(nullptr); CHECK(cudaStreamSynchronize(stream)); }, nothing, nothing, 1);
    std::vector<void (*)(int *, int)> deep_kernels = {deep<1>, deep<4>, deep<12>};
    row("launch with more local memory than before", [&] { deep_kernels[deeps++]<<<1, 1, 0, stream>>>(nullptr, 1); CHECK(cudaStreamSynchronize(stream)); }, nothing, nothing, 1);
    void *arguments[] = {&other};
    row("cooperative launch, all of the GPU, and its stream", [&] {
        CHECK(cudaLaunchCooperativeKernel((void *)whole, dim3(n_sms * 2), dim3(1024), arguments, 0, stream)); CHECK(cudaStreamSynchronize(stream)); });
    row("cooperative launch, half of the GPU, and its stream", [&] {
        CHECK(cudaLaunchCooperativeKernel((void *)whole, dim3(n_sms), dim3(1024), arguments, 0, stream)); CHECK(cudaStreamSynchronize(stream)); });
    size_t stack = 2048;
    row("cuCtxSetLimit, stack", [&] { CU(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, stack += 4096)); });
    row("cuCtxSetLimit, printf", [&] { CU(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 2 << 20)); });
    row("cudaFuncSetAttribute, shared memory", [&] { CHECK(cudaFuncSetAttribute(whole, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536)); });
    row("cudaMemcpy to the GPU, pageable, 8 MiB", [&] { CHECK(cudaMemcpy(a, pageable, 8 << 20, cudaMemcpyHostToDevice)); });
    row("cudaMemcpy from the GPU, pageable, 64", [&] { CHECK(cudaMemcpy(pageable, a, 64, cudaMemcpyDeviceToHost)); });
    row("cudaMemcpy within the GPU", [&] { CHECK(cudaMemcpy(a, b, 64, cudaMemcpyDeviceToDevice)); });
    row("cudaMemset", [&] { CHECK(cudaMemset(a, 1, 64)); });
    if (peer) {
        row("cudaMemcpyPeer", [&] { CHECK(cudaMemcpyPeer(a, 0, peer, 1, 64)); });
        row("cudaMemcpyPeer and cudaStreamSynchronize(NULL)", [&] { CHECK(cudaMemcpyPeer(a, 0, peer, 1, 64)); CHECK(cudaStreamSynchronize(nullptr)); });
        row("cudaMemcpyPeerAsync and its stream", [&] { CHECK(cudaMemcpyPeerAsync(a, 0, peer, 1, 64, stream)); CHECK(cudaStreamSynchronize(stream)); });
        row("cudaDeviceDisablePeerAccess", [&] { CHECK(cudaDeviceDisablePeerAccess(1)); }, nothing, [&] { CHECK(cudaDeviceEnablePeerAccess(1, 0)); });
        row("cudaDeviceEnablePeerAccess", [&] { CHECK(cudaDeviceEnablePeerAccess(1, 0)); }, [&] { CHECK(cudaDeviceDisablePeerAccess(1)); });
        row("cuMemFree of another GPU's memory", [&] { CU(cuMemFree(memory)); },
            [&] { CHECK(cudaSetDevice(1)); CU(cuMemAlloc(&memory, 4 << 20)); CHECK(cudaSetDevice(0)); });
    }
    auto capture = [&] {
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        CHECK(cudaMemcpyAsync(a, b, 64, cudaMemcpyDeviceToDevice, stream));
        lazy<0><<<1, 1, 0, stream>>>(nullptr);
        CHECK(cudaStreamEndCapture(stream, &graph));
    };
    row("cudaGraphInstantiate", [&] { CHECK(cudaGraphInstantiate(&exec, graph, 0)); }, capture,
        [&] { CHECK(cudaGraphExecDestroy(exec)); CHECK(cudaGraphDestroy(graph)); });
    row("cudaGraphLaunch and its stream", [&] { CHECK(cudaGraphLaunch(exec, stream)); CHECK(cudaStreamSynchronize(stream)); },
        [&] { capture(); CHECK(cudaGraphInstantiate(&exec, graph, 0)); },
        [&] { CHECK(cudaGraphExecDestroy(exec)); CHECK(cudaGraphDestroy(graph)); });
    row("cudaGraphExecDestroy", [&] { CHECK(cudaGraphExecDestroy(exec)); },
        [&] { capture(); CHECK(cudaGraphInstantiate(&exec, graph, 0)); }, [&] { CHECK(cudaGraphDestroy(graph)); });
    row("cudaIpcGetMemHandle", [&] { CHECK(cudaIpcGetMemHandle(&ipc, a)); });
    row("cudaDeviceGraphMemTrim", [&] { CHECK(cudaDeviceGraphMemTrim(0)); });
    row("cuCtxCreate", [&] { CU(cuCtxCreate(&made_context, nullptr, 0, 0)); CU(cuCtxSetCurrent(context)); }, nothing,
        [&] { CU(cuCtxDestroy(made_context)); CU(cuCtxSetCurrent(context)); }, 1);
    row("cuCtxDestroy of another context", [&] { CU(cuCtxDestroy(made_context)); CU(cuCtxSetCurrent(context)); },
        [&] { CU(cuCtxCreate(&made_context, nullptr, 0, 0)); CU(cuCtxSetCurrent(context)); }, nothing, 1);
    row("cuDevicePrimaryCtxRetain, Release", [&] { CUcontext c; CU(cuDevicePrimaryCtxRetain(&c, 0)); CU(cuDevicePrimaryCtxRelease(0)); });
    start(0);
    double begin = now_us();
    CHECK(cudaDeviceReset());
    printf("| cudaDeviceReset beside a kernel: %.1f |\n", now_us() - begin);
    return 0;
}
