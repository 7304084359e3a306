/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that many copies by one kernel write exactly their bytes: 1 to 400 copies, of sizes and alignments of
 * all kinds, on one GPU and between two; that memory a kernel cannot use is refused; and that an error is
 * reported once.
 */
#include <string.h>

#include "fakecuda.h"
#include "gpu_device.h"

#define N_MAX 400
#define ROOM ((size_t)1 << 20)

struct started {
    struct gpu_copies copies;
    struct ult *u;
    int n_done;
    int error;
};

static void done(struct gpu_copies *copies, int error)
{
    struct started *started = BASE_CONTAINER(copies, struct started, copies);

    started->n_done++;
    started->error = error;
    ult_ready(started->u);
}

static int run(const struct gpu_copy *list, int n, int device)
{
    struct started started = {.copies = {.copies = list, .n = n, .device = device, .done = done},
                              .u = ult_self()};
    int error = gpu_copies_start(&started.copies);

    if (error)
        return error;
    ult_suspend();
    ULT_CHECK(started.n_done == 1);
    return started.error;
}

static char *alloc_on(int device)
{
    CUcontext context, before;
    char *made;

    ULT_CHECK(cuCtxGetCurrent(&before) == CUDA_SUCCESS);
    ULT_CHECK(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
    ULT_CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    made = device_alloc(ROOM);
    ULT_CHECK(cuCtxSetCurrent(before) == CUDA_SUCCESS);
    return made;
}

/* n copies of up to most bytes each, side by side at the destination, anywhere at the source. */
static void check(char *to, char *from, int device, int n, int64_t most)
{
    static unsigned char source[ROOM], want[ROOM], seen[ROOM];
    struct gpu_copy list[N_MAX];
    size_t at = (size_t)random_in(0, 20);
    struct gpu_known known = {0};

    random_fill(source, ROOM);
    random_fill(want, ROOM);
    device_write(from, source, ROOM);
    device_write(to, want, ROOM);
    for (int i = 0; i < n; i++) {
        size_t n_bytes = (size_t)random_in(1, most), skip = (size_t)random_in(0, (int64_t)(ROOM - n_bytes));
        if (random_bits() % 2) { /* aligned alike */
            at = base_round_up(at, 16);
            skip = skip / 16 * 16;
        }
        list[i] = (struct gpu_copy){to + at, from + skip, n_bytes};
        ULT_CHECK(gpu_copies_can(device, &list[i], NULL, NULL, &known));
        memcpy(want + at, source + skip, n_bytes);
        at += n_bytes + (size_t)random_in(0, 3);
    }
    ULT_CHECK(at <= ROOM);
    ULT_CHECK(run(list, n, device) == 0);
    device_read(seen, to, ROOM);
    ULT_CHECK(memcmp(seen, want, ROOM) == 0);
}

static void copies(void *arg)
{
    char *to, *from[2];
    int n_devices = 1;

    device_open();
    ULT_CHECK(cuDeviceGetCount(&n_devices) == CUDA_SUCCESS);
    to = alloc_on(0);
    from[0] = alloc_on(0);
    from[1] = alloc_on(n_devices > 1);
    for (int k = 0; k < 2; k++) {
        check(to, from[k], 0, 1, 100000);
        check(to, from[k], n_devices > 1 && k, 7, 100000);
        check(to, from[k], 0, 3, 5);
        check(to, from[k], 0, N_MAX, 2000);
    }
}

START_TEST(many_copies_at_once)
{
    ult_job_start(1, 1, copies);
}
END_TEST

static bool can(const struct gpu_copy *copy)
{
    struct gpu_known known = {0};

    return gpu_copies_can(0, copy, NULL, NULL, &known);
}

static void refused(void *arg)
{
    char *to, host[16] = "";
    struct gpu_copy copy;

    device_open();
    to = alloc_on(0);
    copy = (struct gpu_copy){to, host, sizeof host};
    ULT_CHECK(!can(&copy));
    copy = (struct gpu_copy){to, to + 4096, 16};
    ULT_CHECK(can(&copy));
    if (fakecuda_is_here()) {
        fakecuda_fail("cuLaunchKernel", 1, CUDA_ERROR_UNKNOWN);
        ULT_CHECK(run(&copy, 1, 0) == CUDA_ERROR_UNKNOWN);
        ULT_CHECK(run(&copy, 1, 0) == 0);
    }
    ULT_CHECK(cuMemFree((CUdeviceptr)to) == CUDA_SUCCESS);
    ULT_CHECK(!can(&copy));
}

START_TEST(what_cannot_be_copied)
{
    ult_job_start(1, 1, refused);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_copies");
    TCase *tcase = tcase_create("copies");

    tcase_set_timeout(tcase, 200);
    tcase_add_test(tcase, many_copies_at_once);
    tcase_add_test(tcase, what_cannot_be_copied);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
