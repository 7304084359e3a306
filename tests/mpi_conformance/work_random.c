/* SPDX-License-Identifier: BSD-3-Clause */
/* Without a GPU, random work requests of all ranks on shared memory give the results of the order in which they were submitted: dependent and
 * independent ones, rows that overlap, messages of their results. */
#include "work_model.h"

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    for (int i = 0; i < 2; i++)
        MTEST_OK(AMPI_GPU_Work_register(i ? "second" : "first", NULL, 32, sizeof(struct wm_task), wm_cpu,
                                        &wm_kinds[i]));
    wm_run(4, argc > 1 ? atoi(argv[1]) : 60, argc > 2 ? (unsigned)atoi(argv[2]) : 1);
    return mtest_end();
}
