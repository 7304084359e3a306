/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that the resident kernel, once it runs, does small copies within a GPU and to another one, and that
 * they arrive at every size and alignment, also if the kernel leaves at the same time; that it leaves by
 * itself, although copies continue, and at once before a call of the program that waits for the GPU; that
 * copies which it cannot do, and all copies while the GPU has no room for it, go another way; and that a
 * failed context is an error. On the fake CUDA driver; on real ones too.
 */
#include <string.h>
#include <unistd.h>

#include "base/cores.h"
#include "fakecuda.h"
#include "gpu/rank/guard.h"
#include "gpu/kernels/kernels.h"
#include "gpu/copy/queue.h"
#include "gpu/copy/resident.h"
#include "gpu_device.h"

#define N_BYTES ((size_t)256 << 10)

static unsigned char sent[N_BYTES], seen[N_BYTES];

static struct gpu_data bytes_at(char *memory, size_t n_bytes)
{
    return (struct gpu_data){
        .buf = memory, .count = (int64_t)n_bytes, .extent_bytes = 1, .size_bytes = n_bytes};
}

static int copy(char *to, char *from, size_t n_bytes)
{
    struct gpu_data dst = bytes_at(to, n_bytes), src = bytes_at(from, n_bytes);

    return gpu_move_wait(&dst, &src, n_bytes);
}

/* As if +gpu service had been given. */
static void use_service(long us)
{
    gpu_resident_set(1000);
    gpu_resident_us = us;
}

/* Copies until the resident kernel has made a copy, for at most this many ms: its launch takes a while on a busy machine. */
static bool service_does(char *to, char *from, size_t n_bytes, int wait_ms)
{
    uint64_t before = gpu_resident_count(), until = ult_now_ns() + (uint64_t)wait_ms * 1000000;

    do
        ULT_CHECK(copy(to, from, n_bytes) == 0);
    while (gpu_resident_count() == before && ult_now_ns() < until);
    return gpu_resident_count() > before;
}

static void call_service(char *to, char *from)
{
    ULT_CHECK(service_does(to, from, 8, 100000));
}

/* ---- What arrives ---- */

static char *alloc_on(int device, size_t n_bytes)
{
    CUcontext context, before;
    char *made;

    cuCtxGetCurrent(&before);
    ULT_CHECK(cuDevicePrimaryCtxRetain(&context, device) == 0);
    cuCtxSetCurrent(context);
    made = device_alloc(n_bytes);
    cuCtxSetCurrent(before);
    return made;
}

static void random_copies(char *to, char *from)
{
    random_fill(sent, N_BYTES);
    device_write(from, sent, N_BYTES);
    cuMemsetD8((CUdeviceptr)to, 0, N_BYTES);
    cuCtxSynchronize();
    memset(seen, 0, N_BYTES);
    call_service(to, from);
    memcpy(seen, sent, 8);
    for (int i = 0; i < 300; i++) {
        size_t unit = (size_t)1 << random_in(0, 4), n = (size_t)random_in(1, 70000) / unit * unit;
        size_t at = (size_t)random_in(0, 100000) / unit * unit,
               from_at = (size_t)random_in(0, 100000) / unit * unit;
        ULT_CHECK(copy(to + at, from + from_at, n ? n : unit) == 0);
        memcpy(seen + at, sent + from_at, n ? n : unit);
    }
    device_read(sent, to, N_BYTES);
    ULT_CHECK(memcmp(sent, seen, N_BYTES) == 0);
}

static void all_sizes(void *arg)
{
    int n_devices = 0;

    device_open();
    use_service(1000);
    random_copies(device_alloc(N_BYTES), device_alloc(N_BYTES));
    ULT_CHECK(cuDeviceGetCount(&n_devices) == 0);
    if (n_devices > 1)
        random_copies(alloc_on(1, N_BYTES), device_alloc(N_BYTES));
}

START_TEST(copies_of_all_sizes_and_alignments_arrive)
{
    ult_job_start(1, 1, all_sizes);
}
END_TEST

/* ---- Many at a time ---- */

