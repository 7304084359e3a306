/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Random work in five streams of each rank, with messages and collectives in streams, in graphs, by persistent requests
 * and by the host, has the same result as in the order of the program. All ranks draw the same plan, and each computes
 * the contents of all ranks' buffers; how a rank orders its streams is its own choice.
 * Arguments: the seed, how many steps, and features that are left out: g graphs, t threads, r new streams, f frees,
 * p persistent requests; "b": graphs and new streams between barriers only.
 */
#include "random_work.h"

/* ---- Messages ---- */

struct message {
    int from, to, sent, received, comm, tag, how;
    unsigned n;
};

static void enqueue_nonblocking(const struct message *m, int is_send, int buffer)
{
    struct pending *made;

    if (n_pending == PENDING_MAX)
        finish((int)own(PENDING_MAX));
    order(m->comm, buffer, !is_send);
    seen[m->comm][m->comm]++;
    made = &pending[n_pending++];
    *made = (struct pending){MPI_REQUEST_NULL, m->comm, buffer, !is_send, {0}};
    memcpy(made->seen, seen[m->comm], sizeof made->seen);
    if (is_send)
        MTEST_OK(MPIX_Isend_enqueue((void *)buffers[buffer], (int)m->n, MPI_UNSIGNED, m->to, m->tag,
                                    comms[m->comm], &made->request));
    else
        MTEST_OK(MPIX_Irecv_enqueue((void *)buffers[buffer], (int)lengths[buffer], MPI_UNSIGNED, m->from,
                                    m->tag, comms[m->comm], &made->request));
    note(m->comm, buffer, !is_send);
}

static void enqueue_blocking(const struct message *m, int is_send, int buffer)
{
    order(m->comm, buffer, !is_send);
    seen[m->comm][m->comm]++;
    if (is_send)
        MTEST_OK(MPIX_Send_enqueue((void *)buffers[buffer], (int)m->n, MPI_UNSIGNED, m->to, m->tag,
                                   comms[m->comm]));
    else
        MTEST_OK(MPIX_Recv_enqueue((void *)buffers[buffer], (int)lengths[buffer], MPI_UNSIGNED, m->from,
                                   m->tag, comms[m->comm], MPI_STATUS_IGNORE));
    note(m->comm, buffer, !is_send);
}

