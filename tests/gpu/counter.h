/* SPDX-License-Identifier: BSD-3-Clause
 *
 * counter.h: reads a counter of MPI's tool interface by name.
 */
#ifndef GPU_TEST_COUNTER_H
#define GPU_TEST_COUNTER_H

#include "mtest.h"

static MPI_T_pvar_session gtest_session;
static MPI_T_pvar_handle gtest_counter;

/* After MPI_Init. */
static inline void gtest_count(const char *name)
{
    int index, count, provided;

    MTEST_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    MTEST_OK(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index));
    MTEST_OK(MPI_T_pvar_session_create(&gtest_session));
    MTEST_OK(MPI_T_pvar_handle_alloc(gtest_session, index, NULL, &gtest_counter, &count));
}

static inline unsigned long long gtest_counted(void)
{
    unsigned long long value = 0;

    MTEST_OK(MPI_T_pvar_read(gtest_session, gtest_counter, &value));
    return value;
}

#endif
