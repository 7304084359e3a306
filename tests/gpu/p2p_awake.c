/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A PE does not fall asleep while another PE moves the buffer of one of its ranks: the copy ends before the
 * PE could be woken. Sleeps are counted on the fake driver, whose copies take longer here than an idle PE
 * polls otherwise; a machine under load may let rounds sleep, so there are more of them until one did not.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "counter.h"
#include "device.h"
#include "fakecuda.h"

#define N_BYTES (1 << 20)
#define ROUNDS 100
#define ROUNDS_MAX 3000

static bool has_cores(int n)
{
    cpu_set_t cores;

    return sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) >= n;
}

int main(int argc, char **argv)
{
    struct gtest_buffer buffer;
    int n_awake = 0, goes_on = 1;
    bool is_checked;

    setenv("FAKECUDA_DELAY_US", "200", 1);
    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_count("heddle_sleeps");
    buffer = gtest_alloc(mtest_rank % 2 ? GTEST_GPU1 : GTEST_GPU0, N_BYTES, NULL);
    is_checked = fakecuda_is_here() && has_cores(2); /* else PEs hardly poll before they sleep */
    for (int round = 0; goes_on; round++) {
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (mtest_rank == 0) {
            unsigned long long before = gtest_counted();
            MTEST_OK(MPI_Send(buffer.data, N_BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD));
            n_awake += gtest_counted() == before;
        } else if (mtest_rank == 1) {
            MTEST_OK(MPI_Recv(buffer.data, N_BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
        goes_on = round < ROUNDS || (is_checked && n_awake == 0 && round < ROUNDS_MAX);
        MTEST_OK(MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD));
    }
    if (mtest_rank == 0 && is_checked)
        MTEST_CHECK(n_awake > 0, "the sender's PE slept in each of %d rounds", ROUNDS_MAX);
    gtest_free(&buffer);
    return mtest_end();
}
