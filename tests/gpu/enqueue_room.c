/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Nonblocking operations in a stream that does not go on return at once, however many there are, and so does the stream's
 * wait for them.
 */
#include "enqueue.h"

#define MESSAGES 300 /* in each direction; a stream gets 256 operations at a time */

static struct etest test;
static MPI_Request requests[2 * MESSAGES];

/* is_late: the stream goes on before it is told to wait. */
static void exchange(CUdeviceptr from, CUdeviceptr to, bool is_late)
{
    int other = mtest_rank ^ 1;

    etest_hold(&test);
    for (int i = 0; i < MESSAGES; i++) {
        size_t at = (size_t)i * sizeof(unsigned);
        MTEST_OK(
            MPIX_Irecv_enqueue((void *)(to + at), 1, MPI_UNSIGNED, other, 0, test.comm, &requests[2 * i]));
        MTEST_OK(MPIX_Isend_enqueue((void *)(from + at), 1, MPI_UNSIGNED, other, 0, test.comm,
                                    &requests[2 * i + 1]));
    }
    if (is_late)
        *test.flag = 1;
    MTEST_OK(MPIX_Waitall_enqueue(2 * MESSAGES, requests, MPI_STATUSES_IGNORE));
    *test.flag = 1;
    GTEST_CU(cuStreamSynchronize(test.cuda));
}

int main(int argc, char **argv)
{
    unsigned numbers[MESSAGES];
    CUdeviceptr from, to;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    test = etest_begin(0, 0);
    from = etest_alloc(MESSAGES);
    to = etest_alloc(MESSAGES);
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < MESSAGES; i++)
            numbers[i] = 1000 * round + i;
        GTEST_CU(cuMemcpyHtoD(from, numbers, sizeof numbers));
        exchange(from, to, round % 2 == 1);
        memset(numbers, 0, sizeof numbers);
        GTEST_CU(cuMemcpyDtoH(numbers, to, sizeof numbers));
        for (unsigned i = 0; i < MESSAGES; i++)
            MTEST_CHECK(numbers[i] == 1000 * round + i, "round %u: message %u is %u", round, i, numbers[i]);
    }
    etest_end(&test);
    return mtest_end();
}
