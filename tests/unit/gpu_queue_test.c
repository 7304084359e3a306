/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that streams of a PE copy between any memories, report completions in order and failures, do not
 * change the program's current context, and that pools reuse memory and free it beside the PE. On the fake CUDA driver.
 */
#include <cuda.h>
#include <string.h>
#include <unistd.h>

#include "fakecuda.h"
#include "gpu/copy/pool.h"
#include "gpu/copy/queue.h"
#include "gpu/driver/pe_state.h"
#include "gpu/driver/query.h"
#include "gpu/gpu.h"
#include "ult_job.h"

#define N 5000

static int failure; /* what the last call said */

static void open_driver(void)
{
    CUcontext context;

    ULT_CHECK(gpu_driver_open(NULL));
    ULT_CHECK(cuInit(0) == 0);
    ULT_CHECK(cuDevicePrimaryCtxRetain(&context, 0) == 0);
    ULT_CHECK(cuCtxSetCurrent(context) == 0);
}

/* Device memory on a device, with each byte 7 * its index + seed. */
static char *device_bytes(int device, size_t n_bytes, int seed)
{
    unsigned char *pattern = malloc(n_bytes);
    CUcontext context, before;
    CUdeviceptr made = 0;

    for (size_t i = 0; i < n_bytes; i++)
        pattern[i] = (unsigned char)(7 * i + (size_t)seed);
    cuCtxGetCurrent(&before);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    ULT_CHECK(cuMemAlloc(&made, n_bytes) == 0);
    ULT_CHECK(cuMemcpyHtoD(made, pattern, n_bytes) == 0);
    ULT_CHECK(cuCtxSynchronize() ==
              0); /* the bytes may be on their way yet, and our queues do not wait for them */
    cuCtxSetCurrent(before);
    free(pattern);
    return (char *)made;
}

static bool has_pattern(const unsigned char *bytes, size_t n_bytes, int seed)
{
    for (size_t i = 0; i < n_bytes; i++)
        if (bytes[i] != (unsigned char)(7 * i + (size_t)seed))
            return false;
    return true;
}

/* ---- Copies ---- */

static void copy_around(void *arg)
{
    char *first, *second;
    unsigned char *host = calloc(1, N);
    struct gpu_queue *queue;

    open_driver();
    first = device_bytes(0, N, 3);
    second = device_bytes(1, N, 4);
    queue = gpu_queue_of(0, GPU_STREAM_OUT, &failure);
    ULT_CHECK(queue && gpu_queue_device(queue) == 0);
    ULT_CHECK(queue == gpu_queue_of(0, GPU_STREAM_OUT, &failure));
    ULT_CHECK(queue != gpu_queue_of(0, GPU_STREAM_IN, &failure));
    ULT_CHECK(queue != gpu_queue_of(1, GPU_STREAM_OUT, &failure));
    ULT_CHECK(gpu_queue_copy(queue, second, first, N) == 0);
    ULT_CHECK(gpu_queue_copy(queue, host, second, N) == 0);
    ULT_CHECK(gpu_queue_wait(queue) == 0);
    ULT_CHECK(has_pattern(host, N, 3));
    memset(host, 0, N);
    ULT_CHECK(gpu_queue_copy(queue, host, first, N) == 0);
    ULT_CHECK(gpu_queue_spin(queue) == 0);
    ULT_CHECK(has_pattern(host, N, 3));
    free(host);
}

START_TEST(copies_between_devices_and_host)
{
    ult_job_start(1, 1, copy_around);
}
END_TEST

START_TEST(copies_where_numbers_cannot_be_written)
{
    setenv("FAKECUDA_WRITE_VALUE", "0", 1);
    ult_job_start(1, 1, copy_around);
}
END_TEST

START_TEST(copies_on_two_pes)
{
    ult_job_start(2, 8, copy_around);
}
END_TEST

/* ---- The order of tickets ---- */

struct numbered {
    struct gpu_ticket ticket;
    int number;
    int error;
};
static int n_handled, handled[100];

static void handle_numbered(struct gpu_ticket *ticket, int error)
{
    struct numbered *numbered = BASE_CONTAINER(ticket, struct numbered, ticket);

    numbered->error = error;
    handled[n_handled++] = numbered->number;
}

