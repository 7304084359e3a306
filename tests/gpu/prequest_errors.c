/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Wrong use of kernels that send: calls of the host with a wrong request or prequest, and kernels that mark a partition twice, one that
 * does not exist, one of a receive or of a request that is not active. Each is an error of the call that can know of it, and later rounds
 * work. Arguments: fatal: a partition marked twice ends the job; queue, device: as in prequest.c.
 */
#include "prequest.h"

enum { PARTS = 5, EACH = 16 };

static MPI_Request requests[2]; /* send, receive */
static MPIX_Prequest prequests[2];
static struct gtest_buffer out, in;
static CUstream stream;
static int is_next_near, is_prev_near;

/* A kernel that makes one wrong call, and then marks all partitions. */
struct wrong {
    struct ptest_kernel kernel;
    int partition;
    int is_arrived; /* MPIX_Parrived, else MPIX_Pready */
    MPIX_Prequest of;
    int n_before; /* partitions to mark before the wrong call */
    int fault;
};

static void run_wrong(void *data)
{
    struct wrong *wrong = data;
    int flag = 0;

    for (int i = 0; i < wrong->n_before; i++)
        ptest_send_part(&wrong->kernel, i);
    wrong->fault = wrong->is_arrived ? (int)heddle_prequest_arrived(wrong->of, wrong->partition, &flag)
                                     : (int)heddle_prequest_ready(wrong->of, wrong->partition);
    for (int i = wrong->n_before; i < wrong->kernel.n_parts; i++)
        ptest_send_part(&wrong->kernel, i);
}

static void run(struct wrong *wrong, int round, int n_parts)
{
    wrong->kernel = (struct ptest_kernel){.prequest = prequests[0],
                                          .n_parts = n_parts,
                                          .n_each = EACH,
                                          .data = (uintptr_t)out.data,
                                          .rank = mtest_rank,
                                          .round = round};
    GTEST_CU((CUresult)fakecuda_launch(stream, run_wrong, wrong));
    GTEST_CU(cuStreamSynchronize(stream));
}

static void start(void)
{
    MTEST_OK(MPI_Startall(2, requests));
    MTEST_OK(MPIX_Pbuf_prepareall(2, requests));
    MTEST_CHECK(HEDDLE_PREQUEST_IS_DIRECT(prequests[0]->state) == is_next_near, "direct or not");
}

/* A round without mistakes. */
static void right_round(int round)
{
    int prev = (mtest_rank + mtest_size - 1) % mtest_size;
    unsigned image[PARTS * EACH];
    struct wrong none = {.of = prequests[1], .is_arrived = 1};

    for (unsigned i = 0; i < PARTS * EACH; i++)
        image[i] = ptest_value(prev, round, (int)(i / EACH), i % EACH);
    start();
    run(&none, round, PARTS);
    MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    MTEST_CHECK(none.fault == 0 && gtest_differs(&in, image) == -1, "a round after an error");
}

/* All ranks make the same mistake in a round of their sends; the receive has it, too, if it is not a message. */
static void wrong_send(int round, struct wrong wrong, int error_class, int fault)
{
    int error;

    start();
    run(&wrong, round, PARTS);
    MTEST_CHECK(wrong.fault == fault, "the kernel got %d instead of %d", wrong.fault, fault);
    MTEST_CLASS(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), error_class);
    error = MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MTEST_CLASS(error, is_prev_near ? error_class : MPI_SUCCESS);
    right_round(round + 1);
}

