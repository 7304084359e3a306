/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Each rank's graphs with conditional nodes (IF, WHILE), graphs that kernels launch, and kernels compiled by NVRTC work on that
 * rank's data while the other ranks of the GPU do the same, and the results are sent to the next rank. Without a GPU it
 * is skipped.
 */
#include <nvrtc.h>

#include <cstdlib>
#include <vector>

#include "rank_check.cuh"

#define NVRTC(call) CHECK((call) == NVRTC_SUCCESS, #call)
#define ROUNDS 20

struct numbers {
    int left, n_turns, is_even, n_launched, compiled;
};

__device__ static int turns_of_rank; /* each rank has its own */
static cudaStream_t stream;
static numbers *data;

/* ---- Conditional nodes ---- */

__global__ static void turn(cudaGraphConditionalHandle handle, numbers *at)
{
    at->n_turns++;
    turns_of_rank++;
    cudaGraphSetConditional(handle, --at->left > 0);
}

__global__ static void ask(cudaGraphConditionalHandle handle, const numbers *at)
{
    cudaGraphSetConditional(handle, at->n_turns % 2 == 0);
}

__global__ static void mark(numbers *at)
{
    at->is_even = 1;
}

/* The graph that the node runs. */
static cudaGraph_t add_conditional(cudaGraph_t graph, cudaGraphConditionalHandle handle,
                                   cudaGraphConditionalNodeType type, cudaGraphNode_t *node)
{
    cudaGraphNodeParams params = {};
    cudaGraphNode_t behind = *node;

    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = 1;
#if CUDART_VERSION >= 13000
    CUDA(cudaGraphAddNode(node, graph, &behind, NULL, behind ? 1 : 0, &params));
#else
    CUDA(cudaGraphAddNode(node, graph, &behind, behind ? 1 : 0, &params));
#endif
    return params.conditional.phGraph_out[0];
}

static void begin_in(cudaGraph_t graph, const cudaGraphNode_t *behind, int n)
{
    CUDA(cudaStreamBeginCaptureToGraph(stream, graph, behind, NULL, n, cudaStreamCaptureModeGlobal));
}

static void end(cudaGraph_t graph)
{
    CUDA(cudaGetLastError());
    CUDA(cudaStreamEndCapture(stream, &graph));
}

static cudaGraphExec_t make_conditional(void)
{
    cudaGraphConditionalHandle more, even;
    cudaGraphNode_t node = NULL, nodes[4];
    cudaGraph_t graph, body;
    cudaGraphExec_t exec;
    size_t n = 4;

    CUDA(cudaGraphCreate(&graph, 0));
    CUDA(cudaGraphConditionalHandleCreate(&more, graph, 1, cudaGraphCondAssignDefault));
    CUDA(cudaGraphConditionalHandleCreate(&even, graph, 0, cudaGraphCondAssignDefault));
    body = add_conditional(graph, more, cudaGraphCondTypeWhile, &node);
    begin_in(body, NULL, 0);
    turn<<<1, 1, 0, stream>>>(more, data);
    end(body);
    begin_in(graph, &node, 1);
    ask<<<1, 1, 0, stream>>>(even, data);
    end(graph);
    CUDA(cudaGraphGetNodes(graph, nodes, &n));
    CHECK(n == 2, "%zu nodes", n);
    node = nodes[0] == node ? nodes[1] : nodes[0];
    body = add_conditional(graph, even, cudaGraphCondTypeIf, &node);
    begin_in(body, NULL, 0);
    mark<<<1, 1, 0, stream>>>(data);
    end(body);
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    return exec;
}

/* ---- Graphs that kernels launch ---- */

__global__ static void add(numbers *at)
{
    at->n_launched += 10;
}

__global__ static void launch(cudaGraphExec_t exec)
{
    cudaGraphLaunch(exec, cudaStreamGraphTailLaunch);
}