#define MANY 100

struct one {
    struct gpu_move move;
    bool is_done;
};
static int n_left;
static struct ult *waiting;

static void one_done(struct gpu_move *move, int error)
{
    ULT_CHECK(error == 0);
    BASE_CONTAINER(move, struct one, move)->is_done = true;
    if (--n_left == 0 && waiting)
        ult_ready(waiting);
}

static void many_at_once(void *arg)
{
    static struct one ones[MANY];
    char *from, *to;
    uint64_t before;

    device_open();
    use_service(1000);
    from = device_alloc(N_BYTES);
    to = device_alloc(N_BYTES);
    random_fill(sent, N_BYTES);
    device_write(from, sent, N_BYTES);
    for (int round = 0; round < 5; round++) {
        call_service(to, from);
        before = gpu_resident_count();
        n_left = MANY;
        waiting = NULL;
        for (int i = 0; i < MANY; i++) {
            ones[i].move.dst = bytes_at(to + 1000 * i, 1000);
            ones[i].move.src = bytes_at(from + 1000 * (MANY - 1 - i), 1000);
            ones[i].move.n_bytes = 1000;
            ones[i].move.src_skip_bytes = ones[i].move.dst_skip_bytes = 0;
            ones[i].move.done = one_done;
            ones[i].is_done = false;
            gpu_move_start(&ones[i].move);
        }
        waiting = ult_self();
        if (n_left > 0)
            ult_suspend();
        ULT_CHECK(gpu_resident_count() - before < MANY); /* the mailbox is smaller */
        device_read(seen, to, 1000 * MANY);
        for (int i = 0; i < MANY; i++)
            ULT_CHECK(ones[i].is_done && memcmp(seen + 1000 * i, sent + 1000 * (MANY - 1 - i), 1000) == 0);
    }
}

START_TEST(more_copies_than_the_mailbox_holds_arrive)
{
    ult_job_start(1, 1, many_at_once);
}
END_TEST

/* ---- Leaving ---- */

/* Pauses around the time after which it leaves: an order meets it in every state. As many as there is time
 * for: on a machine that has other things to do, each copy may wait for some threads' turns. */
static void come_and_go(void *arg)
{
    uint64_t begin = ult_now_ns();
    char *from, *to;

    device_open();
    use_service(100);
    from = device_alloc(N_BYTES);
    to = device_alloc(N_BYTES);
    random_fill(sent, N_BYTES);
    device_write(from, sent, N_BYTES);
    for (int i = 0; i < 1000 || (i < 3000 && ult_now_ns() - begin < 2000000000); i++) {
        size_t at = (size_t)i % 1000 * 8;
        uint64_t until;
        ULT_CHECK(copy(to + at, from + at, 8) == 0);
        until = ult_now_ns() + (uint64_t)random_in(0, 1) * (uint64_t)random_in(80000, 200000);
        while (ult_now_ns() < until)
            ;
    }
    device_read(seen, to, 8000);
    ULT_CHECK(memcmp(seen, sent, 8000) == 0);
    use_service(20000);
    call_service(to, from);
}

START_TEST(no_order_is_failed_when_it_leaves)
{
    ult_job_start(1, 1, come_and_go);
}
END_TEST

/* Rank 0 copies without a pause until rank 1, on another PE, has waited for the device often enough. */
static atomic_int n_waits;

static void copy_or_wait(void *arg)
{
    CUcontext context;

    device_open();
    if (self_index() == 0) {
        char *from = device_alloc(N_BYTES), *to = device_alloc(N_BYTES);
        while (atomic_load(&n_waits) < 50)
            ULT_CHECK(copy(to, from, 64) == 0);
        ULT_CHECK(gpu_resident_count() > 0);
        return;
    }
    ULT_CHECK(cuDevicePrimaryCtxRetain(&context, 0) == 0);
    for (int i = 0; i < 50; i++) {
        ULT_CHECK(cuCtxSynchronize() == 0);
        usleep(1000);
        atomic_fetch_add(&n_waits, 1);
    }
}

