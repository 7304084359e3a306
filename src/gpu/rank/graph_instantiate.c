/* SPDX-License-Identifier: BSD-3-Clause
 *
 * graph_instantiate.c: instantiations of CUDA graphs (stream_api.h). A graph with operations of MPI is uploaded here:
 * otherwise its first launch would upload it, and wait for streams that wait for the launch.
 */
#include "base/log.h"
#include "gpu/copy/gpu_pack.h"
#include "gpu/driver/module.h"
#include "gpu/kernels/kernels.h"
#include "gpu/rank/deferred_frees.h"
#include "gpu/rank/graph_launches.h"
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
    params_fn get = (params_fn)gpu_driver_find(AS_TEXT(cuGraphKernelNodeGetParams));
    CUDA_KERNEL_NODE_PARAMS params;

    if (!gpu_has_kernels())
        return false;
    return !get || get(node, &params) != CUDA_SUCCESS ||
           gpu_module_is_kernel(params.func, GPU_KERNEL_EXCHANGE) ||
           gpu_module_is_kernel(params.func, GPU_KERNEL_HOLD);
}

#define NODE_TYPE_CONDITIONAL 13 /* CU_GRAPH_NODE_TYPE_CONDITIONAL, since CUDA 12.3 */

/* True if the node is one of the library's (stream_graph.c). */
static bool is_own(CUgraphNode node, CUgraphNodeType type)
{
    return type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP ||
           (type == CU_GRAPH_NODE_TYPE_KERNEL && is_kernel_of_library(node));
}

/* True if the node may be one of the library's, or have one. */
static bool may_wait(CUgraphNode node, type_fn type_of)
{
    CUgraphNodeType type;

    if (type_of(node, &type) != CUDA_SUCCESS)
        return true;
    return type == CU_GRAPH_NODE_TYPE_GRAPH || (int)type == NODE_TYPE_CONDITIONAL || is_own(node, type);
}

/* True if a node of the graph is such. if_unknown: the result where the nodes are not known. */
static bool has_node(CUgraph graph, bool (*is_such)(CUgraphNode, type_fn), bool if_unknown)
{
    nodes_fn nodes_of = (nodes_fn)gpu_driver_find("cuGraphGetNodes");
    type_fn type_of = (type_fn)gpu_driver_find("cuGraphNodeGetType");
    CUgraphNode *nodes;
    bool is_found = false;
    size_t n = 0;

    if (!nodes_of || !type_of || nodes_of(graph, NULL, &n) != CUDA_SUCCESS)
        return if_unknown;
    nodes = base_malloc((n + 1) * sizeof(CUgraphNode), "the nodes of a graph");
    if (n > 0 && nodes_of(graph, nodes, &n) != CUDA_SUCCESS) {
        free(nodes);
        return if_unknown;
    }
    for (size_t i = 0; i < n && !is_found; i++)
        is_found = is_such(nodes[i], type_of);
    free(nodes);
    return is_found;
}

/* True if the graph may have operations of MPI. */
static bool has_operations(CUgraph graph)
{
    return has_node(graph, may_wait, true);
}

/* ---- Graphs that kernels launch ---- */

/* True if the node is one of the library's, or has one. */
static bool is_operation(CUgraphNode node, type_fn type_of)
{
    CUresult(CUDAAPI * child_of)(CUgraphNode, CUgraph *);
    CUgraphNodeType type;
    CUgraph child;

    if (type_of(node, &type) != CUDA_SUCCESS)
        return false;
    if (type != CU_GRAPH_NODE_TYPE_GRAPH)
        return is_own(node, type);
    child_of = (CUresult(CUDAAPI *)(CUgraphNode, CUgraph *))gpu_driver_find("cuGraphChildGraphNodeGetGraph");
    return child_of && child_of(node, &child) == CUDA_SUCCESS && has_node(child, is_operation, false);
}

/* Nobody sees when a kernel launches a graph, so frees of memory could not wait for its operations of MPI. CUDA does not
 * let kernels launch graphs with waits, either. */
