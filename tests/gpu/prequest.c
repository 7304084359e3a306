/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Kernels mark partitions ready, and kernels of the receiver find each of them with the data of its round: many rounds and blocks,
 * partitions of all sizes, in one process from GPU to GPU without a message, else by messages; mixed with MPI_Pready; and
 * MPI_Wait completes both ends. Partitions that the PE copies are gathered: neighbors are one copy. Arguments: queue, device: the marks, in place of flags, and of pinned memory.
 */
#include "prequest.h"

#define ROUNDS 12

struct test {
    const char *name;
    enum gtest_place from, to;
    int n_parts, n_recv_parts; /* of the send, of the receive */
    unsigned n_each;           /* elements of a partition of the send */
    int n_blocks;
    unsigned n_lanes;
    int is_strided; /* the receive's type has holes: it is not copied directly */
    int host_parts; /* the number of partitions that MPI_Pready marks */
};

static const struct test tests[] = {
    {"one word", GTEST_GPU0, GTEST_GPU0, 1, 1, 1, 1, 0, 0, 0},
    {"threads", GTEST_GPU0, GTEST_GPU0, 40, 40, 7, 9, 0, 0, 0},
    {"blocks", GTEST_GPU0, GTEST_GPU1, 27, 27, 1024, 5, 33, 0, 0},
    {"odd blocks", GTEST_GPU1, GTEST_GPU0, 9, 9, 1023, 9, 7, 0, 0},
    {"threads, too large", GTEST_GPU0, GTEST_GPU1, 6, 6, 3000, 3, 0, 0, 0},
    {"blocks, too large", GTEST_GPU0, GTEST_GPU0, 2, 2, 70000, 2, 64, 0, 0},
    {"many", GTEST_GPU0, GTEST_GPU0, 300, 300, 3, 4, 0, 0, 0},
    {"many, too large", GTEST_GPU0, GTEST_GPU0, 108, 108, 2048, 6, 0, 0, 0},
    {"many, odd and too large", GTEST_GPU0, GTEST_GPU1, 90, 90, 401, 7, 0, 0, 3},
    {"with the host", GTEST_GPU0, GTEST_GPU1, 10, 10, 64, 2, 16, 0, 4},
    {"into pinned memory", GTEST_GPU0, GTEST_PINNED, 8, 8, 100, 2, 0, 0, 0},
    {"into host memory", GTEST_GPU0, GTEST_HOST, 8, 8, 100, 2, 0, 0, 0},
    {"other partitions", GTEST_GPU0, GTEST_GPU0, 12, 4, 60, 3, 0, 0, 0},
    {"other type", GTEST_GPU0, GTEST_GPU0, 8, 8, 50, 2, 0, 1, 0},
};

static int is_next_near;

/* Only then does the receive's buffer get data without a message. */
static int expects_direct(const struct test *test)
{
    int from = test->from == GTEST_GPU1 && gtest_n_devices > 1, can = 1;
    int to = test->to == GTEST_GPU1 && gtest_n_devices > 1;

    if (from != to && (test->to == GTEST_GPU0 || test->to == GTEST_GPU1))
        GTEST_CU(cuDeviceCanAccessPeer(&can, from, to));
    return is_next_near && can && test->n_parts == test->n_recv_parts && !test->is_strided &&
           test->to != GTEST_HOST;
}

struct ends {
    struct gtest_buffer out, in;
    MPI_Request requests[2]; /* send, receive */
    MPIX_Prequest prequests[2];
    MPI_Datatype type; /* of the receive's elements */
    CUstream streams[2];
};

static unsigned spread(const struct test *test)
{
    return test->is_strided ? 2 : 1;
}

static struct ends begin(const struct test *test)
{
    struct ends ends;
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    unsigned n = (unsigned)test->n_parts * test->n_each;

