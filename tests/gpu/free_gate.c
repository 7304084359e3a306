/* SPDX-License-Identifier: BSD-3-Clause
 *
 * In a process with one rank, frees and operations of streams let each other go on (src/gpu/rank/free_gate.h): many threads that free
 * beside one that adds operations; a thread that frees, or unregisters memory, beside launches of a graph with an operation; the
 * rank's own frees beside a thread that adds operations without end; a free on a GPU whose stream is behind an operation of
 * another GPU; frees on two GPUs, also beside waits for events of the other; a free that waits for a host function, which waits
 * for operations of another GPU; MPI_Free_mem behind such a function; a call that CUDA refuses; frees in a context that is not
 * current; and a context that the program destroys while a stream of its GPU waits, or while memory of the library there is given
 * back. The program finds CUDA's functions by dlsym, as a runtime does, or is linked with them (free_gate_linked.c).
 */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "mtest.h"

#define N 3000
#define N_BYTES (N * sizeof(unsigned))
#define FREES 200
#define OWN_FREES 2
#define ADDS 400
#define THREADS 16
#define IN_FLIGHT 32
#define YIELDS 100
#define CONTEXTS 300
#define PAGE 4096

static void *driver;
static CUcontext context;
static CUstream cuda;
static MPIX_Stream stream;
static MPI_Comm comm;
static CUdeviceptr from, to;
static atomic_bool is_done, has_ended;
static atomic_int n_added;
static int (*n_calls_of)(const char *function); /* of the fake driver */

/* cuda.h's macros give the names of the current versions. */
#define AS_TEXT(name) AS_TEXT_2(name)
#define AS_TEXT_2(name) #name
#ifdef IS_LINKED
#define CALL(name) name
#else
#define CALL(name) ((__typeof__(&name))dlsym(driver, AS_TEXT(name)))
#endif
#define CU(call) MTEST_CHECK((call) == CUDA_SUCCESS, "%s", #call)

/* Runtimes look waits up at once. */
static void open_driver(void)
{
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        mtest_skip("there is no driver here");
    n_calls_of = (int (*)(const char *))dlsym(driver, "fakecuda_calls");
#ifndef IS_LINKED
    MTEST_CHECK(CALL(cuStreamSynchronize) && CALL(cuCtxSynchronize), "the driver has no waits");
#endif
    if (CALL(cuInit)(0) != CUDA_SUCCESS)
        mtest_skip("there is no GPU here");
}

/* A stream of the current context. */
static void begin(void)
{
    MPI_Info info;

    CU(CALL(cuStreamCreate)(&cuda, CU_STREAM_NON_BLOCKING));
    CU(CALL(cuMemAlloc)(&from, N_BYTES));
    CU(CALL(cuMemAlloc)(&to, N_BYTES));
    MTEST_OK(MPI_Info_create(&info));
    MTEST_OK(MPI_Info_set(info, "type", "cudaStream_t"));
    MTEST_OK(MPIX_Info_set_hex(info, "value", &cuda, sizeof cuda));
    MTEST_OK(MPIX_Stream_create(info, &stream));
    MTEST_OK(MPI_Info_free(&info));
    MTEST_OK(MPIX_Stream_comm_create(MPI_COMM_SELF, stream, &comm));
}

static void end(void)
{
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_OK(MPIX_Stream_free(&stream));
    CU(CALL(cuMemFree)(from));
    CU(CALL(cuMemFree)(to));
    CU(CALL(cuStreamDestroy)(cuda));
}

static void add(void)
{
    MTEST_OK(MPIX_Allreduce_enqueue((void *)from, (void *)to, N, MPI_UNSIGNED, MPI_SUM, comm));
}

static void free_once(void)
{
    CUdeviceptr memory;

    CU(CALL(cuMemAlloc)(&memory, PAGE));
    CU(CALL(cuMemFree)(memory));
}

