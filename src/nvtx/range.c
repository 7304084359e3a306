/* SPDX-License-Identifier: BSD-3-Clause
 *
 * range.c: the domain and the attributes of the ranges. The ranks of a process share this library, so it has no state of a rank,
 * and the profiler gets one domain.
 *
 * A rank can be suspended in a call and resumed on another thread, and other ranks run in between. So these are
 * ranges of the process, with IDs; NVTX's other ranges (push and pop) must be nested on each thread.
 */
#include "nvtx/range.h"

#include "mpi-ext.h"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>

#pragma weak AMPI_World_rank /* as the functions of MPI (gen_nvtx.py) */

static nvtxDomainHandle_t domain; /* NULL: no profiler */

static void create_domain(void)
{
    domain = nvtxDomainCreateA("MPI");
}

/* The category of a rank: 0 means none. */
static uint32_t category_of(int rank)
{
    return (uint32_t)rank + 1;
}

uint64_t range_begin(const char *call)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    nvtxEventAttributes_t event = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
    int rank;

    pthread_once(&once, create_domain);
    if (!domain)
        return 0;
    rank = AMPI_World_rank();
    if (rank >= 0) {
        event.category = category_of(rank);
        event.payloadType = NVTX_PAYLOAD_TYPE_INT64;
        event.payload.llValue = rank;
    }
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = call;
    return nvtxDomainRangeStartEx(domain, &event);
}

void range_end(uint64_t range)
{
    if (domain)
        nvtxDomainRangeEnd(domain, range);
}

void range_name_rank(void)
{
    int rank = domain ? AMPI_World_rank() : -1;
    char name[32];

    if (rank < 0)
        return;
    snprintf(name, sizeof name, "rank %d", rank);
    nvtxDomainNameCategoryA(domain, category_of(rank), name);
}