static void tickets_in_order(void *arg)
{
    static struct numbered tickets[100];
    struct gpu_queue *queue;
    size_t size;
    char *from, *to;

    open_driver();
    queue = gpu_queue_of(1, GPU_STREAM_OUT, &failure);
    from = device_bytes(1, N, 0);
    to = gpu_pinned_get(N, &size, &failure);
    ULT_CHECK(to && size >= N);
    fakecuda_hold(true);
    for (int i = 0; i < 100; i++) {
        tickets[i] = (struct numbered){.ticket.handle = handle_numbered, .number = i, .error = -1};
        if (i % 3 == 0)
            ULT_CHECK(gpu_queue_copy(queue, to, from, N) == 0);
        gpu_queue_then(queue, &tickets[i].ticket);
    }
    for (int i = 0; i < 100; i++)
        ult_progress();
    ULT_CHECK(n_handled == 0);
    fakecuda_hold(false);
    while (n_handled < 100)
        ult_yield();
    for (int i = 0; i < 100; i++)
        ULT_CHECK(handled[i] == i && tickets[i].error == 0);
    gpu_pinned_put(to);
}

START_TEST(tickets_are_handled_in_order_and_not_early)
{
    ult_job_start(1, 1, tickets_in_order);
}
END_TEST

/* A waiting ULT lets others run, and the deadlock report stays silent. */
static atomic_int n_turns, is_copied;

static void wait_or_work(void *arg)
{
    if (self_index() == 0) {
        struct gpu_queue *queue;
        char *memory, *device;
        size_t size;
        open_driver();
        queue = gpu_queue_of(0, GPU_STREAM_IN, &failure);
        memory = gpu_pinned_get(8, &size, &failure);
        device = device_bytes(0, 8, 0);
        fakecuda_hold(true);
        ULT_CHECK(gpu_queue_copy(queue, device, memory, 8) == 0);
        ULT_CHECK(gpu_queue_wait(queue) == 0);
        ULT_CHECK(n_turns == 1000);
        is_copied = 1;
        return;
    }
    for (int i = 0; i < 1000; i++) {
        n_turns++;
        ult_yield();
    }
    ULT_CHECK(!is_copied);
    fakecuda_hold(false);
}

static void report_deadlock(void)
{
    ULT_CHECK(!"deadlock");
}

START_TEST(a_waiting_ult_lets_others_run)
{
    setenv("FAKECUDA_DELAY_US", "20000", 1);
    job.deadlock = report_deadlock;
    ult_job_start(1, 2, wait_or_work);
    ck_assert_int_eq(is_copied, 1);
}
END_TEST

/* ---- Errors ---- */

