/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lookups.h: counts how often the library looks up addresses, for tests of requests that remember what their memory is.
 */
#ifndef GPU_TEST_LOOKUPS_H
#define GPU_TEST_LOOKUPS_H

#include "device.h"
#include "fakecuda.h"

static MPI_T_pvar_session lookups_session;
static MPI_T_pvar_handle lookups_counters[2];

static inline void lookups_open(void)
{
    static const char *const names[] = {"heddle_device_hits", "heddle_device_misses"};
    int provided, index, count;

    MTEST_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    MTEST_OK(MPI_T_pvar_session_create(&lookups_session));
    for (int i = 0; i < 2; i++) {
        MTEST_OK(MPI_T_pvar_get_index(names[i], MPI_T_PVAR_CLASS_COUNTER, &index));
        MTEST_OK(MPI_T_pvar_handle_alloc(lookups_session, index, NULL, &lookups_counters[i], &count));
    }
}

/* Lookups of this PE in the cache, and queries to the (fake) driver. */
static inline unsigned long long lookups_count(void)
{
    unsigned long long hits, misses;

    MTEST_OK(MPI_T_pvar_read(lookups_session, lookups_counters[0], &hits));
    MTEST_OK(MPI_T_pvar_read(lookups_session, lookups_counters[1], &misses));
    return hits + misses;
}

static inline int lookups_queries(void)
{
    return fakecuda_is_here() ? fakecuda_calls("cuPointerGetAttributes") : 0;
}

#endif
