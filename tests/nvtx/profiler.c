/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A profiler, as NVTX loads it (NVTX_INJECTION64_PATH). Appends a line to the file RANGES for each event:
 *
 *      profiler                             it was loaded
 *      category 4 rank 3                    a category gets a name
 *      begin RANGE 4 3 MPI_Send             a range, with its category and payload (-: none)
 *      end RANGE
 *
 * Events of other domains than "MPI" are not printed.
 */
#include <nvtx3/nvToolsExt.h>

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int file = -1;
static char mpi_domain; /* its address is the domain's handle */
static atomic_uint n_ranges;

/* One write for each line: ranks on several threads, and several processes, append to the file. */
#define PRINT(...)                                          \
    do {                                                    \
        char line[128];                                     \
        int len = snprintf(line, sizeof line, __VA_ARGS__); \
        if (write(file, line, (size_t)len) != len)          \
            abort();                                        \
    } while (0)

static nvtxDomainHandle_t create_domain(const char *name)
{
    return strcmp(name, "MPI") == 0 ? (nvtxDomainHandle_t)(void *)&mpi_domain : NULL;
}

static void name_category(nvtxDomainHandle_t domain, uint32_t category, const char *name)
{
    if ((void *)domain == &mpi_domain)
        PRINT("category %u %s\n", category, name);
}

static nvtxRangeId_t begin(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
    nvtxRangeId_t range = (nvtxRangeId_t)getpid() << 32 | atomic_fetch_add(&n_ranges, 1);
    char payload[24] = "-";

    if ((void *)domain != &mpi_domain)
        return 0;
    if (event->payloadType == NVTX_PAYLOAD_TYPE_INT64)
        snprintf(payload, sizeof payload, "%lld", (long long)event->payload.llValue);
    PRINT("begin %llx %u %s %s\n", (unsigned long long)range, event->category, payload, event->message.ascii);
    return range;
}

static int end(nvtxDomainHandle_t domain, nvtxRangeId_t range)
{
    if ((void *)domain == &mpi_domain)
        PRINT("end %llx\n", (unsigned long long)range);
    return 0;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable functions;
    unsigned int size;

    file = open(getenv("RANGES"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0 || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size))
        return 0;
    *functions[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create_domain;
    *functions[NVTX_CBID_CORE2_DomainNameCategoryA] = (NvtxFunctionPointer)name_category;
    *functions[NVTX_CBID_CORE2_DomainRangeStartEx] = (NvtxFunctionPointer)begin;
    *functions[NVTX_CBID_CORE2_DomainRangeEnd] = (NvtxFunctionPointer)end;
    PRINT("profiler\n");
    return 1;
}