START_TEST(who_waits_for_the_device_has_its_turn_while_copies_go_on)
{
    use_service(4000000); /* it leaves because it has stayed for long enough, not for want of orders */
    ult_job_start(2, 2, copy_or_wait);
}
END_TEST

static void stop_copying(void *arg)
{
    char *from, *to;

    device_open();
    use_service(5000);
    from = device_alloc(N_BYTES);
    to = device_alloc(N_BYTES);
    for (int i = 0; i < 5; i++) {
        call_service(to, from);
        ULT_CHECK(cuCtxSynchronize() == 0); /* waits for the kernel: would not return if it stayed */
    }
}

START_TEST(it_leaves_when_no_more_copies_come)
{
    ult_job_start(1, 1, stop_copying);
}
END_TEST

/* ---- Sent away ---- */

/* The driver's, as the program gets it. */
static CUresult synchronize(void)
{
    CUresult (*function)(void) = (CUresult(*)(void))gpu_guard("cuCtxSynchronize", (void *)cuCtxSynchronize);

    ULT_CHECK(function != cuCtxSynchronize);
    return function();
}

static void send_away(void *arg)
{
    uint64_t before;
    char *from, *to;

    device_open();
    use_service(4000000); /* it does not leave for want of orders */
    from = device_alloc(N_BYTES);
    to = device_alloc(N_BYTES);
    random_fill(sent, N_BYTES);
    for (int i = 0; i < 20; i++) {
        device_write(from, sent + i, 8);
        do
            call_service(to, from);
        while (!gpu_resident_is_there(0));
        before = gpu_resident_times_sent_away();
        ULT_CHECK(synchronize() == 0);
        ULT_CHECK(!gpu_resident_is_there(0) && gpu_resident_times_sent_away() == before + 1);
        device_read(seen, to, 8);
        ULT_CHECK(memcmp(seen, sent + i, 8) == 0);
    }
}

START_TEST(calls_that_wait_for_the_device_send_it_away)
{
    ult_job_start(1, 1, send_away);
}
END_TEST

/* Rank 1, on another PE, evicts rank 0's kernel. */
static atomic_int step;

static void wait_for_step(int wanted)
{
    while (atomic_load(&step) < wanted)
        usleep(100);
}

static void hold_other(void *arg)
{
    char *from, *to;

    device_open();
    if (self_index() == 1) {
        wait_for_step(1);
        gpu_resident_hold(0);
        gpu_resident_hold(0);
        gpu_resident_release(0);
        atomic_store(&step, 2);
        wait_for_step(3);
        gpu_resident_release(0);
        gpu_resident_hold(1); /* another device's */
        atomic_store(&step, 4);
        return;
    }
    from = device_alloc(N_BYTES);
    to = device_alloc(N_BYTES);
    call_service(to, from);
    atomic_store(&step, 1);
    wait_for_step(2);
    ULT_CHECK(!service_does(to, from, 8, 20) && !gpu_resident_is_there(0));
    ULT_CHECK(cuCtxSynchronize() == 0);
    atomic_store(&step, 3);
    wait_for_step(4);
    call_service(to, from);
}

START_TEST(it_is_kept_away_by_other_pes)
{
    use_service(4000000);
    ult_job_start(2, 2, hold_other);
}
END_TEST

/* The handler of a copy of the resident kernel may queue more work, on a queue that no rank waits for. */
struct chained {
    struct gpu_move move;
    struct gpu_ticket ticket;
    struct gpu_queue *queue;
    bool is_done;
};

static void chain_done(struct gpu_ticket *ticket, int error)
{
    ULT_CHECK(error == 0);
    BASE_CONTAINER(ticket, struct chained, ticket)->is_done = true;
}

static void chain(struct gpu_move *move, int error)
{
    struct chained *chained = BASE_CONTAINER(move, struct chained, move);

    ULT_CHECK(error == 0);
    chained->ticket.handle = chain_done;
    gpu_queue_then(chained->queue, &chained->ticket);
}

