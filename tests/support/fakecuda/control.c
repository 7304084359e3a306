/* SPDX-License-Identifier: BSD-3-Clause
 *
 * control.c: the fake driver's set-up, errors on demand, names of errors.
 */
#include "fake.h"

#include <stdio.h>
#include <unistd.h>

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_changed = PTHREAD_COND_INITIALIZER;
struct fake_driver fake;

/* ---- Calls, and failures that the test has requested ---- */

#define FUNCTIONS_MAX 512
static struct {
    char name[64];
    int n_calls;
    int n_calls_for[FAKECUDA_STREAMS];
    int fail_at;     /* number of the call; 0: none */
    bool is_blocked; /* the next call waits for all work */
    int error;
} functions[FUNCTIONS_MAX];

/* The length of a function's name without _v2, _ptsz, _ptds. */
static size_t name_length(const char *function)
{
    return strcspn(function, "_");
}

static int index_of(const char *function)
{
    size_t length = name_length(function);
    int i = 0;

    while (functions[i].name[0] &&
           (strncmp(functions[i].name, function, length) != 0 || functions[i].name[length] != '\0'))
        i++;
    if (!functions[i].name[0])
        memcpy(functions[i].name, function, length);
    return i;
}

FAKE_EXPORT void fakecuda_fail(const char *function, int nth, int error)
{
    int i;

    pthread_mutex_lock(&fake_lock);
    i = index_of(function);
    functions[i].fail_at = functions[i].n_calls + nth;
    functions[i].error = error;
    pthread_mutex_unlock(&fake_lock);
}

FAKE_EXPORT int fakecuda_calls(const char *function)
{
    int n_calls;

    pthread_mutex_lock(&fake_lock);
    n_calls = functions[index_of(function)].n_calls;
    pthread_mutex_unlock(&fake_lock);
    return n_calls;
}

FAKE_EXPORT int fakecuda_calls_for(const char *function, enum fakecuda_stream kind)
{
    int n_calls;

    pthread_mutex_lock(&fake_lock);
    n_calls = functions[index_of(function)].n_calls_for[kind];
    pthread_mutex_unlock(&fake_lock);
    return n_calls;
}

void fake_count_stream(const char *function, enum fakecuda_stream kind)
{
    functions[index_of(function)].n_calls_for[kind]++;
}

