/* SPDX-License-Identifier: BSD-3-Clause
 *
 * blocked_driver: the driver calls of one thread that block while another thread is in a driver call that
 * waits for a kernel; and the capacity of a stream before a submission to it waits. No MPI. src/gpu/rank/aside.c
 * and flow.c are based on these results.
 *
 *      nvcc -std=c++17 -O2 -arch=sm_90 blocked_driver.cu -o blocked_driver -lcuda
 *      ./blocked_driver
 */
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "measure.cuh"

#define CU(call) CHECK((cudaError_t)(call))
#define HELD_US 60000 /* a call that takes longer than this is held up: the kernel is let go */

__global__ void spin(volatile int *flag)
{
    while (!*flag)
        ;
}

__global__ void empty()
{
}

static const char ptx[] = ".version 7.5\n.target sm_75\n.address_size 64\n.visible .entry e() { ret; }\n";

static volatile int *flag;
static CUcontext context;
static cudaStream_t spinning, other;
static cudaEvent_t event;
static char *memory, *pinned;
static void *registered;

/* The blocked thread's objects. */
static CUdeviceptr freed;
static void *freed_host;
static CUmodule module, loaded;
static CUfunction function;

static std::atomic<double> begun_us{0}; /* 0: nothing is timed */
static std::atomic<bool> was_held{false};

/* Releases the kernel if the timed call takes too long. */
static void watch()
{
    for (;; usleep(1000)) {
        double begun = begun_us;
        if (begun > 0 && now_us() - begun > HELD_US) {
            was_held = true;
            *flag = 1;
        }
    }
}

/* How long it took; -1: too long. */
template <typename F>
static double timed(const F &what)
{
    was_held = false;
    double begin = now_us();
    begun_us = begin;
    what();
    begun_us = 0;
    return was_held ? -1 : now_us() - begin;
}

struct call {
    const char *name;
    std::function<void()> prepare, run;
};

static void load_function()
{
    CU(cuModuleLoadData(&module, ptx));
    CU(cuModuleGetFunction(&function, module, "e"));
}

static std::vector<call> blocking()
{
    auto nothing = [] {};
    return {
        {"cuMemFree", [] { CU(cuMemAlloc(&freed, 1 << 20)); }, [] { CU(cuMemFree(freed)); }},
        {"cuMemFree, 64 B", [] { CU(cuMemAlloc(&freed, 64)); }, [] { CU(cuMemFree(freed)); }},
        {"cuMemFreeHost", [] { CU(cuMemAllocHost(&freed_host, 1 << 20)); }, [] { CU(cuMemFreeHost(freed_host)); }},
        {"cuMemHostUnregister", [] { CU(cuMemHostRegister(registered, 1 << 20, 0)); }, [] { CU(cuMemHostUnregister(registered)); }},
        {"cuModuleLoadData", nothing, [] { CU(cuModuleLoadData(&loaded, ptx)); }},
        {"cuModuleUnload", [] { CU(cuModuleLoadData(&loaded, ptx)); }, [] { CU(cuModuleUnload(loaded)); }},
        {"first launch", load_function, [] { CU(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, other, nullptr, nullptr)); }},
        {"cuCtxSynchronize", nothing, [] { CU(cuCtxSynchronize()); }},
        {"cuStreamSynchronize", nothing, [] { CU(cuStreamSynchronize(spinning)); }},
        {"full stream", nothing, [] { for (int i = 0; i < 3000; i++) empty<<<1, 1, 0, spinning>>>(); }},
    };
}

static std::vector<call> calls()
{
    auto nothing = [] {};
    return {
        {"context", nothing, [] { CUcontext c; CU(cuCtxSetCurrent(nullptr)); CU(cuCtxSetCurrent(context)); CU(cuCtxGetCurrent(&c)); }},
        {"stream query", nothing, [] { cudaStreamQuery(other); }},
        {"query busy", nothing, [] { cudaStreamQuery(spinning); }},
        {"event query", nothing, [] { cudaEventQuery(event); }},
        {"attributes", nothing, [] { CUmemorytype t; CU(cuPointerGetAttribute(&t, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)memory)); }},
        {"launch", nothing, [] { empty<<<1, 1, 0, other>>>(); }},
        {"copy to host", nothing, [] { CHECK(cudaMemcpyAsync(pinned, memory, 64, cudaMemcpyDeviceToHost, other)); }},
        {"event record", nothing, [] { CHECK(cudaEventRecord(event, other)); }},
        {"write value", nothing, [] { CU(cuStreamWriteValue32(other, (CUdeviceptr)memory, 1, 0)); }},
        {"stream sync", nothing, [] { CHECK(cudaStreamSynchronize(other)); }},
        {"alloc", nothing, [] { CUdeviceptr a; CU(cuMemAlloc(&a, 4 << 20)); }},
        {"alloc host", nothing, [] { void *a; CU(cuMemAllocHost(&a, 1 << 20)); }},
        {"create stream", nothing, [] { cudaStream_t a; CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking)); }},
    };
}

