/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_T: each copy of a message between device buffers is an event when it begins and one when it ends, with its bytes.
 */
#include "device.h"

#define N_BYTES (1 << 20)
#define ROUNDS 3

static long long copies[64];
static int n_begun, n_ended;
static long long n_bytes[2]; /* begun, ended */

static void on_copy(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety,
                    void *which)
{
    MPI_Count values[3] = {0};
    (void)registration, (void)safety;

    MPI_T_event_copy(event, values);
    n_bytes[which != NULL] += values[1];
    if (!which) {
        copies[n_begun++ % 64] = values[0];
        return;
    }
    n_ended++;
    MTEST_CHECK(values[2] == 0, "a copy failed");
    for (int i = 0; i < n_begun && i < 64; i++)
        if (copies[i] == values[0])
            return;
    MTEST_CHECK(0, "the end of a copy that has not begun");
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"heddle_copy_begin", "heddle_copy_end"};
    MPI_T_event_registration registrations[2];
    struct gtest_buffer buffer;
    int provided, index, all = 0;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    MTEST_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    for (int i = 0; i < 2; i++) {
        MTEST_OK(MPI_T_event_get_index(names[i], &index));
        MTEST_OK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registrations[i]));
        MTEST_OK(MPI_T_event_register_callback(registrations[i], MPI_T_CB_REQUIRE_MPI_RESTRICTED,
                                               MPI_INFO_NULL, i ? &all : NULL, on_copy));
    }
    buffer = gtest_alloc(mtest_rank % 2 ? GTEST_GPU1 : GTEST_GPU0, N_BYTES, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (mtest_rank == 0)
            MTEST_OK(MPI_Send(buffer.data, N_BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD));
        else if (mtest_rank == 1)
            MTEST_OK(MPI_Recv(buffer.data, N_BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 2; i++)
        MTEST_OK(MPI_T_event_handle_free(registrations[i], NULL, NULL));
    MTEST_CHECK(n_begun == n_ended && n_bytes[0] == n_bytes[1], "%d copies began, %d ended", n_begun,
                n_ended);
    MTEST_OK(MPI_Allreduce(&n_ended, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MTEST_CHECK(all >= ROUNDS, "%d copies of %d messages", all, ROUNDS);
    gtest_free(&buffer);
    return mtest_end();
}