static void unregister_once(void)
{
    static char page[PAGE] __attribute__((aligned(PAGE)));

    CU(CALL(cuMemHostRegister)(page, PAGE, 0));
    CU(CALL(cuMemHostUnregister)(page));
}

/* ---- Threads that free ---- */

static void *free_until_done(void *unused)
{
    CU(CALL(cuCtxSetCurrent)(context));
    while (!is_done)
        free_once();
    return unused;
}

static void add_beside_many(void)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        MTEST_CHECK(pthread_create(&threads[i], NULL, free_until_done, NULL) == 0, "a thread");
    for (int i = 0; i < ADDS; i++) {
        add();
        CU(CALL(cuStreamSynchronize)(cuda));
    }
    is_done = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void *repeat(void *function)
{
    CU(CALL(cuCtxSetCurrent)(context));
    for (int i = 0; i < FREES; i++)
        (*(void (**)(void))function)();
    is_done = true;
    return NULL;
}

static void launch_beside(void (*function)(void))
{
    CUgraphExec exec;
    CUgraph graph;
    pthread_t thread;

    CU(CALL(cuStreamBeginCapture)(cuda, CU_STREAM_CAPTURE_MODE_RELAXED));
    add();
    CU(CALL(cuStreamEndCapture)(cuda, &graph));
    CU(CALL(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    CU(CALL(cuGraphDestroy)(graph));
    MTEST_CHECK(pthread_create(&thread, NULL, repeat, &function) == 0, "a thread");
    while (!is_done) {
        CU(CALL(cuGraphLaunch)(exec, cuda));
        CU(CALL(cuStreamSynchronize)(cuda));
    }
    pthread_join(thread, NULL);
    CU(CALL(cuGraphExecDestroy)(exec));
}

/* ---- A thread that adds operations ---- */

static void *add_until_done(void *unused)
{
    CUevent events[IN_FLIGHT];

    CU(CALL(cuCtxSetCurrent)(context));
    for (int i = 0; i < IN_FLIGHT; i++)
        CU(CALL(cuEventCreate)(&events[i], CU_EVENT_DISABLE_TIMING));
    for (int i = 0; !is_done; i = (i + 1) % IN_FLIGHT) {
        CU(CALL(cuEventSynchronize)(events[i]));
        add();
        CU(CALL(cuEventRecord)(events[i], cuda));
        n_added++;
    }
    CU(CALL(cuStreamSynchronize)(cuda));
    has_ended = true;
    return unused;
}

static void free_beside_adder(void)
{
    pthread_t thread;
    int flag;

    MTEST_CHECK(pthread_create(&thread, NULL, add_until_done, NULL) == 0, "a thread");
    while (n_added < IN_FLIGHT)
        sched_yield();
    for (int i = 0; i < OWN_FREES; i++)
        free_once();
    is_done = true;
    while (!has_ended) /* serves the thread's last operations */
        MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
    pthread_join(thread, NULL);
}

/* ---- One thread ---- */

/* A free does not end a capture while another GPU waits. */
static void free_during_capture(CUstream captured)
{
    CUdeviceptr memory;
    CUgraph graph;

    CU(CALL(cuMemAlloc)(&memory, PAGE));
    CU(CALL(cuStreamBeginCapture)(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(CALL(cuMemFree)(memory));
    CU(CALL(cuStreamEndCapture)(captured, &graph));
    CU(CALL(cuGraphDestroy)(graph));
}

/* The stream waits for the PE, which serves it during the free. */
static void free_behind_other_gpu(void)
{
    CUcontext other;
    CUdeviceptr memory;
    CUevent event;
    CUstream behind;
    MPI_Request request;
    unsigned data[N] = {0};

    CU(CALL(cuDevicePrimaryCtxRetain)(&other, 1));
    CU(CALL(cuCtxSetCurrent)(other));
    CU(CALL(cuMemAlloc)(&memory, PAGE));
    CU(CALL(cuStreamCreate)(&behind, CU_STREAM_NON_BLOCKING));
    CU(CALL(cuCtxSetCurrent)(context));
    CU(CALL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
    MTEST_OK(MPI_Isend(data, N, MPI_UNSIGNED, 0, 0, comm, &request));
    MTEST_OK(MPIX_Recv_enqueue((void *)to, N, MPI_UNSIGNED, 0, 0, comm, MPI_STATUS_IGNORE));
    CU(CALL(cuEventRecord)(event, cuda));
    CU(CALL(cuCtxSetCurrent)(other));
    free_during_capture(behind);
    CU(CALL(cuStreamWaitEvent)(behind, event, 0));
    CU(CALL(cuMemFree)(memory));
    CU(CALL(cuStreamDestroy)(behind));
    CU(CALL(cuCtxSetCurrent)(context));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CU(CALL(cuStreamSynchronize)(cuda));
    CU(CALL(cuEventDestroy)(event));
}

/* What CUDA refuses does not wait. */
static void unregister_unknown(void)
{
    static char page[PAGE];
    unsigned data[N] = {0};

    MTEST_OK(MPIX_Recv_enqueue((void *)to, N, MPI_UNSIGNED, 0, 0, comm, MPI_STATUS_IGNORE));
    MTEST_CHECK(CALL(cuMemHostUnregister)(page) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "not registered");
    MTEST_OK(MPI_Send(data, N, MPI_UNSIGNED, 0, 0, comm));
    CU(CALL(cuStreamSynchronize)(cuda));
}

static void CUDA_CB work_a_while(void *unused)
{
    (void)unused;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

static void *free_given(void *memory)
{
    CU(CALL(cuCtxSetCurrent)(context));
    is_done = true;
    CU(CALL(cuMemFree)(*(CUdeviceptr *)memory));
    return NULL;
}

/* A thread's free waits for a message that is sent after a free on another GPU, which works. */
static void free_on_other_gpu(void)
{
    unsigned data[N] = {0};
    CUdeviceptr memory, others;
    MPI_Request request;
    pthread_t thread;
    CUstream busy;
    CUcontext other;

    CU(CALL(cuMemAlloc)(&memory, PAGE));
    CU(CALL(cuDevicePrimaryCtxRetain)(&other, 1));
    CU(CALL(cuCtxSetCurrent)(other));
    CU(CALL(cuMemAlloc)(&others, PAGE));
    CU(CALL(cuStreamCreate)(&busy, CU_STREAM_NON_BLOCKING));
    MTEST_OK(MPIX_Recv_enqueue((void *)to, N, MPI_UNSIGNED, 0, 0, comm, MPI_STATUS_IGNORE));
    MTEST_CHECK(pthread_create(&thread, NULL, free_given, &memory) == 0, "a thread");
    while (!is_done)
        sched_yield();
    CU(CALL(cuLaunchHostFunc)(busy, work_a_while, NULL));
    CU(CALL(cuMemFree)(others));
    MTEST_OK(MPI_Isend(data, N, MPI_UNSIGNED, 0, 0, comm, &request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    pthread_join(thread, NULL);
    CU(CALL(cuStreamDestroy)(busy));
    CU(CALL(cuCtxSetCurrent)(context));
    CU(CALL(cuStreamSynchronize)(cuda));
}

/* ---- A stream that waits for operations of another GPU ---- */

/* A thread frees on that stream's GPU. */
static void join_beside(void)
{
    void (*function)(void) = free_once;
    CUcontext first = context;
    CUstream behind;
    CUevent event;
    pthread_t thread;

    CU(CALL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
    CU(CALL(cuDevicePrimaryCtxRetain)(&context, 1));
    CU(CALL(cuCtxSetCurrent)(context));
    CU(CALL(cuStreamCreate)(&behind, CU_STREAM_NON_BLOCKING));
    MTEST_CHECK(pthread_create(&thread, NULL, repeat, &function) == 0, "a thread");
    CU(CALL(cuCtxSetCurrent)(first));
    while (!is_done) {
        add();
        CU(CALL(cuEventRecord)(event, cuda));
        for (int i = 0; i < YIELDS; i++) /* a free may begin */
            sched_yield();
        CU(CALL(cuStreamWaitEvent)(behind, event, 0));
        CU(CALL(cuStreamSynchronize)(cuda));
    }
    pthread_join(thread, NULL);
    CU(CALL(cuEventDestroy)(event));
    CU(CALL(cuStreamDestroy)(behind));
    context = first;
}

/* ---- A host function that waits for operations of another GPU ---- */

static int n_frees_before;

static void CUDA_CB wait_for_operations(void *unused)
{
    (void)unused;
    while (n_added < ADDS)
        sched_yield();
}

/* cuMemFree waits for the function. */
static bool a_free_waits(void)
{
    return n_calls_of("cuMemFree") > n_frees_before;
}

static void *free_on(void *memory)
{
    CUcontext other;

    CU(CALL(cuDevicePrimaryCtxRetain)(&other, 1));
    CU(CALL(cuCtxSetCurrent)(other));
    CU(CALL(cuMemFree)(*(CUdeviceptr *)memory));
    return NULL;
}

static void *add_during_free(void *unused)
{
    CU(CALL(cuCtxSetCurrent)(context));
    while (!a_free_waits())
        sched_yield();
    while (n_added < ADDS) {
        add();
        CU(CALL(cuStreamSynchronize)(cuda));
        n_added++;
    }
    return unused;
}

/* is_own: the rank frees, and a thread adds. */
static void free_behind_function(bool is_own)
{
    CUdeviceptr memory;
    CUcontext other;
    CUstream busy;
    pthread_t thread;

    CU(CALL(cuDevicePrimaryCtxRetain)(&other, 1));
    CU(CALL(cuCtxSetCurrent)(other));
    CU(CALL(cuMemAlloc)(&memory, PAGE));
    CU(CALL(cuStreamCreate)(&busy, CU_STREAM_NON_BLOCKING));
    n_frees_before = n_calls_of("cuMemFree");
    CU(CALL(cuLaunchHostFunc)(busy, wait_for_operations, NULL));
    MTEST_CHECK(pthread_create(&thread, NULL, is_own ? add_during_free : free_on, &memory) == 0, "a thread");
    (void)(is_own ? free_on : add_during_free)(&memory);
    pthread_join(thread, NULL);
    CU(CALL(cuCtxSetCurrent)(other));
    CU(CALL(cuStreamDestroy)(busy));
    CU(CALL(cuCtxSetCurrent)(context));
}

/* MPI_Free_mem is local, and the library gives the memory back later: neither waits for the function. */
static void add_behind_function(void)
{
    CUstream busy;
    MPI_Info info;
    void *memory;

    CU(CALL(cuStreamCreate)(&busy, CU_STREAM_NON_BLOCKING));
    MTEST_OK(MPI_Info_create(&info));
    MTEST_OK(MPI_Info_set(info, "mpi_memory_alloc_kinds", "cuda:device"));
    MTEST_OK(MPI_Alloc_mem(PAGE, info, &memory));
    MTEST_OK(MPI_Info_free(&info));
    CU(CALL(cuLaunchHostFunc)(busy, wait_for_operations, NULL));
    MTEST_OK(MPI_Free_mem(memory));
    while (n_added < ADDS) {
        add();
        CU(CALL(cuStreamSynchronize)(cuda));
        n_added++;
    }
    CU(CALL(cuStreamDestroy)(busy));
}

/* ---- Contexts of the program ---- */

/* A stream of the current context waits for the PE, which serves it during the next call. */
static MPI_Request begin_wait(void)
{
    static const unsigned data[N];
    MPI_Request request;

    MTEST_OK(MPI_Isend(data, N, MPI_UNSIGNED, 0, 0, comm, &request));
    MTEST_OK(MPIX_Recv_enqueue((void *)to, N, MPI_UNSIGNED, 0, 0, comm, MPI_STATUS_IGNORE));
    return request;
}

/* The driver waits for all streams of the GPU. */
static void destroy_beside_wait(void)
{
    for (int i = 0; i < FREES; i++) {
        MPI_Request request;
        CUcontext own, popped;
        CU(CALL(cuCtxCreate)(&own, NULL, 0, 0));
        if (i % 2)
            CU(CALL(cuCtxPopCurrent)(&popped));
        request = begin_wait();
        CU(CALL(cuCtxDestroy)(own));
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CU(CALL(cuStreamSynchronize)(cuda));
    }
}

/* Memory of a context that is not current, whose stream waits. */
static void free_elsewhere(int device)
{
    CUcontext own;

    CU(CALL(cuCtxCreate)(&own, NULL, 0, device));
    begin();
    for (int i = 0; i < FREES; i++) {
        MPI_Request request;
        CUdeviceptr memory;
        void *pinned;
        CU(CALL(cuMemAlloc)(&memory, PAGE));
        CU(CALL(cuMemAllocHost)(&pinned, PAGE));
        request = begin_wait();
        CU(CALL(cuCtxSetCurrent)(i % 2 ? context : NULL));
        CU(CALL(cuCtxSetCurrent)(context));
        if (i % 4 < 2)
            CU(CALL(cuMemFree)(memory));
        CU(CALL(cuMemFreeHost)(pinned));
        if (i % 4 >= 2)
            CU(CALL(cuMemFree)(memory));
        CU(CALL(cuCtxSetCurrent)(own));
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CU(CALL(cuStreamSynchronize)(cuda));
    }
    end();
    CU(CALL(cuCtxDestroy)(own));
    CU(CALL(cuCtxSetCurrent)(context));
}

/* The context ends at different times after the library has freed its memory there. */
static void end_contexts(void)
{
    for (int i = 0; i < CONTEXTS; i++) {
        CUcontext own;
        CU(CALL(cuCtxCreate)(&own, NULL, 0, 0));
        begin();
        add();
        CU(CALL(cuStreamSynchronize)(cuda));
        end();
        nanosleep(&(struct timespec){.tv_nsec = i * 37 % 1500 * 1000}, NULL);
        CU(CALL(cuCtxDestroy)(own));
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int n_devices = 0, provided;

    MTEST_OK(MPI_Init_thread(&argc, &argv, strstr(what, "own") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                             &provided));
    mtest_learn_world(1);
    open_driver();
    if (strcmp(what, "contexts") == 0) {
        end_contexts();
        return mtest_end();
    }
    CU(CALL(cuDeviceGetCount)(&n_devices));
    CU(CALL(cuDevicePrimaryCtxRetain)(&context, 0));
    CU(CALL(cuCtxSetCurrent)(context));
    begin();
    add();
    CU(CALL(cuStreamSynchronize)(cuda));
    if (strcmp(what, "many") == 0)
        add_beside_many();
    else if (strcmp(what, "graph") == 0)
        launch_beside(free_once);
    else if (strcmp(what, "unregister") == 0)
        launch_beside(unregister_once);
    else if (strcmp(what, "own") == 0)
        free_beside_adder();
    else if (strcmp(what, "other") == 0 && n_devices > 1)
        free_behind_other_gpu();
    else if (strcmp(what, "turns") == 0 && n_devices > 1)
        free_on_other_gpu();
    else if (strcmp(what, "joined") == 0 && n_devices > 1)
        join_beside();
    else if (strcmp(what, "function_back") == 0)
        add_behind_function();
    else if (strncmp(what, "function", 8) == 0 && n_devices > 1 && n_calls_of)
        free_behind_function(strcmp(what, "function_own") == 0);
    else if (strcmp(what, "destroy") == 0)
        destroy_beside_wait();
    else if (strncmp(what, "elsewhere", 9) == 0) {
        end();
        free_elsewhere(what[9] == '1' && n_devices > 1);
        begin();
    } else if (strcmp(what, "refused") == 0)
        unregister_unknown();
    end();
    return mtest_end();
}