static void pairs()
{
    printf("| held up by |");
    for (const call &c : calls())
        printf(" %s |", c.name);
    printf("\n");
    for (const call &b : blocking()) {
        printf("| %s |", b.name);
        for (const call &c : calls()) {
            std::atomic<bool> is_over{false};
            b.prepare();
            CHECK(cudaDeviceSynchronize());
            *flag = 0;
            spin<<<1, 1, 0, spinning>>>(flag);
            usleep(2000);
            std::thread thread([&] {
                CU(cuCtxSetCurrent(context));
                b.run();
                is_over = true;
            });
            usleep(15000);
            bool is_blocked = !is_over;
            double took = timed(c.run);
            *flag = 1;
            thread.join();
            CHECK(cudaDeviceSynchronize());
            if (took < 0)
                printf(" HELD%s |", is_blocked ? "" : " (over)");
            else
                printf(" %.1f%s |", took, is_blocked ? "" : " (over)");
            fflush(stdout);
        }
        printf("\n");
    }
}

/* How many of an operation the streams take, in turn, behind a kernel in each, before one waits. */
static void room(const char *name, int n_streams, const std::function<void(cudaStream_t)> &submit)
{
    std::vector<cudaStream_t> streams(n_streams);
    for (cudaStream_t &stream : streams)
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    *flag = 0;
    for (cudaStream_t stream : streams)
        spin<<<1, 1, 0, stream>>>(flag);
    int n = 0;
    while (n < 4000 * n_streams && timed([&] { submit(streams[n % n_streams]); }) >= 0)
        n++;
    bool is_full = *flag;
    *flag = 1;
    CHECK(cudaDeviceSynchronize());
    printf("room for %s, %d streams: %s%d\n", name, n_streams, is_full ? "" : "more than ", n);
    fflush(stdout);
    for (cudaStream_t stream : streams)
        CHECK(cudaStreamDestroy(stream));
}

/* One stream is filled behind a kernel: how much do others take? */
static void beside(int n_streams)
{
    std::vector<cudaStream_t> streams(n_streams);
    int n_held = 0;
    for (cudaStream_t &stream : streams)
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    *flag = 0;
    spin<<<1, 1, 0, streams[0]>>>(flag);
    for (int i = 0; i < 900; i++)
        empty<<<1, 1, 0, streams[0]>>>();
    for (int i = 1; i < n_streams; i++) {
        if (timed([&] { for (int k = 0; k < 300; k++) empty<<<1, 1, 0, streams[i]>>>(); CHECK(cudaStreamSynchronize(streams[i])); }) < 0) {
            n_held++;
            CHECK(cudaDeviceSynchronize());
            *flag = 0;
            spin<<<1, 1, 0, streams[0]>>>(flag);
            for (int k = 0; k < 900; k++)
                empty<<<1, 1, 0, streams[0]>>>();
        }
    }
    *flag = 1;
    CHECK(cudaDeviceSynchronize());
    printf("beside a stream with 900 kernels behind a busy one: %d of %d other streams are held up\n", n_held, n_streams - 1);
    fflush(stdout);
    for (cudaStream_t stream : streams)
        CHECK(cudaStreamDestroy(stream));
}

static void host(void *)
{
}

int main()
{
    void *address;
    CHECK(cudaSetDevice(0));
    CHECK(cudaMallocHost(&address, 1 << 20));
    flag = (volatile int *)address;
    pinned = (char *)address + 4096;
    CHECK(cudaMalloc(&memory, 1 << 20));
    registered = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(cudaStreamCreateWithFlags(&spinning, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CU(cuCtxGetCurrent(&context));
    *flag = 1;
    spin<<<1, 1, 0, spinning>>>(flag);
    empty<<<1, 1, 0, other>>>();
    CU(cuStreamWriteValue32(other, (CUdeviceptr)memory, 1, 0));
    CHECK(cudaDeviceSynchronize());

    std::thread(watch).detach();
    auto launch = [](cudaStream_t s) { empty<<<1, 1, 0, s>>>(); };
    for (int n : {1, 2, 4, 8, 16, 32})
        room("kernels", n, launch);
    room("memset", 1, [](cudaStream_t s) { CHECK(cudaMemsetAsync(memory, 1, 64, s)); });
    room("copies to the host", 1, [](cudaStream_t s) { CHECK(cudaMemcpyAsync(pinned, memory, 64, cudaMemcpyDeviceToHost, s)); });
    room("copies to the GPU", 1, [](cudaStream_t s) { CHECK(cudaMemcpyAsync(memory, pinned, 64, cudaMemcpyHostToDevice, s)); });
    room("copies within", 1, [](cudaStream_t s) { CHECK(cudaMemcpyAsync(memory, memory + 4096, 64, cudaMemcpyDeviceToDevice, s)); });
    room("copies to the host", 8, [](cudaStream_t s) { CHECK(cudaMemcpyAsync(pinned, memory, 64, cudaMemcpyDeviceToHost, s)); });
    room("event records", 1, [](cudaStream_t s) { CHECK(cudaEventRecord(event, s)); });
    room("event waits", 1, [](cudaStream_t s) { CHECK(cudaEventRecord(event, spinning)); CHECK(cudaStreamWaitEvent(s, event, 0)); });
    room("host functions", 1, [](cudaStream_t s) { CHECK(cudaLaunchHostFunc(s, host, nullptr)); });
    room("kernel and event record", 1, [](cudaStream_t s) { empty<<<1, 1, 0, s>>>(); CHECK(cudaEventRecord(event, s)); });
    beside(40);
    pairs();
    fflush(stdout);
    _exit(0);
}