static void wrong_calls(void)
{
    MPIX_Prequest wrong = MPIX_PREQUEST_NULL, other = MPIX_PREQUEST_NULL;
    MPI_Request plain;
    int value = 0;

    MTEST_OK(MPI_Send_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &plain));
    MTEST_CLASS(MPIX_Prequest_create(plain, &wrong), MPI_ERR_REQUEST);
    MTEST_CLASS(MPIX_Prequest_create(MPI_REQUEST_NULL, &wrong), MPI_ERR_REQUEST);
    MTEST_CLASS(MPIX_Prequest_create(requests[0], NULL), MPI_ERR_ARG);
    MTEST_CLASS(MPIX_Prequest_create(requests[0], &wrong), MPI_ERR_REQUEST); /* it has one */
    MTEST_CLASS(MPIX_Prequest_free(&other), MPI_ERR_REQUEST);
    MTEST_CLASS(MPIX_Prequest_free(NULL), MPI_ERR_ARG);
    MTEST_CLASS(MPIX_Pbuf_prepare(plain), MPI_ERR_REQUEST);
    MTEST_CLASS(MPIX_Pbuf_prepare(requests[0]), MPI_ERR_REQUEST); /* not started */
    MTEST_CLASS(MPIX_Pbuf_prepareall(-1, requests), MPI_ERR_COUNT);
    MTEST_CLASS(MPIX_Pbuf_prepareall(2, NULL), MPI_ERR_REQUEST);
    MTEST_OK(MPI_Request_free(&plain));
    start();
    for (int i = 0; i < 2; i++) {
        other = prequests[i];
        MTEST_CLASS(MPIX_Prequest_free(&prequests[i]), MPI_ERR_REQUEST);
        MTEST_CHECK(prequests[i] == other, "the handle after an error");
    }
    MTEST_OK(MPI_Pready(1, requests[0]));
    MTEST_CLASS(MPI_Pready(1, requests[0]), MPI_ERR_ARG);
    run(&(struct wrong){.of = prequests[0], .partition = -1}, 1, 1); /* partition 0, and one error for Wait */
    MTEST_CLASS(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPI_ERR_ARG);
    (void)MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    right_round(2);
    start();
    run(&(struct wrong){.of = prequests[0], .partition = 0, .is_arrived = 0}, 3, 0); /* marks 0 */
    if (!ptest_has_queue && !ptest_is_on_device) /* else MPI_Pready does not know of it */
        MTEST_CLASS(MPI_Pready(0, requests[0]), MPI_ERR_ARG);
    MTEST_OK(MPI_Pready_range(1, PARTS - 1, requests[0]));
    MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
}

/* MPI_Pready and then a kernel mark a partition: the PE finds it in the queue. */
static void marked_by_both(int round)
{
    struct wrong none = {.of = prequests[0], .partition = 1, .n_before = 1};
    int error;

    start();
    MTEST_OK(MPI_Pready(1, requests[0]));
    run(&none, round, 1); /* partitions 0 and 1 */
    MTEST_CHECK(none.fault == HEDDLE_PREQUEST_FINE, "the kernel got %d", none.fault);
    MTEST_CLASS(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPI_ERR_ARG);
    error = MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MTEST_CLASS(error, is_prev_near ? MPI_ERR_ARG : MPI_SUCCESS);
    right_round(round + 1);
}

static void unknown_marks(void)
{
    static const char *const keys[] = {"heddle_prequest_marks", "heddle_prequest_memory"};
    MPI_Request request;
    MPI_Info info;

    for (int i = 0; i < 2; i++) {
        MTEST_OK(MPI_Info_create(&info));
        MTEST_OK(MPI_Info_set(info, keys[i], "marble"));
        MTEST_CLASS(MPI_Psend_init(out.data, PARTS, EACH, MPI_UNSIGNED, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                                   info, &request),
                    MPI_ERR_INFO_VALUE);
        MTEST_OK(MPI_Info_free(&info));
    }
}

/* Kernels use requests that are not active. */
static void inactive(void)
{
    struct wrong wrong = {.of = prequests[0], .partition = 3};

    run(&wrong, 0, 0);
    MTEST_CHECK(wrong.fault == HEDDLE_PREQUEST_INACTIVE, "the kernel got %d", wrong.fault);
    MTEST_CLASS(MPI_Start(&requests[0]), MPI_ERR_REQUEST);
    run(&wrong, 0, 0);
    MTEST_CLASS(MPIX_Prequest_free(&prequests[0]), MPI_ERR_REQUEST);
    MTEST_CHECK(prequests[0] == MPIX_PREQUEST_NULL, "the prequest is freed with the error");
    wrong.fault = 0;
    run(&wrong, 0, 0); /* it is freed */
    MTEST_CHECK(wrong.fault == HEDDLE_PREQUEST_INVALID, "the kernel got %d", wrong.fault);
    MTEST_OK(MPIX_Prequest_create(requests[0], &prequests[0]));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    right_round(20);
}