static void break_and_wait(void *arg)
{
    struct gpu_queue *queue;
    struct numbered ticket = {.ticket.handle = handle_numbered, .error = -1};
    size_t size;
    void *memory;
    char *device;

    open_driver();
    queue = gpu_queue_of(0, GPU_STREAM_OUT, &failure);
    memory = gpu_pinned_get(8, &size, &failure);
    device = device_bytes(0, 8, 0);
    fakecuda_hold(true);
    ULT_CHECK(gpu_queue_copy(queue, device, memory, 8) == 0);
    gpu_queue_then(queue, &ticket.ticket);
    fakecuda_break_context(CUDA_ERROR_ILLEGAL_ADDRESS);
    fakecuda_hold(false);
    ULT_CHECK(gpu_queue_wait(queue) == CUDA_ERROR_ILLEGAL_ADDRESS);
    ULT_CHECK(ticket.error == CUDA_ERROR_ILLEGAL_ADDRESS);
    ULT_CHECK(strstr(gpu_error_text(CUDA_ERROR_ILLEGAL_ADDRESS), "an illegal memory access was encountered"));
    ULT_CHECK(gpu_queue_copy(queue, device, memory, 8) == CUDA_ERROR_ILLEGAL_ADDRESS);
    ULT_CHECK(gpu_queue_spin(queue) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

START_TEST(a_broken_context_ends_all_waiting)
{
    ult_job_start(1, 1, break_and_wait);
}
END_TEST

static void fail_calls(void *arg)
{
    struct gpu_queue *queue;
    size_t size;

    open_driver();
    fakecuda_fail("cuStreamCreateWithPriority", 1, CUDA_ERROR_OUT_OF_MEMORY);
    ULT_CHECK(!gpu_queue_of(0, GPU_STREAM_OUT, &failure) && failure == CUDA_ERROR_OUT_OF_MEMORY);
    ULT_CHECK(strcmp(gpu_error_text(failure),
                     "cuStreamCreateWithPriority: CUDA_ERROR_OUT_OF_MEMORY: out of memory") == 0);
    ULT_CHECK(!gpu_queue_of(9, GPU_STREAM_OUT, &failure) && failure == CUDA_ERROR_INVALID_DEVICE);
    queue = gpu_queue_of(0, GPU_STREAM_OUT, &failure);
    fakecuda_fail("cuMemcpyAsync", 1, CUDA_ERROR_INVALID_VALUE);
    ULT_CHECK(gpu_queue_copy(queue, &size, &size, 1) == CUDA_ERROR_INVALID_VALUE);
    ULT_CHECK(gpu_queue_wait(queue) == 0);
    fakecuda_fail("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
    ULT_CHECK(!gpu_pinned_get(1, &size, &failure) && failure == CUDA_ERROR_OUT_OF_MEMORY);
    ULT_CHECK(!gpu_scratch_get(0, (size_t)1 << 40, &failure) && failure == CUDA_ERROR_OUT_OF_MEMORY);
}

START_TEST(errors_name_the_function)
{
    ult_job_start(1, 1, fail_calls);
}
END_TEST

/* ---- The program's context ---- */

static void keep_context(void *arg)
{
    CUcontext mine, now;
    size_t size;

    ULT_CHECK(gpu_driver_open(NULL) && cuInit(0) == 0);
    for (int i = 0; i < 2; i++) {
        mine = NULL;
        if (i == 1)
            ULT_CHECK(cuCtxCreate(&mine, NULL, 0, 0) == 0);
        gpu_pinned_put(gpu_pinned_get(1, &size, &failure));
        gpu_scratch_put(1, gpu_scratch_get(1, 100, &failure), 100);
        ULT_CHECK(gpu_queue_wait(gpu_queue_of(1, GPU_STREAM_IN, &failure)) == 0);
        gpu_peer_enable(0, 1);
        ULT_CHECK(cuCtxGetCurrent(&now) == 0 && now == mine);
    }
}

START_TEST(the_programs_context_stays_current)
{
    ult_job_start(1, 1, keep_context);
}
END_TEST

/* ---- Peers ---- */

static void enable_peers(void *arg)
{
    bool has_peers = getenv("FAKECUDA_PEER") == NULL;
    int n_calls;

    open_driver();
    ULT_CHECK(gpu_peer_enable(0, 1) == has_peers);
    n_calls = fakecuda_calls("cuDeviceCanAccessPeer");
    ULT_CHECK(gpu_peer_enable(0, 1) == has_peers);
    ULT_CHECK(fakecuda_calls("cuDeviceCanAccessPeer") == n_calls);
    ULT_CHECK(gpu_peer_enable(1, 1));
}

START_TEST(peer_access_is_enabled_once)
{
    ult_job_start(1, 1, enable_peers);
}
END_TEST

START_TEST(peer_access_may_be_missing)
{
    setenv("FAKECUDA_PEER", "0", 1);
    ult_job_start(1, 1, enable_peers);
}
END_TEST

/* ---- Pools ---- */

/* Memory is freed on another thread. */
static void await_calls(const char *function, int n)
{
    while (fakecuda_calls(function) < n)
        usleep(1000);
    ULT_CHECK(fakecuda_calls(function) == n);
}

static void use_pools(void *arg)
{
    enum { N_SCRATCH = 40 };
    void *pinned[40], *scratch[N_SCRATCH];
    size_t size;
    int n_calls;

    open_driver();
    for (int round = 0; round < 2; round++) {
        n_calls = fakecuda_calls("cuMemHostAlloc");
        for (int i = 0; i < 40; i++) {
            pinned[i] = gpu_pinned_get(i % 2 ? 1 : GPU_PINNED_SMALL + 1, &size, &failure);
            ULT_CHECK(pinned[i] && size == (i % 2 ? GPU_PINNED_SMALL : GPU_PINNED_LARGE));
            memset(pinned[i], i, size);
        }
        for (int i = 0; i < 40; i++) {
            ULT_CHECK(*(char *)pinned[i] == i);
            gpu_pinned_put(pinned[i]);
        }
        ULT_CHECK((fakecuda_calls("cuMemHostAlloc") > n_calls) == (round == 0));
    }
    scratch[0] = gpu_scratch_get(1, 100000, &failure);
    gpu_scratch_put(1, scratch[0], 100000);
    ULT_CHECK(gpu_scratch_get(1, 120000, &failure) == scratch[0]);
    gpu_scratch_put(1, scratch[0], 120000);
    for (int i = 0; i < N_SCRATCH; i++) /* more than are kept: the rest goes back to the driver */
        scratch[i] = gpu_scratch_get(1, 1, &failure);
    n_calls = fakecuda_calls("cuMemFree");
    for (int i = 0; i < N_SCRATCH; i++)
        gpu_scratch_put(1, scratch[i], 1);
    await_calls("cuMemFree", n_calls + N_SCRATCH - GPU_SCRATCH_KEPT);
    /* What is kept goes back when memory is short. */
    fakecuda_fail("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
    ULT_CHECK(gpu_scratch_get(1, 1 << 20, &failure) != NULL);
    ULT_CHECK(fakecuda_calls("cuMemFree") == n_calls + N_SCRATCH + 1);
}

START_TEST(pools_give_memory_out_again)
{
    ult_job_start(1, 1, use_pools);
}
END_TEST

/* ---- Pinned memory of any size ---- */

static void staging(void *arg)
{
    char *first, *second, *many[20] = {NULL};
    int n_allocations, n_many = 0;

    open_driver();
    first = gpu_staging_get(3000000);
    second = gpu_staging_get(3000000);
    ULT_CHECK(first && second && first != second);
    memset(first, 1, 3000000);
    memset(second, 2, 3000000);
    ULT_CHECK(gpu_find(first)->memory == GPU_MEMORY_PINNED);
    gpu_staging_put(first, 3000000);
    n_allocations = fakecuda_calls("cuMemHostAlloc");
    ULT_CHECK(gpu_staging_get(2500000) == first); /* of the same class */
    ULT_CHECK(fakecuda_calls("cuMemHostAlloc") == n_allocations);
    /* There is an end to it, and it is all used again. */
    while (n_many < 20 && (many[n_many] = gpu_staging_get((size_t)32 << 20)))
        n_many++;
    ULT_CHECK(n_many > 3 && n_many < 20);
    for (int i = 0; i < n_many; i++)
        gpu_staging_put(many[i], (size_t)32 << 20);
    ULT_CHECK(gpu_staging_get((size_t)32 << 20) != NULL);
    ULT_CHECK(gpu_staging_get((size_t)1 << 30) == NULL);
}

START_TEST(pinned_memory_is_given_out_again_and_limited)
{
    ult_job_start(1, 1, staging);
}
END_TEST

/* ---- Memory that goes back to the driver ---- */

/* More blocks than are kept, while the GPU has work that does not end. */
static void put_while_busy(void *arg)
{
    enum { N_BLOCKS = 6 };
    void *host[N_BLOCKS], *device[N_BLOCKS];
    size_t n_bytes = (size_t)8 << 20;
    int n_waits, n_host, n_device;
    struct gpu_queue *queue;

    open_driver();
    for (int i = 0; i < N_BLOCKS; i++) {
        host[i] = gpu_staging_get(n_bytes);
        device[i] = gpu_scratch_get(0, n_bytes, &failure);
        ULT_CHECK(host[i] && device[i]);
    }
    queue = gpu_queue_of(0, GPU_STREAM_OUT, &failure);
    n_waits = fakecuda_blocked_waits();
    n_host = fakecuda_calls("cuMemFreeHost");
    n_device = fakecuda_calls("cuMemFree");
    fakecuda_hold(true);
    ULT_CHECK(gpu_queue_copy(queue, device[0], host[0], n_bytes) == 0);
    for (int i = 1; i < N_BLOCKS; i++) {
        gpu_staging_put(host[i], n_bytes);
        gpu_scratch_put(0, device[i], n_bytes);
    }
    ULT_CHECK(fakecuda_blocked_waits() == n_waits);
    fakecuda_hold(false);
    ULT_CHECK(gpu_queue_wait(queue) == 0);
    await_calls("cuMemFreeHost", n_host + 1);
    await_calls("cuMemFree", n_device + 1);
}

START_TEST(freeing_does_not_wait_for_the_gpu_on_the_pe)
{
    ult_job_start(1, 1, put_while_busy);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_queue");
    TCase *tests = tcase_create("queue");

    tcase_set_timeout(tests, 200);
    tcase_add_test(tests, copies_between_devices_and_host);
    tcase_add_test(tests, copies_where_numbers_cannot_be_written);
    tcase_add_test(tests, copies_on_two_pes);
    tcase_add_test(tests, tickets_are_handled_in_order_and_not_early);
    tcase_add_test(tests, a_waiting_ult_lets_others_run);
    tcase_add_test(tests, a_broken_context_ends_all_waiting);
    tcase_add_test(tests, errors_name_the_function);
    tcase_add_test(tests, the_programs_context_stays_current);
    tcase_add_test(tests, peer_access_is_enabled_once);
    tcase_add_test(tests, peer_access_may_be_missing);
    tcase_add_test(tests, pools_give_memory_out_again);
    tcase_add_test(tests, pinned_memory_is_given_out_again_and_limited);
    tcase_add_test(tests, freeing_does_not_wait_for_the_gpu_on_the_pe);
    suite_add_tcase(suite, tests);
    return ult_run_suite(suite);
}