static bool is_refused(CUgraph graph, unsigned long long flags)
{
    static atomic_flag has_said = ATOMIC_FLAG_INIT;

    if (BASE_LIKELY(!(flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)) || !atomic_load(&gpu_graphs_wait) ||
        !has_node(graph, is_operation, false))
        return false;
    if (!atomic_flag_test_and_set(&has_said))
        base_log("cuGraphInstantiate: a graph with operations of MPI cannot be launched by kernels "
                 "(CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)");
    return true;
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

/* Uploads a graph that may have operations of MPI. Errors are left to the launch. May switch. */
static void upload(CUgraphExec exec, const void *caller)
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    CUresult(CUDAAPI * function)(CUgraphExec, CUstream);
    CUstreamCaptureMode mode;
    CUstream stream;

    if (!rank)
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
    int n_attempts = 0;

    do
        offload->result = call->parameters
                              ? call->by_parameters(call->exec_out, call->graph, call->parameters)
                              : real.r_cuGraphInstantiateWithFlags(call->exec_out, call->graph, call->flags);
    while (offload->result == CUDA_ERROR_OUT_OF_MEMORY && gpu_deferred_give_back(&n_attempts, false));
}

/* Notes whether the executable graph may have operations of MPI: true. */
static bool note(CUgraphExec exec, CUgraph graph)
{
    bool may_wait =
        atomic_load_explicit(&gpu_streams_wait_for_pes, memory_order_relaxed) && has_operations(graph);

    gpu_graph_exec_note(exec, may_wait);
    return may_wait;
}

static CUresult instantiate_and_upload(struct instantiation call, const void *caller)
{
    CUresult result;

    call.offload.run = run;
    call.offload.label = "cuGraphInstantiate";
    result = gpu_offload_call(&call.offload, gpu_offload_is_wanted(caller));
    if (result == CUDA_SUCCESS && note(*call.exec_out, call.graph))
        upload(*call.exec_out, caller);
    return result;
}

CUresult CUDAAPI gpu_api_instantiate_with_flags(CUgraphExec *exec_out, CUgraph graph,
                                                unsigned long long flags)
{
    gpu_guard_prepare();
    if (is_refused(graph, flags))
        return CUDA_ERROR_NOT_SUPPORTED;
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
    if (is_refused(graph, parameters->flags)) {
        parameters->hErrNode_out = NULL;
        parameters->result_out = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
        return CUDA_ERROR_NOT_SUPPORTED;
    }
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
    if (result == CUDA_SUCCESS)
        (void)note(*exec_out, graph);
    gpu_call_end(&call);
    parameters->hUploadStream = stream;
    return result;
}

GPU_TWINS(gpu_api_instantiate, cuGraphInstantiateWithParams, _ptsz,
          (CUgraphExec * exec_out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters),
          instantiate(exec_out, graph, parameters, twin, GPU_CALLER, driver))

/* ---- Changes ---- */

/* The executable graph gets nodes of this graph; NULL: of any. */
static void notice_change(CUgraphExec exec, CUgraph graph)
{
    gpu_guard_find();
    if (atomic_load(&gpu_graphs_wait) && (!graph || has_operations(graph)))
        gpu_graph_exec_note(exec, true);
}

CUresult CUDAAPI gpu_api_exec_update_v1(CUgraphExec exec, CUgraph graph, CUgraphNode *node_out,
                                        CUgraphExecUpdateResult *outcome_out)
{
    notice_change(exec, graph);
    return real.r_cuGraphExecUpdate(exec, graph, node_out, outcome_out);
}

CUresult CUDAAPI gpu_api_exec_update(CUgraphExec exec, CUgraph graph,
                                     CUgraphExecUpdateResultInfo *outcome_out)
{
    notice_change(exec, graph);
    return real.r_cuGraphExecUpdate_v2(exec, graph, outcome_out);
}

CUresult CUDAAPI gpu_api_exec_set_child(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    notice_change(exec, child);
    return real.r_cuGraphExecChildGraphNodeSetParams(exec, node, child);
}

CUresult CUDAAPI gpu_api_exec_set_node(CUgraphExec exec, CUgraphNode node, void *parameters)
{
    notice_change(exec, NULL);
    return real.r_cuGraphExecNodeSetParams(exec, node, parameters);
}
