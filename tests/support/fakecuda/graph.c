/* SPDX-License-Identifier: BSD-3-Clause
 *
 * graph.c: the fake driver's graphs. A node is a stream operation that was recorded instead of queued. A
 * launch is one operation that executes the nodes in the order of their capture, so each runs after its
 * dependencies.
 */
#include "fake.h"

/* ---- Nodes ---- */

static void unref_exec(struct fake_exec *exec);

static void unref_node(struct fake_node *node)
{
    if (--node->n_refs > 0)
        return;
    fake_nodes_clear(&node->after);
    if (node->original) {
        unref_node(node->original);
    } else {
        if (node->op->type == CU_GRAPH_NODE_TYPE_GRAPH)
            unref_exec(node->op->object);
        fake_op_free(node->op);
    }
    free(node);
}

struct fake_node *fake_graph_add(struct fake_graph *graph, struct fake_op *op)
{
    struct fake_node *node = calloc(1, sizeof *node);

    node->op = op;
    node->n_refs = 1;
    fake_nodes_add(&graph->nodes, node);
    return node;
}

struct fake_graph *fake_graph_create(void)
{
    return calloc(1, sizeof(struct fake_graph));
}

static void clear(struct fake_nodes *nodes)
{
    for (size_t i = 0; i < nodes->n; i++)
        unref_node(nodes->list[i]);
    fake_nodes_clear(nodes);
}

void fake_graph_free(struct fake_graph *graph)
{
    clear(&graph->nodes);
    free(graph);
}

FAKE_EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned flags)
{
    CUresult error = fake_enter(__func__);

    if (!error && flags)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        *graph = (CUgraph)fake_graph_create();
    return error;
}

FAKE_EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    fake_graph_free((struct fake_graph *)graph);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

/* Gives a list as the functions of graphs do: as much as there is room for, or how much there is if none is
 * given. */
static void give(const struct fake_nodes *from, CUgraphNode *to, size_t *n)
{
    for (size_t i = 0; to && i < *n; i++)
        to[i] = i < from->n ? (CUgraphNode)from->list[i] : NULL;
    if (!to || *n > from->n)
        *n = from->n;
}

FAKE_EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
    CUresult error = fake_enter(__func__);

    if (!error)
        give(&((struct fake_graph *)graph)->nodes, nodes, n);
    return error;
}

FAKE_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *dependencies,
                                                CUgraphEdgeData *edges, size_t *n)
{
    CUresult error = fake_enter(__func__);

    if (!error)
        give(&((struct fake_node *)node)->after, dependencies, n);
    return error;
}

FAKE_EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    CUresult error = fake_enter(__func__);

    if (!error)
        *type = ((struct fake_node *)node)->op->type;
    return error;
}

/* ---- Clones ---- */

/* A node's place in its graph. */
static size_t place_in(const struct fake_nodes *nodes, const struct fake_node *node)
{
    size_t i = 0;

    while (nodes->list[i] != node)
        i++;
    return i;
}

/* Nodes have no parameters that can be set, so the copies share them. */
FAKE_EXPORT CUresult cuGraphClone(CUgraph *clone_out, CUgraph original)
{
    CUresult error = fake_enter(__func__);
    struct fake_graph *graph = (struct fake_graph *)original, *clone;

    if (error)
        return error;
    if (!original || !clone_out)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    clone = fake_graph_create();
    for (size_t i = 0; i < graph->nodes.n; i++) {
        struct fake_node *from = graph->nodes.list[i], *to = fake_graph_add(clone, from->op);
        to->original = from;
        from->n_refs++;
        for (size_t k = 0; k < from->after.n; k++)
            fake_nodes_add(&to->after, clone->nodes.list[place_in(&graph->nodes, from->after.list[k])]);
    }
    *clone_out = (CUgraph)clone;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

/* ---- Executable graphs ---- */

struct fake_exec {
    struct fake_nodes nodes; /* first, as in a graph: a child node is one */
    cuuint64_t flags;
    int n_refs;              /* its handle, and launches that are under way */
    struct fake_wait latest; /* launch: the next waits for it */
};

/* The driver changes an executable graph for its next launches; here it has to be at rest. */
static void wait_for_launches(const struct fake_exec *exec)
{
    struct fake_wait latest = exec->latest;

    fake_wait_for(&(struct fake_waits){&latest, latest.stream != NULL});
}

static void take_nodes(struct fake_exec *exec, const struct fake_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.n; i++)
        graph->nodes.list[i]->n_refs++;
    clear(&exec->nodes);
    fake_nodes_add_all(&exec->nodes, &graph->nodes);
}