static void queue_in_handler(void *arg)
{
    char *from, *to;
    int error = 0;

    device_open();
    from = device_alloc(N_BYTES);
    to = device_alloc(N_BYTES);
    for (int i = 0; i < 10; i++) {
        struct chained chained = {.queue = gpu_queue_of(0, GPU_STREAM_IN, &error)};
        uint64_t until_ns = ult_now_ns() + 100000000000;
        ULT_CHECK(chained.queue != NULL);
        call_service(to, from);
        chained.move =
            (struct gpu_move){.dst = bytes_at(to, 8), .src = bytes_at(from, 8), .n_bytes = 8, .done = chain};
        gpu_move_start(&chained.move);
        while (!chained.is_done && ult_now_ns() < until_ns)
            ult_progress();
        ULT_CHECK(chained.is_done);
        if (!chained.is_done)
            return;
    }
}

START_TEST(handlers_may_queue_more)
{
    use_service(1000);
    ult_job_start(1, 1, queue_in_handler);
}
END_TEST

/* Small copies that come densely go straight from place to place (gpu_queue_copy_local), also if most of them
 * were the kernel's. */
static void none_but_it(void *arg)
{
    char *from, *to;
    uint64_t until_ns = ult_now_ns() + 100000000000; /* on a busy machine they may not be dense for a while */
    int before, n_copies;

    device_open();
    use_service(4000000);
    from = device_alloc(N_BYTES);
    to = device_alloc(N_BYTES);
    do {
        for (int i = 0; i < 100; i++)
            call_service(to, from);
        gpu_resident_hold(0);
        ULT_CHECK(cuCtxSynchronize() == 0);
        before = fakecuda_calls("cuMemcpyAsync");
        ULT_CHECK(copy(to, from, 64) == 0);
        n_copies = fakecuda_calls("cuMemcpyAsync") - before;
        gpu_resident_release(0);
    } while (n_copies != 1 && ult_now_ns() < until_ns);
    ULT_CHECK(n_copies == 1);
}

START_TEST(copies_beside_it_go_as_without_it)
{
    if (fakecuda_is_here() && base_usable_cores() > 1) /* on one core the kernel and its orders take turns */
        ult_job_start(1, 1, none_but_it);
}
END_TEST

/* Two copies between two calls: to come for them costs more than it saves. */
static void in_vain(void *arg)
{
    char *from, *to;

    device_open();
    use_service(4000000);
    from = device_alloc(N_BYTES);
    to = device_alloc(N_BYTES);
    for (int i = 0; i < 200; i++) {
        ULT_CHECK(copy(to, from, 64) == 0);
        ULT_CHECK(copy(to, from, 64) == 0);
        ULT_CHECK(synchronize() == 0);
    }
    ULT_CHECK(fakecuda_calls("cuLaunchKernel") > 1 && fakecuda_calls("cuLaunchKernel") < 20);
    call_service(to, from);
}

START_TEST(it_seldom_comes_where_it_is_sent_away_at_once)
{
    if (fakecuda_is_here())
        ult_job_start(1, 1, in_vain);
}
END_TEST

/* ---- Other ways ---- */

static void full(void *arg)
{
    uint64_t until_ns = ult_now_ns() + 30000000000; /* on a busy machine they may not be dense for a while */
    char *from, *to;

    device_open();
    use_service(1000);
    from = device_alloc(N_BYTES);
    to = device_alloc(N_BYTES);
    fakecuda_hold_kernels(true);
    for (int i = 0; i < 100 || (fakecuda_calls("cuLaunchKernel") == 0 && ult_now_ns() < until_ns); i++)
        ULT_CHECK(copy(to, from, 64) == 0);
    ULT_CHECK(gpu_resident_count() == 0 && fakecuda_calls("cuLaunchKernel") == 1);
    fakecuda_hold_kernels(false);
    call_service(to, from);
}

START_TEST(while_the_gpu_is_full_copies_go_another_way)
{
    if (fakecuda_is_here())
        ult_job_start(1, 1, full);
}
END_TEST

