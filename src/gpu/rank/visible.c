/* SPDX-License-Identifier: BSD-3-Clause
 *
 * visible.c: reads a rank's CUDA_VISIBLE_DEVICES as CUDA does. See visible.h.
 *
 * Seen with CUDA 13.0 on a machine with one H200: the list ends before the first entry that is not valid; a device that comes
 * twice makes it empty, with an error of its own; any text may follow the digits of a number; "GPU-" is followed by at least
 * one of the first characters of a UUID, in upper or lower case. CUDA's documentation says: "MIG-" likewise, and the
 * characters must fit one device only. Numbers mean the devices of the machine, so the list of the process is read, too.
 * tests/gpu/visible.cu compares.
 */
#include "gpu/rank/visible.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "gpu/driver/driver.h"
#include "gpu/rank/guard.h"

#define NAME "CUDA_VISIBLE_DEVICES"

const char *(*gpu_variable_of_rank)(const struct ult *rank, const char *name);
static const struct gpu_visible all; /* the mark of ranks whose value is the process's */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- Entries of a list ---- */

static bool read_number(const char *entry, long *number_out)
{
    char *end;

    *number_out = strtol(entry, &end, 10);
    return end != entry && *number_out >= 0;
}

static bool is_uuid(const char *entry)
{
    return strncmp(entry, "GPU-", 4) == 0 || strncmp(entry, "MIG-", 4) == 0;
}

/* NULL: the entry is the last. */
static const char *next_entry(const char *entry)
{
    const char *comma = strchr(entry, ',');

    return comma ? comma + 1 : NULL;
}

/* The driver's number of a device of the machine; -1: the process does not see it. */
static int find_number(long wanted, const char *process_list, int n_devices)
{
    const char *entry = process_list;
    long number;

    if (!process_list)
        return wanted < n_devices ? (int)wanted : -1;
    for (int i = 0; entry && i < n_devices && read_number(entry, &number); i++, entry = next_entry(entry))
        if (number == wanted)
            return i;
    return -1;
}

/* The driver's number of the one device whose UUID begins so. */
static int find_uuid(const char *entry, int n_devices)
{
    CUresult(CUDAAPI * get)(CUuuid *, CUdevice) =
        (CUresult(CUDAAPI *)(CUuuid *, CUdevice))gpu_driver_find("cuDeviceGetUuid_v2");
    size_t length = strcspn(entry + 4, ",");
    int found = -1;

    for (int i = 0; get && length > 0 && i < n_devices; i++) {
        char text[40];
        int end = 0;
        CUdevice device;
        CUuuid uuid;
        if (gpu_driver.cuDeviceGet(&device, i) != CUDA_SUCCESS || get(&uuid, device) != CUDA_SUCCESS)
            continue;
        for (int byte = 0; byte < 16; byte++)
            end += snprintf(text + end, sizeof text - (size_t)end,
                            byte == 4 || byte == 6 || byte == 8 || byte == 10 ? "-%02x" : "%02x",
                            (unsigned char)uuid.bytes[byte]);
        if (strncasecmp(entry + 4, text, length) != 0)
            continue;
        if (found >= 0)
            return -1;
        found = i;
    }
    return found;
}

/* ---- A rank's list ---- */

static void parse(struct gpu_visible *visible, const char *list, const char *process_list, int n_devices)
{
    bool are_uuids = is_uuid(list);
    long number;

    for (const char *entry = list; entry; entry = next_entry(entry)) {
        int device = -1;
        if (are_uuids && is_uuid(entry))
            device = find_uuid(entry, n_devices);
        else if (!are_uuids && read_number(entry, &number))
            device = find_number(number, process_list, n_devices);
        if (device < 0)
            return;
        if (memchr(visible->devices, device, (size_t)visible->n)) {
            visible->n = 0;
            visible->error = CUDA_ERROR_INVALID_DEVICE;
            return;
        }
        visible->devices[visible->n++] = (signed char)device;
    }
}

static bool is_identity(const struct gpu_visible *visible, int n_devices)
{
    for (int i = 0; i < visible->n; i++)
        if (visible->devices[i] != i)
            return false;
    return visible->n == n_devices;
}

/* The rank of this list. The process's own list may hide what the rank's names: CUDA would show it to a process. */
static const struct gpu_visible *make(const char *list, const char *process_list)
{
    struct gpu_visible *made;
    int n_devices = gpu_device_count();
    long number;

    if (process_list && !is_uuid(list) && !read_number(process_list, &number)) {
        base_log(NAME "=%s of a rank is ignored: the value of the process, %s, has no numbers", list,
                 process_list);
        return &all;
    }
    made = base_calloc(1, sizeof *made, "the devices that a rank sees");
    made->error = CUDA_ERROR_NO_DEVICE;
    parse(made, list, process_list, n_devices);
    if (process_list && made->n == 0 && read_number(list, &number))
        base_log(NAME "=%s of a rank names a GPU that the process does not see: %s", list, process_list);
    memset(made->devices + made->n, -1, sizeof made->devices - (size_t)made->n);
    if (!is_identity(made, n_devices))
        return made;
    free(made);
    return &all;
}

/* Once per rank. */
static BASE_COLD const struct gpu_visible *look(const struct ult *u, struct gpu_rank_context *rank)
{
    const char *list = gpu_variable_of_rank ? gpu_variable_of_rank(u, NAME) : NULL;
    const char *process_list = secure_getenv(NAME);
    const struct gpu_visible *seen;

    pthread_mutex_lock(&lock);
    seen = __atomic_load_n(&rank->visible, __ATOMIC_ACQUIRE);
    if (!seen) {
        seen = !list || (process_list && strcmp(list, process_list) == 0) ? &all : make(list, process_list);
        __atomic_store_n(&rank->visible, seen, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return seen;
}

const struct gpu_visible *gpu_visible_of_self(void)
{
    struct ult *u = gpu_rank_of_self();
    struct gpu_rank_context *rank;
    const struct gpu_visible *seen;

    if (!u)
        return NULL;
    rank = gpu_rank_context_of(u);
    seen = __atomic_load_n(&rank->visible, __ATOMIC_ACQUIRE);
    if (!seen)
        seen = look(u, rank);
    if (BASE_LIKELY(seen == &all))
        return NULL;
    if (!rank->is_restarted && gpu_rank_is_main()) {
        rank->is_restarted = true;
        gpu_current_restart(rank);
    }
    return seen;
}

const struct gpu_visible *gpu_visible(const void *caller)
{
    gpu_guard_find();
    return gpu_is_code_of_rank && gpu_is_code_of_rank(caller) ? gpu_visible_of_self() : NULL;
}

int gpu_visible_first(const struct gpu_rank_context *rank, int device)
{
    const struct gpu_visible *seen = __atomic_load_n(&rank->visible, __ATOMIC_ACQUIRE);

    return !seen || seen == &all ? device : seen->devices[0];
}

/* ---- Numbers ---- */

int gpu_visible_to_driver(const struct gpu_visible *visible, int device)
{
    if (BASE_LIKELY(!visible) || device < 0)
        return device;
    return device < visible->n ? visible->devices[device] : GPU_DEVICES_MAX;
}

int gpu_visible_to_rank(const struct gpu_visible *visible, int device)
{
    if (BASE_LIKELY(!visible) || device < 0)
        return device;
    for (int i = 0; i < visible->n; i++)
        if (visible->devices[i] == device)
            return i;
    return CU_DEVICE_INVALID;
}

CUmemLocation gpu_visible_place(const struct gpu_visible *visible, CUmemLocation location)
{
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        location.id = gpu_visible_to_driver(visible, location.id);
    return location;
}