template <typename Launch> static cudaGraphExec_t capture(Launch work, unsigned long long flags)
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    work();
    CUDA(cudaGetLastError());
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, flags));
    CUDA(cudaGraphDestroy(graph));
    return exec;
}

/* ---- NVRTC ---- */

static cudaLibrary_t compile(cudaKernel_t *kernel)
{
    static const char source[] = "extern \"C\" __global__ void fill(int *to) { *to = VALUE; }";
    char value[32], arch[48];
    const char *options[] = {value, arch};
    cudaDeviceProp properties;
    cudaLibrary_t library;
    nvrtcProgram program;
    size_t n;

    CUDA(cudaGetDeviceProperties(&properties, 0));
    snprintf(value, sizeof value, "-DVALUE=%d", 1000 + rank);
    snprintf(arch, sizeof arch, "-arch=compute_%d%d", properties.major, properties.minor);
    NVRTC(nvrtcCreateProgram(&program, source, "fill.cu", 0, NULL, NULL));
    NVRTC(nvrtcCompileProgram(program, 2, options));
    NVRTC(nvrtcGetPTXSize(program, &n));
    std::vector<char> ptx(n);
    NVRTC(nvrtcGetPTX(program, ptx.data()));
    NVRTC(nvrtcDestroyProgram(&program));
    CUDA(cudaLibraryLoadData(&library, ptx.data(), NULL, NULL, 0, NULL, NULL, 0));
    CUDA(cudaLibraryGetKernel(kernel, library, "fill"));
    return library;
}

/* ---- All ---- */

static void expect(int from, const numbers *got, int n_rounds, int round)
{
    int n = from + 3 + round;

    CHECK(got->n_turns == n && got->is_even == (n % 2 == 0) && got->n_launched == 10 && got->compiled == 1000 + from,
          "round %d of %d, numbers of rank %d: %d turns, even %d, launched %d, compiled %d", round, n_rounds, from,
          got->n_turns, got->is_even, got->n_launched, got->compiled);
}

static void run(void)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size, n_turns, n_expected = 0;
    cudaKernel_t kernel;
    cudaLibrary_t library = compile(&kernel);
    cudaGraphExec_t conditional = make_conditional();
    cudaGraphExec_t launched = capture([] { add<<<1, 1, 0, stream>>>(data); }, cudaGraphInstantiateFlagDeviceLaunch);
    cudaGraphExec_t launcher = capture([=] { launch<<<1, 1, 0, stream>>>(launched); }, 0);
    int *to = &data->compiled;
    void *args[] = {&to};

    CUDA(cudaGraphUpload(launched, stream));
    for (int round = 0; round < ROUNDS; round++) {
        numbers first = {rank + 3 + round, 0, 0, 0, 0}, got;
        CUDA(cudaMemcpyAsync(data, &first, sizeof first, cudaMemcpyDefault, stream));
        CUDA(cudaGraphLaunch(conditional, stream));
        CUDA(cudaGraphLaunch(launcher, stream));
        CUDA(cudaLaunchKernel((const void *)kernel, dim3(1), dim3(1), args, 0, stream));
        CUDA(cudaStreamSynchronize(stream));
        MPI(MPI_Sendrecv(data, 5, MPI_INT, next, 0, &got, 5, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        expect(before, &got, ROUNDS, round);
        n_expected += rank + 3 + round;
    }
    CUDA(cudaMemcpyFromSymbol(&n_turns, turns_of_rank, sizeof n_turns));
    CHECK(n_turns == n_expected, "%d turns of the rank instead of %d", n_turns, n_expected);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    CUDA(cudaGraphExecDestroy(conditional));
    CUDA(cudaGraphExecDestroy(launcher));
    CUDA(cudaGraphExecDestroy(launched));
    CUDA(cudaLibraryUnload(library));
}

int main(int argc, char **argv)
{
    int n_devices = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0) {
        MPI_Finalize();
        return 77;
    }
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc(&data, sizeof *data));
    run();
    CUDA(cudaFree(data));
    MPI_Finalize();
    return 0;
}
