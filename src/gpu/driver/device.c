/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device.c: the devices of the driver, their primary contexts, and the device of each PE.
 *
 * All PEs share the devices. The first query about a device takes the lock; its result is then read without
 * it.
 */
#include <pthread.h>
#include <stdio.h>

#include <dlfcn.h>
#include <unistd.h>

#include "base/log.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/gpu_upper.h"
#include "gpu/driver/pe_state.h"

/* The devices. */
static struct {
    _Atomic(CUcontext) context;                 /* its primary context; NULL: not retained yet */
    _Atomic signed char peers[GPU_DEVICES_MAX]; /* access to other devices: 0 not queried, 1 direct, -1
                                                 * none */
} devices[GPU_DEVICES_MAX];
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;

bool gpu_is_built(void)
{
    return true;
}

bool gpu_is_possible(void)
{
    void *driver;

    if (gpu_is_used() || access("/dev/nvidiactl", F_OK) == 0)
        return true;
    driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver)
        dlclose(driver);
    return driver != NULL;
}

int gpu_device_count(void)
{
    int count = 0, error;

    if (!gpu_driver_open(NULL))
        return 0;
    error = gpu_call(cuInit, (0));
    if (!error)
        error = gpu_call(cuDeviceGetCount, (&count));
    return error ? 0 : count < GPU_DEVICES_MAX ? count : GPU_DEVICES_MAX;
}

/* ---- Contexts ---- */

static BASE_COLD CUcontext retain(int device)
{
    CUcontext context = NULL;
    CUdevice handle;
    int error;

    pthread_mutex_lock(&devices_lock);
    context = atomic_load(&devices[device].context);
    if (!context) {
        error = gpu_call(cuDeviceGet, (&handle, device));
        if (!error)
            error = gpu_call(cuDevicePrimaryCtxRetain, (&context, handle));
        if (error)
            context = NULL;
        else
            atomic_store(&devices[device].context, context);
    }
    pthread_mutex_unlock(&devices_lock);
    return context;
}

CUcontext gpu_context_of(int device)
{
    CUcontext context;

    if (device < 0 || device >= GPU_DEVICES_MAX) {
        gpu_driver_record(CUDA_ERROR_INVALID_DEVICE, "gpu_context_of");
        return NULL;
    }
    context = atomic_load_explicit(&devices[device].context, memory_order_acquire);
    return BASE_LIKELY(context != NULL) ? context : retain(device);
}

bool gpu_context_is_held(int device)
{
    return atomic_load(&devices[device].context) != NULL;
}

bool gpu_context_is_kept(CUcontext context)
{
    for (int i = 0; i < GPU_DEVICES_MAX && context; i++)
        if (atomic_load_explicit(&devices[i].context, memory_order_relaxed) == context)
            return true;
    return false;
}

/* ---- Peers ---- */

static bool enable(int from_device, int to_device)
{
    CUcontext from = gpu_context_of(from_device), to = gpu_context_of(to_device), before;
    CUdevice from_handle, to_handle;
    int can = 0, error;

    if (!from || !to || gpu_call(cuDeviceGet, (&from_handle, from_device)) ||
        gpu_call(cuDeviceGet, (&to_handle, to_device)) ||
        gpu_call(cuDeviceCanAccessPeer, (&can, from_handle, to_handle)) || !can ||
        gpu_context_enter(from, &before))
        return false;
    error = gpu_call(cuCtxEnablePeerAccess, (to, 0));
    gpu_context_leave(from, before);
    if (error && error != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) {
        base_log("GPU %d cannot access the memory of GPU %d, though the driver claims that it can: %s",
                 from_device, to_device, gpu_error_text(error));
        return false;
    }
    return true;
}

bool gpu_peer_enable(int from_device, int to_device)
{
    _Atomic signed char *known;

    if (from_device == to_device)
        return true;
    BASE_ASSERT(from_device >= 0 && from_device < GPU_DEVICES_MAX && to_device >= 0 &&
                to_device < GPU_DEVICES_MAX);
    known = &devices[from_device].peers[to_device];
    /* Two PEs may get here at the same time: the second one finds access already enabled. */
    if (BASE_UNLIKELY(atomic_load(known) == 0))
        atomic_store(known, enable(from_device, to_device) ? 1 : -1);
    return atomic_load(known) > 0;
}

/* ---- Devices of PEs ---- */

void gpu_device_describe(int device, char *text, size_t text_bytes)
{
    CUdevice handle;
    char name[96] = "?", bus[32] = "?";
    size_t total = 0;

    if (gpu_call(cuDeviceGet, (&handle, device)) == 0) {
        gpu_driver.cuDeviceGetName(name, sizeof name, handle);
        gpu_driver.cuDeviceGetPCIBusId(bus, sizeof bus, handle);
        gpu_driver.cuDeviceTotalMem(&total, handle);
    }
    snprintf(text, text_bytes, "GPU %d: %s, %zu MiB, PCI %s", device, name, total >> 20, bus);
}

/* The first rank of PE pe in a process with n_ranks ranks; pe may be n_pes. */
static int first_rank(int pe, int n_pes, int n_ranks)
{
    return (int)(((int64_t)pe * n_ranks + n_pes - 1) / n_pes);
}

/* The number of PEs with this device; or of n_ranks ranks, the number of those with it. */
static int count_users(int device, int n_devices, int n_pes, int n_ranks)
{
    int n = 0;

    for (int pe = 0; pe < n_pes; pe++)
        if (gpu_device_of_pe(pe, n_pes, n_devices) == device)
            n += n_ranks ? first_rank(pe + 1, n_pes, n_ranks) - first_rank(pe, n_pes, n_ranks) : 1;
    return n;
}