/* The host sends and receives; the other end of the message, too. */
static void by_host(const struct message *m, int is_send, int buffer)
{
    order(HOST, buffer, !is_send);
    if (is_send)
        MTEST_OK(MPI_Send((void *)buffers[buffer], (int)m->n, MPI_UNSIGNED, m->to, m->tag, MPI_COMM_WORLD));
    else
        MTEST_OK(MPI_Recv((void *)buffers[buffer], (int)lengths[buffer], MPI_UNSIGNED, m->from, m->tag,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void message(void)
{
    struct message m = {.from = (int)plan((unsigned)mtest_size), .comm = (int)plan(COMMS)};

    m.to = (m.from + 1 + (int)plan((unsigned)mtest_size - 1)) % mtest_size;
    m.sent = (int)plan(BUFFERS);
    m.received = (int)plan(BUFFERS);
    m.tag = (int)plan(3);
    m.how = (int)plan(8);
    m.n = shorter(m.sent, m.received);
    for (int is_send = 0; is_send < 2; is_send++)
        if (mtest_rank == (is_send ? m.from : m.to)) {
            if (m.how == 0)
                by_host(&m, is_send, is_send ? m.sent : m.received);
            else if (own(2))
                enqueue_blocking(&m, is_send, is_send ? m.sent : m.received);
            else
                enqueue_nonblocking(&m, is_send, is_send ? m.sent : m.received);
        }
    memcpy(contents[m.to][m.received], contents[m.from][m.sent], 4 * m.n);
}

static void collective(void)
{
    int comm = (int)plan(COMMS), what = (int)plan(3), buffer = (int)plan(BUFFERS),
        root = (int)plan((unsigned)mtest_size);
    void *data = (void *)buffers[buffer];
    int n = (int)lengths[buffer];

    order(comm, buffer, 1);
    seen[comm][comm]++;
    if (what == 0)
        MTEST_OK(MPIX_Barrier_enqueue(comms[comm]));
    else if (what == 1)
        MTEST_OK(MPIX_Bcast_enqueue(data, n, MPI_UNSIGNED, root, comms[comm]));
    else
        MTEST_OK(MPIX_Allreduce_enqueue(MPI_IN_PLACE, data, n, MPI_UNSIGNED, MPI_SUM, comms[comm]));
    note(comm, buffer, 1);
    for (int i = 0; i < n && what > 0; i++) {
        unsigned sum = what == 1 ? contents[root][buffer][i] : 0;
        for (int rank = 0; rank < mtest_size && what == 2; rank++)
            sum += contents[rank][buffer][i];
        for (int rank = 0; rank < mtest_size; rank++)
            contents[rank][buffer][i] = sum;
    }
}

/* Every rank's numbers go to the next one. */
static void simulate_ring(int sent, int received)
{
    for (int rank = 0; rank < mtest_size; rank++)
        memcpy(contents[(rank + 1) % mtest_size][received], contents[rank][sent],
               4 * shorter(sent, received));
}

static MPI_Request persistent[2];

static void persistent_ring(void)
{
    order(NON_BLOCKING, SENT, 0);
    order(NON_BLOCKING, RECEIVED, 1);
    order(NON_BLOCKING, SENT, 0);
    seen[NON_BLOCKING][NON_BLOCKING]++;
    if (plan(3) == 0) {
        order(HOST, SENT, 0);
        order(HOST, RECEIVED, 1);
        MTEST_OK(MPI_Startall(2, persistent));
        MTEST_OK(MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE));
    } else {
        MTEST_OK(MPIX_Startall_enqueue(2, persistent));
        MTEST_OK(MPIX_Waitall_enqueue(2, persistent, MPI_STATUSES_IGNORE));
    }
    note(NON_BLOCKING, SENT, 0);
    note(NON_BLOCKING, RECEIVED, 1);
    simulate_ring(SENT, RECEIVED);
}

/* ---- Graphs ---- */

/* Nobody's stream waits for a later call of this rank. */
static void rest(void)
{
    finish_those(-1, 1);
    GTEST_CU(cuCtxSynchronize());
    join_all();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static CUgraphExec capture(int comm, int sent, int received, unsigned factor, unsigned added)
{
    int left = (mtest_rank + mtest_size - 1) % mtest_size, right = (mtest_rank + 1) % mtest_size;
    MPI_Request requests[2];
    CUgraph graph;
    CUgraphExec exec;

    GTEST_CU(cuStreamBeginCapture(streams[comm], (CUstreamCaptureMode)own(3)));
    gtest_launch_update(buffers[sent], lengths[sent], factor, added, streams[comm]);
    if (mtest_size > 1) {
        MTEST_OK(MPIX_Irecv_enqueue((void *)buffers[received], (int)shorter(sent, received), MPI_UNSIGNED,
                                    left, 5, comms[comm], &requests[0]));
        MTEST_OK(MPIX_Isend_enqueue((void *)buffers[sent], (int)shorter(sent, received), MPI_UNSIGNED, right,
                                    5, comms[comm], &requests[1]));
        MTEST_OK(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
    }
    GTEST_CU(cuStreamEndCapture(streams[comm], &graph));
    GTEST_CU(cuGraphInstantiate(&exec, graph, 0));
    GTEST_CU(cuGraphDestroy(graph));
    return exec;
}

static void graph(void)
{
    int comm = 1 + (int)plan(COMMS - 1), sent = (int)plan(BUFFERS),
        received = (sent + 1 + (int)plan(BUFFERS - 1)) % BUFFERS;
    unsigned factor = 1 + plan(9), added = plan(1000), n = 1 + plan(3);
    struct computation update = {UPDATE, comm, sent, 0, factor, added};
    CUgraphExec exec;

    if (!has('b'))
        rest();
    exec = capture(comm, sent, received, factor, added);
    if (!has('b'))
        rest();
    order(comm, sent, 1);
    order(comm, received, 1);
    order(comm, sent, 1);
    seen[comm][comm]++;
    for (unsigned i = 0; i < n; i++) {
        GTEST_CU(cuGraphLaunch(exec, streams[comm]));
        for (int rank = 0; rank < mtest_size; rank++)
            simulate(&update, contents[rank]);
        if (mtest_size > 1)
            simulate_ring(sent, received);
    }
    note(comm, sent, 1);
    note(comm, received, 1);
    if (!has('b'))
        rest();
    GTEST_CU(cuGraphExecDestroy(exec));
}

/* ---- Memory and streams ---- */

static void replace_memory(void)
{
    int buffer = (int)plan(SENT);
    unsigned value = plan(1000);

    finish_those(buffer, 1);
    GTEST_CU(cuMemFree(buffers[buffer])); /* waits for work that uses it */
    GTEST_CU(cuMemAlloc(&buffers[buffer], lengths[buffer] * sizeof(unsigned)));
    order(OF_NULL, buffer, 1);
    seen[OF_NULL][OF_NULL]++;
    GTEST_CU(cuMemsetD32(buffers[buffer], value, lengths[buffer]));
    note(OF_NULL, buffer, 1);
    for (int rank = 0; rank < mtest_size; rank++)
        for (unsigned i = 0; i < lengths[buffer]; i++)
            contents[rank][buffer][i] = value;
}

/* The destroyed stream's work continues: cuCtxSynchronize waits for it. */
static void replace_stream(void)
{
    unsigned flags = own(2) ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING, has_flags;
    unsigned long long id, id_before;
    int priority = -(int)own(6), has_priority;

    if (!has('b'))
        rest();
    GTEST_CU(cuStreamGetId(streams[NEW], &id_before));
    GTEST_CU(cuStreamDestroy(streams[NEW]));
    if (own(2)) {
        GTEST_CU(cuCtxSynchronize());
        join_all();
    }
    GTEST_CU(cuStreamCreateWithPriority(&streams[NEW], flags, priority));
    if (seen[HOST][NEW] < seen[NEW][NEW]) { /* the new one's operations are not behind the old one's */
        GTEST_CU(cuCtxSynchronize());
        join_all();
    }
    is_blocking[NEW] = flags == CU_STREAM_DEFAULT;
    GTEST_CU(cuStreamGetPriority(streams[NEW], &has_priority));
    GTEST_CU(cuStreamGetFlags(streams[NEW], &has_flags));
    GTEST_CU(cuStreamGetId(streams[NEW], &id));
    MTEST_CHECK(
        has_priority == priority && has_flags == flags && (id != id_before || !has('i')),
        "step %d: a stream of priority %d with flags %u has priority %d, flags %u, the former id %llu", step,
        priority, flags, has_priority, has_flags, id);
    if (!has('b'))
        rest();
}

/* ---- All ---- */

static void one_step(void)
{
    unsigned what = plan(32);

    if (what < 12)
        compute_all(has('t') && what == 0);
    else if (what < 22 && mtest_size > 1)
        message();
    else if (what < 25)
        collective();
    else if (what < 27 && has('p'))
        persistent_ring();
    else if (what == 27 && has('g'))
        graph();
    else if (what == 28 && has('f'))
        replace_memory();
    else if (what == 29 && has('r'))
        replace_stream();
    else
        compute_all(0);
}

static void set_up(void)
{
    int left = (mtest_rank + mtest_size - 1) % mtest_size, right = (mtest_rank + 1) % mtest_size;

    GTEST_CU(cuStreamCreate(&streams[BLOCKING], CU_STREAM_DEFAULT));
    GTEST_CU(cuStreamCreate(&streams[NON_BLOCKING], CU_STREAM_NON_BLOCKING));
    GTEST_CU(cuStreamCreateWithPriority(&streams[NEW], CU_STREAM_DEFAULT, -1));
    streams[OF_THREAD] = CU_STREAM_PER_THREAD;
    for (int i = 0; i < BUFFERS; i++)
        buffers[i] = etest_alloc(lengths[i]);
    for (int i = 0; i < COMMS; i++)
        MTEST_OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, etest_stream(streams[i]), &comms[i]));
    MTEST_OK(MPI_Send_init((void *)buffers[SENT], (int)lengths[SENT], MPI_UNSIGNED, right, 9,
                           comms[NON_BLOCKING], &persistent[0]));
    MTEST_OK(MPI_Recv_init((void *)buffers[RECEIVED], (int)lengths[RECEIVED], MPI_UNSIGNED, left, 9,
                           comms[NON_BLOCKING], &persistent[1]));
    rest();
}

int main(int argc, char **argv)
{
    unsigned long seed = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    int n_steps = argc > 2 ? atoi(argv[2]) : 200, provided;

    features = argc > 3 ? argv[3] : "";
    if (has('t'))
        MTEST_OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    else
        MPI_Init(&argc, &argv);
    mtest_learn_world(1);
    gtest_init();
    gtest_load_kernels();
    GTEST_CU(cuCtxGetCurrent(&context));
    plan_state = 88172645463325252u + 7919 * seed;
    own_state = plan_state + 104729 * (uint64_t)(mtest_rank + 1);
    set_up();
    for (step = 0; step < n_steps; step++)
        one_step();
    rest();
    MTEST_CHECK(n_called == n_calls, "%u functions of the host instead of %u", n_called, n_calls);
    for (int i = 0; i < BUFFERS; i++)
        read_back(OF_NULL, i);
    rest();
    for (int i = 0; i < 2; i++)
        MTEST_OK(MPI_Request_free(&persistent[i]));
    for (int i = 0; i < COMMS; i++)
        MTEST_OK(MPI_Comm_free(&comms[i]));
    return mtest_end();
}
