/* SPDX-License-Identifier: BSD-3-Clause */
/* Random work requests of all ranks on shared memory give the results of the order in which they were submitted, on GPUs, on CPUs and on both; also if
 * the GPUs have little memory (+work memory). */
#include "work.h"

int main(int argc, char **argv)
{
    wtest_init(&argc, &argv);
    gtest_select(argc > 3 && mtest_rank % 2 ? GTEST_GPU1 : GTEST_GPU0);
    wtest_register("first", wm_cpu, &wm_kinds[0]);
    wtest_register("second", wm_cpu, &wm_kinds[1]);
    wm_run(4, argc > 1 ? atoi(argv[1]) : 60, argc > 2 ? (unsigned)atoi(argv[2]) : 1);
    return mtest_end();
}