/* Prints the users of a device: "PEs 0 to 3, 6", or "ranks 0 to 15, 24 to 27". */
static void print_users(int device, int n_devices, int n_pes, int n_ranks)
{
    int n_users = count_users(device, n_devices, n_pes, n_ranks);
    const char *before = "";

    printf("; %s%s", n_ranks ? "rank" : "PE", n_users > 1 ? "s" : "");
    for (int pe = 0, end; pe < n_pes; pe = end + (end == pe)) {
        int from, to;
        for (end = pe; end < n_pes && gpu_device_of_pe(end, n_pes, n_devices) == device;)
            end++;
        if (end == pe)
            continue;
        from = n_ranks ? first_rank(pe, n_pes, n_ranks) : pe;
        to = (n_ranks ? first_rank(end, n_pes, n_ranks) : end) - 1;
        printf(from == to ? "%s %d" : "%s %d to %d", before, from, to);
        before = ",";
    }
}

void gpu_print_devices(int n_pes, int n_ranks)
{
    int n_devices = gpu_device_count();
    int version = 0;
    char text[256];

    if (n_devices == 0) {
        printf("No GPUs: %s\n", gpu_driver_open(NULL) ? "CUDA's driver reports none"
                                                      : "CUDA's driver (libcuda.so.1) was not found");
        return;
    }
    gpu_driver.cuDriverGetVersion(&version);
    printf("%d GPU%s, CUDA driver %d.%d:\n", n_devices, n_devices == 1 ? "" : "s", version / 1000,
           version % 1000 / 10);
    for (int i = 0; i < n_devices; i++) {
        gpu_device_describe(i, text, sizeof text);
        printf("    %s", text);
        if (count_users(i, n_devices, n_pes, 0) == 0)
            printf("; no PE");
        else
            print_users(i, n_devices, n_pes, 0);
        if (n_ranks >= n_pes && count_users(i, n_devices, n_pes, n_ranks) > 0)
            print_users(i, n_devices, n_pes, n_ranks);
        printf("\n");
    }
}

/* ---- Addresses ---- */

bool gpu_memory_may_be_late(CUdeviceptr address)
{
    CUmemorytype type = 0;
    unsigned is_managed = 0, is_set = 0;
    CUmemoryPool pool = NULL;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    void *answers[] = {&type, &is_managed, &is_set, &pool};

    return gpu_driver.cuPointerGetAttributes(BASE_COUNT(wanted), wanted, answers, address) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE && !is_managed && (!is_set || pool);
}

/* The enum gpu_memory of memory known to the driver. */
static int memory_of(CUmemorytype type, unsigned is_managed)
{
    return is_managed                     ? GPU_MEMORY_MANAGED
           : type == CU_MEMORYTYPE_DEVICE ? GPU_MEMORY_DEVICE
                                          : GPU_MEMORY_PINNED;
}

int gpu_memory_type(CUdeviceptr address)
{
    CUmemorytype type = 0;
    unsigned is_managed = 0;
    unsigned long long buffer = 0;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_BUFFER_ID};
    void *answers[] = {&type, &is_managed, &buffer};

    if (gpu_driver.cuPointerGetAttributes(BASE_COUNT(wanted), wanted, answers, address) != CUDA_SUCCESS ||
        type == 0 || buffer == 0)
        return GPU_MEMORY_HOST;
    return memory_of(type, is_managed);
}

bool gpu_memory_is_of_pool(CUdeviceptr address)
{
    CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
    CUmemoryPool pool = NULL;
    void *answer = &pool;

    return gpu_driver.cuPointerGetAttributes(1, &wanted, &answer, address) == CUDA_SUCCESS && pool;
}

void gpu_query(uintptr_t addr, struct gpu_range *range_out)
{
    CUmemorytype type = 0;
    unsigned is_managed = 0;
    int device = -1;
    unsigned long long buffer = 0;
    CUdeviceptr from = 0;
    size_t size_bytes = 0;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *answers[] = {&type, &is_managed, &device, &buffer, &from, &size_bytes};

    *range_out = (struct gpu_range){addr, addr + 1, 0, GPU_MEMORY_HOST, -1};
    /* Six attributes at once: for memory unknown to the driver this takes a fifth of the time of a single
     * query (measured: 0.2 and 0.83 us), and is not an error. Before cuInit there is no device memory. */
    if (gpu_driver.cuPointerGetAttributes(BASE_COUNT(wanted), wanted, answers, addr) != CUDA_SUCCESS ||
        type == 0 || buffer == 0)
        return;
    range_out->buffer = buffer;
    range_out->device = (int8_t)device;
    range_out->memory = (uint8_t)memory_of(type, is_managed);
    if (addr - from < size_bytes) {
        range_out->from = from;
        range_out->to = from + size_bytes;
    }
    if (range_out->memory == GPU_MEMORY_DEVICE)
        gpu_upper.make_synchronous(addr, range_out->from, range_out->to);
}

uint64_t gpu_query_buffer(uintptr_t addr)
{
    unsigned long long buffer = 0;
    CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    void *answer = &buffer;

    if (gpu_driver.cuPointerGetAttributes(1, &wanted, &answer, addr) != CUDA_SUCCESS)
        return 0;
    return buffer;
}

int gpu_address_error(uintptr_t addr)
{
    unsigned long long buffer = 0;
    CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    void *answer = &buffer;
    CUresult result = gpu_driver.cuPointerGetAttributes(1, &wanted, &answer, addr);

    return gpu_driver_record_address(result == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : (int)result, NULL,
                                     result == CUDA_SUCCESS ? addr : 0);
}