    MTEST_OK(
        MPI_Type_create_resized(MPI_UNSIGNED, 0, (MPI_Aint)(sizeof(unsigned) * spread(test)), &ends.type));
    MTEST_OK(MPI_Type_commit(&ends.type));
    ends.in = gtest_alloc(test->to, n * sizeof(unsigned) * spread(test), NULL);
    GTEST_CU(cuStreamCreate(&ends.streams[1], CU_STREAM_NON_BLOCKING));
    MTEST_OK(MPI_Precv_init(ends.in.data, test->n_recv_parts, (int)n / test->n_recv_parts, ends.type, prev, 5,
                            MPI_COMM_WORLD, MPI_INFO_NULL, &ends.requests[1]));
    MTEST_OK(MPIX_Prequest_create(ends.requests[1], &ends.prequests[1]));
    ends.out = gtest_alloc(test->from, n * sizeof(unsigned), NULL);
    GTEST_CU(cuStreamCreate(&ends.streams[0], CU_STREAM_NON_BLOCKING));
    MTEST_OK(MPI_Psend_init(ends.out.data, test->n_parts, test->n_each, MPI_UNSIGNED, next, 5, MPI_COMM_WORLD,
                            ptest_info, &ends.requests[0]));
    MTEST_OK(MPIX_Prequest_create(ends.requests[0], &ends.prequests[0]));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return ends;
}

static void end(struct ends *ends, int is_prequest_first)
{
    for (int i = 0; i < 2; i++) {
        if (is_prequest_first) {
            MTEST_OK(MPIX_Prequest_free(&ends->prequests[i]));
            MTEST_CHECK(ends->prequests[i] == MPIX_PREQUEST_NULL, "the handle of a freed prequest");
        }
        MTEST_OK(MPI_Request_free(&ends->requests[i]));
        GTEST_CU(cuStreamDestroy(ends->streams[i]));
    }
    gtest_free(&ends->out);
    gtest_free(&ends->in);
    MTEST_OK(MPI_Type_free(&ends->type));
}

/* All that the kernel did not look at: the data at the host after MPI_Wait. */
static void check_data(const struct test *test, const struct ends *ends, int round)
{
    unsigned n = (unsigned)test->n_parts * test->n_each, step = spread(test);
    int prev = (mtest_rank + mtest_size - 1) % mtest_size;
    unsigned *image = mtest_alloc(n * step * sizeof *image);

    memset(image, GTEST_FILL_BYTE, n * step * sizeof *image);
    for (unsigned i = 0; i < n; i++)
        image[i * step] = ptest_value(prev, round, (int)(i / test->n_each), i % test->n_each);
    MTEST_CHECK(gtest_differs(&ends->in, image) == -1, "%s, round %d: byte %ld of the buffer", test->name,
                round, gtest_differs(&ends->in, image));
    free(image);
}

static void launch(const struct test *test, struct ends *ends, int round, struct ptest_kernel kernels[2])
{
    int prev = (mtest_rank + mtest_size - 1) % mtest_size;

    for (int i = 0; i < 2; i++)
        kernels[i] = (struct ptest_kernel){.part = i ? ptest_recv_part : ptest_send_part,
                                           .prequest = ends->prequests[i],
                                           .n_blocks = test->n_blocks,
                                           .n_parts = test->n_parts,
                                           .from_part = i ? 0 : test->host_parts,
                                           .n_each = test->n_each,
                                           .data = (uintptr_t)(i ? ends->in.data : ends->out.data),
                                           .rank = i ? prev : mtest_rank,
                                           .round = round,
                                           .n_lanes = test->n_lanes};
    if (ends->prequests[1] != MPIX_PREQUEST_NULL && test->n_parts == test->n_recv_parts && !test->is_strided)
        ptest_launch(&kernels[1], ends->streams[1]);
    ptest_launch(&kernels[0], ends->streams[0]);
}