static CUresult count(const char *function)
{
    CUresult error = CUDA_SUCCESS;
    int i;

    pthread_mutex_lock(&fake_lock);
    i = index_of(function);
    if (++functions[i].n_calls == functions[i].fail_at)
        error = (CUresult)functions[i].error;
    if (functions[i].is_blocked) {
        functions[i].is_blocked = false;
        fake_wait_all();
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT void fakecuda_block(const char *function)
{
    pthread_mutex_lock(&fake_lock);
    functions[index_of(function)].is_blocked = true;
    pthread_mutex_unlock(&fake_lock);
}

CUresult fake_enter(const char *function)
{
    CUresult error = fake_is_host_function ? CUDA_ERROR_NOT_PERMITTED : count(function);

    if (!error && (!fake.is_initialized || fake.pid != getpid()))
        error = CUDA_ERROR_NOT_INITIALIZED;
    return error;
}

CUresult fake_enter_context(const char *function, struct fake_context **context_out)
{
    CUresult error = fake_enter(function);
    struct fake_context *context = fake_current();

    if (error)
        return error;
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->is_alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *context_out = context;
    return context->broken;
}

FAKE_EXPORT void fakecuda_hold(bool is_held)
{
    pthread_mutex_lock(&fake_lock);
    fake.is_held = is_held;
    pthread_cond_broadcast(&fake_changed);
    pthread_mutex_unlock(&fake_lock);
}

FAKE_EXPORT void fakecuda_hold_kernels(bool are_held)
{
    pthread_mutex_lock(&fake_lock);
    fake.are_kernels_held = are_held;
    pthread_cond_broadcast(&fake_changed);
    pthread_mutex_unlock(&fake_lock);
}

FAKE_EXPORT void fakecuda_place_next(uintptr_t address)
{
    fake.next_place = address;
}

FAKE_EXPORT void fakecuda_break_context(int error)
{
    if (fake_current())
        fake_current()->broken = (CUresult)error;
}

/* ---- Set-up ---- */

static long number_in(const char *variable, long otherwise)
{
    const char *text = getenv(variable);

    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

static void read_failures(const char *text)
{
    char name[64];
    int nth, error, length;

    while (text && sscanf(text, "%63[^:]:%d:%d%n", name, &nth, &error, &length) == 3) {
        fakecuda_fail(name, nth, error);
        text += length;
        text += *text == ',';
    }
}

/* Devices of the machine by number, as many as CUDA_VISIBLE_DEVICES names before the first that does not exist. */
static void read_devices(int n_devices)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");

    for (int i = 0; i < n_devices && i < FAKE_DEVICES_MAX; i++)
        fake.machine_devices[i] = i;
    fake.n_devices = text ? 0 : n_devices;
    while (text && fake.n_devices < FAKE_DEVICES_MAX) {
        char *end;
        long number = strtol(text, &end, 10);
        if (end == text || number < 0 || number >= n_devices)
            return;
        fake.machine_devices[fake.n_devices++] = (int)number;
        text = *end == ',' ? end + 1 : NULL;
    }
}

static CUresult init(unsigned flags)
{
    CUresult error;

    if (!fake.is_initialized) {
        read_failures(getenv("FAKECUDA_FAIL"));
        read_devices((int)number_in("FAKECUDA_DEVICES", 2));
        fake.memory_bytes = (size_t)number_in("FAKECUDA_MEMORY_MIB", 256) << 20;
        fake.delay_us = (int)number_in("FAKECUDA_DELAY_US", 0);
        fake.pageable_us = (int)number_in("FAKECUDA_PAGEABLE_US", 0);
        fake.has_peers = number_in("FAKECUDA_PEER", 1) != 0;
        fake.is_eager = getenv("CUDA_MODULE_LOADING") && strcmp(getenv("CUDA_MODULE_LOADING"), "EAGER") == 0;
        fake.call_us = (unsigned)number_in("FAKECUDA_CALL_US", 0);
        fake.has_locks = number_in("FAKECUDA_LOCKS", 0) != 0;
        fake.has_all_locks = number_in("FAKECUDA_LOCKS", 0) > 1;
        fake.n_connections =
            number_in("FAKECUDA_CONNECTIONS", 0) ? (int)number_in("CUDA_DEVICE_MAX_CONNECTIONS", 8) : 0;
        if (fake.n_connections > FAKE_CONNECTIONS_MAX)
            fake.n_connections = FAKE_CONNECTIONS_MAX;
        fake.has_write_value = number_in("FAKECUDA_WRITE_VALUE", 1) != 0;
        fake.has_late_writes = number_in("FAKECUDA_LATE_WRITES", 0) != 0;
        fake.rdma_flush = (int)number_in("FAKECUDA_RDMA_FLUSH", -1);
    }
    error = count("cuInit");
    if (error)
        return error;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (fake.n_devices <= 0 || fake.n_devices > FAKE_DEVICES_MAX)
        return CUDA_ERROR_NO_DEVICE;
    if (fake.is_initialized)
        return fake.pid == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
    fake.pid = getpid();
    fake.is_initialized = true;
    return CUDA_SUCCESS;
}

/* Any thread, and several at once. */
FAKE_EXPORT CUresult cuInit(unsigned flags)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    CUresult result;

    pthread_mutex_lock(&lock);
    result = init(flags);
    pthread_mutex_unlock(&lock);
    return result;
}

FAKE_EXPORT CUresult cuDriverGetVersion(int *version)
{
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

/* ---- Names ---- */

#define ERRORS(X)                                                                                         \
    X(CUDA_SUCCESS, "no error")                                                                           \
    X(CUDA_ERROR_INVALID_VALUE, "invalid argument")                                                       \
    X(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                                          \
    X(CUDA_ERROR_NOT_INITIALIZED, "initialization error")                                                 \
    X(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")                                         \
    X(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                                                \
    X(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")                                               \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available")                                       \
    X(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")                                               \
    X(CUDA_ERROR_NOT_FOUND, "named symbol not found")                                                     \
    X(CUDA_ERROR_NOT_READY, "device not ready")                                                           \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")                             \
    X(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")                                             \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled")                           \
    X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled")                             \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices")       \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")                                            \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,                                                          \
      "part or all of the requested memory range is already mapped")                                      \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region") \
    X(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state")                 \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing")          \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture")   \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would merge separate capture sequences")                \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not initiated in this stream")                    \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work")                           \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency on work that is not captured")                     \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the legacy stream would depend on a capturing stream")         \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "capture was begun by another thread")                      \
    X(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on a captured event")                           \
    X(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph update was not performed")                         \
    X(CUDA_ERROR_NOT_PERMITTED, "operation not permitted")                                                \
    X(CUDA_ERROR_NOT_SUPPORTED, "operation not supported")                                                \
    X(CUDA_ERROR_UNKNOWN, "unknown error")

static const struct {
    CUresult error;
    const char *name;
    const char *text;
} errors[] = {
#define ERROR(error, text) {error, #error, text},
    ERRORS(ERROR)};

static CUresult find_error(CUresult error, size_t *index_out)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error) {
            *index_out = i;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult cuGetErrorName(CUresult error, const char **text)
{
    size_t i;
    CUresult result = find_error(error, &i);

    *text = result ? NULL : errors[i].name;
    return result;
}

FAKE_EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
    size_t i;
    CUresult result = find_error(error, &i);

    *text = result ? NULL : errors[i].text;
    return result;
}