static void unref_exec(struct fake_exec *exec)
{
    if (--exec->n_refs > 0)
        return;
    clear(&exec->nodes);
    free(exec);
}

CUresult fake_exec_create(const char *function, struct fake_graph *graph, unsigned long long flags,
                          struct fake_exec **exec_out)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(function, &context);

    if (error)
        return error;
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    if (fake.has_all_locks) /* memory for the graph; seen on an H200, at times */
        fake_wait_device(context->device);
    *exec_out = calloc(1, sizeof **exec_out);
    (*exec_out)->n_refs = 1;
    (*exec_out)->flags = flags;
    take_nodes(*exec_out, graph);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    return fake_exec_create(__func__, (struct fake_graph *)graph, flags, (struct fake_exec **)exec);
}

FAKE_EXPORT CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
    CUresult error = fake_enter(__func__);

    if (!error)
        *flags = ((struct fake_exec *)exec)->flags;
    return error;
}

/* True if both have the same kinds of nodes in the same order, also in their child graphs. */
static bool are_alike(const struct fake_nodes *a, const struct fake_nodes *b)
{
    bool are = a->n == b->n;

    for (size_t i = 0; i < a->n && are; i++) {
        const struct fake_op *first = a->list[i]->op, *second = b->list[i]->op;
        are = first->type == second->type;
        if (are && first->type == CU_GRAPH_NODE_TYPE_GRAPH)
            are = are_alike(&((struct fake_exec *)first->object)->nodes,
                            &((struct fake_exec *)second->object)->nodes);
    }
    return are;
}

