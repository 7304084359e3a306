/* SPDX-License-Identifier: BSD-3-Clause
 *
 * graph_instantiate.c: instantiations of CUDA graphs (stream_api.h). A graph with operations of MPI is uploaded here:
 * otherwise its first launch would upload it, and wait for streams that wait for the launch.
 */
#include "base/log.h"
#include "gpu/copy/gpu_pack.h"
#include "gpu/driver/module.h"
#include "gpu/kernels/kernels.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/offload.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/waits.h"

#define real gpu_stream_real

/* ---- Which graphs ---- */

typedef CUresult(CUDAAPI *nodes_fn)(CUgraph, CUgraphNode *, size_t *);
typedef CUresult(CUDAAPI *type_fn)(CUgraphNode, CUgraphNodeType *);
typedef CUresult(CUDAAPI *params_fn)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS *);

#define AS_TEXT(name) AS_TEXT_2(name)
#define AS_TEXT_2(name) #name

static bool is_kernel_of_library(CUgraphNode node)
{
    static const int kernels[] = {GPU_KERNEL_EXCHANGE, GPU_KERNEL_HOLD};
    params_fn get = (params_fn)gpu_driver_find(AS_TEXT(cuGraphKernelNodeGetParams));
    CUDA_KERNEL_NODE_PARAMS params;
    CUfunction function;
    CUdevice device;

    if (!get || !gpu_has_kernels() || get(node, &params) != CUDA_SUCCESS ||
        gpu_driver.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return false;
    for (size_t i = 0; i < BASE_COUNT(kernels); i++)
        if (!gpu_module_function(device, kernels[i], &function) && params.func == function)
            return true;
    return false;
}

#define NODE_TYPE_CONDITIONAL 13 /* CU_GRAPH_NODE_TYPE_CONDITIONAL, since CUDA 12.3 */

/* True if the node may be one of the library's (stream_graph.c), or have one. */
static bool may_wait(CUgraphNode node, type_fn type_of)
{
    CUgraphNodeType type;

    if (type_of(node, &type) != CUDA_SUCCESS)
        return false;
    return type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP || type == CU_GRAPH_NODE_TYPE_GRAPH ||
           (int)type == NODE_TYPE_CONDITIONAL ||
           (type == CU_GRAPH_NODE_TYPE_KERNEL && is_kernel_of_library(node));
}

static bool has_operations(CUgraph graph)
{
    nodes_fn nodes_of = (nodes_fn)gpu_driver_find("cuGraphGetNodes");
    type_fn type_of = (type_fn)gpu_driver_find("cuGraphNodeGetType");
    CUgraphNode *nodes;
    bool is_found = false;
    size_t n = 0;

    if (!nodes_of || !type_of || nodes_of(graph, NULL, &n) != CUDA_SUCCESS || n == 0)
        return false;
    nodes = base_malloc(n * sizeof(CUgraphNode), "the nodes of a graph");
    if (nodes_of(graph, nodes, &n) != CUDA_SUCCESS)
        n = 0;
    for (size_t i = 0; i < n && !is_found; i++)
        is_found = may_wait(nodes[i], type_of);
    free(nodes);
    return is_found;
}

/* ---- Uploading ---- */

/* The stream where the rank's latest capture ended, in which the program probably launches: an upload in another one does
 * not help. NULL: none, or it has work, which may wait for a later call of this rank. */
static CUstream stream_for_upload(struct gpu_rank_streams *rank)
{
    struct gpu_face *face;
    CUstream stream;
    bool is_known;

    pthread_mutex_lock(&rank->lock);
    stream = rank->captured_last;
    face = gpu_streams_face(rank, NULL);
    is_known = stream && (gpu_streams_find(rank, stream) || (face && face->thread.stream == stream));
    pthread_mutex_unlock(&rank->lock);
    return is_known && gpu_driver.cuStreamQuery(stream) == CUDA_SUCCESS ? stream : NULL;
}

/* Uploads a graph with operations of MPI. Errors are left to the launch. May switch. */
static void upload(CUgraphExec exec, CUgraph graph, const void *caller)
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    CUresult(CUDAAPI * function)(CUgraphExec, CUstream);
    CUstreamCaptureMode mode;
    CUstream stream;

    if (!rank || !atomic_load_explicit(&gpu_streams_wait_for_pes, memory_order_relaxed) ||
        !has_operations(graph))
        return;
    mode = gpu_capture_set_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    function = (CUresult(CUDAAPI *)(CUgraphExec, CUstream))gpu_driver_find("cuGraphUpload");
    stream = stream_for_upload(rank);
    if (function && stream) {
        gpu_submit_begin(caller);
        (void)function(exec, stream);
        gpu_submit_end();
    }
    (void)gpu_capture_set_mode(mode);
    if (stream)
        (void)gpu_wait_for_stream(stream, caller);
}

/* ---- The functions ---- */

/* The driver may wait for the GPU (memory for the graph), so the call is offloaded. The context stays open: most graphs need
 * no memory, and are made while the GPU works. */
struct instantiation {
    struct gpu_offload offload;
    CUgraphExec *exec_out;
    CUgraph graph;
    unsigned long long flags;
    CUDA_GRAPH_INSTANTIATE_PARAMS *parameters; /* NULL: by flags */
    CUresult(CUDAAPI *by_parameters)(CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *);
};

static void run(struct gpu_offload *offload)
{
    const struct instantiation *call = BASE_CONTAINER(offload, struct instantiation, offload);

    offload->result = call->parameters
                          ? call->by_parameters(call->exec_out, call->graph, call->parameters)
                          : real.r_cuGraphInstantiateWithFlags(call->exec_out, call->graph, call->flags);
}

static CUresult instantiate_and_upload(struct instantiation call, const void *caller)
{
    CUresult result;

    call.offload.run = run;
    call.offload.label = "cuGraphInstantiate";
    result = gpu_offload_call(&call.offload, gpu_offload_is_wanted(caller));
    if (result == CUDA_SUCCESS)
        upload(*call.exec_out, call.graph, caller);
    return result;
}

CUresult CUDAAPI gpu_api_instantiate_with_flags(CUgraphExec *exec_out, CUgraph graph,
                                                unsigned long long flags)
{
    gpu_guard_prepare();
    return instantiate_and_upload(
        (struct instantiation){.exec_out = exec_out, .graph = graph, .flags = flags}, GPU_CALLER);
}

/* The driver writes its results into the struct. */
static CUresult instantiate(CUgraphExec *exec_out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters,
                            bool is_per_thread, const void *caller,
                            CUresult(CUDAAPI *function)(CUgraphExec *, CUgraph,
                                                        CUDA_GRAPH_INSTANTIATE_PARAMS *))
{
    struct gpu_call call;
    CUstream stream;
    CUresult result;

    if (!parameters)
        return function(exec_out, graph, parameters);
    if (!(parameters->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
        return instantiate_and_upload(
            (struct instantiation){
                .exec_out = exec_out, .graph = graph, .parameters = parameters, .by_parameters = function},
            caller);
    stream = parameters->hUploadStream;
    result = gpu_call_begin(&call, stream, is_per_thread, GPU_CALL_SUBMIT, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    parameters->hUploadStream = call.stream;
    result = function(exec_out, graph, parameters);
    gpu_call_end(&call);
    parameters->hUploadStream = stream;
    return result;
}

GPU_TWINS(gpu_api_instantiate, cuGraphInstantiateWithParams, _ptsz,
          (CUgraphExec * exec_out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters),
          instantiate(exec_out, graph, parameters, twin, GPU_CALLER, driver))
