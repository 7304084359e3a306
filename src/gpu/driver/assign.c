/* SPDX-License-Identifier: BSD-3-Clause
 *
 * assign.c: assigns GPUs to PEs; see gpu.h. Set once, before the ranks begin.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "gpu/gpu.h"

static struct {
    bool is_cyclic;
    int n_listed; /* 0: blocks, or cyclic */
    int listed[GPU_ASSIGN_MAX];
} assignment;

static bool parse_list(const char *text)
{
    int n = 0;

    do {
        char *end;
        long device = strtol(text, &end, 10);
        if (*text < '0' || *text > '9' || device >= GPU_ASSIGN_MAX || n == GPU_ASSIGN_MAX ||
            (*end != ',' && *end != '\0'))
            return false;
        assignment.listed[n++] = (int)device;
        text = *end ? end + 1 : end;
        if (*end == ',' && !*text)
            return false;
    } while (*text);
    assignment.n_listed = n;
    return true;
}

bool gpu_assign(const char *text)
{
    assignment.is_cyclic = strcmp(text, "cyclic") == 0;
    assignment.n_listed = 0;
    return assignment.is_cyclic || strcmp(text, "block") == 0 || parse_list(text);
}

int gpu_device_of_pe(int pe_index, int n_pes, int n_devices)
{
    int device;

    if (n_devices <= 0)
        return -1;
    if (assignment.n_listed == 0)
        return assignment.is_cyclic ? pe_index % n_devices : (int)((int64_t)pe_index * n_devices / n_pes);
    device = assignment.listed[pe_index % assignment.n_listed];
    if (device >= n_devices)
        base_fatal(2, "+gpus: there is no GPU %d for PE %d of this node; CUDA shows %d, numbered from 0",
                   device, pe_index, n_devices);
    return device;
}