/* Takes graphs that are alike. */
FAKE_EXPORT CUresult cuGraphExecUpdate(CUgraphExec handle, CUgraph graph_handle,
                                       CUgraphExecUpdateResultInfo *info)
{
    struct fake_exec *exec = (struct fake_exec *)handle;
    struct fake_graph *graph = (struct fake_graph *)graph_handle;
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    memset(info, 0, sizeof *info);
    pthread_mutex_lock(&fake_lock);
    if (are_alike(&exec->nodes, &graph->nodes)) {
        wait_for_launches(exec);
        take_nodes(exec, graph);
    } else {
        info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        error = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    unref_exec((struct fake_exec *)exec);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

/* ---- Launches ---- */

static CUresult run_node(struct fake_op *op)
{
    CUresult error;

    pthread_mutex_lock(&fake_lock);
    while (op->is_ready && !op->is_ready(op))
        fake_pause(op->is_polled);
    pthread_mutex_unlock(&fake_lock);
    error = op->run(op);
    pthread_mutex_lock(&fake_lock);
    if (op->is_over) {
        op->is_over(op);
        pthread_cond_broadcast(&fake_changed);
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

static CUresult run_graph(struct fake_op *launch)
{
    struct fake_exec *exec = launch->object;
    CUresult error = CUDA_SUCCESS;

    for (size_t i = 0; i < exec->nodes.n && !error; i++)
        error = run_node(exec->nodes.list[i]->op);
    return error;
}

/* A copy of the child's nodes, which run one after the other. */
static struct fake_op *create_child(const struct fake_graph *child)
{
    struct fake_exec *copy = calloc(1, sizeof *copy);
    struct fake_op *op = fake_op_create(run_graph);

    copy->n_refs = 1;
    take_nodes(copy, child);
    op->type = CU_GRAPH_NODE_TYPE_GRAPH;
    op->object = copy;
    return op;
}

/* Lock held. */
static CUgraphNode add_node(CUgraph graph, struct fake_op *op, const CUgraphNode *dependencies, size_t n)
{
    struct fake_node *node = fake_graph_add((struct fake_graph *)graph, op);

    for (size_t i = 0; i < n; i++)
        fake_nodes_add(&node->after, (struct fake_node *)dependencies[i]);
    return (CUgraphNode)node;
}

FAKE_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode *node_out, CUgraph graph,
                                              const CUgraphNode *dependencies, size_t n, CUgraph child)
{
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    if (!graph || !child || graph == child || (n && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    *node_out = add_node(graph, create_child((struct fake_graph *)child), dependencies, n);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child)
{
    CUresult error = fake_enter(__func__);
    const struct fake_op *op = ((struct fake_node *)node)->op;

    if (error)
        return error;
    if (op->type != CU_GRAPH_NODE_TYPE_GRAPH)
        return CUDA_ERROR_INVALID_VALUE;
    *child = (CUgraph)op->object;
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode *node_out, CUgraph graph,
                                          const CUgraphNode *dependencies, size_t n,
                                          const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);
    struct fake_op *op;

    if (error)
        return error;
    if (!graph || !params || (n && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    error = fake_launch_op(
        &(struct fake_launch){params->func, (uint64_t)params->gridDimX * params->gridDimY * params->gridDimZ,
                              (uint64_t)params->blockDimX * params->blockDimY * params->blockDimZ,
                              params->kernelParams, params->extra},
        &op);
    if (!error)
        *node_out = add_node(graph, op, dependencies, n);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* Only its function is given. */
FAKE_EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
    const struct fake_op *op = node ? ((struct fake_node *)node)->op : NULL;
    CUresult error = fake_enter(__func__);

    if (error)
        return error;
    if (!op || op->type != CU_GRAPH_NODE_TYPE_KERNEL || !params)
        return CUDA_ERROR_INVALID_VALUE;
    *params = (CUDA_KERNEL_NODE_PARAMS){.func = op->object};
    return CUDA_SUCCESS;
}

/* The place of a graph's node in what was instantiated from the graph; exec->nodes.n: it is not there. */
static size_t find_node(const struct fake_exec *exec, const struct fake_node *node)
{
    size_t i = 0;

    while (i < exec->nodes.n && exec->nodes.list[i] != node && exec->nodes.list[i]->stands_for != node)
        i++;
    return i;
}

/* For the executable graph alone. */
FAKE_EXPORT CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec handle, CUgraphNode node, CUgraph child)
{
    struct fake_exec *exec = (struct fake_exec *)handle;
    CUresult error = fake_enter(__func__);
    struct fake_node *made;
    size_t i;

    if (error)
        return error;
    if (!exec || !node || !child)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    i = find_node(exec, (struct fake_node *)node);
    if (i == exec->nodes.n || exec->nodes.list[i]->op->type != CU_GRAPH_NODE_TYPE_GRAPH ||
        !are_alike(&((struct fake_exec *)exec->nodes.list[i]->op->object)->nodes,
                   &((struct fake_graph *)child)->nodes)) {
        error = CUDA_ERROR_INVALID_VALUE;
    } else {
        wait_for_launches(exec);
        made = calloc(1, sizeof *made);
        made->op = create_child((struct fake_graph *)child);
        made->n_refs = 1;
        made->stands_for = (struct fake_node *)node;
        unref_node(exec->nodes.list[i]);
        exec->nodes.list[i] = made;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

static void launch_is_over(struct fake_op *launch)
{
    unref_exec(launch->object);
}

CUresult fake_exec_queue(struct fake_exec *exec, struct fake_stream *stream)
{
    struct fake_op *op;

    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    op = fake_op_create(run_graph);
    op->object = exec;
    op->is_over = launch_is_over;
    exec->n_refs++;
    if (exec->latest.stream)
        fake_waits_add(&op->waits, exec->latest.stream, exec->latest.number);
    fake_queue(stream, op);
    exec->latest = (struct fake_wait){stream, stream->n_queued};
    return CUDA_SUCCESS;
}

/* What cuGetProcAddress gives for this name from CUDA 12 on. */
#undef cuGraphInstantiate
CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
FAKE_EXPORT CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    return fake_exec_create(__func__, (struct fake_graph *)graph, flags, (struct fake_exec **)exec);
}