static void mark_at_host(const struct test *test, struct ends *ends, int round)
{
    unsigned n = (unsigned)test->host_parts * test->n_each;
    unsigned *values = mtest_alloc((n + 1) * sizeof *values);

    for (unsigned i = 0; i < n; i++)
        values[i] = ptest_value(mtest_rank, round, (int)(i / test->n_each), i % test->n_each);
    gtest_select(test->from);
    GTEST_CU(cuMemcpyHtoDAsync((CUdeviceptr)ends->out.data, values, n * sizeof *values, ends->streams[0]));
    GTEST_CU(cuStreamSynchronize(ends->streams[0])); /* the other stream waits for this rank's neighbour */
    MTEST_OK(MPI_Pready_range(0, test->host_parts - 1, ends->requests[0]));
    free(values);
}

static void check_round(const struct test *test, struct ends *ends, int round)
{
    struct ptest_kernel kernels[2] = {{0}};
    MPI_Status statuses[2];
    int prev = (mtest_rank + mtest_size - 1) % mtest_size, count = -1, is_direct;

    MTEST_OK(MPI_Startall(2, ends->requests));
    if (round % 2)
        MTEST_OK(MPIX_Pbuf_prepareall(2, ends->requests));
    else
        MTEST_OK(MPIX_Pbuf_prepare(ends->requests[0]));
    is_direct = HEDDLE_PREQUEST_IS_DIRECT(ends->prequests[0]->state);
    MTEST_CHECK(is_direct == expects_direct(test), "%s, round %d: %s", test->name, round,
                is_direct ? "direct" : "a message");
    launch(test, ends, round, kernels);
    if (test->host_parts)
        mark_at_host(test, ends, round);
    if (round % 3 == 0)
        GTEST_CU(cuStreamSynchronize(ends->streams[1])); /* the PE goes on meanwhile */
    MTEST_OK(MPI_Waitall(2, ends->requests, statuses));
    MTEST_OK(MPI_Get_count(&statuses[1], MPI_UNSIGNED, &count));
    MTEST_CHECK(statuses[1].MPI_SOURCE == prev && statuses[1].MPI_TAG == 5 &&
                    count == test->n_parts * (int)test->n_each,
                "%s: source %d, tag %d, count %d", test->name, statuses[1].MPI_SOURCE, statuses[1].MPI_TAG,
                count);
    check_data(test, ends, round);
    for (int i = 0; i < 2; i++) {
        GTEST_CU(cuStreamSynchronize(ends->streams[i]));
        MTEST_CHECK(kernels[i].n_wrong == 0 && kernels[i].n_faults == 0,
                    "%s, round %d, %s kernel: %d wrong elements, %d errors", test->name, round,
                    i ? "receiving" : "sending", kernels[i].n_wrong, kernels[i].n_faults);
    }
}