static void rare(void *arg)
{
    char *from, *to;

    device_open();
    use_service(10);
    from = device_alloc(N_BYTES);
    to = device_alloc(N_BYTES);
    for (int i = 0; i < 20; i++) {
        ULT_CHECK(copy(to, from, 64) == 0);
        usleep(1000);
    }
    ULT_CHECK(gpu_resident_count() == 0);
    ULT_CHECK(!fakecuda_is_here() || fakecuda_calls("cuLaunchKernel") == 0);
}

START_TEST(it_is_not_called_for_copies_now_and_then)
{
    ult_job_start(1, 1, rare);
}
END_TEST

/* Memory of another context of the device would be a fault of the kernel, which breaks the context. */
static void out_of_reach(void *arg)
{
    char *from, *foreign, *pooled, *to;
    CUcontext primary, other;
    CUdeviceptr memory = 0;
    CUdevice device;

    device_open();
    use_service(1000);
    from = device_alloc(N_BYTES);
    to = device_alloc(N_BYTES);
    ULT_CHECK(cuMemAllocAsync(&memory, N_BYTES, NULL) == 0);
    ULT_CHECK(cuStreamSynchronize(NULL) == 0);
    pooled = (char *)memory;
    cuCtxGetCurrent(&primary);
    ULT_CHECK(cuDeviceGet(&device, 0) == 0);
    ULT_CHECK(cuCtxCreate(&other, NULL, 0, device) == 0);
    foreign = device_alloc(N_BYTES);
    ULT_CHECK(cuCtxSetCurrent(primary) == 0);
    call_service(to, from);
    ULT_CHECK(service_does(to, pooled, 100, 100000));
    ULT_CHECK(!service_does(to, foreign, 100, 20));
    ULT_CHECK(!service_does(foreign, from, 100, 20));
    ULT_CHECK(!service_does(to, from, GPU_RESIDENT_MAX + 1, 20));
    ULT_CHECK(service_does(to, from, GPU_RESIDENT_MAX, 100000));
    ULT_CHECK(!service_does(to + 8, from, GPU_RESIDENT_MAX, 20));
    ULT_CHECK(cuCtxSynchronize() == 0);
}

START_TEST(what_it_cannot_reach_goes_another_way)
{
    ult_job_start(1, 1, out_of_reach);
}
END_TEST

static void broken(void *arg)
{
    char *from, *to;

    device_open();
    use_service(1000);
    from = device_alloc(N_BYTES);
    to = device_alloc(N_BYTES);
    call_service(to, from);
    fakecuda_break_context(CUDA_ERROR_ILLEGAL_ADDRESS);
    for (int i = 0; i < 10000 && copy(to, from, 64) == 0; i++)
        ;
    ULT_CHECK(copy(to, from, 64) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

START_TEST(after_a_failed_kernel_copies_fail)
{
    if (fakecuda_is_here())
        ult_job_start(1, 1, broken);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_resident");
    TCase *tcase = tcase_create("service");

    tcase_set_timeout(tcase, 200);
    tcase_add_test(tcase, copies_of_all_sizes_and_alignments_arrive);
    tcase_add_test(tcase, more_copies_than_the_mailbox_holds_arrive);
    tcase_add_test(tcase, no_order_is_failed_when_it_leaves);
    tcase_add_test(tcase, who_waits_for_the_device_has_its_turn_while_copies_go_on);
    tcase_add_test(tcase, it_leaves_when_no_more_copies_come);
    tcase_add_test(tcase, calls_that_wait_for_the_device_send_it_away);
    tcase_add_test(tcase, it_is_kept_away_by_other_pes);
    tcase_add_test(tcase, handlers_may_queue_more);
    tcase_add_test(tcase, copies_beside_it_go_as_without_it);
    tcase_add_test(tcase, it_seldom_comes_where_it_is_sent_away_at_once);
    tcase_add_test(tcase, while_the_gpu_is_full_copies_go_another_way);
    tcase_add_test(tcase, it_is_not_called_for_copies_now_and_then);
    tcase_add_test(tcase, what_it_cannot_reach_goes_another_way);
    tcase_add_test(tcase, after_a_failed_kernel_copies_fail);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
