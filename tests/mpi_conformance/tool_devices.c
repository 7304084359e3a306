/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_T: the counters of the address cache exist, and in a program that never uses CUDA no message causes a
 * look-up. */
#include "mtest.h"

static unsigned long read_counter(MPI_T_pvar_session session, const char *name)
{
    MPI_T_pvar_handle handle;
    unsigned long value = 12345;
    int index = -1, count = 0;

    MTEST_CHECK(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS, "%s", name);
    MTEST_CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS, "%s", name);
    MTEST_CHECK(MPI_T_pvar_read(session, handle, &value) == MPI_SUCCESS, "%s", name);
    MPI_T_pvar_handle_free(session, &handle);
    return value;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"heddle_device_hits",         "heddle_device_misses",
                                        "heddle_device_queries",      "heddle_gpu_service_sent_away",
                                        "heddle_gpu_stream_messages", "heddle_nccl_collectives"};
    static char large[200000], other[200000];
    MPI_T_pvar_session session;
    int provided, category = -1, n_cvars, n_pvars, n_categories, length = 0;

    mtest_init(&argc, &argv, 1);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    MTEST_CHECK(MPI_T_category_get_index("heddle_devices", &category) == MPI_SUCCESS, "the category");
    MPI_T_category_get_info(category, NULL, &length, NULL, &length, &n_cvars, &n_pvars, &n_categories);
    MTEST_CHECK(n_pvars == 6, "%d variables", n_pvars);
    for (int i = 0; i < 10; i++) {
        int right = (mtest_rank + 1) % mtest_size, left = (mtest_rank + mtest_size - 1) % mtest_size;
        MPI_Sendrecv(large, sizeof large, MPI_CHAR, right, 0, other, sizeof other, MPI_CHAR, left, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(large, other, 1000, MPI_SIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD);
    }
    for (int i = 0; i < 5; i++)
        MTEST_CHECK(read_counter(session, names[i]) == 0, "%s is %lu", names[i],
                    read_counter(session, names[i]));
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    return mtest_end();
}