/* A receive without a prequest; a send that is marked before its receive starts; a prequest for some of the rounds. */
static void without_prequest(void)
{
    static const struct test test = {"one side", GTEST_GPU0, GTEST_GPU0, 6, 6, 32, 2, 0, 0, 0};
    struct ends ends = begin(&test);
    struct ptest_kernel kernels[2];

    MTEST_OK(MPIX_Prequest_free(&ends.prequests[1]));
    for (int round = 1; round < 10; round++) {
        int is_late = round % 2, has_prequest = round % 4 < 2, flag = 0;
        if (!is_late)
            MTEST_OK(MPI_Start(&ends.requests[1]));
        MTEST_OK(MPI_Start(&ends.requests[0]));
        if (has_prequest) {
            launch(&test, &ends, round, kernels);
            GTEST_CU(cuStreamSynchronize(ends.streams[0]));
        } else {
            struct test host = test;
            host.host_parts = test.n_parts;
            mark_at_host(&host, &ends, round);
        }
        if (is_late)
            MTEST_OK(MPI_Start(&ends.requests[1]));
        while (!flag)
            MTEST_OK(MPI_Testall(2, ends.requests, &flag, MPI_STATUSES_IGNORE));
        check_data(&test, &ends, round);
        if (has_prequest && round % 4 == 1)
            MTEST_OK(MPIX_Prequest_free(&ends.prequests[0]));
        else if (round % 4 == 3)
            MTEST_OK(MPIX_Prequest_create(ends.requests[0], &ends.prequests[0]));
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    ends.prequests[1] = MPIX_PREQUEST_NULL;
    end(&ends, 0);
}

/* How often the library had the driver copy. */
static int count_copies(void)
{
    static const char *const names[] = {"cuMemcpyAsync", "cuMemcpyDtoDAsync", "cuLaunchKernel"};
    int n = 0;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        n += fakecuda_calls(names[i]);
    return n;
}

/* All partitions are marked by one call, or by a kernel before the PE looks. */
static void gathered(void)
{
    static const struct test test = {"gathered", GTEST_GPU0, GTEST_GPU0, 64, 64, 2048, 4, 0, 0, 0};
    struct ends ends = begin(&test);

    for (int round = 1; round <= 6; round++) {
        struct ptest_kernel kernels[2];
        struct test host = test;
        int n_copies, n_most = 20 * mtest_size;

        MTEST_OK(MPI_Startall(2, ends.requests));
        MTEST_OK(MPIX_Pbuf_prepareall(2, ends.requests));
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        n_copies = count_copies();
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        host.host_parts = round % 2 ? 64 : 0;
        launch(&host, &ends, round, kernels);
        if (round % 2)
            mark_at_host(&host, &ends, round);
        GTEST_CU(cuStreamSynchronize(ends.streams[0]));
        MTEST_OK(MPI_Waitall(2, ends.requests, MPI_STATUSES_IGNORE));
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        n_copies = count_copies() - n_copies;
        if (is_next_near && round % 2 &&
            !ptest_is_on_device) /* the PE copies marks in the GPU's memory to see them */
            MTEST_CHECK(n_copies <= n_most, "round %d: %d copies of 64 partitions", round, n_copies);
        check_data(&test, &ends, round);
        GTEST_CU(cuStreamSynchronize(ends.streams[1]));
        MTEST_CHECK(kernels[1].n_wrong == 0, "round %d: %d wrong elements", round, kernels[1].n_wrong);
    }
    end(&ends, 0);
}

/* To and from nobody. */
static void proc_null(void)
{
    MPI_Request requests[2];
    MPIX_Prequest prequests[2];
    struct gtest_buffer data = gtest_alloc(GTEST_GPU0, 4 * sizeof(unsigned), NULL);
    struct ptest_kernel kernel = {.part = ptest_send_part, .n_blocks = 2, .n_parts = 4, .n_each = 1};
    CUstream stream;

    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MTEST_OK(MPI_Psend_init(data.data, 4, 1, MPI_UNSIGNED, MPI_PROC_NULL, 0, MPI_COMM_WORLD, ptest_info,
                            &requests[0]));
    MTEST_OK(MPI_Precv_init(data.data, 4, 1, MPI_UNSIGNED, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                            &requests[1]));
    for (int i = 0; i < 2; i++)
        MTEST_OK(MPIX_Prequest_create(requests[i], &prequests[i]));
    MTEST_OK(MPI_Startall(2, requests));
    MTEST_OK(MPIX_Pbuf_prepareall(2, requests));
    kernel.prequest = prequests[0];
    kernel.data = (uintptr_t)data.data;
    ptest_launch(&kernel, stream);
    MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    GTEST_CU(cuStreamSynchronize(stream));
    for (int i = 0; i < 2; i++) {
        MTEST_OK(MPIX_Prequest_free(&prequests[i]));
        MTEST_OK(MPI_Request_free(&requests[i]));
    }
    GTEST_CU(cuStreamDestroy(stream));
    gtest_free(&data);
}

int main(int argc, char **argv)
{
    ptest_init(&argc, &argv, 1);
    ptest_choose(argc, argv);
    is_next_near = ptest_is_near(1);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        struct ends ends = begin(&tests[i]);
        for (int round = 1; round <= ROUNDS; round++)
            check_round(&tests[i], &ends, round);
        end(&ends, i % 2 == 0);
    }
    without_prequest();
    gathered();
    proc_null();
    MTEST_OK(MPI_Info_free(&ptest_info));
    return mtest_end();
}