/* A kernel uses the receive's prequest wrongly before any data is sent. */
static void wrong_receive(struct wrong wrong, int error_class, int fault)
{
    start();
    run(&wrong, 0, 0);
    MTEST_CHECK(wrong.fault == fault, "the kernel got %d instead of %d", wrong.fault, fault);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_OK(MPI_Pready_range(0, PARTS - 1, requests[0]));
    MTEST_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    MTEST_CLASS(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), error_class);
    right_round(23);
}

/* The kernels run on another GPU than that of the buffer: the one that is current when the prequest is created. */
static void other_gpu(int round)
{
    CUstream before = stream;
    int can = 0;

    if (gtest_n_devices > 1)
        GTEST_CU(cuDeviceCanAccessPeer(&can, 1, 0));
    if (!can)
        return;
    MTEST_OK(MPIX_Prequest_free(&prequests[0]));
    gtest_select(GTEST_GPU1);
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MTEST_OK(MPIX_Prequest_create(requests[0], &prequests[0]));
    for (int i = 0; i < 3; i++) {
        right_round(round + i);
        gtest_select(i % 2 ? GTEST_GPU1 : GTEST_GPU0); /* which one is current later does not matter */
    }
    MTEST_OK(MPIX_Prequest_free(&prequests[0]));
    gtest_select(GTEST_GPU1);
    GTEST_CU(cuStreamDestroy(stream));
    stream = before;
    gtest_select(GTEST_GPU0);
    MTEST_OK(MPIX_Prequest_create(requests[0], &prequests[0]));
    right_round(round + 3);
}

int main(int argc, char **argv)
{
    int is_fatal;

    ptest_init(&argc, &argv, 2);
    ptest_choose(argc, argv);
    is_fatal = argc > 1 && strcmp(argv[1], "fatal") == 0;
    is_next_near = ptest_is_near(1);
    is_prev_near = ptest_is_near(-1);
    out = gtest_alloc(GTEST_GPU0, PARTS * EACH * sizeof(unsigned), NULL);
    in = gtest_alloc(GTEST_GPU0, PARTS * EACH * sizeof(unsigned), NULL);
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MTEST_OK(MPI_Psend_init(out.data, PARTS, EACH, MPI_UNSIGNED, (mtest_rank + 1) % mtest_size, 0,
                            MPI_COMM_WORLD, ptest_info, &requests[0]));
    MTEST_OK(MPI_Precv_init(in.data, PARTS, EACH, MPI_UNSIGNED, (mtest_rank + mtest_size - 1) % mtest_size, 0,
                            MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (int i = 0; i < 2; i++)
        MTEST_OK(MPIX_Prequest_create(requests[i], &prequests[i]));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (is_fatal) {
        struct wrong twice = {.of = prequests[0], .partition = 2, .n_before = 3};
        start();
        run(&twice, 1, PARTS);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        return mtest_end();
    }
    MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    wrong_calls();
    wrong_send(4, (struct wrong){.of = prequests[0], .partition = 2, .n_before = 3}, MPI_ERR_ARG,
               HEDDLE_PREQUEST_TWICE);
    wrong_send(6, (struct wrong){.of = prequests[0], .partition = PARTS}, MPI_ERR_ARG, HEDDLE_PREQUEST_RANGE);
    wrong_send(8, (struct wrong){.of = prequests[0], .partition = 0, .is_arrived = 1}, MPI_ERR_REQUEST,
               HEDDLE_PREQUEST_NO_RECEIVE);
    inactive();
    unknown_marks();
    if (ptest_has_queue)
        marked_by_both(30);
    other_gpu(40);
    wrong_receive((struct wrong){.of = prequests[1], .partition = 1}, MPI_ERR_REQUEST,
                  HEDDLE_PREQUEST_NO_SEND);
    wrong_receive((struct wrong){.of = prequests[1], .partition = PARTS, .is_arrived = 1}, MPI_ERR_ARG,
                  HEDDLE_PREQUEST_RANGE);
    for (int i = 0; i < 2; i++)
        MTEST_OK(MPI_Request_free(&requests[i])); /* frees the prequest, too */
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuStreamDestroy(stream));
    gtest_free(&out);
    gtest_free(&in);
    MTEST_OK(MPI_Info_free(&ptest_info));
    return mtest_end();
}
